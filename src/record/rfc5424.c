/* SPDX-License-Identifier: MIT */
/*
 * One line of syslog. Receivers may take no more than 1 KiB, so the words come whole and the fields, in the order of the
 * table, as far as they fit.
 */
#include <ctype.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"
#include "record/record.h"

#define HOSTNAME_BYTES 64
/* 32473: the enterprise number that RFC 5612 keeps for documents; a structured-data name needs one. */
#define SD_ID "gpuxray@32473"
#define SD_VALUE_MIN 96
#define SD_NAME_MAX 32
/* So much of a value where not all fit in whole. */
#define SD_VALUE_SHARE 16
/* ` cut="NN"` and the closing bracket. */
#define SD_TAIL_BYTES 16
#define FIELD_PREFIX "GPUXRAY_"
#define CEE_TAIL_BYTES 32 /* ,"GPUXRAY_CUT":"NN"} */

static void add_header(const struct record *r, const struct syslog_format *f, struct strbuf *sb)
{
	const char *event = record_get(r, FIELD_PREFIX "EVENT");
	time_t sec = (time_t)(r->real_usec / USEC_PER_SEC);
	size_t start;
	struct tm tm = {};
	char when[32] = "-";

	if (gmtime_r(&sec, &tm) && strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm) != 19)
		strcpy(when, "-"); /* a year past 9999 has no place in it */
	strbuf_addf(sb, "<%d>1 %s", f->facility * 8 + r->priority, when);
	if (when[0] != '-')
		strbuf_addf(sb, ".%06uZ", (unsigned)(r->real_usec % USEC_PER_SEC));
	strbuf_addc(sb, ' ');
	start = sb->len;
	for (const char *p = f->hostname ? f->hostname : ""; *p && sb->len - start < HOSTNAME_BYTES; p++)
		if (isgraph((unsigned char)*p))
			strbuf_addc(sb, *p);
	if (sb->len == start)
		strbuf_addc(sb, '-');
	strbuf_addf(sb, " gpuxray %u %s ", f->pid, event && *event ? event : "-");
}

/* Escapes what ends a value, and puts a frame list on one line. Cuts to max bytes, of whole characters, with "...". */
static void add_sd_value(struct strbuf *sb, const char *value, size_t max)
{
	size_t start = sb->len, fits = start;

	for (const char *p = value; *p;) {
		size_t n = 1;

		while (((unsigned char)p[n] & 0xc0) == 0x80)
			n++;
		if (sb->len - start + 3 <= max)
			fits = sb->len;
		if (*p == '\n') {
			strbuf_adds(sb, "; ");
		} else {
			if (*p == '"' || *p == '\\' || *p == ']')
				strbuf_addc(sb, '\\');
			strbuf_add(sb, p, n);
		}
		p += n;
		if (sb->len - start > max) {
			strbuf_truncate(sb, fits);
			strbuf_adds(sb, "...");
			return;
		}
	}
}

/* ` name="value"`; the name as in the journal, without the prefix and in lower case, to spare room. */
static bool add_sd_param(struct strbuf *sb, const char *field, size_t value_max, size_t end)
{
	size_t start = sb->len, name = strcspn(field, "=");
	const char *p = field;

	if (strncmp(p, FIELD_PREFIX, strlen(FIELD_PREFIX)) == 0)
		p += strlen(FIELD_PREFIX);
	if ((size_t)(field + name - p) > SD_NAME_MAX)
		return false;
	strbuf_addc(sb, ' ');
	for (; *p != '='; p++)
		strbuf_addc(sb, (char)tolower((unsigned char)*p));
	strbuf_adds(sb, "=\"");
	add_sd_value(sb, field + name + 1, value_max);
	strbuf_addc(sb, '"');
	if (sb->len <= end)
		return true;
	strbuf_truncate(sb, start);
	return false;
}

/* Said by the line already. */
static bool is_header_field(const char *field)
{
	static const char *const names[] = { "MESSAGE=", "PRIORITY=", "SYSLOG_IDENTIFIER=", "SYSLOG_FACILITY=",
					     FIELD_PREFIX "EVENT=", FIELD_PREFIX "TIME_USEC=" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strncmp(field, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

/* The element with what fits before offset end. Returns how many fields did not. */
static size_t add_element(const struct record *r, size_t value_max, size_t end, struct strbuf *sb)
{
	size_t cut = 0;

	strbuf_adds(sb, "[" SD_ID);
	for (size_t i = 0; i < r->len; i++) {
		const char *field = r->data.buf + r->field[i].offset;

		if (!is_header_field(field) && !add_sd_param(sb, field, value_max, end))
			cut++;
	}
	return cut;
}

static void add_structured(const struct record *r, size_t max, struct strbuf *sb)
{
	const char *message = record_get(r, "MESSAGE");
	size_t start = sb->len, line = message ? strcspn(message, "\n") : 0, end, cut;

	/* line: at most 200 characters, and the header is short too: with all of it there is room for fields in 1 KiB
	 * unless the words are not ASCII. */
	end = max > line + SD_TAIL_BYTES + 1 ? max - line - SD_TAIL_BYTES - 1 : 0;
	cut = add_element(r, SIZE_MAX, end, sb);
	if (cut > 0) {
		/* A long value must not take the room of those behind it. */
		strbuf_truncate(sb, start);
		cut = add_element(r, MAX(SD_VALUE_MIN, max / SD_VALUE_SHARE), end, sb);
	}
	if (cut > 0)
		strbuf_addf(sb, " cut=\"%zu\"", cut);
	strbuf_addc(sb, ']');
	if (sb->len + 1 + line > max) {
		strbuf_truncate(sb, start);
		strbuf_addc(sb, '-');
	}
	strbuf_addc(sb, ' ');
	strbuf_add(sb, message ? message : "", line);
}

static void add_cee(const struct record *r, const struct syslog_format *f, struct strbuf *sb)
{
	size_t cut = 0;

	strbuf_adds(sb, "- @cee: {");
	for (size_t i = 0; i < r->len; i++) {
		const char *field = r->data.buf + r->field[i].offset;
		size_t start = sb->len, len = strcspn(field, "=");
		char name[65], facility[12];

		if (len >= sizeof(name))
			continue;
		memcpy(name, field, len);
		name[len] = '\0';
		(void)snprintf(facility, sizeof(facility), "%d", f->facility);
		json_str(sb, name, strcmp(name, "SYSLOG_FACILITY") == 0 ? facility : field + len + 1);
		if (sb->len + CEE_TAIL_BYTES > f->max) {
			strbuf_truncate(sb, start);
			cut++;
		}
	}
	if (cut > 0) {
		char text[24];

		(void)snprintf(text, sizeof(text), "%zu", cut);
		json_str(sb, FIELD_PREFIX "CUT", text);
	}
	strbuf_addc(sb, '}');
}

void record_syslog(const struct record *r, const struct syslog_format *f, struct strbuf *sb)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	size_t len;

	add_header(r, f, &line);
	if (f->is_cee)
		add_cee(r, f, &line);
	else
		add_structured(r, f->max, &line);
	if (line.error) {
		sb->error = line.error;
		return;
	}
	/* Only a max below what header and words need gets here; cut between characters. */
	len = MIN(line.len, f->max);
	while (len > 0 && len < line.len && ((unsigned char)line.buf[len] & 0xc0) == 0x80)
		len--;
	strbuf_add(sb, strbuf_str(&line), len);
}
