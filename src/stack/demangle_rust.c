/* SPDX-License-Identifier: MIT */
/*
 * The v0 scheme of RFC 2603. Written here because a name of two dozen bytes (a binder over 2^60 lifetimes, a chain of
 * back references) occupies other demanglers for ever, and what is in a symbol table is the traced program's choice.
 */
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "stack/demangle_rust.h"

#define DEPTH_MAX 128
#define STEPS_MAX 20000 /* paths, types and constants visited; a real name has a few hundred */

struct rust {
	const char *name; /* behind "_R" */
	size_t len, at;
	struct strbuf *out;
	size_t start, max;
	unsigned depth, steps;
	unsigned silent; /* > 0: parsed, but not printed */
	bool is_cut;
	bool has_failed;
};

struct identifier {
	const char *text;
	size_t len;
	bool is_punycode;
	uint64_t number; /* disambiguator */
};

static void print_path(struct rust *r, bool in_value);
static void print_type(struct rust *r);
static void print_const(struct rust *r);

static void fail(struct rust *r)
{
	r->has_failed = true;
}

/* Nothing more to do: failed, or all that may be shown is there. */
static bool is_over(const struct rust *r)
{
	return r->has_failed || r->is_cut;
}

static void print_bytes(struct rust *r, const char *text, size_t len)
{
	const size_t room = r->max - (r->out->len - r->start);

	if (r->silent || is_over(r))
		return;
	if (len > room)
		r->is_cut = true;
	strbuf_add(r->out, text, MIN(len, room));
	if (r->out->error)
		fail(r);
}

static void print(struct rust *r, const char *text)
{
	print_bytes(r, text, strlen(text));
}

static char peek(const struct rust *r)
{
	return r->at < r->len ? r->name[r->at] : '\0';
}

static char next(struct rust *r)
{
	if (r->at >= r->len) {
		fail(r);
		return '\0';
	}
	return r->name[r->at++];
}

static bool eat(struct rust *r, char c)
{
	if (r->at >= r->len || r->name[r->at] != c)
		return false;
	r->at++;
	return true;
}

static bool enter(struct rust *r)
{
	if (is_over(r))
		return false;
	if (r->depth >= DEPTH_MAX || r->steps >= STEPS_MAX) {
		fail(r);
		return false;
	}
	r->depth++;
	r->steps++;
	return true;
}

static void leave(struct rust *r)
{
	r->depth--;
}

/* "_" is 0, "0_" 1, "Z_" 62. */
static uint64_t base62(struct rust *r)
{
	uint64_t n = 0;

	if (eat(r, '_'))
		return 0;
	while (!eat(r, '_')) {
		const char c = next(r);
		unsigned digit;

		if (c >= '0' && c <= '9')
			digit = (unsigned)(c - '0');
		else if (c >= 'a' && c <= 'z')
			digit = (unsigned)(c - 'a') + 10;
		else if (c >= 'A' && c <= 'Z')
			digit = (unsigned)(c - 'A') + 36;
		else
			digit = 62;
		if (digit == 62 || __builtin_mul_overflow(n, 62, &n) || __builtin_add_overflow(n, digit, &n)) {
			fail(r);
			return 0;
		}
	}
	if (__builtin_add_overflow(n, 1, &n))
		fail(r);
	return n;
}

/* A number behind a tag; 0 without the tag. */
static uint64_t tagged(struct rust *r, char tag)
{
	uint64_t n;

	if (!eat(r, tag))
		return 0;
	if (__builtin_add_overflow(base62(r), 1, &n))
		fail(r);
	return n;
}

static struct identifier plain_identifier(struct rust *r)
{
	struct identifier id = { .is_punycode = eat(r, 'u') };
	size_t len = 0;
	char c = next(r);

	if (c < '0' || c > '9')
		fail(r);
	len = (size_t)(c - '0');
	while (c != '0' && peek(r) >= '0' && peek(r) <= '9' && len <= r->len)
		len = len * 10 + (size_t)(next(r) - '0');
	(void)eat(r, '_');
	if (r->has_failed || len > r->len - r->at) {
		fail(r);
		return (struct identifier){ .text = "" };
	}
	id.text = r->name + r->at;
	id.len = len;
	r->at += len;
	return id;
}

static struct identifier identifier(struct rust *r)
{
	const uint64_t number = tagged(r, 's');
	struct identifier id = plain_identifier(r);

	id.number = number;
	return id;
}

static void print_identifier(struct rust *r, const struct identifier *id)
{
	if (id->is_punycode)
		print(r, "punycode{");
	print_bytes(r, id->text, id->len);
	if (id->is_punycode)
		print(r, "}");
}

