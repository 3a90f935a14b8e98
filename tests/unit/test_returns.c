/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "base/cleanup.h"
#include "test.h"
#include "trace/returns.h"

#define CODE(...) (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ })

/* What an assembler and objdump say of the same bytes. */
TEST(lengths)
{
	static const struct {
		uint8_t code[16];
		size_t len;
		enum x86_kind kind;
	} cases[] = {
		{ { 0xc3 }, 1, X86_RETURN },
		{ { 0xf3, 0xc3 }, 2, X86_RETURN },
		{ { 0xf2, 0xc3 }, 2, X86_RETURN },
		{ { 0xc2, 0x08, 0x00 }, 3, X86_RETURN },
		{ { 0xeb, 0x10 }, 2, X86_JUMP },
		{ { 0xe9, 0, 1, 0, 0 }, 5, X86_JUMP },
		{ { 0xff, 0xe0 }, 2, X86_JUMP_INDIRECT },		      /* jmp *%rax */
		{ { 0x3e, 0xff, 0x24, 0xc5, 1, 2, 3, 4 }, 8, X86_JUMP_INDIRECT }, /* notrack jmp *0x4030201(,%rax,8) */
		{ { 0x41, 0xff, 0xe3 }, 3, X86_JUMP_INDIRECT },		      /* jmp *%r11 */
		{ { 0xff, 0xd0 }, 2, X86_OTHER },			      /* call *%rax */
		{ { 0xf3, 0x0f, 0x1e, 0xfa }, 4, X86_OTHER },		      /* endbr64 */
		{ { 0x0f, 0x0b }, 2, X86_OTHER },			      /* ud2 */
		{ { 0x48, 0xb8, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3 }, 10, X86_OTHER }, /* movabs */
		{ { 0x66, 0xb8, 0xc3, 0xc3 }, 4, X86_OTHER },
		{ { 0xb8, 0xc3, 0xc3, 0xc3, 0xc3 }, 5, X86_OTHER },
		{ { 0x48, 0xc7, 0x84, 0x24, 0xc3, 0, 0, 0, 0xc3, 0, 0, 0 }, 12, X86_OTHER }, /* movq $0xc3, 0xc3(%rsp) */
		{ { 0x66, 0xc7, 0x05, 1, 2, 3, 4, 0xc3, 0xc3 }, 9, X86_OTHER }, /* movw $0xc3c3, 0x4030201(%rip) */
		{ { 0xf6, 0x00, 0xc3 }, 3, X86_OTHER },			      /* testb $0xc3, (%rax) */
		{ { 0xf6, 0xd8 }, 2, X86_OTHER },			      /* neg %al */
		{ { 0xf7, 0xc7, 1, 2, 3, 0xc3 }, 6, X86_OTHER },	      /* test $..., %edi */
		{ { 0x0f, 0x84, 1, 2, 3, 0xc3 }, 6, X86_OTHER },	      /* je */
		{ { 0x0f, 0xba, 0xe0, 0xc3 }, 4, X86_OTHER },		      /* bt $0xc3, %eax */
		{ { 0x66, 0x0f, 0x3a, 0x0f, 0xc1, 0xc3 }, 6, X86_OTHER },     /* palignr */
		{ { 0xc5, 0xf8, 0x77 }, 3, X86_OTHER },			      /* vzeroupper */
		{ { 0xc5, 0xf9, 0x70, 0xc0, 0xc3 }, 5, X86_OTHER },	      /* vpshufd $0xc3, %xmm0, %xmm0 */
		{ { 0xc4, 0xe3, 0x7d, 0x39, 0xc1, 0xc3 }, 6, X86_OTHER },     /* vextracti128 $0xc3, %ymm0, %xmm1 */
		{ { 0x62, 0xf1, 0x7d, 0x48, 0x6f, 0x44, 0x24, 0xc3 }, 8, X86_OTHER }, /* vmovdqa32 disp8(%rsp), %zmm0 */
		{ { 0x8f, 0x00 }, 2, X86_OTHER },			      /* pop (%rax) */
		{ { 0x8f, 0xe9, 0x78, 0xc3, 0xc3, 0xc3 }, 0, X86_OTHER },     /* of an extension that is gone */
		{ { 0x06 }, 0, X86_OTHER },
		{ { 0xd5, 0x00, 0xc3 }, 0, X86_OTHER },
		{ { 0xe8, 0, 0 }, 0, X86_OTHER }, /* over the end */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		enum x86_kind kind = X86_OTHER;
		int64_t target = 0;
		size_t room = i == ARRAY_SIZE(cases) - 1 ? 3 : sizeof(cases[i].code);

		if (x86_length(cases[i].code, room, &kind, &target) != cases[i].len)
			printf("# case %zu\n", i);
		EXPECT_EQ(x86_length(cases[i].code, room, &kind, &target), cases[i].len);
		EXPECT_EQ(kind, cases[i].len ? cases[i].kind : X86_OTHER);
	}
}

