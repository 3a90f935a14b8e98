/* SPDX-License-Identifier: MIT */
#include "engine_sim.h"

#define RULES(text) "version = 1; rules = (" text ");"

TEST(single_allocations)
{
	struct sim s;
	struct report *r;

	sim_new(&s, RULES("{ name = \"huge\"; kind = \"single_alloc\"; fire_above = \"1GiB\"; },"
			  "{ name = \"share\"; kind = \"single_alloc\"; fire_above = \"50%\"; },"
			  "{ name = \"host\"; kind = \"single_alloc\"; fire_above = \"1GiB\"; class = \"host\"; }"));
	sim_alloc(&s, 3, GIB, 1);
	EXPECT_EQ(s.len, 0);
	sim_alloc(&s, 3, GIB + 1, 0x42);
	ASSERT(s.len == 1);
	r = s.reports[0];
	EXPECT_EQ(r->event, REPORT_SINGLE_ALLOC);
	EXPECT_EQ(r->bytes, GIB + 1);
	EXPECT_EQ(r->value, GIB + 1);
	EXPECT_EQ(r->limit, GIB);
	EXPECT_EQ(r->seq, 1);
	EXPECT_EQ(r->tid, 4);
	EXPECT_EQ(r->stack_bytes, GIB + 1);
	EXPECT_STR(r->function, "cuMemAlloc_v2");
	/* Managed memory may be larger than the device and is not device memory. */
	sim_alloc_on(&s, 3, 100 * GIB, 1, CLASS_MANAGED, 0);
	EXPECT_EQ(s.len, 1);
	sim_alloc_on(&s, 3, 2 * GIB, 1, CLASS_HOST, 0);
	EXPECT_EQ(sim_count(&s, "host", STATE_FIRING), 1);
	/* A share needs a device whose capacity is known. */
	(void)engine_set_device(s.e, "GPU-a", 0, NULL, 1000 * MIB, ABSENT_U64);
	sim_alloc(&s, 3, 600 * MIB, 1);
	EXPECT_EQ(sim_count(&s, "share", STATE_FIRING), 0);
	(void)engine_set_ordinal(s.e, 3, 3 * SEC, 0, "GPU-a");
	sim_alloc(&s, 3, 600 * MIB, 1);
	ASSERT(sim_count(&s, "share", STATE_FIRING) == 1);
	EXPECT_EQ(sim_get(&s, "share", 0)->limit, 500 * MIB);
	EXPECT_STR(sim_get(&s, "share", 0)->device_uuid, "GPU-a");
	EXPECT_EQ(sim_get(&s, "share", 0)->device_bytes, 1000 * MIB);
	EXPECT_EQ(sim_count(&s, NULL, STATE_RESOLVED), 0);
	sim_done(&s);
}

TEST(failed_allocations)
{
	struct event ev;
	struct sim s;
	struct report *r;

	sim_new(&s, RULES("{ name = \"oom\"; kind = \"alloc_failure\"; count = 1; window = \"1m\";"
			  " severity = \"error\"; },"
			  "{ name = \"oom3\"; kind = \"alloc_failure\"; count = 3; window = \"10s\"; }"));
	sim_alloc(&s, 3, 70 * GIB, 1);
	sim_fail(&s, 3, 20 * GIB, 0x99);
	ASSERT(s.len == 1);
	r = s.reports[0];
	EXPECT_EQ(r->event, REPORT_ALLOC_FAILURE);
	EXPECT_EQ(r->bytes, 20 * GIB);
	EXPECT_EQ(r->live_bytes, 70 * GIB);
	EXPECT_EQ(r->error, 2);
	EXPECT_EQ(r->value, 1);
	EXPECT_EQ(r->value_unit, VALUE_CALLS);
	EXPECT_EQ(r->stack_reason, STACK_LOST);
	EXPECT_EQ(r->stack_bytes, ABSENT_U64);
	/* A failed free is none. */
	ev = sim_event(&s, EVENT_FAIL, 3);
	ev.addr = 0x1000;
	ev.error = 1;
	(void)sim_send(&s, &ev);
	EXPECT_EQ(s.len, 1);
	EXPECT_EQ(sim_process(&s, 3)->fail_count, 2);
	/* Three within ten seconds, not of two processes and not further apart. */
	s.now += 6 * SEC;
	sim_fail(&s, 3, GIB, 1);
	sim_fail(&s, 4, GIB, 1);
	s.now += 6 * SEC;
	sim_fail(&s, 3, GIB, 1);
	EXPECT_EQ(sim_count(&s, "oom3", STATE_FIRING), 0);
	s.now += 3 * SEC;
	sim_fail(&s, 3, GIB, 1);
	EXPECT_EQ(sim_count(&s, "oom3", STATE_FIRING), 1);
	EXPECT_EQ(sim_get(&s, "oom3", 0)->value, 3);
	sim_fail(&s, 3, GIB, 1);
	EXPECT_EQ(sim_count(&s, "oom3", STATE_FIRING), 1);
	sim_done(&s);
}

