#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""syslog-ng: journal to JSON file, and incidents straight to Alertmanager."""
import datetime
import os
import time

import harness_ship as s
import golden
from harness_ship import h

CONF = s.CONTRIB + "/syslog-ng/"
OUT = "/var/log/gpuxray.json"
# What Debian's own syslog-ng.conf has, as far as it matters here; old records are read so that tests need not wait.
MAIN = """@version: 3.38
options {{ stats-freq(0); }};
source s_src {{ systemd-journal(read-old-records(yes)); }};
{includes}
"""
# A device is what this one is about; and it repeats soon.
RULES = golden.RULES.replace('keep_firing_for = "0s";', 'keep_firing_for = "0s"; repeat = "2s"; budget = "100/1m";').replace(
    "rules = (", """rules = (
  { name = "card"; kind = "live_bytes"; scope = "device"; fire_above = "50MiB"; for = "0s"; severity = "error"; },""")


class SyslogNg:
    def __init__(self, case, *files):
        self.case = case
        self.conf = case.write("syslog-ng.conf", MAIN.format(includes="\n".join(f'@include "{f}"' for f in files)))
        root = s.SHIPPERS if s.is_unpacked(s.program("syslog-ng")) else ""
        modules = [f"--module-path={root}/usr/lib/syslog-ng/3.38"] if root else []
        os.makedirs("/var/lib/syslog-ng", exist_ok=True)
        self.options = ["-f", self.conf, *modules, "--persist-file=/var/lib/syslog-ng/syslog-ng.persist", "--no-caps"]
        self.service = None

    def check(self):
        out = s.checker(self.case, "syslog-ng", "--syntax-only", *self.options)
        self.case.check("WARNING" not in out and "rror" not in out, f"syslog-ng --syntax-only: {out}")

    def start(self):
        self.service = s.Service(self.case, "syslog-ng", [
            s.program("syslog-ng"), "-F", *self.options, "--pidfile=" + self.case.path("pid"),
            "--control=" + self.case.path("ctl")])


def wait_all(sent, seconds=15):
    return s.wait_all(sent, lambda: s.json_lines(OUT), seconds)


@s.test("syslog-ng reads the journal: every record once, every field as it is, nothing of others")
def journal(case):
    n = SyslogNg(case, CONF + "gpuxray.conf")
    n.check()
    sent = golden.records(case)
    s.write_foreign_records()
    n.start()
    wait_all(sent)
    got = s.json_lines(OUT)
    s.check_same(case, sent, got, "file")
    s.check_no_foreign(case, got)
    # And after it was away.
    case.equal(n.service.stop(), 0, "exit status")
    sent += golden.more(case)
    n.start()
    s.check_same(case, sent, wait_all(sent), "after a stop")
    n.service.kill()
    sent += golden.more(case)
    n.start()
    got = wait_all(sent)
    h.comment(f"after a kill {len(got) - len(sent)} of {len(sent)} records came twice")


def labels_of(r):
    """What an alert about a record is known by."""
    device = r["GPUXRAY_DEVICE"] if r["GPUXRAY_SCOPE"] == "device" else ""
    found = {"alertname": "GpuxrayIncident", "rule": r["GPUXRAY_RULE"], "severity": r["GPUXRAY_SEVERITY"],
             "host": r["_HOSTNAME"], "incident": r["GPUXRAY_INCIDENT"], "device": device, "unit": r.get("GPUXRAY_UNIT")}
    return {k: v for k, v in found.items() if v}


def seconds_to_end(alert, r):
    return datetime.datetime.fromisoformat(alert["endsAt"].replace("Z", "+00:00")).timestamp() - \
        int(r["GPUXRAY_TIME_USEC"]) / 1e6


