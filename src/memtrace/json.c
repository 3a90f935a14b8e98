/* SPDX-License-Identifier: MIT */
#include "memtrace/json.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/when.h"

static void add_time(uint64_t usec, struct strbuf *sb)
{
	char date[32], zone[8];
	struct tm tm;

	json_key(sb, "time");
	if (!when_local(usec, &tm) || !strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm) ||
	    strftime(zone, sizeof(zone), "%z", &tm) != 5) {
		strbuf_adds(sb, "null");
		return;
	}
	strbuf_addf(sb, "\"%s.%06" PRIu64 "%.3s:%s\"", date, usec % USEC_PER_SEC, zone, zone + 3);
}

/* The JSON of p with that many of its sites. */
static void process_with(const struct view_process *p, const struct view_site *sites, size_t len, struct strbuf *sb)
{
	struct view_process some = *p;

	some.sites = (struct view_site *)sites;
	some.sites_len = len;
	view_json_process(&some, sb);
}

/* Where the first site of p stands in its JSON: without it that goes on otherwise. */
static size_t sites_at(const struct view_process *p, const struct view_site *site, const struct strbuf *without)
{
	_cleanup_strbuf_ struct strbuf with = STRBUF_INIT;
	size_t i = 0;

	process_with(p, site, 1, &with);
	while (i < without->len && i < with.len && without->buf[i] == with.buf[i])
		i++;
	return i;
}

/* One site as view_json_process() writes it, open at its end. */
static void add_site(const struct view_site *s, const struct strbuf *bare, size_t at, struct strbuf *sb)
{
	static const struct view_process nobody;
	_cleanup_strbuf_ struct strbuf with = STRBUF_INIT;

	process_with(&nobody, s, 1, &with);
	if (with.error)
		sb->error = with.error;
	else
		strbuf_add(sb, with.buf + at, with.len - bare->len - 1);
}

static void add_sites(const struct view_process *p, const int64_t *growths, struct strbuf *sb)
{
	static const struct view_process nobody;
	_cleanup_strbuf_ struct strbuf bare = STRBUF_INIT;
	size_t at;

	process_with(&nobody, NULL, 0, &bare);
	at = sites_at(&nobody, p->sites, &bare);
	for (size_t i = 0; i < p->sites_len; i++) {
		if (i > 0)
			strbuf_addc(sb, ',');
		add_site(&p->sites[i], &bare, at, sb);
		json_key(sb, "growth_bytes");
		if (growths[i] == VIEW_NONE_INT)
			strbuf_adds(sb, "null}");
		else
			strbuf_addf(sb, "%" PRId64 "}", growths[i]);
	}
	if (bare.error)
		sb->error = bare.error;
}

void memtrace_json(const struct view *v, const struct view_process *p, const struct past_process *pp, struct strbuf *sb)
{
	_cleanup_strbuf_ struct strbuf without = STRBUF_INIT;
	_cleanup_free_ int64_t *growths = NULL;
	size_t at;

	process_with(p, NULL, 0, &without);
	if (without.error || past_site_growths(pp, p, v->totals.real_usec, &growths) < 0) {
		sb->error = -ENOMEM;
		return;
	}
	at = p->sites_len ? sites_at(p, p->sites, &without) : without.len;
	strbuf_addc(sb, '{');
	add_time(v->totals.real_usec, sb);
	strbuf_addc(sb, ',');
	strbuf_add(sb, without.buf + 1, at - 1);
	if (p->sites_len)
		add_sites(p, growths, sb);
	strbuf_add(sb, without.buf + at, without.len - at);
	strbuf_addc(sb, '\n');
}
