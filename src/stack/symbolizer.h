/* SPDX-License-Identifier: MIT */
/* Frames to text. One thread owns a symbolizer. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "model/stack.h"
#include "stack/object.h"

struct symbolizer;

struct symbolizer_limits {
	size_t cache_bytes;	/* names remembered */
	uint64_t max_symbols;	/* per file: a hostile file cannot keep us busy */
};
#define SYMBOLIZER_LIMITS_DEFAULT { .cache_bytes = 4u << 20, .max_symbols = 8000000 }

struct text_frame {
	/*
	 * Python: "function (file.py:12)", the file as python_file_short() shows it; "?" for what could not be read.
	 * Native: "function+0xoff (module)", with " at file.c:12" behind it where there is debug information;
	 * "module+0xoff" without a symbol, off being the address in the file as addr2line takes it, or the file offset when
	 * the file could not be read; "0xaddr" outside of any file; "[uprobes]" where a return probe hides the caller.
	 * Escaped.
	 */
	char *text;
	bool is_python;
	bool is_allocator;
};

struct stack_text {
	struct text_frame *frames; /* innermost first */
	size_t len;
	char *id;	/* GPUXRAY_STACK_ID: 16 hex digits; NULL = no frames */
	char *info;	/* GPUXRAY_STACK_INFO: why it is cut or empty; NULL = nothing to say */
};

/* objects: shared with the resolver, which opened the files while the process lived; a reference is taken. */
int symbolizer_new(struct objects *objects, const struct symbolizer_limits *limits, struct symbolizer **ret);
void symbolizer_free(struct symbolizer *s);
DEFINE_CLEANUP(struct symbolizer, symbolizer_free)

/* 0 or -ENOMEM. stack may be NULL, or have no frames: then info says why, from reason (enum stack_reason). */
int symbolizer_resolve(struct symbolizer *s, const struct stack *stack, uint8_t reason, struct stack_text **ret);
void stack_text_free(struct stack_text *t);
DEFINE_CLEANUP(struct stack_text, stack_text_free)
