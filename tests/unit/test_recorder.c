/* SPDX-License-Identifier: MIT */
#include "replay/recorder.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine_sim.h"
#include "replay/trace.h"
#include "stack/object.h"

#define START UINT64_C(1000000000000)

static char dir[] = "/tmp/gpuxray-recorder-XXXXXX";

static const char *path_of(const char *name)
{
	static char path[4][256];
	static size_t n;
	char *p = path[n++ % 4];

	if (!dir[0] || strchr(dir, 'X'))
		(void)!mkdtemp(dir);
	snprintf(p, 256, "%s/%s", dir, name);
	return p;
}

static const char *call_name(uint32_t call, void *userdata)
{
	return call ? "cuMemAlloc_v2" : NULL;
}

static struct recorder *open_recorder(const struct recorder_options *o)
{
	struct recorder *r = NULL;
	struct recorder_options all = *o;

	all.call_name = call_name;
	EXPECT_EQ(recorder_new(&all, &r), 0);
	return r;
}

/* ms: after the start of the trace. */
static void tell_at(struct recorder *r, struct engine_input in, uint64_t ms)
{
	in.now_ns = START + ms * MSEC;
	in.real_usec = SIM_REAL + ms * 1000;
	recorder_tap(&in, r);
}

static void tell_event(struct recorder *r, uint32_t pid, uint64_t start_ns, uint8_t type, uint64_t addr, uint64_t stack,
		       uint64_t ms)
{
	struct event ev = { .type = type, .pid = pid, .start_ns = start_ns, .time_ns = START + ms * MSEC, .addr = addr,
			    .bytes = 4096, .stack = stack, .call = 7, .stack_reason = STACK_NONE };

	tell_at(r, (struct engine_input){ .type = INPUT_EVENT, .pid = pid, .start_ns = start_ns, .event = &ev }, ms);
}

static void tell_tick(struct recorder *r, uint64_t ms)
{
	tell_at(r, (struct engine_input){ .type = INPUT_TICK }, ms);
}

/* The text of a file; the caller frees it. */
static char *text_of(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = calloc(1, 1 << 20);

	if (f) {
		(void)!fread(text, 1, (1 << 20) - 1, f);
		fclose(f);
	}
	return text;
}

static bool has_line(const char *text, const char *line)
{
	const size_t len = strlen(line);

	for (const char *p = text; (p = strstr(p, line)); p++)
		if ((p == text || p[-1] == '\n') && p[len] == '\n')
			return true;
	printf("# no line \"%s\" in:\n# %s\n", line, text);
	return false;
}

static size_t count_of(const char *text, const char *part)
{
	size_t n = 0;

	for (const char *p = text; (p = strstr(p, part)); p += strlen(part))
		n++;
	return n;
}

TEST(lines_in_order_with_small_numbers_for_stacks)
{
	const char *path = path_of("order");
	struct recorder *r = open_recorder(&(struct recorder_options){ .path = path, .start_ns = START });
	_cleanup_free_ char *text = NULL;
	struct recorder_stats s;

	tell_event(r, 10, 5, EVENT_PROCESS, 0, 0, 250);
	tell_event(r, 10, 5, EVENT_ALLOC, 0x1000, 77777, 300);
	tell_event(r, 10, 5, EVENT_ALLOC, 0x2000, 12345, 301);
	tell_event(r, 11, 6, EVENT_ALLOC, 0x1000, 99999, 299); /* a ring of another processor: late, and left where it is */
	tell_event(r, 10, 5, EVENT_ALLOC, 0x3000, 77777, 302);
	tell_event(r, 10, 5, EVENT_FREE, 0x1000, 77777, 303);
	tell_event(r, 10, 5, EVENT_FAIL, 0, 0, 304);
	tell_event(r, 10, 5, EVENT_EXIT, 0, 0, 305);
	EXPECT_EQ(recorder_close(r, &s), 0);
	text = text_of(path);
	EXPECT(strncmp(text, "# gpuxray trace 1\nclock monotonic=1000 real=1700000000\n", 55) == 0);
	EXPECT(has_line(text, "0.25 10 process"));
	EXPECT(has_line(text, "0.3 10 alloc class=device addr=0x1000 bytes=4096 device=0 stack=1 call=cuMemAlloc_v2"));
	EXPECT(has_line(text, "0.301 10 alloc class=device addr=0x2000 bytes=4096 device=0 stack=2 call=cuMemAlloc_v2"));
	EXPECT(has_line(text, "0.302 10 alloc class=device addr=0x3000 bytes=4096 device=0 stack=1 call=cuMemAlloc_v2"));
	EXPECT(has_line(text, "0.303 10 free addr=0x1000"));
	EXPECT(has_line(text, "0.305 10 exit"));
	EXPECT(strstr(text, "0.301 10") < strstr(text, "0.299 11"));
	EXPECT_EQ(s.events, 6);
	EXPECT_EQ(s.dropped, 0);
	EXPECT_EQ(s.text_bytes, strlen(text));
	EXPECT_EQ(s.file_bytes, strlen(text));
}

