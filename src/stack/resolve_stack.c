/* SPDX-License-Identifier: MIT */
/* One stack: unwound, merged with Python's frames, named as far as that must be done now, and learned. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "stack/learn.h"
#include "stack/merge.h"
#include "stack/resolve.h"
#include "stack/site_key.h"
#include "stack/stack_text.h"
#include "stack/used_space.h"

#define MODULE_MAX 64

/* One stack on its way. */
struct work {
	struct resolve *rs;
	struct resolve_process *p;
	const struct event_stack *raw;
	struct unwound unwound;
	struct merge merge;
	struct strbuf strings; /* names; frames hold offsets + 1 until they stop moving */
	struct frame python[PYTHON_FRAMES_MAX];
	size_t unnamed;	 /* Python frames whose code could not be read */
	bool is_gone;	 /* ... because the process was gone */
	bool has_interpreter; /* native frames of one are in the list */
	size_t guessed;	 /* native frames whose caller was found by the frame pointer */
};

static void work_done(struct work *w)
{
	free(w->merge.list);
	strbuf_done(&w->strings);
}

static void raw_stack_of(const struct event_stack *raw, struct address_space *space, uint32_t pid,
			 struct raw_stack *ret)
{
	*ret = (struct raw_stack){
		.pid = pid,
		.ip = raw->regs.ip,
		.sp = raw->regs.sp,
		.bp = raw->regs.bp,
		.bx = raw->regs.bx,
		.r12 = raw->regs.r12,
		.r13 = raw->regs.r13,
		.r14 = raw->regs.r14,
		.r15 = raw->regs.r15,
		.lr = raw->regs.lr,
		.at_entry = true,
		.copy = raw->copy,
		.copy_len = raw->copy_bytes,
		.missing = raw->missing,
		/* Where the end is not known, the copy ends with the memory, and what is needed lies on another stack. */
		.is_truncated = (raw->flags & (STACK_F_TRUNCATED | STACK_F_NO_TOP)) == STACK_F_TRUNCATED,
		.space = space,
	};
}

static bool is_unmapped(const struct unwound *u)
{
	return u->reason == UNWIND_NOT_MAPPED || u->reason == UNWIND_NO_MAPS;
}

/* With the mappings as they are known, and if code turns up that is in none of them, as they are now. */
static int unwind_raw(struct work *w)
{
	struct raw_stack s;
	int r;

	(void)resolve_space(w->rs, w->p, w->p->space ? 0 : UINT64_MAX);
	raw_stack_of(w->raw, w->p->space, w->p->pid, &s);
	r = unwind(w->rs->unwinder, &s, &w->unwound);
	if (r < 0 || !(is_unmapped(&w->unwound) ||
		       (w->p->is_stale && w->raw->head.time_ns - w->p->space_ns > STALE_NS)))
		return r;
	if (clock_monotonic_ns() - w->p->space_ns < REST_FACTOR * w->p->space_cost_ns ||
	    !resolve_space(w->rs, w->p, w->raw->head.time_ns))
		return r;
	raw_stack_of(w->raw, w->p->space, w->p->pid, &s);
	return unwind(w->rs->unwinder, &s, &w->unwound);
}

static const struct mapping *frame_mapping(const struct work *w, const struct unwound_frame *f)
{
	return address_space_find(w->p->space, f->is_exact ? f->pc : f->pc - 1);
}

/* By name, because nothing hangs on it: an interpreter of another name shows its C functions too. */
static bool is_interpreter(const struct mapping *m)
{
	size_t len = 0;
	const char *name = m && mapping_is_file(m) ? mapping_module(m, &len) : NULL;

	return (len >= 6 && memcmp(name, "python", 6) == 0) || (len >= 9 && memcmp(name, "libpython", 9) == 0);
}

static int merge_raw(struct work *w)
{
	const bool has_python = w->p->has_python && w->raw->flags & STACK_F_PYTHON;
	const struct merge_python python = { .stack = has_python ? &w->raw->python : NULL,
					     .eval_start = w->p->eval_start,
					     .eval_end = w->p->eval_end };
	_cleanup_free_ bool *interpreter = calloc(w->unwound.count + 1, sizeof(*interpreter));

	if (!interpreter)
		return -ENOMEM;
	for (size_t i = 0; i < w->unwound.count; i++)
		interpreter[i] = is_interpreter(frame_mapping(w, &w->unwound.frames[i]));
	return merge_frames(&w->unwound, w->raw->regs.sp, &python, interpreter, &w->merge);
}

