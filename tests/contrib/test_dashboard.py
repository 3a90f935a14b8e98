#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""contrib/grafana/gpuxray-dashboard.json: the form of Grafana's schema, names that exist, and data in every panel."""
import json
import re

import grafana
import logql
import loki
import shippers
import tap
from grafana import panels
from loki import dashboard, plain
from tap import ANY, BOOL, INT, NUMBER, STRING, ListOf, OneOf, Pattern

# After the types of @grafana/schema 13.2.
SOURCE = {"type": OneOf("loki"), "!uid": STRING}
GRID = {"!h": INT, "!w": INT, "!x": INT, "!y": INT, "static": BOOL}
COLOR = {"!mode": OneOf("fixed", "thresholds", "palette-classic", "palette-classic-by-name", "shades", "continuous-GrYlRd"),
         "fixedColor": STRING, "seriesBy": OneOf("min", "max", "last")}
RESULT = {"color": STRING, "icon": STRING, "index": INT, "text": STRING}
MAPPING = {"!type": OneOf("value"), "!options": {"*": RESULT}}
GRAPH = {"drawStyle": OneOf("line", "bars", "points"), "lineInterpolation": OneOf("linear", "smooth", "stepBefore", "stepAfter"),
         "lineWidth": NUMBER, "lineStyle": dict, "lineColor": STRING, "fillOpacity": NUMBER, "fillBelowTo": STRING,
         "gradientMode": STRING, "showPoints": OneOf("auto", "never", "always"), "pointSize": NUMBER,
         "spanNulls": OneOf(BOOL, INT), "insertNulls": OneOf(BOOL, INT), "axisLabel": STRING, "axisPlacement": STRING,
         "axisSoftMin": NUMBER, "axisSoftMax": NUMBER, "axisWidth": NUMBER, "scaleDistribution": dict,
         "stacking": {"group": STRING, "mode": OneOf("none", "normal", "percent")}, "thresholdsStyle": dict, "hideFrom": dict}
CELL = {"align": STRING, "cellOptions": {"!type": OneOf("auto", "color-text", "color-background", "gauge"), "mode": STRING},
        "filterable": BOOL, "inspect": BOOL, "width": NUMBER, "minWidth": NUMBER, "hidden": BOOL, "hideHeader": BOOL}
CUSTOM = {"timeseries": GRAPH, "table": CELL, "stat": {}, "logs": {}}
LEGEND = {"!calcs": ListOf(STRING), "!placement": OneOf("bottom", "right"), "!showLegend": BOOL, "asTable": BOOL, "limit": INT,
          "displayMode": OneOf("list", "table", "hidden"), "isVisible": BOOL, "sortBy": STRING, "sortDesc": BOOL, "width": NUMBER}
OPTIONS = {
    "timeseries": {"!legend": LEGEND, "!tooltip": {"!mode": OneOf("single", "multi", "none"), "!sort": OneOf("asc", "desc", "none"),
                                                  "hideZeros": BOOL, "maxHeight": INT, "maxWidth": INT}, "timezone": list},
    "table": {"!frameIndex": INT, "!showHeader": BOOL, "cellHeight": OneOf("sm", "md", "lg", "auto"), "enablePagination": BOOL,
              "sortBy": ListOf({"!displayName": STRING, "desc": BOOL}), "footer": dict},
    "stat": {"!colorMode": OneOf("background", "background_solid", "none", "value"), "!graphMode": OneOf("area", "line", "none"),
             "!justifyMode": OneOf("auto", "center"), "!orientation": OneOf("auto", "horizontal", "vertical"),
             "!reduceOptions": {"!calcs": ListOf(STRING), "fields": STRING, "limit": INT, "values": BOOL},
             "!textMode": OneOf("auto", "name", "none", "value", "value_and_name"), "!wideLayout": BOOL,
             "!showPercentChange": BOOL, "!percentChangeColorMode": OneOf("inverted", "same_as_value", "standard"), "text": dict},
    "logs": {"!dedupStrategy": OneOf("exact", "none", "numbers", "signature"), "!enableLogDetails": BOOL,
             "!prettifyLogMessage": BOOL, "!showCommonLabels": BOOL, "!showLabels": BOOL, "!showLogContextToggle": BOOL,
             "!showTime": BOOL, "!sortOrder": OneOf("Ascending", "Descending"), "!wrapLogMessage": BOOL,
             "fontSize": OneOf("default", "small"), "displayedFields": list, "enableInfiniteScrolling": BOOL}}
