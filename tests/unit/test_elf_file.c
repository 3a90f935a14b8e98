/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <errno.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "elf_make.h"
#include "stack/elf_file.h"
#include "test.h"

#define ALL UINT64_C(8000000)

static const char library_source[] =
	"int data_object = 7;\n"
	"extern int imported(int);\n"
	"static __attribute__((noinline)) int hidden_helper(int x) { return x * data_object + 3; }\n"
	"int cuMemAlloc(int x) { return hidden_helper(x) + 1; }\n"
	"int cuMemAlloc_v2(int x) { return hidden_helper(x) + 2; }\n"
	"int my_cuMemAlloc_v2(int x) { return hidden_helper(x) + 4; }\n"
	"int cuMemAlloc_v2_ptsz(int x) { return hidden_helper(x) + 5; }\n"
	"int caller(int x) { return imported(x); }\n"
	"static int resolved(int x) { return x; }\n"
	"static void *pick(void) { return resolved; }\n"
	"int chosen(int x) __attribute__((ifunc(\"pick\")));\n"
	"__asm__(\".globl absolute\\n.type absolute,%function\\n.set absolute,0x1234\\n\");\n";

static struct elf_file *open_elf(const char *dir, const char *name)
{
	struct elf_file *f = NULL;
	int fd = elf_open_at(dir, name);

	return fd >= 0 && elf_file_open(fd, &f) == 0 ? f : NULL;
}

/* What the dynamic linker says about each function must be what we say. */
static void check_against_linker(const char *dir, const char *name)
{
	static const char *const names[] = {
		"cuMemAlloc", "cuMemAlloc_v2", "my_cuMemAlloc_v2", "cuMemAlloc_v2_ptsz", "caller", "MemAlloc", "cuMem",
		"imported", "chosen", "absolute", "data_object", "", "cuMemAlloc_v", "u",
	};
	enum { REAL = 5 };
	_cleanup_(elf_file_freep) struct elf_file *f = open_elf(dir, name);
	uint64_t offsets[ARRAY_SIZE(names)];
	char path[256];
	void *lib;

	ASSERT(f);
	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	ASSERT(lib);
	EXPECT_EQ(elf_file_functions(f, names, ARRAY_SIZE(names), ALL, offsets), REAL);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct elf_symbol q = {};
		uint64_t vaddr, back;
		void *addr;
		Dl_info info;

		if (i >= REAL) {
			EXPECT_EQ(offsets[i], 0);
			continue;
		}
		addr = dlsym(lib, names[i]);
		ASSERT(addr && dladdr(addr, &info));
		ASSERT(elf_file_vaddr(f, offsets[i], &vaddr) == 0);
		EXPECT_EQ((uint64_t)info.dli_fbase + vaddr, (uint64_t)addr);
		EXPECT(elf_file_offset(f, vaddr, &back) == 0 && back == offsets[i]);

		q.vaddr = vaddr + 1;
		EXPECT_EQ(elf_file_lookup(f, &q, 1, ALL), 0);
		EXPECT_STR(q.name, names[i]);
		EXPECT_EQ(q.vaddr, vaddr);
		EXPECT(q.size > 1);
		free(q.name);
	}
	(void)dlclose(lib);
}

static bool drop_section_headers(const char *dir, const char *from, const char *to)
{
	_cleanup_close_ int in = elf_open_at(dir, from), out = -1;
	char path[256], buf[65536];
	Elf64_Ehdr eh;
	ssize_t n;
	off_t at = 0;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, to);
	out = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	while ((n = pread(in, buf, sizeof(buf), at)) > 0) {
		if (pwrite(out, buf, (size_t)n, at) != n)
			return false;
		at += n;
	}
	if (pread(out, &eh, sizeof(eh), 0) != sizeof(eh) || ftruncate(out, (off_t)eh.e_shoff) < 0)
		return false;
	eh.e_shoff = 0;
	eh.e_shnum = eh.e_shstrndx = 0;
	return pwrite(out, &eh, sizeof(eh), 0) == sizeof(eh);
}

