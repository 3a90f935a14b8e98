/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "history/spark.h"
#include "top/model_private.h"

static uint64_t *slot_bytes(struct top_history *h, uint64_t slot)
{
	return &h->bytes[slot % TOP_SLOTS];
}

/* Forgets what is too old to be within TOP_SLOTS of that one. */
static void advance(struct top_history *h, uint64_t slot)
{
	for (uint64_t n = 0; n < TOP_SLOTS && h->slot + n < slot; n++)
		*slot_bytes(h, slot - n) = VIEW_NONE;
	h->slot = slot;
}

/* What the other side has seen meanwhile, or before: for slots of which nothing is known here. The last value is of the slot
 * before this one, which is not over yet. */
static void fill(struct top_history *h, const char *recent)
{
	uint64_t values[VIEW_RECENT_MAX], len = 0;

	for (const char *s = recent; s && *s && len < VIEW_RECENT_MAX;) {
		char *end;

		errno = 0;
		values[len] = strtoull(s, &end, 10);
		if (end == s || errno || values[len] >= SPARK_GAP)
			return;
		len++;
		s = end + (*end == ',');
		if (*end && *end != ',')
			return;
	}
	for (uint64_t i = 0; i < len && i + 1 < h->slot; i++) {
		uint64_t *bytes = slot_bytes(h, h->slot - 1 - i);

		if (*bytes == VIEW_NONE)
			*bytes = values[len - 1 - i];
	}
}

static struct top_history *history_of(struct top_model *m, uint64_t key, uint64_t slot)
{
	struct top_history *h = map64_get(&m->histories, key);

	if (h)
		return h;
	h = malloc(sizeof(*h));
	if (!h)
		return NULL;
	*h = (struct top_history){ .slot = slot };
	for (size_t i = 0; i < TOP_SLOTS; i++)
		h->bytes[i] = VIEW_NONE;
	if (map64_put(&m->histories, key, h) == 0)
		return h;
	free(h);
	return NULL;
}

/* Those of processes that this view does not have. */
static int drop_gone(struct top_model *m)
{
	_cleanup_free_ uint64_t *gone = malloc((m->histories.len + 1) * sizeof(*gone));
	size_t iter = 0, len = 0;
	uint64_t key;
	void *value;

	if (!gone)
		return -ENOMEM;
	while (map64_next(&m->histories, &iter, &key, &value)) {
		if (((struct top_history *)value)->look != m->look)
			gone[len++] = key;
	}
	for (size_t i = 0; i < len; i++)
		free(map64_remove(&m->histories, gone[i]));
	return 0;
}

int top_histories_add(struct top_model *m)
{
	const uint64_t slot = m->view_ns / VIEW_RECENT_NS;

	for (size_t i = 0; i < m->view->processes_len; i++) {
		const struct view_process *p = &m->view->processes[i];
		struct top_history *h = history_of(m, top_process_key(p), slot);
		const uint64_t now = top_process_bytes(p);
		uint64_t *bytes;

		if (!h)
			return -ENOMEM;
		advance(h, MAX(slot, h->slot));
		/* What its calls hold: of one that is not traced that is not what is drawn. */
		if (p->is_covered)
			fill(h, p->recent);
		bytes = slot_bytes(h, h->slot);
		if (now < SPARK_GAP && (*bytes == VIEW_NONE || *bytes < now))
			*bytes = now;
		h->look = m->look;
	}
	return drop_gone(m);
}

void top_histories_done(struct top_model *m)
{
	size_t iter = 0;
	uint64_t key;
	void *value;

	while (map64_next(&m->histories, &iter, &key, &value))
		free(value);
	map64_done(&m->histories);
}

/* Of a slot that is not newer than the newest. */
static uint64_t bytes_at(const struct top_history *h, uint64_t slot)
{
	return slot <= h->slot && h->slot - slot < TOP_SLOTS ? h->bytes[slot % TOP_SLOTS] : VIEW_NONE;
}

void top_history_draw(const struct top_history *h, uint64_t slot, size_t columns, bool is_ascii, struct strbuf *sb)
{
	const size_t n = MIN(columns, (size_t)TOP_SLOTS);
	uint64_t full = 0;
	bool is_known = false;
	struct spark k;

	if (n == 0)
		return;
	/* A column is a microsecond of the line. */
	if (spark_init(&k, 0, n, n) < 0) {
		sb->error = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < n; i++) {
		const uint64_t bytes = slot + 1 + i >= n ? bytes_at(h, slot + 1 + i - n) : VIEW_NONE;

		if (bytes != VIEW_NONE)
			spark_add_peak(&k, i, bytes);
		else if (is_known)
			spark_add_gap(&k, i, i + 1, true);
		is_known = is_known || bytes != VIEW_NONE;
		full = bytes != VIEW_NONE ? MAX(full, bytes) : full;
	}
	spark_draw(&k, full, is_ascii, sb);
	spark_done(&k);
}
