/* SPDX-License-Identifier: MIT */
/* The state file: torn anywhere, grown, full, of others; and stacks in it. */
#include <errno.h>
#include <sys/stat.h>

#include "cmd/state_file.h"
#include "stack/stack_keep.h"
#include "temp_proc.h"
#include "test.h"

struct seen {
	char text[4096];
	int stop_at, n;
};

static int note(uint32_t type, const char *data, size_t len, void *userdata)
{
	struct seen *s = userdata;
	size_t at = strlen(s->text);

	snprintf(s->text + at, sizeof(s->text) - at, "%u:%.*s ", type, (int)MIN(len, (size_t)16), data);
	return ++s->n == s->stop_at ? -ECANCELED : 0;
}

struct place {
	struct temp_proc dir;
	char path[128];
};

static void place_new(struct place *p)
{
	if (!temp_proc_new(&p->dir))
		abort();
	snprintf(p->path, sizeof(p->path), "%s/state", p->dir.root);
}

static struct state_file *open_new(const struct place *p)
{
	struct state_file *s;

	if (state_open(p->path, &s) < 0 || state_begin(s) < 0)
		abort();
	return s;
}

static void read_all(const struct place *p, struct seen *ret, size_t *ret_valid, size_t *ret_len)
{
	_cleanup_free_ char *text = NULL;

	*ret = (struct seen){};
	EXPECT_EQ(state_read(p->path, &text, ret_len), 0);
	EXPECT_EQ(state_parse(text, *ret_len, note, ret, ret_valid), 0);
}

TEST(written_and_read)
{
	struct state_file *s;
	struct place p;
	struct seen seen;
	struct stat st;
	size_t valid, len;

	place_new(&p);
	read_all(&p, &seen, &valid, &len); /* not there: empty */
	EXPECT_EQ(len, 0);
	s = open_new(&p);
	state_add(s, KEPT_HEAD, "head", 4);
	EXPECT(stat(p.path, &st) < 0); /* not before it is whole */
	EXPECT_EQ(state_end(s), 0);
	state_add(s, KEPT_STACK, "one", 3);
	state_add(s, KEPT_TOTALS, "", 0);
	state_flush(s);
	read_all(&p, &seen, &valid, &len);
	EXPECT_STR(seen.text, "1:head 2:one 5: ");
	EXPECT_EQ(valid, len);
	EXPECT(stat(p.path, &st) == 0 && (st.st_mode & 0777) == 0600);
	state_add(s, KEPT_STACK, "two", 3);
	state_free(s); /* writes */
	read_all(&p, &seen, &valid, &len);
	EXPECT_STR(seen.text, "1:head 2:one 5: 2:two ");
	temp_proc_done(&p.dir);
}

TEST(torn_anywhere_the_whole_records_are_there)
{
	struct state_file *s;
	_cleanup_free_ char *text = NULL;
	struct place p;
	size_t len, valid, before = 0;

	place_new(&p);
	s = open_new(&p);
	state_add(s, KEPT_HEAD, "head", 4);
	state_add(s, KEPT_STACK, "one", 3);
	state_add(s, KEPT_STACK, "second", 6);
	EXPECT_EQ(state_end(s), 0);
	state_free(s);
	ASSERT(state_read(p.path, &text, &len) == 0);
	for (size_t cut = 0; cut <= len; cut++) {
		struct seen seen = {};
		char *part = malloc(cut + 1);

		memcpy(part, text, cut);
		EXPECT_EQ(state_parse(part, cut, note, &seen, &valid), 0);
		EXPECT(valid <= cut && valid >= before);
		before = valid;
		EXPECT_EQ(seen.n, cut == len ? 3 : cut >= 39 ? 2 : cut >= 20 ? 1 : 0);
		free(part);
	}
	/* A byte that has changed ends it there, wherever it is. */
	for (size_t at = 0; at < len; at++) {
		struct seen seen = {};

		text[at] ^= 1;
		EXPECT_EQ(state_parse(text, len, note, &seen, &valid), 0);
		EXPECT_EQ(seen.n, at < 20 ? 0 : at < 39 ? 1 : 2);
		text[at] ^= 1;
	}
	struct seen seen = { .stop_at = 2 };
	EXPECT_EQ(state_parse(text, len, note, &seen, &valid), -ECANCELED);
	EXPECT_EQ(seen.n, 2);
	temp_proc_done(&p.dir);
}

