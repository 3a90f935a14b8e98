/* SPDX-License-Identifier: MIT */
#include "rule/conf_scan.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rule/conf.h"

struct scan {
	const char *file;
	const char *text;
	const char *p;
	int line;
	int depth;
	int members[CONF_DEPTH_MAX + 1]; /* so far, of what is open at each depth */
	bool at_line_start; /* only blanks since the last newline */
	struct errors *errors;
	struct scan_include *list;
	size_t len;
};

static int line_of(const char *text, const char *at)
{
	int line = 1;

	for (; text < at; text++)
		line += *text == '\n';
	return line;
}

/* One that ends no line; those of Windows files stand before a line feed. */
static const char *find_lone_cr(const char *text, size_t len)
{
	const char *end = text + len, *cr = text;

	while ((cr = memchr(cr, '\r', (size_t)(end - cr)))) {
		if (++cr == end || *cr != '\n')
			return cr - 1;
	}
	return NULL;
}

int scan_bytes(const char *file, const char *text, size_t len, struct errors *errors)
{
	const char *nul = memchr(text, '\0', len), *cr;

	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		return errors_add(errors, file, 1, "starts with a byte order mark: save it as plain UTF-8");
	if (len >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
		return errors_add(errors, file, 1, "is UTF-16 text: save it as plain UTF-8");
	if (nul)
		return errors_add(errors, file, line_of(text, nul), "holds a NUL byte: this is not a text file");
	cr = find_lone_cr(text, len);
	if (cr)
		return errors_add(errors, file, line_of(text, cr),
				  "holds a carriage return that ends no line: save it with Unix line ends");
	return 0;
}

/* At the quote that opens a string; moves behind the one that closes it. */
static int scan_string(struct scan *s)
{
	int first = s->line;

	for (s->p++; *s->p != '"'; s->p++) {
		if (*s->p == '\\' && s->p[1] != '\0')
			s->p++;
		if (*s->p == '\0')
			return errors_add(s->errors, s->file, first, "the string that starts here never ends");
		if (*s->p == '\n')
			s->line++;
	}
	s->p++;
	return 0;
}

static int scan_comment(struct scan *s)
{
	int first = s->line;

	for (s->p += 2; !(s->p[0] == '*' && s->p[1] == '/'); s->p++) {
		if (*s->p == '\0')
			return errors_add(s->errors, s->file, first, "the comment that starts here never ends");
		if (*s->p == '\n')
			s->line++;
	}
	s->p += 2;
	return 0;
}

/* libconfig 1.5 takes the low 32 bits of an integer that has no L behind it. */
static int scan_number(struct scan *s)
{
	bool is_hex = s->p[0] == '0' && (s->p[1] == 'x' || s->p[1] == 'X');
	const char *start = s->p, *end;
	uint64_t value = 0;
	bool is_over = false;

	s->p += is_hex ? 2 : 0;
	for (; is_hex ? isxdigit((unsigned char)*s->p) : isdigit((unsigned char)*s->p); s->p++) {
		unsigned digit = isdigit((unsigned char)*s->p) ? (unsigned)(*s->p - '0')
							       : (unsigned)(tolower((unsigned char)*s->p) - 'a' + 10);

		value = value * (is_hex ? 16 : 10) + digit;
		is_over = is_over || value > INT32_MAX;
		if (is_over)
			value = 0;
	}
	end = s->p;
	/* The rest of the word: a fraction, an exponent, an L, or something for libconfig to refuse. */
	while (isalnum((unsigned char)*s->p) || *s->p == '_' || *s->p == '.')
		s->p++;
	if (!is_over || *end == '.' || *end == 'e' || *end == 'E' || *end == 'L')
		return 0;
	return errors_add(s->errors, s->file, s->line,
			  "%.*s is too large a number: sizes and times are strings with "
			  "a unit, such as \"40GiB\" or \"30s\"",
			  (int)MIN(end - start, 40), start);
}

static int scan_depth(struct scan *s)
{
	if (strchr("({[", *s->p)) {
		if (++s->depth > CONF_DEPTH_MAX)
			return errors_add(s->errors, s->file, s->line, "brackets are nested more than %d deep",
					  CONF_DEPTH_MAX);
		s->members[s->depth] = 0;
	} else if (s->depth > 0) {
		s->depth--;
	}
	s->p++;
	return 0;
}

/* At the sign between a name and its value. */
static int scan_member(struct scan *s)
{
	s->p++;
	if (++s->members[s->depth] != CONF_MEMBERS_MAX + 1)
		return 0;
	return errors_add(s->errors, s->file, s->line, "more than %d settings in one group: use several files, or a list",
			  CONF_MEMBERS_MAX);
}

/* At an @ that starts a line. */
static int scan_include(struct scan *s)
{
	static const char word[] = "@include";
	struct scan_include *list;
	const char *start = s->p, *p = start, *end;
	int line = s->line;
	char *path;

	if (strncmp(p, word, sizeof(word) - 1) != 0) {
		s->p++;
		return 0;
	}
	p += sizeof(word) - 1;
	/* What libconfig would not take for one is left to it to refuse. */
	if (*p != ' ' && *p != '\t') {
		s->p = p;
		return 0;
	}
	while (*p == ' ' || *p == '\t')
		p++;
	if (*p != '"') {
		s->p = p;
		return 0;
	}
	s->p = p;
	if (scan_string(s) < 0)
		return -EINVAL;
	end = s->p - 1;
	if (memchr(p, '\n', (size_t)(end - p)))
		return errors_add(s->errors, s->file, line, "@include needs a plain file name");
	list = realloc(s->list, (s->len + 1) * sizeof(*list));
	if (!list)
		return -ENOMEM;
	s->list = list;
	path = strndup(p + 1, (size_t)(end - p - 1));
	if (!path)
		return -ENOMEM;
	s->list[s->len++] = (struct scan_include){ path, line, (size_t)(start - s->text), (size_t)(s->p - s->text) };
	return 0;
}

static int scan_token(struct scan *s)
{
	char c = *s->p;

	if (c == '@' && s->at_line_start) {
		s->at_line_start = false;
		return scan_include(s);
	}
	if (c == ' ' || c == '\t' || c == '\n') {
		if (c == '\n') {
			s->line++;
			s->at_line_start = true;
		}
		s->p++;
		return 0;
	}
	s->at_line_start = false;
	if (c == '"')
		return scan_string(s);
	if (c == '/' && s->p[1] == '*')
		return scan_comment(s);
	if (c == '#' || (c == '/' && s->p[1] == '/')) {
		s->p += strcspn(s->p, "\n");
		return 0;
	}
	if (strchr("(){}[]", c))
		return scan_depth(s);
	if (c == '=' || c == ':')
		return scan_member(s);
	if (isdigit((unsigned char)c))
		return scan_number(s);
	if (isalpha((unsigned char)c) || c == '*') {
		while (isalnum((unsigned char)*s->p) || (*s->p && strchr("_-*", *s->p)))
			s->p++;
		return 0;
	}
	s->p++;
	return 0;
}

int scan_text(const char *file, const char *text, struct errors *errors, struct scan_include **ret, size_t *ret_len)
{
	struct scan s = { .file = file, .text = text, .p = text, .line = 1, .at_line_start = true, .errors = errors };
	int r = 0;

	while (*s.p) {
		int q = scan_token(&s);

		if (q < 0)
			r = q;
		/* Numbers are told one by one; behind the others nothing can be made out. */
		if (q == -ENOMEM || (q < 0 && s.depth > CONF_DEPTH_MAX))
			break;
	}
	if (r < 0) {
		scan_includes_free(s.list, s.len);
		return r;
	}
	*ret = s.list;
	*ret_len = s.len;
	return 0;
}

void scan_includes_free(struct scan_include *list, size_t len)
{
	for (size_t i = 0; i < len; i++)
		free(list[i].path);
	free(list);
}
