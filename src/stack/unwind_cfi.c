/* SPDX-License-Identifier: MIT */
#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stack/elf_layout.h"
#include "stack/unwind_cfi.h"

#define SEGMENTS_MAX 1170     /* the kernel refuses program headers beyond 64 KiB */
#define SECTIONS_MAX 65536    /* far above any linked file */
#define SEARCH_BLOCK 256      /* entries of the table read at once at the end of a search */
#define INDEX_TRIES 3	      /* that run out of the work other files of a stack left over, until we give a file up */
#define PROGRAM_WEIGHT 16     /* an instruction's byte costs so much more time than one only read */

#ifndef SHT_X86_64_UNWIND
#define SHT_X86_64_UNWIND 0x70000001
#endif

struct cfi {
	/* .eh_frame_hdr's search table; count 0 = none */
	uint64_t table_vaddr, count;
	uint64_t data_vaddr;	/* what its numbers are relative to */
	unsigned int word_size; /* 4 or 8 */
	/* .eh_frame, for when there is no table; len 0 = none */
	uint64_t frames_vaddr, frames_len;
	struct cfi_place *index;
	size_t index_len;
	int index_error;
	unsigned int index_tries; /* that ran out of work */
};

int cfi_read(const struct elf_file *f, uint64_t vaddr, void *buf, size_t len, uint64_t *work)
{
	const struct elf_segment *s = elf_segment_at(f, vaddr);
	ssize_t n;

	if (!s)
		return -EBADMSG;
	len = (size_t)MIN((uint64_t)len, s->file_bytes - (vaddr - s->vaddr));
	if (*work < len)
		return -ENOBUFS;
	*work -= len;
	n = elf_read_at(f, buf, len, s->offset + (vaddr - s->vaddr));
	return n == -ENOMEM ? -ENOMEM : n < 0 ? -EBADMSG : (int)n;
}

uint64_t cfi_pointer(struct bytes *b, uint8_t encoding, uint64_t at_vaddr, uint64_t data_vaddr)
{
	uint64_t v;

	if (encoding == CFI_OMIT)
		return 0;
	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		v = bytes_u64(b);
		break;
	case DW_EH_PE_uleb128:
		v = bytes_uleb(b);
		break;
	case DW_EH_PE_sleb128:
		v = (uint64_t)bytes_sleb(b);
		break;
	case DW_EH_PE_udata2:
		v = bytes_u16(b);
		break;
	case DW_EH_PE_sdata2:
		v = (uint64_t)(int64_t)bytes_s16(b);
		break;
	case DW_EH_PE_udata4:
		v = bytes_u32(b);
		break;
	case DW_EH_PE_sdata4:
		v = (uint64_t)(int64_t)bytes_s32(b);
		break;
	default:
		b->is_bad = true;
		return 0;
	}
	switch (encoding & 0x70) {
	case 0:
		return v;
	case DW_EH_PE_pcrel:
		return v + at_vaddr;
	case DW_EH_PE_datarel:
		return v + data_vaddr;
	default:
		b->is_bad = true;
		return 0;
	}
}

void cfi_entry_done(struct cfi_entry *e)
{
	free(e->large);
	e->large = NULL;
}

/* The first bytes are in e->small, n of them; more is read if the entry is longer. */
static int entry_bytes(const struct elf_file *f, struct cfi_entry *e, size_t n, uint64_t len, uint64_t *work,
		       const uint8_t **ret)
{
	int r;

	*ret = e->small;
	if (len <= n)
		return 0;
	if (n < sizeof(e->small) || len > CFI_ENTRY_MAX)
		return -EBADMSG;
	e->large = malloc((size_t)len);
	if (!e->large)
		return -ENOMEM;
	r = cfi_read(f, e->vaddr, e->large, (size_t)len, work);
	if (r < 0)
		return r;
	*ret = e->large;
	return (uint64_t)r == len ? 0 : -EBADMSG;
}

