#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random operations of every kind in every kind of process against gpuxray's books: to the byte.

GPUXRAY_SEEDS=40 (so many) or 100-139 (these) takes other seeds than the few of every run;
GPUXRAY_RANDOM_ONLY=device,graph only those families of calls. GPUXRAY_SAN is a daemon built with ASan and UBSan.
"""
import contextlib
import os
import re
import shutil
import signal
import time

import harness as h

ONLY = os.environ.get("GPUXRAY_RANDOM_ONLY")
OPS = 2400
# Everything is kept, so that what is compared is what was booked.
ROOMY = 'limits = { records_per_minute = 100000; ring_bytes = "64MiB"; };'
SMALL_RING = 'limits = { ring_bytes = "64KiB"; records_per_minute = 100000; };'
LIVES = ("end-fork", "end-leader", "end-exec", "end-vfork", "end-forked", "end-peer", "end")


def seeds(few):
    """Those of this run, for a test that takes so many by itself."""
    text = os.environ.get("GPUXRAY_SEEDS", str(few))
    m = re.fullmatch(r"(\d+)-(\d+)", text)
    return range(int(m[1]), int(m[2]) + 1) if m else range(1, int(text) + 1)


def each(chosen):
    """Each of them may take as long as a whole test of other files."""
    for seed in chosen:
        signal.alarm(h.TEST_SECONDS)
        yield seed


def start(case, seed, threads=1, ops=OPS, args=(), **kw):
    only = [f"--only={ONLY}"] if ONLY and not any(a.startswith("--only") for a in args) else []
    return case.work("work_random", f"--seed={seed}", f"--threads={threads}", f"--ops={ops}", *only, "--ledger",
                     "--wait-end", *args, **kw)


def let_go(case, w, status=0):
    """Its children go when it goes."""
    with contextlib.suppress(OSError):
        w.p.stdin.close()
    case.equal(w.wait(20), status, f"{w.name}: exit status")


def ledgers_of(case, w, what, seconds=40, is_part=bool(ONLY)):
    """Of the workload and all of its children that live, by label; and what ended before."""
    said = {"end": w.next("end", seconds)}
    said.update((line["label"], line) for line in w.said)
    families = said.pop("families")
    for label, line in said.items():
        case.check(line["stand_in_agrees"] is not False,
                   f"{what}: {label}: its ledger is not what the stand-in counts: a fault of the test itself")
    if not is_part:
        case.equal(families["off"], "", f"{what}: families that are off")
    return said, said.pop("zombie", None)


class Notes:
    """What check_books() says, kept apart until it is final."""

    def __init__(self):
        self.problems = []

    check = h.Case.check
    equal = h.Case.equal


def differences(p, ledger, what, may_be_lossy):
    if p is None:
        return [f"{what}: not in the status"]
    notes = Notes()
    if may_be_lossy:
        notes.equal(p["exact"], True, f"{what}: exact")
        p = dict(p, lost_events=0)
    h.check_books(notes, p, ledger, what)
    return notes.problems


def compare(case, d, said, what, seconds=3, may_be_lossy=False):
    """All of them at once, as soon as they are right, or as they are when the time is over."""
    end = time.monotonic() + seconds
    while True:
        processes = {p["pid"]: p for p in d.status()["processes"]}
        wrong = [text for label, ledger in said.items()
                 for text in differences(processes.get(ledger["pid"]), ledger, f"{what}, {label}", may_be_lossy)]
        if not wrong or time.monotonic() > end:
            break
        time.sleep(0.1)
    case.problems += wrong


def check_zombie(case, d, zombie, what):
    with open(f"/proc/{zombie['pid']}/stat") as f:
        case.equal(f.read().rsplit(")", 1)[1].split()[0], "Z", f"{what}: state of the one that nobody waits for")
    d.wait_gone(zombie["pid"])


def is_rich(case, said, what):
    """Enough of everything that the comparison means something."""
    end = said["end"]
    if ONLY:
        return
    case.equal(sorted(said), sorted(LIVES), f"{what}: processes")
    case.check(end["alloc_count"] > 300 and end["free_count"] > 150 and end["fail_count"] > 10 and
               end["swept_count"] > 10, f"{what}: too thin to prove anything: {end}")
    case.check(said["end-peer"]["classes"]["imported"]["live_count"] > 0 or said["end-peer"]["alloc_count"] > 20,
               f"{what}: nothing imported")


def check_counters(case, d):
    """Nothing was overlooked on the way."""
    c = d.status()["counters"]
    for k in ("lost_events", "thread_state_failures", "process_map_full", "live_map_full", "returns_missed",
              "object_map_full"):
        case.equal(c[k], 0, f"counter {k}")


def over_seeds(case, threads, few, **options):
    d = case.daemon(config=ROOMY, **options)
    chosen = seeds(few)
    h.comment(f"seeds {chosen[0]} to {chosen[-1]}, {threads} threads, {OPS} operations each")
    total = 0
    for seed in each(chosen):
        what = f"seed {seed}, {threads} threads"
        w = start(case, seed, threads)
        said, zombie = ledgers_of(case, w, what)
        is_rich(case, said, what)
        compare(case, d, said, what)
        if zombie:
            check_zombie(case, d, zombie, what)
        total += sum(line["alloc_count"] + line["free_count"] for line in said.values())
        let_go(case, w)
    for line in said.values():
        d.wait_gone(line["pid"])
    h.comment(f"{total} allocations and frees compared")
    check_counters(case, d)
    d.stop()


@h.test("random operations, one thread: the books of each process are its ledger's, the peak too")
def one_thread(case):
    over_seeds(case, 1, 6)


@h.test("random operations, four threads: the books of each process are its ledger's", exclusive=True)
def four_threads(case):
    over_seeds(case, 4, 6)


@h.test("random operations while the daemon stands still and its ring overflows: exact afterwards")
def losses(case):
    d = case.daemon(config=SMALL_RING)
    for seed in each(seeds(2)):
        what = f"seed {seed} with losses"
        before = d.status()["lost_events"]
        d.signal(signal.SIGSTOP)
        w = start(case, seed, 4, ops=3 * OPS)
        said, _ = ledgers_of(case, w, what)
        d.signal(signal.SIGCONT)
        compare(case, d, said, what, 15, may_be_lossy=True)
        lost = d.status()["lost_events"] - before
        case.check(lost > 100, f"{what}: only {lost} events lost")
        let_go(case, w)
    d.stop()


@h.test("random operations beside a process that lies about sizes and pointers: nobody's books suffer")
def beside_hostile(case):
    d = case.daemon(config=ROOMY)
    for seed in each(seeds(2)):
        what = f"seed {seed} beside hostile calls"
        w = start(case, 7000 + seed, 4)
        bad = case.work("work_hostile")
        hostile = bad.next("hostile", 30)
        said, _ = ledgers_of(case, w, what)
        compare(case, d, said, what)
        h.check_books(case, d.wait_process(bad.pid), hostile, f"{what}: the hostile one", may_be_unknown=True)
        bad.end()
        let_go(case, w)
    d.stop()


REPORT = r"ERROR: (Address|Leak|Thread)Sanitizer|runtime error:|SUMMARY: \w+Sanitizer"


@h.test("a daemon with ASan and UBSan watches random operations: no report, clean end")
def sanitized(case):
    built = os.environ.get("GPUXRAY_SAN")
    if not built:
        raise h.Skip("GPUXRAY_SAN does not name a daemon built with make SAN=1")
    if not os.access(built, os.X_OK):
        raise h.Failure(f"GPUXRAY_SAN: {built} cannot be run")
    mine = case.path("gpuxray-san")
    shutil.copy2(built, mine)
    # In the place of the usual one, which is the first argument that the harness gives.
    d = case.daemon(config=ROOMY, wrap=["sh", "-c", f"shift; exec {mine} \"$@\"", "sh"],
                    env={"ASAN_OPTIONS": "detect_leaks=1:halt_on_error=0", "UBSAN_OPTIONS": "print_stacktrace=1"})
    case.contains(os.readlink(f"/proc/{d.pid}/exe"), "gpuxray-san", "what runs")
    for seed in each(seeds(2)):
        what = f"seed {seed}, sanitized"
        w = start(case, 9000 + seed, 4)
        said, _ = ledgers_of(case, w, what)
        compare(case, d, said, what, 10)
        let_go(case, w)
    d.reload()
    d.stop(60)
    found = re.search(REPORT, d.stderr())
    case.check(not found, f"the daemon's sanitizer says {found and found[0]}")


# ---- identities


@h.test("forked, executed, without its first thread, executed in place: each has its own books and inherits nothing",
        exclusive=True)
def identities(case):
    d = case.daemon(config=ROOMY)
    for seed in (501, 502):  # executed in place by the first thread, and by another
        what = f"seed {seed}"
        w = start(case, seed, 1, ops=600, args=["--only=device,host,vmm,async,fail,fork,exec"])
        said, zombie = ledgers_of(case, w, what, is_part=True)
        case.equal(sorted(said), sorted(set(LIVES) - {"end-peer"}), f"{what}: processes")
        compare(case, d, said, what)
        case.equal(len({line["pid"] for line in said.values()}), len(said), f"{what}: different processes")
        check_zombie(case, d, zombie, what)
        with open(f"/proc/{said['end-leader']['pid']}/stat") as f:
            case.equal(f.read().rsplit(")", 1)[1].split()[0], "Z", f"{what}: state of the first thread")
        forked = d.process(said["end-forked"]["pid"])
        case.equal((forked["live_bytes"], forked["alloc_count"], forked["fail_count"]), (0, 0, 3),
                   f"{what}: forked with the driver in use")
        let_go(case, w)
        for line in said.values():
            d.wait_gone(line["pid"])
    check_counters(case, d)
    d.stop()


FEW = "--only=device,host,vmm,async,managed"


def reuse(case, d, kill, meanwhile=None):
    """Two processes with one id, the second as soon as the first has gone. Returns its ledger and it."""
    for attempt in range(20):
        first = start(case, 600 + attempt, 1, ops=300, args=[FEW])
        before = first.next("end", 20)
        compare(case, d, {"end": before}, "the first with this id")
        if meanwhile:
            meanwhile()
        if kill:
            first.kill()
        else:
            let_go(case, first)
        second = start(case, 700 + attempt, 1, ops=300, args=[FEW, f"--as-pid={first.pid}"])
        with contextlib.suppress(h.Failure):  # somebody else may have got the id
            after = second.next("end", 20)
            case.equal(after["pid"], before["pid"], "process id of the second")
            case.check(after["start_time"] > before["start_time"], "the second began later")
            return after, second
        d.signal(signal.SIGCONT)
    raise h.Failure("no process id could be had again in 20 attempts")


@h.test("a process id that comes back at once: the second process has its own books", exclusive=True)
def id_reused(case):
    d = case.daemon(config=ROOMY)
    for kill in (False, True):
        after, second = reuse(case, d, kill)
        compare(case, d, {"end": after}, f"the second with this id, the first {'killed' if kill else 'ended'}")
        let_go(case, second)
        d.wait_gone(after["pid"])
    d.stop()


@h.test("a process id that comes back while the daemon stands still: the second process has its own books",
        exclusive=True)
def id_reused_unseen(case):
    d = case.daemon(config=ROOMY)
    after, second = reuse(case, d, True, lambda: d.signal(signal.SIGSTOP))
    d.signal(signal.SIGCONT)
    compare(case, d, {"end": after}, "the second with this id", 10)
    case.equal(len([p for p in d.status()["processes"] if p["pid"] == after["pid"]]), 1, "entries with this id")
    let_go(case, second)
    d.wait_gone(after["pid"])
    d.stop()


if __name__ == "__main__":
    h.main()
