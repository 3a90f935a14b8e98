/* SPDX-License-Identifier: MIT */
#include "proc/visible_devices.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/units.h"

/* A card of NVIDIA's, or an instance of one where those are meant. */
static bool is_nvidia(const struct gpu_device *d, bool is_instance)
{
	return (d->parent >= 0) == is_instance && (!d->driver[0] || strcmp(d->driver, "nvidia") == 0);
}

static const struct gpu_device *by_index(const struct gpu_snapshot *s, uint32_t index)
{
	for (size_t i = 0; i < s->device_count; i++)
		if (is_nvidia(&s->devices[i], false) && s->devices[i].index >= 0 && (uint32_t)s->devices[i].index == index)
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
		if (!is_nvidia(&s->devices[i], strncmp(entry, "MIG-", 4) == 0) ||
		    strncmp(s->devices[i].uuid, entry, strlen(entry)) != 0)
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

/* More cards than a machine has; further ones are not known. */
#define HIP_CARDS_MAX 64

struct cards {
	const struct gpu_device *v[HIP_CARDS_MAX];
	size_t len;
};

static const struct gpu_device *hip_entry(const struct cards *from, const char *entry, size_t len)
{
	char text[32];
	uint32_t index;

	if (!len || len >= sizeof(text))
		return NULL;
	memcpy(text, entry, len);
	text[len] = '\0';
	if (parse_u32(text, &index) == 0)
		return index < from->len ? from->v[index] : NULL;
	for (size_t i = 0; i < from->len; i++)
		if (strcasecmp(from->v[i]->uuid, text) == 0)
			return from->v[i];
	return NULL;
}

static void hip_choose(struct cards *cards, const char *value)
{
	struct cards chosen = { .len = 0 };

	for (;;) {
		size_t len = strcspn(value, ","), i = 0;
		const struct gpu_device *d = hip_entry(cards, value, len);

		if (!d)
			break;
		while (i < chosen.len && chosen.v[i] != d)
			i++;
		if (i == chosen.len)
			chosen.v[chosen.len++] = d; /* each once: no more than there were */
		if (!value[len])
			break;
		value += len + 1;
	}
	*cards = chosen;
}

const struct gpu_device *visible_device_hip(const struct visible_hip *v, const struct gpu_snapshot *s, int ordinal)
{
	const char *second = v->hip && v->hip[0] ? v->hip : v->cuda;
	struct cards cards = { .len = 0 };

	for (size_t i = 0; i < s->device_count && cards.len < HIP_CARDS_MAX; i++)
		if (strcmp(s->devices[i].driver, "amdgpu") == 0)
			cards.v[cards.len++] = &s->devices[i];
	if (v->rocr)
		hip_choose(&cards, v->rocr);
	if (second && second[0])
		hip_choose(&cards, second);
	return ordinal >= 0 && (size_t)ordinal < cards.len ? cards.v[ordinal] : NULL;
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
