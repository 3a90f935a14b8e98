# SPDX-License-Identifier: MIT
"""What the three shippers make of a journal record, read from their configuration files: (labels, metadata, line)."""
import json
import re

import alloy
import gotemplate
import tap
import vrl
from tap import BOOL, INT, STRING, Failure, ListOf, OneOf, Pattern

TRUSTED = {"_HOSTNAME", "_PID", "_BOOT_ID", "_MACHINE_ID", "_SYSTEMD_UNIT", "_UID", "_COMM", "__REALTIME_TIMESTAMP", "PRIORITY",
           "MESSAGE", "SYSLOG_IDENTIFIER"}
LABELS = {"job", "host", "severity", "rule"}
METADATA = {"event", "state", "incident", "scope", "pid", "start_time", "comm", "user", "unit", "container", "pod", "pod_name", "namespace",
            "slurm_job", "tag", "device", "device_index", "stack_id"}
JOBS = {"gpuxray", "gpuxray-history"}

# ---- Fluent Bit: names from the config maps of in_systemd, filter_modify and out_loki, and its manual for what all have

SWITCH = OneOf(BOOL, "on", "off", "true", "false")
SIZE = Pattern(r"\d+([KMG]B?)?")
TEXTS = OneOf(STRING, ListOf(STRING))
FB_COMMON = {"!name": STRING, "alias": STRING, "log_level": STRING, "log_suppress_interval": STRING, "processors": dict,
             "storage.type": OneOf("filesystem", "memory", "memrb")}
FB_NET = {k: OneOf(STRING, INT, BOOL) for k in (
    "host", "port", "tls", "tls.verify", "tls.debug", "tls.ca_file", "tls.ca_path", "tls.crt_file", "tls.key_file",
    "tls.key_passwd", "tls.vhost", "net.connect_timeout", "net.keepalive", "net.keepalive_idle_timeout", "net.dns.mode",
    "net.io_timeout", "net.max_worker_connections", "net.source_address")}
FB_INPUTS = {"systemd": {
    **FB_COMMON, "!tag": STRING, "mem_buf_limit": SIZE, "threaded": SWITCH, "storage.pause_on_chunks_overlimit": SWITCH,
    "path": STRING, "max_fields": INT, "max_entries": INT, "systemd_filter": TEXTS, "systemd_filter_type": OneOf("and", "or"),
    "read_from_tail": SWITCH, "read_since_minutes_ago": INT, "lowercase": SWITCH, "strip_underscores": SWITCH,
    "db": STRING, "db.sync": OneOf("extra", "full", "normal", "off")}}
FB_MODIFY = ("set", "add", "remove", "remove_wildcard", "remove_regex", "rename", "hard_rename", "copy", "hard_copy",
             "move_to_start", "move_to_end", "condition")
FB_FILTERS = {"modify": {**FB_COMMON, "match": STRING, "match_regex": STRING, **{k: TEXTS for k in FB_MODIFY}}}
FB_OUTPUTS = {"loki": {
    **FB_COMMON, **FB_NET, "match": STRING, "match_regex": STRING, "workers": INT,
    "retry_limit": OneOf(INT, "no_limits", "no_retries", False), "storage.total_limit_size": SIZE,
    "uri": STRING, "tenant_id": STRING, "tenant_id_key": STRING, "labels": STRING, "structured_metadata": STRING,
    "structured_metadata_map_keys": STRING, "auto_kubernetes_labels": SWITCH, "drop_single_key": OneOf(SWITCH, "raw"),
    "label_keys": STRING, "remove_keys": STRING, "line_format": OneOf("json", "key_value"), "label_map_path": STRING,
    "http_user": STRING, "http_passwd": STRING, "buffer_size": SIZE, "bearer_token": STRING, "header": TEXTS,
    "compress": OneOf("gzip")}}
FB_SERVICE = {"flush": OneOf(INT, float), "grace": INT, "daemon": SWITCH, "hot_reload": SWITCH, "dns.mode": STRING,
              "log_file": STRING, "log_level": OneOf("off", "error", "warn", "warning", "info", "debug", "trace"),
              "parsers_file": TEXTS, "plugins_file": TEXTS, "http_server": SWITCH, "http_listen": STRING, "http_port": INT,
              "health_check": SWITCH, "scheduler.base": INT, "scheduler.cap": INT, "json.convert_nan_to_null": SWITCH,
              "storage.path": STRING, "storage.sync": OneOf("normal", "full"), "storage.checksum": SWITCH,
              "storage.backlog.mem_limit": SIZE, "storage.max_chunks_up": INT, "storage.metrics": SWITCH}
