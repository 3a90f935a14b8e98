// SPDX-License-Identifier: MIT
/* One trace: made or read, told to an engine with the shipped rules, and what it says kept for the judge. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map64.h"
#include "base/pattern.h"
#include "base/thread.h"
#include "leakbench.h"
#include "replay/player.h"

#define DEVICE_UUID "GPU-6c65616b-0000-4000-8000-000000000001"
/* The daemon asks the driver every 10 s; so seldom costs less and is all the same to rules that look at an hour. */
#define DRIVER_EVERY_NS (30 * GEN_SEC)
#define CONTEXT_BYTES (UINT64_C(420) << 20) /* of the driver's own, in every process */
#define JOBS_MAX 256u
#define LOSSES_EVEN 1000 /* pieces of a recording's loss that is told as one number */
/* Played again: so much later, by processes whose pids are so much higher. */
#define AGAIN_NS (7 * 60 * GEN_SEC)
#define AGAIN_PIDS (UINT32_C(1) << 23)

struct run {
	const struct bench_case *c;
	struct player *player;
	struct trace_reader *reader; /* of a recording */
	struct pattern *site;
	uint64_t leak_site;
	uint64_t live_bytes;
	uint64_t began_ns; /* to play: making it does not count */
	bool is_rehearsal; /* what is said now is not judged: it is played again */
	uint64_t base_ns;  /* of the player's time, where the run that is judged began */
	uint64_t shift_ns; /* to be added to times of items, before they are stretched */
	uint32_t pid_shift;
	struct map64 pids; /* of a recording, to end them before it is played again */
	struct map64 blocks; /* bytes of generated blocks by address, as pointers */
	struct map64 losing; /* generated: stacks of which something was lost; empty = not known */
	struct said *said;
	size_t len, cap;
	int error;
	char frames[128];
};

static void run_done(struct run *r)
{
	player_free(r->player);
	trace_close(r->reader);
	pattern_free(r->site);
	map64_done(&r->blocks);
	map64_done(&r->losing);
	map64_done(&r->pids);
	free(r->said);
}

/* --- what is said --- */

/* Frames that differ by stack alone: each stack is a call site. */
static const char *on_stack(uint64_t stack, void *userdata)
{
	struct run *r = userdata;

	if (r->reader)
		return trace_stack(r->reader, stack);
	snprintf(r->frames, sizeof(r->frames), "work_%llu (work.py:%llu);step (train.py:40);main (train.py:90)",
		 (unsigned long long)stack, (unsigned long long)stack);
	return r->frames;
}

static bool is_true_site(struct run *r, const struct stack *s)
{
	uint64_t number = player_stack_number(r->player, s);
	const char *frames, *end;

	if (!r->reader)
		return number && number == r->leak_site;
	frames = number && r->site ? trace_stack(r->reader, number) : NULL;
	while (frames) {
		end = strchr(frames, ';');
		if (pattern_match(r->site, frames, end ? (size_t)(end - frames) : strlen(frames)) == 1)
			return true;
		frames = end ? end + 1 : NULL;
	}
	return false;
}

static uint8_t rank_of(struct run *r, const struct report *report)
{
	if (report->sites_len == 0)
		return report->stack && is_true_site(r, report->stack);
	for (size_t i = 0; i < report->sites_len; i++) {
		if (report->sites[i].stack && is_true_site(r, report->sites[i].stack))
			return (uint8_t)(i + 1);
	}
	return 0;
}

/* A record about the process may be right without naming a site; one about a site is right about that one or wrong. */
static bool is_wrong(struct run *r, const struct report *report, uint8_t rank)
{
	if (report->scope != SCOPE_STACK || rank > 0)
		return false;
	if (r->reader)
		return r->site != NULL;
	return r->losing.len > 0 && !map64_get(&r->losing, player_stack_number(r->player, report->stack));
}

static bool is_judged(const struct run *r, const struct report *report)
{
	uint32_t pid = r->c->label && r->c->label->pid ? r->c->label->pid + r->pid_shift : 0;

	return !r->is_rehearsal &&
	       (report->event == REPORT_LEAK || report->event == REPORT_UNTRACKED_GROWTH) && report->others == 0 &&
	       report->seq > 0 && (pid == 0 || (report->id && report->id->pid == pid));
}

