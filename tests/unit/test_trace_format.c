/* SPDX-License-Identifier: MIT */
/* Lines and files of recorded traces. */
#include <fcntl.h>
#include <zlib.h>

#include "stack/symbolizer.h"
#include "test.h"
#include "trace_items.h"

#define DEMO "tests/traces/demo.trace"

/* The line that is written for the item that a line is read as; texts of errors where there are any. */
static char *rewritten(const char *line)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT, out = STRBUF_INIT;
	_cleanup_(trace_closep) struct trace_reader *r = NULL;
	struct trace_item item;
	char *s;
	int n;

	strbuf_addf(&text, HEAD "%s", line);
	r = reader_of(strbuf_str(&text), text.len);
	while ((n = trace_read(r, &errors, &item)) != 0) {
		if (n == 1 && trace_write(&out, &item) < 0)
			strbuf_adds(&out, "not written\n");
	}
	for (size_t i = 0; i < errors.len; i++)
		strbuf_addf(&out, "%s:%d: %s\n", errors.list[i].file, errors.list[i].line, errors.list[i].text);
	strbuf_truncate(&out, out.len ? out.len - 1 : 0);
	if (strbuf_steal(&out, &s) < 0)
		abort();
	return s;
}

#define EXPECT_REWRITTEN(line, expected)                                                                               \
	do {                                                                                                           \
		_cleanup_free_ char *s_ = rewritten(line);                                                             \
		EXPECT_STR(s_, expected);                                                                              \
	} while (0)
#define EXPECT_SAME(line) EXPECT_REWRITTEN(line "\n", line)

TEST(shortest_line_of_each_event)
{
	EXPECT_SAME("0.25 4711 alloc class=device addr=0x7f12 bytes=2097152 device=0 stack=3");
	EXPECT_SAME("0 1 alloc class=managed addr=0x0 bytes=0");
	EXPECT_SAME("1000000000 2147483647 alloc class=imported addr=0xffffffffffffffff bytes=18446744073709551615 "
		    "device=2147483647 stack=18446744073709551615 reason=evicted kind=object call=cuMemAlloc_v2");
	EXPECT_SAME("3.000000001 7 free addr=0x7f12");
	EXPECT_SAME("3.1 7 free addr=0x7f12 kind=handle");
	EXPECT_SAME("3.1 7 fail class=async bytes=5 device=1 error=2 stack=1 call=f");
	EXPECT_SAME("3.1 7 fail class=device bytes=0 addr=0x10 error=-2147483648 reason=sampled");
	EXPECT_SAME("1 7 process");
	EXPECT_SAME("1 7 exec");
	EXPECT_SAME("1 7 exit");
	EXPECT_SAME("1 7 site stack=3 key=0xdeadbeef");
	EXPECT_SAME("1 7 identity");
	EXPECT_SAME("1 7 identity comm=python3 exe=/usr/bin/python3 cmdline=python3%20train.py%20--lr=0.1 user=ci uid=0 "
		    "cgroup=/a unit=train.service user_unit=u slice=s container=c runtime=docker pod=p slurm_job=12.0 "
		    "parent=bash ppid=1 inner_pid=2 start_ticks=1844674407370 tag=nightly pod_name=trainer-0 pod_namespace=ml "
		    "container_name=main");
	EXPECT_SAME("1 7 ordinal device=0 uuid=GPU-1");
	EXPECT_SAME("1 7 driver bytes=?");
	EXPECT_SAME("1 7 driver device=GPU-1 bytes=12 older=1");
	EXPECT_SAME("1 7 coverage reason=started%20before expected=1");
	EXPECT_SAME("1 7 condition bits=3");
	EXPECT_SAME("1 7 lost count=9");
	EXPECT_SAME("1 7 rebuild");
	EXPECT_SAME("1 7 block class=physical addr=0x1 bytes=2 birth=0.5");
	EXPECT_SAME("1 7 rebuilt");
	EXPECT_SAME("1 7 rebuilt device_bytes=1 peak_bytes=2 live_count=3 alloc_count=4 free_count=5 fail_count=6 "
		    "unknown_free_count=7 lost_count=8 untracked_count=9 untracked_bytes=10 framework_live_count=11 "
		    "framework_alloc_count=12 framework_free_count=13 missed_count=14");
	EXPECT_SAME("1 0 tick");
	EXPECT_SAME("1 0 gpu uuid=GPU-1");
	EXPECT_SAME("1 0 gpu uuid=GPU-1 index=0 name=H200 total=5 used=0");
	EXPECT_SAME("1 0 gpus-end");
	EXPECT_SAME("1 0 driver-begin");
	EXPECT_SAME("1 0 driver-end incomplete=1");
}

