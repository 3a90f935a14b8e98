/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "proc/procfs.h"
#include "record/reporter.h"
#include "record_check.h"
#include "reporter_journal.h"
#include "test.h"

TEST(all_is_written_at_the_stop)
{
	struct journal j = JOURNAL_INIT;
	struct reporter *r = start(&j, 256, 0);

	ASSERT(r);
	for (int i = 0; i < 200; i++)
		push(r, SEVERITY_WARNING);
	EXPECT_EQ(reporter_stop(r, TIMEOUT), 0);
	EXPECT_EQ(j.len, 200);
	EXPECT_EQ(j.wrong, 0);
	EXPECT_EQ(j.suppressed, 0);
	EXPECT(!j.has_open_signals);
}

TEST(stop_with_nothing_to_do)
{
	struct journal j = JOURNAL_INIT;
	struct reporter *r = start(&j, 256, 60);

	ASSERT(r);
	EXPECT_EQ(reporter_stop(r, TIMEOUT), 0);
	EXPECT_EQ(j.len, 0);
}

/* A stalled journal holds up nobody, costs no more than the queue, and what was dropped is told afterwards. */
TEST(stalled_journal)
{
	struct journal j = JOURNAL_INIT;
	struct reporter *r = start(&j, 16, 0);
	struct reporter_stats s;
	uint64_t before;

	ASSERT(r);
	journal_stall(&j, true);
	push(r, SEVERITY_WARNING);
	journal_wait_stuck(&j);
	before = clock_monotonic_ns();
	for (int i = 0; i < 1000; i++) {
		push(r, SEVERITY_NOTICE);
		if (i == 500)
			push(r, SEVERITY_CRITICAL);
	}
	EXPECT(clock_monotonic_ns() - before < 5 * NSEC_PER_SEC);
	for (int i = 0; i < 1000; i++) {
		reporter_stats(r, &s);
		if (s.queued <= 17)
			break;
		(void)usleep(10000);
	}
	EXPECT(s.queued <= 17);
	EXPECT_EQ(s.written, 0);
	EXPECT_EQ(s.dropped, 1002 - s.queued);
	journal_stall(&j, false);
	EXPECT(settle(r));
	reporter_stats(r, &s);
	EXPECT_EQ(s.written, j.len);
	EXPECT_EQ(reporter_stop(r, TIMEOUT), 0);
	EXPECT_EQ(j.critical, 1);
	EXPECT_EQ(j.len + j.suppressed, 1002);
	EXPECT_EQ(j.suppressed, s.dropped);
	EXPECT_EQ(j.wrong, 0);
}

/* What a dropped report was to tell of is not lost with it. */
TEST(counts_of_dropped_reports_are_kept)
{
	struct journal j = JOURNAL_INIT;
	struct reporter *r = start(&j, 1, 0);

	ASSERT(r);
	journal_stall(&j, true);
	push(r, SEVERITY_WARNING);
	journal_wait_stuck(&j);
	for (int i = 0; i < 10; i++) {
		struct report *report = make_report(REPORT_LEAK);

		report->suppressed = 100;
		reporter_push(r, report);
	}
	journal_stall(&j, false);
	EXPECT_EQ(reporter_stop(r, TIMEOUT), 0);
	EXPECT_EQ(j.len + j.suppressed, 1 + 10 + 10 * 100);
}

TEST(a_crowd_is_held_back_and_the_critical_one_gets_through)
{
	struct journal j = JOURNAL_INIT;
	struct reporter *r = start(&j, 256, 60);
	struct reporter_stats s;

	ASSERT(r);
	for (int i = 0; i < 12000; i++) {
		push(r, SEVERITY_WARNING);
		if (i == 11000)
			push(r, SEVERITY_CRITICAL);
	}
	EXPECT(settle(r));
	reporter_stats(r, &s);
	EXPECT_EQ(s.budget_held, 12000 - 60);
	EXPECT_EQ(s.dropped, 0);
	EXPECT_EQ(j.critical, 1);
	EXPECT_EQ(j.len, 61);
	EXPECT_EQ(reporter_stop(r, TIMEOUT), 0);
	EXPECT_EQ(j.len, 62);
	EXPECT_EQ(j.suppressed, 12000 - 60);
	EXPECT_STR(j.last, "11940 records held back within a minute, over the budget of 60 a minute: 11940 warning");
}

