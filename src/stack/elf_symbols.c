/* SPDX-License-Identifier: MIT */
/* Address to name and name to address, one pass over the tables each. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stack/elf_file.h"
#include "stack/elf_layout.h"

#define NAME_MAX_BYTES 16384 /* of a symbol; C++ templates reach thousands */
#define NAME_STEP 256
#define NAMES_BYTES_PER_SYMBOL 256 /* on average: so the number of symbols bounds the string table too */
#define NAMES_BYTES_MIN (1u << 20) /* looked at in any case */
#define HITS_MAX 65536
/* Comparisons of strings that end as a name does. A file whose strings all do is made for that. */
#define WORK_MAX (UINT64_C(1) << 26)
#define VERSION_HIDDEN 0x8000 /* in .gnu.version: not the version that a plain name means */

int elf_table_each(const struct elf_file *f, const struct elf_table *t, uint64_t max_symbols, elf_symbol_fn func, void *arg)
{
	enum { BATCH = ELF_CHUNK / sizeof(Elf64_Sym) };
	const uint64_t count = MIN(t->count, max_symbols);
	_cleanup_free_ Elf64_Sym *syms = NULL;

	if (!count || t->offset > INT64_MAX)
		return 0;
	syms = malloc(BATCH * sizeof(*syms));
	if (!syms)
		return -ENOMEM;
	for (uint64_t at = 0; at < count;) {
		size_t want = (size_t)MIN(count - at, BATCH);
		ssize_t n;

		if (at > (INT64_MAX - t->offset) / sizeof(*syms))
			break;
		n = elf_read_at(f, syms, want * sizeof(*syms), t->offset + at * sizeof(*syms));
		if (n < 0)
			return (int)n;
		for (size_t i = 0; i < (size_t)n / sizeof(*syms); i++)
			func(&syms[i], at + i, arg);
		if ((size_t)n < want * sizeof(*syms))
			break;
		at += want;
	}
	return 0;
}

bool elf_symbol_is_defined(const Elf64_Sym *sym)
{
	return sym->st_shndx != SHN_UNDEF && sym->st_shndx != SHN_ABS && sym->st_shndx != SHN_COMMON && sym->st_value;
}

static int binding_rank(const Elf64_Sym *sym)
{
	switch (ELF64_ST_BIND(sym->st_info)) {
	case STB_GLOBAL:
		return 3;
	case STB_WEAK:
		return 2;
	default:
		return 1;
	}
}

/* The name at st_name, cut at NAME_MAX_BYTES. 0, -ENOENT, -errno. */
static int read_name(const struct elf_file *f, const struct elf_table *t, uint32_t st_name, char **ret)
{
	_cleanup_free_ char *name = NULL;
	size_t len = 0, cap = 0;

	if (!st_name || st_name >= t->names_bytes || t->names_offset > INT64_MAX)
		return -ENOENT;
	for (;;) {
		char *grown;
		ssize_t n;
		void *end;

		cap = cap ? cap * 2 : NAME_STEP;
		grown = realloc(name, cap + 1);
		if (!grown)
			return -ENOMEM;
		name = grown;
		n = elf_read_at(f, name + len, (size_t)MIN(cap - len, t->names_bytes - st_name - len),
				t->names_offset + st_name + len);
		if (n < 0)
			return (int)n;
		end = memchr(name + len, 0, (size_t)n);
		len += (size_t)n;
		if (end || n == 0 || len < cap || cap >= NAME_MAX_BYTES)
			break;
	}
	name[len] = 0;
	if (!name[0])
		return -ENOENT;
	*ret = TAKE_PTR(name);
	return 0;
}

/* One address looked for. */
struct wanted {
	uint64_t vaddr;
	size_t index; /* in the caller's array */
	Elf64_Sym holds; /* symbol of known size around it; rank 0 = none */
	int holds_rank;
	Elf64_Sym open; /* nearest symbol of unknown size at or below it and above the wanted one before */
	int open_rank;
	uint64_t nearest; /* start of the nearest symbol of known size, likewise */
};

struct lookup {
	struct wanted *w; /* ascending by address */
	size_t n;
};

static int compare_wanted(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;

	return (x->vaddr > y->vaddr) - (x->vaddr < y->vaddr);
}

static bool is_better(const Elf64_Sym *sym, int rank, const Elf64_Sym *than, int than_rank)
{
	if (!than_rank || sym->st_value != than->st_value)
		return !than_rank || sym->st_value > than->st_value;
	return rank > than_rank;
}

