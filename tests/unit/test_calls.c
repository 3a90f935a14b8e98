/* SPDX-License-Identifier: MIT */
/* The call table as a whole: no row can be wrong in itself, and a real driver's memory functions are all accounted for. */
#include <errno.h>

#include "base/cleanup.h"
#include "test.h"
#include "trace/calls.h"

/* Exports of libcuda.so 580, sorted. */
#define SYMBOLS "tests/traces/h200-driver-580/libcuda.symbols"

/* Rows for functions that older or newer drivers have and this one not. */
static const char *const other_drivers[] = { NULL };

static const char *const prefixes[] = { [API_CUDA] = "cu", [API_HIP] = "hip", [API_ZE] = "ze" };

static struct user_call user_calls[CALL_MAX];

/* Each test needs the table; making it again makes it the same. */
static const struct call *row_at(size_t i)
{
	if (!calls_len() && calls_init(NULL, 0))
		abort();
	return call_get((unsigned int)i);
}

/* Prints the name of the row that is not as it should be. */
static bool good(const struct call *c, bool holds, const char *what)
{
	if (!holds)
		printf("# %s: %s\n", c->symbol, what);
	return holds;
}
#define ROW(cond) EXPECT(good(c, cond, #cond))
#define FOR_ROWS(c)                                                                                                    \
	size_t i_ = 0;                                                                                                 \
	for (const struct call *c; (c = row_at(i_)); i_++)

static bool is_context_op(unsigned int op)
{
	return (op >= CALL_CTX_CREATE && op <= CALL_GREEN_CTX) || op == CALL_DEVICE_SET || op == CALL_DEVICE_RESET;
}

TEST(names_are_of_their_library_and_once)
{
	FOR_ROWS(c)
	{
		size_t n;

		ASSERT(c->api < API_USER);
		n = strlen(prefixes[c->api]);
		ROW(strncmp(c->symbol, prefixes[c->api], n) == 0 && c->symbol[n] >= 'A' && c->symbol[n] <= 'Z');
		EXPECT_EQ(call_find(c->api, c->symbol), i_); /* of two the first is found */
		EXPECT_STR(call_symbol((unsigned int)i_), c->symbol);
		EXPECT_EQ(call_takes_stack((unsigned int)i_), !!(c->desc.flags & CALL_F_STACK));
		EXPECT(!call_user((unsigned int)i_));
	}
	EXPECT(calls_len() > 150);
}

/* Compiled for a default stream of each thread. */
static bool is_per_thread(const char *symbol)
{
	const char *end = strrchr(symbol, '_');

	return end && (strcmp(end, "_ptsz") == 0 || strcmp(end, "_spt") == 0);
}

TEST(numbers_are_in_range)
{
	FOR_ROWS(c)
	{
		const struct call_desc *d = &c->desc;
		bool uses_stack;

		ROW(d->op > CALL_NONE && d->op <= CALL_GRAPH_DESTROY);
		ROW(d->class < CLASS_FRAMEWORK && d->kind < ADDR_FRAMEWORK);
		ROW(d->size_how <= SIZE_PRODUCT && d->device_how <= DEVICE_NONE);
		ROW(d->result == RESULT_ZERO && d->slot == 0);
		ROW(!(d->flags & CALL_F_PTSZ) == !is_per_thread(c->symbol));
		ROW(d->addr_arg < ARG_MAX && d->size_arg < ARG_MAX && d->device_arg < ARG_STACK);
		ROW(d->stream_arg == ARG_NONE || d->stream_arg < ARG_STACK);
		uses_stack = d->addr_arg >= ARG_STACK || d->size_arg >= ARG_STACK;
		ROW(uses_stack == !!(d->flags & CALL_F_ARGS));
		for (size_t i = 0; i < sizeof(d->pad); i++)
			ROW(d->pad[i] == 0);
	}
}

TEST(what_is_passed_by_value_fits)
{
	FOR_ROWS(c)
	{
		const struct call_desc *d = &c->desc;

		if (d->size_how == SIZE_PITCHED || d->size_how == SIZE_CHANNEL3D || d->size_how == SIZE_CHANNEL_MIPMAP)
			ROW(d->size_arg >= ARG_STACK && d->size_arg + 3 <= ARG_MAX);
		else if (d->size_how == SIZE_EXPORTED && d->size_arg >= ARG_STACK)
			ROW(d->size_arg + 8 <= ARG_MAX);
		else
			ROW(d->size_arg < ARG_STACK);
	}
}

