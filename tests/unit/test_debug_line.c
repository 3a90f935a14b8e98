/* SPDX-License-Identifier: MIT */
/* Line tables put together by hand: rows, headers, names, damage, size. */
#include <dwarf.h>
#include <errno.h>

#include "base/clock.h"
#include "debug_check.h"
#include "debug_make.h"
#include "test.h"

static const struct debug_limits limits = DEBUG_LIMITS_DEFAULT;

/* A line table by hand. */
struct table {
	struct strbuf line;
	size_t unit, header; /* where their lengths stand */
	bool is_64;
};

static void put(struct table *t, uint64_t v, size_t bytes)
{
	strbuf_add(&t->line, &v, bytes);
}

#define OPS(t, ...)                                                                                                    \
	do {                                                                                                           \
		const uint8_t ops_[] = { __VA_ARGS__ };                                                                \
		strbuf_add(&(t)->line, ops_, sizeof(ops_));                                                            \
	} while (0)

static void put_uleb(struct table *t, uint64_t v)
{
	do {
		put(t, (v & 0x7f) | (v > 0x7f ? 0x80 : 0), 1);
		v >>= 7;
	} while (v);
}

static void put_text(struct table *t, const char *s)
{
	strbuf_add(&t->line, s, strlen(s) + 1);
}

struct head {
	uint16_t version;
	uint8_t min_instruction, max_operations, line_range, opcode_base;
	bool is_64;
};
#define HEAD(change)                                                                                                   \
	({                                                                                                             \
		struct head h = { .version = 4, .min_instruction = 1, .max_operations = 1, .line_range = 14,           \
				  .opcode_base = 13 };                                                                 \
		change;                                                                                                \
		h;                                                                                                     \
	})

/* Special operations: lines from -5 on. */
static void begin_unit(struct table *t, struct head h)
{
	static const uint8_t arguments[] = { 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 2, 3 };

	t->is_64 = h.is_64;
	if (h.is_64)
		put(t, 0xffffffff, 4);
	t->unit = t->line.len;
	put(t, 0, h.is_64 ? 8 : 4);
	put(t, h.version, 2);
	if (h.version >= 5)
		put(t, 8, 2);
	t->header = t->line.len;
	put(t, 0, h.is_64 ? 8 : 4);
	put(t, h.min_instruction, 1);
	if (h.version >= 4)
		put(t, h.max_operations, 1);
	put(t, 1, 1);
	put(t, (uint8_t)-5, 1);
	put(t, h.line_range, 1);
	put(t, h.opcode_base, 1);
	for (int i = 0; i < h.opcode_base - 1; i++)
		put(t, arguments[i], 1);
}

static void end_header(struct table *t)
{
	const uint64_t len = t->line.len - t->header - (t->is_64 ? 8 : 4);

	memcpy(t->line.buf + t->header, &len, t->is_64 ? 8 : 4);
}

static void end_unit(struct table *t)
{
	const uint64_t len = t->line.len - t->unit - (t->is_64 ? 8 : 4);

	memcpy(t->line.buf + t->unit, &len, t->is_64 ? 8 : 4);
}

/* One folder, two files. */
static void old_files(struct table *t)
{
	put_text(t, "some/folder");
	put_text(t, "");
	put_text(t, "first.c");
	OPS(t, 1, 2, 3); /* folder, time, length */
	put_text(t, "../x/second.h");
	OPS(t, 1, 2, 3);
	put_text(t, "");
	end_header(t);
}

static void set_address(struct table *t, uint64_t address)
{
	OPS(t, 0, 9, DW_LNE_set_address);
	put(t, address, 8);
}

/* Lines: -64 to 63. A row. */
static void advance(struct table *t, uint64_t bytes, int lines)
{
	OPS(t, DW_LNS_advance_pc);
	put_uleb(t, bytes);
	OPS(t, DW_LNS_advance_line, (uint8_t)(lines & 0x7f), DW_LNS_copy);
}

static void end_sequence(struct table *t, uint64_t bytes)
{
	OPS(t, DW_LNS_advance_pc);
	put_uleb(t, bytes);
	OPS(t, 0, 1, DW_LNE_end_sequence);
}

