/* SPDX-License-Identifier: MIT */
/* Descriptors kept by the service manager: names, completeness, what is given up. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "test.h"
#include "trace/keep.h"

struct manager {
	char log[8192];
	size_t stored, fails_after;
};

static int store(const char *name, int fd, void *userdata)
{
	struct manager *m = userdata;
	size_t len = strlen(m->log);

	if (m->stored >= m->fails_after)
		return -ENOTCONN;
	m->stored++;
	snprintf(m->log + len, sizeof(m->log) - len, "+%s ", name);
	return fcntl(fd, F_GETFD) < 0 ? -errno : 0;
}

static void forget(const char *name, void *userdata)
{
	struct manager *m = userdata;
	size_t len = strlen(m->log);

	snprintf(m->log + len, sizeof(m->log) - len, "-%s ", name);
}

static struct keep *new_keep(struct manager *m)
{
	const struct keep_ops ops = { .store = store, .remove = forget, .userdata = m };
	struct keep *k;

	*m = (struct manager){ .fails_after = SIZE_MAX };
	if (keep_new(&ops, &k) < 0)
		abort();
	return k;
}

static int null_fd(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void offer(struct keep *k, const char *const *names)
{
	for (; *names; names++)
		EXPECT_EQ(keep_offer(k, *names, null_fd()), 0);
}

TEST(names_that_are_not_ours_are_closed)
{
	static const char *const names[] = { "", "stored", "maps", "exit2", "library-", "library-0", "library-x", "library-1-2",
					     "probes-1", "probes-1-", "probes--1", "probes-x-1", "probes-0-1",
					     "library-99999999999" };
	struct manager m;
	struct keep *k = new_keep(&m);
	char long_name[200];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		int fd = null_fd();

		EXPECT_EQ(keep_offer(k, names[i], fd), -EINVAL);
		EXPECT(!is_open(fd));
	}
	memset(long_name, 'a', sizeof(long_name) - 1);
	memcpy(long_name, "map-", 4);
	long_name[sizeof(long_name) - 1] = '\0';
	EXPECT_EQ(keep_offer(k, long_name, null_fd()), -EINVAL);
	EXPECT_EQ(keep_offered(k), 0);
	EXPECT_EQ(keep_offered(NULL), 0);
	EXPECT_EQ(keep_peek(NULL, "exit"), -ENOENT);
	EXPECT_STR(m.log, "");
	keep_free(k);
}

TEST(complete_or_not)
{
	static const char *const whole[] = { "exit", "exec", "map-ring", "library-3", "probes-3-2", "probes-3-2", NULL };
	static const char *const more[][2] = { { "exit", NULL },      { "map-ring", NULL },   { "library-3", NULL },
					       { "probes-3-2", NULL }, { "library-4", NULL }, { "probes-4-1", NULL },
					       { "probes-3-3", NULL } };
	struct manager m;
	struct keep *k = new_keep(&m);

	EXPECT(!keep_is_complete(k));
	offer(k, whole);
	EXPECT(keep_is_complete(k));
	keep_free(k);
	for (size_t i = 0; i < ARRAY_SIZE(more); i++) {
		k = new_keep(&m);
		offer(k, whole);
		offer(k, more[i]);
		EXPECT(!keep_is_complete(k));
		keep_free(k);
	}
	for (size_t i = 0; whole[i]; i++) {
		k = new_keep(&m);
		for (size_t j = 0; whole[j]; j++)
			if (j != i)
				EXPECT_EQ(keep_offer(k, whole[j], null_fd()), 0);
		/* A map that is missing is noticed where the maps are known. */
		EXPECT_EQ(keep_is_complete(k), strncmp(whole[i], "map-", 4) == 0);
		keep_free(k);
	}
}

