/* SPDX-License-Identifier: MIT */
#include "proc/container_name.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/map64.h"
#include "base/privilege.h"
#include "base/thread.h"
#include "proc/span.h"

/* Looked for again after 1, 2, 4 ... 32 s; then only when another process of the container is seen. */
#define WAIT_FIRST_NS NSEC_PER_SEC
#define WAIT_LAST_NS (32 * NSEC_PER_SEC)
#define POLLED_MAX 8 /* containers looked for in one poll */
/* A folder and a file take less than this; where they do not, on a file system that hangs say, nobody waits for a while. */
#define ANSWER_NS (50 * NSEC_PER_MSEC)
#define NO_WAIT_NS (10 * NSEC_PER_SEC)

struct entry {
	char id[CONTAINER_ID_LEN + 1];
	char *runtime, *pod_uid; /* may be NULL */
	struct container_name name;
	uint64_t asked_ns, next_ns, wait_ns; /* next_ns UINT64_MAX: all is known */
	bool is_asked;			     /* the thread has it, or will: it stays, and so do its texts above */
	bool is_awaited;		     /* somebody waits for that */
	struct entry *next;		     /* that the thread is to look for */
};

struct container_names {
	pthread_mutex_t lock; /* of all but root and clock */
	pthread_cond_t asked_cond, answered_cond;
	unsigned refs; /* the owner's and the thread's */
	bool is_stopping, has_thread;
	int root;
	uint64_t (*clock)(void);
	struct map64 entries; /* by hash of the id */
	struct entry *first, *last; /* asked for, oldest first */
	uint64_t no_wait_until_ns;
	struct container_names_stats stats;
};

void container_name_done(struct container_name *n)
{
	free(n->pod);
	free(n->pod_namespace);
	free(n->container);
	*n = (struct container_name){ 0 };
}

static void entry_free(struct entry *e)
{
	if (!e)
		return;
	container_name_done(&e->name);
	free(e->runtime);
	free(e->pod_uid);
	free(e);
}

DEFINE_CLEANUP(struct entry, entry_free)

/*
 * Links lead to where they lead the host: /var/lib/docker is often one. A filter of system calls that is older than
 * openat2() may refuse it; then they lead to where they lead us.
 */
static int open_on_host(const struct container_names *c, const char *path, int flags)
{
	struct open_how how = { .flags = (uint64_t)(flags | O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY),
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	long fd = syscall(SYS_openat2, c->root, path, &how, sizeof(how));

	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		fd = openat(c->root, path, (int)how.flags);
	return fd < 0 ? -errno : (int)fd;
}

static int read_on_host(const struct container_names *c, const char *path, char **ret, size_t *ret_len)
{
	_cleanup_close_ int fd = open_on_host(c, path, 0);

	return fd < 0 ? fd : file_read_fd(fd, CONTAINER_FILE_MAX, ret, ret_len);
}

typedef int (*name_fn)(const char *name, const char *key, struct container_name *ret);

/* The first entry of a folder that tells the name. */
static int search_folder(const struct container_names *c, const char *path, name_fn parse, const char *key,
			 struct container_name *ret, bool *ret_overflow)
{
	_cleanup_closedir_ DIR *dir = NULL;
	int fd = open_on_host(c, path, O_DIRECTORY);

	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			(void)close(fd);
		return -ENOENT;
	}
	for (size_t i = 0; i < CONTAINER_LINKS_MAX; i++) {
		const struct dirent *e = readdir(dir);
		int r;

		if (!e)
			return -ENOENT;
		r = parse(e->d_name, key, ret);
		if (r != -ENOENT)
			return r;
	}
	*ret_overflow = true;
	return -ENOENT;
}

static int parse_bundle(const struct entry *e, const char *text, size_t len, struct container_name *ret)
{
	return container_name_from_bundle(text, len, e->runtime, ret);
}

static int parse_docker(const struct entry *e, const char *text, size_t len, struct container_name *ret)
{
	return container_name_from_docker(text, len, ret);
}

static int parse_podman(const struct entry *e, const char *text, size_t len, struct container_name *ret)
{
	return container_name_from_podman(text, len, e->id, ret);
}

#define TASK "io.containerd.runtime.v2.task"
#define STORAGE "containers/storage/overlay-containers"

