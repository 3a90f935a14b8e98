/* SPDX-License-Identifier: MIT */
/* `gpuxray doctor`: is this host ready? */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/doctor_facts.h"
#include "cmd/status_server.h"

#define NAME_WIDTH 14 /* of the longest name and a space */

static void usage(FILE *f)
{
	fprintf(f, "Usage: gpuxray doctor [OPTION]...\n"
		   "Is this host ready? Looks at the kernel, privileges, drivers, the journal, configuration and rules, and\n"
		   "loads the probes for real and sees one hit. No GPU is needed. One line each: ok, warn (works, with less\n"
		   "than it could) or fail, and what to do in the line below.\n\n"
		   "  -j, --json           one JSON object\n"
		   "      --library PATH   a further driver library to look at, repeatable\n"
		   "  -v, --verbose        the kernel's own words too, on standard error\n"
		   "  -h, --help\n\n"
		   "Exit status: 0 nothing fails, 1 otherwise.\n");
}

static void print_text(const struct doctor_report *r, struct strbuf *sb)
{
	for (size_t i = 0; i < r->len; i++) {
		const struct doctor_line *l = &r->lines[i];

		strbuf_addf(sb, "%-5s %-*s%s\n", doctor_result_name(l->result), NAME_WIDTH, l->name, l->text);
		if (l->cure)
			strbuf_addf(sb, "%*s-> %s\n", 6 + NAME_WIDTH, "", l->cure);
	}
	strbuf_addf(sb, "%s: %zu ok, %zu warn, %zu fail\n", r->counts[DOCTOR_FAIL] ? "not ready" : "ready",
		    r->counts[DOCTOR_OK], r->counts[DOCTOR_WARN], r->counts[DOCTOR_FAIL]);
}

static void print_json(const struct doctor_report *r, struct strbuf *sb)
{
	strbuf_addc(sb, '{');
	json_str(sb, "version", GPUXRAY_VERSION);
	json_bool(sb, "ready", r->counts[DOCTOR_FAIL] == 0);
	json_key(sb, "checks");
	strbuf_addc(sb, '[');
	for (size_t i = 0; i < r->len; i++) {
		const struct doctor_line *l = &r->lines[i];

		json_open(sb);
		json_str(sb, "name", l->name);
		json_str(sb, "result", doctor_result_name(l->result));
		json_str(sb, "text", l->text);
		json_str(sb, "cure", l->cure);
		strbuf_addc(sb, '}');
	}
	strbuf_adds(sb, "]}\n");
}

/* 1 = done already; -EINVAL after saying why. */
static int parse(int argc, char **argv, bool *ret_json, char **libraries, size_t *ret_len)
{
	enum { LIBRARY = 256 };
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "library", required_argument, NULL, LIBRARY },
		{ "verbose", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{},
	};
	int c;

	while ((c = getopt_long(argc, argv, "jvh", options, NULL)) >= 0)
		switch (c) {
		case 'j': *ret_json = true; break;
		case LIBRARY: libraries[(*ret_len)++] = optarg; break;
		case 'v': log_set_max(7); break;
		case 'h': usage(stdout); return 1;
		default: return -EINVAL; /* getopt has said why */
		}
	if (optind == argc)
		return 0;
	fprintf(stderr, "gpuxray doctor: takes no argument \"%s\"; `gpuxray doctor --help` lists the options\n", argv[optind]);
	return -EINVAL;
}

static int print(const struct doctor_report *r, bool json)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	if (json)
		print_json(r, &sb);
	else
		print_text(r, &sb);
	if (r->is_cut || sb.error < 0)
		return -ENOMEM;
	fputs(strbuf_str(&sb), stdout);
	return fflush(stdout) == 0 ? 0 : -errno;
}

int cmd_doctor(int argc, char **argv)
{
	/* No more options than words. */
	_cleanup_free_ char **libraries = calloc((size_t)argc + 1, sizeof(*libraries));
	_cleanup_(doctor_report_done) struct doctor_report report = {};
	_cleanup_(doctor_facts_done) struct doctor_facts facts = {};
	struct doctor_env env = { .root = "", .proc_root = "/proc", .sys_root = "/sys", .socket = status_socket_default(),
				  .libraries = libraries };
	bool json = false;
	int r = libraries ? parse(argc, argv, &json, libraries, &env.libraries_len) : -ENOMEM;

	if (r == -EINVAL || r > 0)
		return r < 0;
	if (r == 0)
		r = doctor_read(&env, &facts);
	if (r == 0) {
		doctor_check(&facts, &report);
		r = print(&report, json);
	}
	if (r < 0)
		fprintf(stderr, "gpuxray doctor: %s: nothing was found out\n", strerror(-r));
	return r < 0 || report.counts[DOCTOR_FAIL] > 0;
}
