# SPDX-License-Identifier: MIT
"""Rules for what the headers of src promise: every prototype is told about, every function has somebody outside.

Inline functions are their own text. Ends of a life that are named as everywhere (x_free, x_done, and so on) say by that what
they do, NULL included; so do beginnings whose struct of options is in the lines above them.
"""
import re

import tree

LIFE = re.compile(r"_(new|init|done|free|ref|unref|close)$")
# The start of a prototype or an inline function: words and stars at the left edge, a name, a parenthesis.
PROTOTYPE = re.compile(r"^(?!typedef\b|#|return\b|else\b)(?:[a-z_]\w*[\s*]+)+?\**([a-z_]\w*)\(")


def blocks(text):
    """Stretches of lines without an empty one between, outside of braces, as lists of (number, line)."""
    block, depth, is_comment = [], 0, False
    for n, line in enumerate(text.split("\n"), 1):
        if not line.strip() and depth == 0 and not is_comment:
            if block:
                yield block
            block = []
            continue
        block.append((n, line, depth, is_comment))
        rest = re.sub(r"/\*.*?\*/", "", line)
        is_comment = "*/" not in rest if is_comment else "/*" in rest
        depth += 0 if is_comment else rest.count("{") - rest.count("}")
    if block:
        yield block


def prototypes(path):
    """(line number, name, has a comment above it, alone or for the group that it stands in)."""
    for block in blocks(tree.text_of(path)):
        has_comment = False
        for n, line, depth, is_comment in block:
            if is_comment or line.lstrip().startswith("/*"):
                has_comment |= depth == 0
                continue
            m = PROTOTYPE.match(line) if depth == 0 else None
            if m and "static" not in line and not m[1].startswith("__"):
                yield n, m[1], has_comment or "/*" in line


def headers():
    return tree.files("src/*/*.h")


def without_comment():
    return [f"{path}:{n}: {name}() has no comment above it, nor has its group"
            for path in headers() for n, name, has_comment in prototypes(path) if not has_comment and not LIFE.search(name)]


def unused():
    """A function counts as used where its name stands outside of the file that defines it and of headers' prototypes."""
    used = {}
    for path in tree.files("src/*.c", "src/*.h", "tests/*.c", "tests/*.h"):
        for word in set(re.findall(r"[a-z_]\w+", tree.without_comments(tree.text_of(path)))):
            used.setdefault(word, set()).add(path)
    found = []
    for path in headers():
        text = tree.without_comments(tree.text_of(path))
        for n, name, _ in prototypes(path):
            own = {p for p in used[name] if re.search(rf"^[a-z][^\n;=]*\b{name}\([^;{{]*\)\s*{{", tree.text_of(p), re.M)}
            # Macros and inline functions of a header use it too.
            in_header = len(re.findall(rf"\b{name}\b", text)) > 1
            if not in_header and not used[name] - own - {path}:
                found.append(f"{path}:{n}: {name}() is used in its own file only, which could make it static")
    return found


CHECKS = [
    ("every prototype in src has a comment", without_comment),
    ("every public function is used outside its file", unused),
]
