#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What leaves the daemon, and what does not: fields left out, secrets on every way out, sockets; and what -x says of it."""
import os
import re
import shutil
import subprocess
import time

import harness as h
from test_records import SECRETS

h.tests.clear()  # it is there for its list

EVERYTHING = ("comm", "exe", "cmdline", "user", "cgroup", "unit", "container", "pod", "slurm_job", "parent", "tag", "stack")
# Of the text fields of a record, those that may be there when everything is omitted.
KEPT = {"PID", "START_TIME", "NSPID", "STACK_ID", "STACK_BYTES", "STACK_INFO"}
WHO = {"COMM", "EXE", "CMDLINE", "USER", "UID", "CGROUP", "SLICE", "UNIT", "CONTAINER", "RUNTIME", "POD", "SLURM_JOB", "PARENT",
       "PPID", "TAG", "STACK"}
RULES = """version = 1;
rules = (
  { name = "quota"; kind = "live_bytes"; scope = "process"; fire_above = "100MiB"; for = "0s"; match = { comm = "^work_"; }; },
  { name = "told"; kind = "live_bytes"; scope = "process"; fire_above = "100MiB"; for = "0s"; match = { comm = "^work_"; };
    message = "%{comm} of %{user} in %{cgroup} runs %{exe}, %{pid}"; },
  { name = "user"; kind = "live_bytes"; scope = "user"; fire_above = "100MiB"; for = "0s"; },
  { name = "exit"; kind = "exit"; live_above = "1MiB"; min_runtime = "0s"; }
);
"""
SECRET = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567"


def export(*fields):
    """All that the journal has of such records, also what journald added."""
    return h.must("journalctl", "-o", "export", "-a", "--no-pager", "-t", "gpuxray", *fields)


@h.test("omit: rules match on what is left out, and it is in no field, sentence or recording")
def omitted(case):
    recording = case.path("trace")
    names = ", ".join(f'"{x}"' for x in EVERYTHING)
    d = case.daemon("--record", recording, "--record-identity", rules=RULES, config=f"omit = [ {names} ];\n")
    w = case.work("work_lifecycle", "hold", "--blocks=1", "--bytes=120MiB", env={"GPUXRAY_TAG": "zz-tag"})
    w.next("hold")
    quota = d.wait_record(w.pid, rule="quota", state="firing")
    told = d.wait_record(w.pid, rule="told", state="firing")
    user = d.wait_record(rule="user", state="firing")
    shown = d.process(w.pid)
    w.end()
    d.wait_record(w.pid, rule="exit")
    d.stop()
    case.contains(quota["MESSAGE"], f"process {w.pid} holds 120 MiB", "the sentence")
    case.check("\n" not in quota["MESSAGE"], f"frames in the message: {quota['MESSAGE']!r}")
    case.check(quota.get("GPUXRAY_STACK_ID"), "the id of the stack stays")
    case.equal(told["MESSAGE"], f"[omitted] of [omitted] in [omitted] runs [omitted], {w.pid}", "the rule's own message")
    case.check(user["MESSAGE"].startswith("a user holds"), f"a group by what is left out: {user['MESSAGE']!r}")
    case.check(not [k for k in quota if k.startswith("OBJECT_")], f"what journald adds: {sorted(quota)}")
    for r in d.records():
        there = {k[8:] for k in r if k.startswith("GPUXRAY_")} & WHO
        case.equal(there, set(), f"{r['GPUXRAY_EVENT']}: fields")
    everything = export(f"_PID={d.pid}")
    for text in ("work_lifecycle", "zz-tag", "main+0x", h.FAKE + "/work"):
        case.check(text not in everything, f"{text} is in the journal: "
                   f"{[line[:200] for line in everything.splitlines() if text in line][:3]}")
        case.check(text not in open(recording).read(), f"{text} is in the recording")
    # Root's own look is no record.
    case.equal(shown["comm"], "work_lifecycle"[:15], "the status names it")


@h.test("omit of some: the others stay, and journald is not told the pid where it would tell")
def some(case):
    d = case.daemon(rules=RULES, config='omit = "cmdline";\n')
    w = case.work("work_lifecycle", "hold", "--blocks=1", "--bytes=120MiB")
    w.next("hold")
    r = d.wait_record(w.pid, rule="quota", state="firing")
    w.end()
    d.stop()
    case.check("GPUXRAY_CMDLINE" not in r and "OBJECT_PID" not in r, f"{sorted(r)}")
    case.equal(r["GPUXRAY_COMM"], "work_lifecycle"[:15], "COMM")
    case.check(r.get("GPUXRAY_STACK") and r.get("GPUXRAY_EXE"), f"{sorted(r)}")
    case.check("--bytes=120MiB" not in export(f"_PID={d.pid}"), "the command line is in the journal")


