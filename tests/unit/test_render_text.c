/* SPDX-License-Identifier: MIT */
/* Run from the top of the source. With GOLDEN=write the files of tests/unit/golden are made anew. */
#include <fcntl.h>

#include "base/file.h"
#include "history/render_text_pen.h"
#include "render_check.h"

/* ---- golden files */

static void expect_golden(unsigned width)
{
	_cleanup_free_ char *text = render(&make_night, (struct text_options){ .width = width }), *want = NULL;
	const char *rewrite = getenv("GOLDEN");
	const char *got_line = text, *want_line;
	char path[64];
	size_t len;

	snprintf(path, sizeof(path), "tests/unit/golden/report_%u.txt", width);
	if (rewrite && strcmp(rewrite, "write") == 0) {
		_cleanup_fclose_ FILE *f = fopen(path, "w");

		ASSERT(f && fputs(text, f) >= 0);
		return;
	}
	ASSERT(file_read(AT_FDCWD, path, 1 << 20, &want, &len) == 0);
	if (strcmp(text, want) == 0)
		return;
	test_failures++;
	for (want_line = want; *got_line || *want_line;) {
		const size_t got_len = strcspn(got_line, "\n"), want_len = strcspn(want_line, "\n");

		if (got_len != want_len || memcmp(got_line, want_line, got_len) != 0) {
			printf("# %s differs: \"%.*s\", expected \"%.*s\"\n", path, (int)got_len, got_line, (int)want_len,
			       want_line);
			return;
		}
		got_line += got_len + (got_line[got_len] == '\n');
		want_line += want_len + (want_line[want_len] == '\n');
	}
}

TEST(as_it_has_always_been)
{
	expect_golden(60);
	expect_golden(80);
	expect_golden(120);
}

TEST(fits_every_width)
{
	make_world();
	check_all_ways(&make_night);
	check_all_ways(&make_nothing);
}

TEST(of_several_hosts)
{
	struct story s = make_night;
	_cleanup_free_ char *text = NULL;

	s.hosts_len = 2;
	check_all_ways(&s);
	text = render(&s, (struct text_options){ .width = 100 });
	EXPECT(strstr(text, "gpuxray report  gpu01, gpu02\n"));
	EXPECT(strstr(text, "gpu01: gpuxray was not running for 2h 10m\n"));
	EXPECT(strstr(text, "\n  gpu01 python3[4711]"));
}

TEST(colours_change_nothing_else)
{
	_cleanup_free_ char *plain = render(&make_night, (struct text_options){ .width = 80 });
	_cleanup_free_ char *coloured = render(&make_night, (struct text_options){ .width = 80, .has_colour = true });

	EXPECT(strcmp(plain, coloured) != 0);
	EXPECT(strip(coloured));
	EXPECT_STR(coloured, plain);
}

TEST(nothing_to_tell)
{
	_cleanup_free_ char *text = render(&make_nothing, (struct text_options){ .width = 80, .about = "process 4711" });

	EXPECT_STR(text, "gpuxray report  gpu01\nMon 2026-11-30 18:00:00 to Tue 2026-12-01 08:00:00 CET, 14h\n"
			 "Only what is about process 4711\n0 devices, 0 processes, no incidents.\n");
}

/* ---- hostile */

#define HOSTILE                                                                                                        \
	"\x1b[2J\x1b]0;x\a\r\b\x7f\xc2\x9b"                                                                             \
	"31m\xe2\x80\xae" "evil\xff\xfe\n\tnext e\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81 \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb"

