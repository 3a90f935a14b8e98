/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/status_server.h"

static void usage(FILE *f)
{
	fprintf(f, "Usage: gpuxray status [OPTION]...\n"
		   "Asks the running daemon: processes, live bytes, pending and firing rules, losses.\n\n"
		   "  -j, --json         one JSON object, with all counters and limits\n"
		   "      --socket PATH  where the daemon answers (default /run/gpuxray/status.sock)\n"
		   "  -h, --help\n\n"
		   "Exit status: 0; 1 when no daemon answers.\n");
}

int cmd_status(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "socket", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{},
	};
	const char *path = status_socket_default();
	_cleanup_free_ char *answer = NULL;
	bool json = false;
	int c, r;

	while ((c = getopt_long(argc, argv, "jh", options, NULL)) >= 0)
		switch (c) {
		case 'j': json = true; break;
		case 's': path = optarg; break;
		case 'h': usage(stdout); return 0;
		default: return 1;
		}
	r = status_ask(path, json, &answer);
	if (r == -ENOENT || r == -ECONNREFUSED) {
		fprintf(stderr, "gpuxray: no daemon answers at %s: start one with `systemctl start gpuxray` or `gpuxray run`\n",
			path);
		return 1;
	}
	if (r < 0) {
		fprintf(stderr, "gpuxray: cannot ask the daemon at %s: %s%s\n", path, strerror(-r),
			r == -EACCES ? " (run as root)" : "");
		return 1;
	}
	fputs(answer, stdout);
	return 0;
}
