// SPDX-License-Identifier: MIT
#include "metrics.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define SURE 0.9
#define FAST_SHARE_PER_MIN 0.01
#define FAST_FOUND_NS (120 * GEN_SEC)
#define FAST_WINDOW_NS (600 * GEN_SEC)
#define FAST_LOSSES_MIN 10
#define DAY_NS (86400 * GEN_SEC)

const char *const level_names[] = { "alarm", "notice" };

const struct metric metrics[] = {
#define METRIC(m) { #m, offsetof(struct tally_level, m) }
	METRIC(found),
	METRIC(missed),
	METRIC(false_traces),
	METRIC(false_incidents),
	METRIC(wrong_incidents),
	METRIC(precision),
	METRIC(recall),
	METRIC(false_share),
	METRIC(false_per_day),
	METRIC(time_median),
	METRIC(time_worst),
	METRIC(bytes_median),
	METRIC(bytes_worst),
	METRIC(share_median),
	METRIC(share_worst),
	METRIC(rank1),
	METRIC(rank2),
	METRIC(rank3),
	METRIC(rank_none),
	METRIC(confidence_true),
	METRIC(confidence_false),
	METRIC(sure),
	METRIC(sure_true),
	METRIC(sure_precision),
	METRIC(closed),
	METRIC(fast_found),
	{},
};

double metric_value(const struct tally_level *l, const struct metric *m)
{
	double value;

	memcpy(&value, (const char *)l + m->offset, sizeof(value));
	return value;
}

/* --- one trace --- */

static uint64_t lost_by(const struct truth *t, uint64_t time_ns)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < t->losses_len && t->losses[i].time_ns <= time_ns; i++)
		sum += t->losses[i].bytes;
	return sum;
}

/* By its first ten minutes, or all if it is over before. One large loss has no rate. */
static bool is_fast(const struct truth *t)
{
	uint64_t until = t->start_ns + FAST_WINDOW_NS;
	size_t n = 0;

	while (n < t->losses_len && t->losses[n].time_ns <= until)
		n++;
	if (t->device_bytes == 0 || n < FAST_LOSSES_MIN || t->losses[n - 1].time_ns <= t->start_ns)
		return false;
	until = t->losses[n - 1].time_ns;
	/* Without the first loss, which took no time. */
	return (double)(lost_by(t, until) - t->losses[0].bytes) / (double)t->device_bytes /
		       ((double)(until - t->start_ns) / (60.0 * (double)GEN_SEC)) >
	       FAST_SHARE_PER_MIN;
}

/* The first record of an incident that reaches a level; after it was resolved, or said in another way, no other. */
static bool is_first(const struct said *said, size_t i, enum severity least)
{
	if (said[i].state != STATE_FIRING && said[i].state != STATE_REPEAT)
		return false;
	if (said[i].severity < least)
		return false;
	for (size_t k = 0; k < i; k++) {
		if (said[k].state != STATE_RESOLVED && said[k].severity >= least &&
		    memcmp(said[k].incident, said[i].incident, sizeof(said[i].incident)) == 0)
			return false;
	}
	return true;
}

static bool is_resolved(const struct said *said, size_t len, const uint8_t incident[16], uint64_t end_ns)
{
	for (size_t i = 0; i < len; i++) {
		if (said[i].state == STATE_RESOLVED && said[i].time_ns < end_ns &&
		    memcmp(said[i].incident, incident, 16) == 0)
			return true;
	}
	return false;
}

static void judge_level(struct verdict *v, const struct truth *t, const struct said *said, size_t len,
			enum severity least)
{
	*v = (struct verdict){ .confidence = -1, .false_confidence = -1 };
	v->is_closed = true;
	for (size_t i = 0; i < len; i++) {
		if (!is_first(said, i, least))
			continue;
		if (!t->is_leak || said[i].time_ns < t->start_ns) {
			if (v->false_count++ == 0)
				v->false_confidence = said[i].confidence;
			continue;
		}
		if (said[i].is_wrong) {
			v->wrong_count++;
			continue;
		}
		if (!v->is_found) {
			v->is_found = true;
			v->after_ns = said[i].time_ns - t->start_ns;
			v->lost_bytes = lost_by(t, said[i].time_ns);
			v->confidence = said[i].confidence;
			v->rank = said[i].rank;
		} else if (t->start_ns + v->after_ns == said[i].time_ns && said[i].rank &&
			   (!v->rank || said[i].rank < v->rank)) {
			/* Said in the same instant: the order is by chance. */
			v->rank = said[i].rank;
		}
		v->is_closed = v->is_closed && is_resolved(said, len, said[i].incident, t->end_ns);
	}
	v->is_closed = v->is_closed && v->is_found;
}

int outcome_judge(struct outcome *o, const struct truth *t, const struct said *said, size_t said_len)
{
	if (t->is_leak && (t->losses_len == 0 || t->start_ns > t->end_ns))
		return -EINVAL;
	o->is_leak = t->is_leak;
	o->has_site = t->is_leak && t->has_site;
	o->length_ns = t->end_ns;
	o->benign_ns = t->is_leak ? t->start_ns : t->end_ns;
	o->device_bytes = t->device_bytes;
	o->leaked_bytes = lost_by(t, UINT64_MAX);
	o->is_fast = t->is_leak && is_fast(t);
	o->is_stopping = t->is_leak && t->losses[t->losses_len - 1].time_ns <= t->end_ns - t->end_ns / 4;
	judge_level(&o->level[LEVEL_ALARM], t, said, said_len, SEVERITY_WARNING);
	judge_level(&o->level[LEVEL_NOTICE], t, said, said_len, SEVERITY_INFO);
	return 0;
}

