/* SPDX-License-Identifier: MIT */
/* Items of a trace through the player: what the engine must have been told by them. */
#include <errno.h>

#include "base/clock.h"
#include "model/process.h"
#include "replay/player.h"
#include "test.h"

#define SEC NSEC_PER_SEC
#define MSEC NSEC_PER_MSEC
#define MIB (UINT64_C(1) << 20)

#define QUOTA                                                                                                          \
	"version = 1; rules = ( { name = \"quota\"; kind = \"live_bytes\"; fire_above = \"100MiB\"; for = \"0s\";"      \
	"  keep_firing_for = \"0s\"; },"                                                                               \
	"{ name = \"oom\"; kind = \"alloc_failure\"; count = 1; window = \"1m\"; } );"

struct world {
	struct player *p;
	struct player_options o;
	struct report *reports[64];
	uint64_t times[64];
	size_t len;
	const char *frames[8]; /* by number */
};

static void on_report(struct report *r, uint64_t time_ns, void *userdata)
{
	struct world *w = userdata;

	if (w->len == ARRAY_SIZE(w->reports))
		abort();
	w->times[w->len] = time_ns;
	w->reports[w->len++] = r;
}

static const char *on_stack(uint64_t stack, void *userdata)
{
	const struct world *w = userdata;

	return stack < ARRAY_SIZE(w->frames) ? w->frames[stack] : NULL;
}

static struct ruleset *rules(const char *text)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	struct ruleset *rs = NULL;

	if (ruleset_parse("test.conf", text, &errors, &rs) < 0) {
		errors_print(&errors, stdout);
		abort();
	}
	return rs;
}

static void world_init(struct world *w)
{
	*w = (struct world){ .o = { .limits = LIMITS_DEFAULT, .clock = TRACE_CLOCK_DEFAULT, .report = on_report,
				    .stack = on_stack, .userdata = w } };
}

static void world_new(struct world *w, const char *text)
{
	if (player_new(&w->o, text ? rules(text) : NULL, &w->p) < 0)
		abort();
}

static void world_done(struct world *w)
{
	player_free(w->p);
	for (size_t i = 0; i < w->len; i++)
		report_free(w->reports[i]);
}

static int feed(struct world *w, struct trace_item item)
{
	return player_feed(w->p, &item);
}

static int alloc(struct world *w, uint64_t time_ns, uint64_t addr, uint64_t bytes, uint64_t stack)
{
	return feed(w, (struct trace_item){ .type = TRACE_ALLOC, .pid = 7, .time_ns = time_ns, .addr = addr,
					    .bytes = bytes, .stack = stack });
}

static int release(struct world *w, uint64_t time_ns, uint64_t addr)
{
	return feed(w, (struct trace_item){ .type = TRACE_FREE, .pid = 7, .time_ns = time_ns, .addr = addr });
}

static struct process *process(struct world *w, uint32_t pid)
{
	return engine_newest_process(player_engine(w->p), pid);
}

static struct player_stats stats(struct world *w)
{
	struct player_stats s;

	player_stats(w->p, &s);
	return s;
}

TEST(ticks_at_full_seconds)
{
	struct world w;

	world_init(&w);
	w.o.clock.monotonic_ns = 1000 * SEC + 400 * MSEC;
	world_new(&w, QUOTA);
	EXPECT_EQ(alloc(&w, 0, 1, MIB, 0), 0);
	EXPECT_EQ(stats(&w).ticks, 0);
	EXPECT_EQ(alloc(&w, 599 * MSEC, 2, MIB, 0), 0);
	EXPECT_EQ(stats(&w).ticks, 0);
	EXPECT_EQ(alloc(&w, 600 * MSEC, 3, MIB, 0), 0);
	EXPECT_EQ(stats(&w).ticks, 1);
	EXPECT_EQ(alloc(&w, 10 * SEC, 4, MIB, 0), 0);
	EXPECT_EQ(stats(&w).ticks, 10);
	player_pass(w.p, 86400 * SEC);
	EXPECT_EQ(stats(&w).ticks, 86400);
	EXPECT_EQ(player_time(w.p), 86400 * SEC);
	player_tick(w.p);
	EXPECT_EQ(stats(&w).ticks, 86401);
	/* It does not go back. */
	player_pass(w.p, SEC);
	EXPECT_EQ(player_time(w.p), 86400 * SEC);
	world_done(&w);
}

