/* SPDX-License-Identifier: MIT */
/* `gpuxray test`: what it prints about good and bad files, word for word. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "replay/rule_test.h"
#include "test.h"

#define QUOTA                                                                                                          \
	"rules = ( { name = \"quota\"; kind = \"live_bytes\"; fire_above = \"1GiB\"; for = \"10s\"; repeat = \"5m\"; "  \
	"keep_firing_for = \"0s\"; }, { name = \"oom\"; kind = \"alloc_failure\"; count = 1; window = \"1m\"; } );\n"

struct result {
	int r;
	char *out, *errors;
	struct rule_test_counts counts;
};

static void result_done(struct result *res)
{
	free(res->out);
	free(res->errors);
}

/* path NULL: a text. */
static struct result run_with(const char *path, const char *text, const struct rule_test_options *options)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	struct rule_test_options o = *options;
	struct result res = { 0 };
	size_t len;
	FILE *f;

	o.out = open_memstream(&res.out, &len);
	if (!o.out)
		abort();
	res.r = path ? rule_test_run(path, &o, &errors, &res.counts) :
		       rule_test_run_text("t.conf", text, &o, &errors, &res.counts);
	fclose(o.out);
	f = open_memstream(&res.errors, &len);
	if (!f)
		abort();
	errors_print(&errors, f);
	fclose(f);
	return res;
}

static struct result run(const char *text)
{
	return run_with(NULL, text, &(struct rule_test_options){ 0 });
}

static void check(const char *text, const char *out, size_t passed, size_t failed)
{
	_cleanup_(result_done) struct result res = run(text);

	EXPECT_STR(res.errors, "");
	EXPECT_EQ(res.r, 0);
	EXPECT_STR(res.out, out);
	EXPECT_EQ(res.counts.passed, passed);
	EXPECT_EQ(res.counts.failed, failed);
}

/* A file that has this error, the last one of it. */
static void check_error(const char *text, const char *error)
{
	_cleanup_(result_done) struct result res = run(text);

	EXPECT_EQ(res.r, -EINVAL);
	EXPECT_STR(res.out, "not ok 1 - t.conf: has errors\n");
	EXPECT_STR(res.errors, error);
	EXPECT_EQ(res.counts.failed, 1);
}

TEST(states)
{
	check(QUOTA
	      "trace = ( { at = \"1m\"; alloc = \"2GiB\"; stack = \"load\"; name = \"w\"; pid = 10; },\n"
	      "  { at = \"5m\"; free = \"w\"; pid = 10; } );\n"
	      "expect = ( { at = \"10m\"; firing = [ ]; resolved = [ \"quota\" ]; records = 2; },\n"
	      "  { at = \"59s\"; firing = [ ]; pending = [ ]; fired = [ ]; },\n"
	      "  { at = \"1m\"; pending = [ \"quota\" ]; firing = [ ]; value = \"2GiB\"; },\n"
	      "  { at = \"1m10s\"; pending = [ ]; firing = \"quota\"; pid = 10; stack = \"load\"; },\n"
	      "  { at = \"1m10s\"; firing = [ ]; pid = 11; },\n"
	      "  { at = \"1m10s\"; firing = [ ]; stack = \"loa\"; },\n"
	      "  { at = \"2m\"; firing = [ \"quota\" ]; fired = [ ]; value = { above = \"1.9GiB\"; below = \"2.1GiB\"; };\n"
	      "    severity = \"warning\"; records = 1; message = \"^10\\\\[10\\\\]|holds 2 GiB\"; } );\n",
	      "ok 1 - t.conf: at 59s firing nothing, pending nothing, fired nothing\n"
	      "ok 2 - t.conf: at 1m firing nothing, pending quota, value\n"
	      "ok 3 - t.conf: at 1m10s firing quota, pending nothing, pid 10, stack load\n"
	      "ok 4 - t.conf: at 1m10s firing nothing, pid 11\n"
	      "ok 5 - t.conf: at 1m10s firing nothing, stack loa\n"
	      "ok 6 - t.conf: at 2m firing quota, fired nothing, value, severity warning, 1 record, message\n"
	      "ok 7 - t.conf: at 10m firing nothing, resolved quota, 2 records\n",
	      7, 0);
}

