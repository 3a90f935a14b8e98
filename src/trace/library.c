/* SPDX-License-Identifier: MIT */
#include "trace/library.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/units.h"
#include "proc/procfs.h"
#include "trace/calls.h"
#include "trace/keep.h"
#include "trace/search.h"

/* A thread that allocates asks for its device many times a second. */
#define TEACH_NS (2 * NSEC_PER_SEC)
/* Searching files may take a fifth of a processor in the long run, and half a second at once: a driver takes some ms. */
#define SEARCH_SHARE 5
#define SEARCH_DEBT_NS (NSEC_PER_SEC / 2)
#define FINDER_SHARE 4 /* of the limit, for what one process brings */
#define FINDER_MIN 8
#define SWEEP_REST_NS NSEC_PER_SEC /* between two looks for room */
#define SWEEP_FOR_ROOM 4 /* let go then: the kernel may take 100 ms for each, in which the new one is not probed */
#define PIDS_MAX 1024 /* processes remembered per library; beyond them it is kept until a scan finds nobody */

/* What a file is known again by. */
struct file_key {
	uint64_t dev, inode;
	bool is_overlay;
	uint64_t size, changed_ns; /* for overlays alone */
};

struct library {
	struct file_key key;
	char *path;
	bool is_ours; /* reached by its path in our own mount namespace */
	bool is_named; /* by the operator: a driver library whatever its name */
	int fd;
	struct probes *probes; /* NULL when it could not be probed */
	struct probes *teachers; /* for a moment, see calls.h */
	uint64_t teach_until_ns;
	struct probes_stats stats;
	int error;
	uint32_t finder; /* process that brought it; 0 = the operator, or an earlier daemon */
	uint32_t kept; /* its number in the store; 0 = not in it */
	bool is_adopted; /* the threads that use it are known from before */
	uint32_t pids[PIDS_MAX];
	uint32_t pids_len;
	bool pids_full;
};

struct libraries {
	struct tracer *tracer;
	struct libraries_options options;
	struct library **list;
	size_t len;
	uint64_t overflows;
	uint64_t debt_ns, paid_ns; /* of searching, as of then */
	uint64_t postponed;
	bool has_postponed;
	uint64_t swept_ns; /* for want of room */
	bool in_use_before; /* what is found now was mapped before we came */
};

static void library_free(struct library *l)
{
	if (!l)
		return;
	probes_free(l->probes);
	probes_free(l->teachers);
	if (l->fd >= 0)
		(void)close(l->fd);
	free(l->path);
	free(l);
}
DEFINE_CLEANUP(struct library, library_free)

bool library_is_driver(const char *path)
{
	return call_api_of_file(path) != API_MAX;
}

/* Opens path if it is the file with this inode. Devices are not compared: overlayfs and btrfs show others in mappings than
 * stat() does; the name and the inode of a mapped file together suffice. */
static int open_inode(const char *path, uint64_t inode)
{
	struct stat st;
	_cleanup_close_ int fd = file_open_regular(path, &st);

	if (fd < 0)
		return fd;
	if (inode && st.st_ino != inode)
		return -ESTALE;
	return TAKE_FD(fd);
}

/* The path in our own namespace first: a file opened through a container's root keeps that mount busy. */
static int open_mapped(const struct libraries *l, uint32_t pid, const struct mapping *m, bool *ret_is_ours)
{
	char path[PATH_MAX + 64];
	int fd = open_inode(m->path, m->inode);

	*ret_is_ours = fd >= 0;
	if (fd >= 0)
		return fd;
	snprintf(path, sizeof(path), "%s/%u/root%s", l->options.proc_root, pid, m->path);
	fd = open_inode(path, m->inode);
	if (fd >= 0)
		return fd;
	/* Deleted, replaced, or out of reach by name. */
	snprintf(path, sizeof(path), "%s/%u/map_files/%llx-%llx", l->options.proc_root, pid,
		 (unsigned long long)m->start, (unsigned long long)m->end);
	return open_inode(path, m->inode);
}

