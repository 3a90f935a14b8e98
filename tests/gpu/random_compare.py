# SPDX-License-Identifier: MIT
"""Random operations on the real driver: what each process keeps of itself against `gpuxray status --json`, to the byte.

Prints one table last: a line a process, with the driver's own figure and what of it no allocation explains. Exit
status 1 when anything differs or did not run. Usage: random_compare.py PROGRAM; SEEDS, THREADS, EXCEPT, OPS from the
environment.
"""
import ctypes
import json
import os
import subprocess
import sys
import threading
import time

from daemon import OUT, WORK, Daemon

SEEDS = os.environ.get("SEEDS", "1 2 3 4").split()
THREADS = os.environ.get("THREADS", "1 4").split()
EXCEPT = os.environ.get("EXCEPT", "")
OPS = os.environ.get("OPS", "1500")
RUN_S = int(os.environ.get("RUN_S", "90"))  # one run, to its last ledger
SETTLE_S = 5
EXACT = ("start_time", "live_bytes", "host_bytes", "managed_bytes", "live_count", "alloc_count", "free_count",
         "fail_count", "unknown_free_count")


def nvml():
    """The driver's figure of each process over all devices, MiB."""
    try:
        r = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
                           capture_output=True, timeout=30, text=True)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found = {}
    for line in r.stdout.splitlines():
        words = [w.strip() for w in line.split(",")]
        if len(words) == 2 and all(w.isdigit() for w in words):
            found[int(words[0])] = found.get(int(words[0]), 0) + int(words[1])
    return found


