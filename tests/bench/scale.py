# SPDX-License-Identifier: MIT
"""The part `scale` of the bench: what more processes, blocks and call sites cost. At each point a population is there
(tests/fake_gpu/work_many.c, which is its own driver), and a workload beside it is timed."""
import json
import statistics
import subprocess
import sys
import time

import compare
import limits
import world

MIB = 1 << 20
MANY = world.DIR + "/work_many"
CONFIG = world.DIR + "/scale.conf"
SETTLED_SEC = 90
# What a counter of the daemon says of a limit; others than zero are shown.
COUNTERS = ("process_map_full", "live_map_full", "live_share_refused", "object_map_full", "stacks_lost", "stacks_sampled",
            "thread_state_failures")


def calm_rate(n):
    """So slow that each new stack is unwound: 500 a second are, with 2,000 at once."""
    return 400 if 1500 < n <= 4096 else 2500


def points(quick):
    """Axis, series, x, arguments of the population, configuration."""
    processes = (1, 100) if quick else (1, 10, 100, 1000)
    blocks = (1, 1_000_000) if quick else (1, 1000, 10_000, 100_000, 1_000_000, 1_200_000)
    sites = (1, 1000) if quick else (1, 10, 100, 1000, 4000, 10_000, 50_000)
    raised = () if quick else (1000, 10_000, 50_000)
    for n in processes:
        yield "processes", "default limits", n, ("hold", "--processes", n, "--blocks", 3, "--bytes", MIB), ""
    for n in blocks:
        yield "blocks", "default limits", n, ("turn", "--blocks", n), ""
    for n in sites:
        yield "sites", "default limits", n, ("turn", "--blocks", n, "--stacks", n, "--rate", calm_rate(n)), ""
    for n in raised:
        yield "sites", "limits raised", n, ("turn", "--blocks", n, "--stacks", n, "--rate", 2500), limits.RAISED


def daemon(bench, *options):
    return bench.Daemon("--library", MANY, *options, library=world.LIBRARY, env=world.environment())


def one_second():
    """The workload of the comparison, for a second."""
    command = [world.DIR + "/work_rate", *map(str, ("--seconds", 1, "--depth", compare.DEPTH, "--live", compare.LIVE,
                                                    "--bytes", compare.BYTES))]
    r = subprocess.run(command, capture_output=True, text=True, check=True, env=world.environment())
    return json.loads(r.stdout.splitlines()[0])["median_ns"]


def beside(bench, point):
    """Without a daemon and under empty probes, in the same minute."""
    point["none_ns"].append(one_second())
    d = daemon(bench, "--bare-probes")
    try:
        point["bare_ns"].append(one_second())
    finally:
        d.stop()


def asked(bench, point):
    times = []
    for _ in range(3):
        start = time.monotonic()
        r = subprocess.run([bench.GPUXRAY, "status", "--json"], capture_output=True, text=True, check=False)
        times.append(time.monotonic() - start)
        if r.returncode:
            raise RuntimeError(r.stderr.strip())
    point["status_sec"] = round(statistics.median(times), 4)
    point["status_bytes"] = len(r.stdout)
    return json.loads(r.stdout)


def share(d, seconds):
    cpu, start = d.cpu_ns(), time.monotonic()
    time.sleep(seconds)
    return round((d.cpu_ns() - cpu) / (time.monotonic() - start) / 1e7, 3)


def settle(d):
    """Until all is unwound and the books are as exact as they will be."""
    def is_quiet():
        s = d.status()
        return not s["stacks"]["queued"] and all(p["exact"] or p.get("left_out_count") for p in limits.ours(s))
    time.sleep(1)
    world.until(is_quiet, SETTLED_SEC, 0.2)


def said(status, population):
    return {
        "limits": {x["name"]: {"max": x["max"], "overflows": x["overflows"]} for x in status["limits"] if x["overflows"]},
        "counters": {k: status["counters"][k] for k in COUNTERS if status["counters"].get(k)},
        "left_out_count": sum(p.get("left_out_count") or 0 for p in limits.ours(status)),
        "exact": all(p["exact"] for p in limits.ours(status)) and len(limits.ours(status)) >= population["processes"],
    }


def turns(many, point, n):
    """All sites once more, in turn: each pair from another stack."""
    for _ in range(3):
        many.again()
        point["turn_ns"].append(round(many.said()["ns"] / n, 1))


def traced(bench, point, args, config):
    with open(CONFIG, "w", encoding="ascii") as f:
        f.write(config)
    d = daemon(bench, "--config", CONFIG)
    many = None
    try:
        many = limits.Many(bench, *args, program=MANY)
        made = many.said()
        settle(d)
        status = asked(bench, point)
        ours = limits.ours(status)
        point.update(got_bytes=sum(p["live_bytes"] for p in ours), want_bytes=made["live_bytes"],
                     got_count=sum(p["live_count"] for p in ours), want_count=made["live_count"],
                     said=said(status, {"processes": point["x"] if point["axis"] == "processes" else 1}))
        point["cpu_idle_percent"] = share(d, 2)
        point["rss_bytes"], point["map_bytes"] = world.rss_bytes(d.p.pid), world.map_bytes(d.p.pid)
        cpu, start = d.cpu_ns(), time.monotonic()
        point["pair_ns"] += [one_second() for _ in range(3)]
        point["cpu_percent"] = round((d.cpu_ns() - cpu) / (time.monotonic() - start) / 1e7, 3)
        if point["axis"] == "sites" and point["x"] >= 1000:
            turns(many, point, point["x"])
        point["lost"] = d.status()["lost_events"]
    finally:
        if many:
            many.end()
        d.stop()


def bench_scale(bench, quick):
    """Point by point; one that fails has its reason in place of figures."""
    for axis, series, x, args, config in points(quick):
        print(f"# scale: {x:,} {axis}, {series}, load {world.load():.1f}", file=sys.stderr, flush=True)
        point = {"axis": axis, "series": series, "x": x, "none_ns": [], "bare_ns": [], "pair_ns": [], "turn_ns": []}
        try:
            beside(bench, point)
            traced(bench, point, args, config)
            if not quick:
                beside(bench, point)
        except (OSError, RuntimeError, ValueError, KeyError, subprocess.SubprocessError) as e:
            point = {"axis": axis, "series": series, "x": x, "reason": f"{type(e).__name__}: {' '.join(str(e).split())}"[:300]}
            print(f"# scale: {point['reason']}", file=sys.stderr, flush=True)
        yield point