TEST(ticks_of_the_trace)
{
	struct world w;

	world_init(&w);
	w.o.has_ticks = true;
	world_new(&w, QUOTA);
	EXPECT_EQ(alloc(&w, 1100 * MSEC, 1, MIB, 0), 0);
	EXPECT_EQ(stats(&w).ticks, 0);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_TICK, .time_ns = 1300 * MSEC }), 0);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_TICK, .time_ns = 2700 * MSEC }), 0);
	EXPECT_EQ(stats(&w).ticks, 2);
	/* One is missing, at 3.7 s, and was left out. */
	EXPECT_EQ(alloc(&w, 4100 * MSEC, 2, MIB, 0), 0);
	EXPECT_EQ(stats(&w).ticks, 2);
	EXPECT_EQ(alloc(&w, 4300 * MSEC, 3, MIB, 0), 0);
	EXPECT_EQ(stats(&w).ticks, 3);
	/* At 4.7, 5.7, ... 11.7 s, and this one. */
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_TICK, .time_ns = 12700 * MSEC }), 0);
	EXPECT_EQ(stats(&w).ticks, 12);
	world_done(&w);
}

TEST(stretched)
{
	struct world w;

	world_init(&w);
	w.o.stretch = 2.5;
	world_new(&w, QUOTA);
	EXPECT_EQ(alloc(&w, 4 * SEC, 1, 200 * MIB, 0), 0);
	EXPECT_EQ(player_time(w.p), 10 * SEC);
	EXPECT_EQ(player_stretch(w.p, 4 * SEC), 10 * SEC);
	EXPECT_EQ(stats(&w).ticks, 10);
	ASSERT(w.len == 1);
	EXPECT_EQ(w.times[0], 10 * SEC);
	EXPECT_EQ(w.reports[0]->real_usec, w.o.clock.real_usec + 10 * USEC_PER_SEC);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_TICK, .time_ns = PLAYER_TIME_MAX / 2 }), -EINVAL);
	world_done(&w);
	w.o.stretch = -1;
	EXPECT_EQ(player_new(&w.o, rules(QUOTA), &w.p), -EINVAL);
}

TEST(blocks)
{
	struct world w;
	struct process *p;

	world_init(&w);
	world_new(&w, QUOTA);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_ALLOC, .pid = 7, .addr = 1, .bytes = 5 * MIB,
						.class = CLASS_PHYSICAL, .kind = ADDR_HANDLE, .device = 3 }), 0);
	EXPECT_EQ(alloc(&w, SEC, 1, 3 * MIB, 0), 0);
	p = process(&w, 7);
	ASSERT(p);
	EXPECT_EQ(p->live_bytes, 8 * MIB);
	EXPECT_EQ(p->live[CLASS_PHYSICAL], 5 * MIB);
	EXPECT_EQ(process_device_slot(p, 3), 0);
	EXPECT_EQ(p->devices[0].live[CLASS_PHYSICAL], 5 * MIB);
	EXPECT_EQ(p->first_ns, w.o.clock.monotonic_ns);
	/* A pointer and a handle with one number are two. */
	EXPECT_EQ(release(&w, 2 * SEC, 1), 0);
	EXPECT_EQ(p->live_bytes, 5 * MIB);
	EXPECT_EQ(release(&w, 2 * SEC, 1), 0);
	EXPECT_EQ(stats(&w).unknown_frees, 1);
	EXPECT_EQ(p->unknown_free_count, 0);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_FREE, .pid = 8, .addr = 1 }), 0);
	EXPECT_EQ(stats(&w).unknown_frees, 2);
	EXPECT(!process(&w, 8));
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_FREE, .pid = 7, .addr = 1, .kind = ADDR_HANDLE }), 0);
	EXPECT_EQ(p->live_bytes, 0);
	EXPECT_EQ(p->devices[0].live[CLASS_PHYSICAL], 0);
	EXPECT_EQ(p->live_count, 0);
	EXPECT_EQ(p->free_count, 2);
	EXPECT(p->exact);
	EXPECT_EQ(stats(&w).late, 2);
	/* Its free was cut out of the trace. */
	EXPECT_EQ(alloc(&w, 3 * SEC, 1, MIB, 0), 0);
	EXPECT_EQ(alloc(&w, 3 * SEC, 1, 2 * MIB, 0), 0);
	EXPECT_EQ(stats(&w).replaced, 1);
	EXPECT_EQ(p->live_bytes, 2 * MIB);
	world_done(&w);
}

