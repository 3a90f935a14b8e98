/* SPDX-License-Identifier: MIT */
/* The catalog that `journalctl -x` shows. Run from the top of the source. */
#include <sys/stat.h>

#include "record/fields.h"
#include "test.h"

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
