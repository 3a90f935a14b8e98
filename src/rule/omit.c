/* SPDX-License-Identifier: MIT */
#include "rule/omit.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define CONTAINER_ID_LEN 64 /* hexadecimal digits */

const char *const omit_names[OMIT_MAX + 1] = {
	[OMIT_COMM] = "comm",	      [OMIT_EXE] = "exe",   [OMIT_CMDLINE] = "cmdline",	  [OMIT_USER] = "user",
	[OMIT_CGROUP] = "cgroup",     [OMIT_UNIT] = "unit", [OMIT_CONTAINER] = "container", [OMIT_POD] = "pod",
	[OMIT_SLURM_JOB] = "slurm_job", [OMIT_PARENT] = "parent", [OMIT_TAG] = "tag",	  [OMIT_STACK] = "stack",
};

static const struct {
	uint8_t omit;
	size_t offset; /* of a text in struct identity */
} texts[] = {
	{ OMIT_COMM, offsetof(struct identity, comm) },
	{ OMIT_EXE, offsetof(struct identity, exe) },
	{ OMIT_CMDLINE, offsetof(struct identity, cmdline) },
	{ OMIT_USER, offsetof(struct identity, user) },
	{ OMIT_CGROUP, offsetof(struct identity, cgroup) },
	{ OMIT_CGROUP, offsetof(struct identity, slice) },
	{ OMIT_UNIT, offsetof(struct identity, unit) },
	{ OMIT_UNIT, offsetof(struct identity, user_unit) },
	{ OMIT_CONTAINER, offsetof(struct identity, container) },
	{ OMIT_CONTAINER, offsetof(struct identity, runtime) },
	{ OMIT_CONTAINER, offsetof(struct identity, container_name) },
	{ OMIT_POD, offsetof(struct identity, pod) },
	{ OMIT_POD, offsetof(struct identity, pod_name) },
	{ OMIT_POD, offsetof(struct identity, pod_namespace) },
	{ OMIT_SLURM_JOB, offsetof(struct identity, slurm_job) },
	{ OMIT_PARENT, offsetof(struct identity, parent) },
	{ OMIT_TAG, offsetof(struct identity, tag) },
};

uint32_t omit_implied(uint32_t mask)
{
	const uint32_t in_path = OMIT_BIT(OMIT_USER) | OMIT_BIT(OMIT_UNIT) | OMIT_BIT(OMIT_CONTAINER) | OMIT_BIT(OMIT_POD) |
				 OMIT_BIT(OMIT_SLURM_JOB);

	return mask & in_path ? mask | OMIT_BIT(OMIT_CGROUP) : mask;
}

static void drop(char **text)
{
	free(*text);
	*text = NULL;
}

/* The unit that a user's manager is: user@1000.service. */
static bool names_user(const char *unit)
{
	return strncmp(unit, "user@", 5) == 0;
}

/* The unit that a container is: docker-ID.scope, machine-NAME.scope, systemd-nspawn@NAME.service. */
static bool names_container(const char *unit, const char *container)
{
	if ((container && strstr(unit, container)) || strncmp(unit, "machine-", 8) == 0 ||
	    strncmp(unit, "systemd-nspawn@", 15) == 0)
		return true;
	for (size_t hex = 0; *unit; unit += MAX(hex, (size_t)1)) {
		hex = strspn(unit, "0123456789abcdef");
		if (hex >= CONTAINER_ID_LEN)
			return true;
	}
	return false;
}

/* Does the unit's name tell what mask names? */
static bool is_telling(const char *unit, const char *container, uint32_t mask)
{
	return (mask & OMIT_BIT(OMIT_USER) && names_user(unit)) ||
	       (mask & OMIT_BIT(OMIT_CONTAINER) && names_container(unit, container));
}

int omit_identity(struct identity *id, uint32_t mask, struct identity **ret)
{
	struct identity *copy;

	if (!id || !(mask & ~OMIT_BIT(OMIT_STACK))) {
		*ret = identity_ref(id);
		return 0;
	}
	copy = identity_copy(id);
	if (!copy)
		return -ENOMEM;
	for (char **unit = &copy->unit; unit; unit = unit == &copy->unit ? &copy->user_unit : NULL) {
		if (*unit && is_telling(*unit, id->container, mask))
			drop(unit);
	}
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (mask & OMIT_BIT(texts[i].omit))
			drop((char **)((char *)copy + texts[i].offset));
	if (mask & OMIT_BIT(OMIT_USER))
		copy->uid = UINT32_MAX;
	if (mask & OMIT_BIT(OMIT_PARENT))
		copy->ppid = 0;
	*ret = copy;
	return 0;
}

static bool omits_key(const struct report *r, uint32_t mask)
{
	static const uint32_t keys[SCOPE_MAX] = {
		[SCOPE_CGROUP] = OMIT_BIT(OMIT_CGROUP),
		[SCOPE_UNIT] = OMIT_BIT(OMIT_UNIT),
		[SCOPE_USER] = OMIT_BIT(OMIT_USER),
		[SCOPE_CONTAINER] = OMIT_BIT(OMIT_CONTAINER),
	};

	return mask & keys[r->scope] ||
	       (r->scope == SCOPE_UNIT && is_telling(r->scope_key, r->id ? r->id->container : NULL, mask));
}

int omit_report(const struct report *r, uint32_t mask, struct report *ret, struct identity **ret_id)
{
	int err = omit_identity(r->id, mask, ret_id);

	if (err < 0)
		return err;
	*ret = *r;
	ret->id = *ret_id;
	if (r->scope_key && omits_key(r, mask))
		ret->scope_key = NULL;
	return 0;
}