/* A call that frees returns after another thread was given the address: both count until then, and it ends the older. */
TEST(a_free_that_comes_after_the_next_block_at_the_address)
{
	const struct process *p;
	struct world w;

	world_init(&w);
	w.o.has_ticks = true;
	world_new(&w, QUOTA);
	EXPECT_EQ(alloc(&w, 0, 1, MIB, 0), 0);
	p = process(&w, 7);
	ASSERT(p);
	EXPECT_EQ(alloc(&w, 1, 1, 4 * MIB, 0), 0);
	EXPECT_EQ(p->live_bytes, 5 * MIB);
	EXPECT_EQ(alloc(&w, 2, 1, 16 * MIB, 0), 0);
	EXPECT_EQ(p->live_bytes, 21 * MIB);
	EXPECT_EQ(release(&w, 3, 1), 0);
	EXPECT_EQ(p->live_bytes, 20 * MIB);
	EXPECT_EQ(release(&w, 4, 1), 0);
	EXPECT_EQ(p->live_bytes, 16 * MIB);
	/* One whose free never comes, beside: it is taken to be over after two ticks, and others are left alone. */
	EXPECT_EQ(alloc(&w, 5, 2, MIB, 0), 0);
	EXPECT_EQ(alloc(&w, 6, 2, 2 * MIB, 0), 0);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_TICK, .time_ns = SEC }), 0);
	EXPECT_EQ(p->live_bytes, 19 * MIB);
	EXPECT_EQ(stats(&w).replaced, 0);
	EXPECT_EQ(alloc(&w, SEC + 1, 1, 32 * MIB, 0), 0);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_TICK, .time_ns = 2 * SEC }), 0);
	EXPECT_EQ(stats(&w).replaced, 1);
	EXPECT_EQ(p->live_bytes, 50 * MIB);
	EXPECT_EQ(release(&w, 2 * SEC + 1, 2), 0);
	EXPECT_EQ(release(&w, 2 * SEC + 1, 1), 0);
	EXPECT_EQ(release(&w, 2 * SEC + 1, 1), 0);
	EXPECT_EQ(p->live_bytes, 0);
	EXPECT_EQ(stats(&w).unknown_frees, 0);
	/* An end leaves none of them behind. */
	EXPECT_EQ(alloc(&w, 2 * SEC + 2, 1, MIB, 0), 0);
	EXPECT_EQ(alloc(&w, 2 * SEC + 3, 1, MIB, 0), 0);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_EXIT, .pid = 7, .time_ns = 2 * SEC + 4 }), 0);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_TICK, .time_ns = 9 * SEC }), 0);
	EXPECT_EQ(stats(&w).replaced, 1);
	world_done(&w);
}

/* A file that has thousands of blocks at one address, and ticks: they do not pile up, each line takes its time alone. */
TEST(blocks_that_pile_up_at_an_address)
{
	const struct process *p;
	struct world w;

	world_init(&w);
	w.o.has_ticks = true;
	world_new(&w, QUOTA);
	for (uint64_t i = 0; i < 20; i++)
		EXPECT_EQ(alloc(&w, i, 1, MIB, 0), 0);
	p = process(&w, 7);
	ASSERT(p);
	EXPECT_EQ(p->live_bytes, 16 * MIB);
	EXPECT_EQ(stats(&w).replaced, 4);
	for (uint64_t i = 0; i < 200000; i++)
		(void)alloc(&w, 20 + i, 1, MIB, 0);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_TICK, .time_ns = SEC }), 0);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_TICK, .time_ns = 2 * SEC }), 0);
	EXPECT_EQ(p->live_bytes, MIB);
	EXPECT_EQ(release(&w, 2 * SEC + 1, 1), 0);
	EXPECT_EQ(p->live_bytes, 0);
	world_done(&w);
}

TEST(lives_of_a_pid)
{
	struct world w;
	uint64_t first;

	world_init(&w);
	world_new(&w, QUOTA);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_EXIT, .pid = 7 }), 0);
	EXPECT(!process(&w, 7));
	EXPECT_EQ(alloc(&w, 0, 1, 200 * MIB, 0), 0);
	first = process(&w, 7)->start_ns;
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_EXEC, .pid = 7 }), 0);
	EXPECT(!process(&w, 7));
	/* Said, and over. */
	EXPECT_EQ(w.len, 2);
	EXPECT_EQ(alloc(&w, 0, 2, MIB, 0), 0);
	EXPECT(process(&w, 7)->start_ns > first);
	EXPECT_EQ(process(&w, 7)->live_bytes, MIB);
	EXPECT_EQ(release(&w, 0, 1), 0);
	EXPECT_EQ(stats(&w).unknown_frees, 1);
	world_done(&w);
}

