/* SPDX-License-Identifier: MIT */
#include "memtrace/text.h"
#include "memtrace_make.h"

struct told {
	struct strbuf sb;
	struct memtrace_text text;
	struct past past;
};

static void told_init(struct told *t, size_t width)
{
	*t = (struct told){ .sb = STRBUF_INIT };
	memtrace_text_init(&t->text, width, false, &t->sb);
}

static void told_done(struct told *t)
{
	memtrace_text_done(&t->text);
	past_done(&t->past);
	strbuf_done(&t->sb);
}

static void tell(struct told *t, const struct view *v)
{
	for (size_t i = 0; i < v->processes_len; i++) {
		const struct view_process *p = &v->processes[i];
		struct past_process *pp = past_get(&t->past, p);

		if (p->is_ended)
			memtrace_text_end(&t->text, v, p, pp, false);
		else
			memtrace_text_process(&t->text, v, p, pp);
		if (past_take(pp, p, v->totals.real_usec) < 0)
			abort();
	}
}

static size_t widest(const char *text)
{
	size_t most = 0;

	for (; *text; text += strcspn(text, "\n") + 1)
		most = MAX(most, strcspn(text, "\n"));
	return most;
}

static void fill_table(struct view *v)
{
	struct view_process *p = add(v, 4711, 1, 1, "python3");

	p->live_bytes = 41 * GIB + 205 * MIB;
	p->alloc_count = 12345678;
	p->free_count = 12345601;
	p->peak_bytes = 42 * GIB;
	p->host_bytes = 3 * MIB;
	p->fail_count = 2;
	p->driver_bytes = 43 * GIB;
	for (int64_t i = 0; i < 8; i++)
		on(p, 7 - i, i, GIB, VIEW_NONE);
	p = add(v, 4194304, 2, 1, "a-very-long-nam");
	set(&p->user, "systemd-network");
	p->live_bytes = 1023 * MIB + 900 * 1024;
	p->alloc_count = 123456789012;
	p->free_count = 1;
	on(p, 0, 0, MIB, VIEW_NONE);
	on(p, 2, 1, MIB, VIEW_NONE);
	on(p, 1, 2, 0, VIEW_NONE);
	p = add(v, 9, 3, 1, "c");
	set(&p->user, NULL);
	on(p, VIEW_NONE_INT, 1, MIB, VIEW_NONE);
	on(p, VIEW_NONE_INT, VIEW_NONE_INT, MIB, VIEW_NONE);
}

TEST(a_table_of_80_columns)
{
	_cleanup_(told_done) struct told t;
	_cleanup_(view_freep) struct view *v = new_view(NOW);

	told_init(&t, 80);
	fill_table(v);
	memtrace_text_header(&t.text);
	tell(&t, v);
	EXPECT_STR(strbuf_str(&t.sb),
		   "TIME         PID USER     GPU        INUSE     AL_CNT   FR_CNT COMM\n"
		   "20:00:05    4711 ann      0-7     41.2 GiB   12345678 12345601 python3\n"
		   "20:00:05 4194304 systemd… 0,2   1023.9 MiB   123456789012        1 a-very-long-…\n"
		   "20:00:05       9 ?        #1,?         0 B          0        0 c\n");
	strbuf_reset(&t.sb);
	t.text.digits = 1;
	tell(&t, v);
	EXPECT(strncmp(strbuf_str(&t.sb), "20:00:05.2    4711 ann ", 23) == 0);
	strbuf_reset(&t.sb);
	t.text.digits = 3;
	memtrace_text_header(&t.text);
	tell(&t, v);
	EXPECT(strncmp(strbuf_str(&t.sb), "TIME             PID USER", 25) == 0);
	EXPECT(strstr(strbuf_str(&t.sb), "\n20:00:05.250    4711 ann "));
}

