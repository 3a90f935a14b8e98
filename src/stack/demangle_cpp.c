/* SPDX-License-Identifier: MIT */
/*
 * The Itanium C++ ABI's names, one pass, no tree: text is printed as it is parsed, and a substitution is a copy of
 * text. Time is linear in the name and memory fixed. Demanglers that build trees and search them can be kept busy for
 * ever by a name of three hundred bytes, and what is in a symbol table is the traced program's choice.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "stack/demangle_cpp.h"

void cpp_fail(struct cpp *p)
{
	p->has_failed = true;
}

char cpp_peek(const struct cpp *p)
{
	return !p->has_failed && p->at < p->len ? p->name[p->at] : '\0';
}

char cpp_peek_next(const struct cpp *p)
{
	return !p->has_failed && p->at + 1 < p->len ? p->name[p->at + 1] : '\0';
}

bool cpp_eat(struct cpp *p, char c)
{
	if (cpp_peek(p) != c)
		return false;
	p->at++;
	return true;
}

bool cpp_eat_two(struct cpp *p, const char two[2])
{
	if (cpp_peek(p) != two[0] || cpp_peek_next(p) != two[1])
		return false;
	p->at += 2;
	return true;
}

void cpp_expect(struct cpp *p, char c)
{
	if (!cpp_eat(p, c))
		cpp_fail(p);
}

bool cpp_enter(struct cpp *p)
{
	if (p->has_failed || p->depth >= CPP_DEPTH_MAX) {
		cpp_fail(p);
		return false;
	}
	p->depth++;
	return true;
}

void cpp_leave(struct cpp *p)
{
	p->depth--;
}

void cpp_emit(struct cpp *p, const char *text, size_t len)
{
	len = MIN(len, sizeof(p->out) - p->out_len);
	memcpy(p->out + p->out_len, text, len);
	p->out_len += len;
}

void cpp_print(struct cpp *p, const char *text)
{
	cpp_emit(p, text, strlen(text));
}

void cpp_print_number(struct cpp *p, size_t n)
{
	char text[24];
	size_t at = sizeof(text);

	do
		text[--at] = (char)('0' + n % 10);
	while (n /= 10);
	cpp_emit(p, text + at, sizeof(text) - at);
}

void cpp_insert(struct cpp *p, size_t at, const char *text, size_t len)
{
	len = MIN(len, sizeof(p->out) - p->out_len);
	at = MIN(at, p->out_len);
	memmove(p->out + at + len, p->out + at, p->out_len - at);
	memcpy(p->out + at, text, len);
	p->out_len += len;
}

void cpp_rewind(struct cpp *p, size_t out_len)
{
	p->out_len = MIN(p->out_len, out_len);
}

size_t cpp_number(struct cpp *p)
{
	size_t n = 0;

	if (cpp_peek(p) < '0' || cpp_peek(p) > '9')
		cpp_fail(p);
	while (cpp_peek(p) >= '0' && cpp_peek(p) <= '9') {
		if (n > UINT32_MAX)
			cpp_fail(p);
		else
			n = n * 10 + (size_t)(p->name[p->at] - '0');
		p->at++;
	}
	return n;
}

size_t cpp_sequence(struct cpp *p, unsigned base)
{
	size_t n = 0;

	if (cpp_eat(p, '_'))
		return 0;
	for (;;) {
		const char c = cpp_peek(p);
		size_t digit = base;

		if (c >= '0' && c <= '9')
			digit = (size_t)(c - '0');
		else if (c >= 'A' && c <= 'Z')
			digit = (size_t)(c - 'A') + 10;
		if (digit >= base || n > UINT32_MAX) {
			cpp_fail(p);
			return 0;
		}
		n = n * base + digit;
		p->at++;
		if (cpp_eat(p, '_'))
			return n + 1;
	}
}

void cpp_add_sub(struct cpp *p, size_t start)
{
	struct cpp_sub *s;

	start = MIN(start, p->out_len);
	if (p->sub_count >= CPP_SUBS_MAX)
		cpp_fail(p);
	if (p->has_failed)
		return;
	s = &p->subs[p->sub_count++];
	s->start = (uint32_t)p->pool_len;
	s->len = (uint32_t)MIN(p->out_len - start, sizeof(p->pool) - p->pool_len);
	memcpy(p->pool + p->pool_len, p->out + start, s->len);
	p->pool_len += s->len;
	s->last = p->last >= start ? (uint32_t)(p->last - start) : 0;
	s->last_len = (uint32_t)p->last_len;
	s->at = p->place_at >= start ? (uint32_t)(p->place_at - start) : 0;
	s->place = p->place;
}

static void print_sub(struct cpp *p, size_t number)
{
	const struct cpp_sub *s = &p->subs[number];
	const size_t start = p->out_len;

	if (number >= p->sub_count) {
		cpp_fail(p);
		return;
	}
	cpp_emit(p, p->pool + s->start, s->len);
	p->last = start + s->last;
	p->last_len = s->last_len;
	p->place = s->place;
	p->place_at = start + s->at;
}

static void abi_tags(struct cpp *p)
{
	while (cpp_eat(p, 'B')) {
		const size_t last = p->last, last_len = p->last_len;

		cpp_print(p, "[abi:");
		cpp_source_name(p);
		cpp_print(p, "]");
		p->last = last;
		p->last_len = last_len;
	}
}

void cpp_source_name(struct cpp *p)
{
	static const char anonymous[] = "_GLOBAL__N";
	const size_t len = cpp_number(p);
	const char *text = p->name + p->at;

	if (p->has_failed || len == 0 || len > p->len - p->at) {
		cpp_fail(p);
		return;
	}
	p->at += len;
	p->last = p->out_len;
	if (len > sizeof(anonymous) - 1 && memcmp(text, anonymous, sizeof(anonymous) - 1) == 0)
		cpp_print(p, "(anonymous namespace)");
	else
		cpp_emit(p, text, len);
	p->last_len = p->out_len - p->last;
}

void cpp_substitution(struct cpp *p)
{
	static const struct {
		char code;
		const char *text;
	} known[] = {
		{ 't', "std" },		 { 'a', "std::allocator" }, { 'b', "std::basic_string" }, { 's', "std::string" },
		{ 'i', "std::istream" }, { 'o', "std::ostream" },   { 'd', "std::iostream" },
	};

	cpp_expect(p, 'S');
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (!cpp_eat(p, known[i].code))
			continue;
		p->last = p->out_len + (i == 0 ? 0 : 5);
		p->last_len = strlen(known[i].text) - (i == 0 ? 0 : 5);
		cpp_print(p, known[i].text);
		p->place = PLACE_END;
		abi_tags(p);
		return;
	}
	print_sub(p, cpp_sequence(p, 36));
}

void cpp_template_param(struct cpp *p)
{
	size_t n;

	cpp_expect(p, 'T');
	n = cpp_sequence(p, 10);
	if (p->in_lambda) {
		cpp_print(p, "auto:");
		cpp_print_number(p, n + 1);
	} else {
		cpp_print(p, "T");
		if (n)
			cpp_print_number(p, n - 1);
	}
	p->place = PLACE_END;
}

static void template_arg(struct cpp *p)
{
	const size_t start = p->out_len;

	switch (cpp_peek(p)) {
	case 'L':
		cpp_literal(p);
		break;
	case 'X':
		p->at++;
		if (cpp_eat_two(p, "ad") && cpp_peek(p) == 'L') { /* a function's address */
			cpp_print(p, "&");
			cpp_literal(p);
		} else {
			cpp_expression(p);
			cpp_rewind(p, start);
			cpp_print(p, "...");
		}
		cpp_expect(p, 'E');
		break;
	default:
		cpp_type(p);
	}
}

