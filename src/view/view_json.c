/* SPDX-License-Identifier: MIT */
#include <inttypes.h>

#include "base/text.h"
#include "view/view_fields.h"

static void json_buckets(struct strbuf *sb, const char *key, const uint64_t *list)
{
	json_key(sb, key);
	for (size_t i = 0; i < VIEW_LATENCY_BUCKETS; i++)
		strbuf_addf(sb, "%c%" PRIu64, i ? ',' : '[', list[i]);
	strbuf_addc(sb, ']');
}

static void json_hex(struct strbuf *sb, const char *key, uint64_t value)
{
	json_key(sb, key);
	strbuf_addf(sb, value ? "\"%016" PRIx64 "\"" : "null", value);
}

static void json_int(struct strbuf *sb, const char *key, int64_t value)
{
	json_key(sb, key);
	strbuf_addf(sb, value == VIEW_NONE_INT ? "null" : "%" PRId64, value);
}

/* The members, without braces. */
static void json_fields(const struct view_kind *k, const void *item, struct strbuf *sb)
{
	for (const struct view_field *f = k->fields; f->key; f++) {
		const void *at = (const char *)item + f->offset;

		switch (f->type) {
		case VIEW_STR: json_str(sb, f->key, *(char *const *)at); break;
		case VIEW_U64: json_u64(sb, f->key, *(const uint64_t *)at); break;
		case VIEW_KNOWN: json_known(sb, f->key, *(const uint64_t *)at); break;
		case VIEW_U32: json_u64(sb, f->key, *(const uint32_t *)at); break;
		case VIEW_KNOWN32:
			json_known(sb, f->key, *(const uint32_t *)at == VIEW_NONE_32 ? VIEW_NONE : *(const uint32_t *)at);
			break;
		case VIEW_INT: json_int(sb, f->key, *(const int64_t *)at); break;
		case VIEW_BOOL: json_bool(sb, f->key, *(const bool *)at); break;
		case VIEW_HEX: json_hex(sb, f->key, *(const uint64_t *)at); break;
		case VIEW_BUCKETS: json_buckets(sb, f->key, at); break;
		}
	}
}

static void json_list(const struct view_kind *k, const char *key, const void *list, size_t len, struct strbuf *sb)
{
	json_key(sb, key);
	strbuf_addc(sb, '[');
	for (size_t i = 0; i < len; i++) {
		json_open(sb);
		json_fields(k, (const char *)list + i * k->size, sb);
		strbuf_addc(sb, '}');
	}
	strbuf_addc(sb, ']');
}

static void json_process(const struct view_process *p, struct strbuf *sb)
{
	json_fields(&view_kind_process, p, sb);
	json_list(&view_kind_process_device, "devices", p->devices, p->devices_len, sb);
	json_list(&view_kind_site, "sites", p->sites, p->sites_len, sb);
	strbuf_addc(sb, '}');
}

void view_json_process(const struct view_process *p, struct strbuf *sb)
{
	strbuf_addc(sb, '{');
	json_process(p, sb);
}

void view_json(const struct view *v, struct strbuf *sb)
{
	strbuf_addc(sb, '{');
	json_key(sb, "totals");
	strbuf_addc(sb, '{');
	json_fields(&view_kind_totals, &v->totals, sb);
	strbuf_addc(sb, '}');
	json_list(&view_kind_device, "devices", v->devices, v->devices_len, sb);
	json_key(sb, "processes");
	strbuf_addc(sb, '[');
	for (size_t i = 0; i < v->processes_len; i++) {
		json_open(sb);
		json_process(&v->processes[i], sb);
	}
	strbuf_addc(sb, ']');
	json_list(&view_kind_incident, "incidents", v->incidents, v->incidents_len, sb);
	json_list(&view_kind_limit, "limits", v->limits, v->limits_len, sb);
	json_list(&view_kind_counter, "counters", v->counters, v->counters_len, sb);
	json_list(&view_kind_latency, "latencies", v->latencies, v->latencies_len, sb);
	strbuf_adds(sb, "}\n");
}
