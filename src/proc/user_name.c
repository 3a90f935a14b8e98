/* SPDX-License-Identifier: MIT */
#include "proc/user_name.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/map64.h"
#include "base/privilege.h"
#include "base/thread.h"
#include "proc/span.h"

#define BUFFER_MAX ((size_t)1 << 20)
/* How long an answer holds. One that is over goes on being told while NSS is asked anew. */
#define FILE_NS (60 * NSEC_PER_SEC)
#define NSS_NS (600 * NSEC_PER_SEC)
#define NONE_NS (60 * NSEC_PER_SEC)
/* A daemon that has the name in its cache answers within this; who does not is not waited for again for a while. */
#define WAIT_NS (10 * NSEC_PER_MSEC)
#define NO_WAIT_NS (10 * NSEC_PER_SEC)

struct entry {
	char *name; /* NULL: has none, or not known yet */
	uint64_t until_ns;
	bool is_asked;
};

struct user_names {
	pthread_mutex_t lock;
	pthread_cond_t asked_cond, answered_cond;
	unsigned refs; /* the owner's and the thread's */
	bool is_stopping, has_thread;
	const char *passwd;
	user_lookup_fn lookup;
	uint64_t (*clock)(void);
	struct map64 entries; /* by uid + 1 */
	uint32_t asked[USER_NAMES_ASKED_MAX]; /* a ring */
	size_t asked_start, asked_len;
	uint64_t no_wait_until_ns;
	struct user_names_stats stats;
};

static int nss_lookup(uint32_t uid, char **ret)
{
	for (size_t size = 1024; size <= BUFFER_MAX; size *= 4) {
		_cleanup_free_ char *buf = malloc(size);
		struct passwd pw, *found = NULL;
		int e;

		if (!buf)
			return -ENOMEM;
		e = getpwuid_r(uid, &pw, buf, size, &found);
		if (e == ERANGE)
			continue;
		if (found && found->pw_name && found->pw_name[0]) {
			*ret = strdup(found->pw_name);
			return *ret ? 0 : -ENOMEM;
		}
		/* The ways in which modules say that there is no such user. */
		return e == 0 || e == ENOENT || e == ESRCH || e == EBADF || e == EPERM ? 0 : -e;
	}
	return -E2BIG;
}

/* "name:password:uid:..." */
static bool passwd_line(struct span line, struct span *ret_name, uint64_t *ret_uid)
{
	const char *colon = memchr(line.p, ':', line.len);
	struct span rest, number;

	/* Also lines by which NIS is asked. */
	if (!colon || colon == line.p || strchr("#+-", line.p[0]))
		return false;
	*ret_name = (struct span){ line.p, (size_t)(colon - line.p) };
	rest = span_from(line, ret_name->len + 1);
	colon = memchr(rest.p, ':', rest.len);
	if (!colon)
		return false;
	number = span_from(rest, (size_t)(colon - rest.p) + 1);
	colon = memchr(number.p, ':', number.len);
	if (!colon)
		return false;
	number.len = (size_t)(colon - number.p);
	if (number.len > 10 || !span_is_number(number))
		return false;
	*ret_uid = 0;
	for (size_t i = 0; i < number.len; i++)
		*ret_uid = *ret_uid * 10 + (uint64_t)(number.p[i] - '0');
	return true;
}

int passwd_find(const char *text, size_t len, uint32_t uid, char **ret)
{
	struct span rest = { text, len }, line, name;
	char *copy = NULL;
	uint64_t found;
	int r;

	while (span_next(&rest, '\n', &line)) {
		if (!passwd_line(line, &name, &found) || found != uid || name.len > USER_NAME_MAX ||
		    memchr(name.p, '\0', name.len))
			continue;
		r = span_copy(name, &copy);
		if (r < 0)
			return r;
		*ret = copy;
		return 0;
	}
	return -ENOENT;
}

static int file_lookup(const char *path, uint32_t uid, char **ret)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int r;

	r = file_read_head(AT_FDCWD, path, USER_NAMES_FILE_MAX, &text, &len);
	if (r < 0)
		return r == -ENOMEM ? r : -ENOENT;
	return passwd_find(text, len, uid, ret);
}

static void entry_free(struct entry *e)
{
	if (!e)
		return;
	free(e->name);
	free(e);
}