static const char *keep_string(struct work *w, const char *text)
{
	const size_t at = w->strings.len + 1;

	strbuf_add(&w->strings, text, strlen(text) + 1);
	return (const char *)(uintptr_t)at; /* see finish_strings() */
}

static void python_frame(struct work *w, const struct python_frame *raw, struct frame *ret)
{
	struct memory m = memory_of(w->rs->options.proc_root, w->p->pid, w->p->start_ns);
	struct python_name name = {};
	int r;

	*ret = (struct frame){ .kind = FRAME_PYTHON };
	r = python_codes_resolve(w->rs->codes, &m, &w->p->python, raw, &name);
	if (r < 0) {
		w->unnamed++;
		w->is_gone |= r == -ESRCH;
		return;
	}
	ret->function = keep_string(w, name.function ? name.function : "?");
	ret->file = keep_string(w, name.file ? name.file : "?");
	ret->line = name.line;
}

/* At once: code can be freed, and the process may end. */
static void name_python(struct work *w)
{
	if (!w->p->has_python || !(w->raw->flags & STACK_F_PYTHON))
		return;
	for (uint32_t i = 0; i < w->raw->python.count; i++)
		python_frame(w, &w->raw->python.frame[i], &w->python[i]);
}

static void finish_strings(struct frames *f, char *strings)
{
	f->strings = strings;
	for (size_t i = 0; i < f->count; i++) {
		struct frame *fr = &f->list[i];

		if (fr->function)
			fr->function = strings + ((uintptr_t)fr->function - 1);
		if (fr->file)
			fr->file = strings + ((uintptr_t)fr->file - 1);
	}
}

static void add_module(struct strbuf *sb, const struct mapping *m)
{
	size_t len = 0;
	const char *name = m && m->path ? mapping_module(m, &len) : NULL;

	if (!name || !len)
		return;
	strbuf_adds(sb, " in ");
	text_escape(sb, name, len, MODULE_MAX);
}

_printf_(2, 3) static void add_info(struct strbuf *sb, const char *fmt, ...)
{
	char text[160];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	strbuf_adds(sb, sb->len ? "; " : "");
	strbuf_adds(sb, text);
}

static void explain_python(const struct work *w, struct strbuf *sb)
{
	const struct python_stack *py = &w->raw->python;

	if (!(w->raw->flags & STACK_F_PYTHON)) {
		if (w->p->has_python)
			add_info(sb, "taken before Python was found in this process");
		else if (w->has_interpreter && !w->p->unsupported)
			add_info(sb, "Python frames not known: Python was not found in time");
		else if (w->p->unsupported > 1)
			add_info(sb, "frames of Python %u.%u are not supported", w->p->unsupported >> 24,
				 w->p->unsupported >> 16 & 0xff);
		else if (w->p->unsupported)
			add_info(sb, "frames of this build of Python are not supported");
		return;
	}
	if (py->count && !w->p->has_python)
		add_info(sb, "%u Python frames without a name: Python is not known here any more", py->count);
	if (py->flags & PYTHON_F_TRUNCATED)
		add_info(sb, "Python frames cut at %d", PYTHON_FRAMES_MAX);
	if (py->flags & PYTHON_F_FAULT)
		add_info(sb, "some Python frames could not be read");
	if (w->merge.unplaced)
		add_info(sb, "%zu Python frames have no place among the native ones", w->merge.unplaced);
	if (w->unnamed)
		add_info(sb, "%zu Python frames without a name: %s", w->unnamed,
			 w->is_gone ? "the process ended" : "their code was freed");
}

static int explain(const struct work *w, char **ret)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	const char *why = unwind_reason_text(w->unwound.reason);

	if (why) {
		add_info(&sb, "cut at %zu native frames: %s", w->unwound.count, why);
		add_module(&sb, w->unwound.at);
	}
	if (w->guessed)
		add_info(&sb, "%zu callers found by the frame pointer, for want of unwind information", w->guessed);
	explain_python(w, &sb);
	return sb.len || sb.error ? strbuf_steal(&sb, ret) : 0;
}

