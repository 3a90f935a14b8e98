#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""contrib/grafana/gpuxray-metrics-dashboard.json: Grafana's form, metrics and labels that there are, data in every panel."""
import copy
import json
import re

import grafana
import promql
import tap

DASHBOARD = tap.CONTRIB + "/grafana/gpuxray-metrics-dashboard.json"


def targets():
    return [(p, t) for p in grafana.panels(grafana.load(DASHBOARD)) for t in p["targets"]]


def exprs():
    return [promql.plain(t["expr"]) for _, t in targets()]


def problems_of(d):
    return grafana.form_problems(d, grafana.PROMETHEUS) + grafana.range_problems(d)


@tap.test("the dashboard has the form of Grafana's schema")
def form():
    d = grafana.load(DASHBOARD)
    tap.fail_if(problems_of(d))
    for change in (lambda p: p.update(type="graph"), lambda p: p["fieldConfig"]["defaults"].update(unit="parsecs"),
                   lambda p: p["targets"][0].update(query="up"), lambda p: p["targets"][0].pop("refId")):
        broken = copy.deepcopy(d)
        change(broken["panels"][0])
        tap.equal(bool(problems_of(broken)), True, "a broken one is found")


@tap.test("ids and places are each one panel's, and few queries run at first")
def places():
    tap.fail_if(grafana.place_problems(grafana.load(DASHBOARD), 9))
    other = json.loads(tap.read(tap.CONTRIB + "/grafana/gpuxray-dashboard.json"))
    tap.equal(other["uid"] != grafana.load(DASHBOARD)["uid"], True, "another id than that of the dashboard on records")


@tap.test("queries, legends, transformations and variables name what there is")
def names():
    d = grafana.load(DASHBOARD)
    known = promql.labels_by_name()
    variables = {v["name"] for v in d["templating"]["list"]} | {"__rate_interval"}
    problems = []
    for p, t in targets():
        title = p["title"]
        problems += [f"{title}: no variable {v}" for v in sorted(set(re.findall(r"\$\{?(\w+)", json.dumps(t))) - variables)]
        problems += [f"{title}: {x}" for x in promql.problems(promql.plain(t["expr"]), known)]
        found, grouped = promql.uses(promql.plain(t["expr"]))
        have = grouped.union(*(known.get(n, set()) for n, _ in found))
        problems += [f"{title}: the legend names {n}" for n in re.findall(r"\{\{\s*(\w+)\s*\}\}", t.get("legendFormat", "")) if n not in have]
        if 'instance=~"$instance"' not in t["expr"]:
            problems.append(f"{title}: not of the chosen hosts alone")
        fields = have | {"Time"} | {f"Value #{x['refId']}" for x in p["targets"]}
        for tr in p.get("transformations", ()):
            problems += [f"{title}: {tr['id']} names {n}" for k in ("excludeByName", "indexByName", "renameByName")
                         for n in tr["options"].get(k, ()) if n not in fields]
    for v in d["templating"]["list"]:
        if v["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)", v["query"]["query"]).groups()
            problems += [f"variable {v['name']}: {x}" for x in promql.problems(promql.plain(metric), known)]
            if label not in known.get(promql.uses(promql.plain(metric))[0][0][0], ()):
                problems.append(f"variable {v['name']}: no label {label}")
    tap.fail_if(problems)


@tap.test("what looks for names finds those that nothing has")
def strict():
    known = promql.labels_by_name()
    for expr, word in (("gpuxary_events_total", "no metric"), ("rate(gpu_used_memory_byte{gpu=\"x\"}[5m])", "no metric"),
                       ("gpu_used_memory_bytes{pid=\"1\"}", "no label pid"), ("sum by (pod) (gpu_used_memory_bytes)", "a label pod"),
                       ("a + on (gpu) group_left (zone) gpu_used_memory_bytes", "a label zone"), ("vector(1)", "no metric at all")):
        tap.equal(any(word in p for p in promql.problems(expr, known)), True, expr)
    tap.equal(promql.problems('topk(3, sum by (job, le) (rate(gpuxray_call_duration_seconds_bucket{le!="+Inf"}[5m] offset 1h))) > bool 1e3 or on () vector(0)',
                              known), [], "a good one")


@tap.test("promtool parses every query")
def parse():
    tap.fail_if(promql.parses(exprs()))
    tap.equal(len(promql.parses([exprs()[0] + ")"])), 1, "a broken one is found")


@tap.test("every query finds something where everything that there is goes up")
def data():
    tap.fail_if([f"no data: {e}" for e in promql.without_data(exprs())])
    tap.equal(promql.without_data(["gpuxray_exact", "gpuxray_exact > 1e18"]), ["gpuxray_exact > 1e18"], "what finds nothing")


tap.main()
