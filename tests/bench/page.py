#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The bench's JSON as a table for the terminal, and as contrib/doc/bench.md with its charts. Pure but for main().

page.py JSON DIR writes the page again from figures that are there."""
import json
import os
import re
import statistics
import sys

sys.dont_write_bytecode = True
import chart
import schema

MIB = 1 << 20
FLOOR = "bare"
median = statistics.median


def by_id(data):
    return {r["id"]: r for r in data["compare"]}


def added(data, row, key="pair_ns"):
    """What the contender adds to a pair in ns, one value a round."""
    base = by_id(data)[row["baseline"]]
    return [a - b for a, b in zip(row[key], base[key])]


def times_floor(data, row):
    """Median over the rounds of what is added, as a multiple of what empty probes add in the same round."""
    floor = added(data, by_id(data)[FLOOR])
    ratios = [a / f for a, f in zip(added(data, row), floor) if f > 0]
    return median(ratios) if ratios else None


def us(ns):
    return f"{ns / 1000:.2f} us"


def mib(n):
    return f"{n / MIB:.1f} MiB"


def percent(values):
    v = median(values)
    return f"{v:.1f} %" if v >= 1 else f"{v:.2f} %"


def memory_text(data, row):
    if row["is_inside"]:
        more = median(row["traced_rss_bytes"]) - median(by_id(data)[row["baseline"]]["traced_rss_bytes"])
        return f"{mib(more)} in each program"
    return mib(median(row["rss_bytes"]))


def lost_text(row):
    if not row["keeps_books"]:
        return ""
    lost = [n for n in row["lost"] if n is not None]
    return f"{sum(lost):,}" if lost else "not told"


def bytes_text(check):
    if "reason" in check:
        return "no: " + check["reason"]
    if check["got_bytes"] is None:
        return "nothing seen"
    if check["got_bytes"] == check["want_bytes"]:
        return "right"
    part = f"{mib(check['got_bytes'])} of {mib(check['want_bytes'])}"
    if check["untracked_bytes"] is None:
        return f"wrong: {part}"
    rest = check["want_bytes"] - check["got_bytes"]
    return part + (", the rest told as untracked" if rest == check["untracked_bytes"] else
                   f", {mib(check['untracked_bytes'])} told as untracked")


def stack_text(check):
    s = check.get("stack", {})
    return "whole" if s.get("whole") else "the call, not how it came there" if s.get("site") else "wrong"


def shown(data):
    """Rows of the tables: what keeps books or is a floor."""
    return [r for r in data["compare"] if r["id"] != r["baseline"]]


def cost_rows(data):
    for r in shown(data):
        if not r["pair_ns"]:
            yield [r["name"], f"did not run: {r['reason']}", "", "", "", "", "", ""]
            continue
        extra = added(data, r)
        calm = us(median(added(data, r, "calm_ns"))) if r["calm_ns"] else "not measured"
        cpu = "in the program" if r["is_inside"] else percent(r["cpu_percent"])
        calm_cpu = "" if r["is_inside"] or not r["calm_cpu_percent"] else percent(r["calm_cpu_percent"])
        ratio = times_floor(data, r)
        yield [r["name"], f"{us(median(extra))} ({us(min(extra))} to {us(max(extra))})",
               f"{ratio:.2f}" if ratio is not None else "", calm, cpu, calm_cpu, memory_text(data, r),
               "" if r["is_inside"] else mib(median(r["map_bytes"]))]


COST_HEAD = ["", "added to a pair", "x floor", "at {rate:,} a second", "CPU of the tracer", "at {rate:,} a second",
             "resident", "kernel maps"]
TRUTH_HEAD = ["", "bytes, {live:,} blocks", "bytes, {many:,} blocks", "bytes, process older than the tracer", "stack",
              "stack, no frame pointers", "events lost"]


def truth_rows(data):
    for r in shown(data):
        if not r["keeps_books"]:
            continue
        c = r["checks"]
        if not c:
            yield [r["name"], f"did not run: {r['reason']}", "", "", "", "", ""]
            continue
        cells = [bytes_text(c[k]) if k in c else f"not checked: {r['reason']}" for k in ("plain", "many", "old")]
        stacks = [stack_text(c[k]) if k in c else f"not checked: {r['reason']}" for k in ("plain", "no_frame_pointers")]
        yield [r["name"], *cells, *stacks, lost_text(r)]


def said_text(point):
    """What the daemon says of limits that it reached."""
    said = point["said"]
    words = [f"{name}: {x['overflows']:,} over {x['max']:,}" for name, x in sorted(said["limits"].items())]
    words += [f"{name} {n:,}" for name, n in sorted(said["counters"].items())]
    if said["left_out_count"]:
        words.append(f"{said['left_out_count']:,} allocations left out")
    if not said["exact"]:
        words.append("marked not exact")
    return "; ".join(words)


def is_limited(point):
    return point["got_bytes"] != point["want_bytes"] or any(
        name in ("live_allocations", "sites", "sites_per_process", "stacks_per_process", "processes")
        for name in point["said"]["limits"])


SCALE_HEAD = ["", "added to a pair", "x floor", "over all sites in turn", "CPU, idle", "CPU, busy", "resident", "kernel maps",
              "`status --json`", "events lost", "books", "limits reached, as the daemon says it"]


def point_name(point):
    words = {"processes": "process", "blocks": "live block", "sites": "call site"}[point["axis"]]
    if point["x"] != 1:
        words = {"processes": "processes", "blocks": "live blocks", "sites": "call sites"}[point["axis"]]
    raised = "" if point["series"] == "default limits" else f", {point['series']}"
    return f"{point['x']:,} {words}{raised}"


def scale_rows(data):
    for p in data["scale"]:
        if "reason" in p:
            yield [point_name(p), f"did not run: {p['reason']}"] + [""] * 10
            continue
        extra, floor = median(p["pair_ns"]) - median(p["none_ns"]), median(p["bare_ns"]) - median(p["none_ns"])
        books = "right" if p["got_bytes"] == p["want_bytes"] else f"{mib(p['got_bytes'])} of {mib(p['want_bytes'])}"
        yield [point_name(p), us(extra), f"{extra / floor:.2f}" if floor > 0 else "",
               us(median(p["turn_ns"])) if p["turn_ns"] else "", percent([p["cpu_idle_percent"]]),
               percent([p["cpu_percent"]]), mib(p["rss_bytes"]), mib(p["map_bytes"]),
               f"{p['status_sec'] * 1000:.0f} ms, {p['status_bytes'] / 1024:,.0f} KiB", f"{p['lost']:,}", books, said_text(p)]


def markdown(words):
    """What programs said, as text of a page: no marks, and of a path only the file's name."""
    words = re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+", "", words)
    return words.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("\n", " ")