TEST(what_is_by_default_is_left_out)
{
	EXPECT_REWRITTEN("00.2500 7 alloc kind=handle bytes=0x10 addr=255 class=physical reason=ok stack=0 later=%zz\n",
			 "0.25 7 alloc class=physical addr=0xff bytes=16");
	EXPECT_REWRITTEN("1 7 alloc class=array addr=1 bytes=1 kind=object\n", "1 7 alloc class=array addr=0x1 bytes=1");
	EXPECT_REWRITTEN("1 7 alloc class=framework addr=1 bytes=1 kind=framework\n",
			 "1 7 alloc class=framework addr=0x1 bytes=1");
	EXPECT_REWRITTEN("1 7 alloc class=array addr=1 bytes=1 kind=pointer\n",
			 "1 7 alloc class=array addr=0x1 bytes=1 kind=pointer");
	EXPECT_REWRITTEN("1 7 free addr=1 kind=pointer\n", "1 7 free addr=0x1");
	EXPECT_REWRITTEN("1 7 driver bytes=1 older=0\n", "1 7 driver bytes=1");
	EXPECT_REWRITTEN("1 0 gpu uuid=a total=? used=?\n", "1 0 gpu uuid=a");
	EXPECT_REWRITTEN("1 7 identity uid=4294967295 ppid=0 later=1\n", "1 7 identity");
	/* Known and empty is not the same as not known. */
	EXPECT_SAME("1 7 identity comm= user=");
}

TEST(lines_as_people_write_them)
{
	EXPECT_REWRITTEN("\n  \t\n# a comment\n\t# another\r\n \t1\t 7  exit \t\r\n2 7 exec", "1 7 exit\n2 7 exec");
	EXPECT_REWRITTEN("1 7 exit\r\n\r\n2 7 exec\r\n", "1 7 exit\n2 7 exec");
	EXPECT_REWRITTEN(HEAD "1 7 exit\n", "1 7 exit"); /* files put one behind the other */
	EXPECT_REWRITTEN("", "");
}

TEST(texts_that_need_encoding)
{
	EXPECT_SAME("1 7 coverage reason=%20");
	EXPECT_SAME("1 7 coverage reason=a%20b%25c%0a%09%7fd=e\\x3b;~\"");
	EXPECT_REWRITTEN("1 7 coverage reason=%41%C3%A4\xc3\xa4%e2%82%ac\n",
			 "1 7 coverage reason=A\xc3\xa4\xc3\xa4\xe2\x82\xac");
	EXPECT_REWRITTEN("1 7 coverage reason=\xff\xc3\n", "1 7 coverage reason=%ff%c3");
	/* What a terminal would take for a command, or turns lines around. */
	EXPECT_REWRITTEN("1 7 coverage reason=\xc2\x9b\xe2\x80\xae\n", "1 7 coverage reason=%c2%9b%e2%80%ae");
}

