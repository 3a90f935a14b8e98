/* SPDX-License-Identifier: MIT */
/* Which processes are meant, how they and their call sites grow, and JSON. */
#include "memtrace/json.h"
#include "memtrace/select.h"
#include "memtrace_make.h"

/* ---- who is meant */

struct ancestors {
	struct {
		uint32_t pid, ppid;
		uint64_t start;
	} list[8];
};

static int find_ancestor(uint32_t pid, uint32_t *ret_ppid, uint64_t *ret_start, void *userdata)
{
	const struct ancestors *a = userdata;

	for (size_t i = 0; i < ARRAY_SIZE(a->list); i++) {
		if (a->list[i].pid != pid)
			continue;
		*ret_ppid = a->list[i].ppid;
		*ret_start = a->list[i].start;
		return 0;
	}
	return -ESRCH;
}

/* "12 13 ", in the order they come. */
static char *chosen(struct selection *s, const struct view *v, struct ancestors *a)
{
	_cleanup_free_ struct view_process **list = NULL;
	struct strbuf sb = STRBUF_INIT;
	size_t len = 0;
	char *ret = NULL;

	if (selection_choose(s, v, a ? find_ancestor : NULL, a, &list, &len) < 0)
		abort();
	for (size_t i = 0; i < len; i++)
		strbuf_addf(&sb, "%u%s ", list[i]->pid, list[i]->is_ended ? "e" : "");
	if (strbuf_steal(&sb, &ret) < 0)
		abort();
	return ret;
}

static struct selection *select_by(const struct selection_options *o)
{
	struct selection *s;

	if (selection_new(o, &s) < 0)
		abort();
	return s;
}

#define EXPECT_CHOSEN(s, v, a, want)                                                                                   \
	do {                                                                                                           \
		_cleanup_free_ char *got_ = chosen(s, v, a);                                                           \
		EXPECT_STR(got_, want);                                                                                \
	} while (0)

TEST(named_ones_and_no_later_bearer_of_their_pids)
{
	const struct named named[] = { { 20, 100 }, { 10, 50 } };
	_cleanup_(selection_freep) struct selection *s =
		select_by(&(struct selection_options){ .named = named, .named_len = 2 });
	_cleanup_(view_freep) struct view *v = new_view(NOW), *again = new_view(NOW);

	add(v, 20, 100, 1, "a");
	add(v, 10, 50, 1, "b");
	add(v, 30, 60, 20, "child");
	EXPECT_CHOSEN(s, v, NULL, "10 20 ");
	add(again, 20, 101, 1, "a");
	add(again, 10, 50, 1, "b")->is_ended = true;
	add(again, 10, 70, 1, "b");
	EXPECT_CHOSEN(s, again, NULL, "10e ");
}

TEST(by_command_and_by_unit)
{
	char why[PATTERN_ERROR_MAX];
	_cleanup_(pattern_freep) struct pattern *comm = NULL;
	_cleanup_(selection_freep) struct selection *s = NULL, *u = NULL, *full = NULL;
	_cleanup_(view_freep) struct view *v = new_view(NOW);

	ASSERT(pattern_new("^train", why, &comm) == 0);
	s = select_by(&(struct selection_options){ .comm = comm });
	u = select_by(&(struct selection_options){ .unit = "night" });
	full = select_by(&(struct selection_options){ .unit = "night.service" });
	add(v, 1, 1, 0, "trainer");
	add(v, 2, 2, 0, "retrain");
	add(v, 3, 3, 0, NULL);
	set(&add(v, 4, 4, 1, "x")->unit, "night.service");
	set(&add(v, 5, 5, 1, "x")->unit, "nightly.service");
	set(&add(v, 6, 6, 1, "x")->unit, "night");
	set(&add(v, 7, 7, 1, "x")->unit, "night.service.d");
	EXPECT_CHOSEN(s, v, NULL, "1 ");
	EXPECT_CHOSEN(u, v, NULL, "4 6 ");
	EXPECT_CHOSEN(full, v, NULL, "4 ");
	/* Who was meant stays so under another name. */
	set(&v->processes[0].comm, "other");
	EXPECT_CHOSEN(s, v, NULL, "1 ");
}

