/* SPDX-License-Identifier: MIT */
/* What the daemon tells the engine beside events: identities, devices, stacks, losses, rebuilds. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "model/saturate.h"
#include "rule/engine_private.h"

struct occasion engine_now(const struct engine *e)
{
	return (struct occasion){ .time_ns = e->now_ns, .real_usec = e->real_usec };
}

int engine_set_identity(struct engine *e, uint32_t pid, uint64_t start_ns, struct identity *id)
{
	struct occasion o = engine_now(e);
	struct process *p;
	int r;

	engine_tell(e, .type = INPUT_IDENTITY, .pid = pid, .start_ns = start_ns, .identity = id);
	r = engine_get_process(e, pid, start_ns, &o, &p);
	if (r < 0)
		return r;
	identity_unref(p->id);
	p->id = identity_ref(id);
	p->watch->is_identified = true;
	return fit_process(e, p, &o);
}

int engine_set_stack(struct engine *e, uint32_t pid, uint64_t start_ns, struct stack *s)
{
	struct occasion o = engine_now(e);
	struct process *p;
	int r;

	engine_tell(e, .type = INPUT_STACK, .pid = pid, .start_ns = start_ns, .stack = s);
	r = engine_get_process(e, pid, start_ns, &o, &p);
	return r < 0 ? r : process_add_stack(p, s, &e->limits);
}

int engine_set_site(struct engine *e, uint32_t pid, uint64_t start_ns, uint64_t stack, uint64_t site)
{
	struct process *p = processes_find(&e->processes, pid, start_ns);
	struct occasion o = engine_now(e);
	struct stack_entry *entry;
	struct site *to;
	int r;

	engine_tell(e, .type = INPUT_SITE, .pid = pid, .start_ns = start_ns,
		    .site = { .stack = stack, .key = site, .resolved = p ? process_stack(p, stack) : NULL });
	if (!p)
		return -ESRCH;
	entry = stack ? process_stack_entry(p, stack) : NULL;
	if (!entry)
		return -ENOENT;
	to = process_resolved_site(p, site);
	if (to && entry->site && !entry->is_resolved) {
		r = watch_merge_sites(e, to, entry->site, &o);
		if (r < 0)
			return r;
	}
	r = process_set_site(p, entry, site);
	if (r < 0)
		return r;
	/* Until then an event that waits for the identity, or a block that a rebuild is about to add, may name a copy. */
	if (!p->is_rebuilding && !p->watch->is_waiting)
		process_drop_copies(p, &e->limits);
	return 0;
}

void engine_put_device(struct engine *e, struct device *dev, const struct occasion *o)
{
	if (dev->refs > 0 || dev->is_known)
		return;
	for (size_t i = e->groups_len; i-- > 0;) {
		if (e->groups[i]->device == dev)
			group_remove(e, e->groups[i], o);
	}
	(void)devices_put(&e->devices, dev);
}

int engine_set_ordinal(struct engine *e, uint32_t pid, uint64_t start_ns, int ordinal, const char *uuid_text)
{
	struct occasion o = engine_now(e);
	struct process_device *pd;
	struct device *dev, *old;
	struct process *p;
	int r, slot;

	engine_tell(e, .type = INPUT_ORDINAL, .pid = pid, .start_ns = start_ns,
		    .ordinal = { .ordinal = ordinal, .uuid = uuid_text });
	if (ordinal < EVENT_NO_DEVICE)
		return -EINVAL;
	r = engine_get_process(e, pid, start_ns, &o, &p);
	if (r < 0)
		return r;
	slot = process_device_slot(p, ordinal);
	if (slot < 0)
		return slot;
	pd = &p->devices[slot];
	/* The slot of all that did not fit is no device's. */
	if (pd->ordinal != ordinal || (pd->device && strcmp(pd->device->uuid, uuid_text) == 0))
		return pd->ordinal != ordinal ? -ENOSPC : 0;
	r = devices_get(&e->devices, uuid_text, &dev);
	if (r < 0)
		return r;
	dev->refs++;
	old = pd->device;
	sample_leave_device(e, p, pd, &o);
	pd->device = dev;
	for (size_t c = 0; c < CLASS_MAX; c++) {
		if (old)
			(void)sat_sub(&old->live[c], pd->live[c]);
		if (sat_add(&dev->live[c], pd->live[c]) < pd->live[c])
			e->is_summed_badly = true;
	}
	(void)fit_device(e, dev, &o);
	r = fit_process(e, p, &o);
	if (old) {
		/* Where the fit failed, the process may still be in groups of the old device. */
		if (r < 0)
			fit_leave(e, p, &o);
		old->refs--;
		engine_put_device(e, old, &o);
	}
	sample_enter_device(e, p, pd, &o);
	return r;
}

