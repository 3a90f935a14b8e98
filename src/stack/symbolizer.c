/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map64.h"
#include "bpf/event.h"
#include "proc/procfs.h"
#include "stack/name_cache.h"
#include "stack/object.h"
#include "stack/stack_text.h"
#include "stack/symbolizer.h"

struct symbolizer {
	struct objects objects;
	struct name_cache names;
	uint64_t max_symbols;
};

struct frame {
	const struct mapping *mapping; /* NULL = in none */
	uint64_t offset;	       /* in the file */
	uint64_t vaddr;		       /* in the file, if has_vaddr */
	uint64_t hash;		       /* its part of the stack's id */
	bool is_return;
	bool has_vaddr;
	bool is_done;
};

int symbolizer_new(const char *proc_root, const struct symbolizer_limits *limits, struct symbolizer **ret)
{
	_cleanup_(symbolizer_freep) struct symbolizer *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	r = objects_init(&s->objects, proc_root, limits->objects);
	if (r < 0)
		return r;
	s->names.max_bytes = limits->cache_bytes;
	s->max_symbols = limits->max_symbols;
	*ret = TAKE_PTR(s);
	return 0;
}

void symbolizer_free(struct symbolizer *s)
{
	if (!s)
		return;
	objects_done(&s->objects);
	name_cache_done(&s->names);
	free(s);
}

void symbolizer_trim(struct symbolizer *s, uint64_t idle_ns)
{
	const uint64_t now = clock_monotonic_ns();

	if (now > idle_ns)
		objects_trim(&s->objects, now - idle_ns);
}

/* A return address may be the first byte of the next function, even of the next mapping: its call lies before it. */
static void locate_frames(const struct stack *stack, struct frame *frames)
{
	for (uint32_t i = 0; i < stack->count; i++) {
		struct frame *fr = &frames[i];
		uint64_t at;

		fr->is_return = i > 0 && stack->ip[i] > 0;
		at = stack->ip[i] - fr->is_return;
		fr->mapping = address_space_find(stack->space, at);
		if (fr->mapping)
			fr->offset = at - fr->mapping->start + fr->mapping->offset;
	}
}

void symbolizer_pin(struct symbolizer *s, const struct stack *stack)
{
	_cleanup_free_ struct frame *frames = NULL;
	struct object *ob;

	if (!stack || !stack->count || !stack->space)
		return;
	frames = calloc(stack->count, sizeof(*frames));
	if (!frames)
		return;
	locate_frames(stack, frames);
	for (uint32_t i = 0; i < stack->count; i++) {
		const struct mapping *m = frames[i].mapping;

		if (!m || frames[i].is_done || !mapping_is_file(m))
			continue;
		(void)objects_get(&s->objects, stack->space->pid, m, &ob);
		for (uint32_t j = i; j < stack->count; j++)
			frames[j].is_done |= frames[j].mapping && mapping_same_file(frames[j].mapping, m);
	}
}

/* Kinds of frames in a stack's id: addresses and what depends on the host stay out. */
enum frame_kind { FRAME_UNKNOWN, FRAME_NAMED, FRAME_BUILD_ID, FRAME_BASENAME };

static void hash_frame(struct frame *fr, enum frame_kind kind, const void *data, size_t len, uint64_t offset)
{
	const uint64_t numbers[] = { kind, len, offset };

	fr->hash = hash_bytes(hash_bytes(0, numbers, sizeof(numbers)), data, len);
}

static void hash_in_file(struct frame *fr, const struct object *ob)
{
	uint8_t build_id[64];
	size_t len = ob && ob->elf ? elf_file_build_id(ob->elf, build_id) : 0;
	const char *module;

	if (len && fr->has_vaddr) {
		hash_frame(fr, FRAME_BUILD_ID, build_id, len, fr->vaddr + fr->is_return);
		return;
	}
	/* Not the address even if it is known: the same stack must hash alike when the file could not be opened. */
	module = mapping_module(fr->mapping, &len);
	hash_frame(fr, FRAME_BASENAME, module, len, fr->offset + fr->is_return);
}

/* A frame of a file without a symbol. */
static int text_without_symbol(const struct frame *fr, char **ret)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	frame_module(&sb, (fr->has_vaddr ? fr->vaddr : fr->offset) + fr->is_return, fr->mapping);
	return strbuf_steal(&sb, ret);
}

static int text_outside_files(struct frame *fr, uint64_t ip, char **ret)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	const struct mapping *m = fr->mapping;

	if (m && m->path && m->path[0] == '[')
		hash_frame(fr, FRAME_NAMED, m->path, strlen(m->path), 0);
	else
		hash_frame(fr, FRAME_UNKNOWN, NULL, 0, 0);
	frame_address(&sb, ip, m);
	fr->is_done = true;
	return strbuf_steal(&sb, ret);
}

/* The frames of one file that the cache did not know. */
struct batch {
	uint32_t *index; /* of the frame */
	struct elf_symbol *query;
	size_t n;
};

static void batch_done(struct batch *b)
{
	for (size_t i = 0; i < b->n; i++)
		free(b->query[i].name);
	free(b->query);
	free(b->index);
}

