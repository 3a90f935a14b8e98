/* SPDX-License-Identifier: MIT */
/* The driver's count beside ours: baseline, growth, coverage; and orphans. */
#include "engine_sim.h"
#include "model/saturate.h"

#define GPU "GPU-00000000-0000-0000-0000-000000000001"
#define GROWTH                                                                                                         \
	"version = 1; rules = ( { name = \"g\"; kind = \"untracked_growth\"; fire_above = \"1GiB\"; window = \"5m\";"      \
	" min_runtime = \"30s\"; } );"
#define ORPHAN "version = 1; rules = ( { name = \"o\"; kind = \"orphan\"; for = \"10s\"; live_above = \"1MiB\"; } );"

static void end_pass(struct sim *s, bool is_complete)
{
	engine_driver_end(s->e, is_complete, s->now, SIM_REAL + s->now / 1000);
}

/* A snapshot that names one process on one device; UINT64_MAX - 1 names none. */
static void driver(struct sim *s, uint32_t pid, uint64_t bytes, bool older)
{
	engine_driver_begin(s->e);
	if (bytes != UINT64_MAX - 1)
		EXPECT_EQ(engine_driver(s->e, pid, pid * SEC, GPU, bytes, older), 0);
	end_pass(s, true);
}

/* The driver's count is our own and so much more, every 10 s. */
static void drive(struct sim *s, uint32_t pid, uint64_t more, uint64_t ns)
{
	for (uint64_t until = s->now + ns; s->now < until;) {
		sim_pass(s, 10 * SEC);
		driver(s, pid, sim_process(s, pid)->live_bytes + more, false);
	}
}

TEST(three_numbers)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct process *p;
	struct sim s;

	sim_new(&s, NULL);
	sim_alloc(&s, 1, 300 * MIB, 1);
	p = sim_process(&s, 1);
	EXPECT(p->driver_bytes == UINT64_MAX && p->baseline_bytes == UINT64_MAX && p->is_covered && !p->is_listed);
	ASSERT(engine_set_ordinal(s.e, 1, SEC, 0, GPU) == 0);
	driver(&s, 1, 400 * MIB, true);
	EXPECT(p->driver_bytes == 400 * MIB && p->baseline_bytes == 100 * MIB && p->is_listed);
	EXPECT(p->devices_len == 1 && p->devices[0].driver_bytes == 400 * MIB);
	/* The baseline stays what it was. */
	driver(&s, 1, 700 * MIB, true);
	EXPECT_EQ(p->baseline_bytes, 100 * MIB);
	engine_status_json(s.e, &sb, s.now);
	EXPECT(strstr(strbuf_str(&sb), "\"driver_bytes\":734003200,\"untracked_bytes\":419430400,\"baseline_bytes\":104857600"));
	/* Two devices and two words about one of them. */
	engine_driver_begin(s.e);
	EXPECT_EQ(engine_driver(s.e, 1, SEC, GPU, MIB, true), 0);
	EXPECT_EQ(engine_driver(s.e, 1, SEC, "GPU-2", 2 * MIB, true), 0);
	EXPECT_EQ(engine_driver(s.e, 1, SEC, GPU, 4 * MIB, true), 0);
	end_pass(&s, true);
	EXPECT(p->driver_bytes == 7 * MIB && p->devices_len == 2 && p->devices[0].driver_bytes == 5 * MIB);
	EXPECT(p->devices[1].ordinal == PROCESS_DEVICE_DRIVER && p->devices[1].driver_bytes == 2 * MIB);
	/* Not named: it holds nothing; unless somebody did not answer. */
	driver(&s, 1, UINT64_MAX - 1, true);
	EXPECT(p->driver_bytes == 0 && !p->is_listed && p->devices[0].driver_bytes == 0);
	engine_driver_begin(s.e);
	end_pass(&s, false);
	EXPECT(p->driver_bytes == UINT64_MAX && p->devices[1].driver_bytes == UINT64_MAX);
	driver(&s, 1, UINT64_MAX, true);
	EXPECT(p->driver_bytes == UINT64_MAX && p->is_listed);
	sim_simple(&s, EVENT_EXIT, 1);
	EXPECT(!sim_process(&s, 1));
	sim_done(&s);
}

TEST(younger_has_no_baseline)
{
	struct sim s;

	sim_new(&s, NULL);
	sim_alloc(&s, 1, MIB, 1);
	driver(&s, 1, 500 * MIB, false);
	EXPECT_EQ(sim_process(&s, 1)->baseline_bytes, 0);
	sim_done(&s);
}

