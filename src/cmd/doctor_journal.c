/* SPDX-License-Identifier: MIT */
/* journald's configuration, as journald.conf(5) has it. */
#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/units.h"
#include "cmd/doctor_facts.h"
#include "record/sink.h"

#define CONF_BYTES_MAX (1u << 20)
#define DROPINS_MAX 256
#define BURST_DEFAULT 10000
#define INTERVAL_DEFAULT_USEC UINT64_C(30000000)
#define INTERVAL_MAX_USEC UINT64_C(1000000000000000) /* "infinity" */

/* The first that has a file of a name counts. */
static const char *const dirs[] = { "/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd" };

struct unit {
	const char *name;
	uint64_t usec;
};

static uint64_t unit_usec(const char *name, size_t len)
{
	static const struct unit units[] = {
		{ "", 1000000 },	 { "us", 1 },		 { "usec", 1 },		 { "ms", 1000 },
		{ "msec", 1000 },	 { "s", 1000000 },	 { "sec", 1000000 },	 { "second", 1000000 },
		{ "seconds", 1000000 },	 { "m", 60000000 },	 { "min", 60000000 },	 { "minute", 60000000 },
		{ "minutes", 60000000 }, { "h", 3600000000 },	 { "hr", 3600000000 },	 { "hour", 3600000000 },
		{ "hours", 3600000000 }, { "d", 86400000000 },	 { "day", 86400000000 }, { "days", 86400000000 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (strlen(units[i].name) == len && strncmp(units[i].name, name, len) == 0)
			return units[i].usec;
	return 0;
}

/* systemd.time(7): "30s", "5min 20s", "90" (seconds). Not our own durations: their units have other names. */
static bool parse_span(const char *s, uint64_t *ret_usec)
{
	uint64_t sum = 0;

	if (strcmp(s, "infinity") == 0) {
		*ret_usec = INTERVAL_MAX_USEC;
		return true;
	}
	while (*s) {
		char *end;
		double n;
		uint64_t unit;
		size_t len;

		if (!isdigit((unsigned char)*s))
			return false;
		n = strtod(s, &end);
		s = end + strspn(end, " \t");
		len = strspn(s, "abcdefghijklmnopqrstuvwxyz");
		unit = unit_usec(s, len);
		if (unit == 0 || n * (double)unit > (double)INTERVAL_MAX_USEC)
			return false;
		sum = MIN(sum + (uint64_t)(n * (double)unit), INTERVAL_MAX_USEC);
		s += len;
		s += strspn(s, " \t");
	}
	*ret_usec = sum;
	return true;
}

/* An empty value is the default again; journald passes over one that it does not understand. */
static void take(const char *key, const char *value, struct doctor_journal *j)
{
	static const char *const storages[] = { "auto", "persistent", "volatile", "none" };
	uint64_t n;

	if (strcmp(key, "Storage") == 0) {
		for (size_t i = 0; i < ARRAY_SIZE(storages); i++)
			if (strcmp(value, storages[i]) == 0 || (i == 0 && !*value))
				(void)snprintf(j->storage, sizeof(j->storage), "%s", storages[i]);
	} else if (strcmp(key, "RateLimitBurst") == 0) {
		if (!*value)
			j->burst = BURST_DEFAULT;
		else if (parse_u64(value, &n) == 0)
			j->burst = n;
	} else if (strcmp(key, "RateLimitIntervalSec") == 0 || strcmp(key, "RateLimitInterval") == 0) {
		if (!*value)
			j->interval_usec = INTERVAL_DEFAULT_USEC;
		else
			(void)parse_span(value, &j->interval_usec);
	}
}

static char *trim(char *s)
{
	size_t len;

	s += strspn(s, " \t\r");
	len = strlen(s);
	while (len > 0 && strchr(" \t\r", s[len - 1]))
		s[--len] = '\0';
	return s;
}

void doctor_parse_journald(const char *text, struct doctor_journal *j)
{
	_cleanup_free_ char *copy = strdup(text);
	bool is_journal = false;
	char *rest = copy, *line;

	while (rest && (line = strsep(&rest, "\n"))) {
		char *equals;

		line = trim(line);
		if (*line == '#' || *line == ';')
			continue;
		if (*line == '[')
			is_journal = strcmp(line, "[Journal]") == 0;
		equals = strchr(line, '=');
		if (!is_journal || !equals)
			continue;
		*equals = '\0';
		take(trim(line), trim(equals + 1), j);
	}
}

static bool read_conf(const char *path, struct doctor_journal *j)
{
	_cleanup_free_ char *text = NULL;
	size_t len;

	if (file_read(AT_FDCWD, path, CONF_BYTES_MAX, &text, &len) < 0)
		return false;
	doctor_parse_journald(text, j);
	return true;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t list_dropins(const char *root, const char *dir, char **names, size_t len)
{
	_cleanup_closedir_ DIR *d = NULL;
	char path[PATH_MAX];
	struct dirent *e;

	(void)snprintf(path, sizeof(path), "%s%s/journald.conf.d", root, dir);
	d = opendir(path);
	while (d && len < DROPINS_MAX && (e = readdir(d))) {
		size_t n = strlen(e->d_name);

		if (n > 5 && strcmp(e->d_name + n - 5, ".conf") == 0 && (names[len] = strdup(e->d_name)))
			len++;
	}
	return len;
}

/* By name, whatever their folders; the last one that says something counts. */
static void read_dropins(const char *root, struct doctor_journal *j)
{
	char *names[DROPINS_MAX], path[PATH_MAX];
	size_t len = 0;

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		len = list_dropins(root, dirs[i], names, len);
	qsort(names, len, sizeof(*names), compare_names);
	for (size_t n = 0; n < len; n++) {
		for (size_t i = 0; i < ARRAY_SIZE(dirs) && (n == 0 || strcmp(names[n], names[n - 1]) != 0); i++) {
			(void)snprintf(path, sizeof(path), "%s%s/journald.conf.d/%s", root, dirs[i], names[n]);
			if (read_conf(path, j))
				break;
		}
	}
	for (size_t n = 0; n < len; n++)
		free(names[n]);
}

void doctor_read_journal(const char *root, struct doctor_journal *j)
{
	char path[PATH_MAX];
	int fd, type;

	(void)snprintf(j->storage, sizeof(j->storage), "auto");
	j->burst = BURST_DEFAULT;
	j->interval_usec = INTERVAL_DEFAULT_USEC;
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		(void)snprintf(path, sizeof(path), "%s%s/journald.conf", root, dirs[i]);
		if (read_conf(path, j))
			break;
	}
	read_dropins(root, j);
	(void)snprintf(path, sizeof(path), "%s/var/log/journal", root);
	j->has_var_log = access(path, F_OK) == 0;
	(void)snprintf(path, sizeof(path), "%s/run/systemd/journal/socket", root);
	fd = sink_connect(path, &type);
	j->has_socket = fd >= 0;
	closep(&fd);
}
