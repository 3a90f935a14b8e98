/* SPDX-License-Identifier: MIT */
/* `gpuxray check`: is what the daemon would read any good? Tells all errors in one run. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cmd/cmd.h"
#include "rule/rule.h"
#include "rule/settings.h"

#define SETTINGS_NAME "gpuxray.conf"

struct check {
	const char *config;
	char **paths; /* of rules */
	size_t paths_len;
	bool has_paths; /* of anything: then the search path is not looked at */
	bool prints;
	struct errors errors;
	struct settings settings;
};

static void usage(FILE *f)
{
	fprintf(f, "Usage: gpuxray check [OPTION]... [PATH]...\n"
		   "Validates rule files, or directories of them, and the configuration. Without PATH: what the\n"
		   "daemon would read, which is the configuration, and the rules it names or else those of\n"
		   "/etc/gpuxray/rules.d, /run/gpuxray/rules.d and /usr/lib/gpuxray/rules.d.\n"
		   "A PATH whose name is " SETTINGS_NAME " is taken for a configuration.\n\n"
		   "      --config FILE  configuration (default /etc/gpuxray/" SETTINGS_NAME ", which may be absent)\n"
		   "  -p, --print        print the merged rules and where each came from\n"
		   "  -h, --help\n"
		   "      --version\n\n"
		   "Exit status: 0 good (perhaps with warnings), 1 errors, one `file:line: error: text` line each.\n");
}

/* 1 = done already; -EINVAL after saying why. */
static int parse(int argc, char **argv, struct check *c)
{
	enum { CONFIG = 256, VERSION };
	static const struct option options[] = {
		{ "config", required_argument, NULL, CONFIG },
		{ "print", no_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, VERSION },
		{},
	};
	int opt;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":ph", options, NULL)) >= 0) {
		switch (opt) {
		case CONFIG:
			c->config = optarg;
			break;
		case 'p':
			c->prints = true;
			break;
		case 'h':
			usage(stdout);
			return 1;
		case VERSION:
			printf("gpuxray %s\n", GPUXRAY_VERSION);
			return 1;
		default:
			fprintf(stderr, "gpuxray check: %s \"%s\"; `gpuxray check --help` lists the options\n",
				opt == ':' ? "nothing follows" : "no such option:", argv[optind - 1]);
			return -EINVAL;
		}
	}
	return 0;
}

static bool is_settings_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return strcmp(slash ? slash + 1 : path, SETTINGS_NAME) == 0;
}

/* A configuration given as a PATH stands beside the one in use: only --config, or the default, decides about rules. */
static int check_path(struct check *c, char *path)
{
	struct settings aside = {};
	int r;

	if (!is_settings_name(path)) {
		c->paths[c->paths_len++] = path;
		return 0;
	}
	r = settings_init(&aside);
	if (r == 0)
		r = settings_load("", path, &c->errors, &aside);
	settings_done(&aside);
	return r;
}

static int check_rules(struct check *c)
{
	_cleanup_(ruleset_freep) struct ruleset *rs = NULL;
	char **paths = c->has_paths ? c->paths : c->settings.rules;
	size_t len = c->has_paths ? c->paths_len : c->settings.rules_len;
	int r;

	r = ruleset_load("", paths, len, &c->errors, &rs);
	if (r < 0 || c->errors.error_count > 0)
		return r;
	if (c->prints)
		ruleset_print(rs, stdout);
	printf("%s%zu rule%s in %zu file%s: good\n", c->prints ? "# " : "", rs->len, rs->len == 1 ? "" : "s",
	       rs->file_count, rs->file_count == 1 ? "" : "s");
	return 0;
}

/* Goes on after -EINVAL, for further errors. */
static int check_all(struct check *c, int argc, char **argv)
{
	int r = 0, q;

	c->has_paths = argc > 0;
	c->paths = calloc((size_t)argc + 1, sizeof(*c->paths));
	if (!c->paths || settings_init(&c->settings) < 0)
		return -ENOMEM;
	if (c->config || !c->has_paths)
		r = settings_load("", c->config, &c->errors, &c->settings);
	for (int i = 0; i < argc && r != -ENOMEM; i++) {
		q = check_path(c, argv[i]);
		r = q < 0 ? q : r;
	}
	if (r == -ENOMEM)
		return r;
	if (c->has_paths && c->paths_len == 0) {
		if (r == 0)
			printf("configuration: good\n");
		return r;
	}
	q = check_rules(c);
	return q < 0 ? q : r;
}

int cmd_check(int argc, char **argv)
{
	struct check c = {};
	int r;

	r = parse(argc, argv, &c);
	if (r != 0)
		return r < 0;
	r = check_all(&c, argc - optind, argv + optind);
	errors_print(&c.errors, stderr);
	if (r == -ENOMEM)
		fprintf(stderr, "gpuxray check: out of memory\n");
	if (c.errors.error_count > 0)
		r = -EINVAL;
	if (fflush(stdout) != 0) {
		fprintf(stderr, "gpuxray check: cannot write to standard output: %s\n", strerror(errno));
		r = -EIO;
	}
	errors_done(&c.errors);
	settings_done(&c.settings);
	free(c.paths);
	return r < 0;
}
