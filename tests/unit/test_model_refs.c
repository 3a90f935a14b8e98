/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
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

static struct frames *frames_new(struct address_space *space)
{
	struct frames *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->list = calloc(2, sizeof(*f->list));
	f->count = f->list ? 2 : 0;
	f->space = address_space_ref(space);
	f->info = strdup("cut");
	f->strings = strdup("forward");
	if (f->count) {
		f->list[0] = (struct frame){ .kind = FRAME_PYTHON, .function = f->strings, .line = 3 };
		f->list[1] = (struct frame){ .kind = FRAME_NATIVE, .pc = 0x3020,
					     .mapping = address_space_find(space, 0x3020) };
	}
	return f;
}

TEST(a_stack_holds_its_frames_and_space)
{
	struct address_space *as = space_new(3);
	struct stack *s;

	ASSERT(as != NULL);
	s = stack_new_done(77, 4711, frames_new(as));
	ASSERT(s != NULL);
	EXPECT_EQ(atomic_load(&as->refs), 2);
	address_space_unref(as);
	EXPECT_EQ(s->key, 77);
	EXPECT_EQ(s->pid, 4711);
	EXPECT(stack_is_done(s));
	EXPECT(stack_wait(s, 0));
	ASSERT(stack_frames(s) && stack_frames(s)->count == 2);
	EXPECT_STR(stack_frames(s)->list[0].function, "forward");
	EXPECT_STR(stack_frames(s)->list[1].mapping->path, "/lib/x.so");
	EXPECT(stack_ref(s) == s);
	stack_unref(s);
	EXPECT_EQ(stack_frames(s)->count, 2);
	stack_unref(s);
	stack_unref(NULL);
	frames_free(NULL);
}

static struct stack *raw_stack(void)
{
	static const uint8_t words[16] = "fifteen letters";
	struct event_stack *ev = calloc(1, sizeof(*ev) + sizeof(words));
	struct stack *s;

	if (!ev)
		return NULL;
	ev->head = (struct event){ .pid = 4711, .start_ns = 5, .time_ns = 6, .stack = 78 };
	ev->copy_bytes = sizeof(words);
	memcpy(ev->copy, words, sizeof(words));
	s = stack_new(ev);
	free(ev);
	return s;
}

TEST(a_stack_that_is_resolved_later)
{
	struct stack *s = raw_stack();

	ASSERT(s != NULL);
	EXPECT_EQ(s->key, 78);
	EXPECT(s->pid == 4711 && s->start_ns == 5 && s->time_ns == 6);
	ASSERT(s->raw != NULL);
	EXPECT_STR((const char *)s->raw->copy, "fifteen letters");
	EXPECT(!stack_is_done(s) && !stack_frames(s));
	EXPECT(!stack_wait(s, clock_monotonic_ns() + 10 * NSEC_PER_MSEC));
	stack_set_frames(s, frames_new(NULL));
	EXPECT(stack_is_done(s) && stack_wait(s, 0) && !s->raw);
	EXPECT_EQ(stack_frames(s)->count, 2);
	stack_unref(s);

	/* It may turn out that there is nothing to be had, or nobody may ever look. */
	s = raw_stack();
	ASSERT(s != NULL);
	stack_set_frames(s, NULL);
	EXPECT(stack_is_done(s) && !stack_frames(s));
	stack_unref(s);
	stack_unref(raw_stack());
}

static void *resolve_soon(void *arg)
{
	(void)usleep(20000);
	stack_set_frames(arg, frames_new(NULL));
	return NULL;
}

TEST(waiting_ends_with_the_answer)
{
	uint64_t begin = clock_monotonic_ns();
	struct stack *s = raw_stack();
	pthread_t thread;

	ASSERT(s != NULL);
	ASSERT(pthread_create(&thread, NULL, resolve_soon, s) == 0);
	EXPECT(stack_wait(s, begin + 30 * NSEC_PER_SEC));
	EXPECT(clock_monotonic_ns() - begin < 20 * NSEC_PER_SEC);
	EXPECT(stack_frames(s) != NULL);
	(void)pthread_join(thread, NULL);
	stack_unref(s);
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