static int read_key(int fd, struct file_key *ret)
{
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
		return -errno;
	*ret = (struct file_key){ .dev = st.st_dev, .inode = st.st_ino, .is_overlay = fs.f_type == OVERLAYFS_SUPER_MAGIC,
				  .size = (uint64_t)st.st_size,
				  .changed_ns = (uint64_t)st.st_ctim.tv_sec * NSEC_PER_SEC + (uint64_t)st.st_ctim.tv_nsec };
	return 0;
}

/* Containers of one image see the same file through an overlay each, with a device each; a probe lies on the file below, and
 * two of them would book each call twice. A copy of it, in another layer, was changed at another time. */
static bool is_same_file(const struct file_key *a, const struct file_key *b)
{
	if (a->inode != b->inode)
		return false;
	return a->dev == b->dev ||
	       ((a->is_overlay || b->is_overlay) && a->size == b->size && a->changed_ns == b->changed_ns);
}

static struct library *find(struct libraries *l, const struct file_key *key)
{
	for (size_t i = 0; i < l->len; i++)
		if (is_same_file(&l->list[i]->key, key))
			return l->list[i];
	return NULL;
}

static void add_pid(struct library *lib, uint32_t pid)
{
	if (!pid)
		return;
	for (uint32_t i = 0; i < lib->pids_len; i++)
		if (lib->pids[i] == pid)
			return;
	if (lib->pids_len == PIDS_MAX) {
		lib->pids_full = true;
		return;
	}
	lib->pids[lib->pids_len++] = pid;
}

static void teach(struct libraries *l, struct library *lib)
{
	const struct attach_file f = { .fd = lib->fd, .path = lib->path, .is_named = lib->is_named, .teachers = true };
	struct probes_stats st;

	if (!l->in_use_before || !lib->probes || lib->teachers || lib->is_adopted)
		return;
	(void)tracer_attach(l->tracer, &f, &lib->teachers, &st);
	lib->teach_until_ns = clock_monotonic_ns() + TEACH_NS;
}

/* What is owed less with time. */
static void pay(struct libraries *l, uint64_t now_ns)
{
	const uint64_t earned = now_ns > l->paid_ns ? (now_ns - l->paid_ns) / SEARCH_SHARE : 0;

	l->debt_ns -= MIN(l->debt_ns, earned);
	l->paid_ns = MAX(l->paid_ns, now_ns);
}

void libraries_tick(struct libraries *l, uint64_t now_ns)
{
	pay(l, now_ns);
	if (l->has_postponed && l->debt_ns < SEARCH_DEBT_NS / 2) {
		l->has_postponed = false;
		(void)libraries_scan(l);
	}
	for (size_t i = 0; i < l->len; i++) {
		struct library *lib = l->list[i];

		if (!lib->teachers || now_ns < lib->teach_until_ns)
			continue;
		probes_free(lib->teachers);
		lib->teachers = NULL;
	}
}

/* What the operator should know of the search in a file, once. */
static void tell(const struct library *lib)
{
	const struct probes_stats *st = &lib->stats;

	if (st->failed[0])
		log_warning("%s: these calls could not be probed and are not seen: %s", lib->path, st->failed);
	if (st->unknown_count)
		log_notice("%s: %zu memory calls that this version does not know and does not count: %s", lib->path,
			   st->unknown_count, st->unknown);
	if (st->unmatched[0])
		log_notice("%s: no function in it for these calls of the configuration: %s", lib->path, st->unmatched);
	if (st->over_count)
		log_warning("%s: %zu functions more than the %d that a call of the configuration may match, not probed: %s",
			    lib->path, st->over_count, USER_CALL_SYMBOLS_MAX, st->over);
	if (st->endless[0])
		log_warning("%s: not probed, as it cannot be told where these functions return: %s", lib->path, st->endless);
	if (st->is_cut)
		log_warning("%s: too many symbols to look at all of them, some calls may not be seen", lib->path);
	if (lib->error == -ENOENT && !st->unmatched[0] && !st->endless[0] && !lib->is_named)
		log_notice("%s: none of the functions in it that are to be probed", lib->path);
}

