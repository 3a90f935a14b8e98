/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/text.h"

#define LOG_LINE_MAX 2048
/* Secrets are looked for in so much: one that the line's end would cut is still whole here. */
#define LOG_TEXT_MAX (8 * LOG_LINE_MAX)

static atomic_int log_maximum = 6;
static pthread_mutex_t budget_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	unsigned int per_minute; /* 0 = no limit */
	uint64_t paid_ns; /* until when the lines so far have used up the time */
	uint64_t left_out, told;
} budget;
static pthread_mutex_t clean_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*clean_fn)(const char *text, struct strbuf *sb, void *userdata);
static void *clean_userdata;
static atomic_size_t log_file_max; /* 0 = no such limit */
static atomic_int log_to_journal = -1; /* -1 = not asked yet */

/* JOURNAL_STREAM names the device and inode of the journal's socket: a child with its own stderr inherits the variable
 * but not the socket. */
static int log_stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	if (!stream || sscanf(stream, "%llu:%llu", &dev, &ino) != 2 || fstat(STDERR_FILENO, &st) < 0)
		return 0;
	return st.st_dev == dev && st.st_ino == ino;
}

void log_set_max(int priority)
{
	atomic_store(&log_maximum, priority);
}

int log_max(void)
{
	return atomic_load(&log_maximum);
}

void log_set_file_max(size_t bytes)
{
	atomic_store(&log_file_max, bytes);
}

/* Two threads at once may both empty it: a line is lost then, of those that were to go. */
static void bound_file(void)
{
	const size_t max = atomic_load(&log_file_max);
	struct stat st;

	if (max && fstat(STDERR_FILENO, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size > max &&
	    ftruncate(STDERR_FILENO, 0) == 0)
		(void)lseek(STDERR_FILENO, 0, SEEK_SET);
}

void log_set_budget(unsigned int lines_per_minute)
{
	pthread_mutex_lock(&budget_lock);
	budget.per_minute = lines_per_minute;
	pthread_mutex_unlock(&budget_lock);
}

unsigned int log_used(void)
{
	uint64_t now = clock_monotonic_ns(), n = 0;

	pthread_mutex_lock(&budget_lock);
	if (budget.per_minute && budget.paid_ns > now)
		n = (budget.paid_ns - now) * budget.per_minute / (60 * NSEC_PER_SEC);
	pthread_mutex_unlock(&budget_lock);
	return (unsigned int)n;
}

uint64_t log_left_out(void)
{
	uint64_t n;

	pthread_mutex_lock(&budget_lock);
	n = budget.left_out;
	pthread_mutex_unlock(&budget_lock);
	return n;
}

/* May this line be written? *ret_missing: how many before it were not, to be told now. */
static bool take_budget(int priority, uint64_t *ret_missing)
{
	const uint64_t now = clock_monotonic_ns();
	bool may = true;

	*ret_missing = 0;
	/* What cannot go on is said in any case; debugging was asked for. */
	if (priority < 4 || priority > 6)
		return true;
	pthread_mutex_lock(&budget_lock);
	if (budget.per_minute) {
		budget.paid_ns = MAX(budget.paid_ns, now);
		may = budget.paid_ns - now < 60 * NSEC_PER_SEC;
		if (may) {
			budget.paid_ns += 60 * NSEC_PER_SEC / budget.per_minute;
			*ret_missing = budget.left_out - budget.told;
			budget.told = budget.left_out;
		} else {
			budget.left_out++;
		}
	}
	pthread_mutex_unlock(&budget_lock);
	return may;
}

void log_set_clean(void (*clean)(const char *text, struct strbuf *sb, void *userdata), void *userdata)
{
	pthread_mutex_lock(&clean_lock);
	clean_fn = clean;
	clean_userdata = userdata;
	pthread_mutex_unlock(&clean_lock);
}

/* In place. Locked so that who takes the function back knows that it is not used any more. */
static void clean_line(char *line, size_t size)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT, plain = STRBUF_INIT;

	pthread_mutex_lock(&clean_lock);
	if (clean_fn)
		clean_fn(line, &sb, clean_userdata);
	else
		strbuf_adds(&sb, line);
	pthread_mutex_unlock(&clean_lock);
	/* A terminal takes some characters beyond ASCII for commands too. */
	text_one_line(&plain, strbuf_str(&sb));
	(void)snprintf(line, size, "%s", sb.error || plain.error ? "a line is left out: out of memory" : strbuf_str(&plain));
}

static void _printf_(2, 0) write_line(int priority, const char *fmt, va_list ap)
{
	char line[LOG_LINE_MAX], text[LOG_TEXT_MAX];
	size_t start = 0, len, off = 0;
	int saved = errno;
	bool is_cut;

	if (atomic_load(&log_to_journal) < 0)
		atomic_store(&log_to_journal, log_stderr_is_journal());
	if (atomic_load(&log_to_journal) == 1)
		start = (size_t)snprintf(line, sizeof(line), "<%d>", priority);

	errno = saved; /* for %m */
	if (vsnprintf(text, sizeof(text), fmt, ap) < 0)
		text[0] = '\0';
	clean_line(text, sizeof(text));
	is_cut = (size_t)snprintf(line + start, sizeof(line) - start, "%s", text) >= sizeof(line) - start;
	len = strlen(line);
	if (is_cut)
		memcpy(line + len - MIN(len - start, 3), "...", MIN(len - start, 3));
	/* Text of a traced process must not start a line, or a terminal sequence, of its own. */
	for (size_t i = start; i < len; i++) {
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = '?';
	}
	line[len++] = '\n'; /* over the NUL */

	bound_file();
	/* One write, so that lines of two threads do not mix. */
	while (off < len) {
		ssize_t w = write(STDERR_FILENO, line + off, len - off);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			break;
		off += (size_t)w;
	}
	errno = saved;
}

static void _printf_(2, 3) write_one(int priority, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	write_line(priority, fmt, ap);
	va_end(ap);
}

void log_linev(int priority, const char *fmt, va_list ap)
{
	int saved = errno;
	uint64_t missing;

	if (priority > log_max() || !take_budget(priority, &missing))
		return;
	if (missing)
		write_one(4, "%llu lines were left out here: too many a minute", (unsigned long long)missing);
	errno = saved;
	write_line(priority, fmt, ap);
}

void log_line(int priority, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_linev(priority, fmt, ap);
	va_end(ap);
}
