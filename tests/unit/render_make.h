/* SPDX-License-Identifier: MIT */
/* Stories to render, built by hand. */
#pragma once

#include <locale.h>
#include <stdlib.h>
#include <time.h>

#include "history/render.h"
#include "history/story.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define MINUTE (UINT64_C(60) * 1000000)
#define HOUR (60 * MINUTE)
/* Mon 2026-11-30 18:00 to Tue 2026-12-01 08:00, Berlin. */
#define FROM (UINT64_C(1796058000) * 1000000)
#define UNTIL (FROM + 14 * HOUR)

static inline void make_world(void)
{
	if (setenv("TZ", "Europe/Berlin", 1) < 0 || !setlocale(LC_CTYPE, "C.UTF-8"))
		abort();
	tzset();
}

#define SERIES(list, peak, at)                                                                                         \
	{                                                                                                              \
		.points = list, .len = sizeof(list) / sizeof((list)[0]), .peak_bytes = (peak), .peak_usec = (at)       \
	}

#define UNKNOWN STORY_ABSENT

static struct story_host make_host = { "gpu01", "0123456789abcdef0123456789abcdef" };
static struct story_host make_other_host = { "gpu02", NULL };

static struct story_stack make_stack_train = {
	"0123456789abcdef",
	"cuMemAlloc_v2+0x0 (libcuda.so.1)\ncudaMalloc+0x4e (libcudart.so.12)\n"
	"c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::alloc_block(bool)+0x1f0 (libc10_cuda.so)\n"
	"at::detail::empty_generic(c10::ArrayRef<long>)+0x2ab (libtorch_cpu.so)\n"
	"THPVariable_linear(_object*, _object*)+0x10 (libtorch_python.so)\n"
	"caching_allocator_alloc (torch/cuda/memory.py:101)\n"
	"forward (/home/alice/models/attention.py:212)\n_call_impl (torch/nn/modules/module.py:1511)\n"
	"step (/home/alice/train.py:88)\nmain (/home/alice/train.py:140)\n<module> (/home/alice/train.py:151)\n"
	"[12 more frames]\n_start+0x21 (python3.11)",
	NULL,
};
static struct story_stack make_stack_native = { "fedcba9876543210",
						"cuMemAlloc_v2+0x0 (libcuda.so.1)\nfill_cache(int, char const*)+0x44 (server) at cache.cc:81\n"
						"main+0x10 (server)",
						"cut: 3 frames could not be unwound" };
static struct story_stack make_stack_untold = { "00000000000000aa", NULL, NULL };

static struct story_point make_used[] = { { FROM, 10 * GIB, 10 * GIB, 10 * GIB }, { FROM + 8 * HOUR, 10 * GIB, 79 * GIB, 79 * GIB } };
static struct story_device make_gpu0 = {
	.host = &make_host, .uuid = "GPU-11111111-1111-1111-1111-111111111111", .index = 0, .total_bytes = 80 * GIB,
	.used = SERIES(make_used, 79 * GIB, FROM + 8 * HOUR), .peak_bytes = 72 * GIB + 200 * MIB, .peak_usec = FROM + 8 * HOUR,
};
static struct story_device make_gpu1 = {
	.host = &make_host, .uuid = "GPU-22222222-2222-2222-2222-222222222222", .index = 1, .total_bytes = UNKNOWN,
	.peak_bytes = 2 * GIB, .peak_usec = FROM + 30 * MINUTE,
};

static struct story_point make_train_points[] = {
	{ FROM + 10 * MINUTE, 0, 8 * GIB, 8 * GIB },		  { FROM + 2 * HOUR, 8 * GIB, 20 * GIB, 20 * GIB },
	{ FROM + 4 * HOUR, 16 * GIB, 24 * GIB, 24 * GIB },	  { FROM + 6 * HOUR, 24 * GIB, 33 * GIB, 32 * GIB },
	{ FROM + 8 * HOUR, 32 * GIB, 44236566528, 41 * GIB },	  { FROM + 8 * HOUR + 30 * MINUTE, 41 * GIB, 41 * GIB, 1288490188 },
};
static struct story_point make_train_second[] = { { FROM + 30 * MINUTE, 0, 2 * GIB, 2 * GIB }, { FROM + 5 * HOUR, 0, 2 * GIB, 0 } };
static struct story_held make_train_held[] = { { &make_gpu0, SERIES(make_train_points, 44236566528, FROM + 8 * HOUR) },
					       { &make_gpu1, SERIES(make_train_second, 2 * GIB, FROM + 30 * MINUTE) } };
static struct story_site make_train_sites[] = { { &make_stack_train, 31 * GIB, 1 * GIB, 33 * GIB },
						{ &make_stack_untold, 2 * GIB, 0, 2 * GIB },
						{ &make_stack_native, 0, 0, 5 } };
