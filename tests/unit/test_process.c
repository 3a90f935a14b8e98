/* SPDX-License-Identifier: MIT */
#include "engine_sim.h"
#include "model/saturate.h"

static struct event alloc_event(uint64_t bytes, uint64_t stack, uint8_t class, int device)
{
	return (struct event){ .type = EVENT_ALLOC, .pid = 5, .start_ns = 1, .time_ns = 100, .bytes = bytes,
			       .stack = stack, .class = class, .device = device };
}

static struct event free_event(struct event ev)
{
	ev.type = EVENT_FREE;
	ev.birth_ns = ev.time_ns;
	return ev;
}

static struct limits small_limits(void)
{
	struct limits l = LIMITS_DEFAULT;

	l.sites_per_process = 8;
	return l;
}

TEST(totals_by_class_and_device)
{
	_cleanup_(processes_done) struct processes ps = { 0 };
	struct limits l = small_limits();
	struct event a, b, c, d;
	struct process *p = NULL;
	struct change ch;

	ASSERT(processes_add(&ps, 5, 1, 50, &p) == 0);
	a = alloc_event(100, 1, CLASS_DEVICE, 0);
	b = alloc_event(200, 2, CLASS_ASYNC, 1);
	c = alloc_event(400, 3, CLASS_MANAGED, 0);
	d = alloc_event(800, 4, CLASS_IMPORTED, 0);
	EXPECT_EQ(process_alloc(p, &a, &l, &ch), 0);
	EXPECT_EQ(process_alloc(p, &b, &l, &ch), 0);
	EXPECT_EQ(process_alloc(p, &c, &l, &ch), 0);
	EXPECT_EQ(process_alloc(p, &d, &l, &ch), 0);
	EXPECT_EQ(p->live_bytes, 300);
	EXPECT_EQ(p->live[CLASS_MANAGED], 400);
	EXPECT_EQ(p->peak_bytes, 300);
	EXPECT_EQ(p->peak_stack, 2);
	EXPECT_EQ(p->live_count, 4);
	EXPECT_EQ(p->devices_len, 2);
	EXPECT_EQ(sat_sum(p->devices[0].live, CLASS_DEVICE_MASK), 100);
	EXPECT_EQ(sat_sum(p->devices[1].live, CLASS_DEVICE_MASK), 200);
	EXPECT_EQ(process_main_device(p, CLASS_DEVICE_MASK), 1);
	EXPECT_EQ(process_top_site(p)->key, 3);

	a = free_event(a);
	EXPECT_EQ(process_free(p, &a, &ch), 0);
	EXPECT(ch.is_free && ch.bytes == 100 && ch.device_bytes == 100 && ch.site_bytes == 100);
	EXPECT_EQ(p->live_bytes, 200);
	EXPECT_EQ(p->peak_bytes, 300);
	EXPECT(p->exact);

	/* Once more: it was not there. */
	EXPECT_EQ(process_free(p, &a, &ch), 0);
	EXPECT_EQ(p->live[CLASS_DEVICE], 0);
	EXPECT(!p->exact);
	EXPECT_EQ(p->free_count, 2);
}

TEST(unknown_frees_and_untracked_allocations_only_count)
{
	_cleanup_(processes_done) struct processes ps = { 0 };
	struct limits l = small_limits();
	struct process *p = NULL;
	struct event ev;
	struct change ch;

	ASSERT(processes_add(&ps, 5, 1, 50, &p) == 0);
	ev = alloc_event(100, 1, CLASS_DEVICE, 0);
	ev.flags = EVENT_F_UNTRACKED;
	EXPECT_EQ(process_alloc(p, &ev, &l, &ch), 0);
	EXPECT(!ch.site);
	EXPECT_EQ(p->live_bytes, 0);
	EXPECT_EQ(p->alloc_count, 1);
	EXPECT_EQ(p->untracked_bytes, 100);
	ev = free_event(ev);
	ev.flags = EVENT_F_UNKNOWN;
	EXPECT_EQ(process_free(p, &ev, &ch), 0);
	EXPECT(!ch.site);
	EXPECT_EQ(p->unknown_free_count, 1);
	EXPECT_EQ(p->free_count, 0);
	EXPECT(p->exact);
}