struct expected {
	uint64_t vaddr;
	const char *place;
};

/* Plain and packed, one by one and all at once. */
static void check_table(struct table *t, const char *strings, size_t strings_len, const struct expected *want, size_t n)
{
	for (int is_packed = 0; is_packed < 2; is_packed++) {
		_cleanup_strbuf_ struct strbuf line = STRBUF_INIT, line_str = STRBUF_INIT;
		_cleanup_(debug_info_freep) struct debug_info *d = NULL;
		_cleanup_(elf_file_freep) struct elf_file *f = NULL;
		const uint64_t flags = is_packed ? SHF_COMPRESSED : 0;
		_cleanup_free_ struct debug_line *all = calloc(n, sizeof(*all));
		char text[300];

		if (is_packed) {
			debug_pack(&line, t->line.buf, t->line.len);
			debug_pack(&line_str, strings, strings_len);
		} else {
			strbuf_add(&line, t->line.buf, t->line.len);
			strbuf_add(&line_str, strings, strings_len);
		}
		ASSERT(all && !t->line.error && !line.error && !line_str.error);
		const struct debug_section sections[] = {
			{ ".debug_line", strbuf_str(&line), line.len, SHT_PROGBITS, 0, flags },
			{ ".debug_line_str", strbuf_str(&line_str), line_str.len, SHT_PROGBITS, 0, flags },
			{ ".debug_str", "0123456\0in_str.c", 17, SHT_PROGBITS, 0, 0 },
		};
		ASSERT(elf_file_open(debug_make_fd(sections, ARRAY_SIZE(sections)), &f) == 0);
		ASSERT(debug_info_open(f, NULL, "/nonexistent/made.so", &limits, &d) == 0);
		for (size_t i = 0; i < n; i++) {
			if (n < 100 || i % 97 == 0)
				EXPECT_STR(line_at(d, want[i].vaddr, text), want[i].place);
			all[n - 1 - i].vaddr = want[i].vaddr;
		}
		EXPECT_EQ(debug_info_lines(d, all, n), 0);
		for (size_t i = 0; i < n; i++) {
			(void)snprintf(text, sizeof(text), "%s:%u", all[n - 1 - i].file, all[n - 1 - i].line);
			EXPECT_STR(all[n - 1 - i].file ? text : "?", want[i].place);
			free(all[n - 1 - i].file);
		}
	}
}

static void table_done(struct table *t)
{
	strbuf_done(&t->line);
}

