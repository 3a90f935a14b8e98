/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "base/map64.h"
#include "base/text.h"
#include "history/render.h"

struct json {
	const struct story *s;
	struct strbuf *sb;
	struct map64 places; /* of hosts and devices in their lists, one more than that */
};

static void learn_places(struct json *j)
{
	int r = 0;

	for (size_t i = 0; i < j->s->hosts_len && r >= 0; i++)
		r = map64_put(&j->places, (uintptr_t)j->s->hosts[i], (void *)(uintptr_t)(i + 1));
	for (size_t i = 0; i < j->s->devices_len && r >= 0; i++)
		r = map64_put(&j->places, (uintptr_t)j->s->devices[i], (void *)(uintptr_t)(i + 1));
	if (r < 0)
		j->sb->error = r;
}

static void add_place(struct json *j, const char *key, const void *what)
{
	uint64_t place = what ? (uintptr_t)map64_get(&j->places, (uintptr_t)what) : 0;

	json_known(j->sb, key, place > 0 ? place - 1 : STORY_ABSENT);
}

static void add_process(struct json *j, const struct story_process *p)
{
	json_known(j->sb, "process", p ? p->number : STORY_ABSENT);
}

static void add_usec(struct json *j, const char *key, uint64_t usec)
{
	json_known(j->sb, key, usec > 0 ? usec : STORY_ABSENT);
}

static void add_stack(struct json *j, const char *key, const struct story_stack *stack)
{
	json_str(j->sb, key, stack ? stack->id : NULL);
}

static void open_list(struct json *j, const char *key)
{
	json_key(j->sb, key);
	strbuf_addc(j->sb, '[');
}

static void close_list(struct json *j)
{
	strbuf_addc(j->sb, ']');
}

static void close_object(struct json *j)
{
	strbuf_addc(j->sb, '}');
}

static void add_points(struct json *j, const char *key, const struct story_series *series)
{
	open_list(j, key);
	for (size_t i = 0; i < series->len; i++) {
		const struct story_point *p = &series->points[i];

		strbuf_addf(j->sb, "%s[%llu,%llu,%llu,%llu]", i > 0 ? "," : "", (unsigned long long)p->usec,
			    (unsigned long long)p->low, (unsigned long long)p->high, (unsigned long long)p->live);
	}
	close_list(j);
}

static void add_hosts(struct json *j)
{
	open_list(j, "hosts");
	for (size_t i = 0; i < j->s->hosts_len; i++) {
		json_open(j->sb);
		json_str(j->sb, "name", j->s->hosts[i]->name);
		json_str(j->sb, "machine_id", j->s->hosts[i]->machine_id);
		close_object(j);
	}
	close_list(j);
}

static void add_devices(struct json *j)
{
	open_list(j, "devices");
	for (size_t i = 0; i < j->s->devices_len; i++) {
		const struct story_device *d = j->s->devices[i];

		json_open(j->sb);
		add_place(j, "host", d->host);
		json_str(j->sb, "uuid", d->uuid);
		json_known(j->sb, "index", d->index >= 0 ? (uint64_t)d->index : STORY_ABSENT);
		json_known(j->sb, "total_bytes", d->total_bytes);
		json_known(j->sb, "peak_bytes", d->peak_bytes);
		add_usec(j, "peak_usec", d->peak_usec);
		add_points(j, "used", &d->used);
		close_object(j);
	}
	close_list(j);
}

static void add_held(struct json *j, const struct story_process *p)
{
	open_list(j, "held");
	for (size_t i = 0; i < p->held_len; i++) {
		const struct story_held *h = &p->held[i];

		json_open(j->sb);
		add_place(j, "device", h->device);
		json_known(j->sb, "peak_bytes", h->series.peak_bytes);
		add_usec(j, "peak_usec", h->series.peak_usec);
		add_points(j, "points", &h->series);
		close_object(j);
	}
	close_list(j);
}

static void add_sites(struct json *j, const struct story_process *p)
{
	open_list(j, "sites");
	for (size_t i = 0; i < p->sites_len; i++) {
		json_open(j->sb);
		add_stack(j, "stack", p->sites[i].stack);
		json_known(j->sb, "bytes", p->sites[i].bytes);
		json_known(j->sb, "last_bytes", p->sites[i].last_bytes);
		json_known(j->sb, "peak_bytes", p->sites[i].peak_bytes);
		close_object(j);
	}
	close_list(j);
}

