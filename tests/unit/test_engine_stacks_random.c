/* SPDX-License-Identifier: MIT */
/*
 * Random stacks against a ledger too simple to be wrong: copies and learned numbers, resolved early, late or never,
 * blocks that outlive all of it. Whatever happens, the sites hold the blocks, no more and no less.
 */
#include "engine_sim.h"
#include "model/saturate.h"
#include "rule/watch.h"

#define PID 7
#define START (PID * SEC)
#define EXACTS 60
#define SITES 23
#define BLOCKS 600
#define RAW 64

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

static const char leak_rules[] =
	"version = 1; rules = ("
	"{ name = \"ls\"; kind = \"leak\"; scope = \"stack\"; epoch = \"1s\"; epochs = 4; min_growth = \"1KiB\";"
	"  for_epochs = 1; occupancy = 0.5; keep_ratio = 0.1; },"
	"{ name = \"ls2\"; kind = \"leak\"; scope = \"stack\"; epoch = \"2s\"; epochs = 4; min_growth = \"1KiB\"; },"
	"{ name = \"lp\"; kind = \"leak\"; scope = \"process\"; epoch = \"1s\"; epochs = 4; min_growth = \"1KiB\"; },"
	"{ name = \"f\"; kind = \"alloc_failure\"; count = 1; window = \"5s\"; } );";
static const char few_rules[] =
	"version = 1; rules = ("
	"{ name = \"ls2\"; kind = \"leak\"; scope = \"stack\"; epoch = \"2s\"; epochs = 4; min_growth = \"1KiB\"; } );";

/* Of a number: which stack it is, and whether the engine was told. */
struct numbered {
	uint32_t exact;
	bool is_resolved;
};

/* The world: a program, the probe and the resolver. */
struct world {
	struct sim s;
	struct numbered *number; /* by number */
	uint64_t last_number;
	uint64_t learned[EXACTS]; /* number the probe knows the stack by; 0 = none */
	struct stack *raw[RAW]; /* on their way to the resolver */
	size_t raw_len;
	struct block block[BLOCKS];
	size_t blocks;
	uint64_t forgotten, last_forgotten;
	bool is_one_class; /* where "other" is used, its rings must be of all its bytes */
};

static struct world w;

static uint64_t site_of(uint32_t exact)
{
	/* Keys that a number could be taken for, if they were in one table; 0 among them. */
	return exact % SITES;
}

static uint8_t class_of(uint32_t exact)
{
	static const uint8_t classes[] = { CLASS_DEVICE, CLASS_HOST, CLASS_ASYNC, CLASS_IMPORTED, CLASS_DEVICE };

	return w.is_one_class ? CLASS_DEVICE : classes[site_of(exact) % ARRAY_SIZE(classes)];
}

/* A stack of a number that the engine says it has forgotten is copied anew. */
static void forget_stack(const struct stack *stack, void *userdata)
{
	sim_forget_stack(stack, userdata);
	EXPECT(stack->key > 0 && stack->key <= w.last_number && stack->pid == PID);
	for (size_t i = 0; i < EXACTS; i++) {
		if (w.learned[i] == stack->key)
			w.learned[i] = 0;
	}
	w.number[stack->key].is_resolved = false;
}

static uint64_t copy_stack(uint32_t exact)
{
	uint64_t number = ++w.last_number;
	struct stack *raw;

	w.number = realloc(w.number, (number + 1) * sizeof(*w.number));
	if (!w.number)
		abort();
	w.number[number] = (struct numbered){ .exact = exact };
	if (below(40) == 0)
		return number; /* the copy was lost */
	raw = sim_raw_stack(&w.s, PID, number);
	EXPECT(w.s.last_r == 0 || w.s.last_r == -ENOSPC);
	if (w.raw_len < RAW && w.s.last_r == 0)
		w.raw[w.raw_len++] = raw;
	else
		stack_unref(raw); /* the resolver drops it */
	return number;
}

static uint64_t number_for(uint32_t exact)
{
	return w.learned[exact] ? w.learned[exact] : copy_stack(exact);
}