TEST(absurd_sizes_saturate)
{
	_cleanup_(processes_done) struct processes ps = { 0 };
	struct limits l = small_limits();
	struct process *p = NULL;
	struct event a, b;
	struct change ch;

	ASSERT(processes_add(&ps, 5, 1, 50, &p) == 0);
	a = alloc_event(UINT64_MAX - 10, 1, CLASS_DEVICE, 0);
	b = alloc_event(1000, 1, CLASS_ARRAY, 0);
	EXPECT_EQ(process_alloc(p, &a, &l, &ch), 0);
	EXPECT_EQ(process_alloc(p, &b, &l, &ch), 0);
	EXPECT(p->live_bytes == UINT64_MAX);
	EXPECT(p->peak_bytes == UINT64_MAX);
	EXPECT_EQ(process_alloc(p, &a, &l, &ch), 0);
	EXPECT_EQ(ch.bytes, 10);
	EXPECT(!p->exact);
	a = free_event(a);
	EXPECT_EQ(process_free(p, &a, &ch), 0);
	EXPECT_EQ(p->live_bytes, 1000 + 10);
}

TEST(sites_beyond_the_limit_share_one)
{
	_cleanup_(processes_done) struct processes ps = { 0 };
	struct limits l = small_limits();
	struct process *p = NULL;
	struct site **sorted = NULL, *s;
	struct event ev[20];
	struct change ch;
	size_t len = 0, iter = 0, n = 0;
	uint64_t sum = 0;

	ASSERT(processes_add(&ps, 5, 1, 50, &p) == 0);
	for (int i = 0; i < 20; i++) {
		ev[i] = alloc_event(100 + i, 1000 + i, CLASS_DEVICE, 0);
		EXPECT_EQ(process_alloc(p, &ev[i], &l, &ch), 0);
	}
	EXPECT_EQ(p->sites_len, 8);
	EXPECT_EQ(p->sites_overflow, 12);
	while ((s = process_next_site(p, &iter))) {
		sum += s->bytes;
		n++;
	}
	EXPECT_EQ(n, 9);
	EXPECT_EQ(sum, p->live_bytes);
	ASSERT(process_sort_sites(p, &sorted, &len) == 0);
	EXPECT_EQ(len, 9);
	EXPECT(sorted[0]->is_other && sorted[0]->blocks == 12);
	EXPECT_EQ(sorted[1]->key, 1007);
	free(sorted);

	/* Empty sites make room, and blocks booked on "other" are found there still. */
	for (int i = 0; i < 8; i++) {
		ev[i] = free_event(ev[i]);
		(void)process_free(p, &ev[i], &ch);
	}
	for (int i = 0; i < 30; i++) {
		struct event again = alloc_event(7, 1012, CLASS_DEVICE, 0);

		(void)process_alloc(p, &again, &l, &ch);
	}
	EXPECT(process_stack_entry(p, 1012)->site != NULL);
	for (int i = 8; i < 20; i++) {
		ev[i] = free_event(ev[i]);
		(void)process_free(p, &ev[i], &ch);
	}
	EXPECT_EQ(p->live_bytes, 30 * 7);
	EXPECT(p->exact);
	sum = 0;
	for (iter = 0; (s = process_next_site(p, &iter));)
		sum += s->bytes;
	EXPECT_EQ(sum, 30 * 7);
}

TEST(stacks_are_bounded)
{
	_cleanup_(processes_done) struct processes ps = { 0 };
	struct limits l = small_limits();
	struct process *p = NULL;

	l.stacks_per_process = 4;
	ASSERT(processes_add(&ps, 5, 1, 50, &p) == 0);
	for (uint64_t k = 1; k <= 6; k++) {
		struct stack *s = stack_new_done(k, 5, NULL);

		ASSERT(s);
		EXPECT_EQ(process_add_stack(p, s, &l), k <= 4 ? 0 : -ENOSPC);
		EXPECT_EQ(process_add_stack(p, s, &l), k <= 4 ? 0 : -ENOSPC);
		stack_unref(s);
	}
	EXPECT_EQ(p->stacks_overflow, 4);
	EXPECT(process_stack(p, 4) && !process_stack(p, 5));
}

