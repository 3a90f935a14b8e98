/* SPDX-License-Identifier: MIT */
/* Records that no daemon writes: what is told of them is of no importance, that it is bounded and clean is. */
#include "test.h"

#include "base/text.h"
#include "story_make.h"

/* Whether text is what an honest record may hold: escaping it again changes backslashes alone. */
static bool is_clean(const char *text)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	const char *p = text;
	bool is_same = true;

	while (*p && is_same) {
		size_t len = strcspn(p, "\\\n");

		strbuf_reset(&sb);
		text_escape(&sb, p, len, 0);
		is_same = sb.len == len && memcmp(strbuf_str(&sb), p, len) == 0;
		p += len + (p[len] != '\0');
	}
	return is_same && *text;
}

TEST(text_is_clean_whatever_it_was)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;
	struct story_process *p;

	say(b, 1, "sample", "PID=7", "COMM=a\x1b[31mb", "USER=\xff\xfe", "UNIT=caf\xc3\xa9 \\x0a", "TAG=", "EXE=a\nb",
	    "CMDLINE=\xe2\x80\xae"
	    "txt", "DEVICE=GPU\n\xc3", "BYTES=1", "_HOSTNAME=gpu\x07", "STACK_ID=00000000000000aa", END);
	say(b, 2, "site", "_HOSTNAME=gpu\x07", "STACK_ID=00000000000000aa", "STACK=one\x02\ntwo\r\n", "STACK_INFO=\x01", END);
	say(b, 3, "leak", "_HOSTNAME=gpu\x07", "RULE=\x01", "PID=7", "MESSAGE=\n\nhidden", "STACK_ID=00000000000000aa", END);
	s = told(b, HOUR);
	ASSERT(s->processes_len == 1 && s->devices_len == 1 && s->incidents_len == 1 && s->stacks_len == 1);
	p = s->processes[0];
	EXPECT_STR(p->comm, "a\\x1b[31mb");
	EXPECT_STR(p->user, "\\xff\\xfe");
	/* What the daemon escaped is not escaped again. */
	EXPECT_STR(p->unit, "caf\xc3\xa9 \\x0a");
	EXPECT(!p->tag);
	EXPECT_STR(p->exe, "a\\x0ab");
	EXPECT_STR(p->cmdline, "\\xe2\\x80\\xaetxt");
	EXPECT_STR(s->devices[0]->uuid, "GPU\\x0a\\xc3");
	EXPECT_STR(s->hosts[0]->name, "gpu\\x07");
	EXPECT_STR(s->stacks[0]->text, "one\\x02\ntwo\\x0d\n");
	EXPECT_STR(s->stacks[0]->info, "\\x01");
	EXPECT(!s->incidents[0]->message);
	EXPECT(is_clean(p->comm) && is_clean(p->user) && is_clean(s->stacks[0]->text));
	EXPECT(!is_clean("a\x1b") && !is_clean("\xff"));
}

TEST(numbers_that_are_none)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	say(b, 1, "sample", "PID=99999999999999999999", "BYTES=1", END);
	say(b, 2, "sample", "PID=4294967303", "BYTES=1", END); /* 7 where 32 bits are kept */
	say(b, 3, "sample", "PID=-7", "BYTES=1", END);
	say(b, 4, "sample", "PID=7", "BYTES=1e9", END);
	say(b, 5, "sample", "PID=7", END);
	say(b, 6, "sample", "PID=0", "BYTES=1", END);
	say(b, 7, "sample", "BYTES=1", END);
	say(b, 8, "sample", "PID=7", "BYTES=1", "DEVICE_INDEX=99999999999", "DEVICE=GPU-a", "TOP_SITES=x\n\n00000000000000aa\n"
	    "00000000000000aa \n00000000000000aa 1x 1\n00000000000000ag 1 1\n00000000000000aa 9", END);
	say(b, 9, "process_exit", "PID=7", "DEVICE_PEAKS=x\n\nGPU-a\nGPU-a 1\nGPU-a 1 y\n 1 2\nGPU-a 99999999999999999999 1",
	    "DURATION_SEC=99999999999999", END);
	s = told(b, HOUR);
	ASSERT(s->processes_len == 1);
	EXPECT_EQ(s->processes[0]->peak_bytes, 1);
	EXPECT_EQ(s->devices[0]->index, -1);
	ASSERT(s->processes[0]->sites_len == 1);
	EXPECT_EQ(s->processes[0]->sites[0].bytes, 9);
	EXPECT_EQ(s->left_out.unreadable, 7);
}

