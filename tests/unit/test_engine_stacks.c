/* SPDX-License-Identifier: MIT */
/* Stacks that are numbered, resolved later, and several of which are one call site. */
#include "engine_sim.h"

#define RULES(text) "version = 1; rules = (" text ");"
#define PID 3

static struct site *site_of(struct sim *s, uint64_t number)
{
	struct stack_entry *e = process_stack_entry(sim_process(s, PID), number);

	return e ? e->site : NULL;
}

static size_t sites_len(struct sim *s)
{
	size_t iter = 0, n = 0;

	while (process_next_site(sim_process(s, PID), &iter))
		n++;
	return n;
}

TEST(two_stacks_are_one_site)
{
	struct stack *raw[3];
	struct block b[4];
	struct sim s;
	struct site *site;

	sim_new(&s, NULL);
	for (uint64_t i = 0; i < 3; i++)
		raw[i] = sim_raw_stack(&s, PID, i + 1);
	b[0] = sim_alloc(&s, PID, 10 * MIB, 1);
	s.now += SEC;
	b[1] = sim_alloc_on(&s, PID, 20 * MIB, 2, CLASS_ASYNC, 1);
	EXPECT(site_of(&s, 1) && site_of(&s, 2) && site_of(&s, 1) != site_of(&s, 2));
	EXPECT(site_of(&s, 1)->stack == raw[0]);
	/* One becomes the site, the other part of it; the third does before anything is allocated there. */
	EXPECT_EQ(sim_resolve(&s, raw[1], 200, 0xabc), 0);
	EXPECT_EQ(sites_len(&s), 2);
	EXPECT_EQ(sim_resolve(&s, raw[0], 100, 0xabc), 0);
	EXPECT_EQ(sim_resolve(&s, raw[2], 300, 0xabc), 0);
	ASSERT(sites_len(&s) == 1);
	site = site_of(&s, 1);
	EXPECT(site == site_of(&s, 2) && site->is_resolved && site->key == 0xabc);
	EXPECT_EQ(site->bytes, 30 * MIB);
	EXPECT_EQ(site->blocks, 2);
	EXPECT_EQ(site->alloc_count, 2);
	EXPECT_EQ(site->last_ns - site->first_ns, SEC);
	EXPECT(site->class == CLASS_ASYNC && site->device == 1);
	EXPECT_EQ(site->stack->key, 2);
	b[2] = sim_alloc(&s, PID, 40 * MIB, 3);
	b[3] = sim_alloc(&s, PID, 80 * MIB, 2);
	EXPECT_EQ(site->bytes, 150 * MIB);
	EXPECT_EQ(sites_len(&s), 1);
	for (size_t i = 0; i < 4; i++)
		sim_free(&s, b[i]);
	EXPECT(site->bytes == 0 && site->blocks == 0 && site->alloc_count == 4);
	EXPECT_EQ(s.forgotten, 0);
	sim_done(&s);
}

TEST(answers_that_come_late_or_astray)
{
	struct stack *raw;
	struct sim s;

	sim_new(&s, RULES("{ name = \"leak\"; kind = \"leak\"; scope = \"stack\"; epoch = \"2s\"; }"));
	raw = sim_raw_stack(&s, PID, 1);
	/* All of it was freed meanwhile. */
	sim_free(&s, sim_alloc(&s, PID, 10 * MIB, 1));
	EXPECT_EQ(sim_resolve(&s, raw, 1, 0xabc), 0);
	EXPECT(site_of(&s, 1)->is_resolved && site_of(&s, 1)->alloc_count == 1 && site_of(&s, 1)->bytes == 0);
	/* Once is enough. */
	EXPECT_EQ(engine_set_site(s.e, PID, PID * SEC, 1, 0xdef), 0);
	EXPECT_EQ(engine_set_site(s.e, PID, PID * SEC, 1, 0xabc), 0);
	EXPECT(site_of(&s, 1)->key == 0xabc && site_of(&s, 1)->watch);
	EXPECT_EQ(engine_set_site(s.e, PID, PID * SEC, 2, 0xabc), -ENOENT);
	EXPECT_EQ(engine_set_site(s.e, PID, PID * SEC, 0, 0xabc), -ENOENT);
	EXPECT_EQ(engine_set_site(s.e, PID + 1, PID * SEC, 1, 0xabc), -ESRCH);
	EXPECT(!sim_process(&s, PID + 1));
	raw = sim_raw_stack(&s, PID, 0);
	EXPECT_EQ(s.last_r, -EINVAL);
	stack_unref(raw);
	/* The process ends before the answer. */
	raw = sim_raw_stack(&s, PID, 5);
	sim_alloc(&s, PID, MIB, 5);
	sim_simple(&s, EVENT_EXEC, PID);
	EXPECT_EQ(sim_resolve(&s, raw, 1, 0xabc), -ESRCH);
	EXPECT_EQ(s.forgotten, 0);
	sim_done(&s);
}

