/* SPDX-License-Identifier: MIT */
/* `gpuxray test`: do the rules say what they should, and nothing else? */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "replay/rule_test.h"

static const char help[] =
	"Usage: gpuxray test [-v] FILE...\n"
	"Plays to the rules what a test file says, on a clock of its own, and compares what fires with what it expects.\n"
	"Prints a line for each expectation (TAP), what is different below those that fail, and how many passed.\n\n"
	"  -v, --verbose  print every record at its time\n"
	"  -h, --help\n"
	"      --version\n\n"
	"Exit status: 0 all passed; 1 an expectation failed, or a file has errors, one `file:line: error: text` each.\n\n"
	"A test file, in the syntax of rule files; times are since its start:\n"
	"  rules = [ \"rules.conf\" ];        # files or directories, relative to this file; or as in a rule file:\n"
	"                                   # rules = ( { name = ...; } ); with defaults and lists\n"
	"  tick = \"1s\";                     # as often rules are evaluated; may be left out\n"
	"  devices = ( { index = 0; total = \"80GiB\"; used = \"10GiB\"; } );\n"
	"  processes = ( { pid = 10; comm = \"python3\"; unit = \"train.service\"; device = 0; } );\n"
	"  trace = (                        # or a recording: trace = \"night.trace.gz\"; stretch = 4.0;\n"
	"    { at = \"0s\"; alloc = \"1GiB\"; stack = \"load\"; name = \"weights\"; pid = 10; },\n"
	"    { from = \"1m\"; every = \"10s\"; times = 240; alloc = \"20MiB\"; stack = [ \"inner\", \"outer\" ]; pid = 10; },\n"
	"    { at = \"50m\"; free = \"weights\"; pid = 10; }, { at = \"55m\"; exit = true; pid = 10; }\n"
	"  );\n"
	"  expect = (\n"
	"    { at = \"20m\"; firing = [ ]; },\n"
	"    { at = \"36m\"; firing = [ \"leak-suspected\" ]; pid = 10; stack = \"inner\"; }\n"
	"  );\n"
	"Several tests: tests = ( { name = \"...\"; trace = ...; expect = ...; }, ... ); what they share stands beside it.\n\n"
	"An entry of trace does one thing, at = TIME or from, every and times or until:\n"
	"  alloc = SIZE     stack, name, class, device, call; free_after = TIME gives it back again (a sawtooth)\n"
	"  free = NAME      all that is live of that name, or of the stack of one frame; blocks = N: the oldest N\n"
	"  fail = SIZE      an allocation that was refused: stack, class, device, call, error\n"
	"  exit, exec, start = true\n"
	"  driver = SIZE    the driver counts so much for the process, until it says otherwise; older = true: it started\n"
	"                   before it was traced\n"
	"  used = SIZE      the driver says so much of the device is in use, by everybody\n"
	"  lost = N         so many events of the process were lost; its books are then rebuilt\n"
	"  condition = [ \"parent_gone\" ]  what is wrong with the process; [ ]: nothing any more\n"
	"pid may be left out where there is but one process. At one moment frees by free_after come first, all else in the\n"
	"order of the file.\n\n"
	"An expectation looks at the moment after all that happens at its time, and at these of the rules' states only that\n"
	"are of its pid, device, unit, user, cgroup, container and stack, where it names them (the stack is the one that the\n"
	"record names; one of its frames, or several in their order):\n"
	"  firing, pending = [ RULE... ]   exactly these rules are firing (pending) at that moment, and no others\n"
	"  fired, resolved = [ RULE... ]   exactly these have said so since the expectation before: also rules about single\n"
	"                                  events, which do not stay firing\n"
	"  value = SIZE | { above = SIZE; below = SIZE; }   of one of these, or else of what fires\n"
	"  records = N      so many were said since the start, by the rules that the expectation names, or by any\n"
	"  severity, message = REGEX       of the newest of those records\n";

/* Of several behind one dash; a long one leaves 0, or what it stands for where it takes no argument. */
static bool is_letter(int option)
{
	return option > 0 && option <= UCHAR_MAX && !strchr("vh", option);
}

/* 1 = done already; -EINVAL after saying why. */
static int parse(int argc, char **argv, struct rule_test_options *o)
{
	enum { VERSION = 256 };
	static const struct option options[] = {
		{ "verbose", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, VERSION },
		{},
	};
	int opt;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":vh", options, NULL)) >= 0) {
		switch (opt) {
		case 'v':
			o->is_verbose = true;
			break;
		case 'h':
			fputs(help, stdout);
			return 1;
		case VERSION:
			printf("gpuxray %s\n", GPUXRAY_VERSION);
			return 1;
		default:
			fprintf(stderr, "gpuxray test: no such option: \"%s\"; `gpuxray test --help` lists the options\n",
				is_letter(optopt) ? (char[]){ '-', (char)optopt, '\0' } : argv[optind - 1]);
			return -EINVAL;
		}
	}
	if (optind < argc)
		return 0;
	fprintf(stderr, "gpuxray test: no test file given; `gpuxray test --help` shows what one looks like\n");
	return -EINVAL;
}

int cmd_test(int argc, char **argv)
{
	struct rule_test_options o = { .out = stdout };
	struct rule_test_counts counts = {};
	bool is_bad = false;
	int r;

	r = parse(argc, argv, &o);
	if (r != 0)
		return r < 0;
	for (int i = optind; i < argc && r != -ENOMEM; i++) {
		_cleanup_errors_ struct errors errors = ERRORS_INIT;

		r = rule_test_run(argv[i], &o, &errors, &counts);
		is_bad = is_bad || r < 0;
		fflush(stdout);
		errors_print(&errors, stderr);
	}
	if (r == -ENOMEM)
		fprintf(stderr, "gpuxray test: out of memory\n");
	printf("1..%zu\n%zu passed, %zu failed\n", counts.passed + counts.failed, counts.passed, counts.failed);
	if (fflush(stdout) != 0) {
		fprintf(stderr, "gpuxray test: cannot write to standard output: %s\n", strerror(errno));
		is_bad = true;
	}
	return is_bad || counts.failed > 0;
}
