/* SPDX-License-Identifier: MIT */
/* A rebuild from a live map that is told here, against events that were in the ring meanwhile. */
#include "cmd/resync.h"
#include "engine_sim.h"

#define PID 7
#define ADDR 0x7f0000001000ull
#define GEN 3

struct told {
	struct live_key key;
	struct live_value value;
};

static struct told told[8];
static size_t told_len;
static struct sim sim;
static struct resync *resync;

/* In the place of the kernel. */
int tracer_books(struct tracer *t, uint32_t pid, struct books *ret)
{
	*ret = (struct books){ .gen = GEN, .start_ns = PID * SEC };
	return pid == PID ? 0 : -ENOENT;
}

int tracer_each_live(struct tracer *t, int (*fn)(const struct live_key *k, const struct live_value *v, void *userdata),
		     void *userdata)
{
	for (size_t i = 0; i < told_len; i++) {
		int r = fn(&told[i].key, &told[i].value, userdata);

		if (r < 0)
			return r;
	}
	return 0;
}

static void begin(void)
{
	told_len = 0;
	sim_new(&sim, NULL);
	ASSERT(resync_new(NULL, sim.e, &resync) == 0);
	sim_simple(&sim, EVENT_PROCESS, PID);
}

static void end(void)
{
	resync_free(resync);
	sim_done(&sim);
}

static void in_map(uint64_t birth_ns, uint64_t bytes)
{
	told[told_len++] = (struct told){ { .gen = GEN, .kind = ADDR_POINTER, .addr = ADDR },
					  { .bytes = bytes, .birth_ns = birth_ns, .class = CLASS_HOST } };
}

static void rebuild(void)
{
	ASSERT(resync_want(resync, PID, PID * SEC) == 0);
	EXPECT_EQ(resync_run(resync, sim.now, SIM_REAL), 1);
	EXPECT(resync_is_settling(resync, PID, PID * SEC));
}

static void event(uint8_t type, uint64_t birth_ns, uint64_t bytes)
{
	struct event ev = sim_event(&sim, type, PID);

	ev.class = CLASS_HOST;
	ev.kind = ADDR_POINTER;
	ev.addr = ADDR;
	ev.bytes = bytes;
	ev.birth_ns = birth_ns;
	if (resync_filter(resync, &ev))
		EXPECT_EQ(sim_send(&sim, &ev), 0);
}

static void expect_held(uint64_t bytes, uint64_t count)
{
	struct process *p = sim_process(&sim, PID);

	ASSERT(p);
	EXPECT_EQ(p->live[CLASS_HOST], bytes);
	EXPECT_EQ(p->live_count, count);
}

TEST(what_the_walk_has_read_is_counted_once)
{
	begin();
	in_map(100, 4096);
	rebuild();
	expect_held(4096, 1);
	event(EVENT_ALLOC, 100, 4096);
	expect_held(4096, 1);
	event(EVENT_FREE, 100, 4096);
	expect_held(0, 0);
	end();
}

TEST(a_block_that_went_before_the_walk_is_not_freed_twice)
{
	begin();
	rebuild();
	event(EVENT_FREE, 100, 4096);
	expect_held(0, 0);
	end();
}

TEST(an_older_block_of_the_address_in_the_ring_does_not_double_the_one_of_the_walk)
{
	begin();
	in_map(300, 512);
	rebuild();
	event(EVENT_ALLOC, 100, 4096);
	event(EVENT_FREE, 100, 4096);
	event(EVENT_ALLOC, 300, 512);
	expect_held(512, 1);
	event(EVENT_FREE, 300, 512);
	expect_held(0, 0);
	end();
}

TEST(news_of_a_free_behind_those_of_the_next_block_of_the_address)
{
	begin();
	rebuild();
	event(EVENT_ALLOC, 100, 4096);
	event(EVENT_ALLOC, 300, 512); /* by another thread, before the first one is back from its free */
	event(EVENT_FREE, 100, 4096);
	expect_held(512, 1);
	event(EVENT_FREE, 300, 512);
	expect_held(0, 0);
	end();
}

TEST_MAIN()
