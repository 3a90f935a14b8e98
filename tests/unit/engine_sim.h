/* SPDX-License-Identifier: MIT */
/* An engine with a fake clock: says what happens, keeps what it reports and arms. */
#pragma once

#include <errno.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "model/process.h"
#include "rule/engine.h"
#include "test.h"

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define SEC NSEC_PER_SEC
#define MSEC NSEC_PER_MSEC

struct arm {
	uint32_t pid;
	uint64_t high, low, single;
};

struct sim {
	struct engine *e;
	uint64_t now; /* monotonic; the wall clock is SIM_REAL + now / 1000 */
	struct report **reports;
	size_t len, cap;
	struct arm arms[4096];
	size_t arms_len;
	uint32_t ids;
	uint64_t next_addr;
	int last_r;
	size_t forgotten; /* stacks; and the number of the last one */
	uint64_t last_forgotten;
};

#define SIM_REAL UINT64_C(1700000000000000)

static void sim_report(struct report *r, void *userdata)
{
	struct sim *s = userdata;

	if (s->len >= s->cap) {
		s->cap = s->cap ? s->cap * 2 : 64;
		s->reports = realloc(s->reports, s->cap * sizeof(struct report *));
	}
	s->reports[s->len++] = r;
}

static void sim_arm(uint32_t pid, uint64_t start_ns, uint64_t high, uint64_t low, uint64_t single, void *userdata)
{
	struct sim *s = userdata;

	(void)start_ns;
	s->arms[s->arms_len++ % 4096] = (struct arm){ pid, high, low, single };
}

static const char *sim_call_name(uint32_t call, void *userdata)
{
	(void)userdata;
	return call == 1 ? "cuMemAlloc_v2" : NULL;
}

static void sim_random_id(uint8_t ret[16], void *userdata)
{
	struct sim *s = userdata;

	memset(ret, 0x55, 16);
	s->ids++;
	memcpy(ret, &s->ids, sizeof(s->ids));
}

static void sim_forget_stack(const struct stack *stack, void *userdata)
{
	struct sim *s = userdata;

	s->forgotten++;
	s->last_forgotten = stack->key;
}

static struct arm _unused_ sim_last_arm(const struct sim *s)
{
	return s->arms_len ? s->arms[(s->arms_len - 1) % 4096] : (struct arm){ 0, UINT64_MAX, 0, UINT64_MAX };
}

static struct ruleset *sim_parse(const char *text)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	struct ruleset *rs = NULL;

	if (ruleset_parse("test.conf", text, &errors, &rs) < 0) {
		errors_print(&errors, stdout);
		abort();
	}
	return rs;
}

static void sim_rules(struct sim *s, const char *text)
{
	if (engine_set_rules(s->e, sim_parse(text), s->now, SIM_REAL + s->now / 1000) < 0)
		abort();
}

static void sim_new_limits(struct sim *s, const char *rules, struct limits limits)
{
	struct engine_ops ops = { .report = sim_report, .arm = sim_arm, .call_name = sim_call_name,
				  .random_id = sim_random_id, .forget_stack = sim_forget_stack };

	*s = (struct sim){ .now = 1000 * SEC, .next_addr = 0x7f0000000000 };
	if (engine_new(&limits, &ops, s, &s->e) < 0)
		abort();
	if (rules)
		sim_rules(s, rules);
}

static void _unused_ sim_new(struct sim *s, const char *rules)
{
	sim_new_limits(s, rules, (struct limits)LIMITS_DEFAULT);
}

static void _unused_ sim_clear(struct sim *s)
{
	for (size_t i = 0; i < s->len; i++)
		report_free(s->reports[i]);
	s->len = 0;
}

static void _unused_ sim_done(struct sim *s)
{
	sim_clear(s);
	free(s->reports);
	engine_free(s->e);
}

static int sim_send(struct sim *s, const struct event *ev)
{
	s->last_r = engine_event(s->e, ev, s->now, SIM_REAL + s->now / 1000);
	return s->last_r;
}

static struct event sim_event(struct sim *s, uint8_t type, uint32_t pid)
{
	return (struct event){ .type = type, .pid = pid, .tid = pid + 1, .start_ns = pid * SEC, .time_ns = s->now,
			       .call = 1, .device = 0 };
}

struct block {
	uint32_t pid;
	uint64_t bytes, stack, birth;
	uint8_t class;
	int device;
};

static struct block _unused_ sim_alloc_on(struct sim *s, uint32_t pid, uint64_t bytes, uint64_t stack, uint8_t class,
					  int device)
{
	struct event ev = sim_event(s, EVENT_ALLOC, pid);

	ev.bytes = bytes;
	ev.stack = stack;
	ev.class = class;
	ev.device = device;
	ev.addr = s->next_addr += 4096;
	(void)sim_send(s, &ev);
	return (struct block){ pid, bytes, stack, s->now, class, device };
}

