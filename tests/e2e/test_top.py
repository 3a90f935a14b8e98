#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`gpuxray top`: its tables, its JSON, and its screen in a real terminal (tmux)."""
import contextlib
import json
import os
import re
import shutil
import signal

import harness as h

MIB = h.MIB
UTF8 = "C.UTF-8"


class Terminal:
    """A shell in a terminal of tmux, of which the screen is read and to which keys are sent."""

    def __init__(self, case, width=100, height=30, env=None):
        if not shutil.which("tmux"):
            raise h.Skip("there is no tmux")
        self.case = case
        self.env = {**os.environ, "TMUX_TMPDIR": case.dir, "LC_ALL": UTF8, "TMUX": ""}
        conf = case.write("tmux.conf", "set -g status off\nset -g default-terminal screen-256color\n")
        shell = ["env", f"LC_ALL={UTF8}", "PS1=prompt> ", "ENV=", "LD_LIBRARY_PATH=" + h.FAKE,
                 "FAKE_GPU_STATE=" + case.path("gpu-state"), *(f"{k}={v}" for k, v in (env or {}).items()), "sh", "-i"]
        case.finally_(self.tmux, "kill-server")
        self.tmux("-u", "-f", conf, "new-session", "-d", "-x", width, "-y", height, " ".join(map(quoted, shell)))
        self.wait("prompt>")

    def tmux(self, *args):
        return h.must("tmux", "-L", "top", *args, env=self.env)

    def screen(self, *options):
        return self.tmux("capture-pane", "-p", *options)

    def keys(self, *keys):
        for key in keys:
            self.tmux("send-keys", key)

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def command(self, line):
        self.type(line)
        self.keys("Enter")

    def resize(self, width, height):
        self.tmux("resize-window", "-x", width, "-y", height)

    def wait(self, pattern, seconds=15, gone=False):
        """The screen that has it, or has it no longer."""
        def look():
            screen = self.screen()
            return screen if bool(re.search(pattern, screen, re.M)) != gone else None

        return h.poll(look, seconds, lambda: f"{'no ' if gone else ''}/{pattern}/ on the screen:\n{self.screen()}")

    def wait_shell(self, what):
        """The program has given the screen back and has ended, or stopped."""
        h.poll(lambda: self.flag("alternate_on") == "0", 10, f"{what}: the screen is given back")
        self.wait(r"^prompt>\s*\Z")

    def flag(self, name):
        return self.tmux("display-message", "-p", "#{%s}" % name).strip()


def quoted(text):
    return "'" + str(text).replace("'", "'\\''") + "'"


def top(*args, env=None, status=0):
    r = h.run(h.GPUXRAY, "top", *args, env={**os.environ, "LC_ALL": UTF8, "COLUMNS": "100", **(env or {})})
    if r.returncode != status:
        raise h.Failure(f"top {args}: exit status {r.returncode}, not {status}: {r.stderr}")
    return r


def holder(case, mib, every=1, **kw):
    """Holds so many MiB, allocated in cache_insert()."""
    w = case.work("work_fill", "--blocks", mib, "--bytes", MIB, "--every", every, **kw)
    w.next("full", 40)
    return w


