/* SPDX-License-Identifier: MIT */
/* Items of recorded traces by chance: written, read and written again. */
#include "base/clock.h"
#include "test.h"
#include "trace_items.h"

/* Small, large and at the edges; at most max. */
static uint64_t random_number(uint64_t max)
{
	switch (random_below(5)) {
	case 0:
		return 0;
	case 1:
		return max - MIN(max, random_below(3));
	case 2:
		return random_below(10) % (max + !!(max + 1));
	default:
		return (random_u64() >> random_below(64)) % (max == UINT64_MAX ? max : max + 1);
	}
}

/* Texts of all kinds of bytes; often none. */
static char *random_text(void)
{
	static const char plain[] = "abcXYZ019/.-_=;~\\\"'%% \t\n\x7f\x1b\xc3\xa4\xe2\x80\xae\xef\xbf\xbf\xff\xc2\x85";
	char *s;
	size_t len;

	if (random_below(3) == 0)
		return NULL;
	len = random_below(8) ? random_below(12) : random_below(2000);
	s = malloc(len + 1);
	if (!s)
		abort();
	for (size_t i = 0; i < len; i++)
		s[i] = random_below(4) ? plain[random_below(sizeof(plain) - 1)] : (char)(1 + random_below(255));
	s[len] = '\0';
	return s;
}

static char *random_word(void)
{
	char *s = random_text();

	if (!s)
		s = strdup("GPU-1");
	if (!s)
		abort();
	return s;
}

struct random_item {
	struct trace_item item;
	struct books books;
	char *texts[3];
};

static void random_block(struct random_item *r)
{
	struct trace_item *it = &r->item;

	it->class = (uint8_t)random_below(CLASS_MAX);
	it->kind = (uint8_t)random_below(4);
	it->reason = (uint8_t)random_below(STACK_EVICTED + 1);
	it->device = (int32_t)((int64_t)random_number((uint64_t)INT32_MAX + 1) - 1);
	it->addr = random_number(UINT64_MAX);
	it->bytes = random_number(UINT64_MAX);
	it->stack = random_number(UINT64_MAX);
	it->call = r->texts[0] = random_text();
}

static void random_identity(struct trace_item *it)
{
	struct identity *id = identity_new();

	if (!id)
		abort();
	char **text;

	for (size_t i = 0; (text = identity_text(id, i)); i++)
		*text = random_text();
	id->uid = (uint32_t)random_number(UINT32_MAX);
	id->ppid = (uint32_t)random_number(UINT32_MAX);
	id->inner_pid = (uint32_t)random_number(UINT32_MAX);
	id->start_ticks = random_number(UINT64_MAX / 10000000);
	it->identity = id;
}

static void random_books(struct random_item *r)
{
	struct books *b = &r->books;
	__u64 *const counters[] = { &b->device_bytes, &b->peak_bytes, &b->live_count, &b->alloc_count, &b->free_count,
				    &b->fail_count, &b->unknown_free_count, &b->lost_count, &b->untracked_count,
				    &b->untracked_bytes, &b->framework_live_count, &b->framework_alloc_count,
				    &b->framework_free_count, &b->missed_count };

	for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
		*counters[i] = random_number(UINT64_MAX);
	r->item.books = b;
}

static void random_fields(struct random_item *r)
{
	struct trace_item *it = &r->item;

	switch (it->type) {
	case TRACE_BLOCK:
		it->birth_ns = random_number(TRACE_SECONDS_MAX * NSEC_PER_SEC);
		random_block(r);
		break;
	case TRACE_ALLOC:
		random_block(r);
		break;
	case TRACE_FAIL:
		random_block(r);
		it->kind = 0;
		it->error = (int32_t)(uint32_t)random_number(UINT32_MAX);
		break;
	case TRACE_FREE:
		it->addr = random_number(UINT64_MAX);
		it->kind = (uint8_t)random_below(4);
		break;
	case TRACE_SITE:
		it->stack = random_number(UINT64_MAX);
		it->key = random_number(UINT64_MAX);
		break;
	case TRACE_IDENTITY:
		random_identity(it);
		break;
	case TRACE_ORDINAL:
		it->device = (int32_t)random_number(INT32_MAX);
		it->uuid = r->texts[0] = random_word();
		break;
	case TRACE_DRIVER:
		it->uuid = r->texts[0] = random_text();
		it->bytes = random_number(UINT64_MAX);
		it->flag = random_below(2);
		break;
	case TRACE_COVERAGE:
		it->name = r->texts[0] = random_word();
		it->flag = random_below(2);
		break;
	case TRACE_CONDITION:
		it->condition = (uint32_t)random_number(UINT32_MAX);
		break;
	case TRACE_LOST:
		it->count = random_number(UINT64_MAX);
		break;
	case TRACE_REBUILT:
		random_books(r);
		break;
	case TRACE_GPU:
		it->uuid = r->texts[0] = random_word();
		it->name = r->texts[1] = random_text();
		it->device = (int32_t)((int64_t)random_number((uint64_t)INT32_MAX + 1) - 1);
		it->total_bytes = random_number(UINT64_MAX);
		it->used_bytes = random_number(UINT64_MAX);
		break;
	case TRACE_GPUS_END:
	case TRACE_DRIVER_END:
		it->flag = random_below(2);
		break;
	default:
		break;
	}
}

