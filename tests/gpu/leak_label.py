# SPDX-License-Identifier: MIT
"""Of a recording of all programs of leaks.py, one of each, its label from the program's marks, and a table for eyes."""
import os
import re

import split_trace
from leak_table import SCENARIOS

DEVICE = {"device", "physical", "async", "array", "graph"}
TENSORS_TOLERANCE_MIB = 1  # tensors are counted to the byte by both
SITE_SHARE = 0.5  # of what grows: below that the culprit cannot be expected in what the detector names
MIB = 1 << 20
KINDS = {"physical": "handle", "array": "object", "framework": "framework"}  # what an address is where no line says so
SETS = {"tune": "real", "held": "real-held"}  # as the bench calls them
STACK = re.compile(r" stack=(\d+)")


class Marks:
    """What a program said of itself, on the clock of the recording."""

    def __init__(self, path, zero):
        self.at, self.leaked, self.live = {}, [], {}
        try:
            with open(path, encoding="ascii") as f:
                lines = f.read().split("\n")[:-1]
        except OSError:
            lines = []
        for line in lines:
            time_s, what, *values = line.split()
            time_s = float(time_s) - zero
            if what == "leaked":
                self.leaked.append((time_s, int(values[0])))
            elif what == "live":
                self.live[values[0]] = (time_s, int(values[1]))
            else:
                self.at.setdefault(what, time_s)


class Books:
    """A part of the recording, read back."""

    def __init__(self, path, marks):
        self.stacks, self.blocks, self.live = {}, {}, {}
        self.allocs = self.frees = self.fails = self.lost = 0
        self.driver = []   # (time, bytes of the driver, tracked bytes of the device)
        self.at_mark = {}  # class: live bytes at the mark
        self.survivors = []
        self.first = self.last = None
        self.has_tensors = False  # a framework's own allocator was recorded too
        waiting = sorted((t, class_) for class_, (t, _) in marks.live.items())
        for text in split_trace.lines_of(path):
            if text.startswith("stack "):
                number, _, frames = text[6:].partition(" ")
                self.stacks[number] = frames.split(";")
                continue
            line = split_trace.Line(text)
            if line.pid is None:
                continue
            while waiting and line.time > waiting[0][0]:
                class_ = waiting.pop(0)[1]
                self.at_mark[class_] = self.held(class_)
            if line.pid:
                self.event(line)
        for _, class_ in waiting:
            self.at_mark[class_] = self.held(class_)
        if self.blocks:
            self.survivors = list(self.blocks.values())

    def held(self, class_):
        return sum(self.live.get(c, 0) for c in (DEVICE if class_ == "device" else (class_,)))

    def event(self, line):
        self.first = line.time if self.first is None else self.first
        self.last = line.time
        keys = dict(k.split("=", 1) for k in line.text.split(" ")[3:] if "=" in k)
        if line.event in ("alloc", "block"):
            self.allocs += 1
            place = (keys.get("kind") or KINDS.get(keys["class"], "pointer"), keys["addr"])
            self.forget(place)
            m = STACK.search(line.text)
            self.has_tensors = self.has_tensors or keys["class"] == "framework"
            block = (line.time, int(keys["bytes"]), keys["class"], m[1] if m else "0")
            self.blocks[place] = block
            self.live[block[2]] = self.live.get(block[2], 0) + block[1]
        elif line.event == "free":
            self.frees += 1
            self.forget((keys.get("kind", "pointer"), keys["addr"]))
        elif line.event == "lost":
            self.lost += int(keys.get("count", 1))
        elif line.event == "fail":
            self.fails += 1
        elif line.event == "driver" and keys.get("bytes", "?") != "?" and "older" not in keys:
            self.driver.append((line.time, int(keys["bytes"]), self.held("device")))
        elif line.event in ("exit", "rebuild"):
            self.survivors = list(self.blocks.values()) or self.survivors
            self.blocks.clear()
            self.live.clear()

    def forget(self, place):
        """Whatever was there."""
        block = self.blocks.pop(place, None)
        if block:
            self.live[block[2]] -= block[1]


def losses_of(scenario, marks, books):
    """[(time, bytes lost since the one before)]"""
    told = marks.leaked
    if scenario.class_ == "driver":
        told, start = [], marks.at["start"]
        apart = [(t, max(0, figure - tracked)) for t, figure, tracked in books.driver]
        base = ([b for t, b in apart if t <= start] or [b for _, b in apart[:1]] or [0])[-1]
        told = [(t, b - base) for t, b in apart if t > start and t <= marks.at.get("end", t)]
    found, most = [], 0
    for t, total in told:
        if total > most:
            found.append((t, total - most))
            most = total
    return found


def site_share(pattern, marks, books):
    """Of the bytes that came after the start and were there at the end, those with the culprit in their stack. Counted
    in tensors if they were recorded: a caching allocator asks the driver on behalf of whoever comes when it has run
    out, so that the culprit of a leak of tensors need not be in any stack of the driver's calls."""
    wanted = re.compile(pattern)
    hit = {n for n, frames in books.stacks.items() if any(wanted.search(f.lstrip("~")) for f in frames)}
    late = [(b, n) for t, b, class_, n in books.survivors
            if t >= marks.at.get("start", 0) and (class_ == "framework") == books.has_tensors]
    total = sum(b for b, _ in late)
    return sum(b for b, n in late if n in hit) / total if total else 0.0