static void resolve(size_t i)
{
	struct stack *raw = w.raw[i];
	uint64_t number = raw->key;
	uint32_t exact = w.number[number].exact;
	int r;

	w.raw[i] = w.raw[--w.raw_len];
	if (below(50) == 0) {
		stack_set_frames(raw, NULL); /* could not be */
		stack_unref(raw);
		return;
	}
	r = sim_resolve(&w.s, raw, exact + 1000, site_of(exact));
	EXPECT(r == 0 || r == -ENOENT || r == -ESRCH);
	w.number[number].is_resolved = r == 0;
	/* One in six cannot be learned. */
	if (exact % 6 && !w.learned[exact])
		w.learned[exact] = number;
}

/* Some stacks leak. */
static bool is_kept(const struct block *b)
{
	return b->stack && w.number[b->stack].exact < 4 && below(50);
}

static void free_block(size_t i)
{
	sim_free(&w.s, w.block[i]);
	w.block[i] = w.block[--w.blocks];
}

static void rebuild(void)
{
	struct process *p = sim_process(&w.s, PID);
	struct books b = { 0 };

	if (!p)
		return;
	b.alloc_count = p->alloc_count;
	b.free_count = p->free_count;
	EXPECT_EQ(engine_rebuild_begin(w.s.e, PID, START), 0);
	for (size_t i = 0; i < w.blocks; i++) {
		struct event ev = sim_event(&w.s, EVENT_ALLOC, PID);

		ev.bytes = w.block[i].bytes;
		ev.stack = w.block[i].stack;
		ev.birth_ns = w.block[i].birth;
		ev.class = w.block[i].class;
		EXPECT_EQ(engine_rebuild_add(w.s.e, &ev), 0);
		if (below(30) == 0 && w.raw_len)
			resolve(below(w.raw_len));
	}
	EXPECT_EQ(engine_rebuild_end(w.s.e, PID, START, &b, w.s.now, SIM_REAL + w.s.now / 1000), 0);
}

static void step(void)
{
	uint64_t dice = below(1000), number;
	/* Few are hot. */
	uint32_t exact = (uint32_t)(below(2) ? below(8) : below(EXACTS));

	if (dice < 400) {
		if (w.blocks == BLOCKS)
			free_block(below(w.blocks));
		number = below(30) ? number_for(exact) : 0;
		w.block[w.blocks++] = sim_alloc_on(&w.s, PID, below(100) * KIB, number,
						   number ? class_of(exact) : CLASS_DEVICE, 0);
	} else if (dice < 760 && w.blocks) {
		size_t i = below(4) ? below(w.blocks) : w.blocks - 1;

		if (!is_kept(&w.block[i]))
			free_block(i);
	} else if (dice < 775) {
		sim_fail(&w.s, PID, GIB, number_for(exact));
	} else if (dice < 780) {
		(void)copy_stack(exact); /* the call never returns */
	} else if (dice < 950 && w.raw_len) {
		resolve(below(w.raw_len));
	} else if (dice < 960) {
		w.learned[exact] = 0; /* the least recently used go */
	} else if (dice < 963) {
		rebuild();
	} else if (dice < 966) {
		sim_rules(&w.s, below(3) ? leak_rules : few_rules);
	} else if (dice < 967) {
		sim_simple(&w.s, EVENT_EXEC, PID);
		w.blocks = 0;
		memset(w.learned, 0, sizeof(w.learned));
	} else if (dice < 980) {
		sim_pass(&w.s, below(1500) * MSEC);
	}
	w.s.now += below(10) * MSEC;
}

static uint64_t site_bytes(uint8_t class, uint64_t bytes)
{
	return class == CLASS_IMPORTED ? 0 : bytes;
}

static void check_ring(const struct leak_ring *ring, const struct leak_scale *scale, uint64_t bytes)
{
	uint64_t slots = 0;

	for (uint32_t i = 0; i < scale->slots; i++)
		slots += ring->slot[i];
	EXPECT_EQ(slots, ring->window);
	EXPECT_EQ(ring->older + ring->window, bytes);
}

/* Incidents, slots and sites point at each other. */
static uint32_t check_slots(const struct process *p, const struct site *s, const struct slot *slots, size_t len)
{
	uint32_t n = 0;

	for (size_t i = 0; i < len; i++) {
		const struct incident *inc = slots[i].incident;

		if (!inc)
			continue;
		n++;
		EXPECT(inc->slot == &slots[i] && inc->rs == slots[i].rs);
		EXPECT(inc->subject.p == p && inc->subject.site == s);
	}
	return n;
}

