# SPDX-License-Identifier: MIT
"""Walks through a dashboard, and the form of one for Prometheus, after the types of @grafana/schema 13.2 (the heatmap: 10.4)."""
import json
import typing

import tap
from tap import ANY, BOOL, INT, NUMBER, STRING, ListOf, OneOf, Pattern

SOURCE = {"type": OneOf("prometheus"), "!uid": STRING}
GRID = {"!h": INT, "!w": INT, "!x": INT, "!y": INT, "static": BOOL}
COLOR = {"!mode": OneOf("fixed", "thresholds", "palette-classic", "shades"), "fixedColor": STRING}
GRAPH = {"drawStyle": OneOf("line", "bars", "points"), "lineInterpolation": OneOf("linear", "smooth", "stepBefore", "stepAfter"),
         "lineWidth": NUMBER, "lineStyle": {"fill": OneOf("solid", "dash", "dot"), "dash": ListOf(INT)}, "fillOpacity": NUMBER,
         "showPoints": OneOf("auto", "never", "always"), "spanNulls": OneOf(BOOL, INT),
         "stacking": {"group": STRING, "mode": OneOf("none", "normal", "percent")}}
TOOLTIP = {"!mode": OneOf("single", "multi", "none"), "sort": OneOf("asc", "desc", "none"), "maxHeight": INT, "maxWidth": INT}
CUSTOM = {"timeseries": GRAPH, "table": {"align": STRING, "width": NUMBER}, "stat": {}, "heatmap": {"scaleDistribution": dict}}
OPTIONS = {
    "timeseries": {"!legend": {"!calcs": ListOf(STRING), "!placement": OneOf("bottom", "right"), "!showLegend": BOOL,
                               "!displayMode": OneOf("list", "table", "hidden")}, "!tooltip": TOOLTIP},
    "table": {"!frameIndex": INT, "!showHeader": BOOL, "cellHeight": OneOf("sm", "md", "lg", "auto"),
              "sortBy": ListOf({"!displayName": STRING, "desc": BOOL}), "footer": dict},
    "stat": {"!colorMode": OneOf("background", "background_solid", "none", "value"), "!graphMode": OneOf("area", "line", "none"),
             "!justifyMode": OneOf("auto", "center"), "!orientation": OneOf("auto", "horizontal", "vertical"),
             "!reduceOptions": {"!calcs": ListOf(STRING), "fields": STRING, "limit": INT, "values": BOOL},
             "!textMode": OneOf("auto", "name", "none", "value", "value_and_name"), "!wideLayout": BOOL,
             "!showPercentChange": BOOL, "!percentChangeColorMode": OneOf("inverted", "same_as_value", "standard")},
    "heatmap": {"calculate": BOOL, "cellGap": INT, "cellRadius": INT, "cellValues": {"unit": STRING, "decimals": INT},
                "!color": {"mode": OneOf("opacity", "scheme"), "!scheme": STRING, "!fill": STRING, "!exponent": NUMBER, "!steps": INT,
                           "!reverse": BOOL, "scale": OneOf("linear", "exponential"), "min": NUMBER, "max": NUMBER},
                "!exemplars": {"!color": STRING}, "filterValues": {"le": NUMBER, "ge": NUMBER}, "!legend": {"!show": BOOL},
                "rowsFrame": {"layout": OneOf("auto", "le", "ge", "unknown"), "value": STRING},
                "!showValue": OneOf("auto", "never", "always"),
                "!tooltip": {**TOOLTIP, "showColorScale": BOOL, "yHistogram": BOOL},
                "!yAxis": {"axisPlacement": OneOf("auto", "left", "right", "hidden"), "unit": STRING, "reverse": BOOL, "decimals": INT}}}
TARGET = {"!refId": Pattern("[A-Z]"), "!datasource": SOURCE, "!expr": STRING, "instant": BOOL, "!range": BOOL, "exemplar": BOOL,
          "format": OneOf("time_series", "table", "heatmap"), "editorMode": OneOf("code", "builder"), "legendFormat": STRING}
VARIABLE = {"!name": STRING, "!type": OneOf("query", "datasource"), "label": STRING, "definition": STRING,
            "query": OneOf(STRING, {"!query": STRING, "!refId": STRING, "qryType": INT}), "datasource": SOURCE, "current": dict,
            "hide": OneOf(0, 1, 2, 3), "includeAll": BOOL, "allValue": STRING, "multi": BOOL, "options": list,
            "refresh": OneOf(0, 1, 2), "regex": STRING, "skipUrlSync": BOOL, "sort": INT}
TRANSFORMS = {"merge": {},
              "filterByValue": {"!type": OneOf("include", "exclude"), "!match": OneOf("all", "any"), "!filters": ListOf(
                  {"!fieldName": STRING, "!config": {"!id": OneOf("isNotNull", "isNull", "greater"), "!options": dict}})},
              "organize": {"excludeByName": {"*": BOOL}, "indexByName": {"*": INT}, "renameByName": {"*": STRING}}}
