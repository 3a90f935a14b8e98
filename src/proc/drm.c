/* SPDX-License-Identifier: MIT */
/* The cards, and what the parts of drm_read share. */
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/file.h"
#include "base/units.h"
#include "proc/drm_read.h"

static const char *const drivers[] = { "amdgpu", "i915", "xe", "nouveau" };

void drm_small_file(int dir_fd, const char *path, char *ret, size_t size)
{
	_cleanup_free_ char *text = NULL;
	size_t len;

	ret[0] = '\0';
	if (file_read_head(dir_fd, path, size - 1, &text, &len) < 0)
		return;
	len = strnlen(text, len);
	while (len > 0 && strchr(" \t\r\n", text[len - 1]))
		len--;
	memcpy(ret, text, len);
	ret[len] = '\0';
}

uint64_t drm_small_number(int dir_fd, const char *path)
{
	char text[32];
	uint64_t v;

	drm_small_file(dir_fd, path, text, sizeof(text));
	return parse_u64(text, &v) == 0 ? v : UINT64_MAX;
}

/* The last part of where a link points to, "" when it does not fit or is no link. */
static void link_name(int dir_fd, const char *path, char *ret, size_t size)
{
	_cleanup_free_ char *target = NULL;
	const char *name;

	ret[0] = '\0';
	if (file_readlink(dir_fd, path, &target) < 0)
		return;
	name = strrchr(target, '/');
	name = name ? name + 1 : target;
	if (strlen(name) < size)
		memcpy(ret, name, strlen(name) + 1);
}

static bool is_our_driver(const char *driver)
{
	for (size_t i = 0; i < ARRAY_SIZE(drivers); i++)
		if (strcmp(driver, drivers[i]) == 0)
			return true;
	return false;
}

/* Intel's, in the processor: it has no memory of its own, and most hosts have one that nobody computes on. */
static bool is_integrated(const struct gpu_device *d)
{
	return (strcmp(d->driver, "i915") == 0 || strcmp(d->driver, "xe") == 0) && strcmp(d->pci, "0000:00:02.0") == 0;
}

static void card_name(int card_fd, struct gpu_device *d)
{
	char vendor[16], device[16];

	drm_small_file(card_fd, "device/product_name", d->name, sizeof(d->name));
	if (d->name[0] != '\0')
		return;
	drm_small_file(card_fd, "device/vendor", vendor, sizeof(vendor));
	drm_small_file(card_fd, "device/device", device, sizeof(device));
	if (strncmp(vendor, "0x", 2) == 0 && strncmp(device, "0x", 2) == 0)
		(void)snprintf(d->name, sizeof(d->name), "%s %s:%s", d->driver, vendor + 2, device + 2);
	else
		(void)snprintf(d->name, sizeof(d->name), "%s", d->driver);
}

/* False when it is no card that we read. */
static bool read_card(int card_fd, struct gpu_device *ret)
{
	char driver[sizeof(ret->driver)], pci[32], unique_id[32];

	link_name(card_fd, "device/driver", driver, sizeof(driver));
	if (!is_our_driver(driver))
		return false;
	*ret = gpu_device_unknown(driver);
	/* Parts of a card that was divided up lie elsewhere than on the bus, and the card has its own entry. */
	link_name(card_fd, "device", pci, sizeof(pci));
	if (gpu_pci_parse(pci, ret->pci) < 0 || is_integrated(ret))
		return false;
	drm_small_file(card_fd, "device/unique_id", unique_id, sizeof(unique_id));
	if (drm_unique_id_parse(unique_id, ret->uuid) < 0)
		(void)snprintf(ret->uuid, sizeof(ret->uuid), "PCI-%s", ret->pci);
	card_name(card_fd, ret);
	ret->total_bytes = drm_small_number(card_fd, "device/mem_info_vram_total");
	if (ret->total_bytes == 0)
		ret->total_bytes = UINT64_MAX;
	ret->used_bytes = drm_small_number(card_fd, "device/mem_info_vram_used");
	if (ret->total_bytes == UINT64_MAX || ret->used_bytes > ret->total_bytes)
		ret->used_bytes = UINT64_MAX;
	return true;
}

int drm_card_at(const struct gpu_snapshot *s, const char *pci)
{
	for (size_t i = 0; i < s->device_count; i++)
		if (strcmp(s->devices[i].pci, pci) == 0)
			return (int)i;
	return -1;
}

static int device_compare(const void *a, const void *b)
{
	return strcmp(((const struct gpu_device *)a)->pci, ((const struct gpu_device *)b)->pci);
}

/* "card0", not "card0-HDMI-A-1" and "renderD128". */
static bool is_card_entry(const char *name)
{
	return strncmp(name, "card", 4) == 0 && name[4] != '\0' && name[4 + strspn(name + 4, "0123456789")] == '\0';
}

static int add_cards(const char *sys_root, struct gpu_snapshot *s)
{
	_cleanup_closedir_ DIR *dir = NULL;
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/class/drm", sys_root);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
		_cleanup_close_ int fd = -1;
		struct gpu_device d;
		int r;

		if (!is_card_entry(e->d_name))
			continue;
		fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 || !read_card(fd, &d) || drm_card_at(s, d.pci) >= 0)
			continue;
		r = gpu_snapshot_add_device(s, &d);
		if (r == -ENOMEM)
			return r;
		if (r < 0) {
			s->is_complete = false;
			s->left_out_count++;
		}
	}
	/* The folder's order is none. */
	if (s->device_count > 0)
		qsort(s->devices, s->device_count, sizeof(*s->devices), device_compare);
	return 0;
}

int drm_read(const char *proc_root, const char *sys_root, struct drm_past *past, struct gpu_snapshot *ret)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot s = { .is_complete = true };
	int r;

	r = add_cards(sys_root, &s);
	if (r < 0)
		return r;
	if (s.device_count == 0)
		return -ENODEV;
	r = drm_add_clients(proc_root, past, &s);
	if (r < 0)
		return r;
	r = drm_add_kfd(sys_root, &s);
	if (r < 0)
		return r;
	gpu_snapshot_fold(&s, 0);
	*ret = s;
	s = (struct gpu_snapshot){ 0 };
	return 0;
}