static struct story_process make_train = {
	.host = &make_host, .pid = 4711, .start_time = 123456, .boot_id = "b0", .comm = "python3", .exe = "/usr/bin/python3.11",
	.cmdline = "python3 train.py --model attention-large --batch-size 4096 --checkpoint /data/checkpoints/attention",
	.user = "alice", .unit = "train.service", .slurm_job = "8812", .first_usec = FROM + 10 * MINUTE,
	.last_usec = FROM + 8 * HOUR + 30 * MINUTE, .end_usec = FROM + 8 * HOUR + 30 * MINUTE, .is_ended = true,
	.held = make_train_held, .held_len = 2, .peak_bytes = 44236566528, .peak_usec = FROM + 8 * HOUR, .live_bytes = 1288490188,
	.host_bytes = 256 * MIB, .managed_bytes = 0, .driver_bytes = UNKNOWN, .alloc_count = 120034, .free_count = 119000,
	.fail_count = 2, .allocated_bytes = UINT64_C(18446744073709551614), .lost_events = 0, .is_exact = true,
	.peak_stack = &make_stack_train, .sites = make_train_sites, .sites_len = 3, .incidents = 2, .number = 0,
};

static struct story_point make_serve_points[] = { { FROM, 30 * GIB, 30 * GIB, 30 * GIB }, { FROM + 7 * HOUR, 30 * GIB, 31 * GIB, 31 * GIB } };
static struct story_held make_serve_held[] = { { &make_gpu0, SERIES(make_serve_points, 31 * GIB, FROM + 7 * HOUR) } };
static struct story_site make_serve_sites[] = { { &make_stack_native, 30 * GIB, 31 * GIB, 31 * GIB } };
static struct story_process make_serve = {
	.host = &make_host, .pid = 99, .start_time = 77, .comm = "模型服务器-inference-0", .user = "bob",
	.container = "ab12cd34ef56789012345678", .pod = "serve-7d9f", .first_usec = FROM, .last_usec = UNTIL,
	.held = make_serve_held, .held_len = 1, .peak_bytes = 31 * GIB, .peak_usec = FROM + 7 * HOUR, .live_bytes = 31 * GIB,
	.host_bytes = UNKNOWN, .managed_bytes = UNKNOWN, .driver_bytes = UNKNOWN, .alloc_count = UNKNOWN, .free_count = UNKNOWN,
	.fail_count = UNKNOWN, .allocated_bytes = UNKNOWN, .lost_events = 7, .is_exact = false, .sites = make_serve_sites,
	.sites_len = 1, .incidents = 1, .number = 1,
};
static struct story_point make_small_points[] = { { FROM + HOUR, 0, 300 * MIB, 300 * MIB } };
static struct story_held make_small_held[] = { { NULL, SERIES(make_small_points, 300 * MIB, FROM + HOUR) } };
static struct story_process make_small = {
	.host = &make_host, .pid = 500, .start_time = 1, .comm = "nb", .first_usec = FROM + HOUR, .last_usec = FROM + HOUR,
	.is_cut = true, .held = make_small_held, .held_len = 1, .peak_bytes = 300 * MIB, .peak_usec = FROM + HOUR,
	.live_bytes = 300 * MIB, .host_bytes = UNKNOWN, .managed_bytes = UNKNOWN, .driver_bytes = UNKNOWN,
	.alloc_count = UNKNOWN, .free_count = UNKNOWN, .fail_count = UNKNOWN, .allocated_bytes = UNKNOWN, .is_exact = true,
	.number = 2,
};

#define NO_NUMBERS                                                                                                     \
	.value = UNKNOWN, .limit = UNKNOWN, .peak_value = UNKNOWN, .growth_bytes_per_hour = UNKNOWN, .full_in_sec = UNKNOWN, \
	.leaked_bytes = UNKNOWN, .confidence = -1

