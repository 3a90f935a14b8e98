# SPDX-License-Identifier: MIT
"""What the checks in the emulated machine share: its services, workloads as units, the daemon's answers, the journal."""
import json
import os
import subprocess
import time
import typing

GPU = "/opt/gpu"  # the stand-in driver
BOOTED = "early"  # the unit that begins at boot
RUN = "/run/gpuxray-vm"
CONF = "/etc/gpuxray/gpuxray.conf"
RULES = "/etc/gpuxray/rules.d/50-vm.conf"
DROPINS = "/etc/systemd/system/gpuxray.service.d"
MIB = 1 << 20
# How much slower than a machine the emulated one is, in time limits.
SLOW = 6


class Failure(Exception):
    pass


class Test(typing.NamedTuple):
    name: str
    fn: typing.Callable
    kernels: tuple


tests = []


def test(name, *kernels):
    """kernels: the ones on which it runs; none = all."""
    def add(fn):
        tests.append(Test(name, fn, kernels))
        return fn
    return add


class Case:
    """Notes faults and figures of one test; units and drop-ins it made are gone after it."""

    def __init__(self):
        self.problems, self.figures, self.undo = [], [], []

    def check(self, good, text):
        if not good:
            self.problems.append(text)
        return good

    def equal(self, got, want, what):
        return self.check(got == want, f"{what}: {got!r}, not {want!r}")

    def contains(self, text, part, what):
        return self.check(part in text, f"{what}: no {part!r} in {text!r}")

    def figure(self, text):
        self.figures.append(text)

    def finally_(self, fn, *args):
        self.undo.append((fn, args))

    def close(self):
        for fn, args in reversed(self.undo):
            try:
                fn(*args)
            except (Failure, OSError) as e:
                self.problems.append(f"cleaning up: {e}")


def run(*args, timeout=60, **kw):
    try:
        return subprocess.run([str(a) for a in args], capture_output=True, text=True, errors="replace", timeout=timeout,
                              stdin=subprocess.DEVNULL, **kw)
    except subprocess.TimeoutExpired:
        raise Failure(f"{' '.join(map(str, args))}: no end within {timeout} s") from None


def must(*args, **kw):
    r = run(*args, **kw)
    if r.returncode:
        raise Failure(f"{' '.join(map(str, args))}: exit status {r.returncode}: {r.stderr.strip()} {r.stdout.strip()}")
    return r.stdout


def poll(get, seconds, what, every=0.3):
    end = time.monotonic() + seconds
    while True:
        got = get()
        if got:
            return got
        if time.monotonic() > end:
            raise Failure(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(every)


# ---- systemd


def show(unit, *names):
    """Properties of a unit; one name gives its value, several a dict."""
    out = must("systemctl", "show", unit, *(f"--property={n}" for n in names))
    got = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    return got[names[0]] if len(names) == 1 else got


def main_pid():
    return int(show("gpuxray", "MainPID"))


def wait_active(seconds=60):
    poll(lambda: show("gpuxray", "ActiveState") == "active", seconds,
         lambda: f"gpuxray is active: {show('gpuxray', 'ActiveState', 'SubState', 'Result')}")


def wait_restarted(old_pid, seconds=90):
    """Until another process of the daemon is ready."""
    def look():
        got = show("gpuxray", "ActiveState", "MainPID")
        return got["ActiveState"] == "active" and int(got["MainPID"]) not in (0, old_pid)

    poll(look, seconds, lambda: f"gpuxray is back: {show('gpuxray', 'ActiveState', 'SubState', 'Result', 'NRestarts')}")


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)


def drop_in(case, name, text):
    """A drop-in of gpuxray.service, until the end of the test."""
    path = f"{DROPINS}/{name}"

    def undo():
        os.unlink(path)
        must("systemctl", "daemon-reload")

    write(path, text)
    must("systemctl", "daemon-reload")
    case.finally_(undo)


def restart():
    began = time.monotonic()
    must("systemctl", "restart", "gpuxray", timeout=180)
    return time.monotonic() - began


# ---- the daemon and the journal


