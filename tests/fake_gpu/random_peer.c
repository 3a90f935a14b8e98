/* SPDX-License-Identifier: MIT */
/* A second process that opens what the first one exports: by IPC handle, by file descriptor, by pool. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "random_ops.h"

enum {
	ASK_IPC,
	ASK_HANDLE,
	ASK_POOL,
	ASK_POINTER,
	ASK_POINTERS_END,
	ASK_WORK,
	ASK_END,
};

struct ask {
	int what, device, fd;
	uint64_t bytes;
	unsigned char data[64];
};

static int peer = -1; /* socket to the other one */
static CUmemoryPool shared_pool;
static int shared_device;
static bool is_pool_known;

static void send_ask(const struct ask *a)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { .iov_base = (void *)a, .iov_len = sizeof(*a) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (a->fd >= 0) {
		m.msg_control = control.buf;
		m.msg_controllen = sizeof(control.buf);
		CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &a->fd, sizeof(int));
	}
	if (sendmsg(peer, &m, 0) != sizeof(*a))
		die("sendmsg: %s", strerror(errno));
}

static void receive_ask(struct ask *a)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { .iov_base = a, .iov_len = sizeof(*a) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
			    .msg_controllen = sizeof(control.buf) };

	if (recvmsg(peer, &m, MSG_CMSG_CLOEXEC) != sizeof(*a))
		die("the exporter is gone");
	if (CMSG_FIRSTHDR(&m))
		memcpy(&a->fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
}

/* Returns when the peer has done it. */
static void tell(int what, int device, int fd, uint64_t bytes, const void *data)
{
	struct ask a = { .what = what, .device = device, .fd = fd, .bytes = bytes };
	char c;

	if (data)
		memcpy(a.data, data, sizeof(a.data));
	send_ask(&a);
	if (read(peer, &c, 1) != 1)
		die("the importer is gone");
}

/* The same memory opened twice has one address, and takes two closings. */
static void open_ipc(struct worker *w, const struct ask *a)
{
	struct item it = { .kind = ITEM_IPC, .class = CLASS_IMPORTED, .device = a->device, .bytes = a->bytes };
	int times = 1 + (int)below(w, 3);
	CUipcMemHandle handle;

	memcpy(&handle, a->data, sizeof(handle));
	context_begin(w, a->device);
	it.owner = primary[a->device];
	for (int i = 0; i < times; i++) {
		CUdeviceptr p = 0;
		CUresult r = is_real || below(w, 2) ? cuIpcOpenMemHandle_v2(&p, handle, 1) :
						      cuIpcOpenMemHandle(&p, handle, 1);

		if (i && p != it.addr)
			die("a second opening has another address");
		it.addr = p;
		booked(w, r, &it);
	}
}

