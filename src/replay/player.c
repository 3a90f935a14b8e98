/* SPDX-License-Identifier: MIT */
#include "replay/player.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "replay/player_private.h"
#include "replay/recorder.h"

/* The row of a call is 16 bits of an event. */
#define CALLS_MAX UINT16_MAX

size_t player_name(struct player_names *n, const char *name)
{
	uint64_t hash = hash_str(0, name);
	size_t number = (size_t)(uintptr_t)map64_get(&n->by_hash, hash);

	/* Of two with one hash the later one finds no entry of its own, and is kept again each time. */
	if (number && strcmp(n->list[number - 1], name) == 0)
		return number;
	if (n->len >= n->cap) {
		size_t cap = n->cap ? n->cap * 2 : 16;
		char **list = realloc(n->list, cap * sizeof(*list));

		if (!list)
			return 0;
		n->list = list;
		n->cap = cap;
	}
	n->list[n->len] = strdup(name);
	if (!n->list[n->len] || map64_put(&n->by_hash, hash, (void *)(uintptr_t)(n->len + 1)) < 0) {
		free(n->list[n->len]);
		return 0;
	}
	return ++n->len;
}

static void names_done(struct player_names *n)
{
	for (size_t i = 0; i < n->len; i++)
		free(n->list[i]);
	free(n->list);
	map64_done(&n->by_hash);
}

static void on_report(struct report *r, void *userdata)
{
	struct player *p = userdata;

	if (p->options.report)
		p->options.report(r, player_time(p), p->options.userdata);
	else
		report_free(r);
}

static const char *on_call_name(uint32_t call, void *userdata)
{
	const struct player *p = userdata;

	return call > 0 && call <= p->calls.len ? p->calls.list[call - 1] : NULL;
}

/* The same in every run. */
static void on_random_id(uint8_t ret[16], void *userdata)
{
	struct player *p = userdata;
	uint64_t half[2] = { hash64(2 * p->ids + 1), hash64(2 * p->ids + 2) };

	p->ids++;
	memcpy(ret, half, sizeof(half));
}

static void on_forget_stack(const struct stack *s, void *userdata)
{
	struct player *p = userdata;
	struct player_life *l = player_life(p, s->pid);

	if (l && l->start_ns == s->start_ns)
		stack_unref(map64_remove(&l->stacks, s->key));
}

uint64_t player_real(const struct player *p)
{
	return p->options.clock.real_usec + player_time(p) / NSEC_PER_USEC;
}

uint64_t player_time(const struct player *p)
{
	return p->now_ns - p->options.clock.monotonic_ns;
}

void player_sync(struct player *p)
{
	const struct event nothing = { 0 };

	if (p->told_ns == p->now_ns)
		return;
	p->told_ns = p->now_ns;
	/* An event of no type changes nothing but the clock. */
	(void)engine_event(p->engine, &nothing, p->now_ns, player_real(p));
}

uint64_t player_stretch(const struct player *p, uint64_t time_ns)
{
	long double stretched = (long double)time_ns * (long double)p->options.stretch;

	if (p->options.stretch > 0 && p->options.stretch != 1)
		time_ns = stretched < (long double)PLAYER_TIME_MAX ? (uint64_t)stretched : UINT64_MAX;
	return time_ns <= PLAYER_TIME_MAX ? time_ns : UINT64_MAX;
}

int player_moment(const struct player *p, uint64_t time_ns, uint64_t *ret)
{
	uint64_t stretched = player_stretch(p, time_ns);

	if (stretched == UINT64_MAX)
		return -EINVAL;
	*ret = p->options.clock.monotonic_ns + stretched;
	return 0;
}

static void tick(struct player *p)
{
	p->stats.ticks++;
	player_late_tick(p);
	p->told_ns = p->now_ns;
	engine_tick(p->engine, p->now_ns, player_real(p));
}

static void tick_at(struct player *p, uint64_t time_ns)
{
	p->now_ns = p->tick_last_ns = time_ns;
	tick(p);
}

void player_pass_until(struct player *p, uint64_t until_ns)
{
	if (until_ns <= p->now_ns)
		return;
	if (p->options.has_ticks) {
		while (until_ns - p->tick_last_ns > p->tick_ns + p->tick_ns / 2)
			tick_at(p, MAX(p->tick_last_ns + p->tick_ns, p->now_ns));
	} else {
		for (uint64_t t = (p->now_ns / p->tick_ns + 1) * p->tick_ns; t <= until_ns; t += p->tick_ns)
			tick_at(p, t);
	}
	p->now_ns = until_ns;
}

void player_pass(struct player *p, uint64_t time_ns)
{
	player_pass_until(p, p->options.clock.monotonic_ns + MIN(time_ns, PLAYER_TIME_MAX));
}

void player_tick(struct player *p)
{
	tick(p);
}

struct player_life *player_life(const struct player *p, uint32_t pid)
{
	return map64_get(&p->lives, pid);
}

void player_block_free(struct player_block *b)
{
	while (b) {
		struct player_block *older = b->older;

		free(b);
		b = older;
	}
}

void player_drop_blocks(struct player_life *l)
{
	for (size_t k = 0; k < ADDR_KINDS; k++) {
		size_t iter = 0;
		void *value;

		while (map64_next(&l->blocks[k], &iter, NULL, &value))
			player_block_free(value);
		map64_done(&l->blocks[k]);
		l->blocks[k] = (struct map64)MAP64_INIT;
	}
}