TEST(ordinals_are_bounded)
{
	_cleanup_(processes_done) struct processes ps = { 0 };
	struct limits l = small_limits();
	struct process *p = NULL;
	struct event ev;
	struct change ch;

	ASSERT(processes_add(&ps, 5, 1, 50, &p) == 0);
	for (int i = 0; i < 200; i++) {
		ev = alloc_event(10, 1, CLASS_DEVICE, i);
		EXPECT_EQ(process_alloc(p, &ev, &l, &ch), 0);
	}
	EXPECT_EQ(p->devices_len, PROCESS_DEVICES_MAX);
	for (int i = 0; i < 200; i++) {
		ev = free_event(alloc_event(10, 1, CLASS_DEVICE, i));
		EXPECT_EQ(process_free(p, &ev, &ch), 0);
		EXPECT_EQ(ch.device_bytes, 10);
	}
	for (size_t i = 0; i < p->devices_len; i++)
		EXPECT_EQ(sat_sum(p->devices[i].live, ~0u >> (32 - CLASS_MAX)), 0);
}

TEST(table_keeps_incarnations_apart)
{
	_cleanup_(processes_done) struct processes ps = { 0 };
	struct process *a = NULL, *b = NULL, *c = NULL;

	ASSERT(processes_add(&ps, 5, 1, 50, &a) == 0);
	ASSERT(processes_add(&ps, 5, 2, 50, &b) == 0);
	ASSERT(processes_add(&ps, 5, 3, 50, &c) == 0);
	EXPECT(processes_find(&ps, 5, 1) == a && processes_find(&ps, 5, 2) == b && processes_find(&ps, 5, 3) == c);
	EXPECT(processes_newest(&ps, 5) == c);
	processes_remove(&ps, b);
	EXPECT(processes_find(&ps, 5, 1) == a && !processes_find(&ps, 5, 2));
	processes_remove(&ps, c);
	EXPECT(processes_newest(&ps, 5) == a);
	processes_remove(&ps, a);
	EXPECT(!processes_newest(&ps, 5));
	EXPECT_EQ(ps.len, 0);
	for (uint32_t pid = 0; pid < 1000; pid++)
		ASSERT(processes_add(&ps, pid, 1, 1, &a) == 0);
	for (uint32_t pid = 0; pid < 1000; pid += 2)
		processes_remove(&ps, processes_find(&ps, pid, 1));
	EXPECT_EQ(ps.len, 500);
	for (size_t i = 0; i < ps.len; i++)
		EXPECT(ps.list[i]->index == i && (ps.list[i]->pid & 1));
}

TEST(devices_stay_while_needed)
{
	_cleanup_(devices_done) struct devices ds = DEVICES_INIT;
	struct device *a = NULL, *b = NULL;
	char uuid[32];

	ASSERT(devices_get(&ds, "GPU-a", &a) == 0);
	ASSERT(devices_get(&ds, "GPU-a", &b) == 0);
	EXPECT(a == b);
	EXPECT(device_free_bytes(a) == UINT64_MAX);
	a->total_bytes = 1000;
	a->live[CLASS_DEVICE] = 300;
	EXPECT_EQ(device_free_bytes(a), 700);
	a->used_bytes = 900;
	EXPECT_EQ(device_free_bytes(a), 100);
	a->used_bytes = 100;
	EXPECT_EQ(device_used(a, CLASS_DEVICE_MASK), 300);
	a->refs = 1;
	EXPECT(!devices_put(&ds, a));
	a->refs = 0;
	a->is_known = true;
	EXPECT(!devices_put(&ds, a));
	a->is_known = false;
	EXPECT(devices_put(&ds, a));
	EXPECT(!devices_find(&ds, "GPU-a"));
	for (int i = 0; i < DEVICES_MAX; i++) {
		snprintf(uuid, sizeof(uuid), "GPU-%d", i);
		ASSERT(devices_get(&ds, uuid, &a) == 0);
	}
	EXPECT_EQ(devices_get(&ds, "GPU-more", &b), -ENOSPC);
}

/* From here on through the engine. */
TEST(same_address_in_two_processes)
{
	struct sim s;

	sim_new(&s, NULL);
	sim_alloc(&s, 1, 10 * MIB, 1);
	sim_alloc(&s, 2, 20 * MIB, 1);
	EXPECT_EQ(sim_process(&s, 1)->live_bytes, 10 * MIB);
	EXPECT_EQ(sim_process(&s, 2)->live_bytes, 20 * MIB);
	sim_done(&s);
}

