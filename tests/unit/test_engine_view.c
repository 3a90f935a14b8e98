/* SPDX-License-Identifier: MIT */
#include "engine_sim.h"

#include "rule/engine_view.h"
#include "rule/omit.h"

#define RULES "version = 1; rules = ({ name = \"quota\"; kind = \"live_bytes\"; fire_above = \"100MiB\"; for = \"0s\"; });"

static struct view *take(struct sim *s, const struct view_query *q, struct view_stacks *stacks)
{
	const struct engine_view_options o = { .query = q, .now_ns = s->now };
	struct view *v = view_new();

	if (!v || engine_view(s->e, &o, v, stacks) < 0)
		abort();
	return v;
}

static const struct view_process *find(const struct view *v, uint32_t pid)
{
	for (size_t i = 0; i < v->processes_len; i++)
		if (v->processes[i].pid == pid)
			return &v->processes[i];
	return NULL;
}

TEST(books_sites_and_incidents)
{
	static const uint32_t three = 3;
	const struct view_query all = { .sites_max = 2 }, one = { .pids = &three, .pids_len = 1 },
				of = { .site_pids = &three, .site_pids_len = 1, .sites_max = 9 };
	_cleanup_(view_stacks_done) struct view_stacks stacks = VIEW_STACKS_INIT, none = VIEW_STACKS_INIT, some = VIEW_STACKS_INIT;
	_cleanup_(view_freep) struct view *v = NULL, *w = NULL, *x = NULL;
	const struct view_process *p;
	struct block gone;
	struct sim s;

	sim_new(&s, RULES);
	sim_identify(&s, 3, "train", "train.service", "ada");
	sim_alloc(&s, 3, 10 * MIB, 1);
	sim_alloc(&s, 3, 70 * MIB, 2);
	sim_alloc(&s, 3, 30 * MIB, 3);
	gone = sim_alloc(&s, 3, MIB, 4);
	sim_free(&s, gone);
	sim_alloc(&s, 4, 5 * MIB, 1);
	sim_pass(&s, 2 * SEC);
	v = take(&s, &all, &stacks);
	EXPECT_EQ(v->processes_len, 2);
	EXPECT_EQ(v->totals.firing, 1);
	p = find(v, 3);
	ASSERT(p);
	EXPECT_STR(p->comm, "train");
	EXPECT_STR(p->unit, "train.service");
	EXPECT_EQ(p->live_bytes, 110 * MIB);
	EXPECT_EQ(p->peak_bytes, 111 * MIB);
	EXPECT_EQ(p->allocated_bytes, 111 * MIB);
	EXPECT_EQ(p->firing, 1);
	EXPECT_EQ(p->sites_count, 3);
	ASSERT(p->sites_len == 2);
	EXPECT_EQ(p->sites[0].bytes, 70 * MIB);
	EXPECT_EQ(p->sites[1].bytes, 30 * MIB);
	EXPECT_STR(p->sites[0].class_name, "device");
	EXPECT(p->sites[0].age_ns >= 2 * SEC);
	/* A stack for each site of each, at its place. */
	EXPECT_EQ(stacks.len, 3);
	for (size_t i = 0; i < stacks.len; i++)
		EXPECT(stacks.list[i].site < v->processes[stacks.list[i].process].sites_len);
	ASSERT(find(v, 4));
	EXPECT_EQ(find(v, 4)->firing, 0);
	EXPECT(!find(v, 4)->comm);
	ASSERT(v->incidents_len == 1);
	EXPECT_STR(v->incidents[0].rule, "quota");
	EXPECT_STR(v->incidents[0].state, "firing");
	EXPECT_STR(v->incidents[0].value_unit, "bytes");
	EXPECT_EQ(v->incidents[0].pid, 3);

	w = take(&s, &one, &none);
	EXPECT_EQ(w->processes_len, 1);
	EXPECT_EQ(w->processes[0].pid, 3);
	EXPECT_EQ(w->processes[0].firing, 1);
	EXPECT_EQ(w->processes[0].sites_len, 0);
	EXPECT_EQ(w->processes[0].sites_count, 3);
	EXPECT_EQ(none.len, 0);
	x = take(&s, &of, &some);
	EXPECT_EQ(find(x, 3)->sites_len, 3);
	EXPECT_EQ(find(x, 4)->sites_len, 0);
	sim_done(&s);
}

