/* SPDX-License-Identifier: MIT */
#include "record/fields_history.h"

#include <inttypes.h>
#include <string.h>

#include "record/foreign.h"

bool field_top_sites(const struct field_input *in, const struct field_desc *d, size_t max, struct strbuf *sb)
{
	const struct report *r = in->r;

	for (size_t i = 0; i < r->sites_len; i++) {
		const struct frames *f = r->sites[i].stack ? stack_frames(r->sites[i].stack) : NULL;

		strbuf_adds(sb, i ? "\n" : "");
		if (f && f->id)
			strbuf_addf(sb, "%016" PRIx64, f->id);
		else
			strbuf_adds(sb, "-");
		strbuf_addf(sb, " %" PRIu64 " %" PRIu64, r->sites[i].bytes, r->sites[i].blocks);
	}
	return r->sites_len > 0;
}

bool field_device_peaks(const struct field_input *in, const struct field_desc *d, size_t max, struct strbuf *sb)
{
	const char *line = in->r->device_peaks;

	for (size_t len, end; line && *line; line += line[len] ? len + 1 : len) {
		_cleanup_free_ char *one = NULL;

		len = strcspn(line, "\n");
		one = strndup(line, len);
		if (!one) {
			sb->error = -ENOMEM;
			return false;
		}
		end = sb->len;
		if (line != in->r->device_peaks)
			strbuf_addc(sb, '\n');
		foreign_text(sb, in->redact, one, 256);
		if (max && sb->len - end > max) {
			strbuf_truncate(sb, end);
			break;
		}
		max -= sb->len - end;
	}
	return in->r->device_peaks;
}
