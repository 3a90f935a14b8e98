/* SPDX-License-Identifier: MIT */
#include "render_make.h"
#include "test.h"

static void expect_folded(const struct story *s, const char *want)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	render_folded(s, &sb);
	EXPECT_EQ(sb.error, 0);
	EXPECT_STR(strbuf_str(&sb), want);
}

static struct story_process make_process(const char *comm, struct story_site *sites, size_t len)
{
	struct story_process p = make_small;

	p.comm = comm;
	p.sites = sites;
	p.sites_len = len;
	return p;
}

TEST(outermost_first)
{
	struct story_stack stack = { "0123456789abcdef", "malloc+0x1 (a.so)\nf (x.py:2)\nmain", NULL };
	struct story_site sites[] = { { &stack, 4096, 1, 2 }, { &stack, 0, 1, 2 }, { &make_stack_untold, UINT64_MAX - 1, 0, 0 } };
	struct story_process p = make_process("nb", sites, 3);
	struct story s = make_nothing;

	s.processes = (struct story_process *[]){ &p };
	s.processes_len = 1;
	expect_folded(&s, "nb[500];main;f_(x.py:2);malloc+0x1_(a.so) 4096\n"
			  "nb[500];[stack_00000000000000aa] 18446744073709551614\n");
	s.hosts_len = 2;
	sites[2].bytes = 0;
	expect_folded(&s, "gpu01:nb[500];main;f_(x.py:2);malloc+0x1_(a.so) 4096\n");
}

/* A reader splits at the last blank and then at semicolons. */
TEST(names_split_nothing)
{
	struct story_stack stack = { "00", "f(int, A<B; C>)\tx\n\n\n ;;\x1b[0m\xff", NULL };
	struct story_site sites[] = { { &stack, 7, 7, 7 } };
	struct story_process p = make_process("a b;c\n", sites, 1);
	struct story s = make_nothing;

	s.processes = (struct story_process *[]){ &p };
	s.processes_len = 1;
	expect_folded(&s, "a_b,c\\x0a[500];_,,\\x1b[0m\\xff;f(int,_A<B,_C>)\\x09x 7\n");
	expect_folded(&make_nothing, "");
}

TEST(a_whole_night)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	size_t lines = 0;

	render_folded(&make_night, &sb);
	for (char *line = sb.buf, *end; line && *line; line = end + 1) {
		end = strchr(line, '\n');
		ASSERT(end);
		*end = '\0';
		EXPECT(strchr(line, ' ') && strchr(line, ' ') == strrchr(line, ' '));
		EXPECT(strtoull(strchr(line, ' '), NULL, 10) > 0);
		lines++;
	}
	EXPECT_EQ(lines, 3);
}

TEST_MAIN()
