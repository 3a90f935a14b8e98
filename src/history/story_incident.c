/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/clock.h"
#include "history/story_private.h"

static const char *const ranks[] = { "info", "notice", "warning", "error", "critical" };

static int rank_of(const struct entry *e)
{
	for (size_t i = ARRAY_SIZE(ranks); i-- > 0;)
		if (entry_is(e, ENTRY_SEVERITY, ranks[i]))
			return (int)i;
	return -1;
}

bool unit_matches(const struct telling *t, const char *unit)
{
	size_t len = strlen(t->unit);

	return unit && strncmp(unit, t->unit, len) == 0 && (unit[len] == '\0' || strcmp(unit + len, ".service") == 0);
}

static struct incident *make(struct telling *t, const struct told *r, uint64_t hash, const char *id)
{
	struct incident *in = calloc(1, sizeof(*in));

	if (!in || PUSH(t->incidents, t->incidents_len, t->incidents_cap, in) < 0) {
		free(in);
		return NULL;
	}
	in->host = r->host;
	in->hash = hash;
	in->rank = -2;
	in->s = (struct story_incident){
		.id = id, .host = &r->host->s, .state = STORY_SINGLE, .begin_usec = r->usec,
		.duration_sec = STORY_ABSENT, .value = STORY_ABSENT, .limit = STORY_ABSENT, .peak_value = STORY_ABSENT,
		.growth_bytes_per_hour = STORY_ABSENT, .full_in_sec = STORY_ABSENT, .leaked_bytes = STORY_ABSENT,
		.confidence = -1,
	};
	if (!id)
		return in;
	in->next = map64_get(&t->incident_map, hash);
	if (map64_put(&t->incident_map, hash, in) < 0) {
		t->incidents_len--;
		free(in);
		return NULL;
	}
	return in;
}

/* Least important first. */
static int by_importance(const void *a, const void *b)
{
	const struct incident *x = *(struct incident *const *)a, *y = *(struct incident *const *)b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->s.last_usec < y->s.last_usec ? -1 : x->s.last_usec > y->s.last_usec;
}

static int unlink_one(struct telling *t, struct incident *in)
{
	struct incident *first = map64_get(&t->incident_map, in->hash);

	if (!in->s.id || !first)
		return 0;
	if (first == in) {
		if (in->next)
			return map64_put(&t->incident_map, in->hash, in->next);
		(void)map64_remove(&t->incident_map, in->hash);
		return 0;
	}
	while (first && first->next != in)
		first = first->next;
	if (first)
		first->next = in->next;
	return 0;
}

static int prune(struct telling *t, size_t max)
{
	size_t over = t->incidents_len > max ? t->incidents_len - max : 0;

	if (over == 0)
		return 0;
	qsort(t->incidents, t->incidents_len, sizeof(*t->incidents), by_importance);
	for (size_t i = 0; i < over; i++) {
		if (unlink_one(t, t->incidents[i]) < 0)
			return -ENOMEM;
		free(t->incidents[i]);
	}
	t->incidents_len = max;
	memmove(t->incidents, t->incidents + over, max * sizeof(*t->incidents));
	t->story.left_out.incidents += over;
	return 0;
}

/* A new one for a record without an id. */
static int find(struct telling *t, const struct told *r, struct incident **ret)
{
	int err = 0;
	const char *id = told_text(t, r->e, ENTRY_INCIDENT, &err);
	uint64_t hash = id ? hash64((uintptr_t)id) ^ hash64((uintptr_t)r->host) : 0;

	if (err < 0)
		return err;
	for (*ret = id ? map64_get(&t->incident_map, hash) : NULL; *ret; *ret = (*ret)->next)
		if ((*ret)->s.id == id && (*ret)->host == r->host)
			return 0;
	if (t->incidents_len >= STORY_INCIDENTS_MAX + STORY_INCIDENTS_MAX / 4) {
		err = prune(t, STORY_INCIDENTS_MAX);
		if (err < 0)
			return err;
	}
	*ret = make(t, r, hash, id);
	return *ret ? 0 : -ENOMEM;
}

/* Whether this record of it was told before: a journal that was merged or forwarded twice holds it twice. */
static bool is_repeated(struct incident *in, uint64_t seq)
{
	uint64_t behind;

	if (seq == 0 || !in->s.id)
		return false;
	if (seq > in->seq) {
		in->seq_seen = seq - in->seq < 64 ? in->seq_seen << (seq - in->seq) | 1 : 1;
		in->seq = seq;
		return false;
	}
	behind = in->seq - seq;
	if (behind >= 64 || in->seq_seen >> behind & 1)
		return true;
	in->seq_seen |= UINT64_C(1) << behind;
	return false;
}

