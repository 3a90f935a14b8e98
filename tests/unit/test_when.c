/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "base/cleanup.h"
#include "base/when.h"
#include "test.h"

#define SEC UINT64_C(1000000)
/* Mon 2026-11-30 22:15:30.25 in Berlin. */
#define NOW_SEC UINT64_C(1796073330)
#define NOW (NOW_SEC * SEC + 250000)

static void set_zone(const char *zone)
{
	if (setenv("TZ", zone, 1) < 0)
		abort();
	tzset();
}

static int parse(const char *text, uint64_t *ret)
{
	const char *why = NULL;
	int r;

	*ret = UINT64_MAX;
	r = when_parse(text, NOW, ret, &why);
	if (r < 0 && !why)
		abort();
	return r;
}

/* Whole seconds, or UINT64_MAX. */
static uint64_t seconds(const char *text)
{
	uint64_t usec;

	if (parse(text, &usec) < 0)
		return UINT64_MAX;
	if (usec % SEC) {
		printf("# \"%s\" has a fraction\n", text);
		return UINT64_MAX;
	}
	return usec / SEC;
}

#define EXPECT_SEC(text, sec) EXPECT_EQ(seconds(text), (uint64_t)(sec))
#define EXPECT_USEC(text, usec)                                                                                        \
	do {                                                                                                           \
		uint64_t got_;                                                                                         \
		EXPECT_EQ(parse(text, &got_), 0);                                                                      \
		EXPECT_EQ(got_, (uint64_t)(usec));                                                                     \
	} while (0)

static void expect_bad(const char *text, int error, const char *part)
{
	const char *why = NULL;
	uint64_t usec;
	int r = when_parse(text, NOW, &usec, &why);

	if (r != error || !strstr(why, part)) {
		printf("# \"%s\": %d, %s\n", text, r, r < 0 ? why : "no error");
		test_failures++;
	}
}

/* Midnight of 2026-11-30 in Berlin. */
#define TODAY UINT64_C(1795993200)

TEST(days_and_times)
{
	set_zone("Europe/Berlin");
	EXPECT_SEC("2026-11-30 22:00:05", TODAY + 22 * 3600 + 5);
	EXPECT_SEC("2026-11-30 22:00", TODAY + 22 * 3600);
	EXPECT_SEC("2026-11-30", TODAY);
	EXPECT_SEC("26-11-30", TODAY);
	EXPECT_SEC("  2026-11-30   22:00  ", TODAY + 22 * 3600);
	EXPECT_SEC("22:00:05", TODAY + 22 * 3600 + 5);
	EXPECT_SEC("7:05", TODAY + 7 * 3600 + 300);
	EXPECT_SEC("2026-1-3 2:00", TODAY - 331 * 86400 + 7200);
	EXPECT_USEC("2026-11-30 22:00:05.5", (TODAY + 22 * 3600 + 5) * SEC + 500000);
	EXPECT_USEC("22:00:05.000001", (TODAY + 22 * 3600 + 5) * SEC + 1);
	EXPECT_USEC("22:00:05.1234567", (TODAY + 22 * 3600 + 5) * SEC + 123456);
	EXPECT_SEC("23:59:60", TODAY + 86400);
	EXPECT_SEC("2024-02-29", 1709161200);
	EXPECT_SEC("2000-02-29 UTC", 951782400);
	EXPECT_SEC("1970-01-01 01:00", 0);
}

TEST(days_by_name)
{
	set_zone("Europe/Berlin");
	EXPECT_USEC("now", NOW);
	EXPECT_SEC("today", TODAY);
	EXPECT_SEC("yesterday", TODAY - 86400);
	EXPECT_SEC("tomorrow", TODAY + 86400);
	EXPECT_SEC("yesterday 18:00", TODAY - 6 * 3600);
	EXPECT_SEC("Mon 2026-11-30 22:00", TODAY + 22 * 3600);
	EXPECT_SEC("monday 2026-11-30", TODAY);
	EXPECT_SEC("Mon 22:00", TODAY + 22 * 3600);
	expect_bad("Tue 2026-11-30 22:00", -EINVAL, "weekday and date do not agree");
	expect_bad("Sunday 22:00", -EINVAL, "weekday and date do not agree");
	EXPECT_SEC("Mon 2026-11-30 23:59:60", TODAY + 86400);
}

TEST(spans)
{
	EXPECT_USEC("-1h", NOW - 3600 * SEC);
	EXPECT_USEC("1h ago", NOW - 3600 * SEC);
	EXPECT_USEC("+5min", NOW + 300 * SEC);
	EXPECT_USEC("5 min left", NOW + 300 * SEC);
	EXPECT_USEC("-90", NOW - 90 * SEC);
	EXPECT_USEC("- 2h 30min", NOW - 9000 * SEC);
	EXPECT_USEC("-2h30min", NOW - 9000 * SEC);
	EXPECT_USEC("1.5d ago", NOW - 129600 * SEC);
	EXPECT_USEC("2 weeks ago", NOW - 14 * 86400 * SEC);
	EXPECT_USEC("-1m", NOW - 60 * SEC);
	EXPECT_USEC("-1M", NOW - 2629800 * SEC);
	EXPECT_USEC("-1y", NOW - 31557600 * SEC);
	EXPECT_USEC("-3ms", NOW - 3000);
	EXPECT_USEC("-3us", NOW - 3);
	EXPECT_USEC("@1796000000", 1796000000 * SEC);
	EXPECT_USEC("@1796000000.25", 1796000000 * SEC + 250000);
	EXPECT_USEC("@0", 0);
}