static int attach(struct libraries *l, struct library *lib)
{
	const struct attach_file f = { .fd = lib->fd, .path = lib->path, .is_named = lib->is_named };

	lib->error = tracer_attach(l->tracer, &f, &lib->probes, &lib->stats);
	tell(lib);
	if (lib->error == 0) {
		const int *links;
		const size_t n = probes_links(lib->probes, &links);

		lib->kept = keep_store_library(l->options.keep, lib->fd, links, n);
	}
	/* A framework's library without its own functions, in a version that has renamed them: said, and no fault. */
	return lib->error == -ENOENT && !library_is_driver(lib->path) && !lib->is_named ? 0 : lib->error;
}

static int sweep(struct libraries *l, int most);

/* Is there room for one that this process brings? */
static bool has_room(struct libraries *l, uint32_t pid)
{
	const uint64_t now = clock_monotonic_ns();
	size_t brought = 0;

	if (l->len >= l->options.limit && now - l->swept_ns > SWEEP_REST_NS) {
		l->swept_ns = now;
		(void)sweep(l, SWEEP_FOR_ROOM);
	}
	for (size_t i = 0; pid && i < l->len; i++)
		brought += l->list[i]->finder == pid;
	return l->len < l->options.limit && brought < MAX(l->options.limit / FINDER_SHARE, FINDER_MIN);
}

/* As attach(), and what it takes is owed. */
static int attach_found(struct libraries *l, struct library *lib)
{
	const uint64_t start = clock_thread_ns();
	int r = attach(l, lib);

	l->debt_ns += clock_thread_ns() - start;
	return r;
}

/* Takes the fd in any case. */
static int add_library(struct libraries *l, int fd_taken, const char *path, uint32_t pid, bool is_ours, bool is_named)
{
	_cleanup_(library_freep) struct library *lib = calloc(1, sizeof(*lib));
	struct library **more;
	struct library *known;
	int r;

	if (!lib) {
		close(fd_taken);
		return -ENOMEM;
	}
	lib->fd = fd_taken;
	r = read_key(lib->fd, &lib->key);
	if (r < 0)
		return r;
	known = find(l, &lib->key);
	if (known) {
		add_pid(known, pid);
		teach(l, known);
		return 0;
	}
	if (!has_room(l, pid)) {
		l->overflows++;
		return -ENOBUFS;
	}
	pay(l, clock_monotonic_ns());
	if (pid && l->debt_ns > SEARCH_DEBT_NS) {
		l->postponed++;
		l->has_postponed = true;
		return -EAGAIN;
	}
	lib->finder = pid;
	lib->is_ours = is_ours;
	lib->is_named = is_named;
	lib->path = strdup(path);
	more = realloc(l->list, (l->len + 1) * sizeof(*more));
	if (more)
		l->list = more;
	if (!more || !lib->path)
		return -ENOMEM;
	add_pid(lib, pid);
	r = attach_found(l, lib);
	if (r == 0 && lib->probes)
		r = 1;
	teach(l, lib);
	l->list[l->len++] = TAKE_PTR(lib);
	return r;
}

/* Where distributions and the driver's installer put it. A library that is already probed when its first process starts
 * has nothing missing; any other place is found when a process maps it, some milliseconds into that process's life. */
static const char *const usual_places[] = {
	"/usr/lib/x86_64-linux-gnu/libcuda.so.1",
	"/usr/lib/aarch64-linux-gnu/libcuda.so.1",
	"/usr/lib64/libcuda.so.1",
	"/usr/lib/libcuda.so.1",
	"/usr/local/nvidia/lib64/libcuda.so.1",
	"/usr/lib/wsl/lib/libcuda.so.1",
	"/run/opengl-driver/lib/libcuda.so.1",
};

