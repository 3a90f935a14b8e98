/* SPDX-License-Identifier: MIT */
#include "replay/trace_form.h"

#include <string.h>

#include "base/clock.h"

#define KEY(structure, key, how, member, required)                                                                     \
	{                                                                                                              \
		.name = key, .len = sizeof(key) - 1, .value = how, .is_required = required,                            \
		.offset = offsetof(struct structure, member),                                                          \
	}
#define NEEDED(key, how, member) KEY(trace_item, key, how, member, true)
#define MAY(key, how, member) KEY(trace_item, key, how, member, false)
#define IDENTITY_TEXT(member) KEY(identity, #member, VALUE_OWN_TEXT, member, false)
#define IDENTITY_U32(member) KEY(identity, #member, VALUE_U32, member, false)
#define COUNTER(member) KEY(books, #member, VALUE_U64, member, false)

/* Of a block: the same keys whether it is new or was there. */
#define BLOCK_KEYS                                                                                                     \
	NEEDED("class", VALUE_CLASS, class), NEEDED("addr", VALUE_HEX, addr), NEEDED("bytes", VALUE_U64, bytes),       \
		MAY("device", VALUE_INDEX, device), MAY("stack", VALUE_U64, stack), MAY("reason", VALUE_REASON, reason), \
		MAY("kind", VALUE_KIND, kind), MAY("call", VALUE_TEXT, call)

static const struct trace_key alloc_keys[] = { BLOCK_KEYS };
static const struct trace_key block_keys[] = { BLOCK_KEYS, MAY("birth", VALUE_TIME, birth_ns) };
static const struct trace_key free_keys[] = { NEEDED("addr", VALUE_HEX, addr), MAY("kind", VALUE_KIND, kind) };
static const struct trace_key fail_keys[] = {
	NEEDED("class", VALUE_CLASS, class), NEEDED("bytes", VALUE_U64, bytes), MAY("addr", VALUE_HEX, addr),
	MAY("device", VALUE_INDEX, device),  MAY("error", VALUE_INT, error),	MAY("stack", VALUE_U64, stack),
	MAY("reason", VALUE_REASON, reason), MAY("call", VALUE_TEXT, call),
};
static const struct trace_key site_keys[] = { NEEDED("stack", VALUE_U64, stack), NEEDED("key", VALUE_HEX, key) };
static const struct trace_key identity_keys[] = {
	IDENTITY_TEXT(comm),	IDENTITY_TEXT(exe),	  IDENTITY_TEXT(cmdline),   IDENTITY_TEXT(user),
	IDENTITY_U32(uid),	IDENTITY_TEXT(cgroup),	  IDENTITY_TEXT(unit),	    IDENTITY_TEXT(user_unit),
	IDENTITY_TEXT(slice),	IDENTITY_TEXT(container), IDENTITY_TEXT(runtime),   IDENTITY_TEXT(pod),
	IDENTITY_TEXT(slurm_job), IDENTITY_TEXT(parent),  IDENTITY_U32(ppid),	    IDENTITY_U32(inner_pid),
	KEY(identity, "start_ticks", VALUE_TICKS, start_ticks, false), IDENTITY_TEXT(tag),
	IDENTITY_TEXT(pod_name), IDENTITY_TEXT(pod_namespace), IDENTITY_TEXT(container_name),
};
static const struct trace_key ordinal_keys[] = {
	MAY("device", VALUE_INDEX, device), NEEDED("uuid", VALUE_TEXT, uuid),
};
static const struct trace_key driver_keys[] = {
	MAY("device", VALUE_TEXT, uuid), NEEDED("bytes", VALUE_KNOWN, bytes), MAY("older", VALUE_FLAG, flag),
};
static const struct trace_key coverage_keys[] = {
	NEEDED("reason", VALUE_TEXT, name), MAY("expected", VALUE_FLAG, flag),
};
static const struct trace_key condition_keys[] = { NEEDED("bits", VALUE_U32, condition) };
static const struct trace_key lost_keys[] = { NEEDED("count", VALUE_U64, count) };
static const struct trace_key rebuilt_keys[] = {
	COUNTER(device_bytes),	    COUNTER(peak_bytes),	  COUNTER(live_count),
	COUNTER(alloc_count),	    COUNTER(free_count),	  COUNTER(fail_count),
	COUNTER(unknown_free_count), COUNTER(lost_count),	  COUNTER(untracked_count),
	COUNTER(untracked_bytes),   COUNTER(framework_live_count), COUNTER(framework_alloc_count),
	COUNTER(framework_free_count), COUNTER(missed_count),
};
static const struct trace_key gpu_keys[] = {
	NEEDED("uuid", VALUE_TEXT, uuid),	MAY("index", VALUE_INDEX, device),	MAY("name", VALUE_TEXT, name),
	MAY("total", VALUE_KNOWN, total_bytes), MAY("used", VALUE_KNOWN, used_bytes),
};
static const struct trace_key end_keys[] = { MAY("incomplete", VALUE_FLAG, flag) };

