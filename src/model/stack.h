/* SPDX-License-Identifier: MIT */
/*
 * A stack: first as the probe took it, then, once, as frames. Shared by reference between threads; the frames are
 * immutable when they are there.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../bpf/stack_event.h"
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

enum frame_kind {
	FRAME_NATIVE,
	FRAME_PYTHON, /* stands for the native frame of its evaluation loop */
};

struct frame {
	uint8_t kind;	   /* enum frame_kind */
	bool is_allocator; /* within an allocator (settings: allocators): not looked at when sites are compared */
	/* native */
	bool is_exact;	/* pc is the instruction itself, not a return address: look others up with pc - 1 */
	bool is_signal; /* the kernel's frame around a signal handler */
	bool is_guessed; /* its caller was found by the frame pointer, for want of unwind rules */
	uint64_t pc;
	const struct mapping *mapping; /* that of pc (pc - 1 unless is_exact) in frames.space; NULL = in none */
	/* Python: UTF-8 but for bytes of file names that never were; hostile: escape them. NULL = could not be read. */
	const char *function, *file;
	uint32_t line; /* 0 = not known */
};

struct frames {
	atomic_uint more; /* references beside the first */
	size_t count;
	struct frame *list;	     /* innermost first */
	struct address_space *space; /* a reference; may be NULL */
	uint64_t site; /* what call sites are told apart by: like id, but with lines, and the same only within a process */
	uint64_t id;   /* GPUXRAY_STACK_ID: see stack/site_key.h */
	uint64_t exact; /* over every frame: equal for equal stacks of one process */
	char *info;    /* why it is cut, or what is missing in it; NULL = complete */
	char *strings; /* storage of function and file */
};

void frames_free(struct frames *f); /* gives up a reference; accepts NULL */
DEFINE_CLEANUP(struct frames, frames_free)

struct stack {
	atomic_uint refs;
	uint64_t key; /* its number, never used twice */
	uint32_t pid;
	uint64_t start_ns; /* of the process */
	uint64_t time_ns;
	uint64_t learned_ns; /* the resolver's: since when the probe knows it */
	struct event_stack *raw; /* what the probe took; the resolver's alone, NULL once there are frames */
	_Atomic(struct frames *) frames; /* see stack_frames() */
	atomic_bool is_done;
};

/* Copies ev, whose copy_bytes have been checked against its size. NULL when out of memory. */
struct stack *stack_new(const struct event_stack *ev);
/* A stack that needs no resolving; takes the frames. NULL when out of memory (the frames are freed). */
struct stack *stack_new_done(uint64_t key, uint32_t pid, struct frames *frames);
struct stack *stack_ref(struct stack *s);
void stack_unref(struct stack *s); /* accepts NULL */
DEFINE_CLEANUP(struct stack, stack_unref)

/* The resolver's answer, once: takes the frames, frees raw and wakes who waits. NULL: it could not be resolved. */
void stack_set_frames(struct stack *s, struct frames *frames);
/* Of another stack that is the same one; s has been resolved. A reference. */
struct frames *stack_frames_ref(const struct stack *s);
/* Borrowed from s. NULL while it is not resolved, or if it could not be. */
const struct frames *stack_frames(const struct stack *s);
bool stack_is_done(const struct stack *s);
/* Waits for the resolver until deadline_ns (monotonic). True if it is done. */
bool stack_wait(const struct stack *s, uint64_t deadline_ns);
