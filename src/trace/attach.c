/* SPDX-License-Identifier: MIT */
/*
 * Probes on a file. uprobe_multi (kernel 6.6+): one link for all symbols, no CAP_SYS_ADMIN, cookies. libbpf has a call for
 * it from 1.3; we build with 1.1, so it is one raw system call. Elsewhere one perf uprobe a symbol.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "stack/elf_file.h"
#include "trace/calls.h"
#include "trace/skeleton.h"

#define ATTACH_UPROBE_MULTI 48 /* BPF_TRACE_UPROBE_MULTI */
#define UPROBE_MULTI_RETURN 1u /* BPF_F_UPROBE_MULTI_RETURN */

/* The part of union bpf_attr that BPF_LINK_CREATE reads for uprobe_multi, as in the kernel's uapi since 6.6. */
struct link_create_attr {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t cnt, multi_flags, pid, pad;
};

struct probes {
	int multi_fd[2 * CALL_MAX];
	size_t multi_len;
	struct bpf_link *link[2 * CALL_MAX];
	size_t link_len;
};

struct target { /* symbols found in one file, each address once */
	const char *path;
	uint64_t offset[CALL_MAX], cookie[CALL_MAX];
	uint32_t len;
};

static int link_multi(int prog_fd, const char *path, const uint64_t *offsets, const uint64_t *cookies, uint32_t n,
		      bool is_return)
{
	struct link_create_attr attr = {
		.prog_fd = (uint32_t)prog_fd,
		.attach_type = ATTACH_UPROBE_MULTI,
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)offsets,
		.cookies = (uintptr_t)cookies,
		.cnt = n,
		.multi_flags = is_return ? UPROBE_MULTI_RETURN : 0,
	};
	long fd = syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));

	return fd < 0 ? -errno : (int)fd;
}

/* A program of this attach type on a path that is no regular file: EBADF from a kernel that knows the link type. */
bool attach_multi_works(void)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = ATTACH_UPROBE_MULTI);
	struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	_cleanup_close_ int prog = bpf_prog_load(BPF_PROG_TYPE_KPROBE, NULL, "GPL", insns, ARRAY_SIZE(insns), &opts);
	uint64_t offset = 1;
	_cleanup_close_ int link = -1;

	if (prog < 0)
		return false;
	link = link_multi(prog, "/", &offset, NULL, 1, false);
	return link == -EBADF;
}

static void note_failed(struct probes_stats *st, const char *symbol)
{
	size_t len = strlen(st->failed);

	if (len + strlen(symbol) + 6 < sizeof(st->failed))
		snprintf(st->failed + len, sizeof(st->failed) - len, "%s%s", len ? " " : "", symbol);
	else if (len < 3 || strcmp(st->failed + len - 3, "...") != 0)
		snprintf(st->failed + MIN(len, sizeof(st->failed) - 4), 4, "...");
}

/* All at once; if that is refused, one by one, so that a single bad symbol is found and the others work. The failed ones
 * keep offset 0. */
static int attach_multi(struct probes *p, int prog_fd, struct target *tg, bool is_return, struct probes_stats *st)
{
	int fd = link_multi(prog_fd, tg->path, tg->offset, tg->cookie, tg->len, is_return), last = fd;

	if (fd >= 0) {
		p->multi_fd[p->multi_len++] = fd;
		return (int)tg->len;
	}
	int n = 0;

	for (uint32_t i = 0; i < tg->len; i++) {
		fd = link_multi(prog_fd, tg->path, &tg->offset[i], &tg->cookie[i], 1, is_return);
		if (fd < 0) {
			last = fd;
			note_failed(st, call_symbol((unsigned int)tg->cookie[i]));
			continue;
		}
		p->multi_fd[p->multi_len++] = fd;
		n++;
	}
	return n ? n : last;
}

static int attach_perf(struct probes *p, struct bpf_program *prog, struct target *tg, bool is_return,
		       struct probes_stats *st)
{
	int n = 0, last = -EINVAL;

	for (uint32_t i = 0; i < tg->len; i++) {
		LIBBPF_OPTS(bpf_uprobe_opts, opts, .bpf_cookie = tg->cookie[i], .retprobe = is_return);
		struct bpf_link *l = bpf_program__attach_uprobe_opts(prog, -1, tg->path, tg->offset[i], &opts);

		if (!l) {
			last = -errno;
			note_failed(st, call_symbol((unsigned int)tg->cookie[i]));
			continue;
		}
		p->link[p->link_len++] = l;
		n++;
	}
	return n ? n : last;
}

static int attach_side(struct tracer *t, struct probes *p, struct target *tg, bool is_return, struct probes_stats *st)
{
	struct bpf_program *prog = t->options.bare ? t->skel->progs.bare_probe :
				   is_return	   ? t->skel->progs.return_probe :
						     t->skel->progs.entry_probe;

	if (!tg->len)
		return 0;
	if (t->is_multi)
		return attach_multi(p, bpf_program__fd(prog), tg, is_return, st);
	return attach_perf(p, prog, tg, is_return, st);
}

static bool is_taken(const uint64_t *offsets, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (offsets[k] == offsets[i])
			return true;
	return false;
}

int tracer_attach(struct tracer *t, int fd, bool teachers, struct probes **ret, struct probes_stats *ret_stats)
{
	_cleanup_(probes_freep) struct probes *p = calloc(1, sizeof(*p));
	_cleanup_(elf_file_freep) struct elf_file *elf = NULL;
	struct target entry = {}, back = {};
	struct probes_stats st = { .wanted = cuda_calls_len };
	const char *names[CALL_MAX];
	uint64_t offsets[CALL_MAX] = {};
	char path[64];
	int r, own = dup(fd);

	if (!p || own < 0) {
		if (own >= 0)
			close(own);
		return -ENOMEM;
	}
	r = elf_file_open(own, &elf);
	if (r < 0)
		return r;
	for (size_t i = 0; i < cuda_calls_len; i++)
		names[i] = cuda_calls[i].symbol;
	r = elf_file_functions(elf, names, cuda_calls_len, 8000000, offsets);
	if (r < 0)
		return r;
	/* The fd leads to the inode whatever became of its name since. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	entry.path = back.path = path;
	for (size_t i = 0; i < cuda_calls_len; i++) {
		if (!offsets[i] || teachers != !!(cuda_calls[i].how & CALL_TEACHER))
			continue;
		if (is_taken(offsets, i)) /* another name of the same code: one probe */
			continue;
		st.found++;
		entry.offset[entry.len] = offsets[i];
		entry.cookie[entry.len++] = i;
		if (cuda_calls[i].how & CALL_ENTRY_ONLY)
			continue;
		back.offset[back.len] = offsets[i];
		back.cookie[back.len++] = i;
	}
	if (!st.found)
		return -ENOENT;
	/* Returns first: an entry whose return is not watched would look like a call that never ends. */
	r = attach_side(t, p, &back, true, &st);
	if (r >= 0)
		r = attach_side(t, p, &entry, false, &st);
	if (r < 0)
		return r;
	st.attached = (size_t)r;
	*ret_stats = st;
	*ret = TAKE_PTR(p);
	return 0;
}

void probes_free(struct probes *p)
{
	if (!p)
		return;
	/* Entries first, they were attached last: an entry whose return is not watched looks like a call that never ends. */
	for (size_t i = p->multi_len; i-- > 0;)
		close(p->multi_fd[i]);
	for (size_t i = p->link_len; i-- > 0;)
		bpf_link__destroy(p->link[i]);
	free(p);
}