/* Who looks at incidents and the daemon's own records alone must see that others are missing. */
TEST(the_history_does_not_tell_of_others)
{
	struct journal j = JOURNAL_INIT;
	struct reporter *r = start(&j, 256, 1);

	ASSERT(r);
	push(r, SEVERITY_WARNING);
	EXPECT(settle(r));
	push(r, SEVERITY_WARNING); /* over the budget */
	for (int event = REPORT_SAMPLE; event <= REPORT_SITE; event++)
		reporter_push(r, make_report((enum report_event)event));
	EXPECT(settle(r));
	EXPECT_EQ(j.len, 4);
	EXPECT_EQ(j.suppressed, 0);
	reporter_push(r, make_report(REPORT_HEALTH));
	EXPECT(settle(r));
	EXPECT_EQ(j.suppressed, 1);
	EXPECT_EQ(reporter_stop(r, TIMEOUT), 0);
}

/* A thread that never comes back from its write does not keep the daemon from ending. */
TEST(stuck_writer_is_abandoned)
{
	struct journal j = JOURNAL_INIT;
	struct reporter *r = start(&j, 256, 0);
	uint64_t before, lost;

	ASSERT(r);
	journal_stall(&j, true);
	for (int i = 0; i < 11; i++)
		push(r, SEVERITY_WARNING);
	journal_wait_stuck(&j);
	before = clock_monotonic_ns();
	lost = reporter_stop(r, NSEC_PER_SEC / 10);
	EXPECT_EQ(lost, 11);
	EXPECT(clock_monotonic_ns() - before < 3 * NSEC_PER_SEC);
	/* Comes back after all: it writes nothing more and frees what was left. */
	journal_stall(&j, false);
	for (int i = 0; i < 100; i++) {
		pthread_mutex_lock(&j.lock);
		lost = j.len;
		pthread_mutex_unlock(&j.lock);
		if (lost > 0)
			break;
		(void)usleep(10000);
	}
	(void)usleep(200000);
	EXPECT_EQ(j.len, 1);
}

/* What can never be written holds up nobody and is told of. */
TEST(hopeless_records_are_dropped_at_once)
{
	static const int errors[] = { -EMSGSIZE, -ENOMEM };

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		struct journal j = JOURNAL_INIT;
		struct reporter *r = start(&j, 256, 0);
		struct reporter_stats s;

		ASSERT(r);
		journal_fail(&j, 5, errors[i]);
		for (int k = 0; k < 7; k++)
			push(r, SEVERITY_WARNING);
		EXPECT(settle(r));
		reporter_stats(r, &s);
		EXPECT_EQ(s.failed, 5);
		EXPECT_EQ(s.written, 2);
		EXPECT_EQ(j.attempts, 7);
		EXPECT_EQ(j.suppressed, 5);
		EXPECT_EQ(reporter_stop(r, TIMEOUT), 0);
	}
}

/* Longer than the queue is: the least important are missing, and how many is told. */
TEST(long_outage_loses_the_least_important)
{
	struct journal j = JOURNAL_INIT;
	struct reporter *r = start(&j, 16, 0);
	struct reporter_stats s;
	uint64_t before;

	ASSERT(r);
	journal_fail(&j, UINT64_MAX, 0);
	push(r, SEVERITY_WARNING);
	journal_wait_attempts(&j, 1);
	before = clock_monotonic_ns();
	for (int i = 0; i < 300; i++)
		push(r, i % 100 == 50 ? SEVERITY_CRITICAL : SEVERITY_NOTICE);
	EXPECT(clock_monotonic_ns() - before < NSEC_PER_SEC);
	journal_wait_attempts(&j, 3);
	reporter_stats(r, &s);
	EXPECT_EQ(s.written, 0);
	EXPECT_EQ(s.failed, 0);
	journal_fail(&j, 0, 0);
	EXPECT(settle(r));
	reporter_stats(r, &s);
	EXPECT_EQ(j.critical, 3);
	EXPECT(j.len >= 17 && j.len <= 33);
	EXPECT_EQ(j.len + j.suppressed, 301);
	EXPECT_EQ(s.dropped, j.suppressed);
	EXPECT_EQ(s.failed, 0);
	EXPECT_EQ(reporter_stop(r, TIMEOUT), 0);
	EXPECT_EQ(j.wrong, 0);
}