TEST(difference)
{
	check(QUOTA
	      "name = \"too much\";\n"
	      "processes = ( { pid = 10; comm = \"python3\"; } );\n"
	      "trace = ( { at = \"1m\"; alloc = \"2000MiB\"; stack = [ \"inner\", \"outer\" ]; },\n"
	      "  { at = \"1m30s\"; fail = \"8GiB\"; call = \"cuMemAlloc_v2\"; } );\n"
	      "expect = ( { at = \"1m5s\"; firing = [ \"quota\" ]; },\n"
	      "  { at = \"2m\"; firing = [ ]; fired = [ \"oom\" ]; value = \"2GiB\"; severity = \"critical\"; records = 9;\n"
	      "    message = \"xyz\"; pid = 10; } );\n",
	      "not ok 1 - t.conf: too much: at 1m5s firing quota\n"
	      "# firing: expected quota, found nothing\n"
	      "# is pending: quota, pid 10 (python3), since 1m, value 2 GiB (2097152000 B), limit 1 GiB\n"
	      "# no record so far\n"
	      "not ok 2 - t.conf: too much: at 2m firing nothing, fired oom, value, severity critical, 9 records, message, pid 10\n"
	      "# firing: expected nothing, found quota\n"
	      "# fired: expected oom, found quota, oom\n"
	      "# value: expected 2 GiB, found 1\n"
	      "# records: expected 9, found 1\n"
	      "# severity: expected critical, found warning\n"
	      "# message: expected to match \"xyz\", found \"python3[10] could not allocate 8 GiB: cuMemAlloc_v2 returned "
	      "2 CUDA_ERROR_OUT_OF_MEMORY, it holds 2 GiB (rule oom)\"\n"
	      "# fires: quota, pid 10 (python3), stack inner;outer, since 1m10s, value 2 GiB (2097152000 B), limit 1 GiB\n"
	      "# records so far:\n"
	      "#   1m10s quota firing: python3[10] holds 2 GiB, over 1 GiB (rule quota)\n"
	      "#   1m30s oom firing: python3[10] could not allocate 8 GiB: cuMemAlloc_v2 returned 2 "
	      "CUDA_ERROR_OUT_OF_MEMORY, it holds 2 GiB (rule oom)\n",
	      0, 2);
}

TEST(verbose)
{
	static const char text[] =
		QUOTA "processes = ( { pid = 10; comm = \"python3\"; } );\n"
		      "trace = ( { at = \"1m\"; alloc = \"2GiB\"; stack = [ \"inner\", \"outer\" ]; }, "
		      "{ at = \"7m\"; exit = true; pid = 10; } );\n"
		      "expect = ( { at = \"8m\"; records = 3; } );\n";
	_cleanup_(result_done) struct result res =
		run_with(NULL, text, &(struct rule_test_options){ .is_verbose = true });

	EXPECT_EQ(res.r, 0);
	EXPECT_STR(res.out, "# 1m10s quota firing: python3[10] holds 2 GiB, over 1 GiB (rule quota)\n"
			    "#     inner\n"
			    "#     outer\n"
			    "# 6m10s quota repeat: python3[10] still holds 2 GiB, over 1 GiB (rule quota)\n"
			    "#     inner\n"
			    "#     outer\n"
			    "# 7m quota resolved: python3[10] has ended, was over 1 GiB for 5m 50s, peak 2 GiB (rule "
			    "quota)\n"
			    "#     inner\n"
			    "#     outer\n"
			    "ok 1 - t.conf: at 8m 3 records\n");
}

TEST(several_tests)
{
	check(QUOTA
	      "processes = ( { pid = 10; comm = \"a\"; } );\n"
	      "tests = ( { name = \"one # of two\"; trace = ( { at = \"0s\"; alloc = \"2GiB\"; } );\n"
	      "    expect = ( { at = \"1m\"; firing = [ \"quota\" ]; } ); },\n"
	      "  { trace = ( { at = \"0s\"; alloc = \"2GiB\"; } ); tick = \"10s\";\n"
	      "    rules = ( { name = \"own\"; kind = \"live_bytes\"; fire_above = \"2MiB\"; for = \"0s\"; } );\n"
	      "    expect = ( { at = \"1m\"; firing = [ \"own\" ]; } ); } );\n",
	      "ok 1 - t.conf: one \\# of two: at 1m firing quota\n"
	      "ok 2 - t.conf: at 1m firing own\n",
	      2, 0);
}