TEST(growth_fires_and_resolves)
{
	struct report *r;
	struct sim s;

	sim_new(&s, GROWTH);
	sim_alloc(&s, 1, 300 * MIB, 1);
	/* What is loaded in the first seconds is no growth. */
	driver(&s, 1, 300 * MIB, false);
	sim_pass(&s, 10 * SEC);
	driver(&s, 1, 3 * GIB, false);
	drive(&s, 1, 3 * GIB, 60 * SEC);
	EXPECT_EQ(s.len, 0);
	/* Tracked memory that comes and goes does not matter. */
	sim_free(&s, sim_alloc(&s, 1, 20 * GIB, 2));
	drive(&s, 1, 3 * GIB + 900 * MIB, 60 * SEC);
	EXPECT_EQ(s.len, 0);
	drive(&s, 1, 5 * GIB, 30 * SEC);
	ASSERT(s.len == 1);
	r = s.reports[0];
	EXPECT(r->event == REPORT_UNTRACKED_GROWTH && r->state == STATE_FIRING && r->value == 2 * GIB && r->limit == GIB);
	EXPECT(r->driver_bytes == 5 * GIB + 300 * MIB && r->live_bytes == 300 * MIB && r->device_uuid && !r->stack);
	EXPECT(r->age_sec > 30 && r->age_sec < 150);
	drive(&s, 1, 3 * GIB, 30 * SEC);
	EXPECT_EQ(sim_count(&s, "g", STATE_RESOLVED), 1);
	sim_done(&s);
}

/* Its context is gone and it lives on: what it had grown by is given back. */
TEST(growth_ends_with_what_it_held)
{
	struct sim s;

	sim_new(&s, GROWTH);
	sim_alloc(&s, 1, MIB, 1);
	drive(&s, 1, GIB, 60 * SEC);
	drive(&s, 1, 3 * GIB, 60 * SEC);
	EXPECT_EQ(sim_count(&s, "g", STATE_FIRING), 1);
	/* Somebody did not answer: then nobody knows. */
	engine_driver_begin(s.e);
	end_pass(&s, false);
	sim_pass(&s, 5 * SEC);
	EXPECT_EQ(sim_count(&s, "g", STATE_RESOLVED), 0);
	driver(&s, 1, UINT64_MAX - 1, false);
	sim_pass(&s, 5 * SEC);
	EXPECT_EQ(sim_count(&s, "g", STATE_RESOLVED), 1);
	sim_done(&s);
}

/* It was there before the window: nothing grows any more. */
TEST(growth_ends_with_the_window)
{
	struct sim s;

	sim_new(&s, GROWTH);
	sim_alloc(&s, 1, MIB, 1);
	drive(&s, 1, GIB, 60 * SEC);
	drive(&s, 1, 3 * GIB, 60 * SEC);
	EXPECT_EQ(sim_count(&s, "g", STATE_FIRING), 1);
	drive(&s, 1, 3 * GIB, 200 * SEC);
	EXPECT_EQ(sim_count(&s, "g", STATE_RESOLVED), 0);
	drive(&s, 1, 3 * GIB, 100 * SEC);
	EXPECT_EQ(sim_count(&s, "g", STATE_RESOLVED), 1);
	sim_done(&s);
}

/* One figure may be of before an allocation that the other has seen. */
TEST(growth_is_not_one_odd_figure)
{
	struct sim s;

	sim_new(&s, GROWTH);
	sim_alloc(&s, 1, 8 * GIB, 1);
	drive(&s, 1, 5 * GIB, 60 * SEC);
	for (int i = 0; i < 5; i++) {
		sim_pass(&s, 10 * SEC);
		driver(&s, 1, 8 * GIB + GIB, false); /* too little */
		drive(&s, 1, 5 * GIB, 30 * SEC);
		sim_pass(&s, 10 * SEC);
		driver(&s, 1, 20 * GIB, false); /* too much */
		drive(&s, 1, 5 * GIB, 30 * SEC);
	}
	EXPECT_EQ(s.len, 0);
	sim_done(&s);
}

