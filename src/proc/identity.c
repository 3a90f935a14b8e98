/* SPDX-License-Identifier: MIT */
#include "proc/procfs.h"

#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "proc/container_name.h"
#include "proc/user_name.h"
#include "proc/visible_devices.h"

#define CGROUP_MAX 65536
#define ENVIRON_MAX (1 << 20)
#define TAG_VARIABLE "GPUXRAY_TAG"
#define THREADS_ASKED_MAX 64
#define UID_UNKNOWN ((uint32_t)-1)

/* A file that is not there, or not for us, is nothing known; only lack of memory is an error. */
static int missing_is_fine(int r)
{
	return r == -ENOMEM ? r : 0;
}

static bool is_dead(const struct proc_stat *st)
{
	return st->state == 'Z' || st->state == 'X';
}

static int read_status(int fd, struct identity *id)
{
	struct proc_status st;
	int r;

	r = proc_status_read_at(fd, &st);
	if (r < 0)
		return missing_is_fine(r);
	id->uid = st.uid;
	if (st.ns_count > 1 && st.inner_pid != id->pid)
		id->inner_pid = st.inner_pid;
	return id->uid == UID_UNKNOWN ? 0 : user_name_get(id->uid, &id->user);
}

/*
 * The name of the parent, unless it is gone and its pid another process's by now: a parent is not younger than its
 * child, and neither is the one to whom orphans go.
 */
static int read_parent(const char *proc_root, struct identity *id)
{
	struct proc_stat st;
	int r;

	/* 0: outside of our PID namespace. */
	if (id->ppid == 0)
		return 0;
	r = proc_stat_read(proc_root, id->ppid, &st);
	if (r < 0)
		return missing_is_fine(r);
	if (st.start_ticks > id->start_ticks)
		return 0;
	id->parent = strdup(st.comm);
	return id->parent ? 0 : -ENOMEM;
}

/* Arguments end in a NUL each; a process that wrote over them may have left any number of those. */
static int read_cmdline(int fd, char **ret)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int r;

	r = file_read_head(fd, "cmdline", IDENTITY_CMDLINE_MAX, &text, &len);
	if (r < 0)
		return missing_is_fine(r);
	while (len > 0 && text[len - 1] == '\0')
		len--;
	/* Kernel threads and zombies have none. */
	if (len == 0)
		return 0;
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\0')
			text[i] = ' ';
	}
	*ret = TAKE_PTR(text);
	return 0;
}

/* As the environment was when the program began: what it sets later is not seen. */
static int read_tag(int fd, char **ret)
{
	_cleanup_free_ char *text = NULL, *tag = NULL;
	size_t len;
	int r;

	r = file_read_head(fd, "environ", ENVIRON_MAX, &text, &len);
	if (r == 0)
		r = environ_get(text, len, TAG_VARIABLE, &tag);
	if (r < 0)
		return missing_is_fine(r);
	len = strlen(tag);
	if (len > IDENTITY_TAG_MAX) {
		len = IDENTITY_TAG_MAX;
		/* Not within a character of UTF-8. */
		for (int i = 0; i < 3 && ((unsigned char)tag[len] & 0xc0) == 0x80; i++)
			len--;
		tag[len] = '\0';
	}
	/* Set to nothing is not set. */
	if (len > 0)
		*ret = TAKE_PTR(tag);
	return 0;
}

/* What is not known yet of its container and pod. */
static int read_container_name(struct identity *id)
{
	_cleanup_(container_name_done) struct container_name name = { 0 };
	int r;

	if (!id->container)
		return 0;
	r = container_name_get(id->container, id->runtime, id->pod, &name);
	if (r < 0)
		return r;
	if (!id->pod_name) {
		id->pod_name = TAKE_PTR(name.pod);
		id->pod_namespace = TAKE_PTR(name.pod_namespace);
	}
	if (!id->container_name)
		id->container_name = TAKE_PTR(name.container);
	return 0;
}

static int read_cgroup(int fd, struct identity *id)
{
	_cleanup_(cgroup_names_done) struct cgroup_names names = { 0 };
	_cleanup_free_ char *text = NULL;
	size_t len;
	int r;

	r = file_read_head(fd, "cgroup", CGROUP_MAX, &text, &len);
	if (r < 0)
		return missing_is_fine(r);
	r = cgroup_parse(text, &names);
	if (r < 0)
		return missing_is_fine(r);
	id->cgroup = TAKE_PTR(names.path);
	id->unit = TAKE_PTR(names.unit);
	id->user_unit = TAKE_PTR(names.user_unit);
	id->slice = TAKE_PTR(names.slice);
	id->container = TAKE_PTR(names.container);
	id->runtime = TAKE_PTR(names.runtime);
	id->pod = TAKE_PTR(names.pod);
	id->slurm_job = TAKE_PTR(names.slurm_job);
	return read_container_name(id);
}

