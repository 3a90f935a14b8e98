#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lives of processes and of libraries: whoever they are and however they came, their books are their own and right."""
import os
import shutil
import signal

import harness as h

RULES = """version = 1;
rules = (
  { name = "quota"; kind = "live_bytes"; scope = "process"; fire_above = "100MiB"; resolve_below = "80MiB"; for = "0s";
    keep_firing_for = "0s"; severity = "critical"; },
  { name = "exit"; kind = "exit"; live_above = "1MiB"; min_runtime = "0s"; budget = "1000/1m"; severity = "notice"; }
);
"""


def live_entries(d):
    """What is left in the kernel, seen through the devices of the status: bytes by uuid."""
    return {dev["uuid"]: dev["live_bytes"] for dev in d.status()["devices"]}


@h.test("exec: the same pid, a new identity, nothing inherited", exclusive=True)
def exec_(case):
    d = case.daemon(rules=RULES)
    w = case.work("work_lifecycle", "exec", "--bytes=120MiB", "--blocks=2")
    before = w.next("exec")
    h.check_books(case, d.wait_process(w.pid), before, "before")
    d.wait_record(w.pid, rule="quota", state="firing")
    w.go()
    after = w.next("exec-again")
    h.check_books(case, d.wait_process(w.pid, lambda p: p["live_count"] == 2), after, "after")
    case.equal(sum(p["pid"] == w.pid for p in d.status()["processes"]), 1, "entries of the pid")
    case.check(d.wait_process(w.pid)["peak_bytes"] == 240 * h.MIB, "the peak is not the new image's own")
    # Firing and resolved of the image that is gone, firing of the new one: two incidents.
    d.wait_record(w.pid, rule="quota", state="firing", count=2)
    rs = d.records(w.pid, rule="quota")
    case.equal([r["GPUXRAY_STATE"] for r in rs], ["firing", "resolved", "firing"], "states")
    case.check(rs[0]["GPUXRAY_INCIDENT"] == rs[1]["GPUXRAY_INCIDENT"] != rs[2]["GPUXRAY_INCIDENT"], "incidents")
    w.end()
    d.stop()


@h.test("a process whose main thread has ended goes on being traced, and ends with its last thread", exclusive=True)
def leader_exit(case):
    d = case.daemon(rules=RULES)
    w = case.work("work_lifecycle", "leader-exit", "--bytes=2MiB", "--blocks=6")
    ledger = w.next("leader-exit")
    h.check_books(case, d.wait_process(w.pid), ledger, "after the end of the main thread")
    case.equal(ledger["live_count"], 7, "blocks of the ledger itself")
    case.equal(d.records(w.pid, rule="exit"), [], "exit records while it lives")
    w.end()
    r = d.wait_record(w.pid, rule="exit")
    case.equal(r["GPUXRAY_LIVE_BYTES"], str(14 * h.MIB), "exit: live bytes")
    d.wait_gone(w.pid)
    d.stop()


@h.test("fork: parent and child have books of their own; a child that may not use the driver leaves no trace",
        exclusive=True)
def fork(case):
    d = case.daemon(rules=RULES)
    w = case.work("work_lifecycle", "fork", "--bytes=1MiB", "--blocks=5")
    parent, child = w.next("fork"), w.next("fork-child")
    h.check_books(case, d.wait_process(parent["pid"]), parent, "parent")
    h.check_books(case, d.wait_process(child["pid"]), child, "child")
    case.equal((parent["live_count"], child["live_count"]), (5, 1), "blocks of the ledgers themselves")
    w.end()
    d.wait_gone(child["pid"])
    d.wait_gone(parent["pid"])

    w = case.work("work_lifecycle", "fork-after", "--bytes=1MiB", "--blocks=5")
    child, parent = w.next("fork-after-child"), w.next("fork-after")
    h.check_books(case, d.wait_process(w.pid), parent, "parent that forked with memory held")
    case.equal(child["error"], 3, "error in the child")
    d.wait_gone(child["pid"])
    w.end()
    d.stop()


