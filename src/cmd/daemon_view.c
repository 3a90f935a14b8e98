/* SPDX-License-Identifier: MIT */
/* All that the daemon knows, for those who look: the question of a session, and its answer. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/file.h"
#include "cmd/daemon_internal.h"
#include "model/process.h"
#include "model/saturate.h"
#include "trace/calls.h"

/* Ends of processes that a session has not been told of yet. */
#define ENDED_MAX 256
/* While somebody looks, drivers are asked this often. */
#define LOOK_NS (1 * NSEC_PER_SEC)
#define LOOK_FOR_NS (10 * NSEC_PER_SEC)

/* What is noted of a process. */
struct seen {
	uint32_t pid;
	uint64_t start_ns;
	uint64_t pass;
	struct identity *of, *shown; /* shown: of, without what is not to be shown; NULL = not asked yet */
	uint64_t bytes[VIEW_RECENT_MAX], allocs[VIEW_RECENT_MAX]; /* oldest first */
	size_t len;
};

/* Of a connection that asks on. */
struct session {
	struct daemon *d;
	uint64_t id; /* of its client */
	struct view_query query; /* the last one */
	uint32_t *pids;		 /* of the query */
	struct view *ended;	 /* processes alone; NULL = none */
	struct view_stacks stacks;
	uint64_t left_out;
};

static void seen_free(struct seen *s)
{
	identity_unref(s->of);
	identity_unref(s->shown);
	free(s);
}

static struct seen *seen_get(struct daemon *d, const struct process *p)
{
	struct seen *s = map64_get(&d->views.seen, p->pid);

	if (s && s->start_ns == p->start_ns)
		return s;
	if (s) {
		(void)map64_remove(&d->views.seen, p->pid);
		seen_free(s);
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->pid = p->pid;
	s->start_ns = p->start_ns;
	s->pass = d->views.pass;
	if (map64_put(&d->views.seen, p->pid, s) < 0) {
		free(s);
		return NULL;
	}
	return s;
}

static void seen_drop(struct daemon *d, const struct process *p)
{
	const struct seen *s = map64_get(&d->views.seen, p->pid);

	if (s && s->start_ns == p->start_ns)
		seen_free(map64_remove(&d->views.seen, p->pid));
}

static void seen_push(struct seen *s, const struct process *p)
{
	if (s->len == VIEW_RECENT_MAX) {
		s->len--;
		memmove(s->bytes, s->bytes + 1, s->len * sizeof(s->bytes[0]));
		memmove(s->allocs, s->allocs + 1, s->len * sizeof(s->allocs[0]));
	}
	s->bytes[s->len] = p->live_bytes;
	s->allocs[s->len++] = p->alloc_count;
}

/* Those of processes that are gone. */
static void seen_sweep(struct daemon *d)
{
	_cleanup_free_ uint64_t *gone = malloc((d->views.seen.len + 1) * sizeof(*gone));
	size_t iter = 0, n = 0;
	void *value;

	while (gone && map64_next(&d->views.seen, &iter, NULL, &value)) {
		const struct seen *s = value;

		if (s->pass != d->views.pass)
			gone[n++] = s->pid;
	}
	for (size_t i = 0; i < n; i++)
		seen_free(map64_remove(&d->views.seen, gone[i]));
}

void daemon_view_tick(struct daemon *d)
{
	struct process *p;
	size_t iter = 0;

	if (d->now_ns - d->views.pushed_ns < VIEW_RECENT_NS)
		return;
	d->views.pushed_ns = d->now_ns;
	d->views.pass++;
	while ((p = engine_next_process(d->engine, &iter))) {
		struct seen *s = seen_get(d, p);

		if (!s)
			return; /* no memory: the rest stay as they are */
		s->pass = d->views.pass;
		seen_push(s, p);
	}
	seen_sweep(d);
}

static const struct identity *shown_cb(const struct process *p, void *userdata)
{
	struct daemon *d = userdata;
	struct seen *s = seen_get(d, p);

	if (!s || !p->id)
		return NULL;
	if (s->of != p->id) {
		identity_unref(s->of);
		identity_unref(s->shown);
		s->of = identity_ref(p->id);
		s->shown = NULL;
		(void)redact_identity(d->redact, p->id, &s->shown);
	}
	return s->shown;
}

static int fill_recent(const struct seen *s, const struct process *p, struct view_process *v)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	if (!s || s->start_ns != p->start_ns || !s->len)
		return 0;
	v->growth_bytes_per_min = (int64_t)(p->live_bytes - s->bytes[0]);
	v->allocs_per_min = sat_diff(p->alloc_count, s->allocs[0]);
	for (size_t i = 0; i < s->len; i++)
		strbuf_addf(&sb, "%s%" PRIu64, i ? "," : "", s->bytes[i]);
	return strbuf_steal(&sb, &v->recent);
}

