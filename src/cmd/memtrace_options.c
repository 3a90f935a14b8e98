/* SPDX-License-Identifier: MIT */
#include "cmd/memtrace_options.h"

#include <getopt.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/units.h"
#include "memtrace/text.h"

#define INTERVAL_MIN 0.1
#define INTERVAL_MAX 86400
#define SITES_ALL 65536 /* more than a daemon keeps of a process unless told otherwise */

static void usage(FILE *f)
{
	fprintf(f,
		"Usage: gpuxray memtrace {-p PID|--comm REGEX|--unit NAME} [OPTION]...\n"
		"Shows line by line what processes hold of GPU memory, and what they never freed when they end. Asks the running\n"
		"daemon if there is one; else it traces by itself as long as it runs.\n\n"
		"  -p, --pid PID       this process, or several with commas between, repeatable; ends when all have ended\n"
		"      --comm REGEX    processes whose command name matches (PCRE2), those that come later too\n"
		"  -u, --unit NAME     processes of this systemd unit, those that come later too\n"
		"  -f, --follow        and the children of them all, and theirs, those that come later too\n"
		"  -i, --interval SEC  seconds between two looks, 0.1 or more (default 1)\n"
		"  -n, --count COUNT   ends after so many looks\n"
		"      --print-stacks  every call site that still holds memory, most bytes first, with its stack; those that\n"
		"                      have grown since the last look are marked ^\n"
		"      --top N         at most so many call sites of each process\n"
		"  -w, --wide          more columns: PEAK HOST MANAGED FAILS DRIVER GROWTH\n"
		"  -j, --json          one JSON object a line for each process and look\n"
		"      --socket PATH   where the daemon answers (default /run/gpuxray/status.sock)\n"
		"      --own           do not ask the daemon\n"
		"      --library PATH  without a daemon: a further driver library to probe, repeatable\n"
		"      --config FILE   without a daemon: configuration (default /etc/gpuxray/gpuxray.conf)\n"
		"  -v, --verbose       without a daemon: what the tracer says of itself\n"
		"  -h, --help\n\n"
		"INUSE is device memory. Behind it: + more was held before tracing began, * nothing but the driver's count is\n"
		"known, ~ not exact, as events were lost. Exit status: 0; 1 no such process, or on errors.\n");
}

static int bad(const char *option, const char *text, const char *what)
{
	fprintf(stderr, "gpuxray memtrace: %s %s: %s\n", option, text, what);
	return -EINVAL;
}

static int bad_usage(const char *what)
{
	fprintf(stderr, "gpuxray memtrace: %s\n", what);
	return -EINVAL;
}

static int add_pid(struct memtrace_options *o, const char *text)
{
	uint32_t pid;

	if (parse_u32(text, &pid) < 0 || pid == 0)
		return bad("--pid", text, "not a process id");
	for (size_t i = 0; i < o->pids_len; i++)
		if (o->pids[i] == pid)
			return 0;
	if (o->pids_len == VIEW_PIDS_MAX)
		return bad("--pid", text, "too many of them: choose with --comm, --unit or --follow");
	o->pids[o->pids_len++] = pid;
	return 0;
}

static int add_pids(struct memtrace_options *o, char *list)
{
	int r = 0;

	while (list && r == 0)
		r = add_pid(o, strsep(&list, ","));
	return r;
}

static int set_comm(struct memtrace_options *o, const char *text)
{
	char why[PATTERN_ERROR_MAX];

	pattern_free(o->comm);
	o->comm = NULL;
	return pattern_new(text, why, &o->comm) == -EINVAL ? bad("--comm", text, why) : 0;
}

static int set_interval(struct memtrace_options *o, const char *text)
{
	char *end;
	double sec = strtod(text, &end);

	/* So written that a NaN is refused. */
	if (end == text || *end || !(sec >= INTERVAL_MIN && sec <= INTERVAL_MAX))
		return bad("--interval", text, "must be a number of seconds from 0.1 to 86400");
	o->interval_ns = (uint64_t)llround(sec * (double)NSEC_PER_SEC);
	return 0;
}

static int set_count(struct memtrace_options *o, const char *text)
{
	return parse_u64(text, &o->count) < 0 || o->count == 0 ? bad("--count", text, "must be a number above 0") : 0;
}

static int set_top(struct memtrace_options *o, const char *text)
{
	if (parse_u32(text, &o->sites_max) == 0 && o->sites_max > 0 && o->sites_max <= SITES_ALL)
		return 0;
	return bad("--top", text, "must be a number from 1 to 65536");
}

static int add_library(struct memtrace_options *o, char *path)
{
	if (o->libraries_len == MEMTRACE_LIBRARIES_MAX)
		return bad("--library", path, "too many of them");
	o->libraries[o->libraries_len++] = path;
	return 0;
}

static int settle(struct memtrace_options *o)
{
	if (!o->pids_len && !o->comm && !o->unit)
		return bad_usage("of which processes? Say -p PID, --comm REGEX (all: --comm .) or --unit NAME");
	if (!o->sites_max)
		o->sites_max = o->has_stacks ? SITES_ALL : TEXT_SITES_TOLD;
	return 0;
}

int memtrace_options_parse(int argc, char **argv, struct memtrace_options *ret)
{
	enum { COMM = 256, STACKS, TOP, SOCKET, OWN, LIBRARY, CONFIG };
	static const struct option options[] = {
		{ "pid", required_argument, NULL, 'p' },       { "comm", required_argument, NULL, COMM },
		{ "unit", required_argument, NULL, 'u' },      { "follow", no_argument, NULL, 'f' },
		{ "interval", required_argument, NULL, 'i' },  { "count", required_argument, NULL, 'n' },
		{ "print-stacks", no_argument, NULL, STACKS }, { "top", required_argument, NULL, TOP },
		{ "wide", no_argument, NULL, 'w' },	       { "json", no_argument, NULL, 'j' },
		{ "socket", required_argument, NULL, SOCKET }, { "library", required_argument, NULL, LIBRARY },
		{ "own", no_argument, NULL, OWN },
		{ "config", required_argument, NULL, CONFIG }, { "verbose", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },	       {},
	};
	int c, r = 0;

	*ret = (struct memtrace_options){ .interval_ns = NSEC_PER_SEC };
	while (r == 0 && (c = getopt_long(argc, argv, "p:u:fi:n:wjvh", options, NULL)) >= 0)
		switch (c) {
		case 'p': r = add_pids(ret, optarg); break;
		case COMM: r = set_comm(ret, optarg); break;
		case 'u': ret->unit = optarg; break;
		case 'f': ret->has_descendants = true; break;
		case 'i': r = set_interval(ret, optarg); break;
		case 'n': r = set_count(ret, optarg); break;
		case STACKS: ret->has_stacks = true; break;
		case TOP: r = set_top(ret, optarg); break;
		case 'w': ret->is_wide = true; break;
		case 'j': ret->is_json = true; break;
		case SOCKET: ret->socket = optarg; break;
		case OWN: ret->is_own = true; break;
		case LIBRARY: r = add_library(ret, optarg); break;
		case CONFIG: ret->config = optarg; break;
		case 'v': ret->is_verbose = true; break;
		case 'h': usage(stdout); return 1;
		default: return -EINVAL; /* getopt has said why */
		}
	if (r < 0)
		return r;
	if (optind < argc)
		return bad("argument", argv[optind], "not understood; processes are named with -p");
	if (ret->unit && !*ret->unit)
		return bad("--unit", "\"\"", "name a unit");
	return settle(ret);
}

void memtrace_options_done(struct memtrace_options *o)
{
	pattern_free(o->comm);
	o->comm = NULL;
}
