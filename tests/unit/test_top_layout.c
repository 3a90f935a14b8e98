/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <locale.h>

#include "top/layout.h"
#include "top/table.h"
#include "top_make.h"

static void start(struct top_model *m)
{
	(void)setlocale(LC_CTYPE, "C.UTF-8");
	(void)setenv("TZ", "UTC", 1);
	top_model_init(m);
	EXPECT_EQ(top_model_view(m, make_view(), 100 * NSEC_PER_SEC), 0);
}

static void keys(struct top_model *m, const char *keys)
{
	for (; *keys; keys++)
		EXPECT_EQ(top_model_key(m, (unsigned char)*keys), 0);
}

static void expect_text(const struct grid *g, const char *want)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	grid_text(g, &sb);
	EXPECT_EQ(g->clashes, 0);
	if (strcmp(strbuf_str(&sb), want) == 0)
		return;
	test_failures++;
	for (char *save = NULL, *line = strtok_r(sb.buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		printf("# %s\n", line);
}

static void expect_screen(struct top_model *m, size_t width, size_t height, bool is_ascii, const char *want)
{
	_cleanup_grid_ struct grid g = {};

	ASSERT(grid_init(&g, width, height, is_ascii) == 0);
	top_layout(m, &g);
	expect_text(&g, want);
}

static bool has_text(struct top_model *m, size_t width, size_t height, const char *part)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	_cleanup_grid_ struct grid g = {};

	(void)grid_init(&g, width, height, false);
	top_layout(m, &g);
	grid_text(&g, &sb);
	return strstr(strbuf_str(&sb), part);
}

TEST(screen_60)
{
	struct top_model m;

	start(&m);
	expect_screen(&m, 60, 16, false,
		      "gpuxray top  daemon up 3h 12m  exact  gpu01         21:15:30\n"
		      "4 processes  50 GiB traced  ! 1 firing  1 not traced\n"
		      "DEVICE MEMORY       TRACED     OTHERS       FREE  BUSY  TEMP\n"
		      "GPU 0  █████▒░░     50 GiB     10 GiB     20 GiB  93 %  64 C\n"
		      "GPU 1  ▒░░░░░░░        0 B     10 GiB     70 GiB     -     -\n"
		      "!     PID USER       MEMORY  GROWTH/MIN COMMAND\n"
		      "!1   4711 alice    41.2 GiB    +1.3 GiB python3 train.py --…\n"
		      "   300000 -         *10 GiB           - old\n"
		      "     4720 alice      ~8 GiB    -300 MiB worker\n"
		      "       99 -         800 MiB           0 模型 e\xcc\x81 \\x1b[31m\n"
		      "\n\n\n\n\n"
		      "q quit  h help  / filter  > sort  t tree  Enter sites\n");
	top_model_done(&m);
}

TEST(screen_80_ascii)
{
	struct top_model m;

	start(&m);
	keys(&m, "t");
	expect_screen(&m, 80, 11, true,
		      "gpuxray top  daemon up 3h 12m  exact  gpu01                             21:15:30\n"
		      "4 processes  50 GiB traced  ! 1 firing  1 not traced  by memory, tree  every 2s\n"
		      "2 devices  traced 50 GiB  others 20 GiB  free 90 GiB\n"
		      "!     PID USER       MEMORY  GROWTH/MIN    SM NOTE       COMMAND\n"
		      "!1   4711 alice    41.2 GiB    +1.3 GiB  88 %            python3 train.py --ep..\n"
		      "     4720 alice      ~8 GiB    -300 MiB     - not exact  `- worker\n"
		      "   300000 -         *10 GiB           -     - not traced old\n"
		      "       99 -         800 MiB           0     -            ?? e? \\x1b[31m\n"
		      "\n\n"
		      "q quit  h help  / filter  > sort  t tree  Enter sites  i incidents  Space pause\n");
	top_model_done(&m);
}