static struct story_incident make_leak = {
	.id = "00112233445566778899aabbccddeeff", .host = &make_host, .rule = "leak", .event = "leak", .severity = "warning",
	.scope = "process", .subject = "python3[4711]", .process = &make_train, .device = &make_gpu0, .state = STORY_RESOLVED,
	.begin_usec = FROM + 3 * HOUR, .last_usec = FROM + 8 * HOUR + 30 * MINUTE, .end_usec = FROM + 8 * HOUR + 30 * MINUTE,
	.duration_sec = 19800, .value = 24 * GIB, .limit = UNKNOWN, .peak_value = 41 * GIB, .value_unit = "bytes",
	.growth_bytes_per_hour = 4 * GIB, .full_in_sec = 36000, .leaked_bytes = 20 * GIB, .confidence = 0.875,
	.caveat = "A cache that still fills looks the same.", .records = 4,
	.message = "python3[4711] is leaking 4 GiB per hour on GPU 0, full in 10h (rule leak)",
	.documentation = "https://example.org/leak", .stack = &make_stack_train,
};
static struct story_incident make_quota = {
	.id = "ffeeddccbbaa99887766554433221100", .host = &make_host, .rule = "gpu-memory-quota-of-inference", .event = "live_bytes",
	.severity = "critical", .scope = "process", .subject = "模型服务器-inference-0[99]", .process = &make_serve,
	.device = &make_gpu0, .state = STORY_FIRING, .begin_usec = FROM - 50 * HOUR, .last_usec = UNTIL - HOUR, .is_before = true,
	.duration_sec = 226800, .value = 31 * GIB, .limit = 24 * GIB, .peak_value = 31 * GIB, .value_unit = "bytes",
	.growth_bytes_per_hour = UNKNOWN, .full_in_sec = UNKNOWN, .leaked_bytes = UNKNOWN, .confidence = -1, .records = 9,
	.message = "模型服务器-inference-0[99] still holds 31 GiB on GPU 0, over 24 GiB (rule gpu-memory-quota-of-inference)",
};
static struct story_incident make_once = {
	.host = &make_host, .rule = "huge", .event = "single_alloc", .severity = "notice", .scope = "process", .subject = "nb[500]",
	.process = &make_small, .state = STORY_SINGLE, .begin_usec = FROM + HOUR, .last_usec = FROM + HOUR, .duration_sec = UNKNOWN,
	NO_NUMBERS, .message = "nb[500] allocated 300 MiB at once (rule huge)", .records = 1,
};

static struct story_holder make_holders[] = { { &make_train, 41 * GIB, FROM + 8 * HOUR }, { &make_serve, 31 * GIB, FROM + 7 * HOUR } };
static struct story_failure make_failure = {
	.usec = FROM + 8 * HOUR + 5 * 1000000, .last_usec = FROM + 8 * HOUR + 20 * 1000000, .count = 2, .host = &make_host,
	.process = &make_train, .device = &make_gpu0, .bytes = 2 * GIB, .function = "cuMemAlloc_v2",
	.error = "2 CUDA_ERROR_OUT_OF_MEMORY", .message = "python3[4711] was refused 2 GiB", .stack = &make_stack_train,
	.live_bytes = 41 * GIB, .device_bytes = 80 * GIB, .device_used_bytes = 79 * GIB, .holders = make_holders,
	.holders_len = 2, .holders_left_out = 1, .other_bytes = 7 * GIB,
};
static struct story_failure make_odd_failure = {
	.usec = FROM + 9 * HOUR, .last_usec = FROM + 9 * HOUR, .count = 1, .host = &make_host, .bytes = 2 * MIB,
	.live_bytes = UNKNOWN, .device_bytes = 80 * GIB, .device_used_bytes = 40 * GIB, .other_bytes = UNKNOWN,
};

static struct story_gap make_down = { GAP_DOWN, &make_host, FROM + 10 * HOUR, FROM + 12 * HOUR + 10 * MINUTE, 0,
				      "gpuxray was not running for 2h 10m" };
static struct story_gap make_lost = { GAP_LOST, &make_host, FROM + 7 * HOUR, FROM + 7 * HOUR, 7, "7 events were lost" };

static struct story_host *make_hosts[] = { &make_host, &make_other_host };
static struct story_device *make_devices[] = { &make_gpu0, &make_gpu1 };
static struct story_process *make_processes[] = { &make_train, &make_serve, &make_small };
static struct story_incident *make_incidents[] = { &make_quota, &make_once, &make_leak };
static struct story_failure *make_failures[] = { &make_failure, &make_odd_failure };
static struct story_gap *make_gaps[] = { &make_lost, &make_down };
static struct story_stack *make_stacks[] = { &make_stack_train, &make_stack_native, &make_stack_untold };

/* A night with something of everything. */
static struct story make_night = {
	.from_usec = FROM, .until_usec = UNTIL, .records = 321, .hosts = make_hosts, .hosts_len = 1, .devices = make_devices,
	.devices_len = 2, .processes = make_processes, .processes_len = 3, .incidents = make_incidents, .incidents_len = 3,
	.failures = make_failures, .failures_len = 2, .gaps = make_gaps, .gaps_len = 2, .stacks = make_stacks, .stacks_len = 3,
	.left_out = { .processes = 12, .unreadable = 1 },
};
/* One that tells of nothing. */
static struct story make_nothing = { .from_usec = FROM, .until_usec = UNTIL, .records = 1, .hosts = make_hosts, .hosts_len = 1 };
