/* SPDX-License-Identifier: MIT */
/* through KEY: an allocation in a callback of libmiddle.so. */
#include <stdlib.h>

#include "library.h"

static void callback(void)
{
	stack_alloc_only();
	KEEP_FRAME();
}

/* Apart, as the second opinion cannot leave what has no unwind information either. */
static void callback_opinion(void)
{
	stack_alloc();
	KEEP_FRAME();
}

static FRAME void before_library(void)
{
	library_call(callback);
	library_call(callback_opinion);
	KEEP_FRAME();
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	stack_key = strtoull(argv[1], NULL, 10);
	stack_open();
	before_library();
	stack_say("done");
	stack_wait();
	return 0;
}
