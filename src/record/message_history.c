/* SPDX-License-Identifier: MIT */
#include "record/message_history.h"

#include <inttypes.h>

void message_say_sample(struct line *l)
{
	const struct report *r = l->r;

	line_add_who(l);
	line_add(l, " holds");
	line_add_optional_bytes(l, " ", r->bytes);
	line_add_where(l);
	if (r->high_bytes != ABSENT_U64 && r->bytes != ABSENT_U64 && r->high_bytes > r->bytes)
		line_add_optional_bytes(l, ", had up to ", r->high_bytes);
	else if (r->low_bytes != ABSENT_U64 && r->bytes != ABSENT_U64 && r->low_bytes < r->bytes)
		line_add_optional_bytes(l, ", up from ", r->low_bytes);
	if (r->driver_bytes != ABSENT_U64 && r->driver_bytes != r->bytes)
		line_add_optional_bytes(l, " (driver ", r->driver_bytes), line_add(l, ")");
}

void message_say_process_exit(struct line *l)
{
	const struct report *r = l->r;

	line_add_who(l);
	line_add(l, " ended");
	line_add_optional_duration(l, " after ", r->duration_ns);
	line_add_optional_bytes(l, ", peak ", r->peak_bytes);
	line_add_where(l);
	if (r->live_bytes != ABSENT_U64 && r->live_bytes > 0)
		line_add_optional_bytes(l, ", holding ", r->live_bytes);
	if (r->fail_count != ABSENT_U64 && r->fail_count > 0)
		strbuf_addf(l->sb, ", %" PRIu64 " failed allocation%s", r->fail_count, r->fail_count == 1 ? "" : "s");
}

void message_say_site(struct line *l)
{
	line_add_who(l);
	line_add(l, " holds");
	line_add_optional_bytes(l, " ", l->r->stack_bytes);
	line_add(l, " from one call site");
}
