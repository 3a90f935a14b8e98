/* SPDX-License-Identifier: MIT */
/*
 * What the rules cost: 1,000 processes on 8 devices under 50 rules of all kinds and scopes. Each second 300 of the
 * processes make 2,000 pairs of calls in all, two end and two begin; each fifth the driver tells its figures.
 *
 * Usage: rules [--seconds N] [--floor MEDIAN_MS P99_MS]
 *
 * Times are of the thread's CPU, so that what else runs on the machine counts little. Two loops are timed beside each
 * tick: steps that depend on each other, and a walk through 8 MiB in no order, as a tick waits more than it computes.
 * --floor fails (exit 1) if a tick takes longer than so many milliseconds of a machine on which a million steps take
 * LOOP_NS and a million of the walk WALK_NS: on a slower one, or one whose cores and caches are shared, the limits grow
 * with the slower of the two; on a faster one they stay.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "model/process.h"
#include "model/stack.h"
#include "rule/engine.h"

#define PROCESSES 1000
#define DEVICES 8
#define BLOCKS 64
#define SITES 8
#define BUSY 300
#define HEAVY 20
#define HEAVY_PAIRS 50
#define LEAKING 40
#define PAIRS 2000
#define WARM_SECONDS 700 /* longer than the longest epoch, so that each leak rule has judged */
#define STEPS 1000000
#define STEPS_TIMED (STEPS / 20)
#define LOOP_NS 2500000 /* of a core of about 2.5 GHz */
#define WALK_NS 150000000 /* of memory that is far, as in a virtual machine */
#define WALK_LINES (8 * 1024 * 1024 / 64)
#define SEC NSEC_PER_SEC
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define REAL_USEC UINT64_C(1700000000000000)

