/* SPDX-License-Identifier: MIT */
/* How many bytes a call asks for. Sizes are the process's word: products saturate, and book_alloc() believes no more than
 * BYTES_MAX. */
#ifndef GPUXRAY_SIZE_H
#define GPUXRAY_SIZE_H

#include "object.h"

static __always_inline __u64 mul_saturate(__u64 a, __u64 c)
{
	__u64 most = a ? ~0ull / a : ~0ull;

	/* Hides the idiom from clang, which would make a 128-bit multiplication of it, and BPF has none. */
	asm volatile("" : "+r"(most));
	return c > most ? ~0ull : a * c;
}

/* An array as its descriptor has it. */
struct array_shape {
	__u64 width, height, depth;
	__u32 format, channels, flags, levels;
};

#define ARRAY_LAYERED 0x01
#define ARRAY_CUBEMAP 0x04
#define ARRAY_SPARSE 0x40
#define ARRAY_DEFERRED 0x80

/* Bytes of an element and channel by CUarray_format; blocks of 4 x 4 elements and planar formats below. */
static __always_inline __u32 format_bytes(__u32 format)
{
	switch (format) {
	case 0x01: /* 8-bit integers */
	case 0x08:
	case 0xc0 ... 0xc2: /* normalized, in one to four channels */
	case 0xc6 ... 0xc8:
	case 0xa8: /* AYUV */
	case 0xb2: /* Y444 planar */
	case 0xb4:
		return 1;
	case 0x02: /* 16-bit */
	case 0x09:
	case 0x10:
	case 0xc3 ... 0xc5:
	case 0xc9 ... 0xcb:
	case 0xb1: /* Y416 */
	case 0xb3:
	case 0xb5:
		return 2;
	case 0x03: /* 32-bit */
	case 0x0a:
	case 0x20:
		return 4;
	}
	return 0;
}

/* Bytes of a block of 4 x 4 elements, all channels; 0 = not such a format. */
static __always_inline __u32 format_block_bytes(__u32 format)
{
	if ((format >= 0x91 && format <= 0x92) || (format >= 0x97 && format <= 0x98))
		return 8; /* BC1, BC4 */
	return format >= 0x93 && format <= 0x9e ? 16 : 0;
}

/* Halves of a byte in each element, over all planes; 0 = not such a format. */
static __always_inline __u32 format_planar_halves(__u32 format)
{
	switch (format) {
	case 0xb0: /* NV12: 12 bits */
		return 3;
	case 0x9f: /* P010, P016: 24 bits */
	case 0xa1:
		return 6;
	case 0xa2: /* NV16, YUY2: 16 bits */
	case 0xa5:
		return 4;
	case 0xa3: /* P210, P216, Y210, Y216, Y410, 10:10:10:2: 32 bits */
	case 0xa4:
	case 0xa6:
	case 0xa7:
	case 0xa9:
	case 0x50:
		return 8;
	}
	return 0;
}

static __always_inline __u64 at_least_one(__u64 n)
{
	return n ? n : 1;
}

/* Bytes of one level. The device loses as much, rounded up to 2 MiB (tests/gpu/memory_facts.c). */
static __always_inline __u64 level_bytes(const struct array_shape *a, __u32 level)
{
	__u64 w = at_least_one(a->width >> level), h = at_least_one(a->height >> level), d = a->depth;
	__u32 block = format_block_bytes(a->format), halves = format_planar_halves(a->format), one;

	if (!(a->flags & (ARRAY_LAYERED | ARRAY_CUBEMAP)))
		d >>= level;
	d = at_least_one(d);
	if (block)
		return mul_saturate(mul_saturate(w / 4 + !!(w % 4), h / 4 + !!(h % 4)), mul_saturate(d, block));
	if (halves)
		return mul_saturate(mul_saturate(w, h), mul_saturate(d, halves)) / 2;
	one = format_bytes(a->format);
	if (!one) {
		count(COUNTER_FORMAT);
		one = 4;
	}
	return mul_saturate(mul_saturate(w, h), mul_saturate(d, (__u64)one * at_least_one(a->channels)));
}

#define LEVELS_MAX 32

struct levels {
	struct array_shape a;
	__u64 bytes;
};

static long add_level(__u64 index, struct levels *l)
{
	__u64 one = level_bytes(&l->a, index & (LEVELS_MAX - 1));

	l->bytes = l->bytes + one < one ? ~0ull : l->bytes + one;
	return 0;
}

static __noinline __u64 array_bytes(const struct array_shape *a)
{
	struct levels l = {};

	if (!a || a->flags & (ARRAY_SPARSE | ARRAY_DEFERRED))
		return 0;
	l.a = *a;
	bpf_loop(a->levels > LEVELS_MAX ? LEVELS_MAX : a->levels, add_level, &l, 0);
	return l.bytes;
}

