# SPDX-License-Identifier: MIT
"""Runs each program under the daemon and compares the stacks of its records with what the program says of itself.

A mark (stacks_mark.py) is one allocation. Of the records of its process, thread and size one must have the Python
frames of the mark: function, file and line of each. Keys of a mark beside those that stacks_mark.py explains: "inner",
pattern of the innermost frame's file; "pieces", so many records must have these frames; "threads", a record of another
thread, where there is no Python, counts too; "function", to be found in a native frame; "chain", native functions that
must follow one another, innermost first.

Prints one table last. Exit status 1 when a frame differs. Usage: stacks_compare.py FOLDER_OF_BUILT_PROGRAMS [NAME]...
"""
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time

from compare import Program
from daemon import OUT, WORK, Daemon, records

TOTAL_S = 400  # after that no further program is started
LIMIT_S = 480  # and none is waited for longer
SETTLE_S = 6   # for records to arrive
END_S = 20     # for a program to end
HERE = "tests/gpu"
QUIET_SLACK_US = 100000
NATIVE = re.compile(r"^(.*)\+0x[0-9a-f]+ \([^()]*\)( at .*)?$|^\S.*\+0x[0-9a-f]+$|^0x[0-9a-f]+$|^\[[^]]*\]$")
LEFT_OUT = re.compile(r"^\[(\d+) .*\bframes?\b.*\]$")
PYTHON = re.compile(r"^(.*?) \((.*):(\d+)\)$")


def programs(built):
    """(name, command, seconds until it must have said that it is done)"""
    python = [sys.executable]
    torch = python + [f"{HERE}/stacks_torch.py"]
    return [
        ("native_static", [f"{built}/stacks_native_static"], 30),
        ("native_shared", [f"{built}/stacks_native_shared"], 30),
        ("torch_eager", torch + ["eager"], 90),
        ("torch_oom", torch + ["oom"], 60),
        ("torch_expandable", torch + ["expandable"], 60),
        ("torch_graphs", torch + ["graphs"], 60),
        ("torch_async", torch + ["async"], 60),
        ("torch_loader", python + [f"{HERE}/stacks_loader.py"], 120),
        ("cupy", python + [f"{HERE}/stacks_cupy.py"], 60),
        ("jax_platform", python + [f"{HERE}/stacks_jax.py", "platform"], 90),
        ("jax_pool", python + [f"{HERE}/stacks_jax.py", "pool"], 90),
        ("torch_ops", python + [f"{HERE}/stacks_ops.py", "12"], 120),
        ("torch_compile", python + [f"{HERE}/stacks_compile.py"], 150),
    ]


