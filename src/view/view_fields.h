/* SPDX-License-Identifier: MIT */
/* One table a kind of thing: what its members are called, on the wire and in JSON. For the view's own files. */
#pragma once

#include "view/view.h"

enum view_type {
	VIEW_STR,
	VIEW_U64,     /* 0 where nothing is said */
	VIEW_KNOWN,   /* VIEW_NONE */
	VIEW_U32,
	VIEW_KNOWN32, /* VIEW_NONE_32 */
	VIEW_INT,     /* VIEW_NONE_INT */
	VIEW_BOOL,
	VIEW_HEX,     /* uint64_t as 16 hex digits */
	VIEW_BUCKETS, /* VIEW_LATENCY_BUCKETS of uint64_t */
};

struct view_field {
	const char *key;
	enum view_type type;
	size_t offset;
};

struct view_kind {
	const char *name;
	const struct view_field *fields; /* end with key NULL */
	size_t size;
};

extern const struct view_kind view_kind_totals, view_kind_device, view_kind_process, view_kind_process_device, view_kind_site,
	view_kind_incident, view_kind_limit, view_kind_counter, view_kind_latency;

/* Nothing known. */
void view_item_init(const struct view_kind *k, void *item);
void view_item_done(const struct view_kind *k, void *item);
