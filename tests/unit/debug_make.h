/* SPDX-License-Identifier: MIT */
/* ELF files with given sections, and line tables put together byte by byte. For unit tests and fuzzers. */
#pragma once

#include <elf.h>
#include <lzma.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "base/strbuf.h"

/* The code is said to be at [0x1000, 0x21000). */
#define DEBUG_CODE 0x1000
#define DEBUG_CODE_BYTES 0x20000
#define DEBUG_SECTIONS_MAX 8

struct debug_section {
	const char *name;
	const void *data;
	size_t len;
	uint32_t type, link; /* link: of a symbol table to its names */
	uint64_t flags;
};

/* An fd of a memory file, or -1. Section i of these has index i + 1; section 0 is the empty one. */
static inline int debug_make_fd(const struct debug_section *sections, size_t n)
{
	Elf64_Shdr sh[DEBUG_SECTIONS_MAX + 2] = {};
	Elf64_Ehdr eh = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_DYN, .e_version = EV_CURRENT, .e_ehsize = sizeof(eh), .e_phoff = sizeof(eh),
		.e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 1, .e_shentsize = sizeof(Elf64_Shdr),
#if defined(__aarch64__)
		.e_machine = EM_AARCH64,
#else
		.e_machine = EM_X86_64,
#endif
	};
	const Elf64_Phdr ph = {
		.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = DEBUG_CODE, .p_filesz = DEBUG_CODE_BYTES,
		.p_memsz = DEBUG_CODE_BYTES,
	};
	char names[512] = "";
	size_t names_len = 1;
	off_t at = sizeof(eh) + sizeof(ph);
	int fd = memfd_create("debug", MFD_CLOEXEC);

	if (fd < 0 || n > DEBUG_SECTIONS_MAX)
		return -1;
	for (size_t i = 0; i < n; i++) {
		sh[i + 1] = (Elf64_Shdr){
			.sh_name = (uint32_t)names_len, .sh_type = sections[i].type, .sh_flags = sections[i].flags,
			.sh_link = sections[i].link, .sh_offset = (uint64_t)at, .sh_size = sections[i].len,
			.sh_entsize = sections[i].link ? sizeof(Elf64_Sym) : 0,
		};
		memcpy(names + names_len, sections[i].name, strlen(sections[i].name) + 1);
		names_len += strlen(sections[i].name) + 1;
		if (pwrite(fd, sections[i].data, sections[i].len, at) != (ssize_t)sections[i].len)
			return -1;
		at += (off_t)sections[i].len;
	}
	sh[n + 1] = (Elf64_Shdr){ .sh_type = SHT_STRTAB, .sh_offset = (uint64_t)at, .sh_size = names_len };
	if (pwrite(fd, names, names_len, at) < 0)
		return -1;
	eh.e_shoff = (uint64_t)at + names_len;
	eh.e_shnum = (uint16_t)(n + 2);
	eh.e_shstrndx = (uint16_t)(n + 1);
	if (pwrite(fd, sh, sizeof(*sh) * (n + 2), (off_t)eh.e_shoff) < 0 ||
	    pwrite(fd, &ph, sizeof(ph), sizeof(eh)) < 0 || pwrite(fd, &eh, sizeof(eh), 0) < 0)
		return -1;
	return fd;
}

/* As the linker packs a section: SHF_COMPRESSED is the caller's to set. */
static inline void debug_pack(struct strbuf *sb, const void *data, size_t len)
{
	const Elf64_Chdr ch = { .ch_type = ELFCOMPRESS_ZLIB, .ch_size = len };
	uLongf packed_len = compressBound(len);
	void *packed = malloc(packed_len);

	if (!packed || compress2(packed, &packed_len, data, len, 1) != Z_OK) {
		sb->error = -ENOMEM;
	} else {
		strbuf_add(sb, &ch, sizeof(ch));
		strbuf_add(sb, packed, packed_len);
	}
	free(packed);
}

static inline void debug_pack_xz(struct strbuf *sb, const void *data, size_t len)
{
	const size_t max = lzma_stream_buffer_bound(len);
	uint8_t *packed = malloc(max);
	size_t packed_len = 0;

	if (!packed ||
	    lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, data, len, packed, &packed_len, max) != LZMA_OK)
		sb->error = -ENOMEM;
	else
		strbuf_add(sb, packed, packed_len);
	free(packed);
}
