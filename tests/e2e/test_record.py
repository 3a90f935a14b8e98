#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What is recorded is what was seen: a replay says what the daemon said, and a recording gives nobody away."""
import contextlib
import gzip
import json
import os
import pwd
import re
import signal
import subprocess
import time

import harness as h
import test_driver as driver

h.tests.clear()  # it is here for its tools

RULES = """version = 1;
rules = (
  { name = "quota"; kind = "live_bytes"; scope = "process"; fire_above = "100MiB"; resolve_below = "80MiB"; for = "0s";
    keep_firing_for = "1s"; repeat = "3s"; severity = "critical"; },
  { name = "held"; kind = "live_bytes"; scope = "process"; fire_above = "90MiB"; resolve_below = "60MiB"; for = "3s"; },
  { name = "card"; kind = "live_bytes"; scope = "device"; fire_above = "1.0%"; resolve_below = "0.9%"; for = "2s";
    keep_firing_for = "2s"; },
  { name = "storm"; kind = "alloc_rate"; window = "2s"; fire_above = "30/s"; for = "1s"; keep_firing_for = "1s"; },
  { name = "huge"; kind = "single_alloc"; fire_above = "20MiB"; severity = "notice"; budget = "5/5s";
    match = { comm = "^(train|work_)"; }; },
  { name = "oom"; kind = "alloc_failure"; count = 1; window = "1m"; severity = "error"; },
  { name = "leak"; kind = "leak"; scope = "process"; epoch = "1s"; epochs = 6; occupancy = 0.9; keep_ratio = 0.6;
    min_growth = "4MiB"; for_epochs = 2; severity = "warning"; },
  { name = "leak-site"; kind = "leak"; scope = "stack"; epoch = "1s"; epochs = 5; occupancy = 0.9; keep_ratio = 0.6;
    min_growth = "2MiB"; for_epochs = 2; severity = "notice"; },
  { name = "end"; kind = "exit"; live_above = "1MiB"; min_runtime = "0s"; severity = "notice"; },
  { name = "untracked"; kind = "untracked_growth"; fire_above = "256MiB"; window = "1m"; min_runtime = "2s"; for = "0s"; }
);
"""
CONFIG = """nvml_interval = "1s";
limits = { records_per_minute = 100000; ring_bytes = "32MiB"; };
"""
# All that a reader acts on; an incident's id is each run's own, and the moment is compared apart.
SAID = ("RULE", "STATE", "SEQ", "PID", "VALUE", "LIMIT", "SEVERITY", "SCOPE", "STACK_ID", "STACK", "BYTES", "LIVE_BYTES",
        "LIVE_COUNT", "PEAK_BYTES", "DEVICE", "FUNCTION", "ERROR", "LEAKED_BYTES", "LEAK_SITES", "DURATION_SEC", "EXACT")


def lines_of(path):
    with (gzip.open(path, "rt") if path.endswith(".gz") else open(path)) as f:
        return f.read().splitlines()


def events(lines, pid=None, *names):
    """Words of the lines about a process."""
    found = [line.split(" ") for line in lines if line[:1].isdigit()]
    return [w for w in found if (pid is None or w[1] == str(pid)) and (not names or w[2] in names)]


def replay(case, path, *args, rules=RULES):
    """Its records, and what it says of itself."""
    r = h.run(h.GPUXRAY, "replay", path, "--rules", case.write("replay-rules.conf", rules), "--sink", "json", *args,
              timeout=60)
    if r.returncode:
        raise h.Failure(f"replay: exit status {r.returncode}: {r.stderr.strip()[:2000]}")
    return [json.loads(line) for line in r.stdout.splitlines()], r.stderr


