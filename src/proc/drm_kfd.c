/* SPDX-License-Identifier: MIT */
/* AMD's compute driver: what it has for each process on each of its nodes. */
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/file.h"
#include "base/units.h"
#include "proc/drm.h"
#include "proc/drm_read.h"

#define NODES_MAX 256
#define PROCESSES_MAX 65536
#define PROPERTIES_MAX 8192

struct kfd_node {
	uint64_t gpu_id;
	uint32_t device; /* place in the snapshot */
};

static DIR *open_sub(const char *sys_root, const char *name)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/class/kfd/kfd/%s", sys_root, name);
	return opendir(path);
}

/* False when it is no card's, or of one that is not in the snapshot. */
static bool read_node(int nodes_fd, const char *name, const struct gpu_snapshot *s, struct kfd_node *ret)
{
	_cleanup_free_ char *text = NULL;
	char path[64], pci[16];
	size_t len;
	int device;

	(void)snprintf(path, sizeof(path), "%.32s/gpu_id", name);
	/* The processor is a node as well, its id is 0. */
	ret->gpu_id = drm_small_number(nodes_fd, path);
	if (ret->gpu_id == UINT64_MAX || ret->gpu_id == 0)
		return false;
	(void)snprintf(path, sizeof(path), "%.32s/properties", name);
	if (file_read_head(nodes_fd, path, PROPERTIES_MAX, &text, &len) < 0 || drm_kfd_location_parse(text, pci) < 0)
		return false;
	device = drm_card_at(s, pci);
	ret->device = (uint32_t)device;
	return device >= 0;
}

static size_t read_nodes(const char *sys_root, struct gpu_snapshot *s, struct kfd_node nodes[NODES_MAX])
{
	_cleanup_closedir_ DIR *dir = open_sub(sys_root, "topology/nodes");
	size_t count = 0;

	for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
		struct kfd_node node;

		if (e->d_name[0] < '0' || e->d_name[0] > '9' || !read_node(dirfd(dir), e->d_name, s, &node))
			continue;
		if (count == NODES_MAX) {
			s->is_complete = false;
			s->left_out_count++;
			continue;
		}
		nodes[count++] = node;
	}
	return count;
}

/* A card that was divided up has several nodes: their bytes add up. */
static int add_process(int process_fd, uint32_t pid, const struct kfd_node *nodes, size_t node_count,
		       struct gpu_snapshot *s)
{
	size_t first = s->process_count;
	int r = gpu_snapshot_grow(s, node_count);

	if (r < 0)
		return r;
	for (size_t i = 0; i < node_count; i++) {
		struct gpu_process *p = NULL;
		uint64_t bytes;
		char name[40];

		(void)snprintf(name, sizeof(name), "vram_%llu", (unsigned long long)nodes[i].gpu_id);
		bytes = drm_small_number(process_fd, name);
		if (bytes == UINT64_MAX)
			continue;
		for (size_t k = first; k < s->process_count && !p; k++)
			if (s->processes[k].device == nodes[i].device)
				p = &s->processes[k];
		if (!p) {
			p = &s->processes[s->process_count++];
			*p = (struct gpu_process){ .pid = pid, .device = nodes[i].device, .sm_percent = UINT32_MAX };
			p->kinds = GPU_PROCESS_COMPUTE;
		}
		if (__builtin_add_overflow(p->used_bytes, bytes, &p->used_bytes))
			p->used_bytes = UINT64_MAX;
	}
	return 0;
}

int drm_add_kfd(const char *sys_root, struct gpu_snapshot *s)
{
	struct kfd_node nodes[NODES_MAX];
	size_t node_count = read_nodes(sys_root, s, nodes), seen = 0;
	_cleanup_closedir_ DIR *dir = node_count > 0 ? open_sub(sys_root, "proc") : NULL;

	for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
		_cleanup_close_ int fd = -1;
		uint32_t pid;
		int r;

		if (parse_u32(e->d_name, &pid) < 0 || pid == 0)
			continue;
		if (seen++ >= PROCESSES_MAX) {
			s->is_complete = false;
			s->left_out_count++;
			continue;
		}
		fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = fd < 0 ? 0 : add_process(fd, pid, nodes, node_count, s);
		if (r < 0)
			return r;
	}
	return 0;
}