@s.test("syslog-ng to Alertmanager: a page with all its labels, once, resolved when it is over, and after an outage")
def alertmanager(case):
    n = SyslogNg(case, CONF + "gpuxray.conf", CONF + "gpuxray-alertmanager.conf")
    n.check()
    pager = s.Pager()
    am = s.start_alertmanager(case)
    golden.records(case)
    n.start()
    d = case.daemon(rules=RULES, config=golden.CONFIG)
    w = golden.named(case)
    r = d.wait_record(w.pid, rule="quota", state="firing")

    def alerts(**labels):
        return [a for a in s.get_json(s.ALERTS) or [] if labels.items() <= a["labels"].items()]

    a = h.poll(lambda: alerts(incident=r["GPUXRAY_INCIDENT"]), 10, "the alert")[0]
    case.equal(a["labels"], labels_of(r), "labels")
    case.equal(a["annotations"], {"summary": r["MESSAGE"].split("\n")[0], "stack": r["GPUXRAY_STACK"],
                                  "runbook": r["DOCUMENTATION"]}, "annotations")
    case.check(4490 < seconds_to_end(a, r) < 4510, f"it ends after {seconds_to_end(a, r)} s")
    page = h.poll(lambda: pager.alerts(incident=r["GPUXRAY_INCIDENT"]), 10, "the page")[0]
    case.equal(page["status"], "firing", "status of the page")
    case.equal(page["annotations"]["summary"], r["MESSAGE"].split("\n")[0], "summary of the page")
    card = d.wait_record(rule="card", state="firing")
    case.equal(h.poll(lambda: alerts(rule="card", incident=card["GPUXRAY_INCIDENT"]), 10, "the card's")[0]["labels"],
               labels_of(card), "labels of a device's")
    # A later record of the same incident renews the alert and tells nobody anew.
    d.wait_record(w.pid, rule="quota", state="repeat")
    renewed = h.poll(lambda: (lambda x: x if x["updatedAt"] != a["updatedAt"] else None)(
        alerts(incident=r["GPUXRAY_INCIDENT"])[0]), 10, "the alert renewed")
    case.equal(renewed["startsAt"], a["startsAt"], "start of the renewed alert")
    # Alertmanager is away while the incident ends.
    am.stop()
    w.end()
    d.wait_record(w.pid, rule="quota", state="resolved")
    time.sleep(1)
    s.start_alertmanager(case)
    over = h.poll(lambda: [x for x in pager.alerts(incident=r["GPUXRAY_INCIDENT"]) if x["status"] == "resolved"], 25,
                  lambda: f"told that it is over: {pager.alerts(incident=r['GPUXRAY_INCIDENT'])}")[0]
    case.equal(over["labels"], labels_of(r), "labels of what is over")
    case.equal(len([x for x in pager.alerts(incident=r["GPUXRAY_INCIDENT"]) if x["status"] == "resolved"]), 1, "times over")
    case.equal(alerts(incident=r["GPUXRAY_INCIDENT"]), [], "alerts that are left")
    # What is over as soon as it is told ends by itself.
    e = d.wait_record(w.pid, rule="exit")
    single = h.poll(lambda: alerts(incident=e["GPUXRAY_INCIDENT"]), 10, "the alert of an exit")[0]
    case.check(590 < seconds_to_end(single, e) < 610, f"it ends after {seconds_to_end(single, e)} s")
    d.stop()
    case.equal(n.service.stop(), 0, "exit status")


@s.test("syslog-ng to Alertmanager: a leak that gets worse is one page, and over when it is over")
def worse(case):
    n = SyslogNg(case, CONF + "gpuxray.conf", CONF + "gpuxray-alertmanager.conf")
    pager = s.Pager()
    s.start_alertmanager(case)
    n.start()
    incident = os.urandom(16).hex()
    leak = {"SYSLOG_IDENTIFIER": "gpuxray", "MESSAGE": "python3[1] leaks", "GPUXRAY_EVENT": "leak", "GPUXRAY_RULE": "leak",
            "GPUXRAY_SCOPE": "process", "GPUXRAY_INCIDENT": incident, "PRIORITY": "4"}

    def alerts():
        found = s.get_json(s.ALERTS) or []
        return {a["labels"]["severity"]: a["status"] for a in found if a["labels"]["incident"] == incident}

    s.write_record({**leak, "GPUXRAY_SEVERITY": "warning", "GPUXRAY_STATE": "firing", "GPUXRAY_SEQ": "1"})
    h.poll(lambda: pager.alerts(incident=incident, severity="warning"), 10, "the first page")
    s.write_record({**leak, "GPUXRAY_SEVERITY": "error", "GPUXRAY_STATE": "repeat", "GPUXRAY_SEQ": "2"})
    h.poll(lambda: pager.alerts(incident=incident, severity="error"), 10, "the page that it is worse")
    got = alerts()
    case.equal(sorted(got), ["error", "warning"], "alerts")
    case.check(got["warning"]["inhibitedBy"], f"the lesser one is not inhibited: {got}")
    s.write_record({**leak, "GPUXRAY_SEVERITY": "error", "GPUXRAY_STATE": "resolved", "GPUXRAY_SEQ": "3"})
    h.poll(lambda: not alerts(), 10, lambda: f"all are over: {alerts()}")
    h.poll(lambda: any(a["status"] == "resolved" for a in pager.alerts(incident=incident, severity="error")), 10, "told so")
    case.equal(pager.alerts(incident=incident, severity="notice"), [], "told of what never was")


if __name__ == "__main__":
    h.main()
