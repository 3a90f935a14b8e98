/* SPDX-License-Identifier: MIT */
/*
 * The probed function, called through ctypes, and the truth about the C stack it was called on: where each evaluation
 * loop keeps its frame, by this process's own unwinder.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unwind.h>

#define EVALS_MAX 256

struct evals {
	uint64_t sp; /* at entry of the probed function */
	uint64_t low[EVALS_MAX], high[EVALS_MAX];
	int count, in_eval;
};

static _Thread_local struct evals evals;

static _Unwind_Reason_Code one_frame(struct _Unwind_Context *ctx, void *userdata)
{
	struct evals *e = userdata;
	uint64_t sp = _Unwind_GetCFA(ctx); /* of this frame, where it made its call */
	Dl_info info;

	if (e->in_eval && e->count < EVALS_MAX)
		e->high[e->count++] = sp - e->sp;
	e->in_eval = dladdr((void *)(_Unwind_GetIP(ctx) - 1), &info) && info.dli_sname &&
		     strcmp(info.dli_sname, "_PyEval_EvalFrameDefault") == 0;
	if (e->in_eval && e->count < EVALS_MAX)
		e->low[e->count] = sp - e->sp;
	return _URC_NO_REASON;
}

__attribute__((noinline)) int standin_alloc(uint64_t arg);
int standin_alloc(uint64_t arg)
{
	evals.sp = (uint64_t)__builtin_dwarf_cfa() - 8;
	evals.count = 0;
	evals.in_eval = 0;
	_Unwind_Backtrace(one_frame, &evals);
	return (int)arg;
}

/* Of this thread's last call: pairs of low and high, innermost first. */
int standin_evals(uint64_t *ret, int max);
int standin_evals(uint64_t *ret, int max)
{
	int n = evals.count < max ? evals.count : max;

	for (int i = 0; i < n; i++) {
		ret[2 * i] = evals.low[i];
		ret[2 * i + 1] = evals.high[i];
	}
	return n;
}

struct thread_args {
	uint64_t arg;
	void (*call)(void);
};

static void *thread_main(void *userdata)
{
	struct thread_args *a = userdata;

	standin_alloc(a->arg);
	a->call();
	standin_alloc(a->arg + 1);
	a->call();
	standin_alloc(a->arg + 2);
	return NULL;
}

/* A thread that Python did not make: three calls on its own, and two from call, for which Python gives it a thread
 * state each time. */
int standin_thread(uint64_t arg, void (*call)(void));
int standin_thread(uint64_t arg, void (*call)(void))
{
	struct thread_args a = { arg, call };
	pthread_t t;
	int r = pthread_create(&t, NULL, thread_main, &a);

	return r ? r : pthread_join(t, NULL);
}
