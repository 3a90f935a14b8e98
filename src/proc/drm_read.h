/* SPDX-License-Identifier: MIT */
/* The parts of drm_read. All return 0 or -ENOMEM but where said; what is over a limit or unreadable is noted in s. */
#pragma once

#include "proc/drm.h"
#include "proc/nvml_snapshot.h"

/* Place of the card in s->devices, -1 = none. */
int drm_card_at(const struct gpu_snapshot *s, const char *pci);
int drm_add_clients(const char *proc_root, struct drm_past *past, struct gpu_snapshot *s);
int drm_add_kfd(const char *sys_root, struct gpu_snapshot *s);
/* A small file's text without blanks at its end, "" when it is not there; longer ones are cut. */
void drm_small_file(int dir_fd, const char *path, char *ret, size_t size);
/* The number that it is; UINT64_MAX when it is none, or not there. */
uint64_t drm_small_number(int dir_fd, const char *path);
/* Of the multiprocessors since the last reading of that client, all its engines together; UINT32_MAX when not known. */
uint32_t drm_work_percent(const struct drm_past *past, const struct drm_reading *now);
/* list, which becomes the past's, replaces what it had. */
void drm_past_set(struct drm_past *p, struct drm_reading *list, size_t count);
