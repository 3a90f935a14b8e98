#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hours of mixed work, and what the daemon has grown by: nothing.

tests/e2e/run tests/soak/test_soak.py [plain|sanitized]; SOAK_SECONDS says how long each runs (3600). A round is work of all
kinds for a while, then quiet: the workloads have ended and the books are empty, so that what is left is what a round has
left behind. The first rounds may still fill caches; after them memory, file descriptors, mappings, threads and
kernel memory must stand still. SOAK_JSON=FILE keeps every sample.
"""
import collections
import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import threading
import time

import harness as h

SECONDS = int(os.environ.get("SOAK_SECONDS", 3600))
ROUND = 45  # of work; quiet comes on top
QUIET = 4
REPORT = r"ERROR: (Address|Leak|Thread)Sanitizer|runtime error:|SUMMARY: \w+Sanitizer"
# Names and files that rest for ten minutes are let go of: so long it takes until as much goes as comes.
SETTLED = 780
# Of the last third of the rounds after that over the first. An allocator's fragments come and go by so much: the pages of the
# largest snapshot, which a round may or may not have asked for in the end.
GROWTH_BYTES = 512 << 10
MODES = ("churn", "fork", "fork-after", "exec", "orphan", "crash", "reset", "query", "leader-exit")
# ASan's allocator keeps what it has for each size of block, most of it between two red zones, and gives little of it back.
GROWTH_BYTES_SANITIZED = 8 << 20
FIELDS = ("rss", "anonymous", "fds", "files", "mappings", "threads", "kernel")
# Those of the traced are open for ten minutes after their last use: as many as programs came in that time, more or less.
GROWTH_FILES = 20

RULES = [h.MINIMAL_RULES, h.QUOTA_RULE,
         "version = 1;\nrules = ( { name = \"busy\"; kind = \"alloc_rate\"; fire_above = \"1000/s\"; } );\n",
         "version = 1;\nrules = ( { name = \"broken\"; kind = \"no_such_kind\"; } );\n"]

PYTHON = """
import ctypes, sys
cuda = ctypes.CDLL(sys.argv[1])
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
cuda.cuMemAlloc_v2.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
cuda.cuMemFree_v2.argtypes = [ctypes.c_uint64]
held = []
def take(depth, n):
    if depth:
        return take(depth - 1, n)
    p = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(p), n) == 0
    held.append(p)
for i in range(2000):
    exec(compile(f"def site_{i % 97}():\\n    take({i % 13}, {i + 1})\\n", f"made_{i % 31}.py", "exec"))
    globals()[f"site_{i % 97}"]()
    if i % 3:
        cuda.cuMemFree_v2(held.pop(0).value)
