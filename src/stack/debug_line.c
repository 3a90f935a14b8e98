/* SPDX-License-Identifier: MIT */
/* The pass over the line programs: which of their rows cover the wanted addresses. */
#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "stack/debug_line.h"
#include "stack/debug_line_names.h"
#include "stack/elf_layout.h"
#include "stack/elf_section.h"
#include "stack/unwind_bytes.h"

#define HEADER_MAX_BYTES 320		     /* the fixed part: 255 lengths and less than 40 more */
#define OPERATION_MAX_BYTES ELF_STREAM_AHEAD /* numbers may be padded; a unit with more is given up */
#define TABLE_MAX_BYTES (4u << 20)	     /* folders and files of one unit; tens of thousands */

struct unit {
	uint64_t end; /* position in the section */
	uint16_t version;
	bool is_64;
	uint8_t min_instruction, opcode_base;
	uint8_t arguments[256]; /* of standard operations that we do not know */
	/* By special operation. */
	uint64_t advance[256];
	int16_t line_step[256];
};

struct row {
	uint64_t address, file;
	uint32_t line;
};

struct wanted {
	uint64_t vaddr;
	size_t query;
};

struct scan {
	struct elf_stream in;
	struct debug_line *query;
	uint64_t code_start, code_end; /* around all executable segments */
	struct wanted *wanted;	       /* not yet found, ascending; one with the highest address behind them */
	size_t wanted_count;

	struct unit unit;
	struct strbuf table;	    /* the unit's, kept until its matches are known */
	struct line_match *matches; /* in this unit */
	size_t match_count;
	struct line_string *strings; /* names to be read at the end */
	size_t string_count;

	struct row row, last; /* last: the row before in this sequence */
	bool has_last, is_code;
	size_t next; /* in wanted: the first that is not below last */
};

