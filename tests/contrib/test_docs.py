#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""contrib/doc: the files, alerts and settings that the pages name exist."""
import glob
import os
import re

import loki
import tap

PAGES = [f"{tap.CONTRIB}/doc/{name}.md" for name in ("README", "fluent-bit", "alloy", "vector", "loki-grafana")]


@tap.test("the pages name files, links and alerts that exist, and say what was not run")
def pages():
    problems = []
    alerts = set(loki.rules())
    for path in PAGES:
        text, name = tap.read(path), os.path.basename(path)
        for f in set(re.findall(r"(?<!tests/)\bcontrib/[\w./-]*\w", text)) | set(re.findall(r"\btests/contrib/[\w./-]*\w", text)):
            if not os.path.exists(f"{tap.ROOT}/{f}"):
                problems.append(f"{name}: {f} is not there")
        for f in re.findall(r"\]\(([\w.-]+\.md)\)", text):
            if not glob.glob(f"{tap.CONTRIB}/doc/{f}"):
                problems.append(f"{name}: link to {f}")
        problems += [f"{name}: no alert {a}" for a in set(re.findall(r"`(Gpuxray\w+)`", text)) - alerts]
        problems += [f"{name}: no field {f}" for f in set(re.findall(r"\bGPUXRAY_[A-Z_]+", text)) - tap.field_names()]
        if not re.search(r"run by anybody|was run in the tests", text):
            problems.append(f"{name} does not say what was not run")
    tap.fail_if(problems)


@tap.test("what the first commands replace stands in the files")
def commands():
    problems = []
    for path in PAGES:
        for old, file in re.findall(r"sed 's/([^/]+)/[^/]+/' (contrib/\S+)", tap.read(path)):
            if old not in tap.read(f"{tap.ROOT}/{file}"):
                problems.append(f"{os.path.basename(path)}: {old} is not in {file}")
    tap.fail_if(problems)


tap.main()