FB_CONDITIONS = {"key_exists": 1, "key_does_not_exist": 1, "a_key_matches": 1, "no_key_matches": 1, "key_value_equals": 2,
                 "key_value_does_not_equal": 2, "key_value_matches": 2, "key_value_does_not_match": 2,
                 "matching_keys_have_matching_values": 2, "matching_keys_do_not_have_matching_values": 2}


def listed(v):
    return v if isinstance(v, list) else [v]


def by_name(plugins, known, path):
    out = []
    for i, p in enumerate(plugins):
        name = p.get("name") if isinstance(p, dict) else None
        out += [f"{path}[{i}]: unknown plugin {name!r}"] if name not in known else \
            tap.schema_problems(p, known[name], f"{path}[{i}] {name}")
    return out


class FluentBit:
    name = "Fluent Bit"
    path = tap.CONTRIB + "/fluent-bit/gpuxray.yaml"

    def __init__(self):
        self.conf = tap.load_yaml(self.path)
        self.pipeline = self.conf.get("pipeline", {})

    def rules(self, f):
        """Rules of a modify filter in their order, with their words."""
        for k, v in f.items():
            if k in FB_MODIFY:
                for text in listed(v):
                    yield k, text.split(" ")

    def problems(self, fields):
        out = tap.schema_problems(self.conf, {
            "env": {"*": OneOf(STRING, INT)}, "service": FB_SERVICE, "includes": ListOf(STRING), "parsers": list,
            "!pipeline": {"!inputs": list, "filters": list, "!outputs": list}}, "fluent-bit")
        if out:
            return out
        p = self.pipeline
        out = by_name(p["inputs"], FB_INPUTS, "inputs") + by_name(p["filters"], FB_FILTERS, "filters") + \
            by_name(p["outputs"], FB_OUTPUTS, "outputs")
        tags = {i.get("tag") for i in p["inputs"]}
        made = set()
        for f in p["filters"] + p["outputs"]:
            if f.get("match") not in tags | {"*"}:
                out.append(f"{f['name']}: match {f.get('match')!r} is no tag of an input")
        for f in p["filters"]:
            for k, words in self.rules(f):
                want = FB_CONDITIONS.get(words[0].lower(), -1) + 1 if k == "condition" else 1 if "remove" in k or "move" in k else 2
                if len(words) != want:
                    out.append(f"modify: {k} {' '.join(words)}: {len(words)} words, not {want}")
                    continue
                source = words[1] if k == "condition" else words[0]
                if k in ("copy", "hard_copy", "rename", "hard_rename", "condition") and source not in fields | TRUSTED:
                    out.append(f"modify: {k} of {source}, which is no field of a record")
                if k in ("copy", "add", "set", "rename"):
                    made.add(words[1] if k in ("copy", "rename") else words[0])
        for o in p["outputs"]:
            for option in ("label_keys", "structured_metadata"):
                out += [f"loki: {option} {k}, which no filter makes" for k in self.keys(o, option) if k not in made]
            for var in re.findall(r"\$\{(\w+)\}", json.dumps(o)):
                if var not in self.conf.get("env", {}):
                    out.append(f"loki: ${{{var}}} is not in env")
        return out

    def keys(self, o, option):
        words = [w.strip() for w in o.get(option, "").split(",") if w.strip()]
        if any(not w.startswith("$") for w in words):
            raise Failure(f"loki: {option}: {words}: only $key is read here")
        return [w[1:] for w in words]

    def holds(self, words, r):
        kind, key = words[0].lower(), words[1]
        if kind == "key_value_equals":
            return r.get(key) == words[2]
        if kind == "key_value_matches":
            return key in r and re.search(words[2], r[key]) is not None
        raise Failure(f"modify: condition {kind} is not read here")

    def ship(self, record):
        r = dict(record)
        for f in self.pipeline["filters"]:
            rules = list(self.rules(f))
            if not all(self.holds(w, r) for k, w in rules if k == "condition"):
                continue
            for k, w in rules:
                if k == "copy" and w[0] in r:
                    r.setdefault(w[1], r[w[0]])
                elif k == "add":
                    r.setdefault(w[0], w[1])
                elif k not in ("copy", "condition"):
                    raise Failure(f"modify: {k} is not read here")
        o = self.pipeline["outputs"][0]
        labels = {k: r[k] for k in self.keys(o, "label_keys") if r.get(k)}
        metadata = {k: r[k] for k in self.keys(o, "structured_metadata") if r.get(k)}
        used = self.keys(o, "label_keys") + self.keys(o, "structured_metadata")
        return labels, metadata, json.dumps({k: v for k, v in r.items() if k not in used})

    def selects(self, record):
        f = [x for i in self.pipeline["inputs"] for x in listed(i["systemd_filter"])]
        return any(record.get(k) == v for k, v in (x.split("=", 1) for x in f))  # several are OR


