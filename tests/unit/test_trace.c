/* SPDX-License-Identifier: MIT */
/* Recorded traces through the rules: what the daemon said live must come out again. */
#include <errno.h>

#include "engine_sim.h"
#include "test.h"

#define PATH_DEMO "tests/traces/demo.trace"

/* Value of key= in a line, or -1 when it is not there. */
static int64_t number(const char *line, const char *key)
{
	const char *at = strstr(line, key);

	return at ? strtoll(at + strlen(key), NULL, 0) : -1;
}

static uint8_t class_of(const char *line)
{
	static const char *const names[CLASS_MAX] = { "device", "managed", "host", "array", "physical", "async", "graph",
						      "imported" };
	const char *at = strstr(line, "class=");

	for (uint8_t i = 0; at && i < CLASS_MAX; i++)
		if (!strncmp(at + 6, names[i], strlen(names[i])) && at[6 + strlen(names[i])] == ' ')
			return i;
	return CLASS_MAX;
}

struct replay {
	struct sim sim;
	struct map64 blocks; /* by address: frees only name that */
	uint64_t start_ns;
	size_t events, stacks;
	char *texts[64]; /* of the stacks, by their number */
	struct stack *stack[64];
};

/* "a;b;c" behind the number, innermost first. */
static struct frames *frames_of(const char *text, uint64_t number)
{
	struct frames *f = calloc(1, sizeof(*f));
	char *save = NULL;

	if (!f || !(f->strings = strdup(strchr(text + 6, ' ') + 1)))
		abort();
	f->list = calloc(strlen(text), sizeof(*f->list));
	if (!f->list)
		abort();
	for (char *name = strtok_r(f->strings, ";\n", &save); name; name = strtok_r(NULL, ";\n", &save))
		f->list[f->count++] = (struct frame){ .kind = FRAME_NATIVE, .function = name };
	f->exact = number;
	f->site = f->id = hash_str(0, text);
	return f;
}

/* A stack is sent before the first event that names it, and resolved while others go on. */
static void see_stack(struct replay *r, uint32_t pid, uint64_t number)
{
	struct stack *s;

	if (!r->stack[number]) {
		r->stack[number] = sim_raw_stack(&r->sim, pid, number);
		return;
	}
	s = r->stack[number];
	if (stack_is_done(s))
		return;
	stack_set_frames(s, frames_of(r->texts[number], number));
	EXPECT_EQ(engine_set_site(r->sim.e, pid, pid * SEC, number, stack_frames(s)->site), 0);
}

static void feed(struct replay *r, const char *line)
{
	uint64_t at_ns = (uint64_t)(strtod(line, NULL) * 1e9);
	uint32_t pid = (uint32_t)strtoul(strchr(line, ' '), NULL, 10);
	uint64_t addr = (uint64_t)number(line, "addr=");
	struct event ev;

	/* With ticks between events, as the daemon has them. */
	if (r->start_ns + at_ns > r->sim.now)
		sim_pass(&r->sim, r->start_ns + at_ns - r->sim.now);
	r->events++;
	if (number(line, "stack=") > 0)
		see_stack(r, pid, (uint64_t)number(line, "stack="));
	if (strstr(line, " alloc ")) {
		struct block *b = malloc(sizeof(*b));

		ASSERT(b && class_of(line) < CLASS_MAX);
		*b = sim_alloc_on(&r->sim, pid, (uint64_t)number(line, "bytes="), (uint64_t)number(line, "stack="), class_of(line),
				  (int32_t)number(line, "device="));
		ASSERT(map64_put(&r->blocks, addr, b) == 0);
	} else if (strstr(line, " free ")) {
		struct block *b = map64_remove(&r->blocks, addr);

		ASSERT(b);
		sim_free(&r->sim, *b);
		free(b);
	} else if (strstr(line, " fail ")) {
		sim_fail(&r->sim, pid, (uint64_t)number(line, "bytes="), (uint64_t)number(line, "stack="));
	} else if (strstr(line, " exit")) {
		ev = sim_event(&r->sim, EVENT_EXIT, pid);
		EXPECT_EQ(sim_send(&r->sim, &ev), 0);
	} else {
		EXPECT(!"a line this reader knows");
	}
}

static void run(struct replay *r, const char *path)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	char line[8192];

	ASSERT(f);
	while (fgets(line, sizeof(line), f)) {
		if (line[0] == '#')
			continue;
		if (!strncmp(line, "stack ", 6)) {
			size_t n = strtoul(line + 6, NULL, 10);

			ASSERT(n > 0 && n < ARRAY_SIZE(r->texts));
			r->texts[n] = strdup(line);
			r->stacks++;
			continue;
		}
		feed(r, line);
	}
}

TEST(demo)
{
	static struct replay r;
	const struct report *leak;
	size_t iter = 0;
	void *value;

	/* The rules of the demo, without the identity that a trace does not carry. */
	sim_new(&r.sim,
		"version = 1; rules = ("
		"{ name = \"quota\"; kind = \"live_bytes\"; scope = \"process\"; fire_above = \"100MiB\";"
		"  resolve_below = \"80MiB\"; for = \"0s\"; severity = \"critical\"; },"
		"{ name = \"oom\"; kind = \"alloc_failure\"; count = 1; window = \"1m\"; severity = \"error\"; },"
		"{ name = \"leak\"; kind = \"leak\"; scope = \"process\"; epoch = \"2s\"; epochs = 8; occupancy = 0.9;"
		"  keep_ratio = 0.7; min_growth = \"4MiB\"; for_epochs = 3; severity = \"warning\"; });");
	r.start_ns = r.sim.now;
	run(&r, PATH_DEMO);
	EXPECT(r.events > 500);
	EXPECT_EQ(r.stacks, 5);
	EXPECT_EQ(sim_count(&r.sim, "quota", STATE_FIRING), 1);
	EXPECT_EQ(sim_count(&r.sim, "quota", STATE_RESOLVED), 1);
	EXPECT_EQ(sim_count(&r.sim, "oom", STATE_FIRING), 1);
	ASSERT(sim_count(&r.sim, "leak", STATE_FIRING) == 1);
	leak = sim_get(&r.sim, "leak", 0);
	/* 8 MiB a second, and the site that keeps them. */
	EXPECT(leak->growth_bytes_per_hour > UINT64_C(7) * 3600 * MIB);
	EXPECT(leak->growth_bytes_per_hour < UINT64_C(9) * 3600 * MIB);
	EXPECT(leak->age_sec <= 30);
	ASSERT(leak->stack && stack_frames(leak->stack) && stack_frames(leak->stack)->count > 2);
	EXPECT_STR(stack_frames(leak->stack)->list[2].function, "save_activation+0xe (work_demo)");
	EXPECT(leak->stack_bytes > 64 * MIB);
	while (map64_next(&r.blocks, &iter, NULL, &value))
		free(value);
	map64_done(&r.blocks);
	for (size_t i = 0; i < ARRAY_SIZE(r.texts); i++) {
		free(r.texts[i]);
		stack_unref(r.stack[i]);
	}
	sim_done(&r.sim);
}

TEST_MAIN()
