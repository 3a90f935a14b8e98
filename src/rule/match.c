/* SPDX-License-Identifier: MIT */
#include "rule/match.h"

#include <string.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "base/text.h"

static const char *const match_key_names[MATCH_KEY_MAX] = {
	[MATCH_COMM] = "comm",		 [MATCH_CMDLINE] = "cmdline", [MATCH_EXE] = "exe",
	[MATCH_CGROUP] = "cgroup",	 [MATCH_UNIT] = "unit",	      [MATCH_USER] = "user",
	[MATCH_CONTAINER] = "container", [MATCH_DEVICE] = "device",
};

const char *match_key_name(enum match_key k)
{
	return k < MATCH_KEY_MAX ? match_key_names[k] : NULL;
}

void match_group_done(struct match_group *g)
{
	for (size_t k = 0; k < MATCH_KEY_MAX; k++) {
		for (size_t i = 0; i < g->key[k].len; i++)
			pattern_free(g->key[k].patterns[i]);
		free(g->key[k].patterns);
	}
	*g = (struct match_group){ 0 };
}

static void warn_of_limit(const struct rule *r, enum match_key k, struct pattern *p)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	if (!pattern_tell_limit(p))
		return;
	text_escape(&sb, pattern_text(p), strlen(pattern_text(p)), 200);
	log_warning("%s:%d: rule \"%s\": pattern \"%s\" of %s takes too long on some input, which counts as no match: "
		    "avoid repeats within repeats",
		    r->file, r->line, r->name, strbuf_str(&sb), match_key_name(k));
}

static bool any_matches(const struct rule *r, const struct match_group *g, enum match_key k, const char *value)
{
	if (!value)
		return false;
	for (size_t i = 0; i < g->key[k].len; i++) {
		int q = pattern_match(g->key[k].patterns[i], value, strlen(value));

		if (q > 0)
			return true;
		if (q < 0)
			warn_of_limit(r, k, g->key[k].patterns[i]);
	}
	return false;
}

struct subject {
	const struct identity *id;
	const char *device_uuid;
	char device_index[16]; /* "" = not known */
};

static bool key_matches(const struct rule *r, const struct match_group *g, enum match_key k, const struct subject *s)
{
	const struct identity *id = s->id;
	const char *index = s->device_index[0] ? s->device_index : NULL;

	if (k == MATCH_DEVICE)
		return any_matches(r, g, k, s->device_uuid) || any_matches(r, g, k, index);
	if (!id)
		return false;
	switch (k) {
	case MATCH_COMM:
		return any_matches(r, g, k, id->comm);
	case MATCH_CMDLINE:
		return any_matches(r, g, k, id->cmdline);
	case MATCH_EXE:
		return any_matches(r, g, k, id->exe);
	case MATCH_CGROUP:
		return any_matches(r, g, k, id->cgroup);
	case MATCH_UNIT:
		return any_matches(r, g, k, id->unit ? id->unit : id->user_unit);
	case MATCH_USER:
		return any_matches(r, g, k, id->user);
	case MATCH_CONTAINER:
		return any_matches(r, g, k, id->container);
	default:
		return false;
	}
}

static bool group_matches(const struct rule *r, const struct match_group *g, const struct subject *s)
{
	for (size_t k = 0; k < MATCH_KEY_MAX; k++) {
		if (g->key[k].len > 0 && !key_matches(r, g, (enum match_key)k, s))
			return false;
	}
	return true;
}

bool rule_matches(const struct rule *r, const struct identity *id, const char *device_uuid, int device_index)
{
	struct subject s = { .id = id, .device_uuid = device_uuid };

	if (device_index >= 0)
		(void)snprintf(s.device_index, sizeof(s.device_index), "%d", device_index);
	if (r->match && !group_matches(r, r->match, &s))
		return false;
	for (size_t i = 0; i < r->except_len; i++) {
		if (group_matches(r, &r->except[i], &s))
			return false;
	}
	return true;
}