TEST(sites_120)
{
	struct top_model m;
	struct view *v;

	start(&m);
	keys(&m, "s");
	v = make_view();
	make_site(&v->processes[0], 7, 40 * GIB,
		  "cuMemAlloc_v2+0x0 (libcuda.so.1)\n[3 more frames]\nAttention.forward (/srv/train.py:18)\n"
		  "main (/srv/train.py:44)");
	make_site(&v->processes[0], 8, 1 * GIB, NULL);
	EXPECT_EQ(top_model_view(&m, v, 101 * NSEC_PER_SEC), 0);
	expect_screen(&m, 120, 16, false,
		      "gpuxray top  daemon up 3h 12m  exact  gpu01                                                                     21:15:30\n"
		      "4 processes  50 GiB traced  ! 1 firing  1 not traced  by memory  every 2s\n"
		      "DEVICE MEMORY                   TRACED     OTHERS       FREE      TOTAL  BUSY MEM BUSY  TEMP      POWER NAME\n"
		      "GPU 0  █████████████▒▒░░░░░     50 GiB     10 GiB     20 GiB     80 GiB  93 %        -  64 C  312/700 W NVIDIA H200\n"
		      "GPU 1  ▒▒▒░░░░░░░░░░░░░░░░░        0 B     10 GiB     70 GiB     80 GiB     -        -     -          - -\n"
		      "!     PID USER  UNIT OR POD   GPU      MEMORY  GROWTH/MIN ALLOC/MIN    SM NOTE       HISTORY      COMMAND\n"
		      "!1   4711 alice train.service 0,1    41.2 GiB    +1.3 GiB    15000k  88 %            ▂▂▂▂▂▂▂▂▂▂██ python3 train.py --ep…\n"
		      "   300000 -     -             -       *10 GiB           -         -     - not traced            █ old\n"
		      "     4720 alice prod/infer-0  0        ~8 GiB    -300 MiB         0     - not exact             █ worker\n"
		      "       99 -     -             -       800 MiB           0         -     -                       █ 模型 e\xcc\x81 \\x1b[31m\n"
		      "── Sites of python3[4711]  2 hold memory\n"
		      "     BYTES   BLOCKS      CHANGE      AGE     IDLE CLASS    FUNCTION      INNERMOST FRAMES\n"
		      "    40 GiB        3           -   1m 30s       1s device   cuMemAlloc_v2 Attention.forward (/srv/train.py:18) < main (/…\n"
		      "     1 GiB        3           -   1m 30s       1s device   cuMemAlloc_v2 [no stack]\n"
		      "\n"
		      "q quit  h help  / filter  > sort  t tree  Enter sites  i incidents  Space pause  + - interval\n");
	EXPECT_EQ(top_model_key(&m, TOP_KEY_ENTER), 0);
	expect_screen(&m, 60, 14, false,
		      "gpuxray top  daemon up 3h 12m  exact  gpu01         21:15:30\n"
		      "4 processes  50 GiB traced  ! 1 firing  1 not traced\n"
		      "2 devices  traced 50 GiB  others 20 GiB  free 90 GiB\n"
		      "!     PID USER       MEMORY  GROWTH/MIN COMMAND\n"
		      "!1   4711 alice    41.2 GiB    +1.3 GiB python3 train.py --…\n"
		      "   300000 -         *10 GiB           - old\n"
		      "     4720 alice      ~8 GiB    -300 MiB worker\n"
		      "       99 -         800 MiB           0 模型 e\xcc\x81 \\x1b[31m\n"
		      "── Stack in python3[4711]  40 GiB, 3 blocks\n"
		      "cuMemAlloc_v2+0x0 (libcuda.so.1)\n"
		      "[3 more frames]\n"
		      "Attention.forward (/srv/train.py:18)\n"
		      "main (/srv/train.py:44)\n"
		      "q quit  h help  / filter  > sort  t tree  Enter sites\n");
	/* The stack scrolls, and comes back as the screen grows. */
	EXPECT(!has_text(&m, 60, 7, "main (/srv"));
	EXPECT_EQ(top_model_key(&m, TOP_KEY_END), 0);
	EXPECT(has_text(&m, 60, 7, "main (/srv") && !has_text(&m, 60, 7, "libcuda"));
	EXPECT(has_text(&m, 60, 30, "libcuda"));
	top_model_done(&m);
}

