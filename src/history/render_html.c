/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "history/render.h"
#include "report_page.h"

/* Where the page has the story. */
#define STORY_MARK "@story@"

/* The story stands in a script element, which any "</script" or "<!--" in it would end or turn inside out; and the two
 * line separators end a line of JavaScript to some readers. All of these are text within JSON strings, so they may be
 * escaped. */
static void add_json_in_html(const char *json, size_t len, struct strbuf *sb)
{
	size_t done = 0;

	for (size_t i = 0; i < len; i++) {
		const char *escape = NULL;
		size_t n = 1;

		if (json[i] == '<') {
			escape = "\\u003c";
		} else if (json[i] == '>') {
			escape = "\\u003e";
		} else if (json[i] == '&') {
			escape = "\\u0026";
		} else if (len - i >= 3 && memcmp(json + i, "\xe2\x80", 2) == 0 &&
			   (json[i + 2] == '\xa8' || json[i + 2] == '\xa9')) {
			escape = json[i + 2] == '\xa8' ? "\\u2028" : "\\u2029";
			n = 3;
		}
		if (!escape)
			continue;
		strbuf_add(sb, json + done, i - done);
		strbuf_adds(sb, escape);
		done = i + n;
		i = done - 1;
	}
	strbuf_add(sb, json + done, len - done);
}

void render_html(const struct story *s, struct strbuf *sb)
{
	_cleanup_strbuf_ struct strbuf json = STRBUF_INIT;
	const char *page = (const char *)report_page;
	const char *mark = memmem(page, sizeof(report_page), STORY_MARK, strlen(STORY_MARK));
	const char *rest = mark ? mark + strlen(STORY_MARK) : NULL;

	render_json(s, &json);
	if (json.error != 0 || !mark) {
		sb->error = json.error ?: -EINVAL;
		return;
	}
	strbuf_add(sb, page, (size_t)(mark - page));
	add_json_in_html(strbuf_str(&json), json.len, sb);
	strbuf_add(sb, rest, sizeof(report_page) - (size_t)(rest - page));
}
