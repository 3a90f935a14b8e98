#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The driver's count beside ours: what no allocation shows, who shows no call, and who holds memory as an orphan."""
import os
import signal
import struct
import subprocess

import harness as h

CONFIG = 'nvml_interval = "1s";\n'
RULES = """version = 1;
rules = (
  { name = "quota"; kind = "live_bytes"; fire_above = "100MiB"; resolve_below = "80MiB"; for = "3s"; severity = "critical"; },
  { name = "untracked"; kind = "untracked_growth"; fire_above = "256MiB"; window = "1m"; min_runtime = "2s"; for = "0s"; },
  { name = "orphan"; kind = "orphan"; for = "2s"; }
);
"""
CONTEXT = 300 * h.MIB
# As in tests/fake_gpu/fake_gpu.h: pid, image, start_ticks, used_bytes[8], contexts[8], context_bytes.
SLOT = struct.Struct("=IIQ8Q8IQ")
SLOTS = 1024
MAGIC = 0x31757067656b6166


def start_ticks(pid):
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rsplit(")", 1)[1].split()[19])


def find_slot(f, pid):
    """Its offset in the state file."""
    for i in range(SLOTS):
        f.seek(8 + i * SLOT.size)
        data = f.read(SLOT.size)
        if len(data) < SLOT.size or SLOT.unpack(data)[0] == pid:
            return 8 + i * SLOT.size
    raise h.Failure(f"no slot of process {pid} in the state of the stand-in")


def claim(case, pid, used):
    """The stand-in NVML says that this process holds memory on the first device."""
    with open(case.path("gpu-state"), "a+b"):
        pass
    with open(case.path("gpu-state"), "r+b") as f:
        f.write(struct.pack("=Q", MAGIC))
        at = find_slot(f, 0)
        f.truncate(max(os.fstat(f.fileno()).st_size, 8 + SLOTS * SLOT.size))
        f.seek(at)
        f.write(SLOT.pack(pid, 1, start_ticks(pid), used, *[0] * 7, 1, *[0] * 7, 0))


def set_context_bytes(case, pid, n):
    with open(case.path("gpu-state"), "r+b") as f:
        f.seek(find_slot(f, pid) + SLOT.size - 8)
        f.write(struct.pack("=Q", n))


def bystander(case, *argv):
    """A process that maps no driver library."""
    p = subprocess.Popen(argv or ["sleep", "1000"], preexec_fn=h.die_with_parent)
    case.finally_(p.wait)
    case.finally_(p.kill)
    return p


@h.test("driver's bytes, the difference and the baseline, in the status and in records", host=True)
def three_numbers(case):
    older = case.work("work_lifecycle", "hold", "--blocks=2", "--bytes=10MiB", env={"FAKE_GPU_CONTEXT_BYTES": str(CONTEXT)})
    older.next("hold")
    d = case.daemon(rules=RULES, config=CONFIG)
    w = case.work("work_lifecycle", "hold", "--blocks=2", "--bytes=60MiB", env={"FAKE_GPU_CONTEXT_BYTES": str(CONTEXT)})
    ledger = w.next("hold")
    p = d.wait_process(w.pid, lambda p: p["driver_bytes"], what="with the driver's count")
    live = ledger["live_bytes"]
    case.equal(p["live_bytes"], live, "live bytes")
    extra = p["driver_bytes"] - live
    case.check(extra > 0 and extra % CONTEXT == 0, f"the driver's count is {p['driver_bytes']}, ours {live}")
    case.equal(p["untracked_bytes"], extra, "the difference")
    case.equal(p["baseline_bytes"], 0, "baseline of one that is younger than the daemon")
    case.equal(p["covered"], True, "covered")
    case.equal(sum(x["driver_bytes"] or 0 for x in p["devices"]), p["driver_bytes"], "sum over the devices")
    r = d.wait_record(w.pid, rule="quota", state="firing")
    case.equal(r["GPUXRAY_DRIVER_BYTES"], str(p["driver_bytes"]), "driver's bytes of the record")
    case.equal(r["GPUXRAY_UNTRACKED_BYTES"], str(extra), "the difference in the record")
    case.equal(r["GPUXRAY_EXACT"], "1", "exact")

    # Allocated before anybody looked: all of it is baseline, and no call has been seen.
    p = d.wait_process(older.pid, lambda p: p["driver_bytes"])
    case.equal(p["covered"], False, "the older one: covered")
    case.equal(p["live_bytes"], 0, "the older one: live bytes")
    case.equal(p["baseline_bytes"], p["driver_bytes"], "the older one: baseline")
    w.end()
    older.end()
    d.wait_gone(w.pid)
    d.wait_gone(older.pid)
    text = h.must(h.GPUXRAY, "status")
    case.contains(text, "DRIVER", "columns of the status")
    d.stop()


