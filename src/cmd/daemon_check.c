/* SPDX-License-Identifier: MIT */
/*
 * The kernel's maps are the books, the ring is the news. Each tick the engine's totals of processes that had news are
 * compared with the kernel's; what differs, or lost an event, is rebuilt.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cmd/daemon_internal.h"
#include "model/process.h"

/* Comparisons a tick: 1 us each. The rest waits for the next tick. */
#define CHECKS_MAX 500
/* A free that waits for the device has its block out of the kernel's table and still in its totals: where nothing has
 * changed since a rebuild, another one is tried only so often. */
#define RETRY_NS (60 * NSEC_PER_SEC)

static bool counts_equal(const struct books *a, const struct books *b)
{
	return a->alloc_count == b->alloc_count && a->free_count == b->free_count && a->lost_count == b->lost_count &&
	       a->fail_count == b->fail_count && a->unknown_free_count == b->unknown_free_count &&
	       a->framework_alloc_count == b->framework_alloc_count &&
	       a->framework_free_count == b->framework_free_count && a->device_bytes == b->device_bytes;
}

/* Nothing is under way, so the kernel's counts are final: events between a rebuild's walk and its drain were counted by both
 * sides, and are not worth another rebuild. */
static bool books_agree(struct process *p, const struct books *b)
{
	for (size_t i = 0; i < CLASS_MAX; i++)
		if (p->live[i] != b->live_bytes[i])
			return false;
	if (p->live_count != b->live_count || p->framework_live_count != b->framework_live_count)
		return false;
	if (p->missed_count != b->missed_count) {
		p->missed_count = b->missed_count;
		p->exact = false;
	}
	p->untracked_count = b->untracked_count;
	p->untracked_bytes = b->untracked_bytes;
	p->alloc_count = b->alloc_count;
	p->free_count = b->free_count;
	p->fail_count = b->fail_count;
	p->unknown_free_count = b->unknown_free_count;
	p->framework_alloc_count = b->framework_alloc_count;
	p->framework_free_count = b->framework_free_count;
	return true;
}

static int on_books(uint32_t pid, const struct books *b, void *userdata)
{
	struct daemon *d = userdata;
	struct known *k = daemon_known(d, pid, b->start_ns);
	uint64_t lost;

	if (!k || b->lost_count == k->lost_seen)
		return 0;
	/* Fewer than before: another image of the same process, whose EXEC is still to come. */
	lost = b->lost_count > k->lost_seen ? b->lost_count - k->lost_seen : b->lost_count;
	(void)engine_lost(d->engine, pid, b->start_ns, lost, d->now_ns);
	k->lost_seen = b->lost_count;
	daemon_recall_uuids(d, k, b->gen);
	return resync_want(d->resync, pid, b->start_ns);
}

/* The loss may have been the news of a process's end. */
static void end_the_gone(struct daemon *d)
{
	struct books b;
	size_t iter = 0, n = 0;
	void *value;
	_cleanup_free_ struct known **gone = calloc(d->known.len + 1, sizeof(*gone));

	if (!gone)
		return;
	while (map64_next(&d->known, &iter, NULL, &value)) {
		struct known *k = value;

		if (tracer_books(d->tracer, k->pid, &b) < 0 || b.start_ns != k->start_ns)
			gone[n++] = k;
	}
	for (size_t i = 0; i < n; i++) {
		/* At least the news of its end, and what came before it is not known either. */
		(void)engine_lost(d->engine, gone[i]->pid, gone[i]->start_ns, 1, d->now_ns);
		daemon_end(d, gone[i]->pid, gone[i]->start_ns);
	}
}

