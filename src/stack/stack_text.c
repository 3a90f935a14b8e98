/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "bpf/event.h"
#include "stack/demangle.h"
#include "stack/object.h"
#include "stack/site_key.h"
#include "stack/stack_text.h"

const char *mapping_module(const struct mapping *m, size_t *ret_len)
{
	const size_t len = mapping_path_len(m);
	const char *slash = len ? memrchr(m->path, '/', len) : NULL, *name;

	/* "[vdso]" and "[anon:a/b]" are names, not paths. */
	if (!slash || m->path[0] != '/') {
		*ret_len = len;
		return m->path;
	}
	name = slash + 1;
	*ret_len = len - (size_t)(name - m->path);
	return name;
}

static void add_module(struct strbuf *sb, const struct mapping *m)
{
	size_t len;
	const char *name = mapping_module(m, &len);

	text_escape(sb, name, len, FRAME_MODULE_MAX);
}

void frame_symbol(struct strbuf *sb, const char *symbol, uint64_t offset, const struct mapping *m)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

	demangle(&name, symbol, FRAME_NAME_MAX - 3); /* and its "..." */
	if (name.error)
		sb->error = name.error;
	text_escape(sb, strbuf_str(&name), name.len, FRAME_NAME_MAX);
	strbuf_addf(sb, "+0x%llx (", (unsigned long long)offset);
	add_module(sb, m);
	strbuf_addc(sb, ')');
}

void frame_module(struct strbuf *sb, uint64_t offset, const struct mapping *m)
{
	add_module(sb, m);
	strbuf_addf(sb, "+0x%llx", (unsigned long long)offset);
}

void frame_line(struct strbuf *sb, const char *file, uint32_t line)
{
	strbuf_adds(sb, " at ");
	text_escape(sb, file, strlen(file), FRAME_FILE_MAX);
	strbuf_addf(sb, ":%u", line);
}

void frame_address(struct strbuf *sb, uint64_t ip, const struct mapping *m)
{
	if (m && m->path && strcmp(m->path, "[uprobes]") == 0)
		strbuf_adds(sb, m->path); /* where in it says nothing */
	else if (m && m->path && m->path[0])
		frame_module(sb, ip - m->start, m);
	else
		strbuf_addf(sb, "0x%llx", (unsigned long long)ip);
}

/* Nothing is said twice: what of a place is not known is one question mark. */
void frame_python(struct strbuf *sb, const char *function, const char *file, uint32_t line)
{
	const char *name = function ? function : "?", *place = file ? python_file_short(file) : "?";

	text_escape(sb, name, strlen(name), FRAME_NAME_MAX);
	strbuf_adds(sb, " (");
	text_escape(sb, place, strlen(place), FRAME_FILE_MAX);
	if (line)
		strbuf_addf(sb, ":%u", line);
	else if (file)
		strbuf_adds(sb, ":?");
	strbuf_addc(sb, ')');
}

int stack_text_new(size_t len, struct stack_text **ret)
{
	_cleanup_(stack_text_freep) struct stack_text *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	if (len) {
		t->frames = calloc(len, sizeof(*t->frames));
		if (!t->frames)
			return -ENOMEM;
		t->len = len;
	}
	*ret = TAKE_PTR(t);
	return 0;
}

void stack_text_free(struct stack_text *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->len; i++)
		free(t->frames[i].text);
	free(t->frames);
	free(t->id);
	free(t->info);
	free(t);
}

static void explain_reason(struct strbuf *sb, uint8_t reason)
{
	switch (reason) {
	case STACK_OK:
		strbuf_adds(sb, "no stack was kept");
		break;
	case STACK_NONE:
		strbuf_adds(sb, "this kind of event carries no stack");
		break;
	case STACK_FAULT:
		strbuf_adds(sb, "the stack could not be read: fault at its first word");
		break;
	case STACK_SAMPLED:
		strbuf_adds(sb, "sampled: more new stacks a second than stacks_per_second allows; the bytes are exact");
		break;
	case STACK_LOST:
		strbuf_adds(sb, "lost: the event buffer was full");
		break;
	case STACK_EVICTED:
		strbuf_adds(sb, "dropped: too many stacks of this process");
		break;
	default:
		strbuf_addf(sb, "unknown reason %u", reason);
		break;
	}
}

int stack_text_explain(struct stack_text *t, const struct stack *stack, bool is_done, const struct frames *f,
		       uint8_t reason, bool is_gone)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	if (f && f->info)
		strbuf_adds(&sb, f->info);
	else if (stack && !f && !is_done)
		strbuf_adds(&sb, "not unwound in time");
	else if (stack && !f)
		strbuf_adds(&sb, "could not be unwound: too many new stacks were waiting");
	else if (!t->len)
		explain_reason(&sb, reason);
	if (is_gone) {
		strbuf_adds(&sb, sb.len ? "; " : "");
		strbuf_adds(&sb, "process ended before its files could be opened");
	}
	return sb.len || sb.error ? strbuf_steal(&sb, &t->info) : 0;
}
