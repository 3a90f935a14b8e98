/* SPDX-License-Identifier: MIT */
#include "proc/container_name.h"

#include "proc/json_reader.h"

#define LABEL_MAX 63
#define NAME_MAX_LEN 253

/* Of RFC 1123, as the names of Kubernetes are: small letters, digits and -, with dots between such labels. */
static bool is_dns_name(struct span s, size_t max, bool may_have_dots)
{
	char before = '.';

	if (s.len == 0 || s.len > max)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		const char c = s.p[i];
		const bool is_alnum = is_digit(c) || (c >= 'a' && c <= 'z');

		if (!is_alnum && c != '-' && !(c == '.' && may_have_dots))
			return false;
		/* A label begins and ends with a letter or a digit. */
		if ((c == '.' && before == '-') || (!is_alnum && before == '.'))
			return false;
		before = c;
	}
	return before != '-' && before != '.';
}

static bool is_pod_name(struct span s)
{
	return is_dns_name(s, NAME_MAX_LEN, true);
}

static bool is_label(struct span s)
{
	return is_dns_name(s, LABEL_MAX, false);
}

/* As Docker, Podman and nerdctl take them. */
static bool is_free_name(struct span s)
{
	if (s.len == 0 || s.len > NAME_MAX_LEN)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		const char c = s.p[i];

		if (!is_digit(c) && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && (i == 0 || !strchr("_.-", c)))
			return false;
		if (c == '\0')
			return false;
	}
	return true;
}

struct found {
	struct span pod, pod_namespace, container;
};

static int put(struct span s, char **to)
{
	return *to ? 0 : span_copy(s, to);
}

/* What was found, into what is not known yet. */
static int give(const struct found *f, struct container_name *ret)
{
	int r = 0;

	if (f->container.len == 0 && (f->pod.len == 0 || f->pod_namespace.len == 0))
		return -ENOENT;
	if (f->pod.len > 0 && f->pod_namespace.len > 0 && !ret->pod) {
		r = put(f->pod, &ret->pod);
		if (r == 0)
			r = put(f->pod_namespace, &ret->pod_namespace);
	}
	return r < 0 ? r : put(f->container, &ret->container);
}

/* Up to the next '_', which no name of Kubernetes has in it. */
static bool part(struct span *rest, struct span *ret)
{
	const char *end = memchr(rest->p, '_', rest->len);

	if (!end)
		return false;
	*ret = (struct span){ rest->p, (size_t)(end - rest->p) };
	*rest = span_from(*rest, ret->len + 1);
	return true;
}

int container_name_from_link(const char *link, const char *id, struct container_name *ret)
{
	struct span s = span_of(link);
	struct found f = { 0 };

	if (!span_ends(s, ".log"))
		return -ENOENT;
	s = span_without(s, ".log");
	if (!span_ends(s, id))
		return -ENOENT;
	s = span_without(s, id);
	if (!span_ends(s, "-") || !part(&s, &f.pod) || !part(&s, &f.pod_namespace))
		return -ENOENT;
	f.container = span_without(s, "-");
	if (!is_pod_name(f.pod) || !is_label(f.pod_namespace) || !is_label(f.container))
		return -ENOENT;
	return give(&f, ret);
}

int container_name_from_folder(const char *folder, const char *pod_uid, struct container_name *ret)
{
	struct span s = span_of(folder);
	struct found f = { 0 };

	if (!part(&s, &f.pod_namespace) || !part(&s, &f.pod) || !span_is(s, pod_uid) || !is_pod_name(f.pod) ||
	    !is_label(f.pod_namespace))
		return -ENOENT;
	return give(&f, ret);
}

static const struct annotation {
	const char *runtime, *name;
	size_t offset; /* in struct found */
	bool (*is_good)(struct span s);
} annotations[] = {
	{ "containerd", "io.kubernetes.cri.sandbox-name", offsetof(struct found, pod), is_pod_name },
	{ "containerd", "io.kubernetes.cri.sandbox-namespace", offsetof(struct found, pod_namespace), is_label },
	{ "containerd", "io.kubernetes.cri.container-name", offsetof(struct found, container), is_label },
	{ "containerd", "nerdctl/name", offsetof(struct found, container), is_free_name },
	{ "cri-o", "io.kubernetes.pod.name", offsetof(struct found, pod), is_pod_name },
	{ "cri-o", "io.kubernetes.pod.namespace", offsetof(struct found, pod_namespace), is_label },
	{ "cri-o", "io.kubernetes.container.name", offsetof(struct found, container), is_label },
};

static void take_annotation(struct json_reader *j, struct span name, const char *runtime, struct found *f)
{
	const struct annotation *a = NULL;
	struct span value, *to;

	for (size_t i = 0; i < ARRAY_SIZE(annotations); i++) {
		if (strcmp(annotations[i].runtime, runtime) == 0 && span_is(name, annotations[i].name))
			a = &annotations[i];
	}
	if (!a) {
		json_skip(j);
		return;
	}
	to = (struct span *)((char *)f + a->offset);
	/* The first of several, as no writer makes several. */
	if (json_take_string(j, &value) && to->len == 0 && a->is_good(value))
		*to = value;
}

/* A file that is not good to its end tells nothing: it is being written, or it is no such file. */
int container_name_from_bundle(const char *text, size_t len, const char *runtime, struct container_name *ret)
{
	struct json_reader j = json_reader_of(text, len);
	struct found f = { 0 };
	struct span name;

	if (!json_enter_object(&j))
		return -ENOENT;
	while (json_next_member(&j, &name)) {
		if (!span_is(name, "annotations")) {
			json_skip(&j);
			continue;
		}
		if (!json_enter_object(&j))
			continue;
		while (json_next_member(&j, &name))
			take_annotation(&j, name, runtime, &f);
	}
	return j.is_bad ? -ENOENT : give(&f, ret);
}

int container_name_from_docker(const char *text, size_t len, struct container_name *ret)
{
	struct json_reader j = json_reader_of(text, len);
	struct found f = { 0 };
	struct span name, value;

	if (!json_enter_object(&j))
		return -ENOENT;
	while (json_next_member(&j, &name)) {
		if (!span_is(name, "Name")) {
			json_skip(&j);
			continue;
		}
		if (!json_take_string(&j, &value) || !span_starts(value, "/"))
			continue;
		value = span_from(value, 1);
		if (f.container.len == 0 && is_free_name(value))
			f.container = value;
	}
	return j.is_bad ? -ENOENT : give(&f, ret);
}

/* One object of the list: its first name, if it is the one that is looked for. */
static void take_listed(struct json_reader *j, const char *id, struct found *f)
{
	struct span name, value, first = { 0 };
	bool is_it = false;

	if (!json_enter_object(j))
		return;
	while (json_next_member(j, &name)) {
		if (span_is(name, "id")) {
			is_it = json_take_string(j, &value) && span_is(value, id);
		} else if (span_is(name, "names") && json_enter_array(j)) {
			while (json_next_element(j)) {
				if (json_take_string(j, &value) && first.len == 0)
					first = value;
			}
		} else if (!span_is(name, "names")) {
			json_skip(j);
		}
	}
	if (is_it && f->container.len == 0 && is_free_name(first))
		f->container = first;
}

int container_name_from_podman(const char *text, size_t len, const char *id, struct container_name *ret)
{
	struct json_reader j = json_reader_of(text, len);
	struct found f = { 0 };

	if (!json_enter_array(&j))
		return -ENOENT;
	while (json_next_element(&j))
		take_listed(&j, id, &f);
	return j.is_bad ? -ENOENT : give(&f, ret);
}
