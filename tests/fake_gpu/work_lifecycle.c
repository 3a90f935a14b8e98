/* SPDX-License-Identifier: MIT */
/*
 * Lives of processes. Usage: work_lifecycle MODE [--bytes N] [--blocks N] [--signal N] and the common options.
 *   hold         allocate, print the ledger, wait for a line, exit with all of it
 *   churn        allocate, free all but the first block, as often as --rounds
 *   exec         allocate 1 block of --bytes, print, wait, exec itself (same pid), allocate --blocks of --bytes, print, wait
 *   leader-exit  the main thread ends while another goes on allocating (one block each 50 ms), prints, waits
 *   fork         fork first, then parent and child allocate each its own: the child 1 block, the parent --blocks
 *   fork-after   fork with memory held: all calls of the child fail with 3, as with the real driver
 *   orphan       as fork, but the parent kills itself --rounds ms after the child has printed, or with 0 waits to be killed;
 *                the child renames itself and waits
 *   crash        allocate, print, wait, die by --signal (9)
 *   ipc          the parent exports its first block, the child opens and closes it 100 times
 *   reset        allocate on two devices, reset the second, print
 *   query        on the second device, ask for the current device as fast as it goes for --rounds ms, then allocate from
 *                deeper down, print
 * Each ledger is one JSON line whose "label" is the mode, with -child or -again for the others.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gpu.h"

static uint64_t bytes = 1ull << 20, blocks = 4, signal_number = SIGKILL, rounds = 100;
static struct ledger books;
static CUdeviceptr first_block;
static const char *mode_name;

static void allocate(uint64_t n, int device)
{
	for (uint64_t i = 0; i < n; i++) {
		CUdeviceptr p = 0;

		if (cuMemAlloc_v2(&p, bytes))
			books.fail_count++;
		else
			ledger_alloc(&books, CLASS_DEVICE, bytes, device);
		if (!first_block)
			first_block = p;
	}
}

static int print(const char *suffix)
{
	char label[64];

	snprintf(label, sizeof(label), "%s%s", mode_name, suffix);
	return ledger_print(&books, label, NULL);
}

static int hold(char **argv)
{
	int r;

	(void)argv;
	gpu_open(&books);
	allocate(blocks, 0);
	r = print("");
	wait_line();
	return r;
}

static int churn(char **argv)
{
	CUdeviceptr p;

	(void)argv;
	gpu_open(&books);
	allocate(1, 0);
	for (uint64_t k = 0; k < rounds; k++) {
		for (uint64_t i = 0; i < blocks; i++) {
			MUST(cuMemAlloc_v2(&p, bytes));
			ledger_alloc(&books, CLASS_DEVICE, bytes, 0);
			MUST(cuMemFree_v2(p));
			ledger_free(&books, CLASS_DEVICE, bytes, 0);
		}
	}
	return print("");
}

static int exec_again(char **argv)
{
	int r;

	gpu_open(&books);
	if (getenv("WORK_EXECED")) {
		allocate(blocks, 0);
		r = print("-again");
		wait_line();
		return r;
	}
	allocate(1, 0);
	r = print("");
	wait_line();
	if (r)
		return r;
	setenv("WORK_EXECED", "1", 1);
	execv("/proc/self/exe", argv);
	die("execv: %s", strerror(errno));
}

static void *outlive(void *context)
{
	struct timespec pause = { .tv_nsec = 50000000 };
	int r;

	MUST(cuCtxSetCurrent(context));
	nanosleep(&pause, NULL); /* the leader is gone by now */
	for (uint64_t i = 0; i < blocks; i++) {
		allocate(1, 0);
		nanosleep(&pause, NULL);
	}
	r = print("");
	wait_line();
	exit(r);
}

static int leader_exit(char **argv)
{
	CUcontext context = gpu_open(&books);
	pthread_t thread;

	(void)argv;
	allocate(1, 0);
	if (pthread_create(&thread, NULL, outlive, context))
		die("pthread_create");
	pthread_exit(NULL);
}

