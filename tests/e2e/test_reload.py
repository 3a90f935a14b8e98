#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""SIGHUP: new rules in, bad ones refused, what is going on carried over; and `gpuxray check`."""
import os
import re

import harness as h

OTHER_RULE = """  { name = "other"; kind = "single_alloc"; fire_above = "32MiB"; severity = "notice"; }
"""
QUOTA = """  { name = "quota"; kind = "live_bytes"; scope = "process"; fire_above = "%s"; for = "0s"; keep_firing_for = "0s";
    severity = "%s"; }"""


def rules(*list_):
    return "version = 1;\nrules = (\n" + ",\n".join(list_) + "\n);\n"


def rewrite(d, text):
    with open(d.rules_file, "w") as f:
        f.write(text)
    before = len(d.records(event="reload"))
    d.reload()
    return d.wait_record(event="reload", count=before + 1)


@h.test("good rules replace the old ones and are told with their number and digest")
def good(case):
    d = case.daemon(rules=rules(QUOTA % ("100MiB", "critical")))
    start = d.wait_record(event="start")
    w = case.work("work_lifecycle", "hold", "--wait-start", "--blocks=1", "--bytes=64MiB")
    w.next("ready")
    r = rewrite(d, rules(QUOTA % ("50MiB", "warning"), OTHER_RULE))
    case.equal((r["PRIORITY"], r["GPUXRAY_RULES"]), ("6", "2"), "reload record")
    case.check(r["GPUXRAY_RULES_DIGEST"] != start["GPUXRAY_RULES_DIGEST"], "the digest did not change")
    w.go()
    w.next("hold")
    r = d.wait_record(w.pid, rule="quota", state="firing")
    case.equal((r["GPUXRAY_LIMIT"], r["PRIORITY"]), (str(50 * h.MIB), "4"), "limit and priority of the new rule")
    r = d.wait_record(w.pid, rule="other")
    case.equal((r["GPUXRAY_EVENT"], r["GPUXRAY_BYTES"], r["GPUXRAY_FUNCTION"]), ("single_alloc", str(64 * h.MIB), "cuMemAlloc_v2"),
               "new rule")
    w.end()
    d.stop()


@h.test("bad rules: the old ones stay and work, and the record names file and line")
def bad(case):
    d = case.daemon(rules=rules(QUOTA % ("100MiB", "critical")))
    for text, line, word in (("version = 1;\nrules = (\n  { name = ;\n", 3, "syntax"),
                             (rules(QUOTA % ("100", "critical")), 3, "fire_above"),
                             (rules(QUOTA % ("100MiB", "critical"), '{ name = "x"; kind = "leek"; }'), 5, "leak")):
        r = rewrite(d, text)
        first = r["MESSAGE"].split("\n")[0]
        case.equal(r["PRIORITY"], "3", f"{word}: PRIORITY")
        case.contains(first, f"{os.path.basename(d.rules_file)}:{line}:", f"{word}: file and line")
        case.contains(first, word, "cause")
        case.contains(first, "old rules stay", word)
        case.equal(d.status()["rules_loaded"], 1, f"{word}: rules")
    w = case.work("work_lifecycle", "hold", "--blocks=1", "--bytes=120MiB")
    w.next("hold")
    d.wait_record(w.pid, rule="quota", state="firing")
    # And a good set after all that.
    rewrite(d, rules(OTHER_RULE))
    d.wait_record(w.pid, rule="quota", state="resolved")
    w.end()
    d.stop()


