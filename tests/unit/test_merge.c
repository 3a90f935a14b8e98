/* SPDX-License-Identifier: MIT */
#include "stack/merge.h"
#include "test.h"

#define SP 0x7ffc00001000ull
#define EVAL 0x400000ull
#define EVAL_LEN 0x8000ull
#define FRAMES_MAX 600

/*
 * A stack as a line of text, innermost first: E an evaluation loop, C one that is in the function's cold part, p the
 * interpreter's C functions, other letters whatever else. Python frames in the merged line are digits, from 0 on.
 */
struct sample {
	struct unwound u;
	struct unwound_frame frames[FRAMES_MAX];
	bool is_interpreter[FRAMES_MAX];
	struct python_stack stack;
	struct merge_python python;
	char names[FRAMES_MAX];
	struct merge m;
};

static void sample_done(struct sample *s)
{
	free(s->m.list);
}
#define _cleanup_sample_ _cleanup_(sample_done)

static void add_native(struct sample *s, char name)
{
	const size_t i = s->u.count++;
	const uint64_t start = i ? s->frames[i - 1].cfa : SP;
	const bool is_loop = name == 'E' || name == 'C';

	s->names[i] = name;
	s->is_interpreter[i] = is_loop || name == 'p';
	/* The probed function has only been called. A return address may lie behind the function's last instruction. */
	s->frames[i] = (struct unwound_frame){
		.pc = name == 'E' ? EVAL + EVAL_LEN : 0x10000 + i,
		.is_exact = i == 0,
		.cfa = start + (i == 0 ? 8 : is_loop ? 0x1c0 : 0x30 + 8 * (i % 5)),
	};
}

static void sample_init(struct sample *s, const char *native)
{
	*s = (struct sample){ .u = { .frames = s->frames, .reason = UNWIND_COMPLETE } };
	s->python = (struct merge_python){ .stack = &s->stack, .eval_start = EVAL, .eval_end = EVAL + EVAL_LEN };
	for (; *native; native++)
		add_native(s, *native);
}

static void add_python(struct sample *s, uint32_t frames, uint32_t entry)
{
	while (frames-- > 0)
		s->stack.frame[s->stack.count++].entry = frames ? 0 : entry;
}

/* The place that the loop at native frame i tells: somewhere within its frame. */
static uint32_t place_in(const struct sample *s, size_t i)
{
	return (uint32_t)(s->frames[i - 1].cfa - SP) + 16;
}

/* Groups of so many frames, for one loop after the other, by address. */
static void add_loops(struct sample *s, const char *sizes)
{
	size_t i = 0;

	for (; *sizes; sizes++) {
		while (s->names[i] != 'E' && s->names[i] != 'C')
			i++;
		add_python(s, (uint32_t)(*sizes - '0'), place_in(s, i++));
	}
}

static void add_unplaced(struct sample *s, uint32_t frames)
{
	while (frames-- > 0)
		add_python(s, 1, PYTHON_ENTRY_UNPLACED);
}

static const char *merge(struct sample *s)
{
	static char text[FRAMES_MAX + PYTHON_FRAMES_MAX + 1];
	size_t n = 0;

	free(TAKE_PTR(s->m.list));
	if (merge_frames(&s->u, SP, &s->python, s->is_interpreter, &s->m) < 0)
		return NULL;
	for (; n < s->m.count; n++) {
		const struct merge_entry *e = &s->m.list[n];

		text[n] = e->is_python ? (char)('0' + e->index % 10) : s->names[e->index];
	}
	text[n] = '\0';
	return text;
}

TEST(loops_become_python_frames)
{
	_cleanup_sample_ struct sample s;

	sample_init(&s, "dtpEpptpEpppEppls");
	add_loops(&s, "213");
	EXPECT_STR(merge(&s), "dt01t2345ls");
	EXPECT_EQ(s.m.hidden, 9);
	EXPECT_EQ(s.m.unplaced, 0);
	/* By address: no name is needed. */
	s.python.eval_start = s.python.eval_end = 0;
	EXPECT_STR(merge(&s), "dt01t2345ls");
}

