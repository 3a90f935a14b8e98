/* SPDX-License-Identifier: MIT */
/*
 * The driver's own figures, through libnvidia-ml.so.1 opened at run time. Its calls may hang with the driver: never call
 * from the tracing thread; nvml_watch runs them in a thread of its own.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct gpu_device {
	char uuid[96];	/* "GPU-..." */
	char name[96];
	int index;
	uint64_t total_bytes, used_bytes; /* UINT64_MAX when the driver did not say */
};

struct gpu_process {
	uint32_t pid;
	int index;	     /* of the device */
	uint64_t used_bytes; /* UINT64_MAX when the driver did not say */
};

struct gpu_snapshot {
	struct gpu_device *devices;
	size_t device_count;
	struct gpu_process *processes;
	size_t process_count;
};

struct nvml;

/* library: NULL = libnvidia-ml.so.1. 0; -ENOENT when the library is not there; -EIO when it refuses, with *ret_reason a
 * static or library-owned text. */
int nvml_open(const char *library, struct nvml **ret, const char **reterr_reason);
void nvml_close(struct nvml *n);
DEFINE_CLEANUP(struct nvml, nvml_close)
int nvml_read(struct nvml *n, struct gpu_snapshot *ret);
void gpu_snapshot_done(struct gpu_snapshot *s);

/*
 * Reads every interval_ns in its own thread. fd becomes readable when a new snapshot is there; one without devices takes
 * the older ones back, as the driver stopped answering. Without library or driver the thread tries again once a minute.
 */
struct nvml_watch;
int nvml_watch_new(const char *library, uint64_t interval_ns, struct nvml_watch **ret);
int nvml_watch_fd(const struct nvml_watch *w);
/* The latest snapshot if it is new: true; the caller releases it. Clears the fd. */
int nvml_watch_take(struct nvml_watch *w, struct gpu_snapshot *ret);
/* One line for status: "NVML: 1 device" or why not. Static or owned by w. */
const char *nvml_watch_status(struct nvml_watch *w);
void nvml_watch_free(struct nvml_watch *w); /* a thread stuck in the driver is abandoned */
DEFINE_CLEANUP(struct nvml_watch, nvml_watch_free)
