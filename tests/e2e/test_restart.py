#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The daemon goes and comes back: with a manager that keeps its descriptors nothing is lost; without one it says so."""
import os
import re
import signal
import time

import harness as h
from manager import Manager

STATE = "/run/gpuxray/state"
NOT_KNOWN = "memory allocated before now is not known"
KEPT = r"(\d+) process(es)? and their books kept from before the restart"
RULES = """version = 1;
rules = (
  { name = "quota"; kind = "live_bytes"; scope = "process"; fire_above = "100MiB"; resolve_below = "80MiB"; for = "0s";
    keep_firing_for = "0s"; severity = "critical"; },
  { name = "oom"; kind = "alloc_failure"; count = 1; window = "1m"; severity = "error"; budget = "10000/1m"; }
);
"""
QUOTA_RULES = re.sub(r",\s*{ name = .oom.*}", "", RULES)
EXIT_RULES = """version = 1;
rules = (
  { name = "exit"; kind = "exit"; live_above = "1MiB"; never_freed_above = 0.5; min_runtime = "0s"; severity = "notice"; }
);
"""
SMALL_RING = 'limits = { ring_bytes = "256KiB"; records_per_minute = 100000; };'


def end(d, how):
    if how == "stop":
        d.stop()
    else:
        d.signal(signal.SIGKILL)
        d.wait()


def start_message(d):
    return d.wait_record(event="start")["MESSAGE"].split("\n")[0]


def check_kept(case, d, least=1):
    m = re.search(KEPT, start_message(d))
    case.check(m and int(m[1]) >= least, f"start record: {start_message(d)}")


def check_settled(case, d, w, ledger, what, may_lose=False):
    p = d.wait_process(w.pid, lambda p: p["exact"] and p["alloc_count"] == ledger["alloc_count"] and
                       p["free_count"] == ledger["free_count"], 15, f"{what}: settled")
    h.check_books(case, {**p, "lost_events": 0} if may_lose else p, ledger, what)
    return p


def under_load(case, how):
    h.need_multi()
    m = Manager(case)
    d = m.daemon(rules=QUOTA_RULES)
    rate = case.work("work_rate", "--seconds=5", "--threads=2", "--live=40", "--bytes=1MiB", "--depth=6", "--sites=16",
                     "--rate=3000", "--wait-end", "--ledger")
    ledger = case.work("work_ledger", "--seed=7", "--ops=200000", "--threads=2", "--pause-at=100000", "--wait-end")
    for w in (rate, ledger):
        d.wait_process(w.pid, lambda p: p["alloc_count"] > 1000, 10, "at work")
    end(d, how)
    names = m.names()
    case.check({"exit", "exec", "map-live", "map-ring", "map-about", "library-1"} <= set(names), f"kept: {names}")
    case.check(not any("rodata" in n for n in names), f"constants were kept: {names}")
    case.equal(m.dropped, 0, "descriptors that the manager would have let go of")
    time.sleep(1)
    d = m.daemon(rules=QUOTA_RULES)
    check_kept(case, d, 2)
    case.equal(m.names(), names, "kept after the second start")
    half = ledger.next("pause", 30)
    check_settled(case, d, ledger, half, "ledger, half way")
    ledger.go()
    # And once more, with what is left of the first.
    end(d, how)
    d = m.daemon(rules=QUOTA_RULES)
    check_kept(case, d, 2)
    check_settled(case, d, ledger, ledger.next("end", 30), "ledger, at the end")
    check_settled(case, d, rate, rate.next("end", 30), "rate")
    case.equal(d.status()["exact"], True, "exact")
    for w in (rate, ledger):
        w.end()
        d.wait_gone(w.pid)
    d.stop()


@h.test("SIGTERM and start under load: the books are those of the ledger, to the byte")
def load_stop(case):
    under_load(case, "stop")


@h.test("SIGKILL and start under load: the books are those of the ledger, to the byte")
def load_kill(case):
    under_load(case, "kill")


