/* SPDX-License-Identifier: MIT */
#include "rule/sample_fill.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "model/saturate.h"

uint64_t sample_wall_usec(const struct occasion *o, uint64_t time_ns)
{
	return time_ns ? o->real_usec - MIN(sat_diff(o->time_ns, time_ns) / NSEC_PER_USEC, o->real_usec) : 0;
}

static struct report *fill_common(enum report_event event, const struct process *p, const struct occasion *o)
{
	_cleanup_(report_freep) struct report *r = report_new(event);

	if (!r)
		return NULL;
	r->severity = SEVERITY_INFO;
	r->real_usec = o->real_usec;
	r->scope = SCOPE_PROCESS;
	r->classes = CLASS_DEVICE_MASK;
	/* Nobody has told who it is: then pid and start time must do. */
	r->id = p->id ? identity_ref(p->id) : identity_bare(p->pid, p->start_ns);
	return r->id ? TAKE_PTR(r) : NULL;
}

static void fill_counts(struct report *r, const struct process *p, const struct occasion *o)
{
	fill_process_books(r, p, o);
	r->peak_usec = p->watch->peak_usec;
	r->alloc_count = p->alloc_count;
	r->free_count = p->free_count;
	r->fail_count = p->fail_count;
	r->allocated_bytes = sat_sum(p->allocated, CLASS_DEVICE_MASK);
}

static uint64_t site_id(const struct site *s)
{
	const struct frames *f = s->stack ? stack_frames(s->stack) : NULL;

	return f ? f->id : 0;
}

/* Sites that hold device memory, of one ordinal or (any) of all, most bytes first, into r. ret: the first site of each. Those
 * whose stacks have been found to be the same, but are not one yet, are one here. */
static size_t fill_sites(struct report *r, const struct process *p, int ordinal, bool is_any,
			 struct site *ret[REPORT_SITES_MAX])
{
	size_t iter = 0, len = 0;
	struct site *s;

	while ((s = process_next_site(p, &iter))) {
		struct report_site one = { .bytes = site_live_bytes(s, CLASS_DEVICE_MASK), .blocks = s->blocks };
		uint64_t id = site_id(s);
		struct site *of = s;
		size_t at = 0;

		if (one.bytes == 0 || (!is_any && s->device != ordinal))
			continue;
		while (at < len && !(id && id == site_id(ret[at])))
			at++;
		if (at < len) {
			(void)sat_add(&one.bytes, r->sites[at].bytes);
			(void)sat_add(&one.blocks, r->sites[at].blocks);
			of = ret[at];
		} else if (len < REPORT_SITES_MAX) {
			len++;
		} else if (one.bytes <= r->sites[--at].bytes) {
			continue;
		}
		for (; at > 0 && r->sites[at - 1].bytes < one.bytes; at--) {
			r->sites[at] = r->sites[at - 1];
			ret[at] = ret[at - 1];
		}
		r->sites[at] = one;
		ret[at] = of;
	}
	for (size_t i = 0; i < len; i++)
		r->sites[i].stack = ret[i]->stack ? stack_ref(ret[i]->stack) : NULL;
	return r->sites_len = len;
}

/* What the driver says of it on that device, in whichever slot that stands. */
static uint64_t driver_bytes(const struct process *p, const struct process_device *pd)
{
	for (size_t i = 0; i < p->devices_len && pd->device; i++) {
		const struct process_device *other = &p->devices[i];

		if (other->device == pd->device && other->driver_bytes != UINT64_MAX && other->driver_bytes > 0)
			return other->driver_bytes;
	}
	return pd->driver_bytes;
}

struct report *sample_fill(struct engine *e, const struct process *p, const struct process_device *pd,
			   struct site *ret_sites[REPORT_SITES_MAX], size_t *ret_sites_len, const struct occasion *o)
{
	_cleanup_(report_freep) struct report *r = fill_common(REPORT_SAMPLE, p, o);
	uint64_t since_ns;

	if (!r)
		return NULL;
	fill_counts(r, p, o);
	r->is_first = !p->watch->is_who_said;
	r->bytes = pd ? pd->held : 0;
	r->driver_bytes = pd ? driver_bytes(p, pd) : ABSENT_U64;
	r->low_bytes = pd ? pd->since.low : 0;
	r->high_bytes = pd ? pd->since.high : 0;
	r->high_usec = pd && pd->since.high > 0 ? pd->since.high_usec : 0;
	since_ns = pd && pd->said.ns > 0 ? pd->said.ns : p->first_ns;
	r->window_sec = sat_diff(o->time_ns, since_ns) / NSEC_PER_SEC;
	*ret_sites_len = pd ? fill_sites(r, p, pd->ordinal, false, ret_sites) : 0;
	return fill_device(r, pd ? pd->device : NULL) < 0 ? NULL : TAKE_PTR(r);
}

struct report *sample_fill_site(struct engine *e, const struct process *p, struct site *site, const struct occasion *o)
{
	struct report *r = fill_common(REPORT_SITE, p, o);

	if (!r)
		return NULL;
	if (e->ops.call_name)
		r->function = e->ops.call_name(site->call, e->userdata);
	r->stack = stack_ref(site->stack);
	r->stack_bytes = site_live_bytes(site, CLASS_DEVICE_MASK);
	return r;
}

static int fill_device_peaks(struct report *r, const struct process *p)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	for (size_t i = 0; i < p->devices_len; i++) {
		const struct process_device *pd = &p->devices[i];

		if (pd->peak_bytes > 0)
			strbuf_addf(&sb, "%s%s %" PRIu64 " %" PRIu64, sb.len ? "\n" : "",
				    pd->device ? pd->device->uuid : "-", pd->peak_bytes, pd->peak_usec);
	}
	return sb.len > 0 ? strbuf_steal(&sb, &r->device_peaks) : sb.error;
}

/* The slot on which it held most in its life. */
static const struct process_device *peak_device(const struct process *p)
{
	const struct process_device *best = NULL;

	for (size_t i = 0; i < p->devices_len; i++) {
		if (!best || p->devices[i].peak_bytes > best->peak_bytes)
			best = &p->devices[i];
	}
	return best;
}

struct report *sample_fill_exit(struct engine *e, struct process *p, const struct occasion *o)
{
	_cleanup_(report_freep) struct report *r = fill_common(REPORT_PROCESS_EXIT, p, o);
	const struct process_device *pd = peak_device(p);
	struct site *sites[REPORT_SITES_MAX];
	struct stack *peak = p->peak_stack ? process_stack(p, p->peak_stack) : NULL;

	if (!r)
		return NULL;
	fill_counts(r, p, o);
	r->process_ended = true;
	/* Both clocks count from boot; the one of the start does not stop while the host sleeps. */
	r->duration_ns = sat_diff(o->time_ns + e->sampling.boot_offset_ns, p->start_ns);
	(void)fill_sites(r, p, 0, true, sites);
	if (peak)
		r->stack = stack_ref(peak);
	if (fill_device_peaks(r, p) < 0)
		return NULL;
	return fill_device(r, pd ? pd->device : NULL) < 0 ? NULL : TAKE_PTR(r);
}
