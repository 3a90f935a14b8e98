/* SPDX-License-Identifier: MIT */
/*
 * Prints, for each new record of a firing quota rule, when a reader could first see it and when journald took it, both in
 * microseconds of the wall clock. It looks again each 0.2 ms, since journald tells waiting readers only 250 ms later.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <systemd/sd-journal.h>

static uint64_t now_usec(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

int main(void)
{
	sd_journal *j;
	uint64_t stamp;
	int r = sd_journal_open(&j, SD_JOURNAL_LOCAL_ONLY);

	if (r < 0 || sd_journal_add_match(j, "GPUXRAY_RULE=quota", 0) < 0 ||
	    sd_journal_add_match(j, "GPUXRAY_STATE=firing", 0) < 0 || sd_journal_seek_tail(j) < 0) {
		fprintf(stderr, "cannot read the journal: %s\n", strerror(-r));
		return 1;
	}
	(void)sd_journal_previous(j);
	(void)sd_journal_get_fd(j); /* starts to watch the folder */
	for (;;) {
		r = sd_journal_next(j);
		if (r < 0)
			return 1;
		if (r == 0) {
			/* New files are only seen by those who watch the folder. */
			(void)sd_journal_process(j);
			usleep(200);
			continue;
		}
		if (sd_journal_get_realtime_usec(j, &stamp) < 0)
			return 1;
		printf("%" PRIu64 " %" PRIu64 "\n", now_usec(), stamp);
		fflush(stdout);
	}
}
