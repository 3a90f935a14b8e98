/* SPDX-License-Identifier: MIT */
/* What is told together, what is told first, and by which name. */
#include "history/render_text_private.h"
#include "render_check.h"

#define JOBS 9

/* One large process, and short ones of one service of which each held 12 GiB and left it to the driver. */
struct crowd {
	struct story_device device;
	struct story_point points[JOBS][1];
	struct story_held held[JOBS];
	struct story_site sites[JOBS][2];
	struct story_process list[JOBS];
	struct story_process *processes[JOBS + 1];
	struct story_device *devices[1];
	struct story s;
};

static const struct story_stack stack_ones = { "1111111111111111", "cuMemAlloc_v2+0x0 (libcuda.so.1)\nones (/srv/evaluate.py:10)", NULL };
static const struct story_stack stack_mul = { "2222222222222222", "cuMemAlloc_v2+0x0 (libcuda.so.1)\nmul (/srv/evaluate.py:13)", NULL };

static void make_crowd(struct crowd *c)
{
	*c = (struct crowd){ .device = make_gpu0, .s = make_nothing };
	for (size_t i = 0; i < JOBS; i++) {
		const uint64_t from = FROM + (i + 1) * HOUR;

		c->points[i][0] = (struct story_point){ from, 0, 12 * GIB, 12 * GIB };
		c->held[i] = (struct story_held){ &c->device, { c->points[i], 1, 1, 12 * GIB, from } };
		c->sites[i][0] = (struct story_site){ &stack_ones, 6 * GIB, 6 * GIB, 6 * GIB };
		c->sites[i][1] = (struct story_site){ &stack_mul, (3 + i % 2) * GIB, 0, 4 * GIB };
		c->list[i] = make_small;
		c->list[i].pid = 600 + (uint32_t)i;
		c->list[i].comm = "python3";
		c->list[i].user = "carol";
		c->list[i].unit = "evaluate.service";
		c->list[i].is_cut = false;
		c->list[i].is_ended = true;
		c->list[i].peak_usec = from;
		c->list[i].end_usec = from + 30 * MINUTE;
		c->list[i].peak_bytes = c->list[i].live_bytes = 12 * GIB;
		c->list[i].host_bytes = 4;
		c->list[i].held = &c->held[i];
		c->list[i].held_len = 1;
		c->list[i].sites = c->sites[i];
		c->list[i].sites_len = 2;
		c->processes[i + 1] = &c->list[i];
	}
	c->processes[0] = &make_train;
	c->devices[0] = &c->device;
	c->s.processes = c->processes;
	c->s.processes_len = JOBS + 1;
	c->s.devices = c->devices;
	c->s.devices_len = 1;
}

static char *render_crowd(struct crowd *c, struct text_options o)
{
	check_all_ways(&c->s);
	o.width = 100;
	return render(&c->s, o);
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	while ((text = strstr(text, what))) {
		text += strlen(what);
		n++;
	}
	return n;
}

TEST(those_alike_are_told_together)
{
	struct crowd c;
	_cleanup_free_ char *text = NULL, *all = NULL, *other = NULL;

	make_crowd(&c);
	text = render_crowd(&c, (struct text_options){});
	EXPECT(strstr(text, "\n  python3[600] ") && strstr(text, "\n  python3[601] ") && !strstr(text, "\n  python3[602] "));
	EXPECT(strstr(text, "\n  7 more python3 "));
	EXPECT(strstr(text, " 12 GiB  at most\n    evaluate.service, user carol\n"
			    "    ended Mon 21:30:00 to Tue 03:30:00, at most 12 GiB each\n"));
	EXPECT(!strstr(text, "more]"));
	EXPECT(!strstr(text, "never freed") && !strstr(text, "4 B"));
	/* Asked for by number, each is told. */
	all = render_crowd(&c, (struct text_options){ .processes = 100 });
	EXPECT_EQ(count(all, "\n  python3[60"), JOBS);
	EXPECT(!strstr(all, "7 more"));
	/* One about which something was said is told alone, one of another service too. */
	c.list[5].incidents = 1;
	c.list[7].unit = "other.service";
	other = render_crowd(&c, (struct text_options){});
	EXPECT(strstr(other, "\n  python3[605] ") && strstr(other, "\n  python3[607] ") && strstr(other, "\n  5 more python3 "));
}

TEST(what_goes_on_is_told_so)
{
	struct crowd c;
	_cleanup_free_ char *text = NULL;

	make_crowd(&c);
	c.list[4].is_ended = false;
	c.list[4].end_usec = 0;
	c.list[5].is_ended = false;
	c.list[5].is_cut = true;
	text = render_crowd(&c, (struct text_options){});
	EXPECT(strstr(text, "    5 ended Mon 21:30:00 to Tue 03:30:00, of 1 the end was not recorded, 1 hold 12 GiB together, at\n"));
}

TEST(ends_of_those_alike_are_one_moment)
{
	struct crowd c;
	_cleanup_free_ char *text = NULL, *few = NULL, *higher = NULL;

	make_crowd(&c);
	text = render_crowd(&c, (struct text_options){});
	EXPECT(strstr(text, "\n  Mon 19:30:00  ended     9 processes of evaluate.service, at most 12 GiB each, the last\n"
			    "                          Tue 03:30:00\n"));
	EXPECT_EQ(count(text, "  ended  "), 2);
	EXPECT(!strstr(text, "peak      python3[60"));
	/* What stands out has its own moment. */
	c.list[0].peak_bytes = 30 * GIB;
	higher = render_crowd(&c, (struct text_options){});
	EXPECT_EQ(count(higher, "peak      python3[60"), 1);
	EXPECT(strstr(higher, "\n  Mon 19:00:00  peak      python3[600] evaluate.service: 30 GiB\n"));
	c.s.processes_len = 3;
	few = render_crowd(&c, (struct text_options){});
	EXPECT(strstr(few, "\n  Mon 20:30:00  ended     python3[601] evaluate.service, holding 12 GiB\n"));
}

