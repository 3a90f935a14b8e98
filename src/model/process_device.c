/* SPDX-License-Identifier: MIT */
#include "model/process.h"
#include "model/saturate.h"

uint64_t process_untracked_bytes(const struct process *p)
{
	return p->driver_bytes == UINT64_MAX ? UINT64_MAX : sat_diff(p->driver_bytes, p->live_bytes);
}

/* The driver had named it, and no longer does. */
static bool is_past(const struct process_device *pd)
{
	return pd->ordinal == PROCESS_DEVICE_DRIVER && pd->driver_bytes == 0;
}

bool process_on_device(const struct process *p, size_t first, struct process_on_device *ret)
{
	const struct process_device *pd = &p->devices[first];

	*ret = (struct process_on_device){ .device = pd->device, .ordinal = -1, .driver_bytes = UINT64_MAX };
	for (size_t i = 0; i < first; i++)
		if (pd->device && p->devices[i].device == pd->device && !is_past(&p->devices[i]))
			return false;
	if (is_past(pd))
		return false;
	for (size_t i = first; i < p->devices_len; i++) {
		const struct process_device *same = &p->devices[i];

		if (i != first && (!pd->device || same->device != pd->device))
			continue;
		(void)sat_add(&ret->live_bytes, sat_sum(same->live, CLASS_DEVICE_MASK));
		if (same->driver_bytes != UINT64_MAX)
			ret->driver_bytes = ret->driver_bytes == UINT64_MAX ? same->driver_bytes :
									      MAX(ret->driver_bytes, same->driver_bytes);
		ret->ordinal = MAX(ret->ordinal, same->ordinal);
	}
	return true;
}
