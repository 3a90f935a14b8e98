/* SPDX-License-Identifier: MIT */
/* One item of a trace after the other, as what an engine is told. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/process.h"
#include "replay/player_private.h"

static int send(struct player *p, struct player_life *l, struct event *ev)
{
	int r;

	ev->pid = ev->tid = l->pid;
	ev->start_ns = l->start_ns;
	ev->time_ns = p->item_ns;
	p->stats.events++;
	p->told_ns = p->now_ns;
	r = engine_event(p->engine, ev, p->now_ns, player_real(p));
	return r == -ENOMEM ? r : 0;
}

static struct event block_event(uint8_t type, const struct player_block *b, uint64_t addr, uint8_t kind)
{
	return (struct event){ .type = type, .class = b->class, .stack_reason = b->reason, .call = b->call,
			       .kind = kind, .addr = addr, .bytes = b->bytes, .stack = b->stack,
			       .birth_ns = b->birth_ns, .device = b->device };
}

static int free_block(struct player *p, struct player_life *l, uint8_t kind, uint64_t addr)
{
	struct player_block *b = map64_get(&l->blocks[kind], addr), *newer = NULL;
	struct event ev;

	for (; b->older; b = b->older)
		newer = b;
	ev = block_event(EVENT_FREE, b, addr, kind);
	if (b->again) {
		b->again--;
		return send(p, l, &ev);
	}
	if (newer)
		newer->older = NULL;
	else
		(void)map64_remove(&l->blocks[kind], addr);
	free(b);
	return send(p, l, &ev);
}

/*
 * A free is an event when its call returns, and by then the driver may have given the address to another thread: both
 * blocks count until it comes, as they did in the books. That is a matter of one call's return, so what is still there a
 * tick later was freed where the recording does not show it.
 */
#define LATE_TICKS 2
/* Blocks of one address that wait for their frees: as many threads are at the end of a call at once. A file that says more
 * would have them all walked through at each of its lines. */
#define LATE_DEPTH 16

static bool is_deep(const struct player_block *b)
{
	size_t n = 0;

	for (; b && n < LATE_DEPTH; b = b->older)
		n++;
	return n == LATE_DEPTH;
}

static int add_late(struct player *p, const struct player_life *l, uint8_t kind, uint64_t addr, uint64_t birth_ns)
{
	if (p->late_len == p->late_cap) {
		size_t cap = MAX(p->late_cap * 2, (size_t)16);
		struct player_late *list = realloc(p->late, cap * sizeof(*list));

		if (!list)
			return -ENOMEM;
		p->late = list;
		p->late_cap = cap;
	}
	p->late[p->late_len++] = (struct player_late){ .pid = l->pid, .start_ns = l->start_ns, .addr = addr, .kind = kind,
						       .birth_ns = birth_ns, .tick = p->stats.ticks };
	return 0;
}

void player_late_tick(struct player *p)
{
	size_t n = 0;

	while (n < p->late_len && p->stats.ticks - p->late[n].tick >= LATE_TICKS) {
		const struct player_late *late = &p->late[n++];
		struct player_life *l = player_life(p, late->pid);
		const struct player_block *b = l && l->start_ns == late->start_ns ?
						       map64_get(&l->blocks[late->kind], late->addr) : NULL;
		bool is_late = b && b->older;

		for (; b && b->older; b = b->older)
			;
		if (!is_late || b->birth_ns > late->birth_ns)
			continue;
		p->stats.replaced++;
		p->item_ns = p->now_ns;
		(void)free_block(p, l, late->kind, late->addr);
	}
	if (n)
		memmove(p->late, p->late + n, (p->late_len -= n) * sizeof(*p->late));
}

/* What is imported again has the same address, and takes a free of its own. */
static bool is_shared(const struct player_block *b, const struct trace_item *item)
{
	return b && b->class == CLASS_IMPORTED && item->class == CLASS_IMPORTED && item->kind == ADDR_POINTER;
}

