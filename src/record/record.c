/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "record/fields.h"
#include "record/foreign.h"
#include "rule/omit.h"

/* Kept free for what comes after the table: GPUXRAY_SUPPRESSED set late, OBJECT_PID or two unit names. */
#define RECORD_TAIL_BYTES 1024
/* The least a text gets: room to say how much was cut. */
#define FIELD_MIN 48
#define FIELD_NAME_MAX 64
#define DETAIL_PREFIX "GPUXRAY_"

static bool is_same_name(const struct record *r, const struct record_field *f, const char *name, size_t len)
{
	return f->len > len && r->data.buf[f->offset + len] == '=' && memcmp(r->data.buf + f->offset, name, len) == 0;
}

static struct record_field *find(struct record *r, const char *name, size_t len)
{
	for (size_t i = 0; i < r->len; i++)
		if (is_same_name(r, &r->field[i], name, len))
			return &r->field[i];
	return NULL;
}

const char *record_get(const struct record *r, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < r->len; i++)
		if (is_same_name(r, &r->field[i], name, len))
			return r->data.buf + r->field[i].offset + len + 1;
	return NULL;
}

/* Appends the field to the data alone. False when it does not apply. */
static bool add_data(struct record *r, const struct field_input *in, const struct field_desc *d,
		     struct record_field *ret)
{
	size_t start = r->data.len, name = strlen(d->name) + 1, used = start + RECORD_TAIL_BYTES + name, max;

	max = RECORD_FIELD_MAX - name;
	if (d->max > 0)
		max = MIN(max, d->max);
	max = MIN(max, used + FIELD_MIN < RECORD_BYTES_MAX ? RECORD_BYTES_MAX - used : FIELD_MIN);
	strbuf_adds(&r->data, d->name);
	strbuf_addc(&r->data, '=');
	if (!d->value(in, d, max, &r->data) || r->data.len - start > RECORD_FIELD_MAX) {
		strbuf_truncate(&r->data, start);
		return false;
	}
	*ret = (struct record_field){ .offset = start, .len = r->data.len - start };
	strbuf_addc(&r->data, '\0');
	return true;
}

static bool add_field(struct record *r, const struct field_input *in, const struct field_desc *d)
{
	return r->len < RECORD_FIELDS_MAX && add_data(r, in, d, &r->field[r->len]) && ++r->len;
}

static bool is_detail_name(const char *s, size_t len)
{
	if (len > FIELD_NAME_MAX || len <= strlen(DETAIL_PREFIX) || strncmp(s, DETAIL_PREFIX, strlen(DETAIL_PREFIX)) != 0)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!(s[i] >= 'A' && s[i] <= 'Z') && !(s[i] >= '0' && s[i] <= '9') && s[i] != '_')
			return false;
	return true;
}

/* "GPUXRAY_NAME=value" lines. One that is malformed, or says again what the record says already, is left out: a journal
 * would drop the first kind in silence and show readers two values of the second. */
static void add_detail(struct record *r, const char *detail, const struct redact *redact)
{
	for (const char *line = detail, *next; line && *line; line = next) {
		size_t len = strcspn(line, "\n"), name = strcspn(line, "=\n"), start = r->data.len;
		_cleanup_free_ char *value = NULL;

		next = line[len] ? line + len + 1 : NULL;
		if (name == len || !is_detail_name(line, name) || find(r, line, name) || r->len >= RECORD_FIELDS_MAX ||
		    start + len + RECORD_TAIL_BYTES > RECORD_BYTES_MAX)
			continue;
		value = strndup(line + name + 1, len - name - 1);
		if (!value) {
			r->data.error = -ENOMEM;
			return;
		}
		strbuf_add(&r->data, line, name + 1);
		foreign_text(&r->data, redact, value, 1024);
		r->field[r->len++] = (struct record_field){ .offset = start, .len = r->data.len - start };
		strbuf_addc(&r->data, '\0');
	}
}

static bool is_redacted(const struct redact *redact, const char *s)
{
	_cleanup_strbuf_ struct strbuf clear = STRBUF_INIT;

	if (!s)
		return false;
	redact_text(redact, s, &clear);
	return clear.error || strcmp(strbuf_str(&clear), s) != 0;
}

/* journald would add them as they are. A command line that was cut may go on with a secret. */
static bool has_secrets(const struct field_input *in)
{
	const struct identity *id = in->r->id;

	if (!in->redact)
		return false;
	return (id->cmdline && strlen(id->cmdline) >= IDENTITY_CMDLINE_MAX - 1) || is_redacted(in->redact, id->cmdline) ||
	       is_redacted(in->redact, id->exe) || is_redacted(in->redact, id->comm) ||
	       is_redacted(in->redact, id->cgroup) || is_redacted(in->redact, id->unit) ||
	       is_redacted(in->redact, id->user_unit);
}

/* What journald adds to OBJECT_PID, of which nothing can be left out. */
static bool is_object_omitted(const struct field_input *in)
{
	return redact_omitted(in->redact) & (OMIT_BIT(OMIT_COMM) | OMIT_BIT(OMIT_EXE) | OMIT_BIT(OMIT_CMDLINE) |
					     OMIT_BIT(OMIT_USER) | OMIT_BIT(OMIT_CGROUP) | OMIT_BIT(OMIT_UNIT));
}