TEST(only_one_has_it_and_only_ours_is_read)
{
	struct state_file *s, *other;
	_cleanup_free_ char *text = NULL;
	char link[160];
	struct place p;
	size_t len;

	place_new(&p);
	s = open_new(&p);
	EXPECT_EQ(state_end(s), 0);
	EXPECT_EQ(state_open(p.path, &other), -EWOULDBLOCK);
	state_free(s);
	ASSERT(state_open(p.path, &other) == 0);
	state_free(other);
	EXPECT_EQ(chmod(p.path, 0622), 0);
	EXPECT_EQ(state_read(p.path, &text, &len), -EPERM);
	EXPECT_EQ(chmod(p.path, 0600), 0);
	snprintf(link, sizeof(link), "%s/link", p.dir.root);
	EXPECT_EQ(symlink(p.path, link), 0);
	EXPECT_EQ(state_read(link, &text, &len), -ELOOP);
	EXPECT_EQ(state_read(p.dir.root, &text, &len), -EPERM);
	EXPECT_EQ(truncate(p.path, STATE_FILE_MAX + 1), 0);
	EXPECT_EQ(state_read(p.path, &text, &len), -E2BIG);
	temp_proc_done(&p.dir);
}

TEST(grown_and_written_anew)
{
	_cleanup_free_ char *big = calloc(1, 100000);
	struct state_file *s;
	struct place p;
	struct seen seen;
	size_t valid, len;

	place_new(&p);
	s = open_new(&p);
	for (int i = 0; i < 10; i++)
		state_add(s, KEPT_STACK, big, 100000);
	EXPECT_EQ(state_end(s), 0);
	EXPECT(!state_is_grown(s));
	for (int i = 0; i < 11; i++)
		state_add(s, KEPT_STACK, big, 100000);
	EXPECT(state_is_grown(s));
	EXPECT_EQ(state_begin(s), 0);
	state_add(s, KEPT_HEAD, "x", 1);
	/* Killed here, the old one is still there. */
	read_all(&p, &seen, &valid, &len);
	EXPECT_EQ(seen.n, 21);
	EXPECT_EQ(state_end(s), 0);
	EXPECT(!state_is_grown(s));
	read_all(&p, &seen, &valid, &len);
	EXPECT_STR(seen.text, "1:x ");
	/* And one that is not finished leaves no trace. */
	EXPECT_EQ(state_begin(s), 0);
	state_add(s, KEPT_HEAD, "y", 1);
	state_free(s);
	read_all(&p, &seen, &valid, &len);
	EXPECT_STR(seen.text, "1:x ");
	temp_proc_done(&p.dir);
}

TEST(full)
{
	_cleanup_free_ char *big = calloc(1, 1 << 20);
	struct state_stats stats;
	struct state_file *s;
	struct place p;
	struct stat st;

	place_new(&p);
	s = open_new(&p);
	for (int i = 0; i < 40; i++)
		state_add(s, KEPT_STACK, big, 1 << 20);
	state_add(s, KEPT_STACK, "x", 1);
	state_add(s, KEPT_STACK, big, STATE_RECORD_MAX + (size_t)1);
	EXPECT_EQ(state_end(s), 0);
	state_stats(s, &stats);
	EXPECT_EQ(stats.left_out, 40 - 27 + 1);
	EXPECT_EQ(stats.failures, 0);
	EXPECT(stat(p.path, &st) == 0 && st.st_size <= STATE_FILE_MAX && (uint64_t)st.st_size == stats.bytes);
	state_free(s);
	temp_proc_done(&p.dir);
}

/* Names of stacks that live fill it: what has been said must still get in, and the file be written anew in time. */
TEST(full_of_names)
{
	_cleanup_free_ char *big = calloc(1, 1 << 20);
	struct state_file *s;
	struct place p;
	struct state_stats stats;

	place_new(&p);
	s = open_new(&p);
	for (int i = 0; i < 40; i++)
		state_add(s, KEPT_STACK, big, 1 << 20);
	EXPECT_EQ(state_end(s), 0);
	EXPECT(!state_is_grown(s));
	state_stats(s, &stats);
	EXPECT_EQ(stats.left_out, 40 - 27);
	for (int i = 0; i < 2; i++) {
		EXPECT(!state_is_grown(s));
		state_add(s, KEPT_INCIDENTS, big, 1 << 20);
	}
	EXPECT(state_is_grown(s));
	for (int i = 0; i < 2; i++)
		state_add(s, KEPT_INCIDENTS, big, 1 << 20);
	state_stats(s, &stats);
	EXPECT_EQ(stats.left_out, 40 - 27);
	state_free(s);
	temp_proc_done(&p.dir);
}

static struct frames *make_frames(struct address_space **ret_space)
{
	static struct mapping mappings[] = {
		{ .start = 0x1000, .end = 0x2000, .offset = 0, .inode = 7, .dev_major = 8, .dev_minor = 1, .path = "/bin/a" },
		{ .start = 0x3000, .end = 0x4000, .path = NULL },
		{ .start = 0x5000, .end = 0x6000, .offset = 0x1000, .inode = 9, .path = "/lib/b (deleted)" },
	};
	struct frames *f = calloc(1, sizeof(*f));
	struct address_space *as = calloc(1, sizeof(*as));

