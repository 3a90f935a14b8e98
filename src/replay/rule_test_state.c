/* SPDX-License-Identifier: MIT */
/* What fires and is pending at a moment, and whom an expectation means. */
#include <errno.h>
#include <string.h>

#include "replay/rule_test_private.h"
/* The states of the rules: inside the core they are one list a rule, which nobody else needs to walk. */
#include "rule/watch.h"

static const struct report *last_report(const struct test_run *run, const uint8_t id[16])
{
	for (size_t i = run->said_len; i-- > 0;) {
		if (memcmp(run->said[i].report->incident, id, 16) == 0)
			return run->said[i].report;
	}
	return NULL;
}

void test_view_report(const struct test_run *run, const struct report *r, struct view *ret)
{
	*ret = (struct view){ .rule = r->rule, .pid = r->id ? r->id->pid : 0, .identity = r->id,
			      .stack = player_stack_number(run->player, r->stack), .device = r->device_uuid,
			      .scope = (int)r->scope, .key = r->scope_key,
			      .value = { r->value, (int)r->value_unit }, .limit = { r->limit, (int)r->value_unit } };
}

static void view_incident(const struct test_run *run, const struct incident *inc, struct view *ret)
{
	/* Where it was said, it is about what was said. */
	const struct report *r = inc->is_said ? last_report(run, inc->id) : NULL;
	const struct process *p = inc->subject.p;
	const uint64_t zero_ns = player_engine(run->player)->now_ns - player_time(run->player);

	*ret = (struct view){ .rule = inc->rs->rule->name, .scope = (int)inc->rs->rule->scope };
	if (r)
		test_view_report(run, r, ret);
	ret->rule = inc->rs->rule->name;
	ret->is_pending = inc->state == INCIDENT_PENDING;
	ret->since_ns = (ret->is_pending ? inc->since_ns : inc->fired_ns) - zero_ns;
	ret->value = (struct quantity){ inc->last.value, (int)inc->last.unit };
	ret->limit = (struct quantity){ inc->last.limit, (int)inc->last.unit };
	if (p) {
		ret->pid = p->pid;
		ret->identity = p->id;
	}
	if (inc->subject.site)
		ret->stack = player_stack_number(run->player, inc->subject.site->stack);
	if (inc->subject.g) {
		ret->key = inc->subject.g->key;
		if (inc->subject.g->device)
			ret->device = inc->subject.g->device->uuid;
	}
}

int test_incidents(const struct test_run *run, struct view **ret, size_t *ret_len)
{
	const struct engine *e = player_engine(run->player);
	struct view *list;
	size_t len = 0;

	list = calloc(e->incidents + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < e->states_len; i++) {
		for (const struct incident *inc = e->states[i]->incidents; inc && len < e->incidents; inc = inc->next)
			view_incident(run, inc, &list[len++]);
	}
	*ret = list;
	*ret_len = len;
	return 0;
}

/* "save_activation" means the frame "save_activation+0xe (work_demo)"; "~" marks those within allocators. */
static bool is_frame(const char *frame, size_t len, const char *name)
{
	size_t n = strlen(name);

	if (len > 0 && frame[0] == '~' && name[0] != '~') {
		frame++;
		len--;
	}
	return n <= len && strncmp(frame, name, n) == 0 && (n == len || strchr("+ (", frame[n]));
}

/* Are the frames in this stack, in this order? */
static bool is_stack(const char *frames, const config_setting_t *names)
{
	size_t len = config_setting_is_aggregate(names) ? (size_t)config_setting_length(names) : 1, i = 0;

	while (frames && i < len) {
		size_t n = strcspn(frames, ";");

		i += is_frame(frames, n, conf_strings_get(names, i, NULL));
		frames = frames[n] ? frames + n + 1 : NULL;
	}
	return i == len;
}

static bool is_subject(const struct view *v, enum expect_key k, const char *name)
{
	static const enum rule_scope scopes[SUBJECT_MAX] = { [SUBJECT_UNIT] = SCOPE_UNIT, [SUBJECT_USER] = SCOPE_USER,
							     [SUBJECT_CGROUP] = SCOPE_CGROUP,
							     [SUBJECT_CONTAINER] = SCOPE_CONTAINER };
	const struct identity *id = v->identity;
	const char *own;

	if (!id)
		return v->scope == (int)scopes[k] && v->key && strcmp(v->key, name) == 0;
	own = k == SUBJECT_UNIT	  ? (id->unit ? id->unit : id->user_unit) :
	      k == SUBJECT_USER	  ? id->user :
	      k == SUBJECT_CGROUP ? id->cgroup :
				    id->container;
	return own && strcmp(own, name) == 0;
}

bool test_selects(const struct test_run *run, const struct expectation *x, const struct view *v)
{
	const struct test_device *d = test_device(run->test, x->device);

	if (x->pid && v->pid != x->pid)
		return false;
	if (d && (!v->device || strcmp(v->device, d->uuid) != 0))
		return false;
	if (x->stack && !is_stack(test_frames(run, v->stack), x->stack))
		return false;
	for (size_t k = 0; k < SUBJECT_MAX; k++) {
		if (x->subject[k] && !is_subject(v, (enum expect_key)k, x->subject[k]))
			return false;
	}
	return true;
}
