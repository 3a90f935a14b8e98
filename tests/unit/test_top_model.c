/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <errno.h>
#include <locale.h>

#include "base/clock.h"
#include "top/model.h"

#define MIB (UINT64_C(1) << 20)

static struct view_process *add(struct view *v, uint32_t pid, uint32_t ppid, const char *comm, uint64_t live)
{
	struct view_process *p = view_add_process(v);

	p->pid = pid;
	p->ppid = ppid;
	p->start_ticks = pid * UINT64_C(10);
	p->is_covered = p->is_exact = true;
	p->live_bytes = p->device_bytes = live;
	(void)view_set(&p->comm, comm);
	return p;
}

/* Four processes, of which one is not traced and none has all that can be known. */
static struct view *four(void)
{
	struct view *v = view_new();
	struct view_process *p;

	p = add(v, 100, 1, "train", 300 * MIB);
	(void)view_set(&p->user, "alice");
	(void)view_set(&p->unit, "train.service");
	(void)view_set(&p->cmdline, "python3 train.py --epochs 3");
	p->growth_bytes_per_min = 5 * (int64_t)MIB;
	p->allocs_per_min = 7;
	p = add(v, 200, 100, "worker", 100 * MIB);
	(void)view_set(&p->user, "bob");
	(void)view_set(&p->pod_name, "infer-0");
	(void)view_set(&p->pod_namespace, "prod");
	p->growth_bytes_per_min = -2 * (int64_t)MIB;
	p->firing = 2;
	p = add(v, 300, 1, "Idle", 100 * MIB);
	p->growth_bytes_per_min = 0;
	p = add(v, 400, 1, "old", 0);
	p->is_covered = false;
	p->driver_bytes = 200 * MIB;
	p->growth_bytes_per_min = VIEW_NONE_INT;
	return v;
}

static void expect_order(const struct top_model *m, const char *pids)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	for (size_t i = 0; i < m->rows_len; i++)
		strbuf_addf(&sb, "%s%u", i ? " " : "", m->rows[i].p->pid);
	EXPECT_STR(strbuf_str(&sb), pids);
}

static void sorted(struct top_model *m, enum top_sort sort, bool is_reversed, const char *pids)
{
	m->sort = sort;
	m->is_reversed = is_reversed;
	EXPECT_EQ(top_model_arrange(m), 0);
	expect_order(m, pids);
}

static void type(struct top_model *m, const char *text)
{
	for (; *text; text++)
		EXPECT_EQ(top_model_key(m, (unsigned char)*text), 0);
}

TEST(sorts)
{
	struct top_model m;

	top_model_init(&m);
	EXPECT_EQ(top_model_view(&m, four(), NSEC_PER_SEC), 0);
	/* By the driver's count where there are no books; equal ones by number. */
	expect_order(&m, "100 400 200 300");
	sorted(&m, TOP_BY_MEMORY, true, "200 300 400 100");
	sorted(&m, TOP_BY_DRIVER, false, "400 100 200 300");
	/* What is not known is last either way. */
	sorted(&m, TOP_BY_GROWTH, false, "100 300 200 400");
	sorted(&m, TOP_BY_GROWTH, true, "200 300 100 400");
	sorted(&m, TOP_BY_RATE, false, "100 400 200 300");
	sorted(&m, TOP_BY_RATE, true, "100 400 200 300");
	sorted(&m, TOP_BY_PID, false, "100 200 300 400");
	sorted(&m, TOP_BY_PID, true, "400 300 200 100");
	sorted(&m, TOP_BY_NAME, false, "300 400 100 200");
	sorted(&m, TOP_BY_NAME, true, "200 100 400 300");
	sorted(&m, TOP_BY_USER, false, "100 200 400 300");
	sorted(&m, TOP_BY_WHERE, false, "200 100 400 300");
	sorted(&m, TOP_BY_FIRING, false, "200 100 400 300");
	top_model_done(&m);
}

TEST(sort_names)
{
	enum top_sort sort;

	for (size_t i = 0; i < TOP_SORTS; i++) {
		EXPECT_EQ(top_sort_parse(top_sort_name((enum top_sort)i), &sort), 0);
		EXPECT_EQ(sort, i);
	}
	EXPECT_EQ(top_sort_parse("size", &sort), -EINVAL);
}

