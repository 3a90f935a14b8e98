/* SPDX-License-Identifier: MIT */
#include "record/message_line.h"

#include <inttypes.h>
#include <string.h>

#include "base/units.h"
#include "record/foreign.h"
#include "record/message_words.h"
#include "rule/omit.h"

void line_add(struct line *l, const char *s)
{
	strbuf_adds(l->sb, s);
}

void line_add_name(struct line *l, const char *s)
{
	foreign_word(l->sb, l->redact, s, l->name_max);
}

static void add_unit_name(struct line *l, const char *s)
{
	size_t start = l->sb->len;

	foreign_unit(l->sb, l->redact, s, 1024);
	utf8_cut(l->sb, start, l->name_max);
}

void line_add_bytes(struct line *l, uint64_t bytes)
{
	char buf[FORMAT_UNITS_MAX];

	line_add(l, format_bytes(buf, bytes));
}

void line_add_quantity(struct line *l, uint64_t n)
{
	switch (l->r->value_unit) {
	case VALUE_BYTES:
		line_add_bytes(l, n);
		break;
	case VALUE_BYTES_PER_SEC:
		line_add_bytes(l, n);
		line_add(l, "/s");
		break;
	case VALUE_CALLS_PER_SEC:
		strbuf_addf(l->sb, "%" PRIu64 "/s", n);
		break;
	case VALUE_CALLS:
		strbuf_addf(l->sb, "%" PRIu64, n);
		break;
	}
}

/* "<before>41.2 GiB", or nothing where the number is absent. */
void line_add_optional_bytes(struct line *l, const char *before, uint64_t bytes)
{
	if (bytes == ABSENT_U64)
		return;
	line_add(l, before);
	line_add_bytes(l, bytes);
}

void line_add_optional_quantity(struct line *l, const char *before, uint64_t n)
{
	if (n == ABSENT_U64)
		return;
	line_add(l, before);
	line_add_quantity(l, n);
}

void line_add_optional_duration(struct line *l, const char *before, uint64_t ns)
{
	char buf[FORMAT_UNITS_MAX];

	if (ns == ABSENT_U64)
		return;
	line_add(l, before);
	line_add(l, format_duration(buf, ns));
}

/* "GPU 0" */
static void add_device(struct line *l)
{
	const struct report *r = l->r;
	const char *uuid = r->scope == SCOPE_DEVICE && r->scope_key ? r->scope_key : r->device_uuid;

	if (r->device_index >= 0)
		strbuf_addf(l->sb, "GPU %d", r->device_index);
	else if (uuid)
		foreign_word(l->sb, l->redact, uuid, 40);
	else
		line_add(l, "a GPU");
}

void line_add_where(struct line *l)
{
	if (l->r->scope == SCOPE_DEVICE || (l->r->device_index < 0 && !l->r->device_uuid))
		return;
	line_add(l, " on ");
	add_device(l);
}

/* Which memory or where: a pinned buffer "on GPU 0" would be looked for there. */
void line_add_place(struct line *l)
{
	const char *memory = message_memory(l->r);

	if (memory)
		strbuf_addf(l->sb, " of %s", memory);
	else
		line_add_where(l);
}

/* Namespace and name together as long as one name may be. */
static void line_add_pod(struct line *l, const struct identity *id)
{
	size_t start = l->sb->len;

	foreign_word(l->sb, l->redact, id->pod_namespace, l->name_max);
	line_add(l, "/");
	foreign_word(l->sb, l->redact, id->pod_name, l->name_max);
	utf8_cut(l->sb, start, l->name_max);
}

/* "python3[4711] train.service" */
static void add_process(struct line *l)
{
	const struct identity *id = l->r->id;
	const char *unit;

	if (!id) {
		line_add(l, "an unknown process");
		return;
	}
	if (redact_omitted(l->redact) & OMIT_BIT(OMIT_COMM)) {
		strbuf_addf(l->sb, "process %" PRIu32, id->pid);
	} else {
		/* 16 characters that all need escaping are 64. */
		foreign_word(l->sb, l->redact, id->comm ? id->comm : "?", 32);
		strbuf_addf(l->sb, "[%" PRIu32 "]", id->pid);
	}
	/* Of a user's own unit the name says more than the user@1000.service around it, of a pod its name more than the
	 * unit that its container is. */
	unit = id->user_unit ? id->user_unit : id->unit;
	if (id->pod_name && id->pod_namespace) {
		line_add(l, " ");
		line_add_pod(l, id);
	} else if (unit) {
		line_add(l, " ");
		add_unit_name(l, unit);
	}
}

void line_add_who(struct line *l)
{
	static const char *const nameless[SCOPE_MAX] = {
		[SCOPE_UNIT] = "a unit",
		[SCOPE_CGROUP] = "a cgroup",
		[SCOPE_USER] = "a user",
		[SCOPE_CONTAINER] = "a container",
	};
	const struct report *r = l->r;

	if (!r->scope_key && nameless[r->scope] && redact_omitted(l->redact)) {
		line_add(l, nameless[r->scope]);
		return;
	}
	switch (r->scope) {
	case SCOPE_DEVICE:
		add_device(l);
		return;
	case SCOPE_UNIT:
		if (!r->scope_key)
			break;
		add_unit_name(l, r->scope_key);
		return;
	case SCOPE_CGROUP:
		if (!r->scope_key)
			break;
		line_add(l, "cgroup ");
		line_add_name(l, r->scope_key);
		return;
	case SCOPE_USER:
		if (!r->scope_key)
			break;
		line_add(l, "user ");
		line_add_name(l, r->scope_key);
		return;
	case SCOPE_CONTAINER:
		if (!r->scope_key)
			break;
		/* As the tools of containers show their ids. */
		line_add(l, "container ");
		if (strspn(r->scope_key, "0123456789abcdef") == 64)
			strbuf_add(l->sb, r->scope_key, 12);
		else
			line_add_name(l, r->scope_key);
		return;
	default:
		break;
	}
	add_process(l);
}
