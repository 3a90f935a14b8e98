#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""AMD's HIP and Level Zero on their stand-ins: the books against the workloads' own ledgers, to the byte."""
import harness as h

LIBHIP = h.FAKE + "/libamdhip64.so.6"
LIBZE = h.FAKE + "/libze_loader.so.1"
SEEDS = (1, 2, 3)
RULES = """version = 1;
rules = (
  { name = "quota"; kind = "live_bytes"; scope = "process"; fire_above = "100MiB"; resolve_below = "80MiB"; for = "0s";
    keep_firing_for = "0s"; severity = "critical"; },
  { name = "oom"; kind = "alloc_failure"; count = 1; window = "1m"; severity = "error"; }
);
"""


def check_counters(case, d):
    """Nothing was overlooked on the way."""
    c = d.status()["counters"]
    for k in ("lost_events", "thread_state_failures", "process_map_full", "live_map_full", "returns_missed", "object_map_full"):
        case.equal(c[k], 0, f"counter {k}")


def ledgers(case, program, library, options, mode, may_be_unknown):
    d = case.daemon(*options, library=library, config='limits = { records_per_minute = 100000; ring_bytes = "64MiB"; };')
    case.equal(d.status()["probes"], mode, "way of attaching")
    for seed in SEEDS:
        w = case.work(program, f"--seed={seed}")
        half = w.next("pause", 30)
        h.check_books(case, d.wait_process(w.pid), half, f"seed {seed}, half way", may_be_unknown)
        w.go()
        end = w.next("end", 30)
        h.check_books(case, d.wait_process(w.pid), end, f"seed {seed}, at the end", may_be_unknown)
        case.check(half["alloc_count"] > 500 and end["fail_count"] > 0 and end["free_fail_count"] > 0,
                   f"seed {seed}: the ledger is too thin to prove anything: {end}")
        w.end()
        d.wait_gone(w.pid)
    check_counters(case, d)
    if mode != "perf":  # the kernel takes 100 ms to let go of one perf uprobe: nothing new is seen by waiting for hundreds
        d.stop()


def full(case, program, library, function, name):
    d = case.daemon(library=library, rules=RULES)
    w = case.work(program, "full", env={"FAKE_GPU_BYTES": str(8 * h.GIB)})
    ledger = w.next("full")
    h.check_books(case, d.wait_process(w.pid), ledger, "full", may_be_unknown=program == "work_ze")
    case.equal(ledger["live_bytes"], 8 * h.GIB, "the ledger itself")
    r = d.wait_record(w.pid, event="alloc_failure")
    case.equal(r["GPUXRAY_FUNCTION"], function, "function")
    case.equal(r["GPUXRAY_ERROR"], name, "error")
    case.contains(r["MESSAGE"], name, "message")
    case.equal(r["GPUXRAY_BYTES"], str(h.GIB), "bytes")
    case.contains(r["MESSAGE"], function, "message")
    quota = d.wait_record(w.pid, event="live_bytes", state="firing")
    case.contains(quota["GPUXRAY_STACK"], "fill", "stack of the allocation that crossed the bound")
    w.end()
    d.stop()
    return r


@h.test("HIP: every class, count, failure and device, to the byte (uprobe_multi)")
def hip_multi(case):
    h.need_multi()
    ledgers(case, "work_hip", LIBHIP, (), "uprobe_multi", False)


@h.test("HIP: every class, count, failure and device, to the byte (perf uprobes)", uses=["perf uprobes"], seconds=25)
def hip_perf(case):
    ledgers(case, "work_hip", LIBHIP, ("--perf-uprobes",), "perf", False)


@h.test("HIP: a full device is an alloc_failure with HIP's names and the card's own number")
def hip_full(case):
    r = full(case, "work_hip", LIBHIP, "hipMalloc", "2 hipErrorOutOfMemory")
    case.equal(r["GPUXRAY_DEVICE"], "GPU-fa4e00006b1d429c", "device")


@h.test("HIP: a thread that chooses no device is on the first, whatever others have chosen")
def hip_threads(case):
    d = case.daemon(library=LIBHIP)
    w = case.work("work_hip", "threads")
    ledger = w.next("threads")
    h.check_books(case, d.wait_process(w.pid), ledger, "threads")
    case.check(all(dev["live_bytes"] for dev in ledger["devices"]), f"the ledger itself: {ledger}")
    w.end()
    d.stop()


@h.test("HIP: contexts end no memory, hipDeviceReset that of its device")
def hip_reset(case):
    d = case.daemon(library=LIBHIP)
    w = case.work("work_hip", "reset")
    before = w.next("reset-before")
    h.check_books(case, d.wait_process(w.pid), before, "before")
    w.go()
    after = w.next("reset")
    h.check_books(case, d.wait_process(w.pid), after, "after")
    case.check(0 < after["live_bytes"] < before["live_bytes"] and after["swept_count"] == 20, f"the ledger itself: {after}")
    w.end()
    d.stop()


@h.test("HIP: the library is found by its name when a process maps it")
def hip_found(case):
    d = case.daemon()
    w = case.work("work_hip", "threads", "--wait-start")
    w.next("ready")
    d.wait_stderr("probing .*libamdhip64.so.6, first mapped by")
    w.go()
    ledger = w.next("threads")
    h.check_books(case, d.wait_process(w.pid), ledger, "found")
    w.end()
    d.stop()


@h.test("Level Zero: every class, count and failure, to the byte (uprobe_multi)")
def ze_multi(case):
    h.need_multi()
    ledgers(case, "work_ze", LIBZE, (), "uprobe_multi", True)


@h.test("Level Zero: every class, count and failure, to the byte (perf uprobes)", uses=["perf uprobes"], seconds=15)
def ze_perf(case):
    ledgers(case, "work_ze", LIBZE, ("--perf-uprobes",), "perf", True)


@h.test("Level Zero: a full device is an alloc_failure with its own names")
def ze_full(case):
    full(case, "work_ze", LIBZE, "zeMemAllocDevice", f"{0x70000003} ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY")


if __name__ == "__main__":
    h.main()
