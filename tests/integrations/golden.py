# SPDX-License-Identifier: MIT
"""Real records, of every kind that a reader must get right: a daemon, workloads on the stand-in driver, hostile names.

They are made once for all tests of a run and stay in its journal; what a test needs on top it makes itself.
"""
import json
import os

import harness as h

RULES = """version = 1;
rules = (
  { name = "quota"; kind = "live_bytes"; scope = "process"; fire_above = "100MiB"; resolve_below = "80MiB"; for = "0s";
    keep_firing_for = "0s"; severity = "critical"; runbook = "https://runbooks.example.com/quota?a=1&b=\\"2\\""; },
  { name = "oom"; kind = "alloc_failure"; count = 1; window = "1m"; severity = "error"; },
  { name = "huge"; kind = "single_alloc"; fire_above = "300MiB"; severity = "notice"; match = { comm = "^work_rate$"; }; },
  { name = "exit"; kind = "exit"; live_above = "1MiB"; min_runtime = "0s"; severity = "notice"; }
);
"""
CONFIG = """health_interval = "1s";
limits = { records_per_minute = 100000; };
"""
MADE = h.TMP + "/golden.json"
NAME = "tr\u00e4n\"\u6570'\\"  # what is no control character stays as it is
NAME_ESCAPED = NAME.replace("\\", "\\x5c")


def named(case):
    """A process of that name that holds 120 MiB."""
    if not os.path.exists(case.path(NAME)):
        os.symlink(h.FAKE + "/work_lifecycle", case.path(NAME))
    w = case.work(NAME, "hold", "--blocks=1", "--bytes=120MiB", fake=case.dir)
    w.next("hold")
    return w


def act(case, wait):
    """Lets a daemon see a firing, a resolved, failures with their stacks, health, exits, a deep stack, and subjects whose
    names have line breaks, quotes, text directions, UTF-8 and broken UTF-8 in them. wait(pid, **fields) sees one arrive."""
    hostile = case.work("work_hostile", "--long=3300")
    hostile.next("hostile")
    plain = named(case)
    deep = case.work("work_rate", "--seconds=1", "--rate=5", "--bytes=301MiB", "--depth=127",
                     wrap=["bash", "-c", 'exec -a "$(printf %03000d 0)" "$@"', "bash"])
    wait(hostile.pid, rule="quota", state="firing")
    wait(hostile.pid, rule="oom")
    wait(plain.pid, rule="quota", state="firing")
    wait(deep.pid, rule="huge")
    hostile.end()
    plain.end()
    wait(hostile.pid, rule="quota", state="resolved")
    wait(plain.pid, rule="quota", state="resolved")
    # It crosses the limit several times: at its end all of that is over.
    wait(deep.pid, event="process_exit")
    wait(None, event="health")


def make(case):
    """Process id of a daemon that has seen all that, with its records in the journal."""
    if os.path.exists(MADE):
        with open(MADE) as f:
            return json.load(f)
    d = case.daemon(rules=RULES, config=CONFIG)
    act(case, d.wait_record)
    d.stop()
    with open(MADE, "w") as f:
        json.dump(d.pid, f)
    return d.pid


def records(case):
    """Those records as the journal has them; no test passes without the kinds it is about."""
    found = h.journal_json(f"_PID={make(case)}")
    kinds = {r["GPUXRAY_EVENT"] for r in found} | {r.get("GPUXRAY_STATE") for r in found}
    missing = {"firing", "resolved", "alloc_failure", "single_alloc", "exit", "health", "start", "stop"} - kinds
    if missing:
        raise h.Failure(f"no such records were made: {missing}")
    for k, least in (("GPUXRAY_STACK", 3000), ("GPUXRAY_CMDLINE", 3000), ("MESSAGE", 300)):
        longest = max(len(r.get(k, "").encode()) for r in found)
        if longest < least:
            raise h.Failure(f"the longest {k} has {longest} bytes: nothing that could be cut")
    return found


def more(case, n=1):
    """Further records, by a daemon of their own: what comes while a reader is away. They are returned."""
    d = case.daemon(rules=RULES, config="limits = { records_per_minute = 100000; };")
    for _ in range(n):
        w = case.work("work_lifecycle", "hold", "--blocks=1", "--bytes=120MiB")
        w.next("hold")
        w.end()
        d.wait_record(w.pid, rule="quota", state="resolved")
        d.wait_record(w.pid, rule="exit")
    d.stop()
    return h.journal_json(f"_PID={d.pid}")  # with the history
