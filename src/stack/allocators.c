/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/map64.h"
#include "base/pattern.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "stack/site_key.h"

#define PATH_LEN_MAX 1024
#define KNOWN_SIZE 1024 /* power of two */

/* The same few files are in almost every stack. The path itself is compared: a hash alone could be made to collide. */
struct known {
	uint64_t hash;
	char *path; /* NULL = empty */
	size_t len;
	bool is_match;
};

struct allocators {
	struct pattern **list;
	size_t len;
	struct known *known; /* by hash modulo the size */
};

const char *const allocators_default[] = {
	/* CUDA: driver, runtime (wheels rename the copy they bring) and the bindings of both to Python */
	"/libcuda\\.so(\\.[0-9]+)*$",
	"/libcudart(-[0-9a-f]+)?\\.so(\\.[0-9]+)*$",
	"/cuda/bindings/(.*/)?(cy)?(driver|runtime)(_ptds)?(\\.[^/]+)?\\.so$",
	/* PyTorch */
	"/libc10(_cuda)?\\.so(\\.[0-9]+)*$",
	"/torch/cuda/memory\\.py$",
	/* CuPy */
	"/cupy/cuda/(memory|memory_hook|pinned_memory)(\\.[^/]+)?\\.so$",
	"/cupy/cuda/memory_hooks/[^/]+\\.py$",
	"/cupy_backends/cuda/api/(driver|runtime)(\\.[^/]+)?\\.so$",
	/* RMM: short a name as it is, only where it is installed or in what is surely its own */
	"/librmm\\.so(\\.[0-9]+)*$",
	"/rmm/pylibrmm/.*\\.(py|so)$",
	"/(site|dist)-packages/rmm/.*\\.(py|so)$",
	/* Numba */
	"/numba/cuda/cudadrv/[^/]+\\.py$",
	NULL,
};

int allocators_new(char *const *patterns, size_t len, struct allocators **ret)
{
	_cleanup_(allocators_freep) struct allocators *a = calloc(1, sizeof(*a));
	char error[PATTERN_ERROR_MAX];

	if (!a)
		return -ENOMEM;
	a->list = calloc(len + 1, sizeof(struct pattern *));
	a->known = calloc(KNOWN_SIZE, sizeof(*a->known));
	if (!a->list || !a->known)
		return -ENOMEM;
	for (; a->len < len; a->len++) {
		int r = pattern_new(patterns[a->len], error, &a->list[a->len]);

		if (r < 0)
			return r;
	}
	*ret = TAKE_PTR(a);
	return 0;
}

void allocators_free(struct allocators *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->len; i++)
		pattern_free(a->list[i]);
	for (size_t i = 0; a->known && i < KNOWN_SIZE; i++)
		free(a->known[i].path);
	free(a->known);
	free(a->list);
	free(a);
}

static void warn_of_limit(struct pattern *p)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	if (!pattern_tell_limit(p))
		return;
	text_escape(&sb, pattern_text(p), strlen(pattern_text(p)), 200);
	log_warning("allocators: pattern \"%s\" takes too long on some path, which counts as no match: avoid repeats "
		    "within repeats",
		    strbuf_str(&sb));
}

/* 1 or 0; -ELOOP: not all patterns were asked. */
static int match_any(const struct allocators *a, const char *path, size_t len, unsigned int *strikes)
{
	for (size_t i = 0; i < a->len; i++) {
		int r;

		if (*strikes == 0)
			return -ELOOP;
		r = pattern_match(a->list[i], path, len);
		if (r > 0)
			return 1;
		if (r < 0) {
			warn_of_limit(a->list[i]);
			(*strikes)--;
		}
	}
	return 0;
}

bool allocators_match(const struct allocators *a, const char *path, size_t len, unsigned int *strikes)
{
	struct known *known, new = { .len = len };
	int r;

	if (len > PATH_LEN_MAX)
		return false;
	new.hash = hash64(hash_bytes(0, path, len));
	known = &a->known[new.hash & (KNOWN_SIZE - 1)];
	if (known->path && known->hash == new.hash && known->len == len && memcmp(known->path, path, len) == 0)
		return known->is_match;
	r = match_any(a, path, len, strikes);
	if (r < 0)
		return false;
	new.is_match = r > 0;
	new.path = strndup(path, len);
	if (new.path) {
		free(known->path);
		*known = new;
	}
	return new.is_match;
}
