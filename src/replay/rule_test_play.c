/* SPDX-License-Identifier: MIT */
/* One test from its first moment to its last expectation. */
#include <errno.h>
#include <string.h>

#include "base/pattern.h"
#include "record/record.h"
#include "replay/recorder.h"
#include "replay/rule_test_private.h"

/* As the trace has it: a recorder's begins with an id. */
static const char *told_frames(const struct test_run *run, uint64_t stack)
{
	const struct rule_test *t = run->test;

	if (run->reader)
		return trace_stack(run->reader, stack);
	return stack > 0 && stack <= t->stacks_len ? t->stacks[stack - 1] : NULL;
}

const char *test_frames(const struct test_run *run, uint64_t stack)
{
	const char *told = told_frames(run, stack);
	uint64_t id;

	return told ? recorder_stack_id(told, &id) : NULL;
}

static const char *on_stack(uint64_t stack, void *userdata)
{
	return told_frames(userdata, stack);
}

static int said_message(const struct test_run *run, const struct report *r, char **ret)
{
	uint64_t number = player_stack_number(run->player, r->stack);
	const char *frames = told_frames(run, number), *message;
	uint64_t id = 0;
	_cleanup_(stack_text_freep) struct stack_text *st = NULL;
	_cleanup_(record_freep) struct record *rec = NULL;
	int q = 0;

	if (frames)
		frames = recorder_stack_id(frames, &id);
	if (frames)
		q = trace_stack_text(frames, id ?: trace_site_key(frames), &st);
	if (q == 0)
		q = record_build(r, st, false, NULL, &rec);
	if (q < 0)
		return q;
	message = record_get(rec, "MESSAGE");
	*ret = strdup(message ? message : "");
	return *ret ? 0 : -ENOMEM;
}

static int said_add(struct test_run *run, struct report *r, uint64_t time_ns)
{
	struct said *list, s = { .report = r, .time_ns = time_ns };
	int q;

	if (run->said_len >= TEST_RECORDS_MAX)
		return errors_add(run->test->errors, run->test->conf->path, 0,
				  "more than %d records: is there a rule without a budget?", TEST_RECORDS_MAX);
	if (run->said_len >= run->said_cap) {
		size_t cap = run->said_cap ? run->said_cap * 2 : 16;

		list = realloc(run->said, cap * sizeof(*list));
		if (!list)
			return -ENOMEM;
		run->said = list;
		run->said_cap = cap;
	}
	q = said_message(run, r, &s.message);
	if (q < 0)
		return q;
	run->said[run->said_len++] = s;
	return 0;
}

static void on_report(struct report *report, uint64_t time_ns, void *userdata)
{
	_cleanup_(report_freep) struct report *r = report;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct test_run *run = userdata;
	int q = run->error ? run->error : said_add(run, r, time_ns);

	if (q < 0) {
		run->error = q;
		return;
	}
	(void)TAKE_PTR(r);
	if (!run->test->options->is_verbose)
		return;
	say_record(&run->said[run->said_len - 1], true, "# ", &sb);
	fputs(strbuf_str(&sb), run->test->options->out);
}

static int tell_devices(struct test_run *run)
{
	const struct rule_test *t = run->test;
	struct trace_item item = { .type = TRACE_GPUS_END };
	int r = 0;

	for (size_t i = 0; i < t->devices_len && r == 0; i++) {
		const struct test_device *d = &t->devices[i];
		const struct trace_item gpu = { .type = TRACE_GPU, .device = d->index, .uuid = d->uuid, .name = d->name,
						.total_bytes = d->total_bytes, .used_bytes = d->used_bytes };

		r = player_feed(run->player, &gpu);
	}
	return r < 0 || t->devices_len == 0 ? r : player_feed(run->player, &item);
}

