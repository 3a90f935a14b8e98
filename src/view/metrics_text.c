/* SPDX-License-Identifier: MIT */
#include "view/metrics_text.h"

#include <string.h>

#include "base/clock.h"
#include "base/text.h"

static void add_u64(struct strbuf *sb, uint64_t n, size_t digits_min)
{
	char text[24];
	size_t at = sizeof(text);

	do {
		text[--at] = (char)('0' + n % 10);
		n /= 10;
	} while (n > 0 || sizeof(text) - at < digits_min);
	strbuf_add(sb, text + at, sizeof(text) - at);
}

static void add_value(struct strbuf *sb, struct metrics_value v)
{
	if (v.is_negative && (v.whole > 0 || v.frac > 0))
		strbuf_addc(sb, '-');
	add_u64(sb, v.whole, 1);
	if (v.frac == 0)
		return;
	while (v.frac % 10 == 0) {
		v.frac /= 10;
		v.digits--;
	}
	strbuf_addc(sb, '.');
	add_u64(sb, v.frac, v.digits);
}

/* Nothing in it that text_escape() or quotes would change: most names, and several times as fast. */
static bool is_plain(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (s[i] < 0x20 || s[i] > 0x7e || s[i] == '"' || s[i] == '\\')
			return false;
	return true;
}

static void add_label_value(struct strbuf *sb, const char *value, size_t max)
{
	_cleanup_strbuf_ struct strbuf clean = STRBUF_INIT;
	size_t len = strlen(value);

	if (len <= max && is_plain(value, len)) {
		strbuf_add(sb, value, len);
		return;
	}
	text_escape(&clean, value, len, max);
	if (clean.error)
		sb->error = clean.error;
	for (size_t i = 0; i < clean.len; i++) {
		if (clean.buf[i] == '"' || clean.buf[i] == '\\')
			strbuf_addc(sb, '\\');
		strbuf_addc(sb, clean.buf[i]);
	}
}

static void add_label_key(struct strbuf *sb, bool is_first, const char *key)
{
	if (!is_first)
		strbuf_addc(sb, ',');
	strbuf_adds(sb, key);
	strbuf_add(sb, "=\"", 2);
}

void metrics_label(struct strbuf *sb, bool is_first, const char *key, const char *value, size_t max)
{
	add_label_key(sb, is_first, key);
	add_label_value(sb, value ?: "", max);
	strbuf_addc(sb, '"');
}

void metrics_label_u64(struct strbuf *sb, bool is_first, const char *key, uint64_t value)
{
	add_label_key(sb, is_first, key);
	add_u64(sb, value, 1);
	strbuf_addc(sb, '"');
}

void metrics_label_gpu(struct strbuf *sb, bool is_first, const char *uuid, int64_t index)
{
	metrics_label(sb, is_first, "gpu", uuid, METRICS_LABEL_MAX);
	if (index >= 0)
		metrics_label_u64(sb, false, "gpu_index", (uint64_t)index);
	else
		metrics_label(sb, false, "gpu_index", NULL, METRICS_LABEL_MAX);
}

static const char *type_name(const struct metrics_out *out)
{
	switch (out->family->type) {
	case METRICS_COUNTER:
		return "counter";
	case METRICS_HISTOGRAM:
		return "histogram";
	case METRICS_INFO:
		return out->format == METRICS_OPENMETRICS ? "info" : "gauge";
	case METRICS_GAUGE:
		break;
	}
	return "gauge";
}

/* The older format has no families: there metadata bears the name of the samples. */
static void add_metadata(const struct metrics_out *out, const char *what, const char *value)
{
	strbuf_adds(out->sb, "# ");
	strbuf_adds(out->sb, what);
	strbuf_addc(out->sb, ' ');
	strbuf_adds(out->sb, out->family->name);
	if (out->format == METRICS_PROMETHEUS)
		strbuf_adds(out->sb, out->suffix);
	strbuf_addc(out->sb, ' ');
	strbuf_adds(out->sb, value);
	strbuf_addc(out->sb, '\n');
}

void metrics_family(struct metrics_out *out, const struct metrics_family *f)
{
	out->family = f;
	out->suffix = f->type == METRICS_COUNTER ? "_total" : f->type == METRICS_INFO ? "_info" : "";
	out->is_begun = false;
}

static void add_name(struct metrics_out *out, const char *suffix)
{
	if (!out->is_begun) {
		out->is_begun = true;
		add_metadata(out, "TYPE", type_name(out));
		if (out->family->unit && out->format == METRICS_OPENMETRICS)
			add_metadata(out, "UNIT", out->family->unit);
		add_metadata(out, "HELP", out->family->help);
	}
	strbuf_adds(out->sb, out->family->name);
	strbuf_adds(out->sb, out->suffix);
	strbuf_adds(out->sb, suffix);
}

void metrics_begin(struct metrics_out *out, const char *suffix)
{
	add_name(out, suffix);
	strbuf_addc(out->sb, '{');
}

