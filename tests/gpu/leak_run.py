# SPDX-License-Identifier: MIT
"""What the programs of leaks.py share: the wait for their turn, the pace of their steps, and the marks of their truth.

Marks, one a line in $WORK/NAME.marks: monotonic seconds, what, value. `ready`: libraries loaded, context made. `go`:
its turn has come. `start`: from now on memory is lost. `leaked BYTES`: so many until now. `live CLASS BYTES`: what the
program itself counts, at that moment. `end`: it has come to its end as it was meant to.

A program is written for NOMINAL_S seconds. If it is given less, what it does when is moved closer together (run.when),
while the pace of its steps stays.
"""
import os
import random
import sys
import time
import traceback

WORK = os.environ.get("WORK") or "/tmp/gpuxray-gpu"
NOMINAL_S = 500.0
RATE = float(os.environ.get("LEAK_RATE") or 0)
WAIT_S = 240  # for its turn
MARK_S = 5.0  # between two marks of bytes lost
MIB = 1 << 20


class Run:
    def __init__(self, name, part, budget):
        self.name, self.part, self.budget = name, part, budget
        self.held = part == "held"
        self.random = random.Random(f"{part} {name}")
        self.marks = open(f"{WORK}/{name}.marks", "w", encoding="ascii", buffering=1)
        self.go = self.until = None
        self.leaked = 0
        self.told = (0.0, 0)
        self.started = False
        self.last_every = {}
        self.kept = None
        self.counted = None  # function that counts the tensors ever made, if there is one

    def mark(self, what, *values):
        self.marks.write(" ".join([f"{time.monotonic():.6f}", what] + [str(v) for v in values]) + "\n")

    def ready(self):
        """Waits until all programs are there. Returns False if nobody gives the word."""
        self.mark("ready")
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            try:
                with open(f"{WORK}/{self.name}.go", encoding="ascii") as f:
                    self.until = float(f.read())
                break
            except (OSError, ValueError):
                time.sleep(0.1)
        if self.until is None:
            return False
        self.go = time.monotonic()
        self.mark("go")
        return True

    def scale(self):
        return min(1.0, max(0.01, (self.until - self.go) / NOMINAL_S))

    def when(self, seconds):
        """Has that time of the nominal run come?"""
        return time.monotonic() >= self.go + seconds * self.scale()

    def share(self):
        """Of its time that is over, 0 to 1."""
        return min(1.0, (time.monotonic() - self.go) / max(0.1, self.until - self.go))

    def left(self):
        return self.until - time.monotonic()

    def pause(self, seconds):
        time.sleep(max(0.0, min(seconds, self.left())))

    def steps(self, period):
        """Numbers of steps until its time is over, one each period seconds; a longer step delays the next."""
        number, beat = 0, time.monotonic()
        while self.left() > 1.0:
            made = self.counted() if RATE and self.counted else 0
            yield number
            number += 1
            if made:  # each comes and goes, and is two lines of a recording
                beat += max(0.0, 2 * (self.counted() - made) / RATE - period)
            beat = max(beat + period, time.monotonic() + 0.02)
            self.pause(beat - time.monotonic())

    def every(self, what, seconds):
        """True once each so many seconds of the nominal run."""
        now = time.monotonic()
        if now - self.last_every.get(what, self.go) < max(1.0, seconds * self.scale()):
            return False
        self.last_every[what] = now
        return True

    def leaking(self, after):
        """Whether the fault shows by now: `after` seconds into the nominal run. Tells the start."""
        if not self.started and self.when(after):
            self.started = True
            self.mark("start")
        return self.started

    def lost(self, count):
        """So many bytes more are never needed again."""
        self.lost_to(self.leaked + count)

    def lost_to(self, total):
        """So many bytes in all are never needed again."""
        self.leaked = max(self.leaked, int(total))
        now = time.monotonic()
        if now - self.told[0] >= MARK_S * self.scale() and self.leaked != self.told[1]:
            self.mark("leaked", self.leaked)
            self.told = (now, self.leaked)
        if self.leaked > self.budget:
            self.mark("budget")
            raise OverBudget(f"{self.leaked} bytes lost, of {self.budget} granted")

    def live(self, class_, count):
        self.mark("live", class_, int(count))

    def end(self):
        if self.leaked != self.told[1]:
            self.mark("leaked", self.leaked)
        self.mark("end")


class OverBudget(Exception):
    """Other programs share the device: one that takes more than its share ends."""


def main(load):
    """
    load(run) imports what it needs, makes the context, and returns (scenarios by name, own), where own(run) marks what
    is live; it is called last. Ends the process without cleaning up, as a killed job would.
    """
    from leak_table import SCENARIOS
    name, part = sys.argv[1], sys.argv[2]
    scenario = SCENARIOS[name]
    run = Run(name, part, scenario.budget)
    status = 0
    try:
        functions, own = load(run)
        if not run.ready():
            raise TimeoutError("its turn never came")
        try:
            run.kept = functions[name](run)  # until the very end
        except OverBudget:
            traceback.print_exc()
        own(run)
        run.end()
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    run.marks.close()
    os._exit(status)
