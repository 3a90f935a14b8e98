/* SPDX-License-Identifier: MIT */
/* What the engine remembers of rules, processes, sites and groups. Inside the core only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map64.h"
#include "model/device.h"
#include "model/process.h"
#include "rule/engine.h"
#include "rule/incident.h"
#include "rule/leak.h"
#include "rule/sample.h"
#include "rule/window.h"

/* Identity is waited for so long; rules with a match are silent meanwhile. */
#define WATCH_IDENTITY_NS (1 * NSEC_PER_SEC)
/* Single events kept for rules that wait. */
#define WATCH_DEFERRED_MAX 16
/* Rings are kept for so many different (epoch, epochs, classes). */
#define WATCH_SCALES_MAX 16

struct rule_state {
	struct rule *rule;
	bool is_dead;	      /* dropped by a reload; goes when nothing points to it */
	bool has_process_keys; /* its match or except looks at more than the device */
	bool has_device_keys;
	bool is_plain;	      /* compares device-class bytes of all devices with bytes: the kernel's bounds can do it */
	bool is_placed;	      /* while a set of rules is put in order */
	int scale;	      /* of a leak rule, -1 = none */
	uint64_t leak_epoch, leak_before; /* epoch of the last tick; of the one before, or when the rule came */
	struct incident *incidents;
	uint32_t firing, pending, over; /* over: firing beyond max_incidents */
	uint64_t over_said, summary_ns;
	uint64_t budget_start_ns, budget_used; /* start of the running window; records in it */
	uint64_t suppressed;
	struct rule_state **inhibitors; /* rules that silence this one; in engine.inhibitors */
	size_t inhibitors_len;
	uint32_t held;	    /* incidents that fire and are not said because of one of those */
	uint64_t inhibited; /* records that were not written because of one */
};

/* A rule on a subject. */
struct slot {
	struct rule_state *rs;
	struct incident *incident;
	union {
		struct rate_window *rate;   /* alloc_rate */
		struct count_window *count; /* alloc_failure */
		struct growth *growth;	    /* untracked_growth */
	};
	uint64_t devices; /* process: device slots the rule looks at, where it has device keys */
	uint32_t streak;  /* leak: epochs in a row that grew */
	uint32_t calm;	  /* leak: epochs in a row that did not */
	uint32_t group;	  /* leak: level of the last growing verdict */
	bool is_waiting;  /* for the identity */
	bool is_fresh;	  /* has just stopped waiting */
};

/* Processes that share a device, cgroup, unit, user or container; or those of them that a rule's match admits. */
struct group {
	enum rule_scope scope;
	struct rule_state *filter; /* NULL = all */
	char *key;
	struct device *device; /* SCOPE_DEVICE: holds a reference while the device lives */
	uint64_t live[CLASS_MAX];
	uint32_t members;
	struct slot *slots;
	size_t slots_len;
	uint64_t high, low;  /* its value outside of these may change a verdict */
	uint32_t odd_classes; /* events of these need a look whatever the value */
	bool has_rates;
	bool is_dirty;
	struct group *next; /* same hash */
	uint64_t hash;
	size_t index;
};

struct membership {
	struct group *g;
	int slot; /* device slot, -1 = all */
};

struct site_watch {
	struct leak_ring *rings[WATCH_SCALES_MAX];
	struct leak_lives lives;
	uint32_t suspected; /* bit i: a growing verdict at scale i named it, and it has not stopped since */
	struct slot *slots;
	size_t slots_len;
};

struct process_watch {
	struct slot *slots;
	size_t slots_len;
	struct membership *members;
	size_t members_len;
	struct leak_ring *rings[WATCH_SCALES_MAX];
	struct leak_ring *untold[WATCH_SCALES_MAX]; /* of what no call shows, as the driver's figures tell it */
	uint64_t untold_bytes; /* that are in them */
	uint64_t leak_ns; /* leak clock, less its delay, up to which its epochs have been judged; 0 = never looked at */
	struct event *deferred;
	size_t deferred_len;
	bool is_identified; /* or given up waiting for it */
	bool is_waiting;   /* a rule waits for the identity */
	bool is_dirty;	   /* something changed since the last tick */
	bool has_rates;	   /* a rate window is not empty */
	bool has_suspects; /* a site of it is suspected of a leak */
	bool needs_refit;  /* no memory last time, or a device has become known */
	bool needs_rebuild; /* a rebuild ran out of memory */
	bool is_lost;	   /* events were lost and no rebuild has been through */
	uint32_t incidents; /* of it and its sites */
	/* What the driver says of it: see engine_driver.c */
	bool is_named;	   /* in the pass that is under way, or the last one */
	bool is_older;	   /* than the probes on its library */
	bool is_uncovered_said;
	bool is_uncovered_fine; /* no record is wanted */
	bool is_overcounted; /* twice in a row the driver said less than our count */
	bool was_less;	     /* ... once */
	uint64_t named_bytes; /* of the pass under way; UINT64_MAX = the driver did not say */
	uint64_t exact_since_ns; /* leak clock; 0 = always */
	uint64_t high, low;
	uint32_t odd_classes;
	/* The history: see sample.h */
	uint64_t sample_ns; /* when it is looked at next */
	uint64_t samples;   /* told of it */
	uint64_t said_ns;   /* when the last was */
	bool is_due;	    /* one has to wait for its turn: look at the next tick */
	bool is_delayed;    /* ... for want of budget, and is counted */
	bool is_who_said;   /* a sample has told its file and command line */
	uint64_t said_host; /* pinned and managed memory, as last told */
	uint64_t peak_ns, peak_usec; /* of process.peak_ns the wall clock */
	/* what the kernel was told */
	uint64_t armed_high, armed_low, armed_single;
	uint64_t armed_second;
	uint32_t armed_count;
};

