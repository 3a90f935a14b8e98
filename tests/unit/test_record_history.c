/* SPDX-License-Identifier: MIT */
/* Records of the history: samples, ends of processes, call sites. */
#include "record/ids.h"
#include "record_build.h"
#include "record_check.h"
#include "record_make.h"
#include "test.h"


static struct report *make_sample(void)
{
	struct report *r = make_report(REPORT_SAMPLE);

	free(r->rule);
	r->rule = NULL;
	r->state = STATE_NONE;
	r->seq = 0;
	r->severity = SEVERITY_INFO;
	r->scope = SCOPE_PROCESS;
	r->value = r->limit = ABSENT_U64;
	r->bytes = GIB(2);
	r->low_bytes = GIB(1);
	r->high_bytes = GIB(3);
	r->high_usec = 1796000000000001;
	r->window_sec = 60;
	r->live_bytes = GIB(5);
	r->driver_bytes = GIB(2) + 100;
	r->peak_bytes = GIB(6);
	r->peak_usec = 1796000000000000;
	r->alloc_count = 10;
	r->free_count = 4;
	r->fail_count = 0;
	r->allocated_bytes = GIB(77);
	return r;
}

TEST(sample)
{
	_cleanup_(report_freep) struct report *r = make_sample();
	_cleanup_(record_freep) struct record *rec = NULL, *first = NULL;

	rec = build(r, NULL, true);
	ASSERT(rec);
	EXPECT_SOUND(rec);
	EXPECT_STR(record_get(rec, "MESSAGE"), "python3[4711] train.service holds 2 GiB on GPU 0, had up to 3 GiB (driver 2 GiB)");
	EXPECT_STR(record_get(rec, "MESSAGE_ID"), MESSAGE_ID_SAMPLE);
	EXPECT_STR(record_get(rec, "PRIORITY"), "6");
	EXPECT_STR(record_get(rec, "GPUXRAY_EVENT"), "sample");
	EXPECT_STR(record_get(rec, "GPUXRAY_SEVERITY"), "info");
	EXPECT_STR(record_get(rec, "GPUXRAY_SCOPE"), "process");
	EXPECT_STR(record_get(rec, "GPUXRAY_PID"), "4711");
	EXPECT_STR(record_get(rec, "GPUXRAY_UNIT"), "train.service");
	EXPECT_STR(record_get(rec, "GPUXRAY_BYTES"), "2147483648");
	EXPECT_STR(record_get(rec, "GPUXRAY_LOW_BYTES"), "1073741824");
	EXPECT_STR(record_get(rec, "GPUXRAY_HIGH_BYTES"), "3221225472");
	EXPECT_STR(record_get(rec, "GPUXRAY_HIGH_TIME_USEC"), "1796000000000001");
	EXPECT_STR(record_get(rec, "GPUXRAY_WINDOW_SEC"), "60");
	EXPECT_STR(record_get(rec, "GPUXRAY_LIVE_BYTES"), "5368709120");
	/* Against what is held on this device, not on all. */
	EXPECT_STR(record_get(rec, "GPUXRAY_UNTRACKED_BYTES"), "100");
	EXPECT_STR(record_get(rec, "GPUXRAY_PEAK_TIME_USEC"), "1796000000000000");
	EXPECT_STR(record_get(rec, "GPUXRAY_ALLOC_COUNT"), "10");
	EXPECT_STR(record_get(rec, "GPUXRAY_FREE_COUNT"), "4");
	EXPECT_STR(record_get(rec, "GPUXRAY_FAIL_COUNT"), "0");
	EXPECT_STR(record_get(rec, "GPUXRAY_ALLOCATED_BYTES"), "82678120448");
	EXPECT_STR(record_get(rec, "GPUXRAY_EXACT"), "1");
	/* It is no incident, and no news of the unit's own log. */
	EXPECT(!record_get(rec, "GPUXRAY_STATE") && !record_get(rec, "GPUXRAY_INCIDENT") && !record_get(rec, "GPUXRAY_RULE"));
	EXPECT(!record_get(rec, "OBJECT_PID") && !record_get(rec, "OBJECT_SYSTEMD_UNIT"));
	/* What does not change is in the first one alone. */
	EXPECT(!record_get(rec, "GPUXRAY_EXE") && !record_get(rec, "GPUXRAY_CMDLINE"));
	r->is_first = true;
	first = build(r, NULL, true);
	ASSERT(first);
	EXPECT(record_get(first, "GPUXRAY_EXE") && record_get(first, "GPUXRAY_CMDLINE"));
}