class Alloy:
    name = "Alloy"
    path = tap.CONTRIB + "/alloy/gpuxray.alloy"

    def __init__(self):
        self.blocks = alloy.parse(tap.read(self.path))
        self.by_id = {b.id(): b for b in self.blocks}

    def problems(self, fields):
        out = alloy.problems(self.blocks)
        for b in self.blocks:
            for stage in b.blocks:
                for k, v in stage.attrs.get("expressions", {}).items() if stage.name == "stage.json" else ():
                    if v not in fields | TRUSTED:
                        out.append(f"stage.json: {k} = {v}, which is no field of a record")
                if stage.name == "stage.template":
                    gotemplate.parse(stage.attrs["template"])
        return out

    def ship(self, record):
        source = self.by_id["loki.source.journal.gpuxray"]
        if not source.attrs.get("format_as_json"):
            raise Failure("alloy: the line would be MESSAGE alone")
        line = json.dumps(record)
        labels, metadata = {"job": source.id()}, {}
        extracted = dict(labels)
        process = self.by_id[source.attrs["forward_to"][0].text.removesuffix(".receiver")]
        for stage in process.blocks:
            a = stage.attrs
            if stage.name == "stage.json":
                extracted.update({k: record.get(v or k) for k, v in a["expressions"].items()})
            elif stage.name == "stage.template":
                names = {"." + k: v for k, v in extracted.items() if v is not None}
                text = gotemplate.render(gotemplate.parse(a["template"]), names)
                extracted.pop(a["source"], None)
                if text:
                    extracted[a["source"]] = text
            elif stage.name in ("stage.labels", "stage.structured_metadata"):
                into = labels if stage.name == "stage.labels" else metadata
                into.update({k: extracted[v or k] for k, v in a["values"].items() if extracted.get(v or k) is not None})
            else:
                raise Failure(f"alloy: {stage.name} is not read here")
        return labels, metadata, line

    def selects(self, record):
        f = self.by_id["loki.source.journal.gpuxray"].attrs["matches"].split(" ")
        return all(record.get(k) == v for k, v in (x.split("=", 1) for x in f))  # several are AND


# ---- Vector: names from its generated reference

V_ACK = OneOf(BOOL, {"enabled": BOOL})
V_SOURCES = {"journald": {
    "acknowledgements": V_ACK, "batch_size": INT, "current_boot_only": BOOL, "data_dir": STRING, "emit_cursor": BOOL,
    "exclude_matches": {"*": ListOf(STRING)}, "exclude_units": ListOf(STRING), "extra_args": ListOf(STRING),
    "include_matches": {"*": ListOf(STRING)}, "include_units": ListOf(STRING), "journal_directory": STRING,
    "journal_namespace": STRING, "journalctl_path": STRING, "since_now": BOOL}}
V_TRANSFORMS = {"remap": {
    "!inputs": ListOf(STRING), "source": STRING, "file": STRING, "drop_on_abort": BOOL, "drop_on_error": BOOL,
    "reroute_dropped": BOOL, "timezone": STRING, "metric_tag_values": OneOf("single", "full")}}
