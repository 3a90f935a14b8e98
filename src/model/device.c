/* SPDX-License-Identifier: MIT */
#include "model/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/saturate.h"

static void device_free(struct device *dev)
{
	if (!dev)
		return;
	free(dev->uuid);
	free(dev->name);
	free(dev);
}
DEFINE_CLEANUP(struct device, device_free)

struct device *devices_find(const struct devices *d, const char *uuid)
{
	for (size_t i = 0; i < d->len; i++) {
		if (strcmp(d->list[i]->uuid, uuid) == 0)
			return d->list[i];
	}
	return NULL;
}

int devices_get(struct devices *d, const char *uuid, struct device **ret)
{
	_cleanup_(device_freep) struct device *dev = NULL;
	struct device *found = devices_find(d, uuid), **list;

	if (found) {
		*ret = found;
		return 0;
	}
	if (d->len >= DEVICES_MAX)
		return -ENOSPC;
	dev = calloc(1, sizeof(*dev));
	if (!dev)
		return -ENOMEM;
	dev->uuid = strdup(uuid);
	if (!dev->uuid)
		return -ENOMEM;
	dev->index = -1;
	dev->total_bytes = dev->used_bytes = UINT64_MAX;

	list = realloc(d->list, (d->len + 1) * sizeof(*list));
	if (!list)
		return -ENOMEM;
	d->list = list;
	*ret = list[d->len++] = TAKE_PTR(dev);
	return 0;
}

bool devices_put(struct devices *d, struct device *dev)
{
	if (dev->refs > 0 || dev->is_known)
		return false;
	for (size_t i = 0; i < d->len; i++) {
		if (d->list[i] != dev)
			continue;
		d->list[i] = d->list[--d->len];
		device_free(dev);
		return true;
	}
	return false;
}

void devices_done(struct devices *d)
{
	for (size_t i = 0; i < d->len; i++)
		device_free(d->list[i]);
	free(d->list);
	*d = (struct devices)DEVICES_INIT;
}

uint64_t device_used(const struct device *dev, uint32_t classes)
{
	uint64_t traced = sat_sum(dev->live, classes);

	return dev->used_bytes != UINT64_MAX && dev->used_bytes > traced ? dev->used_bytes : traced;
}

uint64_t device_free_bytes(const struct device *dev)
{
	if (dev->total_bytes == UINT64_MAX)
		return UINT64_MAX;
	return sat_diff(dev->total_bytes, device_used(dev, CLASS_DEVICE_MASK));
}
