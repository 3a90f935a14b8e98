/* SPDX-License-Identifier: MIT */
/* Source lines and names of what gcc, clang and binutils make, with and without separate debug files. */
#include <errno.h>
#include <sys/stat.h>

#include "debug_check.h"
#include "debug_make.h"
#include "elf_make.h"
#include "stack/debug_info.h"
#include "stack/elf_section.h"

#define ALL UINT64_C(8000000)

static const struct debug_limits limits = DEBUG_LIMITS_DEFAULT;

/* A function a line: every byte of its code belongs to that line. */
static const char lines_source[] =
	"#include \"sub/inner.h\"\n"
	"int gpu_outer(int x) { return gpu_inner(x) * 3 + x; }\n"
	"\n"
	"__attribute__((visibility(\"hidden\"))) int dropped(int x)"
	" { __asm__ volatile(\".skip 0x8000, 0x90\"); return x; }\n"
	"int gpu_twice(int x) { return gpu_inner(x) + gpu_inner(x + 2); }\n"
	"__attribute__((noinline)) static int local_helper(int x) { volatile int v = x; return v * 5; }\n"
	"int gpu_last(int x) { return local_helper(x) + 2; }\n";
static const char inner_source[] =
	"\n\n"
	"__attribute__((noinline)) int gpu_inner(int x) { volatile int v = x; return v + 7; }\n";
static const char second_source[] =
	"int gpu_inner(int x);\n\n\n"
	"int gpu_second(int x) { return gpu_inner(x) + gpu_inner(x + 1); }\n";

static const struct place {
	const char *function, *file; /* file NULL: the first source, which is named after the library */
	uint32_t line;
} places[] = {
	{ "gpu_outer", NULL, 2 },	 { "gpu_twice", NULL, 5 },	  { "gpu_last", NULL, 7 },
	{ "gpu_inner", "inner.h", 3 }, { "gpu_second", "second.c", 4 },
};

_printf_(1, 2) static bool shell(const char *fmt, ...)
{
	char command[4096];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	return system(command) == 0;
}

static bool write_file(const char *dir, const char *name, const void *data, size_t len)
{
	char path[512];
	FILE *f;
	bool ok;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	if (!f)
		return false;
	ok = fwrite(data, 1, len, f) == len;
	return fclose(f) == 0 && ok;
}

static bool make_sources(const char *dir)
{
	return shell("mkdir -p '%s/sub'", dir) && write_file(dir, "sub/inner.h", inner_source, strlen(inner_source)) &&
	       write_file(dir, "sub/second.c", second_source, strlen(second_source));
}

static bool build(const char *dir, const char *name, const char *flags)
{
	char all[512];

	(void)snprintf(all, sizeof(all), "%s -Wl,--gc-sections '%s/sub/second.c'", flags, dir);
	return elf_compile(dir, name, lines_source, all);
}

static struct elf_file *open_elf(const char *dir, const char *name)
{
	struct elf_file *f = NULL;
	int fd = elf_open_at(dir, name);

	return fd >= 0 && elf_file_open(fd, &f) == 0 ? f : NULL;
}

/* Every byte of every function in one question, in no order. full: has the symbols, may be f itself. */
static void check_lines(const struct elf_file *full, struct debug_info *d, const char *source)
{
	enum { MAX_BYTES = 8192 };
	_cleanup_free_ struct debug_line *q = calloc(MAX_BYTES, sizeof(*q));
	_cleanup_free_ const struct place **want = calloc(MAX_BYTES, sizeof(const struct place *));
	size_t n = 0, wrong = 0;

	ASSERT(q && want);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		uint64_t offset, vaddr;
		struct elf_symbol s;

		ASSERT(elf_file_functions(full, &places[i].function, 1, ALL, &offset) == 1);
		ASSERT(elf_file_vaddr(full, offset, &vaddr) == 0);
		s = (struct elf_symbol){ .vaddr = vaddr };
		ASSERT(elf_file_lookup(full, &s, 1, ALL) == 0 && s.name);
		free(s.name);
		EXPECT(s.size > 3);
		for (uint64_t at = 0; at < s.size && n < MAX_BYTES; at++) {
			const size_t place = n++ * 7919 % MAX_BYTES;

			q[place].vaddr = s.vaddr + at;
			want[place] = &places[i];
		}
	}
	EXPECT_EQ(debug_info_lines(d, q, MAX_BYTES), 0);
	for (size_t i = 0; i < MAX_BYTES; i++) {
		const char *file = !want[i] ? NULL : want[i]->file ? want[i]->file : source;

		if (!q[i].file != !file ||
		    (file && (strcmp(q[i].file, file) != 0 || q[i].line != want[i]->line))) {
			if (!wrong++)
				printf("# 0x%" PRIx64 " is %s:%u, expected %s:%u\n", q[i].vaddr, q[i].file, q[i].line,
				       file, want[i] ? want[i]->line : 0);
		}
		free(q[i].file);
	}
	EXPECT_EQ(wrong, 0);
}