/* 50 rules; # stands for "(*NO_JIT)" or nothing. Those of the first block fire for some. */
static const char *const rule_texts[] = {
	"kind = \"live_bytes\"; fire_above = \"800MiB\"; for = \"5s\"; keep_firing_for = \"10s\"; repeat = \"30s\";",
	"kind = \"live_bytes\"; scope = \"device\"; fire_above = \"50%\"; resolve_below = \"45%\"; for = \"0s\";",
	"kind = \"live_bytes\"; scope = \"unit\"; fire_above = \"12GiB\"; for = \"10s\";",
	"kind = \"live_bytes\"; scope = \"user\"; fire_above = \"40GiB\"; for = \"10s\";",
	"kind = \"alloc_rate\"; fire_above = \"20/s\"; for = \"2s\"; keep_firing_for = \"5s\";",
	"kind = \"alloc_rate\"; scope = \"device\"; fire_above = \"1GiB/s\"; for = \"2s\";",
	"kind = \"leak\"; epoch = \"5s\"; epochs = 8; min_growth = \"4MiB\"; for_epochs = 3;",
	"kind = \"leak\"; scope = \"stack\"; epoch = \"10s\"; epochs = 16; min_growth = \"4MiB\"; for_epochs = 3;",
	"kind = \"single_alloc\"; fire_above = \"15MiB\"; budget = \"5/1m\";",
	"kind = \"alloc_failure\"; count = 2; window = \"1m\"; budget = \"5/1m\";",
	"kind = \"orphan\"; for = \"1m\";",

	/* Limits that nobody reaches. */
	"kind = \"live_bytes\"; fire_above = \"70GiB\";",
	"kind = \"live_bytes\"; fire_above = \"90%\"; resolve_below = \"80%\";",
	"kind = \"live_bytes\"; fire_above = \"95%\"; match = { device = \"#^[0-3]$\"; };",
	"kind = \"live_bytes\"; fire_above = \"60GiB\"; match = { device = \"#^GPU-0000000[4-7]\"; };",
	"kind = \"live_bytes\"; fire_above = \"40GiB\"; match = { comm = \"@trainers\"; user = \"#^user-[0-9]$\"; };",
	"kind = \"live_bytes\"; fire_above = \"40GiB\"; match = { comm = \"@servers\"; }; except = ( { unit = \"#^ci-\"; } );",
	"kind = \"live_bytes\"; fire_above = \"4GiB\"; class = \"host\";",
	"kind = \"live_bytes\"; fire_above = \"4GiB\"; class = \"managed\"; match = { exe = \"#^/usr/bin/\"; };",
	"kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { comm = \"#^nobody$\"; };",
	"kind = \"live_bytes\"; fire_above = \"1GiB\"; match = { cmdline = \"#--model=(gpt|llama|opt)-[0-9]+b .*--fsdp\"; };",
	"kind = \"live_bytes\"; scope = \"device\"; fire_above = \"92%\"; resolve_below = \"88%\"; for = \"1m\";",
	"kind = \"live_bytes\"; scope = \"device\"; fire_above = \"97%\"; match = { user = \"#^user-1[0-9]$\"; };",
	"kind = \"live_bytes\"; scope = \"device\"; fire_above = \"75GiB\"; match = { device = \"#^7$\"; };",
	"kind = \"live_bytes\"; scope = \"cgroup\"; fire_above = \"60GiB\";",
	"kind = \"live_bytes\"; scope = \"cgroup\"; fire_above = \"60GiB\"; match = { cgroup = \"#/kubepods\\\\.slice/\"; };",
	"kind = \"live_bytes\"; scope = \"unit\"; fire_above = \"70GiB\"; match = { unit = \"#^train-.*\\\\.service$\"; };",
	"kind = \"live_bytes\"; scope = \"user\"; fire_above = \"200GiB\"; except = ( { user = \"#^root$\"; } );",
	"kind = \"live_bytes\"; scope = \"container\"; fire_above = \"70GiB\";",
	"kind = \"alloc_rate\"; fire_above = \"8GiB/s\";",
	"kind = \"alloc_rate\"; fire_above = \"5000/s\"; window = \"1m\"; match = { comm = \"@trainers\"; };",
	"kind = \"alloc_rate\"; scope = \"unit\"; fire_above = \"20000/s\";",
	"kind = \"alloc_rate\"; scope = \"user\"; fire_above = \"20000/s\"; window = \"30s\";",
	"kind = \"single_alloc\"; fire_above = \"16GiB\";",
	"kind = \"single_alloc\"; fire_above = \"50%\";",
	"kind = \"single_alloc\"; fire_above = \"8GiB\"; match = { container = \"#^[0-9a-f]{64}$\"; };",
	"kind = \"alloc_failure\"; count = 100; window = \"1h\";",
	"kind = \"alloc_failure\"; count = 5; window = \"1m\"; match = { exe = \"#/(torchrun|mpirun)$\"; };",
	"kind = \"leak\"; epoch = \"10m\"; epochs = 8; min_growth = \"32MiB\"; for_epochs = 5;",
	"kind = \"leak\"; scope = \"stack\"; epoch = \"1m\"; epochs = 30; min_growth = \"32MiB\"; for_epochs = 3;",
	"kind = \"leak\"; epoch = \"20s\"; epochs = 12; min_growth = \"64MiB\"; match = { comm = \"@servers\"; };",
	"kind = \"leak\"; scope = \"stack\"; epoch = \"30s\"; epochs = 16; match = { user = \"#^u\"; };",
	"kind = \"exit\"; live_above = \"256MiB\"; never_freed_above = 0.5; min_runtime = \"1m\";",
	"kind = \"exit\"; live_above = \"1GiB\"; match = { comm = \"@servers\"; };",
	"kind = \"untracked_growth\"; fire_above = \"1GiB\";",
	"kind = \"untracked_growth\"; fire_above = \"8GiB\"; window = \"10m\"; match = { comm = \"@trainers\"; };",
	"kind = \"orphan\"; conditions = [ \"zombie\" ]; match = { unit = \"#^train-\"; };",
	"kind = \"live_bytes\"; fire_above = \"2GiB\"; match = { comm = \"#^(a|b|c|d)+e$\"; };",
	"kind = \"live_bytes\"; fire_above = \"2GiB\"; match = { cmdline = \"#--debug( |$)\"; exe = \"#python[0-9]$\"; };",
	"kind = \"live_bytes\"; scope = \"container\"; fire_above = \"30GiB\"; match = { device = \"#^0$\"; };",
};
_Static_assert(ARRAY_SIZE(rule_texts) == 50, "the target is of 50 rules");

struct block {
	uint64_t bytes, birth, stack;
	int device;
};

struct proc {
	uint32_t pid;
	struct block blocks[BLOCKS];
	size_t next;
};

struct series {
	uint64_t *list;
	size_t len;
};

struct bench {
	struct engine *e;
	struct proc procs[PROCESSES];
	uint32_t last_pid;
	uint64_t now, random, addr;
	uint64_t reports, arms;
};

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts) < 0)
		abort();
	return (uint64_t)ts.tv_sec * SEC + (uint64_t)ts.tv_nsec;
}