@h.test("gpuxray check: a field that cannot be omitted is an error that lists those that can")
def wrong(case):
    path = case.write("gpuxray.conf", 'omit = [ "cmdline", "pid2" ];\n')
    r = h.run(h.GPUXRAY, "check", "--config", path)
    case.equal(r.returncode, 1, "exit status")
    case.contains(r.stdout + r.stderr, "gpuxray.conf:1: error: unknown field to omit \"pid2\"", "what it says")


@h.test("secrets of command lines and paths are in no recording, no status, no log and no record")
def secrets(case):
    folder = case.path(SECRET)
    os.mkdir(folder)
    for name in ("work_hostile", "work_lifecycle", "libcuda.so.1"):
        shutil.copy(f"{h.FAKE}/{name}", folder)
    program = "work_" + SECRET  # which frames name
    shutil.copy(f"{h.FAKE}/work_lifecycle", f"{folder}/{program}")
    recording = case.path("trace")
    d = case.daemon("--record", recording, "--record-identity", rules=RULES, library=None)
    # The first that maps the library makes the daemon name it in its log.
    first = case.work("work_lifecycle", "hold", "--blocks=1", "--bytes=1MiB", fake=folder)
    d.wait_stderr("probing .*libcuda")
    hostile = case.work("work_hostile", "--long=8", fake=folder)
    w = case.work(program, "hold", "--blocks=1", "--bytes=120MiB", fake=folder)
    hostile.next("hostile")
    w.next("hold")
    for p in (hostile, w):
        d.wait_process(p.pid, lambda p: p["live_bytes"] > 100 * h.MIB)
    d.wait_record(w.pid, rule="quota", state="firing")
    status, text = h.must(h.GPUXRAY, "status", "--json"), h.must(h.GPUXRAY, "status")
    case.equal(d.process(w.pid)["exe"], f"{case.dir}/[redacted]/work_[redacted]", "exe in the status")
    first.end()
    hostile.end()
    w.end()
    d.wait_record(w.pid, rule="exit")
    d.stop()
    everything = {"the recording": open(recording).read(), "the status as JSON": status, "the status": text,
                  "the log": d.stderr(), "the journal": export(f"_PID={d.pid}")}
    for what, got in everything.items():
        for secret in [*SECRETS, SECRET]:
            lines = [line[:300] for line in got.splitlines() if secret in line]
            case.check(not lines, f"{secret} is in {what}: {lines[:2]}")
    case.contains(everything["the recording"], "--api-key=[redacted]", "the recording")
    case.contains(everything["the recording"], "(work_[redacted])", "frames in the recording")
    case.contains(everything["the log"], "[redacted]/libcuda.so.1", "the log")


def sockets(pid):
    """Of a process: what kind each of its sockets is."""
    kinds = {}
    for table in ("unix", "netlink", "packet", "tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6", "icmp",
                  "icmp6"):
        try:
            with open(f"/proc/{pid}/net/{table}") as f:
                lines = f.read().splitlines()[1:]
        except FileNotFoundError:
            continue
        column = {"unix": 6, "netlink": 9, "packet": 8}.get(table, 9)
        kinds.update({line.split()[column]: table for line in lines if len(line.split()) > column})
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            m = re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            continue
        if m:
            found.append(kinds.get(m[1], "unknown"))
    return found


@h.test("the daemon has no socket but unix ones: nothing leaves the host by itself")
def no_network(case):
    d = case.daemon(rules=RULES)
    w = case.work("work_lifecycle", "hold", "--blocks=1", "--bytes=120MiB")
    w.next("hold")
    d.wait_record(w.pid, rule="quota", state="firing")
    seen = set()
    for _ in range(20):
        seen |= set(sockets(d.pid))
        d.status()
        time.sleep(0.05)
    w.end()
    case.equal(seen, {"unix"}, "kinds of sockets")
    d.stop()
    # The look would have found others.
    other = subprocess.Popen(["python3", "-c", "import socket,time;s=[socket.socket(),socket.socket(socket.AF_NETLINK,"
                              "socket.SOCK_RAW,0),socket.socket(type=socket.SOCK_DGRAM)];s[0].bind(('127.0.0.1',0));"
                              "s[0].listen();s[1].bind((0,0));s[2].bind(('127.0.0.1',0));print('.',flush=True);time.sleep(60)"],
                             stdout=subprocess.PIPE)
    case.finally_(other.wait)
    case.finally_(other.kill)
    other.stdout.readline()
    case.equal(set(sockets(other.pid)), {"tcp", "netlink", "udp"}, "kinds of sockets of a process that has them")
    other.stdout.close()


