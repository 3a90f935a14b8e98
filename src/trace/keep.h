/* SPDX-License-Identifier: MIT */
/*
 * Maps and probes that outlive the daemon: the service manager holds a copy of each descriptor and hands them to the
 * next start. Only what is complete is gone on with; everything else is let go of, probes first.
 *
 * Names: "map-NAME" each map that holds state; "exit" and "exec" the watch on processes; "library-N" a probed file and
 * "probes-N-COUNT" its links, COUNT of them, so that a missing one is noticed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

/* Descriptors kept at once: FileDescriptorStoreMax= in the unit is the same. Beyond it nothing is kept at all. */
#define KEEP_MAX 1024

struct keep;

struct keep_ops {
	int (*store)(const char *name, int fd, void *userdata); /* a copy of fd under that name. 0 or -errno */
	void (*remove)(const char *name, void *userdata);	/* all of that name */
	void *userdata;
};

int keep_new(const struct keep_ops *ops, struct keep **ret);
void keep_free(struct keep *k); /* closes what nobody has taken, and removes nothing; accepts NULL */
DEFINE_CLEANUP(struct keep, keep_free)

/* One that was handed to us. Takes fd in any case. 0; -EINVAL: not a name of ours, closed. */
int keep_offer(struct keep *k, const char *name, int fd_taken);
/* Number of descriptors that were handed to us and not taken yet. */
size_t keep_offered(const struct keep *k);
/* Borrowed; -ENOENT: none of that name. k may be NULL. */
int keep_peek(const struct keep *k, const char *name);
/* The caller's from now on; it stays in the store. -ENOENT. */
int keep_take(struct keep *k, const char *name);
/* The watch on processes is there, each library has all its links and each link its library. */
bool keep_is_complete(const struct keep *k);

struct kept_library {
	uint32_t number;
	int fd;
	int *links; /* the array and what is in it */
	size_t links_len;
};
/* Takes the next library. 0, -ENOENT (no more), -ENOMEM. */
int keep_take_library(struct keep *k, struct kept_library *ret);
void kept_library_done(struct kept_library *l);

/* Lets go of all that was handed to us, here and in the store. */
void keep_drop(struct keep *k);
/* Keeps a descriptor. Where that fails nothing is kept from then on and the store is emptied: half of it would be
 * wrong. */
void keep_store(struct keep *k, const char *name, int fd);
/* A probed file and its links. Its number, 0 if it is not kept. */
uint32_t keep_store_library(struct keep *k, int fd, const int *links, size_t len);
void keep_remove_library(struct keep *k, uint32_t number);
/* Nothing is kept from now on. k may be NULL. */
void keep_stop(struct keep *k);
/* Is anything kept? k may be NULL. */
bool keep_is_on(const struct keep *k);