TEST(ends_of_processes_are_written_where_the_engine_concludes_them)
{
	const char *path = path_of("ends");
	struct recorder *r = open_recorder(&(struct recorder_options){ .path = path, .start_ns = START });
	_cleanup_free_ char *text = NULL;

	tell_event(r, 10, 500, EVENT_ALLOC, 0x1000, 0, 10);
	tell_event(r, 10, 900, EVENT_ALLOC, 0x2000, 0, 20); /* another bearer of the pid */
	tell_event(r, 10, 500, EVENT_FREE, 0x1000, 0, 30);  /* late news of the first: the engine does not heed it */
	tell_event(r, 10, 500, EVENT_EXIT, 0, 0, 31);
	tell_event(r, 10, 900, EVENT_FREE, 0x2000, 0, 40);
	tell_event(r, 99, 1, EVENT_EXIT, 0, 0, 50); /* never heard of */
	/* Named by the driver, its start known to the tick; then by its first call. */
	tell_at(r, (struct engine_input){ .type = INPUT_DRIVER, .pid = 20, .start_ns = 30 * MSEC, .driver = { .bytes = 5 } }, 60);
	tell_event(r, 20, 33 * MSEC, EVENT_ALLOC, 0x5000, 0, 61);
	EXPECT_EQ(recorder_close(r, NULL), 0);
	text = text_of(path);
	EXPECT_EQ(count_of(text, " exit\n"), 1);
	EXPECT(strstr(text, " 10 exit\n") > strstr(text, "addr=0x1000"));
	EXPECT(strstr(text, " 10 exit\n") < strstr(text, "addr=0x2000"));
	EXPECT_EQ(count_of(text, "addr=0x1000"), 1);
	EXPECT(has_line(text, "0.04 10 free addr=0x2000"));
	EXPECT_EQ(count_of(text, " 99 "), 0);
}

static struct identity *make_identity(uint32_t pid)
{
	struct identity *id = identity_new();

	id->pid = pid;
	id->uid = 1234;
	id->comm = strdup("secretcomm");
	id->cmdline = strdup("secretcomm --password hunter2");
	id->user = strdup("secretuser");
	id->exe = strdup("/home/secretuser/run");
	return id;
}

static void tell_who(struct recorder *r)
{
	struct identity *id = make_identity(10);

	tell_event(r, 10, 5, EVENT_PROCESS, 0, 0, 1);
	tell_at(r, (struct engine_input){ .type = INPUT_IDENTITY, .pid = 10, .start_ns = 5, .identity = id }, 2);
	tell_at(r, (struct engine_input){ .type = INPUT_ORDINAL, .pid = 10, .start_ns = 5,
					  .ordinal = { .ordinal = 1, .uuid = "GPU-secret-b" } }, 3);
	tell_at(r, (struct engine_input){ .type = INPUT_DEVICE, .device = { .uuid = "GPU-secret-a", .index = 0,
					  .name = "Fine Card", .total_bytes = 1000, .used_bytes = UINT64_MAX } }, 4);
	tell_at(r, (struct engine_input){ .type = INPUT_DRIVER, .pid = 10, .start_ns = 5,
					  .driver = { .uuid = "GPU-secret-b", .bytes = UINT64_MAX } }, 5);
	tell_at(r, (struct engine_input){ .type = INPUT_ORDINAL, .pid = 10, .start_ns = 5,
					  .ordinal = { .ordinal = 2, .uuid = "MIG-secret-c" } }, 6);
	identity_unref(id);
}