class Runner(Program):
    """A program whose last line says that it is done, or why it cannot run."""

    def __init__(self, name, command, seconds):
        self.seconds = seconds
        self.log = f"{WORK}/{name}.stderr"
        self.marks_path = f"{WORK}/{name}.marks"
        open(self.marks_path, "wb").close()
        limit = str(int(seconds + SETTLE_S + END_S + 10))
        with open(self.log, "wb") as err:
            self.process = subprocess.Popen(["timeout", "-k", "5", limit] + command, stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=err, start_new_session=True,
                                            env=dict(os.environ, STACKS_EXPECT=self.marks_path))
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def facts(self):
        end = time.monotonic() + self.seconds
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
            if isinstance(d, dict) and ("done" in d or "not_run" in d):
                return d

    def marks(self):
        with open(self.marks_path, encoding="utf-8") as f:
            return [json.loads(line) for line in f.read().split("\n")[:-1]]

    def finish(self):
        try:
            self.process.stdin.write(b"\n")
            self.process.stdin.close()
        except OSError:
            pass
        try:
            self.process.wait(timeout=END_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Stack:
    """Frames of a record, as its text has them."""

    def __init__(self, record):
        self.record = record
        self.python, self.native, self.lines = [], [], record.get("GPUXRAY_STACK", "").split("\n")
        self.left_out = 0
        for line in self.lines:
            m = LEFT_OUT.match(line)
            if not line:
                continue
            if m:
                self.left_out += int(m[1])
            elif NATIVE.match(line):
                self.native.append(line)
            else:
                p = PYTHON.match(line)
                self.python.append([p[1], p[2], int(p[3])] if p else [line, "", 0])
        self.info = record.get("GPUXRAY_STACK_INFO", "")
        self.tid = int(record.get("GPUXRAY_TID") or 0)


def short(path):
    """A file as records show it: what is below the last folder that says nothing."""
    m = list(re.finditer(r"(?:^|(?<=/))(?:site-packages|dist-packages|lib(?:64)?/python3\.\d+t?)/(?=.)", path))
    return path[m[-1].end():] if m else path


def same_frame(got, want):
    function, file, line = want
    return got[0] == function and got[1] in (file, short(file)) and got[2] == line


def same_frames(got, want):
    return len(got) == len(want) and all(map(same_frame, got, want))


def chain_found(stack, chain):
    """The functions one after the other, with nothing between them."""
    patterns = [re.compile(r"(?:^|[\s*&])" + re.escape(name) + r"[<(+\[]") for name in chain]
    return any(all(p.search(line) for p, line in zip(patterns, stack.native[i:]))
               for i in range(len(stack.native) - len(chain) + 1))


def judge(stack, mark):
    """(innermost right, all frames right)"""
    frames, mode = mark["frames"], mark["mode"]
    if mode == "native":
        good = not stack.python and bool(stack.native)
        if "chain" in mark:
            good = good and chain_found(stack, mark["chain"])
        return good, good
    if mark.get("threads") and stack.tid != mark["tid"]:
        good = not stack.python and bool(stack.native)
        return good, good
    if mode == "outer":
        inner = bool(stack.python) and any(same_frame(f, frames[0]) for f in stack.python)
        if "inner" in mark and inner:
            inner = bool(re.search(mark["inner"], stack.python[0][1]))
        return inner, same_frames(stack.python[-len(frames):], frames)
    return bool(stack.python) and same_frame(stack.python[0], frames[0]), same_frames(stack.python, frames)


def candidates(mark, stacks):
    found = []
    for s in stacks:
        r = s.record
        if (r.get("GPUXRAY_EVENT") == mark["event"] and r.get("GPUXRAY_PID") == str(mark["pid"])
                and (mark["bytes"] is None or r.get("GPUXRAY_BYTES") == str(mark["bytes"]))
                and (s.tid == mark["tid"] or mark.get("threads"))):
            found.append(s)
    return found


def check_mark(mark, stacks):
    """What came of one mark: the record that fits best, and what is wrong with it."""
    found = candidates(mark, stacks)
    if not found:
        return {"mark": mark, "stack": None, "inner": False, "equal": False, "why": "no record"}
    judged = [(judge(s, mark), s) for s in found]
    (inner, equal), best = max(judged, key=lambda j: (j[0][1], j[0][0], j[1].tid == mark["tid"]))
    why = ""
    if not equal and mark["mode"] == "native":
        why = "Python frames where there are none" if best.python else "not the chain of native functions"
    elif not equal:
        why = f"frames differ ({len(best.python)} Python frames, {len(mark['frames'])} expected"
        why += f"; {best.left_out} frames are left out of the record)" if best.left_out else ")"
    pieces = sum(j[0][1] for j in judged)
    if equal and pieces < mark.get("pieces", 1):
        equal, why = False, f"{pieces} records with these frames, not {mark['pieces']}"
    return {"mark": mark, "stack": best, "inner": inner, "equal": equal, "why": why}


def quiet_problems(mark, stacks):
    late = [s for s in stacks if s.record.get("GPUXRAY_PID") == str(mark["pid"])
            and s.record.get("GPUXRAY_EVENT") == "single_alloc"
            and int(s.record.get("GPUXRAY_TIME_USEC") or 0) > mark["us"] + QUIET_SLACK_US]
    return [f"{len(late)} records where none were expected"] if late else []


def check(daemon, marks):
    """Asks until all is right or time is over. Returns (results, problems)."""
    end = time.monotonic() + SETTLE_S
    pids = {str(m["pid"]) for m in marks}
    while True:
        stacks = [Stack(r) for r in records(daemon.records_path) if r.get("GPUXRAY_PID") in pids]
        results = [check_mark(m, stacks) for m in marks if m["mode"] != "quiet"]
        problems = [p for m in marks if m["mode"] == "quiet" for p in quiet_problems(m, stacks)]
        if (all(r["equal"] and r["inner"] for r in results) and not problems) or time.monotonic() > end:
            return results, problems
        time.sleep(0.4)


def frame_text(frame):
    return f"{frame[0]} ({short(frame[1])}:{frame[2]})"


def show(result):
    """For whoever has to find out why."""
    mark, stack = result["mark"], result["stack"]
    print(f"    {mark.get('what', '')} {mark['bytes']} bytes, thread {mark['tid']}, {mark['mode']}:",
          result["why"] or "innermost frame differs")
    print("      expected:", *(f"\n        {frame_text(f)}" for f in mark["frames"]), *mark.get("chain", []))
    if stack:
        print(f"      record (thread {stack.tid}; {stack.info or 'no STACK_INFO'}):",
              *(f"\n        {l}" for l in stack.lines))


def span(numbers):
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}..{high}"


