/* SPDX-License-Identifier: MIT */
/* The parsers of names of containers: the first byte picks one, the rest is the text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proc/container_name.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define UID "12345678-90ab-cdef-1234-567890abcdef"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(const char *s, size_t max, const char *more)
{
	static const char small[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	char all[96];

	if (!s)
		return;
	(void)snprintf(all, sizeof(all), "%s%s", small, more);
	if (!*s || strlen(s) > max || s[strspn(s, all)] != '\0')
		abort();
}

static void check(int r, struct container_name *n, bool is_free)
{
	if (r != 0 && r != -ENOENT)
		abort();
	if ((r == 0) != (n->pod || n->container) || !n->pod != !n->pod_namespace)
		abort();
	check_name(n->pod, 253, "-.");
	check_name(n->pod_namespace, 63, "-");
	check_name(n->container, is_free ? 253 : 63, is_free ? "_.-ABCDEFGHIJKLMNOPQRSTUVWXYZ" : "-");
	container_name_done(n);
}

/* What has an end of its own, as names of files do. */
static void run_name(char kind, const uint8_t *data, size_t size)
{
	struct container_name n = { 0 };
	char *text = strndup((const char *)data, size);

	if (!text)
		return;
	if (kind == 'l')
		check(container_name_from_link(text, ID, &n), &n, false);
	else
		check(container_name_from_folder(text, UID, &n), &n, false);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct container_name n = { 0 };
	char *text;

	if (size == 0)
		return 0;
	if (data[0] == 'l' || data[0] == 'f') {
		run_name((char)data[0], data + 1, size - 1);
		return 0;
	}
	/* Exactly as long: one byte too many is caught. */
	text = malloc(size > 1 ? size - 1 : 1);
	if (!text)
		return 0;
	memcpy(text, data + 1, size - 1);
	switch (data[0]) {
	case 'c':
		check(container_name_from_bundle(text, size - 1, "containerd", &n), &n, true);
		break;
	case 'o':
		check(container_name_from_bundle(text, size - 1, "cri-o", &n), &n, false);
		break;
	case 'd':
		check(container_name_from_docker(text, size - 1, &n), &n, true);
		break;
	case 'p':
		check(container_name_from_podman(text, size - 1, ID, &n), &n, true);
		break;
	default:
		break;
	}
	free(text);
	return 0;
}
