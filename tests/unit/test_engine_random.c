/* SPDX-License-Identifier: MIT */
/* Random events against a ledger too simple to be wrong; and how long it all takes, printed for the reader. */
#include "engine_sim.h"
#include "model/saturate.h"

#define PIDS 12
#define BLOCKS 4096

static uint64_t seed;

static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static uint64_t below(uint64_t n)
{
	return rnd() % n;
}

static const char *const users[] = { "alice", "bob", "carol" };
static const char *const units[] = { "a.service", "b.service", NULL };

/* Every process is user pid % 3, unit pid % 3 of a different order, and sees GPU-a as 0 and GPU-b as 1 or the reverse. */
static const char *device_of(uint32_t pid, int ordinal)
{
	return ((pid + (uint32_t)ordinal) & 1) ? "GPU-a" : "GPU-b";
}

static const char random_rules[] =
	"version = 1; rules = ("
	"{ name = \"p\"; kind = \"live_bytes\"; fire_above = \"1GiB\"; resolve_below = \"900MiB\"; for = \"0s\"; },"
	"{ name = \"p2\"; kind = \"live_bytes\"; fire_above = \"500MiB\"; for = \"3s\"; keep_firing_for = \"2s\"; },"
	"{ name = \"d\"; kind = \"live_bytes\"; scope = \"device\"; fire_above = \"40%\"; for = \"0s\"; },"
	"{ name = \"da\"; kind = \"live_bytes\"; scope = \"device\"; fire_above = \"2GiB\"; for = \"0s\";"
	" match = { device = \"GPU-a\"; user = \"bob\"; }; },"
	"{ name = \"u\"; kind = \"live_bytes\"; scope = \"user\"; fire_above = \"3GiB\"; for = \"0s\"; },"
	"{ name = \"un\"; kind = \"live_bytes\"; scope = \"unit\"; fire_above = \"3GiB\"; for = \"1s\";"
	" match = { comm = \"^even\"; }; },"
	"{ name = \"h\"; kind = \"live_bytes\"; class = [ \"host\", \"managed\" ]; fire_above = \"300MiB\";"
	" for = \"0s\"; },"
	"{ name = \"one\"; kind = \"live_bytes\"; fire_above = \"10%\"; for = \"0s\";"
	" match = { device = \"GPU-b\"; }; },"
	"{ name = \"s\"; kind = \"single_alloc\"; fire_above = \"200MiB\"; match = { comm = \"^odd\"; }; },"
	"{ name = \"r\"; kind = \"alloc_rate\"; fire_above = \"5/s\"; window = \"5s\"; },"
	"{ name = \"ru\"; kind = \"alloc_rate\"; scope = \"user\"; fire_above = \"100MiB/s\"; window = \"5s\"; },"
	"{ name = \"f\"; kind = \"alloc_failure\"; count = 2; window = \"5s\"; },"
	"{ name = \"l\"; kind = \"leak\"; scope = \"process\"; epoch = \"1s\"; epochs = 8; },"
	"{ name = \"ls\"; kind = \"leak\"; scope = \"stack\"; epoch = \"2s\"; epochs = 6; },"
	"{ name = \"e\"; kind = \"exit\"; live_above = \"1MiB\"; } );";

static const char other_rules[] =
	"version = 1; rules = ("
	"{ name = \"l\"; kind = \"leak\"; scope = \"process\"; epoch = \"1s\"; epochs = 8; },"
	"{ name = \"p\"; kind = \"live_bytes\"; fire_above = \"700MiB\"; for = \"0s\"; },"
	"{ name = \"u\"; kind = \"live_bytes\"; scope = \"user\"; fire_above = \"3GiB\"; for = \"0s\"; } );";

#define ALL_CLASSES ((1u << CLASS_MAX) - 1)
#define FRAMEWORK (1u << CLASS_FRAMEWORK)

struct ledger {
	struct block block[BLOCKS];
	size_t len;
};

static uint64_t ledger_sum(const struct ledger *l, uint32_t pid, uint32_t classes, const char *device)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < l->len; i++) {
		const struct block *b = &l->block[i];

		if ((pid && b->pid != pid) || !(classes & (1u << b->class)))
			continue;
		if (!device || strcmp(device_of(b->pid, b->device), device) == 0)
			sum += b->bytes;
	}
	return sum;
}

static size_t open_incidents(const struct sim *s, const char *rule, uint32_t pid)
{
	size_t fired = 0, resolved = 0;

	for (size_t i = 0; i < s->len; i++) {
		const struct report *r = s->reports[i];

		if (strcmp(r->rule, rule) != 0 || (pid && (!r->id || r->id->pid != pid)))
			continue;
		fired += r->state == STATE_FIRING;
		resolved += r->state == STATE_RESOLVED;
	}
	return fired - resolved;
}

