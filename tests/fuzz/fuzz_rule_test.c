/* SPDX-License-Identifier: MIT */
/* Files of rule tests: whatever they say, they are refused with a reason, or played and judged. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "replay/rule_test.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__lsan_default_suppressions(void);

/* libconfig forgets the string it is reading when the syntax is wrong. */
const char *__lsan_default_suppressions(void)
{
	return "leak:libconfig.so\n";
}

static size_t count_lines(const char *text, const char *start)
{
	size_t n = 0;

	for (const char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		n += strncmp(p, start, strlen(start)) == 0;
	}
	return n;
}

static void check(const struct errors *errors, const struct rule_test_counts *counts, int r, const char *out)
{
	if (r != 0 && r != -EINVAL)
		abort();
	if ((r == -EINVAL) != (errors->error_count > 0))
		abort(); /* refused without saying why, or the other way round */
	if (r == 0 && counts->passed + counts->failed == 0)
		abort(); /* a test that cannot fail */
	if (count_lines(out, "ok ") != counts->passed || count_lines(out, "not ok ") != counts->failed)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = malloc(size + 1), *out = NULL;
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	struct rule_test_options o = { .max_events = 2000, .max_ticks = 20000 };
	struct rule_test_counts counts = { 0 };
	size_t len;
	int r;

	if (!text || size > 65536)
		return 0;
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	o.is_verbose = size % 2;
	o.out = open_memstream(&out, &len);
	if (!o.out)
		return 0;
	r = rule_test_run_text("fuzz", text, &o, &errors, &counts);
	fclose(o.out);
	if (r != -ENOMEM)
		check(&errors, &counts, r, out);
	return 0;
}
