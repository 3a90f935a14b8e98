/* SPDX-License-Identifier: MIT */
/*
 * It is its own driver, given to the daemon as a --library, and one that lies: each call answers what it likes, success among
 * it, and writes nothing where it was asked to. So a probe meets every argument with every result.
 *
 * garbage: --threads N (3) call everything for --seconds N (2), as fast as it goes, with pointers that are null, not mapped,
 * not canonical, in the kernel, read-only or at the end of a page, and with such sizes, handles and flags.
 * frames: --count N (1000) allocations by each of several stacks that are not what they seem: frame pointers that lead back,
 * to themselves, out of the stack or nowhere; a stack pointer just below the end of its mapping; a stack of return addresses
 * into nothing. These calls succeed, one after the other, with addresses of their own.
 *
 * Prints one JSON line, with how often it called, and waits for a line if asked to.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common.h"

#define PAGE 4096u
#define THREADS_MAX 16

typedef uint64_t word;
typedef int (*driver_fn)(word, word, word, word, word, word);

/* Every shape that the probes know; versions of a call that differ in their name alone are left out. */
#define CALLS(X)                                                                                                       \
	X(cuMemAlloc_v2) X(cuMemAlloc) X(cuMemAllocPitch_v2) X(cuMemFree_v2) X(cuMemFree) X(cuMemAllocManaged)          \
	X(cuMemAllocHost_v2) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemHostRegister_v2) X(cuMemHostUnregister)          \
	X(cuArrayCreate_v2) X(cuArray3DCreate_v2) X(cuArrayDestroy) X(cuMipmappedArrayCreate)                           \
	X(cuMipmappedArrayDestroy) X(cuMemAllocAsync) X(cuMemAllocFromPoolAsync) X(cuMemFreeAsync) X(cuMemPoolCreate)   \
	X(cuMemPoolDestroy) X(cuMemPoolTrimTo) X(cuMemPoolSetAttribute) X(cuDeviceGetDefaultMemPool)                    \
	X(cuDeviceGetMemPool) X(cuDeviceSetMemPool) X(cuMemGetDefaultMemPool) X(cuMemCreate) X(cuMemRelease)            \
	X(cuMemRetainAllocationHandle) X(cuMemMap) X(cuMemUnmap) X(cuIpcGetMemHandle) X(cuIpcOpenMemHandle_v2)          \
	X(cuIpcCloseMemHandle) X(cuMemImportFromShareableHandle) X(cuMemPoolExportPointer)                              \
	X(cuMemPoolImportFromShareableHandle) X(cuMemPoolImportPointer) X(cuImportExternalMemory)                       \
	X(cuDestroyExternalMemory) X(cuExternalMemoryGetMappedBuffer) X(cuMulticastCreate) X(cuMulticastBindMem)        \
	X(cuMulticastUnbind) X(cuStreamBeginCapture_v2) X(cuStreamBeginCaptureToGraph) X(cuStreamEndCapture)            \
	X(cuGraphAddMemAllocNode) X(cuGraphAddMemFreeNode) X(cuGraphAddNode) X(cuGraphClone) X(cuGraphInstantiate)      \
	X(cuGraphLaunch) X(cuGraphDestroy) X(cuGraphExecDestroy) X(cuDeviceGetUuid_v2) X(cuDevicePrimaryCtxRetain)      \
	X(cuDevicePrimaryCtxRelease_v2) X(cuDevicePrimaryCtxReset_v2) X(cuCtxCreate_v2) X(cuCtxCreate_v3)               \
	X(cuCtxCreate_v4) X(cuGreenCtxCreate) X(cuCtxFromGreenCtx) X(cuCtxAttach) X(cuCtxDetach) X(cuCtxDestroy_v2)     \
	X(cuCtxSetCurrent) X(cuCtxPushCurrent_v2) X(cuCtxPopCurrent_v2) X(cuCtxGetCurrent) X(cuCtxGetDevice)

static uint64_t seconds = 2, thread_count = 3, count = 1000, bytes = 4096;
static word pages[8]; /* addresses to choose from */
static _Thread_local uint64_t rng;
static uint64_t next_address; /* not 0: what an honest driver would give */
static volatile uint64_t stop_ns;