static void add_usual(struct libraries *l)
{
	for (size_t i = 0; i < ARRAY_SIZE(usual_places); i++) {
		int fd = open_inode(usual_places[i], 0);

		if (fd >= 0)
			(void)add_library(l, fd, usual_places[i], 0, true, true);
	}
}

/* A file that an earlier daemon probed, under the name it has now. Takes all of k. */
static int adopt_library(struct libraries *l, struct kept_library *k)
{
	_cleanup_(library_freep) struct library *lib = calloc(1, sizeof(*lib));
	struct library **more = realloc(l->list, (l->len + 1) * sizeof(*more));
	struct attach_file f = { .fd = k->fd };
	struct stat named;
	char link[32];
	int r;

	if (more)
		l->list = more;
	if (!more || !lib) {
		kept_library_done(k);
		return -ENOMEM;
	}
	lib->fd = TAKE_FD(k->fd);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", lib->fd);
	r = file_readlink(AT_FDCWD, link, &lib->path);
	if (r == 0)
		r = read_key(lib->fd, &lib->key);
	if (r < 0) {
		kept_library_done(k);
		return r;
	}
	lib->is_ours = stat(lib->path, &named) == 0 && named.st_dev == lib->key.dev && named.st_ino == lib->key.inode;
	lib->is_named = !search_wants_file(lib->path);
	lib->kept = k->number;
	lib->is_adopted = true;
	f.path = lib->path;
	f.is_named = lib->is_named;
	r = probes_adopt(&f, k->links, k->links_len, &lib->probes, &lib->stats);
	k->links_len = 0;
	kept_library_done(k);
	if (r == 0)
		l->list[l->len++] = TAKE_PTR(lib);
	return r;
}

/* Before anything is attached: a file that is probed twice books twice. */
static int adopt_libraries(struct libraries *l)
{
	struct kept_library k;
	int r;

	while ((r = keep_take_library(l->options.keep, &k)) == 0) {
		r = adopt_library(l, &k);
		if (r < 0)
			return r;
	}
	return r == -ENOENT ? 0 : r;
}

int libraries_new(struct tracer *t, const struct libraries_options *o, struct libraries **ret)
{
	_cleanup_(libraries_freep) struct libraries *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return -ENOMEM;
	l->tracer = t;
	l->options = *o;
	r = adopt_libraries(l);
	if (r < 0)
		return r;
	for (size_t i = 0; i < o->paths_len; i++) {
		int fd = open_inode(o->paths[i], 0);

		r = fd;
		if (fd >= 0)
			r = add_library(l, fd, o->paths[i], 0, true, true);
		if (r < 0)
			log_warning("%s: cannot probe this library (%s), going on without it", o->paths[i],
				    r == -ENOENT && fd >= 0 ? "no function in it that is to be probed" : strerror(-r));
	}
	add_usual(l);
	*ret = TAKE_PTR(l);
	return 0;
}

void libraries_free(struct libraries *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->len; i++)
		library_free(l->list[i]);
	free(l->list);
	free(l);
}

int libraries_mapped(struct libraries *l, uint32_t pid, const struct mapping *m)
{
	bool is_ours = false;
	int fd;

	if (!m->inode || m->path[0] != '/' || !search_wants_file(m->path))
		return 0;
	if (l->options.user && library_is_driver(m->path))
		l->options.user(pid, l->options.userdata);
	fd = open_mapped(l, pid, m, &is_ours);
	if (fd < 0)
		return fd;
	return add_library(l, fd, m->path, pid, is_ours, false);
}

