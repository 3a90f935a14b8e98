#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A real Prometheus scrapes `gpuxray mon` and the daemon's own listener: series, what is gone, alerts, the dashboard."""
import json
import os
import re
import subprocess
import urllib.parse

import harness_ship as s
import golden
from harness_ship import h

PROMETHEUS = s.CONTRIB + "/prometheus/"
DASHBOARD = s.CONTRIB + "/grafana/gpuxray-metrics-dashboard.json"
API = "http://127.0.0.1:9090/api/v1/"
PORT = 2112  # that of the shipped configuration
MINE = f'instance="localhost:{PORT}"'


def api(path, **args):
    """The data of an answer; None while there is none."""
    got = s.get_json(API + path + ("?" + urllib.parse.urlencode(args) if args else ""))
    return got["data"] if got and got["status"] == "success" else None


def query(expr):
    """[(labels, value)] of now; a query that is refused is a failure."""
    data = api("query", query=expr)
    if data is None:
        raise h.Failure(f"Prometheus refuses {expr}")
    return [(r["metric"], float(r["value"][1])) for r in data["result"]]


def values(expr):
    return [v for _, v in query(expr)]


def start_prometheus(case):
    """With the shipped files, without their patience."""
    for name in ("gpuxray-metrics.yml", "gpuxray-metrics-rules.yml"):
        with open(PROMETHEUS + name) as f:
            case.write(name, re.sub(r"(scrape|evaluation)_interval: \w+", r"\1_interval: 1s", f.read()))
    p = s.Service(case, "prometheus", [
        s.program("prometheus"), "--config.file=" + case.path("gpuxray-metrics.yml"),
        "--storage.tsdb.path=" + case.path("tsdb"), "--web.listen-address=127.0.0.1:9090"])
    h.poll(lambda: api("status/buildinfo"), 15, "Prometheus answers")
    return p


def scraped(case):
    """How the scrapes of gpuxray go."""
    def look():
        targets = [t for t in api("targets", state="active")["activeTargets"] if t["labels"]["job"] == "gpuxray"]
        return targets[0] if targets and targets[0]["health"] != "unknown" else None

    t = h.poll(look, 15, "it is scraped")
    case.equal((t["health"], t["lastError"]), ("up", ""), "scrape")