/* What only the daemon knows of a process. */
static int fill_process(struct daemon *d, const struct process *p, struct view_process *v)
{
	/* In milliseconds: two clocks are read one after the other, and it should be the same each time. */
	v->start_usec = sat_diff(clock_real_usec(), sat_diff(clock_boot_ns(), p->start_ns) / NSEC_PER_USEC) / 1000 * 1000;
	v->is_older = p->start_ns < tracer_since_ns(d->tracer);
	return fill_recent(map64_get(&d->views.seen, p->pid), p, v);
}

static int fill_processes(struct daemon *d, struct view *v)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < v->processes_len; i++) {
		const struct process *p = engine_newest_process(d->engine, v->processes[i].pid);

		if (p)
			r = fill_process(d, p, &v->processes[i]);
	}
	return r;
}

static void set_use(const struct daemon *d, const struct gpu_process *g, struct view_process *v)
{
	for (size_t i = 0; i < v->devices_len; i++)
		if (v->devices[i].uuid && !strcmp(v->devices[i].uuid, d->gpus.devices[g->device].uuid))
			v->devices[i].sm_percent = g->sm_percent;
}

/* What processes use of the multiprocessors, as the driver says. */
static int fill_use(const struct daemon *d, struct view *v)
{
	struct map64 places = MAP64_INIT; /* by pid, and one */
	int r = 0;

	for (size_t i = 0; r == 0 && !d->driver.is_foreign && i < v->processes_len; i++)
		r = map64_put(&places, v->processes[i].pid, (void *)(i + 1));
	for (size_t i = 0; r == 0 && i < d->gpus.process_count; i++) {
		size_t place = (size_t)map64_get(&places, d->gpus.processes[i].pid);

		if (place)
			set_use(d, &d->gpus.processes[i], &v->processes[place - 1]);
	}
	map64_done(&places);
	return r;
}

static int fill_devices(const struct daemon *d, struct view *v)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < v->devices_len; i++) {
		struct view_device *vd = &v->devices[i];

		for (size_t k = 0; r == 0 && k < d->gpus.device_count; k++) {
			const struct gpu_device *g = &d->gpus.devices[k];

			if (strcmp(g->uuid, vd->uuid) != 0)
				continue;
			vd->busy_percent = g->busy_percent;
			vd->memory_busy_percent = g->memory_busy_percent;
			vd->celsius = g->celsius;
			vd->milliwatts = g->milliwatts;
			vd->milliwatts_max = g->milliwatts_max;
			r = view_set(&vd->driver, g->driver);
		}
	}
	return r;
}

struct limits_view {
	struct view *v;
	int error;
};

static void limit_cb(const char *name, uint64_t used, uint64_t max, uint64_t overflows, void *userdata)
{
	struct limits_view *lv = userdata;
	struct view_limit *l = view_add_limit(lv->v);

	if (!l || view_set(&l->name, name) < 0) {
		lv->error = -ENOMEM;
		return;
	}
	l->used = used;
	l->max = max;
	l->overflows = overflows;
}

static int fill_limits(struct daemon *d, struct view *v)
{
	struct limits_view lv = { .v = v };

	engine_each_limit(d->engine, limit_cb, &lv);
	daemon_each_limit(d, limit_cb, &lv);
	return lv.error;
}

static int fill_counters(const uint64_t c[COUNTER_MAX], struct view *v)
{
	for (int i = 0; i < COUNTER_MAX; i++) {
		struct view_counter *vc = view_add_counter(v);

		if (!vc || view_set(&vc->name, counter_name((enum counter)i)) < 0)
			return -ENOMEM;
		vc->value = c[i];
	}
	return 0;
}

_Static_assert(VIEW_LATENCY_BUCKETS == LATENCY_BUCKETS, "the same buckets");

static int fill_latency(struct daemon *d, uint32_t row, struct view *v)
{
	struct view_latency *vl;
	struct latency l;

	if (tracer_latency(d->tracer, row, &l) < 0 || !l.sum_ns)
		return 0;
	vl = view_add_latency(v);
	if (!vl || view_set(&vl->function, call_symbol(row)) < 0)
		return -ENOMEM;
	vl->sum_ns = l.sum_ns;
	for (size_t i = 0; i < LATENCY_BUCKETS; i++) {
		vl->buckets[i] = l.buckets[i];
		vl->count += l.buckets[i];
	}
	return 0;
}