"""


def read(path):
    with open(path, errors="replace") as f:
        return f.read()


def sample(pid):
    """What there is of the daemon, in bytes and pieces."""
    status = read(f"/proc/{pid}/status")
    kib = {k: int(re.search(rf"^{k}:\s+(\d+)", status, re.M)[1]) for k in ("VmRSS", "RssAnon", "Threads")}
    fds, files, kernel = 0, 0, 0
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        text = read(f"/proc/{pid}/fdinfo/{fd}")
        is_file = os.readlink(f"/proc/{pid}/fd/{fd}").startswith("/")
        fds += not is_file
        files += is_file
        if m := re.search(r"^memlock:\s+(\d+)", text, re.M):
            kernel += int(m[1])
    return {"rss": kib["VmRSS"] << 10, "anonymous": kib["RssAnon"] << 10, "fds": fds, "files": files,
            "threads": kib["Threads"],
            "mappings": len(read(f"/proc/{pid}/maps").splitlines()), "kernel": kernel}


def fd_kinds(pid):
    kinds = collections.Counter()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            kinds[re.sub(r"\d+", "N", os.readlink(f"/proc/{pid}/fd/{fd}"))] += 1
    return kinds


class Round:
    """Work of one round, begun and seen to its end."""

    def __init__(self, case, d, number, seconds):
        self.case, self.d, self.number = case, d, number
        self.random = random.Random(number)
        self.end = time.monotonic() + seconds
        self.stop = threading.Event()
        self.kept = len(case.processes)
        self.counts = collections.Counter()

    def spawn(self, argv, env=None, **kw):
        self.counts[os.path.basename(argv[0])] += 1
        env = {**os.environ, "FAKE_GPU_STATE": self.case.path("gpu-state"), **(env or {})}
        return subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, env=env, preexec_fn=h.die_with_parent, **kw)

    def until_end(self, make):
        """One after the other; each may take no longer than the round has left and some."""
        while time.monotonic() < self.end:
            p = make()
            try:
                p.wait(max(1, self.end - time.monotonic()) + 10)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
            time.sleep(self.random.uniform(0, 2))

    def random_work(self):
        n = self.random.randrange(1 << 30)
        return self.spawn([h.FAKE + "/work_random", f"--seed={n}", f"--threads={1 + n % 4}", "--ops=2400"])

    def life(self):
        return self.spawn([h.FAKE + "/work_lifecycle", self.random.choice(MODES), "--bytes", "65536", "--blocks", "40"])

    def python(self):
        return self.spawn(["/usr/bin/python3", "-c", PYTHON, h.LIBCUDA])

    def library(self):
        """A driver nobody has seen before, gone afterwards."""
        folder = self.case.path(f"driver-{self.random.randrange(1 << 30)}")
        shutil.copytree(h.FAKE, folder)
        p = self.spawn([folder + "/work_demo"], env={"LD_LIBRARY_PATH": folder})
        with contextlib.suppress(subprocess.TimeoutExpired):
            p.wait(5)
        shutil.rmtree(folder)
        p.kill()
        return p

    def rate(self):
        return self.spawn([h.FAKE + "/work_rate", "--rate", "2000", "--seconds", "8"])

    def ask(self):
        """Users and programs that look, in all ways; also some that hang up at once or say nonsense."""
        what = self.random.choice(["status", "json", "top", "memtrace", "scrape", "nonsense", "hang up", "report"])
        self.counts[what] += 1
        if what in ("nonsense", "hang up"):
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
                s.settimeout(2)
                s.connect("/run/gpuxray/status.sock")
                if what == "nonsense":
                    s.sendall(self.random.randbytes(300))
                    s.recv(4096)
            time.sleep(0.3)
            return self.spawn(["/bin/true"])
        if what == "scrape":
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
                s.settimeout(10)
                s.connect(self.case.path("m"))
                s.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                while s.recv(1 << 16):
                    pass
            return self.spawn(["/bin/true"])
        argv = {"status": ["status"], "json": ["status", "--json"], "top": ["top", "--once"],
                "memtrace": ["memtrace", "--comm", "work", "-n", "3"],
                "report": ["report", "--since", "-5min"]}[what]
        p = self.spawn([h.GPUXRAY, *argv])
        with contextlib.suppress(subprocess.TimeoutExpired):
            p.wait(8)
        p.kill()  # memtrace goes on for as long as there is something to see
        return p

    def admin(self):
        """What happens to a daemon: reloads of good and of bad files, a journald that goes away."""
        while not self.stop.wait(self.random.uniform(4, 9)):
            if self.random.random() < 0.15:
                self.counts["journald killed"] += 1
                with contextlib.suppress(OSError):
                    os.kill(h.journald_pid(), signal.SIGKILL)
            else:
                with open(self.d.rules_file, "w") as f:
                    f.write(self.random.choice(RULES))
                self.counts["reload"] += 1
                self.d.reload()

    def work(self):
        threads = [threading.Thread(target=self.until_end, args=(make,)) for make in
                   (self.random_work, self.life, self.life, self.python, self.library, self.rate, self.ask)]
        threads.append(threading.Thread(target=self.admin))
        for t in threads:
            t.start()
        for t in threads[:-1]:
            t.join()
        self.stop.set()
        threads[-1].join()

    def settle(self):
        """Until the books are empty: no process of the round is left."""
        h.poll(lambda: not self.d.status()["processes"], 60,
               lambda: f"the books are empty: {[(p['pid'], p['comm']) for p in self.d.status()['processes']]}", every=0.5)
        time.sleep(QUIET)


def report_growth(case, samples, what, growth_bytes):
    """Of the rounds that count the last third against the first."""
    settled = [s for s in samples if s["seconds"] >= SETTLED]
    n = len(settled) // 3
    if n < 2:
        raise h.Failure(f"SOAK_SECONDS={SECONDS} is too little: the first {SETTLED} s do not count, as caches fill")
    early, late = settled[:n], settled[-n:]
    for k in FIELDS:
        a, b = (statistics.median(s[k] for s in part) for part in (early, late))
        is_bytes = k in ("rss", "anonymous", "kernel")
        unit, div = (" KiB", 1024) if is_bytes else ("", 1)
        h.comment(f"{what}: {k} {a / div:.0f}{unit} then, {b / div:.0f}{unit} at the end, at most "
                  f"{max(s[k] for s in samples) / div:.0f}{unit}")
        case.check(b - a <= (growth_bytes if is_bytes else GROWTH_FILES if k == "files" else 0), f"{what}: {k} grew from {a:.0f} to {b:.0f}")


def soak(case, what, growth_bytes, **options):
    signal.alarm(0)
    d = case.daemon(config=f"""limits = {{ records_per_minute = 100000; }};
        metrics = {{ listen = "unix:{case.path('m')}"; textfile = "{case.path('prom')}"; interval = "5s"; }};
        sample_interval = "5s";
        """, rules=h.MINIMAL_RULES, **options)
    began, samples, counts = time.monotonic(), [], collections.Counter()
    kinds = None
    seconds = min(ROUND, max(4, SECONDS // 12))
    while time.monotonic() - began < SECONDS or len(samples) < 3:
        r = Round(case, d, len(samples), seconds)
        r.work()
        r.settle()
        counts += r.counts
        if not d.is_alive():
            raise h.Failure(f"the daemon ended: {d.p.returncode}")
        samples.append({"seconds": round(time.monotonic() - began, 1), **sample(d.pid)})
        if len(samples) == 3:
            kinds = fd_kinds(d.pid)
        if path := os.environ.get("SOAK_JSON"):
            with open(path, "w") as f:
                json.dump(samples, f)
    s = d.status()
    events = sum(s["calls"].values())  # probes that were hit
    h.comment(f"{what}: {time.monotonic() - began:.0f} s, {len(samples)} rounds, {events:,} calls seen, "
              f"{s['lost_events']:,} lost; " + ", ".join(f"{v} {k}" for k, v in sorted(counts.items())))
    report_growth(case, samples, what, growth_bytes)
    if case.problems:
        case.problems.append(f"descriptors in the third round {kinds}, at the end {fd_kinds(d.pid)}")
    case.check(events > 500 * len(samples), f"{what}: too little work to prove anything: {events} calls")
    d.stop(90)
    found = re.search(REPORT, d.stderr())
    case.check(not found, f"the daemon's sanitizer says {found and found[0]}")


@h.test("plain: memory, descriptors, mappings and kernel memory stand still", seconds=SECONDS)
def plain(case):
    soak(case, "plain", GROWTH_BYTES)


@h.test("sanitized: no report, and nothing grows under ASan either", seconds=SECONDS)
def sanitized(case):
    built = os.environ.get("GPUXRAY_SAN", h.ROOT + "/.build/san/gpuxray")
    if not os.access(built, os.X_OK):
        raise h.Failure(f"{built} cannot be run: make SAN=1 makes it, GPUXRAY_SAN names it")
    mine = case.path("gpuxray-san")
    shutil.copy2(built, mine)
    # What is freed stays unusable for a while, and resident: a small quarantine is full before the first rounds are over.
    env = {"ASAN_OPTIONS": "detect_leaks=1:halt_on_error=0:quarantine_size_mb=8", "UBSAN_OPTIONS": "print_stacktrace=1"}
    soak(case, "sanitized", GROWTH_BYTES_SANITIZED, wrap=["sh", "-c", f"shift; exec {mine} \"$@\"", "sh"], env=env)


if __name__ == "__main__":
    h.main()
