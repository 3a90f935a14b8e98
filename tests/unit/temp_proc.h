/* SPDX-License-Identifier: MIT */
/* A folder that stands in for /proc, removed with everything in it at the end of the scope. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct temp_proc {
	char root[64];
};

static inline int temp_proc_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static inline void temp_proc_done(struct temp_proc *t)
{
	if (t->root[0])
		(void)nftw(t->root, temp_proc_remove_one, 16, FTW_DEPTH | FTW_PHYS);
	t->root[0] = '\0';
}

static inline bool temp_proc_new(struct temp_proc *t)
{
	(void)snprintf(t->root, sizeof(t->root), "/tmp/gpuxray-test-XXXXXX");
	if (mkdtemp(t->root))
		return true;
	t->root[0] = '\0';
	return false;
}

/* root/PID/name with these bytes; the folder is made as needed. */
static inline bool temp_proc_file(const struct temp_proc *t, unsigned int pid, const char *name, const void *data,
				  size_t len)
{
	char path[512];
	FILE *f;
	bool ok;

	(void)snprintf(path, sizeof(path), "%s/%u", t->root, pid);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return false;
	(void)snprintf(path, sizeof(path), "%s/%u/%s", t->root, pid, name);
	f = fopen(path, "we");
	if (!f)
		return false;
	ok = fwrite(data, 1, len, f) == len;
	return fclose(f) == 0 && ok;
}

static inline bool temp_proc_text(const struct temp_proc *t, unsigned int pid, const char *name, const char *text)
{
	return temp_proc_file(t, pid, name, text, strlen(text));
}

static inline bool temp_proc_link(const struct temp_proc *t, unsigned int pid, const char *name, const char *target)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/%u/%s", t->root, pid, name);
	return symlink(target, path) == 0;
}
