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

struct drm_fdinfo {
	char driver[16];
	char pci[16]; /* "" = not said */
	uint64_t client_id;
	bool has_client_id;
	bool has_device_memory; /* there is a region of device memory, though maybe nothing in it */
	uint64_t device_bytes;	/* UINT64_MAX when not known */
	uint32_t kinds;		/* enum gpu_process_kind, by the engines that have worked */
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

/*
 * All cards of the drivers amdgpu, i915, xe and nouveau with memory of their own, and the processes that have a client
 * of one with a region of device memory. The bytes of a client that several processes have, by fork or a passed
 * descriptor, are those of the one with the lowest pid, as a rule its opener: their sum over all processes stays that
 * of the device, and the others are not listed. Of DRM's and KFD's figures for a process the larger: they are of the
 * same memory. Processes are those that proc_root shows, by its pids. 0, -ENODEV without such a card, -ENOMEM, or
 * -errno.
 */
int drm_read(const char *proc_root, const char *sys_root, struct gpu_snapshot *ret);
