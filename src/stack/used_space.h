/* SPDX-License-Identifier: MIT */
/*
 * The mappings that stacks lie in. A process may have tens of thousands, and change them as it runs; stacks are kept for
 * long, and each needs a few dozen. Those of one process share them.
 */
#pragma once

#include "model/stack.h"

/*
 * Moves the frames from the mappings they point to over to those of *used, which gets what it lacks (then it is another
 * one; stacks with the one before keep that). pid and start_ns: of the process. Sets f->space. 0 or -ENOMEM.
 */
int used_space_take(struct address_space **used, struct frames *f, uint32_t pid, uint64_t start_ns);
/* Has one of the mappings become that of other code? Memory that is not mapped any more has not. */
bool used_space_changed(const struct address_space *used, const struct address_space *now);