TEST(allocations)
{
	FOR_ROWS(c)
	{
		const struct call_desc *d = &c->desc;
		bool is_own = d->class != CLASS_IMPORTED;

		if (d->op != CALL_ALLOC)
			continue;
		ROW(is_own == !!(d->flags & CALL_F_STACK)); /* the importer's stack explains nothing */
		ROW(!is_own || (d->size_how != SIZE_NONE && d->size_how != SIZE_EXPORTED));
		ROW((d->class == CLASS_PHYSICAL) <= (d->kind == ADDR_HANDLE));
		ROW((d->class == CLASS_ARRAY) <= (d->kind == ADDR_OBJECT));
		ROW(!is_own || d->kind == ADDR_POINTER || d->class == CLASS_PHYSICAL || d->class == CLASS_ARRAY);
		ROW((d->class == CLASS_ASYNC) == (d->stream_arg != ARG_NONE));
		ROW(!!(d->flags & CALL_F_ADDR_VALUE) == !!strstr(c->symbol, "Register"));
		ROW(!!(d->flags & CALL_F_SHARED) == !!strstr(c->symbol, "OpenIpc") + !!strstr(c->symbol, "IpcOpenMem"));
		ROW(!(d->flags & CALL_F_ADDR32) || d->flags & CALL_F_SIZE32);
		ROW(d->device_how != DEVICE_PROP || d->device_arg == 2);
		ROW(d->device_how != DEVICE_LOCATION && d->device_how != DEVICE_ARG);
		ROW(c->how == 0);
	}
}

TEST(frees)
{
	FOR_ROWS(c)
	{
		const struct call_desc *d = &c->desc;

		if (d->op != CALL_FREE)
			continue;
		ROW(d->size_how == SIZE_NONE && d->size_arg == 0);
		ROW(!(d->flags & ~(CALL_F_ADDR32 | CALL_F_PTSZ)));
		ROW((d->class == CLASS_ASYNC) == (d->stream_arg != ARG_NONE));
		ROW(c->how == 0); /* whether it was refused is known at its return */
		ROW(d->addr_arg == 0 || c->api == API_ZE);
	}
}

/* An address that nothing takes back would stay for ever. */
TEST(what_is_allocated_can_be_freed)
{
	FOR_ROWS(c)
	{
		bool is_freed = false;

		if (c->desc.op != CALL_ALLOC)
			continue;
		for (size_t j = 0; j < calls_len() && !is_freed; j++) {
			const struct call *f = call_get((unsigned int)j);

			is_freed = f->api == c->api && f->desc.op == CALL_FREE && f->desc.kind == c->desc.kind;
		}
		ROW(is_freed);
	}
}

TEST(other_calls)
{
	FOR_ROWS(c)
	{
		const struct call_desc *d = &c->desc;
		bool takes_stack = d->op == CALL_GRAPH_ALLOC || d->op == CALL_GRAPH_NODE;
		bool is_told = d->device_how == DEVICE_ARG || d->device_how == DEVICE_LOCATION;
		bool teaches = d->op == CALL_CTX_GET || d->op == CALL_CTX_DEVICE || d->op == CALL_CTX_DEVICE_OF;

		if (d->op == CALL_ALLOC || d->op == CALL_FREE)
			continue;
		ROW(d->size_how == SIZE_NONE && d->class == 0);
		ROW(takes_stack == !!(d->flags & CALL_F_STACK));
		ROW(!(d->flags & ~(CALL_F_STACK | CALL_F_DEVICE0 | CALL_F_PTSZ)));
		ROW(d->kind == 0 || d->op == CALL_MULTICAST_BIND);
		ROW((d->op == CALL_CTX_CREATE) <= (d->device_arg >= 2));
		ROW(d->op != CALL_POOL_CREATE || (d->device_how == DEVICE_PROP && d->device_arg == 1));
		if (d->op == CALL_POOL_DEFAULT || d->op == CALL_POOL_GET)
			ROW(is_told && d->device_arg == 1);
		if (d->op == CALL_POOL_CURRENT)
			ROW(is_told && d->addr_arg > d->device_arg);
		ROW(d->op != CALL_GRAPH_NODE || d->addr_arg >= 4);
		ROW((c->how == CALL_TEACHER) == teaches);
		/* nothing else does without its result */
		ROW(c->how != CALL_ENTRY_ONLY || d->op == CALL_UNMAP || d->op == CALL_MULTICAST_UNBIND ||
		    d->op == CALL_GRAPH_DESTROY || d->op == CALL_POOL_DESTROY);
	}
}

