/* SPDX-License-Identifier: MIT */
/* Incidents of one engine in another one, as after a restart. */
#include "engine_sim.h"
#include "rule/incident_pack.h"

#define RULES(text) "version = 1; rules = (" text ");"
#define QUOTA                                                                                                          \
	RULES("{ name = \"quota\"; kind = \"live_bytes\"; scope = \"process\"; fire_above = \"100MiB\";"                \
	      " resolve_below = \"80MiB\"; for = \"10s\"; keep_firing_for = \"5s\"; severity = \"critical\"; }")
#define UNIT                                                                                                           \
	RULES("{ name = \"unit\"; kind = \"live_bytes\"; scope = \"unit\"; fire_above = \"100MiB\"; for = \"0s\"; }")
#define OTHER                                                                                                          \
	RULES("{ name = \"quota\"; kind = \"live_bytes\"; scope = \"process\"; fire_above = \"200MiB\"; }")

#define KEPT_MAX 16
#define WAIT (30 * SEC)

struct kept {
	struct incident_saved list[KEPT_MAX];
	size_t len;
};

static void save(const struct incident_saved *s, void *userdata)
{
	struct kept *k = userdata;

	if (k->len == KEPT_MAX)
		abort();
	k->list[k->len] = *s;
	k->list[k->len].rule = strdup(s->rule);
	k->list[k->len].key = s->key ? strdup(s->key) : NULL;
	k->list[k->len++].identity = s->identity ? identity_ref(s->identity) : NULL;
}

static void kept_done(struct kept *k)
{
	for (size_t i = 0; i < k->len; i++) {
		free((char *)k->list[i].rule);
		free((char *)k->list[i].key);
		identity_unref(k->list[i].identity);
	}
}

/* Process 3 has been over the quota for a while; the time is that of the second engine then. */
static void first_life(struct kept *k, const char *rules, uint64_t *ret_now)
{
	struct sim s;

	*k = (struct kept){};
	sim_new(&s, rules);
	sim_identify(&s, 3, "train", "a.service", "u");
	sim_alloc(&s, 3, 150 * MIB, 0);
	engine_save_incidents(s.e, save, k);
	EXPECT_EQ(k->len, strstr(rules, "10s") ? 0 : 1); /* what is only pending has not been said */
	if (k->len)
		kept_done(k);
	k->len = 0;
	sim_pass(&s, 20 * SEC);
	EXPECT_EQ(sim_count(&s, NULL, STATE_FIRING), 1);
	engine_save_incidents(s.e, save, k);
	ASSERT(k->len == 1);
	EXPECT_EQ(k->list[0].seq, 1);
	EXPECT_EQ(k->list[0].peak_value, 150 * MIB);
	EXPECT(memcmp(k->list[0].id, s.reports[0]->incident, 16) == 0);
	*ret_now = s.now;
	sim_done(&s);
}

static void second_life(struct sim *s, const struct kept *k, const char *rules, uint64_t now, uint64_t wait)
{
	sim_new(s, NULL);
	s->now = now + SEC;
	s->ids = 1000;
	sim_rules(s, rules);
	for (size_t i = 0; i < k->len; i++)
		EXPECT_EQ(engine_restore_incident(s->e, &k->list[i], s->now, wait), 0);
}