static void lookup_symbol(const Elf64_Sym *sym, uint64_t index, void *arg)
{
	struct lookup *l = arg;
	const int type = ELF64_ST_TYPE(sym->st_info), rank = binding_rank(sym);
	size_t low = 0, high = l->n;

	/* An IFUNC's own code is its resolver: good enough to name an address, no place for a probe. */
	if ((type != STT_FUNC && type != STT_GNU_IFUNC) || !elf_symbol_is_defined(sym) || sym->st_value > l->w[l->n - 1].vaddr)
		return;
	while (low < high) { /* the first address not below the symbol; the last one is not */
		size_t mid = low + (high - low) / 2;

		if (l->w[mid].vaddr < sym->st_value)
			low = mid + 1;
		else
			high = mid;
	}
	if (!sym->st_size) {
		if (is_better(sym, rank, &l->w[low].open, l->w[low].open_rank)) {
			l->w[low].open = *sym;
			l->w[low].open_rank = rank;
		}
		return;
	}
	l->w[low].nearest = MAX(l->w[low].nearest, sym->st_value);
	for (size_t i = low; i < l->n && l->w[i].vaddr - sym->st_value < sym->st_size; i++) {
		if (is_better(sym, rank, &l->w[i].holds, l->w[i].holds_rank)) {
			l->w[i].holds = *sym;
			l->w[i].holds_rank = rank;
		}
	}
}

/*
 * A symbol of unknown size (hand-written assembly) reaches to the next symbol, within its segment. The pass noted each
 * start only at the first address above it; carry them up.
 */
static void settle_open(const struct elf_file *code, struct lookup *l)
{
	for (size_t i = 0; i < l->n; i++) {
		struct wanted *w = &l->w[i], *before = i ? &l->w[i - 1] : NULL;

		if (before && before->open_rank && !w->open_rank) {
			w->open = before->open;
			w->open_rank = before->open_rank;
		}
		if (before)
			w->nearest = MAX(w->nearest, before->nearest);
	}
	for (size_t i = 0; i < l->n; i++) {
		struct wanted *w = &l->w[i];

		if (!w->holds_rank && w->open_rank && w->open.st_value >= w->nearest &&
		    elf_segment_at(code, w->open.st_value) == elf_segment_at(code, w->vaddr)) {
			w->holds = w->open;
			w->holds_rank = w->open_rank;
		}
	}
}

int elf_table_lookup(const struct elf_file *f, const struct elf_table *t, const struct elf_file *code,
		     struct elf_symbol *query, size_t n, uint64_t max_symbols)
{
	_cleanup_free_ struct wanted *wanted = NULL;
	struct lookup l = {};
	int r;

	if (!t->count)
		return 0;
	wanted = calloc(n, sizeof(*wanted));
	if (!wanted)
		return -ENOMEM;
	l.w = wanted;
	for (size_t i = 0; i < n; i++) {
		if (!query[i].name)
			wanted[l.n++] = (struct wanted){ .vaddr = query[i].vaddr, .index = i };
	}
	if (!l.n)
		return 0;
	qsort(wanted, l.n, sizeof(*wanted), compare_wanted);
	r = elf_table_each(f, t, max_symbols, lookup_symbol, &l);
	if (r < 0)
		return r;
	settle_open(code, &l);

	for (size_t i = 0; i < l.n; i++) {
		struct elf_symbol *q = &query[wanted[i].index];

		if (!wanted[i].holds_rank)
			continue;
		r = read_name(f, t, wanted[i].holds.st_name, &q->name);
		if (r == -ENOENT)
			continue;
		if (r < 0)
			return r;
		q->vaddr = wanted[i].holds.st_value;
		q->size = wanted[i].holds.st_size;
	}
	return 0;
}

int elf_file_lookup(const struct elf_file *f, struct elf_symbol *query, size_t n, uint64_t max_symbols)
{
	const struct elf_table *tables[] = { &f->symtab, &f->dynsym };

	if (!n)
		return 0;
	for (size_t i = 0; i < n; i++)
		query[i].name = NULL;
	/* A partly stripped file may name in .dynsym what its .symtab has lost. */
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		int r = elf_table_lookup(f, tables[i], f, query, n, max_symbols);

		if (r < 0) {
			for (size_t j = 0; j < n; j++) {
				free(query[j].name);
				query[j].name = NULL;
			}
			return r;
		}
	}
	return 0;
}

