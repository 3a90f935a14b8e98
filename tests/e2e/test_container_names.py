#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Names of containers and pods: as a kubelet and runtimes leave them on a node, for a daemon on that node and for one in a
container such as contrib/kubernetes/gpuxray.yaml makes it."""
import contextlib
import json
import os
import signal
import subprocess
import sys

import yaml

import harness as h
from cgroups import make_group, version2

ID = "5" * 63 + "{:x}"
POD = "12345678-90ab-cdef-1234-567890abcde{:x}"
HOLD = ("hold", "--bytes=120MiB", "--blocks=1")
DAEMON_SET = h.ROOT + "/contrib/kubernetes/gpuxray.yaml"
NAMES = ("POD_NAMESPACE", "POD_NAME", "CONTAINER_NAME")

# A root file system as an image is one: nothing in it can be written to, and what the DaemonSet mounts.
CONTAINER = """set -e
root=$1; shift
mount -t tmpfs -o mode=755 tmpfs "$root"
cd "$root"
mkdir -p usr etc proc sys dev tmp run/e2e run/systemd/journal run/gpuxray var/lib/gpuxray
for d in bin sbin lib lib32 lib64; do
	if [ -L "/$d" ]; then cp -P "/$d" .; elif [ -d "/$d" ]; then mkdir "$d"; mount --bind -o ro "/$d" "$d"; fi
