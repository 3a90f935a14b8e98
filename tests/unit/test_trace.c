/* SPDX-License-Identifier: MIT */
/* Recorded traces through the rules: what the daemon said live must come out again. */
#include <errno.h>

#include "replay/player.h"
#include "replay/trace.h"
#include "test.h"

#define PATH_DEMO "tests/traces/demo.trace"
#define MIB (UINT64_C(1) << 20)

/* The rules of the demo, without the identity that a trace does not carry. */
#define RULES                                                                                                          \
	"version = 1; rules = ("                                                                                       \
	"{ name = \"quota\"; kind = \"live_bytes\"; scope = \"process\"; fire_above = \"100MiB\";"                     \
	"  resolve_below = \"80MiB\"; for = \"0s\"; severity = \"critical\"; },"                                       \
	"{ name = \"oom\"; kind = \"alloc_failure\"; count = 1; window = \"1m\"; severity = \"error\"; },"             \
	"{ name = \"leak\"; kind = \"leak\"; scope = \"process\"; epoch = \"2s\"; epochs = 8; occupancy = 0.9;"        \
	"  keep_ratio = 0.7; min_growth = \"4MiB\"; for_epochs = 3; severity = \"warning\"; });"

struct replay {
	struct trace_reader *reader;
	struct player *player;
	struct report *reports[64];
	uint64_t times[64];
	size_t len;
};

static void on_report(struct report *r, uint64_t time_ns, void *userdata)
{
	struct replay *re = userdata;

	if (re->len == ARRAY_SIZE(re->reports))
		abort();
	re->times[re->len] = time_ns;
	re->reports[re->len++] = r;
}

static const char *on_stack(uint64_t stack, void *userdata)
{
	return trace_stack(((struct replay *)userdata)->reader, stack);
}

static size_t count(const struct replay *re, const char *rule, enum report_state state)
{
	size_t n = 0;

	for (size_t i = 0; i < re->len; i++)
		n += strcmp(re->reports[i]->rule, rule) == 0 && re->reports[i]->state == state;
	return n;
}

/* Place of the first record of a rule; len = none. */
static size_t first(const struct replay *re, const char *rule)
{
	size_t i = 0;

	while (i < re->len && strcmp(re->reports[i]->rule, rule) != 0)
		i++;
	return i;
}

static void run(struct replay *re, const char *path, double stretch)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	struct player_options o = { .limits = LIMITS_DEFAULT, .report = on_report, .stack = on_stack,
				    .stretch = stretch, .userdata = re };
	struct ruleset *rs = NULL;
	struct trace_item item;
	int r;

	*re = (struct replay){ 0 };
	ASSERT(ruleset_parse("demo.conf", RULES, &errors, &rs) == 0);
	r = trace_open(path, &errors, &re->reader);
	if (r == 0) {
		o.clock = *trace_clock(re->reader);
		ASSERT(player_new(&o, rs, &re->player) == 0);
	}
	while (r == 0 && (r = trace_read(re->reader, &errors, &item)) > 0)
		r = player_feed(re->player, &item);
	EXPECT_EQ(r, 0);
	errors_print(&errors, stdout);
}

static void done(struct replay *re)
{
	for (size_t i = 0; i < re->len; i++)
		report_free(re->reports[i]);
	player_free(re->player);
	trace_close(re->reader);
}

TEST(demo)
{
	const struct report *leak, *oom;
	struct player_stats stats;
	const char *frames;
	struct replay re;

	run(&re, PATH_DEMO, 1);
	ASSERT(re.player);
	player_stats(re.player, &stats);
	EXPECT(stats.events > 500);
	EXPECT_EQ(stats.items, stats.events);
	EXPECT_EQ(stats.unknown_frees + stats.replaced + stats.late, 0);
	EXPECT_EQ(count(&re, "quota", STATE_FIRING), 1);
	EXPECT_EQ(count(&re, "quota", STATE_RESOLVED), 1);
	EXPECT_EQ(count(&re, "oom", STATE_FIRING), 1);
	ASSERT(count(&re, "leak", STATE_FIRING) == 1);
	leak = re.reports[first(&re, "leak")];
	/* 8 MiB a second, and the site that keeps them. */
	EXPECT(leak->growth_bytes_per_hour > UINT64_C(7) * 3600 * MIB);
	EXPECT(leak->growth_bytes_per_hour < UINT64_C(9) * 3600 * MIB);
	EXPECT(leak->age_sec <= 30);
	EXPECT(leak->stack_bytes > 64 * MIB);
	frames = trace_stack(re.reader, player_stack_number(re.player, leak->stack));
	ASSERT(frames);
	EXPECT(strstr(frames, ";save_activation+0xe (work_demo);") != NULL);
	oom = re.reports[first(&re, "oom")];
	EXPECT(oom->bytes > 0 && oom->bytes != ABSENT_U64);
	/* Nothing of it is left in the books of the process that has ended. */
	EXPECT(!engine_newest_process(player_engine(re.player), oom->id->pid));
	done(&re);
}

/* Slowed down, the same happens later. Rules that know time may come to see it otherwise. */
TEST(demo_stretched)
{
	struct replay plain, slow;
	size_t a, b;

	run(&plain, PATH_DEMO, 1);
	run(&slow, PATH_DEMO, 3);
	ASSERT(plain.player && slow.player);
	EXPECT_EQ(player_time(slow.player), 3 * player_time(plain.player));
	EXPECT_EQ(count(&slow, "oom", STATE_FIRING), 1);
	a = first(&plain, "oom");
	b = first(&slow, "oom");
	ASSERT(a < plain.len && b < slow.len);
	EXPECT_EQ(slow.times[b], 3 * plain.times[a]);
	EXPECT_EQ(slow.reports[b]->bytes, plain.reports[a]->bytes);
	a = first(&plain, "quota");
	b = first(&slow, "quota");
	ASSERT(a < plain.len && b < slow.len);
	EXPECT_EQ(slow.times[b], 3 * plain.times[a]);
	done(&plain);
	done(&slow);
}

TEST_MAIN()
