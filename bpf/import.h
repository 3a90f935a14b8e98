/* SPDX-License-Identifier: MIT */
/* Physical memory and where it is mapped or bound; memory given to other processes. */
#ifndef GPUXRAY_IMPORT_H
#define GPUXRAY_IMPORT_H

#include "object.h"
#include "size.h"

/* A reference to a handle less; its memory goes with the last one. 1: it was a multicast object to which memory is bound. */
static __noinline int handle_unref(__u32 pid, __u32 gen, __u64 handle, __u32 call)
{
	struct live_key key = { .gen = gen, .kind = ADDR_HANDLE, .addr = handle };
	struct live_value *v = bpf_map_lookup_elem(&live, &key), was;
	struct books *b;

	if (!v || __sync_fetch_and_add(&v->refs, -1) > 1)
		return 0;
	was = *v;
	b = bpf_map_lookup_elem(&processes, &pid);
	if (!b || b->gen != gen || !live_remove(&key))
		return 0;
	book_free(b, pid, &key, &was, call, 0);
	return !!(was.flags & LIVE_F_BINDINGS);
}

static __always_inline void handle_ref(struct books *b, __u64 handle)
{
	struct live_key key = { .gen = b->gen, .kind = ADDR_HANDLE, .addr = handle };
	struct live_value *v = bpf_map_lookup_elem(&live, &key);

	if (v)
		__sync_fetch_and_add(&v->refs, 1);
}

static __always_inline bool mapping_add(struct books *b, __u32 pid, const struct mapping_key *mk,
					const struct mapping_value *m, __u32 call)
{
	struct mapping_value *old;
	__u64 handle;

	if (b->mapping_count >= MAPPINGS_SHARE) {
		count(COUNTER_MAP_FULL);
		return false;
	}
	if (!bpf_map_update_elem(&mappings, mk, m, BPF_NOEXIST)) {
		__sync_fetch_and_add(&b->mapping_count, 1);
		return true;
	}
	/* One that is there already was unmapped without our seeing it. */
	old = bpf_map_lookup_elem(&mappings, mk);
	handle = old ? old->handle : 0;
	if (bpf_map_update_elem(&mappings, mk, m, BPF_EXIST)) {
		count(COUNTER_MAP_FULL);
		return false;
	}
	if (handle)
		handle_unref(pid, mk->gen, handle, call);
	return true;
}

struct unmap {
	__u64 addr, end;
	__u64 unbound; /* a multicast object that has gone with its last mapping */
	__u32 gen, pid, call, pad;
};

/* What was mapped before us is not known: mappings behind it are looked for by the smallest size there is. */
#define MAP_STEP (2ull << 20)

static long unmap_one(__u64 index, struct unmap *u)
{
	struct mapping_key mk = { .gen = u->gen, .kind = MAPPING_ADDRESS, .addr = u->addr };
	struct mapping_value *m = bpf_map_lookup_elem(&mappings, &mk);
	__u32 pid = u->pid;
	struct books *b;
	__u64 handle;

	if (u->addr >= u->end)
		return 1;
	if (!m || !m->size) {
		u->addr += MAP_STEP;
		return 0;
	}
	handle = m->handle;
	u->addr += m->size;
	if (bpf_map_delete_elem(&mappings, &mk))
		return 0;
	b = bpf_map_lookup_elem(&processes, &pid);
	if (b && b->gen == mk.gen)
		__sync_fetch_and_add(&b->mapping_count, -1);
	if (handle && handle_unref(pid, mk.gen, handle, u->call)) {
		u->unbound = handle;
		return 1;
	}
	return 0;
}

static __always_inline void map_return(struct books *b, __u32 pid, struct call_state *cs)
{
	struct mapping_key mk = { .gen = b->gen, .kind = MAPPING_ADDRESS, .addr = cs->arg[0] };
	struct mapping_value m = { .size = cs->arg[1], .handle = cs->arg[3] };
	struct live_key key = { .gen = b->gen, .kind = ADDR_HANDLE, .addr = cs->arg[3] };
	struct live_value *v = bpf_map_lookup_elem(&live, &key);

	if (!v) /* older than us: only its size, so that an unmap of a range steps over it */
		m.handle = 0;
	if (mapping_add(b, pid, &mk, &m, cs->call) && v)
		__sync_fetch_and_add(&v->refs, 1);
}

/* Each device has its memory at an offset. */
static __always_inline __u64 binding_name(__u64 multicast, __u64 offset, __s32 device)
{
	return multicast * 0x9e3779b97f4a7c15ull + offset + ((__u64)(__u32)device << 56);
}

