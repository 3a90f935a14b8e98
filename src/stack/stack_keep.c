/* SPDX-License-Identifier: MIT */
#include "stack/stack_keep.h"

#include <errno.h>
#include <string.h>

/* More than stacks have; a file that claims more is not one of ours. */
#define FRAMES_MAX 8192
#define MAPPINGS_MAX 4096
#define NO_MAPPING UINT32_MAX

#define FLAG_ALLOCATOR 1
#define FLAG_EXACT 2
#define FLAG_SIGNAL 4
#define FLAG_GUESSED 8

/* Mappings of a stack are few: it lies in a handful of libraries. */
static uint32_t index_of(const struct mapping **list, size_t count, const struct mapping *m)
{
	for (size_t i = 0; i < count; i++)
		if (list[i] == m)
			return (uint32_t)i;
	return NO_MAPPING;
}

/* Each once, by address, as they stand in the space. The number of them; SIZE_MAX without memory. */
static size_t used_mappings(const struct frames *f, const struct mapping ***ret)
{
	const struct mapping **list = calloc(f->count + 1, sizeof(*list));
	size_t n = 0;

	if (!list)
		return SIZE_MAX;
	for (size_t i = 0; i < f->count; i++) {
		const struct mapping *m = f->list[i].kind == FRAME_NATIVE ? f->list[i].mapping : NULL;
		size_t at = n;

		if (!m || index_of(list, n, m) != NO_MAPPING)
			continue;
		while (at > 0 && list[at - 1]->start > m->start)
			at--;
		memmove(list + at + 1, list + at, (n - at) * sizeof(*list));
		list[at] = m;
		n++;
	}
	*ret = list;
	return n;
}

static void pack_mapping(struct strbuf *sb, const struct mapping *m)
{
	pack_u64(sb, m->start);
	pack_u64(sb, m->end);
	pack_u64(sb, m->offset);
	pack_u32(sb, m->dev_major);
	pack_u32(sb, m->dev_minor);
	pack_u64(sb, m->inode);
	pack_str(sb, m->path);
}

static void pack_frame(struct strbuf *sb, const struct frame *f, uint32_t mapping)
{
	pack_u8(sb, f->kind);
	pack_u8(sb, (uint8_t)((f->is_allocator ? FLAG_ALLOCATOR : 0) | (f->is_exact ? FLAG_EXACT : 0) |
			      (f->is_signal ? FLAG_SIGNAL : 0) | (f->is_guessed ? FLAG_GUESSED : 0)));
	pack_u64(sb, f->pc);
	if (f->kind == FRAME_NATIVE) {
		pack_u32(sb, mapping);
		return;
	}
	pack_str(sb, f->function);
	pack_str(sb, f->file);
	pack_u32(sb, f->line);
}

void frames_pack(struct strbuf *sb, const struct frames *f)
{
	_cleanup_free_ const struct mapping **list = NULL;
	const size_t n = used_mappings(f, &list);

	if (n == SIZE_MAX) {
		sb->error = -ENOMEM;
		return;
	}
	pack_u64(sb, f->site);
	pack_u64(sb, f->id);
	pack_u64(sb, f->exact);
	pack_str(sb, f->info);
	pack_u8(sb, f->space ? 1 : 0);
	pack_u32(sb, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		pack_mapping(sb, list[i]);
	pack_u32(sb, (uint32_t)f->count);
	for (size_t i = 0; i < f->count; i++)
		pack_frame(sb, &f->list[i], index_of(list, n, f->list[i].mapping));
}

static char *store(char **at, struct unpack *u)
{
	const char *s;
	size_t len;
	char *copy = *at;

	if (!unpack_view(u, &s, &len))
		return NULL;
	memcpy(copy, s, len);
	copy[len] = '\0';
	*at += len + 1;
	return copy;
}

static int unpack_space(struct unpack *u, uint32_t pid, uint64_t start_ns, struct address_space **ret)
{
	_cleanup_(address_space_unrefp) struct address_space *as = NULL;
	const bool has_space = unpack_u8(u) != 0;
	const uint32_t n = unpack_u32(u);
	char *at;

	if (u->is_bad || n > MAPPINGS_MAX || (n && !has_space))
		return -EINVAL;
	if (!has_space)
		return 0;
	as = calloc(1, sizeof(*as));
	if (!as)
		return -ENOMEM;
	atomic_init(&as->refs, 1);
	as->pid = pid;
	as->start_ns = start_ns;
	as->mappings = calloc(n + 1, sizeof(*as->mappings));
	/* A string takes its length, of four bytes, and itself: there is room for all and their ends. */
	as->strings = at = malloc(u->left + 1);
	if (!as->mappings || !as->strings)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		struct mapping *m = &as->mappings[i];

		m->start = unpack_u64(u);
		m->end = unpack_u64(u);
		m->offset = unpack_u64(u);
		m->dev_major = unpack_u32(u);
		m->dev_minor = unpack_u32(u);
		m->inode = unpack_u64(u);
		m->path = store(&at, u);
		if (u->is_bad || m->start >= m->end || (i > 0 && m->start < m[-1].end))
			return -EINVAL;
		as->count++;
	}
	*ret = TAKE_PTR(as);
	return 0;
}

static int unpack_frame(struct unpack *u, const struct address_space *as, char **at, struct frame *ret)
{
	uint8_t flags;
	uint32_t mapping;

	ret->kind = unpack_u8(u);
	flags = unpack_u8(u);
	ret->is_allocator = flags & FLAG_ALLOCATOR;
	ret->is_exact = flags & FLAG_EXACT;
	ret->is_signal = flags & FLAG_SIGNAL;
	ret->is_guessed = flags & FLAG_GUESSED;
	ret->pc = unpack_u64(u);
	if (ret->kind == FRAME_PYTHON) {
		ret->function = store(at, u);
		ret->file = store(at, u);
		ret->line = unpack_u32(u);
		return u->is_bad ? -EINVAL : 0;
	}
	mapping = unpack_u32(u);
	if (u->is_bad || ret->kind != FRAME_NATIVE || (mapping != NO_MAPPING && (!as || mapping >= as->count)))
		return -EINVAL;
	if (mapping != NO_MAPPING) {
		const struct mapping *m = &as->mappings[mapping];
		const uint64_t pc = ret->pc - !ret->is_exact;

		if (pc < m->start || pc >= m->end)
			return -EINVAL;
		ret->mapping = m;
	}
	return 0;
}

int frames_unpack(struct unpack *u, uint32_t pid, uint64_t start_ns, struct frames **ret)
{
	_cleanup_(frames_freep) struct frames *f = calloc(1, sizeof(*f));
	uint32_t n;
	char *at;
	int r;

	if (!f)
		return -ENOMEM;
	f->site = unpack_u64(u);
	f->id = unpack_u64(u);
	f->exact = unpack_u64(u);
	f->info = unpack_str(u);
	r = unpack_space(u, pid, start_ns, &f->space);
	if (r < 0)
		return r;
	n = unpack_u32(u);
	if (u->is_bad || n > FRAMES_MAX)
		return -EINVAL;
	f->list = calloc(n + 1, sizeof(*f->list));
	f->strings = at = malloc(u->left + 1);
	if (!f->list || !f->strings)
		return -ENOMEM;
	for (uint32_t i = 0; i < n && r == 0; i++) {
		r = unpack_frame(u, f->space, &at, &f->list[i]);
		f->count++;
	}
	if (r < 0 || !unpack_is_good(u))
		return r < 0 ? r : -EINVAL;
	if (at == f->strings)
		free(TAKE_PTR(f->strings));
	*ret = TAKE_PTR(f);
	return 0;
}
