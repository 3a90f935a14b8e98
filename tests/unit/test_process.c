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

/* A framework's blocks are cut out of memory that is counted already, perhaps by the same line of code. */
TEST(blocks_of_a_framework_are_apart)
{
	_cleanup_(processes_done) struct processes ps = { 0 };
	struct limits l = small_limits();
	struct event segment = alloc_event(1000, 1, CLASS_DEVICE, 0), tensor = alloc_event(600, 1, CLASS_FRAMEWORK, 0);
	struct event other = alloc_event(50, 2, CLASS_DEVICE, 0), fail = tensor, unknown;
	struct site **sorted = NULL;
	struct process *p = NULL;
	struct change ch;
	size_t len = 0;

	ASSERT(processes_add(&ps, 5, 1, 50, &p) == 0);
	tensor.call = 9;
	EXPECT_EQ(process_alloc(p, &segment, &l, &ch), 0);
	EXPECT_EQ(process_alloc(p, &tensor, &l, &ch), 0);
	EXPECT(ch.site_bytes == 600 && ch.bytes == 600);
	EXPECT_EQ(process_alloc(p, &other, &l, &ch), 0);
	EXPECT(p->live_bytes == 1050 && p->peak_bytes == 1050 && p->live[CLASS_FRAMEWORK] == 600);
	EXPECT(p->live_count == 2 && p->alloc_count == 2);
	EXPECT(p->framework_live_count == 1 && p->framework_alloc_count == 1);
	EXPECT_EQ(sat_sum(p->devices[0].live, CLASS_DEVICE_MASK), 1050);
	EXPECT(p->sites_len == 2 && p->sites[0]->bytes == 1000 && p->sites[0]->framework_bytes == 600);
	EXPECT(p->sites[0]->class == CLASS_DEVICE && p->sites[0]->call == segment.call);
	EXPECT_EQ(site_live_bytes(p->sites[0], CLASS_DEVICE_MASK), 1000);
	EXPECT_EQ(site_live_bytes(p->sites[0], 1u << CLASS_FRAMEWORK), 600);
	EXPECT_EQ(process_top_site(p, 1u << CLASS_FRAMEWORK)->key, 1);

	fail.type = EVENT_FAIL;
	process_fail(p, &fail);
	unknown = free_event(tensor);
	unknown.flags = EVENT_F_UNKNOWN;
	EXPECT_EQ(process_free(p, &unknown, &ch), 0);
	EXPECT(p->fail_count == 0 && p->unknown_free_count == 0);

	/* The segment goes, the site holds what was cut out of it alone. */
	segment = free_event(segment);
	EXPECT_EQ(process_free(p, &segment, &ch), 0);
	EXPECT(p->sites[0]->bytes == 0 && p->sites[0]->framework_bytes == 600 && p->live_bytes == 50);
	ASSERT(process_sort_sites(p, &sorted, &len) == 0);
	EXPECT(len == 2 && sorted[0]->key == 2 && sorted[1]->key == 1);
	free(sorted);
	EXPECT(!site_release(p, p->sites[0]));
	tensor = free_event(tensor);
	EXPECT_EQ(process_free(p, &tensor, &ch), 0);
	EXPECT(site_release(p, p->sites[0]) && p->live[CLASS_FRAMEWORK] == 0);
	EXPECT(p->free_count == 1 && p->framework_free_count == 1 && p->framework_live_count == 0 && p->exact);
}

TEST(pools_keep_what_was_freed)
{
	_cleanup_(processes_done) struct processes ps = { 0 };
	struct limits l = small_limits();
	struct event a = alloc_event(100, 1, CLASS_ASYNC, 0), g = alloc_event(70, 1, CLASS_GRAPH, 0);
	struct event d = alloc_event(1000, 1, CLASS_DEVICE, 0);
	struct process *p = NULL;
	struct change ch;

	ASSERT(processes_add(&ps, 5, 1, 50, &p) == 0);
	EXPECT_EQ(process_alloc(p, &d, &l, &ch), 0);
	EXPECT_EQ(process_alloc(p, &a, &l, &ch), 0);
	EXPECT_EQ(process_alloc(p, &g, &l, &ch), 0);
	a = free_event(a);
	EXPECT_EQ(process_free(p, &a, &ch), 0);
	EXPECT_EQ(p->pool_peak_bytes, 170);
}

