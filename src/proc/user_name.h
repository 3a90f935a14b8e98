/* SPDX-License-Identifier: MIT */
/*
 * Names of users for the thread that traces, which must not wait for LDAP: those of /etc/passwd at once, from the file
 * itself, all others from a thread of its own that asks NSS. Until it answers a user is a number.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

#define USER_NAME_MAX 255  /* bytes; a longer one is none */
#define USER_NAMES_MAX 1024 /* kept at once; the one that is to be asked anew first makes room */
#define USER_NAMES_ASKED_MAX 64 /* waiting for NSS at once; over it a user is a number, and asked for another time */
#define USER_NAMES_FILE_MAX ((size_t)1 << 20) /* bytes of the file that are looked at; NSS knows the rest */

struct user_names;

struct user_names_stats {
	size_t used, asked;
	uint64_t overflows; /* not asked for, as too many were */
	uint64_t evictions;
	uint64_t late;	  /* waited for in vain */
	uint64_t answers; /* names that came from NSS: when it grows, who was a number may have a name */
};

/* *ret stays NULL when the user has no name; negative: nobody knows now. Runs in the thread, may take its time. */
typedef int (*user_lookup_fn)(uint32_t uid, char **ret);

/* passwd must outlive it. lookup NULL: NSS; clock NULL: clock_monotonic_ns(). 0 or -ENOMEM, -errno. */
int user_names_new(const char *passwd, user_lookup_fn lookup, uint64_t (*clock)(void), struct user_names **ret);
/* Does not wait for a lookup that is under way. Accepts NULL. */
void user_names_free(struct user_names *u);
DEFINE_CLEANUP(struct user_names, user_names_free)
/* The name, or the number as text; the caller's to free. Waits for some milliseconds at most. 0 or -ENOMEM. */
int user_names_get(struct user_names *u, uint32_t uid, char **ret);
void user_names_stats(struct user_names *u, struct user_names_stats *ret);

/* The same for the users of this machine, for the whole program. */
int user_name_get(uint32_t uid, char **ret);
void user_name_stats(struct user_names_stats *ret);

/* Name of a user in the text of /etc/passwd. 0, -ENOENT, -ENOMEM. */
int passwd_find(const char *text, size_t len, uint32_t uid, char **ret);
