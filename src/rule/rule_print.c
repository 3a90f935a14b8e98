/* SPDX-License-Identifier: MIT */
#include "rule/rule_print.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "bpf/event.h"
#include "model/process.h"
#include "rule/match.h"
#include "rule/rule_names.h"
#include "rule/rule_parse.h"

#define INDENT "    "

/* As libconfig reads it back. */
static void write_string(struct strbuf *sb, const char *s)
{
	strbuf_addc(sb, '"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			strbuf_addf(sb, "\\%c", *s);
		else if ((unsigned char)*s < 0x20 || *s == 0x7f)
			strbuf_addf(sb, "\\x%02x", (unsigned char)*s);
		else
			strbuf_addc(sb, *s);
	}
	strbuf_addc(sb, '"');
}

static void write_key_string(struct strbuf *sb, const char *key, const char *value)
{
	strbuf_addf(sb, INDENT "%s = ", key);
	write_string(sb, value);
	strbuf_adds(sb, ";\n");
}

static void write_count(struct strbuf *sb, const char *key, uint32_t value)
{
	strbuf_addf(sb, INDENT "%s = %u;\n", key, value);
}

/* Exact, in the largest unit that divides it. */
static void write_bytes(struct strbuf *sb, uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t i = 0;

	while (bytes > 0 && bytes % 1024 == 0 && i + 1 < ARRAY_SIZE(units)) {
		bytes /= 1024;
		i++;
	}
	strbuf_addf(sb, "%llu%s", (unsigned long long)bytes, units[i]);
}

static void write_size(struct strbuf *sb, const char *key, uint64_t bytes)
{
	strbuf_addf(sb, INDENT "%s = \"", key);
	write_bytes(sb, bytes);
	strbuf_adds(sb, "\";\n");
}

static void write_ns(struct strbuf *sb, uint64_t ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{ "d", 86400 * NSEC_PER_SEC },
		{ "h", 3600 * NSEC_PER_SEC },
		{ "m", 60 * NSEC_PER_SEC },
		{ "s", NSEC_PER_SEC },
		{ "ms", NSEC_PER_MSEC },
		{ "us", NSEC_PER_USEC },
		{ "ns", 1 },
	};

	if (ns == 0)
		strbuf_adds(sb, "0s");
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (ns >= units[i].ns)
			strbuf_addf(sb, "%llu%s", (unsigned long long)(ns / units[i].ns), units[i].name);
		ns %= units[i].ns;
	}
}

static void write_time(struct strbuf *sb, const char *key, uint64_t ns)
{
	strbuf_addf(sb, INDENT "%s = \"", key);
	write_ns(sb, ns);
	strbuf_adds(sb, "\";\n");
}

/* Shortest decimal that reads back as the same number, without an exponent while it is of a usual size. */
static void write_number(struct strbuf *sb, double v)
{
	char buf[64];

	for (int digits = 1; digits <= 17; digits++) {
		(void)snprintf(buf, sizeof(buf), "%.*g", digits, v);
		if (strtod(buf, NULL) == v)
			break;
	}
	/* The unit parser takes no exponents, and nine decimals. */
	if (strchr(buf, 'e'))
		(void)snprintf(buf, sizeof(buf), "%.9f", v);
	strbuf_adds(sb, buf);
}

static void write_fraction(struct strbuf *sb, const char *key, double v)
{
	_cleanup_strbuf_ struct strbuf number = STRBUF_INIT;

	write_number(&number, v);
	/* Here an exponent is no trouble. */
	if (strtod(strbuf_str(&number), NULL) != v) {
		strbuf_reset(&number);
		strbuf_addf(&number, "%.17g", v);
	}
	if (number.error)
		sb->error = number.error;
	strbuf_addf(sb, INDENT "%s = %s;\n", key, strbuf_str(&number));
}

/* Per second, or per the longer time in which it is a whole number: 100/m is not a decimal of seconds. */
static void write_rate(struct strbuf *sb, double per_sec, bool is_bytes)
{
	static const struct {
		const char *name;
		double sec;
	} units[] = { { "s", 1 }, { "m", 60 }, { "h", 3600 }, { "d", 86400 } };

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		double n = nearbyint(per_sec * units[i].sec);

		if (n / units[i].sec != per_sec || n > 0x1p63)
			continue;
		if (is_bytes)
			write_bytes(sb, (uint64_t)n);
		else
			strbuf_addf(sb, "%.0f", n);
		strbuf_addf(sb, "/%s", units[i].name);
		return;
	}
	/* Bytes have no decimals. */
	if (is_bytes)
		strbuf_addf(sb, "%.0fB/s", fmin(per_sec, 0x1p63));
	else
		strbuf_addf(sb, "%.9f/s", per_sec);
}

