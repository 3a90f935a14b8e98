# SPDX-License-Identifier: MIT
import os
import re

from common import BUILD, VERSION, files_below, folder, need, only, run, tree_version
from tap import ROOT, Failure, equal, fail_if, read, test

CONFFILES = {"/etc/default/gpuxray", "/etc/gpuxray/gpuxray.conf"}


def build(t):
    """What debhelper makes of the objects that are compiled here: the files and scripts are those of a real build."""
    need("dpkg-buildpackage", "dh")
    if not os.path.exists(f"{ROOT}/{BUILD}/gpuxray"):
        raise Failure(f"{BUILD}/gpuxray is not built")
    run("contrib/dist/deb", VERSION, OUT=t, OBJECTS=os.path.abspath(f"{ROOT}/{BUILD}"))
    return only(t + "/gpuxray_*.deb")


def check_contents(t, deb):
    run("dpkg-deb", "-R", deb, t + "/deb")
    run("make", "-s", f"O={BUILD}", "PREFIX=/usr", f"DESTDIR={t}/make", "install")
    doc = "usr/share/doc/gpuxray/"
    unit = "usr/lib/systemd/system/gpuxray.service"

    def placed(f):
        """Where what `make install` puts at f is in the package."""
        if f.startswith("usr/share/man/"):
            return f + ".gz"
        moved = {unit: only(f"{t}/deb/*lib/systemd/system/gpuxray.service" if os.path.exists(f"{t}/deb/lib") else f"{t}/deb/{unit}"),
                 doc + "contrib/CHANGELOG.md": f"{t}/deb/{doc}changelog.gz", doc + "LICENSE": f"{t}/deb/{doc}copyright"}
        return os.path.relpath(moved[f], t + "/deb") if f in moved else f

    want = {placed(f) for f in files_below(t + "/make")} | {
        "etc/default/gpuxray", doc + "changelog.Debian.gz", doc + "README.Debian", "usr/share/lintian/overrides/gpuxray"}
    got = {f for f in files_below(t + "/deb") if not f.startswith("DEBIAN/")}
    fail_if([f"{f} is missing" for f in sorted(want - got)] + [f"{f} is not of make install" for f in sorted(got - want)])


@test("deb: what make install puts there, conffiles, dependencies of the program; lintian finds nothing")
def _():
    with folder() as t:
        deb = build(t)
        check_contents(t, deb)
        equal(set(read(t + "/deb/DEBIAN/conffiles").split()), CONFFILES, "conffiles")
        control = read(t + "/deb/DEBIAN/control")
        equal(re.search(r"^Version: (.*)", control, re.M)[1], tree_version() + "-1", "version")
        depends = re.search(r"^Depends: (.*)", control, re.M)[1]
        fail_if([f"does not depend on {d}: {depends}" for d in ("libc6", "libbpf", "libsystemd0", "libpcre2-8-0") if d not in depends])
        for script, words in (("postinst", "deb-systemd-helper enable"), ("prerm", "deb-systemd-invoke stop"), ("postrm", "/var/lib/gpuxray")):
            if words not in read(f"{t}/deb/DEBIAN/{script}"):
                raise Failure(f"{script} has no {words!r}")
        equal(run(t + "/deb/usr/bin/gpuxray", "--version").strip(), f"gpuxray {tree_version()}", "--version")
        need("lintian")
        said = run("lintian", "--no-cfg", "--profile", "debian", "--pedantic", "--allow-root", "--fail-on", "none", deb)
        fail_if([line for line in said.splitlines() if not line.startswith("N:")])


@test("deb: all that it is built with is what tests/install-packages installs")
def _():
    wanted = re.search(r"^Build-Depends:(.*?)^\S", read(ROOT + "/contrib/debian/control"), re.M | re.S)[1]
    wanted = [re.sub(r"\s*\(.*?\)", "", w).split("|")[0].strip() for w in wanted.split(",")]
    there = read(ROOT + "/tests/install-packages").split()
    there = {w.strip('"\'') for w in there} | {w.split('"')[-1] for w in there}
    fail_if([f"{w} is not in tests/install-packages" for w in wanted if w not in there and w != "debhelper-compat"])
