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
	bool is_multi;
	/* of the drain in progress */
	tracer_event_fn fn;
	void *userdata;
	size_t left;
};

/* attach.c */
bool attach_multi_works(void);