/* The block of an item, kept until its free, before an older one at the address. */
static int keep_block(struct player *p, struct player_life *l, const struct trace_item *item, uint64_t birth_ns,
		      struct player_block **ret)
{
	struct player_block *b = map64_get(&l->blocks[item->kind], item->addr);

	if (is_shared(b, item)) {
		b->again++;
		*ret = b;
		return 0;
	}
	b = malloc(sizeof(*b));
	if (!b)
		return -ENOMEM;
	*b = (struct player_block){ .bytes = item->bytes, .stack = item->stack, .birth_ns = birth_ns,
				    .device = item->device, .class = item->class, .reason = item->reason,
				    .call = (uint16_t)player_call(p, item->call),
				    .older = map64_get(&l->blocks[item->kind], item->addr) };
	if (map64_put(&l->blocks[item->kind], item->addr, b) < 0) {
		free(b);
		return -ENOMEM;
	}
	*ret = b;
	return 0;
}

static int feed_alloc(struct player *p, struct player_life *l, const struct trace_item *item)
{
	struct player_block *b;
	struct event ev;
	int r;

	b = map64_get(&l->blocks[item->kind], item->addr);
	if (b && !is_shared(b, item)) {
		/* Without the daemon's ticks it is no recording of ours but somebody's account, and says what it means. */
		bool is_late = p->options.has_ticks, is_over = !is_late || is_deep(b);

		p->stats.replaced += is_over;
		r = is_late ? add_late(p, l, item->kind, item->addr, b->birth_ns) : 0;
		if (r == 0 && is_over)
			r = free_block(p, l, item->kind, item->addr);
		if (r < 0)
			return r;
	}
	r = player_use_stack(p, l, item->stack);
	if (r == 0)
		r = keep_block(p, l, item, p->item_ns, &b);
	if (r < 0)
		return r;
	ev = block_event(EVENT_ALLOC, b, item->addr, item->kind);
	ev.birth_ns = 0;
	return send(p, l, &ev);
}

static int feed_free(struct player *p, const struct trace_item *item)
{
	struct player_life *l = player_life(p, item->pid);

	if (!l || !map64_get(&l->blocks[item->kind], item->addr)) {
		p->stats.unknown_frees++;
		return 0;
	}
	return free_block(p, l, item->kind, item->addr);
}

static int feed_fail(struct player *p, struct player_life *l, const struct trace_item *item)
{
	struct event ev = { .type = EVENT_FAIL, .class = item->class, .stack_reason = item->reason, .kind = item->kind,
			    .addr = item->addr, .bytes = item->bytes, .stack = item->stack, .device = item->device,
			    .error = item->error, .call = (uint16_t)player_call(p, item->call) };
	int r = player_use_stack(p, l, item->stack);

	return r < 0 ? r : send(p, l, &ev);
}

static int feed_end(struct player *p, const struct trace_item *item)
{
	struct event ev = { .type = item->type == TRACE_EXEC ? EVENT_EXEC : EVENT_EXIT, .device = EVENT_NO_DEVICE };
	struct player_life *l = player_life(p, item->pid);
	int r;

	if (!l)
		return 0;
	r = send(p, l, &ev);
	player_end(p, l);
	return r;
}

static int feed_site(struct player *p, struct player_life *l, const struct trace_item *item)
{
	int r;

	p->options.has_sites = true;
	r = player_use_stack(p, l, item->stack);
	return r < 0 ? r : player_resolve(p, l, item->stack, item->key);
}

/* Of this incarnation, whatever the trace calls its start. */
static int feed_identity(struct player *p, struct player_life *l, const struct trace_item *item)
{
	_cleanup_(identity_unrefp) struct identity *id = identity_copy(item->identity);
	int r;

	if (!id)
		return -ENOMEM;
	id->pid = l->pid;
	id->start_ns = l->start_ns;
	if (!id->start_ticks)
		id->start_ticks = l->start_ns / (NSEC_PER_SEC / TICKS_PER_SEC);
	r = engine_set_identity(p->engine, l->pid, l->start_ns, id);
	return r == -ENOMEM ? r : 0;
}

