#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""memtrace: what its lines say is what the programs did, with a daemon and without, to the last byte of an end."""
import datetime
import json
import os
import re
import signal
import subprocess
import time

import harness as h

CONTEXT = 300 * h.MIB  # what a context takes, as the driver counts it
HEADER = "TIME PID USER GPU INUSE AL_CNT FR_CNT COMM".split()


class Memtrace(h.Process):
    def __init__(self, case, *args, env=None, stdout=subprocess.PIPE):
        self.buf = b""
        self.rows = []
        name = f"memtrace-{len(case.processes)}"
        argv = [h.GPUXRAY, "memtrace", "--config", case.write(name + ".conf", ""), "--library", h.LIBCUDA, *map(str, args)]
        env = {"LD_LIBRARY_PATH": h.FAKE, "FAKE_GPU_STATE": case.path("gpu-state"), "TZ": "UTC", "LC_ALL": "C.UTF-8",
               **(env or {})}
        super().__init__(case, name, argv, env=env, stdin=subprocess.DEVNULL, stdout=stdout)
        self.said = []

    def until(self, test, seconds=15, what=""):
        """The first line that the test, or this part of it, is about; those up to it are in said."""
        want = test if callable(test) else lambda line: re.search(test, line)

        def look():
            for line in self.lines():
                self.rows.append(line)
            while self.rows:
                self.said.append(self.rows.pop(0))
                if want(self.said[-1]):
                    return self.said[-1]
            if self.is_silent:
                raise h.Failure(f"{self.name} ended ({self.p.poll()}) before {what or test!r}: {self.said[-20:]}")
            return None

        return h.poll(look, seconds, lambda: f"{self.name}: {what or test!r}; it said {self.said[-20:]}", every=0.02)

    def rest(self, seconds=15):
        """All of it up to its end."""
        h.poll(lambda: self.rows.extend(self.lines()) or self.is_silent, seconds,
               lambda: f"the end of {self.name}: {self.rows[-20:]}")
        self.said += self.rows
        self.rows = []
        self.wait(5)
        return self.said

    def wait_stderr(self, text, seconds=10):
        h.poll(lambda: re.search(text, self.stderr()), seconds, lambda: f"{text!r} on its stderr: {self.stderr()!r}")


def bytes_of(text):
    """Of a size as the table writes it, to its precision."""
    n, unit = text.split()
    return float(n) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}[unit.rstrip("+*~")]


def row(line):
    """Its columns by name, or None."""
    m = re.match(r"(?P<TIME>\d\d:\d\d:\d\d(\.\d+)?) +(?P<PID>\d+) (?P<USER>\S+) +(?P<GPU>\S+) +(?P<INUSE>[\d.]+ [KMGT]?i?B|-)"
                 r"(?P<MARKS>[+*~]*) +(?P<AL_CNT>\d+|-) +(?P<FR_CNT>\d+|-) +(?P<COMM>.+)", line)
    return m and m.groupdict()


def rows_of(lines, pid):
    return [r for r in map(row, lines) if r and r["PID"] == str(pid)]


def check_row(case, got, ledger, what):
    """INUSE is rounded."""
    case.check(abs(bytes_of(got["INUSE"]) - ledger["live_bytes"]) <= ledger["live_bytes"] * 0.05 + 1,
               f"{what}: INUSE {got['INUSE']}, not {ledger['live_bytes']}")
    case.equal((got["AL_CNT"], got["FR_CNT"]), (str(ledger["alloc_count"]), str(ledger["free_count"])), f"{what}: counts")
    case.equal(got["MARKS"], "", f"{what}: marks")


def format_bytes(n):
    """As base/units.h does."""
    names = ["B", "KiB", "MiB", "GiB", "TiB"]
    i = max(k for k in range(len(names)) if k == 0 or n >> (10 * k))
    tenths = (n * 10 + ((1 << (10 * i - 1)) if i else 0)) >> (10 * i)
    if tenths >= 10240:
        i, tenths = i + 1, 10
    return f"{tenths // 10}{f'.{tenths % 10}' if tenths % 10 else ''} {names[i]}"


