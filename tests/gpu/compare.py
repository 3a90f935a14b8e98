# SPDX-License-Identifier: MIT
"""Runs each program under the daemon and compares what it knows of itself with `gpuxray status --json` and the records.

Prints one table last. Exit status 1 when anything differs or did not run. Usage: compare.py FOLDER_OF_BUILT_PROGRAMS
"""
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time

from daemon import OUT, WORK, Daemon, records

PROGRAM_S = 60  # to its JSON line
TOTAL_S = 270   # after that no further program is started
SETTLE_S = 5    # for the books and the record to arrive
HERE = "tests/gpu"


def programs(built):
    python = [sys.executable]
    return [
        ("cuda_static", [f"{built}/cuda_static", "cuda_static"]),
        ("cuda_shared", [f"{built}/cuda_shared", "cuda_shared"]),
        ("plain_driver", [f"{built}/plain_driver"]),
        ("torch_native", python + [f"{HERE}/torch_native.py"]),
        ("torch_matmul", python + [f"{HERE}/torch_native.py", "--matmul"]),
        ("torch_expandable", python + [f"{HERE}/torch_expandable.py"]),
        ("torch_async", python + [f"{HERE}/torch_async.py"]),
        ("cupy_alloc", python + [f"{HERE}/cupy_alloc.py"]),
        ("jax_alloc", python + [f"{HERE}/jax_alloc.py"]),
        ("jax_platform", python + [f"{HERE}/jax_alloc.py", "--platform"]),
    ]


def device_uuids():
    try:
        r = subprocess.run(["nvidia-smi", "-L"], capture_output=True, timeout=30, text=True)
        return re.findall(r"UUID: (GPU-[0-9a-f-]+)", r.stdout)
    except (OSError, subprocess.TimeoutExpired):
        return []


def nvml_mib(pid):
    """The driver's figure of the process, MiB, or None."""
    try:
        r = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
                           capture_output=True, timeout=30, text=True)
    except (OSError, subprocess.TimeoutExpired):
        return None
    for line in r.stdout.splitlines():
        m = re.match(r"\s*(\d+)\s*,\s*(\d+)", line)
        if m and int(m[1]) == pid:
            return int(m[2])
    return None


