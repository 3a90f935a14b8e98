/* SPDX-License-Identifier: MIT */
#include "base/cleanup.h"
#include "history/spark.h"
#include "test.h"

#define SERIES_OF(list)                                                                                                \
	{                                                                                                              \
		.points = list, .len = ARRAY_SIZE(list)                                                                \
	}

static void expect_line(const struct spark *k, uint64_t full, bool is_ascii, const char *want)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	spark_draw(k, full, is_ascii, &sb);
	EXPECT_STR(strbuf_str(&sb), want);
}

/* Ten columns of 10 microseconds. */
#define BEGIN(k)                                                                                                       \
	_cleanup_(spark_done) struct spark k;                                                                          \
	ASSERT(spark_init(&k, 1000, 1100, 10) == 0)

TEST(steps)
{
	struct story_point points[] = { { 1020, 0, 4, 4 }, { 1050, 4, 8, 8 }, { 1080, 0, 8, 0 } };
	struct story_series s = SERIES_OF(points);
	BEGIN(k);

	spark_add(&k, &s, 0);
	expect_line(&k, 8, true, "  +++###__");
	expect_line(&k, 8, false, "  ▅▅▅███▁▁");
	expect_line(&k, 80, true, "  ......__");
	EXPECT_EQ(spark_column(&k, 0), SPARK_NONE);
	EXPECT_EQ(spark_column(&k, 2), 4);
	EXPECT_EQ(spark_column(&k, 9), 0);
}

TEST(an_end_ends_it)
{
	struct story_point points[] = { { 990, 5, 5, 5 } };
	struct story_series s = SERIES_OF(points);
	BEGIN(k);

	spark_add(&k, &s, 1050);
	expect_line(&k, 5, true, "#####     ");
}

TEST(a_sum_is_of_one_moment)
{
	struct story_point first[] = { { 1000, 0, 6, 6 }, { 1044, 0, 6, 0 } };
	struct story_point second[] = { { 1046, 0, 6, 6 } };
	struct story_series a = SERIES_OF(first), b = SERIES_OF(second);
	BEGIN(k);

	/* One takes what the other gave back within the same column: never more than 6. */
	spark_add(&k, &a, 0);
	spark_add(&k, &b, 0);
	for (size_t i = 0; i < 10; i++)
		EXPECT_EQ(spark_column(&k, i), 6);
	spark_add_peak(&k, 1045, 12);
	EXPECT_EQ(spark_column(&k, 4), 12);
	spark_add_peak(&k, 1100, 99);
	spark_add_peak(&k, 999, 99);
	expect_line(&k, 12, true, "++++#+++++");
}

TEST(what_is_between_points)
{
	struct story_point points[] = { { 1005, 0, 2, 2 }, { 1065, 2, 16, 2 } };
	struct story_series s = SERIES_OF(points);
	BEGIN(k);

	spark_add(&k, &s, 0);
	EXPECT_EQ(spark_column(&k, 6), 2);
	spark_add_highs(&k, &s);
	EXPECT_EQ(spark_column(&k, 5), 2);
	EXPECT_EQ(spark_column(&k, 6), 16);
}

/* Nothing is known while nobody looked, whatever was held before. */
TEST(gaps)
{
	struct story_point points[] = { { 1020, 0, 4, 4 } };
	struct story_series s = SERIES_OF(points);
	BEGIN(k);

	spark_add(&k, &s, 1090);
	spark_add_gap(&k, 1000, 1030, false);
	spark_add_gap(&k, 1045, 1070, false); /* half of a column is known */
	expect_line(&k, 8, true, "  :++::++ ");
	expect_line(&k, 8, false, "  ·▅▅··▅▅ ");
	spark_add_gap(&k, 0, 1010, true);
	spark_add_gap(&k, 1090, UINT64_MAX, true);
	expect_line(&k, 8, true, ": :++::++:");
	EXPECT_EQ(spark_column(&k, 0), SPARK_GAP);
	EXPECT_EQ(spark_column(&k, 1), SPARK_NONE);
	/* But what is known of it all the same. */
	spark_add_peak(&k, 1055, 8);
	expect_line(&k, 8, true, ": :++#:++:");
}

TEST(odd_numbers)
{
	struct story_point points[] = { { 0, 0, UINT64_MAX, UINT64_MAX } };
	struct story_series s = SERIES_OF(points), none = {};
	_cleanup_(spark_done) struct spark k;

	ASSERT(spark_init(&k, 0, UINT64_MAX, 3) == 0);
	spark_add(&k, &none, 0);
	spark_add_highs(&k, &none);
	EXPECT_EQ(spark_column(&k, 0), SPARK_NONE);
	spark_add(&k, &s, 0);
	spark_add(&k, &s, 0);
	spark_add_highs(&k, &s);
	expect_line(&k, UINT64_MAX, true, "###");
	expect_line(&k, 0, true, "___");
	spark_done(&k);
	ASSERT(spark_init(&k, 7, 7, 0) == 0);
	EXPECT_EQ(k.columns, 1);
	expect_line(&k, 1, true, " ");
}

TEST_MAIN()