static void check_watches(struct process *p)
{
	const struct engine *e = w.s.e;
	uint32_t incidents = check_slots(p, NULL, p->watch->slots, p->watch->slots_len);
	struct site *s;
	size_t iter = 0;

	for (size_t i = 0; i < e->scales_len; i++) {
		if (p->watch->rings[i])
			check_ring(p->watch->rings[i], &e->scales[i], sat_sum(p->live, e->scales[i].classes));
	}
	while ((s = process_next_site(p, &iter))) {
		if (!s->watch)
			continue;
		incidents += check_slots(p, s, s->watch->slots, s->watch->slots_len);
		for (size_t i = 0; i < e->scales_len; i++) {
			if (s->watch->rings[i])
				check_ring(s->watch->rings[i], &e->scales[i], s->bytes);
		}
	}
	EXPECT_EQ(incidents, p->watch->incidents);
}

/* What the entries hold of their sites is all that is on these. */
static void check_entries(struct process *p)
{
	uint64_t bytes[BLOCKS + EXACTS] = { 0 }, blocks[BLOCKS + EXACTS] = { 0 };
	size_t iter = 0, copies = 0, resolved = 0;
	void *value;

	ASSERT(p->sites_len <= ARRAY_SIZE(bytes));
	while (map64_next(&p->stacks, &iter, NULL, &value)) {
		const struct stack_entry *e = value;

		copies += e->is_copy;
		EXPECT(e->site || (e->blocks == 0 && e->bytes == 0));
		if (!e->site)
			continue;
		ASSERT(e->site->index < p->sites_len && p->sites[e->site->index] == e->site);
		EXPECT(e->is_resolved == e->site->is_resolved);
		EXPECT_EQ(e->site->key, e->is_resolved ? e->key : e->number);
		bytes[e->site->index] += e->bytes;
		blocks[e->site->index] += e->blocks;
	}
	if (p->none.site) {
		bytes[p->none.site->index] += p->none.bytes;
		blocks[p->none.site->index] += p->none.blocks;
	}
	EXPECT_EQ(p->copies, copies);
	EXPECT(p->copies_kept <= copies);
	for (size_t i = 0; i < p->sites_len; i++) {
		const struct site *s = p->sites[i];

		EXPECT_EQ(s->index, i);
		EXPECT_EQ(s->bytes, bytes[i]);
		EXPECT_EQ(s->blocks, blocks[i]);
		resolved += s->is_resolved;
		if (!s->is_resolved)
			EXPECT(process_stack_entry(p, s->key) && process_stack_entry(p, s->key)->site == s);
		EXPECT(!s->is_resolved || process_resolved_site(p, s->key) == s);
	}
	EXPECT_EQ(p->sites_by_key.len, resolved);
	iter = 0;
	while (map64_next(&p->firsts, &iter, NULL, &value)) {
		const struct stack_entry *e = value;

		EXPECT(map64_get(&p->stacks, e->number) == e && !e->is_copy && e->stack->key == e->number);
	}
}

/* Nothing has overflowed: each block lies where it belongs. */
static void check_places(struct process *p)
{
	uint64_t bytes[SITES] = { 0 }, blocks[SITES] = { 0 };

	for (size_t i = 0; i < w.blocks; i++) {
		const struct block *b = &w.block[i];
		const struct numbered *n = &w.number[b->stack];
		struct stack_entry *e = process_stack_entry(p, b->stack);

		ASSERT(e && e->site && e->blocks > 0);
		if (b->stack == 0)
			continue;
		EXPECT_EQ(e->is_resolved, n->is_resolved);
		if (!n->is_resolved)
			continue;
		EXPECT_EQ(e->key, site_of(n->exact));
		bytes[site_of(n->exact)] += site_bytes(b->class, b->bytes);
		blocks[site_of(n->exact)]++;
	}
	for (uint64_t k = 0; k < SITES; k++) {
		const struct site *s = process_resolved_site(p, k);

		EXPECT_EQ(s ? s->bytes : 0, bytes[k]);
		EXPECT_EQ(s ? s->blocks : 0, blocks[k]);
		/* What stands for it is one of its own. */
		if (s && s->stack && stack_frames(s->stack))
			EXPECT_EQ(stack_frames(s->stack)->site, k);
	}
	EXPECT(!p->other.is_other);
}

