#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""contrib/loki/gpuxray-rules.yaml: the form of a rule file, names that exist, and what fires when on real records."""
import gotemplate
import logql
import loki
import shippers
import tap
from loki import rules
from tap import DURATION, INT, STRING, ListOf, Pattern

TEXTS = {"*": STRING}
FILE = {"!groups": ListOf({
    "!name": STRING, "interval": DURATION, "limit": INT, "query_offset": DURATION, "!rules": ListOf({
        "alert": Pattern("[A-Za-z_][A-Za-z0-9_]*"), "record": Pattern("[a-zA-Z_:][a-zA-Z0-9_:]*"), "!expr": STRING,
        "for": DURATION, "keep_firing_for": DURATION, "labels": TEXTS, "annotations": TEXTS})})}
MINUTE, HOUR = 60 * 10**6, 3600 * 10**6


def fires(name, entries, now):
    """The series of an alert: (labels, labels of the alert)."""
    r = rules()[name]
    out = []
    for series, value in logql.evaluate(logql.parse(r["expr"]), entries, now).items():
        labels = dict(series)
        names = {"$value": value, **{f"$labels.{k}": v for k, v in labels.items()}}
        out.append((labels, {k: gotemplate.render(gotemplate.parse(t), names) for k, t in
                             {**r.get("labels", {}), **r.get("annotations", {})}.items()}))
    return out


def each(check):
    """The same through all three shippers."""
    for cls in shippers.ALL:
        try:
            check(loki.entries(cls))
        except tap.Failure as e:
            raise tap.Failure(f"{cls.name}: {e}") from None


@tap.test("the rule file has the documented form")
def form():
    conf = tap.load_yaml(loki.RULES)
    problems = tap.schema_problems(conf, FILE, "rules")
    names = [g["name"] for g in conf["groups"]]
    problems += [f"group {n} stands twice" for n in set(names) if names.count(n) > 1]
    for r in (r for g in conf["groups"] for r in g["rules"]):
        if ("alert" in r) == ("record" in r):
            problems.append(f"{r}: one of alert and record")
        if "severity" not in r.get("labels", {}) or "summary" not in r.get("annotations", {}):
            problems.append(f"{r.get('alert')}: no severity or summary")
    tap.fail_if(problems)


@tap.test("its expressions and templates name fields, labels and events that exist")
def names():
    problems = []
    for name, r in rules().items():
        problems += [f"{name}: {p}" for p in loki.query_problems(r["expr"])]
        labels = logql.labels_of(logql.parse(r["expr"]))
        for text in {**r.get("labels", {}), **r.get("annotations", {})}.values():
            problems += [f"{name}: the series have no {p}" for p in loki.template_problems(text, labels or set())]
    tap.fail_if(problems)


@tap.test("an incident fires from its first record to its last one, as bad as it is by then, and never again")
def incident():
    def check(entries):
        def at(rule, now):
            return [a["severity"] for s, a in fires("GpuxrayIncident", entries, now) if s["rule"] == rule]

        first, worse = loki.time_of(rule="quota", state="firing"), loki.time_of(rule="quota", state="repeat")
        end = loki.time_of(rule="quota", state="resolved")
        tap.equal(at("quota", first - 1), [], "before")
        tap.equal(at("quota", first), ["warning"], "firing")
        tap.equal(at("quota", worse), ["critical"], "escalated")
        tap.equal(at("quota", end), [], "resolved")
        tap.equal(at("quota", end + 30 * MINUTE), [], "half an hour later")
        leak = loki.time_of(rule="leak", state="firing")
        tap.equal(at("leak", leak), ["warning"], "leak")
        last = max(e[0] for e in entries)
        tap.equal([s for s, _ in fires("GpuxrayIncident", entries, last)], [], "after all")

    each(check)


@tap.test("what it says on a phone names the process")
def summary():
    def check(entries):
        now = loki.time_of(rule="leak", state="firing")
        text = [a["summary"] for s, a in fires("GpuxrayIncident", entries, now) if s["rule"] == "leak"]
        pid = next(r for r in tap.records() if r.get("GPUXRAY_RULE") == "leak")["GPUXRAY_PID"]
        tap.equal(text, [f"GPU memory: rule leak fires on gpu01: train[{pid}] (train.service)"], "summary")

    each(check)