TARGET = {"!refId": Pattern("[A-Z]"), "!datasource": SOURCE, "!expr": STRING, "!queryType": OneOf("range", "instant"),
          "editorMode": OneOf("code", "builder"), "legendFormat": STRING, "maxLines": INT, "resolution": INT, "step": STRING,
          "hide": BOOL}
VARIABLE = {"!name": STRING, "!type": OneOf("query", "custom", "textbox", "datasource", "interval", "constant"), "label": STRING,
            "query": OneOf(STRING, {"!label": STRING, "!refId": STRING, "!stream": STRING, "!type": OneOf(0, 1)}),
            "datasource": SOURCE, "current": dict, "hide": OneOf(0, 1, 2, 3), "includeAll": BOOL, "allValue": STRING, "multi": BOOL,
            "options": ListOf({"text": STRING, "value": STRING, "selected": BOOL}), "refresh": OneOf(0, 1, 2), "regex": STRING,
            "skipUrlSync": BOOL, "sort": INT, "description": STRING, "allowCustomValue": BOOL}
TRANSFORMS = {"labelsToFields": {"mode": OneOf("columns", "rows"), "keepLabels": ListOf(STRING), "valueLabel": STRING}, "merge": {},
              "organize": {"excludeByName": {"*": BOOL}, "indexByName": {"*": INT}, "renameByName": {"*": STRING},
                           "includeByName": {"*": BOOL}}}
OVERRIDES = {"color": COLOR, "displayName": STRING, "mappings": ListOf(MAPPING), "unit": STRING, "decimals": INT, "noValue": STRING,
             "custom.cellOptions": CELL["cellOptions"], "custom.width": NUMBER}
UNITS = OneOf("bytes", "short", "percentunit", "s", "none")
ROW = {"!type": OneOf("row"), "!id": INT, "!collapsed": BOOL, "!panels": list, "title": STRING, "gridPos": GRID, "repeat": STRING}
DASHBOARD = {
    "annotations": {"list": list}, "description": STRING, "editable": BOOL, "graphTooltip": OneOf(0, 1, 2), "links": list,
    "!panels": list, "refresh": Pattern(r"\d+[smhd]"), "!schemaVersion": INT, "tags": ListOf(STRING), "liveNow": BOOL,
    "!templating": {"!list": ListOf(VARIABLE)}, "!time": {"!from": STRING, "!to": STRING}, "preload": BOOL,
    "timepicker": {"hidden": BOOL, "nowDelay": STRING, "quick_ranges": list, "refresh_intervals": ListOf(STRING)},
    "timezone": STRING, "!title": STRING, "!uid": Pattern("[A-Za-z0-9_-]{8,40}"), "version": INT, "weekStart": STRING, "id": ANY}


def panel_schema(kind):
    return {"!id": INT, "!type": OneOf(*OPTIONS), "!title": STRING, "!datasource": SOURCE, "!gridPos": GRID, "!targets": ListOf(TARGET),
            "description": STRING, "interval": STRING, "maxDataPoints": INT, "transparent": BOOL, "options": OPTIONS[kind],
            "transformations": ListOf({"!id": OneOf(*TRANSFORMS), "!options": dict, "disabled": BOOL}), "timeFrom": STRING,
            "!fieldConfig": {"!defaults": {
                "unit": UNITS, "min": NUMBER, "max": NUMBER, "decimals": INT, "noValue": STRING, "color": COLOR, "displayName": STRING,
                "mappings": ListOf(MAPPING), "custom": CUSTOM[kind],
                "thresholds": {"!mode": OneOf("absolute", "percentage"),
                               "!steps": ListOf({"!color": STRING, "!value": OneOf(type(None), INT)})}},
                "!overrides": ListOf({"!matcher": {"!id": OneOf("byType", "byName", "byFrameRefID", "byRegexp"), "options": ANY},
                                      "!properties": ListOf({"!id": OneOf(*OVERRIDES), "value": ANY})})}}


@tap.test("the dashboard has the form of Grafana's schema")
def form():
    tap.fail_if(grafana.form_problems(dashboard(), grafana.Form(DASHBOARD, ROW, panel_schema, OPTIONS, OVERRIDES, TRANSFORMS)))


@tap.test("ids and places are each one panel's; all fit a phone's single column and few queries run at first")
def places():
    tap.fail_if(grafana.place_problems(dashboard(), 8))


