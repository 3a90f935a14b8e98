/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include "../fake_gpu/cuda_api.h"
#include "stack.h"

uint64_t stack_key;
static uint64_t calls;

/* With write(2), as it also runs in signal handlers and callbacks of printf. */
struct text {
	char buf[65536];
	size_t len;
	bool is_first;
};

static void out(const char *buf, size_t len)
{
	while (len) {
		ssize_t n = write(STDOUT_FILENO, buf, len);

		if (n <= 0)
			_exit(4);
		buf += n;
		len -= (size_t)n;
	}
}

static void add(struct text *t, const char *s)
{
	size_t n = strlen(s);

	if (t->len + n > sizeof(t->buf))
		_exit(5);
	memcpy(t->buf + t->len, s, n);
	t->len += n;
}

static void add_number(struct text *t, uint64_t v)
{
	char digits[21] = "";
	int i = 20;

	do
		digits[--i] = (char)('0' + v % 10);
	while (v /= 10);
	add(t, digits + i);
}

struct module {
	uint64_t pc, base;
	const char *name;
};

static int module_find(struct dl_phdr_info *info, size_t size, void *userdata)
{
	struct module *m = userdata;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type != PT_LOAD || m->pc < info->dlpi_addr + p->p_vaddr ||
		    m->pc >= info->dlpi_addr + p->p_vaddr + p->p_memsz)
			continue;
		m->base = info->dlpi_addr;
		m->name = info->dlpi_name;
		return 1;
	}
	return 0;
}

static _Unwind_Reason_Code one_frame(struct _Unwind_Context *ctx, void *userdata)
{
	struct text *t = userdata;
	int is_exact = 0;
	struct module m = { .pc = _Unwind_GetIPInfo(ctx, &is_exact), .name = "?" };

	if (!m.pc)
		return _URC_NO_REASON;
	dl_iterate_phdr(module_find, &m);
	add(t, t->is_first ? "[\"" : ",[\"");
	t->is_first = false;
	add(t, m.name);
	add(t, "\",");
	add_number(t, m.pc - m.base);
	add(t, is_exact ? ",1]" : ",0]");
	return _URC_NO_REASON;
}

void stack_say(const char *label)
{
	struct text t = { .len = 0 };

	add(&t, "{\"label\":\"");
	add(&t, label);
	add(&t, "\",\"pid\":");
	add_number(&t, (uint64_t)getpid());
	add(&t, "}\n");
	out(t.buf, t.len);
}

static FRAME void opinion(uint64_t bytes)
{
	static _Thread_local struct text t;

	t.len = 0;
	t.is_first = true;
	add(&t, "{\"label\":\"stack\",\"bytes\":");
	add_number(&t, bytes);
	add(&t, ",\"frames\":[");
	_Unwind_Backtrace(one_frame, &t);
	add(&t, "]}\n");
	out(t.buf, t.len);
}

static uint64_t fail_bytes(void)
{
	return (1ull << 50) + (stack_key << 20) + __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
}

FRAME void stack_alloc(void)
{
	uint64_t bytes = fail_bytes();
	CUdeviceptr p;

	opinion(bytes);
	if (cuMemAlloc_v2(&p, bytes) == CUDA_SUCCESS)
		_exit(6);
	KEEP_FRAME();
}

FRAME void stack_alloc_only(void)
{
	uint64_t bytes = fail_bytes();
	CUdeviceptr p;

	if (cuMemAlloc_v2(&p, bytes) == CUDA_SUCCESS)
		_exit(6);
	KEEP_FRAME();
}

FRAME void stack_alloc_number(uint64_t number)
{
	CUdeviceptr p;

	if (cuMemAlloc_v2(&p, (8ull << 30) + (stack_key << 20) + number) != CUDA_SUCCESS || cuMemFree_v2(p) != CUDA_SUCCESS)
		_exit(7);
	KEEP_FRAME();
}

void stack_open(void)
{
	CUcontext ctx;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx))
		_exit(8);
}

void stack_wait(void)
{
	char c;

	while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n')
		;
}
