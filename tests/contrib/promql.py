# SPDX-License-Identifier: MIT
"""What the tests of PromQL share: promtool, the metrics that there really are, and the names that an expression uses."""
import json
import os
import re
import shutil
import subprocess
import tempfile

import tap

GOLDEN = tap.ROOT + "/tests/unit/golden/metrics.txt"  # by metrics_write(), which tests/unit/test_metrics.c holds it to
GOLDEN_OPEN = tap.ROOT + "/tests/unit/golden/metrics.openmetrics.txt"
PROMETHEUS = tap.CONTRIB + "/prometheus/"
RULES = PROMETHEUS + "gpuxray-metrics-rules.yml"
SHIPPERS = os.environ.get("SHIPPERS") or tap.ROOT + "/.build/shippers"

KEYWORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}
# Labels that Prometheus adds.
ADDED = {"job", "instance", "__name__"}


def promtool(*args, text=None, cwd=None, name="promtool"):
    """Exit status and output."""
    path = f"{SHIPPERS}/usr/bin/{name}"
    path = path if os.access(path, os.X_OK) else shutil.which(name)
    if not path:
        raise tap.Skip(f"no {name} here (tests/integrations/fetch gets it)")
    r = subprocess.run([path, *args], input=text, capture_output=True, text=True, timeout=60, cwd=cwd, check=False)
    return r.returncode, r.stdout + r.stderr


def must(*args, **kw):
    status, out = promtool(*args, **kw)
    if status:
        raise tap.Failure(f"promtool {' '.join(args)}: exit status {status}: {out[-3000:]}")
    return out


def samples(path=GOLDEN):
    """[(name, {label: value}, text of the value)] in the order of an exposition."""
    out = []
    for line in tap.read(path).splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()
        pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")
        out.append((name, {k: json.loads(f'"{v}"') for k, v in pairs}, value))
    return out


def labels_by_name():
    """{name of samples: labels that any of them has}, with those that Prometheus adds, and its own metric."""
    out = {"up": set(ADDED)}
    for name, labels, _ in samples():
        out.setdefault(name, set(ADDED)).update(labels)
    return out


def plain(expr, duration="5m"):
    """Without Grafana's variables."""
    for name in ("$__rate_interval", "$__interval", "$__range"):
        expr = expr.replace(name, duration)
    return re.sub(r"\$\{?(\w+)\}?", ".*", expr)


def uses(expr):
    """[(metric, {labels of its selector})], and {labels by which is grouped, joined or counted}."""
    expr = re.sub(r"#.*", "", expr)
    texts = []

    def keep(m):
        texts.append(m[0])
        return f"\x00{len(texts) - 1}\x00"

    expr = re.sub(r'"(?:[^"\\]|\\.)*"', keep, expr)
    grouped = set()

    def group(m):
        grouped.update(re.findall(r"\w+", m[2]))
        return " "

    expr = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)", group, expr)
    expr = re.sub(r"\[[^\]]*\]", " ", expr)
    found = []

    def selector(m):
        found.append((m[1], set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", m[2]))))
        return " "

    expr = re.sub(r"([A-Za-z_:][\w:]*)\s*\{([^{}]*)\}", selector, expr)
    expr = re.sub(r"\b(\d[\w.]*)", " ", expr)
    for name, call in re.findall(r"([A-Za-z_:][\w:]*)(\s*\()?", expr):
        if not call and name not in KEYWORDS:
            found.append((name, set()))
    return found, grouped


def problems(expr, known):
    """Names that nothing has; known is labels_by_name(), and more."""
    found, grouped = uses(expr)
    out = [f"no metric {name} in {expr!r}" for name, _ in found if name not in known]
    have = set()
    for name, labels in found:
        have |= known.get(name, set())
        out += [f"{name} has no label {label}" for label in sorted(labels - known.get(name, labels))]
    out += [f"nothing in {expr!r} has a label {label}" for label in sorted(grouped - have)]
    if not found:
        out.append(f"no metric at all in {expr!r}")
    return out


def parses(exprs):
    """Problems of expressions as promtool sees them: each as a rule of a file of its own making."""
    import yaml
    rules = [{"record": f"x:e{n}", "expr": e} for n, e in enumerate(exprs)]
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/rules.yml", "w", encoding="utf-8") as f:
            yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}, f)
        status, out = promtool("check", "rules", "rules.yml", cwd=d)
    return [] if status == 0 else [out[-3000:]]


def without_data(exprs):
    """Those that find nothing while every series of the golden exposition grows. promtool says what it has found where
    nothing is expected; what it does not complain about has found nothing."""
    import yaml
    series = [{"series": name + "{" + ",".join(f"{k}={json.dumps(v)}" for k, v in
                                               {**labels, "job": "gpuxray", "instance": "a:2112"}.items()) + "}",
               "values": f"{value}+{max(abs(float(value)), 1) / 8}x300"} for name, labels, value in samples()]
    # Who expects nothing and gets something is told the expression: so each is made one that is known again.
    tests = [{"expr": f"({e}) or on () (vector(0) > {n + 1})", "eval_time": "90m", "exp_samples": []} for n, e in enumerate(exprs)]
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/test.yml", "w", encoding="utf-8") as f:
            yaml.safe_dump({"rule_files": [], "evaluation_interval": "1m", "tests": [
                {"interval": "1m", "input_series": series, "promql_expr_test": tests}]}, f, width=100000)
        _, out = promtool("test", "rules", "test.yml", cwd=d)
    if "expr:" not in out:
        raise tap.Failure(f"promtool test rules: {out[-3000:]}")
    return [e for n, e in enumerate(exprs) if f"(vector(0) > {n + 1})" not in out]
