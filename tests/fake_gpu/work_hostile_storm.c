/* SPDX-License-Identifier: MIT */
/*
 * Much of what a watcher has work with, on the stand-in driver.
 *
 * garbage: --threads N (3) call it with wild sizes, handles and pointers for --seconds N (2) as fast as it goes.
 * forks: --count N (2000) children, --at-once N (8) of them at a time, each allocates --bytes N once and ends without a word;
 * every --exec-every N-th (4) has executed itself before.
 * names: for --seconds N, children one after the other that allocate --bytes N, wait --hold MS (5) and end; the name and the
 * arguments of parent and child are other hostile text each millisecond, with secrets among them. Wants --pad TEXT, an
 * argument of some length to write over.
 * reload FILE FOLDER: for --seconds N, copies of the driver in this file are opened below FOLDER/N, used, closed and opened
 * again, replaced or removed in between, also while they are mapped.
 * once: one allocation of --bytes N.
 *
 * Prints one JSON line and waits for a line if asked to.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gpu.h"

#define THREADS_MAX 16

static uint64_t seconds = 2, thread_count = 3, count = 2000, at_once = 8, exec_every = 4, bytes = 1 << 20, hold_ms = 5;
static const char *pad = "";
static _Thread_local uint64_t rng = 1;
static uint64_t stop_ns;

static void say(const char *label, uint64_t calls, uint64_t start_ns)
{
	printf("{\"label\":\"%s\",\"pid\":%d,\"calls\":%" PRIu64 ",\"ns\":%" PRIu64 "}\n", label, (int)getpid(), calls,
	       monotonic_ns() - start_ns);
}

static bool is_over(void)
{
	return monotonic_ns() >= stop_ns;
}

/* ---- garbage */

/* Pointers among it that the stand-in takes for what they are: it looks at them before it writes. */
static uint64_t some_word(void)
{
	static const uint64_t chosen[] = { 0, 1, 4095, ~0ull, ~0ull - 511, 1ull << 63, 0x800000000000ull, 1ull << 62,
					   0xdeadbeefdeadbeefull };

	return chosen[random_next(&rng) % (sizeof(chosen) / sizeof(chosen[0]))];
}

static void call_some(void)
{
	CUmemAllocationProp prop = { .type = (int)random_next(&rng), .location = { .type = 1, .id = (int)some_word() } };
	CUmemGenericAllocationHandle h;
	uint64_t size = some_word() | 1ull << 50;
	void *w = (void *)some_word(), *host;
	CUdeviceptr p;
	size_t pitch;

	(void)cuMemAlloc_v2(&p, size);
	(void)cuMemAlloc_v2(w, 4096);
	(void)cuMemAllocManaged(&p, size, 1);
	(void)cuMemHostAlloc(&host, size, 0);
	(void)cuMemAllocPitch_v2(&p, &pitch, size, some_word(), 4);
	(void)cuMemAllocPitch_v2(w, w, 100, 100, 4);
	(void)cuMemCreate(&h, size, &prop, 0);
	(void)cuMemCreate(w, 2ull << 20, &prop, 0);
	(void)cuMemAllocFromPoolAsync(&p, 4096, w, NULL);
	(void)cuMemAllocAsync(&p, size, w);
	(void)cuMemHostRegister_v2(w, ~0ull, 0);
	(void)cuMemFree_v2(some_word() | 1);
	(void)cuMemFreeHost(w);
	(void)cuMemRelease(some_word());
	(void)cuMemUnmap(some_word(), some_word());
	(void)cuMemMap(some_word(), size, 0, some_word(), 0);
	(void)cuCtxSetCurrent((CUcontext)(some_word() | 1));
	(void)cuCtxDestroy_v2((CUcontext)(some_word() | 1));
	(void)cuMemPoolCreate(w, NULL);
	(void)cuDeviceGetUuid_v2(w, 0x7fffffff);
}
#define CALLS_AT_ONCE 20

static void *call_garbage(void *arg)
{
	struct ledger books = { 0 };
	uint64_t n = 0;

	rng = 0x9e3779b97f4a7c15ull + (uintptr_t)arg;
	(void)gpu_open(&books);
	while (!is_over()) {
		call_some();
		n += CALLS_AT_ONCE;
	}
	return (void *)(uintptr_t)n;
}