TEST(columns_come_with_the_width)
{
	struct top_model m;

	start(&m);
	EXPECT(!has_text(&m, 80, 24, " DRIVER"));
	EXPECT(has_text(&m, 200, 24,
			"!     PID USER  UNIT OR POD   GPU      MEMORY     DRIVER       HOST     DEVICE       PEAK  GROWTH/MIN ALLOC/MIN    SM  "
			"FAILED NOTE       HISTORY      COMMAND\n"));
	EXPECT(has_text(&m, 300, 24, "HISTORY                              COMMAND\n"));
	/* A class that nobody has of is no column, however wide. */
	EXPECT(!has_text(&m, 300, 24, "MANAGED"));
	top_model_done(&m);
}

TEST(plain_tells_all)
{
	_cleanup_grid_ struct grid g = {};
	struct top_model m;
	struct view *v;

	start(&m);
	ASSERT(top_layout_plain(&m, 80, false, &g) == 0);
	expect_text(&g, "gpuxray top  daemon up 3h 12m  exact  gpu01                             21:15:30\n"
			"4 processes  50 GiB traced  ! 1 firing  1 not traced  by memory\n"
			"DEVICE MEMORY                TRACED     OTHERS       FREE  BUSY  TEMP      POWER\n"
			"GPU 0  ███████████▒▒░░░░     50 GiB     10 GiB     20 GiB  93 %  64 C  312/700 W\n"
			"GPU 1  ▒▒░░░░░░░░░░░░░░░        0 B     10 GiB     70 GiB     -     -          -\n"
			"!     PID USER       MEMORY  GROWTH/MIN    SM NOTE       COMMAND\n"
			"!1   4711 alice    41.2 GiB    +1.3 GiB  88 %            python3 train.py --epo…\n"
			"   300000 -         *10 GiB           -     - not traced old\n"
			"     4720 alice      ~8 GiB    -300 MiB     - not exact  worker\n"
			"       99 -         800 MiB           0     -            模型 e\xcc\x81 \\x1b[31m\n"
			"── Incidents  1\n"
			"SEVERITY STATE     RULE          ABOUT                        VALUE        LIMIT\n"
			"critical firing    process-quota python3[4711]               41 GiB       40 GiB\n");
	v = view_new();
	for (uint32_t i = 1; i <= 500; i++)
		make_process(v, i, 1, "a", i);
	EXPECT_EQ(top_model_view(&m, v, NSEC_PER_SEC), 0);
	grid_done(&g);
	ASSERT(top_layout_plain(&m, 80, false, &g) == 0);
	EXPECT_EQ(g.height, 503);
	EXPECT_EQ(g.cells[502 * 80 + 4].chars[0], '1');
	top_model_done(&m);
}

TEST(nothing_there)
{
	struct top_model m;

	(void)setlocale(LC_CTYPE, "C.UTF-8");
	top_model_init(&m);
	EXPECT(has_text(&m, 80, 24, "No answer yet."));
	EXPECT_EQ(top_model_view(&m, view_new(), 1), 0);
	EXPECT(has_text(&m, 80, 24, "No process holds GPU memory."));
	EXPECT(has_text(&m, 80, 24, "own tracer"));
	EXPECT(has_text(&m, 80, 24, "NOT EXACT"));
	EXPECT_EQ(top_model_view(&m, make_view(), 1), 0);
	keys(&m, "/zzz\n");
	EXPECT(has_text(&m, 80, 24, "None of 4 processes matches \"zzz\"; Esc clears that."));
	EXPECT(has_text(&m, 80, 24, "0 of 4 processes  0 B traced"));
	keys(&m, "s");
	EXPECT(has_text(&m, 80, 24, "No process is chosen."));
	m.has_pids = true;
	EXPECT_EQ(top_model_view(&m, view_new(), 2), 0);
	EXPECT(has_text(&m, 80, 24, "None of the processes asked for holds GPU memory."));
	top_model_done(&m);
}