static int answer(word out)
{
	static const int results[] = { 0, 0, 0, 1, 2, 3, 201, 999, -1, 0x7fffffff };

	if (next_address) {
		*(word *)out = next_address;
		next_address += bytes;
		return 0;
	}
	return results[random_next(&rng) % (sizeof(results) / sizeof(results[0]))];
}

/* Each is code of its own: two names of one place would be one probe. */
#define DEFINE(name)                                                                                                   \
	FRAME __attribute__((visibility("default"))) int name(word a, word b, word c, word d, word e, word f);         \
	int name(word a, word b, word c, word d, word e, word f)                                                       \
	{                                                                                                              \
		static volatile int apart;                                                                             \
		int r = answer(a);                                                                                     \
		apart++;                                                                                               \
		return r;                                                                                              \
	}
CALLS(DEFINE)

#define NAME_OF(name) name,
static const driver_fn calls[] = { CALLS(NAME_OF) };

/* ---- garbage */

static word some_word(void)
{
	static const word chosen[] = {
		0, 1, 4095, 0x1000, ~0ull, ~0ull - 4095, 1ull << 63, 1ull << 47, (1ull << 47) - 8, 0xffff800000000000ull,
		0xffffffff81000000ull, 0xdeadbeefdeadbeefull, 1ull << 32, (1ull << 31) - 1, 1ull << 31, 2, 1ull << 40,
	};
	const uint64_t n = random_next(&rng);

	switch (n % 4) {
	case 0:
		return chosen[n / 4 % (sizeof(chosen) / sizeof(chosen[0]))];
	case 1:
		return pages[n / 4 % (sizeof(pages) / sizeof(pages[0]))];
	case 2:
		return n / 4 % 64; /* handles and ordinals that may be there */
	default:
		return random_next(&rng);
	}
}

static void *page_new(int protection)
{
	void *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	for (size_t i = 0; i < PAGE; i++)
		((unsigned char *)p)[i] = (unsigned char)random_next(&rng);
	if (mprotect(p, PAGE, protection) || munmap((char *)p + PAGE, PAGE))
		die("mprotect");
	return p;
}

static void make_pages(void)
{
	rng = 1;
	pages[0] = (word)page_new(PROT_READ | PROT_WRITE);
	pages[1] = pages[0] + PAGE - 4; /* half of what is written there is not mapped */
	pages[2] = pages[0] + PAGE - 1;
	pages[3] = (word)page_new(PROT_READ);
	pages[4] = (word)page_new(PROT_NONE);
	pages[5] = (word)page_new(PROT_READ | PROT_WRITE) + 1; /* not aligned */
	pages[6] = (word)&pages;
	pages[7] = (word)&make_pages;
}

static void *call_garbage(void *arg)
{
	uint64_t n = 0;

	rng = 0x9e3779b97f4a7c15ull + (uintptr_t)arg;
	do {
		for (int i = 0; i < 64; i++, n++)
			(void)calls[random_next(&rng) % (sizeof(calls) / sizeof(calls[0]))](
				some_word(), some_word(), some_word(), some_word(), some_word(), some_word());
	} while (monotonic_ns() < stop_ns);
	return (void *)(uintptr_t)n;
}

static uint64_t garbage(void)
{
	pthread_t threads[THREADS_MAX];
	uint64_t n = 0;
	void *one;

	make_pages();
	stop_ns = monotonic_ns() + seconds * 1000000000u;
	for (uint64_t i = 0; i < thread_count; i++)
		if (pthread_create(&threads[i], NULL, call_garbage, (void *)(uintptr_t)i))
			die("pthread_create");
	for (uint64_t i = 0; i < thread_count; i++) {
		(void)pthread_join(threads[i], &one);
		n += (uint64_t)(uintptr_t)one;
	}
	return n;
}

/* ---- frames */

#define STACK_BYTES (256u << 10)
#define WORDS (STACK_BYTES / sizeof(word))

