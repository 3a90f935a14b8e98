/* SPDX-License-Identifier: MIT */
/* The table of open files, from several threads. */
#include <pthread.h>
#include <sys/fanotify.h>

#include "base/clock.h"
#include "frames_make.h"

#define FILES 5
#define ROUNDS 2000

struct fixture {
	struct temp_proc dir;
	struct objects *objects;
	char paths[FILES][128];
	struct mapping mappings[FILES];
};

static void fixture_done(struct fixture *f)
{
	objects_unref(f->objects);
	temp_proc_done(&f->dir);
}

/* Files that differ in the name of their one symbol. */
static bool write_elf(const char *path, unsigned i)
{
	struct made m;
	char name[16];
	bool ok;

	made_init(&m, 64, SHT_SYMTAB);
	(void)snprintf(name, sizeof(name), "function%u", i);
	made_symbol(&m, name, MADE_TEXT_VADDR, 64, MADE_FUNC, 1);
	ok = made_write(&m, path);
	made_done(&m);
	return ok;
}

static bool fixture_new(struct fixture *f, uint32_t limit)
{
	if (!temp_proc_new(&f->dir) || objects_new("/proc", limit, &f->objects) < 0)
		return false;
	for (unsigned i = 0; i < FILES; i++) {
		struct stat st;

		(void)snprintf(f->paths[i], sizeof(f->paths[i]), "%s/file%u", f->dir.root, i);
		if (!write_elf(f->paths[i], i) || stat(f->paths[i], &st) < 0)
			return false;
		f->mappings[i] = (struct mapping){ .start = 0x1000, .end = 0x2000, .path = f->paths[i],
						   .dev_major = major(st.st_dev), .dev_minor = minor(st.st_dev),
						   .inode = st.st_ino };
	}
	return true;
}

static unsigned count_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Is it the file that its path says, still open? */
static bool is_file(const struct object *ob, unsigned i)
{
	struct elf_symbol q = { .vaddr = MADE_TEXT_VADDR + 5 };
	char want[16];
	bool ok;

	(void)snprintf(want, sizeof(want), "function%u", i);
	ok = ob->elf && elf_file_lookup(ob->elf, &q, 1, 100) == 0 && q.name && strcmp(q.name, want) == 0;
	free(q.name);
	return ok;
}

TEST(objects_live_as_long_as_somebody_has_them)
{
	_cleanup_(fixture_done) struct fixture f = {};
	struct object *held = NULL, *other = NULL, *again = NULL;
	const unsigned fds = count_fds();
	uint64_t id, before;

	ASSERT(fixture_new(&f, 2));
	ASSERT(objects_get(f.objects, 1, &f.mappings[0], &held) == 0);
	id = held->id;
	EXPECT(objects_get(f.objects, 1, &f.mappings[0], &again) == 0 && again == held);
	object_unref(TAKE_PTR(again));
	/* Pushed out by others. */
	for (unsigned i = 1; i < FILES; i++) {
		ASSERT(objects_get(f.objects, 1, &f.mappings[i], &other) == 0);
		EXPECT(is_file(other, i));
		object_unref(TAKE_PTR(other));
	}
	EXPECT_EQ(count_fds(), fds + 3);
	EXPECT(is_file(held, 0));
	ASSERT(objects_get(f.objects, 1, &f.mappings[0], &again) == 0);
	EXPECT(again != held && again->id > id);
	EXPECT_EQ(held->id, id);
	object_unref(TAKE_PTR(held));
	EXPECT_EQ(count_fds(), fds + 2);

	/* Closed when idle, but for those who have it. */
	before = clock_monotonic_ns();
	ASSERT(objects_get(f.objects, 1, &f.mappings[1], &other) == 0);
	objects_trim(f.objects, before);
	EXPECT_EQ(count_fds(), fds + 2); /* again, and other in the table */
	objects_trim(f.objects, UINT64_MAX);
	EXPECT_EQ(count_fds(), fds + 2);
	EXPECT(is_file(again, 0) && is_file(other, 1));
	/* They outlive the table. */
	objects_unref(TAKE_PTR(f.objects));
	EXPECT(is_file(again, 0) && is_file(other, 1));
	object_unref(again);
	object_unref(other);
	EXPECT_EQ(count_fds(), fds);
}

struct hammer {
	struct fixture *f;
	pthread_barrier_t *barrier;
	struct object *got;
	unsigned number, failed;
};

static void *hammer_main(void *arg)
{
	struct hammer *h = arg;
	struct objects *objects = objects_ref(h->f->objects);
	unsigned random = h->number;

	for (unsigned round = 0; round < ROUNDS; round++) {
		const unsigned i = (random = random * 1103515245 + 12345) / 65536 % FILES;
		struct object *ob = NULL;

		if (round % 64 == 0)
			objects_trim(objects, UINT64_MAX);
		if (objects_get(objects, 1, &h->f->mappings[i], &ob) < 0 || !is_file(ob, i))
			h->failed++;
		object_unref(ob);
	}
	objects_unref(objects);
	return NULL;
}