TEST(which_row_covers_an_address)
{
	static const struct expected want[] = {
		{ 0x0fff, "?" }, { 0x1000, "first.c:10" }, { 0x100f, "first.c:10" },
		{ 0x1010, "second.h:13" }, { 0x1017, "second.h:13" }, { 0x1018, "?" },
		{ 0x101f, "?" }, { 0x1020, "second.h:9" }, { 0x1030, "second.h:8" },
		{ 0x1041, "second.h:13" }, { 0x1052, "second.h:14" }, { 0x105f, "second.h:14" },
		{ 0x1060, "?" }, { 0x1080, "first.c:1" }, { 0x108f, "first.c:1" },
		{ 0x1090, "first.c:2" }, { 0x10a0, "?" }, { 0x10c0, "second.h:3" },
		{ 0x1100, "?" }, { 0x11f0, "?" }, { 0x1180, "first.c:1" },
		{ 0x1190, "?" }, { 0x1800, "?" }, { UINT64_MAX, "?" },
		{ 0, "?" }, { 0x20, "?" },
	};
	_cleanup_(table_done) struct table t = {};

	begin_unit(&t, HEAD());
	old_files(&t);
	set_address(&t, 0x1000);
	advance(&t, 0, 9);
	advance(&t, 0x10, 1); /* three rows at one address: the last one counts */
	advance(&t, 0, 1);
	OPS(&t, DW_LNS_set_file, 2);
	advance(&t, 0, 1);
	advance(&t, 8, -13); /* line 0: none */
	advance(&t, 8, 9);
	OPS(&t, 13 + 14 * 16 + 4); /* 16 bytes on, a line back */
	OPS(&t, DW_LNS_const_add_pc); /* 17 bytes on */
	advance(&t, 0, 5);
	OPS(&t, DW_LNS_fixed_advance_pc, 0x11, 0);
	advance(&t, 0, 1);
	OPS(&t, DW_LNS_negate_stmt, DW_LNS_set_basic_block, DW_LNS_set_prologue_end, DW_LNS_set_epilogue_begin);
	OPS(&t, DW_LNS_set_column, 0x85, 0x00, DW_LNS_set_isa, 3, 0, 3, 0x7f, 1, 2);
	end_sequence(&t, 0xe);

	/* Dropped by the linker: at 0, or where no code is. */
	set_address(&t, 0);
	advance(&t, 0, 60);
	end_sequence(&t, 0x10000);
	set_address(&t, DEBUG_CODE + DEBUG_CODE_BYTES);
	advance(&t, 0, 60);
	set_address(&t, 0x1000);
	advance(&t, 0, 1);
	end_sequence(&t, 0x10000);

	/* Addresses that go back within a sequence. */
	set_address(&t, 0x1090);
	advance(&t, 0, 1);
	advance(&t, 0x10, 0);
	set_address(&t, 0x1080);
	advance(&t, 0, -1);
	advance(&t, 0x10, 0);
	end_sequence(&t, 0);

	/* A file that is not in the table; number 0, which is none before DWARF 5. */
	set_address(&t, 0x1100);
	OPS(&t, DW_LNS_set_file, 3);
	advance(&t, 0, 1);
	end_sequence(&t, 0x10);
	set_address(&t, 0x11f0);
	OPS(&t, DW_LNS_set_file, 0);
	advance(&t, 0, 1);
	end_sequence(&t, 0x10);

	set_address(&t, 0x10c0);
	OPS(&t, DW_LNS_set_file, 2, DW_LNS_advance_line, 0x82, 0x80, 0x00); /* a padded number */
	advance(&t, 0, 0);
	end_sequence(&t, 0x10);
	/* Without an end: only the last row covers nothing. */
	set_address(&t, 0x1180);
	advance(&t, 0, 0);
	advance(&t, 0x10, 0);
	end_unit(&t);
	check_table(&t, "", 0, want, ARRAY_SIZE(want));
}

TEST(headers_of_all_kinds)
{
	static const struct expected want[] = {
		{ 0x1000, "first.c:2" }, { 0x1007, "first.c:2" }, { 0x1008, "first.c:3" }, { 0x1013, "first.c:3" },
		{ 0x1014, "?" },	 { 0x1100, "first.c:3" }, { 0x1104, "?" },	 { 0x1200, "second.h:4" },
		{ 0x1300, "second.h:5" }, { 0x1400, "first.c:6" },
	};
	_cleanup_(table_done) struct table t = {};

	begin_unit(&t, HEAD(h.min_instruction = 4));
	old_files(&t);
	set_address(&t, 0x1000);
	advance(&t, 0, 1);
	OPS(&t, 13 + 14 * 2 + 6);
	end_sequence(&t, 3);
	end_unit(&t);
	/* DWARF 2 knew nine operations: the next are special ones. */
	begin_unit(&t, HEAD(h.version = 2; h.opcode_base = 10));
	old_files(&t);
	set_address(&t, 0x1100);
	OPS(&t, 10 + 7, 10 + 14 * 4 + 5);
	end_unit(&t);
	/* Operations that only their count of arguments is known of. */
	begin_unit(&t, HEAD(h.version = 3; h.opcode_base = 15));
	old_files(&t);
	set_address(&t, 0x1200);
	OPS(&t, 13, 1, 0x81, 0x01, DW_LNS_set_file, 2, 14, 1, 1, 1);
	advance(&t, 0, 3);
	end_sequence(&t, 4);
	end_unit(&t);
	begin_unit(&t, HEAD(h.is_64 = true));
	old_files(&t);
	set_address(&t, 0x1300);
	OPS(&t, DW_LNS_set_file, 2);
	advance(&t, 0, 4);
	end_sequence(&t, 4);
	end_unit(&t);
	/* Room between the header's end and the program's start. */
	begin_unit(&t, HEAD());
	old_files(&t);
	OPS(&t, DW_LNS_copy, 0, 1, DW_LNE_end_sequence, 0xff);
	end_header(&t);
	set_address(&t, 0x1400);
	advance(&t, 0, 5);
	end_sequence(&t, 4);
	end_unit(&t);
	check_table(&t, "", 0, want, ARRAY_SIZE(want));
}

