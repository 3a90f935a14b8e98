/* SPDX-License-Identifier: MIT */
/* `gpuxray top`: devices and processes, live. */
#include <errno.h>
#include <getopt.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "top/layout.h"
#include "top/loop.h"

#define INTERVAL_NS_MIN (100 * NSEC_PER_MSEC)
#define INTERVAL_NS_MAX (3600 * NSEC_PER_SEC)
#define COLUMNS_DEFAULT 80
#define COLUMNS_MAX 10000
#define WHY_MAX 512

struct top_options {
	struct view_source_options source;
	char **libraries;
	uint32_t pids[VIEW_PIDS_MAX];
	uint64_t count; /* 0 = not given */
	bool is_once, is_json;
};

static void usage(FILE *f)
{
	fprintf(f, "Usage: gpuxray top [OPTION]...\n"
		   "A live table of GPUs and of the processes that hold their memory: who holds how much, how fast it grows, and\n"
		   "which lines of code allocated it. Asks the running daemon, else traces by itself while it runs (as root).\n\n"
		   "  -d, --delay SEC      seconds between looks (default 2); \"500ms\", \"1m\" too\n"
		   "  -n, --count N        so many looks\n"
		   "      --once           print one look as text and end; with -n several\n"
		   "  -j, --json           one JSON object a look, a line each, until stopped; with --once or -n that many\n"
		   "  -s, --sort COLUMN    memory (the default), driver, host, peak, growth, rate, sm, incidents, pid, user,\n"
		   "                       unit, name\n"
		   "  -r, --reverse        the other way round\n"
		   "  -p, --pid PID        only this process, or several with commas between, repeatable\n"
		   "  -u, --user USER      only processes of this user\n"
		   "      --filter TEXT    only processes with TEXT in pid, user, unit, pod or command\n"
		   "      --tree           parents and children as a tree\n"
		   "      --own            trace by itself, also where a daemon runs\n"
		   "      --socket PATH    where the daemon answers (default /run/gpuxray/status.sock)\n"
		   "      --config FILE    of an own tracer (default /etc/gpuxray/gpuxray.conf)\n"
		   "      --library PATH   a further driver library for an own tracer to probe, repeatable\n"
		   "  -h, --help\n\n"
		   "Keys: h tells them. Exit status: 0; 1 on errors. In full: man gpuxray-top\n");
}

static int bad(const char *option, const char *text, const char *what)
{
	fprintf(stderr, "gpuxray top: %s %s: %s\n", option, text, what);
	return -EINVAL;
}

/* ---- options */

/* "2", "0.5", "500ms", "1m" */
static int set_delay(struct top_model *m, const char *text)
{
	_cleanup_strbuf_ struct strbuf seconds = STRBUF_INIT;
	uint64_t ns = 0;

	strbuf_addf(&seconds, "%ss", text);
	if ((parse_duration(text, &ns) < 0 && parse_duration(strbuf_str(&seconds), &ns) < 0) || ns < INTERVAL_NS_MIN ||
	    ns > INTERVAL_NS_MAX)
		return bad("--delay", text, "must be seconds from 0.1 to 3600");
	m->interval_ns = ns;
	return 0;
}

static int set_count(struct top_options *o, const char *text)
{
	if (parse_u64(text, &o->count) < 0 || o->count == 0)
		return bad("--count", text, "must be a number from 1 on");
	return 0;
}

static int set_sort(struct top_model *m, const char *text)
{
	_cleanup_strbuf_ struct strbuf what = STRBUF_INIT;

	if (top_sort_parse(text, &m->sort) == 0)
		return 0;
	strbuf_adds(&what, "must be ");
	for (size_t i = 0; i < TOP_SORTS; i++)
		strbuf_addf(&what, "%s%s", i == 0 ? "" : i + 1 < TOP_SORTS ? ", " : " or ", top_sort_name((enum top_sort)i));
	return bad("--sort", text, strbuf_str(&what));
}

static int add_pid(struct top_options *o, const char *text)
{
	if (o->source.pids_len == VIEW_PIDS_MAX)
		return bad("--pid", text, "too many of them: use --filter");
	if (parse_u32(text, &o->pids[o->source.pids_len]) < 0 || o->pids[o->source.pids_len] == 0)
		return bad("--pid", text, "not a process id");
	o->source.pids_len++;
	return 0;
}