TEST(growth_that_is_explained)
{
	struct block pool, managed;
	struct sim s;

	sim_new(&s, GROWTH);
	sim_alloc(&s, 1, 300 * MIB, 1);
	pool = sim_alloc_on(&s, 1, 10 * GIB, 2, CLASS_ASYNC, 0);
	drive(&s, 1, GIB, 60 * SEC);
	/* A pool keeps what was freed. */
	sim_free(&s, pool);
	drive(&s, 1, 11 * GIB, 60 * SEC);
	EXPECT_EQ(s.len, 0);
	/* Managed memory moves in. */
	managed = sim_alloc_on(&s, 1, 40 * GIB, 3, CLASS_MANAGED, 0);
	drive(&s, 1, 25 * GIB, 60 * SEC);
	EXPECT_EQ(s.len, 0);
	sim_free(&s, managed);
	/* And blocks of a framework are nothing of their own. */
	sim_alloc_on(&s, 1, 4 * GIB, 4, CLASS_FRAMEWORK, 0);
	drive(&s, 1, 11 * GIB, 60 * SEC);
	EXPECT_EQ(s.len, 0);
	EXPECT_EQ(sim_process(&s, 1)->live_bytes, 300 * MIB);
	sim_done(&s);
}

/* The driver cannot use less than is held: then one of the two is wrong, and nobody is paged. */
TEST(less_than_our_count)
{
	struct process *p;
	struct sim s;

	sim_new(&s, "version = 1; rules = ( { name = \"g\"; kind = \"untracked_growth\"; fire_above = \"1GiB\"; window = \"5m\";"
		    " min_runtime = \"0s\"; }, { name = \"q\"; kind = \"live_bytes\"; fire_above = \"1GiB\"; } );");
	sim_alloc(&s, 1, 800 * MIB, 1);
	p = sim_process(&s, 1);
	driver(&s, 1, 500 * MIB, false);
	sim_pass(&s, SEC);
	sim_alloc(&s, 1, 800 * MIB, 1);
	ASSERT(s.len == 1);
	EXPECT(s.reports[0]->exact);
	driver(&s, 1, 500 * MIB, false);
	EXPECT(p->watch && p->driver_bytes == 500 * MIB);
	sim_alloc(&s, 1, 800 * MIB, 1);
	sim_clear(&s);
	sim_rules(&s, "version = 1; rules = ( { name = \"q2\"; kind = \"live_bytes\"; fire_above = \"1GiB\"; } );");
	ASSERT(s.len == 2);
	EXPECT(!sim_get(&s, "q2", 0)->exact && sim_get(&s, "q2", 0)->driver_bytes == 500 * MIB);
	/* None at all is a driver that does not tell. */
	driver(&s, 1, 0, false);
	driver(&s, 1, 0, false);
	sim_rules(&s, "version = 1; rules = ( { name = \"q3\"; kind = \"live_bytes\"; fire_above = \"1GiB\"; } );");
	EXPECT(sim_get(&s, "q3", 0) && sim_get(&s, "q3", 0)->exact);
	EXPECT_EQ(sim_count(&s, "g", STATE_NONE), 0);
	sim_done(&s);
}

TEST(orphan_fires_after_a_while)
{
	struct block b;
	struct sim s;

	sim_new(&s, ORPHAN);
	/* As little as it may. */
	sim_alloc(&s, 2, MIB, 1);
	engine_set_condition(s.e, 2, 2 * SEC, CONDITION_ZOMBIE, s.now);
	b = sim_alloc(&s, 1, 22 * GIB, 1);
	engine_set_condition(s.e, 1, SEC, CONDITION_PARENT_GONE, s.now);
	sim_pass(&s, 9 * SEC);
	EXPECT_EQ(s.len, 0);
	engine_set_condition(s.e, 1, SEC, 0, s.now);
	sim_pass(&s, 9 * SEC);
	engine_set_condition(s.e, 1, SEC, CONDITION_PARENT_GONE | CONDITION_UNINTERRUPTIBLE, s.now);
	sim_pass(&s, 12 * SEC);
	ASSERT(s.len == 1);
	EXPECT(s.reports[0]->event == REPORT_ORPHAN && s.reports[0]->value == 22 * GIB && s.reports[0]->limit == MIB);
	EXPECT_EQ(s.reports[0]->condition, CONDITION_PARENT_GONE | CONDITION_UNINTERRUPTIBLE);
	EXPECT_EQ(s.reports[0]->severity, SEVERITY_NOTICE);
	/* The memory is gone, the orphan lives on. */
	sim_free(&s, b);
	sim_pass(&s, 2 * SEC);
	EXPECT_EQ(sim_count(&s, "o", STATE_RESOLVED), 1);
	sim_done(&s);
}