TEST(only_hip_has_a_device_before_one_is_chosen)
{
	FOR_ROWS(c)
	{
		const struct call_desc *d = &c->desc;
		bool asks_current = d->op == CALL_ALLOC && d->device_how == DEVICE_CURRENT;

		if (c->api != API_HIP)
			ROW(!(d->flags & CALL_F_DEVICE0));
		else if (asks_current || d->op == CALL_DEVICE_RESET)
			ROW(d->flags & CALL_F_DEVICE0);
		if (c->api == API_ZE)
			ROW(!is_context_op(d->op) && (d->op == CALL_FREE || d->device_how == DEVICE_NONE));
		/* In HIP a context's end ends no memory. */
		if (c->api == API_HIP)
			ROW(d->op != CALL_CTX_DESTROY && d->op != CALL_PRIMARY_RELEASE && d->op != CALL_PRIMARY_RESET);
	}
}

/* Where arguments lie, written down once more from the references: class, then address, bytes and device. */
TEST(signatures)
{
	static const struct {
		enum call_api api;
		const char *symbol;
		unsigned int class, addr_arg, size_how, size_arg, device_how;
	} known[] = {
		{ API_CUDA, "cuMemAlloc_v2", CLASS_DEVICE, 0, SIZE_ARG, 1, DEVICE_CURRENT },
		{ API_CUDA, "cuMemHostRegister_v2", CLASS_HOST, 0, SIZE_ARG, 1, DEVICE_CURRENT },
		{ API_CUDA, "cuMemCreate", CLASS_PHYSICAL, 0, SIZE_ARG, 1, DEVICE_PROP },
		{ API_CUDA, "cuMemAllocFromPoolAsync", CLASS_ASYNC, 0, SIZE_ARG, 1, DEVICE_POOL },
		{ API_CUDA, "cuMipmappedArrayCreate", CLASS_ARRAY, 0, SIZE_MIPMAP, 1, DEVICE_CURRENT },
		{ API_HIP, "hipMalloc", CLASS_DEVICE, 0, SIZE_ARG, 1, DEVICE_CURRENT },
		{ API_HIP, "hipMallocPitch", CLASS_DEVICE, 0, SIZE_PITCH, 1, DEVICE_CURRENT },
		{ API_HIP, "hipMallocManaged", CLASS_MANAGED, 0, SIZE_ARG, 1, DEVICE_CURRENT },
		{ API_HIP, "hipHostMalloc", CLASS_HOST, 0, SIZE_ARG, 1, DEVICE_CURRENT },
		{ API_HIP, "hipMallocArray", CLASS_ARRAY, 0, SIZE_CHANNEL, 2, DEVICE_CURRENT },
		{ API_HIP, "hipArray3DCreate", CLASS_ARRAY, 0, SIZE_ARRAY3D, 1, DEVICE_CURRENT },
		{ API_HIP, "hipMallocFromPoolAsync", CLASS_ASYNC, 0, SIZE_ARG, 1, DEVICE_POOL },
		{ API_HIP, "hipMemCreate", CLASS_PHYSICAL, 0, SIZE_ARG, 1, DEVICE_PROP },
		{ API_HIP, "hipImportExternalMemory", CLASS_IMPORTED, 0, SIZE_EXTERNAL, 1, DEVICE_CURRENT },
		{ API_ZE, "zeMemAllocDevice", CLASS_DEVICE, 5, SIZE_ARG, 2, DEVICE_NONE },
		{ API_ZE, "zeMemAllocHost", CLASS_HOST, 4, SIZE_ARG, 2, DEVICE_NONE },
		{ API_ZE, "zePhysicalMemCreate", CLASS_PHYSICAL, 3, SIZE_EXTERNAL, 2, DEVICE_NONE },
		{ API_ZE, "zeMemFree", CLASS_DEVICE, 1, SIZE_NONE, 0, DEVICE_CURRENT },
		{ API_ZE, "zeMemFreeExt", CLASS_DEVICE, 2, SIZE_NONE, 0, DEVICE_CURRENT },
#if defined(__x86_64__)
		{ API_HIP, "hipMalloc3D", CLASS_DEVICE, 0, SIZE_PITCHED, ARG_STACK, DEVICE_CURRENT },
		{ API_HIP, "hipMalloc3DArray", CLASS_ARRAY, 0, SIZE_CHANNEL3D, ARG_STACK, DEVICE_CURRENT },
		{ API_HIP, "hipMallocMipmappedArray", CLASS_ARRAY, 0, SIZE_CHANNEL_MIPMAP, ARG_STACK, DEVICE_CURRENT },
		{ API_HIP, "hipIpcOpenMemHandle", CLASS_IMPORTED, 0, SIZE_EXPORTED, ARG_STACK, DEVICE_CURRENT },
		{ API_ZE, "zeMemAllocShared", CLASS_MANAGED, ARG_STACK, SIZE_ARG, 3, DEVICE_NONE },
		{ API_ZE, "zeMemOpenIpcHandle", CLASS_IMPORTED, 3, SIZE_NONE, 0, DEVICE_NONE },
#endif
	};

	(void)row_at(0);
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		int row = call_find(known[i].api, known[i].symbol);
		const struct call *c = row < 0 ? NULL : call_get((unsigned int)row);

		if (!c)
			printf("# %s is not there\n", known[i].symbol);
		ASSERT(c);
		ROW(c->desc.class == known[i].class && c->desc.addr_arg == known[i].addr_arg);
		ROW(c->desc.size_how == known[i].size_how && c->desc.size_arg == known[i].size_arg);
		ROW(c->desc.device_how == known[i].device_how);
	}
}

