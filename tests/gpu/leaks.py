# SPDX-License-Identifier: MIT
"""Records the programs of leak_table.py on a real GPU, all at the same time, and labels what was recorded.

leaks.py [--seconds 540] [--set tune|held] [--only a,b] [--jobs N] [--check] [--again]
	[--config FILE --suffix tensors --rate 160]
Started by leaks.sh. One recorder sees all; split_trace.py makes one recording of each program out of its file. Result:
$OUT/leaks-SET.tar.gz with SET/NAME.trace.gz, labels-SET.txt (tests/traces/leaks/README.md), and in raw-SET/ what
programs and recorder said; the whole recording as $OUT/leaks-SET-all.trace.gz, the table as $OUT/leaks-SET.txt. With
--suffix that stands for SET. Exit status 1 if a program failed or a recording is not what its program says of itself.
"""
import argparse
import ctypes
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import traceback

import leak_label
from daemon import GPUXRAY, OUT, WORK
from leak_table import SCENARIOS

HERE = "tests/gpu"
BUILT = os.environ.get("BUILT") or f"{WORK}/built"
DEVICE_GIB, CONTEXT_MIB = 125, 600  # what all may take together; a context of each
READY_S = 90      # all wait so long for the slowest
START_S = 200     # one that is not ready by then is ended
GRACE_S = 12      # after its time is over
FINISH_S = 50     # of the limit, for what comes after the last program
RECORDER_S = 15   # until its probes are attached, if it does not say so
TAR_MAX = 15 << 20


def with_parent():
    """Nobody is left over when this program is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Recorder:
    def __init__(self, folder, config):
        self.path, self.log = f"{folder}/all.trace.gz", f"{folder}/record.log"
        with open(self.log, "wb") as err:
            command = [GPUXRAY, "record", "-o", self.path] + (["--config", config] if config else [])
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=err, stderr=err,
                                            preexec_fn=with_parent)

    def words(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()[-3000:]

    def wait_ready(self):
        end = time.monotonic() + RECORDER_S
        while time.monotonic() < end and self.process.poll() is None and not self.words():
            time.sleep(0.1)
        time.sleep(1.0)
        return self.process.poll() is None

    def stop(self, seconds):
        """Its exit status; None when it had to be killed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(timeout=max(5.0, seconds))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None


class Program:
    """One scenario: starting, ready, running, ended."""

    def __init__(self, name, args, folder):
        self.name, self.folder = name, folder
        self.scenario = SCENARIOS[name]
        source = f"{HERE}/{self.scenario.program}.py"
        command = [sys.executable, source] if os.path.exists(source) else [f"{BUILT}/{self.scenario.program}"]
        env = dict(os.environ, WORK=folder, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1",
                   LEAK_RATE=f"{args.rate:g}", **self.scenario.env)
        self.begun = time.monotonic()
        self.until = None
        self.status = None
        with open(f"{folder}/{name}.log", "wb") as log:
            self.process = subprocess.Popen(command + [name, args.set], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, env=env, start_new_session=True, preexec_fn=with_parent)

    def ready(self):
        try:
            with open(f"{self.folder}/{self.name}.marks", encoding="ascii") as f:
                return " ready" in f.read()
        except OSError:
            return False

    def go(self, until):
        self.until = until
        path = f"{self.folder}/{self.name}.go"
        with open(path + ".new", "w", encoding="ascii") as f:
            f.write(f"{until:.6f}\n")
        os.rename(path + ".new", path)

    def ended(self):
        if self.status is None:
            status = self.process.poll()
            if status is None:
                return False
            self.status = str(status)
        return True

    def overdue(self, now):
        return now > self.until + GRACE_S if self.until else now > self.begun + START_S

    def kill(self, why):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        if self.status is None:
            self.status = why


class Stage:
    """Who is on it, and for how long."""

    def __init__(self, args, names, folder, begun):
        self.args, self.folder = args, folder
        self.waiting, self.programs = list(names), []
        self.jobs = args.jobs or len(names)
        self.begun = begun
        self.opened = False  # the first ones begin together
        self.last_until = begun + args.limit - FINISH_S - GRACE_S if args.limit else float("inf")

    def on_stage(self):
        return [p for p in self.programs if p.status is None]

    def admit(self, now):
        while self.waiting and len(self.on_stage()) < self.jobs and now < self.last_until - 5:
            name = self.waiting.pop(0)
            try:
                self.programs.append(Program(name, self.args, self.folder))
            except OSError as e:
                print(f"{name}: did not start: {e}")

    def step(self):
        now = time.monotonic()
        self.admit(now)
        for p in self.programs:
            if not p.ended() and p.overdue(now):
                p.kill("killed: did not end" if p.until else "killed: never ready")
        idle = [p for p in self.on_stage() if p.until is None]
        ready = [p for p in idle if p.ready()]
        if not self.opened and (len(ready) == len(idle) or now > self.begun + READY_S):
            self.opened = True
            print(f"{len(ready)} of {len(idle)} programs are ready after {now - self.begun:.1f} s", flush=True)
        if self.opened:
            for p in ready:
                p.go(min(time.monotonic() + self.args.seconds, self.last_until))
        return bool(self.on_stage()) or (bool(self.waiting) and now < self.last_until - 5)

    def run(self):
        try:
            while self.step():
                time.sleep(0.2)
        finally:
            for p in self.programs:
                if p.status is None:
                    p.kill("killed: interrupted")
                else:
                    p.kill(p.status)  # workers that it left behind


