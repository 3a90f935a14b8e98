/* SPDX-License-Identifier: MIT */
/* ELF files for tests: compiled ones, and ones put together byte by byte. */
#pragma once

#include <elf.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "temp_proc.h"
#include "test.h"

/* Runs $CC (cc) on this source in the folder; the output file is dir/name. */
static inline bool elf_compile(const char *dir, const char *name, const char *source, const char *flags)
{
	const char *cc = getenv("CC");
	char path[256], command[2048];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s.c", dir, name);
	f = fopen(path, "we");
	if (!f)
		return false;
	fputs(source, f);
	if (fclose(f) != 0)
		return false;
	(void)snprintf(command, sizeof(command), "%s -w -O1 -fPIC -shared -fno-stack-protector %s '%s/%s.c' -o '%s/%s'",
		       cc && *cc ? cc : "cc", flags, dir, name, dir, name);
	return system(command) == 0;
}

static inline int elf_open_at(const char *dir, const char *name)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/*
 * header, one executable segment over [0x1000, 0x1000 + text) of the file at address 0x401000, .symtab with its names,
 * section headers.
 */
#define MADE_TEXT_OFFSET 0x1000
#define MADE_TEXT_VADDR 0x401000

struct made {
	struct strbuf syms, names;
	size_t text_bytes;
	uint32_t type; /* SHT_SYMTAB or SHT_DYNSYM */
};

static inline void made_init(struct made *m, size_t text_bytes, uint32_t type)
{
	*m = (struct made){ .text_bytes = text_bytes, .type = type };
	strbuf_addc(&m->names, 0);
	strbuf_add(&m->syms, &(Elf64_Sym){}, sizeof(Elf64_Sym));
}

static inline void made_done(struct made *m)
{
	strbuf_done(&m->syms);
	strbuf_done(&m->names);
}

static inline void made_symbol(struct made *m, const char *name, uint64_t vaddr, uint64_t size, int info,
			       uint16_t section)
{
	Elf64_Sym sym = {
		.st_name = (uint32_t)m->names.len, .st_info = (unsigned char)info, .st_shndx = section, .st_value = vaddr,
		.st_size = size,
	};

	strbuf_add(&m->names, name, strlen(name) + 1);
	strbuf_add(&m->syms, &sym, sizeof(sym));
}

#define MADE_FUNC ELF64_ST_INFO(STB_GLOBAL, STT_FUNC)
#define MADE_LOCAL ELF64_ST_INFO(STB_LOCAL, STT_FUNC)
#define MADE_WEAK ELF64_ST_INFO(STB_WEAK, STT_FUNC)

static inline Elf64_Ehdr made_header(void)
{
	Elf64_Ehdr eh = {
		.e_type = ET_DYN, .e_version = EV_CURRENT, .e_ehsize = sizeof(eh), .e_phoff = sizeof(eh),
		.e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 1, .e_shentsize = sizeof(Elf64_Shdr),
#if defined(__aarch64__)
		.e_machine = EM_AARCH64,
#else
		.e_machine = EM_X86_64,
#endif
	};

	memcpy(eh.e_ident, ELFMAG, SELFMAG);
	eh.e_ident[EI_CLASS] = ELFCLASS64;
	eh.e_ident[EI_DATA] = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
	return eh;
}

/* An fd of a memory file, or -1. */
static inline int made_fd(const struct made *m)
{
	const uint64_t syms = MADE_TEXT_OFFSET + m->text_bytes, names = syms + m->syms.len,
		       sections = (names + m->names.len + 7) & ~UINT64_C(7);
	Elf64_Ehdr eh = made_header();
	Elf64_Phdr ph = {
		.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = MADE_TEXT_OFFSET, .p_vaddr = MADE_TEXT_VADDR,
		.p_filesz = m->text_bytes, .p_memsz = m->text_bytes, .p_align = 0x1000,
	};
	Elf64_Shdr sh[3] = {
		{},
		{ .sh_type = m->type, .sh_offset = syms, .sh_size = m->syms.len, .sh_link = 2,
		  .sh_entsize = sizeof(Elf64_Sym) },
		{ .sh_type = SHT_STRTAB, .sh_offset = names, .sh_size = m->names.len },
	};
	int fd = memfd_create("made", MFD_CLOEXEC);

	eh.e_shoff = sections;
	eh.e_shnum = 3;
	if (fd < 0 || pwrite(fd, &eh, sizeof(eh), 0) < 0 || pwrite(fd, &ph, sizeof(ph), sizeof(eh)) < 0 ||
	    pwrite(fd, m->syms.buf, m->syms.len, (off_t)syms) < 0 ||
	    pwrite(fd, m->names.buf, m->names.len, (off_t)names) < 0 || pwrite(fd, sh, sizeof(sh), (off_t)sections) < 0)
		return -1;
	return fd;
}
