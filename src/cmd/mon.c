/* SPDX-License-Identifier: MIT */
/* `gpuxray mon`: metrics, of the daemon or of a tracer of its own. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/privilege.h"
#include "base/textfile.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "http/server.h"
#include "view/metrics.h"
#include "view/source.h"

#define LIST_MAX 256
#define INTERVAL_MAX_SEC 86400
#define PROCESSES_MAX 1000000

struct arguments {
	const char *listen, *textfile;
	uint32_t interval_sec;
	bool is_once;
	struct metrics_options metrics;
	struct view_source_options source;
	char *libraries[LIST_MAX];
};

struct mon {
	const struct arguments *args;
	struct view_source *source;
	sd_event *event; /* NULL = once */
	bool is_said;	 /* that the file cannot be written, and why */
	bool is_written; /* the file is ours */
};

static void usage(FILE *f)
{
	fprintf(f,
		"Usage: gpuxray mon [OPTION]...\n"
		"Metrics for Prometheus, until SIGINT, SIGTERM or SIGHUP: of the running daemon, else of a tracer of its own.\n\n"
		"  -l, --listen ADDR:PORT  where to answer, path /metrics (default localhost:2112); :PORT is all addresses,\n"
		"                          port 0 a free one, unix:/PATH a socket\n"
		"      --once              print them and end\n"
		"      --openmetrics       ... as OpenMetrics; scrapes say themselves which format they want\n"
		"      --textfile FILE     write a file for node_exporter's textfile collector, and do not listen unless\n"
		"                          --listen is given too; with --once a single time\n"
		"  -i, --interval SEC      ... every so many seconds (default 15)\n"
		"      --processes N       processes with series of their own, those that hold most (default 1000)\n"
		"      --args              a label with the command line, which may be long and tell much\n"
		"      --socket PATH       where the daemon answers (default /run/gpuxray/status.sock)\n"
		"      --own               do not ask the daemon\n"
		"      --library PATH      for an own tracer: a further driver library to probe, repeatable\n"
		"      --config FILE       for an own tracer: configuration (default /etc/gpuxray/gpuxray.conf)\n"
		"  -v, --verbose           what an own tracer says of itself too, not why it failed alone\n"
		"  -h, --help\n\n"
		"Exit status: 0; 1 when it cannot start, or with --once when there is nothing to tell.\n");
}

static int bad(const char *option, const char *text, const char *what)
{
	log_error("%s %s: %s", option, text, what);
	return -EINVAL;
}

static int set_number(const char *option, const char *text, uint32_t min, uint32_t max, uint32_t *ret)
{
	char what[64];

	if (parse_u32(text, ret) == 0 && *ret >= min && *ret <= max)
		return 0;
	(void)snprintf(what, sizeof(what), "must be a number from %u to %u", min, max);
	return bad(option, text, what);
}

static int set_listen(struct arguments *a, const char *text)
{
	char error[HTTP_ADDRESS_ERROR_MAX];
	struct http_address ignored;

	a->listen = text;
	return http_address_parse(text, &ignored, error) < 0 ? bad("--listen", text, error) : 0;
}

static int add_library(struct arguments *a, char *path)
{
	if (a->source.libraries_len == LIST_MAX)
		return bad("--library", path, "too many of them");
	a->libraries[a->source.libraries_len++] = path;
	return 0;
}

static int complete(struct arguments *a)
{
	if (a->textfile && !textfile_is_read(a->textfile))
		log_warning("--textfile %s: node_exporter reads files whose names end in \".prom\" alone", a->textfile);
	if (a->is_once && a->listen)
		return bad("--once", "--listen", "to print and to listen are two things: leave one out");
	if (a->textfile && a->metrics.format != METRICS_PROMETHEUS)
		return bad("--openmetrics", "--textfile", "node_exporter reads the other format alone: leave one out");
	if (!a->is_once && !a->textfile && !a->listen)
		a->listen = HTTP_LISTEN_DEFAULT;
	return 0;
}