def notes(results):
    """What is no failure but worth knowing."""
    said = []
    elsewhere = sum(1 for r in results if r["stack"] and r["equal"] and r["mark"].get("threads")
                    and r["stack"].tid != r["mark"]["tid"])
    if elsewhere:
        said.append(f"{elsewhere} allocated on a thread without Python")
    native = sum(1 for r in results if r["mark"]["mode"] == "native" and "chain" not in r["mark"])
    if native:
        said.append(f"{native} without Python frames, as on threads of autograd")
    for r in results:
        function = r["mark"].get("function")
        if function and r["stack"] and not any(function in line for line in r["stack"].native):
            said.append(f"{function} is in no native frame shown ({r['stack'].left_out} left out)")
    left_out = max([r["stack"].left_out for r in results if r["stack"]] + [0])
    if left_out:
        said.append(f"up to {left_out} frames left out for want of room")
    return said


def row_of(name, results, problems, facts):
    """One line of the table."""
    have = [r["stack"] for r in results if r["stack"]]
    infos = sorted({s.info for s in have if s.info})
    problems = list(problems)
    wrong = [r["why"] or "innermost frame differs" for r in results if not (r["equal"] and r["inner"])]
    if wrong:
        problems.append(f"{len(wrong)} of {len(results)} wrong: {'; '.join(sorted(set(wrong)))[:200]}")
    if not results:
        problems.append("marked nothing")
    pure = results and all(r["mark"]["mode"] == "native" for r in results)
    return {"name": name, "marks": len(results),
            "inner": "-" if pure else f"{sum(r['inner'] for r in results)}/{len(results)}",
            "equal": f"{sum(r['equal'] for r in results)}/{len(results)}" + (" (chain)" if pure else ""),
            "native": span([len(s.native) for s in have]) if have else "-",
            "python": span([len(s.python) for s in have]) if have else "-",
            "info": f"{sum(bool(s.info) for s in have)}" + (f": {', '.join(infos)[:80]}" if infos else ""),
            "problems": problems, "notes": notes(results), "facts": facts}


def empty_row(name, problem=None, note=None):
    return {"name": name, "marks": 0, "inner": "-", "equal": "-", "native": "-", "python": "-", "info": "-",
            "problems": [problem] if problem else [], "notes": [note] if note else [], "facts": {}}


def run_one(daemon, name, command, seconds, kept):
    try:
        program = Runner(name, command, seconds)
    except OSError as e:
        return empty_row(name, f"did not start: {e}")
    try:
        facts = program.facts()
        if facts and "not_run" in facts:
            return empty_row(name, note=f"not run: {facts['not_run']}")
        marks = program.marks()
        results, problems = check(daemon, marks)
        if facts is None:
            print(f"--- {name}: did not say that it is done; its words:\n{program.words()}")
            problems.append("did not come to its end")
        for r in [r for r in results if not (r["equal"] and r["inner"])][:3]:
            show(r)
        kept[name] = results
        row = row_of(name, results, problems, facts or {})
        if name == "torch_ops":
            row["problems"] += counter_problems(daemon, facts or {})
        return row
    finally:
        program.finish()


COUNTERS = ("stacks_known", "stacks_copied", "stacks_sampled", "stack_lost", "stack_fault")
CHECKS = ("checked", "mismatched", "resolved", "incomplete", "dropped", "learned", "unlearnable", "learn_failed",
          "python_processes", "python_failed")


def counter_problems(daemon, facts):
    """The daemon's own check of what it knows again, after the loop over many operators."""
    status = daemon.status() or {}
    counters, stacks = status.get("counters", {}), status.get("stacks", {})
    print(f"--- counters after {facts.get('operator_calls')} operators, {facts.get('distinct')} distinct stacks:",
          ", ".join([f"{k} {counters.get(k, '-')}" for k in COUNTERS] + [f"{k} {stacks.get(k, '-')}" for k in CHECKS]))
    if "mismatched" not in stacks or "checked" not in stacks:
        return ["status has no counters of checked stacks"]
    if stacks["mismatched"]:
        return [f"{stacks['mismatched']} of {stacks['checked']} known stacks were not what they were taken for"]
    return [] if stacks["checked"] else ["no known stack was checked"]


