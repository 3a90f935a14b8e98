/* SPDX-License-Identifier: MIT */
/*
 * Lengths of x86-64 instructions, for compilers' code: what is not in these tables is refused, as a probe within an
 * instruction would break the program. From the opcode maps of the manuals of Intel (vol. 2, appendix A) and AMD (vol.
 * 3, appendix A).
 */
#include <string.h>

#include "trace/returns.h"

/*
 * One letter an opcode: what follows it. '.' nothing, 'm' a ModRM byte, 'b' 8 bits, 'w' 16, 'z' 16 or 32, 'B' and 'Z' a
 * ModRM byte and then 'b' or 'z', 'v' up to 64 bits, 'a' an address of 64, 'e' 16 and 8, 'j' a distance of 32, 'F' and 'G'
 * a ModRM byte and depending on it 'b' or 'z', '-' none of ours.
 */
static const char one_byte[257] =
	/* 00 */ "mmmmbz--mmmmbz--" /* 10 */ "mmmmbz--mmmmbz--" /* 20 */ "mmmmbz--mmmmbz--" /* 30 */ "mmmmbz--mmmmbz--"
	/* 40 */ "----------------" /* 50 */ "................" /* 60 */ "---m----zZbB...." /* 70 */ "bbbbbbbbbbbbbbbb"
	/* 80 */ "BZ-Bmmmmmmmmmmmm" /* 90 */ "..........-....." /* A0 */ "aaaa....bz......" /* B0 */ "bbbbbbbbvvvvvvvv"
	/* C0 */ "BBw.--BZe.w..b-." /* D0 */ "mmmm---.mmmmmmmm" /* E0 */ "bbbbbbbbjj-b...." /* F0 */ "-.--..FG......mm";
static const char two_bytes[257] =
	/* 00 */ "mmmm-.....-.-m.B" /* 10 */ "mmmmmmmmmmmmmmmm" /* 20 */ "mmmm----mmmmmmmm" /* 30 */ "......-.--------"
	/* 40 */ "mmmmmmmmmmmmmmmm" /* 50 */ "mmmmmmmmmmmmmmmm" /* 60 */ "mmmmmmmmmmmmmmmm" /* 70 */ "BBBBmmm.----mmmm"
	/* 80 */ "jjjjjjjjjjjjjjjj" /* 90 */ "mmmmmmmmmmmmmmmm" /* A0 */ "...mBm--...mBmmm" /* B0 */ "mmmmmmmmmmBmmmmm"
	/* C0 */ "mmBmBBBm........" /* D0 */ "mmmmmmmmmmmmmmmm" /* E0 */ "mmmmmmmmmmmmmmmm" /* F0 */ "mmmmmmmmmmmmmmmm";

struct decode {
	const uint8_t *code;
	size_t len, at;
	bool is_short; /* the end was passed */
	bool has_66, has_67, has_w;
	char form;
	uint8_t opcode;
	int map; /* 1: one byte, 2: 0F */
	uint8_t modrm;
};

static uint8_t next(struct decode *d)
{
	if (d->at >= d->len) {
		d->is_short = true;
		return 0;
	}
	return d->code[d->at++];
}

static void prefixes(struct decode *d)
{
	for (; d->at < d->len; d->at++) {
		const uint8_t c = d->code[d->at];

		if (c == 0x66)
			d->has_66 = true;
		else if (c == 0x67)
			d->has_67 = true;
		else if (c != 0xf0 && c != 0xf2 && c != 0xf3 && c != 0x2e && c != 0x36 && c != 0x3e && c != 0x26 &&
			 c != 0x64 && c != 0x65)
			break;
	}
	if (d->at < d->len && (d->code[d->at] & 0xf0) == 0x40)
		d->has_w = d->code[d->at++] & 8;
}

