/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/units.h"
#include "view/view.h"

#define VERB "view"

static void encode_pids(const char *key, const uint32_t *pids, size_t len, struct strbuf *sb)
{
	if (len)
		strbuf_addf(sb, " %s=", key);
	for (size_t i = 0; i < len; i++)
		strbuf_addf(sb, "%s%" PRIu32, i ? "," : "", pids[i]);
}

void view_query_encode(const struct view_query *q, struct strbuf *sb)
{
	strbuf_adds(sb, VERB);
	encode_pids("pids", q->pids, q->pids_len, sb);
	encode_pids("site_pids", q->site_pids, q->site_pids_len, sb);
	if (q->sites_max)
		strbuf_addf(sb, " sites=%" PRIu32, q->sites_max);
	if (q->ends)
		strbuf_adds(sb, " ends=1");
}

bool view_pids_have(const uint32_t *pids, size_t len, uint32_t pid)
{
	for (size_t i = 0; i < len; i++)
		if (pids[i] == pid)
			return true;
	return len == 0;
}

static int decode_pids(char *s, uint32_t *list, size_t *ret_len)
{
	*ret_len = 0;
	while (s) {
		if (*ret_len == VIEW_PIDS_MAX)
			return -E2BIG;
		if (parse_u32(strsep(&s, ","), &list[*ret_len]) < 0)
			return -EINVAL;
		(*ret_len)++;
	}
	return 0;
}

static int decode_pair(char *pair, struct view_query *q, uint32_t *pids)
{
	char *key = strsep(&pair, "=");
	uint32_t n;
	int r;

	if (!pair)
		return -EINVAL;
	if (!strcmp(key, "pids")) {
		q->pids = pids;
		return decode_pids(pair, pids, &q->pids_len);
	}
	if (!strcmp(key, "site_pids")) {
		q->site_pids = pids + VIEW_PIDS_MAX;
		return decode_pids(pair, pids + VIEW_PIDS_MAX, &q->site_pids_len);
	}
	r = parse_u32(pair, &n);
	if (r == 0 && !strcmp(key, "sites"))
		q->sites_max = n;
	else if (r == 0 && !strcmp(key, "ends"))
		q->ends = n;
	return r; /* other keys are of a later version */
}

int view_query_decode(const char *line, struct view_query *ret, uint32_t **ret_pids)
{
	_cleanup_free_ uint32_t *pids = calloc(2 * VIEW_PIDS_MAX, sizeof(*pids));
	_cleanup_free_ char *copy = strdup(line);
	char *rest = copy;
	int r = 0;

	if (!pids || !copy)
		return -ENOMEM;
	if (strcmp(strsep(&rest, " "), VERB) != 0)
		return -EINVAL;
	*ret = (struct view_query){ 0 };
	while (r == 0 && rest)
		r = decode_pair(strsep(&rest, " "), ret, pids);
	if (r < 0)
		return r;
	*ret_pids = TAKE_PTR(pids);
	return 0;
}
