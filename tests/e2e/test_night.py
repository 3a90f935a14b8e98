#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The journal of a night on an H200 (tests/gpu/night.sh), and what the report makes of it."""
import gzip
import json
import re

import harness as h

NIGHT = h.ROOT + "/tests/traces/h200-driver-580/night.export.gz"
REMOTE = "/lib/systemd/systemd-journal-remote"


def records(path):
    out = h.must("journalctl", "--file", path, "-o", "json", "-a", "--no-pager")
    return [json.loads(line) for line in out.splitlines()]


def number(r, name):
    return int(r["GPUXRAY_" + name])


@h.test("a night on an H200: who took the memory, from which line, who suffered, who held what")
def night(case):
    path = case.path("night.journal")
    with gzip.open(NIGHT) as f, open(case.path("night.export"), "wb") as out:
        out.write(f.read())
    h.must(REMOTE, "-o", path, case.path("night.export"))
    raw = records(path)
    ends = {r["GPUXRAY_PID"]: r for r in raw if r["GPUXRAY_EVENT"] == "process_exit"}
    first, last = (int(r["__REALTIME_TIMESTAMP"]) // 1000000 for r in (raw[0], raw[-1]))
    stretch = ["--since", f"@{first - 60}", "--until", f"@{last + 60}"]
    j = json.loads(h.must(h.GPUXRAY, "report", "--file", path, "--json", *stretch))
    by_pid = {str(p["pid"]): p for p in j["processes"]}

    case.equal(j["records"], len(raw), "records")
    case.check(len(ends) >= 10, f"{len(ends)} ends: the night is too thin")
    for pid, r in ends.items():
        p = by_pid[pid]
        case.equal((p["peak_bytes"], p["live_bytes"], p["ended"]), (number(r, "PEAK_BYTES"), number(r, "LIVE_BYTES"), True), pid)
        case.check(abs(p["peak_usec"] - number(r, "PEAK_TIME_USEC")) < 1000000, f"{pid}: moment of the peak")
    train = j["processes"][0]
    case.equal(train["unit"], "train.service", "who held most")
    case.check(train["peak_bytes"] > 100 * h.GIB, f"it held {train['peak_bytes']}")
    top = j["stacks"][train["sites"][0]["stack"]]["frames"]
    case.check(any(re.match(r"Monitor.remember \(.*/train.py:27\)", f) for f in top), f"the site with most memory: {top}")
    leak = next(i for i in j["incidents"] if i["rule"] == "leak")
    case.equal((leak["state"], by_pid[str(train["pid"])]["unit"]), ("resolved", "train.service"), "the leak")
    case.equal(j["stacks"][leak["stack"]]["frames"], top, "its site")
    case.check(not [i for i in j["incidents"] if i["state"] == "firing"], "all is over")

    device = j["devices"][0]
    case.check(130 * h.GIB < device["peak_bytes"] < device["total_bytes"], f"peak of the device: {device['peak_bytes']}")

    # The one that was hit first did nothing wrong.
    victim = j["failures"][0]
    case.equal(j["processes"][victim["process"]]["unit"], "inference.service", "whose allocation failed first")
    held = {j["processes"][x["process"]]["unit"]: x["bytes"] for x in victim["holders"]}
    case.equal(list(held), ["train.service", "inference.service", "notebook.service"], "who held the device then")
    case.check(sum(held.values()) <= victim["device_bytes"], f"more than there is: {held}")
    case.equal(held["inference.service"], victim["live_bytes"], "itself")
    case.equal(sum(f["count"] for f in j["failures"]), len([r for r in raw if r["GPUXRAY_EVENT"] == "alloc_failure"]), "failures")
    case.equal([g["kind"] for g in j["gaps"]], ["down", "down"], "nothing is missing but what lies around it")

    text = h.must(h.GPUXRAY, "report", "--file", path, *stretch)
    case.check(re.search(r"failed    python3\[\d+\] inference.service asked for 512 MiB", text), text)
    for f in ("html", "folded"):
        out = h.must(h.GPUXRAY, "report", "--file", path, "--format", f, *stretch)
        case.contains(out, "Monitor.remember", f)


if __name__ == "__main__":
    h.main()
