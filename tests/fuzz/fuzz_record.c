/* SPDX-License-Identifier: MIT */
/*
 * Whatever a process calls itself, its record is clean in all its forms. Input: eight bytes that choose event, state,
 * scope and numbers, then the texts, each ended by a NUL byte, in the order below; what is left are frames, whose lengths
 * choose their kind.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/record_check.h"
#include "record/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *p;
	size_t left;
};

static char *take(struct input *in)
{
	size_t n = strnlen((const char *)in->p, in->left);
	char *s = strndup((const char *)in->p, n);

	if (!s)
		abort();
	n += n < in->left;
	in->p += n;
	in->left -= n;
	return s;
}

/* Numbers at the edges, and some that look like numbers. */
static uint64_t number(const uint8_t *head, unsigned i)
{
	static const uint64_t edges[] = { 0, 1, 512, 1u << 20, UINT64_C(44238163148), INT64_MAX, UINT64_MAX - 1, ABSENT_U64 };

	return edges[(head[i % 8] + i * 3) % ARRAY_SIZE(edges)];
}

static void set_numbers(struct report *r, const uint8_t *head)
{
	uint64_t *const numbers[] = {
		&r->device_bytes, &r->device_used_bytes, &r->value, &r->limit, &r->bytes, &r->live_bytes, &r->live_count,
		&r->peak_bytes, &r->host_bytes, &r->managed_bytes, &r->driver_bytes, &r->growth_bytes_per_hour,
		&r->full_in_sec, &r->leaked_bytes, &r->age_sec, &r->stack_bytes, &r->lost_events, &r->duration_ns,
	};

	for (unsigned i = 0; i < ARRAY_SIZE(numbers); i++)
		*numbers[i] = number(head, i);
	r->state = (enum report_state)(head[1] % 4);
	r->severity = (enum severity)(head[2] % SEVERITY_MAX);
	r->scope = (enum rule_scope)(head[3] % SCOPE_MAX);
	r->value_unit = (enum value_unit)(head[4] % 4);
	r->exact = head[4] & 0x40;
	r->process_ended = head[4] & 0x80;
	r->device_index = (int)(head[5] % 5) - 1;
	r->error = head[5] % 7 ? 0 : head[6];
	r->seq = head[6];
	r->tid = head[6];
	r->others = head[7] & 0x80 ? head[6] : 0;
	r->suppressed = head[7];
	r->real_usec = number(head, 50);
	memcpy(r->incident, head, 8);
}

static struct stack_text *take_stack(struct input *in)
{
	struct stack_text *st = calloc(1, sizeof(*st));

	if (!st)
		abort();
	st->info = take(in);
	st->id = take(in);
	while (in->left > 0 && st->len < 300) {
		struct text_frame *frames = realloc(st->frames, (st->len + 1) * sizeof(*frames)), *f;
		size_t len;

		if (!frames)
			abort();
		st->frames = frames;
		f = &frames[st->len++];
		f->text = take(in);
		len = strlen(f->text);
		f->is_python = len % 3 == 1;
		f->is_allocator = len % 5 == 0;
	}
	return st;
}

/* Lines with a bracket in front are those that say how many frames are missing: then they can be counted. */
static bool is_countable(const struct stack_text *st)
{
	for (size_t i = 0; i < st->len; i++)
		if (st->frames[i].text[0] == '[')
			return false;
	return true;
}

/* counted: may be NULL. */
static void expect_sound(const struct record *rec, const struct stack_text *counted)
{
	const char *wrong = check_all(rec);

	if (!wrong && counted)
		wrong = check_stack(rec, counted->len);
	if (!wrong)
		return;
	fprintf(stderr, "%s\n", wrong);
	for (size_t i = 0; i < rec->len; i++)
		fprintf(stderr, "%s\n", rec->data.buf + rec->field[i].offset);
	abort();
}

static struct redact *patterns(void)
{
	static struct redact *redact; /* compiled once: it is most of the time */
	struct errors e = ERRORS_INIT;

	if (!redact && redact_new(NULL, 0, &e, &redact) < 0)
		abort();
	errors_done(&e);
	return redact;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { .p = data + 8, .left = size - 8 };
	_cleanup_(report_freep) struct report *r = NULL;
	_cleanup_(stack_text_freep) struct stack_text *st = NULL;
	_cleanup_(record_freep) struct record *rec = NULL;
	const struct stack_text *counted = NULL;
	_cleanup_free_ char *function = NULL;
	struct identity *id;

	if (size < 8)
		return 0;
	r = report_new((enum report_event)(data[0] % REPORT_EVENT_MAX));
	id = identity_new();
	if (!r || !id)
		abort();
	r->id = id;
	set_numbers(r, data);
	id->pid = (uint32_t)number(data, 60);
	id->start_ticks = number(data, 61);
	id->uid = (uint32_t)number(data, 62);

	char **const texts[] = { &id->comm,	 &id->exe, &id->cmdline,  &id->user,	&id->cgroup,	 &id->unit,
				 &id->user_unit, &id->pod, &id->container, &r->rule,	&r->message,	 &r->runbook,
				 &r->scope_key,	 &function, &r->device_uuid, &r->text, &r->detail };

	/* An empty one stands for one that is not known, in every other case. */
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		*texts[i] = take(&in);
		if (!**texts[i] && i % 2 == data[7] % 2u) {
			free(*texts[i]);
			*texts[i] = NULL;
		}
	}
	r->function = function;
	if (!(data[7] & 0x20))
		st = take_stack(&in);
	if (data[7] & 0x10) {
		identity_unref(r->id);
		r->id = NULL;
	}
	if (st && r->event < REPORT_START && !(data[7] & 0x08) && is_countable(st))
		counted = st;
	if (record_build(r, st, data[7] & 0x40, data[7] & 0x08 ? patterns() : NULL, &rec) < 0)
		abort();
	expect_sound(rec, counted);
	record_drop_object_pid(rec);
	if (record_set_suppressed(rec, number(data, 70)) < 0)
		abort();
	expect_sound(rec, counted);
	return 0;
}