TEST(frees)
{
	check(QUOTA
	      "trace = ( { from = \"0s\"; every = \"1s\"; times = 10; alloc = \"200MiB\"; stack = \"b\"; pid = 10; },\n"
	      "  { from = \"1m\"; every = \"1s\"; until = \"1m2s\"; free = \"b\"; blocks = 1; pid = 10; },\n"
	      "  { at = \"2m\"; free = \"b\"; pid = 10; },\n"
	      "  { from = \"3m\"; every = \"1s\"; times = 600; alloc = \"600MiB\"; free_after = \"1s\"; pid = 10; } );\n"
	      "expect = ( { at = \"59s\"; firing = \"quota\"; value = \"2000MiB\"; },\n"
	      "  { at = \"1m2s\"; firing = \"quota\"; value = \"1400MiB\"; },\n"
	      "  { at = \"20m\"; firing = [ ]; pending = [ ]; fired = [ ]; resolved = \"quota\"; } );\n",
	      "ok 1 - t.conf: at 59s firing quota, value\n"
	      "ok 2 - t.conf: at 1m2s firing quota, value\n"
	      "ok 3 - t.conf: at 20m firing nothing, pending nothing, fired nothing, resolved quota\n",
	      3, 0);
}

/* What is given back at a moment is gone before what is allocated at the same. */
TEST(frees_come_first)
{
	check("rules = ( { name = \"quota\"; kind = \"live_bytes\"; fire_above = \"1GiB\"; for = \"0s\"; } );\n"
	      "trace = ( { from = \"3m\"; every = \"1s\"; times = 600; alloc = \"600MiB\"; free_after = \"1s\"; pid = 10; },\n"
	      "  { at = \"1h\"; alloc = \"600MiB\"; name = \"a\"; pid = 10; }, { at = \"2h\"; alloc = \"600MiB\"; pid = 10; },\n"
	      "  { at = \"2h\"; free = \"a\"; pid = 10; } );\n"
	      "expect = ( { at = \"59m\"; records = 0; }, { at = \"119m\"; records = 0; }, { at = \"2h\"; fired = \"quota\"; } );\n",
	      "ok 1 - t.conf: at 59m 0 records\n"
	      "ok 2 - t.conf: at 119m 0 records\n"
	      "ok 3 - t.conf: at 2h fired quota\n",
	      3, 0);
}

/* Who is meant by group rules; the second life of a pid is told anew who it is. */
TEST(subjects)
{
	check("rules = ( { name = \"unit\"; kind = \"live_bytes\"; scope = \"unit\"; fire_above = \"1GiB\"; for = \"0s\";\n"
	      "    match = { comm = \"^python3$\"; }; },\n"
	      "  { name = \"full\"; kind = \"live_bytes\"; scope = \"device\"; fire_above = \"50%\"; for = \"0s\"; } );\n"
	      "devices = ( { index = 0; total = \"4GiB\"; }, { index = 1; total = \"80GiB\"; } );\n"
	      "processes = ( { pid = 10; comm = \"python3\"; unit = \"a.service\"; device = 1; } );\n"
	      "trace = ( { at = \"0s\"; alloc = \"2GiB\"; }, { at = \"1m\"; exec = true; }, { at = \"2m\"; alloc = \"3GiB\"; },\n"
	      "  { at = \"3m\"; alloc = \"3GiB\"; device = 0; } );\n"
	      "expect = ( { at = \"10s\"; firing = \"unit\"; unit = \"a.service\"; value = \"2GiB\"; },\n"
	      "  { at = \"10s\"; firing = [ ]; unit = \"b.service\"; },\n"
	      "  { at = \"1m\"; firing = [ ]; },\n"
	      "  { at = \"2m10s\"; firing = \"unit\"; value = \"3GiB\"; },\n"
	      "  { at = \"4m\"; firing = [ \"full\" ]; device = 0; },\n"
	      "  { at = \"4m\"; firing = [ ]; device = 1; } );\n",
	      "ok 1 - t.conf: at 10s firing unit, value, unit a.service\n"
	      "ok 2 - t.conf: at 10s firing nothing, unit b.service\n"
	      "ok 3 - t.conf: at 1m firing nothing\n"
	      "ok 4 - t.conf: at 2m10s firing unit, value\n"
	      "ok 5 - t.conf: at 4m firing full, device 0\n"
	      "ok 6 - t.conf: at 4m firing nothing, device 1\n",
	      6, 0);
}