@h.test("processes that began, and ended, while the daemon was down")
def meanwhile(case):
    h.need_multi()
    m = Manager(case)
    d = m.daemon(rules=RULES)
    old = case.work("work_lifecycle", "hold", "--bytes=120MiB", "--blocks=1")
    old.next("hold")
    fired = d.wait_record(old.pid, rule="quota", state="firing")
    end(d, "kill")
    old.end()
    short = case.work("work_lifecycle", "hold", "--bytes=7MiB", "--blocks=1")
    short.next("hold")
    short.end()
    new = case.work("work_lifecycle", "hold", "--bytes=130MiB", "--blocks=2")
    ledger = new.next("hold")
    d = m.daemon(rules=RULES)
    check_settled(case, d, new, ledger, "began meanwhile")
    case.equal(d.wait_record(new.pid, rule="quota", state="firing")["GPUXRAY_COMM"], "work_lifecycle", "comm")
    r = d.wait_record(old.pid, rule="quota", state="resolved")
    case.equal(r["GPUXRAY_INCIDENT"], fired["GPUXRAY_INCIDENT"], "incident of the one that ended")
    case.equal(r["GPUXRAY_SEQ"], str(int(fired["GPUXRAY_SEQ"]) + 1), "its number")
    case.equal(r.get("GPUXRAY_COMM"), "work_lifecycle", "its name")
    case.check("OBJECT_PID" not in r, "a dead process's record claims to be of a live one")
    case.equal([d.process(w.pid) for w in (old, short)], [None, None], "processes that are gone")
    new.end()
    d.wait_gone(new.pid)
    d.stop()


@h.test("an allocation that failed while the daemon was down gets its record, with what the process holds")
def failed_meanwhile(case):
    h.need_multi()
    m = Manager(case)
    d = m.daemon(rules=RULES)
    w = case.work("work_ledger", "--seed=3", "--ops=3000", "--pause-at=2000", "--wait-end")
    half = w.next("pause", 30)
    check_settled(case, d, w, half, "before")
    end(d, "kill")
    w.go()
    after = w.next("end", 30)
    case.check(after["fail_count"] > half["fail_count"], "the ledger has no failure meanwhile")
    d = m.daemon(rules=RULES)
    check_settled(case, d, w, after, "after")
    want = after["fail_count"] - half["fail_count"]
    d.wait_record(w.pid, 15, want, rule="oom")
    rs = d.records(w.pid, rule="oom")
    case.equal(len(rs), want, "records of failures")
    case.equal(rs[-1]["GPUXRAY_LIVE_BYTES"], str(after["live_bytes"]), "live bytes in them")
    w.end()
    d.stop()


def goes_on(case, how):
    h.need_multi()
    m = Manager(case)
    d = m.daemon(rules=RULES)
    w = case.work("work_lifecycle", "hold", "--bytes=60MiB", "--blocks=2")
    ledger = w.next("hold")
    fired = d.wait_record(w.pid, rule="quota", state="firing")
    seq = int(fired["GPUXRAY_SEQ"])
    for i in range(2):
        end(d, how)
        d = m.daemon(rules=RULES)
        r = d.wait_record(w.pid, rule="quota")
        case.equal((r["GPUXRAY_INCIDENT"], r["GPUXRAY_STATE"], r["GPUXRAY_SEQ"]),
                   (fired["GPUXRAY_INCIDENT"], "repeat", str(seq + 1 + i)), f"restart {i + 1}")
        case.equal(r["GPUXRAY_VALUE"], str(ledger["live_bytes"]), "value")
        case.check(fired.get("GPUXRAY_STACK"), "no stack in the first record")
        case.equal(r.get("GPUXRAY_STACK"), fired.get("GPUXRAY_STACK"), "stack of what was allocated before")
        case.equal(r.get("GPUXRAY_STACK_ID"), fired.get("GPUXRAY_STACK_ID"), "stack id")
    w.end()
    r = d.wait_record(w.pid, rule="quota", state="resolved")
    case.equal((r["GPUXRAY_INCIDENT"], r["GPUXRAY_SEQ"]), (fired["GPUXRAY_INCIDENT"], str(seq + 3)), "end")
    d.stop()
    every = h.journal_json(f"GPUXRAY_PID={w.pid}", "GPUXRAY_RULE=quota")
    case.equal([r["GPUXRAY_STATE"] for r in every], ["firing", "repeat", "repeat", "resolved"], "all that was said")


