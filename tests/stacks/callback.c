/* SPDX-License-Identifier: MIT */
/* A library that calls back what it is given: between two runs of Python frames its own must be seen. */
#include <pthread.h>

#include "stack.h"

void callback_call(void (*fn)(void));
int callback_thread(void (*fn)(void));

void callback_call(void (*fn)(void))
{
	fn();
	KEEP_FRAME();
}

static void *thread_main(void *userdata)
{
	void (*fn)(void) = *(void (**)(void))userdata;

	callback_call(fn);
	KEEP_FRAME();
	return NULL;
}

/* On a thread that Python did not make. */
int callback_thread(void (*fn)(void))
{
	pthread_t t;

	return pthread_create(&t, NULL, thread_main, &fn) || pthread_join(t, NULL) ? -1 : 0;
}