@h.test("killed with -9: the exit is told with what it held, and the kernel's books of it are cleared", exclusive=True)
def crash(case):
    d = case.daemon(rules=RULES)
    before = live_entries(d)
    w = case.work("work_lifecycle", "crash", "--bytes=32MiB", "--blocks=4")
    ledger = w.next("crash")
    h.check_books(case, d.wait_process(w.pid), ledger, "before")
    d.wait_record(w.pid, rule="quota", state="firing")
    w.go()
    case.equal(w.wait(), -signal.SIGKILL, "exit status")
    r = d.wait_record(w.pid, rule="exit")
    case.equal(r["GPUXRAY_LIVE_BYTES"], str(128 * h.MIB), "exit: live bytes")
    case.equal(r["PRIORITY"], "5", "exit: PRIORITY")
    case.check("OBJECT_PID" not in r, "exit: OBJECT_PID of a dead process")
    d.wait_record(w.pid, rule="quota", state="resolved")
    d.wait_gone(w.pid)
    uuid = ledger["devices"][0]["uuid"]
    h.poll(lambda: live_entries(d).get(uuid, 0) < 128 * h.MIB + before.get(uuid, 0), 10, "the device's bytes go down")
    d.stop()


@h.test("an orphan is traced on, and known by its program and its start", exclusive=True)
def orphan(case):
    d = case.daemon()
    w = case.work("work_lifecycle", "orphan", "--bytes=120MiB", "--blocks=1")
    child = w.next("orphan-child")
    case.equal(w.wait(), -signal.SIGKILL, "exit status of the parent")
    h.check_books(case, d.wait_process(child["pid"]), child, "orphan")
    r = d.wait_record(child["pid"], rule="quota", state="firing")
    case.equal(r["GPUXRAY_EXE"], h.FAKE + "/work_lifecycle", "exe")
    case.equal(r["GPUXRAY_START_TIME"], str(child["start_time"]), "start time")
    # It renames itself right after its first call: either name may have been met.
    case.check(r["GPUXRAY_COMM"] in ("kworker/0:1", "work_lifecycle"), f"comm: {r['GPUXRAY_COMM']}")
    w.go()
    d.wait_gone(child["pid"])
    d.stop()


@h.test("a process from before the daemon: its old blocks are unknown frees, all since then is right", host=True)
def before_daemon(case):
    w = case.work("work_rate", "--seconds=6", "--rate=200", "--live=64", "--bytes=1MiB", "--wait-end", "--ledger")
    h.poll(lambda: os.path.exists(case.path("gpu-state")), 5, "the workload has begun")
    d = case.daemon(config="nvml_interval = \"1s\";")
    ledger = w.next("end")
    p = d.wait_process(w.pid)
    # Each pair frees the oldest block: those from before went first, and all that it holds now was seen.
    case.check(p["unknown_free_count"] in (63, 64), f"unknown frees: {p['unknown_free_count']}")
    case.equal((p["live_bytes"], p["live_count"]), (ledger["live_bytes"], 64), "live")
    case.check(100 < p["alloc_count"] < ledger["alloc_count"], f"allocations seen: {p['alloc_count']}")
    case.equal(p["alloc_count"] - p["free_count"], 64, "allocations less frees")
    case.equal(p["exact"], True, "exact")
    # On which device it works was told before the daemon came. The driver lists it on one only.
    uuid = ledger["devices"][0]["uuid"]
    d.wait_process(w.pid, lambda p: [dev["uuid"] for dev in p["devices"]] == [uuid], 5, f"on {uuid}")
    w.end()
    d.wait_gone(w.pid)
    d.stop()


