/* SPDX-License-Identifier: MIT */
/* Shared by the daemon's own files only. */
#pragma once

#include <systemd/sd-event.h>

#include "base/map64.h"
#include "cmd/daemon.h"
#include "cmd/daemon_keep.h"
#include "cmd/daemon_view.h"
#include "cmd/resync.h"
#include "cmd/status_server.h"
#include "proc/nvml.h"
#include "rule/engine.h"
#include "stack/resolver.h"
#include "trace/library.h"
#include "trace/mmap_watch.h"
#include "trace/tracer.h"
#include "view/view.h"

#define TICK_NS NSEC_PER_SEC
#define DRAIN_EVENTS_MAX 65536
#define LOG_LINES_PER_MINUTE 240

/* What the edges keep of a traced process beside the engine's books. */
struct known {
	uint32_t pid;
	uint64_t start_ns;
	bool is_changed;	     /* events since the books were last compared */
	uint64_t lost_seen;	     /* of books.lost_count */
	uint64_t rebuilt_ns, rebuilt_changes; /* when a rebuild was last asked for, at how many changes */
	uint64_t devices_named;	     /* bit d+1: ordinal d has a uuid */
	bool wants_device;	     /* an ordinal has no uuid yet: ask again when the driver has been read */
	uint64_t ordinals_seen;	     /* bit d+1 */
	bool is_hip;		     /* its ordinals are AMD's */
	uint64_t kept_allocs;	     /* of process.alloc_count, when its totals were last written to the state */
};

#define MISSING_MAX 64

/* Where the look at what the driver says stands. */
struct driver_watch {
	bool is_foreign; /* the driver's pids are not ours: its figures belong to nobody that we know */
	uint64_t since_boot_ns; /* boot clock: what started before was not traced from its start */
	uint32_t missing[MISSING_MAX]; /* pids of the last snapshot that no process has */
	size_t missing_len;
	uint64_t snapshot_ns, before_ns; /* when the last snapshot came, and the one before it; 0 = none has */
	size_t look_iter;	/* where the look at /proc goes on */
	uint64_t round_ns;	/* when the round began; 0 = none is under way */
	uint64_t next_ns;	/* when the next one begins */
	uint64_t looks, late_rounds; /* rounds that took longer than they should */
	uint64_t deferred;	/* processes left for a later snapshot */
	uint64_t left_out;	/* devices for which there was no room: counted at each snapshot */
};

/* The recording of what the engine is told. */
struct daemon_tap {
	struct recorder *recorder; /* NULL = none, or it has failed */
	uint64_t *start_ticks;	   /* of options.pids, 0 = it has ended */
	uint64_t end_ns;	   /* 0 = never */
	bool has_progress;	   /* a line on the terminal is to be written over */
	int error;
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
	struct driver_watch driver;
	struct status_server *status;
	struct daemon_views views;
	struct metrics_server *metrics; /* NULL = neither listener nor file */
	sd_event *event;
	sd_event_source *ring_source, *mmap_source, *mmap_timer, *drain_timer, *tick_timer;
	struct daemon_keep kept; /* across a restart */
	struct daemon_tap tap;
	struct map64 known; /* the newest bearer of each pid */
	uint64_t names_seen; /* of the answers about users */
	size_t rename_iter;  /* where the look for their processes goes on; 0 = none is under way */
	struct known *last; /* of the last event */
	uint64_t lost_seen; /* COUNTER_LOST at the last tick */
	uint64_t events;
	uint64_t boot_offset_ns; /* the boot clock is so much ahead of the monotonic one */
	uint64_t asleep_ns;	 /* a suspend that the next health record tells of, 0 = none */
	uint64_t started_ns, health_ns, sweep_ns, status_ns;
	uint64_t real_usec, now_ns; /* of the drain in progress */
	char digest[17];
	char *refused; /* why the last reload was, file and line; NULL: it was not. It stays in the unit's status */
	size_t rule_count;
	bool drain_again; /* a bound was passed before it was armed */
	bool libraries_said;
	bool wants_scan;   /* mapping records were lost */
	bool is_drained;   /* the last drain left nothing behind of what had been counted when it began */
	bool wants_end;	   /* ends of processes may have been lost */
	size_t check_iter; /* where the comparison of books goes on */
	size_t name_iter;  /* where the naming of devices goes on */
};

/* It serves one command, with neither rules nor records nor a state that is kept. */
static inline bool daemon_is_bare(const struct daemon *d)
{
	return d->options->recording.is_all || d->options->is_view;
}