static void filtered(struct top_model *m, const char *filter, const char *pids)
{
	(void)snprintf(m->filter, sizeof(m->filter), "%s", filter);
	EXPECT_EQ(top_model_arrange(m), 0);
	expect_order(m, pids);
}

TEST(filters)
{
	struct top_model m;

	top_model_init(&m);
	EXPECT_EQ(top_model_view(&m, four(), NSEC_PER_SEC), 0);
	filtered(&m, "40", "400");
	filtered(&m, "ALICE", "100");
	filtered(&m, "train.serv", "100");
	filtered(&m, "infer", "200");
	filtered(&m, "prod", "200");
	filtered(&m, "--epochs", "100");
	filtered(&m, "idle", "300");
	filtered(&m, "nothing", "");
	filtered(&m, "", "100 400 200 300");
	m.user = "bob";
	filtered(&m, "", "200");
	top_model_done(&m);
}

TEST(commands)
{
	static const char *const texts[][2] = { { "python3 /srv/train.py", "python3 /srv/train.py" },
						{ "/usr/bin/python3 /srv/train.py", "python3 /srv/train.py" },
						{ "/init", "init" },
						{ "/", "/" },
						{ "/ a/b", "/ a/b" },
						{ "/usr/bin/ a/b", "bin/ a/b" },
						{ "//x", "x" },
						{ "", "comm" } };
	struct view *v = view_new();
	struct view_process *p = add(v, 1, 1, "comm", 1);

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		(void)view_set(&p->cmdline, texts[i][0]);
		EXPECT_STR(top_process_command(p), texts[i][1]);
	}
	view_free(v);
}

TEST(filter_is_typed)
{
	struct top_model m;

	(void)setlocale(LC_CTYPE, "C.UTF-8");
	top_model_init(&m);
	EXPECT_EQ(top_model_view(&m, four(), NSEC_PER_SEC), 0);
	type(&m, "/q\n");
	EXPECT(!m.wants_end);
	EXPECT(!m.is_typing);
	EXPECT_STR(m.filter, "q");
	type(&m, "/x");
	EXPECT_EQ(top_model_key(&m, 0xe9), 0);
	EXPECT_STR(m.filter, "qx\xc3\xa9");
	EXPECT_EQ(top_model_key(&m, TOP_KEY_ERASE), 0);
	EXPECT_STR(m.filter, "qx");
	EXPECT_EQ(top_model_key(&m, TOP_KEY_ESCAPE), 0);
	EXPECT_STR(m.filter, "");
	EXPECT(!m.is_typing);
	EXPECT_EQ(top_model_key(&m, TOP_KEY_ERASE), 0);
	type(&m, "/");
	for (size_t i = 0; i < 3 * TOP_FILTER_MAX; i++)
		type(&m, "a");
	EXPECT_EQ(strlen(m.filter), TOP_FILTER_MAX - 1);
	type(&m, "\n");
	expect_order(&m, "");
	EXPECT(!top_model_selected(&m));
	EXPECT_EQ(top_model_key(&m, TOP_KEY_ESCAPE), 0);
	expect_order(&m, "100 400 200 300");
	top_model_done(&m);
}

TEST(selection_stays_with_its_process)
{
	struct top_model m;
	struct view *v;

	top_model_init(&m);
	EXPECT_EQ(top_model_view(&m, four(), NSEC_PER_SEC), 0);
	/* Nobody has chosen: whoever is first. */
	sorted(&m, TOP_BY_PID, true, "400 300 200 100");
	EXPECT_EQ(top_model_selected(&m)->pid, 400);
	EXPECT_EQ(top_model_key(&m, TOP_KEY_DOWN), 0);
	EXPECT_EQ(top_model_selected(&m)->pid, 300);
	sorted(&m, TOP_BY_PID, false, "100 200 300 400");
	EXPECT_EQ(m.selected, 2);
	EXPECT_EQ(top_model_view(&m, four(), 2 * NSEC_PER_SEC), 0);
	EXPECT_EQ(top_model_selected(&m)->pid, 300);
	/* Its number is another process's now: who stands in its place is chosen instead. */
	v = four();
	v->processes[2].start_ticks++;
	v->processes[2].pid = 450;
	EXPECT_EQ(top_model_view(&m, v, 3 * NSEC_PER_SEC), 0);
	expect_order(&m, "100 200 400 450");
	EXPECT_EQ(top_model_selected(&m)->pid, 400);
	EXPECT_EQ(top_model_key(&m, TOP_KEY_END), 0);
	EXPECT_EQ(top_model_selected(&m)->pid, 450);
	EXPECT_EQ(top_model_view(&m, view_new(), 4 * NSEC_PER_SEC), 0);
	EXPECT(!top_model_selected(&m));
	EXPECT_EQ(top_model_key(&m, TOP_KEY_DOWN), 0);
	EXPECT_EQ(top_model_key(&m, TOP_KEY_ENTER), 0);
	top_model_done(&m);
}

