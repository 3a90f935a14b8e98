/* SPDX-License-Identifier: MIT */
/* Stories out of records written by hand: say() one after the other, then told(). */
#pragma once

#include <stdarg.h>

#include "base/clock.h"
#include "history/story.h"

#define MACHINE "0123456789abcdef0123456789abcdef"
#define BOOT "aaaabbbbccccddddaaaabbbbccccdddd"
#define FROM (UINT64_C(1800000000) * USEC_PER_SEC)
#define HOUR 3600
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* Seconds from the beginning of the stretch, which may lie before it. */
#define AT(sec) (FROM + (uint64_t)(int64_t)((double)(sec) * 1e6))

#define END ((const char *)NULL)

static inline void entry_set(struct entry *e, const char *line)
{
	static char names[64][96];
	static unsigned turn;
	const char *value;
	size_t len;
	int f = entry_field_from_data(line, strlen(line), &value, &len);

	/* "PID=7" is short for "GPUXRAY_PID=7". */
	if (f < 0) {
		char *name = names[turn++ % ARRAY_SIZE(names)];

		snprintf(name, sizeof(names[0]), "GPUXRAY_%.*s=", (int)strcspn(line, "="), line);
		f = entry_field_from_data(name, strlen(name), &value, &len);
		value = strchr(line, '=') + 1;
		len = strlen(value);
	}
	if (f < 0) {
		printf("Bail out! no field for %s\n", line);
		exit(1);
	}
	e->field[f].data = value;
	e->field[f].len = len;
}

/* Fields as "NAME=value", END after the last; a later one replaces an earlier one. */
static inline void say(struct story_builder *b, double sec, const char *event, ...)
{
	struct entry e = { .real_usec = AT(sec) };
	char event_line[64];
	const char *line;
	va_list ap;

	snprintf(event_line, sizeof(event_line), "EVENT=%s", event);
	entry_set(&e, "_HOSTNAME=gpu01");
	entry_set(&e, "_MACHINE_ID=" MACHINE);
	entry_set(&e, "_BOOT_ID=" BOOT);
	entry_set(&e, "_PID=811");
	entry_set(&e, event_line);
	va_start(ap, event);
	while ((line = va_arg(ap, const char *)))
		entry_set(&e, line);
	va_end(ap);
	if (story_add(b, &e) != 0) {
		printf("Bail out! cannot add\n");
		exit(1);
	}
}

/* Text for one field, good until some 200 more were made. */
static inline const char *fmt(const char *format, ...) _printf_(1, 2);
static inline const char *fmt(const char *format, ...)
{
	static char texts[256][200];
	static unsigned turn;
	char *text = texts[turn++ % ARRAY_SIZE(texts)];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(texts[0]), format, ap);
	va_end(ap);
	return text;
}

/* A sample of a process on GPU-a, in MiB: low, high and live. */
static inline void sample(struct story_builder *b, double sec, unsigned pid, uint64_t low, uint64_t high, double high_sec,
			  uint64_t live)
{
	say(b, sec, "sample", fmt("PID=%u", pid), "START_TIME=100", "COMM=python3", "DEVICE=GPU-a", "DEVICE_INDEX=0",
	    fmt("BYTES=%" PRIu64, live * MIB), fmt("LOW_BYTES=%" PRIu64, low * MIB), fmt("HIGH_BYTES=%" PRIu64, high * MIB),
	    fmt("HIGH_TIME_USEC=%" PRIu64, AT(high_sec)), END);
}

/* ... that held as much all the time since the one before. */
static inline void flat(struct story_builder *b, double sec, unsigned pid, uint64_t live)
{
	sample(b, sec, pid, live, live, sec, live);
}

/* A stretch of hours. */
static inline struct story_builder *stretch_of(double hours, uint32_t pid, const char *unit)
{
	struct story_options o = { .from_usec = FROM, .until_usec = AT(hours * HOUR), .pid = pid, .unit = unit };
	struct story_builder *b = NULL;

	if (story_builder_new(&o, &b) != 0) {
		printf("Bail out! no memory\n");
		exit(1);
	}
	return b;
}

static inline struct story_builder *stretch(void)
{
	return stretch_of(1, 0, NULL);
}

/* The story until the given second; the builder is freed. */
static inline struct story *told(struct story_builder *b, double now_sec)
{
	struct story *s = NULL;

	if (story_finish(b, AT(now_sec), &s) != 0) {
		printf("Bail out! cannot finish\n");
		exit(1);
	}
	story_builder_free(b);
	return s;
}

#define _cleanup_story_ _cleanup_(story_freep)
