/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "history/story_private.h"

/* After a start the first samples take some seconds: till then nobody is missed. */
#define FIRST_SAMPLES_USEC (120 * USEC_PER_SEC)

const char *story_gap_name(enum story_gap_kind k)
{
	static const char *const names[] = {
		[GAP_DOWN] = "down",	 [GAP_SILENT] = "silent",	  [GAP_LOST] = "lost", [GAP_ASLEEP] = "asleep",
		[GAP_MISSING] = "missing", [GAP_SUPPRESSED] = "suppressed", [GAP_BOOT] = "boot",
	};

	return names[k];
}

const char *story_state_name(enum story_state s)
{
	static const char *const names[] = {
		[STORY_FIRING] = "firing",
		[STORY_RESOLVED] = "resolved",
		[STORY_SINGLE] = "single",
	};

	return names[s];
}

void story_process_name(const struct story_process *p, struct strbuf *sb)
{
	strbuf_addf(sb, "%s[%" PRIu32 "]", p->comm ? p->comm : "?", p->pid);
}

void story_device_name(const struct story *s, const struct story_device *d, struct strbuf *sb)
{
	size_t len = 0;

	if (s->hosts_len > 1)
		strbuf_addf(sb, "%s ", d->host->name);
	if (d->index >= 0) {
		strbuf_addf(sb, "GPU %d", d->index);
		return;
	}
	/* Characters, not bytes. */
	for (size_t n = 0; d->uuid[len] && n < 12; n++)
		do {
			len++;
		} while (((unsigned char)d->uuid[len] & 0xc0) == 0x80);
	strbuf_add(sb, d->uuid, len);
}

static bool is_wanted(const struct telling *t, const struct proc *p)
{
	if (p->s.first_usec == 0)
		return false;
	return (!t->pid || p->s.pid == t->pid) && (!t->unit || unit_matches(t, p->s.unit));
}

static int by_held(const void *a, const void *b)
{
	const struct story_held *x = a, *y = b;

	if (!x->device || !y->device)
		return !x->device - !y->device;
	if (x->device->index != y->device->index)
		return x->device->index < y->device->index ? -1 : 1;
	return strcmp(x->device->uuid, y->device->uuid);
}

static int make_helds(struct proc *p)
{
	p->s.held = calloc(p->held_len + 1, sizeof(*p->s.held));
	if (!p->s.held)
		return -ENOMEM;
	for (size_t i = 0; i < p->held_len; i++) {
		struct held *h = p->held[i];

		if (h->series.s.len == 0)
			continue;
		if (h->series.s.peak_usec == 0)
			h->series.s.peak_usec = h->series.s.points[0].usec;
		p->s.held[p->s.held_len++] = (struct story_held){ .device = h->device ? &h->device->s : NULL, .series = h->series.s };
	}
	qsort(p->s.held, p->s.held_len, sizeof(*p->s.held), by_held);
	return 0;
}

/* It held memory when it was last sampled, too long ago for it to hold any now. */
static bool is_stale(const struct proc *p)
{
	bool is_any = false;

	for (size_t i = 0; i < p->held_len; i++) {
		if (p->held[i]->live > 0 && !held_is_stale(p->held[i], p->host->last_usec))
			return false;
		is_any = is_any || p->held[i]->live > 0;
	}
	return is_any;
}

/* What it held at the beginning of the stretch, and its peak. */
static int settle(struct telling *t, struct proc *p, uint64_t end_usec)
{
	sum_t carried = 0;

	for (size_t i = 0; i < p->held_len; i++) {
		struct held *h = p->held[i];
		int r = held_open(t, h);

		if (r < 0)
			return r;
		if (h->series.s.len && h->series.s.points[0].usec == t->from)
			carried += h->series.s.points[0].live;
	}
	if (p->is_carried) {
		p->s.first_usec = t->from;
		p->s.last_usec = MAX(p->s.last_usec, t->from);
		process_peak(t, p, t->from, sum_sat(carried));
	}
	for (size_t i = 0; i < p->held_len; i++)
		if (p->held[i]->series.s.len)
			process_peak(t, p, p->held[i]->series.s.peak_usec, p->held[i]->series.s.peak_bytes);
	if (p->s.peak_usec == 0)
		p->s.peak_usec = p->s.first_usec;
	p->s.is_cut = !p->s.is_ended && p->run != p->host->run &&
		      (p->host->is_stopped || end_usec > add_sat(p->host->run_usec, FIRST_SAMPLES_USEC));
	p->s.is_cut |= !p->s.is_ended && is_stale(p);
	return 0;
}