/* A stretch of which nothing is known: the machine slept or the daemon did. */
struct jump {
	uint64_t start_ns, end_ns;
	uint64_t before_ns; /* sum of the jumps before it */
};

#define WATCH_JUMPS_MAX 8

/* Room to judge a process in: its sites that count, and their rings at the level that is looked at. */
struct leak_young {
	struct site **sites;
	struct leak_ring **rings;
	size_t len, cap;
};

/*
 * When the epochs of a process are judged. Those of all processes end at the same moment, so all would be judged in one
 * tick: where there are many, each is judged a second later than the one before it in the list, until the next one
 * begins again. All rules of a process have the same delay: those that silence others come first.
 */
#define WATCH_LEAK_DELAYS 16
/* Processes that may be judged in one tick: so few have no delay. */
#define WATCH_LEAK_TOGETHER 32
struct leak_clock {
	uint64_t now_ns, before_ns; /* leak clock at this tick and the one before */
	uint32_t delays;	    /* in use, 1 = none */
	uint32_t due;		    /* bit i: with a delay of i seconds, an epoch has ended between the two */
};

struct engine {
	struct limits limits;
	struct engine_ops ops;
	void *userdata;
	void (*tap)(const struct engine_input *in, void *userdata); /* NULL = nobody listens */
	void *tap_userdata;
	struct ruleset *rules;
	struct rule_state **states; /* those that silence others before those: of one moment they are judged first */
	size_t states_len;
	struct rule_state **inhibitors; /* all lists of inhibitors, one behind the other */
	struct leak_scale scales[WATCH_SCALES_MAX];
	size_t scales_len;
	struct leak_clock leak_clock;
	struct leak_young leak_young;
	struct processes processes;
	struct devices devices;
	struct group **groups;
	size_t groups_len;
	struct map64 groups_by_hash;
	struct jump jumps[WATCH_JUMPS_MAX];
	size_t jumps_len;
	uint64_t now_ns, real_usec; /* latest heard of, 0 = none */
	uint32_t rebuilding; /* processes between begin and end */
	uint64_t incidents; /* objects */
	bool is_summed_badly; /* a sum over processes hit its ceiling */
	uint64_t events, lost_events;
	uint64_t overflow_processes, overflow_incidents;
	uint64_t overflow_sites, overflow_stacks; /* of processes that are gone */
	uint64_t ended_allocs, ended_frees, ended_fails; /* ... calls of theirs */
	uint64_t suppressed;
	struct sampling sampling;
	bool is_driver_pass; /* between engine_driver_begin and _end */
	struct {
		uint64_t start_ns; /* of the stretch of time for which records are counted */
		uint32_t said, held; /* records in it; processes left for later in this pass */
		bool is_summed_up;
	} coverage;
	uint64_t no_memory; /* a rule could not be followed for lack of memory */
	uint64_t bounds_evicted;
	struct map64 bounds; /* struct bound by id: where sites stopped growing, of all processes there were */
	struct restored **restored; /* incidents of an earlier daemon that wait for their subject: incident_keep.c */
	size_t restored_len;
};

/* The clock of leak rules stands still during jumps. */
uint64_t watch_leak_time(const struct engine *e, uint64_t time_ns);
/* When an event's effect starts to count: not within a jump. */
uint64_t watch_event_time(const struct engine *e, uint64_t time_ns);
/* Records a jump if now_ns is further on than it should be; all that waits starts anew. */
void watch_clock(struct engine *e, uint64_t now_ns, uint64_t real_usec);

