/* SPDX-License-Identifier: MIT */
/*
 * sites KEY TIMES: sixteen chains of functions with frames of equal sizes, all from one call and to one allocation,
 * each so many times, in random order. The bytes are 8 GiB + (KEY << 20) + (call << 4) + chain.
 */
#include <stdlib.h>

#include "stack.h"

#define CHAINS 16
#define CALLS_MAX 65536

/* Alike to the last byte but for their names: only the return addresses differ. */
#define CHAIN(n)                                                                                                       \
	static FRAME void chain_##n##_b(uint64_t number)                                                               \
	{                                                                                                              \
		stack_alloc_number(number << 4 | 0x##n);                                                               \
		KEEP_FRAME();                                                                                          \
	}                                                                                                              \
	static FRAME void chain_##n##_a(uint64_t number)                                                               \
	{                                                                                                              \
		chain_##n##_b(number);                                                                                 \
		KEEP_FRAME();                                                                                          \
	}

CHAIN(0) CHAIN(1) CHAIN(2) CHAIN(3) CHAIN(4) CHAIN(5) CHAIN(6) CHAIN(7)
CHAIN(8) CHAIN(9) CHAIN(a) CHAIN(b) CHAIN(c) CHAIN(d) CHAIN(e) CHAIN(f)

static void (*const chains[CHAINS])(uint64_t number) = {
	chain_0_a, chain_1_a, chain_2_a, chain_3_a, chain_4_a, chain_5_a, chain_6_a, chain_7_a,
	chain_8_a, chain_9_a, chain_a_a, chain_b_a, chain_c_a, chain_d_a, chain_e_a, chain_f_a,
};

static FRAME void dispatch(void (*fn)(uint64_t), uint64_t number)
{
	fn(number);
	KEEP_FRAME();
}

int main(int argc, char **argv)
{
	static unsigned char order[CALLS_MAX];
	uint64_t n, random = 88172645463325252ull;

	if (argc < 3)
		return 2;
	stack_key = strtoull(argv[1], NULL, 10);
	n = strtoull(argv[2], NULL, 10) * CHAINS;
	if (n > CALLS_MAX)
		return 2;
	for (uint64_t i = 0; i < n; i++)
		order[i] = (unsigned char)(i % CHAINS);
	for (uint64_t i = n; i > 1; i--) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		unsigned char swap = order[i - 1];
		order[i - 1] = order[random % i];
		order[random % i] = swap;
	}
	stack_open();
	for (uint64_t i = 0; i < n; i++)
		dispatch(chains[order[i]], i);
	stack_say("done");
	stack_wait();
	return 0;
}
