/* SPDX-License-Identifier: MIT */
/* Stacks as one line of text each. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/map64.h"
#include "base/text.h"
#include "replay/trace.h"
#include "stack/stack_text.h"

#define ALLOCATOR '~'
#define SEPARATOR ';'
/* What these two are written as where they are text. A frame is escaped already, so a backslash in it begins an escape,
 * and no escape is made of a character that is as plain as they are. */
#define ALLOCATOR_ESCAPED "\\x7e"
#define SEPARATOR_ESCAPED "\\x3b"
#define NOTE_MAX 48
#define ID_LEN 16

static const char *text_of(const struct text_frame *f)
{
	return f->text && *f->text ? f->text : "?";
}

static void add_frame(struct strbuf *sb, const struct text_frame *f)
{
	const char *text = text_of(f);

	if (f->is_allocator)
		strbuf_addc(sb, ALLOCATOR);
	if (*text == ALLOCATOR) {
		strbuf_adds(sb, ALLOCATOR_ESCAPED);
		text++;
	}
	while (*text) {
		const size_t len = strcspn(text, "\\;");

		/* Clean already; if not, it becomes so here and not later. */
		text_escape(sb, text, len, 0);
		text += len;
		if (*text == '\\')
			strbuf_addc(sb, '\\');
		else if (*text)
			strbuf_adds(sb, SEPARATOR_ESCAPED);
		text += *text != '\0';
	}
}

void trace_write_stack(struct strbuf *sb, uint64_t stack, const struct stack_text *st)
{
	const size_t start = sb->len;

	strbuf_addf(sb, "stack %llu", (unsigned long long)stack);
	for (size_t i = 0; st && i < st->len; i++) {
		const size_t before = sb->len, missing = st->len - i;

		strbuf_addc(sb, i ? SEPARATOR : ' ');
		add_frame(sb, &st->frames[i]);
		/* The outermost frames say least. Before the last of them there must be room for the note. */
		if (sb->error || sb->len - start + (missing > 1 ? NOTE_MAX : 0) <= TRACE_LINE_MAX)
			continue;
		strbuf_truncate(sb, before);
		strbuf_addf(sb, "%c[%zu more frame%s]", i ? SEPARATOR : ' ', missing, missing == 1 ? "" : "s");
		break;
	}
	strbuf_addc(sb, '\n');
}

/* Digits, or the question mark of a line that is not known, up to end. */
static bool is_line(const char *s, const char *end)
{
	if (end - s == 1 && *s == '?')
		return true;
	for (const char *p = s; p < end; p++) {
		if (*p < '0' || *p > '9')
			return false;
	}
	return s < end;
}

/* "+0x12 (": there is one in each native frame that ends in a bracket. */
static bool has_offset(const char *text)
{
	for (const char *p = text; (p = strstr(p, "+0x"));) {
		p += strlen("+0x");
		const size_t digits = strspn(p, "0123456789abcdef");

		if (digits && strncmp(p + digits, " (", 2) == 0)
			return true;
	}
	return false;
}

/* As frame_python() writes it: "function (file:12)", "function (file:?)", "function (?)". */
static bool is_python(const char *text)
{
	const size_t len = strlen(text);
	const char *open = strstr(text, " ("), *end = text + len - 1, *colon;

	if (!open || *end != ')' || has_offset(text))
		return false;
	if (len > 3 && strcmp(end - 3, " (?)") == 0)
		return true;
	colon = memrchr(open, ':', (size_t)(end - open));
	return colon && is_line(colon + 1, end);
}

static int read_frame(const char *s, size_t len, struct text_frame *f)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	const char *end = s + len;

	f->is_allocator = len && *s == ALLOCATOR;
	s += f->is_allocator;
	if (strncmp(s, ALLOCATOR_ESCAPED, strlen(ALLOCATOR_ESCAPED)) == 0) { /* a separator is no part of it */
		strbuf_addc(&sb, ALLOCATOR);
		s += strlen(ALLOCATOR_ESCAPED);
	}
	while (s < end) {
		const char *escape = memmem(s, (size_t)(end - s), SEPARATOR_ESCAPED, strlen(SEPARATOR_ESCAPED));

		strbuf_add(&sb, s, (size_t)((escape ? escape : end) - s));
		s = end;
		if (escape) {
			strbuf_addc(&sb, SEPARATOR);
			s = escape + strlen(SEPARATOR_ESCAPED);
		}
	}
	if (!sb.len)
		strbuf_addc(&sb, '?');
	f->is_python = is_python(strbuf_str(&sb));
	return strbuf_steal(&sb, &f->text);
}

int trace_stack_text(const char *frames, uint64_t id, struct stack_text **ret)
{
	_cleanup_(stack_text_freep) struct stack_text *t = NULL;
	size_t count = *frames != '\0';
	int r;

	for (const char *p = frames; *p; p++)
		count += *p == SEPARATOR;
	r = stack_text_new(count, &t);
	for (size_t i = 0; i < count && r == 0; i++) {
		const size_t len = strcspn(frames, ";");

		r = read_frame(frames, len, &t->frames[i]);
		frames += len + 1;
	}
	if (r == 0 && id && asprintf(&t->id, "%0*llx", ID_LEN, (unsigned long long)id) < 0) {
		t->id = NULL;
		r = -ENOMEM;
	}
	if (r == 0)
		*ret = TAKE_PTR(t);
	return r;
}

uint64_t trace_site_key(const char *frames)
{
	uint64_t all = 0, outside = 0;
	bool has_outside = false;

	while (*frames) {
		const size_t len = strcspn(frames, ";");

		all = hash64(hash_bytes(all, frames, len));
		if (*frames != ALLOCATOR) {
			outside = hash64(hash_bytes(outside, frames, len));
			has_outside = true;
		}
		frames += len;
		frames += *frames == SEPARATOR;
	}
	if (has_outside)
		all = outside;
	return all ? all : 1;
}