TEST(words_of_a_sample)
{
	static const struct {
		uint64_t bytes, low, high, driver;
		const char *text;
	} cases[] = {
		{ GIB(1), GIB(1), GIB(1), ABSENT_U64, "python3[4711] train.service holds 1 GiB on GPU 0" },
		{ GIB(1), GIB(1), GIB(1), GIB(1), "python3[4711] train.service holds 1 GiB on GPU 0" },
		{ GIB(2), GIB(1), GIB(2), ABSENT_U64, "python3[4711] train.service holds 2 GiB on GPU 0, up from 1 GiB" },
		{ 0, 0, GIB(2), ABSENT_U64, "python3[4711] train.service holds 0 B on GPU 0, had up to 2 GiB" },
		{ 0, 0, 0, 642 << 20, "python3[4711] train.service holds 0 B on GPU 0 (driver 642 MiB)" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(report_freep) struct report *r = make_sample();
		_cleanup_(record_freep) struct record *rec = NULL;

		r->bytes = cases[i].bytes;
		r->low_bytes = cases[i].low;
		r->high_bytes = cases[i].high;
		r->driver_bytes = cases[i].driver;
		rec = build(r, NULL, true);
		ASSERT(rec);
		EXPECT_STR(record_get(rec, "MESSAGE"), cases[i].text);
	}
}

TEST(process_exit)
{
	_cleanup_(report_freep) struct report *r = make_sample();
	_cleanup_(stack_text_freep) struct stack_text *st = make_stack(3);
	_cleanup_(record_freep) struct record *rec = NULL;

	r->event = REPORT_PROCESS_EXIT;
	r->process_ended = true;
	r->fail_count = 2;
	r->duration_ns = UINT64_C(7380) * 1000000000;
	set(&r->device_peaks, "GPU-1 100 1796000000000000\n- 200 0\nGPU\x1b 3 4");
	rec = build(r, st, true);
	ASSERT(rec);
	EXPECT_SOUND(rec);
	EXPECT_STR(record_get(rec, "MESSAGE"),
		   "python3[4711] train.service ended after 2h 3m, peak 6 GiB on GPU 0, holding 5 GiB, 2 failed allocations");
	EXPECT_STR(record_get(rec, "MESSAGE_ID"), MESSAGE_ID_PROCESS_EXIT);
	EXPECT_STR(record_get(rec, "GPUXRAY_EVENT"), "process_exit");
	EXPECT_STR(record_get(rec, "GPUXRAY_DURATION_SEC"), "7380");
	EXPECT_STR(record_get(rec, "GPUXRAY_DEVICE_PEAKS"), "GPU-1 100 1796000000000000\n- 200 0\nGPU\\x1b 3 4");
	EXPECT(record_get(rec, "GPUXRAY_EXE") && record_get(rec, "GPUXRAY_CMDLINE") && record_get(rec, "GPUXRAY_CGROUP"));
	EXPECT(record_get(rec, "GPUXRAY_STACK") && record_get(rec, "GPUXRAY_STACK_ID"));
	EXPECT(!record_get(rec, "GPUXRAY_BYTES") && !record_get(rec, "OBJECT_SYSTEMD_UNIT"));
}

TEST(site)
{
	_cleanup_(report_freep) struct report *r = make_sample();
	_cleanup_(stack_text_freep) struct stack_text *st = make_stack(2);
	_cleanup_(record_freep) struct record *rec = NULL;

	r->event = REPORT_SITE;
	r->stack_bytes = GIB(2);
	rec = build(r, st, true);
	ASSERT(rec);
	EXPECT_SOUND(rec);
	EXPECT_STR(record_get(rec, "MESSAGE"), "python3[4711] train.service holds 2 GiB from one call site\n\n"
					       "frame_0+0x0 (libmodel.so)\nframe_1+0x10 (libmodel.so)");
	EXPECT_STR(record_get(rec, "MESSAGE_ID"), MESSAGE_ID_SITE);
	EXPECT_STR(record_get(rec, "GPUXRAY_EVENT"), "site");
	EXPECT_STR(record_get(rec, "GPUXRAY_STACK_ID"), "0123456789abcdef");
	EXPECT(!record_get(rec, "GPUXRAY_LIVE_BYTES") && !record_get(rec, "GPUXRAY_CMDLINE") && !record_get(rec, "GPUXRAY_DEVICE"));
}

TEST(top_sites)
{
	_cleanup_(report_freep) struct report *r = make_sample();
	_cleanup_(record_freep) struct record *rec = NULL;
	struct frames *f = calloc(1, sizeof(*f));

	ASSERT(f);
	f->id = 0xabc;
	r->sites_len = 2;
	r->sites[0].stack = stack_new_done(7, 4711, f);
	r->sites[0].bytes = GIB(3);
	r->sites[0].blocks = 12;
	r->sites[1].bytes = 4096; /* its stack is not resolved yet */
	r->sites[1].blocks = 1;
	rec = build(r, NULL, true);
	ASSERT(rec);
	EXPECT_STR(record_get(rec, "GPUXRAY_TOP_SITES"), "0000000000000abc 3221225472 12\n- 4096 1");
}

TEST(many_devices)
{
	_cleanup_(report_freep) struct report *r = make_sample();
	_cleanup_(record_freep) struct record *rec = NULL;
	struct strbuf sb = STRBUF_INIT;
	const char *value;

	for (int i = 0; i < 63; i++)
		strbuf_addf(&sb, "%sGPU-00000000-0000-0000-0000-0000000000%02d 99999999999 1796000000000000", i ? "\n" : "", i);
	r->event = REPORT_PROCESS_EXIT;
	ASSERT(strbuf_steal(&sb, &r->device_peaks) == 0);
	rec = build(r, NULL, true);
	ASSERT(rec);
	EXPECT_SOUND(rec);
	/* Whole lines only. */
	value = record_get(rec, "GPUXRAY_DEVICE_PEAKS");
	ASSERT(value);
	EXPECT(strlen(value) > 3700 && strlen(value) <= 3840);
	EXPECT(strcmp(value + strlen(value) - 17, " 1796000000000000") == 0);
}

TEST_MAIN()