/* Up to E; a pack's members stand in the same list. */
static void template_arg_list(struct cpp *p, size_t list)
{
	if (!cpp_enter(p))
		return;
	while (!p->has_failed && !cpp_eat(p, 'E')) {
		if (cpp_eat(p, 'J') || cpp_eat(p, 'I')) {
			template_arg_list(p, list);
			continue;
		}
		if (p->out_len > list)
			cpp_print(p, ", ");
		template_arg(p);
	}
	cpp_leave(p);
}

void cpp_template_args(struct cpp *p)
{
	const size_t last = p->last, last_len = p->last_len;

	cpp_expect(p, 'I');
	if (p->out_len && p->out[p->out_len - 1] == '<')
		cpp_print(p, " "); /* operator< <int> */
	cpp_print(p, "<");
	template_arg_list(p, p->out_len);
	cpp_print(p, ">");
	p->last = last;
	p->last_len = last_len;
	p->place = PLACE_END;
}

void cpp_parameters(struct cpp *p)
{
	const size_t start = p->out_len;

	if (cpp_peek(p) == 'v' && cpp_peek_next(p) == 'E') {
		p->at += 2;
		return;
	}
	while (!p->has_failed && !cpp_eat(p, 'E')) {
		if ((cpp_peek(p) == 'R' || cpp_peek(p) == 'O') && cpp_peek_next(p) == 'E') {
			p->at++; /* the function's own & or && */
			continue;
		}
		if (p->out_len > start)
			cpp_print(p, ", ");
		cpp_type(p);
	}
}

