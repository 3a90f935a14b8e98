/* SPDX-License-Identifier: MIT */
/*
 * A process that wants to hurt its watcher. It starts itself again with arguments of its own making (secrets, 100 KiB,
 * control characters, text directions, broken UTF-8, a forged record), gives itself a name that is two lines with an escape
 * in it, and calls the driver with sizes near 2^64, null and wild pointers. Then it allocates a little, prints its ledger
 * and waits for a line. --bytes N (150MiB) so that a rule fires; --long N (102400) bytes of the long argument.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "gpu.h"

#define STAGE "WORK_HOSTILE_STAGE"

static uint64_t bytes = 150ull << 20, long_bytes = 102400;
static struct ledger books;

static void name_self(void)
{
	/* 15 bytes: line break, escape, right-to-left override, quote, backslash, broken UTF-8 */
	static const char name[] = "a\nP\x1b[2J\xe2\x80\xae\"=\\\xff";

	prctl(PR_SET_NAME, name);
}

/* Options by environment now: the arguments are no longer ours to parse. */
static void become_hostile(void)
{
	char *long_text = malloc(long_bytes + 1), number[24];
	char *argv[] = {
		"work_hostile\nPRIORITY=0\nGPUXRAY_EVENT=stop",
		"--api-key=sk-live-0123456789abcdefghijklmnopqrstuv",
		"--password", "hunter2-correct-horse",
		"HF_TOKEN=hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345",
		"AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
		"https://user:s3cr3t-passw0rd@example.com/x",
		"\xe2\x80\xae\xe2\x81\xa6" "evil" "\x1b[31m\x07\r\n\t\x7f\xc2\x85",
		"\xff\xfe\xc0\xaf\xed\xa0\x80\xf8",
		"", "\"quoted\" 'single' back\\slash ]]> </script> %s%n=",
		long_text, NULL,
	};

	if (!long_text)
		die("out of memory");
	memset(long_text, 'x', long_bytes);
	long_text[long_bytes] = 0;
	snprintf(number, sizeof(number), "%llu", (unsigned long long)bytes);
	setenv(STAGE, number, 1);
	execv("/proc/self/exe", argv);
	die("execv: %s", strerror(errno));
}

static void must_fail(CUresult r)
{
	if (!r)
		die("a call that should fail succeeded");
	books.fail_count++;
}

static void must_refuse(CUresult r)
{
	if (!r)
		die("a free that should fail succeeded");
	books.free_fail_count++;
}

static void hostile_allocs(void)
{
	static const uint64_t sizes[] = { ~0ull, ~0ull - 511, 1ull << 63, (1ull << 63) + 1, 1ull << 62, 0 };
	static const uint64_t wild[] = { 0, 1, 4095, 0xdeadbeefdeadbeefull, ~0ull, 1ull << 63, 0x800000000000ull };
	CUmemGenericAllocationHandle h;
	CUmemAllocationProp prop = { .type = 1, .location = { .type = 1, .id = 0x7fffffff } };
	CUdeviceptr p;
	size_t pitch;
	void *host;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		must_fail(cuMemAlloc_v2(&p, sizes[i]));
		must_fail(cuMemAllocAsync(&p, sizes[i], (CUstream)(uintptr_t)0xdead));
		must_fail(cuMemAllocManaged(&p, sizes[i], 1));
		must_fail(cuMemHostAlloc(&host, sizes[i], 0));
		must_fail(cuMemAllocPitch_v2(&p, &pitch, sizes[i], sizes[i], 4));
		must_fail(cuMemAllocPitch_v2(&p, &pitch, 1, sizes[i], 4));
		must_fail(cuMemCreate(&h, sizes[i], &prop, 0));
		must_fail(cuMemHostRegister_v2(&host, sizes[i], 0));
	}
	prop.location.type = -1;
	prop.location.id = -2147483647 - 1;
	must_fail(cuMemCreate(&h, 2ull << 20, &prop, 0));
	for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
		void *w = (void *)(uintptr_t)wild[i];

		must_fail(cuMemAlloc_v2(w, 4096));
		must_fail(cuMemAllocPitch_v2(w, w, 100, 100, 4));
		must_fail(cuMemCreate(w, 2ull << 20, &prop, 0));
		must_fail(cuMemCreate(&h, 2ull << 20, w, 0));
		must_fail(cuMemAllocFromPoolAsync(&p, 4096, w, NULL));
		must_fail(cuMemHostRegister_v2(w, ~0ull, 0));
	}
}

static void hostile_frees(void)
{
	static const uint64_t wild[] = { 1, 0xdeadbeefdeadbeefull, ~0ull, 1ull << 63, 0x100000000001ull };

	for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
		void *w = (void *)(uintptr_t)wild[i];

		must_refuse(cuMemFree_v2(wild[i]));
		must_refuse(cuMemFreeHost(w));
		must_refuse(cuMemHostUnregister(w));
		must_refuse(cuMemFreeAsync(wild[i], w));
		must_refuse(cuMemRelease(wild[i]));
		/* None of these counts; none may change anything either. */
		if (!cuMemUnmap(wild[i], ~0ull) || !cuMemMap(wild[i], ~0ull, 0, wild[i], 0) || !cuCtxSetCurrent(w) ||
		    !cuCtxPushCurrent_v2(w) || !cuCtxDestroy_v2(w) || !cuDevicePrimaryCtxReset_v2(-1 - (int)i) ||
		    !cuMemPoolCreate(w, NULL) || !cuDeviceGetUuid_v2(w, 0x7fffffff))
			die("a wild call succeeded");
	}
	/* Success, and nothing to show for it. */
	MUST(cuMemFree_v2(0));
	books.null_free_count++;
}

int main(int argc, char **argv)
{
	const char *stage = getenv(STAGE);
	const struct option_spec specs[] = {
		{ "--bytes", OPTION_NUMBER, &bytes },
		{ "--long", OPTION_NUMBER, &long_bytes },
		{ 0 },
	};
	CUdeviceptr p;
	int r;

	if (!stage) {
		options_parse(argc, argv, specs);
		common_start();
		become_hostile();
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	bytes = strtoull(stage, NULL, 10);
	name_self();
	gpu_open(&books);
	hostile_allocs();
	hostile_frees();
	MUST(cuMemAlloc_v2(&p, bytes));
	ledger_alloc(&books, CLASS_DEVICE, bytes, 0);
	r = ledger_print(&books, "hostile", NULL);
	wait_line();
	return r;
}
