#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records as metrics (mtail), alerts on them (Prometheus), and who hears of those (Alertmanager); and all of it in a row."""
import glob
import json
import os
import re

import harness_ship as s
import golden
import test_rsyslog
from harness_ship import h

h.tests.clear()  # that file is here for its tools

MTAIL = s.CONTRIB + "/mtail/gpuxray.mtail"
PROMETHEUS = s.CONTRIB + "/prometheus/"
ROUTE = s.CONTRIB + "/alertmanager/gpuxray-route.yml"
METRICS = "http://127.0.0.1:3903/metrics"
HOST = os.uname().nodename


def samples(text):
    """{(name, labels as sorted pairs): value} of gpuxray's metrics, without the program's name."""
    found = {}
    for name, labels, value in re.findall(r"^(gpuxray_\w+)(?:\{(.*)\})? (\S+)$", text or "", re.M):
        pairs = {k: json.loads(f'"{v}"') for k, v in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels)}
        pairs.pop("prog", None)
        found[name, tuple(sorted((k, v) for k, v in pairs.items() if v))] = float(value)
    return found


def of(found, name, **labels):
    """The values of one metric, of those series that have these labels."""
    return [v for (n, ls), v in found.items() if n == name and set(labels.items()) <= set(ls)]


def start_mtail(case, log):
    programs = case.path("mtail")
    os.makedirs(programs, exist_ok=True)
    if not os.path.exists(programs + "/gpuxray.mtail"):
        os.symlink(MTAIL, programs + "/gpuxray.mtail")
    m = s.Service(case, "mtail", [s.program("mtail"), "--progs", programs, "--logs", log, "--address", "127.0.0.1", "--port",
                                  "3903", "--logtostderr", "--expired_metrics_gc_interval=1m"])
    h.poll(lambda: s.get_text(METRICS), 15, "mtail answers")
    return m


@s.test("the files for Prometheus, Alertmanager and mtail are good, and alert rules do what their tests say")
def checks(case):
    s.checker(case, "promtool", "check", "config", PROMETHEUS + "gpuxray-records.yml")
    s.checker(case, "promtool", "check", "rules", PROMETHEUS + "gpuxray-records-rules.yml")
    s.checker(case, "promtool", "test", "rules", PROMETHEUS + "gpuxray-records-rules-test.yml")
    s.checker(case, "amtool", "check-config", ROUTE)
    out = s.checker(case, "mtail", "--compile_only", "--logtostderr", "--address=127.0.0.1", "--progs", MTAIL)
    case.check("unused" not in out and "rror" not in out, f"mtail: {out}")


@s.test("who hears of what: amtool on the shipped routes, also with the receivers that are written there as comments")
def routes(case):
    for labels, receiver in (("alertname=GpuxrayIncident severity=critical", "gpu-pager"),
                             ("alertname=GpuxrayIncident severity=error", "gpu-pager"),
                             ("alertname=GpuxraySilent severity=error", "gpu-pager"),
                             ("alertname=GpuxrayIncident severity=warning", "gpu-tickets"),
                             ("alertname=GpuxrayRecordsSuppressed severity=warning", "gpu-tickets"),
                             ("alertname=GpuxrayStopped severity=notice", "gpu-log"),
                             ("alertname=NodeDown severity=critical", "nobody")):
        s.checker(case, "amtool", "config", "routes", "test", f"--config.file={ROUTE}", f"--verify.receivers={receiver}",
                  *labels.split())
    with open(ROUTE) as f:
        head, receivers = f.read().split("\nreceivers:\n")
    filled = re.sub(r"^    # (?=[ a-z-]*(_configs|\w+):|  - )", "    ", receivers, flags=re.M)
    case.check(filled.count("_configs:") >= 4 and filled != receivers, f"receivers: {filled}")
    s.checker(case, "amtool", "check-config", case.write("filled.yml", head + "\nreceivers:\n" + filled))


