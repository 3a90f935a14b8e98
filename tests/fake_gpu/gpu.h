/* SPDX-License-Identifier: MIT */
/* Driver calls that workloads linked with it share. */
#pragma once

#include <stdio.h>

#include "common.h"
#include "cuda_api.h"

#define MUST(call)                                                                                                     \
	do {                                                                                                           \
		CUresult must_r = (call);                                                                              \
		if (must_r)                                                                                            \
			die("%s: %d", #call, must_r);                                                                  \
	} while (0)

static inline void uuid_text(const CUuuid *u, char ret[41])
{
	const unsigned char *b = u->bytes;

	snprintf(ret, 41, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2],
		 b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

/* As a program on the runtime begins: initialise, ask for each uuid, make the first device's primary context current. */
static inline CUcontext gpu_open(struct ledger *l)
{
	CUcontext ctx;
	CUuuid uuid;

	MUST(cuInit(0));
	MUST(cuDeviceGetCount(&l->device_count));
	for (int i = 0; i < l->device_count && i < FAKE_GPU_MAX; i++) {
		MUST(cuDeviceGetUuid_v2(&uuid, i));
		uuid_text(&uuid, l->uuid[i]);
	}
	MUST(cuDevicePrimaryCtxRetain(&ctx, 0));
	MUST(cuCtxSetCurrent(ctx));
	return ctx;
}