TEST(goes_on_as_a_repeat_under_its_id)
{
	struct report *r;
	struct kept k;
	uint64_t now;
	struct sim s;

	first_life(&k, QUOTA, &now);
	second_life(&s, &k, QUOTA, now, WAIT);
	EXPECT_EQ(s.len, 0);
	sim_identify(&s, 3, "train", "a.service", "u");
	sim_pass(&s, 2 * SEC);
	EXPECT_EQ(s.len, 0); /* known, and with nothing so far */
	struct block b = sim_alloc(&s, 3, 150 * MIB, 0);
	ASSERT(s.len == 1); /* at once: it has been true for long enough */
	r = s.reports[0];
	EXPECT_EQ(r->state, STATE_REPEAT);
	EXPECT_EQ(r->seq, 2);
	EXPECT(memcmp(r->incident, k.list[0].id, 16) == 0);
	sim_pass(&s, 100 * SEC);
	EXPECT_EQ(s.len, 1);
	sim_free(&s, b);
	sim_pass(&s, 10 * SEC);
	ASSERT(s.len == 2);
	r = s.reports[1];
	EXPECT_EQ(r->state, STATE_RESOLVED);
	EXPECT_EQ(r->seq, 3);
	EXPECT(memcmp(r->incident, k.list[0].id, 16) == 0);
	EXPECT(r->duration_ns > 100 * SEC);
	EXPECT_EQ(s.ids, 1000); /* no new id was made */
	sim_done(&s);
	kept_done(&k);
}

TEST(between_the_limits_it_goes_on)
{
	struct kept k;
	uint64_t now;
	struct sim s;

	first_life(&k, QUOTA, &now);
	second_life(&s, &k, QUOTA, now, WAIT);
	sim_alloc(&s, 3, 90 * MIB, 0);
	sim_tick(&s);
	ASSERT(s.len == 1);
	EXPECT_EQ(s.reports[0]->state, STATE_REPEAT);
	EXPECT_EQ(s.reports[0]->value, 90 * MIB);
	sim_done(&s);
	kept_done(&k);
}

TEST(not_found_again_it_is_resolved_after_the_wait)
{
	struct report *r;
	struct kept k;
	uint64_t now;
	struct sim s;

	first_life(&k, QUOTA, &now);
	second_life(&s, &k, QUOTA, now, WAIT);
	sim_alloc(&s, 3, 10 * MIB, 0);
	sim_pass(&s, WAIT - 2 * SEC);
	EXPECT_EQ(s.len, 0);
	sim_pass(&s, 4 * SEC);
	ASSERT(s.len == 1);
	r = s.reports[0];
	EXPECT_EQ(r->state, STATE_RESOLVED);
	EXPECT_EQ(r->seq, 2);
	EXPECT_EQ(r->value, 10 * MIB);
	EXPECT_EQ(r->live_bytes, 10 * MIB);
	EXPECT_EQ(r->peak_bytes, 150 * MIB);
	EXPECT(!r->process_ended);
	EXPECT_STR(r->id->comm, "train");
	EXPECT(memcmp(r->incident, k.list[0].id, 16) == 0);
	/* It is over: above the limit again, it is another one. */
	sim_alloc(&s, 3, 150 * MIB, 0);
	sim_pass(&s, 20 * SEC);
	ASSERT(s.len == 2);
	EXPECT_EQ(s.reports[1]->state, STATE_FIRING);
	EXPECT(memcmp(s.reports[1]->incident, k.list[0].id, 16) != 0);
	sim_done(&s);
	kept_done(&k);
}

TEST(a_process_that_is_gone_ends_it)
{
	struct kept k;
	uint64_t now;
	struct sim s;

	first_life(&k, QUOTA, &now);
	/* Its end is told. */
	second_life(&s, &k, QUOTA, now, WAIT);
	sim_simple(&s, EVENT_EXIT, 3);
	ASSERT(s.len == 1);
	EXPECT_EQ(s.reports[0]->state, STATE_RESOLVED);
	EXPECT(s.reports[0]->process_ended);
	EXPECT_STR(s.reports[0]->id->comm, "train");
	EXPECT_EQ(s.reports[0]->value, 150 * MIB);
	sim_pass(&s, 2 * WAIT);
	EXPECT_EQ(s.len, 1);
	sim_done(&s);
	/* Its end is known already. */
	second_life(&s, &k, QUOTA, now, 0);
	sim_tick(&s);
	ASSERT(s.len == 1);
	EXPECT(s.reports[0]->process_ended);
	sim_done(&s);
	/* Another one of that pid is not it. */
	second_life(&s, &k, QUOTA, now, WAIT);
	struct event ev = sim_event(&s, EVENT_ALLOC, 3);
	ev.start_ns = 77 * SEC;
	ev.bytes = 150 * MIB;
	(void)sim_send(&s, &ev);
	sim_pass(&s, 12 * SEC);
	ASSERT(s.len == 1);
	EXPECT_EQ(s.reports[0]->state, STATE_FIRING);
	sim_done(&s);
	kept_done(&k);
}