TEST(failure_then_success)
{
	struct sim s;

	sim_new(&s, NULL);
	sim_fail(&s, 3, GIB, 1);
	sim_alloc(&s, 3, MIB, 1);
	EXPECT_EQ(sim_process(&s, 3)->live_bytes, MIB);
	EXPECT_EQ(sim_process(&s, 3)->fail_count, 1);
	EXPECT_EQ(sim_process(&s, 3)->alloc_count, 1);
	sim_done(&s);
}

TEST(runaway_is_announced_before_it_fails)
{
	struct sim s;

	sim_new(&s, RULES("{ name = \"full\"; kind = \"live_bytes\"; scope = \"device\"; fire_above = \"92%\";"
			  " for = \"0s\"; },"
			  "{ name = \"oom\"; kind = \"alloc_failure\"; }"));
	(void)engine_set_device(s.e, "GPU-a", 0, "H200", 80 * GIB, 0);
	for (int i = 0; i < 19; i++) {
		sim_alloc(&s, 3, 4 * GIB, 1);
		if (i == 0)
			(void)engine_set_ordinal(s.e, 3, 3 * SEC, 0, "GPU-a");
		sim_pass(&s, 500 * MSEC);
	}
	sim_fail(&s, 3, 8 * GIB, 1);
	ASSERT(s.len == 2);
	EXPECT_STR(s.reports[0]->rule, "full");
	EXPECT_EQ(s.reports[0]->value, 76 * GIB);
	EXPECT_STR(s.reports[1]->rule, "oom");
	EXPECT_EQ(s.reports[1]->live_bytes, 76 * GIB);
	EXPECT_EQ(s.reports[1]->device_bytes, 80 * GIB);
	sim_done(&s);
}

TEST(rates)
{
	struct sim s;

	sim_new(&s, RULES("{ name = \"calls\"; kind = \"alloc_rate\"; fire_above = \"100/s\"; window = \"10s\"; },"
			  "{ name = \"bytes\"; kind = \"alloc_rate\"; fire_above = \"1GiB/s\"; window = \"5s\"; },"
			  "{ name = \"user\"; kind = \"alloc_rate\"; scope = \"user\"; fire_above = \"150/s\";"
			  " window = \"10s\"; }"));
	sim_simple(&s, EVENT_PROCESS, 3);
	sim_identify(&s, 3, "a", NULL, "bob");
	sim_simple(&s, EVENT_PROCESS, 4);
	sim_identify(&s, 4, "b", NULL, "bob");
	/* 90 a second each. */
	for (int t = 0; t < 20; t++) {
		for (int i = 0; i < 90; i++) {
			s.now += 10 * MSEC;
			sim_free(&s, sim_alloc(&s, 3, 10, 1));
			sim_free(&s, sim_alloc(&s, 4, 10, 1));
		}
		sim_pass(&s, 100 * MSEC);
	}
	EXPECT_EQ(sim_count(&s, "calls", STATE_NONE), 0);
	ASSERT(sim_count(&s, "user", STATE_FIRING) == 1);
	EXPECT(sim_get(&s, "user", 0)->value > 150 && sim_get(&s, "user", 0)->value < 190);
	EXPECT_EQ(sim_get(&s, "user", 0)->value_unit, VALUE_CALLS_PER_SEC);
	EXPECT_STR(sim_get(&s, "user", 0)->scope_key, "bob");
	EXPECT(!sim_get(&s, "user", 0)->id);
	for (int t = 0; t < 15; t++) {
		for (int i = 0; i < 120; i++)
			sim_free(&s, sim_alloc(&s, 3, 10, 1));
		sim_pass(&s, SEC);
	}
	ASSERT(sim_count(&s, "calls", STATE_FIRING) == 1);
	EXPECT(sim_get(&s, "calls", 0)->value > 100 && sim_get(&s, "calls", 0)->value <= 120);
	sim_pass(&s, 15 * SEC);
	EXPECT_EQ(sim_count(&s, NULL, STATE_RESOLVED), 2);
	EXPECT_EQ(sim_count(&s, "bytes", STATE_NONE), 0);
	for (int i = 0; i < 6; i++)
		sim_free(&s, sim_alloc(&s, 4, GIB, 1));
	sim_pass(&s, SEC);
	ASSERT(sim_count(&s, "bytes", STATE_FIRING) == 1);
	EXPECT_EQ(sim_get(&s, "bytes", 0)->value_unit, VALUE_BYTES_PER_SEC);
	sim_done(&s);
}

