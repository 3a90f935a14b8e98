/* SPDX-License-Identifier: MIT */
/* Which card a process means: by the uuid that it asked for in our sight, else by its environment and what the drivers
 * list. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cmd/daemon_internal.h"
#include "proc/visible_devices.h"
#include "trace/calls.h"

/* Of a snapshot: processes whose environment is read, 30 us each. */
#define NAMES_MAX 256

void daemon_set_ordinal(struct daemon *d, struct known *k, int ordinal, const char *uuid)
{
	(void)engine_set_ordinal(d->engine, k->pid, k->start_ns, ordinal, uuid);
	daemon_keep_ordinal(d, k->pid, k->start_ns, ordinal, uuid);
	if (ordinal >= -1 && ordinal < 63)
		k->devices_named |= 1ull << (ordinal + 1);
}

static bool is_hip(uint32_t row)
{
	const struct call *call = call_get(row);

	return call && call->api == API_HIP;
}

static void set_uuid(struct daemon *d, struct known *k, int ordinal, const uint8_t *b, uint32_t row)
{
	char text[64], digits[17] = "";

	/* HIP's 16 bytes are digits already, unless the process makes them up. */
	if (is_hip(row) && strspn(memcpy(digits, b, 16), "0123456789abcdefABCDEF") == 16)
		snprintf(text, sizeof(text), "GPU-%s", digits);
	else
		snprintf(text, sizeof(text), "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
			 b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
	daemon_set_ordinal(d, k, ordinal, text);
}

void daemon_uuid(struct daemon *d, struct known *k, const struct event *ev, size_t size)
{
	const struct event_uuid *u = (const void *)ev;

	if (size >= sizeof(*u))
		set_uuid(d, k, ev->device, u->uuid, ev->call);
}

void daemon_recall_uuids(struct daemon *d, struct known *k, uint32_t gen)
{
	struct uuid_value v;

	for (int i = 0; i < 63; i++)
		if (!(k->devices_named & (1ull << (i + 1))) && tracer_uuid(d->tracer, gen, i, &v) == 0)
			set_uuid(d, k, i, v.uuid, v.call);
}

/* A card that the process's API can reach, or an instance of one; a card that is cut into instances is not used itself. */
static bool is_reachable(const struct gpu_snapshot *s, size_t place, bool hip)
{
	const char *driver = s->devices[place].driver;

	if (hip ? strcmp(driver, "amdgpu") != 0 : driver[0] && strcmp(driver, "nvidia") != 0)
		return false;
	for (size_t i = 0; i < s->device_count; i++)
		if (s->devices[i].parent == (int)place)
			return false;
	return true;
}

/* The device a call went to is not known when its context was made current before we came: then it is the only one that
 * the process can reach, or the only one on which the driver lists it. */
static const struct gpu_device *only_device(const struct gpu_snapshot *s, const struct known *k)
{
	const struct gpu_device *found = NULL;
	size_t n = 0;

	for (size_t i = 0; i < s->device_count; i++) {
		if (!is_reachable(s, i, k->is_hip))
			continue;
		found = &s->devices[i];
		n++;
	}
	if (n == 1)
		return found;
	found = NULL;
	for (size_t i = 0; i < s->process_count; i++) {
		const struct gpu_device *g = &s->devices[s->processes[i].device];

		if (s->processes[i].pid != k->pid || !is_reachable(s, s->processes[i].device, k->is_hip))
			continue;
		if (found && found != g)
			return NULL;
		found = g;
	}
	return found;
}

struct environment {
	char *cuda, *hip, *rocr;
};

static void environment_done(struct environment *e)
{
	free(e->cuda);
	free(e->hip);
	free(e->rocr);
}

static void environment_read(uint32_t pid, struct environment *ret)
{
	_cleanup_free_ char *text = NULL;
	char path[64];
	size_t len;

	snprintf(path, sizeof(path), "/proc/%u/environ", pid);
	if (file_read_head(AT_FDCWD, path, 1 << 20, &text, &len) < 0)
		return;
	(void)environ_get(text, len, "CUDA_VISIBLE_DEVICES", &ret->cuda);
	(void)environ_get(text, len, "HIP_VISIBLE_DEVICES", &ret->hip);
	(void)environ_get(text, len, "ROCR_VISIBLE_DEVICES", &ret->rocr);
}

static const struct gpu_device *device_of(struct daemon *d, const struct known *k, const struct environment *e, int ordinal)
{
	struct visible_hip hip = { .rocr = e->rocr, .hip = e->hip, .cuda = e->cuda };

	if (ordinal < 0)
		return only_device(&d->gpus, k);
	return k->is_hip ? visible_device_hip(&hip, &d->gpus, ordinal) : visible_device(e->cuda, &d->gpus, ordinal);
}

static void name_devices(struct daemon *d, struct known *k)
{
	_cleanup_(environment_done) struct environment e = {};
	uint64_t unnamed = k->ordinals_seen & ~k->devices_named;

	k->wants_device = false;
	if (!unnamed)
		return;
	if (!d->gpus.device_count) {
		k->wants_device = true;
		return;
	}
	/* Bit 0 is "not known", to which the environment says nothing. */
	if (unnamed > 1)
		environment_read(k->pid, &e);
	for (int i = -1; i < 63; i++) {
		const struct gpu_device *g;

		if (!(unnamed & (1ull << (i + 1))))
			continue;
		g = device_of(d, k, &e, i);
		if (g)
			daemon_set_ordinal(d, k, i, g->uuid);
		else
			k->wants_device = true;
	}
}

void daemon_name_devices(struct daemon *d)
{
	size_t n = 0;
	void *value;

	while (n < NAMES_MAX && map64_next(&d->known, &d->name_iter, NULL, &value)) {
		struct known *k = value;

		if (!k->wants_device)
			continue;
		name_devices(d, k);
		n++;
	}
	if (n < NAMES_MAX)
		d->name_iter = 0;
}

void daemon_note_ordinal(struct daemon *d, struct known *k, int ordinal, uint32_t row)
{
	uint64_t bit;

	if (ordinal < -1 || ordinal >= 63)
		return;
	bit = 1ull << (ordinal + 1);
	if (k->ordinals_seen & bit)
		return;
	k->ordinals_seen |= bit;
	k->is_hip |= is_hip(row);
	if (!(k->devices_named & bit))
		name_devices(d, k);
}
