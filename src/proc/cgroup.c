/* SPDX-License-Identifier: MIT */
#include "proc/procfs.h"

#include <string.h>

#include "base/cleanup.h"

#define CONTAINER_ID_LEN 64
#define UNIT_NAME_MAX 255
#define DELETED " (deleted)"

/* A piece of the text, not terminated. */
struct span {
	const char *p;
	size_t len;
};

/* The next part of *rest that ends at the separator or the end; false when there is none. Empty parts are skipped. */
static bool span_next(struct span *rest, char separator, struct span *ret)
{
	const char *end;

	while (rest->len > 0 && *rest->p == separator) {
		rest->p++;
		rest->len--;
	}
	if (rest->len == 0)
		return false;
	end = memchr(rest->p, separator, rest->len);
	ret->p = rest->p;
	ret->len = end ? (size_t)(end - rest->p) : rest->len;
	rest->p += ret->len;
	rest->len -= ret->len;
	return true;
}

static bool span_ends(struct span s, const char *suffix)
{
	size_t len = strlen(suffix);

	return s.len >= len && memcmp(s.p + s.len - len, suffix, len) == 0;
}

static bool span_starts(struct span s, const char *prefix)
{
	size_t len = strlen(prefix);

	return s.len >= len && memcmp(s.p, prefix, len) == 0;
}

static bool span_is(struct span s, const char *text)
{
	return s.len == strlen(text) && memcmp(s.p, text, s.len) == 0;
}

static bool span_contains(struct span s, const char *text)
{
	return memmem(s.p, s.len, text, strlen(text)) != NULL;
}

static struct span span_without(struct span s, const char *suffix)
{
	if (span_ends(s, suffix))
		s.len -= strlen(suffix);
	return s;
}

static bool is_hex(struct span s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
			return false;
	}
	return s.len > 0;
}

static int span_copy(struct span s, char **ret)
{
	char *copy;

	if (s.len == 0)
		return 0;
	copy = strndup(s.p, s.len);
	if (!copy)
		return -ENOMEM;
	free(*ret);
	*ret = copy;
	return 0;
}

/* The unit a component of the path stands for: systemd puts a _ before names that the kernel could take for its own. */
static bool unit_from_component(struct span c, struct span *ret)
{
	static const char *const suffixes[] = { ".service", ".scope", ".socket", ".mount", ".swap" };

	if (c.len > 0 && c.p[0] == '_') {
		c.p++;
		c.len--;
	}
	if (c.len == 0 || c.len > UNIT_NAME_MAX || c.p[0] == '.' || c.p[0] == '@' || span_contains(c, "@."))
		return false;
	for (size_t i = 0; i < c.len; i++) {
		unsigned char b = (unsigned char)c.p[i];

		if (!((b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') || (b >= '0' && b <= '9') ||
		      (b != '\0' && strchr(":-_.\\@", b))))
			return false;
	}
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		if (span_ends(c, suffixes[i])) {
			*ret = c;
			return true;
		}
	}
	return false;
}

/* The unit is the first component that is no slice; below a user manager there is a second one, of its own. */
static int cgroup_units(struct span path, struct cgroup_names *n)
{
	struct span c, unit, manager = { 0 };
	int r;

	while (span_next(&path, '/', &c)) {
		/* Out of a cgroup namespace the path goes up first. */
		if (span_ends(c, ".slice") || span_is(c, ".."))
			continue;
		if (!unit_from_component(c, &unit))
			return 0;
		if (manager.len > 0)
			return span_copy(unit, &n->user_unit);
		r = span_copy(unit, &n->unit);
		if (r < 0)
			return r;
		if (!span_starts(unit, "user@") || !span_ends(unit, ".service"))
			return 0;
		manager = unit;
	}
	return 0;
}

/*
 * A container's id in one component (or a part between colons, as containerd spells a systemd path when its driver is
 * cgroupfs): the bare id, or behind the runtime's name as in docker-ID.scope, cri-containerd-ID.scope, crio-ID.scope,
 * libpod-ID.scope. The monitor of a container (conmon) runs outside of it.
 */
static bool container_from_component(struct span c, struct span *ret)
{
	struct span id = span_without(c, ".scope"), prefix;

	if (id.len < CONTAINER_ID_LEN)
		return false;
	prefix = (struct span){ id.p, id.len - CONTAINER_ID_LEN };
	id = (struct span){ id.p + prefix.len, CONTAINER_ID_LEN };
	if (!is_hex(id) || (prefix.len > 0 && !span_ends(prefix, "-")) || span_contains(prefix, "conmon"))
		return false;
	*ret = id;
	return true;
}

