/* SPDX-License-Identifier: MIT */
/* From an unwound copy to what the probe needs to know the same stack again. Pure; see bpf/stack_event.h. */
#pragma once

#include "model/stack.h"
#include "stack/unwind.h"

/*
 * A leaf: ret->stack is raw->head.stack. Slots beyond STACK_SLOTS_MAX are left out, the outermost first: what lies
 * there says nothing about the frames further in, and for those further out only the length of the stack speaks, which
 * is part of the path. On arm64, where the first return address is in x30, that register is one of those compared.
 * 0; or it cannot be learned: -E2BIG, more address slots than could be noted; -EINVAL, no slot at all, one that is not
 * on an 8-byte boundary, outside of the copy or in a page missing in it, or a caller found otherwise than by a word of
 * the stack.
 */
int learn_path(const struct event_stack *raw, const struct unwound *u, struct stack_path *ret);
/* The word of a copy at a slot, as it enters the hash. False: it is not in the copy. */
bool learn_word(const struct event_stack *raw, uint16_t slot, uint64_t *ret);
/* The register with this DWARF number, as it enters the hash: relative to sp, but for arm64's 30, a code address. */
uint64_t learn_register(const struct event_stack *raw, unsigned int number);
/* What the probe does: the hash of the words of a copy at a leaf's slots. A word that the copy does not have counts as
 * 0, where the probe gives up. For tests, and for the self-check. */
uint64_t learn_hash(const struct event_stack *raw, const struct stack_path *p);
