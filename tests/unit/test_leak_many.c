/* SPDX-License-Identifier: MIT */
/* Many processes are judged one after the other, and sites together; neither changes a verdict. */
#include "engine_sim.h"
#include "rule/watch.h"

#define RULES                                                                                                          \
	"version = 1; defaults = { max_incidents = 1000; budget = \"100000/1s\"; };"                                    \
	" rules = ({ name = \"leak\"; kind = \"leak\"; scope = \"process\"; epoch = \"10s\"; epochs = 8;"               \
	" occupancy = 0.9; keep_ratio = 0.7; min_growth = \"4MiB\"; for_epochs = 3; },"                                 \
	" { name = \"site\"; kind = \"leak\"; scope = \"stack\"; epoch = \"20s\"; epochs = 8;"                          \
	" occupancy = 0.9; keep_ratio = 0.7; min_growth = \"4MiB\"; for_epochs = 2; });"
#define MAX_PROCESSES 400
#define FIRST 100

struct found {
	uint64_t at[MAX_PROCESSES]; /* seconds after the start; 0 = not */
	size_t per_second[400];	    /* processes found in each */
};

static void note(struct sim *s, size_t *seen, const char *rule, struct found *f)
{
	for (; *seen < s->len; (*seen)++) {
		const struct report *r = s->reports[*seen];
		uint64_t at = s->now / SEC - 1000;

		if (strcmp(r->rule, rule) != 0 || r->state != STATE_FIRING || r->id->pid < FIRST)
			continue;
		EXPECT_EQ(f->at[r->id->pid - FIRST], 0);
		f->at[r->id->pid - FIRST] = at;
		f->per_second[at]++;
	}
}

/* processes leak; besides them others come and go, so that the number goes up and down, others(i) at second i. */
static void run(const char *rule, size_t processes, size_t (*others)(int second), struct found *f)
{
	struct sim s;
	size_t seen = 0, had = 0;

	*f = (struct found){ 0 };
	sim_new(&s, RULES);
	for (int i = 0; i < 230; i++) {
		size_t want = others ? others(i) : 0;

		for (; had < want; had++)
			sim_alloc(&s, (uint32_t)(10000 + had), MIB, 1);
		for (; had > want; had--)
			sim_simple(&s, EVENT_EXIT, (uint32_t)(10000 + had - 1));
		for (size_t k = 0; k < processes; k++)
			sim_alloc(&s, (uint32_t)(FIRST + k), MIB, 1 + (uint64_t)i % 2 * (strcmp(rule, "leak") == 0));
		sim_pass(&s, SEC);
		note(&s, &seen, rule, f);
	}
	sim_done(&s);
}

static size_t coming(int second)
{
	return second * 4 > 700 ? 700 : (size_t)second * 4;
}

static size_t going(int second)
{
	return 700 - coming(second);
}

static size_t up_and_down(int second)
{
	return (size_t)(second % 3) * 150;
}

TEST(few_processes_have_no_delay)
{
	struct found alone, few;

	run("leak", 1, NULL, &alone);
	run("leak", 2 * WATCH_LEAK_TOGETHER - 1, NULL, &few);
	EXPECT(alone.at[0] > 0);
	for (size_t k = 0; k < 2 * WATCH_LEAK_TOGETHER - 1; k++)
		EXPECT_EQ(few.at[k], alone.at[0]);
}

/* None earlier than alone, as it would be if an epoch were judged twice; none later by more than the longest delay. */
static void check(const char *rule, size_t processes, size_t (*others)(int second), struct found *f)
{
	struct found alone;

	run(rule, 1, NULL, &alone);
	run(rule, processes, others, f);
	EXPECT(alone.at[0] > 0);
	for (size_t k = 0; k < processes; k++) {
		EXPECT(f->at[k] >= alone.at[0]);
		EXPECT(f->at[k] <= alone.at[0] + 10);
	}
}

TEST(many_processes_are_judged_apart)
{
	static struct found f;
	size_t most = 0, seconds = 0;

	for (int both = 0; both < 2; both++) {
		check(both ? "site" : "leak", MAX_PROCESSES, NULL, &f);
		for (size_t i = 0; i < ARRAY_SIZE(f.per_second); i++) {
			most = MAX(most, f.per_second[i]);
			seconds += f.per_second[i] > 0;
		}
		/* The shortest epoch has ten seconds. */
		EXPECT_EQ(seconds, 10);
		EXPECT_EQ(most, MAX_PROCESSES / 10);
		most = seconds = 0;
	}
}

