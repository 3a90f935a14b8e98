#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""contrib/kubernetes, contrib/container and their pages. Keys and types are those of the API reference of Kubernetes 1.30,
as far as the manifests use them; of the operator's PodMonitor and of kustomize those of their documentation."""
import copy
import os
import re

import tap
from tap import BOOL, INT, STRING, ListOf, OneOf, Pattern

FOLDER = tap.CONTRIB + "/kubernetes"
DOCKERFILE = tap.CONTRIB + "/container/Dockerfile"
PAGES = [f"{tap.CONTRIB}/doc/{name}.md" for name in ("kubernetes", "containers")]

LABEL = Pattern(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
PATH = Pattern(r"/[\w./-]+")
LABELS = {"*": STRING}
QUANTITY = Pattern(r"\d+(\.\d+)?(m|k|M|G|Ki|Mi|Gi)?")
META = {"!name": LABEL, "namespace": LABEL, "labels": LABELS, "annotations": LABELS}
PROBE = {"exec": {"!command": ListOf(STRING)}, "httpGet": {"!port": OneOf(INT, STRING), "path": PATH}, "periodSeconds": INT,
         "timeoutSeconds": INT, "failureThreshold": INT, "successThreshold": INT, "initialDelaySeconds": INT}
CAPABILITY = Pattern(r"ALL|[A-Z]+(_[A-Z]+)*")
SECURITY = {
    "runAsUser": INT, "runAsGroup": INT, "runAsNonRoot": BOOL, "privileged": BOOL, "allowPrivilegeEscalation": BOOL,
    "readOnlyRootFilesystem": BOOL, "procMount": STRING,
    "capabilities": {"add": ListOf(CAPABILITY), "drop": ListOf(CAPABILITY)},
    "seccompProfile": {"!type": OneOf("RuntimeDefault", "Unconfined", "Localhost"), "localhostProfile": STRING},
    "appArmorProfile": {"!type": OneOf("RuntimeDefault", "Unconfined", "Localhost"), "localhostProfile": STRING},
    "seLinuxOptions": {"level": STRING, "role": STRING, "type": STRING, "user": STRING}}
CONTAINER = {
    "!name": LABEL, "!image": STRING, "imagePullPolicy": OneOf("Always", "IfNotPresent", "Never"), "command": ListOf(STRING),
    "args": ListOf(STRING), "env": ListOf({"!name": Pattern(r"[A-Za-z_]\w*"), "value": STRING}),
    "ports": ListOf({"name": Pattern(r"[a-z0-9-]{1,15}"), "!containerPort": INT, "protocol": OneOf("TCP", "UDP")}),
    "securityContext": SECURITY,
    "resources": {"requests": {"*": QUANTITY}, "limits": {"*": QUANTITY}},
    "startupProbe": PROBE, "livenessProbe": PROBE, "readinessProbe": PROBE,
    "volumeMounts": ListOf({"!name": LABEL, "!mountPath": PATH, "readOnly": BOOL, "subPath": STRING,
                            "mountPropagation": OneOf("None", "HostToContainer", "Bidirectional")})}
REQUIREMENT = {"!key": STRING, "!operator": OneOf("In", "NotIn", "Exists", "DoesNotExist"), "values": ListOf(STRING)}
VOLUME = {
    "!name": LABEL,
    "hostPath": {"!path": PATH, "type": OneOf("", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket")},
    "configMap": {"!name": LABEL, "items": ListOf({"!key": STRING, "!path": STRING}), "defaultMode": INT, "optional": BOOL},
    "emptyDir": {"sizeLimit": QUANTITY, "medium": OneOf("", "Memory")}}
POD = {
    "serviceAccountName": LABEL, "automountServiceAccountToken": BOOL, "enableServiceLinks": BOOL,
    "priorityClassName": STRING, "terminationGracePeriodSeconds": INT, "hostPID": BOOL, "hostNetwork": BOOL,
    "runtimeClassName": STRING,
    "nodeSelector": LABELS,
    "tolerations": ListOf({"key": STRING, "operator": OneOf("Exists", "Equal"), "value": STRING,
                           "effect": OneOf("NoSchedule", "PreferNoSchedule", "NoExecute")}),
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "!nodeSelectorTerms": ListOf({"matchExpressions": ListOf(REQUIREMENT)})}}},
    "!containers": ListOf(CONTAINER), "volumes": ListOf(VOLUME)}