static void add_object(struct record *r, const struct field_input *in, bool object_pid_ok)
{
	const struct identity *id = in->r->id;

	for (size_t i = 0; i < ARRAY_SIZE(field_object_unit); i++)
		if (add_data(r, in, &field_object_unit[i], &r->stand_in[r->stand_in_len]))
			r->stand_in_len++;
	if (object_pid_ok && !in->r->process_ended && id && !is_object_omitted(in) && !has_secrets(in) &&
	    add_field(r, in, &field_object_pid)) {
		r->object_pid = id->pid;
		r->object_start_ticks = id->start_ticks;
		return;
	}
	for (size_t i = 0; i < r->stand_in_len && r->len < RECORD_FIELDS_MAX; i++)
		r->field[r->len++] = r->stand_in[i];
	r->stand_in_len = 0;
}

static int build_whole(const struct field_input *in, bool object_pid_ok, struct record **ret)
{
	_cleanup_(record_freep) struct record *r = NULL;
	const struct field_desc *table;
	size_t n;

	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->priority = in->priority;
	r->real_usec = in->r->real_usec;
	r->suppressed = in->r->suppressed;
	r->is_own = in->event >= REPORT_START;
	r->is_history = in->event >= REPORT_SAMPLE && in->event <= REPORT_SITE;
	table = fields_table(&n);
	for (size_t i = 0; i < n; i++)
		if (table[i].events & EVENT_BIT(in->event))
			(void)add_field(r, in, &table[i]);
	add_detail(r, in->r->detail, in->redact);
	if (field_object_pid.events & EVENT_BIT(in->event))
		add_object(r, in, object_pid_ok);
	if (r->data.error)
		return r->data.error;
	*ret = TAKE_PTR(r);
	return 0;
}

/* Whatever the fields and the words are made of, what is not to be written is gone before. */
static int build(const struct field_input *in, bool object_pid_ok, struct record **ret)
{
	_cleanup_(identity_unrefp) struct identity *id = NULL;
	const uint32_t mask = redact_omitted(in->redact);
	struct field_input rest = *in;
	struct stack_text st;
	struct report r;
	int err;

	if (!mask)
		return build_whole(in, object_pid_ok, ret);
	err = omit_report(in->r, mask, &r, &id);
	if (err < 0)
		return err;
	rest.r = &r;
	if (in->st && mask & OMIT_BIT(OMIT_STACK)) {
		st = *in->st;
		st.frames = NULL;
		st.len = 0;
		rest.st = &st;
	}
	return build_whole(&rest, object_pid_ok, ret);
}

int record_build(const struct report *r, const struct stack_text *st, bool object_pid_ok, const struct redact *redact,
		 struct record **ret)
{
	struct field_input in = { .event = r->event, .r = r, .st = st, .redact = redact };

	/* notice: that something is well again wakes nobody, but is not to be filtered away with the chatter either. */
	in.priority = r->state == STATE_RESOLVED ? 5 : severity_priority(r->severity);
	return build(&in, object_pid_ok, ret);
}

int record_build_suppressed(char *text, uint64_t real_usec, struct record **ret)
{
	struct report r = { .text = text, .real_usec = real_usec };
	struct field_input in = { .event = EVENT_SUPPRESSED, .priority = 4, .r = &r };

	return build(&in, false, ret);
}

void record_free(struct record *r)
{
	if (!r)
		return;
	strbuf_done(&r->data);
	free(r);
}

/* In place where it fits: a record that waits for long is set many times. */
static int set_u64(struct record *r, const char *name, uint64_t n)
{
	struct record_field *f = find(r, name, strlen(name));
	char text[96];
	size_t len, start = r->data.len;

	if (!f && r->len >= RECORD_FIELDS_MAX)
		return 0;
	len = (size_t)snprintf(text, sizeof(text), "%s=%" PRIu64, name, n);
	if (f && len <= f->len) {
		memcpy(r->data.buf + f->offset, text, len + 1);
		f->len = len;
		return 0;
	}
	strbuf_add(&r->data, text, len + 1);
	if (r->data.error)
		return r->data.error;
	if (!f)
		f = &r->field[r->len++];
	*f = (struct record_field){ .offset = start, .len = len };
	return 0;
}

int record_set_suppressed(struct record *r, uint64_t n)
{
	int err = n > 0 ? set_u64(r, DETAIL_PREFIX "SUPPRESSED", n) : 0;

	if (err == 0)
		r->suppressed = n;
	return err;
}

int record_set_written(struct record *r, uint64_t n)
{
	return r->is_own ? set_u64(r, DETAIL_PREFIX "RECORDS_WRITTEN", n) : 0;
}

void record_drop_object_pid(struct record *r)
{
	struct record_field *f = find(r, field_object_pid.name, strlen(field_object_pid.name));

	r->object_pid = 0;
	if (!f)
		return;
	memmove(f, f + 1, (size_t)(r->field + r->len - f - 1) * sizeof(*f));
	r->len--;
	for (size_t i = 0; i < r->stand_in_len && r->len < RECORD_FIELDS_MAX; i++)
		r->field[r->len++] = r->stand_in[i];
	r->stand_in_len = 0;
}
