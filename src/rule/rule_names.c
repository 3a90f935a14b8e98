/* SPDX-License-Identifier: MIT */
#include "rule/rule_names.h"

#include <string.h>

#include "bpf/event.h"

const char *const rule_kind_names[] = {
	[RULE_LIVE_BYTES] = "live_bytes",
	[RULE_SINGLE_ALLOC] = "single_alloc",
	[RULE_ALLOC_RATE] = "alloc_rate",
	[RULE_ALLOC_FAILURE] = "alloc_failure",
	[RULE_LEAK] = "leak",
	[RULE_EXIT] = "exit",
	[RULE_UNTRACKED_GROWTH] = "untracked_growth",
	[RULE_ORPHAN] = "orphan",
	[RULE_KIND_MAX] = NULL,
};

const char *const rule_scope_names[] = {
	[SCOPE_PROCESS] = "process", [SCOPE_DEVICE] = "device",	      [SCOPE_CGROUP] = "cgroup", [SCOPE_UNIT] = "unit",
	[SCOPE_USER] = "user",	     [SCOPE_CONTAINER] = "container", [SCOPE_STACK] = "stack",	 [SCOPE_MAX] = NULL,
};

const char *const severity_names[] = {
	[SEVERITY_INFO] = "info",   [SEVERITY_NOTICE] = "notice",     [SEVERITY_WARNING] = "warning",
	[SEVERITY_ERROR] = "error", [SEVERITY_CRITICAL] = "critical", [SEVERITY_MAX] = NULL,
};

/* Never emergency or alert: the journal sends those to every terminal. */
static const int severity_priorities[SEVERITY_MAX] = {
	[SEVERITY_INFO] = 6,  [SEVERITY_NOTICE] = 5,   [SEVERITY_WARNING] = 4,
	[SEVERITY_ERROR] = 3, [SEVERITY_CRITICAL] = 2,
};

const char *const rule_class_names[] = {
	[CLASS_DEVICE] = "device", [CLASS_MANAGED] = "managed",	  [CLASS_HOST] = "host",
	[CLASS_ARRAY] = "array",   [CLASS_PHYSICAL] = "physical", [CLASS_ASYNC] = "async",
	[CLASS_GRAPH] = "graph",   [CLASS_IMPORTED] = "imported", [CLASS_FRAMEWORK] = "framework",
	[CLASS_MAX] = NULL,
};

/* By bit of enum process_condition. */
const char *const rule_condition_names[] = { "parent_gone", "zombie", "uninterruptible", "no_process", NULL };

const char *const rule_override_names[] = {
	[OVERRIDE_REPLACE] = "replace",
	[OVERRIDE_MERGE] = "merge",
	[OVERRIDE_OFF] = "off",
	[OVERRIDE_NONE] = NULL,
};

int rule_name_find(const char *const *names, const char *name)
{
	for (int i = 0; names[i]; i++) {
		if (strcmp(names[i], name) == 0)
			return i;
	}
	return -1;
}

uint32_t rule_class_mask(int i)
{
	return i == CLASS_DEVICE ? CLASS_DEVICE_MASK : UINT32_C(1) << i;
}

const char *rule_kind_name(enum rule_kind k)
{
	return k < RULE_KIND_MAX ? rule_kind_names[k] : NULL;
}

const char *rule_scope_name(enum rule_scope s)
{
	return s < SCOPE_MAX ? rule_scope_names[s] : NULL;
}

const char *severity_name(enum severity s)
{
	return s < SEVERITY_MAX ? severity_names[s] : NULL;
}

int severity_priority(enum severity s)
{
	return s < SEVERITY_MAX ? severity_priorities[s] : 6;
}
