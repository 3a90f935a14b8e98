/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/units.h"
#include "view/view_fields.h"

#define HEAD "gpuxray-view 1"
#define END "end"
/* More things than a daemon within its limits would tell of; each line makes a few hundred bytes here. */
#define ITEMS_MAX (1u << 20)

static bool is_plain(unsigned char c)
{
	return c > ' ' && c != 0x7f && c != '%';
}

static void encode_text(struct strbuf *sb, const char *s)
{
	static const char hex[] = "0123456789abcdef";

	while (*s) {
		size_t n = 0;

		while (is_plain((unsigned char)s[n]))
			n++;
		strbuf_add(sb, s, n);
		s += n;
		if (*s) {
			char escaped[3] = { '%', hex[(unsigned char)*s >> 4], hex[*s & 15] };

			strbuf_add(sb, escaped, sizeof(escaped));
			s++;
		}
	}
}

static void encode_number(struct strbuf *sb, const char *key, uint64_t n)
{
	char digits[24], *p = digits + sizeof(digits);

	do
		*--p = (char)('0' + n % 10);
	while (n /= 10);
	strbuf_addc(sb, ' ');
	strbuf_adds(sb, key);
	strbuf_addc(sb, '=');
	strbuf_add(sb, p, (size_t)(digits + sizeof(digits) - p));
}

static void encode_field(const struct view_field *f, const void *at, struct strbuf *sb)
{
	const uint64_t *list = at;
	uint64_t n = 0, nothing = 0;

	switch (f->type) {
	case VIEW_STR:
		if (!*(char *const *)at)
			return;
		strbuf_addf(sb, " %s=", f->key);
		encode_text(sb, *(char *const *)at);
		return;
	case VIEW_INT:
		if (*(const int64_t *)at != VIEW_NONE_INT)
			strbuf_addf(sb, " %s=%" PRId64, f->key, *(const int64_t *)at);
		return;
	case VIEW_BUCKETS:
		strbuf_addf(sb, " %s=", f->key);
		for (size_t i = 0; i < VIEW_LATENCY_BUCKETS; i++)
			strbuf_addf(sb, "%s%" PRIu64, i ? "," : "", list[i]);
		return;
	case VIEW_KNOWN: nothing = VIEW_NONE; /* fall through */
	case VIEW_U64:
	case VIEW_HEX: n = *(const uint64_t *)at; break;
	case VIEW_KNOWN32: nothing = VIEW_NONE_32; /* fall through */
	case VIEW_U32: n = *(const uint32_t *)at; break;
	case VIEW_BOOL: n = *(const bool *)at; break;
	}
	if (n != nothing)
		encode_number(sb, f->key, n);
}

static void encode(const struct view_kind *k, const void *item, struct strbuf *sb)
{
	strbuf_adds(sb, k->name);
	for (const struct view_field *f = k->fields; f->key; f++)
		encode_field(f, (const char *)item + f->offset, sb);
	strbuf_addc(sb, '\n');
}

static void encode_list(const struct view_kind *k, const void *list, size_t len, struct strbuf *sb)
{
	for (size_t i = 0; i < len; i++)
		encode(k, (const char *)list + i * k->size, sb);
}

