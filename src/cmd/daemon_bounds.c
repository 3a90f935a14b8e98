/* SPDX-License-Identifier: MIT */
/* Where growth has stopped, from one daemon to the next, whether maps and books are kept or not. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/map64.h"
#include "cmd/bounds_file.h"
#include "cmd/daemon_internal.h"
#include "cmd/state_file.h"

#define WRITE_NS (600 * NSEC_PER_SEC)
#define DAY_SEC UINT64_C(86400)

struct bounds_now {
	struct daemon *d;
	uint64_t now_ns, real_sec;
	struct strbuf *sb; /* to be written */
	uint64_t sum;	   /* of the lines, in whatever order */
	size_t taken;
};

static struct bounds_now bounds_now(struct daemon *d, struct strbuf *sb)
{
	return (struct bounds_now){ .d = d, .sb = sb, .now_ns = clock_monotonic_ns(),
				    .real_sec = clock_real_usec() / USEC_PER_SEC };
}

/* The folder that the service manager keeps for us. NULL without one, or without memory. */
static char *bounds_path(void)
{
	const char *dirs = getenv("STATE_DIRECTORY");
	char *path;

	/* Of several, the first. */
	if (!dirs || dirs[0] != '/' || asprintf(&path, "%.*s/bounds", (int)strcspn(dirs, ":"), dirs) < 0)
		return NULL;
	return path;
}

static void take_line(const struct bound_line *l, void *userdata)
{
	struct bounds_now *b = userdata;
	/* A day is no moment: noon, so that clocks that differ a little do not make it another one. */
	const int64_t age_sec = (int64_t)b->real_sec - (int64_t)(l->day * DAY_SEC + DAY_SEC / 2);
	const int64_t seen_ns = (int64_t)b->now_ns - age_sec * (int64_t)NSEC_PER_SEC;

	if (engine_learn_bound(b->d->engine, l->id, l->bytes, seen_ns) == 0)
		b->taken++;
}

void daemon_bounds_start(struct daemon *d)
{
	struct bounds_now b = bounds_now(d, NULL);
	_cleanup_free_ char *text = NULL;
	size_t len = 0, bad = 0;
	int r;

	d->kept.bounds.path = bounds_path();
	d->kept.bounds.written_ns = b.now_ns;
	if (!d->kept.bounds.path)
		return;
	r = state_read(d->kept.bounds.path, &text, &len);
	if (r == 0 && len > BOUNDS_FILE_MAX)
		r = -E2BIG;
	if (r == 0 && len > 0)
		r = bounds_parse(text, len, (uint32_t)(b.real_sec / DAY_SEC), take_line, &b, &bad);
	if (r < 0)
		log_warning("%s: not read (%s): caches that filled before may be taken for leaks once more",
			    d->kept.bounds.path, r == -EINVAL ? "not a file of ours" : strerror(-r));
	else if (bad > 0)
		log_warning("%s: %zu lines make no sense and were left out", d->kept.bounds.path, bad);
	if (b.taken > 0)
		log_info("from before: where %zu call sites stopped growing", b.taken);
}

static void add_line(uint64_t id, uint64_t bytes, int64_t seen_ns, void *userdata)
{
	struct bounds_now *b = userdata;
	const int64_t age_sec = MAX(((int64_t)b->now_ns - seen_ns) / (int64_t)NSEC_PER_SEC, 0);
	const uint64_t day = b->real_sec > (uint64_t)age_sec ? (b->real_sec - (uint64_t)age_sec) / DAY_SEC : 0;
	const struct bound_line l = { .id = id, .bytes = bytes, .day = (uint32_t)day };

	if (b->real_sec / DAY_SEC - day > BOUNDS_DAYS_MAX)
		return;
	bounds_add(b->sb, &l);
	b->sum += hash64(id ^ hash64(bytes ^ hash64(day)));
}

static void write_bounds(struct daemon *d)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct bounds_now b = bounds_now(d, &sb);
	int r;

	d->kept.bounds.written_ns = b.now_ns;
	bounds_begin(&sb);
	engine_save_bounds(d->engine, add_line, &b);
	if (b.sum == d->kept.bounds.sum)
		return;
	r = sb.error ? sb.error : bounds_write(d->kept.bounds.path, sb.buf, sb.len);
	if (r == 0)
		d->kept.bounds.sum = b.sum;
	else if (!d->kept.bounds.has_failed)
		log_warning("%s: not written (%s): after a restart, caches that filled before may be taken for leaks",
			    d->kept.bounds.path, strerror(-r));
	d->kept.bounds.has_failed = r < 0;
}

void daemon_bounds_tick(struct daemon *d)
{
	if (d->kept.bounds.path && d->now_ns - MIN(d->kept.bounds.written_ns, d->now_ns) >= WRITE_NS)
		write_bounds(d);
}

void daemon_bounds_stop(struct daemon *d)
{
	if (d->kept.bounds.path)
		write_bounds(d);
}
