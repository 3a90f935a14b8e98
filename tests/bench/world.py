# SPDX-License-Identifier: MIT
"""Where contenders meet: copies of the stand-in driver and of the workloads, processes of them, and what a tracer costs."""
import glob
import json
import os
import platform
import re
import shutil
import stat
import subprocess
import threading
import time

DIR = "/run/bench"
LIBRARY = DIR + "/libtoy_.so.1"
SHIM = DIR + "/malloc_shim.so"
STATE = DIR + "/gpu-state"
# A name that nobody looks for: a daemon that somebody else runs here would probe a libcuda.so.1 of ours too, and all
# figures would hold the cost of its probes.
REAL_NAME, OUR_NAME = b"libcuda.so.1", b"libtoy_.so.1"


def build(fake, built):
    """Copies; those of the driver and of what needs it under another name of equal length."""
    os.makedirs(DIR, exist_ok=True)
    for name in ("libcuda.so.1", "work_rate", "work_rate_nofp"):
        with open(f"{fake}/{name}", "rb") as f:
            data = f.read().replace(REAL_NAME, OUR_NAME)
        path = f"{DIR}/{name}".replace(REAL_NAME.decode(), OUR_NAME.decode())
        with open(path, "wb") as f:
            f.write(data)
        os.chmod(path, 0o755)
    for path in (fake + "/work_many", fake + "/libnvidia-ml.so.1", *glob.glob(built + "/*.so")):
        shutil.copy(path, DIR)
    # bpftrace complains at its end where it is not; in the namespace of this run alone.
    subprocess.run(["mount", "-t", "tracefs", "tracefs", "/sys/kernel/tracing"], stderr=subprocess.DEVNULL, check=False)


def environment():
    """The library that work_rate is linked with is found beside it."""
    return {**os.environ, "LD_LIBRARY_PATH": DIR}


class Work:
    """A work_rate that waits before its first call and before its end."""

    def __init__(self, *args, program="work_rate", env=None):
        self.p = subprocess.Popen([f"{DIR}/{program}", "--wait-start", "--wait-end", "--ledger", *map(str, args)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  env={**environment(), **(env or {})})
        self.pid = self.p.pid
        self.rate = self.ledger = None
        self._line()

    def _line(self):
        line = self.p.stdout.readline()
        if not line:
            raise RuntimeError(f"the workload ended with {self.p.wait()}")
        return json.loads(line)

    def go(self):
        self.p.stdin.write("\n")
        self.p.stdin.flush()

    def result(self):
        """Waits until it has made its calls; it still holds its blocks then."""
        self.rate = self._line()
        self.ledger = self._line()
        return self.rate

    def end(self):
        if not self.p.stdin.closed:
            self.p.stdin.close()
        self.p.wait()
        self.p.stdout.close()


def cpu_ns(pid):
    total = 0
    for t in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{t}/schedstat", encoding="ascii") as f:
            total += int(f.read().split()[0])
    return total


def rss_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmRSS"))


def map_bytes(pid):
    """Kernel memory of the BPF maps that a process holds, each once: several file descriptors may be of one map."""
    maps = {}
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        try:
            with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii", errors="replace") as f:
                fields = dict(line.split(":", 1) for line in f if ":" in line)
        except OSError:
            continue
        if "map_type" in fields:
            maps[fields.get("map_id", fd).strip()] = int(fields["memlock"])
    return sum(maps.values())


def load():
    return os.getloadavg()[0]


class LoadWatch:
    """The highest load average from its making to stop()."""

    def __init__(self):
        self.highest, self.ended = load(), threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self):
        while not self.ended.wait(2):
            self.highest = max(self.highest, load())

    def stop(self):
        self.ended.set()
        self.thread.join()
        return max(self.highest, load())


def first_match(path, pattern):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            m = re.search(pattern, f.read(), re.M)
    except OSError:
        return None
    return m[1].strip() if m else None


def version_of(*command):
    try:
        r = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    m = re.search(r"\d+(\.\d+)+\S*", r.stdout + r.stderr)
    return m[0] if m else None


def package_version(name):
    return version_of("dpkg-query", "-W", "-f", "${Version}", name)


def machine():
    """What the figures depend on; no names of hosts, no paths, no date."""
    return {
        "kernel": platform.release().split("-")[0],
        "architecture": platform.machine(),
        "cpu": first_match("/proc/cpuinfo", r"^model name\s*:\s*(.*)$") or "unknown",
        "cores": os.cpu_count(),
        "memory_bytes": int(first_match("/proc/meminfo", r"^MemTotal:\s*(\d+)") or 0) << 10,
        "is_virtual": bool(first_match("/proc/cpuinfo", r"^flags\s*:.*\b(hypervisor)\b")),
    }


def is_program(path):
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)
    except OSError:
        return False


def until(what, seconds=20, step=0.02):
    """Waits until what() is true; False when it never was."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(step)
    return True
