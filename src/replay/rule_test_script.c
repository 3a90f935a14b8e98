/* SPDX-License-Identifier: MIT */
/* What happens in a test: entries of its trace made into items, in order of time, or a recording. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "replay/rule_test_private.h"

/* As often as the daemon asks the driver, unless configured otherwise. */
#define DRIVER_INTERVAL_NS (10 * NSEC_PER_SEC)
/* Addresses of an entry's allocations. */
#define ADDR_OF(step, n) (((uint64_t)((step) + 1) << 32) | (n))

/* One thing after the other, at regular times: an entry's own, or the frees of what it allocated. */
struct cursor {
	uint64_t time_ns;
	size_t step; /* steps_len: the driver is asked */
	uint32_t n;
	bool is_free;
};

struct script {
	struct test_run *run;
	struct cursor *heap; /* the first in time at 0 */
	size_t len;
	struct trace_item item; /* read ahead from a recording */
	bool has_item, is_over;
};

/* At the same moment what is given back comes first, and else the order of the file holds. */
static bool is_before(const struct cursor *a, const struct cursor *b)
{
	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns;
	if (a->is_free != b->is_free)
		return a->is_free;
	return a->step < b->step;
}

static void heap_down(struct script *s)
{
	size_t i = 0;

	for (;;) {
		size_t least = i, l = 2 * i + 1;
		struct cursor c = s->heap[i];

		if (l < s->len && is_before(&s->heap[l], &s->heap[least]))
			least = l;
		if (l + 1 < s->len && is_before(&s->heap[l + 1], &s->heap[least]))
			least = l + 1;
		if (least == i)
			return;
		s->heap[i] = s->heap[least];
		s->heap[least] = c;
		i = least;
	}
}

