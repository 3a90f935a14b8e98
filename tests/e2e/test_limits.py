#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Limits that are reached: counted and shown, and what is tracked stays right."""
import os
import time

import harness as h

# The smallest that the configuration takes.
LIMITS = "limits = { %s records_per_minute = 100000; };"


# Its own driver, which says yes to everything.
MANY = h.FAKE + "/work_many"


def start_many(case, config, *works, rules=h.QUOTA_RULE):
    """A daemon that sees these workloads alone, so that others take no room."""
    for w in works:
        w.next("ready")
    return case.daemon("--library", MANY, *[f"--pid={w.pid}" for w in works], config=config, rules=rules)


def many(case, mode, *args):
    return case.work("work_many", mode, "--wait-start", *args)


def check_small(case, d, w, ledger):
    h.check_books(case, d.wait_process(w.pid, lambda p: p["alloc_count"] == ledger["alloc_count"]), ledger, "the small one")


def check_hog(case, p, said, what):
    """Wanted more than there is room for: what is kept is right, the rest is told, and nothing has wrapped."""
    left_out = said["live_count"] - p["live_count"]
    size = said["live_bytes"] // said["live_count"]
    case.check(0 < p["live_count"] < said["live_count"], f"{what}: {p['live_count']} of {said['live_count']} blocks kept")
    case.equal(p["alloc_count"], said["live_count"], f"{what}: alloc_count")
    case.equal(p["live_bytes"], p["live_count"] * size, f"{what}: live_bytes")
    case.equal((p["left_out_count"], p["left_out_bytes"]), (left_out, left_out * size), f"{what}: left out")
    case.equal(p["exact"], False, f"{what}: exact")


def cpu_seconds(pid):
    total = 0
    for t in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{t}/schedstat") as f:
            total += int(f.read().split()[0])
    return total / 1e9


def wakes(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("voluntary_ctxt_switches"))


def limit(d, name):
    return next(x for x in d.status()["limits"] if x["name"] == name)


@h.test("more live blocks than the map holds: the rest is counted, totals of the tracked stay right")
def live_map(case):
    d = case.daemon(config=LIMITS % "live_allocations = 1024;")
    w = case.work("work_lifecycle", "reset", "--blocks=900", "--bytes=64KiB")
    ledger = w.next("reset-before")
    case.equal(ledger["live_count"], 1800, "blocks of the ledger itself")
    p = d.wait_process(w.pid, lambda p: p["alloc_count"] == 1800, what="all allocations seen")
    c = d.status()["counters"]
    full = c["live_map_full"] + c["live_share_refused"]
    # The map is shared with processes that are not ours.
    case.check(0 < p["live_count"] <= 1024, f"live blocks: {p['live_count']}")
    case.equal(p["live_bytes"], p["live_count"] * 65536, "bytes of the live blocks")
    case.check(full >= 1800 - p["live_count"], f"refused: {full}, tracked {p['live_count']} of 1800")
    w.go()
    after = w.next("reset")
    case.equal(after["live_count"], 900, "blocks of the ledger itself after the reset")
    p = d.wait_process(w.pid)
    case.equal(p["live_bytes"], p["live_count"] * 65536, "bytes of the live blocks after the reset")
    case.check(p["live_count"] <= 900, f"live blocks after the reset: {p['live_count']}")
    w.end()
    d.wait_gone(w.pid)
    time.sleep(1.5)  # what it leaves behind is cleared each second
    # There is room again for the next.
    w = case.work("work_lifecycle", "hold", "--blocks=100", "--bytes=64KiB")
    ledger = w.next("hold")
    h.check_books(case, d.wait_process(w.pid), ledger, "the next process")
    w.end()
    d.stop()


@h.test("a hog fills the table of live blocks: others are booked to the byte, its own entry says what is left out")
def hog(case):
    hog = many(case, "hold", "--blocks=30000", "--bytes=4KiB")
    small = case.work("work_lifecycle", "hold", "--wait-start", "--blocks=200", "--bytes=64KiB")
    d = start_many(case, LIMITS % "live_allocations = 20000;", hog, small)
    hog.go()
    said = hog.next("hold")
    small.go()
    ledger = small.next("hold")
    check_small(case, d, small, ledger)
    check_hog(case, d.wait_process(hog.pid, lambda p: p["alloc_count"] == 30000), said, "the hog")
    n = limit(d, "live_allocations")
    case.check(n["overflows"] >= 10000 and n["used"] <= n["max"] == 20000, f"limits: {n}")
    case.equal(d.status()["exact"], False, "exact, of all")
    hog.end()
    d.wait_gone(hog.pid)
    # Its room is given to others.
    next_one = d.process(small.pid)
    case.equal(next_one["exact"], True, "the small one afterwards")
    small.end()
    d.stop()


