/* SPDX-License-Identifier: MIT */
#include <stdint.h>

#include "record/stack_lines.h"
#include "record_check.h"
#include "test.h"

/* One letter a frame: n native, a within an allocator, p Python, P Python within an allocator. Text: "n0", "a1", ...,
 * with dots up to the given length. */
static struct stack_text *make(const char *kinds, const size_t *lengths)
{
	struct stack_text *st = calloc(1, sizeof(*st));

	if (!st)
		abort();
	st->len = strlen(kinds);
	st->frames = calloc(st->len + 1, sizeof(*st->frames));
	if (!st->frames)
		abort();
	for (size_t i = 0; i < st->len; i++) {
		struct text_frame *f = &st->frames[i];
		size_t len = lengths ? lengths[i] : 0;
		int n;

		f->is_python = kinds[i] == 'p' || kinds[i] == 'P';
		f->is_allocator = kinds[i] == 'a' || kinds[i] == 'P';
		f->text = calloc(1, len + 32);
		if (!f->text)
			abort();
		n = snprintf(f->text, 32, "%c%zu", kinds[i], i);
		for (size_t k = (size_t)n; k < len; k++)
			f->text[k] = '.';
	}
	return st;
}

static char *lines_of(const struct stack_text *st, size_t max, size_t max_lines)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	char *s;

	stack_lines_add(st, NULL, max, max_lines, &sb);
	s = strdup(strbuf_str(&sb));
	if (sb.error || !s)
		abort();
	return s;
}

#define EXPECT_LINES(kinds, lengths, max, max_lines, expected)                                                         \
	do {                                                                                                           \
		_cleanup_(stack_text_freep) struct stack_text *st_ = make(kinds, lengths);                             \
		_cleanup_free_ char *s_ = lines_of(st_, max, max_lines);                                               \
		EXPECT_STR(s_, expected);                                                                              \
	} while (0)

TEST(all_of_it_where_there_is_room)
{
	EXPECT_LINES("", NULL, 4000, 8, "");
	EXPECT_LINES("n", NULL, 4000, 8, "n0");
	EXPECT_LINES("nanp", NULL, 4000, 8, "n0\na1\nn2\np3");
	/* To the byte and to the line: a note would have been longer than the frame it stands for. */
	EXPECT_LINES("nnnnnnnnnn", NULL, 32, 10, "n0\nn1\nn2\nn3\nn4\nn5\nn6\nn7\nn8\nn9");
	EXPECT_LINES("nnnnnnnnnnnnnnnn", NULL, 53, SIZE_MAX,
		     "n0\nn1\nn2\nn3\nn4\nn5\nn6\nn7\nn8\nn9\nn10\nn11\nn12\nn13\nn14\nn15");
	EXPECT_LINES("nnnnnnnnnnnnnnnn", NULL, 52, SIZE_MAX,
		     "n0\nn1\nn2\nn3\nn4\nn5\nn6\nn7\nn8\nn9\nn10\n[5 more frames]");
}

TEST(what_comes_first_by_lines)
{
	/* Without Python: outside of allocators, innermost first. */
	EXPECT_LINES("naaannnnnn", NULL, 4000, 8, "n0\n[3 more frames]\nn4\nn5\nn6\nn7\nn8\nn9");
	EXPECT_LINES("naaannnnnnn", NULL, 4000, 8, "n0\n[3 more frames]\nn4\nn5\nn6\nn7\nn8\n[2 more frames]");
	/* One frame alone is no more than the line that would say that it is missing. */
	EXPECT_LINES("nannnnnnnn", NULL, 4000, 8, "n0\na1\nn2\nn3\nn4\nn5\nn6\n[3 more frames]");
	EXPECT_LINES("nnnnnnnnn", NULL, 4000, 8, "n0\nn1\nn2\nn3\nn4\nn5\nn6\n[2 more frames]");
	/* Python: the innermost ones, where they are. */
	EXPECT_LINES("naannnpppppppnn", NULL, 4000, 8, "n0\n[5 more frames]\np6\np7\np8\np9\np10\n[4 more frames]");
	EXPECT_LINES("naannnppnnpppnn", NULL, 4000, 8,
		     "n0\n[5 more frames]\np6\np7\n[2 more frames]\np10\np11\n[3 more frames]");
	/* Room left: the native frames that Python called. */
	EXPECT_LINES("naannnppnnn", NULL, 4000, 8, "n0\n[2 more frames]\nn3\nn4\nn5\np6\np7\n[3 more frames]");
	/* Python code of an allocator is nearer, but says less. */
	EXPECT_LINES("nnPPPppppnn", NULL, 4000, 7, "n0\n[4 more frames]\np5\np6\np7\np8\n[2 more frames]");
	EXPECT_LINES("nnPPPnn", NULL, 4000, 6, "n0\nn1\nP2\nP3\nP4\n[2 more frames]");
	EXPECT_LINES("nnnnPnnPnn", NULL, 4000, 7,
		     "n0\n[2 more frames]\nn3\nP4\n[2 more frames]\nP7\n[2 more frames]");
	EXPECT_LINES("pppppp", NULL, 4000, 3, "p0\np1\n[4 more frames]");
	EXPECT_LINES("pp", NULL, 4000, 1, "[2 frames]");
}

