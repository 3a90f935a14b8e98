/* SPDX-License-Identifier: MIT */
/* The state file: the input as a file, and as the body of its records, which no checksum protects from ourselves. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/state_file.h"
#include "rule/incident_pack.h"
#include "stack/stack_keep.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch(const char *s)
{
	if (s && strlen(s) == SIZE_MAX)
		abort();
}

/* What can be read must be the same when it is written and read again. */
static void check(const struct frames *f)
{
	struct strbuf first = STRBUF_INIT, second = STRBUF_INIT;
	struct frames *again = NULL;
	struct unpack u;

	for (size_t i = 0; i < f->count; i++) {
		const struct frame *fr = &f->list[i];

		touch(fr->function);
		touch(fr->file);
		if (fr->mapping && address_space_find(f->space, fr->is_exact ? fr->pc : fr->pc - 1) != fr->mapping)
			abort();
	}
	for (size_t i = 0; f->space && i < f->space->count; i++)
		touch(f->space->mappings[i].path);
	frames_pack(&first, f);
	u = (struct unpack){ .at = strbuf_str(&first), .left = first.len };
	if (frames_unpack(&u, 1, 2, &again) < 0)
		abort();
	frames_pack(&second, again);
	if (first.len != second.len || memcmp(strbuf_str(&first), strbuf_str(&second), first.len) != 0)
		abort();
	frames_free(again);
	strbuf_done(&first);
	strbuf_done(&second);
}

static void incidents(struct unpack u)
{
	while (unpack_u8(&u) && !u.is_bad) {
		struct strbuf sb = STRBUF_INIT;
		struct incident_saved s;

		if (incident_unpack(&u, &s) == 0) {
			touch(s.rule);
			touch(s.key);
			incident_pack(&sb, &s);
		}
		incident_saved_done(&s);
		strbuf_done(&sb);
	}
}

static int one(uint32_t type, const char *data, size_t len, void *userdata)
{
	struct unpack u = { .at = data, .left = len };
	struct frames *f;

	if (type == KEPT_INCIDENTS)
		incidents(u);
	if (type != KEPT_STACK || frames_unpack(&u, 1, 2, &f) < 0)
		return 0;
	check(f);
	frames_free(f);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t valid = 0;
	char *copy = malloc(size + 1);

	if (!copy)
		return 0;
	if (size)
		memcpy(copy, data, size);
	/* As a file, and as the body of a record. */
	(void)state_parse(copy, size, one, NULL, &valid);
	if (valid > size)
		abort();
	(void)one(KEPT_STACK, copy, size, NULL);
	(void)one(KEPT_INCIDENTS, copy, size, NULL);
	free(copy);
	return 0;
}
