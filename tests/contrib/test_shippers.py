#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""contrib/fluent-bit, contrib/alloy, contrib/vector: their options are those documented, their names those of the records, and
all three make the same of a real record."""
import json

import shippers
import tap

FIELDS = tap.field_names()
# A label is a stream: what has many values must not be one. Severity and rule are few by nature.
SEVERITIES = {"critical", "error", "warning", "notice", "info"}
HISTORY = {"sample", "process_exit", "site"}


def check_labels(r, labels):
    """Problems of the stream labels of one record."""
    event = r["GPUXRAY_EVENT"]
    want = {"job": "gpuxray-history" if event in HISTORY else "gpuxray", "host": r["_HOSTNAME"]}
    if "GPUXRAY_RULE" in r:
        want["rule"] = r["GPUXRAY_RULE"]
    by_priority = {"3": "error", "4": "warning"}.get(r["PRIORITY"], "info")
    want["severity"] = r.get("GPUXRAY_SEVERITY", by_priority)
    out = [f"labels {labels}, not {want}"] if labels != want else []
    return out + ([f"severity {labels.get('severity')}"] if labels.get("severity") not in SEVERITIES else [])


def check_record(ship, r):
    labels, metadata, line = ship.ship(r)
    out = check_labels(r, labels)
    want = {k: r["GPUXRAY_" + k.upper()] for k in shippers.METADATA if "GPUXRAY_" + k.upper() in r}
    out += [f"metadata {k}: {metadata.get(k)!r}, not {want.get(k)!r}" for k in sorted(set(metadata) | set(want))
            if metadata.get(k) != want.get(k)]
    data = json.loads(line)
    out += [f"line: {k} is {data.get(k)!r}, not {v!r}" for k, v in r.items()
            if k.startswith(("GPUXRAY_", "MESSAGE", "PRIORITY")) and data.get(k) != v]
    extra = sorted(k for k in data if k not in r and k not in ("timestamp",))
    out += [f"line: {extra} are in no record"] if extra else []
    return [f"{ship.name}: {r['GPUXRAY_EVENT']}: {p}" for p in out]


def add(cls):
    @tap.test(f"{cls.name}: every option is documented, of its type, and every reference leads somewhere")
    def schema():
        tap.fail_if(cls().problems(FIELDS))

    @tap.test(f"{cls.name}: real records get their labels, metadata and whole line, and only they are read")
    def mapping():
        ship = cls()
        tap.fail_if([p for r in tap.records() for p in check_record(ship, r)][:20])
        tap.fail_if([f"{r['GPUXRAY_EVENT']} is not read" for r in tap.records() if not ship.selects(r)])
        if ship.selects({"SYSLOG_IDENTIFIER": "sshd", "MESSAGE": "gpuxray"}):
            raise tap.Failure("records of others are read")


for one in shippers.ALL:
    add(one)


@tap.test("a daemon's own record of priority error or warning gets that severity from all three")
def own_severity():
    r = next(r for r in tap.records() if r["GPUXRAY_EVENT"] == "reload")
    out = []
    for cls in shippers.ALL:
        for priority in "3456":
            out += check_record(cls(), {**r, "PRIORITY": priority})
    tap.fail_if(out)


@tap.test("the records at hand are of all kinds that the files speak of")
def corpus():
    have = {r["GPUXRAY_EVENT"] for r in tap.records()}
    want = {"start", "stop", "reload", "health", "suppressed", "live_bytes", "alloc_failure", "single_alloc", "leak", "exit",
            "sample", "process_exit", "site"}
    tap.equal(sorted(want - have), [], "events without a record")
    # The daemon's own records have counters beside.
    tap.equal(sorted({k for r in tap.records() if "GPUXRAY_SEVERITY" in r for k in r if k.startswith("GPUXRAY_")} - FIELDS), [],
              "fields of the records that the table does not have: make_records.py makes them anew")


tap.main()