TEST(lines_of_every_version_and_both_compilers)
{
	static const char *const compilers[] = { "gcc", "clang" };
	static const char *const flags[] = {
		"-gdwarf-2",		  "-gdwarf-3",		   "-gdwarf-4",
		"-gdwarf-5",		  "-g -gz=zlib",	   "-gdwarf-4 -gz=zlib",
		"-gdwarf-5 -gdwarf64",	  "-g -ffunction-sections", "-gdwarf-4 -ffunction-sections -gz=zlib",
		"-g -Wl,-z,noseparate-code -ffunction-sections",
	};
	_cleanup_(temp_proc_done) struct temp_proc dir = {};
	const char *before = getenv("CC");
	_cleanup_free_ char *saved = before ? strdup(before) : NULL;

	ASSERT(temp_proc_new(&dir) && make_sources(dir.root));
	for (size_t i = 0; i < ARRAY_SIZE(compilers) * ARRAY_SIZE(flags); i++) {
		_cleanup_(debug_info_freep) struct debug_info *d = NULL;
		_cleanup_(elf_file_freep) struct elf_file *f = NULL;
		int failures = test_failures;
		char text[300];

		(void)setenv("CC", compilers[i / ARRAY_SIZE(flags)], 1);
		ASSERT(build(dir.root, "lib.so", flags[i % ARRAY_SIZE(flags)]));
		f = open_elf(dir.root, "lib.so");
		ASSERT(f && debug_info_open(f, dir.root, "/lib.so", &limits, &d) == 0);
		check_lines(f, d, "lib.so.c");
		/* The dropped function's code would begin at 0 and reach over all of this. */
		for (uint64_t at = 0; at < 0x40; at++)
			EXPECT_STR(line_at(d, at, text), "?");
		if (test_failures != failures)
			printf("# with %s %s\n", compilers[i / ARRAY_SIZE(flags)], flags[i % ARRAY_SIZE(flags)]);
	}
	if (saved)
		(void)setenv("CC", saved, 1);
	else
		(void)unsetenv("CC");
}

/* The code of a file's start-up, without lines, lies where a dropped function of 32 KiB at 0 would be. */
TEST(dropped_functions_cover_nothing)
{
	_cleanup_(temp_proc_done) struct temp_proc dir = {};
	static const char *const name[] = { ".init" };
	struct elf_section init;
	char text[300];

	ASSERT(temp_proc_new(&dir) && make_sources(dir.root));
	ASSERT(build(dir.root, "lib.so", "-g -ffunction-sections"));
	_cleanup_(debug_info_freep) struct debug_info *d = NULL;
	_cleanup_(elf_file_freep) struct elf_file *f = open_elf(dir.root, "lib.so");
	ASSERT(f && debug_info_open(f, dir.root, "/lib.so", &limits, &d) == 0);
	ASSERT(elf_section_find(f, name, 1, &init) == 0 && init.offset);
	EXPECT(init.offset < 0x8000);
	EXPECT_STR(line_at(d, init.offset, text), "?");
}

/* ROOT/opt/lib.so, stripped; ROOT/full.so and ROOT/lib.debug, which nobody looks at there. */
struct stripped {
	struct temp_proc dir;
	struct elf_file *full, *f;
	uint64_t helper; /* address of local_helper() */
};

static void stripped_done(struct stripped *s)
{
	elf_file_free(s->full);
	elf_file_free(s->f);
	temp_proc_done(&s->dir);
}