TEST(hostile_text)
{
	static char many[4096]; /* the longest that a story has */
	static struct story_stack stack = { HOSTILE, HOSTILE "\n" HOSTILE "\n\n(((\n[99999999999999999999 more frames]\n[]\n(.py)", HOSTILE };
	struct story_host host = { HOSTILE, HOSTILE };
	struct story_device device = { .host = &host, .uuid = HOSTILE, .index = -1, .total_bytes = 0, .peak_bytes = UINT64_MAX - 1 };
	struct story_point points[] = { { FROM, 0, UINT64_MAX - 1, UINT64_MAX - 1 } };
	struct story_held held[] = { { &device, SERIES(points, UINT64_MAX - 1, FROM) }, { NULL, SERIES(points, UNKNOWN, 0) } };
	struct story_site sites[] = { { &stack, UINT64_MAX - 1, 1, 1 } };
	struct story_process p = { .host = &host, .comm = many, .exe = HOSTILE, .cmdline = many, .user = HOSTILE, .unit = many,
				   .container = HOSTILE, .pod = HOSTILE, .slurm_job = HOSTILE, .tag = HOSTILE, .held = held,
				   .held_len = 2, .peak_bytes = UINT64_MAX - 1, .live_bytes = UNKNOWN, .sites = sites, .sites_len = 1,
				   .is_ended = true, .incidents = SIZE_MAX, .lost_events = UINT64_MAX - 1 };
	struct story_incident i = { .host = &host, .rule = many, .severity = HOSTILE, .subject = HOSTILE, .message = many,
				    .caveat = many, .stack = &stack, .duration_sec = UINT64_MAX - 1, .begin_usec = UINT64_MAX };
	struct story_incident bare = { .begin_usec = FROM, .duration_sec = UNKNOWN, NO_NUMBERS, .state = STORY_SINGLE };
	struct story_holder holders[] = { { &p, UINT64_MAX - 1, 0 }, { &p, UINT64_MAX - 1, FROM } };
	struct story_failure f = { .usec = FROM, .last_usec = FROM, .count = SIZE_MAX, .host = &host, .process = &p,
				   .device = &device, .bytes = UINT64_MAX - 1, .function = many, .error = HOSTILE, .stack = &stack,
				   .device_bytes = UNKNOWN, .device_used_bytes = UNKNOWN, .live_bytes = UNKNOWN, .holders = holders,
				   .holders_len = 2, .other_bytes = UINT64_MAX - 1 };
	struct story_gap g = { .kind = GAP_SILENT, .host = &host, .from_usec = FROM, .until_usec = UINT64_MAX, .text = many };
	struct story_gap bare_gap = { .kind = GAP_BOOT };
	struct story s = {
		.from_usec = FROM, .until_usec = UNTIL, .records = 1,
		.hosts = (struct story_host *[]){ &host, &host }, .hosts_len = 2,
		.devices = (struct story_device *[]){ &device }, .devices_len = 1,
		.processes = (struct story_process *[]){ &p, &p }, .processes_len = 2,
		.incidents = (struct story_incident *[]){ &i, &bare }, .incidents_len = 2,
		.failures = (struct story_failure *[]){ &f }, .failures_len = 1,
		.gaps = (struct story_gap *[]){ &g, &bare_gap }, .gaps_len = 2,
	};

	for (size_t n = 0; n + sizeof(HOSTILE) < sizeof(many); n += sizeof(HOSTILE) - 1)
		memcpy(many + n, HOSTILE, sizeof(HOSTILE));
	check_all_ways(&s);
	memset(many, 'x', sizeof(many) - 1); /* no blank to wrap at */
	check_all_ways(&s);
	for (size_t n = 0; n + 3 < sizeof(many); n += 3)
		memcpy(many + n, "模", 4);
	check_all_ways(&s);
}

/* ---- parts */

static struct pen pen_of(struct strbuf *sb, struct text_options *o, const struct story *s)
{
	struct pen p;

	make_world();
	pen_init(&p, s, o, sb);
	return p;
}

#define BEGIN_PEN                                                                                                      \
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;                                                               \
	struct text_options o = { .width = 60 };                                                                       \
	_cleanup_(pen_done) struct pen p = pen_of(&sb, &o, &make_night)