TEST(identity_is_left_out_unless_asked_for)
{
	const char *path = path_of("anonymous"), *full = path_of("full");
	struct recorder *r = open_recorder(&(struct recorder_options){ .path = path, .start_ns = START });
	struct recorder *f = open_recorder(&(struct recorder_options){ .path = full, .start_ns = START, .identity = true });
	_cleanup_free_ char *text = NULL, *all = NULL;
	struct stat st = {};

	tell_who(r);
	tell_who(f);
	EXPECT_EQ(recorder_close(r, NULL), 0);
	EXPECT_EQ(recorder_close(f, NULL), 0);
	text = text_of(path);
	all = text_of(full);
	EXPECT_EQ(count_of(text, "secret"), 0);
	EXPECT_EQ(count_of(text, "1234"), 0);
	EXPECT_EQ(count_of(text, "identity"), 0);
	EXPECT(has_line(text, "0.003 10 ordinal device=1 uuid=GPU-00000000-0000-0000-0000-000000000001"));
	EXPECT(has_line(text, "0.004 0 gpu uuid=GPU-00000000-0000-0000-0000-000000000002 index=0 name=Fine%20Card total=1000"));
	EXPECT(has_line(text, "0.005 10 driver device=GPU-00000000-0000-0000-0000-000000000001 bytes=?"));
	EXPECT(has_line(text, "0.006 10 ordinal device=2 uuid=MIG-00000000-0000-0000-0000-000000000003"));
	EXPECT(strstr(all, "comm=secretcomm") && strstr(all, "cmdline=secretcomm%20--password%20hunter2"));
	EXPECT(has_line(all, "0.003 10 ordinal device=1 uuid=GPU-secret-b"));
	EXPECT_EQ(stat(full, &st), 0);
	EXPECT_EQ(st.st_mode & 077, 0);
}

TEST(ticks_of_idle_time_are_left_out)
{
	const char *path = path_of("ticks");
	struct recorder *r = open_recorder(&(struct recorder_options){ .path = path, .start_ns = START });
	_cleanup_free_ char *text = NULL;

	tell_event(r, 10, 5, EVENT_ALLOC, 0x1000, 0, 500);
	for (uint64_t s = 1; s <= 3600; s++)
		tell_tick(r, s * 1000);
	tell_event(r, 10, 5, EVENT_FREE, 0x1000, 0, 3600500);
	for (uint64_t s = 3601; s <= 7200; s++)
		tell_tick(r, s * 1000);
	EXPECT_EQ(recorder_close(r, NULL), 0);
	text = text_of(path);
	/* A minute of them after each line, the last one before the next, and the last of all. */
	EXPECT_EQ(count_of(text, " tick\n"), 60 + 1 + 60 + 1);
	EXPECT(has_line(text, "60 0 tick"));
	EXPECT(!strstr(text, "\n61 0 tick"));
	EXPECT(strstr(text, "\n3600 0 tick\n3600.5 10 free"));
	EXPECT(has_line(text, "7200 0 tick"));
}

TEST(only_the_processes_that_were_asked_for)
{
	const char *path = path_of("pids");
	const uint32_t pids[] = { 11, 12 };
	struct recorder *r = open_recorder(&(struct recorder_options){ .path = path, .pids = pids, .pids_len = 2 });
	_cleanup_free_ char *text = NULL;

	for (uint32_t pid = 10; pid < 14; pid++)
		tell_event(r, pid, 5, EVENT_ALLOC, 0x1000, 0, pid);
	tell_tick(r, 1000);
	EXPECT_EQ(recorder_close(r, NULL), 0);
	text = text_of(path);
	EXPECT_EQ(count_of(text, " alloc "), 2);
	EXPECT(strstr(text, " 11 alloc ") && strstr(text, " 12 alloc ") && strstr(text, " 0 tick"));
}

TEST(the_first_frame_of_a_stack_may_be_its_id)
{
	uint64_t id;

	EXPECT_STR(recorder_stack_id("@0123456789abcdef;main+0x2 (a)", &id), "main+0x2 (a)");
	EXPECT_EQ(id, 0x0123456789abcdef);
	EXPECT_STR(recorder_stack_id("@0123456789abcdef", &id), "");
	EXPECT_EQ(id, 0x0123456789abcdef);
	EXPECT_STR(recorder_stack_id("@0123456789abcde;main", &id), "@0123456789abcde;main");
	EXPECT_EQ(id, 0);
	EXPECT_STR(recorder_stack_id("@0123456789abcdefg;main", &id), "@0123456789abcdefg;main");
	EXPECT_STR(recorder_stack_id("", &id), "");
	EXPECT_EQ(id, 0);
}

