/* SPDX-License-Identifier: MIT */
/* The daemon's configuration: refused with a reason, or within the bounds that the daemon relies on. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "rule/match.h"
#include "rule/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__lsan_default_suppressions(void);

/* libconfig forgets the string it is reading when the syntax is wrong; once for each reload of a bad file. */
const char *__lsan_default_suppressions(void)
{
	return "leak:libconfig.so\n";
}

/* The daemon compiles them when it starts. */
static void check_patterns(char *const *list, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		_cleanup_(pattern_freep) struct pattern *p = NULL;
		char error[PATTERN_ERROR_MAX];

		if (!list[i][0] || pattern_new(list[i], error, &p) < 0)
			abort();
	}
}

/* The probes take these as they are. */
static void check_calls(const struct settings *s)
{
	if (s->calls_len > USER_CALLS_MAX)
		abort();
	for (size_t i = 0; i < s->calls_len; i++) {
		const struct user_call *u = &s->calls[i];
		const struct call_desc *d = &u->desc;

		if (!u->library || !u->library[0] || !u->symbol || !u->symbol[0] || !u->file || u->line < 1)
			abort();
		if ((d->op != CALL_ALLOC && d->op != CALL_FREE) || d->addr_arg >= 6 || d->size_arg >= 6 || d->device_arg >= 6)
			abort();
		if (d->size_how == SIZE_PRODUCT && d->size_arg >= 5)
			abort();
		if ((d->class == CLASS_FRAMEWORK) != (d->slot == 1) || d->class >= CLASS_MAX)
			abort();
	}
}

static void check(const struct settings *s)
{
	const struct limits *l = &s->limits;

	if (!s->sink || s->drain_interval_ns == 0 || s->health_interval_ns == 0 || s->nvml_interval_ns == 0)
		abort();
	if (!l->processes || !l->live_allocations || !l->sites_per_process || !l->stacks_per_process || !l->incidents ||
	    !l->queue || !l->records_per_minute || !l->libraries)
		abort();
	if (!l->stacks_per_second || l->learned_stacks < 1024 || l->learned_stacks > 1048576)
		abort();
	if (l->ring_bytes < 4096 || (l->ring_bytes & (l->ring_bytes - 1)))
		abort();
	check_calls(s);
	check_patterns(s->redact, s->redact_len);
	check_patterns(s->allocators, s->allocators_len);
	check_patterns(s->allocators_also, s->allocators_also_len);
	for (size_t i = 0; i < s->rules_len; i++) {
		if (s->rules[i][0] != '/')
			abort();
	}
	for (size_t i = 0; i < s->libraries_len; i++) {
		if (s->libraries[i][0] != '/')
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(settings_done) struct settings s = {};
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	_cleanup_free_ char *text = malloc(size + 1);
	int r;

	if (!text || size > 65536 || settings_init(&s) < 0)
		return 0;
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	r = settings_parse("fuzz", text, &errors, &s);
	if (r == -EINVAL && errors.error_count == 0)
		abort();
	if (r == 0 && errors.error_count > 0)
		abort();
	check(&s);
	return 0;
}
