/* SPDX-License-Identifier: MIT */
/* Are the maps that an earlier daemon left the ones that our programs expect? */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "base/map64.h"
#include "trace/calls.h"
#include "trace/keep.h"
#include "trace/skeleton.h"

#define TYPE_DEPTH_MAX 16

/* Constants are of one load and frozen in its programs. Everything else is state. */
static bool is_state(const struct bpf_map *map)
{
	const char *name = bpf_map__name(map);

	return !strstr(name, ".rodata") && !strstr(name, ".kconfig");
}

static void map_name(const struct bpf_map *map, char *ret, size_t size)
{
	snprintf(ret, size, "map-%s", bpf_map__name(map));
}

static uint64_t digest_word(uint64_t h, uint64_t v)
{
	return hash_bytes(h, &v, sizeof(v));
}

static uint64_t digest_type(const struct btf *btf, uint32_t id, uint64_t h, int depth);

static uint64_t digest_members(const struct btf *btf, const struct btf_type *t, uint64_t h, int depth)
{
	const struct btf_member *m = btf_members(t);

	for (uint32_t i = 0; i < btf_vlen(t); i++) {
		h = hash_str(h, btf__name_by_offset(btf, m[i].name_off) ?: "");
		h = digest_word(h, btf_member_bit_offset(t, i));
		h = digest_type(btf, m[i].type, h, depth + 1);
	}
	return h;
}

static uint64_t digest_section(const struct btf *btf, const struct btf_type *t, uint64_t h, int depth)
{
	const struct btf_var_secinfo *v = btf_var_secinfos(t);

	for (uint32_t i = 0; i < btf_vlen(t); i++) {
		const struct btf_type *var = btf__type_by_id(btf, v[i].type);

		if (!var)
			continue;
		h = hash_str(h, btf__name_by_offset(btf, var->name_off) ?: "");
		h = digest_word(h, v[i].offset);
		h = digest_type(btf, var->type, h, depth + 1);
	}
	return h;
}

/* How a type lies in memory, and what its parts are called. */
static uint64_t digest_type(const struct btf *btf, uint32_t id, uint64_t h, int depth)
{
	const struct btf_type *t = btf__type_by_id(btf, id);

	while (t && (btf_is_mod(t) || btf_is_typedef(t)))
		t = btf__type_by_id(btf, t->type);
	if (!t || depth > TYPE_DEPTH_MAX)
		return h;
	h = digest_word(h, btf_kind(t));
	if (btf_is_array(t)) {
		h = digest_word(h, btf_array(t)->nelems);
		return digest_type(btf, btf_array(t)->type, h, depth + 1);
	}
	if (btf_is_ptr(t))
		return h;
	if (btf_is_datasec(t))
		return digest_section(btf, t, h, depth);
	h = digest_word(h, t->size);
	return btf_is_composite(t) ? digest_members(btf, t, h, depth) : h;
}

static uint64_t digest_types(struct bpf_object *obj)
{
	const struct btf *btf = bpf_object__btf(obj);
	struct bpf_map *map;
	uint64_t h = 0;

	bpf_object__for_each_map(map, obj) {
		const char *name = bpf_map__name(map), *section = strchr(name, '.');
		int id;

		if (!is_state(map))
			continue;
		h = hash_str(h, name);
		h = digest_type(btf, bpf_map__btf_key_type_id(map), h, 0);
		id = section ? btf__find_by_name_kind(btf, section, BTF_KIND_DATASEC)
			     : (int)bpf_map__btf_value_type_id(map);
		if (id > 0)
			h = digest_type(btf, (uint32_t)id, h, 0);
	}
	return h;
}

/* The programs of kept probes have their constants for good; the maps their sizes. */
static uint64_t digest_limits(const struct tracer *t)
{
	struct bpf_map *map;
	uint64_t h = 0;

	bpf_object__for_each_map(map, t->skel->obj) {
		if (is_state(map)) {
			h = digest_word(h, bpf_map__max_entries(map));
		} else {
			size_t size = 0;
			const void *data = bpf_map__initial_value(map, &size);

			h = data ? hash_bytes(h, data, size) : h;
		}
	}
	return hash_bytes(h, t->options.pids, t->options.pids_len * sizeof(*t->options.pids));
}