static void instance(struct view *v, const char *uuid, int64_t index, uint64_t used, uint64_t live)
{
	struct view_device *d;

	make_device(v, index, 40 * GIB, used, live);
	d = &v->devices[v->devices_len - 1];
	(void)view_set(&d->uuid, uuid);
}

/* What is held on instances is held on their card: once. */
TEST(instances)
{
	struct view *v = view_new();
	struct top_model m;

	(void)setlocale(LC_CTYPE, "C.UTF-8");
	top_model_init(&m);
	make_device(v, 0, 80 * GIB, 50 * GIB, 0);
	make_device(v, 1, 80 * GIB, 0, 0);
	instance(v, "MIG-01234567-aaaa-bbbb-cccc-0123456789ab", 0, 30 * GIB, 30 * GIB);
	instance(v, "MIG-89abcdef-aaaa-bbbb-cccc-0123456789ab", 0, 20 * GIB, 15 * GIB);
	EXPECT_EQ(top_model_view(&m, v, 1), 0);
	EXPECT(has_text(&m, 80, 12, "\n2 devices  traced 45 GiB  others 5 GiB  free 110 GiB\n"));
	EXPECT(has_text(&m, 80, 40, "     45 GiB      5 GiB     30 GiB "));
	EXPECT(has_text(&m, 80, 40, "\nMIG-01234567 "));
	EXPECT(has_text(&m, 80, 40, "\nMIG-89abcdef "));
	/* In a container that has the instances alone. */
	v = view_new();
	instance(v, "MIG-GPU-01234567-aaaa-bbbb-cccc-0123456789ab/7/0", 0, 30 * GIB, 30 * GIB);
	instance(v, "MIG-GPU-01234567-aaaa-bbbb-cccc-0123456789ab/9/0", 0, 20 * GIB, 15 * GIB);
	EXPECT_EQ(top_model_view(&m, v, 2), 0);
	EXPECT(has_text(&m, 80, 12, "\n2 devices  traced 45 GiB  others 5 GiB  free 30 GiB\n"));
	/* Old names begin alike. */
	EXPECT(has_text(&m, 80, 40, "\nMIG-..ab/7/0 "));
	EXPECT(has_text(&m, 80, 40, "\nMIG-..ab/9/0 "));
	/* Another vendor's card of that number is none of theirs. */
	make_device(v, 0, 80 * GIB, 0, 0);
	(void)view_set(&v->devices[2].uuid, "PCI-0000:03:00.0");
	EXPECT(has_text(&m, 80, 12, "\n3 devices  traced 45 GiB  others 5 GiB  free 110 GiB\n"));
	top_model_done(&m);
}

/* Of one that is not traced the daemon counts nothing: that is not 0. */
TEST(not_traced)
{
	struct view *v = view_new();
	struct view_process *p;
	struct top_model m;

	(void)setlocale(LC_CTYPE, "C.UTF-8");
	top_model_init(&m);
	p = make_process(v, 7, 1, "old", 0);
	p->is_covered = false;
	p->driver_bytes = 10 * GIB;
	p->growth_bytes_per_min = 0;
	p->allocs_per_min = 0;
	(void)view_set(&p->recent, "0,0,0,0");
	EXPECT_EQ(top_model_view(&m, v, 100 * NSEC_PER_SEC), 0);
	EXPECT(has_text(&m, 160, 12, "    7 -    -       *10 GiB     10 GiB          -           -         -     - not traced"
				     "            █ old\n"));
	keys(&m, "s");
	EXPECT(has_text(&m, 80, 24, "Sites of old[7]\n"));
	top_model_done(&m);
}

