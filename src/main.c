/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cmd/cmd.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *what;
} commands[] = {
	{ "run", cmd_run, "trace, evaluate rules, write records, until stopped" },
	{ "check", cmd_check, "validate configuration and rules" },
	{ "test", cmd_test, "run tests of rules on a clock of their own" },
	{ "doctor", cmd_doctor, "is this host ready? Each line says what to do" },
	{ "memtrace", cmd_memtrace, "watch what processes allocate and where, line by line" },
	{ "top", cmd_top, "a live table of devices and processes" },
	{ "mon", cmd_mon, "metrics for Prometheus" },
	{ "record", cmd_record, "write down all that the rules would be told" },
	{ "replay", cmd_replay, "what the rules would have said about a recording" },
	{ "status", cmd_status, "ask the running daemon" },
	{ "report", cmd_report, "what happened, from the journal: text, JSON, stacks, a page" },
};

static void usage(FILE *f)
{
	fprintf(f, "Usage: gpuxray COMMAND [OPTION]...\n"
		   "Sees every GPU memory allocation on this host and writes incidents to the journal.\n\nCommands:\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(f, "  %-8s %s\n", commands[i].name, commands[i].what);
	fprintf(f, "\n`gpuxray COMMAND --help` tells its options; `gpuxray --version` (-V) the version.\n"
		   "Records: journalctl -t gpuxray\n");
}

/* What is opened next would get the number of a stream that is closed, and be written to. */
static void hold_streams(void)
{
	int fd = open("/dev/null", O_RDWR);

	while (fd >= 0 && fd <= STDERR_FILENO)
		fd = dup(fd);
	if (fd > STDERR_FILENO)
		(void)close(fd);
}

int main(int argc, char **argv)
{
	hold_streams();
	if (argc < 2) {
		usage(stderr);
		return 1;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		usage(stdout);
		return 0;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		printf("gpuxray %s\n", GPUXRAY_VERSION);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	fprintf(stderr, "gpuxray: no command \"%s\"; `gpuxray --help` lists them\n", argv[1]);
	return 1;
}
