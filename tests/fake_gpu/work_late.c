/* SPDX-License-Identifier: MIT */
/*
 * Not linked with the driver: opens it by path when it has run for a while. work_late PATH [--sleep MS (500)] [--bytes N]
 * [--blocks N] [--unlink] (the file is removed after it was opened) [--second PATH] (another copy, with memory of its own).
 * Prints one ledger for each copy ("late", "second") and then waits for a line if asked to.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#include "common.h"
#include "cuda_api.h"

static uint64_t sleep_ms = 500, bytes = 1ull << 20, blocks = 4;
static bool with_unlink;

#define CALL(lib, name) ((__typeof__(&name))call_find(lib, #name))

static void *call_find(void *lib, const char *name)
{
	void *p = dlsym(lib, name);

	if (!p)
		die("dlsym: %s", dlerror());
	return p;
}

static int use(const char *path, const char *label)
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	struct ledger books = { .device_count = 0 };
	CUcontext ctx;
	CUdeviceptr p;

	if (!lib)
		die("dlopen: %s", dlerror());
	if (with_unlink && unlink(path))
		die("cannot unlink %s", path);
	usleep(200000); /* a watcher that looks for mappings gets its chance; a busy one needs more */
	if (CALL(lib, cuInit)(0) || CALL(lib, cuDevicePrimaryCtxRetain)(&ctx, 0) || CALL(lib, cuCtxSetCurrent)(ctx))
		die("%s: cannot open the device", path);
	for (uint64_t i = 0; i < blocks; i++) {
		if (CALL(lib, cuMemAlloc_v2)(&p, bytes))
			books.fail_count++;
		else
			ledger_alloc(&books, CLASS_DEVICE, bytes, 0);
	}
	return ledger_print(&books, label, lib);
}

int main(int argc, char **argv)
{
	const char *second = NULL;
	const struct option_spec specs[] = {
		{ "--sleep", OPTION_NUMBER, &sleep_ms }, { "--bytes", OPTION_NUMBER, &bytes },
		{ "--blocks", OPTION_NUMBER, &blocks },	 { "--unlink", OPTION_FLAG, &with_unlink },
		{ "--second", OPTION_TEXT, &second },	 { 0 },
	};
	int r;

	if (options_parse(argc, argv, specs) != 1)
		die("usage: work_late PATH [--sleep MS] [--bytes N] [--blocks N] [--unlink] [--second PATH]");
	common_start();
	usleep((useconds_t)(sleep_ms * 1000));
	r = use(argv[1], "late");
	if (second)
		r |= use(second, "second");
	if (common.wait_end)
		wait_line();
	return r;
}