@s.test("mtail: metrics of real records by each of the JSON writers, hostile names too, are what the records say")
def metrics(case):
    records = golden.records(case)
    suppressed = 3
    # Nothing has been held back in those: one that says so.
    told = dict(next(r for r in records if r["GPUXRAY_EVENT"] == "health"), GPUXRAY_SUPPRESSED=str(suppressed))
    # An incident that lasts, and gets worse; one whose subject would like to be another one.
    lasts = dict(next(r for r in records if r.get("GPUXRAY_STATE") == "firing" and r["GPUXRAY_EVENT"] == "live_bytes"),
                 GPUXRAY_INCIDENT="0123456789abcdef" * 2, GPUXRAY_RULE="lasting", GPUXRAY_SEVERITY="warning")
    worse = dict(lasts, GPUXRAY_STATE="repeat", GPUXRAY_SEQ="2", GPUXRAY_SEVERITY="error")
    text = '"GPUXRAY_EVENT": "leak", "GPUXRAY_INCIDENT": "ff", "GPUXRAY_STATE": "firing"'
    forged = dict(told, MESSAGE=text, GPUXRAY_SUPPRESSED="0")
    other = dict(lasts, SYSLOG_IDENTIFIER="other", GPUXRAY_RULE="others")
    lines = [*records, told, lasts, worse, forged, other]
    for writer, separators in (("compact", (",", ":")), ("rsyslog", (", ", ": "))):
        text = "".join(json.dumps(r, separators=separators, ensure_ascii=False) + "\n" for r in lines)
        log = case.write(f"{writer}.json", text)
        out = h.must(s.program("mtail"), "--one_shot", "--one_shot_format=prometheus", "--progs", MTAIL, "--logs", log,
                     "--address=127.0.0.1", "--logtostderr")
        found = samples(out)
        want = {}
        for r in records + [lasts]:
            if r.get("GPUXRAY_STATE") == "firing":
                k = tuple(sorted({"host": HOST, "event": r["GPUXRAY_EVENT"], "rule": r["GPUXRAY_RULE"],
                                  "severity": r["GPUXRAY_SEVERITY"]}.items()))
                want[k] = want.get(k, 0) + 1
        case.equal({ls: v for (n, ls), v in found.items() if n == "gpuxray_incidents_total"}, want, f"{writer}: incidents")
        case.equal(of(found, "gpuxray_alloc_failures_total"),
                   [len([r for r in records if r["GPUXRAY_EVENT"] == "alloc_failure"])], f"{writer}: failures")
        # All others are over, or were as soon as they were told.
        case.equal({ls: v for (n, ls), v in found.items() if n == "gpuxray_incident_firing"},
                   {(("host", HOST), ("incident", "0123456789abcdef" * 2), ("rule", "lasting"), ("severity", "error")): 1},
                   f"{writer}: firing")
        health = [int(r["GPUXRAY_TIME_USEC"]) // 1000000 for r in records if r["GPUXRAY_EVENT"] in ("health", "start")]
        case.equal(of(found, "gpuxray_health_time_seconds"), [int(told["GPUXRAY_TIME_USEC"]) // 1000000],
                   f"{writer}: last health record, of {len(health)}")
        case.equal(of(found, "gpuxray_records_suppressed_total"), [suppressed], f"{writer}: held back")
        case.equal(of(found, "gpuxray_lost_events"), [0], f"{writer}: lost")
        # Its stop is in the golden records, but a health record was told after it.
        case.equal(of(found, "gpuxray_daemon_up"), [1], f"{writer}: up")


@s.test("mtail on the daemon's own JSON lines, without a journal")
def json_sink(case):
    log = case.path("gpuxray.json")
    open(log, "w").close()
    start_mtail(case, log)
    # As `gpuxray run --sink json >> gpuxray.json`.
    d = case.daemon(rules=golden.RULES, sink="json", config=golden.CONFIG, wrap=["sh", "-c", f'exec "$@" >>{log}', "sh"])
    w = golden.named(case)
    firing = h.poll(lambda: of(samples(s.get_text(METRICS)), "gpuxray_incident_firing", rule="quota"), 10, "it fires")
    case.equal(firing, [1], "firing")
    w.end()
    h.poll(lambda: not of(samples(s.get_text(METRICS)), "gpuxray_incident_firing", rule="quota"), 10, "it is over")
    case.equal(of(samples(s.get_text(METRICS)), "gpuxray_daemon_up"), [1], "up")
    d.stop()
    h.poll(lambda: of(samples(s.get_text(METRICS)), "gpuxray_daemon_up") == [0], 10, "known to be stopped")


def prometheus_conf(case):
    """The shipped files, without their patience."""
    for f in glob.glob(PROMETHEUS + "gpuxray-records*.yml"):
        with open(f) as shipped:
            text = shipped.read()
        case.write(os.path.basename(f), re.sub(r"(scrape|evaluation)_interval: \w+", r"\1_interval: 1s", text))
    return case.path("gpuxray-records.yml")


@s.test("all in a row: an incident of a real process is a page, and its end too; a silent daemon is one as well", seconds=30)
def in_a_row(case):
    pager = s.Pager()
    s.start_alertmanager(case)
    r = test_rsyslog.Rsyslog(case, test_rsyslog.CONF + "30-gpuxray-journal.conf")
    open(test_rsyslog.OUT, "w").close()
    start_mtail(case, test_rsyslog.OUT)
    conf = prometheus_conf(case)
    # As if the daemon had been silent for long: here it says every second that it is well.
    rules = case.path("gpuxray-records-rules.yml")
    with open(rules) as f:
        text = f.read()
    case.check("> 15 * 60" in text, "the rule about silence is another one")
    case.write("gpuxray-records-rules.yml", text.replace("> 15 * 60", "> 5"))
    s.Service(case, "prometheus", [s.program("prometheus"), "--config.file=" + conf,
                                   "--storage.tsdb.path=" + case.path("tsdb"), "--web.listen-address=127.0.0.1:9090"])
    r.start()
    d = case.daemon(rules=golden.RULES, config=golden.CONFIG)
    w = golden.named(case)
    record = d.wait_record(w.pid, rule="quota", state="firing")
    labels = {"alertname": "GpuxrayIncident", "rule": "quota", "severity": "critical", "host": HOST,
              "incident": record["GPUXRAY_INCIDENT"]}
    page = h.poll(lambda: pager.alerts(**labels), 30, lambda: f"the page; told were {pager.told}")[0]
    case.equal(page["status"], "firing", "status")
    case.equal({k: v for k, v in page["labels"].items() if k not in ("instance", "job")}, labels, "labels")
    case.contains(page["annotations"]["description"], "GPUXRAY_INCIDENT=" + record["GPUXRAY_INCIDENT"], "description")
    w.end()
    h.poll(lambda: [a for a in pager.alerts(**labels) if a["status"] == "resolved"], 30, "told that it is over")
    case.equal(len({(a["status"], a["labels"]["incident"]) for a in pager.alerts(**labels)}), 2, "kinds of pages")
    os.kill(d.pid, 9)
    silent = h.poll(lambda: pager.alerts(alertname="GpuxraySilent", host=HOST), 30, "told that the daemon is silent")
    case.contains(silent[0]["annotations"]["summary"], HOST, "summary of the silent one")


if __name__ == "__main__":
    h.main()
