# SPDX-License-Identifier: MIT
"""Alloy's configuration syntax: a parser, and the components that the file uses, after their reference pages."""
import re

from tap import BOOL, DURATION, INT, NUMBER, STRING, Failure, ListOf, OneOf, schema_problems

TOKEN = re.compile(r"""(?P<space>[ \t\r]+|//[^\n]*|/\*.*?\*/)|(?P<string>"(?:[^"\\\n]|\\.)*"|`[^`]*`)|(?P<number>-?\d+(?:\.\d+)?)
                       |(?P<name>[A-Za-z_][A-Za-z0-9_.]*)|(?P<mark>[{}\[\]()=,])|(?P<line>\n)""", re.X | re.S)


class Reference:
    """What an attribute names instead of a value: component.label.export."""

    def __init__(self, text):
        self.text = text


class Block:
    def __init__(self, name, label, line):
        self.name, self.label, self.line = name, label, line
        self.attrs, self.blocks = {}, []

    def id(self):
        return f"{self.name}.{self.label}"


def scan(text):
    at, line, out = 0, 1, []
    while at < len(text):
        m = TOKEN.match(text, at)
        if not m:
            raise Failure(f"alloy: line {line}: cannot read {text[at:at + 30]!r}")
        if m.lastgroup != "space":
            out.append((m.lastgroup, m[0], line))
        line += m[0].count("\n")
        at = m.end()
    return out + [("end", "", line)]


class Parser:
    def __init__(self, text):
        self.toks, self.at = scan(text), 0

    def peek(self, n=0):
        return self.toks[min(self.at + n, len(self.toks) - 1)]

    def next(self):
        self.at += 1
        return self.toks[self.at - 1]

    def lines(self):
        while self.peek()[0] == "line":
            self.next()

    def want(self, text):
        kind, got, line = self.next()
        if got != text:
            raise Failure(f"alloy: line {line}: {got!r} where {text!r} is wanted")

    def body(self, block, end):
        self.lines()
        while self.peek()[1] != end or self.peek()[0] == "string":
            kind, name, line = self.next()
            if kind != "name":
                raise Failure(f"alloy: line {line}: {name!r} where a name is wanted")
            if self.peek()[1] == "=":
                self.next()
                if name in block.attrs:
                    raise Failure(f"alloy: line {line}: {name} stands twice")
                block.attrs[name] = self.value()
            else:
                label = self.next()[1][1:-1] if self.peek()[0] == "string" else None
                inner = Block(name, label, line)
                self.want("{")
                self.body(inner, "}")
                self.want("}")
                block.blocks.append(inner)
            if self.peek()[1] != end and self.peek()[0] != "line":
                raise Failure(f"alloy: line {self.peek()[2]}: {self.peek()[1]!r} where a new line is wanted")
            self.lines()

    def value(self):
        kind, text, line = self.next()
        if kind == "string":
            return text[1:-1] if text[0] == "`" else text[1:-1].encode().decode("unicode_escape")
        if kind == "number":
            return float(text) if "." in text else int(text)
        if text in ("true", "false"):
            return text == "true"
        if kind == "name":
            return Reference(text)
        if text == "[":
            return self.items("]", self.value)
        if text == "{":
            return dict(self.items("}", self.pair))
        raise Failure(f"alloy: line {line}: {text!r} where a value is wanted")

    def pair(self):
        kind, name, line = self.next()
        if kind not in ("name", "string"):
            raise Failure(f"alloy: line {line}: {name!r} where a key is wanted")
        self.want("=")
        return (name[1:-1] if kind == "string" else name), self.value()

    def items(self, end, one):
        out = []
        self.lines()
        while self.peek()[1] != end:
            out.append(one())
            if self.peek()[1] == ",":
                self.next()
                self.lines()
            elif self.peek()[1] != end:
                raise Failure(f"alloy: line {self.peek()[2]}: a comma is missing")  # also before a new line
        self.next()
        return out