KINDS = {
    ("v1", "Namespace"): {"!metadata": META},
    ("v1", "ServiceAccount"): {"!metadata": META, "automountServiceAccountToken": BOOL},
    ("v1", "ConfigMap"): {"!metadata": META, "data": {"*": STRING}},
    ("apps/v1", "DaemonSet"): {"!metadata": META, "!spec": {
        "!selector": {"!matchLabels": LABELS},
        "updateStrategy": {"type": OneOf("RollingUpdate", "OnDelete"), "rollingUpdate": {
            "maxUnavailable": OneOf(INT, Pattern(r"\d+%")), "maxSurge": OneOf(INT, Pattern(r"\d+%"))}},
        "!template": {"!metadata": {"labels": LABELS, "annotations": LABELS}, "!spec": POD}}},
    ("monitoring.coreos.com/v1", "PodMonitor"): {"!metadata": META, "!spec": {
        "!selector": {"matchLabels": LABELS}, "!podMetricsEndpoints": ListOf({
            "port": STRING, "path": STRING, "interval": tap.DURATION, "relabelings": ListOf({
                "sourceLabels": ListOf(STRING), "targetLabel": STRING, "regex": STRING, "replacement": STRING})})}},
    ("kustomize.config.k8s.io/v1beta1", "Kustomization"): {
        "resources": ListOf(STRING), "patches": ListOf({"path": STRING}),
        "images": ListOf({"!name": STRING, "newName": STRING, "newTag": Pattern(r"[\w.-]+")})},
}


def documents(name):
    """Each as the API server reads it, duplicate keys refused."""
    text = tap.read(f"{FOLDER}/{name}")
    out = []
    for i, part in enumerate(re.split(r"(?m)^---$", text)):
        path = f"{name}[{i}]"
        with TemporaryText(part) as f:
            out.append((path, tap.load_yaml(f)))
    return out


class TemporaryText:
    def __init__(self, text):
        import tempfile
        self.file = tempfile.NamedTemporaryFile("w", suffix=".yaml")
        self.file.write(text)
        self.file.flush()

    def __enter__(self):
        return self.file.name

    def __exit__(self, *_):
        self.file.close()


def object_problems(path, d, is_patch=False):
    schema = KINDS.get((d.get("apiVersion"), d.get("kind")))
    if schema is None:
        return [f"{path}: {d.get('apiVersion')} {d.get('kind')} is not known to this test"]
    if is_patch:
        schema = without_needs(schema)
    return tap.schema_problems(d, {"!apiVersion": STRING, "!kind": STRING, **schema}, path)


def without_needs(schema):
    """Of a patch nothing must be there but the names of what it changes."""
    if isinstance(schema, dict):
        return {k if k == "!name" else k.lstrip("!"): without_needs(v) for k, v in schema.items()}
    return ListOf(without_needs(schema.item)) if isinstance(schema, ListOf) else schema


def pod_problems(pod, config):
    """What the API server refuses besides, and what would not start."""
    out = []
    volumes = {v["name"]: v for v in pod.get("volumes", [])}
    out += [f"volume {n} has {len(v) - 1} sources" for n, v in volumes.items() if len(v) != 2]
    mounted = [m["name"] for c in pod["containers"] for m in c.get("volumeMounts", [])]
    out += [f"volume {n} is not defined" for n in set(mounted) - set(volumes)]
    out += [f"volume {n} is not mounted" for n in set(volumes) - set(mounted)]
    for v in volumes.values():
        items = v.get("configMap", {}).get("items", [])
        out += [f"key {i['key']} is not in the ConfigMap" for i in items if i["key"] not in config["data"]]
        keys = [i["key"] for i in items]
        out += [f"key {k} of the ConfigMap is not mounted" for k in config["data"] if items and k not in keys]
    for c in pod["containers"]:
        paths = [m["mountPath"] for m in c.get("volumeMounts", [])]
        out += [f"{p} is mounted twice" for p in set(paths) if paths.count(p) > 1]
        s = c["securityContext"]
        if not s.get("allowPrivilegeEscalation", True) and s.get("privileged"):
            out.append("privileged cannot be without allowPrivilegeEscalation")
        for key in ("startupProbe", "livenessProbe", "readinessProbe"):
            if key in c and len(set(c[key]) & {"exec", "httpGet"}) != 1:
                out.append(f"{key} needs one way to ask")
        for r, v in c.get("resources", {}).get("requests", {}).items():
            limit = c["resources"].get("limits", {}).get(r)
            if limit and size(str(v)) > size(str(limit)):
                out.append(f"{r}: more is requested than the limit allows")
    return out


