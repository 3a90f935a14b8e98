/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <pthread.h>

#include "model/identity.h"
#include "model/stack.h"

TEST(identity)
{
	struct identity *id = identity_new();

	ASSERT(id != NULL);
	id->comm = strdup("python3");
	id->pod = strdup("pod");
	EXPECT(id->exe == NULL);
	EXPECT_EQ(id->pid, 0);
	EXPECT(identity_ref(id) == id);
	EXPECT_EQ(atomic_load(&id->refs), 2);
	identity_unref(id);
	EXPECT_STR(id->comm, "python3");
	identity_unref(id);
	identity_unref(NULL);
	EXPECT(identity_ref(NULL) == NULL);
}

static struct address_space *space_new(size_t count)
{
	struct address_space *as = calloc(1, sizeof(*as));

	if (!as)
		return NULL;
	atomic_init(&as->refs, 1);
	as->mappings = calloc(count ? count : 1, sizeof(*as->mappings));
	as->strings = strdup("/lib/x.so");
	as->count = count;
	/* 0x1000-0x1fff, a hole, 0x3000-0x3fff, a hole ... */
	for (size_t i = 0; i < count; i++) {
		as->mappings[i].start = 0x1000 + i * 0x2000;
		as->mappings[i].end = 0x2000 + i * 0x2000;
		as->mappings[i].path = as->strings;
	}
	return as;
}

TEST(finding_a_mapping)
{
	for (size_t count = 0; count < 9; count++) {
		_cleanup_(address_space_unrefp) struct address_space *as = space_new(count);

		ASSERT(as != NULL);
		EXPECT(address_space_find(as, 0) == NULL);
		EXPECT(address_space_find(as, 0xfff) == NULL);
		EXPECT(address_space_find(as, UINT64_MAX) == NULL);
		for (size_t i = 0; i < count; i++) {
			const struct mapping *m = &as->mappings[i];

			EXPECT(address_space_find(as, m->start) == m);
			EXPECT(address_space_find(as, m->start + 0x800) == m);
			EXPECT(address_space_find(as, m->end - 1) == m);
			EXPECT(address_space_find(as, m->end) == NULL);
			EXPECT(address_space_find(as, m->end + 0xfff) == NULL);
		}
	}
	EXPECT(address_space_find(NULL, 1) == NULL);
}

TEST(a_stack_holds_its_space)
{
	const uint64_t ips[] = { 0x1010, 0x3020, 0 };
	struct address_space *as = space_new(3);
	struct stack *s;

	ASSERT(as != NULL);
	s = stack_new(77, 4711, 3, as, ips, 3);
	ASSERT(s != NULL);
	EXPECT_EQ(atomic_load(&as->refs), 2);
	address_space_unref(as);
	EXPECT_EQ(s->key, 77);
	EXPECT_EQ(s->pid, 4711);
	EXPECT_EQ(s->reason, 3);
	EXPECT_EQ(s->count, 3);
	EXPECT(memcmp(s->ip, ips, sizeof(ips)) == 0);
	EXPECT_STR(address_space_find(s->space, s->ip[1])->path, "/lib/x.so");
	EXPECT(stack_ref(s) == s);
	stack_unref(s);
	EXPECT_EQ(s->count, 3);
	stack_unref(s);
	stack_unref(NULL);
}

TEST(a_stack_without_space_or_frames)
{
	_cleanup_(stack_unrefp) struct stack *s = stack_new(1, 2, 0, NULL, NULL, 0);

	ASSERT(s != NULL);
	EXPECT(s->space == NULL);
	EXPECT_EQ(s->count, 0);
	EXPECT(stack_new(1, 2, 0, NULL, NULL, SIZE_MAX / 8) == NULL);
}

static void *take_and_drop(void *arg)
{
	for (int i = 0; i < 20000; i++) {
		identity_ref(arg);
		identity_unref(arg);
	}
	identity_unref(arg);
	return NULL;
}

TEST(references_from_many_threads)
{
	struct identity *id = identity_new();
	pthread_t threads[4];

	ASSERT(id != NULL);
	for (int i = 0; i < 4; i++)
		ASSERT(pthread_create(&threads[i], NULL, take_and_drop, identity_ref(id)) == 0);
	for (int i = 0; i < 4; i++)
		(void)pthread_join(threads[i], NULL);
	EXPECT_EQ(atomic_load(&id->refs), 1);
	identity_unref(id);
}

TEST_MAIN()