@h.test("an incident goes on under its id after SIGTERM, with its stack, and is resolved under it")
def incident_stop(case):
    goes_on(case, "stop")


@h.test("an incident goes on under its id after SIGKILL, with its stack, and is resolved under it", exclusive=True)
def incident_kill(case):
    goes_on(case, "kill")


@h.test("what a process has freed before a restart still counts when it ends")
def freed_before(case):
    h.need_multi()
    m = Manager(case)
    d = m.daemon(rules=EXIT_RULES)
    w = case.work("work_ledger", "--seed=5", "--ops=4000", "--wait-end")
    keeps = case.work("work_lifecycle", "hold", "--bytes=2MiB", "--blocks=1")
    ledger = w.next("end", 30)
    keeps.next("hold")
    d.wait_process(w.pid, lambda p: p["free_count"] == ledger["free_count"], 10, "at rest")
    end(d, "stop")
    d = m.daemon(rules=EXIT_RULES)
    check_settled(case, d, w, ledger, "after")
    case.check(ledger["live_bytes"] > 2 * h.MIB, f"the ledger holds too little: {ledger['live_bytes']}")
    w.kill()
    keeps.end()
    for x in (w, keeps):
        d.wait_gone(x.pid)
    d.wait_record(keeps.pid, rule="exit")
    case.equal(d.records(w.pid, rule="exit"), [], "exit records of one that has freed most")
    d.stop()


@h.test("other limits: a fresh start that says why, and nothing of the old is left in the store")
def other_limits(case):
    h.need_multi()
    m = Manager(case)
    d = m.daemon(rules=RULES)
    w = case.work("work_lifecycle", "hold", "--bytes=60MiB", "--blocks=2")
    w.next("hold")
    d.wait_process(w.pid)
    old = m.names()
    end(d, "stop")
    d = m.daemon(rules=RULES, config="limits = { live_allocations = 5000; records_per_minute = 100000; };")
    case.contains(start_message(d), NOT_KNOWN, "start record")
    d.wait_stderr("starting afresh")
    case.contains(d.stderr(), "other limits", "reason")
    # Other programs' libraries may have come meanwhile.
    case.equal({re.sub(r"-\d+", "-N", n) for n in m.names()}, {re.sub(r"-\d+", "-N", n) for n in old}, "store")
    case.equal(len([n for n in m.names() if n.startswith("map-")]), len([n for n in old if n.startswith("map-")]), "maps")
    # The driver's own figures may name it.
    case.equal((d.process(w.pid) or {}).get("alloc_count", 0), 0, "calls of a process of which nothing is known")
    w.end()
    d.stop()


@h.test("a store that has lost a link: a fresh start that says why; names that are not ours do no harm")
def incomplete(case):
    h.need_multi()
    m = Manager(case)
    d = m.daemon(rules=RULES)
    case.check(any(n.startswith("probes-") for n in m.names()), f"kept: {m.names()}")
    end(d, "kill")
    m.add("strange-name", os.open("/dev/null", os.O_RDONLY))
    d = m.daemon(rules=RULES)
    check_kept(case, d, 0)
    end(d, "kill")
    one = next(n for n in m.names() if n.startswith("probes-"))
    kept = []

    def first(n):
        if n == one and not kept:
            kept.append(n)
            return True
        return False

    m.drop(first)
    d = m.daemon(rules=RULES)
    case.contains(start_message(d), NOT_KNOWN, "start record")
    case.contains(d.stderr(), "some of them are missing", "reason")
    d.stop()


@h.test("without a manager: earlier allocations are unknown, an incident is resolved under its id once it is not found again",
        seconds=30)
