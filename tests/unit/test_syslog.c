/* SPDX-License-Identifier: MIT */
#include <sys/socket.h>
#include <sys/un.h>

#include "record/sink.h"
#include "record_check.h"
#include "record_make.h"
#include "test.h"

static struct record *build(const struct report *r, const struct stack_text *st)
{
	struct record *rec = NULL;

	return record_build(r, st, true, NULL, &rec) < 0 ? NULL : rec;
}

static void format(const struct record *rec, const char *hostname, bool is_cee, size_t max, struct strbuf *sb)
{
	const struct syslog_format f = { .hostname = hostname, .pid = 77, .facility = SYSLOG_FACILITY_DAEMON,
					 .is_cee = is_cee, .max = max };

	record_syslog(rec, &f, sb);
}

TEST(line)
{
	_cleanup_(report_freep) struct report *r = report_new(REPORT_ALLOC_FAILURE);
	_cleanup_(record_freep) struct record *rec = NULL;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	ASSERT(r);
	r->state = STATE_FIRING;
	r->severity = SEVERITY_ERROR;
	r->rule = make_str("a\"b]c\\d");
	r->real_usec = 1796000000000042;
	r->bytes = GIB(4);
	rec = build(r, NULL);
	ASSERT(rec);
	format(rec, "node 1\n", false, 1024, &sb);
	EXPECT_STR(strbuf_str(&sb),
		   "<27>1 2026-11-30T00:53:20.000042Z node1 gpuxray 77 alloc_failure "
		   "[gpuxray@32473 message_id=\"80869a82cb634418bf6231e200894b66\" rule=\"a\\\"b\\]c\\\\x5cd\" severity=\"error\" "
		   "state=\"firing\" firing=\"1\" scope=\"process\" bytes=\"4294967296\" exact=\"1\"] "
		   "an unknown process could not allocate 4 GiB (rule a\"b]c\\x5cd)");
}

TEST(no_host_no_name)
{
	_cleanup_(report_freep) struct report *r = make_report(REPORT_LEAK);
	_cleanup_(record_freep) struct record *rec = build(r, NULL);
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	ASSERT(rec);
	format(rec, NULL, false, 1024, &sb);
	EXPECT(strstr(strbuf_str(&sb), "Z - gpuxray 77 leak ["));
}

/* In 1 KiB: all of the words, then the fields that fit, and how many did not. */
TEST(one_kib)
{
	_cleanup_(report_freep) struct report *r = make_report(REPORT_LIVE_BYTES);
	_cleanup_(stack_text_freep) struct stack_text *st = make_stack(100);
	_cleanup_(record_freep) struct record *rec = NULL;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT, big = STRBUF_INIT;

	r->host_bytes = r->managed_bytes = r->driver_bytes = GIB(50);
	rec = build(r, st);
	ASSERT(rec);
	format(rec, "h", false, 1024, &sb);
	EXPECT(sb.len <= 1024);
	EXPECT(strstr(strbuf_str(&sb), "] python3[4711] train.service holds 41.2 GiB on GPU 0, over 40 GiB (rule process-quota)"));
	EXPECT(strstr(strbuf_str(&sb), " rule=\"process-quota\" ") && strstr(strbuf_str(&sb), " pid=\"4711\" "));
	EXPECT(strstr(strbuf_str(&sb), " incident=\"00112233445566778899aabbccddeeff\" "));
	EXPECT(strstr(strbuf_str(&sb), " cut=\""));
	format(rec, "h", false, 8100, &big);
	EXPECT(!strstr(strbuf_str(&big), " cut=\""));
	EXPECT(strstr(strbuf_str(&big), " stack=\"frame_0+0x0 (libmodel.so); frame_1"));
	EXPECT(strstr(strbuf_str(&big), "; frame_99+0x630 (libmodel.so)\""));
}

/* Where not all fits, a long value leaves room for those behind it. */
TEST(long_values)
{
	_cleanup_(report_freep) struct report *r = make_report(REPORT_LIVE_BYTES);
	_cleanup_(stack_text_freep) struct stack_text *st = make_stack(100);
	_cleanup_(record_freep) struct record *rec = NULL;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	free(r->id->cmdline);
	r->id->cmdline = malloc(3001);
	ASSERT(r->id->cmdline);
	memset(r->id->cmdline, 'x', 3000);
	r->id->cmdline[3000] = '\0';
	rec = build(r, st);
	ASSERT(rec);
	format(rec, "h", false, 4096, &sb);
	EXPECT(sb.len > 1024 && sb.len <= 4096);
	EXPECT(strstr(strbuf_str(&sb), "xxx...\" "));
	EXPECT(strstr(strbuf_str(&sb), " stack=\"frame_0+0x0 (libmodel.so); frame_1"));
	EXPECT(!strstr(strbuf_str(&sb), " cut=\""));
}

TEST(facility)
{
	_cleanup_(report_freep) struct report *r = make_report(REPORT_LIVE_BYTES);
	_cleanup_(record_freep) struct record *rec = build(r, NULL);
	struct syslog_format f = { .hostname = "h", .facility = 23, .max = 8100 };
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT, cee = STRBUF_INIT;

	ASSERT(rec);
	record_syslog(rec, &f, &sb);
	EXPECT(strncmp(strbuf_str(&sb), "<188>1 ", 7) == 0);
	f.is_cee = true;
	record_syslog(rec, &f, &cee);
	EXPECT(strncmp(strbuf_str(&cee), "<188>1 ", 7) == 0);
	EXPECT(strstr(strbuf_str(&cee), ",\"SYSLOG_FACILITY\":\"23\","));
}