def size(text):
    n, unit = re.fullmatch(r"([\d.]+)(\D*)", text).groups()
    return float(n) * {"": 1, "m": 0.001, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}[unit]


def one(kind):
    found = [d for _, d in documents("gpuxray.yaml") if d["kind"] == kind]
    tap.equal(len(found), 1, f"objects of kind {kind}")
    return found[0]


@tap.test("the manifests are such as Kubernetes takes: keys, types, and what refers to what")
def manifests():
    problems = []
    for name in sorted(f for f in os.listdir(FOLDER) if f.endswith(".yaml")):
        for path, d in documents(name):
            problems += object_problems(path, d, is_patch=name == "nvidia.yaml")
    daemon_set = one("DaemonSet")
    template = daemon_set["spec"]["template"]
    tap.fail_if(problems)
    problems += pod_problems(template["spec"], one("ConfigMap"))
    labels = template["metadata"]["labels"]
    problems += [f"selector {k}={v}: not a label of the pods" for k, v in daemon_set["spec"]["selector"]["matchLabels"].items()
                 if labels.get(k) != v]
    space = one("Namespace")["metadata"]["name"]
    problems += [f"{path} is not in namespace {space}" for path, d in documents("gpuxray.yaml")
                 if d["kind"] != "Namespace" and d["metadata"].get("namespace") != space]
    tap.equal(template["spec"]["serviceAccountName"], one("ServiceAccount")["metadata"]["name"], "service account")
    monitor = documents("podmonitor.yaml")[0][1]
    problems += [f"podmonitor.yaml selects {k}={v}" for k, v in monitor["spec"]["selector"]["matchLabels"].items()
                 if labels.get(k) != v]
    ports = [p["name"] for c in template["spec"]["containers"] for p in c["ports"]]
    problems += [f"podmonitor.yaml: no port {e['port']}" for e in monitor["spec"]["podMetricsEndpoints"]
                 if e["port"] not in ports]
    tap.fail_if(problems)


@tap.test("mistakes in a manifest are found by the test above")
def mistakes():
    good, config = one("DaemonSet"), one("ConfigMap")

    def broken(change):
        d = copy.deepcopy(good)
        change(d, d["spec"]["template"]["spec"], d["spec"]["template"]["spec"]["containers"][0])
        return object_problems("x", d) or pod_problems(d["spec"]["template"]["spec"], config)

    changes = [
        lambda d, pod, c: pod.update(hostPid=True), lambda d, pod, c: pod.update(hostPID="true"),
        lambda d, pod, c: c["securityContext"].update(readOnlyRootFileSystem=True),
        lambda d, pod, c: c["securityContext"]["capabilities"]["add"].append("cap_bpf"),
        lambda d, pod, c: c["resources"]["limits"].update(memory="64Mi"),
        lambda d, pod, c: c["resources"]["limits"].update(memory="1GiB"),
        lambda d, pod, c: c["volumeMounts"].append({"name": "none", "mountPath": "/x"}),
        lambda d, pod, c: c["volumeMounts"].pop(), lambda d, pod, c: c.pop("image"),
        lambda d, pod, c: pod["volumes"][1]["hostPath"].update(type="Folder"),
        lambda d, pod, c: c["livenessProbe"].update(httpGet={"port": 1}),
        lambda d, pod, c: d["spec"].pop("selector"), lambda d, pod, c: pod["tolerations"][0].update(operator="Any"),
    ]
    tap.fail_if([f"change {i} is not found" for i, change in enumerate(changes) if not broken(change)])
    tap.equal(broken(lambda d, pod, c: None), [], "as it is")


