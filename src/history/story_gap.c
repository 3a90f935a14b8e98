/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/units.h"
#include "history/story_private.h"

/* Records held back within this time of each other are told of as one gap. */
#define SUPPRESSED_JOIN_USEC (600 * USEC_PER_SEC)
/* What a daemon says of itself at its end comes a little after its word of it. */
#define STOP_LATE_USEC (60 * USEC_PER_SEC)
#define SILENT_SPARE_USEC (60 * USEC_PER_SEC)

/* Within the stretch, and cut to it; *ret NULL where it is not, or there is no room. */
static int add(struct telling *t, struct host *h, enum story_gap_kind kind, uint64_t from, uint64_t until, uint64_t count,
	       struct gap **ret)
{
	struct gap *g;

	*ret = NULL;
	if (until < t->from || from >= t->until)
		return 0;
	/* A stretch that begins with it has nothing of it. */
	if (count == 0 && MIN(until, t->until) <= MAX(from, t->from))
		return 0;
	if (t->gaps_len == STORY_GAPS_MAX) {
		t->story.left_out.gaps++;
		return 0;
	}
	g = calloc(1, sizeof(*g));
	if (!g || PUSH(t->gaps, t->gaps_len, t->gaps_cap, g) < 0) {
		free(g);
		return -ENOMEM;
	}
	g->host = h;
	g->s = (struct story_gap){
		.kind = kind, .host = &h->s, .from_usec = MAX(MIN(from, until), t->from), .until_usec = MIN(until, t->until),
		.count = count,
	};
	*ret = g;
	return 0;
}

static void new_run(struct host *h, uint64_t usec)
{
	h->run++;
	h->run_usec = usec;
}

static int new_boot(struct telling *t, const struct told *r)
{
	struct host *h = r->host;
	struct gap *g;

	new_run(h, r->usec);
	h->boot_id = r->boot_id;
	return add(t, h, GAP_BOOT, h->is_stopped ? h->stop_usec : h->last_usec, r->usec, 0, &g);
}

static int was_down(struct telling *t, const struct told *r)
{
	struct host *h = r->host;
	int err;

	new_run(h, r->usec);
	h->down_pid = h->is_stopped ? h->stop_pid : h->sender_pid;
	err = add(t, h, GAP_DOWN, h->is_stopped ? h->stop_usec : h->last_usec, r->usec, 0, &h->down);
	/* In a container each daemon may have the same number. */
	if (r->sender && r->sender->pid == h->down_pid)
		h->down = NULL;
	return err;
}

/* Whether a daemon was there between the host's record before and this one. */
static int look_at_run(struct telling *t, const struct told *r)
{
	struct host *h = r->host;
	bool is_start = entry_is(r->e, ENTRY_EVENT, "start");
	uint32_t pid = r->sender ? r->sender->pid : 0;
	int err = 0;

	if (h->last_usec == 0) {
		struct gap *g;

		h->first_usec = r->usec;
		h->began_with_start = is_start;
		h->boot_id = r->boot_id;
		/* Nothing from all of the look-back either. */
		return is_start ? add(t, h, GAP_DOWN, t->from, r->usec, 0, &g) : 0;
	}
	/* Whom another one's start seemed to have replaced goes on: two daemons, say one in a terminal. */
	if (h->down && !is_start && pid != 0 && pid == h->down_pid) {
		h->down->is_revoked = !h->down_was_stop;
		h->down = NULL;
	}
	if (r->boot_id && h->boot_id && r->boot_id != h->boot_id)
		err = new_boot(t, r);
	else if (is_start)
		err = was_down(t, r);
	else if (!h->is_stopped)
		return 0;
	else if (pid != h->stop_pid || r->usec > add_sat(h->stop_usec, STOP_LATE_USEC))
		err = was_down(t, r);
	else
		return 0;
	h->down_was_stop = h->is_stopped;
	h->is_stopped = false;
	return err;
}