/* e->large is the caller's to free in any case. */
int cfi_entry_read(const struct elf_file *f, uint64_t vaddr, uint64_t *work, struct cfi_entry *e)
{
	uint64_t len, id, id_at;
	const uint8_t *p;
	struct bytes b;
	int n, r;

	e->large = NULL;
	e->vaddr = vaddr;
	n = cfi_read(f, vaddr, e->small, sizeof(e->small), work);
	if (n < 0)
		return n;
	b = (struct bytes){ .p = e->small, .end = e->small + n };
	len = bytes_u32(&b);
	if (len == 0)
		return b.is_bad ? -EBADMSG : -ENOENT;
	if (len == UINT32_MAX)
		len = bytes_u64(&b);
	id_at = (uint64_t)(b.p - e->small);
	if (b.is_bad || len < 4 || len > CFI_ENTRY_MAX - id_at)
		return -EBADMSG;
	r = entry_bytes(f, e, (size_t)n, id_at + len, work, &p);
	if (r < 0)
		return r;

	/* Four bytes even when the length takes eight: so it is in .eh_frame. */
	e->body = (struct bytes){ .p = p + id_at, .end = p + id_at + len };
	id = bytes_u32(&e->body);
	e->cie_vaddr = id ? vaddr + id_at - id : 0;
	e->body_vaddr = vaddr + id_at + 4;
	e->next_vaddr = vaddr + id_at + len;
	return 0;
}

/* z: length of the data, L: encoding of what FDEs have for exceptions, P: personality, R: encoding of addresses in
 * FDEs, S: signal frame, B and G: arm64's keys and memory tags. */
static int parse_augmentation(const char *letters, struct bytes *b, struct cfi_cie *cie)
{
	struct bytes data = *b;
	uint64_t len;

	if (letters[0] != 'z')
		return letters[0] ? -EBADMSG : 0;
	cie->has_length = true;
	len = bytes_uleb(&data);
	b->p = data.p;
	if (!bytes_take(b, len) || data.is_bad)
		return -EBADMSG;
	data.end = b->p;
	for (const char *l = letters + 1; *l; l++) {
		if (*l == 'L')
			(void)bytes_u8(&data);
		else if (*l == 'R')
			cie->pointer_encoding = bytes_u8(&data);
		else if (*l == 'P')
			(void)cfi_pointer(&data, bytes_u8(&data) & 0x0f, 0, 0);
		else if (*l == 'S')
			cie->is_signal = true;
		else if (*l != 'B' && *l != 'G')
			return -EBADMSG;
	}
	return data.is_bad ? -EBADMSG : 0;
}

int cfi_cie_parse(const struct cfi_entry *e, struct cfi_cie *ret)
{
	struct cfi_cie cie = { .pointer_encoding = DW_EH_PE_absptr };
	struct bytes b = e->body;
	const char *letters;
	uint64_t ra;
	uint8_t version;

	if (e->cie_vaddr)
		return -EBADMSG;
	version = bytes_u8(&b);
	letters = (const char *)b.p;
	if ((version != 1 && version != 3 && version != 4) || !memchr(b.p, 0, (size_t)(b.end - b.p)))
		return -EBADMSG;
	b.p += strlen(letters) + 1;
	if (version == 4) {
		const uint8_t address_size = bytes_u8(&b), segment_size = bytes_u8(&b);

		if (address_size != 8 || segment_size != 0)
			return -EBADMSG;
	}
	cie.code_align = bytes_uleb(&b);
	cie.data_align = bytes_sleb(&b);
	ra = version == 1 ? bytes_u8(&b) : bytes_uleb(&b);
	if (b.is_bad || ra != CFI_DWARF_RA || parse_augmentation(letters, &b, &cie) < 0)
		return -EBADMSG;
	cie.program = b;
	cie.program_vaddr = e->body_vaddr + (uint64_t)(b.p - e->body.p);
	*ret = cie;
	return 0;
}

/* The caller goes on where the link register leads: one that is not saved yet is still that. What the caller has in the
 * register itself is of no use, a call changes it; only a signal does not. */
static void take_link(struct cfi_row *row)
{
#if defined(__aarch64__)
	const struct cfi_rule link = row->regs[CFI_LR];

	row->regs[CFI_RA] = link.kind == CFI_UNSPECIFIED || link.kind == CFI_SAME ?
				    (struct cfi_rule){ .kind = CFI_REGISTER, .reg = CFI_LR } :
				    link;
	if (!row->is_signal)
		row->regs[CFI_LR] = (struct cfi_rule){ .kind = CFI_UNDEFINED };
#else
	(void)row;
#endif
}

