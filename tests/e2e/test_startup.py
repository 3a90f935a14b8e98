#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What keeps the daemon from starting is said in one line with its cure; what does not, does not."""
import os
import re

import harness as h

GOOD_RULES = h.QUOTA_RULE


def start_fails(case, wrap=(), config="", rules=GOOD_RULES, options=(), env=None):
    """Standard error of a daemon that is to end by itself with status 1."""
    argv = [*wrap, h.GPUXRAY, "run", "--config", case.write("bad-daemon.conf", config), "--rules",
            case.write("bad-rules.conf", rules), *options]
    r = h.run(*argv, timeout=20, env={**os.environ, **(env or {})})
    case.equal(r.returncode, 1, f"exit status (standard error: {r.stderr!r})")
    case.equal(r.stdout, "", "standard output")
    return r.stderr


def check_one_line(case, text, *words):
    lines = text.splitlines()
    case.equal(len(lines), 1, f"lines of {lines}")
    for word in words:
        case.check(re.search(word, text), f"no \"{word}\" in {text!r}")


@h.test("a kernel without type information: one line, with the cure", host=True)
def no_btf(case):
    text = start_fails(case, h.in_namespace("mount -t tmpfs tmpfs /sys/kernel/btf"))
    check_one_line(case, text, "/sys/kernel/btf/vmlinux", "CONFIG_DEBUG_INFO_BTF")


@h.test("no capability: one line, with the cure", host=True)
def no_capability(case):
    for name, wrap in (("root without capabilities", ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]),
                       ("nobody", ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"])):
        text = start_fails(case, wrap)
        check_one_line(case, text, "CAP_BPF", "CAP_PERFMON", "run as root")
        case.check("cannot trace" in text, f"{name}: {text!r}")


@h.test("only the capabilities of the manual: it starts and traces")
def few_capabilities(case):
    h.need_multi()
    caps = "-all,+bpf,+perfmon,+sys_ptrace,+dac_read_search"
    d = case.daemon(wrap=["setpriv", f"--bounding-set={caps}", "--inh-caps=-all"])
    w = case.work("work_lifecycle", "hold", "--blocks=1", "--bytes=120MiB")
    ledger = w.next("hold")
    h.check_books(case, d.wait_process(w.pid), ledger, "books")
    r = d.wait_record(w.pid, rule="quota", state="firing")
    case.contains(r.get("GPUXRAY_STACK"), "allocate+0x", "stack")
    case.equal(r.get("OBJECT_PID"), str(w.pid), "OBJECT_PID: the sender is still root")
    w.end()
    d.stop()


@h.test("bad configuration: each error with file and line, and that it is why nothing starts")
def bad_config(case):
    text = start_fails(case, config='limits = { proceses = 20; };\nsink = "jornal";\n')
    lines = text.splitlines()
    case.check(any(re.search(r"bad-daemon\.conf:1: .*proceses.*processes", x) for x in lines), f"line 1: {lines}")
    case.check(any(re.search(r"bad-daemon\.conf:2: .*jornal.*journal", x) for x in lines), f"line 2: {lines}")
    case.check("cannot start" in lines[-1], f"last line: {lines}")
    text = start_fails(case, options=("--config", case.path("nowhere.conf")))
    case.check(re.search(r"nowhere\.conf.*No such file", text), text)


@h.test("bad rules: each error with file and line, and that it is why nothing starts")
def bad_rules(case):
    text = start_fails(case, rules='version = 1;\nrules = (\n  { name = "a"; kind = "live_bytes"; scope = "process"; },\n'
                                   '  { name = "b"; kind = "leek"; }\n);\n')
    lines = text.splitlines()
    for n in (3, 4):
        case.check(any(re.search(rf"bad-rules\.conf:{n}: ", x) for x in lines), f"line {n}: {lines}")
    case.check("gpuxray check" in lines[-1], f"last line: {lines}")


@h.test("wrong options: one line, nothing starts")
def bad_options(case):
    for options, word in ((("--sink", "jornal"), "journal"), (("--pid", "0"), "--pid"), (("nonsense",), "nonsense")):
        check_one_line(case, start_fails(case, options=options), word)
    r = h.run(h.GPUXRAY, "run", "--no-such-option")
    case.equal(r.returncode, 1, "unknown option")
    r = h.run(h.GPUXRAY, "nonsense")
    case.equal(r.returncode, 1, "unknown command")
    r = h.run(h.GPUXRAY, "--version")
    case.check(r.returncode == 0 and re.fullmatch(r"gpuxray \d+\.\d+\.\d+(~git\d{8}\.[0-9a-f]+(\+dirty)?)?\n", r.stdout), f"--version: {r.stdout!r}")
    for command in ("run", "check", "status"):
        r = h.run(h.GPUXRAY, command, "--help")
        case.check(r.returncode == 0 and r.stdout.startswith("Usage: gpuxray " + command), f"{command} --help")


@h.test("no driver library on the machine: it runs, says that it waits, and sees the first one that comes")
def no_library(case):
    d = case.daemon(library=None)
    if not d.status()["libraries"]:  # another program of this machine may use one
        d.wait_stderr("waiting for one")
        case.contains(d.wait_record(event="start")["MESSAGE"], "waiting", "start record")
        case.contains(h.must(h.GPUXRAY, "status"), "waiting", "status")
    w = case.work("work_late", h.LIBCUDA, "--sleep=100", "--wait-end")
    ledger = w.next("late")
    p = d.wait_process(w.pid)
    case.equal(p["live_bytes"], ledger["live_bytes"], "bytes")
    w.end()
    d.stop()


@h.test("a library that is named but not there, or no driver, is a warning")
def wrong_library(case):
    d = case.daemon("--library", case.path("no.so"), "--library", case.write("text.so", "hello"), "--library", "/bin/true")
    for name in ("no.so", "text.so", "/bin/true"):
        d.wait_stderr(re.escape(name) + ".*cannot probe")
    w = case.work("work_lifecycle", "hold")
    h.check_books(case, d.wait_process(w.pid, seconds=10), w.next("hold"), "books")
    w.end()
    d.stop()


@h.test("status: 1 and a hint when nothing runs; a second daemon does not take the first one's socket")
def status(case):
    r = h.run(h.GPUXRAY, "status")
    case.equal(r.returncode, 1, "exit status without a daemon")
    check_one_line(case, r.stderr, "no daemon answers", "gpuxray run")
    d = case.daemon()
    second = case.daemon(wait=False)
    second.wait_stderr("another gpuxray answers there")
    second.stop()
    case.equal(h.run(h.GPUXRAY, "status", "--json").returncode, 0, "the first one answers still")
    # One that was killed leaves its socket; the next takes its place.
    d.kill()
    case.check(os.path.exists(h.SOCKET), "the socket of a killed daemon is gone: the test proves nothing")
    case.equal(h.run(h.GPUXRAY, "status").returncode, 1, "exit status after a kill")
    d = case.daemon()
    case.equal(oct(os.stat(h.SOCKET).st_mode & 0o777), "0o660", "mode of the socket")
    d.stop()
    case.check(not os.path.exists(h.SOCKET), "the socket is left behind")


if __name__ == "__main__":
    h.main()
