# SPDX-License-Identifier: MIT
"""What the Python programs share: the JSON line about what they hold, and the wait for a line on stdin."""
import json
import os
import sys


def report(name, device_live, host_live, managed_live, fails, fail_bytes, fail_functions, tolerance=0, why=""):
    """None in the place of a figure: the program does not know it, so it is not compared."""
    print(json.dumps({
        "name": name, "pid": os.getpid(), "device_live": device_live, "host_live": host_live,
        "managed_live": managed_live, "fails": fails, "fail_bytes": fail_bytes, "fail_functions": fail_functions,
        "device_tolerance": tolerance, "why": why}), flush=True)
    sys.stdin.readline()