TEST(stacks_by_frames)
{
	struct world w;
	struct process *p;

	world_init(&w);
	w.frames[1] = "inner;outer";
	w.frames[2] = "inner;outer";
	w.frames[3] = "inner;another";
	world_new(&w, QUOTA);
	EXPECT_EQ(alloc(&w, 0, 1, MIB, 1), 0);
	EXPECT_EQ(alloc(&w, 0, 2, MIB, 2), 0);
	EXPECT_EQ(alloc(&w, 0, 3, MIB, 3), 0);
	EXPECT_EQ(alloc(&w, 0, 4, 98 * MIB, 4), 0);
	p = process(&w, 7);
	/* The first two are one site; of the last no frames are known. */
	EXPECT_EQ(p->sites_len, 3);
	ASSERT(process_resolved_site(p, trace_site_key("inner;outer")));
	EXPECT_EQ(process_resolved_site(p, trace_site_key("inner;outer"))->bytes, 2 * MIB);
	ASSERT(process_resolved_site(p, 4));
	EXPECT_EQ(process_resolved_site(p, 4)->bytes, 98 * MIB);
	ASSERT(w.len == 1);
	EXPECT_EQ(player_stack_number(w.p, w.reports[0]->stack), 4);
	EXPECT_EQ(player_stack_number(w.p, NULL), 0);
	world_done(&w);
}

TEST(stacks_by_site_lines)
{
	struct world w;
	struct process *p;

	world_init(&w);
	w.o.has_sites = true;
	w.frames[1] = "inner;outer";
	w.frames[2] = "inner;outer";
	w.frames[3] = "@0123456789abcdef;inner;outer";
	world_new(&w, QUOTA);
	EXPECT_EQ(alloc(&w, 0, 1, MIB, 1), 0);
	EXPECT_EQ(alloc(&w, 0, 2, MIB, 2), 0);
	p = process(&w, 7);
	EXPECT_EQ(p->sites_len, 2);
	EXPECT_EQ(p->sites_by_key.len, 0);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_SITE, .pid = 7, .stack = 1, .key = 55 }), 0);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_SITE, .pid = 7, .stack = 2, .key = 55 }), 0);
	EXPECT_EQ(p->sites_len, 1);
	ASSERT(process_resolved_site(p, 55));
	EXPECT_EQ(process_resolved_site(p, 55)->bytes, 2 * MIB);
	/* As the recorder writes it, an id first: that is what records name a stack by. */
	EXPECT_EQ(alloc(&w, 0, 3, MIB, 3), 0);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_SITE, .pid = 7, .stack = 3, .key = 56 }), 0);
	ASSERT(process_resolved_site(p, 56));
	EXPECT_EQ(stack_frames(process_resolved_site(p, 56)->stack)->id, 0x123456789abcdef);
	/* The same in every run, whatever the number of the site. */
	EXPECT_EQ(stack_frames(process_resolved_site(p, 55)->stack)->id, trace_site_key("inner;outer"));
	world_done(&w);
}

TEST(forgotten_stacks_are_told_again)
{
	struct world w;

	world_init(&w);
	w.o.limits.stacks_per_process = 4;
	w.o.limits.sites_per_process = 4;
	world_new(&w, QUOTA);
	for (uint64_t round = 0; round < 20; round++) {
		for (uint64_t stack = 1; stack <= 7; stack++) {
			EXPECT_EQ(alloc(&w, round * SEC, stack, MIB, stack), 0);
			EXPECT_EQ(release(&w, round * SEC, stack), 0);
		}
	}
	EXPECT(process(&w, 7)->stacks_dropped > 0);
	/* One that was dropped long ago has its stack in the record. */
	EXPECT_EQ(alloc(&w, 60 * SEC, 1, 200 * MIB, 1), 0);
	ASSERT(w.len == 1);
	EXPECT_EQ(player_stack_number(w.p, w.reports[0]->stack), 1);
	world_done(&w);
}

