/* SPDX-License-Identifier: MIT */
/* The top level of a file of rule tests, and who is in them. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/pattern.h"
#include "replay/rule_test_private.h"
#include "rule/rule.h"

#define PROCESSES_MAX 10000
#define TICK_MIN (100 * NSEC_PER_MSEC)
#define TICK_MAX (10 * NSEC_PER_SEC) /* after longer silence the engine takes it that the machine has slept */
#define STRETCH_MAX 1000.0

int test_parse_keys(struct rule_test *t, const config_setting_t *group, const char *what, const struct test_key *keys,
		    void *object, uint32_t *ret_seen)
{
	const char *names[64] = { 0 };
	uint32_t seen = 0;
	int r;

	r = conf_group(t->errors, group);
	if (r < 0)
		return r;
	for (size_t k = 0; keys[k].name && k + 1 < ARRAY_SIZE(names); k++)
		names[k] = keys[k].name;
	for (int i = 0; r != -ENOMEM && i < config_setting_length(group); i++) {
		const config_setting_t *s = config_setting_get_elem(group, (unsigned)i);
		size_t k = 0;
		int q;

		while (keys[k].name && strcmp(keys[k].name, config_setting_name(s)) != 0)
			k++;
		if (!keys[k].name) {
			q = conf_unknown(t->errors, s, what, config_setting_name(s), names);
		} else {
			seen |= UINT32_C(1) << k;
			q = keys[k].parse ? keys[k].parse(t, s, object) : 0;
		}
		r = q < 0 ? q : r;
	}
	if (r == 0 && ret_seen)
		*ret_seen = seen;
	return r;
}

const config_setting_t *test_setting(const struct rule_test *t, const char *name)
{
	const config_setting_t *s = config_setting_get_member(t->group, name);

	return s || t->group == t->root ? s : config_setting_get_member(t->root, name);
}

int test_path(struct rule_test *t, const config_setting_t *s, const char *path, char **ret)
{
	char *joined;

	if (!t->conf->dir)
		return conf_error(t->errors, s, "no other file can be named here");
	if (path[0] == '/' || strcmp(t->conf->dir, ".") == 0)
		joined = strdup(path);
	else if (asprintf(&joined, "%s/%s", t->conf->dir, path) < 0)
		joined = NULL;
	if (!joined)
		return -ENOMEM;
	*ret = joined;
	return 0;
}

int test_pid(struct rule_test *t, const config_setting_t *s, uint32_t *ret)
{
	return conf_count(t->errors, s, 1, INT32_MAX, ret);
}

const struct test_device *test_device(const struct rule_test *t, int index)
{
	for (size_t i = 0; i < t->devices_len; i++)
		if (t->devices[i].index == index)
			return &t->devices[i];
	return NULL;
}

int test_device_index(struct rule_test *t, const config_setting_t *s, int *ret)
{
	uint32_t index;
	int r = conf_count(t->errors, s, 0, 63, &index);

	if (r < 0)
		return r;
	if (t->devices_len > 0 && !test_device(t, (int)index))
		return conf_error(t->errors, s, "there is no device %u in devices = ( ... )", index);
	*ret = (int)index;
	return 0;
}

struct test_process *test_process(struct rule_test *t, uint32_t pid)
{
	struct test_process *list;

	for (size_t i = 0; i < t->processes_len; i++)
		if (t->processes[i].pid == pid)
			return &t->processes[i];
	/* Room for twice as many whenever that is a power of two. */
	if ((t->processes_len & (t->processes_len - 1)) == 0) {
		list = realloc(t->processes, (t->processes_len ? t->processes_len * 2 : 1) * sizeof(*list));
		if (!list)
			return NULL;
		t->processes = list;
	}
	t->processes[t->processes_len] = (struct test_process){ .pid = pid, .device = -1 };
	return &t->processes[t->processes_len++];
}

static int device_index(struct rule_test *t, const config_setting_t *s, void *object)
{
	struct test_device *d = object;
	uint32_t index;
	int r = conf_count(t->errors, s, 0, 63, &index);

	if (r == 0)
		d->index = (int)index;
	return r;
}

static int device_total(struct rule_test *t, const config_setting_t *s, void *object)
{
	return conf_size(t->errors, s, &((struct test_device *)object)->total_bytes);
}

static int device_used(struct rule_test *t, const config_setting_t *s, void *object)
{
	return conf_size(t->errors, s, &((struct test_device *)object)->used_bytes);
}

static int device_name(struct rule_test *t, const config_setting_t *s, void *object)
{
	return conf_string(t->errors, s, &((struct test_device *)object)->name);
}

