/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/clock.h"
#include "history/story_private.h"

#define JOIN_USEC (60 * USEC_PER_SEC)
#define JOIN_AMONG 256 /* newest ones */
/* The daemon writes what everybody holds at the moment an allocation fails. A sample that comes later may be about what was
 * allocated since, or by a process that was not there yet. */
#define SAMPLES_WITHIN_USEC (2 * USEC_PER_SEC)

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static int holder_set(struct failure *f, struct proc *p, uint64_t bytes, uint64_t usec)
{
	struct holder new = { .proc = p, .bytes = bytes, .usec = usec };

	for (size_t i = 0; i < f->holders_len; i++) {
		struct holder *h = &f->holders[i];

		if (h->proc != p)
			continue;
		/* The nearest in time tells best what was held at that moment. */
		if (distance(usec, f->s.usec) <= distance(h->usec, f->s.usec))
			*h = new;
		return 0;
	}
	return PUSH(f->holders, f->holders_len, f->holders_cap, new);
}

static int take_holders(struct telling *t, struct failure *f)
{
	t->walks += f->device->helds_len;
	for (size_t i = 0; i < f->device->helds_len; i++) {
		struct held *h = f->device->helds[i];
		struct holder new = { .proc = h->proc, .bytes = h->live, .usec = h->live_usec };

		/* Each process is there once, so that nothing needs to be looked for. One that has ended holds nothing. */
		if (held_is_current(h) && h->live > 0 && !held_is_stale(h, f->s.usec) &&
		    PUSH(f->holders, f->holders_len, f->holders_cap, new) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int by_bytes(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x->proc->s.pid < y->proc->s.pid ? -1 : x->proc->s.pid > y->proc->s.pid;
}

static int settle(struct telling *t, struct failure *f)
{
	struct story_failure *s = &f->s;
	sum_t sum = 0;
	size_t kept = 0;

	/* Nobody has seen how much the process itself held there but itself. */
	if (f->proc && f->device && s->live_bytes != STORY_ABSENT && !f->proc->has_sample &&
	    holder_set(f, f->proc, s->live_bytes, s->usec) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < f->holders_len; i++) {
		if (f->holders[i].bytes == 0)
			continue;
		sum += f->holders[i].bytes;
		f->holders[kept++] = f->holders[i];
	}
	f->holders_len = kept;
	if (kept)
		qsort(f->holders, kept, sizeof(*f->holders), by_bytes);
	if (kept > STORY_HOLDERS_MAX) {
		s->holders_left_out += kept - STORY_HOLDERS_MAX;
		t->story.left_out.holders += kept - STORY_HOLDERS_MAX;
		f->holders_len = STORY_HOLDERS_MAX;
	}
	if (s->device_used_bytes != STORY_ABSENT)
		s->other_bytes = sum < s->device_used_bytes ? s->device_used_bytes - (uint64_t)sum : 0;
	return 0;
}

int failure_settle(struct telling *t, uint64_t usec)
{
	while (t->pending_len > 0 && (usec == UINT64_MAX || usec > add_sat(t->pending[0]->s.usec, SAMPLES_WITHIN_USEC) ||
				      t->pending_len == FAILURES_PENDING_MAX)) {
		struct failure *f = t->pending[0];

		t->pending_len--;
		memmove(t->pending, t->pending + 1, t->pending_len * sizeof(t->pending[0]));
		if (settle(t, f) < 0)
			return -ENOMEM;
	}
	return 0;
}

int failure_sample(struct telling *t, const struct held *h)
{
	for (size_t i = 0; i < t->pending_len; i++) {
		struct failure *f = t->pending[i];

		if (f->device != h->device)
			continue;
		t->walks += f->holders_len;
		if (t->walks < WALKS_MAX && holder_set(f, h->proc, h->live, h->live_usec) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* The same thing again: a program that tries until it is given up. */
static bool join(struct telling *t, const struct told *r, const struct proc *p)
{
	size_t oldest = t->failures_len > JOIN_AMONG ? t->failures_len - JOIN_AMONG : 0;

	for (size_t i = t->failures_len; i-- > oldest;) {
		struct failure *f = t->failures[i];

		if (f->host != r->host || f->proc != p || f->device != r->device || distance(r->usec, f->s.last_usec) > JOIN_USEC)
			continue;
		f->s.count++;
		f->s.last_usec = MAX(f->s.last_usec, r->usec);
		return true;
	}
	return false;
}

static int fill(struct telling *t, const struct told *r, struct failure *f)
{
	struct story_failure *s = &f->s;
	int err = 0;

	s->usec = s->last_usec = r->usec;
	s->count = 1;
	s->host = &r->host->s;
	s->bytes = told_u64(t, r->e, ENTRY_BYTES, STORY_ABSENT);
	s->live_bytes = told_u64(t, r->e, ENTRY_LIVE_BYTES, STORY_ABSENT);
	s->device_bytes = told_u64(t, r->e, ENTRY_DEVICE_BYTES, STORY_ABSENT);
	s->device_used_bytes = told_u64(t, r->e, ENTRY_DEVICE_USED_BYTES, STORY_ABSENT);
	s->other_bytes = STORY_ABSENT;
	s->function = told_text(t, r->e, ENTRY_FUNCTION, &err);
	s->error = told_text(t, r->e, ENTRY_ERROR, &err);
	s->message = told_line(t, r->e, ENTRY_MESSAGE, &err);
	f->unit = told_text(t, r->e, ENTRY_UNIT, &err);
	f->stack = told_stack(t, r->e, &err);
	return err;
}

int failure_add(struct telling *t, const struct told *r)
{
	struct failure *f;
	struct proc *p;
	int err;

	if (!r->is_within || entry_is(r->e, ENTRY_STATE, "resolved"))
		return 0;
	err = told_process(t, r, false, &p);
	if (err < 0 || join(t, r, p))
		return err;
	if (t->failures_len == STORY_FAILURES_MAX) {
		t->story.left_out.failures++;
		return 0;
	}
	f = calloc(1, sizeof(*f));
	if (!f || PUSH(t->failures, t->failures_len, t->failures_cap, f) < 0) {
		free(f);
		return -ENOMEM;
	}
	f->host = r->host;
	f->proc = p;
	f->device = r->device;
	f->pid = p ? p->s.pid : 0;
	err = fill(t, r, f);
	if (err == 0)
		err = failure_settle(t, r->usec);
	if (err < 0)
		return err;
	t->pending[t->pending_len++] = f;
	return r->device ? take_holders(t, f) : 0;
}

/* A process that is left out holds nothing by name any more. */
void failure_forget(struct telling *t)
{
	for (size_t i = 0; i < t->failures_len; i++) {
		struct failure *f = t->failures[i];
		size_t kept = 0;

		if (f->proc && f->proc->is_going)
			f->proc = NULL;
		for (size_t k = 0; k < f->holders_len; k++) {
			if (!f->holders[k].proc->is_going)
				f->holders[kept++] = f->holders[k];
			else
				f->s.holders_left_out++;
		}
		f->holders_len = kept;
	}
}

static bool is_wanted(const struct telling *t, const struct failure *f)
{
	if (t->pid && f->pid != t->pid)
		return false;
	return !t->unit || unit_matches(t, f->unit) || (f->proc && unit_matches(t, f->proc->s.unit));
}

static int by_time(const void *a, const void *b)
{
	const struct story_failure *x = *(struct story_failure *const *)a, *y = *(struct story_failure *const *)b;

	return x->usec < y->usec ? -1 : x->usec > y->usec;
}

int failure_finish(struct telling *t)
{
	struct story *s = &t->story;
	size_t kept = 0;

	for (size_t i = 0; i < t->failures_len; i++) {
		struct failure *f = t->failures[i];

		if (is_wanted(t, f)) {
			t->failures[kept++] = f;
			continue;
		}
		free(f->holders);
		free(f);
	}
	t->failures_len = kept;
	s->failures = calloc(kept + 1, sizeof(*s->failures));
	if (!s->failures)
		return -ENOMEM;
	for (size_t i = 0; i < kept; i++) {
		struct failure *f = t->failures[i];

		f->s.holders = calloc(f->holders_len + 1, sizeof(*f->s.holders));
		if (!f->s.holders)
			return -ENOMEM;
		for (size_t k = 0; k < f->holders_len; k++)
			f->s.holders[f->s.holders_len++] = (struct story_holder){
				.process = &f->holders[k].proc->s,
				.bytes = f->holders[k].bytes,
				.as_of_usec = f->holders[k].usec,
			};
		s->failures[s->failures_len++] = &f->s;
	}
	qsort(s->failures, s->failures_len, sizeof(*s->failures), by_time);
	return 0;
}
