# SPDX-License-Identifier: MIT
"""Allocations from Python, and what the interpreter itself says of the stack at each. Takes KEY EXPECTED LIBCUDA."""
import ctypes
import json
import os
import sys
import threading
import traceback

FAIL_BYTES = 1 << 50

key = int(sys.argv[1])
lib = ctypes.CDLL(sys.argv[3])  # releases the interpreter lock around calls
held = ctypes.PyDLL(sys.argv[3])  # keeps it
pointer = ctypes.c_uint64()
for dll in (lib, held):
    dll.cuMemAlloc_v2.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
expected = []
lock = threading.Lock()
last = 0
answers = os.dup(0)  # multiprocessing closes the other


def say(label):
    os.write(1, (json.dumps(dict(label=label, pid=os.getpid())) + "\n").encode())


def ask(label):
    """Says that it is there, and waits for the test."""
    say(label)
    while os.read(answers, 1) not in (b"\n", b""):
        pass


def number():
    global last
    with lock:
        last += 1
        return last


def size(n):
    return FAIL_BYTES + (key << 20) + n


def frames_here():
    """The caller's stack, innermost first, as traceback has it but with qualified names."""
    found = []
    for frame, line in traceback.walk_stack(sys._getframe(1)):
        code = frame.f_code
        found.append([getattr(code, "co_qualname", code.co_name), code.co_filename, line])
    return found


def note(case, n, frames, more):
    with lock:
        expected.append(dict(case=case, bytes=size(n), pid=os.getpid(), frames=frames, **more))


# In one expression, so that the innermost frame is on one line for both. A context is not needed: it fails in any case.
def hit(case, dll=lib, **more):
    n = number()
    note(case, dll.cuMemAlloc_v2(ctypes.addressof(pointer), size(n)) and n, frames_here(), more)


def write(suffix=""):
    with open(sys.argv[2] + suffix + ".new", "w") as f:
        json.dump(dict(version=sys.hexversion, calls=expected), f)
    os.rename(sys.argv[2] + suffix + ".new", sys.argv[2] + suffix)
