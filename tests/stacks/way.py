# SPDX-License-Identifier: MIT
"""way.py KEY EXPECTED LIBCUDA [MODE]: an allocation, from wherever this is run.

MODE: exit: a second one, and it ends at once; raise: the same, but as programs end that run out of memory; late: the
same after a while; none: waits for the test after the first.
"""
import os
import sys
import time

import oracle
from oracle import hit


def inner(case, **more):
    hit(case, **more)


class Way:
    def go(self, case, **more):
        list(map(lambda x: inner(case, **more), [1]))


def last_call(mode):
    for is_last in (False, True):
        if is_last:  # what is expected is written before: nothing comes after the call
            oracle.expected[0]["bytes"] += 1
            oracle.write()
        Way().go(mode, first=True)
    if mode == "exit":
        os._exit(0)


def main():
    mode = sys.argv[4] if len(sys.argv) > 4 else ""
    if mode != "exit":  # as programs have work to do between loading the driver and the first allocation
        time.sleep(0.5)
    if mode in ("exit", "raise"):
        last_call(mode)
    elif mode == "late":
        Way().go("late")
        Way().go("late, right after")
        oracle.write()
        time.sleep(0.5)
    else:
        Way().go("first")
        oracle.ask("first")
        Way().go("way")
        oracle.write()
        oracle.ask("end")
        return
    raise MemoryError("no device has so much")


main()
