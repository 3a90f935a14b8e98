#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Metrics as users meet them: both formats by Prometheus's own readers, the names that others rest on, the page about them."""
import os
import re
import subprocess
import tempfile

import promql
import tap

PAGE = tap.CONTRIB + "/doc/metrics.md"
# Of the first gpuxray; its dashboards go on with ours.
FIRST = {
    "gpu_process_used_memory_bytes": {"pid", "comm", "args", "gpu", "gpu_index"},
    "gpu_process_sm_utilization_percent": {"pid", "comm", "args", "gpu", "gpu_index"},
    "gpu_process_active": {"pid", "comm", "args", "gpu", "gpu_index"},
    "gpu_total_memory_bytes": {"gpu", "gpu_index"},
    "gpu_used_memory_bytes": {"gpu", "gpu_index"},
    "gpu_free_memory_bytes": {"gpu", "gpu_index"},
}


@tap.test("promtool has nothing to say about names, types and help")
def lint():
    text = tap.read(promql.GOLDEN)
    tap.equal(promql.must("check", "metrics", text=text), "", "promtool check metrics")
    status, out = promql.promtool("check", "metrics", text=text.replace("gpuxray_process_frees_total", "gpuxray_process_frees"))
    tap.equal((status != 0, "_total" in out), (True, True), "what it says of a counter without _total")


@tap.test("Prometheus's reader of OpenMetrics takes every sample")
def openmetrics():
    text = tap.read(promql.GOLDEN_OPEN)
    with tempfile.TemporaryDirectory() as d:
        def load(changed):
            # That reader wants times; the format leaves them open.
            timed = re.sub(r"^([^#\n].*)$", r"\1 1796037200", changed, flags=re.M)
            with open(d + "/in.txt", "w", encoding="utf-8") as f:
                f.write(timed)
            return promql.promtool("tsdb", "create-blocks-from", "openmetrics", d + "/in.txt", d + "/tsdb")

        status, out = load(text)
        numbers = re.findall(r"\d+", out.splitlines()[-1]) if status == 0 else []
        tap.equal((status, len(promql.samples(promql.GOLDEN_OPEN)) if str(len(promql.samples(promql.GOLDEN_OPEN))) in numbers else out),
                  (0, len(promql.samples(promql.GOLDEN_OPEN))), "samples taken")
        for bad in (text.replace("# EOF\n", ""), text.replace("# TYPE gpuxray_exact", "# UNIT gpuxray_exact seconds\n# TYPE gpuxray_exact"),
                    text.replace("gpuxray_exact 1", "gpuxray_exact one")):
            tap.equal(load(bad)[0] != 0, True, "it refuses what is wrong")


@tap.test("both formats have the same samples")
def same():
    tap.equal(promql.samples(promql.GOLDEN_OPEN), promql.samples(promql.GOLDEN), "samples")


@tap.test("the metrics of the first gpuxray have their names and labels")
def first():
    known = promql.labels_by_name()
    for name, labels in FIRST.items():
        tap.equal(known.get(name, set()) - promql.ADDED, labels, name)


@tap.test("metrics of one kind have the same labels, and those of processes can be joined with whose they are")
def labels():
    problems = []
    of = {}
    for name, found, _ in promql.samples():
        of.setdefault(name, []).append(set(found) - {"le"})
    for name, sets in of.items():
        if name != "gpuxray_process_info" and any(s != sets[0] for s in sets):
            problems.append(f"{name}: {sets}")
        if name.startswith(("gpuxray_process_", "gpu_process_")) and not {"pid", "comm"} <= sets[0]:
            problems.append(f"{name} has no pid or comm")
    tap.fail_if(problems)


@tap.test("the page names every metric and label that there is, and no other")
def page():
    text = tap.read(PAGE)
    known = promql.labels_by_name()
    families = {re.sub(r"_(bucket|sum|count)$", "", n) if n.startswith("gpuxray_call_") else n for n in known} - {"up"}
    table = re.findall(r"^\| `(\w+)`(?: \| ([^|]*))?", text, re.M)
    problems = [f"{n} is not in a table" for n in sorted(families - {t[0] for t in table})]
    problems += [f"there is no {n}" for n, _ in table if n not in families and not n.startswith("Gpuxray")]
    for name, column in table:
        want = known.get(name, known.get(name + "_bucket", set())) - promql.ADDED - {"le", "args"}
        got = set(re.findall(r"`(\w+)`", column))
        if name in families and got != want:
            problems.append(f"{name}: labels {sorted(got)} on the page, {sorted(want)} are there")
    tap.fail_if(problems)


@tap.test("the page's files, alerts and links exist, and it says what was tried")
def page_names():
    text = tap.read(PAGE)
    alerts = set(re.findall(r"alert: (\w+)", tap.read(promql.RULES)))
    problems = [f"no file {f}" for f in set(re.findall(r"\bcontrib/[\w./-]*\w", text)) if not os.path.exists(f"{tap.ROOT}/{f}")]
    problems += [f"no page {f}" for f in re.findall(r"\]\(([\w.-]+\.md)\)", text) if not os.path.exists(f"{tap.CONTRIB}/doc/{f}")]
    told = set(re.findall(r"^\| `(Gpuxray\w+)`", text, re.M))
    problems += [f"alert {a} is not on both sides" for a in sorted(told ^ alerts)]
    if not re.search(r"was tried", text):
        problems.append("it does not say what was tried")
    tap.fail_if(problems)


@tap.test("the receiver that the page puts into Alertmanager's file is one that it takes, and where it belongs")
def receiver():
    command = re.search(r"sed '(s\|[^']*)' (contrib/alertmanager/\S+)", tap.read(PAGE))
    r = subprocess.run(["sed", command[1], f"{tap.ROOT}/{command[2]}"], capture_output=True, text=True, check=True)
    tap.equal(r.stdout.count("webhook_configs: [") - tap.read(f"{tap.ROOT}/{command[2]}").count("webhook_configs: ["), 1, "receivers")
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as f:
        f.write(r.stdout)
        f.flush()
        status, out = promql.promtool("check-config", f.name, name="amtool")
        tap.equal((status, "SUCCESS" in out), (0, True), out)
        for labels, want in (("GpuxrayDown error", "gpu-pager"), ("GpuxrayGpuHot warning", "gpu-tickets"), ("GpuxrayProcessUncovered notice", "gpu-log")):
            alert, severity = labels.split()
            status, out = promql.promtool("config", "routes", "test", f"--config.file={f.name}", f"--verify.receivers={want}",
                                          f"alertname={alert}", f"severity={severity}", name="amtool")
            tap.equal(status, 0, f"{alert} goes to {want}: {out}")


tap.main()
