/* SPDX-License-Identifier: MIT */
/* jit KEY: code made at run time, in no file, that keeps a frame pointer and calls back. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "stack.h"

static void called_by_jit(void)
{
	stack_alloc_only();
	KEEP_FRAME();
}

static FRAME void calls_jit(void (*code)(void (*)(void)))
{
	code(called_by_jit);
	KEEP_FRAME();
}

int main(int argc, char **argv)
{
	/* push %rbp; mov %rsp,%rbp; sub $48,%rsp; call *%rdi; leave; ret */
	static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x30, 0xff, 0xd7, 0xc9, 0xc3 };
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (argc < 2 || page == MAP_FAILED)
		return 2;
	memcpy(page, code, sizeof(code));
	if (mprotect(page, 4096, PROT_READ | PROT_EXEC) < 0)
		return 3;
	stack_key = strtoull(argv[1], NULL, 10);
	stack_open();
	calls_jit((void (*)(void (*)(void)))page);
	stack_say("done");
	stack_wait();
	return 0;
}