TEST(a_rule_that_is_gone_or_means_something_else_ends_it)
{
	const char *const rules[] = { OTHER, "version = 1; rules = ();" };
	struct kept k;
	uint64_t now;
	struct sim s;

	first_life(&k, QUOTA, &now);
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		second_life(&s, &k, rules[i], now, WAIT);
		sim_alloc(&s, 3, 150 * MIB, 0);
		sim_tick(&s);
		ASSERT(s.len == 1);
		EXPECT_EQ(s.reports[0]->state, STATE_RESOLVED);
		EXPECT_EQ(s.reports[0]->event, REPORT_LIVE_BYTES);
		EXPECT_EQ(s.reports[0]->severity, SEVERITY_CRITICAL);
		EXPECT_STR(s.reports[0]->rule, "quota");
		sim_done(&s);
	}
	kept_done(&k);
}

TEST(groups_go_by_their_key)
{
	struct kept k;
	uint64_t now;
	struct sim s;

	first_life(&k, UNIT, &now);
	EXPECT_EQ(k.list[0].pid, 0);
	EXPECT_STR(k.list[0].key, "a.service");
	second_life(&s, &k, UNIT, now, WAIT);
	/* Another unit is another incident. */
	sim_identify(&s, 4, "x", "b.service", "u");
	sim_alloc(&s, 4, 150 * MIB, 0);
	ASSERT(s.len == 1);
	EXPECT_EQ(s.reports[0]->state, STATE_FIRING);
	sim_identify(&s, 5, "x", "a.service", "u");
	sim_alloc(&s, 5, 150 * MIB, 0);
	ASSERT(s.len == 2);
	EXPECT_EQ(s.reports[1]->state, STATE_REPEAT);
	EXPECT(memcmp(s.reports[1]->incident, k.list[0].id, 16) == 0);
	sim_done(&s);
	/* Never seen again. */
	second_life(&s, &k, UNIT, now, WAIT);
	sim_pass(&s, WAIT + 2 * SEC);
	ASSERT(s.len == 1);
	EXPECT_EQ(s.reports[0]->state, STATE_RESOLVED);
	EXPECT_STR(s.reports[0]->scope_key, "a.service");
	EXPECT(!s.reports[0]->id);
	sim_done(&s);
	kept_done(&k);
}

TEST(it_outlives_two_restarts)
{
	struct kept k, again = {};
	uint64_t now;
	struct sim s;

	first_life(&k, QUOTA, &now);
	second_life(&s, &k, QUOTA, now, WAIT);
	engine_save_incidents(s.e, save, &again);
	ASSERT(again.len == 1);
	EXPECT_EQ(again.list[0].seq, 1);
	kept_done(&again);
	again.len = 0;
	sim_alloc(&s, 3, 150 * MIB, 0);
	engine_save_incidents(s.e, save, &again);
	ASSERT(again.len == 1);
	EXPECT_EQ(again.list[0].seq, 2);
	EXPECT(memcmp(again.list[0].id, k.list[0].id, 16) == 0);
	EXPECT_EQ(again.list[0].fired_ns, k.list[0].fired_ns);
	sim_done(&s);
	kept_done(&k);
	kept_done(&again);
}