TEST(libraries_are_taken_whole)
{
	static const char *const names[] = { "exit", "probes-7-1", "library-2", "probes-2-2", "library-7", "probes-2-2",
					     "exec", "map-a", NULL };
	struct kept_library l;
	uint32_t seen = 0;
	struct manager m;
	struct keep *k = new_keep(&m);
	int fd;

	offer(k, names);
	while (keep_take_library(k, &l) == 0) {
		seen += l.number;
		EXPECT(is_open(l.fd));
		EXPECT_EQ(l.links_len, l.number == 2 ? 2 : 1);
		for (size_t i = 0; i < l.links_len; i++)
			EXPECT(is_open(l.links[i]) && l.links[i] != l.fd);
		fd = l.links[0];
		kept_library_done(&l);
		EXPECT(!is_open(fd));
	}
	EXPECT_EQ(seen, 9);
	EXPECT_EQ(keep_offered(k), 3);
	fd = keep_peek(k, "map-a");
	EXPECT(is_open(fd));
	EXPECT_EQ(keep_take(k, "map-a"), fd);
	EXPECT_EQ(keep_take(k, "map-a"), -ENOENT);
	(void)close(fd);
	fd = keep_peek(k, "exit");
	/* Numbers go on where the store is. */
	EXPECT_EQ(keep_store_library(k, fd, &fd, 1), 8);
	EXPECT_STR(m.log, "+probes-8-1 +library-8 ");
	keep_remove_library(k, 2);
	EXPECT(strstr(m.log, "-library-2 ") && strstr(m.log, "-probes-2-2 ") && !strstr(m.log, "-library-7 "));
	keep_free(k);
	EXPECT(!is_open(fd));
}

TEST(what_is_dropped_goes_probes_first)
{
	static const char *const names[] = { "map-a", "exit", "library-1", "probes-1-1", NULL };
	struct manager m;
	struct keep *k = new_keep(&m);
	int fd;

	offer(k, names);
	fd = keep_peek(k, "probes-1-1");
	keep_drop(k);
	EXPECT(!is_open(fd));
	EXPECT_EQ(keep_offered(k), 0);
	EXPECT(strncmp(m.log, "-probes-1-1 ", 12) == 0);
	EXPECT(strstr(m.log, "-map-a ") && strstr(m.log, "-exit ") && strstr(m.log, "-library-1 "));
	EXPECT(keep_is_on(k)); /* and a fresh start can be kept */
	m.log[0] = '\0';
	keep_store(k, "map-b", 0);
	EXPECT_STR(m.log, "+map-b ");
	keep_free(k);
	keep_drop(NULL);
	keep_stop(NULL);
	keep_free(NULL);
}

TEST(half_a_store_is_no_store)
{
	struct manager m;
	struct keep *k = new_keep(&m);
	int links[3] = { 0, 0, 0 };

	keep_store(k, "map-a", 0);
	m.fails_after = 3;
	EXPECT_EQ(keep_store_library(k, 0, links, 3), 0);
	EXPECT_STR(m.log, "+map-a +probes-1-3 +probes-1-3 -probes-1-3 -map-a ");
	EXPECT(!keep_is_on(k));
	keep_store(k, "map-b", 0);
	EXPECT_EQ(keep_store_library(k, 0, links, 1), 0);
	EXPECT_EQ(m.stored, 3);
	keep_free(k);
	EXPECT(!keep_is_on(NULL));
	EXPECT_EQ(keep_store_library(NULL, 0, links, 1), 0);
}

TEST(no_more_than_the_manager_takes)
{
	struct manager m;
	struct keep *k = new_keep(&m);
	int links[10] = {};
	uint32_t n = 0;

	while (keep_store_library(k, 0, links, 10) && n < KEEP_MAX)
		n++;
	EXPECT_EQ(n, (KEEP_MAX - 1) / 11);
	EXPECT(!keep_is_on(k));
	EXPECT(m.stored <= KEEP_MAX);
	keep_free(k);
	/* What goes makes room. */
	k = new_keep(&m);
	for (uint32_t i = 0; i < 1000; i++) {
		n = keep_store_library(k, 0, links, 10);
		EXPECT_EQ(n, i + 1);
		m.log[0] = '\0';
		keep_remove_library(k, n);
	}
	keep_free(k);
}

TEST_MAIN()