static uint64_t garbage(void)
{
	pthread_t threads[THREADS_MAX];
	uint64_t n = 0;
	void *one;

	for (uint64_t i = 0; i < thread_count; i++)
		if (pthread_create(&threads[i], NULL, call_garbage, (void *)(uintptr_t)i))
			die("pthread_create");
	for (uint64_t i = 0; i < thread_count; i++) {
		(void)pthread_join(threads[i], &one);
		n += (uint64_t)(uintptr_t)one;
	}
	return n;
}

/* ---- forks */

static void alloc_once(void)
{
	struct ledger books = { 0 };
	CUdeviceptr p;

	(void)gpu_open(&books);
	MUST(cuMemAlloc_v2(&p, bytes));
}

static void exec_once(void)
{
	char text[32];

	snprintf(text, sizeof(text), "--bytes=%" PRIu64, bytes);
	execl("/proc/self/exe", "work_hostile_storm", "once", text, (char *)NULL);
	_exit(2);
}

static void reap(uint64_t *failed)
{
	int status;

	if (wait(&status) < 0)
		die("wait: %s", strerror(errno));
	*failed += status != 0;
}

/* The parent never uses the driver: its children could not, after that. */
static uint64_t forks(void)
{
	uint64_t failed = 0;

	for (uint64_t i = 0; i < count; i++) {
		pid_t pid;

		if (i >= at_once)
			reap(&failed);
		pid = fork();
		if (pid < 0)
			die("fork %" PRIu64 ": %s", i, strerror(errno));
		if (pid)
			continue;
		if (exec_every && i % exec_every == 0)
			exec_once();
		alloc_once();
		_exit(0);
	}
	for (uint64_t i = 0; i < (count < at_once ? count : at_once); i++)
		reap(&failed);
	if (failed)
		die("%" PRIu64 " children have failed", failed);
	return count;
}

/* ---- names */

#define SECRETS                                                                                                        \
	"\0HF_TOKEN=hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345\0--password\0hunter2-correct-horse\0"                          \
	"https://user:s3cr3t-passw0rd@example.com/x\0"

static char *area; /* of the arguments, that of the pad */
static size_t area_len;

static const char *some_text(void)
{
	static const char *const texts[] = {
		"\n", "\r\n", "\x1b[2J", "\x1b]0;x\x07", "\"", "'", "\\", "=", "\t", "\xff", "\xc0\xaf", "\xed\xa0\x80",
		"\xe2\x80\xae", "\xe2\x81\xa6", "\x7f", "\xc2\x85", "a", "%s%n", "\nGPUXRAY_FORGED=1\n", "\nMESSAGE=forged\n",
		"\nPRIORITY=0\n", "}],", "<b>", "\\x0a", "\x01", "_PID=1",
	};

	return texts[random_next(&rng) % (sizeof(texts) / sizeof(texts[0]))];
}

/* len bytes of such text, the last piece cut. */
static void fill_text(char *to, size_t len)
{
	while (len) {
		const char *text = some_text();
		const size_t n = strlen(text) < len ? strlen(text) : len;

		memcpy(to, text, n);
		to += n;
		len -= n;
	}
}

/* The secrets stay where they are: one that is torn by its owner while it is read is nobody's to find. */
static void rename_self(void)
{
	char name[16] = "";

	fill_text(name, sizeof(name) - 1);
	(void)prctl(PR_SET_NAME, name);
	fill_text(area, area_len - sizeof(SECRETS));
}

static void *keep_renaming(void *arg)
{
	const struct timespec ms = { 0, 1000000 };

	rng = (uintptr_t)arg | 1;
	while (!is_over()) {
		rename_self();
		(void)nanosleep(&ms, NULL);
	}
	return NULL;
}

static void named_child(uint64_t i)
{
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	rng = 1000003 * (i + 1);
	rename_self();
	stop_ns = monotonic_ns() + (hold_ms + 1) * 1000000u;
	alloc_once();
	if (pthread_create(&thread, NULL, keep_renaming, (void *)(uintptr_t)(i + 1)))
		_exit(2);
	usleep((useconds_t)(hold_ms * 1000));
	_exit(0);
}

