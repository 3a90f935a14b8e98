# SPDX-License-Identifier: MIT
"""What the daemon costs the programs it watches: each figure without it, with empty probes, and with it, in turn.

Usage: cost.py FOLDER_OF_BUILT_PROGRAMS. Exit status 1 when something could not be measured; it judges no number.
"""
import os
import queue
import statistics
import subprocess
import sys
import threading

from daemon import WORK, Daemon

ROUNDS = 5
WINDOW_S = 3.0


def run_cost(command):
    """{(call, bytes): ns}, empty when it failed."""
    try:
        r = subprocess.run(["timeout", "-k", "5", "60"] + command, capture_output=True, text=True, timeout=90)
    except (OSError, subprocess.TimeoutExpired) as e:
        print(f"{command[0]}: {e}")
        return {}
    if r.returncode:
        print(f"{command[0]}: exit status {r.returncode}: {r.stderr[-500:]}")
    found = {}
    for line in r.stdout.splitlines():
        words = line.split()
        if len(words) == 3:
            found[words[0], int(words[1])] = float(words[2])
    return found


class Loop:
    """The training loop, kept alive over all rounds, so that only the daemon changes between two figures."""

    def __init__(self, name, env):
        with open(f"{WORK}/{name}.stderr", "wb") as err:
            self.process = subprocess.Popen(["timeout", "-k", "5", "300", sys.executable, "tests/gpu/train_loop.py"],
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True,
                                            env=dict(os.environ, **env))
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        self.ready = self.line(90) == "ready"

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.strip())
        self.lines.put(None)

    def line(self, seconds):
        try:
            return self.lines.get(timeout=seconds)
        except queue.Empty:
            return None

    def measure(self):
        """Steps a second, or None."""
        if not self.ready:
            return None
        try:
            self.process.stdin.write(f"{WINDOW_S}\n")
            self.process.stdin.flush()
        except OSError:
            return None
        text = self.line(WINDOW_S + 30)
        return float(text) if text else None

    def finish(self):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


def add(table, key, figure):
    if figure is not None:
        table.setdefault(key, []).append(figure)


def one_round(built, loops, table):
    for (call, size), ns in run_cost([f"{built}/cost"]).items():
        add(table, (call, size), ns)
    for name, loop in loops.items():
        add(table, (name, 0), loop.measure())


def spread(values):
    return f"{min(values):.1f}..{max(values):.1f}"


KINDS = ("without", "empty probes", "with")


def report(tables):
    """Medians; what the daemon adds, and that as a multiple of what empty probes on the same calls add."""
    complete = all(tables.values())
    print(f"\n{'':<24}" + "".join(f"{k:>14}{'spread':>20}" for k in KINDS) + f"{'added':>12}{'':>9}{'x empty':>9}")
    for key in dict.fromkeys(k for t in tables.values() for k in t):
        name, size = key
        label = f"{name} {size} B, ns" if size else f"{name}, steps/s"
        seen = [tables[k].get(key, []) for k in KINDS]
        if min(map(len, seen)) < ROUNDS:
            print(f"{label:<24}measured {', '.join(str(len(x)) for x in seen)} times, not {ROUNDS}")
            complete = False
        if not all(seen):
            continue
        none, bare, ours = map(statistics.median, seen)
        ratio = f"{(ours - none) / (bare - none):>9.2f}" if size and bare > none else f"{'':>9}"
        print(f"{label:<24}" + "".join(f"{statistics.median(x):>14.1f}{spread(x):>20}" for x in seen)
              + f"{ours - none:>+12.1f}{100 * (ours - none) / none:>+8.2f}%" + ratio)
    return complete


def with_daemon(built, loops, table, number, *options):
    daemon = Daemon("cost", *options)
    if not daemon.start():
        return False
    one_round(built, loops, table)
    status = daemon.status() or {}
    seen = status.get("counters", {}).get("events", 0)
    print(f"round {number} {' '.join(options)}: {seen} events, {status.get('lost_events')} lost", flush=True)
    good = bool(seen) == (not options)
    if not good:
        print("the daemon saw nothing, or empty probes saw something: the cost was not measured")
    if daemon.stop() != 0:
        good = False
        print("the daemon did not end well: see cost.log in", WORK)
    return good


def main():
    os.makedirs(WORK, exist_ok=True)
    loops = {
        "train": Loop("train", {}),
        "train uncached": Loop("train_uncached", {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}),
    }
    tables = {k: {} for k in KINDS}
    good = all(loop.ready for loop in loops.values())
    if not good:
        print("a training loop did not start: see *.stderr in", WORK)
    try:
        for i in range(ROUNDS):
            one_round(sys.argv[1], loops, tables["without"])
            good = with_daemon(sys.argv[1], loops, tables["empty probes"], i + 1, "--bare-probes") and good
            good = with_daemon(sys.argv[1], loops, tables["with"], i + 1) and good
    finally:
        for loop in loops.values():
            loop.finish()
    good = report(tables) and good
    print("measured" if good else "NOT all measured")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
