/* SPDX-License-Identifier: MIT */
/* How the page behaves is tested in a browser (tests/page); here, that nothing gets out of the story's element. */
#include <errno.h>
#include <string.h>

#include "render_make.h"
#include "test.h"

#define OPEN "<script type=\"application/json\" id=\"story\">"
#define CLOSE "</script>"

static struct story_process bad = {
	.host = &make_host, .pid = 1, .comm = "</script><!--&\xe2\x80\xa8|\xe2\x80\xa9|\xe2\x80\xaa|", .first_usec = FROM,
	.last_usec = UNTIL,
};
static struct story_process *bad_processes[] = { &bad };
static struct story_host *bad_hosts[] = { &make_host };
static const struct story bad_story = {
	.from_usec = FROM, .until_usec = UNTIL, .hosts = bad_hosts, .hosts_len = 1, .processes = bad_processes,
	.processes_len = 1,
};

static char *story_in_page(const struct story *s, const char **ret_rest)
{
	struct strbuf sb = STRBUF_INIT;
	char *page = NULL, *text = NULL;

	render_html(s, &sb);
	if (strbuf_steal(&sb, &page) < 0)
		abort();
	text = strstr(page, OPEN);
	if (text) {
		text = strdup(text + strlen(OPEN));
		*ret_rest = strstr(text, CLOSE);
	}
	free(page);
	return text;
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	for (; (text = strstr(text, what)) != NULL; text += strlen(what))
		n++;
	return n;
}

TEST(the_page_is_around_the_story)
{
	struct strbuf sb = STRBUF_INIT;

	render_html(&make_nothing, &sb);
	EXPECT_EQ(sb.error, 0);
	EXPECT(strncmp(strbuf_str(&sb), "<!DOCTYPE html>\n", 16) == 0);
	EXPECT(sb.len > 8 && strcmp(strbuf_str(&sb) + sb.len - 8, "</html>\n") == 0);
	EXPECT_EQ(strlen(strbuf_str(&sb)), sb.len);
	EXPECT_EQ(count(strbuf_str(&sb), "@story@"), 0);
	EXPECT_EQ(count(strbuf_str(&sb), CLOSE), 2);
	strbuf_done(&sb);
}

TEST(text_does_not_get_out_of_the_element)
{
	const char *rest = NULL;
	char *text = story_in_page(&bad_story, &rest);

	EXPECT(text && rest);
	if (text && rest) {
		text[rest - text] = '\0';
		EXPECT_EQ(count(text, "<") + count(text, ">") + count(text, "&"), 0);
		EXPECT_EQ(count(text, "\xe2\x80\xa8") + count(text, "\xe2\x80\xa9"), 0);
		EXPECT_EQ(count(text, "\"\\u003c/script\\u003e\\u003c!--\\u0026\\u2028|\\u2029|\\u202a|"), 1);
	}
	free(text);
}

static void put_back(char *text, const char *escape, char c)
{
	char *to = text;

	for (const char *from = text; *from;) {
		bool is_escape = strncmp(from, escape, strlen(escape)) == 0;

		*to++ = is_escape ? c : *from;
		from += is_escape ? strlen(escape) : 1;
	}
	*to = '\0';
}

TEST(the_story_is_the_same_as_json)
{
	struct strbuf json = STRBUF_INIT;
	const char *rest = NULL;
	char *text = story_in_page(&make_night, &rest);

	render_json(&make_night, &json);
	EXPECT(text && rest);
	if (text && rest) {
		text[rest - text] = '\0';
		EXPECT(strcmp(text, strbuf_str(&json)) != 0);
		put_back(text, "\\u003c", '<');
		put_back(text, "\\u003e", '>');
		put_back(text, "\\u0026", '&');
		EXPECT(strcmp(text, strbuf_str(&json)) == 0);
	}
	strbuf_done(&json);
	free(text);
}

TEST(an_error_of_before_stays)
{
	struct strbuf sb = { .error = -ENOMEM };

	render_html(&bad_story, &sb);
	EXPECT_EQ(sb.error, -ENOMEM);
	EXPECT_EQ(sb.len, 0);
}

TEST_MAIN()