#if defined(__x86_64__)
/* Calls fn(arg) with this frame pointer on this stack; there is no table entry that could tell an unwinder how to leave. */
void pivot(word *frame, word *stack, void (*fn)(word), word arg);
__asm__(".text\n"
	".globl pivot\n"
	".type pivot, @function\n"
	"pivot:\n"
	"	push %rbp\n"
	"	push %rbx\n"
	"	mov %rsp, %rbx\n"
	"	mov %rdi, %rbp\n"
	"	mov %rsi, %rsp\n"
	"	mov %rcx, %rdi\n"
	"	call *%rdx\n"
	"	mov %rbx, %rsp\n"
	"	pop %rbx\n"
	"	pop %rbp\n"
	"	ret\n"
	".size pivot, . - pivot\n");
#else
static void pivot(word *frame, word *stack, void (*fn)(word), word arg)
{
	die("frames: written for x86-64 alone");
}
#endif

static void alloc_once(word unused)
{
	word p = 0;

	(void)cuMemAlloc_v2((word)&p, bytes, 0, 0, 0, 0);
	KEEP_FRAME();
}

/* What lies above the stack pointer, and what the frame pointer is, i different ways. */
#define SHAPES 7
static word *shape_make(word *stack, int shape)
{
	word *frame = stack + WORDS / 2;

	for (size_t i = 0; i < WORDS; i++)
		stack[i] = (word)&alloc_once + i % 13;
	switch (shape) {
	case 0: /* to itself */
		frame[0] = (word)frame;
		return frame;
	case 1: /* two that lead to each other */
		frame[0] = (word)(frame + 64);
		frame[64] = (word)frame;
		return frame;
	case 2: /* each word is a frame whose caller is the one below it */
		for (size_t i = 1; i < WORDS; i++)
			stack[i] = (word)&stack[i - 1];
		return frame;
	case 3: /* out of the stack */
		frame[0] = (word)&pages;
		return frame;
	case 4:
		return (word *)0x10;
	case 5: /* not canonical, and returns into the kernel */
		for (size_t i = 0; i < WORDS; i++)
			stack[i] = i % 2 ? 0xffffffff81000000ull + i : 0xdead000000000000ull;
		return (word *)0xdead000000000000ull;
	default: /* a chain of 16,000 true frames, one function in all of them */
		for (size_t i = WORDS / 2; i + 2 < WORDS; i += 2) {
			stack[i] = (word)&stack[i + 2];
			stack[i + 1] = (word)&alloc_once + 8;
		}
		return frame;
	}
}

static uint64_t frames(void)
{
	word *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stack == MAP_FAILED)
		die("mmap");
	next_address = 0x700000000000;
	for (uint64_t i = 0; i < count; i++) {
		for (int shape = 0; shape < SHAPES; shape++) {
			word *frame = shape_make(stack, shape);

			/* Other words behind each call, so that no stack is known again. */
			stack[WORDS / 2 - 8 + i % 8] = i;
			pivot(frame, stack + WORDS / 2 - 32, alloc_once, 0);
		}
		pivot(stack + WORDS - 2, stack + WORDS - 2, alloc_once, 0); /* the mapping ends with the return address */
	}
	return count * (SHAPES + 1);
}

int main(int argc, char **argv)
{
	const struct option_spec specs[] = {
		{ "--seconds", OPTION_NUMBER, &seconds }, { "--threads", OPTION_NUMBER, &thread_count },
		{ "--count", OPTION_NUMBER, &count },	  { "--bytes", OPTION_NUMBER, &bytes },
		{ 0 },
	};
	uint64_t start, n;
	bool is_frames;

	if (options_parse(argc, argv, specs) != 1 || !thread_count || thread_count > THREADS_MAX)
		die("usage: work_hostile_liar garbage|frames [--seconds N] [--threads 1-%d] [--count N] [--bytes N]", THREADS_MAX);
	is_frames = !strcmp(argv[1], "frames");
	common_start();
	start = monotonic_ns();
	n = is_frames ? frames() : garbage();
	printf("{\"label\":\"%s\",\"calls\":%" PRIu64 ",\"ns\":%" PRIu64 "}\n", argv[1], n, monotonic_ns() - start);
	if (common.wait_end)
		wait_line();
	return 0;
}