done
for d in usr etc run/e2e run/systemd/journal; do mount --bind -o ro "/$d" "$d"; done
mount --bind /run/gpuxray run/gpuxray
mount -t tmpfs tmpfs var/lib/gpuxray
for d in null zero urandom; do : >"dev/$d"; mount --bind "/dev/$d" "dev/$d"; done
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -o remount,ro .
pivot_root . .
umount -l .
cd /
exec "$@"
"""


def of_kind(kind):
    with open(DAEMON_SET) as f:
        return next(d for d in yaml.safe_load_all(f) if d["kind"] == kind)


def manifest():
    return of_kind("DaemonSet")["spec"]["template"]["spec"]


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(n) for n in f.read().split()]
    except FileNotFoundError:
        return []


def descendant(pid, comm):
    """The process at the end of a chain of wrappers, once it is that program."""
    def look():
        at = pid
        while at:
            with contextlib.suppress(FileNotFoundError), open(f"/proc/{at}/comm", errors="replace") as f:
                if f.read().strip() == comm[:15]:
                    return at
            at = next(iter(children(at)), None)
        return None

    return h.poll(look, 10, f"{comm} below {pid}")


class Node:
    """A host of its own: PIDs and mounts, with nothing of kubelets and runtimes in it yet."""

    def __init__(self, case):
        self.case = case
        os.mkdir(case.path("root"))
        mounts = " && ".join(f"mkdir -p {d} && mount -t tmpfs tmpfs {d}"
                             for d in ("/var/log", "/var/lib", "/run/containerd", "/run/containers"))
        p = h.Process(case, "node", ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--propagation", "private",
                                     "--mount-proc", "sh", "-c", f"{mounts} && exec sleep infinity"])
        self.pid = descendant(p.pid, "sleep")
        self.enter = ["nsenter", f"--target={self.pid}", "--pid", "--mount"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """From the innermost process on, each reaped by its wrapper: the node's first process does not end before all
        others in there are reaped, and who is left of them is a child of the lane."""
        for p in reversed(self.case.processes):
            while p.is_alive():
                at = p.pid
                while below := children(at):
                    at = below[0]
                with contextlib.suppress(ProcessLookupError):
                    os.kill(at, signal.SIGKILL)
                with contextlib.suppress(h.Failure):
                    p.wait(0.2)

    def write(self, path, text=""):
        full = f"/proc/{self.pid}/root{path}"
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w") as f:
            f.write(text)

    def link(self, name):
        """As the kubelet makes it: to a file that the runtime writes."""
        d = f"/proc/{self.pid}/root/var/log/containers"
        os.makedirs(d, exist_ok=True)
        os.symlink("/var/log/pods/somewhere/0.log", f"{d}/{name}.log")

    def work(self, group):
        """A workload in that group: what it says of itself."""
        w = self.case.work("work_lifecycle", *HOLD, wrap=self.enter,
                           cgroup=[make_group(self.case, version2(self.case), group)])
        return w, w.next("hold")

    def daemon(self, *wrap, **kw):
        d = self.case.daemon(wrap=[*self.enter, *wrap], **kw)
        d.pid = descendant(d.pid, "gpuxray")
        return d

    def container(self, *more, **kw):
        """A daemon in a container as the manifest describes it, in a cgroup of its own as a runtime gives it."""
        caps = manifest()["containers"][0]["securityContext"]["capabilities"]
        self.case.equal(caps["drop"], ["ALL"], "dropped capabilities")
        allowed = ",".join("+" + c.lower() for c in caps["add"])
        script = self.case.write("container.sh", CONTAINER)
        group = make_group(self.case, version2(self.case), group_of(0xf, "cri-containerd"))
        return self.daemon("sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh",
                           "unshare", "--mount", "--cgroup", "--propagation", "private", *more,
                           "sh", script, self.case.path("root"),
                           "setpriv", f"--bounding-set=-all,{allowed}", "--inh-caps=-all", "--no-new-privs",
                           env={"LD_LIBRARY_PATH": ""}, **kw)


def group_of(i, runtime):
    pod = POD.format(i).replace("-", "_")
    return f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{pod}.slice/{runtime}-{ID.format(i)}.scope"


def check_names(case, r, want, what):
    case.equal([r.get("GPUXRAY_" + n) for n in NAMES], want, f"{what}: namespace, pod and container")


def status_of(pid):
    with open(f"/proc/{pid}/status") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


@h.test("in a container as the DaemonSet makes it: traces the node, and names pod and container", uses=("kubepods",))
def in_container(case):
    h.need_multi()
    with Node(case) as node:
        node.link(f"trainer-0_ml_main-{ID.format(1)}")
        d = node.container()
        s = status_of(d.pid)
        numbers = {"DAC_READ_SEARCH": 2, "SYS_PTRACE": 19, "PERFMON": 38, "BPF": 39, "CHECKPOINT_RESTORE": 40}
        bits = sum(1 << numbers[c] for c in manifest()["containers"][0]["securityContext"]["capabilities"]["add"])
        case.equal([int(s[k], 16) for k in ("CapBnd", "CapPrm", "CapEff")], [bits] * 3, "capabilities")
        case.equal(s["NoNewPrivs"], "1", "NoNewPrivs")
        case.check(os.statvfs(f"/proc/{d.pid}/root/").f_flag & os.ST_RDONLY, "its root can be written to")
        case.check(os.readlink(f"/proc/{d.pid}/ns/mnt") != os.readlink(f"/proc/{node.pid}/ns/mnt"), "the node's own mounts")
        w, ledger = node.work(group_of(1, "cri-containerd"))
        pid = ledger["pid"]
        h.check_books(case, d.wait_process(pid), ledger, "status", may_be_unknown=True)
        r = d.wait_record(pid, rule="quota", state="firing")
        check_names(case, r, ["ml", "trainer-0", "main"], "record")
        case.equal([r.get("GPUXRAY_" + n) for n in ("POD", "CONTAINER", "RUNTIME")],
                   [POD.format(1), ID.format(1), "containerd"], "pod, container and runtime")
        case.check(r["MESSAGE"].startswith(f"work_lifecycle[{pid}] ml/trainer-0 holds 120 MiB"), f"message: {r['MESSAGE']}")
        case.contains(r.get("GPUXRAY_STACK"), "work_lifecycle", "stack")
        case.equal(r.get("_UID"), "0", "the sender's user")
        w.end()
        d.wait_gone(pid)
        h.must("kill", "-TERM", d.pid)
        case.equal(d.wait(), 0, "exit status")


@h.test("in a container without the host's PIDs: it says what it cannot see", uses=("kubepods",))
def without_host_pid(case):
    h.need_multi()
    with Node(case) as node:
        d = node.container("--pid", "--fork", "--kill-child")
        d.wait_stderr("inside a PID namespace: only processes in it are seen")
        h.must("kill", "-TERM", d.pid)
        case.equal(d.wait(), 0, "exit status")


FILES = {
    "containerd": (group_of(2, "cri-containerd"),
                   "/run/containerd/io.containerd.runtime.v2.task/k8s.io/{id}/config.json",
                   {"annotations": {"io.kubernetes.cri.sandbox-namespace": "ml", "io.kubernetes.cri.sandbox-name": "eval-1",
                                    "io.kubernetes.cri.container-name": "judge"}}, ["ml", "eval-1", "judge"]),
    "CRI-O": (group_of(3, "crio"), "/run/containers/storage/overlay-containers/{id}/userdata/config.json",
              {"annotations": {"io.kubernetes.pod.namespace": "ml", "io.kubernetes.pod.name": "eval-2",
                               "io.kubernetes.container.name": "judge"}}, ["ml", "eval-2", "judge"]),
    "Docker": (f"system.slice/docker-{ID.format(4)}.scope", "/var/lib/docker/containers/{id}/config.v2.json",
               {"State": {"Running": True}, "Name": "/notebook"}, [None, None, "notebook"]),
    "Podman": (f"machine.slice/libpod-{ID.format(5)}.scope",
               "/var/lib/containers/storage/overlay-containers/containers.json",
               [{"id": "0" * 64, "names": ["other"]}, {"id": ID.format(5), "names": ["batch"]}], [None, None, "batch"]),
}


@h.test("without a kubelet's links: what each runtime has written", uses=("kubepods",))
def runtimes(case):
    with Node(case) as node:
        d = node.daemon()
        for i, (runtime, (group, path, text, want)) in enumerate(FILES.items(), 2):
            path = path.format(id=ID.format(i))
            node.write(path, json.dumps(text))
            w, ledger = node.work(group)
            r = d.wait_record(ledger["pid"], rule="quota", state="firing")
            check_names(case, r, want, runtime)
            w.end()
        h.must("kill", "-TERM", d.pid)
        case.equal(d.wait(), 0, "exit status")


RULES = """version = 1;
rules = (
  { name = "mine"; kind = "live_bytes"; scope = "process"; fire_above = "100MiB"; for = "0s"; keep_firing_for = "0s";
    severity = "notice"; match = { pod_namespace = "^ml$"; pod_name = "^trainer-"; container_name = "^main$"; }; },
  { name = "theirs"; kind = "live_bytes"; scope = "process"; fire_above = "100MiB"; for = "0s"; keep_firing_for = "0s";
    severity = "notice"; match = { pod_namespace = "^web$"; }; }
);
"""


@h.test("a kubelet's link that comes after the first allocation: the name comes late, and rules go by it", uses=("kubepods",))
def late(case):
    with Node(case) as node:
        d = node.daemon(rules=RULES)
        w, ledger = node.work(group_of(6, "cri-containerd"))
        pid = ledger["pid"]
        d.wait_process(pid)
        case.equal(d.records(pid, rule="mine"), [], "records before the name is known")
        node.link(f"trainer-7_ml_main-{ID.format(6)}")
        r = d.wait_record(pid, rule="mine", state="firing", seconds=15)
        check_names(case, r, ["ml", "trainer-7", "main"], "record")
        case.equal(d.records(pid, rule="theirs"), [], "records of another namespace's rule")
        w.end()
        h.must("kill", "-TERM", d.pid)
        case.equal(d.wait(), 0, "exit status")


# Mounts a file system there whose server never answers; when this ends, so does every wait for it.
HUNG = """
import ctypes, os, sys
path = sys.argv[1]
os.makedirs(path, exist_ok=True)
fd = os.open("/dev/fuse", os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"hung", path.encode(), b"fuse", 0, f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()) < 0:
    sys.exit(os.strerror(ctypes.get_errno()))
