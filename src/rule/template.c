/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "base/units.h"
#include "rule/watch.h"

#define WORD_MAX 256	     /* bytes of a name that a process chose */
#define TEMPLATE_MAX 2048 /* of the whole: it becomes one line of a record */

static void add_word(struct strbuf *sb, const char *s)
{
	if (s)
		text_escape(sb, s, strlen(s), WORD_MAX);
	else
		strbuf_adds(sb, "?");
}

static void add_bytes(struct strbuf *sb, uint64_t bytes)
{
	char buf[FORMAT_UNITS_MAX];

	strbuf_adds(sb, bytes == ABSENT_U64 ? "?" : format_bytes(buf, bytes));
}

static void add_quantity(struct strbuf *sb, uint64_t n, enum value_unit unit)
{
	if (n == ABSENT_U64) {
		strbuf_adds(sb, "?");
		return;
	}
	if (unit == VALUE_BYTES || unit == VALUE_BYTES_PER_SEC)
		add_bytes(sb, n);
	else
		strbuf_addf(sb, "%" PRIu64, n);
	if (unit == VALUE_BYTES_PER_SEC || unit == VALUE_CALLS_PER_SEC)
		strbuf_adds(sb, "/s");
}

static void add_number(struct strbuf *sb, bool is_known, int64_t n)
{
	if (is_known)
		strbuf_addf(sb, "%" PRId64, n);
	else
		strbuf_adds(sb, "?");
}

static bool is(const char *name, size_t len, const char *what)
{
	return strlen(what) == len && memcmp(name, what, len) == 0;
}

/* What a subject of this scope is called by its key; NULL if it is of another scope. */
static const char *key_of(const struct report *r, enum rule_scope scope)
{
	return r->scope == scope ? r->scope_key : NULL;
}

static bool add_identity_name(struct strbuf *sb, const char *name, size_t len, const struct report *r)
{
	const struct identity *id = r->id;
	const char *key;

	if (is(name, len, "comm")) {
		add_word(sb, id ? id->comm : NULL);
	} else if (is(name, len, "exe")) {
		add_word(sb, id ? id->exe : NULL);
	} else if (is(name, len, "pid")) {
		add_number(sb, id, id ? id->pid : 0);
	} else if (is(name, len, "uid")) {
		add_number(sb, id && id->uid != UINT32_MAX, id ? id->uid : 0);
	} else if (is(name, len, "user")) {
		key = key_of(r, SCOPE_USER);
		add_word(sb, key ? key : id ? id->user : NULL);
	} else if (is(name, len, "unit")) {
		key = key_of(r, SCOPE_UNIT);
		add_word(sb, key ? key : id ? (id->unit ? id->unit : id->user_unit) : NULL);
	} else if (is(name, len, "cgroup")) {
		key = key_of(r, SCOPE_CGROUP);
		add_word(sb, key ? key : id ? id->cgroup : NULL);
	} else if (is(name, len, "container")) {
		key = key_of(r, SCOPE_CONTAINER);
		add_word(sb, key ? key : id ? id->container : NULL);
	} else {
		return false;
	}
	return true;
}

static bool add_book_name(struct strbuf *sb, const char *name, size_t len, const struct report *r)
{
	if (is(name, len, "value"))
		add_quantity(sb, r->value, r->value_unit);
	else if (is(name, len, "limit"))
		add_quantity(sb, r->limit, r->value_unit);
	else if (is(name, len, "live"))
		add_bytes(sb, r->live_bytes);
	else if (is(name, len, "peak"))
		add_bytes(sb, r->peak_bytes);
	else if (is(name, len, "host"))
		add_bytes(sb, r->host_bytes);
	else if (is(name, len, "driver"))
		add_bytes(sb, r->driver_bytes);
	else if (is(name, len, "rule"))
		add_word(sb, r->rule);
	else if (is(name, len, "scope"))
		strbuf_adds(sb, rule_scope_name(r->scope));
	else if (is(name, len, "function"))
		add_word(sb, r->function);
	else if (is(name, len, "error"))
		add_number(sb, r->error != 0, r->error);
	else if (is(name, len, "device") && r->device_index >= 0)
		strbuf_addf(sb, "%d", r->device_index);
	else if (is(name, len, "device"))
		add_word(sb, r->device_uuid);
	else
		return false;
	return true;
}

int template_expand(const char *text, const struct report *r, char **ret)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	const char *p = text;

	if (!text) {
		*ret = NULL;
		return 0;
	}
	while (*p && sb.len < TEMPLATE_MAX) {
		const char *end = p[0] == '%' && p[1] == '{' ? strchr(p, '}') : NULL;
		size_t len = end ? (size_t)(end - p) - 2 : 0;

		/* A rule file with an unknown name is refused; by hand it stays as it is written. */
		if (end && (add_identity_name(&sb, p + 2, len, r) || add_book_name(&sb, p + 2, len, r)))
			p = end + 1;
		else
			strbuf_addc(&sb, *p++);
	}
	return strbuf_steal(&sb, ret);
}