static void lambda(struct cpp *p)
{
	const bool outer = p->in_lambda;

	cpp_print(p, "{lambda(");
	p->in_lambda = true;
	while (cpp_eat_two(p, "Ty"))
		; /* [] <typename T> */
	cpp_parameters(p);
	p->in_lambda = outer;
	cpp_print(p, ")#");
	cpp_print_number(p, cpp_sequence(p, 10) + 1);
	cpp_print(p, "}");
}

static void constructor(struct cpp *p)
{
	const bool is_destructor = cpp_peek(p) == 'D';
	const size_t last = p->last, start = p->out_len;

	p->at++;
	if (!is_destructor && cpp_eat(p, 'I')) { /* inherited: digit and the base's type */
		p->at++;
		cpp_type(p);
		cpp_rewind(p, start);
	} else if (cpp_peek(p) >= '0' && cpp_peek(p) <= '9') {
		p->at++;
	} else {
		cpp_fail(p);
	}
	if (is_destructor)
		cpp_print(p, "~");
	if (last <= p->out_len && p->last_len <= p->out_len - last)
		cpp_emit(p, p->out + last, p->last_len);
	p->last = last;
}

static void unqualified_name(struct cpp *p)
{
	const char c = cpp_peek(p);

	if (c == 'L') { /* internal linkage */
		p->at++;
		cpp_source_name(p);
	} else if (c >= '0' && c <= '9') {
		cpp_source_name(p);
	} else if (cpp_eat_two(p, "Ul")) {
		lambda(p);
	} else if (cpp_eat_two(p, "Ut")) {
		cpp_print(p, "{unnamed type#");
		cpp_print_number(p, cpp_sequence(p, 10) + 1);
		cpp_print(p, "}");
	} else if (c == 'C' || (c == 'D' && cpp_peek_next(p) >= '0' && cpp_peek_next(p) <= '9')) {
		constructor(p);
	} else if (c >= 'a' && c <= 'z') {
		cpp_operator_name(p);
	} else {
		cpp_fail(p);
	}
	abi_tags(p);
	p->place = PLACE_END;
}

/* N...E: each prefix but the whole becomes a substitution. */
static void nested_name(struct cpp *p)
{
	const size_t start = p->out_len;

	cpp_expect(p, 'N');
	while (cpp_peek(p) == 'r' || cpp_peek(p) == 'V' || cpp_peek(p) == 'K')
		p->at++;
	if (cpp_peek(p) == 'R' || cpp_peek(p) == 'O')
		p->at++;
	for (bool is_first = true; !p->has_failed && !cpp_eat(p, 'E'); is_first = false) {
		const char c = cpp_peek(p);
		bool is_old = false; /* a substitution already */

		if (c == 'I') {
			cpp_template_args(p);
		} else if (c == 'M') { /* of a member's initialiser: no name of its own */
			p->at++;
			is_old = true;
		} else {
			if (!is_first)
				cpp_print(p, "::");
			if (c == 'S') {
				cpp_substitution(p);
				is_old = true;
			} else if (c == 'T') {
				cpp_template_param(p);
			} else if (c == 'D' && (cpp_peek_next(p) == 't' || cpp_peek_next(p) == 'T')) {
				cpp_decltype(p);
			} else {
				unqualified_name(p);
			}
		}
		if (!is_old && cpp_peek(p) != 'E')
			cpp_add_sub(p, start);
	}
}

