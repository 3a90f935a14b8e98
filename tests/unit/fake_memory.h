/* SPDX-License-Identifier: MIT */
/* A process's memory in a test: pieces at addresses; everything else is not mapped. */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "stack/memory.h"

#define FAKE_BASE 0x7f0000000000ull
#define FAKE_BYTES 65536

struct fake_memory {
	struct memory memory; /* first */
	uint8_t bytes[FAKE_BYTES]; /* at FAKE_BASE */
	int read_error;	      /* of every read */
	int check_error;
	int reads;
	uint64_t flip_addr; /* after so many reads, the word there changes to this one */
	int flip_after;
	uint64_t flip_word;
};

static inline int fake_read(const struct memory *m, uint64_t addr, void *buf, size_t len)
{
	struct fake_memory *f = (struct fake_memory *)m;

	if (f->read_error)
		return f->read_error;
	if (f->reads++ == f->flip_after && f->flip_addr)
		memcpy(f->bytes + (f->flip_addr - FAKE_BASE), &f->flip_word, sizeof(f->flip_word));
	if (addr < FAKE_BASE || addr - FAKE_BASE > FAKE_BYTES || len > FAKE_BYTES - (addr - FAKE_BASE))
		return -EFAULT;
	memcpy(buf, f->bytes + (addr - FAKE_BASE), len);
	return 0;
}

static inline int fake_check(const struct memory *m)
{
	return ((const struct fake_memory *)m)->check_error;
}

static inline void fake_init(struct fake_memory *f)
{
	memset(f, 0, sizeof(*f));
	f->memory.read = fake_read;
	f->memory.check = fake_check;
}

static inline void fake_put(struct fake_memory *f, uint64_t addr, const void *data, size_t len)
{
	memcpy(f->bytes + (addr - FAKE_BASE), data, len);
}

static inline void fake_word(struct fake_memory *f, uint64_t addr, uint64_t v)
{
	fake_put(f, addr, &v, sizeof(v));
}

static inline void fake_half(struct fake_memory *f, uint64_t addr, uint32_t v)
{
	fake_put(f, addr, &v, sizeof(v));
}