def check_end(case, lines, ledger, what):
    """What an end says was not freed, to the byte where it is told in bytes."""
    never = [line for line in lines if line.startswith("  never freed")]
    if not case.equal(len(never), 1, f"{what}: lines about what was never freed in {lines[-12:]}"):
        return
    parts = [(ledger["live_bytes"], "device"), (ledger["host_bytes"], "pinned host"), (ledger["managed_bytes"], "managed")]
    want = ", ".join(f"{format_bytes(n)} of {kind} memory" for n, kind in parts if n)
    blocks = ledger["live_count"]
    case.equal(never[0], f"  never freed: {want} in {blocks} block{'' if blocks == 1 else 's'}", what)


def children_of(pid):
    out = []
    for t in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{t}/children") as f:
            out += f.read().split()
    return out


def check_live(case, m, w, what):
    """A workload that holds memory and then ends, as one of both kinds of sources shows it."""
    ledger = w.next("hold")
    # It may be marked until the driver has said that nothing was there before.
    m.until(lambda line: (r := row(line)) and r["AL_CNT"] == str(ledger["alloc_count"]) and not r["MARKS"],
            what="all its allocations")
    case.equal(m.said[0].split(), HEADER, f"{what}: header")
    check_row(case, row(m.said[-1]), ledger, what)
    case.equal(row(m.said[-1])["COMM"], "work_lifecycle", f"{what}: COMM")
    case.equal(row(m.said[-1])["GPU"], "0", f"{what}: GPU")
    ended = time.monotonic()
    w.end()
    lines = m.rest()
    took = time.monotonic() - ended
    case.equal(m.p.returncode, 0, f"{what}: exit status")
    case.check(took < 1.5, f"{what}: the end was told after {took:.2f} s")
    check_end(case, lines, ledger, what)
    case.contains("\n".join(lines), f"  {w.pid} work_lifecycle has ended after ", f"{what}: the end")
    case.equal(sum(line.split() == HEADER for line in lines), 1, f"{what}: headers where nobody scrolls")
    case.check(re.match(r"    30 MiB in 3 blocks: allocate \(work_lifecycle\.c:\d+\) < hold \(work_lifecycle\.c:\d+\)", lines[-1]),
               f"{what}: its site: {lines[-3:]}")
    return lines


@h.test("memtrace beside the daemon: it asks, attaches nothing, and tells the end at once")
def beside(case):
    d = case.daemon()
    w = case.work("work_lifecycle", "hold", "--blocks=3", "--bytes=10MiB", "--wait-start")
    w.next("ready")
    m = Memtrace(case, "-p", w.pid, "-i", "5")
    m.wait_stderr(rf"gpuxray memtrace: no call of {w.pid} work_lifecycle to a GPU library has been seen yet: waiting\n")
    case.equal(children_of(m.pid), [], "processes that it has started")
    w.go()
    check_live(case, m, w, "with a daemon")
    d.stop()


@h.test("memtrace without a daemon: a tracer of its own, as long as it runs", exclusive=True)
def alone(case):
    w = case.work("work_lifecycle", "hold", "--blocks=3", "--bytes=10MiB", "--wait-start")
    other = case.work("work_lifecycle", "hold", "--wait-start")
    w.next("ready")
    m = Memtrace(case, "-p", w.pid, "-i", "0.2", "--top", "3")
    m.wait_stderr("waiting", 30)
    tracers = children_of(m.pid)
    case.equal(len(tracers), 1, "its tracers")
    other.go()
    other.next("hold")
    w.go()
    lines = check_live(case, m, w, "without a daemon")
    case.equal(rows_of(lines, other.pid), [], "lines about another process")
    h.poll(lambda: not any(os.path.exists(f"/proc/{t}") for t in tracers), 5, "the end of its tracer")
    other.end()


