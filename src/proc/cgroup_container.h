/* SPDX-License-Identifier: MIT */
/* The part of cgroup.c that knows how container runtimes name their groups. */
#pragma once

#include "proc/procfs.h"
#include "proc/span.h"

/* Fills container, runtime and pod from one path where they are not set yet. 0 or -ENOMEM. */
int cgroup_containers(struct span path, struct cgroup_names *n);