TEST(children_and_theirs)
{
	const struct named named[] = { { 10, 50 } };
	const struct selection_options o = { .named = named, .named_len = 1, .has_descendants = true };
	_cleanup_(selection_freep) struct selection *s = select_by(&o);
	_cleanup_(view_freep) struct view *v = new_view(NOW), *later = new_view(NOW), *reused = new_view(NOW);
	/* 11 and 12 are in no view: a launcher and a shell. */
	struct ancestors a = { { { 10, 1, 50 }, { 11, 10, 60 }, { 12, 11, 61 }, { 1, 0, 0 } } };

	add(v, 20, 70, 12, "grandchild");
	add(v, 21, 71, 10, "child");
	add(v, 22, 72, 21, "grandchild");
	add(v, 23, 73, 1, "stranger");
	EXPECT_CHOSEN(s, v, &a, "20 21 22 ");

	/* The named one, the launcher and the shell are gone; who was born of them before counts. */
	a = (struct ancestors){ { { 1, 0, 0 } } };
	add(later, 30, 80, 12, "late");
	add(later, 31, 81, 22, "of-one-that-is-gone");
	add(later, 32, 40, 10, "older-than-its-parent");
	EXPECT_CHOSEN(s, later, &a, "30 31 ");

	/* Other processes have those pids by now. */
	a = (struct ancestors){ { { 12, 1, 90 }, { 1, 0, 0 } } };
	add(reused, 40, 95, 12, "of-another-shell");
	add(reused, 21, 91, 1, "another");
	add(reused, 41, 96, 21, "of-the-other");
	add(reused, 42, 85, 21, "before-the-other-was");
	EXPECT_CHOSEN(s, reused, &a, "42 ");
}

TEST(ppids_in_a_ring_have_an_end)
{
	const struct named named[] = { { 10, 50 } };
	const struct selection_options o = { .named = named, .named_len = 1, .has_descendants = true };
	_cleanup_(selection_freep) struct selection *s = select_by(&o);
	_cleanup_(view_freep) struct view *v = new_view(NOW);

	add(v, 20, 70, 21, "a");
	add(v, 21, 70, 20, "b");
	add(v, 22, 70, 22, "c");
	add(v, 23, 70, VIEW_NONE_32, "d");
	EXPECT_CHOSEN(s, v, NULL, "");
}

/* ---- growth */

TEST(growth_that_cannot_be_told)
{
	_cleanup_(view_freep) struct view *v = new_view(NOW), *next = new_view(NOW + USEC_PER_SEC);
	struct past past = PAST_INIT;
	struct view_process *p = add(v, 1, 1, 1, "a");
	struct past_process *pp = past_get(&past, p);
	int64_t *growths;

	ASSERT(pp);
	/* Two that one id names: other lines of Python tell them apart, equal text does not. */
	site(p, 7, 10, 1, "a.py:1");
	site(p, 7, 20, 1, "a.py:2");
	site(p, 8, 30, 1, "b");
	site(p, 8, 40, 1, "b");
	p->sites_count = 9;
	ASSERT(past_site_growths(pp, p, NOW, &growths) == 0);
	EXPECT_EQ(growths[0], VIEW_NONE_INT);
	free(growths);
	EXPECT_EQ(past_growth(pp, p), VIEW_NONE_INT);
	ASSERT(past_take(pp, p, NOW) == 0);

	p = add(next, 1, 1, 1, "a");
	site(p, 7, 13, 1, "a.py:1");
	site(p, 7, 20, 1, "a.py:2");
	site(p, 8, 35, 1, "b");
	site(p, 8, 45, 1, "b");
	/* It may have been there, among those that were not told; or it is too young for that. */
	site(p, 9, 50, 1, "c");
	site(p, 10, 60, 1, "d")->age_ns = 999999999;
	ASSERT(past_site_growths(pp, p, next->totals.real_usec, &growths) == 0);
	EXPECT_EQ(growths[0], 3);
	EXPECT_EQ(growths[1], 0);
	EXPECT_EQ(growths[2], VIEW_NONE_INT);
	EXPECT_EQ(growths[3], VIEW_NONE_INT);
	EXPECT_EQ(growths[4], VIEW_NONE_INT);
	EXPECT_EQ(growths[5], 60);
	free(growths);
	past_forget(&past, 1, 2);
	EXPECT(past_find(&past, 1, 1) == pp);
	past_forget(&past, 1, 1);
	EXPECT(!past_find(&past, 1, 1));
	past_done(&past);
}