static void print_number(struct rust *r, uint64_t n)
{
	char text[24];
	size_t at = sizeof(text);

	do
		text[--at] = (char)('0' + n % 10);
	while (n /= 10);
	print_bytes(r, text + at, sizeof(text) - at);
}

/* Continues at an earlier place; true: the caller parses there and then calls leave_backref. */
static bool enter_backref(struct rust *r, size_t *ret_back)
{
	const size_t tag = r->at - 1;
	const uint64_t target = base62(r);

	if (r->has_failed || target >= tag) {
		fail(r);
		return false;
	}
	*ret_back = r->at;
	if (r->silent)
		return false; /* nothing to see there, and where this goes on is known */
	r->at = (size_t)target;
	return true;
}

static void skip_path(struct rust *r)
{
	r->silent++;
	print_path(r, false);
	r->silent--;
}

static void print_generic_arg(struct rust *r)
{
	if (eat(r, 'L')) {
		(void)base62(r);
		print(r, "'_");
	} else if (eat(r, 'K')) {
		print_const(r);
	} else {
		print_type(r);
	}
}

/* Arguments up to the closing E, between commas. Number of them. */
static unsigned print_list(struct rust *r, void (*one)(struct rust *r))
{
	unsigned n = 0;

	while (!is_over(r) && !eat(r, 'E')) {
		if (n++)
			print(r, ", ");
		one(r);
	}
	return n;
}

static void print_nested(struct rust *r, bool in_value)
{
	const char space = next(r);
	struct identifier id;

	print_path(r, in_value);
	id = identifier(r);
	if (space >= 'A' && space <= 'Z') { /* made by the compiler */
		print(r, "::{");
		if (space == 'C')
			print(r, "closure");
		else if (space == 'S')
			print(r, "shim");
		else
			print_bytes(r, &space, 1);
		if (id.len)
			print(r, ":");
		print_identifier(r, &id);
		print(r, "#");
		print_number(r, id.number);
		print(r, "}");
	} else if (space < 'a' || space > 'z') {
		fail(r);
	} else if (id.len) {
		print(r, "::");
		print_identifier(r, &id);
	}
}

static void print_qualified(struct rust *r, char tag)
{
	if (tag != 'Y') {
		(void)tagged(r, 's');
		skip_path(r); /* where the impl is written */
	}
	print(r, "<");
	print_type(r);
	if (tag != 'M') {
		print(r, " as ");
		print_path(r, false);
	}
	print(r, ">");
}

static void print_path(struct rust *r, bool in_value)
{
	struct identifier id;
	size_t back;
	char tag;

	if (!enter(r))
		return;
	tag = next(r);
	switch (tag) {
	case 'C':
		id = identifier(r);
		print_identifier(r, &id);
		break;
	case 'N':
		print_nested(r, in_value);
		break;
	case 'M':
	case 'X':
	case 'Y':
		print_qualified(r, tag);
		break;
	case 'I':
		print_path(r, in_value);
		print(r, in_value ? "::<" : "<");
		(void)print_list(r, print_generic_arg);
		print(r, ">");
		break;
	case 'B':
		if (enter_backref(r, &back)) {
			print_path(r, in_value);
			r->at = back;
		}
		break;
	default:
		fail(r);
	}
	leave(r);
}

static const char *basic_type(char tag)
{
	static const char *const types[26] = {
		['a' - 'a'] = "i8",  ['b' - 'a'] = "bool",  ['c' - 'a'] = "char", ['d' - 'a'] = "f64",
		['e' - 'a'] = "str", ['f' - 'a'] = "f32",   ['h' - 'a'] = "u8",	  ['i' - 'a'] = "isize",
		['j' - 'a'] = "usize", ['l' - 'a'] = "i32", ['m' - 'a'] = "u32",  ['n' - 'a'] = "i128",
		['o' - 'a'] = "u128", ['p' - 'a'] = "_",    ['s' - 'a'] = "i16",  ['t' - 'a'] = "u16",
		['u' - 'a'] = "()",  ['v' - 'a'] = "...",   ['x' - 'a'] = "i64",  ['y' - 'a'] = "u64",
		['z' - 'a'] = "!",
	};

	return tag >= 'a' && tag <= 'z' ? types[tag - 'a'] : NULL;
}

static void print_fn(struct rust *r)
{
	(void)tagged(r, 'G');
	if (eat(r, 'U'))
		print(r, "unsafe ");
	if (eat(r, 'K')) {
		print(r, "extern \"");
		if (eat(r, 'C')) {
			print(r, "C");
		} else {
			struct identifier abi = plain_identifier(r);

			print_identifier(r, &abi);
		}
		print(r, "\" ");
	}
	print(r, "fn(");
	(void)print_list(r, print_type);
	print(r, ")");
	if (eat(r, 'u'))
		return; /* returns () */
	print(r, " -> ");
	print_type(r);
}

