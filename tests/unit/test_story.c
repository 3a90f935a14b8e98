/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "story_make.h"

TEST(a_process_with_its_points)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;
	struct story_process *p;
	struct story_series *ser;

	say(b, 10, "sample", "PID=7", "START_TIME=100", "COMM=python3", "EXE=/usr/bin/python3", "CMDLINE=python3 train.py",
	    "USER=ada", "UNIT=train.service", "CONTAINER=c0ffee", "POD=pod", "SLURM_JOB=12", "TAG=paper", "POD_NAME=trainer-0",
	    "POD_NAMESPACE=ml", "CONTAINER_NAME=main", "DEVICE=GPU-a", "DEVICE_INDEX=3", "DEVICE_BYTES=1000", "DEVICE_USED_BYTES=400", "BYTES=100", "LOW_BYTES=0", "HIGH_BYTES=100",
	    fmt("HIGH_TIME_USEC=%" PRIu64, AT(10)), "LIVE_BYTES=100", "HOST_BYTES=1", "MANAGED_BYTES=2", "DRIVER_BYTES=3",
	    "ALLOC_COUNT=4", "FREE_COUNT=5", "FAIL_COUNT=6", "ALLOCATED_BYTES=7", "LOST_EVENTS=8", "EXACT=0", END);
	say(b, 70, "sample", "PID=7", "START_TIME=100", "DEVICE=GPU-a", "DEVICE_USED_BYTES=500", "BYTES=50", "LOW_BYTES=40",
	    "HIGH_BYTES=300", fmt("HIGH_TIME_USEC=%" PRIu64, AT(30)), "LIVE_BYTES=50", END);
	s = told(b, HOUR);
	EXPECT_EQ(s->records, 2);
	ASSERT(s->hosts_len == 1 && s->devices_len == 1 && s->processes_len == 1);
	EXPECT_STR(s->hosts[0]->name, "gpu01");
	EXPECT_STR(s->hosts[0]->machine_id, MACHINE);
	p = s->processes[0];
	EXPECT_EQ(p->pid, 7);
	EXPECT_EQ(p->start_time, 100);
	EXPECT_STR(p->boot_id, BOOT);
	EXPECT_STR(p->comm, "python3");
	EXPECT_STR(p->exe, "/usr/bin/python3");
	EXPECT_STR(p->cmdline, "python3 train.py");
	EXPECT_STR(p->user, "ada");
	EXPECT_STR(p->unit, "train.service");
	EXPECT_STR(p->container, "c0ffee");
	EXPECT_STR(p->pod, "pod");
	EXPECT_STR(p->pod_name, "trainer-0");
	EXPECT_STR(p->pod_namespace, "ml");
	EXPECT_STR(p->container_name, "main");
	EXPECT_STR(p->slurm_job, "12");
	EXPECT_STR(p->tag, "paper");
	EXPECT_EQ(p->first_usec, AT(10));
	EXPECT_EQ(p->last_usec, AT(70));
	EXPECT(!p->is_ended && !p->is_cut && p->end_usec == 0);
	EXPECT_EQ(p->host_bytes, 1);
	EXPECT_EQ(p->managed_bytes, 2);
	EXPECT_EQ(p->driver_bytes, 3);
	EXPECT_EQ(p->alloc_count, 4);
	EXPECT_EQ(p->free_count, 5);
	EXPECT_EQ(p->fail_count, 6);
	EXPECT_EQ(p->allocated_bytes, 7);
	EXPECT_EQ(p->lost_events, 8);
	EXPECT(!p->is_exact);
	EXPECT_EQ(p->live_bytes, 50);
	EXPECT_EQ(p->peak_bytes, 300);
	EXPECT_EQ(p->peak_usec, AT(30));
	ASSERT(p->held_len == 1);
	EXPECT(p->held[0].device == s->devices[0]);
	ser = &p->held[0].series;
	EXPECT_EQ(ser->peak_bytes, 300);
	EXPECT_EQ(ser->peak_usec, AT(30));
	/* The peak between the samples has a moment of its own. */
	ASSERT(ser->len == 3);
	EXPECT_EQ(ser->points[0].usec, AT(10));
	EXPECT_EQ(ser->points[0].live, 100);
	EXPECT_EQ(ser->points[1].usec, AT(30));
	EXPECT_EQ(ser->points[1].live, 300);
	EXPECT_EQ(ser->points[2].usec, AT(70));
	EXPECT_EQ(ser->points[2].low, 40);
	EXPECT_EQ(ser->points[2].high, 300);
	EXPECT_EQ(ser->points[2].live, 50);
	EXPECT_EQ(s->devices[0]->index, 3);
	EXPECT_EQ(s->devices[0]->total_bytes, 1000);
	EXPECT_EQ(s->devices[0]->peak_bytes, 300);
	EXPECT_EQ(s->devices[0]->peak_usec, AT(30));
	ASSERT(s->devices[0]->used.len == 2);
	EXPECT_EQ(s->devices[0]->used.points[1].live, 500);
	EXPECT_EQ(s->devices[0]->used.peak_bytes, 500);
	EXPECT_EQ(s->left_out.unreadable, 0);
}