def parse(text):
    root = Block("", None, 0)
    p = Parser(text)
    p.body(root, "")
    if root.attrs:
        raise Failure(f"alloy: {list(root.attrs)} outside of a component")
    return root.blocks


MAP = {"*": STRING}
RECEIVERS = ListOf(Reference)
# component: (arguments, exports, blocks); a block: (arguments, blocks)
STAGES = {
    "stage.json": ({"!expressions": MAP, "drop_malformed": BOOL, "source": STRING}, {}),
    "stage.template": ({"!source": STRING, "!template": STRING}, {}),
    "stage.labels": ({"!values": MAP, "source_type": STRING}, {}),
    "stage.structured_metadata": ({"!values": MAP, "regex": STRING}, {}),
    "stage.static_labels": ({"!values": MAP}, {}),
    "stage.label_drop": ({"!values": ListOf(STRING)}, {}),
    "stage.label_keep": ({"!values": ListOf(STRING)}, {}),
    "stage.output": ({"!source": STRING}, {}),
    "stage.drop": ({k: STRING for k in ("drop_counter_reason", "expression", "longer_than", "older_than", "separator", "source",
                                        "value")}, {}),
}
COMPONENTS = {
    "loki.source.journal": ({"!forward_to": RECEIVERS, "format_as_json": BOOL, "labels": MAP, "matches": STRING,
                             "max_age": DURATION, "path": STRING, "relabel_rules": Reference}, (), {}),
    "loki.process": ({"!forward_to": RECEIVERS}, ("receiver",), STAGES),
    "loki.write": ({"external_labels": MAP, "max_streams": INT}, ("receiver",), {"endpoint": ({
        "!url": STRING, "batch_size": STRING, "batch_wait": DURATION, "bearer_token": STRING, "bearer_token_file": STRING,
        "enable_http2": BOOL, "follow_redirects": BOOL, "headers": MAP, "http_headers": dict, "max_backoff_period": DURATION,
        "max_backoff_retries": INT, "min_backoff_period": DURATION, "name": STRING, "no_proxy": STRING, "proxy_url": STRING,
        "proxy_from_environment": BOOL, "remote_timeout": DURATION, "retry_on_http_429": BOOL, "tenant_id": STRING}, {
            "basic_auth": ({"username": STRING, "password": OneOf(STRING, Reference), "password_file": STRING}, {}),
            "tls_config": ({k: OneOf(STRING, BOOL) for k in ("ca_file", "ca_pem", "cert_file", "cert_pem", "key_file", "key_pem",
                                                             "insecure_skip_verify", "min_version", "server_name")}, {}),
            "queue_config": ({"block_on_overflow": BOOL, "capacity": STRING, "drain_timeout": DURATION, "min_shards": NUMBER}, {}),
        })}),
}


def block_problems(block, arguments, blocks, path):
    out = schema_problems(block.attrs, arguments, path)
    for b in block.blocks:
        if b.name not in blocks:
            out.append(f"{path}: line {b.line}: unknown block {b.name}")
        else:
            out += block_problems(b, *blocks[b.name], f"{path} {b.name}")
    return out


def references(value):
    if isinstance(value, Reference):
        yield value.text
    elif isinstance(value, (list, dict)):
        for v in value.values() if isinstance(value, dict) else value:
            yield from references(v)


def problems(blocks):
    out = []
    exports = set()
    for b in blocks:
        if b.name not in COMPONENTS or not b.label:
            out.append(f"alloy: line {b.line}: unknown component {b.name}, or one without a label")
            continue
        arguments, exported, inner = COMPONENTS[b.name]
        out += block_problems(b, arguments, inner, b.id())
        exports |= {f"{b.id()}.{e}" for e in exported}
    ids = [b.id() for b in blocks]
    out += [f"alloy: {i} stands twice" for i in set(ids) if ids.count(i) > 1]
    for b in blocks:
        out += [f"{b.id()}: {r} is exported by nothing" for r in references(b.attrs) if r not in exports]
    return out
