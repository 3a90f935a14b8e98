#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""contrib/prometheus: rules on metrics that there are, whose tests notice when one of them is broken."""
import os
import re
import shutil
import tempfile

import promql
import tap
from promql import RULES, must

TESTS = promql.PROMETHEUS + "gpuxray-metrics-rules-test.yml"
CONFIG = promql.PROMETHEUS + "gpuxray-metrics.yml"
ROUTE = tap.CONTRIB + "/alertmanager/gpuxray-route.yml"


def rules():
    return [r for g in tap.load_yaml(RULES)["groups"] for r in g["rules"]]


@tap.test("promtool finds the configuration and the rules good, and their tests pass")
def good():
    must("check", "config", CONFIG)
    must("check", "rules", "--lint=all", "--lint-fatal", RULES)
    must("test", "rules", TESTS)


def noticed(text):
    """Alerts and expressions about which the rules' tests complain when the rules are these."""
    with tempfile.TemporaryDirectory() as d:
        shutil.copy(TESTS, d)
        with open(d + "/" + os.path.basename(RULES), "w", encoding="utf-8") as f:
            f.write(text)
        _, out = promql.promtool("test", "rules", os.path.basename(TESTS), cwd=d)
    if "FAILED" not in out and "SUCCESS" not in out or "parse error" in out:
        raise tap.Failure(out[-2000:])
    return set(re.findall(r"alertname: ?(\w+)", out)) | {n for e in re.findall(r'expr: "(.*)", time', out) for n in re.findall(r"\w+:\w+:\w+", e)}


def changed(change):
    import yaml
    rules_now = [{**r, **change(r)} for r in rules()]
    return yaml.safe_dump({"groups": [{"name": "all", "rules": rules_now}]}, width=10000)


def name_of(r):
    return r.get("alert") or r["record"]


@tap.test("the tests notice of each rule when it says nothing, says it at once, names nobody, or is as bad as others")
def mutants():
    tap.equal(noticed(changed(lambda r: {})), set(), "unchanged")
    alerts = {r["alert"] for r in rules() if "alert" in r}
    for what, change, want in (
            ("says nothing", lambda r: {"expr": "vector(1) > 2"}, {name_of(r) for r in rules()}),
            ("does not wait", lambda r: {"for": "0s"} if "for" in r else {}, {r["alert"] for r in rules() if "for" in r}),
            ("names nobody", lambda r: {"annotations": {"summary": "?"}} if "alert" in r else {}, alerts),
            ("severity", lambda r: {"labels": {**r["labels"], "severity": "info"}} if "alert" in r else {}, alerts)):
        tap.equal(sorted(want - noticed(changed(change))), [], f"{what}: rules whose tests pass all the same")


