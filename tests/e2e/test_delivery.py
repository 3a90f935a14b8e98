#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records arrive, or what is missing is told: a journal or a syslog receiver that stands still, dies, is full or slow, and a
daemon that dies."""
import collections
import contextlib
import json
import os
import random
import re
import signal
import socket
import sys
import time

import harness as h
from manager import Manager
from receiver import Receiver

# "oom" makes as many records as are wanted; "big" is what must get through.
RULES = """version = 1;
rules = (
  { name = "oom"; kind = "alloc_failure"; count = 1; window = "1m"; severity = "notice"; budget = "100000/1m"; },
  { name = "quota"; kind = "live_bytes"; scope = "process"; fire_above = "200MiB"; resolve_below = "150MiB"; for = "0s";
    keep_firing_for = "0s"; severity = "warning"; budget = "100000/1m"; },
  { name = "big"; kind = "live_bytes"; scope = "process"; fire_above = "500MiB"; resolve_below = "400MiB"; for = "0s";
    keep_firing_for = "0s"; severity = "critical"; }
);
"""
ALL_RULES = RULES.replace("\n);", """,
  { name = "exit"; kind = "exit"; live_above = "1MiB"; min_runtime = "0s"; severity = "notice"; }
);""")
JOURNALD_CONF = "/run/systemd/journald.conf.d/zz-delivery.conf"
JOURNALS = "/run/log/journal"


def config(more="", queue=256):
    """Without a history, so that all records can be counted beforehand."""
    return f"limits = {{ queue = {queue}; records_per_minute = 100000; }};\nsample_interval = \"off\";\n{more}\n"


FAIL = """
import ctypes, json, sys, time
cu = ctypes.CDLL(sys.argv[1])
count, pause = int(sys.argv[2]), float(sys.argv[3]) / 1e3
context, p = ctypes.c_void_p(), ctypes.c_uint64()
for r in cu.cuInit(0), cu.cuCtxCreate_v2(ctypes.byref(context), 0, 0):
    assert r == 0, r
for i in range(count):
    assert cu.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1 << 45)) == 2
    time.sleep(pause)
print(json.dumps({"label": "failed"}), flush=True)
sys.stdin.readline()
"""
# Processes that hold a block for a while and end, some at a time; a line ends it.
LIVES = """
import ctypes, os, random, signal, sys, time
cu = ctypes.CDLL(sys.argv[1])
workers = []

def live():
    context, p = ctypes.c_void_p(), ctypes.c_uint64()
    for r in cu.cuInit(0), cu.cuCtxCreate_v2(ctypes.byref(context), 0, 0):
        assert r == 0, r
    assert cu.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(250 << 20)) == 0
    time.sleep(random.expovariate(10))
    os._exit(0)

for _ in range(int(sys.argv[2])):
    workers.append(os.fork())
    while workers[-1] == 0:
        pid = os.fork()
        if pid == 0:
            random.seed()
            live()
        os.waitpid(pid, 0)
os.write(1, b'{"label": "lives"}\\n')
sys.stdin.readline()
for pid in workers:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
"""


def work_python(case, script, *args):
    return case.work("libcuda.so.1", *args, wrap=(sys.executable, "-c", script))


def work_fail(case, count, pause_ms=1):
    """So many records, one for each allocation that fails."""
    return work_python(case, FAIL, count, pause_ms)


def wait_failed(case, d, w, count, what=""):
    """The books are right, meanwhile as well."""
    w.next("failed", 30)
    p = d.wait_process(w.pid, lambda p: p["fail_count"] >= count, 10, what)
    case.equal((p["fail_count"], p["alloc_count"], p["exact"]), (count, 0, True), f"books {what}")


def hold_big(case):
    w = case.work("work_lifecycle", "hold", "--blocks=1", "--bytes=600MiB")
    w.next("hold")
    return w


def suppressed(records):
    return sum(int(r.get("GPUXRAY_SUPPRESSED", 0)) for r in records)


def all_records(*daemons):
    """Of the history, too."""
    return h.journal_json(*[x for d in daemons for x in (f"_PID={d.pid}", "+")][:-1])


def own_counts(case, records, may_lack=False):
    """Each record of the daemon's own says how many were written before it. Returns how many are missing in the end."""
    missing = 0
    for i, r in enumerate(records):
        if "GPUXRAY_RECORDS_WRITTEN" not in r:
            continue
        now = int(r["GPUXRAY_RECORDS_WRITTEN"]) - i
        what = f"{r['GPUXRAY_EVENT']} record, {i} before it: GPUXRAY_RECORDS_WRITTEN={r['GPUXRAY_RECORDS_WRITTEN']}"
        case.check(now >= missing if may_lack else now == 0, what)
        missing = now
    last = [r.get("GPUXRAY_RECORDS_WRITTEN") for r in records][-1:]
    case.check(last and last[0], "the last record does not say how many were written")
    return missing


