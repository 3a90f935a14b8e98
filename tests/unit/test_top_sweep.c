/* SPDX-License-Identifier: MIT */
/* Screens of random views in every size: all of it in its place, whatever there is to tell. */
#include "test.h"

#include <locale.h>

#include "base/map64.h"
#include "top/layout.h"
#include "top_make.h"

#define WIDTHS 320
#define HEIGHTS 70

static uint64_t seed = 1;

static uint64_t draw(uint64_t below)
{
	seed = hash64(seed + 1);
	return (seed >> 11) % below;
}

static uint64_t any_bytes(void)
{
	switch (draw(8)) {
	case 0: return 0;
	case 1: return VIEW_NONE;
	case 2: return VIEW_NONE - 1;
	default: return draw(UINT64_C(1) << draw(60));
	}
}

static void any_text(char **ret)
{
	static const char *const texts[] = {
		NULL, "", "a", "train.service", "模型模型模型模型模型模型模型模型模型模型模型模型", "e\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81",
		"\x1b[2J\x1b]0;x\a", "\xff\xfe\xc0", "a\\x2db", "\xe2\x80\xae" "backwards", "\n\n\n",
		"a name that is long enough to be cut on every screen that a person would look at, and on one that nobody would",
	};

	(void)view_set(ret, texts[draw(ARRAY_SIZE(texts))]);
}

static void any_process(struct view *v)
{
	struct view_process *p = make_process(v, (uint32_t)draw(draw(2) ? 20 : 4194304), (uint32_t)draw(20), NULL, 0);
	uint64_t *const bytes[] = { &p->live_bytes, &p->device_bytes, &p->host_bytes, &p->managed_bytes, &p->array_bytes,
				    &p->physical_bytes, &p->async_bytes, &p->graph_bytes, &p->imported_bytes,
				    &p->framework_bytes, &p->peak_bytes, &p->driver_bytes, &p->allocs_per_min, &p->fail_count };
	char **const texts[] = { &p->comm,     &p->cmdline,	  &p->user,	 &p->unit,
				 &p->pod_name, &p->pod_namespace, &p->container, &p->conditions };

	for (size_t i = 0; i < ARRAY_SIZE(bytes); i++)
		*bytes[i] = draw(3) ? 0 : any_bytes();
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		any_text(texts[i]);
	p->start_ticks = draw(5);
	p->is_covered = draw(4);
	p->is_exact = draw(4);
	p->is_ended = !draw(6);
	p->firing = (uint32_t)(draw(3) ? 0 : draw(UINT32_MAX));
	p->growth_bytes_per_min = draw(3) ? (int64_t)any_bytes() : VIEW_NONE_INT;
	(void)view_set(&p->recent, draw(2) ? "1,2,3,4,5,6,7,8,9,10,11,12" : NULL);
	for (uint64_t n = draw(4); n > 0; n--)
		make_on_device(p, draw(3) ? (int64_t)draw(100) : VIEW_NONE_INT, (uint32_t)draw(200));
	p->sites_count = draw(3);
	for (uint64_t n = draw(4); n > 0; n--) {
		struct view_site *s = make_site(p, draw(3), any_bytes(), draw(2) ? "f (a.c)\ng (b.so)\n模型 (c.py:1)" : NULL);

		s->blocks = any_bytes();
		s->age_ns = any_bytes();
		any_text(&s->function);
		any_text(&s->stack_info);
		s->is_other = !draw(5);
	}
}

static struct view *any_view(void)
{
	struct view *v = view_new();

	for (uint64_t n = draw(4) * draw(4); n > 0; n--)
		make_device(v, draw(4) ? (int64_t)draw(8) : VIEW_NONE_INT, any_bytes(), any_bytes(), any_bytes());
	for (uint64_t n = draw(5) * draw(8); n > 0; n--)
		any_process(v);
	for (uint64_t n = draw(3); n > 0; n--)
		make_incident(v, draw(2) ? "firing" : NULL, draw(2) ? "a rule" : NULL, (uint32_t)draw(20));
	v->totals.is_daemon = draw(2);
	v->totals.is_exact = draw(2);
	v->totals.firing = draw(3);
	v->totals.lost_events = any_bytes();
	v->totals.uptime_ns = any_bytes();
	v->totals.real_usec = any_bytes();
	any_text(&v->totals.host);
	return v;
}

