/* SPDX-License-Identifier: MIT */
/*
 * The driver's two calls under the names of malloc's family, for a tracer that knows no others: posix_memalign() gives its
 * result through a pointer, as cuMemAlloc_v2() does. To be loaded with RTLD_LOCAL, so that nothing but the one who asks
 * for these functions gets them. The rest of the family is here because that tracer refuses a library without.
 */
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

int cuMemAlloc_v2(uint64_t *p, size_t n);
int cuMemFree_v2(uint64_t p);

int posix_memalign(void **p, size_t alignment, size_t n)
{
	uint64_t address = 0;
	int r = cuMemAlloc_v2(&address, n);

	*p = (void *)(uintptr_t)address; /* NOLINT: an address of the device, never followed */
	return r;
}

void free(void *p)
{
	(void)cuMemFree_v2((uintptr_t)p);
}

/* Never called. Each is other code, so that none shares an address with another. */
#define NONE(n)                                                                                                        \
	__asm__ volatile("" : : "i"(n));                                                                               \
	return NULL

void *malloc(size_t n)
{
	NONE(1);
}

void *calloc(size_t count, size_t n)
{
	NONE(2);
}

void *realloc(void *p, size_t n)
{
	NONE(3);
}

void *memalign(size_t alignment, size_t n)
{
	NONE(4);
}

void *valloc(size_t n)
{
	NONE(5);
}

void *pvalloc(size_t n)
{
	NONE(6);
}

void *aligned_alloc(size_t alignment, size_t n)
{
	NONE(7);
}

void *mmap(void *p, size_t n, int prot, int flags, int fd, off_t offset)
{
	NONE(8);
}

int munmap(void *p, size_t n)
{
	return -1;
}