static uint64_t names(void)
{
	pthread_t thread;
	uint64_t n = 0, failed = 0;

	area = (char *)(uintptr_t)pad;
	area_len = strlen(pad);
	if (area_len < 2 * sizeof(SECRETS))
		die("names: --pad with %zu bytes or more", 2 * sizeof(SECRETS));
	memcpy(area + area_len - sizeof(SECRETS), SECRETS, sizeof(SECRETS));
	if (pthread_create(&thread, NULL, keep_renaming, NULL))
		die("pthread_create");
	for (; !is_over(); n++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork: %s", strerror(errno));
		if (!pid)
			named_child(n);
		reap(&failed);
	}
	(void)pthread_join(thread, NULL);
	if (failed)
		die("%" PRIu64 " children have failed", failed);
	return n;
}

/* ---- reload */

#define COPIES 6
#define CALL(lib, name) ((__typeof__(&name))symbol_of(lib, #name))

static void *symbol_of(void *lib, const char *name)
{
	void *p = dlsym(lib, name);

	if (!p)
		die("dlsym: %s", dlerror());
	return p;
}

static void copy_file(const char *from, const char *to)
{
	int in = open(from, O_RDONLY | O_CLOEXEC), out;
	struct stat st;

	(void)unlink(to);
	out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	if (in < 0 || out < 0 || fstat(in, &st) || sendfile(out, in, NULL, (size_t)st.st_size) != st.st_size)
		die("%s: cannot copy: %s", to, strerror(errno));
	close(in);
	close(out);
}

static void use(void *lib)
{
	CUdeviceptr p[3];
	CUcontext ctx;

	if (CALL(lib, cuInit)(0) || CALL(lib, cuDevicePrimaryCtxRetain)(&ctx, 0) || CALL(lib, cuCtxSetCurrent)(ctx))
		die("a copy cannot open the device");
	for (int i = 0; i < 3; i++)
		if (CALL(lib, cuMemAlloc_v2)(&p[i], bytes))
			die("a copy does not allocate");
	for (int i = 0; i < 3; i++)
		if (CALL(lib, cuMemFree_v2)(p[i]))
			die("a copy does not free");
}

static uint64_t reload(const char *file, const char *folder)
{
	/* As libraries are called; one of them is none by its name. */
	static const char *const called[] = { "libcuda.so.1", "libcuda.so.580.1", "libcuda.so", "libother.so" };
	uint64_t n = 0;

	for (; !is_over(); n++) {
		char path[512];
		void *lib;

		snprintf(path, sizeof(path), "%s/%" PRIu64, folder, n % COPIES);
		(void)mkdir(path, 0755);
		snprintf(path + strlen(path), sizeof(path) - strlen(path), "/%s", called[n % 4]);
		if (n % 3 == 0 || access(path, F_OK))
			copy_file(file, path);
		lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (!lib)
			die("dlopen: %s", dlerror());
		if (n % 5 == 0)
			copy_file(file, path); /* another file, while this one is mapped */
		if (n % 7 == 0 && unlink(path))
			die("unlink: %s", strerror(errno));
		use(lib);
		if (dlclose(lib))
			die("dlclose: %s", dlerror());
	}
	return n;
}

int main(int argc, char **argv)
{
	const struct option_spec specs[] = {
		{ "--seconds", OPTION_NUMBER, &seconds }, { "--threads", OPTION_NUMBER, &thread_count },
		{ "--count", OPTION_NUMBER, &count },	  { "--at-once", OPTION_NUMBER, &at_once },
		{ "--exec-every", OPTION_NUMBER, &exec_every }, { "--bytes", OPTION_NUMBER, &bytes },
		{ "--hold", OPTION_NUMBER, &hold_ms },	  { "--pad", OPTION_TEXT, &pad },
		{ 0 },
	};
	const int words = options_parse(argc, argv, specs);
	const char *mode = words ? argv[1] : "";
	uint64_t start, n;

	if (!at_once || thread_count > THREADS_MAX)
		die("--at-once: 1 or more; --threads: %d at most", THREADS_MAX);
	if (!strcmp(mode, "once")) {
		alloc_once();
		_exit(0);
	}
	common_start();
	start = monotonic_ns();
	stop_ns = start + seconds * 1000000000u;
	if (!strcmp(mode, "garbage"))
		n = garbage();
	else if (!strcmp(mode, "forks"))
		n = forks();
	else if (!strcmp(mode, "names"))
		n = names();
	else if (!strcmp(mode, "reload") && words == 3)
		n = reload(argv[2], argv[3]);
	else
		die("usage: work_hostile_storm garbage|forks|names|reload FILE FOLDER|once");
	say(mode, n, start);
	if (common.wait_end)
		wait_line();
	return 0;
}
