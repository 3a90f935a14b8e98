/* SPDX-License-Identifier: MIT */
#include "proc/drm.h"

#include <ctype.h>
#include <string.h>

#include "base/units.h"
#include "proc/nvml_snapshot.h"

/* No device has more regions of its own memory. */
#define REGIONS_MAX 8
/* Nor more engines of a kind. */
#define CAPACITY_MAX 64

/* Which of the keys said it: later ones are better. */
enum drm_figure { DRM_TOTAL, DRM_MEMORY, DRM_RESIDENT, DRM_FIGURES };

static const char *const figure_keys[DRM_FIGURES] = {
	[DRM_TOTAL] = "drm-total-",
	[DRM_MEMORY] = "drm-memory-",
	[DRM_RESIDENT] = "drm-resident-",
};

struct drm_region {
	char name[16];
	uint64_t bytes;
	int figure;
};

struct drm_regions {
	struct drm_region list[REGIONS_MAX];
	size_t count;
	bool is_over;
};

/* One line cut at its colon into buf; *line moves behind it. False at the end of the text; a line without is empty. */
static bool next_pair(const char **line, char *buf, size_t size, const char **ret_key, const char **ret_value)
{
	size_t len = strcspn(*line, "\n");
	char *colon, *value;

	if (**line == '\0')
		return false;
	(void)snprintf(buf, size, "%.*s", (int)MIN(len, size - 1), *line);
	/* One that does not fit says nothing, rather than half of a number. */
	colon = len < size ? strchr(buf, ':') : NULL;
	*line += len + ((*line)[len] == '\n');
	*ret_key = *ret_value = "";
	if (!colon)
		return true;
	*colon = '\0';
	value = colon + 1 + strspn(colon + 1, " \t");
	for (char *end = value + strlen(value); end > value && strchr(" \t\r", end[-1]); end--)
		end[-1] = '\0';
	*ret_key = buf;
	*ret_value = value;
	return true;
}

/* "1234 KiB", "2 MiB", "17": 0, -EINVAL, -ERANGE. */
static int bytes_parse(const char *value, uint64_t *ret)
{
	static const struct {
		const char *name;
		int shift;
	} units[] = { { "", 0 }, { "KiB", 10 }, { "MiB", 20 }, { "GiB", 30 } };
	size_t digits = strspn(value, "0123456789");
	const char *unit = value + digits + strspn(value + digits, " \t");
	char number[24];
	uint64_t v;
	int r;

	if (digits == 0)
		return -EINVAL;
	if (digits >= sizeof(number))
		return -ERANGE;
	memcpy(number, value, digits);
	number[digits] = '\0';
	r = parse_u64(number, &v);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (strcmp(unit, units[i].name) != 0)
			continue;
		return __builtin_mul_overflow(v, UINT64_C(1) << units[i].shift, ret) ? -ERANGE : 0;
	}
	return -EINVAL;
}

/* "vram" (amdgpu, nouveau), "vram0" (xe), "local0" (i915), not "gtt", "system0", "cpu" or "stolen". */
static bool is_device_region(const char *name)
{
	size_t len = strncmp(name, "vram", 4) == 0 ? 4 : strncmp(name, "local", 5) == 0 ? 5 : 0;

	return len > 0 && name[len + strspn(name + len, "0123456789")] == '\0';
}

static struct drm_region *region_named(struct drm_regions *all, const char *name)
{
	struct drm_region *r;

	for (size_t i = 0; i < all->count; i++)
		if (strcmp(all->list[i].name, name) == 0)
			return &all->list[i];
	if (all->count == REGIONS_MAX || strlen(name) >= sizeof(r->name)) {
		all->is_over = true;
		return NULL;
	}
	r = &all->list[all->count++];
	*r = (struct drm_region){ .bytes = UINT64_MAX, .figure = -1 };
	memcpy(r->name, name, strlen(name) + 1);
	return r;
}

static void read_region(struct drm_regions *all, const char *key, const char *value)
{
	for (int f = 0; f < DRM_FIGURES; f++) {
		const char *name = key + strlen(figure_keys[f]);
		struct drm_region *region;
		uint64_t bytes;

		if (strncmp(key, figure_keys[f], strlen(figure_keys[f])) != 0 || !is_device_region(name))
			continue;
		region = region_named(all, name);
		if (!region || region->figure >= f || bytes_parse(value, &bytes) < 0)
			return;
		region->figure = f;
		region->bytes = bytes;
	}
}

