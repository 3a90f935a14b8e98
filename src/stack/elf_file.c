/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stack/elf_file.h"
#include "stack/elf_layout.h"

#if defined(__x86_64__)
#define ELF_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define ELF_MACHINE EM_AARCH64
#else
#error "no ELF machine number for this architecture"
#endif

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ELF_DATA ELFDATA2LSB
#else
#define ELF_DATA ELFDATA2MSB
#endif

#define SEGMENTS_MAX 1170	  /* the kernel refuses program headers beyond 64 KiB */
#define SECTIONS_MAX 65536	  /* far above any linked file */
#define NOTES_MAX_BYTES 16384	  /* of one PT_NOTE or note section */
#define NOTES_MAX 16		  /* of these read */

ssize_t elf_read_at(const struct elf_file *f, void *buf, size_t len, uint64_t offset)
{
	size_t have = 0;

	while (have < len) {
		ssize_t n;

		if (offset > INT64_MAX - len)
			return 0;
		n = pread(f->fd, (char *)buf + have, len - have, (off_t)(offset + have));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

static int read_exact(const struct elf_file *f, void *buf, size_t len, uint64_t offset)
{
	ssize_t n = elf_read_at(f, buf, len, offset);

	if (n < 0)
		return (int)n;
	return (size_t)n == len ? 0 : -ENOEXEC;
}

static int read_header(struct elf_file *f, Elf64_Ehdr *ret)
{
	Elf64_Ehdr eh;
	int r = read_exact(f, &eh, sizeof(eh), 0);

	if (r < 0)
		return r;
	if (memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 || eh.e_ident[EI_CLASS] != ELFCLASS64 ||
	    eh.e_ident[EI_DATA] != ELF_DATA || eh.e_machine != ELF_MACHINE)
		return -ENOEXEC;
	if (eh.e_type != ET_EXEC && eh.e_type != ET_DYN)
		return -ENOEXEC;
	if (eh.e_phentsize != sizeof(Elf64_Phdr) || eh.e_phnum == 0 || eh.e_phnum > SEGMENTS_MAX)
		return -ENOEXEC;
	*ret = eh;
	return 0;
}

static uint64_t note_round(uint64_t n, uint64_t align)
{
	return (n + align - 1) & ~(align - 1);
}

static int read_build_id(struct elf_file *f, uint64_t offset, uint64_t bytes, uint64_t alignment)
{
	const uint64_t align = alignment == 8 ? 8 : 4;
	const size_t len = (size_t)MIN(bytes, NOTES_MAX_BYTES);
	_cleanup_free_ uint8_t *notes = malloc(len ? len : 1);
	ssize_t n;

	if (!notes)
		return -ENOMEM;
	n = elf_read_at(f, notes, len, offset);
	if (n < 0)
		return (int)n;

	for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= (uint64_t)n;) {
		Elf64_Nhdr nh;
		uint64_t name = at + sizeof(nh), desc, end;

		/* 32-bit sizes: the 64-bit sums cannot wrap. */
		memcpy(&nh, notes + at, sizeof(nh));
		desc = note_round(name + nh.n_namesz, align);
		end = desc + nh.n_descsz;
		if (end > (uint64_t)n)
			break;
		if (nh.n_type == NT_GNU_BUILD_ID && nh.n_namesz == 4 && memcmp(notes + name, "GNU", 4) == 0) {
			f->build_id_len = MIN((size_t)nh.n_descsz, sizeof(f->build_id));
			memcpy(f->build_id, notes + desc, f->build_id_len);
			break;
		}
		at = note_round(end, align);
	}
	return 0;
}

static int read_segments(struct elf_file *f, const Elf64_Ehdr *eh, Elf64_Phdr *ret_dynamic)
{
	const size_t count = eh->e_phnum;
	_cleanup_free_ Elf64_Phdr *ph = calloc(count, sizeof(*ph));
	size_t notes = 0;
	int r;

	f->segments = calloc(count, sizeof(*f->segments));
	if (!ph || !f->segments)
		return -ENOMEM;
	r = read_exact(f, ph, count * sizeof(*ph), eh->e_phoff);
	if (r < 0)
		return r;

	for (size_t i = 0; i < count; i++) {
		if (ph[i].p_type == PT_LOAD) {
			/* What would wrap around cannot have been mapped. */
			if (ph[i].p_vaddr > UINT64_MAX - ph[i].p_filesz || ph[i].p_offset > UINT64_MAX - ph[i].p_filesz)
				continue;
			f->segments[f->segment_count++] = (struct elf_segment){
				.vaddr = ph[i].p_vaddr,
				.offset = ph[i].p_offset,
				.file_bytes = ph[i].p_filesz,
				.is_exec = ph[i].p_flags & PF_X,
			};
		} else if (ph[i].p_type == PT_NOTE && !f->build_id_len && notes++ < NOTES_MAX) {
			r = read_build_id(f, ph[i].p_offset, ph[i].p_filesz, ph[i].p_align);
			if (r < 0)
				return r;
		} else if (ph[i].p_type == PT_DYNAMIC) {
			*ret_dynamic = ph[i];
		}
	}
	return 0;
}

static int read_section(const struct elf_file *f, const Elf64_Ehdr *eh, uint64_t index, Elf64_Shdr *ret)
{
	if (eh->e_shoff > UINT64_MAX - index * sizeof(*ret))
		return -ENOEXEC;
	return read_exact(f, ret, sizeof(*ret), eh->e_shoff + index * sizeof(*ret));
}

static void table_from_section(const struct elf_file *f, const Elf64_Ehdr *eh, const Elf64_Shdr *sh, uint64_t sections,
			       struct elf_table *ret)
{
	Elf64_Shdr names;

	if (ret->count || sh->sh_entsize != sizeof(Elf64_Sym) || sh->sh_link >= sections)
		return;
	if (read_section(f, eh, sh->sh_link, &names) < 0 || names.sh_type != SHT_STRTAB)
		return;
	ret->offset = sh->sh_offset;
	ret->count = sh->sh_size / sizeof(Elf64_Sym);
	ret->names_offset = names.sh_offset;
	ret->names_bytes = names.sh_size;
}

/* A file whose section headers are gone or damaged is read without them; only a failing disk is an error. */
static int read_sections(struct elf_file *f, const Elf64_Ehdr *eh)
{
	enum { BATCH = ELF_CHUNK / sizeof(Elf64_Shdr) };
	_cleanup_free_ Elf64_Shdr *sh = NULL;
	uint64_t count = eh->e_shnum, versions = 0;
	Elf64_Shdr first = {};
	size_t notes = 0; /* a debug file may lie about its segments */
	int r = 0;

	if (!eh->e_shoff || eh->e_shentsize != sizeof(Elf64_Shdr))
		return 0;
	/* From 0xff00 sections on the number is in the first one's size, and the index of the names in its link. */
	if (read_section(f, eh, 0, &first) == 0 && !count)
		count = first.sh_size;
	if (count > SECTIONS_MAX || eh->e_shoff > UINT64_MAX - count * sizeof(*sh))
		return 0;
	f->sections_offset = eh->e_shoff;
	f->section_count = count;
	f->section_names = eh->e_shstrndx == SHN_XINDEX ? first.sh_link : eh->e_shstrndx;
	sh = calloc(MIN(count, BATCH), sizeof(*sh));
	if (!sh)
		return -ENOMEM;

	for (uint64_t at = 0; at < count;) {
		size_t want = (size_t)MIN(count - at, BATCH);
		ssize_t n = elf_read_at(f, sh, want * sizeof(*sh), eh->e_shoff + at * sizeof(*sh));

		if (n < 0)
			return (int)n;
		for (size_t i = 0; i < (size_t)n / sizeof(*sh); i++) {
			if (sh[i].sh_type == SHT_SYMTAB)
				table_from_section(f, eh, &sh[i], count, &f->symtab);
			else if (sh[i].sh_type == SHT_DYNSYM)
				table_from_section(f, eh, &sh[i], count, &f->dynsym);
			else if (sh[i].sh_type == SHT_GNU_versym)
				versions = sh[i].sh_offset;
			else if (sh[i].sh_type == SHT_NOTE && !f->build_id_len && notes++ < NOTES_MAX)
				r = read_build_id(f, sh[i].sh_offset, sh[i].sh_size, sh[i].sh_addralign);
			if (r < 0)
				return r;
		}
		if ((size_t)n < want * sizeof(*sh))
			break;
		at += want;
	}
	if (f->dynsym.count)
		f->dynsym.versions_offset = versions;
	return 0;
}

int elf_file_open(int fd, struct elf_file **ret)
{
	_cleanup_(elf_file_freep) struct elf_file *f = NULL;
	Elf64_Phdr dynamic = {};
	Elf64_Ehdr eh;
	struct stat st;
	int r;

	f = calloc(1, sizeof(*f));
	if (!f) {
		(void)close(fd);
		return -ENOMEM;
	}
	f->fd = fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOEXEC;

	r = read_header(f, &eh);
	if (r < 0)
		return r;
	r = read_segments(f, &eh, &dynamic);
	if (r < 0)
		return r;
	r = read_sections(f, &eh);
	if (r < 0)
		return r;
	if (!f->dynsym.count && dynamic.p_type == PT_DYNAMIC) {
		r = elf_dynamic_read(f, dynamic.p_offset, dynamic.p_filesz, &f->dynsym);
		if (r < 0)
			return r;
	}
	*ret = TAKE_PTR(f);
	return 0;
}

void elf_file_free(struct elf_file *f)
{
	if (!f)
		return;
	if (f->fd >= 0)
		(void)close(f->fd);
	free(f->segments);
	free(f);
}

size_t elf_file_build_id(const struct elf_file *f, uint8_t ret[64])
{
	memcpy(ret, f->build_id, f->build_id_len);
	return f->build_id_len;
}

const struct elf_segment *elf_segment_at(const struct elf_file *f, uint64_t vaddr)
{
	const struct elf_segment *found = NULL;

	for (size_t i = 0; i < f->segment_count; i++) {
		const struct elf_segment *s = &f->segments[i];

		if (vaddr >= s->vaddr && vaddr - s->vaddr < s->file_bytes && (!found || (s->is_exec && !found->is_exec)))
			found = s;
	}
	return found;
}

int elf_file_vaddr(const struct elf_file *f, uint64_t offset, uint64_t *ret_vaddr)
{
	const struct elf_segment *found = NULL;

	/* Segments may share a page of the file; code is what callers ask for. */
	for (size_t i = 0; i < f->segment_count; i++) {
		const struct elf_segment *s = &f->segments[i];

		if (offset >= s->offset && offset - s->offset < s->file_bytes &&
		    (!found || (s->is_exec && !found->is_exec)))
			found = s;
	}
	if (!found)
		return -ENOENT;
	*ret_vaddr = found->vaddr + (offset - found->offset);
	return 0;
}

int elf_file_offset(const struct elf_file *f, uint64_t vaddr, uint64_t *ret_offset)
{
	const struct elf_segment *s = elf_segment_at(f, vaddr);

	if (!s)
		return -ENOENT;
	*ret_offset = s->offset + (vaddr - s->vaddr);
	return 0;
}
