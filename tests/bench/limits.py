# SPDX-License-Identifier: MIT
"""The part `limits` of the bench: memory and time at 1,000,000 live blocks, 10,000 processes and 50,000 call sites, and
what programs can do to the daemon. Its workload is its own driver (tests/fake_gpu/work_many.c)."""
import json
import signal
import subprocess
import time

RAISED = ('limits = { sites = 60000; sites_per_process = 60000; stacks_per_process = 60000; learned_stacks = 200000; '
          'stacks_per_second = 4000; };')
MIB = 1 << 20


class Many:
    def __init__(self, b, mode, *args, program=None):
        self.p = subprocess.Popen([program or b.FAKE + "/work_many", mode, *map(str, args)], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)

    def said(self):
        return json.loads(self.p.stdout.readline())

    def again(self):
        self.p.stdin.write("\n")
        self.p.stdin.flush()

    def end(self):
        self.p.stdin.close()
        self.p.wait()


def start(b, config=""):
    path = "/run/limits.conf"
    with open(path, "w") as f:
        f.write(config)
    return b.Daemon("--library", b.FAKE + "/work_many", "--config", path)


def memory(d, start_rss):
    rss = d.rss_kib()["VmRSS"]
    return f"{rss / 1024:.1f} MiB resident ({(rss - start_rss) / 1024:+.1f}), {d.kernel_bytes() / MIB:.1f} MiB in the kernel"


def idle(d, seconds=5):
    cpu, t = d.cpu_ns(), time.monotonic()
    time.sleep(seconds)
    return (d.cpu_ns() - cpu) / (time.monotonic() - t) / 1e7


def ours(s):
    """Other programs may be traced too."""
    return [p for p in s["processes"] if p["comm"] == "work_many"]


def wait_exact(d, seconds=60):
    """Seconds until the books say that they are exact after a loss, and the status that said so."""
    t = time.monotonic()
    while time.monotonic() - t < seconds:
        s = d.status()
        if all(p["exact"] and p["lost_events"] for p in ours(s)):
            break
        time.sleep(0.02)
    return time.monotonic() - t, s


def books(s, bytes_each):
    """How many blocks they hold, and whether their bytes are those of so many blocks."""
    live = sum(p["live_count"] for p in ours(s))
    return live, all(p["live_bytes"] == p["live_count"] * bytes_each and p["exact"] for p in ours(s))