TEST(a_number_is_one_process_only_with_its_boot_and_start_and_host)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	flat(b, 1, 7, 10);
	say(b, 2, "sample", "PID=7", "START_TIME=200", "DEVICE=GPU-a", "BYTES=20", END);
	say(b, 3, "sample", "PID=7", "START_TIME=100", "DEVICE=GPU-a", "BYTES=30", "_MACHINE_ID=fedcba9876543210fedcba9876543210",
	    "_HOSTNAME=gpu02", END);
	say(b, 4, "sample", "PID=7", "START_TIME=100", "DEVICE=GPU-a", "BYTES=40", "_BOOT_ID=eeeeffffeeeeffffeeeeffffeeeeffff", END);
	s = told(b, HOUR);
	EXPECT_EQ(s->processes_len, 4);
	EXPECT_EQ(s->hosts_len, 2);
	/* The same uuid on another host is another device. */
	EXPECT_EQ(s->devices_len, 2);
}

TEST(after_its_end_the_same_number_is_another_one)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	flat(b, 1, 7, 10);
	say(b, 5, "process_exit", "PID=7", "START_TIME=100", "LIVE_BYTES=0", END);
	say(b, 5, "process_exit", "PID=7", "START_TIME=100", "LIVE_BYTES=0", END); /* told twice */
	flat(b, 4, 7, 11);						       /* told late */
	flat(b, 9, 7, 20);
	s = told(b, HOUR);
	ASSERT(s->processes_len == 2);
	EXPECT(!s->processes[0]->is_ended && s->processes[0]->peak_bytes == 20 * MIB);
	EXPECT(s->processes[1]->is_ended && s->processes[1]->peak_bytes == 10 * MIB);
	EXPECT_EQ(s->processes[1]->end_usec, AT(5));
}

TEST(samples_from_before_tell_how_it_stood_at_the_beginning)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;
	struct story_process *p;

	sample(b, -600, 7, 0, 900, -650, 100);
	sample(b, -300, 7, 100, 800, -310, 200);
	flat(b, -200, 8, 50); /* nothing more is heard of it */
	say(b, -200, "sample", "PID=9", "START_TIME=1", "DEVICE=GPU-a", "BYTES=0", END); /* holds nothing */
	/* Its highest lay before the stretch, which does not see it. */
	sample(b, 60, 7, 150, 700, -100, 180);
	s = told(b, HOUR);
	EXPECT_EQ(s->records, 1);
	ASSERT(s->processes_len == 2);
	p = s->processes[0];
	EXPECT_EQ(p->pid, 7);
	EXPECT_EQ(p->peak_bytes, 200 * MIB);
	EXPECT_EQ(p->peak_usec, FROM);
	ASSERT(p->held_len == 1 && p->held[0].series.len == 2);
	EXPECT_EQ(p->held[0].series.points[0].usec, FROM);
	EXPECT_EQ(p->held[0].series.points[0].live, 200 * MIB);
	EXPECT_EQ(p->held[0].series.points[1].high, 180 * MIB);
	p = s->processes[1];
	EXPECT_EQ(p->pid, 8);
	EXPECT_EQ(p->first_usec, FROM);
	ASSERT(p->held_len == 1 && p->held[0].series.len == 1);
	EXPECT_EQ(p->held[0].series.points[0].live, 50 * MIB);
	ASSERT(s->devices_len == 1);
	EXPECT_EQ(s->devices[0]->peak_bytes, 250 * MIB);
	EXPECT_EQ(s->devices[0]->peak_usec, FROM);
}

