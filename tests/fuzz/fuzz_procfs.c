/* SPDX-License-Identifier: MIT */
/* The parsers of /proc text: the first byte picks one, the rest is the text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proc/procfs.h"
#include "proc/user_name.h"
#include "proc/visible_devices.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads every byte of it, so that a sanitizer sees what is not ours. */
static void touch(const char *s)
{
	if (s && strlen(s) == SIZE_MAX)
		abort();
}

static void fuzz_stat(const char *text)
{
	struct proc_stat st;

	if (proc_stat_parse(text, &st) < 0)
		return;
	if (st.pid == 0 || strlen(st.comm) >= sizeof(st.comm))
		abort();
}

static void fuzz_cgroup(const char *text)
{
	struct cgroup_names n;

	if (cgroup_parse(text, &n) < 0)
		return;
	if (!n.path || n.path[0] != '/' || (n.user_unit && !n.unit) || (n.runtime && !n.container) ||
	    (n.pod && strlen(n.pod) != 36 && strlen(n.pod) != 32) ||
	    (n.slurm_job && strspn(n.slurm_job, "0123456789") == 0))
		abort();
	touch(n.unit);
	touch(n.user_unit);
	touch(n.slice);
	touch(n.container);
	touch(n.runtime);
	touch(n.pod);
	touch(n.slurm_job);
	cgroup_names_done(&n);
}

static void fuzz_status(const char *text)
{
	struct proc_status st;

	proc_status_parse(text, &st);
	if ((st.ns_count == 0) != (st.inner_pid == 0) || st.inner_pid > INT32_MAX)
		abort();
}

static void fuzz_passwd(const char *text)
{
	static const uint32_t uids[] = { 0, 1000, 65534, UINT32_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(uids); i++) {
		char *name = NULL;

		if (passwd_find(text, strlen(text), uids[i], &name) < 0)
			continue;
		if (!name[0] || strlen(name) > USER_NAME_MAX || strpbrk(name, ":\n"))
			abort();
		free(name);
	}
}

static void fuzz_maps(const char *text)
{
	struct address_space *as;

	if (maps_parse(text, 1, 2, &as) < 0)
		return;
	for (size_t i = 0; i < as->count; i++) {
		const struct mapping *m = &as->mappings[i];

		touch(m->path);
		if (m->start >= m->end || (i > 0 && m->start < m[-1].end) || strchr(m->path, '\n'))
			abort();
		if (address_space_find(as, m->start) != m || address_space_find(as, m->end - 1) != m)
			abort();
	}
	address_space_unref(as);
}

/* A process's environment is its own to write: whatever it says, the device is one of the snapshot or none. */
static void fuzz_environ(const char *text, size_t len)
{
	static struct gpu_device devices[] = { { .uuid = "GPU-fa4e0000-6b1d-429c-8f00-5eedc0de0010", .index = 0 },
					       { .uuid = "GPU-0123456789abcdef", .driver = "amdgpu", .index = 1 } };
	static const char *const names[] = { "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES" };
	const struct gpu_snapshot snapshot = { .devices = devices, .device_count = ARRAY_SIZE(devices) };
	char *value[ARRAY_SIZE(names)] = { NULL };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (environ_get(text, len, names[i], &value[i]) == 0 && strlen(value[i]) > len)
			abort();
	for (int ordinal = -1; ordinal < 3; ordinal++) {
		const struct visible_hip hip = { .rocr = value[1], .hip = value[2], .cuda = value[0] };
		const struct gpu_device *found[] = { visible_device(value[0], &snapshot, ordinal),
						     visible_device_hip(&hip, &snapshot, ordinal) };

		for (size_t i = 0; i < ARRAY_SIZE(found); i++)
			if (found[i] && (found[i] < devices || found[i] >= devices + ARRAY_SIZE(devices)))
				abort();
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		free(value[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size == 0)
		return 0;
	text = malloc(size);
	if (!text)
		return 0;
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	switch (data[0]) {
	case 's':
		fuzz_stat(text);
		break;
	case 'c':
		fuzz_cgroup(text);
		break;
	case 'u':
		fuzz_status(text);
		break;
	case 'p':
		fuzz_passwd(text);
		break;
	case 'm':
		fuzz_maps(text);
		break;
	case 'e':
		fuzz_environ(text, size - 1);
		break;
	default:
		break;
	}
	free(text);
	return 0;
}
