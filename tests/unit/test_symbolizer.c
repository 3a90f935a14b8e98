/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <lzma.h>
#include <signal.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "frames_make.h"

/* alpha's and beta's bodies tell the two versions of the library apart by name, not by size. */
static const char source[] =
	"static __attribute__((noinline)) int hidden(int x) { return x * 7 + 3; }\n"
	"int NAME_A(int x) { return hidden(x) + 1; }\n"
	"int NAME_B(int x) { return hidden(x) + 2; }\n"
	"int cpp_one(int x) __asm__(\"_ZN2at6native5emptyEN3c108ArrayRefIlEE\");\n"
	"int cpp_one(int x) { return hidden(x) + 5; }\n"
	"int rust_one(int x) __asm__(\"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE\");\n"
	"int rust_one(int x) { return hidden(x) + 6; }\n";

#define BUILD_ID "-Wl,--build-id=0x11223344556677889900aabbccddeeff00112233"

static bool make_library(const char *dir, const char *name, const char *flags)
{
	char all[512];

	(void)snprintf(all, sizeof(all), "-DNAME_A=alpha -DNAME_B=beta %s", flags);
	return elf_compile(dir, name, source, all);
}

static void *load(const char *dir, const char *name)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* Can this user follow /proc/PID/map_files? Root in the first user namespace can. */
static bool can_open_map_files(const struct address_space *as, uint64_t addr)
{
	const struct mapping *m = address_space_find(as, addr);
	char path[128];
	_cleanup_close_ int fd = -1;

	if (!m)
		return false;
	(void)snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", getpid(), (unsigned long long)m->start,
		       (unsigned long long)m->end);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0;
}

TEST(frames_of_a_loaded_library)
{
	_cleanup_(temp_proc_done) struct temp_proc dir = {};
	_cleanup_(symbolizer_freep) struct symbolizer *s = NULL;
	_cleanup_(address_space_unrefp) struct address_space *as = NULL;
	_cleanup_(stack_unrefp) struct stack *stack = NULL;
	_cleanup_(stack_text_freep) struct stack_text *t = NULL, *again = NULL;
	uint64_t ips[7], size = 0;
	char want[128];
	void *lib;

	ASSERT(temp_proc_new(&dir));
	ASSERT(make_library(dir.root, "lib fo\to.so", BUILD_ID));
	ASSERT(offset_of(dir.root, "lib fo\to.so", "beta", &size) && size > 1);
	lib = load(dir.root, "lib fo\to.so");
	ASSERT(lib);
	ips[0] = (uint64_t)dlsym(lib, "alpha");
	ips[1] = (uint64_t)dlsym(lib, "beta") + 5;
	ips[2] = (uint64_t)dlsym(lib, "beta") + size; /* after a call that does not return: the next function's start */
	ips[3] = (uint64_t)dlsym(lib, "_ZN2at6native5emptyEN3c108ArrayRefIlEE") + 1;
	ips[4] = (uint64_t)dlsym(lib, "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE") + 4;
	ips[5] = (uint64_t)stack_new_done + 1;
	ips[6] = 0x10;
	ASSERT(maps_read("/proc", (uint32_t)getpid(), 0, &as) == 0);
	stack = stack_at(as, (uint32_t)getpid(), ips, ARRAY_SIZE(ips));
	ASSERT(stack && new_symbolizer("/proc", &s) == 0);
	ASSERT(symbolizer_resolve(s, stack, 0, &t) == 0);
	ASSERT(t->len == ARRAY_SIZE(ips));
	EXPECT_STR(t->frames[0].text, "alpha+0x0 (lib fo\\x09o.so)");
	EXPECT_STR(t->frames[1].text, "beta+0x5 (lib fo\\x09o.so)");
	(void)snprintf(want, sizeof(want), "beta+0x%llx (lib fo\\x09o.so)", (unsigned long long)size);
	EXPECT_STR(t->frames[2].text, want);
	EXPECT_STR(t->frames[3].text, "at::native::empty+0x1 (lib fo\\x09o.so)");
	EXPECT_STR(t->frames[4].text, "core::fmt::Formatter::pad+0x4 (lib fo\\x09o.so)");
	/* This program has debug information. */
	EXPECT(strncmp(t->frames[5].text, "stack_new_done+0x1 (test_symbolizer) at stack.c:", 48) == 0);
	EXPECT_STR(t->frames[6].text, "0x10");
	EXPECT(!t->info);
	EXPECT_STR(t->id, "0000000000001234");

	/* From the cache the same. */
	ASSERT(symbolizer_resolve(s, stack, 0, &again) == 0);
	for (size_t i = 0; i < t->len; i++)
		EXPECT_STR(again->frames[i].text, t->frames[i].text);
	EXPECT_STR(again->id, t->id);
	(void)dlclose(lib);
}

