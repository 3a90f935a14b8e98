/* SPDX-License-Identifier: MIT */
#include "proc/procfs.h"

#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/map64.h"
#include "base/strbuf.h"

#define MAPS_TEXT_MAX ((size_t)64 << 20)

/* An address space under construction: paths are offsets until their storage stops moving. */
struct maps_builder {
	struct mapping *mappings;
	size_t *paths; /* offset of each mapping's path in strings */
	size_t count, cap;
	struct strbuf strings; /* paths, each with its NUL */
	struct map64 known;    /* hash of a path -> offset + 1 of the first path with it */
	uint64_t seed;	       /* of that hash: a process must not choose paths that all collide */
};

static void maps_builder_done(struct maps_builder *b)
{
	free(b->mappings);
	free(b->paths);
	strbuf_done(&b->strings);
	map64_done(&b->known);
}

/* A number in base 10 or 16 at *s, ended by the character end; moves *s behind that. */
static bool maps_number(const char **s, unsigned int base, char end, uint64_t *ret)
{
	const char *p = *s;
	uint64_t v = 0;

	for (;; p++) {
		unsigned int digit;

		if (*p >= '0' && *p <= '9')
			digit = (unsigned int)(*p - '0');
		else if (base == 16 && *p >= 'a' && *p <= 'f')
			digit = (unsigned int)(*p - 'a') + 10;
		else
			break;
		if (v > (UINT64_MAX - digit) / base)
			return false;
		v = v * base + digit;
	}
	if (p == *s || *p != end)
		return false;
	*s = p + 1;
	*ret = v;
	return true;
}

/*
 * "start-end perms offset major:minor inode      path". False when it is not that, or not executable. The numbers end
 * within the line because none of them may contain a newline.
 */
static bool maps_line(const char *line, const char *end, struct mapping *ret, const char **ret_path)
{
	struct mapping m = { 0 };
	const char *p = line;
	uint64_t major, minor;

	if (!maps_number(&p, 16, '-', &m.start) || !maps_number(&p, 16, ' ', &m.end) || m.start >= m.end)
		return false;
	if (end - p < 5 || p[2] != 'x' || p[4] != ' ')
		return false;
	p += 5;
	if (!maps_number(&p, 16, ' ', &m.offset) || !maps_number(&p, 16, ':', &major) ||
	    !maps_number(&p, 16, ' ', &minor) || major > UINT32_MAX || minor > UINT32_MAX)
		return false;
	/* A mapping of nothing has no path, and older kernels no blank either. */
	if (!maps_number(&p, 10, ' ', &m.inode)) {
		if (!maps_number(&p, 10, *end, &m.inode) || p != end + 1)
			return false;
		p = end;
	}
	while (p < end && *p == ' ')
		p++;
	m.dev_major = (uint32_t)major;
	m.dev_minor = (uint32_t)minor;
	*ret = m;
	*ret_path = p;
	return true;
}

/* The offset of the path in the common storage; most mappings of a process repeat one that is there already. */
static int maps_intern(struct maps_builder *b, const char *path, size_t len, size_t *ret)
{
	uint64_t key = hash_bytes(b->seed, path, len);
	void *known = map64_get(&b->known, key);
	size_t offset;
	int r;

	if (known) {
		offset = (size_t)(uintptr_t)known - 1;
		if (b->strings.len - offset > len && memcmp(b->strings.buf + offset, path, len) == 0 &&
		    b->strings.buf[offset + len] == '\0') {
			*ret = offset;
			return 0;
		}
	}
	offset = b->strings.len;
	strbuf_add(&b->strings, path, len);
	strbuf_addc(&b->strings, '\0');
	if (b->strings.error)
		return b->strings.error;
	if (!known) {
		r = map64_put(&b->known, key, (void *)(uintptr_t)(offset + 1));
		if (r < 0)
			return r;
	}
	*ret = offset;
	return 0;
}

static int maps_add(struct maps_builder *b, const struct mapping *m, const char *path, size_t len)
{
	size_t offset = 0;
	int r;

	if (b->count == b->cap) {
		size_t cap = b->cap ? b->cap * 2 : 64;
		struct mapping *mappings;
		size_t *paths;

		mappings = realloc(b->mappings, cap * sizeof(*mappings));
		if (!mappings)
			return -ENOMEM;
		b->mappings = mappings;
		paths = realloc(b->paths, cap * sizeof(*paths));
		if (!paths)
			return -ENOMEM;
		b->paths = paths;
		b->cap = cap;
	}
	r = maps_intern(b, path, len, &offset);
	if (r < 0)
		return r;
	b->mappings[b->count] = *m;
	b->paths[b->count++] = offset;
	return 0;
}

static int maps_finish(struct maps_builder *b, uint32_t pid, uint64_t start_ns, struct address_space **ret)
{
	_cleanup_(address_space_unrefp) struct address_space *as = NULL;
	int r;

	as = calloc(1, sizeof(*as));
	if (!as)
		return -ENOMEM;
	atomic_init(&as->refs, 1);
	r = strbuf_steal(&b->strings, &as->strings);
	if (r < 0)
		return r;
	/* These live as long as the last stack of the process: give back what growing left over. */
	if (b->count > 0 && b->count < b->cap) {
		struct mapping *exact = realloc(b->mappings, b->count * sizeof(*exact));

		if (exact)
			b->mappings = exact;
	}
	as->pid = pid;
	as->start_ns = start_ns;
	as->count = b->count;
	as->mappings = TAKE_PTR(b->mappings);
	for (size_t i = 0; i < as->count; i++)
		as->mappings[i].path = as->strings + b->paths[i];
	*ret = TAKE_PTR(as);
	return 0;
}

int maps_parse(const char *text, uint32_t pid, uint64_t start_ns, struct address_space **ret)
{
	_cleanup_(maps_builder_done) struct maps_builder b = { 0 };
	uint64_t last_end = 0;

	b.seed = hash64(clock_monotonic_ns() ^ (uintptr_t)&b);
	for (const char *line = text; *line;) {
		const char *end = strchrnul(line, '\n'), *path = NULL;
		struct mapping m;

		/* Read in pieces while the process maps and unmaps, the text may step back: keep it ascending. */
		if (maps_line(line, end, &m, &path) && m.start >= last_end) {
			int r = maps_add(&b, &m, path, (size_t)(end - path));

			if (r < 0)
				return r;
			last_end = m.end;
		}
		line = *end ? end + 1 : end;
	}
	return maps_finish(&b, pid, start_ns, ret);
}

int maps_read(const char *proc_root, uint32_t pid, uint64_t start_ns, struct address_space **ret)
{
	_cleanup_close_ int fd = proc_open(proc_root, pid);
	_cleanup_free_ char *text = NULL;
	struct proc_stat st;
	size_t len;
	int r;

	if (fd < 0)
		return fd;
	if (start_ns != 0) {
		r = proc_stat_read_at(fd, &st);
		if (r < 0)
			return r;
		if (st.start_ticks != ticks_from_ns(start_ns))
			return -ESRCH;
	}
	r = file_read_head(fd, "maps", MAPS_TEXT_MAX, &text, &len);
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	if (len == MAPS_TEXT_MAX) {
		/* Probably cut within a line, which must not pass for a whole one. */
		while (len > 0 && text[len - 1] != '\n')
			len--;
		text[len] = '\0';
	}
	return maps_parse(text, pid, start_ns, ret);
}