static void check_losses(struct daemon *d)
{
	uint64_t c[COUNTER_MAX];

	/* Only when the ring is empty: a process that is gone may have its last news still in it. */
	if (d->wants_end && d->is_drained) {
		d->wants_end = false;
		end_the_gone(d);
	}
	if (tracer_counters(d->tracer, c) < 0 || c[COUNTER_LOST] == d->lost_seen)
		return;
	log_warning("%llu events did not fit in the ring buffer; the books are rebuilt from the kernel's",
		    (unsigned long long)(c[COUNTER_LOST] - d->lost_seen));
	d->lost_seen = c[COUNTER_LOST];
	(void)tracer_each_books(d->tracer, on_books, d);
	d->wants_end = true;
}

static bool is_worth_rebuild(const struct daemon *d, struct known *k, const struct books *b)
{
	const uint64_t changes = b->alloc_count + b->free_count + b->framework_alloc_count + b->framework_free_count;

	if (k->rebuilt_ns && k->rebuilt_changes == changes && d->now_ns - k->rebuilt_ns < RETRY_NS)
		return false;
	k->rebuilt_ns = d->now_ns;
	k->rebuilt_changes = changes;
	return true;
}

/*
 * Equal counts before and after a drain, which has passed the end that the ring had after the first look: nothing is under
 * way, so the engine must have the same totals. A program takes its room in the ring, then counts, then changes the other
 * sums (add_first() in bpf/books.h): what had been counted at first was in that part of the ring, and what has begun to
 * change the totals since has changed a count, which is read once more after them.
 */
static void compare(struct daemon *d, struct known *k, const struct books *before)
{
	struct process *p;
	struct books now, after;

	if (tracer_books(d->tracer, k->pid, &now) < 0 || now.start_ns != k->start_ns)
		return;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (tracer_books(d->tracer, k->pid, &after) < 0 || after.gen != before->gen || !counts_equal(before, &after))
		return;
	if (resync_is_settling(d->resync, k->pid, k->start_ns))
		return;
	k->is_changed = false;
	p = engine_process(d->engine, k->pid, k->start_ns);
	if (!p || books_agree(p, &now))
		return;
	k->is_changed = true;
	if (!is_worth_rebuild(d, k, &now))
		return;
	log_debug("books of process %u differ (%llu bytes here, %llu in the kernel): rebuilding", k->pid,
		  (unsigned long long)p->live_bytes, (unsigned long long)now.device_bytes);
	(void)resync_want(d->resync, k->pid, k->start_ns);
}

void daemon_check_books(struct daemon *d)
{
	_cleanup_free_ struct books *before = malloc(CHECKS_MAX * sizeof(*before));
	_cleanup_free_ struct known **who = malloc(CHECKS_MAX * sizeof(*who));
	size_t n = 0;
	void *value;
	int r;

	check_losses(d);
	if (!before || !who)
		return;
	while (n < CHECKS_MAX && map64_next(&d->known, &d->check_iter, NULL, &value)) {
		struct known *k = value;

		if (!k->is_changed || tracer_books(d->tracer, k->pid, &before[n]) < 0)
			continue;
		who[n++] = k;
	}
	if (n < CHECKS_MAX) /* all seen: from the start at the next tick */
		d->check_iter = 0;
	if (n) {
		_cleanup_free_ uint32_t *pids = calloc(n, sizeof(*pids));
		_cleanup_free_ uint64_t *starts = calloc(n, sizeof(*starts));

		if (!pids || !starts)
			return;
		for (size_t i = 0; i < n; i++) {
			pids[i] = who[i]->pid;
			starts[i] = who[i]->start_ns;
		}
		/* The drain may end processes: look each up again. */
		daemon_drain(d);
		for (size_t i = 0; i < n && d->is_drained; i++)
			if (engine_process(d->engine, pids[i], starts[i]))
				compare(d, daemon_known(d, pids[i], starts[i]), &before[i]);
	}
	r = resync_run(d->resync, d->now_ns, d->real_usec);
	if (r < 0)
		log_warning("rebuilding the books failed, trying again: %s", strerror(-r));
	resync_tick(d->resync, d->now_ns);
}