static int device_uuid(struct rule_test *t, const config_setting_t *s, void *object)
{
	struct test_device *d = object;
	const char *text;
	int r = conf_string(t->errors, s, &text);

	if (r < 0)
		return r;
	free(d->uuid);
	d->uuid = strdup(text);
	return d->uuid ? 0 : -ENOMEM;
}

static const struct test_key device_keys[] = {
	{ "index", device_index }, { "total", device_total }, { "used", device_used },
	{ "name", device_name },   { "uuid", device_uuid },   { NULL, NULL },
};

static int add_device(struct rule_test *t, const config_setting_t *s)
{
	struct test_device d = { .index = (int)t->devices_len, .total_bytes = TRACE_UNKNOWN,
				 .used_bytes = TRACE_UNKNOWN };
	struct test_device *list;
	int r;

	r = test_parse_keys(t, s, "key of a device", device_keys, &d, NULL);
	if (r == 0 && test_device(t, d.index))
		r = conf_error(t->errors, s, "device %d is described twice", d.index);
	if (r == 0 && !d.uuid && asprintf(&d.uuid, "GPU-00000000-0000-0000-0000-%012d", d.index) < 0) {
		d.uuid = NULL;
		r = -ENOMEM;
	}
	list = r == 0 ? realloc(t->devices, (t->devices_len + 1) * sizeof(*list)) : NULL;
	if (!list) {
		free(d.uuid);
		return r < 0 ? r : -ENOMEM;
	}
	t->devices = list;
	list[t->devices_len++] = d;
	return 0;
}

static int process_pid(struct rule_test *t, const config_setting_t *s, void *object)
{
	return test_pid(t, s, &((struct test_process *)object)->pid);
}

static int process_device(struct rule_test *t, const config_setting_t *s, void *object)
{
	return test_device_index(t, s, &((struct test_process *)object)->device);
}

static int set_text(struct rule_test *t, const config_setting_t *s, char **text)
{
	const char *value;
	int r = conf_string(t->errors, s, &value);

	if (r < 0)
		return r;
	free(*text);
	*text = strdup(value);
	return *text ? 0 : -ENOMEM;
}

#define PROCESS_TEXT(key)                                                                                              \
	static int process_##key(struct rule_test *t, const config_setting_t *s, void *object)                         \
	{                                                                                                              \
		return set_text(t, s, &((struct test_process *)object)->identity->key);                                \
	}

PROCESS_TEXT(comm)
PROCESS_TEXT(exe)
PROCESS_TEXT(cmdline)
PROCESS_TEXT(user)
PROCESS_TEXT(cgroup)
PROCESS_TEXT(unit)
PROCESS_TEXT(user_unit)
PROCESS_TEXT(container)
PROCESS_TEXT(slice)
PROCESS_TEXT(tag)
PROCESS_TEXT(pod)
PROCESS_TEXT(pod_name)
PROCESS_TEXT(pod_namespace)
PROCESS_TEXT(container_name)

static const struct test_key process_keys[] = {
	{ "pid", process_pid },		{ "device", process_device },	{ "comm", process_comm },
	{ "exe", process_exe },		{ "cmdline", process_cmdline }, { "user", process_user },
	{ "cgroup", process_cgroup },	{ "unit", process_unit },	{ "user_unit", process_user_unit },
	{ "container", process_container }, { "slice", process_slice }, { "tag", process_tag },
	{ "pod", process_pod },		{ "pod_name", process_pod_name }, { "pod_namespace", process_pod_namespace },
	{ "container_name", process_container_name },
	{ NULL, NULL },
};

static int add_process(struct rule_test *t, const config_setting_t *s)
{
	struct test_process d = { .device = -1, .identity = identity_new() }, *p = NULL;
	int r;

	if (!d.identity)
		return -ENOMEM;
	d.identity->uid = UINT32_MAX;
	r = test_parse_keys(t, s, "key of a process", process_keys, &d, NULL);
	if (r == 0 && d.pid == 0)
		r = conf_error(t->errors, s, "a process needs a pid: pid = 10");
	if (r == 0) {
		p = test_process(t, d.pid);
		r = p ? 0 : -ENOMEM;
	}
	if (r == 0 && p->is_mentioned)
		r = conf_error(t->errors, s, "process %u is described twice", d.pid);
	if (r < 0) {
		identity_unref(d.identity);
		return r;
	}
	d.is_mentioned = true;
	d.identity->pid = d.pid;
	*p = d;
	return 0;
}

