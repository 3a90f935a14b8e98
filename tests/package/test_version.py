# SPDX-License-Identifier: MIT
import os
import re
import shutil

from common import VERSION, folder, need, run
from tap import ROOT, Failure, equal, read, test

GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "a",
       "GIT_COMMITTER_EMAIL": "a@example.org", "GIT_COMMITTER_DATE": "@1700000000 +0900", "GIT_AUTHOR_DATE": "@1700000000 +0900"}


def small_tree(top):
    os.makedirs(top + "/contrib/dist")
    shutil.copy(ROOT + "/contrib/dist/version", top + "/contrib/dist/version")
    shutil.copy(ROOT + "/Makefile", top + "/Makefile")


def git(top, *args):
    return run("git", "-C", top, *args, **GIT)


def version(top, *args, **env):
    return run(top + "/contrib/dist/version", *args, "1.2.3", **{**GIT, **env}).strip()


def commit_all(top):
    git(top, "init", "-q")
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "first")


@test("version: a tree without git is the version of the Makefile, also below another's checkout")
def _():
    need("git")
    with folder() as t:
        small_tree(t)
        commit_all(t)
        small_tree(t + "/sub")
        os.utime(t + "/sub/Makefile", (1600000000, 1600000000))
        equal(version(t + "/sub"), "1.2.3", "version")
        equal(version(t + "/sub", "--epoch"), "1600000000", "epoch")


@test("version: a checkout tells its commit, and whether files differ from it; at the tag it tells none")
def _():
    need("git")
    with folder() as t:
        small_tree(t)
        commit_all(t)
        commit = git(t, "rev-parse", "HEAD")[:12]
        # 22:13 UTC on the 14th is the 15th where it was committed.
        equal(version(t, TZ="Asia/Tokyo"), f"1.2.3~git20231114.{commit}", "version")
        equal(version(t, "--epoch"), "1700000000", "epoch")
        equal(version(t, "--epoch", SOURCE_DATE_EPOCH="5"), "5", "epoch that was asked for")
        open(t + "/new", "w").close()
        equal(version(t), f"1.2.3~git20231114.{commit}+dirty", "version with a file that git does not know")
        os.unlink(t + "/new")
        git(t, "tag", "v1.2.4")
        equal(version(t), f"1.2.3~git20231114.{commit}", "version at another tag")
        git(t, "tag", "v1.2.3")
        equal(version(t), "1.2.3", "version at the tag")
        with open(t + "/Makefile", "a") as f:
            f.write("#\n")
        equal(version(t), "1.2.3+dirty", "version at the tag with a change")


@test("version: a source archive says what it was made of")
def _():
    with folder() as t:
        small_tree(t)
        with open(t + "/.version", "w") as f:
            f.write("1.2.3~git20231114.abc\n1700000000\n")
        equal(version(t), "1.2.3~git20231114.abc", "version")
        equal(version(t, "--epoch"), "1700000000", "epoch")


@test("version: a commit is older than the release, a changed tree newer than its commit")
def _():
    need("dpkg")
    for older, newer in (("1.2.3~git20231114.a", "1.2.3"), ("1.2.2", "1.2.3~git20231114.a"),
                         ("1.2.3~git20231114.a", "1.2.3~git20231114.a+dirty"), ("1.2.3", "1.2.3+dirty")):
        run("dpkg", "--compare-versions", older, "lt", newer)


@test("version: it stands in one place; the changelog's first is that of the Makefile")
def _():
    first = re.search(r"^## \[?([0-9][^\s\]]*)", read(ROOT + "/contrib/CHANGELOG.md"), re.M)
    equal(first and first[1], VERSION, "contrib/CHANGELOG.md")
    for path in ("contrib/debian/changelog.in", "contrib/debian/control", "contrib/dist/README.in"):
        if VERSION in read(f"{ROOT}/{path}"):
            raise Failure(f"{path} names the version by itself")