int engine_set_device(struct engine *e, const char *uuid_text, int index, const char *name, uint64_t total_bytes,
		      uint64_t used_bytes)
{
	struct occasion o = engine_now(e);
	struct device *dev;
	bool is_other;
	int r;

	engine_tell(e, .type = INPUT_DEVICE, .device = { .uuid = uuid_text, .name = name, .index = index,
							 .total_bytes = total_bytes, .used_bytes = used_bytes });
	r = devices_get(&e->devices, uuid_text, &dev);
	if (r < 0)
		return r;
	is_other = !dev->is_known || dev->index != index || dev->total_bytes != total_bytes;
	dev->is_known = dev->is_told = true;
	if (name && (!dev->name || strcmp(dev->name, name) != 0)) {
		char *copy = strdup(name);

		if (!copy)
			return -ENOMEM;
		free(dev->name);
		dev->name = copy;
	}
	dev->index = index;
	dev->total_bytes = total_bytes;
	dev->used_bytes = used_bytes;
	for (size_t i = 0; i < e->groups_len; i++) {
		if (e->groups[i]->device == dev)
			e->groups[i]->is_dirty = true;
	}
	if (!is_other)
		return 0;
	/* A limit may be a share of it, and a match may name its index. */
	for (size_t i = 0; i < e->processes.len; i++)
		e->processes.list[i]->watch->needs_refit = true;
	for (size_t i = 0; i < e->groups_len; i++) {
		e->groups[i]->is_dirty = true;
		bound_group(e, e->groups[i]);
	}
	return fit_device(e, dev, &o);
}

static void device_untold(struct engine *e, struct device *dev, bool is_complete, const struct occasion *o)
{
	if (dev->used_bytes != UINT64_MAX) {
		dev->used_bytes = UINT64_MAX;
		for (size_t i = 0; i < e->groups_len; i++) {
			if (e->groups[i]->device == dev)
				e->groups[i]->is_dirty = true;
		}
	}
	if (!is_complete)
		return;
	dev->is_known = false;
	engine_put_device(e, dev, o);
}

void engine_end_devices(struct engine *e, bool is_complete)
{
	struct occasion o = engine_now(e);

	engine_tell(e, .type = INPUT_DEVICES_END, .is_complete = is_complete);
	/* One that goes is replaced by the last one. */
	for (size_t i = e->devices.len; i-- > 0;) {
		struct device *dev = e->devices.list[i];
		bool is_told = dev->is_told;

		dev->is_told = false;
		if (dev->is_known && !is_told)
			device_untold(e, dev, is_complete, &o);
	}
}

int engine_lost(struct engine *e, uint32_t pid, uint64_t start_ns, uint64_t count, uint64_t now_ns)
{
	struct occasion o = { .time_ns = now_ns, .real_usec = e->real_usec };
	struct process *p;
	int r;

	engine_tell_at(e, now_ns, e->real_usec, .type = INPUT_LOST, .pid = pid, .start_ns = start_ns, .lost = count);
	(void)sat_add(&e->lost_events, count);
	r = engine_get_process(e, pid, start_ns, &o, &p);
	if (r < 0)
		return r;
	(void)sat_add(&p->lost_events, count);
	p->exact = false;
	p->watch->is_lost = true;
	p->watch->is_dirty = true;
	return 0;
}