TEST(devices)
{
	struct world w;

	world_init(&w);
	world_new(&w, "version = 1; rules = ( { name = \"full\"; kind = \"live_bytes\"; scope = \"device\";"
		      "  fire_above = \"50%\"; for = \"0s\"; } );");
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_GPU, .uuid = "GPU-a", .device = 0, .total_bytes = 100 * MIB,
						.used_bytes = TRACE_UNKNOWN }), 0);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_GPU, .uuid = "GPU-b", .device = 1, .total_bytes = 100 * MIB,
						.used_bytes = 60 * MIB }), 0);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_GPUS_END }), 0);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_ORDINAL, .pid = 7, .device = 0, .uuid = "GPU-a" }), 0);
	player_pass(w.p, SEC);
	ASSERT(w.len == 1);
	EXPECT_STR(w.reports[0]->device_uuid, "GPU-b");
	EXPECT_EQ(alloc(&w, 2 * SEC, 1, 51 * MIB, 0), 0);
	ASSERT(w.len == 2);
	EXPECT_STR(w.reports[1]->device_uuid, "GPU-a");
	world_done(&w);
}

static int driver(struct world *w, uint32_t pid, uint64_t bytes)
{
	return feed(w, (struct trace_item){ .type = TRACE_DRIVER, .pid = pid, .bytes = bytes });
}

TEST(driver_figures)
{
	struct world w;

	world_init(&w);
	world_new(&w, QUOTA);
	EXPECT_EQ(driver(&w, 8, 10 * MIB), 0);
	EXPECT_EQ(driver(&w, 9, 20 * MIB), 0);
	ASSERT(process(&w, 8) && process(&w, 9));
	EXPECT(!process(&w, 8)->is_covered);
	/* A figure that stands alone leaves those of others. */
	EXPECT_EQ(process(&w, 8)->driver_bytes, 10 * MIB);
	EXPECT_EQ(process(&w, 9)->driver_bytes, 20 * MIB);
	EXPECT_EQ(driver(&w, 8, 0), 0);
	EXPECT_EQ(process(&w, 8)->driver_bytes, 0);
	EXPECT_EQ(process(&w, 9)->driver_bytes, 20 * MIB);
	/* In a pass of all, who is not named holds nothing. */
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_DRIVER_BEGIN }), 0);
	EXPECT_EQ(driver(&w, 8, 3 * MIB), 0);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_DRIVER, .pid = 8, .bytes = 4 * MIB, .uuid = "GPU-a" }), 0);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_DRIVER_END }), 0);
	EXPECT_EQ(process(&w, 8)->driver_bytes, 7 * MIB);
	EXPECT_EQ(process(&w, 9)->driver_bytes, 0);
	EXPECT_EQ(driver(&w, 9, 5 * MIB), 0);
	EXPECT_EQ(process(&w, 8)->driver_bytes, 7 * MIB);
	EXPECT_EQ(process(&w, 9)->driver_bytes, 5 * MIB);
	/* Unless the pass was not complete: then it is not known. */
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_DRIVER_BEGIN }), 0);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_DRIVER_END, .flag = true }), 0);
	EXPECT(process(&w, 8)->driver_bytes == UINT64_MAX);
	world_done(&w);
}

TEST(texts_are_kept)
{
	char reason[] = "linked statically", call[] = "cuMemAlloc_v2";
	struct identity *id = identity_new();
	struct world w;

	ASSERT(id && (id->comm = strdup("python3")));
	world_init(&w);
	world_new(&w, QUOTA);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_IDENTITY, .pid = 7, .identity = id }), 0);
	EXPECT_EQ(driver(&w, 8, 10 * MIB), 0);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_COVERAGE, .pid = 8, .name = reason }), 0);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_FAIL, .pid = 7, .bytes = MIB, .error = 2, .call = call }), 0);
	memset(reason, 'x', sizeof(reason) - 1);
	memset(call, 'x', sizeof(call) - 1);
	identity_unref(id);
	EXPECT_STR(process(&w, 8)->uncovered_reason, "linked statically");
	ASSERT(w.len == 1);
	EXPECT_STR(w.reports[0]->function, "cuMemAlloc_v2");
	EXPECT_EQ(w.reports[0]->error, 2);
	EXPECT_STR(w.reports[0]->id->comm, "python3");
	EXPECT_EQ(w.reports[0]->id->pid, 7);
	EXPECT_EQ(w.reports[0]->id->start_ns, process(&w, 7)->start_ns);
	EXPECT_EQ(player_call(w.p, "cuMemAlloc_v2"), 1);
	EXPECT_EQ(player_call(w.p, "cuMemFree_v2"), 2);
	EXPECT_EQ(player_call(w.p, NULL), 0);
	world_done(&w);
}