def in_order(case, records):
    times = [int(r["GPUXRAY_TIME_USEC"]) for r in records if "GPUXRAY_INCIDENT" in r]
    case.check(times == sorted(times), "records are not in the order of what happened")


def lives(case, records, gone=0):
    """Each incident is told once, in order, and one crossing has one incident. gone: so many records were lost."""
    seen, open_of, found = set(), {}, collections.defaultdict(list)
    for r in records:
        if "GPUXRAY_INCIDENT" not in r:
            continue
        key = r["GPUXRAY_INCIDENT"], int(r["GPUXRAY_SEQ"])
        case.check(key not in seen, f"told twice: {key} {r['GPUXRAY_STATE']}")
        seen.add(key)
        states = found[key[0]]
        case.check("resolved" not in states, f"after its end: {key} {r['GPUXRAY_STATE']}")
        states.append(r["GPUXRAY_STATE"])
        subject = r["GPUXRAY_RULE"], r["GPUXRAY_PID"]
        if r["GPUXRAY_EVENT"] == "alloc_failure":
            continue  # a moment, each with an id of its own
        if r["GPUXRAY_STATE"] == "firing" and not gone:
            case.check(subject not in open_of, f"two incidents of one crossing: {open_of.get(subject)} and {key}")
        open_of[subject] = key
        if r["GPUXRAY_STATE"] == "resolved":
            del open_of[subject]
    return found


# ---- journald


def can_connect():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        return s.connect_ex(h.JOURNAL) == 0


def kill_journald(wait=True):
    before = h.journald_pid()
    os.kill(before, signal.SIGKILL)
    if wait:
        h.poll(lambda: h.journald_pid() != before and can_connect(), 10, "a new journald", every=0.02)


def configure_journald(case, text):
    def undo():
        os.unlink(JOURNALD_CONF)
        kill_journald()

    with open(JOURNALD_CONF, "w") as f:
        f.write("[Journal]\n" + text)
    case.finally_(undo)
    kill_journald()


@h.test("journald stands still while incidents fire: the books stay exact, and afterwards all is told or counted, in order",
        seconds=8)
def frozen(case):
    d = case.daemon(rules=RULES, config=config(queue=64))
    d.wait_record(event="start")
    pid = h.journald_pid()
    os.kill(pid, signal.SIGSTOP)
    case.finally_(os.kill, pid, signal.SIGCONT)
    w = work_fail(case, 300)
    big = hold_big(case)
    ledger = case.work("work_ledger", "--seed=11", "--ops=3000", "--wait-end")
    said = ledger.next("end", 30)
    h.check_books(case, d.wait_process(ledger.pid, lambda p: p["alloc_count"] == said["alloc_count"] and
                                       p["free_count"] == said["free_count"]), said, "while journald stands still")
    wait_failed(case, d, w, 300, "while journald stands still")
    w.end()
    d.wait_gone(w.pid)
    ledger.end()
    h.poll(lambda: d.status()["records"]["dropped"], 5, "records dropped")
    os.kill(pid, signal.SIGCONT)
    d.wait_record(big.pid, rule="big", state="firing")
    big.end()
    d.wait_record(big.pid, rule="big", state="resolved")
    d.stop()
    records = all_records(d)
    dropped = suppressed(records)
    crowd = [r for r in records if r.get("GPUXRAY_PID") == str(w.pid)]
    case.check(60 <= len(crowd) < 300, f"{len(crowd)} of 300 records of the crowd")
    case.equal(dropped, int(records[-1]["GPUXRAY_RECORDS_DROPPED"]), "held back, as records say and as the daemon counts")
    case.equal(sum("GPUXRAY_INCIDENT" not in r for r in records), 2, "start and stop")
    case.equal(own_counts(case, records), 0, "missing")
    in_order(case, records)
    lives(case, records, gone=dropped)


