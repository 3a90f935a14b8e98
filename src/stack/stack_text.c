/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "bpf/event.h"
#include "stack/demangle.h"
#include "stack/object.h"
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

void frame_address(struct strbuf *sb, uint64_t ip, const struct mapping *m)
{
	if (m && m->path && strcmp(m->path, "[uprobes]") == 0)
		strbuf_adds(sb, m->path); /* where in it says nothing */
	else if (m && m->path && m->path[0])
		frame_module(sb, ip - m->start, m);
	else
		strbuf_addf(sb, "0x%llx", (unsigned long long)ip);
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
		free(t->frames[i]);
	free(t->frames);
	free(t->id);
	free(t->info);
	free(t);
}

int stack_text_explain(struct stack_text *t, uint8_t reason, bool is_gone)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	switch (reason) {
	case STACK_OK:
		if (!t->len)
			strbuf_adds(&sb, "no stack was kept");
		break;
	case STACK_NONE:
		strbuf_adds(&sb, "this kind of event carries no stack");
		break;
	case STACK_FAULT:
		strbuf_adds(&sb, "the stack could not be read: fault at its first word");
		break;
	case STACK_DEPTH:
		strbuf_addf(&sb, "cut at %zu frames", t->len ? t->len : EVENT_STACK_MAX);
		break;
	case STACK_LOST:
		strbuf_adds(&sb, "lost: the event buffer was full");
		break;
	case STACK_EVICTED:
		strbuf_adds(&sb, "dropped: too many stacks of this process");
		break;
	default:
		strbuf_addf(&sb, "unknown reason %u", reason);
		break;
	}
	if (is_gone) {
		strbuf_adds(&sb, sb.len ? "; " : "");
		strbuf_adds(&sb, "process ended before its files could be opened");
	}
	return sb.len || sb.error ? strbuf_steal(&sb, &t->info) : 0;
}
