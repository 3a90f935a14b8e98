/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "proc/procfs.h"
#include "stack/debug_info.h"
#include "stack/name_cache.h"
#include "stack/object.h"
#include "stack/stack_text.h"
#include "stack/symbolizer.h"

/*
 * Unpacking .gnu_debugdata takes time: 110 ms for one of 150,000 symbols, against 1 ms for looking one of them up. What
 * is unpacked is kept for the next stacks; everything else of a file is found again in less than 0.1 ms.
 */
#define KEPT_MAX 4
#define KEPT_BYTES_MIN 4096
#define KEPT_BYTES_MAX (32u << 20)

/* For the files of one stack. */
#define STACK_NS NSEC_PER_SEC

struct kept {
	struct object *object; /* a reference; NULL = empty */
	struct debug_info *info;
};

struct symbolizer {
	struct objects *objects;
	struct name_cache names;
	struct debug_limits limits;
	struct kept kept[KEPT_MAX]; /* the last used first */
};

/* A frame in its file. */
struct place {
	uint64_t offset; /* in the file */
	uint64_t vaddr;	 /* in the file, if has_vaddr */
	bool is_return;
	bool has_vaddr;
	bool is_done;
};

struct work {
	struct symbolizer *s;
	const struct frames *frames;
	struct place *places;
	struct text_frame *texts;
	bool has_unopened;
	uint64_t deadline_ns; /* monotonic; then no more files are read for names */
};

int symbolizer_new(struct objects *objects, const struct symbolizer_limits *limits, struct symbolizer **ret)
{
	struct symbolizer *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->objects = objects_ref(objects);
	s->names.max_bytes = limits->cache_bytes;
	s->limits = (struct debug_limits)DEBUG_LIMITS_DEFAULT;
	s->limits.max_symbols = limits->max_symbols;
	*ret = s;
	return 0;
}

static void kept_done(struct kept *k)
{
	debug_info_free(k->info);
	object_unref(k->object);
	*k = (struct kept){};
}

static struct kept take_kept(struct symbolizer *s, size_t i)
{
	const struct kept k = s->kept[i];

	memmove(&s->kept[i], &s->kept[i + 1], (KEPT_MAX - 1 - i) * sizeof(k));
	s->kept[KEPT_MAX - 1] = (struct kept){};
	return k;
}

static int open_info(struct symbolizer *s, struct object *ob, uint32_t pid, struct kept *ret)
{
	_cleanup_strbuf_ struct strbuf root = STRBUF_INIT;
	struct debug_info *info = NULL;
	int r;

	for (size_t i = 0; i < KEPT_MAX; i++) {
		if (s->kept[i].object == ob) {
			*ret = take_kept(s, i);
			return 0;
		}
	}
	strbuf_addf(&root, "%s/%u/root", objects_proc_root(s->objects), pid);
	if (root.error)
		return root.error;
	r = debug_info_open(ob->elf, strbuf_str(&root), ob->path, &s->limits, &info);
	if (r == 0)
		*ret = (struct kept){ .object = object_ref(ob), .info = info };
	return r;
}

static void keep_info(struct symbolizer *s, struct kept *k)
{
	size_t bytes = 0;

	if (debug_info_bytes(k->info) < KEPT_BYTES_MIN) {
		kept_done(k);
		return;
	}
	kept_done(&s->kept[KEPT_MAX - 1]);
	memmove(&s->kept[1], &s->kept[0], (KEPT_MAX - 1) * sizeof(*k));
	s->kept[0] = *k;
	*k = (struct kept){};
	for (size_t i = 0; i < KEPT_MAX; i++) {
		bytes += s->kept[i].info ? debug_info_bytes(s->kept[i].info) : 0;
		if (bytes > KEPT_BYTES_MAX)
			kept_done(&s->kept[i]);
	}
}

/* What the table has closed is ours alone: it holds up a disk or a mount. */
static void drop_closed(struct symbolizer *s)
{
	for (size_t i = KEPT_MAX; i-- > 0;) {
		struct kept *k = &s->kept[i];

		if (k->object && atomic_load_explicit(&k->object->refs, memory_order_relaxed) == 1) {
			struct kept closed = take_kept(s, i);

			kept_done(&closed);
		}
	}
}