TEST(functions_as_the_dynamic_linker_has_them)
{
	static const struct {
		const char *name, *flags;
	} builds[] = {
		{ "full.so", "-Wl,-z,lazy" },
		{ "stripped.so", "-s" },
		{ "onesegment.so", "-s -Wl,-z,noseparate-code" },
		{ "sysv.so", "-s -Wl,--hash-style=sysv" },
		{ "gnu.so", "-s -Wl,--hash-style=gnu" },
		{ "merged.so", "-Wl,-O2" },
	};
	_cleanup_(temp_proc_done) struct temp_proc dir = {};

	ASSERT(temp_proc_new(&dir));
	for (size_t i = 0; i < ARRAY_SIZE(builds); i++) {
		char bare[64];

		ASSERT(elf_compile(dir.root, builds[i].name, library_source, builds[i].flags));
		check_against_linker(dir.root, builds[i].name);
		(void)snprintf(bare, sizeof(bare), "bare-%s", builds[i].name);
		ASSERT(drop_section_headers(dir.root, builds[i].name, bare));
		check_against_linker(dir.root, bare);
	}
}

TEST(local_functions_have_names_unless_stripped)
{
	_cleanup_(temp_proc_done) struct temp_proc dir = {};
	static const char *const names[] = { "hidden_helper" };
	uint64_t offset = 0, vaddr = 0;

	ASSERT(temp_proc_new(&dir));
	ASSERT(elf_compile(dir.root, "full.so", library_source, ""));
	ASSERT(elf_compile(dir.root, "stripped.so", library_source, "-s"));
	_cleanup_(elf_file_freep) struct elf_file *full = open_elf(dir.root, "full.so");
	_cleanup_(elf_file_freep) struct elf_file *stripped = open_elf(dir.root, "stripped.so");
	ASSERT(full && stripped);
	EXPECT_EQ(elf_file_functions(full, names, 1, ALL, &offset), 1);
	ASSERT(elf_file_vaddr(full, offset, &vaddr) == 0);

	struct elf_symbol q = { .vaddr = vaddr };
	EXPECT_EQ(elf_file_lookup(full, &q, 1, ALL), 0);
	EXPECT_STR(q.name, "hidden_helper");
	free(q.name);

	/* The same code, no name: the neighbours' sizes are known, so none of them is taken for it. */
	q = (struct elf_symbol){ .vaddr = vaddr };
	EXPECT_EQ(elf_file_lookup(stripped, &q, 1, ALL), 0);
	EXPECT(!q.name);
	EXPECT_EQ(q.vaddr, vaddr);
	EXPECT_EQ(elf_file_functions(stripped, names, 1, ALL, &offset), 0);
	EXPECT_EQ(offset, 0);
}

TEST(versioned_symbols_by_plain_name_default_first)
{
	static const char source[] = "int old_one(int x) { return x + 1; }\nint new_one(int x) { return x + 2; }\n"
				     "__asm__(\".symver old_one,thing@V1\\n.symver new_one,thing@@V2\\n\");\n";
	static const char *const names[] = { "thing", "new_one" };
	_cleanup_(temp_proc_done) struct temp_proc dir = {};
	char path[128], flags[256];
	uint64_t offsets[2];
	FILE *f;

	ASSERT(temp_proc_new(&dir));
	(void)snprintf(path, sizeof(path), "%s/map", dir.root);
	f = fopen(path, "we");
	ASSERT(f);
	fputs("V1 { global: thing; };\nV2 { global: thing; } V1;\n", f);
	ASSERT(fclose(f) == 0);
	(void)snprintf(flags, sizeof(flags), "-Wl,--version-script='%s'", path);
	ASSERT(elf_compile(dir.root, "v.so", source, flags));
	ASSERT(drop_section_headers(dir.root, "v.so", "bare.so"));

	_cleanup_(elf_file_freep) struct elf_file *v = open_elf(dir.root, "v.so");
	_cleanup_(elf_file_freep) struct elf_file *bare = open_elf(dir.root, "bare.so");
	ASSERT(v && bare);
	EXPECT_EQ(elf_file_functions(v, names, 2, ALL, offsets), 2);
	EXPECT(offsets[0] && offsets[0] == offsets[1]); /* .symtab still knows new_one */
	EXPECT_EQ(elf_file_functions(bare, names, 1, ALL, &offsets[1]), 1);
	EXPECT_EQ(offsets[1], offsets[0]);
}

TEST(build_id)
{
	_cleanup_(temp_proc_done) struct temp_proc dir = {};
	static const uint8_t want[] = { 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef };
	uint8_t id[64];

	ASSERT(temp_proc_new(&dir));
	ASSERT(elf_compile(dir.root, "with.so", library_source, "-Wl,--build-id=0x0123456789abcdef"));
	ASSERT(elf_compile(dir.root, "without.so", library_source, "-Wl,--build-id=none"));
	_cleanup_(elf_file_freep) struct elf_file *with = open_elf(dir.root, "with.so");
	_cleanup_(elf_file_freep) struct elf_file *without = open_elf(dir.root, "without.so");
	ASSERT(with && without);
	EXPECT_EQ(elf_file_build_id(with, id), sizeof(want));
	EXPECT(memcmp(id, want, sizeof(want)) == 0);
	EXPECT_EQ(elf_file_build_id(without, id), 0);
}