static void add_identity(struct json *j, const struct story_process *p)
{
	add_place(j, "host", p->host);
	json_u64(j->sb, "pid", p->pid);
	json_u64(j->sb, "start_time", p->start_time);
	json_str(j->sb, "comm", p->comm);
	json_str(j->sb, "exe", p->exe);
	json_str(j->sb, "cmdline", p->cmdline);
	json_str(j->sb, "user", p->user);
	json_str(j->sb, "unit", p->unit);
	json_str(j->sb, "container", p->container);
	json_str(j->sb, "pod", p->pod);
	json_str(j->sb, "slurm_job", p->slurm_job);
	json_str(j->sb, "tag", p->tag);
	json_str(j->sb, "pod_name", p->pod_name);
	json_str(j->sb, "pod_namespace", p->pod_namespace);
	json_str(j->sb, "container_name", p->container_name);
}

static void add_processes(struct json *j)
{
	open_list(j, "processes");
	for (size_t i = 0; i < j->s->processes_len; i++) {
		const struct story_process *p = j->s->processes[i];

		json_open(j->sb);
		add_identity(j, p);
		add_usec(j, "first_usec", p->first_usec);
		add_usec(j, "last_usec", p->last_usec);
		add_usec(j, "end_usec", p->end_usec);
		json_bool(j->sb, "ended", p->is_ended);
		json_bool(j->sb, "cut", p->is_cut);
		json_known(j->sb, "peak_bytes", p->peak_bytes);
		add_usec(j, "peak_usec", p->peak_usec);
		json_known(j->sb, "live_bytes", p->live_bytes);
		json_known(j->sb, "host_bytes", p->host_bytes);
		json_known(j->sb, "managed_bytes", p->managed_bytes);
		json_known(j->sb, "driver_bytes", p->driver_bytes);
		json_known(j->sb, "alloc_count", p->alloc_count);
		json_known(j->sb, "free_count", p->free_count);
		json_known(j->sb, "fail_count", p->fail_count);
		json_known(j->sb, "allocated_bytes", p->allocated_bytes);
		json_known(j->sb, "lost_events", p->lost_events);
		json_bool(j->sb, "exact", p->is_exact);
		add_held(j, p);
		add_stack(j, "peak_stack", p->peak_stack);
		add_sites(j, p);
		json_u64(j->sb, "incidents", p->incidents);
		close_object(j);
	}
	close_list(j);
}

static void add_confidence(struct json *j, double confidence)
{
	if (!(confidence >= 0) || !isfinite(confidence)) {
		json_str(j->sb, "confidence", NULL);
		return;
	}
	json_key(j->sb, "confidence");
	strbuf_addf(j->sb, "%.4g", MIN(confidence, 1.0));
}

static void add_incident(struct json *j, const struct story_incident *i)
{
	json_open(j->sb);
	json_str(j->sb, "id", i->id);
	add_place(j, "host", i->host);
	json_str(j->sb, "rule", i->rule);
	json_str(j->sb, "event", i->event);
	json_str(j->sb, "severity", i->severity);
	json_str(j->sb, "scope", i->scope);
	json_str(j->sb, "subject", i->subject);
	add_process(j, i->process);
	add_place(j, "device", i->device);
	json_str(j->sb, "state", story_state_name(i->state));
	add_usec(j, "begin_usec", i->begin_usec);
	add_usec(j, "last_usec", i->last_usec);
	add_usec(j, "end_usec", i->end_usec);
	json_bool(j->sb, "before", i->is_before);
	json_known(j->sb, "duration_sec", i->duration_sec);
	json_known(j->sb, "value", i->value);
	json_known(j->sb, "limit", i->limit);
	json_known(j->sb, "peak_value", i->peak_value);
	json_str(j->sb, "value_unit", i->value_unit);
	json_known(j->sb, "growth_bytes_per_hour", i->growth_bytes_per_hour);
	json_known(j->sb, "full_in_sec", i->full_in_sec);
	json_known(j->sb, "leaked_bytes", i->leaked_bytes);
	add_confidence(j, i->confidence);
	json_str(j->sb, "caveat", i->caveat);
	json_str(j->sb, "message", i->message);
	json_str(j->sb, "documentation", i->documentation);
	add_stack(j, "stack", i->stack);
	json_u64(j->sb, "records", i->records);
	close_object(j);
}