def markdown_table(head, rows, workload):
    head = [h.format(**workload) for h in head]
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return out + ["| " + " | ".join(map(markdown, row)) + " |" for row in rows]


def terminal_table(head, rows, workload):
    rows = [[h.format(**workload) for h in head]] + [list(r) for r in rows]
    width = [min(28, max(len(r[i]) for r in rows)) for i in range(len(head))]
    return ["  ".join(c.ljust(w) for c, w in zip(r, width)).rstrip() for r in rows]


def terminal(data):
    out = [machine_text(data), ""]
    for head, rows in ((COST_HEAD, cost_rows(data)), (TRUTH_HEAD, truth_rows(data)), (SCALE_HEAD, scale_rows(data))):
        rows = list(rows)
        if rows:
            out += terminal_table(head, rows, data["workload"]) + [""]
    return "\n".join(out)


def machine_text(data):
    m, load = data["machine"], data["load"]
    others = "; another gpuxray was running, which has its share of CPU and memory figures" if load["others"] else ""
    return (f"{'A virtual machine' if m['is_virtual'] else 'A machine'}, {m['cores']} cores, {m['cpu']}, "
            f"{m['memory_bytes'] / 2**30:.0f} GiB, kernel {m['kernel']} ({m['architecture']}); load average {load['before']:.1f} "
            f"before, {load['highest']:.1f} at its highest, {load['after']:.1f} after, of which the bench itself is one to "
            f"two{others}.")


