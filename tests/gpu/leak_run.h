/* SPDX-License-Identifier: MIT */
/*
 * leak_run.py for C: the wait for its turn, the pace of steps, and the marks of the truth. Usage of a program: NAME
 * tune|held, with $WORK.
 */
#pragma once

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RUN_NOMINAL_S 500.0
#define RUN_WAIT_S 240
#define RUN_MARK_S 5.0
#define RUN_FRAME __attribute__((noinline)) /* a frame of its own in stacks */
#define RUN_KEEP_FRAME() __asm__ volatile("" ::: "memory") /* what comes after a call prevents a tail call */
#define RUN_MIB ((size_t)1 << 20)

struct run {
	const char *work, *name;
	int held, started;
	double go, until, beat, told_s;
	uint64_t leaked, told, random;
	FILE *marks;
};

static double run_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void run_mark(struct run *r, const char *what, const char *class_, uint64_t value)
{
	fprintf(r->marks, "%.6f %s %s%s%llu\n", run_now(), what, class_, *class_ ? " " : "", (unsigned long long)value);
	fflush(r->marks);
}

static void run_sleep(double seconds)
{
	struct timespec t;

	if (seconds <= 0)
		return;
	t.tv_sec = (time_t)seconds;
	t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
	nanosleep(&t, NULL);
}

static void run_open(struct run *r, int argc, char **argv)
{
	char path[4096];

	memset(r, 0, sizeof(*r));
	if (argc < 3)
		exit(2);
	r->work = getenv("WORK") ? getenv("WORK") : "/tmp/gpuxray-gpu";
	r->name = argv[1];
	r->held = !strcmp(argv[2], "held");
	r->random = r->held ? 77777 : 12345;
	snprintf(path, sizeof(path), "%s/%s.marks", r->work, r->name);
	r->marks = fopen(path, "w");
	if (!r->marks) {
		perror(path);
		exit(2);
	}
}

/* Call it with the context made. Ends the program if its turn never comes. */
static void run_ready(struct run *r)
{
	char path[4096];
	double end = run_now() + RUN_WAIT_S;

	run_mark(r, "ready", "", 0);
	snprintf(path, sizeof(path), "%s/%s.go", r->work, r->name);
	for (;;) {
		FILE *f = fopen(path, "r");

		if (f && fscanf(f, "%lf", &r->until) == 1 && r->until > 0) {
			fclose(f);
			break;
		}
		if (f)
			fclose(f);
		if (run_now() > end) {
			fprintf(stderr, "its turn never came\n");
			exit(3);
		}
		run_sleep(0.1);
	}
	r->go = r->beat = run_now();
	run_mark(r, "go", "", 0);
}

/* False when its time is over. */
static int run_step(struct run *r, double period_s)
{
	double now;

	run_sleep(r->beat - run_now());
	now = run_now();
	r->beat = r->beat + period_s > now ? r->beat + period_s : now + 0.02;
	return now < r->until - 1.0;
}

/* Whether the fault shows by now, so many seconds into the nominal run. */
static int run_leaking(struct run *r, double after_s)
{
	double scale = (r->until - r->go) / RUN_NOMINAL_S;

	if (!r->started && run_now() >= r->go + after_s * (scale < 1.0 ? scale : 1.0)) {
		r->started = 1;
		run_mark(r, "start", "", 0);
	}
	return r->started;
}

/* So many bytes more are never needed again. */
static inline void run_lost(struct run *r, uint64_t bytes)
{
	double now = run_now(), scale = (r->until - r->go) / RUN_NOMINAL_S;

	r->leaked += bytes;
	if (r->leaked == r->told || now - r->told_s < RUN_MARK_S * (scale < 1.0 ? scale : 1.0))
		return;
	run_mark(r, "leaked", "", r->leaked);
	r->told = r->leaked;
	r->told_s = now;
}

static inline double run_unit(struct run *r)
{
	uint64_t z = r->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* Ends the program as a killed job would end: nothing is freed. */
static void run_end(struct run *r)
{
	if (r->leaked != r->told)
		run_mark(r, "leaked", "", r->leaked);
	run_mark(r, "end", "", 0);
	_exit(0);
}