TEST(each_epoch_is_judged_once_whatever_the_number_of_processes)
{
	static struct found f;

	check("leak", 50, coming, &f);
	check("leak", 50, going, &f);
	check("leak", 50, up_and_down, &f);
	check("site", 50, up_and_down, &f);
}

#define RINGS 6

static uint64_t seed = 88172645463325252;

static uint64_t below(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

/* Blocks that stay, come and go, or are made anew; now and then nothing for a while. */
static void fill(struct leak_ring *ring, const struct leak_scale *sc, uint64_t from, uint64_t until)
{
	uint64_t mode = below(5), gap = 1 + below(4);

	leak_ring_set_remade(ring, mode == 4);
	for (uint64_t t = from; t < until; t++) {
		uint64_t bytes = 50 + below(100);

		leak_ring_advance(ring, sc, t);
		if (t % gap == 0)
			leak_ring_add(ring, sc, t, bytes);
		if (mode == 1 && below(2))
			leak_ring_sub(ring, sc, t - below(30), bytes);
		if (mode == 2 && t > from + 10)
			leak_ring_sub(ring, sc, t - 10, 75);
		if (mode == 3 && below(20) == 0)
			t += below(40);
	}
	leak_ring_advance(ring, sc, until);
}

struct tally {
	int grow, may, all;
};

/* Some of the rings: their shape says what their sum does, and no choice of them grows where none may. */
static void judge_some(struct leak_ring *const all[RINGS], const struct leak_scale *sc, const struct rule *r,
		       uint64_t epoch, struct tally *n)
{
	const struct leak_rings rings = { .list = all, .len = RINGS, .newest = all[0]->newest };

	for (uint32_t group = 1; group <= sc->max_group; group *= 2) {
		struct leak_shape shape;
		bool may = leak_shape(&rings, sc, r, epoch, group, &shape);

		for (unsigned choice = 1; choice < 1u << RINGS; choice++) {
			struct leak_ring *sum = leak_ring_new(sc, all[0]->newest * sc->epoch_ns, 0), *some[RINGS];
			struct leak_rings part = { .list = some, .newest = all[0]->newest };
			struct leak_verdict v;
			bool grows;

			ASSERT(sum);
			for (size_t i = 0; i < RINGS; i++) {
				if (!(choice & (1u << i)))
					continue;
				some[part.len++] = all[i];
				leak_ring_sum(sum, all[i], sc);
			}
			leak_judge_level(sum, sc, r, 10, epoch, group, &(struct leak_frees){ 0 }, &v);
			grows = leak_shape(&part, sc, r, epoch, group, &shape) &&
				leak_shape_grows(&shape, &part, sc, r, 10, epoch, group);
			EXPECT_EQ(grows, v.is_growing);
			EXPECT(may || !v.is_growing);
			n->grow += v.is_growing;
			free(sum);
		}
		n->may += may;
		n->all++;
	}
}

TEST(rings_are_judged_as_their_sum)
{
	struct rule r = { .kind = RULE_LEAK, .classes = CLASS_DEVICE_MASK, .epoch_ns = 1, .occupancy = 0.75,
			  .keep_ratio = 0.5, .min_growth_bytes = 10 };
	struct tally n = { 0 };

	for (int i = 0; i < 200 && !test_failures; i++) {
		struct leak_ring *all[RINGS];
		struct leak_scale sc;
		uint64_t from = below(2) ? 5 : 1000, until = from + 20 + below(150);

		r.epochs = (uint32_t[]){ 4, 8, 16, 30 }[below(4)];
		leak_scale_init(&sc, &r);
		for (size_t k = 0; k < RINGS; k++) {
			all[k] = leak_ring_new(&sc, from, below(3) * 100);
			ASSERT(all[k]);
			fill(all[k], &sc, from, until);
		}
		/* An event may have brought some further than the others. */
		for (size_t k = 1; k < RINGS; k++)
			leak_ring_advance(all[k], &sc, until + below(3));
		judge_some(all, &sc, &r, until - below(3), &n);
		for (size_t k = 0; k < RINGS; k++)
			free(all[k]);
	}
	printf("# %d of %d levels may grow, %d choices do\n", n.may, n.all, n.grow);
	EXPECT(n.may > n.all / 20 && n.may < n.all && n.grow > 1000);
}

TEST_MAIN()
