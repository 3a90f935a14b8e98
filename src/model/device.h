/* SPDX-License-Identifier: MIT */
/* GPUs by uuid: what the driver says of them and what the traced processes hold on them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../bpf/event.h"

/* More than a host can hold; the uuids that processes claim are not to be trusted. */
#define DEVICES_MAX 256

struct device {
	char *uuid; /* "GPU-..." */
	int index;  /* the driver's, -1 = not known */
	char *name; /* may be NULL */
	uint64_t total_bytes, used_bytes; /* UINT64_MAX = not known */
	uint64_t live[CLASS_MAX]; /* of all traced processes */
	uint32_t refs;	/* ordinals of processes that mean this device */
	uint64_t sampled_ns; /* when all its holders were last told, rule/sample.c */
	bool is_known;	/* the driver has named it: stays though nobody uses it */
	bool is_told;	/* ... since the last engine_end_devices() */
};

struct devices {
	struct device **list;
	size_t len;
};

#define DEVICES_INIT {}

/* NULL where there is none. It stays the table's. */
struct device *devices_find(const struct devices *d, const char *uuid);
/* Finds or adds. 0, -ENOMEM, -ENOSPC beyond DEVICES_MAX. */
int devices_get(struct devices *d, const char *uuid, struct device **ret);
/* Removes it if nobody refers to it and the driver does not know it; true if it is gone. */
bool devices_put(struct devices *d, struct device *dev);
void devices_done(struct devices *d);

/* Bytes in use by everybody: the larger of what is traced and what the driver says. */
uint64_t device_used(const struct device *dev, uint32_t classes);
/* Free bytes, or UINT64_MAX when the capacity is not known. */
uint64_t device_free_bytes(const struct device *dev);