TEST(a_key_is_no_number)
{
	struct stack *raw;
	struct sim s;

	sim_new(&s, NULL);
	sim_alloc(&s, PID, 1, 0);
	sim_alloc(&s, PID, 10, 5);
	raw = sim_raw_stack(&s, PID, 6);
	sim_alloc(&s, PID, 100, 6);
	EXPECT_EQ(sim_resolve(&s, raw, 1, 5), 0);
	raw = sim_raw_stack(&s, PID, 7);
	sim_alloc(&s, PID, 1000, 7);
	EXPECT_EQ(sim_resolve(&s, raw, 2, 0), 0);
	EXPECT_EQ(sites_len(&s), 4);
	EXPECT_EQ(site_of(&s, 0)->bytes, 1);
	EXPECT_EQ(site_of(&s, 5)->bytes, 10);
	EXPECT_EQ(site_of(&s, 6)->bytes, 100);
	EXPECT_EQ(site_of(&s, 7)->bytes, 1000);
	sim_done(&s);
}

TEST(a_call_carries_its_stack_a_site_the_one_that_stands_for_it)
{
	struct stack *raw[2];
	struct event ev;
	struct sim s;

	sim_new(&s, RULES("{ name = \"large\"; kind = \"single_alloc\"; fire_above = \"1GiB\"; },"
			  "{ name = \"oom\"; kind = \"alloc_failure\"; count = 1; window = \"1m\"; },"
			  "{ name = \"q\"; kind = \"live_bytes\"; fire_above = \"1GiB\"; for = \"0s\"; }"));
	for (uint64_t i = 0; i < 2; i++)
		raw[i] = sim_raw_stack(&s, PID, i + 1);
	sim_alloc(&s, PID, 10 * MIB, 1);
	EXPECT_EQ(sim_resolve(&s, stack_ref(raw[0]), 100, 0xabc), 0);
	EXPECT_EQ(sim_resolve(&s, stack_ref(raw[1]), 200, 0xabc), 0);
	sim_alloc(&s, PID, 2 * GIB, 2);
	ASSERT(sim_get(&s, "large", 0) && sim_get(&s, "q", 0));
	EXPECT(sim_get(&s, "large", 0)->stack == raw[1]);
	EXPECT_EQ(sim_get(&s, "large", 0)->stack_bytes, 2 * GIB + 10 * MIB);
	EXPECT(sim_get(&s, "q", 0)->stack == raw[0]);
	EXPECT_EQ(sim_get(&s, "q", 0)->stack_bytes, 2 * GIB + 10 * MIB);
	stack_unref(raw[0]);
	stack_unref(raw[1]);
	/* One that nobody has resolved yet goes along all the same: whoever writes the record can wait for it. */
	raw[0] = sim_raw_stack(&s, PID, 3);
	sim_fail(&s, PID, GIB, 3);
	ASSERT(sim_get(&s, "oom", 0));
	EXPECT(sim_get(&s, "oom", 0)->stack == raw[0] && sim_get(&s, "oom", 0)->stack_reason == STACK_OK);
	EXPECT_EQ(sim_get(&s, "oom", 0)->stack_bytes, ABSENT_U64);
	stack_unref(raw[0]);
	/* Over the budget of new stacks: no number, and the reason why. */
	ev = sim_event(&s, EVENT_FAIL, PID);
	ev.bytes = GIB;
	ev.stack_reason = STACK_SAMPLED;
	(void)sim_send(&s, &ev);
	ASSERT(sim_get(&s, "oom", 1));
	EXPECT(!sim_get(&s, "oom", 1)->stack && sim_get(&s, "oom", 1)->stack_reason == STACK_SAMPLED);
	ev.type = EVENT_ALLOC;
	ev.bytes = 9 * GIB;
	(void)sim_send(&s, &ev);
	EXPECT_EQ(sim_get(&s, "large", 1)->stack_reason, STACK_SAMPLED);
	EXPECT_EQ(site_of(&s, 0)->stack_reason, STACK_SAMPLED);
	sim_done(&s);
}