/* Frames outside of any file: no file is needed for their text. */
static struct stack *make_stack(uint64_t number, uint32_t pid, uint64_t id)
{
	struct frames *f = calloc(1, sizeof(*f));

	f->list = calloc(2, sizeof(*f->list));
	f->count = 2;
	f->list[0].pc = 0x1230;
	f->list[1] = (struct frame){ .kind = FRAME_PYTHON, .function = "train", .file = number == 502 ? "deep/loop.py" : "/home/me/deep/loop.py", .line = 12 };
	f->id = id;
	f->site = 5 * number;
	return stack_new_done(number, pid, f);
}

static char *record_stacks(bool identity, struct recorder_stats *ret)
{
	const char *path = path_of("stacks");
	struct objects *objects = NULL;
	struct stack *one = make_stack(501, 10, 0xabc), *two = make_stack(502, 10, 0xdef);
	struct recorder *r;

	EXPECT_EQ(objects_new("/proc", 16, &objects), 0);
	r = open_recorder(&(struct recorder_options){ .path = path, .start_ns = START, .objects = objects, .identity = identity });
	two->start_ns = 5;
	tell_event(r, 10, 5, EVENT_ALLOC, 0x1000, 501, 1);
	tell_event(r, 10, 5, EVENT_ALLOC, 0x2000, 502, 2);
	tell_at(r, (struct engine_input){ .type = INPUT_SITE, .pid = 10, .start_ns = 5,
					  .site = { .stack = 501, .key = 0x77, .resolved = one } }, 3);
	tell_event(r, 10, 5, EVENT_EXIT, 0, 0, 4);
	tell_at(r, (struct engine_input){ .type = INPUT_SITE, .pid = 10, .start_ns = 5,
					  .site = { .stack = 502, .key = 0x78 } }, 5);
	recorder_stack(r, two);
	EXPECT_EQ(recorder_close(r, ret), 0);
	stack_unref(one);
	stack_unref(two);
	objects_unref(objects);
	return text_of(path);
}

TEST(stacks_are_told_as_text_when_they_are_resolved_even_late)
{
	struct recorder_stats s;
	_cleanup_free_ char *text = record_stacks(false, &s), *full = record_stacks(true, &s);

	EXPECT(has_line(text, "0.003 10 site stack=1 key=0x77"));
	EXPECT_EQ(count_of(text, " site "), 1);
	EXPECT(has_line(text, "stack 1 @0000000000000abc;0x1230;train (loop.py:12)"));
	EXPECT(has_line(text, "stack 2 @0000000000000def;0x1230;train (loop.py:12)"));
	EXPECT(has_line(full, "stack 1 @0000000000000abc;0x1230;train (/home/me/deep/loop.py:12)"));
	EXPECT_EQ(s.stacks, 2);
}

/* A pipe that nobody reads takes 64 KiB; all else has to wait in memory. */
TEST(lines_without_room_are_counted_and_told)
{
	const char *fifo = path_of("fifo");
	_cleanup_strbuf_ struct strbuf got = STRBUF_INIT;
	struct recorder_stats s;
	struct recorder *r;
	char buf[4096];
	ssize_t n;
	int fd;

	ASSERT(mkfifo(fifo, 0600) == 0);
	fd = open(fifo, O_RDONLY | O_NONBLOCK);
	ASSERT(fd >= 0);
	r = open_recorder(&(struct recorder_options){ .path = fifo, .start_ns = START, .max_pending_bytes = 512 << 10 });
	ASSERT(r);
	for (uint64_t i = 0; i < 40000; i++)
		tell_event(r, 10 + i % 2, 5, EVENT_ALLOC, 0x1000 * (i + 1), 0, i);
	tell_event(r, 11, 5, EVENT_EXIT, 0, 0, 40000); /* there is always room for that */
	recorder_stats(r, &s);
	EXPECT(s.dropped > 10000);
	/* Somebody reads again. */
	for (int quiet = 0; quiet < 300;) {
		n = read(fd, buf, sizeof(buf));
		if (n > 0)
			strbuf_add(&got, buf, (size_t)n);
		quiet = n > 0 ? 0 : quiet + 1;
		if (n <= 0)
			usleep(10000);
	}
	tell_event(r, 10, 5, EVENT_FREE, 0x1000, 0, 50000);
	EXPECT_EQ(recorder_close(r, &s), 0);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		strbuf_add(&got, buf, (size_t)n);
	close(fd);
	EXPECT_EQ(count_of(got.buf, " alloc ") + s.dropped, 40000);
	EXPECT_EQ(count_of(got.buf, " 11 exit\n"), 1);
	EXPECT(strstr(got.buf, "lines are missing here"));
	/* Of the one that still is there. */
	EXPECT(strstr(got.buf, "\n50 10 lost count="));
	EXPECT_EQ(count_of(got.buf, " lost "), 1);
	EXPECT(strstr(got.buf, " lost ") < strstr(got.buf, "50 10 free"));
}