# ---- charts

def style_of(row):
    return 3 if row["id"] in (FLOOR, "bpftrace_floor") else 0 if row["id"].startswith("gpuxray") else 1 if row["is_inside"] else 2


def bar_rows(data, values, show):
    for r in shown(data):
        if not r["pair_ns"]:
            yield {"name": r["name"], "reason": r["reason"]}
            continue
        v = values(r)
        if v:
            yield {"name": r["name"], "value": max(median(v), 0), "low": max(min(v), 0), "high": max(v), "style": style_of(r),
                   "text": show(median(v))}


def resident(data, r):
    if not r["is_inside"]:
        return [n / MIB for n in r["rss_bytes"]]
    base = median(by_id(data)[r["baseline"]]["traced_rss_bytes"])
    return [max(n - base, 0) / MIB for n in r["traced_rss_bytes"]]


def cost_chart(data):
    return chart.bars("Added to an allocation and its free, median and range of the rounds", "ns, logarithmic",
                      list(bar_rows(data, lambda r: added(data, r), us)))


def memory_chart(data):
    return chart.bars("Resident memory of the tracer, or what it adds to the program", "MiB, logarithmic",
                      list(bar_rows(data, lambda r: resident(data, r), lambda v: f"{v:.1f} MiB")))


def axis_chart(data, axis):
    points = [p for p in data["scale"] if p["axis"] == axis and "reason" not in p]
    missing = [p for p in data["scale"] if p["axis"] == axis and "reason" in p]
    kinds = list(dict.fromkeys(p["series"] for p in points))
    label = {"processes": "processes", "blocks": "live blocks", "sites": "call sites"}[axis]

    def series(name, value, style, only):
        return [{"name": name if only == kinds[0] else f"{name}, {only}", "style": style,
                 "points": [(p["x"], value(p), is_limited(p)) for p in points if p["series"] == only]}]

    def each(name, value, first=0):
        return [s for n, k in enumerate(kinds) for s in series(name, value, first + n, k)]

    main = [p for p in points if p["series"] == kinds[0]] if kinds else []
    floors = [{"name": "empty probes", "style": 3,
               "points": [(p["x"], median(p["bare_ns"]) - median(p["none_ns"]), False) for p in main]}]
    plots = [
        {"title": "Added to a pair", "unit": "ns",
         "series": each("gpuxray", lambda p: median(p["pair_ns"]) - median(p["none_ns"])) + floors},
        {"title": "Memory", "unit": "MiB", "series": each("resident", lambda p: p["rss_bytes"] / MIB)
         + each("kernel", lambda p: p["map_bytes"] / MIB, 2)},
        {"title": "CPU of the daemon", "unit": "% of a core", "series": each("busy", lambda p: p["cpu_percent"])
         + each("idle", lambda p: p["cpu_idle_percent"], 2)},
        {"title": "status --json", "unit": "ms", "series": each("time", lambda p: p["status_sec"] * 1000)},
    ]
    note = "A ring: a limit was reached; the table says which." if any(map(is_limited, points)) else ""
    note += "".join(f" Did not run: {point_name(p)}." for p in missing)
    return chart.panels(f"gpuxray by {label}", note, [{**p, "x": f"{label}, logarithmic"} for p in plots])


