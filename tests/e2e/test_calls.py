#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Calls that are not built in: a framework's own allocator in books of its own, rows of the configuration, what is new."""
import os
import re

import harness as h

PYTORCH = 'trace_frameworks = [ "pytorch" ];\n'
CACHE = "c10::cuda::CUDACachingAllocator::Native::"
# The same by hand, and the allocation by the function that calls the other one too.
ROWS = f"""calls = (
  {{ library = "libc10_*.so*"; symbol = "{CACHE}NativeCachingAllocator::malloc(*"; op = "alloc"; address = "*arg1";
     bytes = "arg3"; device = "arg2"; result = "none"; }},
  {{ library = "libc10_*.so*"; symbol = "{CACHE}NativeCachingAllocator::raw_alloc*"; op = "alloc"; address = "result";
     bytes = "arg1"; }},
  {{ library = "libc10_*.so*"; symbol = "*NativeL16local_raw_deleteEPv"; op = "free"; address = "arg0"; }},
  {{ library = "libc10_*.so*"; symbol = "*::NativeCachingAllocator::free(void*)"; op = "free"; address = "arg1"; }},
  {{ library = "libc10_*.so*"; symbol = "*::raw_delete"; op = "free"; address = "arg1"; result = "none"; }}
);
"""
ALLOCATOR = h.FAKE + "/libc10_cuda.so"


def library(d, path=ALLOCATOR):
    return next((lib for lib in d.status()["libraries"] if lib["path"] == path), None)


def start(case, d, *args, **kw):
    """A workload whose allocator is probed before it is used."""
    w = case.work("work_tensor", *args, **kw)
    w.next("loaded")
    h.poll(lambda: library(d), 10, "the allocator's library in the status")
    return w


def check(case, d, w, label, what):
    """Both books against both ledgers."""
    tensors, ledger = w.next("tensors-" + label, 40), w.next(label)
    p = d.wait_process(w.pid)
    h.check_books(case, p, ledger, what)
    for k in ("framework_bytes", "framework_live_count", "framework_alloc_count", "framework_free_count"):
        if k == "framework_bytes" or k in p:
            case.equal(p.get(k), tensors[k], f"{what}: {k}")
    return p, tensors, ledger


def check_counters(case, d, returns_missed=0):
    c = d.status()["counters"]
    for k in ("lost_events", "thread_state_failures", "process_map_full", "live_map_full"):
        case.equal(c[k], 0, f"counter {k}")
    case.equal(c["returns_missed"], returns_missed, "counter returns_missed")


def books(case, options, config, mode, found):
    d = case.daemon(*options, config=config + 'limits = { records_per_minute = 100000; ring_bytes = "64MiB"; };\n')
    case.equal(d.status()["probes"], mode, "way of attaching")
    for seed in (1, 2) if mode == "uprobe_multi" else (1,):
        w = start(case, d, "random", f"--seed={seed}")
        case.equal(library(d)["calls_found"], found, "functions probed")
        w.go()
        _, tensors, ledger = check(case, d, w, "half", f"seed {seed}, half way")
        case.check(tensors["framework_alloc_count"] > 900 and ledger["alloc_count"] > 5 and ledger["free_count"] > 0,
                   f"too thin to prove anything: {tensors} {ledger}")
        w.go()
        check(case, d, w, "end", f"seed {seed}, at the end")
        w.end()
        d.wait_gone(w.pid)
    check_counters(case, d)
    d.stop(80)  # the kernel takes 100 ms to let go of one perf uprobe


@h.test("PyTorch's allocator by name: tensors and segments, both to the byte (uprobe_multi)")
def pytorch_multi(case):
    h.need_multi()
    books(case, (), PYTORCH, "uprobe_multi", 4)


@h.test("PyTorch's allocator by name: tensors and segments, both to the byte (perf uprobes)",
        uses=["perf uprobes"], seconds=25)
def pytorch_perf(case):
    books(case, ("--perf-uprobes",), PYTORCH, "perf", 4)


@h.test("the same by rows of the configuration; a call within another one counts once")
def rows(case):
    books(case, (), ROWS, "uprobe_multi" if multi() else "perf", 5)


def multi():
    try:
        h.need_multi()
        return True
    except h.Skip:
        return False


@h.test("without rows the allocator is not touched, and the driver's books are the same")
def nothing_asked(case):
    d = case.daemon()
    w = case.work("work_tensor", "hold")
    w.next("loaded")
    w.go()
    w.next("tensors-hold")
    ledger = w.next("hold")
    p = d.wait_process(w.pid)
    h.check_books(case, p, ledger, "books")
    case.equal(p["framework_bytes"], 0, "framework bytes")
    case.equal(library(d), None, "the allocator's library")
    w.end()
    d.stop()


