/* SPDX-License-Identifier: MIT */
/*
 * Makes the texts of a view's stacks, and of the whole view the text that goes to who asked: files are read for it, so a
 * thread of its own does it. It starts with the first view and stays.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "record/record.h"
#include "rule/engine_view.h"
#include "stack/object.h"

struct view_worker;

/* objects: a reference is taken. redact: borrowed, may be NULL. 0, -ENOMEM, -errno. */
int view_worker_new(struct objects *objects, const struct redact *redact, struct view_worker **ret);
void view_worker_free(struct view_worker *w); /* waits for the view in work; accepts NULL */
DEFINE_CLEANUP(struct view_worker, view_worker_free)
/* Readable when there is something to take. */
int view_worker_fd(const struct view_worker *w);
/*
 * Takes view and stacks in any case. 0 or -ENOMEM. Stacks for which an answer has no room, or that would keep who asked
 * waiting too long, are left out of it, which stack_info says.
 */
int view_worker_push(struct view_worker *w, uint64_t id, struct view *v, struct view_stacks *stacks);
/* Nobody waits for the texts of this id any more: what is not made yet never is, what is made is not told. */
void view_worker_cancel(struct view_worker *w, uint64_t id);
/* The next text that is done, with the id of its view: 1, the caller frees it; NULL: there was no memory for it. 0: none. */
int view_worker_take(struct view_worker *w, uint64_t *ret_id, char **ret);
