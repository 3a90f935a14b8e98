/* SPDX-License-Identifier: MIT */
/* What is known of the processes whose stacks are resolved. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "proc/procfs.h"
#include "stack/resolve.h"

/* After something was mapped: an interpreter maps dozens of libraries in a row. */
#define PYTHON_REST_NS (200 * NSEC_PER_MSEC)
/* An interpreter that is not set up yet: looked at again after this, then ever more seldom. */
#define PYTHON_RETRY_NS (50 * NSEC_PER_MSEC)
#define PYTHON_TRIES 12

int resolve_tell_python(struct resolve *rs, uint32_t pid, const struct python_process *p)
{
	return atomic_load(&rs->is_abandoned) ? -ECANCELED : rs->options.python(pid, p, rs->options.userdata);
}

static void process_free(struct resolve_process *p)
{
	address_space_unref(p->space);
	learn_tree_clear(&p->tree, NULL, NULL);
	map64_done(&p->exact);
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
		(void)resolve_tell_python(rs, p->pid, NULL);
	process_free(p);
}

void resolve_process_drop(struct resolve *rs, uint32_t pid, uint64_t start_ns)
{
	struct resolve_process *p = resolve_process_find(rs, pid);

	if (p && (!start_ns || !p->start_ns || p->start_ns == start_ns))
		drop(rs, p);
}

struct resolve_process *resolve_process(struct resolve *rs, uint32_t pid, uint64_t start_ns)
{
	struct resolve_process *p = resolve_process_find(rs, pid);

	if (p && (p->start_ns == start_ns || !start_ns))
		return p;
	/* What was found of a process whose start was not known may have been of another one. */
	if (p)
		drop(rs, p);
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = pid;
	p->start_ns = start_ns;
	p->wants_python = true;
	if (map64_put(&rs->processes, pid, p) < 0) {
		free(p);
		return NULL;
	}
	return p;
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
	address_space_unref(p->space);
	p->space = fresh;
	p->space_ns = now;
	p->is_stale = false;
	return true;
}

/* Where the function lies that runs Python's frames: 3.9 and 3.10 do not tell where on the C stack they lie, and in no
 * version is that known of a loop whose outermost frames are missing. */
static void find_eval(struct resolve *rs, struct resolve_process *p)
{
	static const char *const name[] = { "_PyEval_EvalFrameDefault" };

	p->eval_start = p->eval_end = 0;
	(void)resolve_space(rs, p, clock_monotonic_ns());
	for (size_t i = 0; p->space && i < p->space->count; i++) {
		const struct mapping *m = &p->space->mappings[i];
		_cleanup_(object_unrefp) struct object *ob = NULL;
		struct elf_symbol sym = {};
		uint64_t offset = 0;

		if (!mapping_is_file(m) || objects_get(rs->options.objects, p->pid, m, &ob) < 0 || !ob->elf)
			continue;
		if (elf_file_functions(ob->elf, name, 1, 8000000, &offset) != 1 || offset < m->offset ||
		    offset - m->offset >= m->end - m->start || elf_file_vaddr(ob->elf, offset, &sym.vaddr) < 0)
			continue;
		if (elf_file_lookup(ob->elf, &sym, 1, 8000000) == 0 && sym.name) {
			p->eval_start = m->start + (offset - m->offset);
			p->eval_end = p->eval_start + sym.size;
		}
		free(sym.name);
		return;
	}
}

/* Put in the map of the probe, unless the process has ended meanwhile: its end has taken away what was there by then. */
static int tell_probe(struct resolve *rs, struct resolve_process *p, const struct memory *m)
{
	uint64_t first = 0;
	int r;

	r = resolve_tell_python(rs, p->pid, &p->python.probe);
	if (r < 0)
		return r;
	/* The same image still? */
	r = memory_read(m, p->python.probe.heads, &first, sizeof(first));
	if (r == 0 && !first)
		r = -ESRCH;
	if (r == 0)
		r = memory_check(m);
	if (r < 0)
		(void)resolve_tell_python(rs, p->pid, NULL);
	return r;
}

void resolve_python(struct resolve *rs, struct resolve_process *p, uint64_t now_ns)
{
	struct memory m = memory_of(rs->options.proc_root, p->pid, p->start_ns);
	struct python_info info = {};
	int r;

	if (!p->wants_python || p->has_python || now_ns < p->python_due_ns)
		return;
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
	} else if (r == -EAGAIN && p->python_tries < PYTHON_TRIES) {
		p->wants_python = true;
		p->python_due_ns = now_ns + (PYTHON_RETRY_NS << p->python_tries++);
	} else if (r == -EOPNOTSUPP) {
		p->unsupported = info.version ? info.version : 1;
	} else if (r != -ENOENT && r != -ESRCH && r != -EAGAIN) {
		log_debug("process %u: looking for Python failed: %s", p->pid, strerror(-r));
	}
}

uint64_t resolve_python_due(struct resolve *rs, uint64_t now_ns)
{
	uint64_t due = UINT64_MAX;
	size_t iter = 0;
	void *value;

	while (map64_next(&rs->processes, &iter, NULL, &value)) {
		struct resolve_process *p = value;

		resolve_python(rs, p, now_ns);
		if (p->wants_python && p->python_due_ns < due)
			due = p->python_due_ns;
	}
	return due;
}

void resolve_sweep(struct resolve *rs)
{
	_cleanup_free_ struct resolve_process **gone = calloc(rs->processes.len + 1, sizeof(*gone));
	struct proc_stat st;
	size_t iter = 0, n = 0;
	void *value;

	while (gone && map64_next(&rs->processes, &iter, NULL, &value)) {
		struct resolve_process *p = value;

		/* Those that were traced are dropped when their end is heard of. */
		if (!p->start_ns && proc_stat_read(rs->options.proc_root, p->pid, &st) == -ESRCH)
			gone[n++] = p;
	}
	for (size_t i = 0; i < n; i++)
		drop(rs, gone[i]);
}

void resolve_mapped(struct resolve_process *p, uint64_t now_ns)
{
	p->is_stale = true;
	if (p->has_python || p->wants_python)
		return;
	p->wants_python = true;
	p->python_tries = 0;
	p->python_due_ns = now_ns + PYTHON_REST_NS;
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
