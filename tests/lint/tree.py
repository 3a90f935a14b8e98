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


def rooms():
    """Groups of folders of src, from the top down, as the architecture's table has them; one row is one group."""
    table = re.search(r"^## Rooms\n(.*?)^## ", text_of("contrib/doc/architecture.md"), re.M | re.S)
    return [re.findall(r"`(\w+)`", row) for row in re.findall(r"^\| (`[^|]*) \|", table[1] if table else "", re.M)]


def upward_includes():
    level = {room: i for i, group in enumerate(rooms()) for room in group}
    there = {path.split("/")[1] for path in files("src/*/*.[ch]")}
    found = [f"contrib/doc/architecture.md: {room} is no room of src, or is missing" for room in sorted(there ^ set(level))]
    for path in files("src/*/*.[ch]"):
        mine = path.split("/")[1]
        for n, line in enumerate(text_of(path).split("\n"), 1):
            m = re.match(r'#include "(\w+)/', line)
            if m and m[1] in level and mine in level and m[1] != mine and level[m[1]] <= level[mine]:
                found.append(f"{path}:{n}: {mine} includes {m[1]}, which stands beside or above it in contrib/doc/architecture.md")
    return found


CHECKS = [
    ("rooms include only what stands below them", upward_includes),
    (f"files have at most {LINES_MAX} lines", long_files),
    ("nothing is left to do", lambda: lines_with(WORDS, files())),
    ("src starts no shell and calls nothing unbounded", lambda: lines_with(CALLS, files("src/*.c", "src/*.h"), without_comments)),
]
