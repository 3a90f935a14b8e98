/* SPDX-License-Identifier: MIT */
/* A C++ function's name with the types of its parameters: what tells overloads apart. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "stack/demangle.h"
#include "stack/demangle_cpp.h"

static bool ends_with(const char *text, size_t len, const char *end)
{
	const size_t n = strlen(end);

	return len >= n && memcmp(text + len - n, end, n) == 0;
}

/* The encoding of a template's instance names its return type first; that of any other function leaves it out. */
static bool has_return_type(const struct cpp *p)
{
	static const char *const operators[] = { "operator>", "operator->", "operator>>", "operator<=>" };

	if (!ends_with(p->out, p->out_len, ">"))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(operators); i++) {
		if (ends_with(p->out, p->out_len, operators[i]))
			return false;
	}
	return true;
}

/* Of the function itself: "_ZNK...", "_ZNVK...". */
static bool is_const(const char *name)
{
	if (name[0] != 'N')
		return false;
	name++;
	name += *name == 'r';
	name += *name == 'V';
	return *name == 'K';
}

/* Up to the end of the name; "v" alone is none. */
static void parameters(struct cpp *p)
{
	size_t start;

	cpp_print(p, "(");
	start = p->out_len;
	if (cpp_peek(p) == 'v' && !cpp_peek_next(p))
		p->at++;
	while (!p->has_failed && cpp_peek(p)) {
		if (p->out_len > start)
			cpp_print(p, ", ");
		cpp_type(p);
	}
	cpp_print(p, ")");
}

bool demangle_signature(struct strbuf *sb, const char *name, size_t max)
{
	_cleanup_free_ struct cpp *p = NULL;
	const char *version = strchr(name, '@');
	size_t end;

	if (strncmp(name, "_Z", 2) != 0)
		return false;
	p = malloc(sizeof(*p)); /* the buffers need no zeroing */
	if (!p)
		return false;
	memset(p, 0, offsetof(struct cpp, subs));
	p->name = name + 2;
	p->len = version ? (size_t)(version - p->name) : strlen(p->name);
	cpp_encoding(p, false);
	if (p->has_failed || !cpp_peek(p)) /* no function: no parameters */
		return false;
	if (has_return_type(p)) {
		end = p->out_len;
		cpp_type(p);
		cpp_rewind(p, end);
	}
	parameters(p);
	if (is_const(p->name))
		cpp_print(p, " const");
	if (p->has_failed || p->at < p->len || p->out_len > max)
		return false;
	strbuf_add(sb, p->out, p->out_len);
	return true;
}
