/* SPDX-License-Identifier: MIT */
#include "base/error.h"

#include <stdarg.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/text.h"

/* Keeps the start, which says what it is about, and the end, which says what to do. */
static void cut_middle(char *text)
{
	static const char dots[] = " ... ";
	const size_t half = (ERROR_TEXT_MAX - sizeof(dots)) / 2, len = strlen(text);
	char *head = text + half, *tail = text + len - half;

	if (len <= ERROR_TEXT_MAX)
		return;
	/* Not within a character. */
	while (head > text && ((unsigned char)*head & 0xc0) == 0x80)
		head--;
	while (((unsigned char)*tail & 0xc0) == 0x80)
		tail++;
	memcpy(head, dots, sizeof(dots) - 1);
	memmove(head + sizeof(dots) - 1, tail, strlen(tail) + 1);
}

static void _printf_(5, 0) errors_append(struct errors *e, bool is_warning, const char *file, int line, const char *fmt,
					 va_list ap)
{
	_cleanup_free_ char *text = NULL, *name = NULL;
	struct error *list;

	/* Counted even when it cannot be kept: the input is bad all the same. */
	if (!is_warning)
		e->error_count++;
	if (e->len >= ERRORS_MAX)
		goto drop;
	if (vasprintf(&text, fmt, ap) < 0) {
		text = NULL;
		goto drop;
	}
	cut_middle(text);
	if (file) {
		name = strdup(file);
		if (!name)
			goto drop;
	}
	list = realloc(e->list, (e->len + 1) * sizeof(*list));
	if (!list)
		goto drop;
	e->list = list;
	e->list[e->len++] = (struct error){
		.file = TAKE_PTR(name),
		.line = line,
		.is_warning = is_warning,
		.text = TAKE_PTR(text),
	};
	return;
drop:
	e->dropped_count++;
}

int errors_add(struct errors *e, const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	errors_append(e, false, file, line, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

void errors_warn(struct errors *e, const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	errors_append(e, true, file, line, fmt, ap);
	va_end(ap);
}

static void errors_write(struct strbuf *sb, const struct error *err)
{
	if (err->file) {
		text_one_line(sb, err->file);
		if (err->line > 0)
			strbuf_addf(sb, ":%d", err->line);
		strbuf_adds(sb, ": ");
	}
	strbuf_adds(sb, err->is_warning ? "warning: " : "error: ");
	text_one_line(sb, err->text);
	strbuf_addc(sb, '\n');
}

void errors_print(const struct errors *e, FILE *f)
{
	/* stderr has no buffer: line by line, not byte by byte. */
	for (size_t i = 0; i < e->len; i++) {
		_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

		errors_write(&sb, &e->list[i]);
		(void)fputs(sb.error ? "error: out of memory\n" : sb.buf, f);
	}
	if (e->dropped_count > 0)
		(void)fprintf(f, "%s: %zu more not shown\n", e->error_count > 0 ? "error" : "warning",
			      e->dropped_count);
}

void errors_done(struct errors *e)
{
	for (size_t i = 0; i < e->len; i++) {
		free(e->list[i].file);
		free(e->list[i].text);
	}
	free(e->list);
	*e = (struct errors)ERRORS_INIT;
}
