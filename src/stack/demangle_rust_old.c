/* SPDX-License-Identifier: MIT */
/* Rust's scheme before v0: a C++ nested name whose last part is "h" and 16 digits, with characters spelled out. */
#include <string.h>

#include "base/cleanup.h"
#include "stack/demangle_rust.h"

#define HASH_LEN 17

/* The next part of the name and its length; NULL at the end or when it is damaged. */
static const char *next_part(const char **p, size_t *ret_len)
{
	size_t len = 0;
	const char *part;

	while (**p >= '0' && **p <= '9' && len < 100000)
		len = len * 10 + (size_t)(*(*p)++ - '0');
	part = *p;
	if (!len || strnlen(part, len) < len)
		return NULL;
	*p += len;
	*ret_len = len;
	return part;
}

static bool is_hash(const char *part, size_t len)
{
	return len == HASH_LEN && part[0] == 'h' && strspn(part + 1, "0123456789abcdef") >= HASH_LEN - 1;
}

/* $LT$ and the like; $u7b$ is a character by number, kept if it is plain ASCII. Length consumed, 0 = none. */
static size_t spelled(const char *text, size_t len, char *ret)
{
	static const struct {
		const char *code;
		char c;
	} codes[] = { { "$SP$", '@' }, { "$BP$", '*' }, { "$RF$", '&' }, { "$LT$", '<' }, { "$GT$", '>' },
		      { "$LP$", '(' }, { "$RP$", ')' }, { "$C$", ',' } };
	unsigned value = 0;
	size_t at = 2;

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		const size_t n = strlen(codes[i].code);

		if (len >= n && memcmp(text, codes[i].code, n) == 0) {
			*ret = codes[i].c;
			return n;
		}
	}
	if (len < 4 || text[1] != 'u')
		return 0;
	for (; at < len && at < 4 && text[at] != '$'; at++) {
		const char c = text[at];

		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
			return 0;
		value = value * 16 + (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	if (at >= len || text[at] != '$' || value < 0x20 || value > 0x7e)
		return 0;
	*ret = (char)value;
	return at + 1;
}

static void add_part(struct strbuf *sb, const char *part, size_t len)
{
	if (len >= 2 && part[0] == '_' && part[1] == '$') {
		part++;
		len--;
	}
	while (len) {
		size_t n = 1;
		char c = *part;

		if (c == '$') {
			n = spelled(part, len, &c);
			if (!n) {
				c = '$';
				n = 1;
			}
			strbuf_addc(sb, c);
		} else if (c == '.' && len >= 2 && part[1] == '.') {
			strbuf_adds(sb, "::");
			n = 2;
		} else {
			strbuf_addc(sb, c);
		}
		part += n;
		len -= n;
	}
}

bool demangle_rust_old(struct strbuf *sb, const char *name, size_t max, bool *ret_is_cut)
{
	const size_t start = sb->len;
	const char *p, *part, *last = NULL;
	size_t len, last_len = 0;

	if (strncmp(name, "_ZN", 3) != 0)
		return false;
	p = name + 3;
	while ((part = next_part(&p, &len))) {
		last = part;
		last_len = len;
	}
	if (*p != 'E' || !last || !is_hash(last, last_len))
		return false;
	p = name + 3;
	while ((part = next_part(&p, &len)) && part != last) {
		if (sb->len > start)
			strbuf_adds(sb, "::");
		add_part(sb, part, len);
	}
	*ret_is_cut = sb->len - start > max;
	strbuf_truncate(sb, start + max);
	return true;
}