@h.test("an end of a program with all kinds of memory: what it leaked, to the byte, by site")
def ledger_end(case):
    d = case.daemon()
    w = case.work("work_ledger", "--ops=3000", "--threads=2", "--wait-start", "--ledger")
    w.next("ready")
    m = Memtrace(case, "-p", w.pid, "-i", "0.5")
    j = Memtrace(case, "-p", w.pid, "-i", "0.5", "--json", "--print-stacks")
    time.sleep(0.5)
    w.go()
    ledger = w.next("end", 30)
    case.equal(w.wait(), 0, "exit status of the workload")
    lines, objects = m.rest(), [json.loads(line) for line in j.rest()]
    case.equal((m.p.returncode, j.p.returncode), (0, 0), "exit statuses")
    check_end(case, lines, ledger, "its end")
    last = objects[-1]
    case.equal((last["ended"], last["pid"]), (True, w.pid), "the last object")
    for k in ("live_bytes", "host_bytes", "managed_bytes", "live_count", "alloc_count", "free_count", "fail_count"):
        case.equal(last[k], ledger[k], f"the last object: {k}")
    sites = last["sites"]
    case.equal(sum(s["blocks"] for s in sites), ledger["live_count"], "blocks of all sites")
    held = sum(last[k] for k in ("live_bytes", "host_bytes", "managed_bytes", "imported_bytes"))
    case.equal(sum(s["bytes"] for s in sites), held, "bytes of all sites")
    case.equal([s["bytes"] for s in sites], sorted((s["bytes"] for s in sites), reverse=True), "most bytes first")
    told = [line for line in lines if re.match(r"    [\d.]+ \w+ in \d+ block", line)]
    case.equal(len(told), min(3, len(sites)), "sites told")
    d.stop()


@h.test("several processes: each has its line, ends by itself, and the last one ends it")
def several(case):
    d = case.daemon()
    works = [case.work("work_lifecycle", "hold", f"--blocks={i + 1}", "--bytes=1MiB") for i in range(3)]
    ledgers = [w.next("hold") for w in works]
    stranger = case.work("work_lifecycle", "hold")
    stranger.next("hold")
    pids = [w.pid for w in works]
    m = Memtrace(case, "-p", f"{pids[2]},{pids[0]}", "-p", pids[1], "-i", "0.2", "-p", pids[0])
    m.until(rf" {pids[2]} .*work_lifecycle$")
    case.equal([row(line)["PID"] for line in m.said[1:4]], [str(p) for p in pids], "those who began first come first")
    for pid, ledger in zip(pids, ledgers):
        check_row(case, rows_of(m.said, pid)[0], ledger, f"process {pid}")
    for w in works:
        w.end()
        m.until(f"  {w.pid} work_lifecycle has ended")
    m.rest()
    case.equal(m.p.returncode, 0, "exit status")
    case.equal(rows_of(m.said, stranger.pid), [], "lines about another process")
    stranger.end()
    d.stop()


