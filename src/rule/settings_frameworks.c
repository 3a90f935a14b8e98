/* SPDX-License-Identifier: MIT */
/* Ready rows for frameworks' own allocators, so that nobody need know the names of their functions. */
#include <string.h>

#include "rule/conf.h"
#include "rule/rule_names.h"
#include "rule/settings_calls.h"

/* An allocation: address written at one argument, device and bytes in two others, nothing returned (it throws). */
#define FRAMEWORK_ALLOC(at, device, bytes)                                                                             \
	{                                                                                                              \
		.op = CALL_ALLOC, .class = CLASS_FRAMEWORK, .kind = ADDR_FRAMEWORK, .flags = CALL_F_STACK,             \
		.addr_arg = at, .size_how = SIZE_ARG, .size_arg = bytes, .device_how = DEVICE_ARG,                     \
		.device_arg = device, .stream_arg = ARG_NONE, .result = RESULT_NONE, .slot = 1,                        \
	}
#define FRAMEWORK_FREE(arg)                                                                                            \
	{                                                                                                              \
		.op = CALL_FREE, .class = CLASS_FRAMEWORK, .kind = ADDR_FRAMEWORK, .addr_arg = arg,                    \
		.device_how = DEVICE_NONE, .stream_arg = ARG_NONE, .result = RESULT_NONE, .slot = 1,                   \
	}

struct framework_call {
	const char *library, *symbol;
	struct call_desc desc;
};

#define C10 "libc10_cuda.so*"
#define CACHE "c10::cuda::CUDACachingAllocator::"

/*
 * PyTorch's caching allocator. Functions without the cudaMallocAsync backend, whose blocks the driver's own calls show
 * one by one. The deleter of a tensor's storage has free() within itself in some builds and calls it in others. Types
 * of arguments have changed over the versions, their places have not.
 */
static const struct framework_call pytorch[] = {
	{ C10, CACHE "Native::NativeCachingAllocator::malloc(void**, *", FRAMEWORK_ALLOC(1, 2, 3) },
	{ C10, CACHE "Native::NativeCachingAllocator::free(void*)", FRAMEWORK_FREE(1) },
	{ C10, CACHE "Native::NativeCachingAllocator::raw_delete(void*)", FRAMEWORK_FREE(1) },
	{ C10, CACHE "Native::local_raw_delete(void*)", FRAMEWORK_FREE(0) },
	/* before 2.0 */
	{ C10, CACHE "THCCachingAllocator::malloc(void**, *", FRAMEWORK_ALLOC(1, 2, 3) },
	{ C10, CACHE "THCCachingAllocator::free(void*)", FRAMEWORK_FREE(1) },
};

static const char *const framework_names[] = { "pytorch", NULL };
static const struct {
	const struct framework_call *list;
	size_t len;
} frameworks[] = {
	{ pytorch, ARRAY_SIZE(pytorch) },
};
_Static_assert(ARRAY_SIZE(framework_names) == ARRAY_SIZE(frameworks) + 1, "rows for each name");

static int add_call(const struct framework_call *c, const config_setting_t *at, struct settings *s)
{
	struct user_call u = { .library = (char *)c->library, .symbol = (char *)c->symbol, .desc = c->desc, .is_preset = true };
	int r = conf_source(at, &u.file, &u.line);

	return r < 0 ? r : settings_add_call(s, &u);
}

static int add_framework(struct errors *errors, size_t k, const config_setting_t *at, struct settings *s)
{
	int r = 0;

	if (s->calls_len + frameworks[k].len > USER_CALLS_MAX)
		return conf_error(errors, at, "the %zu calls of %s and those in calls do not fit: %d in all, write fewer of "
				  "your own", frameworks[k].len, framework_names[k], USER_CALLS_MAX);
	for (size_t i = 0; r == 0 && i < frameworks[k].len; i++)
		r = add_call(&frameworks[k].list[i], at, s);
	return r;
}

int settings_frameworks_read(struct errors *errors, const config_setting_t *s, struct settings *settings)
{
	unsigned taken = 0;
	size_t len = 0;
	int r = conf_strings(errors, s, &len);

	for (size_t i = 0; r != -ENOMEM && i < len; i++) {
		const config_setting_t *e;
		const char *text = conf_strings_get(s, i, &e);
		int k = rule_name_find(framework_names, text), q = 0;

		if (k < 0)
			q = conf_unknown(errors, e, "framework", text, framework_names);
		else if (taken & 1u << k)
			q = conf_error(errors, e, "%s is in the list twice: remove one of the two", text);
		else
			q = add_framework(errors, (size_t)k, e, settings);
		taken |= k < 0 ? 0 : 1u << k;
		r = q < 0 ? q : r;
	}
	return r;
}
