# SPDX-License-Identifier: MIT
"""As much of Vector's remap language as the file uses: assignments, if, ==, ||, objects, and three functions."""
import re

from tap import Failure

FUNCTIONS = {"del": 1, "compact": 1, "is_null": 1}  # and how many arguments; all infallible with what they get here
TOKEN = re.compile(r'\s*(?:#[^\n]*\n\s*)*("(?:[^"\\]|\\.)*"|\.?[A-Za-z_]\w*|==|\|\||[{}(),:=])')


def scan(text):
    out, at = [], 0
    text = text.rstrip()
    while at < len(text):
        m = TOKEN.match(text, at)
        if not m:
            raise Failure(f"vrl: cannot read {text[at:at + 40]!r}")
        out.append(m[1])
        at = m.end()
    return out


class Parser:
    def __init__(self, text):
        self.toks = scan(text)

    def peek(self):
        return self.toks[0] if self.toks else ""

    def next(self):
        if not self.toks:
            raise Failure("vrl: the program ends too early")
        return self.toks.pop(0)

    def want(self, t):
        got = self.next()
        if got != t:
            raise Failure(f"vrl: {got!r} where {t!r} is wanted")

    def block(self, end):
        out = []
        while self.peek() != end:
            out.append(self.statement())
        return out

    def braces(self):
        self.want("{")
        out = self.block("}")
        self.want("}")
        return out

    def statement(self):
        if self.peek() == "if":
            return self.condition()
        target = self.next()
        if not re.fullmatch(r"\.?[A-Za-z_]\w*", target):
            raise Failure(f"vrl: {target!r} begins no statement")
        self.want("=")
        return ("set", target, self.expression())

    def condition(self):
        self.want("if")
        test, yes, no = self.expression(), self.braces(), []
        if self.peek() == "else":
            self.next()
            no = [self.condition()] if self.peek() == "if" else self.braces()
        return ("if", test, yes, no)

    def expression(self):
        left = self.comparison()
        while self.peek() == "||":
            self.next()
            left = ("or", left, self.comparison())
        return left

    def comparison(self):
        left = self.term()
        if self.peek() == "==":
            self.next()
            return ("eq", left, self.term())
        return left

    def term(self):
        t = self.next()
        if t[0] == '"':
            return ("const", t[1:-1])
        if t == "{":
            pairs = []
            while self.peek() != "}":
                key = self.next()
                self.want(":")
                pairs.append((key[1:-1], self.expression()))
                if self.peek() != "}":
                    self.want(",")
            self.next()
            return ("object", pairs)
        if self.peek() == "(" and t[0] != ".":
            if t not in FUNCTIONS:
                raise Failure(f"vrl: unknown function {t}")
            self.next()
            args = []
            while self.peek() != ")":
                args.append(self.expression())
                if self.peek() != ")":
                    self.want(",")
            self.next()
            if len(args) != FUNCTIONS[t]:
                raise Failure(f"vrl: {t} takes {FUNCTIONS[t]} arguments")
            if t == "compact" and args[0][0] != "object":
                raise Failure("vrl: compact of what may be no object is fallible")
            return ("call", t, args)
        if t[0] == ".":
            return ("field", t[1:])
        if re.fullmatch(r"[a-z_]\w*", t):
            return ("variable", t)
        raise Failure(f"vrl: {t!r} begins no expression")


def parse(text):
    p = Parser(text)
    return p.block("")


def value(node, event, variables):
    kind = node[0]
    if kind == "const":
        return node[1]
    if kind == "field":
        return event.get(node[1])
    if kind == "variable":
        if node[1] not in variables:
            raise Failure(f"vrl: variable {node[1]} is not set")
        return variables[node[1]]
    if kind == "object":
        return {k: value(v, event, variables) for k, v in node[1]}
    if kind == "eq":
        return value(node[1], event, variables) == value(node[2], event, variables)
    if kind == "or":
        left = value(node[1], event, variables)
        return value(node[2], event, variables) if left is None or left is False else left
    if node[1] == "del":
        return event.pop(node[2][0][1], None)
    got = value(node[2][0], event, variables)
    if node[1] == "is_null":
        return got is None
    return {k: v for k, v in got.items() if v not in (None, "")}


def run(program, event, variables=None):
    variables = {} if variables is None else variables
    for s in program:
        if s[0] == "set":
            got = value(s[2], event, variables)
            if s[1][0] == ".":
                event[s[1][1:]] = got
            else:
                variables[s[1]] = got
        else:
            run(s[2] if value(s[1], event, variables) else s[3], event, variables)


def walk(node):
    if isinstance(node, (tuple, list)):
        if isinstance(node, tuple) and node and isinstance(node[0], str):
            yield node
        for n in node:
            yield from walk(n)


def fields_read(program):
    return {n[1] for n in walk(program) if n[0] == "field" and len(n) == 2}


def fields_written(program):
    return {n[1][1:] for n in walk(program) if n[0] == "set" and n[1][0] == "."}