TEST(exit_tells_a_habit)
{
	struct block b;
	struct sim s;

	sim_new(&s, RULES("{ name = \"exit\"; kind = \"exit\"; live_above = \"256MiB\"; never_freed_above = 0.5;"
			  " min_runtime = \"1m\"; }"));
	/* Too short. */
	sim_alloc(&s, 1, GIB, 1);
	s.now += 59 * SEC;
	sim_simple(&s, EVENT_EXIT, 1);
	/* Freed most. */
	b = sim_alloc(&s, 2, GIB, 1);
	sim_alloc(&s, 2, 300 * MIB, 1);
	sim_free(&s, b);
	/* Little left. */
	sim_alloc(&s, 3, 256 * MIB, 1);
	/* That is the one. */
	sim_alloc(&s, 4, GIB, 0x77);
	sim_pass(&s, 60 * SEC);
	for (uint32_t pid = 2; pid <= 4; pid++)
		sim_simple(&s, EVENT_EXIT, pid);
	ASSERT(s.len == 1);
	EXPECT_EQ(s.reports[0]->event, REPORT_EXIT);
	EXPECT_EQ(s.reports[0]->id->pid, 4);
	EXPECT(s.reports[0]->process_ended);
	EXPECT_EQ(s.reports[0]->value, GIB);
	EXPECT_EQ(s.reports[0]->stack_bytes, GIB);
	sim_done(&s);
}

TEST(groups_sum_up_their_members)
{
	struct block b;
	struct sim s;
	struct report *r;

	sim_new(&s, RULES("{ name = \"unit\"; kind = \"live_bytes\"; scope = \"unit\"; fire_above = \"100MiB\";"
			  " resolve_below = \"50MiB\"; for = \"0s\"; },"
			  "{ name = \"user\"; kind = \"live_bytes\"; scope = \"user\"; fire_above = \"1GiB\";"
			  " for = \"0s\"; },"
			  "{ name = \"train\"; kind = \"live_bytes\"; scope = \"user\"; fire_above = \"70MiB\";"
			  " for = \"0s\"; match = { comm = \"^train\"; }; }"));
	for (uint32_t pid = 1; pid <= 4; pid++) {
		sim_simple(&s, EVENT_PROCESS, pid);
		sim_identify(&s, pid, pid & 1 ? "train" : "infer", pid <= 2 ? "a.service" : "b.service", "bob");
	}
	b = sim_alloc(&s, 1, 60 * MIB, 1);
	sim_alloc(&s, 3, 9 * MIB, 1);
	sim_alloc(&s, 4, 80 * MIB, 1);
	EXPECT_EQ(s.len, 0);
	sim_alloc(&s, 2, 41 * MIB, 1);
	ASSERT(s.len == 1);
	r = s.reports[0];
	EXPECT_STR(r->rule, "unit");
	EXPECT_EQ(r->scope, SCOPE_UNIT);
	EXPECT_STR(r->scope_key, "a.service");
	EXPECT_EQ(r->value, 101 * MIB);
	EXPECT(!r->id);
	sim_alloc(&s, 3, 2 * MIB, 1);
	EXPECT_EQ(sim_count(&s, "train", STATE_FIRING), 1);
	EXPECT_EQ(sim_get(&s, "train", 0)->value, 71 * MIB);
	sim_free(&s, b);
	sim_pass(&s, SEC);
	EXPECT_EQ(sim_count(&s, "unit", STATE_RESOLVED), 1);
	EXPECT_EQ(sim_count(&s, "train", STATE_RESOLVED), 1);
	/* A process moves its bytes along when it turns out to be another's. */
	sim_alloc(&s, 1, 70 * MIB, 1);
	EXPECT_EQ(sim_count(&s, "unit", STATE_FIRING), 2);
	sim_identify(&s, 1, "train", "b.service", "bob");
	EXPECT_EQ(sim_count(&s, "unit", STATE_RESOLVED), 2);
	EXPECT_EQ(sim_count(&s, "unit", STATE_FIRING), 3);
	EXPECT_STR(sim_get(&s, "unit", 4)->rule, "unit");
	/* The last member's exit ends the group. */
	sim_simple(&s, EVENT_EXIT, 1);
	sim_simple(&s, EVENT_EXIT, 3);
	sim_simple(&s, EVENT_EXIT, 4);
	EXPECT_EQ(sim_count(&s, "unit", STATE_RESOLVED), 3);
	sim_done(&s);
}