@tap.test("the pod has what the systemd unit has, and no more")
def privileges():
    unit = tap.read(tap.CONTRIB + "/systemd/gpuxray.service")
    bounding = re.search(r"^CapabilityBoundingSet=(.*)$", unit, re.M)[1].replace("CAP_", "").split()
    pod = one("DaemonSet")["spec"]["template"]["spec"]
    c = pod["containers"][0]
    s = c["securityContext"]
    tap.equal(sorted(s["capabilities"]["add"]), sorted(set(bounding) - {"SYS_ADMIN"}), "capabilities")
    tap.equal(s["capabilities"]["drop"], ["ALL"], "dropped capabilities")
    tap.equal([s["privileged"], s["allowPrivilegeEscalation"], s["readOnlyRootFilesystem"]], [False, False, True], "settings")
    tap.equal([pod["hostPID"], pod.get("hostNetwork"), pod["automountServiceAccountToken"]], [True, None, False], "settings")
    limit = re.search(r"^MemoryMax=(\S+)$", unit, re.M)[1]
    tap.equal(c["resources"]["limits"]["memory"], limit + "i", "memory limit")
    writable = [m["mountPath"] for m in c["volumeMounts"] if not m.get("readOnly")]
    tap.equal(sorted(writable), ["/run/gpuxray", "/var/lib/gpuxray"], "what it may write to")


@tap.test("kustomization.yaml names what is there, and its patch fits")
def kustomization():
    (_, k), (_, patch) = *documents("kustomization.yaml"), *documents("nvidia.yaml")
    problems = [f"{f} is not there" for f in [*k["resources"], *(p["path"] for p in k["patches"])]
                if not os.path.exists(f"{FOLDER}/{f}")]
    base = one("DaemonSet")
    problems += [f"the patch is for another {key}" for key in ("apiVersion", "kind", "metadata")
                 if key != "metadata" and patch[key] != base[key] or key == "metadata" and
                 any(patch[key][n] != base[key][n] for n in ("name", "namespace"))]
    names = [c["name"] for c in base["spec"]["template"]["spec"]["containers"]]
    problems += [f"no container {c['name']}" for c in patch["spec"]["template"]["spec"]["containers"] if c["name"] not in names]
    image = base["spec"]["template"]["spec"]["containers"][0]["image"].split(":")
    problems += [f"no image {i['name']}" for i in k["images"] if i["name"] != image[0]]
    tap.fail_if(problems)


@tap.test("the Dockerfile copies what is there, and tags are the program's version")
def dockerfile():
    text = tap.read(DOCKERFILE)
    version = re.search(r"^VERSION := (\S+)$", tap.read(tap.ROOT + "/Makefile"), re.M)[1]
    stages = re.findall(r"^FROM \S+ AS (\w+)$", text, re.M)
    problems = []
    for line in re.findall(r"^COPY (.*)$", text, re.M):
        words = line.split()
        if words[0].startswith("--from="):
            problems += [f"no stage {words[0]}"] if words[0][7:] not in stages else []
        else:
            problems += [f"{w} is not there" for w in words[:-1] if not os.path.exists(f"{tap.ROOT}/{w}")]
    for path in (DOCKERFILE, *PAGES, f"{FOLDER}/gpuxray.yaml"):
        problems += [f"{path}: tag {t}" for t in re.findall(r"\bgpuxray:(\d[\w.]*\w)", tap.read(path)) if t != version]
    tap.equal(documents("kustomization.yaml")[0][1]["images"][0]["newTag"], version, "kustomization.yaml's tag")
    unit = tap.read(tap.CONTRIB + "/systemd/gpuxray.service")
    entry = re.search(r'^ENTRYPOINT \["(.*)"\]$', text, re.M)[1]
    tap.equal(entry, re.search(r"^ExecStart=(\S+)", unit, re.M)[1], "program")
    tap.fail_if(problems)


@tap.test("the pages name files, fields and capabilities that exist, and say what was not run")
def pages():
    problems = []
    allowed = set(one("DaemonSet")["spec"]["template"]["spec"]["containers"][0]["securityContext"]["capabilities"]["add"])
    for path in PAGES:
        text, name = tap.read(path), os.path.basename(path)
        problems += [f"{name}: {f} is not there" for f in set(re.findall(r"(?<!tests/)\bcontrib/[\w./-]*\w", text))
                     if not os.path.exists(f"{tap.ROOT}/{f}")]
        problems += [f"{name}: link to {f}" for f in re.findall(r"\]\(([\w.-]+\.md)\)", text)
                     if not os.path.exists(f"{tap.CONTRIB}/doc/{f}")]
        problems += [f"{name}: no field {f}" for f in set(re.findall(r"\bGPUXRAY_[A-Z_]+", text)) - tap.field_names()]
        problems += [f"{name} does not tell of {c}" for c in allowed if not re.search(rf"\b(CAP_)?{c}\b", text)]
        if "was run in the tests" not in text:
            problems.append(f"{name} does not say what was not run")
    tap.fail_if(problems)


tap.main()
