#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What is written, and where: hostile subjects, a journald that stands still or is not there, the other sinks."""
import contextlib
import json
import os
import re
import signal
import socket
import time

import harness as h

SECRETS = ["0123456789abcdefghijklmnopqrstuv", "hunter2-correct-horse", "AbCdEfGhIjKlMnOpQrStUvWxYz012345",
           "wJalrXUtnFEMI", "bPxRfiCYEXAMPLEKEY", "s3cr3t-passw0rd"]
# What no reader may be given: control characters, directions of text, halves of UTF-8 sequences.
BAD = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffd\ud800-\udfff]")
CUT = re.compile(r"\[[^]]*cut\]")
ALL_RULES = """version = 1;
rules = (
  { name = "quota"; kind = "live_bytes"; scope = "process"; fire_above = "100MiB"; resolve_below = "80MiB"; for = "0s";
    keep_firing_for = "0s"; severity = "critical"; },
  { name = "oom"; kind = "alloc_failure"; count = 1; window = "1m"; severity = "error"; },
  { name = "exit"; kind = "exit"; live_above = "1MiB"; min_runtime = "0s"; severity = "notice"; }
);
"""


def check_clean(case, r, what):
    """Nothing of the subject breaks out of its field."""
    for k, v in r.items():
        if k.startswith("OBJECT_") and k not in ("OBJECT_PID", "OBJECT_SYSTEMD_UNIT"):
            continue  # journald's own, which escapes nothing
        if not case.check(isinstance(v, str), f"{what}: {k} is {v!r:.200}"):
            continue
        case.check(len(f"{k}={v}".encode()) < 4096, f"{what}: {k} has {len(v.encode())} bytes")
        if k.startswith(("GPUXRAY_", "MESSAGE")):
            case.check(not BAD.search(v), f"{what}: {k} holds {BAD.search(v)!r}: {v[:300]!r}")
            for secret in SECRETS:
                case.check(secret not in v, f"{what}: {k} gives away {secret}: {v[:500]!r}")
        if k not in ("MESSAGE", "GPUXRAY_STACK"):
            case.check("\n" not in v, f"{what}: {k} has several lines: {v[:300]!r}")


@h.test("a subject that forges, hides and hurts makes one clean record, without its secrets")
def hostile(case):
    d = case.daemon(rules=ALL_RULES)
    w = case.work("work_hostile")
    w.next("hostile")
    r = d.wait_record(w.pid, rule="quota", state="firing")
    w.end()
    d.wait_record(w.pid, rule="exit")
    d.stop()
    records = d.records()
    for one in records:
        check_clean(case, one, one["GPUXRAY_EVENT"])
    case.equal(r["PRIORITY"], "2", "PRIORITY")
    case.equal(r["GPUXRAY_COMM"], r"a\x0aP\x1b[2J\xe2\x80\xae\x22=\x5c\xff".replace(r"\x22", '"'), "comm")
    cmdline = r["GPUXRAY_CMDLINE"]
    for part in ("--api-key=[redacted]", "--password [redacted]", "HF_TOKEN=[redacted]", "AWS_SECRET_ACCESS_KEY=[redacted]",
                 "https://[redacted]@example.com/x", r"\xe2\x80\xae", r"\x1b[31m", r"work_hostile\x0aPRIORITY=0"):
        case.contains(cmdline, part, "cmdline")
    case.check(CUT.search(cmdline), f"cmdline does not say that it is cut: ...{cmdline[-100:]!r}")
    case.equal([x for x in records if x["GPUXRAY_EVENT"] == "stop"][1:], [], "forged stop records")
    case.check(all(x["PRIORITY"] in "23456" for x in records), f"priorities: {[x['PRIORITY'] for x in records]}")
    # The status is read by eyes, too.
    line = h.run("journalctl", "-o", "short", "--no-pager", "-t", "gpuxray", f"_PID={d.pid}", "GPUXRAY_RULE=quota").stdout
    case.check("blob data" not in line, "short output shows a blob")
    case.check(not BAD.search(line.replace("\n", "")), f"short output holds control characters: {line!r}")


