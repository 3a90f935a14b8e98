/* SPDX-License-Identifier: MIT */
#include "base/pack.h"

#include <string.h>

#define LENGTH_NULL UINT32_MAX

void pack_u8(struct strbuf *sb, uint8_t v)
{
	strbuf_add(sb, &v, sizeof(v));
}

void pack_u32(struct strbuf *sb, uint32_t v)
{
	strbuf_add(sb, &v, sizeof(v));
}

void pack_u64(struct strbuf *sb, uint64_t v)
{
	strbuf_add(sb, &v, sizeof(v));
}

void pack_bytes(struct strbuf *sb, const void *data, size_t len)
{
	strbuf_add(sb, data, len);
}

void pack_str(struct strbuf *sb, const char *s)
{
	const size_t len = s ? strlen(s) : 0;

	pack_u32(sb, s ? (uint32_t)len : LENGTH_NULL);
	if (s)
		strbuf_add(sb, s, len);
}

static const char *take(struct unpack *u, size_t len)
{
	const char *at = u->at;

	if (u->is_bad || len > u->left) {
		u->is_bad = true;
		return NULL;
	}
	u->at += len;
	u->left -= len;
	return at;
}

void unpack_bytes(struct unpack *u, void *ret, size_t len)
{
	const char *at = take(u, len);

	if (at)
		memcpy(ret, at, len);
	else
		memset(ret, 0, len);
}

uint8_t unpack_u8(struct unpack *u)
{
	uint8_t v;

	unpack_bytes(u, &v, sizeof(v));
	return v;
}

uint32_t unpack_u32(struct unpack *u)
{
	uint32_t v;

	unpack_bytes(u, &v, sizeof(v));
	return v;
}

uint64_t unpack_u64(struct unpack *u)
{
	uint64_t v;

	unpack_bytes(u, &v, sizeof(v));
	return v;
}

bool unpack_view(struct unpack *u, const char **ret, size_t *ret_len)
{
	const uint32_t len = unpack_u32(u);
	const char *at;

	*ret = NULL;
	*ret_len = 0;
	if (u->is_bad || len == LENGTH_NULL)
		return false;
	at = take(u, len);
	if (!at)
		return false;
	if (memchr(at, '\0', len)) {
		u->is_bad = true;
		return false;
	}
	*ret = at;
	*ret_len = len;
	return true;
}

char *unpack_str(struct unpack *u)
{
	const char *at;
	size_t len;
	char *s;

	if (!unpack_view(u, &at, &len))
		return NULL;
	s = strndup(at, len);
	if (!s)
		u->is_bad = true;
	return s;
}

bool unpack_is_good(const struct unpack *u)
{
	return !u->is_bad && u->left == 0;
}