static void life_free(struct player_life *l)
{
	size_t iter = 0;
	void *value;

	player_drop_blocks(l);
	while (map64_next(&l->stacks, &iter, NULL, &value))
		stack_unref(value);
	map64_done(&l->stacks);
	player_figures_done(l);
	free(l);
}

int player_live(struct player *p, uint32_t pid, struct player_life **ret)
{
	struct player_life *l = player_life(p, pid);

	if (l) {
		*ret = l;
		return 0;
	}
	l = calloc(1, sizeof(*l));
	if (!l || map64_put(&p->lives, pid, l) < 0) {
		free(l);
		return -ENOMEM;
	}
	l->pid = pid;
	/* Each later than the one before: of a pid's bearers the newest counts. */
	p->start_last_ns = l->start_ns = MAX(p->now_ns, p->start_last_ns + 1);
	*ret = l;
	return 0;
}

void player_end(struct player *p, struct player_life *l)
{
	(void)map64_remove(&p->lives, l->pid);
	life_free(l);
}

static const char *frames_text(const struct player *p, uint64_t number)
{
	return p->options.stack ? p->options.stack(number, p->options.userdata) : NULL;
}

/* Without texts of the frames the number must do. The frames themselves are not here: who wants them asks the trace. */
static struct frames *frames_make(const struct player *p, uint64_t number, uint64_t site)
{
	const char *text = frames_text(p, number);
	struct frames *f = calloc(1, sizeof(*f));
	uint64_t id = 0;

	if (!f)
		return NULL;
	if (text)
		text = recorder_stack_id(text, &id);
	f->exact = text ? hash64(hash_str(0, text)) : hash64(number);
	f->id = id ? id : text ? trace_site_key(text) : site ? site : number;
	f->site = site ? site : f->id;
	return f;
}

int player_resolve(struct player *p, struct player_life *l, uint64_t number, uint64_t site)
{
	struct stack *s = map64_get(&l->stacks, number);
	struct frames *f;
	int r;

	if (!s || stack_frames(s))
		return 0;
	f = frames_make(p, s->key, site);
	if (!f)
		return -ENOMEM;
	stack_set_frames(s, f);
	r = engine_set_site(p->engine, l->pid, l->start_ns, s->key, f->site);
	return r == -ENOMEM ? r : 0;
}

int player_use_stack(struct player *p, struct player_life *l, uint64_t number)
{
	_cleanup_(stack_unrefp) struct stack *s = NULL;
	int r;

	if (number == 0 || map64_get(&l->stacks, number))
		return 0;
	s = stack_new_done(number, l->pid, NULL);
	if (!s)
		return -ENOMEM;
	s->start_ns = l->start_ns;
	player_sync(p);
	r = engine_set_stack(p->engine, l->pid, l->start_ns, s);
	if (r < 0) /* no room for it: its bytes count without it */
		return r == -ENOMEM ? r : 0;
	r = map64_put(&l->stacks, number, s);
	if (r < 0)
		return r;
	(void)TAKE_PTR(s);
	return p->options.has_sites ? 0 : player_resolve(p, l, number, 0);
}

uint64_t player_stack_number(const struct player *p, const struct stack *s)
{
	return s ? s->key : 0;
}

static void on_clean(const char *text, struct strbuf *sb, void *userdata)
{
	struct player *p = userdata;

	p->options.clean(text, sb, p->options.userdata);
}

int player_new(const struct player_options *o, struct ruleset *rs, struct player **ret)
{
	const struct engine_ops ops = { .report = on_report, .call_name = on_call_name, .random_id = on_random_id,
					.forget_stack = on_forget_stack, .clean = o->clean ? on_clean : NULL,
					.omit = o->omit };
	_cleanup_(ruleset_freep) struct ruleset *rules = rs;
	_cleanup_(player_freep) struct player *p = NULL;
	int r;

	/* So written that a NaN is refused. */
	if (o->clock.monotonic_ns > INT64_MAX || o->clock.real_usec > INT64_MAX || o->tick_ns > PLAYER_TIME_MAX ||
	    !(o->stretch >= 0))
		return -EINVAL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->options = *o;
	p->tick_ns = o->tick_ns ? o->tick_ns : NSEC_PER_SEC;
	p->now_ns = p->told_ns = p->tick_last_ns = o->clock.monotonic_ns;
	r = engine_new(&o->limits, &ops, p, &p->engine);
	if (r < 0)
		return r;
	if (rules) {
		r = engine_set_rules(p->engine, TAKE_PTR(rules), p->now_ns, player_real(p));
		if (r < 0)
			return r;
	} else {
		p->told_ns = 0;
	}
	*ret = TAKE_PTR(p);
	return 0;
}

void player_free(struct player *p)
{
	size_t iter = 0;
	void *value;

	if (!p)
		return;
	engine_free(p->engine);
	while (map64_next(&p->lives, &iter, NULL, &value))
		life_free(value);
	map64_done(&p->lives);
	names_done(&p->calls);
	names_done(&p->reasons);
	free(p->late);
	free(p);
}

struct engine *player_engine(struct player *p)
{
	return p->engine;
}

void player_stats(const struct player *p, struct player_stats *ret)
{
	*ret = p->stats;
}

uint32_t player_call(struct player *p, const char *name)
{
	if (!name || p->calls.len >= CALLS_MAX)
		return 0;
	return (uint32_t)player_name(&p->calls, name);
}