static int join_child(pid_t child)
{
	int status;

	if (waitpid(child, &status, 0) != child)
		die("waitpid: %s", strerror(errno));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

/* The parent waits for the line; the child lives until then. */
static int fork_first(char **argv)
{
	int until[2], r;
	pid_t child;
	char c;

	(void)argv;
	if (pipe(until) || (child = fork()) < 0)
		die("fork: %s", strerror(errno));
	gpu_open(&books);
	if (!child) {
		close(until[1]);
		allocate(1, 0);
		r = print("-child");
		while (read(until[0], &c, 1) < 0 && errno == EINTR)
			;
		return r;
	}
	close(until[0]);
	allocate(blocks, 0);
	r = print("");
	wait_line();
	close(until[1]);
	return r | join_child(child);
}

static int fork_after(char **argv)
{
	CUdeviceptr p;
	pid_t child;
	int r;

	(void)argv;
	gpu_open(&books);
	allocate(blocks, 0);
	fflush(stdout);
	child = fork();
	if (child < 0)
		die("fork: %s", strerror(errno));
	if (!child) {
		r = cuMemAlloc_v2(&p, bytes);
		printf("{\"label\":\"fork-after-child\",\"pid\":%d,\"fail_count\":1,\"error\":%d}\n", (int)getpid(), r);
		_exit(r == CUDA_ERROR_NOT_INITIALIZED ? 0 : 3);
	}
	r = join_child(child) | print("");
	wait_line();
	return r;
}

static int orphan(char **argv)
{
	int ready[2], r;
	pid_t child;
	char c;

	(void)argv;
	if (pipe(ready) || (child = fork()) < 0)
		die("fork: %s", strerror(errno));
	if (child) { /* waits for the child's ledger, then dies without a word to it */
		if (read(ready[0], &c, 1) != 1)
			die("the child died first");
		if (!rounds)
			pause();
		usleep((useconds_t)rounds * 1000);
		raise(SIGKILL);
	}
	gpu_open(&books);
	allocate(blocks, 0);
	prctl(PR_SET_NAME, "kworker/0:1");
	r = print("-child");
	if (write(ready[1], "x", 1) != 1)
		die("write: %s", strerror(errno));
	wait_line();
	return r;
}

static int crash(char **argv)
{
	int r;

	(void)argv;
	gpu_open(&books);
	allocate(blocks, 0);
	r = print("");
	wait_line();
	if (!r)
		raise((int)signal_number);
	return 2;
}

/* The child opens what the parent owns: no memory of its own. */
static int ipc_child(int from, int until)
{
	CUipcMemHandle handle;
	CUdeviceptr p;
	char c;
	int r;

	if (read(from, &handle, sizeof(handle)) != sizeof(handle))
		die("no handle");
	gpu_open(&books);
	for (int i = 0; i < 100; i++) {
		MUST(cuIpcOpenMemHandle_v2(&p, handle, 1));
		ledger_alloc(&books, CLASS_IMPORTED, bytes, 0);
		MUST(cuIpcCloseMemHandle(p));
		ledger_free(&books, CLASS_IMPORTED, bytes, 0);
	}
	MUST(cuIpcOpenMemHandle_v2(&p, handle, 1)); /* and keeps it open */
	ledger_alloc(&books, CLASS_IMPORTED, bytes, 0);
	r = print("-child");
	while (read(until, &c, 1) < 0 && errno == EINTR)
		;
	return r;
}

static int ipc(char **argv)
{
	int to[2], until[2], r;
	CUipcMemHandle handle;
	pid_t child;

	(void)argv;
	if (pipe(to) || pipe(until) || (child = fork()) < 0)
		die("fork: %s", strerror(errno));
	if (!child) {
		close(until[1]);
		return ipc_child(to[0], until[0]);
	}
	close(until[0]);
	gpu_open(&books);
	allocate(blocks, 0);
	MUST(cuIpcGetMemHandle(&handle, first_block));
	if (write(to[1], &handle, sizeof(handle)) != sizeof(handle))
		die("write: %s", strerror(errno));
	r = print("");
	wait_line();
	close(until[1]);
	return r | join_child(child);
}

static int reset(char **argv)
{
	CUcontext second;
	int r;

	(void)argv;
	gpu_open(&books);
	if (books.device_count < 2)
		die("needs two devices");
	allocate(blocks, 0);
	MUST(cuDevicePrimaryCtxRetain(&second, 1));
	MUST(cuCtxSetCurrent(second));
	allocate(blocks, 1);
	r = print("-before");
	wait_line();
	MUST(cuDevicePrimaryCtxReset_v2(1));
	for (uint64_t i = 0; i < blocks; i++)
		ledger_sweep(&books, CLASS_DEVICE, bytes, 1);
	r |= print("");
	wait_line();
	return r;
}

static __attribute__((noinline)) void allocate_deep(uint64_t depth)
{
	char pad[256];

	/* Keeps the frame: each level takes room on the stack, as a framework's layers do. */
	__asm__ volatile("" : : "r"(pad) : "memory");
	if (depth)
		allocate_deep(depth - 1);
	else
		allocate(blocks, 1);
	__asm__ volatile("" ::: "memory");
}

static int query(char **argv)
{
	CUcontext second;
	CUdevice device;
	uint64_t end;
	int r;

	(void)argv;
	gpu_open(&books);
	MUST(cuDevicePrimaryCtxRetain(&second, 1));
	MUST(cuCtxSetCurrent(second));
	r = print("-before");
	end = monotonic_ns() + rounds * 1000000;
	while (monotonic_ns() < end)
		MUST(cuCtxGetDevice_v2(&device, NULL));
	allocate_deep(20);
	r |= print("");
	wait_line();
	return r;
}

static const struct {
	const char *name;
	int (*run)(char **argv);
} modes[] = {
	{ "hold", hold },
	{ "churn", churn },
	{ "exec", exec_again },
	{ "leader-exit", leader_exit },
	{ "fork", fork_first },
	{ "fork-after", fork_after },
	{ "orphan", orphan },
	{ "crash", crash },
	{ "ipc", ipc },
	{ "reset", reset },
	{ "query", query },
};

int main(int argc, char **argv)
{
	const struct option_spec specs[] = {
		{ "--bytes", OPTION_NUMBER, &bytes },
		{ "--blocks", OPTION_NUMBER, &blocks },
		{ "--signal", OPTION_NUMBER, &signal_number },
		{ "--rounds", OPTION_NUMBER, &rounds },
		{ 0 },
	};

	if (options_parse(argc, argv, specs) != 1)
		die("usage: work_lifecycle MODE [--bytes N] [--blocks N] ...");
	mode_name = argv[1];
	if (!getenv("WORK_EXECED"))
		common_start();
	else
		setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(modes[i].name, argv[1]))
			return modes[i].run(argv);
	die("no such mode: %s", argv[1]);
}