@h.test("secrets of a command line do not come back through what journald adds to the record")
def secrets(case):
    d = case.daemon()
    w = case.work("work_hostile", "--long=8")
    w.next("hostile")
    d.wait_record(w.pid, rule="quota", state="firing")
    out = h.run("journalctl", "-o", "export", "-a", "--no-pager", "-t", "gpuxray", f"_PID={d.pid}").stdout
    for secret in SECRETS:
        lines = [line[:300] for line in out.splitlines() if secret in line]
        case.check(not lines, f"{secret} is given away: {lines}")
    w.end()
    d.stop()


@h.test("the status of a hostile process is valid JSON and clean text")
def hostile_status(case):
    d = case.daemon()
    w = case.work("work_hostile")
    w.next("hostile")
    p = d.wait_process(w.pid)
    case.check(isinstance(p["comm"], str) and p["live_bytes"] == 150 * h.MIB, f"entry: {p}")
    text = h.must(h.GPUXRAY, "status")
    case.check(str(w.pid) in text, f"status as text: {text!r}")
    case.check(not BAD.search(text.replace("\n", "")), f"status as text holds {BAD.search(text)!r}: {text!r}")
    case.equal(len([x for x in text.splitlines() if str(w.pid) in x.split("|")[0].split()[:1]]), 1, "lines of the process")
    w.end()
    d.stop()


@h.test("field sizes around 4096 bytes: none is null in plain json, and all say how much is cut")
def sizes(case):
    d = case.daemon()
    for n in (3900, 4094, 4095, 4096, 4097, 65536):
        w = case.work("work_hostile", f"--long={n}")
        w.next("hostile")
        d.wait_record(w.pid, rule="quota", state="firing")
        w.end()
        out = h.must("journalctl", "-o", "json", "--no-pager", "-t", "gpuxray", f"_PID={d.pid}", f"GPUXRAY_PID={w.pid}")
        for r in map(json.loads, out.splitlines()):
            nulls = [k for k, v in r.items() if not isinstance(v, str) and not k.startswith("OBJECT_")]
            case.equal(nulls, [], f"argument of {n} bytes: fields that are no strings")
            if r.get("GPUXRAY_STATE") == "firing":
                case.check(CUT.search(r["GPUXRAY_CMDLINE"]), f"{n}: {r['GPUXRAY_CMDLINE'][-80:]!r}")
    d.stop()


# ---- a journald that does not do its part


def freeze_journald(case):
    pid = h.journald_pid()
    os.kill(pid, signal.SIGSTOP)
    case.finally_(os.kill, pid, signal.SIGCONT)
    return pid


@h.test("journald stands still: tracing goes on, records arrive afterwards, those held back are counted")
def frozen(case):
    # A small queue and many incidents: some must be dropped, and the critical one must get through.
    d = case.daemon(rules=ALL_RULES, config="limits = { queue = 16; records_per_minute = 100000; };")
    d.wait_record(event="start")
    pid = freeze_journald(case)
    # While journald stands still nothing of its may be asked for: only the daemon's own status.
    load = case.work("work_rate", "--seconds=3", "--rate=500", "--wait-end", "--ledger")
    gone = []
    for _ in range(60):
        w = case.work("work_lifecycle", "hold", "--blocks=2", "--bytes=1MiB")
        w.next("hold")
        w.end()
        gone.append(w.pid)
    crossing = case.work("work_lifecycle", "hold", "--blocks=1", "--bytes=120MiB")
    crossing.next("hold")
    start = time.monotonic()
    ledger = load.next("end", 20)
    d.wait_process(load.pid, lambda p: p["alloc_count"] == ledger["alloc_count"], 5, "tracing goes on")
    case.check(time.monotonic() - start < 10, "the status was slow")
    records = h.poll(lambda: (lambda s: s if s["dropped"] else None)(d.status()["records"]), 5, "records dropped")
    os.kill(pid, signal.SIGCONT)
    d.wait_record(crossing.pid, rule="quota", state="firing")
    crossing.end()
    load.end()
    d.wait_record(crossing.pid, rule="quota", state="resolved")
    told = {r["GPUXRAY_PID"] for r in d.records(rule="exit")} & {str(p) for p in gone}
    d.stop()
    held = sum(int(r.get("GPUXRAY_SUPPRESSED", 0)) for r in h.journal_json(f"_PID={d.pid}"))
    case.check(0 < len(told) < 60, f"{len(told)} of 60 exits were told")
    case.check(held >= 60 - len(told), f"{60 - len(told)} records are missing, {held} are accounted for; {records}")