TEST(device_of_all_and_of_the_driver)
{
	struct sim s;
	struct report *r;

	sim_new(&s, RULES("{ name = \"full\"; kind = \"live_bytes\"; scope = \"device\"; fire_above = \"90%\";"
			  " resolve_below = \"80%\"; for = \"0s\"; },"
			  "{ name = \"first\"; kind = \"live_bytes\"; scope = \"device\"; fire_above = \"30GiB\";"
			  " for = \"0s\"; match = { device = \"^0$\"; }; }"));
	(void)engine_set_device(s.e, "GPU-a", 0, "H200", 100 * GIB, ABSENT_U64);
	(void)engine_set_device(s.e, "GPU-b", 1, "H200", 100 * GIB, 20 * GIB);
	for (uint32_t pid = 1; pid <= 3; pid++) {
		sim_simple(&s, EVENT_PROCESS, pid);
		(void)engine_set_ordinal(s.e, pid, pid * SEC, 0, pid == 3 ? "GPU-b" : "GPU-a");
		(void)engine_set_ordinal(s.e, pid, pid * SEC, 1, pid == 3 ? "GPU-a" : "GPU-b");
		sim_alloc_on(&s, pid, 31 * GIB, 1, CLASS_DEVICE, pid == 3 ? 1 : 0);
	}
	EXPECT_EQ(sim_count(&s, "first", STATE_FIRING), 1);
	ASSERT(sim_count(&s, "full", STATE_FIRING) == 1);
	r = sim_get(&s, "full", 0);
	EXPECT_EQ(r->value, 93 * GIB);
	EXPECT_EQ(r->limit, 90 * GIB);
	EXPECT_STR(r->scope_key, "GPU-a");
	EXPECT_STR(r->device_uuid, "GPU-a");
	EXPECT_EQ(r->device_index, 0);
	EXPECT_EQ(r->device_used_bytes, ABSENT_U64);
	/* On b it is the driver that knows of more. */
	(void)engine_set_device(s.e, "GPU-b", 1, "H200", 100 * GIB, 95 * GIB);
	sim_pass(&s, SEC);
	EXPECT_EQ(sim_count(&s, "full", STATE_FIRING), 2);
	(void)engine_set_device(s.e, "GPU-b", 1, "H200", 100 * GIB, 5 * GIB);
	sim_pass(&s, SEC);
	EXPECT_EQ(sim_count(&s, "full", STATE_RESOLVED), 1);
	sim_simple(&s, EVENT_EXIT, 2);
	sim_pass(&s, SEC);
	EXPECT_EQ(sim_count(&s, "full", STATE_RESOLVED), 2);
	/* Back within 100 GiB, it turns out to be a smaller device. */
	(void)engine_set_device(s.e, "GPU-a", 0, "H200", 60 * GIB, ABSENT_U64);
	sim_pass(&s, SEC);
	EXPECT_EQ(sim_count(&s, "full", STATE_FIRING), 3);
	sim_done(&s);
}

