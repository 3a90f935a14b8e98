/* SPDX-License-Identifier: MIT */
/* Loading rules in tests: the set, or the errors as text. Include it from one file of a program. */
#pragma once

#include <errno.h>

#include "base/strbuf.h"
#include "rule/rule.h"
#include "test.h"

struct result {
	struct errors errors;
	struct ruleset *rs;
	char *text; /* of the errors */
	int r;
};

static void finish(struct result *res)
{
	size_t len;
	FILE *f = open_memstream(&res->text, &len);

	if (!f)
		abort();
	errors_print(&res->errors, f);
	fclose(f);
}

static _unused_ struct result parse(const char *text)
{
	struct result res = {};

	res.r = ruleset_parse("t.conf", text, &res.errors, &res.rs);
	finish(&res);
	return res;
}

static _unused_ struct result load(const char *root, char *const *paths, size_t len)
{
	struct result res = {};

	res.r = ruleset_load(root, paths, len, &res.errors, &res.rs);
	finish(&res);
	return res;
}

static void result_done(struct result *res)
{
	errors_done(&res->errors);
	ruleset_free(res->rs);
	free(res->text);
	*res = (struct result){};
}
