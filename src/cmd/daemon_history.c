/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/units.h"
#include "cmd/daemon_internal.h"

/* Less than that is the two clocks being read one after the other. */
#define ASLEEP_NS (5 * NSEC_PER_SEC)

static uint64_t boot_offset(void)
{
	uint64_t monotonic = clock_monotonic_ns(), boot = clock_boot_ns();

	return boot > monotonic ? boot - monotonic : 0;
}

void daemon_history_start(struct daemon *d)
{
	d->boot_offset_ns = boot_offset();
	if (!daemon_is_bare(d))
		engine_set_history(d->engine, d->settings->sample_interval_ns);
	engine_set_boot_offset(d->engine, d->boot_offset_ns);
}

void daemon_history_tick(struct daemon *d)
{
	uint64_t now = boot_offset(), slept = now - MIN(d->boot_offset_ns, now);
	char text[FORMAT_UNITS_MAX];

	if (slept < ASLEEP_NS)
		return;
	d->boot_offset_ns = now;
	engine_set_boot_offset(d->engine, now);
	d->asleep_ns = slept;
	log_info("the host was asleep for %s", format_duration(text, slept));
	daemon_say_health(d);
	d->asleep_ns = 0;
}

void daemon_history_details(struct daemon *d, struct strbuf *sb)
{
	struct history_stats s;

	engine_history_stats(d->engine, &s);
	strbuf_addf(sb, "GPUXRAY_HEALTH_SEC=%llu\n", (unsigned long long)(d->settings->health_interval_ns / NSEC_PER_SEC));
	strbuf_addf(sb, "GPUXRAY_SAMPLE_SEC=%llu\n",
		    (unsigned long long)(d->settings->sample_interval_ns * s.stretch / NSEC_PER_SEC));
	if (s.lost)
		strbuf_addf(sb, "GPUXRAY_HISTORY_LOST=%llu\n", (unsigned long long)s.lost);
	if (d->asleep_ns)
		strbuf_addf(sb, "GPUXRAY_ASLEEP_SEC=%llu\n", (unsigned long long)(d->asleep_ns / NSEC_PER_SEC));
}

void daemon_history_limit(struct daemon *d, limit_fn fn, void *userdata)
{
	struct history_stats s;

	engine_history_stats(d->engine, &s);
	fn("history_per_minute", s.last_minute, d->settings->limits.history_per_minute, s.delayed + s.lost, userdata);
}