static int add_pids(struct top_options *o, char *list)
{
	int r = 0;

	while (list && r == 0)
		r = add_pid(o, strsep(&list, ","));
	return r;
}

static int set_filter(struct top_model *m, const char *text)
{
	if (strlen(text) >= sizeof(m->filter))
		return bad("--filter", text, "too long");
	strcpy(m->filter, text);
	return 0;
}

static int parse(int argc, char **argv, struct top_options *o, struct top_model *m)
{
	enum { ONCE = 256, FILTER, TREE, OWN, SOCKET, CONFIG, LIBRARY };
	static const struct option options[] = {
		{ "delay", required_argument, NULL, 'd' },	{ "count", required_argument, NULL, 'n' },
		{ "once", no_argument, NULL, ONCE },		{ "json", no_argument, NULL, 'j' },
		{ "sort", required_argument, NULL, 's' },	{ "reverse", no_argument, NULL, 'r' },
		{ "pid", required_argument, NULL, 'p' },	{ "user", required_argument, NULL, 'u' },
		{ "filter", required_argument, NULL, FILTER },	{ "tree", no_argument, NULL, TREE },
		{ "own", no_argument, NULL, OWN },		{ "socket", required_argument, NULL, SOCKET },
		{ "config", required_argument, NULL, CONFIG },	{ "library", required_argument, NULL, LIBRARY },
		{ "help", no_argument, NULL, 'h' },		{},
	};
	int c, r = 0;

	while (r == 0 && (c = getopt_long(argc, argv, "d:n:js:rp:u:h", options, NULL)) >= 0)
		switch (c) {
		case 'd': r = set_delay(m, optarg); break;
		case 'n': r = set_count(o, optarg); break;
		case ONCE: o->is_once = true; break;
		case 'j': o->is_json = true; break;
		case 's': r = set_sort(m, optarg); break;
		case 'r': m->is_reversed = true; break;
		case 'p': r = add_pids(o, optarg); break;
		case 'u': m->user = optarg; break;
		case FILTER: r = set_filter(m, optarg); break;
		case TREE: m->is_tree = true; break;
		case OWN: o->source.kind = VIEW_SOURCE_OWN; break;
		case SOCKET: o->source.socket = optarg; break;
		case CONFIG: o->source.config = optarg; break;
		case LIBRARY: o->libraries[o->source.libraries_len++] = optarg; break;
		case 'h': usage(stdout); return 1;
		default: return -EINVAL; /* getopt has said why */
		}
	if (r == 0 && optind < argc)
		return bad("argument", argv[optind], "not understood; `gpuxray top --help` tells the options");
	return r;
}

/* ---- as text */

static size_t text_width(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	uint64_t n;

	if (columns && parse_u64(columns, &n) == 0 && n > 0 && n <= COLUMNS_MAX)
		return n;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
		return COLUMNS_DEFAULT;
	return size.ws_col;
}

static int write_table(struct top_model *m, bool is_ascii, struct strbuf *sb)
{
	_cleanup_grid_ struct grid g = {};
	int r = top_layout_plain(m, text_width(), is_ascii, &g);

	if (r == 0)
		grid_text(&g, sb);
	return r;
}

/* Those that the options leave out stay in the view, behind its end: they are freed with it. */
static void write_json(const struct top_model *m, struct strbuf *sb)
{
	struct view *v = m->view;
	const size_t len = v->processes_len;
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		if (top_model_matches(m, &v->processes[i])) {
			const struct view_process p = v->processes[n];

			v->processes[n++] = v->processes[i];
			v->processes[i] = p;
		}
	}
	v->processes_len = n;
	view_json(v, sb);
	v->processes_len = len;
	if (sb->len > 0 && sb->buf[sb->len - 1] != '\n')
		strbuf_addc(sb, '\n');
}

/* 0, *ret is a new view; -EAGAIN: a daemon that has answered before does not now, which is told once. */
static int ask(struct top_model *m, const struct top_options *o, struct view_source *source, struct view **ret)
{
	const struct view_query q = { .pids = o->pids, .pids_len = o->source.pids_len };
	const bool may_come_back = m->view && view_source_is_daemon(source);
	char why[WHY_MAX] = "";
	int r = view_source_ask(source, &q, ret, why, sizeof(why));

	if (r == 0 && m->trouble)
		fprintf(stderr, "gpuxray top: the daemon answers again\n");
	if (r == 0)
		return 0;
	if (!m->trouble)
		fprintf(stderr, "gpuxray top: %s%s\n", *why ? why : strerror(-r),
			may_come_back ? "; asking again until it answers" : "");
	if (!may_come_back || r == -ENOMEM)
		return r;
	return top_model_trouble(m, why) ?: -EAGAIN;
}

