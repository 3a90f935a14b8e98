/* SPDX-License-Identifier: MIT */
/* The list `trace` of a test: what happens when. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "replay/rule_test_private.h"
#include "rule/rule_names.h"

#define EVENTS_MAX 10000000
#define FRAMES_MAX 128
#define ERROR_OUT_OF_MEMORY 2 /* as the drivers have it */

/* One action an entry: the first keys of the table, in the order of enum step_type. */
static int act(struct rule_test *t, const config_setting_t *s, struct step *step, enum step_type type)
{
	if (step->type != STEP_NONE)
		return conf_error(t->errors, s, "an entry of trace does one thing: write another for \"%s\"",
				  config_setting_name(s));
	step->type = type;
	return 0;
}

static int act_bytes(struct rule_test *t, const config_setting_t *s, struct step *step, enum step_type type)
{
	int r = act(t, s, step, type);

	return r < 0 ? r : conf_size(t->errors, s, &step->bytes);
}

static int act_true(struct rule_test *t, const config_setting_t *s, struct step *step, enum step_type type)
{
	bool value = false;
	int r = act(t, s, step, type);

	if (r == 0)
		r = conf_bool(t->errors, s, &value);
	if (r == 0 && !value)
		r = conf_error(t->errors, s, "%s can only be true", config_setting_name(s));
	return r;
}

static int key_alloc(struct rule_test *t, const config_setting_t *s, void *object)
{
	return act_bytes(t, s, object, STEP_ALLOC);
}

static int key_free(struct rule_test *t, const config_setting_t *s, void *object)
{
	struct step *step = object;
	int r = act(t, s, step, STEP_FREE);

	return r < 0 ? r : conf_string(t->errors, s, &step->target);
}

static int key_fail(struct rule_test *t, const config_setting_t *s, void *object)
{
	return act_bytes(t, s, object, STEP_FAIL);
}

static int key_start(struct rule_test *t, const config_setting_t *s, void *object)
{
	return act_true(t, s, object, STEP_START);
}

static int key_exec(struct rule_test *t, const config_setting_t *s, void *object)
{
	return act_true(t, s, object, STEP_EXEC);
}

static int key_exit(struct rule_test *t, const config_setting_t *s, void *object)
{
	return act_true(t, s, object, STEP_EXIT);
}

static int key_driver(struct rule_test *t, const config_setting_t *s, void *object)
{
	return act_bytes(t, s, object, STEP_DRIVER);
}

static int key_used(struct rule_test *t, const config_setting_t *s, void *object)
{
	return act_bytes(t, s, object, STEP_USED);
}

static int key_lost(struct rule_test *t, const config_setting_t *s, void *object)
{
	struct step *step = object;
	int r = act(t, s, step, STEP_LOST);

	return r < 0 ? r : conf_count(t->errors, s, 1, UINT32_MAX, &step->count);
}

static int key_condition(struct rule_test *t, const config_setting_t *s, void *object)
{
	struct step *step = object;
	size_t len = 0;
	int r = act(t, s, step, STEP_CONDITION);

	if (r == 0)
		r = conf_strings(t->errors, s, &len);
	for (size_t i = 0; i < len && r == 0; i++) {
		const config_setting_t *e;
		const char *name = conf_strings_get(s, i, &e);
		int bit = rule_name_find(rule_condition_names, name);

		if (bit < 0)
			return conf_unknown(t->errors, e, "condition", name, rule_condition_names);
		step->condition |= UINT32_C(1) << bit;
	}
	return r;
}

static int key_from(struct rule_test *t, const config_setting_t *s, void *object)
{
	struct step *step = object;

	if (step->from_ns != TRACE_UNKNOWN)
		return conf_error(t->errors, s, "at and from mean the same: leave one out");
	return conf_duration(t->errors, s, 0, TEST_TIME_MAX, &step->from_ns);
}

static int key_every(struct rule_test *t, const config_setting_t *s, void *object)
{
	return conf_duration(t->errors, s, 1, TEST_TIME_MAX, &((struct step *)object)->every_ns);
}

