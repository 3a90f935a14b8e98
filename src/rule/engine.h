/* SPDX-License-Identifier: MIT */
/*
 * The pure core: events and a clock in, reports and armed bounds out. It does no I/O, and the daemon, recorded traces and
 * tests all run it. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../bpf/event.h"
#include "base/limits.h"
#include "base/strbuf.h"
#include "model/identity.h"
#include "model/stack.h"
#include "rule/input.h"
#include "rule/report.h"
#include "rule/rule.h"

struct engine;
struct process; /* model/process.h */

struct engine_ops {
	/* Takes ownership of the report. */
	void (*report)(struct report *r, void *userdata);
	/* Next totals of device-class bytes (and smallest single allocation) at which the daemon must be woken for this
	 * process. high ~0, low 0 and single ~0 mean never. Called only when they change. */
	void (*arm)(uint32_t pid, uint64_t start_ns, uint64_t high, uint64_t low, uint64_t single, void *userdata);
	/* Name of a driver function by row of the call table, and of its error codes; static strings, may return NULL. */
	const char *(*call_name)(uint32_t call, void *userdata);
	/* The stack is no longer kept: events must not name it again without its being set anew. May be NULL. */
	void (*forget_stack)(const struct stack *s, void *userdata);
	/* The process is about to be forgotten: these are its last books. May be NULL. */
	void (*ended)(const struct process *p, void *userdata);
	/* 16 random bytes for an incident id. */
	void (*random_id)(uint8_t ret[16], void *userdata);
	/* Appends what the status and messages of rules may show of a text that a process chose. May be NULL: all of it. */
	void (*clean)(const char *text, struct strbuf *sb, void *userdata);
	uint32_t omit; /* what messages of rules do not tell: OMIT_BIT()s as omit_implied() returns them */
};

int engine_new(const struct limits *limits, const struct engine_ops *ops, void *userdata, struct engine **ret);
void engine_free(struct engine *e); /* accepts NULL; resolves nothing, says nothing */
DEFINE_CLEANUP(struct engine, engine_free)

/* Takes ownership. State of rules whose name and meaning are unchanged carries over, incidents of others are resolved. */
int engine_set_rules(struct engine *e, struct ruleset *rs, uint64_t now_ns, uint64_t real_usec);

/*
 * One change. now_ns is the monotonic clock at processing time, real_usec the wall clock; the event's own time_ns is used
 * for windows and births. ALLOC, FREE, FAIL, PROCESS, EXEC, EXIT are handled here; UUID goes to
 * engine_set_ordinal(), STACK to engine_set_stack(). Unknown
 * types are ignored. 0 or -ENOMEM (the books of that process are then marked inexact).
 */
int engine_event(struct engine *e, const struct event *ev, uint64_t now_ns, uint64_t real_usec);
/* Once a second: rates, leaks, pending and resolving incidents, repeats. Every rule is evaluated each tick. */
void engine_tick(struct engine *e, uint64_t now_ns, uint64_t real_usec);

/* Identity of a process; takes a reference. Rules with a match wait for it (at most 1 s of event time). */
int engine_set_identity(struct engine *e, uint32_t pid, uint64_t start_ns, struct identity *id);
/*
 * A stack of that process, by its number (s->key), as events name it; takes a reference. It need not be resolved yet: its
 * bytes are a call site of their own until engine_set_site(). Overwrites nothing; beyond the limit it is counted and
 * dropped.
 */
int engine_set_stack(struct engine *e, uint32_t pid, uint64_t start_ns, struct stack *s);
/*
 * The stack has been resolved: what was allocated with this number belongs to the call site with this key (frames.site),
 * together with other stacks of the same key. Bytes, counts and what rules remember move there. 0, -ESRCH, -ENOENT (no
 * such stack any more), -ENOMEM (it stays where it was).
 */
