/* SPDX-License-Identifier: MIT */
/* Which processes have a card open through DRM, and what it holds for them. */
#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/map64.h"
#include "base/units.h"
#include "proc/drm.h"
#include "proc/drm_read.h"

/* What one round looks at. Over it: counted, and the snapshot is not complete. */
#define PIDS_MAX 65536
#define FDS_MAX 4096	   /* descriptors of one process */
#define LINKS_MAX 262144   /* descriptors of all */
#define FDINFO_MAX 512	   /* of one process: those that are a card's */
#define CLIENTS_MAX 65536
#define FDINFO_TEXT_MAX 8192

#define CARD_FOLDER "/dev/dri/"

struct drm_client {
	uint64_t id;
	uint64_t bytes;
	uint64_t at_ns; /* when its engines' time was read */
	struct drm_engine engines[DRM_ENGINES];
	uint32_t pid, device, kinds, sm_percent;
	bool has_id;
};

struct drm_scan {
	struct gpu_snapshot *s;
	struct drm_client *clients;
	size_t client_count, client_cap;
	size_t links_left;
};

static void note_unread(struct drm_scan *scan)
{
	scan->s->is_complete = false;
	scan->s->left_out_count++;
}

static int pid_compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* All pids in the folder, rising. */
static int list_pids(struct drm_scan *scan, DIR *proc, uint32_t **ret, size_t *ret_count)
{
	_cleanup_free_ uint32_t *pids = NULL;
	size_t count = 0, cap = 0;

	for (struct dirent *e = readdir(proc); e; e = readdir(proc)) {
		uint32_t pid;

		if (e->d_name[0] < '1' || e->d_name[0] > '9' || parse_u32(e->d_name, &pid) < 0)
			continue;
		if (count == PIDS_MAX) {
			note_unread(scan);
			continue;
		}
		if (count == cap) {
			uint32_t *more = reallocarray(pids, cap ? cap * 2 : 512, sizeof(*pids));

			if (!more)
				return -ENOMEM;
			pids = more;
			cap = cap ? cap * 2 : 512;
		}
		pids[count++] = pid;
	}
	if (count > 0)
		qsort(pids, count, sizeof(*pids), pid_compare);
	*ret = TAKE_PTR(pids);
	*ret_count = count;
	return 0;
}

static int add_client(struct drm_scan *scan, uint32_t pid, const struct drm_fdinfo *info)
{
	int device = info->has_device_memory ? drm_card_at(scan->s, info->pci) : -1;

	if (device < 0)
		return 0;
	if (scan->client_count == CLIENTS_MAX) {
		note_unread(scan);
		return 0;
	}
	if (scan->client_count == scan->client_cap) {
		size_t cap = scan->client_cap ? scan->client_cap * 2 : 64;
		struct drm_client *more = reallocarray(scan->clients, cap, sizeof(*more));

		if (!more)
			return -ENOMEM;
		scan->clients = more;
		scan->client_cap = cap;
	}
	scan->clients[scan->client_count++] = (struct drm_client){
		.id = info->client_id,
		.has_id = info->has_client_id,
		.bytes = info->device_bytes,
		.pid = pid,
		.device = (uint32_t)device,
		.kinds = info->kinds,
		.sm_percent = UINT32_MAX,
		.at_ns = clock_monotonic_ns(),
		.engines = { info->engines[DRM_ENGINE_COMPUTE], info->engines[DRM_ENGINE_GRAPHICS] },
	};
	return 0;
}

/* One descriptor of a process that is a card's, by the look of it. */
static int read_fdinfo(struct drm_scan *scan, int info_fd, uint32_t pid, const char *name)
{
	_cleanup_free_ char *text = NULL;
	struct drm_fdinfo info;
	size_t len;
	int r;

	r = file_read_head(info_fd, name, FDINFO_TEXT_MAX, &text, &len);
	if (r == -ENOMEM)
		return r;
	if (r < 0) {
		/* It may have closed it meanwhile, or be gone. */
		if (r != -ENOENT && r != -ESRCH)
			note_unread(scan);
		return 0;
	}
	return drm_fdinfo_parse(text, &info) < 0 ? 0 : add_client(scan, pid, &info);
}

static bool is_card(int fds_fd, const char *name)
{
	char target[sizeof(CARD_FOLDER)];
	ssize_t n = readlinkat(fds_fd, name, target, sizeof(target));

	return n == sizeof(target) && memcmp(target, CARD_FOLDER, sizeof(CARD_FOLDER) - 1) == 0;
}

/* Opens PID/name. -1 when the process is gone, which is nothing to note, or cannot be looked at, which is noted. */
static int open_folder(struct drm_scan *scan, int proc_fd, uint32_t pid, const char *name)
{
	char path[32];
	int fd;

	(void)snprintf(path, sizeof(path), "%u/%s", pid, name);
	fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno != ENOENT && errno != ESRCH)
		note_unread(scan);
	return fd;
}

