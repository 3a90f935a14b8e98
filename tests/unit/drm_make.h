/* SPDX-License-Identifier: MIT */
/* Folders that stand in for /proc and /sys with cards of DRM drivers and processes that use them. */
#pragma once

#include <stdarg.h>

#include "base/cleanup.h"
#include "temp_proc.h"
#include "test.h"

struct drm_root {
	struct temp_proc dir;
	char proc[80], sys[80];
};

static inline void drm_root_done(struct drm_root *d)
{
	temp_proc_done(&d->dir);
}

/* Makes the folders on the way to path and leaves its name in full; its last part is not made. */
static inline bool _printf_(3, 0) drm_root_path(const struct drm_root *d, char ret[256], const char *fmt, va_list ap)
{
	size_t len = (size_t)snprintf(ret, 256, "%s/", d->dir.root);

	(void)vsnprintf(ret + len, 256 - len, fmt, ap);
	for (char *slash = strchr(ret + len, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(ret, 0700) < 0 && errno != EEXIST)
			return false;
		*slash = '/';
	}
	return true;
}

static inline bool _printf_(3, 4) drm_root_text(const struct drm_root *d, const char *text, const char *fmt, ...)
{
	char path[256];
	va_list ap;
	bool ok;
	FILE *f;

	va_start(ap, fmt);
	ok = drm_root_path(d, path, fmt, ap);
	va_end(ap);
	f = ok ? fopen(path, "we") : NULL;
	if (!f)
		return false;
	ok = fputs(text, f) >= 0;
	return fclose(f) == 0 && ok;
}

static inline bool _printf_(3, 4) drm_root_link(const struct drm_root *d, const char *target, const char *fmt, ...)
{
	char path[256];
	va_list ap;
	bool ok;

	va_start(ap, fmt);
	ok = drm_root_path(d, path, fmt, ap);
	va_end(ap);
	return ok && symlink(target, path) == 0;
}

static inline bool drm_root_new(struct drm_root *d)
{
	if (!temp_proc_new(&d->dir))
		return false;
	(void)snprintf(d->proc, sizeof(d->proc), "%s/proc", d->dir.root);
	(void)snprintf(d->sys, sizeof(d->sys), "%s/sys", d->dir.root);
	return drm_root_text(d, "0 0\n", "proc/uptime") && drm_root_text(d, "", "sys/class/drm/version");
}

/* A card at that place of the bus; its files go to sys/devices/PCI. */
static inline bool drm_root_card(const struct drm_root *d, const char *card, const char *pci, const char *driver)
{
	char target[128], bus[128];

	(void)snprintf(target, sizeof(target), "../../../devices/%s", pci);
	(void)snprintf(bus, sizeof(bus), "../../bus/pci/drivers/%s", driver);
	return drm_root_link(d, bus, "sys/devices/%s/driver", pci) &&
	       drm_root_text(d, "0x1002\n", "sys/devices/%s/vendor", pci) &&
	       drm_root_text(d, "0x74a1\n", "sys/devices/%s/device", pci) &&
	       drm_root_text(d, "", "sys/class/drm/%s/dev", card) &&
	       drm_root_link(d, target, "sys/class/drm/%s/device", card) &&
	       drm_root_link(d, target, "sys/bus/pci/devices/%s", pci);
}

/* A process's descriptor of that card's client with so much in that region. */
static inline bool drm_root_client(const struct drm_root *d, unsigned int pid, int fd, const char *pci,
				   unsigned int client, const char *region, const char *bytes)
{
	char text[512];

	(void)snprintf(text, sizeof(text),
		       "pos:\t0\nflags:\t02100002\ndrm-driver:\tamdgpu\ndrm-client-id:\t%u\ndrm-pdev:\t%s\n"
		       "drm-total-%s:\t99999 KiB\ndrm-resident-%s:\t%s\n",
		       client, pci, region, region, bytes);
	return drm_root_link(d, "/dev/dri/renderD128", "proc/%u/fd/%d", pid, fd) &&
	       drm_root_text(d, text, "proc/%u/fdinfo/%d", pid, fd);
}
