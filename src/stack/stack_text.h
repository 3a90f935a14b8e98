/* SPDX-License-Identifier: MIT */
/* The wording of frames and of what is missing. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "model/stack.h"
#include "stack/symbolizer.h"

#define FRAME_NAME_MAX 256   /* bytes of a function's name */
#define FRAME_FILE_MAX 256   /* ... of a source file's, */
#define FRAME_MODULE_MAX 128 /* ... and of a module's */

/* "function+0xoff (module)", from the name as the linker has it. */
void frame_symbol(struct strbuf *sb, const char *symbol, uint64_t offset, const struct mapping *m);
/* "module+0xoff". */
void frame_module(struct strbuf *sb, uint64_t offset, const struct mapping *m);
/* " at file.c:12". */
void frame_line(struct strbuf *sb, const char *file, uint32_t line);
/* An address in no file: m is NULL, or names no file. */
void frame_address(struct strbuf *sb, uint64_t ip, const struct mapping *m);
/* "function (file.py:12)"; NULL and line 0 are not known. */
void frame_python(struct strbuf *sb, const char *function, const char *file, uint32_t line);
/* The last part of the path, without " (deleted)". */
const char *mapping_module(const struct mapping *m, size_t *ret_len);
/* Room for len frames, all without text. */
int stack_text_new(size_t len, struct stack_text **ret);
/*
 * Sets info. stack may be NULL; f: its frames, or NULL if there are none, because it is not done yet or could not be.
 * reason: enum stack_reason of the event. is_gone: the process ended before a file of its could be opened.
 */
int stack_text_explain(struct stack_text *t, const struct stack *stack, bool is_done, const struct frames *f,
		       uint8_t reason, bool is_gone);