TEST(what_ended_or_went_down_before_is_not_there_at_the_beginning)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	flat(b, -600, 7, 100);
	say(b, -500, "process_exit", "PID=7", "START_TIME=100", "LIVE_BYTES=0", END);
	flat(b, -400, 8, 100);
	say(b, -300, "stop", END);
	say(b, -290, "start", "_PID=900", END);
	flat(b, -280, 9, 30);
	s = told(b, HOUR);
	ASSERT(s->processes_len == 1);
	EXPECT_EQ(s->processes[0]->pid, 9);
	EXPECT_EQ(s->devices[0]->peak_bytes, 30 * MIB);
}

TEST(an_end_is_told_or_cut)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	flat(b, 1, 7, 300);
	flat(b, 2, 8, 200);
	flat(b, 3, 9, 100);
	say(b, 10, "process_exit", "PID=9", "START_TIME=100", "LIVE_BYTES=4096", END);
	/* Killed: the next one starts without a word of the first's end, and goes on with its books. */
	say(b, 100, "start", "_PID=900", END);
	say(b, 102, "sample", "_PID=900", "PID=7", "START_TIME=100", "DEVICE=GPU-a", "BYTES=1", END);
	s = told(b, HOUR);
	ASSERT(s->processes_len == 3);
	EXPECT(!s->processes[0]->is_cut && !s->processes[0]->is_ended);
	EXPECT(s->processes[1]->is_cut && !s->processes[1]->is_ended);
	EXPECT(!s->processes[2]->is_cut && s->processes[2]->is_ended);
	EXPECT_EQ(s->processes[2]->live_bytes, 4096);
	/* No point is made up for what nobody saw. */
	EXPECT_EQ(s->processes[1]->held[0].series.len, 1);
	EXPECT_EQ(s->processes[2]->held[0].series.points[1].live, 0);
}

TEST(right_after_a_start_nobody_is_cut)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	flat(b, 1, 7, 300);
	say(b, 100, "start", "_PID=900", END);
	s = told(b, 110);
	ASSERT(s->processes_len == 1);
	EXPECT(!s->processes[0]->is_cut);
	EXPECT_EQ(s->until_usec, AT(110));
}

TEST(one_that_came_and_went_between_samples)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;
	struct story_process *p;
	struct story_point *pt;

	flat(b, 1, 8, 50);
	say(b, 100, "process_exit", "PID=7", "START_TIME=100", "COMM=short", "LIVE_BYTES=0", "PEAK_BYTES=2097152",
	    fmt("PEAK_TIME_USEC=%" PRIu64, AT(98)), "DURATION_SEC=4", "STACK_ID=00000000000000aa", "STACK=f\ng",
	    "STACK_BYTES=1048576", fmt("DEVICE_PEAKS=GPU-a 2097152 %" PRIu64 "\n- 4096 %" PRIu64, AT(98), AT(97)), END);
	s = told(b, HOUR);
	ASSERT(s->processes_len == 2);
	p = s->processes[1];
	EXPECT_STR(p->comm, "short");
	EXPECT_EQ(p->peak_bytes, 2 * MIB);
	EXPECT_EQ(p->peak_usec, AT(98));
	ASSERT(p->held_len == 2);
	EXPECT(p->held[0].device && !p->held[1].device);
	ASSERT(p->held[0].series.len == 3);
	pt = p->held[0].series.points;
	EXPECT(pt[0].usec == AT(96) && pt[0].live == 0);
	EXPECT(pt[1].usec == AT(98) && pt[1].live == 2 * MIB && pt[1].high == 2 * MIB);
	EXPECT(pt[2].usec == AT(100) && pt[2].live == 0);
	EXPECT_EQ(p->held[1].series.peak_bytes, 4096);
	ASSERT(p->peak_stack && p->sites_len == 1);
	EXPECT_STR(p->peak_stack->text, "f\ng");
	EXPECT_EQ(p->sites[0].bytes, MIB);
	EXPECT_EQ(s->devices[0]->peak_bytes, 52 * MIB);
	EXPECT_EQ(s->devices[0]->peak_usec, AT(98));
}

