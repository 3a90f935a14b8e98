/* SPDX-License-Identifier: MIT */
/* What is known of the processes whose stacks are resolved. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "proc/procfs.h"
#include "stack/resolve.h"
#include "stack/used_space.h"

/* After something was mapped: an interpreter maps dozens of libraries in a row. */
#define PYTHON_REST_NS (200 * NSEC_PER_MSEC)
/* An interpreter that is not set up yet: looked at again after this, then ever more seldom. */
#define PYTHON_RETRY_NS (50 * NSEC_PER_MSEC)
#define PYTHON_TRIES 12
/* A look takes no more than one part in so many of this thread's time, however many files a process maps. */
#define PYTHON_SHARE 20
/* Symbols of the interpreter's file looked at. */
#define EVAL_SYMBOLS_MAX 8000000
/* Names of code that no stack lay in for so long are read again when one does. The texts that are kept with stacks of a
 * process are its own, and last as long as it. */
#define CODES_IDLE_NS (600 * NSEC_PER_SEC)

/* Tells the probe; see resolver_options. */
static int tell_python(struct resolve *rs, uint32_t pid, const struct python_process *p)
{
	return atomic_load(&rs->is_abandoned) ? -ECANCELED : rs->options.python(pid, p, rs->options.userdata);
}

static void process_free(struct resolve_process *p)
{
	address_space_unref(p->space);
	address_space_unref(p->used);
	learn_tree_clear(&p->tree, NULL, NULL);
	resolve_drop_stacks(p);
	free(p);
}

struct resolve_process *resolve_process_find(struct resolve *rs, uint32_t pid)
{
	return map64_get(&rs->processes, pid);
}

static void drop(struct resolve *rs, struct resolve_process *p)
{
	(void)map64_remove(&rs->processes, p->pid);
	rs->nodes -= p->tree.nodes.len;
	rs->stats.python_processes -= p->has_python;
	/* The probe has taken it off by itself when the process ended, but not if we put it there later. */
	if (p->has_python)
		(void)tell_python(rs, p->pid, NULL);
	process_free(p);
}

void resolve_process_drop(struct resolve *rs, uint32_t pid, uint64_t start_ns)
{
	struct resolve_process *p = resolve_process_find(rs, pid);

	if (!p)
		return;
	if (start_ns && p->start_ns && p->start_ns != start_ns)
		return;
	/* The end of an earlier bearer of the pid. */
	if (start_ns && !p->start_ns && p->start_ticks && p->start_ticks != ticks_from_ns(start_ns))
		return;
	drop(rs, p);
}

void resolve_mapped(struct resolve_process *p, uint64_t now_ns)
{
	const uint64_t due = MAX(now_ns + PYTHON_REST_NS, p->python_next_ns);

	p->is_stale = true;
	if (p->has_python || (p->wants_python && p->python_due_ns <= due))
		return;
	p->wants_python = true;
	p->python_tries = 0;
	p->python_due_ns = due;
}

/* Put in the map of the probe, unless the process has ended meanwhile: its end has taken away what was there by then. */
static int tell_probe(struct resolve *rs, struct resolve_process *p, const struct memory *m)
{
	uint64_t first = 0;
	int r;

	r = tell_python(rs, p->pid, &p->python.probe);
	if (r < 0)
		return r;
	/* The same image still? */
	r = memory_read(m, p->python.probe.heads, &first, sizeof(first));
	if (r == 0 && !first)
		r = -ESRCH;
	if (r == 0)
		r = memory_check(m);
	if (r < 0)
		(void)tell_python(rs, p->pid, NULL);
	return r;
}

/*
 * Of a process that was not traced an exec is not heard of: it may have become another program, and the probe has
 * forgotten its Python.
 */
static void look_again(struct resolve *rs, struct resolve_process *p)
{
	struct memory m = memory_of(rs->options.proc_root, p->pid, p->start_ns);
	struct python_info info = {};

	if (p->has_python && python_layout_of(&m, p->python.runtime, p->python.version, &info) == 0) {
		p->is_stale = true;
		p->python.probe.serial = ++rs->serial;
		p->python.probe.start_ns = p->start_ns;
		if (tell_probe(rs, p, &m) == 0)
			return;
	}
	if (p->has_python) {
		(void)tell_python(rs, p->pid, NULL);
		rs->stats.python_processes--;
		p->has_python = false;
	}
	resolve_mapped(p, clock_monotonic_ns());
}

/* Is it the one that was seen when its start was not known? */
static bool is_that(struct resolve *rs, const struct resolve_process *p, uint64_t start_ns)
{
	if (p->start_ns)
		return !start_ns || p->start_ns == start_ns;
	if (start_ns)
		return p->start_ticks == ticks_from_ns(start_ns);
	return process_is_same(rs->options.proc_root, p->pid, p->start_ticks);
}