def status():
    return json.loads(must("gpuxray", "status", "--json"))


def process(pid):
    return next((p for p in status()["processes"] if p["pid"] == pid), None)


def journal(*args):
    """Records of the daemon as dicts, oldest first."""
    out = run("journalctl", "-o", "json", "-a", "--no-pager", "-t", "gpuxray", *args).stdout
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def records(**fields):
    return journal(*(f"GPUXRAY_{k.upper()}={v}" for k, v in fields.items()))


def wait_record(seconds=10 * SLOW, count=1, **fields):
    return poll(lambda: records(**fields)[count - 1:], seconds, f"record {fields}")[-1]


def log_of(unit, since=None):
    """Lines of a unit's log, those of the manager about it too."""
    args = ["journalctl", "-o", "cat", "--no-pager", "-u", unit]
    return run(*args, *(["--since", since] if since else [])).stdout


def now():
    """For --since of journalctl."""
    return f"@{time.time():.6f}"


def denied_calls():
    """What seccomp has told the kernel's log."""
    out = run("journalctl", "-k", "-o", "cat", "--no-pager").stdout
    return [line for line in out.splitlines() if "type=1326" in line]


# ---- workloads


class Work:
    """A program on the stand-in driver, as a service. Its JSON lines are read by label."""

    def __init__(self, case, unit):
        """One that runs already, in the way that start() does it."""
        self.unit = unit + ".service"
        self.out, self.fifo = f"{RUN}/{unit}.out", f"{RUN}/{unit}.in"
        self.input = os.open(self.fifo, os.O_RDWR)
        case.finally_(self.kill)

    @classmethod
    def start(cls, case, unit, program, *args, properties=()):
        os.makedirs(RUN, exist_ok=True)
        fifo = f"{RUN}/{unit}.in"
        for path in (fifo, f"{RUN}/{unit}.out"):
            if os.path.exists(path):
                os.unlink(path)
        os.mkfifo(fifo)
        words = " ".join([f"{GPU}/{program}", *map(str, args)])
        must("systemd-run", "--quiet", "--collect", f"--unit={unit}.service", *(f"--property={p}" for p in properties),
             "/bin/sh", "-c", f"exec {words} 0<>{fifo} >{RUN}/{unit}.out 2>&1")
        return cls(case, unit)

    @property
    def pid(self):
        return int(show(self.unit, "MainPID"))

    def lines(self):
        if not os.path.exists(self.out):
            return []
        with open(self.out, errors="replace") as f:
            return [json.loads(line) for line in f if line.startswith("{") and line.endswith("}\n")]

    def said(self, label, seconds=20 * SLOW):
        def look():
            return next((x for x in self.lines() if x.get("label") == label), None)

        def what():
            with open(self.out, errors="replace") as f:
                return f"{self.unit}: {label!r} in {f.read()[-300:]!r}"

        return poll(look, seconds, what)

    def go(self):
        os.write(self.input, b"\n")

    def end(self, seconds=10 * SLOW):
        self.go()
        poll(lambda: show(self.unit, "ActiveState") in ("inactive", "failed"), seconds, f"{self.unit} ends")

    def kill(self):
        run("systemctl", "stop", self.unit)
        if self.input is not None:
            os.close(self.input)
            self.input = None


def differs(p, ledger):
    """What of an entry of the status is not as in the ledger; None if all is."""
    if p is None:
        return "it is not in the status"
    keys = ("live_bytes", "host_bytes", "managed_bytes", "live_count", "alloc_count", "free_count", "fail_count",
            "unknown_free_count")
    wrong = [f"{k} {p.get(k)}, not {ledger[k]}" for k in keys if p.get(k) != ledger[k]]
    if not p["exact"]:
        wrong.append("not exact")
    return ", ".join(wrong) or None


def wait_books(work, ledger, what, seconds=10 * SLOW):
    """The entry of the status, once it says what the ledger says."""
    pid = work.pid

    def look():
        p = process(pid)
        return p if differs(p, ledger) is None else None

    return poll(look, seconds, lambda: f"{what}: the books of {work.unit}: {differs(process(pid), ledger)}", 0.5)

