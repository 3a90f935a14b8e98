#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The books against the ledgers that the workloads keep of their own calls: to the byte."""
import harness as h

SEEDS = (1, 2, 3)
OPS = 12000


def check_counters(case, d):
    """Nothing was overlooked on the way."""
    c = d.status()["counters"]
    for k in ("lost_events", "thread_state_failures", "process_map_full", "live_map_full", "returns_missed", "object_map_full"):
        case.equal(c[k], 0, f"counter {k}")


def ledgers(case, options, threads, mode):
    d = case.daemon(*options, config='limits = { records_per_minute = 100000; ring_bytes = "64MiB"; };')
    case.equal(d.status()["probes"], mode, "way of attaching")
    for seed in SEEDS:
        what = f"seed {seed}, {threads} threads"
        w = case.work("work_ledger", f"--seed={seed}", f"--ops={OPS}", f"--threads={threads}", f"--pause-at={OPS // 2}",
                      "--reset", "--wait-end")
        half = w.next("pause", 30)
        h.check_books(case, d.wait_process(w.pid), half, f"{what}, half way")
        w.go()
        end = w.next("end", 30)
        h.check_books(case, d.wait_process(w.pid), end, f"{what}, at the end")
        case.check(half["alloc_count"] > 500 and end["swept_count"] > 0 and end["fail_count"] > 0,
                   f"{what}: the ledger is too thin to prove anything: {end}")
        w.end()
        d.wait_gone(w.pid)
    check_counters(case, d)
    d.stop(60)  # the kernel takes 100 ms to let go of one perf uprobe


@h.test("one thread: every class, count, failure and device, to the byte (uprobe_multi)")
def one_multi(case):
    h.need_multi()
    ledgers(case, (), 1, "uprobe_multi")


@h.test("four threads: every class, count, failure and device, to the byte (uprobe_multi)", exclusive=True)
def four_multi(case):
    h.need_multi()
    ledgers(case, (), 4, "uprobe_multi")


@h.test("one thread: every class, count, failure and device, to the byte (perf uprobes)",
        uses=["perf uprobes"], seconds=25)
def one_perf(case):
    ledgers(case, ("--perf-uprobes",), 1, "perf")


@h.test("four threads: every class, count, failure and device, to the byte (perf uprobes)",
        uses=["perf uprobes"], seconds=25)
def four_perf(case):
    ledgers(case, ("--perf-uprobes",), 4, "perf")


@h.test("the reset of one device's context ends its memory and no other's")
def reset(case):
    d = case.daemon()
    w = case.work("work_lifecycle", "reset", "--blocks=5", "--bytes=3MiB")
    before = w.next("reset-before")
    h.check_books(case, d.wait_process(w.pid), before, "before")
    case.equal(before["live_bytes"], 30 * h.MIB, "before: bytes of the ledger itself")
    w.go()
    after = w.next("reset")
    h.check_books(case, d.wait_process(w.pid), after, "after")
    case.equal(after["live_bytes"], 15 * h.MIB, "after: bytes of the ledger itself")
    w.end()
    d.stop()


@h.test("memory imported from another process is the exporter's")
def ipc(case):
    d = case.daemon()
    w = case.work("work_lifecycle", "ipc", "--bytes=8MiB", "--blocks=2")
    exporter, importer = w.next("ipc"), w.next("ipc-child")
    h.check_books(case, d.wait_process(exporter["pid"]), exporter, "exporter")
    p = d.wait_process(importer["pid"])
    case.equal((p["live_bytes"], p["host_bytes"], p["managed_bytes"], p["peak_bytes"]), (0, 0, 0, 0), "importer: bytes")
    totals = {dev["uuid"]: dev["live_bytes"] for dev in d.status()["devices"]}
    case.check(totals.get(exporter["devices"][0]["uuid"], 0) >= 16 * h.MIB, f"devices: {totals}")
    w.end()
    d.stop()


@h.test("each process has its own books, also for equal addresses, and the device has their sum")
def side_by_side(case):
    d = case.daemon()
    ws = [case.work("work_lifecycle", "hold", f"--blocks={n}", "--bytes=1MiB") for n in (3, 5, 7)]
    said = [w.next("hold") for w in ws]
    for w, ledger in zip(ws, said):
        h.check_books(case, d.wait_process(w.pid), ledger, f"process with {ledger['live_count']} blocks")
    uuid = said[0]["devices"][0]["uuid"]
    s = d.status()
    own = sum(dev["live_bytes"] for p in s["processes"] for dev in p["devices"] if dev["uuid"] == uuid)
    total = next(dev["live_bytes"] for dev in s["devices"] if dev["uuid"] == uuid)
    case.equal(total, own, "bytes of the device")
    case.check(total >= 15 * h.MIB, f"bytes of the device: {total}")
    for w in ws:
        w.end()
    d.stop()


@h.test("sizes near 2^64, wild pointers and refused frees change nothing but the failures")
def hostile_books(case):
    d = case.daemon()
    w = case.work("work_hostile")
    ledger = w.next("hostile")
    # It asked for contexts that do not exist; that these calls failed is not seen at their entry, where they are probed.
    # So the device may be unknown afterwards, but not another one.
    h.check_books(case, d.wait_process(w.pid), ledger, "wild calls", may_be_unknown=True)
    w.end()
    d.stop()


if __name__ == "__main__":
    h.main()
