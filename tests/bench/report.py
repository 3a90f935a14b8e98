#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A journal of a week of 50 processes, and what a report of it costs.

  report.py make realistic|worst DIR    writes the journal there (takes a minute or two)
  report.py run GPUXRAY DIR [FORMAT]    reports the week: seconds, CPU seconds, memory at its highest

realistic: a process moves now and then, some 150 samples a day each, jobs come and go, some incidents and failures. worst:
a sample each minute of each process, which is as fast as they are ever written.
"""
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
import uuid

REMOTE = "/lib/systemd/systemd-journal-remote"
WEEK = 7 * 86400
BEGIN = 1_790_000_000  # s
PROCESSES = 50
DEVICES = 8
GIB = 1 << 30
DEVICE_BYTES = 150 * GIB
HEALTH_SEC = 300

MESSAGE_IDS = {
    "sample": "e843a15b07574300982030ee62feb2b7", "process_exit": "b0483f45aded4bc094a0009ee50d7d0b",
    "site": "63196a7f7d6c429caabad663abd48e1e", "start": "e2dc928bc4be4d32aeac864c812a7616",
    "health": "fdc7f2bde110495093ed4d5acd63a05b", "live_bytes": "018c87ef31974774962025cc2d1f37f4",
    "alloc_failure": "80869a82cb634418bf6231e200894b66",
}


class Writer:
    def __init__(self, out):
        self.out = out
        self.count = 0
        self.trusted = (
            "_BOOT_ID=0a1b2c3d4e5f60718293a4b5c6d7e8f9\n_MACHINE_ID=f9e8d7c6b5a493827160f5e4d3c2b1a0\n"
            "_HOSTNAME=gpu01\n_TRANSPORT=journal\n_UID=0\n_GID=0\n_COMM=gpuxray\n_EXE=/usr/bin/gpuxray\n"
            "_CMDLINE=/usr/bin/gpuxray run\n_CAP_EFFECTIVE=c00028000c\n_SELINUX_CONTEXT=unconfined\n"
            "_SYSTEMD_CGROUP=/system.slice/gpuxray.service\n_SYSTEMD_UNIT=gpuxray.service\n"
            "_SYSTEMD_SLICE=system.slice\n_SYSTEMD_INVOCATION_ID=5d0f4cdd3fce4a59a1f1b6f1d5b8b7aa\n_PID=811\n"
            "_RUNTIME_SCOPE=system\nSYSLOG_IDENTIFIER=gpuxray\nSYSLOG_FACILITY=3\n")

    def write(self, usec, event, message, fields, priority=6):
        lines = [f"__REALTIME_TIMESTAMP={usec + 350}\n__MONOTONIC_TIMESTAMP={usec - BEGIN * 1000000 + 10**9}\n",
                 self.trusted, f"_SOURCE_REALTIME_TIMESTAMP={usec + 200}\nPRIORITY={priority}\nMESSAGE={message}\n",
                 f"MESSAGE_ID={MESSAGE_IDS[event]}\nGPUXRAY_EVENT={event}\nGPUXRAY_TIME_USEC={usec}\n"]
        for name, value in fields:
            if isinstance(value, str) and "\n" in value:
                lines.append(f"{name}\n")
                data = value.encode()
                self.out.write("".join(lines).encode())
                self.out.write(len(data).to_bytes(8, "little") + data + b"\n")
                lines = []
            else:
                lines.append(f"{name}={value}\n")
        lines.append("\n")
        self.out.write("".join(lines).encode())
        self.count += 1


class Process:
    def __init__(self, number, pid, begin, end):
        self.number, self.pid, self.begin, self.end = number, pid, begin, end
        self.device = number % DEVICES
        self.live = self.low = self.high = 0
        self.high_usec = self.peak = self.peak_usec = self.allocs = self.last = 0
        self.stacks = [f"{random.getrandbits(64):016x}" for _ in range(6)]
        self.goal = random.randrange(2 * GIB, 20 * GIB)
        self.is_new = True

    def identity(self):
        fields = [("GPUXRAY_SCOPE", "process"), ("GPUXRAY_PID", self.pid), ("GPUXRAY_START_TIME", self.begin * 100),
                  ("GPUXRAY_COMM", "python3"), ("GPUXRAY_USER", f"user{self.number % 9}"),
                  ("GPUXRAY_UID", 1000 + self.number % 9), ("GPUXRAY_UNIT", f"train-{self.number}.service"),
                  ("GPUXRAY_RUNTIME", "cuda"), ("GPUXRAY_TAG", f"project-{self.number % 5}")]
        if self.is_new:
            fields += [("GPUXRAY_EXE", "/usr/bin/python3.12"),
                       ("GPUXRAY_CMDLINE", f"python3 train.py --config run-{self.number}.yaml --epochs 90")]
        return fields

    def uuid(self):
        return f"GPU-{uuid.UUID(int=0x5a5a0000000000000000000000000000 + self.device)}"

    def on_device(self, used):
        return [("GPUXRAY_DEVICE", self.uuid()), ("GPUXRAY_DEVICE_INDEX", self.device),
                ("GPUXRAY_DEVICE_BYTES", DEVICE_BYTES), ("GPUXRAY_DEVICE_USED_BYTES", used)]

    def books(self):
        return [("GPUXRAY_LIVE_BYTES", self.live), ("GPUXRAY_LIVE_COUNT", self.live >> 21),
                ("GPUXRAY_PEAK_BYTES", self.peak), ("GPUXRAY_HOST_BYTES", 64 << 20), ("GPUXRAY_MANAGED_BYTES", 0),
                ("GPUXRAY_DRIVER_BYTES", self.live + (412 << 20)), ("GPUXRAY_ALLOC_COUNT", self.allocs),
                ("GPUXRAY_FREE_COUNT", max(0, self.allocs - (self.live >> 21))), ("GPUXRAY_FAIL_COUNT", 0),
                ("GPUXRAY_ALLOCATED_BYTES", self.allocs << 21), ("GPUXRAY_EXACT", 1), ("GPUXRAY_LOST_EVENTS", 0)]

    def sites(self):
        left, lines = self.live, []
        for stack in self.stacks[:5]:
            part = left * 2 // 3
            lines.append(f"{stack} {part} {part >> 21}")
            left -= part
        return ("GPUXRAY_TOP_SITES", "\n".join(lines))

    def move(self, usec):
        before = self.live
        self.live = max(2 << 20, int(self.goal * random.uniform(0.4, 1.0)) & ~0x1fffff)
        self.low, self.high = min(before, self.live), max(before, self.live) + (random.randrange(64) << 21)
        self.high_usec = usec - random.randrange(1, 60000000)
        self.allocs += random.randrange(5000, 50000)
        if self.high > self.peak:
            self.peak, self.peak_usec = self.high, self.high_usec


def write_sample(w, p, usec, used):
    window = (usec - p.last) // 1000000 if p.last else 1
    w.write(usec, "sample", f"python3[{p.pid}] train-{p.number}.service holds {p.live / GIB:.1f} GiB on GPU {p.device}",
            p.identity() + p.on_device(used) + [
                ("GPUXRAY_SEVERITY", "info"), ("GPUXRAY_BYTES", p.live), ("GPUXRAY_LOW_BYTES", p.low),
                ("GPUXRAY_HIGH_BYTES", p.high), ("GPUXRAY_HIGH_TIME_USEC", p.high_usec), ("GPUXRAY_WINDOW_SEC", window),
                ("GPUXRAY_UNTRACKED_BYTES", 412 << 20)] + p.books() + [p.sites()])
    if p.is_new:
        for stack in p.stacks:
            frames = "\n".join(f"layer_{stack[:4]}_{i} (model.py:{i * 7 + 3})" for i in range(24))
            w.write(usec, "site", f"site {stack} of python3[{p.pid}]", [
                ("GPUXRAY_STACK_ID", stack), ("GPUXRAY_STACK", frames), ("GPUXRAY_FUNCTION", "cuMemAlloc_v2"),
                ("GPUXRAY_PID", p.pid), ("GPUXRAY_COMM", "python3"), ("GPUXRAY_UNIT", f"train-{p.number}.service")])
    p.is_new = False
    p.last = usec


def write_exit(w, p, usec):
    p.live = 0
    w.write(usec, "process_exit", f"python3[{p.pid}] ended, held {p.peak / GIB:.1f} GiB at most",
            p.identity() + p.on_device(50 * GIB) + p.books() + [
                ("GPUXRAY_PEAK_TIME_USEC", p.peak_usec), ("GPUXRAY_DURATION_SEC", p.end - p.begin),
                ("GPUXRAY_DEVICE_PEAKS", f"{p.uuid()} {p.peak} {p.peak_usec}"), ("GPUXRAY_STACK_ID", p.stacks[0])])


def write_incident(w, p, usec, used, incident, is_end):
    w.write(usec, "live_bytes", f"python3[{p.pid}] holds {p.live / GIB:.1f} GiB, over 16 GiB",
            p.identity() + p.on_device(used) + p.books() + [
                ("GPUXRAY_RULE", "quota"), ("GPUXRAY_SEVERITY", "warning"),
                ("GPUXRAY_STATE", "resolved" if is_end else "firing"), ("GPUXRAY_FIRING", int(not is_end)),
                ("GPUXRAY_INCIDENT", incident), ("GPUXRAY_SEQ", 1 + is_end), ("GPUXRAY_VALUE", p.live),
                ("GPUXRAY_LIMIT", 16 * GIB), ("GPUXRAY_VALUE_UNIT", "bytes"), ("GPUXRAY_STACK_ID", p.stacks[0])] + (
                    [("GPUXRAY_DURATION_SEC", 600)] if is_end else []), 4)


def write_failure(w, p, usec, used):
    w.write(usec, "alloc_failure", f"python3[{p.pid}] was refused 8 GiB", p.identity() + p.on_device(used) + p.books() + [
        ("GPUXRAY_RULE", "oom"), ("GPUXRAY_SEVERITY", "error"), ("GPUXRAY_BYTES", 8 * GIB),
        ("GPUXRAY_FUNCTION", "cuMemAlloc_v2"), ("GPUXRAY_ERROR", "2 CUDA_ERROR_OUT_OF_MEMORY"),
        ("GPUXRAY_STACK_ID", p.stacks[0])], 3)


def lives(kind):
    """When which process is there: in the realistic case jobs of hours to days follow each other in each place."""
    pid = 4000
    for place in range(PROCESSES):
        at = BEGIN
        while at < BEGIN + WEEK:
            end = BEGIN + WEEK if kind == "worst" else at + random.randrange(6 * 3600, 72 * 3600)
            pid += 7
            yield Process(place, pid, at, end)
            at = end + random.randrange(60, 600)


def generate(kind, out):
    w = Writer(out)
    random.seed(4711)
    waiting = sorted(lives(kind), key=lambda p: p.begin)
    running, firing = [], []
    chance = 1.0 if kind == "worst" else 150 / 1440
    for minute in range(WEEK // 60):
        now = BEGIN + minute * 60
        while waiting and waiting[0].begin <= now:
            running.append(waiting.pop(0))
        if minute == 0 or now % HEALTH_SEC == 0:
            w.write(now * 1000000, "health" if minute else "start", "health: fine", [
                ("GPUXRAY_SEVERITY", "info"), ("GPUXRAY_RECORDS_WRITTEN", w.count), ("GPUXRAY_HEALTH_SEC", HEALTH_SEC),
                ("GPUXRAY_LOST_EVENTS", 0), ("GPUXRAY_EXACT", 1), ("GPUXRAY_VERSION", "0.1.0")])
        used = [0] * DEVICES
        for p in running:
            used[p.device] += p.live
        for i, p in enumerate(running):
            usec = now * 1000000 + 1000 + i * 17
            if now >= p.end:
                write_exit(w, p, usec)
            elif p.is_new or random.random() < chance or usec - p.last > 3600 * 1000000:
                p.move(usec)
                write_sample(w, p, usec, used[p.device])
                if random.random() < 0.0005:
                    firing.append((minute + 10, p, f"{random.getrandbits(128):032x}"))
                    write_incident(w, p, usec, used[p.device], firing[-1][2], False)
                if random.random() < 0.0002:
                    write_failure(w, p, usec, used[p.device])
        for end, p, incident in [f for f in firing if f[0] <= minute]:
            write_incident(w, p, now * 1000000 + 2000, used[p.device], incident, True)
        firing = [f for f in firing if f[0] > minute]
        running = [p for p in running if now < p.end]
    return w.count


def make(kind, directory):
    os.makedirs(directory, exist_ok=True)
    remote = subprocess.Popen([REMOTE, "-o", os.path.join(directory, "week.journal"), "--split-mode=none", "-"],
                              stdin=subprocess.PIPE)
    with remote.stdin:
        count = generate(kind, remote.stdin)
    if remote.wait() != 0:
        sys.exit(f"{REMOTE}: failed")
    size = sum(e.stat().st_size for e in os.scandir(directory))
    print(f"{kind}: {count} records, {size >> 20} MiB of journal in {directory}")


def family(pid):
    """A process and its children, which read the journal for it."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [pid] + [int(child) for child in f.read().split()]
    except OSError:
        return [pid]