def label(name, scenario, facts, marks, books, share):
    """(line or None, [problems])"""
    line = f"{facts['folder']}/{name}.trace.gz family={scenario.family}{facts['suffix']} set={SETS[facts['set']]}"
    line += f" leak={int(scenario.leak)}"
    if "end" not in marks.at:
        return None, ["no end"]
    if not scenario.leak:
        return f"{line} stretch={facts['stretch']:g}", []
    losses = losses_of(scenario, marks, books) if "start" in marks.at else []
    if not losses:
        return None, ["lost nothing"]
    line += f" start={marks.at['start']:.3f} leaked={sum(b for _, b in losses)}"
    line += " losses=" + ",".join(f"{t:.3f}:{b}" for t, b in losses)
    if scenario.site and share >= SITE_SHARE:
        line += f" site={scenario.pattern(facts['set'])}"
    return f"{line} stretch={facts['stretch']:g}", []


def compare(scenario, marks, books):
    """(text of the last class that the program counts, [problems])"""
    text, problems = "-", []
    for class_, (_, own) in marks.live.items():
        if class_ == "framework" and not books.has_tensors:
            continue
        seen = books.at_mark.get(class_, 0)
        tolerance = TENSORS_TOLERANCE_MIB if class_ == "framework" else scenario.outside_mib
        text = f"{own / MIB:.1f} / {seen / MIB:.1f}"
        if abs(own - seen) > max(tolerance * MIB, own // 50):
            problems.append(f"{class_}: the program counts {own}, the recording {seen}")
    return text, problems


HEAD = ("program", "status", "events", "per s", "stacks", "KiB", "own / recorded MiB", "marks", "start", "lost MiB",
        "MiB/min", "site in % of growth", "verdict")


def problems_of(run, scenario, marks, books):
    """What is wrong with a recording as such."""
    problems = []
    if run["status"] != "0":
        problems.append(f"exit status {run['status']}")
    if "budget" in marks.at:
        problems.append("over its budget")
    if books.lost:
        problems.append(f"{books.lost} events lost")
    if scenario.class_ == "driver" and not books.driver:
        problems.append("no figure of the driver was recorded")
    elif scenario.class_ != "driver" and not books.allocs:
        problems.append("no allocation was recorded")
    return problems


def row(run, facts, made, marks):
    """(cells, label or None, good)"""
    name = run["name"]
    scenario = SCENARIOS[name]
    path = f"{made}/{facts['folder']}/{name}.trace.gz"
    books = Books(path, marks)
    text, problems = compare(scenario, marks, books)
    share = site_share(scenario.pattern(facts["set"]), marks, books) if scenario.site else 0.0
    line, more = label(name, scenario, facts, marks, books, share)
    problems += more + problems_of(run, scenario, marks, books)
    site = f"{100 * share:.0f}" if scenario.site else "-"
    if facts["config"] and not books.has_tensors:
        problems.append("no tensor was recorded")
    elif books.has_tensors and scenario.site and share < SITE_SHARE:
        problems.append("what grows are not the culprit's tensors")
    events = books.allocs + books.frees + books.fails
    seconds = max(1.0, (books.last or 0) - (books.first or 0))
    start = marks.at.get("start")
    lost = sum(b for _, b in losses_of(scenario, marks, books)) if scenario.leak and start is not None else 0
    minutes = max(1.0, marks.at.get("end", books.last or 0) - (start or 0)) / 60
    cells = (name, run["status"], events, f"{events / seconds:.1f}", len(books.stacks),
             f"{os.path.getsize(path) / 1024:.1f}", text, len(marks.leaked), "-" if start is None else f"{start:.1f}",
             f"{lost / MIB:.1f}" if scenario.leak else "-", f"{lost / MIB / minutes:.0f}" if scenario.leak else "-",
             site, "; ".join(problems) or "ok")
    return cells, line, not problems


def words(folder, name):
    try:
        with open(f"{folder}/{name}.log", encoding="utf-8", errors="replace") as f:
            return f.read()[-1200:].strip()
    except OSError:
        return ""


def make(facts, folder, made):
    """Writes the parts and labels-SET.txt to made. (all is well, table)"""
    runs, part = facts["programs"], facts["folder"]
    parts = f"{made}/{part}"
    head, _ = split_trace.split(f"{folder}/all.trace.gz", parts, {r["pid"]: r["name"] for r in runs})
    rows, labels, said, good = [], [], [], bool(runs)
    for run in runs:
        name = run["name"]
        marks = Marks(f"{folder}/{name}.marks", head.monotonic or 0.0)
        try:
            cells, line, fine = row(run, facts, made, marks)
        except Exception as e:  # one that goes wrong in an unforeseen way must not take the table along
            cells = (name, run["status"]) + ("-",) * (len(HEAD) - 3) + (f"{type(e).__name__}: {e}",)
            line, fine = None, False
        rows.append(cells)
        good = good and fine
        if line:
            labels.append(line)
        else:  # nothing is known of it
            os.remove(f"{parts}/{name}.trace.gz")
        if run["status"] != "0":
            said.append(f"--- {name}:\n{words(folder, name)}")
    with open(f"{made}/labels-{part}.txt", "w", encoding="utf-8") as f:
        options = f" --suffix {part} --config {facts['config']}" if facts["config"] else ""
        f.write(f"# tests/gpu/leaks.sh --set {facts['set']}{options} on {facts['device']}: see README.md\n")
        f.write("".join(line + "\n" for line in labels))
    total = sum(os.path.getsize(f"{parts}/{name}") for name in os.listdir(parts))
    lines = said + ["| " + " | ".join(str(c) for c in r) + " |" for r in [HEAD, ("---",) * len(HEAD)] + rows]
    lines.append(f"{len(rows)} programs, {len(labels)} labels, {total / 1024:.0f} KiB in all; {facts['device']}")
    lines.append("all as expected" if good else "NOT as expected")
    return good, "\n".join(lines)