def table(rows):
    head = ("workload", "marked allocations", "innermost Python line right", "all Python frames equal", "Python frames",
            "native frames", "STACK_INFO seen", "verdict")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for r in rows:
        verdict = "FAIL: " + "; ".join(r["problems"]) if r["problems"] else "ok" if r["marks"] else "not run"
        if r["notes"]:
            verdict += f" ({'; '.join(r['notes'])})"
        lines.append("| " + " | ".join(str(x) for x in (r["name"], r["marks"], r["inner"], r["equal"], r["python"],
                                                       r["native"], r["info"], verdict)) + " |")
    return "\n".join(lines)


def journal_text(record):
    """A record as journalctl shows it, first for eyes and then with all its fields."""
    when = time.strftime("%b %d %H:%M:%S", time.localtime(int(record.get("GPUXRAY_TIME_USEC") or 0) / 1e6))
    lines = [l for l in record.get("MESSAGE", "").split("\n") if l]
    text = [f"{when} {os.uname().nodename} gpuxray: {lines[0] if lines else ''}"] + [f"    {l}" for l in lines[1:]]
    for name, value in record.items():
        if name != "MESSAGE":
            text.append(f"    {name}=" + value.replace("\n", "\n" + " " * (len(name) + 5)))
    return "\n".join(text)


def sample_records(kept):
    """Two for the README: the deepest of a training step, and the failed allocation."""
    found = []
    for name in ("torch_eager", "torch_oom", "torch_loader", "torch_async", "cupy", "native_static"):
        good = [r["stack"] for r in kept.get(name, []) if r["stack"] and r["equal"] and r["mark"]["mode"] != "native"]
        if good:
            found.append(max(good, key=lambda s: len(s.python) + len(s.native)).record)
    return found[:2]


def start_daemon(number):
    daemon = Daemon(f"stacks{number}", "--config", f"{HERE}/stacks_daemon.conf", "--rules", f"{HERE}/stacks_rules.conf")
    return daemon if daemon.start() else (daemon.stop(), None)[1]


def words(daemon):
    with open(daemon.log_path, encoding="utf-8", errors="replace") as f:
        return f.read()[-3000:]


def run_all(chosen, rows, kept):
    """False when a daemon died or did not end well."""
    start = time.monotonic()
    good, number, daemon = True, 0, None
    for name, command, seconds in chosen:
        if time.monotonic() - start > TOTAL_S:
            rows.append(empty_row(name, "not run: out of time"))
            continue
        if daemon is None or daemon.process.poll() is not None:
            if daemon:
                good = False
                print(f"THE DAEMON HAS ENDED with {daemon.process.poll()}; its words:\n{words(daemon)}")
            daemon, number = start_daemon(number), number + 1
            if daemon is None:
                rows.append(empty_row(name, "no daemon"))
                good = False
                continue
        begun = time.monotonic()
        try:
            rows.append(run_one(daemon, name, command, min(seconds, LIMIT_S - (begun - start)), kept))
        except Exception as e:  # one that goes wrong in an unforeseen way must not take the table along
            rows.append(empty_row(name, f"{type(e).__name__}: {e}"))
        print(f"{name}: {time.monotonic() - begun:.1f} s, {'; '.join(rows[-1]['problems']) or 'ok'}", flush=True)
    if daemon is None:
        return False
    status = daemon.status() or {}
    print(f"events: {status.get('counters', {}).get('events')}, lost: {status.get('lost_events')},",
          f"exact: {status.get('exact')}")
    with open(f"{OUT}/stacks_status.json", "w", encoding="utf-8") as f:
        json.dump(status, f, indent=1)
    rc = daemon.stop()
    print(f"the daemon's exit status: {rc}; its words:\n{words(daemon)}")
    return good and rc == 0 and status.get("lost_events") == 0


def keep_records(number):
    """All records of all daemons in one file, for whoever was not there."""
    with open(f"{OUT}/stacks_records.jsonl", "wb") as out:
        for i in range(number):
            path = f"{WORK}/stacks{i}.jsonl"
            if os.path.exists(path):
                with open(path, "rb") as f:
                    out.write(f.read())


def main():
    os.makedirs(OUT, exist_ok=True)
    os.makedirs(WORK, exist_ok=True)
    chosen = [p for p in programs(sys.argv[1]) if not sys.argv[2:] or p[0] in sys.argv[2:]]
    rows, kept = [], {}
    good = run_all(chosen, rows, kept)
    keep_records(len(chosen))
    for record in sample_records(kept):
        print("\n" + journal_text(record))
    print("\n" + table(rows))
    bad = not good or not rows or any(r["problems"] for r in rows)
    print("\nNOT as expected" if bad else "\nall as expected")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
