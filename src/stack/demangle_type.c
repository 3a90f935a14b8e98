/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/cleanup.h"
#include "stack/demangle_cpp.h"

/* "*", "&" or a member pointer: behind the type, or where "void (int)" takes it. */
static void print_declarator(struct cpp *p, const char *text, size_t len)
{
	switch (p->place) {
	case PLACE_END:
		cpp_emit(p, text, len);
		break;
	case PLACE_BARE:
		cpp_insert(p, p->place_at, "()", 2);
		p->place_at++;
		p->place = PLACE_INSIDE;
		/* fall through */
	case PLACE_INSIDE:
		cpp_insert(p, p->place_at, text, len);
		p->place_at += len;
		break;
	}
}

static void function_type(struct cpp *p)
{
	size_t place;

	cpp_expect(p, 'F');
	(void)cpp_eat(p, 'Y'); /* extern "C" */
	cpp_type(p);
	cpp_print(p, " ");
	place = p->out_len;
	cpp_print(p, "(");
	cpp_parameters(p);
	cpp_print(p, ")");
	p->place_at = place;
	p->place = PLACE_BARE;
}

static void array_type(struct cpp *p)
{
	const char *bound;
	size_t len, place;

	cpp_expect(p, 'A');
	bound = p->name + p->at;
	if (cpp_peek(p) >= '0' && cpp_peek(p) <= '9') {
		(void)cpp_number(p);
	} else if (cpp_peek(p) != '_') {
		const size_t start = p->out_len;

		cpp_expression(p);
		cpp_rewind(p, start);
	}
	len = (size_t)(p->name + p->at - bound);
	cpp_expect(p, '_');
	cpp_type(p);
	if (p->place != PLACE_BARE || p->place_at > p->out_len) {
		cpp_print(p, " ");
		p->place_at = p->out_len;
	}
	place = p->place_at; /* of an array of arrays: before the inner bound */
	cpp_insert(p, place, "[]", 2);
	if (len && bound[0] >= '0' && bound[0] <= '9')
		cpp_insert(p, place + 1, bound, len);
	p->place = PLACE_BARE;
}

/* M class member: the class comes first in the name and last in the text. */
static void member_pointer(struct cpp *p)
{
	const size_t start = p->out_len;
	size_t len, aside;

	cpp_expect(p, 'M');
	cpp_type(p);
	cpp_print(p, "::*");
	/* It waits among the substitutions' text: the member's come behind it. */
	aside = p->pool_len;
	len = MIN(p->out_len - start, sizeof(p->pool) - aside);
	memcpy(p->pool + aside, p->out + start, len);
	p->pool_len += len;
	cpp_rewind(p, start);
	cpp_type(p);
	if (p->place == PLACE_END)
		cpp_print(p, " ");
	print_declarator(p, p->pool + aside, len);
}

/* r V K and what belongs to a function type; printed behind. */
static bool qualified_type(struct cpp *p)
{
	bool is_restrict = false, is_volatile = false, is_const = false, has_any = false;

	for (;;) {
		if (cpp_eat(p, 'r')) {
			is_restrict = true;
		} else if (cpp_eat(p, 'V')) {
			is_volatile = true;
		} else if (cpp_eat(p, 'K')) {
			is_const = true;
		} else if (cpp_eat_two(p, "DO")) { /* noexcept(...) */
			const size_t start = p->out_len;

			cpp_expression(p);
			cpp_expect(p, 'E');
			cpp_rewind(p, start);
		} else if (!cpp_eat_two(p, "Do") && !cpp_eat_two(p, "Dx")) {
			break;
		}
		has_any = true;
	}
	if (!has_any)
		return false;
	if (cpp_peek(p) == 'F')
		function_type(p);
	else
		cpp_type(p);
	for (int i = 0; i < 3; i++) {
		static const char *const words[] = { " const", " volatile", " restrict" };

		if (!(i == 0 ? is_const : i == 1 ? is_volatile : is_restrict))
			continue;
		if (p->place == PLACE_INSIDE)
			print_declarator(p, words[i], strlen(words[i]));
		else
			cpp_print(p, words[i]);
	}
	return true;
}

static const char *builtin_type(char c)
{
	static const char *const types[26] = {
		"signed char", "bool", "char", "double", "long double", "float", "__float128", "unsigned char", "int",
		"unsigned int", NULL, "long", "unsigned long", "__int128", "unsigned __int128", NULL, NULL, NULL, "short",
		"unsigned short", NULL, "void", "wchar_t", "long long", "unsigned long long", "...",
	};

	return c >= 'a' && c <= 'z' ? types[c - 'a'] : NULL;
}

