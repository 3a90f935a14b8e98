/* SPDX-License-Identifier: MIT */
/*
 * inactive -> pending -> firing -> resolving -> gone, for one rule and one subject; and what of it is said: budgets,
 * repeats, summaries. No incident is inactive.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "rule/engine.h"
#include "rule/report.h"

struct rule_state;
struct slot;
struct group;
struct site;

enum incident_state {
	INCIDENT_PENDING,
	INCIDENT_FIRING,
	INCIDENT_RESOLVING, /* still firing for the outside */
};

/* What a rule speaks about: a process, one of its sites, or a group. */
struct subject {
	struct process *p; /* NULL for a group */
	struct site *site; /* NULL but for leaks by stack */
	struct group *g;
};

/* What a condition found. */
struct finding {
	bool is_above; /* fires */
	bool is_below; /* resolves */
	bool is_over;  /* leak: it has stopped for good, resolve without waiting */
	uint64_t value, limit;
	enum value_unit unit;
	struct device *device; /* the one that was compared, or NULL; valid for this call only */
	/* leaks; ABSENT_U64 otherwise */
	uint64_t growth_per_hour, leaked_bytes, age_ns;
	uint32_t group;
	double confidence; /* negative = absent */
	uint32_t doubts;   /* enum leak_doubt bits */
};

#define FINDING_INIT                                                                                                   \
	{                                                                                                              \
		.growth_per_hour = ABSENT_U64, .leaked_bytes = ABSENT_U64, .age_ns = ABSENT_U64,                       \
		.confidence = -1,                                                                                      \
	}

/* When, and because of what. */
struct occasion {
	uint64_t time_ns; /* monotonic: of the event, or now */
	uint64_t real_usec; /* the same moment */
	const struct event *ev; /* NULL at a tick */
	bool is_end; /* the process is ending */
};

struct incident {
	struct rule_state *rs;
	struct subject subject;
	struct slot *slot; /* that points back here */
	enum incident_state state;
	bool is_said; /* a record of it was written */
	bool is_over_max; /* beyond max_incidents: in the summary only */
	bool is_inhibited; /* fires, was never said, and an inhibitor is why */
	bool is_alone;	   /* ... that has ended, at alone_ns */
	enum severity severity; /* what it was raised to; the rule's own counts where that is higher */
	enum severity said_severity; /* of its last record */
	uint8_t id[16];
	uint32_t seq;
	uint64_t since_ns; /* of the state */
	uint64_t fired_ns, said_ns, alone_ns;
	uint64_t peak_value;
	struct finding last; /* device is NULL here */
	uint64_t leak_older, leak_began_ns; /* see condition_leak */
	struct incident *prev, *next; /* of the rule */
};

/* One step: creates, moves or ends the incident of a slot. for_ns is how long truth must last before it fires. */
void incident_update(struct engine *e, const struct subject *s, struct slot *slot, uint64_t for_ns,
		     const struct finding *f, const struct occasion *o);
/* "pending", "firing", "resolving", "inhibited"; a static text. */
const char *incident_state_name(const struct incident *inc);
/* The subject or the rule is going: says so if it was said to fire. */
void incident_vanish(struct engine *e, struct incident *inc, const struct occasion *o);
/* A single event: says it at once, with an id of its own. */
void incident_single(struct engine *e, const struct subject *s, struct rule_state *rs, const struct finding *f,
		     const struct occasion *o);
/* One of an earlier daemon goes on: firing, said before, and said again. */
struct incident *incident_continue(struct engine *e, const struct subject *s, struct slot *slot,
				   const struct incident_saved *saved, const struct finding *f, const struct occasion *o);

/*
 * incident_keep.c: the restored ones that wait. The one of this rule and subject that the finding shows to be firing
 * still is taken and goes on; NULL: none.
 */
struct incident *restored_claim(struct engine *e, const struct subject *s, struct slot *slot, const struct finding *f,
				const struct occasion *o);
/* Says the end of those whose time is up. */
void restored_tick(struct engine *e, const struct occasion *o);
/* ... and of all that are about a process, which ends. */
void restored_end(struct engine *e, uint32_t pid, uint64_t start_ns, const struct occasion *o);
void restored_done(struct engine *e);

/* Does the incident of an earlier daemon, of which nobody has heard an end, silence others about this subject? */
bool restored_inhibits(const struct engine *e, const struct rule_state *by, const struct subject *s);
/* escalate.c: does all of what grows take room on the device? Only then it is full some day. */
bool rule_fills_device(const struct rule *r);
/* Its severity in records: never less than that of its rule. */
enum severity incident_severity(const struct incident *inc);

/* Time has jumped: what was waiting waits anew. */
void incident_restart(struct incident *inc, uint64_t now_ns);
/* At the end of a tick: one summary for the incidents beyond the maximum. */
void incident_summarize(struct engine *e, struct rule_state *rs, const struct occasion *o);
