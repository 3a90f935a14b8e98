/* SPDX-License-Identifier: MIT */
#include "model/identity.h"

struct identity *identity_new(void)
{
	struct identity *id = calloc(1, sizeof(*id));

	if (id)
		atomic_init(&id->refs, 1);
	return id;
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
	free(id->comm);
	free(id->exe);
	free(id->cmdline);
	free(id->user);
	free(id->cgroup);
	free(id->unit);
	free(id->user_unit);
	free(id->container);
	free(id->pod);
	free(id);
}