static void check(struct sim *s, const struct ledger *l, const bool *alive)
{
	struct engine_totals t;
	uint64_t all = 0;

	sim_tick(s); /* incidents resolve at ticks */
	for (uint32_t pid = 1; pid <= PIDS; pid++) {
		struct process *p = sim_process(s, pid);
		struct site *site;
		uint64_t sites = 0, framework = 0, blocks = 0;
		size_t iter = 0;

		EXPECT(!!p == alive[pid]);
		if (!p)
			continue;
		for (unsigned c = 0; c < CLASS_MAX; c++)
			EXPECT_EQ(p->live[c], ledger_sum(l, pid, 1u << c, NULL));
		EXPECT_EQ(p->live_bytes, ledger_sum(l, pid, CLASS_DEVICE_MASK, NULL));
		EXPECT(p->exact);
		while ((site = process_next_site(p, &iter))) {
			sites += site->bytes;
			framework += site->framework_bytes;
			blocks += site->blocks;
		}
		EXPECT_EQ(sites, ledger_sum(l, pid, ALL_CLASSES & ~((1u << CLASS_IMPORTED) | FRAMEWORK), NULL));
		EXPECT_EQ(framework, ledger_sum(l, pid, FRAMEWORK, NULL));
		EXPECT_EQ(blocks, p->live_count + p->framework_live_count);
		for (size_t i = 0; i < p->devices_len; i++) {
			const struct process_device *pd = &p->devices[i];

			EXPECT(pd->device && strcmp(pd->device->uuid, device_of(pid, pd->ordinal)) == 0);
			EXPECT_EQ(sat_sum(pd->live, CLASS_DEVICE_MASK),
				  ledger_sum(l, pid, CLASS_DEVICE_MASK, device_of(pid, pd->ordinal)));
		}
		all += p->live_bytes;
		/* The immediate rule is right at every moment, within its hysteresis. */
		if (p->live_bytes > GIB)
			EXPECT_EQ(open_incidents(s, "p", pid), 1);
		if (p->live_bytes < 700 * MIB * 95 / 100)
			EXPECT_EQ(open_incidents(s, "p", pid), 0);
	}
	engine_totals(s->e, &t);
	EXPECT_EQ(t.live_bytes, all);
	EXPECT(t.exact);
}

static void check_groups(struct sim *s, const struct ledger *l)
{
	_cleanup_strbuf_ struct strbuf json = STRBUF_INIT;
	char want[128];

	engine_status_json(s->e, &json, s->now);
	for (int i = 0; i < 2; i++) {
		const char *uuid = i ? "GPU-b" : "GPU-a";

		snprintf(want, sizeof(want), "\"uuid\":\"%s\",\"index\":%d,\"name\":null,\"total_bytes\":%llu,"
			 "\"used_bytes\":null,\"live_bytes\":%llu}", uuid, i, (unsigned long long)(20 * GIB),
			 (unsigned long long)ledger_sum(l, 0, CLASS_DEVICE_MASK, uuid));
		EXPECT(strstr(strbuf_str(&json), want));
	}
	for (uint32_t u = 0; u < 3; u++) {
		uint64_t sum = 0;
		size_t open = 0;

		for (uint32_t pid = 1; pid <= PIDS; pid++)
			sum += pid % 3 == u ? ledger_sum(l, pid, CLASS_DEVICE_MASK, NULL) : 0;
		for (size_t i = 0; i < s->len; i++) {
			const struct report *r = s->reports[i];

			if (strcmp(r->rule, "u") == 0 && r->scope_key && strcmp(r->scope_key, users[u]) == 0)
				open += r->state == STATE_FIRING ? 1 : r->state == STATE_RESOLVED ? -1u : 0;
		}
		if (sum > 3 * GIB)
			EXPECT_EQ((uint32_t)open, 1);
		if (sum < 3 * GIB * 95 / 100)
			EXPECT_EQ((uint32_t)open, 0);
	}
}

static void begin_process(struct sim *s, uint32_t pid)
{
	sim_simple(s, EVENT_PROCESS, pid);
	(void)engine_set_ordinal(s->e, pid, pid * SEC, 0, device_of(pid, 0));
	(void)engine_set_ordinal(s->e, pid, pid * SEC, 1, device_of(pid, 1));
	sim_identify(s, pid, pid & 1 ? "odd" : "even", units[(pid / 2) % 3], users[pid % 3]);
}

static void end_process(struct sim *s, struct ledger *l, uint32_t pid, uint8_t type)
{
	sim_simple(s, type, pid);
	for (size_t i = l->len; i-- > 0;) {
		if (l->block[i].pid == pid)
			l->block[i] = l->block[--l->len];
	}
}