/* What a runtime has written of a container; %s is its id. */
static const struct runtime_file {
	const char *runtime, *before, *after;
	int (*parse)(const struct entry *e, const char *text, size_t len, struct container_name *ret);
	bool is_of_pods, is_of_others;
} files[] = {
	{ "containerd", "run/containerd/" TASK "/k8s.io/", "/config.json", parse_bundle, true, false },
	{ "containerd", "run/k3s/containerd/" TASK "/k8s.io/", "/config.json", parse_bundle, true, false },
	{ "containerd", "run/containerd/" TASK "/default/", "/config.json", parse_bundle, false, true },
	{ "cri-o", "run/" STORAGE "/", "/userdata/config.json", parse_bundle, true, true },
	{ "docker", "var/lib/docker/containers/", "/config.v2.json", parse_docker, false, true },
	{ "podman", "var/lib/" STORAGE "/containers.json", NULL, parse_podman, false, true },
	{ "podman", "var/lib/" STORAGE "/volatile-containers.json", NULL, parse_podman, false, true },
	{ "podman", "run/" STORAGE "/volatile-containers.json", NULL, parse_podman, false, true },
};

static int read_file(const struct container_names *c, const struct entry *e, const struct runtime_file *f,
		     struct container_name *ret)
{
	_cleanup_free_ char *text = NULL;
	char path[256];
	size_t len;
	int r;

	(void)snprintf(path, sizeof(path), "%s%s%s", f->before, f->after ? e->id : "", f->after ? f->after : "");
	r = read_on_host(c, path, &text, &len);
	if (r < 0)
		return r == -ENOMEM ? r : -ENOENT;
	return f->parse(e, text, len, ret);
}

static bool is_complete(const struct entry *e, const struct container_name *n)
{
	return n->container && (!e->pod_uid || n->pod);
}

/* Without the lock. 0 or -ENOMEM. */
static int look(const struct container_names *c, const struct entry *e, struct container_name *n, bool *ret_overflow)
{
	int r = 0;

	if (e->pod_uid)
		r = search_folder(c, "var/log/containers", container_name_from_link, e->id, n, ret_overflow);
	for (size_t i = 0; r != -ENOMEM && e->runtime && !is_complete(e, n) && i < ARRAY_SIZE(files); i++) {
		const struct runtime_file *f = &files[i];

		if (strcmp(f->runtime, e->runtime) == 0 && (e->pod_uid ? f->is_of_pods : f->is_of_others))
			r = read_file(c, e, f, n);
	}
	if (r != -ENOMEM && e->pod_uid && !n->pod)
		r = search_folder(c, "var/log/pods", container_name_from_folder, e->pod_uid, n, ret_overflow);
	return r == -ENOMEM ? r : 0;
}

/* ---- the thread that looks: whoever traces must not hang where a file system does */

/* Names that are known stay. Takes of n what is new, and frees the rest. Locked. */
static void answer(struct container_names *c, struct entry *e, struct container_name *n)
{
	const bool is_late = e->wait_ns > 0 || !e->is_awaited, is_pod_new = n->pod && !e->name.pod,
		   is_container_new = n->container && !e->name.container;

	if (is_pod_new) {
		e->name.pod = TAKE_PTR(n->pod);
		e->name.pod_namespace = TAKE_PTR(n->pod_namespace);
	}
	if (is_container_new)
		e->name.container = TAKE_PTR(n->container);
	container_name_done(n);
	c->stats.found += is_late && (is_pod_new || is_container_new);
	e->wait_ns = e->wait_ns ? MIN(e->wait_ns * 2, 2 * WAIT_LAST_NS) : WAIT_FIRST_NS;
	e->next_ns = is_complete(e, &e->name) ? UINT64_MAX : c->clock() + MIN(e->wait_ns, WAIT_LAST_NS);
	e->is_asked = false;
	c->stats.asked--;
	(void)pthread_cond_broadcast(&c->answered_cond);
}

static struct entry *shift(struct container_names *c)
{
	struct entry *e = c->first;

	if (!e)
		return NULL;
	c->first = e->next;
	if (!c->first)
		c->last = NULL;
	return e;
}

static void container_names_unref(struct container_names *c)
{
	size_t iter = 0;
	void *value;
	bool is_last;

	(void)pthread_mutex_lock(&c->lock);
	is_last = --c->refs == 0;
	(void)pthread_mutex_unlock(&c->lock);
	if (!is_last)
		return;
	while (map64_next(&c->entries, &iter, NULL, &value))
		entry_free(value);
	map64_done(&c->entries);
	(void)pthread_cond_destroy(&c->asked_cond);
	(void)pthread_cond_destroy(&c->answered_cond);
	(void)pthread_mutex_destroy(&c->lock);
	(void)close(c->root);
	free(c);
}

