/* SPDX-License-Identifier: MIT */
/* What outlives the daemon: given to the service manager, and written to the state file. */
#include "cmd/daemon_keep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <systemd/sd-daemon.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/pack.h"
#include "cmd/daemon_internal.h"
#include "model/process.h"
#include "rule/incident_pack.h"
#include "stack/stack_keep.h"

/* Totals and the values of incidents are written so often; what was said, at once. */
#define WRITE_NS (10 * NSEC_PER_SEC)

static int store_cb(const char *name, int fd, void *userdata)
{
	char text[160];
	int r;

	/* FDPOLL=0: a map that cannot be waited for always reads as an error, for which the manager would close it. */
	snprintf(text, sizeof(text), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
	r = sd_pid_notify_with_fds(0, 0, text, &fd, 1);
	return r > 0 ? 0 : r < 0 ? r : -ENOTCONN;
}

static void remove_cb(const char *name, void *userdata)
{
	(void)sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s", name);
}

static void free_names(char ***names)
{
	for (char **n = *names; n && *n; n++)
		free(*n);
	free(*names);
}

int daemon_keep_start(struct daemon *d)
{
	const struct keep_ops ops = { .store = store_cb, .remove = remove_cb, .userdata = d };
	_cleanup_(free_names) char **names = NULL;
	int n, r;

	if (getenv("NOTIFY_SOCKET")) {
		r = keep_new(&ops, &d->kept.keep);
		if (r < 0)
			return r;
	}
	n = sd_listen_fds_with_names(1, &names);
	for (int i = 0; i < n; i++) {
		const int fd = SD_LISTEN_FDS_START + i;

		if (!d->kept.keep) {
			(void)close(fd);
			continue;
		}
		r = keep_offer(d->kept.keep, names[i], fd);
		if (r == -ENOMEM)
			return r;
		if (r < 0)
			log_debug("a descriptor named \"%s\" is not ours: closed", names[i]);
	}
	return 0;
}

void boot_id(char ret[BOOT_ID_LEN])
{
	_cleanup_free_ char *text = NULL;
	size_t len;

	memset(ret, 0, BOOT_ID_LEN);
	if (file_read_head(AT_FDCWD, "/proc/sys/kernel/random/boot_id", BOOT_ID_LEN, &text, &len) == 0 && len == BOOT_ID_LEN)
		memcpy(ret, text, BOOT_ID_LEN);
}

static void add(struct daemon *d, enum kept_type type, const struct strbuf *sb)
{
	if (d->kept.state && !sb->error)
		state_add(d->kept.state, type, sb->buf, sb->len);
}

static void pack_who(struct strbuf *sb, uint32_t pid, uint64_t start_ns)
{
	pack_u32(sb, pid);
	pack_u64(sb, start_ns);
}

static void add_head(struct daemon *d)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	char id[BOOT_ID_LEN];

	boot_id(id);
	pack_u32(&sb, KEPT_VERSION);
	pack_bytes(&sb, id, sizeof(id));
	pack_bytes(&sb, tracer_id(d->tracer), 16);
	add(d, KEPT_HEAD, &sb);
}

/* The frames of a number, or whose they are where the engine has found that they are another one's. */
static void add_entry(struct daemon *d, struct process *p, const struct stack_entry *e)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	const struct frames *f = e->stack && e->is_resolved ? stack_frames(e->stack) : NULL;
	const struct stack_entry *first;

	if (!f)
		return;
	pack_who(&sb, p->pid, p->start_ns);
	pack_u64(&sb, e->number);
	first = e->is_copy ? process_stack_entry(p, e->stack->key) : NULL;
	if (first && first->is_resolved && !first->is_copy) {
		pack_u64(&sb, first->number);
		add(d, KEPT_COPY, &sb);
		return;
	}
	pack_u64(&sb, e->key);
	frames_pack(&sb, f);
	add(d, KEPT_STACK, &sb);
}

void daemon_keep_stack(struct daemon *d, const struct stack *s)
{
	struct process *p = d->kept.state ? engine_process(d->engine, s->pid, s->start_ns) : NULL;
	const struct stack_entry *e = p ? process_stack_entry(p, s->key) : NULL;

	if (e)
		add_entry(d, p, e);
}

void daemon_keep_ordinal(struct daemon *d, uint32_t pid, uint64_t start_ns, int ordinal, const char *uuid)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	pack_who(&sb, pid, start_ns);
	pack_u32(&sb, (uint32_t)ordinal);
	pack_str(&sb, uuid);
	add(d, KEPT_ORDINAL, &sb);
}

static void add_totals(struct daemon *d, const struct process *p)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	pack_who(&sb, p->pid, p->start_ns);
	pack_u64(&sb, p->first_ns);
	pack_u64(&sb, p->baseline_bytes);
	pack_u32(&sb, CLASS_MAX);
	for (size_t c = 0; c < CLASS_MAX; c++)
		pack_u64(&sb, p->allocated[c]);
	add(d, KEPT_TOTALS, &sb);
}

