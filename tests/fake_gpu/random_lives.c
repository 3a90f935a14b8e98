/* SPDX-License-Identifier: MIT */
/*
 * Processes that come to be and end in every way there is: forked, forked and executed, the same by vfork, executed in
 * place with memory live, without their first thread, dead and not waited for, forked with the driver in use, with an
 * id that was another's.
 */
#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "random_ops.h"

#define LIVES_MAX 8
#define EXECED "RANDOM_EXECED"
#define CHILD_FAMILIES (~(1u << FAMILY_IPC | 1u << FAMILY_FORK | 1u << FAMILY_EXEC))

const char *lives_label;
uint64_t lives_done_fd;

static pid_t lives[LIVES_MAX];
static int lives_len, done[2] = { -1, -1 }, until[2] = { -1, -1 };

static void pipes_open(void)
{
	if (until[0] < 0 && (pipe(until) || pipe(done)))
		die("pipe: %s", strerror(errno));
}

/* In a child: its standard input ends when it may go. */
static void pipes_take(const char *label)
{
	dup2(until[0], STDIN_FILENO);
	close(until[0]);
	close(until[1]);
	close(done[0]);
	lives_done_fd = (uint64_t)done[1];
	lives_label = label;
	lives_len = 0;
}

int lives_fork(const char *label)
{
	pid_t pid;

	pipes_open();
	fflush(stdout);
	if (lives_len == LIVES_MAX || (pid = fork()) < 0)
		die("fork: %s", strerror(errno));
	if (!pid) {
		pipes_take(label);
		return 0;
	}
	lives[lives_len++] = pid;
	return pid;
}

static void *run_thread(void *unused)
{
	struct timespec pause = { .tv_nsec = 20000000 };

	(void)unused;
	nanosleep(&pause, NULL); /* the first thread is gone by now */
	exit(random_run());
}

/* Never returns. */
static void child_run(const char *label)
{
	pthread_t thread;

	total_ops /= 4;
	families &= CHILD_FAMILIES;
	for (const char *c = label; *c; c++)
		seed = seed * 31 + (uint64_t)*c;
	if (strcmp(label, "leader"))
		exit(random_run());
	if (pthread_create(&thread, NULL, run_thread, NULL))
		die("pthread_create");
	pthread_exit(NULL);
}