/* The same numbers in each run. */
static uint64_t next_random(struct bench *b, uint64_t below)
{
	b->random ^= b->random << 13;
	b->random ^= b->random >> 7;
	b->random ^= b->random << 17;
	return b->random % below;
}

static void series_add(struct series *s, uint64_t value)
{
	if ((s->len & (s->len + 1)) == 0) {
		s->list = realloc(s->list, (s->len + 1) * 2 * sizeof(*s->list));
		if (!s->list)
			abort();
	}
	s->list[s->len++] = value;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double quantile_ms(struct series *s, double q)
{
	if (s->len == 0)
		return 0;
	qsort(s->list, s->len, sizeof(*s->list), by_value);
	return (double)s->list[MIN((size_t)((double)s->len * q), s->len - 1)] / 1e6;
}

static void on_report(struct report *r, void *userdata)
{
	((struct bench *)userdata)->reports++;
	report_free(r);
}

static void on_arm(uint32_t pid, uint64_t start_ns, uint64_t high, uint64_t low, uint64_t single, void *userdata)
{
	((struct bench *)userdata)->arms++;
}

/* Under other names they are other rules. */
static struct ruleset *rules_parse(bool with_jit, const char *name)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	struct ruleset *rs = NULL;

	strbuf_adds(&sb, "version = 1;\nlists = { trainers = [ \"#^python3?$\", \"#^torchrun$\", \"#^train-[a-z]+$\" ];"
			 " servers = [ \"#^tritonserver$\", \"#^vllm\", \"#serve[rd]?$\" ]; };\nrules = (\n");
	for (size_t i = 0; i < ARRAY_SIZE(rule_texts); i++)
		strbuf_addf(&sb, "%s{ name = \"%s-%zu\"; %s }", i ? ",\n" : "", name, i, rule_texts[i]);
	strbuf_adds(&sb, "\n);\n");
	if (sb.error)
		abort();
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	for (const char *p = sb.buf; *p; p++) {
		if (*p != '#')
			strbuf_addc(&text, *p);
		else if (!with_jit)
			strbuf_adds(&text, "(*NO_JIT)");
	}
	if (text.error || ruleset_parse("bench.conf", text.buf, &errors, &rs) < 0) {
		errors_print(&errors, stderr);
		abort();
	}
	return rs;
}

static void uuid_of(char ret[48], int device)
{
	(void)snprintf(ret, 48, "GPU-%08d-0000-0000-0000-000000000000", device);
}

static struct event new_event(struct bench *b, uint8_t type, uint32_t pid)
{
	return (struct event){ .type = type, .pid = pid, .tid = pid, .start_ns = pid * SEC, .time_ns = b->now, .call = 1 };
}

static void send(struct bench *b, const struct event *ev)
{
	if (engine_event(b->e, ev, b->now, REAL_USEC + b->now / 1000) < 0)
		abort();
}

static void _printf_(2, 3) set_text(char **ret, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(ret, fmt, ap) < 0)
		abort();
	va_end(ap);
}

static struct identity *identity_of(uint32_t pid)
{
	static const char *const comms[] = { "python3", "torchrun", "train-bert", "tritonserver", "vllm-worker",
					     "server",	"ollama",   "blender",	  "hashcat",	  "worker" };
	struct identity *id = identity_new();
	unsigned n = pid % PROCESSES;

	if (!id)
		abort();
	id->pid = pid;
	id->start_ns = pid * SEC;
	set_text(&id->comm, "%s", comms[n % ARRAY_SIZE(comms)]);
	set_text(&id->exe, "%s", n % 3 ? "/usr/bin/python3.11" : "/opt/vendor/bin/server");
	set_text(&id->cmdline, "/usr/bin/python3 -m project.train --config=/srv/experiments/2026/run-%u/config.yaml "
			       "--model=gpt-7b --batch-size=32 --data=/srv/data/tokens --checkpoint-every=1000", n);
	set_text(&id->user, "user-%u", n % 20);
	set_text(&id->unit, "%s-%u.service", n % 4 ? "train" : "job", n % 50);
	set_text(&id->cgroup, "/kubepods.slice/kubepods-burstable.slice/pod-%u", n % 100);
	if (n % 2)
		set_text(&id->container, "%064x", n % 200);
	return id;
}

static void process_identify(struct bench *b, uint32_t pid)
{
	struct identity *id = identity_of(pid);

	if (engine_set_identity(b->e, pid, pid * SEC, id) < 0)
		abort();
	identity_unref(id);
}