/* kubepods-burstable-podUID.slice with _ for - in the uid (systemd driver), podUID (cgroupfs driver). */
static bool pod_from_component(struct span c, struct span *ret)
{
	struct span uid = span_without(c, ".slice");
	size_t start = 0;

	for (size_t i = 0; i + 4 <= uid.len; i++) {
		if (memcmp(uid.p + i, "-pod", 4) == 0)
			start = i + 1;
	}
	uid.p += start;
	uid.len -= start;
	if (!span_starts(uid, "pod"))
		return false;
	uid.p += 3;
	uid.len -= 3;
	/* A UUID, or the hash that stands for one in a static pod. */
	if (uid.len != 36 && uid.len != 32)
		return false;
	for (size_t i = 0; i < uid.len; i++) {
		if (uid.p[i] != '-' && uid.p[i] != '_' && !is_hex((struct span){ uid.p + i, 1 }))
			return false;
	}
	*ret = uid;
	return true;
}

/* lxc.payload.NAME, lxc.payload/NAME, lxc/NAME; lxc.monitor runs outside. *want_next: the name is the next component. */
static bool lxc_from_component(struct span c, bool *want_next, struct span *ret)
{
	static const char payload[] = "lxc.payload.";

	if (*want_next) {
		*want_next = false;
		*ret = c;
		return true;
	}
	if (span_is(c, "lxc") || span_is(c, "lxc.payload")) {
		*want_next = true;
		return false;
	}
	if (span_starts(c, payload) && c.len > strlen(payload)) {
		*ret = (struct span){ c.p + strlen(payload), c.len - strlen(payload) };
		return true;
	}
	return false;
}

/* The innermost container and pod: a node of a cluster may be a container itself. */
static int cgroup_containers(struct span path, struct cgroup_names *n)
{
	struct span c, part, container = { 0 }, pod = { 0 };
	bool want_next = false, is_kube = false;
	int r;

	while (span_next(&path, '/', &c)) {
		is_kube = is_kube || span_contains(c, "kubepods");
		(void)lxc_from_component(c, &want_next, &container);
		while (span_next(&c, ':', &part)) {
			(void)container_from_component(part, &container);
			if (is_kube)
				(void)pod_from_component(part, &pod);
		}
	}
	if (!n->container) {
		r = span_copy(container, &n->container);
		if (r < 0)
			return r;
	}
	if (!n->pod) {
		r = span_copy(pod, &n->pod);
		if (r < 0)
			return r;
		for (char *p = n->pod; p && *p; p++) {
			if (*p == '_')
				*p = '-';
		}
	}
	return 0;
}

/* "4:memory:/path"; the path may hold colons. */
static bool cgroup_line(struct span line, struct span *ret_controllers, struct span *ret_path)
{
	const char *first = memchr(line.p, ':', line.len), *second;

	if (!first || !is_hex((struct span){ line.p, (size_t)(first - line.p) }))
		return false;
	first++;
	second = memchr(first, ':', line.len - (size_t)(first - line.p));
	if (!second)
		return false;
	*ret_controllers = (struct span){ first, (size_t)(second - first) };
	second++;
	*ret_path = span_without((struct span){ second, line.len - (size_t)(second - line.p) }, DELETED);
	return ret_path->len > 0 && ret_path->p[0] == '/';
}

/*
 * The path that tells most. The unified hierarchy has a line even on a host that only uses the old ones, and says /
 * there; a host without systemd has neither, but its controllers have paths.
 */
static bool cgroup_best_path(struct span text, struct span *ret)
{
	struct span rest = text, line, controllers, path, unified = { 0 }, systemd = { 0 }, other = { 0 };

	while (span_next(&rest, '\n', &line)) {
		if (!cgroup_line(line, &controllers, &path))
			continue;
		if (controllers.len == 0)
			unified = path;
		else if (span_is(controllers, "name=systemd"))
			systemd = path;
		else if (other.len <= 1)
			other = path;
	}
	if (unified.len > 1 || (unified.len == 1 && systemd.len <= 1 && other.len <= 1))
		*ret = unified;
	else if (systemd.len > 1 || (systemd.len == 1 && other.len <= 1))
		*ret = systemd;
	else
		*ret = other;
	return ret->len > 0;
}

int cgroup_parse(const char *text, struct cgroup_names *ret)
{
	_cleanup_(cgroup_names_done) struct cgroup_names n = { 0 };
	struct span rest = { text, strlen(text) }, line, controllers, path;
	int r;

	if (!cgroup_best_path(rest, &path))
		return -EINVAL;
	r = span_copy(path, &n.path);
	if (r < 0)
		return r;
	r = cgroup_units(path, &n);
	if (r < 0)
		return r;
	r = cgroup_containers(path, &n);
	if (r < 0)
		return r;
	/* In the hybrid layout a runtime may have moved the process in some hierarchies only. */
	while (span_next(&rest, '\n', &line)) {
		if (!cgroup_line(line, &controllers, &path))
			continue;
		r = cgroup_containers(path, &n);
		if (r < 0)
			return r;
	}
	*ret = n;
	n = (struct cgroup_names){ 0 };
	return 0;
}

void cgroup_names_done(struct cgroup_names *n)
{
	free(n->path);
	free(n->unit);
	free(n->user_unit);
	free(n->container);
	free(n->pod);
	*n = (struct cgroup_names){ 0 };
}