void cpp_decltype(struct cpp *p)
{
	p->at += 2; /* Dt or DT */
	cpp_expression(p);
	cpp_expect(p, 'E');
	cpp_print(p, "decltype(...)");
	p->place = PLACE_END;
}

/* D. and D..: true when it may become a substitution. */
static bool extended_type(struct cpp *p)
{
	static const struct {
		char code;
		const char *text;
	} plain[] = {
		{ 'a', "auto" },     { 'c', "decltype(auto)" }, { 'd', "decimal64" }, { 'e', "decimal128" },
		{ 'f', "decimal32" }, { 'h', "_Float16" },	{ 'i', "char32_t" },  { 'n', "decltype(nullptr)" },
		{ 's', "char16_t" }, { 'u', "char8_t" },
	};
	const char code = cpp_peek_next(p);
	size_t n;

	p->place = PLACE_END;
	if (code == 't' || code == 'T') {
		cpp_decltype(p);
		return true;
	}
	p->at += 2;
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++) {
		if (code == plain[i].code) {
			cpp_print(p, plain[i].text);
			return false;
		}
	}
	switch (code) {
	case 'p': /* a pack whose members are not known here */
		cpp_type(p);
		print_declarator(p, "...", 3);
		return true;
	case 'F':
		n = cpp_number(p);
		cpp_print(p, cpp_peek(p) == 'b' ? "std::bfloat" : "_Float");
		cpp_print_number(p, n);
		if (cpp_eat(p, 'b'))
			cpp_print(p, "_t");
		else if (cpp_eat(p, 'x'))
			cpp_print(p, "x");
		else
			cpp_expect(p, '_');
		return false;
	case 'B':
	case 'U':
		cpp_print(p, code == 'B' ? "_BitInt(" : "unsigned _BitInt(");
		cpp_print_number(p, cpp_number(p));
		cpp_expect(p, '_');
		cpp_print(p, ")");
		return false;
	case 'v':
		n = cpp_number(p);
		cpp_expect(p, '_');
		cpp_type(p);
		cpp_print(p, " __vector(");
		cpp_print_number(p, n);
		cpp_print(p, ")");
		p->place = PLACE_END;
		return true;
	default:
		cpp_fail(p);
		return false;
	}
}

/* P R O C G U: a type in front of which something stands. */
static bool prefixed_type(struct cpp *p)
{
	static const struct {
		char code;
		const char *text;
	} marks[] = { { 'P', "*" }, { 'R', "&" }, { 'O', "&&" }, { 'C', " _Complex" }, { 'G', " _Imaginary" } };

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
		if (!cpp_eat(p, marks[i].code))
			continue;
		cpp_type(p);
		print_declarator(p, marks[i].text, strlen(marks[i].text));
		return true;
	}
	if (cpp_eat(p, 'U')) { /* a vendor's qualifier */
		const size_t start = p->out_len;

		cpp_source_name(p);
		if (cpp_peek(p) == 'I')
			cpp_template_args(p);
		cpp_rewind(p, start);
		cpp_type(p);
		return true;
	}
	return false;
}

static bool type_proper(struct cpp *p)
{
	const size_t start = p->out_len;
	const char c = cpp_peek(p);

	if (qualified_type(p) || prefixed_type(p))
		return true;
	p->place = PLACE_END;
	switch (c) {
	case 'F':
		function_type(p);
		return true;
	case 'A':
		array_type(p);
		return true;
	case 'M':
		member_pointer(p);
		return true;
	case 'D':
		return extended_type(p);
	case 'T':
		if (cpp_peek_next(p) == 's' || cpp_peek_next(p) == 'u' || cpp_peek_next(p) == 'e') {
			p->at += 2; /* struct, union, enum */
			cpp_name(p);
			return true;
		}
		cpp_template_param(p);
		if (cpp_peek(p) == 'I') {
			cpp_add_sub(p, start);
			cpp_template_args(p);
		}
		return true;
	case 'S':
		if (cpp_peek_next(p) != 't') {
			cpp_substitution(p);
			if (cpp_peek(p) != 'I')
				return false;
			cpp_template_args(p);
			return true;
		}
		cpp_name(p);
		return true;
	case 'u':
		p->at++;
		cpp_source_name(p);
		if (cpp_peek(p) == 'I')
			cpp_template_args(p);
		return true;
	default:
		if (builtin_type(c)) {
			p->at++;
			cpp_print(p, builtin_type(c));
			return false;
		}
		cpp_name(p);
		p->place = PLACE_END;
		return true;
	}
}

void cpp_type(struct cpp *p)
{
	const size_t start = p->out_len;

	if (!cpp_enter(p))
		return;
	if (type_proper(p))
		cpp_add_sub(p, start);
	cpp_leave(p);
}