static int try_open(const void *data, size_t len)
{
	_cleanup_(elf_file_freep) struct elf_file *f = NULL;
	int fd = memfd_create("bad", MFD_CLOEXEC);

	if (fd < 0 || pwrite(fd, data, len, 0) != (ssize_t)len)
		return -EIO;
	return elf_file_open(fd, &f);
}

TEST(what_is_no_elf_of_ours_is_refused)
{
	struct {
		Elf64_Ehdr eh;
		Elf64_Phdr ph;
	} b = { .eh = made_header() };
	struct elf_file *f = NULL;
	Elf64_Ehdr eh;
	int fds[2];

	EXPECT_EQ(try_open(&b, sizeof(b)), 0);
	EXPECT_EQ(try_open("", 0), -ENOEXEC);
	EXPECT_EQ(try_open("#!/bin/sh\n", 10), -ENOEXEC);
	EXPECT_EQ(try_open(&b, sizeof(b.eh) - 1), -ENOEXEC);
	EXPECT_EQ(try_open(&b, sizeof(b.eh)), -ENOEXEC); /* program headers missing */
	eh = b.eh;
#define REFUSED(change)                                                                                                \
	do {                                                                                                           \
		b.eh = eh;                                                                                             \
		change;                                                                                                \
		EXPECT_EQ(try_open(&b, sizeof(b)), -ENOEXEC);                                                          \
	} while (0)
	REFUSED(b.eh.e_ident[EI_CLASS] = ELFCLASS32);
	REFUSED(b.eh.e_ident[EI_DATA] ^= 3);
	REFUSED(b.eh.e_machine = EM_S390);
	REFUSED(b.eh.e_type = ET_REL);
	REFUSED(b.eh.e_phnum = 0xffff);
	REFUSED(b.eh.e_phnum = 0);
	REFUSED(b.eh.e_phentsize = 1);
	REFUSED(b.eh.e_phoff = UINT64_MAX - 3);

	EXPECT_EQ(elf_file_open(open("/", O_RDONLY | O_CLOEXEC), &f), -ENOEXEC);
	ASSERT(pipe2(fds, O_CLOEXEC) == 0);
	EXPECT_EQ(elf_file_open(fds[0], &f), -ENOEXEC);
	EXPECT(fcntl(fds[0], F_GETFD) < 0); /* taken even then */
	(void)close(fds[1]);
	EXPECT(!f);
}

static void expect_name(const struct elf_file *f, uint64_t vaddr, const char *name, uint64_t start)
{
	struct elf_symbol q = { .vaddr = vaddr };

	EXPECT_EQ(elf_file_lookup(f, &q, 1, ALL), 0);
	if (name) {
		EXPECT_STR(q.name, name);
		EXPECT_EQ(q.vaddr, start);
	} else {
		EXPECT(!q.name);
		if (q.name)
			printf("# 0x%llx is %s\n", (unsigned long long)vaddr, q.name);
	}
	free(q.name);
}