static bool stripped_new(struct stripped *s, const char *flags)
{
	static const char *const helper[] = { "local_helper" };
	uint64_t offset;
	const char *root = s->dir.root;

	if (!temp_proc_new(&s->dir) || !make_sources(root) || !build(root, "full.so", flags))
		return false;
	if (!shell("cd '%s' && mkdir -p opt && objcopy --only-keep-debug full.so lib.debug && cp full.so opt/lib.so && "
		   "objcopy -S --add-gnu-debuglink=lib.debug opt/lib.so",
		   root))
		return false;
	s->full = open_elf(root, "full.so");
	s->f = open_elf(root, "opt/lib.so");
	return s->full && s->f && elf_file_functions(s->full, helper, 1, ALL, &offset) == 1 &&
	       elf_file_vaddr(s->full, offset, &s->helper) == 0;
}

/* With l, in the process's root or in ours. */
static void expect_found(const struct stripped *s, const struct debug_limits *l, bool is_ours, bool is_found)
{
	_cleanup_(debug_info_freep) struct debug_info *d = NULL;
	char path[256], text[300];
	int failures = test_failures;

	(void)snprintf(path, sizeof(path), "%s/opt/lib.so", is_ours ? s->dir.root : "");
	ASSERT(debug_info_open(s->f, is_ours ? NULL : s->dir.root, path, l, &d) == 0);
	EXPECT_STR(name_at(d, s->helper, text), is_found ? "local_helper" : "?");
	EXPECT_STR(line_at(d, s->helper, text), is_found ? "full.so.c:6" : "?");
	EXPECT(debug_info_bytes(d) < 4096);
	if (is_found)
		check_lines(s->full, d, "full.so.c");
	if (test_failures != failures)
		printf("# %s root\n", is_ours ? "in our" : "in the process's");
}

#define BUILD_ID "ab00cdef01234567"
#define BUILD_ID_FILE "usr/lib/debug/.build-id/ab/00cdef01234567.debug"

