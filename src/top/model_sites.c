/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "history/render_text_pen.h"
#include "stack/site_key.h"
#include "top/model_private.h"

#define FRAMES_LINES 6 /* of a stack on one line, at most */
#define FRAMES_COLUMNS 300

/* The id leaves out lines of Python, which tell sites apart. */
static uint64_t site_key(const struct view_site *s)
{
	const uint64_t parts[] = { s->stack_id, s->is_other };
	uint64_t key = hash_bytes(0, parts, sizeof(parts));

	return hash_str(hash_str(key, s->stack ?: ""), s->stack ? "" : s->function ?: "");
}

static struct top_site *find_site(struct top_site *sites, size_t len, uint64_t key)
{
	for (size_t i = 0; i < len; i++) {
		if (sites[i].key == key)
			return &sites[i];
	}
	return NULL;
}

static int64_t difference(uint64_t now, uint64_t before)
{
	const uint64_t d = now >= before ? now - before : before - now;

	return now >= before ? (int64_t)MIN(d, (uint64_t)INT64_MAX) : -(int64_t)MIN(d, (uint64_t)INT64_MAX);
}

/* before: the same one in the look before, or NULL. */
static struct top_site make_site(const struct top_model *m, const struct view_site *s, uint64_t key, bool is_same_process,
				 struct top_site *before)
{
	struct top_site site = { .key = key, .s = s, .bytes = s->bytes, .growth = VIEW_NONE_INT };

	if (before) {
		site.growth = difference(s->bytes, before->bytes);
		site.frames = TAKE_PTR(before->frames);
	} else if (is_same_process && m->are_all_sites) {
		site.growth = difference(s->bytes, 0);
	}
	return site;
}

static void free_sites(struct top_site *sites, size_t len)
{
	for (size_t i = 0; i < len; i++)
		free(sites[i].frames);
	free(sites);
}

void top_sites_done(struct top_model *m)
{
	free_sites(m->sites, m->sites_len);
	m->sites = NULL;
	m->sites_len = 0;
}

/* The chosen one stays chosen wherever it stands now. */
static void choose_site(struct top_model *m, uint64_t key)
{
	struct top_site *chosen = find_site(m->sites, m->sites_len, key);

	if (chosen)
		m->site = (size_t)(chosen - m->sites);
	else if (m->pane == TOP_PANE_STACK)
		m->pane = TOP_PANE_SITES;
	m->site = MIN(m->site, m->sites_len > 0 ? m->sites_len - 1 : 0);
}

int top_sites_take(struct top_model *m)
{
	const struct view_process *p = top_model_selected(m);
	/* Of one that was chosen since they were asked for none are told yet. */
	const bool is_asked = p && (m->pane == TOP_PANE_SITES || m->pane == TOP_PANE_STACK) &&
			      (p->sites_len > 0 || p->sites_count == 0);
	const bool is_same = is_asked && m->sites_of == top_process_key(p);
	const uint64_t chosen = is_same && m->site < m->sites_len ? m->sites[m->site].key : 0;
	struct top_site *sites = NULL;

	if (is_asked) {
		sites = calloc(p->sites_len + 1, sizeof(*sites));
		if (!sites)
			return -ENOMEM;
		for (size_t i = 0; i < p->sites_len; i++) {
			const uint64_t key = site_key(&p->sites[i]);
			/* One that stands there twice is compared once. */
			struct top_site *before = is_same && !find_site(sites, i, key) ?
							  find_site(m->sites, m->sites_len, key) :
							  NULL;

			sites[i] = make_site(m, &p->sites[i], key, is_same, before);
		}
	}
	top_sites_done(m);
	m->sites = sites;
	m->sites_len = is_asked ? p->sites_len : 0;
	m->sites_of = is_asked ? top_process_key(p) : 0;
	m->are_all_sites = m->sites_len < TOP_SITES_MAX;
	if (!is_same)
		m->site = m->pane_scroll = m->stack_scroll = 0;
	choose_site(m, chosen);
	return 0;
}

/* Frames that are told, without what stands for those that are not, and the driver's function, which has a column. */
static void join_frames(const char *lines, const char *function, struct strbuf *sb)
{
	const size_t function_len = function ? strlen(function) : 0;

	for (const char *s = lines; *s; s += strcspn(s, "\n"), s += *s == '\n') {
		const size_t len = strcspn(s, "\n");
		const bool is_function = s == lines && function_len > 0 && len >= function_len &&
					 strncmp(s, function, function_len) == 0;

		if (len == 0 || is_function || (*s == '[' && strchr("0123456789", s[1])))
			continue;
		strbuf_adds(sb, sb->len > 0 ? " < " : "");
		strbuf_add(sb, s, len);
	}
}

static int make_frames(struct top_model *m, const struct view_site *s, char **ret)
{
	static const struct story nothing = { .until_usec = 1 };
	static const struct text_options options = { .width = FRAMES_COLUMNS };
	const struct story_stack stack = { .text = s->stack, .info = s->stack ? NULL : s->stack_info ?: "no stack" };
	_cleanup_strbuf_ struct strbuf lines = STRBUF_INIT, joined = STRBUF_INIT;
	struct pen pen;

	pen_init(&pen, &nothing, &options, &lines);
	/* They are many patterns: once for all. */
	pen.allocators = TAKE_PTR(m->allocators);
	pen_stack(&pen, &stack, 0, FRAMES_LINES);
	m->allocators = TAKE_PTR(pen.allocators);
	pen_done(&pen);
	if (lines.error)
		return lines.error;
	join_frames(strbuf_str(&lines), s->function, &joined);
	if (joined.len == 0)
		strbuf_adds(&joined, "-");
	return strbuf_steal(&joined, ret);
}

const char *top_site_frames(struct top_model *m, struct top_site *s)
{
	if (s->s && s->s->is_other)
		return "all other sites";
	if (!s->frames && s->s)
		(void)make_frames(m, s->s, &s->frames);
	return s->frames ?: "";
}