TEST(more_columns)
{
	_cleanup_(told_done) struct told t;
	_cleanup_(view_freep) struct view *v = new_view(NOW), *next = new_view(NOW + USEC_PER_SEC);
	struct view_process *p;

	told_init(&t, TEXT_WIDTH_ALL);
	t.text.is_wide = true;
	fill_table(v);
	v->processes_len = 1;
	memtrace_text_header(&t.text);
	tell(&t, v);
	v->processes_len = 3;
	p = add(next, 4711, 1, 1, "python3");
	p->live_bytes = 41 * GIB + 105 * MIB;
	p->fail_count = 2;
	tell(&t, next);
	EXPECT_STR(strbuf_str(&t.sb),
		   "TIME         PID USER     GPU        INUSE     AL_CNT   FR_CNT       PEAK       HOST    MANAGED  FAILS     DRIVER"
		   "      GROWTH COMM\n"
		   "20:00:05    4711 ann      0-7     41.2 GiB   12345678 12345601     42 GiB      3 MiB        0 B      2     43 GiB"
		   "           - python3\n"
		   "20:00:06    4711 ann      -       41.1 GiB          0        0        0 B        0 B        0 B      2          -"
		   "    -100 MiB python3\n");
}

TEST(what_is_not_known_is_marked_and_told_once)
{
	_cleanup_(told_done) struct told t;
	_cleanup_(view_freep) struct view *v = new_view(NOW), *next = new_view(NOW + 6 * USEC_PER_SEC);
	_cleanup_(view_freep) struct view *last = new_view(NOW + 7 * USEC_PER_SEC);
	struct view_process *p;

	told_init(&t, 80);
	p = add(v, 10, 1, 1, "old");
	p->start_usec = TRACED - 86400 * USEC_PER_SEC;
	p->is_older = true;
	p->baseline_bytes = 512 * MIB;
	p->live_bytes = MIB;
	p = add(v, 11, 2, 1, "unknown");
	p->start_usec = TRACED - 1;
	p->is_older = true;
	p->baseline_bytes = VIEW_NONE;
	p = add(v, 12, 3, 1, "static");
	p->is_covered = false;
	p->driver_bytes = p->baseline_bytes = 2 * GIB;
	set(&p->uncovered_reason, "its driver is\nlinked statically");
	on(p, 3, VIEW_NONE_INT, 0, 2 * GIB);
	p = add(v, 13, 4, 1, "lossy");
	p->is_exact = false;
	p->lost_events = 12;
	p = add(v, 14, 5, 1, "quiet");
	p->is_covered = false;
	tell(&t, v);
	EXPECT_STR(strbuf_str(&t.sb),
		   "20:00:05      10 ann      -          1 MiB+         0        0 old\n"
		   "  10 old began 2026-11-29 19:00:05, before tracing: calls are counted since\n"
		   "    2026-11-30 19:00:05, and 512 MiB that the driver counted before is not in\n"
		   "    INUSE (+)\n"
		   "20:00:05      11 ann      -            0 B+         0        0 unknown\n"
		   "20:00:05      12 ann      3          2 GiB*         -        - static\n"
		   "  12 static has shown no call: INUSE is what the driver counts (*): its driver\n"
		   "    is\\x0alinked statically\n"
		   "20:00:05      13 ann      -            0 B~         0        0 lossy\n"
		   "  13 lossy: 12 events were lost, its numbers are not exact (~)\n"
		   "20:00:05      14 ann      -              -*         -        - quiet\n");
	EXPECT(widest(strbuf_str(&t.sb)) <= 80);

	/* The mark stays, the words do not; what has become known is told. */
	strbuf_reset(&t.sb);
	p = add(next, 10, 1, 1, "old");
	p->start_usec = TRACED - 1;
	p->is_older = true;
	p->baseline_bytes = 512 * MIB;
	p->fail_count = 1;
	p = add(next, 11, 2, 1, "unknown");
	p->start_usec = TRACED - 1;
	p->is_older = true;
	p->baseline_bytes = VIEW_NONE;
	p->is_exact = false;
	p = add(next, 12, 3, 1, "static");
	p->is_covered = false;
	p = add(next, 13, 4, 1, "lossy");
	p->lost_events = 12;
	p = add(next, 14, 5, 1, "quiet");
	p->is_covered = false;
	tell(&t, next);
	EXPECT_STR(strbuf_str(&t.sb),
		   "20:00:11      10 ann      -            0 B+         0        0 old\n"
		   "  10 old: 1 allocation failed since the last line\n"
		   "20:00:11      11 ann      -            0 B+~        0        0 unknown\n"
		   "  11 unknown began 2026-11-30 19:00:05, before tracing: calls are counted since\n"
		   "    2026-11-30 19:00:05, and what it held before is not in INUSE (+); how much\n"
		   "    that is the driver has not said\n"
		   "20:00:11      12 ann      -              -*         -        - static\n"
		   "20:00:11      13 ann      -            0 B          0        0 lossy\n"
		   "20:00:11      14 ann      -              -*         -        - quiet\n"
		   "  14 quiet has shown no call: INUSE is what the driver counts (*)\n");
	strbuf_reset(&t.sb);
	p = add(last, 11, 2, 1, "unknown");
	p->start_usec = TRACED - 1;
	p->is_older = true;
	p->baseline_bytes = 5 * MIB;
	tell(&t, last);
	tell(&t, last);
	EXPECT_STR(strbuf_str(&t.sb),
		   "20:00:12      11 ann      -            0 B+         0        0 unknown\n"
		   "  11 unknown began 2026-11-30 19:00:05, before tracing: calls are counted since\n"
		   "    2026-11-30 19:00:05, and 5 MiB that the driver counted before is not in\n"
		   "    INUSE (+)\n"
		   "20:00:12      11 ann      -            0 B+         0        0 unknown\n");
}

