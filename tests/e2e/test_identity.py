#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Who a process is: its user, parent, cgroup and what that says of it, in PID namespaces, after its main thread has
ended, and when its PID has gone to another one."""
import os
import signal

import harness as h
from cgroups import is_writable, make_group, version2

ID1 = "0123456789abcdef" * 4
ID2 = "fedcba9876543210" * 4
POD = "12345678-90ab-cdef-1234-567890abcdef"
POD_ = POD.replace("-", "_")
PLACES = ("UNIT", "SLICE", "CONTAINER", "RUNTIME", "POD", "SLURM_JOB")
HOLD = ("hold", "--bytes=120MiB", "--blocks=1")

# Groups as systemd, runtimes, kubelets and Slurm make them, and the fields of a process in there. Not named: absent.
GROUPS = {
    "system.slice/e2e-train.service": {"UNIT": "e2e-train.service", "SLICE": "system.slice"},
    "user.slice/user-64321.slice/user@64321.service/app.slice/app-e2e-1.scope":
        {"UNIT": "user@64321.service", "SLICE": "app.slice"},
    f"docker/{ID1}": {"CONTAINER": ID1, "RUNTIME": "docker"},
    f"system.slice/docker-{ID2}.scope/init":
        {"UNIT": f"docker-{ID2}.scope", "SLICE": "system.slice", "CONTAINER": ID2, "RUNTIME": "docker"},
    f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD_}.slice/cri-containerd-{ID1}.scope":
        {"UNIT": f"cri-containerd-{ID1}.scope", "SLICE": f"kubepods-burstable-pod{POD_}.slice", "CONTAINER": ID1,
         "RUNTIME": "containerd", "POD": POD},
    f"kubepods/besteffort/pod{POD}/{ID2}/container": {"CONTAINER": ID2, "RUNTIME": "containerd", "POD": POD},
    f"system.slice/containerd.service/kubepods-pod{POD_}.slice:cri-containerd:{ID1}":
        {"UNIT": "containerd.service", "SLICE": "system.slice", "CONTAINER": ID1, "RUNTIME": "containerd", "POD": POD},
    f"kubepods.slice/kubepods-pod{POD_}.slice/crio-{ID2}.scope/container":
        {"UNIT": f"crio-{ID2}.scope", "SLICE": f"kubepods-pod{POD_}.slice", "CONTAINER": ID2, "RUNTIME": "cri-o",
         "POD": POD},
    f"user.slice/user-64321.slice/user@64321.service/user.slice/libpod-{ID1}.scope/container":
        {"UNIT": "user@64321.service", "SLICE": "user.slice", "CONTAINER": ID1, "RUNTIME": "podman"},
    "lxc.payload.e2e-web/system.slice/nginx.service": {"CONTAINER": "e2e-web", "RUNTIME": "lxc"},
    "machine.slice/machine-e2e\\x2dweb.scope/payload":
        {"UNIT": "machine-e2e\\x2dweb.scope", "SLICE": "machine.slice", "CONTAINER": "e2e-web",
         "RUNTIME": "systemd-nspawn"},
    "system.slice/e2e_slurmstepd.scope/job_1234/step_batch/user/task_0":
        {"UNIT": "e2e_slurmstepd.scope", "SLICE": "system.slice", "SLURM_JOB": "1234.batch"},
}


def children(pid):
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", errors="replace") as f:
                    if int(f.read().rsplit(")", 1)[1].split()[1]) == pid:
                        found.append(int(name))
            except (OSError, IndexError):
                pass
    return found


def only_child(pid, comm):
    """The process that a wrapper started, once it is that program."""
    def look():
        for child in children(pid):
            with open(f"/proc/{child}/comm", errors="replace") as f:
                if f.read().strip() == comm[:15]:
                    return child
        return None

    return h.poll(look, 10, f"{comm}, a child of {pid}")


def in_pid_namespace():
    return ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


def check_fields(case, r, want, what):
    for name, value in want.items():
        case.equal(r.get("GPUXRAY_" + name), value, f"{what}: GPUXRAY_{name}")


def open_state(case):
    """The stand-in's file, for users who may not make it."""
    case.write("gpu-state", "")
    os.chmod(case.path("gpu-state"), 0o666)