/* 1 = help was asked for and given. */
static int parse(int argc, char **argv, struct arguments *a)
{
	enum { ONCE = 256, OPENMETRICS, TEXTFILE, PROCESSES, ARGS, SOCKET, OWN, LIBRARY, CONFIG };
	static const struct option options[] = {
		{ "listen", required_argument, NULL, 'l' },	  { "once", no_argument, NULL, ONCE },
		{ "openmetrics", no_argument, NULL, OPENMETRICS }, { "textfile", required_argument, NULL, TEXTFILE },
		{ "interval", required_argument, NULL, 'i' },	  { "processes", required_argument, NULL, PROCESSES },
		{ "args", no_argument, NULL, ARGS },		  { "socket", required_argument, NULL, SOCKET },
		{ "own", no_argument, NULL, OWN },		  { "library", required_argument, NULL, LIBRARY },
		{ "config", required_argument, NULL, CONFIG },	  { "verbose", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },		  {},
	};
	int c, r = 0;

	while (r == 0 && (c = getopt_long(argc, argv, "l:i:vh", options, NULL)) >= 0)
		switch (c) {
		case 'l': r = set_listen(a, optarg); break;
		case ONCE: a->is_once = true; break;
		case OPENMETRICS: a->metrics.format = METRICS_OPENMETRICS; break;
		case TEXTFILE: a->textfile = optarg; break;
		case 'i': r = set_number("--interval", optarg, 1, INTERVAL_MAX_SEC, &a->interval_sec); break;
		case PROCESSES: r = set_number("--processes", optarg, 0, PROCESSES_MAX, &a->metrics.processes_max); break;
		case ARGS: a->metrics.has_args = true; break;
		case SOCKET: a->source.socket = optarg; break;
		case OWN: a->source.kind = VIEW_SOURCE_OWN; break;
		case LIBRARY: r = add_library(a, optarg); break;
		case CONFIG: a->source.config = optarg; break;
		case 'v': a->source.is_verbose = true; break;
		case 'h': usage(stdout); return 1;
		default: return -EINVAL; /* getopt has said why */
		}
	if (r == 0 && optind < argc)
		return bad("mon takes no argument", argv[optind], "the address is given by --listen");
	return r < 0 ? r : complete(a);
}

/* ---- what is told */

/* A daemon is found again when it is back; without its own tracer there is nothing to wait for. */
static int ask(struct mon *m, struct view **ret, char *reterr, size_t size)
{
	const struct view_query q = {};
	int r = view_source_ask(m->source, &q, ret, reterr, size);

	if (r == -ENOTCONN && !view_source_is_daemon(m->source) && m->event) {
		log_error("%s", reterr);
		m->is_said = true;
		(void)sd_event_exit(m->event, r);
	}
	return r;
}

static int render(enum metrics_format format, struct strbuf *sb, char *reterr, size_t size, void *userdata)
{
	struct mon *m = userdata;
	struct metrics_options o = m->args->metrics;
	_cleanup_(view_freep) struct view *v = NULL;
	int r = ask(m, &v, reterr, size);

	if (r < 0)
		return r;
	o.format = format;
	metrics_write(v, &o, sb);
	if (sb->error)
		(void)snprintf(reterr, size, "out of memory");
	return sb->error;
}

/* One of figures that are old would tell for ever who holds memory. */
static void remove_textfile(struct mon *m)
{
	if (m->is_written)
		(void)unlink(m->args->textfile);
	m->is_written = false;
}

/* Errors are told once. */
static int write_textfile(struct mon *m)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	const char *path = m->args->textfile;
	char why[512];
	int r = render(METRICS_PROMETHEUS, &sb, why, sizeof(why), m);

	if (r < 0) {
		remove_textfile(m);
		if (!m->is_said)
			log_error("%s", why);
	} else {
		r = textfile_write(path, sb.buf, sb.len);
		if (r < 0 && !m->is_said)
			log_error("cannot write %s: %s: %s", path, strerror(-r), textfile_cure(r));
		m->is_written = m->is_written || r == 0;
	}
	if (r == 0 && m->is_said)
		log_notice("%s is written again", path);
	m->is_said = r < 0;
	return r;
}

