#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Processes that make a watcher work: the books of an innocent neighbour stay exact, and what the daemon costs is bounded.

GPUXRAY_HOSTILE=1 takes sizes that are too long for each run. With it, and with GPUXRAY_HOSTILE=few, each case is also run
against GPUXRAY_SAN, a daemon built with ASan and UBSan: its books and words are held to the same, but not its costs.
"""
import contextlib
import ctypes
import os
import platform
import random
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import time

import elves
import harness as h

HOSTILE = os.environ.get("GPUXRAY_HOSTILE")
LONG = HOSTILE == "1"
SAN = os.environ.get("GPUXRAY_SAN")
REPORT = r"ERROR: (Address|Leak|Thread)Sanitizer|runtime error:|SUMMARY: \w+Sanitizer"
LIAR = h.FAKE + "/work_hostile_liar"
MANY = h.FAKE + "/work_many"
CONFIG = 'limits = { records_per_minute = 100000; };'
RULES = h.QUOTA_RULE.replace("100MiB", "8MiB").replace("80MiB", "4MiB").replace("severity", 'budget = "100000/1m"; severity')

# What a daemon with the limits of src/base/limits.h may cost while others do their worst. Resident: the ring's pages that
# were touched are among it (64 MiB here), and a quarter of a million blocks.
RSS_MIB = 96
FDS = 400
SHARE = 0.6

# What a process may choose; other fields may have several lines.
ONE_LINE = ("GPUXRAY_COMM", "GPUXRAY_CMDLINE", "GPUXRAY_EXE", "GPUXRAY_PARENT", "GPUXRAY_CGROUP", "GPUXRAY_TAG")


def sizes(few, many):
    return many if LONG else few


class Cost:
    """What a daemon has used since it was made."""

    def __init__(self, d):
        self.d = d
        self.rss, self.fds = self.now()
        self.cpu, self.at = self.seconds(), time.monotonic()

    def seconds(self):
        with open(f"/proc/{self.d.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def now(self):
        with open(f"/proc/{self.d.pid}/status") as f:
            rss = next(int(line.split()[1]) for line in f if line.startswith("VmRSS:")) / 1024
        return rss, len(os.listdir(f"/proc/{self.d.pid}/fd"))

    def check(self, case, what, share=SHARE, burst=0.3):
        """share: of a processor in the long run; burst: seconds of it at once."""
        rss, fds = self.now()
        wall, cpu = time.monotonic() - self.at, self.seconds() - self.cpu
        h.comment(f"{what}: resident {self.rss:.1f} to {rss:.1f} MiB, descriptors {self.fds} to {fds}, "
                  f"{cpu:.2f} s of a processor in {wall:.1f} s: {cpu / wall:.2f}")
        if self.d.is_sanitized:
            return
        case.check(rss < RSS_MIB, f"{what}: {rss:.1f} MiB resident, more than {RSS_MIB}")
        case.check(fds < FDS, f"{what}: {fds} descriptors, more than {FDS}")
        case.check(cpu < share * wall + burst, f"{what}: {cpu:.2f} s of a processor in {wall:.1f} s")


class Neighbour:
    """Does what programs do, beside it all; its ledger is what the books must be."""

    def __init__(self, case, what, ops=4000):
        self.case, self.what = case, what
        self.w = case.work("work_ledger", f"--seed={random.randrange(1 << 30)}", f"--ops={ops}", "--threads=1", "--pause-at=100",
                           "--reset", "--wait-end")
        self.w.next("pause")

    def check(self, d):
        self.w.go()
        ledger = self.w.next("end", 60)
        self.case.check(ledger["alloc_count"] > 300, f"{self.what}: the ledger is too thin to prove anything")
        p = d.wait_process(self.w.pid, lambda p: p["alloc_count"] >= ledger["alloc_count"], 20)
        h.check_books(self.case, p, ledger, f"{self.what}: neighbour")
        self.w.end()
        d.wait_gone(self.w.pid, 20)


def start(case, *options, sanitized=False, config=CONFIG, **kw):
    if sanitized:
        mine = case.path("gpuxray-san")
        shutil.copy2(SAN, mine)
        kw.update(wrap=["sh", "-c", f"shift; exec {mine} \"$@\"", "sh"],
                  env={"ASAN_OPTIONS": "detect_leaks=1:halt_on_error=0", "UBSAN_OPTIONS": "print_stacktrace=1"})
    d = case.daemon(*options, config=config, rules=RULES, **kw)
    d.is_sanitized = sanitized
    return d


def stop(case, d):
    d.status()
    d.stop(60)
    found = re.search(REPORT, d.stderr())
    case.check(not found, f"the daemon's sanitizer says {found and found[0]}")


def test(name, **kw):
    """One test with the daemon as it is, and on request one with the sanitized one."""
    def add(fn):
        h.test(name, **kw)(fn)

        def sanitized(case):
            if not SAN:
                raise h.Skip("GPUXRAY_SAN does not name a daemon built with make SAN=1")
            if not os.access(SAN, os.X_OK):
                raise h.Failure(f"GPUXRAY_SAN: {SAN} cannot be run")
            fn(case, sanitized=True)

        if HOSTILE:
            h.test(f"{name} (ASan and UBSan)", **kw)(sanitized)
        return fn
    return add


def need_x86():
    if platform.machine() != "x86_64":
        raise h.Skip("the machine code of this test is that of x86-64")


def limit(d, name):
    return next(x for x in d.status()["limits"] if x["name"] == name)


# ---- calls


@test("garbage in every argument, as fast as it goes, and success for an answer: counted, and nobody else's books suffer")
def liar(case, sanitized=False):
    d = start(case, "--library", LIAR, sanitized=sanitized)
    n = Neighbour(case, "garbage")
    w = case.work("work_hostile_liar", "garbage", f"--seconds={sizes(2, 10)}", "--wait-start", "--wait-end")
    w.next("ready")
    cost = Cost(d)
    w.go()
    said = w.next("garbage", 60)
    cost.check(case, f"garbage, {said['calls']} calls")
    n.check(d)
    c = d.status()["counters"]
    p = d.process(w.pid)
    h.comment(f"{c['read_faults']} read faults; its own books: {p['alloc_count']} allocations, {p['fail_count']} failures, "
              f"{p['left_out_count']} blocks left out, exact: {p['exact']}")
    case.check(c["read_faults"] > 0 and p["fail_count"] > 0, f"what could not be read is counted: {c}")
    case.equal(p["exact"], False, "its own books: exact")
    w.end()
    d.wait_gone(w.pid)
    stop(case, d)


@test("wild calls of a driver that refuses them, by several threads: failures, and nothing else")
def garbage(case, sanitized=False):
    d = start(case, sanitized=sanitized)
    n = Neighbour(case, "wild calls")
    w = case.work("work_hostile_storm", "garbage", f"--seconds={sizes(2, 10)}", "--wait-start", "--wait-end")
    w.next("ready")
    cost = Cost(d)
    w.go()
    said = w.next("garbage", 60)
    cost.check(case, f"wild calls, {said['calls']} calls")
    n.check(d)
    p = d.process(w.pid)
    case.equal((p["live_bytes"], p["live_count"], p["exact"]), (0, 0, True), "its own books")
    w.end()
    stop(case, d)


@test("children that allocate once and die: all are seen to end, and leave nothing behind")
def forks(case, sanitized=False):
    d = start(case, sanitized=sanitized)
    n = Neighbour(case, "forks")
    count = sizes(1500, 10000)
    w = case.work("work_hostile_storm", "forks", f"--count={count}", "--wait-start", "--wait-end")
    w.next("ready")
    before = d.status()["counters"]["events"]
    cost = Cost(d)
    w.go()
    said = w.next("forks", 120)
    cost.check(case, f"forks, {count / said['ns'] * 1e9:.0f} a second", share=0.9)
    n.check(d)
    s = d.status()
    case.check(s["counters"]["events"] - before >= 3 * count, f"events: {s['counters']['events'] - before}")
    case.equal([p["comm"] for p in s["processes"] if p["comm"] == "work_hostile_st"], [], "still in the books")
    w.end()
    stop(case, d)


# ---- names


@test("a name and arguments that change each millisecond: each record is one entry, clean, and without the secrets")
def names(case, sanitized=False):
    d = start(case, sanitized=sanitized)
    n = Neighbour(case, "names")
    w = case.work("work_hostile_storm", "names", f"--seconds={sizes(3, 10)}", "--bytes=9MiB", "--hold=20", "--pad=" + "x" * 700,
                  "--wait-start", "--wait-end")
    w.next("ready")
    cost = Cost(d)
    w.go()
    said = w.next("names", 60)
    cost.check(case, f"names, {said['calls']} processes")
    n.check(d)
    for text in (h.run(h.GPUXRAY, "status").stdout, h.run(h.GPUXRAY, "top", "--once").stdout):
        case.check(not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text), f"status: {text!r}")
    d.status()
    w.end()
    d.wait_gone(w.pid)
    stop(case, d)
    records = h.journal_json(f"_PID={d.pid}")
    about = [r for r in records if r.get("GPUXRAY_RULE") == "quota" and r.get("GPUXRAY_STATE") == "firing"]
    case.check(len(about) >= said["calls"] * 0.8, f"{len(about)} records of {said['calls']} processes")
    case.check(len({r.get("GPUXRAY_COMM") for r in about}) > len(about) / 2, "names of all kinds")
    for r in records:
        case.check(r.get("GPUXRAY_EVENT") in ("live_bytes", "sample", "process_exit", "site", "start", "stop", "health", "coverage"),
                   f"event {r.get('GPUXRAY_EVENT')!r}")
        case.check("GPUXRAY_FORGED" not in r, f"a forged field: {r}")
        for k, v in r.items():
            case.check(isinstance(v, str), f"{k} is no text: {v!r}")
            lines = k not in ONE_LINE
            case.check(not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]" + ("" if lines else "|\n"), str(v)),
                       f"{k}: {v!r}")
            for secret in ("AbCdEfGhIjKlMnOp", "hunter2", "s3cr3t"):
                case.check(secret not in str(v), f"{k} tells {secret}: {v!r}")
        if len(case.problems) > 20:
            break
    for secret in ("AbCdEfGhIjKlMnOp", "hunter2", "s3cr3t"):
        case.check(secret not in d.stderr(), f"the log tells {secret}")


# ---- libraries


@test("copies of the driver opened, closed, replaced and removed while mapped: probes follow, and stay within their limit")
def reload(case, sanitized=False):
    d = start(case, sanitized=sanitized)
    n = Neighbour(case, "reloads")
    os.mkdir(case.path("copies"))
    w = case.work("work_hostile_storm", "reload", h.LIBCUDA, case.path("copies"), f"--seconds={sizes(5, 20)}", "--wait-start",
                  "--wait-end")
    w.next("ready")
    cost = Cost(d)
    w.go()
    # Stacks of others do not wait behind it.
    time.sleep(sizes(2.5, 15))
    resolved = d.status()["stacks"]["resolved"]
    other = case.work("work_lifecycle", "hold", "--blocks=3", "--bytes=1MiB")
    other.next("hold")
    h.poll(lambda: d.status()["stacks"]["resolved"] > resolved, 3, "the stacks of another process")
    other.end()
    said = w.next("reload", 60)
    cost.check(case, f"reloads, {said['calls']}")
    n.check(d)
    l = limit(d, "libraries")
    case.check(l["used"] <= l["max"], f"libraries: {l}")
    lines = d.stderr().splitlines()
    h.comment(f"{l}, {limit(d, 'log_lines')}, {len(lines)} lines in the log")
    case.check(l["overflows"] > 0, f"what was not probed is counted: {l}")
    # 240, and four a second with one each that says how many were left out.
    most = 240 + 8 * (said["ns"] / 1e9 + 10)
    case.check(len(lines) < most, f"{len(lines)} lines in the log, more than {most:.0f}")
    w.end()
    stop(case, d)


MAP = """
import mmap, os, sys, time
for line in sys.stdin:
    path = line.rstrip("\\n").encode().decode("unicode_escape").encode("latin-1")
    if path == b"end":
        break
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        m = mmap.mmap(fd, min(os.fstat(fd).st_size, 4096) or 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
        os.close(fd)
        print("mapped", flush=True)
    except (OSError, ValueError) as e:
        print("not", e, flush=True)
"""


class Mapper(h.Process):
    """Maps files to execute them, and keeps them."""

    def __init__(self, case):
        self.buf = b""
        case.work_count += 1
        super().__init__(case, f"mapper-{case.work_count}", [sys.executable, "-c", MAP], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def map(self, path):
        text = os.fsencode(path).decode("latin-1").encode("unicode_escape")
        self.p.stdin.write(text + b"\n")
        self.p.stdin.flush()
        said = h.poll(self.lines, 20, f"the mapper and {path!r}")[0]
        if said != "mapped":
            raise h.Failure(f"the mapper: {path!r}: {said}")


def library(d, path):
    return next((x for x in d.status()["libraries"] if x["path"] == path), None)


@test("a driver with a million symbols: its calls are found and booked")
def many_symbols(case, sanitized=False):
    need_x86()
    path = elves.Elf(sizes(1000000, 1900000)).write(case.path("big/libcuda.so.1"))
    d = start(case, sanitized=sanitized)
    n = Neighbour(case, "a million symbols")
    cost = Cost(d)
    program = (f"import ctypes, time; l = ctypes.CDLL({path!r}); x = ctypes.c_uint64(); input();\n"
               "for i in range(10): l.cuMemAlloc_v2(ctypes.byref(x), ctypes.c_size_t(4096)); l.cuMemFree_v2(x)\n"
               "l.cuMemAlloc_v2(ctypes.byref(x), ctypes.c_size_t(8192)); input()")
    w = h.Process(case, "loader", [sys.executable, "-c", program], stdin=subprocess.PIPE)
    h.poll(lambda: library(d, path), 20, "the library is found")
    case.equal(library(d, path)["calls_found"], len(elves.FUNCTIONS) - 1, "calls found")  # cuInit is none
    cost.check(case, "a million symbols", share=1.0)
    w.p.stdin.write(b"\n")
    w.p.stdin.flush()
    p = d.wait_process(w.pid, lambda p: p["alloc_count"] == 11)
    case.equal((p["live_bytes"], p["live_count"], p["free_count"]), (8192, 1, 10), "books of who uses it")
    n.check(d)
    stop(case, d)


@test("broken drivers of every kind, sparse ones of 4 GiB: each is said, none holds the daemon up")
def broken(case, sanitized=False):
    d = start(case, sanitized=sanitized)
    n = Neighbour(case, "broken drivers")
    m = Mapper(case)
    whole = elves.Elf().write(case.path("whole/libcuda.so.1"))
    m.map(whole)
    h.poll(lambda: library(d, whole), 10, "the one that is whole")
    cost = Cost(d)
    for i, (name, elf, kw) in enumerate(elves.broken()):
        if i % 10 == 0:
            m = Mapper(case)  # each has its share of the probes
        path = elf.write(case.path(f"{name}/libcuda.so.1"), **kw)
        before, at = cost.seconds(), time.monotonic()
        m.map(path)
        l = h.poll(lambda: library(d, path), 20, f"{name}: told in the status")
        h.comment(f"{name}: {l['error']}, {l['calls_found']} calls, {cost.seconds() - before:.2f} s, "
                  f"{time.monotonic() - at:.2f} s")
    cost.check(case, "broken drivers")
    n.check(d)
    stop(case, d)
    h.comment(f"{len(d.stderr().splitlines())} lines in the log")


class Opened:
    """Whether a process opens a file, other than to look what it is (O_PATH). By fanotify, which tells whose the call was:
    daemons of other tests may look too."""

    def __init__(self, case, path):
        self.fd = h.libc.fanotify_init(0x203, 0)  # FAN_REPORT_FID, non-blocking, close-on-exec: it opens nothing itself
        case.finally_(os.close, self.fd)
        if h.libc.fanotify_mark(self.fd, 1, ctypes.c_uint64(0x20), -100, os.fsencode(path)) < 0:  # FAN_OPEN
            raise h.Failure(f"fanotify: {path}: {os.strerror(ctypes.get_errno())}")

    def by(self, pid):
        data = b""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self.fd, 1 << 16)
        while data:
            length, = struct.unpack_from("<I", data)
            if struct.unpack_from("<i", data, 20)[0] == pid:
                return True
            data = data[length:]
        return False


def long_path(folder, name):
    """Folders with newlines and controls in their names, to 4,000 bytes. Made one in the other: no call takes such a path."""
    at = os.open(folder, os.O_RDONLY)
    path = os.fsencode(folder)
    while len(path) + len(name) + 2 < 4000:
        part = (b"line\nGPUXRAY_FORGED=1\n\x1b[2J\xff" * 9)[:min(200, 4000 - len(path) - len(name) - 2)]
        os.mkdir(part, dir_fd=at)
        below = os.open(part, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at, path = below, path + b"/" + part
    os.close(at)
    return path + b"/" + os.fsencode(name)


@test("pipes and devices in the place of a driver are not opened; a path of 4,000 bytes with line breaks is one line")
def places(case, sanitized=False):
    d = start(case, sanitized=sanitized)
    n = Neighbour(case, "odd places")
    m = Mapper(case)
    cost = Cost(d)
    # Mapped, and then something else under its name, before and after the daemon has looked.
    watched = []
    for name, mode in (("pipe", stat.S_IFIFO), ("device", stat.S_IFCHR)):
        os.mkdir(case.path(name))
        os.mknod(case.path(f"{name}/odd"), mode | 0o666, os.makedev(1, 5))
        watched.append((name, Opened(case, case.path(f"{name}/odd"))))
        path = elves.Elf().write(case.path(f"{name}/libcuda.so.1"))
        d.signal(signal.SIGSTOP)
        m.map(path)
        os.unlink(path)
        os.symlink("odd", path)
        d.signal(signal.SIGCONT)
    os.mknod(case.path("libcuda.so.1"), stat.S_IFCHR | 0o666, os.makedev(1, 5))  # as /dev/zero
    m.map(case.path("libcuda.so.1"))
    watched.append(("a device that is mapped", Opened(case, case.path("libcuda.so.1"))))
    path = long_path(case.dir, "libcuda.so.1")
    elf = elves.Elf()
    at = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    with open(os.open("libcuda.so.1", os.O_WRONLY | os.O_CREAT, 0o755, dir_fd=at), "wb") as f:
        f.write(elf.data)
    os.close(at)
    m.map(path)
    found = h.poll(lambda: [x for x in d.status()["libraries"] if len(x["path"]) > 3000], 20, "the long path")
    case.equal(found[0]["calls_found"], 3, "the long path: calls found")
    time.sleep(1.5)  # a tick
    for name, watch in watched:
        case.check(not watch.by(d.pid), f"{name}: opened")
    cost.check(case, "odd places")
    n.check(d)
    stop(case, d)
    for line in d.stderr().splitlines():
        case.check(not re.match(r"GPUXRAY_|line|\[2J", line) and "\x1b" not in line and len(line) < 2048, f"log: {line!r}")


@test("programs that bring copy after copy: each has its share of the probes, the next program still gets its own")
def crowd(case, sanitized=False):
    d = start(case, sanitized=sanitized)
    n = Neighbour(case, "a crowd")
    cost = Cost(d)
    elf = elves.Elf()
    # Twenty from each of four, and all stay where they are.
    for i in range(4):
        m = Mapper(case)
        for j in range(20):
            m.map(elf.write(case.path(f"{i}-{j}/libcuda.so.1")))
        h.poll(lambda: limit(d, "libraries")["overflows"] >= 4 * (i + 1), 20, lambda: str(limit(d, "libraries")))
        if i < 3:
            case.check(limit(d, "libraries")["used"] <= 2 + 16 * (i + 1), f"libraries: {limit(d, 'libraries')}")
        last = m
    d.wait_stderr("cannot be probed: no room for more libraries")
    case.check(limit(d, "libraries")["used"] == limit(d, "libraries")["max"], f"libraries: {limit(d, 'libraries')}")
    # One of them ends: its places are free again, though its files are there.
    last.kill()
    time.sleep(1.2)
    os.mkdir(case.path("own"))
    shutil.copy2(h.LIBCUDA, case.path("own/libcuda.so.1"))
    w = case.work("work_late", case.path("own/libcuda.so.1"), "--sleep=0", "--wait-end")
    w.next("late")
    h.poll(lambda: library(d, case.path("own/libcuda.so.1")), 10, "a place for another program's")  # late for this one, perhaps
    w.end()
    w = case.work("work_late", case.path("own/libcuda.so.1"), "--sleep=0", "--wait-end", "--blocks=3")
    ledger = w.next("late")
    p = d.wait_process(w.pid, lambda p: p["alloc_count"] == 3)
    case.equal(p["live_bytes"], ledger["live_bytes"], "the next program")
    cost.check(case, "a crowd")
    n.check(d)
    w.end()
    stop(case, d)


@test("drivers that take long to search, one after the other: searching them has a share of the processor, the rest waits and is said")
def searches(case, sanitized=False):
    d = start(case, sanitized=sanitized)
    n = Neighbour(case, "slow drivers")
    elf, m = elves.slow(), None
    cost = Cost(d)
    for i in range(150):
        if i % 15 == 0:
            if m:
                m.kill()
            m = Mapper(case)
        path = elf.write(case.path(f"{i}/libcuda.so.1"))
        m.map(path)
        if i % 5 == 4 and limit(d, "library_search_ms")["overflows"]:
            break
    l = limit(d, "library_search_ms")
    h.comment(f"{i + 1} files: {l}")
    case.check(l["overflows"] > 0, f"none of {i + 1} files had to wait: {l}")
    d.wait_stderr("is not probed yet: searching libraries has taken too long lately")
    cost.check(case, "slow drivers", share=0.3, burst=1)
    n.check(d)
    # The last one is looked at when there is time again.
    h.poll(lambda: library(d, path), 30, "the one that had to wait")
    m.kill()
    stop(case, d)


# ---- stacks


def spoil(path, to, seed):
    """A copy whose unwind tables are noise."""
    with open(path, "rb") as f:
        data = bytearray(f.read())
    shoff, = struct.unpack_from("<Q", data, elves.SHOFF)
    size, n, names = struct.unpack_from("<HHH", data, elves.SHENTSIZE)
    table, = struct.unpack_from("<Q", data, shoff + size * names + elves.SH_OFFSET)
    rng, spoilt = random.Random(seed), 0
    for i in range(n):
        at = shoff + size * i
        name, = struct.unpack_from("<I", data, at)
        if data[table + name:].split(b"\0", 1)[0] not in (b".eh_frame", b".eh_frame_hdr"):
            continue
        offset, length = struct.unpack_from("<QQ", data, at + elves.SH_OFFSET)
        for k in range(offset + 8 * (seed % 2), offset + length):  # every other time the head is left
            if seed % 3 == 0 or rng.random() < 0.2:
                data[k] = rng.randrange(256)
        spoilt += 1
    if spoilt != 2:
        raise h.Failure(f"{path}: {spoilt} of two sections found")
    with open(to, "wb") as f:
        f.write(data)
    os.chmod(to, 0o755)


@test("unwind tables of noise, frame pointers that lead in circles, stacks of lies: bytes right, each cut is told")
def stacks(case, sanitized=False):
    need_x86()
    works = []
    for seed in range(3):
        os.mkdir(case.path(str(seed)))
        spoil(MANY, case.path(f"{seed}/work_many"), seed)
        works.append(case.work("work_many", "hold", "--blocks=400", "--stacks=400", "--bytes=4KiB", "--wait-start",
                               fake=case.path(str(seed))))
    liar_ = case.work("work_hostile_liar", "frames", f"--count={sizes(100, 2000)}", "--wait-start", "--wait-end")
    options = [x for i in range(3) for x in ("--library", case.path(f"{i}/work_many"))]
    d = start(case, "--library", LIAR, *options, sanitized=sanitized)
    n = Neighbour(case, "hostile stacks")
    for w in (*works, liar_):
        w.next("ready")
    before = d.status()["stacks"]
    cost = Cost(d)
    for w in (*works, liar_):
        w.go()
    for w in works:
        said = w.next("hold", 60)
        p = d.wait_process(w.pid, lambda p: p["alloc_count"] == 400)
        case.equal((p["live_bytes"], p["live_count"], p["exact"]), (said["live_bytes"], said["live_count"], True), "noise: books")
    said = liar_.next("frames", 60)
    p = d.wait_process(liar_.pid, lambda p: p["alloc_count"] == said["calls"])
    case.equal((p["live_bytes"], p["exact"]), (4096 * said["calls"], True), "lies: books")
    h.poll(lambda: d.status()["stacks"]["queued"] == 0, 30, "stacks are resolved")
    cost.check(case, "hostile stacks")
    after = d.status()
    h.comment(str({k: v - before[k] for k, v in after["stacks"].items() if v != before[k]}))
    case.check(after["stacks"]["incomplete"] > before["incomplete"], "stacks that are not whole are counted")
    n.check(d)
    for w in (*works, liar_):
        w.end()
    stop(case, d)


@test("a hundred thousand call sites: totals right to the byte, sites and stacks within their limits")
def sites(case, sanitized=False):
    count = sizes(20000, 100000)
    w = case.work("work_many", "hold", f"--blocks={count}", f"--stacks={count}", "--bytes=4KiB", "--wait-start")
    d = start(case, "--library", MANY, sanitized=sanitized)
    n = Neighbour(case, "call sites")
    w.next("ready")
    cost = Cost(d)
    w.go()
    said = w.next("hold", 120)
    p = d.wait_process(w.pid, lambda p: p["alloc_count"] == count, 30)
    case.equal((p["live_bytes"], p["live_count"], p["exact"]), (said["live_bytes"], count, True), "books")
    h.poll(lambda: d.status()["stacks"]["queued"] == 0, 60, "stacks are resolved")
    cost.check(case, f"{count} call sites")
    for name in ("sites_per_process", "stacks_per_process", "stacks_per_second", "learned_stacks"):
        l = limit(d, name)
        h.comment(str(l))
        case.check(l["used"] <= l["max"] or name == "stacks_per_second", f"limits: {l}")
    case.check(limit(d, "stacks_per_second")["overflows"] > 0, "what was not unwound is counted")
    n.check(d)
    w.end()
    stop(case, d)


if __name__ == "__main__":
    h.main()