TEST(bytes_and_back)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct incident_saved back;
	struct unpack u;
	struct kept k;
	uint64_t now;

	first_life(&k, QUOTA, &now);
	k.list[0].identity->tag = strdup("team-a");
	k.list[0].identity->pod_name = strdup("trainer-0");
	k.list[0].identity->container_name = strdup("main");
	incident_pack(&sb, &k.list[0]);
	for (size_t len = 0; len <= sb.len; len++) {
		char *part = malloc(len + 1);

		memcpy(part, sb.buf, len);
		u = (struct unpack){ .at = part, .left = len };
		EXPECT_EQ(incident_unpack(&u, &back), len == sb.len ? 0 : -EINVAL);
		free(part);
		if (len == sb.len)
			break;
		incident_saved_done(&back);
	}
	EXPECT_STR(back.rule, "quota");
	EXPECT(!back.key);
	EXPECT_EQ(back.meaning, k.list[0].meaning);
	EXPECT_EQ(back.pid, 3);
	EXPECT_EQ(back.start_ns, 3 * SEC);
	EXPECT_EQ(back.seq, 1);
	EXPECT_EQ(back.fired_ns, k.list[0].fired_ns);
	EXPECT_EQ(back.peak_value, 150 * MIB);
	EXPECT_EQ(back.severity, SEVERITY_CRITICAL);
	EXPECT_EQ(back.value, 150 * MIB);
	EXPECT_EQ(back.limit, 100 * MIB);
	EXPECT(memcmp(back.id, k.list[0].id, 16) == 0);
	ASSERT(back.identity);
	EXPECT_STR(back.identity->comm, "train");
	EXPECT_STR(back.identity->unit, "a.service");
	EXPECT_STR(back.identity->tag, "team-a");
	EXPECT_STR(back.identity->pod_name, "trainer-0");
	EXPECT_STR(back.identity->container_name, "main");
	EXPECT(!back.identity->pod_namespace);
	EXPECT_EQ(back.identity->uid, 1000);
	EXPECT_EQ(back.identity->start_ticks, 300);
	EXPECT(!back.identity->exe);
	incident_saved_done(&back);
	kept_done(&k);
}

#define RAISED                                                                                                         \
	RULES("{ name = \"quota\"; kind = \"live_bytes\"; scope = \"process\"; fire_above = \"100MiB\";"                \
	      " resolve_below = \"80MiB\"; for = \"10s\"; keep_firing_for = \"5s\"; repeat = \"60s\"; severity = \"notice\";" \
	      " escalate = { severity = \"error\"; above = \"140MiB\"; }; }")

/* What it was raised to, it stays. */
TEST(severity_outlives_a_restart)
{
	struct kept k;
	uint64_t now;
	struct sim s;

	first_life(&k, RAISED, &now);
	EXPECT_EQ(k.list[0].severity, SEVERITY_ERROR);
	second_life(&s, &k, RAISED, now, WAIT);
	sim_alloc(&s, 3, 110 * MIB, 0); /* below what raised it */
	ASSERT(s.len == 1);
	EXPECT_EQ(s.reports[0]->state, STATE_REPEAT);
	EXPECT_EQ(s.reports[0]->severity, SEVERITY_ERROR);
	sim_alloc(&s, 3, 50 * MIB, 0);
	sim_pass(&s, 10 * SEC);
	EXPECT_EQ(s.len, 1); /* it is said once */
	sim_done(&s);
	/* Its end is as loud when it was not seen again. */
	second_life(&s, &k, RAISED, now, WAIT);
	sim_simple(&s, EVENT_EXIT, 3);
	ASSERT(s.len == 1);
	EXPECT_EQ(s.reports[0]->severity, SEVERITY_ERROR);
	sim_done(&s);
	/* Said as quiet, found as bad. */
	k.list[0].severity = SEVERITY_NOTICE;
	second_life(&s, &k, RAISED, now, WAIT);
	sim_alloc(&s, 3, 150 * MIB, 0);
	sim_pass(&s, 10 * SEC);
	ASSERT(s.len == 1);
	EXPECT_EQ(s.reports[0]->state, STATE_REPEAT);
	EXPECT_EQ(s.reports[0]->severity, SEVERITY_ERROR);
	sim_done(&s);
	kept_done(&k);
}

