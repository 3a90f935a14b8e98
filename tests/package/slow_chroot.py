# SPDX-License-Identifier: MIT
"""A package's life on a Debian of its own, without systemd. The chroot is kept in CHROOT (/var/tmp/gpuxray-chroot) and
copied for each test. Needs root, debootstrap and Debian's archive."""
import glob
import os
import re
import shutil

from common import VERSION, folder, make_archive, need, only, run
from tap import Failure, Skip, equal, fail_if, read, test

BASE = os.environ.get("CHROOT", "/var/tmp/gpuxray-chroot")
# What apt and dpkg note for themselves, and caches.
NOT_OURS = re.compile(r"(proc|sys|dev|tmp|var/lib/dpkg|var/lib/apt|var/cache|var/log|root|run)(/|$)|etc/ld\.so\.cache")


class Chroot:
    def __init__(self, t):
        if os.geteuid() != 0:
            raise Skip("needs root")
        need("debootstrap", "dpkg-buildpackage", "dh")
        if not os.path.exists(BASE + "/usr/bin/apt-get"):
            suite = re.search(r"^VERSION_CODENAME=(\w+)", read("/etc/os-release"), re.M)[1]
            run("debootstrap", "--variant=minbase", suite, BASE, timeout=1200)
        self.top = t + "/root"
        shutil.copytree(BASE, self.top, symlinks=True, ignore=lambda d, names: names if d in (BASE + "/dev", BASE + "/proc") else [])
        run("cp", "-a", BASE + "/dev", self.top)
        shutil.copy("/etc/resolv.conf", self.top + "/etc/resolv.conf")
        for apt in ("/etc/apt/apt.conf.d/95proxy", "/etc/apt/apt.conf"):
            if os.path.exists(apt):
                shutil.copy(apt, self.top + apt)

    def run(self, *command, **kw):
        """With a /proc of its own, which goes with it."""
        return run("unshare", "-mpf", "--kill-child", "sh", "-c", 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"',
                   self.top, "env", "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "DEBIAN_FRONTEND=noninteractive",
                   "LC_ALL=C.UTF-8", *command, timeout=600, **kw)

    def copy_in(self, path):
        shutil.copy(path, self.top + "/tmp/")
        return "/tmp/" + os.path.basename(path)

    def files(self):
        out = {}
        for at, dirs, names in os.walk(self.top):
            rel = os.path.relpath(at, self.top)
            dirs[:] = [d for d in dirs if not NOT_OURS.match(os.path.normpath(f"{rel}/{d}"))]
            for n in dirs + names:
                path = os.path.normpath(f"{rel}/{n}")
                if not NOT_OURS.match(path):
                    s = os.lstat(f"{at}/{n}")
                    out[path] = (s.st_mode, s.st_uid, s.st_gid, 0 if n in dirs else s.st_size)
        return out

    def path(self, name):
        return self.top + name

    def has(self, *names):
        fail_if([f"{n} is missing" for n in names if not os.path.lexists(self.top + n)])

    def has_not(self, *names):
        fail_if([f"{n} is there" for n in names if os.path.lexists(self.top + n)])


def append(path, text):
    with open(path, "a") as f:
        f.write(text)


def next_version(t, deb):
    """The same package, one version on, with other conffiles."""
    run("dpkg-deb", "-R", deb, t + "/next")
    control = read(t + "/next/DEBIAN/control")
    with open(t + "/next/DEBIAN/control", "w") as f:
        f.write(re.sub(r"^Version: .*", "Version: 99.0-1", control, flags=re.M))
    for name in ("gpuxray/gpuxray.conf", "default/gpuxray"):
        append(f"{t}/next/etc/{name}", "# news of the next version\n")
    run("dpkg-deb", "--root-owner-group", "-b", t + "/next", t + "/gpuxray_99.0-1.deb")
    return t + "/gpuxray_99.0-1.deb"


CONF, DEFAULT, OURS = "/etc/gpuxray/gpuxray.conf", "/etc/default/gpuxray", "/etc/gpuxray/rules.d/50-ours.conf"
WANTS = "/etc/systemd/system/multi-user.target.wants/gpuxray.service"
DPKG = ("dpkg", "--force-confdef", "--force-confold", "-i")


