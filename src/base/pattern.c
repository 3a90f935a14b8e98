/* SPDX-License-Identifier: MIT */
#include "base/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

struct pattern {
	char *text;
	pcre2_code *code;
	pcre2_match_data *data;
	pcre2_match_context *context;
	unsigned refs;
	bool is_limit_told;
};

int pattern_new(const char *text, char error[PATTERN_ERROR_MAX], struct pattern **ret)
{
	_cleanup_(pattern_freep) struct pattern *p = calloc(1, sizeof(*p));
	PCRE2_UCHAR message[PATTERN_ERROR_MAX - 64];
	PCRE2_SIZE offset = 0;
	int code = 0;

	if (!p)
		return -ENOMEM;
	p->refs = 1;
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

struct pattern *pattern_ref(struct pattern *p)
{
	p->refs++;
	return p;
}

void pattern_free(struct pattern *p)
{
	if (!p || --p->refs > 0)
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

size_t pattern_size(const struct pattern *p)
{
	size_t code = 0, jit = 0;

	(void)pcre2_pattern_info(p->code, PCRE2_INFO_SIZE, &code);
	(void)pcre2_pattern_info(p->code, PCRE2_INFO_JITSIZE, &jit);
	return sizeof(*p) + strlen(p->text) + code + jit;
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

bool pattern_tell_limit(struct pattern *p)
{
	const bool is_first = !p->is_limit_told;

	p->is_limit_told = true;
	return is_first;
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