TEST(time_zones)
{
	set_zone("Europe/Berlin");
	EXPECT_SEC("2026-11-30T22:00:00Z", TODAY + 23 * 3600);
	EXPECT_SEC("2026-11-30t22:00Z", TODAY + 23 * 3600);
	EXPECT_SEC("2026-11-30T22:00:00", TODAY + 22 * 3600);
	EXPECT_SEC("2026-11-30T22:00:00+02:00", TODAY + 21 * 3600);
	EXPECT_SEC("2026-11-30 22:00 +0530", TODAY + 23 * 3600 - 19800);
	EXPECT_SEC("2026-11-30 22:00 -03", TODAY + 26 * 3600);
	EXPECT_SEC("2026-11-30 22:00:00.5-03:00 ", UINT64_MAX); /* a fraction */
	EXPECT_SEC("2026-11-30 22:00 UTC", TODAY + 23 * 3600);
	EXPECT_SEC("2026-11-30 utc", TODAY + 3600);
	EXPECT_SEC("2026-11-30 22:00 CET", TODAY + 22 * 3600);
	EXPECT_SEC("2026-11-30 22:00 CEST", TODAY + 21 * 3600);
	EXPECT_SEC("2026-07-01 12:00 CET", 1782903600);
	EXPECT_SEC("2026-07-01 12:00 CEST", 1782900000);
	EXPECT_SEC("2026-11-30 22:00 America/New_York", TODAY + 28 * 3600);
	EXPECT_SEC("today UTC", TODAY + 3600);
	EXPECT_SEC("22:00 Asia/Tokyo", TODAY + (22 + 16) * 3600); /* it is tomorrow there */
	EXPECT_STR(getenv("TZ"), "Europe/Berlin");
	EXPECT_SEC("22:00", TODAY + 22 * 3600);
	expect_bad("22:00 Berlin", -EINVAL, "no time zone");
	expect_bad("22:00 ../../etc/passwd", -EINVAL, "no time zone");
	expect_bad("22:00 /etc/localtime", -EINVAL, "no time zone");
	expect_bad("22:00 Europe", -EINVAL, "no time zone");
	unsetenv("TZ");
	(void)seconds("22:00 Asia/Tokyo");
	EXPECT(!getenv("TZ"));
}

/* Clocks go from 02:00 to 03:00, and from 03:00 back to 02:00. */
TEST(changes_of_the_clock)
{
	const uint64_t spring = UINT64_C(1774746000), autumn = UINT64_C(1792890000); /* both 01:00 UTC */

	set_zone("Europe/Berlin");
	EXPECT_SEC("2026-03-29 01:59:59", spring - 1);
	EXPECT_SEC("2026-03-29 02:30", spring + 1800);
	EXPECT_SEC("2026-03-29 03:00", spring);
	EXPECT_SEC("2026-03-29 03:30", spring + 1800);
	EXPECT_SEC("2026-10-25 01:59:59", autumn - 3601);
	EXPECT_SEC("2026-10-25 02:30", autumn - 1800);
	EXPECT_SEC("2026-10-25 02:30 CEST", autumn - 1800);
	EXPECT_SEC("2026-10-25 02:30 CET", autumn + 1800);
	EXPECT_SEC("2026-10-25 03:00", autumn + 3600);
	/* The same whatever was asked before. */
	EXPECT_SEC("2026-07-01 12:00", 1782900000);
	EXPECT_SEC("2026-10-25 02:30", autumn - 1800);
	EXPECT_SEC("2026-01-01 12:00", 1767265200);
	EXPECT_SEC("2026-10-25 02:30", autumn - 1800);
	/* A day of 25 hours. */
	EXPECT_EQ(seconds("2026-10-26") - seconds("2026-10-25"), 90000);
	set_zone("America/New_York");
	EXPECT_SEC("2026-03-08 02:30", 1772955000);
	EXPECT_SEC("2026-11-01 01:30", 1793511000);
	EXPECT_SEC("2026-11-01 01:30 EST", 1793514600);
	set_zone("Australia/Lord_Howe"); /* half an hour */
	EXPECT_SEC("2026-04-05 01:45", 1775313900);
	EXPECT_SEC("2026-10-04 02:15", 1791042300);
}

