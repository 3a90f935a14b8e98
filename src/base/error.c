/* SPDX-License-Identifier: MIT */
#include "base/error.h"

#include <stdarg.h>
#include <string.h>

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

/* One line stays one line, whatever a file or its name holds. */
static void errors_print_text(FILE *f, const char *s)
{
	for (; *s; s++)
		(void)fputc((unsigned char)*s < 0x20 || *s == 0x7f ? '?' : *s, f);
}

void errors_print(const struct errors *e, FILE *f)
{
	for (size_t i = 0; i < e->len; i++) {
		const struct error *err = &e->list[i];

		if (err->file) {
			errors_print_text(f, err->file);
			if (err->line > 0)
				(void)fprintf(f, ":%d", err->line);
			(void)fputs(": ", f);
		}
		(void)fputs(err->is_warning ? "warning: " : "error: ", f);
		errors_print_text(f, err->text);
		(void)fputc('\n', f);
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
