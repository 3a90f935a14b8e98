/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/cleanup.h"
#include "stack/demangle_cpp.h"

static const struct operator {
	char code[3];
	char operands; /* in an expression; 0 = not as a plain operator */
	const char *text;
} operators[] = {
	{ "aN", 2, "&=" },	{ "aS", 2, "=" },     { "aa", 2, "&&" },     { "ad", 1, "&" },	    { "an", 2, "&" },
	{ "aw", 1, " co_await" }, { "cl", 0, "()" },  { "cm", 2, "," },	     { "co", 1, "~" },	    { "dV", 2, "/=" },
	{ "da", 1, " delete[]" }, { "de", 1, "*" },   { "dl", 1, " delete" }, { "ds", 2, ".*" },    { "dv", 2, "/" },
	{ "eO", 2, "^=" },	{ "eo", 2, "^" },     { "eq", 2, "==" },     { "ge", 2, ">=" },	    { "gt", 2, ">" },
	{ "ix", 2, "[]" },	{ "lS", 2, "<<=" },   { "le", 2, "<=" },     { "ls", 2, "<<" },	    { "lt", 2, "<" },
	{ "mI", 2, "-=" },	{ "mL", 2, "*=" },    { "mi", 2, "-" },	     { "ml", 2, "*" },	    { "mm", 1, "--" },
	{ "na", 0, " new[]" },	{ "ne", 2, "!=" },    { "ng", 1, "-" },	     { "nt", 1, "!" },	    { "nw", 0, " new" },
	{ "oR", 2, "|=" },	{ "oo", 2, "||" },    { "or", 2, "|" },	     { "pL", 2, "+=" },	    { "pl", 2, "+" },
	{ "pm", 2, "->*" },	{ "pp", 1, "++" },    { "ps", 1, "+" },	     { "pt", 0, "->" },	    { "qu", 3, "?" },
	{ "rM", 2, "%=" },	{ "rS", 2, ">>=" },   { "rm", 2, "%" },	     { "rs", 2, ">>" },	    { "ss", 2, "<=>" },
};

static const struct operator *find_operator(const struct cpp *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(operators); i++) {
		if (cpp_peek(p) == operators[i].code[0] && cpp_peek_next(p) == operators[i].code[1])
			return &operators[i];
	}
	return NULL;
}

void cpp_operator_name(struct cpp *p)
{
	const struct operator *op = find_operator(p);

	cpp_print(p, "operator");
	if (op) {
		p->at += 2;
		cpp_print(p, op->text);
	} else if (cpp_eat_two(p, "cv")) { /* to a type */
		cpp_print(p, " ");
		cpp_type(p);
	} else if (cpp_eat_two(p, "li")) {
		cpp_print(p, "\"\" ");
		cpp_source_name(p);
	} else {
		cpp_fail(p);
	}
}

/* Of these, n; or up to E when n is 0. */
static void expressions(struct cpp *p, unsigned n)
{
	if (n) {
		while (n--)
			cpp_expression(p);
	} else {
		while (!p->has_failed && !cpp_eat(p, 'E'))
			cpp_expression(p);
	}
}

/* A name that is looked up when the template is used. */
static void unresolved_name(struct cpp *p)
{
	if (cpp_eat_two(p, "on"))
		cpp_operator_name(p);
	else if (cpp_eat_two(p, "dn"))
		cpp_type(p);
	else
		cpp_source_name(p);
	if (cpp_peek(p) == 'I')
		cpp_template_args(p);
}

/* sr type name, sr N type level... E name, sr level... E name. */
static void scoped_name(struct cpp *p)
{
	if (cpp_eat(p, 'N')) {
		cpp_type(p);
		while (!p->has_failed && !cpp_eat(p, 'E'))
			unresolved_name(p);
	} else if (cpp_peek(p) >= '0' && cpp_peek(p) <= '9') {
		/* Either the levels up to E or, from older compilers, a class and its member. */
		unresolved_name(p);
		while (cpp_peek(p) >= '0' && cpp_peek(p) <= '9')
			unresolved_name(p);
		if (!cpp_eat(p, 'E'))
			return;
	} else {
		cpp_type(p);
	}
	unresolved_name(p);
}

static void function_parameter(struct cpp *p, bool has_level)
{
	if (has_level)
		(void)cpp_number(p);
	if (!has_level && cpp_eat(p, 'T'))
		return; /* this */
	if (has_level && !cpp_eat(p, 'p'))
		cpp_fail(p);
	while (cpp_peek(p) == 'r' || cpp_peek(p) == 'V' || cpp_peek(p) == 'K')
		p->at++;
	(void)cpp_sequence(p, 10);
}

static void new_expression(struct cpp *p)
{
	while (!p->has_failed && !cpp_eat(p, '_'))
		cpp_expression(p);
	cpp_type(p);
	if (cpp_eat(p, 'E'))
		return;
	if (!cpp_eat_two(p, "pi") && !cpp_eat_two(p, "il"))
		cpp_fail(p);
	expressions(p, 0);
}

static void conversion(struct cpp *p)
{
	cpp_type(p);
	if (cpp_eat(p, '_'))
		expressions(p, 0);
	else
		cpp_expression(p);
}

