#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The bench's page: its charts and tables from fixed figures (tests/contrib/bench.json, made by hand), the form of the
figures, and the page that is in contrib/doc."""
import copy
import glob
import json
import math
import os
import re
import sys
import tempfile
import xml.etree.ElementTree as tree

import tap

sys.path.insert(0, tap.ROOT + "/tests/bench")
import chart
import compare
import contenders
import page
import schema

SVG = "{http://www.w3.org/2000/svg}"
DATA = json.loads(tap.read(tap.HERE + "/bench.json"))


def near(a, b):
    return abs(a - b) < 0.11  # pixels are written with one decimal


def texts(root):
    return ["".join(t.itertext()) for t in root.iter(SVG + "text")]


def axes(root):
    """(name, lowest, highest, its group) of each, in the order of the file."""
    return [(g.get("data-axis"), float(g.get("data-min")), float(g.get("data-max")), g)
            for g in root.iter(SVG + "g") if g.get("data-axis")]


def outside(value, low, high):
    return value > 0 and not low <= value <= high


@tap.test("the schema takes the fixed figures, and names what does not fit")
def form():
    tap.fail_if(schema.problems(DATA))
    broken = copy.deepcopy(DATA)
    del broken["load"]
    broken["compare"][0]["pair_ns"][1] = "fast"
    broken["compare"][2]["is_inside"] = 0
    broken["scale"][0]["colour"] = "red"
    broken["scale"][1]["x"] = True
    found = "\n".join(schema.problems(broken))
    tap.fail_if([f"not found: {what}" for what in ("bench: no load", "compare[0].pair_ns[1]", "compare[2].is_inside",
                                                  "bench.scale[0]", "bench.scale[1]") if what not in found])


@tap.test("every chart is well-formed XML that refers to nothing outside, light and dark")
def well_formed():
    problems, made = [], page.charts(DATA)
    for style in ("", "e"):
        tap.equal(tree.fromstring(chart.text(1, 2, "a < b & c", style)).text, "a < b & c", "text")
    tap.equal(sorted(made), [f"bench-{n}.svg" for n in ("blocks", "cost", "memory", "processes", "sites")], "charts")
    for name, svg in made.items():
        root = tree.fromstring(svg)
        width, height = float(root.get("width")), float(root.get("height"))
        if root.tag != SVG + "svg" or root.get("viewBox") != f"0 0 {width:g} {height:g}":
            problems.append(f"{name}: {root.tag} {root.get('viewBox')}")
        if re.search(r"href|url\(|@import|<script|<image", svg):
            problems.append(f"{name} refers to something")
        style = root.find(SVG + "style").text
        if "prefers-color-scheme:dark" not in style:
            problems.append(f"{name} has one colour scheme")
        used = {c for e in root.iter() for c in (e.get("class") or "").split()}
        problems += [f"{name}: class {c} has no style" for c in used - {"m", "e", "l"} if f".{c}{{" not in style and
                     f".{c}," not in style]
        for e in root.iter():
            for key, most in (("x", width), ("x1", width), ("x2", width), ("cx", width), ("y", height), ("y1", height),
                              ("y2", height), ("cy", height)):
                if e.get(key) and not 0 <= float(e.get(key)) <= most:
                    problems.append(f"{name}: {e.tag[len(SVG):]} has {key} {e.get(key)} of {most}")
    tap.fail_if(problems)


@tap.test("bars: each row is there, at its place on a logarithmic axis; one without figures says why")
def bars():
    root = tree.fromstring(page.charts(DATA)["bench-cost.svg"])
    (_, low, high, group), = axes(root)
    said = texts(root)
    tap.equal((low, high), (100, 10000), "range of the axis")
    ticks = {t.text: float(line.get("x1")) for t, line in zip(group.findall(SVG + "text"), group.findall(SVG + "line"))}
    problems = [f"no row {r['name']}" for r in page.shown(DATA) if r["name"] not in said]
    rects = [r for r in root.iter(SVG + "rect") if r.get("data-value")]
    tap.equal([float(r.get("data-value")) for r in rects], [1000, 4000, 200, 2000], "values: medians of what is added")
    begin, end = ticks["100"], ticks["10k"]
    for r in rects:
        want = (end - begin) * math.log10(float(r.get("data-value")) / low) / math.log10(high / low)
        if not near(float(r.get("width")), want):
            problems.append(f"{r.get('data-value')} is {r.get('width')} long, not {want:.1f}")
    problems += [f"no {what}" for what in ("finds no <headers> & gives up", "ns, logarithmic") if what not in said]
    tap.fail_if(problems)


@tap.test("curves: each point is within its axes and at its place; those that reached a limit have a ring")
def curves():
    problems = []
    for name, rings in (("processes", 0), ("blocks", 6), ("sites", 6)):
        root = tree.fromstring(page.charts(DATA)[f"bench-{name}.svg"])
        found, groups = axes(root), [g for g in root.iter() if g.tag in (SVG + "g", SVG + "circle")]
        tap.equal([a[0] for a in found], ["x", "y"] * 4, f"axes of {name}")
        current = {}
        for e in groups:
            if e.tag == SVG + "g":
                lines = e.findall(SVG + "line")
                key = "x1" if e.get("data-axis") == "x" else "y1"
                current[e.get("data-axis")] = (float(e.get("data-min")), float(e.get("data-max")), float(lines[0].get(key)),
                                               float(lines[-1].get(key)))
            elif e.get("data-value"):
                for axis, at, value in (("x", "cx", "data-x"), ("y", "cy", "data-value")):
                    low, high, begin, end = current[axis]
                    value = float(e.get(value))
                    want = begin + (end - begin) * math.log10(value / low) / math.log10(high / low)
                    if outside(value, low, high) or not near(float(e.get(at)), want):
                        problems.append(f"{name}: {value} at {e.get(at)}, not {want:.1f}")
        points = [p for p in DATA["scale"] if p["axis"] == name and "reason" not in p]
        marked = [(float(e.get("data-x"))) for e in root.iter(SVG + "circle") if e.get("data-x")]
        problems += [f"{name}: no point at {p['x']}" for p in points if p["x"] not in marked]
        tap.equal(sum(e.get("class") == "o" for e in root.iter(SVG + "circle")), rings, f"rings of {name}")
        problems += [f"{name}: no unit {u}" for u in ("Memory, MiB", "Added to a pair, ns", "status --json, ms",
                                                     "CPU of the daemon, % of a core") if u not in texts(root)]
    if not any("Did not run: 50,000 call sites, limits raised." in t for t in texts(root)):
        problems.append("a point without figures is not said")
    tap.fail_if(problems)


@tap.test("an axis has whole decades, also of one value, of zero, and of none")
def decades():
    for values, want in (([5], (0, 1)), ([0, 0.02, 8], (-2, 1)), ([100, 1000], (2, 3)), ([1000], (3, 4)), ([], (0, 1)),
                         ([0], (0, 1)), ([1, 1200000], (0, 7))):
        a = chart.Axis(values, 0, 100)
        tap.equal((a.low, a.high), want, f"decades of {values}")
        tap.equal((a.place(10.0 ** a.low), a.place(10.0 ** a.high)), (0, 100), "the axis' ends")
        tap.fail_if([f"{v} of {values} lies at {a.place(v)}" for v in values if not 0 <= a.place(v) <= 100])


@tap.test("the page has each row, what is right and wrong, and what the daemon said of limits")
def rows():
    text = page.page(DATA)
    terminal = page.terminal(DATA)
    wanted = [
        "| gpuxray | 2.00 us (2.00 us to 4.00 us) | 2.00 | 2.00 us | 0.50 % |",
        "| a script &amp; its &lt;maps> | right | wrong: 950.0 MiB of 900.0 MiB | wrong: 100.0 MiB of 900.0 MiB | whole | "
        "the call, not how it came there | 0 |",
        "| a tool | did not run: finds no &lt;headers> &amp; gives up |",
        "no: a process that runs already must be restarted",
        "| gpuxray | right | right | 100.0 MiB of 900.0 MiB, the rest told as untracked | whole | whole | 3 |",
        "live_allocations: 184,880 over 1,048,576; live_share_refused 184,880; 184,880 allocations left out; marked not exact",
        "| 50,000 call sites | 2.02 us | 2.02 | 5.10 us |", "| 50,000 call sites, limits raised | did not run: RuntimeError: no "
        "&lt;answer> |", "load average 0.5 before, 2.2 at its highest, 1.5 after", "A virtual machine, 2 cores, A CPU",
    ]
    problems = [f"the page lacks {w}" for w in wanted if w not in text]
    problems += [f"the page lacks the chart {c}" for c in page.charts(DATA) if f"]({c})" not in text]
    problems += [f"the terminal lacks {r['name']}" for r in page.shown(DATA) if r["name"] not in terminal]
    widths = [len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("|")]
    problems += [] if set(widths) == {9, 8, 13} else [f"tables have rows of {sorted(set(widths))} bars"]
    tap.fail_if(problems)


@tap.test("of paths that programs name the page has the file's name alone")
def paths():
    tap.equal(page.markdown("cannot open /home/someone/work/file.so: |gone|"), "cannot open file.so: \\|gone\\|", "text")


LEVELS = "\n".join(f"    level_a+{n}" for n in (53, *[45] * 9))
BPFTRACE = f"""Attaching 5 probes...
ready
@bytes[7, 
    cuMemAlloc_v2+0
    alloc_one+77
]: 0
@bytes[8, 
    cuMemAlloc_v2+0
    main+7
]: 512
@bytes[7, 
    cuMemAlloc_v2+0
    alloc_one+77
    pair+58
{LEVELS}
    run_for+453
    main+1265
]: 65536000
"""
MEMLEAK = """Attaching to pid 7, Ctrl+C to quit.
[10:00:01] Top 100000 stacks with outstanding allocations:
\t9 bytes in 1 allocations from stack
\t\tan_older_one+0x1 [work_rate]
[10:00:02] Top 100000 stacks with outstanding allocations:
\t64 bytes in 1 allocations from stack
\t\t0x000055d5c0a1b2c3 other+0x4d [work_rate]
\t65536 bytes in 1000 allocations from stack
\t\talloc_one+0x4d [work_rate]
\t\tlevel_a+0x20 [work_rate]
[10:00:03] Top 100000 stacks with outstanding allocations:
\t1 bytes in"""


@tap.test("the books of the other tracers are read as they print them, and their stacks judged")
def others():
    b = contenders.bpftrace_books(BPFTRACE, 7)
    tap.equal((b.live_bytes, len(b.stacks), b.stacks[0][1][:3]), (65536000, 1, ["cuMemAlloc_v2", "alloc_one", "pair"]),
              "bpftrace")
    judged = compare.judge_stack(b)
    tap.equal((judged["site"], judged["whole"]), (True, True), "a whole stack")
    few = [f for n, f in enumerate(b.stacks[0][1]) if n != 5]
    tap.equal(compare.judge_stack(contenders.Books(1, 1, [(1, few)]))["whole"], False, "a stack that lacks a level")
    b.stacks = [(1, [f for f in b.stacks[0][1] if f != "main"])]
    tap.equal(compare.judge_stack(b)["whole"], False, "a stack without main()")
    m = contenders.memleak_books(MEMLEAK)
    tap.equal((m.live_bytes, m.live_count, m.stacks), (65600, 1001, [(64, ["other"]), (65536, ["alloc_one", "level_a"])]),
              "memleak")
    judged = compare.judge_stack(m)
    tap.equal((judged["site"], judged["whole"]), (True, False), "a stack that is cut short")
    tap.equal(compare.judge_stack(contenders.Books(0, 0, [(1, ["cuMemAlloc_v2", "somebody", "main"])]))["site"], False,
              "a stack from elsewhere")


@tap.test("written anew a folder holds the page and the charts of what was measured, and no older ones")
def written():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("bench-old.svg", "other.svg"):
            with open(f"{folder}/{name}", "w", encoding="ascii") as f:
                f.write("<svg/>")
        page.write(DATA, folder)
        tap.equal(sorted(os.listdir(folder)), sorted([*page.charts(DATA), "bench.md", "other.svg"]), "files")


@tap.test("the page in contrib/doc names charts that are there and well-formed, its load, and no path of a machine")
def committed():
    folder = tap.CONTRIB + "/doc"
    text, problems = tap.read(folder + "/bench.md"), []
    named = set(re.findall(r"\]\((bench-\w+\.svg)\)", text))
    there = {os.path.basename(p) for p in glob.glob(folder + "/bench-*.svg")}
    tap.equal(sorted(named), sorted(there), "charts of the page")
    for name in there:
        tree.fromstring(tap.read(f"{folder}/{name}"))
    for content in [text, *(tap.read(f"{folder}/{n}") for n in there)]:
        problems += [f"a path: {p}" for p in re.findall(r"(?<![\w.])/(?:home|tmp|work|root|run|usr|var)/\S*", content)]
        problems += [f"a date: {d}" for d in re.findall(r"(?<!\d)20\d\d-?[01]\d-?[0-3]\d(?!\d)", content)]
    problems += [] if re.search(r"load average \d+\.\d before", text) else ["no load average"]
    tap.fail_if(problems)


tap.main()