static struct entry *entry_find(struct user_names *u, uint32_t uid)
{
	return map64_get(&u->entries, (uint64_t)uid + 1);
}

/* Those that are being asked for stay: there are few of them. */
static void evict_one(struct user_names *u)
{
	uint64_t key, oldest_key = 0, oldest_ns = UINT64_MAX;
	size_t iter = 0;
	void *value;

	while (map64_next(&u->entries, &iter, &key, &value)) {
		const struct entry *e = value;

		if (e->is_asked || e->until_ns >= oldest_ns)
			continue;
		oldest_ns = e->until_ns;
		oldest_key = key;
	}
	if (!oldest_key)
		return;
	entry_free(map64_remove(&u->entries, oldest_key));
	u->stats.evictions++;
}

static struct entry *entry_make(struct user_names *u, uint32_t uid)
{
	struct entry *e = entry_find(u, uid);

	if (e)
		return e;
	if (u->entries.len >= USER_NAMES_MAX)
		evict_one(u);
	e = calloc(1, sizeof(*e));
	if (e && map64_put(&u->entries, (uint64_t)uid + 1, e) < 0) {
		free(e);
		e = NULL;
	}
	return e;
}

/* Takes the name, which may be NULL. */
static int entry_set(struct user_names *u, uint32_t uid, char *name, uint64_t until_ns)
{
	struct entry *e = entry_make(u, uid);

	if (!e) {
		free(name);
		return -ENOMEM;
	}
	free(e->name);
	e->name = name;
	e->until_ns = until_ns;
	return 0;
}

static void user_names_unref(struct user_names *u)
{
	size_t iter = 0;
	void *value;
	bool is_last;

	(void)pthread_mutex_lock(&u->lock);
	is_last = --u->refs == 0;
	(void)pthread_mutex_unlock(&u->lock);
	if (!is_last)
		return;
	while (map64_next(&u->entries, &iter, NULL, &value))
		entry_free(value);
	map64_done(&u->entries);
	(void)pthread_cond_destroy(&u->asked_cond);
	(void)pthread_cond_destroy(&u->answered_cond);
	(void)pthread_mutex_destroy(&u->lock);
	free(u);
}

static void answer(struct user_names *u, uint32_t uid, int r, char *name)
{
	uint64_t now_ns = u->clock();
	struct entry *e = entry_find(u, uid);

	if (name && strlen(name) > USER_NAME_MAX) {
		free(name);
		name = NULL;
	}
	if (name)
		u->stats.answers++;
	if (e)
		e->is_asked = false;
	if (r < 0 && e) {
		/* Whoever knows is not there now: what was known stays. */
		free(name);
		e->until_ns = now_ns + NONE_NS;
	} else {
		(void)entry_set(u, uid, name, now_ns + (name ? NSS_NS : NONE_NS));
	}
	(void)pthread_cond_broadcast(&u->answered_cond);
}

static void *lookup_thread(void *userdata)
{
	struct user_names *u = userdata;

	(void)privilege_keep(0);
	(void)pthread_mutex_lock(&u->lock);
	while (!u->is_stopping) {
		char *name = NULL;
		uint32_t uid;
		int r;

		if (u->asked_len == 0) {
			(void)cond_wait_until(&u->asked_cond, &u->lock, UINT64_MAX);
			continue;
		}
		uid = u->asked[u->asked_start];
		u->asked_start = (u->asked_start + 1) % USER_NAMES_ASKED_MAX;
		u->asked_len--;
		(void)pthread_mutex_unlock(&u->lock);
		r = u->lookup(uid, &name);
		(void)pthread_mutex_lock(&u->lock);
		answer(u, uid, r, name);
	}
	(void)pthread_mutex_unlock(&u->lock);
	user_names_unref(u);
	return NULL;
}

/* Nobody joins it: it may hang in NSS while the daemon ends. */
static int start_thread(struct user_names *u)
{
	pthread_t thread;
	int r;

	if (u->has_thread)
		return 0;
	r = thread_start(&thread, "user-names", lookup_thread, u);
	if (r < 0)
		return r;
	(void)pthread_detach(thread);
	u->has_thread = true;
	u->refs++;
	return 0;
}

