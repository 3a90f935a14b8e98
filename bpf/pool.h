/* SPDX-License-Identifier: MIT */
/*
 * Pools of stream-ordered memory: what is used of each, and what bounds its reserve from below. The driver takes memory in
 * steps (32 MiB on an H200) and gives it back when a stream is synchronized, down to the release threshold, or when it is
 * told to: since it was last trimmed a pool has kept at least min(peak of use, threshold).
 */
#ifndef GPUXRAY_POOL_H
#define GPUXRAY_POOL_H

#include "object.h"

#define POOL_ATTR_THRESHOLD 4 /* CUmemPool_attribute, and hipMemPoolAttr alike */
#define POOL_ATTR_RESERVED 5

/* The default pool of a device, which many programs use without ever asking for its handle. Not a pointer. */
#define POOL_DEFAULT_OF(device) ((__u64)(__u32)(device) + 1)

static __noinline struct object_value *pool_add(struct books *b, __u64 handle, __s32 device)
{
	struct object_key key = { .kind = OBJECT_POOL, .handle = handle };
	struct object_value v = { .device = device, .class = CLASS_ASYNC, .pool.reserved = ~0ull };

	if (!b)
		return NULL;
	key.gen = b->gen;
	return object_add(b, &key, &v);
}

static __always_inline struct object_value *pool_get(struct books *b, __u64 handle, __s32 device)
{
	struct object_value *o = object_find(b, OBJECT_POOL, handle);

	return o ? o : pool_add(b, handle, device);
}

/* A pool that has another name for us is known by that. */
static __always_inline __u64 pool_name(struct books *b, __u64 handle)
{
	struct object_value *o = object_find(b, OBJECT_POOL, handle);

	return o && o->ref ? o->ref : handle;
}

static __always_inline __u64 pool_current(struct books *b, __s32 device)
{
	struct object_value *o = b->has_pools ? object_find(b, OBJECT_DEVICE_POOL, POOL_DEFAULT_OF(device)) : NULL;

	return o && o->ref ? o->ref : POOL_DEFAULT_OF(device);
}

/* The name of a device's default pool, which is there from now on. */
static __always_inline __u64 pool_default(struct books *b, __s32 device)
{
	(void)pool_get(b, POOL_DEFAULT_OF(device), device);
	return POOL_DEFAULT_OF(device);
}

/* Sets class, device and pool of a stream-ordered block that is being made. */
static __always_inline void pool_take(struct books *b, struct live_value *v, __u64 pool)
{
	struct object_value *o = pool_get(b, pool, v->device);
	__u64 used;

	v->ctx = o ? pool : 0;
	v->flags |= LIVE_F_POOLED;
	if (!o)
		return;
	if (o->device != EVENT_NO_DEVICE)
		v->device = o->device;
	if (o->class != CLASS_ASYNC) {
		v->class = o->class;
		v->device = o->device;
	}
	used = __sync_fetch_and_add(&o->pool.used, v->bytes) + v->bytes;
	if (used > o->pool.peak)
		o->pool.peak = used;
}

/* A block that is no longer one of its pool's, if it has one. Of a pool that was destroyed with blocks live the handle may
 * be another's by now: never below nothing. */
static __always_inline void pool_give(struct books *b, const struct live_value *v)
{
	struct object_value *o;

	if (!(v->flags & LIVE_F_POOLED) || !v->ctx)
		return;
	o = object_find(b, OBJECT_POOL, v->ctx);
	if (o && o->pool.used >= v->bytes)
		__sync_fetch_and_add(&o->pool.used, -v->bytes);
}

static __always_inline void pool_trim(struct object_value *o, __u64 keep)
{
	__u64 used = o->pool.used;

	if (o->pool.peak > keep)
		o->pool.peak = keep > used ? keep : used;
	o->pool.reserved = ~0ull;
}

/* At its entry: once the driver has it back, another pool may have its handle. */
static __always_inline void pool_destroy(struct books *b, __u64 handle)
{
	struct object_value *o = object_find(b, OBJECT_POOL, handle);

	if (o && o->device != EVENT_NO_DEVICE && pool_current(b, o->device) == handle)
		object_remove(b, OBJECT_DEVICE_POOL, POOL_DEFAULT_OF(o->device));
	object_remove(b, OBJECT_POOL, handle);
}

/* Successful calls about pools. */
static __noinline int pool_return(struct books *b, struct call_state *cs, const struct call_desc *d)
{
	__u64 handle = cs->arg[0], name;
	struct object_value *o;

	switch (d->op) {
	case CALL_POOL_CREATE:
		o = pool_get(b, read_word(handle), cs->asked_device);
		if (o && cs->asked_class != CLASS_MAX)
			o->class = cs->asked_class;
		break;
	case CALL_POOL_IMPORT:
		o = pool_get(b, read_word(handle), EVENT_NO_DEVICE);
		break;
	case CALL_POOL_DEFAULT:
	case CALL_POOL_GET:
		o = pool_get(b, read_word(handle), cs->asked_device);
		if (!o)
			break;
		if (cs->asked_class != CLASS_MAX)
			o->class = cs->asked_class;
		else if (!o->pool.peak && !o->ref && cs->asked_device != EVENT_NO_DEVICE &&
			 (d->op == CALL_POOL_DEFAULT || pool_current(b, cs->asked_device) == POOL_DEFAULT_OF(cs->asked_device)))
			o->ref = pool_default(b, cs->asked_device);
		break;
	case CALL_POOL_CURRENT:
		if (cs->asked_device == EVENT_NO_DEVICE || cs->asked_class != CLASS_MAX)
			break;
		b->has_pools = 1;
		object_set(b, OBJECT_DEVICE_POOL, POOL_DEFAULT_OF(cs->asked_device), cs->asked_device,
			   pool_name(b, cs->arg[d->addr_arg & (ARG_MAX - 1)]));
		break;
	default: /* of a pool that is there */
		name = pool_name(b, handle);
		o = pool_get(b, name, EVENT_NO_DEVICE);
		if (!o)
			break;
		if (d->op == CALL_POOL_TRIM)
			pool_trim(o, cs->arg[1]);
		else if (d->op == CALL_POOL_SET && (__u32)cs->arg[1] == POOL_ATTR_THRESHOLD)
			o->pool.threshold = read_word(cs->arg[2]);
		else if (d->op == CALL_POOL_ASK && (__u32)cs->arg[1] == POOL_ATTR_RESERVED)
			o->pool.reserved = read_word(cs->arg[2]);
		break;
	}
	return 0;
}

#endif
