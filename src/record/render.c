/* SPDX-License-Identifier: MIT */
/* A record as a JSON line, and for eyes. */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"
#include "record/record.h"

#define NAME_BYTES 65

void record_json(const struct record *r, struct strbuf *sb)
{
	strbuf_addc(sb, '{');
	for (size_t i = 0; i < r->len; i++) {
		const char *field = r->data.buf + r->field[i].offset;
		size_t len = strcspn(field, "=");
		char name[NAME_BYTES];

		if (len >= sizeof(name))
			continue;
		memcpy(name, field, len);
		name[len] = '\0';
		json_str(sb, name, field + len + 1);
	}
	strbuf_adds(sb, "}\n");
}

static const char *const priority_words[] = {
	"emerg", "alert", "critical", "error", "warning", "notice", "info", "debug",
};

/* Bold red, red, yellow; what is well again green. */
static const char *priority_colour(const struct record *r)
{
	const char *state = record_get(r, "GPUXRAY_STATE");

	if (state && strcmp(state, "resolved") == 0)
		return "\x1b[32m";
	if (r->priority <= 2)
		return "\x1b[1;31m";
	if (r->priority == 3)
		return "\x1b[31m";
	return r->priority == 4 ? "\x1b[33m" : "";
}

void record_text(const struct record *r, struct strbuf *sb, int colour)
{
	const char *message = record_get(r, "MESSAGE"), *before = colour ? priority_colour(r) : "";
	time_t sec = (time_t)(r->real_usec / USEC_PER_SEC);
	struct tm tm = {};
	char when[32];
	size_t line;

	(void)localtime_r(&sec, &tm);
	if (strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm) == 0)
		when[0] = '\0';
	message = message ? message : "";
	line = strcspn(message, "\n");
	strbuf_addf(sb, "%s %s%-8s%s ", when, before, priority_words[r->priority & 7], *before ? "\x1b[0m" : "");
	strbuf_add(sb, message, line);
	strbuf_addc(sb, '\n');
	/* The frames, indented below their line; the blank one between serves readers of the journal. */
	for (const char *p = message + line; *p == '\n';) {
		p++;
		line = strcspn(p, "\n");
		if (line > 0) {
			strbuf_adds(sb, "    ");
			strbuf_add(sb, p, line);
			strbuf_addc(sb, '\n');
		}
		p += line;
	}
}
