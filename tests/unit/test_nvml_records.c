/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "proc/nvml_records.h"
#include "proc/nvml_snapshot.h"

#define RECORDS 64
#define NONE UINT32_MAX

struct buffer {
	unsigned char raw[RECORDS * NVML_RECORD_ROOM];
	size_t at;
};

/* Appends a record of that many bytes; the padding stays untouched, as a driver may leave it. */
static void put(struct buffer *b, size_t form, uint32_t pid, uint64_t used, uint32_t gpu, uint32_t compute)
{
	const uint64_t protected_bytes = 0;
	unsigned char *p = b->raw + b->at;

	memcpy(p, &pid, 4);
	memcpy(p + 8, &used, 8);
	if (form >= NVML_RECORD_V2) {
		memcpy(p + 16, &gpu, 4);
		memcpy(p + 20, &compute, 4);
	}
	if (form >= NVML_RECORD_V535)
		memcpy(p + 24, &protected_bytes, 8);
	b->at += form;
}

static void start(struct buffer *b)
{
	memset(b->raw, NVML_UNTOUCHED, sizeof(b->raw));
	b->at = 0;
}

static struct nvml_record list[RECORDS];
static size_t left_out;

static size_t read_all(const struct buffer *b, size_t count, enum nvml_record_form form, uint64_t total)
{
	memset(list, 0, sizeof(list));
	return nvml_records_read(b->raw, sizeof(b->raw), count, form, total, list, &left_out);
}

TEST(each_form)
{
	static const size_t forms[] = { NVML_RECORD_V1, NVML_RECORD_V2, NVML_RECORD_V535 };
	struct buffer b;

	for (size_t f = 0; f < 3; f++) {
		for (size_t count = 1; count <= RECORDS; count++) {
			start(&b);
			for (uint32_t i = 0; i < count; i++)
				put(&b, forms[f], 1000 + i, (uint64_t)i << 21, NONE, NONE);
			EXPECT_EQ(read_all(&b, count, f == 0 ? NVML_RECORD_V1 : NVML_RECORD_V2, 1ull << 34), count);
			EXPECT_EQ(left_out, 0);
			for (uint32_t i = 0; i < count; i++) {
				EXPECT_EQ(list[i].pid, 1000 + i);
				EXPECT_EQ(list[i].used_bytes, (uint64_t)i << 21);
			}
		}
	}
}

/* A driver that wipes what it was given before it writes looks like one with longer records: sense decides. */
TEST(a_wiped_buffer)
{
	struct buffer b;

	start(&b);
	memset(b.raw, 0, RECORDS * NVML_RECORD_V2);
	for (uint32_t i = 0; i < 3; i++)
		put(&b, NVML_RECORD_V2, 4000000 + i, 512ull << 20, NONE, NONE);
	EXPECT_EQ(read_all(&b, 3, NVML_RECORD_V2, 80ull << 30), 3);
	for (uint32_t i = 0; i < 3; i++) {
		EXPECT_EQ(list[i].pid, 4000000 + i);
		EXPECT_EQ(list[i].used_bytes, 512ull << 20);
	}
}

/* Records of a form that nobody knows: processes may be seen, numbers are not made up. */
TEST(an_unknown_form)
{
	struct buffer b;
	size_t n;

	start(&b);
	for (uint32_t i = 0; i < 8; i++) {
		put(&b, NVML_RECORD_V535, 0x6b000000u + i, 100 + i, 0x12345678u, 0x9abcdef0u);
		b.at += 16;
	}
	n = read_all(&b, 8, NVML_RECORD_V2, 1000);
	for (size_t i = 0; i < n; i++)
		EXPECT(list[i].used_bytes == UINT64_MAX);
	EXPECT(left_out > 0);
	EXPECT(n + left_out <= 8);
}

/* One number among nonsense is as likely nonsense; a record in which nothing was wrong is still a process. */
TEST(mostly_nonsense)
{
	struct buffer b;

	start(&b);
	put(&b, NVML_RECORD_V2, 5000, 100, NONE, NONE);
	put(&b, NVML_RECORD_V2, 0x6b000000, 100, NONE, NONE);
	put(&b, NVML_RECORD_V2, 0x6b000001, 100, NONE, NONE);
	EXPECT_EQ(read_all(&b, 3, NVML_RECORD_V2, 1000), 1);
	EXPECT_EQ(left_out, 2);
	EXPECT(list[0].used_bytes == UINT64_MAX);
}

/* Records that make sense in both forms: how far the driver wrote decides. */
TEST(either_form_makes_sense)
{
	const uint64_t words[] = { 1000, 100, 0, 5000, 1001, 100, 0, 5000 };
	struct buffer b;

	start(&b);
	memcpy(b.raw, words, sizeof(words));
	EXPECT_EQ(read_all(&b, 2, NVML_RECORD_V2, 1 << 20), 2);
	EXPECT_EQ(list[1].pid, 1001);
	EXPECT_EQ(list[1].used_bytes, 100);
	/* The same words up to the end of two shorter records. */
	start(&b);
	memcpy(b.raw, words, 2 * NVML_RECORD_V2);
	EXPECT_EQ(read_all(&b, 2, NVML_RECORD_V2, 1 << 20), 2);
	EXPECT_EQ(list[1].pid, 5000);
	EXPECT_EQ(list[1].used_bytes, 1001);
}

