/* SPDX-License-Identifier: MIT */
/* What really goes to the journal's socket, whose path is fixed: in a mount namespace of our own it is ours. */
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "record/reporter.h"
#include "record/sink.h"
#include "record_check.h"
#include "record_make.h"
#include "test.h"

#define SOCKET_PATH "/run/systemd/journal/socket"

static int enter_namespace(void)
{
	if (unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return -errno;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount("tmpfs", "/run", "tmpfs", 0, NULL) < 0)
		return -errno;
	if (mkdir("/run/systemd", 0755) < 0 || mkdir("/run/systemd/journal", 0755) < 0)
		return -errno;
	return 0;
}

static int listen_journal(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = SOCKET_PATH };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)unlink(SOCKET_PATH);
	return fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ? -1 : fd;
}

/* Runs the body in a child in the namespace; its failures are ours. */
static void in_namespace(const char *name, void (*body)(void))
{
	int status, err;
	pid_t child;

	(void)fflush(stdout);
	child = fork();
	ASSERT(child >= 0);
	if (child == 0) {
		err = enter_namespace();
		if (err < 0) {
			printf("# SKIP %s: no mount namespace here: %s\n", name, strerror(-err));
			exit(0);
		}
		test_failures = 0;
		body();
		exit(test_failures > 0);
	}
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT_EQ(status, 0);
}

/* Value of a field of the native protocol: NAME=value lines, or NAME, length in 8 bytes and value. NULL = not there. */
static const char *native_get(const char *buf, size_t len, const char *name, size_t *ret_len)
{
	for (const char *p = buf, *end = buf + len; p < end;) {
		const char *nl = memchr(p, '\n', (size_t)(end - p)), *eq;
		size_t name_len;

		if (!nl)
			return NULL;
		eq = memchr(p, '=', (size_t)(nl - p));
		name_len = (size_t)((eq ? eq : nl) - p);
		if (!eq) {
			uint64_t n;

			memcpy(&n, nl + 1, 8);
			*ret_len = n;
			eq = nl + 8;
			nl = eq + 1 + n;
		} else {
			*ret_len = (size_t)(nl - eq - 1);
		}
		if (name_len == strlen(name) && strncmp(p, name, name_len) == 0)
			return eq + 1;
		p = nl + 1;
	}
	return NULL;
}

static void body_what_is_sent(void)
{
	_cleanup_(report_freep) struct report *r = make_report(REPORT_LIVE_BYTES);
	_cleanup_(stack_text_freep) struct stack_text *st = make_stack(3);
	_cleanup_(record_freep) struct record *rec = NULL;
	_cleanup_(sink_closep) struct sink *s = NULL;
	_cleanup_close_ int fd = listen_journal();
	static char buf[65536];
	const char *value;
	ssize_t n;
	size_t len, fields = 0;

	ASSERT(fd >= 0 && record_build(r, st, true, NULL, &rec) == 0);
	ASSERT(sink_journal_open(SOCKET_PATH, &s) == 0);
	EXPECT_EQ(s->ops->write(s, rec), 0);
	n = recv(fd, buf, sizeof(buf), 0);
	ASSERT(n > 0 && n < 16384);
	for (size_t i = 0; i < rec->len; i++) {
		const char *field = rec->data.buf + rec->field[i].offset;
		size_t name_len = strcspn(field, "=");
		char name[65];

		(void)snprintf(name, sizeof(name), "%.*s", (int)name_len, field);
		value = native_get(buf, (size_t)n, name, &len);
		ASSERT(value);
		EXPECT_EQ(len, rec->field[i].len - name_len - 1);
		EXPECT(memcmp(value, field + name_len + 1, len) == 0);
		fields++;
	}
	EXPECT(fields > 25);
	/* They would name our own source. */
	EXPECT(!native_get(buf, (size_t)n, "CODE_FILE", &len));
	EXPECT(!native_get(buf, (size_t)n, "CODE_FUNC", &len));

	/* The socket is gone: that is no success, as libsystemd would have it. And it comes back. */
	(void)unlink(SOCKET_PATH);
	EXPECT_EQ(s->ops->write(s, rec), -ENOENT);
	closep(&fd);
	fd = listen_journal();
	ASSERT(fd >= 0);
	EXPECT_EQ(s->ops->write(s, rec), 0);
	/* Nobody behind it any more. */
	closep(&fd);
	EXPECT(s->ops->write(s, rec) < 0);
}

