/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/clock.h"
#include "history/story_private.h"

bool held_is_current(const struct held *h)
{
	return h->live_usec != 0 && h->run == h->proc->host->run;
}

bool held_is_stale(const struct held *h, uint64_t usec)
{
	uint64_t since = MAX(h->live_usec, h->proc->host->awake_usec);

	return h->live > 0 && usec > add_sat(since, 2 * STORY_LOOK_BACK_USEC);
}

bool held_at(const struct held *h, uint64_t usec, uint64_t *ret)
{
	*ret = 0;
	if (!held_is_current(h))
		return true;
	/* A change is sampled as soon as a sample may come: until then it held what the one before said. */
	*ret = h->live_usec <= usec ? h->live : h->live_before;
	return h->live_usec <= usec || h->before_usec == 0 || h->before_usec <= usec;
}

void process_drop(struct telling *t, struct proc *p)
{
	for (size_t i = 0; i < p->held_len; i++) {
		series_done(t, &p->held[i]->series);
		free(p->held[i]);
	}
	t->helds -= p->held_len;
	t->sites -= p->sites_len;
	free(p->held);
	free(p->sites);
	free(p->s.held);
	free(p->s.sites);
	free(p);
}

static struct proc *make(struct telling *t, const struct told *r, uint64_t hash, uint32_t pid, uint64_t start_time)
{
	struct proc *p = calloc(1, sizeof(*p));

	if (!p || PUSH(t->procs, t->procs_len, t->procs_cap, p) < 0) {
		free(p);
		return NULL;
	}
	p->host = r->host;
	p->hash = hash;
	p->s = (struct story_process){
		.host = &r->host->s, .pid = pid, .start_time = start_time, .boot_id = r->boot_id,
		.host_bytes = STORY_ABSENT, .managed_bytes = STORY_ABSENT, .driver_bytes = STORY_ABSENT,
		.alloc_count = STORY_ABSENT, .free_count = STORY_ABSENT, .fail_count = STORY_ABSENT,
		.allocated_bytes = STORY_ABSENT, .is_exact = true,
	};
	p->next = map64_get(&t->proc_map, hash);
	if (map64_put(&t->proc_map, hash, p) < 0) {
		t->procs_len--;
		free(p);
		return NULL;
	}
	return p;
}

static int add_identity(struct telling *t, const struct entry *e, struct story_process *s)
{
	const struct {
		enum entry_field field;
		const char **text;
	} all[] = {
		{ ENTRY_COMM, &s->comm }, { ENTRY_EXE, &s->exe }, { ENTRY_CMDLINE, &s->cmdline }, { ENTRY_USER, &s->user },
		{ ENTRY_UNIT, &s->unit }, { ENTRY_CONTAINER, &s->container }, { ENTRY_POD, &s->pod },
		{ ENTRY_SLURM_JOB, &s->slurm_job }, { ENTRY_TAG, &s->tag }, { ENTRY_POD_NAME, &s->pod_name },
		{ ENTRY_POD_NAMESPACE, &s->pod_namespace }, { ENTRY_CONTAINER_NAME, &s->container_name },
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		int r = told_update(t, e, all[i].field, all[i].text);

		if (r < 0)
			return r;
	}
	return 0;
}

static void heard(struct proc *p, const struct told *r)
{
	p->run = r->host->run;
	if (!r->is_within)
		return;
	if (p->s.first_usec == 0 || r->usec < p->s.first_usec)
		p->s.first_usec = r->usec;
	p->s.last_usec = MAX(p->s.last_usec, r->usec);
}

int told_process(struct telling *t, const struct told *r, bool is_alive, struct proc **ret)
{
	uint64_t pid = told_u64(t, r->e, ENTRY_PID, 0), start = told_u64(t, r->e, ENTRY_START_TIME, 0), hash;
	struct proc *p;

	*ret = NULL;
	if (pid == 0 || pid > INT32_MAX) {
		t->has_unreadable |= pid != 0;
		return 0;
	}
	hash = hash64(hash64(hash64((uintptr_t)r->host) ^ (uintptr_t)r->boot_id) ^ hash64(pid << 32 ^ start));
	for (p = map64_get(&t->proc_map, hash); p; p = p->next)
		if (p->host == r->host && p->s.boot_id == r->boot_id && p->s.pid == pid && p->s.start_time == start)
			break;
	/* After an exec everything is new but these. What is told late is still of the one that ended. */
	if (p && is_alive && p->s.is_ended && r->usec > p->s.end_usec)
		p = NULL;
	if (!p && t->procs_len >= STORY_PROCESSES_MAX + STORY_PROCESSES_MAX / 4) {
		int err = process_prune(t, STORY_PROCESSES_MAX);

		if (err < 0)
			return err;
	}
	if (!p)
		p = make(t, r, hash, (uint32_t)pid, start);
	if (!p)
		return -ENOMEM;
	*ret = p;
	heard(p, r);
	return add_identity(t, r->e, &p->s);
}