static void process_begin(struct bench *b, struct proc *p)
{
	struct event ev;
	char uuid[48];

	*p = (struct proc){ .pid = ++b->last_pid };
	ev = new_event(b, EVENT_PROCESS, p->pid);
	send(b, &ev);
	for (int i = 0; i < 2; i++) {
		uuid_of(uuid, (int)((p->pid * 3 + (unsigned)i) % DEVICES));
		if (engine_set_ordinal(b->e, p->pid, p->pid * SEC, i, uuid) < 0)
			abort();
	}
	process_identify(b, p->pid);
	for (uint64_t i = 0; i < SITES; i++) {
		uint64_t number = p->pid * UINT64_C(16) + i + 1;
		struct frames *f = calloc(1, sizeof(*f));
		struct stack *s;

		if (!f || !(f->list = calloc(1, sizeof(*f->list))))
			abort();
		f->count = 1;
		f->list[0] = (struct frame){ .kind = FRAME_NATIVE, .pc = number };
		f->exact = f->site = f->id = hash64(number);
		s = stack_new_done(number, p->pid, f);
		if (!s || engine_set_stack(b->e, p->pid, p->pid * SEC, s) < 0 ||
		    engine_set_site(b->e, p->pid, p->pid * SEC, number, f->site) < 0)
			abort();
		stack_unref(s);
	}
}

static void alloc(struct bench *b, struct proc *p, struct block *block, uint64_t bytes)
{
	struct event ev = new_event(b, EVENT_ALLOC, p->pid);
	uint64_t which = next_random(b, 8);

	*block = (struct block){ .bytes = bytes, .birth = b->now, .device = which > 5,
				 .stack = p->pid * UINT64_C(16) + 1 + which };
	ev.bytes = bytes;
	ev.device = block->device;
	ev.stack = block->stack;
	ev.addr = b->addr += 4096;
	send(b, &ev);
}

/* The oldest of a ring of blocks goes for each that comes: bytes go up and down, as those of a cache do. */
static void pair(struct bench *b, struct proc *p)
{
	struct block *block = &p->blocks[p->next++ % BLOCKS];

	if (block->bytes) {
		struct event ev = new_event(b, EVENT_FREE, p->pid);

		ev.bytes = block->bytes;
		ev.device = block->device;
		ev.stack = block->stack;
		ev.birth_ns = block->birth;
		send(b, &ev);
	}
	alloc(b, p, block, next_random(b, 16 * MIB) + 4096);
}

static void process_end(struct bench *b, struct proc *p)
{
	struct event ev = new_event(b, EVENT_EXIT, p->pid);

	send(b, &ev);
}

/* One second of calls; returns how many events. */
static size_t second_of_calls(struct bench *b)
{
	size_t pairs = 0, events = 0;
	struct block kept;

	for (size_t i = 0; i < HEAVY; i++, pairs += HEAVY_PAIRS) {
		for (size_t k = 0; k < HEAVY_PAIRS; k++)
			pair(b, &b->procs[i * (PROCESSES / HEAVY)]);
	}
	for (size_t first = next_random(b, PROCESSES), i = 0; pairs < PAIRS; i++, pairs++)
		pair(b, &b->procs[(first + i % (BUSY - HEAVY) * 3) % PROCESSES]);
	for (size_t i = 0; i < LEAKING; i++, events++)
		alloc(b, &b->procs[i * 7 + 1], &kept, MIB / 2);
	for (size_t i = 0; i < 3; i++, events++) {
		struct event ev = new_event(b, EVENT_FAIL, b->procs[next_random(b, 50)].pid);

		ev.bytes = GIB;
		ev.error = 2;
		send(b, &ev);
	}
	return events + 2 * pairs;
}

static void tell_devices(struct bench *b)
{
	char uuid[48];

	for (int i = 0; i < DEVICES; i++) {
		uuid_of(uuid, i);
		if (engine_set_device(b->e, uuid, i, "A device", 80 * GIB, (40 + next_random(b, 20)) * GIB) < 0)
			abort();
	}
	engine_end_devices(b->e, true);
}

static void tell_driver(struct bench *b)
{
	char uuid[48];

	engine_driver_begin(b->e);
	for (size_t i = 0; i < PROCESSES; i++) {
		const struct proc *p = &b->procs[i];

		uuid_of(uuid, (int)(p->pid * 3 % DEVICES));
		if (engine_driver(b->e, p->pid, p->pid * SEC, uuid, GIB + next_random(b, GIB / 4), false) < 0)
			abort();
	}
	engine_driver_end(b->e, true, b->now, REAL_USEC + b->now / 1000);
}