void view_encode(const struct view *v, struct strbuf *sb)
{
	strbuf_adds(sb, HEAD "\n");
	encode(&view_kind_totals, &v->totals, sb);
	encode_list(&view_kind_device, v->devices, v->devices_len, sb);
	for (size_t i = 0; i < v->processes_len; i++) {
		const struct view_process *p = &v->processes[i];

		encode(&view_kind_process, p, sb);
		encode_list(&view_kind_process_device, p->devices, p->devices_len, sb);
		encode_list(&view_kind_site, p->sites, p->sites_len, sb);
	}
	encode_list(&view_kind_incident, v->incidents, v->incidents_len, sb);
	encode_list(&view_kind_limit, v->limits, v->limits_len, sb);
	encode_list(&view_kind_counter, v->counters, v->counters_len, sb);
	encode_list(&view_kind_latency, v->latencies, v->latencies_len, sb);
	strbuf_adds(sb, END "\n");
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place: it only gets shorter. No NUL can come of it. */
static int decode_text(char *s)
{
	char *to = s;

	for (; *s; s++) {
		if (*s == '%') {
			int high = hex_digit(s[1]), low = high < 0 ? -1 : hex_digit(s[2]);

			if (low < 0 || (!high && !low))
				return -EINVAL;
			*to++ = (char)(high << 4 | low);
			s += 2;
		} else {
			*to++ = *s;
		}
	}
	*to = '\0';
	return 0;
}

static int decode_int(const char *s, int64_t *ret)
{
	bool is_below = *s == '-';
	uint64_t n;

	if (parse_u64(s + is_below, &n) < 0 || n > INT64_MAX)
		return -EINVAL;
	*ret = is_below ? -(int64_t)n : (int64_t)n;
	return 0;
}

static int decode_buckets(char *s, uint64_t *list)
{
	for (size_t i = 0; i < VIEW_LATENCY_BUCKETS; i++) {
		char *end = strchr(s, ',');

		if (!end != (i == VIEW_LATENCY_BUCKETS - 1))
			return -EINVAL;
		if (end)
			*end = '\0';
		if (parse_u64(s, &list[i]) < 0)
			return -EINVAL;
		s = end + 1;
	}
	return 0;
}

static int decode_value(const struct view_field *f, char *value, void *at)
{
	uint64_t n;
	int r = 0;

	switch (f->type) {
	case VIEW_STR: r = decode_text(value); return r < 0 ? r : view_set(at, value);
	case VIEW_INT: return decode_int(value, at);
	case VIEW_BUCKETS: return decode_buckets(value, at);
	default: break;
	}
	if (parse_u64(value, &n) < 0)
		return -EINVAL;
	switch (f->type) {
	case VIEW_U32:
	case VIEW_KNOWN32:
		if (n > UINT32_MAX)
			return -EINVAL;
		*(uint32_t *)at = (uint32_t)n;
		break;
	case VIEW_BOOL:
		if (n > 1)
			return -EINVAL;
		*(bool *)at = n;
		break;
	default: *(uint64_t *)at = n; break;
	}
	return 0;
}

static int decode_pair(const struct view_kind *k, char *pair, void *item)
{
	char *value = strchr(pair, '=');

	if (!value)
		return -EINVAL;
	*value++ = '\0';
	for (const struct view_field *f = k->fields; f->key; f++)
		if (strcmp(f->key, pair) == 0)
			return decode_value(f, value, (char *)item + f->offset);
	return 0; /* of a later version */
}

static int decode_pairs(const struct view_kind *k, char *words, void *item)
{
	int r = 0;

	while (r == 0 && words) {
		char *pair = strsep(&words, " ");

		r = decode_pair(k, pair, item);
	}
	return r;
}

/* Where a line of this kind goes; *ret_kind NULL: to nowhere, it is of a later version. 0, -EINVAL, -ENOMEM. */
static int make_item(struct view *v, const char *name, const struct view_kind **ret_kind, void **ret)
{
	struct view_process *last = v->processes_len ? &v->processes[v->processes_len - 1] : NULL;
	const struct view_kind *k = NULL;
	void *item = NULL;

	if (!strcmp(name, view_kind_totals.name)) {
		k = &view_kind_totals;
		item = &v->totals;
	} else if (!strcmp(name, view_kind_device.name)) {
		k = &view_kind_device;
		item = view_add_device(v);
	} else if (!strcmp(name, view_kind_process.name)) {
		k = &view_kind_process;
		item = view_add_process(v);
	} else if (!strcmp(name, view_kind_process_device.name) || !strcmp(name, view_kind_site.name)) {
		if (!last)
			return -EINVAL;
		k = *name == 's' ? &view_kind_site : &view_kind_process_device;
		item = *name == 's' ? (void *)view_add_site(last) : (void *)view_add_process_device(last);
	} else if (!strcmp(name, view_kind_incident.name)) {
		k = &view_kind_incident;
		item = view_add_incident(v);
	} else if (!strcmp(name, view_kind_limit.name)) {
		k = &view_kind_limit;
		item = view_add_limit(v);
	} else if (!strcmp(name, view_kind_counter.name)) {
		k = &view_kind_counter;
		item = view_add_counter(v);
	} else if (!strcmp(name, view_kind_latency.name)) {
		k = &view_kind_latency;
		item = view_add_latency(v);
	}
	*ret_kind = k;
	*ret = item;
	return k && !item ? -ENOMEM : 0;
}

static int decode_line(struct view *v, char *line)
{
	char *name = strsep(&line, " ");
	const struct view_kind *k;
	void *item;
	int r = make_item(v, name, &k, &item);

	return r == 0 && k ? decode_pairs(k, line, item) : r;
}

int view_decode(const char *text, size_t len, struct view **ret)
{
	_cleanup_(view_freep) struct view *v = NULL;
	_cleanup_free_ char *copy = NULL;
	bool has_head = false, has_end = false;
	size_t items = 0;
	char *rest, *line;
	int r;

	if (!len || text[len - 1] != '\n' || memchr(text, '\0', len))
		return -EINVAL;
	v = view_new();
	copy = strndup(text, len - 1);
	if (!v || !copy)
		return -ENOMEM;
	for (rest = copy; (line = strsep(&rest, "\n"));) {
		if (has_end)
			return -EINVAL;
		if (!has_head) {
			if (strcmp(line, HEAD) != 0)
				return -EINVAL;
			has_head = true;
			continue;
		}
		has_end = strcmp(line, END) == 0;
		if (has_end)
			continue;
		if (++items > ITEMS_MAX)
			return -E2BIG;
		r = decode_line(v, line);
		if (r < 0)
			return r;
	}
	if (!has_end)
		return -EINVAL;
	*ret = TAKE_PTR(v);
	return 0;
}
