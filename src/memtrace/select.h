/* SPDX-License-Identifier: MIT */
/* Which processes of a view are meant: those named, those of a command or unit, and their descendants. Pure. */
#pragma once

#include "base/pattern.h"
#include "view/view.h"

struct named {
	uint32_t pid;
	uint64_t start_ticks; /* a later bearer of the pid is not meant */
};

/* A process is chosen when any of these chooses it. Borrowed for the life of the selection. */
struct selection_options {
	const struct named *named;
	size_t named_len;
	struct pattern *comm; /* NULL = none */
	const char *unit;     /* with or without ".service"; NULL = none */
	bool has_descendants; /* and the children of those chosen, and theirs, those that come later too */
};

/* The process that bears the pid now: 0 with its parent and start, or negative. For ancestors that are in no view. */
typedef int (*ancestor_fn)(uint32_t pid, uint32_t *ret_ppid, uint64_t *ret_start_ticks, void *userdata);

struct selection;

int selection_new(const struct selection_options *o, struct selection **ret);
void selection_free(struct selection *s); /* accepts NULL */
DEFINE_CLEANUP(struct selection, selection_free)

/*
 * Those of v that are meant, the first to start first; the caller frees *ret, an array of pointers into v. Who has been
 * chosen once stays so. 0, or -ENOMEM.
 */
int selection_choose(struct selection *s, const struct view *v, ancestor_fn ancestor, void *userdata,
		     struct view_process ***ret, size_t *ret_len);