TEST(slots_of_the_driver)
{
	_cleanup_(devices_done) struct devices devices = DEVICES_INIT;
	_cleanup_(processes_done) struct processes ps = { 0 };
	struct device *one = NULL, *two = NULL;
	struct process *p = NULL;
	bool is_new;
	int slot;

	ASSERT(processes_add(&ps, 5, 1, 50, &p) == 0);
	ASSERT(devices_get(&devices, "GPU-1", &one) == 0 && devices_get(&devices, "GPU-2", &two) == 0);
	slot = process_driver_slot(p, one, &is_new);
	EXPECT(slot == 0 && is_new && p->devices[0].ordinal == PROCESS_DEVICE_DRIVER);
	EXPECT(process_driver_slot(p, one, &is_new) == 0 && !is_new);
	/* Its own ordinal goes before one that only the driver has named, and no event finds the driver's. */
	EXPECT_EQ(process_device_slot(p, PROCESS_DEVICE_DRIVER), 1);
	EXPECT_EQ(p->devices[1].ordinal, EVENT_NO_DEVICE);
	slot = process_device_slot(p, 0);
	ASSERT(slot == 2);
	p->devices[slot].device = one;
	EXPECT(process_driver_slot(p, one, &is_new) == 2 && !is_new);
	EXPECT(process_driver_slot(p, two, &is_new) == 3 && is_new);
	while (p->devices_len < PROCESS_DEVICES_MAX - 1)
		ASSERT(process_device_slot(p, (int)p->devices_len) >= 0);
	p->devices[3].device = NULL;
	EXPECT_EQ(process_driver_slot(p, two, &is_new), -ENOSPC);
	for (size_t i = 0; i < p->devices_len; i++)
		p->devices[i].device = NULL;
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
	/* Managed memory is no answer to what holds most of the device. */
	EXPECT_EQ(process_top_site(p, CLASS_DEVICE_MASK)->key, 2);
	EXPECT_EQ(process_top_site(p, 1u << CLASS_MANAGED)->key, 3);

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
	ev = free_event(alloc_event(100, 1, CLASS_DEVICE, 0));
	ev.flags = EVENT_F_UNKNOWN;
	EXPECT_EQ(process_free(p, &ev, &ch), 0);
	EXPECT(!ch.site);
	EXPECT_EQ(p->unknown_free_count, 1);
	EXPECT_EQ(p->free_count, 0);
	EXPECT(p->exact);
	ev = alloc_event(100, 1, CLASS_DEVICE, 0);
	ev.flags = EVENT_F_UNTRACKED;
	EXPECT_EQ(process_alloc(p, &ev, &l, &ch), 0);
	EXPECT(!ch.site);
	EXPECT_EQ(p->live_bytes, 0);
	EXPECT_EQ(p->alloc_count, 1);
	EXPECT_EQ(p->untracked_bytes, 100);
	EXPECT(!p->exact);
}

/* Allocates with these numbers of stacks, first to last, 10 bytes each. */
static void alloc_stacks(struct process *p, const struct limits *l, uint64_t first, uint64_t last)
{
	struct change ch;

	for (uint64_t i = first; i <= last; i++) {
		struct event ev = alloc_event(10, i, CLASS_DEVICE, 0);

		EXPECT_EQ(process_alloc(p, &ev, l, &ch), 0);
	}
}

TEST(one_process_does_not_take_the_sites_of_all)
{
	struct processes ps = { 0 };
	struct limits l = LIMITS_DEFAULT;
	struct process *hog = NULL, *second = NULL, *third = NULL;
	struct change ch;

	l.sites = 320; /* the last 10 are for those who have less */
	ASSERT(processes_add(&ps, 5, 1, 50, &hog) == 0 && processes_add(&ps, 6, 1, 50, &second) == 0 &&
	       processes_add(&ps, 7, 1, 50, &third) == 0);
	alloc_stacks(hog, &l, 1, 1000);
	EXPECT_EQ(hog->sites_len, 310);
	EXPECT_EQ(hog->stacks.len, 310);
	EXPECT_EQ(hog->other.bytes, 6900);
	EXPECT_EQ(hog->live_bytes, 10000);
	EXPECT(hog->exact && hog->stacks_overflow == 690 && ps.stacks_overflow == 690);
	/* Half of the rest each. */
	alloc_stacks(second, &l, 2001, 2100);
	EXPECT_EQ(second->sites_len, 5);
	alloc_stacks(third, &l, 3001, 3001);
	EXPECT_EQ(third->sites_len, 1);
	EXPECT_EQ(third->other.bytes, 0);
	EXPECT_EQ(ps.sites, 316);
	EXPECT_EQ(ps.stacks, 316);

	/* What one gives back others may have. */
	processes_remove(&ps, hog);
	EXPECT_EQ(ps.sites, 6);
	alloc_stacks(second, &l, 2101, 2200);
	EXPECT_EQ(second->sites_len, 105);
	for (uint64_t i = 2101; i <= 2200; i++) {
		struct event ev = free_event(alloc_event(10, i, CLASS_DEVICE, 0));

		EXPECT_EQ(process_free(second, &ev, &ch), 0);
	}
	EXPECT_EQ(second->live_bytes, 1000);
	processes_done(&ps);
	EXPECT_EQ(ps.sites + ps.stacks, 0);
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