@h.test("a record says who: user, parent, program, arguments", exclusive=True)
def who(case):
    d = case.daemon()
    w = case.work("work_lifecycle", *HOLD)
    ledger = w.next("hold")
    r = d.wait_record(w.pid, rule="quota", state="firing")
    with open("/proc/self/comm") as f:
        comm = f.read().strip()
    check_fields(case, r, {"PID": str(w.pid), "START_TIME": str(ledger["start_time"]), "COMM": "work_lifecycle",
                           "EXE": h.FAKE + "/work_lifecycle", "CMDLINE": " ".join([h.FAKE + "/work_lifecycle", *HOLD]),
                           "UID": "0", "USER": "root", "PPID": str(os.getpid()), "PARENT": comm, "NSPID": None},
                 "record")
    w.end()
    d.stop()


@h.test("users: another one, one without a name, and what a user namespace calls them", exclusive=True)
def users(case):
    open_state(case)
    d = case.daemon()
    name = h.must("getent", "passwd", "65534").split(":")[0]
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    cases = [(nobody, "65534", name, False),
             (["setpriv", "--reuid=4000000123", "--clear-groups"], "4000000123", "4000000123", False)]
    mapped = [*nobody, "unshare", "--user", "--map-root-user"]
    if h.run(*mapped, "true").returncode == 0:
        cases.append((mapped, "65534", name, True))
    for wrap, uid, user, is_root in cases:
        w = case.work("work_lifecycle", *HOLD, wrap=wrap)
        w.next("hold")
        with open(f"/proc/{w.pid}/uid_map") as f:
            case.equal(f.read().split()[:2] == ["0", "65534"], is_root, f"{wrap}: root in a user namespace")
        r = d.wait_record(w.pid, rule="quota", state="firing")
        check_fields(case, r, {"UID": uid, "USER": user}, " ".join(wrap))
        case.equal(d.process(w.pid)["user"], user, "user in the status")
        w.end()
    d.stop()


@h.test("cgroups as systemd, container runtimes, Kubernetes and Slurm make them", exclusive=True)
def groups(case):
    root = version2(case)
    d = case.daemon()
    works = {}
    for path in GROUPS:
        works[path] = case.work("work_lifecycle", *HOLD, cgroup=[make_group(case, root, path)])
    for path, w in works.items():
        w.next("hold")
        r = d.wait_record(w.pid, rule="quota", state="firing")
        check_fields(case, r, {"CGROUP": "/" + path.replace("\\", "\\x5c"),
                               **{name: GROUPS[path].get(name) for name in PLACES}}, path)
        w.end()
    d.stop()


@h.test("Slurm with cgroups of version 1: the job is known by a controller's hierarchy", exclusive=True)
def slurm_version1(case):
    roots = [f"/sys/fs/cgroup/{c}" for c in ("freezer", "memory", "pids", "devices", "cpu")]
    roots = [r for r in roots if os.path.exists(r + "/cgroup.procs") and is_writable(r)]
    if not roots:
        raise h.Skip("no controller of cgroup version 1 is mounted")
    d = case.daemon()
    w = case.work("work_lifecycle", *HOLD, cgroup=[make_group(case, roots[0], "slurm/uid_0/job_77/step_3/task_0")])
    w.next("hold")
    r = d.wait_record(w.pid, rule="quota", state="firing")
    check_fields(case, r, {"SLURM_JOB": "77.3", "CONTAINER": None}, "record")
    w.end()
    d.stop()


