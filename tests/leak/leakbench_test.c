// SPDX-License-Identifier: MIT
/* The bench against itself: are the generated programs possible, and are the numbers counted as they are meant? */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map64.h"
#include "leakbench.h"

#define LEAK_BYTES_MIN (32 * GEN_MIB)

static unsigned test_count, test_failed;

static void ok(bool is_good, const char *name)
{
	printf("%sok %u - %s\n", is_good ? "" : "not ", ++test_count, name);
	test_failed += !is_good;
}

/* --- generators --- */

struct ledger {
	uint64_t live, peak, driver_last;
	bool has_driver;
};

static bool complain(const struct family *f, uint64_t seed, const char *what)
{
	printf("# %s %" PRIu64 ": %s\n", f->name, seed, what);
	return false;
}

static uint64_t trace_hash(const struct gen *g)
{
	uint64_t h = hash64(g->end_ns) ^ hash64(g->device_bytes + g->foreign_bytes);

	for (size_t i = 0; i < g->len; i++) {
		const struct trace_item *t = &g->items[i];

		h = hash64(h ^ t->time_ns) ^ hash64(t->addr ^ t->bytes);
		h = hash64(h ^ t->stack ^ (uint64_t)t->type << 32);
	}
	for (size_t i = 0; i < g->losses_len; i++)
		h = hash64(h ^ g->losses[i].time_ns) ^ g->losses[i].bytes;
	return h;
}

/* One item after the other: frees end what is live, nothing overlaps, no time goes back. */
static const char *walk(const struct gen *g, struct ledger *b)
{
	_cleanup_(map64_done) struct map64 live = MAP64_INIT;
	uint64_t time_ns = 0;

	for (size_t i = 0; i < g->len; i++) {
		const struct trace_item *t = &g->items[i];

		if (t->time_ns < time_ns)
			return "time goes back";
		time_ns = t->time_ns;
		if (time_ns >= g->end_ns)
			return "something after the end";
		if (t->type == TRACE_ALLOC) {
			if (t->bytes == 0 || t->stack == 0)
				return "a block without bytes, or without a stack";
			if (map64_get(&live, t->addr))
				return "two blocks at one address";
			if (map64_put(&live, t->addr, (void *)(uintptr_t)t->bytes) < 0)
				return "out of memory";
			b->live += t->bytes;
		} else if (t->type == TRACE_FREE) {
			uint64_t bytes = (uintptr_t)map64_remove(&live, t->addr);

			if (bytes == 0)
				return "freed what is not live";
			b->live -= bytes;
		} else if (t->type == TRACE_DRIVER) {
			b->driver_last = t->bytes;
			b->has_driver = true;
		}
		if (b->live > b->peak)
			b->peak = b->live;
	}
	return NULL;
}

static int compare_addr(const void *a, const void *b)
{
	const struct trace_item *const *x = a, *const *y = b;

	return (*x)->addr < (*y)->addr ? -1 : (*x)->addr > (*y)->addr;
}

/* Addresses are never used again, so blocks may be compared whatever their lives. */
static bool has_overlap(const struct gen *g)
{
	const struct trace_item **list = calloc(g->len + 1, sizeof(*list));
	size_t n = 0;
	bool is_bad = !list;

	for (size_t i = 0; list && i < g->len; i++) {
		if (g->items[i].type == TRACE_ALLOC)
			list[n++] = &g->items[i];
	}
	if (n > 0)
		qsort(list, n, sizeof(*list), compare_addr);
	for (size_t i = 1; i < n; i++)
		is_bad = is_bad || list[i - 1]->addr + list[i - 1]->bytes > list[i]->addr;
	free(list);
	return is_bad;
}

static const char *check_leak(const struct gen *g, const struct ledger *b)
{
	uint64_t lost = 0, before = 0;

	for (size_t i = 0; i < g->losses_len; i++) {
		if (g->losses[i].time_ns < before)
			return "losses are not in order";
		before = g->losses[i].time_ns;
		lost += g->losses[i].bytes;
	}
	if (g->losses_len == 0 || g->leak_start_ns != g->losses[0].time_ns)
		return "the leak does not start with its first loss";
	if (before >= g->end_ns)
		return "a loss after the end";
	if (lost < LEAK_BYTES_MIN)
		return "too little is lost to be called a leak";
	if (b->has_driver ? lost > b->driver_last + 1 : lost > b->live)
		return "more is lost than there is at the end";
	return NULL;
}

static const char *check_trace(const struct family *f, const struct gen *g)
{
	struct ledger b = { 0 };
	const char *why = walk(g, &b);

	if (why)
		return why;
	if (g->len == 0 || g->len > GEN_EVENTS_MAX * 5 / 4)
		return "no event, or too many";
	if (g->device_bytes == 0 || g->foreign_bytes >= g->device_bytes || g->end_ns == 0)
		return "no device, or no end";
	if (b.peak > g->device_bytes - g->foreign_bytes)
		return "holds more than the device has";
	if (has_overlap(g))
		return "blocks overlap";
	if (g->is_leak != f->is_leak)
		return "it says that it leaks and does not, or the other way round";
	if (!g->is_leak && g->is_full)
		return "a program that does not leak fills the device";
	return g->is_leak ? check_leak(g, &b) : NULL;
}

