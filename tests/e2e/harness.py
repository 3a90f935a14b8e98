# SPDX-License-Identifier: MIT
"""What the end-to-end tests share: a private world, a daemon, workloads on the stand-in driver, the journal read back.

The world is a mount namespace with its own /run and its own systemd-journald, so that nothing is left on the host and
nothing of the host is seen, with one exception: the daemon traces all processes of the machine. So every test looks only at
the processes it started itself.
"""
import contextlib
import ctypes
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import traceback
import typing

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.realpath(HERE + "/../..")
GPUXRAY_BUILT = os.path.realpath(os.environ.get("GPUXRAY") or ROOT + "/.build/gpuxray")
FAKE_BUILT = os.path.realpath(os.environ.get("FAKE") or ROOT + "/.build/fake_gpu")
TMP = "/run/e2e"
# Copies: a build meanwhile changes nothing, and their inodes are no other program's.
GPUXRAY = TMP + "/gpuxray"
FAKE = TMP + "/fake"
LIBCUDA = FAKE + "/libcuda.so.1"
INSIDE = "GPUXRAY_E2E"
SOCKET = "/run/gpuxray/status.sock"
JOURNAL = "/run/systemd/journal/socket"
JOURNALD_PID = TMP + "/journald.pid"
CATALOGS = "/usr/lib/systemd/catalog"
# How many times as long things may take as they may on a usual machine: more where the processor is emulated.
PATIENCE = int(os.environ.get("E2E_PATIENCE") or 1)
TEST_SECONDS = 150 * PATIENCE  # a test that takes longer hangs, also where others keep the processors busy

# Events that tell what is, not what is wrong.
HISTORY = ("sample", "process_exit", "site")

MIB = 1 << 20
GIB = 1 << 30

# The minimal rule file of the interface, as it stands there.
MINIMAL_RULES = """version = 1;
rules = (
  { name = "quota";  kind = "live_bytes";    scope = "process"; fire_above = "100MiB"; resolve_below = "80MiB"; for = "0s"; severity = "critical"; },
  { name = "oom";    kind = "alloc_failure"; count = 1; window = "1m"; severity = "error"; },
  { name = "huge";   kind = "single_alloc";  fire_above = "1GiB"; severity = "notice"; match = { comm = "^train"; }; },
  { name = "leak";   kind = "leak"; scope = "process"; epoch = "2s"; epochs = 8; occupancy = 0.9; keep_ratio = 0.7; min_growth = "4MiB"; for_epochs = 3; severity = "warning"; }
);
"""
QUOTA_RULE = """version = 1;
rules = (
  { name = "quota"; kind = "live_bytes"; scope = "process"; fire_above = "100MiB"; resolve_below = "80MiB"; for = "0s";
    keep_firing_for = "0s"; severity = "critical"; }
);
"""

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
libc = ctypes.CDLL(None, use_errno=True)


class Failure(Exception):
    pass


class Skip(Exception):
    """The reason why this machine cannot run the test."""


def poll(get, seconds, what, every=0.05):
    """The first true value of get(); Failure with what (text, or a function that makes it) after so many seconds.

    What takes long is asked for less often, unless every is 0: other tests need the processors."""
    begin = time.monotonic()
    end = begin + seconds * PATIENCE
    while True:
        got = get()
        if got:
            return got
        if time.monotonic() > end:
            raise Failure(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(every and max(every, min(0.5, (time.monotonic() - begin) / 20)))


def run(*args, timeout=30, **kw):
    """Output and exit status of a command; Failure when it hangs."""
    try:
        return subprocess.run([str(a) for a in args], capture_output=True, text=True, errors="replace", timeout=timeout,
                              **kw)
    except subprocess.TimeoutExpired:
        raise Failure(f"{' '.join(map(str, args))}: no end within {timeout} s") from None


def must(*args, **kw):
    r = run(*args, **kw)
    if r.returncode:
        raise Failure(f"{' '.join(map(str, args))}: exit status {r.returncode}: {r.stderr.strip()}")
    return r.stdout


def in_namespace(*commands):
    """Words before a command that give it a mount namespace of its own in which these shell commands ran first."""
    script = " && ".join([*commands, 'exec "$@"'])
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]


def die_with_parent():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


# ---- the journal


def journal_json(*args):
    """Records as dicts of strings, oldest first. A value that is no string shows what a reader would stumble over."""
    r = run("journalctl", "-o", "json", "-a", "--no-pager", "-t", "gpuxray", *args)
    if r.returncode and "No entries" not in r.stderr:
        raise Failure(f"journalctl: {r.stderr.strip()}")
    return [json.loads(line) for line in r.stdout.splitlines() if line.startswith("{")]


