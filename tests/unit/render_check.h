/* SPDX-License-Identifier: MIT */
/* A story as text, and what every such text must be. */
#pragma once

#include <wchar.h>

#include "base/cleanup.h"
#include "render_make.h"
#include "test.h"

static inline char *render(const struct story *s, struct text_options o)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	char *text = NULL;

	make_world();
	render_text(s, &o, &sb);
	if (strbuf_steal(&sb, &text) < 0)
		abort();
	return text;
}

/* Colours are taken out. */
static inline bool strip(char *line)
{
	char *to = line;

	for (char *from = line; *from;) {
		if (*from != '\x1b') {
			*to++ = *from++;
			continue;
		}
		from++;
		if (*from++ != '[')
			return false;
		from += strspn(from, "0123456789;");
		if (*from++ != 'm')
			return false;
	}
	*to = '\0';
	return true;
}

static inline void check_line(char *line, size_t width, bool has_colour)
{
	wchar_t wide[4096];
	size_t n;
	int columns;

	if ((!has_colour && strchr(line, '\x1b')) || !strip(line)) {
		printf("# control sequence in: %s\n", line);
		test_failures++;
		return;
	}
	n = mbstowcs(wide, line, ARRAY_SIZE(wide));
	columns = n < ARRAY_SIZE(wide) ? wcswidth(wide, n) : -1;
	if (columns < 0 || (size_t)columns > width) {
		printf("# %d columns of %zu: %s\n", columns, width, line);
		test_failures++;
	}
	if (n > 0 && line[strlen(line) - 1] == ' ') {
		printf("# blanks at the end of: %s\n", line);
		test_failures++;
	}
}

static inline void check(const struct story *s, struct text_options o)
{
	_cleanup_free_ char *text = render(s, o);
	size_t width = o.width ?: 80;

	EXPECT(strlen(text) > 0 && text[strlen(text) - 1] == '\n');
	for (char *line = text, *end; *line; line = end + 1) {
		end = line + strcspn(line, "\n");
		*end = '\0';
		check_line(line, width, o.has_colour);
		for (const char *p = line; o.is_ascii && *p; p++)
			EXPECT((unsigned char)*p < 0x80);
	}
}

static inline void check_all_ways(const struct story *s)
{
	for (unsigned width = 60; width <= 300; width += width < 100 ? 7 : 61) {
		check(s, (struct text_options){ .width = width });
		check(s, (struct text_options){ .width = width, .is_ascii = true });
	}
	check(s, (struct text_options){ .width = 80, .has_colour = true });
	check(s, (struct text_options){ .has_colour = true, .is_ascii = true });
}
