/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "base/strbuf.h"
#include "rule/settings.h"
#include "test.h"
#include "trace/calls.h"

static int parse(const char *text, struct settings *s, char **ret_errors)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	size_t len;
	FILE *f = open_memstream(ret_errors, &len);
	int r;

	if (!f || settings_init(s) < 0)
		abort();
	r = settings_parse("g.conf", text, &errors, s);
	errors_print(&errors, f);
	fclose(f);
	return r;
}

#define GOOD "library = \"libx.so*\"; symbol = \"f\"; "

static struct call_desc desc_of(const char *rest)
{
	_cleanup_(settings_done) struct settings s = {};
	_cleanup_free_ char *errors = NULL;
	char text[512];
	int r;

	snprintf(text, sizeof(text), "calls = ( { " GOOD "%s } );", rest);
	r = parse(text, &s, &errors);
	if (r || s.calls_len != 1) {
		printf("# %s: %s", rest, errors);
		EXPECT(!"parsed");
		return (struct call_desc){};
	}
	return s.calls[0].desc;
}

static void expect_desc(const char *rest, struct call_desc want)
{
	struct call_desc got = desc_of(rest);

	if (memcmp(&got, &want, sizeof(got)) != 0)
		printf("# %s\n", rest);
	EXPECT_EQ(got.op, want.op);
	EXPECT_EQ(got.class, want.class);
	EXPECT_EQ(got.kind, want.kind);
	EXPECT_EQ(got.flags, want.flags);
	EXPECT_EQ(got.addr_arg, want.addr_arg);
	EXPECT_EQ(got.size_how, want.size_how);
	EXPECT_EQ(got.size_arg, want.size_arg);
	EXPECT_EQ(got.device_how, want.device_how);
	EXPECT_EQ(got.device_arg, want.device_arg);
	EXPECT_EQ(got.stream_arg, want.stream_arg);
	EXPECT_EQ(got.result, want.result);
	EXPECT_EQ(got.slot, want.slot);
}

TEST(every_form_of_a_call)
{
	expect_desc("op = \"alloc\"; address = \"*arg1\"; bytes = \"arg3\"; device = \"arg2\"; result = \"none\";",
		    (struct call_desc){ .op = CALL_ALLOC, .class = CLASS_FRAMEWORK, .kind = ADDR_FRAMEWORK,
					.flags = CALL_F_STACK, .addr_arg = 1, .size_how = SIZE_ARG, .size_arg = 3,
					.device_how = DEVICE_ARG, .device_arg = 2, .stream_arg = ARG_NONE,
					.result = RESULT_NONE, .slot = 1 });
	expect_desc("op = \"alloc\"; address = \"result\"; bytes = \"arg0*arg1\"; stack = false; class = \"framework\";",
		    (struct call_desc){ .op = CALL_ALLOC, .class = CLASS_FRAMEWORK, .kind = ADDR_FRAMEWORK,
					.size_how = SIZE_PRODUCT, .size_arg = 0, .device_how = DEVICE_NONE,
					.stream_arg = ARG_NONE, .result = RESULT_POINTER, .slot = 1 });
	expect_desc("op = \"alloc\"; address = \"arg5\"; bytes = \"arg4*arg5\"; class = \"device\"; stack = true;",
		    (struct call_desc){ .op = CALL_ALLOC, .class = CLASS_DEVICE, .kind = ADDR_POINTER,
					.flags = CALL_F_STACK | CALL_F_ADDR_VALUE, .addr_arg = 5, .size_how = SIZE_PRODUCT,
					.size_arg = 4, .device_how = DEVICE_CURRENT, .stream_arg = ARG_NONE,
					.result = RESULT_ZERO });
	expect_desc("op = \"alloc\"; address = \"result\"; bytes = \"arg0\"; class = \"host\"; result = \"pointer\";",
		    (struct call_desc){ .op = CALL_ALLOC, .class = CLASS_HOST, .flags = CALL_F_STACK, .size_how = SIZE_ARG,
					.device_how = DEVICE_CURRENT, .stream_arg = ARG_NONE, .result = RESULT_POINTER });
	expect_desc("op = \"free\"; address = \"arg1\";",
		    (struct call_desc){ .op = CALL_FREE, .class = CLASS_FRAMEWORK, .kind = ADDR_FRAMEWORK, .addr_arg = 1,
					.device_how = DEVICE_NONE, .stream_arg = ARG_NONE, .result = RESULT_NONE,
					.slot = 1 });
	expect_desc("op = \"free\"; address = \"arg0\"; result = \"zero\"; class = \"managed\"; stack = false;",
		    (struct call_desc){ .op = CALL_FREE, .class = CLASS_MANAGED, .device_how = DEVICE_CURRENT,
					.stream_arg = ARG_NONE, .result = RESULT_ZERO });
	EXPECT_EQ(desc_of("op = \"free\"; address = \"arg0\"; class = \"array\";").class, CLASS_ARRAY);
	EXPECT_EQ(desc_of("op = \"free\"; address = \"arg0\"; class = \"physical\";").class, CLASS_PHYSICAL);
	EXPECT_EQ(desc_of("op = \"free\"; address = \"arg0\"; class = \"async\";").class, CLASS_ASYNC);
}