static void make(struct gen *g, const struct family *f, uint64_t seed)
{
	gen_init(g, f, seed);
	f->make(g);
	gen_finish(g);
}

static bool check_family(const struct family *f, uint64_t first, uint64_t last, uint64_t *ret_hash)
{
	uint64_t before = 0;
	bool is_good = true;

	for (uint64_t seed = first; seed <= last; seed++) {
		struct gen g, again;
		const char *why;

		make(&g, f, seed);
		make(&again, f, seed);
		why = check_trace(f, &g);
		if (why)
			is_good = complain(f, seed, why);
		if (trace_hash(&g) != trace_hash(&again))
			is_good = complain(f, seed, "two runs differ");
		if (trace_hash(&g) == before)
			is_good = complain(f, seed, "the same as the seed before");
		before = trace_hash(&g);
		*ret_hash = hash64(*ret_hash) ^ before;
		gen_done(&g);
		gen_done(&again);
	}
	return is_good;
}

static void check_families(const struct family *families, uint64_t first, uint64_t last)
{
	for (const struct family *f = families; f->name; f++) {
		const struct family *other = families;
		char name[128];
		uint64_t hash = 0;
		bool is_good;

		while (strcmp(other->name, f->name) != 0)
			other++;
		is_good = check_family(f, first, last, &hash);
		/* To be compared: another compiler must make the same traces. */
		snprintf(name, sizeof(name), "%s %016" PRIx64, f->name, hash);
		ok(is_good && other == f && f->what, name);
	}
}

static void check_numbers(void)
{
	const struct family f = { .name = "numbers" };
	double sum = 0, square = 0, wait = 0;
	struct gen g;
	bool is_in = true;
	enum { N = 20000 };

	gen_init(&g, &f, 1);
	for (size_t i = 0; i < N; i++) {
		double n = gen_normal(&g), u = gen_log_range(&g, 2, 8);

		sum += n;
		square += n * n;
		wait += gen_exponential(&g, 3);
		is_in = is_in && u >= 2 && u <= 8 && gen_pick(&g, 7) < 7;
	}
	ok(is_in && fabs(sum / N) < 0.03 && fabs(square / N - 1) < 0.05 && fabs(wait / N - 3) < 0.1,
	   "random numbers have the mean and spread they should");
	gen_done(&g);
}

static void check_cut(void)
{
	const struct family f = { .name = "cut" };
	struct gen g;

	gen_init(&g, &f, 1);
	g.end_ns = 100 * GEN_SEC;
	g.device_bytes = 10 * GEN_GIB;
	g.foreign_bytes = GEN_GIB;
	for (uint64_t i = 0; i < 20; i++)
		gen_lose(&g, (20 - i) * GEN_SEC, GEN_GIB, 1);
	gen_finish(&g);
	ok(g.is_full && g.len == 10 && g.items[9].type == TRACE_FAIL && g.end_ns == 10 * GEN_SEC + 1 &&
		   g.losses_len == 9 && g.leak_start_ns == GEN_SEC,
	   "a program dies where the device is full");
	gen_done(&g);
}

bool bench_self_test(uint64_t first_seed, uint64_t last_seed)
{
	check_numbers();
	check_cut();
	check_families(families_tuning, first_seed, last_seed);
	check_families(families_held_out, HELD_OUT_SEEDS + first_seed, HELD_OUT_SEEDS + last_seed);
	printf("1..%u\n%u passed, %u failed\n", test_count, test_count - test_failed, test_failed);
	return test_failed == 0;
}

/* --- metrics --- */

#define ID(n) { n }

static struct outcome judged(const struct truth *t, const struct said *said, size_t len)
{
	struct outcome o = { .set = "s", .family = "f" };

	o.error = outcome_judge(&o, t, said, len);
	return o;
}