/*
 * The folder of a thread that lives when the first one has ended: that one has no program, no arguments and, in the old
 * hierarchies, no cgroup any more. -ESRCH when there is none.
 */
static int open_living_thread(int fd, uint32_t pid)
{
	_cleanup_closedir_ DIR *dir = NULL;
	int tasks;

	tasks = openat(fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = tasks < 0 ? NULL : fdopendir(tasks);
	if (!dir) {
		if (tasks >= 0)
			(void)close(tasks);
		return -ESRCH;
	}
	for (int i = 0; i < THREADS_ASKED_MAX; i++) {
		const struct dirent *e = readdir(dir);
		_cleanup_close_ int thread = -1;
		struct proc_stat st;

		if (!e)
			break;
		if (e->d_name[0] == '.')
			continue;
		thread = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (thread >= 0 && proc_stat_read_at(thread, &st) == 0 && st.pid != pid && !is_dead(&st))
			return TAKE_FD(thread);
	}
	return -ESRCH;
}

/* What threads share. */
static int read_image(int fd, struct identity *id)
{
	int r;

	r = missing_is_fine(file_readlink(fd, "exe", &id->exe));
	if (r == 0)
		r = read_cmdline(fd, &id->cmdline);
	if (r == 0)
		r = read_tag(fd, &id->tag);
	return r < 0 ? r : read_cgroup(fd, id);
}

/* All that /proc has besides stat. */
static int identity_fill(const char *proc_root, int fd, bool is_leader_dead, struct identity *id)
{
	_cleanup_close_ int thread = is_leader_dead ? open_living_thread(fd, id->pid) : -1;
	int r;

	r = read_image(thread >= 0 ? thread : fd, id);
	if (r == 0)
		r = read_status(fd, id);
	return r < 0 ? r : read_parent(proc_root, id);
}

int identity_read(const char *proc_root, uint32_t pid, uint64_t start_ns, const char *comm, struct identity **ret)
{
	_cleanup_(identity_unrefp) struct identity *id = identity_new();
	_cleanup_close_ int fd = -1;
	struct proc_stat st;
	int r;

	if (!id)
		return -ENOMEM;
	id->pid = pid;
	id->start_ns = start_ns;
	id->start_ticks = start_ns ? ticks_from_ns(start_ns) : 0;
	id->uid = UID_UNKNOWN;

	fd = proc_open(proc_root, pid);
	r = fd < 0 ? fd : proc_stat_read_at(fd, &st);
	if (r == -ENOMEM)
		return r;
	/* The pid may be another process's by now, about which this one's record must say nothing. */
	if (r == 0 && start_ns != 0 && st.start_ticks != id->start_ticks)
		r = -ESRCH;
	if (r == 0) {
		id->ppid = st.ppid;
		id->start_ticks = st.start_ticks;
		/* To the tick only, which is what everything read from /proc later is compared by. */
		if (start_ns == 0)
			id->start_ns = ticks_to_ns(st.start_ticks);
		comm = st.comm;
		r = identity_fill(proc_root, fd, is_dead(&st), id);
		if (r < 0)
			return r;
	} else {
		r = -ESRCH;
	}
	if (comm) {
		id->comm = strdup(comm);
		if (!id->comm)
			return -ENOMEM;
	}
	*ret = TAKE_PTR(id);
	return r;
}

/* *ret stays NULL where the user has its name, or none. */
static int late_user(const struct identity *id, char **ret)
{
	_cleanup_free_ char *user = NULL;
	int r;

	/* A name that is there stays, whatever becomes of it: the records of one process shall not differ. */
	if (id->uid == UID_UNKNOWN || !id->user || id->user[strspn(id->user, "0123456789")] != '\0')
		return 0;
	r = user_name_get(id->uid, &user);
	if (r == 0 && strcmp(user, id->user) != 0)
		*ret = TAKE_PTR(user);
	return r;
}

static bool wants_container_name(const struct identity *id)
{
	return id->container && (!id->container_name || (id->pod && !id->pod_name));
}

int identity_rename(const struct identity *id, struct identity **ret)
{
	_cleanup_(identity_unrefp) struct identity *copy = NULL;
	_cleanup_free_ char *user = NULL;
	int r;

	*ret = NULL;
	r = late_user(id, &user);
	if (r < 0 || (!user && !wants_container_name(id)))
		return r;
	copy = identity_copy(id);
	if (!copy)
		return -ENOMEM;
	r = read_container_name(copy);
	if (r < 0)
		return r;
	if (!user && !copy->pod_name == !id->pod_name && !copy->container_name == !id->container_name)
		return 0;
	if (user) {
		free(copy->user);
		copy->user = TAKE_PTR(user);
	}
	*ret = TAKE_PTR(copy);
	return 0;
}

uint64_t identity_late_names(void)
{
	struct user_names_stats users;
	struct container_names_stats containers;

	container_name_poll();
	user_name_stats(&users);
	container_name_stats(&containers);
	return users.answers + containers.found;
}