@test("chroot: install, upgrade with an edited configuration, remove, install again, purge")
def _():
    with folder() as t:
        c = Chroot(t)
        run("contrib/dist/deb", VERSION, OUT=t + "/out", timeout=1200)
        deb = only(t + "/out/gpuxray_*.deb")
        depends = re.search(r"^ Depends: (.*)", run("dpkg-deb", "-I", deb), re.M)[1]
        c.run("apt-get", "-qq", "update")
        c.run("apt-get", "-qq", "satisfy", "-y", "--no-install-recommends", depends)
        first, second = c.copy_in(deb), c.copy_in(next_version(t, deb))
        before = c.files()

        c.run(*DPKG, first)
        c.has("/usr/bin/gpuxray", CONF, DEFAULT, "/etc/gpuxray/rules.d", "/usr/lib/gpuxray/rules.d/10-gpuxray.conf", WANTS)
        if not glob.glob(c.top + "/usr/share/man/man8/gpuxray.8*") and "path-exclude" not in run("cat", c.top + "/etc/dpkg/dpkg.cfg"):
            raise Failure("no manual page")
        if "gpuxray" not in c.run("gpuxray", "--version"):
            raise Failure("gpuxray --version")
        c.run("gpuxray", "check")
        equal(c.run("dpkg", "--verify", "gpuxray"), "", "dpkg --verify")
        equal(c.run("dpkg", "--audit"), "", "dpkg --audit")

        append(c.path(CONF), "# ours\n")
        with open(c.path(OURS), "w") as f:
            f.write("version = 1;\nrules = ( );\n")
        os.makedirs(c.path("/var/lib/gpuxray"))
        append(c.path("/var/lib/gpuxray/bounds"), "learned\n")
        c.run(*DPKG, second)
        equal(c.run("dpkg-query", "-W", "-f", "${Version}", "gpuxray"), "99.0-1", "version")
        text = read(c.path(CONF))
        if not text.endswith("# ours\n") or "news of the next" in text:
            raise Failure("an edited gpuxray.conf did not survive the upgrade")
        if not read(c.path(CONF + ".dpkg-dist")).endswith("# news of the next version\n"):
            raise Failure("the new gpuxray.conf is not beside the edited one")
        if "news of the next" not in read(c.path(DEFAULT)):
            raise Failure("an untouched conffile was not replaced")
        c.has(OURS, "/var/lib/gpuxray/bounds", WANTS)

        c.run("dpkg", "--remove", "gpuxray")
        c.has(CONF, DEFAULT, OURS, "/var/lib/gpuxray/bounds")
        c.has_not("/usr/bin/gpuxray", "/usr/lib/gpuxray", "/usr/share/gpuxray", "/usr/share/doc/gpuxray")
        c.run(*DPKG, first)
        c.has("/usr/bin/gpuxray")
        if not read(c.path(CONF)).endswith("# ours\n"):
            raise Failure("an edited gpuxray.conf did not survive removal and installation")

        c.run("dpkg", "--purge", "gpuxray")
        c.has(OURS)
        c.has_not(CONF, CONF + ".dpkg-dist", DEFAULT, "/var/lib/gpuxray", WANTS)
        shutil.rmtree(c.path("/etc/gpuxray"))
        c.run(*DPKG, first)
        c.run("dpkg", "--purge", "gpuxray")
        after = c.files()
        fail_if([f"left after purge: {f}" for f in sorted(set(after) - set(before))] +
                [f"gone after purge: {f}" for f in sorted(set(before) - set(after))] +
                [f"changed after purge: {f}" for f in sorted(before) if f in after and before[f] != after[f]])


@test("chroot: the binary archive runs where nothing was installed for it")
def _():
    with folder() as t:
        c = Chroot(t)
        run("tar", "-C", c.top + "/tmp", "-xzf", make_archive("binary", t))
        top = "/tmp/" + os.path.basename(only(c.top + "/tmp/gpuxray-*"))
        c.run(top + "/install")
        c.run("gpuxray", "--version")
        c.run("gpuxray", "check")
        c.run("gpuxray", "doctor", status=(0, 1))
        c.run(top + "/install", "--uninstall")
        c.has(CONF)
        c.has_not("/usr/local/bin/gpuxray", "/usr/local/share/gpuxray", "/usr/lib/gpuxray")