static int fill_latencies(struct daemon *d, struct view *v)
{
	size_t n = MIN(calls_len(), (size_t)CALL_MAX);
	uint64_t hits[CALL_MAX];
	int r = 0;

	if (tracer_hits(d->tracer, hits, n) < 0)
		return 0;
	for (size_t i = 0; r == 0 && i < n; i++)
		if (hits[i])
			r = fill_latency(d, (uint32_t)i, v);
	return r;
}

/* Resident pages, the second word of statm; 0 = not known. */
static uint64_t resident_bytes(void)
{
	_cleanup_free_ char *text = NULL;
	unsigned long long pages = 0;
	size_t len;

	if (file_read(AT_FDCWD, "/proc/self/statm", 256, &text, &len) < 0 || sscanf(text, "%*s %llu", &pages) != 1)
		return 0;
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t count_fds(void)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc/self/fd");
	uint64_t n = 0;

	while (dir && readdir(dir))
		n++;
	return n > 3 ? n - 3 : 0; /* ".", ".." and the folder itself */
}

static int fill_totals(struct daemon *d, struct view_totals *t)
{
	struct reporter_stats rs = {};
	struct rusage u = {};
	char host[256] = "";
	int r;

	reporter_stats(d->reporter, &rs);
	(void)getrusage(RUSAGE_SELF, &u);
	(void)gethostname(host, sizeof(host) - 1);
	t->real_usec = clock_real_usec();
	t->uptime_ns = clock_monotonic_ns() - d->started_ns;
	t->start_usec = sat_diff(t->real_usec, t->uptime_ns / NSEC_PER_USEC);
	t->traced_usec = sat_diff(t->real_usec, sat_diff(clock_boot_ns(), tracer_since_ns(d->tracer)) / NSEC_PER_USEC) / 1000 * 1000;
	t->is_daemon = !daemon_is_bare(d);
	t->lost_events = d->lost_seen;
	t->rules = d->rule_count;
	t->records_written = rs.written;
	t->records_dropped = rs.dropped;
	t->records_failed = rs.failed;
	t->libraries = libraries_count(d->libraries);
	t->cpu_ns = ((uint64_t)u.ru_utime.tv_sec + (uint64_t)u.ru_stime.tv_sec) * NSEC_PER_SEC +
		    ((uint64_t)u.ru_utime.tv_usec + (uint64_t)u.ru_stime.tv_usec) * NSEC_PER_USEC;
	t->resident_bytes = resident_bytes();
	t->kernel_bytes_max = tracer_memory_bytes(d->tracer);
	t->fds = count_fds();
	r = view_set(&t->version, GPUXRAY_VERSION);
	if (r == 0)
		r = view_set(&t->host, host);
	return r == 0 && d->nvml ? view_set(&t->driver_status, nvml_watch_status(d->nvml)) : r;
}

static int fill(struct daemon *d, const struct view_query *q, struct view *v, struct view_stacks *stacks)
{
	const struct engine_view_options o = { .query = q, .now_ns = clock_monotonic_ns(), .shown = shown_cb, .userdata = d };
	uint64_t c[COUNTER_MAX] = {};
	int r;

	/* What has happened by now is in it. */
	daemon_drain(d);
	(void)tracer_counters(d->tracer, c);
	v->totals.events = c[COUNTER_EVENTS];
	r = engine_view(d->engine, &o, v, stacks);
	if (r == 0)
		r = fill_devices(d, v);
	if (r == 0)
		r = fill_processes(d, v);
	if (r == 0)
		r = fill_use(d, v);
	if (r == 0)
		r = fill_limits(d, v);
	if (r == 0)
		r = fill_counters(c, v);
	if (r == 0)
		r = fill_latencies(d, v);
	if (r == 0)
		r = fill_totals(d, &v->totals);
	if (r == 0 && d->nvml)
		nvml_watch_hurry(d->nvml, LOOK_NS, LOOK_FOR_NS);
	return r;
}

int daemon_view(struct daemon *d, const struct view_query *q, struct view **ret)
{
	_cleanup_(view_stacks_done) struct view_stacks stacks = VIEW_STACKS_INIT;
	_cleanup_(view_freep) struct view *v = view_new();
	int r = v ? fill(d, q, v, &stacks) : -ENOMEM;

	if (r == 0)
		*ret = TAKE_PTR(v);
	return r;
}

static void session_done(void *data)
{
	struct session *s = data;

	if (s->d->views.worker)
		view_worker_cancel(s->d->views.worker, s->id);
	view_free(s->ended);
	view_stacks_done(&s->stacks);
	free(s->pids);
	free(s);
}