static int look(struct top_model *m, const struct top_options *o, struct view_source *source, bool is_ascii, bool is_first)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct view *v = NULL;
	int r = ask(m, o, source, &v);

	if (r < 0)
		return r == -EAGAIN ? 0 : r;
	r = top_model_view(m, v, clock_monotonic_ns());
	if (r == 0 && o->is_json)
		write_json(m, &sb);
	else if (r == 0)
		r = write_table(m, is_ascii, &sb);
	r = r < 0 ? r : sb.error;
	if (r < 0) {
		fprintf(stderr, "gpuxray top: %s\n", strerror(-r));
		return r;
	}
	if ((!is_first && !o->is_json && putchar('\n') == EOF) || fwrite(sb.buf, 1, sb.len, stdout) != sb.len ||
	    fflush(stdout) != 0) {
		r = -errno;
		if (r != -EPIPE)
			fprintf(stderr, "gpuxray top: cannot write: %s\n", strerror(-r));
	}
	return r;
}

static int print(struct top_model *m, const struct top_options *o, struct view_source *source, bool is_ascii)
{
	const uint64_t count = o->count ?: o->is_once ? 1 : UINT64_MAX;
	uint64_t due = clock_monotonic_ns();
	int r = 0;

	/* Who reads no more ends it with 0. */
	(void)signal(SIGPIPE, SIG_IGN);
	for (uint64_t i = 0; i < count && r == 0; i++) {
		const struct timespec ts = { .tv_sec = (time_t)(due / NSEC_PER_SEC), .tv_nsec = (long)(due % NSEC_PER_SEC) };

		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
			continue;
		r = look(m, o, source, is_ascii, i == 0);
		due = MAX(due + m->interval_ns, clock_monotonic_ns());
	}
	return r == -EPIPE ? 0 : r;
}

/* ---- on a terminal */

static int show(struct top_model *m, const struct top_options *o, struct view_source **source, bool is_ascii)
{
	const struct top_loop_options l = { .source = *source, .pids = o->pids, .pids_len = o->source.pids_len,
					    .count = o->count, .is_ascii = is_ascii };
	char why[WHY_MAX] = "";
	bool is_busy = false;
	int r = top_loop(m, &l, &is_busy, why, sizeof(why));

	if (r < 0)
		fprintf(stderr, "gpuxray top: %s\n", why);
	/* A thread waits for its answer: the end of this process ends it, and an own tracer too. */
	if (is_busy)
		*source = NULL;
	return r;
}

static int run(const struct top_options *o, struct top_model *m)
{
	const bool is_ascii = strcmp(nl_langinfo(CODESET), "UTF-8") != 0, is_printed = o->is_once || o->is_json;
	_cleanup_(view_source_freep) struct view_source *source = NULL;
	char why[WHY_MAX] = "";
	int r;

	if (!is_printed && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))) {
		fprintf(stderr, "gpuxray top: no terminal to draw on: use --once for a table, --json for programs\n");
		return -ENOTTY;
	}
	r = view_source_open(&o->source, &source, why, sizeof(why));
	if (r < 0) {
		fprintf(stderr, "gpuxray top: %s\n", *why ? why : strerror(-r));
		return r;
	}
	return is_printed ? print(m, o, source, is_ascii) : show(m, o, &source, is_ascii);
}

int cmd_top(int argc, char **argv)
{
	_cleanup_free_ char **libraries = calloc((size_t)argc + 1, sizeof(*libraries));
	_cleanup_free_ struct top_options *o = calloc(1, sizeof(*o));
	struct top_model m;
	int r;

	if (!libraries || !o)
		return 1;
	(void)setlocale(LC_CTYPE, "");
	o->libraries = libraries;
	o->source.libraries = libraries;
	o->source.pids = o->pids;
	top_model_init(&m);
	r = parse(argc, argv, o, &m);
	m.has_pids = o->source.pids_len > 0;
	if (r == 0)
		r = run(o, &m);
	else if (r > 0)
		r = 0;
	top_model_done(&m);
	return r < 0;
}