TEST(compressed_is_readable_while_it_grows_and_after)
{
	const char *path = path_of("trace.gz");
	struct recorder *r = open_recorder(&(struct recorder_options){ .path = path, .start_ns = START });
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	struct trace_reader *reader = NULL;
	struct recorder_stats s;
	struct trace_item item;
	size_t n = 0;

	for (uint64_t i = 0; i < 1000; i++)
		tell_event(r, 10, 5, EVENT_ALLOC, 0x1000 * (i + 1), 0, i);
	for (int i = 0; i < 100; i++) { /* its next flush */
		recorder_stats(r, &s);
		if (s.file_bytes > 100)
			break;
		usleep(50000);
	}
	ASSERT(trace_open(path, &errors, &reader) == 0);
	while (trace_read(reader, &errors, &item) > 0)
		n++;
	trace_close(reader);
	EXPECT_EQ(n, 1000);
	EXPECT_EQ(errors.error_count, 1); /* that it is cut */
	tell_event(r, 10, 5, EVENT_FREE, 0x1000, 0, 2000);
	EXPECT_EQ(recorder_close(r, &s), 0);
	EXPECT(s.file_bytes < s.text_bytes / 4);
	ASSERT(trace_open(path, &errors, &reader) == 0);
	for (n = 0; trace_read(reader, &errors, &item) > 0; n++)
		if (n == 1000)
			EXPECT_EQ(item.type, TRACE_FREE);
	trace_close(reader);
	EXPECT_EQ(n, 1001);
	EXPECT_EQ(errors.error_count, 1);
}

TEST(an_old_recording_is_replaced_and_its_reader_keeps_it)
{
	const char *path = path_of("again");
	struct recorder *r;
	char buf[16] = "";
	FILE *old = fopen(path, "w+");

	ASSERT(old);
	fputs("old", old);
	fflush(old);
	r = open_recorder(&(struct recorder_options){ .path = path, .start_ns = START });
	EXPECT_EQ(access(path, R_OK), 0); /* at once */
	tell_tick(r, 1000);
	EXPECT_EQ(recorder_close(r, NULL), 0);
	rewind(old);
	EXPECT(fgets(buf, sizeof(buf), old));
	EXPECT_STR(buf, "old");
	fclose(old);
	EXPECT_EQ(recorder_new(&(struct recorder_options){ .path = "/nowhere/at/all" }, &r), -ENOENT);
}

static mode_t mode_of(bool identity, mode_t mask)
{
	const char *path = path_of("mode");
	const mode_t before = umask(mask);
	struct recorder *r = open_recorder(&(struct recorder_options){ .path = path, .start_ns = START, .identity = identity });
	struct stat st = {};

	(void)umask(before);
	EXPECT_EQ(recorder_close(r, NULL), 0);
	EXPECT_EQ(stat(path, &st), 0);
	return st.st_mode & 07777;
}

TEST(who_may_read_it_is_up_to_the_umask_too)
{
	EXPECT_EQ(mode_of(false, 022), 0644);
	EXPECT_EQ(mode_of(false, 077), 0600);
	EXPECT_EQ(mode_of(true, 022), 0600);
}

