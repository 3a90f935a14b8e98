# SPDX-License-Identifier: MIT
"""What the bench's JSON looks like. A schema is a type, a tuple of schemas of which one fits, [schema] for a list, or a
table {key: schema}, in which "*" stands for all other keys; NoneType stands for null."""

NONE = type(None)
NUMBER = (int, float)
NUMBERS = [NUMBER]
CHECK = {"got_bytes": (int, NONE), "want_bytes": int, "got_count": (int, NONE), "want_count": int,
         "untracked_bytes": (int, NONE), "stack": {"site": bool, "whole": bool, "frames": [str]}}
ROW = {
    "id": str, "name": str, "note": str, "baseline": str, "is_inside": bool, "keeps_books": bool, "reason": (str, NONE),
    "pair_ns": NUMBERS, "calm_ns": NUMBERS, "pairs_per_sec": [int], "cpu_percent": NUMBERS, "calm_cpu_percent": NUMBERS,
    "rss_bytes": [int], "map_bytes": [int], "traced_rss_bytes": [int], "attach_sec": NUMBERS, "lost": [(int, NONE)],
    "checks": {"*": (CHECK, {"reason": str})},
}
POINT = {
    "axis": str, "series": str, "x": int, "none_ns": NUMBERS, "bare_ns": NUMBERS, "pair_ns": NUMBERS, "turn_ns": NUMBERS,
    "status_sec": NUMBER, "status_bytes": int, "cpu_percent": NUMBER, "cpu_idle_percent": NUMBER, "rss_bytes": int,
    "map_bytes": int, "lost": int, "got_bytes": int, "want_bytes": int, "got_count": int, "want_count": int,
    "said": {"limits": {"*": {"max": int, "overflows": int}}, "counters": {"*": int}, "left_out_count": int, "exact": bool},
}
BENCH = {
    "version": int, "mode": str, "versions": {"*": (str, NONE)},
    "machine": {"kernel": str, "architecture": str, "cpu": str, "cores": int, "memory_bytes": int, "is_virtual": bool},
    "load": {"before": NUMBER, "highest": NUMBER, "after": NUMBER, "others": bool},
    "workload": {"depth": int, "live": int, "block_bytes": int, "rate": int, "many": int},
    "compare": [ROW], "scale": [(POINT, {"axis": str, "series": str, "x": int, "reason": str})],
}


def problems(value, schema=None, path="bench"):
    """What does not fit, each with its path."""
    schema = BENCH if schema is None else schema
    if isinstance(schema, tuple):
        found = [problems(value, s, path) for s in schema]
        return [] if any(not f for f in found) else min(found, key=len)
    if isinstance(schema, list):
        if not isinstance(value, list):
            return [f"{path}: {value!r} is no list"]
        return [p for i, v in enumerate(value) for p in problems(v, schema[0], f"{path}[{i}]")]
    if not isinstance(schema, dict):
        fits = isinstance(value, schema) and (schema is bool or not isinstance(value, bool))
        return [] if fits else [f"{path}: {value!r} is no {schema.__name__}"]
    if not isinstance(value, dict):
        return [f"{path}: {value!r} is no table"]
    out = [f"{path}: no {k}" for k in schema if k != "*" and k not in value]
    for k, v in value.items():
        sub = schema.get(k, schema.get("*"))
        out += [f"{path}: unknown key {k}"] if sub is None else problems(v, sub, f"{path}.{k}")
    return out