TEST(process_share_looks_at_each_device)
{
	struct sim s;

	sim_new(&s, RULES("{ name = \"p\"; kind = \"live_bytes\"; scope = \"process\"; fire_above = \"50%\";"
			  " for = \"0s\"; },"
			  "{ name = \"one\"; kind = \"live_bytes\"; fire_above = \"45GiB\"; for = \"0s\";"
			  " match = { device = \"GPU-b\"; }; }"));
	(void)engine_set_device(s.e, "GPU-a", 0, NULL, 100 * GIB, ABSENT_U64);
	(void)engine_set_device(s.e, "GPU-b", 1, NULL, 80 * GIB, ABSENT_U64);
	sim_simple(&s, EVENT_PROCESS, 1);
	(void)engine_set_ordinal(s.e, 1, SEC, 0, "GPU-a");
	(void)engine_set_ordinal(s.e, 1, SEC, 1, "GPU-b");
	sim_alloc_on(&s, 1, 45 * GIB, 1, CLASS_DEVICE, 0);
	sim_alloc_on(&s, 1, 39 * GIB, 1, CLASS_DEVICE, 1);
	EXPECT_EQ(s.len, 0);
	sim_alloc_on(&s, 1, 2 * GIB, 1, CLASS_DEVICE, 1);
	ASSERT(s.len == 1);
	EXPECT_EQ(s.reports[0]->value, 41 * GIB);
	EXPECT_EQ(s.reports[0]->limit, 40 * GIB);
	EXPECT_STR(s.reports[0]->device_uuid, "GPU-b");
	sim_alloc_on(&s, 1, 5 * GIB, 1, CLASS_DEVICE, 1);
	EXPECT_EQ(sim_count(&s, "one", STATE_FIRING), 1);
	EXPECT_EQ(sim_get(&s, "one", 0)->value, 46 * GIB);
	sim_done(&s);
}

TEST(rules_with_a_match_wait_for_the_identity)
{
	struct sim s;

	sim_new(&s, RULES("{ name = \"t\"; kind = \"live_bytes\"; fire_above = \"1MiB\"; for = \"0s\";"
			  " match = { comm = \"^train\"; }; },"
			  "{ name = \"huge\"; kind = \"single_alloc\"; fire_above = \"1GiB\";"
			  " match = { comm = \"^train\"; }; },"
			  "{ name = \"oom\"; kind = \"alloc_failure\"; match = { comm = \"^train\"; }; },"
			  "{ name = \"not\"; kind = \"live_bytes\"; fire_above = \"1MiB\"; for = \"0s\";"
			  " except = ( { comm = \"^train\"; } ); },"
			  "{ name = \"all\"; kind = \"live_bytes\"; fire_above = \"1MiB\"; for = \"0s\"; }"));
	sim_alloc(&s, 1, 2 * GIB, 1);
	sim_fail(&s, 1, 5 * GIB, 1);
	sim_alloc(&s, 2, 2 * GIB, 1);
	sim_alloc(&s, 3, 2 * GIB, 1);
	EXPECT_EQ(s.len, 3);
	EXPECT_EQ(sim_count(&s, "all", STATE_FIRING), 3);
	s.now += 300 * MSEC;
	sim_identify(&s, 1, "train.py", NULL, NULL);
	EXPECT_EQ(sim_count(&s, "t", STATE_FIRING), 1);
	ASSERT(sim_count(&s, "huge", STATE_FIRING) == 1);
	EXPECT_EQ(sim_get(&s, "huge", 0)->value, 2 * GIB);
	EXPECT_STR(sim_get(&s, "huge", 0)->id->comm, "train.py");
	EXPECT_EQ(sim_count(&s, "oom", STATE_FIRING), 1);
	EXPECT_EQ(sim_count(&s, "not", STATE_FIRING), 0);
	sim_identify(&s, 2, "infer", NULL, NULL);
	EXPECT_EQ(sim_count(&s, "t", STATE_FIRING), 1);
	EXPECT_EQ(sim_count(&s, "not", STATE_FIRING), 1);
	/* Of the third nothing is ever known: a match on it is false. */
	sim_pass(&s, 3 * SEC);
	EXPECT_EQ(sim_count(&s, "t", STATE_NONE), 1);
	/* An identity that comes late still counts. */
	sim_identify(&s, 3, "trainer", NULL, NULL);
	EXPECT_EQ(sim_count(&s, "t", STATE_FIRING), 2);
	/* One that ends while it is waited for. */
	sim_clear(&s);
	sim_alloc(&s, 4, 2 * GIB, 1);
	sim_simple(&s, EVENT_EXIT, 4);
	EXPECT_EQ(sim_count(&s, "t", STATE_NONE), 0);
	sim_done(&s);
}

