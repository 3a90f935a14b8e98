/* SPDX-License-Identifier: MIT */
#include "proc/nvml_util.h"

#include <string.h>

#include "base/clock.h"

#define NVML_SUCCESS 0
#define NVML_ERROR_NOT_FOUND 6
#define NVML_ERROR_INSUFFICIENT_SIZE 7
#define NVML_TEMPERATURE_GPU 0

#define SAMPLES_FIRST 128
#define SAMPLES_MAX 8192
#define SIZE_TRIES 4
/* The driver takes one to six samples a second: asked sooner, it may have nothing new of who is busy all the time. */
#define WORK_AGE_NS NSEC_PER_SEC
/* The newest samples come that late. */
#define WORK_LATE_USEC USEC_PER_SEC
/* What the first samples are of. */
#define WORK_FIRST_USEC (2 * USEC_PER_SEC)

/* Longer than any known structure, so that a driver with a yet longer one stays within. */
union nvml_answer {
	struct {
		uint32_t gpu, memory;
	} rates;
	struct {
		uint32_t version, sensor;
		int32_t celsius;
	} temperature;
	unsigned char room[64];
};

#define TEMPERATURE_V1 (12u | 1u << 24)

void nvml_util_done(struct nvml_util *u)
{
	for (size_t i = 0; i < NVML_CARDS_MAX; i++)
		free(u->cards[i].shares);
}

static bool is_late(uint64_t until_ns)
{
	return clock_monotonic_ns() > until_ns;
}

/* What the call itself says, UINT64_MAX when it fails. */
static uint64_t ask_u32(int (*call)(void *, unsigned int *), void *card)
{
	unsigned int v = UINT32_MAX;

	return call && call(card, &v) == NVML_SUCCESS ? v : UINT64_MAX;
}

static void read_rates(const struct nvml_util *u, void *card, struct gpu_device *d, size_t *left_out)
{
	union nvml_answer a = { .rates = { UINT32_MAX, UINT32_MAX } };

	if (!u->rates || u->rates(card, &a) != NVML_SUCCESS)
		return;
	d->busy_percent = gpu_figure(a.rates.gpu, GPU_PERCENT_MAX, left_out);
	d->memory_busy_percent = gpu_figure(a.rates.memory, GPU_PERCENT_MAX, left_out);
}

static void read_temperature(const struct nvml_util *u, void *card, struct gpu_device *d, size_t *left_out)
{
	union nvml_answer a = { .temperature = { .version = TEMPERATURE_V1, .sensor = NVML_TEMPERATURE_GPU } };
	unsigned int v = UINT32_MAX;

	if (u->temperature && u->temperature(card, NVML_TEMPERATURE_GPU, &v) == NVML_SUCCESS)
		d->celsius = gpu_figure(v, GPU_CELSIUS_MAX, left_out);
	else if (u->temperature_v && u->temperature_v(card, &a) == NVML_SUCCESS)
		d->celsius = gpu_figure((uint32_t)a.temperature.celsius, GPU_CELSIUS_MAX, left_out);
}

/* 0, -ENOMEM, -EIO when the driver does not say. Raw samples, as many as it has; the caller frees. */
static int ask_work(const struct nvml_util *u, void *card, uint64_t since_usec, unsigned char **ret, size_t *ret_count)
{
	unsigned int cap = SAMPLES_FIRST;

	for (int i = 0; i < SIZE_TRIES && cap <= SAMPLES_MAX; i++) {
		_cleanup_free_ unsigned char *raw = malloc((size_t)cap * NVML_RECORD_ROOM);
		unsigned int count = cap;
		int r;

		if (!raw)
			return -ENOMEM;
		memset(raw, NVML_UNTOUCHED, (size_t)cap * NVML_RECORD_ROOM);
		r = u->work(card, raw, &count, since_usec);
		*ret_count = 0;
		/* Nobody has done anything. */
		if (r == NVML_ERROR_NOT_FOUND)
			return 0;
		if (r == NVML_ERROR_INSUFFICIENT_SIZE) {
			if (count > SAMPLES_MAX)
				return -EIO;
			cap = MAX(count, cap) * 2;
			continue;
		}
		if (r != NVML_SUCCESS || count > cap)
			return -EIO;
		*ret_count = count;
		*ret = TAKE_PTR(raw);
		return 0;
	}
	return -EIO;
}