UNITS = OneOf("bytes", "short", "percentunit", "percent", "s", "ops", "binBps", "celsius", "watt")
OVERRIDES = {"displayName": STRING, "unit": UNITS, "custom.lineStyle": GRAPH["lineStyle"]}
ROW = {"!type": OneOf("row"), "!id": INT, "!collapsed": BOOL, "!panels": list, "!title": STRING, "!gridPos": GRID}
DASHBOARD = {
    "annotations": {"list": list}, "description": STRING, "editable": BOOL, "graphTooltip": OneOf(0, 1, 2), "links": list,
    "!panels": list, "refresh": Pattern(r"\d+[smhd]"), "!schemaVersion": INT, "tags": ListOf(STRING),
    "!templating": {"!list": ListOf(VARIABLE)}, "!time": {"!from": STRING, "!to": STRING},
    "timepicker": {"refresh_intervals": ListOf(STRING)}, "timezone": STRING, "!title": STRING,
    "!uid": Pattern("[A-Za-z0-9_-]{8,40}"), "version": INT, "id": ANY}


def panel_schema(kind):
    return {"!id": INT, "!type": OneOf(*OPTIONS), "!title": STRING, "!datasource": SOURCE, "!gridPos": GRID,
            "!targets": ListOf(TARGET), "description": STRING, "!options": OPTIONS[kind],
            "transformations": ListOf({"!id": OneOf(*TRANSFORMS), "!options": dict}),
            "!fieldConfig": {"!defaults": {
                "unit": UNITS, "min": NUMBER, "max": NUMBER, "decimals": INT, "noValue": STRING, "color": COLOR,
                "custom": CUSTOM[kind],
                "thresholds": {"!mode": OneOf("absolute", "percentage"),
                               "!steps": ListOf({"!color": STRING, "!value": OneOf(type(None), INT, NUMBER)})}},
                "!overrides": ListOf({"!matcher": {"!id": OneOf("byName", "byFrameRefID"), "options": ANY},
                                      "!properties": ListOf({"!id": OneOf(*OVERRIDES), "value": ANY})})}}


def load(path):
    return json.loads(tap.read(path))


def panels(d):
    """All that show something, those in rows too."""
    for p in d["panels"]:
        if p["type"] == "row":
            yield from p["panels"]
        else:
            yield p


class Form(typing.NamedTuple):
    """What the parts of a dashboard may hold, by the types of the schema that fit its source of data."""
    dashboard: dict
    row: dict
    panel: typing.Callable  # of a kind of panels
    kinds: dict
    overrides: dict
    transforms: dict


PROMETHEUS = Form(DASHBOARD, ROW, panel_schema, OPTIONS, OVERRIDES, TRANSFORMS)


def form_problems(d, form):
    out = tap.schema_problems(d, form.dashboard, "dashboard")
    for p in d["panels"]:
        if p.get("type") == "row":
            out += tap.schema_problems(p, form.row, f"row {p.get('title')}")
    for p in panels(d):
        path = f"panel {p.get('title')!r}"
        if p.get("type") not in form.kinds:
            out.append(f"{path}: unknown type {p.get('type')!r}")
            continue
        out += tap.schema_problems(p, form.panel(p["type"]), path)
        for o in p["fieldConfig"]["overrides"]:
            for prop in o["properties"]:
                out += tap.schema_problems(prop.get("value"), form.overrides.get(prop["id"], ANY), f"{path}: {prop['id']}")
        for t in p.get("transformations", ()):
            out += tap.schema_problems(t["options"], form.transforms.get(t["id"], {}), f"{path}: {t['id']}")
    return out


def range_problems(d):
    return [f"panel {p.get('title')!r}: a query is either of a range or of an instant"
            for p in panels(d) if any(t["range"] == t.get("instant", False) for t in p["targets"])]


def place_problems(d, queries_max):
    """Overlaps, what stands twice, and how many queries run before a row is opened."""
    ids = [p["id"] for p in d["panels"]] + [p["id"] for r in d["panels"] for p in r.get("panels", ())]
    out = [f"id {i} stands twice" for i in set(ids) if ids.count(i) > 1]
    for group in [d["panels"], *(r["panels"] for r in d["panels"] if r["type"] == "row")]:
        boxes = [(p["gridPos"], p["title"]) for p in group]
        for n, (a, title) in enumerate(boxes):
            if a["x"] + a["w"] > 24:
                out.append(f"{title} is wider than the page")
            out += [f"{title} lies over {t}" for b, t in boxes[:n]
                    if a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"] and a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"]]
    for p in panels(d):
        refs = [t["refId"] for t in p["targets"]]
        out += [f"{p['title']}: refId {r} stands twice" for r in set(refs) if refs.count(r) > 1]
    first = sum(len(p["targets"]) for p in d["panels"] if p["type"] != "row")
    if first > queries_max:
        out.append(f"{first} queries run when it is opened")
    return out
