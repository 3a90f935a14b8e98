# SPDX-License-Identifier: MIT
"""Last, about all that went before: in this machine a call that the unit's filter denies ends the daemon."""
import vm


@vm.test("no system call of the daemon was denied in all of this, and none of its processes broke down")
def denied(case):
    case.equal(vm.denied_calls(), [], "denied calls in the kernel's log")
    log = vm.log_of("gpuxray.service")
    for line in log.splitlines():
        case.check("status=31/SYS" not in line and "status=11/SEGV" not in line, line)
    case.contains(vm.show("gpuxray", "DropInPaths"), "kill-denied.conf", "drop-ins")
    # And that one would be seen.
    vm.run("systemd-run", "--quiet", "--wait", "--collect", "--property=SystemCallFilter=~mkdir mkdirat",
           "--property=SystemCallErrorNumber=kill", "mkdir", "/run/gpuxray-vm/denied")
    vm.poll(vm.denied_calls, 20, "a call denied on purpose in the kernel's log")


@vm.test("the report of all of this, in which every record makes sense")
def report(case):
    text = vm.must("gpuxray", "report", "--since", "-1d", timeout=120)
    case.check("make no sense" not in text and "makes no sense" not in text, f"report: {text[-300:]}")


@vm.test("stop: within its time, cleanly")
def stop(case):
    began = vm.time.monotonic()
    vm.must("systemctl", "stop", "gpuxray", timeout=180)
    case.figure(f"{vm.time.monotonic() - began:.1f} s, of {vm.show('gpuxray', 'TimeoutStopUSec')}")
    case.equal(vm.show("gpuxray", "ActiveState", "Result"), {"ActiveState": "inactive", "Result": "success"}, "state")
    case.equal(vm.show("gpuxray", "NFileDescriptorStore"), "0", "descriptors kept after a stop")
