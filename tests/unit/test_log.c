/* SPDX-License-Identifier: MIT */
/* How much the log may say. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "test.h"

/* What is logged meanwhile is in a file of ours. */
static int held = -1, file = -1;

static void begin(void)
{
	held = dup(STDERR_FILENO);
	file = memfd_create("log", MFD_CLOEXEC);
	ASSERT(held >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
}

/* The text since; the caller frees it. */
static char *end(void)
{
	char *text = NULL;
	size_t len;

	log_set_file_max(0);
	log_set_budget(0);
	(void)dup2(held, STDERR_FILENO);
	(void)close(held);
	(void)lseek(file, 0, SEEK_SET);
	if (file_read_fd(file, 1 << 20, &text, &len) < 0)
		text = NULL;
	(void)close(file);
	return text ? text : strdup("");
}

static size_t count(const char *text, const char *part)
{
	size_t n = 0;

	for (; (text = strstr(text, part)); text += strlen(part))
		n++;
	return n;
}

TEST(a_file_of_ours_is_bounded_and_has_the_last_words)
{
	_cleanup_free_ char *text = NULL;

	begin();
	log_set_file_max(4096);
	for (int i = 0; i < 1000; i++)
		log_warning("line %d of some length, so that a few of them fill the file", i);
	text = end();
	EXPECT(strlen(text) < 4096 + 128);
	EXPECT(strncmp(text, "line ", 5) == 0);
	EXPECT(strstr(text, "line 999 ") != NULL);
	EXPECT(!strstr(text, "line 0 "));
}

TEST(a_budget_holds_back_what_is_too_much_and_says_so)
{
	_cleanup_free_ char *text = NULL;
	const uint64_t before = log_left_out();

	begin();
	log_set_budget(600);
	for (int i = 0; i < 1000; i++)
		log_notice("line %d.", i);
	EXPECT(log_used() > 590);
	EXPECT(log_left_out() - before >= 390);
	log_error("an error all the same");
	(void)usleep(300000); /* room for three lines */
	log_warning("the next");
	text = end();
	EXPECT(count(text, "line ") >= 600 && count(text, "line ") < 610);
	EXPECT_EQ(count(text, "an error all the same"), 1);
	EXPECT_EQ(count(text, "lines were left out here"), 1);
	EXPECT(strstr(text, "too many a minute\nthe next\n") != NULL);
}

TEST_MAIN()