static void check_judge(void)
{
	static const struct gen_loss losses[] = { { 10 * GEN_SEC, 100, 1 }, { 20 * GEN_SEC, 100, 1 },
						   { 30 * GEN_SEC, 100, 1 } };
	const struct truth leak = { .is_leak = true,
				    .has_site = true,
				    .start_ns = 10 * GEN_SEC,
				    .end_ns = 100 * GEN_SEC,
				    .device_bytes = 1000,
				    .losses = losses,
				    .losses_len = 3 };
	const struct truth benign = { .end_ns = 100 * GEN_SEC };
	const struct said said[] = {
		{ 5 * GEN_SEC, ID(1), STATE_FIRING, SEVERITY_NOTICE, 0.4, 0, false }, /* before it began */
		{ 15 * GEN_SEC, ID(1), STATE_REPEAT, SEVERITY_NOTICE, 0.4, 1, false }, /* of the same: no detection */
		{ 16 * GEN_SEC, ID(3), STATE_FIRING, SEVERITY_WARNING, 0.99, 0, true }, /* another site */
		{ 22 * GEN_SEC, ID(2), STATE_FIRING, SEVERITY_NOTICE, 0.95, 3, false },
		{ 22 * GEN_SEC, ID(4), STATE_FIRING, SEVERITY_NOTICE, 0.5, 2, false }, /* at once: the better rank */
		{ 28 * GEN_SEC, ID(2), STATE_REPEAT, SEVERITY_ERROR, 0.97, 1, false }, /* escalated: an alarm */
		{ 59 * GEN_SEC, ID(4), STATE_RESOLVED, SEVERITY_NOTICE, 0.5, 3, false },
		{ 60 * GEN_SEC, ID(2), STATE_RESOLVED, SEVERITY_ERROR, 0.97, 1, false },
	};
	struct outcome o = judged(&leak, said, 8), p = judged(&benign, said, 8), open = judged(&leak, said, 7);
	const struct verdict *a = &o.level[LEVEL_ALARM], *n = &o.level[LEVEL_NOTICE];

	ok(n->is_found && n->false_count == 1 && n->after_ns == 12 * GEN_SEC && n->lost_bytes == 200 && n->rank == 2 &&
		   n->is_closed,
	   "the first record after the start is the detection, one before it is false");
	ok(n->wrong_count == 1 && a->wrong_count == 1, "a record about another site is wrong, and finds nothing");
	ok(a->is_found && a->false_count == 0 && a->after_ns == 18 * GEN_SEC && a->rank == 1,
	   "an escalated record is an alarm");
	ok(o.is_stopping && o.leaked_bytes == 300 && o.benign_ns == 10 * GEN_SEC && !open.level[LEVEL_ALARM].is_closed,
	   "a leak that stops, and an incident that stays open");
	ok(p.level[LEVEL_NOTICE].false_count == 4 && p.level[LEVEL_ALARM].false_count == 2 &&
		   !p.level[LEVEL_ALARM].is_found,
	   "all records of a program that does not leak are false, each incident once");
}

static void check_fast(void)
{
	struct gen_loss losses[60];
	struct truth t = {
		.is_leak = true, .end_ns = 4000 * GEN_SEC, .device_bytes = 100000, .losses = losses, .losses_len = 60
	};
	struct outcome o;

	for (size_t i = 0; i < 60; i++)
		losses[i] = (struct gen_loss){ i * 10 * GEN_SEC, 200, 1 };
	o = judged(&t, NULL, 0); /* 1.2 % a minute */
	t.device_bytes = 130000;
	ok(o.is_fast && !judged(&t, NULL, 0).is_fast, "a fast leak loses more than 1 % of the device a minute");
}

static void check_tally(void)
{
	static const struct gen_loss losses[] = { { 0, 100, 1 } };
	const struct truth leak = { .is_leak = true, .has_site = true, .end_ns = 100 * GEN_SEC, .device_bytes = 1000,
				    .losses = losses, .losses_len = 1 };
	const struct truth benign = { .end_ns = 43200 * GEN_SEC };
	const struct said early = { 10 * GEN_SEC, ID(1), STATE_FIRING, SEVERITY_WARNING, 0.95, 1, false },
			  late = { 30 * GEN_SEC, ID(2), STATE_FIRING, SEVERITY_WARNING, 0.5, 3, false };
	const struct outcome list[] = { judged(&leak, &early, 1),   judged(&leak, &late, 1),
					judged(&leak, NULL, 0),	    judged(&benign, NULL, 0),
					judged(&benign, &early, 1), { .set = "s", .family = "f", .error = -1 } };
	struct tally t;
	const struct tally_level *l = &t.level[LEVEL_ALARM];

	if (tally_make(list, 6, "s", NULL, &t) < 0)
		abort();
	ok(t.traces == 5 && t.leaks == 3 && l->found == 2 && l->missed == 1 && l->false_traces == 1 &&
		   fabs(l->precision - 2.0 / 3) < 1e-9 && fabs(l->recall - 2.0 / 3) < 1e-9 && l->false_per_day == 1,
	   "precision, recall and false incidents a day");
	ok(l->time_median == 20 && l->time_worst == 30 && l->bytes_worst == 100 && fabs(l->share_median - 0.1) < 1e-9,
	   "median and worst");
	ok(l->rank1 == 0.5 && l->rank3 == 0.5 && l->rank_none == 0 && l->sure == 2 && l->sure_true == 1 &&
		   l->confidence_false == 0.95,
	   "ranks and confidence");
	if (tally_make(list, 6, "other", NULL, &t) < 0)
		abort();
	ok(t.traces == 0 && isnan(l->recall) && isnan(l->time_median), "nothing to count is no number");
}

bool metrics_self_test(void)
{
	check_judge();
	check_fast();
	check_tally();
	return test_failed == 0;
}
