/* SPDX-License-Identifier: MIT */
#include "proc/cgroup_container.h"

#define CONTAINER_ID_LEN 64
#define UUID_LEN 36
#define HASH_LEN 32

struct container {
	struct span id;
	const char *runtime; /* NULL: not known */
	bool is_escaped;     /* id is spelled as in names of units */
};

/*
 * The runtime by the word in front of the id: "docker-ID.scope", "docker/ID", "slice:cri-containerd:ID". The last two
 * words are containerd's own namespaces, which are folders without systemd.
 */
static const char *runtime_by_word(struct span word)
{
	static const struct {
		const char *word, *runtime;
	} table[] = {
		{ "docker", "docker" },		{ "cri-containerd", "containerd" },
		{ "nerdctl", "containerd" },	{ "crio", "cri-o" },
		{ "libpod", "podman" },		{ "libpod-payload", "podman" },
		{ "k8s.io", "containerd" },	{ "default", "containerd" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (span_is(word, table[i].word))
			return table[i].runtime;
	}
	return NULL;
}

/*
 * A container's id in one component (or a part between colons, as containerd spells a systemd path when its driver is
 * cgroupfs): the bare id, or behind the runtime's name as in docker-ID.scope, cri-containerd-ID.scope, crio-ID.scope,
 * libpod-ID.scope. The monitor of a container (conmon) runs outside of it. before: the part in front of this one.
 */
static bool container_from_component(struct span before, struct span c, struct container *ret)
{
	struct span id = span_without(c, ".scope"), prefix;

	if (id.len < CONTAINER_ID_LEN)
		return false;
	prefix = (struct span){ id.p, id.len - CONTAINER_ID_LEN };
	id = span_from(id, prefix.len);
	if (!span_is_hex(id) || (prefix.len > 0 && !span_ends(prefix, "-")) || span_contains(prefix, "conmon"))
		return false;
	prefix = span_without(prefix, "-");
	*ret = (struct container){ .id = id, .runtime = runtime_by_word(prefix.len > 0 ? prefix : before) };
	return true;
}

/* A UUID with this character for its dashes, or the hash that stands for one in a static pod. */
static bool is_pod_uid(struct span uid, char dash)
{
	if (uid.len == HASH_LEN)
		return span_is_hex(uid);
	if (uid.len != UUID_LEN)
		return false;
	for (size_t i = 0; i < uid.len; i++) {
		bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (is_dash ? uid.p[i] != dash : !is_lower_hex(uid.p[i]))
			return false;
	}
	return true;
}

/* kubepods-burstable-podUID.slice with _ for - in the uid (systemd driver), podUID (cgroupfs driver). */
static bool pod_from_component(struct span c, struct span *ret)
{
	bool is_slice = span_ends(c, ".slice");
	struct span uid = span_without(c, ".slice");
	size_t start = 0;

	for (size_t i = 0; i + 4 <= uid.len; i++) {
		if (memcmp(uid.p + i, "-pod", 4) == 0)
			start = i + 1;
	}
	uid = span_from(uid, start);
	if (!span_starts(uid, "pod"))
		return false;
	uid = span_from(uid, 3);
	if (!is_pod_uid(uid, is_slice ? '_' : '-'))
		return false;
	*ret = uid;
	return true;
}

/* lxc.payload.NAME, lxc.payload/NAME, lxc/NAME; lxc.monitor runs outside. before: the component in front. */
static bool lxc_from_component(struct span before, struct span c, struct container *ret)
{
	static const char payload[] = "lxc.payload.";
	struct span name = { 0 };

	if (span_is(before, "lxc") || span_is(before, "lxc.payload"))
		name = c;
	else if (span_starts(c, payload))
		name = span_from(c, strlen(payload));
	if (name.len == 0 || span_is(name, "..") || span_is(name, "."))
		return false;
	*ret = (struct container){ .id = name, .runtime = "lxc" };
	return true;
}

/* libvirt's containers are machines too: lxc, a number and the name. */
static bool libvirt_lxc(struct span name, struct container *ret)
{
	static const char prefix[] = "lxc\\x2d", dash[] = "\\x2d";
	struct span number;
	const char *end;

	if (!span_starts(name, prefix))
		return false;
	name = span_from(name, strlen(prefix));
	end = memmem(name.p, name.len, dash, strlen(dash));
	number = (struct span){ name.p, end ? (size_t)(end - name.p) : 0 };
	if (!span_is_number(number) || name.len <= number.len + strlen(dash))
		return false;
	*ret = (struct container){ span_from(name, number.len + strlen(dash)), "lxc", .is_escaped = true };
	return true;
}

/*
 * machine-NAME.scope in machine.slice, systemd-nspawn@NAME.service. Beside the payload there is systemd-nspawn itself,
 * in supervisor, which is not in the container. before, after: the neighbours.
 */
static bool machine_from_component(struct span before, struct span c, struct span after, struct container *ret)
{
	static const char scope[] = "machine-", service[] = "systemd-nspawn@";
	struct span name;

	if (span_starts(c, scope) && span_ends(c, ".scope")) {
		/* Elsewhere anybody's scope may begin like this. */
		if (!span_is(before, "machine.slice") && !(span_starts(before, scope) && span_ends(before, ".slice")))
			return false;
		if (span_is(after, "supervisor"))
			return false;
		name = span_from(span_without(c, ".scope"), strlen(scope));
	} else if (span_starts(c, service) && span_ends(c, ".service")) {
		if (!span_is(after, "payload"))
			return false;
		name = span_from(span_without(c, ".service"), strlen(service));
	} else {
		return false;
	}
	/* A virtual machine of libvirt. */
	if (name.len == 0 || span_starts(name, "qemu\\x2d"))
		return false;
	if (!libvirt_lxc(name, ret))
		*ret = (struct container){ .id = name, .runtime = "systemd-nspawn", .is_escaped = true };
	return true;
}

static int hex_value(char c)
{
	return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* \xNN of names of units, in place; one that makes no sense stays as it is. */
static void unit_unescape(char *s)
{
	char *to = s;

	while (*s) {
		int high = s[0] == '\\' && s[1] == 'x' ? hex_value(s[2]) : -1, low = high >= 0 ? hex_value(s[3]) : -1;

		if (low >= 0 && (high || low)) {
			*to++ = (char)(high << 4 | low);
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

/*
 * Ids in the parts of one component. The kubelet's own folder of a pod has bare ids: runtimes that still are used like
 * this without a word of their own stand on containerd. before: the component in front of this one.
 */
static void find_ids(struct span before, struct span c, bool is_kube, struct container *ret, struct span *ret_pod)
{
	struct span part, pod;

	while (span_next(&c, ':', &part)) {
		if (container_from_component(before, part, ret) && !ret->runtime && is_kube &&
		    pod_from_component(before, &pod))
			ret->runtime = "containerd";
		if (is_kube)
			(void)pod_from_component(part, ret_pod);
		before = part;
	}
}

/* The innermost container and pod: a node of a cluster may be a container itself. */
static void find_innermost(struct span path, struct container *ret, struct span *ret_pod)
{
	/* Out of a cgroup namespace the path goes up first, maybe to within the kubelet's tree. */
	bool is_kube = span_starts(path, "/..");
	struct span c, before = { 0 };

	while (span_next(&path, '/', &c)) {
		struct span rest = path, after = { 0 };

		(void)span_next(&rest, '/', &after);
		is_kube = is_kube || span_contains(c, "kubepods");
		if (!lxc_from_component(before, c, ret))
			(void)machine_from_component(before, c, after, ret);
		find_ids(before, c, is_kube, ret, ret_pod);
		before = c;
	}
}

int cgroup_containers(struct span path, struct cgroup_names *n)
{
	struct container container = { 0 };
	struct span pod = { 0 };
	int r;

	find_innermost(path, &container, &pod);
	if (!n->container && container.id.len > 0) {
		r = span_copy(container.id, &n->container);
		if (r == 0 && container.runtime)
			r = span_copy(span_of(container.runtime), &n->runtime);
		if (r < 0)
			return r;
		if (container.is_escaped)
			unit_unescape(n->container);
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