/* The engine keeps the text. */
static int feed_coverage(struct player *p, struct player_life *l, const struct trace_item *item)
{
	size_t number = item->name ? player_name(&p->reasons, item->name) : 0;

	if (item->name && !number)
		return -ENOMEM;
	engine_set_coverage(p->engine, l->pid, l->start_ns, number ? p->reasons.list[number - 1] : NULL, item->flag);
	return 0;
}

static int feed_block(struct player *p, struct player_life *l, const struct trace_item *item)
{
	struct player_block *b;
	uint64_t birth_ns;
	struct event ev;
	int r;

	r = player_moment(p, item->birth_ns, &birth_ns);
	if (r < 0)
		return r;
	r = player_use_stack(p, l, item->stack);
	if (r < 0)
		return r;
	if (!is_shared(map64_get(&l->blocks[item->kind], item->addr), item))
		player_block_free(map64_remove(&l->blocks[item->kind], item->addr));
	r = keep_block(p, l, item, MIN(birth_ns, p->now_ns), &b);
	if (r < 0)
		return r;
	ev = block_event(EVENT_ALLOC, b, item->addr, item->kind);
	ev.pid = l->pid;
	ev.start_ns = l->start_ns;
	ev.time_ns = b->birth_ns;
	r = engine_rebuild_add(p->engine, &ev);
	return r == -ENOMEM ? r : 0;
}

static int feed_rebuild(struct player *p, struct player_life *l)
{
	int r;

	player_drop_blocks(l);
	r = engine_rebuild_begin(p->engine, l->pid, l->start_ns);
	return r == -ENOMEM ? r : 0;
}

static int feed_rebuilt(struct player *p, struct player_life *l, const struct books *books)
{
	int r;

	p->told_ns = p->now_ns;
	r = engine_rebuild_end(p->engine, l->pid, l->start_ns, books, p->now_ns, player_real(p));
	return r == -ENOMEM ? r : 0;
}

static int rebuild_add(struct player *p, struct player_life *l)
{
	int r = 0;

	for (uint8_t k = 0; k < ADDR_KINDS; k++) {
		size_t iter = 0;
		uint64_t addr;
		void *value;

		while (r != -ENOMEM && map64_next(&l->blocks[k], &iter, &addr, &value)) {
			for (const struct player_block *b = value; b; b = b->older) {
				struct event ev = block_event(EVENT_ALLOC, b, addr, k);

				ev.pid = l->pid;
				ev.start_ns = l->start_ns;
				ev.time_ns = b->birth_ns;
				for (uint64_t n = 0; n <= b->again && r != -ENOMEM; n++)
					r = engine_rebuild_add(p->engine, &ev);
			}
		}
	}
	return r == -ENOMEM ? r : 0;
}

int player_rebuild(struct player *p, uint32_t pid)
{
	struct player_life *l = player_life(p, pid);
	const struct process *proc = l ? engine_process(p->engine, pid, l->start_ns) : NULL;
	struct books books;
	int r;

	if (!proc)
		return 0;
	player_sync(p);
	books = (struct books){ .alloc_count = proc->alloc_count, .free_count = proc->free_count,
				.fail_count = proc->fail_count, .unknown_free_count = proc->unknown_free_count,
				.framework_alloc_count = proc->framework_alloc_count,
				.framework_free_count = proc->framework_free_count, .peak_bytes = proc->peak_bytes,
				.missed_count = proc->missed_count };
	r = engine_rebuild_begin(p->engine, pid, l->start_ns);
	if (r == 0)
		r = rebuild_add(p, l);
	if (r == 0)
		r = feed_rebuilt(p, l, &books);
	return r == -ENOMEM ? r : 0;
}

static int feed_device(struct player *p, const struct trace_item *item)
{
	int r = engine_set_device(p->engine, item->uuid, item->device, item->name, item->total_bytes, item->used_bytes);

	return r == -ENOMEM ? r : 0;
}

static int feed_ordinal(struct player *p, struct player_life *l, const struct trace_item *item)
{
	int r = engine_set_ordinal(p->engine, l->pid, l->start_ns, item->device, item->uuid);

	return r == -ENOMEM ? r : 0;
}

