# SPDX-License-Identifier: MIT
"""What the tests of packages share."""
import glob
import os
import re
import shutil
import subprocess
import tempfile

from tap import ROOT, Failure, Skip, read

BUILD = os.environ.get("O", ".build")
VERSION = re.search(r"^VERSION := (\S+)$", read(ROOT + "/Makefile"), re.M)[1]
# Not what the make that runs the tests was told.
ENV = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "O",
                                                        "SOURCE_DATE_EPOCH")}


def run(*command, cwd=ROOT, timeout=300, status=(0,), **env):
    """Standard output. env: variables beside ENV."""
    r = subprocess.run(command, cwd=cwd, env={**ENV, **env}, capture_output=True, text=True, errors="replace",
                       timeout=timeout, check=False)
    if r.returncode not in status:
        raise Failure(f"{' '.join(map(str, command))}: exit status {r.returncode}\n{r.stdout[-1500:]}\n{r.stderr[-3000:]}")
    return r.stdout


def need(*programs):
    missing = [p for p in programs if not shutil.which(p)]
    if missing:
        raise Skip(f"not installed: {', '.join(missing)}")


def folder():
    return tempfile.TemporaryDirectory(prefix="gpuxray-package-")


def files_below(top):
    """Everything that is no folder, and empty folders with a slash at their end; relative, sorted."""
    out = set()
    for at, dirs, names in os.walk(top):
        rel = os.path.relpath(at, top)
        out |= {os.path.normpath(f"{rel}/{n}") for n in names + [d for d in dirs if os.path.islink(f"{at}/{d}")]}
        if not dirs and not names and rel != ".":
            out.add(rel + "/")
    return sorted(out)


def only(pattern):
    found = glob.glob(pattern)
    if len(found) != 1:
        raise Failure(f"{pattern}: {len(found)} files: {found}")
    return found[0]


def tree_version():
    return run("contrib/dist/version", VERSION).strip()


def make_archive(kind, out):
    """Of contrib/dist/KIND: the path it printed."""
    return os.path.join(ROOT, run(f"contrib/dist/{kind}", VERSION, OUT=out, O=BUILD).split("\n")[-2])


def check_program(program, rules, conf):
    """What can be said of any build anywhere: it starts, reads what is shipped, and doctor can tell."""
    import json
    said = run(program, "--version").strip()
    if said != f"gpuxray {tree_version()}":
        raise Failure(f"--version says {said!r}, not {tree_version()!r}")
    run(program, "check", "--config", conf, rules)
    doctor = json.loads(run(program, "doctor", "--json", status=(0, 1)))
    if not doctor:
        raise Failure("doctor says nothing")
    return doctor
