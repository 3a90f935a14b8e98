/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "history/story_private.h"

static bool parse_id(const char *hex, size_t len, uint64_t *ret)
{
	uint64_t id = 0;

	if (len != 16)
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)hex[i];

		if (!isxdigit(c))
			return false;
		id = id << 4 | (uint64_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
	}
	*ret = id;
	return true;
}

struct call_site *stack_find(struct telling *t, const char *hex, size_t len, int *err)
{
	struct call_site *st;
	uint64_t id;

	if (!parse_id(hex, len, &id)) {
		t->has_unreadable = true;
		return NULL;
	}
	st = map64_get(&t->stack_map, id);
	if (st)
		return st;
	if (t->stacks_len == TELLING_STACKS_MAX) {
		t->story.left_out.stacks++;
		return NULL;
	}
	st = calloc(1, sizeof(*st));
	if (!st || PUSH(t->stacks, t->stacks_len, t->stacks_cap, st) < 0) {
		free(st);
		*err = -ENOMEM;
		return NULL;
	}
	st->id = id;
	snprintf(st->hex, sizeof(st->hex), "%016" PRIx64, id);
	st->s.id = st->hex;
	*err = map64_put(&t->stack_map, id, st) < 0 ? -ENOMEM : *err;
	return st;
}

struct call_site *told_stack(struct telling *t, const struct entry *e, int *err)
{
	struct call_site *st;

	if (!e->field[ENTRY_STACK_ID].data)
		return NULL;
	st = stack_find(t, e->field[ENTRY_STACK_ID].data, e->field[ENTRY_STACK_ID].len, err);
	if (!st || st->s.text || t->stack_texts == STORY_STACKS_MAX)
		return st;
	st->s.text = told_lines(t, e, ENTRY_STACK, err);
	if (!st->s.info)
		st->s.info = told_text(t, e, ENTRY_STACK_INFO, err);
	t->stack_texts += st->s.text != NULL;
	return st;
}

const char *story_next_untold_stack(struct story_builder *b, size_t *iter)
{
	struct telling *t = b->t;

	t->is_looking = true;
	while (*iter < t->stacks_len) {
		const struct call_site *st = t->stacks[(*iter)++];

		if (!st->s.text && !st->s.info)
			return st->s.id;
	}
	return NULL;
}