TEST(a_peak_of_its_life_counts_only_within_the_stretch)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	flat(b, -100, 7, 10);
	say(b, 100, "process_exit", "PID=7", "START_TIME=100", "LIVE_BYTES=0", "PEAK_BYTES=99999999999",
	    fmt("PEAK_TIME_USEC=%" PRIu64, AT(-200)), fmt("DEVICE_PEAKS=GPU-a 99999999999 %" PRIu64, AT(-200)), END);
	s = told(b, HOUR);
	ASSERT(s->processes_len == 1);
	EXPECT_EQ(s->processes[0]->peak_bytes, 10 * MIB);
	EXPECT_EQ(s->processes[0]->held[0].series.peak_bytes, 10 * MIB);
	EXPECT_EQ(s->devices[0]->peak_bytes, 10 * MIB);
}

TEST(the_exit_tells_a_peak_that_no_sample_caught)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;
	struct story_series *ser;

	flat(b, 10, 7, 10);
	flat(b, 60, 7, 12);
	say(b, 100, "process_exit", "PID=7", "START_TIME=100", "LIVE_BYTES=0",
	    fmt("DEVICE_PEAKS=GPU-a %" PRIu64 " %" PRIu64, 40 * MIB, AT(30)), END);
	s = told(b, HOUR);
	ASSERT(s->processes_len == 1);
	EXPECT_EQ(s->processes[0]->peak_bytes, 40 * MIB);
	ser = &s->processes[0]->held[0].series;
	ASSERT(ser->len == 4);
	EXPECT_EQ(ser->points[1].usec, AT(30));
	EXPECT_EQ(ser->points[1].live, 40 * MIB);
	EXPECT_EQ(ser->points[2].high, 40 * MIB);
}

TEST(several_devices_are_held_together)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;
	struct story_process *p;

	/* First much on one, then much on the other: never both. */
	say(b, 10, "sample", "PID=7", "DEVICE=GPU-b", "DEVICE_INDEX=1", "BYTES=100", "LIVE_BYTES=100", "PEAK_BYTES=100", END);
	say(b, 20, "sample", "PID=7", "DEVICE=GPU-b", "DEVICE_INDEX=1", "BYTES=10", "LIVE_BYTES=10", "PEAK_BYTES=100", END);
	say(b, 30, "sample", "PID=7", "DEVICE=GPU-a", "DEVICE_INDEX=0", "BYTES=90", "LIVE_BYTES=100", "PEAK_BYTES=100", END);
	say(b, 31, "sample", "PID=7", "BYTES=5", "LIVE_BYTES=105", "PEAK_BYTES=105", END);
	say(b, 90, "sample", "PID=7", "DEVICE=GPU-a", "DEVICE_INDEX=0", "BYTES=80", "LIVE_BYTES=95", "PEAK_BYTES=130", END);
	s = told(b, HOUR);
	ASSERT(s->processes_len == 1);
	p = s->processes[0];
	ASSERT(p->held_len == 3);
	EXPECT_EQ(p->held[0].device->index, 0);
	EXPECT_EQ(p->held[1].device->index, 1);
	EXPECT(!p->held[2].device);
	/* The peak of its life grew between two samples. */
	EXPECT_EQ(p->peak_bytes, 130);
	EXPECT_EQ(p->live_bytes, 95);
	ASSERT(s->devices_len == 2);
	EXPECT_EQ(s->devices[0]->peak_bytes, 90);
	EXPECT_EQ(s->devices[1]->peak_bytes, 100);
}

TEST(a_device_is_full_when_its_processes_are_together)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	flat(b, 10, 7, 10);
	flat(b, 20, 8, 10);
	/* 8 had 60 at second 40, before 7 grew: never 60 + 70. */
	sample(b, 59, 7, 10, 70, 59, 70);
	sample(b, 60, 8, 5, 60, 40, 5);
	s = told(b, HOUR);
	ASSERT(s->devices_len == 1);
	EXPECT_EQ(s->devices[0]->peak_bytes, 80 * MIB);
	EXPECT_EQ(s->devices[0]->peak_usec, AT(59));
	EXPECT_EQ(s->processes[0]->peak_bytes, 70 * MIB);
	EXPECT_EQ(s->processes[1]->peak_bytes, 60 * MIB);
	EXPECT_EQ(s->processes[1]->number, 1);
}

