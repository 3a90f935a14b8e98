#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`gpuxray doctor` on hosts that are ready, and on such that are not."""
import json
import os

import harness as h

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]
RULES_DIR = "/run/gpuxray/rules.d"
# What a driver of another version than its library says.
BAD_NVML = """
int nvmlInit_v2(void) { return 18; }
const char *nvmlErrorString(int e) { return e == 18 ? "Driver/library version mismatch" : "other"; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(void) { return 18; }
int nvmlDeviceGetHandleByIndex_v2(void) { return 18; }
int nvmlDeviceGetUUID(void) { return 18; }
int nvmlDeviceGetMemoryInfo(void) { return 18; }
int nvmlDeviceGetComputeRunningProcesses(void) { return 18; }
"""


def doctor(case, *options, wrap=(), status=0, libraries=h.FAKE):
    """Its checks by name, the last of each name that is not ok, or else the last."""
    r = h.run(*wrap, h.GPUXRAY, "doctor", "--json", *options, env={**os.environ, "LD_LIBRARY_PATH": libraries})
    case.check(r.returncode in (0, 1), f"exit status {r.returncode}: {r.stderr!r}")
    said = json.loads(r.stdout)
    case.equal(r.returncode, status, f"exit status; fails: {[c for c in said['checks'] if c['result'] == 'fail']}")
    case.equal(said["ready"], status == 0, "ready")
    found = {}
    for c in said["checks"]:
        case.equal(sorted(c), ["cure", "name", "result", "text"], "members")
        case.equal(c["cure"] is None, c["result"] == "ok", f"what is not well says what to do: {c}")
        if c["result"] != "ok" or c["name"] not in found:
            found[c["name"]] = c
    return found


def check(case, found, name, result, text="", cure=""):
    c = found.get(name, {"result": None, "text": None, "cure": None})
    case.equal(c["result"], result, f"{name}: {c}")
    case.contains(c["text"], text, name)
    if cure:
        case.contains(c["cure"], cure, f"cure of {name}")


@h.test("doctor: root with a journal is ready, and the probe is really hit", host=True)
def ready(case):
    found = doctor(case, "--library", h.LIBCUDA)
    for name in ("btf", "user", "capabilities", "perf", "namespace", "proc", "journal", "rate", "nvml"):
        check(case, found, name, "ok")
    check(case, found, "probe", "ok", "its call was seen")
    check(case, found, "library", "ok", h.LIBCUDA)
    check(case, found, "storage", "warn", "lost at the next boot", "Storage=persistent")
    check(case, found, "daemon", "warn", "none answers", "gpuxray run")


@h.test("doctor: it finds the users of a driver, and a daemon that answers")
def in_use(case):
    d = case.daemon()
    w = case.work("work_lifecycle", "hold")
    w.next("hold")
    found = doctor(case)
    check(case, found, "driver", "ok", "process maps: " + h.LIBCUDA)
    check(case, found, "daemon", "ok", h.SOCKET)
    w.end()
    d.stop()


@h.test("doctor: text and JSON have the same lines")
def same_lines(case):
    text = h.run(h.GPUXRAY, "doctor").stdout.splitlines()
    lines = []
    for c in json.loads(h.must(h.GPUXRAY, "doctor", "--json"))["checks"]:
        lines.append(f"{c['result']:5} {c['name']:14}{c['text']}")
        if c["cure"]:
            lines.append(" " * 20 + "-> " + c["cure"])
    case.equal(text[:-1], lines, "lines")
    case.check(text[-1].startswith("ready: "), f"last line: {text[-1]}")


@h.test("doctor: another user than root", host=True)
def nobody(case):
    found = doctor(case, wrap=NOBODY, status=1)
    check(case, found, "capabilities", "fail", "CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH", "run as root")
    check(case, found, "probe", "fail", "cannot load", "CAP_BPF")
    check(case, found, "user", "warn", "user 65534", "root")
    check(case, found, "proc", "ok")