TEST(cells_are_cut_by_columns)
{
	BEGIN_PEN;

	pen_cell(&p, "abcdef", 6);
	pen_cell(&p, "|", 1);
	pen_cell(&p, "abcdefg", 6);
	pen_cell(&p, "|", 1);
	pen_cell(&p, "模型服务", 6);
	pen_go(&p, 20);
	pen_cell(&p, "|", 1);
	pen_cell(&p, "e\xcc\x81""clair", 6);
	pen_cell(&p, "|", 1);
	pen_right(&p, "模", 4);
	pen_end(&p);
	EXPECT_STR(strbuf_str(&sb), "abcdef|abcde…|模型… |e\xcc\x81""clair|  模\n");
}

TEST(marks_take_no_room_and_are_few)
{
	BEGIN_PEN;

	pen_cell(&p, "e\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81x", 2);
	pen_end(&p);
	EXPECT_STR(strbuf_str(&sb), "e\xcc\x81\xcc\x81\xcc\x81\xcc\x81x\n");
}

TEST(words_are_wrapped)
{
	BEGIN_PEN;

	p.width = 20;
	pen_go(&p, 2);
	pen_wrap(&p, "one two three four five six", 4, 9);
	pen_end(&p);
	pen_wrap(&p, "abcdefghijklmnopqrstuvwxyz", 4, 9);
	pen_end(&p);
	pen_go(&p, 10);
	pen_wrap(&p, "abcdefghijklmnop qrstuvwxyz", 2, 2);
	pen_end(&p);
	EXPECT_STR(strbuf_str(&sb), "  one two three four\n    five six\n"
				    "abcdefghijklmnopqrst\n    uvwxyz\n"
				    "\n  abcdefghijklmnop…\n");
}

TEST(numbers_keep_their_units)
{
	BEGIN_PEN;

	p.width = 20;
	pen_wrap(&p, "in use: at most 12 GiB at Tue 02:30:00", 0, 9);
	pen_end(&p);
	pen_wrap(&p, "123456789 123456789 GiB", 0, 9); /* no better place */
	pen_end(&p);
	EXPECT_STR(strbuf_str(&sb), "in use: at most\n12 GiB at\nTue 02:30:00\n123456789\n123456789 GiB\n");
}

TEST(a_frame_that_is_too_long_keeps_its_file)
{
	BEGIN_PEN;

	p.width = 24;
	pen_add_tail(&p, "a::very::long::name+0x1 (lib.so)", 23);
	pen_end(&p);
	pen_add_tail(&p, "short+0x1 (lib.so)", 9);
	pen_end(&p);
	pen_add_tail(&p, "f (a/very/long/path/of/it.py:1)", 1);
	pen_end(&p);
	EXPECT_STR(strbuf_str(&sb), "a::very::long:… (lib.so)\nshort+0x1 (lib.so)\nf (a/very/long/path/of/…\n");
}

static void expect_stack(const char *text, size_t lines, const char *want)
{
	const struct story_stack stack = { "00", text, NULL };
	BEGIN_PEN;

	pen_stack(&p, &stack, 0, lines);
	EXPECT_STR(strbuf_str(&sb), want);
}