/* Three files, described by what there may be, their names in this form. */
static void new_files(struct table *t, uint8_t form, const uint64_t offsets[3])
{
	static const char *const names[] = { "/a/b/zero.c", "one.c", "c/two.c" };

	OPS(t, 1, DW_LNCT_path, DW_FORM_string, 1);
	put_text(t, "/folder");
	OPS(t, 5, DW_LNCT_directory_index, DW_FORM_udata, DW_LNCT_path, form, DW_LNCT_MD5, DW_FORM_data16);
	OPS(t, 0x81, 0x40, DW_FORM_block, DW_LNCT_size, DW_FORM_data4, 3);
	for (int i = 0; i < 3; i++) {
		OPS(t, 0);
		if (form == DW_FORM_string)
			put_text(t, names[i]);
		else
			put(t, offsets[i], form == DW_FORM_strx1 ? 1 : t->is_64 ? 8 : 4);
		OPS(t, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 2, 9, 9, 1, 2, 3, 4);
	}
	end_header(t);
}

static void add_new_unit(struct table *t, uint64_t address, bool is_64, uint8_t form, const uint64_t offsets[3])
{
	begin_unit(t, HEAD(h.version = 5; h.is_64 = is_64));
	new_files(t, form, offsets);
	set_address(t, address);
	advance(t, 0, 0); /* file 1 */
	OPS(t, DW_LNS_set_file, 0);
	advance(t, 0x10, 1);
	OPS(t, DW_LNS_set_file, 2);
	advance(t, 0x10, 1);
	OPS(t, DW_LNS_set_file, 3);
	advance(t, 0x10, 1);
	end_sequence(t, 0x10);
	end_unit(t);
}

TEST(names_of_dwarf_5)
{
	static const char strings[] = "zero.c\0path/to/one.c\0folder/\0x/y/no_end";
	static const uint64_t offsets[] = { 0, 7, 12 }, odd[] = { 20, 29, UINT32_MAX };
	static const struct expected want[] = {
		{ 0x1000, "one.c:1" },	 { 0x1010, "zero.c:2" },   { 0x1020, "two.c:3" }, { 0x1030, "?" },
		{ 0x1100, "one.c:1" },	 { 0x1110, "zero.c:2" },   { 0x1120, "one.c:3" }, { 0x1130, "?" },
		{ 0x1200, "one.c:1" },	 { 0x1210, "zero.c:2" },   { 0x1220, "one.c:3" },
		{ 0x1300, "6:1" },	 { 0x1310, "0123456:2" },  { 0x1320, "in_str.c:3" },
		{ 0x1400, "?" },	 { 0x1410, "?" },	   { 0x1420, "?" },
		{ 0x1500, "?" },	 { 0x1510, "?" },	   { 0x1520, "?" },
	};
	static const uint64_t in_str[] = { 0, 6, 8 };
	_cleanup_(table_done) struct table t = {};

	add_new_unit(&t, 0x1000, false, DW_FORM_string, NULL);
	add_new_unit(&t, 0x1100, false, DW_FORM_line_strp, offsets);
	add_new_unit(&t, 0x1200, true, DW_FORM_line_strp, offsets);
	add_new_unit(&t, 0x1300, false, DW_FORM_strp, in_str);
	/* No name: ends with a slash, has no end, lies outside; needs .debug_info. */
	add_new_unit(&t, 0x1400, false, DW_FORM_line_strp, odd);
	add_new_unit(&t, 0x1500, false, DW_FORM_strx1, offsets);
	check_table(&t, strings, sizeof(strings) - 1, want, ARRAY_SIZE(want));
}

static void add_unit(struct table *t, struct head h, uint64_t address, int line)
{
	begin_unit(t, h);
	old_files(t);
	set_address(t, address);
	advance(t, 0, line - 1);
	end_sequence(t, 0x10);
	end_unit(t);
}

