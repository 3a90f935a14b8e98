/* SPDX-License-Identifier: MIT */
/* The list `expect` of a test: what must be so when. */
#include <errno.h>
#include <string.h>

#include "base/pattern.h"
#include "base/units.h"
#include "replay/rule_test_private.h"
#include "rule/report.h"
#include "rule/rule_names.h"

const char *const expect_set_names[SET_MAX + 1] = {
	[SET_FIRING] = "firing", [SET_PENDING] = "pending", [SET_FIRED] = "fired", [SET_RESOLVED] = "resolved",
	[SET_MAX] = NULL,
};

const char *const expect_subject_names[SUBJECT_MAX + 1] = {
	[SUBJECT_UNIT] = "unit", [SUBJECT_USER] = "user", [SUBJECT_CGROUP] = "cgroup",
	[SUBJECT_CONTAINER] = "container", [SUBJECT_MAX] = NULL,
};

static int key_at(struct rule_test *t, const config_setting_t *s, void *object)
{
	struct expectation *x = object;
	int r = conf_duration(t->errors, s, 0, TEST_TIME_MAX, &x->at_ns);

	if (r == 0)
		x->at = config_setting_get_string(s);
	return r;
}

static int check_rule_name(struct rule_test *t, const config_setting_t *s, const char *name)
{
	_cleanup_free_ const char **names = NULL;

	/* Where the rules have errors of their own, which there are is not known. */
	if (!t->rules)
		return 0;
	names = calloc(t->rules->len + 1, sizeof(*names));
	if (!names)
		return -ENOMEM;
	for (size_t i = 0; i < t->rules->len; i++)
		names[i] = t->rules->rules[i]->name;
	return rule_name_find(names, name) >= 0 ? 0 : conf_unknown(t->errors, s, "rule", name, names);
}

static int parse_set(struct rule_test *t, const config_setting_t *s, struct name_set *set)
{
	int r = conf_strings(t->errors, s, &set->len);

	if (r < 0)
		return r;
	set->setting = s;
	set->names = calloc(set->len + 1, sizeof(*set->names));
	if (!set->names)
		return -ENOMEM;
	for (size_t i = 0; i < set->len; i++) {
		const config_setting_t *e;
		int q;

		set->names[i] = conf_strings_get(s, i, &e);
		q = check_rule_name(t, e, set->names[i]);
		if (q == 0 && rule_name_find(set->names, set->names[i]) < (int)i)
			q = conf_error(t->errors, e, "\"%s\" is there twice", set->names[i]);
		r = q < 0 ? q : r;
	}
	return r;
}

static int key_set(struct rule_test *t, const config_setting_t *s, void *object)
{
	struct expectation *x = object;

	return parse_set(t, s, &x->set[rule_name_find(expect_set_names, config_setting_name(s))]);
}

static int key_pid(struct rule_test *t, const config_setting_t *s, void *object)
{
	return test_pid(t, s, &((struct expectation *)object)->pid);
}

static int key_device(struct rule_test *t, const config_setting_t *s, void *object)
{
	struct expectation *x = object;
	int r = test_device_index(t, s, &x->device);

	/* Which device that is nobody else tells. */
	if (r == 0 && t->devices_len == 0)
		r = conf_error(t->errors, s, "device needs the list devices: devices = ( { index = 0; total = \"80GiB\"; } );");
	return r;
}

static int key_stack(struct rule_test *t, const config_setting_t *s, void *object)
{
	struct expectation *x = object;
	size_t len = 0;
	int r = conf_strings(t->errors, s, &len);

	if (r == 0 && len == 0)
		r = conf_error(t->errors, s, "stack names no frame");
	if (r == 0)
		x->stack = s;
	return r;
}

static int key_subject(struct rule_test *t, const config_setting_t *s, void *object)
{
	struct expectation *x = object;

	return conf_string(t->errors, s, &x->subject[rule_name_find(expect_subject_names, config_setting_name(s))]);
}

static int parse_quantity(struct rule_test *t, const config_setting_t *s, struct quantity *ret)
{
	const char *text;
	double rate = 0;
	int is_bytes = 0, r;
	uint32_t count;

	if (config_setting_is_number(s)) {
		r = conf_count(t->errors, s, 0, UINT32_MAX, &count);
		if (r == 0)
			*ret = (struct quantity){ count, VALUE_CALLS };
		return r;
	}
	r = conf_string(t->errors, s, &text);
	if (r < 0)
		return r;
	if (parse_size(text, &ret->n) == 0) {
		ret->unit = VALUE_BYTES;
		return 0;
	}
	if (parse_rate(text, &rate, &is_bytes) == 0 && rate < 1e18) {
		*ret = (struct quantity){ (uint64_t)(rate + 0.5), is_bytes ? VALUE_BYTES_PER_SEC : VALUE_CALLS_PER_SEC };
		return 0;
	}
	return conf_error(t->errors, s, "%s = \"%s\" is no quantity: write \"41GiB\", \"2000/s\", \"8GiB/s\" or 3",
			  conf_name(s), text);
}

