# SPDX-License-Identifier: MIT
import filecmp
import functools
import os
import re
import subprocess
import tarfile
import tempfile

from common import BUILD, ENV, VERSION, check_program, files_below, folder, make_archive, need, only, run, tree_version
from tap import ROOT, Failure, equal, fail_if, read, test

# Those that no host is without, or must be the host's own (contrib/dist/binary says why).
SHARED = {"libc.so.6", "libm.so.6", "libsystemd.so.0", "libz.so.1"}


kept = tempfile.TemporaryDirectory(prefix="gpuxray-package-")


@functools.cache
def twice(kind):
    """The same archive, made by two who differ in all that must not matter."""
    t = f"{kept.name}/{kind}"
    os.makedirs(t + "/a")
    os.makedirs(t + "/b")
    first = make_archive(kind, t + "/a")
    script = f'umask 077; exec contrib/dist/{kind} "$1"'
    run("sh", "-c", script, "_", VERSION, OUT=t + "/b", TZ="Pacific/Kiritimati", LC_ALL="C.UTF-8",
        O=BUILD, TMPDIR=t)
    second = f"{t}/b/{os.path.basename(first)}"
    if not filecmp.cmp(first, second, shallow=False):
        raise Failure(f"{os.path.basename(first)} comes out different")
    return first


def members(path):
    with tarfile.open(path) as tar:
        return tar.getmembers()


def check_members(path, top):
    wrong = []
    for m in members(path):
        if m.name != top and not m.name.startswith(top + "/"):
            wrong.append(f"{m.name} is outside of {top}")
        if (m.uid, m.gid, m.uname) != (0, 0, "") or m.mode not in (0o644, 0o755):
            wrong.append(f"{m.name}: {m.uid}:{m.gid} {m.uname} mode {m.mode:o}")
    fail_if(wrong[:10])


@test("source archive: all that git knows and nothing that was built, bit for bit the same again")
def _():
    with folder():
        path = twice("source")
        top = f"gpuxray-{tree_version()}"
        check_members(path, top)
        names = {m.name[len(top) + 1:] for m in members(path) if not m.isdir()}
        fail_if([f"{n} is in it" for n in names if n.startswith((".build/", ".git/", "debian/"))][:5])
        git = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, env=ENV, check=False)
        known = {n for n in git.stdout.split("\0") if n and os.path.exists(f"{ROOT}/{n}")} or {"Makefile", "src/main.c", "LICENSE"}
        fail_if([f"{n} is missing" for n in sorted(known - names)][:5])


@test("binary archive: runs from an empty prefix, needs no more than it says, bit for bit the same again")
def _():
    need("objdump", "objcopy", "strip")
    with folder() as t:
        path = twice("binary")
        check_members(path, os.path.basename(path).removesuffix(".tar.gz"))
        run("tar", "-C", t, "-xzf", path)
        top = only(t + "/gpuxray-*")
        program = top + "/usr/bin/gpuxray"
        needed = set(re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", program)))
        fail_if([f"needs {n}" for n in sorted(needed - SHARED)])
        said = read(top + "/README")
        fail_if([f"README has {p}" for p in re.findall(r"@\w+@", said)])
        glibc = max((tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", run("objdump", "-T", program))))
        print("# glibc", ".".join(map(str, glibc)))
        fail_if([f"README does not name {n}" for n in needed if n not in said] +
                [] if f"glibc {'.'.join(map(str, glibc))} or later" in said else ["README names another glibc"])
        fail_if([f"names {t}" for line in run("strings", "-a", program).splitlines() if kept.name in line or ROOT in line][:1])
        doctor = check_program(program, top + "/usr/lib/gpuxray/rules.d", top + "/etc/gpuxray/gpuxray.conf")
        # It probes a function of zlib, for which that must be a shared library.
        probe = [c for c in doctor["checks"] if c["name"] == "probe"]
        if not probe or "no shared zlib" in probe[0]["text"]:
            raise Failure(f"doctor cannot probe: {probe}")


@test("binary archive: install and --uninstall, under any prefix")
def _():
    with folder() as t:
        run("tar", "-C", t, "-xzf", twice("binary"))
        top = only(t + "/gpuxray-*")
        install = top + "/install"
        for prefix in ("/usr/local", "/usr", "/opt/g"):
            dest = t + "/dest" + prefix.replace("/", "-")
            run(install, f"--prefix={prefix}", "--destdir", dest)
            check_program(f"{dest}{prefix}/bin/gpuxray", dest + "/usr/lib/gpuxray/rules.d", dest + "/etc/gpuxray/gpuxray.conf")
            packed = len([f for f in files_below(top) if f.startswith(("usr/", "etc/"))])
            equal(len(files_below(dest)), packed, f"files below {prefix}")
            unit = read(f"{dest}{prefix}/lib/systemd/system/gpuxray.service")
            equal(re.search(r"^ExecStart=(.*) run ", unit, re.M)[1], prefix + "/bin/gpuxray", "ExecStart")
            with open(dest + "/etc/gpuxray/gpuxray.conf", "a") as f:
                f.write("# ours\n")
            run(install, "--prefix", prefix, "--destdir", dest)
            if not read(dest + "/etc/gpuxray/gpuxray.conf").endswith("# ours\n"):
                raise Failure("a second install writes over the configuration")
            run(install, "--prefix", prefix, "--destdir", dest, "--uninstall")
            left = [f for f in files_below(dest) if "gpuxray" in f or not f.endswith("/")]
            equal(left, ["etc/gpuxray/gpuxray.conf", "etc/gpuxray/rules.d/"], f"left below {prefix}")
        run(install, "--prefix", "relative", status=(2,))
        run(install, "--surprise", status=(2,))