/* For one that is not being asked for yet. False: not asked for. */
static bool ask(struct user_names *u, uint32_t uid)
{
	struct entry *e;

	if (u->asked_len >= USER_NAMES_ASKED_MAX) {
		u->stats.overflows++;
		return false;
	}
	if (start_thread(u) < 0)
		return false;
	e = entry_make(u, uid);
	if (!e)
		return false;
	e->is_asked = true;
	u->asked[(u->asked_start + u->asked_len++) % USER_NAMES_ASKED_MAX] = uid;
	(void)pthread_cond_signal(&u->asked_cond);
	return true;
}

/* Most answers take no time, and a process bears the name it was first seen with for life. */
static void wait_answer(struct user_names *u, uint32_t uid)
{
	uint64_t deadline_ns = clock_monotonic_ns() + WAIT_NS;
	const struct entry *e;

	if (u->clock() < u->no_wait_until_ns)
		return;
	for (e = entry_find(u, uid); e && e->is_asked; e = entry_find(u, uid)) {
		if (cond_wait_until(&u->answered_cond, &u->lock, deadline_ns))
			continue;
		u->no_wait_until_ns = u->clock() + NO_WAIT_NS;
		u->stats.late++;
		return;
	}
}

/* The name as far as it is known now: -ENOENT when a number must do. Locked. */
static int get_locked(struct user_names *u, uint32_t uid, char **ret)
{
	uint64_t now_ns = u->clock();
	struct entry *e = entry_find(u, uid);
	char *name = NULL;
	int r;

	if (!e || (!e->is_asked && e->until_ns <= now_ns)) {
		r = file_lookup(u->passwd, uid, &name);
		if (r == 0)
			r = entry_set(u, uid, name, now_ns + FILE_NS);
		else if (r == -ENOENT && ask(u, uid) && !(e && e->name))
			wait_answer(u, uid);
		if (r == -ENOMEM)
			return r;
		e = entry_find(u, uid);
	}
	if (!e || !e->name)
		return -ENOENT;
	*ret = strdup(e->name);
	return *ret ? 0 : -ENOMEM;
}

int user_names_get(struct user_names *u, uint32_t uid, char **ret)
{
	char *name = NULL;
	int r;

	(void)pthread_mutex_lock(&u->lock);
	r = get_locked(u, uid, &name);
	(void)pthread_mutex_unlock(&u->lock);
	if (r == -ENOENT)
		r = asprintf(&name, "%" PRIu32, uid) < 0 ? -ENOMEM : 0;
	if (r < 0)
		return r;
	*ret = name;
	return 0;
}

int user_names_new(const char *passwd, user_lookup_fn lookup, uint64_t (*clock)(void), struct user_names **ret)
{
	struct user_names *u = calloc(1, sizeof(*u));
	int r;

	if (!u)
		return -ENOMEM;
	(void)pthread_mutex_init(&u->lock, NULL);
	r = cond_init(&u->asked_cond);
	if (r == 0)
		r = cond_init(&u->answered_cond);
	if (r < 0) {
		free(u);
		return r;
	}
	u->refs = 1;
	u->passwd = passwd;
	u->lookup = lookup ? lookup : nss_lookup;
	u->clock = clock ? clock : clock_monotonic_ns;
	*ret = u;
	return 0;
}

void user_names_free(struct user_names *u)
{
	if (!u)
		return;
	(void)pthread_mutex_lock(&u->lock);
	u->is_stopping = true;
	(void)pthread_cond_signal(&u->asked_cond);
	(void)pthread_mutex_unlock(&u->lock);
	user_names_unref(u);
}

void user_names_stats(struct user_names *u, struct user_names_stats *ret)
{
	(void)pthread_mutex_lock(&u->lock);
	*ret = u->stats;
	ret->used = u->entries.len;
	ret->asked = u->asked_len;
	(void)pthread_mutex_unlock(&u->lock);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct user_names *of_machine;

static void make_of_machine(void)
{
	if (user_names_new("/etc/passwd", NULL, NULL, &of_machine) < 0)
		of_machine = NULL;
}

int user_name_get(uint32_t uid, char **ret)
{
	(void)pthread_once(&once, make_of_machine);
	return of_machine ? user_names_get(of_machine, uid, ret) : -ENOMEM;
}

void user_name_stats(struct user_names_stats *ret)
{
	(void)pthread_once(&once, make_of_machine);
	*ret = (struct user_names_stats){ 0 };
	if (of_machine)
		user_names_stats(of_machine, ret);
}