TEST(the_telling_lines_of_a_stack)
{
	expect_stack("a\nb\nc", 3, "a\nb\nc\n");
	expect_stack("a\nb\nc\nd", 3, "a\nb\n[2 more frames]\n");
	expect_stack("a+0x1 (libcuda.so.1)\nb+0x1 (libcudart.so.12)\nc+0x1 (prog)\nd+0x1 (prog)", 3,
		     "a+0x1 (libcuda.so.1)\n[2 more frames]\nd+0x1 (prog)\n");
	/* Python's, those of an allocator last. */
	expect_stack("a\nb\nalloc (torch/cuda/memory.py:1)\nf (x.py:2)\nc\nd", 4, "a\n[2 more frames]\nf (x.py:2)\n[2 more frames]\n");
	expect_stack("a\nb\nalloc (torch/cuda/memory.py:1)\nf (x.py:2)\nc\nd", 5,
		     "a\nb\nalloc (torch/cuda/memory.py:1)\nf (x.py:2)\n[2 more frames]\n");
	/* Native ones: what is next to Python. */
	expect_stack("a\nb\nb\nc\nf (x.py:2)\nd", 5, "a\n[2 more frames]\nc\nf (x.py:2)\nd\n");
	/* The user's own file before those of libraries, however far out; the innermost of Python besides. */
	expect_stack("a\nb\nf (t/x.py:2)\ng (t/y.py:3)\nh (t/y.py:4)\nstep (/srv/train.py:5)\nmain (/srv/train.py:6)", 4,
		     "a\n[4 more frames]\nstep (/srv/train.py:5)\nmain (/srv/train.py:6)\n");
	expect_stack("a\nb\nf (t/x.py:2)\ng (t/y.py:3)\nh (t/y.py:4)\nstep (/srv/train.py:5)\nmain (/srv/train.py:6)", 6,
		     "a\nb\nf (t/x.py:2)\n[2 more frames]\nstep (/srv/train.py:5)\nmain (/srv/train.py:6)\n");
	expect_stack("a\nb\nf (t/x.py:2)\ng (<frozen runpy>:1)\nh (t/x.py:2)\n<module> (<stdin>:1)\nd", 4,
		     "a\n[4 more frames]\n<module> (<stdin>:1)\nd\n");
	/* Without Python the program's own. */
	expect_stack("a+0x1 (libcuda.so.1)\nb+0x1 (libm.so)\nc+0x1 (libm.so)\nd+0x1 (prog)\ne+0x1 (prog)", 4,
		     "a+0x1 (libcuda.so.1)\n[2 more frames]\nd+0x1 (prog)\ne+0x1 (prog)\n");
	/* What was missing before counts. */
	expect_stack("a\n[7 more frames]\nf (x.py:2)\nb\nc", 4, "a\n[7 more frames]\nf (x.py:2)\n[2 more frames]\n");
	expect_stack("a\nb\nf (x.py:2)\n[7 more frames]\nc", 4, "a\nb\nf (x.py:2)\n[8 more frames]\n");
	expect_stack("[3 frames]", 4, "[3 more frames]\n");
	expect_stack(NULL, 4, "[no record tells its frames]\n");
	expect_stack("", 4, "");
}

static void expect_moment(uint64_t span, uint64_t usec, const char *want)
{
	struct story s = { .from_usec = FROM, .until_usec = FROM + span };
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct text_options o = {};
	_cleanup_(pen_done) struct pen p = pen_of(&sb, &o, &s);
	char buf[PEN_MOMENT_MAX];

	EXPECT_STR(pen_moment(&p, buf, usec), want);
	EXPECT(strlen(buf) == p.moment_width || usec < FROM);
}

TEST(moments_are_as_short_as_can_be)
{
	expect_moment(6 * HOUR, FROM + HOUR, "19:00:00");
	expect_moment(7 * HOUR, FROM + HOUR, "Mon 19:00:00");
	expect_moment(6 * 24 * HOUR, FROM + 31 * HOUR, "Wed 01:00:00");
	expect_moment(7 * 24 * HOUR, FROM + 31 * HOUR, "02 Dec 01:00");
	expect_moment(400 * 24 * HOUR, FROM + 31 * HOUR, "2026-12-02 01:00");
	expect_moment(6 * HOUR, FROM - 48 * HOUR, "2026-11-28 18:00");
	expect_moment(6 * HOUR, 0, "?");
}

