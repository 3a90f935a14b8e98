# SPDX-License-Identifier: MIT
"""What a stack costs: a pair of calls without the daemon, under empty probes, and traced, by length of the stack.

Usage: stack_cost.py FOLDER_OF_BUILT_PROGRAMS. Exit status 1 when something could not be measured; it judges no number.
"""
import os
import statistics
import sys

from cost import KINDS, add, run_cost, spread
from daemon import WORK, Daemon

ROUNDS = 11
OPTIONS = {"without": None, "empty probes": ["--bare-probes"], "with": []}
COUNTERS = ("events", "stacks_known", "stacks_copied", "stacks_sampled")


def commands(built):
    native = [[f"{built}/stack_cost", "--frames", str(n)] for n in (20, 200)]
    return native + [[sys.executable, "tests/gpu/stack_cost_python.py", str(n)] for n in (12, 50)]


def one_round(built, table):
    for command in commands(built):
        for key, ns in run_cost(command).items():
            add(table, key, ns)


def with_daemon(built, table, number, options):
    daemon = Daemon("stack_cost", *options)
    if not daemon.start():
        daemon.stop()
        return False
    one_round(built, table)
    status = daemon.status() or {}
    counters = status.get("counters", {})
    print(f"round {number} {' '.join(options)}:", ", ".join(f"{counters.get(k, '-')} {k}" for k in COUNTERS),
          f"{status.get('lost_events')} lost, checks {status.get('stacks', {}).get('checked', '-')},",
          f"differing {status.get('stacks', {}).get('mismatched', '-')}", flush=True)
    good = bool(counters.get("events")) == (not options)
    if not good:
        print("the daemon saw nothing, or empty probes saw something: the cost was not measured")
    if daemon.stop() != 0:
        good = False
        print("the daemon did not end well: see stack_cost.log in", WORK)
    return good


def report(tables):
    """Medians, ns a pair; what the daemon adds, and that as a multiple of what empty probes on the same calls add."""
    complete = all(tables.values())
    print(f"\n{'':<20}" + "".join(f"{k + ', ns':>18}{'spread':>20}" for k in KINDS) + f"{'added':>12}{'x empty':>9}")
    for key in dict.fromkeys(k for t in tables.values() for k in t):
        seen = [tables[k].get(key, []) for k in KINDS]
        label = f"{key[0]}, {key[1]} frames"
        if min(map(len, seen)) < ROUNDS:
            print(f"{label:<20}measured {', '.join(str(len(x)) for x in seen)} times, not {ROUNDS}")
            complete = False
        if not all(seen):
            continue
        none, bare, ours = map(statistics.median, seen)
        ratio = f"{(ours - none) / (bare - none):>9.2f}" if bare > none else f"{'-':>9}"
        print(f"{label:<20}" + "".join(f"{statistics.median(x):>18.1f}{spread(x):>20}" for x in seen)
              + f"{ours - none:>+12.1f}" + ratio)
    return complete


def main():
    os.makedirs(WORK, exist_ok=True)
    tables = {k: {} for k in KINDS}
    good = True
    for i in range(ROUNDS):
        for kind in KINDS:
            if OPTIONS[kind] is None:
                one_round(sys.argv[1], tables[kind])
            else:
                good = with_daemon(sys.argv[1], tables[kind], i + 1, OPTIONS[kind]) and good
    good = report(tables) and good
    print("measured" if good else "NOT all measured")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
