/* SPDX-License-Identifier: MIT */
/* Pools of stream-ordered memory. */
#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "trace/skeleton.h"

int tracer_each_pool(struct tracer *t, int (*fn)(uint32_t gen, const struct tracer_pool *pool, void *userdata),
		     void *userdata)
{
	int fd = bpf_map__fd(t->skel->maps.objects);
	uint32_t max = bpf_map__max_entries(t->skel->maps.objects);
	struct object_key key, *previous = NULL;
	struct object_value v;

	/* The kernel starts anew when the key is gone meanwhile: not for ever. */
	for (uint32_t i = 0; i < 2 * max && bpf_map_get_next_key(fd, previous, &key) == 0; i++) {
		struct tracer_pool p = { .handle = key.handle };
		int r;

		previous = &key;
		if (key.kind != OBJECT_POOL || bpf_map_lookup_elem(fd, &key, &v) < 0 || v.ref)
			continue;
		p.device = v.device;
		p.class = v.class;
		p.used_bytes = v.pool.used;
		p.threshold_bytes = v.pool.threshold;
		p.reserved_bytes = v.pool.reserved;
		p.reserved_bytes_min = MAX(v.pool.used, MIN(v.pool.peak, v.pool.threshold));
		r = fn(key.gen, &p, userdata);
		if (r < 0)
			return r;
	}
	return 0;
}

int tracer_uuid(struct tracer *t, uint32_t gen, int32_t ordinal, struct uuid_value *ret)
{
	struct uuid_key key = { .gen = gen, .ordinal = ordinal };

	return bpf_map_lookup_elem(bpf_map__fd(t->skel->maps.uuids), &key, ret) < 0 ? -errno : 0;
}