static void take_known(struct telling *t, const struct entry *e, enum entry_field f, uint64_t *v)
{
	*v = told_u64(t, e, f, *v);
}

static double confidence_of(struct telling *t, const struct entry *e, double before)
{
	char text[16] = {};
	char *end;
	double v;

	if (!e->field[ENTRY_CONFIDENCE].data)
		return before;
	memcpy(text, e->field[ENTRY_CONFIDENCE].data, MIN(e->field[ENTRY_CONFIDENCE].len, sizeof(text) - 1));
	v = strtod(text, &end);
	if (end == text || *end || !(v >= 0 && v <= 1)) {
		t->has_unreadable = true;
		return before;
	}
	return v;
}

static int add_texts(struct telling *t, const struct entry *e, struct incident *in)
{
	const struct {
		enum entry_field field;
		const char **text;
	} all[] = {
		{ ENTRY_RULE, &in->s.rule }, { ENTRY_EVENT, &in->s.event }, { ENTRY_SCOPE, &in->s.scope },
		{ ENTRY_VALUE_UNIT, &in->s.value_unit }, { ENTRY_CAVEAT, &in->s.caveat },
		{ ENTRY_DOCUMENTATION, &in->s.documentation }, { ENTRY_UNIT, &in->unit }, { ENTRY_USER, &in->user },
		{ ENTRY_CONTAINER, &in->container }, { ENTRY_CGROUP, &in->cgroup }, { ENTRY_COMM, &in->comm },
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		int r = told_update(t, e, all[i].field, all[i].text);

		if (r < 0)
			return r;
	}
	return 0;
}

/* What the record measured. That of an end says how little is left, which is not what the incident was about. */
static void add_values(struct telling *t, const struct entry *e, struct incident *in, bool is_end)
{
	uint64_t value = told_u64(t, e, ENTRY_VALUE, STORY_ABSENT);

	if (value != STORY_ABSENT && (in->s.peak_value == STORY_ABSENT || value > in->s.peak_value))
		in->s.peak_value = value;
	if (is_end && in->s.value != STORY_ABSENT)
		return;
	if (value != STORY_ABSENT)
		in->s.value = value;
	take_known(t, e, ENTRY_LIMIT, &in->s.limit);
	take_known(t, e, ENTRY_GROWTH_BYTES_PER_HOUR, &in->s.growth_bytes_per_hour);
	take_known(t, e, ENTRY_FULL_IN_SEC, &in->s.full_in_sec);
	take_known(t, e, ENTRY_LEAKED_BYTES, &in->s.leaked_bytes);
	in->s.confidence = confidence_of(t, e, in->s.confidence);
}

/* One call, or one end: its record fires, and nothing ever resolves it. */
static bool is_of_a_moment(const struct entry *e)
{
	return entry_is(e, ENTRY_EVENT, "single_alloc") || entry_is(e, ENTRY_EVENT, "alloc_failure") ||
	       entry_is(e, ENTRY_EVENT, "exit");
}

static void add_state(struct telling *t, const struct told *r, struct incident *in, bool is_first)
{
	uint64_t duration = told_u64(t, r->e, ENTRY_DURATION_SEC, STORY_ABSENT);

	in->s.last_usec = MAX(in->s.last_usec, r->usec);
	if (!r->e->field[ENTRY_STATE].data || is_of_a_moment(r->e))
		return;
	if (is_first && !entry_is(r->e, ENTRY_STATE, "firing"))
		in->s.is_before = in->s.is_older = true;
	if (entry_is(r->e, ENTRY_STATE, "resolved")) {
		in->s.state = STORY_RESOLVED;
		in->s.end_usec = r->usec;
		in->s.duration_sec = duration;
		/* Its beginning lies before all that was read. */
		if (in->s.is_older && duration != STORY_ABSENT && duration < r->usec / USEC_PER_SEC) {
			in->s.begin_usec = MIN(in->s.begin_usec, r->usec - duration * USEC_PER_SEC);
			in->s.is_older = false;
		}
	} else if (in->s.state != STORY_RESOLVED || r->usec > in->s.end_usec) {
		in->s.state = STORY_FIRING;
		in->s.end_usec = 0;
		in->s.duration_sec = STORY_ABSENT;
	}
}

