/* SPDX-License-Identifier: MIT */
#include "memtrace/past.h"

#include <string.h>

#include "base/clock.h"

#define PID_BITS 22 /* PID_MAX_LIMIT of the kernel */

struct past_site {
	uint64_t key;
	uint64_t bytes;
	bool is_several; /* cannot be told apart */
};

static uint64_t process_key(uint32_t pid, uint64_t start_ticks)
{
	return start_ticks << PID_BITS | (pid & ((1u << PID_BITS) - 1));
}

/* Lines of Python tell sites apart that have one id. */
static uint64_t site_key(const struct view_site *s)
{
	return hash_str(hash64(s->stack_id ^ (s->is_other ? UINT64_C(1) << 63 : 0)), s->stack ?: "");
}

/* What it holds in all: a framework's blocks lie within the others, or within another site's. */
static uint64_t site_bytes(const struct view_site *s)
{
	return s->bytes ?: s->framework_bytes;
}

static int64_t difference(uint64_t now, uint64_t before)
{
	const uint64_t by = now > before ? now - before : before - now;
	const int64_t n = by > INT64_MAX ? INT64_MAX : (int64_t)by;

	return now > before ? n : -n;
}

/* VIEW_NONE_INT where one is not known. */
static int64_t known_difference(uint64_t now, uint64_t before)
{
	return now == VIEW_NONE || before == VIEW_NONE ? VIEW_NONE_INT : difference(now, before);
}

static int by_key(const void *a, const void *b)
{
	const struct past_site *s = a, *t = b;

	return s->key < t->key ? -1 : s->key > t->key;
}

static const struct past_site *find_site(const struct past_site *list, size_t len, uint64_t key)
{
	const struct past_site wanted = { .key = key };

	return len ? bsearch(&wanted, list, len, sizeof(wanted), by_key) : NULL;
}

/* By key, each once. The caller frees *ret. */
static int list_sites(const struct view_process *p, struct past_site **ret, size_t *ret_len)
{
	struct past_site *list = calloc(p->sites_len + 1, sizeof(*list));
	size_t len = 0;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < p->sites_len; i++)
		list[i] = (struct past_site){ .key = site_key(&p->sites[i]), .bytes = site_bytes(&p->sites[i]) };
	qsort(list, p->sites_len, sizeof(*list), by_key);
	for (size_t i = 0; i < p->sites_len; i++) {
		if (len > 0 && list[len - 1].key == list[i].key)
			list[len - 1].is_several = true;
		else
			list[len++] = list[i];
	}
	*ret = list;
	*ret_len = len;
	return 0;
}

struct past_process *past_find(const struct past *past, uint32_t pid, uint64_t start_ticks)
{
	return map64_get(&past->processes, process_key(pid, start_ticks));
}

struct past_process *past_next(const struct past *past, size_t *iter)
{
	void *value;

	return map64_next(&past->processes, iter, NULL, &value) ? value : NULL;
}

static void process_free(struct past_process *pp)
{
	free(pp->sites);
	free(pp->comm);
	free(pp);
}

void past_forget(struct past *past, uint32_t pid, uint64_t start_ticks)
{
	struct past_process *pp = map64_remove(&past->processes, process_key(pid, start_ticks));

	if (pp)
		process_free(pp);
}

void past_done(struct past *past)
{
	struct past_process *pp;
	size_t iter = 0;

	while ((pp = past_next(past, &iter)))
		process_free(pp);
	map64_done(&past->processes);
}

struct past_process *past_get(struct past *past, const struct view_process *p)
{
	struct past_process *pp = past_find(past, p->pid, p->start_ticks);

	if (pp)
		return pp;
	pp = calloc(1, sizeof(*pp));
	if (!pp)
		return NULL;
	pp->pid = p->pid;
	pp->start_ticks = p->start_ticks;
	if (map64_put(&past->processes, process_key(p->pid, p->start_ticks), pp) < 0) {
		process_free(pp);
		return NULL;
	}
	return pp;
}

static int take_sites(struct past_process *pp, const struct view_process *p)
{
	struct past_site *list;
	size_t len;
	int r = list_sites(p, &list, &len);

	if (r < 0)
		return r;
	free(pp->sites);
	pp->sites = list;
	pp->sites_len = len;
	pp->has_all_sites = p->sites_len >= p->sites_count;
	return 0;
}

static void take_first(struct past_process *pp, const struct view_process *p, uint64_t real_usec)
{
	pp->first_usec = real_usec;
	pp->first_bytes = past_bytes(p);
	pp->is_covered = p->is_covered;
	pp->is_comparable = true;
	pp->alloc_count = p->alloc_count;
	pp->free_count = p->free_count;
	pp->fail_count = p->fail_count;
}

/* A count that is lower than before began anew. */
static void count(uint64_t *sum, uint64_t *last, uint64_t now)
{
	*sum += now >= *last ? now - *last : now;
	*last = now;
}

int past_take(struct past_process *pp, const struct view_process *p, uint64_t real_usec)
{
	if (view_set(&pp->comm, p->comm) < 0)
		return -ENOMEM;
	if (!pp->last_usec)
		take_first(pp, p, real_usec);
	pp->last_usec = real_usec;
	pp->is_exact = p->is_exact;
	pp->is_comparable = pp->is_comparable && pp->is_covered == p->is_covered;
	pp->is_covered = p->is_covered;
	pp->bytes = past_bytes(p);
	pp->peak_bytes = p->peak_bytes;
	count(&pp->allocs, &pp->alloc_count, p->alloc_count);
	count(&pp->frees, &pp->free_count, p->free_count);
	count(&pp->fails, &pp->fail_count, p->fail_count);
	pp->lost_events = p->lost_events;
	return take_sites(pp, p);
}

uint64_t past_bytes(const struct view_process *p)
{
	return p->is_covered ? p->live_bytes : p->driver_bytes;
}

int64_t past_growth(const struct past_process *pp, const struct view_process *p)
{
	if (!pp->last_usec || pp->is_covered != p->is_covered)
		return VIEW_NONE_INT;
	return known_difference(past_bytes(p), pp->bytes);
}

int64_t past_growth_of_all(const struct past_process *pp)
{
	return pp->is_comparable ? known_difference(pp->bytes, pp->first_bytes) : VIEW_NONE_INT;
}

static int64_t site_growth(const struct past_process *pp, const struct view_site *s, const struct past_site *now,
			   uint64_t real_usec)
{
	const struct past_site *was = find_site(pp->sites, pp->sites_len, now->key);
	bool is_new;

	if (!pp->last_usec || now->is_several || (was && was->is_several))
		return VIEW_NONE_INT;
	if (was)
		return difference(now->bytes, was->bytes);
	is_new = real_usec > pp->last_usec && s->age_ns < (real_usec - pp->last_usec) * NSEC_PER_USEC;
	return pp->has_all_sites || is_new ? difference(now->bytes, 0) : VIEW_NONE_INT;
}

int past_site_growths(const struct past_process *pp, const struct view_process *p, uint64_t real_usec, int64_t **ret)
{
	_cleanup_free_ struct past_site *now = NULL;
	_cleanup_free_ int64_t *growths = calloc(p->sites_len + 1, sizeof(*growths));
	size_t len;
	int r = growths ? list_sites(p, &now, &len) : -ENOMEM;

	if (r < 0)
		return r;
	for (size_t i = 0; i < p->sites_len; i++)
		growths[i] = site_growth(pp, &p->sites[i], find_site(now, len, site_key(&p->sites[i])), real_usec);
	*ret = TAKE_PTR(growths);
	return 0;
}