/* As /dev/stdout is one. */
TEST(a_link_to_standard_output_stays_a_link)
{
	const char *file = path_of("redirected"), *link = path_of("stdout");
	int saved = dup(STDOUT_FILENO), fd = open(file, O_WRONLY | O_CREAT | O_APPEND, 0600), r;
	struct recorder *rec = NULL;
	struct stat st = {};
	_cleanup_free_ char *text = NULL;

	ASSERT(saved >= 0 && fd >= 0 && symlink("/proc/self/fd/1", link) == 0);
	fflush(stdout);
	ASSERT(dup2(fd, STDOUT_FILENO) == STDOUT_FILENO);
	r = recorder_new(&(struct recorder_options){ .path = link, .start_ns = START }, &rec);
	if (r == 0) {
		tell_tick(rec, 1000);
		r = recorder_close(rec, NULL);
	}
	(void)dup2(saved, STDOUT_FILENO);
	close(saved);
	close(fd);
	EXPECT_EQ(r, 0);
	EXPECT(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
	text = text_of(file);
	EXPECT(has_line(text, "1 0 tick"));
}

/* A pipe that nobody reads holds up nobody who wants to end. */
TEST(a_reader_who_takes_nothing_is_not_waited_for)
{
	const char *fifo = path_of("stalled");
	struct recorder *r;
	int fd;

	ASSERT(mkfifo(fifo, 0600) == 0);
	fd = open(fifo, O_RDONLY | O_NONBLOCK);
	r = open_recorder(&(struct recorder_options){ .path = fifo, .start_ns = START });
	ASSERT(fd >= 0 && r);
	for (uint64_t i = 0; i < 10000; i++)
		tell_event(r, 10, 5, EVENT_ALLOC, 0x1000 * (i + 1), 0, i);
	alarm(30);
	EXPECT_EQ(recorder_close(r, NULL), -ETIMEDOUT);
	alarm(0);
	close(fd);
}

TEST(a_full_disk_is_an_error_once)
{
	struct recorder *r = open_recorder(&(struct recorder_options){ .path = "/dev/full", .start_ns = START });
	struct recorder_stats s;

	tell_event(r, 10, 5, EVENT_ALLOC, 0x1000, 0, 1);
	EXPECT_EQ(recorder_close(r, &s), -ENOSPC);
	EXPECT_EQ(s.error, -ENOSPC);
}

/* An engine with the tap: what it is told comes back as items of the same kinds and order. */
TEST(an_engine_that_is_tapped)
{
	const char *path = path_of("engine");
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	struct recorder *r = open_recorder(&(struct recorder_options){ .path = path });
	static const enum trace_type want[] = { TRACE_ALLOC, TRACE_TICK, TRACE_LOST, TRACE_REBUILD, TRACE_BLOCK, TRACE_REBUILT,
						TRACE_CONDITION, TRACE_FREE, TRACE_EXIT };
	const struct limits limits = LIMITS_DEFAULT;
	const struct engine_ops ops = { .report = sim_report };
	struct event ev = { .type = EVENT_ALLOC, .pid = 10, .start_ns = 5, .time_ns = START, .addr = 0x1000, .bytes = 42 };
	struct books b = { .alloc_count = 1, .live_count = 1 };
	struct trace_reader *reader = NULL;
	struct trace_item item;
	struct sim s = {};
	size_t n = 0;

	ASSERT(engine_new(&limits, &ops, &s, &s.e) == 0);
	engine_set_tap(s.e, recorder_tap, r);
	engine_event(s.e, &ev, START, SIM_REAL);
	engine_tick(s.e, START + SEC, SIM_REAL + 1000000);
	engine_lost(s.e, 10, 5, 3, START + SEC);
	engine_rebuild_begin(s.e, 10, 5);
	ev.birth_ns = START - 1;
	engine_rebuild_add(s.e, &ev);
	engine_rebuild_end(s.e, 10, 5, &b, START + SEC, SIM_REAL + 1000000);
	engine_set_condition(s.e, 10, 5, 2, START + SEC);
	ev.type = EVENT_FREE;
	engine_event(s.e, &ev, START + SEC, SIM_REAL + 1000000);
	ev.type = EVENT_EXIT;
	engine_event(s.e, &ev, START + SEC, SIM_REAL + 1000000);
	engine_set_tap(s.e, NULL, NULL);
	engine_free(s.e);
	EXPECT_EQ(recorder_close(r, NULL), 0);
	ASSERT(trace_open(path, &errors, &reader) == 0);
	for (; trace_read(reader, &errors, &item) > 0; n++)
		EXPECT_EQ(item.type, n < ARRAY_SIZE(want) ? want[n] : TRACE_TYPE_MAX);
	EXPECT_EQ(n, ARRAY_SIZE(want));
	EXPECT_EQ(errors.error_count, 0);
	EXPECT_EQ(trace_clock(reader)->monotonic_ns, START);
	EXPECT_EQ(trace_clock(reader)->real_usec, SIM_REAL);
	trace_close(reader);
}

static __attribute__((destructor)) void clean(void)
{
	char command[128];

	if (strchr(dir, 'X'))
		return;
	snprintf(command, sizeof(command), "rm -r %s", dir);
	(void)!system(command);
}

TEST_MAIN()
