/* SPDX-License-Identifier: MIT */
/* Where call sites stopped growing, and what follows from it for the next process and the next engine. */
#include "engine_sim.h"
#include "rule/leak_confidence.h"

#define LEAK(scope, more)                                                                                              \
	"version = 1; rules = ({ name = \"leak\"; kind = \"leak\"; scope = \"" scope "\"; epoch = \"2s\";"                 \
	" epochs = 8; occupancy = 0.9; keep_ratio = 0.7; for_epochs = 3; keep_firing_for = \"0s\"; " more " });"
#define BY_PROCESS LEAK("process", "min_growth = \"4MiB\";")
#define BY_STACK LEAK("stack", "min_growth = \"4MiB\";")

/* A process fills so many MiB, one a second, is idle for so long, and ends. Returns at how many MiB it was called
 * leaking, 0 = never. */
static int fill(struct sim *s, uint32_t pid, int mib, uint64_t idle)
{
	int found = 0;

	sim_clear(s);
	sim_stack(s, pid, 0xca);
	for (int i = 1; i <= mib; i++) {
		sim_alloc(s, pid, MIB, 0xca);
		sim_pass(s, SEC);
		if (s->len && !found)
			found = i;
	}
	sim_pass(s, idle);
	sim_simple(s, EVENT_EXIT, pid);
	return found;
}

static size_t bounds_of(struct sim *s)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	unsigned long used = 0, max = 0;
	const char *at;

	engine_status_json(s->e, &sb, s->now);
	at = strstr(strbuf_str(&sb), "{\"name\":\"bounds\"");
	if (!at || sscanf(at, "{\"name\":\"bounds\",\"used\":%lu,\"max\":%lu", &used, &max) != 2 || max != 4096)
		return SIZE_MAX;
	return used;
}

TEST(what_filled_once_is_expected_to_fill_again)
{
	struct sim s;
	int found;

	sim_new(&s, BY_PROCESS);
	EXPECT_EQ(bounds_of(&s), 0);
	/* It ends between two epochs; that it has stopped was learnt at the last one. */
	EXPECT(fill(&s, 7, 100, 11500 * MSEC) > 0);
	EXPECT_EQ(sim_count(&s, "leak", STATE_RESOLVED), 1);
	EXPECT_EQ(bounds_of(&s), 1);
	EXPECT_EQ(fill(&s, 8, 100, 60 * SEC), 0);
	EXPECT_EQ(fill(&s, 9, 118, 60 * SEC), 0);
	found = fill(&s, 10, 200, 0);
	EXPECT(found >= 120 && found <= 128);
	sim_done(&s);
}

/* About one site it is a matter of how sure that is. */
TEST(a_rule_by_stack_doubts_it_up_to_there)
{
	struct sim s;
	double sure;

	sim_new(&s, BY_STACK);
	EXPECT(fill(&s, 7, 100, 30 * SEC) > 0);
	sure = s.reports[0]->confidence;
	EXPECT(!(s.reports[0]->doubts & (1u << LEAK_DOUBT_BOUNDED)));
	EXPECT_EQ(bounds_of(&s), 1);
	ASSERT(fill(&s, 8, 100, 30 * SEC) > 0);
	EXPECT(s.reports[0]->doubts & (1u << LEAK_DOUBT_BOUNDED));
	EXPECT(s.reports[0]->confidence < sure / 2);
	sim_done(&s);
	/* Which keeps the rule from saying it. */
	sim_new(&s, LEAK("stack", "min_growth = \"4MiB\"; min_confidence = 0.3;"));
	EXPECT(fill(&s, 7, 100, 30 * SEC) > 0);
	EXPECT_EQ(fill(&s, 8, 100, 30 * SEC), 0);
	EXPECT(fill(&s, 9, 200, 0) >= 120);
	sim_done(&s);
}

TEST(what_ends_while_it_grows_teaches_nothing)
{
	struct sim s;
	int found;

	sim_new(&s, BY_PROCESS);
	found = fill(&s, 7, 100, 0);
	EXPECT(found > 0);
	EXPECT_EQ(bounds_of(&s), 0);
	EXPECT_EQ(fill(&s, 8, 100, 0), found);
	sim_done(&s);
}