TEST(call_sites_and_how_they_grow)
{
	_cleanup_(told_done) struct told t;
	_cleanup_(view_freep) struct view *v = new_view(NOW), *next = new_view(NOW + USEC_PER_SEC);
	struct view_process *p;
	struct view_site *s;

	told_init(&t, 80);
	t.text.has_stacks = true;
	p = fill_sites(v, 64 * MIB, 16 * MIB);
	site(p, 9, 0, 0, "gone");
	tell(&t, v);
	EXPECT_STR(strbuf_str(&t.sb),
		   "20:00:05    4711 ann      -         80 MiB          9        6 train\n"
		   "    64 MiB in 2 blocks, device by cuMemAlloc_v2, age 1m 30s\n"
		   "      cuMemAlloc_v2+0x1a (libcuda.so.1)\n"
		   "      grow+0x41 (train) at train.c:40\n"
		   "      main+0x10 (train) at train.c:90\n"
		   "    16 MiB in 1 block, device by cuMemAlloc_v2, age 1s\n"
		   "      cuMemAlloc_v2+0x1a (libcuda.so.1)\n"
		   "      load (/srv/train.py:12)\n"
		   "      <module> (/srv/train.py:80)\n");
	strbuf_reset(&t.sb);
	p = fill_sites(next, 80 * MIB, 12 * MIB);
	s = site(p, 0, 4 * MIB, 2, NULL);
	s->age_ns = NSEC_PER_MSEC;
	set(&s->stack_info, "the process ended before it was read");
	s = site(p, 10, 0, 0, NULL);
	s->framework_bytes = MIB;
	s->age_ns = 5 * NSEC_PER_SEC;
	s = site(p, 0, MIB, 30, NULL);
	s->is_other = true;
	p->sites_count = 12;
	tell(&t, next);
	EXPECT_STR(strbuf_str(&t.sb),
		   "20:00:06    4711 ann      -         92 MiB          9        6 train\n"
		   "  ^ 80 MiB in 2 blocks (+16 MiB), device by cuMemAlloc_v2, age 1m 30s\n"
		   "      cuMemAlloc_v2+0x1a (libcuda.so.1)\n"
		   "      grow+0x41 (train) at train.c:40\n"
		   "      main+0x10 (train) at train.c:90\n"
		   "    12 MiB in 1 block (-4 MiB), device by cuMemAlloc_v2, age 1s\n"
		   "      cuMemAlloc_v2+0x1a (libcuda.so.1)\n"
		   "      load (/srv/train.py:12)\n"
		   "      <module> (/srv/train.py:80)\n"
		   "  ^ 4 MiB in 2 blocks (+4 MiB), device by cuMemAlloc_v2, age 0s\n"
		   "      [the process ended before it was read]\n"
		   "  ^ 1 MiB of a framework's blocks (+1 MiB), device by cuMemAlloc_v2, age 5s\n"
		   "      [no stack]\n"
		   "  ^ 1 MiB in 30 blocks (+1 MiB), all sites beyond the limit, age 1m 30s\n"
		   "    and 7 sites more\n");
}