print("mounted", flush=True)
sys.stdin.read()
"""


@h.test("a file system below /var/log that hangs: calls are traced all the same", uses=("kubepods",))
def hung(case):
    if not os.path.exists("/dev/fuse"):
        raise h.Skip("there is no /dev/fuse to make a file system that hangs")
    with Node(case) as node:
        d = node.daemon()
        p = h.Process(case, "hung", [*node.enter, sys.executable, "-c", HUNG, "/var/log/containers"],
                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        case.equal(p.p.stdout.readline(), b"mounted\n", f"a file system that hangs: {p.stderr()}")
        w, ledger = node.work(group_of(9, "cri-containerd"))
        r = d.wait_record(ledger["pid"], rule="quota", state="firing")
        check_names(case, r, [None, None, None], "record")
        h.check_books(case, d.wait_process(ledger["pid"]), ledger, "status", may_be_unknown=True)
        w.end()
        d.wait_gone(ledger["pid"])
        # It ends beside the thread that hangs.
        h.must("kill", "-TERM", d.pid)
        case.equal(d.wait(), 0, "exit status")


@h.test("omit leaves the names out, in fields and in words", uses=("kubepods",))
def omitted(case):
    with Node(case) as node:
        node.link(f"zzpod-0_zzspace_zzmain-{ID.format(8)}")
        d = node.daemon(config='omit = [ "pod", "container" ];\n')
        w, ledger = node.work(group_of(8, "cri-containerd"))
        r = d.wait_record(ledger["pid"], rule="quota", state="firing")
        check_names(case, r, [None, None, None], "record")
        case.check("zz" not in json.dumps({k: v for k, v in r.items() if k.startswith(("GPUXRAY", "MESSAGE"))}), f"names in {r}")
        w.end()
        h.must("kill", "-TERM", d.pid)
        case.equal(d.wait(), 0, "exit status")


@h.test("the ConfigMap's files are good, as the kubelet lays them out")
def config_map(case):
    data = of_kind("ConfigMap")["data"]
    items = next(v["configMap"]["items"] for v in manifest()["volumes"] if "configMap" in v)
    os.makedirs(case.path("..2026/rules.d"))
    os.symlink("..2026", case.path("..data"))
    for item in items:
        case.write("..2026/" + item["path"], data[item["key"]])
    for name in ("gpuxray.conf", "rules.d"):
        os.symlink("..data/" + name, case.path(name))
    r = h.run(h.GPUXRAY, "check", "--config", case.path("gpuxray.conf"), case.path("rules.d"), h.ROOT + "/rules")
    case.equal((r.returncode, r.stderr), (0, ""), "gpuxray check")
    case.contains(r.stdout, "in 2 files: good", "gpuxray check")


if __name__ == "__main__":
    h.main()
