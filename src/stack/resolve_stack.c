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

#define MODULE_MAX 64
/* A program that starts maps file after file: its mappings are not read anew for each. */
#define STALE_NS (200 * NSEC_PER_MSEC)

/* One stack on its way. */
struct work {
	struct resolve *rs;
	struct resolve_process *p;
	const struct event_stack *raw;
	struct unwound unwound;
	struct merge merge;
	struct strbuf strings; /* names; frames hold offsets + 1 until they stop moving */
	size_t unnamed;	 /* Python frames whose code could not be read */
	bool is_gone;	 /* ... because the process was gone */
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
		.is_truncated = raw->flags & STACK_F_TRUNCATED,
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
	if (!resolve_space(w->rs, w->p, w->raw->head.time_ns))
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
		else if (w->p->unsupported > 1)
			add_info(sb, "frames of Python %u.%u are not supported", w->p->unsupported >> 24,
				 w->p->unsupported >> 16 & 0xff);
		else if (w->p->unsupported)
			add_info(sb, "frames of this build of Python are not supported");
		return;
	}
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
	f->space = address_space_ref(w->p->space);
	for (size_t i = 0; i < w->merge.count; i++) {
		const struct merge_entry *e = &w->merge.list[i];
		const struct unwound_frame *u = &w->unwound.frames[e->index];

		if (e->is_python)
			python_frame(w, &w->raw->python.frame[e->index], &f->list[i]);
		else
			f->list[i] = (struct frame){ .kind = FRAME_NATIVE,
						     .is_exact = u->is_exact,
						     .is_signal = u->is_signal,
						     .is_guessed = u->is_guessed,
						     .pc = u->pc,
						     .mapping = frame_mapping(w, u) };
	}
	f->count = w->merge.count;
	r = strbuf_steal(&w->strings, &strings);
	if (r < 0)
		return r;
	finish_strings(f, strings);
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

static void forget_all(struct resolve *rs, struct resolve_process *p)
{
	rs->stats.relearned++;
	rs->nodes -= p->tree.nodes.len;
	learn_tree_clear(&p->tree, put_node, rs);
	map64_done(&p->exact);
	p->exact = (struct map64){};
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
	size_t before;
	int r;

	if (!is_lasting(w->unwound.reason))
		return 0;
	/* A split takes two nodes more. */
	if (rs->nodes + 2 > rs->options.learned)
		forget_all(rs, p);
	before = p->tree.nodes.len;
	r = learn_path(w->raw, &w->unwound, &path);
	if (r == 0)
		r = learn_tree_add(&p->tree, w->raw, &path, put_node, rs, &stack);
	rs->nodes += p->tree.nodes.len - before;
	if (r == -EEXIST)
		return 0; /* sent again before it was learned, or dropped by the probe */
	if (r < 0) {
		rs->stats.unlearnable++;
		log_debug("a stack of process %u cannot be learned: %s", p->pid, strerror(-r));
		return 0;
	}
	rs->stats.learned++;
	return stack;
}

void resolve_forget_stack(struct resolve *rs, uint32_t pid, uint64_t number)
{
	struct resolve_process *p = resolve_process_find(rs, pid);

	if (!p)
		return;
	rs->nodes -= p->tree.nodes.len;
	learn_tree_remove(&p->tree, number, put_node, rs);
	rs->nodes += p->tree.nodes.len;
	(void)map64_remove(&p->exact, number);
}

/* The probe took it for a stack that it knows: is it that one? */
static void check(struct work *w, uint64_t exact)
{
	const uint64_t number = w->raw->head.stack;
	const uint64_t known = (uintptr_t)map64_get(&w->p->exact, number);

	if (!known || is_unmapped(&w->unwound))
		return;
	w->rs->stats.checked++;
	if (known == (exact ?: 1))
		return;
	w->rs->stats.mismatched++;
	log_debug("stack %llu of process %u was taken for another one", (unsigned long long)number, w->p->pid);
	resolve_forget_stack(w->rs, w->p->pid, number);
}

void resolve_stack(struct resolve *rs, struct resolve_process *p, struct stack *s)
{
	_cleanup_(work_done) struct work w = { .rs = rs, .p = p, .raw = s->raw };
	_cleanup_(frames_freep) struct frames *f = NULL;
	const uint64_t now = clock_monotonic_ns();
	uint64_t learned = 0;
	int r;

	/* Without waiting for the time: this stack shows what was missing. */
	if (p->wants_python && !(s->raw->flags & STACK_F_PYTHON) && p->python_due_ns > now && !p->python_tries)
		p->python_due_ns = now;
	resolve_python(rs, p, now);
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
		stack_set_frames(s, NULL);
		return;
	}
	rs->stats.resolved++;
	rs->stats.incomplete += f->info != NULL;
	if (s->raw->flags & STACK_F_CHECK)
		check(&w, f->exact);
	else if (learned)
		(void)map64_put(&p->exact, learned, (void *)(uintptr_t)(f->exact ?: 1));
	stack_set_frames(s, TAKE_PTR(f));
}