TEST(where_debug_files_are_looked_for)
{
	static const struct {
		const char *place, *flags;
		bool is_in_ours; /* also found through our root, below the folder of the test */
	} cases[] = {
		{ BUILD_ID_FILE, "-g -Wl,--build-id=0x" BUILD_ID, false },
		{ BUILD_ID_FILE, "-g -gz=zlib -Wl,--build-id=0x" BUILD_ID, false },
		{ "opt/lib.debug", "-g -Wl,--build-id=none", true },
		{ "opt/lib.debug", "-g -Wl,--build-id=0x" BUILD_ID, true },
		{ "opt/.debug/lib.debug", "-gdwarf-4 -Wl,--build-id=none", true },
		{ "usr/lib/debug/opt/lib.debug", "-g -Wl,--build-id=none", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(stripped_done) struct stripped s = {};
		int failures = test_failures;

		ASSERT(stripped_new(&s, cases[i].flags));
		expect_found(&s, &limits, false, false);
		ASSERT(shell("cd '%s' && mkdir -p \"$(dirname %s)\" && mv lib.debug %s", s.dir.root, cases[i].place,
			     cases[i].place));
		expect_found(&s, &limits, false, true);
		expect_found(&s, &limits, true, cases[i].is_in_ours);
		if (test_failures != failures)
			printf("# %s, %s\n", cases[i].place, cases[i].flags);
	}
}

TEST(only_the_right_debug_file_counts)
{
	_cleanup_(stripped_done) struct stripped with = {}, without = {};
	struct debug_limits small = DEBUG_LIMITS_DEFAULT;

	small.max_crc_bytes = 1000;
	ASSERT(stripped_new(&with, "-g -Wl,--build-id=0x" BUILD_ID));
	ASSERT(stripped_new(&without, "-g -Wl,--build-id=none"));

	/* Another build under our id's name, or under the link's name. */
	ASSERT(shell("cd '%s' && mkdir -p usr/lib/debug/.build-id/ab && "
		     "cc -shared -g -w -Wl,--build-id=0xab00cdef01234568 -o other.so full.so.c sub/second.c && "
		     "cp other.so " BUILD_ID_FILE " && cp other.so opt/lib.debug",
		     with.dir.root));
	expect_found(&with, &limits, false, false);
	/* The right one, but without an id, and changed by that. */
	ASSERT(shell("cd '%s' && rm opt/lib.debug && "
		     "objcopy --remove-section=.note.gnu.build-id lib.debug " BUILD_ID_FILE, with.dir.root));
	expect_found(&with, &limits, false, false);

	ASSERT(shell("cd '%s' && cp lib.debug opt/", without.dir.root));
	expect_found(&without, &limits, false, true);
	expect_found(&without, &small, false, false);
	ASSERT(shell("cd '%s' && printf x >> opt/lib.debug", without.dir.root));
	expect_found(&without, &limits, false, false);
	/* A wrong one does not hide the right one behind it; one without any information neither. */
	ASSERT(shell("cd '%s' && mkdir opt/.debug && cp lib.debug opt/.debug", without.dir.root));
	expect_found(&without, &limits, false, true);
	ASSERT(shell("cd '%s' && cp opt/lib.so " BUILD_ID_FILE " && mv lib.debug opt/", with.dir.root));
	expect_found(&with, &limits, false, true);
}

/* As other tools than binutils write them: only the note section says where the id is. */
TEST(build_id_by_section)
{
	_cleanup_(stripped_done) struct stripped s = {};
	_cleanup_close_ int fd = -1;
	Elf64_Phdr ph[32];
	char path[256];
	Elf64_Ehdr eh;

	ASSERT(stripped_new(&s, "-g -Wl,--build-id=0x" BUILD_ID));
	(void)snprintf(path, sizeof(path), "%s/lib.debug", s.dir.root);
	fd = open(path, O_RDWR | O_CLOEXEC);
	ASSERT(fd >= 0 && pread(fd, &eh, sizeof(eh), 0) == sizeof(eh) && eh.e_phnum <= ARRAY_SIZE(ph));
	ASSERT(pread(fd, ph, sizeof(*ph) * eh.e_phnum, (off_t)eh.e_phoff) > 0);
	for (size_t i = 0; i < eh.e_phnum; i++) {
		if (ph[i].p_type == PT_NOTE)
			ph[i].p_offset = 1 << 20;
	}
	ASSERT(pwrite(fd, ph, sizeof(*ph) * eh.e_phnum, (off_t)eh.e_phoff) > 0);
	ASSERT(shell("cd '%s' && mkdir -p usr/lib/debug/.build-id/ab && mv lib.debug " BUILD_ID_FILE, s.dir.root));
	expect_found(&s, &limits, false, true);
}

TEST(links_and_odd_files)
{
	_cleanup_(stripped_done) struct stripped s = {};

	ASSERT(stripped_new(&s, "-g -Wl,--build-id=0x" BUILD_ID));
	ASSERT(shell("cd '%s' && mkdir -p usr/lib/debug/.build-id/ab real && mkfifo " BUILD_ID_FILE " && "
		     "mkdir opt/lib.debug", s.dir.root));
	expect_found(&s, &limits, false, false); /* and not kept waiting */
	/* A link leads where it would lead the process. */
	ASSERT(shell("cd '%s' && rm " BUILD_ID_FILE " && ln -s /real/lib.debug " BUILD_ID_FILE " && cp lib.debug real/",
		     s.dir.root));
	expect_found(&s, &limits, false, true);
	ASSERT(shell("cd '%s' && ln -sf \"$PWD/real/lib.debug\" " BUILD_ID_FILE, s.dir.root));
	expect_found(&s, &limits, false, false);
	ASSERT(shell("cd '%s' && ln -sf ../../../../../../../../../..$PWD/real/lib.debug " BUILD_ID_FILE, s.dir.root));
	expect_found(&s, &limits, false, false);
	/* A file whose link names itself. */
	ASSERT(shell("cd '%s' && rm -r opt/lib.debug && ln opt/lib.so opt/lib.debug", s.dir.root));
	expect_found(&s, &limits, false, false);
	ASSERT(shell("cd '%s' && ln -f lib.debug opt/lib.debug", s.dir.root));
	expect_found(&s, &limits, false, true);
}

TEST(names_of_links)
{
	static const struct {
		const char *content;
		size_t len;
		bool is_found;
	} cases[] = {
		{ "lib.debug\0\0\0ABCD", 16, true }, /* the file has an id: the checksum does not matter */
		{ "lib.debug\0\0\0ABC", 15, false },
		{ "lib.debug", 9, false },
		{ "./lib.debug\0ABCD", 16, false },
		{ "..\0\0ABCD", 8, false },
		{ "\0\0\0\0ABCD", 8, false },
		{ "\0", 1, false },
	};
	_cleanup_(stripped_done) struct stripped s = {};

	ASSERT(stripped_new(&s, "-g -Wl,--build-id=0x" BUILD_ID));
	ASSERT(shell("cd '%s' && mv lib.debug opt && objcopy --remove-section=.gnu_debuglink opt/lib.so plain.so",
		     s.dir.root));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		ASSERT(write_file(s.dir.root, "link", cases[i].content, cases[i].len));
		ASSERT(shell("cd '%s' && objcopy --add-section .gnu_debuglink=link plain.so linked.so", s.dir.root));
		elf_file_free(s.f);
		s.f = open_elf(s.dir.root, "linked.so");
		ASSERT(s.f);
		expect_found(&s, &limits, false, cases[i].is_found);
	}
}