static size_t first_not_below(const struct scan *s, uint64_t vaddr)
{
	size_t low = 0, high = s->wanted_count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->wanted[mid].vaddr < vaddr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The row before covers the wanted addresses below this one: they are found, or have no line if that is 0. */
static void take_covered(struct scan *s)
{
	struct wanted *first = &s->wanted[s->next];
	size_t n = 0;

	for (; s->next + n < s->wanted_count && first[n].vaddr < s->row.address; n++) {
		if (s->last.line)
			s->matches[s->match_count++] = (struct line_match){
				.query = first[n].query, .file = s->last.file, .line = s->last.line,
			};
	}
	s->wanted_count -= n;
	memmove(first, first + n, (s->wanted_count - s->next + 1) * sizeof(*first));
}

static void add_row(struct scan *s)
{
	const uint64_t address = s->row.address;

	if (!s->has_last) {
		/* What the linker has dropped begins at 0 or at an address that no code has. */
		s->is_code = address && address >= s->code_start && address < s->code_end;
		s->has_last = true;
		s->next = s->is_code ? first_not_below(s, address) : 0;
	} else if (s->is_code && address > s->last.address) {
		if (s->wanted[s->next].vaddr < address)
			take_covered(s);
	} else if (s->is_code && address < s->last.address) {
		s->next = first_not_below(s, address);
	}
	s->last = s->row;
}

static void begin_sequence(struct scan *s)
{
	s->row = (struct row){ .file = 1, .line = 1 };
	s->has_last = false;
}

static void extended_operation(struct scan *s, struct bytes *b)
{
	const uint64_t len = bytes_uleb(b);
	const uint8_t *p = bytes_take(b, len);

	if (!p || !len)
		return;
	if (p[0] == DW_LNE_end_sequence) {
		add_row(s);
		begin_sequence(s);
	} else if (p[0] == DW_LNE_set_address) {
		if (len == 1 + sizeof(s->row.address))
			memcpy(&s->row.address, p + 1, sizeof(s->row.address));
		else
			b->is_bad = true;
	}
	/* DW_LNE_define_file is written by no compiler. */
}

static void standard_operation(struct scan *s, uint8_t operation, struct bytes *b)
{
	switch (operation) {
	case DW_LNS_copy:
		add_row(s);
		break;
	case DW_LNS_advance_pc:
		s->row.address += bytes_uleb(b) * s->unit.min_instruction;
		break;
	case DW_LNS_advance_line:
		s->row.line += (uint32_t)bytes_sleb(b);
		break;
	case DW_LNS_set_file:
		s->row.file = bytes_uleb(b);
		break;
	case DW_LNS_const_add_pc:
		s->row.address += s->unit.advance[255];
		break;
	case DW_LNS_fixed_advance_pc:
		s->row.address += bytes_u16(b);
		break;
	case DW_LNS_negate_stmt:
	case DW_LNS_set_basic_block:
	case DW_LNS_set_prologue_end:
	case DW_LNS_set_epilogue_begin:
		break;
	case DW_LNS_set_column:
	case DW_LNS_set_isa:
		(void)bytes_uleb(b);
		break;
	default:
		for (unsigned int i = 0; i < s->unit.arguments[operation]; i++)
			(void)bytes_uleb(b);
	}
}

static void run_operations(struct scan *s, struct bytes *b, const uint8_t *stop)
{
	while (b->p < stop && !b->is_bad && s->wanted_count) {
		const uint8_t operation = *b->p++;

		if (operation >= s->unit.opcode_base) {
			s->row.address += s->unit.advance[operation];
			s->row.line += (uint32_t)s->unit.line_step[operation];
			add_row(s);
		} else if (operation) {
			standard_operation(s, operation, b);
		} else {
			extended_operation(s, b);
		}
	}
}

static void run_program(struct scan *s)
{
	begin_sequence(s);
	while (s->wanted_count) {
		const size_t have = elf_stream_ahead(&s->in, OPERATION_MAX_BYTES);
		const uint64_t left = s->unit.end - MIN(elf_stream_position(&s->in), s->unit.end);
		struct bytes b = { .p = s->in.p, .end = s->in.p + MIN(have, left) };
		/* An operation that the window may cut off waits for the next one. */
		const bool may_cut = left > have && have >= OPERATION_MAX_BYTES;
		const uint8_t *stop = may_cut ? b.end - OPERATION_MAX_BYTES + 1 : b.end;

		run_operations(s, &b, stop);
		if (b.is_bad || b.p == s->in.p)
			break;
		s->in.p = b.p;
	}
}

static void prepare_special(struct unit *u, int8_t line_base, uint8_t line_range)
{
	for (unsigned int i = u->opcode_base; i < 256; i++) {
		const unsigned int adjusted = i - u->opcode_base;

		u->advance[i] = (uint64_t)u->min_instruction * (adjusted / line_range);
		u->line_step[i] = (int16_t)(line_base + (int)(adjusted % line_range));
	}
}

/* The fixed part of a header. False: the unit is of no use, its end may be known nevertheless. */
static bool read_header(struct scan *s, uint64_t *ret_program)
{
	const size_t have = elf_stream_ahead(&s->in, HEADER_MAX_BYTES);
	struct bytes b = { .p = s->in.p, .end = s->in.p + have };
	struct unit *u = &s->unit;
	uint64_t at = elf_stream_position(&s->in), len;
	uint8_t max_operations = 1, line_range;
	const uint8_t *arguments;
	int8_t line_base;

	len = bytes_u32(&b);
	u->is_64 = len == 0xffffffff;
	if (u->is_64)
		len = bytes_u64(&b);
	at += (uint64_t)(b.p - s->in.p);
	u->end = len > UINT64_MAX - at ? UINT64_MAX : at + len;
	/* Lengths from 0xfffffff0 on are reserved: what follows cannot be found. */
	if (b.is_bad || (!u->is_64 && len >= 0xfffffff0)) {
		u->end = UINT64_MAX;
		return false;
	}
	b.end = b.p + MIN(len, (uint64_t)(b.end - b.p));
	u->version = bytes_u16(&b);
	if (u->version >= 5) {
		const uint8_t address_size = bytes_u8(&b), segment_size = bytes_u8(&b);

		if (address_size != 8 || segment_size != 0)
			return false;
	}
	len = u->is_64 ? bytes_u64(&b) : bytes_u32(&b);
	at = elf_stream_position(&s->in) + (uint64_t)(b.p - s->in.p);
	u->min_instruction = bytes_u8(&b);
	if (u->version >= 4)
		max_operations = bytes_u8(&b);
	(void)bytes_u8(&b); /* is_stmt does not matter */
	line_base = bytes_s8(&b);
	line_range = bytes_u8(&b);
	u->opcode_base = bytes_u8(&b);
	arguments = bytes_take(&b, u->opcode_base ? u->opcode_base - 1 : 0);
	if (b.is_bad || u->version < 2 || u->version > 5 || max_operations > 1 || !line_range || !u->opcode_base ||
	    at > u->end || len > u->end - at)
		return false;
	memcpy(u->arguments + 1, arguments, u->opcode_base - 1);
	prepare_special(u, line_base, line_range);
	*ret_program = at + len;
	s->in.p = b.p;
	return *ret_program >= elf_stream_position(&s->in);
}

static int read_table(struct scan *s, uint64_t program)
{
	strbuf_reset(&s->table);
	if (program - elf_stream_position(&s->in) <= TABLE_MAX_BYTES) {
		while (elf_stream_position(&s->in) < program) {
			const size_t have = elf_stream_ahead(&s->in, 1);
			const size_t n = (size_t)MIN(have, program - elf_stream_position(&s->in));

			if (!n)
				break;
			strbuf_add(&s->table, s->in.p, n);
			s->in.p += n;
		}
	}
	elf_stream_seek(&s->in, program);
	return s->table.error;
}

static int scan_unit(struct scan *s)
{
	uint64_t program;
	int r;

	if (!read_header(s, &program))
		return 0;
	r = read_table(s, program);
	if (r < 0)
		return r;
	s->match_count = 0;
	run_program(s);
	r = line_names_match(&(struct line_table){ .data = (const uint8_t *)s->table.buf, .len = s->table.len,
						   .version = s->unit.version, .is_64 = s->unit.is_64 },
			     s->matches, s->match_count, s->query, s->strings, &s->string_count);
	return r;
}

static int compare_wanted(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;

	return (x->vaddr > y->vaddr) - (x->vaddr < y->vaddr);
}

static int scan_init(struct scan *s, const struct elf_file *code, struct debug_line *query, size_t n)
{
	*s = (struct scan){ .query = query, .code_start = UINT64_MAX };
	for (size_t i = 0; i < code->segment_count; i++) {
		const struct elf_segment *segment = &code->segments[i];

		if (!segment->is_exec)
			continue;
		s->code_start = MIN(s->code_start, segment->vaddr);
		s->code_end = MAX(s->code_end, segment->vaddr + segment->file_bytes);
	}
	s->wanted = calloc(n + 1, sizeof(*s->wanted));
	s->matches = calloc(n + 1, sizeof(*s->matches));
	s->strings = calloc(n + 1, sizeof(*s->strings));
	if (!s->wanted || !s->matches || !s->strings)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (!query[i].file)
			s->wanted[s->wanted_count++] = (struct wanted){ .vaddr = query[i].vaddr, .query = i };
	}
	qsort(s->wanted, s->wanted_count, sizeof(*s->wanted), compare_wanted);
	s->wanted[s->wanted_count].vaddr = UINT64_MAX;
	return 0;
}

static void scan_done(struct scan *s)
{
	elf_stream_done(&s->in);
	strbuf_done(&s->table);
	free(s->wanted);
	free(s->matches);
	free(s->strings);
}

int debug_line_find(const struct elf_file *f, const struct elf_file *code, struct debug_line *query, size_t n,
		    uint64_t max_bytes)
{
	static const char *const name[] = { ".debug_line" };
	_cleanup_(scan_done) struct scan s = {};
	struct elf_section section;
	int r;

	r = elf_section_find(f, name, 1, &section);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	if (!section.stored_bytes || MAX(section.bytes, section.stored_bytes) > max_bytes)
		return 0;
	r = scan_init(&s, code, query, n);
	if (r < 0)
		return r;
	r = elf_stream_init(&s.in, f, &section);
	if (r < 0)
		return r;
	while (s.wanted_count && elf_stream_ahead(&s.in, 1)) {
		r = scan_unit(&s);
		if (r < 0)
			return r;
		elf_stream_seek(&s.in, s.unit.end);
	}
	if (s.in.error)
		return s.in.error;
	return line_names_read(f, s.strings, s.string_count, query, max_bytes);
}