static void rebuild(struct sim *s, const struct ledger *l, uint32_t pid)
{
	const struct process *p = sim_process(s, pid);
	struct books b = { .alloc_count = p->alloc_count, .free_count = p->free_count };

	(void)engine_lost(s->e, pid, pid * SEC, 5, s->now);
	EXPECT_EQ(engine_rebuild_begin(s->e, pid, pid * SEC), 0);
	for (size_t i = 0; i < l->len; i++) {
		const struct block *k = &l->block[i];
		struct event ev = sim_event(s, EVENT_ALLOC, pid);

		if (k->pid != pid)
			continue;
		ev.bytes = k->bytes;
		ev.stack = k->stack;
		ev.birth_ns = k->birth;
		ev.class = k->class;
		ev.device = k->device;
		EXPECT_EQ(engine_rebuild_add(s->e, &ev), 0);
	}
	EXPECT_EQ(engine_rebuild_end(s->e, pid, pid * SEC, &b, s->now, SIM_REAL + s->now / 1000), 0);
}

static void random_step(struct sim *s, struct ledger *l, bool *alive)
{
	uint32_t pid = 1 + (uint32_t)below(PIDS);
	uint64_t dice = below(1000);

	if (!alive[pid]) {
		begin_process(s, pid);
		alive[pid] = true;
	}
	if (dice < 480 && l->len < BLOCKS) {
		uint8_t class = below(4) ? CLASS_DEVICE : (uint8_t)below(CLASS_MAX);

		l->block[l->len++] = sim_alloc_on(s, pid, below(10) ? below(20 * MIB) : below(400 * MIB), below(40),
						  class, (int)below(2));
	} else if (dice < 940 && l->len > 0) {
		size_t i = below(l->len);

		sim_free(s, l->block[i]);
		l->block[i] = l->block[--l->len];
	} else if (dice < 955) {
		sim_fail(s, pid, GIB, below(40));
	} else if (dice < 960) {
		end_process(s, l, pid, below(2) ? EVENT_EXIT : EVENT_EXEC);
		alive[pid] = false;
	} else if (dice < 963) {
		rebuild(s, l, pid);
	} else if (dice < 966) {
		sim_rules(s, below(2) ? random_rules : other_rules);
	} else {
		sim_pass(s, below(900) * MSEC);
	}
	s->now += below(20) * MSEC;
}

static void random_run(uint64_t start, struct limits limits)
{
	static struct ledger l;
	bool alive[PIDS + 1] = { false };
	struct sim s;

	seed = start * 0x9e3779b97f4a7c15 + 1;
	l.len = 0;
	sim_new_limits(&s, random_rules, limits);
	(void)engine_set_device(s.e, "GPU-a", 0, NULL, 20 * GIB, ABSENT_U64);
	(void)engine_set_device(s.e, "GPU-b", 1, NULL, 20 * GIB, ABSENT_U64);
	for (int i = 0; i < 6000 && !test_failures; i++) {
		random_step(&s, &l, alive);
		if (i % 50 == 0) {
			check(&s, &l, alive);
			check_groups(&s, &l);
		}
	}
	for (uint32_t pid = 1; pid <= PIDS; pid++) {
		if (alive[pid])
			end_process(&s, &l, pid, EVENT_EXIT);
		alive[pid] = false;
	}
	check(&s, &l, alive);
	check_groups(&s, &l);
	/* All that was said to fire was said to end, single events apart. */
	for (const char *const *name = (const char *const[]){ "p", "p2", "d", "da", "u", "un", "h", "one", "r", "ru",
							      "l", "ls", NULL }; *name; name++)
		EXPECT_EQ(open_incidents(&s, *name, 0), 0);
	sim_done(&s);
}

TEST(random_events_agree_with_a_ledger)
{
	for (uint64_t i = 1; i <= 12 && !test_failures; i++)
		random_run(i, (struct limits)LIMITS_DEFAULT);
}

TEST(random_events_with_few_sites)
{
	struct limits l = LIMITS_DEFAULT;

	l.sites_per_process = 6;
	for (uint64_t i = 101; i <= 106 && !test_failures; i++)
		random_run(i, l);
}