TEST(what_is_wrong_in_one_unit_stays_there)
{
	static const struct expected want[] = {
		{ 0x1000, "?" },	 { 0x1010, "?" }, { 0x1020, "?" },	   { 0x1030, "?" }, { 0x1040, "?" },
		{ 0x1050, "?" },	 { 0x1060, "?" }, { 0x1070, "first.c:8" }, { 0x1100, "first.c:9" },
		{ 0x1110, "first.c:10" }, { 0x1120, "?" },
	};
	_cleanup_(table_done) struct table t = {};

	add_unit(&t, HEAD(h.version = 1), 0x1000, 1);
	add_unit(&t, HEAD(h.version = 6), 0x1010, 2);
	add_unit(&t, HEAD(h.max_operations = 2), 0x1020, 3);
	add_unit(&t, HEAD(h.line_range = 0), 0x1030, 4);
	add_unit(&t, HEAD(h.opcode_base = 0), 0x1040, 5);
	begin_unit(&t, HEAD()); /* a header longer than its unit */
	old_files(&t);
	put(&t, 0, 4);
	end_unit(&t);
	t.line.buf[t.header + 3] = 0x7f;
	begin_unit(&t, HEAD()); /* a number without end */
	old_files(&t);
	set_address(&t, 0x1060);
	OPS(&t, DW_LNS_advance_line);
	for (int i = 0; i < 100000; i++)
		OPS(&t, 0x80);
	OPS(&t, 0);
	advance(&t, 0, 1);
	end_sequence(&t, 0x10);
	end_unit(&t);
	begin_unit(&t, HEAD()); /* an operation longer than its unit; a match before it counts */
	old_files(&t);
	set_address(&t, 0x1070);
	advance(&t, 0, 7);
	advance(&t, 0x10, 7);
	OPS(&t, 0, 0xff, 0x7f, 1);
	end_unit(&t);
	OPS(&t, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0); /* padding */
	add_unit(&t, HEAD(), 0x1100, 9);
	add_unit(&t, HEAD(), 0x1110, 10);
	put(&t, 0xfffffff5, 4); /* where this ends nobody knows */
	add_unit(&t, HEAD(), 0x1120, 11);
	check_table(&t, "", 0, want, ARRAY_SIZE(want));
}

TEST(the_last_unit_may_be_cut_short)
{
	static const struct expected want[] = { { 0x1000, "first.c:4" } };
	_cleanup_(table_done) struct table t = {};
	uint32_t much = 0x7fffffff;

	add_unit(&t, HEAD(), 0x1000, 4);
	memcpy(t.line.buf + t.unit, &much, sizeof(much));
	check_table(&t, "", 0, want, 1);
}

/* Units, tables and programs across the borders of what is read together. */
TEST(large_tables)
{
	enum { UNITS = 4000 };
	static char places_text[UNITS][32];
	static struct expected want[UNITS + 2];
	_cleanup_(table_done) struct table t = {};
	char name[128];

	for (unsigned int i = 0; i < UNITS; i++) {
		begin_unit(&t, HEAD());
		put_text(&t, "");
		(void)snprintf(name, sizeof(name), "%.*s/f%u.c", (int)(i * 31 % 100),
			       "a/long/folder/name/that/differs/in/its/length/"
			       "a/long/folder/name/that/differs/in/its/length", i);
		put_text(&t, name);
		OPS(&t, 0, 0, 0, 0);
		end_header(&t);
		set_address(&t, DEBUG_CODE + i * 16);
		advance(&t, 0, (int)(i % 60));
		end_sequence(&t, 16);
		end_unit(&t);
		(void)snprintf(places_text[i], sizeof(places_text[i]), "f%u.c:%u", i, i % 60 + 1);
		want[i] = (struct expected){ DEBUG_CODE + i * 16 + i % 16, places_text[i] };
	}
	/* A table of 300 KiB before a program of 300 KB. */
	begin_unit(&t, HEAD());
	put_text(&t, "");
	for (int i = 0; i < 30000; i++) {
		put_text(&t, i == 29998 ? "right.c" : "wrong.c");
		OPS(&t, 0, 0, 0);
	}
	put_text(&t, "");
	end_header(&t);
	set_address(&t, DEBUG_CODE + UNITS * 16);
	OPS(&t, DW_LNS_set_file);
	put_uleb(&t, 29999);
	for (int i = 0; i < 60000; i++)
		OPS(&t, DW_LNS_advance_line, 1, DW_LNS_copy, DW_LNS_set_column, 7);
	advance(&t, 4, 1);
	end_sequence(&t, 4);
	end_unit(&t);
	want[UNITS] = (struct expected){ DEBUG_CODE + UNITS * 16, "right.c:60001" };
	want[UNITS + 1] = (struct expected){ DEBUG_CODE + UNITS * 16 + 4, "right.c:60002" };
	check_table(&t, "", 0, want, ARRAY_SIZE(want));
}