static void *push_one(void *userdata)
{
	push(userdata, SEVERITY_WARNING);
	return NULL;
}

/* That the receiver is away is said in the log, which may be as stuck: nobody who reports waits for that. */
TEST(stuck_log)
{
	struct journal j = JOURNAL_INIT;
	struct reporter *r = start(&j, 16, 0);
	int log[2], kept = dup(STDERR_FILENO), err;
	struct timespec end;
	char block[4096] = {};
	pthread_t pusher;

	ASSERT(r && kept >= 0 && pipe(log) == 0 && fcntl(log[1], F_SETFL, O_NONBLOCK) == 0);
	while (write(log[1], block, sizeof(block)) > 0)
		;
	(void)fcntl(log[1], F_SETFL, 0);
	(void)dup2(log[1], STDERR_FILENO);
	journal_fail(&j, UINT64_MAX, 0);
	push(r, SEVERITY_WARNING);
	/* An outage is told of after a second: tries come after 50, 100, 200, 400 and 800 ms. */
	journal_wait_attempts(&j, 6);
	(void)usleep(100000);
	ASSERT(pthread_create(&pusher, NULL, push_one, r) == 0);
	(void)clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec++;
	err = pthread_timedjoin_np(pusher, NULL, &end);
	journal_fail(&j, 0, 0);
	(void)dup2(kept, STDERR_FILENO);
	while (read(log[0], block, sizeof(block)) == sizeof(block))
		;
	if (err != 0)
		(void)pthread_join(pusher, NULL);
	EXPECT_EQ(err, 0);
	EXPECT_EQ(reporter_stop(r, TIMEOUT), 0);
	(void)close(kept);
	(void)close(log[0]);
	(void)close(log[1]);
	EXPECT_EQ(j.len, 2);
}

/* After some failures the next try is far away; a reload does not wait for it. */
TEST(reload_tries_at_once)
{
	struct journal j = JOURNAL_INIT;
	struct reporter *r = start(&j, 16, 0);
	uint64_t before;

	ASSERT(r);
	journal_fail(&j, UINT64_MAX, 0);
	push(r, SEVERITY_WARNING);
	journal_wait_attempts(&j, 4); /* the next comes after 0.4 s */
	journal_fail(&j, 0, 0);
	before = clock_monotonic_ns();
	push(r, SEVERITY_WARNING); /* which alone is no reason to try again */
	(void)usleep(50000);
	EXPECT_EQ(j.attempts, 4);
	reporter_reopen(r);
	journal_wait_attempts(&j, 6);
	EXPECT(clock_monotonic_ns() - before < 300 * NSEC_PER_MSEC);
	EXPECT_EQ(reporter_stop(r, TIMEOUT), 0);
	EXPECT_EQ(j.len, 2);
}

TEST(own_records_say_how_many_were_written_before)
{
	struct journal j = JOURNAL_INIT;
	struct reporter *r = start(&j, 16, 0);

	ASSERT(r);
	/* Held for a while, during which it is built; others are written before it. */
	journal_fail(&j, 2, 0);
	for (int i = 0; i < 4; i++) {
		push(r, SEVERITY_WARNING);
		reporter_push(r, make_report(REPORT_HEALTH));
	}
	EXPECT(settle(r));
	journal_fail(&j, 1, -EMSGSIZE);
	push(r, SEVERITY_WARNING);
	reporter_push(r, make_report(REPORT_STOP));
	EXPECT_EQ(reporter_stop(r, TIMEOUT), 0);
	EXPECT_EQ(j.len, 9);
	EXPECT_EQ(j.own, 5);
	EXPECT_EQ(j.wrong_count, 0);
	EXPECT_EQ(j.wrong, 0);
}

