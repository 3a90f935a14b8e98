/* SPDX-License-Identifier: MIT */
/* Rows of the configuration against files: which functions are found, and what is said of the rest. */
#include <errno.h>
#include <stdlib.h>

#include "elf_make.h"
#include "stack/elf_file.h"
#include "test.h"
#include "trace/search.h"

/* Local functions under names of our choice, as a C++ compiler would give them. */
#define F(n, symbol) "static __attribute__((noinline, used)) int f" #n "(int x) __asm__(\"" symbol "\");\n" \
		     "static int f" #n "(int x) { return x * 3 + " #n "; }\n"
#define CACHE "_ZN3c104cuda20CUDACachingAllocator6Native"

static const char source[] =
	F(1, CACHE "22NativeCachingAllocator6mallocEPPvamP11CUstream_st")
	F(2, CACHE "22NativeCachingAllocator4freeEPv")
	F(3, CACHE "L16local_raw_deleteEPv")
	F(4, CACHE "L16local_raw_deleteEPv.cold")
	F(5, CACHE "22NativeCachingAllocator6mallocEPPvamP11CUstream_st.part.0")
	F(6, CACHE "22DeviceCachingAllocator6mallocEamP11CUstream_st")
	F(7, CACHE "22NativeCachingAllocator10raw_deleteEPv.lto_priv.0")
	F(8, "plain_alloc") F(9, "plain_alloc.cold") F(10, "plain_alloc.constprop.0") F(11, "plain_free")
	F(12, "_ZN4pool3getEm.isra.0") F(13, "_ZN4pool3getEi")
	"int cuMemAlloc_v2(int x) { return f1(x); }\n"
	"int cuMemNewThing(int x) { return f2(x) + 1; }\n"
	"int cuMemNewThing_ptsz(int x) { return f2(x) + 2; }\n"
	"int cuMemGetInfo_v2(int x) { return f3(x) + 3; }\n"
	"int cuMemcpyNew(int x) { return f3(x) + 4; }\n"
	"int cuLaunchNew(int x) { return f3(x) + 5; }\n"
	"int plain_alloc_more(int x) { return f3(x) + 6; }\n"
	"extern int plain_alloc_twice(int x) __attribute__((alias(\"plain_alloc_more\")));\n";

static struct user_call row(const char *library, const char *symbol, int line)
{
	return (struct user_call){ .library = (char *)library, .symbol = (char *)symbol, .file = (char *)"g.conf",
				   .line = line, .desc = { .op = CALL_ALLOC, .class = CLASS_FRAMEWORK } };
}

/* The number of functions found for the nth row of the configuration. */
static size_t found(const struct search *s, const struct user_call *u)
{
	size_t n = 0;

	for (size_t i = 0; i < s->len; i++)
		n += call_user(s->hits[i].row) == u;
	return n;
}

static int search(const char *dir, const char *name, const char *as, bool is_named, struct search *ret)
{
	_cleanup_(elf_file_freep) struct elf_file *f = NULL;
	int r = elf_file_open(elf_open_at(dir, name), &f);

	return r < 0 ? r : search_file(f, as, is_named, false, ret);
}

/* Is the one function of this row this symbol's? */
static bool is_at(const struct search *s, const struct user_call *u, const char *dir, const char *name, const char *symbol)
{
	_cleanup_(elf_file_freep) struct elf_file *f = NULL;
	uint64_t offset = 0;

	if (elf_file_open(elf_open_at(dir, name), &f) < 0 || elf_file_functions(f, &symbol, 1, 1000, &offset) != 1)
		return false;
	for (size_t i = 0; i < s->len; i++)
		if (call_user(s->hits[i].row) == u && s->hits[i].offset != offset)
			return false;
	return found(s, u) == 1;
}