TEST(a_place_is_anywhere_in_the_frame)
{
	_cleanup_sample_ struct sample s;
	uint32_t start;

	sample_init(&s, "dpEps");
	start = (uint32_t)(s.frames[1].cfa - SP);
	add_python(&s, 1, start);
	EXPECT_STR(merge(&s), "d0s");
	s.stack.frame[0].entry = start + 0x1b8;
	EXPECT_STR(merge(&s), "d0s");
	s.stack.frame[0].entry = start + 0x1c0;
	EXPECT_STR(merge(&s), "d0s"); /* the frame behind: whatever was said to be the loop is left out for it */
	EXPECT_EQ(s.m.hidden, 2);
	s.stack.frame[0].entry = (uint32_t)(s.frames[4].cfa - SP) - 8;
	EXPECT_STR(merge(&s), "d0");
	s.stack.frame[0].entry += 8;
	EXPECT_STR(merge(&s), "dpEps0");
	EXPECT_EQ(s.m.unplaced, 1);
}

TEST(no_python_leaves_all)
{
	_cleanup_sample_ struct sample s;

	sample_init(&s, "dtpEps");
	EXPECT_STR(merge(&s), "dtpEps"); /* a thread without Python frames */
	s.stack.flags = PYTHON_F_NO_THREAD;
	EXPECT_STR(merge(&s), "dtpEps");
	s.python.stack = NULL;
	EXPECT_STR(merge(&s), "dtpEps");
	EXPECT_EQ(s.m.hidden, 0);
}

TEST(no_native_loop_leaves_all)
{
	_cleanup_sample_ struct sample s;

	sample_init(&s, "dtppls");
	add_python(&s, 2, 0x100000);
	add_python(&s, 1, 0x110000);
	EXPECT_STR(merge(&s), "dtppls012");
	EXPECT_EQ(s.m.unplaced, 3);
	EXPECT_EQ(s.m.hidden, 0);
}

/* The native stack ends early: what it has is merged, what it may hide at its end stays. */
TEST(native_cut)
{
	_cleanup_sample_ struct sample s;

	sample_init(&s, "dtpEpptpEppl");
	add_loops(&s, "12");
	add_python(&s, 2, 0x100000);
	add_python(&s, 1, 0x110000);
	s.u.reason = UNWIND_NO_INFO;
	s.frames[s.u.count - 1].cfa = 0;
	EXPECT_STR(merge(&s), "dt0t12ppl345");
	EXPECT_EQ(s.m.hidden, 4);
	EXPECT_EQ(s.m.unplaced, 3);
	/* Where the last frame ends is not known: what lies above its start need not be its own. */
	s.stack.frame[4].entry = (uint32_t)(s.frames[s.u.count - 2].cfa - SP);
	EXPECT_STR(merge(&s), "dt0t12ppl345");
}

TEST(native_cut_after_the_last_loop)
{
	_cleanup_sample_ struct sample s;

	sample_init(&s, "dpEppl");
	add_loops(&s, "2");
	s.u.reason = UNWIND_DEPTH;
	EXPECT_STR(merge(&s), "d01l");
}

/* More Python frames than were sent: the loops they belong to are not lost with them. */
TEST(python_cut_between_loops)
{
	static const uint32_t flags[] = { PYTHON_F_TRUNCATED, PYTHON_F_FAULT };

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		_cleanup_sample_ struct sample s;

		sample_init(&s, "dpEptpEptpEpps");
		add_loops(&s, "12");
		s.stack.flags = flags[i];
		EXPECT_STR(merge(&s), "d0t12ptpEpps");
		EXPECT_EQ(s.m.hidden, 3);
		EXPECT_EQ(s.m.unplaced, 0);
	}
}