TEST(stripped_library_gives_addresses_for_addr2line)
{
	_cleanup_(temp_proc_done) struct temp_proc dir = {};
	_cleanup_(symbolizer_freep) struct symbolizer *s = NULL;
	_cleanup_(stack_text_freep) struct stack_text *t = NULL;
	_cleanup_strbuf_ struct strbuf maps = STRBUF_INIT;
	_cleanup_(elf_file_freep) struct elf_file *f = NULL;
	uint64_t offset, vaddr;
	char want[128];

	ASSERT(temp_proc_new(&dir));
	ASSERT(make_library(dir.root, "full.so", BUILD_ID));
	/* The text segment moved away from its file offset: the two must not be mixed up. */
	ASSERT(make_library(dir.root, "moved.so", "-s -Wl,-z,noseparate-code -Wl,-Ttext-segment=0x700000 " BUILD_ID));
	ASSERT(elf_file_open(elf_open_at(dir.root, "moved.so"), &f) == 0);
	offset = offset_of(dir.root, "moved.so", "alpha", NULL);
	ASSERT(offset && elf_file_vaddr(f, offset, &vaddr) == 0);
	ASSERT(vaddr >= 0x700000 && offset < 0x100000);
	maps_line(&maps, dir.root, "moved.so", 0x10000000);
	ASSERT(new_symbolizer("/proc", &s) == 0);

	/* Before the first exported function lies the static one. */
	const uint64_t ips[] = { 0x10000000 + offset, 0x10000000 + offset - 2 };
	t = resolve_at(s, strbuf_str(&maps), (uint32_t)getpid(), ips, 2);
	ASSERT(t && t->len == 2);
	EXPECT_STR(t->frames[0].text, "alpha+0x0 (moved.so)");
	(void)snprintf(want, sizeof(want), "moved.so+0x%llx", (unsigned long long)vaddr - 2);
	EXPECT_STR(t->frames[1].text, want);
}

/* Starts a child that has what we have, and waits. */
static pid_t start_child(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		for (;;)
			(void)pause();
	}
	return pid;
}