static int key_until(struct rule_test *t, const config_setting_t *s, void *object)
{
	return conf_duration(t->errors, s, 0, TEST_TIME_MAX, &((struct step *)object)->until_ns);
}

static int key_times(struct rule_test *t, const config_setting_t *s, void *object)
{
	struct step *step = object;

	step->has_times = true;
	return conf_count(t->errors, s, 1, EVENTS_MAX, &step->times);
}

static int key_free_after(struct rule_test *t, const config_setting_t *s, void *object)
{
	return conf_duration(t->errors, s, 1, TEST_TIME_MAX, &((struct step *)object)->free_after_ns);
}

static int key_pid(struct rule_test *t, const config_setting_t *s, void *object)
{
	return test_pid(t, s, &((struct step *)object)->pid);
}

static int key_device(struct rule_test *t, const config_setting_t *s, void *object)
{
	return test_device_index(t, s, &((struct step *)object)->device);
}

static int key_class(struct rule_test *t, const config_setting_t *s, void *object)
{
	const char *name;
	int r = conf_string(t->errors, s, &name), i;

	if (r < 0)
		return r;
	i = rule_name_find(rule_class_names, name);
	if (i < 0)
		return conf_unknown(t->errors, s, "class", name, rule_class_names);
	((struct step *)object)->class = (uint8_t)i;
	return 0;
}

/* The number of a stack by its frames, adding it. */
static int intern_stack(struct rule_test *t, struct strbuf *sb, uint64_t *ret)
{
	_cleanup_free_ char *text = NULL;
	char **list;
	int r;

	r = strbuf_steal(sb, &text);
	if (r < 0)
		return r;
	for (size_t i = 0; i < t->stacks_len; i++) {
		if (strcmp(t->stacks[i], text) == 0) {
			*ret = i + 1;
			return 0;
		}
	}
	list = realloc(t->stacks, (t->stacks_len + 1) * sizeof(*list));
	if (!list)
		return -ENOMEM;
	t->stacks = list;
	list[t->stacks_len++] = TAKE_PTR(text);
	*ret = t->stacks_len;
	return 0;
}

static int key_stack(struct rule_test *t, const config_setting_t *s, void *object)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	size_t len = 0;
	int r = conf_strings(t->errors, s, &len);

	if (r < 0)
		return r;
	if (len == 0 || len > FRAMES_MAX)
		return conf_error(t->errors, s, "a stack has 1 to %d frames, innermost first", FRAMES_MAX);
	for (size_t i = 0; i < len; i++) {
		const config_setting_t *e;
		const char *frame = conf_strings_get(s, i, &e);

		if (!frame[0] || strpbrk(frame, ";\n") || strlen(frame) > 400)
			return conf_error(t->errors, e,
					  "a frame is a text of at most 400 bytes without \";\": write the frames as "
					  "[ \"inner\", \"outer\" ]");
		strbuf_adds(&sb, i > 0 ? ";" : "");
		text_escape(&sb, frame, strlen(frame), 0);
	}
	return intern_stack(t, &sb, &((struct step *)object)->stack);
}

static int key_name(struct rule_test *t, const config_setting_t *s, void *object)
{
	return conf_string(t->errors, s, &((struct step *)object)->name);
}

static int key_call(struct rule_test *t, const config_setting_t *s, void *object)
{
	return conf_string(t->errors, s, &((struct step *)object)->call);
}

static int key_error(struct rule_test *t, const config_setting_t *s, void *object)
{
	uint32_t error;
	int r = conf_count(t->errors, s, 1, INT32_MAX, &error);

	if (r == 0)
		((struct step *)object)->error = (int32_t)error;
	return r;
}

static int key_blocks(struct rule_test *t, const config_setting_t *s, void *object)
{
	return conf_count(t->errors, s, 1, EVENTS_MAX, &((struct step *)object)->blocks);
}

static int key_older(struct rule_test *t, const config_setting_t *s, void *object)
{
	return conf_bool(t->errors, s, &((struct step *)object)->is_older);
}