TEST(trouble)
{
	struct top_model m;

	start(&m);
	EXPECT_EQ(top_model_trouble(&m, "nobody answers"), 0);
	m.now_ns = 112 * NSEC_PER_SEC;
	EXPECT(has_text(&m, 60, 1, "! 12s old: nobody answers\n"));
	EXPECT(has_text(&m, 60, 24, "! 12s old: nobody answers\ngpuxray top"));
	EXPECT(has_text(&m, 60, 24, "4711 alice"));
	EXPECT_EQ(top_model_view(&m, make_view(), 113 * NSEC_PER_SEC), 0);
	EXPECT(!has_text(&m, 60, 24, "nobody"));
	top_model_done(&m);
}

TEST(pause_filter_and_help_are_shown)
{
	struct top_model m;

	start(&m);
	keys(&m, " ");
	m.now_ns += 65 * NSEC_PER_SEC;
	EXPECT(has_text(&m, 80, 24, "PAUSED  1m 5s old"));
	keys(&m, " /ali");
	EXPECT(has_text(&m, 80, 24, "Filter: ali_\n"));
	EXPECT(has_text(&m, 12, 24, "\nFilter: ali_\n"));
	EXPECT(has_text(&m, 11, 24, "\nFilter: li_\n"));
	keys(&m, "\n");
	EXPECT(has_text(&m, 100, 24, "2 of 4 processes"));
	EXPECT(has_text(&m, 100, 24, "filter \"ali\""));
	keys(&m, "h");
	EXPECT(has_text(&m, 80, 24, "\nq             quit\n"));
	EXPECT(!has_text(&m, 80, 10, "\nq             quit\n"));
	EXPECT_EQ(top_model_key(&m, TOP_KEY_PAGE_DOWN), 0);
	EXPECT(has_text(&m, 80, 10, "\nq             quit\n"));
	top_model_done(&m);
}

TEST(incidents)
{
	struct top_model m;

	start(&m);
	keys(&m, "i");
	EXPECT(has_text(&m, 100, 24,
			"SEVERITY STATE     RULE          ABOUT                                   VALUE        LIMIT      FOR\n"
			"critical firing    process-quota python3[4711]                          41 GiB       40 GiB   1m 15s\n"));
	EXPECT_EQ(top_model_view(&m, view_new(), 1), 0);
	EXPECT(has_text(&m, 100, 24, "Only the daemon has rules."));
	top_model_done(&m);
}

TEST(rows_scroll_with_the_choice)
{
	struct top_model m;
	struct view *v = view_new();

	top_model_init(&m);
	for (uint32_t i = 1; i <= 100; i++)
		make_process(v, 1000 + i, 1, "a", i);
	EXPECT_EQ(top_model_view(&m, v, 1), 0);
	EXPECT(has_text(&m, 80, 10, " 1100 "));
	EXPECT_EQ(top_model_key(&m, TOP_KEY_END), 0);
	EXPECT(has_text(&m, 80, 10, " 1001 "));
	EXPECT(!has_text(&m, 80, 10, " 1100 "));
	EXPECT_EQ(m.scroll, 100 - m.page);
	EXPECT_EQ(top_model_key(&m, TOP_KEY_PAGE_UP), 0);
	EXPECT(has_text(&m, 80, 10, " 1006 "));
	EXPECT(has_text(&m, 80, 200, " 1100 "));
	EXPECT_EQ(m.scroll, 0);
	top_model_done(&m);
}

TEST(numbers_that_overflow)
{
	struct top_model m;
	struct view *v = view_new();
	struct view_process *p = make_process(v, 4000000, 1, "a", UINT64_MAX - 1);

	p->growth_bytes_per_min = INT64_MIN + 1;
	p->allocs_per_min = p->fail_count = UINT64_MAX - 1;
	p->firing = UINT32_MAX;
	make_on_device(p, 0, UINT32_MAX - 1);
	for (int64_t i = 1; i < 70; i += 2)
		make_on_device(p, i, 0);
	make_device(v, 0, UINT64_MAX - 1, UINT64_MAX - 1, UINT64_MAX - 1);
	make_device(v, INT64_MAX, 1, 0, 5);
	make_device(v, VIEW_NONE_INT, 0, 0, 0);
	v->devices[0].milliwatts = v->devices[0].milliwatts_max = v->devices[0].celsius = UINT32_MAX - 1;
	top_model_init(&m);
	EXPECT_EQ(top_model_view(&m, v, UINT64_MAX), 0);
	EXPECT(has_text(&m, 200, 20, "!+ 4000000 -"));
	EXPECT(has_text(&m, 200, 20, "   16 EiB "));
	EXPECT(has_text(&m, 200, 20, "    -8 EiB "));
	EXPECT(has_text(&m, 200, 20, " 999 % "));
	EXPECT(has_text(&m, 200, 20, " 18446P "));
	top_model_done(&m);
}

