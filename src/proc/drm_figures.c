/* SPDX-License-Identifier: MIT */
/* How busy and hot a card is, from sysfs. */
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "proc/drm_read.h"

#define HWMON_ENTRIES_MAX 64

/* The first of these files that has a number. hwmon has thousandths of degrees, millionths of watts. */
static uint64_t first_number(int dir_fd, const char *one, const char *other, uint64_t divisor)
{
	uint64_t v = drm_small_number(dir_fd, one);

	if (v == UINT64_MAX)
		v = drm_small_number(dir_fd, other);
	return v == UINT64_MAX ? v : v / divisor;
}

/* hwmon/hwmon3: a card has one. -1 = none. */
static int open_hwmon(int card_fd)
{
	_cleanup_closedir_ DIR *dir = NULL;
	int fd = openat(card_fd, "hwmon", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		closep(&fd);
		return -1;
	}
	for (int i = 0; i < HWMON_ENTRIES_MAX; i++) {
		struct dirent *e = readdir(dir);

		if (!e)
			break;
		if (strncmp(e->d_name, "hwmon", 5) == 0)
			return openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	return -1;
}

static void read_hwmon(int card_fd, struct gpu_device *d, size_t *left_out)
{
	_cleanup_close_ int fd = open_hwmon(card_fd);

	if (fd < 0)
		return;
	/* Some have no sensor at the edge of the chip but one within, Intel's one of the package. */
	d->celsius = gpu_figure(first_number(fd, "temp1_input", "temp2_input", 1000), GPU_CELSIUS_MAX, left_out);
	d->milliwatts = gpu_figure(first_number(fd, "power1_average", "power1_input", 1000), GPU_MILLIWATTS_MAX, left_out);
	d->milliwatts_max = gpu_figure(first_number(fd, "power1_cap", "power1_max", 1000), GPU_MILLIWATTS_MAX, left_out);
	if (d->milliwatts_max == 0)
		d->milliwatts_max = UINT32_MAX;
}

static void read_card(const char *sys_root, struct gpu_device *d, size_t *left_out)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX], state[16];

	(void)snprintf(path, sizeof(path), "%s/bus/pci/devices/%s", sys_root, d->pci);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	drm_small_file(fd, "power/runtime_status", state, sizeof(state));
	if (strcmp(state, "suspended") == 0)
		return;
	d->busy_percent = gpu_figure(drm_small_number(fd, "gpu_busy_percent"), GPU_PERCENT_MAX, left_out);
	d->memory_busy_percent = gpu_figure(drm_small_number(fd, "mem_busy_percent"), GPU_PERCENT_MAX, left_out);
	read_hwmon(fd, d, left_out);
}

int drm_read_figures(const char *sys_root, uint64_t until_ns, struct gpu_snapshot *s)
{
	for (size_t i = 0; i < s->device_count; i++) {
		struct gpu_device *d = &s->devices[i];

		if (strcmp(d->driver, "nvidia") == 0 || d->pci[0] == '\0')
			continue;
		if (clock_monotonic_ns() > until_ns)
			return -ETIME;
		read_card(sys_root, d, &s->left_out_count);
	}
	return 0;
}
