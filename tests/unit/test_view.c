/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <errno.h>

#include "view/view_fields.h"

static uint64_t seed;

static uint64_t draw(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return seed >> 11;
}

static void draw_text(char **p)
{
	char text[24];
	size_t len = draw() % sizeof(text);

	for (size_t i = 0; i < len; i++)
		text[i] = (char)(1 + draw() % 255);
	text[len ? len - 1 : 0] = '\0';
	if (draw() % 3)
		ASSERT(view_set(p, text) == 0);
}

/* Small and large ones, and those that mean "not known". */
static uint64_t draw_number(void)
{
	static const uint64_t some[] = { 0, 1, 4711, UINT32_MAX, (uint64_t)INT64_MAX, UINT64_MAX };

	return draw() % 3 ? draw() : some[draw() % ARRAY_SIZE(some)];
}

static void draw_item(const struct view_kind *k, void *item)
{
	for (const struct view_field *f = k->fields; f->key; f++) {
		void *at = (char *)item + f->offset;

		switch (f->type) {
		case VIEW_STR: draw_text(at); break;
		case VIEW_INT: *(int64_t *)at = (int64_t)draw_number(); break;
		case VIEW_U32:
		case VIEW_KNOWN32: *(uint32_t *)at = (uint32_t)draw_number(); break;
		case VIEW_BOOL: *(bool *)at = draw() & 1; break;
		case VIEW_BUCKETS:
			for (size_t i = 0; i < VIEW_LATENCY_BUCKETS; i++)
				((uint64_t *)at)[i] = draw_number();
			break;
		default: *(uint64_t *)at = draw_number(); break;
		}
	}
}

static struct view *draw_view(void)
{
	struct view *v = view_new();

	if (!v)
		abort();
	draw_item(&view_kind_totals, &v->totals);
	for (uint64_t n = draw() % 4; n; n--)
		draw_item(&view_kind_device, view_add_device(v));
	for (uint64_t n = draw() % 10; n; n--) {
		struct view_process *p = view_add_process(v);

		draw_item(&view_kind_process, p);
		for (uint64_t k = draw() % 4; k; k--)
			draw_item(&view_kind_process_device, view_add_process_device(p));
		for (uint64_t k = draw() % 6; k; k--)
			draw_item(&view_kind_site, view_add_site(p));
	}
	for (uint64_t n = draw() % 4; n; n--)
		draw_item(&view_kind_incident, view_add_incident(v));
	for (uint64_t n = draw() % 4; n; n--)
		draw_item(&view_kind_limit, view_add_limit(v));
	for (uint64_t n = draw() % 4; n; n--)
		draw_item(&view_kind_counter, view_add_counter(v));
	for (uint64_t n = draw() % 4; n; n--)
		draw_item(&view_kind_latency, view_add_latency(v));
	return v;
}

TEST(what_is_sent_arrives)
{
	for (int i = 0; i < 300; i++) {
		_cleanup_strbuf_ struct strbuf sent = STRBUF_INIT, again = STRBUF_INIT, a = STRBUF_INIT, b = STRBUF_INIT;
		_cleanup_(view_freep) struct view *v = draw_view(), *got = NULL;

		view_encode(v, &sent);
		ASSERT(view_decode(sent.buf, sent.len, &got) == 0);
		view_encode(got, &again);
		EXPECT_STR(strbuf_str(&again), strbuf_str(&sent));
		view_json(v, &a);
		view_json(got, &b);
		EXPECT_STR(strbuf_str(&b), strbuf_str(&a));
	}
}

TEST(the_form)
{
	_cleanup_(view_freep) struct view *v = view_new(), *got = NULL;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT, json = STRBUF_INIT;
	struct view_process *p;

	ASSERT(v);
	ASSERT(view_set(&v->totals.version, "0.1 x") == 0);
	p = view_add_process(v);
	p->pid = 7;
	ASSERT(view_set(&p->comm, "a b%\n=\x7f\xc3\xa4") == 0);
	p->growth_bytes_per_min = -5;
	view_add_process_device(p)->live_bytes = 9;
	view_add_site(p)->stack_id = 0xabc;
	view_encode(v, &sb);
	EXPECT_STR(strbuf_str(&sb), "gpuxray-view 1\n"
				    "totals version=0.1%20x\n"
				    "process pid=7 comm=a%20b%25%0a=%7f\xc3\xa4 growth_bytes_per_min=-5\n"
				    "on live_bytes=9\n"
				    "site stack_id=2748\n"
				    "end\n");
	ASSERT(view_decode(sb.buf, sb.len, &got) == 0);
	EXPECT_STR(got->processes[0].comm, p->comm);
	EXPECT_EQ(got->processes[0].growth_bytes_per_min, -5);
	EXPECT(got->processes[0].driver_bytes == VIEW_NONE);
	EXPECT(got->processes[0].ppid == VIEW_NONE_32);
	EXPECT(got->processes[0].devices[0].index == VIEW_NONE_INT);
	EXPECT(!got->processes[0].user);
	view_json_process(&got->processes[0], &json);
	EXPECT(strstr(strbuf_str(&json), "{\"pid\":7,\"ppid\":null,\"start_time\":0,"));
	EXPECT(strstr(strbuf_str(&json), "\"stack_id\":\"0000000000000abc\""));
	EXPECT(strstr(strbuf_str(&json), "\"growth_bytes_per_min\":-5,\"allocs_per_min\":null"));
}