TEST(errors_name_line_and_cure)
{
	EXPECT_REWRITTEN("1 7 alloc class=device addr=1\n", "t.trace:2: alloc without bytes=");
	EXPECT_REWRITTEN("\n\n1 7 alocc class=device\n", "t.trace:4: unknown event \"alocc\": did you mean \"alloc\"?");
	EXPECT_REWRITTEN("1 0 gpus_end\n", "t.trace:2: unknown event \"gpus_end\": did you mean \"gpus-end\"?");
	EXPECT_REWRITTEN("1 7 nonsense\n",
			 "t.trace:2: unknown event \"nonsense\": known are alloc, free, fail, process, exec, exit, site, "
			 "identity, ordinal, driver, coverage, condition, lost, rebuild, block, rebuilt, tick, gpu, gpus-end, "
			 "driver-begin, driver-end");
	EXPECT_REWRITTEN("1 7 alloc class=devise\n", "t.trace:2: unknown class \"devise\": did you mean \"device\"?");
	EXPECT_REWRITTEN("1 7 alloc kind=x\n",
			 "t.trace:2: unknown kind \"x\": known are pointer, handle, object, framework");
	EXPECT_REWRITTEN("1 7 alloc reason=smapled\n", "t.trace:2: unknown reason \"smapled\": did you mean \"sampled\"?");
	EXPECT_REWRITTEN("1 7 alloc bytes=1 bytes=1\n", "t.trace:2: bytes= is there twice: leave one out");
	EXPECT_REWRITTEN("1 7 alloc bytes\n",
			 "t.trace:2: \"bytes\" is not key=value; a blank within a value is written %20");
	EXPECT_REWRITTEN("1 7 alloc bytes=8MiB\n",
			 "t.trace:2: bytes=8MiB is not a number: write digits alone, or hexadecimal ones after 0x");
	EXPECT_REWRITTEN("1 7 free addr=7f12\n",
			 "t.trace:2: addr=7f12 is not a number: write digits alone, or hexadecimal ones after 0x");
	EXPECT_REWRITTEN("1 7 lost count=18446744073709551616\n",
			 "t.trace:2: count=18446744073709551616 is too large: at most 18446744073709551615");
	EXPECT_REWRITTEN("1 7 driver bytes=18446744073709551615\n",
			 "t.trace:2: bytes=18446744073709551615 is too large: at most 18446744073709551614");
	EXPECT_REWRITTEN("1 7 condition bits=4294967296\n",
			 "t.trace:2: bits=4294967296 is too large: at most 4294967295");
	EXPECT_REWRITTEN("1 7 lost count=0x\n1 7 lost count=\n1 7 lost count=-1\n",
			 "t.trace:2: count=0x is not a number: write digits alone, or hexadecimal ones after 0x\n"
			 "t.trace:3: count= is not a number: write digits alone, or hexadecimal ones after 0x\n"
			 "t.trace:4: count=-1 is not a number: write digits alone, or hexadecimal ones after 0x");
	EXPECT_REWRITTEN("1 7 fail error=-2147483649\n",
			 "t.trace:2: error=-2147483649 is too large: at most 2147483647");
	EXPECT_REWRITTEN("1 7 coverage reason=a%4\n",
			 "t.trace:2: reason=: \"%4\": after % come two hexadecimal digits; for the sign itself write %25");
	EXPECT_REWRITTEN("1 7 coverage reason=a%00\n", "t.trace:2: reason=: %00 cannot be in a text: leave it out");
	EXPECT_REWRITTEN("1 7\n", "t.trace:2: the event is missing: a line is TIME PID EVENT key=value...");
	EXPECT_REWRITTEN("1\n", "t.trace:2: the process id is missing: a line is TIME PID EVENT key=value...");
	EXPECT_REWRITTEN("1 x exit\n", "t.trace:2: \"x\" is not a process id: a line is TIME PID EVENT key=value...");
	EXPECT_REWRITTEN("1 2147483648 exit\n",
			 "t.trace:2: \"2147483648\" is not a process id: a line is TIME PID EVENT key=value...");
	EXPECT_REWRITTEN("1 0 exit\n", "t.trace:2: exit is about a process: its id cannot be 0");
	EXPECT_REWRITTEN("1 7 tick\n", "t.trace:2: tick is about no process: write 0 in place of 7");
	EXPECT_REWRITTEN("stak 1 a;b\n", "t.trace:2: unknown line \"stak\": did you mean \"stack\"?");
	/* One run tells them all, and what is right is read. */
	EXPECT_REWRITTEN("1 7 exit x\n2 7 exec\n3 7 exti\n",
			 "2 7 exec\nt.trace:2: \"x\" is not key=value; a blank within a value is written %20\n"
			 "t.trace:4: unknown event \"exti\": did you mean \"exit\"?");
}

