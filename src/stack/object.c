/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "stack/object.h"

#define DELETED " (deleted)"

struct objects {
	atomic_uint refs;
	char *proc_root;
	uint32_t limit;
	pthread_mutex_t lock; /* of everything below; never held over a system call on a file */
	uint64_t last_id;
	struct map64 by_key; /* with a reference to each */
	struct object *newest, *oldest;
};

int objects_new(const char *proc_root, uint32_t limit, struct objects **ret)
{
	struct objects *o = calloc(1, sizeof(*o));

	if (!o)
		return -ENOMEM;
	o->proc_root = strdup(proc_root);
	if (!o->proc_root || pthread_mutex_init(&o->lock, NULL) != 0) {
		free(o->proc_root);
		free(o);
		return -ENOMEM;
	}
	atomic_init(&o->refs, 1);
	o->limit = limit ? limit : 1;
	*ret = o;
	return 0;
}

struct objects *objects_ref(struct objects *o)
{
	atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
	return o;
}

const char *objects_proc_root(const struct objects *o)
{
	return o->proc_root;
}

struct object *object_ref(struct object *ob)
{
	atomic_fetch_add_explicit(&ob->refs, 1, memory_order_relaxed);
	return ob;
}

void object_unref(struct object *ob)
{
	if (!ob || atomic_fetch_sub_explicit(&ob->refs, 1, memory_order_acq_rel) != 1)
		return;
	elf_file_free(ob->elf);
	free(ob->path);
	free(ob);
}

static void unlink_object(struct objects *o, struct object *ob)
{
	*(ob->newer ? &ob->newer->older : &o->newest) = ob->older;
	*(ob->older ? &ob->older->newer : &o->oldest) = ob->newer;
	ob->newer = ob->older = NULL;
}

static void link_newest(struct objects *o, struct object *ob)
{
	ob->older = o->newest;
	*(o->newest ? &o->newest->newer : &o->oldest) = ob;
	o->newest = ob;
	ob->used_ns = clock_monotonic_ns();
}

/* Out of the table and onto the list of those to let go once the lock is free: closing a file may block. */
static void drop_object(struct objects *o, struct object *ob, struct object **dropped)
{
	unlink_object(o, ob);
	(void)map64_remove(&o->by_key, ob->key);
	ob->older = *dropped;
	*dropped = ob;
}

/* Nobody else looks at the links of an object that is in no table. */
static void unref_dropped(struct object *dropped)
{
	while (dropped) {
		struct object *next = dropped->older;

		object_unref(dropped);
		dropped = next;
	}
}

void objects_trim(struct objects *o, uint64_t before_ns)
{
	struct object *dropped = NULL;

	pthread_mutex_lock(&o->lock);
	while (o->oldest && o->oldest->used_ns < before_ns)
		drop_object(o, o->oldest, &dropped);
	pthread_mutex_unlock(&o->lock);
	unref_dropped(dropped);
}

void objects_unref(struct objects *o)
{
	if (!o || atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) != 1)
		return;
	objects_trim(o, UINT64_MAX);
	map64_done(&o->by_key);
	(void)pthread_mutex_destroy(&o->lock);
	free(o->proc_root);
	free(o);
}

bool mapping_is_file(const struct mapping *m)
{
	return m->inode && m->path && m->path[0] == '/';
}

size_t mapping_path_len(const struct mapping *m)
{
	const size_t len = m->path ? strlen(m->path) : 0, tail = strlen(DELETED);

	return len > tail && strcmp(m->path + len - tail, DELETED) == 0 ? len - tail : len;
}

bool mapping_same_file(const struct mapping *a, const struct mapping *b)
{
	size_t len;

	if (a == b)
		return true;
	if (a->inode != b->inode || a->dev_major != b->dev_major || a->dev_minor != b->dev_minor)
		return false;
	len = mapping_path_len(a);
	return len == mapping_path_len(b) && (!len || memcmp(a->path, b->path, len) == 0);
}

static bool has_device(const struct stat *st, const struct mapping *m)
{
	return major(st->st_dev) == m->dev_major && minor(st->st_dev) == m->dev_minor;
}

static bool is_on(int fd, unsigned long magic)
{
	struct statfs sf;

	return fstatfs(fd, &sf) == 0 && (unsigned long)sf.f_type == magic;
}

/* maps may show another device than stat: on btrfs that of the whole instead of the subvolume, on overlays that of the
 * layer. */
static bool hides_device(int fd)
{
	return is_on(fd, BTRFS_SUPER_MAGIC) || is_on(fd, OVERLAYFS_SUPER_MAGIC);
}

/* Is the file behind map_files the one of our mapping, though the process may have mapped another there since? */
static bool is_still_mapped(int fd, const struct stat *st, const char *link, const struct mapping *m)
{
	_cleanup_free_ char *target = NULL;

	if (st->st_ino == m->inode)
		return true;
	/* An overlay may show one inode number to fstat and another in maps. */
	if (!is_on(fd, OVERLAYFS_SUPER_MAGIC) || file_readlink(AT_FDCWD, link, &target) < 0)
		return false;
	return strcmp(target, m->path) == 0;
}

/* The kernel writes a newline in a path as \012. */
static void add_path(struct strbuf *sb, const struct mapping *m)
{
	const char *p = m->path, *end = m->path + mapping_path_len(m);

	while (p < end) {
		if (end - p >= 4 && memcmp(p, "\\012", 4) == 0) {
			strbuf_addc(sb, '\n');
			p += 4;
		} else {
			strbuf_addc(sb, *p++);
		}
	}
}

