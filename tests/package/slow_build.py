# SPDX-License-Identifier: MIT
import filecmp
import glob
import os
import shutil

from common import VERSION, folder, make_archive, need, only, run
from tap import Failure, equal, fail_if, test


def build(t, name, *wrapper, **env):
    """A package of the same source archive, in a folder of its own."""
    top = f"{t}/{name}"
    os.makedirs(top)
    run("tar", "-C", top, "-xzf", only(t + "/gpuxray-*.tar.gz"))
    tree = only(top + "/gpuxray-*")
    run(*wrapper, tree + "/contrib/dist/deb", VERSION, cwd=tree, timeout=1200, **env)
    return tree + "/.build/deb"


@test("deb: two builds that differ in folder, umask, time zone, locale, host and time are the same bit for bit; lintian finds nothing")
def _():
    need("dpkg-buildpackage", "dh")
    with folder() as t:
        make_archive("source", t)
        first = build(t, "a")
        clock = ["faketime", "-f", "+400d"] if shutil.which("faketime") else []
        host = ["unshare", "--uts", "sh", "-c", 'hostname elsewhere; umask 077; exec "$@"', "_"] if os.geteuid() == 0 else [
            "sh", "-c", 'umask 077; exec "$@"', "_"]
        second = build(t, "another/place/with/a/longer/name", *host, *clock, TZ="Pacific/Kiritimati", LC_ALL="C.UTF-8",
                       HOME=t, USER="somebody")
        names = sorted(os.path.basename(f) for ending in ("deb", "dsc", "tar.*") for f in glob.glob(f"{first}/*.{ending}"))
        equal(len(names), 5, f"files of a package in {names}")
        fail_if([f"{n} comes out different" for n in names if not filecmp.cmp(f"{first}/{n}", f"{second}/{n}", shallow=False)])
        print("# the time is not varied: faketime is not installed" if not clock else "# the time is varied")
        need("lintian")
        said = run("lintian", "--no-cfg", "--profile", "debian", "--pedantic", "--allow-root", "--fail-on", "none",
                   only(first + "/*.changes"))
        fail_if([line for line in said.splitlines() if not line.startswith("N:")])


@test("source archive: builds from scratch with warnings as errors, passes its rule tests, installs and uninstalls")
def _():
    with folder() as t:
        said = run("contrib/dist/check", VERSION, OUT=t, timeout=1200)
        if not os.path.exists(said.split("\n")[-2]):
            raise Failure(said)