struct resolve_process *resolve_process(struct resolve *rs, uint32_t pid, uint64_t start_ns)
{
	struct resolve_process *p = resolve_process_find(rs, pid);
	struct proc_stat st;

	if (p && is_that(rs, p, start_ns)) {
		if (p->start_ns)
			return p;
		p->start_ns = start_ns;
		look_again(rs, p);
		if (start_ns && p->wants_python)
			p->python_due_ns = 0; /* it has done much since, and uses the GPU now */
		return p;
	}
	/* What was found of a process whose start was not known was of another one. */
	if (p)
		drop(rs, p);
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = pid;
	p->start_ns = start_ns;
	if (!start_ns && proc_stat_read(rs->options.proc_root, pid, &st) == 0)
		p->start_ticks = st.start_ticks;
	p->wants_python = true;
	if (map64_put(&rs->processes, pid, p) < 0) {
		free(p);
		return NULL;
	}
	return p;
}

static bool is_same_space(const struct address_space *a, const struct address_space *b)
{
	if (!a || a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		const struct mapping *m = &a->mappings[i], *n = &b->mappings[i];

		if (m->start != n->start || m->end != n->end || m->offset != n->offset || !mapping_same_file(m, n) ||
		    !m->path != !n->path || (m->path && strcmp(m->path, n->path) != 0))
			return false;
	}
	return true;
}

bool resolve_space(struct resolve *rs, struct resolve_process *p, uint64_t time_ns)
{
	struct address_space *fresh = NULL;
	const uint64_t now = clock_monotonic_ns();

	if (p->space && p->space_ns > time_ns)
		return false;
	if (maps_read(rs->options.proc_root, p->pid, p->start_ns, &fresh) < 0 || !fresh->count) {
		/* Gone: the older picture, and what has been mapped since is shown as bare addresses. */
		address_space_unref(fresh);
		return false;
	}
	p->space_ns = now;
	p->space_cost_ns = clock_monotonic_ns() - now;
	p->is_stale = false;
	/* Other code where stacks were: what the probe knows them by may mean other frames now. */
	if (used_space_changed(p->used, fresh)) {
		resolve_forget_all(rs, p);
		address_space_unref(p->used);
		p->used = NULL;
	}
	/* Stacks hold on to theirs: those of one picture share it. */
	if (is_same_space(p->space, fresh)) {
		address_space_unref(fresh);
		return false;
	}
	address_space_unref(p->space);
	p->space = fresh;
	return true;
}

/* The code of the file that this data belongs to: a file's data lies behind its code. NULL = not known. */
static const struct mapping *code_before(const struct address_space *as, uint64_t data)
{
	const struct mapping *found = NULL;

	for (size_t i = 0; as && i < as->count && as->mappings[i].start < data; i++) {
		if (mapping_is_file(&as->mappings[i]))
			found = &as->mappings[i];
	}
	return found;
}

/* Where the function lies that runs Python's frames: 3.9 and 3.10 do not tell where on the C stack they lie, and in no
 * version is that known of a loop whose outermost frames are missing. */
static void find_eval(struct resolve *rs, struct resolve_process *p)
{
	static const char *const name[] = { "_PyEval_EvalFrameDefault" };
	_cleanup_(object_unrefp) struct object *ob = NULL;
	const struct mapping *code;
	struct elf_symbol sym = {};
	uint64_t offset = 0;

	p->eval_start = p->eval_end = 0;
	(void)resolve_space(rs, p, clock_monotonic_ns());
	code = code_before(p->space, p->python.runtime);
	if (!code || objects_get(rs->options.objects, p->pid, code, &ob) < 0 || !ob->elf ||
	    elf_file_functions(ob->elf, name, 1, EVAL_SYMBOLS_MAX, &offset) != 1 ||
	    elf_file_vaddr(ob->elf, offset, &sym.vaddr) < 0 ||
	    elf_file_lookup(ob->elf, &sym, 1, EVAL_SYMBOLS_MAX) < 0)
		return;
	for (size_t i = 0; sym.name && i < p->space->count; i++) {
		const struct mapping *m = &p->space->mappings[i];

		if (!mapping_same_file(m, code) || offset < m->offset || offset - m->offset >= m->end - m->start)
			continue;
		p->eval_start = m->start + (offset - m->offset);
		p->eval_end = p->eval_start + sym.size;
	}
	free(sym.name);
}

