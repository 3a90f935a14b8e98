#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every LogQL expression of contrib/ through the grammar that Grafana's editor uses (npm: @grafana/lezer-logql)."""
import json
import os
import shutil
import subprocess
import tempfile

import loki
import tap


def parse(folder, texts):
    r = subprocess.run(["node", "parse.mjs"], cwd=folder, input=json.dumps(texts), capture_output=True, text=True, timeout=60,
                       check=False)
    if r.returncode:
        raise tap.Failure(f"node: {r.stderr.strip()[-2000:]}")
    return json.loads(r.stdout)


@tap.test("Grafana's grammar of LogQL finds no error in the rules and the dashboard, and some in what is wrong")
def grammar():
    for program in ("node", "npm"):
        if not shutil.which(program):
            raise tap.Skip(f"{program} is not installed (packages nodejs and npm)")
    with tempfile.TemporaryDirectory() as d:
        for name in ("package.json", "package-lock.json", "parse.mjs"):
            shutil.copy(f"{tap.HERE}/lezer/{name}", d)
        try:
            r = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"], cwd=d, timeout=120,
                               capture_output=True, text=True, check=False, env={**os.environ, "npm_config_update_notifier": "false"})
        except subprocess.TimeoutExpired:
            raise tap.Skip("npm: no answer within 120 s") from None
        if r.returncode:
            why = next((line for line in r.stderr.splitlines() if "code E" in line), r.stderr.strip()[-200:])
            if any(e in why for e in ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "ENETUNREACH", "ECONNRESET", "EHOSTUNREACH")):
                raise tap.Skip(f"npm cannot be reached: {why}")
            raise tap.Failure(f"npm ci: {r.stderr.strip()[-1500:]}")
        named = loki.all_queries()
        found = parse(d, list(named.values()))
        tap.fail_if([f"{name}: {e}" for name, errors in zip(named, found) for e in errors])
        wrong = ['{job="gpuxray"', 'sum by (host (count_over_time({job="x"}[5m]))', 'count_over_time({job="x"} | json a= [5m])']
        tap.fail_if([f"no error found in {w}" for w, errors in zip(wrong, parse(d, wrong)) if not errors])


tap.main()