static void discriminator(struct cpp *p)
{
	if (cpp_peek(p) != '_')
		return;
	if (cpp_peek_next(p) == '_') {
		p->at += 2;
		(void)cpp_number(p);
		cpp_expect(p, '_');
	} else if (cpp_peek_next(p) >= '0' && cpp_peek_next(p) <= '9') {
		p->at += 2;
	}
}

/* Z function E name. */
static void local_name(struct cpp *p)
{
	cpp_expect(p, 'Z');
	cpp_encoding(p, true);
	cpp_expect(p, 'E');
	cpp_print(p, "::");
	if (cpp_eat(p, 's')) {
		cpp_print(p, "string literal");
	} else {
		if (cpp_eat(p, 'd')) { /* in a default argument */
			cpp_print(p, "{default arg#");
			cpp_print_number(p, cpp_sequence(p, 10) + 1);
			cpp_print(p, "}::");
		}
		cpp_name(p);
	}
	discriminator(p);
}

void cpp_name(struct cpp *p)
{
	const size_t start = p->out_len;

	if (!cpp_enter(p))
		return;
	switch (cpp_peek(p)) {
	case 'N':
		nested_name(p);
		break;
	case 'Z':
		local_name(p);
		break;
	case 'S':
		if (cpp_peek_next(p) == 't') {
			p->at += 2;
			cpp_print(p, "std::");
			unqualified_name(p);
			if (cpp_peek(p) == 'I')
				cpp_add_sub(p, start);
		} else {
			cpp_substitution(p);
		}
		break;
	default:
		unqualified_name(p);
		if (cpp_peek(p) == 'I')
			cpp_add_sub(p, start);
	}
	if (cpp_peek(p) == 'I')
		cpp_template_args(p);
	cpp_leave(p);
}

/* How far a thunk moves "this". */
static void call_offset(struct cpp *p)
{
	int numbers = cpp_peek(p) == 'h' ? 1 : 2;

	if (cpp_peek(p) != 'h' && cpp_peek(p) != 'v')
		cpp_fail(p);
	p->at++;
	while (numbers--) {
		(void)cpp_eat(p, 'n');
		(void)cpp_number(p);
		cpp_expect(p, '_');
	}
}

/* Thunks and thread-local wrappers are functions; tables, guards and the like are not. */
static void special_name(struct cpp *p)
{
	p->at++; /* T */
	switch (cpp_peek(p)) {
	case 'h':
	case 'v':
		cpp_print(p, cpp_peek(p) == 'h' ? "non-virtual thunk to " : "virtual thunk to ");
		call_offset(p);
		cpp_encoding(p, false);
		break;
	case 'c':
		cpp_print(p, "covariant return thunk to ");
		p->at++;
		call_offset(p);
		call_offset(p);
		cpp_encoding(p, false);
		break;
	case 'H':
	case 'W':
		cpp_print(p, cpp_peek(p) == 'H' ? "TLS init function for " : "TLS wrapper function for ");
		p->at++;
		cpp_name(p);
		break;
	default:
		cpp_fail(p);
	}
}

void cpp_encoding(struct cpp *p, bool is_nested)
{
	size_t end;

	if (!cpp_enter(p))
		return;
	if (cpp_peek(p) == 'T')
		special_name(p);
	else
		cpp_name(p);
	end = p->out_len;
	while (is_nested && !p->has_failed && cpp_peek(p) != 'E')
		cpp_type(p);
	cpp_rewind(p, end);
	cpp_leave(p);
}

bool demangle_cpp(struct strbuf *sb, const char *name, size_t max, bool *ret_is_cut)
{
	_cleanup_free_ struct cpp *p = NULL;

	if (strncmp(name, "_Z", 2) != 0)
		return false;
	p = malloc(sizeof(*p)); /* the buffers need no zeroing */
	if (!p)
		return false;
	memset(p, 0, offsetof(struct cpp, subs));
	p->name = name + 2;
	p->len = strlen(p->name);
	cpp_encoding(p, false);
	if (p->has_failed)
		return false;
	strbuf_add(sb, p->out, MIN(p->out_len, max));
	*ret_is_cut = p->out_len > max;
	return true;
}