/*
 * Names to offsets. Comparing every symbol's name would read the string table in the order of the symbols: a million
 * random reads. The string table is read once instead, to learn at which offsets a wanted name ends; then the symbols
 * are compared by number.
 */
struct hit {
	uint64_t offset; /* in the string table, what st_name would be */
	size_t name;
};

struct search {
	const struct elf_file *f;
	const struct elf_table *table;
	const char *const *names;
	size_t *lens;
	uint64_t *lasts; /* the last eight characters of names that have so many */
	size_t n, longest;
	uint64_t tails[65536 / 64]; /* the last two characters of the names: most strings fail here */
	struct hit *hits;
	size_t hit_count, hit_cap;
	uint64_t work;
	uint8_t *ranks; /* of the symbol found for each name, 0 = none */
	uint64_t *offsets;
};

static unsigned tail_bits(const char *end)
{
	return (unsigned)(uint8_t)end[-2] << 8 | (uint8_t)end[-1];
}

static void add_tail(struct search *s, unsigned bits)
{
	s->tails[bits / 64] |= UINT64_C(1) << bits % 64;
}

static void search_prepare(struct search *s)
{
	for (size_t i = 0; i < s->n; i++) {
		size_t len = s->names[i] ? strlen(s->names[i]) : 0;

		s->lens[i] = len <= NAME_MAX_BYTES ? len : 0;
		if (!s->lens[i])
			continue;
		s->longest = MAX(s->longest, len);
		if (len >= sizeof(*s->lasts))
			memcpy(&s->lasts[i], s->names[i] + len - sizeof(*s->lasts), sizeof(*s->lasts));
		if (len >= 2)
			add_tail(s, tail_bits(s->names[i] + len));
		for (unsigned c = 0; len == 1 && c < 256; c++)
			add_tail(s, c << 8 | (uint8_t)s->names[i][0]);
	}
}

static int add_hit(struct search *s, uint64_t offset, size_t name)
{
	if (s->hit_count == s->hit_cap) {
		size_t cap = s->hit_cap ? s->hit_cap * 2 : 64;
		struct hit *grown;

		if (cap > HITS_MAX)
			return 0;
		grown = realloc(s->hits, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		s->hits = grown;
		s->hit_cap = cap;
	}
	s->hits[s->hit_count++] = (struct hit){ .offset = offset, .name = name };
	return 0;
}

/*
 * What is read of the names: no more than the symbols can have. A table may claim gigabytes of a file that has holes there.
 * A linker may share names with a larger table, so a few symbols get some room.
 */
static uint64_t names_bytes(const struct elf_table *t, uint64_t max_symbols)
{
	const uint64_t symbols = MIN(MIN(t->count, max_symbols), UINT64_MAX / NAMES_BYTES_PER_SYMBOL);

	return MIN(t->names_bytes, MAX(symbols * NAMES_BYTES_PER_SYMBOL, NAMES_BYTES_MIN));
}

/* The end of the zero bytes that begin at p. A hole in a file is nothing else. */
static char *skip_zeros(char *p, const char *end)
{
	static const char zeros[64];

	while (end - p >= (ptrdiff_t)sizeof(zeros) && memcmp(p, zeros, sizeof(zeros)) == 0)
		p += sizeof(zeros);
	while (p < end && !*p)
		p++;
	return p;
}

/* A string ends at end, at this offset of the table; what lies before it begins at start. Linkers let a name be the
 * tail of a longer one. */
static int match_string(struct search *s, const char *start, const char *end, uint64_t offset)
{
	uint64_t last = 0;
	unsigned bits;

	if (end - start < 2)
		return 0;
	bits = tail_bits(end);
	if (!(s->tails[bits / 64] >> bits % 64 & 1))
		return 0;
	if ((size_t)(end - start) >= sizeof(last))
		memcpy(&last, end - sizeof(last), sizeof(last));
	s->work += s->n;
	if (s->work > WORK_MAX)
		return -ETIME;
	for (size_t i = 0; i < s->n; i++) {
		const size_t len = s->lens[i];
		int r;

		if (!len || (len >= sizeof(last) && s->lasts[i] != last) || len > (size_t)(end - start) ||
		    memcmp(end - len, s->names[i], len) != 0)
			continue;
		r = add_hit(s, offset - len, i);
		if (r < 0)
			return r;
	}
	return 0;
}

static int search_names(struct search *s, uint64_t max_symbols)
{
	const struct elf_table *t = s->table;
	const uint64_t bytes = names_bytes(t, max_symbols);
	const size_t keep_max = s->longest + 1; /* of the chunk before, in which a name may have begun */
	_cleanup_free_ char *buf = malloc(keep_max + ELF_CHUNK);
	size_t kept = 0;

	if (!buf)
		return -ENOMEM;
	for (uint64_t at = 0; at < bytes && t->names_offset <= INT64_MAX - at;) {
		ssize_t n = elf_read_at(s->f, buf + kept, (size_t)MIN(bytes - at, ELF_CHUNK), t->names_offset + at);
		char *p, *end, *nul;

		if (n <= 0)
			return (int)n;
		end = buf + kept + n;
		for (p = buf + kept; p < end && (nul = memchr(p, 0, (size_t)(end - p))); p = skip_zeros(nul, end)) {
			int r = match_string(s, buf, nul, at + (uint64_t)(nul - buf - (ptrdiff_t)kept));

			if (r < 0)
				return r;
		}
		at += (uint64_t)n;
		p = end - MIN((size_t)(end - buf), keep_max);
		kept = (size_t)(end - p);
		memmove(buf, p, kept);
	}
	return 0;
}

static int compare_hits(const void *a, const void *b)
{
	const struct hit *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return (x->name > y->name) - (x->name < y->name);
}

static int version_rank(const struct search *s, uint64_t index)
{
	uint16_t version;

	if (!s->table->versions_offset || s->table->versions_offset > INT64_MAX)
		return 1;
	if (elf_read_at(s->f, &version, sizeof(version), s->table->versions_offset + index * sizeof(version)) !=
	    sizeof(version))
		return 1;
	return version & VERSION_HIDDEN ? 0 : 1;
}

static void search_symbol(const Elf64_Sym *sym, uint64_t index, void *arg)
{
	struct search *s = arg;
	const struct elf_segment *segment;
	size_t low = 0, high = s->hit_count;
	int rank;

	if (ELF64_ST_TYPE(sym->st_info) != STT_FUNC || !elf_symbol_is_defined(sym))
		return;
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->hits[mid].offset < sym->st_name)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == s->hit_count || s->hits[low].offset != sym->st_name)
		return;
	segment = elf_segment_at(s->f, sym->st_value);
	if (!segment || !segment->is_exec)
		return;
	rank = 4 * version_rank(s, index) + binding_rank(sym);
	for (; low < s->hit_count && s->hits[low].offset == sym->st_name; low++) {
		const size_t name = s->hits[low].name;

		if (rank <= s->ranks[name])
			continue;
		s->ranks[name] = (uint8_t)rank;
		s->offsets[name] = segment->offset + (sym->st_value - segment->vaddr);
	}
}

