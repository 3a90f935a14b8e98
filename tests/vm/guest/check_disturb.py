# SPDX-License-Identifier: MIT
"""What goes wrong around the daemon: the journal, its disk, the clock."""
import os
import re
import subprocess
import time

import vm

JOURNAL = "/var/log/journal"
HOUR = 3600
RELOADS = 40  # each is a record of the daemon
OTHERS_MAX = 30  # records of health and history in the time that they take


def hold(case, unit):
    w = vm.Work.start(case, unit, "work_lifecycle", "hold", "--bytes=60MiB", "--blocks=2")
    w.said("hold")
    return w


@vm.test("journald is restarted, and stopped for a while: every record is there afterwards, once", "6.12")
def journald(case):
    dropped = vm.status()["records"]["dropped"]
    before = hold(case, "before")
    restart = subprocess.Popen(["systemctl", "restart", "systemd-journald"])
    during = hold(case, "during")
    restart.wait(60)
    vm.must("systemctl", "kill", "--signal=STOP", "systemd-journald")
    stopped = hold(case, "stopped")
    time.sleep(2)
    vm.must("systemctl", "kill", "--signal=CONT", "systemd-journald")
    after = hold(case, "after")
    for w in (before, during, stopped, after):
        pid = w.pid
        vm.wait_record(pid=pid, rule="quota", state="firing")
        w.end()
        vm.wait_record(pid=pid, rule="quota", state="resolved")
        case.equal(len(vm.records(pid=pid, rule="quota", state="firing")), 1, f"firing records of {w.unit}")
    case.equal(vm.status()["records"]["dropped"], dropped, "dropped")


def is_firing(pid):
    return any(x["name"] == "quota" and x["state"] == "firing" and x["pid"] == pid for x in vm.status()["rules"])


def fill(path):
    """Takes the room that is left, to the last byte."""
    with open(path, "ab", buffering=0) as f:
        for n in (1 << 16, 1 << 12, 1):
            try:
                while f.write(b"x" * n) == n:
                    pass
            except OSError:
                pass


def say(text):
    """A message to the journal, and whether it took it."""
    subprocess.run(["systemd-cat", "-t", "gpuxray-vm"], input=text, text=True, check=False)
    vm.run("journalctl", "--sync")
    return text in vm.run("journalctl", "-o", "cat", "--no-pager", "-t", "gpuxray-vm").stdout


def small_disk(case):
    """A disk of its own for the journal, of which a few hundred lines take all."""
    machine = open("/etc/machine-id").read().strip()
    vm.must("mount", "-t", "tmpfs", "-o", "size=4M", "tmpfs", JOURNAL)

    def undo():
        vm.must("systemctl", "stop", "systemd-journald.socket", "systemd-journald-dev-log.socket", "systemd-journald")
        vm.must("umount", JOURNAL)
        vm.must("systemctl", "start", "systemd-journald")

    case.finally_(undo)
    os.makedirs(f"{JOURNAL}/{machine}")
    vm.must("systemctl", "restart", "systemd-journald")
    vm.must("journalctl", "--flush")
    return f"{JOURNAL}/{machine}"


@vm.test("the journal's disk is full: the daemon goes on, and its records are in what journald keeps in memory then", "6.12")
def full(case):
    folder = small_disk(case)
    case.check(say("there is room"), "journald does not write to its new disk")
    case.check(os.listdir(folder), "no file on the new disk")
    fill(JOURNAL + "/filler")
    pid = vm.main_pid()
    noise = "y" * 4000 + "\n"
    end = time.monotonic() + 90
    while "No space left" not in vm.run("dmesg").stdout:
        subprocess.run(["systemd-cat", "-t", "noise"], input=noise * 40, text=True, check=False)
        fill(JOURNAL + "/filler")
        if time.monotonic() > end:
            raise vm.Failure(f"the disk never got full for journald: {os.listdir(folder)}")
    w = hold(case, "train")
    began = time.monotonic()
    vm.poll(lambda: is_firing(w.pid), 60, "the incident in the status")
    case.figure(f"in the status after {time.monotonic() - began:.1f} s")
    vm.wait_record(pid=w.pid, rule="quota", state="firing")
    case.equal(vm.main_pid(), pid, "process of the daemon")
    w.end()


@vm.test("journald's own limit drops records: the report tells how many are missing", "6.12")
def limited(case):
    conf = "/etc/systemd/journald.conf.d/limit.conf"

    def undo():
        os.unlink(conf)
        vm.must("systemctl", "restart", "systemd-journald")

    vm.write(conf, "[Journal]\nRateLimitIntervalSec=15s\nRateLimitBurst=3\n")
    case.finally_(undo)
    vm.must("systemctl", "restart", "systemd-journald")
    before = len(vm.records(event="reload"))
    for _ in range(RELOADS):
        vm.must("systemctl", "reload", "gpuxray")
    began = time.time() * 1e6
    time.sleep(20)
    vm.poll(lambda: any(int(r["__REALTIME_TIMESTAMP"]) > began + 18e6 for r in vm.records(event="health")), 90,
            "a health record after the limit's time")
    report = vm.run("gpuxray", "report", "--since", "-10m").stdout
    missing = sum(map(int, re.findall(r" to .* (\d+) records? written and not in the\s+journal", report)))
    # How many journald took depends on how long the reloads took; each wrote one, and others came between.
    dropped = RELOADS - (len(vm.records(event="reload")) - before)
    case.figure(f"{missing} records missing, {dropped} of {RELOADS} reloads among them")
    case.check(dropped > 0 and dropped <= missing <= dropped + OTHERS_MAX,
               f"records that are missing: {missing}, of reloads {dropped}; {report[-600:]}")


@vm.test("the clock jumps an hour forth and back: no record but what there is to say, and its times are the new ones", "6.12")
def clock(case):
    w = hold(case, "train")
    pid = w.pid
    fired = vm.wait_record(pid=pid, rule="quota", state="firing")
    offset = 0

    def set_clock(seconds):
        nonlocal offset
        offset += seconds
        time.clock_settime(time.CLOCK_REALTIME, time.time() + seconds)

    case.finally_(lambda: set_clock(-offset))
    count = len(vm.journal("GPUXRAY_RULE=quota"))
    for seconds in (HOUR, -HOUR):
        set_clock(seconds)
        began = time.time()
        time.sleep(12)
        health = [r for r in vm.records(event="health") if abs(float(r["GPUXRAY_TIME_USEC"]) / 1e6 - began) < 60 and
                  float(r["GPUXRAY_TIME_USEC"]) / 1e6 > began]
        case.check(health, f"after {seconds} s: no health record with the new time")
        case.check(is_firing(pid), f"after {seconds} s: it does not fire any more")
        case.equal(len(vm.journal("GPUXRAY_RULE=quota")), count, f"after {seconds} s: records of the rule")
    w.end()
    r = vm.wait_record(pid=pid, rule="quota", state="resolved")
    case.equal(r["GPUXRAY_INCIDENT"], fired["GPUXRAY_INCIDENT"], "incident")
    took = float(r["GPUXRAY_DURATION_SEC"]) if "GPUXRAY_DURATION_SEC" in r else None
    case.figure(f"duration that the record tells: {took}")
    case.check(took is None or took < 600, f"duration {took}")
    report = vm.run("gpuxray", "report", "--since", "-2h").stdout
    for line in report.splitlines():
        if "no daemon" in line or "slept" in line:
            case.figure(line.strip())