TEST(times)
{
	EXPECT_SAME("0.000000001 7 exit");
	EXPECT_SAME("999999999.999999999 7 exit");
	EXPECT_SAME("1000000000 7 exit");
	/* A double would not tell these apart. */
	EXPECT_REWRITTEN("123456789.123456788 7 exit\n123456789.123456789 7 exit\n",
			 "123456789.123456788 7 exit\n123456789.123456789 7 exit");
	EXPECT_REWRITTEN("-1 7 exit\n",
			 "t.trace:2: time \"-1\": times count from the start of the trace and are never negative");
	EXPECT_REWRITTEN("nan 7 exit\n", "t.trace:2: \"nan\" is not a time: write seconds, such as 0.25");
	EXPECT_REWRITTEN("1. 7 exit\n", "t.trace:2: \"1.\" is not a time: write seconds, such as 0.25");
	EXPECT_REWRITTEN(".5 7 exit\n", "t.trace:2: \".5\" is not a time: write seconds, such as 0.25");
	EXPECT_REWRITTEN("1e3 7 exit\n", "t.trace:2: \"1e3\" is not a time: write seconds, such as 0.25");
	EXPECT_REWRITTEN("1.5x 7 exit\n", "t.trace:2: \"1.5x\" is not a time: write seconds, such as 0.25");
	EXPECT_REWRITTEN("0.1234567890 7 exit\n",
			 "t.trace:2: time \"0.1234567890\": at most 9 decimals: times are as fine as a nanosecond");
	EXPECT_REWRITTEN("1764512345 7 exit\n",
			 "t.trace:2: time \"1764512345\" is beyond 1000000000 s: seconds since the start are meant, not a date");
	EXPECT_REWRITTEN("1000000000.000000001 7 exit\n", "t.trace:2: time \"1000000000.000000001\" is beyond 1000000000 s: "
							  "seconds since the start are meant, not a date");
	EXPECT_REWRITTEN("99999999999999999999999999999 7 exit\n",
			 "t.trace:2: time \"99999999999999999999999999999\" is beyond 1000000000 s: seconds since the start "
			 "are meant, not a date");
}

static void expect_first_error(const char *text, size_t len, int line, const char *expected)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	_cleanup_(trace_closep) struct trace_reader *r = reader_of(text, len);
	struct trace_item item;
	int n;

	do
		n = trace_read(r, &errors, &item);
	while (n == 1);
	EXPECT_EQ(n, -EINVAL);
	ASSERT(errors.len == 1);
	EXPECT_EQ(errors.list[0].line, line);
	EXPECT_STR(errors.list[0].text, expected);
}

#define NO_TRACE "this is no recorded trace: its first line must be \"# gpuxray trace 1\""

TEST(first_line)
{
	static const char *const others[] = {
		"", "\n", "# a comment\n# gpuxray trace 1\n", "1 7 exit\n", "# gpuxray trace\n", "# gpuxray trace x\n",
		"# gpuxray trace 0\n", "# gpuxray trace 1 2\n", "#gpuxray trace 1\n", "\177ELF",
	};
	static const char *const good[] = { "# gpuxray trace 1", "# gpuxray trace 1\r\n", "# gpuxray trace 1 \t\n" };
	static char longer[5 * TRACE_LINE_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		expect_first_error(others[i], strlen(others[i]), 1, NO_TRACE);
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		_cleanup_errors_ struct errors errors = ERRORS_INIT;
		_cleanup_(trace_closep) struct trace_reader *r = reader_of(good[i], strlen(good[i]));
		struct trace_item item;

		EXPECT_EQ(trace_read(r, &errors, &item), 0);
		EXPECT_EQ(trace_clock(r)->monotonic_ns, UINT64_C(1000000000000));
		EXPECT_EQ(trace_clock(r)->real_usec, UINT64_C(1700000000000000));
	}
	expect_first_error("# gpuxray trace 1\0\n", 19, 1, NO_TRACE);
	memset(longer, 'x', sizeof(longer));
	expect_first_error(longer, sizeof(longer), 1, NO_TRACE);
	expect_first_error("# gpuxray trace 2\n1 7 exit\n", 27, 1,
			   "this is version 2 of a trace, and version 1 is the newest that is known here: read it with the "
			   "gpuxray that wrote it");
	/* Behind the end there is nothing more to say. */
	EXPECT_REWRITTEN("1 7 exit\n# gpuxray trace 3\n1 7 exec\n",
			 "1 7 exit\n1 7 exec\nt.trace:3: this is version 3 of a trace, and version 1 is the newest that is "
			 "known here: read it with the gpuxray that wrote it");
}