TEST(files_that_are_wanted)
{
	const struct user_call rows[] = { row("libc10_cuda.so*", "f", 1), row("tool", "f", 2) };

	ASSERT(calls_init(rows, ARRAY_SIZE(rows)) == 0);
	EXPECT(search_wants_file("/usr/lib/libcuda.so.1"));
	EXPECT(search_wants_file("/x/libcuda.so.580.1 (deleted)"));
	EXPECT(search_wants_file("/opt/torch/lib/libc10_cuda.so"));
	EXPECT(search_wants_file("/opt/torch/lib/libc10_cuda.so (deleted)"));
	EXPECT(search_wants_file("/usr/bin/tool"));
	EXPECT(search_wants_file("/usr/bin/tool (deleted)"));
	EXPECT(!search_wants_file("/usr/bin/tools"));
	EXPECT(!search_wants_file("/opt/libc10_cuda.so/lib/libc10.so"));
	EXPECT(!search_wants_file("/usr/lib/libc.so.6"));
	EXPECT_EQ(calls_init(NULL, 0), 0);
	EXPECT(!search_wants_file("/opt/torch/lib/libc10_cuda.so"));
}

TEST(functions_by_pattern)
{
	struct user_call rows[] = {
		row("libc10*", "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::malloc(void**, *", 1),
		row("libc10*", "*::NativeCachingAllocator::free", 2),
		row("libc10*", "*local_raw_delete(void*)", 3),
		row("libc10*", "*::raw_delete(*", 4),
		row("libc10*", "plain_alloc*", 5),
		row("libc10*", "pool::get(unsigned long)", 6),
		row("libc10*", "pool::get(int)", 7),
		row("libc10*", "plain_allo[c]", 8), /* taken by line 5 */
		row("libother*", "plain_free", 9),
		row("libc10*", "nothing_of_it", 10),
	};
	_cleanup_(search_done) struct search s = {}, other = {};
	_cleanup_(temp_proc_done) struct temp_proc t = {};
	const char *dir = t.root;

	ASSERT(temp_proc_new(&t) && elf_compile(dir, "libc10_cuda.so", source, ""));
	ASSERT(calls_init(rows, ARRAY_SIZE(rows)) == 0);
	ASSERT(search(dir, "libc10_cuda.so", "/opt/libc10_cuda.so (deleted)", false, &s) == 0);
	EXPECT(is_at(&s, &rows[0], dir, "libc10_cuda.so", CACHE "22NativeCachingAllocator6mallocEPPvamP11CUstream_st"));
	EXPECT(is_at(&s, &rows[1], dir, "libc10_cuda.so", CACHE "22NativeCachingAllocator4freeEPv"));
	EXPECT(is_at(&s, &rows[2], dir, "libc10_cuda.so", CACHE "L16local_raw_deleteEPv"));
	EXPECT(is_at(&s, &rows[3], dir, "libc10_cuda.so", CACHE "22NativeCachingAllocator10raw_deleteEPv.lto_priv.0"));
	EXPECT_EQ(found(&s, &rows[4]), 2); /* plain_alloc and plain_alloc_more, whose second name is the same code */
	EXPECT_EQ(found(&s, &rows[5]), 0);
	EXPECT(is_at(&s, &rows[6], dir, "libc10_cuda.so", "_ZN4pool3getEi"));
	EXPECT_EQ(found(&s, &rows[8]), 0);
	EXPECT_EQ(s.len, 7);
	EXPECT_EQ(s.wanted, 9); /* no row of a driver: by its name it is none */
	EXPECT_STR(s.unmatched, "g.conf:6 g.conf:8 g.conf:10");
	EXPECT_EQ(s.unknown_count, 0);
	EXPECT(!s.is_cut && !s.over_count);

	ASSERT(search(dir, "libc10_cuda.so", "/opt/libother.so", false, &other) == 0);
	EXPECT_EQ(other.len, 1);
	EXPECT_EQ(found(&other, &rows[8]), 1);
	EXPECT_EQ(calls_init(NULL, 0), 0);
}