static int decode(const char *text)
{
	struct view *v = NULL;
	int r = view_decode(text, strlen(text), &v);

	view_free(v);
	return r;
}

#define HEAD "gpuxray-view 1\n"

TEST(a_later_version_is_understood_as_far_as_it_goes)
{
	struct view *v = NULL;
	const char *text = HEAD "planet name=mars\nprocess pid=1 colour=red\nmoon of=mars\non live_bytes=2\nend\n";

	ASSERT(view_decode(text, strlen(text), &v) == 0);
	EXPECT_EQ(v->processes_len, 1);
	EXPECT_EQ(v->processes[0].pid, 1);
	EXPECT_EQ(v->processes[0].devices[0].live_bytes, 2);
	view_free(v);
}

TEST(what_is_no_answer)
{
	static const char *const bad[] = {
		"", "\n", "end\n", HEAD, HEAD "end", HEAD "process pid=1\n", "gpuxray-view 2\nend\n", HEAD "end\nend\n",
		HEAD "end\nprocess pid=1\n", HEAD "process pid\nend\n", HEAD "process pid=\nend\n", HEAD "process pid=-1\nend\n",
		HEAD "process pid=4294967296\nend\n", HEAD "process pid=1x\nend\n", HEAD "process comm=%\nend\n",
		HEAD "process comm=%0\nend\n", HEAD "process comm=%zz\nend\n", HEAD "process comm=%00\nend\n",
		HEAD "process exact=2\nend\n", HEAD "site bytes=1\nend\n", HEAD "on live_bytes=1\nend\n",
		HEAD "process growth_bytes_per_min=--1\nend\n", HEAD "process growth_bytes_per_min=9223372036854775808\nend\n",
		HEAD "latency buckets=1,2\nend\n", HEAD "latency buckets=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\nend\n",
		HEAD "process  pid=1\nend\n",
	};
	_cleanup_strbuf_ struct strbuf many = STRBUF_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (decode(bad[i]) != -EINVAL) {
			printf("# %zu: %s\n", i, bad[i]);
			EXPECT(false);
		}
	EXPECT_EQ(decode(HEAD "end\n"), 0);
	EXPECT_EQ(view_decode("gpuxray-view 1\nend\0\n", 20, &(struct view *){ NULL }), -EINVAL);
	strbuf_adds(&many, HEAD);
	for (int i = 0; i < (1 << 20) + 1; i++)
		strbuf_adds(&many, "x\n");
	strbuf_adds(&many, "end\n");
	EXPECT_EQ(decode(strbuf_str(&many)), -E2BIG);
}

TEST(questions)
{
	static const uint32_t some[] = { 1, UINT32_MAX };
	const struct view_query q = { .pids = some, .pids_len = 2, .site_pids = some, .site_pids_len = 1, .sites_max = 20, .ends = true };
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT, many = STRBUF_INIT;
	_cleanup_free_ uint32_t *pids = NULL, *none = NULL;
	static const char *const bad[] = { "", "json", "view pids=", "view pids=1,", "view pids", "view sites=x", "view  ends=1", "viewx" };
	struct view_query got;

	view_query_encode(&q, &sb);
	EXPECT_STR(strbuf_str(&sb), "view pids=1,4294967295 site_pids=1 sites=20 ends=1");
	ASSERT(view_query_decode(strbuf_str(&sb), &got, &pids) == 0);
	EXPECT_EQ(got.pids_len, 2);
	EXPECT_EQ(got.pids[1], UINT32_MAX);
	EXPECT_EQ(got.site_pids_len, 1);
	EXPECT_EQ(got.site_pids[0], 1);
	EXPECT_EQ(got.sites_max, 20);
	EXPECT(got.ends);
	ASSERT(view_query_decode("view", &got, &none) == 0);
	EXPECT(!got.pids_len && !got.site_pids_len && !got.sites_max && !got.ends);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		uint32_t *p = NULL;

		if (view_query_decode(bad[i], &got, &p) != -EINVAL) {
			printf("# %s\n", bad[i]);
			EXPECT(false);
		}
	}
	strbuf_adds(&many, "view pids=1");
	for (int i = 0; i < VIEW_PIDS_MAX; i++)
		strbuf_adds(&many, ",1");
	EXPECT_EQ(view_query_decode(strbuf_str(&many), &got, &none), -E2BIG);
}

TEST_MAIN()