static int batch_text(struct symbolizer *s, const struct object *ob, struct batch *b, const struct frame *frames,
		      char **texts)
{
	int r = 0;

	if (ob->elf)
		r = elf_file_lookup(ob->elf, b->query, b->n, s->max_symbols);
	if (r == -ENOMEM)
		return r; /* other errors: the disk failed, names are missing */
	for (size_t i = 0; i < b->n; i++) {
		const struct frame *fr = &frames[b->index[i]];
		char **text = &texts[b->index[i]];
		_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

		if (b->query[i].name) {
			frame_symbol(&sb, b->query[i].name, fr->vaddr - b->query[i].vaddr + fr->is_return, fr->mapping);
			r = strbuf_steal(&sb, text);
		} else {
			r = text_without_symbol(fr, text);
		}
		if (r < 0)
			return r;
		r = name_cache_put(&s->names, ob->id, fr->offset, fr->is_return, *text);
		if (r < 0)
			return r;
	}
	return 0;
}

/* All frames of first's file, from the first on. */
static int resolve_object(struct symbolizer *s, const struct object *ob, uint32_t first, uint32_t count,
			  struct frame *frames, char **texts)
{
	_cleanup_(batch_done) struct batch b = {};

	b.index = calloc(count, sizeof(*b.index));
	b.query = calloc(count, sizeof(*b.query));
	if (!b.index || !b.query)
		return -ENOMEM;
	for (uint32_t i = first; i < count; i++) {
		struct frame *fr = &frames[i];
		const char *known;

		if (!fr->mapping || fr->is_done || !mapping_same_file(fr->mapping, frames[first].mapping))
			continue;
		fr->is_done = true;
		if (ob->elf)
			fr->has_vaddr = elf_file_vaddr(ob->elf, fr->offset, &fr->vaddr) == 0;
		hash_in_file(fr, ob);
		known = name_cache_get(&s->names, ob->id, fr->offset, fr->is_return);
		if (known) {
			texts[i] = strdup(known);
			if (!texts[i])
				return -ENOMEM;
		} else if (fr->has_vaddr) {
			b.query[b.n].vaddr = fr->vaddr;
			b.index[b.n++] = i;
		} else {
			int r = text_without_symbol(fr, &texts[i]);

			if (r < 0)
				return r;
		}
	}
	return b.n ? batch_text(s, ob, &b, frames, texts) : 0;
}

static int resolve_frames(struct symbolizer *s, const struct stack *stack, struct frame *frames, char **texts,
			  bool *ret_has_unopened)
{
	bool has_unopened = false;

	for (uint32_t i = 0; i < stack->count; i++) {
		struct frame *fr = &frames[i];
		struct object *ob;
		int r;

		if (fr->is_done)
			continue;
		if (!fr->mapping || !mapping_is_file(fr->mapping)) {
			r = text_outside_files(fr, stack->ip[i], &texts[i]);
			if (r < 0)
				return r;
			continue;
		}
		r = objects_get(&s->objects, stack->space->pid, fr->mapping, &ob);
		if (r == 0) {
			r = resolve_object(s, ob, i, stack->count, frames, texts);
		} else if (r != -ENOMEM) {
			has_unopened = true;
			hash_in_file(fr, NULL);
			r = text_without_symbol(fr, &texts[i]);
		}
		if (r < 0)
			return r;
	}
	*ret_has_unopened = has_unopened;
	return 0;
}

static int make_id(const struct frame *frames, uint32_t count, char **ret)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	uint64_t hash = 0;

	for (uint32_t i = 0; i < count; i++)
		hash = hash_bytes(hash, &frames[i].hash, sizeof(frames[i].hash));
	strbuf_addf(&sb, "%016llx", (unsigned long long)hash64(hash));
	return strbuf_steal(&sb, ret);
}

static bool is_process_gone(const struct symbolizer *s, const struct stack *stack)
{
	const struct address_space *space = stack->space;
	struct proc_stat st;

	/* No maps could be read: only an ended process has none. */
	if (!space || proc_stat_read(s->objects.proc_root, space->pid, &st) < 0)
		return true;
	return space->start_ns && ticks_from_ns(space->start_ns) != st.start_ticks;
}

int symbolizer_resolve(struct symbolizer *s, const struct stack *stack, uint8_t reason, struct stack_text **ret)
{
	_cleanup_(stack_text_freep) struct stack_text *t = NULL;
	_cleanup_free_ struct frame *frames = NULL;
	const uint32_t count = stack ? stack->count : 0;
	bool has_unopened = false;
	int r;

	r = stack_text_new(count, &t);
	if (r < 0)
		return r;
	if (count) {
		frames = calloc(count, sizeof(*frames));
		if (!frames)
			return -ENOMEM;
		locate_frames(stack, frames);
		r = resolve_frames(s, stack, frames, t->frames, &has_unopened);
		if (r < 0)
			return r;
		r = make_id(frames, count, &t->id);
		if (r < 0)
			return r;
		has_unopened |= !stack->space;
	}
	r = stack_text_explain(t, stack ? stack->reason : reason, has_unopened && is_process_gone(s, stack));
	if (r < 0)
		return r;
	*ret = TAKE_PTR(t);
	return 0;
}
