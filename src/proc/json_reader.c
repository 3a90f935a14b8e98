/* SPDX-License-Identifier: MIT */
#include "proc/json_reader.h"

#include <stdint.h>

static void skip_blanks(struct json_reader *j)
{
	while (j->p < j->end && (*j->p == ' ' || *j->p == '\t' || *j->p == '\n' || *j->p == '\r'))
		j->p++;
}

static bool fail(struct json_reader *j)
{
	j->is_bad = true;
	j->p = j->end;
	return false;
}

/* The next character that is no blank, '\0' at the end. */
static char peek(struct json_reader *j)
{
	skip_blanks(j);
	return j->p < j->end ? *j->p : '\0';
}

struct json_reader json_reader_of(const char *text, size_t len)
{
	return (struct json_reader){ .p = text, .end = text + len };
}

/* From behind the first quote. */
static bool string_end(struct json_reader *j, struct span *ret)
{
	const char *start = j->p;

	for (; j->p < j->end; j->p++) {
		if (*j->p == '"') {
			*ret = (struct span){ start, (size_t)(j->p - start) };
			j->p++;
			return true;
		}
		if (*j->p == '\\' && ++j->p == j->end)
			break;
		if ((unsigned char)*j->p < ' ')
			break;
	}
	return fail(j);
}

/* true, false, null and numbers, which nobody asks for. */
static bool skip_word(struct json_reader *j)
{
	const char *start = j->p;

	while (j->p < j->end && (is_digit(*j->p) || (*j->p >= 'a' && *j->p <= 'z') || (*j->p && strchr("+-.E", *j->p))))
		j->p++;
	return j->p > start || fail(j);
}

static bool enter(struct json_reader *j, char open)
{
	if (peek(j) != open) {
		json_skip(j);
		return false;
	}
	j->p++;
	j->is_first = true;
	return true;
}

bool json_enter_object(struct json_reader *j)
{
	return enter(j, '{');
}

bool json_enter_array(struct json_reader *j)
{
	return enter(j, '[');
}

/* Up to the next member or element; false behind the last one. */
static bool next(struct json_reader *j, char close)
{
	char c = peek(j);

	if (c == close) {
		j->p++;
		j->is_first = false;
		return false;
	}
	if (j->is_first) {
		j->is_first = false;
		return c != '\0' || fail(j);
	}
	if (c != ',')
		return fail(j);
	j->p++;
	return peek(j) != '\0' || fail(j);
}

static bool take_name(struct json_reader *j, struct span *ret)
{
	if (peek(j) != '"')
		return fail(j);
	j->p++;
	if (!string_end(j, ret))
		return false;
	if (peek(j) != ':')
		return fail(j);
	j->p++;
	return true;
}

bool json_next_member(struct json_reader *j, struct span *ret_name)
{
	return next(j, '}') && take_name(j, ret_name);
}

bool json_next_element(struct json_reader *j)
{
	return next(j, ']');
}

bool json_take_string(struct json_reader *j, struct span *ret)
{
	if (peek(j) != '"') {
		json_skip(j);
		return false;
	}
	j->p++;
	return string_end(j, ret);
}

/* What opens here, or is whole here. */
static bool skip_begin(struct json_reader *j, uint64_t *is_object, unsigned *depth)
{
	struct span s;
	char c = peek(j);

	if (c == '"') {
		j->p++;
		return string_end(j, &s);
	}
	if (c != '{' && c != '[')
		return skip_word(j);
	if (*depth == JSON_DEPTH_MAX)
		return fail(j);
	*is_object = *is_object << 1 | (c == '{');
	(*depth)++;
	j->p++;
	j->is_first = true;
	return true;
}

void json_skip(struct json_reader *j)
{
	uint64_t is_object = 0; /* a bit for each that is open, the innermost lowest */
	unsigned depth = 0;
	struct span s;

	if (!skip_begin(j, &is_object, &depth))
		return;
	while (depth > 0) {
		if (is_object & 1 ? json_next_member(j, &s) : json_next_element(j)) {
			if (!skip_begin(j, &is_object, &depth))
				return;
			continue;
		}
		if (j->is_bad)
			return;
		is_object >>= 1;
		depth--;
	}
}
