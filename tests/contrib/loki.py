# SPDX-License-Identifier: MIT
"""What the tests of LogQL share: entries as each shipper makes them, and what an expression may name."""
import json
import re

import gotemplate
import logql
import shippers
import tap
from grafana import panels

RULES = tap.CONTRIB + "/loki/gpuxray-rules.yaml"
DASHBOARD = tap.CONTRIB + "/grafana/gpuxray-dashboard.json"

KNOWN = shippers.LABELS | shippers.METADATA


def entries(cls, records=None):
    ship = cls()
    out = []
    for r in records if records is not None else tap.records():
        out.append((int(r["__REALTIME_TIMESTAMP"]), *ship.ship(r)))
    return out


def time_of(**want):
    """When the last such record was written: event="leak", state="firing"."""
    found = [r for r in tap.records() if all(r.get("GPUXRAY_" + k.upper()) == v for k, v in want.items())]
    if not found:
        raise tap.Failure(f"no record {want}")
    return int(found[-1]["__REALTIME_TIMESTAMP"])


def query_problems(text):
    """Names that no record, no shipper and no stage of the query makes."""
    try:
        node = logql.parse(text)
    except tap.Failure as e:
        return [str(e)]
    fields, events = tap.field_names() | {"MESSAGE", "PRIORITY"}, tap.event_names()
    out = []
    for log in logql.logs_in(node):
        read, taken, made = logql.names_used(log)
        out += [f"field {f} is in no record" for f in sorted(taken - fields)]
        out += [f"{n} is neither label nor metadata nor made by a stage" for n in sorted(read - KNOWN)]
        out += [f"{n} of the line hides a label" for n in sorted(made & KNOWN)]
        for k, op, v in [*log[1], *(s[1:] for s in log[2] if s[0] == "filter")]:
            if k == "event":
                out += [f"event {e!r} is no event" for e in v.split("|") if e not in events]
            if k == "job" and op == "=" and v not in shippers.JOBS:
                out.append(f"job {v!r} is given to nothing")
        if log[1][0][0] != "job":
            out.append("the selector begins without job")

    def groups(n):
        if isinstance(n, tuple):
            by = {"range": 4, "aggregate": 3, "binary": 4}.get(n[0] if n else None)
            if by and n[by]:
                yield from n[by]
            for x in n:
                yield from groups(x)

    return out + [f"grouped by {g}, which is neither label nor metadata" for g in sorted(set(groups(node)) - KNOWN)]


def template_problems(text, labels):
    """Names of an alert's template that its series do not have."""
    try:
        names = set(gotemplate.names_in(gotemplate.parse(text)))
    except tap.Failure as e:
        return [str(e)]
    return [f"{n} in {text!r}" for n in sorted(names) if n != "$value" and n.removeprefix("$labels.") not in labels]


def rules():
    return {r["alert"]: r for g in tap.load_yaml(RULES)["groups"] for r in g["rules"]}


def dashboard():
    def pairs(items):
        keys = [k for k, _ in items]
        tap.fail_if([f"key {k!r} stands twice" for k in set(keys) if keys.count(k) > 1])
        return dict(items)

    return json.loads(tap.read(DASHBOARD), object_pairs_hook=pairs)


def plain(expr):
    """What Grafana makes of a query: its variables, as they stand after opening."""
    for name, value in (("host", ".+"), ("device", ".*"), ("unit", ".*"), ("__interval", "1m"), ("__range", "6h")):
        expr = re.sub(rf"\${name}\b", value, expr)
    return expr


def all_queries():
    """Those of the rules and of the dashboard, by where they stand."""
    out = {f"rule {name}": r["expr"] for name, r in rules().items()}
    for p in panels(dashboard()):
        out.update({f"panel {p['title']} {t['refId']}": plain(t["expr"]) for t in p["targets"]})
    return out
