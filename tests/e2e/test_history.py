#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The history: samples, call sites and ends of processes, against what the workloads did."""
import time

import harness as h

NO_RULES = "version = 1;\nrules = ();\n"
OFTEN = 'sample_interval = "1s";\n'
BYTES = {"FAKE_GPU_BYTES": str(h.GIB)}


def number(r, name):
    return int(r["GPUXRAY_" + name])


@h.test("a host without a rule tells who held what: to the byte, by device, with the peak")
def to_the_byte(case):
    d = case.daemon(rules=NO_RULES, config=OFTEN)
    w = case.work("work_ledger", "--seed=4", "--ops=4000", "--pause-at=2000", "--wait-end")
    half = w.next("pause", 30)
    held = {dev["uuid"]: dev["live_bytes"] for dev in half["devices"]}

    def told():
        last = {r.get("GPUXRAY_DEVICE"): r for r in d.records(w.pid, event="sample")}
        return last if all(number(last[u], "BYTES") == n if u in last else n < h.MIB for u, n in held.items()) else None

    last = h.poll(told, 10, lambda: f"samples that say {held}: {[h.show_record(r) for r in d.records(w.pid, event='sample')]}")
    for uuid, r in last.items():
        case.check(number(r, "LOW_BYTES") <= number(r, "BYTES") <= number(r, "HIGH_BYTES"), f"{uuid}: {h.show_record(r)}")
        case.equal(number(r, "LIVE_BYTES"), half["live_bytes"], "what the process holds on all devices")
        case.equal(r["PRIORITY"], "6", "priority")
        case.check("OBJECT_PID" not in r and "GPUXRAY_RULE" not in r, "a sample is no incident")
    first = d.records(w.pid, event="sample")[0]
    case.contains(first.get("GPUXRAY_CMDLINE"), "work_ledger", "command line in the first sample")
    w.go()
    end = w.next("end", 30)
    w.end()
    r = d.wait_record(w.pid, event="process_exit")
    for field, name in (("ALLOC_COUNT", "alloc_count"), ("FREE_COUNT", "free_count"), ("FAIL_COUNT", "fail_count"),
                        ("LIVE_COUNT", "live_count"), ("LIVE_BYTES", "live_bytes"), ("HOST_BYTES", "host_bytes"),
                        ("MANAGED_BYTES", "managed_bytes"), ("START_TIME", "start_time")):
        case.equal(number(r, field), end[name], f"at the end: {field}")
    if end["peak_exact"]:
        case.equal(number(r, "PEAK_BYTES"), end["peak_bytes"], "peak")
    case.check(number(r, "PEAK_BYTES") >= end["live_bytes"], "peak below what was held at the end")
    peaks = {line.split()[0]: line.split() for line in r["GPUXRAY_DEVICE_PEAKS"].split("\n")}
    case.equal(set(peaks), {u for u, n in held.items() if n} | set(peaks), "devices with a peak")
    began, ended = int(first["__REALTIME_TIMESTAMP"]) - 30e6, int(r["__REALTIME_TIMESTAMP"])
    case.check(all(began < int(p[2]) <= ended for p in peaks.values()), f"moments of the peaks: {peaks}")
    case.check(began < number(r, "PEAK_TIME_USEC") <= ended, "moment of the peak")
    case.equal(len(d.records(w.pid, event="process_exit")), 1, "records of the end")
    d.stop()


