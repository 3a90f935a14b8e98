/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <errno.h>

#include "base/clock.h"
#include "history/entry.h"

static struct entry with(enum entry_field f, const char *value)
{
	struct entry e = {};

	e.field[f].data = value;
	e.field[f].len = strlen(value);
	return e;
}

TEST(every_field_is_found_by_its_name)
{
	for (int f = 0; f < ENTRY_FIELD_MAX; f++) {
		char data[128];
		const char *value;
		size_t len;

		ASSERT(entry_field_name(f));
		snprintf(data, sizeof(data), "%s=some=thing", entry_field_name(f));
		EXPECT_EQ(entry_field_from_data(data, strlen(data), &value, &len), f);
		EXPECT_EQ(len, strlen("some=thing"));
		EXPECT(memcmp(value, "some=thing", len) == 0);
	}
	EXPECT_STR(entry_field_name(ENTRY_PID), "GPUXRAY_PID");
	EXPECT_STR(entry_field_name(ENTRY_SENDER), "_PID");
	EXPECT_STR(entry_field_name(ENTRY_DOCUMENTATION), "DOCUMENTATION");
}

TEST(what_is_no_field_of_ours)
{
	static const char *const none[] = {
		"", "=", "=x", "PID=7", "GPUXRAY_PI=7", "GPUXRAY_PIDS=7", "GPUXRAY_=7", "GPUXRAY_PID", "gpuxray_pid=7",
		"_UID=0", "_TRANSPORT=journal", "GPUXRAY_AN_ENDLESS_NAME_THAT_IS_LONGER_THAN_ANY_FIELD_OF_OURS=1",
	};
	const char *value;
	size_t len;

	for (size_t i = 0; i < ARRAY_SIZE(none); i++)
		EXPECT_EQ(entry_field_from_data(none[i], strlen(none[i]), &value, &len), -1);
}

TEST(a_value_may_be_empty_or_hold_any_byte)
{
	static const char data[] = "MESSAGE=a\0b";
	const char *value;
	size_t len;

	EXPECT_EQ(entry_field_from_data(data, sizeof(data) - 1, &value, &len), ENTRY_MESSAGE);
	EXPECT_EQ(len, 3);
	EXPECT_EQ(entry_field_from_data("MESSAGE=", 8, &value, &len), ENTRY_MESSAGE);
	EXPECT_EQ(len, 0);
}

TEST(numbers)
{
	static const struct {
		const char *text;
		int r;
		uint64_t v;
	} cases[] = {
		{ "0", 0, 0 }, { "42", 0, 42 }, { "18446744073709551615", 0, UINT64_MAX }, { "007", 0, 7 },
		{ "18446744073709551616", -EINVAL, 0 }, { "99999999999999999999", -EINVAL, 0 },
		{ "340282366920938463463374607431768211456", -EINVAL, 0 }, { "", -EINVAL, 0 }, { "-1", -EINVAL, 0 },
		{ "+1", -EINVAL, 0 }, { " 1", -EINVAL, 0 }, { "1 ", -EINVAL, 0 }, { "0x1", -EINVAL, 0 }, { "1.5", -EINVAL, 0 },
	};
	struct entry none = {};
	uint64_t v;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct entry e = with(ENTRY_BYTES, cases[i].text);

		v = 0;
		EXPECT_EQ(entry_u64(&e, ENTRY_BYTES, &v), cases[i].r);
		EXPECT(v == cases[i].v);
	}
	EXPECT_EQ(entry_u64(&none, ENTRY_BYTES, &v), -ENOENT);
}

TEST(words)
{
	struct entry e = with(ENTRY_EVENT, "sample");

	EXPECT(entry_is(&e, ENTRY_EVENT, "sample"));
	EXPECT(!entry_is(&e, ENTRY_EVENT, "samples"));
	EXPECT(!entry_is(&e, ENTRY_EVENT, "sampl"));
	EXPECT(!entry_is(&e, ENTRY_STATE, "sample"));
	e.field[ENTRY_EVENT].len = 3;
	EXPECT(entry_is(&e, ENTRY_EVENT, "sam"));
}

TEST(the_time_of_the_event_where_it_can_be_true)
{
	static const uint64_t received = UINT64_C(1800000000) * USEC_PER_SEC;
	static const struct {
		const char *text;
		uint64_t usec;
	} cases[] = {
		{ "1799999999500000", UINT64_C(1799999999500000) },
		{ "1800000000000000", received },
		{ "1800000000000001", received }, /* after it was received */
		{ "1799913600000000", UINT64_C(1799913600000000) }, /* a day before */
		{ "1799913599999999", received },
		{ "0", received },
		{ "18446744073709551615", received },
		{ "99999999999999999999", received },
		{ "soon", received },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct entry e = with(ENTRY_TIME_USEC, cases[i].text);

		e.real_usec = received;
		EXPECT_EQ(entry_usec(&e), cases[i].usec);
	}
}

TEST_MAIN()