static void count_sender(struct telling *t, const struct told *r, uint64_t *ret_missing, uint64_t *ret_since)
{
	struct sender *s = r->sender;
	uint64_t written = told_u64(t, r->e, ENTRY_RECORDS_WRITTEN, STORY_ABSENT), expected;

	*ret_missing = 0;
	*ret_since = s->anchor_usec;
	if (written == STORY_ABSENT) {
		s->seen++;
		return;
	}
	/* A smaller count is that of another daemon, with a number that was free again. */
	if (s->anchor_usec != 0 && written >= s->anchor_written && !entry_is(r->e, ENTRY_EVENT, "start")) {
		expected = written - s->anchor_written;
		*ret_missing = expected > s->seen ? expected - s->seen : 0;
	}
	s->anchor_usec = r->usec;
	s->anchor_written = written;
	s->seen = 1;
}

static uint64_t lost_since(struct telling *t, const struct told *r, uint64_t *ret_since)
{
	struct sender *s = r->sender;
	uint64_t lost = told_u64(t, r->e, ENTRY_LOST_EVENTS, STORY_ABSENT), grown = 0;

	*ret_since = s->lost_usec;
	if (lost == STORY_ABSENT)
		return 0;
	if (s->lost_usec != 0 && lost > s->lost)
		grown = lost - s->lost;
	s->lost = lost;
	s->lost_usec = r->usec;
	return grown;
}

static int add_suppressed(struct telling *t, const struct told *r, uint64_t count)
{
	struct host *h = r->host;
	uint64_t since = r->sender && r->sender->last_usec ? r->sender->last_usec : r->usec;

	if (h->suppressed && since <= add_sat(h->suppressed->s.until_usec, SUPPRESSED_JOIN_USEC)) {
		h->suppressed->s.count = add_sat(h->suppressed->s.count, count);
		h->suppressed->s.until_usec = MAX(h->suppressed->s.until_usec, MIN(r->usec, t->until));
		return 0;
	}
	return add(t, h, GAP_SUPPRESSED, since, r->usec, count, &h->suppressed);
}

/* What the daemon says of itself. */
static int look_at_daemon(struct telling *t, const struct told *r)
{
	struct host *h = r->host;
	uint64_t health_sec = told_u64(t, r->e, ENTRY_HEALTH_SEC, 0), asleep = told_u64(t, r->e, ENTRY_ASLEEP_SEC, 0);
	uint64_t lost, since = 0;
	struct gap *g;
	int err = 0;

	if (health_sec > 0 && health_sec <= 366 * 86400)
		h->health_sec = health_sec;
	if (asleep > 0 && asleep < r->usec / USEC_PER_SEC) {
		h->awake_usec = r->usec;
		err = add(t, h, GAP_ASLEEP, r->usec - asleep * USEC_PER_SEC, r->usec, 0, &g);
	}
	/* Of a new daemon the first count is one of before it, whose books it went on with. */
	lost = r->sender && err == 0 ? lost_since(t, r, &since) : 0;
	if (lost > 0)
		err = add(t, h, GAP_LOST, since, r->usec, lost, &g);
	if (err == 0 && entry_is(r->e, ENTRY_EVENT, "stop")) {
		h->is_stopped = true;
		h->stop_usec = r->usec;
		h->stop_pid = r->sender ? r->sender->pid : 0;
		new_run(h, r->usec);
	}
	return err;
}

static bool is_daemon(const struct entry *e)
{
	static const char *const events[] = { "start", "stop", "reload", "health", "suppressed" };

	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		if (entry_is(e, ENTRY_EVENT, events[i]))
			return true;
	return false;
}

int gap_record(struct telling *t, const struct told *r)
{
	uint64_t missing = 0, since = 0, suppressed;
	struct host *h = r->host;
	struct gap *g;
	int err;

	err = look_at_run(t, r);
	if (err == 0 && r->sender)
		count_sender(t, r, &missing, &since);
	if (err == 0 && missing > 0)
		err = add(t, h, GAP_MISSING, since, r->usec, missing, &g);
	suppressed = told_u64(t, r->e, ENTRY_SUPPRESSED, 0);
	if (err == 0 && suppressed > 0)
		err = add_suppressed(t, r, suppressed);
	if (err == 0 && is_daemon(r->e))
		err = look_at_daemon(t, r);
	if (r->sender) {
		r->sender->last_usec = r->usec;
		h->sender_pid = r->sender->pid;
	}
	h->last_usec = MAX(h->last_usec, r->usec);
	return err;
}