TEST(two_threads_and_room_for_two_files)
{
	_cleanup_(fixture_done) struct fixture f = {};
	struct hammer h[2] = { { .f = &f, .number = 1 }, { .f = &f, .number = 2 } };
	const unsigned fds = count_fds();
	pthread_t threads[2];

	ASSERT(fixture_new(&f, 2));
	for (int i = 0; i < 2; i++)
		ASSERT(pthread_create(&threads[i], NULL, hammer_main, &h[i]) == 0);
	for (int i = 0; i < 2; i++) {
		ASSERT(pthread_join(threads[i], NULL) == 0);
		EXPECT_EQ(h[i].failed, 0);
	}
	EXPECT_EQ(count_fds(), fds + 2);
	objects_trim(f.objects, UINT64_MAX);
	EXPECT_EQ(count_fds(), fds);
}

static void *same_main(void *arg)
{
	struct hammer *h = arg, *both = h - h->number;

	for (unsigned round = 0; round < ROUNDS; round++) {
		(void)pthread_barrier_wait(h->barrier);
		if (objects_get(h->f->objects, 1, &h->f->mappings[0], &h->got) < 0)
			h->failed++;
		(void)pthread_barrier_wait(h->barrier);
		if (both[0].got != both[1].got)
			h->failed++;
		(void)pthread_barrier_wait(h->barrier);
		object_unref(TAKE_PTR(h->got));
		if (h->number == 0)
			objects_trim(h->f->objects, UINT64_MAX);
	}
	return NULL;
}

TEST(opened_by_two_threads_at_once_it_is_one)
{
	_cleanup_(fixture_done) struct fixture f = {};
	pthread_barrier_t barrier;
	struct hammer h[2] = { { .f = &f, .number = 0, .barrier = &barrier },
			       { .f = &f, .number = 1, .barrier = &barrier } };
	const unsigned fds = count_fds();
	pthread_t threads[2];

	ASSERT(fixture_new(&f, 2) && pthread_barrier_init(&barrier, NULL, 2) == 0);
	for (int i = 0; i < 2; i++)
		ASSERT(pthread_create(&threads[i], NULL, same_main, &h[i]) == 0);
	for (int i = 0; i < 2; i++) {
		ASSERT(pthread_join(threads[i], NULL) == 0);
		EXPECT_EQ(h[i].failed, 0);
	}
	(void)pthread_barrier_destroy(&barrier);
	EXPECT_EQ(count_fds(), fds);
}

static void *slow_main(void *arg)
{
	struct hammer *h = arg;

	h->failed = objects_get(h->f->objects, 1, &h->f->mappings[0], &h->got) < 0;
	return NULL;
}

/* A file whose opening waits for somebody: fanotify asks us for each open of it. */
TEST(a_file_slow_to_open_holds_up_no_other)
{
	_cleanup_(fixture_done) struct fixture f = {};
	_cleanup_close_ int watch = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY | O_CLOEXEC);
	struct hammer h = { .f = &f };
	struct fanotify_event_metadata event;
	struct fanotify_response answer = { .response = FAN_ALLOW };
	struct object *other = NULL;
	pthread_t thread;

	ASSERT(fixture_new(&f, 2));
	if (watch < 0 || fanotify_mark(watch, FAN_MARK_ADD, FAN_OPEN_PERM, AT_FDCWD, f.paths[0]) < 0) {
		printf("# SKIP opens cannot be held up here: %s\n", strerror(errno));
		return;
	}
	(void)alarm(60); /* rather than hang */
	ASSERT(pthread_create(&thread, NULL, slow_main, &h) == 0);
	ASSERT(read(watch, &event, sizeof(event)) == sizeof(event));
	EXPECT(event.mask & FAN_OPEN_PERM);
	EXPECT(objects_get(f.objects, 1, &f.mappings[1], &other) == 0);
	object_unref(TAKE_PTR(other));
	EXPECT(objects_get(f.objects, 1, &f.mappings[1], &other) == 0);
	object_unref(TAKE_PTR(other));
	objects_trim(f.objects, UINT64_MAX);
	answer.fd = event.fd;
	ASSERT(write(watch, &answer, sizeof(answer)) == sizeof(answer));
	(void)close(event.fd);
	ASSERT(pthread_join(thread, NULL) == 0);
	(void)alarm(0);
	EXPECT_EQ(h.failed, 0);
	object_unref(h.got);
}

TEST_MAIN()