TEST(rare_steps_are_no_stops)
{
	struct sim s;

	/* Half a window is 8 s. */
	sim_new(&s, "version = 1; rules = ({ name = \"leak\"; kind = \"leak\"; scope = \"process\"; epoch = \"2s\";"
		    " epochs = 8; occupancy = 0.6; keep_ratio = 0.5; min_growth = \"4MiB\"; for_epochs = 3; });");
	sim_stack(&s, 7, 0xca);
	for (int i = 0; i < 60; i++) {
		sim_alloc(&s, 7, 32 * MIB, 0xca);
		sim_pass(&s, 11 * SEC);
	}
	EXPECT_EQ(sim_count(&s, "leak", STATE_FIRING), 1);
	EXPECT_EQ(sim_count(&s, "leak", STATE_RESOLVED), 0);
	EXPECT_EQ(bounds_of(&s), 0);
	/* It really stops: that takes twice as long as a step to be believed. */
	sim_pass(&s, 40 * SEC);
	EXPECT_EQ(bounds_of(&s), 1);
	sim_done(&s);
}

static void learn_cb(uint64_t id, uint64_t bytes, int64_t seen_ns, void *userdata)
{
	EXPECT_EQ(engine_learn_bound(userdata, id, bytes, seen_ns), 0);
}

struct saved_bound {
	uint64_t id, bytes;
	int64_t seen_ns;
	size_t len;
};

static void note_cb(uint64_t id, uint64_t bytes, int64_t seen_ns, void *userdata)
{
	struct saved_bound *b = userdata;

	*b = (struct saved_bound){ id, bytes, seen_ns, b->len + 1 };
}

TEST(a_later_engine_knows_it_too)
{
	struct saved_bound b = { 0 };
	struct sim first, second;
	int64_t seen;

	sim_new(&first, BY_PROCESS);
	EXPECT(fill(&first, 7, 100, 30 * SEC) > 0);
	engine_save_bounds(first.e, note_cb, &b);
	EXPECT_EQ(b.len, 1);
	EXPECT_EQ(b.id, hash64(0xca));
	EXPECT_EQ(b.bytes, 100 * MIB);
	seen = b.seen_ns;
	EXPECT(seen > (int64_t)(1100 * SEC) && seen <= (int64_t)first.now);
	/* It is of use: seen again, and where it stopped stays the same. */
	EXPECT_EQ(fill(&first, 8, 60, 0), 0);
	b.len = 0;
	engine_save_bounds(first.e, note_cb, &b);
	EXPECT(b.len == 1 && b.bytes == 100 * MIB && b.seen_ns > seen);

	sim_new(&second, BY_PROCESS);
	engine_save_bounds(first.e, learn_cb, second.e);
	EXPECT_EQ(fill(&second, 7, 100, 0), 0);
	sim_done(&first);
	sim_done(&second);
}

TEST(the_one_seen_longest_ago_makes_room)
{
	struct saved_bound b = { 0 };
	struct sim s;

	sim_new(&s, BY_PROCESS);
	/* Before this boot, and long ago. */
	EXPECT_EQ(engine_learn_bound(s.e, hash64(0xca), 100 * MIB, -(int64_t)SEC), 0);
	for (uint64_t i = 1; i < 4096; i++)
		EXPECT_EQ(engine_learn_bound(s.e, i, MIB, (int64_t)i), 0);
	EXPECT_EQ(bounds_of(&s), 4096);
	EXPECT_EQ(engine_learn_bound(s.e, 1, 2 * MIB, 5), 0);
	EXPECT_EQ(bounds_of(&s), 4096);
	EXPECT_EQ(engine_learn_bound(s.e, 5000, MIB, 5000), 0);
	EXPECT_EQ(bounds_of(&s), 4096);
	engine_save_bounds(s.e, note_cb, &b);
	EXPECT_EQ(b.len, 4096);
	EXPECT(fill(&s, 7, 60, 0) > 0);
	/* Of no site, or nothing. */
	EXPECT_EQ(engine_learn_bound(s.e, 0, MIB, 1), 0);
	EXPECT_EQ(engine_learn_bound(s.e, 6000, 0, 9000), 0);
	EXPECT_EQ(bounds_of(&s), 4096);
	sim_done(&s);
}

TEST_MAIN()