@h.test("journald is killed again and again while incidents fire: it gets them in order and none twice; those that died "
        "with it are counted", seconds=8)
def journald_killed(case):
    d = case.daemon(rules=RULES, config=config(queue=4096))
    w = work_fail(case, 300, 8)
    for _ in range(5):
        time.sleep(random.uniform(0.1, 0.5))
        kill_journald()
    wait_failed(case, d, w, 300)
    w.end()
    d.wait_gone(w.pid)
    d.stop()
    records = all_records(d)
    missing = own_counts(case, records, may_lack=True)
    print(f"# {missing} of {len(records) + missing} records died with a journald")
    case.equal(len(records) + missing, 302, "records, and those that are missing")
    # What it had been sent and had not read.
    case.check(missing <= 30, f"{missing} records are missing")
    case.equal(suppressed(records), 0, "held back")
    in_order(case, records)
    lives(case, records, gone=missing)


def version2_group(case, name):
    """A cgroup by which journald knows the daemon as a unit; only those it limits."""
    for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        if os.path.exists(root + "/cgroup.controllers") and not os.statvfs(root).f_flag & os.ST_RDONLY:
            break
    else:
        raise h.Skip("no cgroup of version 2 can be made")
    d = f"{root}/system.slice/{name}"
    os.makedirs(d, exist_ok=True)
    case.finally_(lambda: h.poll(lambda: not h.run("rmdir", d).returncode, 5, f"rmdir {d}"))
    return d


@h.test("journald limits the rate: a critical record still arrives, and the next own record says how many are missing",
        seconds=10)
def rate_limit(case):
    configure_journald(case, "RateLimitIntervalSec=4s\nRateLimitBurst=8\n")
    unit = f"gpuxray-e2e-{random.getrandbits(32):08x}.service"
    group = version2_group(case, unit)
    d = case.daemon(rules=RULES, config=config("health_interval = \"1s\";", queue=4096),
                    wrap=["sh", "-c", f"echo $$ > '{group}/cgroup.procs' && exec \"$@\"", "sh"])
    d.wait_record(event="start")
    w = work_fail(case, 300)
    wait_failed(case, d, w, 300)
    w.end()
    d.wait_gone(w.pid)
    big = hold_big(case)
    r = d.wait_record(big.pid, rule="big", state="firing")
    case.equal(r["_SYSTEMD_UNIT"], unit, "the unit as journald sees it")
    first = d.records(rule="oom")
    case.check(0 < len(first) < 200, f"{len(first)} of 300 records arrived: nothing was limited")
    # An interval later journald lets records through again, and says how many it has not.
    def told():
        records = all_records(d)
        i, last = next(((i, r) for i, r in reversed(list(enumerate(records))) if r["GPUXRAY_EVENT"] == "health"), (0, None))
        missing = int(last["GPUXRAY_RECORDS_WRITTEN"]) - i if last else 0
        return missing if missing > 20 else None

    missing = h.poll(told, 12, "a health record that gets through", every=0.2)
    said = [x for x in h.must("journalctl", "-o", "cat", "--no-pager", "-t", "systemd-journald").splitlines()
            if "Suppressed" in x]
    by_journald = sum(int(m[1]) for x in said if (m := re.match(r"Suppressed (\d+) messages from " + re.escape(unit), x)))
    case.equal(missing, by_journald, f"missing, by the daemon's count and by journald's ({said})")
    big.end()
    d.stop()


@h.test("the journal's disk is full: the daemon goes on, and says afterwards how many records are missing", seconds=8)
def disk_full(case):
    h.must("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", JOURNALS)
    case.finally_(kill_journald)
    case.finally_(h.must, "umount", "-l", JOURNALS)
    configure_journald(case, "RuntimeMaxUse=3M\nRuntimeMaxFileSize=512K\nRuntimeKeepFree=0\n")
    d = case.daemon(rules=RULES, config=config("health_interval = \"1s\";", queue=4096))
    d.wait_record(event="start")
    with open(JOURNALS + "/filler", "wb", buffering=0) as f:
        with contextlib.suppress(OSError):
            while f.write(bytes(4096)):
                pass
    w = work_fail(case, 500)
    wait_failed(case, d, w, 500, "with a full disk")
    w.end()
    d.wait_gone(w.pid)
    os.unlink(JOURNALS + "/filler")
    before = time.time()
    r = h.poll(lambda: next((r for r in d.records(event="health") if int(r["GPUXRAY_TIME_USEC"]) > before * 1e6), None), 10,
               "a health record once there is room")
    found = [x for x in all_records(d) if int(x["__REALTIME_TIMESTAMP"]) < int(r["__REALTIME_TIMESTAMP"])]
    missing = int(r["GPUXRAY_RECORDS_WRITTEN"]) - len(found)
    print(f"# {missing} of {r['GPUXRAY_RECORDS_WRITTEN']} records are missing")
    case.check(missing > 50, f"{missing} records are missing: the disk was not full")
    case.equal(suppressed(found), 0, "held back: journald took them all")
    d.stop()