static int held_find(struct telling *t, struct proc *p, struct device *d, struct held **ret)
{
	struct held *h;

	*ret = NULL;
	for (size_t i = 0; i < p->held_len; i++) {
		if (p->held[i]->device == d) {
			*ret = p->held[i];
			return 0;
		}
	}
	if (t->helds == TELLING_HELD_MAX || p->held_len == PROC_HELD_MAX) {
		t->has_unreadable = true;
		return 0;
	}
	h = calloc(1, sizeof(*h));
	if (!h || PUSH(p->held, p->held_len, p->held_cap, h) < 0) {
		free(h);
		return -ENOMEM;
	}
	t->helds++;
	h->proc = p;
	h->device = d;
	*ret = h;
	if (!d)
		return 0;
	h->device_at = d->helds_len;
	if (PUSH(d->helds, d->helds_len, d->helds_cap, h) < 0) {
		p->held_len--;
		t->helds--;
		free(h);
		return -ENOMEM;
	}
	return 0;
}

static bool is_carried(const struct telling *t, const struct held *h)
{
	return series_has_before(t, &h->series) && h->series.before > 0 && h->run == h->proc->host->run_at_from;
}

int held_open(struct telling *t, struct held *h)
{
	bool carried = !h->series.is_open && is_carried(t, h);

	h->proc->is_carried |= carried;
	return series_open(t, &h->series, carried);
}

void process_peak(struct telling *t, struct proc *p, uint64_t usec, uint64_t bytes)
{
	if (usec < t->from)
		return;
	/* When it was reached: what is told later may tell of an earlier moment. */
	if (p->s.peak_usec != 0 && (bytes < p->s.peak_bytes || (bytes == p->s.peak_bytes && usec >= p->s.peak_usec)))
		return;
	p->s.peak_bytes = bytes;
	p->s.peak_usec = usec;
}

static uint64_t live_sum(const struct proc *p)
{
	sum_t sum = 0;

	for (size_t i = 0; i < p->held_len; i++)
		if (held_is_current(p->held[i]))
			sum += p->held[i]->live;
	return sum_sat(sum);
}

/* The value from now on; *high, *high_usec: the highest since the sample before, made what is known of the stretch. */
static int held_set(struct telling *t, struct held *h, uint64_t usec, uint64_t low, uint64_t live, uint64_t *high,
		    uint64_t *high_usec)
{
	struct series *s = &h->series;
	uint64_t last;
	int r;

	if (usec < t->from) {
		s->before = live;
		s->before_usec = usec;
		return 0;
	}
	r = held_open(t, h);
	if (r < 0)
		return r;
	last = s->s.len ? s->s.points[s->s.len - 1].usec : t->from;
	if (*high_usec < t->from || *high < live) {
		*high = live;
		*high_usec = usec;
	}
	/* A moment of its own, so that what others held then can be told from what they held later. */
	if (*high > live && *high_usec > last && *high_usec < usec) {
		r = series_add(t, s, *high_usec, low, *high, *high);
		if (r < 0)
			return r;
	}
	series_peak(s, *high_usec, *high);
	return series_add(t, s, usec, low, *high, live);
}

static void set_live(struct held *h, uint64_t usec, uint64_t live)
{
	h->live_before = held_is_current(h) ? h->live : 0;
	h->before_usec = held_is_current(h) ? h->live_usec : 0;
	h->live = live;
	h->live_usec = usec;
	h->run = h->proc->host->run;
}

static void take_known(struct telling *t, const struct entry *e, enum entry_field f, uint64_t *v)
{
	*v = told_u64(t, e, f, *v);
}