TEST(rows_of_a_driver_and_its_new_calls)
{
	_cleanup_(search_done) struct search s = {}, named = {}, none = {};
	_cleanup_(temp_proc_done) struct temp_proc t = {};
	const char *dir = t.root;

	ASSERT(temp_proc_new(&t) && elf_compile(dir, "libcuda.so.1", source, ""));
	ASSERT(calls_init(NULL, 0) == 0);
	ASSERT(search(dir, "libcuda.so.1", "/lib/libcuda.so.1", false, &s) == 0);
	ASSERT(s.len == 1);
	EXPECT_STR(call_symbol(s.hits[0].row), "cuMemAlloc_v2");
	EXPECT(s.wanted > 50 && s.wanted <= calls_len());
	EXPECT_EQ(s.unknown_count, 2);
	EXPECT(strcmp(s.unknown, "cuMemNewThing cuMemNewThing_ptsz") == 0 ||
	       strcmp(s.unknown, "cuMemNewThing_ptsz cuMemNewThing") == 0);
	/* By another name it is a driver's library only when the operator says so. */
	ASSERT(search(dir, "libcuda.so.1", "/lib/gpu.so", true, &named) == 0);
	EXPECT_EQ(named.len, 1);
	ASSERT(search(dir, "libcuda.so.1", "/lib/gpu.so", false, &none) == 0);
	EXPECT_EQ(none.len, 0);
	EXPECT_EQ(none.wanted, 0);
}

#if defined(__x86_64__)
/* Where a row's functions return, for those that need it. */
TEST(ends_of_functions)
{
	static const char code[] =
		"__asm__(\".text\\n\"\n"
		"\".globl two\\n.type two,%function\\ntwo: test %edi,%edi\\n je 1f\\n ret\\n1: mov $0xc3,%eax\\n ret\\n"
		".size two,.-two\\n\"\n"
		"\".globl tail\\n.type tail,%function\\ntail: jmp two\\n.size tail,.-tail\\n\"\n"
		"\".globl odd\\n.type odd,%function\\nodd: ret\\n .byte 6\\n.size odd,.-odd\\n\"\n"
		"\".globl none\\n.type none,%function\\nnone: ud2\\n.size none,.-none\\n\"\n"
		"\".globl sizeless\\n.type sizeless,%function\\nsizeless: ret\\n\"\n"
		"\".globl split\\n.type split,%function\\nsplit: test %edi,%edi\\n je split.cold\\n ret\\n"
		".size split,.-split\\n.type split.cold,%function\\nsplit.cold: nop\\n ret\\n.size split.cold,.-split.cold\\n\"\n"
		"\".globl rotten\\n.type rotten,%function\\nrotten: ret\\n.size rotten,.-rotten\\n"
		".type rotten.cold,%function\\nrotten.cold: .byte 6\\n.size rotten.cold,.-rotten.cold\\n\");\n";
	struct user_call rows[] = { row("libends.so", "two", 1),     row("libends.so", "tail", 2), row("libends.so", "odd", 3),
				    row("libends.so", "none", 4),    row("libends.so", "sizeless", 5),
				    row("libends.so", "split", 6),   row("libends.so", "rotten", 7) };
	static const size_t ends[] = { 2, 0, 0, 0, 0, 2, 0 };
	_cleanup_(temp_proc_done) struct temp_proc t = {};

	ASSERT(temp_proc_new(&t) && elf_compile(t.root, "libends.so", code, ""));
	for (int round = 0; round < 3; round++) {
		_cleanup_(search_done) struct search s = {};

		/* Returns nothing: then a jump for good is an end too; and a free of that kind needs none. */
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
			rows[i].desc.result = round ? RESULT_NONE : RESULT_ZERO;
			rows[i].desc.op = round == 2 ? CALL_FREE : CALL_ALLOC;
		}
		ASSERT(calls_init(rows, ARRAY_SIZE(rows)) == 0);
		ASSERT(search(t.root, "libends.so", "/x/libends.so", false, &s) == 0);
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
			const size_t want = round == 2 ? 0 : round == 1 && i == 1 ? 1 : ends[i];
			size_t n = 0;

			for (size_t k = 0; k < s.ends_len; k++)
				n += call_user(s.ends[k].row) == &rows[i];
			EXPECT_EQ(n, want);
			EXPECT_EQ(found(&s, &rows[i]), round == 2 || want > 0);
		}
		EXPECT_EQ(strstr(s.endless, "odd") && strstr(s.endless, "none") && strstr(s.endless, "sizeless") &&
				  strstr(s.endless, "rotten"), round < 2);
		EXPECT_EQ(!!strstr(s.endless, "tail"), round == 0);
		EXPECT_STR(s.unmatched, "");
	}
	EXPECT_EQ(calls_init(NULL, 0), 0);
}
#endif