/* Runs the CIE's and the FDE's program for vaddr. */
static int run_fde(const struct cfi_cie *cie, const struct cfi_entry *fde, uint64_t vaddr, uint64_t *work,
		   struct cfi_row *ret)
{
	struct cfi_row row = { .fde_vaddr = fde->vaddr, .is_signal = cie->is_signal };
	struct cfi_program program = { .cie = cie, .target = vaddr };
	struct bytes b = fde->body;
	uint64_t range, cost;
	int r;

	program.start = cfi_pointer(&b, cie->pointer_encoding, fde->body_vaddr, 0);
	range = cfi_pointer(&b, cie->pointer_encoding & 0x0f, 0, 0);
	if (cie->has_length)
		(void)bytes_take(&b, bytes_uleb(&b));
	if (b.is_bad)
		return -EBADMSG;
	if (vaddr < program.start || vaddr - program.start >= range)
		return -ENOENT;

	cost = PROGRAM_WEIGHT * (uint64_t)((b.end - b.p) + (cie->program.end - cie->program.p));
	if (*work < cost)
		return -ENOBUFS;
	*work -= cost;
	program.code = cie->program;
	program.code_vaddr = cie->program_vaddr;
	r = cfi_run(&program, &row);
	if (r < 0)
		return r;
	program.code = b;
	program.code_vaddr = fde->body_vaddr + (uint64_t)(b.p - fde->body.p);
	r = cfi_run(&program, &row);
	if (r < 0)
		return r;
	if (row.cfa.kind == CFI_UNSPECIFIED)
		return -EBADMSG;
	take_link(&row);
	*ret = row;
	return 0;
}

static int find_in_fde(const struct elf_file *f, uint64_t fde_vaddr, uint64_t vaddr, uint64_t *work,
		       struct cfi_row *ret)
{
	_cleanup_(cfi_entry_done) struct cfi_entry fde = { .large = NULL }, cie = { .large = NULL };
	struct cfi_cie parsed;
	int r;

	r = cfi_entry_read(f, fde_vaddr, work, &fde);
	if (r == 0 && !fde.cie_vaddr)
		r = -EBADMSG;
	if (r == 0)
		r = cfi_entry_read(f, fde.cie_vaddr, work, &cie);
	if (r == 0)
		r = cfi_cie_parse(&cie, &parsed);
	if (r == -ENOENT) /* an end of the list where an entry should be */
		r = -EBADMSG;
	if (r < 0)
		return r;
	return run_fde(&parsed, &fde, vaddr, work, ret);
}

static uint64_t table_word(const struct cfi *c, const uint8_t *p)
{
	struct bytes b = { .p = p, .end = p + c->word_size };
	const uint8_t format = c->word_size == 4 ? DW_EH_PE_sdata4 : DW_EH_PE_sdata8;

	return cfi_pointer(&b, format | DW_EH_PE_datarel, 0, c->data_vaddr);
}

/* The FDE that begins last at or before vaddr, by the table: pairs of (start, FDE), ascending. */
static int search_table(const struct cfi *c, const struct elf_file *f, uint64_t vaddr, uint64_t *work, uint64_t *ret)
{
	const uint64_t pair = 2 * c->word_size;
	uint8_t block[SEARCH_BLOCK * 16];
	uint64_t low = 0, high = c->count;
	bool is_found = false;
	size_t want;
	int r;

	while (high - low > SEARCH_BLOCK) {
		const uint64_t middle = low + (high - low) / 2;

		r = cfi_read(f, c->table_vaddr + middle * pair, block, c->word_size, work);
		if (r < 0 || (unsigned int)r != c->word_size)
			return r < 0 ? r : -EBADMSG;
		if (table_word(c, block) <= vaddr)
			low = middle;
		else
			high = middle;
	}
	want = (size_t)((high - low) * pair);
	r = cfi_read(f, c->table_vaddr + low * pair, block, want, work);
	if (r < 0 || (size_t)r != want)
		return r < 0 ? r : -EBADMSG;
	for (size_t at = 0; at < want && table_word(c, block + at) <= vaddr; at += pair) {
		*ret = table_word(c, block + at + c->word_size);
		is_found = true;
	}
	return is_found ? 0 : -ENOENT;
}

