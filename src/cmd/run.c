/* SPDX-License-Identifier: MIT */
/* `gpuxray run`: options and configuration, then the daemon. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "cmd/daemon.h"
#include "cmd/status_server.h"

#define LIST_MAX 256

struct list {
	char *items[LIST_MAX];
	size_t len;
};

struct arguments {
	const char *config, *sink, *socket, *record;
	struct list rules, libraries;
	uint32_t pids[LIST_MAX];
	size_t pids_len;
	bool no_multi, bare, record_identity;
};

static void usage(FILE *f)
{
	fprintf(f,
		"Usage: gpuxray run [OPTION]...\n"
		"Traces every process that uses a GPU, evaluates the rules and writes records, until SIGTERM or SIGINT.\n"
		"SIGHUP reloads the rules; bad ones are refused and the old ones stay.\n\n"
		"      --config FILE    configuration (default /etc/gpuxray/gpuxray.conf, which may be absent)\n"
		"      --rules PATH     rule file or directory, repeatable; replaces the search path\n"
		"                       (/etc/gpuxray/rules.d, /run/gpuxray/rules.d, /usr/lib/gpuxray/rules.d)\n"
		"      --sink SINK      journal, syslog, json or text (default: journal if its socket is there,\n"
		"                       else syslog, else json on standard output)\n"
		"      --library PATH   a further driver library to probe, repeatable\n"
		"  -p, --pid PID        trace only this process, repeatable\n"
		"      --socket PATH    where `gpuxray status` asks (default /run/gpuxray/status.sock)\n"
		"      --record FILE    write down all that the rules are told, as `gpuxray record` does, for `gpuxray replay`\n"
		"      --record-identity  ... with command lines, users and the uuids of devices\n"
		"      --perf-uprobes   do not use uprobe_multi links\n"
		"      --bare-probes    attach empty probes: the floor that benchmarks compare with\n"
		"  -q, --quiet          only warnings and errors of the daemon itself\n"
		"  -v, --verbose        debug lines too\n"
		"  -h, --help\n");
}

static int add(struct list *l, char *item, const char *option)
{
	if (l->len == LIST_MAX) {
		log_error("%s: at most %d of them", option, LIST_MAX);
		return -E2BIG;
	}
	l->items[l->len++] = item;
	return 0;
}

static int add_pid(struct arguments *a, const char *text)
{
	uint32_t pid;

	if (parse_u32(text, &pid) < 0 || pid == 0) {
		log_error("--pid %s: not a process id", text);
		return -EINVAL;
	}
	if (a->pids_len == LIST_MAX) {
		log_error("--pid: at most %d of them", LIST_MAX);
		return -E2BIG;
	}
	a->pids[a->pids_len++] = pid;
	return 0;
}

/* 1 = help was asked for and given. */
static int parse(int argc, char **argv, struct arguments *a)
{
	enum { CONFIG = 256, RULES, SINK, LIBRARY, SOCKET, PERF, BARE, RECORD, RECORD_IDENTITY };
	static const struct option options[] = {
		{ "config", required_argument, NULL, CONFIG }, { "rules", required_argument, NULL, RULES },
		{ "sink", required_argument, NULL, SINK },     { "library", required_argument, NULL, LIBRARY },
		{ "pid", required_argument, NULL, 'p' },       { "socket", required_argument, NULL, SOCKET },
		{ "perf-uprobes", no_argument, NULL, PERF },   { "bare-probes", no_argument, NULL, BARE },
		{ "record", required_argument, NULL, RECORD }, { "record-identity", no_argument, NULL, RECORD_IDENTITY },
		{ "quiet", no_argument, NULL, 'q' },	       { "verbose", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },	       {},
	};
	int c, r = 0;

	while (r == 0 && (c = getopt_long(argc, argv, "p:qvh", options, NULL)) >= 0)
		switch (c) {
		case CONFIG: a->config = optarg; break;
		case RULES: r = add(&a->rules, optarg, "--rules"); break;
		case SINK: a->sink = optarg; break;
		case LIBRARY: r = add(&a->libraries, optarg, "--library"); break;
		case 'p': r = add_pid(a, optarg); break;
		case SOCKET: a->socket = optarg; break;
		case PERF: a->no_multi = true; break;
		case BARE: a->bare = true; break;
		case RECORD: a->record = optarg; break;
		case RECORD_IDENTITY: a->record_identity = true; break;
		case 'q': log_set_max(4); break;
		case 'v': log_set_max(7); break;
		case 'h': usage(stdout); return 1;
		default: return -EINVAL; /* getopt has said why */
		}
	if (r == 0 && optind < argc) {
		log_error("run takes no argument \"%s\"; `gpuxray run --help` lists the options", argv[optind]);
		return -EINVAL;
	}
	if (r == 0 && a->record_identity && !a->record) {
		log_error("--record-identity: of which recording? Say --record FILE too");
		return -EINVAL;
	}
	return r;
}

int cmd_run(int argc, char **argv)
{
	_cleanup_(settings_done) struct settings settings = {};
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	struct arguments a = {};
	struct daemon_options o = { .settings = &settings };
	const char *sink;
	int r = parse(argc, argv, &a);

	if (r != 0)
		return r > 0 ? 0 : 1;
	r = settings_init(&settings);
	if (r == 0)
		r = settings_load("", a.config, &errors, &settings);
	if (r == 0)
		r = settings_add_libraries(&settings, a.libraries.items, a.libraries.len);
	errors_print(&errors, stderr);
	if (r < 0) {
		log_error("cannot start with this configuration%s", r == -ENOMEM ? ": out of memory" : "");
		return 1;
	}
	sink = a.sink ?: settings.sink;
	if (sink_from_name(sink, &o.sink) < 0) {
		log_error("--sink %s: must be journal, syslog, json, text or auto", sink);
		return 1;
	}
	o.rules = a.rules.items;
	o.rules_len = a.rules.len;
	o.pids = a.pids;
	o.pids_len = a.pids_len;
	o.socket = a.socket ?: status_socket_default();
	o.no_multi = a.no_multi;
	o.bare = a.bare;
	o.recording.path = a.record;
	o.recording.identity = a.record_identity;
	return daemon_run(&o) < 0 ? 1 : 0;
}
