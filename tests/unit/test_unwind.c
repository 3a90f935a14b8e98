/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "elf_make.h"
#include "proc/procfs.h"
#include "stack/unwind.h"
#include "test.h"
#include "unwind_library.h"
#include "unwind_probe.h"

#define LIMITS &(struct unwinder_limits)UNWINDER_LIMITS_DEFAULT
#define COPY_MAX (512 * 1024)

/*
 * A place that takes its own thread's registers, as a probe at a function's entry would. The copying function is jumped
 * to, so that it leaves nothing between the caller and the copy.
 */
extern struct probe_registers probe_registers;
void probe_point(void);
void probe_copy(void);

__asm__(".pushsection .bss\n"
	".globl probe_registers\n"
	".hidden probe_registers\n"
	".balign 8\n"
	"probe_registers: .zero 64\n"
	".popsection\n"
	".pushsection .text\n"
	".globl probe_point\n"
	".type probe_point, @function\n"
	"probe_point:\n"
	".cfi_startproc\n"
	"lea probe_point(%rip), %rax\n"
	"mov %rax, probe_registers(%rip)\n"
	"mov %rsp, probe_registers+8(%rip)\n"
	"mov %rbp, probe_registers+16(%rip)\n"
	"mov %rbx, probe_registers+24(%rip)\n"
	"mov %r12, probe_registers+32(%rip)\n"
	"mov %r13, probe_registers+40(%rip)\n"
	"mov %r14, probe_registers+48(%rip)\n"
	"mov %r15, probe_registers+56(%rip)\n"
	"jmp probe_copy\n"
	".cfi_endproc\n"
	".size probe_point, .-probe_point\n"
	".popsection\n");

/* What the last probe_point() found, and what backtrace() says of the same moment. */
static struct {
	uint8_t copy[COPY_MAX];
	size_t len;
	void *trace[512];
	int trace_len;
	bool is_untraced; /* backtrace() does not survive every rule that the tests make up */
} taken;

/* Up to the end of the mapping; the sanitizer has no say in it. */
static size_t copy_stack(uint64_t sp)
{
	size_t have = 0;

	while (have < COPY_MAX) {
		const size_t want = MIN((size_t)(4096 - (sp + have) % 4096), COPY_MAX - have);
		struct iovec to = { taken.copy + have, want }, from = { (void *)(sp + have), want };

		if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)want)
			break;
		have += want;
	}
	return have;
}

__attribute__((used)) void probe_copy(void)
{
	int len, own = 0;
	uint64_t caller;

	taken.len = copy_stack(probe_registers.sp);
	if (taken.is_untraced)
		return;
	len = backtrace(taken.trace, ARRAY_SIZE(taken.trace) - 1);
	/* Before the caller there is this function, and the sanitizer's; make it one. */
	memcpy(&caller, taken.copy, sizeof(caller));
	while (own < len && (uint64_t)taken.trace[own] != caller)
		own++;
	taken.trace_len = len - own + 1;
	memmove(taken.trace + 1, taken.trace + own, (size_t)(len - own) * sizeof(*taken.trace));
}

struct fixture {
	struct temp_proc dir;
	void *library;
	struct unwinder *unwinder;
	struct address_space *space;
};

static void fixture_done(struct fixture *f)
{
	unwinder_free(f->unwinder);
	address_space_unref(f->space);
	if (f->library)
		(void)dlclose(f->library);
	temp_proc_done(&f->dir);
}

static bool fixture_new(struct fixture *f, const char *flags)
{
	char all[256], path[128];
	void (**hook)(void);

	(void)snprintf(all, sizeof(all), "-O2 -fomit-frame-pointer -fexceptions -fno-inline -fno-optimize-sibling-calls %s",
		       flags);
	if (!temp_proc_new(&f->dir) || !elf_compile(f->dir.root, "lib.so", library_source, all))
		return false;
	(void)snprintf(path, sizeof(path), "%s/lib.so", f->dir.root);
	f->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	hook = f->library ? dlsym(f->library, "hook") : NULL;
	if (!hook)
		return false;
	*hook = probe_point;
	return unwinder_new("/proc", LIMITS, &f->unwinder) == 0;
}

static int call(const struct fixture *f, const char *name, int arg)
{
	int (*function)(int) = dlsym(f->library, name);

	return function ? function(arg) : -1;
}

static bool again(struct fixture *f, struct raw_stack *s, struct unwound *ret)
{
	return unwind(f->unwinder, s, ret) == 0;
}

