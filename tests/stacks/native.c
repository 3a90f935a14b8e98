/* SPDX-License-Identifier: MIT */
/* native KEY CASE: ways for C to come to an allocation. Built without frame pointers. */
#include <alloca.h>
#include <printf.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "stack.h"

static void use(void *p, size_t len)
{
	memset(p, 1, len);
	__asm__ volatile("" : : "r"(p) : "memory");
}

static FRAME void chain_c(int n)
{
	char room[24];

	use(room, sizeof(room));
	stack_alloc();
	use(room, (size_t)n);
}

static FRAME void chain_b(int n)
{
	char room[200];

	use(room, sizeof(room));
	chain_c(n + 1);
	use(room, (size_t)n);
}

static FRAME void chain_a(int n)
{
	chain_b(n + 1);
	KEEP_FRAME();
}

static FRAME void other_caller(int n)
{
	chain_b(n + 1);
	KEEP_FRAME();
}

/* The second sits at another place of the same function. */
static FRAME void two_callers(int n)
{
	chain_a(n);
	other_caller(n);
	KEEP_FRAME();
}

static void on_signal(int number)
{
	chain_c(number);
	KEEP_FRAME();
}

static FRAME void interrupted(void)
{
	char room[40];

	use(room, sizeof(room));
	/* Not a call: what is interrupted is the instruction after. */
#if defined(__aarch64__)
	__asm__ volatile("mov x8, %0\n\tmov w0, %w1\n\tmov w1, %2\n\tsvc #0"
			 : : "i"(130 /* tkill */), "r"(gettid()), "i"(SIGUSR1) : "x0", "x1", "x8", "memory");
#else
	__asm__ volatile("mov %0, %%eax\n\tmov %1, %%edi\n\tmov %2, %%esi\n\tsyscall"
			 : : "i"(200 /* tkill */), "r"(gettid()), "i"(SIGUSR1) : "rax", "rdi", "rsi", "rcx", "r11", "memory");
#endif
	use(room, sizeof(room));
}

static void with_signal(int flags)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = flags };

	if (sigaction(SIGUSR1, &sa, NULL) < 0)
		exit(9);
	interrupted();
	KEEP_FRAME();
}

static FRAME void case_signal(void)
{
	with_signal(0);
	KEEP_FRAME();
}

/* The handler runs on a stack of its own. */
static FRAME void case_altstack(void)
{
	stack_t ss = { .ss_size = 1 << 18, .ss_sp = malloc(1 << 18) };

	if (!ss.ss_sp || sigaltstack(&ss, NULL) < 0)
		exit(9);
	with_signal(SA_ONSTACK);
	KEEP_FRAME();
}

static int compare(const void *a, const void *b)
{
	static int done;

	if (!done++)
		chain_c(1);
	return *(const int *)a - *(const int *)b;
}

static FRAME void case_qsort(void)
{
	int numbers[] = { 5, 2, 9, 1, 7, 3, 8, 4, 6, 0 };

	qsort(numbers, sizeof(numbers) / sizeof(numbers[0]), sizeof(numbers[0]), compare);
	KEEP_FRAME();
}

static void init_once(void)
{
	chain_c(1);
	KEEP_FRAME();
}

static FRAME void case_once(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, init_once);
	KEEP_FRAME();
}

static int print_it(FILE *f, const struct printf_info *info, const void *const *args)
{
	(void)info;
	(void)args;
	chain_c(1);
	return fputs("x", f) < 0 ? -1 : 1;
}

static int print_args(const struct printf_info *info, size_t n, int *types, int *size)
{
	(void)info;
	if (n > 0) {
		types[0] = PA_INT;
		size[0] = sizeof(int);
	}
	return 1;
}

static FRAME void case_printf(void)
{
	const char *format = "%Y and %d\n";
	char buf[64];

	register_printf_specifier('Y', print_it, print_args);
	snprintf(buf, sizeof(buf), format, 1, 2);
	KEEP_FRAME();
}

static ucontext_t back, coroutine;

