#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/contrib/records.json: records of the real daemon about workloads on the stand-in driver, through a real journald.

Needs root, the daemon and the stand-in driver, as tests/e2e/run does (GPUXRAY and FAKE say where they are); takes about a minute.
What would name this machine is replaced: host, machine, boot, and the processors' own fields of the journal.
"""
import json
import os
import sys
import traceback

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.realpath(HERE + "/../e2e"))
import harness as h  # noqa: E402
import lane  # noqa: E402
from test_demo import unit_cgroup  # noqa: E402

RULES = """version = 1;
rules = (
  { name = "quota"; kind = "live_bytes"; scope = "process"; fire_above = "250MiB"; resolve_below = "200MiB"; for = "0s";
    keep_firing_for = "0s"; severity = "warning"; escalate = { above = "290MiB"; severity = "critical"; }; },
  { name = "device"; kind = "live_bytes"; scope = "device"; fire_above = "280MiB"; for = "0s"; keep_firing_for = "0s"; severity = "notice"; },
  { name = "unit"; kind = "live_bytes"; scope = "unit"; fire_above = "270MiB"; for = "0s"; keep_firing_for = "0s"; severity = "error"; },
  { name = "oom"; kind = "alloc_failure"; count = 1; window = "1m"; severity = "error"; },
  { name = "leak"; kind = "leak"; scope = "process"; epoch = "2s"; epochs = 8; occupancy = 0.9; keep_ratio = 0.7;
    min_growth = "4MiB"; for_epochs = 3; severity = "warning"; },
  { name = "at-exit"; kind = "exit"; live_above = "1MiB"; min_runtime = "0s"; severity = "notice"; }
);
"""
LOUD = """version = 1;
rules = ( { name = "huge"; kind = "single_alloc"; fire_above = "1MiB"; severity = "notice"; } );
"""
KEPT = ("MESSAGE", "PRIORITY", "SYSLOG_IDENTIFIER", "SYSLOG_FACILITY", "DOCUMENTATION", "OBJECT_PID", "OBJECT_SYSTEMD_UNIT",
        "_PID", "_TRANSPORT", "__REALTIME_TIMESTAMP", "__MONOTONIC_TIMESTAMP")
REPLACED = {"_HOSTNAME": "gpu01", "_MACHINE_ID": "0" * 31 + "1", "_BOOT_ID": "0" * 31 + "2", "_SYSTEMD_UNIT": "gpuxray.service",
            "_UID": "0", "_COMM": "gpuxray", "_EXE": "/usr/sbin/gpuxray"}
REPLACED_IF_THERE = {"GPUXRAY_CGROUP": "/system.slice/train.service", "GPUXRAY_PARENT": "bash"}


def scrub(r):
    out = {k: v for k, v in r.items() if k.startswith(("GPUXRAY_", "MESSAGE")) or k in KEPT}
    return dict(sorted({**out, **REPLACED, **{k: v for k, v in REPLACED_IF_THERE.items() if k in out}}.items()))


def about(d, w):
    return [r for r in h.journal_json(f"_PID={d.pid}") if r.get("GPUXRAY_PID") in (None, str(w.pid))]


def story(case):
    """A job that crosses a quota, escalates, runs out of memory, leaks and ends; then a daemon that may say little."""
    d = case.daemon(rules=RULES, config='health_interval = "10s";\n')
    w = case.work("work_demo", "--name=train", "--seconds=36", cgroup=unit_cgroup(case, "train.service"))
    d.wait_record(w.pid, seconds=45, rule="leak", state="firing")
    d.reload()
    w.end(seconds=60)
    d.wait_record(w.pid, event="process_exit")
    h.poll(lambda: d.records(rule="device")[-1]["GPUXRAY_STATE"] == "resolved", 10, "the end of the device's incident")
    d.stop()
    found = about(d, w)
    d = case.daemon(rules=LOUD, config='health_interval = "2s";\nlimits = { records_per_minute = 2; };\n')
    w = case.work("work_demo", "--name=train", "--seconds=4")
    w.end()
    h.poll(lambda: [r for r in h.journal_json(f"_PID={d.pid}") if "GPUXRAY_SUPPRESSED" in r], 15, "a record with GPUXRAY_SUPPRESSED")
    d.stop()
    found += about(d, w)
    with open(HERE + "/records.json.new", "w") as f:
        json.dump([scrub(r) for r in found], f, indent=1, ensure_ascii=False)
        f.write("\n")
    os.rename(HERE + "/records.json.new", HERE + "/records.json")
    print(f"{len(found)} records")


def main():
    if os.environ.get(h.INSIDE) != "inside":
        os.environ[h.INSIDE] = "inside"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, os.path.realpath(__file__)])
    lane.make_base([0])
    lane.enter_world(0)
    world = lane.Lane([])
    world.start_journald()
    world.wait_journald()
    why = None
    try:
        why = h.run_one("records of contrib", story)
    except Exception:
        why = traceback.format_exc()
    if why:
        print(why)
    sys.exit(1 if why else 0)


main()