@tap.test("an incident whose daemon died without a word ends with the window")
def killed():
    def check(entries):
        start = loki.time_of(rule="quota", state="firing")
        only = [e for e in entries if e[0] <= start]
        for later, want in ((MINUTE, 1), (59 * MINUTE, 1), (61 * MINUTE, 0)):
            got = [s for s, _ in fires("GpuxrayIncident", only, start + later) if s["rule"] == "quota"]
            tap.equal(len(got), want, f"{later / MINUTE:.0f} minutes later")

    each(check)


@tap.test("a failed allocation fires for five minutes")
def failure():
    def check(entries):
        at = loki.time_of(event="alloc_failure")
        for now, want in ((at - 1, 0), (at, 1), (at + 4 * MINUTE, 1), (at + 6 * MINUTE, 0)):
            got = fires("GpuxrayAllocationFailed", entries, now)
            tap.equal(len(got), want, f"{(now - at) / MINUTE:.0f} minutes later")
        tap.equal({k: v for k, v in fires("GpuxrayAllocationFailed", entries, at)[0][0].items() if k in ("comm", "rule", "unit")},
                  {"comm": "train", "rule": "oom", "unit": "train.service"}, "labels")

    each(check)


@tap.test("silence is told by host, a clean stop apart from it")
def silence():
    def check(entries):
        last = loki.time_of(event="health")
        alive = [e for e in entries if e[0] <= last]
        other = [(t + 30 * MINUTE, {**labels, "host": "gpu02"}, m, line) for t, labels, m, line in alive]

        def at(name, which, now):
            return [s.get("host", "") for s, _ in fires(name, which, now)]

        tap.equal(at("GpuxraySilent", alive, last + 10 * MINUTE), [], "after 10 minutes")
        tap.equal(at("GpuxraySilent", alive, last + 20 * MINUTE), ["gpu01"], "after 20 minutes")
        tap.equal(at("GpuxraySilent", alive + other, last + 31 * MINUTE), ["gpu01"], "one of two hosts")
        beats = alive + [(last + 3 * HOUR, *next(e[1:] for e in alive if e[0] == last))]
        tap.equal(at("GpuxraySilent", beats, last + 3 * HOUR + 10 * MINUTE), [], "a health record hours after the start")
        tap.equal(at("GpuxraySilent", alive, last + 25 * HOUR), [], "after a day")
        tap.equal(at("GpuxrayStopped", alive, last + 20 * MINUTE), [], "stopped, when it was not")
        stop = loki.time_of(event="stop")
        done = [e for e in entries if e[0] <= stop]
        tap.equal(at("GpuxraySilent", done, stop + 20 * MINUTE), [], "silent, when it was stopped")
        tap.equal(at("GpuxrayStopped", done, stop + 20 * MINUTE), ["gpu01"], "stopped")
        tap.equal(len(at("GpuxraySilentEverywhere", alive, last + 10 * MINUTE)), 0, "all silent after 10 minutes")
        tap.equal(len(at("GpuxraySilentEverywhere", alive, last + 20 * MINUTE)), 1, "all silent after 20 minutes")
        samples = [e for e in alive if e[1]["job"] == "gpuxray-history"]
        tap.equal(len(at("GpuxraySilentEverywhere", samples, last)), 1, "samples are no sign of health")

    each(check)


@tap.test("records held back are told")
def suppressed():
    def check(entries):
        numbers = [r for r in tap.records() if "GPUXRAY_SUPPRESSED" in r]
        last = int(numbers[-1]["__REALTIME_TIMESTAMP"])
        tap.equal(fires("GpuxrayRecordsSuppressed", [e for e in entries if "GPUXRAY_SUPPRESSED" not in e[3]], last), [], "none")
        got = fires("GpuxrayRecordsSuppressed", entries, last)
        tap.equal([s for s, _ in got], [{"host": "gpu01"}], "some")
        total = sum(int(r["GPUXRAY_SUPPRESSED"]) for r in numbers)
        tap.equal(f"held back {total} records" in got[0][1]["summary"], True, got[0][1]["summary"])

    each(check)


tap.main()