TEST(orphan_by_the_driver_alone)
{
	struct sim s;

	sim_new(&s, "version = 1; rules = ( { name = \"z\"; kind = \"orphan\"; for = \"0s\"; conditions = [ \"zombie\" ]; },"
		    " { name = \"n\"; kind = \"orphan\"; for = \"0s\"; conditions = [ \"no_process\" ]; } );");
	driver(&s, 7, GIB, true);
	ASSERT(sim_process(&s, 7));
	engine_set_condition(s.e, 7, 7 * SEC, CONDITION_ZOMBIE, s.now);
	sim_pass(&s, 2 * SEC);
	EXPECT(sim_count(&s, "z", STATE_FIRING) == 1 && sim_count(&s, "n", STATE_NONE) == 0);
	/* It still holds something, the driver only does not say how much. */
	driver(&s, 7, UINT64_MAX, true);
	sim_pass(&s, 2 * SEC);
	EXPECT_EQ(sim_count(&s, "z", STATE_RESOLVED), 0);
	driver(&s, 7, UINT64_MAX - 1, true);
	sim_pass(&s, 2 * SEC);
	EXPECT_EQ(sim_count(&s, "z", STATE_RESOLVED), 1);
	sim_done(&s);
}

TEST(coverage)
{
	struct engine_totals t;
	struct process *p;
	struct event ev;
	struct sim s;

	sim_new(&s, NULL);
	driver(&s, 7, GIB, true);
	p = sim_process(&s, 7);
	ASSERT(p && !p->is_covered && p->baseline_bytes == GIB);
	sim_pass(&s, 29 * SEC);
	driver(&s, 7, GIB, true);
	engine_totals(s.e, &t);
	EXPECT(s.len == 0 && t.uncovered == 1);
	sim_pass(&s, SEC);
	engine_set_coverage(s.e, 7, 7 * SEC, "because", false);
	driver(&s, 7, GIB, true);
	ASSERT(s.len == 1);
	EXPECT(s.reports[0]->event == REPORT_COVERAGE && s.reports[0]->state == STATE_NONE && !s.reports[0]->rule);
	EXPECT(s.reports[0]->id->pid == 7 && s.reports[0]->driver_bytes == GIB && s.reports[0]->severity == SEVERITY_NOTICE);
	EXPECT_STR(s.reports[0]->reason, "because");
	sim_pass(&s, 60 * SEC);
	driver(&s, 7, 2 * GIB, true);
	EXPECT_EQ(s.len, 1);
	/* /proc tells its start to the tick, the probes to the nanosecond: it is the same one. */
	ev = sim_event(&s, EVENT_ALLOC, 7);
	ev.start_ns += 9999999;
	ev.bytes = MIB;
	(void)sim_send(&s, &ev);
	EXPECT(engine_newest_process(s.e, 7) == p && p->is_covered && !p->uncovered_reason && !p->next);
	EXPECT_EQ(p->start_ns, ev.start_ns);
	engine_totals(s.e, &t);
	EXPECT(t.uncovered == 0 && t.processes == 1);
	/* Another one is another one. */
	driver(&s, 8, GIB, true);
	ev = sim_event(&s, EVENT_ALLOC, 8);
	ev.start_ns += 10000000;
	(void)sim_send(&s, &ev);
	EXPECT(engine_newest_process(s.e, 8)->is_covered && engine_newest_process(s.e, 8)->baseline_bytes == UINT64_MAX);
	sim_done(&s);
}

/* Nothing to speak of: it holds nothing any more, or has called meanwhile. */
TEST(no_coverage_record)
{
	struct sim s;

	sim_new(&s, NULL);
	driver(&s, 7, 0, true);
	sim_pass(&s, 60 * SEC);
	driver(&s, 7, 0, true);
	EXPECT_EQ(s.len, 0);
	driver(&s, 8, GIB, true);
	sim_simple(&s, EVENT_PROCESS, 8);
	sim_pass(&s, 60 * SEC);
	driver(&s, 8, GIB, true);
	EXPECT_EQ(s.len, 0);
	driver(&s, 9, UINT64_MAX, true);
	sim_pass(&s, 60 * SEC);
	driver(&s, 9, UINT64_MAX, true);
	EXPECT_EQ(s.len, 1);
	/* As it should be, until it is found otherwise. */
	driver(&s, 10, GIB, true);
	engine_set_coverage(s.e, 10, 10 * SEC, "it draws", true);
	sim_pass(&s, 60 * SEC);
	driver(&s, 10, GIB, true);
	EXPECT_EQ(s.len, 1);
	engine_set_coverage(s.e, 10, 10 * SEC, "it computes", false);
	driver(&s, 10, GIB, true);
	EXPECT_EQ(s.len, 2);
	sim_done(&s);
}