/* Events were lost: leak rules wait for a whole window, and then speak. */
TEST(losses)
{
	check("rules = ( { name = \"leak\"; kind = \"leak\"; scope = \"stack\"; epoch = \"10s\"; epochs = 6; occupancy = 0.9;\n"
	      "  keep_ratio = 0.7; min_growth = \"1MiB\"; for_epochs = 1; } );\n"
	      "tests = ( { trace = ( { from = \"0s\"; every = \"1s\"; until = \"10m\"; alloc = \"1MiB\"; stack = \"keep\"; pid = 10; } );\n"
	      "    expect = ( { at = \"1m31s\"; firing = [ \"leak\" ]; } ); },\n"
	      "  { trace = ( { from = \"0s\"; every = \"1s\"; until = \"10m\"; alloc = \"1MiB\"; stack = \"keep\"; pid = 10; },\n"
	      "      { at = \"1m\"; lost = 3; pid = 10; } );\n"
	      "    expect = ( { at = \"1m31s\"; firing = [ ]; }, { at = \"2m31s\"; firing = [ \"leak\" ]; } ); } );\n",
	      "ok 1 - t.conf: at 1m31s firing leak\n"
	      "ok 2 - t.conf: at 1m31s firing nothing\n"
	      "ok 3 - t.conf: at 2m31s firing leak\n",
	      3, 0);
}

#define TRACE "trace = ( { at = \"0s\"; alloc = \"2GiB\"; stack = \"load\"; pid = 10; } );\n"
#define EXPECTS "expect = ( { at = \"1m\"; firing = [ ]; } );\n"

