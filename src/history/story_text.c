/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "history/story_private.h"
#include "record/foreign.h"

struct text {
	struct text *next_same_hash, *next;
	char s[];
};

const char *texts_add(struct telling *t, const char *data, size_t len, int *err)
{
	struct texts *x = &t->texts;
	uint64_t hash = hash_bytes(0, data, len);
	struct text *first = map64_get(&x->by_hash, hash), *text;

	for (text = first; text; text = text->next_same_hash) {
		if (strlen(text->s) == len && memcmp(text->s, data, len) == 0)
			return text->s;
	}
	if (x->bytes + len > TELLING_TEXT_MAX) {
		t->has_unreadable = true;
		return NULL;
	}
	text = malloc(sizeof(*text) + len + 1);
	if (!text)
		goto no_memory;
	memcpy(text->s, data, len);
	text->s[len] = '\0';
	text->next_same_hash = first;
	if (map64_put(&x->by_hash, hash, text) < 0) {
		free(text);
		goto no_memory;
	}
	text->next = x->all;
	x->all = text;
	x->bytes += sizeof(*text) + len + 1;
	return text->s;
no_memory:
	*err = -ENOMEM;
	return NULL;
}

void texts_done(struct texts *x)
{
	for (struct text *text = x->all, *next; text; text = next) {
		next = text->next;
		free(text);
	}
	map64_done(&x->by_hash);
}

static bool is_clean(const char *data, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)data[i];

		if (c < 0x20 || c >= 0x7f)
			return false;
	}
	return true;
}

/* What the daemon escaped stays as it is; what it cannot have written is escaped now. */
static const char *add_clean(struct telling *t, const char *data, size_t len, bool has_lines, int *err)
{
	struct strbuf *sb = &t->scratch;

	if (!data || len == 0)
		return NULL;
	len = MIN(len, (size_t)TELLING_VALUE_MAX);
	if (is_clean(data, len))
		return texts_add(t, data, len, err);
	strbuf_reset(sb);
	for (const char *p = data, *end = data + len; p <= end;) {
		_cleanup_free_ char *line = NULL;
		const char *eol = has_lines ? memchr(p, '\n', (size_t)(end - p)) : NULL;

		if (!eol)
			eol = end;
		line = strndup(p, (size_t)(eol - p));
		if (!line) {
			*err = -ENOMEM;
			return NULL;
		}
		foreign_escaped(sb, NULL, line, SIZE_MAX);
		if (eol < end)
			strbuf_addc(sb, '\n');
		p = eol + 1;
	}
	if (sb->error) {
		*err = sb->error;
		return NULL;
	}
	return sb->len ? texts_add(t, sb->buf, sb->len, err) : NULL;
}

const char *told_text(struct telling *t, const struct entry *e, enum entry_field f, int *err)
{
	return add_clean(t, e->field[f].data, e->field[f].len, false, err);
}

const char *told_line(struct telling *t, const struct entry *e, enum entry_field f, int *err)
{
	const char *data = e->field[f].data, *eol = data ? memchr(data, '\n', e->field[f].len) : NULL;

	return add_clean(t, data, eol ? (size_t)(eol - data) : e->field[f].len, false, err);
}

const char *told_lines(struct telling *t, const struct entry *e, enum entry_field f, int *err)
{
	return add_clean(t, e->field[f].data, e->field[f].len, true, err);
}

int told_update(struct telling *t, const struct entry *e, enum entry_field f, const char **text)
{
	const char *data = e->field[f].data;
	const char *s;
	int err = 0;

	if (!data)
		return 0;
	/* Nearly always it says what it said before. */
	if (*text && strlen(*text) == e->field[f].len && memcmp(*text, data, e->field[f].len) == 0)
		return 0;
	s = told_text(t, e, f, &err);
	if (s)
		*text = s;
	return err;
}
