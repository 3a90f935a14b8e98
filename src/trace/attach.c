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
#include "trace/search.h"
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
	int *multi_fd;
	size_t multi_len;
	struct bpf_link **link;
	size_t link_len; /* both have room for all that search_file() found */
};

struct target { /* symbols found in one file, each address once */
	const char *path;
	uint64_t *offset, *cookie;
	bool *is_refused;
	uint32_t len;
};

static void target_done(struct target *tg)
{
	free(tg->offset);
	free(tg->cookie);
	free(tg->is_refused);
}

static int target_init(struct target *tg, const char *path, size_t n)
{
	tg->path = path;
	tg->offset = calloc(n, sizeof(*tg->offset));
	tg->cookie = calloc(n, sizeof(*tg->cookie));
	tg->is_refused = calloc(n, sizeof(*tg->is_refused));
	return tg->offset && tg->cookie && tg->is_refused ? 0 : -ENOMEM;
}

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

/* All at once; if that is refused, one by one, so that a single bad symbol is found and the others work. */
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
			tg->is_refused[i] = true;
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
			tg->is_refused[i] = true;
			note_failed(st, call_symbol((unsigned int)tg->cookie[i]));
			continue;
		}
		p->link[p->link_len++] = l;
		n++;
	}
	return n ? n : last;
}

enum side {
	SIDE_ENTRY,
	SIDE_RETURN, /* where the caller goes on */
	SIDE_END,    /* at the function's return instructions, see returns.h */
};

static int attach_side(struct tracer *t, struct probes *p, struct target *tg, enum side side, struct probes_stats *st)
{
	struct bpf_program *prog = t->options.bare     ? t->skel->progs.bare_probe :
				   side != SIDE_ENTRY ? t->skel->progs.return_probe :
							 t->skel->progs.entry_probe;
	const bool is_return = side == SIDE_RETURN;

	if (!tg->len)
		return 0;
	if (t->is_multi)
		return attach_multi(p, bpf_program__fd(prog), tg, is_return, st);
	return attach_perf(p, prog, tg, is_return, st);
}

static int find_functions(const struct attach_file *f, struct search *ret)
{
	_cleanup_(elf_file_freep) struct elf_file *elf = NULL;
	int r, own = dup(f->fd);

	if (own < 0)
		return -errno;
	r = elf_file_open(own, &elf);
	return r < 0 ? r : search_file(elf, f->path, f->is_named, f->teachers, ret);
}

static void take_stats(const struct search *s, struct probes_stats *st)
{
	*st = (struct probes_stats){ .wanted = s->wanted, .found = s->len, .unknown_count = s->unknown_count,
				     .over_count = s->over_count, .is_cut = s->is_cut };
	snprintf(st->unknown, sizeof(st->unknown), "%s", s->unknown);
	snprintf(st->unmatched, sizeof(st->unmatched), "%s", s->unmatched);
	snprintf(st->over, sizeof(st->over), "%s", s->over);
	snprintf(st->endless, sizeof(st->endless), "%s", s->endless);
}

struct sides {
	struct target entry, back, end;
};

static void sides_done(struct sides *s)
{
	target_done(&s->entry);
	target_done(&s->back);
	target_done(&s->end);
}

static void target_add(struct target *tg, const struct search_hit *h)
{
	tg->offset[tg->len] = h->offset;
	tg->cookie[tg->len++] = h->row;
}

static int make_sides(const struct search *s, const char *path, struct sides *sides)
{
	int r = target_init(&sides->entry, path, s->len);

	if (r == 0)
		r = target_init(&sides->back, path, s->len);
	if (r == 0)
		r = target_init(&sides->end, path, s->ends_len + 1);
	if (r < 0)
		return r;
	for (size_t i = 0; i < s->len; i++) {
		const struct call *c = call_get(s->hits[i].row);

		target_add(&sides->entry, &s->hits[i]);
		if (!(c->how & CALL_ENTRY_ONLY) && c->api != API_USER)
			target_add(&sides->back, &s->hits[i]);
	}
	for (size_t i = 0; i < s->ends_len; i++)
		target_add(&sides->end, &s->ends[i]);
	return 0;
}

static bool is_watched(const struct sides *s, uint32_t i)
{
	for (uint32_t k = 0; k < s->back.len; k++)
		if (s->back.is_refused[k] && s->back.offset[k] == s->entry.offset[i])
			return false;
	for (uint32_t k = 0; k < s->end.len; k++)
		if (s->end.is_refused[k] && s->end.cookie[k] == s->entry.cookie[i])
			return false;
	return true;
}

/* An entry whose return is not watched would look like a call that never ends, and hide those that follow. */
static void drop_unwatched(struct sides *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->entry.len; i++) {
		if (!is_watched(s, i))
			continue;
		s->entry.offset[n] = s->entry.offset[i];
		s->entry.cookie[n++] = s->entry.cookie[i];
	}
	s->entry.len = n;
}

int tracer_attach(struct tracer *t, const struct attach_file *f, struct probes **ret, struct probes_stats *ret_stats)
{
	_cleanup_(probes_freep) struct probes *p = calloc(1, sizeof(*p));
	_cleanup_(search_done) struct search found = {};
	_cleanup_(sides_done) struct sides sides = {};
	char path[64];
	int r = p ? find_functions(f, &found) : -ENOMEM;

	if (r < 0)
		return r;
	take_stats(&found, ret_stats);
	if (!found.len)
		return -ENOENT;
	/* The fd leads to the inode whatever became of its name since. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", f->fd);
	p->multi_fd = calloc(2 * found.len + found.ends_len, sizeof(*p->multi_fd));
	p->link = calloc(2 * found.len + found.ends_len, sizeof(*p->link));
	if (!p->multi_fd || !p->link)
		return -ENOMEM;
	r = make_sides(&found, path, &sides);
	/* Returns first, so that what is entered is seen to end. */
	if (r == 0)
		r = attach_side(t, p, &sides.back, SIDE_RETURN, ret_stats);
	if (r >= 0)
		r = attach_side(t, p, &sides.end, SIDE_END, ret_stats);
	if (r >= 0) {
		drop_unwatched(&sides);
		r = sides.entry.len ? attach_side(t, p, &sides.entry, SIDE_ENTRY, ret_stats) : -EINVAL;
	}
	if (r < 0)
		return r;
	ret_stats->attached = (size_t)r;
	*ret = TAKE_PTR(p);
	return 0;
}

int probes_adopt(const struct attach_file *f, const int *links_taken, size_t len, struct probes **ret,
		 struct probes_stats *ret_stats)
{
	_cleanup_(probes_freep) struct probes *p = calloc(1, sizeof(*p));
	_cleanup_(search_done) struct search found = {};
	int *copy = calloc(len, sizeof(*copy));

	if (!p || !copy) {
		free(copy);
		for (size_t i = 0; i < len; i++)
			(void)close(links_taken[i]);
		return -ENOMEM;
	}
	memcpy(copy, links_taken, len * sizeof(*copy));
	p->multi_fd = copy;
	p->multi_len = len;
	*ret_stats = (struct probes_stats){};
	/* Only to say what is probed: the links are there whatever can be read of the file today. */
	if (find_functions(f, &found) == 0)
		take_stats(&found, ret_stats);
	ret_stats->attached = ret_stats->found;
	*ret = TAKE_PTR(p);
	return 0;
}

size_t probes_links(const struct probes *p, const int **ret)
{
	*ret = p ? p->multi_fd : NULL;
	return p && !p->link_len ? p->multi_len : 0;
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
	free(p->multi_fd);
	free(p->link);
	free(p);
}
