/* SPDX-License-Identifier: MIT */
#include "trace/mmap_watch.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/libbpf.h>

/* Pages of records per CPU: some 300 mappings of room before the kernel drops, and 256 KiB of memory at 8 CPUs. */
#define DATA_PAGES 8

struct cpu_ring {
	int fd;
	struct perf_event_mmap_page *page; /* MAP_FAILED or NULL when not mapped */
};

struct mmap_watch {
	int epoll_fd;
	size_t page_bytes;
	size_t cpu_count;
	struct cpu_ring *cpus;
	char record[sizeof(uint64_t) * 8192]; /* one record that wraps around the ring's end; its size field is 16 bits */
};

static int open_cpu(struct mmap_watch *w, int cpu, struct cpu_ring *ret)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.mmap = 1, /* executable mappings only; mmap_data would add the others */
		.mmap2 = 1,
		/* wakeup_events counts samples only; side-band records wake at the watermark, by default half the buffer. */
		.watermark = 1,
		.wakeup_watermark = 1,
		.exclude_kernel = 1,
	};
	long fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	struct epoll_event ev = { .events = EPOLLIN };

	ret->fd = -1;
	ret->page = NULL;
	if (fd < 0)
		return -errno;
	ret->fd = (int)fd;
	ret->page = mmap(NULL, (1 + DATA_PAGES) * w->page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ret->fd, 0);
	if (ret->page == MAP_FAILED) {
		ret->page = NULL;
		return -errno;
	}
	if (epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, ret->fd, &ev) < 0)
		return -errno;
	return 0;
}

int mmap_watch_new(struct mmap_watch **ret)
{
	_cleanup_(mmap_watch_freep) struct mmap_watch *w = calloc(1, sizeof(*w));
	int cpus = libbpf_num_possible_cpus(), r = -ENODEV, opened = 0;

	if (!w || cpus <= 0)
		return -ENOMEM;
	w->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	w->cpus = calloc((size_t)cpus, sizeof(*w->cpus));
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!w->cpus || w->epoll_fd < 0)
		return -ENOMEM;
	for (int i = 0; i < cpus; i++) {
		w->cpu_count++;
		r = open_cpu(w, i, &w->cpus[i]);
		if (r == -ENODEV) /* possible but not there, or offline */
			continue;
		if (r < 0)
			return r;
		opened++;
	}
	if (!opened)
		return -ENODEV;
	*ret = TAKE_PTR(w);
	return 0;
}

void mmap_watch_free(struct mmap_watch *w)
{
	if (!w)
		return;
	for (size_t i = 0; w->cpus && i < w->cpu_count; i++) {
		if (w->cpus[i].page)
			(void)munmap(w->cpus[i].page, (1 + DATA_PAGES) * w->page_bytes);
		if (w->cpus[i].fd >= 0)
			(void)close(w->cpus[i].fd);
	}
	if (w->epoll_fd >= 0)
		(void)close(w->epoll_fd);
	free(w->cpus);
	free(w);
}

int mmap_watch_fd(const struct mmap_watch *w)
{
	return w->epoll_fd;
}

struct mmap2_record { /* PERF_RECORD_MMAP2, see perf_event_open(2) */
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	uint32_t major, minor;
	uint64_t inode, inode_generation;
	uint32_t prot, flags;
	char filename[];
};

struct lost_record {
	struct perf_event_header header;
	uint64_t id, lost;
};

static void one_record(const struct perf_event_header *h, mmap_fn fn, void *userdata, uint64_t *lost)
{
	if (h->type == PERF_RECORD_LOST && h->size >= sizeof(struct lost_record)) {
		*lost += ((const struct lost_record *)h)->lost;
		return;
	}
	if (h->type != PERF_RECORD_MMAP2 || h->size <= sizeof(struct mmap2_record))
		return;
	const struct mmap2_record *m = (const void *)h;
	size_t room = h->size - sizeof(*m);
	struct mapping out = {
		.start = m->addr,
		.end = m->addr + m->len,
		.offset = m->pgoff,
		.dev_major = m->major,
		.dev_minor = m->minor,
		.inode = m->inode,
		.path = m->filename,
	};

	/* With build-id records (not asked for) these fields would mean other things. */
	if (strnlen(m->filename, room) == room || (h->misc & PERF_RECORD_MISC_MMAP_BUILD_ID))
		return;
	fn(m->pid, &out, userdata);
}

static int drain_cpu(struct mmap_watch *w, struct cpu_ring *c, mmap_fn fn, void *userdata, uint64_t *lost)
{
	uint64_t size = DATA_PAGES * w->page_bytes, head, tail;
	const char *data = (const char *)c->page + w->page_bytes;
	int n = 0;

	head = __atomic_load_n(&c->page->data_head, __ATOMIC_ACQUIRE);
	tail = c->page->data_tail;
	while (tail < head) {
		uint64_t at = tail % size;
		const struct perf_event_header *h = (const void *)(data + at);

		if (h->size < sizeof(*h) || h->size > head - tail)
			break;
		if (at + h->size > size) {
			size_t first = size - at, whole = h->size;

			memcpy(w->record, data + at, first);
			memcpy(w->record + first, data, whole - first);
			h = (const void *)w->record;
		}
		one_record(h, fn, userdata, lost);
		tail += h->size;
		n++;
	}
	__atomic_store_n(&c->page->data_tail, head, __ATOMIC_RELEASE);
	return n;
}

int mmap_watch_drain(struct mmap_watch *w, mmap_fn fn, void *userdata, uint64_t *ret_lost)
{
	int n = 0;

	*ret_lost = 0;
	for (size_t i = 0; i < w->cpu_count; i++)
		if (w->cpus[i].page)
			n += drain_cpu(w, &w->cpus[i], fn, userdata, ret_lost);
	return n;
}
