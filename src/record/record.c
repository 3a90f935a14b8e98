/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "record/fields.h"
#include "record/foreign.h"

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

/* journald would add the command line as it is. A cut one may go on with a secret. */
static bool has_secrets(const struct field_input *in)
{
	_cleanup_strbuf_ struct strbuf clear = STRBUF_INIT;
	const char *s = in->r->id ? in->r->id->cmdline : NULL;

	if (!s || !in->redact)
		return false;
	redact_text(in->redact, s, &clear);
	return clear.error || strlen(s) >= IDENTITY_CMDLINE_MAX - 1 || strcmp(strbuf_str(&clear), s) != 0;
}

static void add_object(struct record *r, const struct field_input *in, bool object_pid_ok)
{
	const struct identity *id = in->r->id;

	for (size_t i = 0; i < ARRAY_SIZE(field_object_unit); i++)
		if (add_data(r, in, &field_object_unit[i], &r->stand_in[r->stand_in_len]))
			r->stand_in_len++;
	if (object_pid_ok && !in->r->process_ended && id && !has_secrets(in) && add_field(r, in, &field_object_pid)) {
		r->object_pid = id->pid;
		r->object_start_ticks = id->start_ticks;
		return;
	}
	for (size_t i = 0; i < r->stand_in_len && r->len < RECORD_FIELDS_MAX; i++)
		r->field[r->len++] = r->stand_in[i];
	r->stand_in_len = 0;
}

static int build(const struct field_input *in, bool object_pid_ok, struct record **ret)
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
	table = fields_table(&n);
	for (size_t i = 0; i < n; i++)
		if (table[i].events & EVENT_BIT(in->event))
			(void)add_field(r, in, &table[i]);
	add_detail(r, in->r->detail, in->redact);
	if (in->event < REPORT_START)
		add_object(r, in, object_pid_ok);
	if (r->data.error)
		return r->data.error;
	*ret = TAKE_PTR(r);
	return 0;
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

int record_set_suppressed(struct record *r, uint64_t n)
{
	static const char name[] = "GPUXRAY_SUPPRESSED";
	struct record_field *f = find(r, name, strlen(name));
	size_t start = r->data.len;

	if (n == 0 || (!f && r->len >= RECORD_FIELDS_MAX))
		return 0;
	strbuf_addf(&r->data, "%s=%" PRIu64, name, n);
	strbuf_addc(&r->data, '\0');
	if (r->data.error)
		return r->data.error;
	if (!f)
		f = &r->field[r->len++];
	*f = (struct record_field){ .offset = start, .len = r->data.len - start - 1 };
	r->suppressed = n;
	return 0;
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
