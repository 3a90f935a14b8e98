/* SPDX-License-Identifier: MIT */
#include "record/caveat.h"

#include <inttypes.h>

#include "base/cleanup.h"
#include "rule/leak_confidence.h"

void caveat_add(const struct report *r, struct strbuf *sb)
{
	const char *between = "";

	for (unsigned i = 0; i < LEAK_DOUBT_MAX; i++) {
		if (!(r->doubts & (1u << i)))
			continue;
		strbuf_addf(sb, "%s%s", between, leak_doubt_text((enum leak_doubt)i));
		between = "; ";
	}
}

void caveat_add_line(const struct report *r, struct strbuf *sb)
{
	strbuf_addf(sb, "%u %% sure; what would make it wrong: ", report_percent(r->confidence));
	caveat_add(r, sb);
}

void caveat_add_sites(const struct report *r, struct strbuf *sb)
{
	for (size_t i = 0; i < r->sites_len; i++) {
		const struct frames *f = r->sites[i].stack ? stack_frames(r->sites[i].stack) : NULL;
		double share = r->growth_sites_bytes ? (double)r->sites[i].bytes / (double)r->growth_sites_bytes : 0;

		strbuf_addf(sb, "%s%.0f%% %" PRIu64 " ", i ? "\n" : "", share * 100, r->sites[i].bytes);
		if (f && f->id)
			strbuf_addf(sb, "%016" PRIx64, f->id);
		else
			strbuf_adds(sb, "-");
	}
}