def entries():
    """MESSAGE_ID -> text, of the catalog."""
    with open(h.ROOT + "/contrib/systemd/gpuxray.catalog") as f:
        parts = re.split(r"^-- ([0-9a-f]{32}).*\n", f.read(), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def install_catalog(case):
    os.makedirs(h.CATALOGS, exist_ok=True)
    h.must("mount", "-t", "tmpfs", "tmpfs", h.CATALOGS)
    case.finally_(h.must, "umount", h.CATALOGS)
    shutil.copy(h.ROOT + "/contrib/systemd/gpuxray.catalog", h.CATALOGS)
    h.must("journalctl", "--update-catalog")


def write_record(fields):
    """Into the journal, by other means than the daemon's."""
    text = "".join(f"{k}={v}\n" for k, v in fields.items())
    h.must("logger", "--journald", input=text)


@h.test("journalctl -x explains each event: values filled in, in 80 columns")
def explained(case):
    texts = entries()
    case.check(len(texts) >= 17, f"{len(texts)} entries")
    install_catalog(case)
    rules = h.MINIMAL_RULES.replace('fire_above = "1GiB"', 'fire_above = "64MiB"')
    rules = rules.replace('"^train"', '"^work"').replace("\n);", ',\n  { name = "exit"; kind = "exit"; live_above = "1MiB"; '
                                                         'min_runtime = "0s"; },\n  { name = "rate"; kind = "alloc_rate"; '
                                                         'window = "1s"; fire_above = "20/s"; for = "0s"; }\n);')
    d = case.daemon(rules=rules, config='health_interval = "1s"; sample_interval = "1s";')
    w = case.work("work_hostile")
    w.next("hostile")
    big = case.work("work_lifecycle", "hold", "--blocks=1", "--bytes=120MiB")
    d.wait_record(big.pid, rule="huge")
    big.end()
    rate = case.work("work_rate", "--seconds=3", "--rate=200")
    d.wait_record(w.pid, rule="quota", state="firing")
    d.wait_record(rate.pid, rule="rate", state="firing")
    d.reload()
    d.wait_record(event="reload")
    d.wait_record(event="health")
    w.end()
    d.wait_record(w.pid, rule="exit")
    d.wait_record(w.pid, event="process_exit")
    rate.wait(10)
    d.stop()
    real = {r["MESSAGE_ID"]: r["GPUXRAY_EVENT"] for r in h.journal_json(f"_PID={d.pid}")}
    for event in ("live_bytes", "single_alloc", "alloc_failure", "alloc_rate", "exit", "sample", "process_exit", "site",
                  "start", "stop", "reload", "health"):
        case.check(event in real.values(), f"no record of {event}: {sorted(real.values())}")
    # Those that take long, or a broken process, to come about.
    for i, text in texts.items():
        if i not in real:
            fields = {k: "12345" for k in re.findall("@(.*?)@", text)}
            write_record({"MESSAGE": "x", "MESSAGE_ID": i, "SYSLOG_IDENTIFIER": "gpuxray", "PRIORITY": "6", **fields})
    h.poll(lambda: len({r["MESSAGE_ID"] for r in h.journal_json()}) >= len(texts), 5, "all in the journal")
    for i, text in texts.items():
        out = h.must("journalctl", "-x", "--no-pager", "-q", "-t", "gpuxray", f"MESSAGE_ID={i}", "-n", "1",
                     *([f"_PID={d.pid}"] if i in real else []))
        said = [line for line in out.splitlines() if line.startswith(("\u2591\u2591", "--"))]
        r = h.journal_json(f"MESSAGE_ID={i}")[-1]
        what = f"-x of {r.get('GPUXRAY_EVENT', i)}"
        if not case.check(len(said) > 5, f"{what}: {out!r}"):
            continue
        body = "\n".join(said)
        case.check("@" not in body, f"{what}: a field that is not filled in: {body}")
        for line in said[1:]:
            case.check(len(line) <= 80 or "Subject:" in line, f"{what}: {len(line)} columns: {line}")
        for field in re.findall("@(.*?)@", text):
            case.contains(body, str(r.get(field)), f"{what}: value of {field}")
        case.contains(body, "What to do", what)


if __name__ == "__main__":
    h.main()
