# SPDX-License-Identifier: MIT
import os
import re

from common import BUILD, files_below, folder, run
from tap import ROOT, Failure, equal, fail_if, read, test

# What a host's administrator may have changed.
KEPT = ["etc/gpuxray/gpuxray.conf", "etc/gpuxray/rules.d/"]


def make(target, dest, *variables):
    run("make", "-s", f"O={BUILD}", f"DESTDIR={dest}", *variables, target)


def symmetrical(prefix, *variables):
    with folder() as t:
        # A file of somebody else's in each folder that is shared.
        others = [f"{prefix}/share/man/man8/other.8", f"{prefix}/bin/other", f"{prefix}/share/doc/other/README"]
        for o in others:
            os.makedirs(os.path.dirname(f"{t}/{o}"), exist_ok=True)
            open(f"{t}/{o}", "w").close()
        make("install", t, *variables)
        new = sorted(set(files_below(t)) - {o.lstrip("/") for o in others})
        make("uninstall", t, *variables)
        # Shared folders may stay.
        left = [f for f in files_below(t) if not f.endswith("/") or "gpuxray" in f]
        equal(left, sorted(KEPT + [o.lstrip("/") for o in others]), "left after uninstall")
        return new


@test("install: uninstall takes away all that install put there, but for configuration and what belongs to others")
def _():
    there = symmetrical("/usr/local")
    for want in ("usr/local/bin/gpuxray", "usr/lib/gpuxray/rules.d/10-gpuxray.conf", "usr/local/share/man/man8/gpuxray.8",
                 "usr/local/lib/systemd/system/gpuxray.service", "usr/local/share/gpuxray/metrics.conf",
                 "usr/local/share/doc/gpuxray/contrib/grafana/gpuxray-dashboard.json", *KEPT):
        if want not in there:
            raise Failure(f"{want} was not installed")
    moved = [re.sub("^usr/local/", "usr/", f) for f in there]
    equal(symmetrical("/usr", "PREFIX=/usr"), sorted(moved), "files of PREFIX=/usr")
    symmetrical("/opt/g", "PREFIX=/opt/g")


@test("install: what the texts name as installed is there, modes are for all to read, the unit starts what was installed")
def _():
    with folder() as t:
        os.umask(0o077)
        try:
            make("install", t, "PREFIX=/opt/g")
        finally:
            os.umask(0o022)
        wrong = []
        for f in files_below(t):
            mode = os.stat(f"{t}/{f}").st_mode & 0o777
            want = 0o755 if f.endswith("/bin/gpuxray") or f.endswith("/") else 0o644
            wrong += [f"{f}: mode {mode:o}, not {want:o}"] if mode != want else []
        unit = read(t + "/opt/g/lib/systemd/system/gpuxray.service")
        program = re.search(r"^ExecStart=(\S+)", unit, re.M)[1]
        wrong += [f"the unit starts {program}"] if not os.path.exists(t + program) else []
        doc = t + "/opt/g/share/doc/gpuxray"
        for text in sorted(f for f in files_below(doc) if f.endswith(".md") and f.startswith("contrib/doc/")):
            for named in re.findall(r"contrib/[a-z-]+/[A-Za-z0-9_.-]+\.(?:ya?ml|json|conf|mtail|alloy|logrotate)\b", read(f"{doc}/{text}")):
                wrong += [f"{text} names {named}"] if not os.path.exists(f"{doc}/{named}") else []
        fail_if(wrong)


@test("install: a configuration that is there stays")
def _():
    with folder() as t:
        make("install", t)
        with open(t + "/etc/gpuxray/gpuxray.conf", "w") as f:
            f.write("# ours\n")
        make("install", t)
        equal(read(t + "/etc/gpuxray/gpuxray.conf"), "# ours\n", "gpuxray.conf")


@test("install: the program is hardened, and says nothing of where it was built")
def _():
    program = os.path.join(ROOT, BUILD, "gpuxray")
    dynamic, symbols = run("readelf", "-hldW", program), run("readelf", "-W", "--dyn-syms", program)
    missing = [what for what, there in (
        ("position independent", "Type:                              DYN" in dynamic), ("read-only relocations", "GNU_RELRO" in dynamic),
        ("bound at the start", "BIND_NOW" in dynamic), ("stack protector", "__stack_chk_fail" in symbols),
        ("fortified calls", "_chk@" in symbols), ("a stack that is not executable", re.search(r"GNU_STACK.* RW ", dynamic))) if not there]
    fail_if([f"not {m}" for m in missing])
    strings = run("strings", "-a", program)
    fail_if([f"names {s}" for s in set(re.findall(re.escape(ROOT) + r"\S*", strings))][:5])