static __always_inline void multicast_bind(struct books *b, __u32 pid, struct call_state *cs, const struct call_desc *d)
{
	struct mapping_key mk = { .gen = b->gen, .kind = MAPPING_MULTICAST };
	struct mapping_key at = { .gen = b->gen, .kind = MAPPING_ADDRESS, .addr = cs->arg[2] };
	struct live_key key = { .gen = b->gen, .kind = ADDR_HANDLE, .addr = cs->arg[0] };
	struct mapping_value m = { .size = cs->arg[0], .handle = cs->arg[2] }, *mapped;
	struct live_value *v = bpf_map_lookup_elem(&live, &key);

	if (d->kind == ADDR_POINTER) {
		mapped = bpf_map_lookup_elem(&mappings, &at);
		if (!mapped)
			return;
		m.handle = mapped->handle;
	}
	if (!v || !m.handle)
		return;
	v->flags |= LIVE_F_BINDINGS;
	key.addr = m.handle;
	v = bpf_map_lookup_elem(&live, &key);
	if (!v)
		return;
	mk.addr = binding_name(cs->arg[0], cs->arg[1], v->device);
	if (mapping_add(b, pid, &mk, &m, cs->call))
		__sync_fetch_and_add(&v->refs, 1);
}

static __always_inline void multicast_unbind(struct books *b, __u32 pid, struct call_state *cs)
{
	struct mapping_key mk = { .gen = b->gen, .kind = MAPPING_MULTICAST, .addr = binding_name(cs->arg[0], cs->arg[2], (__s32)cs->arg[1]) };
	struct mapping_value *m = bpf_map_lookup_elem(&mappings, &mk);
	__u64 handle = m ? m->handle : 0;

	if (!m || bpf_map_delete_elem(&mappings, &mk))
		return;
	__sync_fetch_and_add(&b->mapping_count, -1);
	handle_unref(pid, b->gen, handle, cs->call);
}

struct unbind {
	__u64 multicast;
	__u32 gen, pid, call, pad;
};

static long unbind_one(void *map, struct mapping_key *key, struct mapping_value *m, struct unbind *u)
{
	struct mapping_key mk = *key;
	struct mapping_value was = *m;
	__u32 pid = u->pid;
	struct books *b;

	if (mk.gen != u->gen || mk.kind != MAPPING_MULTICAST || was.size != u->multicast)
		return 0;
	b = bpf_map_lookup_elem(&processes, &pid);
	if (!b || b->gen != mk.gen || bpf_map_delete_elem(&mappings, &mk))
		return 0;
	__sync_fetch_and_add(&b->mapping_count, -1);
	handle_unref(pid, mk.gen, was.handle, u->call);
	return 0;
}

/* A multicast object has gone, and what was bound to it with it. Rare: walks the whole table. */
static __always_inline void unbind_all(struct books *b, __u32 pid, __u64 multicast, __u32 call)
{
	struct unbind u = { .multicast = multicast, .gen = b->gen, .pid = pid, .call = call };

	bpf_for_each_map_elem(&mappings, unbind_one, &u, 0);
}

/* Unmapping happens at entry (see take_block); a range may cover many mappings. */
static __always_inline void unmap_range(struct books *b, __u32 pid, __u64 addr, __u64 size, __u32 call)
{
	struct unmap u = { .addr = addr, .end = addr + size, .gen = b->gen, .pid = pid, .call = call };

	for (int i = 0; i < 4; i++) {
		u.unbound = 0;
		bpf_loop(65536, unmap_one, &u, 0);
		if (!u.unbound)
			break;
		unbind_all(b, pid, u.unbound, call);
	}
}

/* What others will need to know of a block that is being exported. */
static __always_inline void export_return(struct books *b, struct call_state *cs)
{
	struct live_key key = { .gen = b->gen, .kind = ADDR_POINTER, .addr = cs->arg[1] };
	struct live_value *v = bpf_map_lookup_elem(&live, &key);
	struct export_key k = {};
	struct export_value e = {};

	if (!v)
		return;
	e.bytes = v->bytes;
	e.device = v->device;
	if (bpf_probe_read_user(&k, sizeof(k), (void *)cs->arg[0])) {
		count(COUNTER_FAULT);
		return;
	}
	(void)bpf_map_update_elem(&exports, &k, &e, BPF_ANY);
}

/* Successful calls about handles and what they are given to. */
static __noinline int import_return(struct books *b, __u32 pid, struct call_state *cs, const struct call_desc *d)
{
	switch (d->op) {
	case CALL_MAP:
		map_return(b, pid, cs);
		break;
	case CALL_HANDLE_RETAIN:
		handle_ref(b, read_word(cs->arg[0]));
		break;
	case CALL_MULTICAST_BIND:
		multicast_bind(b, pid, cs, d);
		break;
	case CALL_EXPORT:
		export_return(b, cs);
		break;
	}
	return 0;
}

#endif