/* Where the samples begin that are asked for. The wall clock may have been set back since. */
static uint64_t work_since(const struct nvml_work *w, uint64_t now_usec)
{
	if (w->since_usec == 0 || w->since_usec > now_usec)
		return now_usec - WORK_FIRST_USEC;
	return w->since_usec;
}

/* 0 or -ENOMEM. */
static int refresh_work(const struct nvml_util *u, void *card, struct nvml_work *w, size_t *left_out)
{
	_cleanup_free_ unsigned char *raw = NULL;
	uint64_t now_usec = clock_real_usec(), since_usec = work_since(w, now_usec);
	struct nvml_share *shares = NULL;
	size_t count = 0, bad = 0;
	int r;

	w->asked_ns = clock_monotonic_ns();
	r = ask_work(u, card, since_usec, &raw, &count);
	if (r == 0 && count > 0) {
		shares = calloc(count, sizeof(*shares));
		if (!shares)
			return -ENOMEM;
		count = nvml_samples_read(raw, count, since_usec, now_usec, shares, &bad);
	}
	free(w->shares);
	w->shares = shares;
	w->count = count;
	w->is_known = r == 0;
	/* The driver tells the mean since then. One that was idle long must not have it spread over all that time. */
	w->since_usec = now_usec - WORK_LATE_USEC;
	for (size_t i = 0; i < count; i++)
		w->since_usec = MAX(w->since_usec, shares[i].stamp_usec);
	*left_out += bad;
	return r == -ENOMEM ? r : 0;
}

static int share_of(const void *pid, const void *share)
{
	uint32_t x = *(const uint32_t *)pid, y = ((const struct nvml_share *)share)->pid;

	return (x > y) - (x < y);
}

static void spread_work(const struct nvml_work *w, size_t place, struct gpu_snapshot *s)
{
	for (size_t i = 0; i < s->process_count; i++) {
		struct gpu_process *p = &s->processes[i];
		const struct nvml_share *share;

		if (p->device != place)
			continue;
		share = w->count > 0 ? bsearch(&p->pid, w->shares, w->count, sizeof(*w->shares), share_of) : NULL;
		p->sm_percent = share ? share->sm_percent : 0;
	}
}

static int read_work(struct nvml_util *u, void *card, size_t place, struct gpu_snapshot *s)
{
	const struct gpu_device *d = &s->devices[place];
	struct nvml_work *w = &u->cards[d->index];
	int r = 0;

	if (strcmp(w->uuid, d->uuid) != 0) {
		free(w->shares);
		*w = (struct nvml_work){ .asked_ns = 0 };
		memcpy(w->uuid, d->uuid, sizeof(w->uuid));
	}
	if (w->asked_ns == 0 || clock_monotonic_ns() - w->asked_ns >= WORK_AGE_NS)
		r = refresh_work(u, card, w, &s->left_out_count);
	if (r == 0 && w->is_known)
		spread_work(w, place, s);
	return r;
}

static void read_power(const struct nvml_util *u, void *card, struct gpu_device *d, size_t *left_out)
{
	d->milliwatts = gpu_figure(ask_u32(u->power, card), GPU_MILLIWATTS_MAX, left_out);
}

static void read_power_limit(const struct nvml_util *u, void *card, struct gpu_device *d, size_t *left_out)
{
	d->milliwatts_max = gpu_figure(ask_u32(u->power_limit, card), GPU_MILLIWATTS_MAX, left_out);
	if (d->milliwatts_max == 0)
		d->milliwatts_max = UINT32_MAX;
}

int nvml_util_read(struct nvml_util *u, void *card, size_t place, bool is_mig, uint64_t until_ns,
		   struct gpu_snapshot *s)
{
	static void (*const figures[])(const struct nvml_util *, void *, struct gpu_device *, size_t *) = {
		read_rates, read_temperature, read_power, read_power_limit,
	};

	for (size_t i = 0; i < ARRAY_SIZE(figures); i++) {
		if (is_late(until_ns))
			return -ETIME;
		figures[i](u, card, &s->devices[place], &s->left_out_count);
	}
	if (is_mig || !u->work)
		return 0;
	return is_late(until_ns) ? -ETIME : read_work(u, card, place, s);
}
