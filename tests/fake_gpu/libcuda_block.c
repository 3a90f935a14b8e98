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
	uint64_t next_serial;
	struct addr_stack freed[ORDER_MAX + 1];
	uint64_t alloc_count, free_count, swept_count, fail_count, free_fail_count;
} __attribute__((aligned(64)));

/* The last one has the addresses that fit into 32 bits. */
static struct shard shards[SHARD_COUNT + 1] = { [0 ... SHARD_COUNT] = { .lock = PTHREAD_MUTEX_INITIALIZER } };
#define LOW (&shards[SHARD_COUNT])
#define LOW_BASE 0x20000000ull
#define LOW_END 0x100000000ull
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
	if (addr >= LOW_BASE && addr < LOW_END)
		return LOW;
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

unsigned int block_order(uint64_t bytes)
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
	if (at + (1ull << order) > (s == LOW ? LOW_END - LOW_BASE : 1ull << SHARD_BITS))
		return 0;
	s->next = at + (1ull << order);
	if (s == LOW)
		return LOW_BASE + at;
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

static bool is_charged(const struct block *b)
{
	return (CLASS_DEVICE_MASK >> b->class) & 1;
}

static bool charge(const struct block *b)
{
	if (b->pool)
		return pool_take(b->pool, b->bytes);
	return !is_charged(b) || device_charge(b->device, b->bytes);
}

static void uncharge(const struct block *b)
{
	if (b->pool)
		pool_give(b->pool, b->bytes);
	else if (is_charged(b))
		device_uncharge(b->device, b->bytes);
}

CUresult fail(CUresult error)
{
	block_count_fail();
	return error;
}

/* With the lock. The table has room. */
static void shard_put(struct shard *s, struct block *b)
{
	b->serial = (++s->next_serial << 7) | (uint64_t)(s - shards);
	b->refs = 1;
	table_put(s, b);
	s->used++;
}

CUresult block_new(const struct block *what, bool low, uint64_t *ret_addr)
{
	struct shard *s = low ? LOW : own_shard();
	struct block b = *what;

	b.order = (uint8_t)block_order(b.bytes);
	if (b.order > ORDER_MAX || !charge(&b))
		return fail(CUDA_ERROR_OUT_OF_MEMORY);
	b.addr = 0;
	pthread_mutex_lock(&s->lock);
	if (table_grow(s))
		b.addr = addr_take(s, b.order);
	/* Memory that the program registered may lie in between. */
	while (low && b.addr && table_find(s, b.addr))
		b.addr = addr_take(s, b.order);
	if (b.addr) {
		shard_put(s, &b);
		s->alloc_count++;
	} else {
		s->fail_count++;
	}
	pthread_mutex_unlock(&s->lock);
	if (!b.addr) {
		uncharge(&b);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_addr = b.addr;
	return CUDA_SUCCESS;
}

static CUresult put_at(const struct block *what, CUresult taken, bool counts)
{
	struct shard *s = shard_of(what->addr);
	struct block b = *what;
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&s->lock);
	if (table_find(s, b.addr))
		r = taken;
	else if (!table_grow(s))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	else
		shard_put(s, &b);
	s->alloc_count += counts && !r;
	s->fail_count += counts && r;
	pthread_mutex_unlock(&s->lock);
	return r;
}

CUresult block_adopt(const struct block *what, CUresult taken)
{
	return put_at(what, taken, true);
}

bool block_put(const struct block *b)
{
	return !put_at(b, CUDA_ERROR_UNKNOWN, false);
}

bool block_ref(uint64_t addr, uint64_t serial)
{
	struct shard *s = shard_of(addr);
	struct block *b;
	bool is_it;

	pthread_mutex_lock(&s->lock);
	b = table_find(s, addr);
	is_it = b && b->serial == serial;
	if (is_it) {
		b->refs++;
		s->alloc_count++;
	}
	pthread_mutex_unlock(&s->lock);
	return is_it;
}

bool block_take(uint64_t addr, uint32_t kinds, struct block *ret)
{
	struct shard *s = shard_of(addr);
	struct block *b;
	bool is_it;

	pthread_mutex_lock(&s->lock);
	b = table_find(s, addr);
	is_it = b && (kinds >> b->kind) & 1;
	if (is_it) {
		*ret = *b;
		table_remove(s, b);
	}
	pthread_mutex_unlock(&s->lock);
	return is_it;
}

CUresult block_end(uint64_t addr, uint32_t kinds, CUresult missing)
{
	struct shard *s = shard_of(addr);
	struct block *b, was;

	pthread_mutex_lock(&s->lock);
	b = table_find(s, addr);
	if (!b || !((kinds >> b->kind) & 1)) {
		s->free_fail_count++;
		pthread_mutex_unlock(&s->lock);
		return missing;
	}
	s->free_count++;
	was = *b;
	if (--b->refs == 0) {
		table_remove(s, b);
		if (was.order)
			addr_give(s, addr, was.order);
	}
	pthread_mutex_unlock(&s->lock);
	if (was.refs > 1)
		return CUDA_SUCCESS;
	uncharge(&was);
	if (was.kind == BLOCK_GRAPH)
		graph_block_ended(addr);
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

bool block_find_within(uint64_t addr, struct block *ret)
{
	bool found = block_find(addr, ret);

	for (struct shard *s = shards; s <= LOW && !found; s++) {
		pthread_mutex_lock(&s->lock);
		for (uint32_t i = 0, n = s->table ? 1u << s->bits : 0; i < n && !found; i++) {
			const struct block *b = &s->table[i];

			found = b->addr && addr >= b->addr && addr - b->addr < b->bytes;
			if (found)
				*ret = *b;
		}
		pthread_mutex_unlock(&s->lock);
	}
	return found;
}

static void shard_sweep(struct shard *s, uint32_t owner)
{
	uint32_t n = s->table ? 1u << s->bits : 0;

	for (uint32_t i = 0; i < n;) {
		struct block was = s->table[i];

		if (!was.addr || was.owner != owner) {
			i++;
			continue;
		}
		table_remove(s, &s->table[i]); /* another may have moved to i: look again */
		if (was.order)
			addr_give(s, was.addr, was.order);
		uncharge(&was);
		s->free_count += was.refs;
		s->swept_count += was.refs;
	}
}

void block_sweep(uint32_t owner)
{
	for (struct shard *s = shards; s <= LOW; s++) {
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
	for (struct shard *s = shards; s <= LOW; s++) {
		pthread_mutex_lock(&s->lock);
		for (uint32_t i = 0, n = s->table ? 1u << s->bits : 0; i < n; i++) {
			const struct block *b = &s->table[i];

			if (!b->addr)
				continue;
			t->live_bytes[b->class] += b->bytes * b->refs;
			t->live_count[b->class] += b->refs;
			if (is_charged(b))
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