def charts(data):
    """File names and texts."""
    out = {}
    if any(r["pair_ns"] for r in shown(data)):
        out = {"bench-cost.svg": cost_chart(data), "bench-memory.svg": memory_chart(data)}
    for axis in dict.fromkeys(p["axis"] for p in data["scale"]):
        out[f"bench-{axis}.svg"] = axis_chart(data, axis)
    return out


# ---- the page

def rounds_text(data):
    counts = [len(r["pair_ns"]) for r in data["compare"] if r["pair_ns"]]
    return f"{min(counts)}" if counts else "0"


def versions_text(data):
    return ", ".join(f"{name} {v or 'not installed'}" for name, v in sorted(data["versions"].items()))


def page(data):
    w = data["workload"]
    notes = [f"- **{r['name']}**: {r['note']}." + (f" It did not run to its end: {markdown(r['reason'])}." if r["reason"] else "")
             for r in shown(data)]
    out = [
        "# gpuxray beside other ways, and at scale", "",
        "Written by `make bench`, which measures all of it again on any machine without a GPU, as root, after "
        "`tests/install-packages bench`. The driver is a stand-in (`tests/fake_gpu`): its own calls take some 80 ns, so what "
        "is added shows, and shows as a larger share than beside a real driver.", "",
        machine_text(data) + f" Versions: {versions_text(data)}.", "",
        "A probe hit costs several times more in a virtual machine than on bare metal, and other load moves all times. So rounds "
        "are interleaved, and **x floor** is what counts: what is added, as a multiple of what four empty probes (entry and "
        f"return of both calls) add in the same round. Here: medians of {rounds_text(data)} rounds, with their range.", "",
        "## On the same workload", "",
        f"A process makes pairs of an allocation and a free, as fast as it can and then at {w['rate']:,} a second; it holds "
        f"{w['live']:,} blocks, and its stack is 16 frames deep.", "",
        "![What a pair costs](bench-cost.svg)", "",
        *markdown_table(COST_HEAD, cost_rows(data), w), "",
        "Of a tracer inside the program the CPU is in the first columns. What probes do in the kernel is there too: the "
        "column of CPU has the tracer's own process alone.", "",
        "![What it takes](bench-memory.svg)", "",
        "What it knows at the end, while the blocks are held, against the workload's own ledger. The stack is right when the "
        "site that holds most has the calling function first, all levels, and `main`:", "",
        *markdown_table(TRUTH_HEAD, truth_rows(data), w), "",
        *notes, "",
        "memleak knows the functions of malloc's family alone, so its workload calls the driver through a library with those "
        "names, and what it adds is against the same calls without it. It reports each second here. gpuxray has no "
        "setting that takes no stacks, so there is no row for that. \"Events lost\" is what a tracer says itself: a "
        "full map of bpftrace is not told.", "",
        "## At scale", "",
        "A population is there (`tests/fake_gpu/work_many.c`), and the workload above is timed beside it. The limits are the "
        "defaults unless said otherwise. \"Over all sites in turn\" is the time of a pair when each comes from another of "
        "those sites, as fast as it goes.", "",
    ]
    for axis in dict.fromkeys(p["axis"] for p in data["scale"]):
        out += [f"![By {axis}](bench-{axis}.svg)", ""]
    out += [*markdown_table(SCALE_HEAD, scale_rows(data), w), ""]
    return "\n".join(out)


def write(data, folder):
    """The page and its charts; charts of what was not measured go."""
    found = schema.problems(data)
    if found:
        sys.exit("the figures are not of their form:\n" + "\n".join(found[:20]))
    files = {"bench.md": page(data), **charts(data)}
    for name in os.listdir(folder):
        if name.startswith("bench-") and name.endswith(".svg") and name not in files:
            os.unlink(f"{folder}/{name}")
    for name, content in files.items():
        with open(f"{folder}/{name}", "w", encoding="utf-8") as f:
            f.write(content)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as f:
        write(json.load(f), sys.argv[2])


if __name__ == "__main__":
    main()
