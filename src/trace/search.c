/* SPDX-License-Identifier: MIT */
#include "trace/search.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/glob.h"
#include "base/strbuf.h"
#include "stack/demangle.h"
#include "trace/returns.h"

#define NAMED_SYMBOLS_MAX 8000000 /* of a file that the operator names: a program with all of its debug symbols */
#define DEMANGLED_MAX 4096
#define WORD_MAX 64
/* Steps of comparing names with patterns: about a second's work. The largest libraries of frameworks take a tenth. */
#define SEEK_WORK_MAX (UINT64_C(1) << 28)
#define DEMANGLE_WORK 32 /* steps for each byte of a name */

/* A row of the configuration that this file may have. */
struct seeker {
	const struct user_call *user;
	unsigned int row;
	bool is_demangled; /* compared with the readable name */
	char word[WORD_MAX]; /* that the linker's name must have in it for the readable one to match; "" = none known */
	uint32_t found, cold;
	bool is_found; /* or another row has it already */
};

/* A function of a row, or what the compiler has split off it. */
struct part {
	struct code_range range;
	unsigned int row;
	char *name; /* as in the file; of a cold part: that of its function */
	bool is_cold, is_bad;
};

struct seek {
	struct search *s;
	struct part *parts;
	size_t parts_len;
	struct seeker list[USER_CALLS_MAX];
	size_t len;
	uint64_t work;
};

static void seek_free(struct seek *k)
{
	if (!k)
		return;
	for (size_t i = 0; i < k->parts_len; i++)
		free(k->parts[i].name);
	free(k->parts);
	free(k);
}
DEFINE_CLEANUP(struct seek, seek_free)

