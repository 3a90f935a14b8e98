/* SPDX-License-Identifier: MIT */
/* The records of NVML's lists of processes in all their historic forms, and of its samples of their work. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* What the buffer holds before the call, and how much of it there has to be for each record that is asked for: longer
 * than any known record, so that a driver with yet longer ones stays within. */
#define NVML_UNTOUCHED 0xa5
#define NVML_RECORD_ROOM 64

enum nvml_record_form { /* bytes of a record */
	NVML_RECORD_V1 = 16,   /* u32 pid, u64 used bytes */
	NVML_RECORD_V2 = 24,   /* ... and u32 GPU instance, u32 compute instance; _v2 and _v3 */
	NVML_RECORD_V535 = 32, /* ... and u64 protected bytes; some drivers of the 535 series behind the name _v3 */
};

struct nvml_record {
	uint32_t pid;
	uint32_t gpu_instance, compute_instance; /* UINT32_MAX = none */
	uint64_t used_bytes;			 /* UINT64_MAX when the driver did not say, or what it said cannot be */
};

/*
 * raw: raw_len bytes, NVML_UNTOUCHED before the call that wrote count records of at least that form into it.
 * total_bytes: of the device, UINT64_MAX if not known. ret: room for count; it gets one record for each process, by
 * rising pid. Returns how many; those without a process that can be are left out and counted.
 */
size_t nvml_records_read(const unsigned char *raw, size_t raw_len, size_t count, enum nvml_record_form form,
			 uint64_t total_bytes, struct nvml_record *ret, size_t *ret_left_out);

/* nvmlProcessUtilizationSample_t: u32 pid, u64 time stamp, u32 each of multiprocessors, memory, encoder, decoder. */
#define NVML_SAMPLE_BYTES 32

struct nvml_share {
	uint32_t pid;
	uint32_t sm_percent; /* UINT32_MAX when what the driver said cannot be: counted */
	uint64_t stamp_usec; /* wall clock */
};

/*
 * count samples at raw, filled with NVML_UNTOUCHED before the call: the newest of each process, by rising pid, into
 * ret, which has room for count. Not those of since_usec and before, nor empty ones, of which some drivers return a hundred.
 */
size_t nvml_samples_read(const unsigned char *raw, size_t count, uint64_t since_usec, uint64_t now_usec,
			 struct nvml_share *ret, size_t *ret_left_out);
