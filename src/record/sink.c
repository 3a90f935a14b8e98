/* SPDX-License-Identifier: MIT */
/* Which sink: the one asked for, or the next that there is. */
#include <string.h>

#include "base/log.h"
#include "record/sink.h"

#define JOURNAL_SOCKET "/run/systemd/journal/socket"

static const char *const names[] = {
	[SINK_AUTO] = "auto", [SINK_JOURNAL] = "journal", [SINK_SYSLOG] = "syslog",
	[SINK_JSON] = "json", [SINK_TEXT] = "text",
};

const char *sink_name(enum sink_kind k)
{
	return names[k];
}

int sink_from_name(const char *s, enum sink_kind *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(s, names[i]) == 0) {
			*ret = (enum sink_kind)i;
			return 0;
		}
	}
	return -EINVAL;
}

static int open_kind(enum sink_kind kind, const struct reporter_options *o, struct sink **ret)
{
	switch (kind) {
	case SINK_AUTO:
	case SINK_JOURNAL:
		return sink_journal_open(o->journal_socket ? o->journal_socket : JOURNAL_SOCKET, ret);
	case SINK_SYSLOG:
		return sink_syslog_open(o->syslog, ret);
	case SINK_JSON:
		return sink_json_open(o->out_fd, ret);
	case SINK_TEXT:
		return sink_text_open(o->out_fd, ret);
	}
	return -EINVAL;
}

int sink_open(const struct reporter_options *o, enum sink_kind before, struct sink **ret)
{
	static const enum sink_kind after[] = {
		[SINK_AUTO] = SINK_SYSLOG, [SINK_JOURNAL] = SINK_SYSLOG, [SINK_SYSLOG] = SINK_JSON,
	};
	enum sink_kind wanted = o->sink == SINK_AUTO ? SINK_JOURNAL : o->sink, kind = wanted;
	int err, first = 0;

	while ((err = open_kind(kind, o, ret)) < 0) {
		if (first == 0)
			first = err;
		if (kind >= SINK_JSON)
			return err;
		kind = after[kind];
	}
	if (kind != wanted && kind != before)
		log_warning("No %s here (%s): records go to %s. A reload looks again.", sink_name(wanted),
			    strerror(-first), kind == SINK_JSON ? "standard output as JSON lines" : sink_name(kind));
	else if (before != SINK_AUTO && kind != before)
		log_notice("Records go to %s again.", sink_name(kind));
	return 0;
}