void metrics_end(struct metrics_out *out, struct metrics_value v)
{
	strbuf_add(out->sb, "} ", 2);
	add_value(out->sb, v);
	strbuf_addc(out->sb, '\n');
}

void metrics_sample(struct metrics_out *out, const char *labels, size_t len, struct metrics_value v)
{
	if (len > 0) {
		metrics_begin(out, "");
		strbuf_add(out->sb, labels, len);
		metrics_end(out, v);
		return;
	}
	add_name(out, "");
	strbuf_addc(out->sb, ' ');
	add_value(out->sb, v);
	strbuf_addc(out->sb, '\n');
}

struct metrics_value metrics_nsec(uint64_t ns)
{
	return (struct metrics_value){ .whole = ns / NSEC_PER_SEC, .frac = (uint32_t)(ns % NSEC_PER_SEC), .digits = 9 };
}

/* To hundredths, as exact as starts of processes are known: finer digits would differ from scrape to scrape. */
static struct metrics_value moment(uint64_t usec)
{
	const uint64_t n = usec / (USEC_PER_SEC / 100);

	return (struct metrics_value){ .whole = n / 100, .frac = (uint32_t)(n % 100), .digits = 2 };
}

static struct metrics_value per_minute(int64_t n)
{
	uint64_t size = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;

	return (struct metrics_value){
		.whole = size / 60, .frac = (uint32_t)(size % 60 * 1000 / 60), .digits = 3, .is_negative = n < 0
	};
}

static bool value_of_u32(uint32_t n, enum metrics_form form, struct metrics_value *ret)
{
	const uint32_t scale = form == FORM_PERCENT ? 100 : form == FORM_MILLI ? 1000 : 1;

	if (n == VIEW_NONE_32)
		return false;
	*ret = (struct metrics_value){ .whole = n / scale, .frac = n % scale, .digits = scale == 100 ? 2 : 3 };
	return true;
}

static bool value_of_u64(uint64_t n, enum metrics_form form, struct metrics_value *ret)
{
	if (n == VIEW_NONE || (n == 0 && (form == FORM_POSITIVE || form == FORM_USEC)))
		return false;
	if (form == FORM_NSEC)
		*ret = metrics_nsec(n);
	else if (form == FORM_USEC)
		*ret = moment(n);
	else
		*ret = metrics_u64(n);
	return true;
}

/* False: not known. */
static bool value_of(const void *thing, const struct metrics_field *f, struct metrics_value *ret)
{
	const void *at = (const char *)thing + f->offset;

	switch (f->form) {
	case FORM_BOOL:
		*ret = metrics_u64(*(const bool *)at);
		return true;
	case FORM_PER_MINUTE:
		*ret = per_minute(*(const int64_t *)at);
		return *(const int64_t *)at != VIEW_NONE_INT;
	case FORM_U32:
	case FORM_PERCENT:
	case FORM_MILLI:
		return value_of_u32(*(const uint32_t *)at, f->form, ret);
	case FORM_U64:
	case FORM_POSITIVE:
	case FORM_USEC:
	case FORM_NSEC:
		break;
	}
	return value_of_u64(*(const uint64_t *)at, f->form, ret);
}

static bool is_there(const struct metrics_list *list, size_t at, size_t len)
{
	for (size_t i = 0; i < list->len; i++)
		if (list->series[i].len == len && memcmp(list->text.buf + list->series[i].at, list->text.buf + at, len) == 0)
			return true;
	return false;
}

int metrics_list_fill(struct metrics_list *list, const void *things, size_t len, size_t size,
		      void (*render)(const void *thing, struct strbuf *sb))
{
	*list = (struct metrics_list){ .series = calloc(len ?: 1, sizeof(*list->series)) };
	if (!list->series)
		return -ENOMEM;
	for (size_t i = 0; i < len; i++) {
		const void *thing = (const char *)things + i * size;
		const size_t at = list->text.len;

		render(thing, &list->text);
		if (list->text.error)
			return list->text.error;
		if (is_there(list, at, list->text.len - at))
			strbuf_truncate(&list->text, at);
		else
			list->series[list->len++] =
				(struct metrics_series){ .thing = thing, .at = at, .len = list->text.len - at };
	}
	return 0;
}

void metrics_list_done(struct metrics_list *list)
{
	strbuf_done(&list->text);
	free(list->series);
	*list = (struct metrics_list){};
}

void metrics_fields(struct metrics_out *out, const struct metrics_list *list, const struct metrics_field *fields, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		metrics_family(out, &fields[i].family);
		for (size_t k = 0; k < list->len; k++) {
			const struct metrics_series *s = &list->series[k];
			struct metrics_value v;

			if (value_of(s->thing, &fields[i], &v))
				metrics_sample(out, strbuf_str(&list->text) + s->at, s->len, v);
		}
	}
}