@h.test("a daemon that stops while journald stands still ends in time and says what could not be written")
def stop_frozen(case):
    d = case.daemon(rules=ALL_RULES)
    d.wait_record(event="start")
    freeze_journald(case)
    ws = [case.work("work_lifecycle", "hold", "--blocks=2", "--bytes=1MiB") for _ in range(40)]
    for w in ws:
        w.next("hold")
        w.end()
    time.sleep(1)
    start = time.monotonic()
    d.stop(12)
    took = time.monotonic() - start
    case.check(took < 10, f"it took {took:.1f} s to stop")
    case.check(re.search(r"\d+ records could not be written", d.stderr()), "not said")


@h.test("journald is killed and comes back: what happened meanwhile is in the journal")
def restarted(case):
    d = case.daemon()
    d.wait_record(event="start")
    before = h.journald_pid()
    os.kill(before, signal.SIGKILL)
    w = case.work("work_lifecycle", "hold", "--blocks=1", "--bytes=120MiB")
    w.next("hold")
    d.wait_process(w.pid, lambda p: p["live_bytes"] == 120 * h.MIB)
    h.poll(lambda: h.journald_pid() != before, 10, "a new journald")
    d.wait_record(w.pid, rule="quota", state="firing")
    w.end()
    d.wait_record(w.pid, rule="quota", state="resolved")
    d.stop()
    case.equal(sum(int(r.get("GPUXRAY_SUPPRESSED", 0)) for r in d.records()), 0, "records not written")


@contextlib.contextmanager
def no_journal():
    """The socket is away; journald goes on listening on it."""
    os.rename(h.JOURNAL, h.JOURNAL + ".away")
    try:
        yield
    finally:
        os.rename(h.JOURNAL + ".away", h.JOURNAL)


def json_lines(d, want, seconds=10):
    """JSON objects on the daemon's standard output until one satisfies want."""
    got = []

    def look():
        got.extend(json.loads(line) for line in d.lines())
        return any(want(r) for r in got)

    h.poll(look, seconds, lambda: f"line on standard output; there are {got}")
    return got


@h.test("no journald, no syslog: JSON lines on standard output, said once; a reload finds the journal again")
def no_sinks(case):
    empty = case.path("dev")
    os.mkdir(empty)
    d = None
    with no_journal():
        d = case.daemon(sink=None, wrap=h.in_namespace(f"mount --bind '{empty}' /dev"))
        w = case.work("work_lifecycle", "hold", "--blocks=1", "--bytes=120MiB")
        w.next("hold")
        got = json_lines(d, lambda r: r.get("GPUXRAY_RULE") == "quota" and r["GPUXRAY_PID"] == str(w.pid))
        case.equal(got[0]["GPUXRAY_EVENT"], "start", "first line")
        d.reload()
        json_lines(d, lambda r: r["GPUXRAY_EVENT"] == "reload")
        said = [x for x in d.stderr().splitlines() if "standard output" in x]
        case.equal(len(said), 1, f"times it was said: {said}")
        case.contains(said[0] if said else "", "No journal here", "what is said")
    d.reload()
    d.wait_record(event="reload")
    w.end()
    d.wait_record(w.pid, rule="quota", state="resolved")
    d.stop()


@h.test("no journald: syslog, one short line a record, complete in itself")
def syslog(case):
    dev = case.path("dev")
    os.mkdir(dev)
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind(dev + "/log")
    s.settimeout(10)
    case.finally_(s.close)
    with no_journal():
        d = case.daemon(sink=None, rules=ALL_RULES, wrap=h.in_namespace(f"mount --bind '{dev}' /dev"))
        w = case.work("work_hostile")
        w.next("hostile")
        lines = []

        def look():
            with contextlib.suppress(BlockingIOError, TimeoutError):
                s.setblocking(False)
                while True:
                    lines.append(s.recv(1 << 16))
            return any(b"quota" in x and str(w.pid).encode() in x for x in lines)

        h.poll(look, 10, lambda: f"line about process {w.pid}; there are {lines}")
        w.end()
        d.stop()
        look()
    case.equal(sum("syslog" in x for x in d.stderr().splitlines()), 1, "times it was said")
    for line in lines:
        case.check(len(line) <= 1024, f"{len(line)} bytes: {line!r}")
        case.check(re.match(rb"<\d+>", line), f"no priority in front: {line[:80]!r}")
        case.check(not re.search(rb"[\x00-\x1f\x7f]", line), f"control characters: {line!r}")
        for secret in SECRETS:
            case.check(secret.encode() not in line, f"{secret} is given away")
    quota = [x for x in lines if b"quota" in x and b"firing" in x and str(w.pid).encode() in x]
    case.check(quota and quota[0].startswith(b"<26>"), f"daemon.crit is <26>: {quota}")
    case.check(any(b"started" in x for x in lines) and any(b"stopped" in x for x in lines), "start and stop")