TEST(sites_when_it_held_most)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;
	struct story_process *p;

	say(b, -10, "sample", "PID=7", "DEVICE=GPU-a", "BYTES=9", "TOP_SITES=00000000000000aa 9 1", END);
	say(b, 10, "sample", "PID=7", "DEVICE=GPU-a", "BYTES=100", "LIVE_BYTES=100",
	    "TOP_SITES=00000000000000aa 60 3\n00000000000000bb 40 1", END);
	say(b, 20, "sample", "PID=7", "DEVICE=GPU-b", "BYTES=30", "LIVE_BYTES=130", "TOP_SITES=00000000000000aa 30 3", END);
	say(b, 30, "sample", "PID=7", "DEVICE=GPU-a", "BYTES=50", "LIVE_BYTES=80", "TOP_SITES=00000000000000cc 50 1", END);
	say(b, 31, "site", "STACK_ID=00000000000000aa", "STACK=inner\nouter", END);
	say(b, 32, "site", "STACK_ID=00000000000000cc", "STACK_INFO=no memory", END);
	s = told(b, HOUR);
	ASSERT(s->processes_len == 1);
	p = s->processes[0];
	ASSERT(p->sites_len == 3);
	EXPECT_STR(p->sites[0].stack->id, "00000000000000aa");
	EXPECT_STR(p->sites[0].stack->text, "inner\nouter");
	EXPECT_EQ(p->sites[0].bytes, 90);
	EXPECT_EQ(p->sites[0].peak_bytes, 90);
	EXPECT_EQ(p->sites[0].last_bytes, 30);
	EXPECT_EQ(p->sites[1].bytes, 40);
	EXPECT_EQ(p->sites[1].last_bytes, 0);
	EXPECT_EQ(p->sites[2].bytes, 0);
	EXPECT_EQ(p->sites[2].last_bytes, 50);
	EXPECT_STR(p->sites[2].stack->info, "no memory");
	EXPECT_EQ(s->stacks_len, 3);
}

TEST(stacks_without_a_text_are_asked_for)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;
	size_t iter = 0;

	say(b, 10, "sample", "PID=7", "DEVICE=GPU-a", "BYTES=100", "TOP_SITES=00000000000000aa 60 3\n00000000000000bb 40 1", END);
	say(b, 11, "site", "STACK_ID=00000000000000bb", "STACK=known", END);
	EXPECT_STR(story_next_untold_stack(b, &iter), "00000000000000aa");
	EXPECT(!story_next_untold_stack(b, &iter));
	/* From long before: only its text is taken. */
	say(b, -100000, "live_bytes", "PID=99", "RULE=r", "STACK_ID=00000000000000aa", "STACK=old", END);
	s = told(b, HOUR);
	EXPECT_EQ(s->processes_len, 1);
	EXPECT_EQ(s->incidents_len, 0);
	EXPECT_EQ(s->records, 2);
	EXPECT_STR(s->processes[0]->sites[0].stack->text, "old");
}

TEST(only_what_was_asked_for)
{
	static const struct {
		uint32_t pid;
		const char *unit;
	} asked[] = { { 7, NULL }, { 0, "train" }, { 0, "train.service" }, { 7, "train" } };

	for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
		struct story_builder *b = stretch_of(1, asked[i].pid, asked[i].unit);
		_cleanup_story_ struct story *s = NULL;

		say(b, 1, "start", "RECORDS_WRITTEN=0", END);
		say(b, 2, "sample", "PID=7", "UNIT=train.service", "DEVICE=GPU-a", "BYTES=10", END);
		say(b, 3, "sample", "PID=8", "UNIT=training.service", "DEVICE=GPU-b", "BYTES=20", END);
		say(b, 4, "live_bytes", "PID=7", "UNIT=train.service", "RULE=a", "DEVICE=GPU-a", END);
		say(b, 5, "live_bytes", "PID=8", "UNIT=training.service", "RULE=b", "DEVICE=GPU-b", END);
		say(b, 6, "alloc_failure", "PID=7", "UNIT=train.service", "RULE=oom", "DEVICE=GPU-a", END);
		say(b, 7, "alloc_failure", "PID=8", "UNIT=training.service", "RULE=oom", "DEVICE=GPU-b", END);
		say(b, 8, "stop", "RECORDS_WRITTEN=7", END);
		s = told(b, HOUR);
		ASSERT(s->processes_len == 1 && s->devices_len == 1 && s->failures_len == 1 && s->incidents_len == 2);
		EXPECT_EQ(s->processes[0]->pid, 7);
		EXPECT_EQ(s->processes[0]->incidents, 2);
		EXPECT_STR(s->devices[0]->uuid, "GPU-a");
		EXPECT(s->failures[0]->process == s->processes[0]);
		EXPECT(s->incidents[0]->process == s->processes[0]);
		/* Where the telling has holes is of concern all the same, and none is missed for being filtered. */
		ASSERT(s->gaps_len == 2);
		EXPECT_EQ(s->gaps[0]->kind, GAP_DOWN);
		EXPECT_EQ(s->gaps[1]->kind, GAP_DOWN);
	}
}