/* CUDA_ARRAY_DESCRIPTOR and CUDA_ARRAY3D_DESCRIPTOR, and their first versions; HIP's are the same. */
static __always_inline void read_descriptor(struct array_shape *a, __u64 addr, __u32 how)
{
	__u32 w[10] = {};
	__u32 is_old = how == SIZE_ARRAY_V1 || how == SIZE_ARRAY3D_V1, is_flat = how == SIZE_ARRAY || how == SIZE_ARRAY_V1;
	/* words: two or three sizes of one or two words, format, channels, and flags where there is a depth */
	__u32 bytes = is_old ? (is_flat ? 16 : 24) : (is_flat ? 24 : 36);

	if (bytes > sizeof(w) || bpf_probe_read_user(w, bytes, (void *)addr)) {
		count(COUNTER_FAULT);
		return;
	}
	if (is_old) {
		a->width = w[0];
		a->height = w[1];
		a->depth = is_flat ? 0 : w[2];
		a->format = is_flat ? w[2] : w[3];
		a->channels = is_flat ? w[3] : w[4];
		a->flags = is_flat ? 0 : w[5];
		return;
	}
	a->width = w[0] | (__u64)w[1] << 32;
	a->height = w[2] | (__u64)w[3] << 32;
	a->depth = is_flat ? 0 : w[4] | (__u64)w[5] << 32;
	a->format = is_flat ? w[4] : w[6];
	a->channels = is_flat ? w[5] : w[7];
	a->flags = is_flat ? 0 : w[8];
}

/* hipChannelFormatDesc: bits of up to four channels. */
static __always_inline void read_channels(struct array_shape *a, __u64 addr)
{
	__u32 w[4] = {};

	if (bpf_probe_read_user(w, sizeof(w), (void *)addr))
		count(COUNTER_FAULT);
	a->format = 0x01;
	a->channels = (w[0] + w[1] + w[2] + w[3]) / 8;
}

static __noinline __u64 bytes_of_array(struct call_state *cs, const struct call_desc *d)
{
	struct array_shape a = { .levels = 1 };
	__u32 n;

	if (!cs || !d)
		return 0;
	n = d->size_arg;
	if (d->size_how >= SIZE_CHANNEL) {
		read_channels(&a, cs->arg[1]);
		a.width = cs->arg[n & (ARG_MAX - 1)];
		a.height = cs->arg[(n + 1) & (ARG_MAX - 1)];
		if (d->size_how != SIZE_CHANNEL)
			a.depth = cs->arg[(n + 2) & (ARG_MAX - 1)];
		if (d->size_how == SIZE_CHANNEL_MIPMAP)
			a.levels = (__u32)cs->arg[2];
	} else {
		read_descriptor(&a, cs->arg[n & (ARG_MAX - 1)], d->size_how);
		if (d->size_how == SIZE_MIPMAP)
			a.levels = (__u32)cs->arg[(n + 1) & (ARG_MAX - 1)];
	}
	return array_bytes(&a);
}

static __always_inline void read_export(struct export_key *k, struct call_state *cs, __u32 n)
{
	/* Passed by value it lies where the arguments on the stack begin, and has been read. */
	if (n == ARG_STACK)
		__builtin_memcpy(k, &cs->arg[ARG_STACK], sizeof(*k));
	else if (bpf_probe_read_user(k, sizeof(*k), (void *)cs->arg[n & (ARG_MAX - 1)]))
		count(COUNTER_FAULT);
}

/* Bytes of a block of another process: known if its export was seen. */
static __noinline __u64 bytes_exported(struct call_state *cs, const struct call_desc *d)
{
	struct export_key k = {};
	struct export_value *v;

	if (!cs || !d)
		return 0;
	read_export(&k, cs, d->size_arg);
	v = bpf_map_lookup_elem(&exports, &k);
	return v ? v->bytes : 0;
}

/* Pitch in bytes as the driver has chosen it, times rows. */
static __always_inline __u64 bytes_pitched(struct call_state *cs, const struct call_desc *d, bool is_done)
{
	__u32 n = d->size_arg;
	__u64 w[2] = {}; /* PITCHED: pointer and pitch */

	if (d->size_how == SIZE_PITCHED) {
		__u64 rows = mul_saturate(cs->arg[(n + 1) & (ARG_MAX - 1)], cs->arg[(n + 2) & (ARG_MAX - 1)]);

		if (is_done && bpf_probe_read_user(w, sizeof(w), (void *)cs->arg[0]))
			count(COUNTER_FAULT);
		return mul_saturate(is_done ? w[1] : cs->arg[n & (ARG_MAX - 1)], rows);
	}
	if (is_done && bpf_probe_read_user(w, d->flags & CALL_F_SIZE32 ? 4 : 8, (void *)cs->arg[1]))
		count(COUNTER_FAULT);
	return mul_saturate(is_done ? w[0] : cs->arg[2], cs->arg[3]);
}

/* At the entry what is asked for; is_done: after success, where the call says more. */
static __always_inline __u64 bytes_of(struct call_state *cs, const struct call_desc *d, bool is_done)
{
	__u32 n = d->size_arg;

	switch (d->size_how) {
	case SIZE_ARG:
		return cs->arg[n & (ARG_MAX - 1)];
	case SIZE_PITCH:
	case SIZE_PITCHED:
		return bytes_pitched(cs, d, is_done);
	case SIZE_PRODUCT:
		return mul_saturate(cs->arg[n & (ARG_MAX - 1)], cs->arg[(n + 1) & (ARG_MAX - 1)]);
	case SIZE_EXTERNAL:
		return is_done ? cs->bytes : read_word(cs->arg[n & (ARG_MAX - 1)] + 24);
	case SIZE_EXPORTED:
		return is_done ? cs->bytes : bytes_exported(cs, d);
	case SIZE_NONE:
		return 0;
	}
	return is_done ? cs->bytes : bytes_of_array(cs, d);
}

#endif