TEST(limits_and_packing)
{
	_cleanup_(table_done) struct table t = {};
	_cleanup_strbuf_ struct strbuf packed = STRBUF_INIT;
	static const struct {
		uint32_t type;
		int64_t more_bytes; /* than there are, it says */
		uint64_t max_line_bytes;
		const char *place;
	} cases[] = {
		{ ELFCOMPRESS_ZLIB, 0, 1000, "first.c:4" },  { ELFCOMPRESS_ZLIB, 0, 20, "?" },
		{ ELFCOMPRESS_ZLIB, 200, 1000, "first.c:4" }, { ELFCOMPRESS_ZLIB, 1000, 1000, "?" },
		{ ELFCOMPRESS_ZLIB, -1, 1000, "?" },	     { 2 /* zstd */, 0, 1000, "?" },
	};

	add_unit(&t, HEAD(), 0x1000, 4);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct debug_limits l = { .max_line_bytes = cases[i].max_line_bytes };
		Elf64_Chdr ch = { .ch_type = cases[i].type, .ch_size = t.line.len + (uint64_t)cases[i].more_bytes };
		_cleanup_(debug_info_freep) struct debug_info *d = NULL;
		_cleanup_(elf_file_freep) struct elf_file *f = NULL;
		char text[300];

		strbuf_reset(&packed);
		debug_pack(&packed, t.line.buf, t.line.len);
		ASSERT(!packed.error);
		memcpy(packed.buf, &ch, sizeof(ch));
		const struct debug_section section = { ".debug_line", packed.buf, packed.len, SHT_PROGBITS, 0,
						       SHF_COMPRESSED };
		ASSERT(elf_file_open(debug_make_fd(&section, 1), &f) == 0);
		ASSERT(debug_info_open(f, NULL, "/nonexistent/made.so", &l, &d) == 0);
		EXPECT_STR(line_at(d, 0x1000, text), cases[i].place);
	}
}

TEST(sixteen_megabytes_in_time)
{
	_cleanup_(debug_info_freep) struct debug_info *d = NULL;
	_cleanup_(elf_file_freep) struct elf_file *f = NULL;
	_cleanup_(table_done) struct table t = {};
	struct debug_line q[100] = {};
	uint64_t start;

	while (t.line.len < (16u << 20)) {
		begin_unit(&t, HEAD());
		old_files(&t);
		set_address(&t, DEBUG_CODE);
		for (int i = 0; i < 10000; i++)
			OPS(&t, DW_LNS_set_column, (uint8_t)(i % 100), 13 + 14 + 5, 13 + 6, DW_LNS_negate_stmt);
		end_sequence(&t, 1);
		end_unit(&t);
	}
	const struct debug_section section = { ".debug_line", strbuf_str(&t.line), t.line.len, SHT_PROGBITS, 0, 0 };
	ASSERT(!t.line.error && elf_file_open(debug_make_fd(&section, 1), &f) == 0);
	ASSERT(debug_info_open(f, NULL, "/nonexistent/made.so", &limits, &d) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(q); i++)
		q[i].vaddr = DEBUG_CODE + DEBUG_CODE_BYTES - 1 - i; /* in none */
	start = clock_monotonic_ns();
	EXPECT_EQ(debug_info_lines(d, q, ARRAY_SIZE(q)), 0);
	printf("# %u ms\n", (unsigned int)((clock_monotonic_ns() - start) / NSEC_PER_MSEC));
	EXPECT(clock_monotonic_ns() - start < 10 * NSEC_PER_SEC);
	EXPECT(!q[0].file);
}

TEST_MAIN()
