/* SPDX-License-Identifier: MIT */
/* The library whose stacks test_unwind.c takes. */
#pragma once

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