static void *look_thread(void *userdata)
{
	struct container_names *c = userdata;

	(void)privilege_keep(PRIVILEGE(CAP_DAC_READ_SEARCH));
	(void)pthread_mutex_lock(&c->lock);
	while (!c->is_stopping) {
		struct entry *e = shift(c);
		struct container_name n = { 0 };
		bool has_overflow = false;

		if (!e) {
			(void)cond_wait_until(&c->asked_cond, &c->lock, UINT64_MAX);
			continue;
		}
		(void)pthread_mutex_unlock(&c->lock);
		/* Without memory it is as if nothing were there: the next look may have some. */
		(void)look(c, e, &n, &has_overflow);
		(void)pthread_mutex_lock(&c->lock);
		c->stats.overflows += has_overflow;
		answer(c, e, &n);
	}
	(void)pthread_mutex_unlock(&c->lock);
	container_names_unref(c);
	return NULL;
}

/* Nobody joins it: it may hang while the daemon ends. */
static int start_thread(struct container_names *c)
{
	pthread_t thread;
	int r;

	if (c->has_thread)
		return 0;
	r = thread_start(&thread, "container-names", look_thread, c);
	if (r < 0)
		return r;
	(void)pthread_detach(thread);
	c->has_thread = true;
	c->refs++;
	return 0;
}

/* Locked. */
static void ask(struct container_names *c, struct entry *e)
{
	if (e->is_asked || start_thread(c) < 0)
		return;
	e->is_asked = true;
	e->next = NULL;
	if (c->last)
		c->last->next = e;
	else
		c->first = e;
	c->last = e;
	c->stats.asked++;
	(void)pthread_cond_signal(&c->asked_cond);
}

static void wait_answer(struct container_names *c, struct entry *e)
{
	const uint64_t deadline_ns = clock_monotonic_ns() + ANSWER_NS;

	if (c->clock() < c->no_wait_until_ns)
		return;
	e->is_awaited = true;
	while (e->is_asked && cond_wait_until(&c->answered_cond, &c->lock, deadline_ns))
		continue;
	e->is_awaited = false;
	if (e->is_asked)
		c->no_wait_until_ns = c->clock() + NO_WAIT_NS;
}

/* ---- what is known */

static void evict_one(struct container_names *c)
{
	uint64_t key, oldest_key = 0, oldest_ns = UINT64_MAX;
	struct entry *oldest = NULL;
	size_t iter = 0;
	void *value;

	while (map64_next(&c->entries, &iter, &key, &value)) {
		struct entry *e = value;

		if (e->is_asked || e->asked_ns >= oldest_ns)
			continue;
		oldest_ns = e->asked_ns;
		oldest_key = key;
		oldest = e;
	}
	if (!oldest)
		return;
	(void)map64_remove(&c->entries, oldest_key);
	entry_free(oldest);
	c->stats.evictions++;
}

/* *ret NULL: there is no room. */
static int entry_make(struct container_names *c, const char *id, const char *runtime, const char *pod_uid,
		      struct entry **ret)
{
	const uint64_t key = hash_str(0, id);
	_cleanup_(entry_freep) struct entry *e = NULL;
	struct entry *old = map64_get(&c->entries, key);

	*ret = NULL;
	if (old && strcmp(old->id, id) == 0) {
		*ret = old;
		return 0;
	}
	/* Another id of the same hash goes. */
	if (old && !old->is_asked)
		entry_free(map64_remove(&c->entries, key));
	if (c->entries.len >= CONTAINER_NAMES_MAX)
		evict_one(c);
	if ((old && old->is_asked) || c->entries.len >= CONTAINER_NAMES_MAX) {
		c->stats.overflows++;
		return 0;
	}
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	memcpy(e->id, id, CONTAINER_ID_LEN);
	e->runtime = runtime ? strdup(runtime) : NULL;
	e->pod_uid = pod_uid ? strdup(pod_uid) : NULL;
	if ((runtime && !e->runtime) || (pod_uid && !e->pod_uid) || map64_put(&c->entries, key, e) < 0)
		return -ENOMEM;
	*ret = TAKE_PTR(e);
	return 0;
}

static int copy_text(const char *from, char **to)
{
	if (!from)
		return 0;
	*to = strdup(from);
	return *to ? 0 : -ENOMEM;
}