/* The trait's associated types go within the brackets of its arguments. */
static void print_dyn_trait(struct rust *r)
{
	bool is_open = eat(r, 'I');

	print_path(r, false);
	if (is_open) {
		print(r, "<");
		(void)print_list(r, print_generic_arg);
	}
	while (!is_over(r) && eat(r, 'p')) {
		struct identifier name = plain_identifier(r);

		print(r, is_open ? ", " : "<");
		is_open = true;
		print_identifier(r, &name);
		print(r, " = ");
		print_type(r);
	}
	if (is_open)
		print(r, ">");
}

static void print_dyn(struct rust *r)
{
	unsigned n = 0;

	print(r, "dyn ");
	(void)tagged(r, 'G');
	while (!is_over(r) && !eat(r, 'E')) {
		if (n++)
			print(r, " + ");
		print_dyn_trait(r);
	}
	if (!eat(r, 'L'))
		fail(r);
	(void)base62(r);
}

static void print_reference(struct rust *r, const char *sigil)
{
	print(r, sigil);
	if (eat(r, 'L'))
		(void)base62(r);
	print_type(r);
}

static void print_type(struct rust *r)
{
	const char *basic;
	size_t back;
	char tag;

	if (!enter(r))
		return;
	tag = next(r);
	basic = basic_type(tag);
	switch (basic ? 0 : tag) {
	case 0:
		print(r, basic ? basic : "");
		break;
	case 'A':
	case 'S':
		print(r, "[");
		print_type(r);
		if (tag == 'A') {
			print(r, "; ");
			print_const(r);
		}
		print(r, "]");
		break;
	case 'T':
		print(r, "(");
		print(r, print_list(r, print_type) == 1 ? ",)" : ")");
		break;
	case 'R':
		print_reference(r, "&");
		break;
	case 'Q':
		print_reference(r, "&mut ");
		break;
	case 'P':
		print_reference(r, "*const ");
		break;
	case 'O':
		print_reference(r, "*mut ");
		break;
	case 'F':
		print_fn(r);
		break;
	case 'D':
		print_dyn(r);
		break;
	case 'B':
		if (enter_backref(r, &back)) {
			print_type(r);
			r->at = back;
		}
		break;
	default: /* a named type */
		r->at -= r->has_failed ? 0 : 1;
		print_path(r, false);
	}
	leave(r);
}

/* Hexadecimal digits up to '_', as written if they are many. */
static void print_hex(struct rust *r, bool is_bool, bool is_char)
{
	const size_t start = r->at;
	uint64_t value = 0;
	size_t len;

	while (!is_over(r) && !eat(r, '_')) {
		const char c = next(r);

		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
			fail(r);
		value = value << 4 | (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	if (r->has_failed)
		return;
	len = r->at - 1 - start;
	if (is_bool && value <= 1) {
		print(r, value ? "true" : "false");
	} else if (len > 16 || is_char) {
		print(r, "0x");
		print_bytes(r, r->name + start, len);
	} else {
		print_number(r, value);
	}
}

static void print_const(struct rust *r)
{
	size_t back;
	char tag;

	if (!enter(r))
		return;
	tag = next(r);
	if (tag == 'p') {
		print(r, "_");
	} else if (tag == 'B') {
		if (enter_backref(r, &back)) {
			print_const(r);
			r->at = back;
		}
	} else if (tag && strchr("ahilmnostxyjbc", tag)) {
		if (eat(r, 'n'))
			print(r, "-");
		print_hex(r, tag == 'b', tag == 'c');
	} else {
		fail(r); /* structured constants are not stable Rust */
	}
	leave(r);
}

bool demangle_rust(struct strbuf *sb, const char *name, size_t max, bool *ret_is_cut)
{
	struct rust r = { .out = sb, .start = sb->len, .max = max };

	if (strncmp(name, "_R", 2) != 0)
		return false;
	r.name = name + 2;
	r.len = strcspn(r.name, ".$"); /* what LLVM appends to clones */
	print_path(&r, true);
	if (!is_over(&r) && r.at < r.len)
		skip_path(&r); /* the crate that instantiated it */
	if (r.has_failed || (!r.is_cut && r.at != r.len)) {
		strbuf_truncate(sb, r.start);
		return false;
	}
	*ret_is_cut = r.is_cut;
	return true;
}