/* A host full of them: some records, one for the others, whose turn is later. */
TEST(coverage_of_many)
{
	uint64_t others = 0, ones = 0;
	struct sim s;

	sim_new(&s, NULL);
	sim_pass(&s, 600 * SEC);
	for (int pass = 0; pass < 64; pass++) {
		engine_driver_begin(s.e);
		for (uint32_t pid = 1; pid <= 45; pid++)
			EXPECT_EQ(engine_driver(s.e, pid, pid * SEC, GPU, GIB, true), 0);
		end_pass(&s, true);
		sim_pass(&s, 20 * SEC);
		if (pass == 4)
			EXPECT(s.len == 21 && s.reports[20]->others == 25 && s.reports[20]->event == REPORT_COVERAGE &&
			       !s.reports[20]->id);
	}
	for (size_t i = 0; i < s.len; i++) {
		others += s.reports[i]->others;
		ones += s.reports[i]->others == 0;
	}
	EXPECT_EQ(ones, 45);
	EXPECT_EQ(others, 25 + 5);
	sim_done(&s);
}

/* A device that the driver names no more goes, unless one did not answer: then only what is in use is not known. */
TEST(devices_come_and_go)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct sim s;

	sim_new(&s, "version = 1; rules = ( { name = \"d\"; kind = \"live_bytes\"; scope = \"device\"; fire_above = \"1GiB\"; } );");
	sim_pass(&s, SEC);
	ASSERT(engine_set_device(s.e, "MIG-1", 0, "a", 8 * GIB, 2 * GIB) == 0 &&
	       engine_set_device(s.e, GPU, 0, "b", 8 * GIB, 0) == 0);
	engine_end_devices(s.e, true);
	sim_pass(&s, 2 * SEC);
	EXPECT_EQ(sim_count(&s, "d", STATE_FIRING), 1);
	sim_alloc(&s, 1, MIB, 1);
	ASSERT(engine_set_ordinal(s.e, 1, SEC, 0, GPU) == 0);
	engine_end_devices(s.e, false);
	engine_status_json(s.e, &sb, s.now);
	EXPECT(strstr(strbuf_str(&sb), "\"uuid\":\"MIG-1\",\"index\":0,\"name\":\"a\",\"total_bytes\":8589934592,\"used_bytes\":null"));
	sim_pass(&s, 2 * SEC);
	EXPECT_EQ(sim_count(&s, "d", STATE_RESOLVED), 1);
	/* Then for good; the one in use with its last process. */
	engine_end_devices(s.e, true);
	strbuf_reset(&sb);
	engine_status_json(s.e, &sb, s.now);
	EXPECT(!strstr(strbuf_str(&sb), "MIG-1") && strstr(strbuf_str(&sb), GPU));
	sim_simple(&s, EVENT_EXIT, 1);
	strbuf_reset(&sb);
	engine_status_json(s.e, &sb, s.now);
	EXPECT(strstr(strbuf_str(&sb), "\"devices\":[],\"rules\""));
	sim_done(&s);
}

/* A rule that looks at devices sees one that only the driver has named; and the device goes with its last user. */
TEST(device_that_only_the_driver_names)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct sim s;

	sim_new(&s, "version = 1; rules = ( { name = \"o\"; kind = \"orphan\"; for = \"0s\"; match = { device = \"^GPU-00\"; };"
		    " }, { name = \"d\"; kind = \"live_bytes\"; scope = \"device\"; fire_above = \"1GiB\"; } );");
	driver(&s, 7, 2 * GIB, true);
	engine_set_condition(s.e, 7, 7 * SEC, CONDITION_ZOMBIE, s.now);
	sim_pass(&s, 2 * SEC);
	EXPECT_EQ(sim_count(&s, "o", STATE_FIRING), 1);
	EXPECT_STR(sim_get(&s, "o", 0)->device_uuid, GPU);
	/* Then its own ordinal, which takes over. */
	sim_alloc(&s, 7, 3 * GIB, 1);
	ASSERT(engine_set_ordinal(s.e, 7, 7 * SEC, 0, GPU) == 0);
	EXPECT_EQ(sim_count(&s, "d", STATE_FIRING), 1);
	driver(&s, 7, 4 * GIB, true);
	EXPECT(sim_process(&s, 7)->devices[0].ordinal == PROCESS_DEVICE_DRIVER);
	EXPECT(sim_process(&s, 7)->devices[0].driver_bytes == 0 && sim_process(&s, 7)->devices[1].driver_bytes == 4 * GIB);
	sim_simple(&s, EVENT_EXIT, 7);
	engine_status_json(s.e, &sb, s.now);
	EXPECT(strstr(strbuf_str(&sb), "\"devices\":[],\"rules\""));
	sim_done(&s);
}