int engine_rebuild_begin(struct engine *e, uint32_t pid, uint64_t start_ns)
{
	struct occasion o = engine_now(e);
	struct process_watch *w;
	struct process *p;
	int r;

	engine_tell(e, .type = INPUT_REBUILD_BEGIN, .pid = pid, .start_ns = start_ns);
	r = engine_get_process(e, pid, start_ns, &o, &p);
	if (r < 0)
		return r;
	w = p->watch;
	for (size_t i = 0; i < w->members_len; i++)
		group_leave(e, p, &w->members[i]);
	for (size_t i = 0; i < p->devices_len; i++) {
		for (size_t c = 0; p->devices[i].device && c < CLASS_MAX; c++)
			(void)sat_sub(&p->devices[i].device->live[c], p->devices[i].live[c]);
	}
	process_forget_blocks(p);
	leak_forget(e, p);
	for (size_t i = 0; i < w->members_len; i++)
		group_join(e, p, &w->members[i]);
	if (!p->is_rebuilding)
		e->rebuilding++;
	p->is_rebuilding = true;
	/* Wrong until the end says otherwise. */
	p->exact = false;
	w->is_dirty = true;
	return 0;
}

int engine_rebuild_add(struct engine *e, const struct event *ev)
{
	struct occasion o = engine_now(e);
	struct process *p = processes_find(&e->processes, ev->pid, ev->start_ns);
	struct change c;
	int r;

	engine_tell(e, .type = INPUT_REBUILD_ADD, .pid = ev->pid, .start_ns = ev->start_ns, .event = ev);
	if (!p || !p->is_rebuilding)
		return -ESRCH;
	if (ev->class >= CLASS_MAX)
		return -EINVAL;
	r = process_restore(p, ev, &e->limits, &c);
	leak_book(e, p, &c, ev->birth_ns ? ev->birth_ns : ev->time_ns);
	group_apply(e, p, &c, &o);
	if (r < 0)
		p->watch->needs_rebuild = true;
	return r;
}

int engine_rebuild_end(struct engine *e, uint32_t pid, uint64_t start_ns, const struct books *b, uint64_t now_ns,
		       uint64_t real_usec)
{
	struct process *p = processes_find(&e->processes, pid, start_ns);
	struct occasion o = { .time_ns = now_ns, .real_usec = real_usec };
	struct process_watch *w;

	engine_tell_at(e, now_ns, real_usec, .type = INPUT_REBUILD_END, .pid = pid, .start_ns = start_ns, .books = b);
	if (!p || !p->is_rebuilding)
		return -ESRCH;
	w = p->watch;
	p->is_rebuilding = false;
	e->rebuilding--;
	p->alloc_count = b->alloc_count;
	p->free_count = b->free_count;
	p->fail_count = b->fail_count;
	p->unknown_free_count = b->unknown_free_count;
	p->untracked_count = b->untracked_count;
	p->untracked_bytes = b->untracked_bytes;
	p->framework_alloc_count = b->framework_alloc_count;
	p->framework_free_count = b->framework_free_count;
	for (size_t c = 0; c < CLASS_MAX; c++)
		p->allocated[c] = MAX(p->allocated[c], p->live[c]);
	/* While frees were lost our own went too high. */
	p->peak_bytes = MAX(b->peak_bytes, p->live_bytes);
	p->missed_count = b->missed_count;
	for (size_t i = 0; i < p->devices_len; i++)
		sample_rebuilt(&p->devices[i], now_ns);
	/* What was never seen, or has no entry in the kernel's table, no rebuild can bring back. */
	p->exact = !w->needs_rebuild && !b->missed_count && !b->untracked_count;
	if (!w->needs_rebuild) {
		w->is_lost = false;
		w->exact_since_ns = MAX(watch_leak_time(e, now_ns), UINT64_C(1));
	}
	w->needs_rebuild = false;
	w->is_dirty = true;
	for (size_t i = 0; i < w->members_len; i++)
		condition_group(e, w->members[i].g, &o);
	condition_process(e, p, &o);
	bound_arm(e, p, &o);
	return 0;
}