TEST(devices_of_a_process)
{
	struct top_model m;
	struct view *v = view_new();
	struct view_process *p = make_process(v, 10, 1, "a", 1);

	for (int64_t i = 0; i < 8; i++) {
		if (i != 4)
			make_on_device(p, i, 0);
	}
	make_on_device(p, VIEW_NONE_INT, 0);
	/* Nothing is held there. */
	make_on_device(p, 4, 0);
	p->devices[8].live_bytes = 0;
	top_model_init(&m);
	EXPECT_EQ(top_model_view(&m, v, 1), 0);
	EXPECT(has_text(&m, 200, 20, " 0-3,5-7,? "));
	top_model_done(&m);
}

TEST(columns_fit)
{
	struct table_column c[] = { { "A", .min = 10, .rank = 1 },
				    { "B", .min = 5 },
				    { "C", .min = 5, .most = 20, .rank = 2 },
				    { "D", .min = 4, .rank = 9, .is_absent = true } };

	table_fit(c, 4, 30);
	EXPECT(c[0].width == 10 && c[1].width == 5 && c[2].width == 13 && c[3].width == 0);
	EXPECT(c[0].at == 0 && c[1].at == 11 && c[2].at == 17);
	table_fit(c, 4, 20);
	EXPECT(c[0].width == 10 && c[1].width == 5 && c[2].width == 0);
	table_fit(c, 4, 15);
	EXPECT(c[0].width == 0 && c[1].width == 5 && c[1].at == 0);
	table_fit(c, 4, 3);
	EXPECT(c[1].width == 3);
	table_fit(c, 4, 0);
	EXPECT(c[1].width == 0);
}

TEST(characters)
{
	_cleanup_grid_ struct grid g = {};

	(void)setlocale(LC_CTYPE, "C.UTF-8");
	ASSERT(grid_init(&g, 6, 7, false) == 0);
	EXPECT_EQ(grid_put(&g, 0, 0, 6, GRID_PLAIN, "模型模型"), 5);
	/* A wide one is not cut in two, a mark needs a character. */
	EXPECT_EQ(grid_put(&g, 1, 0, 5, GRID_PLAIN, "模型x"), 5);
	EXPECT_EQ(grid_put(&g, 2, 1, 1, GRID_PLAIN, "模"), 0);
	EXPECT_EQ(grid_put(&g, 3, 0, 6, GRID_PLAIN, "\xcc\x81" "e\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81"), 2);
	EXPECT_EQ(grid_put(&g, 4, 4, 9, GRID_PLAIN, "abc"), 2);
	EXPECT_EQ(grid_put(&g, 7, 0, 9, GRID_PLAIN, "abc"), 0);
	grid_put_right(&g, 5, 0, 6, GRID_PLAIN, "12");
	EXPECT_EQ(grid_put(&g, 6, 0, 6, GRID_PLAIN, "a\nb\xff"), 6);
	expect_text(&g, "模型…\n模型x\n\n?e\xcc\x81\xcc\x81\xcc\x81\xcc\x81\n    ab\n    12\na\\x0a…\n");
	EXPECT_EQ(g.cells[0].width, 2);
	EXPECT_EQ(g.cells[1].width, 0);
	(void)grid_put(&g, 0, 0, 1, GRID_PLAIN, "x");
	EXPECT_EQ(g.clashes, 1);
}

TEST_MAIN()