class Program:
    """A program that prints one JSON line and waits for a line."""

    def __init__(self, name, command):
        self.log = f"{WORK}/{name}.stderr"
        with open(self.log, "wb") as err:
            self.process = subprocess.Popen(["timeout", "-k", "5", str(PROGRAM_S + 60)] + command,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def facts(self):
        end = time.monotonic() + PROGRAM_S
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                return None
            if line is None:
                return None
            try:
                d = json.loads(line)
            except ValueError:
                continue
            if isinstance(d, dict) and "device_live" in d:
                return d

    def finish(self):
        try:
            self.process.stdin.write(b"\n")
            self.process.stdin.close()
        except OSError:
            pass
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def words(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()[-1500:]


def failure_problems(facts, tracked, found, uuids):
    """What is wrong with the failures: the count in the books, and the record of one."""
    low, high = facts["fails"]
    seen = tracked.get("fail_count", 0)
    if not low <= seen <= high:
        return [f"failed calls {seen}, not {low}..{high}"]
    if not low:
        return []
    mine = [r for r in found if r.get("GPUXRAY_EVENT") == "alloc_failure" and r.get("GPUXRAY_PID") == str(facts["pid"])]
    if not mine:
        return ["no alloc_failure record"]
    ask = facts["fail_bytes"]
    wrong = []
    for r in mine:
        bad = []
        if r.get("GPUXRAY_FUNCTION") not in facts["fail_functions"]:
            bad.append(f"function {r.get('GPUXRAY_FUNCTION')}")
        if ask is not None and r.get("GPUXRAY_BYTES") != str(ask):
            bad.append(f"asked {r.get('GPUXRAY_BYTES')}, not {ask}")
        if ask is None and not str(r.get("GPUXRAY_BYTES", "")).isdigit():
            bad.append(f"asked {r.get('GPUXRAY_BYTES')}")
        if r.get("GPUXRAY_ERROR") != "2 CUDA_ERROR_OUT_OF_MEMORY":
            bad.append(f"error {r.get('GPUXRAY_ERROR')}")
        if uuids and r.get("GPUXRAY_DEVICE") not in uuids:
            bad.append(f"device {r.get('GPUXRAY_DEVICE')}, not {uuids}")
        if not r.get("GPUXRAY_STACK") and not r.get("GPUXRAY_STACK_INFO"):
            bad.append("neither a stack nor why there is none")
        if not bad:
            return []
        wrong = wrong or bad
    return wrong


def bytes_problems(facts, tracked, uuids):
    problems = []
    for ours, theirs, tolerance in (("device_live", "live_bytes", facts["device_tolerance"]),
                                    ("host_live", "host_bytes", 0), ("managed_live", "managed_bytes", 0)):
        if facts[ours] is None:
            continue
        got = tracked.get(theirs)
        if got is None or abs(got - facts[ours]) > tolerance:
            problems.append(f"{theirs} {got}, not {facts[ours]}" + (f" +-{tolerance}" if tolerance else ""))
    devices = {d.get("uuid"): d.get("live_bytes", 0) for d in tracked.get("devices", [])}
    if sum(devices.values()) != tracked.get("live_bytes"):
        problems.append(f"devices {devices} do not add up to {tracked.get('live_bytes')}")
    if uuids and [u for u, n in devices.items() if n and u not in uuids]:
        problems.append(f"devices {list(devices)}, not {uuids}")
    if not tracked.get("covered", False):
        problems.append("not covered")
    return problems


def check(daemon, facts, uuids):
    """Asks until all is right or time is over. Returns (the process as tracked, problems)."""
    end = time.monotonic() + SETTLE_S
    while True:
        tracked = daemon.process_of(facts["pid"])
        if tracked is None:
            problems = ["not in gpuxray status"]
        else:
            problems = bytes_problems(facts, tracked, uuids)
            problems += failure_problems(facts, tracked, records(daemon.records_path), uuids)
        if not problems or time.monotonic() > end:
            return tracked or {}, problems
        time.sleep(0.3)


def run_one(daemon, name, command, uuids):
    row = {"name": name, "tracked": None, "own": None, "nvml": None, "fails": "", "why": ""}
    try:
        program = Program(name, command)
    except OSError as e:
        return dict(row, problems=[f"did not start: {e}"])
    try:
        facts = program.facts()
        if facts is None:
            print(f"--- {name}: no JSON line; its words:\n{program.words()}")
            return dict(row, problems=["printed nothing to compare"])
        tracked, problems = check(daemon, facts, uuids)
        nvml = nvml_mib(facts["pid"])
        if nvml is None and isinstance(tracked.get("driver_bytes"), int) and tracked["driver_bytes"] < 1 << 60:
            nvml = tracked["driver_bytes"] >> 20
        low, high = facts["fails"]
        return dict(row, tracked=tracked.get("live_bytes"), own=facts["device_live"], nvml=nvml, why=facts["why"], pid=facts["pid"],
                    fails=f"{tracked.get('fail_count')}/{low}" + (f"..{high}" if high != low else ""),
                    problems=problems)
    finally:
        program.finish()


def table(rows):
    lines = [f"{'program':<17}{'tracked':>13}{'own':>13}{'difference':>12}{'NVML MiB':>10}{'failures':>10}  verdict"]
    for r in rows:
        known = r["tracked"] is not None and r["own"] is not None
        difference = r["tracked"] - r["own"] if known else ""
        text = "ok" if not r["problems"] else "FAIL: " + "; ".join(r["problems"])
        if not r["problems"] and difference and r["why"]:
            text += f" ({r['why']})"
        show = {k: "-" if r[k] is None else r[k] for k in ("tracked", "own", "nvml")}
        lines.append(f"{r['name']:<17}{show['tracked']:>13}{show['own']:>13}{difference:>12}{show['nvml']:>10}"
                     f"{r['fails']:>10}  {text}")
    return "\n".join(lines)


def keep(rows, daemon, status, text):
    """A few files, for whoever was not there: at most eight may be carried home with those of the other scripts."""
    with open(f"{OUT}/status.json", "w", encoding="utf-8") as f:
        json.dump(status, f, indent=1)
    with open(f"{OUT}/table.txt", "w", encoding="utf-8") as f:
        f.write(text + "\n")
    with open(f"{OUT}/programs.stderr", "w", encoding="utf-8") as f:
        for r in rows:
            path = f"{WORK}/{r['name']}.stderr"
            if os.path.exists(path):
                with open(path, encoding="utf-8", errors="replace") as part:
                    f.write(f"--- {r['name']}\n{part.read()}\n")
    shutil.copyfile(daemon.records_path, f"{OUT}/records.jsonl")
    shutil.copyfile(daemon.log_path, f"{OUT}/daemon.txt")


def main():
    start = time.monotonic()
    uuids = device_uuids()
    print("devices:", ", ".join(uuids) or "nvidia-smi -L said none: uuids are not compared")
    daemon = Daemon("daemon")
    if not daemon.start():
        daemon.stop()
        return 1
    rows = []
    try:
        for name, command in programs(sys.argv[1]):
            if time.monotonic() - start > TOTAL_S:
                rows.append({"name": name, "tracked": None, "own": None, "nvml": None, "fails": "", "why": "",
                             "problems": ["not run: out of time"]})
                continue
            begun = time.monotonic()
            try:
                rows.append(run_one(daemon, name, command, uuids))
            except Exception as e:  # one that goes wrong in an unforeseen way must not take the table along
                rows.append({"name": name, "tracked": None, "own": None, "nvml": None, "fails": "", "why": "",
                             "problems": [f"{type(e).__name__}: {e}"]})
            print(f"{name}: {time.monotonic() - begun:.1f} s", flush=True)
    finally:
        time.sleep(1)
        status = daemon.status() or {}
        rc = daemon.stop()
    print(f"lost events: {status.get('lost_events')}, exact: {status.get('exact')}, daemon's exit status: {rc}")
    broken = [r["broken"] for r in records(daemon.records_path) if "broken" in r]
    if broken:
        print("lines of the JSON sink that are not JSON:", broken[:3])
    text = table(rows)
    keep(rows, daemon, status, text)
    print("\n" + text)
    # One that the driver has not yet struck from its list is there by its word alone.
    left = [p.get("pid") for p in status.get("processes", [])
            if p.get("covered", True) and p.get("pid") in [r.get("pid") for r in rows]]
    if left:
        print("processes that have ended and are still counted:", left)
    bad = left or any(r["problems"] for r in rows) or rc != 0 or broken or status.get("lost_events") != 0
    print("all as expected" if not bad else "NOT as expected")
    return 1 if bad else 0


if __name__ == "__main__":
    os.makedirs(OUT, exist_ok=True)
    os.makedirs(WORK, exist_ok=True)
    sys.exit(main())