def mon(case, *options):
    p = h.Process(case, "mon", [h.GPUXRAY, "mon", *options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                  env={"LD_LIBRARY_PATH": h.FAKE, "FAKE_GPU_STATE": case.path("gpu-state")})
    h.poll(lambda: "metrics of " in p.stderr() or not p.is_alive(), 40, "mon listens")
    return p


@s.test("Prometheus scrapes gpuxray mon: figures are the daemon's, alerts fire and end, a dead process leaves no series", seconds=30)
def scrape(case):
    d = case.daemon(rules=golden.RULES, config=golden.CONFIG)
    mon(case)
    start_prometheus(case)
    w = golden.named(case)
    hostile = case.work("work_hostile", "--long=3300")
    hostile.next("hostile")
    scraped(case)
    of = f'{{{MINE}, pid="{w.pid}"}}'
    h.poll(lambda: values("gpuxray_process_live_bytes" + of), 15, "its series")
    p = d.process(w.pid)
    for metric, want in (("gpuxray_process_live_bytes", p["live_bytes"]), ("gpuxray_process_peak_bytes", p["peak_bytes"]),
                         ("gpuxray_process_allocations_total", p["alloc_count"]), ("gpuxray_process_live_blocks", p["live_count"]),
                         ("gpuxray_process_covered", 1), ("gpuxray_process_exact", 1), ("sum(gpuxray_process_device_live_bytes%s)", p["live_bytes"]),
                         ("sum(gpu_process_active%s)", len(p["devices"]))):
        case.equal(values(metric % of if "%s" in metric else metric + of), [float(want)], metric)
    case.equal([m["comm"] for m, _ in query("gpuxray_process_live_bytes" + of)], [golden.NAME_ESCAPED], "its name")
    who = query("gpuxray_process_info" + of)
    case.equal([(m["start_time"], m["comm"]) for m, _ in who], [(str(p["start_time"]), golden.NAME_ESCAPED)], "who it is")
    joined = query(f"gpuxray_process_live_bytes{of} * on (job, instance, pid) group_left (user) gpuxray_process_info")
    case.equal([(m.get("user"), v) for m, v in joined], [("root", float(p["live_bytes"]))], "joined with its user")
    # Line breaks, escapes and changes of text direction are written as in its records.
    name = d.wait_record(hostile.pid, event="alloc_failure")["GPUXRAY_COMM"]
    case.check("\\x0a" in name and "\\xe2" in name and '"' in name, f"a name that is not hostile: {name}")
    case.equal([m["comm"] for m, _ in query(f'gpuxray_process_live_bytes{{pid="{hostile.pid}"}}')], [name], "a hostile name")
    case.equal(values(f'gpuxray_process_allocation_failures_total{{pid="{hostile.pid}"}}') > [0], True, "failures")
    check_alerts(case, w, hostile)
    check_dashboard(case)


def firing():
    return [a["labels"] for a in api("alerts")["alerts"] if a["state"] == "firing"]


def check_alerts(case, w, hostile):
    names = {r["name"] for g in api("rules")["groups"] for r in g["rules"] if r["health"] != "ok"}
    case.equal(names, set(), "rules that Prometheus cannot evaluate")
    quota = h.poll(lambda: [a for a in firing() if a["alertname"] == "GpuxrayRuleFires" and a["rule"] == "quota"], 15, "the alert")
    case.equal((quota[0]["severity"], quota[0]["host"], quota[0]["kind"]), ("critical", "localhost", "live_bytes"), "alert")
    h.poll(lambda: [a for a in firing() if a["alertname"] == "GpuxrayAllocationsFail" and a["pid"] == str(hostile.pid)], 15,
           "an alert of the refused allocation")
    w.end()
    hostile.end()
    # Without staleness it would be there for five minutes.
    h.poll(lambda: not query(f'{{pid=~"{w.pid}|{hostile.pid}"}}'), 15, "series of dead processes are gone")
    h.poll(lambda: not [a for a in firing() if a.get("rule") == "quota"], 15, "the alert is over")
    case.equal(values(f"up{{{MINE}}}"), [1.0], "up")


def check_dashboard(case):
    """Every query of it is one for Prometheus, and has found something."""
    with open(DASHBOARD) as f:
        d = json.load(f)
    empty = []
    for p in (q for p in d["panels"] for q in p.get("panels", [p])):
        if p["type"] == "row":
            continue
        for t in p["targets"]:
            expr = re.sub(r"\$__\w+", "5s", t["expr"])
            expr = re.sub(r"\$\w+", ".*", expr)
            # Over the time of the test: processes are gone by now.
            if not query(f"count_over_time(({expr})[1m:1s])"):
                empty.append(p["title"])
    # Nothing grows here; the stand-in driver may not say how busy, hot or hungry it is; and what it says of processes cannot
    # be used in a PID namespace, which tests may have.
    may = {"Growth of traced memory, 10 m", "Busy", "Busy by process", "Memory read or written", "Temperature", "Power",
           "Memory that is not traced"}
    case.equal(sorted(set(empty) - may), [], "panels without data")


@s.test("Prometheus scrapes the daemon itself, in both formats, and after its restart", seconds=30)
def daemon(case):
    config = golden.CONFIG + f'metrics = {{ listen = "localhost:{PORT}"; }};\n'
    d = case.daemon(rules=golden.RULES, config=config)
    start_prometheus(case)
    scraped(case)
    case.equal(values(f"gpuxray_daemon{{{MINE}}}"), [1.0], "it is the daemon")
    case.equal(values(f"process_resident_memory_bytes{{{MINE}}} > 1e6") != [], True, "its own cost")
    with open(f"/proc/{d.pid}/statm") as f:
        resident = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    got = values(f"process_resident_memory_bytes{{{MINE}}}")
    case.equal(bool(got) and abs(got[0] - resident) < 64 << 20, True, f"resident memory {got}, of {resident}")
    begin = values(f"process_start_time_seconds{{{MINE}}}")
    text = s.get_text(f"http://localhost:{PORT}/metrics")
    r = h.run(s.program("promtool"), "check", "metrics", input=text)
    case.equal((r.returncode, r.stdout + r.stderr), (0, ""), "promtool check metrics")
    out = h.must(h.GPUXRAY, "mon", "--once")
    case.equal(kinds(out) ^ kinds(text), set(), "metrics of mon --once and of the daemon")
    d.stop()
    h.poll(lambda: values(f"up{{{MINE}}}") == [0.0], 15, "seen to be down")
    case.equal(query(f"gpuxray_daemon{{{MINE}}}"), [], "figures of one that is gone")
    case.daemon(rules=golden.RULES, config=config)
    h.poll(lambda: values(f"process_start_time_seconds{{{MINE}}}") > begin, 15, "scraped again")


def kinds(text):
    """Names with metadata, but for those that depend on what processes are there."""
    return {n for n in re.findall(r"^# TYPE (\w+)", text, re.M) if not re.match(r"gpu(xray)?_(process_|call_|incidents_)", n)}


if __name__ == "__main__":
    h.main()