@h.test("memory that no allocation shows grows: a record with both numbers, and it resolves", host=True, seconds=10)
def growth(case):
    d = case.daemon(rules=RULES, config=CONFIG)
    w = case.work("work_lifecycle", "hold", "--blocks=1", "--bytes=10MiB", env={"FAKE_GPU_CONTEXT_BYTES": str(CONTEXT)})
    ledger = w.next("hold")
    d.wait_process(w.pid, lambda p: p["driver_bytes"])
    h.time.sleep(5)
    case.equal(d.records(w.pid, rule="untracked"), [], "records of what was there from the start")
    set_context_bytes(case, w.pid, 3 * CONTEXT)
    r = d.wait_record(w.pid, rule="untracked", state="firing")
    case.check(int(r["GPUXRAY_VALUE"]) >= 2 * CONTEXT, f"the growth is {r['GPUXRAY_VALUE']}")
    case.equal(r["GPUXRAY_LIMIT"], str(256 * h.MIB), "limit")
    case.equal(r["GPUXRAY_LIVE_BYTES"], str(ledger["live_bytes"]), "tracked")
    case.equal(int(r["GPUXRAY_DRIVER_BYTES"]) - ledger["live_bytes"], int(r["GPUXRAY_UNTRACKED_BYTES"]), "difference")
    case.check("GPUXRAY_STACK" not in r, "a stack, though no call has grown")
    case.contains(r["MESSAGE"], "than its allocations account for", "message")
    set_context_bytes(case, w.pid, CONTEXT)
    d.wait_record(w.pid, rule="untracked", state="resolved")
    w.end()
    d.stop()


@h.test("a worker whose parent was killed: named by its file and start, and over when it ends", host=True)
def orphan(case):
    h.libc.prctl(h.PR_SET_CHILD_SUBREAPER, 1)
    d = case.daemon(rules=RULES, config=CONFIG)
    w = case.work("work_lifecycle", "orphan", "--blocks=2", "--bytes=20MiB", "--rounds=0")
    child = w.next("orphan-child")
    pid = child["pid"]
    case.finally_(lambda: os.path.exists(f"/proc/{pid}") and os.kill(pid, signal.SIGKILL))
    d.wait_process(pid)  # whose child it is can be seen only while the parent lives
    w.signal(signal.SIGKILL)
    w.wait()
    r = d.wait_record(pid, 20, rule="orphan", state="firing")
    case.equal(r["GPUXRAY_CONDITION"], "parent_gone", "condition")
    case.equal(r["GPUXRAY_EVENT"], "orphan", "event")
    case.contains(r["MESSAGE"], f"{h.FAKE}/work_lifecycle", "the file in the message")
    case.contains(r["MESSAGE"], "(started 20", "the start in the message")
    case.contains(r["MESSAGE"], "its parent is gone", "what is wrong, in the message")
    case.equal(r["GPUXRAY_VALUE"], r["GPUXRAY_LIVE_BYTES"], "what it holds")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    r = d.wait_record(pid, rule="orphan", state="resolved")
    case.contains(r["MESSAGE"], "has ended", "the end in the message")
    d.stop()


@h.test("a dead process that nobody waits for and for which the driver counts memory", host=True, seconds=10)
def zombie(case):
    d = case.daemon(rules=RULES, config=CONFIG)
    p = bystander(case)
    claim(case, p.pid, 500 * h.MIB)
    d.wait_process(p.pid, lambda x: x["driver_bytes"] == 500 * h.MIB and not x["covered"])
    case.equal(d.records(p.pid, rule="orphan"), [], "records while it lives")
    p.kill()
    r = d.wait_record(p.pid, 20, rule="orphan", state="firing")
    case.equal(r["GPUXRAY_CONDITION"], "zombie", "condition")
    case.equal(r["GPUXRAY_DRIVER_BYTES"], str(500 * h.MIB), "driver's bytes")
    p.wait()
    d.wait_record(p.pid, rule="orphan", state="resolved")
    d.wait_gone(p.pid)
    d.stop()


@h.test("a process that holds memory and shows no call: one record that says why, and none when it is covered",
        host=True, seconds=35)
def coverage(case):
    d = case.daemon(rules=RULES, config=CONFIG)
    p = bystander(case)
    claim(case, p.pid, 700 * h.MIB)
    w = case.work("work_lifecycle", "hold", "--blocks=1", "--bytes=1MiB")
    w.next("hold")
    d.wait_process(p.pid, lambda x: not x["covered"], 5)
    case.equal(d.status()["uncovered"] >= 1, True, "counted")
    r = d.wait_record(p.pid, 50, event="coverage")
    case.equal(r["GPUXRAY_REASON"], "it maps no driver library that is known", "reason")
    case.equal(r["GPUXRAY_DRIVER_BYTES"], str(700 * h.MIB), "driver's bytes")
    case.equal(r["GPUXRAY_COMM"], "sleep", "comm")
    case.equal(r["PRIORITY"], "5", "priority")
    case.equal(len(r["MESSAGE_ID"]), 32, "message id")
    case.check("GPUXRAY_RULE" not in r and "GPUXRAY_INCIDENT" not in r, "it is no incident")
    case.equal(d.process(p.pid)["uncovered_reason"], r["GPUXRAY_REASON"], "reason in the status")
    case.contains(h.must(h.GPUXRAY, "status"), f"uncovered {p.pid}: it maps no driver library", "status")
    h.time.sleep(3)
    case.equal(len(d.records(p.pid, event="coverage")), 1, "records")
    case.equal(d.records(w.pid, event="coverage"), [], "records of one that is covered")
    p.kill()
    p.wait()
    d.wait_gone(p.pid)
    w.end()
    d.stop()


if __name__ == "__main__":
    h.main()