def running():
    """Processes of the program."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/exe") == h.GPUXRAY:
                found.append(int(pid))
    return found


def row(text, pid):
    return next((line for line in text.splitlines() if re.search(rf"^.. +{pid} |^ *{pid} ", line)), "")


@h.test("top: --once tells processes and devices, wide or narrow, sorted and filtered")
def once(case):
    case.daemon()
    few, many = holder(case, 30), holder(case, 150)
    text = h.poll(lambda: (t := top("--once").stdout) and row(t, many.pid) and row(t, few.pid) and "firing" in t and t, 15,
                  "both processes, one of them over its quota")
    case.contains(text.splitlines()[0], "daemon up", "who answers")
    case.contains(text.splitlines()[0], "exact", "exactness")
    case.check(re.search(r"^GPU 0 +\S", text, re.M), f"no device: {text}")
    case.check(row(text, many.pid).startswith("!1 "), f"it fires: {row(text, many.pid)}")
    case.contains(row(text, many.pid), " 150 MiB ", "memory")
    case.contains(row(text, few.pid), " 30 MiB ", "memory")
    case.contains(row(text, few.pid), "work_fill", "command")
    case.check("\x1b" not in text, "escape codes")
    case.check(re.search(r"critical +firing +quota +work_fill\[%d\]" % many.pid, text), f"no incident: {text}")
    case.check(text.index(f" {many.pid} ") < text.index(f" {few.pid} "), "by memory")
    text = top("--once", "-s", "pid", "-r").stdout
    case.equal(text.index(f" {many.pid} ") < text.index(f" {few.pid} "), many.pid > few.pid, "by pid, reversed")
    text = top("--once", "-p", few.pid).stdout
    case.check(row(text, few.pid) and not row(text, many.pid), f"only one pid: {text}")
    text = top("--once", "--filter", str(many.pid)).stdout
    case.check(row(text, many.pid) and not row(text, few.pid), f"filtered: {text}")
    text = top("--once", "-u", "nobody-of-that-name").stdout
    case.contains(text, "is of user nobody-of-that-name", "no such user")
    for columns in (60, 120, 200, 300):
        text = top("--once", env={"COLUMNS": str(columns)}).stdout
        case.check(row(text, few.pid) and max(map(len, text.splitlines())) <= columns, f"{columns} columns: {text}")
    text = top("--once", env={"LC_ALL": "C"}).stdout
    case.check(text.isascii() and row(text, few.pid), f"ASCII: {text}")


@h.test("top: --json is a view a line")
def as_json(case):
    d = case.daemon()
    w, other = holder(case, 20), holder(case, 10)
    d.wait_process(w.pid)
    d.wait_process(other.pid)
    lines = top("--json", "-n", 3, "-d", "0.2").stdout.splitlines()
    case.equal(len(lines), 3, "looks")
    for line in lines:
        p = next((p for p in json.loads(line)["processes"] if p["pid"] == w.pid), {})
        case.equal(p.get("live_bytes"), 20 * MIB, "live bytes")
    said = json.loads(top("--json", "--once", "--filter", str(w.pid)).stdout)
    case.equal([p["pid"] for p in said["processes"]], [w.pid], "filtered")


@h.test("top: --json goes on with a daemon that is restarted, and ends quietly when nobody reads")
def json_goes_on(case):
    d = case.daemon()
    w, other = holder(case, 20), holder(case, 10)
    with open(case.path("looks"), "w") as looks:
        t = h.Process(case, "top", [h.GPUXRAY, "top", "--json", "-d", "0.2", "-p", f"{w.pid},{other.pid}"], stdout=looks)

    def answers():
        """Of each daemon, which processes the last look told of."""
        with open(case.path("looks")) as f:
            views = [json.loads(line) for line in f if line.endswith("\n")]
        found = {}
        for v in views:
            t = v["totals"]
            # To a tenth of a second, as the clocks that make it are read one after the other.
            began = round(t["real_usec"] / 1e5 - t["uptime_ns"] / 1e8)
            near = next((b for b in found if abs(b - began) <= 1), began)
            found[near] = {p["pid"] for p in v["processes"]}
        return list(found.values())

    h.poll(lambda: {w.pid, other.pid} in answers(), 10, lambda: f"both processes: {answers()}")
    d.stop()
    h.poll(lambda: "asking again until it answers\n" in t.stderr(), 10, lambda: f"that it is away: {t.stderr()!r}")
    case.daemon()
    h.poll(lambda: len(answers()) > 1, 20, lambda: f"looks at the new daemon; {t.stderr()!r}")
    case.equal(t.stderr().splitlines()[1:], ["gpuxray top: the daemon answers again"], "what it says of it")
    t.kill()
    r = h.run("bash", "-c", 'set -o pipefail; "$0" top --json -d 0.2 | head -1', h.GPUXRAY, timeout=10)
    case.equal((r.returncode, r.stderr, len(r.stdout.splitlines())), (0, "", 1), "| head -1")


@h.test("top: what cannot be done is said in one line with a cure")
def cures(case):
    for args, part in ((("--sort", "size"), "must be memory, driver"), (("-d", "0"), "seconds from 0.1"),
                       (("-n", "0"), "from 1 on"), (("-p", "x"), "not a process id"), (("x",), "not understood"),
                       (("--filter", "x" * 200), "too long"), ((), "use --once")):
        r = top(*args, status=1)
        case.contains(r.stderr, part, f"top {args}")
        case.equal(len(r.stderr.splitlines()), 1, f"lines of {r.stderr!r}")
        case.equal(r.stdout, "", "standard output")


@h.test("top: keys, filter, tree, sites, help and sizes on a screen", seconds=15)
def screen(case):
    case.daemon()
    few, many = holder(case, 30), holder(case, 150)
    tree = case.work("work_lifecycle", "fork", "--blocks", 3)
    child = tree.next("fork-child")["pid"]
    t = Terminal(case)
    t.command(h.GPUXRAY + " top -d 0.3")
    text = t.wait(rf"^!1 +{many.pid} ")
    case.check(row(text, few.pid) and "GPU 0" in text and "daemon up" in text, text)
    case.equal(len(text.splitlines()), 30, "lines")
    case.contains(text.splitlines()[-1], "h help", "keys are told")
    # The tree, by pid: the child below its parent, the others as roots.
    t.keys("t")
    text = t.wait(rf"^.*\b{child} .*└─ ")
    lines = text.splitlines()
    case.equal(lines.index(row(text, child)), lines.index(row(text, tree.pid)) + 1, "the child is below its parent")
    t.keys("t", "p", "r")
    text = t.wait("by pid reversed")
    case.equal(text.index(f" {many.pid} ") < text.index(f" {few.pid} "), many.pid > few.pid, "by pid, reversed")
    # The filter, as it is typed, kept and cleared.
    t.keys("/")
    t.type("blocks 30")
    text = t.wait("^Filter: blocks 30_")
    text = t.wait(rf" {many.pid} ", gone=True)
    case.check(row(text, few.pid), f"filtered: {text}")
    t.keys("Enter")
    t.wait('filter "blocks 30"')
    t.keys("Escape")
    t.wait(rf" {many.pid} ")
    # Call sites of the chosen one, and the stack of one.
    t.keys("m", "Home", "Enter")
    t.wait(rf"Sites of work_fill\[{many.pid}\]")
    text = t.wait(r"^ +150 MiB +150 .*cache_insert")
    t.keys("Enter")
    text = t.wait(rf"Stack in work_fill\[{many.pid}\]")
    case.check(re.search(r"^cuMemAlloc_v2", text, re.M) and re.search(r"^main", text, re.M), f"whole stack: {text}")
    t.keys("Escape", "Escape")
    t.wait("Stack in|Sites of", gone=True)
    t.keys("i")
    t.wait(rf"critical +firing +quota +work_fill\[{many.pid}\]")
    t.keys("i", "?")
    t.wait("call sites of the process")
    t.keys("Escape")
    # Sizes.
    t.resize(60, 10)
    text = t.wait(rf"^!1 +{many.pid} .*work_fill")
    case.check(max(map(len, text.splitlines())) <= 60 and "q quit" in text.splitlines()[9], text)
    t.resize(200, 50)
    text = t.wait("ALLOC/MIN.*HISTORY.*COMMAND")
    case.contains(text.splitlines()[49], "+ - interval", "the last line")
    t.resize(1, 1)
    t.resize(100, 30)
    t.wait(rf"^!1 +{many.pid} ")
    # Pause and interval.
    t.keys("+")
    t.wait("every 500ms")
    t.keys("Space")
    t.wait("PAUSED")
    few.end()
    t.wait("PAUSED  2s old")
    case.check(row(t.screen(), few.pid), "what is paused does not change")
    t.keys("Space")
    t.wait(rf" {few.pid} ", gone=True)
    t.keys("q")
    t.wait_shell("q")
    tree.end()


@h.test("top: the terminal is given back as it was: q, signals, a stop in between")
def gives_back(case):
    case.daemon()
    w = holder(case, 20)
    t = Terminal(case)
    t.command("before=$(stty -g)")

    def expect_restored(what):
        t.command("[ \"$(stty -g)\" = \"$before\" ] && echo same'-modes' || echo other'-modes'")
        text = t.wait(r"\b(same|other)-modes")
        case.contains(text, "same-modes", f"{what}: modes of the terminal")
        case.equal((t.flag("alternate_on"), t.flag("cursor_flag")), ("0", "1"), f"{what}: screen, cursor")
        t.command("clear")
        t.wait("modes", gone=True)

    for what in ("q", "C-c", signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV):
        t.command(f"sh -c 'echo $$ > {case.path('pid')}; exec {h.GPUXRAY} top -d 0.5'")
        t.wait(rf" {w.pid} ")
        case.equal((t.flag("alternate_on"), t.flag("cursor_flag")), ("1", "0"), f"before {what}: screen, cursor")
        if isinstance(what, str):
            t.keys(what)
        else:
            with open(case.path("pid")) as f:
                os.kill(int(f.read()), what)
        t.wait_shell(what)
        expect_restored(what)
    t.command(h.GPUXRAY + " top -d 0.5")
    t.wait(rf" {w.pid} ")
    t.keys("C-z")
    t.wait("Stopped")
    t.wait_shell("^Z")
    expect_restored("^Z")
    t.command("fg")
    t.wait(rf" {w.pid} ")
    case.equal((t.flag("alternate_on"), t.flag("cursor_flag")), ("1", "0"), "after fg: screen, cursor")
    t.keys("q")
    t.wait_shell("q after fg")


@h.test("top: a daemon that goes away and comes back", seconds=10)
def restart(case):
    d = case.daemon()
    w = holder(case, 20)
    t = Terminal(case)
    t.command(h.GPUXRAY + " top -d 0.3")
    t.wait(rf" {w.pid} ")
    d.stop()
    text = t.wait(r"^! \ds old: .*")
    case.check(row(text, w.pid), f"the last view stays: {text}")
    case.daemon()
    t.wait(r"^! \d+s old", 30, gone=True)
    t.wait("^gpuxray top +daemon up")
    # What the new daemon sees, it shows.
    again = holder(case, 40)
    t.wait(rf" {again.pid} .* 40 MiB ")
    t.keys("q")


@h.test("top: with a tracer of its own, which ends with it", seconds=10)
def own(case):
    t = Terminal(case)
    t.command(f"{h.GPUXRAY} top -d 0.3 --library {h.LIBCUDA}; echo rc=$?")
    t.wait("own tracer for", 40)
    w = case.work("work_fill", "--blocks", 25, "--bytes", MIB, "--every", 1)
    w.next("full", 40)
    text = t.wait(rf" {w.pid} .* 25 MiB ")
    case.check("daemon" not in text.splitlines()[0], text.splitlines()[0])
    t.keys("q")
    t.wait("^rc=0")
    h.poll(lambda: not running(), 10, lambda: f"no tracer is left: {running()}")


@h.test("top: without colours, without UTF-8, on terminals that are not up to it")
def plain_terminals(case):
    case.daemon()
    w = holder(case, 150)
    t = Terminal(case)
    t.command(h.GPUXRAY + " top -d 0.5")
    t.wait(rf"^!1 +{w.pid} ")
    case.check(re.search(r"\x1b\[[0-9;]*3[1236]", t.screen("-e")), "colours where there are some")
    t.keys("q")
    t.wait_shell("q")
    t.command("clear; NO_COLOR=1 " + h.GPUXRAY + " top -d 0.5")
    t.wait(rf"^!1 +{w.pid} ")
    case.check(not re.search(r"\x1b\[[0-9;]*3[0-7]", t.screen("-e")), f"NO_COLOR: {t.screen('-e')!r}")
    t.keys("q")
    t.wait_shell("q")
    t.command("clear; TERM=vt100 LC_ALL=C " + h.GPUXRAY + " top -d 0.5")
    text = t.wait(rf"^!1 +{w.pid} ")
    case.check(text.isascii(), f"ASCII: {text}")
    t.keys("q")
    t.wait("^prompt>\\s*\\Z")
    t.command("clear; TERM=dumb " + h.GPUXRAY + " top")
    t.wait('terminal "dumb" cannot place the cursor')
    t.command("clear; TERM=nosuch " + h.GPUXRAY + " top")
    t.wait('terminal "nosuch" is not known here')


if __name__ == "__main__":
    h.main()