/* Whoever was told that it fires has not been told that it is over. */
TEST(what_waits_silences_still)
{
	static const char rules[] =
		RULES("{ name = \"quota\"; kind = \"live_bytes\"; scope = \"process\"; fire_above = \"100MiB\";"
		      " resolve_below = \"80MiB\"; for = \"10s\"; keep_firing_for = \"5s\"; severity = \"critical\";"
		      " inhibits = [ \"oom\" ]; tags = [ \"a\", \"b\" ]; }, { name = \"oom\"; kind = \"alloc_failure\"; }");
	struct kept k;
	uint64_t now;
	struct sim s;

	first_life(&k, rules, &now);
	second_life(&s, &k, rules, now, WAIT);
	sim_alloc(&s, 3, 10 * MIB, 0);
	sim_fail(&s, 3, 1, 0);
	EXPECT_EQ(s.len, 0);
	sim_fail(&s, 4, 1, 0);
	EXPECT_EQ(sim_count(&s, "oom", STATE_FIRING), 1);
	sim_pass(&s, WAIT + 5 * SEC);
	ASSERT(sim_count(&s, "quota", STATE_RESOLVED) == 1);
	EXPECT_STR(sim_get(&s, "quota", 0)->tags, "a,b");
	sim_fail(&s, 3, 1, 0);
	EXPECT_EQ(sim_count(&s, "oom", STATE_FIRING), 2);
	sim_done(&s);
	kept_done(&k);
}

TEST(groups_that_wait_silence_their_members)
{
	static const char rules[] =
		RULES("{ name = \"unit\"; kind = \"live_bytes\"; scope = \"unit\"; fire_above = \"100MiB\"; for = \"0s\";"
		      " inhibits = [ \"oom\" ]; }, { name = \"oom\"; kind = \"alloc_failure\"; }");
	struct kept k;
	uint64_t now;
	struct sim s;

	first_life(&k, rules, &now);
	second_life(&s, &k, rules, now, WAIT);
	sim_identify(&s, 4, "x", "a.service", "u");
	sim_identify(&s, 5, "x", "b.service", "u");
	sim_fail(&s, 4, 1, 0);
	EXPECT_EQ(s.len, 0);
	sim_fail(&s, 5, 1, 0);
	EXPECT_EQ(s.len, 1);
	sim_done(&s);
	kept_done(&k);
}

TEST(nonsense_is_refused)
{
	struct incident_saved good, bad;
	struct kept k;
	uint64_t now;
	struct sim s;

	first_life(&k, QUOTA, &now);
	second_life(&s, &(struct kept){}, QUOTA, now, WAIT);
	good = k.list[0];
	bad = good;
	bad.rule = NULL;
	EXPECT_EQ(engine_restore_incident(s.e, &bad, s.now, WAIT), -EINVAL);
	bad = good;
	bad.kind = RULE_KIND_MAX;
	EXPECT_EQ(engine_restore_incident(s.e, &bad, s.now, WAIT), -EINVAL);
	bad = good;
	bad.scope = SCOPE_MAX;
	EXPECT_EQ(engine_restore_incident(s.e, &bad, s.now, WAIT), -EINVAL);
	bad = good;
	bad.severity = 99;
	EXPECT_EQ(engine_restore_incident(s.e, &bad, s.now, WAIT), -EINVAL);
	bad = good;
	bad.pid = 0;
	EXPECT_EQ(engine_restore_incident(s.e, &bad, s.now, WAIT), -EINVAL);
	EXPECT_EQ(engine_restore_incident(s.e, &good, s.now, WAIT), 0);
	sim_done(&s); /* with one that waits */
	kept_done(&k);
}

