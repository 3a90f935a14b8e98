/* SPDX-License-Identifier: MIT */
/* A library, and the taking of stacks of its functions in this process. */
#pragma once

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <sys/uio.h>

#include "elf_make.h"
#include "proc/procfs.h"
#include "stack/unwind.h"
#include "test.h"
#include "unwind_probe.h"

/*
 * Code without frame pointers. step0..step7 have frames of different size and call each other in turn; the others have
 * frames that only a saved frame pointer or an expression leads out of.
 */
static const char library_source[] =
	"#include <alloca.h>\n#include <signal.h>\n#include <stdlib.h>\n#include <string.h>\n"
	"void (*hook)(void);\n"
	"volatile int sink;\n"
	"#define STEP(n, next, bytes) int next(int); int n(int left) { volatile char pad[bytes]; int r;"
	" pad[0] = 1; if (left == 0) { hook(); r = 0; } else r = next(left - 1); return r + pad[0]; }\n"
	"STEP(step0, step1, 8) STEP(step1, step2, 40) STEP(step2, step3, 200) STEP(step3, step4, 24)\n"
	"STEP(step4, step5, 1000) STEP(step5, step6, 16) STEP(step6, step7, 72) STEP(step7, step0, 136)\n"
	"int vla(int n) { char *p = alloca(n * 24); memset(p, n, n * 24); int r = n > 5 ? vla(n - 1) : (hook(), 0);"
	" return r + p[n]; }\n"
	"int aligned(int n) { __attribute__((aligned(64))) volatile char big[256]; char *p = alloca(n * 24);"
	" big[n] = 1; memset(p, n, n * 24); int r = n > 5 ? aligned(n - 1) : (hook(), 0); return r + p[n] + big[n]; }\n"
	"static int is_done;\n"
	"static int compare(const void *a, const void *b) { if (!is_done++) step3(5); sink++;"
	" return *(const int *)a - *(const int *)b; }\n"
	"int sorted(void) { int v[] = { 3, 2, 1, 5, 4 }; is_done = 0; qsort(v, 5, sizeof(int), compare);"
	" return v[0] + sink; }\n"
	"int searched(void) { int v[] = { 1, 2, 3, 4, 5 }, k = 4; is_done = 0;"
	" return bsearch(&k, v, 5, sizeof(int), compare) != 0; }\n"
	"static void forget(int *p) { sink += *p; }\n"
	"int thrown(int n) { __attribute__((cleanup(forget))) int v = n; int r = n ? thrown(n - 1) : step2(3);"
	" return r + v; }\n"
	"static void handler(int sig) { step1(4); sink = sig; }\n"
	"int signalled(int flags) { struct sigaction sa = { .sa_handler = handler, .sa_flags = flags };"
	" sigaction(SIGUSR1, &sa, 0); int r = raise(SIGUSR1); return r + sink; }\n"
	/* At a trap instruction, so that pc - 1 is another function's. */
	"static void skip(int sig, siginfo_t *i, void *c) { step1(2); ((ucontext_t *)c)->uc_mcontext.gregs[16] += 2; }\n"
	"int trap(void);\n"
	"int trapped(void) { struct sigaction sa = { .sa_flags = SA_SIGINFO, .sa_sigaction = skip };"
	" sigaction(SIGILL, &sa, 0); int r = trap(); return r + sink; }\n"
	"__asm__(\".text\\n.globl trap\\n.type trap,@function\\n.p2align 4\\n.cfi_startproc\\nsub $72, %rsp\\n"
	".cfi_def_cfa_offset 80\\nint3\\n.cfi_endproc\\ntrap:\\n.cfi_startproc\\nud2\\nxor %eax, %eax\\nret\\n"
	".cfi_endproc\\n\");\n"
	/* As lazy binding's table has it: at 11 or more bytes into 16, one more word is on the stack. */
	"__asm__(\".globl plt_like\\n.type plt_like,@function\\n.p2align 4\\nplt_like:\\n.cfi_startproc\\n"
	".cfi_escape 0x0f,11,0x77,8,0x80,0,0x3f,0x1a,0x3b,0x2a,0x33,0x24,0x22\\n"
	".fill 11,1,0x90\\npush %rdi\\ncall *%rdi\\npop %rdi\\nret\\n.size plt_like, .-plt_like\\n.cfi_endproc\\n\");\n"
	"__asm__(\".globl last\\n.type last,@function\\nlast:\\n.cfi_startproc\\n.cfi_undefined rip\\npush %rdi\\n"
	"call *%rdi\\npop %rdi\\nret\\n.size last, .-last\\n.cfi_endproc\\n\");\n"
	"__asm__(\".globl circle\\n.type circle,@function\\ncircle:\\n.cfi_startproc\\n.cfi_def_cfa_offset 0\\n"
	"push %rdi\\ncall *%rdi\\npop %rdi\\nret\\n.size circle, .-circle\\n.cfi_endproc\\n\");\n"
	"__asm__(\".globl lost\\n.type lost,@function\\nlost:\\n.cfi_startproc\\n.cfi_def_cfa rcx, 8\\n"
	"push %rdi\\ncall *%rdi\\npop %rdi\\nret\\n.size lost, .-lost\\n.cfi_endproc\\n\");\n"
	"__asm__(\".globl silent\\n.type silent,@function\\nsilent:\\npush %rbp\\nmov $1, %ebp\\n"
	"call *%rdi\\npop %rbp\\nret\\n.size silent, .-silent\\n.fill 32,1,0xcc\\n\");\n"
	/* Of the two, the second begins a thread's stack by the ABI's convention only. */
	"__asm__(\".globl silent_root\\n.type silent_root,@function\\nsilent_root:\\npush %rbp\\nxor %ebp, %ebp\\n"
	"call *%rdi\\npop %rbp\\nret\\n.size silent_root, .-silent_root\\n.fill 32,1,0xcc\\n\");\n";

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
	void *trace[1024];
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
	struct objects *objects;
	struct unwinder *unwinder;
	struct address_space *space;
};

static void fixture_done(struct fixture *f)
{
	unwinder_free(f->unwinder);
	objects_unref(f->objects);
	address_space_unref(f->space);
	if (f->library)
		(void)dlclose(f->library);
	temp_proc_done(&f->dir);
}

static inline bool fixture_new(struct fixture *f, const char *flags)
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
	return objects_new("/proc", 512, &f->objects) == 0 && unwinder_new(f->objects, LIMITS, &f->unwinder) == 0;
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
	*s = (struct raw_stack){ .pid = (uint32_t)getpid(), .copy = taken.copy, .copy_len = taken.len,
				 .space = f->space };
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
