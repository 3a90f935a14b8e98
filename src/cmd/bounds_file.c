/* SPDX-License-Identifier: MIT */
#include "cmd/bounds_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

#define HEAD "gpuxray bounds 1\n"
#define ID_DIGITS 16

void bounds_begin(struct strbuf *sb)
{
	strbuf_adds(sb, HEAD);
}

void bounds_add(struct strbuf *sb, const struct bound_line *l)
{
	strbuf_addf(sb, "%016" PRIx64 " %" PRIu64 " %" PRIu32 "\n", l->id, l->bytes, l->day);
}

/* Digits up to a byte that ends them. Nothing else is taken: no sign, no space, nothing that does not fit. */
static bool take_number(const char **at, const char *end, unsigned int base, char stop, uint64_t max, uint64_t *ret)
{
	const char *start = *at;
	uint64_t n = 0;

	for (; *at < end && **at != stop; (*at)++) {
		const char c = **at;
		unsigned int digit = c >= '0' && c <= '9' ? (unsigned int)(c - '0') :
				     c >= 'a' && c <= 'f' ? (unsigned int)(c - 'a') + 10 : 16;

		if (digit >= base || n > (max - digit) / base)
			return false;
		n = n * base + digit;
	}
	if (*at == start || *at == end)
		return false;
	(*at)++;
	*ret = n;
	return true;
}

/* Up to and with its newline. */
static bool parse_line(const char *at, const char *end, struct bound_line *ret)
{
	const char *start = at;
	uint64_t day;

	if (!take_number(&at, end, 16, ' ', UINT64_MAX, &ret->id) || at - start != ID_DIGITS + 1 || ret->id == 0)
		return false;
	if (!take_number(&at, end, 10, ' ', UINT64_MAX, &ret->bytes) || ret->bytes == 0 ||
	    !take_number(&at, end, 10, '\n', UINT32_MAX, &day) || at != end)
		return false;
	ret->day = (uint32_t)day;
	return true;
}

int bounds_parse(const char *text, size_t len, uint32_t today, void (*one)(const struct bound_line *l, void *userdata),
		 void *userdata, size_t *ret_bad)
{
	const char *at = text, *end = text + len;
	size_t lines = 0, bad = 0;

	if (len < strlen(HEAD) || memcmp(text, HEAD, strlen(HEAD)) != 0)
		return -EINVAL;
	at += strlen(HEAD);
	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at)), *next = newline ? newline + 1 : end;
		struct bound_line l;

		if (!parse_line(at, next, &l) || lines >= BOUNDS_LINES_MAX) {
			bad++;
		} else {
			lines++;
			l.day = MIN(l.day, today);
			if (today - l.day <= BOUNDS_DAYS_MAX)
				one(&l, userdata);
		}
		at = next;
	}
	*ret_bad = bad;
	return 0;
}

int bounds_write(const char *path, const char *text, size_t len)
{
	_cleanup_free_ char *path_new = NULL;
	_cleanup_close_ int fd = -1;
	int r;

	if (asprintf(&path_new, "%s.new", path) < 0) {
		path_new = NULL;
		return -ENOMEM;
	}
	(void)unlink(path_new);
	fd = open(path_new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	/* Not synchronised: that waits for the disk, and what a crash of the host leaves is checked when it is read. */
	r = file_write_all(fd, text, len);
	if (r == 0 && rename(path_new, path) < 0)
		r = -errno;
	if (r < 0)
		(void)unlink(path_new);
	return r;
}