@h.test("a process that was there before: its library is found, its old tensors are no error")
def late(case):
    w = case.work("work_tensor", "random", "--seed=5")
    w.next("loaded")
    w.go()
    half = w.next("tensors-half")
    w.next("half")
    d = case.daemon(config=PYTORCH)
    case.check(library(d), "the allocator's library is not found")
    w.go()
    end = w.next("tensors-end", 30)
    p = d.wait_process(w.pid, lambda p: p["framework_bytes"] > 0)
    made = end["framework_alloc_count"] - half["framework_alloc_count"]
    case.equal(p.get("framework_alloc_count", made), made, "tensors made since")
    case.check(0 < p["framework_bytes"] <= end["framework_bytes"], f"{p['framework_bytes']} of {end['framework_bytes']}")
    w.end()
    d.stop()


@h.test("memory is short: the exception passes the probed function, the process lives, the books are exact")
def short(case):
    d = case.daemon(config=PYTORCH)
    w = start(case, d, "short")
    w.go()
    _, tensors, _ = check(case, d, w, "short", "after four exceptions")
    case.equal(tensors["throws"], 4, "exceptions")
    w.end()
    check_counters(case, d, returns_missed=4)
    d.stop()


@h.test("a rule for class framework fires with the stack of the tensor's maker, and none for device bytes")
def rule(case):
    rules = """version = 1;
rules = (
  { name = "tensors"; kind = "live_bytes"; scope = "process"; class = "framework"; fire_above = "6MiB"; for = "0s"; },
  { name = "device"; kind = "live_bytes"; scope = "process"; fire_above = "21MiB"; for = "0s"; },
  { name = "tensor"; kind = "single_alloc"; class = "framework"; fire_above = "2MiB"; }
);
"""
    d = case.daemon(rules=rules, config=PYTORCH)
    w = start(case, d, "hold", "--blocks=4", "--bytes=2MiB")
    w.go()
    check(case, d, w, "hold", "books")
    r = d.wait_record(w.pid, rule="tensors", state="firing")
    for name in ("tensor_empty", "hold"):
        case.contains(r.get("GPUXRAY_STACK"), name + "+0x", "stack")
    case.equal(d.records(w.pid, rule="device"), [], "records of the rule for device bytes")
    w.end()
    d.stop()


@h.test("wrong rows: file, line and cure, and nothing starts")
def wrong(case):
    config = """calls = (
  { library = "libx.so"; symbol = "f"; op = "alloc"; address = "*arg0"; bytes = "arg6"; },
  { symbol = "f"; op = "free"; address = "arg0"; },
  { library = "libx.so"; symbol = "g"; op = "free"; address = "arg0"; class = "tensor"; }
);
trace_frameworks = [ "tensorflow" ];
"""
    path = case.write("bad.conf", config)
    r = h.run(h.GPUXRAY, "run", "--config", path, "--rules", case.write("rules.conf", h.QUOTA_RULE))
    case.equal(r.returncode, 1, "exit status")
    for line, words in ((2, "bytes.*arg6.*arg0 to arg5"), (3, "no library: add"), (4, "class.*tensor.*framework"),
                        (6, "tensorflow.*pytorch")):
        case.check(re.search(rf"bad\.conf:{line}: .*{words}", r.stderr), f"line {line}: {r.stderr!r}")
    case.equal(h.run(h.GPUXRAY, "check", "--config", path).returncode, 1, "exit status of check")


@h.test("a row that fits nothing in its file is told, with the place where it was written")
def no_match(case):
    d = case.daemon(config=PYTORCH + 'calls = (\n{ library = "libc10_cuda.so"; symbol = "no_such_function"; op = "free"; '
                    'address = "arg0"; } );\n')
    w = start(case, d, "hold")
    d.wait_stderr(r"libc10_cuda\.so: no function in it for these calls of the configuration: \S*daemon-1\.conf:3")
    w.go()
    check(case, d, w, "hold", "books")
    w.end()
    d.stop()


@h.test("a driver with calls that are new: told once, and in the status")
def new_calls(case):
    newer = case.path("newer")
    os.mkdir(newer)
    # A real one has its new names among the others; here the stand-in gets one that nobody knows, of the same length.
    with open(h.LIBCUDA, "rb") as f:
        data = f.read()
    old = b"\0cuMemGetInfo_v2\0"
    case.check(old in data, "the stand-in has no cuMemGetInfo_v2")
    path = newer + "/libcuda.so.1"
    with open(path, "wb") as f:
        f.write(data.replace(old, b"\0cuMemGetMore_v2\0"))
    d = case.daemon(library=path)
    d.wait_stderr(r"newer/libcuda\.so\.1: 1 memory calls that this version does not know and does not count: cuMemGetMore_v2")
    lib = library(d, path)
    case.equal(lib["unknown_calls"], 1, "unknown calls")
    case.check((lib["unknown_names"] or "").startswith("cuMemGetMore_v2"), f"names: {lib['unknown_names']}")
    case.equal(d.stderr().count("does not know"), 1, "times it is told")
    d.stop()
    d = case.daemon()
    case.equal(library(d, h.LIBCUDA)["unknown_calls"], 0, "unknown calls of the stand-in itself")
    d.stop()


if __name__ == "__main__":
    h.main()
