/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "history/journal_entry.h"
#include "history/journal_read.h"
#include "history/journal_slice.h"

/* The daemon holds records while the journal is away: they come later than what they tell. */
#define LATE_USEC (600 * USEC_PER_SEC)
#define STACKS_ASKED_MAX 1000 /* for their texts, outside of the stretch */
#define STACK_FILES_MAX 256   /* newest ones */
#define STACK_ENTRIES_MAX 16  /* that name a stack: one among them has its text, or none is left */

static void explain(char *why, size_t size, const char *fmt, ...) _printf_(3, 4);
static void explain(char *why, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(why, size, fmt, ap);
	va_end(ap);
}

static int take(void *userdata, const struct entry *e)
{
	return story_add(userdata, e);
}

/* The newest record that has the text. */
static int find_text(sd_journal *j, uint32_t own_uid, struct story_builder *b, const char *id)
{
	_cleanup_entries_ struct entries one = {};
	char match[64];
	int r;

	snprintf(match, sizeof(match), "%s=%s", entry_field_name(ENTRY_STACK_ID), id);
	sd_journal_flush_matches(j);
	r = sd_journal_add_match(j, match, 0);
	if (r >= 0)
		r = sd_journal_seek_tail(j);
	for (int i = 0; i < STACK_ENTRIES_MAX && r >= 0; i++) {
		const char *at;
		struct entry e;

		r = sd_journal_previous(j);
		if (r <= 0)
			return r;
		one.len = 0;
		r = journal_entry_pack(j, own_uid, &one);
		if (r <= 0)
			continue;
		at = one.data;
		journal_entry_unpack(&at, &e);
		if (e.field[ENTRY_STACK].data || e.field[ENTRY_STACK_INFO].data)
			return story_add(b, &e);
	}
	return r;
}

static int find_texts(const struct journal_files *files, uint32_t own_uid, struct story_builder *b)
{
	_cleanup_free_ const char **paths = NULL;
	_cleanup_(sd_journal_closep) sd_journal *j = NULL;
	size_t iter = 0;
	int r;

	for (size_t asked = 0; asked < STACKS_ASKED_MAX; asked++) {
		const char *id = story_next_untold_stack(b, &iter);

		if (!id)
			return 0;
		if (!j) {
			paths = journal_files_of(files, 0, UINT64_MAX, STACK_FILES_MAX);
			if (!paths)
				return -ENOMEM;
			r = sd_journal_open_files(&j, paths, 0);
			if (r < 0)
				return r;
		}
		r = find_text(j, own_uid, b, id);
		if (r == -ENOMEM)
			return r;
	}
	return 0;
}

static int nothing(const struct journal_options *o, const struct journal_files *f, char *why, size_t why_size)
{
	if (f->denied) {
		explain(why, why_size, "%s: permission denied: run as root or as a member of group systemd-journal",
			f->denied_path ? f->denied_path : "journal");
		return -EACCES;
	}
	if (f->damaged) {
		explain(why, why_size, "%s: cannot be read as a journal: %s", f->damaged_path ? f->damaged_path : "journal",
			strerror(-f->damaged_error));
		return f->damaged_error;
	}
	if (o->directory && access(o->directory, R_OK | X_OK) < 0) {
		int err = errno;

		explain(why, why_size, "%s: %s", o->directory, strerror(err));
		return -err;
	}
	if (o->directory)
		explain(why, why_size, "%s: no journal with entries there: name the directory that holds *.journal files, "
			"or the one above it", o->directory);
	else if (o->files_len)
		explain(why, why_size, "%s: no entries in it", o->files[0]);
	else
		explain(why, why_size, "no journal on this host: see whether systemd-journald runs, and name another "
			"one with -D or --file");
	return -ENOENT;
}

static void tell_rest(const struct journal_files *f, char *why, size_t why_size)
{
	if (f->denied)
		explain(why, why_size, "%zu journal files left out, the first %s: permission denied: run as root or as a "
			"member of group systemd-journal", f->denied, f->denied_path ? f->denied_path : "?");
	else if (f->damaged)
		explain(why, why_size, "%zu journal files left out, the first %s: %s", f->damaged,
			f->damaged_path ? f->damaged_path : "?", strerror(-f->damaged_error));
}

int journal_read(const struct journal_options *o, struct story_builder *b, char *why, size_t why_size)
{
	_cleanup_journal_files_ struct journal_files files = {};
	/* In files of another host the caller's number is that of somebody else. */
	uint32_t own_uid = o->directory || o->files_len || o->is_merged ? UINT32_MAX : getuid();
	uint64_t from = o->from_usec > STORY_LOOK_BACK_USEC ? o->from_usec - STORY_LOOK_BACK_USEC : 0;
	uint64_t until = o->until_usec < UINT64_MAX - LATE_USEC ? o->until_usec + LATE_USEC : UINT64_MAX;
	int r;

	explain(why, why_size, "%s", "");
	r = journal_files_find(o, &files);
	if (r == 0 && files.len == 0)
		return nothing(o, &files, why, why_size);
	if (r == 0) {
		tell_rest(&files, why, why_size);
		r = journal_slices_read(&files, from, until, own_uid, take, b);
	}
	if (r == 0)
		r = find_texts(&files, own_uid, b);
	if (r < 0)
		explain(why, why_size, "cannot read the journal: %s%s", strerror(-r),
			r == -EMFILE ? ": allow more open files with `ulimit -n`"
			: r == -EIO  ? ": see `journalctl --verify`, or it was ended, say for want of memory"
				     : "");
	return r;
}
