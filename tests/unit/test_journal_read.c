/* SPDX-License-Identifier: MIT */
/* Journals made with systemd-journal-remote, read as `gpuxray report -D` does. */
#include "test.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "history/journal_entry.h"
#include "history/journal_slice.h"
#include "story_make.h"

static char base[] = "/tmp/gpuxray-journal-XXXXXX";

static const char *path(const char *name)
{
	static char paths[8][256];
	static unsigned turn;
	char *p = paths[turn++ % ARRAY_SIZE(paths)];

	snprintf(p, sizeof(paths[0]), "%s/%s", base, name);
	return p;
}

/* A journal file that is being made: entries in the export format go in. */
static FILE *journal_open(const char *name)
{
	char command[512];
	FILE *f;

	snprintf(command, sizeof(command), "/lib/systemd/systemd-journal-remote --split-mode=none -o %s - >/dev/null 2>&1",
		 path(name));
	f = popen(command, "w");
	if (!f) {
		printf("Bail out! cannot run systemd-journal-remote\n");
		exit(1);
	}
	return f;
}

static void journal_close(FILE *f)
{
	int status = pclose(f);

	if (status == 0)
		return;
	printf("Bail out! systemd-journal-remote is missing or failed (%d)\n", status);
	exit(1);
}

static void put(FILE *f, double sec, const char *identifier, const char *more)
{
	fprintf(f,
		"__REALTIME_TIMESTAMP=%" PRIu64 "\n__MONOTONIC_TIMESTAMP=%" PRIu64 "\n_BOOT_ID=" BOOT "\n_MACHINE_ID=" MACHINE
		"\n_HOSTNAME=gpu01\n_PID=811\nSYSLOG_IDENTIFIER=%s\n%s\n",
		AT(sec), AT(sec) - FROM / 2, identifier, more);
}

struct taken {
	uint64_t next, stop_at;
	size_t count, in_order;
};

static int take(void *userdata, const struct entry *e)
{
	struct taken *t = userdata;
	uint64_t seq = UINT64_MAX;

	(void)entry_u64(e, ENTRY_SEQ, &seq);
	t->in_order += seq == t->next;
	t->next = seq + 1;
	t->count++;
	return t->count == t->stop_at ? -ECANCELED : 0;
}

static int read_directory(const char *name, double from, double until, uint32_t own_uid, struct taken *t)
{
	struct journal_options o = { .directory = path(name) };
	_cleanup_journal_files_ struct journal_files files = {};
	int r = journal_files_find(&o, &files);

	return r < 0 ? r : journal_slices_read(&files, AT(from), AT(until), own_uid, take, t);
}

/* More than one handle reads and in more than one slice, at moments that several entries share. */
TEST(every_entry_once_and_in_order)
{
	enum { COUNT = 20000 };
	FILE *f = journal_open("order/a.journal");
	struct taken t = {};
	double until;

	for (unsigned i = 0; i < COUNT; i++)
		put(f, i / 7, "gpuxray", fmt("GPUXRAY_SEQ=%u\n", i));
	journal_close(f);
	EXPECT_EQ(read_directory("order", -HOUR, 10 * HOUR, UINT32_MAX, &t), 0);
	EXPECT_EQ(t.count, COUNT);
	EXPECT_EQ(t.in_order, COUNT);
	/* A part of it: seven entries have each second. */
	t = (struct taken){ .next = 700 };
	until = 1000;
	EXPECT_EQ(read_directory("order", 100, until, UINT32_MAX, &t), 0);
	EXPECT_EQ(t.count, 900 * 7);
	EXPECT_EQ(t.in_order, 900 * 7);
	t = (struct taken){};
	EXPECT_EQ(read_directory("order", -HOUR, 0, UINT32_MAX, &t), 0);
	EXPECT_EQ(t.count, 0);
}