@h.test("an unchanged rule keeps its incident over a reload; a removed one resolves; a changed limit is judged anew")
def carried_over(case):
    d = case.daemon(rules=rules(QUOTA % ("100MiB", "critical")))
    w = case.work("work_lifecycle", "hold", "--blocks=1", "--bytes=120MiB")
    w.next("hold")
    firing = d.wait_record(w.pid, rule="quota", state="firing")
    # Another rule comes, and a comment and the severity of the old one change: what it says is the same.
    rewrite(d, "# a comment\n" + rules(OTHER_RULE, QUOTA % ("100MiB", "critical")))
    case.equal(len(d.records(w.pid, rule="quota")), 1, "records after the first reload")
    state = [r for r in d.status()["rules"] if r["name"] == "quota" and r["pid"] == w.pid]
    case.equal([r["state"] for r in state], ["firing"], "state after the first reload")
    rewrite(d, rules(OTHER_RULE))
    r = d.wait_record(w.pid, rule="quota", state="resolved")
    case.equal((r["GPUXRAY_INCIDENT"], r["GPUXRAY_SEQ"]), (firing["GPUXRAY_INCIDENT"], "2"), "incident of the removed rule")
    # A rule that comes while its condition is true already fires without a new allocation.
    rewrite(d, rules(QUOTA % ("110MiB", "error")))
    again = d.wait_record(w.pid, rule="quota", state="firing", count=2)
    case.check(again["GPUXRAY_INCIDENT"] != firing["GPUXRAY_INCIDENT"], "a new incident")
    case.equal(again["GPUXRAY_LIMIT"], str(110 * h.MIB), "its limit")
    w.end()
    r = d.wait_record(w.pid, rule="quota", state="resolved", count=2)
    case.equal(r["GPUXRAY_INCIDENT"], again["GPUXRAY_INCIDENT"], "incident at the end")
    d.stop()


@h.test("an incident goes on under its id over reloads until its process ends")
def same_incident(case):
    d = case.daemon(rules=rules(QUOTA % ("100MiB", "critical")))
    w = case.work("work_lifecycle", "hold", "--blocks=1", "--bytes=120MiB")
    w.next("hold")
    firing = d.wait_record(w.pid, rule="quota", state="firing")
    for _ in range(5):
        rewrite(d, rules(QUOTA % ("100MiB", "critical")))
    w.end()
    r = d.wait_record(w.pid, rule="quota", state="resolved")
    case.equal((r["GPUXRAY_INCIDENT"], r["GPUXRAY_SEQ"]), (firing["GPUXRAY_INCIDENT"], "2"), "resolved after five reloads")
    d.stop()


@h.test("gpuxray check: 0 for good files; 1 and every error with file:line for bad ones, in one run")
def check(case):
    good_file = case.write("good.conf", h.MINIMAL_RULES)
    r = h.run(h.GPUXRAY, "check", good_file)
    case.equal((r.returncode, r.stderr), (0, ""), "the minimal file of the interface")
    r = h.run(h.GPUXRAY, "check", "-p", good_file)
    case.equal(r.returncode, 0, "check -p")
    for name in ("quota", "oom", "huge", "leak"):
        case.contains(r.stdout, name, "check -p")
    case.contains(r.stdout, "good.conf", "check -p: origin")
    bad_file = case.write("bad.conf", rules(QUOTA % ("100", "critical"), '  { name = "x"; kind = "leek"; }',
                                            '  { name = "quota"; kind = "exit"; live_above = "1MiB"; }'))
    r = h.run(h.GPUXRAY, "check", bad_file)
    case.equal(r.returncode, 1, "bad file: exit status")
    lines = (r.stdout + r.stderr).splitlines()
    for n in (3, 5, 6):
        case.check(any(re.match(rf".*bad\.conf:{n}: error: ", x) for x in lines), f"no error at line {n}: {lines}")
    r = h.run(h.GPUXRAY, "check", case.path("nothing.conf"))
    case.equal(r.returncode, 1, "missing file: exit status")
    case.contains(r.stdout + r.stderr, "nothing.conf", "missing file")


@h.test("the rules that are shipped pass the check, and the daemon runs with them")
def shipped(case):
    folder = h.ROOT + "/rules"
    case.check(os.path.isdir(folder) and os.listdir(folder), "rules/ is empty")
    r = h.run(h.GPUXRAY, "check", "--config", h.ROOT + "/contrib/gpuxray.conf", folder)
    case.equal(r.returncode, 0, f"check rules/: {r.stdout}{r.stderr}")
    d = case.daemon("--rules", folder)
    case.check(d.status()["rules_loaded"] > 1, f"rules: {d.status()['rules_loaded']}")
    d.stop()


if __name__ == "__main__":
    h.main()
