/* SPDX-License-Identifier: MIT */
#include "rule/match.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdint.h>
#include <string.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "base/text.h"

struct pattern {
	char *text;
	pcre2_code *code;
	pcre2_match_data *data;
	pcre2_match_context *context;
	bool is_limit_told;
};

static const char *const match_key_names[MATCH_KEY_MAX] = {
	[MATCH_COMM] = "comm",		 [MATCH_CMDLINE] = "cmdline", [MATCH_EXE] = "exe",
	[MATCH_CGROUP] = "cgroup",	 [MATCH_UNIT] = "unit",	      [MATCH_USER] = "user",
	[MATCH_CONTAINER] = "container", [MATCH_DEVICE] = "device",
};

const char *match_key_name(enum match_key k)
{
	return k < MATCH_KEY_MAX ? match_key_names[k] : NULL;
}

int pattern_new(const char *text, char error[PATTERN_ERROR_MAX], struct pattern **ret)
{
	_cleanup_(pattern_freep) struct pattern *p = calloc(1, sizeof(*p));
	PCRE2_UCHAR message[PATTERN_ERROR_MAX - 64];
	PCRE2_SIZE offset = 0;
	int code = 0;

	if (!p)
		return -ENOMEM;
	p->text = strdup(text);
	p->context = pcre2_match_context_create(NULL);
	if (!p->text || !p->context)
		return -ENOMEM;
	/*
	 * What a traced process calls itself is bytes, not text: UTF stays off, also against (*UTF) in the pattern. And
	 * it is one value, not lines: a newline in it must neither satisfy $ nor stop a dot.
	 */
	p->code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
				PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_DOLLAR_ENDONLY | PCRE2_DOTALL, &code, &offset,
				NULL);
	if (!p->code && code == PCRE2_ERROR_NOMEMORY)
		return -ENOMEM;
	if (!p->code) {
		if (pcre2_get_error_message(code, message, sizeof(message)) < 0)
			message[0] = '\0';
		(void)snprintf(error, PATTERN_ERROR_MAX, "%s at character %zu", (const char *)message,
			       (size_t)offset + 1);
		return -EINVAL;
	}
	p->data = pcre2_match_data_create(1, NULL);
	if (!p->data)
		return -ENOMEM;
	(void)pcre2_set_match_limit(p->context, MATCH_LIMIT);
	(void)pcre2_set_heap_limit(p->context, MATCH_HEAP_KIB);
	/* Refused where memory may not be made executable; matching then interprets. */
	(void)pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE);
	*ret = TAKE_PTR(p);
	return 0;
}

void pattern_free(struct pattern *p)
{
	if (!p)
		return;
	pcre2_match_data_free(p->data);
	pcre2_match_context_free(p->context);
	pcre2_code_free(p->code);
	free(p->text);
	free(p);
}

const char *pattern_text(const struct pattern *p)
{
	return p->text;
}

int pattern_find(struct pattern *p, const char *data, size_t len, size_t from, size_t *ret_start, size_t *ret_end)
{
	PCRE2_SIZE *ends;
	int r;

	r = pcre2_match(p->code, (PCRE2_SPTR)data, len, from, 0, p->data, p->context);
	/* Compiled code has a small fixed stack; the interpreter has the heap limit instead. */
	if (r == PCRE2_ERROR_JIT_STACKLIMIT)
		r = pcre2_match(p->code, (PCRE2_SPTR)data, len, from, PCRE2_NO_JIT, p->data, p->context);
	if (r == PCRE2_ERROR_NOMATCH)
		return 0;
	if (r < 0)
		return -ELOOP;
	ends = pcre2_get_ovector_pointer(p->data);
	/* \K within a lookahead can put the start behind the end. */
	*ret_start = MIN(ends[0], ends[1]);
	*ret_end = ends[1];
	return 1;
}

int pattern_match(struct pattern *p, const char *data, size_t len)
{
	size_t start, end;

	return pattern_find(p, data, len, 0, &start, &end);
}