def library():
    """The file behind libcuda.so.1, so that it is probed before the first process maps it."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as e:
        print(f"no driver library: {e}")
        return []
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as f:
        found = [line.split()[-1] for line in f if "/libcuda.so" in line]
    return ["--library", found[0]] if found else []


def lines_of(process, seconds):
    """What it prints up to its last ledger, by label; the second value says whether that came."""
    said = {}

    def read():
        for line in process.stdout:
            try:
                d = json.loads(line)
            except ValueError:
                continue
            said[d.get("label")] = d
            if d.get("label") == "end":
                return

    t = threading.Thread(target=read, daemon=True)
    t.start()
    t.join(seconds)
    return dict(said), "end" in said


def problems_of(p, ledger):
    if p is None:
        return ["not in gpuxray status"]
    found = [f"{k} {p.get(k)}, not {ledger[k]}" for k in EXACT if p.get(k) != ledger[k]]
    if ledger["peak_exact"] and p.get("peak_bytes") != ledger["peak_bytes"]:
        found.append(f"peak {p.get('peak_bytes')}, not {ledger['peak_bytes']}")
    if not ledger["peak_exact"] and not ledger["live_bytes"] <= p.get("peak_bytes", 0) <= ledger["peak_bytes"]:
        found.append(f"peak {p.get('peak_bytes')}, not in {ledger['live_bytes']}..{ledger['peak_bytes']}")
    devices = {d.get("uuid"): d.get("live_bytes", 0) for d in p.get("devices", [])}
    for d in ledger["devices"]:
        if devices.get(d["uuid"], 0) != d["live_bytes"]:
            found.append(f"{d['uuid'][:12]}: {devices.get(d['uuid'], 0)}, not {d['live_bytes']}")
    if sum(devices.values()) != p.get("live_bytes"):
        found.append(f"devices {devices} do not add up")
    if not p.get("exact"):
        found.append("not exact")
    return found


def compare(daemon, ledgers):
    """Asks until all is right or the time is over. Returns for each label what is tracked and what is wrong."""
    end = time.monotonic() + SETTLE_S
    while True:
        status = {p.get("pid"): p for p in (daemon.status() or {}).get("processes", [])}
        got = {label: (status.get(l["pid"]), problems_of(status.get(l["pid"]), l)) for label, l in ledgers.items()}
        if not any(problems for _, problems in got.values()) or time.monotonic() > end:
            return got
        time.sleep(0.3)


def row(name, label, **more):
    empty = {"ledger": None, "tracked": None, "nvml": None, "counts": "", "problems": []}
    return {"name": name, "label": label, **empty, **more}


def run_one(daemon, program, seed, threads, log):
    name = f"{seed}/{threads}"
    argv = [program, f"--seed={seed}", f"--threads={threads}", f"--ops={OPS}", "--real", "--ledger", "--wait-end"]
    if EXCEPT:
        argv.append(f"--except={EXCEPT}")
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True)
    rows = []
    try:
        said, is_whole = lines_of(process, RUN_S)
        families, zombie = said.pop("families", None), said.pop("zombie", None)
        if not rows and families:
            print(f"seed {seed}, {threads} threads: without {families['off'] or 'nothing'}", flush=True)
        figures = nvml()
        for label, (p, problems) in compare(daemon, said).items():
            ledger, p = said[label], p or {}
            rows.append(row(name, label.replace("end-", ""), ledger=ledger["live_bytes"], tracked=p.get("live_bytes"),
                            nvml=figures.get(ledger["pid"]), problems=problems,
                            counts=f"{ledger['alloc_count']}/{ledger['free_count']}/{ledger['fail_count']}"))
        if zombie and daemon.process_of(zombie["pid"]):
            rows.append(row(name, "zombie", problems=["has ended and is still counted"]))
        if not is_whole:
            rows.append(row(name, "end", problems=["did not come to its end; see random.stderr"]))
    finally:
        process.stdin.close()
        try:
            status = process.wait(timeout=20)
            if status:
                rows.append(row(name, "exit", problems=[f"exit status {status}; see random.stderr"]))
        except subprocess.TimeoutExpired:
            rows.append(row(name, "exit", problems=["did not end"]))
            os.killpg(process.pid, 9)
            process.wait()
    return rows


def show(value):
    return "-" if value is None else value


def table(rows):
    lines = [f"{'seed/thr':<10}{'process':<9}{'ledger':>13}{'tracked':>13}{'diff':>10}{'NVML MiB':>10}{'beyond':>8}"
             f"{'alloc/free/fail':>18}  verdict"]
    for r in rows:
        diff = r["tracked"] - r["ledger"] if None not in (r["tracked"], r["ledger"]) else None
        # Contexts, code and what pools keep in reserve: memory that no call asks for.
        beyond = r["nvml"] - (r["tracked"] >> 20) if None not in (r["nvml"], r["tracked"]) else None
        verdict = "ok" if not r["problems"] else "FAIL: " + "; ".join(r["problems"])
        lines.append(f"{r['name']:<10}{r['label']:<9}{show(r['ledger']):>13}{show(r['tracked']):>13}{show(diff):>10}"
                     f"{show(r['nvml']):>10}{show(beyond):>8}{r['counts']:>18}  {verdict}")
    return "\n".join(lines)


def main():
    # Each process makes a context on each device it sees, which takes the driver its time.
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0,1")
    daemon = Daemon("random", *library())
    if not daemon.start():
        daemon.stop()
        return 1
    rows = []
    with open(f"{OUT}/random.stderr", "wb") as log:
        for seed in SEEDS:
            for threads in THREADS:
                rows += run_one(daemon, sys.argv[1], seed, threads, log)
    time.sleep(1)
    status = daemon.status() or {}
    rc = daemon.stop()
    with open(f"{OUT}/random.stderr", encoding="utf-8", errors="replace") as log:
        words = log.read()
    if words:
        print("words of the programs:", words[-3000:])
    text = table(rows)
    with open(f"{OUT}/random.txt", "w", encoding="utf-8") as f:
        f.write(text + "\n")
    print(f"lost events: {status.get('lost_events')}, exact: {status.get('exact')}, daemon's exit status: {rc}")
    bad = not rows or any(r["problems"] for r in rows) or rc != 0 or status.get("lost_events") != 0
    print("all as expected" if not bad else "NOT as expected")
    print(text)
    return 1 if bad else 0


if __name__ == "__main__":
    os.makedirs(OUT, exist_ok=True)
    os.makedirs(WORK, exist_ok=True)
    sys.exit(main())