TEST(names)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	flat(b, 1, 7, 10);
	say(b, 2, "sample", "PID=8", "DEVICE=MIG-0123456789abcdef", "BYTES=5", END);
	s = told(b, HOUR);
	ASSERT(s->processes_len == 2 && s->devices_len == 2);
	story_process_name(s->processes[0], &sb);
	strbuf_addc(&sb, ' ');
	story_process_name(s->processes[1], &sb);
	strbuf_addc(&sb, ' ');
	story_device_name(s, s->devices[1], &sb);
	strbuf_addc(&sb, ' ');
	story_device_name(s, s->devices[0], &sb);
	EXPECT_STR(strbuf_str(&sb), "python3[7] ?[8] GPU 0 MIG-01234567");
	EXPECT_STR(story_gap_name(GAP_MISSING), "missing");
	EXPECT_STR(story_state_name(STORY_SINGLE), "single");
}

TEST(devices_of_several_hosts_are_told_apart)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	say(b, 1, "sample", "PID=7", "DEVICE=GPU-z", "DEVICE_INDEX=0", "BYTES=10", "_HOSTNAME=gpu02", "_MACHINE_ID=b", END);
	say(b, 1, "sample", "PID=7", "DEVICE=GPU-y", "DEVICE_INDEX=1", "BYTES=10", END);
	say(b, 1, "sample", "PID=7", "DEVICE=GPU-x", "DEVICE_INDEX=0", "BYTES=10", END);
	s = told(b, HOUR);
	ASSERT(s->devices_len == 3);
	for (size_t i = 0; i < 3; i++) {
		story_device_name(s, s->devices[i], &sb);
		strbuf_addc(&sb, ';');
	}
	EXPECT_STR(strbuf_str(&sb), "gpu01 GPU 0;gpu01 GPU 1;gpu02 GPU 0;");
	EXPECT_EQ(s->processes_len, 2);
}

TEST(an_empty_story)
{
	_cleanup_story_ struct story *s = told(stretch(), HOUR);
	struct story_builder *b = stretch();

	EXPECT(s->records == 0 && s->processes_len == 0 && s->gaps_len == 0);
	story_builder_free(b);
	story_builder_free(NULL);
	story_free(NULL);
}

/* The newest record with the text may be one from after the stretch. */
TEST(a_text_from_after_the_stretch)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;
	size_t iter = 0;

	say(b, 10, "sample", "PID=7", "DEVICE=GPU-a", "BYTES=100", "TOP_SITES=00000000000000aa 60 3", END);
	EXPECT(story_next_untold_stack(b, &iter));
	say(b, 5 * HOUR, "site", "PID=7", "STACK_ID=00000000000000aa", "STACK=late", END);
	s = told(b, 6 * HOUR);
	EXPECT_EQ(s->records, 1);
	ASSERT(s->processes_len == 1 && s->processes[0]->sites_len == 1);
	EXPECT_STR(s->processes[0]->sites[0].stack->text, "late");
}

TEST(a_peak_is_told_of_when_it_was_reached)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	sample(b, 60, 7, 0, 50, 3, 50);
	sample(b, 120, 7, 50, 50, 60, 50);
	say(b, 100, "sample", "PID=8", "START_TIME=100", "DEVICE=GPU-a", "BYTES=9", END);
	say(b, 130, "process_exit", "PID=8", "START_TIME=100", "PEAK_BYTES=9", fmt("PEAK_TIME_USEC=%" PRIu64, AT(98)), END);
	s = told(b, HOUR);
	ASSERT(s->processes_len == 2);
	EXPECT_EQ(s->processes[0]->peak_usec, AT(3));
	EXPECT_EQ(s->processes[1]->peak_usec, AT(98));
}

