/* SPDX-License-Identifier: MIT */
/* What leak rules remember of a stack goes over to its call site. */
#include "engine_sim.h"
#include "rule/watch.h"

#define RULES(text) "version = 1; rules = (" text ");"
#define BY_STACK                                                                                                       \
	RULES("{ name = \"leak\"; kind = \"leak\"; scope = \"stack\"; epoch = \"2s\"; epochs = 8; occupancy = 0.9;"     \
	      " keep_ratio = 0.7; min_growth = \"4MiB\"; for_epochs = 3; }")
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

/* Two rings that become one are as if they had been one from the start; also where the one lags behind the other, but
 * that its history is of when it was brought up. */
static void merge_rings(bool is_lagging)
{
	struct rule r = { .epoch_ns = 10, .epochs = 4, .classes = CLASS_DEVICE_MASK };
	struct leak_ring *two[2], *one;
	struct leak_scale sc;
	struct { uint64_t birth, bytes; int ring; } block[64];
	size_t len = 0;
	uint64_t now = 1000, random = 99;

	leak_scale_init(&sc, &r);
	for (int i = 0; i < 2; i++)
		two[i] = leak_ring_new(&sc, now, 0);
	one = leak_ring_new(&sc, now, 0);
	ASSERT(two[0] && two[1] && one);
	for (int i = 0; i < 4000; i++) {
		random = hash64(random + 1);
		now += random % 4;
		if (len < ARRAY_SIZE(block) && random & 0x100) {
			block[len].birth = now;
			block[len].bytes = random >> 40;
			block[len].ring = i < 2000 ? (random >> 9) & 1 : 0;
			leak_ring_add(two[block[len].ring], &sc, now, block[len].bytes);
			leak_ring_add(one, &sc, now, block[len++].bytes);
		} else if (len > 0) {
			size_t k = (random >> 20) % len;

			leak_ring_sub(two[i < 2000 ? block[k].ring : 0], &sc, block[k].birth, block[k].bytes);
			leak_ring_sub(one, &sc, block[k].birth, block[k].bytes);
			block[k] = block[--len];
		}
		leak_ring_advance(one, &sc, now / 10);
		leak_ring_advance(two[0], &sc, now / 10);
		if (i < (is_lagging ? 1900 : 1999))
			leak_ring_advance(two[1], &sc, now / 10);
		if (i == 1999)
			leak_ring_merge(two[0], two[1], &sc);
		if (i < 1999)
			continue;
		EXPECT_EQ(two[0]->newest, one->newest);
		EXPECT_EQ(two[0]->older, one->older);
		EXPECT_EQ(two[0]->window, one->window);
		for (uint32_t k = 0; k < sc.slots; k++)
			EXPECT_EQ(two[0]->slot[k], one->slot[k]);
		for (uint32_t k = 0; (!is_lagging || i > 3000) && k < sc.slots; k++)
			EXPECT_EQ(two[0]->slot[sc.slots + k], one->slot[sc.slots + k]);
		if (test_failures)
			break;
	}
	free(two[0]);
	free(two[1]);
	free(one);
}

TEST(rings_merge)
{
	merge_rings(false);
	merge_rings(true);
}

TEST(rings_of_absurd_sizes_merge)
{
	struct rule r = { .epoch_ns = 10, .epochs = 4, .classes = CLASS_DEVICE_MASK };
	struct leak_ring *a, *b;
	struct leak_scale sc;
	uint64_t sum = 0;

	leak_scale_init(&sc, &r);
	a = leak_ring_new(&sc, 1000, UINT64_MAX - 5);
	b = leak_ring_new(&sc, 5000, 100);
	ASSERT(a && b);
	leak_ring_add(a, &sc, 5010, UINT64_MAX - 10);
	leak_ring_add(b, &sc, 5020, 7);
	leak_ring_add(b, &sc, 5030, UINT64_MAX - 20);
	leak_ring_merge(a, b, &sc);
	EXPECT(a->older == UINT64_MAX && a->window == UINT64_MAX);
	for (uint32_t i = 0; i < sc.slots; i++)
		sum += a->slot[i];
	EXPECT(sum == a->window);
	leak_ring_add_older(a, &sc, 5);
	EXPECT(a->older == UINT64_MAX);
	EXPECT_EQ(a->origin_ns, 1000);
	free(a);
	free(b);
}