/* The history makes room for incidents and for the daemon's own, and takes nothing of their budget. */
TEST(history_pushes_out_nothing)
{
	struct journal j = JOURNAL_INIT;
	struct reporter *r = start(&j, 16, 20);
	uint64_t left;

	ASSERT(r);
	journal_stall(&j, true);
	push(r, SEVERITY_WARNING);
	journal_wait_stuck(&j);
	for (int i = 0; i < 300; i++) {
		reporter_push(r, make_report(REPORT_SAMPLE));
		if (i % 100 == 0) {
			push(r, SEVERITY_INFO);
			push(r, SEVERITY_CRITICAL);
			reporter_push(r, make_report(REPORT_HEALTH));
		}
	}
	for (int i = 0; i < 300; i++)
		reporter_push(r, make_report(i % 2 ? REPORT_SITE : REPORT_PROCESS_EXIT));
	journal_stall(&j, false);
	left = reporter_stop(r, TIMEOUT);
	/* The very last one may have found no room, and no record comes that could tell of it. */
	EXPECT(left <= 1);
	EXPECT_EQ(j.incidents, 7);
	EXPECT_EQ(j.critical, 3);
	EXPECT_EQ(j.own, 3);
	EXPECT(j.len > 10);
	EXPECT_EQ(j.len + j.suppressed + left, 1 + 300 + 9 + 300);
	EXPECT_EQ(j.wrong_count, 0);
}

TEST(short_outage_loses_nothing)
{
	struct journal j = JOURNAL_INIT;
	struct reporter *r = start(&j, 256, 0);

	ASSERT(r);
	j.failures = 3;
	for (int i = 0; i < 7; i++)
		push(r, SEVERITY_WARNING);
	EXPECT(settle(r));
	EXPECT_EQ(j.len, 7);
	EXPECT_EQ(j.suppressed, 0);
	EXPECT_EQ(reporter_stop(r, TIMEOUT), 0);
}

TEST(stop_outlasts_a_short_outage)
{
	struct journal j = JOURNAL_INIT;
	struct reporter *r = start(&j, 256, 0);

	ASSERT(r);
	journal_fail(&j, 5, 0);
	for (int i = 0; i < 7; i++)
		push(r, SEVERITY_WARNING);
	EXPECT_EQ(reporter_stop(r, TIMEOUT), 0);
	EXPECT_EQ(j.len, 7);
}

TEST(what_could_never_be_written_is_returned)
{
	struct journal j = JOURNAL_INIT;
	struct reporter *r = start(&j, 256, 0);
	uint64_t before;

	ASSERT(r);
	journal_fail(&j, UINT64_MAX, 0);
	for (int i = 0; i < 7; i++)
		push(r, SEVERITY_WARNING);
	before = clock_monotonic_ns();
	log_set_max(3);
	EXPECT_EQ(reporter_stop(r, 300 * NSEC_PER_MSEC), 7);
	log_set_max(6);
	EXPECT(clock_monotonic_ns() - before < NSEC_PER_SEC);
	EXPECT_EQ(j.len, 0);
}

static struct report *report_about(pid_t pid, uint64_t wrong_by)
{
	struct report *report = make_report(REPORT_LIVE_BYTES);
	struct proc_stat st;

	if (proc_stat_read("/proc", (uint32_t)pid, &st) < 0)
		abort();
	report->id->pid = (uint32_t)pid;
	report->id->start_ticks = st.start_ticks + wrong_by;
	return report;
}

TEST(object_pid_only_for_the_same_process)
{
	struct journal j = JOURNAL_INIT;
	struct reporter *r = start(&j, 256, 0);

	ASSERT(r);
	reporter_push(r, report_about(getpid(), 0));
	EXPECT(settle(r));
	EXPECT_EQ(j.object_pid, 1);
	EXPECT_EQ(j.object_unit, 0);
	reporter_push(r, report_about(getpid(), 1));
	EXPECT(settle(r));
	EXPECT_EQ(j.object_pid, 1);
	EXPECT_EQ(j.object_unit, 1);
	EXPECT_EQ(reporter_stop(r, TIMEOUT), 0);
	EXPECT_EQ(j.wrong, 0);
}