/* However little room there is, what is written is whole characters. */
TEST(every_length)
{
	_cleanup_(report_freep) struct report *r = make_report(REPORT_LIVE_BYTES);
	_cleanup_(record_freep) struct record *rec = NULL;

	r->message = make_str("über 40 GiB – 日本語 \" ] \\");
	rec = build(r, NULL);
	ASSERT(rec);
	for (size_t max = 0; max < 1400; max++) {
		const char *wrong = check_syslog(rec, 0, max);

		EXPECT_STR(wrong ? wrong : "", "");
		wrong = check_syslog(rec, 1, max);
		EXPECT_STR(wrong ? wrong : "", "");
	}
}

TEST(cee)
{
	_cleanup_(report_freep) struct report *r = make_report(REPORT_LIVE_BYTES);
	_cleanup_(record_freep) struct record *rec = build(r, NULL);
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT, small = STRBUF_INIT, json = STRBUF_INIT;

	ASSERT(rec);
	record_json(rec, &json);
	strbuf_truncate(&json, json.len - 1);
	format(rec, "h", true, 8100, &sb);
	EXPECT(strncmp(strbuf_str(&sb), "<28>1 ", 6) == 0);
	ASSERT(strstr(strbuf_str(&sb), " - @cee: {"));
	EXPECT_STR(strstr(strbuf_str(&sb), "@cee: ") + 6, strbuf_str(&json));
	format(rec, "h", true, 600, &small);
	EXPECT(small.len <= 600);
	EXPECT(strstr(strbuf_str(&small), ",\"GPUXRAY_CUT\":\""));
}

struct receiver {
	char path[64];
	int fd;
};

static int listen_at(struct receiver *v, int type)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	(void)snprintf(v->path, sizeof(v->path), "/tmp/gpuxray-test-%d.sock", getpid());
	(void)unlink(v->path);
	strcpy(addr.sun_path, v->path);
	v->fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (v->fd < 0 || bind(v->fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return -errno;
	return type == SOCK_STREAM ? listen(v->fd, 1) : 0;
}

static int open_local(char *path, bool is_cee, struct sink **ret)
{
	const struct syslog_settings o = { .address = path, .is_cee = is_cee, .facility = SYSLOG_FACILITY_DAEMON };

	return sink_syslog_open(&o, ret);
}

static void receiver_close(struct receiver *v)
{
	(void)close(v->fd);
	(void)unlink(v->path);
}

TEST(datagram_receiver_that_restarts)
{
	_cleanup_(report_freep) struct report *r = make_report(REPORT_LIVE_BYTES);
	_cleanup_(record_freep) struct record *rec = build(r, NULL);
	_cleanup_(sink_closep) struct sink *s = NULL;
	struct receiver v;
	char buf[4096];
	ssize_t n;

	ASSERT(rec && listen_at(&v, SOCK_DGRAM) == 0);
	ASSERT(open_local(v.path, false, &s) == 0);
	EXPECT_EQ(s->ops->kind, SINK_SYSLOG);
	EXPECT_EQ(s->ops->write(s, rec), 0);
	n = recv(v.fd, buf, sizeof(buf) - 1, 0);
	ASSERT(n > 0 && n <= 1024);
	buf[n] = '\0';
	EXPECT(strstr(buf, "gpuxray@32473") && !strchr(buf, '\n'));

	receiver_close(&v);
	EXPECT(s->ops->write(s, rec) < 0);
	ASSERT(listen_at(&v, SOCK_DGRAM) == 0);
	EXPECT_EQ(s->ops->write(s, rec), 0);
	EXPECT(recv(v.fd, buf, sizeof(buf), MSG_DONTWAIT) > 0);
	receiver_close(&v);
}

TEST(stream_receiver)
{
	_cleanup_(report_freep) struct report *r = make_report(REPORT_LIVE_BYTES);
	_cleanup_(record_freep) struct record *rec = build(r, NULL);
	_cleanup_(sink_closep) struct sink *s = NULL;
	struct receiver v;
	char buf[8192];
	ssize_t n;
	int fd;

	ASSERT(rec && listen_at(&v, SOCK_STREAM) == 0);
	ASSERT(open_local(v.path, true, &s) == 0);
	fd = accept(v.fd, NULL, NULL);
	ASSERT(fd >= 0);
	EXPECT_EQ(s->ops->write(s, rec), 0);
	n = recv(fd, buf, sizeof(buf) - 1, 0);
	ASSERT(n > 0);
	buf[n] = '\0';
	EXPECT(strstr(buf, "@cee: {") && strchr(buf, '\n') == buf + n - 1);

	/* It hangs up and accepts anew: no SIGPIPE, and nothing is lost. */
	(void)close(fd);
	EXPECT_EQ(s->ops->write(s, rec), 0);
	fd = accept(v.fd, NULL, NULL);
	EXPECT(recv(fd, buf, sizeof(buf), 0) > 0);
	(void)close(fd);
	receiver_close(&v);
}

TEST(nobody_listens)
{
	struct sink *s = NULL;
	char longer[200];

	EXPECT_EQ(open_local((char *)"/nonexistent/log", false, &s), -ENOENT);
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	EXPECT_EQ(open_local(longer, false, &s), -ENAMETOOLONG);
	EXPECT_EQ(sink_journal_open("/nonexistent/log", &s), -ENOENT);
	EXPECT(!s);
}

TEST_MAIN()
