/* SPDX-License-Identifier: MIT */
/* Resolved stacks as bytes, so that a later daemon can still name what lives from before. Reading is safe on any
 * bytes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/pack.h"
#include "model/stack.h"

/* Appends the frames, with those mappings that they lie in. */
void frames_pack(struct strbuf *sb, const struct frames *f);
/* The rest of u is frames of that process. 0, -EINVAL, -ENOMEM. */
int frames_unpack(struct unpack *u, uint32_t pid, uint64_t start_ns, struct frames **ret);