TEST(clock_line)
{
	static const char text[] = HEAD "clock monotonic=123456.789012345 real=1764512345.678901999 later=x\n1 7 exit\n";
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	_cleanup_(trace_closep) struct trace_reader *r = reader_of(text, strlen(text));
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct trace_item item;

	ASSERT(trace_read(r, &errors, &item) == 1);
	EXPECT_EQ(trace_clock(r)->monotonic_ns, UINT64_C(123456789012345));
	EXPECT_EQ(trace_clock(r)->real_usec, UINT64_C(1764512345678901));
	EXPECT_EQ(trace_line(r), 3);
	trace_write_head(&sb, trace_clock(r));
	EXPECT_STR(strbuf_str(&sb), HEAD "clock monotonic=123456.789012345 real=1764512345.678901\n");
	EXPECT_REWRITTEN("clock\nclock\n", "t.trace:3: there is a clock line already: leave one out");
	EXPECT_REWRITTEN("1 7 exit\nclock\n", "1 7 exit\nt.trace:3: the clock line must come before the first event");
	EXPECT_REWRITTEN("clock monotonic\n",
			 "t.trace:2: \"monotonic\" is not key=value: clock has monotonic= and real=, in seconds");
	EXPECT_REWRITTEN("clock monotonic=1000000001\n",
			 "t.trace:2: time \"1000000001\" is beyond 1000000000 s: seconds since the start are meant, not a date");
	EXPECT_REWRITTEN("clock real=x\n", "t.trace:2: \"x\" is not a time: write seconds, such as 0.25");
}

TEST(long_lines_and_nul_bytes)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	_cleanup_free_ char *s = NULL;
	size_t start;

	expect_first_error(HEAD "1 7 exit\n1 \0 exit\n", strlen(HEAD) + 18, 3,
			   "there is a NUL byte in the line: this is not text, or damaged");
	/* Exactly as long as may be, with either end. */
	for (int extra = 0; extra < 2; extra++) {
		for (int crlf = 0; crlf < 2; crlf++) {
			strbuf_reset(&sb);
			start = sb.len;
			strbuf_adds(&sb, "1 7 exit later=");
			while (sb.len - start < TRACE_LINE_MAX + (size_t)extra)
				strbuf_addc(&sb, 'x');
			strbuf_adds(&sb, crlf ? "\r\n2 7 exec\r\n" : "\n2 7 exec\n");
			EXPECT_REWRITTEN(strbuf_str(&sb),
					 extra ? "2 7 exec\nt.trace:2: the line is longer than 65536 bytes: is this a trace?" :
						 "1 7 exit\n2 7 exec");
		}
	}
	/* Longer than any buffer: counted as the one line it is. */
	strbuf_reset(&sb);
	for (size_t i = 0; i < 20 * TRACE_LINE_MAX; i++)
		strbuf_addc(&sb, 'x');
	strbuf_adds(&sb, "\n2 7 exec\n3 7 exti");
	s = rewritten(strbuf_str(&sb));
	EXPECT_STR(s, "2 7 exec\nt.trace:2: the line is longer than 65536 bytes: is this a trace?\n"
		      "t.trace:4: unknown event \"exti\": did you mean \"exit\"?");
}