TEST(long_lists_are_cut)
{
	static struct story_incident list[100];
	static struct story_incident *incidents[100];
	struct story s = make_nothing;
	_cleanup_free_ char *text = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		list[i] = make_once;
		list[i].begin_usec = FROM + i * MINUTE;
		incidents[i] = &list[i];
	}
	list[90].severity = "critical";
	list[95].state = STORY_FIRING;
	s.incidents = incidents;
	s.incidents_len = ARRAY_SIZE(list);
	text = render(&s, (struct text_options){ .width = 80 });
	EXPECT(strstr(text, "  Mon 19:30:00  critical  nb[500] allocated 300 MiB at once (rule huge)\n  [76 more]\n"));
	EXPECT(strstr(text, "\nIncidents  what still fires first\n  firing    notice    huge: nb[500], since Mon 19:35:00\n"));
	EXPECT(strstr(text, "\n  once      critical  huge: nb[500], Mon 19:30:00\n"));
	EXPECT(strstr(text, "\n  [80 more]\n"));
}

TEST(an_incident_without_a_known_beginning)
{
	struct story_incident older = make_quota;
	struct story s = make_night;
	_cleanup_free_ char *firing = NULL, *resolved = NULL;

	older.begin_usec = FROM - HOUR;
	older.is_older = true;
	older.duration_sec = UNKNOWN;
	s.incidents = (struct story_incident *[]){ &older };
	s.incidents_len = 1;
	firing = render(&s, (struct text_options){ .width = 300 });
	EXPECT(strstr(firing, ", since before 2026-11-30 17:00\n"));
	older.state = STORY_RESOLVED;
	older.end_usec = FROM + HOUR;
	resolved = render(&s, (struct text_options){ .width = 300 });
	EXPECT(strstr(resolved, ", before 2026-11-30 17:00 to Mon 19:00:00\n"));
	if (test_failures)
		printf("# %s\n", firing);
}

/* The rule's record of it is not told once more. */
TEST(a_failure_is_told_once)
{
	struct story_incident oom = { .host = &make_host, .rule = "oom", .event = "alloc_failure", .severity = "error",
				      .process = &make_train, .begin_usec = FROM + 8 * HOUR + 5 * 1000000, .state = STORY_SINGLE,
				      .duration_sec = UNKNOWN, NO_NUMBERS, .message = "could not allocate" };
	struct story_incident far_away = oom;
	struct story_incident *incidents[] = { &oom, &far_away };
	struct story s = make_night;
	_cleanup_free_ char *text = NULL;

	far_away.begin_usec += HOUR;
	far_away.message = "another time";
	s.incidents = incidents;
	s.incidents_len = 2;
	text = render(&s, (struct text_options){ .width = 80 });
	EXPECT(!strstr(text, "could not allocate"));
	EXPECT(strstr(text, "error     another time\n"));
	EXPECT(strstr(text, ", 1 incident, 3 failed allocations, "));
}

/* Room enough explains a refusal for want of memory alone. */
TEST(room_that_was_there)
{
	static const char *const hint = "40 GiB were free: ";
	struct story_failure f = make_odd_failure;
	struct story s = make_nothing;
	_cleanup_free_ char *memory = NULL, *argument = NULL, *large = NULL;

	s.failures = (struct story_failure *[]){ &f };
	s.failures_len = 1;
	f.error = "2 hipErrorOutOfMemory";
	memory = render(&s, (struct text_options){ .width = 80 });
	EXPECT(strstr(memory, hint));
	/* Within one second: when it ended is no news. */
	EXPECT(f.count == 1 && !strstr(memory, " times"));
	f.count = 2;
	f.error = "1 CUDA_ERROR_INVALID_VALUE";
	argument = render(&s, (struct text_options){ .width = 80 });
	EXPECT(!strstr(argument, hint));
	EXPECT(strstr(argument, "; 2 times\n"));
	f.error = NULL;
	f.bytes = 41 * GIB;
	large = render(&s, (struct text_options){ .width = 80 });
	EXPECT(!strstr(large, "were free"));
}

TEST_MAIN()
