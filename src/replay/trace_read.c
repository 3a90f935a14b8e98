/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "replay/trace.h"
#include "replay/trace_form.h"
#include "replay/trace_parse.h"
#include "replay/trace_source.h"
#include "replay/trace_store.h"

#define BUFFER_MAX (2 * TRACE_LINE_MAX) /* several lines, so that the rest of one is seldom moved */
#define VERSION 1
#define HEADER "# gpuxray trace "

struct trace_reader {
	char *name;
	struct trace_source *source;
	char *buf; /* BUFFER_MAX bytes and one for a NUL */
	size_t at, scanned, end; /* at: where the next line begins; no newline between it and scanned */
	bool is_source_over, is_over;
	uint64_t line;
	struct trace_target target;
	struct trace_store stacks;
	struct trace_clock clock;
	bool has_clock, has_item;
};

static int reader_new(const char *name, struct trace_source *source, struct trace_reader **ret)
{
	_cleanup_(trace_closep) struct trace_reader *r = calloc(1, sizeof(*r));

	if (!r) {
		trace_source_free(source);
		return -ENOMEM;
	}
	r->source = source;
	r->clock = (struct trace_clock)TRACE_CLOCK_DEFAULT;
	r->stacks.max_count = TRACE_STACKS_MAX;
	r->stacks.max_bytes = TRACE_STACK_BYTES_MAX;
	r->name = strdup(name);
	r->buf = malloc(BUFFER_MAX + 1);
	if (!r->name || !r->buf)
		return -ENOMEM;
	*ret = TAKE_PTR(r);
	return 0;
}

static int open_file(const char *path, int *ret)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	*ret = TAKE_FD(fd);
	return 0;
}

int trace_open(const char *path, struct errors *errors, struct trace_reader **ret)
{
	const bool is_stdin = strcmp(path, "-") == 0;
	struct trace_source *source;
	int fd = -1, r = 0;

	if (is_stdin)
		fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	else
		r = open_file(path, &fd);
	if (is_stdin && fd < 0)
		r = -errno;
	if (r < 0) {
		(void)errors_add(errors, path, 0, "cannot be opened: %s", strerror(-r));
		return r;
	}
	r = trace_source_fd(fd, &source);
	if (r == 0)
		r = reader_new(is_stdin ? "standard input" : path, source, ret);
	if (r < 0)
		(void)errors_add(errors, path, 0, "cannot be read: %s", strerror(-r));
	return r;
}

int trace_open_text(const char *name, const char *text, size_t len, struct trace_reader **ret)
{
	struct trace_source *source;
	int r = trace_source_text(text, len, &source);

	return r < 0 ? r : reader_new(name, source, ret);
}

void trace_close(struct trace_reader *r)
{
	if (!r)
		return;
	identity_unref(r->target.identity);
	trace_source_free(r->source);
	trace_store_done(&r->stacks);
	free(r->buf);
	free(r->name);
	free(r);
}

/* Nothing can be read behind this. */
static int end_with(struct trace_reader *r, int error)
{
	r->is_over = true;
	return error;
}

/* The source failed in the line after the last whole one. */
static int source_failed(struct trace_reader *r, const struct trace_place *p, int error)
{
	const struct trace_place at = { .errors = p->errors, .name = p->name, .line = r->line + 1 };

	switch (error) {
	case -ENODATA:
		return end_with(r, trace_error(&at, "the compressed data ends in the middle: it was cut, or not written to "
						    "its end; all before this line has been read"));
	case -EBADMSG:
		return end_with(r, trace_error(&at, "the compressed data is damaged: all before this line has been read; "
						    "copy the file anew, or record again"));
	case -ENOMEM:
		return end_with(r, error);
	default:
		(void)trace_error(&at, "cannot be read: %s", strerror(-error));
		return end_with(r, -EIO);
	}
}

/* More bytes behind those that are there. 0 or -errno. */
static int fill(struct trace_reader *r)
{
	ssize_t n;

	if (r->at) {
		memmove(r->buf, r->buf + r->at, r->end - r->at);
		r->scanned -= r->at;
		r->end -= r->at;
		r->at = 0;
	}
	n = trace_source_read(r->source, r->buf + r->end, BUFFER_MAX - r->end);
	if (n < 0)
		return (int)n;
	r->is_source_over = n == 0;
	r->end += (size_t)n;
	return 0;
}

/* Up to the next newline, without it; NUL-terminated in place. 1, 0 = the end, -E2BIG (longer than the buffer: it is
 * skipped), -errno. */
static int take_line(struct trace_reader *r, char **ret, size_t *ret_len)
{
	bool is_skipping = false;

	for (;;) {
		char *newline = memchr(r->buf + r->scanned, '\n', r->end - r->scanned);
		char *begin = r->buf + r->at, *end = newline ? newline : r->buf + r->end;
		int e;

		if (newline || (r->is_source_over && (end > begin || is_skipping))) {
			r->at = r->scanned = (size_t)(end - r->buf) + !!newline;
			r->line++;
			if (is_skipping)
				return -E2BIG;
			*end = '\0';
			*ret = begin;
			*ret_len = (size_t)(end - begin);
			return 1;
		}
		if (r->is_source_over)
			return 0;
		r->scanned = r->end;
		if (r->end - r->at >= TRACE_LINE_MAX + 2) {
			is_skipping = true;
			r->at = r->scanned = r->end = 0;
		}
		e = fill(r);
		if (e < 0)
			return e;
	}
}