TEST(what_is_sent)
{
	in_namespace("what_is_sent", body_what_is_sent);
}

/* A journal that reads nothing takes some ten records and then blocks its writer. */
static void body_stalled(void)
{
	struct reporter_options o = { .sink = SINK_AUTO, .queue = 64, .out_fd = -1 };
	struct reporter *r = NULL;
	struct reporter_stats s;
	_cleanup_close_ int fd = listen_journal();
	uint64_t before, lost, told = 0, received = 0;
	static char buf[65536];
	const char *value;
	size_t len;
	ssize_t n;

	ASSERT(fd >= 0 && reporter_new(&o, &r) == 0);
	before = clock_monotonic_ns();
	for (int i = 0; i < 2000; i++)
		reporter_push(r, make_report(REPORT_LIVE_BYTES));
	EXPECT(clock_monotonic_ns() - before < 5 * NSEC_PER_SEC);
	(void)usleep(300000);
	reporter_stats(r, &s);
	EXPECT_EQ(s.sink, SINK_JOURNAL);
	EXPECT(s.written > 0 && s.written < 2000);
	EXPECT(s.queued > 0 && s.queued <= 129);
	before = clock_monotonic_ns();
	lost = reporter_stop(r, NSEC_PER_SEC / 5);
	EXPECT(clock_monotonic_ns() - before < 3 * NSEC_PER_SEC);
	/* The one that was being written counts as lost, though it comes through once the journal reads again. */
	while (received <= s.written) {
		n = recv(fd, buf, sizeof(buf), 0);
		ASSERT(n > 0);
		if (received++ == s.written)
			break;
		value = native_get(buf, (size_t)n, "GPUXRAY_SUPPRESSED", &len);
		told += value ? strtoull(value, NULL, 10) : 0;
	}
	EXPECT_EQ(s.written + told + lost, 2000);
	/* The abandoned thread ends and writes no more. */
	(void)usleep(200000);
	EXPECT(recv(fd, buf, sizeof(buf), MSG_DONTWAIT) < 0);
}

TEST(stalled)
{
	in_namespace("stalled", body_stalled);
}

static void body_reload_finds_it(void)
{
	const struct syslog_settings syslog = { .address = (char *)"/run/log" };
	struct reporter_options o = { .sink = SINK_AUTO, .queue = 64, .syslog = &syslog };
	struct reporter *r = NULL;
	struct reporter_stats s;
	_cleanup_close_ int fd = -1;
	static char buf[65536];
	size_t len;
	ssize_t n;
	int out[2];

	ASSERT(pipe(out) == 0);
	o.out_fd = out[1];
	log_set_max(3);
	ASSERT(reporter_new(&o, &r) == 0);
	reporter_stats(r, &s);
	EXPECT_EQ(s.sink, SINK_JSON);
	fd = listen_journal();
	ASSERT(fd >= 0);
	reporter_reopen(r);
	reporter_push(r, make_report(REPORT_LIVE_BYTES));
	n = recv(fd, buf, sizeof(buf), 0);
	ASSERT(n > 0);
	EXPECT(native_get(buf, (size_t)n, "GPUXRAY_PID", &len));
	reporter_stats(r, &s);
	EXPECT_EQ(s.sink, SINK_JOURNAL);
	EXPECT_EQ(reporter_stop(r, NSEC_PER_SEC), 0);
	(void)close(out[0]);
	(void)close(out[1]);
}

TEST(reload_finds_it)
{
	in_namespace("reload_finds_it", body_reload_finds_it);
}

TEST_MAIN()
