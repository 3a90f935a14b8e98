# SPDX-License-Identifier: MIT
"""systemctl reload."""
import vm

LOWER = """version = 1;
rules = (
  { name = "quota"; kind = "live_bytes"; scope = "process"; fire_above = "20MiB"; resolve_below = "10MiB"; for = "0s";
    keep_firing_for = "0s"; severity = "critical"; },
  { name = "added"; kind = "live_bytes"; scope = "unit"; fire_above = "25MiB"; for = "0s"; severity = "warning"; }
);
"""
BAD = 'version = 1;\nrules = (\n  { name = "quota"; kind = "live_bytes"; scope = "process"; fire_abov = "20MiB"; }\n);\n'


@vm.test("reload: new rules are in force when systemctl returns or soon after; what is traced stays traced")
def reload(case):
    w = vm.Work.start(case, "train", "work_lifecycle", "hold", "--bytes=15MiB", "--blocks=2")
    ledger = w.said("hold")
    vm.wait_books(w, ledger, "before")
    pid = vm.main_pid()
    with open(vm.RULES) as f:
        was = f.read()
    case.finally_(vm.must, "systemctl", "reload", "gpuxray")
    case.finally_(vm.write, vm.RULES, was)
    vm.write(vm.RULES, LOWER)
    vm.must("systemctl", "reload", "gpuxray")
    for rule in ("quota", "added"):
        r = vm.wait_record(rule=rule, state="firing", unit="train.service")
        case.equal(r["GPUXRAY_VALUE"], str(ledger["live_bytes"]), f"value of {rule}")
    case.equal(vm.main_pid(), pid, "process of the daemon")
    case.equal(vm.show("gpuxray", "ActiveState"), "active", "state")
    w.end()


@vm.test("reload: bad rules are refused, which the unit's status says with file and line; the old ones stay")
def refused(case):
    with open(vm.RULES) as f:
        was = f.read()
    case.finally_(vm.must, "systemctl", "reload", "gpuxray")
    case.finally_(vm.write, vm.RULES, was)
    vm.write(vm.RULES, BAD)
    since = vm.now()
    vm.must("systemctl", "reload", "gpuxray")
    vm.poll(lambda: vm.show("gpuxray", "StatusText").startswith(f"Reload refused: {vm.RULES}:3: "), 8,
            lambda: f"status: {vm.show('gpuxray', 'StatusText')}")
    case.contains(vm.log_of("gpuxray", since), f"{vm.RULES}:3: unknown key \"fire_abov\"", "log")
    w = vm.Work.start(case, "train", "work_lifecycle", "hold", "--bytes=60MiB", "--blocks=2")
    w.said("hold")
    vm.wait_record(pid=w.pid, rule="quota", state="firing")
    w.end()
    vm.poll(lambda: vm.time.time() > float(since[1:]) + 15, 15, "the time that a status lasts")
    case.contains(vm.show("gpuxray", "StatusText"), "Reload refused", "status, 15 s later")
