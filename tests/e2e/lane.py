# SPDX-License-Identifier: MIT
"""A lane of the end-to-end tests: a mount namespace with its own /run and journald, where tests run one after the other,
each in a process of its own, as asked for over a pipe.

Lane 0 has the machine's PIDs, and its daemons see all processes. The others have a PID namespace and copies of the stand-in
driver of their own: no daemon there sees, or probes, what another lane does.
"""
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
import traceback

import harness as h

LANES = "/run/lanes"
JOURNALD = next((p for p in ("/lib/systemd/systemd-journald", "/usr/lib/systemd/systemd-journald") if os.path.exists(p)), None)
# No kernel messages, no audit, no wall: only what the tests send, and all of it.
JOURNALD_CONF = """[Journal]
Storage=volatile
ReadKMsg=no
Audit=no
ForwardToWall=no
ForwardToSyslog=no
ForwardToConsole=no
RateLimitIntervalSec=0
"""
JOURNALD_AWAY_SECONDS = 0.3  # before it is started again, as a manager takes a moment
CLONE_NEWNS = 0x00020000
CLONE_NEWPID = 0x20000000


def mount(*args):
    subprocess.run(["mount", *args], check=True)


def make_base(numbers):
    """The folders of all lanes, in the namespace that each leaves for its own."""
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for i in numbers:
        tmp = f"{LANES}/{i}" + h.TMP.removeprefix("/run")
        os.makedirs(tmp)
        shutil.copytree(h.FAKE_BUILT, tmp + h.FAKE.removeprefix(h.TMP))
        shutil.copy2(h.GPUXRAY_BUILT, tmp + h.GPUXRAY.removeprefix(h.TMP))
    if not os.path.exists("/etc/machine-id") or not os.path.getsize("/etc/machine-id"):
        subprocess.run(["systemd-machine-id-setup"], check=True, capture_output=True)


def unshare(flag):
    if h.libc.unshare(flag) != 0:
        raise OSError(ctypes.get_errno(), "unshare: " + os.strerror(ctypes.get_errno()))


def enter_pid_namespace():
    """Returns in its first process; the caller ends as that does."""
    unshare(CLONE_NEWPID)
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        os._exit(0)
    h.die_with_parent()


def enter_world(number):
    unshare(CLONE_NEWNS)
    mount("--make-rprivate", "/")
    if number:
        mount("-t", "proc", "proc", "/proc")
    mount("--bind", f"{LANES}/{number}", "/run")
    for d in ("/run/systemd/journal", "/run/systemd/journald.conf.d", "/run/log/journal", "/run/gpuxray"):
        os.makedirs(d)
    for d in ("/var/log/journal", "/var/lib/systemd"):  # what the host keeps stays out of sight and out of reach
        if os.path.isdir(d):
            mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", d)
    os.makedirs("/var/lib/systemd/catalog", exist_ok=True)
    with open("/run/systemd/journald.conf.d/e2e.conf", "w") as f:
        f.write(JOURNALD_CONF)


def children():
    """Of this process; orphans of the tests are among them."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", errors="replace") as f:
                    if int(f.read().rsplit(")", 1)[1].split()[1]) == os.getpid():
                        found.append(int(name))
            except (OSError, IndexError):
                pass
    return found


class Lane:
    def __init__(self, tests):
        self.tests = tests
        self.journald = 0
        self.restart_at = None
        self.case = self.number = self.start = None
        self.output = h.TMP + "/output"
        self.result = h.TMP + "/result"

    def start_journald(self):
        p = subprocess.Popen([JOURNALD], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=open(h.TMP + "/journald.stderr", "ab"), preexec_fn=h.die_with_parent)
        p.returncode = 0  # it is waited for here, with all others
        self.journald, self.restart_at = p.pid, None
        with open(h.JOURNALD_PID + ".new", "w") as f:
            f.write(str(p.pid))
        os.rename(h.JOURNALD_PID + ".new", h.JOURNALD_PID)

    def wait_journald(self):
        end = time.monotonic() + 15
        while not os.path.exists(h.JOURNAL):
            if os.waitpid(self.journald, os.WNOHANG)[0] or time.monotonic() > end:
                with open(h.TMP + "/journald.stderr") as f:
                    raise OSError("systemd-journald did not start: " + f.read().strip())
            time.sleep(0.02)

    def reap(self):
        """All that have ended, as a machine's first process does it."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid == self.journald:
                self.journald, self.restart_at = 0, time.monotonic() + JOURNALD_AWAY_SECONDS
            elif pid == self.case:
                self.case = None
                self.clear()
                self.tell(os.waitstatus_to_exitcode(status), usage)

    def clear(self):
        """Ends whatever a test has left behind. Each round may bring up children of those that ended in the one before."""
        for _ in range(50):
            left = [pid for pid in children() if pid != self.journald]
            if not left:
                return
            for pid in left:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def tell(self, status, usage):
        with open(self.output, errors="replace") as f:
            said = {"number": self.number, "output": f.read(), "seconds": time.monotonic() - self.start,
                    "cpu": usage.ru_utime + usage.ru_stime, "why": None, "skip": None}
        if os.path.exists(self.result):
            with open(self.result) as f:
                said.update(json.load(f))
        else:
            said["why"] = f"the test's process ended without a result, exit status {status}"
        print(json.dumps(said), flush=True)

    def begin(self, number):
        shutil.rmtree("/run/gpuxray")
        os.mkdir("/run/gpuxray", 0o755)
        for path in (self.output, self.result):
            if os.path.exists(path):
                os.unlink(path)
        self.number, self.start = number, time.monotonic()
        self.case = os.fork()
        if self.case == 0:
            try:
                self.run_case(self.tests[number])
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)

    def run_case(self, test):
        h.die_with_parent()
        signal.set_wakeup_fd(-1)
        for n in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(n, signal.SIG_DFL)
        signal.signal(signal.SIGALRM, h.on_alarm)
        out = os.open(self.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(out, 1)
        why = skip = None
        try:
            why = h.run_one(test.name, test.fn)
        except h.Skip as e:
            skip = str(e)
        sys.stdout.flush()
        with open(self.result + ".new", "w") as f:
            json.dump({"why": why, "skip": skip}, f)
        os.rename(self.result + ".new", self.result)
        os._exit(0)

    def serve(self, requests):
        """A line with a test's number starts it; the end of the lines is the lane's."""
        woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        buf = b""
        while True:
            wait = None if self.restart_at is None else max(0, self.restart_at - time.monotonic())
            ready = select.select([woken, requests], [], [], wait)[0]
            if woken in ready:
                os.read(woken, 4096)
            self.reap()
            if self.restart_at is not None and time.monotonic() >= self.restart_at:
                self.start_journald()
            if requests in ready:
                data = os.read(requests, 4096)
                if not data:
                    break
                buf += data
                *lines, buf = buf.split(b"\n")
                for line in lines:
                    self.begin(int(line))
        signal.set_wakeup_fd(-1)
        self.journald = 0
        self.clear()


def run(number, tests, requests, answers):
    """The life of a lane, in a process of its own: does not return."""
    try:
        h.die_with_parent()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if number:
            enter_pid_namespace()
        h.libc.prctl(h.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(answers, 1)
        lane = Lane(tests)
        try:
            enter_world(number)
            lane.start_journald()
            lane.wait_journald()
        except (OSError, subprocess.CalledProcessError) as e:
            print(json.dumps({"bail_out": str(e)}), flush=True)
            os._exit(1)
        print(json.dumps({"ready": number}), flush=True)
        lane.serve(requests)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)
