/* SPDX-License-Identifier: MIT */
/* What is said, and what the next daemon will know of it: an incident is in the state file before its record is written. */
#include <fcntl.h>

#include "base/file.h"
#include "cmd/daemon_internal.h"
#include "engine_sim.h"
#include "record/reporter.h"

#define RULES                                                                                                          \
	"version = 1; rules = ({ name = \"quota\"; kind = \"live_bytes\"; scope = \"process\"; fire_above = \"1GiB\"; " \
	"for = \"0s\"; });"

struct said {
	char path[64];
	size_t len, unknown;	   /* records; of them, about an incident that the file does not have */
	enum report_event events[8];
	char id[16];
};

static bool is_in_file(const struct said *w)
{
	_cleanup_free_ char *text = NULL;
	size_t len = 0;

	return file_read_head(AT_FDCWD, w->path, 1 << 20, &text, &len) == 0 && memmem(text, len, w->id, sizeof(w->id));
}

static int write_cb(const struct record *r, void *userdata)
{
	struct said *w = userdata;
	const char *event = record_get(r, "GPUXRAY_EVENT");

	if (w->len < ARRAY_SIZE(w->events))
		w->events[w->len] = event && strcmp(event, "live_bytes") == 0 ? REPORT_LIVE_BYTES : REPORT_SAMPLE;
	w->len++;
	w->unknown += !is_in_file(w);
	return 0;
}

static bool settle(struct reporter *r)
{
	struct reporter_stats stats = { .queued = 1 };

	for (int i = 0; i < 500 && stats.queued > 0; i++) {
		(void)usleep(10000);
		reporter_stats(r, &stats);
	}
	return stats.queued == 0;
}

/* As the engine's callback in the daemon does it. */
static void say(struct daemon *d, struct report *r)
{
	daemon_keep_said(d);
	if (!daemon_keep_hold(d, r))
		reporter_push(d->reporter, r);
}

static struct report *take(struct sim *s)
{
	struct report *r = s->reports[0];

	s->len = 0;
	return r;
}

TEST(first_known_then_said)
{
	struct said w = { .path = "/tmp/gpuxray-keep-XXXXXX" };
	const struct reporter_options o = { .sink = SINK_JOURNAL, .queue = 16, .out_fd = -1, .write = write_cb, .userdata = &w };
	struct daemon d = {};
	struct block b;
	struct sim s;

	ASSERT(mkdtemp(w.path));
	(void)strcat(w.path, "/state");
	sim_new(&s, RULES);
	d.engine = s.e;
	ASSERT(state_open(w.path, &d.kept.state) == 0 && reporter_new(&o, &d.reporter) == 0);
	ASSERT(state_begin(d.kept.state) == 0 && state_end(d.kept.state) == 0);
	b = sim_alloc(&s, 1, 2 * GIB, 1);
	ASSERT(s.len == 1 && s.reports[0]->state == STATE_FIRING);
	memcpy(w.id, s.reports[0]->incident, sizeof(w.id));
	say(&d, take(&s));
	/* Not before what came first. */
	say(&d, report_new(REPORT_SAMPLE));
	EXPECT(settle(d.reporter));
	EXPECT_EQ(w.len, 0);
	daemon_keep_turn(&d);
	EXPECT(settle(d.reporter));
	EXPECT(w.len == 2 && w.unknown == 0 && w.events[0] == REPORT_LIVE_BYTES && w.events[1] == REPORT_SAMPLE);
	/* What is about no incident waits for nothing. */
	say(&d, report_new(REPORT_SAMPLE));
	EXPECT(settle(d.reporter));
	EXPECT_EQ(w.len, 3);
	sim_free(&s, b);
	sim_pass(&s, 2 * SEC);
	ASSERT(s.len == 1 && s.reports[0]->state == STATE_RESOLVED);
	say(&d, take(&s));
	EXPECT(settle(d.reporter));
	EXPECT_EQ(w.len, 3);
	daemon_keep_turn(&d);
	EXPECT(settle(d.reporter));
	EXPECT_EQ(w.len, 4);
	/* Nor does anything where there is no file. */
	state_free(d.kept.state);
	d.kept.state = NULL;
	sim_alloc(&s, 2, 2 * GIB, 1);
	ASSERT(s.len == 1);
	say(&d, take(&s));
	EXPECT(settle(d.reporter));
	EXPECT_EQ(w.len, 5);
	EXPECT_EQ(reporter_stop(d.reporter, 10 * SEC), 0);
	free(d.kept.held);
	sim_done(&s);
	(void)unlink(w.path);
	*strrchr(w.path, '/') = '\0';
	(void)rmdir(w.path);
}
TEST_MAIN()