TEST(whatever_the_bytes_say_the_end_is_not_passed)
{
	uint64_t state = 88172645463325252u;

	for (int n = 0; n < 300000; n++) {
		uint8_t code[15];
		enum x86_kind kind;
		int64_t target;
		size_t len;

		for (size_t i = 0; i < sizeof(code); i++) {
			state ^= state << 13, state ^= state >> 7, state ^= state << 17;
			code[i] = (uint8_t)(state >> 24);
		}
		len = state % (sizeof(code) + 1);
		EXPECT(x86_length(code, len, &kind, &target) <= len);
	}
}

#if defined(__x86_64__)
static int find(const uint8_t *code, size_t len, uint64_t offset, const struct code_range *others, size_t n, bool wants_jumps,
		uint64_t ret[RETURNS_MAX], size_t *ret_jumps)
{
	const struct code_range range = { .offset = offset, .len = len };

	return returns_find(code, &range, others, n, wants_jumps, ret, ret_jumps);
}

TEST(returns_and_jumps_out)
{
	const struct code_range cold = { .offset = 0x2000, .len = 16 };
	uint64_t at[RETURNS_MAX];
	size_t jumps;

	/* push; mov $0xc3, %eax; jmp within; ret; pop; repz ret */
	EXPECT_EQ(find(CODE(0x55, 0xb8, 0xc3, 0, 0, 0, 0xeb, 0x01, 0xc3, 0x5d, 0xf3, 0xc3), 0x1000, NULL, 0, false, at, &jumps),
		  2);
	EXPECT_EQ(at[0], 0x1008);
	EXPECT_EQ(at[1], 0x100a);
	EXPECT_EQ(jumps, 0);
	/* A jump to elsewhere, to its cold part, and through a register. */
	EXPECT_EQ(find(CODE(0xe9, 0xfb, 0x1f, 0, 0, 0xe9, 0xf6, 0x0f, 0, 0, 0xff, 0xe0), 0x1000, &cold, 1, false, at, &jumps), 0);
	EXPECT_EQ(jumps, 1);
	EXPECT_EQ(find(CODE(0xe9, 0xfb, 0x1f, 0, 0, 0xe9, 0xf6, 0x0f, 0, 0, 0xff, 0xe0), 0x1000, &cold, 1, true, at, &jumps), 2);
	EXPECT_EQ(at[0], 0x1000);
	EXPECT_EQ(at[1], 0x100a);
	EXPECT_EQ(find(CODE(0xc3, 0x06), 0x1000, NULL, 0, false, at, &jumps), -EILSEQ);
	EXPECT_EQ(find(CODE(0xc3, 0xe8, 0, 0), 0x1000, NULL, 0, false, at, &jumps), -EILSEQ);
}

TEST(more_returns_than_fit)
{
	uint8_t code[RETURNS_MAX + 1];
	uint64_t at[RETURNS_MAX];
	size_t jumps;

	memset(code, 0xc3, sizeof(code));
	EXPECT_EQ(find(code, RETURNS_MAX, 0, NULL, 0, false, at, &jumps), RETURNS_MAX);
	EXPECT_EQ(find(code, RETURNS_MAX + 1, 0, NULL, 0, false, at, &jumps), -E2BIG);
}
#endif

TEST_MAIN()
