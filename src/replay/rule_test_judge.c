/* SPDX-License-Identifier: MIT */
/* Is it as expected? If not: what was expected, what is instead, and what has led to it. */
#include <errno.h>
#include <string.h>

#include "base/pattern.h"
#include "base/text.h"
#include "replay/rule_test_private.h"
#include "rule/report.h"
#include "rule/rule_names.h"

#define RECORDS_SHOWN 20

struct judge {
	struct test_run *run;
	const struct expectation *x;
	struct view *incidents;
	size_t incidents_len;
	struct strbuf diff; /* lines of what is wrong; empty: nothing */
};

static bool is_in(const struct name_set *set, const char *name)
{
	for (size_t i = 0; i < set->len; i++)
		if (strcmp(set->names[i], name) == 0)
			return true;
	return false;
}

/* What is there for a set, as views: state at this moment, or records since the expectation before. false = no more. */
static bool next_found(const struct judge *j, enum expect_set which, size_t *i, struct view *ret)
{
	const struct test_run *run = j->run;

	while (which <= SET_PENDING && *i < j->incidents_len) {
		*ret = j->incidents[(*i)++];
		if (ret->is_pending == (which == SET_PENDING))
			return true;
	}
	while (which > SET_PENDING && run->window + *i < run->said_len) {
		const struct report *r = run->said[run->window + (*i)++].report;

		if (!r->rule || r->state != (which == SET_FIRED ? STATE_FIRING : STATE_RESOLVED))
			continue;
		test_view_report(run, r, ret);
		return true;
	}
	return false;
}

static bool is_found(const struct judge *j, enum expect_set which, const char *rule)
{
	struct view v;
	size_t i = 0;

	while (next_found(j, which, &i, &v))
		if (strcmp(v.rule, rule) == 0 && test_selects(j->run, j->x, &v))
			return true;
	return false;
}

static bool is_first_of_rule(const struct judge *j, enum expect_set which, size_t upto, const char *rule)
{
	struct view v;
	size_t i = 0;

	while (i < upto && next_found(j, which, &i, &v) && i < upto)
		if (strcmp(v.rule, rule) == 0 && test_selects(j->run, j->x, &v))
			return false;
	return true;
}

static void add_name(struct strbuf *sb, size_t start, const char *name)
{
	strbuf_adds(sb, sb->len > start ? ", " : "");
	say_name(sb, name);
}

static void judge_set(struct judge *j, enum expect_set which)
{
	const struct name_set *set = &j->x->set[which];
	_cleanup_strbuf_ struct strbuf found = STRBUF_INIT, wanted = STRBUF_INIT;
	bool is_wrong = false;
	struct view v;
	size_t i = 0;

	if (!set->setting)
		return;
	for (size_t k = 0; k < set->len; k++) {
		add_name(&wanted, 0, set->names[k]);
		is_wrong = is_wrong || !is_found(j, which, set->names[k]);
	}
	while (next_found(j, which, &i, &v)) {
		if (!test_selects(j->run, j->x, &v) || !is_first_of_rule(j, which, i, v.rule))
			continue;
		add_name(&found, 0, v.rule);
		is_wrong = is_wrong || !is_in(set, v.rule);
	}
	if (found.error || wanted.error)
		j->diff.error = -ENOMEM;
	if (is_wrong)
		strbuf_addf(&j->diff, "# %s: expected %s, found %s\n", expect_set_names[which],
			    wanted.len ? wanted.buf : "nothing", found.len ? found.buf : "nothing");
}

/* Rules that it names; of one that names none all count. */
static bool is_named(const struct expectation *x, const char *rule)
{
	bool any = false;

	for (size_t k = 0; k < SET_MAX; k++) {
		any = any || x->set[k].len > 0;
		if (is_in(&x->set[k], rule))
			return true;
	}
	return !any;
}

/* The newest record that it means, or NULL; how many there are goes to *ret_count. */
static const struct said *newest_record(const struct judge *j, uint32_t *ret_count)
{
	const struct said *newest = NULL;
	uint32_t count = 0;

	for (size_t i = 0; i < j->run->said_len; i++) {
		const struct said *s = &j->run->said[i];
		struct view v;

		if (!s->report->rule || !is_named(j->x, s->report->rule))
			continue;
		test_view_report(j->run, s->report, &v);
		if (!test_selects(j->run, j->x, &v))
			continue;
		newest = s;
		count++;
	}
	*ret_count = count;
	return newest;
}

static bool is_value(const struct expectation *x, const struct quantity *q)
{
	if (x->has_value && (q->unit != x->value.unit || q->n != x->value.n))
		return false;
	if (x->has_above && (q->unit != x->above.unit || q->n <= x->above.n))
		return false;
	return !x->has_below || (q->unit == x->below.unit && q->n < x->below.n);
}