#define KEYS(list) .keys = list, .len = ARRAY_SIZE(list)
#define FORM(t, text, ...) [t] = { .name = text, .blank.type = t, __VA_ARGS__ }

const struct trace_form trace_forms[] = {
	FORM(TRACE_ALLOC, "alloc", KEYS(alloc_keys), .blank.device = EVENT_NO_DEVICE, .blank.kind = KIND_FOLLOWS),
	FORM(TRACE_FREE, "free", KEYS(free_keys)),
	FORM(TRACE_FAIL, "fail", KEYS(fail_keys), .blank.device = EVENT_NO_DEVICE),
	FORM(TRACE_PROCESS, "process"),
	FORM(TRACE_EXEC, "exec"),
	FORM(TRACE_EXIT, "exit"),
	FORM(TRACE_SITE, "site", KEYS(site_keys)),
	FORM(TRACE_IDENTITY, "identity", KEYS(identity_keys), .part = PART_IDENTITY),
	FORM(TRACE_ORDINAL, "ordinal", KEYS(ordinal_keys), .blank.device = EVENT_NO_DEVICE),
	FORM(TRACE_DRIVER, "driver", KEYS(driver_keys)),
	FORM(TRACE_COVERAGE, "coverage", KEYS(coverage_keys)),
	FORM(TRACE_CONDITION, "condition", KEYS(condition_keys)),
	FORM(TRACE_LOST, "lost", KEYS(lost_keys)),
	FORM(TRACE_REBUILD, "rebuild"),
	FORM(TRACE_BLOCK, "block", KEYS(block_keys), .blank.device = EVENT_NO_DEVICE, .blank.kind = KIND_FOLLOWS),
	FORM(TRACE_REBUILT, "rebuilt", KEYS(rebuilt_keys), .part = PART_BOOKS),
	FORM(TRACE_TICK, "tick", .is_host = true),
	FORM(TRACE_GPU, "gpu", KEYS(gpu_keys), .is_host = true, .blank.device = -1, .blank.total_bytes = TRACE_UNKNOWN,
	     .blank.used_bytes = TRACE_UNKNOWN),
	FORM(TRACE_GPUS_END, "gpus-end", KEYS(end_keys), .is_host = true),
	FORM(TRACE_DRIVER_BEGIN, "driver-begin", .is_host = true),
	FORM(TRACE_DRIVER_END, "driver-end", KEYS(end_keys), .is_host = true),
};

static const char *const class_names[] = {
	[CLASS_DEVICE] = "device",     [CLASS_MANAGED] = "managed",	[CLASS_HOST] = "host",
	[CLASS_ARRAY] = "array",       [CLASS_PHYSICAL] = "physical",	[CLASS_ASYNC] = "async",
	[CLASS_GRAPH] = "graph",       [CLASS_IMPORTED] = "imported",	[CLASS_FRAMEWORK] = "framework",
	[CLASS_MAX] = NULL,
};
static const char *const kind_names[] = {
	[ADDR_POINTER] = "pointer", [ADDR_HANDLE] = "handle", [ADDR_OBJECT] = "object", [ADDR_FRAMEWORK] = "framework",
	[ADDR_FRAMEWORK + 1] = NULL,
};
static const char *const reason_names[] = {
	[STACK_OK] = "ok",     [STACK_NONE] = "none",	    [STACK_FAULT] = "fault", [STACK_SAMPLED] = "sampled",
	[STACK_LOST] = "lost", [STACK_EVICTED] = "evicted", [STACK_EVICTED + 1] = NULL,
};

const char *trace_type_name(enum trace_type t)
{
	return t < TRACE_TYPE_MAX ? trace_forms[t].name : NULL;
}