/* daemon_events.c */
void daemon_drain(struct daemon *d);
/* One event of the ring. */
void daemon_event(struct daemon *d, const struct event *ev, size_t size);
struct known *daemon_known(struct daemon *d, uint32_t pid, uint64_t start_ns);
/* Users whose names have come late. Each tick. */
void daemon_rename_users(struct daemon *d);
/* Its end was not seen: ends it in the engine too. */
void daemon_end(struct daemon *d, uint32_t pid, uint64_t start_ns);
void daemon_mapped(uint32_t pid, const struct mapping *m, void *userdata);
/* Takes what the resolver has found out. */
void daemon_resolved(struct daemon *d);

/* daemon_devices.c */
/* The process calls this device by that ordinal. */
void daemon_set_ordinal(struct daemon *d, struct known *k, int ordinal, const char *uuid);
/* It has asked the driver for a uuid. */
void daemon_uuid(struct daemon *d, struct known *k, const struct event *ev, size_t size);
/* Events of it were lost: asks for the uuids that it was told. gen: books.gen. */
void daemon_recall_uuids(struct daemon *d, struct known *k, uint32_t gen);
/* It has memory on this ordinal, by a call of this row: if nobody has told which device that is, finds out. */
void daemon_note_ordinal(struct daemon *d, struct known *k, int ordinal, uint32_t row);
/* A snapshot has come: names ordinals of processes that never asked the driver for a uuid in our sight; of some of them,
 * the others' turn is the next snapshot's. */
void daemon_name_devices(struct daemon *d);

/* daemon_check.c: the books in the kernel against the engine's */
void daemon_check_books(struct daemon *d);

/* daemon_driver.c: what the driver says of processes, and what /proc says of those that hold memory */
/* Tracing has begun. */
void daemon_driver_start(struct daemon *d);
/* A snapshot has come. */
void daemon_driver_snapshot(struct daemon *d);
void daemon_driver_tick(struct daemon *d);
/* Members of the status. */
void daemon_driver_json(struct daemon *d, struct strbuf *sb);

/* daemon_record.c: all that the engine is told, to a file */
/* The engine is there, and has been told nothing yet. 0, or -errno after saying why. */
int daemon_record_start(struct daemon *d);
/* It has been resolved, and the engine no longer knows its process. */
void daemon_record_stack(struct daemon *d, struct stack *s);
/* After the engine's tick. Ends the loop where the recording is all there is to do and it is over. */
void daemon_record_tick(struct daemon *d);
/* 0 or the error of the file, which has been said. */
int daemon_record_stop(struct daemon *d);

/* daemon_history.c: samples of what processes hold, and that the host slept */
void daemon_history_start(struct daemon *d);
/* Before the engine's tick. */
void daemon_history_tick(struct daemon *d);
/* Members of the health record and of the status's limits. */
void daemon_history_details(struct daemon *d, struct strbuf *sb);
void daemon_history_limit(struct daemon *d, limit_fn fn, void *userdata);

/* daemon_view.c */
/* All of it as plain values, of stacks their ids alone. 0 or -ENOMEM; the caller frees *ret. */
int daemon_view(struct daemon *d, const struct view_query *q, struct view **ret);
/* The question of a session; as a status_fn. */
int daemon_view_request(struct daemon *d, struct status_client *c, const char *request, struct strbuf *sb);
/* The process is about to be forgotten by the engine. */
void daemon_view_ended(struct daemon *d, const struct process *p);
void daemon_view_tick(struct daemon *d);
void daemon_view_done(struct daemon *d);

/* daemon_metrics.c: the daemon's own listener and text file. 0 or -errno after saying why: the daemon does without. */
int daemon_metrics_start(struct daemon *d);
void daemon_metrics_stop(struct daemon *d);

/* daemon_privilege.c: of the main thread's capabilities those that the start alone needed. The others give up theirs. */
void daemon_give_up(struct daemon *d);

/* daemon_pools.c: members of the status */
void daemon_pools_json(struct daemon *d, struct strbuf *sb);

/* daemon_report.c */
void daemon_say(struct daemon *d, enum report_event event, enum severity severity, const char *fmt, ...) _printf_(4, 5);
void daemon_say_health(struct daemon *d);
/* Reads the rules and says what is wrong with them. The caller owns *ret. */
int daemon_read_rules(struct daemon *d, struct errors *errors, struct ruleset **ret);
/* Hands them to the engine; takes ownership in any case. */
int daemon_apply_rules(struct daemon *d, struct ruleset *rs);
/* Refused rules never replace working ones. */
int daemon_reload_rules(struct daemon *d);
/* The limits of the edges; the engine has its own. */
void daemon_each_limit(struct daemon *d, limit_fn fn, void *userdata);
void daemon_status_text(struct daemon *d, bool json, struct strbuf *sb);
void daemon_notify_status(struct daemon *d);