@tap.test("its queries name fields, labels, events and variables that exist; transformations and legends likewise")
def names():
    d = dashboard()
    variables = {v["name"] for v in d["templating"]["list"]} | {"__interval", "__range"}
    problems = []
    for p in panels(d):
        for t in p["targets"]:
            used = set(re.findall(r"\$\{?(\w+)", json.dumps(t)))
            problems += [f"{p['title']}: no variable {v}" for v in sorted(used - variables)]
            problems += [f"{p['title']}: {x}" for x in loki.query_problems(plain(t["expr"]))]
            labels = logql.labels_of(logql.parse(plain(t["expr"])))
            for name in re.findall(r"\{\{\s*(\w+)\s*\}\}", t.get("legendFormat", "")):
                if name not in (labels or set()):
                    problems.append(f"{p['title']}: the legend names {name}, which the series do not have")
            for tr in p.get("transformations", ()):
                o = tr["options"]
                have = (labels or set()) | {"Time", "Value"}
                problems += [f"{p['title']}: {tr['id']} names {n}, which the series do not have"
                             for k in ("excludeByName", "indexByName", "renameByName") for n in o.get(k, ()) if n not in have]
    tap.fail_if(problems)


def check_data(cls):
    """Every query finds something at some moment of the real records."""
    entries = loki.entries(cls)
    # While the job runs, when it has just ended, and when nothing has come for a while.
    moments = sorted({e[0] for e in entries}) + [max(e[0] for e in entries) + 20 * 60 * 10**6]
    problems = []
    for p in panels(dashboard()):
        for t in p["targets"]:
            node = logql.parse(plain(t["expr"]))
            if not any(logql.evaluate(node, entries, now) for now in moments):
                problems.append(f"{cls.name}: {p['title']} {t['refId']}: no data")
    return problems


@tap.test("every panel shows something of the real records, through each shipper")
def data():
    tap.fail_if([p for cls in shippers.ALL for p in check_data(cls)])


def at(title, now, cls=shippers.Alloy, n=0):
    p = next(p for p in panels(dashboard()) if p["title"] == title)
    return logql.evaluate(logql.parse(plain(p["targets"][n]["expr"])), loki.entries(cls), now)


@tap.test("memory over time is what the samples say, and no line goes on after the process has ended")
def memory():
    samples = [r for r in tap.records() if r["GPUXRAY_EVENT"] == "sample"]
    ended = loki.time_of(event="process_exit")
    title = "Memory by process and device"
    s = samples[1]
    now = int(s["__REALTIME_TIMESTAMP"])
    highest = max(int(x["GPUXRAY_HIGH_BYTES"]) for x in samples[:2])
    tap.equal(list(at(title, now).values()), [float(highest)], "with a sample in the last minute")
    tap.equal(list(at(title, ended - 1).values()) != [], True, "before the end")
    tap.equal(at(title, ended + 2 * 60 * 10**6), {}, "two minutes after the end")
    tap.equal(at("Memory by process, all devices, stacked", ended + 10**6), {}, "stacked, after the end")


@tap.test("peaks and what was left come from the process's last record")
def peaks():
    r = next(r for r in tap.records() if r["GPUXRAY_EVENT"] == "process_exit")
    now = loki.time_of(event="stop")
    tap.equal(max(at("Processes by peak", now).values()), float(r["GPUXRAY_PEAK_BYTES"]), "peak")
    tap.equal(max(at("What ended processes had not freed", now).values()), float(r["GPUXRAY_LIVE_BYTES"]), "not freed")


@tap.test("an incident is counted once, by how bad it is now")
def counts():
    now = loki.time_of(rule="quota", state="repeat")
    tap.equal([sum(at("Firing now", now, n=n).values()) for n in range(4)], [1.0, 1.0, 1.0, 1.0], "critical, error, warning, notice")
    tap.equal([sum(at("Firing now", loki.time_of(event="stop"), n=n).values()) for n in range(4)], [0, 0, 0, 0], "in the end")


@tap.test("a failed allocation is told with its whole stack")
def stacks():
    r = next(r for r in tap.records() if r["GPUXRAY_EVENT"] == "alloc_failure")
    lines = at("Failed allocations", loki.time_of(event="stop"))
    tap.equal(len(lines), 1, "lines")
    for frame in r["GPUXRAY_STACK"].splitlines():
        tap.equal(frame in lines[0], True, f"frame {frame} in {lines[0]!r}")


tap.main()
