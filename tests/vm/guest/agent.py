#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs the checks of the emulated machine and writes TAP to its second serial line, then powers it off.

/etc/gpuxray-vm/plan has the kernel's series, whether to keep the machine, and words that names of tests must have."""
import json
import os
import sys
import time
import traceback

import vm
import check_boot  # noqa: F401  tests run in the order of these lines
import check_trace  # noqa: F401
import check_rules  # noqa: F401
import check_unit  # noqa: F401
import check_loss  # noqa: F401
import check_disturb  # noqa: F401
import check_calls  # noqa: F401

LINE = "/dev/ttyS1"


def one(test):
    """Whether it is good, and lines to say about it."""
    case = vm.Case()
    began = time.monotonic()
    try:
        vm.wait_active(120)
        test.fn(case)
    except vm.Failure as e:
        case.problems.append(str(e))
    except Exception:
        case.problems.append(traceback.format_exc())
    case.close()
    lines = [f"{time.monotonic() - began:.1f} s", *case.figures, *case.problems]
    if case.problems:
        lines += ["the end of the log:", *vm.log_of("gpuxray").splitlines()[-15:]]
    return not case.problems, lines


def main():
    with open("/etc/gpuxray-vm/plan") as f:
        plan = json.load(f)
    tests = [t for t in vm.tests if not t.kernels or plan["kernel"] in t.kernels]
    if plan["words"]:
        tests = [t for t in tests if any(w.lower() in t.name.lower() for w in plan["words"])]
    with open(LINE, "w", buffering=1) as out:
        print(f"# linux {os.uname().release}, up {time.clock_gettime(time.CLOCK_BOOTTIME):.0f} s", file=out)
        for i, t in enumerate(tests, 1):
            good, lines = one(t)
            print(f"{'ok' if good else 'not ok'} {i} - {t.name}", file=out)
            for text in lines:
                for line in text.splitlines():
                    print(f"# {line[:600]}", file=out)
        print(f"1..{len(tests)}", file=out)
    os.sync()
    if not plan["keep"]:
        vm.run("systemctl", "poweroff", "--force", "--force")


if __name__ == "__main__":
    sys.exit(main())