static void tick(struct bench *b)
{
	engine_tick(b->e, b->now, REAL_USEC + b->now / 1000);
}

/* For a million steps. */
static uint64_t loop_ns(void)
{
	static volatile uint64_t sink;
	uint64_t start = cpu_ns(), x = sink + 88172645463325252u;
	for (unsigned i = 0; i < STEPS_TIMED; i++) {
		x ^= x >> 12;
		x ^= x << 25;
		x *= UINT64_C(2685821657736338717);
	}
	sink = x;
	return (cpu_ns() - start) * (STEPS / STEPS_TIMED);
}

/* The same; goes on where it stopped. */
static uint64_t walk_ns(struct bench *b)
{
	static struct {
		uint32_t next;
		char fill[60];
	} lines[WALK_LINES];
	static uint32_t at;
	uint64_t start;

	if (!lines[0].next) {
		/* One circle through all. */
		for (uint32_t i = 0; i < WALK_LINES; i++)
			lines[i].next = i;
		for (uint32_t i = WALK_LINES - 1; i > 0; i--) {
			uint32_t k = (uint32_t)next_random(b, i), other = lines[i].next;

			lines[i].next = lines[k].next;
			lines[k].next = other;
		}
	}
	start = cpu_ns();
	for (unsigned i = 0; i < STEPS_TIMED; i++)
		at = *(volatile uint32_t *)&lines[at].next;
	return (cpu_ns() - start) * (STEPS / STEPS_TIMED);
}

struct figures {
	struct series ticks, events, devices, driver, begins, fits, loops, walks;
};

static void second(struct bench *b, struct figures *f)
{
	uint64_t t, u, number = b->now / SEC + 1;
	size_t n;

	b->now = number * SEC;
	for (int i = 0; i < 2; i++) {
		struct proc *p = &b->procs[next_random(b, PROCESSES)];

		process_end(b, p);
		t = cpu_ns();
		process_begin(b, p);
		series_add(&f->begins, cpu_ns() - t);
	}
	t = cpu_ns();
	n = second_of_calls(b);
	series_add(&f->events, (cpu_ns() - t) / n);
	if (number % 5 == 0) {
		t = cpu_ns();
		tell_devices(b);
		u = cpu_ns();
		tell_driver(b);
		series_add(&f->driver, cpu_ns() - u);
		series_add(&f->devices, u - t);
	}
	t = cpu_ns();
	tick(b);
	t = cpu_ns() - t;
	series_add(&f->loops, loop_ns());
	series_add(&f->walks, walk_ns(b));
	series_add(&f->ticks, t);
}

static void bench_new(struct bench *b, bool with_jit)
{
	const struct limits limits = LIMITS_DEFAULT;
	const struct engine_ops ops = { .report = on_report, .arm = on_arm };
	*b = (struct bench){ .now = 6000 * SEC, .random = 88172645463325252u, .last_pid = 1000, .addr = 0x7f0000000000 };
	if (engine_new(&limits, &ops, b, &b->e) < 0 ||
	    engine_set_rules(b->e, rules_parse(with_jit, "rule"), b->now, REAL_USEC) < 0)
		abort();
	engine_set_history(b->e, 60 * SEC); /* as the daemon does */
	tell_devices(b);
	for (size_t i = 0; i < PROCESSES; i++)
		process_begin(b, &b->procs[i]);
	for (size_t i = 0; i < PROCESSES * BLOCKS; i++)
		pair(b, &b->procs[i % PROCESSES]);
	tick(b);
}

/* The identity of one process comes: all rules are matched with it. */
static void bench_fits(struct bench *b, struct figures *f)
{
	for (size_t i = 0; i < PROCESSES; i++) {
		struct identity *id = identity_of(b->procs[i].pid);
		uint64_t t = cpu_ns();

		if (engine_set_identity(b->e, id->pid, id->start_ns, id) < 0)
			abort();
		series_add(&f->fits, cpu_ns() - t);
		identity_unref(id);
	}
}

/* The rules are the same, or all of them are others. */
static double reload_ms(struct bench *b, const char *name)
{
	struct ruleset *rs = rules_parse(true, name);
	uint64_t t = cpu_ns();

	if (engine_set_rules(b->e, rs, b->now, REAL_USEC + b->now / 1000) < 0)
		abort();
	return (double)(cpu_ns() - t) / 1e6;
}