static bool is_ignored(const char *symbol)
{
	for (const struct call_ignored *g = cuda_ignored; g->symbol; g++)
		if (strcmp(g->symbol, symbol) == 0)
			return true;
	return false;
}

struct symbols {
	char *text;
	char *names[4096];
	size_t len;
};

static bool symbols_read(struct symbols *s)
{
	_cleanup_fclose_ FILE *f = fopen(SYMBOLS, "re");
	size_t n;

	s->text = calloc(1, 1 << 20);
	if (!f || !s->text)
		return false;
	n = fread(s->text, 1, (1 << 20) - 1, f);
	s->text[n] = '\0';
	for (char *save = NULL, *p = strtok_r(s->text, "\n", &save); p; p = strtok_r(NULL, "\n", &save))
		if (s->len < ARRAY_SIZE(s->names))
			s->names[s->len++] = p;
	return s->len > 500;
}

static bool symbols_have(const struct symbols *s, const char *symbol)
{
	for (size_t i = 0; i < s->len; i++)
		if (strcmp(s->names[i], symbol) == 0)
			return true;
	for (const char *const *o = other_drivers; *o; o++)
		if (strcmp(*o, symbol) == 0)
			return true;
	return false;
}

TEST(every_memory_function_of_a_driver_is_accounted_for)
{
	struct symbols s = { .len = 0 };
	size_t n = 0;
	bool is_read = symbols_read(&s);

	EXPECT(is_read);
	(void)row_at(0);
	for (size_t i = 0; is_read && i < s.len; i++) {
		bool is_row = call_find(API_CUDA, s.names[i]) >= 0;

		if (is_row && is_ignored(s.names[i]))
			printf("# %s is a row and ignored\n", s.names[i]);
		EXPECT(!(is_row && is_ignored(s.names[i])));
		if (!call_name_is_memory(API_CUDA, s.names[i]))
			continue;
		n++;
		if (!is_row && !is_ignored(s.names[i]))
			printf("# %s is neither a row nor ignored\n", s.names[i]);
		EXPECT(is_row || is_ignored(s.names[i]));
	}
	EXPECT(n > 100);
	free(s.text);
}

TEST(rows_and_ignored_names_are_the_drivers)
{
	struct symbols s = { .len = 0 };
	bool is_read = symbols_read(&s);

	EXPECT(is_read);
	for (const struct call *c = cuda_calls; is_read && c->symbol; c++)
		ROW(symbols_have(&s, c->symbol));
	for (const struct call_ignored *g = cuda_ignored; is_read && g->symbol; g++) {
		if (!symbols_have(&s, g->symbol) || !g->reason)
			printf("# ignored: %s\n", g->symbol);
		EXPECT(symbols_have(&s, g->symbol) && g->reason);
		EXPECT(call_find(API_HIP, g->symbol) < 0);
	}
	for (const char *const *o = other_drivers; *o; o++)
		EXPECT(call_find(API_CUDA, *o) >= 0);
	free(s.text);
}