#define E "g.conf:1: error: "
#define ALLOC GOOD "op = \"alloc\"; address = \"*arg0\"; bytes = \"arg1\"; "

static const struct {
	const char *group, *errors;
} bad[] = {
	{ ALLOC "class = \"frame\";", E "unknown class \"frame\": known are framework, device, managed, host, array, physical, "
				      "async\n" },
	{ ALLOC "class = \"devic\";", E "unknown class \"devic\": did you mean \"device\"?\n" },
	{ ALLOC "class = \"graph\";", E "unknown class \"graph\": known are framework, device, managed, host, array, physical, "
				      "async\n" },
	{ ALLOC "sise = 1;", E "unknown key of a call \"sise\": known are library, symbol, op, class, address, bytes, device, "
			     "result, stack\n" },
	{ ALLOC "device = \"arg6\";", E "device = \"arg6\" is out of range: arguments go from arg0 to arg5, the object of a C++ "
				      "method being arg0\n" },
	{ ALLOC "device = \"0\";", E "device = \"0\" is none of \"arg0\" to \"arg5\"\n" },
	{ ALLOC "result = \"pointer\";", E "result = \"pointer\" goes with address = \"result\": write \"zero\" or \"none\"\n" },
	{ ALLOC "stack = 1;", E "stack needs true or false, without quotes\n" },
	{ ALLOC "device = 2;", E "device needs a string in double quotes\n" },
	{ "symbol = \"f\"; op = \"alloc\"; address = \"*arg0\"; bytes = \"arg1\";",
	  E "this call has no library: add a pattern for the names of its files, such as library = \"libc10_cuda.so*\"\n" },
	{ "library = \"libx.so\"; op = \"free\"; address = \"arg0\";",
	  E "this call has no symbol: add the function's name, such as symbol = \"pool_alloc\"\n" },
	{ GOOD "address = \"arg0\";", E "this call has no op: add op = \"alloc\" or \"free\"\n" },
	{ GOOD "op = \"allocate\"; address = \"arg0\";", E "unknown op \"allocate\": known are alloc, free\n" },
	{ GOOD "op = \"alloc\"; bytes = \"arg0\";",
	  E "this call has no address: add where the address is, such as address = \"*arg0\" or \"result\"\n" },
	{ GOOD "op = \"alloc\"; address = \"result\";",
	  E "this call has no bytes: add which argument has the size, such as bytes = \"arg1\"\n" },
	{ GOOD "op = \"free\";", E "this call has no address: add which argument is freed, such as address = \"arg0\"\n" },
	{ GOOD "op = \"free\"; address = \"*arg0\";",
	  E "address = \"*arg0\": what is freed is an argument: write \"argN\"\n" },
	{ GOOD "op = \"free\"; address = \"arg0\"; bytes = \"arg1\";",
	  E "bytes says nothing at a free, the allocation's bytes are known: remove it\n" },
	{ GOOD "op = \"free\"; address = \"arg0\"; device = \"arg1\";",
	  E "device says nothing at a free, the allocation's device is known: remove it\n" },
	{ GOOD "op = \"free\"; address = \"arg0\"; stack = true;", E "no stack is taken of a free: remove it\n" },
	{ GOOD "op = \"alloc\"; address = \"*arg12\"; bytes = \"arg1\";",
	  E "address = \"*arg12\" is out of range: arguments go from arg0 to arg5, the object of a C++ method being arg0\n" },
	{ GOOD "op = \"alloc\"; address = \"there\"; bytes = \"arg1\";",
	  E "address = \"there\" is none of \"argN\" (the address itself), \"*argN\" (the call writes it there) and \"result\" "
	    "(the call returns it)\n" },
	{ GOOD "op = \"alloc\"; address = \"result\"; bytes = \"arg0*arg2\";",
	  E "bytes = \"arg0*arg2\": only an argument and the next one can be multiplied\n" },
	{ GOOD "op = \"alloc\"; address = \"result\"; bytes = \"arg5*arg6\";",
	  E "bytes = \"arg5*arg6\" is out of range: arguments go from arg0 to arg5, the object of a C++ method being arg0\n" },
	{ GOOD "op = \"alloc\"; address = \"result\"; bytes = \"arg1 * 4\";",
	  E "bytes = \"arg1 * 4\" is none of \"argN\" and \"argN*argM\"\n" },
	{ GOOD "op = \"alloc\"; address = \"result\"; bytes = \"arg1\"; result = \"zero\";",
	  E "result = \"zero\" contradicts address = \"result\": leave result out\n" },
	{ "library = \"/usr/lib/libx.so\"; symbol = \"f\"; op = \"free\"; address = \"arg0\";",
	  E "library = \"/usr/lib/libx.so\" is compared with the name of a file without its folders: leave them out\n" },
	{ "library = \"*s*\"; symbol = \"f\"; op = \"free\"; address = \"arg0\";",
	  E "library = \"*s*\" fits nearly every file: write more of the name\n" },
	{ "library = \"libx.so\"; symbol = \"*::*\"; op = \"free\"; address = \"arg0\";",
	  E "symbol = \"*::*\" fits nearly every function: write more of the name\n" },
	/* All of a row's errors, and of all rows. */
	{ GOOD "op = \"alloc\"; address = \"arg9\"; bytes = \"arg8\"; }, 5, {",
	  E "address = \"arg9\" is out of range: arguments go from arg0 to arg5, the object of a C++ method being arg0\n"
	  E "bytes = \"arg8\" is out of range: arguments go from arg0 to arg5, the object of a C++ method being arg0\n"
	  E "calls needs a group: { key = value; ... }\n"
	  E "this call has no op: add op = \"alloc\" or \"free\"\n" },
};

