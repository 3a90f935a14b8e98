/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <string.h>

#include <libiberty/demangle.h>
#undef ARRAY_SIZE /* libiberty.h has its own */

#include "base/cleanup.h"
#include "stack/demangle.h"
#include "stack/demangle_rust.h"

/*
 * A name of a few hundred bytes can stand for more output than there are atoms: each part may repeat the two before it.
 * The library cannot be told to stop, so the callback jumps out of it, which it allows by keeping all it has on the stack.
 */
struct sink {
	struct strbuf *out;
	size_t start, max;
	bool is_cut;
	jmp_buf stop;
};

#define NAME_PARSE_MAX 4096 /* longer ones stay as they are: the parser's stack grows with the name */

static void sink_add(struct sink *s, const char *text, size_t len)
{
	const size_t room = s->max - (s->out->len - s->start);

	if (len > room)
		s->is_cut = true;
	strbuf_add(s->out, text, MIN(len, room));
}

static void cpp_piece(const char *text, size_t len, void *arg)
{
	struct sink *s = arg;

	sink_add(s, text, len);
	if (s->is_cut || s->out->error)
		longjmp(s->stop, 1);
}

/* Pieces of old Rust names: as long as the name at most, no need to jump. */
static void rust_piece(const char *text, size_t len, void *arg)
{
	sink_add(arg, text, len);
}

static bool demangle_parts(struct sink *s, const char *name)
{
	if (setjmp(s->stop))
		return true;
	if (name[1] == 'R')
		return demangle_rust(s->out, name, s->max, &s->is_cut);
	if (rust_demangle_callback(name, DMGL_NO_OPTS, rust_piece, s))
		return true;
	strbuf_truncate(s->out, s->start);
	s->is_cut = false;
	if (cplus_demangle_v3_callback(name, DMGL_NO_RECURSE_LIMIT, cpp_piece, s))
		return true;
	strbuf_truncate(s->out, s->start);
	s->is_cut = false;
	return false;
}

void demangle(struct strbuf *sb, const char *name, size_t max)
{
	struct sink s = { .out = sb, .start = sb->len, .max = max };
	const size_t len = strlen(name);

	if (len > NAME_PARSE_MAX || (strncmp(name, "_Z", 2) != 0 && strncmp(name, "_R", 2) != 0) ||
	    !demangle_parts(&s, name)) {
		const char *version = strchr(name, '@');

		sink_add(&s, name, version && version > name ? (size_t)(version - name) : len);
	}
	if (s.is_cut)
		strbuf_adds(sb, "...");
}
