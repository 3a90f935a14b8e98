/* SPDX-License-Identifier: MIT */
#include "trace/calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Made once by calls_init(), read by every thread afterwards. */
static struct call *table;
static size_t table_len, builtin_len;
static const struct user_call *user_rows;

static size_t count(const struct call *list)
{
	size_t n = 0;

	while (list[n].symbol)
		n++;
	return n;
}

static bool ends(const char *s, const char *with)
{
	size_t len = strlen(s), n = strlen(with);

	return len >= n && strcmp(s + len - n, with) == 0;
}

static void append(const struct call *list, enum call_api api)
{
	for (; list->symbol; list++) {
		table[table_len] = *list;
		if (ends(list->symbol, "_ptsz") || ends(list->symbol, "_spt"))
			table[table_len].desc.flags |= CALL_F_PTSZ;
		table[table_len++].api = api;
	}
}

/* A free that cannot fail is booked when it begins. */
static unsigned int user_how(const struct call_desc *d)
{
	return d->op == CALL_FREE && d->result == RESULT_NONE ? CALL_ENTRY_ONLY : 0;
}

int calls_init(const struct user_call *user, size_t user_len)
{
	size_t n = count(cuda_calls) + count(hip_calls) + count(ze_calls);
	struct call *fresh;

	if (n + user_len > CALL_MAX)
		return -E2BIG;
	fresh = calloc(n + user_len, sizeof(*fresh));
	if (!fresh)
		return -ENOMEM;
	free(table);
	table = fresh;
	table_len = 0;
	append(cuda_calls, API_CUDA);
	append(hip_calls, API_HIP);
	append(ze_calls, API_ZE);
	builtin_len = table_len;
	user_rows = user;
	for (size_t i = 0; i < user_len; i++)
		table[table_len++] = (struct call){ .symbol = user[i].symbol, .desc = user[i].desc,
						    .how = user_how(&user[i].desc), .api = API_USER };
	return 0;
}

size_t calls_len(void)
{
	return table_len;
}

const struct call *call_get(unsigned int row)
{
	return row < table_len ? &table[row] : NULL;
}

const struct user_call *call_user(unsigned int row)
{
	return row >= builtin_len && row < table_len ? &user_rows[row - builtin_len] : NULL;
}

int call_find(enum call_api api, const char *symbol)
{
	for (size_t i = 0; i < builtin_len; i++)
		if (table[i].api == api && strcmp(table[i].symbol, symbol) == 0)
			return (int)i;
	return -1;
}

const char *call_symbol(unsigned int row)
{
	return row < table_len ? table[row].symbol : NULL;
}

bool call_takes_stack(unsigned int row)
{
	return row < table_len && table[row].desc.flags & CALL_F_STACK;
}

/* "libcuda.so", "libcuda.so.1", "libcuda.so.580.159.04 (deleted)", and not "libcuda.sonnet". */
static bool is_library(const char *base, const char *name)
{
	size_t len = strlen(name);

	if (strncmp(base, name, len) != 0)
		return false;
	return base[len] == '\0' || base[len] == '.' || base[len] == ' ';
}

enum call_api call_api_of_file(const char *path)
{
	const char *base = strrchr(path, '/');

	base = base ? base + 1 : path;
	if (is_library(base, "libcuda.so"))
		return API_CUDA;
	if (is_library(base, "libamdhip64.so"))
		return API_HIP;
	if (is_library(base, "libze_loader.so"))
		return API_ZE;
	return API_MAX;
}

static bool starts(const char *s, const char *const *prefixes)
{
	for (; *prefixes; prefixes++)
		if (strncmp(s, *prefixes, strlen(*prefixes)) == 0)
			return true;
	return false;
}

bool call_name_is_memory(enum call_api api, const char *symbol)
{
	static const char *const cuda[] = { "cuMem", "cuArray", "cuMipmapped", "cuIpc", "cuMulticast", "cuExternalMemory",
					    "cuImportExternalMemory", "cuDestroyExternalMemory", "cuGraphAddMem",
					    "cuDeviceGraphMem", "cuDevicePrimaryCtx", "cuCtxCreate", "cuCtxDestroy",
					    "cuGreenCtxCreate", "cuGreenCtxDestroy", NULL };
	static const char *const not_cuda[] = { "cuMemcpy", "cuMemset", NULL };

	return api == API_CUDA && starts(symbol, cuda) && !starts(symbol, not_cuda);
}

static uint64_t hash(uint64_t h, const void *data, size_t len)
{
	const unsigned char *p = data;

	/* FNV-1a */
	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	return h;
}

uint64_t calls_digest(void)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < table_len; i++) {
		const struct user_call *u = call_user((unsigned int)i);

		h = hash(h, table[i].symbol, strlen(table[i].symbol) + 1);
		h = hash(h, &table[i].desc, sizeof(table[i].desc));
		if (u)
			h = hash(h, u->library, strlen(u->library) + 1);
	}
	return h;
}
