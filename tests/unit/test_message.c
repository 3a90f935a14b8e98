/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "model/process.h"
#include "record_check.h"
#include "record_make.h"
#include "test.h"

/* First line of the report's record, which it frees; the caller frees the line. */
static char *line_of(struct report *r)
{
	_cleanup_(record_freep) struct record *rec = NULL;
	const char *message;
	int err = record_build(r, NULL, false, NULL, &rec);

	report_free(r);
	if (err < 0 || check_record(rec))
		return make_str(rec ? check_record(rec) : "no memory");
	message = record_get(rec, "MESSAGE");
	return strndup(message, strcspn(message, "\n"));
}

#define EXPECT_LINE(r, text)                                                                                           \
	do {                                                                                                           \
		_cleanup_free_ char *line_ = line_of(r);                                                               \
		EXPECT_STR(line_, text);                                                                               \
	} while (0)

static struct report *make(enum report_event event, enum report_state state, enum value_unit unit, uint64_t value,
			   uint64_t limit, const char *rule)
{
	struct report *r = make_report(event);

	r->state = state;
	r->value_unit = unit;
	r->value = value;
	r->limit = limit;
	free(r->rule);
	r->rule = make_str(rule);
	return r;
}

TEST(live_bytes)
{
	struct report *r;

	EXPECT_LINE(make_report(REPORT_LIVE_BYTES),
		    "python3[4711] train.service holds 41.2 GiB on GPU 0, over 40 GiB (rule process-quota)");

	r = make_report(REPORT_LIVE_BYTES);
	r->state = STATE_REPEAT;
	r->duration_ns = 1800 * NSEC_PER_SEC;
	EXPECT_LINE(r, "python3[4711] train.service still holds 41.2 GiB on GPU 0, over 40 GiB for 30m (rule process-quota)");

	r = make_report(REPORT_LIVE_BYTES);
	r->state = STATE_RESOLVED;
	r->duration_ns = 720 * NSEC_PER_SEC;
	r->value = GIB(12);
	EXPECT_LINE(r, "python3[4711] train.service is back to 12 GiB on GPU 0, was over 40 GiB for 12m, peak 42 GiB "
		       "(rule process-quota)");

	r = make_report(REPORT_LIVE_BYTES);
	r->state = STATE_RESOLVED;
	r->value = ABSENT_U64;
	EXPECT_LINE(r, "python3[4711] train.service is below its limit again, was over 40 GiB on GPU 0, peak 42 GiB "
		       "(rule process-quota)");

	/* A crowd does not end with the last of its processes. */
	r = make_report(REPORT_LIVE_BYTES);
	r->state = STATE_RESOLVED;
	r->process_ended = true;
	r->scope = SCOPE_USER;
	r->scope_key = make_str("bob");
	r->value = 0;
	EXPECT_LINE(r, "user bob is back to 0 B on GPU 0, was over 40 GiB, peak 42 GiB (rule process-quota)");

	r = make_report(REPORT_LIVE_BYTES);
	r->state = STATE_RESOLVED;
	r->process_ended = true;
	r->duration_ns = 720 * NSEC_PER_SEC;
	EXPECT_LINE(r, "python3[4711] train.service has ended, was over 40 GiB on GPU 0 for 12m, peak 42 GiB "
		       "(rule process-quota)");
}

TEST(live_bytes_without_what_is_not_known)
{
	struct report *r = make_report(REPORT_LIVE_BYTES);

	identity_unref(r->id);
	r->id = NULL;
	free(r->device_uuid);
	r->device_uuid = NULL;
	r->device_index = -1;
	r->limit = ABSENT_U64;
	EXPECT_LINE(r, "an unknown process holds 41.2 GiB (rule process-quota)");

	r = make_report(REPORT_LIVE_BYTES);
	r->device_index = -1;
	free(r->id->comm);
	r->id->comm = NULL;
	free(r->id->unit);
	r->id->unit = NULL;
	EXPECT_LINE(r, "?[4711] holds 41.2 GiB on GPU-12345678-1234-1234-1234-123456789abc, over 40 GiB (rule process-quota)");
}