static int by_peak(const void *a, const void *b)
{
	const struct proc *x = *(struct proc *const *)a, *y = *(struct proc *const *)b;

	if (x->s.peak_bytes != y->s.peak_bytes)
		return x->s.peak_bytes < y->s.peak_bytes ? 1 : -1;
	if (x->s.first_usec != y->s.first_usec)
		return x->s.first_usec < y->s.first_usec ? -1 : 1;
	return x->s.pid < y->s.pid ? -1 : x->s.pid > y->s.pid;
}

static int proc_unlink(struct telling *t, struct proc *p)
{
	struct proc *first = map64_get(&t->proc_map, p->hash);

	for (size_t i = 0; i < p->held_len; i++) {
		struct held *h = p->held[i], *last;
		struct device *d = h->device;

		if (!d)
			continue;
		if (held_is_current(h) && d->run == d->host->run) {
			d->sum -= h->live;
			d->bound -= h->bound;
		}
		last = d->helds[--d->helds_len];
		d->helds[h->device_at] = last;
		last->device_at = h->device_at;
	}
	if (first == p) {
		if (p->next)
			return map64_put(&t->proc_map, p->hash, p->next);
		(void)map64_remove(&t->proc_map, p->hash);
		return 0;
	}
	while (first && first->next != p)
		first = first->next;
	if (first)
		first->next = p->next;
	return 0;
}

/* Those marked as going. */
static int drop_going(struct telling *t)
{
	size_t kept = 0;
	int err = 0;

	incident_forget(t);
	failure_forget(t);
	for (size_t i = 0; i < t->procs_len; i++) {
		struct proc *p = t->procs[i];

		if (!p->is_going) {
			t->procs[kept++] = p;
			continue;
		}
		if (proc_unlink(t, p) < 0)
			err = -ENOMEM;
		process_drop(t, p);
	}
	t->procs_len = kept;
	return err;
}

int process_prune(struct telling *t, size_t max)
{
	if (t->procs_len <= max)
		return 0;
	qsort(t->procs, t->procs_len, sizeof(*t->procs), by_peak);
	for (size_t i = max; i < t->procs_len; i++)
		t->procs[i]->is_going = true;
	t->story.left_out.processes += t->procs_len - max;
	return drop_going(t);
}

static int finish_processes(struct telling *t, uint64_t end_usec)
{
	struct story *s = &t->story;
	int err = 0;

	for (size_t i = 0; i < t->procs_len && err == 0; i++) {
		struct proc *p = t->procs[i];

		err = settle(t, p, end_usec);
		p->is_going = !is_wanted(t, p);
	}
	if (err == 0)
		err = drop_going(t);
	if (err == 0)
		err = process_prune(t, STORY_PROCESSES_MAX);
	s->processes = calloc(t->procs_len + 1, sizeof(*s->processes));
	if (err < 0 || !s->processes)
		return -ENOMEM;
	if (t->procs_len)
		qsort(t->procs, t->procs_len, sizeof(*t->procs), by_peak);
	for (size_t i = 0; i < t->procs_len && err == 0; i++) {
		struct proc *p = t->procs[i];

		p->s.number = i;
		s->processes[s->processes_len++] = &p->s;
		err = make_helds(p);
		if (err == 0)
			err = sites_finish(t, p);
	}
	return err;
}

static int by_index(const void *a, const void *b)
{
	const struct story_device *x = *(struct story_device *const *)a, *y = *(struct story_device *const *)b;
	int r = strcmp(x->host->name, y->host->name);

	if (r == 0)
		r = strcmp(x->host->machine_id ? x->host->machine_id : "", y->host->machine_id ? y->host->machine_id : "");
	if (r != 0)
		return r;
	if (x->index != y->index)
		return x->index < y->index ? -1 : 1;
	return strcmp(x->uuid, y->uuid);
}