static int each(struct rule_test *t, const char *name, size_t max, const char *example,
		int (*add)(struct rule_test *t, const config_setting_t *s))
{
	const config_setting_t *s = test_setting(t, name);
	int r = 0;

	if (!s)
		return 0;
	if (!config_setting_is_list(s))
		return conf_error(t->errors, s, "%s needs a list in round brackets: %s = ( %s );", name, name, example);
	if ((size_t)config_setting_length(s) > max)
		return conf_error(t->errors, s, "%s holds more than %zu", name, max);
	for (int i = 0; r != -ENOMEM && i < config_setting_length(s); i++) {
		int q = add(t, config_setting_get_elem(s, (unsigned)i));

		r = q < 0 ? q : r;
	}
	return r;
}

/* Devices and processes. */
static int parse_subjects(struct rule_test *t)
{
	int r, q;

	r = each(t, "devices", 64, "{ index = 0; total = \"80GiB\"; }", add_device);
	if (r == -ENOMEM)
		return r;
	q = each(t, "processes", PROCESSES_MAX, "{ pid = 10; comm = \"python3\"; }", add_process);
	return q < 0 ? q : r;
}

static int parse_tick(struct rule_test *t)
{
	const config_setting_t *s = test_setting(t, "tick");

	t->tick_ns = NSEC_PER_SEC;
	return s ? conf_duration(t->errors, s, TICK_MIN, TICK_MAX, &t->tick_ns) : 0;
}

static int parse_stretch(struct rule_test *t)
{
	const config_setting_t *s = test_setting(t, "stretch");

	t->stretch = 1;
	if (!s)
		return 0;
	if (config_setting_type(s) == CONFIG_TYPE_FLOAT)
		t->stretch = config_setting_get_float(s);
	else if (config_setting_type(s) == CONFIG_TYPE_INT)
		t->stretch = config_setting_get_int(s);
	else
		return conf_error(t->errors, s, "stretch needs a plain number, such as 4.0");
	/* So written that a NaN fails too. */
	if (!(t->stretch >= 1 / STRETCH_MAX && t->stretch <= STRETCH_MAX))
		return conf_error(t->errors, s, "stretch is out of range: it goes from 0.001 to %.0f", STRETCH_MAX);
	return 0;
}

static int parse_trace(struct rule_test *t)
{
	const config_setting_t *s = test_setting(t, "trace");
	int r;

	if (!s)
		return conf_error(t->errors, t->group,
				  "trace is missing: trace = ( { at = \"0s\"; alloc = \"1GiB\"; pid = 10; } ); or "
				  "trace = \"night.trace.gz\";");
	t->trace_setting = s;
	if (config_setting_type(s) == CONFIG_TYPE_STRING)
		return test_path(t, s, config_setting_get_string(s), &t->trace_path);
	r = test_parse_trace(t, s);
	if (r == 0 && test_setting(t, "stretch"))
		r = conf_error(t->errors, test_setting(t, "stretch"), "stretch is for recordings");
	return r;
}

static int parse_expect(struct rule_test *t)
{
	const config_setting_t *s = test_setting(t, "expect");

	if (!s)
		return conf_error(t->errors, t->group,
				  "expect is missing, so that nothing could fail: expect = ( { at = \"20m\"; firing = "
				  "[ ]; } );");
	return test_parse_expects(t, s);
}

static int parse_name(struct rule_test *t)
{
	const config_setting_t *s = config_setting_get_member(t->group, "name");

	return s ? conf_string(t->errors, s, &t->name) : 0;
}

int test_parse(struct rule_test *t)
{
	/* In this order: each looks at what those before have found. */
	static int (*const steps[])(struct rule_test *t) = { parse_name, parse_tick, parse_stretch, test_load_rules,
							     parse_subjects, parse_trace, parse_expect };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(steps) && r != -ENOMEM; i++) {
		int q = steps[i](t);

		r = q < 0 ? q : r;
	}
	return r;
}

void test_done(struct rule_test *t)
{
	for (size_t i = 0; i < t->devices_len; i++)
		free(t->devices[i].uuid);
	free(t->devices);
	for (size_t i = 0; i < t->processes_len; i++)
		identity_unref(t->processes[i].identity);
	free(t->processes);
	for (size_t i = 0; i < t->stacks_len; i++)
		free(t->stacks[i]);
	free(t->stacks);
	free(t->steps);
	free(t->trace_path);
	for (size_t i = 0; i < t->expects_len; i++) {
		for (size_t k = 0; k < SET_MAX; k++)
			free(t->expects[i].set[k].names);
		pattern_free(t->expects[i].message);
	}
	free(t->expects);
	ruleset_free(t->rules);
}