static void open_handle(struct worker *w, const struct ask *a)
{
	struct item it = { .kind = ITEM_IMPORT, .class = CLASS_IMPORTED, .refs = 1 };
	CUmemGenericAllocationHandle h = 0;
	CUresult r;

	it.device = a->device;
	it.other = a->bytes;
	context_begin(w, a->device);
	r = cuMemImportFromShareableHandle(&h, (void *)(uintptr_t)a->fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	it.addr = h;
	booked(w, r, &it);
}

static void open_pointer(struct worker *w, const struct ask *a)
{
	struct item it = { .kind = ITEM_ASYNC, .class = CLASS_IMPORTED, .device = a->device, .bytes = a->bytes };
	CUmemPoolPtrExportData share;
	CUdeviceptr p = 0;
	CUresult r;

	memcpy(&share, a->data, sizeof(share));
	r = cuMemPoolImportPointer(&p, shared_pool, &share);
	it.addr = p;
	booked(w, r, &it);
}

static void close_pointers(struct worker *w)
{
	for (size_t i = w->len; i-- > 0;)
		if (w->items[i].kind == ITEM_ASYNC && w->items[i].class == CLASS_IMPORTED)
			item_step(w, i);
}

static int peer_run(void)
{
	struct worker *w;
	struct ask a;

	thread_count = 1;
	seed += 77;
	families &= ~(1u << FAMILY_IPC | 1u << FAMILY_FORK | 1u << FAMILY_EXEC);
	random_open();
	w = worker_new(0);
	context_begin(w, 0);
	for (;;) {
		receive_ask(&a);
		if (w->len + 8 < live_max) {
			if (a.what == ASK_IPC)
				open_ipc(w, &a);
			if (a.what == ASK_HANDLE)
				open_handle(w, &a);
			if (a.what == ASK_POINTER)
				open_pointer(w, &a);
		}
		if (a.what == ASK_POOL)
			MUST(cuMemPoolImportFromShareableHandle(&shared_pool, (void *)(uintptr_t)a.fd,
								CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
		if (a.what == ASK_POINTERS_END)
			close_pointers(w);
		if (a.what == ASK_WORK)
			random_some(w, a.bytes);
		if (a.fd >= 0)
			close(a.fd);
		if (write(peer, "", 1) != 1)
			die("the exporter is gone");
		if (a.what == ASK_END)
			return lives_end();
	}
}

void peer_start(void)
{
	int pair[2];

	if (!has_family(FAMILY_IPC))
		return;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		die("socketpair: %s", strerror(errno));
	if (!lives_fork("peer")) {
		peer = pair[1];
		close(pair[0]);
		exit(peer_run());
	}
	peer = pair[0];
	close(pair[1]);
}

/* Small blocks share their pages with others in a real driver: not exported. */
static void export_ipc(struct worker *w)
{
	uint64_t min = is_real ? 2 * MIB : 1;
	CUipcMemHandle handle;

	for (size_t i = 0; i < w->len; i++) {
		const struct item *it = &w->items[i];

		if (it->kind != ITEM_POINTER || it->class != CLASS_DEVICE || it->bytes < min || below(w, 4))
			continue;
		MUST(cuIpcGetMemHandle(&handle, it->addr));
		tell(ASK_IPC, it->device, -1, it->bytes, &handle);
		return;
	}
}

static void export_handle(struct worker *w)
{
	struct item it = { .kind = ITEM_PHYSICAL, .class = CLASS_PHYSICAL, .device = device_of(w), .refs = 1 };
	CUmemGenericAllocationHandle h = 0;
	CUresult r;
	int fd = -1;

	if (w->len >= live_max)
		return;
	it.bytes = 2 * MIB * (1 + below(w, 4));
	r = physical_create(it.bytes, it.device, true, &h);
	it.addr = h;
	if (!booked(w, r, &it))
		return;
	MUST(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	tell(ASK_HANDLE, it.device, fd, it.bytes, NULL);
	close(fd);
}

static void share_pool(void)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device_count - 1 },
	};
	int fd = -1;

	MUST(cuMemPoolCreate(&shared_pool, &props));
	shared_device = props.location.id;
	MUST(cuMemPoolExportToShareableHandle(&fd, shared_pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	tell(ASK_POOL, shared_device, fd, 0, NULL);
	close(fd);
	is_pool_known = true;
}

/* The importer has to give a pointer back before the exporter does. */
static void export_pointer(struct worker *w)
{
	struct item it = { .kind = ITEM_ASYNC, .class = CLASS_ASYNC, .is_kept = true };
	CUmemPoolPtrExportData share;
	CUdeviceptr p = 0;
	CUresult r;

	if (!is_pool_known)
		share_pool();
	it.device = shared_device;
	it.bytes = random_size(&w->rng, 22);
	if (w->len >= live_max)
		return;
	r = cuMemAllocFromPoolAsync(&p, it.bytes, shared_pool, NULL);
	it.addr = p;
	if (!booked(w, r, &it))
		return;
	MUST(cuCtxSynchronize());
	MUST(cuMemPoolExportPointer(&share, p));
	tell(ASK_POINTER, it.device, -1, it.bytes, &share);
}

static void release_pointers(struct worker *w)
{
	tell(ASK_POINTERS_END, 0, -1, 0, NULL);
	for (size_t i = 0; i < w->len; i++)
		w->items[i].is_kept = false;
}

/* Children have the socket too, and no business with it. */
static bool has_peer(void)
{
	return peer >= 0 && has_family(FAMILY_IPC);
}

void peer_step(struct worker *w)
{
	if (!has_peer())
		return;
	for (int i = 0; i < 4; i++)
		export_ipc(w);
	if (has_family(FAMILY_FD)) {
		export_handle(w);
		if (has_family(FAMILY_POOL))
			export_pointer(w);
		if (!below(w, 3))
			release_pointers(w);
	}
	tell(ASK_WORK, 0, -1, 20, NULL);
}

void peer_finish(void)
{
	if (has_peer())
		tell(ASK_END, 0, -1, 0, NULL);
	peer = -1;
}
