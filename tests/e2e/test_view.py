#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The sessions of the status socket, by which live commands look: what they say is what the status says, and no client
harms another, or the daemon."""
import contextlib
import os
import socket
import time
import urllib.parse

import harness as h

SOCKET = "/run/gpuxray/status.sock"


class Session:
    def __init__(self):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.settimeout(15)
        self.s.connect(SOCKET)
        self.f = self.s.makefile("rb")

    def ask_raw(self, line):
        self.s.sendall(line.encode() + b"\n")
        head = self.f.readline()
        return self.f.read(int(head)).decode() if head else None

    def ask(self, line="view"):
        """[(kind, {key: value})] in their order."""
        text = self.ask_raw(line)
        if text is None:
            raise h.Failure("the daemon has closed the session")
        lines = text.splitlines()
        if lines[0] != "gpuxray-view 1" or lines[-1] != "end":
            raise h.Failure(f"no answer: {lines[0]!r} ... {lines[-1]!r}")
        return [(words[0], {k: urllib.parse.unquote(v) for k, v in (w.split("=", 1) for w in words[1:])})
                for words in (line.split(" ") for line in lines[1:-1])]

    def process(self, pid, line="view"):
        return next((v for k, v in self.ask(line) if k == "process" and v["pid"] == str(pid)), None)

    def close(self):
        self.f.close()
        self.s.close()


def peak_bytes(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmHWM"))


@h.test("a session asks on: processes, devices, limits and latencies are those of the status")
def same(case):
    d = case.daemon(sink="json")
    w = case.work("work_lifecycle", "hold", "--blocks=3", "--bytes=5MiB")
    w.next("hold")
    d.wait_process(w.pid, lambda p: p["live_bytes"] == 15 << 20)
    s = Session()
    for _ in range(3):
        items = s.ask()
    status = d.status()
    mine = next(v for k, v in items if k == "process" and v["pid"] == str(w.pid))
    theirs = next(p for p in status["processes"] if p["pid"] == w.pid)
    for key in ("live_bytes", "peak_bytes", "live_count", "alloc_count", "start_time"):
        case.equal(mine[key], str(theirs[key]), key)
    for key in ("comm", "exe", "user"):
        case.equal(mine[key], theirs[key], key)
    case.equal({v["uuid"] for k, v in items if k == "device"}, {g["uuid"] for g in status["devices"]}, "devices")
    case.equal([v["name"] for k, v in items if k == "limit"], [x["name"] for x in status["limits"]], "names of limits")
    took = next(v for k, v in items if k == "latency" and v["function"].startswith("cuMemAlloc"))
    case.equal(took["count"], "3", "calls whose latency is told")
    case.equal(sum(map(int, took["buckets"].split(","))), 3, "... by bucket")
    case.check(int(took["sum_ns"]) > 0, "they took no time")
    w.end()
    s.close()


@h.test("a session is told of ends once, with all that was never freed, by site")
def ends(case):
    d = case.daemon(sink="json")
    w = case.work("work_lifecycle", "hold", "--blocks=3", "--bytes=5MiB")
    other = case.work("work_lifecycle", "hold", "--blocks=1", "--bytes=1MiB")
    w.next("hold")
    other.next("hold")
    all_, one, deaf = Session(), Session(), Session()
    all_.ask("view sites=8 ends=1")
    one.ask(f"view pids={other.pid} sites=8 ends=1")
    deaf.ask()
    w.end()
    d.wait_gone(w.pid)
    items = all_.ask("view sites=8 ends=1")
    at = next(i for i, (k, v) in enumerate(items) if k == "process" and v["pid"] == str(w.pid))
    case.equal((items[at][1].get("ended"), items[at][1]["live_bytes"]), ("1", str(15 << 20)), "what it held at its end")
    site = next(v for k, v in items[at:] if k == "site")
    case.equal((site["bytes"], site["blocks"]), (str(15 << 20), "3"), "of its site")
    case.contains(site["stack"], "allocate+", "its stack")
    case.contains(site["stack"], "\n", "frames one a line")
    case.equal(all_.process(w.pid), None, "it is told again")
    case.equal(one.process(w.pid, f"view pids={other.pid} sites=8 ends=1"), None, "one that nobody asked for")
    case.equal(deaf.process(w.pid), None, "ends for who wants none")
    other.end()
    d.wait_gone(other.pid)
    case.equal(one.process(other.pid, f"view pids={other.pid} ends=1").get("ended"), "1", "the end of the other")
    for s in (all_, one, deaf):
        s.close()


@h.test("growth and calls of the last minute, and what a process held in it")
def recent(case):
    case.daemon(sink="json")
    w = case.work("work_demo", "--seconds=12")
    s = Session()
    p = h.poll(lambda: (lambda p: p if p and p.get("recent", "").count(",") >= 1 else None)(s.process(w.pid)), 20,
               "two looks at what it held")
    held = [int(b) for b in p["recent"].split(",")]
    case.equal(int(p["growth_bytes_per_min"]), int(p["live_bytes"]) - held[0], "growth")
    case.check(0 < int(p["allocs_per_min"]) <= int(p["alloc_count"]), f"calls of the last minute: {p['allocs_per_min']}")
    s.close()


@h.test("a process that becomes another program: calls and memory of the last minute are the new one's")
def execed(case):
    case.daemon(sink="json")
    w = case.work("work_lifecycle", "exec", "--blocks=2", "--bytes=5MiB")
    w.next("exec")
    s = Session()
    h.poll(lambda: (s.process(w.pid) or {}).get("recent"), 10, "a look at what it held")
    w.go()
    w.next("exec-again")
    p = h.poll(lambda: (lambda p: p if p and p["live_bytes"] == str(10 << 20) and p.get("recent") else None)(
        s.process(w.pid)), 10, "a look at what the new one holds")
    case.equal(set(p["recent"].split(",")), {str(10 << 20)}, "what it held in the last minute")
    case.equal(p.get("growth_bytes_per_min"), "0", "growth since it is seen")
    w.end()
    s.close()


@h.test("clients that ask for everything and go: nothing of it is made, and others do not wait for it")
def gone(case):
    many = h.FAKE + "/work_many"
    w = case.work("work_many", "hold", "--wait-start", "--processes=300", "--blocks=4", "--stacks=4")
    w.next("ready")
    d = case.daemon("--library", many, sink="json")
    w.go()
    h.poll(lambda: sum(p["live_count"] == 4 for p in d.status()["processes"]) >= 300, 30, "300 processes", every=0.3)
    first = Session()
    first.ask("view sites=100")
    before = peak_bytes(d.pid)
    for _ in range(300):
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as s:
            s.connect(SOCKET)
            s.sendall(b"view sites=100\n")
    begin = time.monotonic()
    first.ask("view pids=1")
    first.ask(f"view pids={w.pid} sites=1")
    took, grown = time.monotonic() - begin, peak_bytes(d.pid) - before
    h.comment(f"one beside them waits {took:.2f} s, the daemon has grown by {grown >> 10} KiB")
    case.check(grown < 24 * h.MIB, f"the daemon has grown by {grown >> 20} MiB")
    w.kill()
    first.close()


@h.test("many sessions, ones that do not read, and ones that talk nonsense: others are answered as before")
def hostile(case):
    d = case.daemon(sink="json")
    works = [case.work("work_lifecycle", "hold", "--blocks=2") for _ in range(2)]
    for w in works:
        w.next("hold")
    lazy = [Session() for _ in range(16)]
    for s in lazy:  # each has a session, and reads nothing of what it asks for
        s.s.sendall(b"view sites=100 ends=1\n" * 3)
    late = Session()
    case.equal(late.ask_raw("view"), None, "a session beyond the limit")
    start = time.monotonic()
    case.equal({p["pid"] for p in d.status()["processes"]} >= {w.pid for w in works}, True, "the status beside them")
    case.check(time.monotonic() - start < 2, "the status is slow")
    for s in lazy:
        s.close()
    for bad in (b"\0\n", b"view pids=x\n", b"view " + b"9" * 9000 + b"\n", b"viewpids=1\n", b"view\0\n", b"\xff" * 20000):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(10)
        s.connect(SOCKET)
        try:
            s.sendall(bad)
            s.recv(65536)
        except (BrokenPipeError, ConnectionResetError):
            pass
        s.close()
    s = h.poll(lambda: (lambda s: s if s.ask_raw("view") else None)(Session()), 5, "a session after all of this")
    # One that goes while its answer is being made.
    for _ in range(20):
        gone = Session()
        gone.s.sendall(b"view sites=100\n")
        gone.close()
    case.check(s.process(works[0].pid), "the process in the answer")
    fds = len(os.listdir(f"/proc/{d.pid}/fd"))
    for _ in range(50):
        x = Session()
        x.ask("view sites=2")
        x.close()
    h.poll(lambda: len(os.listdir(f"/proc/{d.pid}/fd")) <= fds + 1, 5, lambda: f"descriptors stay: {fds} before, now "
           f"{len(os.listdir(f'/proc/{d.pid}/fd'))}")
    for w in works:
        w.end()
    s.close()


if __name__ == "__main__":
    h.main()
