/* SPDX-License-Identifier: MIT */
#include "rule/settings.h"

#include <string.h>

#include "base/clock.h"
#include "rule/conf.h"
#include "rule/match.h"
#include "rule/omit.h"
#include "rule/rule_names.h"
#include "rule/settings_calls.h"

#define SETTINGS_FILE "/etc/gpuxray/gpuxray.conf"
#define DAY_NS (86400 * NSEC_PER_SEC)

static const char *const sink_names[] = { "auto", "journal", "syslog", "json", "text", NULL };

struct reader {
	struct errors *errors;
	struct settings *settings;
};

/* Counts of struct limits. The lower bounds leave a daemon that still works, the upper ones memory for the host. */
#define LIMIT(field) #field, offsetof(struct limits, field)
static const struct {
	const char *name;
	size_t offset;
	uint32_t min, max;
} counts[] = {
	{ LIMIT(processes), 16, 1000000 },
	{ LIMIT(live_allocations), 1024, 64u << 20 },
	{ LIMIT(sites), 64, 10000000 },
	{ LIMIT(sites_per_process), 16, 1000000 },
	{ LIMIT(stacks_per_process), 16, 1000000 },
	{ LIMIT(stacks_per_second), 1, 100000 },
	{ LIMIT(learned_stacks), 1024, 1048576 },
	{ LIMIT(incidents), 16, 1000000 },
	{ LIMIT(queue), 16, 65536 },
	{ LIMIT(records_per_minute), 1, 100000 },
	{ LIMIT(history_per_minute), 1, 100000 },
	{ LIMIT(libraries), 1, 4096 },
};
#undef LIMIT

static const char *const limit_names[] = {
	"processes", "live_allocations", "sites",      "sites_per_process",  "stacks_per_process", "stacks_per_second",
	"learned_stacks", "incidents",	 "queue",      "ring_bytes",	     "records_per_minute", "history_per_minute",
	"libraries", NULL,
};
_Static_assert(ARRAY_SIZE(limit_names) == ARRAY_SIZE(counts) + 2, "all counts, ring_bytes and the end");
_Static_assert(sizeof(struct limits) == (ARRAY_SIZE(counts) + 1) * sizeof(uint32_t), "every limit has a key");

/* The ring buffer's map wants a power of two of at least a page. */
static int read_ring_bytes(struct reader *rd, const config_setting_t *s)
{
	uint64_t bytes = 0;
	int r;

	r = conf_size(rd->errors, s, &bytes);
	if (r < 0)
		return r;
	if (bytes < UINT64_C(64) << 10 || bytes > UINT64_C(1) << 30 || (bytes & (bytes - 1)) != 0)
		return conf_error(rd->errors, s,
				  "ring_bytes must be a power of two from 64KiB to 1GiB, such as \"8MiB\"");
	rd->settings->limits.ring_bytes = (uint32_t)bytes;
	return 0;
}

static int read_limit(struct reader *rd, const config_setting_t *s)
{
	const char *name = config_setting_name(s);

	if (strcmp(name, "ring_bytes") == 0)
		return read_ring_bytes(rd, s);
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		uint32_t *field = (uint32_t *)((char *)&rd->settings->limits + counts[i].offset);

		if (strcmp(name, counts[i].name) == 0)
			return conf_count(rd->errors, s, counts[i].min, counts[i].max, field);
	}
	return conf_unknown(rd->errors, s, "key of limits", name, limit_names);
}

static int read_limits(struct reader *rd, const config_setting_t *s)
{
	int r;

	r = conf_group(rd->errors, s);
	if (r < 0)
		return r;
	for (int i = 0; r != -ENOMEM && i < config_setting_length(s); i++) {
		int q = read_limit(rd, config_setting_get_elem(s, (unsigned)i));

		r = q < 0 ? q : r;
	}
	return r;
}

static int read_sink(struct reader *rd, const config_setting_t *s)
{
	const char *text;
	char *sink;
	int r;

	r = conf_string(rd->errors, s, &text);
	if (r < 0)
		return r;
	if (rule_name_find(sink_names, text) < 0)
		return conf_unknown(rd->errors, s, "sink", text, sink_names);
	sink = strdup(text);
	if (!sink)
		return -ENOMEM;
	free(rd->settings->sink);
	rd->settings->sink = sink;
	return 0;
}

static int read_syslog(struct reader *rd, const config_setting_t *s)
{
	return settings_syslog_read(rd->errors, s, &rd->settings->syslog);
}

static int read_metrics(struct reader *rd, const config_setting_t *s)
{
	return settings_metrics_read(rd->errors, s, &rd->settings->metrics);
}

/* The daemon runs in /, so a relative path would name something else there than where it was written. */
static int read_paths(struct reader *rd, const config_setting_t *s, char ***ret, size_t *ret_len)
{
	size_t len = 0;
	int r;

	r = conf_strings(rd->errors, s, &len);
	if (r < 0)
		return r;
	for (size_t i = 0; i < len; i++) {
		const config_setting_t *e;
		const char *text = conf_strings_get(s, i, &e);

		if (text[0] != '/')
			r = conf_error(rd->errors, e, "%s: \"%s\" must be an absolute path", conf_name(s), text);
	}
	if (r < 0)
		return r;
	return conf_strings_copy(rd->errors, s, ret, ret_len);
}