/* watch.c: life of the watches */
int watch_new(struct process *p);
/* Incidents are gone already. */
void watch_free(struct process *p);
/* Ends all incidents of a process and its sites. */
void watch_vanish(struct engine *e, struct process *p, const struct occasion *o);
/* Moves what is remembered of one site of a process to another, which takes its blocks next. 0 or -ENOMEM, which changes
 * nothing. */
int watch_merge_sites(struct engine *e, struct site *to, struct site *from, const struct occasion *o);
/* Drops what the slot holds but its incident. */
void slot_done(struct slot *slot);
/* Removes the slots whose rule is dead; returns the new length. Their incidents have ended. */
size_t slots_drop_dead(struct slot *slots, size_t len);
/* Slot pointers of incidents after the array has moved. */
void slots_link(struct slot *slots, size_t len);

/*
 * fit.c: which rules speak about whom. Keeps what the slots hold where the rule stays. 0 or -ENOMEM, which is tried
 * again at the next tick. fit_process evaluates what has changed.
 */
int fit_process(struct engine *e, struct process *p, const struct occasion *o);
int fit_group(struct engine *e, struct group *g, const struct occasion *o);
/* The group of a device that no rule's match narrows, if a rule wants it. */
int fit_device(struct engine *e, struct device *dev, const struct occasion *o);
/* Leaves all groups; evaluates those that stay. */
void fit_leave(struct engine *e, struct process *p, const struct occasion *o);

/* group.c */
struct group *group_find(struct engine *e, enum rule_scope scope, struct rule_state *filter, const char *key);
int group_get(struct engine *e, enum rule_scope scope, struct rule_state *filter, const char *key,
	      struct device *device, const struct occasion *o, struct group **ret);
/* Removes it if nobody is in it, unless it stands for a device as such. */
void group_put(struct engine *e, struct group *g, const struct occasion *o);
/* Removes it whoever is in it: its device is going. */
void group_remove(struct engine *e, struct group *g, const struct occasion *o);
void group_free(struct group *g);
uint64_t group_value(const struct group *g, uint32_t classes);
/* Adds or takes all that a process holds. */
void group_join(struct engine *e, struct process *p, const struct membership *m);
void group_leave(struct engine *e, struct process *p, const struct membership *m);
/* Applies one change to devices and groups, and evaluates what it concerns. */
void group_apply(struct engine *e, struct process *p, const struct change *c, const struct occasion *o);
/* Sums up anew after a ceiling was hit. */
void group_sum(struct engine *e);
bool group_is_exact(const struct engine *e, const struct group *g);

/* condition.c: conditions, evaluated on one slot or all of a subject */
void condition_process(struct engine *e, struct process *p, const struct occasion *o);
void condition_group(struct engine *e, struct group *g, const struct occasion *o);
void condition_tick_process(struct engine *e, struct process *p, const struct occasion *o);
/* alloc_rate windows of a process and its groups */
void condition_count(struct process *p, const struct event *ev, int device_slot);
/* single_alloc and alloc_failure; with only_fresh, for the rules that have just learnt who the process is. */
void condition_single(struct engine *e, struct process *p, const struct occasion *o, bool only_fresh);
void condition_exit(struct engine *e, struct process *p, const struct occasion *o);
/* Bytes at which a live_bytes or single_alloc rule fires and resolves; shares are of dev, or of all devices if NULL.
 * false when the capacity is not known. */
bool condition_limits(const struct engine *e, const struct rule *r, const struct device *dev, uint64_t *ret_fire,
		      uint64_t *ret_resolve);
/* Compares what a process holds. */
void condition_measure(const struct engine *e, const struct process *p, const struct slot *slot, struct finding *ret);

/* condition_driver.c: conditions of which the driver or /proc tell */
/* A figure of the driver's has come: what of it no allocation call shows. */
void condition_untracked(struct engine *e, struct process *p, const struct occasion *o);
/* At a tick: orphans, and what a growth was found to be last. */
void condition_tick_driver(struct engine *e, struct process *p, const struct occasion *o);
/* Time has jumped: the figure before it is not to be compared. */
void growth_restart(struct growth *g);
/* The device on which the driver counts most for it, or NULL. */
struct device *driver_device(const struct process *p);

/* leak_book.c */
void leak_book(struct engine *e, struct process *p, const struct change *c, uint64_t birth_ns);
void leak_forget(struct engine *e, struct process *p);
/* The driver counts so much for it that no call shows. */
void leak_book_untold(struct engine *e, struct process *p, uint64_t bytes, uint64_t time_ns);
/* The rings of one site go into another's; incidents of both learn what is no growth since they began. Both have a
 * watch. */