TEST(reused_pid_inherits_nothing)
{
	struct engine_totals t;
	struct event ev;
	struct sim s;

	sim_new(&s, NULL);
	sim_alloc(&s, 1, 10 * MIB, 1);
	/* The exit was lost; the pid comes again with another start. */
	ev = sim_event(&s, EVENT_ALLOC, 1);
	ev.start_ns = 77 * SEC;
	ev.bytes = MIB;
	EXPECT_EQ(sim_send(&s, &ev), 0);
	EXPECT(!sim_process(&s, 1));
	ASSERT(engine_process(s.e, 1, 77 * SEC));
	EXPECT_EQ(engine_process(s.e, 1, 77 * SEC)->live_bytes, MIB);
	/* Late news of the old one. */
	sim_alloc(&s, 1, 10 * MIB, 1);
	EXPECT(!sim_process(&s, 1));
	EXPECT_EQ(engine_set_ordinal(s.e, 1, 1 * SEC, 0, "GPU-a"), -ESRCH);
	engine_totals(s.e, &t);
	EXPECT_EQ(t.processes, 1);
	EXPECT_EQ(t.live_bytes, MIB);
	sim_done(&s);
}

TEST(exec_starts_anew)
{
	struct sim s;

	sim_new(&s, NULL);
	sim_simple(&s, EVENT_PROCESS, 1);
	EXPECT(sim_process(&s, 1));
	sim_alloc(&s, 1, 10 * MIB, 1);
	sim_simple(&s, EVENT_EXEC, 1);
	EXPECT(!sim_process(&s, 1));
	sim_alloc(&s, 1, MIB, 1);
	EXPECT_EQ(sim_process(&s, 1)->live_bytes, MIB);
	EXPECT_EQ(sim_process(&s, 1)->alloc_count, 1);
	sim_simple(&s, EVENT_EXIT, 1);
	sim_simple(&s, EVENT_EXIT, 1);
	EXPECT(!sim_process(&s, 1));
	sim_done(&s);
}

TEST(processes_are_bounded)
{
	struct limits l = LIMITS_DEFAULT;
	struct engine_totals t;
	struct sim s;
	size_t iter = 0, n = 0;

	l.processes = 3;
	sim_new_limits(&s, NULL, l);
	for (uint32_t pid = 1; pid <= 5; pid++)
		sim_alloc(&s, pid, MIB, 1);
	EXPECT_EQ(s.last_r, 0);
	engine_totals(s.e, &t);
	EXPECT_EQ(t.processes, 3);
	EXPECT_EQ(t.overflow_processes, 2);
	while (engine_next_process(s.e, &iter))
		n++;
	EXPECT_EQ(n, 3);
	sim_simple(&s, EVENT_EXIT, 1);
	sim_alloc(&s, 5, MIB, 1);
	EXPECT(sim_process(&s, 5));
	sim_done(&s);
}

TEST(nonsense_is_ignored)
{
	struct event ev;
	struct sim s;

	sim_new(&s, NULL);
	ev = sim_event(&s, 99, 1);
	EXPECT_EQ(sim_send(&s, &ev), 0);
	ev = sim_event(&s, EVENT_ALLOC, 1);
	ev.class = CLASS_MAX;
	EXPECT_EQ(sim_send(&s, &ev), 0);
	EXPECT(!sim_process(&s, 1));
	ev = sim_event(&s, EVENT_STACK + 1, 1);
	EXPECT_EQ(sim_send(&s, &ev), 0);
	EXPECT(!sim_process(&s, 1));
	/* Calls whose device is not known may turn out to be of the only one. */
	EXPECT_EQ(engine_set_ordinal(s.e, 1, 1, EVENT_NO_DEVICE, "GPU-a"), 0);
	EXPECT_EQ(engine_set_ordinal(s.e, 1, 1, EVENT_NO_DEVICE - 1, "GPU-a"), -EINVAL);
	EXPECT_EQ(engine_rebuild_add(s.e, &ev), -ESRCH);
	sim_done(&s);
}

TEST_MAIN()