/* The last probe's stack; fresh maps. */
static bool unwind_taken(struct fixture *f, struct raw_stack *s, struct unwound *ret)
{
	address_space_unref(TAKE_PTR(f->space));
	if (maps_read("/proc", (uint32_t)getpid(), 0, &f->space) < 0)
		return false;
	*s = (struct raw_stack){ .pid = (uint32_t)getpid(), .copy = taken.copy, .copy_len = taken.len, .space = f->space };
	probe_fill(&probe_registers, s);
	return again(f, s, ret);
}

/* Frame for frame what backtrace() found, which has probe_copy for probe_point. */
static void expect_as_backtrace(const struct raw_stack *s, const struct unwound *u)
{
	EXPECT_EQ(u->reason, UNWIND_COMPLETE);
	EXPECT_EQ(u->count, taken.trace_len);
	EXPECT_EQ(u->frames[0].pc, (uint64_t)probe_point);
	for (size_t i = 1; i < MIN(u->count, (size_t)taken.trace_len); i++)
		EXPECT_EQ(u->frames[i].pc, (uint64_t)taken.trace[i]);
	expect_consistent(s, u);
}

static bool is_in(const struct unwound *u, size_t i, const char *function)
{
	Dl_info info;

	return i < u->count && dladdr((void *)(u->frames[i].pc - !u->frames[i].is_exact), &info) && info.dli_sname &&
	       strcmp(info.dli_sname, function) == 0;
}

#define EXPECT_IN(u, i, function)                                                                                      \
	do {                                                                                                           \
		if (!is_in(u, i, function)) {                                                                          \
			printf("# %s:%d: frame %zu is not in %s\n", __FILE__, __LINE__, (size_t)(i), function);        \
			test_failures++;                                                                               \
		}                                                                                                      \
	} while (0)

TEST(frames_of_any_size)
{
	_cleanup_(fixture_done) struct fixture f = {};
	struct unwound u, v;
	struct raw_stack s;
	char name[16];

	ASSERT(fixture_new(&f, ""));
	for (int depth = 0; depth < 20; depth++) {
		EXPECT_EQ(call(&f, "step0", depth), depth + 1);
		ASSERT(unwind_taken(&f, &s, &u));
		expect_as_backtrace(&s, &u);
		for (int i = 0; i <= depth; i++) {
			(void)snprintf(name, sizeof(name), "step%d", (depth - i) % 8);
			EXPECT_IN(&u, (size_t)i + 1, name);
		}
		EXPECT(u.frames[0].is_exact && !u.frames[1].is_exact);
		EXPECT_EQ(u.frames[0].return_slot, 0);
		EXPECT_EQ(u.frames[0].cfa, s.sp + 8);
	}
	/* From what is remembered the same. */
	ASSERT(again(&f, &s, &v));
	expect_as_backtrace(&s, &v);
	/* The rules of the entry say what at_entry does. */
	s.at_entry = false;
	ASSERT(again(&f, &s, &v));
	expect_as_backtrace(&s, &v);
}

TEST(frames_of_variable_size)
{
	_cleanup_(fixture_done) struct fixture f = {};
	struct unwound u;
	struct raw_stack s;
	uint64_t word;

	ASSERT(fixture_new(&f, ""));
	call(&f, "vla", 8);
	ASSERT(unwind_taken(&f, &s, &u));
	expect_as_backtrace(&s, &u);
	for (size_t i = 1; i <= 4; i++)
		EXPECT_IN(&u, i, "vla");
	/* The innermost frame's base is in bp, each other's was saved in the frame inside of it. */
	EXPECT(u.register_mask & 1u << 6);
	ASSERT(u.address_slot_count >= 3);
	for (size_t i = 0; i < 3; i++) {
		memcpy(&word, taken.copy + u.address_slots[i], 8);
		EXPECT_EQ(word, u.frames[i + 2].cfa - 16);
	}

	call(&f, "aligned", 8);
	ASSERT(unwind_taken(&f, &s, &u));
	expect_as_backtrace(&s, &u);
	for (size_t i = 1; i <= 4; i++)
		EXPECT_IN(&u, i, "aligned");
	EXPECT(u.address_slot_count >= 3);
}