static int search_index(const struct cfi *c, uint64_t vaddr, uint64_t *ret)
{
	size_t low = 0, high = c->index_len;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (c->index[middle].start <= vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return -ENOENT;
	*ret = c->index[low - 1].fde_vaddr;
	return 0;
}

int cfi_find(struct cfi *c, const struct elf_file *f, uint64_t vaddr, uint64_t *work, struct cfi_row *ret)
{
	uint64_t fde_vaddr = 0;
	int r;

	if (c->count) {
		r = search_table(c, f, vaddr, work, &fde_vaddr);
	} else if (c->frames_len) {
		if (c->index_error)
			return c->index_error;
		r = c->index ? 0 : cfi_index(f, c->frames_vaddr, c->frames_len, work, &c->index, &c->index_len);
		if (r == -EBADMSG || r == -E2BIG || (r == -ENOBUFS && ++c->index_tries == INDEX_TRIES))
			r = c->index_error = -EBADMSG;
		if (r == 0)
			r = search_index(c, vaddr, &fde_vaddr);
	} else {
		return -ENOENT;
	}
	if (r < 0)
		return r;
	return find_in_fde(f, fde_vaddr, vaddr, work, ret);
}

/* version 1, encodings of: pointer to .eh_frame, count, table; the three. */
static int parse_header(struct cfi *c, const struct elf_file *f, const Elf64_Phdr *ph, uint64_t *work)
{
	uint8_t head[4 + 3 * 10], frames_encoding, count_encoding, table_encoding;
	const struct elf_segment *s;
	struct bytes b;
	uint64_t frames, count, used;
	int n;

	n = cfi_read(f, ph->p_vaddr, head, sizeof(head), work);
	if (n < 0)
		return n;
	b = (struct bytes){ .p = head, .end = head + n };
	if (bytes_u8(&b) != 1)
		return 0;
	frames_encoding = bytes_u8(&b);
	count_encoding = bytes_u8(&b);
	table_encoding = bytes_u8(&b);
	frames = cfi_pointer(&b, frames_encoding, ph->p_vaddr + 4, ph->p_vaddr);
	if (b.is_bad)
		return 0;
	s = frames_encoding == CFI_OMIT ? NULL : elf_segment_at(f, frames);
	if (s) {
		c->frames_vaddr = frames;
		c->frames_len = s->file_bytes - (frames - s->vaddr); /* a length of 0 in the list ends it before */
	}
	count = cfi_pointer(&b, count_encoding & 0x0f, 0, 0);
	used = (uint64_t)(b.p - head);
	if (b.is_bad || count_encoding == CFI_OMIT || used > ph->p_filesz)
		return 0;
	if (table_encoding == (DW_EH_PE_datarel | DW_EH_PE_sdata4))
		c->word_size = 4;
	else if (table_encoding == (DW_EH_PE_datarel | DW_EH_PE_sdata8))
		c->word_size = 8;
	else
		return 0;
	c->data_vaddr = ph->p_vaddr;
	c->table_vaddr = ph->p_vaddr + used;
	c->count = MIN(count, (ph->p_filesz - used) / (2 * c->word_size));
	return 0;
}

static bool is_frames_section(const struct elf_file *f, const Elf64_Shdr *sh, uint64_t names_offset)
{
	char name[sizeof(".eh_frame")];

	if (sh->sh_type != SHT_PROGBITS && sh->sh_type != SHT_X86_64_UNWIND)
		return false;
	return elf_read_at(f, name, sizeof(name), names_offset + sh->sh_name) == (ssize_t)sizeof(name) &&
	       memcmp(name, ".eh_frame", sizeof(name)) == 0;
}

/* A file without .eh_frame_hdr: by the name of the section, if it still has any. */
static int find_section(struct cfi *c, const struct elf_file *f, const Elf64_Ehdr *eh, uint64_t *work)
{
	const size_t bytes = eh->e_shnum * sizeof(Elf64_Shdr);
	_cleanup_free_ Elf64_Shdr *sh = NULL;
	ssize_t n;

	if (!eh->e_shoff || eh->e_shentsize != sizeof(*sh) || eh->e_shstrndx >= eh->e_shnum)
		return 0;
	if (*work < 2 * bytes)
		return -ENOBUFS;
	*work -= 2 * bytes;
	sh = malloc(bytes);
	if (!sh)
		return -ENOMEM;
	n = elf_read_at(f, sh, bytes, eh->e_shoff);
	if (n < 0 || (size_t)n != bytes)
		return 0;
	for (size_t i = 0; i < eh->e_shnum; i++) {
		if (!is_frames_section(f, &sh[i], sh[eh->e_shstrndx].sh_offset))
			continue;
		c->frames_vaddr = sh[i].sh_addr;
		c->frames_len = sh[i].sh_size;
		break;
	}
	return 0;
}

int cfi_open(const struct elf_file *f, uint64_t *work, struct cfi **ret)
{
	_cleanup_(cfi_freep) struct cfi *c = calloc(1, sizeof(*c));
	_cleanup_free_ Elf64_Phdr *ph = NULL;
	Elf64_Ehdr eh;
	int r;

	if (!c)
		return -ENOMEM;
	if (elf_read_at(f, &eh, sizeof(eh), 0) != (ssize_t)sizeof(eh) || eh.e_phentsize != sizeof(*ph) ||
	    eh.e_phnum == 0 || eh.e_phnum > SEGMENTS_MAX)
		return -EBADMSG;
	ph = calloc(eh.e_phnum, sizeof(*ph));
	if (!ph)
		return -ENOMEM;
	if (elf_read_at(f, ph, eh.e_phnum * sizeof(*ph), eh.e_phoff) != (ssize_t)(eh.e_phnum * sizeof(*ph)))
		return -EBADMSG;
	for (size_t i = 0; i < eh.e_phnum; i++) {
		if (ph[i].p_type != PT_GNU_EH_FRAME)
			continue;
		r = parse_header(c, f, &ph[i], work);
		if (r < 0 && r != -EBADMSG)
			return r;
		break;
	}
	if (!c->count && !c->frames_len) {
		r = find_section(c, f, &eh, work);
		if (r < 0)
			return r;
	}
	*ret = TAKE_PTR(c);
	return 0;
}

void cfi_free(struct cfi *c)
{
	if (!c)
		return;
	free(c->index);
	free(c);
}

size_t cfi_index_bytes(const struct cfi *c)
{
	return c->index_len * sizeof(*c->index);
}

void cfi_drop_index(struct cfi *c)
{
	free(TAKE_PTR(c->index));
	c->index_len = 0;
}

int cfi_expression(const struct cfi_row *row, const struct cfi_rule *rule, const struct elf_file *f, uint8_t *buf,
		   size_t max)
{
	uint64_t work = max;
	int n;

	if (rule->expr_len > max)
		return -EBADMSG;
	n = cfi_read(f, row->fde_vaddr + (uint64_t)(int64_t)rule->value, buf, rule->expr_len, &work);
	return n == rule->expr_len ? n : -EBADMSG;
}

int cfi_find_signal(const struct elf_file *f, uint64_t offset, struct cfi_row *ret)
{
#if defined(__aarch64__)
	/* mov x8, #139 (rt_sigreturn); svc #0 */
	static const uint8_t code[] = { 0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4 };
	/* At sp lies struct rt_sigframe: 128 bytes of siginfo, in the ucontext behind it the registers x0, ... at 184. */
	const int32_t regs = 128 + 184;
	uint8_t have[sizeof(code)];

	if (offset % 4 != 0 || elf_read_at(f, have, sizeof(have), offset) != (ssize_t)sizeof(have) ||
	    memcmp(have, code, sizeof(code)) != 0)
		return -ENOENT;
	*ret = (struct cfi_row){
		.cfa = { .kind = CFI_AT_REGISTER, .reg = CFI_SP, .value = regs + 31 * 8 },
		.regs[CFI_BP] = { .kind = CFI_AT_REGISTER, .reg = CFI_SP, .value = regs + 29 * 8 },
		.regs[CFI_LR] = { .kind = CFI_AT_REGISTER, .reg = CFI_SP, .value = regs + 30 * 8 },
		.regs[CFI_RA] = { .kind = CFI_AT_REGISTER, .reg = CFI_SP, .value = regs + 32 * 8 },
		.is_signal = true,
	};
	return 0;
#else
	return -ENOENT;
#endif
}
