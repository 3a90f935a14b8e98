#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Limits that are reached: counted and shown, and what is tracked stays right."""
import os

import harness as h

# The smallest that the configuration takes.
LIMITS = "limits = { %s records_per_minute = 100000; };"


def limit(d, name):
    return next(x for x in d.status()["limits"] if x["name"] == name)


@h.test("more live blocks than the map holds: the rest is counted, totals of the tracked stay right")
def live_map(case):
    d = case.daemon(config=LIMITS % "live_allocations = 1024;")
    w = case.work("work_lifecycle", "reset", "--blocks=900", "--bytes=64KiB")
    ledger = w.next("reset-before")
    case.equal(ledger["live_count"], 1800, "blocks of the ledger itself")
    p = d.wait_process(w.pid, lambda p: p["alloc_count"] == 1800, what="all allocations seen")
    full = d.status()["counters"]["live_map_full"]
    # The map is shared with processes that are not ours.
    case.check(0 < p["live_count"] <= 1024, f"live blocks: {p['live_count']}")
    case.equal(p["live_bytes"], p["live_count"] * 65536, "bytes of the live blocks")
    case.check(full >= 1800 - p["live_count"], f"live_map_full: {full}, tracked {p['live_count']} of 1800")
    w.go()
    after = w.next("reset")
    case.equal(after["live_count"], 900, "blocks of the ledger itself after the reset")
    p = d.wait_process(w.pid)
    case.equal(p["live_bytes"], p["live_count"] * 65536, "bytes of the live blocks after the reset")
    case.check(p["live_count"] <= 900, f"live blocks after the reset: {p['live_count']}")
    w.end()
    d.wait_gone(w.pid)
    # There is room again for the next.
    w = case.work("work_lifecycle", "hold", "--blocks=100", "--bytes=64KiB")
    ledger = w.next("hold")
    h.check_books(case, d.wait_process(w.pid), ledger, "the next process")
    w.end()
    d.stop()


@h.test("more processes than the limit: counted and shown, the tracked are right, room is used again")
def processes(case):
    ws = [case.work("work_lifecycle", "hold", "--wait-start", f"--blocks={i + 1}", "--bytes=1MiB") for i in range(20)]
    for w in ws:
        w.next("ready")
    # Only these, so that processes that are not ours take no place.
    d = case.daemon(*[f"--pid={w.pid}" for w in ws], config=LIMITS % "processes = 16;")
    said = {}
    for w in ws:
        w.go()
        said[w.pid] = w.next("hold")
    h.poll(lambda: len(d.status()["processes"]) == 16, 10, lambda: f"16 processes, not {len(d.status()['processes'])}")
    s = d.status()
    for p in s["processes"]:
        h.check_books(case, p, said[p["pid"]], f"process with {said[p['pid']]['live_count']} blocks")
    case.check(s["counters"]["process_map_full"] > 0, f"process_map_full: {s['counters']}")
    n = limit(d, "processes")
    case.equal((n["used"], n["max"]), (16, 16), "limits: processes")
    n = limit(d, "kernel_processes")
    case.check(n["overflows"] > 0, f"limits: kernel_processes: {n}")
    tracked = {p["pid"] for p in s["processes"]}
    for w in ws:
        w.end()
    h.poll(lambda: not d.status()["processes"], 10, "all leave")
    case.equal(len(tracked), 16, "tracked")
    d.stop()


@h.test("more call sites and stacks than are kept apart: bytes right, overflow shown")
def sites(case):
    d = case.daemon(config=LIMITS % "sites_per_process = 16; stacks_per_process = 16;")
    w = case.work("work_rate", "--seconds=2", "--rate=2000", "--depth=8", "--sites=200", "--live=300", "--bytes=64KiB",
                  "--wait-end", "--ledger")
    ledger = w.next("end")
    h.check_books(case, d.wait_process(w.pid), {**ledger, "peak_exact": False, "peak_bytes": 1 << 62}, "books")
    for name in ("sites_per_process", "stacks_per_process"):
        n = limit(d, name)
        case.check(n["used"] <= 16 == n["max"] and n["overflows"] > 0, f"limits: {n}")
    w.end()
    d.stop()


@h.test("more crossings at once than the budget of records: the critical one gets through, the others are summed up")
def budget(case):
    rules = h.QUOTA_RULE.replace("rules = (", """rules = (
  { name = "exit"; kind = "exit"; live_above = "1MiB"; min_runtime = "0s"; severity = "notice"; },""")
    d = case.daemon(rules=rules, config="limits = { records_per_minute = 10; };")
    for _ in range(4):
        ws = [case.work("work_lifecycle", "hold", "--blocks=2", "--bytes=1MiB") for _ in range(15)]
        for w in ws:
            w.next("hold")
            w.end()
    w = case.work("work_lifecycle", "hold", "--blocks=1", "--bytes=120MiB")
    w.next("hold")
    r = d.wait_record(w.pid, rule="quota", state="firing")
    case.equal(r["PRIORITY"], "2", "PRIORITY")
    case.check(d.status()["records"]["held"] >= 40, f"held: {d.status()['records']}")
    w.end()
    d.stop()
    told = len(d.records(rule="exit"))
    held = sum(int(r.get("GPUXRAY_SUPPRESSED", 0)) for r in d.records())
    case.check(told <= 15, f"{told} exits told with a budget of 10 a minute")
    case.check(told + held >= 60, f"{told} told and {held} accounted for, of 60")


@h.test("more libraries than the limit: said, and the first ones work")
def libraries(case):
    paths = []
    for i in range(3):
        paths.append(case.path(f"{i}/libcuda.so.1"))
        os.mkdir(os.path.dirname(paths[i]))
        h.shutil.copy2(h.LIBCUDA, paths[i])
    d = case.daemon("--library", paths[0], config=LIMITS % "libraries = 1;", library=None)
    first = case.work("work_late", paths[0], "--sleep=0", "--wait-end", "--blocks=3")
    p = d.wait_process(first.pid)
    case.equal(p["live_bytes"], first.next("late")["live_bytes"], "the first")
    second = case.work("work_late", paths[1], "--sleep=0", "--wait-end")
    second.next("late")
    d.wait_stderr("1/libcuda.so.1.*cannot be probed")
    case.equal(len(d.status()["libraries"]), 1, "libraries probed")
    case.equal(d.process(second.pid), None, "a process on the second")
    first.end()
    second.end()
    d.stop()


if __name__ == "__main__":
    h.main()