/* Maps of vector instructions: 1 as two_bytes, 2 and 5, 6 without an immediate, 3 always with one. */
static char vector_form(int map, uint8_t opcode)
{
	switch (map) {
	case 1:
		if (opcode == 0x77)
			return '.';
		if ((opcode >= 0x70 && opcode <= 0x73) || opcode == 0xc2 || (opcode >= 0xc4 && opcode <= 0xc6))
			return 'B';
		return 'm';
	case 2:
	case 5:
	case 6:
		return 'm';
	case 3:
		return 'B';
	default:
		return '-';
	}
}

static void opcode(struct decode *d)
{
	uint8_t c = next(d);
	int map;

	d->map = 1;
	if (c == 0xc5) {
		(void)next(d);
		map = 1;
	} else if (c == 0xc4) {
		map = next(d) & 0x1f;
		(void)next(d);
	} else if (c == 0x62) {
		map = next(d) & 7;
		(void)next(d);
		(void)next(d);
	} else if (c == 0x0f) {
		d->map = 2;
		c = next(d);
		d->opcode = c;
		if (c == 0x38 || c == 0x3a) {
			(void)next(d);
			d->map = 3;
			d->form = c == 0x38 ? 'm' : 'B';
		} else {
			d->form = two_bytes[c];
		}
		return;
	} else {
		d->opcode = c;
		d->form = one_byte[c];
		return;
	}
	d->map = 3;
	d->form = vector_form(map, next(d));
}

static void operand(struct decode *d)
{
	uint8_t mod, rm, base;

	d->modrm = next(d);
	mod = d->modrm >> 6;
	rm = d->modrm & 7;
	if (mod == 3)
		return;
	base = rm == 4 ? next(d) & 7 : rm;
	if (mod == 1)
		d->at += 1;
	else if (mod == 2 || base == 5)
		d->at += 4;
}

static size_t immediate(const struct decode *d)
{
	const size_t z = d->has_66 && !d->has_w ? 2 : 4;
	const bool is_test = (d->modrm >> 3 & 7) < 2;

	switch (d->form) {
	case 'b':
	case 'B':
		return 1;
	case 'w':
		return 2;
	case 'z':
	case 'Z':
		return z;
	case 'v':
		return d->has_w ? 8 : z;
	case 'a':
		return d->has_67 ? 4 : 8;
	case 'e':
		return 3;
	case 'j':
		return 4;
	case 'F':
		return is_test ? 1 : 0;
	case 'G':
		return is_test ? z : 0;
	default:
		return 0;
	}
}

static enum x86_kind kind_of(const struct decode *d, int64_t *ret_target)
{
	if (d->map != 1)
		return X86_OTHER;
	if (d->opcode == 0xc3 || d->opcode == 0xc2)
		return X86_RETURN;
	if (d->opcode == 0xff && (d->modrm >> 3 & 7) == 4)
		return X86_JUMP_INDIRECT;
	if (d->opcode == 0xeb) {
		*ret_target = (int64_t)d->at + (int8_t)d->code[d->at - 1];
		return X86_JUMP;
	}
	if (d->opcode == 0xe9) {
		int32_t by;

		memcpy(&by, d->code + d->at - 4, 4);
		*ret_target = (int64_t)d->at + by;
		return X86_JUMP;
	}
	return X86_OTHER;
}

size_t x86_length(const uint8_t *code, size_t len, enum x86_kind *ret_kind, int64_t *ret_target)
{
	struct decode d = { .code = code, .len = len < 15 ? len : 15 };

	prefixes(&d);
	opcode(&d);
	/* 8F is a pop, or in AMD's old extension another map; C4 and C5 came as vectors. */
	if (d.form == '-' || d.is_short)
		return 0;
	if (strchr("mBZFG", d.form))
		operand(&d);
	if (d.map == 1 && d.opcode == 0x8f && d.modrm >> 3 & 7)
		return 0;
	d.at += immediate(&d);
	if (d.is_short || d.at > d.len)
		return 0;
	*ret_kind = kind_of(&d, ret_target);
	return d.at;
}