TEST(process_that_ends_while_its_record_waits)
{
	struct journal j = JOURNAL_INIT;
	struct reporter *r = start(&j, 256, 0);
	struct reporter_stats s;
	pid_t child = fork();

	if (child == 0) {
		(void)pause();
		_exit(0);
	}
	ASSERT(r && child > 0);
	journal_stall(&j, true);
	push(r, SEVERITY_WARNING); /* keeps the writer; of no process that lives */
	journal_wait_stuck(&j);
	reporter_push(r, report_about(child, 0));
	do {
		reporter_stats(r, &s);
		(void)usleep(1000);
	} while (s.queued > 2);
	(void)usleep(100000); /* built while it lived */
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
	journal_stall(&j, false);
	EXPECT_EQ(reporter_stop(r, TIMEOUT), 0);
	EXPECT_EQ(j.object_pid, 0);
	EXPECT_EQ(j.object_unit, 2);
	EXPECT_EQ(j.wrong, 0);
}

static int listen_at(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)unlink(path);
	strcpy(addr.sun_path, path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return -1;
	return fd;
}

/* No journal: syslog; no syslog either: JSON lines; and a reload looks again. */
TEST(sinks_that_stand_in)
{
	char path[64];
	const struct syslog_settings syslog = { .facility = SYSLOG_FACILITY_DAEMON, .address = path };
	struct reporter_options o = { .sink = SINK_AUTO, .queue = 16, .journal_socket = "/nonexistent/journal",
				      .syslog = &syslog };
	struct reporter *r = NULL;
	struct reporter_stats s;
	char buf[8192];
	int out[2], fd;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/tmp/gpuxray-test-reporter-%d.sock", getpid());
	(void)unlink(path);
	ASSERT(pipe2(out, O_CLOEXEC) == 0);
	o.out_fd = out[1];
	log_set_max(3);
	ASSERT(reporter_new(&o, &r) == 0);
	reporter_stats(r, &s);
	EXPECT_EQ(s.sink, SINK_JSON);
	push(r, SEVERITY_WARNING);
	n = read(out[0], buf, sizeof(buf) - 1);
	ASSERT(n > 0);
	buf[n] = '\0';
	EXPECT(strncmp(buf, "{\"MESSAGE\":\"python3[4711]", 20) == 0 && buf[n - 1] == '\n');

	fd = listen_at(path);
	ASSERT(fd >= 0);
	reporter_reopen(r);
	push(r, SEVERITY_WARNING);
	n = recv(fd, buf, sizeof(buf) - 1, 0);
	ASSERT(n > 0);
	EXPECT(strncmp(buf, "<28>1 ", 6) == 0);
	EXPECT_EQ(reporter_stop(r, TIMEOUT), 0);

	ASSERT(reporter_new(&o, &r) == 0);
	reporter_stats(r, &s);
	EXPECT_EQ(s.sink, SINK_SYSLOG);
	EXPECT_EQ(reporter_stop(r, TIMEOUT), 0);
	log_set_max(6);
	(void)close(fd);
	(void)unlink(path);
	(void)close(out[0]);
	(void)close(out[1]);
}

/* The reader of our standard output has gone: that is a failed write, not the end. */
TEST(broken_pipe)
{
	struct reporter_options o = { .sink = SINK_JSON, .queue = 16 };
	struct reporter *r = NULL;
	int out[2];

	ASSERT(pipe2(out, O_CLOEXEC) == 0);
	(void)signal(SIGPIPE, SIG_DFL); /* else a mask inherited from make would hide a mistake */
	o.out_fd = out[1];
	log_set_max(3);
	ASSERT(reporter_new(&o, &r) == 0);
	(void)close(out[0]);
	push(r, SEVERITY_WARNING);
	push(r, SEVERITY_WARNING);
	EXPECT_EQ(reporter_stop(r, 100 * NSEC_PER_MSEC), 2);
	log_set_max(6);
	(void)close(out[1]);
}

TEST(bad_descriptor_is_an_error)
{
	struct reporter_options o = { .sink = SINK_TEXT, .queue = 16, .out_fd = -1 };
	struct reporter *r = NULL;

	EXPECT(reporter_new(&o, &r) < 0);
	EXPECT(!r);
}

TEST(names_of_sinks)
{
	enum sink_kind k;

	for (int i = SINK_AUTO; i <= SINK_TEXT; i++) {
		EXPECT_EQ(sink_from_name(sink_name((enum sink_kind)i), &k), 0);
		EXPECT_EQ(k, i);
	}
	EXPECT_EQ(sink_from_name("tape", &k), -EINVAL);
}

TEST_MAIN()