def journald_pid():
    with open(JOURNALD_PID) as f:
        return int(f.read())


def need_multi():
    """Only uprobe_multi links do without CAP_SYS_ADMIN and with one link for all symbols."""
    major, minor = map(int, os.uname().release.split(".")[:2])
    if (major, minor) < (6, 6):
        raise Skip(f"kernel {major}.{minor} has no uprobe_multi links")


def show_record(r):
    keys = [k for k in sorted(r) if not re.match(r"_|SYSLOG_|MESSAGE_ID|OBJECT_(?!PID|SYSTEMD_UNIT)", k)]
    return "  " + " ".join(f"{k}={str(r[k])[:1000]!r}" for k in keys)


# ---- processes


class Process:
    """One that the case stops in the end, with its standard error kept."""

    def __init__(self, case, name, argv, env=None, stdin=None, stdout=None, cgroup=None):
        self.case = case
        self.name = name
        self.log = case.path(name + ".stderr")

        def before_exec():
            die_with_parent()
            for path in cgroup or ():
                with open(path + "/cgroup.procs", "w") as f:
                    f.write(str(os.getpid()))

        with open(self.log, "wb") as log:
            self.p = subprocess.Popen(argv, stdin=stdin, stdout=stdout, stderr=log, env={**os.environ, **(env or {})},
                                      preexec_fn=before_exec)
        self.pid = self.p.pid
        self.is_silent = False  # its standard output is closed
        case.processes.append(self)

    def stderr(self):
        with open(self.log, errors="replace") as f:
            return f.read()

    def signal(self, n):
        self.p.send_signal(n)

    def is_alive(self):
        return self.p.poll() is None

    def wait(self, seconds=15):
        try:
            return self.p.wait(seconds * PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} did not end within {seconds} s") from None

    def kill(self):
        if self.is_alive():
            self.p.kill()
        self.p.wait()
        for f in (self.p.stdin, self.p.stdout):
            if f:
                with contextlib.suppress(OSError):
                    f.close()

    def lines(self):
        """Further whole lines of standard output that are there now."""
        fd = self.p.stdout.fileno()
        while select.select([fd], [], [], 0)[0]:
            data = os.read(fd, 1 << 16)
            if not data:
                self.is_silent = True
                break
            self.buf += data
        *whole, self.buf = self.buf.split(b"\n")
        return [line.decode(errors="replace") for line in whole]


class Work(Process):
    """A workload of the stand-in driver. Its lines of JSON are read by label."""

    def __init__(self, case, program, *args, env=None, wrap=(), fake=FAKE, cgroup=None):
        self.buf = b""
        self.said = []
        case.work_count += 1
        name = f"{program}-{case.work_count}"
        state = {"FAKE_GPU_STATE": case.path("gpu-state")}
        super().__init__(case, name, [*wrap, f"{fake}/{program}", *map(str, args)], env={**state, **(env or {})},
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, cgroup=cgroup)

    def next(self, label, seconds=20):
        """The next line with this label ("ready" for the one of --wait-start)."""
        def look():
            for line in self.lines():
                if line.startswith("{"):
                    self.said.append(json.loads(line))
            for i, said in enumerate(self.said):
                if said.get("label") == label or (label == "ready" and said.get("ready")):
                    return self.said.pop(i)
            if self.is_silent:
                raise Failure(f"{self.name} ended ({self.p.poll()}) without \"{label}\"")
            return None

        said = poll(look, seconds, f"{self.name}: \"{label}\"", every=0.02)
        if said.get("stand_in_agrees") is False:
            raise Failure(f"{self.name}: its ledger is not what the stand-in counts: a fault of the test itself")
        return said

    def go(self):
        self.p.stdin.write(b"\n")
        self.p.stdin.flush()

    def end(self, seconds=15, status=0):
        """Lets it go and sees it end well."""
        with contextlib.suppress(BrokenPipeError, ValueError):
            self.go()
        got = self.wait(seconds)
        if got != status:
            raise Failure(f"{self.name}: exit status {got}, not {status}")