int test_introduce(struct test_run *run, uint32_t pid, uint64_t time_ns)
{
	struct rule_test *t = run->test;
	struct trace_item item = { .type = TRACE_IDENTITY, .pid = pid, .time_ns = time_ns };
	struct test_process *p = NULL;
	int r = 0;

	for (size_t i = 0; i < t->processes_len && !p; i++)
		p = t->processes[i].pid == pid ? &t->processes[i] : NULL;
	/* A recording tells of its processes itself, and may name any number of them. */
	if (!p && !run->reader)
		p = test_process(t, pid);
	if (!p || p->is_told)
		return p || run->reader ? 0 : -ENOMEM;
	p->is_told = true;
	item.identity = p->identity;
	if (p->identity)
		r = player_feed(run->player, &item);
	for (size_t i = 0; i < t->devices_len && r == 0; i++) {
		const struct trace_item ordinal = { .type = TRACE_ORDINAL, .pid = pid, .time_ns = time_ns,
						    .device = t->devices[i].index, .uuid = t->devices[i].uuid };

		r = player_feed(run->player, &ordinal);
	}
	return r;
}

void test_item_told(struct test_run *run, const struct trace_item *item)
{
	struct rule_test *t = run->test;

	if (item->type != TRACE_EXEC && item->type != TRACE_EXIT)
		return;
	for (size_t i = 0; i < t->processes_len; i++) {
		if (t->processes[i].pid == item->pid)
			t->processes[i].is_told = t->processes[i].has_driver = false;
	}
}

/* What is ahead in a recording; its errors come out here, before anything is played. */
static int look_ahead(struct rule_test *t, struct player_options *o)
{
	_cleanup_(trace_closep) struct trace_reader *reader = NULL;
	struct trace_item item;
	int r, q;

	r = trace_open(t->trace_path, t->errors, &reader);
	if (r < 0)
		return r;
	while ((q = trace_read(reader, t->errors, &item)) != 0 && q != -ENOMEM) {
		r = q < 0 ? q : r;
		o->has_sites = o->has_sites || (q > 0 && item.type == TRACE_SITE);
		o->has_ticks = o->has_ticks || (q > 0 && item.type == TRACE_TICK);
	}
	o->clock = *trace_clock(reader);
	return q < 0 ? q : r;
}

static int run_new(struct test_run *run)
{
	struct rule_test *t = run->test;
	struct player_options o = { .limits = LIMITS_DEFAULT, .clock = TEST_CLOCK, .tick_ns = t->tick_ns,
				    .stretch = t->stretch, .report = on_report, .stack = on_stack, .userdata = run };
	int r = 0;

	if (t->trace_path) {
		r = look_ahead(t, &o);
		if (r == 0)
			r = trace_open(t->trace_path, t->errors, &run->reader);
	}
	/* The rules are its own from here on. */
	if (r == 0)
		r = player_new(&o, TAKE_PTR(t->rules), &run->player);
	return r < 0 ? r : tell_devices(run);
}

static void run_done(struct test_run *run)
{
	for (size_t i = 0; i < run->said_len; i++) {
		report_free(run->said[i].report);
		free(run->said[i].message);
	}
	free(run->said);
	player_free(run->player);
	trace_close(run->reader);
}

int test_play(struct rule_test *t, struct rule_test_counts *counts)
{
	_cleanup_(run_done) struct test_run run = { .test = t, .counts = counts };
	_cleanup_(script_freep) struct script *script = NULL;
	int r;

	r = run_new(&run);
	if (r == 0)
		r = script_new(&run, &script);
	for (size_t i = 0; i < t->expects_len && r == 0; i++) {
		const struct expectation *x = &t->expects[i];

		r = script_play(script, x->at_ns);
		if (r < 0)
			break;
		/* What has just happened is to be judged by rules that look at ticks alone, too. */
		if (i == 0 || t->expects[i - 1].at_ns < x->at_ns) {
			player_pass(run.player, x->at_ns);
			player_tick(run.player);
		}
		r = run.error ? run.error : test_judge(&run, x);
		if (i + 1 < t->expects_len && t->expects[i + 1].at_ns > x->at_ns)
			run.window = run.said_len;
	}
	return r;
}
