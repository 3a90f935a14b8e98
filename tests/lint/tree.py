# SPDX-License-Identifier: MIT
"""Rules for files as such. A check returns what is wrong, as lines."""
import re
import subprocess

LINES_MAX = 600
# Put together, so that this file does not break its own rule.
WORDS = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")
# A daemon that reads others' data with privileges starts no shell, and atoi() takes anything for a number.
CALLS = re.compile(r"\b(?:system|popen|atoi|atol|atoll|gets|sprintf|vsprintf|tmpnam|mktemp|strtok)\s*\(|/bin/sh\b")
COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)


def files(*patterns):
    """Those of git, with the ones that are not added yet; what patterns name."""
    out = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate", "--", *patterns],
                         stdout=subprocess.PIPE, check=True).stdout.decode()
    return [p for p in out.split("\0") if p]


def text_of(path):
    """"" for one that is gone, or is no text."""
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
        return ""


def without_comments(text):
    """C, with as many lines and the strings left."""
    def blank(m):
        return m[0] if m[0][0] in "\"'" else re.sub(r"[^\n]", " ", m[0])

    return COMMENT_OR_STRING.sub(blank, text)


def scripts(interpreter):
    """Programs by their first line; interpreter is a pattern."""
    first = re.compile(r"#!\S*(?:/|/env )(?:" + interpreter + r")\b")
    return [p for p in files() if first.match(text_of(p)[:80])]


def long_files():
    """Data, pages of the manual and generated dashboards are as long as what they tell."""
    found = []
    for path in files("src", "bpf", "tests", "contrib"):
        if re.search(r"\.(json|trace|symbols|svg|gz|png|txt|[1-8])$", path) or path.startswith("tests/traces/"):
            continue
        n = text_of(path).count("\n")
        if n > LINES_MAX:
            found.append(f"{path}: {n} lines, at most {LINES_MAX}")
    return found


def lines_with(pattern, paths, prepare=lambda text: text):
    return [f"{path}:{n}: {line.strip()[:120]}" for path in paths
            for n, line in enumerate(prepare(text_of(path)).split("\n"), 1) if pattern.search(line)]


CHECKS = [
    (f"files have at most {LINES_MAX} lines", long_files),
    ("nothing is left to do", lambda: lines_with(WORDS, files())),
    ("src starts no shell and calls nothing unbounded", lambda: lines_with(CALLS, files("src/*.c", "src/*.h"), without_comments)),
]
