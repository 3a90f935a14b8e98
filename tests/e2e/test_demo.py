#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The main job: a training process crosses its quota, runs out of memory and leaks; the journal tells the story."""
import os
import re
import shutil

import harness as h

STEP_STACK = ["save_activation", "attention_forward", "forward", "train_step", "train", "main"]
CGROUP_ROOTS = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"]


def unit_cgroup(case, unit):
    """Folders that put a process into system.slice/UNIT, made for this case. Skip when this machine lets nobody."""
    roots = [r for r in CGROUP_ROOTS if os.path.exists(r + "/cgroup.procs")]
    made = []
    for root in roots:
        for d in (f"{root}/system.slice", f"{root}/system.slice/{unit}"):
            if os.path.isdir(d):
                continue
            try:
                os.mkdir(d)
            except OSError as e:
                raise h.Skip(f"no cgroup of our own: {d}: {e.strerror}") from None
            case.finally_(lambda d: h.poll(lambda: not h.run("rmdir", d).returncode, 5, f"rmdir {d}"), d)
        made.append(f"{root}/system.slice/{unit}")
    if not made:
        raise h.Skip("no cgroup hierarchy of systemd or version 2 is mounted")
    return made


def functions(stack):
    return [re.match(r"[^+ ]*", line)[0] for line in stack.splitlines()]


def check_stack(case, r, want, what):
    """The frames of the workload, innermost first, below the driver function."""
    got = functions(r.get("GPUXRAY_STACK", ""))
    case.check(want == [f for f in got if f in want], f"{what}: stack {r.get('GPUXRAY_STACK')!r}, not {want}")
    case.check(all(re.match(r"\S.*\+0x[0-9a-f]+( \(\S+\))?( at \S+:\d+)?$", line) for line in r.get("GPUXRAY_STACK", "").splitlines()),
               f"{what}: frames are not all function+0xoff (module) [at file:line]: {r.get('GPUXRAY_STACK')!r}")
    case.check(re.fullmatch("[0-9a-f]{16}", r.get("GPUXRAY_STACK_ID", "")), f"{what}: {r.get('GPUXRAY_STACK_ID')=}")


def check_subject(case, r, w, start_time, what):
    """Who it was, by our own capture and by journald's."""
    case.equal(r.get("GPUXRAY_PID"), str(w.pid), f"{what}: pid")
    case.equal(r.get("GPUXRAY_START_TIME"), str(start_time), f"{what}: start time")
    case.equal(r.get("GPUXRAY_COMM"), "train", f"{what}: comm")
    case.equal(r.get("GPUXRAY_EXE"), h.FAKE + "/work_demo", f"{what}: exe")
    case.contains(r.get("GPUXRAY_CMDLINE"), "--name=train", f"{what}: cmdline")
    case.equal(r.get("GPUXRAY_UID"), "0", f"{what}: uid")
    case.equal(r.get("GPUXRAY_USER"), "root", f"{what}: user")
    case.equal(r.get("GPUXRAY_DEVICE"), "GPU-fa4e0000-6b1d-429c-8f00-5eedc0de0010", f"{what}: device")
    case.equal(r.get("GPUXRAY_EXACT"), "1", f"{what}: exact")


def check_object(case, r, w, what):
    case.equal(r.get("OBJECT_PID"), str(w.pid), f"{what}: OBJECT_PID")
    case.equal(r.get("OBJECT_COMM"), "train", f"{what}: journald's OBJECT_COMM")
    case.equal(r.get("OBJECT_EXE"), h.FAKE + "/work_demo", f"{what}: journald's OBJECT_EXE")
    case.equal(r.get("OBJECT_UID"), "0", f"{what}: journald's OBJECT_UID")


def check_quota(case, r):
    case.equal(r["PRIORITY"], "2", "quota: PRIORITY")
    case.equal(r.get("GPUXRAY_SEVERITY"), "critical", "quota: severity")
    case.equal(r.get("GPUXRAY_FIRING"), "1", "quota: firing")
    case.equal(r.get("GPUXRAY_SEQ"), "1", "quota: seq")
    case.equal(r.get("GPUXRAY_SCOPE"), "process", "quota: scope")
    case.equal(r.get("GPUXRAY_LIMIT"), str(100 * h.MIB), "quota: limit")
    case.equal(r.get("GPUXRAY_VALUE_UNIT"), "bytes", "quota: unit of the value")
    # It speaks of the moment of the crossing: at most one allocation above the limit.
    case.check(100 * h.MIB < int(r.get("GPUXRAY_VALUE", 0)) <= 124 * h.MIB, f"quota: value {r.get('GPUXRAY_VALUE')}")
    case.equal(r.get("GPUXRAY_LIVE_BYTES"), r.get("GPUXRAY_VALUE"), "quota: live bytes")
    line = r["MESSAGE"].split("\n")[0]
    case.check(re.match(r"train\[\d+\].* holds 1\d\d(\.\d)? MiB.*over 100 MiB.*\(rule quota\)$", line),
               f"quota: first line {line!r}")
    case.check(len(line) <= 200, f"quota: first line has {len(line)} characters")
    check_stack(case, r, ["tensor_empty", "load_shard", "load_model", "main"], "quota")
    case.check(r["MESSAGE"].split("\n")[1] == "" and "main" in r["MESSAGE"], f"quota: frames in MESSAGE: {r['MESSAGE']!r}")


