/* SPDX-License-Identifier: MIT */
/* What the workloads share. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

struct common_options common;

static const struct option_spec common_specs[] = {
	{ "--wait-start", OPTION_FLAG, &common.wait_start },
	{ "--wait-end", OPTION_FLAG, &common.wait_end },
	{ "--ledger", OPTION_FLAG, &common.ledger },
	{ "--name", OPTION_TEXT, &common.name },
	{ 0 },
};

static const char *const class_names[CLASS_MAX] = {
	[CLASS_DEVICE] = "device", [CLASS_MANAGED] = "managed",	  [CLASS_HOST] = "host",   [CLASS_ARRAY] = "array",
	[CLASS_PHYSICAL] = "physical", [CLASS_ASYNC] = "async", [CLASS_GRAPH] = "graph", [CLASS_IMPORTED] = "imported",
	[CLASS_FRAMEWORK] = "framework",
};

void die(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(2);
}

static uint64_t number_parse(const char *name, const char *text)
{
	static const struct {
		const char *suffix;
		unsigned int shift;
	} units[] = { { "", 0 }, { "KiB", 10 }, { "MiB", 20 }, { "GiB", 30 }, { "TiB", 40 } };
	char *end;
	uint64_t v = strtoull(text, &end, 0);

	for (size_t i = 0; end != text && i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(end, units[i].suffix))
			return v << units[i].shift;
	die("%s: not a number: %s", name, text);
}

static const struct option_spec *option_find(const struct option_spec *specs, const char *arg, size_t len)
{
	for (; specs && specs->name; specs++)
		if (strlen(specs->name) == len && !memcmp(specs->name, arg, len))
			return specs;
	return NULL;
}

int options_parse(int argc, char **argv, const struct option_spec *specs)
{
	int words = 1;

	while (words < argc && strncmp(argv[words], "--", 2))
		words++;
	for (int i = words; i < argc; i++) {
		size_t len = strcspn(argv[i], "=");
		const char *value = argv[i][len] ? argv[i] + len + 1 : NULL;
		const struct option_spec *o = option_find(specs, argv[i], len);

		if (!o)
			o = option_find(common_specs, argv[i], len);
		if (!o)
			die("unknown option: %s", argv[i]);
		if (o->kind == OPTION_FLAG) {
			*(bool *)o->value = true;
			continue;
		}
		if (!value && ++i == argc)
			die("%s: needs a value", o->name);
		if (!value)
			value = argv[i];
		if (o->kind == OPTION_NUMBER)
			*(uint64_t *)o->value = number_parse(o->name, value);
		else
			*(const char **)o->value = value;
	}
	return words - 1;
}

void wait_line(void)
{
	char c;

	while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n')
		;
}

void common_start(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (common.name)
		prctl(PR_SET_NAME, common.name);
	if (!common.wait_start)
		return;
	printf("{\"ready\":1,\"pid\":%d}\n", (int)getpid());
	wait_line();
}

uint64_t monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t realtime_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000;
}

uint64_t random_next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dull;
}

uint64_t random_size(uint64_t *state, unsigned int max_order)
{
	uint64_t order = random_next(state) % (max_order + 1);

	return 1 + random_next(state) % (1ull << order);
}

static bool is_device_class(unsigned int class)
{
	return (CLASS_DEVICE_MASK >> class) & 1;
}

uint64_t ledger_device_bytes(const struct ledger *l)
{
	uint64_t sum = 0;

	for (unsigned int c = 0; c < CLASS_MAX; c++)
		if (is_device_class(c))
			sum += l->live_bytes[c];
	return sum;
}

void ledger_alloc(struct ledger *l, unsigned int class, uint64_t bytes, int device)
{
	uint64_t sum;

	l->live_bytes[class] += bytes;
	l->live_count[class]++;
	l->alloc_count++;
	if (!is_device_class(class))
		return;
	l->device_bytes[device] += bytes;
	sum = ledger_device_bytes(l);
	if (sum > l->peak_bytes)
		l->peak_bytes = sum;
}

void ledger_free(struct ledger *l, unsigned int class, uint64_t bytes, int device)
{
	l->live_bytes[class] -= bytes;
	l->live_count[class]--;
	l->free_count++;
	if (is_device_class(class))
		l->device_bytes[device] -= bytes;
}

void ledger_sweep(struct ledger *l, unsigned int class, uint64_t bytes, int device)
{
	ledger_free(l, class, bytes, device);
	l->swept_count++;
}

void ledger_merge(struct ledger *to, const struct ledger *from)
{
	for (int c = 0; c < CLASS_MAX; c++) {
		to->live_bytes[c] += from->live_bytes[c];
		to->live_count[c] += from->live_count[c];
	}
	for (int d = 0; d < FAKE_GPU_MAX; d++)
		to->device_bytes[d] += from->device_bytes[d];
	to->peak_bytes += from->peak_bytes;
	to->alloc_count += from->alloc_count;
	to->fail_count += from->fail_count;
	to->free_count += from->free_count;
	to->swept_count += from->swept_count;
	to->free_fail_count += from->free_fail_count;
	to->null_free_count += from->null_free_count;
}

static uint64_t own_start_ticks(void)
{
	char buf[1024], *p;
	FILE *f = fopen("/proc/self/stat", "re");
	size_t n = f ? fread(buf, 1, sizeof(buf) - 1, f) : 0;

	if (f)
		fclose(f);
	buf[n] = 0;
	p = strrchr(buf, ')');
	for (int field = 2; field < 22 && p; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p, NULL, 10) : 0;
}

static int differs(const char *what, uint64_t ours, uint64_t theirs)
{
	if (ours == theirs)
		return 0;
	fprintf(stderr, "ledger: %s: %" PRIu64 " here, %" PRIu64 " in the stand-in\n", what, ours, theirs);
	return 1;
}

static int ledger_differs(const struct ledger *l, void *library)
{
	void (*totals)(struct fake_gpu_totals *) = NULL;
	struct fake_gpu_totals t;
	int n = 0;

	*(void **)&totals = dlsym(library ? library : RTLD_DEFAULT, "fake_gpu_totals");
	if (!totals) {
		fprintf(stderr, "ledger: no fake_gpu_totals()\n");
		return 1;
	}
	totals(&t);
	for (int c = 0; c < CLASS_MAX; c++) {
		n += differs(class_names[c], l->live_bytes[c], t.live_bytes[c]);
		n += differs("... its blocks", l->live_count[c], t.live_count[c]);
	}
	for (int d = 0; d < FAKE_GPU_MAX; d++)
		n += differs("bytes of a device", l->device_bytes[d], t.device_bytes[d]);
	n += differs("allocations", l->alloc_count, t.alloc_count);
	n += differs("failed allocations", l->fail_count, t.fail_count);
	n += differs("frees", l->free_count, t.free_count);
	n += differs("swept", l->swept_count, t.swept_count);
	n += differs("refused frees", l->free_fail_count, t.free_fail_count);
	return n;
}

int ledger_print(const struct ledger *l, const char *label, void *library)
{
	int n = library == LEDGER_ALONE ? 0 : ledger_differs(l, library);
	uint64_t count = 0;

	for (int c = 0; c < CLASS_MAX; c++)
		count += c == CLASS_FRAMEWORK ? 0 : l->live_count[c];
	printf("{\"label\":\"%s\",\"pid\":%d,\"start_time\":%" PRIu64 ",\"live_bytes\":%" PRIu64
	       ",\"host_bytes\":%" PRIu64 ",\"managed_bytes\":%" PRIu64 ",\"live_count\":%" PRIu64
	       ",\"peak_bytes\":%" PRIu64 ",\"peak_exact\":%s,\"alloc_count\":%" PRIu64 ",\"free_count\":%" PRIu64
	       ",\"swept_count\":%" PRIu64 ",\"fail_count\":%" PRIu64 ",\"free_fail_count\":%" PRIu64
	       ",\"null_free_count\":%" PRIu64 ",\"unknown_free_count\":0,\"classes\":{",
	       label, (int)getpid(), own_start_ticks(), ledger_device_bytes(l), l->live_bytes[CLASS_HOST],
	       l->live_bytes[CLASS_MANAGED], count, l->peak_bytes, l->is_merged ? "false" : "true", l->alloc_count,
	       l->free_count, l->swept_count, l->fail_count, l->free_fail_count, l->null_free_count);
	for (int c = 0; c < CLASS_MAX; c++)
		printf("%s\"%s\":{\"live_bytes\":%" PRIu64 ",\"live_count\":%" PRIu64 "}", c ? "," : "", class_names[c],
		       l->live_bytes[c], l->live_count[c]);
	printf("},\"devices\":[");
	for (int d = 0; d < l->device_count; d++)
		printf("%s{\"ordinal\":%d,\"uuid\":\"%s\",\"live_bytes\":%" PRIu64 "}", d ? "," : "", d, l->uuid[d],
		       l->device_bytes[d]);
	printf("],\"stand_in_agrees\":%s}\n", library == LEDGER_ALONE ? "null" : n ? "false" : "true");
	fflush(stdout);
	return n ? 3 : 0;
}

int common_end(const struct ledger *l, void *library)
{
	int r = common.ledger ? ledger_print(l, "end", library) : 0;

	if (common.wait_end)
		wait_line();
	return r;
}