@h.test("a process from before the daemon that uses every call: nothing of it is counted twice or below zero")
def ledger_before_daemon(case):
    w = case.work("work_ledger", "--seed=5", "--ops=6000", "--pause-at=3000", "--wait-end")
    early = w.next("pause")
    d = case.daemon()
    before = d.process(w.pid)  # there by the driver's word alone, or not yet
    case.equal(before and (before["covered"], before["alloc_count"]), before and (False, 0),
               "entry of a process that has not called the driver yet")
    w.go()
    late = w.next("end")
    p = d.wait_process(w.pid)
    case.equal(p["alloc_count"], late["alloc_count"] - early["alloc_count"], "allocations seen")
    case.equal(p["fail_count"], late["fail_count"] - early["fail_count"], "failures seen")
    case.check(p["unknown_free_count"] > 20, f"unknown frees: {p['unknown_free_count']}")
    case.equal(p["live_count"], p["alloc_count"] - p["free_count"], "live blocks")
    case.check(p["live_count"] < late["live_count"] and p["live_bytes"] < late["live_bytes"],
               f"more is live than the process holds: {p}, {late}")
    w.end()
    d.wait_gone(w.pid)
    d.stop()


@h.test("a process that held memory before the daemon came is not charged for it when it frees")
def held_before(case):
    w = case.work("work_lifecycle", "reset", "--blocks=4", "--bytes=2MiB")
    w.next("reset-before")
    d = case.daemon()
    w.go()
    w.next("reset")
    p = d.process(w.pid)
    if p:
        case.equal((p["live_bytes"], p["live_count"], p["alloc_count"]), (0, 0, 0), "books")
    w.end()
    d.stop()


@h.test("a thread whose context was set before the daemon came: its device is learned, and no call is missed afterwards")
def query_before(case):
    w = case.work("work_lifecycle", "query", "--rounds=6000", "--blocks=5", "--bytes=2MiB")
    w.next("query-before")
    d = case.daemon(config="nvml_interval = \"1s\";")
    ledger = w.next("query")
    p = d.wait_process(w.pid)
    case.equal((p["live_bytes"], p["live_count"], p["alloc_count"]), (10 * h.MIB, 5, 5), "books")
    calls = d.status()["calls"]
    case.check(calls.get("cuCtxGetDevice_v2", 0) > 100, f"the teacher was heard: {calls}")
    uuid = ledger["devices"][1]["uuid"]
    d.wait_process(w.pid, lambda p: {dev["uuid"]: dev["live_bytes"] for dev in p["devices"]}.get(uuid) == 10 * h.MIB, 5,
                   f"on {uuid}")
    w.end()
    d.stop()


# ---- libraries