void leak_merge_rings(struct engine *e, struct site *to, struct site *from);
/* condition_leak.c */
/* At a tick: judges the epochs that have ended for a process with such a delay, in seconds. */
void leak_tick(struct engine *e, struct process *p, uint32_t delay, const struct occasion *o);
/* It ends: rules that were not sure enough say what they think. */
void leak_exit(struct engine *e, struct process *p, const struct occasion *o);
/* A tick begins. */
void leak_tick_begin(struct engine *e, uint64_t now_ns);

/* leak_sites.c */
#define LEAK_BOUNDS_MAX 4096
/* A site and its bytes of the judged epochs. */
struct leak_share {
	struct site *site; /* NULL: no call shows them, only the driver */
	uint64_t bytes;
};
void leak_prefetch(const struct engine *e, const struct process *p, int scale, uint64_t epoch);
/* Puts the sites of a process that have anything young into e->leak_young. 0 or -ENOMEM. */
int leak_find_young(struct engine *e, const struct process *p, int scale, uint64_t epoch);
/* Do those of them that count grow, taken together, at that level? Says the same as leak_judge_level() of
 * leak_sum_sites(), and costs less. */
bool leak_young_grow(struct engine *e, const struct process *p, const struct rule_state *rs, uint64_t min_bytes,
		     uint64_t epoch, uint32_t group);
void leak_young_done(struct leak_young *y);
/* All those sites of a process as one ring, to be judged at that level. The caller frees it. NULL: out of memory.
 * ret_frees: of them. */
struct leak_ring *leak_sum_sites(struct engine *e, const struct process *p, int scale, uint64_t epoch, uint32_t group,
				 struct leak_frees *ret_frees);
/* The sites with most of a growth, most first; how many. ret_total: of all sites. */
size_t leak_top_sites(struct engine *e, const struct rule_state *rs, const struct process *p, uint32_t group,
		      struct leak_share ret[REPORT_LEAK_SITES_MAX], uint64_t *ret_total);
/* What the site holds, over where sites of its id have stopped growing. 0 = none has. */
double leak_bound_share(const struct engine *e, const struct site *s);
/* Sites of that id have stopped at so many bytes. 0 or -ENOMEM. */
int leak_learn_bound(struct engine *e, uint64_t id, uint64_t bytes, uint64_t now_ns);
void leak_bounds_done(struct engine *e);
/* A verdict has named it: if it stops, that is learnt. */
void leak_suspect(struct process *p, struct site *s, uint32_t scale);
void leak_settle_suspects(struct engine *e, struct process *p, uint64_t now_ns);

/* bound.c */
void bound_process(struct engine *e, struct process *p);
void bound_group(struct engine *e, struct group *g);
void bound_arm(struct engine *e, struct process *p, const struct occasion *o);

/* fill.c: the report of what happened to a subject. NULL when out of memory. */
struct report *fill_report(struct engine *e, const struct rule_state *rs, const struct subject *s,
			   const struct incident *inc, const struct finding *f, enum report_state state,
			   const struct occasion *o);

/* For sample_fill.c: parts of it. fill_device: dev may be NULL; 0 or -ENOMEM. */
int fill_device(struct report *r, const struct device *dev);
void fill_process_books(struct report *r, const struct process *p, const struct occasion *o);
/* The rule's tags into the report. 0 or -ENOMEM. */
int fill_tags(struct report *r, const struct rule *rule);
/* The device that a report about a process names: what the finding compared, else that of the site or call, else the one
 * with most of its memory. site and ev may be NULL; NULL: none is known. */
const struct device *report_device(const struct process *p, const struct site *site, const struct rule *rule,
				   const struct finding *f, const struct event *ev);

/* That a process holds memory and shows no call. NULL when out of memory. */
struct report *fill_coverage(struct process *p, const struct occasion *o);

/* escalate.c */
/* Until the device is full, at the growth that was found; ABSENT_U64 where that is not known. dev may be NULL. */
uint64_t finding_full_in_sec(const struct finding *f, const struct device *dev);
/* Raises the severity of a firing incident if its rule says so by now; true if it did. */
bool incident_rise(const struct engine *e, struct incident *inc, const struct finding *f, const struct occasion *o);

/* inhibit.c: is the rule silent about this subject now? */
bool incident_is_inhibited(struct engine *e, const struct rule_state *rs, const struct subject *s);
/* A member counts as one; of a device, where it has memory on it. */
bool membership_holds(const struct process *p, const struct membership *m);

/* template.c: a rule's message with its names filled in, but for those the engine is not to tell. 0 or -ENOMEM; *ret is NULL
 * when the rule has none. */
int template_expand(const struct engine *e, const char *text, const struct report *r, char **ret);