TEST(errors)
{
	check_error(QUOTA TRACE "expect = ( { at = \"1m\"; firing = [ \"quotta\" ]; } );\n",
		    "t.conf:3: error: unknown rule \"quotta\": did you mean \"quota\"?\n");
	check_error(QUOTA TRACE,
		    "t.conf: error: expect is missing, so that nothing could fail: expect = ( { at = \"20m\"; firing = "
		    "[ ]; } );\n");
	check_error(QUOTA TRACE "expect = ( );\n", "t.conf:3: error: expect is empty, so that nothing could fail\n");
	check_error(QUOTA TRACE "expect = ( { at = \"1m\"; pid = 10; } );\n",
		    "t.conf:3: error: it asks nothing, so that it cannot fail: write firing, pending, fired, resolved, "
		    "value, severity, records or message\n");
	check_error(TRACE EXPECTS, "t.conf: error: rules is missing: rules = [ \"FILE\" ]; or rules = ( { name = ...; } ); as "
				   "in a rule file\n");
	check_error(QUOTA EXPECTS,
		    "t.conf: error: trace is missing: trace = ( { at = \"0s\"; alloc = \"1GiB\"; pid = 10; } ); or trace "
		    "= \"night.trace.gz\";\n");
	check_error(QUOTA "trace = ( { at = \"0s\"; pid = 10; } );\n" EXPECTS,
		    "t.conf:2: error: nothing happens: write alloc, free, fail, start, exec, exit, driver, used, lost or "
		    "condition\n");
	check_error(QUOTA "trace = ( { at = \"0s\"; alloc = \"1GiB\"; exit = true; pid = 10; } );\n" EXPECTS,
		    "t.conf:2: error: an entry of trace does one thing: write another for \"exit\"\n");
	check_error(QUOTA "trace = ( { at = 0; alloc = \"1GiB\"; pid = 10; } );\n" EXPECTS,
		    "t.conf:2: error: at is a time: write a string with a unit, such as \"30s\"\n");
	check_error(QUOTA "trace = ( { at = \"0s\"; alloc = 5; pid = 10; } );\n" EXPECTS,
		    "t.conf:2: error: alloc is a size: a bare number does not say of what, write \"100MiB\"\n");
	check_error(QUOTA "trace = ( { at = \"0s\"; exit = true; stak = \"a\"; pid = 10; } );\n" EXPECTS,
		    "t.conf:2: error: unknown key of a trace entry \"stak\": did you mean \"stack\"?\n");
	check_error(QUOTA "trace = ( { at = \"0s\"; exit = true; stack = \"a\"; pid = 10; } );\n" EXPECTS,
		    "t.conf:2: error: stack says nothing of exit: leave it out\n");
	check_error(QUOTA "trace = ( { at = \"0s\"; alloc = \"1GiB\"; } );\n" EXPECTS,
		    "t.conf:2: error: of which process? write pid = 10\n");
	check_error(QUOTA "trace = ( { at = \"0s\"; alloc = \"1GiB\"; pid = 10; every = \"1s\"; } );\n" EXPECTS,
		    "t.conf:2: error: every needs how often: either times = 240 or until = \"1h\"\n");
	check_error(QUOTA "trace = ( { at = \"0s\"; free = \"w\"; pid = 10; } );\n" EXPECTS,
		    "t.conf:2: error: free = \"w\": process 10 allocates nothing with that name or stack\n");
	check_error(QUOTA "trace = ( { from = \"0s\"; every = \"1ms\"; until = \"9h\"; alloc = \"1KiB\"; pid = 10; } );\n" EXPECTS,
		    "t.conf:2: error: more than 10000000 events\n");
	check_error(QUOTA TRACE "expect = ( { at = \"401d\"; firing = [ ]; } );\n",
		    "t.conf:3: error: at = \"401d\" is out of range: it goes from 0s to 400d\n");
	check_error(QUOTA TRACE "tick = \"100ms\"; expect = ( { at = \"300d\"; firing = [ ]; } );\n",
		    "t.conf:3: error: more than 34560000 ticks until the last expectation: let the test be shorter, or tick "
		    "longer\n");
	check_error(QUOTA TRACE EXPECTS "tests = ( { name = \"a\"; } );\n",
		    "t.conf:3: error: expect beside tests: write it in each test\n");
	check_error("trace = ( {", "t.conf:1: error: syntax error at this line or just before it: a missing \";\", quote or "
				   "bracket, or a comma before \")\"?\n");
	check_error("rules = \"a.conf\";\n" TRACE EXPECTS, "t.conf:1: error: no other file can be named here\n");
	check_error(QUOTA "trace = \"a.trace\";\n" EXPECTS, "t.conf:2: error: no other file can be named here\n");
}

/* Rules in the test keep their lines; all errors come in one run. */
TEST(errors_of_inline_rules)
{
	check_error("lists = { a = [ \"^x$\" ]; };\n"
		    "trace = ( { at = \"0s\"; alloc = \"2GiB\"; pid = 10; } );\n"
		    "rules = (\n"
		    "  { name = \"a\"; kind = \"live_bytes\";\n"
		    "    fire_above = 5;\n"
		    "    match = { comm = \"@b\"; }; },\n"
		    "  { name = \"b\";\n"
		    "    kind = \"laek\"; }\n"
		    ");\n"
		    "expect = ( { at = \"1m\"; firing = [ \"c\" ];\n"
		    "  severty = \"notice\"; } );\n",
		    "t.conf:5: error: fire_above needs a unit, in a string: a bare number does not say of what, write "
		    "\"100MiB\" or \"92%\"\n"
		    "t.conf:6: error: unknown list \"b\": known are a\n"
		    "t.conf:8: error: unknown kind \"laek\": did you mean \"leak\"?\n"
		    "t.conf:11: error: unknown key of an expectation \"severty\": did you mean \"severity\"?\n");
}

TEST(nothing_to_free)
{
	_cleanup_(result_done) struct result res =
		run(QUOTA "trace = ( { at = \"5m\"; alloc = \"2GiB\"; name = \"w\"; pid = 10; },\n"
			  "  { at = \"1m\"; free = \"w\"; pid = 10; } );\n" EXPECTS);

	EXPECT_EQ(res.r, -EINVAL);
	EXPECT_STR(res.errors, "t.conf:3: error: free = \"w\" at 1m: nothing of it is live then\n");
	EXPECT_STR(res.out, "not ok 1 - t.conf: has errors\n");
}

static void write_file(const char *dir, const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	if (!f)
		abort();
	fputs(text, f);
	fclose(f);
}