static void row(const char *what, struct series *s, double scale, const char *unit)
{
	printf("%-44s %10.3f %10.3f %10.3f %s\n", what, quantile_ms(s, 0.5) * scale, quantile_ms(s, 0.99) * scale,
	       quantile_ms(s, 1) * scale, unit);
}

/* A bench in which nothing happens would be fast. */
static void check_busy(struct bench *b)
{
	struct engine_totals t;

	engine_totals(b->e, &t);
	printf("%" PRIu64 " processes, %zu rules, %.0f GiB live, %" PRIu64 " sites; %" PRIu64 " firing, %" PRIu64
	       " pending, %" PRIu64 " records, %" PRIu64 " bounds set\n",
	       t.processes, ARRAY_SIZE(rule_texts), (double)t.live_bytes / GIB, t.sites, t.firing, t.pending, b->reports,
	       b->arms);
	if (t.processes != PROCESSES || t.firing < 20 || b->reports < 100 || t.lost_events || t.overflow_incidents) {
		fputs("this is not the load that was to be measured\n", stderr);
		exit(2);
	}
}

int main(int argc, char *argv[])
{
	static struct bench b, slow;
	static struct figures f, s;
	double floor_median = 0, floor_p99 = 0, median, p99, loop, walk, scale, same, other;
	unsigned seconds = 600;
	bool is_missed;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
			seconds = (unsigned)strtoul(argv[++i], NULL, 10);
		} else if (strcmp(argv[i], "--floor") == 0 && i + 2 < argc) {
			floor_median = strtod(argv[++i], NULL);
			floor_p99 = strtod(argv[++i], NULL);
		} else {
			fputs("usage: rules [--seconds N] [--floor MEDIAN_MS P99_MS]\n", stderr);
			return 2;
		}
	}
	bench_new(&b, true);
	for (unsigned i = 0; i < WARM_SECONDS; i++)
		second(&b, &s);
	s = (struct figures){ 0 };
	for (unsigned i = 0; i < seconds; i++)
		second(&b, &f);
	check_busy(&b);
	bench_fits(&b, &f);
	bench_new(&slow, false);
	bench_fits(&slow, &s);
	same = reload_ms(&b, "rule");
	other = reload_ms(&b, "other");

	median = quantile_ms(&f.ticks, 0.5);
	p99 = quantile_ms(&f.ticks, 0.99);
	loop = quantile_ms(&f.loops, 0.5);
	walk = quantile_ms(&f.walks, 0.5);
	scale = MAX(MAX(loop * 1e6 / LOOP_NS, walk * 1e6 / WALK_NS), 1.0);
	printf("%-44s %10s %10s %10s\n", "", "median", "99 %", "worst");
	row("tick", &f.ticks, 1, "ms");
	row("event", &f.events, 1e6, "ns");
	row("a process begins, with 8 stacks", &f.begins, 1e3, "us");
	row("identity: 50 rules are fitted", &f.fits, 1e3, "us");
	row("identity, patterns interpreted", &s.fits, 1e3, "us");
	row("driver's figures of 8 devices", &f.devices, 1, "ms");
	row("driver's figures of 1,000 processes", &f.driver, 1, "ms");
	printf("%-44s %10.3f ms\n%-44s %10.3f ms\n", "reload, same rules", same, "reload, other rules", other);
	row("a million steps that depend on each other", &f.loops, 1, "ms");
	row("a million steps through 8 MiB", &f.walks, 1, "ms");
	is_missed = floor_median > 0 && (median > floor_median * scale || p99 > floor_p99 * scale);
	if (floor_median > 0)
		printf("limits: %.2f and %.2f ms, times %.2f for the speed of this machine: %s\n", floor_median, floor_p99,
		       scale, is_missed ? "MISSED" : "met");
	printf("{\"median_ms\": %.4f, \"p99_ms\": %.4f, \"worst_ms\": %.4f, \"event_ns\": %.1f, \"fit_us\": %.1f, "
	       "\"fit_interpreted_us\": %.1f, \"reload_ms\": %.3f, \"reload_other_ms\": %.3f, \"loop_ms\": %.4f, "
	       "\"walk_ms\": %.4f}\n",
	       median, p99, quantile_ms(&f.ticks, 1), quantile_ms(&f.events, 0.5) * 1e6, quantile_ms(&f.fits, 0.5) * 1e3,
	       quantile_ms(&s.fits, 0.5) * 1e3, same, other, loop, walk);
	engine_free(b.e);
	engine_free(slow.e);
	return is_missed;
}