TEST(deep_recursion_and_its_limit)
{
	_cleanup_(fixture_done) struct fixture f = {};
	_cleanup_(unwinder_freep) struct unwinder *small = NULL;
	struct unwinder_limits limits = UNWINDER_LIMITS_DEFAULT;
	struct unwound u;
	struct raw_stack s;

	ASSERT(fixture_new(&f, ""));
	call(&f, "step0", 240);
	ASSERT(unwind_taken(&f, &s, &u));
	EXPECT(u.count > 242);
	expect_as_backtrace(&s, &u);
	call(&f, "step0", 300);
	ASSERT(unwind_taken(&f, &s, &u));
	EXPECT_EQ(u.reason, UNWIND_DEPTH);
	EXPECT_EQ(u.count, 256);
	expect_consistent(&s, &u);

	/* Everything there is room for just once. */
	limits.depth = 10;
	limits.objects = 1;
	limits.rows = 1;
	ASSERT(unwinder_new("/proc", &limits, &small) == 0);
	ASSERT(unwind(small, &s, &u) == 0);
	EXPECT_EQ(u.count, 10);
	for (size_t i = 1; i < u.count; i++)
		EXPECT_EQ(u.frames[i].pc, (uint64_t)taken.trace[i]);
}

TEST(through_the_c_library_and_cleanups)
{
	_cleanup_(fixture_done) struct fixture f = {};
	struct unwound u;
	struct raw_stack s;

	ASSERT(fixture_new(&f, ""));
	call(&f, "sorted", 0);
	ASSERT(unwind_taken(&f, &s, &u));
	expect_as_backtrace(&s, &u);
	EXPECT_IN(&u, 6, "step3");
	EXPECT(u.count > 9);

	call(&f, "searched", 0);
	ASSERT(unwind_taken(&f, &s, &u));
	expect_as_backtrace(&s, &u);
	EXPECT_IN(&u, 6, "step3");

	call(&f, "thrown", 6);
	ASSERT(unwind_taken(&f, &s, &u));
	expect_as_backtrace(&s, &u);
	for (size_t i = 5; i < 12; i++)
		EXPECT_IN(&u, i, "thrown");
}

TEST(signal_frames)
{
	_cleanup_(fixture_done) struct fixture f = {};
	_cleanup_free_ char *other = malloc(1 << 16);
	stack_t stack = { .ss_sp = other, .ss_size = 1 << 16 }, old;
	struct unwound u;
	struct raw_stack s;
	size_t at = 0;

	ASSERT(fixture_new(&f, "") && other);
	call(&f, "signalled", 0);
	ASSERT(unwind_taken(&f, &s, &u));
	expect_as_backtrace(&s, &u);
	while (at < u.count && !u.frames[at].is_signal)
		at++;
	EXPECT_EQ(at, 7); /* probe_point, step0 of step1(4), ... handler */
	ASSERT(at + 2 < u.count);
	EXPECT(u.frames[at + 1].is_exact && !u.frames[at + 2].is_exact);

	call(&f, "trapped", 0);
	ASSERT(unwind_taken(&f, &s, &u));
	expect_as_backtrace(&s, &u);
	EXPECT_IN(&u, 6, "trap");
	EXPECT(u.frames[5].is_signal && u.frames[6].is_exact);
	EXPECT_IN(&u, 7, "trapped");

	/* The handler on a stack of its own: the copy has no more than that. */
	ASSERT(sigaltstack(&stack, &old) == 0);
	call(&f, "signalled", SA_ONSTACK);
	ASSERT(sigaltstack(&old, NULL) == 0);
	taken.len = (size_t)((uint64_t)other + (1 << 16) - probe_registers.sp);
	ASSERT(taken.len < 1 << 16 && unwind_taken(&f, &s, &u));
	EXPECT_EQ(u.reason, UNWIND_OUTSIDE);
	EXPECT_EQ(u.count, 8);
	expect_consistent(&s, &u);
}

static void *thread_main(void *arg)
{
	call(arg, "step0", 12);
	return arg;
}

TEST(another_thread)
{
	_cleanup_(fixture_done) struct fixture f = {};
	struct unwound u;
	struct raw_stack s;
	pthread_t thread;

	ASSERT(fixture_new(&f, ""));
	ASSERT(pthread_create(&thread, NULL, thread_main, &f) == 0 && pthread_join(thread, NULL) == 0);
	ASSERT(unwind_taken(&f, &s, &u));
	expect_as_backtrace(&s, &u);
	EXPECT(u.count >= 16);
}

static void expect_library(const char *flags)
{
	_cleanup_(fixture_done) struct fixture f = {};
	struct unwound u;
	struct raw_stack s;

	ASSERT(fixture_new(&f, flags));
	call(&f, "step0", 30);
	ASSERT(unwind_taken(&f, &s, &u));
	EXPECT_EQ(u.reason, UNWIND_COMPLETE);
	EXPECT(u.count > 33);
	for (size_t i = 1; i < 32; i++)
		EXPECT_IN(&u, i, ((const char *[]){ "step0", "step1", "step2", "step3", "step4", "step5", "step6",
						    "step7" })[(31 - i) % 8]);
	expect_consistent(&s, &u);
	call(&f, "signalled", 0);
	ASSERT(unwind_taken(&f, &s, &u));
	EXPECT_EQ(u.reason, UNWIND_COMPLETE);
	expect_consistent(&s, &u);
}

