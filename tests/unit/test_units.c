/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/units.h"

#define KEEP UINT64_C(0x5eed)

TEST(sizes)
{
	static const struct {
		const char *text;
		int r;
		uint64_t bytes;
	} cases[] = {
		{ "0B", 0, 0 },
		{ "1B", 0, 1 },
		{ "512MiB", 0, UINT64_C(512) << 20 },
		{ "40GiB", 0, UINT64_C(40) << 30 },
		{ "1.5 GiB", 0, UINT64_C(3) << 29 },
		{ "100kB", 0, 100000 },
		{ "1KiB", 0, 1024 },
		{ "2TB", 0, UINT64_C(2000000000000) },
		{ "1TiB", 0, UINT64_C(1) << 40 },
		{ "0.1kB", 0, 100 },
		{ "0.0005kB", 0, 1 }, /* to the nearest byte */
		{ "1.00000000000000000001MiB", 0, 1 << 20 },
		{ "18446744073709551615B", 0, UINT64_MAX },
		{ "18446744073709551616B", -ERANGE, 0 },
		{ "16777216TiB", -ERANGE, 0 },
		{ "99999999999999999999999GiB", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ "5", -EINVAL, 0 },
		{ "MiB", -EINVAL, 0 },
		{ "5mib", -EINVAL, 0 },
		{ "5KB", -EINVAL, 0 },
		{ "5M", -EINVAL, 0 },
		{ "5MiBx", -EINVAL, 0 },
		{ "5MiB ", -EINVAL, 0 },
		{ " 5MiB", -EINVAL, 0 },
		{ "5MiB/s", -EINVAL, 0 },
		{ "-5MiB", -EINVAL, 0 },
		{ "+5MiB", -EINVAL, 0 },
		{ "1.MiB", -EINVAL, 0 },
		{ ".5MiB", -EINVAL, 0 },
		{ "1.5B", -EINVAL, 0 },
		{ "1e3MiB", -EINVAL, 0 },
		{ "0x10B", -EINVAL, 0 },
		{ "99999999999999999999999", -EINVAL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t v = KEEP;
		int r = parse_size(cases[i].text, &v);

		if (r != cases[i].r || v != (r == 0 ? cases[i].bytes : KEEP)) {
			printf("# \"%s\"\n", cases[i].text);
			EXPECT_EQ(r, cases[i].r);
			EXPECT_EQ(v, r == 0 ? cases[i].bytes : KEEP);
		}
	}
}

TEST(shares)
{
	double v = -1;

	EXPECT_EQ(parse_share("92%", &v), 0);
	EXPECT(v > 0.9199999 && v < 0.9200001);
	EXPECT_EQ(parse_share("92.5 %", &v), 0);
	EXPECT(v > 0.9249999 && v < 0.9250001);
	EXPECT_EQ(parse_share("0%", &v), 0);
	EXPECT(v == 0);
	EXPECT_EQ(parse_share("100%", &v), 0);
	EXPECT(v == 1);
	EXPECT_EQ(parse_share("100.1%", &v), -ERANGE);
	EXPECT_EQ(parse_share("101%", &v), -ERANGE);
	EXPECT_EQ(parse_share("-1%", &v), -ERANGE);
	EXPECT_EQ(parse_share("99999999999999999999999%", &v), -ERANGE);
	EXPECT_EQ(parse_share("92", &v), -EINVAL);
	EXPECT_EQ(parse_share("0.92", &v), -EINVAL);
	EXPECT_EQ(parse_share("%", &v), -EINVAL);
	EXPECT_EQ(parse_share("--1%", &v), -EINVAL);
	EXPECT_EQ(parse_share("92%%", &v), -EINVAL);
	EXPECT_EQ(parse_share("", &v), -EINVAL);
	EXPECT(v == 1);
}

TEST(durations)
{
	static const struct {
		const char *text;
		int r;
		uint64_t ns;
	} cases[] = {
		{ "0s", 0, 0 },
		{ "30s", 0, 30 * NSEC_PER_SEC },
		{ "250ms", 0, 250 * NSEC_PER_MSEC },
		{ "1h30m", 0, 5400 * NSEC_PER_SEC },
		{ "1h 30m", 0, 5400 * NSEC_PER_SEC },
		{ "2d", 0, 172800 * NSEC_PER_SEC },
		{ "1.5s", 0, 1500 * NSEC_PER_MSEC },
		{ "5us", 0, 5000 },
		{ "5ns", 0, 5 },
		{ "1d2h3m4s5ms6us7ns", 0, UINT64_C(93784005006007) },
		{ "213503d", 0, UINT64_C(213503) * 86400 * NSEC_PER_SEC },
		{ "213504d", -ERANGE, 0 },
		{ "213503d 24h", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ "0", -EINVAL, 0 },
		{ "30", -EINVAL, 0 },
		{ "s", -EINVAL, 0 },
		{ "30m1h", -EINVAL, 0 },
		{ "1s1s", -EINVAL, 0 },
		{ "1h30", -EINVAL, 0 },
		{ "30s ", -EINVAL, 0 },
		{ "30sec", -EINVAL, 0 },
		{ "30S", -EINVAL, 0 },
		{ "-30s", -EINVAL, 0 },
		{ "1M", -EINVAL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t v = KEEP;
		int r = parse_duration(cases[i].text, &v);

		if (r != cases[i].r || v != (r == 0 ? cases[i].ns : KEEP)) {
			printf("# \"%s\"\n", cases[i].text);
			EXPECT_EQ(r, cases[i].r);
			EXPECT_EQ(v, r == 0 ? cases[i].ns : KEEP);
		}
	}
}

TEST(rates)
{
	double v = -1;
	int is_bytes = -1;

	EXPECT_EQ(parse_rate("2000/s", &v, &is_bytes), 0);
	EXPECT(v == 2000);
	EXPECT_EQ(is_bytes, 0);
	EXPECT_EQ(parse_rate("120/m", &v, &is_bytes), 0);
	EXPECT(v == 2);
	EXPECT_EQ(parse_rate("8GiB/s", &v, &is_bytes), 0);
	EXPECT(v == 8589934592.0);
	EXPECT_EQ(is_bytes, 1);
	EXPECT_EQ(parse_rate("1.5 kB / ms", &v, &is_bytes), 0);
	EXPECT(v > 1499999 && v < 1500001);
	EXPECT_EQ(is_bytes, 1);
	EXPECT_EQ(parse_rate("0.5/s", &v, &is_bytes), 0);
	EXPECT(v == 0.5);
	EXPECT_EQ(is_bytes, 0);
	EXPECT_EQ(parse_rate("99999999999999999999/s", &v, &is_bytes), -ERANGE);
	EXPECT_EQ(parse_rate("99999999999999TiB/s", &v, &is_bytes), -ERANGE);
	EXPECT_EQ(parse_rate("2000", &v, &is_bytes), -EINVAL);
	EXPECT_EQ(parse_rate("2000/", &v, &is_bytes), -EINVAL);
	EXPECT_EQ(parse_rate("2000/2s", &v, &is_bytes), -EINVAL);
	EXPECT_EQ(parse_rate("/s", &v, &is_bytes), -EINVAL);
	EXPECT_EQ(parse_rate("8GiB", &v, &is_bytes), -EINVAL);
	EXPECT_EQ(parse_rate("8Gi/s", &v, &is_bytes), -EINVAL);
	EXPECT_EQ(parse_rate("8/s/s", &v, &is_bytes), -EINVAL);
	EXPECT(v == 0.5);
}

TEST(budgets)
{
	uint32_t count = 77;
	uint64_t window = 88;

	EXPECT_EQ(parse_budget("10/10m", &count, &window), 0);
	EXPECT_EQ(count, 10);
	EXPECT_EQ(window, 600 * NSEC_PER_SEC);
	EXPECT_EQ(parse_budget("0 / 1h30m", &count, &window), 0);
	EXPECT_EQ(count, 0);
	EXPECT_EQ(window, 5400 * NSEC_PER_SEC);
	EXPECT_EQ(parse_budget("4294967296/1s", &count, &window), -ERANGE);
	EXPECT_EQ(parse_budget("10", &count, &window), -EINVAL);
	EXPECT_EQ(parse_budget("10/", &count, &window), -EINVAL);
	EXPECT_EQ(parse_budget("10/0s", &count, &window), -EINVAL);
	EXPECT_EQ(parse_budget("1.5/1s", &count, &window), -EINVAL);
	EXPECT_EQ(parse_budget("10/m", &count, &window), -EINVAL);
	EXPECT_EQ(window, 5400 * NSEC_PER_SEC);
}

TEST(integers)
{
	uint64_t v = KEEP;
	uint32_t w = 5;

	EXPECT_EQ(parse_u64("18446744073709551615", &v), 0);
	EXPECT(v == UINT64_MAX);
	EXPECT_EQ(parse_u64("007", &v), 0);
	EXPECT_EQ(v, 7);
	EXPECT_EQ(parse_u64("18446744073709551616", &v), -ERANGE);
	EXPECT_EQ(parse_u64("", &v), -EINVAL);
	EXPECT_EQ(parse_u64(" 1", &v), -EINVAL);
	EXPECT_EQ(parse_u64("1 ", &v), -EINVAL);
	EXPECT_EQ(parse_u64("-1", &v), -EINVAL);
	EXPECT_EQ(parse_u64("0x1", &v), -EINVAL);
	EXPECT_EQ(v, 7);
	EXPECT_EQ(parse_u32("4294967295", &w), 0);
	EXPECT_EQ(w, UINT32_MAX);
	EXPECT_EQ(parse_u32("4294967296", &w), -ERANGE);
	EXPECT_EQ(w, UINT32_MAX);
}

TEST(bytes_as_text)
{
	char b[FORMAT_UNITS_MAX];

	EXPECT_STR(format_bytes(b, 0), "0 B");
	EXPECT_STR(format_bytes(b, 512), "512 B");
	EXPECT_STR(format_bytes(b, 1023), "1023 B");
	EXPECT_STR(format_bytes(b, 1024), "1 KiB");
	EXPECT_STR(format_bytes(b, 1536), "1.5 KiB");
	EXPECT_STR(format_bytes(b, UINT64_C(100) << 20), "100 MiB");
	EXPECT_STR(format_bytes(b, UINT64_C(44238165606)), "41.2 GiB");
	EXPECT_STR(format_bytes(b, (UINT64_C(1) << 30) - 1), "1 GiB");
	EXPECT_STR(format_bytes(b, UINT64_C(1023) << 20), "1023 MiB");
	EXPECT_STR(format_bytes(b, UINT64_MAX), "16 EiB");
}

TEST(durations_as_text)
{
	char b[FORMAT_UNITS_MAX];

	EXPECT_STR(format_duration(b, 0), "0s");
	EXPECT_STR(format_duration(b, 250 * NSEC_PER_MSEC), "250ms");
	EXPECT_STR(format_duration(b, 45 * NSEC_PER_SEC), "45s");
	EXPECT_STR(format_duration(b, 5400 * NSEC_PER_SEC), "1h 30m");
	EXPECT_STR(format_duration(b, 5430 * NSEC_PER_SEC), "1h 30m");
	EXPECT_STR(format_duration(b, 3605 * NSEC_PER_SEC), "1h");
	EXPECT_STR(format_duration(b, 86400 * NSEC_PER_SEC + 7200 * NSEC_PER_SEC), "1d 2h");
	EXPECT_STR(format_duration(b, 1500 * NSEC_PER_MSEC), "1s 500ms");
	EXPECT_STR(format_duration(b, 7), "7ns");
	EXPECT_STR(format_duration(b, UINT64_MAX), "213503d 23h");
}

TEST(duration_text_reads_back)
{
	static const uint64_t values[] = { 0, 250 * NSEC_PER_MSEC, 45 * NSEC_PER_SEC, 5400 * NSEC_PER_SEC };

	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		char b[FORMAT_UNITS_MAX];
		uint64_t v = KEEP;

		EXPECT_EQ(parse_duration(format_duration(b, values[i]), &v), 0);
		EXPECT_EQ(v, values[i]);
	}
}

TEST_MAIN()