TEST(names_that_are_no_memory)
{
	EXPECT(!call_name_is_memory(API_CUDA, "cuMemcpyHtoD_v2"));
	EXPECT(!call_name_is_memory(API_CUDA, "cuMemsetD8_v2"));
	EXPECT(!call_name_is_memory(API_CUDA, "cuLaunchKernel"));
	EXPECT(!call_name_is_memory(API_USER, "cuMemAlloc_v2"));
	EXPECT(call_name_is_memory(API_CUDA, "cuMemAlloc_v9"));
}

TEST(libraries_are_known_by_their_names)
{
	static const struct {
		const char *path;
		enum call_api api;
	} files[] = {
		{ "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04", API_CUDA },
		{ "/opt/rocm-7.1.0/lib/libamdhip64.so.7.1.70100", API_HIP },
		{ "libamdhip64.so", API_HIP },
		{ "/opt/rocm/lib/libamdhip64.so.6 (deleted)", API_HIP },
		{ "/usr/lib/libze_loader.so.1", API_ZE },
		{ "/usr/lib/libze_loader.so.1.24.1", API_ZE },
		{ "/usr/lib/libcudart.so.13", API_MAX },
		{ "/usr/lib/libze_intel_gpu.so.1", API_MAX },
		{ "/usr/lib/libamdhip64.sonnet", API_MAX },
		{ "/libamdhip64.so/other", API_MAX },
		{ "", API_MAX },
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		EXPECT_EQ(call_api_of_file(files[i].path), files[i].api);
}

static void user_rows(void)
{
	for (size_t i = 0; i < CALL_MAX; i++)
		user_calls[i] = (struct user_call){
			.library = (char *)"libx.so", .symbol = (char *)"x_alloc",
			.desc = { .op = CALL_ALLOC, .class = CLASS_FRAMEWORK, .kind = ADDR_FRAMEWORK, .slot = 1 },
		};
}

TEST(user_rows_come_last_and_there_is_a_limit)
{
	size_t n;

	EXPECT_EQ(calls_init(NULL, 0), 0);
	n = calls_len();
	ASSERT(n < CALL_MAX);
	user_rows();
	EXPECT_EQ(calls_init(user_calls, CALL_MAX - n), 0);
	EXPECT_EQ(calls_len(), CALL_MAX);
	EXPECT(call_user((unsigned int)n - 1) == NULL);
	EXPECT(call_user((unsigned int)n) == &user_calls[0]);
	EXPECT(call_user(CALL_MAX - 1) == &user_calls[CALL_MAX - 1 - n]);
	EXPECT(!call_user(CALL_MAX) && !call_get(CALL_MAX) && !call_symbol(CALL_MAX) && !call_takes_stack(CALL_MAX));
	EXPECT_EQ(call_get((unsigned int)n)->api, API_USER);
	EXPECT_EQ(call_find(API_USER, "x_alloc"), -1); /* not by its name: that is a pattern */
	EXPECT_EQ(call_find(API_HIP, "cuMemAlloc_v2"), -1);
	EXPECT_EQ(calls_init(user_calls, CALL_MAX - n + 1), -E2BIG);
	EXPECT_EQ(calls_len(), CALL_MAX); /* what was there stays */
	EXPECT_EQ(calls_init(NULL, 0), 0);
	EXPECT_EQ(calls_len(), n);
}

TEST(the_digest_tells_tables_apart)
{
	uint64_t bare, one;

	EXPECT_EQ(calls_init(NULL, 0), 0);
	bare = calls_digest();
	user_rows();
	EXPECT_EQ(calls_init(user_calls, 1), 0);
	one = calls_digest();
	EXPECT(one != bare);
	EXPECT(calls_digest() == one);
	user_calls[0].library = (char *)"liby.so";
	EXPECT(calls_digest() != one);
	user_rows();
	user_calls[0].desc.size_arg = 1;
	EXPECT_EQ(calls_init(user_calls, 1), 0);
	EXPECT(calls_digest() != one);
	EXPECT_EQ(calls_init(NULL, 0), 0);
	EXPECT(calls_digest() == bare);
}

TEST_MAIN()
