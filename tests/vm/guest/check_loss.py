# SPDX-License-Identifier: MIT
"""The daemon goes and comes back, by the hand of the service manager."""
import os
import re
import signal
import time

import vm

KEPT = r"(\d+) process(es)? and their books kept from before the restart"
NOT_KNOWN = "memory allocated before now is not known"


def start_message(pid):
    return vm.poll(lambda: vm.journal(f"_PID={pid}", "GPUXRAY_EVENT=start"), 60, f"start record of {pid}")[-1]["MESSAGE"]


def check_kept(case):
    message = start_message(vm.main_pid())
    case.check(re.search(KEPT, message), f"start record: {message}")


class Watched:
    """A unit that holds over the limit, and one that works on and on: what a restart may not disturb."""

    def __init__(self, case):
        self.case = case
        self.holds = vm.Work.start(case, "train", "work_lifecycle", "hold", "--bytes=60MiB", "--blocks=2")
        self.ledger = self.holds.said("hold")
        self.fired = vm.wait_record(pid=self.holds.pid, rule="quota", state="firing")
        self.rate = vm.Work.start(case, "rate", "work_rate", "--seconds=12", "--rate=40", "--live=10", "--bytes=1MiB", "--depth=6",
                                  "--sites=4", "--wait-end", "--ledger")
        vm.poll(lambda: (vm.process(self.rate.pid) or {}).get("alloc_count", 0) > 5, 60, "rate.service at work")

    def settle(self):
        """Books of both are exact, the incident goes on under its id."""
        vm.wait_books(self.holds, self.ledger, "after the restart")
        r = vm.wait_record(pid=self.holds.pid, rule="quota", state="repeat")
        self.case.equal(r["GPUXRAY_INCIDENT"], self.fired["GPUXRAY_INCIDENT"], "incident")
        self.case.equal(len(vm.records(pid=self.holds.pid, rule="quota", state="firing")), 1, "firing records")
        self.case.equal(r.get("GPUXRAY_STACK"), self.fired["GPUXRAY_STACK"], "its stack")
        vm.wait_books(self.rate, self.rate.said("end", 120), "at work meanwhile")
        self.case.equal(vm.status()["exact"], True, "exact")
        self.rate.end()
        self.holds.end()
        r = vm.wait_record(pid=r["GPUXRAY_PID"], rule="quota", state="resolved")
        self.case.equal(r["GPUXRAY_INCIDENT"], self.fired["GPUXRAY_INCIDENT"], "incident at the end")


@vm.test("restart of the unit under load: books exact, the incident goes on under its id", "6.12")
def restart(case):
    w = Watched(case)
    stored = int(vm.show("gpuxray", "NFileDescriptorStore"))
    took = vm.restart()
    case.figure(f"{stored} descriptors kept, restart took {took:.1f} s")
    case.check(stored > 10, f"{stored} descriptors in the store")
    check_kept(case)
    w.settle()


@vm.test("kill -9: back by Restart=, books exact, the incident goes on under its id", "6.12")
def killed(case):
    w = Watched(case)
    pid = vm.main_pid()
    os.kill(pid, signal.SIGKILL)
    vm.wait_restarted(pid)
    check_kept(case)
    w.settle()


@vm.test("a daemon that hangs: the watchdog ends it within its time, it comes back, and the books are right", "6.12")
def hung(case):
    w = Watched(case)
    pid = vm.main_pid()
    began = time.monotonic()
    os.kill(pid, signal.SIGSTOP)
    vm.wait_restarted(pid, 120)
    case.figure(f"back {time.monotonic() - began:.0f} s after it was stopped, WatchdogSec is {vm.show('gpuxray', 'WatchdogUSec')}")
    case.contains(vm.log_of("gpuxray"), "Watchdog timeout", "log")
    check_kept(case)
    w.settle()


@vm.test("restart of the unit: where nothing can be kept it says so, and an old incident is resolved under its id", "6.1")
def afresh(case):
    w = vm.Work.start(case, "train", "work_lifecycle", "hold", "--bytes=60MiB", "--blocks=2")
    w.said("hold")
    fired = vm.wait_record(pid=w.pid, rule="quota", state="firing")
    pid = w.pid
    took = vm.restart()
    case.figure(f"restart took {took:.1f} s, TimeoutStopSec is {vm.show('gpuxray', 'TimeoutStopUSec')}")
    case.contains(start_message(vm.main_pid()), NOT_KNOWN, "start record")
    w.end()
    r = vm.wait_record(pid=pid, rule="quota", state="resolved")
    case.equal(r["GPUXRAY_INCIDENT"], fired["GPUXRAY_INCIDENT"], "incident")


@vm.test("kill -9: back by Restart=, and it traces", "6.1")
def killed_afresh(case):
    pid = vm.main_pid()
    os.kill(pid, signal.SIGKILL)
    vm.wait_restarted(pid)
    w = vm.Work.start(case, "train", "work_ledger", "--seed=5", "--ops=300", "--wait-end")
    vm.wait_books(w, w.said("end"), "after it came back")
    w.end()