/* Files that a test names lie where it lies. */
TEST(files)
{
	char dir[] = "/tmp/rule_test.XXXXXX", path[256], rules[64], wanted[512];
	static const char *const names[] = { "rules.d/a.conf", "r.trace", "bad.trace", "t.conf", "bad.conf", "rules.d" };
	struct rule_test_options o = { 0 };
	struct result res;

	ASSERT(mkdtemp(dir));
	snprintf(rules, sizeof(rules), "%s/rules.d", dir);
	ASSERT(mkdir(rules, 0700) == 0);
	write_file(rules, "a.conf", "version = 1; rules = ( { name = \"quota\"; kind = \"live_bytes\"; fire_above = "
				    "\"1GiB\"; for = \"10s\"; } );\n");
	write_file(dir, "r.trace", "# gpuxray trace 1\nclock monotonic=5000 real=1764512345\n"
				   "stack 1 @0123456789abcdef;cuMemAlloc_v2+0x0 (libcuda.so.1);save (train.py:12)\n"
				   "1 7 alloc class=device addr=0x1 bytes=2147483648 device=0 stack=1\n"
				   "9 7 exit\n");
	write_file(dir, "bad.trace", "# gpuxray trace 1\n1 7 allok addr=0x1\n2 7 free addr=zz\n");
	write_file(dir, "t.conf",
		   "rules = [ \"rules.d\" ]; trace = \"r.trace\"; stretch = 2.0;\n"
		   "processes = ( { pid = 7; comm = \"train\"; } );\n"
		   "expect = ( { at = \"2s\"; pending = \"quota\"; firing = [ ]; },\n"
		   "  { at = \"13s\"; firing = \"quota\"; pid = 7; stack = \"save\"; message = \"^train.7. holds 2 GiB[^@]*$\"; },\n"
		   "  { at = \"18s\"; firing = [ ]; resolved = \"quota\"; } );\n");
	write_file(dir, "bad.conf", "rules = [ \"rules.d\" ]; trace = \"bad.trace\"; expect = ( { at = \"2s\"; firing = [ ]; } );\n");

	snprintf(path, sizeof(path), "%s/t.conf", dir);
	res = run_with(path, NULL, &o);
	EXPECT_EQ(res.r, 0);
	EXPECT_STR(res.errors, "");
	EXPECT_EQ(res.counts.passed, 3);
	EXPECT_EQ(res.counts.failed, 0);
	if (res.counts.failed)
		puts(res.out);
	result_done(&res);

	snprintf(path, sizeof(path), "%s/bad.conf", dir);
	res = run_with(path, NULL, &o);
	EXPECT_EQ(res.r, -EINVAL);
	snprintf(wanted, sizeof(wanted), "not ok 1 - %s: has errors\n", path);
	EXPECT_STR(res.out, wanted);
	snprintf(wanted, sizeof(wanted), "%s/bad.trace:2: error: ", dir);
	EXPECT(strncmp(res.errors, wanted, strlen(wanted)) == 0);
	snprintf(wanted, sizeof(wanted), "\n%s/bad.trace:3: error: ", dir);
	EXPECT(strstr(res.errors, wanted) != NULL);
	result_done(&res);

	snprintf(path, sizeof(path), "%s/none.conf", dir);
	res = run_with(path, NULL, &o);
	EXPECT_EQ(res.r, -EINVAL);
	EXPECT(strstr(res.errors, "none.conf: error: cannot read it: No such file or directory\n") != NULL);
	result_done(&res);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		EXPECT_EQ(remove(path), 0);
	}
	EXPECT_EQ(rmdir(dir), 0);
}

/* The tests that are shipped, of the rules that are. */
TEST(shipped)
{
	static const char *const paths[] = { "tests/rules/device.conf", "tests/rules/leak.conf", "tests/rules/process.conf",
					     "tests/rules/example.conf" };

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		_cleanup_(result_done) struct result res = run_with(paths[i], NULL, &(struct rule_test_options){ 0 });

		EXPECT_EQ(res.r, 0);
		EXPECT_STR(res.errors, "");
		EXPECT_EQ(res.counts.failed, 0);
		EXPECT(res.counts.passed > 5);
		if (res.counts.failed)
			puts(res.out);
	}
}

TEST_MAIN()
