/* SPDX-License-Identifier: MIT */
/* The vocabulary of ownership: what leaves scope is released, what is handed over is taken. */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _cleanup_free_ _cleanup_(freep)
#define _cleanup_close_ _cleanup_(closep)
#define _cleanup_fclose_ _cleanup_(fclosep)
#define _cleanup_closedir_ _cleanup_(closedirp)
#define _printf_(a, b) __attribute__((format(printf, a, b)))
#define _unused_ __attribute__((unused))
#define _noreturn_ __attribute__((noreturn))

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* Hands the pointer over and leaves NULL behind. */
#define TAKE_PTR(p)                                                                                                    \
	({                                                                                                             \
		__typeof__(p) taken_ = (p);                                                                            \
		(p) = NULL;                                                                                            \
		taken_;                                                                                                \
	})

#define TAKE_FD(fd)                                                                                                    \
	({                                                                                                             \
		int taken_ = (fd);                                                                                     \
		(fd) = -1;                                                                                             \
		taken_;                                                                                                \
	})

/* Makes xp() for _cleanup_(xp) out of x(struct foo *), which must accept NULL: DEFINE_CLEANUP(struct foo, x). */
#define DEFINE_CLEANUP(type, func)                                                                                     \
	static inline void func##p(type **p)                                                                           \
	{                                                                                                              \
		if (*p)                                                                                                \
			func(*p);                                                                                      \
		*p = NULL;                                                                                             \
	}

static inline void freep(void *p)
{
	free(*(void **)p);
}

static inline void closep(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
	errno = saved;
}

static inline void fclosep(FILE **f)
{
	if (*f)
		(void)fclose(*f);
	*f = NULL;
}

static inline void closedirp(DIR **d)
{
	if (*d)
		(void)closedir(*d);
	*d = NULL;
}
