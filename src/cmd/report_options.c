/* SPDX-License-Identifier: MIT */
#include "cmd/report_options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/units.h"
#include "base/when.h"

#define WIDTH_MIN 60
#define WIDTH_MAX 300
#define PROCESSES_MAX 1000000
#define DEFAULT_USEC (UINT64_C(86400) * USEC_PER_SEC)

static const char *const format_names[] = { [FORMAT_TEXT] = "text", [FORMAT_JSON] = "json", [FORMAT_FOLDED] = "folded",
					    [FORMAT_HTML] = "html" };
static const char *const colour_names[] = { [COLOUR_AUTO] = "auto", [COLOUR_ALWAYS] = "always", [COLOUR_NEVER] = "never" };

static void usage(FILE *f)
{
	fprintf(f,
		"Usage: gpuxray report [OPTION]...\n"
		"Tells from the journal what happened to GPU memory: who held how much and when, incidents, failed allocations\n"
		"and who held the device then, and what is not known. Of the last 24 hours unless told otherwise.\n\n"
		"  -S, --since T        from then on, as journalctl takes it: \"yesterday 18:00\", \"2026-11-30 22:00\", -2h\n"
		"  -U, --until T        until then (default now)\n"
		"  -p, --pid PID        only this process\n"
		"  -u, --unit UNIT      only processes of this systemd unit\n"
		"      --format FORMAT  text (the default), json, folded (stacks for flame graphs), html (a page); without it\n"
		"                       the end of -o's name says: .json, .folded, .html\n"
		"  -j, --json           the same as --format json\n"
		"  -o, --output FILE    write there instead of standard output\n"
		"  -D, --directory DIR  journal files below DIR instead of this host's journal\n"
		"      --file FILE      these journal files alone, repeatable\n"
		"  -m, --merge          also the journals that other hosts sent here\n"
		"      --width N        columns of the text, 60 to 300 (default: the terminal's, else 80)\n"
		"      --colour WHEN, --color WHEN\n"
		"                       auto (the default: on a terminal, unless NO_COLOR is set), always, never\n"
		"      --processes N    processes that the text tells of, each by itself (default: 20, and those that\n"
		"                       are alike together)\n"
		"  -h, --help\n\n"
		"Exit status: 0; 3 when nothing was recorded then; 1 on errors. Options in full: man gpuxray-report\n");
}

static int bad(const char *option, const char *text, const char *what)
{
	fprintf(stderr, "gpuxray report: %s %s: %s\n", option, text, what);
	return -EINVAL;
}

static int bad_usage(const char *what)
{
	fprintf(stderr, "gpuxray report: %s\n", what);
	return -EINVAL;
}

static int parse_time(const struct report_options *o, const char *option, const char *text, uint64_t *ret)
{
	const char *why;

	return when_parse(text, o->now_usec, ret, &why) < 0 ? bad(option, text, why) : 0;
}

static int parse_name(const char *option, const char *text, const char *const *names, size_t len, const char *what)
{
	for (size_t i = 0; i < len; i++) {
		if (strcmp(names[i], text) == 0)
			return (int)i;
	}
	return bad(option, text, what);
}

static int set_format(struct report_options *o, const char *text)
{
	int i = parse_name("--format", text, format_names, ARRAY_SIZE(format_names), "must be text, json, folded or html");

	if (i >= 0)
		o->format = (enum report_format)i;
	return MIN(i, 0);
}

static int set_colour(struct report_options *o, const char *text)
{
	int i = parse_name("--colour", text, colour_names, ARRAY_SIZE(colour_names), "must be auto, always or never");

	if (i >= 0)
		o->colour = (enum report_colour)i;
	return MIN(i, 0);
}

/* "train" means "train.service", as elsewhere with systemd. */
static int set_unit(struct report_options *o, const char *text)
{
	const char *end = strchr(text, '.') ? "" : ".service";

	if (!*text)
		return bad("--unit", "\"\"", "name a unit");
	if ((size_t)snprintf(o->unit, sizeof(o->unit), "%s%s", text, end) >= sizeof(o->unit))
		return bad("--unit", text, "no unit has so long a name");
	return 0;
}

static int set_pid(struct report_options *o, const char *text)
{
	return parse_u32(text, &o->pid) < 0 || o->pid == 0 ? bad("--pid", text, "not a process id") : 0;
}