TEST(which_symbol_holds_an_address)
{
	enum { T = MADE_TEXT_VADDR };
	_cleanup_(elf_file_freep) struct elf_file *f = NULL;
	_cleanup_(made_done) struct made m;
	struct elf_symbol q[600] = {};

	made_init(&m, 0x1000, SHT_SYMTAB);
	made_symbol(&m, "late", T + 0x800, 0x10, MADE_FUNC, 1);
	made_symbol(&m, "outer", T + 0x100, 0x100, MADE_FUNC, 1);
	made_symbol(&m, "inner", T + 0x140, 0x10, MADE_LOCAL, 1);
	made_symbol(&m, "alias_local", T + 0x300, 0x10, MADE_LOCAL, 1);
	made_symbol(&m, "alias_weak", T + 0x300, 0x10, MADE_WEAK, 1);
	made_symbol(&m, "alias_global", T + 0x300, 0x10, MADE_FUNC, 1);
	made_symbol(&m, "alias_second", T + 0x300, 0x10, MADE_FUNC, 1);
	made_symbol(&m, "assembly", T + 0x400, 0, MADE_FUNC, 1);
	made_symbol(&m, "after", T + 0x500, 0x10, MADE_FUNC, 1);
	made_symbol(&m, "wraps", T + 0x600, UINT64_MAX, MADE_FUNC, 1);
	made_symbol(&m, "imported", T + 0x700, 0x10, MADE_FUNC, SHN_UNDEF);
	made_symbol(&m, "absolute", T + 0x7f0, 0x10, MADE_FUNC, SHN_ABS);
	made_symbol(&m, "object", T + 0x20, 0x40, ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), 1);
	ASSERT(!m.names.error && !m.syms.error);
	ASSERT(elf_file_open(made_fd(&m), &f) == 0);

	expect_name(f, T, NULL, 0);
	expect_name(f, T + 0x30, NULL, 0);
	expect_name(f, T + 0xff, NULL, 0);
	expect_name(f, T + 0x100, "outer", T + 0x100);
	expect_name(f, T + 0x145, "inner", T + 0x140);
	expect_name(f, T + 0x150, "outer", T + 0x100);
	expect_name(f, T + 0x1ff, "outer", T + 0x100);
	expect_name(f, T + 0x200, NULL, 0);
	expect_name(f, T + 0x308, "alias_global", T + 0x300);
	expect_name(f, T + 0x310, NULL, 0);
	expect_name(f, T + 0x4ff, "assembly", T + 0x400);
	expect_name(f, T + 0x50f, "after", T + 0x500);
	expect_name(f, T + 0x510, NULL, 0); /* past the end of "after": not the assembly before it */
	expect_name(f, T + 0x708, "wraps", T + 0x600);
	expect_name(f, T + 0x7f8, "wraps", T + 0x600);
	expect_name(f, T + 0x80f, "late", T + 0x800);
	expect_name(f, 0, NULL, 0);
	expect_name(f, UINT64_MAX - 1, "wraps", T + 0x600);

	/* All at once, unsorted and repeated, must say the same. */
	for (size_t i = 0; i < ARRAY_SIZE(q); i++)
		q[i].vaddr = T + i * 7919 % 0x900;
	EXPECT_EQ(elf_file_lookup(f, q, ARRAY_SIZE(q), ALL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(q); i++) {
		expect_name(f, T + i * 7919 % 0x900, q[i].name, q[i].vaddr);
		free(q[i].name);
	}
}

/* Tables of many chunks: symbols and names lie across their borders. */
TEST(large_tables)
{
	enum { COUNT = 60000, STEP = 97 };
	_cleanup_(elf_file_freep) struct elf_file *f = NULL;
	_cleanup_(made_done) struct made m;
	const char *names[COUNT / STEP + 1];
	uint64_t offsets[ARRAY_SIZE(names)];
	char name[128];
	size_t n = 0;

	made_init(&m, COUNT * 16, SHT_DYNSYM);
	for (unsigned i = 0; i < COUNT; i++) {
		(void)snprintf(name, sizeof(name), "f%u_%.*s", i, (int)(i % 53),
			       "paddingpaddingpaddingpaddingpaddingpaddingpaddingpaddingpadding");
		made_symbol(&m, name, MADE_TEXT_VADDR + i * 16ull, 12, MADE_FUNC, 1);
	}
	ASSERT(!m.names.error && !m.syms.error);
	ASSERT(elf_file_open(made_fd(&m), &f) == 0);
	for (unsigned i = 0; i < COUNT; i += STEP)
		names[n++] = m.names.buf + ((Elf64_Sym *)m.syms.buf)[i + 1].st_name;
	EXPECT_EQ(elf_file_functions(f, names, n, ALL, offsets), n);
	for (size_t i = 0; i < n; i++)
		EXPECT_EQ(offsets[i], MADE_TEXT_OFFSET + i * STEP * 16);
	for (unsigned i = 0; i < COUNT; i += 5003)
		expect_name(f, MADE_TEXT_VADDR + i * 16ull + 11, m.names.buf + ((Elf64_Sym *)m.syms.buf)[i + 1].st_name,
			    MADE_TEXT_VADDR + i * 16ull);

	/* The limit cuts the pass, and the names with it. */
	struct elf_symbol q = { .vaddr = MADE_TEXT_VADDR + 500 * 16 };
	EXPECT_EQ(elf_file_lookup(f, &q, 1, 400), 0);
	EXPECT(!q.name);
	EXPECT_EQ(elf_file_functions(f, names, n, 98, offsets), 1); /* symbols 0 to 97 are the null one, f0 ... f96 */
	EXPECT_EQ(elf_file_functions(f, names, n, 99, offsets), 2);
}