static int look_at_end(struct telling *t, struct host *h, uint64_t end)
{
	uint64_t patience = 2 * h->health_sec * USEC_PER_SEC + SILENT_SPARE_USEC;
	struct gap *g;
	int err = 0;

	if (h->is_stopped && h->stop_usec < end)
		err = add(t, h, GAP_DOWN, h->stop_usec, end, 0, &g);
	if (err < 0 || h->health_sec == 0)
		return err;
	if (!h->is_stopped && end > add_sat(h->last_usec, patience))
		err = add(t, h, GAP_SILENT, h->last_usec, end, 0, &g);
	/* A daemon that was running says something that often: earlier records are there no more. */
	if (err == 0 && !h->began_with_start && h->first_usec > add_sat(t->from, patience))
		err = add(t, h, GAP_MISSING, t->from, h->first_usec, 0, &g);
	return err;
}

static const char *text_of(struct telling *t, const struct story_gap *g, int *err)
{
	struct strbuf *sb = &t->scratch;
	char buf[FORMAT_UNITS_MAX];
	uint64_t usec = g->until_usec - g->from_usec, ns = usec > UINT64_MAX / NSEC_PER_USEC ? UINT64_MAX : usec * NSEC_PER_USEC;
	const char *length = format_duration(buf, ns < 10 * NSEC_PER_SEC ? ns : ns - ns % NSEC_PER_SEC);
	const char *text, *plural = g->count == 1 ? "" : "s";

	strbuf_reset(sb);
	switch (g->kind) {
	case GAP_DOWN:
		strbuf_addf(sb, "gpuxray was not running for %s", length);
		break;
	case GAP_SILENT:
		strbuf_addf(sb, "nothing was heard from gpuxray for %s, until the end", length);
		break;
	case GAP_LOST:
		strbuf_addf(sb, "%" PRIu64 " event%s between kernel and daemon lost", g->count, plural);
		break;
	case GAP_ASLEEP:
		strbuf_addf(sb, "the host was suspended for %s", length);
		break;
	case GAP_MISSING:
		if (g->count == 0)
			strbuf_addf(sb, "the journal holds no record of the first %s", length);
		else
			strbuf_addf(sb, "%" PRIu64 " record%s written and not in the journal", g->count, plural);
		break;
	case GAP_SUPPRESSED:
		strbuf_addf(sb, "%" PRIu64 " record%s held back by gpuxray", g->count, plural);
		break;
	case GAP_BOOT:
		strbuf_addf(sb, "the host was started anew, and gpuxray was not running for %s", length);
		break;
	}
	text = sb->error ? NULL : texts_add(t, sb->buf, sb->len, err);
	*err = sb->error ? sb->error : *err;
	return text ? text : story_gap_name(g->kind);
}

static int by_time(const void *a, const void *b)
{
	const struct story_gap *x = *(struct story_gap *const *)a, *y = *(struct story_gap *const *)b;

	if (x->from_usec != y->from_usec)
		return x->from_usec < y->from_usec ? -1 : 1;
	if (x->until_usec != y->until_usec)
		return x->until_usec < y->until_usec ? -1 : 1;
	return (int)x->kind - (int)y->kind;
}

int gap_finish(struct telling *t, uint64_t end_usec)
{
	struct story *s = &t->story;
	int err = 0;

	for (size_t i = 0; i < t->hosts_len && err == 0; i++)
		err = look_at_end(t, t->hosts[i], end_usec);
	s->gaps = calloc(t->gaps_len + 1, sizeof(*s->gaps));
	if (!s->gaps)
		return -ENOMEM;
	for (size_t i = 0; i < t->gaps_len && err == 0; i++) {
		struct gap *g = t->gaps[i];

		if (g->is_revoked)
			continue;
		g->s.text = text_of(t, &g->s, &err);
		s->gaps[s->gaps_len++] = &g->s;
	}
	qsort(s->gaps, s->gaps_len, sizeof(*s->gaps), by_time);
	return err;
}
