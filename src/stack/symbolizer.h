/* SPDX-License-Identifier: MIT */
/* Raw stacks to text. One thread owns a symbolizer. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "model/stack.h"

struct symbolizer;

struct symbolizer_limits {
	uint32_t objects;	/* files kept open */
	size_t cache_bytes;	/* names remembered */
	uint64_t max_symbols;	/* per file: a hostile file cannot keep us busy */
};
#define SYMBOLIZER_LIMITS_DEFAULT { .objects = 512, .cache_bytes = 4u << 20, .max_symbols = 8000000 }

struct stack_text {
	/*
	 * "function+0xoff (module)"; "module+0xoff" without a symbol, off being the address in the file as addr2line
	 * takes it, or the file offset when the file could not be read; "0xaddr" outside of any file; "[uprobes]" where a
	 * return probe hides the caller. Innermost first, escaped.
	 */
	char **frames;
	size_t len;
	char *id;	/* GPUXRAY_STACK_ID: 16 hex digits over build id + offset of each frame, or path basename + offset;
			   NULL = no frames */
	char *info;	/* GPUXRAY_STACK_INFO: why it is cut or empty; NULL = nothing to say */
};

/* proc_root: "/proc" in production. */
int symbolizer_new(const char *proc_root, const struct symbolizer_limits *limits, struct symbolizer **ret);
void symbolizer_free(struct symbolizer *s);
DEFINE_CLEANUP(struct symbolizer, symbolizer_free)

/* Opens each file that the stack's addresses lie in, through the process's own root, and reads its build id. Best
 * effort. */
void symbolizer_pin(struct symbolizer *s, const struct stack *stack);
/* 0 or -ENOMEM. stack may be NULL: then info says why, from reason (enum stack_reason). */
int symbolizer_resolve(struct symbolizer *s, const struct stack *stack, uint8_t reason, struct stack_text **ret);
/* Closes the files not used for idle_ns: an open file keeps its disk space and its mount busy. */
void symbolizer_trim(struct symbolizer *s, uint64_t idle_ns);
void stack_text_free(struct stack_text *t);
DEFINE_CLEANUP(struct stack_text, stack_text_free)