@h.test("hogs at once and one after the other: a small process has room still")
def hogs(case):
    ws = [many(case, "hold", "--blocks=15000", "--bytes=4KiB") for _ in range(4)]
    small = case.work("work_lifecycle", "hold", "--wait-start", "--blocks=50", "--bytes=64KiB")
    d = start_many(case, LIMITS % "live_allocations = 20000;", *ws, small)
    said = {}
    for w in ws[:2]:
        w.go()
    for w in ws[:2]:
        said[w.pid] = w.next("hold", 40)
    for w in ws[2:]:
        w.go()
        said[w.pid] = w.next("hold", 40)
    small.go()
    ledger = small.next("hold")
    check_small(case, d, small, ledger)
    kept = 0
    for i, w in enumerate(ws):
        p = d.wait_process(w.pid, lambda p: p["alloc_count"] == 15000)
        if p["live_count"] < 15000:  # the first of the first two may have had all that it wanted
            check_hog(case, p, said[w.pid], f"hog {i}")
        kept += p["live_count"]
    case.check(19000 < kept < 20000, f"blocks of the hogs: {kept}")
    for w in (*ws, small):
        w.end()
    d.stop()


@h.test("a process with more contexts, pools or mappings than its share: counted, others as always")
def objects(case):
    # mode: how many, and the share of one process
    modes = {"kept": (60000, 49152), "pools": (60000, 49152), "maps": (200000, 196608)}
    ws = {mode: many(case, mode, f"--count={n}") for mode, (n, _) in modes.items()}
    small = case.work("work_lifecycle", "hold", "--wait-start", "--blocks=50", "--bytes=64KiB")
    d = start_many(case, "", *ws.values(), small)
    before = 0
    for mode, (n, share) in modes.items():
        ws[mode].go()
        ws[mode].next(mode, 60)
        full = d.status()["counters"]["object_map_full"]
        case.check(full - before >= n - share, f"{mode}: object_map_full {full - before}, {n - share} are over the share")
        before = full
        if mode == "kept":
            small.go()
            ledger = small.next("hold")
            check_small(case, d, small, ledger)
        ws[mode].end()
        d.wait_gone(ws[mode].pid)
    small.end()
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


@h.test("ten thousand call sites in one process: totals right to the byte, the rest of the sites is one, and counted")
def many_sites(case):
    w = many(case, "turn", "--blocks=10000", "--stacks=10000", "--bytes=4KiB")
    d = start_many(case, LIMITS % "sites_per_process = 256; stacks_per_second = 5000;", w)
    w.go()
    for turn in range(2):
        said = w.next("turn")
        p = d.wait_process(w.pid, lambda p: p["alloc_count"] == 10000 * (turn + 1))
        case.equal((p["live_count"], p["live_bytes"]), (said["live_count"], said["live_bytes"]), "books")
        case.equal(p["exact"], True, "exact")
        n = limit(d, "sites_per_process")
        case.check(n["used"] <= 256 == n["max"] and n["overflows"] > 0, f"limits: {n}")
        w.go()
    w.next("turn")
    w.p.stdin.close()
    w.wait()
    d.stop()


@h.test("loops of failing calls, of limits that are crossed, of devices that change: the daemon is not driven by them",
        exclusive=True)
def loops(case):
    ws = {mode: many(case, mode, "--seconds=2", "--bytes=4GiB", "--wait-end") for mode in ("fail", "single", "uuids", "contexts")}
    d = start_many(case, "", *ws.values(), rules=h.MINIMAL_RULES.replace("^train", "^work_many$"))
    for mode, w in ws.items():
        cpu, woken = cpu_seconds(d.pid), wakes(d.pid)
        w.go()
        said = w.next(mode)
        woken = wakes(d.pid) - woken
        share = (cpu_seconds(d.pid) - cpu) / (said["ns"] / 1e9)
        case.check(woken < 600, f"{mode}: {said['calls']} calls have woken the daemon {woken} times")
        case.check(share < 0.5, f"{mode}: {said['calls'] / said['ns'] * 1e9:.0f} calls a second drive the daemon to "
                                f"{share:.2f} of a core")
        if mode == "fail":
            d.wait_process(w.pid, lambda p, n=said["calls"]: p["fail_count"] == n, what="each failure counted")
        w.end()
    case.check(len(d.records(rule="huge")) > 0, "no record of the allocations that are past a limit")
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
    held = sum(int(r.get("GPUXRAY_SUPPRESSED", 0)) for r in h.journal_json(f"_PID={d.pid}"))  # also what the history carries
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