static int key_above(struct rule_test *t, const config_setting_t *s, void *object)
{
	struct expectation *x = object;

	x->has_above = true;
	return parse_quantity(t, s, &x->above);
}

static int key_below(struct rule_test *t, const config_setting_t *s, void *object)
{
	struct expectation *x = object;

	x->has_below = true;
	return parse_quantity(t, s, &x->below);
}

static int key_value(struct rule_test *t, const config_setting_t *s, void *object)
{
	static const struct test_key keys[] = { { "above", key_above }, { "below", key_below }, { NULL, NULL } };
	struct expectation *x = object;
	int r;

	if (!config_setting_is_group(s)) {
		x->has_value = true;
		return parse_quantity(t, s, &x->value);
	}
	r = test_parse_keys(t, s, "key of value", keys, x, NULL);
	if (r == 0 && !x->has_above && !x->has_below)
		r = conf_error(t->errors, s, "value = { above = \"40GiB\"; below = \"42GiB\"; }, or one of them");
	return r;
}

static int key_severity(struct rule_test *t, const config_setting_t *s, void *object)
{
	struct expectation *x = object;
	const char *name;
	int r = conf_string(t->errors, s, &name);

	if (r < 0)
		return r;
	x->severity = rule_name_find(severity_names, name);
	return x->severity >= 0 ? 0 : conf_unknown(t->errors, s, "severity", name, severity_names);
}

static int key_records(struct rule_test *t, const config_setting_t *s, void *object)
{
	struct expectation *x = object;

	x->has_records = true;
	return conf_count(t->errors, s, 0, TEST_RECORDS_MAX, &x->records);
}

static int key_message(struct rule_test *t, const config_setting_t *s, void *object)
{
	struct expectation *x = object;
	char why[PATTERN_ERROR_MAX];
	const char *text;
	int r = conf_string(t->errors, s, &text);

	if (r < 0)
		return r;
	r = pattern_new(text, why, &x->message);
	return r == -EINVAL ? conf_error(t->errors, s, "message = \"%s\" is no regular expression: %s", text, why) : r;
}

static const struct test_key expect_keys[] = {
	{ "at", key_at },	    { "firing", key_set },	{ "pending", key_set },	 { "fired", key_set },
	{ "resolved", key_set },    { "value", key_value },	{ "severity", key_severity },
	{ "records", key_records }, { "message", key_message }, { "pid", key_pid },	 { "device", key_device },
	{ "stack", key_stack },	    { "unit", key_subject },	{ "user", key_subject }, { "cgroup", key_subject },
	{ "container", key_subject }, { NULL, NULL },
};

static int add_expect(struct rule_test *t, const config_setting_t *s, struct expectation *x)
{
	bool asks;
	int r;

	*x = (struct expectation){ .setting = s, .device = -1, .severity = -1 };
	if (!config_setting_is_group(s))
		return conf_error(t->errors, s, "an entry of expect is a group: { at = \"20m\"; firing = [ ]; }");
	r = test_parse_keys(t, s, "key of an expectation", expect_keys, x, NULL);
	if (r < 0)
		return r;
	if (!x->at)
		return conf_error(t->errors, s, "when? write at = \"20m\"");
	asks = x->has_value || x->has_above || x->has_below || x->severity >= 0 || x->has_records || x->message;
	for (size_t i = 0; i < SET_MAX; i++)
		asks = asks || x->set[i].setting;
	if (!asks)
		return conf_error(t->errors, s, "it asks nothing, so that it cannot fail: write firing, pending, fired, "
						"resolved, value, severity, records or message");
	return 0;
}

/* Those of one time stay in their order. */
static int by_time(const void *a, const void *b)
{
	const struct expectation *x = a, *y = b;

	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	return config_setting_index(x->setting) - config_setting_index(y->setting);
}

static int check_ticks(struct rule_test *t, const config_setting_t *s)
{
	uint64_t max = t->options->max_ticks ? t->options->max_ticks : TEST_TIME_MAX / UINT64_C(1000000000);

	if (t->expects[t->expects_len - 1].at_ns / t->tick_ns <= max)
		return 0;
	return conf_error(t->errors, s, "more than %llu ticks until the last expectation: let the test be shorter, or tick "
					"longer", (unsigned long long)max);
}

int test_parse_expects(struct rule_test *t, const config_setting_t *s)
{
	int r = 0, len = config_setting_length(s);

	if (!config_setting_is_list(s))
		return conf_error(t->errors, s, "expect needs a list in round brackets: expect = ( { at = \"20m\"; firing = "
						"[ ]; } );");
	if (len == 0)
		return conf_error(t->errors, s, "expect is empty, so that nothing could fail");
	t->expects = calloc((size_t)len, sizeof(*t->expects));
	if (!t->expects)
		return -ENOMEM;
	for (int i = 0; r != -ENOMEM && i < len; i++) {
		int q = add_expect(t, config_setting_get_elem(s, (unsigned)i), &t->expects[t->expects_len++]);

		r = q < 0 ? q : r;
	}
	if (r < 0)
		return r;
	qsort(t->expects, t->expects_len, sizeof(*t->expects), by_time);
	return check_ticks(t, s);
}