def bench_blocks(b):
    for processes in (1, 20):
        d = start(b)
        before = d.rss_kib()["VmRSS"]
        w = Many(b, "turn", "--processes", processes, "--blocks", 1_000_000 // processes)
        w.said()
        time.sleep(2)
        s = d.status()
        for _ in range(100):  # where so many processes leave the daemon no core, events are lost and the books rebuilt
            live, same = books(s, 4096)
            if same:
                break
            time.sleep(0.2)
            s = d.status()
        where = f"{live:,} live blocks in {len(ours(s))} process{'es' if processes > 1 else ''}"
        b.row(where, f"{memory(d, before)}; a tick costs {idle(d) / 100 * 1e3:.1f} ms; {s['lost_events']} events lost, "
              f"books {'exact' if same else 'NOT exact'}", "exact", same and live == 1_000_000)
        if processes == 1:
            d.p.send_signal(signal.SIGSTOP)
            w.again()
            w.said()
            cpu = d.cpu_ns()
            d.p.send_signal(signal.SIGCONT)
            took, s = wait_exact(d)
            live, same = books(s, 4096)
            b.row(f"rebuilt after {s['lost_events']:,} lost events, {where}",
                  f"exact after {took:.2f} s, {(d.cpu_ns() - cpu) / 1e9:.2f} s of CPU; "
                  f"{d.rss_kib()['VmRSS'] / 1024:.1f} MiB resident then", "exact", same and live == 1_000_000)
        cpu = d.cpu_ns()
        w.end()
        time.sleep(3)
        b.row("its end", f"{(d.cpu_ns() - cpu) / 1e9:.2f} s of CPU, {len(ours(d.status()))} processes left", "", None)
        d.stop()


def room_for(processes):
    """Processes that fit: each takes some 150 KiB of page tables, stack and kernel structures, and a number."""
    with open("/proc/meminfo") as f:
        free = next(int(line.split()[1]) for line in f if line.startswith("MemAvailable"))
    with open("/proc/sys/kernel/pid_max") as f:
        pids = int(f.read()) // 2
    return min(processes, free // 2 // 150, pids)


def bench_processes(b):
    n = room_for(10000)
    d = start(b)
    before, cpu = d.rss_kib()["VmRSS"], d.cpu_ns()
    w = Many(b, "hold", "--processes", n, "--blocks", 3, "--bytes", MIB)
    took = w.said()["ns"] / 1e9
    time.sleep(3)
    spent = (d.cpu_ns() - cpu) / 1e9
    t = time.monotonic()
    r = subprocess.run([b.GPUXRAY, "status", "--json"], capture_output=True, text=True, check=True)
    asked = time.monotonic() - t
    s = json.loads(r.stdout)
    live, same = books(s, MIB)
    what = f"{len(ours(s)):,} processes of {n:,}"
    b.row(what, f"{memory(d, before)}; made in {took:.1f} s, which cost the daemon {spent:.1f} s of CPU; books "
          f"{'exact' if same else 'NOT exact'}", "exact",
          same and live == 3 * len(ours(s)) and len(s["processes"]) >= n)
    b.row(f"a tick, {what}", f"{idle(d) / 100 * 1e3:.0f} ms", "", None)
    b.row(f"status --json, {what}", f"{asked * 1e3:.0f} ms, {len(r.stdout) / MIB:.1f} MiB", "", None)
    cpu = d.cpu_ns()
    w.end()
    time.sleep(3)
    b.row("their end", f"{(d.cpu_ns() - cpu) / 1e9:.2f} s of CPU, {len(ours(d.status()))} left", "", None)
    d.stop()


def limit(s, name):
    return next(x for x in s["limits"] if x["name"] == name)


def bench_sites(b):
    n = 50000
    for config, what, rate in ((RAISED, "limits raised", 2500), ("", "default limits", 2500)):
        d = start(b, config)
        before, cpu, t = d.rss_kib()["VmRSS"], d.cpu_ns(), time.monotonic()
        w = Many(b, "turn", "--blocks", n, "--stacks", n, "--rate", rate)
        w.said()
        while d.status()["stacks"]["queued"]:
            time.sleep(0.1)
        took = time.monotonic() - t
        time.sleep(1.5)
        s = d.status()
        live, same = books(s, 4096)
        sites, others = limit(s, "sites_per_process"), limit(s, "stacks_per_second")
        b.row(f"{n:,} call sites in one process, {what}",
              f"{memory(d, before)}; {sites['used']:,} told apart, {sites['overflows']:,} blocks over the limit of sites "
              f"and {others['overflows']:,} over that of stacks a second; {took:.1f} s until all are resolved (allocated at "
              f"{rate:,} a second), {(d.cpu_ns() - cpu) / 1e9:.1f} s of CPU; bytes {'exact' if same else 'NOT exact'}",
              "exact", same and live == n)
        cpu, known = d.cpu_ns(), s["counters"]["stacks_known"]
        w.again()
        ns = w.said()["ns"]
        time.sleep(2)
        s = d.status()
        b.row(f"all of them once more, {what}",
              f"{(d.cpu_ns() - cpu) / 1e9:.2f} s of CPU for {n:,} pairs in {ns / 1e9:.1f} s; "
              f"{s['counters']['stacks_known'] - known:,} stacks known again", "", None)
        w.end()
        d.stop()


def bench_hostile(b):
    """Each as fast as it goes, on one core; the daemon has the others."""
    for mode, what in (("fail", "failing allocations"), ("single", "pairs whose allocation is past a limit"),
                       ("unknown", "frees of what was never allocated"),
                       ("uuids", "ordinals that are another device each time"),
                       ("contexts", "contexts made and destroyed"), ("forks", "processes that make one call and end")):
        d = start(b)
        cpu = d.cpu_ns()
        w = Many(b, mode, "--seconds", 5, "--bytes", 4 << 30)
        said = w.said()
        share = (d.cpu_ns() - cpu) / said["ns"] * 100
        w.end()
        b.row(f"{said['calls'] / said['ns'] * 1e9:,.0f} {what} a second", f"{share:.1f} % of a core", "50 %", share < 50)
        d.stop()


def bench_limits(b):
    bench_blocks(b)
    bench_processes(b)
    bench_sites(b)
    bench_hostile(b)