static void write_share(struct strbuf *sb, double share)
{
	/* 0.922 * 100 is not quite 92.2; what was written had at most nine decimals. */
	write_number(sb, nearbyint(share * 1e11) / 1e9);
	strbuf_addc(sb, '%');
}

static void write_limit_value(struct strbuf *sb, const struct limit *l)
{
	if (l->unit == LIMIT_SHARE) {
		write_share(sb, l->value);
	} else if (l->unit == LIMIT_BYTES) {
		write_bytes(sb, l->value < 0x1p63 ? (uint64_t)l->value : UINT64_MAX);
	} else {
		write_rate(sb, l->value, l->unit == LIMIT_BYTES_PER_SEC);
	}
}

static void write_limit(struct strbuf *sb, const char *key, const struct limit *l)
{
	strbuf_addf(sb, INDENT "%s = \"", key);
	write_limit_value(sb, l);
	strbuf_adds(sb, "\";\n");
}

/* The default need not be written, and as a rate may have too many decimals to be. */
static bool is_default_resolve(const struct rule *r)
{
	return r->resolve_below.value == rule_default_resolve(&r->fire_above).value;
}

static void write_classes(struct strbuf *sb, uint32_t classes)
{
	bool is_first = true;

	if (classes == CLASS_DEVICE_MASK)
		return;
	strbuf_adds(sb, INDENT "class = [");
	for (int i = 0; rule_class_names[i]; i++) {
		uint32_t mask = rule_class_mask(i);

		if ((classes & mask) != mask)
			continue;
		strbuf_adds(sb, is_first ? " " : ", ");
		write_string(sb, rule_class_names[i]);
		classes &= ~mask;
		is_first = false;
	}
	strbuf_adds(sb, " ];\n");
}

static void write_conditions(struct strbuf *sb, uint32_t conditions)
{
	if (conditions == CONDITIONS_ALL)
		return;
	strbuf_adds(sb, INDENT "conditions = [");
	for (int i = 0; rule_condition_names[i]; i++) {
		if (!(conditions & (UINT32_C(1) << i)))
			continue;
		strbuf_adds(sb, conditions & ((UINT32_C(1) << i) - 1) ? ", " : " ");
		write_string(sb, rule_condition_names[i]);
	}
	strbuf_adds(sb, " ];\n");
}

static void write_group(struct strbuf *sb, const struct match_group *g)
{
	strbuf_adds(sb, "{ ");
	for (size_t k = 0; k < MATCH_KEY_MAX; k++) {
		if (g->key[k].len == 0)
			continue;
		strbuf_addf(sb, "%s = [ ", match_key_name((enum match_key)k));
		for (size_t i = 0; i < g->key[k].len; i++) {
			strbuf_adds(sb, i > 0 ? ", " : "");
			write_string(sb, pattern_text(g->key[k].patterns[i]));
		}
		strbuf_adds(sb, " ]; ");
	}
	strbuf_addc(sb, '}');
}

static void write_match(struct strbuf *sb, const struct rule *r)
{
	if (r->match) {
		strbuf_adds(sb, INDENT "match = ");
		write_group(sb, r->match);
		strbuf_adds(sb, ";\n");
	}
	if (r->except_len == 0)
		return;
	strbuf_adds(sb, INDENT "except = ( ");
	for (size_t i = 0; i < r->except_len; i++) {
		strbuf_adds(sb, i > 0 ? ", " : "");
		write_group(sb, &r->except[i]);
	}
	strbuf_adds(sb, " );\n");
}

static bool has_duration(const struct rule *r)
{
	return r->kind == RULE_LIVE_BYTES || r->kind == RULE_ALLOC_RATE || r->kind == RULE_LEAK ||
	       r->kind == RULE_UNTRACKED_GROWTH || r->kind == RULE_ORPHAN;
}

/* Without the newer keys the text is as it was before there were any: meanings must not change with the version. */
static void write_leak(struct strbuf *sb, const struct rule *r)
{
	write_time(sb, "epoch", r->epoch_ns);
	write_count(sb, "epochs", r->epochs);
	write_fraction(sb, "occupancy", r->occupancy);
	write_fraction(sb, "keep_ratio", r->keep_ratio);
	if (r->min_growth_share > 0) {
		strbuf_adds(sb, INDENT "min_growth = \"");
		write_share(sb, r->min_growth_share);
		strbuf_adds(sb, "\";\n");
	} else {
		write_size(sb, "min_growth", r->min_growth_bytes);
	}
	write_count(sb, "for_epochs", r->for_epochs);
	if (r->full_in_ns > 0)
		write_time(sb, "full_in", r->full_in_ns);
	if (r->min_confidence > 0)
		write_fraction(sb, "min_confidence", r->min_confidence);
}