TEST(times_that_cannot_be)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	/* Of its highest, and of the event. */
	sample(b, 10, 7, 1, 50, 1e9, 5);
	say(b, 20, "sample", "PID=8", "BYTES=5", "TIME_USEC=18446744073709551615", "HIGH_TIME_USEC=18446744073709551615",
	    "HIGH_BYTES=9", END);
	say(b, 30, "process_exit", "PID=8", "PEAK_BYTES=100", "PEAK_TIME_USEC=18446744073709551615",
	    "DEVICE_PEAKS=- 100 18446744073709551615", END);
	/* Received in the future, or never. */
	say(b, 2 * HOUR, "sample", "PID=9", "BYTES=5", END);
	say(b, -1800000000.0, "sample", "PID=9", "BYTES=5", END);
	s = told(b, HOUR);
	ASSERT(s->processes_len == 2);
	EXPECT_EQ(s->processes[0]->peak_bytes, 50 * MIB);
	EXPECT_EQ(s->processes[0]->peak_usec, AT(10));
	EXPECT_EQ(s->processes[1]->peak_bytes, 9);
	EXPECT_EQ(s->processes[1]->peak_usec, AT(20));
}

TEST(sums_stay_at_their_highest)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	for (unsigned pid = 1; pid <= 5; pid++)
		say(b, pid, "sample", fmt("PID=%u", pid), "DEVICE=GPU-a", "BYTES=18446744073709551615", "LOW_BYTES=18446744073709551615",
		    "HIGH_BYTES=0", "DEVICE_USED_BYTES=18446744073709551615",
		    "TOP_SITES=00000000000000aa 18446744073709551615 1\n00000000000000aa 18446744073709551615 1", END);
	say(b, 9, "sample", "PID=5", "DEVICE=GPU-b", "BYTES=18446744073709551614", END);
	say(b, 10, "alloc_failure", "PID=1", "DEVICE=GPU-a", "DEVICE_USED_BYTES=18446744073709551614", "RULE=r", END);
	say(b, 11, "process_exit", "PID=5", END);
	s = told(b, HOUR);
	/* The highest number is the one that means "not known". */
	EXPECT_EQ(s->left_out.unreadable, 5);
	ASSERT(s->devices_len >= 1 && s->failures_len == 1);
	EXPECT_EQ(s->failures[0]->other_bytes, UINT64_MAX - 1);
}

TEST(a_flood_of_processes)
{
	enum { FLOOD = 40000 };
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	say(b, 0, "alloc_failure", "PID=1", "START_TIME=100", "DEVICE=GPU-a", "RULE=r", END);
	for (unsigned pid = 1; pid <= FLOOD; pid++) {
		flat(b, pid * 0.0001, pid, pid);
		if (pid % 100 == 0)
			say(b, pid * 0.0001, "leak", "RULE=r", fmt("PID=%u", pid), "START_TIME=100", END);
	}
	s = told(b, HOUR);
	ASSERT(s->processes_len == STORY_PROCESSES_MAX);
	EXPECT_EQ(s->left_out.processes, FLOOD - STORY_PROCESSES_MAX);
	EXPECT_EQ(s->processes[0]->pid, FLOOD);
	EXPECT_EQ(s->processes[STORY_PROCESSES_MAX - 1]->pid, FLOOD - STORY_PROCESSES_MAX + 1);
	ASSERT(s->incidents_len == FLOOD / 100 + 1);
	/* The first of its process was left out. */
	EXPECT(!s->incidents[1]->process);
	EXPECT(s->incidents[FLOOD / 100]->process);
	EXPECT_STR(s->incidents[FLOOD / 100]->subject, fmt("python3[%u]", FLOOD));
	EXPECT_EQ(s->devices[0]->peak_bytes > 0, 1);
}

