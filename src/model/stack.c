/* SPDX-License-Identifier: MIT */
#include "model/stack.h"

#include <string.h>

struct stack *stack_new(uint64_t key, uint32_t pid, uint8_t reason, struct address_space *space, const uint64_t *ips,
			size_t count)
{
	struct stack *s;

	if (count > UINT32_MAX || count > (SIZE_MAX - sizeof(*s)) / sizeof(s->ip[0]))
		return NULL;
	s = malloc(sizeof(*s) + count * sizeof(s->ip[0]));
	if (!s)
		return NULL;
	atomic_init(&s->refs, 1);
	s->key = key;
	s->pid = pid;
	s->count = (uint32_t)count;
	s->reason = reason;
	s->space = address_space_ref(space);
	if (count > 0)
		memcpy(s->ip, ips, count * sizeof(s->ip[0]));
	return s;
}

struct stack *stack_ref(struct stack *s)
{
	if (s)
		(void)atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
	return s;
}

void stack_unref(struct stack *s)
{
	if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
		return;
	address_space_unref(s->space);
	free(s);
}
