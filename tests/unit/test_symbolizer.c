/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "bpf/event.h"
#include "elf_make.h"
#include "proc/procfs.h"
#include "stack/elf_file.h"
#include "stack/symbolizer.h"
#include "test.h"

#define LIMITS &(struct symbolizer_limits)SYMBOLIZER_LIMITS_DEFAULT

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

/* File offset and size of a function, from the file itself. */
static uint64_t offset_of(const char *dir, const char *name, const char *function, uint64_t *ret_size)
{
	_cleanup_(elf_file_freep) struct elf_file *f = NULL;
	struct elf_symbol q = {};
	uint64_t offset = 0;

	if (elf_file_open(elf_open_at(dir, name), &f) < 0 || elf_file_functions(f, &function, 1, 1000, &offset) != 1 ||
	    elf_file_vaddr(f, offset, &q.vaddr) < 0 || elf_file_lookup(f, &q, 1, 1000) < 0)
		return 0;
	free(q.name);
	if (ret_size)
		*ret_size = q.size;
	return offset;
}

/* A line of a maps file for the whole of dir/name at start. */
static void maps_line(struct strbuf *sb, const char *dir, const char *name, uint64_t start)
{
	char path[256];
	struct stat st = {};

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	(void)stat(path, &st);
	strbuf_addf(sb, "%llx-%llx r-xp 00000000 %02x:%02x %llu %s\n", (unsigned long long)start,
		    (unsigned long long)start + 0x100000, major(st.st_dev), minor(st.st_dev),
		    (unsigned long long)st.st_ino, path);
}