TEST(a_resolved_stack_stands_for_the_site)
{
	struct stack *raw;
	struct sim s;

	sim_new(&s, NULL);
	/* The copy of the first was lost, and the second could not be unwound. */
	sim_alloc(&s, PID, 1, 1);
	EXPECT_EQ(engine_set_site(s.e, PID, PID * SEC, 1, 0xabc), 0);
	EXPECT(!site_of(&s, 1)->stack);
	raw = sim_raw_stack(&s, PID, 2);
	sim_alloc(&s, PID, 1, 2);
	EXPECT_EQ(engine_set_site(s.e, PID, PID * SEC, 2, 0xabc), 0);
	EXPECT(site_of(&s, 1) == site_of(&s, 2) && site_of(&s, 1)->stack == raw);
	stack_unref(raw);
	raw = sim_raw_stack(&s, PID, 3);
	EXPECT_EQ(sim_resolve(&s, raw, 3, 0xabc), 0);
	EXPECT_EQ(site_of(&s, 1)->stack->key, 3);
	raw = sim_raw_stack(&s, PID, 4);
	EXPECT_EQ(sim_resolve(&s, raw, 4, 0xabc), 0);
	EXPECT_EQ(site_of(&s, 1)->stack->key, 3);
	sim_done(&s);
}

TEST(copies_go_and_the_first_stays)
{
	struct limits l = LIMITS_DEFAULT;
	struct process *p;
	struct stack *raw;
	struct block kept = { 0 };
	struct sim s;

	l.stacks_per_process = 64;
	sim_new_limits(&s, NULL, l);
	/* The probe cannot learn this one: each allocation has a number of its own. */
	for (uint64_t i = 1; i <= 1000; i++) {
		struct block b;

		raw = sim_raw_stack(&s, PID, i);
		EXPECT_EQ(s.last_r, 0);
		b = sim_alloc(&s, PID, MIB, i);
		if (i == 500)
			kept = b;
		else if (i & 1)
			sim_free(&s, b);
		EXPECT_EQ(sim_resolve(&s, raw, 77, 0xabc), 0);
		if (i != 500 && !(i & 1))
			sim_free(&s, b);
	}
	p = sim_process(&s, PID);
	EXPECT(p->stacks.len <= 64 / 8 + 4);
	EXPECT_EQ(p->stacks_overflow, 0);
	EXPECT(s.forgotten > 0); /* it may know them, if it was told to forget the first */
	EXPECT_EQ(sites_len(&s), 1);
	/* One frame for all of them. */
	ASSERT(process_stack(p, 1) && process_stack(p, 500));
	EXPECT(process_stack(p, 500) == process_stack(p, 1));
	EXPECT(process_stack_entry(p, 500)->is_copy && !process_stack_entry(p, 1)->is_copy);
	EXPECT_EQ(site_of(&s, 500)->bytes, MIB);
	EXPECT_EQ(site_of(&s, 500)->alloc_count, 1000);
	sim_free(&s, kept);
	EXPECT(site_of(&s, 1)->bytes == 0 && p->exact);
	sim_done(&s);
}

TEST(a_copy_that_is_named_again_is_no_copy)
{
	struct limits l = LIMITS_DEFAULT;
	struct stack *raw;
	struct sim s;

	l.stacks_per_process = 16;
	sim_new_limits(&s, NULL, l);
	sim_stack(&s, PID, 1);
	sim_free(&s, sim_alloc(&s, PID, MIB, 1));
	/* The probe had to forget it, and has learned it anew. */
	raw = sim_raw_stack(&s, PID, 2);
	sim_free(&s, sim_alloc(&s, PID, MIB, 2));
	EXPECT_EQ(sim_resolve(&s, raw, 1, hash64(1)), 0);
	sim_free(&s, sim_alloc(&s, PID, MIB, 2));
	for (uint64_t i = 3; i < 200; i++) {
		raw = sim_raw_stack(&s, PID, i);
		sim_free(&s, sim_alloc(&s, PID, MIB, i));
		EXPECT_EQ(sim_resolve(&s, raw, 1, hash64(1)), 0);
		if (i % 5 == 0)
			sim_free(&s, sim_alloc(&s, PID, MIB, 2));
	}
	EXPECT(process_stack(sim_process(&s, PID), 2) != NULL);
	EXPECT(s.forgotten > 0); /* it may know them, if it was told to forget the first */
	EXPECT_EQ(sites_len(&s), 1);
	sim_done(&s);
}

