# SPDX-License-Identifier: MIT
"""What the unit allows, what its drop-ins add, and its memory limit."""
import os
import re
import socket
import threading
import urllib.request

import vm

CONTRIB = "/usr/lib/gpuxray-vm/contrib"
EXPOSURE_MAX = 3.0
ELSEWHERE = "10.9.9.1"  # an address of this machine that is not local
NODE_EXPORTER = "/var/lib/prometheus/node-exporter"
SYSLOG_PORT = 6010


@vm.test("systemd-analyze security: exposure")
def exposure(case):
    out = vm.run("systemd-analyze", "security", "--no-pager", "gpuxray.service").stdout
    m = re.search(r"Overall exposure level for gpuxray.service: ([0-9.]+)", out)
    case.check(m, f"no level in {out[-200:]}")
    case.figure(f"exposure {m[1]}")
    case.check(float(m[1]) <= EXPOSURE_MAX, f"exposure {m[1]}, more than {EXPOSURE_MAX}")


def scrape(host, seconds):
    with urllib.request.urlopen(f"http://{host}:2112/metrics", timeout=seconds) as r:
        return r.read().decode()


class Receiver:
    """Takes what comes by TCP."""

    def __init__(self, case):
        self.data = b""
        self.listener = socket.create_server((ELSEWHERE, SYSLOG_PORT))
        case.finally_(self.listener.close)
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            while data := s.recv(65536):
                self.data += data


def add_drop_in(case, name):
    with open(f"{CONTRIB}/gpuxray-{name}.conf") as f:
        vm.drop_in(case, name + ".conf", f.read())
    case.equal(vm.run("systemd-analyze", "verify", "gpuxray.service").stderr, "", f"systemd-analyze verify, {name}")


def check_metrics(case, pid):
    want = f'pid="{pid}"'
    vm.poll(lambda: want in scrape("127.0.0.1", 30), 60, "the process in a scrape", 1)
    case.check(want in scrape("[::1]", 30), "not by IPv6")
    try:
        scrape(ELSEWHERE, 5)
        case.check(False, f"{ELSEWHERE} may scrape too")
    except OSError:
        pass
    path = NODE_EXPORTER + "/gpuxray.prom"
    vm.poll(lambda: os.path.exists(path) and want in open(path).read(), 30, "the process in the text file", 1)
    case.equal(os.stat(path).st_mode & 0o777, 0o644, "mode of the text file")


@vm.test("drop-ins: without them no network, which the log says with the cure; metrics for this host alone; syslog elsewhere",
         "6.1")
def drop_ins(case):
    case.contains(vm.log_of("gpuxray"), "gpuxray-metrics.conf", "log of a start without a drop-in")
    vm.must("ip", "address", "replace", ELSEWHERE, "dev", "lo")
    os.makedirs(NODE_EXPORTER, exist_ok=True)
    receiver = Receiver(case)
    with open(vm.CONF) as f:
        was = f.read()
    case.finally_(vm.restart)
    case.finally_(vm.write, vm.CONF, was)
    text = f'{{ listen = ":2112"; textfile = "{NODE_EXPORTER}/gpuxray.prom"; interval = "1s"; }}'
    vm.write(vm.CONF, re.sub(r"metrics = {.*}", f"metrics = {text}", was) +
             f'sink = "syslog";\nsyslog = {{ server = "tcp://{ELSEWHERE}:{SYSLOG_PORT}"; }};\n')
    add_drop_in(case, "metrics")
    since = vm.now()
    vm.restart()
    w = vm.Work.start(case, "train", "work_lifecycle", "hold", "--bytes=60MiB", "--blocks=2")
    w.said("hold")
    check_metrics(case, w.pid)
    case.equal(receiver.data, b"", "records that went out with the metrics' drop-in alone")
    # The firewall drops what it does not let through: the daemon finds out when its attempts to connect have timed out.
    vm.poll(lambda: "Cannot write records" in vm.log_of("gpuxray", since), 90, "the log tells that the receiver is out of reach")
    vm.must("systemctl", "reload", "gpuxray")
    w.end()
    add_drop_in(case, "network-syslog")
    vm.restart()
    w = vm.Work.start(case, "train", "work_lifecycle", "hold", "--bytes=60MiB", "--blocks=2")
    w.said("hold")
    vm.poll(lambda: b"(rule quota)" in receiver.data, 60, lambda: f"a record of the rule in {receiver.data[-500:]!r}")
    case.contains(receiver.data.decode(errors="replace"), "train.service", "message")
    w.end()


@vm.test("more blocks than MemoryMax= has room for: the daemon comes back by itself and says what is missing", "6.12")
def memory(case):
    now = int(vm.show("gpuxray", "MemoryCurrent")) / vm.MIB
    vm.drop_in(case, "memory.conf", "[Service]\nMemoryHigh=64M\nMemoryMax=72M\n")
    # A stop lets go of the maps; those that a restart goes on with are not charged to the unit any more.
    vm.must("systemctl", "stop", "gpuxray", timeout=180)
    vm.must("systemctl", "start", "gpuxray", timeout=180)
    case.figure(f"{int(vm.show('gpuxray', 'MemoryCurrent')) / vm.MIB:.0f} MiB after a start, {now:.0f} before it")
    case.finally_(vm.restart)
    since, pid = vm.now(), vm.main_pid()
    w = vm.Work.start(case, "train", "work_lifecycle", "hold", "--bytes=4KiB", "--blocks=300000")
    ledger = w.said("hold", 200)
    vm.wait_restarted(pid, 120)
    case.contains(vm.log_of("gpuxray", since), "killed by the OOM killer", "log")
    message = vm.poll(lambda: vm.records(event="start"), 30, "start record")[-1]["MESSAGE"]
    case.contains(message, "kept from before the restart", "start record")

    def told():
        p = vm.process(w.pid)
        return p if p and not p["exact"] and p["alloc_count"] == ledger["alloc_count"] and p.get("left_out_count") else None

    def what():
        p = vm.process(w.pid) or {}
        full = {k: v for k, v in vm.status()["counters"].items() if v}
        return f"{[(k, p.get(k)) for k in ('exact', 'alloc_count', 'live_count', 'left_out_count', 'left_out_bytes')]}, {full}"

    p = vm.poll(told, 90, lambda: "what is left out: " + what(), 1)
    case.figure(f"{p['left_out_count']} of {ledger['alloc_count']} blocks left out, and counted")
    case.equal(p["live_bytes"] + p["left_out_bytes"], ledger["live_bytes"], "live bytes and those left out")
    w.end()
