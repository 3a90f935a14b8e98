/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zlib.h>

#include "base/strbuf.h"
#include "stack/debug_file.h"
#include "stack/elf_layout.h"
#include "stack/elf_section.h"

#define DEBUG_FOLDER "/usr/lib/debug"

struct search {
	const struct elf_file *f;
	dev_t dev; /* of f itself: its link may name it */
	ino_t inode;
	const char *path;
	uint64_t max_crc_bytes;
	uint8_t build_id[64];
	size_t build_id_len;
	char link[NAME_MAX + 1]; /* of .gnu_debuglink; empty = none */
	uint32_t crc;
};

/* Symbolic links lead to where they lead the process: to nothing outside its root. */
static int open_in_root(int root_fd, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	long fd = syscall(SYS_openat2, root_fd, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

/* Looks before it opens, because opening a device or a pipe has effects. -errno: none to be had here. */
static int open_candidate(const struct search *s, int root_fd, const char *path)
{
	char again[sizeof("/proc/self/fd/") + 3 * sizeof(int)];
	_cleanup_close_ int at = open_in_root(root_fd, path);
	struct stat st;
	int fd;

	if (at < 0)
		return at;
	if (fstat(at, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || (st.st_dev == s->dev && st.st_ino == s->inode))
		return -ENOENT;
	(void)snprintf(again, sizeof(again), "/proc/self/fd/%d", at);
	fd = open(again, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

/* As .gnu_debuglink has it, over the whole file. 1 = the same, 0, -ENOMEM. */
static int has_checksum(const struct search *s, const struct elf_file *candidate)
{
	_cleanup_free_ uint8_t *buf = NULL;
	uint64_t at = 0;
	uLong crc = 0;
	struct stat st;

	if (fstat(candidate->fd, &st) < 0 || (uint64_t)st.st_size > s->max_crc_bytes)
		return 0;
	buf = malloc(ELF_CHUNK);
	if (!buf)
		return -ENOMEM;
	for (;;) {
		ssize_t n = elf_read_at(candidate, buf, ELF_CHUNK, at);

		if (n < 0)
			return 0;
		crc = crc32(crc, buf, (uInt)n);
		at += (uint64_t)n;
		if (n < ELF_CHUNK)
			break;
		if (at > s->max_crc_bytes)
			return 0;
	}
	return crc == s->crc;
}

/* 1 = the debug file of ours, 0, -ENOMEM. */
static int is_ours(const struct search *s, const struct elf_file *candidate)
{
	static const char *const name[] = { ".debug_line" };
	struct elf_section lines;
	uint8_t build_id[64];
	size_t len = elf_file_build_id(candidate, build_id);
	int r;

	if (!candidate->symtab.count) {
		r = elf_section_find(candidate, name, 1, &lines);
		if (r < 0)
			return r == -ENOMEM ? r : 0;
		if (!lines.stored_bytes)
			return 0;
	}
	if (len && s->build_id_len)
		return len == s->build_id_len && memcmp(build_id, s->build_id, len) == 0;
	return s->link[0] ? has_checksum(s, candidate) : 0;
}

/* 1 = found, 0, -ENOMEM. */
static int try_path(const struct search *s, int root_fd, struct strbuf *path, struct elf_file **ret)
{
	_cleanup_(elf_file_freep) struct elf_file *candidate = NULL;
	int fd, r;

	if (path->error)
		return path->error;
	fd = open_candidate(s, root_fd, path->buf);
	if (fd < 0)
		return fd == -ENOMEM ? fd : 0;
	r = elf_file_open(fd, &candidate);
	if (r >= 0)
		r = is_ours(s, candidate);
	if (r > 0)
		*ret = TAKE_PTR(candidate);
	return r < 0 && r != -ENOMEM ? 0 : r;
}

static int try_build_id(const struct search *s, int root_fd, struct elf_file **ret)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;

	if (s->build_id_len < 2)
		return 0;
	strbuf_addf(&path, DEBUG_FOLDER "/.build-id/%02x/", s->build_id[0]);
	for (size_t i = 1; i < s->build_id_len; i++)
		strbuf_addf(&path, "%02x", s->build_id[i]);
	strbuf_adds(&path, ".debug");
	return try_path(s, root_fd, &path, ret);
}

static int try_link(const struct search *s, int root_fd, struct elf_file **ret)
{
	static const struct {
		const char *before, *after; /* the file's folder */
	} places[] = { { "", "" }, { "", ".debug/" }, { DEBUG_FOLDER, "" } };
	const char *slash = strrchr(s->path, '/');
	int r = 0;

	if (!s->link[0] || !slash || s->path[0] != '/')
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(places) && r == 0; i++) {
		_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;

		strbuf_adds(&path, places[i].before);
		strbuf_add(&path, s->path, (size_t)(slash + 1 - s->path));
		strbuf_adds(&path, places[i].after);
		strbuf_adds(&path, s->link);
		r = try_path(s, root_fd, &path, ret);
	}
	return r;
}

static int search_root(const struct search *s, const char *root, struct elf_file **ret)
{
	_cleanup_close_ int root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (root_fd < 0)
		return errno == ENOMEM ? -ENOMEM : 0;
	r = try_build_id(s, root_fd, ret);
	return r ? r : try_link(s, root_fd, ret);
}

/* A file name, zeros up to the next multiple of 4, the checksum. */
static int read_link(struct search *s)
{
	static const char *const name[] = { ".gnu_debuglink" };
	char buf[sizeof(s->link) + 4 + sizeof(s->crc)];
	struct elf_section section;
	size_t len, at;
	ssize_t n;
	int r;

	r = elf_section_find(s->f, name, 1, &section);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	if (!section.stored_bytes || section.is_zlib)
		return 0;
	n = elf_read_at(s->f, buf, (size_t)MIN(section.stored_bytes, sizeof(buf)), section.offset);
	if (n <= 0)
		return 0;
	len = strnlen(buf, (size_t)n);
	at = (len + 4) & ~(size_t)3;
	/* A name only, no path: it must not lead anywhere else. */
	if (len >= sizeof(s->link) || at + sizeof(s->crc) > (size_t)n || memchr(buf, '/', len) ||
	    strcmp(buf, ".") == 0 || strcmp(buf, "..") == 0)
		return 0;
	memcpy(s->link, buf, len + 1);
	memcpy(&s->crc, buf + at, sizeof(s->crc));
	return 0;
}

int debug_file_open(const struct elf_file *f, const char *root, const char *path, uint64_t max_crc_bytes,
		    struct elf_file **ret)
{
	struct search s = { .f = f, .path = path, .max_crc_bytes = max_crc_bytes };
	struct stat st;
	int r;

	*ret = NULL;
	if (fstat(f->fd, &st) < 0)
		return 0;
	s.dev = st.st_dev;
	s.inode = st.st_ino;
	s.build_id_len = elf_file_build_id(f, s.build_id);
	r = read_link(&s);
	if (r == 0 && root)
		r = search_root(&s, root, ret);
	if (r == 0)
		r = search_root(&s, "/", ret);
	return MIN(r, 0);
}
