/* SPDX-License-Identifier: MIT */
#include "stack/used_space.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stack/object.h"

/* More than stacks of one picture can lie in: what is older goes. */
#define USED_MAX 1024

static bool is_same(const struct mapping *m, const struct mapping *n)
{
	return m->start == n->start && m->end == n->end && m->offset == n->offset && mapping_same_file(m, n) &&
	       !m->path == !n->path && (!m->path || strcmp(m->path, n->path) == 0);
}

static const struct mapping *find_same(const struct mapping *list, size_t count, const struct mapping *m)
{
	for (size_t i = 0; i < count; i++) {
		if (is_same(&list[i], m))
			return &list[i];
	}
	return NULL;
}

static int compare_starts(const void *a, const void *b)
{
	const struct mapping *m = a, *n = b;

	return m->start < n->start ? -1 : m->start > n->start;
}

/* A space of copies of these mappings, whose paths may be anywhere. */
static struct address_space *make_space(struct mapping *list, size_t count, uint32_t pid, uint64_t start_ns)
{
	struct address_space *as = calloc(1, sizeof(*as));
	size_t bytes = 0, at = 0;

	if (!as)
		return NULL;
	for (size_t i = 0; i < count; i++)
		bytes += list[i].path ? strlen(list[i].path) + 1 : 0;
	atomic_init(&as->refs, 1);
	as->pid = pid;
	as->start_ns = start_ns;
	as->count = count;
	as->mappings = calloc(count + 1, sizeof(*as->mappings));
	as->strings = malloc(bytes + 1);
	if (!as->mappings || !as->strings) {
		address_space_unref(as);
		return NULL;
	}
	qsort(list, count, sizeof(*list), compare_starts);
	for (size_t i = 0; i < count; i++) {
		as->mappings[i] = list[i];
		if (!list[i].path)
			continue;
		as->mappings[i].path = strcpy(as->strings + at, list[i].path);
		at += strlen(list[i].path) + 1;
	}
	return as;
}

int used_space_take(struct address_space **used, struct frames *f, uint32_t pid, uint64_t start_ns)
{
	const size_t before = *used && (*used)->count + f->count <= USED_MAX ? (*used)->count : 0;
	struct mapping *list = malloc((before + f->count + 1) * sizeof(*list));
	struct address_space *as = *used;
	size_t count = before;

	if (!list)
		return -ENOMEM;
	if (before)
		memcpy(list, as->mappings, before * sizeof(*list));
	for (size_t i = 0; i < f->count; i++) {
		const struct mapping *m = f->list[i].mapping;

		if (m && !find_same(list, count, m))
			list[count++] = *m;
	}
	if (!as || as->start_ns != start_ns || count != before) {
		as = make_space(list, count, pid, start_ns);
		if (as) {
			address_space_unref(*used);
			*used = as;
		}
	}
	free(list);
	if (!as)
		return -ENOMEM;
	for (size_t i = 0; i < f->count; i++) {
		struct frame *fr = &f->list[i];

		fr->mapping = fr->mapping ? find_same(as->mappings, as->count, fr->mapping) : NULL;
	}
	address_space_unref(f->space);
	f->space = address_space_ref(as);
	return 0;
}

bool used_space_changed(const struct address_space *used, const struct address_space *now)
{
	for (size_t i = 0; used && i < used->count; i++) {
		const struct mapping *m = &used->mappings[i], *n = address_space_find(now, m->start);

		if (n && (!mapping_same_file(m, n) || m->offset - m->start != n->offset - n->start))
			return true;
	}
	return false;
}