static size_t file_of_frame(const struct mapping *m, uint64_t offset, uint8_t ret[64], uint64_t *ret_vaddr,
			    bool *ret_has_vaddr, void *userdata)
{
	struct work *w = userdata;
	_cleanup_(object_unrefp) struct object *ob = NULL;

	*ret_has_vaddr = false;
	if (!mapping_is_file(m) || objects_get(w->rs->options.objects, w->p->pid, m, &ob) < 0 || !ob->elf)
		return 0;
	*ret_has_vaddr = elf_file_vaddr(ob->elf, offset, ret_vaddr) == 0;
	return elf_file_build_id(ob->elf, ret);
}

static int build_frames(struct work *w, struct frames **ret)
{
	_cleanup_(frames_freep) struct frames *f = calloc(1, sizeof(*f));
	char *strings = NULL;
	int r;

	if (!f)
		return -ENOMEM;
	f->list = calloc(w->merge.count + 1, sizeof(*f->list));
	if (!f->list)
		return -ENOMEM;
	for (size_t i = 0; i < w->merge.count; i++) {
		const struct merge_entry *e = &w->merge.list[i];
		const struct unwound_frame *u = e->is_python ? NULL : &w->unwound.frames[e->index];

		if (!u) {
			f->list[i] = w->python[e->index];
		} else {
			f->list[i] = (struct frame){ .kind = FRAME_NATIVE,
						     .is_exact = u->is_exact,
						     .is_signal = u->is_signal,
						     .is_guessed = u->is_guessed,
						     .pc = u->pc,
						     .mapping = frame_mapping(w, u) };
			w->has_interpreter |= is_interpreter(f->list[i].mapping);
			w->guessed += u->is_guessed;
		}
	}
	f->count = w->merge.count;
	r = strbuf_steal(&w->strings, &strings);
	if (r < 0)
		return r;
	finish_strings(f, strings);
	r = w->p->space ? used_space_take(&w->p->used, f, w->p->pid, w->p->start_ns) : 0;
	if (r < 0)
		return r;
	if (atomic_load(&w->rs->is_abandoned))
		return -ECANCELED; /* what was lent may be gone */
	site_key_set(f, w->rs->options.allocators, file_of_frame, w);
	r = explain(w, &f->info);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(f);
	return 0;
}

static int put_node(uint64_t key, const struct stack_path *path, void *userdata)
{
	struct resolve *rs = userdata;
	int r = atomic_load(&rs->is_abandoned) ? -ECANCELED : rs->options.learn(key, path, rs->options.userdata);

	if (r < 0 && path)
		rs->stats.learn_failed++;
	return path ? r : 0;
}

void resolve_drop_stacks(struct resolve_process *p)
{
	size_t iter = 0;
	void *value;

	while (map64_next(&p->stacks, &iter, NULL, &value))
		stack_unref(value);
	map64_done(&p->stacks);
	p->stacks = (struct map64){};
}

void resolve_forget_all(struct resolve *rs, struct resolve_process *p)
{
	rs->nodes -= p->tree.nodes.len;
	learn_tree_clear(&p->tree, put_node, rs);
	resolve_drop_stacks(p);
}

/* Of the process that has most: one that needs little is not to be kept out by one that takes all. */
static void make_room(struct resolve *rs)
{
	struct resolve_process *most = NULL;
	size_t iter = 0;
	void *value;

	while (map64_next(&rs->processes, &iter, NULL, &value)) {
		struct resolve_process *p = value;

		if (!most || p->tree.nodes.len > most->tree.nodes.len)
			most = p;
	}
	if (!most || !most->tree.nodes.len)
		return;
	rs->stats.relearned++;
	resolve_forget_all(rs, most);
}

/* Only what will look the same next time. */
static bool is_lasting(enum unwind_reason reason)
{
	return reason != UNWIND_NO_MAPS && reason != UNWIND_NOT_MAPPED && reason != UNWIND_MISSING &&
	       reason != UNWIND_UNREADABLE && reason != UNWIND_RETURN_PROBE && reason != UNWIND_WORK;
}