static void stop_child(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

TEST(process_and_file_gone_after_the_file_was_opened)
{
	_cleanup_(temp_proc_done) struct temp_proc dir = {};
	_cleanup_(objects_unrefp) struct objects *objects = NULL;
	_cleanup_(symbolizer_freep) struct symbolizer *early = NULL, *late = NULL, *file_left = NULL;
	_cleanup_(address_space_unrefp) struct address_space *as = NULL;
	_cleanup_(stack_unrefp) struct stack *stack = NULL;
	_cleanup_(stack_text_freep) struct stack_text *a = NULL, *b = NULL, *c = NULL;
	struct object *ob = NULL;
	char path[256];
	uint64_t ip;
	pid_t pid;
	void *lib;

	ASSERT(temp_proc_new(&dir));
	ASSERT(make_library(dir.root, "libfoo.so", BUILD_ID));
	lib = load(dir.root, "libfoo.so");
	ASSERT(lib);
	ip = (uint64_t)dlsym(lib, "alpha");
	pid = start_child();
	ASSERT(pid > 0);
	ASSERT(maps_read("/proc", (uint32_t)pid, 0, &as) == 0);
	stack = stack_at(as, (uint32_t)pid, &ip, 1);
	ASSERT(stack && objects_new("/proc", 512, &objects) == 0 && symbolizer_new(objects, LIMITS, &early) == 0);
	ASSERT(new_symbolizer("/proc", &late) == 0 && new_symbolizer("/proc", &file_left) == 0);
	/* As the resolver did when it unwound the stack. */
	ASSERT(objects_get(objects, (uint32_t)pid, address_space_find(as, ip), &ob) == 0);
	object_unref(ob);
	stop_child(pid);

	/* The process is gone, its file is not: the host's own path leads to the same inode. */
	ASSERT(symbolizer_resolve(file_left, stack, 0, &c) == 0);
	EXPECT_STR(c->frames[0].text, "alpha+0x0 (libfoo.so)");
	EXPECT(!c->info);

	(void)snprintf(path, sizeof(path), "%s/libfoo.so", dir.root);
	ASSERT(unlink(path) == 0);
	ASSERT(symbolizer_resolve(early, stack, 0, &a) == 0);
	EXPECT_STR(a->frames[0].text, "alpha+0x0 (libfoo.so)");
	EXPECT(!a->info);

	ASSERT(symbolizer_resolve(late, stack, 0, &b) == 0);
	EXPECT(strncmp(b->frames[0].text, "libfoo.so+0x", 12) == 0);
	EXPECT_STR(b->info, "process ended before its files could be opened");

	/* Idle files are closed, by nobody held open: then nothing is left to ask. */
	objects_trim(objects, 0);
	stack_text_free(TAKE_PTR(a));
	ASSERT(symbolizer_resolve(early, stack, 0, &a) == 0);
	EXPECT_STR(a->frames[0].text, "alpha+0x0 (libfoo.so)");
	objects_trim(objects, clock_monotonic_ns() + 1);
	stack_text_free(TAKE_PTR(a));
	ASSERT(symbolizer_resolve(early, stack, 0, &a) == 0);
	EXPECT_STR(a->frames[0].text, b->frames[0].text);
	EXPECT_STR(a->info, b->info);
	(void)dlclose(lib);
}

/* Another file under the same path while the first is mapped: its name or none, never the other's. */
TEST(file_deleted_or_replaced_while_mapped)
{
	for (int replaced = 0; replaced < 2; replaced++) {
		_cleanup_(temp_proc_done) struct temp_proc dir = {};
		_cleanup_(symbolizer_freep) struct symbolizer *s = NULL;
		_cleanup_(address_space_unrefp) struct address_space *as = NULL;
		_cleanup_(stack_unrefp) struct stack *stack = NULL;
		_cleanup_(stack_text_freep) struct stack_text *t = NULL;
		char path[256], other[256];
		uint64_t ip;
		void *lib;

		ASSERT(temp_proc_new(&dir));
		ASSERT(make_library(dir.root, "libbar.so", BUILD_ID));
		ASSERT(elf_compile(dir.root, "other.so", source, "-DNAME_A=wrong -DNAME_B=wronger"));
		(void)snprintf(path, sizeof(path), "%s/libbar.so", dir.root);
		(void)snprintf(other, sizeof(other), "%s/other.so", dir.root);
		lib = load(dir.root, "libbar.so");
		ASSERT(lib);
		ip = (uint64_t)dlsym(lib, "alpha");
		ASSERT((replaced ? rename(other, path) : unlink(path)) == 0);
		ASSERT(maps_read("/proc", (uint32_t)getpid(), 0, &as) == 0);
		stack = stack_at(as, (uint32_t)getpid(), &ip, 1);
		ASSERT(stack && new_symbolizer("/proc", &s) == 0);
		ASSERT(symbolizer_resolve(s, stack, 0, &t) == 0);
		if (can_open_map_files(as, ip))
			EXPECT_STR(t->frames[0].text, "alpha+0x0 (libbar.so)");
		else
			EXPECT(strncmp(t->frames[0].text, "libbar.so+0x", 12) == 0);
		EXPECT(!t->info); /* the process lives */
		(void)dlclose(lib);
	}
}

/* A process elsewhere: its path leads to its file only below its own root. */
TEST(through_the_root_of_another_mount_namespace)
{
	_cleanup_(temp_proc_done) struct temp_proc dir = {}, proc = {};
	_cleanup_(symbolizer_freep) struct symbolizer *s = NULL;
	_cleanup_(stack_text_freep) struct stack_text *t = NULL;
	_cleanup_strbuf_ struct strbuf maps = STRBUF_INIT;
	char path[256];
	struct stat st;
	uint64_t ip;

	ASSERT(temp_proc_new(&dir) && temp_proc_new(&proc));
	ASSERT(make_library(dir.root, "libfoo.so", BUILD_ID));
	ASSERT(temp_proc_text(&proc, 77, "comm", "x"));
	ASSERT(temp_proc_link(&proc, 77, "root", dir.root));
	(void)snprintf(path, sizeof(path), "%s/libfoo.so", dir.root);
	ASSERT(stat(path, &st) == 0);
	ip = 0x7000 + offset_of(dir.root, "libfoo.so", "alpha", NULL);
	strbuf_addf(&maps, "7000-107000 r-xp 00000000 %02x:%02x %llu /libfoo.so\n", major(st.st_dev), minor(st.st_dev),
		    (unsigned long long)st.st_ino);
	ASSERT(new_symbolizer(proc.root, &s) == 0);
	t = resolve_at(s, strbuf_str(&maps), 77, &ip, 1);
	ASSERT(t);
	EXPECT_STR(t->frames[0].text, "alpha+0x0 (libfoo.so)");

	/* Another device or inode is another file. */
	for (int i = 0; i < 2; i++) {
		stack_text_free(TAKE_PTR(t));
		strbuf_reset(&maps);
		strbuf_addf(&maps, "7000-107000 r-xp 00000000 %02x:%02x %llu /libfoo.so\n", major(st.st_dev),
			    minor(st.st_dev) ^ !i, (unsigned long long)st.st_ino + i);
		t = resolve_at(s, strbuf_str(&maps), 77, &ip, 1);
		ASSERT(t);
		EXPECT(strncmp(t->frames[0].text, "libfoo.so+0x", 12) == 0);
	}
}

TEST(paths_that_lead_to_no_file)
{
	_cleanup_(temp_proc_done) struct temp_proc dir = {};
	_cleanup_(symbolizer_freep) struct symbolizer *s = NULL;
	_cleanup_strbuf_ struct strbuf maps = STRBUF_INIT;
	_cleanup_(stack_text_freep) struct stack_text *t = NULL;
	const uint64_t ips[] = { 0x1000010, 0x2000010, 0x3000010, 0x4000010 };
	char path[256];

	ASSERT(temp_proc_new(&dir));
	(void)snprintf(path, sizeof(path), "%s/pipe", dir.root);
	ASSERT(mkfifo(path, 0600) == 0);
	(void)snprintf(path, sizeof(path), "%s/folder", dir.root);
	ASSERT(mkdir(path, 0700) == 0);
	ASSERT(temp_proc_text(&dir, 1, "text", "no ELF file at all"));
	maps_line(&maps, dir.root, "pipe", 0x1000000);
	maps_line(&maps, dir.root, "folder", 0x2000000);
	maps_line(&maps, dir.root, "1/text", 0x3000000);
	ASSERT(new_symbolizer("/proc", &s) == 0);
	t = resolve_at(s, strbuf_str(&maps), (uint32_t)getpid(), ips, 4); /* would hang on a plain open */
	ASSERT(t && t->len == 4);
	EXPECT_STR(t->frames[0].text, "pipe+0x10");
	EXPECT_STR(t->frames[1].text, "folder+0x10");
	EXPECT_STR(t->frames[2].text, "text+0x10");
	EXPECT_STR(t->frames[3].text, "0x4000010");
	EXPECT(!t->info);
}

TEST(mappings_that_are_no_files)
{
	static const char maps[] = "1000-2000 r-xp 00000000 00:00 0 \n"
				   "2000-3000 r-xp 00000000 00:00 0 [vdso]\n"
				   "3000-4000 --xp 00000000 00:00 0 [uprobes]\n"
				   "4000-5000 r-xp 00000000 00:00 0 [anon:\x1b[31m\xff]\n"
				   "fffffffffffff000-ffffffffffffffff r-xp fffffffffffff000 00:00 0 [top]\n";
	const uint64_t ips[] = { 0x1234, 0x2345, 0x3456, 0x4001, 0x9999, 0, UINT64_MAX, 0x1000 };
	_cleanup_(symbolizer_freep) struct symbolizer *s = NULL;
	_cleanup_(stack_text_freep) struct stack_text *t = NULL;

	ASSERT(new_symbolizer("/proc", &s) == 0);
	t = resolve_at(s, maps, (uint32_t)getpid(), ips, ARRAY_SIZE(ips));
	ASSERT(t && t->len == ARRAY_SIZE(ips));
	EXPECT_STR(t->frames[0].text, "0x1234");
	EXPECT_STR(t->frames[1].text, "[vdso]+0x345");
	EXPECT_STR(t->frames[2].text, "[uprobes]");
	EXPECT_STR(t->frames[3].text, "[anon:\\x1b[31m\\xff]+0x1");
	EXPECT_STR(t->frames[4].text, "0x9999");
	EXPECT_STR(t->frames[5].text, "0x0");
	EXPECT_STR(t->frames[6].text, "[top]+0xfff");
	EXPECT_STR(t->frames[7].text, "0x1000");
	EXPECT(!t->info);
}

/* The deleted file's mapping is shown with a suffix from then on; it is still the same file. */
TEST(file_deleted_after_it_was_opened)
{
	_cleanup_(temp_proc_done) struct temp_proc dir = {};
	_cleanup_(symbolizer_freep) struct symbolizer *with = NULL, *without = NULL;
	_cleanup_(stack_text_freep) struct stack_text *a = NULL, *b = NULL;
	_cleanup_strbuf_ struct strbuf maps = STRBUF_INIT;
	uint64_t ips[2];
	char path[256];

	ASSERT(temp_proc_new(&dir));
	ASSERT(make_library(dir.root, "n.so", "-Wl,-Ttext-segment=0x700000 -Wl,--build-id=none"));
	maps_line(&maps, dir.root, "n.so", 0x10000000);
	ips[0] = 0x10000000 + offset_of(dir.root, "n.so", "alpha", NULL);
	ips[1] = ips[0] + 3;
	ASSERT(new_symbolizer("/proc", &with) == 0 && new_symbolizer("/proc", &without) == 0);
	a = resolve_at(with, strbuf_str(&maps), (uint32_t)getpid(), ips, 2);
	(void)snprintf(path, sizeof(path), "%s/n.so", dir.root);
	ASSERT(a && unlink(path) == 0);
	EXPECT_STR(a->frames[0].text, "alpha+0x0 (n.so)");
	strbuf_truncate(&maps, maps.len - 1);
	strbuf_adds(&maps, " (deleted)\n");
	b = resolve_at(without, strbuf_str(&maps), (uint32_t)getpid(), ips, 2);
	ASSERT(b);
	EXPECT(strncmp(b->frames[0].text, "n.so+0x", 7) == 0);
	stack_text_free(TAKE_PTR(b));
	b = resolve_at(with, strbuf_str(&maps), (uint32_t)getpid(), ips, 2);
	ASSERT(b);
	EXPECT_STR(b->frames[0].text, "alpha+0x0 (n.so)");
}

/* With lines of its own file, and with those that only its debug file has. */
TEST(source_lines)
{
	static const char text[] = "int other(int);\nint first(int x)\n{\n\treturn other(x) + 1;\n}\n"
				   "static int second(int x)\n{\n\treturn other(x) + 2;\n}\n"
				   "int (*const way)(int) = second;\nint other(int x)\n{\n\treturn x;\n}\n";
	_cleanup_(temp_proc_done) struct temp_proc dir = {};
	_cleanup_(symbolizer_freep) struct symbolizer *s = NULL;
	_cleanup_(stack_text_freep) struct stack_text *t = NULL, *u = NULL;
	_cleanup_strbuf_ struct strbuf maps = STRBUF_INIT;
	uint64_t ips[2], size = 0;

	ASSERT(temp_proc_new(&dir));
	ASSERT(elf_compile(dir.root, "lines.so", text, "-g " BUILD_ID));
	ASSERT(elf_compile(dir.root, "bare.so", text, "-g -Wl,--strip-all " BUILD_ID));
	maps_line(&maps, dir.root, "lines.so", 0x10000000);
	ips[0] = 0x10000000 + offset_of(dir.root, "lines.so", "first", NULL);
	/* Behind its last instruction: another function's first byte, if anything's. */
	ips[1] = 0x10000000 + offset_of(dir.root, "lines.so", "second", &size) + size;
	ASSERT(new_symbolizer("/proc", &s) == 0);
	for (int twice = 0; twice < 2; twice++) {
		stack_text_free(TAKE_PTR(t));
		t = resolve_at(s, strbuf_str(&maps), (uint32_t)getpid(), ips, 2);
		ASSERT(t);
		/* Of the brace or of what is in them: as the compiler likes. */
		EXPECT(strcmp(t->frames[0].text, "first+0x0 (lines.so) at lines.so.c:3") == 0 ||
		       strcmp(t->frames[0].text, "first+0x0 (lines.so) at lines.so.c:4") == 0);
		EXPECT(strncmp(t->frames[1].text, "second+0x", 9) == 0);
		EXPECT(strstr(t->frames[1].text, " (lines.so) at lines.so.c:8") ||
		       strstr(t->frames[1].text, " (lines.so) at lines.so.c:9"));
	}
	strbuf_reset(&maps);
	maps_line(&maps, dir.root, "bare.so", 0x10000000);
	u = resolve_at(s, strbuf_str(&maps), (uint32_t)getpid(), ips, 2);
	ASSERT(u);
	EXPECT_STR(u->frames[0].text, "first+0x0 (bare.so)");
	EXPECT(strncmp(u->frames[1].text, "bare.so+0x", 10) == 0 && !strstr(u->frames[1].text, " at "));
}

static unsigned count_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* dir/name without symbols, but for those packed in .gnu_debugdata. */
static bool make_packed(const char *dir, const char *name)
{
	static uint8_t plain[1 << 20], packed[1 << 20];
	_cleanup_close_ int from = -1, to = -1;
	char path[128], command[512];
	size_t len = 0;
	ssize_t n;

	if (!make_library(dir, name, BUILD_ID))
		return false;
	(void)snprintf(path, sizeof(path), "%s/packed", dir);
	from = elf_open_at(dir, name);
	to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	n = from < 0 || to < 0 ? -1 : read(from, plain, sizeof(plain));
	if (n < 0 || lzma_easy_buffer_encode(1, LZMA_CHECK_CRC32, NULL, plain, (size_t)n, packed, &len,
					     sizeof(packed)) != LZMA_OK)
		return false;
	(void)snprintf(command, sizeof(command), "objcopy -S --add-section .gnu_debugdata=%s %s/%s", path, dir, name);
	return write(to, packed, len) == (ssize_t)len && system(command) == 0;
}

TEST(unpacked_names_are_kept_while_the_file_is_open)
{
	enum { LIBS = 6 };
	_cleanup_(temp_proc_done) struct temp_proc dir = {};
	_cleanup_(objects_unrefp) struct objects *objects = NULL;
	_cleanup_(symbolizer_freep) struct symbolizer *s = NULL;
	_cleanup_strbuf_ struct strbuf maps = STRBUF_INIT;
	uint64_t offset, ips[LIBS];
	const unsigned fds = count_fds();
	unsigned most;

	ASSERT(temp_proc_new(&dir));
	ASSERT(make_library(dir.root, "plain.so", BUILD_ID));
	offset = offset_of(dir.root, "plain.so", "hidden", NULL);
	ASSERT(offset);
	for (unsigned i = 0; i < LIBS; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "l%u.so", i);
		ASSERT(make_packed(dir.root, name));
		maps_line(&maps, dir.root, name, 0x10000000 * (i + 1));
	}
	ASSERT(objects_new("/proc", LIBS, &objects) == 0);
	/* No room for names of frames: each is looked for each time. */
	ASSERT(symbolizer_new(objects, &(struct symbolizer_limits){ .max_symbols = 1000 }, &s) == 0);
	for (unsigned round = 0; round < 3; round++) {
		_cleanup_(stack_text_freep) struct stack_text *t = NULL, *none = NULL;

		/* More files than are kept, then some of them, last used first. */
		for (unsigned i = 0; i < LIBS; i++)
			ips[i] = 0x10000000 * ((round == 0 ? i : LIBS - 1 - i / 2) + 1) + offset + 1;
		t = resolve_at(s, strbuf_str(&maps), (uint32_t)getpid(), ips, LIBS);
		ASSERT(t && t->len == LIBS);
		for (unsigned i = 0; i < LIBS; i++) {
			char want[64];

			(void)snprintf(want, sizeof(want), "hidden+0x1 (l%u.so)", round == 0 ? i : LIBS - 1 - i / 2);
			EXPECT_STR(t->frames[i].text, want);
		}
		/* The files, and no more than one descriptor for each that is kept unpacked. */
		most = round < 2 ? fds + LIBS + 4 : fds + 3 + 3;
		EXPECT(count_fds() > fds + 3 && count_fds() <= most);
		if (round == 0)
			continue;
		objects_trim(objects, UINT64_MAX);
		ASSERT(symbolizer_resolve(s, NULL, STACK_OK, &none) == 0);
		EXPECT_EQ(count_fds(), fds);
	}
}

