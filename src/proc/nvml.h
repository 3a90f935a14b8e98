/* SPDX-License-Identifier: MIT */
/*
 * The driver's own figures, through libnvidia-ml.so.1 opened at run time; the watch adds those of other drivers
 * (drm.h). The calls may hang with the driver: never call from the tracing thread; nvml_watch runs them in a thread of
 * its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct gpu_device {
	char uuid[96];	/* "GPU-...", "MIG-..."; of a DRM device without a unique id "PCI-0000:03:00.0" */
	char name[96];
	char pci[16];	/* "0000:03:00.0", "" = not known */
	char driver[16]; /* "nvidia", "amdgpu", "i915", "xe", "nouveau" */
	int index;	/* of a MIG instance: that of its card; -1 = the driver has none */
	int parent;	/* of a MIG instance: place of its card in gpu_snapshot.devices; else -1 */
	uint64_t total_bytes, used_bytes; /* UINT64_MAX when the driver did not say */
	/* UINT32_MAX when the driver did not say. Of the last period that it looks at, a second or less. */
	uint32_t busy_percent;	      /* of the time something ran on it */
	uint32_t memory_busy_percent; /* ... its memory was read or written */
	uint32_t celsius;
	uint32_t milliwatts, milliwatts_max; /* drawn; the limit in force */
};

enum gpu_process_kind { /* bits: in which of the driver's lists it is; none = the driver does not tell them apart */
	GPU_PROCESS_COMPUTE = 1,
	GPU_PROCESS_GRAPHICS = 2,
	GPU_PROCESS_MPS = 4, /* a client of the MPS server */
};

/* One a process and device. */
struct gpu_process {
	uint32_t pid;	     /* as the driver gives it: NVML's are of the driver's own PID namespace, the host's */
	uint32_t device;     /* place in gpu_snapshot.devices */
	uint32_t kinds;	     /* enum gpu_process_kind */
	uint64_t used_bytes; /* UINT64_MAX when the driver did not say */
	uint32_t sm_percent; /* of the card's multiprocessors since the last reading; UINT32_MAX when not known */
};

struct gpu_snapshot {
	struct gpu_device *devices;
	size_t device_count;
	struct gpu_process *processes;
	size_t process_count;
	bool is_complete; /* every device told of its processes */
	size_t left_out_count; /* entries and figures that made no sense, or beyond a limit */
};

struct nvml;

/* library: NULL = libnvidia-ml.so.1. 0; -ENOENT when the library is not there; -ENODEV when its driver is not loaded;
 * -EPROTO when driver and library are of different versions; -EIO when it refuses otherwise; -ENOMEM. *reterr_reason is
 * a static or library-owned text. */
int nvml_open(const char *library, struct nvml **ret, const char **reterr_reason);
void nvml_close(struct nvml *n);
DEFINE_CLEANUP(struct nvml, nvml_close)
/*
 * Instances of a card in MIG mode are devices of their own; the card then has no processes. A card that does not answer
 * costs is_complete, not the others' figures. 0, -EIO when there are cards and none answers, -ENOMEM.
 */
int nvml_read(struct nvml *n, struct gpu_snapshot *ret);
/*
 * How busy and hot the cards are and whose work that is, into the snapshot that nvml_read() made last, or a copy, with
 * whatever behind its NVIDIA devices. What a card does not say stays not known; instances of a card in MIG mode, and
 * their processes, say nothing. No call is begun after until_ns (monotonic): -ETIME, then the rest stays not known.
 * Else 0 or -ENOMEM.
 */
int nvml_read_figures(struct nvml *n, uint64_t until_ns, struct gpu_snapshot *s);
void gpu_snapshot_done(struct gpu_snapshot *s);

/*
 * Reads NVML and DRM every interval_ns in its own thread, into one snapshot. fd becomes readable when a new snapshot is
 * there; one without devices takes the older ones back, as the drivers stopped answering. A library or driver that is
 * not there is tried again once a minute.
 *
 * Memory is asked first, how busy the cards are after that: if this takes more than a second, or half of the interval,
 * the snapshot is given out without, and so much time passes that it takes up a tenth of it.
 *
 * Cost of a round: what the driver takes, and for 8 cards with 16 processes each 60 us of ours (a virtual machine, 2.6
 * GHz), a third of it for how busy they are. DRM: see drm.h.
 */
struct nvml_watch;
int nvml_watch_new(const char *library, uint64_t interval_ns, struct nvml_watch **ret);
/* The same with other folders than /proc and /sys. */
int nvml_watch_new_at(const char *library, const char *proc_root, const char *sys_root, uint64_t interval_ns,
		      struct nvml_watch **ret);
int nvml_watch_fd(const struct nvml_watch *w);
/*
 * Somebody is looking: for the next for_ns a round comes every interval_ns, if that is shorter than the set one, and
 * the first as soon as the last is so long ago. Of the owner's thread; again and again is free. Not where a library or
 * driver is waited for.
 */
void nvml_watch_hurry(struct nvml_watch *w, uint64_t interval_ns, uint64_t for_ns);
/* The latest snapshot if it is new: true; the caller releases it. Clears the fd. */
int nvml_watch_take(struct nvml_watch *w, struct gpu_snapshot *ret);
/* One line for status: "NVML: 1 device; DRM: 2 amdgpu devices" or why not; DRM only where it has any. Owned by w. */
const char *nvml_watch_status(struct nvml_watch *w);
void nvml_watch_free(struct nvml_watch *w); /* a thread stuck in the driver is abandoned */
DEFINE_CLEANUP(struct nvml_watch, nvml_watch_free)