def copy_library(case, name):
    path = case.path(name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    shutil.copy2(h.LIBCUDA, path)
    return path


def wait_probed(d, path, seconds=5):
    def look():
        found = [lib for lib in d.status()["libraries"] if lib["path"] == path]
        return found and found[0]

    return h.poll(look, seconds, lambda: f"{path} among {[lib['path'] for lib in d.status()['libraries']]}")


@h.test("a library that appears while the daemon runs is probed in time: opened late, and a second copy of it")
def late(case):
    first, second = copy_library(case, "a/libcuda.so.1"), copy_library(case, "b c/libcuda.so.560.35.03")
    d = case.daemon(library=None)
    w = case.work("work_late", first, f"--second={second}", "--sleep=100", "--blocks=3", "--bytes=5MiB", "--wait-end")
    one, two = w.next("late"), w.next("second")
    p = d.wait_process(w.pid)
    case.equal(p["alloc_count"], 6, "allocations of both copies")
    case.equal(one["live_bytes"], two["live_bytes"], "the ledgers themselves")
    # The stand-in's copies hand out the same addresses, and an address has one block.
    case.equal((p["live_bytes"], p["live_count"]), (two["live_bytes"], 3), "live")
    for path in (first, second):
        lib = wait_probed(d, path)
        case.check(lib["error"] is None and lib["calls_found"] > 30, f"{path}: {lib}")
    w.end()
    d.wait_gone(w.pid)
    d.stop()


@h.test("a library that was deleted while it is mapped is probed")
def deleted(case):
    path = copy_library(case, "libcuda.so.1")
    w = case.work("work_late", path, "--sleep=0", "--unlink", "--wait-start", "--wait-end", "--blocks=4", "--bytes=1MiB")
    w.next("ready")
    d = case.daemon(library=None)
    w.go()
    ledger = w.next("late")
    p = d.wait_process(w.pid)
    case.equal((p["live_bytes"], p["live_count"]), (ledger["live_bytes"], 4), "deleted after it was opened")
    w.end()
    d.stop()

    # And one that was gone before the daemon came.
    path = copy_library(case, "libcuda.so.1")
    w = case.work("work_ledger", "--ops=600", "--pause-at=300", "--wait-end",
                  env={"LD_LIBRARY_PATH": os.path.dirname(path), "LD_PRELOAD": path})
    early = w.next("pause")
    os.unlink(path)
    d = case.daemon(library=None)
    w.go()
    late_ = w.next("end")
    p = d.wait_process(w.pid)
    case.equal(p["alloc_count"], late_["alloc_count"] - early["alloc_count"], "deleted before the daemon came: allocations")
    w.end()
    d.stop()


@h.test("a library replaced on disk: old and new file are both probed")
def replaced(case):
    path = copy_library(case, "libcuda.so.1")
    d = case.daemon(library=None)
    old = case.work("work_late", path, "--sleep=0", "--wait-end", "--blocks=2")
    ledger = old.next("late")
    shutil.copy2(h.LIBCUDA, path + ".new")
    os.rename(path + ".new", path)
    new = case.work("work_late", path, "--sleep=0", "--wait-end", "--blocks=3")
    for w, what in ((old, ledger), (new, new.next("late"))):
        p = d.wait_process(w.pid)
        case.equal((p["live_bytes"], p["live_count"]), (what["live_bytes"], what["live_count"]), f"{w.name}: books")
    case.equal(sum(lib["path"] == path for lib in d.status()["libraries"]), 2, "files probed under that path")
    old.end()
    new.end()
    d.stop()


@h.test("a library in another mount namespace, at a path that is another file here")
def other_namespace(case):
    path = copy_library(case, "lib/libcuda.so.1")
    hidden = copy_library(case, "hidden/libcuda.so.1")
    # In its own view the file at path is the hidden copy; here path is no library at all.
    wrap = h.in_namespace(f"mount --bind '{hidden}' '{path}'")
    d = case.daemon(library=None)
    w = case.work("work_late", path, "--sleep=300", "--blocks=3", "--bytes=2MiB", "--wait-end", wrap=wrap)
    h.poll(lambda: os.readlink(f"/proc/{w.pid}/exe").endswith("/work_late"), 5, "the workload runs")
    os.truncate(path, 0)
    ledger = w.next("late")
    p = d.wait_process(w.pid)
    case.equal((p["live_bytes"], p["live_count"], p["alloc_count"]), (ledger["live_bytes"], 3, 3), "books")
    w.end()
    d.wait_gone(w.pid)
    d.stop()


@h.test("a library on a file system that only the process sees, with the program itself in it")
def container(case):
    root = case.path("root")
    os.makedirs(root)
    wrap = h.in_namespace(f"mount -t tmpfs tmpfs '{root}'", f"cp -a {h.FAKE} '{root}/'")
    d = case.daemon(library=None)
    # The probes come while the program waits: its own start is no race.
    w = case.work("work_lifecycle", "hold", "--wait-start", "--blocks=4", "--bytes=30MiB", wrap=wrap, fake=root + "/fake")
    w.next("ready")
    wait_probed(d, root + "/fake/libcuda.so.1")
    case.check(not os.path.exists(root + "/fake"), "the file system is seen from here: the test proves nothing")
    w.go()
    ledger = w.next("hold")
    h.check_books(case, d.wait_process(w.pid), ledger, "books")
    r = d.wait_record(w.pid, rule="quota", state="firing")
    case.equal(r["GPUXRAY_EXE"], root + "/fake/work_lifecycle", "exe")
    case.contains(r.get("GPUXRAY_STACK"), "allocate+0x", "stack, from files that only the process sees")
    w.end()
    d.wait_gone(w.pid)
    d.stop()


@h.test("several copies in one tree of processes, each its own")
def tree(case):
    paths = [copy_library(case, f"{i}/libcuda.so.1") for i in range(3)]
    d = case.daemon(library=None)
    script = " & ".join(f"{h.FAKE}/work_late '{p}' --sleep=0 --blocks={i + 1} --bytes=1MiB --wait-end <&3"
                        for i, p in enumerate(paths))
    w = case.work("work_late", paths[0], "--sleep=0", "--blocks=9", "--bytes=1MiB", "--wait-end",
                  wrap=["sh", "-c", f'exec 3<&0; {script} & exec "$@"', "sh"])
    said = [w.next("late") for _ in range(4)]
    for ledger in said:
        p = d.wait_process(ledger["pid"])
        case.equal((p["live_bytes"], p["live_count"]), (ledger["live_bytes"], ledger["live_count"]),
                   f"process with {ledger['live_count']} blocks")
    case.equal(sorted(ledger["live_count"] for ledger in said), [1, 2, 3, 9], "blocks of the ledgers themselves")
    case.equal(sum(lib["path"] in paths for lib in d.status()["libraries"]), 3, "libraries probed")
    w.p.stdin.close()
    for ledger in said:
        d.wait_gone(ledger["pid"])
    d.stop()


@h.test("containers of one image see the library through an overlay each: probed once, each call counted once")
def overlays(case):
    path = copy_library(case, "image/libcuda.so.1")
    lower = os.path.dirname(path)
    empty, merged = case.dir + "/empty", case.dir + "/merged"
    os.mkdir(empty)
    os.mkdir(merged)
    d = case.daemon(library=None)
    wrap = h.in_namespace(f"mount -t overlay image -o 'lowerdir={lower}:{empty}' '{merged}'")
    ws = [case.work("work_late", merged + "/libcuda.so.1", "--sleep=0", f"--blocks={i + 1}", "--bytes=1MiB", "--wait-end",
                    wrap=wrap) for i in range(3)]
    for i, w in enumerate(ws):
        ledger = w.next("late")
        p = d.wait_process(ledger["pid"])
        case.equal((p["live_bytes"], p["live_count"]), (ledger["live_bytes"], i + 1), f"process with {i + 1} blocks")
    status = d.status()
    case.equal(sum(lib["path"] == merged + "/libcuda.so.1" for lib in status["libraries"]), 1, "libraries probed")
    case.equal(status["counters"]["returns_missed"], 0, "calls entered twice")
    for w in ws:
        w.end()
    d.stop()


@h.test("--pid traces only those processes")
def pid_filter(case):
    ws = [case.work("work_lifecycle", "hold", "--wait-start", "--blocks=2", "--bytes=120MiB") for _ in range(3)]
    for w in ws:
        w.next("ready")
    d = case.daemon(f"--pid={ws[0].pid}", f"--pid={ws[2].pid}")
    for w in ws:
        w.go()
    said = [w.next("hold") for w in ws]
    for i in (0, 2):
        h.check_books(case, d.wait_process(ws[i].pid), said[i], f"process {i}")
        d.wait_record(ws[i].pid, rule="quota", state="firing")
    case.equal(sorted(p["pid"] for p in d.status()["processes"]), sorted((ws[0].pid, ws[2].pid)), "processes in the status")
    case.equal(d.records(ws[1].pid), [], "records of the process that was not asked for")
    for w in ws:
        w.end()
    d.stop()


@h.test("processes that come and go by the hundred leave nothing behind")
def churn(case):
    d = case.daemon(rules=RULES)
    before = len(d.status()["processes"])
    pids = []
    for _ in range(10):
        ws = [case.work("work_lifecycle", "churn", "--rounds=3", "--bytes=2MiB") for _ in range(20)]
        for w in ws:
            pids.append(w.pid)
            w.next("churn")
            w.end()
    h.poll(lambda: not {p["pid"] for p in d.status()["processes"]} & set(pids), 10, "all of them leave the status")
    told = {r["GPUXRAY_PID"] for r in d.records(rule="exit")}
    case.equal(len(told & {str(p) for p in pids}), len(set(pids)), "exits told, each with its 2 MiB")
    s = d.status()
    case.equal(s["counters"]["process_map_full"], 0, "process_map_full")
    case.check(len(s["processes"]) <= before + 5, f"{len(s['processes'])} processes left, {before} before")
    d.stop()


if __name__ == "__main__":
    h.main()
