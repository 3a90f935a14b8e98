/* SPDX-License-Identifier: MIT */
#include "frames_make.h"

#include <poll.h>

#include "cmd/view_worker.h"

#define DEPTH 512 /* frames of an address each: nearly 10 KiB of text */

static struct objects *objects;

static struct view_worker *worker(void)
{
	struct view_worker *w = NULL;

	if ((!objects && objects_new("/proc", 8, &objects) < 0) || view_worker_new(objects, NULL, &w) < 0)
		abort();
	return w;
}

static struct stack *deep_stack(void)
{
	uint64_t ips[DEPTH];

	for (size_t i = 0; i < DEPTH; i++)
		ips[i] = 0x7fffffff0000 + i;
	return stack_at(NULL, 1, ips, DEPTH);
}

/* A question whose answer has so many call sites, all of one stack. */
static void push(struct view_worker *w, uint64_t id, size_t sites)
{
	_cleanup_(view_stacks_done) struct view_stacks stacks = VIEW_STACKS_INIT;
	_cleanup_(stack_unrefp) struct stack *stack = deep_stack();
	struct view *v = view_new();
	struct view_process *p = v ? view_add_process(v) : NULL;

	for (size_t i = 0; i < sites; i++) {
		struct view_stack vs = { .site = i, .stack = stack ? stack_ref(stack) : NULL };

		if (!p || !view_add_site(p) || view_stacks_take(&stacks, &vs) < 0)
			abort();
	}
	if (view_worker_push(w, id, v, &stacks) < 0)
		abort();
}

/* The next that is done; NULL: none within so long. */
static char *take(struct view_worker *w, int timeout_ms, uint64_t *ret_id)
{
	struct pollfd p = { .fd = view_worker_fd(w), .events = POLLIN };
	char *text = NULL;

	*ret_id = 0;
	if (poll(&p, 1, timeout_ms) == 1)
		(void)view_worker_take(w, ret_id, &text);
	return text;
}

static struct view *decoded(const char *text)
{
	struct view *v = NULL;

	if (!text || view_decode(text, strlen(text), &v) < 0)
		abort();
	return v;
}

TEST(answers_come_in_order_with_their_stacks)
{
	_cleanup_(view_worker_freep) struct view_worker *w = worker();
	_cleanup_(view_freep) struct view *v = NULL;
	_cleanup_free_ char *first = NULL, *second = NULL;
	uint64_t a, b;

	push(w, 1, 3);
	push(w, 2, 1);
	first = take(w, 10000, &a);
	second = take(w, 10000, &b);
	EXPECT_EQ(a, 1);
	EXPECT_EQ(b, 2);
	v = decoded(first);
	ASSERT(v->processes_len == 1 && v->processes[0].sites_len == 3);
	for (size_t i = 0; i < 3; i++)
		EXPECT(v->processes[0].sites[i].stack && strncmp(v->processes[0].sites[i].stack, "0x7fffffff0000\n", 15) == 0);
}

/* Whoever asks for everything gets all sites, but no more text than the daemon has memory for. */
TEST(more_stacks_than_an_answer_has_room_for)
{
	_cleanup_(view_worker_freep) struct view_worker *w = worker();
	_cleanup_(view_freep) struct view *v = NULL;
	_cleanup_free_ char *text = NULL;
	size_t bytes = 0, left_out = 0;
	const size_t sites = 1500;
	uint64_t id;

	push(w, 1, sites);
	text = take(w, 20000, &id);
	v = decoded(text);
	ASSERT(v->processes_len == 1 && v->processes[0].sites_len == sites);
	for (size_t i = 0; i < sites; i++) {
		const struct view_site *s = &v->processes[0].sites[i];

		bytes += s->stack ? strlen(s->stack) : 0;
		left_out += s->stack_info && strncmp(s->stack_info, "left out: ", 10) == 0;
		EXPECT(s->stack || s->stack_info);
	}
	EXPECT(v->processes[0].sites[0].stack);
	EXPECT(bytes < (8 << 20) + 16384);
	EXPECT(left_out > 100 && left_out < sites);
}

/* Clients that ask and go, again and again, leave nothing to be done. */
TEST(what_nobody_waits_for_is_not_made)
{
	_cleanup_(view_worker_freep) struct view_worker *w = worker();
	_cleanup_free_ char *text = NULL, *none = NULL;
	uint64_t id;

	push(w, 1, 200);
	for (uint64_t i = 2; i < 50; i++)
		push(w, i, 50);
	for (uint64_t i = 1; i < 49; i++)
		view_worker_cancel(w, i);
	text = take(w, 20000, &id);
	EXPECT_EQ(id, 49);
	EXPECT(text);
	none = take(w, 50, &id);
	EXPECT(!none);
	/* One that is made already. */
	push(w, 50, 1);
	(void)poll(&(struct pollfd){ .fd = view_worker_fd(w), .events = POLLIN }, 1, 10000);
	view_worker_cancel(w, 50);
	view_worker_cancel(w, 51);
	EXPECT_EQ(view_worker_take(w, &id, &none), 0);
}

/* The end of the daemon does not wait for what is in work. */
TEST(an_end_in_between)
{
	for (int i = 0; i < 5; i++) {
		struct view_worker *w = worker();

		push(w, 1, 500);
		push(w, 2, 500);
		view_worker_free(w);
	}
	objects_unref(TAKE_PTR(objects));
}

TEST_MAIN()
