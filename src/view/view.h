/* SPDX-License-Identifier: MIT */
/*
 * What the daemon knows at one moment, as plain values: what `top`, `memtrace` and metrics show. It goes from the daemon
 * to them as text (view_encode(), view_decode()). Texts are such as may be shown: redacted, and NULL where `omit` leaves
 * them out. Pure; a view is its caller's alone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/strbuf.h"

#define VIEW_NONE UINT64_MAX	/* a uint64_t that is not known */
#define VIEW_NONE_32 UINT32_MAX /* a uint32_t that is not known */
#define VIEW_NONE_INT INT64_MIN /* an int64_t that is not known */

/* Of what the driver or sysfs says of a card; MIG instances are devices of their own. */
struct view_device {
	char *uuid;   /* "GPU-...", "MIG-...", "PCI-..." */
	char *name;   /* may be NULL */
	char *driver; /* "nvidia", "amdgpu", ...; may be NULL */
	int64_t index; /* the driver's; VIEW_NONE_INT */
	uint64_t total_bytes, used_bytes; /* VIEW_NONE; in use by everybody, as the driver says */
	uint64_t live_bytes;		  /* of the traced processes */
	uint32_t busy_percent;		  /* of the last interval something ran on it; VIEW_NONE_32 */
	uint32_t memory_busy_percent;	  /* ... its memory was read or written */
	uint32_t celsius, milliwatts, milliwatts_max; /* VIEW_NONE_32 */
};

struct view_process_device {
	char *uuid;    /* NULL = not known which device that is */
	int64_t index; /* the driver's; VIEW_NONE_INT */
	int64_t ordinal; /* the process's own number for it; VIEW_NONE_INT */
	uint64_t live_bytes;
	uint64_t driver_bytes; /* VIEW_NONE */
	uint32_t sm_percent;   /* of the card's multiprocessors, by this process; VIEW_NONE_32 */
};

/* A call site that holds memory, or did. */
struct view_site {
	uint64_t stack_id; /* GPUXRAY_STACK_ID; 0 = not resolved */
	char *function;	   /* driver function of its last allocation; may be NULL */
	char *class_name;  /* "device", "host", ...: of its last allocation */
	char *stack;	   /* frames, innermost first, one a line as in records; NULL = none */
	char *stack_info;  /* why it is cut or missing; NULL = complete */
	uint64_t bytes, blocks, alloc_count;
	uint64_t framework_bytes; /* of frameworks' blocks, in none of the above */
	uint64_t age_ns;	  /* since its first allocation */
	uint64_t idle_ns;	  /* since its last allocation */
	bool is_other;		  /* stands for all sites beyond a limit */
};

struct view_process {
	uint32_t pid;
	uint32_t ppid;	      /* VIEW_NONE_32 */
	uint64_t start_ticks; /* since boot, field 22 of /proc/PID/stat */
	uint64_t start_usec;  /* wall clock; VIEW_NONE */
	char *comm, *exe, *cmdline, *user, *unit, *container, *runtime, *pod; /* each may be NULL */
	char *pod_name, *pod_namespace, *container_name, *slurm_job, *tag, *parent;
	bool is_covered;	/* false: it holds memory and shows no call; nothing of it is counted */
	bool is_exact;
	bool is_older;		/* it began before it was traced: what it allocated until then is in none of its counts */
	bool is_ended;		/* it ended since the last answer: these are its last figures */
	char *uncovered_reason; /* may be NULL */
	char *conditions;	/* "parent_gone,stuck"; NULL = none */
	/* Live bytes by class; live_bytes is the sum of those that are device memory. */
	uint64_t live_bytes;
	uint64_t device_bytes, host_bytes, managed_bytes, array_bytes, physical_bytes, async_bytes, graph_bytes, imported_bytes;
	uint64_t framework_bytes; /* cut out of the above by frameworks' allocators */
	uint64_t peak_bytes;	  /* of live_bytes */
	uint64_t driver_bytes;	  /* on all devices; VIEW_NONE */
	uint64_t baseline_bytes;  /* of that, allocated before it was traced; VIEW_NONE, 0 = traced from its start */
	uint64_t untracked_bytes; /* driver_bytes beyond live_bytes; VIEW_NONE */
	uint64_t live_count, alloc_count, free_count, fail_count, unknown_free_count;
	uint64_t allocated_bytes; /* ever, device memory */
	uint64_t lost_events;
	int64_t growth_bytes_per_min; /* of live_bytes over the last minute, or since it is seen; VIEW_NONE_INT */
	uint64_t allocs_per_min;      /* over the same; VIEW_NONE */
	uint32_t firing;	      /* incidents about it that fire */
	char *recent;		      /* "bytes,bytes,...": live_bytes each VIEW_RECENT_NS, oldest first; NULL */
	struct view_process_device *devices;
	size_t devices_len;
	struct view_site *sites; /* most bytes first, as many as were asked for */
	size_t sites_len;
	uint64_t sites_count; /* how many hold memory */
};

