/* SPDX-License-Identifier: MIT */
/*
 * Device memory by process and device where there is no NVML: DRM drivers say it in /proc/PID/fdinfo, AMD's compute
 * driver (KFD) in sysfs. Parsers are pure; readers take the roots.
 *
 * Cost of drm_read: to find the processes, the link of each descriptor of each process is read. With 300 processes of
 * 30 descriptors each, and 130 others: 48 ms of one core (2.6 GHz, Linux 6.18 in a virtual machine), 5 us a descriptor;
 * every 10 s that is half a percent. What the drivers take to answer for a descriptor that is theirs comes on top. On a
 * host without a card of these drivers: one look into a folder.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proc/nvml.h"

/* The engines that run on the multiprocessors. */
enum drm_engine_kind { DRM_ENGINE_COMPUTE, DRM_ENGINE_GRAPHICS, DRM_ENGINES };

struct drm_engine {
	uint64_t busy;	   /* ns, or cycles of total; UINT64_MAX when not said */
	uint64_t total;	   /* 0 = busy is time */
	uint32_t capacity; /* as many of them work side by side, each counts; at least 1 */
};

struct drm_fdinfo {
	char driver[16];
	char pci[16]; /* "" = not said */
	uint64_t client_id;
	bool has_client_id;
	bool has_device_memory; /* there is a region of device memory, though maybe nothing in it */
	uint64_t device_bytes;	/* UINT64_MAX when not known */
	uint32_t kinds;		/* enum gpu_process_kind, by the engines that have worked */
	struct drm_engine engines[DRM_ENGINES];
};

/*
 * Text of /proc/PID/fdinfo/N. Of each region of device memory (vram, vram0, local, local0 and so on) what is resident;
 * if that is not said drm-memory-, and else the total. 0, or -EINVAL when it is no DRM file's.
 */
int drm_fdinfo_parse(const char *text, struct drm_fdinfo *ret);
/* Text of a KFD node's properties: where its card is. 0 or -EINVAL. */
int drm_kfd_location_parse(const char *text, char ret_pci[16]);
/* Text of a unique_id file: "GPU-" and its 16 digits, as AMD's own tools write it. 0 or -EINVAL. */
int drm_unique_id_parse(const char *text, char ret_uuid[96]);

/* What the clients' engines had done when they were read last; empty before that. */
struct drm_reading {
	uint64_t key; /* of client and card */
	uint64_t at_ns;
	struct drm_engine engines[DRM_ENGINES];
};

struct drm_past {
	struct drm_reading *list; /* by rising key */
	size_t count;
};

void drm_past_done(struct drm_past *p);

/*
 * All cards of the drivers amdgpu, i915, xe and nouveau with memory of their own, and the processes that have a client
 * of one with a region of device memory. The bytes of a client that several processes have, by fork or a passed
 * descriptor, are those of the one with the lowest pid, as a rule its opener: their sum over all processes stays that
 * of the device, and the others are not listed. Of DRM's and KFD's figures for a process the larger: they are of the
 * same memory. Processes are those that proc_root shows, by its pids.
 *
 * A process's share of the multiprocessors is the time of the compute and graphics engines of its clients since the
 * last reading, which past keeps and takes on; not known of clients that were not there then, of kernels and drivers
 * that do not tell (nouveau), and of processes that KFD has, whose queues are in no engine's time. past may be NULL.
 * How busy the cards are is not asked here. 0, -ENODEV without such a card, -ENOMEM, or
 * -errno.
 */
int drm_read(const char *proc_root, const char *sys_root, struct drm_past *past, struct gpu_snapshot *ret);
/*
 * How busy and hot these cards are, of all devices of s that have one of these drivers. Of amdgpu all, where it has it
 * (gpu_busy_percent, mem_busy_percent, hwmon); of the others temperature, power and limit as far as hwmon has them:
 * Intel's drivers tell energy, not power, which stays not known. Not of cards that sleep: asking would wake them. No
 * card is begun after until_ns (monotonic): -ETIME, then the rest stays not known. Else 0.
 */
int drm_read_figures(const char *sys_root, uint64_t until_ns, struct gpu_snapshot *s);