static uint64_t last_bytes;
static size_t ends;

static void on_ended(const struct process *p, void *userdata)
{
	last_bytes = p->live_bytes;
	ends++;
}

/* The books are whole when an end is told: of a process that exits, executes another program, or whose pid comes back. */
TEST(ends_are_told_with_the_last_books)
{
	const struct engine_ops ops = { .report = sim_report, .arm = sim_arm, .random_id = sim_random_id, .ended = on_ended };
	struct limits limits = LIMITS_DEFAULT;
	struct sim s = { .now = 1000 * SEC };
	struct event ev;

	ASSERT(engine_new(&limits, &ops, &s, &s.e) == 0);
	ends = 0;
	sim_alloc(&s, 7, 3 * MIB, 0);
	sim_alloc(&s, 7, 4 * MIB, 0);
	sim_simple(&s, EVENT_EXIT, 7);
	EXPECT_EQ(ends, 1);
	EXPECT_EQ(last_bytes, 7 * MIB);
	sim_alloc(&s, 8, 2 * MIB, 0);
	sim_simple(&s, EVENT_EXEC, 8);
	EXPECT_EQ(ends, 2);
	EXPECT_EQ(last_bytes, 2 * MIB);
	sim_alloc(&s, 9, MIB, 0);
	ev = sim_event(&s, EVENT_PROCESS, 9);
	ev.start_ns += SEC;
	EXPECT_EQ(sim_send(&s, &ev), 0);
	EXPECT_EQ(ends, 3);
	EXPECT_EQ(last_bytes, MIB);
	sim_clear(&s);
	engine_free(s.e);
}

/* A group is called by what omit leaves out: there is its incident, and no name. */
TEST(groups_that_are_called_by_what_is_omitted)
{
	static const char rules[] = "version = 1; rules = ("
				    "{ name = \"user\"; kind = \"live_bytes\"; scope = \"user\"; fire_above = \"1MiB\"; for = \"0s\"; },"
				    "{ name = \"unit\"; kind = \"live_bytes\"; scope = \"unit\"; fire_above = \"1MiB\"; for = \"0s\"; });";
	struct engine_ops ops = { .report = sim_report, .arm = sim_arm, .random_id = sim_random_id };
	struct limits limits = LIMITS_DEFAULT;
	const struct view_query q = {};

	for (int is_omitted = 0; is_omitted < 2; is_omitted++) {
		_cleanup_(view_stacks_done) struct view_stacks stacks = VIEW_STACKS_INIT;
		struct sim s = { .now = 1000 * SEC, .next_addr = 0x7f0000000000 };
		_cleanup_(view_freep) struct view *v = NULL;

		ops.omit = is_omitted ? OMIT_BIT(OMIT_USER) : 0;
		ASSERT(engine_new(&limits, &ops, &s, &s.e) == 0);
		sim_rules(&s, rules);
		sim_alloc(&s, 3, 0, 0);
		sim_identify(&s, 3, "train", "user@1000.service", "ada");
		sim_alloc(&s, 3, 10 * MIB, 1);
		sim_pass(&s, 2 * SEC);
		v = take(&s, &q, &stacks);
		ASSERT(v->incidents_len == 2);
		EXPECT(is_omitted ? !v->incidents[0].key : strcmp(v->incidents[0].key, "ada") == 0);
		EXPECT(is_omitted ? !v->incidents[1].key : strcmp(v->incidents[1].key, "user@1000.service") == 0);
		sim_done(&s);
	}
}

TEST_MAIN()