void symbolizer_free(struct symbolizer *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < KEPT_MAX; i++)
		kept_done(&s->kept[i]);
	name_cache_done(&s->names);
	objects_unref(s->objects);
	free(s);
}

/* A return address may be the first byte of the next function, even of the next mapping: its call lies before it. */
static void locate(const struct frame *fr, struct place *p)
{
	p->is_return = !fr->is_exact && fr->pc > 0;
	if (fr->mapping)
		p->offset = fr->pc - p->is_return - fr->mapping->start + fr->mapping->offset;
}

/* A frame of a file without a symbol. */
static void add_without_symbol(struct strbuf *sb, const struct frame *fr, const struct place *p)
{
	frame_module(sb, (p->has_vaddr ? p->vaddr : p->offset) + p->is_return, fr->mapping);
}

static int text_without_symbol(struct work *w, size_t i)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	add_without_symbol(&sb, &w->frames->list[i], &w->places[i]);
	return strbuf_steal(&sb, &w->texts[i].text);
}

static int text_without_file(struct work *w, size_t i)
{
	const struct frame *fr = &w->frames->list[i];
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	if (fr->kind == FRAME_PYTHON)
		frame_python(&sb, fr->function, fr->file, fr->line);
	else
		frame_address(&sb, fr->pc, fr->mapping);
	return strbuf_steal(&sb, &w->texts[i].text);
}

/* The frames of one file that the cache did not know. */
struct batch {
	size_t *index; /* of the frame */
	struct elf_symbol *symbols;
	struct debug_line *lines;
	size_t n;
	bool is_late; /* not looked up for lack of time */
};

static void batch_done(struct batch *b)
{
	for (size_t i = 0; i < b->n; i++) {
		free(b->symbols[i].name);
		free(b->lines[i].file);
	}
	free(b->index);
	free(b->symbols);
	free(b->lines);
}

static int batch_new(size_t max, struct batch *ret)
{
	ret->index = calloc(max, sizeof(*ret->index));
	ret->symbols = calloc(max, sizeof(*ret->symbols));
	ret->lines = calloc(max, sizeof(*ret->lines));
	return ret->index && ret->symbols && ret->lines ? 0 : -ENOMEM;
}

static void batch_add(struct batch *b, size_t index, uint64_t vaddr)
{
	b->index[b->n] = index;
	b->symbols[b->n].vaddr = vaddr;
	b->lines[b->n].vaddr = vaddr;
	b->n++;
}

static int batch_look_up(struct work *w, struct object *ob, struct batch *b)
{
	_cleanup_(kept_done) struct kept k = {};
	int r;

	/* Files that take long to read are at most some: the records of others wait. */
	b->is_late = clock_monotonic_ns() > w->deadline_ns;
	if (b->is_late)
		return 0;
	r = open_info(w->s, ob, w->frames->space->pid, &k);
	if (r < 0)
		return r;
	r = debug_info_symbols(k.info, b->symbols, b->n);
	if (r == -ENOMEM)
		return r; /* other errors: the disk failed, names are missing */
	r = debug_info_lines(k.info, b->lines, b->n);
	if (r == 0)
		keep_info(w->s, &k);
	return r;
}

static int batch_text(struct work *w, struct object *ob, struct batch *b)
{
	int r = batch_look_up(w, ob, b);

	for (size_t i = 0; r == 0 && i < b->n; i++) {
		const struct frame *fr = &w->frames->list[b->index[i]];
		const struct place *p = &w->places[b->index[i]];
		const struct elf_symbol *symbol = &b->symbols[i];
		char **text = &w->texts[b->index[i]].text;
		_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

		if (symbol->name)
			frame_symbol(&sb, symbol->name, p->vaddr - symbol->vaddr + p->is_return, fr->mapping);
		else
			add_without_symbol(&sb, fr, p);
		if (b->lines[i].file)
			frame_line(&sb, b->lines[i].file, b->lines[i].line);
		r = strbuf_steal(&sb, text);
		if (r == 0 && !b->is_late)
			r = name_cache_put(&w->s->names, ob->id, p->offset, p->is_return, *text);
	}
	return r;
}