static struct drm_engine *engine_named(struct drm_fdinfo *d, const char *name)
{
	static const struct {
		const char *name;
		enum drm_engine_kind kind;
	} engines[] = {
		{ "compute", DRM_ENGINE_COMPUTE }, { "ccs", DRM_ENGINE_COMPUTE },  { "gfx", DRM_ENGINE_GRAPHICS },
		{ "render", DRM_ENGINE_GRAPHICS }, { "rcs", DRM_ENGINE_GRAPHICS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(engines); i++)
		if (strcmp(name, engines[i].name) == 0)
			return &d->engines[engines[i].kind];
	return NULL;
}

/* "123 ns", "123": 0, -EINVAL, -ERANGE. */
static int count_parse(const char *value, uint64_t *ret)
{
	size_t digits = strspn(value, "0123456789");
	char number[24];

	if (value[digits] != '\0' && strcmp(value + digits + strspn(value + digits, " \t"), "ns") != 0)
		return -EINVAL;
	if (digits >= sizeof(number))
		return -ERANGE;
	memcpy(number, value, digits);
	number[digits] = '\0';
	return parse_u64(number, ret);
}

/* amdgpu and i915: "drm-engine-compute: 123 ns"; xe: "drm-cycles-ccs: 123" of "drm-total-cycles-ccs: 456". */
static void read_engine(struct drm_fdinfo *d, const char *key, const char *value)
{
	static const char *const keys[] = { "drm-engine-capacity-", "drm-total-cycles-", "drm-engine-", "drm-cycles-" };
	struct drm_engine *e = NULL;
	uint64_t v;
	size_t k = 0;

	while (k < ARRAY_SIZE(keys) && strncmp(key, keys[k], strlen(keys[k])) != 0)
		k++;
	if (k < ARRAY_SIZE(keys))
		e = engine_named(d, key + strlen(keys[k]));
	if (!e || count_parse(value, &v) < 0)
		return;
	if (k == 0)
		e->capacity = v > 0 && v <= CAPACITY_MAX ? (uint32_t)v : 1;
	else if (k == 1)
		e->total = v;
	else
		e->busy = v;
}

/* Zero is a queue that was made but did no work. */
static uint32_t engine_kinds(const struct drm_fdinfo *d)
{
	const struct drm_engine *c = &d->engines[DRM_ENGINE_COMPUTE], *g = &d->engines[DRM_ENGINE_GRAPHICS];

	return (c->busy != 0 && c->busy != UINT64_MAX ? GPU_PROCESS_COMPUTE : 0) |
	       (g->busy != 0 && g->busy != UINT64_MAX ? GPU_PROCESS_GRAPHICS : 0);
}

int drm_fdinfo_parse(const char *text, struct drm_fdinfo *ret)
{
	const struct drm_engine none = { .busy = UINT64_MAX, .capacity = 1 };
	struct drm_fdinfo d = { .engines = { none, none } };
	struct drm_regions regions = { .count = 0 };
	const char *key, *value;
	char line[256];

	while (next_pair(&text, line, sizeof(line), &key, &value)) {
		if (strcmp(key, "drm-driver") == 0 && strlen(value) < sizeof(d.driver))
			memcpy(d.driver, value, strlen(value) + 1);
		else if (strcmp(key, "drm-pdev") == 0)
			(void)gpu_pci_parse(value, d.pci);
		else if (strcmp(key, "drm-client-id") == 0)
			d.has_client_id = parse_u64(value, &d.client_id) == 0;
		read_engine(&d, key, value);
		read_region(&regions, key, value);
	}
	if (d.driver[0] == '\0')
		return -EINVAL;
	d.kinds = engine_kinds(&d);
	d.has_device_memory = regions.count > 0 || regions.is_over;
	for (size_t i = 0; i < regions.count; i++)
		if (regions.list[i].figure < 0 ||
		    __builtin_add_overflow(d.device_bytes, regions.list[i].bytes, &d.device_bytes))
			regions.is_over = true;
	if (regions.is_over || !d.has_device_memory)
		d.device_bytes = UINT64_MAX;
	*ret = d;
	return 0;
}

int drm_kfd_location_parse(const char *text, char ret_pci[16])
{
	uint64_t domain = 0, location = 0;
	unsigned int at;
	char buf[48];

	ret_pci[0] = '\0';
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		char name[32], number[24];

		if (sscanf(line, "%31[^ \n] %23[0-9]", name, number) != 2)
			continue;
		if (strcmp(name, "domain") == 0)
			(void)parse_u64(number, &domain);
		else if (strcmp(name, "location_id") == 0)
			(void)parse_u64(number, &location);
	}
	/* Above the 16 bits: which part of a card that was divided up. */
	at = location & 0xffff;
	if (at == 0 || domain > UINT32_MAX)
		return -EINVAL;
	(void)snprintf(buf, sizeof(buf), "%x:%x:%x.%x", (unsigned int)domain, at >> 8, at >> 3 & 31, at & 7);
	return gpu_pci_parse(buf, ret_pci);
}

int drm_unique_id_parse(const char *text, char ret_uuid[96])
{
	size_t len = strspn(text, "0123456789abcdefABCDEF");

	/* All zeros: the card has none. */
	if (len != 16 || text[len + strspn(text + len, " \n")] != '\0' || strspn(text, "0") == 16)
		return -EINVAL;
	memcpy(ret_uuid, "GPU-", 4);
	for (size_t i = 0; i < 16; i++)
		ret_uuid[4 + i] = (char)tolower((unsigned char)text[i]);
	ret_uuid[20] = '\0';
	return 0;
}