static int set_number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	char what[96];

	if (parse_u64(text, ret) == 0 && *ret >= min && *ret <= max)
		return 0;
	(void)snprintf(what, sizeof(what), "must be a number from %llu to %llu", (unsigned long long)min,
		       (unsigned long long)max);
	return bad(option, text, what);
}

static int add_file(struct report_options *o, const char *path)
{
	if (o->files_len == REPORT_FILES_MAX)
		return bad("--file", path, "too many of them: name their folder with --directory");
	o->files[o->files_len++] = path;
	return 0;
}

static void guess_format(struct report_options *o)
{
	const char *dot = o->output ? strrchr(o->output, '.') : NULL;

	if (!dot)
		return;
	for (size_t i = FORMAT_JSON; i < ARRAY_SIZE(format_names); i++) {
		if (strcasecmp(dot + 1, format_names[i]) == 0)
			o->format = (enum report_format)i;
	}
}

static int settle(struct report_options *o, const char *since, const char *until)
{
	int r = 0;

	o->until_usec = o->now_usec;
	if (until)
		r = parse_time(o, "--until", until, &o->until_usec);
	if (r == 0 && since)
		r = parse_time(o, "--since", since, &o->from_usec);
	if (r < 0)
		return r;
	if (!since)
		o->from_usec = MAX(o->until_usec, DEFAULT_USEC) - DEFAULT_USEC;
	if (since && o->from_usec >= o->now_usec)
		return bad("--since", since, "is in the future: nothing can have happened yet");
	o->until_usec = MIN(o->until_usec, o->now_usec);
	if (o->from_usec >= o->until_usec)
		return bad_usage("--since is not before --until: nothing lies between them");
	if (o->directory && o->files_len > 0)
		return bad_usage("--directory or --file, not both: a file says where it is");
	return 0;
}

int report_options_parse(int argc, char **argv, struct report_options *ret)
{
	enum { FORMAT = 256, FILE_, WIDTH, COLOUR, PROCESSES };
	static const struct option options[] = {
		{ "since", required_argument, NULL, 'S' },	{ "until", required_argument, NULL, 'U' },
		{ "pid", required_argument, NULL, 'p' },	{ "unit", required_argument, NULL, 'u' },
		{ "format", required_argument, NULL, FORMAT },	{ "json", no_argument, NULL, 'j' },
		{ "output", required_argument, NULL, 'o' },	{ "directory", required_argument, NULL, 'D' },
		{ "file", required_argument, NULL, FILE_ },	{ "merge", no_argument, NULL, 'm' },
		{ "width", required_argument, NULL, WIDTH },	{ "colour", required_argument, NULL, COLOUR },
		{ "color", required_argument, NULL, COLOUR },	{ "processes", required_argument, NULL, PROCESSES },
		{ "help", no_argument, NULL, 'h' },		{},
	};
	const char *since = NULL, *until = NULL;
	bool has_format = false;
	uint64_t n = 0;
	int c, r = 0;

	*ret = (struct report_options){ .now_usec = clock_real_usec() };
	while (r == 0 && (c = getopt_long(argc, argv, "S:U:p:u:jo:D:mh", options, NULL)) >= 0)
		switch (c) {
		case 'S': since = optarg; break;
		case 'U': until = optarg; break;
		case 'p': r = set_pid(ret, optarg); break;
		case 'u': r = set_unit(ret, optarg); break;
		case FORMAT: r = set_format(ret, optarg); has_format = true; break;
		case 'j': ret->format = FORMAT_JSON; has_format = true; break;
		case 'o': ret->output = optarg; break;
		case 'D': ret->directory = optarg; break;
		case FILE_: r = add_file(ret, optarg); break;
		case 'm': ret->is_merged = true; break;
		case WIDTH: r = set_number("--width", optarg, WIDTH_MIN, WIDTH_MAX, &n); ret->width = (unsigned)n; break;
		case COLOUR: r = set_colour(ret, optarg); break;
		case PROCESSES: r = set_number("--processes", optarg, 1, PROCESSES_MAX, &n); ret->processes = n; break;
		case 'h': usage(stdout); return 1;
		default: return -EINVAL; /* getopt has said why */
		}
	if (r < 0)
		return r;
	if (optind < argc)
		return bad("argument", argv[optind], "not understood; `gpuxray report --help` tells the options");
	if (ret->output && strcmp(ret->output, "-") == 0)
		ret->output = NULL;
	if (!has_format)
		guess_format(ret);
	return settle(ret, since, until);
}
