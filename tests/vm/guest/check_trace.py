# SPDX-License-Identifier: MIT
"""Records under the unit that they are about, and what the commands say of it."""
import json

import vm


@vm.test("an incident of train.service: in the journal of both units, with the unit's name, and in its status")
def incident(case):
    w = vm.Work.start(case, "train", "work_lifecycle", "hold", "--bytes=60MiB", "--blocks=2")
    ledger = w.said("hold")
    vm.wait_books(w, ledger, "train.service")
    r = vm.wait_record(pid=w.pid, rule="quota", state="firing")
    case.equal(r["GPUXRAY_UNIT"], "train.service", "GPUXRAY_UNIT")
    case.equal(r["GPUXRAY_COMM"], "work_lifecycle", "GPUXRAY_COMM")
    case.equal(r["GPUXRAY_VALUE"], str(ledger["live_bytes"]), "GPUXRAY_VALUE")
    case.equal(r.get("OBJECT_SYSTEMD_UNIT"), "train.service", "OBJECT_SYSTEMD_UNIT")
    case.equal(r["_SYSTEMD_UNIT"], "gpuxray.service", "_SYSTEMD_UNIT")
    case.contains(r.get("GPUXRAY_STACK", ""), "work_lifecycle", "stack")
    head = r["MESSAGE"].split("\n")[0]
    case.contains(head, "over 100 MiB (rule quota)", "message")
    case.contains(vm.run("journalctl", "--no-pager", "-t", "gpuxray").stdout, head, "journalctl -t gpuxray")
    case.contains(vm.run("journalctl", "--no-pager", "-u", "train.service").stdout, head, "journalctl -u train.service")
    case.contains(vm.run("systemctl", "status", "-l", "--no-pager", "train.service").stdout, head, "systemctl status train")
    case.contains(vm.run("journalctl", "-x", "--no-pager", f"GPUXRAY_INCIDENT={r['GPUXRAY_INCIDENT']}").stdout, "What to do",
                  "journalctl -x")
    w.end()
    gone = vm.wait_record(pid=r["GPUXRAY_PID"], rule="quota", state="resolved")
    case.equal(gone["GPUXRAY_INCIDENT"], r["GPUXRAY_INCIDENT"], "incident of the end")
    report = vm.must("gpuxray", "report", "--since", "-1h", "-u", "train.service")
    case.contains(report, "work_lifecycle", "report")


@vm.test("memtrace, top and mon ask the daemon and say what the ledger says")
def live(case):
    w = vm.Work.start(case, "train", "work_ledger", "--seed=11", "--ops=600", "--wait-end")
    ledger = w.said("end")
    vm.wait_books(w, ledger, "train.service")
    pid = w.pid
    looks = [json.loads(line) for line in vm.must("gpuxray", "memtrace", "-u", "train", "-n", "2", "--json").splitlines()]
    case.equal([(x["pid"], x["live_bytes"]) for x in looks if "live_bytes" in x], [(pid, ledger["live_bytes"])] * 2,
               "memtrace --json")
    case.contains(vm.must("gpuxray", "memtrace", "-p", pid, "-n", "2"), str(pid), "memtrace")
    case.contains(vm.must("gpuxray", "top", "--once"), str(pid), "top --once")
    once = json.loads(vm.must("gpuxray", "top", "--once", "--json"))
    mine = [p for p in once["processes"] if p["pid"] == pid]
    case.equal([p["live_bytes"] for p in mine], [ledger["live_bytes"]], "top --json")
    text = vm.must("gpuxray", "mon", "--once")
    case.check(any(f'pid="{pid}"' in line for line in text.splitlines()), "mon: no series of the process")
    w.end()