static struct stack_text *resolve_at(struct symbolizer *s, const char *maps, uint32_t pid, uint8_t reason,
				     const uint64_t *ips, size_t n)
{
	_cleanup_(address_space_unrefp) struct address_space *as = NULL;
	_cleanup_(stack_unrefp) struct stack *stack = NULL;
	struct stack_text *t = NULL;

	if (maps && maps_parse(maps, pid, 0, &as) < 0)
		return NULL;
	stack = stack_new(1, pid, reason, as, ips, n);
	if (!stack || symbolizer_resolve(s, stack, 0, &t) < 0)
		return NULL;
	return t;
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
	ips[5] = (uint64_t)stack_new + 1;
	ips[6] = 0x10;
	ASSERT(maps_read("/proc", (uint32_t)getpid(), 0, &as) == 0);
	stack = stack_new(1, (uint32_t)getpid(), STACK_OK, as, ips, ARRAY_SIZE(ips));
	ASSERT(stack && symbolizer_new("/proc", LIMITS, &s) == 0);
	ASSERT(symbolizer_resolve(s, stack, 0, &t) == 0);
	ASSERT(t->len == ARRAY_SIZE(ips));
	EXPECT_STR(t->frames[0], "alpha+0x0 (lib fo\\x09o.so)");
	EXPECT_STR(t->frames[1], "beta+0x5 (lib fo\\x09o.so)");
	(void)snprintf(want, sizeof(want), "beta+0x%llx (lib fo\\x09o.so)", (unsigned long long)size);
	EXPECT_STR(t->frames[2], want);
	EXPECT_STR(t->frames[3], "at::native::empty+0x1 (lib fo\\x09o.so)");
	EXPECT_STR(t->frames[4], "core::fmt::Formatter::pad+0x4 (lib fo\\x09o.so)");
	EXPECT_STR(t->frames[5], "stack_new+0x1 (test_symbolizer)");
	EXPECT_STR(t->frames[6], "0x10");
	EXPECT(!t->info);
	EXPECT_EQ(strlen(t->id), 16);
	EXPECT_EQ(strspn(t->id, "0123456789abcdef"), 16);

	/* From the cache the same. */
	ASSERT(symbolizer_resolve(s, stack, 0, &again) == 0);
	for (size_t i = 0; i < t->len; i++)
		EXPECT_STR(again->frames[i], t->frames[i]);
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
	ASSERT(symbolizer_new("/proc", LIMITS, &s) == 0);

	/* Before the first exported function lies the static one. */
	const uint64_t ips[] = { 0x10000000 + offset, 0x10000000 + offset - 2 };
	t = resolve_at(s, strbuf_str(&maps), (uint32_t)getpid(), STACK_OK, ips, 2);
	ASSERT(t && t->len == 2);
	EXPECT_STR(t->frames[0], "alpha+0x0 (moved.so)");
	(void)snprintf(want, sizeof(want), "moved.so+0x%llx", (unsigned long long)vaddr - 2);
	EXPECT_STR(t->frames[1], want);
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

TEST(process_and_file_gone_after_pin)
{
	_cleanup_(temp_proc_done) struct temp_proc dir = {};
	_cleanup_(symbolizer_freep) struct symbolizer *pinned = NULL, *late = NULL, *file_left = NULL;
	_cleanup_(address_space_unrefp) struct address_space *as = NULL;
	_cleanup_(stack_unrefp) struct stack *stack = NULL;
	_cleanup_(stack_text_freep) struct stack_text *a = NULL, *b = NULL, *c = NULL;
	struct proc_stat st;
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
	ASSERT(proc_stat_read("/proc", (uint32_t)pid, &st) == 0);
	ASSERT(maps_read("/proc", (uint32_t)pid, 0, &as) == 0);
	stack = stack_new(1, (uint32_t)pid, STACK_OK, as, &ip, 1);
	ASSERT(stack);
	ASSERT(symbolizer_new("/proc", LIMITS, &pinned) == 0 && symbolizer_new("/proc", LIMITS, &late) == 0 &&
	       symbolizer_new("/proc", LIMITS, &file_left) == 0);
	symbolizer_pin(pinned, stack);
	stop_child(pid);

	/* The process is gone, its file is not: the host's own path leads to the same inode. */
	ASSERT(symbolizer_resolve(file_left, stack, 0, &c) == 0);
	EXPECT_STR(c->frames[0], "alpha+0x0 (libfoo.so)");
	EXPECT(!c->info);

	(void)snprintf(path, sizeof(path), "%s/libfoo.so", dir.root);
	ASSERT(unlink(path) == 0);
	ASSERT(symbolizer_resolve(pinned, stack, 0, &a) == 0);
	EXPECT_STR(a->frames[0], "alpha+0x0 (libfoo.so)");
	EXPECT(!a->info);

	ASSERT(symbolizer_resolve(late, stack, 0, &b) == 0);
	EXPECT(strncmp(b->frames[0], "libfoo.so+0x", 12) == 0);
	EXPECT_STR(b->info, "process ended before its files could be opened");

	/* Idle files are closed: then nothing is left to ask. */
	symbolizer_trim(pinned, UINT64_MAX);
	stack_text_free(TAKE_PTR(a));
	ASSERT(symbolizer_resolve(pinned, stack, 0, &a) == 0);
	EXPECT_STR(a->frames[0], "alpha+0x0 (libfoo.so)");
	symbolizer_trim(pinned, 0);
	stack_text_free(TAKE_PTR(a));
	ASSERT(symbolizer_resolve(pinned, stack, 0, &a) == 0);
	EXPECT_STR(a->frames[0], b->frames[0]);
	EXPECT_STR(a->id, b->id);
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
		stack = stack_new(1, (uint32_t)getpid(), STACK_OK, as, &ip, 1);
		ASSERT(stack && symbolizer_new("/proc", LIMITS, &s) == 0);
		ASSERT(symbolizer_resolve(s, stack, 0, &t) == 0);
		if (can_open_map_files(as, ip))
			EXPECT_STR(t->frames[0], "alpha+0x0 (libbar.so)");
		else
			EXPECT(strncmp(t->frames[0], "libbar.so+0x", 12) == 0);
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
	ASSERT(symbolizer_new(proc.root, LIMITS, &s) == 0);
	t = resolve_at(s, strbuf_str(&maps), 77, STACK_OK, &ip, 1);
	ASSERT(t);
	EXPECT_STR(t->frames[0], "alpha+0x0 (libfoo.so)");

	/* Another device or inode is another file. */
	for (int i = 0; i < 2; i++) {
		stack_text_free(TAKE_PTR(t));
		strbuf_reset(&maps);
		strbuf_addf(&maps, "7000-107000 r-xp 00000000 %02x:%02x %llu /libfoo.so\n", major(st.st_dev),
			    minor(st.st_dev) ^ !i, (unsigned long long)st.st_ino + i);
		t = resolve_at(s, strbuf_str(&maps), 77, STACK_OK, &ip, 1);
		ASSERT(t);
		EXPECT(strncmp(t->frames[0], "libfoo.so+0x", 12) == 0);
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
	ASSERT(symbolizer_new("/proc", LIMITS, &s) == 0);
	t = resolve_at(s, strbuf_str(&maps), (uint32_t)getpid(), STACK_OK, ips, 4); /* would hang on a plain open */
	ASSERT(t && t->len == 4);
	EXPECT_STR(t->frames[0], "pipe+0x10");
	EXPECT_STR(t->frames[1], "folder+0x10");
	EXPECT_STR(t->frames[2], "text+0x10");
	EXPECT_STR(t->frames[3], "0x4000010");
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
	const uint64_t moved[] = { 0x1678, 0x2345, 0x3abc, 0x4001, 0x8888, 0, UINT64_MAX, 0x1000 };
	_cleanup_(symbolizer_freep) struct symbolizer *s = NULL;
	_cleanup_(stack_text_freep) struct stack_text *t = NULL, *u = NULL;

	ASSERT(symbolizer_new("/proc", LIMITS, &s) == 0);
	t = resolve_at(s, maps, (uint32_t)getpid(), STACK_OK, ips, ARRAY_SIZE(ips));
	u = resolve_at(s, maps, (uint32_t)getpid(), STACK_OK, moved, ARRAY_SIZE(ips));
	ASSERT(t && u && t->len == ARRAY_SIZE(ips));
	EXPECT_STR(t->frames[0], "0x1234");
	EXPECT_STR(t->frames[1], "[vdso]+0x345");
	EXPECT_STR(t->frames[2], "[uprobes]");
	EXPECT_STR(t->frames[3], "[anon:\\x1b[31m\\xff]+0x1");
	EXPECT_STR(t->frames[4], "0x9999");
	EXPECT_STR(t->frames[5], "0x0");
	EXPECT_STR(t->frames[6], "[top]+0xfff");
	EXPECT_STR(t->frames[7], "0x1000");
	EXPECT(!t->info);
	/* Addresses that mean nothing to another run do not count into the id. */
	EXPECT_STR(t->id, u->id);
}

TEST(stack_id_is_the_same_wherever_the_library_lies)
{
	_cleanup_(temp_proc_done) struct temp_proc one = {}, two = {};
	_cleanup_(symbolizer_freep) struct symbolizer *s = NULL;
	char id[3][8][32] = {};

	ASSERT(temp_proc_new(&one) && temp_proc_new(&two));
	ASSERT(symbolizer_new("/proc", LIMITS, &s) == 0);
	for (int kind = 0; kind < 3; kind++) {
		/* With build id: the name of the file does not matter. Without: its name does, its folder does not. */
		static const char *const flags[] = { BUILD_ID, "-Wl,--build-id=none", "-Wl,--build-id=0xaabb" };
		static const char *const second[] = { "b.so", "a.so", "a.so" };
		const char *dirs[] = { one.root, two.root };
		const char *names[] = { "a.so", second[kind] };

		for (int i = 0; i < 8; i++) {
			const char *dir = dirs[i % 2], *name = names[i % 2];
			const uint64_t start = i < 4 ? 0x10000000 : 0x7f0000000000;
			_cleanup_strbuf_ struct strbuf maps = STRBUF_INIT;
			_cleanup_(stack_text_freep) struct stack_text *t = NULL;
			uint64_t ips[2];

			if (i < 2)
				ASSERT(make_library(dir, name, flags[kind]));
			maps_line(&maps, dir, name, start);
			ips[0] = start + offset_of(dir, name, "alpha", NULL);
			ips[1] = start + offset_of(dir, name, "beta", NULL) + 5 + (i / 2 % 2); /* another call */
			t = resolve_at(s, strbuf_str(&maps), (uint32_t)getpid(), STACK_OK, ips, 2);
			ASSERT(t && t->id);
			EXPECT_STR(t->frames[1], i / 2 % 2 ? i % 2 && !kind ? "beta+0x6 (b.so)" : "beta+0x6 (a.so)" :
					   i % 2 && !kind ? "beta+0x5 (b.so)" :
							    "beta+0x5 (a.so)");
			(void)snprintf(id[kind][i], sizeof(id[kind][i]), "%s", t->id);
		}
		for (int i = 0; i < 8; i++)
			EXPECT_STR(id[kind][i], id[kind][i / 2 % 2 * 2]);
		EXPECT(strcmp(id[kind][0], id[kind][2]) != 0);
	}
	EXPECT(strcmp(id[0][0], id[1][0]) != 0);
	EXPECT(strcmp(id[0][0], id[2][0]) != 0);
	/* Order counts. */
	EXPECT(strcmp(id[1][0], id[2][0]) != 0);
}

TEST(id_without_build_id_survives_the_file)
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
	ASSERT(symbolizer_new("/proc", LIMITS, &with) == 0 && symbolizer_new("/proc", LIMITS, &without) == 0);
	a = resolve_at(with, strbuf_str(&maps), (uint32_t)getpid(), STACK_OK, ips, 2);
	(void)snprintf(path, sizeof(path), "%s/n.so", dir.root);
	ASSERT(a && unlink(path) == 0);
	/* The deleted file's mapping is shown with a suffix from then on; it is still the same file. */
	strbuf_truncate(&maps, maps.len - 1);
	strbuf_adds(&maps, " (deleted)\n");
	b = resolve_at(without, strbuf_str(&maps), (uint32_t)getpid(), STACK_OK, ips, 2);
	ASSERT(b);
	EXPECT_STR(a->frames[0], "alpha+0x0 (n.so)");
	EXPECT(strncmp(b->frames[0], "n.so+0x", 7) == 0);
	EXPECT_STR(a->id, b->id);
	stack_text_free(TAKE_PTR(b));
	b = resolve_at(with, strbuf_str(&maps), (uint32_t)getpid(), STACK_OK, ips, 2);
	ASSERT(b);
	EXPECT_STR(b->frames[0], "alpha+0x0 (n.so)");
}

static unsigned count_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

TEST(limits_hold)
{
	enum { LIBS = 6 };
	_cleanup_(temp_proc_done) struct temp_proc dir = {};
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
	ASSERT(symbolizer_new("/proc",
			      &(struct symbolizer_limits){ .objects = 2, .cache_bytes = 300, .max_symbols = 1000 },
			      &s) == 0);
	for (int round = 0; round < 3; round++) {
		_cleanup_(stack_text_freep) struct stack_text *t =
			resolve_at(s, strbuf_str(&maps), (uint32_t)getpid(), STACK_OK, ips, ARRAY_SIZE(ips));

		ASSERT(t && t->len == ARRAY_SIZE(ips));
		for (unsigned i = 0; i < t->len; i++) {
			char want[64];

			(void)snprintf(want, sizeof(want), "alpha+0x1 (l%u.so)", i % LIBS);
			EXPECT_STR(t->frames[i], want);
		}
		EXPECT_EQ(count_fds(), fds + 2);
	}
	symbolizer_trim(s, 0);
	EXPECT_EQ(count_fds(), fds);
}

TEST(info_says_why)
{
	static const struct {
		uint8_t reason;
		const char *info;
	} cases[] = {
		{ STACK_OK, "no stack was kept" },
		{ STACK_NONE, "this kind of event carries no stack" },
		{ STACK_FAULT, "the stack could not be read: fault at its first word" },
		{ STACK_DEPTH, "cut at 127 frames" },
		{ STACK_LOST, "lost: the event buffer was full" },
		{ STACK_EVICTED, "dropped: too many stacks of this process" },
		{ 200, "unknown reason 200" },
	};
	_cleanup_(symbolizer_freep) struct symbolizer *s = NULL;
	uint64_t ips[EVENT_STACK_MAX] = {};
	struct stack_text *t = NULL;

	ASSERT(symbolizer_new("/proc", LIMITS, &s) == 0);
	symbolizer_pin(s, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		ASSERT(symbolizer_resolve(s, NULL, cases[i].reason, &t) == 0);
		EXPECT_STR(t->info, cases[i].info);
		EXPECT_EQ(t->len, 0);
		EXPECT(!t->id);
		stack_text_free(t);
		/* The same of an empty stack that says so itself. */
		t = resolve_at(s, "", (uint32_t)getpid(), cases[i].reason, ips, 0);
		ASSERT(t);
		EXPECT_STR(t->info, cases[i].info);
		stack_text_free(t);
	}
	t = resolve_at(s, "", (uint32_t)getpid(), STACK_DEPTH, ips, EVENT_STACK_MAX);
	ASSERT(t);
	EXPECT_STR(t->info, "cut at 127 frames");
	stack_text_free(t);
	t = resolve_at(s, NULL, 1, STACK_DEPTH, ips, 5); /* nothing was known of the process */
	ASSERT(t);
	EXPECT_STR(t->info, "cut at 5 frames; process ended before its files could be opened");
	EXPECT_STR(t->frames[4], "0x0");
	stack_text_free(t);
}

TEST_MAIN()