int incident_add(struct telling *t, const struct told *r)
{
	bool is_end = entry_is(r->e, ENTRY_STATE, "resolved"), is_first;
	int rank = rank_of(r->e), err;
	struct incident *in = NULL;
	struct call_site *st;
	struct proc *p;
	const char *message;

	err = told_process(t, r, false, &p);
	if (err == 0)
		err = find(t, r, &in);
	if (err < 0)
		return err;
	is_first = in->s.records == 0;
	if (is_repeated(in, told_u64(t, r->e, ENTRY_SEQ, 0)))
		return 0;
	in->s.records++;
	in->s.begin_usec = MIN(in->s.begin_usec, r->usec);
	add_state(t, r, in, is_first);
	add_values(t, r->e, in, is_end);
	in->proc = p ? p : in->proc;
	in->device = r->device ? r->device : in->device;
	in->pid = p ? p->s.pid : in->pid;
	err = add_texts(t, r->e, in);
	st = err == 0 ? told_stack(t, r->e, &err) : NULL;
	if (st && (!is_end || !in->stack))
		in->stack = st;
	if (err == 0 && rank > in->rank) {
		in->rank = rank;
		err = told_update(t, r->e, ENTRY_SEVERITY, &in->s.severity);
	}
	if (err < 0)
		return err;
	message = !is_end || !in->s.message ? told_line(t, r->e, ENTRY_MESSAGE, &err) : NULL;
	if (message)
		in->s.message = message;
	if (p && !p->has_sample && !p->s.is_ended) {
		p->s.live_bytes = told_u64(t, r->e, ENTRY_LIVE_BYTES, p->s.live_bytes);
		process_peak(t, p, r->usec, p->s.live_bytes);
	}
	return err;
}

void incident_forget(struct telling *t)
{
	for (size_t i = 0; i < t->incidents_len; i++)
		if (t->incidents[i]->proc && t->incidents[i]->proc->is_going)
			t->incidents[i]->proc = NULL;
}

static const char *subject_of(struct telling *t, struct incident *in, int *err)
{
	const char *scope = in->s.scope ? in->s.scope : "";
	const char *name = strcmp(scope, "unit") == 0	     ? in->unit
			   : strcmp(scope, "user") == 0	     ? in->user
			   : strcmp(scope, "container") == 0 ? in->container
			   : strcmp(scope, "cgroup") == 0    ? in->cgroup
							     : NULL;
	struct strbuf *sb = &t->scratch;

	if (name)
		return name;
	strbuf_reset(sb);
	if (in->device && strcmp(scope, "device") == 0)
		story_device_name(&t->story, &in->device->s, sb);
	else if (in->proc)
		story_process_name(&in->proc->s, sb);
	else if (in->pid)
		strbuf_addf(sb, "%s[%u]", in->comm ? in->comm : "?", in->pid);
	else if (in->device)
		story_device_name(&t->story, &in->device->s, sb);
	if (sb->error)
		*err = sb->error;
	if (sb->error || sb->len == 0)
		return in->unit ? in->unit : in->user;
	return texts_add(t, sb->buf, sb->len, err);
}

static bool is_wanted(const struct telling *t, const struct incident *in)
{
	/* What ended before the stretch is no part of it, and neither is what stands alone there. */
	if (in->s.last_usec < t->from && in->s.state != STORY_FIRING)
		return false;
	if (t->pid && in->pid != t->pid)
		return false;
	return !t->unit || unit_matches(t, in->unit) || (in->proc && unit_matches(t, in->proc->s.unit));
}

static int by_begin(const void *a, const void *b)
{
	const struct story_incident *x = *(struct story_incident *const *)a, *y = *(struct story_incident *const *)b;

	if (x->begin_usec != y->begin_usec)
		return x->begin_usec < y->begin_usec ? -1 : 1;
	if (x->last_usec != y->last_usec)
		return x->last_usec < y->last_usec ? -1 : 1;
	return strcmp(x->id ? x->id : "", y->id ? y->id : "");
}

int incident_finish(struct telling *t)
{
	struct story *s = &t->story;
	size_t kept = 0;
	int err;

	for (size_t i = 0; i < t->incidents_len; i++) {
		struct incident *in = t->incidents[i];

		if (is_wanted(t, in))
			t->incidents[kept++] = in;
		else
			free(in);
	}
	t->incidents_len = kept;
	/* Nobody asks by id any more. */
	map64_done(&t->incident_map);
	err = prune(t, STORY_INCIDENTS_MAX);
	s->incidents = calloc(t->incidents_len + 1, sizeof(*s->incidents));
	if (err < 0 || !s->incidents)
		return -ENOMEM;
	for (size_t i = 0; i < t->incidents_len && err == 0; i++) {
		struct incident *in = t->incidents[i];

		in->s.subject = subject_of(t, in, &err);
		in->s.is_before |= in->s.begin_usec < t->from;
		if (in->s.duration_sec == STORY_ABSENT && in->s.state != STORY_SINGLE && !in->s.is_older)
			in->s.duration_sec = ((in->s.end_usec ? in->s.end_usec : in->s.last_usec) - in->s.begin_usec) / USEC_PER_SEC;
		s->incidents[s->incidents_len++] = &in->s;
	}
	qsort(s->incidents, s->incidents_len, sizeof(*s->incidents), by_begin);
	return err;
}