TEST(sites_of_those_alike_are_one)
{
	struct crowd c;
	_cleanup_free_ char *text = NULL;
	const char *large, *same, *differ;

	make_crowd(&c);
	text = render_crowd(&c, (struct text_options){});
	large = strstr(text, "\n      31 GiB  python3[4711] train.service  0123456789abcdef\n");
	same = strstr(text, "\n       6 GiB  each in 9 processes of evaluate.service  1111111111111111\n"
			    "      cuMemAlloc_v2+0x0 (libcuda.so.1)\n      ones (/srv/evaluate.py:10)\n");
	differ = strstr(text, "\n       4 GiB  python3[601] evaluate.service, less in 8 others  2222222222222222\n");
	EXPECT(large && same && differ && large < same && same < differ);
	EXPECT_EQ(count(text, "1111111111111111"), 1);
}

/* Small ones, and many gaps, do not crowd out what matters. */
TEST(moments_that_matter)
{
	struct story_gap gaps[40];
	struct story_gap *pointers[ARRAY_SIZE(gaps)];
	struct crowd c;
	_cleanup_free_ char *text = NULL;

	make_crowd(&c);
	for (size_t i = 0; i < ARRAY_SIZE(gaps); i++) {
		gaps[i] = (struct story_gap){ GAP_DOWN, &make_host, FROM + i * MINUTE, FROM + i * MINUTE + 1000000 * (i + 1), 0, "down" };
		pointers[i] = &gaps[i];
	}
	c.s.gaps = pointers;
	c.s.gaps_len = ARRAY_SIZE(gaps);
	c.list[8].unit = "small.service";
	c.list[8].peak_bytes = 700 * MIB; /* of 41.2 GiB */
	text = render_crowd(&c, (struct text_options){});
	EXPECT_EQ(count(text, "  gap       down\n"), 5);
	EXPECT(strstr(text, "\n  Mon 18:39:00  gap       down\n"));
	EXPECT(strstr(text, "  peak      python3[4711] train.service: 41.2 GiB\n"));
	EXPECT(strstr(text, "\n  [35 more]\n\nDevices"));
	EXPECT(!strstr(text, "ended     python3[608]"));
}

/* ---- names */

static void expect_who(const struct story_process *proc, const char *want)
{
	_cleanup_strbuf_ struct strbuf who = STRBUF_INIT;
	const struct pen p = { .s = &make_night };

	text_who(&p, proc, &who);
	EXPECT_STR(strbuf_str(&who), want);
}

TEST(names_say_more_than_a_number)
{
	struct story_process p = make_small;

	p.comm = "python3";
	expect_who(&p, "python3[500]");
	p.cmdline = "/usr/bin/python3 -u -X dev -W ignore /srv/jobs/train.py --lr 1";
	expect_who(&p, "python3[500] train.py");
	p.cmdline = "python3 -m torch.distributed.run x.py";
	expect_who(&p, "python3[500] torch.distributed.run");
	p.cmdline = "python3 -c import";
	expect_who(&p, "python3[500]");
	p.cmdline = "server a.py";
	expect_who(&p, "python3[500]");
	p.cmdline = "python3 -m";
	expect_who(&p, "python3[500]");
	p.container = "ab12cd34ef56789012345678";
	p.unit = "docker-ab12cd34ef56789012345678.scope";
	expect_who(&p, "python3[500] container ab12cd34ef56");
	p.container_name = "web";
	expect_who(&p, "python3[500] container web");
	p.slurm_job = "8812";
	expect_who(&p, "python3[500] Slurm job 8812");
	p.pod = "train-0";
	expect_who(&p, "python3[500] pod train-0");
	p.unit = "train.service";
	expect_who(&p, "python3[500] train.service");
	p.unit = "session-3.scope";
	expect_who(&p, "python3[500] pod train-0");
	p.pod_name = "trainer-0";
	expect_who(&p, "python3[500] pod train-0");
	p.pod_namespace = "ml";
	p.unit = "containerd.service";
	expect_who(&p, "python3[500] ml/trainer-0");
}

/* What a later record said was not true yet when it began; nor is over what ended with its process set right. */
TEST(an_incident_is_told_as_it_was)
{
	struct story_incident i = make_leak;
	struct story s = make_nothing;
	_cleanup_free_ char *first = NULL, *later = NULL;

	s.incidents = (struct story_incident *[]){ &i };
	s.incidents_len = 1;
	i.records = 2;
	i.end_usec = i.process->end_usec - 2000000;
	first = render(&s, (struct text_options){ .width = 120 });
	EXPECT(strstr(first, "\n  Mon 21:00:00  warning   python3[4711] is leaking 4 GiB per hour on GPU 0, full in 10h (rule leak)\n"));
	EXPECT(!strstr(first, "    last: ") && !strstr(first, "process ended"));
	i.records = 3;
	i.end_usec = i.process->end_usec;
	later = render(&s, (struct text_options){ .width = 120 });
	EXPECT(strstr(later, "\n  Mon 21:00:00  warning   leak: python3[4711] train.service, at most 41 GiB, confidence 88 %\n"));
	EXPECT(strstr(later, "  resolved  leak: python3[4711] train.service, after 5h 30m, as the process ended\n"));
	EXPECT(strstr(later, "\n    last: python3[4711] is leaking"));
}

TEST_MAIN()