static const struct test_key step_keys[] = {
	{ "alloc", key_alloc },	  { "free", key_free },	  { "fail", key_fail },
	{ "start", key_start },	  { "exec", key_exec },	  { "exit", key_exit },
	{ "driver", key_driver }, { "used", key_used },	  { "lost", key_lost },
	{ "condition", key_condition }, { "at", key_from }, { "from", key_from },
	{ "every", key_every },	  { "times", key_times }, { "until", key_until },
	{ "pid", key_pid },	  { "free_after", key_free_after }, { "device", key_device },
	{ "class", key_class },	  { "stack", key_stack }, { "name", key_name },
	{ "call", key_call },	  { "error", key_error }, { "blocks", key_blocks },
	{ "older", key_older },	  { NULL, NULL },
};

#define FIRST_DETAIL 16 /* in step_keys: those that not every action may have */

#define ON(type) (UINT32_C(1) << (type))

/* Which actions a detail says something of, by its place behind FIRST_DETAIL. */
static const uint32_t details[] = {
	ON(STEP_ALLOC),					       /* free_after */
	ON(STEP_ALLOC) | ON(STEP_FAIL) | ON(STEP_DRIVER) | ON(STEP_USED), /* device */
	ON(STEP_ALLOC) | ON(STEP_FAIL),			       /* class */
	ON(STEP_ALLOC) | ON(STEP_FAIL),			       /* stack */
	ON(STEP_ALLOC),					       /* name */
	ON(STEP_ALLOC) | ON(STEP_FAIL),			       /* call */
	ON(STEP_FAIL),					       /* error */
	ON(STEP_FREE),					       /* blocks */
	ON(STEP_DRIVER),				       /* older */
};

static int check_details(struct rule_test *t, const struct step *step)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(details); i++) {
		if (!(step->seen & (UINT32_C(1) << (FIRST_DETAIL + i))) || (details[i] & ON(step->type)))
			continue;
		r = conf_error(t->errors, config_setting_get_member((config_setting_t *)step->setting,
								     step_keys[FIRST_DETAIL + i].name),
			       "%s says nothing of %s: leave it out", step_keys[FIRST_DETAIL + i].name,
			       step_keys[step->type].name);
	}
	return r;
}

/* How often, and until when. */
static int check_times(struct rule_test *t, struct step *step)
{
	const config_setting_t *s = step->setting;
	uint64_t last;

	if (step->from_ns == TRACE_UNKNOWN)
		return conf_error(t->errors, s, "when? write at = \"5m\", or from = \"1m\"; every = \"10s\"; times = 240");
	if (step->every_ns == TRACE_UNKNOWN) {
		if (step->has_times || step->until_ns != TRACE_UNKNOWN)
			return conf_error(t->errors, s, "%s needs every = \"10s\" beside it",
					  step->has_times ? "times" : "until");
		step->times = 1;
		step->every_ns = 0;
		return 0;
	}
	if (step->has_times == (step->until_ns != TRACE_UNKNOWN))
		return conf_error(t->errors, s, "every needs how often: either times = 240 or until = \"1h\"");
	if (!step->has_times) {
		if (step->until_ns < step->from_ns)
			return conf_error(t->errors, s, "until is before from");
		last = (step->until_ns - step->from_ns) / step->every_ns;
		if (last >= EVENTS_MAX)
			return conf_error(t->errors, s, "more than %d events", EVENTS_MAX);
		step->times = (uint32_t)last + 1;
	}
	if (step->times > 1 && step->every_ns > (TEST_TIME_MAX - step->from_ns) / (step->times - 1))
		return conf_error(t->errors, s, "goes on for more than 400 days");
	return 0;
}