TEST(a_million_symbols_in_time)
{
	enum { COUNT = 1200000 };
	static const char *const names[] = { "cuMemAlloc_v2", "cuMemFree_v2", "cuMemAllocAsync", "cuMemCreate", "absent" };
	_cleanup_(elf_file_freep) struct elf_file *f = NULL;
	_cleanup_(made_done) struct made m;
	uint64_t offsets[ARRAY_SIZE(names)], start;
	struct elf_symbol q[100] = {};
	char name[160];

	made_init(&m, COUNT * 16ull, SHT_SYMTAB);
	for (unsigned i = 0; i < COUNT; i++) {
		(void)snprintf(name, sizeof(name), "_ZN2at6native12_GLOBAL__N_1%u%sEv", i,
			       "some_kernel_implIN3c108BFloat16EZZZNS0_15gpu_kernel_implERNS_18TensorIteratorBaseE");
		made_symbol(&m, i == COUNT / 2 ? names[0] : i == COUNT - 1 ? names[1] : name,
			    MADE_TEXT_VADDR + i * 16ull, 16, MADE_FUNC, 1);
	}
	ASSERT(!m.names.error && !m.syms.error);
	ASSERT(elf_file_open(made_fd(&m), &f) == 0);
	start = clock_monotonic_ns();
	EXPECT_EQ(elf_file_functions(f, names, ARRAY_SIZE(names), ALL, offsets), 2);
	printf("# functions: %u ms\n", (unsigned)((clock_monotonic_ns() - start) / NSEC_PER_MSEC));
	EXPECT_EQ(offsets[0], MADE_TEXT_OFFSET + COUNT / 2 * 16ull);
	EXPECT_EQ(offsets[1], MADE_TEXT_OFFSET + (COUNT - 1) * 16ull);

	for (size_t i = 0; i < ARRAY_SIZE(q); i++)
		q[i].vaddr = MADE_TEXT_VADDR + i * 16 * 11111;
	start = clock_monotonic_ns();
	EXPECT_EQ(elf_file_lookup(f, q, ARRAY_SIZE(q), ALL), 0);
	printf("# lookup of 100: %u ms\n", (unsigned)((clock_monotonic_ns() - start) / NSEC_PER_MSEC));
	/* A busy machine with sanitizers is allowed a lot; a pass per name or a read per symbol would take longer. */
	EXPECT(clock_monotonic_ns() - start < 5 * NSEC_PER_SEC);
	for (size_t i = 0; i < ARRAY_SIZE(q); i++) {
		EXPECT(q[i].name && q[i].vaddr == MADE_TEXT_VADDR + i * 16 * 11111);
		free(q[i].name);
	}
}

/* A file may shrink or be overwritten while we hold it: no name, no crash. */
TEST(file_truncated_after_open)
{
	static const char *const names[] = { "one" };
	_cleanup_(elf_file_freep) struct elf_file *f = NULL;
	_cleanup_(made_done) struct made m;
	struct elf_symbol q = { .vaddr = MADE_TEXT_VADDR };
	uint64_t offset = 1;
	int fd;

	made_init(&m, 16, SHT_SYMTAB);
	made_symbol(&m, "one", MADE_TEXT_VADDR, 16, MADE_FUNC, 1);
	fd = made_fd(&m);
	ASSERT(fd >= 0 && elf_file_open(fd, &f) == 0);
	ASSERT(ftruncate(fd, MADE_TEXT_OFFSET + 16 + 24) == 0);
	EXPECT_EQ(elf_file_lookup(f, &q, 1, ALL), 0);
	EXPECT(!q.name);
	EXPECT_EQ(elf_file_functions(f, names, 1, ALL, &offset), 0);
	EXPECT_EQ(offset, 0);
	ASSERT(ftruncate(fd, 0) == 0);
	EXPECT_EQ(elf_file_lookup(f, &q, 1, ALL), 0);
	EXPECT(!q.name);
}

