/* SPDX-License-Identifier: MIT */
/* The parts of drm_read. All return 0 or -ENOMEM but where said; what is over a limit or unreadable is noted in s. */
#pragma once

#include "proc/nvml_snapshot.h"

/* Place of the card in s->devices, -1 = none. */
int drm_card_at(const struct gpu_snapshot *s, const char *pci);
int drm_add_clients(const char *proc_root, struct gpu_snapshot *s);
int drm_add_kfd(const char *sys_root, struct gpu_snapshot *s);
/* A small file's text without blanks at its end, "" when it is not there; longer ones are cut. */
void drm_small_file(int dir_fd, const char *path, char *ret, size_t size);