# ---- syslog


def syslog_config(receiver, more="", **kw):
    framing = "" if receiver.kind != "tcp" or receiver.is_counted else 'framing = "newline";'
    return config(f'syslog = {{ server = "{receiver.server}"; {framing} {more} }};', **kw)


def params_of(record):
    """What a message should say of a record of the JSON sink."""
    header = ("MESSAGE", "PRIORITY", "SYSLOG_IDENTIFIER", "SYSLOG_FACILITY", "GPUXRAY_EVENT", "GPUXRAY_TIME_USEC")
    return {k.removeprefix("GPUXRAY_").lower(): v.replace("\n", "; ") for k, v in record.items() if k not in header}


@h.test("syslog by every way: each field of a hostile process's record comes back through a strict parser", seconds=10)
def hostile(case):
    # No field of each daemon's own is compared.
    own = {"incident", "device_used_bytes", "device_bytes", "device_index", "records_written", "records_dropped"}
    big = 'max_bytes = "32KiB"; facility = "local5"; hostname = "node-7.example.org";'
    ways = {"udp": {}, "tcp": {"is_counted": True}, "tcp lines": {"kind": "tcp"}, "dgram": {"path": case.path("dgram")},
            "stream": {"path": case.path("stream")}, "udp cee": {"kind": "udp"}}
    receivers, daemons = {}, []
    for name, kw in ways.items():
        receivers[name] = v = Receiver(case, **{"kind": name, **kw})
        more = big + (" cee = true;" if "cee" in name else "")
        daemons.append(case.daemon("--socket", case.path(name.replace(" ", "-") + ".sock"), rules=ALL_RULES, sink="syslog",
                                   config=syslog_config(v, more), wait=False))
    reference = case.daemon(rules=ALL_RULES, sink="json", config=config())
    lines = []

    def read_json(test):
        def look():
            lines.extend(json.loads(x) for x in reference.lines())
            return next((r for r in lines if test(r)), None)

        return h.poll(look, 15, "a record of the reference")

    for name, v in receivers.items():
        v.wait_for(lambda m: m.msgid == "start", "start record", 20)
    w = case.work("work_hostile", "--bytes=250MiB")
    w.next("hostile")
    want = read_json(lambda r: r.get("GPUXRAY_PID") == str(w.pid) and r.get("GPUXRAY_RULE") == "quota")
    pid = str(w.pid)
    for name, v in receivers.items():
        if "cee" in name:
            m = v.wait_for(lambda m: f'"GPUXRAY_PID":"{pid}"' in m.text and '"GPUXRAY_RULE":"quota"' in m.text, name)
            got = json.loads(m.text.removeprefix("@cee: "))
            case.equal(got.pop("SYSLOG_FACILITY"), "21", f"{name}: SYSLOG_FACILITY")
            params, header = params_of(got), (got["PRIORITY"], got["GPUXRAY_EVENT"])
        else:
            m = v.wait_for(lambda m: m.params.get("pid") == pid and m.params.get("rule") == "quota", name)
            params, header = m.params, (str(m.severity), m.msgid)
            case.equal(m.text, want["MESSAGE"].split("\n")[0], f"{name}: message")
        case.equal((m.facility, m.host, m.app), (21, "node-7.example.org", "gpuxray"), f"{name}: header")
        case.equal(header, (want["PRIORITY"], want["GPUXRAY_EVENT"]), f"{name}: priority and event")
        expected = params_of(want)
        case.equal(sorted(params.keys() - own), sorted(expected.keys() - own), f"{name}: fields")
        for k in (params.keys() & expected.keys()) - own:
            case.equal(params[k], expected[k], f"{name}: {k}")
        for raw in v.messages:
            case.check(not re.search(rb"[\x00-\x1f\x7f]", raw), f"{name}: control characters: {raw!r:.300}")
    for part in ('"', "\\x5c", "]", "\\xff", "\\x0a"):
        case.check(part in params_of(want)["comm"] + params_of(want)["cmdline"], f"{part!r} is not in what was compared")
    w.end()
    for d in daemons:
        d.stop()
    for name, v in receivers.items():
        h.poll(lambda: any(m.msgid == "stop" for m in v.parsed()), 5, f"stop record at {name}")
    reference.stop()