def check_oom(case, r):
    case.equal(r["PRIORITY"], "3", "oom: PRIORITY")
    case.equal(r.get("GPUXRAY_BYTES"), str(16 * h.GIB + 4096 * h.MIB), "oom: size asked for")
    case.equal(r.get("GPUXRAY_FUNCTION"), "cuMemAlloc_v2", "oom: function")
    case.equal(r.get("GPUXRAY_ERROR"), "2 CUDA_ERROR_OUT_OF_MEMORY", "oom: error")
    check_stack(case, r, ["tensor_empty", "gather_logits", "evaluate", "train", "main"], "oom")


def check_leak(case, r):
    case.equal(r["PRIORITY"], "4", "leak: PRIORITY")
    rate = int(r.get("GPUXRAY_GROWTH_BYTES_PER_HOUR", 0)) / 3600 / h.MIB
    case.check(7 < rate < 9, f"leak: {rate:.2f} MiB/s, not 8")
    case.check(int(r.get("GPUXRAY_LEAKED_BYTES", 0)) >= 100 * h.MIB, f"leak: leaked {r.get('GPUXRAY_LEAKED_BYTES')}")
    check_stack(case, r, ["tensor_empty", *STEP_STACK], "leak")


def check_incidents(case, records):
    """seq counts up within one id; what fired is resolved; ids are not shared."""
    by_id = {}
    for r in records:
        if r.get("GPUXRAY_INCIDENT"):
            by_id.setdefault(r["GPUXRAY_INCIDENT"], []).append(r)
    for i, rs in by_id.items():
        rule = rs[0]["GPUXRAY_RULE"]
        case.check(re.fullmatch("[0-9a-f]{32}", i), f"{rule}: incident {i!r}")
        case.equal([r["GPUXRAY_SEQ"] for r in rs], [str(n + 1) for n in range(len(rs))], f"{rule}: seq")
        case.equal({r["GPUXRAY_RULE"] for r in rs}, {rule}, f"rules of incident {i}")
        if rule == "oom":
            continue
        case.equal([r["GPUXRAY_STATE"] for r in rs if r["GPUXRAY_STATE"] != "repeat"], ["firing", "resolved"],
                   f"{rule}: states")
        case.equal((rs[-1]["PRIORITY"], rs[-1].get("GPUXRAY_FIRING")), ("5", "0"), f"{rule}: resolved")
    for rule in ("quota", "leak"):  # the last of each lasted until the end of the process
        last = [r for r in records if r.get("GPUXRAY_RULE") == rule][-1]
        case.check(int(last.get("GPUXRAY_DURATION_SEC", -1)) >= 1, f"{rule}: {last.get('GPUXRAY_DURATION_SEC')=}")
        case.check("OBJECT_PID" not in last, f"{rule}: OBJECT_PID of a dead process")


def check_form(case, d):
    """As other readers get them: without -a nothing is null or an array."""
    out = h.run("journalctl", "-o", "json", "--no-pager", "-t", "gpuxray", f"_PID={d.pid}").stdout
    for r in map(h.json.loads, out.splitlines()):
        for k, v in r.items():
            case.check(isinstance(v, str), f"{r.get('GPUXRAY_EVENT')}: {k} is {v!r} in plain json")
            case.check(not isinstance(v, str) or len(f"{k}={v}".encode()) < 4096, f"{k} is too long")
        case.equal(r.get("SYSLOG_IDENTIFIER"), "gpuxray", "identifier")
        case.check(re.fullmatch("[0-9a-f]{32}", r.get("MESSAGE_ID") or ""), f"MESSAGE_ID {r.get('MESSAGE_ID')!r}")
        case.check("CODE_FILE" not in r, "CODE_FILE names the daemon's source")
    case.equal(len({r["MESSAGE_ID"] for r in d.records()}), len({r["GPUXRAY_EVENT"] for r in d.records()}),
               "one MESSAGE_ID for each kind of event")


def check_own_records(case, d):
    events = [r["GPUXRAY_EVENT"] for r in d.records()]
    case.equal((events[0], events[-1]), ("start", "stop"), "first and last record")
    health = d.records(event="health")
    if case.check(len(health) >= 2, f"{len(health)} health records in 30 s at an interval of 5 s"):
        last = health[-1]
        case.equal(last["PRIORITY"], "6", "health: PRIORITY")
        for k in ("PROCESSES", "LIVE_BYTES", "EVENTS", "LOST_EVENTS", "RULES", "RULES_DIGEST"):
            case.check(last.get("GPUXRAY_" + k), f"health: no GPUXRAY_{k}")
        case.equal(last.get("GPUXRAY_RULES"), "4", "health: rules")


