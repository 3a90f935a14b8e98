# SPDX-License-Identifier: MIT
"""What the tests of contrib/ share: TAP, paths, the field table of the records, a checker of schemas written as tables."""
import json
import os
import re
import sys
import time
import traceback

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.realpath(HERE + "/../..")
CONTRIB = ROOT + "/contrib"


class Failure(Exception):
    pass


class Skip(Exception):
    """The reason why this machine cannot run the test."""


tests = []


def test(name):
    def add(fn):
        tests.append((name, fn))
        return fn
    return add


def fail_if(problems):
    if problems:
        raise Failure("\n".join(problems))


def equal(got, want, what):
    if got != want:
        raise Failure(f"{what}: {got!r}, not {want!r}")


def main():
    failed = 0
    for n, (name, fn) in enumerate(tests, 1):
        start, skip, why = time.monotonic(), "", ""
        try:
            fn()
        except Skip as e:
            skip = f" # SKIP {e}"
        except Failure as e:
            why = str(e)
        except Exception:
            why = traceback.format_exc()
        failed += bool(why)
        print(f"{'not ' if why else ''}ok {n} - {name}{skip}")
        for line in why.splitlines()[:40]:
            print("# " + re.sub(r"[^\x20-\x7e]", "?", line))
        print(f"# {time.monotonic() - start:.2f} s", flush=True)
    print(f"1..{len(tests)}")
    sys.exit(1 if failed or not tests else 0)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def load_yaml(path):
    """As the programs do: a key that stands twice is an error."""
    try:
        import yaml
    except ImportError:
        raise Skip("python3-yaml is not installed") from None

    class Loader(yaml.SafeLoader):
        pass

    def mapping(loader, node):
        keys = [loader.construct_object(k) for k, _ in node.value]
        fail_if([f"{path}: key {k!r} stands twice" for k in set(keys) if keys.count(k) > 1])
        return yaml.SafeLoader.construct_mapping(loader, node, deep=True)

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    try:
        return yaml.load(read(path), Loader)
    except yaml.YAMLError as e:
        raise Failure(f"{path}: {e}") from None


def field_names():
    """All fields of records, from the one table in the source that owns them."""
    source = read(ROOT + "/src/record/fields.c")
    body = re.search(r"^static const struct field_desc table\[\] = \{\n(.*?)^\};", source, re.M | re.S)
    names = re.findall(r'^\t\{ "([A-Z0-9_]+)",', body[1], re.M) if body else []
    if len(names) < 50:
        raise Failure(f"src/record/fields.c: found {len(names)} fields in its table: has it changed its form?")
    return set(names)


def event_names():
    """Values of GPUXRAY_EVENT: one in the reporter's hands, the others in the table of src/rule/report.c."""
    names = re.findall(r'\[REPORT_\w+\] = "(\w+)"', read(ROOT + "/src/rule/report.c"))
    if len(names) < 10:
        raise Failure(f"src/rule/report.c: found {len(names)} events")
    return set(names) | {"suppressed"}


def records():
    """Real ones of the daemon, oldest first, as `journalctl -o json` shows them (tests/contrib/make_records.py)."""
    return json.loads(read(HERE + "/records.json"))


# ---- schemas: TYPE, or a table {key: schema}; "!key" must be there, "*" stands for any other key

class OneOf:
    def __init__(self, *values):
        self.values = values


class ListOf:
    def __init__(self, item):
        self.item = item


class Pattern:
    """A string of this form (or a number, where YAML reads one)."""

    def __init__(self, regex):
        self.regex = regex


DURATION = Pattern(r"(\d+(\.\d+)?(ns|us|ms|s|m|h|d|w|y))+|0")
STRING, BOOL, INT, NUMBER, ANY = str, bool, int, float, object
NAMES = {type(None): "null", str: "a string", bool: "true or false", int: "a whole number", float: "a number"}


def schema_problems(value, schema, path):
    """What is wrong, each with its path."""
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            return [f"{path}: {value!r} is no table"]
        known = {k.lstrip("!"): v for k, v in schema.items()}
        out = [f"{path}: {k[1:]} is missing" for k in schema if k.startswith("!") and k[1:] not in value]
        for k, v in value.items():
            sub = known.get(k, known.get("*"))
            out += [f"{path}: unknown key {k!r}"] if sub is None else schema_problems(v, sub, f"{path}.{k}")
        return out
    if isinstance(schema, ListOf):
        if not isinstance(value, list):
            return [f"{path}: {value!r} is no list"]
        return [p for i, v in enumerate(value) for p in schema_problems(v, schema.item, f"{path}[{i}]")]
    if isinstance(schema, OneOf):
        if any(type(v) is type(value) and v == value or isinstance(v, (dict, ListOf, Pattern, type)) and
               not schema_problems(value, v, path) for v in schema.values):
            return []
        return [f"{path}: {value!r} is none of {[v for v in schema.values]}"]
    if isinstance(schema, Pattern):
        good = isinstance(value, (str, int)) and not isinstance(value, bool) and re.fullmatch(schema.regex, str(value))
        return [] if good else [f"{path}: {value!r} is not of the form {schema.regex}"]
    if schema is ANY:
        return []
    good = isinstance(value, schema) or schema is NUMBER and isinstance(value, int)
    return [] if good and (schema is BOOL or not isinstance(value, bool)) else [f"{path}: {value!r} is not {NAMES[schema]}"]