# Each with the rule whose test must notice it.
CHANGES = [
    ("GpuxrayRuleFires", "(gpuxray_incidents_firing) > 0", "(gpuxray_incidents_firing) >= 0"),
    ("GpuxrayGpuNearlyFull", "> 0.97", "> 0.9"),
    ("GpuxrayGpuFullSoon", "4 * 3600", "24 * 3600"),
    ("GpuxrayGpuFullSoon", "> 0.5 *", "> 0.01 *"),
    ("GpuxrayGpuFullSoon", "(gpu_used_memory_bytes offset 20m)", "0.1 * gpu_used_memory_bytes"),
    ("GpuxrayProcessGrows", "> 512 * 1024 * 1024", "> 1"),
    ("GpuxrayProcessGrows", "> 1.01 * min_over_time(gpuxray_process_live_bytes[15m] offset 15m)", "> 0"),
    ("GpuxrayProcessGrows", "> 1.01 * min_over_time(gpuxray_process_live_bytes[15m] offset 30m)", "> 0"),
    ("GpuxrayProcessGrows", "> 1.01 * min_over_time(gpuxray_process_live_bytes[15m] offset 45m)", "> 0"),
    ("GpuxrayAllocationsFail", "increase(gpuxray_process_allocation_failures_total[10m]) > 0", "vector(1) > 2"),
    ("GpuxrayAllocationsFail", "gpuxray_process_allocation_failures_total > 0", "vector(1) > 2"),
    ("GpuxrayAllocationsFail", "gpuxray_process_allocation_failures_total offset 10m", "gpuxray_process_allocation_failures_total offset 30m"),
    ("GpuxrayProcessUncovered", "gpuxray_process_covered == 0", "gpuxray_process_covered >= 0"),
    ("GpuxrayGpuHot", "> 87", "> 80"),
    ("GpuxrayDown", 'up{job="gpuxray"}', "up"),
    ("GpuxrayNoDaemon", "gpuxray_daemon == 0", "gpuxray_daemon >= 0"),
    ("GpuxrayEventsLost", "(gpuxray_lost_events_total[15m]) > 0", "(gpuxray_lost_events_total[15m]) >= 0"),
    ("GpuxrayRecordsLost", "dropped|failed", "dropped|failed|suppressed"),
    ("GpuxraySeriesLeftOut", "gpuxray_processes_left_out > 0", "gpuxray_processes_left_out >= 0"),
    ("instance_unit:gpu_process_used_memory_bytes:sum", '{unit!=""}', ""),
    ("instance_pod:gpu_process_used_memory_bytes:sum", '{pod_name!=""}', ""),
]


@tap.test("the tests notice another limit, and a condition that is missing")
def limits():
    text = tap.read(RULES)
    left = list(CHANGES)
    problems = [f"{old!r} is not in the rules" for _, old, _ in left if old not in text]
    while left:
        # As many at once as there are rules: one of each.
        batch = list({name: (name, old, new) for name, old, new in reversed(left)}.values())
        left = [c for c in left if c not in batch]
        mutant = text
        for _, old, new in batch:
            mutant = mutant.replace(old, new)
        seen = noticed(mutant)
        problems += [f"{name}: no test notices {new!r} in place of {old!r}" for name, old, new in batch if name not in seen]
    tap.fail_if(problems)


@tap.test("rules name metrics and labels that there are; templates name labels that their alerts have")
def names():
    known = promql.labels_by_name()
    problems = []
    for r in rules():
        name = name_of(r)
        problems += [f"{name}: {p}" for p in promql.problems(r["expr"], known)]
        found, grouped = promql.uses(r["expr"])
        have = grouped.union(*(known.get(n, set()) for n, _ in found))
        for text in {**r.get("labels", {}), **r.get("annotations", {})}.values():
            problems += [f"{name}: no label {label}" for label in re.findall(r"\$labels\.(\w+)", text) if label not in have]
        if "alert" in r and not ("severity" in r["labels"] or "severity" in grouped) or "alert" in r and "host" not in r["labels"]:
            problems.append(f"{name} has no severity or host, by which Alertmanager's routes go")
        if "alert" in r and not (r["alert"].startswith("Gpuxray") and "summary" in r["annotations"]):
            problems.append(f"{name}: the routes take Gpuxray.*, and a page needs a summary")
    tap.fail_if(problems)


@tap.test("no alert and no metric has the name of one that is made of records")
def apart():
    records = tap.read(promql.PROMETHEUS + "gpuxray-records-rules.yml")
    mtail = tap.read(tap.CONTRIB + "/mtail/gpuxray.mtail")
    alerts = set(re.findall(r"alert: (\w+)", records)) & {r.get("alert") for r in rules()}
    tap.equal(alerts, set(), "alerts of both")
    theirs = set(re.findall(r"^(?:gauge|counter) (\w+)", mtail, re.M))
    tap.equal(len(theirs) >= 8, True, "metrics of mtail")
    tap.equal(theirs & set(promql.labels_by_name()), set(), "metrics of both")


tap.main()
