/* SPDX-License-Identifier: MIT */
/* Asks a source in a thread of its own: an answer may take seconds, keys and signals must not. */
#pragma once

#include "view/source.h"

struct view_feed;

/* source stays the caller's. 0 or -errno. */
int view_feed_new(struct view_source *source, struct view_feed **ret);
/* Waits a moment for the question under way. 0; -EBUSY: it goes on, with it the thread, which still uses the source. */
int view_feed_free(struct view_feed *f);
/* Readable when there is an answer to take. */
int view_feed_fd(const struct view_feed *f);
/* q is copied. -EBUSY: a question is under way, or its answer not taken. */
int view_feed_ask(struct view_feed *f, const struct view_query *q);

#define VIEW_FEED_WHY_MAX 512
/* -EAGAIN: there is none yet. 0, *ret is the caller's; or what view_source_ask() returned: then why tells. */
int view_feed_take(struct view_feed *f, struct view **ret, char why[VIEW_FEED_WHY_MAX]);
