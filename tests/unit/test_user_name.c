/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <pthread.h>
#include <pwd.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "proc/user_name.h"
#include "temp_proc.h"

#define PASSWD                                                                                                         \
	"root:x:0:0:root:/root:/bin/sh\n# note:x:7:\n+nis:x:8:\n-nis:x:9:\n:x:10:\nno colon\nshort:x\nopen:x:11\n"  \
	"hex:x:0x0c:0\nblank: x: 13:0\nempty:x::0\nhuge:x:4294967296:0\nmost:x:4294967294:0\n"                       \
	"anna:*:1000:1000::\nagain:x:1000:1000::\nlast:x:65534:"

static void expect_passwd(const char *text, size_t len, uint32_t uid, const char *expected)
{
	char *name = NULL;
	int r = passwd_find(text, len, uid, &name);

	if (expected) {
		EXPECT_EQ(r, 0);
		EXPECT_STR(name, expected);
	} else {
		EXPECT_EQ(r, -ENOENT);
		EXPECT(name == NULL);
	}
	free(name);
}

TEST(passwd)
{
	static const char text[] = PASSWD, nul[] = "a\0b:x:5:\nc:x:6:";
	char big[USER_NAME_MAX + 6], longest[USER_NAME_MAX + 1] = "";

	expect_passwd(text, sizeof(text) - 1, 0, "root");
	expect_passwd(text, sizeof(text) - 1, 1000, "anna");
	expect_passwd(text, sizeof(text) - 1, 65534, "last");
	expect_passwd(text, sizeof(text) - 1, 4294967294u, "most");
	for (uint32_t uid = 7; uid < 14; uid++)
		expect_passwd(text, sizeof(text) - 1, uid, NULL);
	expect_passwd(text, sizeof(text) - 2, 65534, NULL); /* cut: 65534 may be the start of a longer number */
	expect_passwd("", 0, 0, NULL);
	expect_passwd(nul, sizeof(nul) - 1, 5, NULL);
	expect_passwd(nul, sizeof(nul) - 1, 6, "c");

	/* One byte too long, and just right. */
	memset(big, 'x', sizeof(big));
	memcpy(big + USER_NAME_MAX + 1, ":x:5:", 5);
	expect_passwd(big, sizeof(big), 5, NULL);
	memset(longest, 'x', USER_NAME_MAX);
	expect_passwd(big + 1, sizeof(big) - 1, 5, longest);
}

/* ---- a name service that the test plays */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* held by the test: it hangs */
static atomic_uint lookups;
static atomic_int nss_error;
static const char *_Atomic nss_name; /* NULL: "u" and the number */

static int play(uint32_t uid, char **ret)
{
	const char *name;
	int r;

	(void)pthread_mutex_lock(&gate);
	atomic_fetch_add(&lookups, 1);
	r = atomic_load(&nss_error);
	name = atomic_load(&nss_name);
	if (r == 0 && uid % 2 == 0 && (name ? (*ret = strdup(name)) == NULL : asprintf(ret, "u%u", uid) < 0))
		r = -ENOMEM;
	(void)pthread_mutex_unlock(&gate);
	return r;
}

static atomic_ullong later_ns;

static uint64_t later(void)
{
	return clock_monotonic_ns() + atomic_load(&later_ns);
}

struct world {
	struct temp_proc dir;
	char passwd[512];
	struct user_names *u;
};

static void world_done(struct world *w)
{
	user_names_free(w->u);
	temp_proc_done(&w->dir);
}

static bool world_new(struct world *w, const char *passwd)
{
	atomic_store(&lookups, 0);
	atomic_store(&nss_error, 0);
	nss_name = NULL;
	if (!temp_proc_new(&w->dir) || !temp_proc_text(&w->dir, 1, "passwd", passwd))
		return false;
	(void)snprintf(w->passwd, sizeof(w->passwd), "%s/1/passwd", w->dir.root);
	return user_names_new(w->passwd, play, later, &w->u) == 0;
}

static void expect_user(struct world *w, uint32_t uid, const char *expected)
{
	char *name = NULL;

	EXPECT_EQ(user_names_get(w->u, uid, &name), 0);
	EXPECT_STR(name, expected);
	free(name);
}

static bool wait_lookups(unsigned n)
{
	for (int i = 0; i < 2000 && atomic_load(&lookups) < n; i++)
		usleep(1000);
	return atomic_load(&lookups) >= n;
}

static uint64_t wait_answers(struct world *w, uint64_t n)
{
	struct user_names_stats s = { 0 };

	for (int i = 0; i < 2000 && s.answers < n; i++) {
		user_names_stats(w->u, &s);
		usleep(1000);
	}
	return s.answers;
}