void resolve_python(struct resolve *rs, struct resolve_process *p, uint64_t now_ns)
{
	struct memory m = memory_of(rs->options.proc_root, p->pid, p->start_ns);
	struct python_info info = {};
	uint64_t start, end;
	int r;

	if (!p->wants_python || p->has_python || now_ns < p->python_due_ns)
		return;
	start = clock_monotonic_ns();
	p->wants_python = false;
	r = python_find(&m, ++rs->serial, &info);
	if (r == 0) {
		p->python = info;
		find_eval(rs, p);
		r = tell_probe(rs, p, &m);
	}
	if (r == 0) {
		p->has_python = true;
		rs->stats.python_processes++;
		log_debug("process %u runs Python %u.%u", p->pid, info.version >> 24, info.version >> 16 & 0xff);
		return;
	}
	end = clock_monotonic_ns();
	p->python_next_ns = end + MAX(PYTHON_REST_NS, PYTHON_SHARE * (end - start));
	if (r == -EOPNOTSUPP) {
		p->unsupported = info.version ? info.version : 1;
		return;
	}
	if (r == -ENOENT || r == -ESRCH || r == -EPERM)
		return;
	/* Not set up yet; or no memory, or no room in the probe's map, which may change too. */
	if (r != -EAGAIN)
		log_debug("process %u: looking for Python failed: %s", p->pid, strerror(-r));
	if (p->python_tries < PYTHON_TRIES) {
		p->wants_python = true;
		p->python_due_ns = end + MAX(PYTHON_RETRY_NS << p->python_tries, PYTHON_SHARE * (end - start));
		p->python_tries++;
	}
}

void resolve_python_soon(struct resolve_process *p, uint64_t now_ns)
{
	if (p->wants_python && !p->python_tries && p->python_due_ns > now_ns)
		p->python_due_ns = MAX(now_ns, p->python_next_ns);
}

uint64_t resolve_python_due(struct resolve *rs, uint64_t now_ns)
{
	uint64_t due = UINT64_MAX;
	size_t iter = 0;
	void *value;

	while (map64_next(&rs->processes, &iter, NULL, &value)) {
		struct resolve_process *p = value;

		const uint64_t space_due = p->space_ns + MAX(STALE_NS, REST_FACTOR * p->space_cost_ns);

		resolve_python(rs, p, now_ns);
		if (p->wants_python && p->python_due_ns < due)
			due = p->python_due_ns;
		/* Has what was mapped taken the place of code that stacks lie in? */
		if (p->is_stale && p->tree.leaves && now_ns >= space_due && !resolve_space(rs, p, now_ns))
			p->is_stale = false;
		if (p->is_stale && p->tree.leaves && space_due < due)
			due = MAX(space_due, now_ns + STALE_NS);
	}
	return due;
}

static bool is_there(struct resolve *rs, const struct resolve_process *p)
{
	const uint64_t ticks = p->start_ns ? ticks_from_ns(p->start_ns) : p->start_ticks;
	struct proc_stat st;
	int r = proc_stat_read(rs->options.proc_root, p->pid, &st);

	return r == 0 ? st.start_ticks == ticks : r != -ESRCH;
}

void resolve_sweep(struct resolve *rs)
{
	_cleanup_free_ struct resolve_process **gone = calloc(rs->processes.len + 1, sizeof(*gone));
	const uint64_t now_ns = clock_monotonic_ns();
	size_t iter = 0, n = 0;
	void *value;

	while (gone && map64_next(&rs->processes, &iter, NULL, &value)) {
		struct resolve_process *p = value;
		const bool was_missing = p->is_missing;

		p->is_missing = !is_there(rs, p);
		/* Of those that were traced the end, and stacks from before it, may still be on their way. */
		if (p->is_missing && (was_missing || !p->start_ns))
			gone[n++] = p;
	}
	for (size_t i = 0; i < n; i++)
		drop(rs, gone[i]);
	python_codes_trim(rs->codes, now_ns > CODES_IDLE_NS ? now_ns - CODES_IDLE_NS : 0);
}

int resolve_init(struct resolve *rs, const struct resolver_options *o)
{
	const struct unwinder_limits limits = UNWINDER_LIMITS_DEFAULT;
	int r;

	rs->options = *o;
	r = unwinder_new(o->objects, &limits, &rs->unwinder);
	if (r < 0)
		return r;
	return python_codes_new(o->python_bytes ? o->python_bytes : PYTHON_CODES_BYTES_DEFAULT, &rs->codes);
}

void resolve_done(struct resolve *rs)
{
	size_t iter = 0;
	void *value;

	while (map64_next(&rs->processes, &iter, NULL, &value))
		process_free(value);
	map64_done(&rs->processes);
	unwinder_free(rs->unwinder);
	python_codes_free(rs->codes);
}