/* Whatever is in an event, the engine neither crashes nor loses its sums. */
TEST(garbage)
{
	struct event ev;
	struct engine_totals t;
	struct limits l = LIMITS_DEFAULT;
	struct sim s;

	seed = 4711;
	l.processes = 20;
	l.incidents = 10;
	l.sites_per_process = 5;
	l.stacks_per_process = 16;
	sim_new_limits(&s, random_rules, l);
	for (int i = 0; i < 200000; i++) {
		uint64_t *word = (uint64_t *)(void *)&ev;

		for (size_t k = 0; k < sizeof(ev) / 8; k++)
			word[k] = below(3) ? rnd() : below(3);
		ev.type = (uint8_t)below(10);
		ev.class = (uint8_t)below(9);
		ev.pid = (uint32_t)below(40);
		ev.start_ns = below(3);
		ev.time_ns = below(2) ? s.now : rnd();
		(void)sim_send(&s, &ev);
		if (below(50) == 0)
			sim_identify(&s, ev.pid, "odd", "x.service", users[below(3)]);
		if (below(5) == 0) {
			struct stack *raw = sim_raw_stack(&s, ev.pid, below(3) ? below(20) : ev.stack);

			raw->start_ns = ev.start_ns;
			(void)engine_set_stack(s.e, ev.pid, ev.start_ns, raw);
			(void)sim_resolve(&s, raw, below(10), below(5));
		}
		if (below(20) == 0) {
			s.now += below(2) ? below(2 * SEC) : below(100);
			sim_tick(&s);
		}
		if (below(5000) == 0)
			sim_rules(&s, below(2) ? random_rules : other_rules);
	}
	engine_totals(s.e, &t);
	EXPECT(t.processes <= 20);
	EXPECT(t.overflow_processes > 0);
	sim_done(&s);
}

static uint64_t took(uint64_t since, uint64_t n)
{
	return (clock_monotonic_ns() - since) / n;
}

static void many_rules(struct strbuf *sb, int n)
{
	strbuf_adds(sb, "version = 1; rules = (");
	for (int i = 0; i < n; i++) {
		strbuf_adds(sb, i ? ", " : "");
		switch (i % 5) {
		case 0:
			strbuf_addf(sb, "{ name = \"r%d\"; kind = \"live_bytes\"; fire_above = \"%dGiB\";"
					" for = \"10s\"; }", i, 10 + i);
			break;
		case 1:
			strbuf_addf(sb, "{ name = \"r%d\"; kind = \"live_bytes\"; scope = \"user\";"
					" fire_above = \"%dTiB\";"
				    " match = { comm = \"^t%d\"; }; }", i, 10 + i, i % 3);
			break;
		case 2:
			strbuf_addf(sb, "{ name = \"r%d\"; kind = \"alloc_rate\"; fire_above = \"%d/s\";"
					" window = \"10s\"; }", i, 1000000 + i);
			break;
		case 3:
			strbuf_addf(sb, "{ name = \"r%d\"; kind = \"single_alloc\"; fire_above = \"%dGiB\";"
					" }", i, 10 + i);
			break;
		default:
			strbuf_addf(sb, "{ name = \"r%d\"; kind = \"leak\"; scope = \"process\"; epoch = \"%s\";"
					" }", i, i % 2 ? "10m" : "1m");
			break;
		}
	}
	strbuf_adds(sb, ");");
}

TEST(timing)
{
	_cleanup_strbuf_ struct strbuf rules = STRBUF_INIT, more = STRBUF_INIT;
	struct sim s;
	uint64_t since;

	many_rules(&rules, 20);
	sim_new(&s, strbuf_str(&rules));
	for (uint32_t pid = 1; pid <= 10; pid++) {
		sim_simple(&s, EVENT_PROCESS, pid);
		sim_identify(&s, pid, "t1", NULL, users[pid % 3]);
	}
	since = clock_monotonic_ns();
	for (uint64_t i = 0; i < 200000; i++) {
		struct block b = sim_alloc(&s, 1 + i % 10, MIB, i % 100);

		s.now += 1000;
		sim_free(&s, b);
	}
	printf("# %llu ns an event with 20 rules\n", (unsigned long long)took(since, 400000));
	sim_done(&s);

	many_rules(&more, 50);
	sim_new(&s, strbuf_str(&more));
	for (uint32_t pid = 1; pid <= 1000; pid++) {
		sim_simple(&s, EVENT_PROCESS, pid);
		sim_identify(&s, pid, "t1", NULL, users[pid % 3]);
		sim_alloc(&s, pid, MIB, 1);
	}
	sim_pass(&s, 20 * SEC);
	since = clock_monotonic_ns();
	for (int i = 0; i < 60; i++) {
		s.now += SEC;
		sim_tick(&s);
	}
	printf("# %llu us a tick for 1000 idle processes x 50 rules\n", (unsigned long long)(took(since, 60) / 1000));
	since = 0;
	for (int i = 0; i < 20; i++) {
		uint64_t start;

		for (uint32_t pid = 1; pid <= 1000; pid++)
			sim_alloc(&s, pid, MIB, 1);
		s.now += SEC;
		start = clock_monotonic_ns();
		sim_tick(&s);
		since += clock_monotonic_ns() - start;
	}
	printf("# %llu us a tick for 1000 busy processes x 50 rules\n", (unsigned long long)(since / 20 / 1000));
	EXPECT_EQ(s.len, 0);
	sim_done(&s);
}

TEST_MAIN()