@h.test("a sample names the call sites that hold most, and their stacks are in the journal")
def sites(case):
    d = case.daemon(rules=NO_RULES, config=OFTEN)
    w = case.work("work_demo", "--seconds=6", "--name=train")
    r = h.poll(lambda: [r for r in d.records(w.pid, event="sample") if r.get("GPUXRAY_TOP_SITES", "-").count("-") == 0 and
                        "GPUXRAY_TOP_SITES" in r], 15, "a sample with sites")[-1]
    ids = [line.split()[0] for line in r["GPUXRAY_TOP_SITES"].split("\n")]
    told = sum(int(line.split()[1]) for line in r["GPUXRAY_TOP_SITES"].split("\n"))
    case.check(0 < told <= number(r, "BYTES"), f"bytes of the sites: {told} of {r['GPUXRAY_BYTES']}")
    for i in ids:
        s = d.wait_record(event="site", stack_id=i)
        case.contains(s["GPUXRAY_STACK"], "cuMemAlloc_v2", f"stack of {i}")
        case.equal(len(d.records(event="site", stack_id=i)), 1, f"how often {i} was told")
    w.kill()
    d.stop()


# Others' failures on the same stand-in device would be told in its place: once in ten seconds.
@h.test("an allocation that fails tells who holds the memory at that moment", exclusive=True)
def holders(case):
    d = case.daemon(rules='version = 1;\nrules = ( { name = "oom"; kind = "alloc_failure"; count = 1; window = "1m"; '
                    'severity = "error"; } );\n', env=BYTES)
    one = case.work("work_lifecycle", "hold", "--bytes=200MiB", "--blocks=1", env=BYTES)
    two = case.work("work_lifecycle", "hold", "--bytes=100MiB", "--blocks=3", env=BYTES)
    for w in (one, two):
        w.next("hold")
        d.wait_record(w.pid, event="sample")
    time.sleep(1)
    before = {w.pid: len(d.records(w.pid, event="sample")) for w in (one, two)}
    # The eleventh does not fit, and it ends as jobs do.
    loser = case.work("work_fill", "--blocks=12", "--bytes=100MiB", "--every=10", env=BYTES)
    loser.wait()
    r = d.wait_record(loser.pid, event="alloc_failure")
    for w, held in ((one, 200), (two, 300)):
        told = h.poll(lambda: d.records(w.pid, event="sample")[before[w.pid]:], 5, "a sample at the failure")
        case.equal(number(told[0], "BYTES"), held * h.MIB, "what it held")
        case.check(abs(number(told[0], "TIME_USEC") - number(r, "TIME_USEC")) < 1000000, "the same moment")
        case.equal(told[0].get("GPUXRAY_DEVICE"), r.get("GPUXRAY_DEVICE"), "the same device")
    own = d.records(loser.pid, event="sample")
    case.check(own and number(own[-1], "HIGH_BYTES") == number(r, "LIVE_BYTES"), "its own sample")
    end = d.wait_record(loser.pid, event="process_exit")
    case.equal(end["GPUXRAY_FAIL_COUNT"], "1", "failures at its end")
    d.stop()


@h.test("nothing moves, nothing is written; off writes none; a stop tells what is new")
def quiet(case):
    d = case.daemon(rules=NO_RULES, config=OFTEN)
    w = case.work("work_lifecycle", "hold", "--bytes=50MiB", "--blocks=1")
    w.next("hold")
    d.wait_record(w.pid, event="sample")
    time.sleep(3.5)
    n = len(d.records(w.pid, event="sample"))
    case.check(n <= 2, f"{n} samples of a process that does nothing")
    time.sleep(2.5)
    case.equal(len(d.records(w.pid, event="sample")), n, "samples after two more intervals")
    limit = next(x for x in d.status()["limits"] if x["name"] == "history_per_minute")
    case.check(limit["max"] == 600 and limit["overflows"] == 0, f"limit: {limit}")
    d.stop()
    off = case.daemon(rules=NO_RULES, config='sample_interval = "off";\n')
    two = case.work("work_lifecycle", "hold", "--bytes=50MiB", "--blocks=1")
    two.next("hold")
    off.wait_process(two.pid)
    time.sleep(1.5)
    two.end()
    off.wait_gone(two.pid)
    off.stop()
    case.equal([r["GPUXRAY_EVENT"] for r in off.records(two.pid)], [], "records without a history")


if __name__ == "__main__":
    h.main()
