/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "history/story_private.h"

static struct device *find(struct telling *t, const struct host *h, const char *uuid, size_t len, uint64_t hash)
{
	struct device *d = map64_get(&t->device_map, hash);

	while (d && (d->host != h || strlen(d->s.uuid) != len || memcmp(d->s.uuid, uuid, len) != 0))
		d = d->next;
	return d;
}

int device_find(struct telling *t, struct host *h, const char *uuid, size_t len, struct device **ret)
{
	/* As it was told, which is what it is kept as but for what no daemon writes. */
	uint64_t hash = hash_bytes((uintptr_t)h, uuid, len);
	struct entry e = { .field[ENTRY_DEVICE] = { uuid, len } };
	struct device *d;
	const char *text;
	int err = 0;

	*ret = find(t, h, uuid, len, hash);
	if (*ret)
		return 0;
	text = told_text(t, &e, ENTRY_DEVICE, &err);
	if (!text)
		return err < 0 ? err : -ENOSPC;
	hash = hash_str((uintptr_t)h, text);
	*ret = find(t, h, text, strlen(text), hash);
	if (*ret)
		return 0;
	if (t->devices_len == STORY_DEVICES_MAX) {
		t->story.left_out.devices++;
		return -ENOSPC;
	}
	d = calloc(1, sizeof(*d));
	if (!d || PUSH(t->devices, t->devices_len, t->devices_cap, d) < 0) {
		free(d);
		return -ENOMEM;
	}
	d->host = h;
	d->s = (struct story_device){ .host = &h->s, .uuid = text, .index = -1, .total_bytes = STORY_ABSENT };
	d->run = h->run;
	d->next = map64_get(&t->device_map, hash);
	*ret = d;
	return map64_put(&t->device_map, hash, d);
}

int told_device(struct telling *t, struct told *r)
{
	uint64_t index, total;
	int err;

	if (!r->e->field[ENTRY_DEVICE].data || r->e->field[ENTRY_DEVICE].len == 0)
		return 0;
	err = device_find(t, r->host, r->e->field[ENTRY_DEVICE].data, r->e->field[ENTRY_DEVICE].len, &r->device);
	if (err < 0) {
		r->has_lost_device = true;
		return err == -ENOSPC ? 0 : err;
	}
	index = told_u64(t, r->e, ENTRY_DEVICE_INDEX, STORY_ABSENT);
	if (index <= INT32_MAX)
		r->device->s.index = (int)index;
	total = told_u64(t, r->e, ENTRY_DEVICE_BYTES, STORY_ABSENT);
	if (total != STORY_ABSENT)
		r->device->s.total_bytes = total;
	return 0;
}

int device_note_used(struct telling *t, struct device *d, uint64_t usec, uint64_t bytes)
{
	int r;

	if (usec < t->from) {
		d->used.before = bytes;
		d->used.before_usec = usec;
		return 0;
	}
	r = series_open(t, &d->used, true);
	if (r < 0)
		return r;
	series_peak(&d->used, usec, bytes);
	return series_add(t, &d->used, usec, bytes, bytes, bytes);
}

static void peak(struct device *d, uint64_t usec, sum_t sum)
{
	uint64_t bytes = sum_sat(sum);

	if (d->s.peak_usec != 0 && bytes <= d->s.peak_bytes)
		return;
	/* What several held is known of moments near each other only: no more than there is. */
	d->s.peak_bytes = MIN(bytes, d->s.total_bytes);
	d->s.peak_usec = usec;
}

/* What the others held when h was highest. False: that is too long ago to be told. */
static bool others_at(struct telling *t, const struct held *h, uint64_t usec, sum_t *ret)
{
	const struct device *d = h->device;
	uint64_t bytes;

	*ret = 0;
	t->walks += d->helds_len;
	for (size_t i = 0; i < d->helds_len; i++) {
		if (d->helds[i] == h)
			continue;
		if (!held_at(d->helds[i], usec, &bytes))
			return false;
		*ret += bytes;
	}
	return true;
}

void device_moment(struct telling *t, const struct held *h, uint64_t usec, uint64_t bytes)
{
	sum_t others;

	if (h->device && usec >= t->from && t->walks < WALKS_MAX && others_at(t, h, usec, &others))
		peak(h->device, usec, others + bytes);
}

/* Seldom enough for walking all of them. */
static void forget_stale(struct device *d, uint64_t usec)
{
	if (usec <= add_sat(d->looked_usec, STORY_LOOK_BACK_USEC))
		return;
	d->looked_usec = usec;
	for (size_t i = 0; i < d->helds_len; i++) {
		struct held *h = d->helds[i];

		if (!held_is_current(h) || !held_is_stale(h, usec))
			continue;
		d->sum -= h->live;
		d->bound -= h->bound;
		h->run = d->host->run - 1;
	}
}

void device_sum(struct telling *t, struct held *h, uint64_t old_live, bool was_current, uint64_t high,
		uint64_t high_usec)
{
	struct device *d = h->device;

	if (!d)
		return;
	if (d->run != d->host->run) {
		d->run = d->host->run;
		d->sum = d->bound = 0;
		was_current = false;
	}
	if (was_current) {
		d->sum -= old_live;
		d->bound -= h->bound;
	}
	h->bound = MAX(h->live, h->live_before);
	d->sum += h->live;
	d->bound += h->bound;
	forget_stale(d, h->live_usec);
	if (h->live_usec < t->from)
		return;
	peak(d, h->live_usec, d->sum);
	/* Walks all who hold memory there, so only where it can matter: seldom, in the long run. */
	if ((high > h->live || high_usec < h->live_usec) && sum_sat(d->bound - h->bound + high) > d->s.peak_bytes)
		device_moment(t, h, high_usec, high);
}

void device_cross(struct telling *t, struct host *h)
{
	for (size_t i = 0; i < t->devices_len; i++) {
		struct device *d = t->devices[i];

		if (d->host == h && d->run == h->run && d->sum > 0)
			peak(d, t->from, d->sum);
	}
}