/* ---- JSON */

/* What is left of it with every site's growth and the time taken out must be what the view itself writes. */
static void strip(char *text, const char *from, const char *end)
{
	char *at;

	while ((at = strstr(text, from))) {
		char *rest = at + strlen(from);

		rest += strcspn(rest, end);
		memmove(at, rest, strlen(rest) + 1);
	}
}

TEST(json_is_that_of_the_view_and_more)
{
	_cleanup_strbuf_ struct strbuf got = STRBUF_INIT, want = STRBUF_INIT;
	_cleanup_(view_freep) struct view *v = new_view(NOW), *next = new_view(NOW + USEC_PER_SEC);
	struct past past = PAST_INIT;
	struct view_process *p = fill_sites(v, 64 * MIB, 16 * MIB);
	struct past_process *pp = past_get(&past, p);

	ASSERT(pp);
	memtrace_json(v, p, pp, &got);
	EXPECT(strstr(strbuf_str(&got), "{\"time\":\"2026-11-30T20:00:05.250000+00:00\",\"pid\":4711,") == got.buf);
	EXPECT(strstr(strbuf_str(&got), ",\"growth_bytes\":null},{"));
	ASSERT(past_take(pp, p, NOW) == 0);
	strbuf_reset(&got);
	p = fill_sites(next, 80 * MIB, 12 * MIB);
	set(&p->comm, "a\"]},{\"sites\":[{}]");
	set(&p->sites[0].function, "\"sites\":[{\"growth\":1}]");
	on(p, 0, 0, MIB, VIEW_NONE);
	memtrace_json(next, p, pp, &got);
	EXPECT(strstr(strbuf_str(&got), ",\"growth_bytes\":16777216},{"));
	EXPECT(strstr(strbuf_str(&got), ",\"growth_bytes\":-4194304}]"));
	strip(got.buf, ",\"growth_bytes\":", "}");
	strip(got.buf, "\"time\":", ",");
	got.len = strlen(got.buf);
	view_json_process(p, &want);
	strbuf_addc(&want, '\n');
	memmove(got.buf + 1, got.buf + 2, got.len - 1);
	EXPECT_STR(got.buf, strbuf_str(&want));
	past_done(&past);
}

TEST(json_without_sites)
{
	_cleanup_strbuf_ struct strbuf got = STRBUF_INIT, want = STRBUF_INIT;
	_cleanup_(view_freep) struct view *v = new_view(NOW);
	struct past past = PAST_INIT;
	struct view_process *p = add(v, 1, 1, 1, "a");
	struct past_process *pp = past_get(&past, p);

	ASSERT(pp);
	memtrace_json(v, p, pp, &got);
	strip(got.buf, "\"time\":", ",");
	memmove(got.buf + 1, got.buf + 2, strlen(got.buf) - 1);
	view_json_process(p, &want);
	strbuf_addc(&want, '\n');
	EXPECT_STR(got.buf, strbuf_str(&want));
	past_done(&past);
}

TEST_MAIN()