static int read_rules(struct reader *rd, const config_setting_t *s)
{
	if (config_setting_is_list(s) && config_setting_length(s) > 0 &&
	    config_setting_is_group(config_setting_get_elem(s, 0)))
		return conf_error(rd->errors, s,
				  "rules names files and directories here: rules = [ \"/path\" ]; rules "
				  "themselves belong into a file of /etc/gpuxray/rules.d");
	return read_paths(rd, s, &rd->settings->rules, &rd->settings->rules_len);
}

static int read_libraries(struct reader *rd, const config_setting_t *s)
{
	return read_paths(rd, s, &rd->settings->libraries, &rd->settings->libraries_len);
}

static int read_patterns(struct reader *rd, const config_setting_t *s, char ***ret, size_t *ret_len)
{
	size_t len = 0;
	int r;

	r = conf_strings(rd->errors, s, &len);
	if (r < 0)
		return r;
	for (size_t i = 0; i < len; i++) {
		_cleanup_(pattern_freep) struct pattern *p = NULL;
		char error[PATTERN_ERROR_MAX];
		const config_setting_t *e;
		const char *text = conf_strings_get(s, i, &e);
		int q;

		q = pattern_new(text, error, &p);
		if (q == -ENOMEM)
			return q;
		if (q < 0)
			r = conf_error(rd->errors, e, "%s: pattern \"%s\" is not a regular expression: %s", conf_name(s),
				       text, error);
		else if (!text[0])
			r = conf_error(rd->errors, e, "%s: an empty pattern matches everywhere: remove it", conf_name(s));
	}
	if (r < 0)
		return r;
	return conf_strings_copy(rd->errors, s, ret, ret_len);
}

static int read_redact(struct reader *rd, const config_setting_t *s)
{
	return read_patterns(rd, s, &rd->settings->redact, &rd->settings->redact_len);
}

static int read_omit(struct reader *rd, const config_setting_t *s)
{
	uint32_t mask = 0;
	size_t len = 0;
	int r;

	r = conf_strings(rd->errors, s, &len);
	for (size_t i = 0; r != -ENOMEM && i < len; i++) {
		const config_setting_t *e;
		const char *text = conf_strings_get(s, i, &e);
		int omit = rule_name_find(omit_names, text);

		if (omit < 0)
			r = conf_unknown(rd->errors, e, "field to omit", text, omit_names);
		else
			mask |= OMIT_BIT(omit);
	}
	if (r == 0)
		rd->settings->omit = mask;
	return r;
}

static int read_allocators(struct reader *rd, const config_setting_t *s)
{
	return read_patterns(rd, s, &rd->settings->allocators, &rd->settings->allocators_len);
}

static int read_allocators_also(struct reader *rd, const config_setting_t *s)
{
	return read_patterns(rd, s, &rd->settings->allocators_also, &rd->settings->allocators_also_len);
}

static int read_health_interval(struct reader *rd, const config_setting_t *s)
{
	return conf_duration(rd->errors, s, NSEC_PER_SEC, DAY_NS, &rd->settings->health_interval_ns);
}

static int read_drain_interval(struct reader *rd, const config_setting_t *s)
{
	return conf_duration(rd->errors, s, 10 * NSEC_PER_MSEC, 10 * NSEC_PER_SEC, &rd->settings->drain_interval_ns);
}

static int read_nvml_interval(struct reader *rd, const config_setting_t *s)
{
	return conf_duration(rd->errors, s, NSEC_PER_SEC, DAY_NS, &rd->settings->nvml_interval_ns);
}

static int read_sample_interval(struct reader *rd, const config_setting_t *s)
{
	const char *text = config_setting_get_string(s);

	if (text && strcmp(text, "off") == 0) {
		rd->settings->sample_interval_ns = 0;
		return 0;
	}
	return conf_duration(rd->errors, s, NSEC_PER_SEC, 3600 * NSEC_PER_SEC, &rd->settings->sample_interval_ns);
}

static int read_calls(struct reader *rd, const config_setting_t *s)
{
	return settings_calls_read(rd->errors, s, rd->settings);
}

/* After all others, see settings_read(). */
static int read_later(struct reader *rd, const config_setting_t *s)
{
	return 0;
}

const char *const settings_key_names[] = {
	"limits", "sink", "syslog", "rules", "libraries", "redact", "omit", "allocators", "allocators_also", "calls",
	"trace_frameworks", "health_interval", "drain_interval", "nvml_interval", "sample_interval", "metrics", NULL,
};
static int (*const key_readers[])(struct reader *rd, const config_setting_t *s) = {
	read_limits, read_sink, read_syslog, read_rules, read_libraries, read_redact, read_omit, read_allocators,
	read_allocators_also, read_calls, read_later, read_health_interval, read_drain_interval, read_nvml_interval,
	read_sample_interval, read_metrics,
};
_Static_assert(ARRAY_SIZE(settings_key_names) == ARRAY_SIZE(key_readers) + 1, "a reader for each key");