TEST(what_is_no_time)
{
	static const char *const bad[] = { "", " ", "tuesday", "Mon", "noon", "22", "22:", "22:0x", "22:00:", "22:00:05.",
					   "22:00:05.x", "2026-11", "2026-11-30 22", "2026-11-30T", "2026-11-30Tx",
					   "2026-11-30 22:00 UTC x", "2026/11/30", "126-11-30", "02026-11-30", "2026-11-030",
					   "22:00+02:00 UTC", "2026-11-30 22:00+25:00", "yesterday yesterday", "now 22:00",
					   "2026-11-30 22:00+", "ago", "222:00" };
	char text[400];

	set_zone("Europe/Berlin");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		expect_bad(bad[i], -EINVAL, strstr(bad[i], " UTC x") ? "not a time" : "no");
	memset(text, '1', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	expect_bad(text, -EINVAL, "not a time");
	expect_bad("2026-02-29", -EINVAL, "no such day");
	expect_bad("1900-02-29", -EINVAL, "no such day");
	expect_bad("2026-13-01", -EINVAL, "no such day");
	expect_bad("2026-00-01", -EINVAL, "no such day");
	expect_bad("2026-11-31", -EINVAL, "no such day");
	expect_bad("2026-11-00", -EINVAL, "no such day");
	expect_bad("24:00", -EINVAL, "no such time of day");
	expect_bad("22:60", -EINVAL, "no such time of day");
	expect_bad("22:00:61", -EINVAL, "no such time of day");
	expect_bad("-1fortnight", -EINVAL, "not a length of time");
	expect_bad("-", -EINVAL, "not a length of time");
	expect_bad("+", -EINVAL, "not a length of time");
	expect_bad("--1h", -EINVAL, "not a length of time");
	expect_bad("-h", -EINVAL, "not a length of time");
	expect_bad("-1.h", -EINVAL, "not a length of time");
	expect_bad("@", -EINVAL, "not a length of time");
	expect_bad("1h- ago", -EINVAL, "not a length of time");
	expect_bad("-100y", -ERANGE, "too far away");
	expect_bad("+99999999999999y", -ERANGE, "too far away");
	expect_bad("@99999999999999999999", -ERANGE, "too far away");
	expect_bad("1969-12-31", -ERANGE, "too far away");
	expect_bad("1970-01-01 00:59", -ERANGE, "too far away");
}

/* What journalctl would take it for; UINT64_MAX: nothing. */
static uint64_t systemd_seconds(const char *zone, const char *text)
{
	uint64_t sec = UINT64_MAX;
	char line[512];
	FILE *f;

	(void)snprintf(line, sizeof(line), "TZ=%s systemd-analyze timestamp -- '%s' 2>/dev/null", zone, text);
	f = popen(line, "r");
	if (!f)
		abort();
	while (fgets(line, sizeof(line), f)) {
		const char *at = strstr(line, "UNIX seconds: @");

		if (at)
			sec = strtoull(at + 15, NULL, 10);
	}
	pclose(f);
	return sec;
}

/* Without what systemd's versions differ in: names of zones, ISO 8601, times that exist twice or not at all. */
TEST(as_systemd_takes_it)
{
	static const struct {
		const char *zone, *text;
	} cases[] = {
		{ "Europe/Berlin", "2026-11-30 22:00:05" }, { "Europe/Berlin", "2026-11-30 22:00" },
		{ "Europe/Berlin", "2026-07-01" },	    { "Europe/Berlin", "26-07-01 7:05" },
		{ "Europe/Berlin", "Mon 2026-11-30 22:00" }, { "Europe/Berlin", "Tue 2026-11-30 22:00" },
		{ "Europe/Berlin", "2026-11-30 22:00 UTC" }, { "Europe/Berlin", "2026-11-30 22:00 CEST" },
		{ "Europe/Berlin", "Wed 2026-07-01 12:00:00 CEST" }, { "Europe/Berlin", "@1796000000.5" },
		{ "Europe/Berlin", "2026-03-29 03:00" },    { "Europe/Berlin", "2026-10-25 03:00" },
		{ "America/New_York", "2026-11-30 22:00:05.75" }, { "America/New_York", "24:00" },
		{ "Asia/Kolkata", "2024-02-29 00:00" },	    { "Europe/Berlin", "yesterday 22:0x" },
	};

	if (system("systemd-analyze --version >/dev/null 2>&1") != 0) {
		printf("# skipped: systemd-analyze is not there\n");
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t usec = UINT64_MAX;

		set_zone(cases[i].zone);
		if (parse(cases[i].text, &usec) == 0)
			usec /= SEC;
		if (usec != systemd_seconds(cases[i].zone, cases[i].text)) {
			printf("# %s \"%s\": %" PRIu64 ", not as systemd\n", cases[i].zone, cases[i].text, usec);
			test_failures++;
		}
	}
}

TEST(local_time)
{
	struct tm tm;

	set_zone("Europe/Berlin");
	ASSERT(when_local(NOW, &tm));
	EXPECT_EQ(tm.tm_hour, 22);
	EXPECT_EQ(tm.tm_min, 15);
	EXPECT_STR(tm.tm_zone, "CET");
	EXPECT(!when_local(UINT64_MAX, &tm) || tm.tm_year > 0);
}

TEST_MAIN()
