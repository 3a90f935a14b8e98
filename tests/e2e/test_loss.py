#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The daemon stands still while a process allocates as fast as it can: what is lost is counted, and the books are right."""
import signal
import time

import harness as h

RULES = """version = 1;
rules = (
  { name = "quota"; kind = "live_bytes"; scope = "process"; fire_above = "100MiB"; resolve_below = "80MiB"; for = "0s";
    keep_firing_for = "0s"; severity = "critical"; },
  { name = "leak"; kind = "leak"; scope = "process"; epoch = "1s"; epochs = 4; occupancy = 0.9; keep_ratio = 0.7;
    min_growth = "1MiB"; for_epochs = 2; severity = "warning"; }
);
"""
SMALL_RING = 'limits = { ring_bytes = "256KiB"; records_per_minute = 100000; };'


def check_settled(case, d, w, ledger, what):
    """Bytes and counts are those of the ledger, and the daemon says that they are exact."""
    p = d.wait_process(w.pid, lambda p: p["exact"] and p["alloc_count"] == ledger["alloc_count"] and
                       p["free_count"] == ledger["free_count"], 10, f"{what}: settled")
    for k in ("live_bytes", "live_count", "alloc_count", "free_count", "fail_count", "unknown_free_count"):
        case.equal(p[k], ledger[k], f"{what}: {k}")
    return p


@h.test("stopped for 5 s under full load: losses counted, bytes and counts exact afterwards, no leak invented")
def stopped(case):
    d = case.daemon(rules=RULES, config=SMALL_RING)
    w = case.work("work_rate", "--seconds=8", "--threads=2", "--live=40", "--bytes=1MiB", "--depth=6", "--sites=64",
                  "--wait-end", "--ledger")
    d.wait_process(w.pid, lambda p: p["alloc_count"] > 1000, 10, "at work")
    d.signal(signal.SIGSTOP)
    time.sleep(5)
    d.signal(signal.SIGCONT)
    # The load is still on: it is rebuilt while it changes.
    p = d.wait_process(w.pid, lambda p: p["lost_events"] > 0, 10, "losses counted")
    ledger = w.next("end", 30)
    p = check_settled(case, d, w, ledger, "afterwards")
    s = d.status()
    case.check(s["lost_events"] >= p["lost_events"] > 10000, f"lost: {s['lost_events']}, of the process {p['lost_events']}")
    case.equal(s["counters"]["lost_events"], s["lost_events"], "lost events in the counters")
    case.equal(s["exact"], True, "exact again")
    case.check(ledger["alloc_count"] > 20000, f"too little load: {ledger['alloc_count']} allocations")
    d.wait_stderr("events did not fit in the ring buffer")
    w.end()
    d.wait_gone(w.pid)
    d.stop()
    case.equal([r["MESSAGE"] for r in d.records(w.pid, rule="leak")], [], "leak records of a process that leaks nothing")
    case.equal(d.records(event="stop")[-1]["GPUXRAY_LOST_EVENTS"], str(s["lost_events"]), "lost events in the stop record")


@h.test("a limit crossed while the daemon stands still is told afterwards, marked as not exact or after the rebuild")
def crossed_meanwhile(case):
    d = case.daemon(rules=RULES, config=SMALL_RING)
    load = case.work("work_rate", "--seconds=6", "--threads=2", "--bytes=4KiB", "--wait-end", "--ledger")
    d.wait_process(load.pid, lambda p: p["alloc_count"] > 1000, 10, "load at work")
    d.signal(signal.SIGSTOP)
    time.sleep(2)
    w = case.work("work_lifecycle", "hold", "--bytes=120MiB", "--blocks=1")
    ledger = w.next("hold")
    time.sleep(1)
    d.signal(signal.SIGCONT)
    # Its first news may be lost with the rest: the kernel's books have it all the same.
    r = d.wait_record(w.pid, rule="quota", state="firing")
    case.equal(r["GPUXRAY_VALUE"], str(120 * h.MIB), "value")
    case.equal(r["GPUXRAY_COMM"], "work_lifecycle", "comm")
    check_settled(case, d, w, ledger, "the process that crossed")
    check_settled(case, d, load, load.next("end", 20), "the load")
    w.end()
    d.wait_record(w.pid, rule="quota", state="resolved")
    load.end()
    d.stop()


@h.test("the end of a process is noticed though the news of it was lost")
def end_lost(case):
    d = case.daemon(rules=RULES, config=SMALL_RING)
    load = case.work("work_rate", "--seconds=6", "--threads=2", "--bytes=4KiB", "--wait-end")
    w = case.work("work_lifecycle", "hold", "--bytes=120MiB", "--blocks=1")
    w.next("hold")
    d.wait_record(w.pid, rule="quota", state="firing")
    d.wait_process(load.pid, lambda p: p["alloc_count"] > 1000, 10, "load at work")
    d.signal(signal.SIGSTOP)
    time.sleep(2)
    w.end()
    time.sleep(0.5)
    d.signal(signal.SIGCONT)
    r = d.wait_record(w.pid, rule="quota", state="resolved")
    # What it did between the loss and its end is not known.
    case.equal(r["GPUXRAY_EXACT"], "0", "exact")
    case.check(int(r.get("GPUXRAY_LOST_EVENTS", 0)) > 0, f"lost events: {r.get('GPUXRAY_LOST_EVENTS')}")
    case.contains(r["MESSAGE"].split("\n")[0], "not exact", "first line")
    d.wait_gone(w.pid)
    d.stop()


@h.test("one small ring, always overflowing: the books settle on the truth, and no record lies about being exact")
def overflowing(case):
    d = case.daemon(rules=RULES, config='limits = { ring_bytes = "64KiB"; records_per_minute = 100000; }; drain_interval = "5s";')
    w = case.work("work_rate", "--seconds=4", "--threads=2", "--live=60", "--bytes=1MiB", "--wait-end", "--ledger")
    ledger = w.next("end", 20)
    p = check_settled(case, d, w, ledger, "at the end")
    case.check(p["lost_events"] > 1000, f"hardly anything was lost: {p['lost_events']}")
    d.wait_record(w.pid, rule="quota", state="firing")
    w.end()
    d.wait_record(w.pid, rule="quota", state="resolved")
    for r in d.records(w.pid):
        if case.check(r["GPUXRAY_EXACT"] in ("0", "1"), f"exact: {r['GPUXRAY_EXACT']}") and r["GPUXRAY_EXACT"] == "0":
            case.contains(r["MESSAGE"].split("\n")[0], "not exact", "first line of an inexact record")
            case.check(int(r.get("GPUXRAY_LOST_EVENTS", 0)) > 0, f"lost events: {r.get('GPUXRAY_LOST_EVENTS')}")
    case.equal([r["MESSAGE"] for r in d.records(w.pid, rule="leak")], [], "leak records of a process that leaks nothing")
    d.stop()


if __name__ == "__main__":
    h.main()
