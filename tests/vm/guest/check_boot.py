# SPDX-License-Identifier: MIT
"""What boot has brought up, before anything is touched."""
import json
import re

import vm


@vm.test("boot: the enabled unit becomes ready, within its time, and says in one line how it is")
def ready(case):
    p = vm.show("gpuxray", "Type", "StatusText", "TimeoutStartUSec", "ExecMainStartTimestampMonotonic",
                "ActiveEnterTimestampMonotonic", "NRestarts", "UnitFileState")
    took = (int(p["ActiveEnterTimestampMonotonic"]) - int(p["ExecMainStartTimestampMonotonic"])) / 1e6
    case.figure(f"ready {took:.1f} s after its start, of {p['TimeoutStartUSec']}")
    case.equal(p["Type"], "notify", "type")
    case.equal(p["NRestarts"], "0", "restarts")
    case.equal(p["UnitFileState"], "enabled", "state of its file")
    case.check(re.match(r"\d+ processes, .* live, \d+ firing, \d+ lost$", p["StatusText"]), f"status: {p['StatusText']}")
    case.contains(vm.run("systemctl", "status", "gpuxray").stdout, f'Status: "{p["StatusText"][:2]}', "systemctl status")
    bad = vm.run("systemd-analyze", "verify", "gpuxray.service")
    case.equal((bad.returncode, bad.stderr), (0, ""), "systemd-analyze verify")
    case.equal(len(vm.records(event="start")), 1, "start records")


@vm.test("boot: a service ordered after gpuxray is traced from its first allocation")
def early(case):
    w = vm.Work(case, vm.BOOTED)
    ledger = w.said("end")
    vm.wait_books(w, ledger, "since boot")
    ready = int(vm.show("gpuxray", "ActiveEnterTimestampMonotonic"))
    began = int(vm.show(w.unit, "ExecMainStartTimestampMonotonic"))
    case.check(ready <= began, f"it began {(ready - began) / 1e6:.3f} s before gpuxray was ready")
    p = vm.process(w.pid)
    case.equal(p["unit"], "early.service", "unit")
    w.end()


@vm.test("doctor: this host is ready")
def doctor(case):
    r = vm.run("gpuxray", "doctor", "--json", "--library", vm.GPU + "/libcuda.so.1", timeout=240)
    checks = json.loads(r.stdout)["checks"]
    for c in checks:
        if c["result"] != "ok":
            case.figure(f"{c['result']} {c['name']}: {c['text']}")
        case.check(c["result"] != "fail", f"{c['name']}: {c['text']}")
        case.check(c["result"] == "ok" or c["name"] not in ("catalog", "service"), f"{c['name']}: {c['text']}")
    case.equal(r.returncode, 0, "exit status")
    case.check(len(checks) > 8, f"only {len(checks)} checks")