static int feed_lost(struct player *p, struct player_life *l, const struct trace_item *item)
{
	int r = engine_lost(p->engine, l->pid, l->start_ns, item->count, p->now_ns);

	return r == -ENOMEM ? r : 0;
}

/* Items that are about a process. */
static int feed_process(struct player *p, const struct trace_item *item)
{
	struct event ev = { .type = EVENT_PROCESS, .device = EVENT_NO_DEVICE };
	struct player_life *l;
	int r;

	if (item->type == TRACE_FREE)
		return feed_free(p, item);
	if (item->type == TRACE_EXEC || item->type == TRACE_EXIT)
		return feed_end(p, item);
	r = player_live(p, item->pid, &l);
	if (r < 0)
		return r;
	switch (item->type) {
	case TRACE_ALLOC:
		return feed_alloc(p, l, item);
	case TRACE_FAIL:
		return feed_fail(p, l, item);
	case TRACE_PROCESS:
		return send(p, l, &ev);
	case TRACE_SITE:
		return feed_site(p, l, item);
	case TRACE_IDENTITY:
		return feed_identity(p, l, item);
	case TRACE_ORDINAL:
		return feed_ordinal(p, l, item);
	case TRACE_DRIVER:
		return p->is_pass ? player_driver(p, l, item) : player_driver_alone(p, l, item);
	case TRACE_COVERAGE:
		return feed_coverage(p, l, item);
	case TRACE_CONDITION:
		engine_set_condition(p->engine, l->pid, l->start_ns, item->condition, p->now_ns);
		return 0;
	case TRACE_LOST:
		return feed_lost(p, l, item);
	case TRACE_REBUILD:
		return feed_rebuild(p, l);
	case TRACE_BLOCK:
		return feed_block(p, l, item);
	case TRACE_REBUILT:
		return feed_rebuilt(p, l, item->books);
	default:
		return -EINVAL;
	}
}

static int feed(struct player *p, const struct trace_item *item)
{
	switch (item->type) {
	case TRACE_TICK:
		p->options.has_ticks = true;
		p->tick_last_ns = p->now_ns;
		player_tick(p);
		return 0;
	case TRACE_GPU:
		return feed_device(p, item);
	case TRACE_GPUS_END:
		engine_end_devices(p->engine, !item->flag);
		return 0;
	case TRACE_DRIVER_BEGIN:
		player_driver_begin(p);
		return 0;
	case TRACE_DRIVER_END:
		player_driver_end(p, !item->flag);
		return 0;
	default:
		return feed_process(p, item);
	}
}

/* What an engine can be told. */
static bool is_sound(const struct trace_item *item)
{
	if (item->class >= CLASS_MAX || item->kind >= ADDR_KINDS)
		return false;
	switch (item->type) {
	case TRACE_GPU:
		return item->uuid && item->device >= -1;
	case TRACE_ORDINAL:
		return item->pid && item->uuid && item->device >= EVENT_NO_DEVICE;
	case TRACE_IDENTITY:
		return item->pid && item->identity;
	case TRACE_REBUILT:
		return item->pid && item->books;
	case TRACE_SITE:
		return item->pid && item->stack && item->key;
	case TRACE_TICK:
	case TRACE_GPUS_END:
	case TRACE_DRIVER_BEGIN:
	case TRACE_DRIVER_END:
		return true;
	default:
		return item->pid && item->type < TRACE_TYPE_MAX;
	}
}

int player_feed(struct player *p, const struct trace_item *item)
{
	uint64_t at;
	int r;

	if (!is_sound(item))
		return -EINVAL;
	r = player_moment(p, item->time_ns, &at);
	if (r < 0)
		return r;
	p->stats.items++;
	if (at < p->now_ns)
		p->stats.late++;
	p->item_ns = at;
	if (item->type == TRACE_TICK && !p->options.has_ticks)
		p->options.has_ticks = true;
	player_pass_until(p, at);
	if (item->type != TRACE_TICK)
		player_sync(p);
	return feed(p, item);
}