/* The record of an end may be one of those that are missing. */
TEST(one_of_which_nothing_is_heard_holds_nothing)
{
	struct story_builder *b = stretch_of(10, 0, NULL);
	_cleanup_story_ struct story *s = NULL;

	flat(b, 10, 7, 50); /* never again */
	flat(b, 11, 8, 0);  /* has nothing to be told */
	for (int hour = 0; hour < 9; hour++)
		flat(b, 20 + hour * HOUR, 9, 30 + (uint64_t)hour);
	flat(b, 8 * HOUR + 100, 10, 20);
	say(b, 8 * HOUR + 200, "alloc_failure", "PID=10", "START_TIME=100", "DEVICE=GPU-a", "RULE=r", END);
	s = told(b, 10 * HOUR);
	ASSERT(s->processes_len == 4 && s->devices_len == 1 && s->failures_len == 1);
	EXPECT_EQ(s->processes[0]->pid, 7);
	EXPECT(s->processes[0]->is_cut);
	for (size_t i = 1; i < 4; i++)
		EXPECT(!s->processes[i]->is_cut);
	EXPECT_EQ(s->failures[0]->holders_len, 2);
	/* 50 + 33 after three hours; not 50 + 38 + 20. */
	EXPECT_EQ(s->devices[0]->peak_bytes, 83 * MIB);
}

TEST(nobody_samples_in_a_suspended_host)
{
	struct story_builder *b = stretch_of(10, 0, NULL);
	_cleanup_story_ struct story *s = NULL;

	flat(b, 10, 7, 50);
	say(b, 8 * HOUR, "health", "ASLEEP_SEC=28000", END);
	flat(b, 8 * HOUR + 10, 8, 1);
	say(b, 8 * HOUR + 20, "alloc_failure", "PID=8", "START_TIME=100", "DEVICE=GPU-a", "RULE=r", END);
	s = told(b, 10 * HOUR);
	ASSERT(s->processes_len == 2 && s->failures_len == 1);
	EXPECT(!s->processes[0]->is_cut);
	EXPECT_EQ(s->failures[0]->holders_len, 2);
	EXPECT_EQ(s->devices[0]->peak_bytes, 51 * MIB);
}

/* One that came to hold what it still holds, and another that gave back before either was sampled. */
TEST(a_device_was_full_between_samples)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	flat(b, 10, 7, 40);
	sample(b, 100, 7, 1, 40, 10.1, 1); /* gave back at 90 */
	sample(b, 110, 8, 0, 50, 80, 50);
	s = told(b, HOUR);
	ASSERT(s->devices_len == 1);
	EXPECT_EQ(s->devices[0]->peak_bytes, 90 * MIB);
	EXPECT_EQ(s->devices[0]->peak_usec, AT(80));
}

/* The peak of a life is told with its end, long after: what others held then is not what they hold now. */
TEST(a_peak_long_ago_is_not_added_to_what_others_hold_now)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	flat(b, 10, 7, 30);
	flat(b, 20, 8, 1);
	flat(b, 100, 8, 60);
	flat(b, 200, 8, 50);
	say(b, 300, "process_exit", "PID=7", "START_TIME=100", "LIVE_BYTES=0", fmt("PEAK_BYTES=%" PRIu64, 40 * MIB),
	    fmt("PEAK_TIME_USEC=%" PRIu64, AT(15)), fmt("DEVICE_PEAKS=GPU-a %" PRIu64 " %" PRIu64, 40 * MIB, AT(15)), END);
	s = told(b, HOUR);
	ASSERT(s->devices_len == 1);
	EXPECT_EQ(s->devices[0]->peak_bytes, 90 * MIB); /* 30 + 60, not 40 + 60 */
}

/* Two machines of one image, and one that was given another name. */
TEST(hosts_with_one_id)
{
	struct story_builder *b = stretch();
	_cleanup_story_ struct story *s = NULL;

	for (int i = 0; i < 20; i++) {
		flat(b, i * 60, 7, 1);
		say(b, i * 60 + 1, "sample", "_HOSTNAME=gpu02", "_BOOT_ID=b", "PID=7", "START_TIME=100", "DEVICE=GPU-b", "BYTES=2", END);
	}
	say(b, 2000, "health", "_HOSTNAME=renamed", END);
	s = told(b, HOUR);
	ASSERT(s->hosts_len == 2 && s->processes_len == 2);
	EXPECT_EQ(s->gaps_len, 0);
	EXPECT_STR(s->hosts[0]->name, "gpu01");
	EXPECT_STR(s->hosts[1]->name, "gpu02");
	EXPECT(!s->processes[0]->is_cut && !s->processes[1]->is_cut);
}

TEST_MAIN()