TEST(pids_that_cannot_be)
{
	struct buffer b;

	start(&b);
	put(&b, NVML_RECORD_V2, 0, 5, NONE, NONE);
	put(&b, NVML_RECORD_V2, UINT32_MAX, 5, NONE, NONE);
	put(&b, NVML_RECORD_V2, 4194305, 5, NONE, NONE);
	put(&b, NVML_RECORD_V2, 4194304, 6, NONE, NONE);
	put(&b, NVML_RECORD_V2, 1, 7, NONE, NONE);
	EXPECT_EQ(read_all(&b, 5, NVML_RECORD_V2, 1000), 2);
	EXPECT_EQ(left_out, 3);
	EXPECT_EQ(list[0].pid, 1);
	EXPECT_EQ(list[0].used_bytes, 7);
	EXPECT_EQ(list[1].pid, 4194304);
	EXPECT_EQ(list[1].used_bytes, 6);
}

TEST(bytes_that_cannot_be)
{
	struct buffer b;

	start(&b);
	put(&b, NVML_RECORD_V2, 1, UINT64_MAX, NONE, NONE);
	put(&b, NVML_RECORD_V2, 2, 1001, NONE, NONE);
	put(&b, NVML_RECORD_V2, 3, 1000, NONE, NONE);
	put(&b, NVML_RECORD_V2, 4, 0, NONE, NONE);
	EXPECT_EQ(read_all(&b, 4, NVML_RECORD_V2, 1000), 4);
	EXPECT(list[0].used_bytes == UINT64_MAX);
	EXPECT(list[1].used_bytes == UINT64_MAX);
	EXPECT_EQ(list[2].used_bytes, 1000);
	EXPECT_EQ(list[3].used_bytes, 0);
	/* Without a total there is nothing to measure by. */
	EXPECT_EQ(read_all(&b, 4, NVML_RECORD_V2, UINT64_MAX), 4);
	EXPECT_EQ(list[1].used_bytes, 1001);
}

TEST(instances)
{
	struct buffer b;

	start(&b);
	put(&b, NVML_RECORD_V2, 9, 100, 2, 0);
	put(&b, NVML_RECORD_V2, 9, 400, 1, 0);
	put(&b, NVML_RECORD_V2, 9, 300, 1, 0);
	put(&b, NVML_RECORD_V2, 8, 900, 1, 0);
	put(&b, NVML_RECORD_V2, 8, 900, 2, 0);
	EXPECT_EQ(read_all(&b, 5, NVML_RECORD_V2, 1000), 2);
	EXPECT(list[0].used_bytes == UINT64_MAX); /* together more than there is */
	EXPECT_EQ(list[1].used_bytes, 500);
}

TEST(more_than_there_is_room_for)
{
	struct buffer b;

	start(&b);
	EXPECT_EQ(nvml_records_read(b.raw, 47, 2, NVML_RECORD_V2, 1000, list, &left_out), 0);
	EXPECT_EQ(left_out, 2);
	EXPECT_EQ(nvml_records_read(b.raw, 0, 0, NVML_RECORD_V2, 1000, list, &left_out), 0);
	EXPECT_EQ(left_out, 0);
}

TEST(snapshots_joined)
{
	_cleanup_(gpu_snapshot_done) struct gpu_snapshot a = { .is_complete = true }, b = { .left_out_count = 2 };
	struct gpu_device card = gpu_device_unknown("nvidia"), part = gpu_device_unknown("nvidia");

	ASSERT(gpu_snapshot_add_device(&a, &card) == 0 && gpu_snapshot_add_device(&b, &card) == 0);
	part.parent = 0;
	ASSERT(gpu_snapshot_add_device(&b, &part) == 0 && gpu_snapshot_grow(&b, 1) == 0);
	b.processes[b.process_count++] = (struct gpu_process){ .pid = 1, .device = 1 };
	ASSERT(gpu_snapshot_append(&a, &b) == 0);
	ASSERT(a.device_count == 3 && a.process_count == 1);
	EXPECT_EQ(a.devices[1].parent, -1);
	EXPECT_EQ(a.devices[2].parent, 1);
	EXPECT_EQ(a.processes[0].device, 2);
	EXPECT(!a.is_complete);
	EXPECT_EQ(a.left_out_count, 2);
	EXPECT(!b.devices && !b.processes);
	for (size_t i = a.device_count; i < GPU_DEVICES_MAX; i++)
		ASSERT(gpu_snapshot_add_device(&a, &card) == 0);
	EXPECT_EQ(gpu_snapshot_add_device(&a, &card), -E2BIG);
}

TEST_MAIN()
