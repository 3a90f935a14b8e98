#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""On 64-bit Arm: stacks with and without frame pointers, with signed return addresses, and of Python. Runs in the emulated
machine, among the end-to-end tests."""
import sys

import harness as h
import stacks as s

CHAIN = ["cuMemAlloc_v2", "stack_alloc", "chain_c", "chain_b", "chain_a", "run", "main", *s.START]
SCRIPT = """import ctypes
cuda = ctypes.CDLL(%r)
address = ctypes.c_uint64()
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
def inner(n):
    cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(n))
def outer(n):
    inner(n)
import threading
outer(%d)
t = threading.Thread(target=outer, args=(%d,))
t.start()
t.join()
input()
"""


@h.test("arm64: a C chain with frame pointers, without, and with signed return addresses")
def chains(case):
    w = s.Watch(case)
    for name, options in (("nofp/native", []), ("fp/native", ["-fno-omit-frame-pointer"]),
                          ("signed/native", ["-mbranch-protection=standard"]),
                          ("o3/native", ["-O3", "-mbranch-protection=pac-ret+leaf"])):
        path = s.c_program(name, "native.c", options=options)
        p = w.start(path, "chain")
        said = p.next("stack", 60)
        stack = w.failed(p)
        s.check_chain(case, stack, CHAIN, name)
        s.check_opinion(case, stack, said, path, name)
        p.next("done", 60)
        p.end()
    w.stop()


@h.test("arm64: frames of variable size, a signal handler and what it interrupted, a thread, a forked child")
def hard(case):
    w = s.Watch(case)
    path = s.c_program("nofp/native", "native.c")
    thread = ["thread_main", *s.THREAD]
    alloc = CHAIN[:3]
    for name, chain in (("variable", [*CHAIN[:5], *["variable_frame"] * 4, "case_variable", *CHAIN[5:]]),
                        ("signal", [*alloc, "on_signal", r"\[vdso\]|__kernel_rt_sigreturn", "interrupted", "with_signal",
                                    "case_signal", *CHAIN[5:]]),
                        ("thread", [*CHAIN[:4], "in_thread", *thread]),
                        ("fork", [*CHAIN[:4], "case_fork", *CHAIN[5:]]),
                        ("thread-fork", [*CHAIN[:4], "case_fork", "in_thread_fork", *thread])):
        p = w.start(path, name)
        said = p.next("stack", 60)
        stack = w.failed(p)
        s.check_chain(case, stack, chain, name)
        s.check_opinion(case, stack, said, path, name)
        if "fork" in name:
            p.go()
        p.next("done", 60)
        p.end()
    w.stop()


@h.test("arm64: lines of Python, in the first thread and in another")
def python(case):
    w = s.Watch(case)
    sizes = (s.FAIL_BYTES + 77, s.FAIL_BYTES + 78)
    script = case.write("job.py", SCRIPT % (h.LIBCUDA, *sizes))
    p = h.Process(case, "python", [sys.executable, script], stdin=h.subprocess.PIPE)
    for size, last in zip(sizes, ("<module>", "Thread.run")):
        stack = w.stack(size, 30)
        lines = [str(f) for f in stack.frames if f and f.is_python]
        case.equal(lines[:2], [f"inner ({script}:8)", f"outer ({script}:10)"], f"Python frames: {stack.text()}")
        case.check(len(lines) > 2 and lines[2].startswith(last + " ("), f"{last}: {stack.text()}")
        case.equal(stack.info, None, f"GPUXRAY_STACK_INFO: {stack.text()}")
    p.kill()
    w.stop()
