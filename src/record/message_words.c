/* SPDX-License-Identifier: MIT */
#include "record/message_words.h"

#include <inttypes.h>

#include "base/cleanup.h"
#include "bpf/event.h"

const char *message_memory(const struct report *r)
{
	static const struct {
		uint32_t classes;
		const char *text;
	} memories[] = {
		{ 1u << CLASS_HOST, "pinned host memory" },
		{ 1u << CLASS_MANAGED, "managed memory" },
		{ 1u << CLASS_IMPORTED, "imported memory" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(memories); i++) {
		if (r->classes == memories[i].classes)
			return memories[i].text;
	}
	return NULL;
}

void message_add_others(const struct report *r, struct strbuf *sb)
{
	static const char *const one[SCOPE_MAX] = {
		[SCOPE_PROCESS] = "process", [SCOPE_DEVICE] = "device",	      [SCOPE_CGROUP] = "cgroup",
		[SCOPE_UNIT] = "unit",	     [SCOPE_USER] = "user",	      [SCOPE_CONTAINER] = "container",
		[SCOPE_STACK] = "call site",
	};
	static const char *const many[SCOPE_MAX] = {
		[SCOPE_PROCESS] = "processes", [SCOPE_DEVICE] = "devices",	  [SCOPE_CGROUP] = "cgroups",
		[SCOPE_UNIT] = "units",	       [SCOPE_USER] = "users",		  [SCOPE_CONTAINER] = "containers",
		[SCOPE_STACK] = "call sites",
	};
	static const char *const what[] = {
		[REPORT_LIVE_BYTES] = "over the limit",	  [REPORT_SINGLE_ALLOC] = "with a large allocation",
		[REPORT_ALLOC_RATE] = "over the limit",	  [REPORT_ALLOC_FAILURE] = "with failed allocations",
		[REPORT_LEAK] = "leaking",		  [REPORT_EXIT] = "ended with memory never freed",
		[REPORT_UNTRACKED_GROWTH] = "with more than their allocations account for",
		[REPORT_ORPHAN] = "that hold memory as orphans",
		[REPORT_COVERAGE] = "of which no call has been seen",
	};

	strbuf_addf(sb, "%" PRIu64 " more %s %s", r->others, (r->others == 1 ? one : many)[r->scope], what[r->event]);
}
