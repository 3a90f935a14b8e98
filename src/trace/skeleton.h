/* SPDX-License-Identifier: MIT */
/* The generated skeleton, included here only. */
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#include "gpuxray.skel.h"
#pragma GCC diagnostic pop

#include "trace/tracer.h"

struct tracer {
	struct tracer_options options;
	struct gpuxray_bpf *skel;
	struct ring_buffer *ring;
	void *ring_pages; /* read-only: how far it has been read, and on the next page how far it has been written */
	bool is_multi;
	bool is_kept;
	uint8_t id[16];
	int kept_exit, kept_exec; /* links of an earlier daemon */
	/* of the drain in progress */
	tracer_event_fn fn;
	void *userdata;
	size_t left;
};

/* attach.c */
bool attach_multi_works(void);

/* keep_maps.c */
/* What our maps are of, without an id. */
void tracer_about(const struct tracer *t, struct about *ret);
/* Before loading: the kept maps in the place of ours. NULL, or why not. */
const char *tracer_reuse_maps(struct tracer *t);
/* After it: lets go of the descriptors that were handed to us. */
void tracer_release_maps(struct tracer *t);
void tracer_store_maps(struct tracer *t);
void tracer_forget_paths(struct tracer *t);