const void *trace_blank(const struct trace_form *form)
{
	static const struct identity identity = { .uid = UINT32_MAX };
	static const struct books books;

	switch (form->part) {
	case PART_IDENTITY:
		return &identity;
	case PART_BOOKS:
		return &books;
	default:
		return &form->blank;
	}
}

const struct trace_form *trace_form_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(trace_forms); i++) {
		if (strcmp(trace_forms[i].name, name) == 0)
			return &trace_forms[i];
	}
	return NULL;
}

const char *const *trace_value_names(enum trace_value v)
{
	switch (v) {
	case VALUE_CLASS:
		return class_names;
	case VALUE_KIND:
		return kind_names;
	case VALUE_REASON:
		return reason_names;
	default:
		return NULL;
	}
}

uint64_t trace_value_max(enum trace_value v)
{
	switch (v) {
	case VALUE_KNOWN:
		return TRACE_UNKNOWN - 1;
	case VALUE_TICKS:
		return UINT64_MAX / (NSEC_PER_SEC / TICKS_PER_SEC);
	case VALUE_TIME:
		return TRACE_SECONDS_MAX * NSEC_PER_SEC;
	case VALUE_U32:
		return UINT32_MAX;
	case VALUE_INT:
	case VALUE_INDEX:
		return INT32_MAX;
	case VALUE_CLASS:
		return CLASS_MAX - 1;
	case VALUE_KIND:
		return ADDR_FRAMEWORK;
	case VALUE_REASON:
		return STACK_EVICTED;
	case VALUE_FLAG:
		return 1;
	default:
		return UINT64_MAX;
	}
}

uint64_t trace_load(const void *part, const struct trace_key *key)
{
	const void *at = (const char *)part + key->offset;

	switch (key->value) {
	case VALUE_U32:
		return *(const uint32_t *)at;
	case VALUE_INT:
	case VALUE_INDEX:
		return (uint64_t)(int64_t)*(const int32_t *)at;
	case VALUE_CLASS:
	case VALUE_KIND:
	case VALUE_REASON:
		return *(const uint8_t *)at;
	case VALUE_FLAG:
		return *(const bool *)at;
	default:
		return *(const uint64_t *)at;
	}
}

void trace_store(void *part, const struct trace_key *key, uint64_t value)
{
	void *at = (char *)part + key->offset;

	switch (key->value) {
	case VALUE_U32:
		*(uint32_t *)at = (uint32_t)value;
		break;
	case VALUE_INT:
	case VALUE_INDEX:
		*(int32_t *)at = (int32_t)(int64_t)value;
		break;
	case VALUE_CLASS:
	case VALUE_KIND:
	case VALUE_REASON:
		*(uint8_t *)at = (uint8_t)value;
		break;
	case VALUE_FLAG:
		*(bool *)at = value != 0;
		break;
	default:
		*(uint64_t *)at = value;
		break;
	}
}

uint8_t trace_kind_follows(enum trace_type type, uint8_t class)
{
	if (type == TRACE_FREE)
		return ADDR_POINTER;
	switch (class) {
	case CLASS_ARRAY:
		return ADDR_OBJECT;
	case CLASS_PHYSICAL:
		return ADDR_HANDLE;
	case CLASS_FRAMEWORK:
		return ADDR_FRAMEWORK;
	default:
		return ADDR_POINTER;
	}
}

/* Can so many slips (a letter too many, too few, another one, two swapped) make b of a? */
static bool is_near(const char *a, const char *b, unsigned slips)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	if (!*a && !*b)
		return true;
	if (slips == 0)
		return false;
	slips--;
	return (*a && is_near(a + 1, b, slips)) || (*b && is_near(a, b + 1, slips)) ||
	       (*a && *b && is_near(a + 1, b + 1, slips)) ||
	       (*a && *b && a[0] == b[1] && a[1] == b[0] && is_near(a + 2, b + 2, slips));
}

const char *trace_suggest(const char *word, const char *const *names)
{
	for (unsigned slips = 1; slips <= 2; slips++) {
		/* As many slips as letters would make anything of anything. */
		if (strlen(word) <= slips)
			break;
		for (const char *const *name = names; *name; name++) {
			if (strlen(*name) > slips && is_near(word, *name, slips))
				return *name;
		}
	}
	return NULL;
}
