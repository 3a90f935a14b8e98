# SPDX-License-Identifier: MIT
"""Splits a recording of all processes into one of each: split_trace.py ALL.trace.gz FOLDER [PID=NAME]...

Without PID=NAME, each process that allocated gets FOLDER/PID.trace.gz. A part has the lines of its process, those of the
devices and the ticks while it lived, and the stacks that it used, numbered anew in the order of their first use. Nothing
is thinned, and times stay those of the whole recording, so that parts can be laid side by side.
"""
import gzip
import os
import re
import sys

STACK_KEY = re.compile(r"(?<= stack=)\d+")
TAIL_S = 2.0  # common lines are kept so long after the last line of the process: the tick that sees it gone


def open_text(path):
    if path.endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8", errors="surrogateescape", newline="\n")
    return open(path, encoding="utf-8", errors="surrogateescape", newline="\n")


def lines_of(path):
    """Lines without their end. A recording that was cut off is read as far as it goes."""
    with open_text(path) as f:
        try:
            for line in f:
                if line.endswith("\n"):
                    yield line[:-1]
        except (EOFError, gzip.BadGzipFile) as e:
            print(f"{path}: {e}; read as far as it goes", file=sys.stderr)


class Line:
    """TIME PID EVENT rest, or None of it for what is not an event."""
    __slots__ = ("text", "time", "pid", "event")

    def __init__(self, text):
        self.text = text
        parts = text.split(" ", 3)
        try:
            self.time, self.pid, self.event = float(parts[0]), int(parts[1]), parts[2]
        except (ValueError, IndexError):
            self.time, self.pid, self.event = None, None, None


class Head:
    """What a recording says once: comments and clock, all stacks, and who was there until when."""

    def __init__(self, path):
        self.lines, self.stacks = [], {}
        self.first, self.last, self.allocated = {}, {}, set()
        self.monotonic = None
        begun = False
        for text in lines_of(path):
            if text.startswith("stack "):
                number, _, frames = text[6:].partition(" ")
                self.stacks[int(number)] = frames
            elif text.startswith("clock "):
                self.lines.append(text)
                m = re.search(r"\bmonotonic=([0-9.]+)", text)
                self.monotonic = float(m[1]) if m else None
            elif text.startswith("#") or not text.strip():
                if not begun and text.startswith("#"):
                    self.lines.append(text)
            else:
                begun = True
                self.event(Line(text))

    def event(self, line):
        if not line.pid:
            return
        self.first.setdefault(line.pid, line.time)
        self.last[line.pid] = line.time
        if line.event == "alloc":
            self.allocated.add(line.pid)


class Part:
    """The recording of one process while it is written."""

    def __init__(self, head, pid, path):
        self.head, self.pid, self.path = head, pid, path
        self.end = head.last.get(pid, -1.0) + TAIL_S
        self.numbers = {}
        self.before = {}  # common lines before the first of the process: of each kind of pass only the last counts
        self.begun = False
        self.events = 0
        self.out = gzip.GzipFile(filename="", fileobj=open(path, "wb"), mode="wb", compresslevel=9, mtime=0)
        for text in head.lines:
            self.put(text)

    def put(self, text):
        self.out.write(text.encode("utf-8", "surrogateescape") + b"\n")

    def number(self, old):
        """Of a stack in this part; told first if it is new here."""
        old = int(old)
        if old not in self.numbers:
            self.numbers[old] = len(self.numbers) + 1
            if old in self.head.stacks:
                self.put(f"stack {self.numbers[old]} {self.head.stacks[old]}")
        return str(self.numbers[old])

    def put_event(self, line):
        text = line.text
        m = STACK_KEY.search(text)
        if m and m[0] != "0":
            text = text[:m.start()] + self.number(m[0]) + text[m.end():]
        self.put(text)

    def common(self, line):
        if line.time > self.end:
            return
        if self.begun:
            self.put_event(line)
            return
        group = "gpu" if line.event.startswith("gpu") else "driver" if line.event.startswith("driver") else line.event
        kept = self.before.setdefault(group, [])
        whole = bool(kept) and kept[-1].event in ("gpus-end", "driver-end")
        if whole or group not in ("gpu", "driver"):
            kept.clear()
        kept.append(line)

    def own(self, line):
        if not self.begun:
            self.begun = True
            for early in sorted((l for kept in self.before.values() for l in kept), key=lambda l: l.time):
                self.put_event(early)
        self.events += 1
        self.put_event(line)

    def close(self):
        raw = self.out.fileobj
        self.out.close()
        raw.close()


def split(path, folder, names=None):
    """names: {pid: name of the part without .trace.gz}; None = all that allocated. Returns (head, {pid: part})."""
    head = Head(path)
    if names is None:
        names = {pid: str(pid) for pid in sorted(head.allocated)}
    os.makedirs(folder, exist_ok=True)
    parts = {pid: Part(head, pid, os.path.join(folder, f"{name}.trace.gz")) for pid, name in names.items()}
    for text in lines_of(path):
        line = Line(text)
        if line.pid is None:
            continue
        if line.pid == 0:
            for part in parts.values():
                part.common(line)
        elif line.pid in parts:
            parts[line.pid].own(line)
    for part in parts.values():
        part.close()
    return head, parts


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    names = dict((int(pid), name) for pid, _, name in (a.partition("=") for a in sys.argv[3:])) or None
    _, parts = split(sys.argv[1], sys.argv[2], names)
    for part in parts.values():
        print(f"{part.path}: {part.events} lines, {len(part.numbers)} stacks, {os.path.getsize(part.path)} bytes")


if __name__ == "__main__":
    main()