static void on_report(struct report *report, uint64_t time_ns, void *userdata)
{
	_cleanup_(report_freep) struct report *owned = report;
	struct run *r = userdata;
	struct said *s;

	if (!is_judged(r, owned))
		return;
	if (r->len >= r->cap) {
		size_t cap = r->cap ? r->cap * 2 : 16;
		struct said *said = realloc(r->said, cap * sizeof(*said));

		if (!said) {
			r->error = -ENOMEM;
			return;
		}
		r->said = said;
		r->cap = cap;
	}
	s = &r->said[r->len++];
	*s = (struct said){ .time_ns = time_ns - r->base_ns, .state = owned->state, .severity = owned->severity,
			    .confidence = owned->confidence, .rank = rank_of(r, owned) };
	s->is_wrong = is_wrong(r, owned, s->rank);
	memcpy(s->incident, owned->incident, sizeof(s->incident));
}

static int run_start(struct run *r, const char *rules, const struct trace_clock *clock, double stretch)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	struct player_options o = { .limits = LIMITS_DEFAULT, .clock = *clock, .stretch = stretch, .report = on_report,
				    .stack = on_stack, .userdata = r };
	struct ruleset *rs = NULL;
	char *paths[] = { (char *)rules };
	int q;

	/* A set of its own for each trace: patterns belong to one thread. */
	q = ruleset_load("", paths, 1, &errors, &rs);
	if (q < 0) {
		errors_print(&errors, stderr);
		return q;
	}
	return player_new(&o, rs, &r->player);
}

/* To the run that is going on. */
static int feed(struct run *r, const struct trace_item *item)
{
	struct trace_item it = *item;

	it.time_ns += r->shift_ns;
	if (it.type == TRACE_BLOCK)
		it.birth_ns += r->shift_ns;
	if (it.pid)
		it.pid += r->pid_shift;
	return player_feed(r->player, &it);
}

/* The rehearsal is over, and all its processes have ended. */
static void begin_again(struct run *r, double stretch)
{
	r->shift_ns = (uint64_t)((double)(player_time(r->player) + AGAIN_NS) / (stretch > 0 ? stretch : 1));
	r->base_ns = player_stretch(r->player, r->shift_ns);
	r->pid_shift = AGAIN_PIDS;
	r->is_rehearsal = false;
}

/* --- generated --- */

static int feed_device(struct run *r, const struct gen *g, uint64_t time_ns, uint64_t held_bytes)
{
	const struct trace_item gpu = { .type = TRACE_GPU, .time_ns = time_ns, .uuid = DEVICE_UUID, .name = "generated",
					.total_bytes = g->device_bytes, .used_bytes = g->foreign_bytes + held_bytes };
	const struct trace_item end = { .type = TRACE_GPUS_END, .time_ns = time_ns };
	int q = feed(r, &gpu);

	return q < 0 ? q : feed(r, &end);
}

static int feed_driver(struct run *r, uint64_t time_ns, uint64_t bytes)
{
	const struct trace_item item = { .type = TRACE_DRIVER, .pid = GEN_PID, .time_ns = time_ns, .uuid = DEVICE_UUID,
					 .bytes = bytes };

	return feed(r, &item);
}

static int feed_begin(struct run *r, const struct gen *g)
{
	const struct trace_item process = { .type = TRACE_PROCESS, .pid = GEN_PID };
	const struct trace_item ordinal = { .type = TRACE_ORDINAL, .pid = GEN_PID, .uuid = DEVICE_UUID };
	int q = feed_device(r, g, 0, 0);

	if (q == 0)
		q = feed(r, &process);
	return q < 0 ? q : feed(r, &ordinal);
}

static int count_live(struct run *r, const struct trace_item *item)
{
	if (item->type == TRACE_ALLOC) {
		r->live_bytes += item->bytes;
		return map64_put(&r->blocks, item->addr, (void *)(uintptr_t)item->bytes);
	}
	if (item->type == TRACE_FREE)
		r->live_bytes -= (uintptr_t)map64_remove(&r->blocks, item->addr);
	return 0;
}

/* The items, and between them what the driver would have said. */
static int feed_items(struct run *r, const struct gen *g)
{
	bool tells_driver = false;
	uint64_t due = DRIVER_EVERY_NS, held = 0;
	int q;

	for (size_t i = 0; i < g->len && !tells_driver; i++)
		tells_driver = g->items[i].type == TRACE_DRIVER;
	for (size_t i = 0; i < g->len; i++) {
		const struct trace_item *item = &g->items[i];

		for (; due <= item->time_ns; due += DRIVER_EVERY_NS) {
			if (!tells_driver)
				held = r->live_bytes + CONTEXT_BYTES;
			q = feed_device(r, g, due, held);
			if (q == 0 && !tells_driver)
				q = feed_driver(r, due, held);
			if (q < 0)
				return q;
		}
		if (item->type == TRACE_DRIVER) {
			held = item->bytes;
			q = feed_driver(r, item->time_ns, held);
		} else {
			q = feed(r, item);
		}
		if (q == 0)
			q = count_live(r, item);
		if (q < 0)
			return q;
	}
	player_pass(r->player, g->end_ns + r->shift_ns);
	/* It ends there, whether it was done or the device was full. */
	return feed(r, &(struct trace_item){ .type = TRACE_EXIT, .pid = GEN_PID, .time_ns = g->end_ns });
}