static void add_incident(const struct incident_saved *s, void *userdata)
{
	pack_u8(userdata, 1);
	incident_pack(userdata, s);
}

static void add_incidents(struct daemon *d, bool is_new_file)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	uint64_t sum;

	d->kept.has_said = false;
	engine_save_incidents(d->engine, add_incident, &sb);
	pack_u8(&sb, 0);
	sum = hash_bytes(0, sb.buf, sb.len);
	if (sb.error || (sum == d->kept.incidents_sum && !is_new_file))
		return;
	d->kept.incidents_sum = sum;
	add(d, KEPT_INCIDENTS, &sb);
}

static void release_held(struct daemon *d)
{
	for (size_t i = 0; i < d->kept.held_len; i++)
		reporter_push(d->reporter, d->kept.held[i]);
	d->kept.held_len = 0;
}

void daemon_keep_said(struct daemon *d)
{
	d->kept.has_said = true;
}

/* What is said of an incident waits for the state to have it. If the daemon is killed in between, the next one goes on
 * with the incident, by the same id, and says it as a repeat; said first, it would be told anew under another id, and the
 * one that was said would have no end. What is said after one that waits is behind it. */
bool daemon_keep_hold(struct daemon *d, struct report *r)
{
	struct report **more;

	if (!d->kept.is_adopting && (!d->kept.state || (r->state == STATE_NONE && d->kept.held_len == 0)))
		return false;
	more = realloc(d->kept.held, (d->kept.held_len + 1) * sizeof(*more));
	if (!more) {
		release_held(d);
		return false;
	}
	d->kept.held = more;
	more[d->kept.held_len++] = r;
	return true;
}

void daemon_keep_turn(struct daemon *d)
{
	if (d->kept.state) {
		if (d->kept.has_said)
			add_incidents(d, false);
		state_flush(d->kept.state);
	}
	release_held(d);
}

static void add_process(struct daemon *d, struct process *p)
{
	size_t iter = 0;
	void *value;

	/* What is a copy of another comes behind it. */
	for (int copies = 0; copies < 2; copies++) {
		for (iter = 0; map64_next(&p->stacks, &iter, NULL, &value);) {
			const struct stack_entry *e = value;

			if (e->is_copy == (copies == 1))
				add_entry(d, p, e);
		}
	}
	for (size_t i = 0; i < p->devices_len; i++)
		if (p->devices[i].device && p->devices[i].ordinal >= EVENT_NO_DEVICE)
			daemon_keep_ordinal(d, p->pid, p->start_ns, p->devices[i].ordinal, p->devices[i].device->uuid);
	add_totals(d, p);
}

void daemon_keep_rewrite(struct daemon *d)
{
	struct process *p;
	size_t iter = 0;

	if (!d->kept.state || state_begin(d->kept.state) < 0)
		return;
	add_head(d);
	/* First: where not all fits, names of stacks are what can be spared. */
	add_incidents(d, true);
	while ((p = engine_next_process(d->engine, &iter)))
		add_process(d, p);
	(void)state_end(d->kept.state);
}

/* Of processes that have allocated since. */
static void write_totals(struct daemon *d)
{
	struct process *p;
	size_t iter = 0;

	while ((p = engine_next_process(d->engine, &iter))) {
		struct known *k = map64_get(&d->known, p->pid);

		if (!k || k->start_ns != p->start_ns || k->kept_allocs == p->alloc_count)
			continue;
		k->kept_allocs = p->alloc_count;
		add_totals(d, p);
	}
}

void daemon_keep_tick(struct daemon *d)
{
	daemon_bounds_tick(d);
	if (!d->kept.state || d->now_ns - d->kept.written_ns < WRITE_NS)
		return;
	d->kept.written_ns = d->now_ns;
	write_totals(d);
	add_incidents(d, false);
	if (state_is_grown(d->kept.state))
		daemon_keep_rewrite(d);
}

void daemon_keep_stop(struct daemon *d)
{
	daemon_bounds_stop(d);
	if (d->kept.state) {
		write_totals(d);
		add_incidents(d, false);
		state_flush(d->kept.state);
	}
	release_held(d);
}

void daemon_keep_done(struct daemon *d)
{
	for (size_t i = 0; i < d->kept.held_len; i++)
		report_free(d->kept.held[i]);
	free(d->kept.held);
	state_free(d->kept.state);
	keep_free(d->kept.keep);
	free(d->kept.path);
	free(d->kept.bounds.path);
}

void daemon_keep_stats(const struct daemon *d, struct state_stats *ret)
{
	*ret = (struct state_stats){};
	if (d->kept.state)
		state_stats(d->kept.state, ret);
}
