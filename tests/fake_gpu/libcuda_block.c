/* SPDX-License-Identifier: MIT */
/*
 * Live blocks, in shards so that threads do not meet: a thread allocates from its own shard, and an address tells whose it
 * is. No memory stands behind an address. A freed one is the next to be handed out, as a real driver does it, so that
 * whoever mixes up two lives of an address is found out.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "libcuda.h"

#define SHARD_COUNT 64
#define SHARD_BITS 40				 /* 1 TiB of addresses each */
#define ARENA_BASE 0x100000000000ull		 /* below position-independent programs, above the rest */
#define ARENA_END (ARENA_BASE + ((uint64_t)SHARD_COUNT << SHARD_BITS))
#define ORDER_MIN 9				 /* 512 bytes, the driver's own alignment */
#define ORDER_MAX (SHARD_BITS - 1)

struct addr_stack {
	uint64_t *v;
	uint32_t len, cap;
};

struct shard {
	pthread_mutex_t lock;
	struct block *table; /* open addressing */
	uint32_t bits, used;
	uint64_t next; /* first address never handed out, from the shard's base */
	struct addr_stack freed[ORDER_MAX + 1];
	uint64_t alloc_count, free_count, swept_count, fail_count, free_fail_count;
} __attribute__((aligned(64)));

static struct shard shards[SHARD_COUNT] = { [0 ... SHARD_COUNT - 1] = { .lock = PTHREAD_MUTEX_INITIALIZER } };
static uint32_t next_thread;
static __thread struct shard *thread_shard;

static struct shard *own_shard(void)
{
	if (!thread_shard)
		thread_shard = &shards[__atomic_fetch_add(&next_thread, 1, __ATOMIC_RELAXED) % SHARD_COUNT];
	return thread_shard;
}

static struct shard *shard_of(uint64_t addr)
{
	if (addr >= ARENA_BASE && addr < ARENA_END)
		return &shards[(addr - ARENA_BASE) >> SHARD_BITS];
	return &shards[(addr * 0x9e3779b97f4a7c15ull) >> 58];
}

static uint32_t place_of(const struct shard *s, uint64_t addr)
{
	return (uint32_t)((addr * 0x9e3779b97f4a7c15ull) >> (64 - s->bits));
}

static struct block *table_find(struct shard *s, uint64_t addr)
{
	uint32_t mask = (1u << s->bits) - 1;

	if (!s->table || !addr)
		return NULL;
	for (uint32_t i = place_of(s, addr);; i = (i + 1) & mask) {
		if (!s->table[i].addr)
			return NULL;
		if (s->table[i].addr == addr)
			return &s->table[i];
	}
}

static void table_put(struct shard *s, const struct block *b)
{
	uint32_t mask = (1u << s->bits) - 1, i = place_of(s, b->addr);

	while (s->table[i].addr)
		i = (i + 1) & mask;
	s->table[i] = *b;
}

/* Room for one more. False: out of memory. */
static bool table_grow(struct shard *s)
{
	struct block *old = s->table;
	uint32_t n = old ? 1u << s->bits : 0;

	if (old && s->used < n / 2)
		return true;
	s->table = calloc(old ? 2 * (size_t)n : 256, sizeof(*s->table));
	if (!s->table) {
		s->table = old;
		return false;
	}
	s->bits = old ? s->bits + 1 : 8;
	for (uint32_t i = 0; i < n; i++)
		if (old[i].addr)
			table_put(s, &old[i]);
	free(old);
	return true;
}

/* Closes the gap, so that no later look-up stops early. */
static void table_remove(struct shard *s, struct block *b)
{
	uint32_t mask = (1u << s->bits) - 1, hole = (uint32_t)(b - s->table);

	for (uint32_t i = (hole + 1) & mask; s->table[i].addr; i = (i + 1) & mask) {
		uint32_t home = place_of(s, s->table[i].addr);

		if (((i - home) & mask) >= ((i - hole) & mask)) {
			s->table[hole] = s->table[i];
			hole = i;
		}
	}
	s->table[hole].addr = 0;
	s->used--;
}

static unsigned int order_of(uint64_t bytes)
{
	unsigned int order = bytes <= 1 ? 0 : 64 - (unsigned int)__builtin_clzll(bytes - 1);

	return order < ORDER_MIN ? ORDER_MIN : order;
}

/* 0: no addresses left. */
static uint64_t addr_take(struct shard *s, unsigned int order)
{
	struct addr_stack *f = &s->freed[order];
	uint64_t align, at;

	if (f->len)
		return f->v[--f->len];
	align = 1ull << (order > 21 ? 21 : order);
	at = (s->next + align - 1) & ~(align - 1);
	if (at + (1ull << order) > 1ull << SHARD_BITS)
		return 0;
	s->next = at + (1ull << order);
	return ARENA_BASE + ((uint64_t)(s - shards) << SHARD_BITS) + at;
}

/* Without memory to remember it the address is simply never used again. */
static void addr_give(struct shard *s, uint64_t addr, unsigned int order)
{
	struct addr_stack *f = &s->freed[order];

	if (f->len == f->cap) {
		uint32_t cap = f->cap ? 2 * f->cap : 64;
		uint64_t *v = realloc(f->v, cap * sizeof(*v));

		if (!v)
			return;
		f->v = v;
		f->cap = cap;
	}
	f->v[f->len++] = addr;
}

static bool is_charged(unsigned int class)
{
	return (CLASS_DEVICE_MASK >> class) & 1;
}