/* 1 = a line, 0 = the end, -E2BIG; else negative with its error added. */
static int next_line(struct trace_reader *r, struct trace_place *p, char **ret, size_t *ret_len)
{
	size_t len = 0;
	char *line = NULL;
	int n = take_line(r, &line, &len);

	if (n == 0)
		return end_with(r, 0);
	if (n < 0 && n != -E2BIG)
		return source_failed(r, p, n);
	p->line = r->line;
	if (n > 0 && len > 0 && line[len - 1] == '\r')
		line[--len] = '\0';
	if (n < 0 || len > TRACE_LINE_MAX)
		return -E2BIG;
	*ret = line;
	*ret_len = len;
	return 1;
}

/* A comment that says what the file is: 0, -EINVAL (another version), -ENOENT (it is another comment). */
static int check_version(const struct trace_place *p, char *line)
{
	char *at = line + strlen(HEADER), *word;
	uint64_t version;

	if (strncmp(line, HEADER, strlen(HEADER)) != 0)
		return -ENOENT;
	word = trace_word(&at);
	if (!word || trace_word(&at) || trace_number(word, UINT64_MAX, &version) < 0 || version == 0)
		return -ENOENT;
	if (version == VERSION)
		return 0;
	return trace_error(p, "this is version %llu of a trace, and version %u is the newest that is known here: read it with "
			      "the gpuxray that wrote it",
			   (unsigned long long)version, VERSION);
}

static int take_header(struct trace_reader *r, struct trace_place *p)
{
	char *line = NULL;
	size_t len = 0;
	int n = next_line(r, p, &line, &len);

	p->line = 1;
	if (n == 1)
		n = strlen(line) == len ? check_version(p, line) : -ENOENT;
	else if (n == 0 || n == -E2BIG)
		n = -ENOENT;
	if (n == -ENOENT)
		n = trace_error(p, "this is no recorded trace: its first line must be \"%s%u\"", HEADER, VERSION);
	return n < 0 ? end_with(r, n) : 0;
}

static int take_clock(struct trace_reader *r, const struct trace_place *p, char *rest)
{
	int n;

	if (r->has_item || r->has_clock)
		return trace_error(p, r->has_clock ? "there is a clock line already: leave one out" :
						     "the clock line must come before the first event");
	n = trace_parse_clock(p, rest, &r->clock);
	r->has_clock |= n == 0;
	return n;
}

/* rest is what is behind "stack": of the frames nothing is cut, blanks may belong to them. */
static int take_stack(struct trace_reader *r, const struct trace_place *p, char *rest, const char *end)
{
	const char *word = trace_word(&rest);
	uint64_t number;
	int n;

	if (!word)
		return trace_error(p, "the stack has no number: write stack NUMBER frame;frame...");
	if (trace_number(word, UINT64_MAX, &number) < 0 || number == 0)
		return trace_error(p, "stack " WORD ": its number must be from 1 to 18446744073709551615", word);
	n = trace_store_add(&r->stacks, number, rest, (size_t)(end - rest));
	if (n == -EEXIST)
		return trace_error(p, "stack %llu is there already with other frames: give one of them another number",
				   (unsigned long long)number);
	if (n == -ENOSPC)
		return trace_error(p, "too many stacks: at most %u, of %llu bytes together; cut the trace in parts",
				   TRACE_STACKS_MAX, (unsigned long long)TRACE_STACK_BYTES_MAX);
	return n < 0 ? end_with(r, n) : 0;
}

/* Behind the word if the line begins with it, else NULL. */
static char *behind(char *line, const char *word)
{
	const size_t len = strlen(word);

	if (strncmp(line, word, len) != 0)
		return NULL;
	line += len;
	return *line == ' ' || *line == '\t' || !*line ? line : NULL;
}

/* 1 = an item, 0 = something else. */
static int take(struct trace_reader *r, const struct trace_place *p, char *line, size_t len)
{
	const char *end = line + len;
	char *rest;
	int n;

	if (memchr(line, '\0', len))
		return trace_error(p, "there is a NUL byte in the line: this is not text, or damaged");
	line += strspn(line, " \t");
	if (*line == '#') {
		n = check_version(p, line);
		return n == -ENOENT ? 0 : n;
	}
	if (!*line)
		return 0;
	if ((rest = behind(line, "stack")))
		return take_stack(r, p, rest, end);
	if ((rest = behind(line, "clock")))
		return take_clock(r, p, rest);
	n = trace_parse_item(p, line, &r->target);
	if (n == -ENOMEM)
		return end_with(r, n);
	r->has_item = true;
	return n < 0 ? n : 1;
}

int trace_read(struct trace_reader *r, struct errors *errors, struct trace_item *ret)
{
	struct trace_place p = { .errors = errors, .name = r->name };
	int n = 0;

	if (r->is_over)
		return 0;
	if (r->line == 0)
		n = take_header(r, &p);
	while (n == 0) {
		char *line;
		size_t len;

		n = next_line(r, &p, &line, &len);
		if (n == -E2BIG)
			return trace_error(&p, "the line is longer than %u bytes: is this a trace?", TRACE_LINE_MAX);
		if (n <= 0)
			return n;
		n = take(r, &p, line, len);
	}
	if (n > 0)
		*ret = r->target.item;
	return n;
}

const struct trace_clock *trace_clock(const struct trace_reader *r)
{
	return &r->clock;
}

uint64_t trace_line(const struct trace_reader *r)
{
	return r->line;
}

const char *trace_stack(const struct trace_reader *r, uint64_t stack)
{
	return trace_store_get(&r->stacks, stack);
}