static void heap_add(struct script *s, struct cursor c)
{
	size_t i = s->len++;

	for (; i > 0 && is_before(&c, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = c;
}

static void heap_pop(struct script *s)
{
	s->heap[0] = s->heap[--s->len];
	heap_down(s);
}

int script_new(struct test_run *run, struct script **ret)
{
	struct rule_test *t = run->test;
	_cleanup_(script_freep) struct script *s = calloc(1, sizeof(*s));
	uint64_t driver_ns = TRACE_UNKNOWN;

	if (!s)
		return -ENOMEM;
	s->run = run;
	s->heap = calloc(2 * t->steps_len + 1, sizeof(*s->heap));
	if (!s->heap)
		return -ENOMEM;
	for (size_t i = 0; i < t->steps_len; i++) {
		struct step *step = &t->steps[i];

		heap_add(s, (struct cursor){ .time_ns = step->from_ns, .step = i });
		if (step->free_after_ns != TRACE_UNKNOWN)
			heap_add(s, (struct cursor){ .time_ns = step->from_ns + step->free_after_ns, .step = i,
						     .is_free = true });
		if (step->type == STEP_DRIVER)
			driver_ns = MIN(driver_ns, step->from_ns);
	}
	if (driver_ns != TRACE_UNKNOWN)
		heap_add(s, (struct cursor){ .time_ns = driver_ns + DRIVER_INTERVAL_NS, .step = t->steps_len });
	*ret = TAKE_PTR(s);
	return 0;
}

void script_free(struct script *s)
{
	if (!s)
		return;
	free(s->heap);
	free(s);
}

static int feed(struct test_run *run, const struct trace_item *item)
{
	int r;

	if (item->pid && item->type != TRACE_EXEC && item->type != TRACE_EXIT && item->type != TRACE_FREE) {
		r = test_introduce(run, item->pid, item->time_ns);
		if (r < 0)
			return r;
	}
	r = player_feed(run->player, item);
	test_item_told(run, item);
	return r < 0 ? r : run->error;
}

static struct trace_item item_of(const struct step *step, enum trace_type type, uint64_t time_ns)
{
	return (struct trace_item){ .type = type, .pid = step->pid, .time_ns = time_ns, .class = step->class,
				    .device = step->device, .stack = step->stack, .bytes = step->bytes,
				    .reason = step->stack ? STACK_OK : STACK_NONE, .call = step->call };
}

static int feed_used(struct test_run *run, const struct step *step, uint64_t time_ns)
{
	struct test_device *d = (struct test_device *)test_device(run->test, step->device);
	struct trace_item item = { .type = TRACE_GPU, .time_ns = time_ns, .device = d->index, .uuid = d->uuid,
				   .name = d->name, .total_bytes = d->total_bytes };

	d->used_bytes = item.used_bytes = step->bytes;
	return feed(run, &item);
}

static int feed_driver(struct test_run *run, const struct step *step, uint64_t time_ns)
{
	struct test_process *p = test_process(run->test, step->pid);
	const struct test_device *d = test_device(run->test, step->device);

	p->has_driver = true;
	p->driver = item_of(step, TRACE_DRIVER, time_ns);
	p->driver.flag = step->is_older;
	p->driver.uuid = d ? d->uuid : NULL;
	return feed(run, &p->driver);
}

/* The driver says the same as before: one figure told again makes a pass over all. */
static int feed_driver_pass(struct test_run *run, uint64_t time_ns)
{
	for (size_t i = 0; i < run->test->processes_len; i++) {
		struct test_process *p = &run->test->processes[i];

		if (!p->has_driver)
			continue;
		p->driver.time_ns = time_ns;
		return feed(run, &p->driver);
	}
	return 0;
}

static int feed_lost(struct test_run *run, const struct step *step, uint64_t time_ns)
{
	struct trace_item item = item_of(step, TRACE_LOST, time_ns);
	int r;

	item.count = step->count;
	r = feed(run, &item);
	return r < 0 ? r : player_rebuild(run->player, step->pid);
}

static int feed_free(struct test_run *run, size_t step, uint32_t n, uint64_t time_ns, bool *ret_was_live)
{
	struct trace_item item = { .type = TRACE_FREE, .pid = run->test->steps[step].pid, .time_ns = time_ns,
				   .addr = ADDR_OF(step, n) };
	struct player_stats before, after;
	int r;

	player_stats(run->player, &before);
	r = feed(run, &item);
	player_stats(run->player, &after);
	*ret_was_live = after.unknown_frees == before.unknown_frees;
	return r;
}

static bool is_target(const struct rule_test *t, const struct step *s, const struct step *by)
{
	if (s->type != STEP_ALLOC || s->pid != by->pid || s->given_back >= s->done)
		return false;
	return (s->name && strcmp(s->name, by->target) == 0) ||
	       (s->stack && strcmp(t->stacks[s->stack - 1], by->target) == 0);
}

/* The entry that has the oldest of what a free means; steps_len = none. */
static size_t oldest_target(const struct rule_test *t, const struct step *by)
{
	uint64_t oldest = TRACE_UNKNOWN;
	size_t found = t->steps_len;

	for (size_t i = 0; i < t->steps_len; i++) {
		const struct step *s = &t->steps[i];
		uint64_t born = s->from_ns + s->given_back * s->every_ns;

		if (is_target(t, s, by) && born < oldest) {
			oldest = born;
			found = i;
		}
	}
	return found;
}

static int feed_free_target(struct test_run *run, const struct step *by, uint64_t time_ns)
{
	struct rule_test *t = run->test;
	uint32_t freed = 0;
	_cleanup_strbuf_ struct strbuf when = STRBUF_INIT;

	for (;;) {
		size_t i = oldest_target(t, by);
		bool was_live;
		int r;

		if (i == t->steps_len || (by->blocks && freed >= by->blocks))
			break;
		r = feed_free(run, i, t->steps[i].given_back++, time_ns, &was_live);
		if (r < 0)
			return r;
		freed += was_live;
	}
	if (freed > 0)
		return 0;
	say_time(&when, time_ns);
	return conf_error(t->errors, by->setting, "free = \"%s\" at %s: nothing of it is live then", by->target,
			  strbuf_str(&when));
}

static int feed_step(struct test_run *run, size_t i, uint32_t n, uint64_t time_ns)
{
	static const enum trace_type plain[STEP_MAX] = { [STEP_ALLOC] = TRACE_ALLOC, [STEP_FAIL] = TRACE_FAIL,
							 [STEP_START] = TRACE_PROCESS, [STEP_EXEC] = TRACE_EXEC,
							 [STEP_EXIT] = TRACE_EXIT, [STEP_CONDITION] = TRACE_CONDITION };
	struct step *step = &run->test->steps[i];
	struct trace_item item;

	switch (step->type) {
	case STEP_FREE:
		return feed_free_target(run, step, time_ns);
	case STEP_DRIVER:
		return feed_driver(run, step, time_ns);
	case STEP_USED:
		return feed_used(run, step, time_ns);
	case STEP_LOST:
		return feed_lost(run, step, time_ns);
	default:
		break;
	}
	item = item_of(step, plain[step->type], time_ns);
	if (step->type == STEP_ALLOC) {
		item.addr = ADDR_OF(i, n);
		step->done = n + 1;
	} else if (step->type == STEP_FAIL) {
		item.error = step->error;
	} else if (step->type == STEP_CONDITION) {
		item.condition = step->condition;
	}
	return feed(run, &item);
}

/* The first cursor does its thing and moves on to its next time. */
static int play_first(struct script *s)
{
	struct cursor *c = &s->heap[0];
	struct rule_test *t = s->run->test;
	struct cursor now = *c;
	const struct step *step;
	bool was_live;

	if (c->step == t->steps_len) {
		c->time_ns += DRIVER_INTERVAL_NS;
		heap_down(s);
		return feed_driver_pass(s->run, now.time_ns);
	}
	step = &t->steps[c->step];
	c->time_ns += step->every_ns;
	if (++c->n >= step->times)
		heap_pop(s);
	else
		heap_down(s);
	if (now.is_free) /* it may have been freed otherwise before, or have ended with its process */
		return feed_free(s->run, now.step, now.n, now.time_ns, &was_live);
	return feed_step(s->run, now.step, now.n, now.time_ns);
}

static int play_recording(struct script *s, uint64_t until_ns)
{
	struct test_run *run = s->run;
	struct rule_test *t = run->test;
	int r;

	while (!s->is_over) {
		if (!s->has_item) {
			r = trace_read(run->reader, t->errors, &s->item);
			if (r < 0)
				return r;
			s->is_over = r == 0;
			s->has_item = r > 0;
			continue;
		}
		if (player_stretch(run->player, s->item.time_ns) > until_ns)
			return 0;
		s->has_item = false;
		r = feed(run, &s->item);
		if (r == -EINVAL)
			return errors_add(t->errors, t->trace_path, (int)trace_line(run->reader),
					  "this cannot be: an id or a text is missing, or it lies more than 1000 days on");
		if (r < 0)
			return r;
	}
	return 0;
}

int script_play(struct script *s, uint64_t until_ns)
{
	int r = 0;

	if (s->run->reader)
		r = play_recording(s, until_ns);
	while (r == 0 && s->len > 0 && s->heap[0].time_ns <= until_ns)
		r = play_first(s);
	return r;
}