/* As distributions do it: what .dynsym does not name, in a file of its own, packed into the stripped one. */
static bool make_minidebug(const char *dir)
{
	_cleanup_strbuf_ struct strbuf packed = STRBUF_INIT;
	static char mini[1 << 20];
	_cleanup_close_ int fd = -1;
	ssize_t n;

	if (!shell("cd '%s' && nm -D full.so --format=posix --defined-only | cut -d' ' -f1 | sort > dynamic && "
		   "nm lib.debug --format=posix --defined-only | awk '$2 ~ /[Tt]/ { print $1 }' | sort > all && "
		   "comm -13 dynamic all > keep && "
		   "objcopy -S --remove-section .comment --keep-symbols=keep lib.debug mini",
		   dir))
		return false;
	fd = elf_open_at(dir, "mini");
	n = read(fd, mini, sizeof(mini));
	if (n <= 0)
		return false;
	debug_pack_xz(&packed, mini, (size_t)n);
	return !packed.error && write_file(dir, "mini.xz", packed.buf, packed.len) &&
	       shell("cd '%s/opt' && "
		     "objcopy --remove-section=.gnu_debuglink --add-section .gnu_debugdata=../mini.xz lib.so",
		     dir);
}

TEST(minidebug)
{
	_cleanup_(stripped_done) struct stripped s = {};
	_cleanup_(debug_info_freep) struct debug_info *d = NULL, *limited = NULL;
	struct debug_limits small = DEBUG_LIMITS_DEFAULT;
	struct elf_symbol q[2] = {};
	uint64_t offset, vaddr;
	size_t bytes;
	char text[300];

	small.max_minidebug = 1000;
	ASSERT(stripped_new(&s, "-g -Wl,--build-id=none") && make_minidebug(s.dir.root));
	elf_file_free(s.f);
	s.f = open_elf(s.dir.root, "opt/lib.so");
	ASSERT(s.f && debug_info_open(s.f, s.dir.root, "/opt/lib.so", &limits, &d) == 0);
	bytes = debug_info_bytes(d);
	EXPECT_STR(name_at(d, s.helper, text), "local_helper");
	EXPECT(debug_info_bytes(d) > bytes + 1000);
	EXPECT_STR(line_at(d, s.helper, text), "?");
	ASSERT(elf_file_functions(s.full, &places[0].function, 1, ALL, &offset) == 1);
	ASSERT(elf_file_vaddr(s.full, offset, &vaddr) == 0);
	/* Both tables in one question; a name that is there already stays. */
	q[0].vaddr = vaddr;
	q[1].vaddr = s.helper;
	q[1].name = text;
	EXPECT_EQ(debug_info_symbols(d, q, 2), 0);
	EXPECT_STR(q[0].name, "gpu_outer");
	EXPECT(q[0].size > 3 && q[1].name == text);
	free(q[0].name);

	ASSERT(debug_info_open(s.f, s.dir.root, "/opt/lib.so", &small, &limited) == 0);
	EXPECT_STR(name_at(limited, s.helper, text), "?");
	EXPECT_STR(name_at(limited, vaddr, text), "gpu_outer");
	EXPECT_EQ(debug_info_bytes(limited), bytes);
}

static const char *name_with_minidebug(const void *data, size_t len, char text[300])
{
	const struct debug_section section = { ".gnu_debugdata", data, len, SHT_PROGBITS, 0, 0 };
	_cleanup_(debug_info_freep) struct debug_info *d = NULL;
	_cleanup_(elf_file_freep) struct elf_file *f = NULL;

	if (elf_file_open(debug_make_fd(&section, 1), &f) < 0 ||
	    debug_info_open(f, NULL, "/nonexistent/x.so", &limits, &d) < 0)
		return "cannot open";
	return name_at(d, DEBUG_CODE + 8, text);
}

