/* SPDX-License-Identifier: MIT */
/* The daemon's own metrics: by HTTP, and in a file. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cmd/daemon_internal.h"
#include "http/server.h"
#include "base/textfile.h"
#include "http/textfile_writer.h"
#include "view/metrics.h"

struct metrics_server {
	struct daemon *daemon;
	struct http_server *http;
	struct textfile_writer *file;
	sd_event_source *timer;
	bool is_said; /* that the file cannot be written */
};

static int render(enum metrics_format format, struct strbuf *sb, char *reterr, size_t size, void *userdata)
{
	const struct metrics_server *m = userdata;
	const struct metrics_settings *s = &m->daemon->settings->metrics;
	const struct metrics_options o = { .format = format, .processes_max = s->processes, .has_args = s->args };
	const struct view_query q = {};
	_cleanup_(view_freep) struct view *v = NULL;
	int r = daemon_view(m->daemon, &q, &v);

	if (r < 0) {
		(void)snprintf(reterr, size, "%s", strerror(-r));
		return r;
	}
	metrics_write(v, &o, sb);
	return sb->error;
}

/* How the file before this one went: it is written beside this thread. */
static void say_file(struct metrics_server *m, const char *path, int r)
{
	if (r < 0 && !m->is_said)
		log_warning("metrics: cannot write %s: %s: %s", path, strerror(-r), textfile_cure(r));
	else if (r == 0 && m->is_said)
		log_info("metrics: %s is written again", path);
	m->is_said = r < 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct metrics_server *m = userdata;
	const struct metrics_settings *s = &m->daemon->settings->metrics;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	size_t len;
	char why[256], *text;

	say_file(m, s->textfile, textfile_writer_error(m->file));
	if (render(METRICS_PROMETHEUS, &sb, why, sizeof(why), m) == 0) {
		len = sb.len;
		if (strbuf_steal(&sb, &text) == 0)
			textfile_writer_push(m->file, text, len);
	}
	(void)sd_event_source_set_time_relative(source, s->interval_ns / NSEC_PER_USEC);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static void start_http(struct metrics_server *m, sd_event *event, const char *listen)
{
	_cleanup_strbuf_ struct strbuf where = STRBUF_INIT;
	char why[512];
	int r = http_server_new(event, listen, render, m, &m->http, why, sizeof(why));

	if (r < 0) {
		log_warning("metrics: %s", why);
		return;
	}
	http_server_where(m->http, &where);
	log_info("metrics at %s", strbuf_str(&where));
}

/* The first file comes when the driver has been asked and the first news have been read. */
static int start_file(struct metrics_server *m, sd_event *event)
{
	int r = textfile_writer_new(m->daemon->settings->metrics.textfile, &m->file);

	return r < 0 ? r : sd_event_add_time_relative(event, &m->timer, CLOCK_MONOTONIC, USEC_PER_SEC, 100000, on_timer, m);
}

int daemon_metrics_start(struct daemon *d)
{
	const struct metrics_settings *s = &d->settings->metrics;
	int r = 0;

	if (!s->listen && !s->textfile)
		return 0;
	d->metrics = calloc(1, sizeof(*d->metrics));
	if (!d->metrics) {
		log_warning("metrics: out of memory");
		return -ENOMEM;
	}
	d->metrics->daemon = d;
	if (s->listen)
		start_http(d->metrics, d->event, s->listen);
	if (s->textfile)
		r = start_file(d->metrics, d->event);
	if (r < 0)
		log_warning("metrics: no file is written: %s", strerror(-r));
	return r;
}

void daemon_metrics_stop(struct daemon *d)
{
	struct metrics_server *m = TAKE_PTR(d->metrics);

	if (!m)
		return;
	http_server_free(m->http);
	sd_event_source_disable_unref(m->timer);
	textfile_writer_free(m->file);
	free(m);
}
