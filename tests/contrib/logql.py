# SPDX-License-Identifier: MIT
"""LogQL, as far as the rules and the dashboard use it: a parser and an evaluator at one instant, after Loki's documentation.

An entry is (usec, labels, metadata, line). A vector is {frozenset of (label, value): number}.
"""
import json
import re

import gotemplate
from tap import Failure

RANGE = {"count_over_time", "sum_over_time", "max_over_time", "min_over_time", "last_over_time", "absent_over_time"}
UNWRAPPED = {"sum_over_time", "max_over_time", "min_over_time", "last_over_time"}
GROUPED = {"max_over_time", "min_over_time", "last_over_time"}  # may carry "by" themselves
VECTOR = {"sum": sum, "max": max, "min": min, "count": len, "topk": None}
LEVELS = [["or"], ["and", "unless"], ["==", "!=", ">", ">=", "<", "<="], ["+", "-"], ["*", "/"]]
UNITS = {"ms": 1e3, "s": 1e6, "m": 60e6, "h": 3600e6, "d": 86400e6, "w": 7 * 86400e6}
TOKEN = re.compile(r"""\s*(?:\#.*\n\s*)*("(?:[^"\\]|\\.)*"|`[^`]*`|\d+(?:ms|[smhdw])(?:\d+(?:ms|[smhdw]))*|\d+(?:\.\d+)?|[A-Za-z_]\w*
                           |\|=|\|~|!=|!~|=~|==|>=|<=|[{}()\[\],=<>|+*/-])""", re.X)


def scan(text):
    out, at = [], 0
    text = text.rstrip()
    while at < len(text):
        m = TOKEN.match(text, at)
        if not m:
            raise Failure(f"LogQL: cannot read {text[at:at + 40]!r}")
        out.append(m[1])
        at = m.end()
    return out


def usec(text):
    return sum(int(n) * UNITS[u] for n, u in re.findall(r"(\d+)(ms|[smhdw])", text))


