/* SPDX-License-Identifier: MIT */
#include "trace/keep.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/units.h"

#define NAME_SIZE 64

struct offered {
	char name[NAME_SIZE];
	int fd;
};

struct stored {
	char name[NAME_SIZE];
	size_t count;
};

struct keep {
	struct keep_ops ops;
	struct offered *offered;
	size_t offered_len;
	struct stored *stored;
	size_t stored_len, count; /* count: descriptors */
	uint32_t last_number;
	bool is_off;
};

int keep_new(const struct keep_ops *ops, struct keep **ret)
{
	struct keep *k = calloc(1, sizeof(*k));

	if (!k)
		return -ENOMEM;
	k->ops = *ops;
	*ret = k;
	return 0;
}

/* What of name follows prefix; NULL: it has another one. */
static const char *after(const char *name, const char *prefix)
{
	const size_t len = strlen(prefix);

	return strncmp(name, prefix, len) == 0 ? name + len : NULL;
}

/* "library-N": N; 0: not such a name. */
static uint32_t library_number(const char *name)
{
	const char *text = after(name, "library-");
	uint32_t n;

	return text && parse_u32(text, &n) == 0 ? n : 0;
}

/* "probes-N-COUNT" */
static uint32_t probes_number(const char *name, uint32_t *ret_count)
{
	const char *text = after(name, "probes-"), *dash = text ? strchr(text, '-') : NULL;
	char number[NAME_SIZE];
	uint32_t n;

	if (!dash || (size_t)(dash - text) >= sizeof(number))
		return 0;
	memcpy(number, text, (size_t)(dash - text));
	number[dash - text] = '\0';
	return parse_u32(number, &n) == 0 && parse_u32(dash + 1, ret_count) == 0 ? n : 0;
}

static bool is_ours(const char *name)
{
	uint32_t count;

	return strlen(name) < NAME_SIZE && (after(name, "map-") || strcmp(name, "exit") == 0 || strcmp(name, "exec") == 0 ||
					    library_number(name) || probes_number(name, &count));
}