static int feed_all(struct run *r, const struct gen *g)
{
	int q = feed_begin(r, g);

	map64_done(&r->blocks);
	r->blocks = (struct map64)MAP64_INIT;
	r->live_bytes = 0;
	return q < 0 ? q : feed_items(r, g);
}

/* Losses without a block leave it open which sites they are of. */
static int list_losing(struct run *r, const struct gen *g)
{
	for (size_t i = 0; i < g->losses_len; i++) {
		uint64_t stack = g->losses[i].stack;

		if (stack == 0) {
			map64_done(&r->losing);
			r->losing = (struct map64)MAP64_INIT;
			return 0;
		}
		if (map64_put(&r->losing, stack, r) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int run_generated(struct run *r, const char *rules, struct outcome *o)
{
	/* Programs start at any time: epochs of rules do not begin with them. */
	struct trace_clock clock = TRACE_CLOCK_DEFAULT;
	struct truth t;
	struct gen g;
	int q;

	clock.monotonic_ns += hash64(hash_str(r->c->seed, r->c->family->name)) % (86400 * GEN_SEC);
	gen_init(&g, r->c->family, r->c->seed);
	r->c->family->make(&g);
	gen_finish(&g);
	r->leak_site = g.leak_site;
	r->began_ns = clock_monotonic_ns();
	q = list_losing(r, &g);
	if (q == 0)
		q = run_start(r, rules, &clock, 0);
	if (q == 0)
		q = feed_all(r, &g);
	if (q == 0 && r->is_rehearsal) {
		begin_again(r, 1);
		q = feed_all(r, &g);
	}
	t = (struct truth){ .is_leak = g.is_leak, .has_site = g.leak_site != 0, .start_ns = g.leak_start_ns,
			    .end_ns = g.end_ns, .device_bytes = g.device_bytes, .losses = g.losses,
			    .losses_len = g.losses_len };
	o->is_full = g.is_full;
	evidence_end(&t);
	if (q == 0)
		q = outcome_judge(o, &t, r->said, r->len);
	gen_done(&g);
	return q;
}

/* --- recordings --- */

/* The label's losses on the clock of the replay. */
static struct gen_loss *label_losses(const struct label *l, uint64_t end_ns, size_t *ret_len)
{
	size_t len = l->losses_len ? l->losses_len : LOSSES_EVEN;
	struct gen_loss *list = malloc(len * sizeof(*list));
	double start = l->start_sec * l->stretch * 1e9, each = ((double)end_ns - start) / LOSSES_EVEN;

	for (size_t i = 0; list && i < len; i++) {
		if (l->losses_len)
			list[i] = (struct gen_loss){ .time_ns = (uint64_t)((double)l->losses[i].time_ns * l->stretch),
						      .bytes = l->losses[i].bytes };
		else
			list[i] = (struct gen_loss){ .time_ns = (uint64_t)(start + each * (double)i),
						      .bytes = l->leaked_bytes / LOSSES_EVEN };
	}
	*ret_len = len;
	return list;
}

static int judge_recording(struct run *r, uint64_t device_bytes, struct outcome *o)
{
	const struct label *l = r->c->label;
	struct truth t = { .is_leak = l->is_leak, .has_site = l->site != NULL, .device_bytes = device_bytes,
			   .start_ns = (uint64_t)(l->start_sec * l->stretch * 1e9),
			   .end_ns = player_time(r->player) - r->base_ns };
	_cleanup_free_ struct gen_loss *losses = NULL;

	if (l->is_leak) {
		t.losses = losses = label_losses(l, t.end_ns, &t.losses_len);
		if (!losses)
			return -ENOMEM;
	}
	evidence_end(&t);
	return outcome_judge(o, &t, r->said, r->len);
}

static int read_recording(struct run *r, const char *rules, struct errors *errors, uint64_t *ret_device_bytes)
{
	struct trace_item item;
	int q;

	while ((q = trace_read(r->reader, errors, &item)) > 0) {
		/* Its clock is known with its first item. */
		if (!r->player) {
			q = run_start(r, rules, trace_clock(r->reader), r->c->label->stretch);
			if (q < 0)
				return q;
		}
		if (item.type == TRACE_GPU && item.total_bytes != TRACE_UNKNOWN)
			*ret_device_bytes = MAX(*ret_device_bytes, item.total_bytes);
		if (r->is_rehearsal && item.pid && map64_put(&r->pids, item.pid, r) < 0)
			return -ENOMEM;
		q = feed(r, &item);
		if (q < 0)
			return q == -EINVAL ? errors_add(errors, r->c->label->path, (int)trace_line(r->reader),
							 "not a thing that can happen") : q;
	}
	if (q == 0 && !r->player)
		return errors_add(errors, r->c->label->path, 0, "nothing in it");
	return q;
}

/* They live on where the recording ends before they do. */
static int end_all(struct run *r)
{
	struct trace_item end = { .type = TRACE_EXIT };
	size_t iter = 0;
	uint64_t pid;
	int q = 0;

	while (q == 0 && map64_next(&r->pids, &iter, &pid, NULL)) {
		end.pid = (uint32_t)pid;
		q = player_feed(r->player, &end);
	}
	return q;
}

static int read_again(struct run *r, const char *rules, struct errors *errors, uint64_t *ret_device_bytes)
{
	int q = end_all(r);

	if (q < 0)
		return q;
	trace_close(r->reader);
	r->reader = NULL;
	begin_again(r, r->c->label->stretch);
	q = trace_open(r->c->label->path, errors, &r->reader);
	return q < 0 ? q : read_recording(r, rules, errors, ret_device_bytes);
}

static int run_recording(struct run *r, const char *rules, struct outcome *o)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	const struct label *l = r->c->label;
	char why[PATTERN_ERROR_MAX];
	uint64_t device_bytes = 0;
	int q = l->site ? pattern_new(l->site, why, &r->site) : 0;

	r->began_ns = clock_monotonic_ns();
	if (q == 0)
		q = trace_open(l->path, &errors, &r->reader);
	if (q == 0)
		q = read_recording(r, rules, &errors, &device_bytes);
	if (q == 0 && r->is_rehearsal)
		q = read_again(r, rules, &errors, &device_bytes);
	if (q == 0)
		q = judge_recording(r, device_bytes, o);
	errors_print(&errors, stderr);
	return q;
}

void bench_run(const struct bench_case *c, const char *rules, struct outcome *o)
{
	_cleanup_(run_done) struct run r = { .c = c, .is_rehearsal = c->is_again };
	struct player_stats stats;

	*o = (struct outcome){ .set = c->set, .family = c->family ? c->family->name : c->label->family,
			       .number = c->family ? c->seed : (uint64_t)c->label->line,
			       .file = c->label ? c->label->path : NULL };
	evidence_begin(&(struct evidence_of){ .c = c, .family = o->family, .number = o->number, .player = &r.player });
	o->error = c->family ? run_generated(&r, rules, o) : run_recording(&r, rules, o);
	if (o->error == 0)
		o->error = r.error;
	if (r.player) {
		player_stats(r.player, &stats);
		o->events = stats.events;
		o->unknown_frees = stats.unknown_frees;
		o->replaced = stats.replaced;
		o->late = stats.late;
	}
	o->wall_ns = r.began_ns ? clock_monotonic_ns() - r.began_ns : 0;
}

/* --- all of them --- */

struct crew {
	const struct bench_case *cases;
	struct outcome *outcomes;
	size_t len;
	const char *rules;
	atomic_size_t next, done;
};

static void *work(void *userdata)
{
	struct crew *crew = userdata;
	size_t i;

	while ((i = atomic_fetch_add(&crew->next, 1)) < crew->len) {
		size_t done;

		bench_run(&crew->cases[i], crew->rules, &crew->outcomes[i]);
		done = atomic_fetch_add(&crew->done, 1) + 1;
		if (isatty(STDERR_FILENO))
			fprintf(stderr, "\r%zu of %zu traces ", done, crew->len);
	}
	return NULL;
}

int bench_run_all(const struct bench_case *cases, size_t len, const char *rules, unsigned jobs, struct outcome *ret)
{
	struct crew crew = { .cases = cases, .outcomes = ret, .len = len, .rules = rules };
	pthread_t threads[JOBS_MAX];
	unsigned started = 0;
	int r = 0;

	while (started + 1 < MIN(jobs, JOBS_MAX) && r == 0) {
		r = thread_start(&threads[started], "leakbench", work, &crew);
		started += r == 0;
	}
	/* With however many there are: also if none could be started. */
	work(&crew);
	for (unsigned i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K");
	for (size_t i = 0; i < len; i++) {
		if (ret[i].error < 0) {
			fprintf(stderr, "leakbench: %s %s %llu: %s\n", ret[i].set, ret[i].family,
				(unsigned long long)ret[i].number, strerror(-ret[i].error));
			r = ret[i].error;
		}
	}
	return r;
}