static int scan_process(struct drm_scan *scan, int proc_fd, uint32_t pid)
{
	_cleanup_closedir_ DIR *fds = NULL;
	_cleanup_close_ int fd = -1, info_fd = -1;
	size_t links = 0, infos = 0;

	fd = open_folder(scan, proc_fd, pid, "fd");
	if (fd < 0)
		return 0;
	fds = fdopendir(fd);
	if (!fds)
		return -ENOMEM;
	(void)TAKE_FD(fd);
	for (struct dirent *e = readdir(fds); e; e = readdir(fds)) {
		int r;

		if (e->d_name[0] == '.')
			continue;
		if (links == FDS_MAX || scan->links_left == 0) {
			note_unread(scan);
			return 0;
		}
		links++;
		scan->links_left--;
		if (!is_card(dirfd(fds), e->d_name))
			continue;
		if (infos++ == FDINFO_MAX) {
			note_unread(scan);
			return 0;
		}
		if (info_fd < 0)
			info_fd = open_folder(scan, proc_fd, pid, "fdinfo");
		if (info_fd < 0)
			return 0;
		r = read_fdinfo(scan, info_fd, pid, e->d_name);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Those of the same client side by side, the lowest pid first; without an id each process's are one client. */
static int client_compare(const void *a, const void *b)
{
	const struct drm_client *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	if (x->has_id != y->has_id)
		return x->has_id ? -1 : 1;
	if (x->has_id && x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

static bool is_same_client(const struct drm_client *x, const struct drm_client *y)
{
	return x->device == y->device && x->has_id == y->has_id && (x->has_id ? x->id == y->id : x->pid == y->pid);
}

/* Each client once, with the largest of what was read of it, for it was read at several moments. */
static void fold_clients(struct drm_scan *scan)
{
	size_t kept = 0;

	if (scan->client_count == 0)
		return;
	qsort(scan->clients, scan->client_count, sizeof(*scan->clients), client_compare);
	for (size_t i = 1; i < scan->client_count; i++) {
		struct drm_client *to = &scan->clients[kept], *c = &scan->clients[i];

		if (!is_same_client(to, c)) {
			scan->clients[++kept] = *c;
			continue;
		}
		to->bytes = MAX(to->bytes, c->bytes);
		to->kinds |= c->kinds;
		if (c->at_ns > to->at_ns) {
			to->at_ns = c->at_ns;
			memcpy(to->engines, c->engines, sizeof(to->engines));
		}
	}
	scan->client_count = kept + 1;
}

/* What each client has done since the last reading, and this one becomes the last. 0 or -ENOMEM. */
static int measure_work(struct drm_scan *scan, struct drm_past *past)
{
	struct drm_reading *list = calloc(scan->client_count + 1, sizeof(*list));
	size_t count = 0;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < scan->client_count; i++) {
		struct drm_client *c = &scan->clients[i];
		struct drm_reading *r = &list[count];

		if (!c->has_id)
			continue;
		r->key = hash_str(c->id, scan->s->devices[c->device].pci);
		r->at_ns = c->at_ns;
		memcpy(r->engines, c->engines, sizeof(r->engines));
		c->sm_percent = drm_work_percent(past, r);
		count++;
	}
	drm_past_set(past, list, count);
	return 0;
}

static int owner_compare(const void *a, const void *b)
{
	const struct drm_client *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* The clients of one process on one card add up. */
static int add_processes(struct drm_scan *scan)
{
	struct gpu_snapshot *s = scan->s;
	struct gpu_process *p = NULL;
	int r;

	r = gpu_snapshot_grow(s, scan->client_count);
	if (r < 0 || scan->client_count == 0)
		return r;
	qsort(scan->clients, scan->client_count, sizeof(*scan->clients), owner_compare);
	for (size_t i = 0; i < scan->client_count; i++) {
		const struct drm_client *c = &scan->clients[i];

		if (!p || p->pid != c->pid || p->device != c->device) {
			p = &s->processes[s->process_count++];
			*p = (struct gpu_process){ .pid = c->pid, .device = c->device, .sm_percent = UINT32_MAX };
		}
		p->kinds |= c->kinds;
		if (c->sm_percent != UINT32_MAX)
			p->sm_percent = MIN((p->sm_percent == UINT32_MAX ? 0 : p->sm_percent) + c->sm_percent, 100);
		if (__builtin_add_overflow(p->used_bytes, c->bytes, &p->used_bytes))
			p->used_bytes = UINT64_MAX;
	}
	return 0;
}

int drm_add_clients(const char *proc_root, struct drm_past *past, struct gpu_snapshot *s)
{
	struct drm_scan scan = { .s = s, .links_left = LINKS_MAX };
	_cleanup_free_ uint32_t *pids = NULL;
	_cleanup_closedir_ DIR *proc = opendir(proc_root);
	size_t count = 0;
	int r;

	if (!proc)
		return -errno;
	r = list_pids(&scan, proc, &pids, &count);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = scan_process(&scan, dirfd(proc), pids[i]);
	if (r == 0) {
		fold_clients(&scan);
		r = past ? measure_work(&scan, past) : 0;
	}
	if (r == 0)
		r = add_processes(&scan);
	free(scan.clients);
	return r;
}