/* --- many --- */

/* Values of which the median and the largest are wanted. */
struct values {
	double *list;
	size_t len;
};

static int compare_doubles(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static double median(struct values *v)
{
	if (v->len == 0)
		return NAN;
	qsort(v->list, v->len, sizeof(*v->list), compare_doubles);
	return v->len % 2 ? v->list[v->len / 2] : (v->list[v->len / 2 - 1] + v->list[v->len / 2]) / 2;
}

/* After median(), which sorts. */
static double worst(const struct values *v)
{
	return v->len ? v->list[v->len - 1] : NAN;
}

static double share(double part, double of)
{
	return of > 0 ? part / of : NAN;
}

static bool is_of(const struct outcome *o, const char *set, const char *family)
{
	return o->error == 0 && (!set || strcmp(o->set, set) == 0) && (!family || strcmp(o->family, family) == 0);
}

enum { TIME, BYTES, SHARE, SURE_TRUE, SURE_FALSE, VALUES_MAX };

struct count {
	struct values v[VALUES_MAX];
	double ranks[REPORT_LEAK_SITES_MAX + 1], sited, closed, stopping_found, fast_found;
};

static void add(struct values *v, double value)
{
	v->list[v->len++] = value;
}

static void count_found(struct count *c, struct tally_level *l, const struct outcome *o, const struct verdict *v)
{
	l->found++;
	add(&c->v[TIME], (double)v->after_ns / (double)GEN_SEC);
	add(&c->v[BYTES], (double)v->lost_bytes);
	if (o->device_bytes)
		add(&c->v[SHARE], (double)v->lost_bytes / (double)o->device_bytes);
	if (o->has_site) {
		c->sited++;
		c->ranks[v->rank <= REPORT_LEAK_SITES_MAX ? v->rank : 0]++;
	}
	if (v->confidence >= 0)
		add(&c->v[SURE_TRUE], v->confidence);
	if (v->confidence >= SURE)
		l->sure_true++;
	if (o->is_stopping) {
		c->stopping_found++;
		c->closed += v->is_closed;
	}
	c->fast_found += o->is_fast && v->after_ns <= FAST_FOUND_NS;
}

static void settle(struct tally *t, struct tally_level *l, struct count *c)
{
	l->missed = t->leaks - l->found;
	l->precision = share(l->found, l->found + l->false_traces);
	l->recall = share(l->found, t->leaks);
	l->false_share = share(l->false_traces, t->traces);
	l->false_per_day = share(l->false_incidents, t->benign_days);
	l->time_median = median(&c->v[TIME]);
	l->time_worst = worst(&c->v[TIME]);
	l->bytes_median = median(&c->v[BYTES]);
	l->bytes_worst = worst(&c->v[BYTES]);
	l->share_median = median(&c->v[SHARE]);
	l->share_worst = worst(&c->v[SHARE]);
	l->rank_none = share(c->ranks[0], c->sited);
	l->rank1 = share(c->ranks[1], c->sited);
	l->rank2 = share(c->ranks[2], c->sited);
	l->rank3 = share(c->ranks[3], c->sited);
	l->confidence_true = median(&c->v[SURE_TRUE]);
	l->confidence_false = median(&c->v[SURE_FALSE]);
	l->sure_precision = share(l->sure_true, l->sure);
	l->closed = share(c->closed, c->stopping_found);
	l->fast_found = share(c->fast_found, t->fast);
}

static void tally_level(struct tally *t, enum level level, const struct outcome *list, size_t len, const char *set,
			const char *family, struct count *c)
{
	struct tally_level *l = &t->level[level];

	for (size_t i = 0; i < VALUES_MAX; i++)
		c->v[i].len = 0;
	for (size_t i = 0; i < len; i++) {
		const struct verdict *v = &list[i].level[level];

		if (!is_of(&list[i], set, family))
			continue;
		l->false_traces += v->false_count + v->wrong_count > 0;
		l->wrong_incidents += (double)v->wrong_count;
		l->false_incidents += (double)v->false_count;
		if (v->false_count > 0 && v->false_confidence >= 0)
			add(&c->v[SURE_FALSE], v->false_confidence);
		l->sure += v->false_count > 0 && v->false_confidence >= SURE;
		l->sure += v->is_found && v->confidence >= SURE;
		if (v->is_found)
			count_found(c, l, &list[i], v);
	}
	settle(t, l, c);
}

int tally_make(const struct outcome *list, size_t len, const char *set, const char *family, struct tally *ret)
{
	_cleanup_free_ double *store = malloc((len + 1) * VALUES_MAX * sizeof(*store));
	struct tally t = { 0 };

	if (!store)
		return -ENOMEM;
	for (size_t i = 0; i < len; i++) {
		if (!is_of(&list[i], set, family))
			continue;
		t.traces++;
		t.leaks += list[i].is_leak;
		t.stopping += list[i].is_stopping;
		t.fast += list[i].is_fast;
		t.benign_days += (double)list[i].benign_ns / (double)DAY_NS;
	}
	for (enum level level = 0; level < LEVEL_MAX; level++) {
		struct count c = { 0 };

		for (size_t i = 0; i < VALUES_MAX; i++)
			c.v[i].list = &store[i * (len + 1)];
		tally_level(&t, level, list, len, set, family, &c);
	}
	*ret = t;
	return 0;
}