static void say_wanted_value(struct strbuf *sb, const struct expectation *x)
{
	if (x->has_value)
		say_quantity(sb, &x->value);
	if (x->has_above) {
		strbuf_adds(sb, "above ");
		say_quantity(sb, &x->above);
	}
	if (x->has_below) {
		strbuf_adds(sb, x->has_above ? " and below " : "below ");
		say_quantity(sb, &x->below);
	}
}

/* Which of the sets the values are of: those that it names, or else what fires. */
static bool is_set_meant(const struct expectation *x, enum expect_set which)
{
	bool any = false;

	for (size_t k = 0; k < SET_MAX; k++)
		any = any || x->set[k].len > 0;
	return any ? x->set[which].len > 0 : which == SET_FIRING;
}

static void judge_value(struct judge *j)
{
	_cleanup_strbuf_ struct strbuf found = STRBUF_INIT;

	if (!j->x->has_value && !j->x->has_above && !j->x->has_below)
		return;
	for (int k = 0; k < SET_MAX; k++) {
		struct view v;
		size_t i = 0;

		while (is_set_meant(j->x, (enum expect_set)k) && next_found(j, (enum expect_set)k, &i, &v)) {
			if (!test_selects(j->run, j->x, &v) || !is_named(j->x, v.rule))
				continue;
			if (is_value(j->x, &v.value))
				return;
			strbuf_adds(&found, found.len > 0 ? ", " : "");
			say_quantity(&found, &v.value);
		}
	}
	strbuf_adds(&j->diff, "# value: expected ");
	say_wanted_value(&j->diff, j->x);
	strbuf_addf(&j->diff, ", found %s\n", found.len > 0 ? strbuf_str(&found) : "none");
}

static void judge_records(struct judge *j)
{
	const struct expectation *x = j->x;
	uint32_t count;
	const struct said *newest = newest_record(j, &count);

	if (x->has_records && count != x->records)
		strbuf_addf(&j->diff, "# records: expected %u, found %u\n", x->records, count);
	if (x->severity >= 0 && (!newest || (int)newest->report->severity != x->severity))
		strbuf_addf(&j->diff, "# severity: expected %s, found %s\n", severity_names[x->severity],
			    newest ? severity_name(newest->report->severity) : "no record");
	if (x->message && (!newest || pattern_match(x->message, newest->message, strlen(newest->message)) != 1)) {
		strbuf_adds(&j->diff, "# message: expected to match \"");
		text_escape(&j->diff, pattern_text(x->message), strlen(pattern_text(x->message)), 0);
		strbuf_addf(&j->diff, "\", found %s%.*s%s\n", newest ? "\"" : "no record",
			    newest ? (int)strcspn(newest->message, "\n") : 0, newest ? newest->message : "",
			    newest ? "\"" : "");
	}
}

/* All that might explain it. */
static void explain(const struct judge *j, struct strbuf *sb)
{
	const struct test_run *run = j->run;
	size_t first = run->said_len > RECORDS_SHOWN ? run->said_len - RECORDS_SHOWN : 0;

	for (size_t i = 0; i < j->incidents_len; i++) {
		const struct view *v = &j->incidents[i];

		strbuf_addf(sb, "# %s: ", v->is_pending ? "is pending" : "fires");
		say_view(run, v, sb);
		strbuf_adds(sb, test_selects(run, j->x, v) ? "\n" : " (not asked about)\n");
	}
	if (j->incidents_len == 0)
		strbuf_adds(sb, "# nothing fires or is pending\n");
	strbuf_adds(sb, run->said_len > 0 ? "# records so far:\n" : "# no record so far\n");
	if (first > 0)
		strbuf_addf(sb, "#   (%zu earlier)\n", first);
	for (size_t i = first; i < run->said_len; i++)
		say_record(&run->said[i], false, "#   ", sb);
}

int test_judge(struct test_run *run, const struct expectation *x)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	_cleanup_free_ struct view *incidents = NULL;
	struct judge j = { .run = run, .x = x };
	struct rule_test_counts *counts = run->counts;
	bool is_good;
	int r;

	r = test_incidents(run, &incidents, &j.incidents_len);
	if (r < 0)
		return r;
	j.incidents = incidents;
	for (int k = 0; k < SET_MAX; k++)
		judge_set(&j, (enum expect_set)k);
	judge_value(&j);
	judge_records(&j);
	is_good = j.diff.len == 0;
	strbuf_addf(&out, "%sok %zu - ", is_good ? "" : "not ", counts->passed + counts->failed + 1);
	say_name(&out, run->test->conf->path);
	strbuf_adds(&out, ": ");
	if (run->test->name) {
		say_name(&out, run->test->name);
		strbuf_adds(&out, ": ");
	}
	say_expectation(x, &out);
	strbuf_addc(&out, '\n');
	if (!is_good) {
		strbuf_add(&out, j.diff.buf, j.diff.len);
		explain(&j, &out);
	}
	r = j.diff.error ? j.diff.error : out.error;
	strbuf_done(&j.diff);
	if (r < 0)
		return r;
	*(is_good ? &counts->passed : &counts->failed) += 1;
	fputs(out.buf, run->test->options->out);
	return 0;
}
