/* SPDX-License-Identifier: MIT */
/*
 * A program on the stand-in for PyTorch's caching allocator. Two ledgers: of its tensors, which it keeps itself, and of
 * what the driver has given for them, which ledger_print() compares with the stand-in driver's.
 *
 *   random   --ops tensors made and ended in every way there is, stopping half way (labels "half", "end")
 *   hold     --blocks tensors of --bytes each ("hold")
 *   short    more than the device has, caught, and then tensors from deeper and from less deep in the stack ("short")
 *
 * It loads the allocator as Python does, says "loaded", and waits for a line. Before each label's line of the driver's
 * ledger comes one with "tensors-" before the label.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "c10_api.h"
#include "gpu.h"

#define TENSORS 256

struct tensor {
	void *p;
	uint64_t bytes;
};

static struct {
	struct ledger driver;
	struct tensor list[TENSORS];
	uint64_t bytes, count, allocs, frees;
} work;

#define C10_CALLS(X)                                                                                                   \
	X(c10_allocate)                                                                                                \
	X(c10_raw_alloc)                                                                                               \
	X(c10_delete_tensor)                                                                                           \
	X(c10_raw_delete)                                                                                              \
	X(c10_free)                                                                                                    \
	X(c10_empty_cache)                                                                                             \
	X(c10_stats)

static struct {
#define X(name) __typeof__(&name) name;
	C10_CALLS(X)
#undef X
} c10;

static uint64_t seed = 1, ops = 4000, blocks = 4, bytes = 1 << 20;

/* What the driver was asked for meanwhile; a call takes one segment at most. */
static void look(void)
{
	struct ledger *l = &work.driver;
	struct c10_stats s;

	c10.c10_stats(&s);
	l->live_bytes[CLASS_DEVICE] = s.segment_bytes;
	l->live_count[CLASS_DEVICE] = s.segment_count;
	l->alloc_count = s.segment_allocs;
	l->free_count = s.segment_frees;
	l->fail_count = s.segment_fails;
	memcpy(l->device_bytes, s.device_bytes, sizeof(l->device_bytes));
	if (s.segment_bytes > l->peak_bytes)
		l->peak_bytes = s.segment_bytes;
}

static FRAME void *tensor_empty(int device, uint64_t size, bool is_raw)
{
	void *p = is_raw ? c10.c10_raw_alloc(device, size) : c10.c10_allocate(device, size);

	look();
	KEEP_FRAME();
	return p;
}

static FRAME bool make(struct tensor *t, int device, uint64_t size, bool is_raw)
{
	t->p = tensor_empty(device, size, is_raw);
	if (!t->p)
		return false;
	t->bytes = size;
	work.bytes += size;
	work.count++;
	work.allocs++;
	KEEP_FRAME();
	return true;
}

static FRAME void end(struct tensor *t, unsigned int way)
{
	void (*const ways[])(void *) = { c10.c10_delete_tensor, c10.c10_raw_delete, c10.c10_free };

	ways[way % 3](t->p);
	work.bytes -= t->bytes;
	work.count--;
	work.frees++;
	t->p = NULL;
	KEEP_FRAME();
}

static void say(const char *label)
{
	struct c10_stats s;

	c10.c10_stats(&s);
	printf("{\"label\":\"tensors-%s\",\"framework_bytes\":%" PRIu64 ",\"framework_live_count\":%" PRIu64
	       ",\"framework_alloc_count\":%" PRIu64 ",\"framework_free_count\":%" PRIu64 ",\"throws\":%" PRIu64
	       ",\"stand_in_agrees\":%s}\n",
	       label, work.bytes, work.count, work.allocs, work.frees, s.throws,
	       s.tensor_bytes == work.bytes && s.tensor_count == work.count ? "true" : "false");
	if (ledger_print(&work.driver, label, NULL))
		exit(3);
	wait_line();
}

static void random_op(uint64_t *state)
{
	struct tensor *t = &work.list[random_next(state) % TENSORS];
	const int device = work.driver.device_count > 1 ? (int)(random_next(state) & 1) : 0;

	if (random_next(state) % 200 == 0)
		c10.c10_empty_cache();
	if (t->p)
		end(t, (unsigned int)random_next(state));
	else if (!make(t, device, random_size(state, 23), random_next(state) & 1))
		die("out of memory");
	look();
}

static void random_work(void)
{
	uint64_t state = seed;

	for (uint64_t i = 0; i < ops; i++) {
		random_op(&state);
		if (i == ops / 2)
			say("half");
	}
	say("end");
}

static FRAME void hold(void)
{
	for (uint64_t i = 0; i < blocks && i < TENSORS; i++)
		if (!make(&work.list[i], 0, bytes, false))
			die("out of memory");
	say("hold");
	KEEP_FRAME();
}

static FRAME void deeper(int levels, void (*what)(int), int with)
{
	volatile char room[512];

	room[0] = 1;
	if (levels)
		deeper(levels - 1, what, with);
	else
		what(with);
	(void)room[0];
	KEEP_FRAME();
}

static void make_nth(int n)
{
	if (!make(&work.list[n], 0, bytes, n & 1))
		die("out of memory");
}

static void end_nth(int n)
{
	end(&work.list[n], (unsigned int)n);
}

static void make_too_large(int is_raw)
{
	struct tensor t;

	if (make(&t, 0, 1ull << 40, is_raw))
		die("more memory than there is");
}

/* Each call that was left by an exception is followed by one from below it, which is no part of it, or from above. */
static void run_short(void)
{
	deeper(1, make_nth, 0);
	deeper(4, make_too_large, 0);
	deeper(8, make_nth, 2);
	deeper(4, make_too_large, 0);
	deeper(8, end_nth, 0);
	deeper(4, make_too_large, 1);
	deeper(8, make_nth, 3);
	deeper(4, make_too_large, 0);
	deeper(1, make_nth, 4);
	say("short");
}

static void load(void)
{
	void *lib = dlopen("libc10_cuda.so", RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		die("%s", dlerror());
#define X(name)                                                                                                        \
	*(void **)&c10.name = dlsym(lib, #name);                                                                       \
	if (!c10.name)                                                                                                 \
		die("no " #name);
	C10_CALLS(X)
#undef X
	printf("{\"label\":\"loaded\",\"pid\":%d}\n", (int)getpid());
	wait_line();
}

int main(int argc, char **argv)
{
	const struct option_spec specs[] = { { "--seed", OPTION_NUMBER, &seed },
					     { "--ops", OPTION_NUMBER, &ops },
					     { "--blocks", OPTION_NUMBER, &blocks },
					     { "--bytes", OPTION_NUMBER, &bytes },
					     { 0 } };

	if (options_parse(argc, argv, specs) != 1)
		die("work_tensor random|hold|short");
	common_start();
	gpu_open(&work.driver);
	load();
	if (!strcmp(argv[1], "random"))
		random_work();
	else if (!strcmp(argv[1], "hold"))
		hold();
	else if (!strcmp(argv[1], "short"))
		run_short();
	else
		die("work_tensor random|hold|short");
	return 0;
}
