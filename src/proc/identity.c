/* SPDX-License-Identifier: MIT */
#include "proc/procfs.h"

#include <pwd.h>
#include <string.h>

#include "base/file.h"

#define STATUS_MAX 16384
#define CGROUP_MAX 65536
#define PASSWD_MAX ((size_t)1 << 20)
#define UID_UNKNOWN ((uint32_t)-1)

/* A file that is not there, or not for us, is nothing known; only lack of memory is an error. */
static int missing_is_fine(int r)
{
	return r == -ENOMEM ? r : 0;
}

static int read_uid(int fd, uint32_t *ret)
{
	_cleanup_free_ char *text = NULL;
	const char *line;
	unsigned int uid;
	size_t len;
	int r;

	r = file_read_head(fd, "status", STATUS_MAX, &text, &len);
	if (r < 0)
		return missing_is_fine(r);
	/* The kernel escapes newlines in the name, so this line is its own. */
	line = strstr(text, "\nUid:");
	if (line && sscanf(line, "\nUid: %u", &uid) == 1)
		*ret = uid;
	return 0;
}

static int user_name(uint32_t uid, char **ret)
{
	_cleanup_free_ char *name = NULL;

	for (size_t size = 1024; size <= PASSWD_MAX; size *= 4) {
		_cleanup_free_ char *buf = malloc(size);
		struct passwd pw, *found = NULL;
		int e;

		if (!buf)
			return -ENOMEM;
		e = getpwuid_r(uid, &pw, buf, size, &found);
		if (e == ERANGE)
			continue;
		if (e == 0 && found && found->pw_name && found->pw_name[0]) {
			name = strdup(found->pw_name);
			if (!name)
				return -ENOMEM;
		}
		break;
	}
	if (!name && asprintf(&name, "%u", uid) < 0) {
		name = NULL;
		return -ENOMEM;
	}
	*ret = TAKE_PTR(name);
	return 0;
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
	id->container = TAKE_PTR(names.container);
	id->pod = TAKE_PTR(names.pod);
	return 0;
}

/* All that /proc has besides stat. */
static int identity_fill(int fd, struct identity *id)
{
	int r;

	r = missing_is_fine(file_readlink(fd, "exe", &id->exe));
	if (r < 0)
		return r;
	r = read_cmdline(fd, &id->cmdline);
	if (r < 0)
		return r;
	r = read_uid(fd, &id->uid);
	if (r < 0)
		return r;
	if (id->uid != UID_UNKNOWN) {
		r = user_name(id->uid, &id->user);
		if (r < 0)
			return r;
	}
	return read_cgroup(fd, id);
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
		r = identity_fill(fd, id);
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
