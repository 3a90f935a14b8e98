/* SPDX-License-Identifier: MIT */
#include "rule/settings_metrics.h"

#include <limits.h>
#include <string.h>

#include "base/address.h"
#include "base/textfile.h"
#include "rule/conf.h"
#include "rule/rule_names.h"

#define DAY_NS (86400 * NSEC_PER_SEC)
#define PROCESSES_MAX 1000000
#define TEMPORARY_SUFFIX 7 /* of the name beside it */

enum key { KEY_LISTEN, KEY_TEXTFILE, KEY_INTERVAL, KEY_PROCESSES, KEY_ARGS, KEY_MAX };
static const char *const key_names[] = { "listen", "textfile", "interval", "processes", "args", NULL };
_Static_assert(ARRAY_SIZE(key_names) == KEY_MAX + 1, "a name for each key");

/* "" is off. */
static int set_string(char **p, const char *s)
{
	char *copy = s[0] ? strdup(s) : NULL;

	if (s[0] && !copy)
		return -ENOMEM;
	free(*p);
	*p = copy;
	return 0;
}

static int read_listen(struct errors *errors, const config_setting_t *s, const char *text, struct metrics_settings *m)
{
	char error[HTTP_ADDRESS_ERROR_MAX];
	struct http_address a;

	if (text[0] && http_address_parse(text, &a, error) < 0)
		return conf_error(errors, s, "listen: %s", error);
	return set_string(&m->listen, text);
}

static int read_textfile(struct errors *errors, const config_setting_t *s, const char *text, struct metrics_settings *m)
{
	if (text[0] && text[0] != '/')
		return conf_error(errors, s, "textfile: \"%s\" must be an absolute path", text);
	if (strlen(text) + TEMPORARY_SUFFIX >= PATH_MAX)
		return conf_error(errors, s, "textfile: a path has at most %d bytes", PATH_MAX - 1 - TEMPORARY_SUFFIX);
	if (text[0] && !textfile_is_read(text))
		conf_warn(errors, s, "textfile: node_exporter reads files whose names end in \".prom\" alone");
	return set_string(&m->textfile, text);
}

static int read_key(struct errors *errors, const config_setting_t *s, struct metrics_settings *m)
{
	const char *name = config_setting_name(s), *text;
	int r;

	switch (rule_name_find(key_names, name)) {
	case KEY_INTERVAL:
		return conf_duration(errors, s, NSEC_PER_SEC, DAY_NS, &m->interval_ns);
	case KEY_PROCESSES:
		return conf_count(errors, s, 0, PROCESSES_MAX, &m->processes);
	case KEY_ARGS:
		return conf_bool(errors, s, &m->args);
	case KEY_LISTEN:
		r = conf_string(errors, s, &text);
		return r < 0 ? r : read_listen(errors, s, text, m);
	case KEY_TEXTFILE:
		r = conf_string(errors, s, &text);
		return r < 0 ? r : read_textfile(errors, s, text, m);
	}
	return conf_unknown(errors, s, "key of metrics", name, key_names);
}

int settings_metrics_read(struct errors *errors, const struct config_setting_t *s, struct metrics_settings *ret)
{
	struct metrics_settings m = METRICS_SETTINGS_DEFAULT;
	int r = conf_group(errors, s);

	if (r < 0)
		return r;
	for (int i = 0; r != -ENOMEM && i < config_setting_length(s); i++) {
		int q = read_key(errors, config_setting_get_elem(s, (unsigned)i), &m);

		r = q < 0 ? q : r;
	}
	if (r < 0) {
		metrics_settings_done(&m);
		return r;
	}
	metrics_settings_done(ret);
	*ret = m;
	return 0;
}

void metrics_settings_done(struct metrics_settings *s)
{
	free(TAKE_PTR(s->listen));
	free(TAKE_PTR(s->textfile));
}