TEST(bad_calls_are_told_with_the_cure)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_(settings_done) struct settings s = {};
		_cleanup_free_ char *errors = NULL;
		char text[1024];

		snprintf(text, sizeof(text), "calls = ( { %s } );", bad[i].group);
		EXPECT_EQ(parse(text, &s, &errors), -EINVAL);
		EXPECT_STR(errors, bad[i].errors);
		EXPECT_EQ(s.calls_len, 0);
	}
}

TEST(other_bad_lists)
{
	static const struct {
		const char *text, *errors;
	} lists[] = {
		{ "calls = { };", E "calls needs a list of groups: ( { library = \"...\"; ... }, { ... } )\n" },
		{ "calls = [ \"a\" ];", E "calls needs a list of groups: ( { library = \"...\"; ... }, { ... } )\n" },
		{ "calls = (\n { " ALLOC "},\n\n { " ALLOC "} );",
		  "g.conf:4: error: this function is in the list already, at line 2: remove one of the two\n" },
		{ "trace_frameworks = [ \"pytorch\",\n \"torch\" ];",
		  "g.conf:2: error: unknown framework \"torch\": did you mean \"pytorch\"?\n" },
		{ "trace_frameworks = [ \"pytorch\",\n \"pytorch\" ];",
		  "g.conf:2: error: pytorch is in the list twice: remove one of the two\n" },
		{ "trace_frameworks = true;", E "trace_frameworks needs a string or a list of strings: [ \"one\", \"two\" ]\n" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		_cleanup_(settings_done) struct settings s = {};
		_cleanup_free_ char *errors = NULL;

		EXPECT_EQ(parse(lists[i].text, &s, &errors), -EINVAL);
		EXPECT_STR(errors, lists[i].errors);
		EXPECT_EQ(s.calls_len, 0);
	}
}

static void add_calls(struct strbuf *sb, int n)
{
	strbuf_adds(sb, "calls = (\n");
	for (int i = 0; i < n; i++)
		strbuf_addf(sb, "%s{ library = \"libx.so\"; symbol = \"free_%d\"; op = \"free\"; address = \"arg0\"; }\n",
			    i ? "," : "", i);
	strbuf_adds(sb, ");\n");
}

TEST(as_many_as_fit)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	_cleanup_(settings_done) struct settings s = {}, more = {}, both = {};
	_cleanup_free_ char *errors = NULL, *more_errors = NULL, *both_errors = NULL;

	add_calls(&sb, USER_CALLS_MAX);
	EXPECT_EQ(parse(strbuf_str(&sb), &s, &errors), 0);
	EXPECT_STR(errors, "");
	EXPECT_EQ(s.calls_len, USER_CALLS_MAX);
	/* The built-in ones leave room for all of them. */
	EXPECT_EQ(calls_init(s.calls, s.calls_len), 0);
	EXPECT(calls_len() <= CALL_MAX);
	EXPECT_STR(call_symbol((unsigned)calls_len() - 1), "free_63");
	ASSERT(call_user((unsigned)calls_len() - 1));
	EXPECT_EQ(call_user((unsigned)calls_len() - 1)->line, USER_CALLS_MAX + 1);
	EXPECT(!call_user((unsigned)calls_len() - USER_CALLS_MAX - 1));
	EXPECT_EQ(calls_init(NULL, 0), 0);

	strbuf_adds(&sb, "trace_frameworks = \"pytorch\";\n");
	EXPECT_EQ(parse(strbuf_str(&sb), &both, &both_errors), -EINVAL);
	EXPECT_STR(both_errors, "g.conf:67: error: the 6 calls of pytorch and those in calls do not fit: 64 in all, write fewer "
				"of your own\n");
	strbuf_reset(&sb);
	add_calls(&sb, USER_CALLS_MAX + 1);
	EXPECT_EQ(parse(strbuf_str(&sb), &more, &more_errors), -EINVAL);
	EXPECT_STR(more_errors, "g.conf:66: error: more than 64 calls do not fit: one pattern may stand for several functions\n");
}