TEST(who_takes_may_stop)
{
	struct taken t = { .stop_at = 10 };

	EXPECT_EQ(read_directory("order", -HOUR, 10 * HOUR, UINT32_MAX, &t), -ECANCELED);
	EXPECT_EQ(t.count, 10);
	/* No reader is left behind. */
	EXPECT(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

TEST(files_that_follow_and_overlap)
{
	FILE *a = journal_open("files/a.journal"), *b = journal_open("files/b.journal");
	struct taken t = {};

	for (unsigned i = 0; i < 600; i++)
		put(i < 200 || i % 2 ? a : b, i, "gpuxray", fmt("GPUXRAY_SEQ=%u\n", i));
	journal_close(a);
	journal_close(b);
	EXPECT_EQ(read_directory("files", 0, HOUR, UINT32_MAX, &t), 0);
	EXPECT_EQ(t.count, 600);
	EXPECT_EQ(t.in_order, 600);
}

TEST(whose_records_are_believed)
{
	FILE *f = journal_open("uid/a.journal");
	struct taken t = {};

	put(f, 1, "gpuxray", "_UID=0\n");
	put(f, 2, "gpuxray", "_UID=1000\n");
	put(f, 3, "gpuxray", "");
	put(f, 4, "gpuxray", "_UID=1001\n");
	put(f, 5, "gpuxray", "_UID=x\n");
	put(f, 6, "other", "_UID=0\n");
	journal_close(f);
	EXPECT_EQ(read_directory("uid", 0, HOUR, UINT32_MAX, &t), 0);
	EXPECT_EQ(t.count, 2);
	t = (struct taken){};
	EXPECT_EQ(read_directory("uid", 0, HOUR, 1000, &t), 0);
	EXPECT_EQ(t.count, 3);
}

/* Reads the first hour; the story is the caller's. */
static struct story *read_story(const struct journal_options *where, int *ret, char *why)
{
	struct journal_options o = *where;
	struct story_builder *b = stretch();

	o.from_usec = FROM;
	o.until_usec = AT(HOUR);
	*ret = journal_read(&o, b, why, JOURNAL_WHY_MAX);
	return told(b, HOUR);
}

TEST(a_story_with_what_lies_before_and_texts_from_anywhere)
{
	struct journal_options o = { .directory = path("story") };
	FILE *f = journal_open("story/" MACHINE "/system.journal");
	_cleanup_story_ struct story *s = NULL;
	char why[JOURNAL_WHY_MAX];
	int r;

	put(f, -90000, "gpuxray", "GPUXRAY_EVENT=site\nGPUXRAY_STACK_ID=00000000000000aa\nGPUXRAY_STACK=old\n");
	put(f, -80000, "gpuxray", "GPUXRAY_EVENT=site\nGPUXRAY_STACK_ID=00000000000000aa\nGPUXRAY_STACK=new\n");
	put(f, -70000, "gpuxray", "GPUXRAY_EVENT=sample\nGPUXRAY_PID=7\nGPUXRAY_STACK_ID=00000000000000aa\n");
	put(f, -9000, "gpuxray", "GPUXRAY_EVENT=sample\nGPUXRAY_PID=6\nGPUXRAY_BYTES=10\n");
	put(f, -3000, "gpuxray",
	    "GPUXRAY_EVENT=sample\nGPUXRAY_PID=7\nGPUXRAY_BYTES=10\nGPUXRAY_TOP_SITES=00000000000000aa 10 1\n");
	put(f, 3599, "gpuxray", "GPUXRAY_EVENT=sample\nGPUXRAY_PID=8\nGPUXRAY_BYTES=20\n");
	put(f, 3600, "gpuxray", "GPUXRAY_EVENT=sample\nGPUXRAY_PID=9\nGPUXRAY_BYTES=30\n");
	journal_close(f);
	s = read_story(&o, &r, why);
	EXPECT_EQ(r, 0);
	EXPECT_STR(why, "");
	EXPECT_EQ(s->records, 1);
	ASSERT(s->processes_len == 2);
	EXPECT_EQ(s->processes[0]->pid, 8);
	EXPECT_EQ(s->processes[1]->pid, 7);
	ASSERT(s->processes[1]->sites_len == 1);
	EXPECT_STR(s->processes[1]->sites[0].stack->text, "new");
}

static void damage(const char *name)
{
	FILE *f = fopen(path(name), "w");

	for (int i = 0; f && i < 1000; i++)
		fputs("no journal", f);
	if (f)
		fclose(f);
}

TEST(a_damaged_file_among_others_is_named)
{
	const char *files[] = { path("story/" MACHINE "/system.journal"), path("damaged/*.journal") };
	struct journal_options o = { .files = files, .files_len = 2 };
	_cleanup_story_ struct story *s = NULL;
	char why[JOURNAL_WHY_MAX];
	int r;

	ASSERT(mkdir(path("damaged"), 0700) == 0);
	damage("damaged/a.journal");
	s = read_story(&o, &r, why);
	EXPECT_EQ(r, 0);
	EXPECT(strstr(why, "damaged/a.journal"));
	EXPECT_EQ(s->processes_len, 2);
}

TEST(nothing_that_can_be_read)
{
	const char *file = path("damaged/a.journal"), *none = path("none.journal");
	const struct {
		struct journal_options o;
		int r;
		const char *why;
	} cases[] = {
		{ { .directory = path("damaged") }, -EBADMSG, "damaged/a.journal" },
		{ { .files = &file, .files_len = 1 }, -EBADMSG, "damaged/a.journal" },
		{ { .files = &none, .files_len = 1 }, -ENOENT, "none.journal: cannot be read as a journal: No such file" },
		{ { .directory = path("nowhere") }, -ENOENT, "nowhere" },
		{ { .directory = path("empty") }, -ENOENT, "no journal with entries" },
	};

	ASSERT(mkdir(path("empty"), 0700) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_story_ struct story *s = NULL;
		char why[JOURNAL_WHY_MAX];
		int r;

		s = read_story(&cases[i].o, &r, why);
		EXPECT_EQ(r, cases[i].r);
		EXPECT(strstr(why, cases[i].why));
		if (test_failures)
			printf("# %zu: %s\n", i, why);
	}
}

TEST(packed_and_unpacked)
{
	_cleanup_entries_ struct entries x = {};
	struct journal_options o = { .directory = path("story") };
	_cleanup_journal_files_ struct journal_files files = {};
	_cleanup_free_ const char **paths = NULL;
	sd_journal *j = NULL;
	const char *at;
	struct entry e;

	ASSERT(journal_files_find(&o, &files) == 0 && files.len == 1);
	EXPECT_EQ(files.list[0].first_usec, AT(-90000));
	EXPECT_EQ(files.list[0].last_usec, AT(3600));
	paths = journal_files_of(&files, 0, UINT64_MAX, 1);
	ASSERT(paths && paths[0] && !paths[1]);
	ASSERT(sd_journal_open_files(&j, paths, 0) >= 0 && sd_journal_next(j) > 0);
	EXPECT_EQ(journal_entry_pack(j, UINT32_MAX, &x), 1);
	sd_journal_close(j);
	at = x.data;
	journal_entry_unpack(&at, &e);
	EXPECT(at == x.data + x.len);
	EXPECT_EQ(e.real_usec, AT(-90000));
	EXPECT(entry_is(&e, ENTRY_EVENT, "site") && entry_is(&e, ENTRY_STACK, "old") && entry_is(&e, ENTRY_SENDER, "811"));
	EXPECT(!e.field[ENTRY_PID].data);
}

__attribute__((constructor)) static void make_base(void)
{
	static const char *const made[] = { "order", "files", "uid", "story", ("story/" MACHINE), "back", "late" };

	if (!mkdtemp(base))
		abort();
	for (size_t i = 0; i < ARRAY_SIZE(made); i++)
		if (mkdir(path(made[i]), 0700) < 0)
			abort();
}

__attribute__((destructor)) static void remove_base(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", base);
	if (system(command) != 0)
		printf("# %s is left\n", base);
}

/* What was written while the clock was ahead hides nothing of what came when it was set back. */
TEST(a_clock_that_was_set_back)
{
	FILE *f = journal_open("back/a.journal");
	struct taken t = { .next = 100 };

	put(f, -100, "gpuxray", "GPUXRAY_SEQ=100\n");
	for (unsigned i = 0; i < 3; i++)
		put(f, 2 * HOUR + i, "gpuxray", "");
	for (unsigned i = 0; i < 600; i++)
		put(f, i, "gpuxray", fmt("GPUXRAY_SEQ=%u\n", 101 + i));
	journal_close(f);
	EXPECT_EQ(read_directory("back", -HOUR, HOUR, UINT32_MAX, &t), 0);
	EXPECT_EQ(t.count, 601);
	EXPECT_EQ(t.in_order, 601);
}

/* They wait in the daemon while the journal is away. */
TEST(records_that_came_late)
{
	struct journal_options o = { .directory = path("late") };
	FILE *f = journal_open("late/a.journal");
	_cleanup_story_ struct story *s = NULL;
	char why[JOURNAL_WHY_MAX];
	int r;

	put(f, 3500, "gpuxray", "GPUXRAY_EVENT=sample\nGPUXRAY_PID=7\nGPUXRAY_BYTES=10\n");
	put(f, 3900, "gpuxray",
	    fmt("GPUXRAY_EVENT=sample\nGPUXRAY_PID=8\nGPUXRAY_BYTES=10\nGPUXRAY_TIME_USEC=%" PRIu64 "\n", AT(3550)));
	put(f, 3901, "gpuxray", "GPUXRAY_EVENT=sample\nGPUXRAY_PID=9\nGPUXRAY_BYTES=10\n");
	journal_close(f);
	s = read_story(&o, &r, why);
	EXPECT_EQ(r, 0);
	EXPECT_EQ(s->processes_len, 2);
}

TEST(a_file_that_is_not_there_among_others_is_named)
{
	const char *files[] = { path("story/" MACHINE "/system.journal"), path("none.journal") };
	struct journal_options o = { .files = files, .files_len = 2 };
	_cleanup_story_ struct story *s = NULL;
	char why[JOURNAL_WHY_MAX];
	int r;

	s = read_story(&o, &r, why);
	EXPECT_EQ(r, 0);
	EXPECT(strstr(why, "none.journal") && strstr(why, "No such file"));
}

TEST_MAIN()