class Recorder(h.Process):
    def __init__(self, case, path, *args, config=CONFIG):
        name = "record-" + os.path.basename(path)
        argv = [h.GPUXRAY, "record", "-o", path, "--config", case.write("record.conf", config), "--library", h.LIBCUDA, *args]
        env = {"LD_LIBRARY_PATH": h.FAKE, "FAKE_GPU_STATE": case.path("gpu-state")}
        super().__init__(case, name, argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        # It is made when the probes are there.
        h.poll(lambda: os.path.exists(path) or not self.is_alive(), 20, "the file of the recording")

    def stop(self, sig=signal.SIGTERM):
        self.signal(sig)
        return self.wait()

    def check_end(self, case):
        m = re.search(r"gpuxray: (\d+) events, (\d+) stacks, .* \(([\d.]+) bytes an event\), (\d+) dropped\n", self.stderr())
        if not case.check(m, f"the last line of the recorder: {self.stderr()[-500:]!r}"):
            return None
        case.equal(m[4], "0", "dropped lines")
        return m


def said(records):
    return [{k: r.get("GPUXRAY_" + k) for k in SAID} | {"MESSAGE": r["MESSAGE"]} for r in records if "GPUXRAY_RULE" in r]


def check_equal(case, live, again):
    a, b = said(live), said(again)
    for i, (x, y) in enumerate(zip(a, b)):
        if not case.equal(y, x, f"record {i + 1} of {len(a)}, {[k for k in x if x[k] != y[k]]}"):
            break
    case.equal(len(b), len(a), "number of records")
    off = [(abs(int(x["GPUXRAY_TIME_USEC"]) - int(y["GPUXRAY_TIME_USEC"])), y) for x, y in
           zip((r for r in live if "GPUXRAY_RULE" in r), (r for r in again if "GPUXRAY_RULE" in r))]
    worst = max(off, key=lambda o: o[0], default=(0, None))
    # The daemon knows the wall clock of the beginning of a look at its ring; a replay that of the event.
    case.check(worst[0] < 1500000, f"a record is {worst[0]} us off: {worst[1]}")


@h.test("a replay of a recording says what the daemon said, record for record", exclusive=True)
def equal(case):
    path = case.path("trace.gz")
    d = case.daemon("--record", path, "--record-identity", rules=RULES, config=CONFIG, sink="json")
    live = []

    def take():
        live.extend(json.loads(line) for line in d.lines())

    held = case.work("work_lifecycle", "hold", "--blocks=2", "--bytes=60MiB",
                     env={"FAKE_GPU_CONTEXT_BYTES": str(driver.CONTEXT)})
    demo = case.work("work_demo", "--seconds=20", "--name=train")
    churn = case.work("work_rate", "--seconds=6", "--rate=300", "--threads=2", "--bytes=64KiB", "--depth=6", "--sites=32")
    held.next("hold")
    for seed in range(3):
        w = case.work("work_random", f"--seed={seed}", "--ops=1500", "--threads=2")
        h.poll(lambda: take() or not w.is_alive(), 30, "the random one ends")
    d.wait_process(held.pid, lambda p: p["driver_bytes"])
    # Growth counts from a look at the driver on; when that is done is up to a machine that may have much else to do.
    for times in (3, 5, 7, 9):
        time.sleep(2.5)
        driver.set_context_bytes(case, held.pid, times * driver.CONTEXT)
        with contextlib.suppress(h.Failure):
            h.poll(lambda: take() or any(r.get("GPUXRAY_RULE") == "untracked" for r in live), 6, "the rule fires")
            break
    for w in (churn, demo):
        h.poll(lambda w=w: take() or not w.is_alive(), 40, f"{w.name} ends")
    held.end()
    time.sleep(4)
    d.stop()
    take()
    rules = {r.get("GPUXRAY_RULE") for r in live}
    missing = {"quota", "held", "card", "storm", "huge", "oom", "leak", "leak-site", "end", "untracked"} - rules
    case.equal(missing, set(), "rules of which the daemon had nothing to say: the test shows nothing about them")
    again, err = replay(case, path)
    lines = lines_of(path)
    check_equal(case, live, again)
    n = len(events(lines, None, "alloc", "free", "fail"))
    h.comment(f"{len(said(live))} records, {n} events, {os.path.getsize(path) / n:.1f} bytes an event; {err.strip()}")
    # Whoever replays it again gets the same, ids too.
    case.check(again == replay(case, path)[0], "two replays of one recording differ")
    case.equal(len({r["GPUXRAY_INCIDENT"] for r in again if r.get("GPUXRAY_SEQ") == "1"}),
               len([r for r in again if r.get("GPUXRAY_SEQ") == "1"]), "incident ids")


@h.test("without --identity a recording names no user, command, home or card")
def anonymous(case):
    name = "zq-secret"
    home = pwd.getpwuid(os.getuid()).pw_dir
    secrets = [name, "hunter2-argument", os.uname().nodename, case.dir, "fa4e0000-6b1d-429c"]
    path, full = case.path("trace"), case.path("full")
    r, f = Recorder(case, path), Recorder(case, full, "--identity")
    w = case.work("work_demo", "--seconds=3", f"--name={name}-hunter2-argument")
    w.wait(20)
    time.sleep(1.5)
    case.equal((r.stop(), f.stop(signal.SIGINT)), (0, 0), "exit status")
    text = open(path).read()
    case.check(len(events(text.splitlines(), w.pid, "alloc")) > 10, "hardly anything was recorded")
    case.contains(text, "stack 1 ", "a stack")
    case.contains(text, "GPU-00000000-0000-0000-0000-000000000001", "a card without its uuid")
    for secret in [*secrets, "comm=", "user=", "cmdline=", *([home] if len(home) > 1 else [])]:
        lines = [line[:300] for line in text.splitlines() if secret in line]
        case.check(not lines, f"{secret!r} is in the recording: {lines[:3]}")
    mine = "\n".join(line for line in open(full).read().splitlines() if f" {w.pid} " in line or " gpu " in line)
    for secret in (name, "hunter2-argument", "fa4e0000-6b1d-429c", "user="):
        case.contains(mine, secret, "the recording with --identity")
    case.equal(os.stat(full).st_mode & 0o077, 0, "who else may read the recording with --identity")


@h.test("record -p: one process alone, to the event, ending with it", exclusive=True)
def one_process(case):
    path = case.path("trace")
    w = case.work("work_ledger", "--ops=3000", "--threads=2", "--wait-start", "--ledger")
    w.next("ready")
    r = Recorder(case, path, "-p", str(w.pid))
    other = case.work("work_demo", "--seconds=2")
    w.go()
    ledger = w.next("end", 30)
    case.equal(w.wait(), 0, "exit status of the workload")
    case.equal(r.wait(10), 0, "exit status of the recorder, by itself")
    other.wait(20)
    m = r.check_end(case)
    lines = lines_of(path)
    case.equal(lines[0], "# gpuxray trace 1", "first line")
    case.equal({x[1] for x in events(lines)} - {"0"}, {str(w.pid)}, "processes in it")
    for name, count in (("alloc", "alloc_count"), ("free", "free_count"), ("fail", "fail_count")):
        case.equal(len(events(lines, w.pid, name)), ledger[count], f"{name} lines")
    case.equal(len(events(lines, w.pid, "exit")), 1, "exit lines")
    case.equal(m and int(m[1]), sum(ledger[k] for k in ("alloc_count", "free_count", "fail_count")), "events it says")
    case.equal(replay(case, path)[1].count("does not have"), 0, "frees that are not known")
    bad = h.run(h.GPUXRAY, "record", "-o", path, "-p", "999999999")
    case.equal((bad.returncode, "no such process" in bad.stderr), (1, True), f"a pid that is not: {bad.stderr!r}")
    case.equal(lines_of(path), lines, "the recording that was there before")


@h.test("recordings that were cut in the middle are read: what they miss is counted")
def cut(case):
    path = case.path("trace")
    r = Recorder(case, path)
    w = case.work("work_ledger", "--ops=4000")
    w.wait(30)
    time.sleep(1.2)
    case.equal(r.stop(), 0, "exit status")
    lines = lines_of(path)
    third = len(lines) // 3
    short = lines[:third] + lines[2 * third:]
    case.write("cut", "\n".join(short) + "\n")
    records, err = replay(case, case.path("cut"))
    m = re.search(r"(\d+) frees of blocks", err)
    case.check(m and int(m[1]) > 20, f"frees that are not known: {err!r}")
    # The blocks whose free was cut out, by what is left.
    live, unknown = set(), 0
    for x in events(short):
        addr = next((k[5:] for k in x if k.startswith("addr=")), None)
        kind = next((k[5:] for k in x if k.startswith("kind=")), None)
        if x[2] == "free":
            key = (x[1], addr, kind or "pointer")
            unknown += key not in live
            live.discard(key)
        elif x[2] == "alloc":
            c = next(k[6:] for k in x if k.startswith("class="))
            kind = kind or {"array": "object", "physical": "handle", "framework": "framework"}.get(c, "pointer")
            live.add((x[1], addr, kind))
        elif x[2] == "exit":
            live = {k for k in live if k[0] != x[1]}
    case.equal(m and int(m[1]), unknown, "frees that are not known")
    r = h.run(h.GPUXRAY, "replay", "-", "--rules", case.path("replay-rules.conf"), input="\n".join(short) + "\n")
    case.equal((r.returncode, r.stderr), (0, err), "the same from standard input")
    # A slip of the pen is told with its place, and nothing is said of the rest.
    case.write("bad", "\n".join([*lines[:50], "1.0 17 alloc class=devise addr=0x10 bytes=1", *lines[50:]]) + "\n")
    r = h.run(h.GPUXRAY, "replay", case.path("bad"), "--rules", case.path("replay-rules.conf"))
    case.equal((r.returncode, r.stdout), (1, ""), "a line that is wrong")
    case.contains(r.stderr, "bad:51: error:", "where it is wrong")


@h.test("--from, --to and -p of a replay leave out, --stretch takes longer")
def parts(case):
    text = ["# gpuxray trace 1"]
    for i in range(20):
        for pid in (10, 11):
            text.append(f"{i}.5 {pid} alloc class=device addr=0x{i + 1}000 bytes={10 << 20} device=0 stack={pid}")
    text += ["20.5 10 exit", "stack 10 malloc_like+0x1 (a);main+0x2 (a)", ""]
    path = case.write("hand", "\n".join(text))
    rules = RULES.replace('"untracked"', '"other"')
    records = replay(case, path, rules=rules)[0]
    quota = [r for r in records if r["GPUXRAY_RULE"] == "quota"]
    case.equal(sorted((r["GPUXRAY_PID"], r["GPUXRAY_STATE"]) for r in quota if r["GPUXRAY_STATE"] != "repeat"),
               [("10", "firing"), ("10", "resolved"), ("11", "firing")], "records of both")
    first = next(r for r in quota if r["GPUXRAY_PID"] == "10")
    case.equal(first["GPUXRAY_STACK"], "malloc_like+0x1 (a)\nmain+0x2 (a)", "stack that is told at the end")
    start = 1700000000000000
    case.equal(int(first["GPUXRAY_TIME_USEC"]) - start, 10500000, "time of the crossing")
    one = replay(case, path, "-p", "11", rules=rules)[0]
    case.equal({r["GPUXRAY_PID"] for r in one}, {"11"}, "records with -p 11")
    early = replay(case, path, "--to", "12", rules=rules)[0]
    case.check(early and max(int(r["GPUXRAY_TIME_USEC"]) for r in early) <= start + 12000000, "records with --to 12")
    late = replay(case, path, "--from", "12.25", rules=rules)[0]
    case.equal(late, [r for r in records if int(r["GPUXRAY_TIME_USEC"]) >= start + 12250000], "records with --from")
    slow = replay(case, path, "--stretch", "10", "--from", "10", rules=rules)[0]
    case.equal(int(next(r for r in slow if r["GPUXRAY_RULE"] == "quota")["GPUXRAY_TIME_USEC"]) - start, 105000000, "stretched")
    slow = replay(case, path, "--stretch", "2", "--to", "40", rules=rules)[0]
    case.check(max(int(r["GPUXRAY_TIME_USEC"]) for r in slow) > start + 75000000, "--to is of the recording's own time")
    for how in ("cat", "gzip -c"):
        r = h.run("bash", "-c", f'exec "$0" replay <({how} "$1") --rules "$2" --sink json', h.GPUXRAY, path,
                  case.path("replay-rules.conf"))
        case.equal([json.loads(line) for line in r.stdout.splitlines()], records, f"through a pipe, {how}: {r.stderr!r}")
    with open("/dev/full", "w") as full:
        r = subprocess.run([h.GPUXRAY, "replay", path, "--rules", case.path("replay-rules.conf")], stdout=full,
                             stderr=subprocess.PIPE, text=True, timeout=30)
    case.equal((r.returncode, "records cannot be written" in r.stderr), (1, True), f"a full disk: {r.stderr!r}")
    out = h.must(h.GPUXRAY, "replay", path, "--rules", case.path("replay-rules.conf"))
    case.contains(out, "(rule quota)", "text, which is the default")
    for args in (["--from", "x"], ["--stretch", "0"], ["--sink", "journal"], ["-p", "0"], [path]):
        case.equal(h.run(h.GPUXRAY, "replay", path, *args).returncode, 1, f"exit status of {args}")


@h.test("a daemon that lost events records losses and rebuilds, and the replay's books are right", seconds=20)
def losses(case):
    path = case.path("trace.gz")
    config = 'limits = { ring_bytes = "256KiB"; records_per_minute = 100000; };'
    d = case.daemon("--record", path, rules=RULES, config=config, sink="json")
    w = case.work("work_rate", "--seconds=6", "--threads=2", "--live=40", "--bytes=1MiB", "--depth=6", "--sites=64",
                  "--wait-end", "--ledger")
    d.wait_process(w.pid, lambda p: p["alloc_count"] > 1000, 10, "at work")
    d.signal(signal.SIGSTOP)
    time.sleep(3)
    d.signal(signal.SIGCONT)
    d.wait_process(w.pid, lambda p: p["lost_events"] > 0, 10, "losses counted")
    ledger = w.next("end", 30)
    d.wait_process(w.pid, lambda p: p["exact"] and p["alloc_count"] == ledger["alloc_count"], 10, "settled")
    w.p.kill()
    d.wait_gone(w.pid)
    d.stop()
    live = [json.loads(line) for line in d.lines()]
    lines = lines_of(path)
    for name in ("lost", "rebuild", "block", "rebuilt"):
        case.check(events(lines, w.pid, name), f"no {name} line")
    again = replay(case, path)[0]
    for what, records in (("daemon", live), ("replay", again)):
        end = [r for r in records if r.get("GPUXRAY_RULE") == "end" and r.get("GPUXRAY_PID") == str(w.pid)]
        if case.equal(len(end), 1, f"{what}: records of the end"):
            case.equal((end[0]["GPUXRAY_LIVE_BYTES"], end[0]["GPUXRAY_LIVE_COUNT"]),
                       (str(ledger["live_bytes"]), str(ledger["live_count"])), f"{what}: what it held at its end")


@h.test("a recorder that is killed leaves a file that can be replayed")
def killed(case):
    w = case.work("work_rate", "--seconds=60", "--rate=2000", "--bytes=1MiB", "--live=120", "--depth=4", "--sites=4")
    for name in ("trace.gz", "trace"):
        path = case.path(name)
        r = Recorder(case, path)
        h.poll(lambda: os.path.getsize(path) > 4000, 10, "something in the file")
        time.sleep(2.2)
        r.kill()
        records, err = replay(case, path)
        m = re.search(r"gpuxray: (\d+) items over", err)
        case.check(m and int(m[1]) > 2000, f"{name}: items: {err!r}")
        case.check(any(x["GPUXRAY_RULE"] == "quota" for x in records), f"{name}: no record")
        case.check(("ends in the middle" in err) == name.endswith(".gz"), f"{name}: {err!r}")
    w.kill()


@h.test("record beside a daemon leaves it alone: its books are exact, and so is the recording")
def beside(case):
    d = case.daemon()
    path = case.path("trace.gz")
    before = d.status()
    r = Recorder(case, path)
    state = os.listdir("/run/gpuxray")
    w = case.work("work_ledger", "--ops=5000", "--threads=2", "--wait-end", "--ledger")
    ledger = w.next("end", 40)
    p = d.wait_process(w.pid, lambda p: p["alloc_count"] == ledger["alloc_count"], 10, "all seen")
    h.check_books(case, p, ledger, "the daemon", may_be_unknown=True)
    time.sleep(1.2)
    case.equal(r.stop(signal.SIGINT), 0, "exit status of the recorder")
    r.check_end(case)
    lines = lines_of(path)
    for name, count in (("alloc", "alloc_count"), ("free", "free_count"), ("fail", "fail_count")):
        case.equal(len(events(lines, w.pid, name)), ledger[count], f"{name} lines")
    case.equal(sorted(os.listdir("/run/gpuxray")), sorted(state), "files of the daemon")
    case.equal(d.status()["rules_digest"], before["rules_digest"], "rules of the daemon")
    p = d.process(w.pid)
    h.check_books(case, p, ledger, "the daemon afterwards", may_be_unknown=True)
    w.end()
    d.stop()


@h.test("record --seconds ends by itself; a full disk is told")
def ends(case):
    r = h.run(h.GPUXRAY, "record", "-o", "-", "--seconds", "1.5", "--library", h.LIBCUDA)
    case.equal(r.returncode, 0, f"exit status: {r.stderr!r}")
    case.check(r.stdout == "" or r.stdout.startswith("# gpuxray trace 1\nclock "), f"standard output: {r.stdout[:200]!r}")
    w = case.work("work_rate", "--seconds=4", "--rate=500")
    r = h.run(h.GPUXRAY, "record", "-o", "/dev/full", "--library", h.LIBCUDA)
    case.equal(r.returncode, 1, "exit status with a full disk")
    case.contains(r.stderr, "No space left on device", "what it says")
    case.equal(h.run(h.GPUXRAY, "record").returncode, 1, "exit status without -o")
    # As nohup does: whoever logs out does not end it.
    r = h.run("sh", "-c", 'trap "" HUP; "$0" record -o "$1" --seconds 3 & sleep 2; kill -HUP $!; wait $!', h.GPUXRAY,
              case.path("nohup"))
    case.equal(r.returncode, 0, f"exit status: {r.stderr!r}")
    last = events(lines_of(case.path("nohup")))[-1]
    case.check(float(last[0]) >= 2.5, f"it went on: {last}")
    w.wait(20)


@h.test("a recorder on a host that slept before says nothing of it")
def slept(case):
    if h.run("unshare", "-T", "true").returncode != 0:
        raise h.Skip("no time namespace can be made here")
    r = h.run("unshare", "-T", "--boottime", "5000", h.GPUXRAY, "record", "-o", case.path("trace"), "--seconds", "2.5",
              "--verbose")
    case.equal(r.returncode, 0, f"exit status: {r.stderr!r}")
    case.check("asleep" not in r.stderr, f"what it says: {r.stderr!r}")


if __name__ == "__main__":
    h.main()