@h.test("a TCP receiver is not there at the start, is killed in the midst of records and comes back: only what it had been "
        "sent and had not read is missing", seconds=8)
def tcp_killed(case):
    v = Receiver(case, "tcp", is_counted=True)
    v.close()
    port = v.port
    d = case.daemon(rules=RULES, sink="syslog", config=syslog_config(v, queue=4096))
    d.wait_stderr(f"Cannot write records to tcp://127.0.0.1:{port}: Connection refused: start a receiver there")
    case.equal(d.status()["records"]["sink"], "syslog", "sink meanwhile")
    first = Receiver(case, "tcp", is_counted=True, port=port, rcvbuf=16384)
    d.reload()  # the next try may be some seconds away
    first.wait_for(lambda m: m.msgid == "start", "start record", 10)
    case.check(all(m.params["records_written"] == "0" for m in first.parsed() if m.msgid == "start"), "records before it")
    w = work_fail(case, 500, 2)
    h.poll(lambda: len(first.messages) > 50, 10, "50 messages")
    first.go.clear()  # it hangs first
    time.sleep(0.3)
    first.close()
    got = first.parsed()
    wait_failed(case, d, w, 500, "while the receiver is away")
    # Before a new one is there, nothing counts as written.
    waiting = d.status()["records"]
    second = Receiver(case, "tcp", is_counted=True, port=port)
    w.end()
    d.wait_gone(w.pid)
    d.stop()
    h.poll(lambda: any(m.msgid == "stop" for m in second.parsed()), 5, "stop record")
    second.close()
    rest = second.parsed()
    case.equal(second.torn, [], "torn messages of the second connection")
    times = [m.time for m in got + rest]
    ids = [m.params["incident"] for m in got + rest if m.msgid == "alloc_failure"]
    case.equal(len(set(ids)), len(ids), "messages, each once")
    case.check(len(ids) > 400, f"{len(ids)} of 500")
    case.check(times == sorted(times), "messages are not in the order of what happened")
    own = [m for m in rest if m.msgid == "stop"][-1]
    missing = int(own.params["records_written"]) - len(got) - len(rest) + 1
    size = sum(m.size for m in got[10:50]) / 40
    print(f"# {missing} of {own.params['records_written']} records were in the dead connection: it held {first.unread} bytes "
          f"unread; a message has {size:.0f}")
    # What it had not read, and what the kernel here took beyond that: 16 KiB before the last message.
    case.check(0 <= missing <= (first.unread + len(b"".join(first.torn)) + 2 * 16384) / size + 1, f"{missing} messages are missing")
    case.check(len(rest) > 50, f"{len(rest)} messages came afterwards")
    case.equal(own.params["records_dropped"], "0", "records dropped")
    case.check(waiting["queued"] > 0 and not waiting["failed"], f"records while it was away: {waiting}")
    case.check(d.stderr().count("Cannot write records") <= 2, "an outage was told more than once")


@h.test("a TCP receiver that hardly reads: tracing does not wait for it, and what does not fit is counted", seconds=6)
def tcp_slow(case):
    v = Receiver(case, "tcp", is_counted=True, rcvbuf=2048, is_paused=True)
    d = case.daemon(rules=RULES, sink="syslog", config=syslog_config(v, queue=32))
    w = work_fail(case, 300)
    wait_failed(case, d, w, 300, "while the receiver sleeps")
    w.end()
    d.wait_gone(w.pid)
    stuck = d.status()["records"]
    case.check(stuck["dropped"] > 0 and stuck["queued"] > 0, f"nothing had to wait: {stuck}")
    v.go.set()
    d.stop()
    h.poll(lambda: any(m.msgid == "stop" for m in v.parsed()), 5, "stop record")
    messages = v.parsed()
    case.equal(v.torn, [], "torn messages")
    case.equal(v.connections, 1, "connections")
    own = messages[-1].params
    case.equal(int(own["records_written"]), len(messages) - 1, "written, as the last one says")
    dropped = sum(int(m.params.get("suppressed", 0)) for m in messages)
    # The last one was worded before it took the place of another in the queue.
    case.check(0 <= dropped - int(own["records_dropped"]) <= 1, f"{dropped} dropped, {own['records_dropped']} as the last one says")
    case.equal(dropped + len(messages), 302, "dropped and told")