class Daemon(Process):
    def __init__(self, case, *options, rules=QUOTA_RULE, config="", sink="journal", library=LIBCUDA, wrap=(), env=None,
                 wait=True):
        case.daemon_count += 1
        name = f"daemon-{case.daemon_count}"
        self.buf = b""
        self.rules_file = case.write(name + "-rules.conf", rules)
        # Processes that are not ours may use up the budget of records; a test that is about it says so.
        if "limits" not in config:
            config += "limits = { records_per_minute = 100000; };\n"
        argv = [GPUXRAY, "run", "--config", case.write(name + ".conf", config), "--rules", self.rules_file]
        if sink:
            argv += ["--sink", sink]
        if library:
            argv += ["--library", library]
        env = {"LD_LIBRARY_PATH": FAKE, "FAKE_GPU_STATE": case.path("gpu-state"), **(env or {})}
        super().__init__(case, name, [*wrap, *argv, *options], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        os.set_blocking(self.p.stdout.fileno(), False)
        if wait:
            self.wait_ready()

    def wait_ready(self, seconds=40):
        def look():
            if not self.is_alive():
                raise Failure(f"{self.name} ended at start, exit status {self.p.returncode}")
            # The socket of one that was killed before may still lie there.
            return run(GPUXRAY, "status", "--json").returncode == 0

        poll(look, seconds, f"{self.name} answers")

    def status(self):
        r = run(GPUXRAY, "status", "--json")
        if r.returncode:
            raise Failure(f"status: exit status {r.returncode}: {r.stderr.strip()}")
        return json.loads(r.stdout)

    def process(self, pid):
        """The entry of a process in the status, or None."""
        return next((p for p in self.status()["processes"] if p["pid"] == pid), None)

    def wait_process(self, pid, test=lambda p: True, seconds=10, what=""):
        def look():
            p = self.process(pid)
            return p if p is not None and test(p) else None

        return poll(look, seconds, lambda: f"process {pid} in the status, {what}: {self.process(pid)}")

    def wait_gone(self, pid, seconds=10):
        poll(lambda: self.process(pid) is None, seconds, lambda: f"process {pid} leaves the status: {self.process(pid)}")

    def records(self, pid=None, **fields):
        """Its records in the journal, or those about one process, with these values: event="leak", state="firing". Those of
        the history only when asked for by their event."""
        want = {"GPUXRAY_" + k.upper(): str(v) for k, v in fields.items()}
        if pid is not None:
            want["GPUXRAY_PID"] = str(pid)
        found = journal_json(f"_PID={self.pid}", *(f"{k}={v}" for k, v in want.items()))
        return [r for r in found if "event" in fields or r.get("GPUXRAY_EVENT") not in HISTORY]

    def wait_record(self, pid=None, seconds=10, count=1, **fields):
        """The newest of at least count such records."""
        return poll(lambda: self.records(pid, **fields)[count - 1:], seconds,
                    f"record {fields}{f' of process {pid}' if pid else ''}")[-1]

    def wait_stderr(self, text, seconds=10):
        poll(lambda: re.search(text, self.stderr()), seconds, f"\"{text}\" on the daemon's standard error")

    def reload(self):
        self.signal(signal.SIGHUP)

    def stop(self, seconds=15):
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        got = self.wait(seconds)
        if got:
            raise Failure(f"{self.name}: exit status {got} on SIGTERM")


class Case:
    """One test: it owns what it starts, and its own folder."""

    def __init__(self, name):
        self.dir = f"{TMP}/{re.sub('[^a-z0-9]+', '-', name.lower())[:60]}"
        shutil.rmtree(self.dir, ignore_errors=True)
        os.makedirs(self.dir)
        self.processes = []
        self.undo = []
        self.problems = []
        self.work_count = self.daemon_count = 0

    def path(self, name):
        return f"{self.dir}/{name}"

    def write(self, name, text):
        with open(self.path(name), "w") as f:
            f.write(text)
        return self.path(name)

    def daemon(self, *args, **kw):
        return Daemon(self, *args, **kw)

    def work(self, *args, **kw):
        return Work(self, *args, **kw)

    def finally_(self, fn, *args):
        self.undo.append((fn, args))

    def check(self, good, text):
        """Notes a failure and goes on."""
        if not good:
            self.problems.append(text)
        return good

    def equal(self, got, want, what):
        return self.check(got == want, f"{what}: {got!r}, not {want!r}")

    def contains(self, text, part, what):
        return self.check(part in (text or ""), f"{what}: no \"{part}\" in {text!r}")

    def close(self):
        for p in reversed(self.processes):
            p.kill()
        for fn, args in reversed(self.undo):
            try:
                fn(*args)
            except Exception as e:
                self.problems.append(f"cleaning up: {e!r}")

    def explain(self, why):
        """What a reader of a failure needs to see."""
        out = [line[:1000] for line in why[:12]]
        if len(why) > len(out):
            out.append(f"... and {len(why) - len(out)} more")
        for p in self.processes:
            tail = p.stderr().splitlines()[-30:]
            if tail:
                out += [f"--- standard error of {p.name} (process {p.pid}):", *tail]
        pids = {str(p.pid) for p in self.processes if isinstance(p, Work)}
        for d in self.processes:
            if not isinstance(d, Daemon):
                continue
            with contextlib.suppress(Failure):
                found = [r for r in d.records() if r.get("GPUXRAY_PID") in pids or
                         "GPUXRAY_PID" not in r and r["GPUXRAY_EVENT"] != "health"]
                out.append(f"--- records of {d.name} (the last 10 of {len(found)}):")
                out += [show_record(r) for r in found[-10:]]
        return "\n".join(out)


def check_books(case, p, ledger, what, may_be_unknown=False):
    """An entry of the status and a ledger."""
    for k in ("start_time", "live_bytes", "host_bytes", "managed_bytes", "live_count", "alloc_count", "free_count",
              "fail_count", "unknown_free_count"):
        case.equal(p.get(k), ledger[k], f"{what}: {k}")
    if ledger["peak_exact"]:
        case.equal(p["peak_bytes"], ledger["peak_bytes"], f"{what}: peak_bytes")
    else:
        case.check(p["live_bytes"] <= p["peak_bytes"] <= ledger["peak_bytes"], f"{what}: peak_bytes {p['peak_bytes']}")
    got = {dev["uuid"]: dev["live_bytes"] for dev in p["devices"]}
    unknown = got.pop(None, 0)
    if not may_be_unknown:
        case.equal(unknown, 0, f"{what}: live bytes of unknown device")
    for dev in ledger["devices"]:
        have, want = got.get(dev["uuid"], 0), dev["live_bytes"]
        case.check(have <= want <= have + unknown, f"{what}: live bytes of {dev['uuid']}: {have}, not {want}")
    case.equal(sum(got.values()) + unknown, p["live_bytes"], f"{what}: sum over devices")
    case.equal(p["exact"], True, f"{what}: exact")
    case.equal(p["lost_events"], 0, f"{what}: lost events")


# ---- tests

class Test(typing.NamedTuple):
    name: str
    fn: typing.Callable
    exclusive: bool = False
    host: bool = False
    uses: tuple = ()
    seconds: float = 0


tests = []


def test(name, exclusive=False, host=False, uses=(), seconds=0):
    """Tests run side by side, most of them in a PID namespace, where the daemon sees what the test itself has started.

    exclusive: it measures time or load, or is about PIDs: runs alone, with the machine's PIDs. host: it needs these, as for
    what the driver says of processes, and its daemon sees what other tests do meanwhile. uses: names of things of the
    machine that one test at a time can have. seconds: what it takes, if that is long: it starts early.
    """
    def add(fn):
        tests.append(Test(name, fn, exclusive, host, tuple(uses), seconds))
        return fn
    return add


def on_alarm(_number, _frame):
    raise Failure(f"hangs: longer than {TEST_SECONDS} s")


def run_one(name, fn):
    """None, or why it failed."""
    case = Case(name)
    why = None
    signal.alarm(TEST_SECONDS)
    try:
        fn(case)
        if case.problems:
            why = case.explain(case.problems)
    except Skip:
        raise
    except Failure as e:
        frames = traceback.extract_tb(e.__traceback__)
        where = " < ".join(f"{os.path.basename(f.filename)}:{f.lineno}" for f in reversed(frames[1:]))
        why = case.explain([*case.problems, f"{e} ({where})"])
    except Exception:
        why = case.explain([*case.problems, traceback.format_exc()])
    finally:
        signal.alarm(0)
        case.close()
    return why


def comment(text):
    for line in text.splitlines():
        print("# " + re.sub(r"[^\x20-\x7e]", lambda m: f"\\u{ord(m.group()):04x}", line))


def main():
    """Runs the tests of this file, or those whose name has a word of the command line in it; prints TAP."""
    if os.environ.get(INSIDE) != "inside":
        only = os.path.realpath(sys.argv[0])
        os.execv(HERE + "/run", [HERE + "/run", only, *sys.argv[1:]])
    signal.signal(signal.SIGALRM, on_alarm)
    failed = n = 0
    for name, fn, *_ in tests:
        if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
            continue
        n += 1
        start = time.monotonic()
        try:
            why = run_one(name, fn)
        except Skip as e:
            print(f"ok {n} - {name} # SKIP {e}", flush=True)
            continue
        if why is None:
            print(f"ok {n} - {name}")
        else:
            print(f"not ok {n} - {name}")
            comment(why)
            failed += 1
        print(f"# {time.monotonic() - start:.1f} s", flush=True)
    print(f"1..{n}", flush=True)
    sys.exit(1 if failed or not n else 0)