/* A file with one symbol, in memory. */
static void make_one_symbol(struct strbuf *sb, const char *name)
{
	const Elf64_Sym syms[] = { {}, { .st_name = 1, .st_info = MADE_LOCAL, .st_shndx = 1, .st_value = DEBUG_CODE,
					 .st_size = 16 } };
	char names[64] = "";
	const struct debug_section sections[] = {
		{ ".symtab", syms, sizeof(syms), SHT_SYMTAB, 2, 0 },
		{ ".strtab", names, sizeof(names), SHT_STRTAB, 0, 0 },
	};
	_cleanup_close_ int fd = -1;
	char buf[4096];
	ssize_t n;

	(void)snprintf(names + 1, sizeof(names) - 1, "%s", name);
	fd = debug_make_fd(sections, ARRAY_SIZE(sections));
	n = pread(fd, buf, sizeof(buf), 0);
	strbuf_add(sb, buf, n > 0 ? (size_t)n : 0);
}

TEST(damaged_minidebug)
{
	_cleanup_strbuf_ struct strbuf plain = STRBUF_INIT, packed = STRBUF_INIT, bomb = STRBUF_INIT;
	_cleanup_free_ char *zeros = calloc(1, 64 << 20);
	char text[300];

	make_one_symbol(&plain, "inner");
	debug_pack_xz(&packed, plain.buf, plain.len);
	ASSERT(zeros && !packed.error);
	EXPECT_STR(name_with_minidebug(packed.buf, packed.len, text), "inner");
	for (size_t i = 0; i < packed.len; i += 3) {
		packed.buf[i] ^= 0x40;
		EXPECT_STR(name_with_minidebug(packed.buf, packed.len, text), "?");
		packed.buf[i] ^= 0x40;
		EXPECT_STR(name_with_minidebug(packed.buf, i, text), "?");
	}
	EXPECT_STR(name_with_minidebug(plain.buf, plain.len, text), "?");
	/* 64 MiB in ten thousand bytes. */
	debug_pack_xz(&bomb, zeros, 64 << 20);
	ASSERT(!bomb.error && bomb.len < 100000);
	EXPECT_STR(name_with_minidebug(bomb.buf, bomb.len, text), "?");
}

/* Each table names the same address otherwise. */
TEST(order_of_symbol_tables)
{
	const Elf64_Sym syms[] = { {}, { .st_name = 1, .st_info = MADE_FUNC, .st_shndx = 1, .st_value = DEBUG_CODE,
					 .st_size = 32 } };
	_cleanup_strbuf_ struct strbuf mini = STRBUF_INIT, packed = STRBUF_INIT;
	char text[300];

	make_one_symbol(&mini, "in_minidebug");
	debug_pack_xz(&packed, mini.buf, mini.len);
	ASSERT(!packed.error);
	const struct debug_section sections[] = {
		{ ".dynsym", syms, sizeof(syms), SHT_DYNSYM, 2, 0 },
		{ ".dynstr", "\0in_dynsym", 11, SHT_STRTAB, 0, 0 },
		{ ".gnu_debugdata", packed.buf, packed.len, SHT_PROGBITS, 0, 0 },
		{ ".symtab", syms, sizeof(syms), SHT_SYMTAB, 5, 0 },
		{ ".strtab", "\0in_symtab", 11, SHT_STRTAB, 0, 0 },
	};
	for (size_t n = 2; n <= ARRAY_SIZE(sections); n++) {
		static const char *const want[] = { "in_dynsym", "in_minidebug", NULL, "in_symtab" };
		_cleanup_(debug_info_freep) struct debug_info *d = NULL;
		_cleanup_(elf_file_freep) struct elf_file *f = NULL;

		if (!want[n - 2])
			continue;
		ASSERT(elf_file_open(debug_make_fd(sections, n), &f) == 0);
		ASSERT(debug_info_open(f, NULL, "/nonexistent/x.so", &limits, &d) == 0);
		EXPECT_STR(name_at(d, DEBUG_CODE + 8, text), want[n - 2]);
		/* Past the one in the small file, whose symbol is shorter. */
		EXPECT_STR(name_at(d, DEBUG_CODE + 20, text), n == 5 ? "in_symtab" : "in_dynsym");
	}
}

TEST_MAIN()