/* "100 >200 >>300|": each with its depth, "|" where it is the last of its parent's. */
static void expect_tree(const struct top_model *m, const char *want)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	for (size_t i = 0; i < m->rows_len; i++) {
		strbuf_adds(&sb, i ? " " : "");
		for (unsigned d = 0; d < m->rows[i].depth; d++)
			strbuf_addc(&sb, '>');
		strbuf_addf(&sb, "%u%s", m->rows[i].p->pid, m->rows[i].depth && m->rows[i].is_last ? "|" : "");
	}
	EXPECT_STR(strbuf_str(&sb), want);
}

TEST(tree)
{
	struct top_model m;
	struct view *v = view_new();

	/* 1 is no process of the view: its children are roots. */
	add(v, 10, 1, "a", 10 * MIB);
	add(v, 20, 10, "b", 50 * MIB);
	add(v, 30, 10, "c", 60 * MIB);
	add(v, 40, 30, "d", 1 * MIB);
	add(v, 50, 999, "e", 40 * MIB);
	add(v, 60, VIEW_NONE_32, "f", 5 * MIB);
	/* Their parents are each other, and one is its own. */
	add(v, 70, 80, "g", 3 * MIB);
	add(v, 80, 70, "h", 2 * MIB);
	add(v, 90, 90, "i", 1 * MIB);
	top_model_init(&m);
	m.is_tree = true;
	EXPECT_EQ(top_model_view(&m, v, NSEC_PER_SEC), 0);
	expect_tree(&m, "50 10 >30 >>40| >20| 60 90 70 >80|");
	EXPECT(m.rows[3].rails & 2);
	filtered(&m, "d", "40");
	top_model_done(&m);
}

TEST(tree_that_is_deep)
{
	struct top_model m;
	struct view *v = view_new();

	for (uint32_t i = 1; i <= 2000; i++)
		add(v, i, i - 1, "x", i);
	top_model_init(&m);
	m.is_tree = true;
	EXPECT_EQ(top_model_view(&m, v, NSEC_PER_SEC), 0);
	EXPECT_EQ(m.rows_len, 2000);
	EXPECT_EQ(m.rows[1999].depth, 1999);
	EXPECT_EQ(m.rows[0].p->pid, 1);
	top_model_done(&m);
}

static void expect_history(const struct top_model *m, uint64_t now_ns, size_t columns, const char *want)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	ASSERT(m->rows_len == 1 && m->rows[0].history);
	top_history_draw(m->rows[0].history, now_ns / VIEW_RECENT_NS, columns, true, &sb);
	EXPECT_STR(strbuf_str(&sb), want);
}

static void look(struct top_model *m, uint64_t seconds, uint64_t live, const char *recent)
{
	struct view *v = view_new();
	struct view_process *p = add(v, 10, 1, "a", live);

	(void)view_set(&p->recent, recent);
	EXPECT_EQ(top_model_view(m, v, seconds * NSEC_PER_SEC), 0);
	m->now_ns = seconds * NSEC_PER_SEC;
}

TEST(history)
{
	struct top_model m;

	top_model_init(&m);
	look(&m, 100, 35, "10,20,30");
	expect_history(&m, m.now_ns, 6, "  -+%#");
	look(&m, 101, 70, NULL);
	/* The highest of its five seconds. */
	look(&m, 102, 40, NULL);
	expect_history(&m, m.now_ns, 6, "  .-=#");
	look(&m, 105, 0, NULL);
	expect_history(&m, m.now_ns, 6, " .-=#_");
	/* Nobody looked for a while. */
	look(&m, 120, 35, NULL);
	expect_history(&m, m.now_ns, 6, "=#_::+");
	top_model_done(&m);
}