V_SINKS = {"loki": {
    "!inputs": ListOf(STRING), "!endpoint": STRING, "!encoding": {
        "!codec": OneOf("json", "text", "logfmt", "raw_message"), "except_fields": ListOf(STRING),
        "only_fields": ListOf(STRING), "timestamp_format": STRING, "json": dict},
    "acknowledgements": V_ACK, "auth": {"!strategy": OneOf("basic", "bearer", "aws"), "user": STRING, "password": STRING,
                                        "token": STRING, "auth": dict, "service": STRING},
    "batch": {"max_bytes": INT, "max_events": INT, "timeout_secs": float}, "buffer": dict,
    "compression": OneOf("gzip", "none", "snappy", "zlib", "zstd"), "healthcheck": dict, "labels": {"*": STRING},
    "out_of_order_action": OneOf("accept", "drop", "rewrite_timestamp"), "path": STRING, "proxy": dict,
    "remove_label_fields": BOOL, "remove_structured_metadata_fields": BOOL, "remove_timestamp": BOOL, "request": dict,
    "structured_metadata": {"*": STRING}, "tenant_id": STRING, "tls": dict}}


class Vector:
    name = "Vector"
    path = tap.CONTRIB + "/vector/gpuxray.yaml"

    def __init__(self):
        self.conf = tap.load_yaml(self.path)

    def the(self, kind):
        return next(iter(self.conf[kind].values()))

    def problems(self, fields):
        out = tap.schema_problems(self.conf, {"data_dir": STRING, "api": dict, "acknowledgements": dict, "!sources": dict,
                                              "transforms": dict, "!sinks": dict}, "vector")
        ids = set()
        for kind, known in (("sources", V_SOURCES), ("transforms", V_TRANSFORMS), ("sinks", V_SINKS)):
            for name, c in self.conf.get(kind, {}).items():
                schema = known.get(c.get("type"))
                out += [f"{kind}.{name}: unknown type {c.get('type')!r}"] if schema is None else \
                    tap.schema_problems(c, {**schema, "!type": STRING}, f"{kind}.{name}")
                out += [f"{kind}.{name}: input {i}, which is no source or transform before it" for i in c.get("inputs", ())
                        if i not in ids]
                ids |= {name} if kind != "sinks" else set()
        if out:
            return out
        program = vrl.parse(self.the("transforms")["source"])
        out += [f"remap: .{f}, which is no field of a record" for f in sorted(vrl.fields_read(program))
                if re.match("[A-Z_]", f) and f not in fields | TRUSTED]
        made = vrl.fields_written(program)
        sink = self.the("sinks")
        for option in ("labels", "structured_metadata"):
            for k, v in sink.get(option, {}).items():
                out += [f"loki: {option} uses {f}, which the remap does not make" for f in re.findall(r"\{\{\s*(\w+)\s*\}\}", v)
                        if f not in made]
                if k != "*" and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*\*?", k):
                    out.append(f"loki: {option}: {k!r} is no name")
        return out

    def expand(self, templates, event):
        out = {}
        for k, v in templates.items():
            m = re.fullmatch(r"\{\{\s*(\w+)\s*\}\}", v)
            got = event.get(m[1]) if m else v
            if k == "*":
                out.update({re.sub("[^0-9a-z_]", "_", n.lower()): x for n, x in (got or {}).items()})
            elif got is not None:
                out[k] = got
        return out

    def ship(self, record):
        event = dict(record)
        # What the source does to a record.
        event["message"] = event.pop("MESSAGE")
        event["host"] = event.pop("_HOSTNAME")
        event["source_type"], event["timestamp"] = "journald", None
        vrl.run(vrl.parse(self.the("transforms")["source"]), event)
        sink = self.the("sinks")
        labels, metadata = self.expand(sink["labels"], event), self.expand(sink["structured_metadata"], event)
        if sink.get("remove_timestamp", True):
            event.pop("timestamp", None)
        for f in sink["encoding"].get("except_fields", ()):
            event.pop(f, None)
        if sink["encoding"]["codec"] != "json":
            raise Failure("vector: only json is read here")
        return labels, metadata, json.dumps(event)

    def selects(self, record):
        args = self.the("sources")["extra_args"]
        return args[0] == "-t" and record.get("SYSLOG_IDENTIFIER") == args[1]


ALL = (FluentBit, Alloy, Vector)
