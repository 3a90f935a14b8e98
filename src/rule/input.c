/* SPDX-License-Identifier: MIT */
#include "rule/input.h"

#include <errno.h>

#include "rule/engine_private.h"

void engine_set_tap(struct engine *e, void (*tap)(const struct engine_input *in, void *userdata), void *userdata)
{
	e->tap = tap;
	e->tap_userdata = userdata;
}

int engine_apply(struct engine *e, const struct engine_input *in)
{
	const uint32_t pid = in->pid;
	const uint64_t start_ns = in->start_ns;

	switch (in->type) {
	case INPUT_EVENT:
		return engine_event(e, in->event, in->now_ns, in->real_usec);
	case INPUT_TICK:
		engine_tick(e, in->now_ns, in->real_usec);
		return 0;
	case INPUT_IDENTITY:
		return engine_set_identity(e, pid, start_ns, in->identity);
	case INPUT_STACK:
		return engine_set_stack(e, pid, start_ns, in->stack);
	case INPUT_SITE:
		return engine_set_site(e, pid, start_ns, in->site.stack, in->site.key);
	case INPUT_ORDINAL:
		return engine_set_ordinal(e, pid, start_ns, in->ordinal.ordinal, in->ordinal.uuid);
	case INPUT_DEVICE:
		return engine_set_device(e, in->device.uuid, in->device.index, in->device.name, in->device.total_bytes,
					 in->device.used_bytes);
	case INPUT_DEVICES_END:
		engine_end_devices(e, in->is_complete);
		return 0;
	case INPUT_DRIVER_BEGIN:
		engine_driver_begin(e);
		return 0;
	case INPUT_DRIVER:
		return engine_driver(e, pid, start_ns, in->driver.uuid, in->driver.bytes, in->driver.is_older);
	case INPUT_DRIVER_END:
		engine_driver_end(e, in->is_complete, in->now_ns, in->real_usec);
		return 0;
	case INPUT_COVERAGE:
		engine_set_coverage(e, pid, start_ns, in->coverage.reason, in->coverage.is_expected);
		return 0;
	case INPUT_CONDITION:
		engine_set_condition(e, pid, start_ns, in->condition, in->now_ns);
		return 0;
	case INPUT_LOST:
		return engine_lost(e, pid, start_ns, in->lost, in->now_ns);
	case INPUT_REBUILD_BEGIN:
		return engine_rebuild_begin(e, pid, start_ns);
	case INPUT_REBUILD_ADD:
		return engine_rebuild_add(e, in->event);
	case INPUT_REBUILD_END:
		return engine_rebuild_end(e, pid, start_ns, in->books, in->now_ns, in->real_usec);
	}
	return -EINVAL;
}
