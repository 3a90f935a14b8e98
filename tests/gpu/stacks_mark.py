# SPDX-License-Identifier: MIT
"""What the programs of stacks.sh say of themselves: which allocation was made on which line, by which Python frames.

Each mark is one JSON line at the end of the file $STACKS_EXPECT, which all processes of a program share. A mark stands
in the expression that allocates, on the same line, so that traceback and the probe mean the same line:

    x = torch.empty(at(SIZE, SIZE), dtype=torch.uint8, device="cuda")
"""
import json
import os
import sys
import threading
import time
import traceback

MIB = 1 << 20
PATH = os.environ.get("STACKS_EXPECT") or os.devnull
armed = True  # marks count only while it is set: programs warm up before


def segment(size):
    """What PyTorch's own allocator asks the driver for, to have room for so many bytes (10 MiB at least)."""
    return (size + 2 * MIB - 1) // (2 * MIB) * (2 * MIB)


def frames_of(frame):
    """Innermost first, as traceback has them: [qualified function, file, line]."""
    return [[getattr(f.f_code, "co_qualname", f.f_code.co_name), f.f_code.co_filename, line]
            for f, line in traceback.walk_stack(frame)]


def write(mark):
    with open(PATH, "a", encoding="utf-8") as f:
        f.write(json.dumps(mark) + "\n")


def expect(size, frames, mode="equal", **more):
    """
    size: GPUXRAY_BYTES of the record, None = any. mode: "equal", all Python frames are these; "outer", the outermost
    ones are these, and below them lies a library's code; "native", no Python frames. more: see stacks_compare.py.
    """
    write(dict({"pid": os.getpid(), "tid": threading.get_native_id(), "bytes": size, "frames": frames, "mode": mode,
                "event": "single_alloc", "us": time.time_ns() // 1000}, **more))


def at(value, size, mode="equal", **more):
    """Marks the line that it stands on, and returns value."""
    if armed:
        expect(size, frames_of(sys._getframe(1)), mode, **more)
    return value


def quiet():
    """From now on this process makes no allocation that is recorded."""
    time.sleep(0.2)
    write({"pid": os.getpid(), "mode": "quiet", "us": time.time_ns() // 1000})


def finish(**facts):
    """Says that all is done, and holds everything until stdin has a line or ends."""
    print(json.dumps(dict({"done": True, "pid": os.getpid()}, **facts)), flush=True)
    sys.stdin.readline()


def give_up(why):
    """For what cannot run on this machine: no failure, but shown as not run."""
    print(json.dumps({"not_run": str(why).strip().replace("\n", " ")[:300]}), flush=True)
    sys.exit(0)