@h.test("--follow: children of a launcher that calls no GPU library, and theirs, those that are born later too")
def follow(case):
    d = case.daemon()
    script = 'read go; (exec "$0" fork --blocks=2 --bytes=1MiB) <&0; read go'
    w = h.Process(case, "launcher", ["bash", "-c", script, f"{h.FAKE}/work_lifecycle"],
                  env={"FAKE_GPU_STATE": case.path("gpu-state")}, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    stranger = case.work("work_lifecycle", "hold", "--bytes=1MiB")
    stranger.next("hold")
    m = Memtrace(case, "-p", w.pid, "--follow", "-i", "0.2")
    m.wait_stderr(rf"no call of {w.pid} bash to a GPU library")

    def go():
        w.p.stdin.write(b"\n")
        w.p.stdin.flush()

    go()
    seen = {}

    def all_seen(line):
        r = row(line)
        if r:
            seen[r["PID"]] = r
        return len(seen) == 2 and {x["AL_CNT"] for x in seen.values()} == {"1", "2"}

    m.until(all_seen, what="a line of the child and of the grandchild")
    case.equal({x["COMM"] for x in seen.values()}, {"work_lifecycle"}, "who they are")
    case.check(str(stranger.pid) not in seen, "a process that is no child of it")
    go()
    for pid in seen:
        m.until(lambda line, pid=pid: f"  {pid} work_lifecycle has ended" in "\n".join(m.said), what="the ends of both")
    case.check(m.is_alive(), "the launcher still runs")
    go()
    m.rest()
    case.equal(m.p.returncode, 0, "exit status when all have ended")
    case.contains(m.stderr(), f"{w.pid} bash has ended, and no call to a GPU library was seen", "the launcher's end")
    stranger.end()
    d.stop()


@h.test("--comm: those that come later, and those that come and go between two looks")
def by_comm(case):
    d = case.daemon()
    first = case.work("work_lifecycle", "hold", "--blocks=1", "--bytes=1MiB", "--name=other")
    first.next("hold")
    m = Memtrace(case, "--comm", "^night-", "-i", "1")
    m.wait_stderr("no process with GPU memory is meant yet: waiting")
    w = case.work("work_lifecycle", "hold", "--blocks=2", "--bytes=3MiB", "--name=night-a")
    ledger = w.next("hold")
    m.until("night-a$")
    brief = case.work("work_lifecycle", "hold", "--blocks=1", "--bytes=5MiB", "--name=night-b")
    brief.next("hold")
    brief.end()
    m.until(rf"  {brief.pid} night-b has ended")
    case.equal(m.until("never freed"), "  never freed: 5 MiB of device memory in 1 block", "its end")
    case.contains(m.until("^    "), "hold", "its site, though it was never looked at")
    lines = Memtrace(case, "--comm", "^night-", "-n", "1", "--print-stacks").rest()
    case.check(any(line.startswith("      hold+0x") for line in lines), f"stacks at the first look: {lines}")
    w.end()
    m.until(rf"  {w.pid} night-a has ended")
    case.check(m.is_alive(), "it goes on when all have ended")
    m.signal(signal.SIGTERM)
    m.rest()
    case.equal(m.p.returncode, 0, "exit status")
    case.equal(rows_of(m.said, first.pid), [], "lines about another command")
    check_end(case, [line for line in m.said if "5 MiB" not in line], ledger, "the end of the one")
    case.equal(Memtrace(case, "--comm", ".", "-n", "1").rest()[1:] != [], True, "--comm . tells all")
    nobody = Memtrace(case, "--unit", "no-such", "-n", "2", "-i", "0.1")
    case.equal((nobody.rest(), nobody.p.returncode), ([], 0), "a unit that is not")
    first.end()
    d.stop()


@h.test("a process that began before tracing: what the driver counted then is told once and marked", host=True)
def older(case):
    w = case.work("work_lifecycle", "exec", "--blocks=2", "--bytes=10MiB", env={"FAKE_GPU_CONTEXT_BYTES": str(CONTEXT)})
    w.next("exec")
    churn = case.work("work_rate", "--seconds=20", "--rate=20", "--bytes=64KiB",
                      env={"FAKE_GPU_CONTEXT_BYTES": str(CONTEXT)})
    time.sleep(0.5)
    m = Memtrace(case, "-p", f"{w.pid},{churn.pid}", "-i", "0.5")
    m.until(rf"^  {w.pid} work_lifecycle has shown no call: INUSE is what the driver counts \(\*\)", 30)
    got = rows_of(m.said, w.pid)[-1]
    case.equal(got["MARKS"], "*", "the mark of one without a call")
    case.check(bytes_of(got["INUSE"]) >= CONTEXT, f"the driver's figure: {got}")
    told = rf"  {churn.pid} work_rate began .*, before tracing: calls are counted since .*, and ([\d.]+ MiB) that the driver"
    note = next((line for line in m.said if re.match(told, line)), None) or m.until(told)
    case.check(bytes_of(re.match(told, note)[1]) >= CONTEXT * 0.99, f"the baseline: {note!r}")
    n = len(m.said)
    for _ in range(3):
        m.until(rf" {churn.pid} .*work_rate$")
    case.equal({r["MARKS"] for r in rows_of(m.said[n:], churn.pid)}, {"+"}, "the mark of one that is older")
    case.equal([line for line in m.said[n:] if "began" in line], [], "told again")
    case.equal(len([line for line in m.said if f"{w.pid} work_lifecycle has shown no call" in line]), 1, "it has shown no call")


@h.test("--print-stacks: sites by size with function and line, and which of them grow")
def stacks(case):
    d = case.daemon()
    w = case.work("work_lifecycle", "reset", "--blocks=3", "--bytes=4MiB")
    w.next("reset-before")
    m = Memtrace(case, "-p", w.pid, "-i", "0.3", "--print-stacks")
    at = m.until(r"^    12 MiB in 3 blocks, device by cuMemAlloc_v2, age ")
    case.check("(" not in at, f"growth at the first look: {at!r}")
    m.until(rf"^[\d:.]+ +{w.pid} ")
    here = m.said[m.said.index(at):-1]
    case.equal(len([line for line in here if line.startswith("    12 MiB in 3 blocks")]), 2, "sites: two lines call one function")
    frames = []
    for line in here[1:]:
        if not line.startswith("      "):
            break
        frames.append(line.strip())
    case.check(frames and frames[0].startswith("cuMemAlloc_v2"), f"innermost frame: {frames}")
    case.check(any(re.match(r"allocate\+0x\w+ \(work_lifecycle\) at .*work_lifecycle\.c:\d+$", f) for f in frames),
               f"the program's function with its line: {frames}")
    case.check(any(f.startswith("main+0x") for f in frames), f"the whole stack: {frames}")
    w.go()
    w.next("reset")
    m.until(rf" {w.pid} .* 12 MiB .*work_lifecycle$")
    n = len(m.said)
    m.until(rf"^[\d:.]+ +{w.pid} ")
    case.equal(len([line for line in m.said[n:] if " blocks" in line]), 1, "sites that hold memory when one device is reset")
    w.end()
    m.rest()
    grow = case.work("work_demo", "--seconds=4", "--name=train")
    m = Memtrace(case, "-p", grow.pid, "-i", "0.3", "--print-stacks")
    m.until(r"^  \^ [\d.]+ .iB in \d+ blocks? \(\+[\d.]+ .iB\), ")
    lines = Memtrace(case, "-p", grow.pid, "-n", "1", "--print-stacks", "--top", "1").rest()
    case.equal(len([line for line in lines if " block" in line]), 1, "sites with --top 1")
    case.check(re.match(r"    and \d+ sites? more$", lines[-1]), f"--top 1 says what it leaves out: {lines[-1]!r}")
    d.stop()


@h.test("--json: the status's numbers, with the time and what sites have grown by")
def as_json(case):
    d = case.daemon()
    w = case.work("work_ledger", "--ops=2000", "--pause-at=1000")
    w.next("pause")
    time.sleep(0.3)
    m = Memtrace(case, "-p", w.pid, "-i", "0.2", "-n", "3", "--json", "--print-stacks")
    objects = [json.loads(line) for line in m.rest()]
    status = d.process(w.pid)
    case.equal((len(objects), m.stderr(), m.p.returncode), (3, "", 0), "objects, errors, exit status")
    for o in objects:
        both = set(o) & set(status) - {"sites", "devices"}
        case.check({"pid", "start_time", "comm", "live_bytes", "alloc_count", "driver_bytes", "covered", "exact"} <= both,
                   f"keys of both: {sorted(both)}")
        for k in sorted(both - {"conditions", "untracked_bytes", "driver_bytes"}):
            case.equal(o[k], status[k], f"{k}, here and in the status")
        mine, its = ({x["uuid"]: x["live_bytes"] for x in y["devices"]} for y in (o, status))
        case.equal(mine, its, "bytes of devices, here and in the status")
    case.equal({s["growth_bytes"] for s in objects[0]["sites"]}, {None}, "growth at the first look")
    case.equal({s["growth_bytes"] for s in objects[2]["sites"]} - {None}, {0}, "growth at rest")
    times = [datetime.datetime.fromisoformat(o["time"]) for o in objects]
    now = datetime.datetime.now(datetime.timezone.utc)
    case.check(all(abs((t - now).total_seconds()) < 20 for t in times), f"times {times}, now {now}")
    case.check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", objects[0]["time"]), objects[0]["time"])
    w.go()
    w.wait()
    d.stop()


@h.test("ticks do not drift, and -n counts them", exclusive=True)
def ticks(case):
    d = case.daemon()
    w = case.work("work_lifecycle", "hold")
    w.next("hold")
    m = Memtrace(case, "-p", w.pid, "-i", "0.1", "-n", "31", "--json")
    at = [datetime.datetime.fromisoformat(json.loads(line)["time"]).timestamp() for line in m.rest(10)]
    case.equal(len(at), 31, "looks")
    # A busy machine makes one late, or has a tick left out; a drift would be in all that come after, more and more.
    off = [(t - at[0] + 0.05) % 0.1 - 0.05 for t in at]
    case.check(sorted(abs(o) for o in off[-9:])[4] < 0.03, f"looks are off by {[round(o, 3) for o in off]}")
    w.end()
    d.stop()


@h.test("SIGINT: a last look and a summary, with a daemon and with a tracer of its own", exclusive=True)
def interrupted(case):
    d = case.daemon()
    w = case.work("work_demo", "--seconds=20", "--name=train")
    for with_daemon in (True, False):
        m = Memtrace(case, "-p", w.pid, "-i", "0.3")
        m.until("train$", 30)
        time.sleep(1)
        n = len(m.said)
        m.signal(signal.SIGINT)
        lines = m.rest()
        case.equal(m.p.returncode, 0, "exit status")
        case.check(rows_of(lines[n:], w.pid), "a last look")
        growth = r" \([+-]?[\d.]+ \w+\)"
        if not with_daemon:  # at first it is known by the driver's figure alone, with which none of ours is compared
            growth = f"({growth})?"
        case.check(re.fullmatch(rf"  {w.pid} train, looked at for \d+s: [\d.]+ \w+{growth}, peak [\d.]+ \w+, \d+ "
                                r"allocations?, \d+ frees?(, \d+ failed)?", lines[-1]), f"the summary: {lines[-1]!r}")
        # A tracer of its own may be there before the first call that it sees.
        early = "" if with_daemon else rf"(gpuxray memtrace: no call of {w.pid} train to a GPU library .* waiting\n)?"
        case.check(re.fullmatch(early, m.stderr()), f"what it says on standard error: {m.stderr()!r}")
        if with_daemon:
            d.stop()


@h.test("a daemon that hangs: SIGINT ends it all the same, with what it knows")
def hangs(case):
    d = case.daemon()
    w = case.work("work_lifecycle", "hold")
    w.next("hold")
    m = Memtrace(case, "-p", w.pid, "-i", "0.2")
    m.until("work_lifecycle$")
    d.signal(signal.SIGSTOP)
    time.sleep(0.5)
    m.signal(signal.SIGINT)
    begin = time.monotonic()
    lines = m.rest(5)
    case.check(time.monotonic() - begin < 3, "it waits for a second")
    case.equal(m.p.returncode, 0, "exit status")
    case.check(lines[-1].startswith(f"  {w.pid} work_lifecycle, looked at for "), f"the summary: {lines[-1]!r}")
    case.equal(m.stderr(), "gpuxray memtrace: no answer: what was known before is all\n", "what it says on standard error")
    d.signal(signal.SIGCONT)
    w.end()
    d.stop()


@h.test("a daemon that is restarted meanwhile: one line, and it goes on", exclusive=True)
def restart(case):
    d = case.daemon()
    w = case.work("work_lifecycle", "hold", "--blocks=2", "--bytes=1MiB")
    ledger = w.next("hold")
    m = Memtrace(case, "-p", w.pid, "-i", "0.2")
    m.until("work_lifecycle$")
    d.stop()
    m.wait_stderr("no daemon answers|has ended")
    time.sleep(0.6)
    d = case.daemon()
    m.wait_stderr("gpuxray memtrace: the daemon answers again\n", 20)
    case.equal(len(m.stderr().splitlines()), 2, f"lines about it: {m.stderr()!r}")
    m.lines()
    m.until("work_lifecycle$", 20)
    case.check(m.is_alive(), "it goes on")
    # And one whose end nobody was there to tell.
    m.until("work_lifecycle$")
    got = rows_of(m.said, w.pid)[-1]
    d.signal(signal.SIGKILL)
    d.wait()
    w.end()
    lines = m.rest(10)
    case.equal(m.p.returncode, 0, "exit status")
    case.contains("\n".join(lines), "  its end was not told: these are its figures of the last line", "its end")
    case.equal(rows_of(lines, w.pid)[-1]["AL_CNT"], got["AL_CNT"], "figures of the last line")
    case.equal(ledger["alloc_count"], 2, "allocations")


@h.test("nobody reads on: it ends quietly")
def closed(case):
    d = case.daemon()
    w = case.work("work_lifecycle", "hold")
    w.next("hold")
    for args in ("", "--json"):
        r = h.run("bash", "-c", f'set -o pipefail; "$0" memtrace -p {w.pid} -i 0.1 {args} | head -3', h.GPUXRAY, timeout=10)
        case.equal((r.returncode, r.stderr, len(r.stdout.splitlines())), (0, "", 3), f"| head -3 {args}")
    # Long before the next line.
    begin = time.monotonic()
    r = h.run("bash", "-c", f'"$0" memtrace -p {w.pid} -i 60 | head -1', h.GPUXRAY, timeout=20)
    case.check(time.monotonic() - begin < 5, "it waited for the next look")
    with open("/dev/full", "w") as full:
        r = subprocess.run([h.GPUXRAY, "memtrace", "-p", str(w.pid), "-n", "1"], stdout=full, stderr=subprocess.PIPE, text=True,
                           timeout=20)
    case.equal((r.returncode, "cannot write" in r.stderr), (1, True), f"a full disk: {r.stderr!r}")
    w.end()
    d.stop()


@h.test("what is asked for wrongly, or is not there")
def wrong(case):
    d = case.daemon()
    for args, why in ((["-p", "999999999"], "no process has the pid 999999999"), (["-p", "x"], "not a process id"),
                      (["-p", "1,,2"], "not a process id"), (["-p", "0"], "not a process id"), ([], "of which processes?"),
                      (["-p", "1", "-i", "0.01"], "must be a number"), (["-p", "1", "-i", "nan"], "must be a number"),
                      (["-p", "1", "-n", "0"], "must be a number"), (["-p", "1", "--top", "0"], "must be a number"),
                      (["--comm", "("], "--comm ("), (["--unit", ""], "name a unit"), (["-p", "1", "x"], "not understood"),
                      (["-p", f"{os.getpid()},999999999"], "no process has the pid")):
        r = h.run(h.GPUXRAY, "memtrace", *args, timeout=10)
        case.equal((r.returncode, r.stdout), (1, ""), f"exit status and output of {args}")
        case.check(why in r.stderr and r.stderr.count("\n") == 1, f"{args}: {r.stderr!r}")
    s = subprocess.Popen(["sleep", "60"])
    case.finally_(s.kill)
    m = Memtrace(case, "-p", s.pid, "-i", "0.2")
    m.wait_stderr(rf"no call of {s.pid} sleep to a GPU library has been seen yet: waiting\n")
    s.kill()
    s.wait()
    case.equal((m.rest(), m.p.returncode), ([], 0), "one that never calls")
    case.contains(m.stderr(), f"{s.pid} sleep has ended, and no call to a GPU library was seen", "its end")
    case.equal(len(m.stderr().splitlines()), 2, f"lines about it: {m.stderr()!r}")
    d.stop()


if __name__ == "__main__":
    h.main()
