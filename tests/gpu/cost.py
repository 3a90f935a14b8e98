# SPDX-License-Identifier: MIT
"""What the daemon costs the programs it watches: each figure without and with it, in turn, and the difference.

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


def report(without, with_):
    complete = True
    print(f"\n{'':<24}{'without':>12}{'spread':>22}{'with':>12}{'spread':>22}{'added':>12}{'':>9}")
    for key in list(without) + [k for k in with_ if k not in without]:
        a, b = without.get(key, []), with_.get(key, [])
        name, size = key
        label = f"{name} {size} B, ns" if size else f"{name}, steps/s"
        if len(a) < ROUNDS or len(b) < ROUNDS:
            print(f"{label:<24}measured {len(a)} and {len(b)} times, not {ROUNDS}")
            complete = False
        if not a or not b:
            continue
        ma, mb = statistics.median(a), statistics.median(b)
        print(f"{label:<24}{ma:>12.1f}{spread(a):>22}{mb:>12.1f}{spread(b):>22}{mb - ma:>+12.1f}{100 * (mb - ma) / ma:>+8.2f}%")
    return complete and bool(without) and bool(with_)


def main():
    os.makedirs(WORK, exist_ok=True)
    loops = {
        "train": Loop("train", {}),
        "train uncached": Loop("train_uncached", {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}),
    }
    without, with_ = {}, {}
    good = all(loop.ready for loop in loops.values())
    if not good:
        print("a training loop did not start: see *.stderr in", WORK)
    try:
        for i in range(ROUNDS):
            one_round(sys.argv[1], loops, without)
            daemon = Daemon("cost")
            if not daemon.start():
                good = False
                break
            one_round(sys.argv[1], loops, with_)
            status = daemon.status() or {}
            seen = status.get("counters", {}).get("events", 0)
            print(f"round {i + 1}: {seen} events, {status.get('lost_events')} lost", flush=True)
            if not seen:
                good = False
                print("the daemon saw nothing: its cost was not measured")
            if daemon.stop() != 0:
                good = False
                print("the daemon did not end well: see cost.log in", WORK)
    finally:
        for loop in loops.values():
            loop.finish()
    good = report(without, with_) and good
    print("measured" if good else "NOT all measured")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
