/* SPDX-License-Identifier: MIT */
/* The parsers of what DRM and KFD say: the first byte picks one, the rest is the text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proc/drm.h"
#include "proc/nvml_snapshot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is said to be an address is one in its normal form. */
static void check_pci(const char *pci)
{
	char again[16];

	if (strnlen(pci, 16) == 16 || gpu_pci_parse(pci, again) < 0 || strcmp(pci, again) != 0)
		abort();
}

static void fuzz_fdinfo(const char *text)
{
	struct drm_fdinfo d;

	if (drm_fdinfo_parse(text, &d) < 0)
		return;
	if (d.driver[0] == '\0' || strnlen(d.driver, sizeof(d.driver)) == sizeof(d.driver))
		abort();
	if (d.pci[0] != '\0')
		check_pci(d.pci);
	for (size_t i = 0; i < DRM_ENGINES; i++)
		if (d.engines[i].capacity == 0)
			abort();
	if ((!d.has_device_memory && d.device_bytes != UINT64_MAX) || (d.kinds & ~(3u)))
		abort();
}

static void fuzz_kfd(const char *text)
{
	char pci[16];

	if (drm_kfd_location_parse(text, pci) == 0)
		check_pci(pci);
	else if (pci[0] != '\0')
		abort();
}

static void fuzz_unique_id(const char *text)
{
	char uuid[96];

	if (drm_unique_id_parse(text, uuid) == 0 && (strlen(uuid) != 20 || strspn(uuid + 4, "0123456789abcdef") != 16))
		abort();
}

static void fuzz_pci(const char *text)
{
	char pci[16];

	if (gpu_pci_parse(text, pci) == 0)
		check_pci(pci);
	else if (pci[0] != '\0')
		abort();
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
	case 'f':
		fuzz_fdinfo(text);
		break;
	case 'k':
		fuzz_kfd(text);
		break;
	case 'u':
		fuzz_unique_id(text);
		break;
	case 'p':
		fuzz_pci(text);
		break;
	default:
		break;
	}
	free(text);
	return 0;
}