void tracer_about(const struct tracer *t, struct about *ret)
{
	*ret = (struct about){ .layout = EVENT_LAYOUT, .digest = calls_digest(), .limits_digest = digest_limits(t),
			       .types_digest = digest_types(t->skel->obj) };
}

static const char *compare_about(const struct about *a, const struct about *b)
{
	if (a->layout != b->layout || a->types_digest != b->types_digest)
		return "they are of a version with another layout";
	if (a->digest != b->digest)
		return "other calls are probed now";
	if (a->limits_digest != b->limits_digest)
		return "other limits or processes are configured now";
	return NULL;
}

static bool is_same_map(const struct bpf_map *map, int fd)
{
	struct bpf_map_info info = {};
	uint32_t len = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &len) == 0 && info.type == bpf_map__type(map) &&
	       info.key_size == bpf_map__key_size(map) && info.value_size == bpf_map__value_size(map) &&
	       info.max_entries == bpf_map__max_entries(map);
}

/* NULL, or why not. */
static const char *why_not(struct tracer *t, struct about *ret)
{
	struct about ours, theirs = {};
	struct bpf_map_info info = {};
	uint32_t zero = 0, len = sizeof(info);
	int fd = keep_peek(t->options.keep, "map-about");
	const char *why;
	struct bpf_map *map;

	if (!keep_is_complete(t->options.keep))
		return "some of them are missing";
	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) < 0 || info.value_size != sizeof(theirs) ||
	    bpf_map_lookup_elem(fd, &zero, &theirs) < 0)
		return "they are of a version with another layout";
	tracer_about(t, &ours);
	why = compare_about(&theirs, &ours);
	if (why)
		return why;
	bpf_object__for_each_map(map, t->skel->obj) {
		char name[64];

		if (!is_state(map))
			continue;
		map_name(map, name, sizeof(name));
		fd = keep_peek(t->options.keep, name);
		if (fd < 0 || !is_same_map(map, fd))
			return "a map is missing or of another size";
	}
	*ret = theirs;
	return NULL;
}

const char *tracer_reuse_maps(struct tracer *t)
{
	struct about about;
	const char *why = why_not(t, &about);
	struct bpf_map *map;

	if (why)
		return why;
	bpf_object__for_each_map(map, t->skel->obj) {
		char name[64];

		if (!is_state(map))
			continue;
		map_name(map, name, sizeof(name));
		if (bpf_map__reuse_fd(map, keep_peek(t->options.keep, name)) < 0)
			return "a map cannot be used again";
	}
	memcpy(t->id, about.id, sizeof(t->id));
	return NULL;
}

void tracer_release_maps(struct tracer *t)
{
	struct bpf_map *map;

	/* libbpf has made copies of them. */
	bpf_object__for_each_map(map, t->skel->obj) {
		char name[64];
		int fd;

		map_name(map, name, sizeof(name));
		fd = is_state(map) ? keep_take(t->options.keep, name) : -1;
		if (fd >= 0)
			(void)close(fd);
	}
}

void tracer_store_maps(struct tracer *t)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, t->skel->obj) {
		char name[64];

		map_name(map, name, sizeof(name));
		if (is_state(map))
			keep_store(t->options.keep, name, bpf_map__fd(map));
	}
}

/* What the resolver of an earlier daemon has taught the probes names stacks that ours cannot take back: it learns
 * anew. */
void tracer_forget_paths(struct tracer *t)
{
	int fd = bpf_map__fd(t->skel->maps.paths);
	uint64_t key;

	while (bpf_map_get_next_key(fd, NULL, &key) == 0)
		if (bpf_map_delete_elem(fd, &key) < 0 && errno != ENOENT)
			return;
}