/* The width of a line as a reader takes it, from its bytes. */
static size_t width_of(const char *line, size_t len)
{
	wchar_t *wide = calloc(len + 1, sizeof(*wide));
	char *copy = strndup(line, len);
	size_t columns = 0;

	if (wide && copy && mbstowcs(wide, copy, len + 1) != (size_t)-1) {
		for (size_t i = 0; wide[i]; i++) {
			const int w = wcwidth(wide[i]);

			columns += w < 0 ? 100000 : (size_t)w;
		}
	} else {
		columns = 100000;
	}
	free(wide);
	free(copy);
	return columns;
}

static bool check(const struct grid *g)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	size_t rows = 0;

	if (g->clashes > 0 || g->error)
		return false;
	for (size_t row = 0; row < g->height; row++) {
		size_t columns = 0;

		for (size_t i = 0; i < g->width; i++)
			columns += g->cells[row * g->width + i].width;
		if (columns != g->width)
			return false;
	}
	grid_text(g, &sb);
	for (const char *s = strbuf_str(&sb); *s; s += strcspn(s, "\n") + 1, rows++) {
		if (width_of(s, strcspn(s, "\n")) > g->width)
			return false;
	}
	return rows == (g->width > 0 ? g->height : 0) || g->width == 0;
}

static void one(struct top_model *m, size_t width, size_t height, bool is_ascii)
{
	_cleanup_grid_ struct grid g = {};

	EXPECT_EQ(grid_init(&g, width, height, is_ascii), 0);
	top_layout(m, &g);
	if (check(&g))
		return;
	printf("# %zu columns, %zu rows, pane %d\n", width, height, (int)m->pane);
	test_failures++;
}

static void change(struct top_model *m)
{
	static const uint32_t keys[] = { 's', 'i', 't', 'h', '/', ' ', 'x', '>', 'r', TOP_KEY_ENTER, TOP_KEY_ESCAPE, TOP_KEY_DOWN,
					 TOP_KEY_END, TOP_KEY_TAB, TOP_KEY_PAGE_DOWN, TOP_KEY_UP, TOP_KEY_ERASE };

	for (uint64_t n = draw(8); n > 0; n--)
		EXPECT_EQ(top_model_key(m, keys[draw(ARRAY_SIZE(keys))]), 0);
	m->wants_end = false;
}

TEST(all_sizes)
{
	struct top_model m;
	uint64_t now = 1;

	(void)setlocale(LC_CTYPE, "C.UTF-8");
	(void)setenv("TZ", "UTC", 1);
	top_model_init(&m);
	/* Every width with some heights, every height with some widths; the steps have no common factor with any table. */
	for (size_t i = 0; i <= WIDTHS * 2; i++) {
		if (i % 3 == 0)
			EXPECT_EQ(top_model_view(&m, any_view(), now += draw(20) * NSEC_PER_SEC), 0);
		if (draw(20) == 0)
			EXPECT_EQ(top_model_trouble(&m, "模型 does not answer\n"), 0);
		change(&m);
		m.now_ns += NSEC_PER_SEC;
		one(&m, i % (WIDTHS + 1), draw(HEIGHTS + 1), draw(4) == 0);
		one(&m, draw(WIDTHS + 1), i % (HEIGHTS + 1), draw(4) == 0);
	}
	top_model_done(&m);
}

TEST(all_small_sizes)
{
	struct top_model m;

	(void)setlocale(LC_CTYPE, "C.UTF-8");
	top_model_init(&m);
	for (size_t width = 0; width <= 24; width++) {
		for (size_t height = 0; height <= 12; height++) {
			EXPECT_EQ(top_model_view(&m, any_view(), (width + 1) * NSEC_PER_SEC), 0);
			change(&m);
			one(&m, width, height, height % 2);
		}
	}
	top_model_done(&m);
}

TEST(plain_in_all_widths)
{
	struct top_model m;

	(void)setlocale(LC_CTYPE, "C.UTF-8");
	top_model_init(&m);
	for (size_t width = 1; width <= WIDTHS; width++) {
		_cleanup_grid_ struct grid g = {};

		EXPECT_EQ(top_model_view(&m, any_view(), width * NSEC_PER_SEC), 0);
		EXPECT_EQ(top_layout_plain(&m, width, width % 4 == 0, &g), 0);
		EXPECT(check(&g));
	}
	top_model_done(&m);
}

TEST_MAIN()