class Parser:
    def __init__(self, text):
        self.text, self.toks, self.at = text, scan(text), 0

    def peek(self, n=0):
        return self.toks[self.at + n] if self.at + n < len(self.toks) else ""

    def next(self):
        self.at += 1
        return self.toks[self.at - 1] if self.at <= len(self.toks) else ""

    def want(self, *tokens):
        t = self.next()
        if t not in tokens:
            raise Failure(f"LogQL: {t!r} where one of {tokens} is wanted, in {self.text!r}")
        return t

    def name(self):
        t = self.next()
        if not re.fullmatch(r"[A-Za-z_]\w*", t):
            raise Failure(f"LogQL: {t!r} is no name, in {self.text!r}")
        return t

    def string(self):
        t = self.next()
        if t[:1] not in ('"', "`") or not t:
            raise Failure(f"LogQL: {t!r} is no string, in {self.text!r}")
        return t[1:-1] if t[0] == "`" else json.loads(t)

    def names(self):
        self.want("(")
        out = []
        while self.peek() != ")":
            out.append(self.name())
            if self.peek() != ")":
                self.want(",")
        self.next()
        return out

    def whole(self):
        e = self.log() if self.peek() == "{" else self.binary(0)
        if self.peek():
            raise Failure(f"LogQL: {self.peek()!r} is left over in {self.text!r}")
        return e

    def binary(self, level):
        if level == len(LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek() in LEVELS[level]:
            op, on, is_bool, side = self.next(), None, False, None
            if self.peek() == "bool":
                is_bool = bool(self.next())
            if self.peek() in ("on", "ignoring"):
                if self.next() == "ignoring":
                    raise Failure("LogQL: ignoring is not read here")
                on = self.names()
                if self.peek() in ("group_left", "group_right"):
                    side = self.next()
                    if self.names():
                        raise Failure("LogQL: labels of group_left are not read here")
            left = ("binary", op, left, self.binary(level + 1), on, is_bool, side)
        return left

    def unary(self):
        t = self.peek()
        if t == "(":
            self.next()
            e = self.binary(0)
            self.want(")")
            return e
        if re.fullmatch(r"\d+(\.\d+)?", t):
            return ("number", float(self.next()))
        if t in VECTOR:
            return self.aggregate()
        if t in RANGE:
            return self.range()
        raise Failure(f"LogQL: {t!r} begins no expression, in {self.text!r}")

    def aggregate(self):
        fn, by, param = self.next(), None, None
        if self.peek() == "by":
            self.next()
            by = self.names()
        self.want("(")
        if fn == "topk":
            param = int(self.next())
            self.want(",")
        e = self.binary(0)
        self.want(")")
        if self.peek() == "by" and by is None:
            self.next()
            by = self.names()
        return ("aggregate", fn, e, by, param)

    def range(self):
        fn, by = self.next(), None
        self.want("(")
        log = self.log()
        self.want("[")
        span = usec(self.next())
        self.want("]")
        self.want(")")
        if self.peek() == "by":
            if fn not in GROUPED:
                raise Failure(f"LogQL: {fn} takes no by")
            self.next()
            by = self.names()
        if (fn in UNWRAPPED) != any(s[0] == "unwrap" for s in log[2]):
            raise Failure(f"LogQL: {fn} {'needs' if fn in UNWRAPPED else 'takes no'} unwrap, in {self.text!r}")
        return ("range", fn, log, span, by)

    def log(self):
        self.want("{")
        selector = []
        while self.peek() != "}":
            selector.append((self.name(), self.want("=", "!=", "=~", "!~"), self.string()))
            if self.peek() != "}":
                self.want(",")
        self.next()
        if not any(op in ("=", "=~") and v and not (op == "=~" and re.fullmatch(v, "")) for _, op, v in selector):
            raise Failure(f"LogQL: no matcher asks for a value that is not empty, in {self.text!r}")
        stages = []
        while self.peek() in ("|", "|=", "!=", "|~", "!~"):
            stages.append(self.stage())
        return ("log", selector, stages)

    def stage(self):
        op = self.next()
        if op != "|":
            return ("line", op, self.string())
        word = self.name()
        if word == "json":
            pairs = {}
            while re.fullmatch(r"[A-Za-z_]\w*", self.peek()) and self.peek(1) == "=":
                k = self.name()
                self.want("=")
                pairs[k] = self.string()
                if self.peek() != ",":
                    break
                self.next()
            return ("json", pairs)
        if word == "line_format":
            return ("line_format", gotemplate.parse(self.string()))
        if word == "label_format":
            k = self.name()
            self.want("=")
            return ("label_format", k, gotemplate.parse(self.string()))
        if word == "unwrap":
            return ("unwrap", self.name())
        return ("filter", word, self.want("=", "!=", "=~", "!~"), self.string())


def parse(text):
    return Parser(text).whole()


def matches(have, op, want):
    hit = re.fullmatch(want, have) is not None if "~" in op else have == want
    return hit != op.startswith("!")


def run_pipeline(log, entry):
    """(labels, line, value) or None."""
    _, selector, stages = log
    _, stream, metadata, line = entry
    if not all(matches(stream.get(k, ""), op, v) for k, op, v in selector):
        return None
    labels, number = {**stream, **metadata}, None
    for s in stages:
        if s[0] == "line":
            hit = re.search(s[2], line) is not None if "~" in s[1] else s[2] in line
            if hit == s[1].startswith("!"):
                return None
        elif s[0] == "json":
            if not s[1]:
                raise Failure("LogQL: a bare json makes each record a series of its own")
            data = json.loads(line)
            for k, field in s[1].items():
                labels[k + "_extracted" if k in stream or k in metadata else k] = str(data.get(field, ""))
        elif s[0] == "filter":
            if not matches(labels.get(s[1], ""), s[2], s[3]):
                return None
        elif s[0] == "label_format":
            labels[s[1]] = gotemplate.render(s[2], {"." + k: v for k, v in labels.items()})
        elif s[0] == "line_format":
            line = gotemplate.render(s[1], {"." + k: v for k, v in labels.items()})
        else:
            text = labels.pop(s[1], "")
            if not text:
                return None
            number = float(text)
    return labels, line, number


def pick(labels, names):
    return frozenset((k, labels[k]) for k in names if labels.get(k))


def over_time(node, entries, now):
    _, fn, log, span, by = node
    series = {}
    for e in sorted(entries, key=lambda e: e[0]):
        got = run_pipeline(log, e) if now - span < e[0] <= now else None
        if got:
            key = pick(got[0], by) if by is not None else frozenset((k, v) for k, v in got[0].items() if v)
            series.setdefault(key, []).append(got[2])
    if fn == "absent_over_time":
        return {} if series else {frozenset((k, v) for k, op, v in log[1] if op == "=" and v): 1.0}
    fold = {"count_over_time": len, "sum_over_time": sum, "max_over_time": max, "min_over_time": min,
            "last_over_time": lambda v: v[-1]}[fn]
    return {k: float(fold(v)) for k, v in series.items()}


def aggregate(node, entries, now):
    _, fn, inner, by, param = node
    vector = evaluate(inner, entries, now)
    if fn == "topk":
        return dict(sorted(vector.items(), key=lambda kv: -kv[1])[:param])
    groups = {}
    for k, v in vector.items():
        groups.setdefault(pick(dict(k), by or ()), []).append(v)
    return {k: float(VECTOR[fn](v)) for k, v in groups.items()}


def apply(op, a, b):
    if op == "/":
        return a / b if b else float("nan")
    return {"+": a + b, "-": a - b, "*": a * b, "==": a == b, "!=": a != b, ">": a > b, ">=": a >= b, "<": a < b, "<=": a <= b}[op]


def binary(node, entries, now):
    _, op, left, right, on, is_bool, side = node
    a, b = evaluate(left, entries, now), evaluate(right, entries, now)
    compares = op in LEVELS[2]
    if isinstance(b, float):
        done = {k: (v, apply(op, v, b)) for k, v in a.items()}
        return {k: float(r) if is_bool or not compares else v for k, (v, r) in done.items() if r or is_bool or not compares}

    def key(labels):
        return pick(dict(labels), on) if on is not None else labels

    there = {}
    for k, v in b.items():
        if key(k) in there and op not in LEVELS[0] + LEVELS[1]:
            raise Failure(f"LogQL: two series on the right of {op} have the same {on}")
        there[key(k)] = v
    if op in ("and", "unless"):
        return {k: v for k, v in a.items() if (key(k) in there) == (op == "and")}
    if op == "or":
        have = {key(k) for k in a}
        return {**a, **{k: v for k, v in b.items() if key(k) not in have}}
    out = {}
    for k, v in a.items():
        if key(k) in there:
            at = k if side == "group_left" or on is None else key(k)
            if at in out:
                raise Failure(f"LogQL: several series on the left of {op} have the same {on} and there is no group_left")
            out[at] = apply(op, v, there[key(k)])
    return out


def evaluate(node, entries, now):
    """A vector, a number, or for a log query its lines, newest first."""
    if node[0] == "number":
        return node[1]
    if node[0] == "log":
        got = [(e[0], run_pipeline(node, e)) for e in entries if e[0] <= now]
        return [g[1] for _, g in sorted(((t, g) for t, g in got if g), key=lambda x: -x[0])]
    return {"range": over_time, "aggregate": aggregate, "binary": binary}[node[0]](node, entries, now)


def logs_in(node):
    """The log queries of an expression."""
    if isinstance(node, tuple):
        if node and node[0] == "log":
            yield node
        else:
            for n in node:
                yield from logs_in(n)


def labels_of(node):
    """Labels that a result may have, as far as groupings say it; None: all."""
    if node[0] == "range":
        return None if node[4] is None else set(node[4])
    if node[0] == "aggregate":
        return labels_of(node[2]) if node[1] == "topk" else set(node[3] or ())
    if node[0] == "binary":
        return labels_of(node[2])
    return None


def names_used(log):
    """(names that a pipeline reads before it makes them, fields it takes from the line, names it makes)."""
    read, fields, made = set(), set(), set()
    for k, _, _ in log[1]:
        read.add(k)
    for s in log[2]:
        if s[0] == "json":
            fields |= set(s[1].values())
            made |= set(s[1])
        elif s[0] in ("filter", "unwrap"):
            read |= {s[1]} - made
        elif s[0] in ("label_format", "line_format"):
            read |= {n[1:] for n in gotemplate.names_in(s[-1])} - made
            if s[0] == "label_format":
                made.add(s[1])
    return read, fields, made