/* Between vfork() and exec nothing but system calls. */
static void child_exec(bool by_vfork)
{
	char text[4][48], only[256], *argv[10];
	int n = 0;
	pid_t pid;

	pipes_open();
	fflush(stdout);
	snprintf(text[0], sizeof(text[0]), "--seed=%llu", (unsigned long long)(seed * 131 + (by_vfork ? 7 : 3)));
	snprintf(text[1], sizeof(text[1]), "--ops=%llu", (unsigned long long)total_ops / 4);
	snprintf(text[2], sizeof(text[2]), "--threads=%llu", (unsigned long long)thread_count);
	snprintf(text[3], sizeof(text[3]), "--done-fd=%d", done[1]);
	snprintf(only, sizeof(only), "--mask=%u", families & CHILD_FAMILIES);
	argv[n++] = (char *)"work_random";
	for (int i = 0; i < 4; i++)
		argv[n++] = text[i];
	argv[n++] = only;
	argv[n++] = (char *)(by_vfork ? "--label=vfork" : "--label=exec");
	if (is_real)
		argv[n++] = (char *)"--real";
	argv[n] = NULL;
	pid = by_vfork ? vfork() : fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (!pid) {
		dup2(until[0], STDIN_FILENO);
		close(until[0]);
		close(until[1]);
		close(done[0]);
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	lives[lives_len++] = pid;
}

/* Dies at once, and is not waited for until the end. */
static void child_zombie(void)
{
	struct worker *w;

	families &= CHILD_FAMILIES;
	thread_count = 1;
	random_open();
	w = worker_new(5);
	context_begin(w, 0);
	random_some(w, 30);
	ledger_print(&books, "zombie", is_real ? LEDGER_ALONE : NULL);
	if (write((int)lives_done_fd, "", 1) != 1)
		die("the parent is gone");
	exit(0); /* the stand-in NVML takes a process that did not say goodbye for alive until it is waited for */
}

static void *exec_thread(void *argv)
{
	execv("/proc/self/exe", argv);
	die("execv: %s", strerror(errno));
}

/* Blocks of the first image must be in nobody's books afterwards. By any thread: the process keeps its id. */
static void exec_in_place(char **argv)
{
	struct worker *w;
	pthread_t thread;

	random_open();
	w = worker_new(9);
	context_begin(w, 0);
	random_some(w, 50);
	setenv(EXECED, "1", 1);
	fflush(stdout);
	if (seed & 1)
		exec_thread(argv);
	if (pthread_create(&thread, NULL, exec_thread, argv))
		die("pthread_create");
	pthread_join(thread, NULL);
}

void lives_start(char **argv)
{
	static const char *const forked[] = { "fork", "leader" };

	if (lives_label)
		return;
	if (has_family(FAMILY_EXEC) && !getenv(EXECED)) {
		uint64_t threads = thread_count;

		thread_count = 1;
		exec_in_place(argv);
		thread_count = threads;
	}
	peer_start();
	for (int i = 0; i < 2 && has_family(FAMILY_FORK); i++)
		if (!lives_fork(forked[i]))
			child_run(forked[i]);
	if (has_family(FAMILY_FORK) && !lives_fork("zombie"))
		child_zombie();
	if (has_family(FAMILY_EXEC)) {
		child_exec(false);
		child_exec(true);
	}
}

void lives_forked(void)
{
	struct ledger none = { .device_count = books.device_count, .fail_count = 3 };
	CUdeviceptr p;
	void *host;
	int r;

	if (lives_label || !has_family(FAMILY_FORK) || lives_fork("forked"))
		return;
	memcpy(none.uuid, books.uuid, sizeof(none.uuid));
	if (!cuMemAlloc_v2(&p, 4096) || !cuMemHostAlloc(&host, 4096, 0) || !cuMemAllocAsync(&p, 4096, NULL))
		die("a forked process can use its parent's driver");
	books = none;
	thread_count = 1;
	r = lives_end();
	fflush(stdout);
	_exit(r);
}

static int print(void)
{
	bool is_alone = is_real || (lives_label && !strcmp(lives_label, "forked"));
	struct ledger l = books;
	char label[32];

	l.is_merged = thread_count > 1;
	l.peak_bytes += books_peak_slack();
	snprintf(label, sizeof(label), "end%s%s", lives_label ? "-" : "", lives_label ? lives_label : "");
	return ledger_print(&l, label, is_alone ? LEDGER_ALONE : NULL);
}

static int join_all(void)
{
	int worst = 0, status;

	for (int i = 0; i < lives_len; i++) {
		if (waitpid(lives[i], &status, 0) != lives[i])
			die("waitpid: %s", strerror(errno));
		status = WIFEXITED(status) ? WEXITSTATUS(status) : 2;
		worst = status > worst ? status : worst;
	}
	return worst;
}

int lives_end(void)
{
	int r = 0, others;
	char c;

	if (lives_label) {
		r = print();
		if (write((int)lives_done_fd, "", 1) != 1)
			die("the parent is gone");
		wait_line();
		return r;
	}
	if (done[1] >= 0)
		close(done[1]);
	for (int i = 0; i < lives_len; i++)
		if (read(done[0], &c, 1) != 1)
			die("a child died before it printed");
	if (common.ledger)
		r = print();
	if (common.wait_end)
		wait_line();
	if (until[1] >= 0)
		close(until[1]);
	others = join_all();
	return others > r ? others : r;
}

void lives_as_pid(uint64_t pid, int argc, char **argv)
{
	pid_t want = (pid_t)pid;
	struct clone_args args = { .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&want, .set_tid_size = 1 };
	long got = syscall(SYS_clone3, &args, sizeof(args));
	int status;

	if (got < 0)
		die("clone3 with process id %d: %s", (int)want, strerror(errno));
	if (!got) {
		for (int i = 1; i < argc; i++)
			if (!strncmp(argv[i], "--as-pid", 8))
				argv[i] = (char *)"--as-pid=0";
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	if (waitpid((pid_t)got, &status, 0) < 0)
		die("waitpid: %s", strerror(errno));
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 2);
}