TEST(a_flood_of_hosts_and_devices)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	for (unsigned i = 0; i < STORY_DEVICES_MAX + 100; i++)
		say(b, i * 0.01, "sample", fmt("PID=%u", 1 + i % 40), fmt("DEVICE=GPU-%u", i), "BYTES=1", END);
	for (unsigned i = 0; i < STORY_HOSTS_MAX + 100; i++)
		say(b, 100, "health", fmt("_MACHINE_ID=%u", i), END);
	for (unsigned i = 0; i < HOUR; i++)
		say(b, 101, "health", fmt("_PID=%u", 1 + i), END);
	s = told(b, HOUR);
	EXPECT_EQ(s->devices_len, STORY_DEVICES_MAX);
	EXPECT_EQ(s->left_out.devices, 100);
	EXPECT_EQ(s->hosts_len, STORY_HOSTS_MAX);
	EXPECT_EQ(s->left_out.hosts, 101);
}

TEST(a_flood_of_stacks_and_sites)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;
	size_t texts = 0;

	for (unsigned i = 0; i < 25000; i++)
		say(b, 1 + i * 0.01, "sample", fmt("PID=%u", 1 + i % 900), "BYTES=100", fmt("TOP_SITES=%016x %u 1", i, i),
		    fmt("STACK_ID=%016x", i), END);
	for (unsigned i = 0; i < 6000; i++)
		say(b, 300, "site", fmt("STACK_ID=%016x", i), "STACK=f", END);
	s = told(b, HOUR);
	EXPECT(s->stacks_len <= 20000);
	for (size_t i = 0; i < s->stacks_len; i++)
		texts += s->stacks[i]->text != NULL;
	EXPECT(texts <= STORY_STACKS_MAX);
	EXPECT(s->left_out.stacks >= 5000);
	for (size_t i = 0; i < s->processes_len; i++)
		EXPECT(s->processes[i]->sites_len <= STORY_SITES_MAX);
}

TEST(a_process_with_many_sites)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;
	struct story_process *p;

	for (unsigned i = 0; i < 300; i++)
		say(b, 1 + i, "sample", "PID=7", "BYTES=100", fmt("TOP_SITES=%016x %u 1", i, 1 + i), END);
	s = told(b, HOUR);
	p = s->processes[0];
	ASSERT(p->sites_len == STORY_SITES_MAX);
	/* The first sample was of the most that it held; after it those with the most bytes. */
	EXPECT_STR(p->sites[0].stack->id, fmt("%016x", 299u));
	EXPECT_EQ(p->sites[0].peak_bytes, 300);
	EXPECT(s->left_out.sites > 0);
}

TEST(a_flood_of_text)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;
	static char uuid[5000], comm[5000];

	memset(uuid, 'u', sizeof(uuid) - 1);
	memset(comm, 'c', sizeof(comm) - 1);
	memcpy(uuid, "DEVICE=", 7);
	memcpy(comm, "COMM=", 5);
	for (unsigned i = 0; i < 12000; i++) {
		snprintf(comm + 5, 16, "%010u", i);
		comm[15] = 'c';
		say(b, 1 + i * 0.01, "sample", "PID=7", "BYTES=1", comm, uuid, END);
	}
	s = told(b, HOUR);
	ASSERT(s->processes_len == 1 && s->devices_len == 1);
	EXPECT(strlen(s->devices[0]->uuid) <= 4096);
	/* When there is no more room for names the records count all the same. */
	EXPECT_EQ(s->processes[0]->last_usec, AT(1 + 11999 * 0.01));
	EXPECT(s->left_out.unreadable > 0);
}

TEST_MAIN()