static int open_mapped(const char *proc_root, uint32_t pid, const struct mapping *m, bool *ret_is_refused)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	_cleanup_close_ int fd = -1;
	struct stat st;

	strbuf_addf(&sb, "%s/%u/map_files/%llx-%llx", proc_root, pid, (unsigned long long)m->start,
		    (unsigned long long)m->end);
	if (sb.error)
		return sb.error;
	fd = file_open_regular(strbuf_str(&sb), &st);
	*ret_is_refused = fd == -EPERM || fd == -EACCES;
	if (fd < 0)
		return fd;
	if (!is_still_mapped(fd, &st, strbuf_str(&sb), m))
		return -ENOENT;
	return TAKE_FD(fd);
}

static int open_by_path(const char *proc_root, uint32_t pid, const struct mapping *m, bool any_device)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (proc_root)
		strbuf_addf(&sb, "%s/%u/root", proc_root, pid);
	add_path(&sb, m);
	if (sb.error)
		return sb.error;
	fd = file_open_regular(strbuf_str(&sb), &st);
	if (fd < 0)
		return fd;
	if (st.st_ino != m->inode || !(has_device(&st, m) || any_device || hides_device(fd)))
		return -ENOENT;
	return TAKE_FD(fd);
}

/* The fd of the mapped file, or -errno. */
static int open_file(const char *proc_root, uint32_t pid, const struct mapping *m)
{
	bool is_refused = false;
	int fd = open_mapped(proc_root, pid, m, &is_refused);

	/* Without map_files the device is all that tells an overlay's file from another with its inode number; it may be
	 * a different one by right, so the path in the process's own root must do. */
	if (fd < 0 && fd != -ENOMEM)
		fd = open_by_path(proc_root, pid, m, is_refused);
	if (fd < 0 && fd != -ENOMEM)
		fd = open_by_path(NULL, 0, m, false);
	return fd;
}

static uint64_t object_key(const struct mapping *m, size_t path_len)
{
	const uint64_t numbers[] = { m->dev_major, m->dev_minor, m->inode };

	return hash_bytes(hash_bytes(0, numbers, sizeof(numbers)), m->path, path_len);
}

static bool is_object_of(const struct object *ob, const struct mapping *m, size_t path_len)
{
	return ob->inode == m->inode && ob->dev_major == m->dev_major && ob->dev_minor == m->dev_minor &&
	       strlen(ob->path) == path_len && memcmp(ob->path, m->path, path_len) == 0;
}

static int object_open(const char *proc_root, uint32_t pid, const struct mapping *m, uint64_t key, struct object **ret)
{
	_cleanup_(object_unrefp) struct object *ob = calloc(1, sizeof(*ob));
	int fd, r;

	if (!ob)
		return -ENOMEM;
	atomic_init(&ob->refs, 1);
	ob->path = strndup(m->path, mapping_path_len(m));
	if (!ob->path)
		return -ENOMEM;
	fd = open_file(proc_root, pid, m);
	if (fd < 0)
		return fd == -ENOMEM ? -ENOMEM : -ENOENT;
	r = elf_file_open(fd, &ob->elf);
	if (r < 0 && r != -ENOEXEC)
		return r == -ENOMEM ? -ENOMEM : -ENOENT;
	ob->key = key;
	ob->dev_major = m->dev_major;
	ob->dev_minor = m->dev_minor;
	ob->inode = m->inode;
	*ret = TAKE_PTR(ob);
	return 0;
}

/* With the lock held. A reference, or NULL. */
static struct object *find_object(struct objects *o, const struct mapping *m, uint64_t key, size_t path_len)
{
	struct object *ob = map64_get(&o->by_key, key);

	if (!ob || !is_object_of(ob, m, path_len))
		return NULL;
	unlink_object(o, ob);
	link_newest(o, ob);
	return object_ref(ob);
}

/* With the lock held. Takes a reference to ob. 0 or -ENOMEM. */
static int add_object(struct objects *o, struct object *ob, struct object **dropped)
{
	struct object *old = map64_get(&o->by_key, ob->key);
	int r;

	if (old)
		drop_object(o, old, dropped); /* a chosen collision: only the newer is kept */
	while (o->by_key.len >= o->limit)
		drop_object(o, o->oldest, dropped);
	r = map64_put(&o->by_key, ob->key, ob);
	if (r < 0)
		return r;
	ob->id = ++o->last_id;
	link_newest(o, object_ref(ob));
	return 0;
}

int objects_get(struct objects *o, uint32_t pid, const struct mapping *m, struct object **ret)
{
	const size_t path_len = mapping_path_len(m);
	const uint64_t key = object_key(m, path_len);
	_cleanup_(object_unrefp) struct object *opened = NULL;
	struct object *ob, *dropped = NULL;
	int r;

	pthread_mutex_lock(&o->lock);
	ob = find_object(o, m, key, path_len);
	pthread_mutex_unlock(&o->lock);
	if (!ob) {
		r = object_open(o->proc_root, pid, m, key, &opened);
		if (r < 0)
			return r;
		pthread_mutex_lock(&o->lock);
		/* Another thread may have opened it meanwhile: then that one counts. */
		ob = find_object(o, m, key, path_len);
		r = ob ? 0 : add_object(o, opened, &dropped);
		pthread_mutex_unlock(&o->lock);
		unref_dropped(dropped);
		if (r < 0)
			return r;
		if (!ob)
			ob = TAKE_PTR(opened);
	}
	*ret = ob;
	return 0;
}