TEST(history_is_filled_by_the_other_side)
{
	struct top_model m;

	top_model_init(&m);
	look(&m, 1000, 7, NULL);
	look(&m, 1020, 7, "1,7,0,7");
	expect_history(&m, m.now_ns, 5, "##_##");
	top_model_done(&m);
}

TEST(history_of_odd_texts)
{
	static const char *const texts[] = { "", ",", "x", "1,x", "1,,2", "99999999999999999999999", "18446744073709551615",
					     "1,2,", "-1" };
	struct top_model m;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

		top_model_init(&m);
		look(&m, i, 5, texts[i]);
		top_history_draw(m.rows[0].history, m.now_ns / VIEW_RECENT_NS, 200, true, &sb);
		EXPECT_EQ(sb.len, TOP_SLOTS);
		EXPECT_EQ(strbuf_str(&sb)[TOP_SLOTS - 1], '#');
		top_model_done(&m);
	}
}

TEST(history_of_the_gone_is_dropped)
{
	struct top_model m;

	top_model_init(&m);
	EXPECT_EQ(top_model_view(&m, four(), NSEC_PER_SEC), 0);
	EXPECT_EQ(m.histories.len, 4);
	EXPECT_EQ(top_model_view(&m, view_new(), 2 * NSEC_PER_SEC), 0);
	EXPECT_EQ(m.histories.len, 0);
	top_model_done(&m);
}

/* ---- sites */

static struct view_site *add_site(struct view_process *p, uint64_t id, uint64_t bytes, const char *stack)
{
	struct view_site *s = view_add_site(p);

	s->stack_id = id;
	s->bytes = bytes;
	s->blocks = 1;
	(void)view_set(&s->function, "cuMemAlloc_v2");
	(void)view_set(&s->stack, stack);
	p->sites_count++;
	return s;
}

TEST(query)
{
	struct top_model m;
	struct view_query q = {};
	uint32_t pid = 0;

	top_model_init(&m);
	top_model_query(&m, &q, &pid);
	EXPECT_EQ(q.sites_max, 0);
	EXPECT_EQ(top_model_view(&m, four(), NSEC_PER_SEC), 0);
	top_model_query(&m, &q, &pid);
	EXPECT_EQ(q.sites_max, 0);
	EXPECT_EQ(q.site_pids_len, 0);
	type(&m, "s");
	EXPECT(m.wants_look);
	top_model_query(&m, &q, &pid);
	EXPECT_EQ(q.sites_max, TOP_SITES_MAX);
	ASSERT(q.site_pids_len == 1);
	EXPECT_EQ(q.site_pids[0], 100);
	top_model_done(&m);
}

static void look_sites(struct top_model *m, uint64_t first, uint64_t second, bool has_third)
{
	struct view *v = view_new();
	struct view_process *p = add(v, 10, 1, "a", 1);

	if (first >= second)
		add_site(p, 7, first, "f (a.py:1)");
	add_site(p, 7, second, "f (a.py:2)");
	if (first < second)
		add_site(p, 7, first, "f (a.py:1)");
	if (has_third)
		add_site(p, 9, 5, "cuMemAlloc_v2+0x0 (libcuda.so.1)\n[3 more frames]\nh (/srv/b.py:3)\nmain (/srv/b.py:9)");
	EXPECT_EQ(top_model_view(m, v, NSEC_PER_SEC), 0);
}

TEST(sites_change)
{
	struct top_model m;

	top_model_init(&m);
	look_sites(&m, 200, 100, false);
	EXPECT_EQ(m.sites_len, 0);
	type(&m, "s");
	look_sites(&m, 200, 100, false);
	ASSERT(m.sites_len == 2);
	EXPECT_EQ(m.sites[0].growth, VIEW_NONE_INT);
	/* One id, two lines. The chosen one stays chosen. */
	type(&m, "j");
	EXPECT_EQ(m.site, 1);
	look_sites(&m, 150, 400, true);
	ASSERT(m.sites_len == 3);
	EXPECT_EQ(m.sites[0].growth, 300);
	EXPECT_EQ(m.sites[1].growth, -50);
	EXPECT_EQ(m.sites[2].growth, 5);
	EXPECT_EQ(m.site, 0);
	EXPECT_STR(top_site_frames(&m, &m.sites[2]), "h (/srv/b.py:3) < main (/srv/b.py:9)");
	EXPECT_EQ(top_model_key(&m, TOP_KEY_ENTER), 0);
	EXPECT_EQ(m.pane, TOP_PANE_STACK);
	/* Back by steps. */
	EXPECT_EQ(top_model_key(&m, TOP_KEY_ESCAPE), 0);
	EXPECT_EQ(m.pane, TOP_PANE_SITES);
	EXPECT_EQ(top_model_key(&m, TOP_KEY_ESCAPE), 0);
	EXPECT_EQ(m.pane, TOP_PANE_NONE);
	top_model_done(&m);
}