#define VIEW_RECENT_NS 5000000000ull
#define VIEW_RECENT_MAX 12

struct view_incident {
	char *rule, *kind, *severity;
	char *state; /* "pending", "firing", "resolving", "inhibited" */
	char *scope; /* "process", "device", ... */
	char *key;   /* of a group; NULL */
	uint32_t pid; /* VIEW_NONE_32 */
	uint64_t value, limit;
	char *value_unit; /* "bytes", "bytes/s", "calls/s", "calls" */
	uint64_t age_ns;  /* of the state */
};

struct view_limit {
	char *name;
	uint64_t used, max, overflows;
};

struct view_counter {
	char *name; /* of an enum counter of the probes: "lost", "live_full", ... */
	uint64_t value;
};

/* How long calls of a driver function took in the traced programs, since the probes are there. */
#define VIEW_LATENCY_BUCKETS 14
struct view_latency {
	char *function;
	/* How many took less than 2^(10+2i) ns (1 us, 4 us, 16 us ... 17 s), not cumulated; the last: longer. */
	uint64_t buckets[VIEW_LATENCY_BUCKETS];
	uint64_t count, sum_ns;
};

/* The daemon itself. */
struct view_totals {
	char *version, *host;
	char *driver_status; /* one line of the drivers' watch; may be NULL */
	uint64_t real_usec;  /* when this was so */
	uint64_t start_usec; /* wall clock */
	uint64_t traced_usec; /* ... since when calls are counted, by an earlier daemon too */
	uint64_t uptime_ns;
	bool is_exact;
	bool is_daemon; /* with rules and records; false: a tracer that lives as long as who asks */
	uint64_t events, lost_events;
	uint64_t alloc_count, free_count, fail_count; /* of all processes, those that have ended too */
	uint64_t processes, uncovered;
	uint64_t rules, pending, firing;
	uint64_t records_written, records_dropped, records_failed, records_suppressed;
	uint64_t libraries;
	uint64_t cpu_ns, resident_bytes, kernel_bytes_max, fds;
	uint64_t ended_left_out; /* ends that did not fit into the answer */
};

struct view {
	struct view_totals totals;
	struct view_device *devices;
	size_t devices_len;
	struct view_process *processes; /* in no order */
	size_t processes_len;
	struct view_incident *incidents;
	size_t incidents_len;
	struct view_limit *limits;
	size_t limits_len;
	struct view_counter *counters;
	size_t counters_len;
	struct view_latency *latencies;
	size_t latencies_len;
};

/* What is asked for. */
struct view_query {
	const uint32_t *pids; /* only these processes; none = all */
	size_t pids_len;
	const uint32_t *site_pids; /* whose sites are told; none = of all that are told */
	size_t site_pids_len;
	uint32_t sites_max; /* of each, 0 = no sites */
	bool ends;	    /* and of those that have ended since the last answer on this connection */
};
#define VIEW_PIDS_MAX 256 /* in each list of a query */
/* Is it in the list of a query? An empty one has all. */
bool view_pids_have(const uint32_t *pids, size_t len, uint32_t pid);

/* An empty view, nothing known; the caller frees it. NULL when out of memory. */
struct view *view_new(void);
void view_free(struct view *v); /* accepts NULL */
DEFINE_CLEANUP(struct view, view_free)

/* One more, nothing known of it; in v until the next of its kind is added. NULL when out of memory. */
struct view_device *view_add_device(struct view *v);
struct view_process *view_add_process(struct view *v);
struct view_process_device *view_add_process_device(struct view_process *p);
struct view_site *view_add_site(struct view_process *p);
struct view_incident *view_add_incident(struct view *v);
struct view_limit *view_add_limit(struct view *v);
struct view_counter *view_add_counter(struct view *v);
struct view_latency *view_add_latency(struct view *v);

/* *p becomes a copy of s (may be NULL), what it was is freed. 0 or -ENOMEM. */
int view_set(char **p, const char *s);

/*
 * The wire form: a line a thing, its kind and then key=value, values percent-escaped; what is not known is left out. The
 * reader passes over kinds and keys that it does not know, so that the two ends may be of different versions.
 */
void view_encode(const struct view *v, struct strbuf *sb);
/* 0, -EINVAL (not such a text), -E2BIG (more than a daemon would say), -ENOMEM. */
int view_decode(const char *text, size_t len, struct view **ret);
/* One JSON object, a line: {"totals":{...},"devices":[...],"processes":[...],...}; keys as on the wire, null where not
 * known, and `status --json`'s names where it has the same thing. */
void view_json(const struct view *v, struct strbuf *sb);
/* ... of a process alone, an object. */
void view_json_process(const struct view_process *p, struct strbuf *sb);

/* The query as one line without its end, and back. -EINVAL, -E2BIG. *ret_pids is one array for both lists, the caller's. */
void view_query_encode(const struct view_query *q, struct strbuf *sb);
int view_query_decode(const char *line, struct view_query *ret, uint32_t **ret_pids);