TEST(what_comes_first_by_bytes)
{
	static const size_t lengths[] = { 20, 100, 100, 100, 20, 20, 100, 100 };

	EXPECT_LINES("nannppnn", lengths, 100, SIZE_MAX,
		     "n0..................\n[3 more frames]\np4..................\np5..................\n[2 more frames]");
	/* The native frame next to Python, and nothing else is cut for it. */
	EXPECT_LINES("nannppnn", lengths, 200, SIZE_MAX,
		     "n0..................\n[2 more frames]\n"
		     "n3..................................................................................................\n"
		     "p4..................\np5..................\n[2 more frames]");
	EXPECT_LINES("nannnnnn", lengths, 200, SIZE_MAX,
		     "n0..................\n[1 more frame]\n"
		     "n2..................................................................................................\n"
		     "[1 more frame]\nn4..................\n[3 more frames]");
}

TEST(frame_longer_than_the_budget)
{
	static const size_t lengths[] = { 500, 500, 10 };

	EXPECT_LINES("n", lengths, 100, 8, "[1 frame]");
	EXPECT_LINES("np", lengths, 100, 8, "[2 frames]");
	EXPECT_LINES("nnp", lengths, 100, 8, "[2 more frames]\np2........");
	EXPECT_LINES("nnp", lengths, 32, 8, "[2 more frames]\np2........");
}

/* Text is redacted and escaped here, and then cut: a line never holds half a secret. */
TEST(text_of_a_frame)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	_cleanup_(redact_freep) struct redact *redact = NULL;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	char *pattern = "tok_[a-z]+", longer[601];
	struct text_frame frames[] = { { .text = "a tok_abc\n" }, { .text = "" }, { .text = NULL }, { .text = longer } };
	struct stack_text st = { .frames = frames, .len = ARRAY_SIZE(frames) };

	memset(longer, 'x', 600);
	longer[600] = '\0';
	ASSERT(redact_new(&pattern, 1, &errors, &redact) == 0);
	stack_lines_add(&st, redact, 4000, SIZE_MAX, &sb);
	EXPECT_EQ(strncmp(strbuf_str(&sb), "a [redacted]\\x0a\n?\n?\nxxx", 24), 0);
	EXPECT_EQ(sb.len, 21 + 512);
	EXPECT_STR(strbuf_str(&sb) + sb.len - 5, "xx...");
}

static uint64_t seed = 1;

static size_t random_below(size_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (size_t)(seed % n);
}

/* Every line is a frame or a note; frames come in order, notes say exactly how many lie between, nothing is over the
 * budget. Returns what is wrong; how many frames are shown to ret. */
static const char *check_lines(const struct stack_text *st, const char *s, size_t max, size_t max_lines, bool *shown)
{
	size_t next = 0, lines = 0;
	bool was_note = false;

	memset(shown, 0, st->len);
	if (strlen(s) > max)
		return "more bytes than may be";
	if (st->len == 0)
		return *s ? "something of nothing" : NULL;
	for (const char *p = s;; p++) {
		size_t len = strcspn(p, "\n");

		lines++;
		if (*p == '[') {
			if (was_note)
				return "two notes for one run";
			next += strtoul(p + 1, NULL, 10);
			was_note = true;
		} else {
			if (next >= st->len || strlen(st->frames[next].text) != len ||
			    memcmp(p, st->frames[next].text, len) != 0)
				return "not the next frame";
			shown[next++] = true;
			was_note = false;
		}
		p += len;
		if (!*p)
			break;
	}
	if (lines > max_lines)
		return "more lines than may be";
	return next == st->len ? NULL : "shown and left out is not all";
}