def clean_folder(folder):
    os.makedirs(folder, exist_ok=True)
    for pattern in ("*.go", "*.marks", "*.log", "*.trace.gz", "*.json"):
        for path in glob.glob(f"{folder}/{pattern}"):
            os.remove(path)


def device_words():
    try:
        r = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.used", "--format=csv,noheader"],
                           capture_output=True, text=True, timeout=20)
        return r.stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as e:
        return str(e)


def record(args, names, folder):
    """What ran: written to runs.json, so that --again can start from there."""
    begun = time.monotonic()
    clean_folder(folder)
    recorder = Recorder(folder, args.config)
    facts = {"set": args.set, "folder": args.folder,
             "suffix": f"-{args.suffix}" if args.suffix else "",
             "config": args.config, "seconds": args.seconds, "device": device_words(), "programs": []}
    try:
        if not recorder.wait_ready():
            print(f"the recorder has ended with {recorder.process.poll()}; its words:\n{recorder.words()}")
            return None
        stage = Stage(args, names, folder, begun)
        stage.run()
        facts["programs"] = [{"name": p.name, "pid": p.process.pid, "status": p.status} for p in stage.programs]
        facts["not_started"] = [n for n in names if n not in {p.name for p in stage.programs}]
        time.sleep(1.5)  # the recorder sees them gone
    finally:
        left = (begun + args.limit - time.monotonic() - 15) if args.limit else 120
        facts["recorder"] = recorder.stop(left)
        with open(f"{folder}/runs.json", "w", encoding="utf-8") as f:
            json.dump(facts, f, indent=1)
    print(f"the recorder's exit status: {facts['recorder']}; its words:\n{recorder.words()}", flush=True)
    return facts


def pack(args, folder, made):
    path = f"{OUT}/leaks-{args.folder}.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for part in sorted(os.listdir(made)):
            tar.add(f"{made}/{part}", arcname=part)
        for pattern in ("*.marks", "*.log", "runs.json"):
            for raw in sorted(glob.glob(f"{folder}/{pattern}")):
                tar.add(raw, arcname=f"raw-{args.folder}/{os.path.basename(raw)}")
    whole = f"{folder}/all.trace.gz"
    if os.path.exists(whole):
        if os.path.getsize(path) + os.path.getsize(whole) < TAR_MAX:
            shutil.copy(whole, f"{OUT}/leaks-{args.folder}-all.trace.gz")
        else:
            print(f"{whole} is too large to be kept: {os.path.getsize(whole)} bytes")
    print(f"{path}: {os.path.getsize(path)} bytes")


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("--seconds", type=float, help="of each program, from its go on (540)")
    p.add_argument("--limit", type=float, default=585, help="of all together; 0 = none")
    p.add_argument("--set", choices=("tune", "held"), default="tune")
    p.add_argument("--only", default="", help="names, with commas between them")
    p.add_argument("--jobs", type=int, default=0, help="programs at the same time; 0 = all")
    p.add_argument("--stretch", type=float, default=20, help="for the labels: how much slower to play it")
    p.add_argument("--config", default="", help="configuration of the recorder, such as leak_tensors.conf")
    p.add_argument("--suffix", default="", help="folder of these recordings, and end of the names of their families")
    p.add_argument("--rate", type=float, default=0, help="so many tensors come and go a second at most; 0 = as they do")
    p.add_argument("--check", action="store_true", help="a short run: 25 s if --seconds is not given")
    p.add_argument("--again", action="store_true", help="only make recordings and labels of the last run again")
    args = p.parse_args()
    args.seconds = args.seconds or (25 if args.check else 540)
    args.folder = args.suffix or args.set
    return args


def main():
    args = arguments()
    names = [n for n in args.only.split(",") if n] or list(SCENARIOS)
    for n in names:
        if n not in SCENARIOS:
            sys.exit(f"no program {n}; there are {', '.join(SCENARIOS)}")
    asked = sum(sorted((SCENARIOS[n].budget_mib + CONTEXT_MIB for n in names), reverse=True)[:args.jobs or None])
    if asked > DEVICE_GIB * 1024:
        sys.exit(f"{asked} MiB at the same time are more than {DEVICE_GIB} GiB: use --jobs or --only")
    print(f"{len(names)} programs, {asked / 1024:.1f} GiB at most", flush=True)
    folder = f"{WORK}/leaks-{args.folder}"
    made = f"{folder}/made"
    os.makedirs(OUT, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if args.again:
        with open(f"{folder}/runs.json", encoding="utf-8") as f:
            facts = json.load(f)
    else:
        facts = record(args, names, folder)
    if facts is None:
        return 1
    shutil.rmtree(made, ignore_errors=True)
    os.makedirs(made)
    try:
        good, text = leak_label.make(dict(facts, stretch=args.stretch), folder, made)
    except Exception:  # what was recorded is still worth keeping
        good, text = False, traceback.format_exc()
    for name in facts.get("not_started", []):
        text += f"\n{name}: NOT RUN"
        good = False
    print(text, flush=True)
    with open(f"{OUT}/leaks-{args.folder}.txt", "w", encoding="utf-8") as f:
        f.write(text + "\n")
    pack(args, folder, made)
    return 0 if good and facts["recorder"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
