/* SPDX-License-Identifier: MIT */
/* What is known of a process and not to be written: the "omit" of gpuxray.conf. Rules see all of it. */
#pragma once

#include <stdint.h>

#include "model/identity.h"
#include "rule/report.h"

enum omit {
	OMIT_COMM,
	OMIT_EXE,
	OMIT_CMDLINE,
	OMIT_USER, /* with the uid */
	OMIT_CGROUP, /* with the slice */
	OMIT_UNIT, /* of the system and of the user's manager */
	OMIT_CONTAINER, /* with its name and runtime, and a unit that is called by it */
	OMIT_POD, /* with its name and namespace */
	OMIT_SLURM_JOB,
	OMIT_PARENT, /* with its pid */
	OMIT_TAG,
	OMIT_STACK, /* its text; its id stays */
	OMIT_MAX,
};

#define OMIT_BIT(omit) (1u << (omit))

extern const char *const omit_names[OMIT_MAX + 1]; /* ends with NULL */

/* With what would tell the same: the path of a cgroup consists of the names of user, unit, container, pod and job. */
uint32_t omit_implied(uint32_t mask);
/* A copy without what mask (as omit_implied() returned it) names, or a reference to the same where it names nothing.
 * 0 or -ENOMEM; id may be NULL, then so is *ret. */
int omit_identity(struct identity *id, uint32_t mask, struct identity **ret);
/* The report without what mask names, in all that tells who it is about: a shallow copy that lives no longer than r. *ret_id
 * is its identity, a reference for the caller. The text of its stack is not here. 0 or -ENOMEM. */
int omit_report(const struct report *r, uint32_t mask, struct report *ret, struct identity **ret_id);