TEST(python_cut_within_a_loop)
{
	_cleanup_sample_ struct sample s;

	sample_init(&s, "dpEptpEptpEpps");
	add_loops(&s, "1");
	add_python(&s, 3, 0);
	s.stack.flags = PYTHON_F_TRUNCATED;
	EXPECT_STR(merge(&s), "d0t123ptpEpps");
	EXPECT_EQ(s.m.unplaced, 0);
	/* By the size of the frame alone. */
	s.python.eval_start = s.python.eval_end = 0;
	EXPECT_STR(merge(&s), "d0t123ptpEpps");
	/* No loop like it: the interpreter's frames show where it must be. */
	s.frames[6].cfa -= 8;
	s.frames[10].cfa -= 16;
	EXPECT_STR(merge(&s), "d0ptpEptpEpps123");
	EXPECT_EQ(s.m.unplaced, 3);
	EXPECT_EQ(s.m.hidden, 1);
}

/* Python functions that call each other are one loop, however deep. */
TEST(python_cut_within_the_first_loop)
{
	_cleanup_sample_ struct sample s;

	sample_init(&s, "dtpEptpEs");
	add_python(&s, 3, 0);
	s.stack.flags = PYTHON_F_TRUNCATED;
	EXPECT_STR(merge(&s), "dt012ptpEs");
	s.python.eval_end = 0;
	EXPECT_STR(merge(&s), "dtpEptpEs012");
	EXPECT_EQ(s.m.unplaced, 3);
}

TEST(a_frame_of_unknown_size)
{
	_cleanup_sample_ struct sample s;

	sample_init(&s, "dpEptpEps");
	add_loops(&s, "11");
	s.frames[4].cfa = 0; /* of t */
	EXPECT_STR(merge(&s), "d0t1s");
	s.frames[2].cfa = 0; /* of the first loop: neither where it ends nor where the next begins */
	EXPECT_STR(merge(&s), "dpEptp01s");
	EXPECT_EQ(s.m.unplaced, 1);
}

/* Entries that lead down the stack, or nowhere: the order stays. */
TEST(places_out_of_order)
{
	_cleanup_sample_ struct sample s;

	sample_init(&s, "dpEpEpEps");
	add_python(&s, 1, place_in(&s, 4));
	add_python(&s, 2, place_in(&s, 2));
	add_python(&s, 1, place_in(&s, 6));
	EXPECT_STR(merge(&s), "d0p123s");
	EXPECT_EQ(s.m.unplaced, 2);
	EXPECT_EQ(s.m.hidden, 4);
}

/* The thread has switched stacks in between. */
TEST(some_without_a_place)
{
	_cleanup_sample_ struct sample s;

	sample_init(&s, "dpEpEps");
	add_loops(&s, "1");
	add_unplaced(&s, 1);
	EXPECT_STR(merge(&s), "d0pEps1");
	EXPECT_EQ(s.m.unplaced, 1);
}

TEST(first_without_a_place)
{
	_cleanup_sample_ struct sample s;

	sample_init(&s, "dpEpEps");
	add_unplaced(&s, 1);
	add_python(&s, 1, place_in(&s, 4));
	EXPECT_STR(merge(&s), "dpEp01s");
	EXPECT_EQ(s.m.unplaced, 1);
}

/* The walk gave up without saying so: the last loop is not whole, so others may follow. */
TEST(last_loop_not_whole)
{
	_cleanup_sample_ struct sample s;

	sample_init(&s, "dpEpEpEps");
	add_loops(&s, "1");
	add_python(&s, 1, 0);
	EXPECT_STR(merge(&s), "d01pEps");
}

TEST(two_in_one_frame)
{
	_cleanup_sample_ struct sample s;

	sample_init(&s, "dpEps");
	add_python(&s, 2, place_in(&s, 2));
	add_python(&s, 1, place_in(&s, 2) + 8);
	EXPECT_STR(merge(&s), "d012s");
	EXPECT_EQ(s.m.unplaced, 0);
}

TEST(by_number)
{
	_cleanup_sample_ struct sample s;

	sample_init(&s, "dtpEpptpEppEpls");
	add_unplaced(&s, 3);
	EXPECT_STR(merge(&s), "dt0t12ls");
	EXPECT_EQ(s.m.hidden, 7);
	s.python.eval_start = s.python.eval_end = 0;
	EXPECT_STR(merge(&s), "dtpEpptpEppEpls012");
	EXPECT_EQ(s.m.unplaced, 3);
	EXPECT_EQ(s.m.hidden, 0);
}