/* Every field of the headers in turn set to numbers chosen to wrap. */
TEST(hostile_headers)
{
	static const uint64_t bad[] = { 0, 1, 0xffff, UINT32_MAX, INT64_MAX, UINT64_MAX, UINT64_MAX - 23, UINT64_MAX / 24 };
	static const char *const names[] = { "one", "two" };
	_cleanup_(made_done) struct made m;
	unsigned char head[sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr)], sections[3 * sizeof(Elf64_Shdr)];
	size_t opened = 0;
	Elf64_Ehdr eh;
	int fd;

	made_init(&m, 32, SHT_DYNSYM);
	made_symbol(&m, "one", MADE_TEXT_VADDR, 16, MADE_FUNC, 1);
	made_symbol(&m, "two", MADE_TEXT_VADDR + 16, 16, MADE_FUNC, 1);
	fd = made_fd(&m);
	ASSERT(fd >= 0 && pread(fd, head, sizeof(head), 0) == sizeof(head));
	memcpy(&eh, head, sizeof(eh));
	ASSERT(pread(fd, sections, sizeof(sections), (off_t)eh.e_shoff) == sizeof(sections));

	for (size_t at = 16; at < sizeof(head) + sizeof(sections); at += 2) {
		for (size_t i = 0; i < ARRAY_SIZE(bad) * 3; i++) {
			const bool in_head = at < sizeof(head);
			const size_t width = (size_t[]){ 2, 4, 8 }[i / ARRAY_SIZE(bad)];
			const off_t place = in_head ? (off_t)at : (off_t)(eh.e_shoff + at - sizeof(head));
			_cleanup_(elf_file_freep) struct elf_file *f = NULL;
			struct elf_symbol q[3] = { { .vaddr = MADE_TEXT_VADDR }, { .vaddr = 0 }, { .vaddr = UINT64_MAX } };
			uint64_t offsets[2], back;

			ASSERT(pwrite(fd, &bad[i % ARRAY_SIZE(bad)], width, place) == (ssize_t)width);
			if (elf_file_open(dup(fd), &f) == 0) {
				opened++;
				EXPECT_EQ(elf_file_lookup(f, q, 3, 1000), 0);
				for (size_t j = 0; j < 3; j++)
					free(q[j].name);
				EXPECT(elf_file_functions(f, names, 2, 1000, offsets) >= 0);
				(void)elf_file_vaddr(f, UINT64_MAX, &back);
				(void)elf_file_offset(f, UINT64_MAX, &back);
			}
			ASSERT(pwrite(fd, head, sizeof(head), 0) == sizeof(head));
			ASSERT(pwrite(fd, sections, sizeof(sections), (off_t)eh.e_shoff) == sizeof(sections));
			/* The last ones reach past the end of the section headers. */
			ASSERT(ftruncate(fd, (off_t)(eh.e_shoff + sizeof(sections))) == 0);
		}
	}
	EXPECT(opened > 100);
	(void)close(fd);
}

struct seen {
	const char *name;
	uint64_t offset;
	int times, all, stop_after;
};

static int see(const char *name, uint64_t offset, uint64_t size, void *arg)
{
	struct seen *s = arg;

	s->all++;
	if (strcmp(name, s->name) == 0) {
		s->times++;
		EXPECT(size > 0);
		EXPECT_EQ(offset, s->offset);
	}
	return s->all == s->stop_after ? -ECANCELED : 0;
}

TEST(each_function)
{
	static const char *const names[] = { "cuMemAlloc", "caller", "hidden_helper" };
	_cleanup_(temp_proc_done) struct temp_proc t = {};
	_cleanup_(elf_file_freep) struct elf_file *f = NULL;
	struct seen stopped = { .name = "", .stop_after = 2 };

	ASSERT(temp_proc_new(&t) && elf_compile(t.root, "full.so", library_source, ""));
	f = open_elf(t.root, "full.so");
	ASSERT(f);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct seen s = { .name = names[i] }, exported = { .name = names[i] };

		ASSERT(elf_file_functions(f, &names[i], 1, ALL, &s.offset) == 1);
		exported.offset = s.offset;
		EXPECT_EQ(elf_file_each_function(f, ELF_SYMTAB, ALL, see, &s), 0);
		EXPECT_EQ(s.times, 1);
		EXPECT_EQ(elf_file_each_function(f, ELF_DYNSYM, ALL, see, &exported), 0);
		EXPECT_EQ(exported.times, i < 2);
	}
	EXPECT_EQ(elf_file_each_function(f, ELF_SYMTAB | ELF_DYNSYM, ALL, see, &stopped), -ECANCELED);
	EXPECT_EQ(stopped.all, 2);
	EXPECT_EQ(elf_file_each_function(f, ELF_DYNSYM, 2, see, &(struct seen){ .name = "" }), 1);
}

TEST_MAIN()
