/* SPDX-License-Identifier: MIT */
/* The catalog that `journalctl -x` shows. Run from the top of the source. */
#include <sys/stat.h>

#include "record/fields.h"
#include "record_build.h"

#define CATALOG "contrib/systemd/gpuxray.catalog"

/* Every id has its entry in the catalog, and the catalog knows no other. */
TEST(catalog_is_complete)
{
	_cleanup_fclose_ FILE *f = fopen(CATALOG, "re");
	unsigned seen[EVENT_SUPPRESSED + 1] = {};
	char line[512];

	ASSERT(f);
	while (fgets(line, sizeof(line), f)) {
		bool is_known = false;

		if (strncmp(line, "-- ", 3) != 0)
			continue;
		line[strcspn(line, "\n")] = '\0';
		for (unsigned e = 0; e <= EVENT_SUPPRESSED; e++) {
			if (strcmp(line + 3, field_message_id(e)) == 0) {
				seen[e]++;
				is_known = true;
			}
		}
		if (!is_known)
			printf("# unknown: %s\n", line);
		EXPECT(is_known);
	}
	for (unsigned e = 0; e <= EVENT_SUPPRESSED; e++) {
		if (seen[e] != 1)
			printf("# %s: %u entries\n", field_event_name(e), seen[e]);
		EXPECT_EQ(seen[e], 1);
	}
}

/* Fields that an entry names must be fields. */
TEST(fields_of_the_catalog_exist)
{
	_cleanup_fclose_ FILE *f = fopen(CATALOG, "re");
	char line[512];
	size_t n;
	const struct field_desc *t = fields_table(&n);

	ASSERT(f);
	while (fgets(line, sizeof(line), f)) {
		for (char *p = line; (p = strstr(p, "GPUXRAY_"));) {
			size_t len = strspn(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"), i = 0;

			while (i < n && (strlen(t[i].name) != len || strncmp(t[i].name, p, len) != 0))
				i++;
			if (i == n)
				printf("# %.*s\n", (int)len, p);
			EXPECT(i < n);
			p += len;
		}
	}
}

/* The event of an entry's first line, or -1. */
static int event_of(const char *line)
{
	if (strncmp(line, "-- ", 3) != 0)
		return -1;
	for (int e = 0; e <= (int)EVENT_SUPPRESSED; e++)
		if (strncmp(line + 3, field_message_id((unsigned)e), 32) == 0)
			return e;
	return -1;
}

static struct record *record_of(int event)
{
	_cleanup_(report_freep) struct report *r = make_report((enum report_event)MIN(event, REPORT_EVENT_MAX - 1));
	struct record *rec = NULL;
	char text[] = "x";

	if (event == (int)EVENT_SUPPRESSED) {
		if (record_build_suppressed(text, 1796000000123456, &rec) < 0)
			abort();
		return rec;
	}
	/* The least that is known of somebody. */
	identity_unref(r->id);
	r->id = identity_bare(4711, 5);
	set(&r->device_uuid, NULL);
	r->device_index = -1;
	rec = build(r, NULL, true);
	if (!rec)
		abort();
	return rec;
}

/* Between two @: a field that each record of the event has, for journalctl shows the name of one that is missing. */
TEST(fields_filled_in_are_always_there)
{
	_cleanup_fclose_ FILE *f = fopen(CATALOG, "re");
	_cleanup_(record_freep) struct record *rec = NULL;
	char line[512], name[64];
	unsigned filled = 0;

	ASSERT(f);
	while (fgets(line, sizeof(line), f)) {
		if (line[0] == '#')
			continue;
		if (event_of(line) >= 0) {
			record_free(rec);
			rec = record_of(event_of(line));
		}
		for (char *p = line, *end; (p = strchr(p, '@')); p = end + 1) {
			end = strchr(p + 1, '@');
			ASSERT(rec && end && end - p < (int)sizeof(name));
			(void)snprintf(name, sizeof(name), "%.*s", (int)(end - p - 1), p + 1);
			if (!record_get(rec, name))
				printf("# %s has no %s\n", record_get(rec, "GPUXRAY_EVENT"), name);
			EXPECT(record_get(rec, name));
			filled++;
		}
	}
	EXPECT(filled > 20);
}

/* journalctl sets three columns before each line. */
TEST(lines_are_short)
{
	_cleanup_fclose_ FILE *f = fopen(CATALOG, "re");
	char line[512];

	ASSERT(f);
	while (fgets(line, sizeof(line), f)) {
		size_t len = strcspn(line, "\n");

		if (strncmp(line, "Subject:", 8) == 0 || len <= (line[0] == '#' ? 80 : 77))
			continue;
		printf("# %zu columns: %s", len, line);
		test_failures++;
	}
}

/* journalctl takes it: in a root of its own, all entries are listed. */
TEST(journalctl_takes_it)
{
	char dir[] = "/tmp/gpuxray-catalog-XXXXXX", command[512];
	_cleanup_free_ char *listed = NULL;
	size_t lines = 0, size = 0;
	FILE *p;

	ASSERT(mkdtemp(dir));
	(void)snprintf(command, sizeof(command),
		       "mkdir -p %s/usr/lib/systemd/catalog %s/var/lib/systemd/catalog && cp " CATALOG
		       " %s/usr/lib/systemd/catalog/ && journalctl --root=%s --update-catalog && "
		       "journalctl --root=%s --list-catalog",
		       dir, dir, dir, dir, dir);
	p = popen(command, "re");
	ASSERT(p);
	while (getline(&listed, &size, p) > 0) {
		lines++;
		EXPECT(strstr(listed, "gpuxray"));
	}
	EXPECT_EQ(pclose(p), 0);
	EXPECT_EQ(lines, EVENT_SUPPRESSED + 1);
	(void)snprintf(command, sizeof(command), "rm -rf %s", dir);
	EXPECT_EQ(system(command), 0);
}

TEST_MAIN()
