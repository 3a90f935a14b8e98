/* SPDX-License-Identifier: MIT */
#include "model/identity.h"

#include <stddef.h>
#include <string.h>

#include "base/clock.h"

/* All that an identity owns. */
static const size_t texts[] = {
	offsetof(struct identity, comm),      offsetof(struct identity, exe),	  offsetof(struct identity, cmdline),
	offsetof(struct identity, user),      offsetof(struct identity, cgroup),  offsetof(struct identity, unit),
	offsetof(struct identity, user_unit), offsetof(struct identity, slice),	  offsetof(struct identity, container),
	offsetof(struct identity, runtime),   offsetof(struct identity, pod),	  offsetof(struct identity, slurm_job),
	offsetof(struct identity, parent),    offsetof(struct identity, tag),
	offsetof(struct identity, pod_name),  offsetof(struct identity, pod_namespace),
	offsetof(struct identity, container_name),
};

static char **text_at(struct identity *id, size_t i)
{
	return (char **)((char *)id + texts[i]);
}

char **identity_text(struct identity *id, size_t i)
{
	return i < ARRAY_SIZE(texts) ? text_at(id, i) : NULL;
}

struct identity *identity_new(void)
{
	struct identity *id = calloc(1, sizeof(*id));

	if (id)
		atomic_init(&id->refs, 1);
	return id;
}

struct identity *identity_bare(uint32_t pid, uint64_t start_ns)
{
	struct identity *id = identity_new();

	if (!id)
		return NULL;
	id->pid = pid;
	id->start_ns = start_ns;
	id->start_ticks = start_ns / (NSEC_PER_SEC / TICKS_PER_SEC);
	id->uid = UINT32_MAX;
	return id;
}

struct identity *identity_copy(const struct identity *id)
{
	_cleanup_(identity_unrefp) struct identity *copy = identity_new();

	if (!copy)
		return NULL;
	copy->pid = id->pid;
	copy->ppid = id->ppid;
	copy->start_ns = id->start_ns;
	copy->start_ticks = id->start_ticks;
	copy->uid = id->uid;
	copy->inner_pid = id->inner_pid;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const char *text = *(char *const *)((const char *)id + texts[i]);

		if (!text)
			continue;
		*text_at(copy, i) = strdup(text);
		if (!*text_at(copy, i))
			return NULL;
	}
	return TAKE_PTR(copy);
}

struct identity *identity_ref(struct identity *id)
{
	if (id)
		(void)atomic_fetch_add_explicit(&id->refs, 1, memory_order_relaxed);
	return id;
}

void identity_unref(struct identity *id)
{
	if (!id || atomic_fetch_sub_explicit(&id->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		free(*text_at(id, i));
	free(id);
}
