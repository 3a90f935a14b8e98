/* SPDX-License-Identifier: MIT */
/* Pools of stream-ordered memory in the status, reserve and use apart. */
#include "base/text.h"
#include "cmd/daemon_internal.h"

/* Pools named in one status; of more, the rest is only counted. */
#define POOLS_MAX 4096

struct pools {
	struct map64 pids; /* by gen: pid + 1 as a pointer */
	struct strbuf *sb;
	size_t count;
	int error;
};

static int on_books(uint32_t pid, const struct books *b, void *userdata)
{
	struct pools *p = userdata;

	p->error = map64_put(&p->pids, b->gen, (void *)(uintptr_t)((uint64_t)pid + 1));
	return p->error;
}

static int on_pool(uint32_t gen, const struct tracer_pool *pool, void *userdata)
{
	struct pools *p = userdata;
	uint64_t pid = (uintptr_t)map64_get(&p->pids, gen);

	/* A pool that was only asked about says nothing. */
	if (!pid || (!pool->used_bytes && !pool->reserved_bytes_min && pool->reserved_bytes == UINT64_MAX))
		return 0;
	if (p->count++ >= POOLS_MAX)
		return 0;
	json_open(p->sb);
	json_u64(p->sb, "pid", pid - 1);
	json_known(p->sb, "ordinal", pool->device < 0 ? UINT64_MAX : (uint64_t)pool->device);
	json_str(p->sb, "class", pool->class == CLASS_HOST ? "host" : pool->class == CLASS_MANAGED ? "managed" : "async");
	json_bool(p->sb, "default", pool->handle < 4096);
	json_u64(p->sb, "used_bytes", pool->used_bytes);
	json_u64(p->sb, "reserved_bytes_min", pool->reserved_bytes_min);
	json_known(p->sb, "reserved_bytes_told", pool->reserved_bytes);
	json_known(p->sb, "release_threshold_bytes", pool->threshold_bytes);
	strbuf_addc(p->sb, '}');
	return 0;
}

void daemon_pools_json(struct daemon *d, struct strbuf *sb)
{
	struct pools p = { .pids = MAP64_INIT, .sb = sb };

	json_key(sb, "pools");
	strbuf_addc(sb, '[');
	if (tracer_each_books(d->tracer, on_books, &p) == 0)
		(void)tracer_each_pool(d->tracer, on_pool, &p);
	strbuf_addc(sb, ']');
	json_u64(sb, "pools_left_out", p.count > POOLS_MAX ? p.count - POOLS_MAX : 0);
	map64_done(&p.pids);
}