/* What the processes, incidents and failures name, and with no filter all that was heard of. */
static int finish_devices(struct telling *t)
{
	struct story *s = &t->story;
	int err = 0;

	for (size_t i = 0; i < t->procs_len; i++)
		for (size_t k = 0; k < t->procs[i]->held_len; k++)
			if (t->procs[i]->held[k]->device && t->procs[i]->held[k]->series.s.len)
				t->procs[i]->held[k]->device->is_told = true;
	for (size_t i = 0; i < t->incidents_len; i++)
		if (t->incidents[i]->device)
			t->incidents[i]->device->is_told = true;
	for (size_t i = 0; i < t->failures_len; i++)
		if (t->failures[i]->device)
			t->failures[i]->device->is_told = true;
	s->devices = calloc(t->devices_len + 1, sizeof(*s->devices));
	if (!s->devices)
		return -ENOMEM;
	for (size_t i = 0; i < t->devices_len && err == 0; i++) {
		struct device *d = t->devices[i];

		err = series_open(t, &d->used, true);
		d->s.used = d->used.s;
		if (!d->is_told && (t->pid || t->unit || d->used.s.len == 0))
			continue;
		s->devices[s->devices_len++] = &d->s;
	}
	qsort(s->devices, s->devices_len, sizeof(*s->devices), by_index);
	return err;
}

static int by_name(const void *a, const void *b)
{
	const struct story_host *x = *(struct story_host *const *)a, *y = *(struct story_host *const *)b;
	int r = strcmp(x->name, y->name);

	return r ? r : strcmp(x->machine_id ? x->machine_id : "", y->machine_id ? y->machine_id : "");
}

static int finish_hosts(struct telling *t)
{
	struct story *s = &t->story;

	s->hosts = calloc(t->hosts_len + 1, sizeof(*s->hosts));
	if (!s->hosts)
		return -ENOMEM;
	for (size_t i = 0; i < t->hosts_len; i++)
		s->hosts[s->hosts_len++] = &t->hosts[i]->s;
	qsort(s->hosts, s->hosts_len, sizeof(*s->hosts), by_name);
	return 0;
}

/* What an incident or failure is about, now that it is known who stays. */
static void connect(struct telling *t)
{
	for (size_t i = 0; i < t->incidents_len; i++) {
		struct incident *in = t->incidents[i];

		in->s.process = in->proc ? &in->proc->s : NULL;
		in->s.device = in->device ? &in->device->s : NULL;
		in->s.stack = in->stack ? &in->stack->s : NULL;
		if (in->proc)
			in->proc->s.incidents++;
	}
	for (size_t i = 0; i < t->failures_len; i++) {
		struct failure *f = t->failures[i];

		f->s.process = f->proc ? &f->proc->s : NULL;
		f->s.device = f->device ? &f->device->s : NULL;
		f->s.stack = f->stack ? &f->stack->s : NULL;
	}
}

static void name_stack(const struct story_stack *st)
{
	/* Its first member. */
	if (st)
		((struct call_site *)st)->is_named = true;
}

static int by_id(const void *a, const void *b)
{
	return strcmp((*(struct story_stack *const *)a)->id, (*(struct story_stack *const *)b)->id);
}

static int finish_stacks(struct telling *t)
{
	struct story *s = &t->story;

	for (size_t i = 0; i < s->processes_len; i++) {
		name_stack(s->processes[i]->peak_stack);
		for (size_t k = 0; k < s->processes[i]->sites_len; k++)
			name_stack(s->processes[i]->sites[k].stack);
	}
	for (size_t i = 0; i < s->incidents_len; i++)
		name_stack(s->incidents[i]->stack);
	for (size_t i = 0; i < s->failures_len; i++)
		name_stack(s->failures[i]->stack);
	s->stacks = calloc(t->stacks_len + 1, sizeof(*s->stacks));
	if (!s->stacks)
		return -ENOMEM;
	for (size_t i = 0; i < t->stacks_len; i++)
		if (t->stacks[i]->is_named)
			s->stacks[s->stacks_len++] = &t->stacks[i]->s;
	qsort(s->stacks, s->stacks_len, sizeof(*s->stacks), by_id);
	return 0;
}

int telling_finish(struct telling *t, uint64_t now_usec)
{
	struct story *s = &t->story;
	uint64_t end = MAX(MIN(t->until, now_usec), t->from);
	int err;

	s->from_usec = t->from;
	s->until_usec = end;
	err = failure_settle(t, UINT64_MAX);
	if (err == 0)
		err = finish_hosts(t);
	if (err == 0)
		err = finish_processes(t, end);
	if (err == 0)
		err = incident_finish(t);
	if (err == 0)
		err = failure_finish(t);
	if (err == 0)
		err = finish_devices(t);
	if (err == 0)
		err = gap_finish(t, end);
	if (err < 0)
		return err;
	connect(t);
	return finish_stacks(t);
}