static void check(void)
{
	struct process *p = sim_process(&w.s, PID);
	uint64_t want = 0, bytes = 0, blocks = 0;
	struct site *s;
	size_t iter = 0;

	if (!p)
		return;
	while ((s = process_next_site(p, &iter))) {
		bytes += s->bytes;
		blocks += s->blocks;
	}
	for (size_t i = 0; i < w.blocks; i++)
		want += site_bytes(w.block[i].class, w.block[i].bytes);
	EXPECT_EQ(bytes, want);
	EXPECT_EQ(blocks, w.blocks);
	EXPECT_EQ(p->live_count, w.blocks);
	EXPECT(p->exact);
	EXPECT(p->sites_len <= w.s.e->limits.sites_per_process);
	EXPECT(p->stacks.len <= w.s.e->limits.stacks_per_process);
	check_entries(p);
	check_watches(p);
	if (p->sites_overflow + p->stacks_overflow == 0)
		check_places(p);
}

struct outcome {
	uint64_t sites_overflow, stacks_overflow, stacks_dropped, forgotten, incidents;
};

static struct outcome run(uint64_t start, struct limits limits, bool is_one_class)
{
	struct outcome out = { 0 };
	struct process *p;

	seed = start * 0x9e3779b97f4a7c15 + 1;
	w = (struct world){ .is_one_class = is_one_class };
	w.number = calloc(1, sizeof(*w.number));
	sim_new_limits(&w.s, leak_rules, limits);
	w.s.e->ops.forget_stack = forget_stack;
	for (int i = 0; i < 6000 && !test_failures; i++) {
		step();
		check();
		p = sim_process(&w.s, PID);
		if (p) {
			out.sites_overflow = MAX(out.sites_overflow, p->sites_overflow);
			out.stacks_overflow = MAX(out.stacks_overflow, p->stacks_overflow);
			out.stacks_dropped = MAX(out.stacks_dropped, p->stacks_dropped);
		}
	}
	out.forgotten = w.s.forgotten;
	while (w.blocks && !test_failures)
		free_block(w.blocks - 1);
	check();
	sim_simple(&w.s, EVENT_EXIT, PID);
	out.incidents = sim_count(&w.s, "ls", STATE_FIRING);
	/* All that was said to fire was said to end. */
	for (size_t i = 0; i < 3; i++) {
		static const char *const names[] = { "ls", "ls2", "lp" };

		EXPECT_EQ(sim_count(&w.s, names[i], STATE_FIRING), sim_count(&w.s, names[i], STATE_RESOLVED));
	}
	while (w.raw_len)
		stack_unref(w.raw[--w.raw_len]);
	free(w.number);
	sim_done(&w.s);
	if (test_failures)
		printf("# seed %llu\n", (unsigned long long)start);
	return out;
}

TEST(each_block_on_its_site)
{
	struct outcome o;

	for (uint64_t i = 1; i <= 8 && !test_failures; i++) {
		o = run(i, (struct limits)LIMITS_DEFAULT, i & 1);
		EXPECT_EQ(o.sites_overflow + o.stacks_overflow, 0);
		EXPECT(o.incidents > 0);
	}
}

TEST(few_stacks)
{
	struct limits l = LIMITS_DEFAULT;
	struct outcome o;

	for (uint64_t i = 101; i <= 106 && !test_failures; i++) {
		l.stacks_per_process = i & 1 ? 24 : 120;
		o = run(i, l, true);
		EXPECT(o.stacks_dropped > 0 && o.forgotten > 0);
	}
}

TEST(few_sites)
{
	struct limits l = LIMITS_DEFAULT;
	struct outcome o;

	for (uint64_t i = 201; i <= 206 && !test_failures; i++) {
		l.sites_per_process = i & 1 ? 6 : 30;
		o = run(i, l, true);
		EXPECT(o.sites_overflow > 0);
	}
}

TEST(few_of_both)
{
	struct limits l = LIMITS_DEFAULT;

	l.stacks_per_process = 8;
	l.sites_per_process = 5;
	for (uint64_t i = 301; i <= 306 && !test_failures; i++)
		(void)run(i, l, true);
}

TEST_MAIN()