/* Whatever it claims: no total wraps, and limits hold. */
TEST(hostile_figures)
{
	struct limits l = LIMITS_DEFAULT;
	struct sim s;
	char uuid[16];

	l.processes = 3;
	sim_new_limits(&s, GROWTH, l);
	for (int pass = 0; pass < 3; pass++) {
		engine_driver_begin(s.e);
		for (uint32_t i = 0; i < 300; i++) {
			(void)snprintf(uuid, sizeof(uuid), "GPU-%u", i);
			(void)engine_driver(s.e, 1, SEC, uuid, UINT64_MAX - 1, i & 1);
			(void)engine_driver(s.e, 2 + i, SEC, NULL, i, true);
		}
		sim_pass(&s, 40 * SEC);
		end_pass(&s, pass != 1);
		end_pass(&s, true); /* without a beginning */
	}
	EXPECT_EQ(sim_process(&s, 1)->driver_bytes, UINT64_MAX - 1);
	EXPECT(sim_process(&s, 1)->devices_len <= PROCESS_DEVICES_MAX);
	EXPECT_EQ(engine_driver(s.e, 1, 0, GPU, MIB, true), -ESRCH);
	EXPECT_EQ(engine_driver(s.e, 999, SEC, GPU, MIB, true), -ENOSPC);
	sim_done(&s);
}

TEST(counts_of_frameworks_after_a_rebuild)
{
	struct books b = { .framework_alloc_count = 12, .framework_free_count = 11, .alloc_count = 3, .free_count = 2 };
	struct event ev;
	struct process *p;
	struct sim s;

	sim_new(&s, "version = 1; rules = ( { name = \"f\"; kind = \"live_bytes\"; class = \"framework\"; fire_above = \"1GiB\"; },"
		    " { name = \"d\"; kind = \"live_bytes\"; fire_above = \"3GiB\"; },"
		    " { name = \"x\"; kind = \"alloc_failure\"; } );");
	sim_alloc_on(&s, 1, 2 * GIB, 1, CLASS_FRAMEWORK, 0);
	sim_alloc(&s, 1, 2 * GIB, 1);
	EXPECT(sim_count(&s, "f", STATE_FIRING) == 1 && sim_count(&s, "d", STATE_NONE) == 0);
	EXPECT(sim_get(&s, "f", 0)->framework_bytes == 2 * GIB && sim_get(&s, "f", 0)->stack_bytes == 2 * GIB);
	/* The framework fails because the driver has: once is enough. */
	ev = sim_event(&s, EVENT_FAIL, 1);
	ev.class = CLASS_FRAMEWORK;
	ev.bytes = GIB;
	(void)sim_send(&s, &ev);
	EXPECT_EQ(sim_count(&s, "x", STATE_NONE), 0);
	p = sim_process(&s, 1);
	ASSERT(engine_rebuild_begin(s.e, 1, SEC) == 0);
	EXPECT(p->framework_live_count == 0 && p->live[CLASS_FRAMEWORK] == 0);
	ev = sim_event(&s, EVENT_ALLOC, 1);
	ev.class = CLASS_FRAMEWORK;
	ev.bytes = MIB;
	ev.stack = 1;
	ASSERT(engine_rebuild_add(s.e, &ev) == 0);
	ASSERT(engine_rebuild_end(s.e, 1, SEC, &b, s.now, SIM_REAL) == 0);
	EXPECT(p->framework_live_count == 1 && p->framework_alloc_count == 12 && p->framework_free_count == 11);
	EXPECT(p->live_count == 0 && p->alloc_count == 3 && p->live_bytes == 0 && p->live[CLASS_FRAMEWORK] == MIB);
	sim_done(&s);
}

TEST_MAIN()