@h.test("no journal: a syslog receiver on the network stands in for it; a reload finds the journal again", seconds=5)
def stands_in(case):
    v = Receiver(case, "tcp")
    os.rename(h.JOURNAL, h.JOURNAL + ".away")
    back = contextlib.ExitStack()
    back.callback(os.rename, h.JOURNAL + ".away", h.JOURNAL)
    with back:
        d = case.daemon(rules=RULES, sink=None, config=syslog_config(v))
        v.wait_for(lambda m: m.msgid == "start", "start record")
        w = hold_big(case)
        v.wait_for(lambda m: m.params.get("pid") == str(w.pid) and m.params["rule"] == "big", "record")
    d.reload()
    d.wait_record(event="reload")
    w.end()
    d.wait_record(w.pid, rule="big", state="resolved")
    d.stop()


# ---- a daemon that dies


@h.test("the daemon is killed at random moments while incidents begin and end: none is told twice, none has two ids",
        seconds=15)
def daemon_killed(case):
    h.need_multi()
    m = Manager(case)
    d = m.daemon(rules=RULES, config=config())
    d.wait_record(event="start")
    w = work_python(case, LIVES, 4)
    w.next("lives")
    seed = random.getrandbits(32)
    print(f"# seed {seed}")
    rnd = random.Random(seed)
    daemons = [d]
    end = time.monotonic() + 45  # a machine that is busy with other things kills it less often
    while len(daemons) <= 20 and (time.monotonic() < end or len(daemons) < 5):
        if len(daemons) % 2:  # the others die while they start
            h.poll(lambda: m.said("READY", "1"), 30, "the daemon is ready", every=0.01)
        time.sleep(rnd.uniform(0, 0.5))
        daemons[-1].signal(signal.SIGKILL)
        daemons[-1].wait()
        daemons.append(m.daemon(rules=RULES, config=config(), wait=False))
    daemons[-1].wait_ready()
    w.end()
    h.poll(lambda: not any(p["comm"].startswith("python") for p in daemons[-1].status()["processes"]), 15, "all are gone")
    daemons[-1].stop()
    records = [r for r in all_records(*daemons) if r.get("GPUXRAY_RULE") == "quota"]
    found = lives(case, records)
    case.check(len(found) > 50, f"only {len(found)} incidents")
    # What the daemon had said and not written yet when it died is not told.
    print(f"# killed {len(daemons) - 1} times; {len(found)} incidents, {sum('firing' not in s for s in found.values())} of them "
          f"without their first record, {sum('resolved' not in s for s in found.values())} without their last")


@h.test("the daemon is killed the moment a record arrives: the next one does not tell it again", seconds=10)
def killed_at_a_record(case):
    h.need_multi()
    m = Manager(case)
    v = Receiver(case, "tcp", is_counted=True)
    victim = []

    def on_message(message):
        if victim and b' state="' + victim[0][0] + b'"' in message:
            os.kill(victim.pop()[1], signal.SIGKILL)

    v.on_message = on_message

    def start():
        d = m.daemon(rules=RULES, sink="syslog", config=syslog_config(v), wait=False)
        h.poll(lambda: m.said("READY", "1"), 30, "the daemon is ready", every=0.01)
        return d

    for _ in range(2):
        d = start()
        victim.append((b"firing", d.pid))
        w = hold_big(case)
        d.wait()
        d = start()
        v.wait_for(lambda x: x.params.get("pid") == str(w.pid) and x.params["state"] == "repeat", "the incident goes on")
        victim.append((b"resolved", d.pid))
        w.end()
        d.wait()
    d = start()
    d.wait_gone(w.pid)
    d.stop()
    h.poll(lambda: v.parsed()[-1].msgid == "stop", 5, "stop record")
    lives(case, [{"GPUXRAY_" + k.upper(): x for k, x in {**x.params, "event": x.msgid}.items()} for x in v.parsed()])


if __name__ == "__main__":
    h.main()
