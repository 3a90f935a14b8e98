/* SPDX-License-Identifier: MIT */
/* Rule files. What loads must print as a file that loads as the same rules, and must be safe to match with. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rule/rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__lsan_default_suppressions(void);

/* libconfig forgets the string it is reading when the syntax is wrong; once for each reload of a bad file. */
const char *__lsan_default_suppressions(void)
{
	return "leak:libconfig.so\n";
}

static struct ruleset *parse(const char *text, struct errors *errors)
{
	struct ruleset *rs = NULL;
	int r;

	r = ruleset_parse("fuzz", text, errors, &rs);
	if (r == -EINVAL && errors->error_count == 0)
		abort(); /* refused without saying why */
	if (r == 0 && (!rs || errors->error_count > 0))
		abort();
	return rs;
}

static void check_print(const struct ruleset *rs)
{
	_cleanup_(ruleset_freep) struct ruleset *again = NULL;
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	_cleanup_free_ char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return;
	ruleset_print(rs, f);
	fclose(f);
	again = parse(text, &errors);
	if (!again || again->len != rs->len || strcmp(again->digest, rs->digest) != 0) {
		fputs(text, stderr);
		errors_print(&errors, stderr);
		abort();
	}
}

static void check_match(const struct ruleset *rs)
{
	_cleanup_(identity_unrefp) struct identity *id = identity_new();

	if (!id)
		return;
	id->comm = strdup("aaaaaaaaaaaaaa!");
	id->exe = strdup("/usr/bin/\xff\n");
	id->cmdline = calloc(1, 2001);
	if (id->cmdline)
		memset(id->cmdline, 'a', 2000);
	for (size_t i = 0; i < rs->len && i < 8; i++) {
		(void)rule_matches(rs->rules[i], id, "GPU-1", 0);
		(void)rule_matches(rs->rules[i], NULL, NULL, -1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(ruleset_freep) struct ruleset *rs = NULL;
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	_cleanup_free_ char *text = malloc(size + 1);

	if (!text || size > 65536)
		return 0;
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	rs = parse(text, &errors);
	if (!rs)
		return 0;
	check_print(rs);
	check_match(rs);
	return 0;
}