static int note_end(struct session *s, const struct process *p)
{
	const struct engine_view_options o = { .query = &s->query, .now_ns = clock_monotonic_ns(), .shown = shown_cb,
					       .userdata = s->d };
	size_t at;
	int r;

	if (!s->ended)
		s->ended = view_new();
	if (!s->ended)
		return -ENOMEM;
	at = s->ended->processes_len;
	r = engine_view_process(s->d->engine, p, &o, s->ended, &s->stacks);
	if (r == 0)
		r = fill_process(s->d, p, &s->ended->processes[at]);
	if (s->ended->processes_len > at)
		s->ended->processes[at].is_ended = true;
	return r;
}

void daemon_view_ended(struct daemon *d, const struct process *p)
{
	struct session *s;
	size_t iter = 0;

	while (d->status && (s = status_server_next_data(d->status, &iter))) {
		if (!s->query.ends || !view_pids_have(s->query.pids, s->query.pids_len, p->pid))
			continue;
		if ((s->ended && s->ended->processes_len >= ENDED_MAX) || note_end(s, p) < 0)
			s->left_out++;
	}
	/* By exec the next one is of the same start: its calls are counted anew. */
	seen_drop(d, p);
}

/* Moves the ends that a session waits for into the view. */
static int take_ends(struct session *s, struct view *v, struct view_stacks *stacks)
{
	size_t first = v->processes_len;

	v->totals.ended_left_out = s->left_out;
	s->left_out = 0;
	if (!s->ended)
		return 0;
	for (size_t i = 0; i < s->ended->processes_len; i++) {
		struct view_process *p = view_add_process(v);

		if (!p)
			return -ENOMEM;
		*p = s->ended->processes[i];
		memset(&s->ended->processes[i], 0, sizeof(*p));
	}
	for (size_t i = 0; i < s->stacks.len; i++) {
		s->stacks.list[i].process += first;
		if (view_stacks_take(stacks, &s->stacks.list[i]) < 0)
			return -ENOMEM;
	}
	s->stacks.len = 0;
	view_free(TAKE_PTR(s->ended));
	return 0;
}

static int on_worker(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct daemon *d = userdata;
	uint64_t id;
	char *text;

	while (view_worker_take(d->views.worker, &id, &text)) {
		struct status_client *c = d->status ? status_server_client(d->status, id) : NULL;

		if (c)
			status_answer(c, text);
		else
			free(text);
	}
	return 0;
}

static int start_worker(struct daemon *d)
{
	int r = d->views.worker ? 0 : view_worker_new(d->objects, d->redact, &d->views.worker);

	if (r == 0 && !d->views.worker_source)
		r = sd_event_add_io(d->event, &d->views.worker_source, view_worker_fd(d->views.worker), EPOLLIN, on_worker, d);
	return r;
}

/* The session of a client that asks like this. 0 or -errno. */
static int use_session(struct daemon *d, struct status_client *c, const char *request, struct session **ret)
{
	struct session *s = status_client_data(c);
	struct view_query q;
	uint32_t *pids;
	int r = view_query_decode(request, &q, &pids);

	if (r < 0)
		return r;
	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s) {
			free(pids);
			return -ENOMEM;
		}
		s->d = d;
		s->id = status_client_id(c);
		status_client_set_data(c, s, session_done);
	}
	free(s->pids);
	s->query = q;
	s->pids = pids;
	*ret = s;
	return 0;
}

int daemon_view_request(struct daemon *d, struct status_client *c, const char *request, struct strbuf *sb)
{
	_cleanup_(view_stacks_done) struct view_stacks stacks = VIEW_STACKS_INIT;
	_cleanup_(view_freep) struct view *v = view_new();
	struct session *s;
	int r = v ? use_session(d, c, request, &s) : -ENOMEM;

	if (r == 0)
		r = fill(d, &s->query, v, &stacks);
	if (r == 0)
		r = take_ends(s, v, &stacks);
	if (r < 0)
		return r;
	if (!stacks.len) {
		view_encode(v, sb);
		return STATUS_MORE;
	}
	r = start_worker(d);
	if (r == 0)
		r = view_worker_push(d->views.worker, status_client_id(c), TAKE_PTR(v), &stacks);
	return r < 0 ? r : STATUS_LATER;
}

void daemon_view_done(struct daemon *d)
{
	size_t iter = 0;
	void *value;

	sd_event_source_disable_unref(d->views.worker_source);
	view_worker_free(d->views.worker);
	while (map64_next(&d->views.seen, &iter, NULL, &value))
		seen_free(value);
	map64_done(&d->views.seen);
}