@h.test("doctor: the capabilities of the manual suffice")
def few_capabilities(case):
    h.need_multi()
    caps = "-all,+bpf,+perfmon,+sys_ptrace,+dac_read_search"
    found = doctor(case, wrap=["setpriv", f"--bounding-set={caps}", "--inh-caps=-all"])
    check(case, found, "capabilities", "warn", "CAP_CHECKPOINT_RESTORE")
    check(case, found, "probe", "ok")
    found = doctor(case, wrap=["setpriv", "--bounding-set=-all,+bpf,+sys_ptrace,+dac_read_search", "--inh-caps=-all"],
                   status=1)
    check(case, found, "capabilities", "fail", "lacks CAP_PERFMON", "give these")
    check(case, found, "probe", "fail")


@h.test("doctor: /proc that hides the processes of others")
def hidepid(case):
    hidden = h.in_namespace("mount -t proc -o hidepid=2 proc /proc")
    check(case, doctor(case, wrap=hidden), "proc", "ok", "passes by")
    check(case, doctor(case, wrap=[*hidden, *NOBODY], status=1), "proc", "fail", "hidepid=", "hidepid=0")


@h.test("doctor: no journal, no type information, a driver of another version than its library")
def lacks(case):
    found = doctor(case, wrap=h.in_namespace("mount -t tmpfs tmpfs /run/systemd/journal"))
    check(case, found, "journal", "warn", "no journald", "start systemd-journald")
    found = doctor(case, wrap=h.in_namespace("mount -t tmpfs tmpfs /sys/kernel/btf"), status=1)
    check(case, found, "btf", "fail", "/sys/kernel/btf/vmlinux", "CONFIG_DEBUG_INFO_BTF")
    check(case, found, "probe", "fail", "cannot load")
    source = case.write("nvml.c", BAD_NVML)
    h.must("cc", "-shared", "-fPIC", source, "-o", case.path("libnvidia-ml.so.580.95.05"))
    os.symlink("libnvidia-ml.so.580.95.05", case.path("libnvidia-ml.so.1"))
    found = doctor(case, libraries=case.dir, status=1)
    check(case, found, "nvml", "fail", "library (580.95.05) are of different versions", "reboot")


@h.test("doctor: inside a PID namespace, and with the /proc of another one")
def pid_namespace(case):
    inside = ["unshare", "--pid", "--fork", "--kill-child"]
    found = doctor(case, wrap=[*inside, "--mount-proc"])
    check(case, found, "namespace", "warn", "inside a PID namespace", "hostPID: true")
    check(case, found, "probe", "ok")
    check(case, doctor(case, wrap=inside, status=1), "namespace", "fail", "another PID namespace", "--mount-proc")


@h.test("doctor: journald that takes fewer records than may be written")
def rate(case):
    path = "/run/systemd/journald.conf.d/zz-doctor.conf"
    case.finally_(os.remove, path)
    with open(path, "w") as f:
        f.write("[Journal]\nRateLimitIntervalSec=30s\nRateLimitBurst=1000\n")
    check(case, doctor(case), "rate", "warn", "takes 1000 records in 30s", "RateLimitBurst=")


@h.test("doctor: a broken rule file is told with its line")
def broken_rules(case):
    os.makedirs(RULES_DIR, exist_ok=True)
    path = RULES_DIR + "/broken.conf"
    case.finally_(os.remove, path)
    with open(path, "w") as f:
        f.write('version = 1;\nrules = (\n  { name = "b"; kind = "leek"; }\n);\n')
    check(case, doctor(case, status=1), "rules", "fail", path + ":3: ", "gpuxray check")


@h.test("doctor: a file that is no driver library; wrong options")
def bad_library(case):
    check(case, doctor(case, "--library", "/nowhere.so", status=1), "library", "fail", "/nowhere.so: No such file")
    check(case, doctor(case, "--library", "/bin/true", status=1), "library", "fail", "none of its functions")
    for option in ("--nonsense", "nonsense"):
        r = h.run(h.GPUXRAY, "doctor", option)
        case.equal((r.returncode, r.stdout, len(r.stderr.splitlines())), (1, "", 1), option)


if __name__ == "__main__":
    h.main()