def check_catalog(case, d):
    """The explanations are installed where journalctl looks, in a folder of our own."""
    source = h.ROOT + "/contrib/systemd/gpuxray.catalog"
    if not case.check(os.path.exists(source), "contrib/systemd/gpuxray.catalog is not there"):
        return
    os.makedirs(h.CATALOGS, exist_ok=True)
    h.must("mount", "-t", "tmpfs", "tmpfs", h.CATALOGS)
    case.finally_(h.must, "umount", h.CATALOGS)
    shutil.copy(source, h.CATALOGS)
    h.must("journalctl", "--update-catalog")
    with open(source) as f:
        texts = {m[1]: m[2] for m in re.finditer(r"^-- ([0-9a-f]{32}).*\nSubject: (.*)$", f.read(), re.M)}
    seen = {r["MESSAGE_ID"]: r["GPUXRAY_EVENT"] for r in d.records()}
    for i, event in seen.items():
        if not case.check(i in texts, f"catalog: nothing about {event} ({i})"):
            continue
        out = h.must("journalctl", "-x", "--no-pager", "-t", "gpuxray", f"MESSAGE_ID={i}", f"_PID={d.pid}", "-n", "1")
        case.contains(out, "\u2591 Subject: ", f"journalctl -x of {event}")
        # Field references in a subject are filled in: its first plain words must do.
        case.contains(out, re.split("@", texts[i])[0].strip(), f"journalctl -x of {event}")
        # The name of a field in the subject means that the record had no value for it.
        case.check("GPUXRAY_" not in re.search("Subject: .*", out)[0], f"subject with a bare field name: {out}")


@h.test("a night of training: quota, oom and leak are told, with stacks, and resolved",
        uses=["train.service"], seconds=35)
def night(case):
    with_unit = None
    try:
        with_unit = unit_cgroup(case, "train.service")
    except h.Skip as e:
        h.comment(f"not in a unit: {e}")
    d = case.daemon(rules=h.MINIMAL_RULES, config='health_interval = "5s";')
    w = case.work("work_demo", "--seconds=34", "--name=train", cgroup=with_unit)
    start_time = int(open(f"/proc/{w.pid}/stat").read().rsplit(")", 1)[1].split()[19])
    quota = d.wait_record(w.pid, 10, rule="quota", state="firing")
    leak = d.wait_record(w.pid, 30, rule="leak", state="firing")
    oom = d.wait_record(w.pid, 2, rule="oom")
    for r, what in ((quota, "quota"), (oom, "oom"), (leak, "leak")):
        check_subject(case, r, w, start_time, what)
        check_object(case, r, w, what)
    check_quota(case, quota)
    check_oom(case, oom)
    check_leak(case, leak)
    case.equal(w.wait(15), 0, "exit status of the workload")
    d.wait_record(w.pid, 5, rule="quota", state="resolved")
    d.wait_record(w.pid, 5, rule="leak", state="resolved")
    d.stop()
    check_incidents(case, d.records(w.pid))
    case.equal(len(d.records(w.pid, rule="huge")), 0, "records of rule huge: nothing of 1 GiB was allocated")
    check_form(case, d)
    check_own_records(case, d)
    check_catalog(case, d)


@h.test("journalctl -u shows what the daemon said of a unit's process, also after its end", exclusive=True)
def unit(case):
    groups = unit_cgroup(case, "train.service")
    d = case.daemon()
    w = case.work("work_lifecycle", "hold", "--bytes=150MiB", "--blocks=1", "--name=train", cgroup=groups)
    w.next("hold")
    firing = d.wait_record(w.pid, rule="quota", state="firing")
    case.equal(firing.get("GPUXRAY_UNIT"), "train.service", "GPUXRAY_UNIT")
    case.check((firing.get("GPUXRAY_CGROUP") or "").endswith("/system.slice/train.service"), firing.get("GPUXRAY_CGROUP"))
    case.contains(firing["MESSAGE"].split("\n")[0], "train.service", "first line")
    case.equal(d.wait_process(w.pid)["unit"], "train.service", "unit in the status")
    w.end()
    d.wait_record(w.pid, rule="quota", state="resolved")
    d.stop()
    out = h.must("journalctl", "-u", "train.service", "-o", "json", "--no-pager", "-t", "gpuxray", f"_PID={d.pid}")
    case.equal([r["GPUXRAY_STATE"] for r in map(h.json.loads, out.splitlines())], ["firing", "resolved"],
               "states in journalctl -u train.service")


@h.test("no rule speaks of a process that does nothing wrong")
def quiet(case):
    d = case.daemon(rules=h.MINIMAL_RULES)
    w = case.work("work_rate", "--seconds=3", "--rate=200", "--live=8", "--bytes=4MiB", "--wait-end", "--ledger")
    w.next("end")
    d.wait_process(w.pid, lambda p: p["alloc_count"] > 500, what="more than 500 allocations")
    w.end()
    d.wait_gone(w.pid)
    d.stop()
    case.equal([r["MESSAGE"] for r in d.records(w.pid)], [], "records")


if __name__ == "__main__":
    h.main()
