/* SPDX-License-Identifier: MIT */
/*
 * What containers are called, from files that kubelets and runtimes leave on the host; nobody is asked over a socket. Read
 * once of each container, a folder of some hundred links or one file, in a thread: where the file system hangs names are
 * missing, and nobody else waits.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

#define CONTAINER_ID_LEN 64 /* hexadecimal digits */
#define CONTAINER_NAMES_MAX 1024 /* kept at once; the one that was asked for longest ago makes room */
#define CONTAINER_LINKS_MAX 4096 /* entries of a folder that are looked at */
#define CONTAINER_FILE_MAX ((size_t)4 << 20)

/* Each NULL when not known. Checked: of Kubernetes such as its API lets pass, else letters, digits and "_.-". */
struct container_name {
	char *pod, *pod_namespace; /* both or none */
	char *container;
};

void container_name_done(struct container_name *n);

/*
 * Parsers. *ret must be empty or hold names already, which stay. 0, -ENOENT (nothing to be had from this), -ENOMEM.
 */
/* A link in /var/log/containers: POD_NAMESPACE_CONTAINER-ID.log. */
int container_name_from_link(const char *link, const char *id, struct container_name *ret);
/* A folder in /var/log/pods: NAMESPACE_POD_UID. */
int container_name_from_folder(const char *folder, const char *pod_uid, struct container_name *ret);
/* config.json of an OCI bundle, as containerd writes it for a kubelet and for nerdctl, and CRI-O. */
int container_name_from_bundle(const char *text, size_t len, const char *runtime, struct container_name *ret);
/* Docker's config.v2.json. */
int container_name_from_docker(const char *text, size_t len, struct container_name *ret);
/* Podman's list of containers, containers.json. */
int container_name_from_podman(const char *text, size_t len, const char *id, struct container_name *ret);

struct container_names;

struct container_names_stats {
	size_t used;
	size_t asked; /* that are being looked for */
	uint64_t evictions;
	uint64_t overflows; /* folders of which not all was looked at, containers for which there was no room */
	uint64_t found;	    /* names that came late: when it grows, who was in a container without one may have it */
};

/*
 * root: the folder in which the host's /var and /run lie. clock NULL: clock_monotonic_ns(). 0 or -ENOMEM, -errno.
 */
int container_names_new(const char *root, uint64_t (*clock)(void), struct container_names **ret);
void container_names_free(struct container_names *c); /* accepts NULL */
DEFINE_CLEANUP(struct container_names, container_names_free)
/*
 * Of a container by its id, its runtime (may be NULL) and the uid of its pod (NULL: it is in none), as in struct identity.
 * An id that no runtime makes has no name. *ret is the caller's; what is not known yet is NULL. Waits 50 ms at
 * most, and not at all where that was not enough lately. 0 or -ENOMEM.
 */
int container_names_get(struct container_names *c, const char *id, const char *runtime, const char *pod_uid,
			struct container_name *ret);
/*
 * Looks again for names that were not there: a kubelet makes its link when the container runs already. To be called about
 * once a second, waits for nothing; looks for some containers at a time, and of each for about a minute.
 */
void container_names_poll(struct container_names *c);
void container_names_stats(struct container_names *c, struct container_names_stats *ret);

/* The same of this host, for the whole program. If we are in a container ourselves, the host is where process 1 lives. */
int container_name_get(const char *id, const char *runtime, const char *pod_uid, struct container_name *ret);
void container_name_poll(void);
void container_name_stats(struct container_names_stats *ret);