static int search_table(struct search *s, const struct elf_table *t, uint64_t max_symbols)
{
	size_t missing = 0;
	int r;

	for (size_t i = 0; i < s->n; i++) {
		if (s->ranks[i])
			s->lens[i] = 0; /* found in the table before: that one counts */
		else if (s->lens[i])
			missing++;
	}
	if (!t->count || !missing)
		return 0;
	s->table = t;
	s->hit_count = 0;
	r = search_names(s, max_symbols);
	if (r < 0 || !s->hit_count)
		return r;
	qsort(s->hits, s->hit_count, sizeof(*s->hits), compare_hits);
	return elf_table_each(s->f, t, max_symbols, search_symbol, s);
}

int elf_file_functions(const struct elf_file *f, const char *const *names, size_t n, uint64_t max_symbols,
		       uint64_t *ret_offsets)
{
	_cleanup_free_ uint64_t *offsets = calloc(n + 1, sizeof(*offsets));
	_cleanup_free_ size_t *lens = calloc(n + 1, sizeof(*lens));
	_cleanup_free_ uint64_t *lasts = calloc(n + 1, sizeof(*lasts));
	_cleanup_free_ uint8_t *ranks = calloc(n + 1, sizeof(*ranks));
	_cleanup_free_ struct search *s = calloc(1, sizeof(*s));
	int r, found = 0;

	if (!offsets || !lens || !lasts || !ranks || !s)
		return -ENOMEM;
	*s = (struct search){ .f = f, .names = names, .lens = lens, .lasts = lasts, .n = n, .ranks = ranks, .offsets = offsets };
	search_prepare(s);
	r = search_table(s, &f->dynsym, max_symbols);
	if (r >= 0)
		r = search_table(s, &f->symtab, max_symbols);
	free(s->hits);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		ret_offsets[i] = offsets[i];
		found += offsets[i] != 0;
	}
	return found;
}
