#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`gpuxray report`: what the journal says is what it tells, from files, folders, several hosts and a real daemon."""
import calendar
import json
import os
import pty
import re
import stat
import struct
import subprocess
import termios
import time

import harness as h

REMOTE = next((p for p in ("/lib/systemd/systemd-journal-remote", "/usr/lib/systemd/systemd-journal-remote")
               if os.path.exists(p)), None)
MAN = h.ROOT + "/contrib/man/gpuxray-report.1"
GIB = h.GIB
SEC = 1000000
HOUR = 3600 * SEC
T0 = calendar.timegm((2024, 3, 4, 22, 0, 0)) * SEC
BOOT = "b" * 32
GPU = "GPU-11111111-2222-3333-4444-555555555555"
STACK = "0123456789abcdef"
OTHER_STACK = "00000000000000aa"
TRAIN = {"PID": 4711, "START_TIME": 123456, "COMM": "python3", "USER": "alice", "UNIT": "train.service"}
SERVE = {"PID": 99, "START_TIME": 77, "COMM": "server", "USER": "bob", "UNIT": "serve.service"}
DEVICE = {"DEVICE": GPU, "DEVICE_INDEX": 0, "DEVICE_BYTES": 80 * GIB}
ENV = {"TZ": "UTC", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TERM": "xterm"}


# ---- journals made by hand


def record(usec, event, *groups, host="gpu01", boot=BOOT, sender=10, message=None, **fields):
    """One as the daemon writes it; fields without GPUXRAY_."""
    all_fields = {"EVENT": event, "TIME_USEC": usec}
    for g in groups:
        all_fields.update(g)
    all_fields.update(fields)
    r = {"__REALTIME_TIMESTAMP": usec + 1000, "__MONOTONIC_TIMESTAMP": usec - T0 + 10**12, "_BOOT_ID": boot,
         "_HOSTNAME": host, "_MACHINE_ID": {"gpu01": "1" * 32, "gpu02": "2" * 32}[host], "_PID": sender, "PRIORITY": 6,
         "SYSLOG_IDENTIFIER": "gpuxray", "MESSAGE": message or event}
    r.update({"GPUXRAY_" + k: v for k, v in all_fields.items()})
    return r


def export(records):
    """In the journal's export format."""
    out = b""
    for r in sorted(records, key=lambda r: r["__REALTIME_TIMESTAMP"]):
        for k, v in r.items():
            v = v if isinstance(v, bytes) else str(v).encode()
            if all(0x20 <= c < 0x7f or c == 9 for c in v):
                out += k.encode() + b"=" + v + b"\n"
            else:
                out += k.encode() + b"\n" + struct.pack("<Q", len(v)) + v + b"\n"
        out += b"\n"
    return out


def make_journal(path, records):
    if not REMOTE:
        raise h.Failure("systemd-journal-remote is not installed")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    r = subprocess.run([REMOTE, "-o", path, "-"], input=export(records), capture_output=True, timeout=30)
    if r.returncode:
        raise h.Failure(f"systemd-journal-remote: {r.stderr.decode().strip()}")
    return path


def sample(usec, who, live, low, high, **fields):
    return record(usec, "sample", who, DEVICE, BYTES=live, LOW_BYTES=low, HIGH_BYTES=high, WINDOW_SEC=60, LIVE_BYTES=live,
                  LIVE_COUNT=3, PEAK_BYTES=high, SCOPE="process", EXACT=1, **{"HIGH_TIME_USEC": usec, **fields})


def night():
    """22:00 to 06:00: one that grows until it is refused memory, beside one that holds 30 GiB all the time."""
    train_sites = f"{STACK} {39 * GIB} 100\n{OTHER_STACK} {2 * GIB} 7"
    fail = {"LIVE_BYTES": 41 * GIB, "DEVICE_USED_BYTES": 79 * GIB, "FUNCTION": "cuMemAlloc_v2",
            "ERROR": "2 CUDA_ERROR_OUT_OF_MEMORY", "STACK_ID": STACK}
    leak = {"RULE": "leak", "SEVERITY": "warning", "SCOPE": "process", "INCIDENT": "a" * 32}
    return [
        record(T0 - 60 * SEC, "start", message="gpuxray has started"),
        sample(T0 + 60 * SEC, SERVE, 30 * GIB, 0, 30 * GIB, EXE="/opt/server", CMDLINE="server --port 8000"),
        sample(T0 + 10 * 60 * SEC, TRAIN, 8 * GIB, 0, 8 * GIB, EXE="/usr/bin/python3.11", CMDLINE="python3 train.py"),
        sample(T0 + 1 * HOUR, SERVE, 30 * GIB, 30 * GIB, 30 * GIB),
        sample(T0 + 1 * HOUR, TRAIN, 20 * GIB, 8 * GIB, 20 * GIB),
        record(T0 + 2 * HOUR, "leak", TRAIN, DEVICE, leak, STATE="firing", SEQ=1, VALUE=24 * GIB, VALUE_UNIT="bytes",
               GROWTH_BYTES_PER_HOUR=4 * GIB, FULL_IN_SEC=36000, LEAKED_BYTES=20 * GIB, CONFIDENCE="0.87", STACK_ID=STACK,
               message="python3[4711] is leaking 4 GiB per hour on GPU 0, full in 10h (rule leak)\n\nframes"),
        record(T0 + 2 * HOUR, "site", TRAIN, STACK_ID=STACK,
               STACK="cuMemAlloc_v2+0x0 (libcuda.so.1)\ncudaMalloc+0x10 (libcudart.so.12)\n"
                     "alloc; block+0x8 (libc10_cuda.so)\nforward (model.py:212)\nstep (train.py:88)\n<module> (train.py:151)"),
        sample(T0 + 2 * HOUR + 30 * 60 * SEC, SERVE, 30 * GIB, 30 * GIB, 30 * GIB),
        sample(T0 + 3 * HOUR, TRAIN, 41 * GIB, 20 * GIB, 41 * GIB + 12345, TOP_SITES=train_sites,
               HIGH_TIME_USEC=T0 + 2 * HOUR + 59 * 60 * SEC),
        sample(T0 + 3 * HOUR, SERVE, 30 * GIB, 30 * GIB, 30 * GIB),
        record(T0 + 3 * HOUR + 5 * SEC, "alloc_failure", TRAIN, DEVICE, fail, RULE="oom", SEVERITY="error", BYTES=2 * GIB,
               message="python3[4711] was refused 2 GiB on GPU 0"),
        record(T0 + 3 * HOUR + 20 * SEC, "alloc_failure", TRAIN, DEVICE, fail, RULE="oom", SEVERITY="error", BYTES=2 * GIB,
               message="python3[4711] was refused 2 GiB on GPU 0"),
        record(T0 + 3 * HOUR + 60 * SEC, "leak", TRAIN, DEVICE, leak, STATE="resolved", SEQ=2, DURATION_SEC=3660,
               message="python3[4711] has ended, leaking"),
        record(T0 + 3 * HOUR + 60 * SEC, "process_exit", TRAIN, DEVICE, LIVE_BYTES=GIB, LIVE_COUNT=4,
               PEAK_BYTES=41 * GIB + 12345, PEAK_TIME_USEC=T0 + 2 * HOUR + 59 * 60 * SEC, HOST_BYTES=GIB // 4, ALLOC_COUNT=1000,
               FREE_COUNT=996, FAIL_COUNT=2, ALLOCATED_BYTES=2**63 + 1, DURATION_SEC=11000, TOP_SITES=f"{STACK} {GIB} 4",
               DEVICE_PEAKS=f"{GPU} {41 * GIB + 12345} {T0 + 2 * HOUR + 59 * 60 * SEC}", STACK_ID=STACK),
        record(T0 + 5 * HOUR, "stop", message="gpuxray has stopped"),
        record(T0 + 7 * HOUR + 600 * SEC, "start", sender=11, message="gpuxray has started"),
    ]


def other_host():
    """The same numbers of another process on gpu02."""
    return [sample(T0 + 2 * HOUR, {**TRAIN, "COMM": "other"}, 5 * GIB, 0, 5 * GIB, host="gpu02")]


STRETCH = ("--since", "2024-03-04 22:00", "--until", "2024-03-05 06:00")


def report(*args, status=0, env=None, wrap=(), **kw):
    r = h.run(*wrap, h.GPUXRAY, "report", *args, env={**os.environ, **ENV, **(env or {})}, **kw)
    if r.returncode != status:
        raise h.Failure(f"report {' '.join(map(str, args))}: exit status {r.returncode}, not {status}: "
                        f"{r.stderr.strip()} {r.stdout[:500]}")
    return r


def report_json(*args, **kw):
    return json.loads(report("-j", *args, **kw).stdout)


# ---- what is told


@h.test("a report tells a night's records, from a folder and from its files")
def _(case):
    path = make_journal(case.path("night/x.journal"), night())
    j = report_json("-D", case.path("night"), *STRETCH)
    train, serve = j["processes"]
    case.equal((train["pid"], train["comm"], train["unit"], train["user"]), (4711, "python3", "train.service", "alice"), "who")
    case.equal((train["exe"], train["cmdline"]), ("/usr/bin/python3.11", "python3 train.py"), "what it runs")
    case.equal((train["peak_bytes"], train["live_bytes"]), (41 * GIB + 12345, GIB), "peak and rest")
    case.equal(train["allocated_bytes"], 2**63 + 1, "a number beyond a double")
    case.equal((train["ended"], train["cut"], train["end_usec"]), (True, False, T0 + 3 * HOUR + 60 * SEC), "its end")
    case.equal((train["fail_count"], train["host_bytes"], train["incidents"]), (2, GIB // 4, train["incidents"]), "counts")
    case.equal(train["held"][0]["peak_bytes"], 41 * GIB + 12345, "peak on the device")
    case.equal([s["stack"] for s in train["sites"]], [STACK, OTHER_STACK], "sites")
    case.equal((train["sites"][0]["bytes"], train["sites"][0]["last_bytes"]), (39 * GIB, GIB), "bytes of the first")
    case.equal((serve["pid"], serve["live_bytes"], serve["ended"]), (99, 30 * GIB, False), "the other")
    case.equal(j["devices"][0]["uuid"], GPU, "device")
    case.check(71 * GIB <= j["devices"][0]["peak_bytes"] <= 71 * GIB + 12345, f"device peak {j['devices'][0]['peak_bytes']}")
    leak = next(i for i in j["incidents"] if i["rule"] == "leak")
    case.equal((leak["state"], leak["begin_usec"], leak["duration_sec"]), ("resolved", T0 + 2 * HOUR, 3660), "leak")
    case.equal((leak["message"], leak["process"], leak["confidence"], leak["growth_bytes_per_hour"]),
               ("python3[4711] is leaking 4 GiB per hour on GPU 0, full in 10h (rule leak)", 0, 0.87, 4 * GIB), "leak")
    f, = j["failures"]
    case.equal((f["count"], f["bytes"], f["usec"]), (2, 2 * GIB, T0 + 3 * HOUR + 5 * SEC), "failure")
    case.equal([(x["process"], x["bytes"]) for x in f["holders"]], [(0, 41 * GIB), (1, 30 * GIB)], "holders")
    case.equal(f["other_bytes"], 8 * GIB, "others")
    case.equal(j["stacks"][STACK]["frames"][3], "forward (model.py:212)", "a frame")
    down = next(g for g in j["gaps"] if g["kind"] == "down")
    case.equal((down["from_usec"], down["until_usec"]), (T0 + 5 * HOUR, T0 + 7 * HOUR + 600 * SEC), "gap")
    case.equal(report_json("--file", path, *STRETCH), j, "from its file")

    text = report("-D", case.path("night"), *STRETCH).stdout
    for want in (r"^gpuxray report  gpu01$", r"^Mon 2024-03-04 22:00:00 to Tue 2024-03-05 06:00:00 UTC, 8h$",
                 r"^1 device, 2 processes, .*2 failed allocations", r"^What happened$",
                 r"^  Tue 01:00:05  failed    python3\[4711\] train.service asked for 2 GiB on GPU 0,\n +2 times$",
                 r"^  GPU 0 +[▁▂▃▄▅▆▇█ ]+·+[▁▂▃▄▅▆▇█·]*$", r"^ +peak 71 GiB of 80 GiB \(89 %\) at Tue ",
                 r"^  python3\[4711\] +[▁▂▃▄▅▆▇█ ]+ 41 GiB  Tue 00:59:00$", r"^    train.service, user alice$",
                 r"^    server\[99\] serve.service +█+ +30 GiB   38 %", r"^    all others +█+ +8 GiB   10 %$", r"^    free, or untold +█+ +1 GiB    1 %$",
                 r"^      forward \(model.py:212\)$", r"^What this report does not know$",
                 r"^  Tue 03:00:00 to Tue 05:10:00  gpuxray was not running"):
        case.check(re.search(want, text, re.M), f"no {want} in the text:\n{text}")
    case.equal([line for line in text.splitlines() if len(line) > 80 or line != line.rstrip()], [], "lines")

    lines = report("-D", case.path("night"), "--format", "folded", *STRETCH).stdout.splitlines()
    case.equal(lines[0], "python3[4711];<module>_(train.py:151);step_(train.py:88);forward_(model.py:212);"
               f"alloc,_block+0x8_(libc10_cuda.so);cudaMalloc+0x10_(libcudart.so.12);cuMemAlloc_v2+0x0_(libcuda.so.1) {39 * GIB}",
               "folded")
    case.equal(lines[1:], [f"python3[4711];[stack_{OTHER_STACK}] {2 * GIB}"], "folded")
    page = report("-D", case.path("night"), "--format", "html", *STRETCH).stdout
    case.check(re.match(r"(?i)<!doctype html>", page) and "python3" in page and page.rstrip().endswith("</html>"), "a page")


def man_tables():
    """Names of the first column of each table of the man page, by its heading."""
    found = {}
    with open(MAN) as f:
        text = f.read()
    for part in re.split(r"^\.S[HS] ", text, flags=re.M):
        if ".TS" not in part:
            continue
        rows = re.findall(r"^T\{\n(.*)\nT\}\|", part, re.M)
        found[part.split("\n")[0]] = {name for row in rows for name in row.split(", ")}
    return found


@h.test("the JSON of a report has the members that the manual tells, and only these")
def _(case):
    make_journal(case.path("night/x.journal"), night())
    j = report_json("-D", case.path("night"), *STRETCH)
    tables = man_tables()
    case.equal(set(j), tables["JSON"], "the whole")
    case.check(j["incidents"] and j["failures"] and j["processes"] and j["gaps"], "lists")
    for heading, things in (("Processes", j["processes"]), ("Incidents", j["incidents"]), ("Failures", j["failures"])):
        for thing in things:
            case.equal(set(thing), tables[heading], heading)
    with open(MAN) as f:
        text = f.read()
    for key in ("hosts", "devices", "gaps", "left_out"):
        names = re.search(rf"^{key}\nT\}}\|T\{{\n(.*?)\nT\}}", text, re.M | re.S)[1]
        for thing in j[key]:
            case.equal(set(thing) - set(re.findall(r"\w+", names)), set(), key)
    for p in j["processes"]:
        for held in p["held"]:
            case.equal(set(held), {"device", "peak_bytes", "peak_usec", "points"}, "held")
            case.check(all(len(x) == 4 and x[1] <= x[3] <= x[2] for x in held["points"]), f"points {held['points']}")
        for s in p["sites"]:
            case.equal(set(s), {"stack", "bytes", "last_bytes", "peak_bytes"}, "site")
    for s in j["stacks"].values():
        case.equal(set(s), {"frames", "info"}, "stack")
    for x in j["failures"][0]["holders"]:
        case.equal(set(x), {"process", "bytes", "as_of_usec"}, "holder")


@h.test("a report is of one process, one unit, one stretch")
def _(case):
    make_journal(case.path("night/x.journal"), night())
    where = ("-D", case.path("night"))
    case.equal([p["pid"] for p in report_json(*where, *STRETCH, "-p", "99")["processes"]], [99], "-p")
    case.equal([p["pid"] for p in report_json(*where, *STRETCH, "-u", "train")["processes"]], [4711], "-u")
    r = report(*where, *STRETCH, "-u", "train.service")
    case.contains(r.stdout, "\nOnly what is about train.service\n", "said")
    case.check("server[99]" not in r.stdout.split("Failed allocations")[0], "another unit's process in it")
    r = report(*where, *STRETCH, "-p", "12345", status=3)
    case.contains(r.stderr, "nothing was recorded about process 12345 from 2024-03-04 22:00:00 to", "-p of none")
    case.equal(r.stdout, "", "standard output")
    # Before the first half is over the one has not failed yet.
    j = report_json(*where, "--since", "2024-03-04 22:00", "--until", "2024-03-05 00:30:00")
    case.equal((len(j["failures"]), len(j["incidents"]), j["processes"][1]["peak_bytes"]), (0, 1, 20 * GIB), "the first half")
    # At the beginning of the second it holds what a sample before it said.
    j = report_json(*where, "--since", "2024-03-05 00:45", "--until", "2024-03-05 00:50", status=0)
    case.check(all(p["ended"] is False for p in j["processes"]), "ended too early")
    zone = report_json(*where, "--since", "2024-03-04T23:00:00+01:00", "--until", "@" + str(T0 // SEC + 8 * 3600))
    case.equal((zone["from_usec"], zone["until_usec"]), (T0, T0 + 8 * HOUR), "times in other words")
    berlin = report_json(*where, "--since", "2024-03-04 23:00", "--until", "2024-03-05 07:00", env={"TZ": "Europe/Berlin"})
    case.equal((berlin["from_usec"], berlin["until_usec"]), (T0, T0 + 8 * HOUR), "local time")


@h.test("a report of several hosts")
def _(case):
    make_journal(case.path("all/a.journal"), night())
    make_journal(case.path("all/b.journal"), other_host())
    j = report_json("-D", case.path("all"), "--merge", *STRETCH)
    case.equal(sorted(x["name"] for x in j["hosts"]), ["gpu01", "gpu02"], "hosts")
    case.equal({(j["hosts"][p["host"]]["name"], p["pid"], p["comm"]) for p in j["processes"]},
               {("gpu01", 4711, "python3"), ("gpu01", 99, "server"), ("gpu02", 4711, "other")}, "processes")
    case.equal(len(j["devices"]), 2, "a device of the same name on each")
    text = report("-D", case.path("all"), "--merge", *STRETCH).stdout
    case.check(re.search(r"^gpuxray report  gpu01, gpu02$|^gpuxray report  gpu02, gpu01$", text, re.M), "hosts named")
    case.check(re.search(r"^  gpu02 other\[4711\] ", text, re.M), "host of a process")
    case.check(re.search(r"^  gpu01 GPU 0 ", text, re.M), "host of a device")
    both = report_json("--file", case.path("all/a.journal"), "--file", case.path("all/b.journal"), *STRETCH)
    case.equal(len(both["hosts"]), 2, "hosts of files")


# ---- what goes wrong


@h.test("a report of nothing ends with status 3 and says what to look at")
def _(case):
    make_journal(case.path("night/x.journal"), night())
    late = ("--since", "2024-05-01", "--until", "2024-05-02")
    r = report("-D", case.path("night"), *late, status=3)
    case.equal(r.stdout, "", "standard output")
    case.equal(r.stderr, "gpuxray report: nothing was recorded from 2024-05-01 00:00:00 to 2024-05-02 00:00:00 UTC: give the time "
               "that these journal files are about with --since and --until\n", "what it says")
    j = report_json("-D", case.path("night"), *late, status=3)
    case.equal((j["processes"], j["records"]), ([], 0), "JSON")
    r = report(*late, status=3)  # of the journal of this host
    case.check("systemctl status gpuxray" in r.stderr and r.stderr.count("\n") == 1, f"what it says: {r.stderr!r}")


@h.test("a report of files that cannot be read says which and why")
def _(case):
    path = make_journal(case.path("night/x.journal"), night())
    os.chmod(case.path("night"), 0o700)
    os.chmod(path, 0o600)
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    os.chmod(h.TMP, 0o755)
    for args in (("-D", case.path("night")), ("--file", path)):
        r = report(*args, *STRETCH, status=1, wrap=nobody)
        case.check(r.stderr.startswith("gpuxray report: ") and r.stderr.count("\n") == 1 and
                   re.search(r"[Pp]ermission denied|not allowed|may not", r.stderr), f"no permission: {r.stderr!r}")
    for args in (("-D", case.path("none")), ("--file", case.path("none.journal"))):
        r = report(*args, *STRETCH, status=1)
        case.check(r.stderr.count("\n") == 1 and case.path("none") in r.stderr, f"not there: {r.stderr!r}")
    text = case.write("text.journal", "no journal at all\n" * 100)
    r = report("--file", text, *STRETCH, status=1)
    case.check(r.stderr.count("\n") == 1 and "text.journal" in r.stderr, f"no journal: {r.stderr!r}")


@h.test("a damaged journal file is told as far as it goes")
def _(case):
    path = make_journal(case.path("night/x.journal"), night())
    with open(path, "rb") as f:
        good = f.read()
    ends = set()
    # A few places all over what is used of it; nothing may crash or hang, and what comes is JSON or one clear line.
    for at in range(300, 160000, 15973):
        bad = case.path("bad.journal")
        with open(bad, "wb") as f:
            f.write(good[:at] + b"\xff" * 64 + good[at + 64:])
        r = h.run(h.GPUXRAY, "report", "-j", "--file", bad, *STRETCH, env={**os.environ, **ENV})
        ends.add(r.returncode)
        case.check(r.returncode in (0, 1, 3), f"damage at {at}: status {r.returncode}: {r.stderr[:300]}")
        if r.returncode != 1:
            json.loads(r.stdout)
        else:
            case.check(r.stderr.startswith("gpuxray report: "), f"damage at {at}: {r.stderr!r}")
    case.check(0 in ends, f"exit statuses {ends}")
    with open(case.path("short.journal"), "wb") as f:
        f.write(good[:5000])
    r = h.run(h.GPUXRAY, "report", "--file", case.path("short.journal"), *STRETCH)
    case.check(r.returncode in (0, 1, 3) and r.stderr.startswith("gpuxray report: "), f"cut: {r.returncode} {r.stderr!r}")


@h.test("options of a report that make no sense")
def _(case):
    for args, want in (
            (("--since", "noon"), 'gpuxray report: --since noon: not a time: "2026-11-30 22:00", "22:00", "yesterday", "-2h", '
                                  '"3h ago" and "@1796000000" are\n'),
            (("--since", "2023-02-29"), "gpuxray report: --since 2023-02-29: there is no such day\n"),
            (("--until", "-1fortnight"), "gpuxray report: --until -1fortnight: not a length of time: "),
            (("--since", "tomorrow"), "gpuxray report: --since tomorrow: is in the future: nothing can have happened yet\n"),
            (("--since", "-1h", "--until", "-2h"), "gpuxray report: --since is not before --until: nothing lies between them\n"),
            (("-p", "0"), "gpuxray report: --pid 0: not a process id\n"),
            (("-p", "x"), "gpuxray report: --pid x: not a process id\n"),
            (("-u", ""), 'gpuxray report: --unit "": name a unit\n'),
            (("--format", "pdf"), "gpuxray report: --format pdf: must be text, json, folded or html\n"),
            (("--colour", "red"), "gpuxray report: --colour red: must be auto, always or never\n"),
            (("--width", "59"), "gpuxray report: --width 59: must be a number from 60 to 300\n"),
            (("--processes", "0"), "gpuxray report: --processes 0: must be a number from 1 to 1000000\n"),
            (("-D", "/x", "--file", "/y"), "gpuxray report: --directory or --file, not both: a file says where it is\n"),
            (("today",), "gpuxray report: argument today: not understood; `gpuxray report --help` tells the options\n")):
        r = report(*args, status=1)
        case.check(r.stderr.startswith(want) and r.stderr.count("\n") == 1, f"{args}: {r.stderr!r}")
        case.equal(r.stdout, "", f"{args}: standard output")
    case.contains(report("--help").stdout, "--since T", "help")


# ---- where it goes


@h.test("a report goes to a file, whole or not at all")
def _(case):
    make_journal(case.path("night/x.journal"), night())
    where = ("-D", case.path("night"), *STRETCH)
    out = case.path("out")
    os.mkdir(out)
    r = report(*where, "-o", out + "/night.json", wrap=("sh", "-c", 'umask 027; exec "$@"', "sh"))
    case.equal((r.stdout, r.stderr), ("", ""), "what it says")
    with open(out + "/night.json") as f:
        case.equal(len(json.load(f)["processes"]), 2, "format by name")
    case.equal(stat.S_IMODE(os.stat(out + "/night.json").st_mode), 0o640, "mode")
    os.chmod(out + "/night.json", 0o600)
    os.chown(out + "/night.json", 65534, 65534)
    report(*where, "-o", out + "/night.json", wrap=("sh", "-c", 'umask 022; exec "$@"', "sh"))
    case.equal(stat.S_IMODE(os.stat(out + "/night.json").st_mode), 0o600, "mode of a file that was there")
    case.equal(os.stat(out + "/night.json").st_uid, 65534, "its owner")
    before = os.stat(out + "/night.json").st_ino
    os.symlink("night.json", out + "/link.json")
    report(*where, "-o", out + "/link.json")
    case.check(os.path.islink(out + "/link.json") and os.stat(out + "/night.json").st_ino != before, "through a link")
    report(*where, "-o", out + "/night.json", "--format", "text")
    with open(out + "/night.json") as f:
        case.check(f.read().startswith("gpuxray report  gpu01\n"), "replaced, in another format")
    report(*where, "-o", out + "/night.html")
    case.equal(sorted(os.listdir(out)), ["link.json", "night.html", "night.json"], "nothing else is left there")
    case.check(report(*where, "-o", "/dev/stdout").stdout.startswith("gpuxray report  gpu01\n"), "/dev/stdout")
    case.check(report(*where, "-o", "-").stdout.startswith("gpuxray report  gpu01\n"), "-")
    r = report(*where, "-o", out + "/none/x.json", status=1)
    case.equal(r.stderr, f"gpuxray report: cannot write {out}/none/x.json: No such file or directory\n", "no folder")
    r = report(*where, "-o", out, status=1)
    case.check(r.stderr.startswith(f"gpuxray report: cannot write {out}: "), f"a folder: {r.stderr!r}")
    with open("/dev/full", "w") as full:
        r = subprocess.run([h.GPUXRAY, "report", *where], stdout=full, stderr=subprocess.PIPE, text=True, timeout=30,
                           env={**os.environ, **ENV})
    case.equal((r.returncode, r.stderr), (1, "gpuxray report: cannot write standard output: No space left on device\n"), "full")
    # A disk that is full leaves the file that was there.
    small = case.path("small")
    os.mkdir(small)
    h.must("mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", small)
    case.finally_(h.run, "umount", small)
    with open(small + "/x.json", "w") as f:
        f.write("old")
    h.run("dd", "if=/dev/zero", f"of={small}/fill", "bs=4k", "count=4")
    r = report(*where, "-o", small + "/x.json", status=1)
    case.contains(r.stderr, "No space left on device", "full disk")
    with open(small + "/x.json") as f:
        case.equal(f.read(), "old", "what was there")
    case.equal(sorted(os.listdir(small)), ["fill", "x.json"], "nothing half-written")


def on_terminal(args, columns, env):
    """What it writes to a terminal of so many columns."""
    main, sub = pty.openpty()
    termios.tcsetwinsize(sub, (25, columns))
    p = subprocess.Popen([h.GPUXRAY, "report", *args], stdout=sub, stderr=subprocess.PIPE, env={**os.environ, **ENV, **env})
    os.close(sub)
    out = b""
    while True:
        try:
            data = os.read(main, 65536)
        except OSError:
            break
        if not data:
            break
        out += data
    os.close(main)
    err = p.stderr.read().decode()
    return p.wait(), out.decode().replace("\r\n", "\n"), err


@h.test("a report on a terminal takes its width and has colours")
def _(case):
    make_journal(case.path("night/x.journal"), night())
    where = ["-D", case.path("night"), *STRETCH]
    plain = report(*where, "--width", "100").stdout
    _, text, _ = on_terminal(where, 100, {"NO_COLOR": ""})
    case.contains(text, "\x1b[0;1mWhat happened\x1b[0m\n", "colour")
    case.equal(re.sub(r"\x1b\[[0-9;]*m", "", text), plain, "all else is the same")
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        _, text, _ = on_terminal(where, 100, env)
        case.equal(text, plain, f"no colour with {env}")
    _, text, _ = on_terminal([*where, "--colour", "never"], 40, {})
    case.equal(text, report(*where, "--width", "60").stdout, "never, and no narrower than 60")
    case.contains(report(*where, "--color=always").stdout, "\x1b[0;1m", "always")
    status, text, err = on_terminal([*where, "--format", "html"], 80, {})
    case.equal((status, text, err), (1, "", "gpuxray report: a page is not for a terminal: name a file, `-o report.html`\n"), "page")
    ascii_text = report(*where, env={"LC_ALL": "C"}).stdout
    case.check(ascii_text.isascii() and "#" in ascii_text, "ASCII")


# ---- a real daemon


@h.test("a report of a real workload says what that did, to the byte")
def _(case):
    d = case.daemon()
    since = "@" + str(int(time.time()) - 1)
    w = case.work("work_ledger", "--seed=7", "--ops=3000", "--wait-end")
    said = w.next("end", 30)
    case.check(said["peak_exact"] and said["fail_count"] > 0 and 0 < said["live_bytes"] < said["peak_bytes"],
               f"the ledger is too thin to prove anything: {said}")
    w.end()
    d.wait_record(w.pid, event="process_exit")
    p, = report_json("--since", since, "-p", str(w.pid))["processes"]
    case.equal((p["ended"], p["cut"], p["exact"]), (True, False, True), "ended")
    case.equal((p["peak_bytes"], p["live_bytes"]), (said["peak_bytes"], said["live_bytes"]), "peak, and what it held at its end")
    for k in ("start_time", "host_bytes", "managed_bytes", "alloc_count", "free_count", "fail_count"):
        case.equal(p[k], said[k], k)
    case.check(p["sites"] and p["peak_stack"], f"stacks: {p['sites']}, {p['peak_stack']}")
    text = report("--since", since, "-p", str(w.pid)).stdout
    case.check(re.search(rf"^  work_ledger\[{w.pid}\] ", text, re.M), f"in the text: {text}")


if __name__ == "__main__":
    h.main()