TEST(by_number_an_interrupted_loop)
{
	_cleanup_sample_ struct sample s;

	sample_init(&s, "dEs");
	add_unplaced(&s, 1);
	/* Exactly at the end is behind it, if it is no return address. */
	s.frames[1].is_exact = true;
	EXPECT_STR(merge(&s), "dEs0");
	s.frames[1].pc--;
	EXPECT_STR(merge(&s), "d0s");
	s.frames[1].pc = EVAL;
	EXPECT_STR(merge(&s), "d0s");
	s.frames[1].is_exact = false;
	EXPECT_STR(merge(&s), "dEs0");
}

TEST(by_number_with_a_cold_part)
{
	_cleanup_sample_ struct sample s;

	sample_init(&s, "dtpCpptpEppCpls");
	add_unplaced(&s, 3);
	EXPECT_STR(merge(&s), "dt0t12ls");
	EXPECT_EQ(s.m.unplaced, 0);
	/* One frame too many of that size: no telling which, so nothing is left out but the loop that is known. */
	s.frames[5].cfa = s.frames[4].cfa + 0x1c0;
	EXPECT_STR(merge(&s), "dtpCpptp0ppCpls12");
	EXPECT_EQ(s.m.unplaced, 2);
	EXPECT_EQ(s.m.hidden, 0);
}

TEST(by_number_same_size_elsewhere)
{
	_cleanup_sample_ struct sample s;

	sample_init(&s, "dCEs");
	add_unplaced(&s, 2);
	EXPECT_STR(merge(&s), "d01s");
	s.is_interpreter[1] = false;
	EXPECT_STR(merge(&s), "dC0s1");
}

TEST(by_number_native_cut)
{
	_cleanup_sample_ struct sample s;

	sample_init(&s, "dpEptpEp");
	add_unplaced(&s, 4);
	s.u.reason = UNWIND_COPY_END;
	EXPECT_STR(merge(&s), "d0t1p23");
	EXPECT_EQ(s.m.unplaced, 2);
}

TEST(by_number_python_cut)
{
	_cleanup_sample_ struct sample s;

	sample_init(&s, "dpEptpEpEpEs");
	add_unplaced(&s, 2);
	s.stack.flags = PYTHON_F_TRUNCATED;
	EXPECT_STR(merge(&s), "d0t1pEpEs");
	/* There must be more loops than the frames that were sent. */
	s.frames[6].pc = s.frames[8].pc = s.frames[10].pc = 0x1234;
	EXPECT_STR(merge(&s), "d0t1pEpEs");
}

TEST(by_number_more_loops_than_frames)
{
	_cleanup_sample_ struct sample s;

	sample_init(&s, "dpEpEps");
	add_unplaced(&s, 1);
	EXPECT_STR(merge(&s), "dp0pEps");
	EXPECT_EQ(s.m.hidden, 0);
}

TEST(count_is_not_believed)
{
	_cleanup_sample_ struct sample s;

	sample_init(&s, "ds");
	add_unplaced(&s, PYTHON_FRAMES_MAX);
	s.stack.count = UINT32_MAX;
	EXPECT(merge(&s));
	EXPECT_EQ(s.m.count, PYTHON_FRAMES_MAX + 2);
}

/* ---- whatever the input ---- */

static uint64_t state = 88172645463325252ull;

static uint32_t random_below(uint32_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 20) % n;
}

static void random_native(struct sample *s)
{
	static const char names[] = "ppppEECdtls";
	const uint32_t count = 1 + random_below(40);

	sample_init(s, "d");
	for (uint32_t i = 1; i < count; i++)
		add_native(s, names[random_below(sizeof(names) - 1)]);
	s->u.reason = random_below(3) ? UNWIND_COMPLETE : UNWIND_NO_INFO;
}

static void random_damage(struct sample *s)
{
	for (uint32_t n = random_below(4); n > 0; n--)
		s->frames[random_below((uint32_t)s->u.count)].cfa = random_below(2) ? 0 : SP + random_below(20000);
	for (uint32_t n = random_below(4); n > 0; n--)
		s->is_interpreter[random_below((uint32_t)s->u.count)] ^= true;
	if (random_below(4) == 0)
		s->python.eval_end = 0;
}

