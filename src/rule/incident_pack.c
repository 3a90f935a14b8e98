/* SPDX-License-Identifier: MIT */
#include "rule/incident_pack.h"

#include <errno.h>
#include <stdlib.h>

static void pack_identity(struct strbuf *sb, struct identity *id)
{
	char **text;

	pack_u32(sb, id->ppid);
	pack_u64(sb, id->start_ticks);
	pack_u32(sb, id->uid);
	pack_u32(sb, id->inner_pid);
	for (size_t i = 0; (text = identity_text(id, i)); i++)
		pack_str(sb, *text);
}

static struct identity *unpack_identity(struct unpack *u, uint32_t pid, uint64_t start_ns)
{
	struct identity *id = identity_new();
	char **text;

	if (!id) {
		u->is_bad = true;
		return NULL;
	}
	id->pid = pid;
	id->start_ns = start_ns;
	id->ppid = unpack_u32(u);
	id->start_ticks = unpack_u64(u);
	id->uid = unpack_u32(u);
	id->inner_pid = unpack_u32(u);
	for (size_t i = 0; (text = identity_text(id, i)); i++)
		*text = unpack_str(u);
	return id;
}

void incident_pack(struct strbuf *sb, const struct incident_saved *s)
{
	pack_str(sb, s->rule);
	pack_u64(sb, s->meaning);
	pack_u32(sb, s->scope);
	pack_u32(sb, s->pid);
	pack_u64(sb, s->start_ns);
	pack_u64(sb, s->site);
	pack_str(sb, s->key);
	pack_bytes(sb, s->id, sizeof(s->id));
	pack_u32(sb, s->seq);
	pack_u64(sb, s->fired_ns);
	pack_u64(sb, s->said_ns);
	pack_u64(sb, s->peak_value);
	pack_u32(sb, s->kind);
	pack_u32(sb, s->severity);
	pack_u64(sb, s->value);
	pack_u64(sb, s->limit);
	pack_u32(sb, s->unit);
	pack_u8(sb, s->identity != NULL);
	if (s->identity)
		pack_identity(sb, s->identity);
}

int incident_unpack(struct unpack *u, struct incident_saved *ret)
{
	struct incident_saved s = { .rule = unpack_str(u) };

	s.meaning = unpack_u64(u);
	s.scope = unpack_u32(u);
	s.pid = unpack_u32(u);
	s.start_ns = unpack_u64(u);
	s.site = unpack_u64(u);
	s.key = unpack_str(u);
	unpack_bytes(u, s.id, sizeof(s.id));
	s.seq = unpack_u32(u);
	s.fired_ns = unpack_u64(u);
	s.said_ns = unpack_u64(u);
	s.peak_value = unpack_u64(u);
	s.kind = unpack_u32(u);
	s.severity = unpack_u32(u);
	s.value = unpack_u64(u);
	s.limit = unpack_u64(u);
	s.unit = unpack_u32(u);
	if (unpack_u8(u))
		s.identity = unpack_identity(u, s.pid, s.start_ns);
	*ret = s;
	return u->is_bad ? -EINVAL : 0;
}

void incident_saved_done(struct incident_saved *s)
{
	free((char *)s->rule);
	free((char *)s->key);
	identity_unref(s->identity);
	*s = (struct incident_saved){};
}