TEST(limits_hold)
{
	enum { LIBS = 6 };
	_cleanup_(temp_proc_done) struct temp_proc dir = {};
	_cleanup_(objects_unrefp) struct objects *objects = NULL;
	_cleanup_(symbolizer_freep) struct symbolizer *s = NULL;
	_cleanup_strbuf_ struct strbuf maps = STRBUF_INIT;
	uint64_t ips[LIBS * 2];
	const unsigned fds = count_fds();

	ASSERT(temp_proc_new(&dir));
	for (unsigned i = 0; i < LIBS; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "l%u.so", i);
		ASSERT(make_library(dir.root, name, BUILD_ID));
		maps_line(&maps, dir.root, name, 0x10000000 * (i + 1));
		ips[i] = 0x10000000 * (i + 1) + offset_of(dir.root, name, "alpha", NULL) + 1;
		ips[LIBS + i] = ips[i];
	}
	/* Two open files and names for hardly one frame: slower, not different. */
	ASSERT(objects_new("/proc", 2, &objects) == 0);
	ASSERT(symbolizer_new(objects, &(struct symbolizer_limits){ .cache_bytes = 300, .max_symbols = 1000 }, &s) ==
	       0);
	for (int round = 0; round < 3; round++) {
		_cleanup_(stack_text_freep) struct stack_text *t =
			resolve_at(s, strbuf_str(&maps), (uint32_t)getpid(), ips, ARRAY_SIZE(ips));

		ASSERT(t && t->len == ARRAY_SIZE(ips));
		for (unsigned i = 0; i < t->len; i++) {
			char want[64];

			(void)snprintf(want, sizeof(want), "alpha+0x1 (l%u.so)", i % LIBS);
			EXPECT_STR(t->frames[i].text, want);
		}
		EXPECT_EQ(count_fds(), fds + 2);
	}
	objects_trim(objects, UINT64_MAX);
	EXPECT_EQ(count_fds(), fds);
}

TEST_MAIN()