/* Tells the probe. Number of the stack if it is new to it, else 0. */
static uint64_t learn(struct work *w)
{
	struct resolve *rs = w->rs;
	struct resolve_process *p = w->p;
	struct stack_path path = {};
	uint64_t stack = 0;
	const uint64_t failed = rs->stats.learn_failed;
	size_t before;
	int r;

	if (!is_lasting(w->unwound.reason))
		return 0;
	/* A split takes two nodes more. */
	if (rs->nodes + 2 > rs->options.learned)
		make_room(rs);
	before = p->tree.nodes.len;
	r = learn_path(w->raw, &w->unwound, &path);
	if (r == 0)
		r = learn_tree_add(&p->tree, w->raw, &path, put_node, rs, &stack);
	rs->nodes += p->tree.nodes.len - before;
	if (r == -EEXIST)
		return 0; /* sent again before it was learned, or dropped by the probe */
	if (r < 0) {
		rs->stats.unlearnable += rs->stats.learn_failed == failed;
		log_debug("a stack of process %u cannot be learned: %s", p->pid, strerror(-r));
		return 0;
	}
	rs->stats.learned++;
	return stack;
}

static void unlearn(struct resolve *rs, struct resolve_process *p, uint64_t number)
{
	rs->nodes -= p->tree.nodes.len;
	learn_tree_remove(&p->tree, number, put_node, rs);
	rs->nodes += p->tree.nodes.len;
	stack_unref(map64_remove(&p->stacks, number));
}

void resolve_forget_stack(struct resolve *rs, uint32_t pid, uint64_t number)
{
	struct resolve_process *p = resolve_process_find(rs, pid);

	if (p && map64_get(&p->stacks, number))
		unlearn(rs, p, number);
}

/* The probe took it for a stack that it knows: is it that one? */
static void check(struct work *w, uint64_t exact)
{
	const uint64_t number = w->raw->head.stack;
	const struct stack *known = map64_get(&w->p->stacks, number);

	/* Frames that could not be had this time say nothing. */
	if (!known || !is_lasting(w->unwound.reason) || w->unnamed)
		return;
	w->rs->stats.checked++;
	if (stack_frames(known)->exact == exact)
		return;
	w->rs->stats.mismatched++;
	log_debug("stack %llu of process %u was taken for another one", (unsigned long long)number, w->p->pid);
	unlearn(w->rs, w->p, number);
}

/* Until a stack is learned, a loop sends it some hundred times. */
static bool resolve_again(struct resolve *rs, struct resolve_process *p, struct stack *s)
{
	const uint64_t number = learn_tree_find(&p->tree, s->raw);
	const struct stack *known = number ? map64_get(&p->stacks, number) : NULL;

	if (!known)
		return false;
	/* Taken after it was learned: then the probe's map has lost it. */
	if (s->raw->head.time_ns > known->learned_ns)
		learn_tree_repeat(&p->tree, s->raw, put_node, rs);
	rs->stats.repeated++;
	stack_set_frames(s, stack_frames_ref(known));
	return true;
}

void resolve_stack(struct resolve *rs, struct resolve_process *p, struct stack *s)
{
	_cleanup_(work_done) struct work w = { .rs = rs, .p = p, .raw = s->raw };
	_cleanup_(frames_freep) struct frames *f = NULL;
	const uint64_t now = clock_monotonic_ns();
	uint64_t learned = 0;
	int r;

	if (!(s->raw->flags & STACK_F_CHECK) && resolve_again(rs, p, s))
		return;
	/* This stack shows what was missing. */
	if (!(s->raw->flags & STACK_F_PYTHON))
		resolve_python_soon(p, now);
	resolve_python(rs, p, now);
	name_python(&w);
	r = unwind_raw(&w);
	/* At once: until then the same stack is sent again and again. */
	if (r == 0 && !(s->raw->flags & STACK_F_CHECK))
		learned = learn(&w);
	if (r == 0)
		r = merge_raw(&w);
	if (r == 0)
		r = build_frames(&w, &f);
	if (r < 0) {
		log_debug("a stack of process %u could not be resolved: %s", p->pid, strerror(-r));
		if (learned) /* better sent anew than known without frames */
			unlearn(rs, p, learned);
		stack_set_frames(s, NULL);
		return;
	}
	rs->stats.resolved++;
	rs->stats.incomplete += f->info != NULL;
	if (s->raw->flags & STACK_F_CHECK)
		check(&w, f->exact);
	stack_set_frames(s, TAKE_PTR(f));
	s->learned_ns = clock_monotonic_ns();
	if (!learned)
		return;
	if (map64_put(&p->stacks, learned, s) == 0)
		(void)stack_ref(s);
	else
		unlearn(rs, p, learned);
	/* Leaves that a tree built anew had no place for. */
	if (p->stacks.len > 2 * p->tree.leaves + 64)
		resolve_forget_all(rs, p);
}
