/* SPDX-License-Identifier: MIT */
/*
 * Secrets are cut out of any text, in bounded time: a secret that is well marked, in words of its own, is not in what is
 * left whatever stands before and behind it. The first byte picks which.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "record/record.h"

#define SECRET "Hx7dQ2mWv9LpZr4T"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const marked[] = {
	"--password=" SECRET,
	"--api-key=" SECRET,
	"--token " SECRET,
	"AWS_SECRET_ACCESS_KEY=" SECRET,
	"https://user:" SECRET "@host/path",
};

static struct redact *patterns(void)
{
	static struct redact *redact; /* compiled once: it is most of the time */
	struct errors e = ERRORS_INIT;

	if (!redact && redact_new(NULL, 0, &e, &redact) < 0)
		abort();
	errors_done(&e);
	return redact;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_strbuf_ struct strbuf in = STRBUF_INIT, out = STRBUF_INIT, line = STRBUF_INIT;
	const uint8_t *split;
	size_t before;

	if (size == 0)
		return 0;
	split = memchr(data + 1, 0, size - 1);
	before = split ? (size_t)(split - data - 1) : size - 1;
	strbuf_add(&in, data + 1, before);
	strbuf_addf(&in, "\n%s\n", marked[data[0] % ARRAY_SIZE(marked)]);
	if (split) {
		const size_t left = size - before - 2;

		strbuf_add(&in, split + 1, strnlen((const char *)split + 1, left));
	}
	if (in.error)
		abort();
	/* What stands unmarked in the input itself is no secret. */
	if (memmem(data, size, SECRET, strlen(SECRET)))
		return 0;
	redact_text(patterns(), strbuf_str(&in), &out);
	(void)redact_cmdline(patterns(), strbuf_str(&in), &line);
	if (out.error || line.error || strlen(strbuf_str(&out)) != out.len)
		abort();
	if (strstr(strbuf_str(&out), SECRET) || strstr(strbuf_str(&line), SECRET)) {
		fprintf(stderr, "in: %s\nout: %s\n", strbuf_str(&in), strbuf_str(&out));
		abort();
	}
	return 0;
}