TEST(an_end_and_what_was_not_freed)
{
	_cleanup_(told_done) struct told t;
	_cleanup_(view_freep) struct view *v = new_view(NOW);
	struct view_process *p = fill_sites(v, 64 * MIB, 16 * MIB);

	p->is_ended = true;
	p->fail_count = 1;
	p->host_bytes = 4096;
	set(&site(p, 9, 4096, 1, "deep(int)+0x1 (lib.so)\nlib.so+0x12\na_function_with_a_long_name (x)")->class_name, "host");
	site(p, 10, 100, 1, NULL);
	told_init(&t, 80);
	tell(&t, v);
	EXPECT_STR(strbuf_str(&t.sb),
		   "20:00:05    4711 ann      -         80 MiB          9        6 train\n"
		   "  4711 train has ended after 1m 5s: peak 100 MiB, 9 allocations, 6 frees, 1\n"
		   "    failed\n"
		   "  never freed: 80 MiB of device memory, 4 KiB of pinned host memory in 3 blocks\n"
		   "    64 MiB in 2 blocks: grow (train.c:40) < main (train.c:90)\n"
		   "    16 MiB in 1 block: load (/srv/train.py:12) < <module> (/srv/train.py:80)\n"
		   "    4 KiB in 1 block, host: deep(int) (lib.so) < lib.so+0x12 < a_function_with_…\n"
		   "    and 1 site more\n");
	strbuf_reset(&t.sb);
	t.text.has_stacks = true;
	p->sites_len = 1;
	p->sites_count = 1;
	p->is_exact = false;
	memtrace_text_end(&t.text, v, p, past_get(&t.past, p), true);
	p->sites_len = 4;
	EXPECT_STR(strbuf_str(&t.sb),
		   "20:00:05    4711 ann      -         80 MiB~         9        6 train\n"
		   "  4711 train has ended after 1m 5s: peak 100 MiB, 9 allocations, 6 frees, 1\n"
		   "    failed\n"
		   "  its end was not told: these are its figures of the last line\n"
		   "  never freed (not exact): 80 MiB of device memory, 4 KiB of pinned host memory\n"
		   "    in 3 blocks\n"
		   "    64 MiB in 2 blocks, device by cuMemAlloc_v2, age 1m 30s\n"
		   "      cuMemAlloc_v2+0x1a (libcuda.so.1)\n"
		   "      grow+0x41 (train) at train.c:40\n"
		   "      main+0x10 (train) at train.c:90\n");
}

TEST(an_end_with_nothing_left_and_one_that_nobody_saw)
{
	_cleanup_(told_done) struct told t;
	_cleanup_(view_freep) struct view *v = new_view(NOW);
	struct view_process *p = add(v, 1, 1, 1, "tidy");

	p->is_ended = true;
	p->alloc_count = p->free_count = 1;
	p = add(v, 2, 2, 1, "unseen");
	p->is_ended = true;
	p->is_covered = false;
	told_init(&t, 80);
	tell(&t, v);
	EXPECT_STR(strbuf_str(&t.sb), "20:00:05       1 ann      -            0 B          1        1 tidy\n"
				      "  1 tidy has ended after 1m 5s: peak 0 B, 1 allocation, 1 free\n"
				      "  it freed all that it allocated\n"
				      "20:00:05       2 ann      -              -*         -        - unseen\n"
				      "  2 unseen has shown no call: INUSE is what the driver counts (*)\n"
				      "  2 unseen has ended after 1m 5s\n"
				      "  what it did not free is not known: it has shown no call\n");
}

