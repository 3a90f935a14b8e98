/* SPDX-License-Identifier: MIT */
/* A raw stack and the address space it was taken in; immutable once built, shared by reference between threads. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

/* One executable mapping of a process. */
struct mapping {
	uint64_t start, end; /* addresses, end exclusive */
	uint64_t offset;     /* of start in the file */
	uint32_t dev_major, dev_minor;
	uint64_t inode;	     /* 0 = not a file */
	const char *path;    /* as the kernel shows it, " (deleted)" included; in the address_space's own memory */
};

/* The executable mappings of a process at one moment, ascending by address. */
struct address_space {
	atomic_uint refs;
	uint32_t pid;
	uint64_t start_ns;
	size_t count;
	struct mapping *mappings;
	char *strings; /* storage of the paths */
};

struct address_space *address_space_ref(struct address_space *as);
void address_space_unref(struct address_space *as); /* accepts NULL */
DEFINE_CLEANUP(struct address_space, address_space_unref)
/* The mapping that holds addr, or NULL. */
const struct mapping *address_space_find(const struct address_space *as, uint64_t addr);

struct stack {
	atomic_uint refs;
	uint64_t key;	/* the probe's hash; unique within a process */
	uint32_t pid;
	uint32_t count;
	uint8_t reason; /* enum stack_reason: why it is cut or empty */
	struct address_space *space; /* may be NULL: nothing was known of the process any more */
	uint64_t ip[];	/* innermost first; ip[0] is the entry of the probed function, the others are return addresses */
};

/* Copies ips, takes a reference to space (may be NULL). NULL when out of memory. */
struct stack *stack_new(uint64_t key, uint32_t pid, uint8_t reason, struct address_space *space, const uint64_t *ips,
			size_t count);
struct stack *stack_ref(struct stack *s);
void stack_unref(struct stack *s); /* accepts NULL */
DEFINE_CLEANUP(struct stack, stack_unref)