TEST(losses_and_rebuilds)
{
	struct books books = { .alloc_count = 5, .free_count = 3, .peak_bytes = 50 * MIB };
	struct world w;
	struct process *p;

	world_init(&w);
	w.frames[1] = "inner";
	world_new(&w, QUOTA);
	EXPECT_EQ(alloc(&w, 0, 1, 10 * MIB, 1), 0);
	EXPECT_EQ(alloc(&w, SEC, 2, 20 * MIB, 1), 0);
	p = process(&w, 7);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_LOST, .pid = 7, .time_ns = 2 * SEC, .count = 4 }), 0);
	EXPECT(!p->exact);
	EXPECT_EQ(p->lost_events, 4);
	EXPECT_EQ(player_rebuild(w.p, 7), 0);
	EXPECT(p->exact);
	EXPECT_EQ(p->live_bytes, 30 * MIB);
	EXPECT_EQ(p->live_count, 2);
	EXPECT_EQ(p->alloc_count, 2);
	EXPECT_EQ(p->peak_bytes, 30 * MIB);
	EXPECT_EQ(player_rebuild(w.p, 99), 0);
	/* As a recording has it: what is not told again is gone. */
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_REBUILD, .pid = 7, .time_ns = 3 * SEC }), 0);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_BLOCK, .pid = 7, .time_ns = 3 * SEC, .addr = 2,
						.bytes = 25 * MIB, .stack = 1, .birth_ns = SEC }), 0);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_REBUILT, .pid = 7, .time_ns = 3 * SEC, .books = &books }), 0);
	EXPECT_EQ(p->live_bytes, 25 * MIB);
	ASSERT(process_resolved_site(p, trace_site_key("inner")));
	EXPECT_EQ(process_resolved_site(p, trace_site_key("inner"))->last_ns, w.o.clock.monotonic_ns + SEC);
	EXPECT_EQ(p->alloc_count, 5);
	EXPECT_EQ(p->peak_bytes, 50 * MIB);
	EXPECT_EQ(release(&w, 4 * SEC, 2), 0);
	EXPECT_EQ(release(&w, 4 * SEC, 1), 0);
	EXPECT_EQ(p->live_bytes, 0);
	EXPECT(p->exact);
	EXPECT_EQ(stats(&w).unknown_frees, 1);
	world_done(&w);
}

/* Identity first: it begins a life, whose first moment is now. */
TEST(calls_without_a_clock_count_from_now)
{
	struct identity *id = identity_new();
	struct world w;

	ASSERT(id);
	world_init(&w);
	w.o.has_ticks = true;
	world_new(&w, QUOTA);
	EXPECT_EQ(feed(&w, (struct trace_item){ .type = TRACE_IDENTITY, .pid = 7, .identity = id, .time_ns = 1200 * MSEC }),
		  0);
	EXPECT_EQ(process(&w, 7)->first_ns, w.o.clock.monotonic_ns + 1200 * MSEC);
	identity_unref(id);
	world_done(&w);
}

TEST(what_cannot_be)
{
	static const struct trace_item bad[] = {
		{ .type = TRACE_ALLOC },
		{ .type = TRACE_ALLOC, .pid = 7, .class = CLASS_MAX },
		{ .type = TRACE_FREE, .pid = 7, .kind = 4 },
		{ .type = TRACE_TYPE_MAX, .pid = 7 },
		{ .type = TRACE_GPU },
		{ .type = TRACE_ORDINAL, .pid = 7 },
		{ .type = TRACE_ORDINAL, .pid = 7, .uuid = "GPU-a", .device = -2 },
		{ .type = TRACE_IDENTITY, .pid = 7 },
		{ .type = TRACE_REBUILT, .pid = 7 },
		{ .type = TRACE_SITE, .pid = 7, .stack = 1 },
		{ .type = TRACE_TICK, .time_ns = UINT64_MAX },
	};
	struct world w;

	world_init(&w);
	world_new(&w, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		EXPECT_EQ(player_feed(w.p, &bad[i]), -EINVAL);
	EXPECT_EQ(stats(&w).items, 0);
	EXPECT(!process(&w, 7));
	world_done(&w);
}

TEST_MAIN()