TEST(a_summary)
{
	_cleanup_(told_done) struct told t;
	_cleanup_(view_freep) struct view *v = new_view(NOW), *next = new_view(NOW + 605 * USEC_PER_SEC);
	struct view_process *p;

	told_init(&t, TEXT_WIDTH_ALL);
	p = add(v, 2, 9, 1, "later");
	p->live_bytes = 4 * MIB;
	p = add(v, 1, 1, 1, "train");
	p->live_bytes = 10 * MIB;
	p->alloc_count = 100;
	p->free_count = 90;
	p->fail_count = 3;
	tell(&t, v);
	p = add(next, 1, 1, 1, "train");
	p->live_bytes = 30 * MIB;
	p->peak_bytes = 50 * MIB;
	p->alloc_count = 150;
	p->free_count = 91;
	p->fail_count = 5;
	p->is_exact = false;
	tell(&t, next);
	strbuf_reset(&t.sb);
	memtrace_text_summaries(&t.text, &t.past);
	EXPECT_STR(strbuf_str(&t.sb),
		   "  1 train, looked at for 10m 5s: 30 MiB (+20 MiB), peak 50 MiB, 50 allocations, 1 free, 2 failed, not exact\n"
		   "  2 later, looked at for 0s: 4 MiB (0 B), peak 0 B, 0 allocations, 0 frees\n");
}

/* Of one that shows no call nothing is told as 0 that is not known, and what the driver counts is compared with that. */
TEST(no_calls)
{
	_cleanup_(told_done) struct told t;
	_cleanup_(view_freep) struct view *v = new_view(NOW), *next = new_view(NOW + USEC_PER_SEC),
					  *last = new_view(NOW + 2 * USEC_PER_SEC);
	struct view_process *p;

	told_init(&t, TEXT_WIDTH_ALL);
	t.text.is_wide = true;
	p = add(v, 1, 1, 1, "quiet");
	p->is_covered = false;
	p->driver_bytes = GIB;
	tell(&t, v);
	p = add(next, 1, 1, 1, "quiet");
	p->is_covered = false;
	p->driver_bytes = 3 * GIB;
	tell(&t, next);
	EXPECT_STR(strbuf_str(&t.sb),
		   "20:00:05       1 ann      -          1 GiB*         -        -          -          -          -      -"
		   "      1 GiB           - quiet\n"
		   "20:00:06       1 ann      -          3 GiB*         -        -          -          -          -      -"
		   "      3 GiB      +2 GiB quiet\n");
	strbuf_reset(&t.sb);
	memtrace_text_summaries(&t.text, &t.past);
	EXPECT_STR(strbuf_str(&t.sb), "  1 quiet, looked at for 1s: 3 GiB (+2 GiB), by the driver's count: it has shown no call\n");
	/* Its first call: what it holds by its calls is no less than before, but counted otherwise. */
	p = add(last, 1, 1, 1, "quiet");
	p->live_bytes = p->peak_bytes = MIB;
	p->alloc_count = 1;
	p->driver_bytes = 3 * GIB;
	strbuf_reset(&t.sb);
	tell(&t, last);
	EXPECT_STR(strbuf_str(&t.sb),
		   "20:00:07       1 ann      -          1 MiB          1        0      1 MiB        0 B        0 B      0"
		   "      3 GiB           - quiet\n");
	strbuf_reset(&t.sb);
	memtrace_text_summaries(&t.text, &t.past);
	EXPECT_STR(strbuf_str(&t.sb), "  1 quiet, looked at for 2s: 1 MiB, peak 1 MiB, 1 allocation, 0 frees\n");
}