TEST(idle_stacks_make_room)
{
	struct limits l = LIMITS_DEFAULT;
	struct process *p;
	struct stack *raw;
	struct sim s;

	l.stacks_per_process = 16;
	sim_new_limits(&s, NULL, l);
	sim_stack(&s, PID, 1);
	sim_alloc(&s, PID, MIB, 1);
	for (uint64_t i = 2; i <= 200; i++) {
		raw = sim_raw_stack(&s, PID, i);
		EXPECT_EQ(s.last_r, 0);
		sim_free(&s, sim_alloc(&s, PID, MIB, i));
		if (i & 1)
			EXPECT_EQ(sim_resolve(&s, raw, i, hash64(i)), 0);
		else
			stack_unref(raw);
		/* This one is in use. */
		if (i % 5 == 0)
			sim_free(&s, sim_alloc(&s, PID, MIB, 2));
	}
	p = sim_process(&s, PID);
	EXPECT(s.forgotten >= 180 && s.forgotten == p->stacks_dropped);
	EXPECT(s.last_forgotten > 100);
	EXPECT(process_stack(p, 1) && process_stack(p, 2) && process_stack(p, 200));
	EXPECT(!process_stack(p, 3));
	EXPECT_EQ(p->stacks_overflow, 0);
	EXPECT_EQ(site_of(&s, 1)->bytes, MIB);
	sim_done(&s);
}

TEST(what_finds_no_room_is_on_other)
{
	struct limits l = LIMITS_DEFAULT;
	struct engine_totals t;
	struct block b[40];
	struct process *p;
	struct stack *raw;
	struct sim s;

	l.stacks_per_process = 16;
	sim_new_limits(&s, RULES("{ name = \"q\"; kind = \"live_bytes\"; fire_above = \"30MiB\"; for = \"0s\"; },"
				 "{ name = \"one\"; kind = \"single_alloc\"; fire_above = \"100MiB\"; }"), l);
	for (uint64_t i = 1; i <= 32; i++) {
		raw = sim_raw_stack(&s, PID, i);
		EXPECT_EQ(s.last_r, i <= 16 ? 0 : -ENOSPC);
		b[i] = sim_alloc(&s, PID, MIB, i);
		stack_unref(raw);
	}
	p = sim_process(&s, PID);
	EXPECT_EQ(p->stacks.len, 16);
	EXPECT_EQ(p->stacks_overflow, 32);
	EXPECT_EQ(p->sites_overflow, 0);
	EXPECT(p->other.bytes == 16 * MIB && p->other.blocks == 16);
	EXPECT(p->exact);
	ASSERT(s.len == 1);
	EXPECT(!s.reports[0]->stack && s.reports[0]->stack_reason == STACK_EVICTED);
	EXPECT(s.reports[0]->stack_bytes == 15 * MIB);
	b[33] = sim_alloc(&s, PID, 200 * MIB, 33);
	ASSERT(sim_get(&s, "one", 0));
	EXPECT_EQ(sim_get(&s, "one", 0)->stack_reason, STACK_EVICTED);
	EXPECT_EQ(s.forgotten, 0);
	engine_totals(s.e, &t);
	EXPECT_EQ(t.overflow_stacks, 33);
	for (uint64_t i = 1; i <= 33; i++)
		sim_free(&s, b[i]);
	EXPECT(p->other.bytes == 0 && p->other.blocks == 0 && p->live_bytes == 0);
	sim_done(&s);
}

TEST(a_number_that_only_the_probe_knows)
{
	struct stack *raw;
	struct sim s;

	sim_new(&s, NULL);
	sim_alloc(&s, PID, MIB, 9);
	EXPECT(s.forgotten == 1 && s.last_forgotten == 9);
	sim_alloc(&s, PID, MIB, 9);
	EXPECT_EQ(s.forgotten, 1);
	EXPECT_EQ(site_of(&s, 9)->bytes, 2 * MIB);
	sim_fail(&s, PID, MIB, 10); /* no bytes to keep: no entry */
	EXPECT(!process_stack_entry(sim_process(&s, PID), 10));
	EXPECT(s.forgotten == 2 && s.last_forgotten == 10);
	/* The copy may come after all. */
	raw = sim_raw_stack(&s, PID, 9);
	EXPECT(site_of(&s, 9)->stack == raw);
	EXPECT_EQ(sim_resolve(&s, raw, 1, 0xabc), 0);
	EXPECT_EQ(site_of(&s, 9)->key, 0xabc);
	sim_done(&s);
}

