# SPDX-License-Identifier: MIT
"""As much of Go's text/template as the files in contrib/ use: fields, variables, if, else if, else, and comparisons."""
import re

from tap import Failure

FUNCTIONS = {
    "eq": lambda a, *b: any(a == x for x in b),
    "ne": lambda a, b: a != b,
    "ge": lambda a, b: a >= b,
    "or": lambda *a: next((x for x in a if x), a[-1]),
    "and": lambda *a: next((x for x in a if not x), a[-1]),
}
TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|`[^`]*`|-?\d+(?:\.\d+)?|\(|\)|[$.]?[A-Za-z_][\w.]*|\.\w+)')


def tokens(text):
    out, at = [], 0
    text = text.strip()
    while at < len(text):
        m = TOKEN.match(text, at)
        if not m:
            raise Failure(f"template: cannot read {text[at:]!r} of {text!r}")
        out.append(m[1])
        at = m.end()
    return out


def term(toks):
    t = toks.pop(0)
    if t == "(":
        inner = command(toks)
        if not toks or toks.pop(0) != ")":
            raise Failure("template: ) is missing")
        return inner
    if t[0] in "\"`":
        return ("const", t[1:-1].replace("\\n", "\n").replace('\\"', '"'))
    if re.fullmatch(r"-?\d+(\.\d+)?", t):
        return ("const", float(t) if "." in t else int(t))
    if t[0] in ".$":
        return ("name", t)
    if t in FUNCTIONS:
        return ("call", t, [])
    raise Failure(f"template: unknown function {t}")


def command(toks):
    if not toks:
        raise Failure("template: an empty command")
    first = term(toks)
    args = []
    while toks and toks[0] != ")":
        args.append(term(toks))
    if first[0] == "call":
        return ("call", first[1], args)
    if args:
        raise Failure(f"template: {first} takes no arguments")
    return first


def whole(text):
    toks = tokens(text)
    got = command(toks)
    if toks:
        raise Failure(f"template: {toks} is left over in {text!r}")
    return got


def parse(text):
    """Nodes: text, ("value", command), ("if", [(command or None, nodes)])."""
    parts = re.split(r"\{\{-?(.*?)-?\}\}", text, flags=re.S)
    root = []
    stack = [root]
    ifs = []
    for i, part in enumerate(parts):
        if i % 2 == 0:
            if "{{" in part or "}}" in part:
                raise Failure(f"template: unbalanced braces in {text!r}")
            stack[-1].append(part)
            continue
        word = part.strip().split(" ", 1)
        if word[0] == "if":
            branch = []
            ifs.append([(whole(word[1]), branch)])
            stack[-1].append(("if", ifs[-1]))
            stack.append(branch)
        elif word[0] == "else" and ifs:
            rest = word[1] if len(word) > 1 else ""
            if rest and not rest.startswith("if "):
                raise Failure(f"template: else {rest}")
            branch = []
            ifs[-1].append((whole(rest[3:]) if rest else None, branch))
            stack[-1] = branch
        elif word[0] == "end" and ifs:
            ifs.pop()
            stack.pop()
        else:
            stack[-1].append(("value", whole(part)))
    if ifs:
        raise Failure(f"template: an if without end in {text!r}")
    return root


def value(node, names):
    if node[0] == "const":
        return node[1]
    if node[0] == "name":
        return names.get(node[1])
    return FUNCTIONS[node[1]](*(value(a, names) for a in node[2]))


def render(nodes, names):
    """names: what `.x`, `$labels.x`, `$value` mean; what is not there is nothing."""
    out = ""
    for n in nodes:
        if isinstance(n, str):
            out += n
        elif n[0] == "value":
            v = value(n[1], names)
            out += "" if v is None else f"{v:g}" if isinstance(v, float) else str(v)
        else:
            out += next((render(b, names) for c, b in n[1] if c is None or value(c, names)), "")
    return out


def names_in(nodes):
    def of(node):
        if node[0] == "name":
            yield node[1]
        elif node[0] == "call":
            for a in node[2]:
                yield from of(a)

    for n in nodes:
        if isinstance(n, str):
            continue
        if n[0] == "value":
            yield from of(n[1])
        else:
            for c, b in n[1]:
                yield from of(c) if c else ()
                yield from names_in(b)
