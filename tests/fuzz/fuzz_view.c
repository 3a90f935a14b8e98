/* SPDX-License-Identifier: MIT */
/* What a daemon answers, and what it is asked. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "view/view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was understood is the same when it is written and read again. */
static void answer(const char *text, size_t size)
{
	struct strbuf first = STRBUF_INIT, second = STRBUF_INIT, json = STRBUF_INIT;
	struct view *v = NULL, *again = NULL;

	if (view_decode(text, size, &v) == 0) {
		view_encode(v, &first);
		view_json(v, &json);
		if (view_decode(first.buf, first.len, &again) < 0)
			abort();
		view_encode(again, &second);
		if (strcmp(strbuf_str(&first), strbuf_str(&second)) != 0)
			abort();
	}
	view_free(v);
	view_free(again);
	strbuf_done(&first);
	strbuf_done(&second);
	strbuf_done(&json);
}

static void question(const char *text)
{
	struct strbuf line = STRBUF_INIT;
	uint32_t *pids = NULL, *more = NULL;
	struct view_query q, r;

	if (view_query_decode(text, &q, &pids) == 0) {
		view_query_encode(&q, &line);
		if (view_query_decode(strbuf_str(&line), &r, &more) < 0 || r.pids_len != q.pids_len || r.sites_max != q.sites_max ||
		    r.ends != q.ends || r.site_pids_len != q.site_pids_len)
			abort();
	}
	strbuf_done(&line);
	free(pids);
	free(more);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = malloc(size + 1);

	if (!copy)
		return 0;
	if (size)
		memcpy(copy, data, size);
	copy[size] = '\0';
	answer(copy, size);
	question(copy);
	free(copy);
	return 0;
}
