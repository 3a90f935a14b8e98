#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the daemon can still do once it runs, thread by thread, that all of it works with no more, and who may ask it."""
import glob
import os
import re
import signal
import socket
import stat
import subprocess
import time
import urllib.error
import urllib.request

import harness as h

CAPABILITIES = {"DAC_OVERRIDE": 1, "DAC_READ_SEARCH": 2, "SYS_PTRACE": 19, "SYS_ADMIN": 21, "PERFMON": 38, "BPF": 39,
                "CHECKPOINT_RESTORE": 40}
READ = {"DAC_READ_SEARCH", "SYS_PTRACE"}
FILES = READ | {"CHECKPOINT_RESTORE"}
TRACE = FILES | {"BPF", "PERFMON"}
# By the name of the thread; the main one is called as the program.
THREADS = {"gpuxray": TRACE, "gpuxray-stack": FILES | {"BPF"}, "gpuxray-build": FILES, "gpuxray-view": FILES,
           "gpuxray-write": set(), "gpuxray-nvml": READ, "gpuxray-file": {"DAC_OVERRIDE"}, "user-names": set(),
           "container-names": {"DAC_READ_SEARCH"}}
NOBODY = 65534
PYTHON = """
import ctypes, sys
cuda = ctypes.CDLL(sys.argv[1])
assert cuda.cuInit(0) == 0
context, at = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
def grabs_memory():
    assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(150 << 20)) == 0
print("ready", flush=True)
sys.stdin.readline()
for _ in range(2):
    grabs_memory()
print("held", flush=True)
sys.stdin.readline()
"""


def threads(pid):
    """The status of each, as a dict; several may have one name."""
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/status"):
        with open(path) as f:
            found.append(dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line))
    return found


def names_of(bits):
    known = {name for name, number in CAPABILITIES.items() if bits >> number & 1}
    return known | {n for n in range(64) if bits >> n & 1 and n not in CAPABILITIES.values()}


def check_threads(case, pid, want, what):
    seen = set()
    for s in threads(pid):
        name, who = s["Name"], f"{what}: thread {s['Name']}"
        seen.add(name)
        for field in ("CapEff", "CapPrm"):
            case.equal(names_of(int(s[field], 16)), want.get(name), f"{who}: {field}")
        # One that is started late has that of who started it: to shrink it takes a capability that is gone.
        more = names_of(int(s["CapBnd"], 16)) - want.get(name, set()) - want["gpuxray"]
        case.equal(more, set(), f"{who}: CapBnd beyond what it has")
        for field in ("CapInh", "CapAmb"):
            case.equal(int(s[field], 16), 0, f"{who}: {field}")
        case.equal((s["NoNewPrivs"], s["Seccomp"]), ("1", "2"), f"{who}: NoNewPrivs and Seccomp")
    return seen


def scrape(p):
    """Status and text of the metrics, where p has said that they are."""
    where = re.search(r"http://127\.0\.0\.1:\d+/metrics", p.stderr())
    try:
        with urllib.request.urlopen(where[0], timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, ""


def open_to_others(case):
    """The folder of the case, for programs of other users."""
    os.chmod(h.TMP, 0o755)
    os.chmod(case.dir, 0o777)


def as_user(uid):
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]


def textfile_of(case):
    """In a folder of another user, into which others may not write."""
    folder = case.path("nobodys")
    os.mkdir(folder, 0o755)
    os.chown(folder, NOBODY, NOBODY)
    return folder + "/gpuxray.prom"


@h.test("each thread has the capabilities that it needs and no others, for good")
def capabilities(case):
    h.need_multi()
    d = case.daemon(config=f'metrics = {{ textfile = "{textfile_of(case)}"; interval = "1s"; }};\n')
    open_to_others(case)
    # Nobody in /etc/passwd, so that others are asked for the name.
    w = case.work("work_lifecycle", "hold", "--blocks=1", "--bytes=150MiB", wrap=as_user(54321))
    w.next("hold")
    d.wait_record(w.pid, rule="quota", state="firing")
    h.must(h.GPUXRAY, "memtrace", "-p", w.pid, "-n", 1, "--print-stacks")
    seen = check_threads(case, d.pid, THREADS, "running")
    case.equal({"gpuxray", "gpuxray-stack", "gpuxray-build", "gpuxray-view", "gpuxray-write", "gpuxray-nvml",
                "gpuxray-file", "user-names"} - seen, set(), "threads that were not seen")
    with open(f"/proc/{d.pid}/limits") as f:
        limit = re.search(r"Max core file size\s+(\d+|unlimited)\s+(\d+|unlimited)", f.read())
    case.equal(limit.groups(), ("0", "0"), "limit of core files")
    w.end()
    d.stop()