void libraries_tell(const struct mapping *m, uint32_t pid, int error)
{
	if (error == -ENOBUFS)
		log_warning("%s (mapped by process %u) cannot be probed: no room for more libraries (limits.libraries, of which "
			    "one process brings a quarter at most)", m->path, pid);
	else if (error == -EAGAIN)
		log_warning("%s (mapped by process %u) is not probed yet: searching libraries has taken too long lately",
			    m->path, pid);
	else if (error != -ENOENT && error != -ESTALE && error != -ESRCH)
		log_warning("%s (mapped by process %u) cannot be probed: %s", m->path, pid, strerror(-error));
}

static int scan_process(struct libraries *l, uint32_t pid)
{
	_cleanup_(address_space_unrefp) struct address_space *as = NULL;
	int r = maps_read(l->options.proc_root, pid, 0, &as), n = 0;

	if (r < 0)
		return 0; /* gone, or a kernel thread */
	for (size_t i = 0; i < as->count; i++) {
		const struct mapping *m = &as->mappings[i];

		r = libraries_mapped(l, pid, m);
		if (r > 0)
			n++;
		else if (r < 0)
			libraries_tell(m, pid, r);
	}
	return n;
}

int libraries_scan_first(struct libraries *l)
{
	int r;

	l->in_use_before = true;
	r = libraries_scan(l);
	l->in_use_before = false;
	return r;
}

int libraries_scan(struct libraries *l)
{
	_cleanup_closedir_ DIR *d = opendir(l->options.proc_root);
	int n = 0;

	if (!d)
		return -errno;
	for (struct dirent *e = readdir(d); e; e = readdir(d)) {
		uint32_t pid;

		if (parse_u32(e->d_name, &pid) == 0 && pid != (uint32_t)getpid())
			n += scan_process(l, pid);
	}
	return n;
}

static void forget_dead(struct library *lib)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < lib->pids_len; i++)
		if (kill((pid_t)lib->pids[i], 0) == 0 || errno != ESRCH)
			lib->pids[n++] = lib->pids[i];
	lib->pids_len = n;
}

static bool may_go(const struct libraries *l, struct library *lib)
{
	const bool is_wanted = l->len >= l->options.limit && lib->finder; /* its place, for others */
	struct stat st;

	if (lib->is_ours && !is_wanted && !(fstat(lib->fd, &st) == 0 && st.st_nlink == 0))
		return false;
	forget_dead(lib);
	return lib->pids_len == 0;
}

static int sweep(struct libraries *l, int most)
{
	bool any = false;
	int n = 0;

	for (size_t i = 0; i < l->len; i++)
		any |= may_go(l, l->list[i]);
	if (!any)
		return 0;
	/* A mapping inherited by fork makes no record: ask /proc before letting go. */
	(void)libraries_scan(l);
	for (size_t i = 0; i < l->len && n < most;) {
		if (!may_go(l, l->list[i])) {
			i++;
			continue;
		}
		log_info("%s: nobody uses it any more, probes removed", l->list[i]->path);
		keep_remove_library(l->options.keep, l->list[i]->kept);
		library_free(l->list[i]);
		l->list[i] = l->list[--l->len];
		n++;
	}
	return n;
}

int libraries_sweep(struct libraries *l)
{
	return sweep(l, INT_MAX);
}

size_t libraries_count(const struct libraries *l)
{
	return l->len;
}

void libraries_get(const struct libraries *l, size_t i, struct library_info *ret)
{
	const struct library *lib = l->list[i];

	*ret = (struct library_info){ .path = lib->path, .dev = lib->key.dev, .inode = lib->key.inode, .stats = lib->stats,
				      .pids = lib->pids_len, .error = lib->error };
}

void libraries_search(const struct libraries *l, struct libraries_search *ret)
{
	*ret = (struct libraries_search){ .debt_ns = l->debt_ns, .max_ns = SEARCH_DEBT_NS, .postponed = l->postponed };
}

uint64_t libraries_overflows(const struct libraries *l)
{
	return l->overflows;
}
