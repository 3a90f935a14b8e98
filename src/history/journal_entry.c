/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "history/journal_entry.h"

#define VALUE_MAX 8192 /* bytes: fields of ours are under 4096 */

struct packed_head {
	uint64_t real_usec;
	uint32_t fields;
};

struct packed_field {
	uint16_t field, len;
};

void journal_entries_done(struct entries *x)
{
	free(x->data);
	*x = (struct entries){};
}

static bool make_room(struct entries *to, size_t more)
{
	size_t cap = to->cap ? to->cap : 4096;
	char *bigger;

	if (to->cap - to->len >= more)
		return true;
	while (cap - to->len < more)
		cap *= 2;
	bigger = realloc(to->data, cap);
	if (!bigger)
		return false;
	to->data = bigger;
	to->cap = cap;
	return true;
}

int journal_entries_set_len(struct entries *x, size_t len)
{
	x->len = 0;
	if (!make_room(x, len + 1))
		return -ENOMEM;
	x->len = len;
	return 0;
}

static void add(struct entries *to, const void *data, size_t len)
{
	memcpy(to->data + to->len, data, len);
	to->len += len;
}

static bool is_believed(const char *uid, size_t len, uint32_t own_uid)
{
	struct entry e = { .field[ENTRY_PID] = { uid, len } };
	uint64_t v;

	return entry_u64(&e, ENTRY_PID, &v) == 0 && (v == 0 || v == own_uid);
}

/*
 * Anybody may write records that call themselves ours, but nobody can choose their _UID: the journal puts that there. So
 * what user 0 wrote is believed, as `journalctl -u` does with what others say of a unit, and so is what the caller wrote,
 * who may have run the daemon in a terminal. Without the field a record came by way of an import, which only user 0 makes.
 */
int journal_entry_pack(sd_journal *j, uint32_t own_uid, struct entries *to)
{
	static const char uid[] = "_UID=";
	struct packed_head head = {};
	bool is_there[ENTRY_FIELD_MAX] = {};
	size_t start = to->len, len;
	const void *data;
	int r;

	r = sd_journal_get_realtime_usec(j, &head.real_usec);
	if (r < 0)
		return r;
	if (!make_room(to, sizeof(head)))
		return -ENOMEM;
	add(to, &head, sizeof(head));
	sd_journal_restart_data(j);
	while ((r = sd_journal_enumerate_available_data(j, &data, &len)) > 0) {
		struct packed_field field;
		const char *value;
		size_t value_len;
		int f = entry_field_from_data(data, len, &value, &value_len);

		if (f < 0 && len >= sizeof(uid) && memcmp(data, uid, sizeof(uid) - 1) == 0 &&
		    !is_believed((const char *)data + sizeof(uid) - 1, len - (sizeof(uid) - 1), own_uid)) {
			to->len = start;
			return 0;
		}
		if (f < 0 || is_there[f])
			continue;
		is_there[f] = true;
		field.field = (uint16_t)f;
		field.len = (uint16_t)MIN(value_len, (size_t)VALUE_MAX);
		if (!make_room(to, sizeof(field) + field.len)) {
			r = -ENOMEM;
			break;
		}
		add(to, &field, sizeof(field));
		add(to, value, field.len);
		head.fields++;
	}
	if (r < 0) {
		to->len = start;
		return r;
	}
	memcpy(to->data + start, &head, sizeof(head));
	return 1;
}

void journal_entry_unpack(const char **at, struct entry *ret)
{
	struct packed_head head;
	struct packed_field field;

	memcpy(&head, *at, sizeof(head));
	*at += sizeof(head);
	*ret = (struct entry){ .real_usec = head.real_usec };
	for (uint32_t i = 0; i < head.fields; i++) {
		memcpy(&field, *at, sizeof(field));
		*at += sizeof(field);
		ret->field[field.field].data = *at;
		ret->field[field.field].len = field.len;
		*at += field.len;
	}
}