/* Opening another process's memory is not an allocation, and closing it is not a free. */
static bool is_counted(unsigned int class)
{
	return class != CLASS_IMPORTED;
}

static CUresult fail(CUresult error)
{
	block_count_fail();
	return error;
}

CUresult block_new(unsigned int class, uint64_t bytes, int device, uint32_t owner, uint64_t *ret_addr)
{
	struct block b = { .bytes = bytes, .owner = owner, .class = (uint8_t)class, .device = (int8_t)device };
	struct shard *s = own_shard();

	if (!bytes)
		return fail(CUDA_ERROR_INVALID_VALUE);
	b.order = (uint8_t)order_of(bytes);
	if (b.order > ORDER_MAX)
		return fail(CUDA_ERROR_OUT_OF_MEMORY);
	if (is_charged(class) && !device_charge(device, bytes))
		return fail(CUDA_ERROR_OUT_OF_MEMORY);
	pthread_mutex_lock(&s->lock);
	if (table_grow(s))
		b.addr = addr_take(s, b.order);
	if (b.addr) {
		table_put(s, &b);
		s->used++;
		s->alloc_count += is_counted(class);
	} else {
		s->fail_count++;
	}
	pthread_mutex_unlock(&s->lock);
	if (!b.addr) {
		if (is_charged(class))
			device_uncharge(device, bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_addr = b.addr;
	return CUDA_SUCCESS;
}

CUresult block_adopt(unsigned int class, uint64_t addr, uint64_t bytes, int device, uint32_t owner, CUresult taken)
{
	struct block b = {
		.addr = addr, .bytes = bytes, .owner = owner, .class = (uint8_t)class, .device = (int8_t)device,
	};
	struct shard *s = shard_of(addr);
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&s->lock);
	if (table_find(s, addr)) {
		r = taken;
	} else if (!table_grow(s)) {
		r = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		table_put(s, &b);
		s->used++;
		s->alloc_count++;
	}
	if (r)
		s->fail_count++;
	pthread_mutex_unlock(&s->lock);
	return r;
}

CUresult block_end(uint64_t addr, uint32_t class_mask, CUresult missing)
{
	struct shard *s = shard_of(addr);
	struct block *b, was;

	pthread_mutex_lock(&s->lock);
	b = table_find(s, addr);
	if (!b || !((class_mask >> b->class) & 1)) {
		s->free_fail_count++;
		pthread_mutex_unlock(&s->lock);
		return missing;
	}
	was = *b;
	table_remove(s, b);
	if (was.order)
		addr_give(s, addr, was.order);
	s->free_count += is_counted(was.class);
	pthread_mutex_unlock(&s->lock);
	if (is_charged(was.class))
		device_uncharge(was.device, was.bytes);
	return CUDA_SUCCESS;
}

bool block_find(uint64_t addr, struct block *ret)
{
	struct shard *s = shard_of(addr);
	struct block *b;

	pthread_mutex_lock(&s->lock);
	b = table_find(s, addr);
	if (b)
		*ret = *b;
	pthread_mutex_unlock(&s->lock);
	return b;
}

static void shard_sweep(struct shard *s, uint32_t owner)
{
	uint32_t n = s->table ? 1u << s->bits : 0;

	for (uint32_t i = 0; i < n;) {
		struct block was = s->table[i];

		/* Stream-ordered memory belongs to its pool, and pools to the device: it outlives the context, as the
		 * real driver was seen to do (tests/gpu/driver_facts.c). */
		if (!was.addr || was.owner != owner || was.class == CLASS_ASYNC) {
			i++;
			continue;
		}
		table_remove(s, &s->table[i]); /* another may have moved to i: look again */
		if (was.order)
			addr_give(s, was.addr, was.order);
		if (is_charged(was.class))
			device_uncharge(was.device, was.bytes);
		s->free_count += is_counted(was.class);
		s->swept_count += is_counted(was.class);
	}
}

void block_sweep(uint32_t owner)
{
	for (struct shard *s = shards; s < shards + SHARD_COUNT; s++) {
		pthread_mutex_lock(&s->lock);
		shard_sweep(s, owner);
		pthread_mutex_unlock(&s->lock);
	}
}

static void bump(uint64_t *counter)
{
	pthread_mutex_lock(&own_shard()->lock);
	(*counter)++;
	pthread_mutex_unlock(&own_shard()->lock);
}

void block_count_fail(void)
{
	bump(&own_shard()->fail_count);
}

void block_count_free_fail(void)
{
	bump(&own_shard()->free_fail_count);
}

void block_count_alloc(void)
{
	bump(&own_shard()->alloc_count);
}

void block_count_free(void)
{
	bump(&own_shard()->free_count);
}

void block_totals(struct fake_gpu_totals *t)
{
	for (struct shard *s = shards; s < shards + SHARD_COUNT; s++) {
		pthread_mutex_lock(&s->lock);
		for (uint32_t i = 0, n = s->table ? 1u << s->bits : 0; i < n; i++) {
			const struct block *b = &s->table[i];

			if (!b->addr)
				continue;
			t->live_bytes[b->class] += b->bytes;
			t->live_count[b->class]++;
			if (is_charged(b->class))
				t->device_bytes[b->device] += b->bytes;
		}
		t->alloc_count += s->alloc_count;
		t->free_count += s->free_count;
		t->swept_count += s->swept_count;
		t->fail_count += s->fail_count;
		t->free_fail_count += s->free_fail_count;
		pthread_mutex_unlock(&s->lock);
	}
	t->calls = t->alloc_count + t->fail_count + t->free_count - t->swept_count + t->free_fail_count;
}