TEST(stack_lines_that_are_wrong)
{
	EXPECT_REWRITTEN("stack 3 a\nstack 3 b\n",
			 "t.trace:3: stack 3 is there already with other frames: give one of them another number");
	EXPECT_REWRITTEN("stack 3 a\nstack 3 a;b\nstack 3 a\n",
			 "t.trace:3: stack 3 is there already with other frames: give one of them another number");
	EXPECT_REWRITTEN("stack\n", "t.trace:2: the stack has no number: write stack NUMBER frame;frame...");
	EXPECT_REWRITTEN("stack 0 a\nstack x a\n",
			 "t.trace:2: stack \"0\": its number must be from 1 to 18446744073709551615\n"
			 "t.trace:3: stack \"x\": its number must be from 1 to 18446744073709551615");
}

/* A gzip file of that text, the caller's to free. */
static char *compress_text(const char *text, size_t len, size_t *ret_len)
{
	const size_t max = len + 1000;
	char *out = malloc(max);
	z_stream z = { .next_in = (Bytef *)text, .avail_in = (uInt)len, .avail_out = (uInt)max };

	z.next_out = (Bytef *)out;
	if (!out || deflateInit2(&z, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
	    deflate(&z, Z_FINISH) != Z_STREAM_END)
		abort();
	*ret_len = z.total_out;
	(void)deflateEnd(&z);
	return out;
}

TEST(compressed)
{
	static const char text[] = HEAD "1 7 exec\n2 7 exit\n", more[] = "# another one\n3 8 exit\n";
	size_t len, more_len;
	_cleanup_free_ char *packed = compress_text(text, strlen(text), &len),
			    *packed_more = compress_text(more, strlen(more), &more_len), *both = malloc(len + more_len + 1);

	if (!both)
		abort();
	memcpy(both, packed, len);
	memcpy(both + len, packed_more, more_len);
	/* Cut anywhere: all whole lines before it, an error, and never half a line. */
	for (size_t cut = 2; cut <= len; cut++) {
		_cleanup_errors_ struct errors errors = ERRORS_INIT;
		_cleanup_(trace_closep) struct trace_reader *r = reader_of(packed, cut);
		struct trace_item item;
		int n, count = 0;

		while ((n = trace_read(r, &errors, &item)) == 1)
			EXPECT_EQ(item.type, count++ ? TRACE_EXIT : TRACE_EXEC);
		EXPECT_EQ(n, cut == len ? 0 : -EINVAL);
		EXPECT_EQ(errors.len, cut != len);
		EXPECT(cut < len || count == 2);
		if (errors.len)
			EXPECT(strstr(errors.list[0].text, "ends in the middle"));
		EXPECT_EQ(trace_read(r, &errors, &item), 0);
	}
	/* One behind the other are one; something else behind them is not. */
	for (int junk = 0; junk < 2; junk++) {
		_cleanup_errors_ struct errors errors = ERRORS_INIT;
		_cleanup_(trace_closep) struct trace_reader *r = NULL;
		struct trace_item item;

		both[len + more_len] = 'x';
		r = reader_of(both, len + more_len + (size_t)junk);
		for (int i = 0; i < 3; i++)
			EXPECT_EQ(trace_read(r, &errors, &item), 1);
		EXPECT_EQ(item.pid, 8);
		EXPECT_EQ(trace_line(r), 5);
		EXPECT_EQ(trace_read(r, &errors, &item), junk ? -EINVAL : 0);
		EXPECT_EQ(trace_read(r, &errors, &item), 0);
	}
	packed[len - 6] ^= 1; /* of the checksum */
	expect_first_error(packed, len, 4, "the compressed data is damaged: all before this line has been read; copy the file "
					   "anew, or record again");
}

/* 64 MiB of one line in 64 KiB: no more memory than for any other. */
TEST(compressed_bomb)
{
	const size_t big = 64u << 20;
	_cleanup_free_ char *text = malloc(big), *packed = NULL;
	size_t len;

	if (!text)
		abort();
	memset(text, 'x', big);
	memcpy(text, HEAD, strlen(HEAD));
	packed = compress_text(text, big, &len);
	EXPECT(len < 100000);
	expect_first_error(packed, len, 2, "the line is longer than 65536 bytes: is this a trace?");
}

static size_t count_items(const char *path, struct errors *errors, int *ret_last)
{
	_cleanup_(trace_closep) struct trace_reader *r = NULL;
	struct trace_item item;
	size_t count = 0;

	*ret_last = trace_open(path, errors, &r);
	while (*ret_last == 0 && (*ret_last = trace_read(r, errors, &item)) == 1) {
		count++;
		*ret_last = 0;
	}
	return count;
}

TEST(files_and_standard_input)
{
	static const char text[] = HEAD "1 7 exec\n2 7 exit\n";
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	char dir[] = "/tmp/trace.XXXXXX", path[64];
	size_t len;
	_cleanup_free_ char *packed = compress_text(text, strlen(text), &len);
	int fds[2], last, old;
	FILE *f;

	ASSERT(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/plain.gz", dir); /* names decide nothing */
	for (int is_packed = 0; is_packed < 2; is_packed++) {
		f = fopen(path, "w");
		ASSERT(f);
		(void)fwrite(is_packed ? packed : text, 1, is_packed ? len : strlen(text), f);
		ASSERT(fclose(f) == 0);
		EXPECT_EQ(count_items(path, &errors, &last), 2);
		EXPECT_EQ(last, 0);
	}
	ASSERT(unlink(path) == 0);
	EXPECT_EQ(errors.len, 0);
	EXPECT_EQ(count_items(path, &errors, &last), 0);
	EXPECT_EQ(last, -ENOENT);
	EXPECT_EQ(count_items(dir, &errors, &last), 0);
	EXPECT_EQ(last, -EISDIR);
	ASSERT(errors.len == 2);
	EXPECT_STR(errors.list[0].text, "cannot be opened: No such file or directory");
	EXPECT_STR(errors.list[1].text, "cannot be opened: Is a directory");
	ASSERT(rmdir(dir) == 0);

	ASSERT(pipe(fds) == 0 && write(fds[1], packed, len) == (ssize_t)len && close(fds[1]) == 0);
	old = dup(0);
	ASSERT(dup2(fds[0], 0) == 0 && close(fds[0]) == 0);
	EXPECT_EQ(count_items("-", &errors, &last), 2);
	EXPECT_EQ(last, 0);
	ASSERT(old < 0 ? close(0) == 0 : dup2(old, 0) == 0 && close(old) == 0);
}

/* The published example: read, written and read, it is the same list of items. */
TEST(demo_trace_survives)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	_cleanup_(trace_closep) struct trace_reader *r = NULL, *first = NULL, *second = NULL;
	struct trace_item item, again;
	size_t count = 0;
	int n;

	ASSERT(trace_open(DEMO, &errors, &r) == 0);
	trace_write_head(&text, trace_clock(r));
	while ((n = trace_read(r, &errors, &item)) == 1) {
		EXPECT_EQ(trace_write(&text, &item), 0);
		count++;
	}
	ASSERT(n == 0 && errors.len == 0);
	for (uint64_t i = 1; i <= 5; i++) {
		_cleanup_(stack_text_freep) struct stack_text *st = NULL;

		ASSERT(trace_stack(r, i) && trace_stack_text(trace_stack(r, i), 0, &st) == 0);
		EXPECT(!st->id && st->len >= 6);
		trace_write_stack(&text, i, st);
	}
	ASSERT(trace_open(DEMO, &errors, &first) == 0);
	second = reader_of(strbuf_str(&text), text.len);
	for (size_t i = 0; i < count; i++) {
		ASSERT(trace_read(first, &errors, &item) == 1 && trace_read(second, &errors, &again) == 1);
		EXPECT(!item_difference(&item, &again));
	}
	EXPECT_EQ(trace_read(second, &errors, &again), 0);
	for (uint64_t i = 1; i <= 5; i++)
		EXPECT_STR(trace_stack(second, i), trace_stack(r, i));
	EXPECT_EQ(count, 1330);
}

TEST_MAIN()
