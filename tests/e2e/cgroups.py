# SPDX-License-Identifier: MIT
"""Groups that tests make for their workloads."""
import os

import harness as h


def make_group(case, root, path):
    """The folder of a cgroup, made for this case as far as it is not there."""
    d = root
    for part in path.split("/"):
        d += "/" + part
        if os.path.isdir(d):
            continue
        os.mkdir(d)
        case.finally_(lambda d=d: h.poll(lambda: not h.run("rmdir", d).returncode, 5, f"rmdir {d}"))
    return d


def is_writable(d):
    return not os.statvfs(d).f_flag & os.ST_RDONLY


def version2(case):
    """Where cgroups of version 2 can be made."""
    for d in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        if os.path.exists(d + "/cgroup.controllers") and is_writable(d):
            return d
    d = case.path("cgroup2")
    os.makedirs(d)
    h.must("mount", "-t", "cgroup2", "none", d)
    case.finally_(h.must, "umount", d)
    return d
