/* SPDX-License-Identifier: MIT */
#include "rule/match.h"

#include <string.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "base/text.h"

const char *const match_key_names[] = {
	[MATCH_COMM] = "comm",		 [MATCH_CMDLINE] = "cmdline",	  [MATCH_EXE] = "exe",
	[MATCH_CGROUP] = "cgroup",	 [MATCH_UNIT] = "unit",		  [MATCH_USER] = "user",
	[MATCH_CONTAINER] = "container", [MATCH_DEVICE] = "device",	  [MATCH_SLICE] = "slice",
	[MATCH_POD] = "pod",		 [MATCH_SLURM_JOB] = "slurm_job", [MATCH_RUNTIME] = "runtime",
	[MATCH_PARENT] = "parent",	 [MATCH_TAG] = "tag",		  [MATCH_POD_NAME] = "pod_name",
	[MATCH_POD_NAMESPACE] = "pod_namespace", [MATCH_CONTAINER_NAME] = "container_name", [MATCH_KEY_MAX] = NULL,
};

const char *match_key_name(enum match_key k)
{
	return k < MATCH_KEY_MAX ? match_key_names[k] : NULL;
}

bool rule_is_of_group(const struct rule *r)
{
	return (r->kind == RULE_LIVE_BYTES || r->kind == RULE_ALLOC_RATE) && r->scope != SCOPE_PROCESS &&
	       r->scope != SCOPE_STACK;
}

/* Rules of one set share what has the same text. */
static bool has_pattern(const struct match_group *g, size_t key, const struct pattern *p)
{
	for (size_t i = 0; i < g->key[key].len; i++) {
		if (g->key[key].patterns[i] == p)
			return true;
	}
	return false;
}

bool match_group_within(const struct match_group *a, const struct match_group *b)
{
	/* Each key of b must be one that a asks for as well, and take all that a takes. */
	for (size_t k = 0; b && k < MATCH_KEY_MAX; k++) {
		if (b->key[k].len == 0)
			continue;
		if (!a || a->key[k].len == 0)
			return false;
		for (size_t i = 0; i < a->key[k].len; i++) {
			if (!has_pattern(b, k, a->key[k].patterns[i]))
				return false;
		}
	}
	return true;
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

static const char *id_text(const struct identity *id, enum match_key k)
{
	switch (k) {
	case MATCH_COMM:
		return id->comm;
	case MATCH_CMDLINE:
		return id->cmdline;
	case MATCH_EXE:
		return id->exe;
	case MATCH_CGROUP:
		return id->cgroup;
	case MATCH_UNIT:
		return id->unit ? id->unit : id->user_unit;
	case MATCH_USER:
		return id->user;
	case MATCH_CONTAINER:
		return id->container;
	case MATCH_SLICE:
		return id->slice;
	case MATCH_POD:
		return id->pod;
	case MATCH_SLURM_JOB:
		return id->slurm_job;
	case MATCH_RUNTIME:
		return id->runtime;
	case MATCH_PARENT:
		return id->parent;
	case MATCH_TAG:
		return id->tag;
	case MATCH_POD_NAME:
		return id->pod_name;
	case MATCH_POD_NAMESPACE:
		return id->pod_namespace;
	case MATCH_CONTAINER_NAME:
		return id->container_name;
	case MATCH_DEVICE:
	case MATCH_KEY_MAX:
		break;
	}
	return NULL;
}

static bool key_matches(const struct rule *r, const struct match_group *g, enum match_key k, const struct subject *s)
{
	const struct identity *id = s->id;
	const char *index = s->device_index[0] ? s->device_index : NULL;

	if (k == MATCH_DEVICE)
		return any_matches(r, g, k, s->device_uuid) || any_matches(r, g, k, index);
	return id && any_matches(r, g, k, id_text(id, k));
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
