/* SPDX-License-Identifier: MIT */
/* The keys of leak rules. */
#include <string.h>

#include "base/clock.h"
#include "base/units.h"
#include "bpf/event.h"
#include "rule/rule_parse.h"

#define DAY_NS (86400 * NSEC_PER_SEC)

/* Bounds of what the engine keeps per subject. */
#define EPOCHS_MIN 4
#define EPOCHS_MAX 64

int rule_parse_epoch(struct rule_builder *b, const config_setting_t *s)
{
	return conf_duration(b->errors, s, NSEC_PER_SEC, DAY_NS, &b->rule->epoch_ns);
}

int rule_parse_epochs(struct rule_builder *b, const config_setting_t *s)
{
	return conf_count(b->errors, s, EPOCHS_MIN, EPOCHS_MAX, &b->rule->epochs);
}

int rule_parse_occupancy(struct rule_builder *b, const config_setting_t *s)
{
	return conf_fraction(b->errors, s, &b->rule->occupancy);
}

int rule_parse_keep_ratio(struct rule_builder *b, const config_setting_t *s)
{
	return conf_fraction(b->errors, s, &b->rule->keep_ratio);
}

/* A share stands beside the bytes that are the default: where the capacity is not known, those count. */
int rule_parse_min_growth(struct rule_builder *b, const config_setting_t *s)
{
	const char *text = config_setting_get_string(s);
	double share;
	int r;

	if (!text || !strchr(text, '%'))
		return conf_size(b->errors, s, &b->rule->min_growth_bytes);
	r = parse_share(text, &share);
	if (r < 0)
		return conf_error(b->errors, s,
				  "min_growth = \"%s\" is no share of a device: it goes from 0%% to 100%%, such as \"2%%\"",
				  text);
	if (b->rule->classes & ~CLASS_DEVICE_MASK)
		return conf_error(b->errors, s,
				  "min_growth = \"%s\": a share is that of a device, where memory of this class does not "
				  "lie: write a size",
				  text);
	b->rule->min_growth_share = share;
	return 0;
}

int rule_parse_full_in(struct rule_builder *b, const config_setting_t *s)
{
	return conf_duration(b->errors, s, 0, 366 * DAY_NS, &b->rule->full_in_ns);
}

int rule_parse_min_confidence(struct rule_builder *b, const config_setting_t *s)
{
	return conf_fraction(b->errors, s, &b->rule->min_confidence);
}

int rule_parse_for_epochs(struct rule_builder *b, const config_setting_t *s)
{
	return conf_count(b->errors, s, 1, 1000, &b->rule->for_epochs);
}
