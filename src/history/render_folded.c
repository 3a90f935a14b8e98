/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "history/render.h"
#include "record/foreign.h"

/* Readers split at semicolons, and at the last blank. */
static void add_frame(struct strbuf *sb, const char *text)
{
	size_t start = sb->len;

	foreign_escaped(sb, NULL, text, SIZE_MAX);
	for (size_t i = start; i < sb->len; i++) {
		if (sb->buf[i] == ';')
			sb->buf[i] = ',';
		else if (sb->buf[i] == ' ')
			sb->buf[i] = '_';
	}
}

static void add_frames(struct strbuf *sb, const struct story_stack *stack)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	const char *text = stack->text ?: "", *end = text + strlen(text);

	/* The outermost is the last line. */
	while (end > text) {
		const char *newline = memrchr(text, '\n', (size_t)(end - text)), *begin = newline ? newline + 1 : text;

		if (begin < end) {
			strbuf_reset(&line);
			strbuf_add(&line, begin, (size_t)(end - begin));
			strbuf_addc(sb, ';');
			add_frame(sb, strbuf_str(&line));
		}
		end = newline ?: text;
	}
	if (line.error)
		sb->error = line.error;
	if (!*text) {
		strbuf_adds(sb, ";[stack_");
		add_frame(sb, stack->id);
		strbuf_addc(sb, ']');
	}
}

void render_folded(const struct story *s, struct strbuf *sb)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

	for (size_t i = 0; i < s->processes_len; i++) {
		const struct story_process *p = s->processes[i];

		strbuf_reset(&name);
		if (s->hosts_len > 1)
			strbuf_addf(&name, "%s:", p->host->name);
		story_process_name(p, &name);
		for (size_t k = 0; k < p->sites_len; k++) {
			if (p->sites[k].bytes == 0 || p->sites[k].bytes == STORY_ABSENT)
				continue;
			add_frame(sb, strbuf_str(&name));
			add_frames(sb, p->sites[k].stack);
			strbuf_addf(sb, " %llu\n", (unsigned long long)p->sites[k].bytes);
		}
	}
	if (name.error)
		sb->error = name.error;
}
