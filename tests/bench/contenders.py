# SPDX-License-Identifier: MIT
"""Ways to learn who holds GPU memory, each as one would use it. One that cannot attach says why."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import time

import world


class CannotAttach(Exception):
    """The reason, for the table."""


class Books:
    """What one knows of a process. stacks: of sites that hold bytes, [(bytes, [function, ...])], innermost first."""

    def __init__(self, live_bytes=None, live_count=None, stacks=(), untracked_bytes=None):
        self.live_bytes, self.live_count, self.stacks = live_bytes, live_count, list(stacks)
        self.untracked_bytes = untracked_bytes  # that it says are there besides


class Contender:
    """
    start() before the workload's first call, with its pid where per_process; books() while it waits before its end. A
    contender is used once: start to stop.
    """
    id = name = note = ""
    per_process = False   # is told of one process, or lives in it
    is_inside = False     # lives in it: what it costs is in the traced program
    through_shim = False  # sees the shim's functions, not the driver's
    keeps_books = True
    misses_old = ""       # why a process that runs already cannot be looked at

    def __init__(self, bench):
        self.bench = bench
        self.p = None

    def env(self):
        return {}

    def start(self, pid):
        pass

    def lost(self):
        """Events that it says it lost; None where it does not tell."""
        return None

    def books(self, work):
        return Books()

    def cost(self):
        """CPU in ns so far, resident bytes, bytes of its maps in the kernel."""
        if not self.p:
            return 0, 0, 0
        return world.cpu_ns(self.p.pid), world.rss_bytes(self.p.pid), world.map_bytes(self.p.pid)

    def stop(self):
        if self.p and self.p.poll() is None:
            self.p.send_signal(signal.SIGINT)
            try:
                self.p.wait(20)
            except subprocess.TimeoutExpired:
                self.p.kill()
                self.p.wait()


class Nothing(Contender):
    id, name, keeps_books = "none", "nothing", False


class NothingShim(Nothing):
    id, name, through_shim = "none_shim", "nothing, calls through the shim", True


class Gpuxray(Contender):
    id, name = "gpuxray", "gpuxray"
    note = "the daemon with its default settings"
    options = ()

    def start(self, pid):
        self.d = self.bench.Daemon(*self.options, library=world.LIBRARY,
                                   env={**world.environment(), "FAKE_GPU_STATE": world.STATE})
        self.p = self.d.p

    def lost(self):
        return self.d.status()["lost_events"]

    def books(self, work):
        time.sleep(0.3)  # it looks at the ring of events each 250 ms
        process = next((p for p in self.d.status()["processes"] if p["pid"] == work.pid), None)
        if not process:
            return Books()
        r = subprocess.run([self.bench.GPUXRAY, "memtrace", "-p", str(work.pid), "-n", "1", "--print-stacks", "--json"],
                           capture_output=True, text=True, timeout=20, check=False)
        look = json.loads(r.stdout.splitlines()[-1])
        stacks = [(s["bytes"], [re.sub(r"\+0x.*", "", f) for f in s["stack"].splitlines()])
                  for s in look["sites"] if s["bytes"] and s["stack"]]
        return Books(process["live_bytes"], process["live_count"], stacks, process["untracked_bytes"])

    def stop(self):
        if self.p and self.p.poll() is None:
            self.d.stop()


class GpuxrayBare(Gpuxray):
    id, name, options, keeps_books = "bare", "empty probes, one link", ("--bare-probes",), False
    note = "four probes that do nothing, attached with one uprobe_multi link (gpuxray --bare-probes)"

    def lost(self):
        return None


class Bpftrace(Contender):
    script = ""
    probes = 0  # attached ones, besides BEGIN and END

    def start(self, pid):
        if not shutil.which("bpftrace"):
            raise CannotAttach("bpftrace is not installed")
        with open(f"{os.path.dirname(os.path.realpath(__file__))}/{self.script}", encoding="ascii") as f:
            text = f.read().replace("LIBRARY", world.LIBRARY)
        path = f"{world.DIR}/{self.script}"
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        self.path = f"{world.DIR}/{self.id}.out"
        # Else it says "ready" when its buffer is full.
        with open(self.path, "w", encoding="ascii") as out:
            self.p = subprocess.Popen(["bpftrace", "-B", "line", path], stdout=out, stderr=subprocess.STDOUT,
                                      stdin=subprocess.DEVNULL)
        if not world.until(lambda: self.p.poll() is not None or self._events() >= self.probes):
            raise CannotAttach("bpftrace attached no probe in 20 s")
        time.sleep(0.3)  # END may have one too: then the last of ours is attached by now
        if self.p.poll() is not None:
            raise CannotAttach(f"bpftrace ended with {self.p.poll()}: {last_line(self.output())}")

    def _events(self):
        """Programs that are attached, one file descriptor each; that of BEGIN is closed when it has run."""
        try:
            fds = [os.readlink(fd) for fd in glob.glob(f"/proc/{self.p.pid}/fd/*")]
        except OSError:
            return 0
        return sum("bpf-prog" in fd for fd in fds) if "ready" in self.output() else 0

    def output(self):
        with open(self.path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def lost(self):
        return sum(map(int, re.findall(r"Lost (\d+) events", self.output())))

    def books(self, work):
        """It names functions as it ends, so all processes must still be there: the first one asked ends it."""
        self.stop()
        return bpftrace_books(self.output(), work.pid)


def bpftrace_books(text, pid):
    """Of its maps as it prints them; a stack is a key of several lines."""
    stacks = [(int(n), [re.sub(r"\+\d+$", "", f.strip()) for f in frames.split("\n") if f.strip()])
              for owner, frames, n in re.findall(r"^@bytes\[(\d+),(.*?)\]: (-?\d+)$", text, re.M | re.S)
              if int(owner) == pid and int(n)]
    return Books(sum(n for n, _ in stacks), None, stacks)


class BpftraceFloor(Bpftrace):
    id, name, script, probes, keeps_books = "bpftrace_floor", "empty probes, bpftrace", "floor.bt", 4, False
    note = "the same four, one perf event each (tests/bench/floor.bt)"


class BpftraceLive(Bpftrace):
    id, name, script, probes = "bpftrace_live", "bpftrace script", "live.bt", 3
    note = "live bytes by process and stack in its maps, of 4,096 keys unless told otherwise; printed at its end " \
        "(tests/bench/live.bt)"


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"


def kernel_headers():
    """A folder with headers as bcc wants them, None where there are none. Those of another kernel do for a tool that reads
    nothing but registers. Debian's are in two parts, joined here."""
    if os.path.isdir(f"/lib/modules/{os.uname().release}/build"):
        return ""
    joined = world.DIR + "/headers"
    if os.path.isdir(joined):
        return joined
    common = sorted(glob.glob("/usr/src/linux-headers-*-common"))
    if not common:
        return None
    own = sorted(d for d in glob.glob(common[-1].replace("-common", "-*")) if not d.endswith("-common"))
    arch = {"x86_64": "x86", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    for part in (common[-1], *own[-1:]):
        for folder in ("include", f"arch/{arch}/include"):
            os.makedirs(f"{joined}/{folder}", exist_ok=True)
            subprocess.run(["cp", "-rs", "--remove-destination", f"{part}/{folder}/.", f"{joined}/{folder}"], check=True)
    return joined


class Memleak(Contender):
    """Knows malloc's family only, so it is given a library with those names before the same driver."""
    per_process = through_shim = True
    command = ""
    PERIOD = 1  # s between two reports
    options = ()

    def program(self):
        raise NotImplementedError

    def start(self, pid):
        env = world.environment()
        del env["LD_LIBRARY_PATH"]
        command = self.program(env)
        self.path = f"{world.DIR}/{self.id}.out"
        with open(self.path, "w", encoding="ascii") as out:
            self.p = subprocess.Popen([*command, "-p", str(pid), "-O", world.SHIM, "-o", "0", *self.options,
                                       str(self.PERIOD)], stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                      env={**env, "PYTHONUNBUFFERED": "1"})
        if not world.until(lambda: self.p.poll() is not None or "stacks with outstanding" in self.output(), 40):
            raise CannotAttach("no report in 40 s")
        if self.p.poll() is not None:
            raise CannotAttach(f"{command[0].rsplit('/', 1)[-1]} ended with {self.p.poll()}: {self.complaint()}")

    def output(self):
        with open(self.path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def complaint(self):
        """The exception, not what its clean-up says after it."""
        found = re.findall(r"^(?:Exception|Error|\w*Error): (.*)$", self.output(), re.M)
        return found[0][:200] if found else last_line(self.output())

    def books(self, work):
        before = self.output().count("stacks with outstanding")
        # The one that is being written now may have begun before the workload's end.
        world.until(lambda: self.p.poll() is not None or self.output().count("stacks with outstanding") >= before + 3, 60)
        return memleak_books(self.output())


def memleak_books(text):
    """From the last report that is followed by another, and so complete."""
    report = re.split(r"^\[[\d:]+\] Top \d+ stacks with outstanding.*$", text, flags=re.M)[-2]
    stacks, count = [], 0
    for part in re.split(r"^\s*(?=\d+ bytes in)", report, flags=re.M)[1:]:
        size, n = map(int, re.match(r"(\d+) bytes in (\d+) allocations", part).groups())
        stacks.append((size, [memleak_function(line) for line in part.splitlines()[1:] if line.strip()]))
        count += n
    return Books(sum(n for n, _ in stacks), count, stacks)


def memleak_function(line):
    """Of bcc's "name+0x1f [module]", and of what may stand before it: a number, an address."""
    name = re.sub(r"\+0x[0-9a-f]+.*|\s+\[[^]]*\]\s*$", "", line.strip())
    return re.sub(r"^(\d+ )?(\[<)?(0x)?[0-9a-f]{8,}(>\])?\s+", "", name)


class MemleakBcc(Memleak):
    id, name = "memleak_bcc", "bcc memleak"
    note = "memleak-bpfcc of bpfcc-tools on posix_memalign() and free() of a shim that makes the driver's calls"
    options = ("-T", "100000")

    def program(self, env):
        program = shutil.which("memleak-bpfcc") or "/usr/sbin/memleak-bpfcc"
        if not world.is_program(program):
            raise CannotAttach("bpfcc-tools is not installed")
        headers = kernel_headers()
        if headers is None:
            raise CannotAttach("it compiles at each start and finds no kernel headers; linux-headers are not installed")
        if headers:
            env["BCC_KERNEL_SOURCE"] = headers
        return [program]


class MemleakLibbpf(Memleak):
    id, name = "memleak_libbpf", "libbpf-tools memleak"
    note = "the same tool, compiled beforehand, from the package libbpf-tools"
    options = ("-T", "100000")

    def program(self, env):
        for program in (shutil.which("memleak"), "/usr/sbin/memleak"):
            if program and world.is_program(program):
                return [program]
        version = world.package_version("libbpf-tools")
        raise CannotAttach(f"libbpf-tools {version} has no memleak" if version else "libbpf-tools is not installed")


class Preload(Contender):
    id, name, library = "preload", "LD_PRELOAD, backtrace()", "preload.so"
    note = "tests/bench/preload.c: tables inside the program, 16 frames by glibc's backtrace()"
    per_process = is_inside = True
    misses_old = "a process that runs already must be restarted"

    def path(self):
        return f"{world.DIR}/{self.library}"

    def out(self):
        return f"{world.DIR}/{self.id}.json"

    def env(self):
        if not os.path.exists(self.path()):
            raise CannotAttach("built without libunwind, whose development files are not installed")
        return {"LD_PRELOAD": self.path(), "PRELOAD_OUT": self.out()}

    def lost(self):
        return 0

    def books(self, work):
        work.end()
        with open(self.out(), encoding="utf-8") as f:
            kept = json.load(f)
        stacks = [(s["bytes"], name_frames(s["frames"])) for s in kept["sites"] if s["bytes"]]
        return Books(kept["live_bytes"], kept["live_count"], stacks)


class PreloadUnwind(Preload):
    id, name, library = "preload_unwind", "LD_PRELOAD, libunwind", "preload_unwind.so"
    note = "the same with libunwind's unw_backtrace(), which caches"


def name_frames(frames):
    """Functions of return addresses given as module+offset; of those that are inlined there the one that holds them."""
    names = []
    for frame in frames:
        module, offset = frame.rsplit("+0x", 1)
        r = subprocess.run(["addr2line", "-f", "-i", "-e", module, hex(int(offset, 16) - 1)], capture_output=True,
                           text=True, check=False)
        names.append((r.stdout.splitlines()[0::2] or [frame])[-1])
    return names


BASELINES = (Nothing, NothingShim)
FLOORS = (GpuxrayBare, BpftraceFloor)
KEEPERS = (BpftraceLive, MemleakBcc, MemleakLibbpf, Preload, PreloadUnwind, Gpuxray)
ALL = BASELINES + FLOORS + KEEPERS
