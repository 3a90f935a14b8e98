/* SPDX-License-Identifier: MIT */
/* What matching costs: how often patterns are asked at all, and what a bad one may cost. The library's calls go through
 * here, which counts them and can pretend that compiling to machine code is refused. */
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include "engine_sim.h"
#include "rule/match.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

static uint64_t matches;
static bool refuses_jit;

int pcre2_match(const pcre2_code *code, PCRE2_SPTR subject, PCRE2_SIZE len, PCRE2_SIZE start, uint32_t options,
		pcre2_match_data *data, pcre2_match_context *context)
{
	static int (*real)(const pcre2_code *, PCRE2_SPTR, PCRE2_SIZE, PCRE2_SIZE, uint32_t, pcre2_match_data *,
			   pcre2_match_context *);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "pcre2_match_8");
	matches++;
	return real(code, subject, len, start, options, data, context);
}

int pcre2_jit_compile(pcre2_code *code, uint32_t options)
{
	static int (*real)(pcre2_code *, uint32_t);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "pcre2_jit_compile_8");
	return refuses_jit ? PCRE2_ERROR_NOMEMORY : real(code, options);
}

#define RULES(text) "version = 1; rules = (" text ");"
#define TRAINERS                                                                                                       \
	RULES("{ name = \"q\"; kind = \"live_bytes\"; fire_above = \"100MiB\"; for = \"0s\"; match = { comm = \"^train$\"; };" \
	      " except = { user = \"^ci$\"; }; },"                                                                     \
	      "{ name = \"unit\"; kind = \"live_bytes\"; scope = \"unit\"; fire_above = \"100MiB\"; match = { comm ="          \
	      " \"^train$\"; }; },"                                                                                    \
	      "{ name = \"oom\"; kind = \"alloc_failure\"; match = { tag = \"^a\"; }; },"                                  \
	      "{ name = \"huge\"; kind = \"single_alloc\"; fire_above = \"1MiB\"; match = { exe = \"^/\"; device = \"^0$\"; }; }")

/* An event and a tick ask no pattern; who a process is does, and a reload. */
TEST(verdicts_are_kept)
{
	uint64_t before, once;
	struct sim s;

	sim_new(&s, TRAINERS);
	sim_simple(&s, EVENT_PROCESS, 3);
	before = matches;
	sim_identify(&s, 3, "train", "a.service", "u");
	once = matches - before;
	EXPECT(once >= 3); /* comm twice, user */
	EXPECT(once <= 8);
	sim_alloc(&s, 3, 2 * MIB, 1);
	before = matches;
	for (int i = 0; i < 1000; i++) {
		struct block b = sim_alloc(&s, 3, 150 * MIB, (uint64_t)i % 7);

		sim_fail(&s, 3, MIB, 1);
		sim_pass(&s, SEC / 4);
		sim_free(&s, b);
	}
	EXPECT_EQ(matches - before, 0);
	EXPECT(sim_count(&s, "q", STATE_FIRING) > 0);
	sim_rules(&s, TRAINERS);
	EXPECT_EQ(matches - before, once);
	before = matches;
	sim_rules(&s, RULES("{ name = \"q\"; kind = \"live_bytes\"; fire_above = \"100MiB\"; for = \"0s\"; }"));
	EXPECT_EQ(matches - before, 0);
	sim_done(&s);
}

static struct pattern *compile(const char *text)
{
	char error[PATTERN_ERROR_MAX];
	struct pattern *p = NULL;

	if (pattern_new(text, error, &p) < 0)
		printf("# %s: %s\n", text, error);
	return p;
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* Of processor time: how busy the machine is must not matter. It takes one to three milliseconds. */
#define BAD_PATTERN_NS (50 * NSEC_PER_MSEC)

static void expect_gives_up(const char *text)
{
	_cleanup_(pattern_freep) struct pattern *p = compile(text);
	char value[IDENTITY_CMDLINE_MAX];
	uint64_t start;

	ASSERT(p);
	memset(value, 'a', sizeof(value));
	value[sizeof(value) - 1] = '!';
	start = cpu_ns();
	EXPECT_EQ(pattern_match(p, value, sizeof(value)), -ELOOP);
	start = cpu_ns() - start;
	EXPECT(start < BAD_PATTERN_NS);
	printf("# %s gave up after %.2f ms\n", text, (double)start / 1e6);
}

TEST(a_bad_pattern_gives_up_within_milliseconds)
{
	refuses_jit = false;
	expect_gives_up("^(a+)+$");
	expect_gives_up("^(a|aa)+$");
	expect_gives_up("^(.*a){30}$");
}

/* As where memory may not be made executable. */
TEST(so_it_does_when_it_is_interpreted)
{
	_cleanup_(pattern_freep) struct pattern *p = NULL;

	refuses_jit = true;
	expect_gives_up("^(a+)+$");
	expect_gives_up("^(a|aa)+$");
	expect_gives_up("^(.*a){30}$");
	p = compile("^tr(ai)n$");
	ASSERT(p);
	EXPECT_EQ(pattern_match(p, "train", 5), 1);
	EXPECT_EQ(pattern_match(p, "trains", 6), 0);
	refuses_jit = false;
}

/* The daemon goes on: no match, one warning, however many processes there are. */
TEST(one_bad_rule_among_good_ones)
{
	static const char rules[] = RULES("{ name = \"bad\"; kind = \"live_bytes\"; fire_above = \"1MiB\"; for = \"0s\";"
					  " match = { comm = \"^(a+)+$\"; }; },"
					  "{ name = \"good\"; kind = \"live_bytes\"; fire_above = \"1MiB\"; for = \"0s\";"
					  " match = { comm = \"^a\"; }; }");
	char comm[2001], line[512];
	int saved = dup(STDERR_FILENO);
	FILE *f = tmpfile();
	size_t lines = 0;
	struct sim s;

	ASSERT(f && saved >= 0);
	memset(comm, 'a', sizeof(comm));
	comm[1999] = '!';
	comm[2000] = '\0';
	dup2(fileno(f), STDERR_FILENO);
	sim_new(&s, rules);
	for (uint32_t pid = 3; pid < 23; pid++) {
		sim_simple(&s, EVENT_PROCESS, pid);
		sim_identify(&s, pid, comm, NULL, NULL);
		sim_alloc(&s, pid, 2 * MIB, 1);
	}
	dup2(saved, STDERR_FILENO);
	close(saved);
	rewind(f);
	while (fgets(line, sizeof(line), f))
		lines += strstr(line, "takes too long") != NULL;
	fclose(f);
	EXPECT_EQ(lines, 1);
	EXPECT_EQ(sim_count(&s, "bad", STATE_FIRING), 0);
	EXPECT_EQ(sim_count(&s, "good", STATE_FIRING), 20);
	sim_done(&s);
}

TEST_MAIN()
