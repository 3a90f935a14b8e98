/* SPDX-License-Identifier: MIT */
/* fire_above, resolve_below and the like: sizes, shares and rates. */
#include <math.h>

#include "base/units.h"
#include "bpf/event.h"
#include "rule/rule_names.h"
#include "rule/rule_parse.h"

#define RESOLVE_SHARE 0.95 /* of fire_above, when resolve_below is not given */

static int parse_rate_limit(struct rule_builder *b, const config_setting_t *s, const char *text, struct limit *ret)
{
	double per_sec = 0, share;
	int is_bytes = 0, r;
	uint64_t bytes;

	r = parse_rate(text, &per_sec, &is_bytes);
	if (r == -ERANGE)
		return conf_error(b->errors, s, "%s = \"%s\" is too large", conf_name(s), text);
	if (r < 0 && (parse_size(text, &bytes) == 0 || parse_share(text, &share) == 0))
		return conf_error(b->errors, s,
				  "%s = \"%s\": alloc_rate compares a rate, write calls as \"2000/s\" or bytes as "
				  "\"8GiB/s\"",
				  conf_name(s), text);
	if (r < 0)
		return conf_error(b->errors, s,
				  "%s = \"%s\" is not a rate: write calls as \"2000/s\" or bytes as \"8GiB/s\"",
				  conf_name(s), text);
	*ret = (struct limit){ is_bytes ? LIMIT_BYTES_PER_SEC : LIMIT_CALLS_PER_SEC, per_sec };
	return 0;
}

static int check_share(struct rule_builder *b, const config_setting_t *s, const char *text)
{
	const struct rule *r = b->rule;

	if (r->kind == RULE_UNTRACKED_GROWTH)
		return conf_error(b->errors, s, "%s = \"%s\": growth is compared with a size, such as \"4GiB\"",
				  conf_name(s), text);
	/* A process has the device it uses; of the others nobody knows which device is meant. */
	if (r->scope != SCOPE_DEVICE && r->scope != SCOPE_PROCESS)
		return conf_error(b->errors, s,
				  "%s = \"%s\": a share is that of a device, which scope = \"%s\" does not name: "
				  "use scope = \"device\" or write a size",
				  conf_name(s), text, rule_scope_name(r->scope));
	if (r->classes & ~CLASS_DEVICE_MASK)
		return conf_error(b->errors, s,
				  "%s = \"%s\": a share is that of a device, where memory of this class does not lie: "
				  "write a size",
				  conf_name(s), text);
	return 0;
}

static int parse_bytes_limit(struct rule_builder *b, const config_setting_t *s, const char *text, struct limit *ret)
{
	const char *kind = rule_kind_name(b->rule->kind);
	uint64_t bytes = 0;
	double share = 0, rate;
	int r, is_bytes;

	r = parse_share(text, &share);
	if (r == -ERANGE)
		return conf_error(b->errors, s, "%s = \"%s\" is out of range: a share goes from 0%% to 100%%",
				  conf_name(s), text);
	if (r == 0) {
		*ret = (struct limit){ LIMIT_SHARE, share };
		return check_share(b, s, text);
	}
	if (parse_rate(text, &rate, &is_bytes) == 0)
		return conf_error(b->errors, s,
				  "%s = \"%s\": %s compares bytes, not a rate: write \"40GiB\", or use kind = "
				  "\"alloc_rate\"",
				  conf_name(s), text, kind);
	r = parse_size(text, &bytes);
	if (r == -ERANGE)
		return conf_error(b->errors, s, "%s = \"%s\" is too large", conf_name(s), text);
	if (r < 0)
		return conf_error(b->errors, s,
				  "%s = \"%s\" is not a size: write a number and B, KiB, MiB, GiB, TiB or %%, such as "
				  "\"100MiB\" or \"92%%\"",
				  conf_name(s), text);
	*ret = (struct limit){ LIMIT_BYTES, (double)bytes };
	return 0;
}

int rule_parse_limit(struct rule_builder *b, const config_setting_t *s, struct limit *ret)
{
	bool is_rate = b->rule->kind == RULE_ALLOC_RATE;
	struct limit limit = { LIMIT_NONE, 0 };
	const char *text;
	int r;

	if (config_setting_is_number(s))
		return conf_error(b->errors, s,
				  "%s needs a unit, in a string: a bare number does not say of what, write %s",
				  conf_name(s), is_rate ? "\"2000/s\" or \"8GiB/s\"" : "\"100MiB\" or \"92%\"");
	r = conf_string(b->errors, s, &text);
	if (r < 0)
		return r;
	if (is_rate)
		r = parse_rate_limit(b, s, text, &limit);
	else
		r = parse_bytes_limit(b, s, text, &limit);
	if (r < 0)
		return r;
	*ret = limit;
	return 0;
}

int rule_parse_fire_above(struct rule_builder *b, const config_setting_t *s)
{
	int r;

	r = rule_parse_limit(b, s, &b->rule->fire_above);
	if (r < 0)
		return r;
	/* Going back below zero is impossible, so such an incident would last for ever. */
	if (b->rule->fire_above.value <= 0)
		return conf_error(b->errors, s, "fire_above must be more than 0: write \"1B\" to fire on any use");
	if (b->rule->fire_above.unit == LIMIT_SHARE && b->rule->fire_above.value >= 1)
		return conf_error(b->errors, s,
				  "fire_above = \"100%%\" is unreachable: nothing holds more than the device");
	return 0;
}

int rule_parse_resolve_below(struct rule_builder *b, const config_setting_t *s)
{
	int r;

	r = rule_parse_limit(b, s, &b->rule->resolve_below);
	if (r < 0)
		return r;
	if (b->rule->resolve_below.value <= 0)
		return conf_error(b->errors, s,
				  "resolve_below is unreachable: nothing is less than 0, write \"1B\" or more");
	return 0;
}

struct limit rule_default_resolve(const struct limit *fire)
{
	double value = fire->value * RESOLVE_SHARE;

	/* Whole bytes, and never none: less than nothing is never held. */
	return (struct limit){ fire->unit, fire->unit == LIMIT_BYTES ? ceil(value) : value };
}

int rule_settle_limits(struct rule_builder *b, const struct draft *d)
{
	const config_setting_t *s = d->slot[KEY_RESOLVE_BELOW];
	struct limit *fire = &b->rule->fire_above, *resolve = &b->rule->resolve_below;

	if (b->rule->kind != RULE_LIVE_BYTES && b->rule->kind != RULE_ALLOC_RATE &&
	    b->rule->kind != RULE_UNTRACKED_GROWTH)
		return 0;
	if (!s) {
		*resolve = rule_default_resolve(fire);
		return 0;
	}
	/* A bad one has been told already. */
	if (fire->unit == LIMIT_NONE || resolve->unit == LIMIT_NONE)
		return 0;
	if (resolve->unit != fire->unit)
		return conf_error(b->errors, s,
				  "resolve_below is not of the same unit as fire_above: write both as sizes, both as "
				  "shares or both as rates of the same thing");
	if (resolve->value >= fire->value)
		return conf_error(b->errors, s,
				  "resolve_below is not below fire_above, so that the resolved state is unreachable: "
				  "lower it, or leave it out for 95%% of fire_above");
	return 0;
}