static bool is_in_file(const struct frame *fr)
{
	return fr->kind == FRAME_NATIVE && fr->mapping && mapping_is_file(fr->mapping);
}

/* All frames of first's file, from the first on. ob: NULL if it could not be opened. */
static int resolve_object(struct work *w, struct object *ob, size_t first)
{
	_cleanup_(batch_done) struct batch b = {};
	int r = batch_new(w->frames->count - first, &b);

	for (size_t i = first; r == 0 && i < w->frames->count; i++) {
		const struct frame *fr = &w->frames->list[i];
		struct place *p = &w->places[i];
		const char *known;

		if (p->is_done || !is_in_file(fr) || !mapping_same_file(fr->mapping, w->frames->list[first].mapping))
			continue;
		p->is_done = true;
		if (ob && ob->elf)
			p->has_vaddr = elf_file_vaddr(ob->elf, p->offset, &p->vaddr) == 0;
		known = ob ? name_cache_get(&w->s->names, ob->id, p->offset, p->is_return) : NULL;
		if (known) {
			w->texts[i].text = strdup(known);
			r = w->texts[i].text ? 0 : -ENOMEM;
		} else if (p->has_vaddr) {
			batch_add(&b, i, p->vaddr);
		} else {
			r = text_without_symbol(w, i);
		}
	}
	return r == 0 && b.n ? batch_text(w, ob, &b) : r;
}

static int resolve_frame(struct work *w, size_t i)
{
	const struct frame *fr = &w->frames->list[i];
	_cleanup_(object_unrefp) struct object *ob = NULL;
	int r;

	w->texts[i].is_python = fr->kind == FRAME_PYTHON;
	w->texts[i].is_allocator = fr->is_allocator;
	if (w->places[i].is_done)
		return 0;
	w->has_unopened |= fr->kind == FRAME_NATIVE && !w->frames->space;
	if (!is_in_file(fr) || !w->frames->space)
		return text_without_file(w, i);
	r = objects_get(w->s->objects, w->frames->space->pid, fr->mapping, &ob);
	if (r == -ENOMEM)
		return r;
	w->has_unopened |= r < 0;
	return resolve_object(w, ob, i);
}

static int make_id(uint64_t id, char **ret)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	strbuf_addf(&sb, "%016llx", (unsigned long long)id);
	return strbuf_steal(&sb, ret);
}

static bool is_process_gone(const struct symbolizer *s, const struct address_space *space)
{
	struct proc_stat st;

	/* No maps could be read: only an ended process has none. */
	if (!space || proc_stat_read(objects_proc_root(s->objects), space->pid, &st) < 0)
		return true;
	return space->start_ns && ticks_from_ns(space->start_ns) != st.start_ticks;
}

static int resolve_frames(struct symbolizer *s, const struct frames *f, struct stack_text *t, bool *ret_is_gone)
{
	_cleanup_free_ struct place *places = calloc(f->count, sizeof(*places));
	struct work w = { .s = s, .frames = f, .places = places, .texts = t->frames,
			  .deadline_ns = clock_monotonic_ns() + STACK_NS };

	if (!places)
		return -ENOMEM;
	for (size_t i = 0; i < f->count; i++)
		locate(&f->list[i], &places[i]);
	for (size_t i = 0; i < f->count; i++) {
		int r = resolve_frame(&w, i);

		if (r < 0)
			return r;
	}
	*ret_is_gone = w.has_unopened && is_process_gone(s, f->space);
	return make_id(f->id, &t->id);
}

int symbolizer_resolve(struct symbolizer *s, const struct stack *stack, uint8_t reason, struct stack_text **ret)
{
	_cleanup_(stack_text_freep) struct stack_text *t = NULL;
	/* In this order: once it is done the frames are the last word. */
	const bool is_done = stack && stack_is_done(stack);
	const struct frames *f = stack ? stack_frames(stack) : NULL;
	bool is_gone = false;
	int r;

	r = stack_text_new(f ? f->count : 0, &t);
	if (r == 0 && t->len)
		r = resolve_frames(s, f, t, &is_gone);
	drop_closed(s);
	if (r == 0)
		r = stack_text_explain(t, stack, is_done, f, reason, is_gone);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(t);
	return 0;
}
