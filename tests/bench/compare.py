# SPDX-License-Identifier: MIT
"""The part `compare` of the bench: ways to learn who holds GPU memory, on the same workload in the same run. Rounds are
interleaved: in each, every contender is attached, measured and detached once, in another order."""
import subprocess
import sys
import time

import contenders
import world

DEPTH = 10   # levels of the workload's call stack: whole, it is 16 frames to main()
LIVE = 1000  # blocks held, each of BYTES; a pair frees the oldest and makes one
BYTES = 64 << 10
RATE = 2000  # pairs a second of the calm phase
MANY = 20000
OLD_RATE = 500
WORKLOAD = {"depth": DEPTH, "live": LIVE, "block_bytes": BYTES, "rate": RATE, "many": MANY}


def arguments(contender, seconds, *options):
    through = ("--through", world.SHIM) if contender.through_shim else ()
    return ("--seconds", seconds, "--depth", DEPTH, "--bytes", BYTES, *through, *options)


class Row:
    """What is known of a contender: lists have one value a round."""

    def __init__(self, kind):
        self.kind = kind
        self.reason = None
        self.lists = {k: [] for k in ("pair_ns", "calm_ns", "pairs_per_sec", "cpu_percent", "calm_cpu_percent", "rss_bytes",
                                      "map_bytes", "traced_rss_bytes", "attach_sec", "lost")}
        self.checks = {}

    def add(self, **values):
        for k, v in values.items():
            self.lists[k].append(v)

    def as_json(self):
        k = self.kind
        return {"id": k.id, "name": k.name, "note": k.note, "baseline": "none_shim" if k.through_shim else "none",
                "is_inside": k.is_inside, "keeps_books": k.keeps_books, "reason": self.reason, **self.lists,
                "checks": self.checks}


def timed(contender, work):
    """Lets the workload run; CPU share of the tracer in percent of a core meanwhile."""
    cpu, start = contender.cost()[0], time.monotonic()
    work.go()
    rate = work.result()
    return rate, (contender.cost()[0] - cpu) / (time.monotonic() - start) / 1e7


def one_phase(contender, row, args, is_calm, attach):
    work = world.Work(*args, env=contender.env())
    try:
        if attach:
            start = time.monotonic()
            contender.start(work.pid)
            row.add(attach_sec=round(time.monotonic() - start, 3))
        rate, share = timed(contender, work)
        if is_calm:
            row.add(calm_ns=rate["median_ns"], calm_cpu_percent=round(share, 3))
            return
        _, rss, maps = contender.cost()
        row.add(pair_ns=rate["median_ns"], pairs_per_sec=round(rate["pairs_per_sec"]), cpu_percent=round(share, 3),
                rss_bytes=rss, map_bytes=maps, traced_rss_bytes=world.rss_bytes(work.pid), lost=contender.lost())
    finally:
        work.end()


def one_round(bench, row, with_calm, calm_sec):
    """One session for both phases, or one each where the tracer is of one process."""
    contender = row.kind(bench)
    try:
        one_phase(contender, row, arguments(contender, 1, "--live", LIVE), False, True)
        if not with_calm:
            return
        again = contender.per_process
        if again:
            contender.stop()
            contender = row.kind(bench)
        one_phase(contender, row, arguments(contender, calm_sec, "--live", LIVE, "--rate", RATE), True, again)
    finally:
        contender.stop()


def judge_stack(books):
    """Whether the site that holds most is the workload's: the call in it first, then all levels and main()."""
    if not books.stacks:
        return {"site": False, "whole": False, "frames": []}
    frames = [f.split(" ")[0] for f in max(books.stacks, key=lambda s: s[0])[1]]
    own = [f for f in frames if not f.startswith(("cuMem", "posix_memalign", "take_stack", "backtrace", "unw_"))]
    levels = [f for f in own if f in ("level_a", "level_b")]
    site = bool(own) and own[0] in ("alloc_one", "pair", "level_a")
    return {"site": site, "whole": site and len(levels) == DEPTH and "main" in own, "frames": frames}


def check_of(books, work):
    return {"got_bytes": books.live_bytes, "want_bytes": work.ledger["live_bytes"], "got_count": books.live_count,
            "want_count": work.ledger["live_count"], "untracked_bytes": books.untracked_bytes, "stack": judge_stack(books)}


CHECKS = {  # program, options, seconds
    "plain": ("work_rate", ("--live", LIVE), 1),
    "no_frame_pointers": ("work_rate_nofp", ("--live", LIVE), 1),
    "many": ("work_rate", ("--live", MANY), 1),
}
OLD = ("--live", MANY, "--rate", OLD_RATE)


def start_work(contender, name):
    program, options, seconds = CHECKS[name]
    return world.Work(*arguments(contender, seconds, *options), program=program, env=contender.env())


def start_old(contender, seconds):
    """It has made its blocks when the tracer comes, and replaces some of them afterwards."""
    work = world.Work(*arguments(contender, seconds, *OLD), env={"FAKE_GPU_STATE": world.STATE})
    work.go()
    time.sleep(0.5)
    return work


def check_each(bench, row):
    """The tracer is of one process: a session for each."""
    for name in CHECKS:
        contender = row.kind(bench)
        work = start_work(contender, name)
        try:
            contender.start(work.pid)
            work.go()
            work.result()
            row.checks[name] = check_of(contender.books(work), work)
        finally:
            contender.stop()
            work.end()
    contender = row.kind(bench)
    if contender.misses_old:
        row.checks["old"] = {"reason": contender.misses_old}
        return
    work = start_old(contender, 12)
    try:
        contender.start(work.pid)
        work.result()
        row.checks["old"] = check_of(contender.books(work), work)
    finally:
        contender.stop()
        work.end()


def check_together(bench, row):
    """One session for all processes."""
    contender = row.kind(bench)
    works = {"old": start_old(contender, 6)}
    try:
        contender.start(None)
        for name in CHECKS:
            works[name] = start_work(contender, name)
            works[name].go()
            works[name].result()
        works["old"].result()
        for name, work in works.items():
            row.checks[name] = check_of(contender.books(work), work)
    finally:
        contender.stop()
        for work in works.values():
            work.end()


def attempt(row, step):
    """A contender that fails is a row with its reason, and is not tried again."""
    if row.reason:
        return
    try:
        step()
    except contenders.CannotAttach as e:
        row.reason = str(e)
    except (OSError, RuntimeError, ValueError, KeyError, IndexError, StopIteration,
            subprocess.SubprocessError) as e:
        row.reason = f"failed: {type(e).__name__}: {' '.join(str(e).split())}"[:300]
    if row.reason:
        print(f"# {row.kind.name}: {row.reason}", file=sys.stderr, flush=True)


def bench_compare(bench, quick):
    rounds, calm_rounds, calm_sec = (3, 1, 1) if quick else (7, 5, 2)
    rows = [Row(kind) for kind in contenders.ALL]
    for n in range(rounds):
        print(f"# compare: round {n + 1} of {rounds}, load {world.load():.1f}", file=sys.stderr, flush=True)
        turn = n * 3 % len(rows)
        for row in rows[turn:] + rows[:turn]:
            attempt(row, lambda row=row: one_round(bench, row, n < calm_rounds, calm_sec))
    for row in rows:
        if row.kind.keeps_books:
            print(f"# compare: books of {row.kind.name}", file=sys.stderr, flush=True)
            attempt(row, lambda row=row: (check_each if row.kind.per_process else check_together)(bench, row))
    return [row.as_json() for row in rows]