static void add_books(struct telling *t, const struct entry *e, struct proc *p)
{
	struct story_process *s = &p->s;

	take_known(t, e, ENTRY_HOST_BYTES, &s->host_bytes);
	take_known(t, e, ENTRY_MANAGED_BYTES, &s->managed_bytes);
	take_known(t, e, ENTRY_DRIVER_BYTES, &s->driver_bytes);
	take_known(t, e, ENTRY_ALLOC_COUNT, &s->alloc_count);
	take_known(t, e, ENTRY_FREE_COUNT, &s->free_count);
	take_known(t, e, ENTRY_FAIL_COUNT, &s->fail_count);
	take_known(t, e, ENTRY_ALLOCATED_BYTES, &s->allocated_bytes);
	s->lost_events = MAX(s->lost_events, told_u64(t, e, ENTRY_LOST_EVENTS, 0));
	if (entry_is(e, ENTRY_EXACT, "0"))
		s->is_exact = false;
}

/* The peak of its life, where it was reached between two moments of the stretch. */
static void add_life_peak(struct telling *t, struct proc *p, const struct told *r)
{
	uint64_t peak = told_u64(t, r->e, ENTRY_PEAK_BYTES, 0), when = told_u64(t, r->e, ENTRY_PEAK_TIME_USEC, 0);

	if (when != 0) {
		if (when >= t->from && when <= r->usec)
			process_peak(t, p, when, peak);
	} else if (peak > p->peak_life && p->peak_life_usec >= t->from) {
		process_peak(t, p, r->usec, peak);
	}
	p->peak_life = MAX(p->peak_life, peak);
	p->peak_life_usec = r->usec;
}

/* Of several devices together: the highest of one came when the others held what they held then. */
static void add_sum_peak(struct telling *t, struct proc *p, const struct held *of, uint64_t high, uint64_t high_usec)
{
	sum_t sum = high;

	for (size_t i = 0; i < p->held_len; i++) {
		const struct held *h = p->held[i];
		uint64_t bytes;

		if (h == of)
			continue;
		if (!held_at(h, high_usec, &bytes))
			return;
		sum += bytes;
	}
	process_peak(t, p, high_usec, sum_sat(sum));
}

int process_sample(struct telling *t, const struct told *r)
{
	const struct entry *e = r->e;
	uint64_t live = told_u64(t, e, ENTRY_BYTES, STORY_ABSENT), low, high, high_usec, old;
	struct proc *p;
	struct held *h;
	bool was_current;
	int err;

	if (live == STORY_ABSENT || r->has_lost_device) {
		t->has_unreadable = true;
		return 0;
	}
	err = told_process(t, r, true, &p);
	if (err < 0 || !p)
		return err;
	add_books(t, e, p);
	if (p->s.is_ended)
		return 0;
	err = held_find(t, p, r->device, &h);
	if (err < 0 || !h)
		return err;
	low = told_u64(t, e, ENTRY_LOW_BYTES, live);
	high = told_u64(t, e, ENTRY_HIGH_BYTES, live);
	high_usec = MIN(told_u64(t, e, ENTRY_HIGH_TIME_USEC, 0), r->usec);
	old = h->live;
	was_current = held_is_current(h);
	err = held_set(t, h, r->usec, low, live, &high, &high_usec);
	if (err < 0)
		return err;
	set_live(h, r->usec, live);
	device_sum(t, h, old, was_current, high, high_usec);
	p->has_sample = true;
	p->s.live_bytes = told_u64(t, e, ENTRY_LIVE_BYTES, live_sum(p));
	if (r->is_within) {
		process_peak(t, p, r->usec, p->s.live_bytes);
		add_sum_peak(t, p, h, high, high_usec);
		if (p->held_len > 1)
			add_life_peak(t, p, r);
	}
	err = sites_sample(t, p, h, r, p->s.live_bytes);
	return err < 0 ? err : failure_sample(t, h);
}