/* Two-letter forms that are no plain operators. False = none of them. */
static bool special_expression(struct cpp *p)
{
	static const char *const casts[] = { "dc", "sc", "cc", "rc" }, *const of_type[] = { "ti", "st", "at" },
				 *const of_value[] = { "te", "sz", "az", "nx", "sp", "tw" };

	for (size_t i = 0; i < ARRAY_SIZE(casts); i++) {
		if (cpp_eat_two(p, casts[i])) {
			cpp_type(p);
			cpp_expression(p);
			return true;
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(of_type); i++) {
		if (cpp_eat_two(p, of_type[i])) {
			cpp_type(p);
			return true;
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(of_value); i++) {
		if (cpp_eat_two(p, of_value[i])) {
			cpp_expression(p);
			return true;
		}
	}
	if (cpp_eat_two(p, "cl")) {
		expressions(p, 0);
	} else if (cpp_eat_two(p, "cv")) {
		conversion(p);
	} else if (cpp_eat_two(p, "tl")) {
		cpp_type(p);
		expressions(p, 0);
	} else if (cpp_eat_two(p, "il")) {
		expressions(p, 0);
	} else if (cpp_eat_two(p, "dt") || cpp_eat_two(p, "pt")) {
		cpp_expression(p);
		if (cpp_eat_two(p, "sr"))
			scoped_name(p);
		else
			unresolved_name(p);
	} else if (cpp_eat_two(p, "sr")) {
		scoped_name(p);
	} else if (cpp_eat_two(p, "nw") || cpp_eat_two(p, "na")) {
		new_expression(p);
	} else if (cpp_eat_two(p, "fp")) {
		function_parameter(p, false);
	} else if (cpp_eat_two(p, "sZ")) { /* sizeof...: of a parameter pack */
		if (cpp_peek(p) == 'T')
			cpp_type(p);
		else
			cpp_expression(p);
	} else if (cpp_eat_two(p, "sP")) {
		while (!p->has_failed && !cpp_eat(p, 'E'))
			cpp_type(p);
	} else if (!cpp_eat_two(p, "tr")) {
		return false;
	}
	return true;
}

/* f[lr] operator pack, f[LR] operator pack first. */
static bool fold_expression(struct cpp *p)
{
	const char how = cpp_peek_next(p);

	if (cpp_peek(p) != 'f' || !how || !strchr("lrLR", how))
		return false;
	if (how == 'L' && p->at + 2 < p->len && p->name[p->at + 2] >= '0' && p->name[p->at + 2] <= '9') {
		p->at += 2;
		function_parameter(p, true);
		return true;
	}
	p->at += 2;
	if (!find_operator(p)) {
		cpp_fail(p);
		return true;
	}
	p->at += 2;
	expressions(p, how == 'l' || how == 'r' ? 1 : 2);
	return true;
}

static void one_expression(struct cpp *p)
{
	const bool is_global = cpp_eat_two(p, "gs"); /* :: */
	const char c = cpp_peek(p);
	const struct operator *op;

	if (c == 'L') {
		cpp_literal(p);
	} else if (c == 'T') {
		cpp_type(p);
	} else if ((c >= '0' && c <= '9') || ((c == 'o' || c == 'd') && cpp_peek_next(p) == 'n')) {
		unresolved_name(p);
	} else if (!special_expression(p) && !fold_expression(p)) {
		op = find_operator(p);
		if (!op || !op->operands || (is_global && op->code[0] != 'd')) {
			cpp_fail(p);
			return;
		}
		p->at += 2;
		if (op->code[0] == op->code[1] && (op->code[0] == 'p' || op->code[0] == 'm'))
			(void)cpp_eat(p, '_'); /* ++x; without it, x++ */
		expressions(p, (unsigned)op->operands);
	}
}

void cpp_expression(struct cpp *p)
{
	const size_t start = p->out_len;

	if (!cpp_enter(p))
		return;
	one_expression(p);
	cpp_rewind(p, start);
	cpp_leave(p);
}

/* Behind L: a type and its digits. */
static void print_value(struct cpp *p, char type)
{
	static const struct {
		char type;
		const char *suffix;
	} suffixes[] = { { 'i', "" }, { 'j', "u" }, { 'l', "l" }, { 'm', "ul" }, { 'x', "ll" }, { 'y', "ull" } };
	const bool is_negative = cpp_eat(p, 'n');
	const char *text = p->name + p->at;
	size_t len = 0;

	while (cpp_peek(p) && cpp_peek(p) != 'E') {
		p->at++;
		len++;
	}
	if (type == 'b' && len == 1 && (text[0] == '0' || text[0] == '1')) {
		cpp_print(p, text[0] == '1' ? "true" : "false");
		return;
	}
	if (is_negative)
		cpp_print(p, "-");
	cpp_emit(p, text, len);
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		if (type == suffixes[i].type)
			cpp_print(p, suffixes[i].suffix);
	}
}

void cpp_literal(struct cpp *p)
{
	const size_t start = p->out_len;
	const char type = cpp_peek_next(p);

	p->at++; /* L */
	if (cpp_eat_two(p, "_Z") || (type == 'Z' && cpp_eat(p, 'Z'))) {
		cpp_encoding(p, true);
	} else {
		cpp_print(p, "(");
		cpp_type(p);
		cpp_print(p, ")");
		if (type && strchr("bijlmxy", type)) /* told by its suffix */
			cpp_rewind(p, start);
		print_value(p, type);
	}
	if (!cpp_eat(p, 'E'))
		cpp_fail(p);
}