/* A busy machine may keep the answer for longer than is waited for it. */
static void expect_soon(struct world *w, uint32_t uid, const char *expected)
{
	for (int i = 0; i < 2000; i++) {
		char *name = NULL;
		bool is_there;

		EXPECT_EQ(user_names_get(w->u, uid, &name), 0);
		is_there = name && strcmp(name, expected) == 0;
		free(name);
		if (is_there)
			return;
		usleep(1000);
	}
	expect_user(w, uid, expected);
}

TEST(users_of_the_file_need_no_name_service)
{
	_cleanup_(world_done) struct world w = { 0 };

	ASSERT(world_new(&w, PASSWD));
	for (int i = 0; i < 3; i++) {
		expect_user(&w, 0, "root");
		expect_user(&w, 1000, "anna");
	}
	EXPECT_EQ(atomic_load(&lookups), 0);
}

TEST(a_quick_name_service_is_waited_for)
{
	_cleanup_(world_done) struct world w = { 0 };
	bool is_in_time = false;
	struct user_names_stats s;

	ASSERT(world_new(&w, PASSWD));
	for (uint32_t uid = 8000; uid < 8040 && !is_in_time; uid += 2) {
		char *name = NULL;

		EXPECT_EQ(user_names_get(w.u, uid, &name), 0);
		is_in_time = name && name[0] == 'u';
		free(name);
		/* Waited for in vain: not again for some seconds. */
		atomic_fetch_add(&later_ns, 11 * NSEC_PER_SEC);
	}
	EXPECT(is_in_time);
	world_done(&w);

	ASSERT(world_new(&w, PASSWD));
	expect_soon(&w, 5000, "u5000");
	expect_user(&w, 5001, "5001"); /* has none */
	ASSERT(wait_lookups(2));
	for (int i = 0; i < 100; i++) {
		expect_user(&w, 5000, "u5000");
		expect_user(&w, 5001, "5001");
	}
	EXPECT_EQ(atomic_load(&lookups), 2);
	user_names_stats(w.u, &s);
	EXPECT_EQ(s.used, 2);
	EXPECT_EQ(s.answers, 1);
}

TEST(one_that_hangs_holds_nobody)
{
	_cleanup_(world_done) struct world w = { 0 };
	struct user_names_stats s;
	uint64_t start_ns;

	ASSERT(world_new(&w, PASSWD));
	(void)pthread_mutex_lock(&gate);
	start_ns = clock_monotonic_ns();
	for (uint32_t uid = 10000; uid < 12000; uid++) {
		char number[16];

		(void)snprintf(number, sizeof(number), "%u", uid);
		expect_user(&w, uid, number);
	}
	expect_user(&w, 1000, "anna");
	/* Only the first one was waited for; the bound leaves room for a slow machine. */
	EXPECT(clock_monotonic_ns() - start_ns < 2 * NSEC_PER_SEC);
	user_names_stats(w.u, &s);
	EXPECT_EQ(s.asked, USER_NAMES_ASKED_MAX);
	EXPECT_EQ(s.late, 1);
	/* One more is with the service already, unless the thread has not come to it yet. */
	EXPECT(s.overflows == 2000 - USER_NAMES_ASKED_MAX - 1 || s.overflows == 2000 - USER_NAMES_ASKED_MAX);
	EXPECT(s.used <= USER_NAMES_ASKED_MAX + 2);
	(void)pthread_mutex_unlock(&gate);
	ASSERT(wait_lookups(USER_NAMES_ASKED_MAX));
	EXPECT(wait_answers(&w, USER_NAMES_ASKED_MAX / 2) >= USER_NAMES_ASKED_MAX / 2);
	expect_user(&w, 10000, "u10000");
	expect_user(&w, 10001, "10001");
}

TEST(the_end_does_not_wait_for_it)
{
	struct world w = { 0 };
	struct user_names_stats s;
	uint64_t start_ns;

	ASSERT(world_new(&w, PASSWD));
	(void)pthread_mutex_lock(&gate);
	expect_user(&w, 5000, "5000");
	do {
		usleep(1000);
		user_names_stats(w.u, &s);
	} while (s.asked > 0);
	start_ns = clock_monotonic_ns();
	world_done(&w);
	EXPECT(clock_monotonic_ns() - start_ns < NSEC_PER_SEC);
	(void)pthread_mutex_unlock(&gate);
	/* The thread frees what is left; nothing may be read after that. */
	EXPECT(wait_lookups(1));
	usleep(20000);
}