int engine_set_site(struct engine *e, uint32_t pid, uint64_t start_ns, uint64_t stack, uint64_t site);
/* The process calls device uuid by this ordinal. uuid_text as "GPU-xxxxxxxx-...". */
int engine_set_ordinal(struct engine *e, uint32_t pid, uint64_t start_ns, int ordinal, const char *uuid_text);
/* What the driver says of a device; index < 0 and ABSENT_U64 where not known. */
int engine_set_device(struct engine *e, const char *uuid_text, int index, const char *name, uint64_t total_bytes,
		      uint64_t used_bytes);
/* All devices of a snapshot have been told. Of the others nobody knows now what is in use; is_complete: they are there no
 * more (instances of a card that was cut up anew), and are forgotten as soon as no process uses them. */
void engine_end_devices(struct engine *e, bool is_complete);

/*
 * What the driver says that processes hold: begin, one call a process and device, end. A process that holds memory and is
 * not in the books is added to them (is_covered false). bytes UINT64_MAX: the driver knows the process and not its bytes.
 * older: the process started before its calls were probed, so the difference at first sight is its baseline. What an end
 * finds unmentioned holds 0 from then on; is_complete false (a device did not answer): it is not known instead. uuid may
 * be NULL. The end judges untracked_growth, and gives the report of a process that has become uncovered long enough.
 * 0, -ENOSPC, -ENOMEM.
 */
void engine_driver_begin(struct engine *e);
int engine_driver(struct engine *e, uint32_t pid, uint64_t start_ns, const char *uuid, uint64_t bytes, bool older);
void engine_driver_end(struct engine *e, bool is_complete, uint64_t now_ns, uint64_t real_usec);
/* Why a process that holds memory shows no call; a static text. is_expected: that is as it should be, no record of it is
 * wanted. */
void engine_set_coverage(struct engine *e, uint32_t pid, uint64_t start_ns, const char *reason, bool is_expected);
/* What is wrong with a process: enum process_condition bits, 0 = nothing. Judged at the next tick. */
void engine_set_condition(struct engine *e, uint32_t pid, uint64_t start_ns, uint32_t condition, uint64_t now_ns);

/*
 * Incidents that outlive the daemon. save is called for each one that was said, with what restore wants back; the memory
 * is the engine's and only valid during the call. A restored incident waits for its rule and subject: when the condition
 * is found true again it goes on under its id with the next number, as a repeat; if it is not found true within the
 * rule's keep_firing_for and at least wait_ns, it is resolved under its id.
 */
struct incident_saved {
	const char *rule;
	uint64_t meaning; /* of the rule; another meaning does not go on */
	uint32_t scope;	  /* enum rule_scope */
	uint32_t pid;	  /* of a process or one of its sites; 0: a group */
	uint64_t start_ns;
	uint64_t site;	  /* leaks by stack: the site's key; 0 = none */
	const char *key;  /* of a group; NULL */
	uint8_t id[16];
	uint32_t seq;
	uint64_t fired_ns, said_ns, peak_value; /* monotonic clock: of the same boot */
	/* For its end, should rule or subject be gone by then; what an incident was raised to it also keeps. */
	uint32_t kind, severity;	/* enum rule_kind; enum severity of its last record */
	uint64_t value, limit;		/* as last found */
	uint32_t unit;			/* enum value_unit */
	struct identity *identity;	/* of the process: borrowed by save, restore takes a reference; may be NULL */
};
void engine_save_incidents(struct engine *e, void (*save)(const struct incident_saved *s, void *userdata), void *userdata);
int engine_restore_incident(struct engine *e, const struct incident_saved *s, uint64_t now_ns, uint64_t wait_ns);

/*
 * Where growth of call sites has stopped by itself, in all processes there were: as much is expected of them in the next.
 * id: frames.id, the same in every run; bytes: what the site held; seen_ns: when that was last learnt or of use, on the
 * monotonic clock of this boot, negative where it was before it.
 */
