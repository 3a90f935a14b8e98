/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "stack/used_space.h"
#include "test.h"

static struct mapping map_at(uint64_t start, uint64_t offset, uint64_t inode, const char *path)
{
	return (struct mapping){ .start = start, .end = start + 0x1000, .offset = offset, .inode = inode, .path = path };
}

/* Frames that point into a list of mappings; NULL for the third one. */
static struct frames *frames_in(struct mapping *list, size_t count)
{
	struct frames *f = calloc(1, sizeof(*f));

	f->list = calloc(count + 1, sizeof(*f->list));
	f->count = count + 1;
	for (size_t i = 0; i < count; i++)
		f->list[i].mapping = &list[i];
	return f;
}

TEST(shared_by_stacks_of_one_process)
{
	char path[] = "/usr/lib/libb.so";
	struct mapping first[] = { map_at(0x5000, 0x2000, 7, path), map_at(0x1000, 0, 0, NULL) };
	struct mapping again[] = { map_at(0x1000, 0, 0, NULL), map_at(0x5000, 0x2000, 7, "/usr/lib/libb.so") };
	struct mapping more[] = { map_at(0x9000, 0, 8, "/c"), map_at(0x5000, 0x2000, 7, "/usr/lib/libb.so") };
	struct frames *f = frames_in(first, 2), *g = frames_in(again, 2), *h = frames_in(more, 2);
	struct address_space *used = NULL, *before;

	EXPECT_EQ(used_space_take(&used, f, 12, 34), 0);
	memset(path, 'x', sizeof(path) - 1); /* nothing of the list is held on to */
	ASSERT(used && f->space == used && used->count == 2 && used->pid == 12 && used->start_ns == 34);
	EXPECT(f->list[0].mapping->start == 0x5000 && f->list[1].mapping->start == 0x1000);
	EXPECT_STR(f->list[0].mapping->path, "/usr/lib/libb.so");
	EXPECT(f->list[1].mapping->path == NULL && f->list[2].mapping == NULL);
	EXPECT(address_space_find(used, 0x5fff) == f->list[0].mapping && !address_space_find(used, 0x6000));

	before = used;
	EXPECT_EQ(used_space_take(&used, g, 12, 34), 0);
	EXPECT(used == before && g->space == before && g->list[1].mapping == f->list[0].mapping);

	EXPECT_EQ(used_space_take(&used, h, 12, 34), 0);
	EXPECT(used != before && used->count == 3 && h->space == used && f->space == before);
	frames_free(g);
	address_space_unref(used);
	EXPECT_STR(h->list[0].mapping->path, "/c");
	frames_free(h);
	EXPECT_STR(f->list[0].mapping->path, "/usr/lib/libb.so");
	frames_free(f);
}

TEST(other_code_at_the_same_place)
{
	struct mapping was[] = { map_at(0x1000, 0, 7, "/a"), map_at(0x5000, 0x1000, 8, "/b") };
	struct mapping gone[] = { map_at(0x1000, 0, 7, "/a") };
	struct mapping other[] = { map_at(0x1000, 0, 7, "/a"), map_at(0x5000, 0x1000, 9, "/c") };
	struct mapping moved[] = { map_at(0x1000, 0, 7, "/a"), map_at(0x5000, 0x2000, 8, "/b") };
	struct mapping larger[] = { map_at(0x1000, 0, 7, "/a"), map_at(0x4000, 0, 8, "/b") };
	struct address_space as = { .count = 2 };
	struct address_space *used = NULL;
	struct frames *f = frames_in(was, 2);

	larger[1].end = 0x6000;
	ASSERT(used_space_take(&used, f, 1, 2) == 0);
	as.mappings = was;
	EXPECT(!used_space_changed(used, &as) && !used_space_changed(NULL, &as));
	as.mappings = other;
	EXPECT(used_space_changed(used, &as));
	as.mappings = moved;
	EXPECT(used_space_changed(used, &as));
	as.mappings = larger;
	EXPECT(!used_space_changed(used, &as));
	as = (struct address_space){ .count = 1, .mappings = gone };
	EXPECT(!used_space_changed(used, &as));
	frames_free(f);
	address_space_unref(used);
}

/* A process that maps and maps. */
TEST(old_ones_go)
{
	struct address_space *used = NULL;

	for (uint64_t i = 0; i < 5000; i++) {
		struct mapping one[] = { map_at(i * 0x1000, 0, i + 1, "/jit") };
		struct frames *f = frames_in(one, 1);

		ASSERT(used_space_take(&used, f, 1, 2) == 0);
		EXPECT_EQ(f->list[0].mapping->start, i * 0x1000);
		frames_free(f);
	}
	EXPECT(used->count > 0 && used->count <= 1024);
	address_space_unref(used);
}

TEST_MAIN()