@h.test("what a process writes into its environment does not make it another job's", exclusive=True)
def environment(case):
    d = case.daemon()
    w = case.work("work_lifecycle", *HOLD, env={"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "container": "docker"})
    w.next("hold")
    r = d.wait_record(w.pid, rule="quota", state="firing")
    check_fields(case, r, {"SLURM_JOB": None, "CONTAINER": None, "RUNTIME": None}, "record")
    w.end()
    d.stop()


@h.test("a process in a PID namespace: told by the host's PID, with its own beside it", exclusive=True)
def pid_namespace(case):
    d = case.daemon()
    for program, args, label in (("work_lifecycle", HOLD, "hold"),
                                 ("work_rate", ("--seconds=1", "--rate=200", "--live=120", "--bytes=1MiB", "--wait-end",
                                                "--ledger"), "end")):
        w = case.work(program, *args, wrap=in_pid_namespace())
        ledger = w.next(label)
        case.equal(ledger["pid"], 1, f"{program}: its own PID")
        pid = only_child(w.pid, program)
        h.check_books(case, d.wait_process(pid), ledger, program)
        r = d.wait_record(pid, rule="quota", state="firing")
        check_fields(case, r, {"PID": str(pid), "NSPID": "1", "PPID": str(w.pid), "PARENT": "unshare",
                               "START_TIME": str(ledger["start_time"])}, program)
        case.equal(r.get("OBJECT_PID"), str(pid), f"{program}: OBJECT_PID")
        case.equal(d.process(pid).get("inner_pid"), 1, f"{program}: inner_pid in the status")
        case.equal(d.process(1), None, f"{program}: entry of PID 1")
        w.end()
        d.wait_gone(pid)
    d.stop()


@h.test("a process in two PID namespaces, one in the other", exclusive=True)
def nested_namespaces(case):
    d = case.daemon()
    w = case.work("work_lifecycle", *HOLD, wrap=[*in_pid_namespace(), *in_pid_namespace()])
    w.next("hold")
    pid = only_child(only_child(w.pid, "unshare"), "work_lifecycle")
    with open(f"/proc/{pid}/status") as f:
        numbers = next(line for line in f if line.startswith("NSpid:")).split()[1:]
    case.equal(len(numbers), 3, "numbers of the process")
    r = d.wait_record(pid, rule="quota", state="firing")
    check_fields(case, r, {"PID": str(pid), "NSPID": numbers[-1]}, "record")
    w.end()
    d.stop()


@h.test("a process whose main thread had ended before it was first seen is known all the same", exclusive=True)
def leader_gone(case):
    w = case.work("work_lifecycle", "leader-exit", "--bytes=40MiB", "--blocks=100",
                  cgroup=[make_group(case, version2(case), f"system.slice/docker-{ID1}.scope")])

    def is_zombie():
        with open(f"/proc/{w.pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "Z"

    h.poll(is_zombie, 10, "the main thread has ended")
    d = case.daemon()
    r = d.wait_record(w.pid, rule="quota", state="firing", seconds=15)
    check_fields(case, r, {"COMM": "work_lifecycle", "EXE": h.FAKE + "/work_lifecycle", "USER": "root",
                           "CMDLINE": f"{h.FAKE}/work_lifecycle leader-exit --bytes=40MiB --blocks=100",
                           "CONTAINER": ID1, "RUNTIME": "docker", "UNIT": f"docker-{ID1}.scope",
                           "PPID": str(os.getpid())}, "record")
    w.kill()
    d.wait_gone(w.pid)
    d.stop()


def reborn(case, pid, *args, **kw):
    """A workload with the PID of one that is gone."""
    for _ in range(200):
        with open("/proc/sys/kernel/ns_last_pid", "w") as f:
            f.write(str(pid - 1))
        w = case.work("work_lifecycle", *args, **kw)
        if w.pid == pid:
            return w
        w.kill()
        case.processes.remove(w)
    raise h.Failure(f"PID {pid} cannot be had again")


@h.test("a PID that goes to another process: each record tells of its own", exclusive=True)
def reuse(case):
    group = make_group(case, version2(case), f"docker/{ID1}")
    d = case.daemon()
    old = case.work("work_lifecycle", *HOLD, "--name=old", cgroup=[group])
    first = old.next("hold")
    d.wait_record(old.pid, rule="quota", state="firing")
    old.end()
    d.wait_gone(old.pid)
    new = reborn(case, old.pid, *HOLD, "--name=new")
    second = new.next("hold")
    d.wait_record(new.pid, rule="quota", state="firing", count=2)
    rs = d.records(new.pid, rule="quota")
    case.equal([r["GPUXRAY_STATE"] for r in rs], ["firing", "resolved", "firing"], "states")
    for r, ledger, name, container in zip(rs, (first, first, second), ("old", "old", "new"), (ID1, ID1, None)):
        check_fields(case, r, {"START_TIME": str(ledger["start_time"]), "CONTAINER": container}, name)
        # It renames itself before its first call.
        check_fields(case, r, {"COMM": name}, name)
        case.contains(r.get("GPUXRAY_CMDLINE"), f"--name={name}", f"{name}: command line")
    new.end()
    d.stop()


@h.test("a PID that went to another process before the daemon could look: the old one is told without a name",
        exclusive=True)
def reuse_unseen(case):
    d = case.daemon()
    d.signal(signal.SIGSTOP)
    old = case.work("work_lifecycle", *HOLD, "--name=old")
    first = old.next("hold")
    old.end()
    new = reborn(case, old.pid, *HOLD, "--name=new")
    second = new.next("hold")
    d.signal(signal.SIGCONT)
    case.check(first["start_time"] != second["start_time"], "both began in the same tick: the test proves nothing")
    d.wait_record(new.pid, rule="quota", state="firing", count=2)
    firing = {r["GPUXRAY_START_TIME"]: r for r in d.records(new.pid, rule="quota", state="firing")}
    case.equal(sorted(firing), sorted((str(first["start_time"]), str(second["start_time"]))), "start times")
    check_fields(case, firing[str(first["start_time"])],
                 {"COMM": None, "EXE": None, "CMDLINE": None, "CGROUP": None, "USER": None, "PARENT": None}, "old")
    check_fields(case, firing[str(second["start_time"])], {"COMM": "new", "PPID": str(os.getpid())}, "new")
    h.check_books(case, d.wait_process(new.pid), second, "new")
    new.end()
    d.stop()


def counter(status, name):
    """Of the counters, or of the limits' overflows."""
    limits = {e["name"]: e["overflows"] for e in status["limits"]}
    return status.get("counters", {}).get(name, limits.get(name))


@h.test("the daemon in a PID namespace: what it sees is right, by the PIDs there; what it cannot see is counted",
        exclusive=True)
def daemon_inside(case):
    d = case.daemon(wrap=in_pid_namespace())
    inner = only_child(d.pid, "gpuxray")
    # Its records come from the daemon, not from the wrapper.
    wrapper, d.pid = d.pid, inner
    outside = case.work("work_lifecycle", *HOLD)
    foreign = outside.next("hold")
    works = [case.work("work_lifecycle", "hold", f"--bytes={120 + i}MiB", f"--blocks={i + 1}",
                       wrap=["nsenter", f"--target={inner}", "--pid", "--mount"]) for i in range(3)]
    for i, w in enumerate(works):
        ledger = w.next("hold")
        pid = ledger["pid"]
        case.check(1 < pid < 1000 and pid != only_child(w.pid, "work_lifecycle"), f"PID {pid} is that of the namespace")
        h.check_books(case, d.wait_process(pid), ledger, f"process {i}")
        r = d.wait_record(pid, rule="quota", state="firing")
        check_fields(case, r, {"PID": str(pid), "START_TIME": str(ledger["start_time"]), "COMM": "work_lifecycle",
                               "EXE": h.FAKE + "/work_lifecycle"}, f"process {i}")
    status = d.status()
    case.equal(sorted(p["live_bytes"] for p in status["processes"]),
               [120 * h.MIB, 2 * 121 * h.MIB, 3 * 122 * h.MIB], "live bytes of all processes of the status")
    case.equal(d.records(foreign["pid"]), [], "records of the process outside")
    case.check((counter(status, "foreign_namespace_calls") or 0) > 0,
               f"foreign_namespace_calls: {status.get('counters')}, {status['limits']}")
    for w in works:
        w.end()
    h.poll(lambda: not d.status()["processes"], 10, "all leave the status")
    outside.end()
    d.wait_stderr("inside a PID namespace")
    os.kill(inner, signal.SIGTERM)
    case.equal(d.wait(), 0, "exit status")
    case.check(wrapper == d.p.pid, "the wrapper's own PID")


if __name__ == "__main__":
    h.main()