TEST(a_site_that_made_room_comes_back)
{
	struct limits l = LIMITS_DEFAULT;
	struct stack *raw;
	struct sim s;

	l.sites_per_process = 8;
	sim_new_limits(&s, NULL, l);
	sim_stack(&s, PID, 1);
	raw = sim_raw_stack(&s, PID, 2);
	for (uint64_t i = 1; i <= 40; i++)
		sim_free(&s, sim_alloc(&s, PID, MIB, i));
	EXPECT(!site_of(&s, 1) && !site_of(&s, 2));
	EXPECT(sim_process(&s, PID)->sites_len <= 8);
	sim_alloc(&s, PID, MIB, 1);
	sim_alloc(&s, PID, MIB, 2);
	ASSERT(site_of(&s, 1) && site_of(&s, 2));
	EXPECT(site_of(&s, 1)->is_resolved && site_of(&s, 1)->key == hash64(1) && site_of(&s, 1)->stack->key == 1);
	EXPECT(!site_of(&s, 2)->is_resolved && site_of(&s, 2)->stack == raw);
	stack_unref(raw);
	sim_done(&s);
}

TEST(a_rebuild_keeps_what_is_known_of_stacks)
{
	struct books books = { 0 };
	struct stack *raw;
	struct event ev;
	struct sim s;

	sim_new(&s, NULL);
	sim_stack(&s, PID, 1);
	raw = sim_raw_stack(&s, PID, 2);
	sim_alloc(&s, PID, MIB, 1);
	sim_alloc(&s, PID, MIB, 2);
	EXPECT_EQ(engine_rebuild_begin(s.e, PID, PID * SEC), 0);
	EXPECT(site_of(&s, 1)->bytes == 0 && site_of(&s, 2)->blocks == 0);
	/* Number 3 is of a block whose allocation was lost. */
	for (uint64_t i = 1; i <= 3; i++) {
		ev = sim_event(&s, EVENT_ALLOC, PID);
		ev.stack = i;
		ev.bytes = i * MIB;
		EXPECT_EQ(engine_rebuild_add(s.e, &ev), 0);
		if (i == 1)
			EXPECT_EQ(sim_resolve(&s, raw, 2, hash64(1)), 0);
	}
	EXPECT_EQ(engine_rebuild_end(s.e, PID, PID * SEC, &books, s.now, SIM_REAL), 0);
	EXPECT(site_of(&s, 1) == site_of(&s, 2));
	EXPECT(site_of(&s, 1)->bytes == 3 * MIB && site_of(&s, 1)->blocks == 2);
	EXPECT(process_stack_entry(sim_process(&s, PID), 2)->bytes == 2 * MIB);
	EXPECT(site_of(&s, 3)->bytes == 3 * MIB && !site_of(&s, 3)->is_resolved);
	EXPECT_EQ(s.forgotten, 0);
	sim_done(&s);
}

TEST(a_rebuild_does_not_drop_what_it_is_about_to_name)
{
	struct limits l = LIMITS_DEFAULT;
	struct books books = { 0 };
	struct event ev;
	struct sim s;

	l.stacks_per_process = 16;
	sim_new_limits(&s, NULL, l);
	for (uint64_t i = 1; i <= 16; i++) {
		sim_stack(&s, PID, i);
		sim_alloc(&s, PID, MIB, i);
	}
	for (uint64_t i = 0; i < 100; i++)
		sim_free(&s, sim_alloc(&s, PID, MIB, 16));
	EXPECT_EQ(engine_rebuild_begin(s.e, PID, PID * SEC), 0);
	for (uint64_t i = 17; i >= 1; i--) {
		ev = sim_event(&s, EVENT_ALLOC, PID);
		ev.stack = i;
		ev.bytes = MIB;
		EXPECT_EQ(engine_rebuild_add(s.e, &ev), 0);
	}
	EXPECT_EQ(engine_rebuild_end(s.e, PID, PID * SEC, &books, s.now, SIM_REAL), 0);
	for (uint64_t i = 1; i <= 16; i++)
		EXPECT(process_stack(sim_process(&s, PID), i) && site_of(&s, i)->bytes == MIB);
	EXPECT(!site_of(&s, 17) && sim_process(&s, PID)->other.bytes == MIB);
	EXPECT_EQ(s.forgotten, 0);
	sim_done(&s);
}

TEST(equal_hashes_of_two_sites)
{
	struct stack *raw[2];
	struct sim s;

	sim_new(&s, NULL);
	for (uint64_t i = 0; i < 2; i++)
		raw[i] = sim_raw_stack(&s, PID, i + 1);
	EXPECT_EQ(sim_resolve(&s, raw[0], 1, 0xabc), 0);
	EXPECT_EQ(sim_resolve(&s, raw[1], 1, 0xdef), 0);
	EXPECT(process_stack(sim_process(&s, PID), 2)->key == 2);
	EXPECT(!process_stack_entry(sim_process(&s, PID), 2)->is_copy);
	sim_done(&s);
}

TEST_MAIN()