@h.test("where probes go through perf the thread that attaches them keeps CAP_SYS_ADMIN, and it alone")
def perf(case):
    d = case.daemon("--perf-uprobes", library=None)  # that it traces test_books.py and others show
    check_threads(case, d.pid, {**THREADS, "gpuxray": TRACE | {"SYS_ADMIN"}}, "perf")
    d.stop()


@h.test("with only what the unit gives, and with CAP_SYS_ADMIN in place of what an old runtime does not know")
def given_less(case):
    h.need_multi()
    for given, kept in ((TRACE | {"SYS_ADMIN"}, TRACE), (READ | {"SYS_ADMIN"}, READ | {"SYS_ADMIN"})):
        bounds = ",".join("+" + n.lower() for n in sorted(given))
        d = case.daemon(wrap=("setpriv", f"--bounding-set=-all,{bounds}", "--inh-caps=-all"))
        main = [s for s in threads(d.pid) if s["Name"] == "gpuxray"]
        case.equal([names_of(int(s["CapEff"], 16)) for s in main], [kept], f"given {sorted(given)}")
        w = case.work("work_late", h.LIBCUDA, "--sleep=100", "--wait-end")
        ledger = w.next("late")
        d.wait_process(w.pid, lambda p: p["live_bytes"] == ledger["live_bytes"], what="it is traced")
        w.end()
        d.stop()


@h.test("all goes on with what is left: later libraries, Python, the driver, users, a reload, metrics, the status")
def works(case):
    h.need_multi()
    textfile = textfile_of(case)
    d = case.daemon(library=None, config="nvml_interval = \"1s\";\nmetrics = { listen = \"localhost:0\"; "
                    f"textfile = \"{textfile}\"; interval = \"1s\"; }};\n")
    # A copy: nothing of it is probed before it is mapped.
    late = case.path("late")
    os.mkdir(late, 0o700)
    os.chown(late, NOBODY, NOBODY)
    with open(h.LIBCUDA, "rb") as f, open(late + "/libcuda.so.1", "wb") as g:
        g.write(f.read())
    os.chmod(late + "/libcuda.so.1", 0o755)
    open_to_others(case)
    p = h.Process(case, "python", [*as_user(NOBODY), "/usr/bin/python3", "-c", PYTHON, late + "/libcuda.so.1"],
                  env={"FAKE_GPU_STATE": case.path("nobodys-state")}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    case.equal(p.p.stdout.readline(), b"ready\n", f"the program: {p.stderr()}")
    h.poll(lambda: any(x["path"] == late + "/libcuda.so.1" for x in d.status()["libraries"]), 10, "the library is probed")
    os.unlink(late + "/libcuda.so.1")  # now only map_files has it
    p.p.stdin.write(b"\n")
    p.p.stdin.flush()
    case.equal(p.p.stdout.readline(), b"held\n", "the program")
    r = d.wait_record(p.pid, rule="quota", state="firing")
    case.contains(r.get("GPUXRAY_STACK"), "cuMemAlloc_v2", "native frames")
    case.equal(r.get("GPUXRAY_USER"), "nobody", "user")
    out = h.must(h.GPUXRAY, "memtrace", "-p", p.pid, "-n", 1, "--print-stacks")
    case.contains(out, "grabs_memory", "Python frames")
    h.poll(lambda: d.status()["devices"], 10, "NVML's devices")
    d.reload()
    d.wait_record(event="reload")
    code, text = scrape(d)
    case.equal(code, 200, "metrics by HTTP")
    case.contains(text, f'pid="{p.pid}"', "metrics by HTTP")
    h.poll(lambda: os.path.exists(textfile), 10, "a text file")
    written = os.stat(textfile).st_mtime_ns
    h.poll(lambda: os.stat(textfile).st_mtime_ns > written, 10, "the text file is replaced")
    p.p.stdin.write(b"\n")
    p.p.stdin.flush()
    case.equal(p.wait(), 0, "the program")
    d.wait_gone(p.pid)
    d.stop()
    case.check(not os.path.exists(textfile), "the text file is still there")


@h.test("a socket in a user's folder is removed in the end too; what that takes is kept for it alone")
def foreign_folder(case):
    h.need_multi()
    folder = case.path("theirs")
    os.mkdir(folder, 0o755)
    os.chown(folder, NOBODY, NOBODY)
    path = folder + "/status.sock"
    d = case.daemon("--socket", path, wait=False)
    h.poll(lambda: h.run(h.GPUXRAY, "status", "--socket", path).returncode == 0, 40, "it answers")
    check_threads(case, d.pid, {**THREADS, "gpuxray": TRACE | {"DAC_OVERRIDE"}}, "socket in a user's folder")
    d.stop()
    case.check(not os.path.lexists(path), "the socket is still there")


@h.test("mon keeps nothing at all once it listens")
def of_mon(case):
    d = case.daemon()
    m = h.Process(case, "mon", [h.GPUXRAY, "mon", "--listen", "localhost:0"], stdin=subprocess.DEVNULL)
    h.poll(lambda: "metrics of " in m.stderr(), 10, "mon says where it listens")
    h.poll(lambda: all(int(s["CapPrm"], 16) == 0 for s in threads(m.pid)), 10, lambda: f"no capability: {threads(m.pid)}")
    check_threads(case, m.pid, {"gpuxray": set()}, "mon")
    # What can leave no core shows nothing of itself to its equals either, which can be seen where cores are off.
    bare = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "readlink")
    other = h.Process(case, "other", ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "sleep", "60"])
    h.poll(lambda: h.run(*bare, f"/proc/{other.pid}/exe").stdout.endswith("/sleep\n"), 10, "another without capabilities")
    case.equal(h.run(*bare, f"/proc/{m.pid}/exe").returncode, 1, "exit status of a look at mon by its equal")
    case.equal(scrape(m)[0], 200, "metrics")
    d.stop()
    h.poll(lambda: scrape(m)[0] == 503, 10, "the daemon is away")
    d = case.daemon()
    h.poll(lambda: scrape(m)[0] == 200, 10, "it is back")
    m.signal(signal.SIGTERM)
    case.equal(m.wait(), 0, "exit status of mon")
    d.stop()