@h.test("--sink json: one object a line, all values strings, and the same as in the journal")
def sink_json(case):
    # Two daemons see the same process; the kernel lets each have its own probes.
    one = case.daemon(rules=ALL_RULES)
    other = case.daemon("--socket", case.path("other.sock"), rules=ALL_RULES, sink="json", wait=False)
    got = json_lines(other, lambda r: r["GPUXRAY_EVENT"] == "start", 20)
    w = case.work("work_hostile")
    w.next("hostile")
    firing = one.wait_record(w.pid, rule="quota", state="firing")
    w.end()
    one.wait_record(w.pid, rule="exit")
    got += json_lines(other, lambda r: r.get("GPUXRAY_RULE") == "exit" and r.get("GPUXRAY_PID") == str(w.pid))
    other.stop()
    got += json_lines(other, lambda r: r["GPUXRAY_EVENT"] == "stop")
    one.stop()
    for r in got:
        case.check(all(isinstance(v, str) for v in r.values()), f"values that are no strings: {r}")
    mine = [r for r in got if r.get("GPUXRAY_PID") == str(w.pid) and r["GPUXRAY_EVENT"] not in h.HISTORY]
    theirs = [r for r in one.records(w.pid)]
    case.equal([(r["GPUXRAY_RULE"], r["GPUXRAY_STATE"]) for r in mine if r["GPUXRAY_RULE"] != "oom"],
               [(r["GPUXRAY_RULE"], r["GPUXRAY_STATE"]) for r in theirs if r["GPUXRAY_RULE"] != "oom"], "records")
    a = next(r for r in mine if r["GPUXRAY_RULE"] == "quota" and r["GPUXRAY_STATE"] == "firing")
    # An id is the daemon's own, and so is the moment; what the driver says comes every ten seconds.
    own = {"GPUXRAY_INCIDENT", "GPUXRAY_TIME_USEC", "GPUXRAY_DEVICE_USED_BYTES", "GPUXRAY_DEVICE_BYTES", "GPUXRAY_DEVICE_INDEX"}
    b = {k: v for k, v in firing.items() if k.startswith(("GPUXRAY_", "MESSAGE", "PRIORITY", "SYSLOG_"))}
    b.pop("SYSLOG_TIMESTAMP", None)
    for k in sorted((a.keys() | b.keys()) - own):
        if k.startswith(("OBJECT_", "__")):
            continue
        x, y = a.get(k), b.get(k)
        if k == "MESSAGE" and x and y:  # "on GPU 0" is known once the driver was asked
            x, y = (re.sub(" on (GPU-[-0-9a-f]+|GPU \\d+|a GPU)", "", v) for v in (x, y))
        case.equal(x, y, f"{k} in json and in the journal")


@h.test("--sink text: lines for eyes")
def sink_text(case):
    d = case.daemon(rules=ALL_RULES, sink="text")
    w = case.work("work_hostile")
    w.next("hostile")
    text = []

    def look():
        text.extend(d.lines())
        return any("(rule quota)" in x and f"[{w.pid}]" in x for x in text)

    h.poll(look, 10, lambda: f"a line about the process; there are {text}")
    w.end()
    d.stop()
    text.extend(d.lines())
    case.check(not any(BAD.search(x) for x in text), f"control characters: {text}")
    case.check(any("hostile_allocs" in x or "main+0x" in x for x in text), f"frames: {text}")
    case.equal(len(d.records()), 0, "records in the journal")


if __name__ == "__main__":
    h.main()