/* Appends to a list of words, of which one that does not fit is told by "...". Words may come out of a file. */
static void add_word(char list[SEARCH_TEXT_MAX], const char *word)
{
	static const char more[] = "...";
	const size_t len = strlen(list), n = strlen(word), room = SEARCH_TEXT_MAX - sizeof(more) - 2;

	if (len >= sizeof(more) - 1 && strcmp(list + len - (sizeof(more) - 1), more) == 0)
		return;
	snprintf(list + len, SEARCH_TEXT_MAX - len, "%s%s", len ? " " : "", n > room || len > room - n ? more : word);
	for (char *p = list + len; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
}

static const char *base_name(const char *path, char buf[NAME_MAX + 1])
{
	static const char deleted[] = " (deleted)";
	const char *base = strrchr(path, '/');
	size_t len;

	base = base ? base + 1 : path;
	len = strlen(base);
	if (len < sizeof(deleted) || strcmp(base + len - (sizeof(deleted) - 1), deleted) != 0)
		return base;
	len = MIN(len - (sizeof(deleted) - 1), (size_t)NAME_MAX);
	memcpy(buf, base, len);
	buf[len] = '\0';
	return buf;
}

/* The first row from the configuration; they are the last ones. */
static size_t first_user_row(void)
{
	size_t n = calls_len();

	while (n > 0 && call_user((unsigned int)(n - 1)))
		n--;
	return n;
}

bool search_wants_file(const char *path)
{
	char buf[NAME_MAX + 1];
	const char *base;

	if (call_api_of_file(path) != API_MAX)
		return true;
	base = base_name(path, buf);
	for (size_t i = first_user_row(); i < calls_len(); i++) {
		if (glob_match(call_user((unsigned int)i)->library, base))
			return true;
	}
	return false;
}

static bool has_hit(const struct search *s, uint64_t offset)
{
	for (size_t i = 0; i < s->len; i++)
		if (s->hits[i].offset == offset)
			return true;
	return false;
}

/* 1; 0 for another name of the same code: one probe, and the first row counts. */
static int add_hit(struct search *s, uint64_t offset, unsigned int row)
{
	if (has_hit(s, offset))
		return 0;
	if (s->len == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 64;
		struct search_hit *more = realloc(s->hits, cap * sizeof(*more));

		if (!more)
			return -ENOMEM;
		s->hits = more;
		s->cap = cap;
	}
	s->hits[s->len++] = (struct search_hit){ .offset = offset, .row = row };
	return 1;
}

static int search_builtin(const struct elf_file *elf, enum call_api api, bool is_named, bool teachers, struct search *s)
{
	const size_t len = first_user_row();
	_cleanup_free_ const char **names = calloc(len + 1, sizeof(*names));
	_cleanup_free_ uint64_t *offsets = calloc(len + 1, sizeof(*offsets));
	int r;

	if (!names || !offsets)
		return -ENOMEM;
	for (size_t i = 0; i < len; i++) {
		const struct call *c = call_get((unsigned int)i);

		if (c->api != api && !(api == API_MAX && is_named))
			continue;
		s->wanted++;
		names[i] = c->symbol;
	}
	if (!s->wanted)
		return 0;
	r = elf_file_functions(elf, names, len, is_named ? NAMED_SYMBOLS_MAX : SEARCH_SYMBOLS_MAX, offsets);
	for (size_t i = 0; i < len && r >= 0; i++) {
		if (!offsets[i] || teachers != !!(call_get((unsigned int)i)->how & CALL_TEACHER))
			continue;
		r = add_hit(s, offsets[i], (unsigned int)i);
	}
	return r < 0 ? r : 0;
}

static bool is_word_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Words of readable names that the linker's names write otherwise: compressed, or as an operator's code. */
static bool is_coded(const char *word, size_t len)
{
	static const char *const coded[] = { "std",	   "allocator",	  "basic_string", "string",  "basic_istream",
					     "istream",	   "ostream",	  "iostream",	  "lambda",  "basic_ostream",
					     "anonymous",  "namespace",	  "operator",	  "unnamed", "basic_iostream",
					     "char_traits", "new",	  "delete",	  "type",    "unsigned",
					     "default",	   "arg",	  "virtual",	  "thunk",   "covariant",
					     "return" };

	for (size_t i = 0; i < ARRAY_SIZE(coded); i++) {
		if (memmem(coded[i], strlen(coded[i]), word, len)) /* a wildcard may stand for the rest */
			return true;
	}
	return false;
}

/* The longest word of the name itself, before anything that is not plain. */
static void find_word(const char *pattern, char ret[WORD_MAX])
{
	size_t best = 0;

	ret[0] = '\0';
	for (const char *p = pattern; *p && !strchr("(<[{\\", *p);) {
		size_t len = 0;

		if (!is_word_char(*p)) {
			p++;
			continue;
		}
		while (is_word_char(p[len]))
			len++;
		if (len > best && len < WORD_MAX && !is_coded(p, len)) {
			best = len;
			memcpy(ret, p, len);
			ret[len] = '\0';
		}
		p += len;
	}
}

static void seek_prepare(struct seek *k, const char *path)
{
	char buf[NAME_MAX + 1];
	const char *base = base_name(path, buf);

	for (size_t i = first_user_row(); i < calls_len() && k->len < ARRAY_SIZE(k->list); i++) {
		const struct user_call *u = call_user((unsigned int)i);
		struct seeker *e = &k->list[k->len];

		if (!glob_match(u->library, base))
			continue;
		*e = (struct seeker){ .user = u, .row = (unsigned int)i,
				      .is_demangled = strchr(u->symbol, '(') || strstr(u->symbol, "::") };
		if (e->is_demangled)
			find_word(u->symbol, e->word);
		k->len++;
	}
	k->s->wanted += k->len;
}

static bool starts_with_any(const char *s, const char *const *list)
{
	for (; *list; list++)
		if (strncmp(s, *list, strlen(*list)) == 0)
			return true;
	return false;
}

/*
 * Compilers split functions (".cold", ".part.0") and make copies that take other arguments (".isra.0", ".constprop.0"):
 * none of them is the function. Link-time optimisation merely renames (".lto_priv.0", ".llvm.123"). Length of the name
 * without that, 0 = no function to be probed; of a cold part that of its function, which may return from there.
 */
static size_t whole_length(const char *name, bool *ret_is_cold)
{
	static const char *const parts[] = { ".cold", ".part", ".isra", ".constprop", NULL };
	static const char *const renamed[] = { ".lto_priv.", ".llvm.", NULL };
	static const char cold[] = ".cold";
	size_t len = strlen(name);

	if (len > sizeof(cold) - 1 && strcmp(name + len - (sizeof(cold) - 1), cold) == 0) {
		*ret_is_cold = true;
		len -= sizeof(cold) - 1;
	}
	for (const char *p = strchr(name, '.'); p && p < name + len; p = strchr(p + 1, '.')) {
		if (starts_with_any(p, parts))
			return 0;
		if (p > name && starts_with_any(p, renamed))
			len = MIN(len, (size_t)(p - name));
	}
	return len;
}

/* Made when first asked for: most symbols need neither. */
struct readable {
	const char *name;
	bool is_made;
	struct strbuf plain, signature;
};

static void readable_done(struct readable *n)
{
	strbuf_done(&n->plain);
	strbuf_done(&n->signature);
}

static bool matches_readable(struct seek *k, struct readable *n, const char *pattern)
{
	if (!n->is_made) {
		n->is_made = true;
		k->work += strlen(n->name) * DEMANGLE_WORK;
		demangle(&n->plain, n->name, DEMANGLED_MAX);
		(void)demangle_signature(&n->signature, n->name, DEMANGLED_MAX);
	}
	k->work += n->plain.len + n->signature.len;
	return glob_match(pattern, strbuf_str(&n->plain)) ||
	       (n->signature.len && glob_match(pattern, strbuf_str(&n->signature)));
}

static bool seeker_matches(struct seek *k, const struct seeker *e, struct readable *n)
{
	if (!e->is_demangled) {
		k->work += strlen(n->name);
		return glob_match(e->user->symbol, n->name);
	}
	return strstr(n->name, e->word) && matches_readable(k, n, e->user->symbol);
}

static int add_part(struct seek *k, const struct seeker *e, const char *name, const struct code_range *range,
		    bool is_cold)
{
	struct part *more;

	if (call_get(e->row)->how & CALL_ENTRY_ONLY)
		return 0;
	more = realloc(k->parts, (k->parts_len + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	k->parts = more;
	more[k->parts_len] = (struct part){ .range = *range, .row = e->row, .name = strdup(name), .is_cold = is_cold };
	if (!more[k->parts_len].name)
		return -ENOMEM;
	k->parts_len++;
	return 0;
}

/* A new function for a row: 1; 0: more than it may have, or known already. */
static int take_function(struct seek *k, struct seeker *e, const char *name, const struct code_range *range)
{
	int r;

	e->is_found = true;
	if (e->found >= USER_CALL_SYMBOLS_MAX) {
		k->work += k->s->len;
		if (!has_hit(k->s, range->offset)) {
			k->s->over_count++;
			add_word(k->s->over, name);
		}
		return 0;
	}
	r = add_hit(k->s, range->offset, e->row);
	if (r <= 0)
		return r;
	e->found++;
	return add_part(k, e, name, range, false);
}

static int take_cold(struct seek *k, struct seeker *e, const char *name, const struct code_range *range)
{
	for (size_t i = 0; i < k->parts_len; i++)
		if (k->parts[i].is_cold && k->parts[i].range.offset == range->offset)
			return 0;
	if (e->cold >= USER_CALL_SYMBOLS_MAX)
		return 0; /* of functions that are too many themselves */
	e->cold++;
	return add_part(k, e, name, range, true);
}

/* The first row that matches counts. */
static int seek_name(struct seek *k, const char *name, const struct code_range *range, bool is_cold)
{
	_cleanup_(readable_done) struct readable readable = { .name = name };

	for (size_t i = 0; i < k->len; i++) {
		struct seeker *e = &k->list[i];

		if (!seeker_matches(k, e, &readable))
			continue;
		return is_cold ? take_cold(k, e, name, range) : take_function(k, e, name, range);
	}
	return 0;
}

static int seek_function(const char *name, uint64_t offset, uint64_t size, void *arg)
{
	const struct code_range range = { .offset = offset, .len = size };
	struct seek *k = arg;
	_cleanup_free_ char *whole = NULL;
	bool is_cold = false;
	size_t len = whole_length(name, &is_cold);
	int r;

	if (!len)
		return 0;
	if (name[len]) {
		whole = strndup(name, len);
		if (!whole)
			return -ENOMEM;
		name = whole;
	}
	r = seek_name(k, name, &range, is_cold);
	if (r >= 0 && k->work > SEEK_WORK_MAX)
		return -ETIME;
	return MIN(r, 0);
}

static int add_ends(struct search *s, const uint64_t *offsets, int n, unsigned int row)
{
	struct search_hit *more = realloc(s->ends, (s->ends_len + (size_t)n + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	s->ends = more;
	for (int i = 0; i < n; i++)
		more[s->ends_len++] = (struct search_hit){ .offset = offsets[i], .row = row };
	return 0;
}

/* Number of places where this part returns, or -EILSEQ and the like: none that may be probed. */
static int part_ends(const struct elf_file *elf, const struct part *p, const struct code_range *ranges, size_t n,
		     uint64_t offsets[RETURNS_MAX])
{
	/* A call that returns nothing has done all it does when it jumps to another function for good. */
	const bool wants_jumps = call_get(p->row)->desc.result == RESULT_NONE;
	_cleanup_free_ uint8_t *code = NULL;
	size_t jumps = 0;
	int r;

	if (!p->range.len || p->range.len > RETURNS_CODE_MAX)
		return -E2BIG;
	code = malloc(p->range.len);
	if (!code)
		return -ENOMEM;
	if (elf_file_read(elf, code, p->range.len, p->range.offset) != (ssize_t)p->range.len)
		return -EILSEQ;
	r = returns_find(code, &p->range, ranges, n, wants_jumps, offsets, &jumps);
	if (r >= 0 && jumps && !wants_jumps)
		return -EILSEQ;
	return r == 0 && !p->is_cold ? -ENOENT : r;
}

/* Without its end a function would look like a call that never ends: no probe on it then, and the operator is told. */
static void drop_function(struct seek *k, const struct part *bad)
{
	size_t n = 0;

	for (size_t i = 0; i < k->parts_len; i++) {
		struct part *p = &k->parts[i];

		if (p->row != bad->row || p->is_bad || strcmp(p->name, bad->name) != 0)
			continue;
		p->is_bad = true;
		if (!p->is_cold)
			add_word(k->s->endless, p->name);
		for (n = 0; n < k->s->len && k->s->hits[n].offset != p->range.offset; n++)
			;
		if (n < k->s->len)
			k->s->hits[n] = k->s->hits[--k->s->len];
	}
}

/* The function that a part is of, and its other parts. Their number. */
static size_t parts_of(const struct seek *k, const struct part *one, struct code_range *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < k->parts_len; i++)
		if (k->parts[i].row == one->row && strcmp(k->parts[i].name, one->name) == 0)
			ret[n++] = k->parts[i].range;
	return n;
}

static int find_ends(const struct elf_file *elf, struct seek *k)
{
	_cleanup_free_ struct code_range *ranges = calloc(k->parts_len + 1, sizeof(*ranges));
	int r = 0;

	if (!ranges)
		return -ENOMEM;
	/* Two rounds: a cold part that cannot be read drops its function, wherever in the list. */
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < k->parts_len && r >= 0; i++) {
			struct part *p = &k->parts[i];
			uint64_t offsets[RETURNS_MAX];

			if (p->is_bad)
				continue;
			r = part_ends(elf, p, ranges, parts_of(k, p, ranges), offsets);
			if (r >= 0 && round == 1)
				r = add_ends(k->s, offsets, r, p->row);
			if (r == -EILSEQ || r == -E2BIG || r == -ENOENT) {
				drop_function(k, p);
				r = 0;
			}
		}
	}
	return MIN(r, 0);
}

static int search_user(const struct elf_file *elf, const char *path, struct search *s)
{
	static const unsigned tables[] = { ELF_DYNSYM, ELF_SYMTAB };
	_cleanup_(seek_freep) struct seek *k = calloc(1, sizeof(*k));
	size_t most_over = 0;
	int r;

	if (!k)
		return -ENOMEM;
	k->s = s;
	seek_prepare(k, path);
	if (!k->len)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		s->over_count = 0;
		r = elf_file_each_function(elf, tables[i], SEARCH_SYMBOLS_MAX, seek_function, k);
		if (r < 0 && r != -ETIME)
			return r;
		s->is_cut |= r != 0;
		most_over = MAX(most_over, s->over_count);
	}
	s->over_count = most_over; /* what is exported is in both tables */
	r = find_ends(elf, k);
	if (r < 0)
		return r;
	for (size_t i = 0; i < k->len; i++) {
		char where[SEARCH_TEXT_MAX];

		if (k->list[i].is_found || k->list[i].user->is_preset)
			continue;
		snprintf(where, sizeof(where), "%s:%d", k->list[i].user->file, k->list[i].user->line);
		add_word(s->unmatched, where);
	}
	return 0;
}

static bool is_ignored(enum call_api api, const char *name)
{
	for (const struct call_ignored *i = cuda_ignored; api == API_CUDA && i->symbol; i++)
		if (strcmp(i->symbol, name) == 0)
			return true;
	return false;
}

struct strangers {
	struct search *s;
	enum call_api api;
	char last[64]; /* versions of a function come one after the other */
};

static int note_stranger(const char *name, uint64_t offset, uint64_t size, void *arg)
{
	struct strangers *st = arg;

	if (!call_name_is_memory(st->api, name) || call_find(st->api, name) >= 0 || is_ignored(st->api, name) ||
	    strncmp(st->last, name, sizeof(st->last) - 1) == 0)
		return 0;
	st->s->unknown_count++;
	add_word(st->s->unknown, name);
	snprintf(st->last, sizeof(st->last), "%s", name);
	return 0;
}

int search_file(const struct elf_file *elf, const char *path, bool is_named, bool teachers, struct search *ret)
{
	const enum call_api api = call_api_of_file(path);
	struct search s = {};
	struct strangers strangers = { .s = &s, .api = api };
	int r;

	r = search_builtin(elf, api, is_named, teachers, &s);
	if (r == 0 && !teachers)
		r = search_user(elf, path, &s);
	if (r == 0 && !teachers && api != API_MAX)
		r = elf_file_each_function(elf, ELF_DYNSYM, SEARCH_SYMBOLS_MAX, note_stranger, &strangers);
	if (r < 0) {
		search_done(&s);
		return r;
	}
	s.is_cut |= r > 0;
	*ret = s;
	return 0;
}

void search_done(struct search *s)
{
	free(s->hits);
	free(s->ends);
	*s = (struct search){};
}
