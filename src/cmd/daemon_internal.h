/* SPDX-License-Identifier: MIT */
/* Shared by the daemon's own files only. */
#pragma once

#include <systemd/sd-event.h>

#include "base/map64.h"
#include "cmd/daemon.h"
#include "cmd/resync.h"
#include "cmd/status_server.h"
#include "proc/nvml.h"
#include "rule/engine.h"
#include "stack/resolver.h"
#include "trace/library.h"
#include "trace/mmap_watch.h"
#include "trace/tracer.h"

#define TICK_NS NSEC_PER_SEC
#define DRAIN_EVENTS_MAX 65536

/* What the edges keep of a traced process beside the engine's books. */
struct known {
	uint32_t pid;
	uint64_t start_ns;
	bool is_changed;	     /* events since the books were last compared */
	uint64_t lost_seen;	     /* of books.lost_count */
	uint64_t devices_named;	     /* bit d+1: ordinal d has a uuid */
	bool wants_device;	     /* an ordinal has no uuid yet: ask again when the driver has been read */
	uint64_t ordinals_seen;	     /* bit d+1 */
};

struct daemon {
	const struct daemon_options *options;
	struct settings *settings;
	struct tracer *tracer;
	struct libraries *libraries;
	struct mmap_watch *mmaps;
	struct engine *engine;
	struct resync *resync;
	struct objects *objects; /* files that stacks point into, for the resolver and the reporter */
	struct allocators *allocators;
	struct resolver *resolver;
	struct reporter *reporter;
	struct redact *redact;
	struct nvml_watch *nvml;
	struct gpu_snapshot gpus; /* latest; empty until read */
	struct status_server *status;
	sd_event *event;
	sd_event_source *ring_source, *mmap_source, *mmap_timer, *drain_timer, *tick_timer;
	struct map64 known; /* the newest bearer of each pid */
	struct known *last; /* of the last event */
	uint64_t lost_seen; /* COUNTER_LOST at the last tick */
	uint64_t events;
	uint64_t started_ns, health_ns, sweep_ns, status_ns;
	uint64_t real_usec, now_ns; /* of the drain in progress */
	char digest[17];
	size_t rule_count;
	bool drain_again; /* a bound was passed before it was armed */
	bool libraries_said;
	bool wants_scan;   /* mapping records were lost */
	bool is_drained;   /* the last drain left nothing behind */
	bool wants_end;	   /* ends of processes may have been lost */
	size_t check_iter; /* where the comparison of books goes on */
};

/* daemon_events.c */
void daemon_drain(struct daemon *d);
struct known *daemon_known(struct daemon *d, uint32_t pid, uint64_t start_ns);
/* Its end was not seen: ends it in the engine too. */
void daemon_end(struct daemon *d, uint32_t pid, uint64_t start_ns);
void daemon_mapped(uint32_t pid, const struct mapping *m, void *userdata);
/* Takes what the resolver has found out. */
void daemon_resolved(struct daemon *d);
/* Names ordinals of processes that never asked the driver for a UUID in our sight. */
void daemon_name_devices(struct daemon *d, struct known *k);

/* daemon_check.c: the books in the kernel against the engine's */
void daemon_check_books(struct daemon *d);

/* daemon_report.c */
void daemon_say(struct daemon *d, enum report_event event, enum severity severity, const char *fmt, ...) _printf_(4, 5);
void daemon_say_health(struct daemon *d);
/* Reads the rules and says what is wrong with them. The caller owns *ret. */
int daemon_read_rules(struct daemon *d, struct errors *errors, struct ruleset **ret);
/* Hands them to the engine; takes ownership in any case. */
int daemon_apply_rules(struct daemon *d, struct ruleset *rs);
/* Refused rules never replace working ones. */
int daemon_reload_rules(struct daemon *d);
void daemon_status_text(struct daemon *d, bool json, struct strbuf *sb);
void daemon_notify_status(struct daemon *d);