int settings_init(struct settings *s)
{
	struct settings fresh = {
		.limits = LIMITS_DEFAULT,
		.sink = strdup("auto"),
		.syslog = SYSLOG_SETTINGS_DEFAULT,
		.metrics = METRICS_SETTINGS_DEFAULT,
		.health_interval_ns = 300 * NSEC_PER_SEC,
		.drain_interval_ns = 250 * NSEC_PER_MSEC,
		.nvml_interval_ns = 10 * NSEC_PER_SEC,
		.sample_interval_ns = 60 * NSEC_PER_SEC,
	};

	if (!fresh.sink)
		return -ENOMEM;
	*s = fresh;
	return 0;
}

static int key_error(struct errors *errors, const config_setting_t *s)
{
	static const char *const rule_file_names[] = { "version", "defaults", "lists", NULL };
	const char *name = config_setting_name(s);

	if (rule_name_find(rule_file_names, name) >= 0)
		return conf_error(errors, s,
				  "\"%s\" is a key of a rule file, not of the daemon's configuration: rules lie in "
				  "/etc/gpuxray/rules.d",
				  name);
	return conf_unknown(errors, s, "key", name, settings_key_names);
}

static int settings_read(const struct conf *c, struct errors *errors, struct settings *s)
{
	struct reader rd = { .errors = errors, .settings = s };
	const config_setting_t *root = conf_root(c), *frameworks = config_setting_get_member(root, "trace_frameworks");
	int r = 0;

	for (int i = 0; r != -ENOMEM && i < config_setting_length(root); i++) {
		const config_setting_t *e = config_setting_get_elem(root, (unsigned)i);
		int k = rule_name_find(settings_key_names, config_setting_name(e)), q;

		if (k >= 0)
			q = key_readers[k](&rd, e);
		else
			q = key_error(errors, e);
		r = q < 0 ? q : r;
	}
	if (frameworks && r != -ENOMEM) {
		int q = settings_frameworks_read(errors, frameworks, s);

		r = q < 0 ? q : r;
	}
	return r;
}

/* Reads into fresh settings, so that *s is as it was unless all is good. */
static int settings_replace(const struct conf *c, struct errors *errors, struct settings *s)
{
	struct settings fresh;
	int r;

	r = settings_init(&fresh);
	if (r < 0)
		return r;
	r = settings_read(c, errors, &fresh);
	if (r < 0) {
		settings_done(&fresh);
		return r;
	}
	settings_done(s);
	*s = fresh;
	return 0;
}

int settings_load(const char *root, const char *path, struct errors *errors, struct settings *s)
{
	_cleanup_(conf_freep) struct conf *c = NULL;
	_cleanup_free_ char *file = NULL;
	int r;

	if (path)
		file = strdup(path);
	else if (asprintf(&file, "%s%s", root ? root : "", SETTINGS_FILE) < 0)
		file = NULL;
	if (!file)
		return -ENOMEM;
	if (!path && access(file, F_OK) < 0 && errno == ENOENT)
		return 0;
	r = conf_load(file, path ? CONF_F_SPECIAL : 0, errors, &c);
	if (r < 0)
		return r;
	return settings_replace(c, errors, s);
}

int settings_parse(const char *name, const char *text, struct errors *errors, struct settings *s)
{
	_cleanup_(conf_freep) struct conf *c = NULL;
	int r;

	r = conf_parse(name, text, errors, &c);
	if (r < 0)
		return r;
	return settings_replace(c, errors, s);
}

static void strings_free(char **list, size_t len)
{
	for (size_t i = 0; i < len; i++)
		free(list[i]);
	free(list);
}

void settings_done(struct settings *s)
{
	strings_free(s->rules, s->rules_len);
	strings_free(s->libraries, s->libraries_len);
	strings_free(s->redact, s->redact_len);
	strings_free(s->allocators, s->allocators_len);
	strings_free(s->allocators_also, s->allocators_also_len);
	user_calls_free(s->calls, s->calls_len);
	free(s->sink);
	syslog_settings_done(&s->syslog);
	metrics_settings_done(&s->metrics);
	*s = (struct settings){ 0 };
}

int settings_add_libraries(struct settings *s, char *const *paths, size_t len)
{
	char **more = len ? realloc(s->libraries, (s->libraries_len + len) * sizeof(*more)) : s->libraries;

	if (len && !more)
		return -ENOMEM;
	s->libraries = more;
	for (size_t i = 0; i < len; i++) {
		more[s->libraries_len] = strdup(paths[i]);
		if (!more[s->libraries_len])
			return -ENOMEM;
		s->libraries_len++;
	}
	return 0;
}
