/* SPDX-License-Identifier: MIT */
/*
 * Random operations of every kind in every kind of process, each with an exact ledger. --seed N --ops N (of all threads
 * together) --threads N --live N (blocks a thread keeps) --only LIST and --except LIST (families, see below) --real (a
 * real driver: nothing that it may not survive, no totals to compare with) --as-pid N (with that process id).
 *
 * Says first which families are on. At the end each process prints its ledger, labelled "end-" and what it is (fork,
 * leader, exec, vfork, forked, peer); one that has ended by then "zombie"; then the first process "end". They live until
 * the first one is let go.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "random_ops.h"

#define ROUNDS 6

uint64_t seed = 1, total_ops = 4000, thread_count = 1, live_max = 128;
bool is_real;
unsigned int families;

static struct worker **workers;

/* What a family cannot do without, and a driver may not have. */
static void *const old_needs[] = { cuMemAlloc,	cuMemAllocPitch, cuMemFree,   cuMemAllocHost, cuMemHostRegister,
				   cuArrayCreate, cuArray3DCreate, cuCtxCreate, cuCtxAttach,	cuCtxDetach };
static void *const array_needs[] = { cuMipmappedArrayCreate, cuMipmappedArrayDestroy };
static void *const pool_needs[] = { cuDeviceGetMemPool, cuDeviceSetMemPool };
static void *const graph_needs[] = { cuStreamCreate, cuStreamBeginCapture_v2, cuStreamEndCapture_ptsz,
				     cuGraphAddMemAllocNode, cuGraphAddNode_v2, cuGraphInstantiateWithParams,
				     cuGraphLaunch_ptsz };
static void *const fd_needs[] = { cuMemExportToShareableHandle, cuMemImportFromShareableHandle,
				  cuMemPoolImportPointer };
static void *const external_needs[] = { cuImportExternalMemory, cuExternalMemoryGetMappedBuffer,
					cuExternalMemoryGetMappedMipmappedArray, cuDestroyExternalMemory };
static void *const multicast_needs[] = { cuMulticastCreate, cuMulticastAddDevice, cuMulticastBindMem,
					 cuMulticastBindAddr, cuMulticastUnbind };

static void *const green_needs[] = { cuGreenCtxCreate, cuCtxFromGreenCtx, cuGreenCtxDestroy };

#define NEEDS(list) list, sizeof(list) / sizeof(list[0])
static const struct {
	const char *name;
	bool is_fake_only;
	void *const *needs;
	size_t need_count;
} family_table[FAMILY_MAX] = {
	[FAMILY_DEVICE] = { .name = "device" },
	[FAMILY_OLD] = { "old", true, NEEDS(old_needs) },
	[FAMILY_MANAGED] = { .name = "managed" },
	[FAMILY_HOST] = { .name = "host" },
	[FAMILY_REGISTER] = { .name = "register" },
	[FAMILY_ARRAY] = { "array", false, NEEDS(array_needs) },
	[FAMILY_ASYNC] = { .name = "async" },
	[FAMILY_POOL] = { "pool", false, NEEDS(pool_needs) },
	[FAMILY_VMM] = { .name = "vmm" },
	[FAMILY_GRAPH] = { "graph", false, NEEDS(graph_needs) },
	[FAMILY_IPC] = { .name = "ipc" },
	[FAMILY_FD] = { "fd", false, NEEDS(fd_needs) },
	[FAMILY_EXTERNAL] = { "external", true, NEEDS(external_needs) },
	[FAMILY_MULTICAST] = { "multicast", true, NEEDS(multicast_needs) },
	[FAMILY_CONTEXT] = { .name = "context" },
	[FAMILY_GREEN] = { "green", true, NEEDS(green_needs) },
	[FAMILY_FORK] = { .name = "fork" },
	[FAMILY_EXEC] = { .name = "exec" },
	[FAMILY_FAIL] = { .name = "fail" },
};

static bool is_there(int f)
{
	for (size_t i = 0; i < family_table[f].need_count; i++)
		if (!family_table[f].needs[i])
			return false;
	return !is_real || !family_table[f].is_fake_only;
}

static unsigned int mask_of(const char *list)
{
	unsigned int mask = 0;

	while (list && *list) {
		size_t len = strcspn(list, ",");
		unsigned int was = mask;

		for (int f = 0; f < FAMILY_MAX; f++)
			if (strlen(family_table[f].name) == len && !memcmp(family_table[f].name, list, len))
				mask |= 1u << f;
		if (mask == was)
			die("no such family: %s", list);
		list += len + (list[len] == ',');
	}
	return mask;
}

static void families_choose(const char *only, const char *except, uint64_t mask)
{
	unsigned int all = (1u << FAMILY_MAX) - 1;

	families = mask ? (unsigned int)mask : (only ? mask_of(only) : all) & ~mask_of(except);
	for (int f = 0; f < FAMILY_MAX; f++)
		if (!is_there(f))
			families &= ~(1u << f);
	if (lives_label || !common.ledger)
		return;
	printf("{\"label\":\"families\",\"on\":\"");
	for (int on = 1, n = 0; on >= 0; on--, n = 0) {
		for (int f = 0; f < FAMILY_MAX; f++)
			if (has_family((enum family)f) == (bool)on)
				printf("%s%s", n++ ? " " : "", family_table[f].name);
		printf(on ? "\",\"off\":\"" : "\"}\n");
	}
}