void rule_write_meaning(struct strbuf *sb, const struct rule *r)
{
	write_key_string(sb, "kind", rule_kind_name(r->kind));
	write_key_string(sb, "scope", rule_scope_name(r->scope));
	write_classes(sb, r->classes);
	if (r->fire_above.unit != LIMIT_NONE)
		write_limit(sb, "fire_above", &r->fire_above);
	if (r->resolve_below.unit != LIMIT_NONE && !is_default_resolve(r))
		write_limit(sb, "resolve_below", &r->resolve_below);
	if (has_duration(r)) {
		write_time(sb, "for", r->for_ns);
		write_time(sb, "keep_firing_for", r->keep_firing_for_ns);
	}
	if (r->kind == RULE_ALLOC_RATE || r->kind == RULE_ALLOC_FAILURE || r->kind == RULE_UNTRACKED_GROWTH)
		write_time(sb, "window", r->window_ns);
	if (r->kind == RULE_ALLOC_FAILURE)
		write_count(sb, "count", r->count);
	if (r->kind == RULE_LEAK)
		write_leak(sb, r);
	if (r->kind == RULE_EXIT) {
		write_size(sb, "live_above", r->live_above_bytes);
		write_fraction(sb, "never_freed_above", r->never_freed_above);
		write_time(sb, "min_runtime", r->min_runtime_ns);
	}
	if (r->kind == RULE_UNTRACKED_GROWTH)
		write_time(sb, "min_runtime", r->min_runtime_ns);
	if (r->kind == RULE_ORPHAN) {
		write_size(sb, "live_above", r->live_above_bytes);
		write_conditions(sb, r->conditions);
	}
	write_match(sb, r);
}

static void write_strings(struct strbuf *sb, const char *key, char *const *list, size_t len)
{
	if (len == 0)
		return;
	strbuf_addf(sb, INDENT "%s = [ ", key);
	for (size_t i = 0; i < len; i++) {
		strbuf_adds(sb, i > 0 ? ", " : "");
		write_string(sb, list[i]);
	}
	strbuf_adds(sb, " ];\n");
}

static void write_escalate(struct strbuf *sb, const struct rule_escalate *x)
{
	if (!x->is_set)
		return;
	strbuf_addf(sb, INDENT "escalate = { severity = \"%s\"; ", severity_name(x->severity));
	if (x->full_in_ns > 0) {
		strbuf_adds(sb, "full_in = \"");
		write_ns(sb, x->full_in_ns);
		strbuf_adds(sb, "\"; ");
	}
	if (x->above.unit != LIMIT_NONE) {
		strbuf_adds(sb, "above = \"");
		write_limit_value(sb, &x->above);
		strbuf_adds(sb, "\"; ");
	}
	if (x->after_ns > 0) {
		strbuf_adds(sb, "after = \"");
		write_ns(sb, x->after_ns);
		strbuf_adds(sb, "\"; ");
	}
	strbuf_adds(sb, "};\n");
}

void rule_write_tags(struct strbuf *sb, const struct rule *r)
{
	for (size_t i = 0; i < r->tags_len; i++)
		strbuf_addf(sb, "%s%s", i > 0 ? "," : "", r->tags[i]);
}

void rule_write(struct strbuf *sb, const struct rule *r)
{
	write_key_string(sb, "name", r->name);
	rule_write_meaning(sb, r);
	write_key_string(sb, "severity", severity_name(r->severity));
	if (has_duration(r))
		write_time(sb, "repeat", r->repeat_ns);
	strbuf_addf(sb, INDENT "budget = \"%u/", r->budget_count);
	write_ns(sb, r->budget_ns);
	strbuf_adds(sb, "\";\n");
	write_count(sb, "max_incidents", r->max_incidents);
	if (r->message)
		write_key_string(sb, "message", r->message);
	if (r->runbook)
		write_key_string(sb, "runbook", r->runbook);
	write_strings(sb, "tags", r->tags, r->tags_len);
	write_escalate(sb, &r->escalate);
	write_strings(sb, "inhibits", r->inhibits, r->inhibits_len);
}

void ruleset_print(const struct ruleset *rs, FILE *f)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	strbuf_adds(&sb, "version = 1;\nrules = (\n");
	for (size_t i = 0; i < rs->len; i++) {
		const struct rule *r = rs->rules[i];

		strbuf_adds(&sb, "  # ");
		/* A file name with a newline must not end the comment. */
		for (const char *p = r->origin; *p; p++)
			strbuf_addc(&sb, (unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p);
		strbuf_adds(&sb, "\n  {\n");
		rule_write(&sb, r);
		strbuf_addf(&sb, "  }%s\n", i + 1 < rs->len ? "," : "");
	}
	strbuf_adds(&sb, ");\n");
	(void)fputs(strbuf_str(&sb), f);
}