/* A daemon that was restarted counts from 0 again. */
TEST(counts_that_begin_anew)
{
	_cleanup_(told_done) struct told t;
	_cleanup_(view_freep) struct view *v = new_view(NOW), *next = new_view(NOW + USEC_PER_SEC),
					  *last = new_view(NOW + 2 * USEC_PER_SEC);
	struct view_process *p;

	told_init(&t, TEXT_WIDTH_ALL);
	p = add(v, 1, 1, 1, "train");
	p->alloc_count = 100;
	p->free_count = 90;
	tell(&t, v);
	p = add(next, 1, 1, 1, "train");
	p->alloc_count = 3;
	p->fail_count = 1;
	tell(&t, next);
	p = add(last, 1, 1, 1, "train");
	p->alloc_count = 5;
	p->free_count = 2;
	p->fail_count = 1;
	tell(&t, last);
	strbuf_reset(&t.sb);
	memtrace_text_summaries(&t.text, &t.past);
	EXPECT_STR(strbuf_str(&t.sb), "  1 train, looked at for 2s: 0 B (0 B), peak 0 B, 5 allocations, 2 frees, 1 failed\n");
}

TEST(wide_on_a_terminal)
{
	_cleanup_(told_done) struct told t;
	_cleanup_(view_freep) struct view *v = new_view(NOW);

	told_init(&t, 80);
	t.text.is_wide = true;
	(void)add(v, 1, 1, 1, "train");
	memtrace_text_header(&t.text);
	tell(&t, v);
	EXPECT(strstr(strbuf_str(&t.sb), " GROWTH COMM\n"));
	EXPECT(strstr(strbuf_str(&t.sb), " - train\n"));
	EXPECT_EQ(t.text.pen.width, 80);
}

TEST(hostile_names)
{
	static const char bad[] = "\x1b]0;x\a\n\xff\\\xe2\x80\xae";
	_cleanup_(told_done) struct told t;
	_cleanup_(view_freep) struct view *v = new_view(NOW);
	struct view_process *p = fill_sites(v, MIB, MIB);
	size_t lines = 0;

	set(&p->comm, bad);
	set(&p->user, bad);
	set(&p->uncovered_reason, bad);
	set(&p->sites[0].stack, bad);
	set(&p->sites[0].stack_info, bad);
	set(&p->sites[0].function, bad);
	set(&p->sites[1].class_name, bad);
	set(&p->sites[1].stack, "\n\n");
	p->lost_events = 1;
	p->is_covered = false;
	told_init(&t, 80);
	t.text.has_stacks = true;
	tell(&t, v);
	t.text.has_stacks = false;
	p->is_ended = true;
	tell(&t, v);
	memtrace_text_summaries(&t.text, &t.past);
	for (const char *s = strbuf_str(&t.sb); *s; s++) {
		lines += *s == '\n';
		EXPECT(*s == '\n' || ((unsigned char)*s >= 0x20 && *s != 0x7f));
	}
	EXPECT(!strstr(strbuf_str(&t.sb), "\xe2\x80\xae"));
	EXPECT(strstr(strbuf_str(&t.sb), "4711 \\x1b]0;x\\x07\\x0a\\xff\\x5c\\xe2\\x80\\xae"));
	EXPECT(lines > 10 && lines < 60);
	/* What looks like an escape is none. */
	set(&p->comm, "a\\x41");
	p->is_ended = false;
	t.text.pen.width = TEXT_WIDTH_ALL;
	strbuf_reset(&t.sb);
	tell(&t, v);
	EXPECT(strstr(strbuf_str(&t.sb), " a\\x5cx41\n"));
}

TEST(narrow_and_without_utf8)
{
	_cleanup_(told_done) struct told t;
	_cleanup_(view_freep) struct view *v = new_view(NOW);

	told_init(&t, 60);
	t.text.options.is_ascii = true;
	t.text.has_stacks = true;
	fill_table(v);
	fill_sites(v, MIB, MIB);
	tell(&t, v);
	EXPECT(widest(strbuf_str(&t.sb)) <= 60);
	for (const char *s = strbuf_str(&t.sb); *s; s++)
		EXPECT((unsigned char)*s < 0x80);
}

TEST_MAIN()