static void alloc_step(struct worker *w)
{
	static const struct {
		enum family family;
		operation run;
	} allocs[] = {
		{ FAMILY_DEVICE, alloc_device }, { FAMILY_DEVICE, alloc_pitch },
		{ FAMILY_OLD, alloc_old }, { FAMILY_MANAGED, alloc_managed },
		{ FAMILY_HOST, alloc_host }, { FAMILY_REGISTER, alloc_registered },
		{ FAMILY_ARRAY, alloc_array }, { FAMILY_ARRAY, alloc_mipmap },
		{ FAMILY_ASYNC, alloc_async }, { FAMILY_POOL, alloc_pool },
		{ FAMILY_VMM, alloc_physical }, { FAMILY_VMM, alloc_pair },
		{ FAMILY_FD, alloc_import }, { FAMILY_EXTERNAL, alloc_external },
		{ FAMILY_MULTICAST, alloc_multicast },
	};
	size_t i = below(w, sizeof(allocs) / sizeof(allocs[0]));

	if (!has_family(allocs[i].family))
		return;
	/* What a context takes along of these is not known. */
	if (allocs[i].family >= FAMILY_FD && !is_primary(w))
		return;
	allocs[i].run(w);
}

static void step(struct worker *w)
{
	uint64_t what = below(w, 100);

	if (what < 6) {
		if (has_family(FAMILY_FAIL))
			(what < 3 ? alloc_fails : free_nothing)(w);
	} else if (what < 14) {
		context_step(w);
	} else if (what < 20) {
		if (w->len && has_family(FAMILY_VMM))
			physical_more(w);
	} else if (what < 26) {
		(what & 1 ? item_give : item_take)(w);
	} else if (what < 38 && w->len + 16 < live_max) {
		if (has_family(FAMILY_GRAPH))
			graph_step(w);
	} else if (w->len && (w->len + 4 > live_max || what < 62)) {
		item_step(w, below(w, w->len));
	} else {
		alloc_step(w);
	}
}

void random_some(struct worker *w, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		step(w);
}

void random_open(void)
{
	contexts_open(&books);
}

/* The life of a thread: its streams and graphs end with it, its blocks do not. */
static void *worker_run(void *arg)
{
	struct worker *w = arg;

	context_begin(w, (int)below(w, (uint64_t)device_count));
	random_some(w, w->ops);
	contexts_end(w);
	graphs_end(w);
	pools_end(w);
	streams_end(w);
	return NULL;
}

/* The first thread works itself when there is only one. */
static void round_run(void)
{
	for (uint64_t i = 0; i < thread_count; i++)
		workers[i]->ops = total_ops / ROUNDS / thread_count;
	if (thread_count == 1) {
		worker_run(workers[0]);
		return;
	}
	for (uint64_t i = 0; i < thread_count; i++)
		if (pthread_create(&workers[i]->thread, NULL, worker_run, workers[i]))
			die("pthread_create");
	for (uint64_t i = 0; i < thread_count; i++)
		pthread_join(workers[i]->thread, NULL);
}

/* What only one thread may do. */
static void alone(int round)
{
	struct worker *w = workers[0];

	context_begin(w, (int)below(w, (uint64_t)device_count));
	items_collect(w);
	peer_step(w);
	if (has_family(FAMILY_CONTEXT) && round % 2)
		primary_end(w, workers);
	if (round == 2)
		lives_forked();
}

int random_run(void)
{
	random_open();
	workers = calloc(thread_count, sizeof(struct worker *));
	if (!workers)
		die("out of memory");
	for (uint64_t i = 0; i < thread_count; i++)
		workers[i] = worker_new(i);
	for (int round = 0; round < ROUNDS; round++) {
		round_run();
		alone(round);
	}
	peer_finish();
	return lives_end();
}

int main(int argc, char **argv)
{
	const char *only = NULL, *except = NULL;
	uint64_t mask = 0, as_pid = 0;
	const struct option_spec specs[] = {
		{ "--seed", OPTION_NUMBER, &seed },	       { "--ops", OPTION_NUMBER, &total_ops },
		{ "--threads", OPTION_NUMBER, &thread_count }, { "--live", OPTION_NUMBER, &live_max },
		{ "--only", OPTION_TEXT, &only },	       { "--except", OPTION_TEXT, &except },
		{ "--real", OPTION_FLAG, &is_real },	       { "--mask", OPTION_NUMBER, &mask },
		{ "--label", OPTION_TEXT, &lives_label },      { "--done-fd", OPTION_NUMBER, &lives_done_fd },
		{ "--as-pid", OPTION_NUMBER, &as_pid },	       { 0 },
	};

	options_parse(argc, argv, specs);
	if (!thread_count || live_max < 64 || thread_count > 256)
		die("--threads 1..256, --live 64..");
	if (as_pid)
		lives_as_pid(as_pid, argc, argv);
	if (getenv("RANDOM_EXECED"))
		common.wait_start = false;
	common_start();
	families_choose(only, except, mask);
	lives_start(argv);
	return random_run();
}