static struct block _unused_ sim_alloc(struct sim *s, uint32_t pid, uint64_t bytes, uint64_t stack)
{
	return sim_alloc_on(s, pid, bytes, stack, CLASS_DEVICE, 0);
}

static void _unused_ sim_free(struct sim *s, struct block b)
{
	struct event ev = sim_event(s, EVENT_FREE, b.pid);

	ev.bytes = b.bytes;
	ev.stack = b.stack;
	ev.class = b.class;
	ev.device = b.device;
	ev.birth_ns = b.birth;
	(void)sim_send(s, &ev);
}

static void _unused_ sim_fail(struct sim *s, uint32_t pid, uint64_t bytes, uint64_t stack)
{
	struct event ev = sim_event(s, EVENT_FAIL, pid);

	ev.bytes = bytes;
	ev.stack = stack;
	ev.error = 2;
	(void)sim_send(s, &ev);
}

static void _unused_ sim_simple(struct sim *s, uint8_t type, uint32_t pid)
{
	struct event ev = sim_event(s, type, pid);

	(void)sim_send(s, &ev);
}

static void sim_tick(struct sim *s)
{
	engine_tick(s->e, s->now, SIM_REAL + s->now / 1000);
}

/* Lets time pass, with a tick at each full second. */
static void _unused_ sim_pass(struct sim *s, uint64_t ns)
{
	uint64_t until = s->now + ns;

	while (s->now < until) {
		uint64_t second = (s->now / SEC + 1) * SEC;

		if (second > until) {
			s->now = until;
			return;
		}
		s->now = second;
		sim_tick(s);
	}
}

static void _unused_ sim_identify(struct sim *s, uint32_t pid, const char *comm, const char *unit, const char *user)
{
	struct identity *id = identity_new();

	if (!id)
		abort();
	id->pid = pid;
	id->start_ns = pid * SEC;
	id->start_ticks = pid * 100;
	id->uid = 1000;
	id->comm = comm ? strdup(comm) : NULL;
	id->unit = unit ? strdup(unit) : NULL;
	id->user = user ? strdup(user) : NULL;
	(void)engine_set_identity(s->e, pid, pid * SEC, id);
	identity_unref(id);
}

/* One frame, so that there is something to see; exact and site as the resolver would find them. */
static struct frames _unused_ *sim_frames(uint64_t exact, uint64_t site)
{
	struct frames *f = calloc(1, sizeof(*f));

	if (!f || !(f->list = calloc(1, sizeof(*f->list))))
		abort();
	f->count = 1;
	f->list[0] = (struct frame){ .kind = FRAME_NATIVE, .pc = exact };
	f->exact = exact;
	f->site = f->id = site;
	return f;
}

/* As the probe sends it: there are no frames yet. The caller has a reference. */
static struct stack _unused_ *sim_raw_stack(struct sim *s, uint32_t pid, uint64_t number)
{
	const struct event_stack ev = { .head = { .type = EVENT_STACK, .pid = pid, .start_ns = pid * SEC,
						  .time_ns = s->now, .stack = number } };
	struct stack *stack = stack_new(&ev);

	if (!stack)
		abort();
	s->last_r = engine_set_stack(s->e, pid, pid * SEC, stack);
	return stack;
}

/* What the resolver says of it, after a while. Gives the reference back. */
static int _unused_ sim_resolve(struct sim *s, struct stack *stack, uint64_t exact, uint64_t site)
{
	int r;

	stack_set_frames(stack, sim_frames(exact, site));
	r = engine_set_site(s->e, stack->pid, stack->start_ns, stack->key, site);
	stack_unref(stack);
	return r;
}

/* A stack that is resolved at once, of a site that no other shares. */
static void _unused_ sim_stack(struct sim *s, uint32_t pid, uint64_t number)
{
	struct stack *stack = stack_new_done(number, pid, sim_frames(number, hash64(number)));

	if (!stack)
		abort();
	(void)engine_set_stack(s->e, pid, pid * SEC, stack);
	(void)engine_set_site(s->e, pid, pid * SEC, number, hash64(number));
	stack_unref(stack);
}

static struct process _unused_ *sim_process(struct sim *s, uint32_t pid)
{
	return engine_process(s->e, pid, pid * SEC);
}

/* Reports of a rule (NULL = any) in a state (STATE_NONE = any). */
static size_t _unused_ sim_count(const struct sim *s, const char *rule, enum report_state state)
{
	size_t n = 0;

	for (size_t i = 0; i < s->len; i++) {
		if ((!rule || strcmp(s->reports[i]->rule, rule) == 0) &&
		    (state == STATE_NONE || s->reports[i]->state == state))
			n++;
	}
	return n;
}

/* The n-th report of a rule, or NULL. */
static struct report _unused_ *sim_get(const struct sim *s, const char *rule, size_t n)
{
	for (size_t i = 0; i < s->len; i++) {
		if ((!rule || strcmp(s->reports[i]->rule, rule) == 0) && n-- == 0)
			return s->reports[i];
	}
	return NULL;
}