static void random_python(struct sample *s)
{
	const uint32_t count = random_below(PYTHON_FRAMES_MAX + 1), kind = random_below(4);

	for (uint32_t i = 0; i < count; i++) {
		uint32_t entry = random_below(16) ? random_below(2000) * 8 : random_below(UINT32_MAX);

		if (random_below(3))
			entry = 0;
		if (kind == 0)
			entry = PYTHON_ENTRY_UNPLACED;
		else if (kind == 1 && random_below(4) == 0)
			entry = PYTHON_ENTRY_UNPLACED;
		add_python(s, 1, entry);
	}
	s->stack.flags = random_below(4) ? 0 : random_below(8);
}

/* Every Python frame once and in order; native frames in order; what is gone is an interpreter's or a loop. */
static void expect_whole(const struct sample *s)
{
	uint32_t next_python = 0, next_native = 0, loops = 0;
	size_t gone = 0;

	for (size_t i = 0; i < s->m.count; i++) {
		const struct merge_entry *e = &s->m.list[i];

		if (e->is_python) {
			EXPECT_EQ(e->index, next_python);
			next_python++;
			continue;
		}
		EXPECT(e->index >= next_native);
		for (; next_native < e->index; next_native++)
			gone++;
		next_native++;
	}
	gone += s->u.count - next_native;
	EXPECT_EQ(next_python, s->stack.count);
	for (uint32_t i = 0; i < s->stack.count; i++)
		loops += s->stack.frame[i].entry || i + 1 == s->stack.count;
	EXPECT(gone >= s->m.hidden && gone - s->m.hidden <= loops);
	EXPECT(s->m.unplaced <= s->stack.count);
	if (s->m.unplaced == s->stack.count)
		EXPECT_EQ(s->m.count, s->u.count + s->stack.count);
}

TEST(nothing_is_lost_or_reordered)
{
	for (unsigned int round = 0; round < 20000; round++) {
		_cleanup_sample_ struct sample s;

		random_native(&s);
		random_damage(&s);
		random_python(&s);
		ASSERT(merge(&s));
		expect_whole(&s);
		if (test_failures)
			return;
	}
}

/* A stack that is whole merges to what one writes down by hand: loops replaced one by one, the interpreter's gone. */
static void expect_merged(struct sample *s, const uint32_t *sizes)
{
	char want[FRAMES_MAX + PYTHON_FRAMES_MAX + 1];
	uint32_t python = 0, loop = 0;
	size_t n = 0;

	for (size_t i = 0; i < s->u.count; i++) {
		if (s->names[i] == 'E' || s->names[i] == 'C') {
			for (uint32_t k = sizes[loop++]; k > 0; k--)
				want[n++] = (char)('0' + python++ % 10);
		} else if (!s->is_interpreter[i] || s->stack.count == 0) {
			want[n++] = s->names[i];
		}
	}
	want[n] = '\0';
	EXPECT_STR(merge(s), want);
	EXPECT_EQ(s->m.unplaced, 0);
}

TEST(whole_stacks_merge_exactly)
{
	for (unsigned int round = 0; round < 5000; round++) {
		_cleanup_sample_ struct sample s;
		uint32_t sizes[FRAMES_MAX], loops = 0;
		const bool by_number = random_below(2);
		bool has_known = false;

		random_native(&s);
		s.u.reason = UNWIND_COMPLETE;
		for (size_t i = 1; i < s.u.count; i++) {
			if (s.names[i] != 'E' && s.names[i] != 'C')
				continue;
			has_known |= s.names[i] == 'E';
			sizes[loops] = by_number ? 1 : 1 + random_below(2);
			add_python(&s, sizes[loops], by_number ? PYTHON_ENTRY_UNPLACED : place_in(&s, i));
			loops++;
		}
		if (loops == 0 || (by_number && !has_known))
			continue;
		expect_merged(&s, sizes);
		if (test_failures)
			return;
	}
}

TEST_MAIN()
