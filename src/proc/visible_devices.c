/* SPDX-License-Identifier: MIT */
#include "proc/visible_devices.h"

#include <errno.h>
#include <string.h>

#include "base/units.h"

static const struct gpu_device *by_index(const struct gpu_snapshot *s, uint32_t index)
{
	for (size_t i = 0; i < s->device_count; i++)
		if (s->devices[i].index >= 0 && (uint32_t)s->devices[i].index == index)
			return &s->devices[i];
	return NULL;
}

static const struct gpu_device *by_entry(const struct gpu_snapshot *s, const char *entry)
{
	const struct gpu_device *found = NULL;
	uint32_t index;

	if (parse_u32(entry, &index) == 0)
		return by_index(s, index);
	if (!entry[0])
		return NULL;
	for (size_t i = 0; i < s->device_count; i++) {
		if (strncmp(s->devices[i].uuid, entry, strlen(entry)) != 0)
			continue;
		if (found) /* the prefix is not unique: the driver refuses it too */
			return NULL;
		found = &s->devices[i];
	}
	return found;
}

const struct gpu_device *visible_device(const char *value, const struct gpu_snapshot *s, int ordinal)
{
	if (ordinal < 0)
		return NULL;
	if (!value)
		return by_index(s, (uint32_t)ordinal);
	for (int n = 0; *value; n++) {
		size_t len = strcspn(value, ",");
		const struct gpu_device *d;
		char entry[96];

		if (len >= sizeof(entry))
			return NULL;
		memcpy(entry, value, len);
		entry[len] = '\0';
		d = by_entry(s, entry);
		if (!d || n == ordinal)
			return d;
		value += len;
		if (*value == ',')
			value++;
	}
	return NULL;
}

int environ_get(const char *text, size_t len, const char *name, char **ret)
{
	size_t name_len = strlen(name);

	for (size_t at = 0; at < len;) {
		size_t n = strnlen(text + at, len - at);

		if (n > name_len && text[at + name_len] == '=' && memcmp(text + at, name, name_len) == 0) {
			char *value = strndup(text + at + name_len + 1, n - name_len - 1);

			if (!value)
				return -ENOMEM;
			*ret = value;
			return 0;
		}
		at += n + 1;
	}
	return -ENOENT;
}