/* Whose child it was is known from before the restart alone. */
TEST(identity_from_before)
{
	_cleanup_(identity_unrefp) struct identity *before = identity_new();
	struct incident_saved v = { .rule = "o", .pid = 3, .start_ns = 3 * SEC, .kind = RULE_ORPHAN, .scope = SCOPE_PROCESS,
				    .seq = 1, .identity = before };
	struct sim s;

	ASSERT(before);
	before->pid = 3;
	before->ppid = 77;
	sim_new(&s, NULL);
	sim_identify(&s, 3, "train", "a.service", "u");
	EXPECT(engine_process(s.e, 3, 3 * SEC)->id != before);
	ASSERT(engine_restore_incident(s.e, &v, s.now, WAIT) == 0);
	EXPECT(engine_process(s.e, 3, 3 * SEC)->id == before);
	sim_done(&s);
}

/* A rule with a match spoke of some of a unit: the others of it are not silenced by what has yet to be found again. */
TEST(silence_goes_on_for_its_members_only)
{
	static const char rules[] =
		RULES("{ name = \"p\"; kind = \"live_bytes\"; fire_above = \"100MiB\"; },"
		      "{ name = \"all\"; kind = \"live_bytes\"; scope = \"unit\"; fire_above = \"100GiB\"; },"
		      "{ name = \"some\"; kind = \"live_bytes\"; scope = \"unit\"; fire_above = \"200MiB\";"
		      " match = { comm = \"^train$\"; }; inhibits = \"p\"; keep_firing_for = \"1h\"; }");
	struct kept k = {};
	struct sim s;
	uint64_t now;

	sim_new(&s, rules);
	sim_identify(&s, 3, "train", "a.service", "u");
	sim_alloc(&s, 3, 250 * MIB, 1);
	ASSERT(sim_count(&s, "some", STATE_FIRING) == 1);
	engine_save_incidents(s.e, save, &k);
	ASSERT(k.len == 1);
	now = s.now;
	sim_done(&s);

	second_life(&s, &k, rules, now, WAIT);
	sim_identify(&s, 4, "other", "a.service", "u");
	sim_identify(&s, 5, "train", "a.service", "u");
	sim_alloc(&s, 5, 150 * MIB, 1);
	EXPECT_EQ(sim_count(&s, "p", STATE_FIRING), 0);
	sim_alloc(&s, 4, 150 * MIB, 1);
	ASSERT(sim_count(&s, "p", STATE_FIRING) == 1);
	EXPECT_EQ(sim_get(&s, "p", 0)->id->pid, 4);
	sim_done(&s);
	kept_done(&k);
}

/* How much it had grown by is not kept: only after a whole window is it known that it grows no more. */
TEST(growth_waits_for_its_window)
{
	static const char rules[] = RULES("{ name = \"g\"; kind = \"untracked_growth\"; fire_above = \"1GiB\";"
					  " window = \"5m\"; min_runtime = \"0s\"; keep_firing_for = \"5s\"; }");
	struct kept k = {};
	struct sim s;
	uint64_t now;

	sim_new(&s, rules);
	sim_alloc(&s, 3, MIB, 1);
	for (int i = 0; i < 12; i++) {
		engine_driver_begin(s.e);
		(void)engine_driver(s.e, 3, 3 * SEC, NULL, i < 6 ? GIB : 3 * GIB, false);
		engine_driver_end(s.e, true, s.now, SIM_REAL);
		sim_pass(&s, 10 * SEC);
	}
	engine_save_incidents(s.e, save, &k);
	ASSERT(k.len == 1);
	now = s.now;
	sim_done(&s);

	second_life(&s, &k, rules, now, WAIT);
	sim_alloc(&s, 3, MIB, 1);
	for (int i = 0; i < 28; i++) {
		engine_driver_begin(s.e);
		(void)engine_driver(s.e, 3, 3 * SEC, NULL, 3 * GIB, false);
		engine_driver_end(s.e, true, s.now, SIM_REAL);
		sim_pass(&s, 10 * SEC);
	}
	EXPECT_EQ(s.len, 0);
	sim_pass(&s, 40 * SEC);
	EXPECT_EQ(sim_count(&s, "g", STATE_RESOLVED), 1);
	sim_done(&s);
	kept_done(&k);
}

TEST_MAIN()
