/* SPDX-License-Identifier: MIT */
/* What the kernel is told to wake the daemon for. */
#include "engine_sim.h"

#define RULES(text) "version = 1; rules = (" text ");"

TEST(bounds_are_those_of_the_next_verdict)
{
	struct block b;
	struct arm a;
	struct sim s;
	size_t n;

	sim_new(&s, RULES("{ name = \"q\"; kind = \"live_bytes\"; fire_above = \"100MiB\";"
			  " resolve_below = \"80MiB\"; for = \"0s\"; },"
			  "{ name = \"r\"; kind = \"live_bytes\"; fire_above = \"1GiB\";"
			  " resolve_below = \"900MiB\"; for = \"0s\"; },"
			  "{ name = \"host\"; kind = \"live_bytes\"; class = \"host\"; fire_above = \"1MiB\";"
			  " for = \"0s\"; },"
			  "{ name = \"huge\"; kind = \"single_alloc\"; fire_above = \"1GiB\"; }"));
	sim_simple(&s, EVENT_PROCESS, 1);
	EXPECT_EQ(s.arms_len, 1);
	a = sim_last_arm(&s);
	EXPECT(a.pid == 1 && a.high == 100 * MIB && a.low == 0 && a.single == GIB + 1);
	b = sim_alloc(&s, 1, 101 * MIB, 1);
	a = sim_last_arm(&s);
	EXPECT(a.high == GIB && a.low == 80 * MIB);
	n = s.arms_len;
	for (int i = 0; i < 100; i++)
		sim_alloc(&s, 1, MIB, 1);
	sim_pass(&s, 5 * SEC);
	EXPECT_EQ(s.arms_len, n);
	sim_free(&s, b);
	EXPECT_EQ(s.arms_len, n);
	for (int i = 0; i < 21; i++)
		sim_free(&s, (struct block){ 1, MIB, 1, s.now, CLASS_DEVICE, 0 });
	sim_pass(&s, SEC);
	a = sim_last_arm(&s);
	EXPECT(a.high == 100 * MIB && a.low == 0);
	/* Other classes are looked at without the kernel's help, and at once. */
	sim_alloc_on(&s, 1, 2 * MIB, 1, CLASS_HOST, 0);
	EXPECT_EQ(sim_count(&s, "host", STATE_FIRING), 1);
	/* No rules, no wake-ups. */
	sim_rules(&s, "version = 1; rules = ();");
	a = sim_last_arm(&s);
	EXPECT(a.high == UINT64_MAX && a.low == 0 && a.single == UINT64_MAX);
	sim_done(&s);
}

TEST(bounds_do_not_follow_a_flapping_total)
{
	struct sim s;
	size_t n;

	sim_new(&s, RULES("{ name = \"q\"; kind = \"live_bytes\"; fire_above = \"100MiB\";"
			  " resolve_below = \"99MiB\"; for = \"0s\"; }"));
	sim_alloc(&s, 1, 90 * MIB, 1);
	n = s.arms_len;
	for (int i = 0; i < 1000; i++)
		sim_free(&s, sim_alloc(&s, 1, 20 * MIB, 1));
	EXPECT(s.arms_len - n <= 20);
	EXPECT(sim_last_arm(&s).high == UINT64_MAX && sim_last_arm(&s).low == 0);
	sim_pass(&s, SEC);
	EXPECT(sim_last_arm(&s).high == 100 * MIB);
	sim_done(&s);
}

TEST(bounds_of_groups_share_the_headroom)
{
	struct sim s;
	struct arm a;
	uint64_t sum = 0;

	sim_new(&s, RULES("{ name = \"u\"; kind = \"live_bytes\"; scope = \"user\"; fire_above = \"1GiB\";"
			  " for = \"0s\"; }"));
	for (uint32_t pid = 1; pid <= 4; pid++) {
		sim_simple(&s, EVENT_PROCESS, pid);
		sim_identify(&s, pid, "x", NULL, "bob");
	}
	sim_alloc(&s, 1, 100 * MIB, 1);
	sim_pass(&s, SEC);
	/* However they grow up to their bounds, together they do not cross unseen. */
	for (uint32_t pid = 1; pid <= 4; pid++) {
		for (size_t i = s.arms_len; i-- > 0;) {
			if (s.arms[i].pid == pid) {
				sum += s.arms[i].high;
				break;
			}
		}
	}
	EXPECT(sum <= GIB);
	EXPECT(sum >= GIB / 2);
	/* Wakes on the way come ever closer and end with the report. */
	for (int i = 0; i < 100 && s.len == 0; i++) {
		uint64_t own = sim_process(&s, 1)->live_bytes;
		struct event ev;

		s.now += 100 * MSEC;
		ev = sim_event(&s, EVENT_ALLOC, 1);
		a = (struct arm){ 0, 0, 0, 0 };
		for (size_t k = s.arms_len; k-- > 0 && !a.pid;)
			a = s.arms[k].pid == 1 ? s.arms[k] : a;
		ASSERT(a.high > own);
		ev.bytes = a.high + 1 - own;
		ev.flags = EVENT_F_CROSSED;
		(void)sim_send(&s, &ev);
	}
	ASSERT(s.len == 1);
	EXPECT(s.reports[0]->value < GIB + 8 * MIB);
	sim_done(&s);
}

TEST_MAIN()