def by_hand(case):
    d = case.daemon(rules=RULES)
    case.contains(start_message(d), NOT_KNOWN, "first start")
    alive = case.work("work_lifecycle", "hold", "--bytes=60MiB", "--blocks=2")
    dead = case.work("work_lifecycle", "hold", "--bytes=60MiB", "--blocks=2")
    fired = {}
    for w in (alive, dead):
        w.next("hold")
        fired[w] = d.wait_record(w.pid, rule="quota", state="firing")
    end(d, "kill")
    dead.end()
    d = case.daemon(rules=RULES)
    case.contains(start_message(d), NOT_KNOWN, "second start")
    r = d.wait_record(dead.pid, rule="quota", state="resolved")
    case.equal(r["GPUXRAY_INCIDENT"], fired[dead]["GPUXRAY_INCIDENT"], "incident of the dead one")
    case.equal(r["GPUXRAY_COMM"], "work_lifecycle", "its name")
    case.equal(d.records(alive.pid), [], "of the living one nothing is known yet")
    r = d.wait_record(alive.pid, 45, rule="quota", state="resolved")
    case.equal(r["GPUXRAY_INCIDENT"], fired[alive]["GPUXRAY_INCIDENT"], "incident of the living one")
    alive.end()
    d.stop()


@h.test("a torn state file: what is whole is used, and the file is whole again")
def torn(case):
    h.need_multi()
    m = Manager(case)
    d = m.daemon(rules=RULES)
    w = case.work("work_lifecycle", "hold", "--bytes=60MiB", "--blocks=2")
    w.next("hold")
    fired = d.wait_record(w.pid, rule="quota", state="firing")
    time.sleep(0.2)
    end(d, "kill")
    with open(STATE, "ab") as f:
        f.write(os.urandom(37))
    d = m.daemon(rules=RULES)
    r = d.wait_record(w.pid, rule="quota")
    case.equal((r["GPUXRAY_INCIDENT"], r["GPUXRAY_STATE"]), (fired["GPUXRAY_INCIDENT"], "repeat"), "incident")
    case.contains(d.stderr(), "37 bytes are torn", "standard error")
    case.equal(os.stat(STATE).st_mode & 0o777, 0o600, "mode")
    end(d, "kill")
    with open(STATE, "wb") as f:
        f.write(os.urandom(5000))
    d = m.daemon(rules=RULES)
    # Nothing is known of the incident: it fires as a new one; the books are there all the same.
    r = d.wait_record(w.pid, rule="quota")
    case.equal(r["GPUXRAY_STATE"], "firing", "state, with a file of noise")
    check_kept(case, d)
    w.end()
    d.stop()


@h.test("more than the ring holds while the daemon is down: exact afterwards, and what was lost is counted")
def overflow(case):
    h.need_multi()
    m = Manager(case)
    d = m.daemon(rules=QUOTA_RULES, config=SMALL_RING)
    w = case.work("work_rate", "--seconds=6", "--threads=2", "--live=40", "--bytes=1MiB", "--wait-end", "--ledger")
    gone = case.work("work_lifecycle", "hold", "--bytes=120MiB", "--blocks=1")
    gone.next("hold")
    fired = d.wait_record(gone.pid, rule="quota", state="firing")
    d.wait_process(w.pid, lambda p: p["alloc_count"] > 1000, 10, "at work")
    before = d.status()["counters"]["lost_events"]
    end(d, "kill")
    time.sleep(2)
    gone.end()
    time.sleep(0.5)
    d = m.daemon(rules=QUOTA_RULES, config=SMALL_RING)
    case.check(d.status()["counters"]["lost_events"] > before + 1000, "too little was lost to prove anything")
    # The news of its end was lost with the rest.
    r = d.wait_record(gone.pid, rule="quota", state="resolved")
    case.equal(r["GPUXRAY_INCIDENT"], fired["GPUXRAY_INCIDENT"], "incident")
    check_settled(case, d, w, w.next("end", 30), "afterwards", may_lose=True)
    w.end()
    d.stop()


@h.test("a daemon that cannot keep anything clears what is there")
def not_kept(case):
    # As with perf uprobes, of which the kernel takes long to let go.
    h.need_multi()
    m = Manager(case)
    d = m.daemon(rules=RULES)
    end(d, "kill")
    case.check(m.names(), "nothing was kept")
    d = m.daemon("--bare-probes", rules=RULES)
    case.contains(start_message(d), NOT_KNOWN, "start record")
    case.equal(m.names(), [], "kept")
    d.stop()


if __name__ == "__main__":
    h.main()