TEST(one_that_fails_is_not_asked_all_the_time)
{
	_cleanup_(world_done) struct world w = { 0 };

	ASSERT(world_new(&w, PASSWD));
	atomic_store(&nss_error, -EIO);
	for (int i = 0; i < 50; i++)
		expect_user(&w, 5000, "5000");
	ASSERT(wait_lookups(1));
	usleep(5000);
	EXPECT_EQ(atomic_load(&lookups), 1);
}

TEST(names_that_change)
{
	_cleanup_(world_done) struct world w = { 0 };

	ASSERT(world_new(&w, "anna:x:1000:\n"));
	expect_user(&w, 1000, "anna");
	expect_user(&w, 1001, "1001");
	expect_soon(&w, 2000, "u2000");
	EXPECT_EQ(atomic_load(&lookups), 2);
	ASSERT(temp_proc_text(&w.dir, 1, "passwd", "berta:x:1000:\ncarl:x:1001:\n"));
	nss_name = "dora";
	/* Not before their time. */
	expect_user(&w, 1000, "anna");
	expect_user(&w, 1001, "1001");
	atomic_fetch_add(&later_ns, 61 * NSEC_PER_SEC);
	expect_user(&w, 1000, "berta");
	expect_user(&w, 1001, "carl");
	expect_user(&w, 2000, "u2000");
	EXPECT_EQ(atomic_load(&lookups), 2);
	atomic_fetch_add(&later_ns, 600 * NSEC_PER_SEC);
	expect_user(&w, 2000, "u2000"); /* nobody waits for news of a name that is there */
	expect_soon(&w, 2000, "dora");
	/* The service is down: the name holds. */
	atomic_fetch_add(&later_ns, 601 * NSEC_PER_SEC);
	atomic_store(&nss_error, -EIO);
	expect_user(&w, 2000, "dora");
	ASSERT(wait_lookups(4));
	usleep(5000);
	expect_user(&w, 2000, "dora");
	/* Not in the file any more. */
	ASSERT(temp_proc_text(&w.dir, 1, "passwd", ""));
	atomic_store(&nss_error, 0);
	expect_soon(&w, 1000, "dora");
	expect_soon(&w, 1001, "1001");
}

TEST(many_users)
{
	_cleanup_(world_done) struct world w = { 0 };
	struct user_names_stats s;

	ASSERT(world_new(&w, PASSWD));
	for (uint32_t uid = 20000; uid < 20000 + 2 * USER_NAMES_MAX; uid += 2) {
		char expected[16];

		(void)snprintf(expected, sizeof(expected), "u%u", uid);
		for (int i = 0; i < 1000; i++) {
			char *name = NULL;
			bool is_known;

			EXPECT_EQ(user_names_get(w.u, uid, &name), 0);
			is_known = name && name[0] == 'u';
			if (is_known)
				EXPECT_STR(name, expected);
			free(name);
			if (is_known)
				break;
			usleep(1000);
		}
	}
	expect_user(&w, 0, "root");
	user_names_stats(w.u, &s);
	EXPECT_EQ(s.used, USER_NAMES_MAX);
	EXPECT(s.evictions >= 1);
	EXPECT_EQ(s.answers, USER_NAMES_MAX);
	EXPECT_EQ(s.overflows, 0);
}

TEST(odd_answers_and_no_file)
{
	_cleanup_(world_done) struct world w = { 0 };
	char big[USER_NAME_MAX + 2];

	ASSERT(world_new(&w, ""));
	ASSERT(unlink(w.passwd) == 0);
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	nss_name = big;
	expect_user(&w, 5000, "5000");
	ASSERT(wait_lookups(1));
	usleep(5000);
	expect_user(&w, 5000, "5000");
	nss_name = big + 1;
	expect_soon(&w, 5002, big + 1);
	expect_soon(&w, UINT32_MAX - 1, big + 1);
}

TEST(of_this_machine)
{
	const struct passwd *pw = getpwuid(getuid());
	struct user_names_stats s;
	char *name = NULL;

	EXPECT_EQ(user_name_get(getuid(), &name), 0);
	if (pw)
		EXPECT_STR(name, pw->pw_name);
	free(name);
	name = NULL;
	ASSERT(!getpwuid(4000000123u));
	EXPECT_EQ(user_name_get(4000000123u, &name), 0);
	EXPECT_STR(name, "4000000123");
	free(name);
	user_name_stats(&s);
	EXPECT_EQ(s.used, 2);
}

TEST_MAIN()