TEST(stripped_library)
{
	expect_library("-s");
}

/* backtrace() sees nothing here: the names are the oracle. */
TEST(library_without_a_search_table)
{
	expect_library("-Wl,--no-eh-frame-hdr");
	expect_library("-s -Wl,--no-eh-frame-hdr");
}

TEST(library_with_large_displacements)
{
	expect_library("-mcmodel=large -Wl,-z,noseparate-code");
}

TEST(rules_by_hand)
{
	_cleanup_(fixture_done) struct fixture f = {};
	struct unwound u;
	struct raw_stack s;
	int (*run)(void (*)(void));

	ASSERT(fixture_new(&f, ""));
	run = dlsym(f.library, "plt_like");
	ASSERT(run);
	run(probe_point);
	ASSERT(unwind_taken(&f, &s, &u));
	expect_as_backtrace(&s, &u);
	EXPECT_IN(&u, 1, "plt_like");

	static const struct {
		const char *name;
		enum unwind_reason reason;
	} ends[] = {
		{ "last", UNWIND_COMPLETE }, { "circle", UNWIND_LOOP },		{ "lost", UNWIND_NO_REGISTER },
		{ "silent", UNWIND_NO_INFO }, { "silent_root", UNWIND_COMPLETE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		run = dlsym(f.library, ends[i].name);
		ASSERT(run);
		taken.is_untraced = true;
		run(probe_point);
		taken.is_untraced = false;
		for (int twice = 0; twice < 2; twice++) {
			ASSERT(unwind_taken(&f, &s, &u));
			EXPECT_EQ(u.reason, ends[i].reason);
			EXPECT_EQ(u.count, 2);
			EXPECT_IN(&u, 1, ends[i].name);
			ASSERT(u.at);
			EXPECT(strstr(u.at->path, "/lib.so"));
			EXPECT_EQ(!unwind_reason_text(u.reason), u.reason == UNWIND_COMPLETE);
		}
	}
}

TEST(generated_code)
{
	/* push rbp; mov rbp, rsp; call rdi; pop rbp; ret */
	static const uint8_t framed[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
	/* push rbp; mov ebp, 1; call rdi; pop rbp; ret */
	static const uint8_t unframed[] = { 0x55, 0xbd, 1, 0, 0, 0, 0xff, 0xd7, 0x5d, 0xc3 };
	_cleanup_(fixture_done) struct fixture f = {};
	struct unwound u;
	struct raw_stack s;
	uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT(fixture_new(&f, "") && code != MAP_FAILED);
	memcpy(code, framed, sizeof(framed));
	memcpy(code + 64, unframed, sizeof(unframed));
	((void (*)(void (*)(void)))code)(probe_point);
	ASSERT(unwind_taken(&f, &s, &u));
	ASSERT(u.count > 2);
	EXPECT_EQ(u.reason, UNWIND_COMPLETE);
	EXPECT_EQ(u.frames[1].pc, (uint64_t)code + 6);
	EXPECT(u.frames[1].is_guessed && !u.frames[0].is_guessed && !u.frames[2].is_guessed);
	EXPECT(u.frames[2].pc > (uint64_t)test_generated_code && u.frames[2].pc < (uint64_t)test_generated_code + 8192);
	expect_consistent(&s, &u);

	((void (*)(void (*)(void)))(code + 64))(probe_point);
	ASSERT(unwind_taken(&f, &s, &u));
	EXPECT_EQ(u.reason, UNWIND_NO_FILE);
	EXPECT_EQ(u.count, 2);
	EXPECT_EQ(u.frames[1].pc, (uint64_t)code + 64 + 8);

	/* Mapped after the maps were read. */
	for (size_t i = 0; i < f.space->count; i++) {
		if (f.space->mappings[i].start <= (uint64_t)code && f.space->mappings[i].end > (uint64_t)code)
			f.space->mappings[i].end = f.space->mappings[i].start + 1;
	}
	ASSERT(again(&f, &s, &u));
	EXPECT_EQ(u.reason, UNWIND_NOT_MAPPED);
	EXPECT_EQ(u.count, 1);
	s.space = NULL;
	ASSERT(again(&f, &s, &u));
	EXPECT_EQ(u.reason, UNWIND_NO_MAPS);
	EXPECT_EQ(u.count, 1);
	(void)munmap(code, 4096);
}

TEST(truncated_copy)
{
	_cleanup_(fixture_done) struct fixture f = {};
	struct unwound whole, u;
	struct unwound_frame frames[256];
	struct raw_stack s;

	ASSERT(fixture_new(&f, ""));
	call(&f, "step0", 20);
	ASSERT(unwind_taken(&f, &s, &whole));
	expect_as_backtrace(&s, &whole);
	ASSERT(whole.count > 20 && whole.count < ARRAY_SIZE(frames));
	memcpy(frames, whole.frames, whole.count * sizeof(*frames));
	s.is_truncated = true;
	for (size_t len = 0; len < frames[15].return_slot; len += 4) {
		_cleanup_free_ uint8_t *copy = malloc(len ? len : 1);
		size_t want = 1;

		/* Exactly as long, for the sanitizer to see a read behind it. */
		ASSERT(copy);
		memcpy(copy, taken.copy, len);
		s.copy = copy;
		s.copy_len = len;
		while (frames[want - 1].return_slot + 8 <= len)
			want++;
		ASSERT(again(&f, &s, &u));
		EXPECT_EQ(u.reason, UNWIND_COPY_END);
		EXPECT_EQ(u.count, want);
		for (size_t i = 0; i < u.count; i++)
			EXPECT_EQ(u.frames[i].pc, frames[i].pc);
	}
	s.copy = taken.copy;
	s.is_truncated = false;
	s.copy_len = 64;
	ASSERT(again(&f, &s, &u));
	EXPECT_EQ(u.reason, UNWIND_OUTSIDE);
	s.copy_len = (size_t)1 << 40;
	EXPECT_EQ(unwind(f.unwinder, &s, &u), -E2BIG);
}

TEST(return_probe)
{
	_cleanup_(fixture_done) struct fixture f = {};
	_cleanup_(strbuf_done) struct strbuf maps = {};
	_cleanup_(address_space_unrefp) struct address_space *space = NULL;
	struct unwind_fix fix = {};
	const uint64_t trampoline = 0x7fffffffe000;
	struct unwound u;
	struct raw_stack s;
	uint32_t slot;

	ASSERT(fixture_new(&f, ""));
	call(&f, "step0", 9);
	ASSERT(unwind_taken(&f, &s, &u));
	expect_as_backtrace(&s, &u);
	slot = u.frames[4].return_slot;
	fix.address = s.sp + slot;
	fix.value = u.frames[5].pc;
	memcpy(taken.copy + slot, &trampoline, 8);
	for (size_t i = 0; i < f.space->count; i++) {
		const struct mapping *m = &f.space->mappings[i];

		if (m->end <= trampoline)
			strbuf_addf(&maps, "%llx-%llx r-xp %llx %x:%x %llu %s\n", (unsigned long long)m->start,
				    (unsigned long long)m->end, (unsigned long long)m->offset, m->dev_major,
				    m->dev_minor, (unsigned long long)m->inode, m->path);
	}
	strbuf_addf(&maps, "%llx-%llx --xp 00000000 00:00 0 [uprobes]\n", (unsigned long long)trampoline,
		    (unsigned long long)trampoline + 4096);
	ASSERT(maps_parse(strbuf_str(&maps), (uint32_t)getpid(), 0, &space) == 0);
	s.space = space;
	ASSERT(again(&f, &s, &u));
	EXPECT_EQ(u.reason, UNWIND_RETURN_PROBE);
	EXPECT_EQ(u.count, 5);
	EXPECT_EQ(u.frames[4].return_slot, slot);
	ASSERT(u.at);
	EXPECT_STR(u.at->path, "[uprobes]");

	s.fixes = &fix;
	s.fix_count = 1;
	ASSERT(again(&f, &s, &u));
	memcpy(taken.copy + slot, &fix.value, 8);
	expect_as_backtrace(&s, &u);
}

TEST(vdso)
{
	_cleanup_(fixture_done) struct fixture f = {};
	void *vdso = dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD);
	void *function = vdso ? dlsym(vdso, "__vdso_clock_gettime") : NULL;
	struct unwound u;
	struct raw_stack s;

	ASSERT(fixture_new(&f, ""));
	ASSERT(function);
	call(&f, "step0", 5);
	ASSERT(unwind_taken(&f, &s, &u));
	/* As if step5 had called it. */
	s.ip = (uint64_t)function;
	s.at_entry = false;
	ASSERT(again(&f, &s, &u));
	EXPECT_EQ(u.reason, UNWIND_COMPLETE);
	EXPECT_EQ(u.count, taken.trace_len);
	EXPECT_IN(&u, 1, "step5");
	(void)dlclose(vdso);
}

TEST_MAIN()