TEST(more_functions_than_a_row_may_have)
{
	const struct user_call rows[] = { row("libmany.so", "many_*", 1), row("libmany.so", "one_*", 2) };
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	_cleanup_(search_done) struct search s = {};
	_cleanup_(temp_proc_done) struct temp_proc t = {};
	const char *dir = t.root;

	for (int i = 0; i < 200; i++)
		strbuf_addf(&sb, "int many_%03d(int x) { return x + %d; }\n", i, i);
	strbuf_adds(&sb, "int one_(int x) { return x * 5; }\n");
	ASSERT(temp_proc_new(&t) && elf_compile(dir, "libmany.so", strbuf_str(&sb), ""));
	ASSERT(calls_init(rows, ARRAY_SIZE(rows)) == 0);
	ASSERT(search(dir, "libmany.so", "/x/libmany.so", false, &s) == 0);
	EXPECT_EQ(found(&s, &rows[0]), USER_CALL_SYMBOLS_MAX);
	EXPECT_EQ(found(&s, &rows[1]), 1);
	/* Each is in both tables, and counted once. */
	EXPECT_EQ(s.over_count, 200 - USER_CALL_SYMBOLS_MAX);
	EXPECT(strncmp(s.over, "many_", 5) == 0 && strlen(s.over) < SEARCH_TEXT_MAX);
	EXPECT_STR(s.over + strlen(s.over) - 4, " ...");
	EXPECT_EQ(calls_init(NULL, 0), 0);
}

/* What a compiler would not write: the byte behind the first one of each name becomes an escape. */
static bool spoil_names(const char *dir, const char *name, const char *start)
{
	char path[256], *data = NULL, *p;
	bool good = false;
	size_t len = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "r+e");
	data = malloc(1 << 20);
	if (f && data)
		len = fread(data, 1, 1 << 20, f);
	for (char *at = data; len && (p = memmem(at, (size_t)(data + len - at), start, strlen(start))); at = p + 1) {
		p[1] = '\033';
		good = true;
	}
	if (f && (fseek(f, 0, SEEK_SET) < 0 || fwrite(data, 1, len, f) != len))
		good = false;
	free(data);
	return f && fclose(f) == 0 && good;
}

TEST(names_from_files_are_made_harmless)
{
	const struct user_call rows[] = { row("libbad.so", "a*", 1) };
	_cleanup_(search_done) struct search s = {};
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	_cleanup_(temp_proc_done) struct temp_proc t = {};
	const char *dir = t.root;

	for (int i = 0; i < USER_CALL_SYMBOLS_MAX + 1; i++)
		strbuf_addf(&sb, "int aQQ_31m%d(int x) { return x + %d; }\n", i, i);
	ASSERT(temp_proc_new(&t) && elf_compile(dir, "libbad.so", strbuf_str(&sb), "") &&
	       spoil_names(dir, "libbad.so", "aQQ_31m"));
	ASSERT(calls_init(rows, ARRAY_SIZE(rows)) == 0);
	ASSERT(search(dir, "libbad.so", "/x/libbad.so", false, &s) == 0);
	EXPECT_EQ(s.len, USER_CALL_SYMBOLS_MAX);
	EXPECT_EQ(s.over_count, 1);
	EXPECT(strncmp(s.over, "a?Q_31m", 7) == 0);
	EXPECT_EQ(calls_init(NULL, 0), 0);
}

TEST_MAIN()