/* What is taken away is gone, even where it was not added at that time: its site has so much less. */
TEST(a_ring_loses_what_its_site_loses)
{
	struct rule r = { .epoch_ns = 10, .epochs = 4, .classes = CLASS_DEVICE_MASK };
	struct leak_scale sc;
	struct leak_ring *ring;

	leak_scale_init(&sc, &r);
	ring = leak_ring_new(&sc, 1000, 0);
	ASSERT(ring);
	leak_ring_add(ring, &sc, 1000, 10);
	leak_ring_add(ring, &sc, 1010, 20);
	leak_ring_add(ring, &sc, 1020, 40);
	leak_ring_sub(ring, &sc, 1015, 25);
	EXPECT_EQ(ring->window, 45);
	EXPECT_EQ(ring->slot[100 % sc.slots], 5);
	EXPECT_EQ(ring->slot[101 % sc.slots], 0);
	EXPECT_EQ(ring->slot[102 % sc.slots], 40);
	leak_ring_sub(ring, &sc, 5, 44);
	EXPECT_EQ(ring->window, 1);
	leak_ring_sub(ring, &sc, 5, 100);
	EXPECT(ring->window == 0 && ring->older == 0);
	free(ring);
}

/* Two stacks leak; the second is found to be of the first one's site after a while. */
static void leak(struct sim *s, int seconds, uint64_t first, uint64_t second)
{
	for (int i = 0; i < seconds; i++) {
		if (first)
			sim_alloc(s, PID, first, 1);
		if (second)
			sim_alloc(s, PID, second, 2);
		sim_pass(s, SEC);
	}
}

TEST(a_leak_that_was_said_stays_the_same_one)
{
	struct stack *raw;
	struct sim s;

	sim_new(&s, BY_STACK);
	raw = sim_raw_stack(&s, PID, 2);
	leak(&s, 40, 0, 2 * MIB);
	EXPECT_EQ(s.len, 1);
	EXPECT_EQ(sim_resolve(&s, raw, 2, 0xabc), 0);
	leak(&s, 40, 0, 2 * MIB);
	EXPECT_EQ(s.len, 1);
	sim_pass(&s, 60 * SEC);
	ASSERT(s.len == 2);
	EXPECT_EQ(s.reports[1]->state, STATE_RESOLVED);
	EXPECT(memcmp(s.reports[0]->incident, s.reports[1]->incident, 16) == 0);
	EXPECT_EQ(s.reports[1]->stack_bytes, 160 * MIB);
	sim_done(&s);
}

TEST(a_leak_moves_to_its_site)
{
	struct stack *raw[2];
	struct sim s;

	sim_new(&s, BY_STACK);
	raw[0] = sim_raw_stack(&s, PID, 1);
	raw[1] = sim_raw_stack(&s, PID, 2);
	/* The site holds much, but does not grow. */
	sim_alloc(&s, PID, 512 * MIB, 1);
	EXPECT_EQ(sim_resolve(&s, raw[0], 1, 0xabc), 0);
	sim_pass(&s, 40 * SEC);
	leak(&s, 40, 0, 2 * MIB);
	ASSERT(s.len == 1);
	EXPECT_EQ(sim_resolve(&s, raw[1], 2, 0xabc), 0);
	EXPECT(sites_len(&s) == 1);
	leak(&s, 40, 0, 2 * MIB);
	EXPECT_EQ(s.len, 1);
	sim_pass(&s, 60 * SEC);
	ASSERT(s.len == 2);
	EXPECT(memcmp(s.reports[0]->incident, s.reports[1]->incident, 16) == 0);
	/* What had been there before is not of the leak. */
	EXPECT(s.reports[1]->leaked_bytes >= 140 * MIB && s.reports[1]->leaked_bytes <= 170 * MIB);
	EXPECT_EQ(s.reports[1]->stack_bytes, (512 + 160) * MIB);
	EXPECT_EQ(s.reports[1]->stack->key, 1);
	sim_simple(&s, EVENT_EXIT, PID);
	EXPECT_EQ(s.len, 2);
	sim_done(&s);
}

TEST(two_leaks_become_one)
{
	struct stack *raw[2];
	struct report *gone;
	struct sim s;

	sim_new(&s, BY_STACK);
	raw[0] = sim_raw_stack(&s, PID, 1);
	raw[1] = sim_raw_stack(&s, PID, 2);
	EXPECT_EQ(sim_resolve(&s, raw[0], 1, 0xabc), 0);
	sim_alloc(&s, PID, 900 * MIB, 2);
	sim_pass(&s, 60 * SEC);
	leak(&s, 40, 3 * MIB, 2 * MIB);
	EXPECT_EQ(sim_count(&s, "leak", STATE_FIRING), 2);
	EXPECT_EQ(sim_resolve(&s, raw[1], 2, 0xabc), 0);
	ASSERT(s.len == 3);
	gone = s.reports[2];
	EXPECT(gone->state == STATE_RESOLVED && gone->stack_bytes == 980 * MIB && !gone->process_ended);
	leak(&s, 40, 3 * MIB, 2 * MIB);
	EXPECT_EQ(s.len, 3);
	sim_pass(&s, 60 * SEC);
	ASSERT(s.len == 4);
	EXPECT_EQ(s.reports[3]->state, STATE_RESOLVED);
	EXPECT(memcmp(s.reports[3]->incident, gone->incident, 16) != 0);
	/* 80 s of 3 and 2 MiB, and not what one of them had long before. */
	EXPECT(s.reports[3]->leaked_bytes >= 300 * MIB && s.reports[3]->leaked_bytes <= 410 * MIB);
	sim_done(&s);
}