bool pattern_is_anchored(const char *text)
{
	for (const char *p = text; *p; p++) {
		if (*p == '^' || *p == '$')
			return true;
		if (*p == '\\') {
			if (p[1] == '\0')
				return false;
			p++;
			if (strchr("AzZGb", *p))
				return true;
		} else if (*p == '[') {
			/* A class ends at the first ] that is neither escaped nor its first member. */
			p += p[1] == '^' ? 2 : 1;
			for (p += *p == ']'; *p && *p != ']'; p++) {
				if (*p == '\\' && p[1])
					p++;
			}
			if (!*p)
				return false;
		}
	}
	return false;
}

void match_group_done(struct match_group *g)
{
	for (size_t k = 0; k < MATCH_KEY_MAX; k++) {
		for (size_t i = 0; i < g->key[k].len; i++)
			pattern_free(g->key[k].patterns[i]);
		free(g->key[k].patterns);
	}
	*g = (struct match_group){ 0 };
}

static void warn_of_limit(const struct rule *r, enum match_key k, struct pattern *p)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	if (p->is_limit_told)
		return;
	p->is_limit_told = true;
	text_escape(&sb, p->text, strlen(p->text), 200);
	log_warning("%s:%d: rule \"%s\": pattern \"%s\" of %s takes too long on some input, which counts as no match: "
		    "avoid repeats within repeats",
		    r->file, r->line, r->name, strbuf_str(&sb), match_key_name(k));
}

static bool any_matches(const struct rule *r, const struct match_group *g, enum match_key k, const char *value)
{
	if (!value)
		return false;
	for (size_t i = 0; i < g->key[k].len; i++) {
		int q = pattern_match(g->key[k].patterns[i], value, strlen(value));

		if (q > 0)
			return true;
		if (q < 0)
			warn_of_limit(r, k, g->key[k].patterns[i]);
	}
	return false;
}

struct subject {
	const struct identity *id;
	const char *device_uuid;
	char device_index[16]; /* "" = not known */
};

static bool key_matches(const struct rule *r, const struct match_group *g, enum match_key k, const struct subject *s)
{
	const struct identity *id = s->id;
	const char *index = s->device_index[0] ? s->device_index : NULL;

	if (k == MATCH_DEVICE)
		return any_matches(r, g, k, s->device_uuid) || any_matches(r, g, k, index);
	if (!id)
		return false;
	switch (k) {
	case MATCH_COMM:
		return any_matches(r, g, k, id->comm);
	case MATCH_CMDLINE:
		return any_matches(r, g, k, id->cmdline);
	case MATCH_EXE:
		return any_matches(r, g, k, id->exe);
	case MATCH_CGROUP:
		return any_matches(r, g, k, id->cgroup);
	case MATCH_UNIT:
		return any_matches(r, g, k, id->unit ? id->unit : id->user_unit);
	case MATCH_USER:
		return any_matches(r, g, k, id->user);
	case MATCH_CONTAINER:
		return any_matches(r, g, k, id->container);
	default:
		return false;
	}
}

static bool group_matches(const struct rule *r, const struct match_group *g, const struct subject *s)
{
	for (size_t k = 0; k < MATCH_KEY_MAX; k++) {
		if (g->key[k].len > 0 && !key_matches(r, g, (enum match_key)k, s))
			return false;
	}
	return true;
}

bool rule_matches(const struct rule *r, const struct identity *id, const char *device_uuid, int device_index)
{
	struct subject s = { .id = id, .device_uuid = device_uuid };

	if (device_index >= 0)
		(void)snprintf(s.device_index, sizeof(s.device_index), "%d", device_index);
	if (r->match && !group_matches(r, r->match, &s))
		return false;
	for (size_t i = 0; i < r->except_len; i++) {
		if (group_matches(r, &r->except[i], &s))
			return false;
	}
	return true;
}