void engine_save_bounds(const struct engine *e,
			void (*save)(uint64_t id, uint64_t bytes, int64_t seen_ns, void *userdata), void *userdata);
/* Of two of a site the larger counts. Beyond the limit the one that was seen longest ago makes room. 0 or -ENOMEM. */
int engine_learn_bound(struct engine *e, uint64_t id, uint64_t bytes, int64_t seen_ns);

/* Events of this process were lost. Its verdicts are inexact and its leak rules wait until a rebuild has been through and
 * one full window has passed. */
int engine_lost(struct engine *e, uint32_t pid, uint64_t start_ns, uint64_t count, uint64_t now_ns);
/*
 * Rebuild from the kernel's books: begin forgets the process's live blocks (not its peak and counts), add puts each
 * surviving block back (as an ALLOC event; counts nothing), end sets the counters.
 */
int engine_rebuild_begin(struct engine *e, uint32_t pid, uint64_t start_ns);
int engine_rebuild_add(struct engine *e, const struct event *ev);
int engine_rebuild_end(struct engine *e, uint32_t pid, uint64_t start_ns, const struct books *b, uint64_t now_ns,
		       uint64_t real_usec);

/* For the daemon's edges: NULL when unknown. */
struct process *engine_process(struct engine *e, uint32_t pid, uint64_t start_ns);
/* The newest bearer of the pid. */
struct process *engine_newest_process(struct engine *e, uint32_t pid);
/* Walks the processes; start with *iter = 0. */
struct process *engine_next_process(struct engine *e, size_t *iter);

/*
 * The history: reports of REPORT_SAMPLE, REPORT_PROCESS_EXIT and REPORT_SITE come too, samples of a process and device at
 * most each interval_ns once it has been there for a while. 0, as it is at first: none. See rule/sample.h.
 */
void engine_set_history(struct engine *e, uint64_t interval_ns);
/* How much the boot-time clock is ahead of the monotonic one. */
void engine_set_boot_offset(struct engine *e, uint64_t ns);
/* Tells what has changed since the last samples: before a stop. */
void engine_history_flush(struct engine *e, uint64_t now_ns, uint64_t real_usec);

/* Of the engine's samples for the journal. */
struct history_stats {
	uint64_t told;	   /* reports */
	uint64_t last_minute; /* of them, in the minute that runs */
	uint64_t delayed;  /* processes whose samples had to wait for want of budget */
	uint64_t lost;	   /* ends of processes that were not told for want of it */
	uint32_t stretch;  /* the interval is so many times what it was set to */
};
void engine_history_stats(const struct engine *e, struct history_stats *ret);

/* Of all processes that are traced. */
struct engine_totals {
	uint64_t processes, live_bytes, host_bytes, managed_bytes, framework_bytes, events, lost_events;
	uint64_t alloc_count, free_count, fail_count; /* those of processes that have ended too */
	uint64_t uncovered; /* processes that hold memory and show no call */
	uint64_t firing, pending;
	uint64_t overflow_processes, overflow_sites, overflow_stacks, overflow_incidents;
	uint64_t sites, stacks; /* of all processes */
	uint64_t overflow_all;	/* sites and stacks over the limit of all processes together: in those above too */
	uint64_t suppressed; /* records held back by budgets */
	bool exact;
};
void engine_totals(struct engine *e, struct engine_totals *ret);

/* Every limit of the engine, what of it is used, and how often it was not enough. */
typedef void (*limit_fn)(const char *name, uint64_t used, uint64_t max, uint64_t overflows, void *userdata);
void engine_each_limit(struct engine *e, limit_fn fn, void *userdata);
/* The "processes", "devices", "rules" and, last, "limits" members of `status --json`, as in interface.md, without braces
 * around them: take the last byte off to add limits of one's own. And the same as text tables. */
void engine_status_json(struct engine *e, struct strbuf *sb, uint64_t now_ns);
void engine_status_text(struct engine *e, struct strbuf *sb, uint64_t now_ns);