/* It is in the store under this name. */
static int note_stored(struct keep *k, const char *name)
{
	struct stored *more;

	k->count++;
	for (size_t i = 0; i < k->stored_len; i++)
		if (strcmp(k->stored[i].name, name) == 0) {
			k->stored[i].count++;
			return 0;
		}
	more = realloc(k->stored, (k->stored_len + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	k->stored = more;
	more += k->stored_len++;
	snprintf(more->name, sizeof(more->name), "%s", name);
	more->count = 1;
	return 0;
}

int keep_offer(struct keep *k, const char *name, int fd_taken)
{
	_cleanup_close_ int fd = fd_taken;
	struct offered *more;
	uint32_t count, n;

	if (!is_ours(name))
		return -EINVAL;
	more = realloc(k->offered, (k->offered_len + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	k->offered = more;
	if (note_stored(k, name) < 0)
		return -ENOMEM;
	n = library_number(name) ?: probes_number(name, &count);
	k->last_number = MAX(k->last_number, n);
	more += k->offered_len++;
	snprintf(more->name, sizeof(more->name), "%s", name);
	more->fd = TAKE_FD(fd);
	return 0;
}

size_t keep_offered(const struct keep *k)
{
	return k ? k->offered_len : 0;
}

static size_t find(const struct keep *k, const char *name)
{
	for (size_t i = 0; i < keep_offered(k); i++)
		if (strcmp(k->offered[i].name, name) == 0)
			return i;
	return SIZE_MAX;
}

int keep_peek(const struct keep *k, const char *name)
{
	const size_t i = find(k, name);

	return i == SIZE_MAX ? -ENOENT : k->offered[i].fd;
}

static int take_at(struct keep *k, size_t i)
{
	const int fd = k->offered[i].fd;

	k->offered[i] = k->offered[--k->offered_len];
	return fd;
}

int keep_take(struct keep *k, const char *name)
{
	const size_t i = find(k, name);

	return i == SIZE_MAX ? -ENOENT : take_at(k, i);
}

static size_t count_of(const struct keep *k, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < k->offered_len; i++)
		n += strcmp(k->offered[i].name, name) == 0;
	return n;
}

/* Links of a library; SIZE_MAX: not as many as there should be. */
static size_t links_of(const struct keep *k, uint32_t number)
{
	size_t n = 0;

	for (size_t i = 0; i < k->offered_len; i++) {
		uint32_t count = 0;

		if (probes_number(k->offered[i].name, &count) != number)
			continue;
		if (count_of(k, k->offered[i].name) != count)
			return SIZE_MAX;
		n++;
	}
	return n ? n : SIZE_MAX;
}

bool keep_is_complete(const struct keep *k)
{
	if (count_of(k, "exit") != 1 || count_of(k, "exec") != 1)
		return false;
	for (size_t i = 0; i < k->offered_len; i++) {
		const char *name = k->offered[i].name;
		uint32_t count, number = library_number(name);
		char library[NAME_SIZE];

		if (after(name, "map-") && count_of(k, name) != 1)
			return false;
		if (number && (count_of(k, name) != 1 || links_of(k, number) == SIZE_MAX))
			return false;
		number = probes_number(name, &count);
		snprintf(library, sizeof(library), "library-%u", number);
		if (number && count_of(k, library) != 1)
			return false;
	}
	return true;
}

int keep_take_library(struct keep *k, struct kept_library *ret)
{
	struct kept_library l = { .fd = -1 };
	size_t n;

	for (size_t i = 0; i < keep_offered(k) && !l.number; i++)
		l.number = library_number(k->offered[i].name);
	if (!l.number)
		return -ENOENT;
	n = links_of(k, l.number);
	l.links = n == SIZE_MAX ? NULL : calloc(n, sizeof(*l.links));
	if (!l.links)
		return n == SIZE_MAX ? -ENOENT : -ENOMEM;
	for (size_t i = 0; i < k->offered_len;) {
		uint32_t count;

		if (library_number(k->offered[i].name) == l.number)
			l.fd = take_at(k, i);
		else if (probes_number(k->offered[i].name, &count) == l.number)
			l.links[l.links_len++] = take_at(k, i);
		else
			i++;
	}
	*ret = l;
	return 0;
}

void kept_library_done(struct kept_library *l)
{
	for (size_t i = 0; i < l->links_len; i++)
		(void)close(l->links[i]);
	if (l->fd >= 0)
		(void)close(l->fd);
	free(l->links);
	*l = (struct kept_library){ .fd = -1 };
}

/* Probes go before what they write to, and before the watch that ends processes. */
static void close_offered(struct keep *k)
{
	uint32_t count;

	for (size_t i = 0; i < k->offered_len;) {
		if (probes_number(k->offered[i].name, &count))
			(void)close(take_at(k, i));
		else
			i++;
	}
	while (k->offered_len)
		(void)close(take_at(k, 0));
}

static void empty_store(struct keep *k)
{
	uint32_t count;

	for (int links = 1; links >= 0; links--)
		for (size_t i = 0; i < k->stored_len; i++)
			if (!!probes_number(k->stored[i].name, &count) == links)
				k->ops.remove(k->stored[i].name, k->ops.userdata);
	k->stored_len = k->count = 0;
}

void keep_drop(struct keep *k)
{
	if (!k)
		return;
	close_offered(k);
	empty_store(k);
}

void keep_free(struct keep *k)
{
	if (!k)
		return;
	close_offered(k);
	free(k->offered);
	free(k->stored);
	free(k);
}

static int store(struct keep *k, const char *name, int fd)
{
	int r;

	if (k->count >= KEEP_MAX)
		return -ENOSPC;
	r = k->ops.store(name, fd, k->ops.userdata);
	return r < 0 ? r : note_stored(k, name);
}

void keep_stop(struct keep *k)
{
	if (!k)
		return;
	empty_store(k);
	k->is_off = true;
}

static void give_up(struct keep *k, int error)
{
	log_warning("the probes cannot be kept across a restart (%s): the next start will know nothing of earlier allocations",
		    error == -ENOSPC ? "more libraries are probed than the service manager takes descriptors" : strerror(-error));
	keep_stop(k);
}

void keep_store(struct keep *k, const char *name, int fd)
{
	int r;

	if (!keep_is_on(k))
		return;
	r = store(k, name, fd);
	if (r < 0)
		give_up(k, r);
}

uint32_t keep_store_library(struct keep *k, int fd, const int *links, size_t len)
{
	char name[NAME_SIZE];
	uint32_t number;
	int r;

	if (!keep_is_on(k) || !len)
		return 0;
	number = ++k->last_number;
	snprintf(name, sizeof(name), "probes-%u-%zu", number, len);
	/* The links first: a file without links would be taken for a probed one, were it not for the count. */
	r = k->count + len >= KEEP_MAX ? -ENOSPC : 0;
	for (size_t i = 0; i < len && r == 0; i++)
		r = store(k, name, links[i]);
	snprintf(name, sizeof(name), "library-%u", number);
	if (r == 0)
		r = store(k, name, fd);
	if (r < 0) {
		give_up(k, r);
		return 0;
	}
	return number;
}

void keep_remove_library(struct keep *k, uint32_t number)
{
	if (!k || !number)
		return;
	for (size_t i = 0; i < k->stored_len;) {
		struct stored *s = &k->stored[i];
		uint32_t count;

		if (library_number(s->name) != number && probes_number(s->name, &count) != number) {
			i++;
			continue;
		}
		k->ops.remove(s->name, k->ops.userdata);
		k->count -= s->count;
		*s = k->stored[--k->stored_len];
	}
}

bool keep_is_on(const struct keep *k)
{
	return k && !k->is_off;
}
