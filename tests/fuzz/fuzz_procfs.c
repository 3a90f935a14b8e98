/* SPDX-License-Identifier: MIT */
/* The parsers of /proc text: the first byte picks one, the rest is the text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proc/procfs.h"

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
	if (!n.path || n.path[0] != '/' || (n.user_unit && !n.unit))
		abort();
	touch(n.unit);
	touch(n.user_unit);
	touch(n.container);
	touch(n.pod);
	cgroup_names_done(&n);
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
	case 'm':
		fuzz_maps(text);
		break;
	default:
		break;
	}
	free(text);
	return 0;
}