/* When a leak is found that turns out to be of another site, merge_at seconds after it began; 0 = never. */
static uint64_t found_after(int merge_at)
{
	struct stack *raw[2];
	struct sim s;
	int i;

	sim_new(&s, BY_STACK);
	raw[0] = sim_raw_stack(&s, PID, 1);
	raw[1] = sim_raw_stack(&s, PID, 2);
	sim_alloc(&s, PID, 64 * MIB, 1);
	(void)sim_resolve(&s, raw[0], 1, 0xabc);
	sim_pass(&s, 60 * SEC);
	for (i = 1; i < 60 && s.len == 0; i++) {
		sim_alloc(&s, PID, 2 * MIB, 2);
		sim_pass(&s, SEC);
		if (i == merge_at)
			EXPECT_EQ(sim_resolve(&s, TAKE_PTR(raw[1]), 2, 0xabc), 0);
	}
	stack_unref(raw[1]);
	sim_done(&s);
	return (uint64_t)i;
}

TEST(a_leak_half_found_is_found_as_soon)
{
	uint64_t alone = found_after(0);

	EXPECT(alone > 18 && alone < 30);
	for (int at = 1; at < 30; at++)
		EXPECT_EQ(found_after(at), alone);
}

TEST(a_leak_of_many_numbers)
{
	struct stack *raw = NULL;
	struct sim s;

	/* None of the stacks leaks often enough to be seen; their site does, though each answer comes a second late. */
	sim_new(&s, BY_STACK);
	for (uint64_t i = 1; i <= 40; i++) {
		struct stack *next = sim_raw_stack(&s, PID, i);

		sim_alloc(&s, PID, 2 * MIB, i);
		sim_pass(&s, SEC);
		if (raw)
			EXPECT_EQ(sim_resolve(&s, raw, i - 1, 0xabc), 0);
		raw = next;
	}
	stack_unref(raw);
	ASSERT(s.len == 1);
	EXPECT_EQ(s.reports[0]->state, STATE_FIRING);
	EXPECT(s.reports[0]->real_usec < SIM_REAL + 1030 * UINT64_C(1000000));
	EXPECT_EQ(s.reports[0]->stack->key, 1);
	sim_done(&s);
}

TEST(a_rule_newer_than_the_blocks)
{
	struct stack *raw[2];
	const struct leak_ring *ring;
	struct sim s;

	sim_new(&s, NULL);
	raw[0] = sim_raw_stack(&s, PID, 1);
	raw[1] = sim_raw_stack(&s, PID, 2);
	sim_alloc(&s, PID, 100 * MIB, 1);
	EXPECT_EQ(sim_resolve(&s, raw[0], 1, 0xabc), 0);
	sim_rules(&s, BY_STACK);
	sim_alloc(&s, PID, 10 * MIB, 2);
	EXPECT(!site_of(&s, 1)->watch && site_of(&s, 2)->watch);
	EXPECT_EQ(sim_resolve(&s, raw[1], 2, 0xabc), 0);
	ASSERT(site_of(&s, 2)->watch && site_of(&s, 2)->watch->rings[0]);
	ring = site_of(&s, 2)->watch->rings[0];
	EXPECT_EQ(ring->older, 100 * MIB);
	EXPECT_EQ(ring->window, 10 * MIB);
	/* And the reverse. */
	raw[0] = sim_raw_stack(&s, PID, 3);
	sim_rules(&s, RULES(""));
	sim_alloc(&s, PID, 1000 * MIB, 3);
	sim_rules(&s, BY_STACK);
	sim_alloc(&s, PID, MIB, 1);
	EXPECT_EQ(sim_resolve(&s, raw[0], 3, 0xabc), 0);
	ASSERT(site_of(&s, 3)->watch && site_of(&s, 3)->watch->rings[0]);
	ring = site_of(&s, 3)->watch->rings[0];
	EXPECT_EQ(ring->older, 1110 * MIB);
	EXPECT_EQ(ring->window, MIB);
	sim_done(&s);
}

TEST_MAIN()
