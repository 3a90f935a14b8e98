/* SPDX-License-Identifier: MIT */
#include "stack/python_offsets.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "proc/procfs.h"
#include "stack/image.h"

#define MAPS_TEXT_MAX ((size_t)64 << 20)
#define IMAGES_MAX 8192 /* files looked at in one process */

/*
 * "start-end perms offset ...": is it the readable start of a file? Anonymous memory has offset 0 too and fails
 * later, at its first bytes; a path tells it apart sooner.
 */
static bool maps_image(const char *line, const char *end, uint64_t *ret_base)
{
	char *p;
	uint64_t start = strtoull(line, &p, 16);

	if (*p != '-')
		return false;
	(void)strtoull(p + 1, &p, 16);
	if (*p != ' ' || end - p < 7 || p[1] != 'r')
		return false;
	if (strtoull(p + 5, &p, 16) != 0 || !memchr(p, '/', (size_t)(end - p)))
		return false;
	*ret_base = start;
	return true;
}

/* 3.11 and later say it; before, each version's first new function of the stable interface does. */
static int python_version(const struct memory *m, const struct image *im, uint32_t *ret)
{
	static const struct {
		const char *symbol;
		uint32_t version;
	} signs[] = { { "Py_NewRef", 0x030a0000 }, { "PyThreadState_GetFrame", 0x03090000 } };
	uint64_t at;
	int r;

	r = image_symbol(m, im, "Py_Version", &at);
	if (r == 0)
		return memory_read(m, at, ret, sizeof(*ret));
	for (size_t i = 0; i < ARRAY_SIZE(signs) && r == -ENOENT; i++) {
		r = image_symbol(m, im, signs[i].symbol, &at);
		if (r == 0)
			*ret = signs[i].version;
	}
	return r == -ENOENT ? -EOPNOTSUPP : r;
}

/* -ENOENT: no interpreter in this file. */
static int try_image(const struct memory *m, uint64_t base, struct python_info *info)
{
	struct image im;
	uint64_t runtime;
	int r;

	r = image_open(m, base, &im);
	if (r == 0)
		r = image_symbol(m, &im, "_PyRuntime", &runtime);
	/* Files that are mapped to be read, and files that end before what they promise. */
	if (r == -EFAULT || r == -ENOEXEC)
		return -ENOENT;
	if (r < 0)
		return r;
	info->runtime = runtime;
	r = python_version(m, &im, &info->version);
	if (r == 0)
		r = python_layout_of(m, runtime, info->version, info);
	if (r == 0 && image_symbol(m, &im, "PyCode_Type", &info->code_type) < 0)
		info->code_type = 0;
	return r == -EFAULT || r == -ENOENT ? -EOPNOTSUPP : r;
}

static int find_in_maps(const struct memory *m, const char *text, struct python_info *ret)
{
	struct python_info info = { 0 };
	size_t images = 0;
	int result = -ENOENT;

	for (const char *line = text; *line && images < IMAGES_MAX;) {
		const char *end = strchrnul(line, '\n');
		uint64_t base;

		if (maps_image(line, end, &base)) {
			int r = try_image(m, base, &info);

			images++;
			/* Two may export it, and only one be in use: a program and the libpython of its plug-in. */
			if (r == 0 || (r == -EAGAIN && result != 0) || (r == -EOPNOTSUPP && result == -ENOENT)) {
				*ret = info;
				result = r;
			}
			if (r == 0 || r == -ESRCH || r == -EPERM)
				return r;
		}
		line = *end ? end + 1 : end;
	}
	return result;
}

int python_find(const struct memory *m, uint32_t serial, struct python_info *ret)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int fd = -1;
	struct python_info info = { 0 };
	size_t len;
	int r, checked;

	fd = proc_open(m->proc_root, m->pid);
	if (fd < 0)
		return fd;
	r = file_read_head(fd, "maps", MAPS_TEXT_MAX, &text, &len);
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	r = find_in_maps(m, text, &info);
	checked = memory_check(m);
	if (checked < 0)
		return checked;
	if (r == -EOPNOTSUPP)
		ret->version = info.version;
	if (r < 0)
		return r;
	info.probe.serial = serial;
	info.probe.start_ns = m->start_ns;
	*ret = info;
	return 0;
}