/* Native frames may fill what is too little for a Python frame, and not more. */
static const char *check_ranks(const struct stack_text *st, const bool *shown, size_t max)
{
	size_t shortest_python = SIZE_MAX, native = 0;

	for (size_t i = 1; i < st->len; i++) {
		const struct text_frame *f = &st->frames[i];

		if (f->is_python && !shown[i])
			shortest_python = MIN(shortest_python, strlen(f->text));
		else if (!f->is_python && shown[i])
			native += strlen(f->text) + 1;
	}
	/* Notes on both sides of it; and those that native frames made needless. */
	if (shortest_python != SIZE_MAX && native > shortest_python + 64 + max / 16)
		return "native frames in the place of Python's";
	return NULL;
}

TEST(whatever_the_stack)
{
	static const char letters[] = "nnnnnapP";
	size_t counts[3] = {}; /* all shown, some, none */

	for (int round = 0; round < 20000; round++) {
		size_t len = random_below(round % 100 == 0 ? 301 : 40), lengths[301];
		size_t max = STACK_LINES_MIN + random_below(round % 3 ? 300 : 4064);
		size_t max_lines = round % 2 ? SIZE_MAX : 1 + random_below(12);
		size_t mixed = random_below(4), n = 0;
		char kinds[302] = "";
		bool shown[301];
		_cleanup_(stack_text_freep) struct stack_text *st = NULL;
		_cleanup_free_ char *s = NULL;
		const char *wrong;

		for (size_t i = 0; i < len; i++) {
			kinds[i] = mixed == 0 ? 'n' : mixed == 1 ? 'p' : letters[random_below(8)];
			lengths[i] = random_below(round % 5 ? 40 : 500);
		}
		st = make(kinds, lengths);
		s = lines_of(st, max, max_lines);
		wrong = check_lines(st, s, max, max_lines, shown);
		if (!wrong && max_lines == SIZE_MAX && round % 5)
			wrong = check_ranks(st, shown, max);
		if (wrong)
			printf("# round %d, max %zu, lines %zu, %s:\n# %s\n", round, max, max_lines, kinds, s);
		EXPECT_STR(wrong ? wrong : "", "");
		if (wrong)
			return;
		for (size_t i = 0; i < len; i++)
			n += shown[i];
		counts[n == len ? 0 : n > 0 ? 1 : 2]++;
	}
	/* Not all of one kind. */
	EXPECT(counts[0] > 1000 && counts[1] > 1000 && counts[2] > 10);
}

/* The stack of a training step, as PyTorch has them: no budget of a field loses its Python frames. */
TEST(deep_native_stack_under_python)
{
	char kinds[77] = "";
	size_t lengths[76], python = 0;
	_cleanup_(stack_text_freep) struct stack_text *st = NULL;
	_cleanup_free_ char *s = NULL;
	bool shown[76];

	for (size_t i = 0; i < 76; i++) {
		kinds[i] = i > 0 && i < 7 ? 'a' : i >= 40 && i % 2 == 0 && python < 15 ? 'p' : 'n';
		lengths[i] = kinds[i] == 'p' ? 60 : 190;
		python += kinds[i] == 'p';
	}
	ASSERT(python == 15);
	st = make(kinds, lengths);
	s = lines_of(st, 4080, SIZE_MAX);
	EXPECT(!check_lines(st, s, 4080, SIZE_MAX, shown));
	EXPECT(shown[0] && shown[39] && shown[30] && !shown[3]);
	for (size_t i = 0; i < 76; i++)
		EXPECT(shown[i] || kinds[i] != 'p');
	EXPECT(strlen(s) > 3800);
}

/* Frames beyond count cost time, not more: the text looked at is bounded. */
TEST(many_long_frames)
{
	static char kinds[3001];
	static size_t lengths[3000];
	_cleanup_(stack_text_freep) struct stack_text *st = NULL;
	_cleanup_free_ char *s = NULL;

	memset(kinds, 'p', 3000);
	for (size_t i = 0; i < 2999; i++)
		lengths[i] = 3000;
	lengths[2999] = 10; /* would fit, but is not looked at any more */
	st = make(kinds, lengths);
	s = lines_of(st, 4000, SIZE_MAX);
	EXPECT(strncmp(s, "p0...", 5) == 0);
	EXPECT_STR(strrchr(s, '\n'), "\n[2993 more frames]");
}

TEST_MAIN()
