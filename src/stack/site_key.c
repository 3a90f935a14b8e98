/* SPDX-License-Identifier: MIT */
#include "stack/site_key.h"

#include <string.h>

#include "base/map64.h"
#include "stack/object.h"

#define BUILD_ID_MAX 64
#define STRIKES_MAX 4 /* in one stack: patterns that take too long must not hold up all others */

/* What a part of a hash is, hashed before it. Numbers stay: ids are compared over years. */
enum part {
	PART_NO_FILE = 1,
	PART_BUILD_ID,
	PART_FILE_NAME,
	PART_UNREADABLE,
	PART_PYTHON,
	PART_NATIVE,
};

struct work {
	const struct allocators *allocators;
	site_file_fn file;
	void *userdata;
	unsigned int strikes;
};

static uint64_t mix(uint64_t h, uint64_t word)
{
	return hash64(h * UINT64_C(0x9e3779b97f4a7c15) + word + 1);
}

static uint64_t mix_bytes(uint64_t h, const void *data, size_t len)
{
	h = mix(h, len);
	return hash64(hash_bytes(h, data, len));
}

static uint64_t mix_string(uint64_t h, const char *s)
{
	return s ? mix_bytes(h, s, strlen(s)) : mix(h, UINT64_MAX);
}

/* The digits after "python3.", a "t" for builds without a global lock, and the slash. Length, 0 = it is none. */
static size_t python_dir_len(const char *s)
{
	static const char name[] = "python3.";
	size_t len = strlen(name), digits;

	if (strncmp(s, name, len) != 0)
		return 0;
	digits = strspn(s + len, "0123456789");
	len += digits;
	len += s[len] == 't';
	return digits && s[len] == '/' ? len + 1 : 0;
}

/* Length of the directories at s that lead to where Python files are installed; 0 = they do not. */
static size_t install_dir_len(const char *s)
{
	static const char *const packages[] = { "site-packages/", "dist-packages/" };
	static const char *const libs[] = { "lib/", "lib64/" };

	for (size_t i = 0; i < ARRAY_SIZE(packages); i++) {
		if (strncmp(s, packages[i], strlen(packages[i])) == 0)
			return strlen(packages[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(libs); i++) {
		const size_t len = strlen(libs[i]), more = strncmp(s, libs[i], len) == 0 ? python_dir_len(s + len) : 0;

		if (more)
			return len + more;
	}
	return 0;
}

const char *python_file_short(const char *file)
{
	const char *best = file;

	for (const char *p = file; p; p = strchr(p, '/')) {
		size_t len;

		p += *p == '/';
		len = install_dir_len(p);
		if (len && p[len])
			best = p + len;
	}
	return best;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static uint64_t lookup_address(const struct frame *fr)
{
	return fr->is_exact ? fr->pc : fr->pc - 1;
}

/* Memory with a name of its own that is no file a loader has mapped. */
static bool is_memory(const struct mapping *m)
{
	static const char *const names[] = { "/memfd:", "/dev/zero", "/dev/shm/", "/SYSV" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strncmp(m->path, names[i], strlen(names[i])) == 0)
			return true;
	}
	return false;
}

static uint64_t file_name_part(const struct mapping *m, uint64_t offset)
{
	const char *name = m->path;
	size_t len = mapping_path_len(m);

	for (size_t i = 0; i < len; i++) {
		if (m->path[i] == '/')
			name = m->path + i + 1;
	}
	len -= (size_t)(name - m->path);
	return mix(mix_bytes(mix(0, PART_FILE_NAME), name, len), offset);
}

static uint64_t native_part(struct work *w, const struct frame *fr, bool *ret_has_file)
{
	const struct mapping *m = fr->mapping;
	uint8_t id[BUILD_ID_MAX];
	uint64_t offset, vaddr = 0, h;
	bool has_vaddr = false;
	size_t len;

	*ret_has_file = m && mapping_is_file(m);
	if (!*ret_has_file)
		return mix(0, PART_NO_FILE);
	offset = lookup_address(fr) - m->start + m->offset;
	len = w->file ? w->file(m, offset, id, &vaddr, &has_vaddr, w->userdata) : 0;
	if (len == 0 && is_memory(m)) {
		*ret_has_file = false;
		return mix(0, PART_NO_FILE);
	}
	if (len == 0)
		return file_name_part(m, offset);
	h = mix_bytes(mix(0, PART_BUILD_ID), id, MIN(len, sizeof(id)));
	return mix(mix(h, has_vaddr), has_vaddr ? vaddr : offset);
}

static uint64_t python_part(const struct frame *fr)
{
	const char *file = fr->file;

	if (!fr->function)
		return mix(0, PART_UNREADABLE);
	if (file) {
		file = python_file_short(file);
		if (file == fr->file)
			file = last_part(file);
	}
	return mix_string(mix_string(mix(0, PART_PYTHON), file), fr->function);
}

static uint64_t exact_part(const struct frame *fr)
{
	if (fr->kind != FRAME_PYTHON)
		return mix(mix(0, PART_NATIVE), fr->pc);
	return mix(mix_string(mix_string(mix(0, PART_PYTHON), fr->file), fr->function), fr->line);
}

static void add_frame(struct work *w, const struct frame *fr, uint64_t *id, uint64_t *site)
{
	uint64_t part;
	bool has_file;

	if (fr->kind == FRAME_PYTHON) {
		part = python_part(fr);
		*id = mix(*id, part);
		*site = mix(mix(*site, part), fr->line);
		return;
	}
	part = native_part(w, fr, &has_file);
	*id = mix(*id, part);
	*site = mix(*site, part);
	if (!has_file)
		*site = mix(*site, fr->pc);
}

static bool is_allocator(struct work *w, const struct frame *fr)
{
	if (!w->allocators)
		return false;
	if (fr->kind == FRAME_PYTHON)
		return fr->file && allocators_match(w->allocators, fr->file, strlen(fr->file), &w->strikes);
	return fr->mapping && fr->mapping->path &&
	       allocators_match(w->allocators, fr->mapping->path, mapping_path_len(fr->mapping), &w->strikes);
}

/* Neighbours in a stack are often of one file. */
static bool is_same_file(const struct frame *a, const struct frame *b)
{
	return a->kind == FRAME_NATIVE && b->kind == FRAME_NATIVE && a->mapping == b->mapping;
}

/* True if any frame is not. */
static bool mark_allocators(struct work *w, struct frames *f)
{
	bool has_other = false;

	for (size_t i = 0; i < f->count; i++) {
		struct frame *fr = &f->list[i];

		fr->is_allocator = i > 0 && is_same_file(fr, fr - 1) ? fr[-1].is_allocator : is_allocator(w, fr);
		has_other |= !fr->is_allocator;
	}
	return has_other;
}

void site_key_set(struct frames *f, const struct allocators *a, site_file_fn file, void *userdata)
{
	struct work w = { .allocators = a, .file = file, .userdata = userdata, .strikes = STRIKES_MAX };
	const bool has_other = mark_allocators(&w, f);
	uint64_t id = 0, site = 0, exact = 0;

	for (size_t i = 0; i < f->count; i++) {
		const struct frame *fr = &f->list[i];

		exact = mix(exact, exact_part(fr));
		if (!fr->is_allocator || !has_other)
			add_frame(&w, fr, &id, &site);
	}
	f->id = id || !f->count ? id : 1;
	f->site = site || !f->count ? site : 1;
	f->exact = exact || !f->count ? exact : 1;
}