TEST(loss_makes_verdicts_inexact)
{
	struct engine_totals t;
	struct books b = { .peak_bytes = 7 * GIB, .alloc_count = 50, .free_count = 40, .fail_count = 3 };
	struct event ev;
	struct sim s;

	sim_new(&s, RULES("{ name = \"q\"; kind = \"live_bytes\"; fire_above = \"100MiB\";"
			  " resolve_below = \"80MiB\"; for = \"0s\"; },"
			  "{ name = \"u\"; kind = \"live_bytes\"; scope = \"user\"; fire_above = \"150MiB\";"
			  " for = \"0s\"; }"));
	sim_simple(&s, EVENT_PROCESS, 1);
	sim_identify(&s, 1, "x", NULL, "bob");
	EXPECT_EQ(engine_lost(s.e, 1, SEC, 17, s.now), 0);
	sim_alloc(&s, 1, 200 * MIB, 1);
	ASSERT(s.len == 2);
	for (int i = 0; i < 2; i++) {
		EXPECT(!s.reports[i]->exact);
		EXPECT_EQ(s.reports[i]->lost_events, 17);
	}
	engine_totals(s.e, &t);
	EXPECT(!t.exact);
	EXPECT_EQ(t.lost_events, 17);
	/* While it is rebuilt nothing is said; afterwards the truth. */
	EXPECT_EQ(engine_rebuild_begin(s.e, 1, SEC), 0);
	sim_pass(&s, 3 * SEC);
	EXPECT_EQ(s.len, 2);
	ev = sim_event(&s, EVENT_ALLOC, 1);
	ev.bytes = 90 * MIB;
	ev.stack = 5;
	EXPECT_EQ(engine_rebuild_add(s.e, &ev), 0);
	EXPECT_EQ(engine_rebuild_end(s.e, 1, SEC, &b, s.now, SIM_REAL), 0);
	EXPECT_EQ(sim_count(&s, "u", STATE_RESOLVED), 1);
	EXPECT_EQ(sim_count(&s, "q", STATE_RESOLVED), 0);
	EXPECT_EQ(sim_process(&s, 1)->live_bytes, 90 * MIB);
	EXPECT_EQ(sim_process(&s, 1)->peak_bytes, 7 * GIB);
	EXPECT_EQ(sim_process(&s, 1)->fail_count, 3);
	/* Had a free been lost, our own count went higher than it ever was. */
	b.peak_bytes = 150 * MIB;
	EXPECT_EQ(engine_rebuild_begin(s.e, 1, SEC), 0);
	EXPECT_EQ(engine_rebuild_add(s.e, &ev), 0);
	EXPECT_EQ(engine_rebuild_end(s.e, 1, SEC, &b, s.now, SIM_REAL), 0);
	EXPECT_EQ(sim_process(&s, 1)->peak_bytes, 150 * MIB);
	EXPECT_EQ(process_top_site(sim_process(&s, 1), CLASS_DEVICE_MASK)->key, 5);
	engine_totals(s.e, &t);
	EXPECT(t.exact);
	EXPECT_EQ(engine_rebuild_end(s.e, 1, SEC, &b, s.now, SIM_REAL), -ESRCH);
	/* A process that ends in the middle of it. */
	EXPECT_EQ(engine_rebuild_begin(s.e, 1, SEC), 0);
	sim_simple(&s, EVENT_EXIT, 1);
	sim_simple(&s, EVENT_PROCESS, 2);
	sim_identify(&s, 2, "x", NULL, "bob");
	sim_alloc(&s, 2, 160 * MIB, 1);
	EXPECT_EQ(sim_count(&s, "u", STATE_FIRING), 2);
	sim_done(&s);
}