def ask_as(uid, gid, path, groups=()):
    """What a connection of that user's is told, or the error."""
    lists = ["--groups=" + ",".join(map(str, groups))] if groups else ["--clear-groups"]
    program = ("import socket, sys\ns = socket.socket(socket.AF_UNIX)\ntry:\n    s.connect(sys.argv[1])\nexcept OSError as e:\n"
               "    sys.exit(print(e.strerror))\ns.sendall(b'json\\n')\nprint(s.recv(12))\n")
    return h.must("setpriv", f"--reuid={uid}", f"--regid={gid}", *lists, "--bounding-set=-all", "/usr/bin/python3", "-c", program,
                  path).strip()


@h.test("the status socket and that of the metrics let in root and its group, nobody else")
def who_may_ask(case):
    http = "/run/gpuxray/metrics.sock"
    d = case.daemon(config=f'metrics = {{ listen = "unix:{http}"; }};\n')
    for path in (h.SOCKET, http):
        st = os.stat(path)
        case.equal((stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid), (0o660, 0, 0), f"{path}: mode, user and group")
        case.equal(ask_as(NOBODY, NOBODY, path), "Permission denied", f"{path}: another user")
    case.contains(ask_as(NOBODY, NOBODY, h.SOCKET, groups=(0,)), "version", "a member of root's group")
    r = h.run(*as_user(NOBODY), h.GPUXRAY, "status")
    case.equal(r.returncode, 1, "exit status of another user's `gpuxray status`")
    case.contains(r.stderr, "run as root", "what it is told")
    # Who is let in can hold up himself alone: 24 that never ask, and one that does not read.
    idle = [socket.socket(socket.AF_UNIX) for _ in range(24)]
    for s in idle:
        s.connect(h.SOCKET)
    begin = time.monotonic()
    h.poll(lambda: h.run(h.GPUXRAY, "status").returncode == 0, 15, "an answer beside 24 that say nothing")
    case.check(time.monotonic() - begin < 12, "the answer took longer than the silent may stay")
    for s in idle:
        s.close()
    d.stop()


if __name__ == "__main__":
    h.main()