/* The pid it is about where it says none, and the device where that says none. */
static int settle_pid(struct rule_test *t, struct step *step)
{
	struct test_process *p;

	if (step->type == STEP_USED) {
		if (step->device < 0 && t->devices_len == 1)
			step->device = t->devices[0].index;
		if (step->pid || !test_device(t, step->device))
			return conf_error(t->errors, step->setting, "used is of a device of the list devices: %s",
					  step->pid ? "leave pid out" : "write device = 0");
		return 0;
	}
	if (!step->pid && t->processes_len == 1)
		step->pid = t->processes[0].pid;
	if (!step->pid)
		return conf_error(t->errors, step->setting, "of which process? write pid = 10");
	p = test_process(t, step->pid);
	if (!p)
		return -ENOMEM;
	if (step->device < 0)
		step->device = p->device >= 0 ? p->device : t->devices_len > 0 ? t->devices[0].index : -1;
	return 0;
}

static int add_step(struct rule_test *t, const config_setting_t *s, struct step *step)
{
	int r, q;

	*step = (struct step){ .setting = s, .type = STEP_NONE, .from_ns = TRACE_UNKNOWN, .every_ns = TRACE_UNKNOWN,
			       .until_ns = TRACE_UNKNOWN, .free_after_ns = TRACE_UNKNOWN, .device = -1,
			       .error = ERROR_OUT_OF_MEMORY };
	if (!config_setting_is_group(s))
		return conf_error(t->errors, s, "an entry of trace is a group: { at = \"0s\"; alloc = \"1GiB\"; pid = 10; }");
	r = test_parse_keys(t, s, "key of a trace entry", step_keys, step, &step->seen);
	if (r < 0)
		return r;
	if (step->type == STEP_NONE)
		return conf_error(t->errors, s, "nothing happens: write alloc, free, fail, start, exec, exit, driver, "
						"used, lost or condition");
	r = check_details(t, step);
	q = check_times(t, step);
	r = q < 0 ? q : r;
	return r < 0 ? r : settle_pid(t, step);
}

static bool is_target(const struct rule_test *t, const struct step *s, const struct step *free_step)
{
	if (s->type != STEP_ALLOC || s->pid != free_step->pid)
		return false;
	return (s->name && strcmp(s->name, free_step->target) == 0) ||
	       (s->stack && strcmp(t->stacks[s->stack - 1], free_step->target) == 0);
}

/* That there is something to free, as far as can be told before it is played. */
static int check_targets(struct rule_test *t)
{
	int r = 0;

	for (size_t i = 0; i < t->steps_len; i++) {
		bool is_found = t->steps[i].type != STEP_FREE;

		for (size_t k = 0; k < t->steps_len && !is_found; k++)
			is_found = is_target(t, &t->steps[k], &t->steps[i]);
		if (!is_found)
			r = conf_error(t->errors, t->steps[i].setting,
				       "free = \"%s\": process %u allocates nothing with that name or stack",
				       t->steps[i].target, t->steps[i].pid);
	}
	return r;
}

static int check_count(struct rule_test *t, const config_setting_t *s)
{
	uint64_t max = t->options->max_events ? t->options->max_events : EVENTS_MAX, events = 0;

	for (size_t i = 0; i < t->steps_len; i++)
		events += t->steps[i].times * (t->steps[i].free_after_ns != TRACE_UNKNOWN ? UINT64_C(2) : 1);
	if (events <= max)
		return 0;
	return conf_error(t->errors, s, "more than %llu events: let them be rarer", (unsigned long long)max);
}

int test_parse_trace(struct rule_test *t, const config_setting_t *s)
{
	int r = 0, len = config_setting_length(s);

	if (!config_setting_is_list(s))
		return conf_error(t->errors, s, "trace needs a list in round brackets, or the name of a recording: trace = "
						"( { at = \"0s\"; alloc = \"1GiB\"; pid = 10; } );");
	t->steps = calloc((size_t)len + 1, sizeof(*t->steps));
	if (!t->steps)
		return -ENOMEM;
	for (int i = 0; r != -ENOMEM && i < len; i++) {
		int q = add_step(t, config_setting_get_elem(s, (unsigned)i), &t->steps[t->steps_len++]);

		r = q < 0 ? q : r;
	}
	if (r == 0)
		r = check_targets(t);
	return r < 0 ? r : check_count(t, s);
}
