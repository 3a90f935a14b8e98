/* SPDX-License-Identifier: MIT */
/* When an incident gets worse than its rule says it is. */
#include "base/clock.h"
#include "model/saturate.h"
#include "rule/watch.h"

uint64_t finding_full_in_sec(const struct finding *f, const struct device *dev)
{
	uint64_t free_bytes = dev ? device_free_bytes(dev) : UINT64_MAX;
	double sec;

	if (free_bytes == UINT64_MAX || f->growth_per_hour == 0 || f->growth_per_hour == ABSENT_U64)
		return ABSENT_U64;
	sec = (double)free_bytes / (double)f->growth_per_hour * 3600.0;
	return sec < 1e18 ? (uint64_t)sec : ABSENT_U64;
}

bool rule_fills_device(const struct rule *r)
{
	return (r->classes & ~(CLASS_DEVICE_MASK | 1u << CLASS_FRAMEWORK)) == 0;
}

static bool is_full_soon(const struct incident *inc, const struct finding *f, uint64_t full_in_ns,
			 const struct occasion *o)
{
	const struct subject *s = &inc->subject;
	uint64_t sec;

	/* What a process held is free again when it has ended. */
	if (full_in_ns == 0 || !s->p || o->is_end || !rule_fills_device(inc->rs->rule))
		return false;
	sec = finding_full_in_sec(f, report_device(s->p, s->site, inc->rs->rule, f, NULL));
	return sec != ABSENT_U64 && sec < full_in_ns / NSEC_PER_SEC;
}

static bool is_far_above(const struct engine *e, const struct finding *f, const struct limit *above)
{
	/* What a limit means in bytes is asked of a rule that has no other. */
	const struct rule r = { .fire_above = *above };
	uint64_t limit, resolve;

	if (above->unit == LIMIT_NONE)
		return false;
	if (above->unit == LIMIT_CALLS_PER_SEC || above->unit == LIMIT_BYTES_PER_SEC)
		return (double)f->value > above->value;
	if (above->unit == LIMIT_SHARE && !f->device)
		return false;
	return condition_limits(e, &r, f->device, &limit, &resolve) && f->value > limit;
}

bool incident_rise(const struct engine *e, struct incident *inc, const struct finding *f, const struct occasion *o)
{
	const struct rule_escalate *x = &inc->rs->rule->escalate;

	if (!x->is_set || x->severity <= incident_severity(inc))
		return false;
	if (!is_full_soon(inc, f, x->full_in_ns, o) && !is_far_above(e, f, &x->above) &&
	    !(x->after_ns > 0 && sat_diff(o->time_ns, inc->fired_ns) >= x->after_ns))
		return false;
	inc->severity = x->severity;
	return true;
}

enum severity incident_severity(const struct incident *inc)
{
	return MAX(inc->severity, inc->rs->rule->severity);
}