def watch(pid, most, is_over):
    """Memory at its highest, of all of them; what several share counts once."""
    while not is_over.wait(0.02):
        now = {"Pss_Anon": 0, "Pss_File": 0}
        for one in family(pid):
            try:
                with open(f"/proc/{one}/smaps_rollup", encoding="utf-8") as f:
                    for line in f:
                        name, _, value = line.partition(":")
                        if name in now:
                            now[name] += int(value.split()[0])
            except OSError:
                pass
        if sum(now.values()) > sum(most.values()):
            most.update(now)


def run(binary, directory, form="json"):
    since, until = (time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(t)) for t in (BEGIN, BEGIN + WEEK))
    most, is_over = {"Pss_Anon": 0, "Pss_File": 0}, threading.Event()
    with tempfile.TemporaryFile() as out:
        begin = time.monotonic()
        child = subprocess.Popen([binary, "report", "-D", directory, "--since", since, "--until", until, "--format", form],
                                 stdout=out)
        watcher = threading.Thread(target=watch, args=(child.pid, most, is_over))
        watcher.start()
        status = child.wait()
        seconds = time.monotonic() - begin
        is_over.set()
        watcher.join()
        size = out.seek(0, os.SEEK_END)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"exit {status}, {seconds:.2f} s, CPU {usage.ru_utime:.2f} s user {usage.ru_stime:.2f} s system; at most "
          f"{sum(most.values()) / 1024:.0f} MiB resident in all its processes together (the largest alone {usage.ru_maxrss >> 10}), {most['Pss_Anon'] / 1024:.0f} MiB "
          f"of it their own, the rest mapped files; {size >> 10} KiB of {form}; load {os.getloadavg()[0]:.1f} "
          f"on {os.cpu_count()} CPUs")
    return status


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "make" and sys.argv[2] in ("realistic", "worst"):
        make(sys.argv[2], sys.argv[3])
    elif len(sys.argv) in (4, 5) and sys.argv[1] == "run":
        sys.exit(run(*sys.argv[2:]))
    else:
        sys.exit(__doc__)