TEST(inexact_is_said)
{
	struct report *r = make_report(REPORT_LIVE_BYTES);

	r->exact = false;
	r->lost_events = 3;
	EXPECT_LINE(r, "python3[4711] train.service holds 41.2 GiB on GPU 0, over 40 GiB "
		       "(rule process-quota; events were lost, not exact)");
	r = make_report(REPORT_LIVE_BYTES);
	r->exact = false;
	r->lost_events = 0;
	r->driver_bytes = GIB(1);
	EXPECT_LINE(r, "python3[4711] train.service holds 41.2 GiB on GPU 0, over 40 GiB "
		       "(rule process-quota; more than the driver says, not exact)");
	r = make_report(REPORT_LIVE_BYTES);
	r->exact = false;
	free(r->rule);
	r->rule = NULL;
	EXPECT_LINE(r, "python3[4711] train.service holds 41.2 GiB on GPU 0, over 40 GiB (not exact)");
}

TEST(scopes)
{
	static const struct {
		enum rule_scope scope;
		const char *key, *line;
	} cases[] = {
		{ SCOPE_DEVICE, "GPU-x", "GPU 0 holds 41.2 GiB of 80 GiB, over 40 GiB (rule process-quota)" },
		{ SCOPE_CGROUP, "/ml.slice", "cgroup /ml.slice holds 41.2 GiB on GPU 0, over 40 GiB (rule process-quota)" },
		{ SCOPE_UNIT, "a\\x2db.service", "a\\x2db.service holds 41.2 GiB on GPU 0, over 40 GiB (rule process-quota)" },
		{ SCOPE_USER, "bob", "user bob holds 41.2 GiB on GPU 0, over 40 GiB (rule process-quota)" },
		{ SCOPE_CONTAINER, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		  "container 0123456789ab holds 41.2 GiB on GPU 0, over 40 GiB (rule process-quota)" },
		{ SCOPE_CONTAINER, "web-1", "container web-1 holds 41.2 GiB on GPU 0, over 40 GiB (rule process-quota)" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct report *r = make_report(REPORT_LIVE_BYTES);

		r->scope = cases[i].scope;
		r->scope_key = make_str(cases[i].key);
		EXPECT_LINE(r, cases[i].line);
	}
}

TEST(user_unit_says_more_than_the_manager)
{
	struct report *r = make_report(REPORT_LIVE_BYTES);

	free(r->id->unit);
	r->id->unit = make_str("user@1000.service");
	r->id->user_unit = make_str("jupyter.service");
	EXPECT_LINE(r, "python3[4711] jupyter.service holds 41.2 GiB on GPU 0, over 40 GiB (rule process-quota)");
}

TEST(a_pod_says_more_than_the_unit_of_its_container)
{
	struct report *r = make_report(REPORT_LIVE_BYTES);

	free(r->id->unit);
	r->id->unit = make_str("cri-containerd-0123.scope");
	r->id->pod_namespace = make_str("ml");
	r->id->pod_name = make_str("trainer-0");
	EXPECT_LINE(r, "python3[4711] ml/trainer-0 holds 41.2 GiB on GPU 0, over 40 GiB (rule process-quota)");
}

TEST(single_alloc)
{
	struct report *r = make(REPORT_SINGLE_ALLOC, STATE_FIRING, VALUE_BYTES, GIB(18), GIB(16), "huge-alloc");

	r->bytes = GIB(18);
	r->function = "cuMemAlloc_v2";
	EXPECT_LINE(r, "python3[4711] train.service allocated 18 GiB at once on GPU 0 (cuMemAlloc_v2), over 16 GiB "
		       "(rule huge-alloc)");
}

TEST(alloc_rate)
{
	struct report *r;

	EXPECT_LINE(make(REPORT_ALLOC_RATE, STATE_FIRING, VALUE_CALLS_PER_SEC, 2400, 2000, "alloc-storm"),
		    "python3[4711] train.service allocates at a rate of 2400/s on GPU 0, over 2000/s (rule alloc-storm)");
	EXPECT_LINE(make(REPORT_ALLOC_RATE, STATE_REPEAT, VALUE_BYTES_PER_SEC, GIB(9), GIB(8), "alloc-storm"),
		    "python3[4711] train.service still allocates 9 GiB/s on GPU 0, over 8 GiB/s (rule alloc-storm)");
	r = make(REPORT_ALLOC_RATE, STATE_RESOLVED, VALUE_CALLS_PER_SEC, 12, 2000, "alloc-storm");
	r->duration_ns = 300 * NSEC_PER_SEC;
	EXPECT_LINE(r, "python3[4711] train.service is back to allocating at a rate of 12/s on GPU 0, was over 2000/s for 5m "
		       "(rule alloc-storm)");
	r = make(REPORT_ALLOC_RATE, STATE_RESOLVED, VALUE_BYTES_PER_SEC, 0, GIB(8), "alloc-storm");
	r->process_ended = true;
	EXPECT_LINE(r, "python3[4711] train.service has ended, was over 8 GiB/s on GPU 0 (rule alloc-storm)");
}

TEST(alloc_failure)
{
	struct report *r = make(REPORT_ALLOC_FAILURE, STATE_FIRING, VALUE_CALLS, 1, 1, "oom");

	r->bytes = GIB(4);
	r->live_bytes = GIB(38);
	r->function = "cuMemAlloc_v2";
	r->error = 2;
	EXPECT_LINE(r, "python3[4711] train.service could not allocate 4 GiB on GPU 0: cuMemAlloc_v2 returned "
		       "2 CUDA_ERROR_OUT_OF_MEMORY, it holds 38 GiB (rule oom)");

	r = make(REPORT_ALLOC_FAILURE, STATE_REPEAT, VALUE_CALLS, 5, 1, "oom");
	r->bytes = r->live_bytes = ABSENT_U64;
	r->function = "hipMalloc";
	r->error = 2;
	EXPECT_LINE(r, "python3[4711] train.service could not allocate on GPU 0: hipMalloc returned 2 hipErrorOutOfMemory, "
		       "failure 5 of late (rule oom)");

	r = make(REPORT_ALLOC_FAILURE, STATE_FIRING, VALUE_CALLS, 1, 1, "oom");
	r->bytes = r->live_bytes = ABSENT_U64;
	r->error = 12345;
	EXPECT_LINE(r, "python3[4711] train.service could not allocate on GPU 0: the driver returned 12345 (rule oom)");
}

TEST(leak)
{
	struct report *r = make(REPORT_LEAK, STATE_FIRING, VALUE_BYTES, ABSENT_U64, ABSENT_U64, "leak");

	r->growth_bytes_per_hour = GIB(0.5);
	r->leaked_bytes = GIB(3.2);
	r->full_in_sec = 6 * 3600;
	EXPECT_LINE(r, "python3[4711] train.service is leaking 512 MiB/h on GPU 0, 3.2 GiB so far, full in 6h (rule leak)");

	r = make(REPORT_LEAK, STATE_FIRING, VALUE_BYTES, ABSENT_U64, ABSENT_U64, "leak-suspected");
	r->scope = SCOPE_STACK;
	r->growth_bytes_per_hour = GIB(0.5);
	EXPECT_LINE(r, "python3[4711] train.service may be leaking 512 MiB/h on GPU 0 from one call site (rule leak-suspected)");

	r = make(REPORT_LEAK, STATE_RESOLVED, VALUE_BYTES, ABSENT_U64, ABSENT_U64, "leak");
	r->leaked_bytes = GIB(3.2);
	r->process_ended = true;
	r->duration_ns = 7200 * NSEC_PER_SEC;
	EXPECT_LINE(r, "python3[4711] train.service has ended, had leaked 3.2 GiB on GPU 0 in 2h (rule leak)");

	r = make(REPORT_LEAK, STATE_RESOLVED, VALUE_BYTES, ABSENT_U64, ABSENT_U64, "leak");
	EXPECT_LINE(r, "python3[4711] train.service no longer leaks on GPU 0 (rule leak)");
}

/* It lies on no device, whatever device was current when it was asked for. */
TEST(memory_of_no_device)
{
	struct report *r = make(REPORT_LEAK, STATE_FIRING, VALUE_BYTES, ABSENT_U64, ABSENT_U64, "leak");

	r->classes = 1u << CLASS_HOST;
	r->growth_bytes_per_hour = GIB(0.5);
	r->leaked_bytes = GIB(3.2);
	EXPECT_LINE(r, "python3[4711] train.service is leaking 512 MiB/h of pinned host memory, 3.2 GiB so far (rule leak)");

	r = make(REPORT_LIVE_BYTES, STATE_FIRING, VALUE_BYTES, GIB(41), GIB(40), "big");
	r->classes = 1u << CLASS_MANAGED;
	EXPECT_LINE(r, "python3[4711] train.service holds 41 GiB of managed memory, over 40 GiB (rule big)");

	r = make(REPORT_LIVE_BYTES, STATE_FIRING, VALUE_BYTES, GIB(41), GIB(40), "big");
	r->classes = CLASS_DEVICE_MASK;
	EXPECT_LINE(r, "python3[4711] train.service holds 41 GiB on GPU 0, over 40 GiB (rule big)");
}

/* Below the limit at which it fired, and not below the one at which it resolves. */
TEST(between_the_limits)
{
	struct report *r = make(REPORT_LIVE_BYTES, STATE_REPEAT, VALUE_BYTES, GIB(39), GIB(40), "big");

	EXPECT_LINE(r, "python3[4711] train.service still holds 39 GiB on GPU 0, was over 40 GiB (rule big)");
}

TEST(exit_with_memory)
{
	EXPECT_LINE(make(REPORT_EXIT, STATE_FIRING, VALUE_BYTES, GIB(3), GIB(0.25), "exit-with-live"),
		    "python3[4711] train.service ended with 3 GiB never freed on GPU 0, over 256 MiB (rule exit-with-live)");
}

TEST(growth_beyond_allocations)
{
	struct report *r = make(REPORT_UNTRACKED_GROWTH, STATE_FIRING, VALUE_BYTES, GIB(2.1), GIB(2), "untracked");

	r->driver_bytes = GIB(8.3);
	r->live_bytes = GIB(6.2);
	r->age_sec = 2400;
	EXPECT_LINE(r, "python3[4711] train.service: 2.1 GiB more on GPU 0 than its allocations account for, grown in 40m "
		       "(driver 8.3 GiB, tracked 6.2 GiB) (rule untracked)");
	r = make(REPORT_UNTRACKED_GROWTH, STATE_RESOLVED, VALUE_BYTES, GIB(1), GIB(2), "untracked");
	r->duration_ns = 600 * NSEC_PER_SEC;
	EXPECT_LINE(r, "python3[4711] train.service no longer grows beyond its allocations, was over 2 GiB on GPU 0 for 10m "
		       "(rule untracked)");
}

TEST(orphans)
{
	struct report *r = make(REPORT_ORPHAN, STATE_FIRING, VALUE_BYTES, GIB(22), 0, "orphan");
	_cleanup_free_ char *line = NULL;

	r->condition = CONDITION_PARENT_GONE;
	r->id->start_ticks = 0;
	EXPECT_LINE(r, "python3[4711] train.service /usr/bin/python3.11 holds 22 GiB on GPU 0 and its parent is gone "
		       "(rule orphan)");
	r = make(REPORT_ORPHAN, STATE_REPEAT, VALUE_BYTES, 0, 0, "orphan");
	r->id->start_ticks = 0;
	r->condition = CONDITIONS_ALL;
	EXPECT_LINE(r, "python3[4711] train.service /usr/bin/python3.11 still holds memory on GPU 0 and its parent is gone, it is "
		       "dead but not waited for, it is stuck in the kernel, there is no such process (rule orphan)");
	r = make(REPORT_ORPHAN, STATE_RESOLVED, VALUE_BYTES, GIB(22), 0, "orphan");
	r->id->start_ticks = 0;
	r->process_ended = true;
	r->duration_ns = 600 * NSEC_PER_SEC;
	EXPECT_LINE(r, "python3[4711] train.service /usr/bin/python3.11 has ended on GPU 0 after 10m (rule orphan)");
	/* When it started is a matter of when the machine did. */
	r = make(REPORT_ORPHAN, STATE_FIRING, VALUE_BYTES, GIB(22), 0, "orphan");
	line = line_of(r);
	EXPECT(strstr(line, "python3.11 (started 20") && strstr(line, ") holds 22 GiB"));
}

TEST(processes_without_a_call)
{
	struct report *r = make(REPORT_COVERAGE, STATE_NONE, VALUE_BYTES, ABSENT_U64, ABSENT_U64, "x");

	free(r->rule);
	r->rule = NULL;
	r->driver_bytes = GIB(1.5);
	r->reason = "started before gpuxray and made no call since";
	EXPECT_LINE(r, "python3[4711] train.service holds 1.5 GiB on GPU 0 by the driver's count, but no call of it has been "
		       "seen: started before gpuxray and made no call since");
}

TEST(summary_of_many)
{
	struct report *r = make_report(REPORT_LIVE_BYTES);

	r->others = 37;
	EXPECT_LINE(r, "37 more processes over the limit of 40 GiB (rule process-quota)");
	r = make_report(REPORT_LEAK);
	r->others = 1;
	r->limit = ABSENT_U64;
	r->scope = SCOPE_STACK;
	EXPECT_LINE(r, "1 more call site leaking (rule process-quota)");
}

TEST(message_of_the_rule)
{
	struct report *r = make_report(REPORT_LIVE_BYTES);

	r->message = make_str("Bitte 40 GiB nicht überschreiten: python3");
	EXPECT_LINE(r, "Bitte 40 GiB nicht überschreiten: python3");
	r = make_report(REPORT_LIVE_BYTES);
	r->state = STATE_RESOLVED;
	r->message = make_str("quota\nforged");
	EXPECT_LINE(r, "resolved: quota\\x0aforged");
	/* A name was escaped when it was filled in; what stands in the rule was not. */
	r = make_report(REPORT_LIVE_BYTES);
	r->message = make_str("p\\x1b[31m and \x1b");
	EXPECT_LINE(r, "p\\x1b[31m and \\x1b");
}

TEST(daemon_says_something_even_without_text)
{
	for (int e = REPORT_START; e < REPORT_EVENT_MAX; e++) {
		struct report *r = report_new((enum report_event)e);
		_cleanup_free_ char *line = NULL;

		ASSERT(r);
		line = line_of(r);
		EXPECT(strncmp(line, "gpuxray", 7) == 0);
	}
}

/* Too long for 200 characters: names are shortened, but who, what, how much and the limit stay. */
TEST(long_names_are_shortened)
{
	struct report *r = make_report(REPORT_LIVE_BYTES);
	_cleanup_free_ char *line = NULL;

	free(r->id->unit);
	free(r->rule);
	free(r->id->comm);
	r->id->comm = make_str("\x01\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x0f\x10\x11\x12");
	r->id->unit = make_str("a-very-long-name-of-a-unit-that-goes-on-and-on-and-on-until-nobody-wants-to-read-any-more.service");
	r->rule = make_str("a-very-long-name-of-a-rule-that-goes-on-and-on-and-on-until-nobody-wants-to-read-any-more");
	r->exact = false;
	r->lost_events = 1;
	line = line_of(r);
	EXPECT(strlen(line) <= 200);
	EXPECT(strncmp(line, "\\x01\\x02\\x03\\x04\\x05\\x06\\x07...[4711] a-very-long", 48) == 0);
	EXPECT(strstr(line, " holds 41.2 GiB on GPU 0, over 40 GiB (rule a-very"));
	EXPECT(strstr(line, "; events were lost, not exact)"));
}

TEST(message_of_the_rule_is_cut_at_200_characters)
{
	struct report *r = make_report(REPORT_LIVE_BYTES);
	_cleanup_free_ char *line = NULL;
	char text[301 * 2] = "";

	for (int i = 0; i < 300; i++)
		strcat(text, "ü");
	r->message = make_str(text);
	line = line_of(r);
	EXPECT_EQ(check_chars(line, strlen(line)), 200);
	EXPECT_STR(line + strlen(line) - 5, "ü...");

	/* An escape is not cut in two. */
	r = make_report(REPORT_LIVE_BYTES);
	memset(text, 'x', 196);
	strcpy(text + 196, "\x01\x02\x03");
	r->message = make_str(text);
	free(line);
	line = line_of(r);
	EXPECT_EQ(strlen(line), 199);
	EXPECT_STR(line + 195, "x...");
}

static void set_frame(struct stack_text *st, size_t i, const char *text, bool is_python, bool is_allocator)
{
	free(st->frames[i].text);
	st->frames[i] = (struct text_frame){ make_str(text), is_python, is_allocator };
}

/* What a person needs at night: which driver call, and from where in the program. */
TEST(body)
{
	_cleanup_(report_freep) struct report *r = make_report(REPORT_SINGLE_ALLOC);
	_cleanup_(stack_text_freep) struct stack_text *st = make_stack(30);
	_cleanup_(record_freep) struct record *rec = NULL;
	const char *body;

	set_frame(st, 0, "cuMemAlloc_v2+0x0 (libcuda.so.1)", false, true);
	for (size_t i = 1; i < 5; i++)
		st->frames[i].is_allocator = true;
	set_frame(st, 20, "__init__ (rmm/mr.py:3)", true, true);
	set_frame(st, 21, "forward (torch/nn/modules/linear.py:116)", true, false);
	set_frame(st, 22, "step (train.py:31)", true, false);
	set_frame(st, 23, "<module> (train.py:88)", true, false);
	ASSERT(record_build(r, st, false, NULL, &rec) == 0);
	EXPECT(!check_all(rec) && !check_stack(rec, 30));
	body = strstr(record_get(rec, "MESSAGE"), "\n\n");
	ASSERT(body);
	EXPECT_STR(body, "\n\ncuMemAlloc_v2+0x0 (libcuda.so.1)\n[18 more frames]\nframe_19+0x130 (libmodel.so)\n"
			 "__init__ (rmm/mr.py:3)\nforward (torch/nn/modules/linear.py:116)\nstep (train.py:31)\n"
			 "<module> (train.py:88)\n[6 more frames]");
}

TEST(body_of_long_names)
{
	_cleanup_(report_freep) struct report *r = make_report(REPORT_SINGLE_ALLOC);
	_cleanup_(stack_text_freep) struct stack_text *st = make_stack(30);
	_cleanup_(record_freep) struct record *rec = NULL;
	char name[601] = "";

	memset(name, 'n', 600);
	for (size_t i = 0; i < 30; i++)
		set_frame(st, i, name, false, false);
	ASSERT(record_build(r, st, false, NULL, &rec) == 0);
	EXPECT(!check_all(rec) && !check_stack(rec, 30));
	EXPECT(strlen(record_get(rec, "MESSAGE")) <= 2560);
	EXPECT(strstr(record_get(rec, "MESSAGE"), "nnn...\n[26 more frames]"));
}

TEST_MAIN()