TEST(driver_knows_of_less)
{
	struct sim s;

	sim_new(&s, RULES("{ name = \"q\"; kind = \"live_bytes\"; fire_above = \"100MiB\"; for = \"0s\"; }"));
	sim_simple(&s, EVENT_PROCESS, 1);
	sim_alloc(&s, 1, 60 * MIB, 1);
	/* Once may be a matter of when each was looked at. */
	for (int i = 0; i < 2; i++) {
		engine_driver_begin(s.e);
		EXPECT_EQ(engine_driver(s.e, 1, SEC, NULL, 50 * MIB, false), 0);
		engine_driver_end(s.e, true, s.now, SIM_REAL);
	}
	sim_alloc(&s, 1, 101 * MIB, 1);
	ASSERT(s.len == 1);
	EXPECT(!s.reports[0]->exact);
	EXPECT_EQ(s.reports[0]->driver_bytes, 50 * MIB);
	sim_done(&s);
}

TEST(absurd_sizes_leave_sums_right)
{
	struct event ev;
	struct sim s;

	sim_new(&s, RULES("{ name = \"u\"; kind = \"live_bytes\"; scope = \"user\"; fire_above = \"1GiB\";"
			  " for = \"0s\"; }"));
	for (uint32_t pid = 1; pid <= 3; pid++) {
		sim_simple(&s, EVENT_PROCESS, pid);
		sim_identify(&s, pid, "x", NULL, "bob");
		(void)engine_set_ordinal(s.e, pid, pid * SEC, 0, "GPU-a");
	}
	sim_alloc(&s, 1, 700 * MIB, 1);
	for (uint32_t pid = 2; pid <= 3; pid++) {
		ev = sim_event(&s, EVENT_ALLOC, pid);
		ev.bytes = UINT64_MAX;
		(void)sim_send(&s, &ev);
		(void)sim_send(&s, &ev);
	}
	EXPECT_EQ(sim_count(&s, "u", STATE_FIRING), 1);
	sim_simple(&s, EVENT_EXIT, 2);
	sim_simple(&s, EVENT_EXIT, 3);
	sim_pass(&s, SEC);
	EXPECT_EQ(sim_count(&s, "u", STATE_RESOLVED), 1);
	sim_alloc(&s, 1, 325 * MIB, 1);
	EXPECT_EQ(sim_count(&s, "u", STATE_FIRING), 2);
	EXPECT_EQ(s.reports[s.len - 1]->value, 1025 * MIB);
	sim_done(&s);
}

static const char status_rules[] =
	RULES("{ name = \"q\"; kind = \"live_bytes\"; fire_above = \"100MiB\"; for = \"0s\"; },"
	      "{ name = \"p\"; kind = \"live_bytes\"; fire_above = \"100MiB\"; for = \"1h\"; },"
	      "{ name = \"u\"; kind = \"live_bytes\"; scope = \"user\"; fire_above = \"1TiB\"; }");

#define CLASSES                                                                                                        \
	"\"array_bytes\":0,\"physical_bytes\":0,\"async_bytes\":0,\"graph_bytes\":0,\"imported_bytes\":0,"                     \
	"\"framework_bytes\":0,"
#define DRIVER "\"driver_bytes\":null,\"untracked_bytes\":null,\"baseline_bytes\":null,\"conditions\":[],"