TEST(frameworks_come_last_and_are_what_one_could_write)
{
	_cleanup_(settings_done) struct settings s = {};
	_cleanup_free_ char *errors = NULL;

	EXPECT_EQ(parse("trace_frameworks = [ \"pytorch\" ];\n"
			"calls = ( { library = \"libc10_cuda.so*\"; symbol = \"mine::malloc(*\"; op = \"alloc\"; "
			"address = \"*arg1\"; bytes = \"arg3\"; device = \"arg2\"; result = \"none\"; } );\n",
			&s, &errors),
		  0);
	EXPECT_STR(errors, "");
	ASSERT(s.calls_len == 7);
	EXPECT_STR(s.calls[0].symbol, "mine::malloc(*");
	EXPECT_STR(s.calls[0].file, "g.conf");
	EXPECT_EQ(s.calls[0].line, 2);
	EXPECT(!s.calls[0].is_preset && s.calls[1].is_preset);
	EXPECT_EQ(s.calls[1].line, 1);
	EXPECT(memcmp(&s.calls[0].desc, &s.calls[1].desc, sizeof(s.calls[0].desc)) == 0);
	for (size_t i = 1; i < s.calls_len; i++) {
		struct call_desc free_desc = desc_of("op = \"free\"; address = \"arg1\";");
		const struct call_desc *d = &s.calls[i].desc;

		free_desc.addr_arg = d->addr_arg;
		EXPECT(memcmp(d, d->op == CALL_FREE ? &free_desc : &s.calls[0].desc, sizeof(*d)) == 0);
	}
	/* A free that cannot fail needs no probe of its return. */
	EXPECT_EQ(calls_init(s.calls, s.calls_len), 0);
	for (unsigned i = 0; i < calls_len(); i++) {
		if (call_user(i))
			EXPECT_EQ(call_get(i)->how, call_get(i)->desc.op == CALL_FREE ? CALL_ENTRY_ONLY : 0);
	}
	EXPECT_EQ(calls_init(NULL, 0), 0);
}

TEST_MAIN()