static FRAME void in_coroutine(void)
{
	chain_c(1);
	KEEP_FRAME();
}

static void coroutine_main(void)
{
	in_coroutine();
	KEEP_FRAME();
}

static FRAME void case_coroutine(void)
{
	void *stack = mmap(NULL, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stack == MAP_FAILED || getcontext(&coroutine) < 0)
		exit(9);
	coroutine.uc_stack.ss_sp = stack;
	coroutine.uc_stack.ss_size = 1 << 18;
	coroutine.uc_link = &back;
	makecontext(&coroutine, coroutine_main, 0);
	swapcontext(&back, &coroutine);
	KEEP_FRAME();
}

static FRAME int down(int n)
{
	int r = 0;

	if (n == 1)
		chain_c(1);
	else
		r = down(n - 1);
	KEEP_FRAME();
	return r + n;
}

static FRAME void large_frame(void)
{
	char *room = alloca(100000);

	use(room, 100000);
	chain_c(1);
	use(room, 100000);
}

static FRAME void case_large(void)
{
	large_frame();
	KEEP_FRAME();
}

/* The size of the frame is known at run time alone: it is left by the frame pointer. */
static FRAME void variable_frame(size_t n)
{
	char *room = alloca(n);

	use(room, n);
	if (n > 200)
		variable_frame(n - 100);
	else
		chain_a(1);
	use(room, n);
}

static FRAME void case_variable(void)
{
	variable_frame(500);
	KEEP_FRAME();
}

static FRAME void in_thread(void)
{
	chain_b(1);
	KEEP_FRAME();
}

static void *thread_main(void *userdata)
{
	void (*fn)(void) = userdata;

	fn();
	KEEP_FRAME();
	return NULL;
}

static FRAME void run_thread(void (*fn)(void))
{
	pthread_t t;

	if (pthread_create(&t, NULL, thread_main, (void *)fn) || pthread_join(t, NULL))
		exit(9);
}

static FRAME void case_fork(void)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		stack_open();
		chain_b(1);
		stack_wait();
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		exit(9);
}

static FRAME void in_thread_fork(void)
{
	case_fork();
	KEEP_FRAME();
}

static FRAME int run(const char *name)
{
	static const struct {
		const char *name;
		void (*fn)(void);
	} simple[] = {
		{ "signal", case_signal }, { "altstack", case_altstack }, { "qsort", case_qsort }, { "once", case_once },
		{ "printf", case_printf }, { "coroutine", case_coroutine }, { "large", case_large },
		{ "variable", case_variable },
	};

	if (strcmp(name, "chain") == 0)
		chain_a(1);
	else if (strcmp(name, "callers") == 0)
		two_callers(1);
	else if (strcmp(name, "recursion") == 0)
		down(250);
	else if (strcmp(name, "thread") == 0)
		run_thread(in_thread);
	else if (strcmp(name, "fork") == 0)
		case_fork();
	else if (strcmp(name, "thread-fork") == 0)
		run_thread(in_thread_fork);
	else {
		for (size_t i = 0; i < sizeof(simple) / sizeof(simple[0]); i++)
			if (strcmp(name, simple[i].name) == 0) {
				simple[i].fn();
				return 0;
			}
		return 1;
	}
	return 0;
}

/* Options: "unlink" removes this program's file first; "exit" ends right after the call, "exit-late" too, but has run
 * for a while when it makes it. */
int main(int argc, char **argv)
{
	const char *option = argc > 3 ? argv[3] : "";

	if (argc < 3)
		return 2;
	stack_key = strtoull(argv[1], NULL, 10);
	if (strcmp(option, "unlink") == 0 && unlink(argv[0]) < 0)
		return 3;
	if (!strstr(argv[2], "fork")) /* the driver does not outlive a fork: the child opens it */
		stack_open();
	if (strcmp(option, "exit-late") == 0)
		usleep(1000000);
	if (run(argv[2]))
		return 2;
	if (strncmp(option, "exit", 4) == 0)
		_exit(0);
	stack_say("done");
	stack_wait();
	return 0;
}