/* "UUID BYTES USEC" */
static bool parse_device_peak(const char *line, size_t len, size_t *ret_uuid_len, uint64_t *ret_bytes, uint64_t *ret_usec)
{
	struct entry e = {};
	const char *end = line + len, *usec = memrchr(line, ' ', len), *bytes;

	if (!usec || usec == line)
		return false;
	bytes = memrchr(line, ' ', (size_t)(usec - line));
	if (!bytes || bytes == line)
		return false;
	e.field[ENTRY_BYTES].data = bytes + 1;
	e.field[ENTRY_BYTES].len = (size_t)(usec - bytes - 1);
	e.field[ENTRY_PEAK_TIME_USEC].data = usec + 1;
	e.field[ENTRY_PEAK_TIME_USEC].len = (size_t)(end - usec - 1);
	*ret_uuid_len = (size_t)(bytes - line);
	return entry_u64(&e, ENTRY_BYTES, ret_bytes) == 0 && entry_u64(&e, ENTRY_PEAK_TIME_USEC, ret_usec) == 0;
}

/* What no sample has shown of a device's peak. */
static int add_device_peak(struct telling *t, struct proc *p, const struct told *r, struct device *d, uint64_t bytes,
			   uint64_t usec)
{
	struct held *h;
	int err = held_find(t, p, d, &h);

	if (err < 0 || !h)
		return err;
	err = held_open(t, h);
	if (err < 0)
		return err;
	if (h->series.s.len == 0) {
		uint64_t age = told_u64(t, r->e, ENTRY_DURATION_SEC, 0), start = 0;

		/* Its age is told in whole seconds. */
		if (age < r->usec / USEC_PER_SEC)
			start = r->usec - age * USEC_PER_SEC;
		err = series_add(t, &h->series, MAX(MIN(start, usec), t->from), 0, 0, 0);
		if (err < 0)
			return err;
	}
	if (h->series.s.peak_usec != 0 && h->series.s.peak_bytes >= bytes)
		return 0;
	series_peak(&h->series, usec, bytes);
	device_moment(t, h, usec, bytes);
	process_peak(t, p, usec, bytes);
	return series_insert(t, &h->series, usec, bytes);
}

static int add_device_peaks(struct telling *t, struct proc *p, const struct told *r)
{
	const char *line = r->e->field[ENTRY_DEVICE_PEAKS].data;
	const char *end = line ? line + r->e->field[ENTRY_DEVICE_PEAKS].len : NULL;

	while (line < end) {
		const char *eol = memchr(line, '\n', (size_t)(end - line));
		struct device *d = NULL;
		uint64_t bytes, usec;
		size_t uuid_len;
		int err = 0;

		eol = eol ? eol : end;
		if (!parse_device_peak(line, (size_t)(eol - line), &uuid_len, &bytes, &usec)) {
			t->has_unreadable |= eol > line;
		} else if (usec >= t->from && usec <= r->usec) {
			if (uuid_len != 1 || line[0] != '-')
				err = device_find(t, r->host, line, uuid_len, &d);
			if (err == 0)
				err = add_device_peak(t, p, r, d, bytes, usec);
			if (err < 0 && err != -ENOSPC)
				return err;
		}
		line = eol + 1;
	}
	return 0;
}

/* All that it held is gone from this moment on. */
static int end_helds(struct telling *t, struct proc *p, uint64_t usec)
{
	for (size_t i = 0; i < p->held_len; i++) {
		struct held *h = p->held[i];
		uint64_t high = h->live, high_usec = usec, old = h->live;
		bool was_current = held_is_current(h);
		int r = 0;

		if (usec < t->from) {
			h->series.before = 0;
			h->series.before_usec = usec;
		} else {
			r = held_open(t, h);
			if (r == 0)
				r = series_add(t, &h->series, usec, 0,
					       h->series.s.len ? h->series.s.points[h->series.s.len - 1].live : 0, 0);
		}
		if (r < 0)
			return r;
		set_live(h, usec, 0);
		device_sum(t, h, old, was_current, high, high_usec);
	}
	return 0;
}

int process_exit(struct telling *t, const struct told *r)
{
	struct proc *p;
	int err;

	err = told_process(t, r, true, &p);
	if (err < 0 || !p || p->s.is_ended)
		return err;
	add_books(t, r->e, p);
	p->s.live_bytes = told_u64(t, r->e, ENTRY_LIVE_BYTES, live_sum(p));
	add_life_peak(t, p, r);
	err = r->is_within ? add_device_peaks(t, p, r) : 0;
	if (err == 0)
		err = end_helds(t, p, r->usec);
	if (err < 0)
		return err;
	p->s.is_ended = true;
	p->s.end_usec = r->usec;
	return sites_exit(t, p, r);
}