static int copy_name(const struct container_name *from, struct container_name *ret)
{
	_cleanup_(container_name_done) struct container_name n = { 0 };

	if (copy_text(from->pod, &n.pod) < 0 || copy_text(from->pod_namespace, &n.pod_namespace) < 0 ||
	    copy_text(from->container, &n.container) < 0)
		return -ENOMEM;
	*ret = n;
	n = (struct container_name){ 0 };
	return 0;
}

static bool is_id(const char *id)
{
	const struct span s = span_of(id);

	return s.len == CONTAINER_ID_LEN && span_is_hex(s);
}

int container_names_get(struct container_names *c, const char *id, const char *runtime, const char *pod_uid,
			struct container_name *ret)
{
	struct entry *e;
	int r;

	*ret = (struct container_name){ 0 };
	if (!is_id(id))
		return 0;
	(void)pthread_mutex_lock(&c->lock);
	r = entry_make(c, id, runtime, pod_uid, &e);
	if (r == 0 && e) {
		e->asked_ns = c->clock();
		if (e->next_ns <= e->asked_ns) {
			ask(c, e);
			wait_answer(c, e);
		}
		r = copy_name(&e->name, ret);
	}
	(void)pthread_mutex_unlock(&c->lock);
	return r;
}

static bool is_due(const struct entry *e, uint64_t now_ns)
{
	return !e->is_asked && e->next_ns <= now_ns && e->wait_ns <= WAIT_LAST_NS;
}

void container_names_poll(struct container_names *c)
{
	size_t iter = 0, n = 0;
	uint64_t now_ns;
	void *value;

	(void)pthread_mutex_lock(&c->lock);
	now_ns = c->clock();
	while (n < POLLED_MAX && map64_next(&c->entries, &iter, NULL, &value)) {
		if (!is_due(value, now_ns))
			continue;
		ask(c, value);
		n++;
	}
	(void)pthread_mutex_unlock(&c->lock);
}

void container_names_stats(struct container_names *c, struct container_names_stats *ret)
{
	(void)pthread_mutex_lock(&c->lock);
	*ret = c->stats;
	ret->used = c->entries.len;
	(void)pthread_mutex_unlock(&c->lock);
}

int container_names_new(const char *root, uint64_t (*clock)(void), struct container_names **ret)
{
	struct container_names *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->root = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = c->root < 0 ? -errno : cond_init(&c->asked_cond);
	if (r == 0)
		r = cond_init(&c->answered_cond);
	if (r < 0) {
		closep(&c->root);
		free(c);
		return r;
	}
	(void)pthread_mutex_init(&c->lock, NULL);
	c->refs = 1;
	c->clock = clock ? clock : clock_monotonic_ns;
	*ret = c;
	return 0;
}

void container_names_free(struct container_names *c)
{
	if (!c)
		return;
	(void)pthread_mutex_lock(&c->lock);
	c->is_stopping = true;
	(void)pthread_cond_signal(&c->asked_cond);
	(void)pthread_mutex_unlock(&c->lock);
	container_names_unref(c);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct container_names *of_host;

/* Process 1 in another mount namespace: that of the host, whose PIDs we see. Our own first process shares ours. */
static bool is_host_elsewhere(void)
{
	_cleanup_free_ char *first = NULL, *own = NULL;

	return file_readlink(AT_FDCWD, "/proc/1/ns/mnt", &first) == 0 &&
	       file_readlink(AT_FDCWD, "/proc/self/ns/mnt", &own) == 0 && strcmp(first, own) != 0;
}

static void make_of_host(void)
{
	if (is_host_elsewhere() && container_names_new("/proc/1/root", NULL, &of_host) == 0)
		return;
	if (container_names_new("/", NULL, &of_host) < 0)
		of_host = NULL;
}

int container_name_get(const char *id, const char *runtime, const char *pod_uid, struct container_name *ret)
{
	(void)pthread_once(&once, make_of_host);
	*ret = (struct container_name){ 0 };
	return of_host ? container_names_get(of_host, id, runtime, pod_uid, ret) : 0;
}

void container_name_poll(void)
{
	(void)pthread_once(&once, make_of_host);
	if (of_host)
		container_names_poll(of_host);
}

void container_name_stats(struct container_names_stats *ret)
{
	(void)pthread_once(&once, make_of_host);
	*ret = (struct container_names_stats){ 0 };
	if (of_host)
		container_names_stats(of_host, ret);
}
