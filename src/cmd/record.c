/* SPDX-License-Identifier: MIT */
/* `gpuxray record`: the daemon without rules, and all that it would tell them in a file. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "cmd/daemon.h"

#define LIST_MAX 256
#define SECONDS_MAX (366.0 * 86400)

struct arguments {
	const char *config;
	char *libraries[LIST_MAX];
	size_t libraries_len;
	uint32_t pids[LIST_MAX];
	size_t pids_len;
	struct daemon_recording recording;
};

static void usage(FILE *f)
{
	fprintf(f,
		"Usage: gpuxray record -o FILE [OPTION]...\n"
		"Writes every allocation, free and failure of the traced processes to a file that `gpuxray replay` reads,\n"
		"until SIGINT or SIGTERM. Works beside a running daemon, which it leaves alone.\n\n"
		"  -o, --output FILE   text, one event a line; compressed if the name ends in .gz; - is standard output\n"
		"  -p, --pid PID       only this process, repeatable; ends when all of them have ended\n"
		"      --seconds N     ends after N seconds\n"
		"      --identity      with command lines, users and the uuids of devices: left out unless asked for, so\n"
		"                      that a recording can be shared. Stacks name functions and files in any case\n"
		"      --library PATH  a further driver library to probe, repeatable\n"
		"      --config FILE   configuration (default /etc/gpuxray/gpuxray.conf, which may be absent)\n"
		"  -v, --verbose       what the daemon says of itself too, not warnings and errors alone\n"
		"  -h, --help\n");
}

static int bad(const char *option, const char *text, const char *what)
{
	log_error("%s %s: %s", option, text, what);
	return -EINVAL;
}

static int add_pid(struct arguments *a, const char *text)
{
	if (a->pids_len == LIST_MAX)
		return bad("--pid", text, "too many of them");
	if (parse_u32(text, &a->pids[a->pids_len]) < 0 || a->pids[a->pids_len] == 0)
		return bad("--pid", text, "not a process id");
	a->pids_len++;
	return 0;
}

static int set_seconds(struct arguments *a, const char *text)
{
	char *end;
	double sec;

	errno = 0;
	sec = strtod(text, &end);
	/* So written that a NaN is refused. */
	if (errno || end == text || *end || !(sec > 0 && sec <= SECONDS_MAX))
		return bad("--seconds", text, "must be a number of seconds above 0");
	a->recording.duration_ns = (uint64_t)ceil(sec * (double)NSEC_PER_SEC);
	return 0;
}

/* 1 = help was asked for and given. */
static int parse(int argc, char **argv, struct arguments *a)
{
	enum { SECONDS = 256, IDENTITY, LIBRARY, CONFIG };
	static const struct option options[] = {
		{ "output", required_argument, NULL, 'o' },	{ "pid", required_argument, NULL, 'p' },
		{ "seconds", required_argument, NULL, SECONDS }, { "identity", no_argument, NULL, IDENTITY },
		{ "library", required_argument, NULL, LIBRARY }, { "config", required_argument, NULL, CONFIG },
		{ "verbose", no_argument, NULL, 'v' },		{ "help", no_argument, NULL, 'h' },
		{},
	};
	int c, r = 0;

	log_set_max(4);
	while (r == 0 && (c = getopt_long(argc, argv, "o:p:vh", options, NULL)) >= 0)
		switch (c) {
		case 'o': a->recording.path = optarg; break;
		case 'p': r = add_pid(a, optarg); break;
		case SECONDS: r = set_seconds(a, optarg); break;
		case IDENTITY: a->recording.identity = true; break;
		case LIBRARY:
			if (a->libraries_len == LIST_MAX)
				return bad("--library", optarg, "too many of them");
			a->libraries[a->libraries_len++] = optarg;
			break;
		case CONFIG: a->config = optarg; break;
		case 'v': log_set_max(7); break;
		case 'h': usage(stdout); return 1;
		default: return -EINVAL; /* getopt has said why */
		}
	if (r == 0 && optind < argc)
		return bad("record takes no argument", argv[optind], "the file is given by -o");
	if (r == 0 && !a->recording.path) {
		log_error("record: where to? Say -o FILE, FILE.gz to have it compressed");
		return -EINVAL;
	}
	return r;
}

static void say_end(const struct recorder_stats *s, const char *path)
{
	char bytes[FORMAT_UNITS_MAX];

	fprintf(stderr, "gpuxray: %llu events, %llu stacks, %s in %s (%.1f bytes an event), %llu dropped\n",
		(unsigned long long)s->events, (unsigned long long)s->stacks, format_bytes(bytes, s->file_bytes), path,
		s->events ? (double)s->file_bytes / (double)s->events : 0, (unsigned long long)s->dropped);
}

int cmd_record(int argc, char **argv)
{
	_cleanup_(settings_done) struct settings settings = {};
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	struct recorder_stats stats = {};
	struct arguments a = {};
	struct daemon_options o = { .settings = &settings, .sink = SINK_JSON };
	int r = parse(argc, argv, &a);

	if (r != 0)
		return r > 0 ? 0 : 1;
	r = settings_init(&settings);
	if (r == 0)
		r = settings_load("", a.config, &errors, &settings);
	if (r == 0)
		r = settings_add_libraries(&settings, a.libraries, a.libraries_len);
	errors_print(&errors, stderr);
	if (r < 0) {
		log_error("cannot start with this configuration%s", r == -ENOMEM ? ": out of memory" : "");
		return 1;
	}
	o.pids = a.pids;
	o.pids_len = a.pids_len;
	o.recording = a.recording;
	o.recording.is_all = true;
	o.recording.stats = &stats;
	r = daemon_run(&o);
	if (stats.lines)
		say_end(&stats, strcmp(a.recording.path, "-") == 0 ? "standard output" : a.recording.path);
	return r < 0 ? 1 : 0;
}