	if (!f || !as || !(f->list = calloc(5, sizeof(*f->list))) || !(as->mappings = calloc(3, sizeof(*as->mappings))))
		abort();
	atomic_init(&as->refs, 1);
	memcpy(as->mappings, mappings, sizeof(mappings));
	as->count = 3;
	f->space = as;
	f->count = 5;
	f->list[0] = (struct frame){ .pc = 0x5004, .is_exact = true, .is_allocator = true, .mapping = &as->mappings[2] };
	f->list[1] = (struct frame){ .pc = 0x2000, .is_guessed = true, .mapping = &as->mappings[0] }; /* the call is before it */
	f->list[2] = (struct frame){ .kind = FRAME_PYTHON, .function = "f", .file = "a.py", .line = 12 };
	f->list[3] = (struct frame){ .kind = FRAME_PYTHON };
	f->list[4] = (struct frame){ .pc = 0x99, .is_signal = true };
	f->site = 11;
	f->id = 12;
	f->exact = 13;
	f->info = strdup("cut");
	*ret_space = as;
	return f;
}

static void expect_frame(const struct frame *a, const struct frame *b)
{
	EXPECT_EQ(a->kind, b->kind);
	EXPECT_EQ(a->pc, b->pc);
	EXPECT_EQ(a->is_exact, b->is_exact);
	EXPECT_EQ(a->is_allocator, b->is_allocator);
	EXPECT_EQ(a->is_signal, b->is_signal);
	EXPECT_EQ(a->is_guessed, b->is_guessed);
	EXPECT_EQ(a->line, b->line);
	EXPECT_EQ(!a->function, !b->function);
	if (a->function && b->function) {
		EXPECT_STR(a->function, b->function);
		EXPECT_STR(a->file, b->file);
	}
	EXPECT_EQ(!a->mapping, !b->mapping);
	if (!a->mapping || !b->mapping)
		return;
	EXPECT_EQ(a->mapping->start, b->mapping->start);
	EXPECT_EQ(a->mapping->end, b->mapping->end);
	EXPECT_EQ(a->mapping->offset, b->mapping->offset);
	EXPECT_EQ(a->mapping->inode, b->mapping->inode);
	EXPECT_EQ(a->mapping->dev_major, b->mapping->dev_major);
	EXPECT_EQ(a->mapping->dev_minor, b->mapping->dev_minor);
	EXPECT_STR(a->mapping->path, b->mapping->path);
}

TEST(stacks_come_back)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct address_space *space;
	struct frames *f = make_frames(&space), *g;
	struct unpack u;

	frames_pack(&sb, f);
	ASSERT(sb.error == 0);
	u = (struct unpack){ .at = sb.buf, .left = sb.len };
	ASSERT(frames_unpack(&u, 5, 6, &g) == 0);
	EXPECT_EQ(g->count, 5);
	EXPECT_EQ(g->site, 11);
	EXPECT_EQ(g->id, 12);
	EXPECT_EQ(g->exact, 13);
	EXPECT_STR(g->info, "cut");
	ASSERT(g->space);
	EXPECT_EQ(g->space->pid, 5);
	EXPECT_EQ(g->space->start_ns, 6);
	EXPECT_EQ(g->space->count, 2); /* those that are used */
	for (size_t i = 0; i < 5; i++)
		expect_frame(&f->list[i], &g->list[i]);
	frames_free(g);
	/* Cut or longer: refused, whatever is missing. */
	for (size_t len = 0; len < sb.len; len++) {
		char *part = malloc(len + 1);

		memcpy(part, sb.buf, len);
		u = (struct unpack){ .at = part, .left = len };
		EXPECT_EQ(frames_unpack(&u, 5, 6, &g), -EINVAL);
		free(part);
	}
	strbuf_addc(&sb, 'x');
	u = (struct unpack){ .at = sb.buf, .left = sb.len };
	EXPECT_EQ(frames_unpack(&u, 5, 6, &g), -EINVAL);
	frames_free(f);
}

TEST(frames_without_a_space)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct frames f = { .count = 0, .site = 1 }, *g;
	struct unpack u;

	frames_pack(&sb, &f);
	u = (struct unpack){ .at = sb.buf, .left = sb.len };
	ASSERT(frames_unpack(&u, 5, 6, &g) == 0);
	EXPECT_EQ(g->count, 0);
	EXPECT(!g->space && !g->info);
	frames_free(g);
}

TEST_MAIN()
