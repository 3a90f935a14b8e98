/* SPDX-License-Identifier: MIT */
#include "record/fields.h"
#include "record/ids.h"
#include "record_build.h"

TEST(field_names_are_legal_and_unique)
{
	size_t n;
	const struct field_desc *t = fields_table(&n);

	EXPECT(n > 40 && n + 20 < RECORD_FIELDS_MAX);
	for (size_t i = 0; i < n; i++) {
		EXPECT(strlen(t[i].name) <= 64);
		EXPECT_EQ(strspn(t[i].name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"), strlen(t[i].name));
		EXPECT(t[i].name[0] != '_' && strncmp(t[i].name, "OBJECT_", 7) != 0);
		for (size_t k = 0; k < i; k++)
			EXPECT(strcmp(t[i].name, t[k].name) != 0);
	}
}

/* The contract with users: a name on this list may never go away. */
TEST(promised_names_are_there)
{
	static const char *const promised[] = {
		"MESSAGE", "MESSAGE_ID", "PRIORITY", "SYSLOG_IDENTIFIER", "GPUXRAY_EVENT", "GPUXRAY_RULE", "GPUXRAY_SEVERITY",
		"GPUXRAY_STATE", "GPUXRAY_FIRING", "GPUXRAY_INCIDENT", "GPUXRAY_SEQ", "GPUXRAY_SCOPE", "GPUXRAY_PID",
		"GPUXRAY_START_TIME", "GPUXRAY_TID", "GPUXRAY_COMM", "GPUXRAY_EXE", "GPUXRAY_CMDLINE", "GPUXRAY_UID",
		"GPUXRAY_USER", "GPUXRAY_CGROUP", "GPUXRAY_UNIT", "GPUXRAY_CONTAINER", "GPUXRAY_POD", "GPUXRAY_DEVICE",
		"GPUXRAY_DEVICE_INDEX", "GPUXRAY_DEVICE_BYTES", "GPUXRAY_DEVICE_USED_BYTES", "GPUXRAY_VALUE", "GPUXRAY_LIMIT",
		"GPUXRAY_VALUE_UNIT", "GPUXRAY_BYTES", "GPUXRAY_LIVE_BYTES", "GPUXRAY_LIVE_COUNT", "GPUXRAY_PEAK_BYTES",
		"GPUXRAY_HOST_BYTES", "GPUXRAY_MANAGED_BYTES", "GPUXRAY_DRIVER_BYTES", "GPUXRAY_UNTRACKED_BYTES",
		"GPUXRAY_GROWTH_BYTES_PER_HOUR", "GPUXRAY_FULL_IN_SEC", "GPUXRAY_LEAKED_BYTES", "GPUXRAY_AGE_SEC",
		"GPUXRAY_FUNCTION", "GPUXRAY_ERROR", "GPUXRAY_STACK", "GPUXRAY_STACK_ID", "GPUXRAY_STACK_BYTES",
		"GPUXRAY_STACK_INFO", "GPUXRAY_SUPPRESSED", "GPUXRAY_LOST_EVENTS", "GPUXRAY_EXACT", "GPUXRAY_DURATION_SEC",
		"GPUXRAY_CONFIDENCE", "GPUXRAY_TAG", "GPUXRAY_TAGS",
	};
	size_t n;
	const struct field_desc *t = fields_table(&n);

	for (size_t i = 0; i < ARRAY_SIZE(promised); i++) {
		size_t k = 0;

		while (k < n && strcmp(t[k].name, promised[i]) != 0)
			k++;
		if (k == n)
			printf("# %s is missing\n", promised[i]);
		EXPECT(k < n);
	}
}

TEST(an_incident_in_full)
{
	_cleanup_(report_freep) struct report *r = make_report(REPORT_LIVE_BYTES);
	_cleanup_(stack_text_freep) struct stack_text *st = make_stack(3);
	_cleanup_(record_freep) struct record *rec = NULL;

	r->stack_bytes = GIB(1);
	r->lost_events = 0;
	r->driver_bytes = GIB(43);
	set(&r->runbook, "https://wiki.example/gpu");
	rec = build(r, st, true);
	ASSERT(rec);
	EXPECT_SOUND(rec);
	EXPECT_STR(record_get(rec, "MESSAGE"),
		   "python3[4711] train.service holds 41.2 GiB on GPU 0, over 40 GiB (rule process-quota)\n\n"
		   "frame_0+0x0 (libmodel.so)\nframe_1+0x10 (libmodel.so)\nframe_2+0x20 (libmodel.so)");
	EXPECT_STR(record_get(rec, "MESSAGE_ID"), MESSAGE_ID_LIVE_BYTES);
	EXPECT_STR(record_get(rec, "PRIORITY"), "4");
	EXPECT_STR(record_get(rec, "SYSLOG_IDENTIFIER"), "gpuxray");
	EXPECT_STR(record_get(rec, "SYSLOG_FACILITY"), "3");
	EXPECT_STR(record_get(rec, "DOCUMENTATION"), "https://wiki.example/gpu");
	EXPECT_STR(record_get(rec, "GPUXRAY_EVENT"), "live_bytes");
	EXPECT_STR(record_get(rec, "GPUXRAY_RULE"), "process-quota");
	EXPECT_STR(record_get(rec, "GPUXRAY_SEVERITY"), "warning");
	EXPECT_STR(record_get(rec, "GPUXRAY_STATE"), "firing");
	EXPECT_STR(record_get(rec, "GPUXRAY_FIRING"), "1");
	EXPECT_STR(record_get(rec, "GPUXRAY_INCIDENT"), "00112233445566778899aabbccddeeff");
	EXPECT_STR(record_get(rec, "GPUXRAY_SEQ"), "1");
	EXPECT_STR(record_get(rec, "GPUXRAY_SCOPE"), "process");
	EXPECT_STR(record_get(rec, "GPUXRAY_TIME_USEC"), "1796000000123456");
	EXPECT_STR(record_get(rec, "GPUXRAY_PID"), "4711");
	EXPECT_STR(record_get(rec, "GPUXRAY_START_TIME"), "123456");
	EXPECT(!record_get(rec, "GPUXRAY_TID"));
	EXPECT_STR(record_get(rec, "GPUXRAY_COMM"), "python3");
	EXPECT_STR(record_get(rec, "GPUXRAY_UID"), "1000");
	EXPECT_STR(record_get(rec, "GPUXRAY_UNIT"), "train.service");
	EXPECT_STR(record_get(rec, "GPUXRAY_VALUE"), "44238163148");
	EXPECT_STR(record_get(rec, "GPUXRAY_LIMIT"), "42949672960");
	EXPECT_STR(record_get(rec, "GPUXRAY_VALUE_UNIT"), "bytes");
	EXPECT_STR(record_get(rec, "GPUXRAY_UNTRACKED_BYTES"), "1932735284");
	EXPECT_STR(record_get(rec, "GPUXRAY_EXACT"), "1");
	EXPECT_STR(record_get(rec, "GPUXRAY_LOST_EVENTS"), "0");
	EXPECT_STR(record_get(rec, "GPUXRAY_STACK_ID"), "0123456789abcdef");
	EXPECT_STR(record_get(rec, "GPUXRAY_STACK_BYTES"), "1073741824");
	EXPECT_STR(record_get(rec, "GPUXRAY_STACK"),
		   "frame_0+0x0 (libmodel.so)\nframe_1+0x10 (libmodel.so)\nframe_2+0x20 (libmodel.so)");
	EXPECT(!record_get(rec, "GPUXRAY_SUPPRESSED"));
	EXPECT(!record_get(rec, "GPUXRAY_LEAKED_BYTES"));
	EXPECT(!record_get(rec, "GPUXRAY_DURATION_SEC"));
	EXPECT(!record_get(rec, "GPUXRAY_CONTAINER"));
	EXPECT_STR(record_get(rec, "OBJECT_PID"), "4711");
	EXPECT(!record_get(rec, "CODE_FILE"));
}

TEST(how_sure_a_leak_is)
{
	static const struct {
		double confidence;
		const char *text;
	} cases[] = { { 0.934, "0.93" }, { 0.998, "0.99" }, { 0, "0.00" }, { 1, "1.00" }, { 0.5, "0.50" }, { -1, NULL } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		for (int event = 0; event <= REPORT_LEAK; event++) {
			_cleanup_(report_freep) struct report *r = make_report((enum report_event)event);
			_cleanup_(record_freep) struct record *rec = NULL;

			r->confidence = cases[i].confidence;
			rec = build(r, NULL, false);
			ASSERT(rec);
			if (cases[i].text && event == REPORT_LEAK)
				EXPECT_STR(record_get(rec, "GPUXRAY_CONFIDENCE"), cases[i].text);
			else
				EXPECT(!record_get(rec, "GPUXRAY_CONFIDENCE"));
		}
	}
}

/* Of the process and of the rule, in all that is said of incidents. */
TEST(tags)
{
	for (int event = 0; event < REPORT_EVENT_MAX; event++) {
		_cleanup_(report_freep) struct report *r = make_report((enum report_event)event);
		_cleanup_(record_freep) struct record *rec = NULL, *none = NULL;
		bool is_incident = event < RULE_KIND_MAX;

		if (event >= REPORT_START)
			set(&r->text, "x");
		none = build(r, NULL, false);
		ASSERT(none);
		EXPECT(!record_get(none, "GPUXRAY_TAG") && !record_get(none, "GPUXRAY_TAGS"));
		set(&r->id->tag, "team\n\xff");
		set(&r->tags, "gpu,page me");
		rec = build(r, NULL, false);
		ASSERT(rec);
		EXPECT_SOUND(rec);
		if (event <= REPORT_PROCESS_EXIT)
			EXPECT_STR(record_get(rec, "GPUXRAY_TAG"), "team\\x0a\\xff");
		else
			EXPECT(!record_get(rec, "GPUXRAY_TAG"));
		if (is_incident)
			EXPECT_STR(record_get(rec, "GPUXRAY_TAGS"), "gpu,page me");
		else
			EXPECT(!record_get(rec, "GPUXRAY_TAGS"));
	}
}

TEST(states_and_priorities)
{
	static const struct {
		enum severity severity;
		enum report_state state;
		const char *priority, *firing;
	} cases[] = {
		{ SEVERITY_CRITICAL, STATE_FIRING, "2", "1" }, { SEVERITY_ERROR, STATE_REPEAT, "3", "1" },
		{ SEVERITY_WARNING, STATE_FIRING, "4", "1" },  { SEVERITY_NOTICE, STATE_FIRING, "5", "1" },
		{ SEVERITY_INFO, STATE_FIRING, "6", "1" },     { SEVERITY_CRITICAL, STATE_RESOLVED, "5", "0" },
		{ SEVERITY_INFO, STATE_RESOLVED, "5", "0" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(report_freep) struct report *r = make_report(REPORT_LIVE_BYTES);
		_cleanup_(record_freep) struct record *rec = NULL;

		r->severity = cases[i].severity;
		r->state = cases[i].state;
		r->duration_ns = 90000000000;
		rec = build(r, NULL, false);
		ASSERT(rec);
		EXPECT_SOUND(rec);
		EXPECT_STR(record_get(rec, "PRIORITY"), cases[i].priority);
		EXPECT_STR(record_get(rec, "GPUXRAY_FIRING"), cases[i].firing);
		EXPECT_STR(record_get(rec, "GPUXRAY_STATE"), report_state_name(cases[i].state));
		EXPECT_STR(record_get(rec, "GPUXRAY_SEVERITY"), severity_name(cases[i].severity));
		EXPECT_STR(record_get(rec, "GPUXRAY_DURATION_SEC"), "90");
	}
}

TEST(every_event_has_its_own_message_id)
{
	for (unsigned e = 0; e <= EVENT_SUPPRESSED; e++) {
		EXPECT(field_event_name(e) && strlen(field_message_id(e)) == 32);
		for (unsigned k = 0; k < e; k++) {
			EXPECT(strcmp(field_message_id(e), field_message_id(k)) != 0);
			EXPECT(strcmp(field_event_name(e), field_event_name(k)) != 0);
		}
	}
}

/* A pid that may be another's must not be sent; the unit makes `journalctl -u` find the record all the same. */
TEST(gone_process_is_named_by_its_unit)
{
	for (int ended = 0; ended < 2; ended++) {
		_cleanup_(report_freep) struct report *r = make_report(REPORT_LIVE_BYTES);
		_cleanup_(record_freep) struct record *rec = NULL;

		r->process_ended = ended;
		set(&r->id->unit, "user@1000.service");
		set(&r->id->user_unit, "note\\x2dbook.service");
		rec = build(r, NULL, ended);
		ASSERT(rec);
		EXPECT_SOUND(rec);
		EXPECT(!record_get(rec, "OBJECT_PID"));
		EXPECT_STR(record_get(rec, "OBJECT_SYSTEMD_UNIT"), "user@1000.service");
		EXPECT_STR(record_get(rec, "OBJECT_SYSTEMD_USER_UNIT"), "note\\x2dbook.service");
	}
}

TEST(process_that_goes_while_the_record_waits)
{
	_cleanup_(report_freep) struct report *r = make_report(REPORT_LIVE_BYTES);
	_cleanup_(record_freep) struct record *rec = build(r, NULL, true);
	size_t before;

	ASSERT(rec);
	EXPECT_EQ(rec->object_pid, 4711);
	EXPECT_EQ(rec->object_start_ticks, 123456);
	before = rec->len;
	record_drop_object_pid(rec);
	EXPECT_SOUND(rec);
	EXPECT_EQ(rec->len, before);
	EXPECT_EQ(rec->object_pid, 0);
	EXPECT(!record_get(rec, "OBJECT_PID"));
	EXPECT_STR(record_get(rec, "OBJECT_SYSTEMD_UNIT"), "train.service");
	EXPECT_STR(record_get(rec, "GPUXRAY_PID"), "4711");
	record_drop_object_pid(rec);
	EXPECT_EQ(rec->len, before);
}

TEST(hostile_unit_is_not_passed_off_as_one)
{
	_cleanup_(report_freep) struct report *r = make_report(REPORT_LIVE_BYTES);
	_cleanup_(record_freep) struct record *rec = NULL;

	set(&r->id->unit, "sshd.service\nOBJECT_PID=1");
	rec = build(r, NULL, false);
	ASSERT(rec);
	EXPECT_SOUND(rec);
	EXPECT(!record_get(rec, "OBJECT_SYSTEMD_UNIT"));
	EXPECT_STR(record_get(rec, "GPUXRAY_UNIT"), "sshd.service\\x0aOBJECT_PID=1");
}

TEST(scope_key_says_what_it_is_about)
{
	static const struct {
		enum rule_scope scope;
		const char *key, *field;
	} cases[] = {
		{ SCOPE_CGROUP, "/ml.slice", "GPUXRAY_CGROUP" },  { SCOPE_UNIT, "serve.service", "GPUXRAY_UNIT" },
		{ SCOPE_USER, "bob", "GPUXRAY_USER" },		  { SCOPE_CONTAINER, "deadbeef", "GPUXRAY_CONTAINER" },
		{ SCOPE_DEVICE, "GPU-other", "GPUXRAY_DEVICE" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		for (int has_id = 0; has_id < 2; has_id++) {
			_cleanup_(report_freep) struct report *r = make_report(REPORT_LIVE_BYTES);
			_cleanup_(record_freep) struct record *rec = NULL;

			r->scope = cases[i].scope;
			r->scope_key = make_str(cases[i].key);
			if (!has_id) {
				identity_unref(r->id);
				r->id = NULL;
			}
			rec = build(r, NULL, false);
			ASSERT(rec);
			EXPECT_SOUND(rec);
			EXPECT_STR(record_get(rec, cases[i].field), cases[i].key);
			if (cases[i].scope == SCOPE_UNIT)
				EXPECT_STR(record_get(rec, "OBJECT_SYSTEMD_UNIT"), "serve.service");
		}
	}
}

TEST(daemon_records)
{
	_cleanup_(report_freep) struct report *r = report_new(REPORT_HEALTH);
	_cleanup_(record_freep) struct record *rec = NULL;

	ASSERT(r);
	r->severity = SEVERITY_INFO;
	r->text = make_str("12 processes, 41.3 GiB live, 2 firing, 0 lost");
	r->detail = make_str("GPUXRAY_PROCESSES=12\nlower=1\nGPUXRAY_EVENT=forged\nGPUXRAY_PROCESSES=13\n=x\nGPUXRAY_\n\n"
			     "GPUXRAY_BAD NAME=1\nOBJECT_PID=1\nGPUXRAY_RULES_FILE=a\x1b[1mb=c\nGPUXRAY_EMPTY=");
	rec = build(r, NULL, true);
	ASSERT(rec);
	EXPECT_SOUND(rec);
	EXPECT_STR(record_get(rec, "MESSAGE"), "12 processes, 41.3 GiB live, 2 firing, 0 lost");
	EXPECT_STR(record_get(rec, "PRIORITY"), "6");
	EXPECT_STR(record_get(rec, "GPUXRAY_EVENT"), "health");
	EXPECT_STR(record_get(rec, "GPUXRAY_PROCESSES"), "12");
	EXPECT_STR(record_get(rec, "GPUXRAY_RULES_FILE"), "a\\x1b[1mb=c");
	EXPECT_STR(record_get(rec, "GPUXRAY_EMPTY"), "");
	EXPECT(!record_get(rec, "lower") && !record_get(rec, "OBJECT_PID") && !record_get(rec, "GPUXRAY_RULE"));
	EXPECT(!record_get(rec, "GPUXRAY_FIRING"));
}

TEST(more_detail_than_fits)
{
	_cleanup_(report_freep) struct report *r = report_new(REPORT_HEALTH);
	_cleanup_(record_freep) struct record *rec = NULL;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	ASSERT(r);
	for (int i = 0; i < 500; i++)
		strbuf_addf(&sb, "GPUXRAY_N%d=%0500d\n", i, i);
	r->detail = make_str(strbuf_str(&sb));
	rec = build(r, NULL, true);
	ASSERT(rec);
	EXPECT_SOUND(rec);
	EXPECT(record_get(rec, "GPUXRAY_N5"));
	EXPECT(!record_get(rec, "GPUXRAY_N499"));
}

TEST(own_words_about_what_was_held)
{
	_cleanup_(record_freep) struct record *rec = NULL;
	char text[] = "9 records held back";

	ASSERT(record_build_suppressed(text, 1796000000123456, &rec) == 0);
	EXPECT_SOUND(rec);
	EXPECT_STR(record_get(rec, "MESSAGE"), "9 records held back");
	EXPECT_STR(record_get(rec, "MESSAGE_ID"), MESSAGE_ID_SUPPRESSED);
	EXPECT_STR(record_get(rec, "GPUXRAY_EVENT"), "suppressed");
	EXPECT_STR(record_get(rec, "PRIORITY"), "4");
}

TEST(suppressed_is_set_late)
{
	_cleanup_(report_freep) struct report *r = make_report(REPORT_LEAK);
	_cleanup_(record_freep) struct record *a = build(r, NULL, true), *b = NULL;

	r->suppressed = 3;
	b = build(r, NULL, true);
	ASSERT(a && b);
	EXPECT_EQ(b->suppressed, 3);
	EXPECT_STR(record_get(b, "GPUXRAY_SUPPRESSED"), "3");
	ASSERT(record_set_suppressed(a, 0) == 0);
	EXPECT(!record_get(a, "GPUXRAY_SUPPRESSED"));
	ASSERT(record_set_suppressed(a, 7) == 0 && record_set_suppressed(b, 1000) == 0);
	EXPECT_STR(record_get(a, "GPUXRAY_SUPPRESSED"), "7");
	EXPECT_STR(record_get(b, "GPUXRAY_SUPPRESSED"), "1000");
	EXPECT_SOUND(a);
	EXPECT_SOUND(b);
}

TEST(hostile_strings)
{
	static const char *const hostile[] = {
		"a\nMESSAGE=forged\n\nPRIORITY=0", "\x1b[2J\x1b]0;title\x07", "\"],[gpuxray@32473 pid=\"1\"", "\\x0a\\n\\",
		"a=b=c", "=", "", " ", "\xff\xfe\x80", "\xc3", "\xe2\x80\xaexpj.exe", "\xe2\x81\xa6x\xe2\x81\xa9",
		"\xc2\x85\xc2\x9b", "\xf4\x90\x80\x80", "\xed\xa0\x80", "\xef\xbf\xbe", "%s%n%d", "\x7f\x01\t\r",
		"\xf0\x9f\x92\xa3", "日本語", "@FIELD@", "]\\\"",
	};

	for (size_t i = 0; i < ARRAY_SIZE(hostile); i++) {
		for (int event = 0; event < REPORT_EVENT_MAX; event++) {
			_cleanup_(report_freep) struct report *r = make_report((enum report_event)event);
			_cleanup_(stack_text_freep) struct stack_text *st = make_stack(2);
			_cleanup_(record_freep) struct record *rec = NULL;
			const char *h = hostile[i];

			set(&r->id->comm, h);
			set(&r->id->exe, h);
			set(&r->id->cmdline, h);
			set(&r->id->user, h);
			set(&r->id->cgroup, h);
			set(&r->id->unit, h);
			set(&r->id->user_unit, h);
			set(&r->id->container, h);
			set(&r->id->pod, h);
			set(&r->id->tag, h);
			set(&r->tags, h);
			set(&r->rule, h);
			set(&r->runbook, h);
			set(&r->device_uuid, h);
			set(&r->device_peaks, h);
			set(&r->text, h);
			set(&r->scope_key, h);
			set(&st->frames[0].text, h);
			set(&st->info, h);
			r->scope = (enum rule_scope)(i % SCOPE_MAX);
			if (i % 2)
				set(&r->message, h);
			if (event >= REPORT_START)
				set(&r->text, *h ? h : "x");
			else if (!*h)
				set(&r->message, NULL);
			rec = build(r, st, true);
			ASSERT(rec);
			EXPECT_SOUND(rec);
		}
	}
}

/* At 4096 bytes with the name `journalctl -o json` would show null. */
TEST(long_fields)
{
	static const size_t lengths[] = { 1023, 4000, 4078, 4079, 4080, 4095, 4096, 4097, 65536, 131072 };
	static const char fill[] = { 'a', '\x01', '\xff', '\\' };

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		for (size_t k = 0; k < sizeof(fill); k++) {
			_cleanup_(report_freep) struct report *r = make_report(REPORT_SINGLE_ALLOC);
			_cleanup_(stack_text_freep) struct stack_text *st = make_stack(180);
			_cleanup_(record_freep) struct record *rec = NULL;
			_cleanup_free_ char *s = repeat(fill[k], lengths[i]);
			char **const texts[] = { &r->id->cmdline, &r->id->exe,	&r->id->comm, &r->id->cgroup, &r->id->unit,
						 &r->id->user,	  &r->rule,	&r->runbook,  &r->message,    &r->id->container,
						 &r->id->pod,	  &st->frames[0].text, &st->info, &r->device_uuid,
						 &r->id->tag, &r->tags };

			for (size_t t = 0; t < ARRAY_SIZE(texts); t++)
				set(texts[t], s);
			r->function = s;
			rec = build(r, st, true);
			ASSERT(rec);
			EXPECT_SOUND(rec);
			EXPECT(record_get(rec, "GPUXRAY_CMDLINE") && record_get(rec, "GPUXRAY_STACK"));
			EXPECT(strstr(record_get(rec, "GPUXRAY_STACK"), "more frames]"));
			EXPECT_STACK(rec, 180);
			EXPECT_STR(record_get(rec, "GPUXRAY_EXACT"), "1");
			EXPECT_STR(record_get(rec, "OBJECT_PID"), "4711");
		}
	}
}

TEST(as_much_as_may_be)
{
	_cleanup_(report_freep) struct report *r = make_report(REPORT_LIVE_BYTES);
	size_t room = 4095 - strlen("GPUXRAY_CMDLINE=");
	_cleanup_(record_freep) struct record *rec = NULL, *longer = NULL;

	free(r->id->cmdline);
	r->id->cmdline = repeat('x', room);
	rec = build(r, NULL, true);
	ASSERT(rec);
	EXPECT_EQ(strlen(record_get(rec, "GPUXRAY_CMDLINE")), room);
	EXPECT(!strstr(record_get(rec, "GPUXRAY_CMDLINE"), "cut"));
	free(r->id->cmdline);
	r->id->cmdline = repeat('x', room + 1);
	longer = build(r, NULL, true);
	ASSERT(longer);
	EXPECT_SOUND(longer);
	EXPECT(strstr(record_get(longer, "GPUXRAY_CMDLINE"), " bytes cut]"));
}

/* Half a secret is no pattern's match. */
TEST(command_line_cut_within_a_word)
{
	_cleanup_(report_freep) struct report *r = make_report(REPORT_LIVE_BYTES);
	_cleanup_(record_freep) struct record *rec = NULL;
	_cleanup_free_ char *s = repeat('x', IDENTITY_CMDLINE_MAX);

	memcpy(s + IDENTITY_CMDLINE_MAX - 10, " hf_AbCdEf", 10);
	set(&r->id->cmdline, s);
	rec = build(r, NULL, true);
	ASSERT(rec);
	EXPECT(!strstr(record_get(rec, "GPUXRAY_CMDLINE"), "hf_"));
}

TEST(json_line)
{
	_cleanup_(record_freep) struct record *rec = NULL;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	char text[] = "a \"quoted\" \\ text";

	ASSERT(record_build_suppressed(text, 5, &rec) == 0);
	record_json(rec, &sb);
	EXPECT_STR(strbuf_str(&sb),
		   "{\"MESSAGE\":\"a \\\"quoted\\\" \\\\x5c text\",\"MESSAGE_ID\":\"" MESSAGE_ID_SUPPRESSED
		   "\",\"PRIORITY\":\"4\",\"SYSLOG_IDENTIFIER\":\"gpuxray\",\"SYSLOG_FACILITY\":\"3\","
		   "\"GPUXRAY_EVENT\":\"suppressed\",\"GPUXRAY_TIME_USEC\":\"5\"}\n");
}

TEST(text_for_eyes)
{
	_cleanup_(report_freep) struct report *r = make_report(REPORT_LIVE_BYTES);
	_cleanup_(stack_text_freep) struct stack_text *st = make_stack(2);
	_cleanup_(record_freep) struct record *rec = build(r, st, true);
	_cleanup_strbuf_ struct strbuf plain = STRBUF_INIT, coloured = STRBUF_INIT;

	ASSERT(rec);
	(void)setenv("TZ", "UTC", 1);
	record_text(rec, &plain, 0);
	EXPECT_STR(strbuf_str(&plain),
		   "2026-11-30 00:53:20 warning  python3[4711] train.service holds 41.2 GiB on GPU 0, over 40 GiB "
		   "(rule process-quota)\n    frame_0+0x0 (libmodel.so)\n    frame_1+0x10 (libmodel.so)\n");
	record_text(rec, &coloured, 1);
	EXPECT(strstr(strbuf_str(&coloured), "\x1b[33mwarning \x1b[0m python3[4711]"));
}

TEST_MAIN()
