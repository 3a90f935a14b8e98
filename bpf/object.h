/* SPDX-License-Identifier: MIT */
/* The driver's own objects by handle: contexts, pools, streams, graphs. */
#ifndef GPUXRAY_OBJECT_H
#define GPUXRAY_OBJECT_H

#include "books.h"

static __always_inline struct object_value *object_find(struct books *b, __u32 kind, __u64 handle)
{
	struct object_key key = { .gen = b->gen, .kind = kind, .handle = handle };

	return bpf_map_lookup_elem(&objects, &key);
}

/* One more entry of this process, unless it has its share of them already. */
static __always_inline bool may_have_object(struct books *b)
{
	if (b->object_count >= OBJECTS_SHARE) {
		count(COUNTER_MAP_FULL);
		return false;
	}
	__sync_fetch_and_add(&b->object_count, 1);
	return true;
}

/* Adds the object if it is not there. Where it is, or had no room: the value that is there, or NULL. */
static __noinline struct object_value *object_add(struct books *b, const struct object_key *key,
						  const struct object_value *v)
{
	struct object_value *o;

	if (!b || !key || !v)
		return NULL;
	o = bpf_map_lookup_elem(&objects, key);
	if (o || !key->handle)
		return o;
	if (!may_have_object(b))
		return NULL;
	if (bpf_map_update_elem(&objects, key, v, BPF_NOEXIST)) {
		__sync_fetch_and_add(&b->object_count, -1);
		count(COUNTER_MAP_FULL);
	}
	return bpf_map_lookup_elem(&objects, key);
}

/* What is known of the handle from now on, whatever it was before. */
static __always_inline void object_set(struct books *b, __u32 kind, __u64 handle, __s32 device, __u64 ref)
{
	struct object_key key = { .gen = b->gen, .kind = kind, .handle = handle };
	struct object_value v = { .device = device, .ref = ref, .refs = 1 }, *o;

	v.born_ns = bpf_ktime_get_ns();
	o = object_add(b, &key, &v);
	if (!o)
		return;
	o->device = device;
	o->ref = ref;
	o->refs = 1;
	o->born_ns = v.born_ns;
}

static __always_inline void object_remove(struct books *b, __u32 kind, __u64 handle)
{
	struct object_key key = { .gen = b->gen, .kind = kind, .handle = handle };

	if (!bpf_map_delete_elem(&objects, &key))
		__sync_fetch_and_add(&b->object_count, -1);
}

static __always_inline __s32 object_device(struct books *b, __u32 kind, __u64 handle)
{
	struct object_value *o = object_find(b, kind, handle);

	return o ? o->device : EVENT_NO_DEVICE;
}

static __always_inline __u64 read_word(__u64 addr)
{
	__u64 value = 0;

	if (bpf_probe_read_user(&value, sizeof(value), (void *)addr))
		count(COUNTER_FAULT);
	return value;
}

/* CUmemLocation: type and id. Type 1 is a device, 2 to 4 are kinds of host memory. */
static __always_inline void asked_location(struct call_state *cs, __u32 type, __u32 id)
{
	if (type == 1)
		cs->asked_device = (__s32)id;
	else if (type >= 2 && type <= 4)
		cs->asked_class = CLASS_HOST;
}

/* What a call says of the device it is for, in a structure of the caller's. */
static __always_inline void read_asked(struct call_state *cs, const struct call_desc *d)
{
	__u64 addr = cs->arg[d->device_arg & (ARG_MAX - 1)];
	__u32 w[4] = {};

	cs->asked_device = EVENT_NO_DEVICE;
	cs->asked_class = CLASS_MAX;
	if (d->device_how == DEVICE_ARG) {
		cs->asked_device = (__s32)addr;
	} else if (d->device_how == DEVICE_LOCATION) {
		if (bpf_probe_read_user(w, 8, (void *)addr))
			count(COUNTER_FAULT);
		asked_location(cs, w[0], w[1]);
		if ((__u32)cs->arg[(d->device_arg + 1) & (ARG_MAX - 1)] == 2) /* the kind of memory: managed */
			cs->asked_class = CLASS_MANAGED;
	} else if (d->device_how == DEVICE_PROP) {
		/* CUmemAllocationProp and CUmemPoolProps begin alike: type, handle types, location. Type 2 is managed. */
		if (bpf_probe_read_user(w, sizeof(w), (void *)addr))
			count(COUNTER_FAULT);
		asked_location(cs, w[2], w[3]);
		if (w[0] == 2)
			cs->asked_class = CLASS_MANAGED;
	}
}

#endif