/* ---- once, or until it is stopped */

static int once(struct mon *m)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	char why[512];
	int r;

	if (m->args->textfile)
		return write_textfile(m);
	r = render(m->args->metrics.format, &sb, why, sizeof(why), m);
	if (r < 0) {
		log_error("%s", why);
		return r;
	}
	r = file_write_all(STDOUT_FILENO, sb.buf, sb.len);
	if (r < 0)
		log_error("cannot write to standard output: %s", strerror(-r));
	return r;
}

static int on_timer(sd_event_source *s, uint64_t usec, void *userdata)
{
	struct mon *m = userdata;

	(void)write_textfile(m);
	(void)sd_event_source_set_time_relative(s, m->args->interval_sec * USEC_PER_SEC);
	return sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);
}

static int start_http(struct mon *m, struct http_server **ret)
{
	_cleanup_strbuf_ struct strbuf where = STRBUF_INIT;
	char why[512];
	int r = http_server_new(m->event, m->args->listen, render, m, ret, why, sizeof(why));

	if (r < 0) {
		log_error("%s", why);
		return r;
	}
	http_server_where(*ret, &where);
	log_notice("metrics of %s at %s", view_source_is_daemon(m->source) ? "the daemon" : "an own tracer", strbuf_str(&where));
	return 0;
}

/* As nohup has it: one that is blocked would arrive all the same. */
static bool is_ignored(int sig)
{
	struct sigaction now;

	return sigaction(sig, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

/* What ends it; that the terminal goes does too. 0 or -errno. */
static int add_signals(struct mon *m)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP };
	sigset_t mask;
	int r = 0;

	sigemptyset(&mask);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (signals[i] != SIGHUP || !is_ignored(SIGHUP))
			sigaddset(&mask, signals[i]);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(signals); i++)
		if (sigismember(&mask, signals[i]))
			r = sd_event_add_signal(m->event, NULL, signals[i], NULL, NULL);
	return r;
}

/* All that is left is to ask, and to answer strangers: the tracer, where it is our own, has been started. Files and a socket
 * that are to be removed may lie in another user's folder. */
static int give_up(const struct arguments *a)
{
	const bool has_files = a->textfile || (a->listen && strncmp(a->listen, "unix:", 5) == 0);
	int r = privilege_keep(has_files ? PRIVILEGE(CAP_DAC_OVERRIDE) : 0);

	privilege_seal();
	if (r < 0)
		log_error("capabilities that are not needed could not be given up: %s", strerror(-r));
	return r;
}

static int serve(struct mon *m)
{
	_cleanup_(http_server_freep) struct http_server *http = NULL;
	int r = add_signals(m);

	(void)signal(SIGPIPE, SIG_IGN);
	if (r >= 0 && m->args->listen) {
		r = start_http(m, &http);
		if (r < 0)
			return r;
	}
	if (r >= 0 && m->args->textfile)
		r = sd_event_add_time_relative(m->event, NULL, CLOCK_MONOTONIC, 0, 100000, on_timer, m);
	if (r < 0)
		log_error("cannot set up the event loop: %s", strerror(-r));
	else
		r = give_up(m->args);
	if (r >= 0)
		r = sd_event_loop(m->event);
	remove_textfile(m);
	return r;
}

int cmd_mon(int argc, char **argv)
{
	struct arguments a = { .interval_sec = 15, .metrics.processes_max = METRICS_PROCESSES_MAX };
	struct mon m = { .args = &a };
	char why[512];
	int r;

	log_set_max(5);
	r = parse(argc, argv, &a);
	if (r != 0)
		return r > 0 ? 0 : 1;
	a.source.libraries = a.libraries;
	r = view_source_open(&a.source, &m.source, why, sizeof(why));
	if (r < 0) {
		log_error("%s", why);
		return 1;
	}
	if (a.is_once) {
		r = once(&m);
	} else {
		r = sd_event_new(&m.event);
		if (r >= 0)
			r = serve(&m);
		sd_event_unref(m.event);
	}
	view_source_free(m.source);
	return r < 0 ? 1 : 0;
}