static void random_item_make(struct random_item *r)
{
	*r = (struct random_item){ .item.type = (enum trace_type)random_below(TRACE_TYPE_MAX) };
	r->item.time_ns = random_number(TRACE_SECONDS_MAX * NSEC_PER_SEC);
	if (r->item.type < TRACE_TICK)
		r->item.pid = 1 + (uint32_t)random_number(INT32_MAX - 1);
	random_fields(r);
}

static void random_item_done(struct random_item *r)
{
	identity_unref(r->item.identity);
	for (size_t i = 0; i < ARRAY_SIZE(r->texts); i++)
		free(r->texts[i]);
}

TEST(random_items_come_back)
{
	unsigned seen[TRACE_TYPE_MAX] = {};

	for (int round = 0; round < 400 && !test_failures; round++) {
		_cleanup_errors_ struct errors errors = ERRORS_INIT;
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT, again = STRBUF_INIT;
		_cleanup_(trace_closep) struct trace_reader *r = NULL;
		struct random_item items[100];
		struct trace_item item;

		strbuf_adds(&text, HEAD);
		strbuf_adds(&again, HEAD);
		for (size_t i = 0; i < ARRAY_SIZE(items); i++) {
			random_item_make(&items[i]);
			seen[items[i].item.type]++;
			EXPECT_EQ(trace_write(&text, &items[i].item), 0);
		}
		r = reader_of(strbuf_str(&text), text.len);
		for (size_t i = 0; i < ARRAY_SIZE(items) && !test_failures; i++) {
			const char *wrong;

			EXPECT_EQ(trace_read(r, &errors, &item), 1);
			EXPECT_EQ(trace_line(r), i + 2);
			wrong = test_failures ? NULL : item_difference(&items[i].item, &item);
			if (wrong)
				printf("# %s differs in %s\n", trace_type_name(item.type), wrong);
			EXPECT(!wrong);
			EXPECT_EQ(trace_write(&again, &item), 0);
		}
		EXPECT_EQ(trace_read(r, &errors, &item), 0);
		EXPECT_STR(strbuf_str(&again), strbuf_str(&text));
		for (size_t i = 0; i < ARRAY_SIZE(items); i++)
			random_item_done(&items[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(seen); i++)
		EXPECT(seen[i] > 500);
}

static void expect_refused(struct trace_item item)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	strbuf_adds(&sb, "before");
	EXPECT_EQ(trace_write(&sb, &item), -EINVAL);
	EXPECT_STR(strbuf_str(&sb), "before");
}

TEST(items_that_no_line_can_hold)
{
	static char longer[TRACE_LINE_MAX];
	const struct trace_item good = { .type = TRACE_ALLOC, .pid = 7, .device = -1 };
	struct trace_item item;

#define REFUSED(...)                                                                                                   \
	do {                                                                                                           \
		item = good;                                                                                           \
		__VA_ARGS__;                                                                                           \
		expect_refused(item);                                                                                  \
	} while (0)
	REFUSED(item.type = TRACE_TYPE_MAX);
	REFUSED(item.pid = 0);
	REFUSED(item.pid = UINT32_MAX);
	REFUSED(item.time_ns = TRACE_SECONDS_MAX * NSEC_PER_SEC + 1);
	REFUSED(item.class = CLASS_MAX);
	REFUSED(item.kind = 4);
	REFUSED(item.reason = STACK_EVICTED + 1);
	REFUSED(item.device = -2);
	REFUSED(item.type = TRACE_TICK);
	REFUSED(item.type = TRACE_ORDINAL, item.uuid = "x", item.device = -2);
	REFUSED(item.type = TRACE_ORDINAL, item.device = 0);
	REFUSED(item.type = TRACE_COVERAGE);
	REFUSED(item.type = TRACE_GPU, item.pid = 0);
	REFUSED(item.type = TRACE_IDENTITY);
	REFUSED(item.type = TRACE_REBUILT);
	REFUSED(item.type = TRACE_BLOCK, item.birth_ns = UINT64_MAX);
	memset(longer, 'x', sizeof(longer) - 1);
	REFUSED(item.call = longer);
}

TEST_MAIN()
