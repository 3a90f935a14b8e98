/* SPDX-License-Identifier: MIT */
/* Parts of the C++ demangler: names in demangle_cpp.c, types in demangle_type.c, values in demangle_expr.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

#define CPP_OUT_MAX 16384  /* text under construction; what does not fit is dropped */
#define CPP_POOL_MAX 65536 /* text of the substitutions, likewise */
#define CPP_SUBS_MAX 1024
#define CPP_DEPTH_MAX 192

/* Where "*" and the like go in a type's text: behind it, or around the name that "int (int)" has no place for. */
enum cpp_place {
	PLACE_END,
	PLACE_BARE,  /* at this place, in parentheses of its own */
	PLACE_INSIDE, /* at this place */
};

/* Text that a later S_ may repeat. */
struct cpp_sub {
	uint32_t start, len;	  /* in the pool */
	uint32_t last, last_len;  /* its last plain name, from its start: what its constructor is called */
	uint32_t at;		  /* place, from its start */
	enum cpp_place place;
};

struct cpp {
	const char *name;
	size_t len, at;
	unsigned depth;
	bool has_failed;
	bool in_lambda; /* its T_ are its "auto" parameters */
	size_t out_len, pool_len, sub_count;
	size_t last, last_len; /* last plain name, in out */
	size_t place_at;       /* of the type just printed, in out */
	enum cpp_place place;
	struct cpp_sub subs[CPP_SUBS_MAX];
	char out[CPP_OUT_MAX];
	char pool[CPP_POOL_MAX];
};

/* Gives the name up; what was printed of it counts for nothing. */
void cpp_fail(struct cpp *p);
/* The end of the name reads as NUL, and so does all of it after a failure: every loop ends. */
char cpp_peek(const struct cpp *p);
char cpp_peek_next(const struct cpp *p);
bool cpp_eat(struct cpp *p, char c);
bool cpp_eat_two(struct cpp *p, const char two[2]);
void cpp_expect(struct cpp *p, char c);
bool cpp_enter(struct cpp *p);
void cpp_leave(struct cpp *p);

/* Prints; what goes beyond the room is cut. cpp_insert() moves what is behind `at` on. */
void cpp_emit(struct cpp *p, const char *text, size_t len);
void cpp_print(struct cpp *p, const char *text);
void cpp_print_number(struct cpp *p, size_t n);
void cpp_insert(struct cpp *p, size_t at, const char *text, size_t len);
/* Takes back what was printed since out_len was this. */
void cpp_rewind(struct cpp *p, size_t out_len);

/* Decimal digits; fails without one. */
size_t cpp_number(struct cpp *p);
/* "_" is 0, "0_" 1: base 36 or 10. */
size_t cpp_sequence(struct cpp *p, unsigned base);

/* What was printed from start on becomes the next S_. */
void cpp_add_sub(struct cpp *p, size_t start);
/* S_ S0_ St Sa ... */
void cpp_substitution(struct cpp *p);
void cpp_source_name(struct cpp *p);
void cpp_template_param(struct cpp *p);
void cpp_template_args(struct cpp *p);
/* Types up to E, between commas; "v" alone is none. */
void cpp_parameters(struct cpp *p);
void cpp_name(struct cpp *p);
/* A function's name. Its types are parsed only where something follows them, and not printed. */
void cpp_encoding(struct cpp *p, bool is_nested);

/* In demangle_type.c. */
void cpp_type(struct cpp *p);
void cpp_decltype(struct cpp *p);

/* In demangle_expr.c. "operator+", at an operator's code. */
void cpp_operator_name(struct cpp *p);
/* Parses and leaves nothing printed: the values that types depend on tell little in a stack. */
void cpp_expression(struct cpp *p);
/* L...E, printed. */
void cpp_literal(struct cpp *p);

/* Appends the readable form of "_Z...", at most max bytes; false, nothing appended, when it is none or no memory. */
bool demangle_cpp(struct strbuf *sb, const char *name, size_t max, bool *ret_is_cut);
