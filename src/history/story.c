/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "history/story_private.h"

int telling_grow(void **list, size_t *cap, size_t len, size_t size)
{
	size_t more = *cap ? *cap * 2 : 4;
	void *bigger;

	if (len < *cap)
		return 0;
	bigger = reallocarray(*list, more, size);
	if (!bigger)
		return -ENOMEM;
	*list = bigger;
	*cap = more;
	return 0;
}

uint64_t told_u64(struct telling *t, const struct entry *e, enum entry_field f, uint64_t absent)
{
	uint64_t v;
	int r = entry_u64(e, f, &v);

	if (r == 0)
		return v;
	t->has_unreadable |= r != -ENOENT;
	return absent;
}

uint64_t add_sat(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* The highest value means "not known". */
uint64_t sum_sat(sum_t v)
{
	return v < STORY_ABSENT ? (uint64_t)v : STORY_ABSENT - 1;
}

int story_builder_new(const struct story_options *o, struct story_builder **ret)
{
	struct story_builder *b = calloc(1, sizeof(*b));
	struct telling *t = calloc(1, sizeof(*t));
	size_t len = o->unit ? strlen(o->unit) : 0;
	static const char suffix[] = ".service";

	if (!b || !t)
		goto fail;
	t->points_cap = STORY_POINTS_MAX;
	/* 0 means "not known" for a time. */
	t->from = MAX(o->from_usec, UINT64_C(1));
	t->until = MAX(o->until_usec, t->from);
	t->pid = o->pid;
	if (len > sizeof(suffix) - 1 && strcmp(o->unit + len - (sizeof(suffix) - 1), suffix) == 0)
		len -= sizeof(suffix) - 1;
	if (o->unit && !(t->unit = strndup(o->unit, len)))
		goto fail;
	b->t = t;
	*ret = b;
	return 0;
fail:
	free(t);
	free(b);
	return -ENOMEM;
}

static int host_make(struct telling *t, const struct entry *e, const char *key, uint64_t hash, struct host **ret)
{
	struct host *h;
	int err = 0;

	if (t->hosts_len == STORY_HOSTS_MAX) {
		t->story.left_out.hosts++;
		return 0;
	}
	h = calloc(1, sizeof(*h));
	if (!h || PUSH(t->hosts, t->hosts_len, t->hosts_cap, h) < 0) {
		free(h);
		return -ENOMEM;
	}
	h->key = key;
	h->s.machine_id = told_text(t, e, ENTRY_MACHINE_ID, &err);
	h->s.name = told_text(t, e, ENTRY_HOSTNAME, &err);
	if (!h->s.name)
		h->s.name = h->s.machine_id ? h->s.machine_id : "?";
	h->next = map64_get(&t->host_map, hash);
	if (err < 0 || map64_put(&t->host_map, hash, h) < 0)
		return -ENOMEM;
	*ret = h;
	return 0;
}

static bool is_key(const struct entry *e, enum entry_field f, const char *key)
{
	return key && e->field[f].data && strlen(key) == e->field[f].len && memcmp(key, e->field[f].data, e->field[f].len) == 0;
}

/* Machines made from one image may have one id: then name and boot tell them apart. A name alone may change. */
static bool is_host(const struct entry *e, const struct host *h)
{
	return !e->field[ENTRY_HOSTNAME].data || is_key(e, ENTRY_HOSTNAME, h->s.name) || is_key(e, ENTRY_BOOT_ID, h->boot_id);
}

/* NULL: no room. */
static int told_host(struct telling *t, const struct entry *e, struct host **ret)
{
	enum entry_field by = e->field[ENTRY_MACHINE_ID].data ? ENTRY_MACHINE_ID : ENTRY_HOSTNAME;
	const char *key;
	uint64_t hash;
	int err = 0;

	*ret = t->host_last;
	if (t->host_last && is_key(e, by, t->host_last->key) && is_host(e, t->host_last))
		return 0;
	*ret = NULL;
	key = told_text(t, e, by, &err);
	if (err < 0)
		return err;
	if (!key)
		key = "?";
	hash = hash_str(0, key);
	for (*ret = map64_get(&t->host_map, hash); *ret; *ret = (*ret)->next)
		if (strcmp((*ret)->key, key) == 0 && is_host(e, *ret))
			break;
	if (!*ret)
		err = host_make(t, e, key, hash, ret);
	t->host_last = *ret;
	return err;
}

static int told_boot(struct telling *t, const struct entry *e, const char **ret)
{
	int err = 0;

	if (!is_key(e, ENTRY_BOOT_ID, t->boot_last))
		t->boot_last = told_text(t, e, ENTRY_BOOT_ID, &err);
	*ret = t->boot_last;
	return err;
}

static int told_sender(struct telling *t, struct told *r)
{
	uint64_t pid = told_u64(t, r->e, ENTRY_SENDER, 0);
	struct host *h = r->host;
	struct sender made = { .pid = (uint32_t)pid, .boot_id = r->boot_id };
	int err;

	r->sender = NULL;
	if (pid == 0 || pid > INT32_MAX)
		return 0;
	for (size_t i = 0; i < h->senders_len; i++) {
		struct sender *s = &h->senders[(h->sender_at + i) % h->senders_len];

		if (s->pid == made.pid && s->boot_id == r->boot_id) {
			h->sender_at = (size_t)(s - h->senders);
			r->sender = s;
			return 0;
		}
	}
	if (h->senders_len == HOST_SENDERS_MAX)
		memmove(h->senders, h->senders + 1, --h->senders_len * sizeof(*h->senders));
	err = PUSH(h->senders, h->senders_len, h->senders_cap, made);
	if (err < 0)
		return err;
	h->sender_at = h->senders_len - 1;
	r->sender = &h->senders[h->sender_at];
	return 0;
}

/* The first record of the host within the stretch: how things stand now is how they stood at its beginning. */
static void cross(struct telling *t, struct host *h)
{
	if (h->is_crossed)
		return;
	h->is_crossed = true;
	h->run_at_from = h->run;
	device_cross(t, h);
}

static int add_device(struct telling *t, struct told *r)
{
	uint64_t used;
	int err = told_device(t, r);

	if (err < 0 || !r->device)
		return err;
	used = told_u64(t, r->e, ENTRY_DEVICE_USED_BYTES, STORY_ABSENT);
	return used != STORY_ABSENT ? device_note_used(t, r->device, r->usec, used) : 0;
}

static int add_event(struct telling *t, const struct told *r)
{
	static const char *const silent[] = { "start", "stop", "reload", "health", "suppressed" };
	int err = 0;

	if (entry_is(r->e, ENTRY_EVENT, "sample"))
		return process_sample(t, r);
	if (entry_is(r->e, ENTRY_EVENT, "process_exit"))
		return process_exit(t, r);
	if (entry_is(r->e, ENTRY_EVENT, "site")) {
		(void)told_stack(t, r->e, &err);
		return err;
	}
	for (size_t i = 0; i < ARRAY_SIZE(silent); i++)
		if (entry_is(r->e, ENTRY_EVENT, silent[i]))
			return 0;
	if (entry_is(r->e, ENTRY_EVENT, "alloc_failure"))
		err = failure_add(t, r);
	return err < 0 ? err : incident_add(t, r);
}

static int add_entry(struct telling *t, const struct entry *e)
{
	struct told r = { .e = e, .usec = MAX(entry_usec(e), UINT64_C(1)) };
	int err;

	if (!e->field[ENTRY_EVENT].data)
		return 0;
	/* The newest text may be from after the stretch. */
	if (t->is_looking) {
		err = 0;
		(void)told_stack(t, e, &err);
		return err;
	}
	if (r.usec >= t->until)
		return 0;
	r.is_within = r.usec >= t->from;
	t->story.records += r.is_within;
	err = told_host(t, e, &r.host);
	if (err < 0 || !r.host)
		return err;
	err = told_boot(t, e, &r.boot_id);
	if (err == 0)
		err = told_sender(t, &r);
	if (err == 0 && r.is_within)
		cross(t, r.host);
	if (err == 0)
		err = gap_record(t, &r);
	if (err == 0 && t->pending_len > 0)
		err = failure_settle(t, r.usec);
	if (err == 0)
		err = add_device(t, &r);
	return err < 0 ? err : add_event(t, &r);
}

int story_add(struct story_builder *b, const struct entry *e)
{
	struct telling *t = b->t;
	int err;

	t->has_unreadable = false;
	err = add_entry(t, e);
	t->story.left_out.unreadable += t->has_unreadable;
	return err;
}

int story_finish(struct story_builder *b, uint64_t now_usec, struct story **ret)
{
	int err;

	for (size_t i = 0; i < b->t->hosts_len; i++)
		cross(b->t, b->t->hosts[i]);
	err = telling_finish(b->t, now_usec);
	if (err < 0)
		return err;
	*ret = &TAKE_PTR(b->t)->story;
	return 0;
}

void telling_free(struct telling *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->procs_len; i++)
		process_drop(t, t->procs[i]);
	for (size_t i = 0; i < t->devices_len; i++) {
		series_done(t, &t->devices[i]->used);
		free(t->devices[i]->helds);
		free(t->devices[i]);
	}
	for (size_t i = 0; i < t->hosts_len; i++) {
		free(t->hosts[i]->senders);
		free(t->hosts[i]);
	}
	for (size_t i = 0; i < t->failures_len; i++) {
		free(t->failures[i]->holders);
		free(t->failures[i]->s.holders);
		free(t->failures[i]);
	}
	for (size_t i = 0; i < t->incidents_len; i++)
		free(t->incidents[i]);
	for (size_t i = 0; i < t->gaps_len; i++)
		free(t->gaps[i]);
	for (size_t i = 0; i < t->stacks_len; i++)
		free(t->stacks[i]);
	free(t->procs);
	free(t->devices);
	free(t->hosts);
	free(t->failures);
	free(t->incidents);
	free(t->gaps);
	free(t->stacks);
	free(t->story.hosts);
	free(t->story.devices);
	free(t->story.processes);
	free(t->story.incidents);
	free(t->story.failures);
	free(t->story.gaps);
	free(t->story.stacks);
	map64_done(&t->host_map);
	map64_done(&t->device_map);
	map64_done(&t->proc_map);
	map64_done(&t->stack_map);
	map64_done(&t->incident_map);
	texts_done(&t->texts);
	strbuf_done(&t->scratch);
	free(t->unit);
	free(t);
}

void story_builder_free(struct story_builder *b)
{
	if (!b)
		return;
	telling_free(b->t);
	free(b);
}

void story_free(struct story *s)
{
	/* Its first member. */
	telling_free((struct telling *)s);
}