TEST(status)
{
	_cleanup_strbuf_ struct strbuf json = STRBUF_INIT, text = STRBUF_INIT;
	struct sim s;

	sim_new(&s, status_rules);
	sim_simple(&s, EVENT_PROCESS, 1);
	sim_identify(&s, 1, "ev\"il\n", "a.service", "bob");
	(void)engine_set_device(s.e, "GPU-a", 3, "H200", 80 * GIB, ABSENT_U64);
	(void)engine_set_ordinal(s.e, 1, SEC, 0, "GPU-a");
	sim_alloc(&s, 1, 128 * MIB, 1);
	sim_alloc(&s, 2, 1 * MIB, 1);
	s.now += 5 * SEC;
	strbuf_addc(&json, '{');
	engine_status_json(s.e, &json, s.now);
	strbuf_addc(&json, '}');
	EXPECT_STR(strbuf_str(&json),
		   "{\"processes\":[{\"pid\":1,\"start_time\":100,\"comm\":\"ev\\\"il\\n\",\"exe\":null,\"user\":\"bob\","
		   "\"unit\":\"a.service\",\"covered\":true,\"exact\":true,\"live_bytes\":134217728,\"host_bytes\":0,"
		   "\"managed_bytes\":0," CLASSES "\"peak_bytes\":134217728,\"live_count\":1,\"alloc_count\":1,\"free_count\":0,"
		   "\"fail_count\":0,\"unknown_free_count\":0,\"lost_events\":0," DRIVER "\"devices\":["
		   "{\"ordinal\":0,\"uuid\":\"GPU-a\",\"index\":3,\"live_bytes\":134217728,\"driver_bytes\":null}]},"
		   "{\"pid\":2,\"start_time\":200,\"comm\":null,\"exe\":null,\"user\":null,"
		   "\"unit\":null,\"covered\":true,\"exact\":true,\"live_bytes\":1048576,\"host_bytes\":0,"
		   "\"managed_bytes\":0," CLASSES "\"peak_bytes\":1048576,\"live_count\":1,\"alloc_count\":1,\"free_count\":0,"
		   "\"fail_count\":0,\"unknown_free_count\":0,\"lost_events\":0," DRIVER "\"devices\":["
		   "{\"ordinal\":0,\"uuid\":null,\"index\":null,\"live_bytes\":1048576,\"driver_bytes\":null}]}],"
		   "\"devices\":[{\"uuid\":\"GPU-a\",\"index\":3,\"name\":\"H200\",\"total_bytes\":85899345920,"
		   "\"used_bytes\":null,\"live_bytes\":134217728}],"
		   "\"rules\":[{\"name\":\"q\",\"state\":\"firing\",\"pid\":1,\"scope\":\"process\",\"key\":null,"
		   "\"value\":134217728,\"limit\":104857600,\"severity\":\"warning\"},"
		   "{\"name\":\"p\",\"state\":\"pending\",\"pid\":1,\"scope\":\"process\",\"key\":null,"
		   "\"value\":134217728,\"limit\":104857600,\"severity\":\"warning\"},"
		   "{\"name\":\"u\",\"state\":\"inactive\",\"pid\":null,\"value\":null,\"limit\":null}],"
		   "\"limits\":[{\"name\":\"processes\",\"used\":2,\"max\":10000,\"overflows\":0},"
		   "{\"name\":\"sites_per_process\",\"used\":1,\"max\":4096,\"overflows\":0},"
		   "{\"name\":\"stacks_per_process\",\"used\":1,\"max\":4096,\"overflows\":0},"
		   "{\"name\":\"incidents\",\"used\":2,\"max\":10000,\"overflows\":0},"
		   "{\"name\":\"bounds\",\"used\":0,\"max\":4096,\"overflows\":0}]}");
	engine_status_text(s.e, &text, s.now);
	EXPECT_STR(strbuf_str(&text),
		   "PID  USER  UNIT       GPU     LIVE  DRIVER  MORE     PEAK  HOST  MANAGED  ALLOCS  FREES  FAILS  COMM\n"
		   "  1  bob   a.service  3    128 MiB       -     -  128 MiB   0 B      0 B       1      0      0  ev\"il\\x0a\n"
		   "  2  -     -          #0     1 MiB       -     -    1 MiB   0 B      0 B       1      0      0  -\n"
		   "\n"
		   "firing    q  pid 1 ev\"il\\x0a  128 MiB, limit 100 MiB, for 5s\n"
		   "pending   p  pid 1 ev\"il\\x0a  128 MiB, limit 100 MiB, for 5s\n");
	sim_done(&s);
}

TEST(status_of_nothing)
{
	_cleanup_strbuf_ struct strbuf json = STRBUF_INIT, text = STRBUF_INIT;
	struct sim s;

	sim_new(&s, NULL);
	engine_status_json(s.e, &json, s.now);
	EXPECT(strncmp(strbuf_str(&json), "\"processes\":[],\"devices\":[],\"rules\":[],\"limits\":[", 48) == 0);
	engine_status_text(s.e, &text, s.now);
	EXPECT(strncmp(strbuf_str(&text), "PID  USER", 9) == 0);
	sim_done(&s);
}

TEST_MAIN()