static void add_failure(struct json *j, const struct story_failure *f)
{
	json_open(j->sb);
	add_usec(j, "usec", f->usec);
	add_usec(j, "last_usec", f->last_usec);
	json_u64(j->sb, "count", f->count);
	add_place(j, "host", f->host);
	add_process(j, f->process);
	add_place(j, "device", f->device);
	json_known(j->sb, "bytes", f->bytes);
	json_str(j->sb, "function", f->function);
	json_str(j->sb, "error", f->error);
	json_str(j->sb, "message", f->message);
	add_stack(j, "stack", f->stack);
	json_known(j->sb, "live_bytes", f->live_bytes);
	json_known(j->sb, "device_bytes", f->device_bytes);
	json_known(j->sb, "device_used_bytes", f->device_used_bytes);
	open_list(j, "holders");
	for (size_t i = 0; i < f->holders_len; i++) {
		json_open(j->sb);
		add_process(j, f->holders[i].process);
		json_known(j->sb, "bytes", f->holders[i].bytes);
		add_usec(j, "as_of_usec", f->holders[i].as_of_usec);
		close_object(j);
	}
	close_list(j);
	json_u64(j->sb, "holders_left_out", f->holders_left_out);
	json_known(j->sb, "other_bytes", f->other_bytes);
	close_object(j);
}

static void add_stacks(struct json *j)
{
	json_key(j->sb, "stacks");
	strbuf_addc(j->sb, '{');
	for (size_t i = 0; i < j->s->stacks_len; i++) {
		const struct story_stack *st = j->s->stacks[i];

		json_key(j->sb, st->id);
		strbuf_addc(j->sb, '{');
		open_list(j, "frames");
		for (const char *line = st->text; line && *line;) {
			size_t len = strcspn(line, "\n");
			_cleanup_strbuf_ struct strbuf frame = STRBUF_INIT;

			strbuf_add(&frame, line, len);
			strbuf_adds(j->sb, line > st->text ? "," : "");
			json_string(j->sb, strbuf_str(&frame));
			if (frame.error)
				j->sb->error = frame.error;
			line += len + (line[len] == '\n');
		}
		close_list(j);
		json_str(j->sb, "info", st->info);
		close_object(j);
	}
	close_object(j);
}

static void add_gaps(struct json *j)
{
	open_list(j, "gaps");
	for (size_t i = 0; i < j->s->gaps_len; i++) {
		const struct story_gap *g = j->s->gaps[i];

		json_open(j->sb);
		json_str(j->sb, "kind", story_gap_name(g->kind));
		add_place(j, "host", g->host);
		add_usec(j, "from_usec", g->from_usec);
		add_usec(j, "until_usec", g->until_usec);
		json_known(j->sb, "count", g->count > 0 ? g->count : STORY_ABSENT);
		json_str(j->sb, "text", g->text);
		close_object(j);
	}
	close_list(j);
}

static void add_left_out(struct json *j)
{
	const struct {
		const char *what;
		uint64_t count;
	} lists[] = { { "hosts", j->s->left_out.hosts },	 { "devices", j->s->left_out.devices },
		      { "processes", j->s->left_out.processes }, { "incidents", j->s->left_out.incidents },
		      { "failures", j->s->left_out.failures },	 { "sites", j->s->left_out.sites },
		      { "stacks", j->s->left_out.stacks },	 { "gaps", j->s->left_out.gaps },
		      { "holders", j->s->left_out.holders },	 { "unreadable", j->s->left_out.unreadable } };

	open_list(j, "left_out");
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		if (lists[i].count == 0)
			continue;
		json_open(j->sb);
		json_str(j->sb, "what", lists[i].what);
		json_u64(j->sb, "count", lists[i].count);
		close_object(j);
	}
	close_list(j);
}

void render_json(const struct story *s, struct strbuf *sb)
{
	struct json j = { .s = s, .sb = sb };

	learn_places(&j);
	strbuf_addc(sb, '{');
	json_str(sb, "version", GPUXRAY_VERSION);
	json_u64(sb, "from_usec", s->from_usec);
	json_u64(sb, "until_usec", s->until_usec);
	json_u64(sb, "records", s->records);
	add_hosts(&j);
	add_devices(&j);
	add_processes(&j);
	open_list(&j, "incidents");
	for (size_t i = 0; i < s->incidents_len; i++)
		add_incident(&j, s->incidents[i]);
	close_list(&j);
	open_list(&j, "failures");
	for (size_t i = 0; i < s->failures_len; i++)
		add_failure(&j, s->failures[i]);
	close_list(&j);
	add_stacks(&j);
	add_gaps(&j);
	add_left_out(&j);
	strbuf_adds(sb, "}\n");
	map64_done(&j.places);
}
