/* SPDX-License-Identifier: MIT */
/*
 * A hostile file under a hostile stack: the unwinder must come back, soon, with frames that lead up the copy. Input:
 * how, where the information lies (2 bytes), 7 registers of 2 bytes (code or stack addresses), flags (2 bytes), 64 stack
 * words of 2 bytes, then the file: how = 0 as it is, 1 only .eh_frame and 2 .eh_frame_hdr, to which we make the ELF
 * headers.
 */
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "stack/unwind.h"
#include "stack/unwind_machine.h"

#define WORDS 64
#define TEXT 0x10000 /* where offset 0 of the file is mapped */
#define TEXT_BYTES 0x8000
#define STACK 0x7f0000000000
#define F_MISSING 0x1 /* the second half of the stack lies in a page that could not be read */
#define F_FRAME_POINTERS 0x2
#define F_LINK 0x4 /* the return address is in a register */
#define HEAD (sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_all(int fd, const void *data, size_t len)
{
	if (len && write(fd, data, len) != (ssize_t)len)
		abort();
}

/* Address and offset in the file are the same. */
static void write_headers(int fd, int how, uint16_t where, size_t size)
{
	const uint64_t at = HEAD + where % 0x2000;
	const Elf64_Ehdr eh = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_DYN, .e_machine = EM_X86_64, .e_version = 1, .e_phoff = sizeof(eh),
		.e_ehsize = sizeof(eh), .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 2,
	};
	/* A header without a table; it says where .eh_frame is, absolute. */
	const uint8_t no_table[] = { 1, 0x03, 0xff, 0xff, (uint8_t)(at + 8), (uint8_t)((at + 8) >> 8), 0, 0 };
	const Elf64_Phdr ph[] = {
		{ .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = at + size + 8, .p_memsz = TEXT_BYTES },
		{ .p_type = PT_GNU_EH_FRAME, .p_vaddr = at, .p_offset = at, .p_filesz = size },
	};

	write_all(fd, &eh, sizeof(eh));
	write_all(fd, ph, sizeof(ph));
	if (lseek(fd, (off_t)at, SEEK_SET) < 0)
		abort();
	if (how == 1)
		write_all(fd, no_table, sizeof(no_table));
}

static uint64_t word(const uint8_t *p, uint64_t sp)
{
	const uint64_t v = p[0] | (uint64_t)p[1] << 8;

	return v & 0x8000 ? TEXT + (v & 0x7fff) : sp + v;
}

static void check(const struct raw_stack *s, const struct unwound *u)
{
	const uint64_t readable = s->missing ? s->copy_len / 2 : s->copy_len;
	const bool has_link = MACHINE_HAS_LINK || s->lr;
	uint64_t cfa = s->sp, v;

	if (u->count < 1 || u->count > 256 || u->reason >= UNWIND_REASON_MAX || u->frames[0].pc != s->ip)
		abort();
	for (size_t i = 0; i + 1 < u->count; i++) {
		/* Only a link register leaves a frame without a size. */
		if (u->frames[i].cfa < cfa + !has_link && !(has_link && u->frames[i].cfa == 0))
			abort();
		if (u->frames[i].cfa > s->sp + s->copy_len)
			abort();
		cfa = MAX(cfa, u->frames[i].cfa);
		if (u->frames[i].return_slot == UNWIND_NO_SLOT)
			continue;
		if (u->frames[i].return_slot > readable - 8)
			abort();
		memcpy(&v, s->copy + u->frames[i].return_slot, 8);
		(void)v;
	}
	for (size_t i = 0; i < u->address_slot_count; i++) {
		if (u->address_slots[i] > readable - 8)
			abort();
	}
}

static void unwind_twice(const struct raw_stack *s, bool frame_pointers_only)
{
	const struct unwinder_limits limits = { .files = 2, .rows = 64, .depth = 256, .index_bytes = 1 << 20,
						.work = 1 << 20, .frame_pointers_only = frame_pointers_only };
	_cleanup_(objects_unrefp) struct objects *objects = NULL;
	_cleanup_(unwinder_freep) struct unwinder *u = NULL;
	struct unwound first, second;

	if (objects_new("/nonexistent", 2, &objects) < 0 || unwinder_new(objects, &limits, &u) < 0 ||
	    unwind(u, s, &first) < 0)
		abort();
	check(s, &first);
	if (unwind(u, s, &second) < 0)
		abort();
	check(s, &second);
	/* What was too much work for one stack may be known by the next. */
	if (first.reason != UNWIND_WORK && (first.count != second.count || first.reason != second.reason))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ uint64_t *copy = NULL;
	_cleanup_close_ int fd = -1;
	struct mapping m = { .start = TEXT, .end = TEXT + TEXT_BYTES };
	struct address_space space = { .pid = 1, .count = 1, .mappings = &m };
	struct raw_stack s = { .pid = 1, .sp = STACK, .copy_len = WORDS * 8, .space = &space };
	uint64_t registers[7];
	char path[64];
	struct stat st;
	int how, flags;

	if (size < 3 + 16 + 2 * WORDS)
		return 0;
	how = data[0] % 3;
	flags = data[17];
	if (flags & F_MISSING) {
		s.sp = STACK - WORDS * 8 / 2;
		s.missing = 2;
	}
	fd = memfd_create("fuzz", MFD_CLOEXEC);
	copy = calloc(WORDS, sizeof(*copy));
	if (fd < 0 || !copy)
		abort();
	for (size_t i = 0; i < 7; i++)
		registers[i] = word(data + 3 + 2 * i, s.sp);
	for (size_t i = 0; i < WORDS; i++)
		copy[i] = word(data + 19 + 2 * i, s.sp);
	if (how != 0)
		write_headers(fd, how, (uint16_t)(data[1] | data[2] << 8), size - 19 - 2 * WORDS);
	write_all(fd, data + 19 + 2 * WORDS, size - 19 - 2 * WORDS);
	if (fstat(fd, &st) < 0)
		abort();
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	m.path = path;
	m.inode = st.st_ino;
	m.dev_major = major(st.st_dev);
	m.dev_minor = minor(st.st_dev);

	s.copy = (const uint8_t *)copy;
	s.ip = registers[0];
	s.bp = registers[1];
	s.bx = registers[2];
	s.r12 = registers[3];
	s.r13 = registers[4];
	s.r14 = registers[5];
	s.r15 = registers[6];
	s.at_entry = data[0] & 0x40;
	s.is_truncated = data[0] & 0x80;
	if (flags & F_LINK)
		s.lr = registers[2];
	unwind_twice(&s, flags & F_FRAME_POINTERS);
	return 0;
}