TEST(sites_of_another_process_are_asked_for)
{
	struct top_model m;

	top_model_init(&m);
	EXPECT_EQ(top_model_view(&m, four(), NSEC_PER_SEC), 0);
	type(&m, "s");
	EXPECT_EQ(top_model_view(&m, four(), NSEC_PER_SEC), 0);
	m.wants_look = false;
	type(&m, "\tj");
	EXPECT(m.wants_look);
	EXPECT(m.sites_of != top_process_key(top_model_selected(&m)));
	top_model_done(&m);
}

/* ---- keys */

TEST(keys)
{
	struct top_model m;

	top_model_init(&m);
	type(&m, "tr");
	EXPECT(m.is_tree && m.is_reversed);
	type(&m, "g");
	EXPECT(m.sort == TOP_BY_GROWTH && !m.is_reversed);
	type(&m, "m<>");
	EXPECT(m.sort == TOP_BY_MEMORY);
	type(&m, " ");
	EXPECT(m.is_paused && !m.wants_look);
	type(&m, " ");
	EXPECT(!m.is_paused && m.wants_look);
	type(&m, "hq");
	EXPECT(!m.has_help && !m.wants_end);
	type(&m, "?");
	EXPECT(m.has_help);
	EXPECT_EQ(top_model_key(&m, TOP_KEY_ESCAPE), 0);
	EXPECT(!m.has_help);
	type(&m, "q");
	EXPECT(m.wants_end);
	top_model_done(&m);
}

TEST(interval)
{
	struct top_model m;

	top_model_init(&m);
	EXPECT_EQ(m.interval_ns, 2 * NSEC_PER_SEC);
	type(&m, "+");
	EXPECT_EQ(m.interval_ns, 3 * NSEC_PER_SEC);
	type(&m, "--");
	EXPECT_EQ(m.interval_ns, NSEC_PER_SEC);
	type(&m, "----------");
	EXPECT_EQ(m.interval_ns, 100 * NSEC_PER_MSEC);
	type(&m, "++++++++++++++");
	EXPECT_EQ(m.interval_ns, 60 * NSEC_PER_SEC);
	m.interval_ns = 90 * NSEC_PER_SEC;
	type(&m, "+");
	EXPECT_EQ(m.interval_ns, 90 * NSEC_PER_SEC);
	type(&m, "-");
	EXPECT_EQ(m.interval_ns, 60 * NSEC_PER_SEC);
	top_model_done(&m);
}

/* All keys in all states: nothing but state changes. */
TEST(any_keys)
{
	uint64_t x = 1;
	struct top_model m;

	(void)setlocale(LC_CTYPE, "C.UTF-8");
	top_model_init(&m);
	for (unsigned i = 0; i < 20000; i++) {
		static const uint32_t special[] = { TOP_KEY_ENTER, TOP_KEY_ESCAPE, TOP_KEY_TAB, TOP_KEY_ERASE, 0, 21, 0xe9,
						    0x10ffff };
		uint32_t key;

		x = hash64(x);
		key = x % 3 == 0 ? TOP_KEY_UP + (x >> 8) % 9 :
		      x % 3 == 1 ? special[(x >> 8) % ARRAY_SIZE(special)] :
				   32 + (x >> 8) % 95;
		EXPECT_EQ(top_model_key(&m, key), 0);
		if (x % 50 == 0)
			EXPECT_EQ(top_model_view(&m, x % 100 ? four() : view_new(), i * NSEC_PER_SEC), 0);
		EXPECT(m.selected < m.rows_len || m.rows_len == 0);
		EXPECT(m.site < m.sites_len || m.sites_len == 0);
	}
	top_model_done(&m);
}

TEST_MAIN()
