/* SPDX-License-Identifier: MIT */
/* `gpuxray report`: what happened, from the journal. */
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/when.h"
#include "cmd/cmd.h"
#include "cmd/report_options.h"
#include "history/journal_read.h"
#include "history/render.h"

#define EXIT_NOTHING 3

/* ---- where it goes */

/* Those of the file that it replaces, which may be for few to read; else what the mask leaves. -1 and errno. */
static int set_rights(int fd, const char *target, mode_t mask)
{
	mode_t mode = 0666 & ~mask;
	struct stat st;

	if (stat(target, &st) == 0) {
		mode = st.st_mode & 0777;
		/* Only root may; then the group is another one, which gets no more than everybody. */
		if (fchown(fd, st.st_uid, st.st_gid) < 0)
			mode &= 0707 | (mode & 07) << 3;
	}
	return fchmod(fd, mode);
}

/* Beside the file and then in its place, so that no reader finds half of it. Errors are told. */
static int write_file(const char *path, const char *data, size_t len)
{
	_cleanup_free_ char *real = realpath(path, NULL), *tmp = NULL;
	const char *target = real ?: path;
	mode_t mask = umask(0);
	_cleanup_close_ int fd = -1;
	int r;

	(void)umask(mask);
	if (asprintf(&tmp, "%s.XXXXXX", target) < 0) {
		tmp = NULL;
		return -ENOMEM;
	}
	fd = mkstemp(tmp);
	if (fd < 0)
		return -errno;
	r = file_write_all(fd, data, len);
	if (r == 0 && (set_rights(fd, target, mask) < 0 || fsync(fd) < 0 || rename(tmp, target) < 0))
		r = -errno;
	if (r < 0)
		(void)unlink(tmp);
	return r;
}

/* What is no file, such as /dev/stderr or a pipe, must not be replaced by one. */
static bool is_other_than_file(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

static int write_stream(FILE *f, const char *data, size_t len)
{
	if (fwrite(data, 1, len, f) != len || fflush(f) != 0)
		return -errno;
	return 0;
}

static int write_out(const struct report_options *o, const char *data, size_t len)
{
	const char *where = o->output ?: "standard output";
	int r;

	if (!o->output) {
		r = write_stream(stdout, data, len);
	} else if (is_other_than_file(o->output)) {
		_cleanup_fclose_ FILE *f = fopen(o->output, "we");

		r = f ? write_stream(f, data, len) : -errno;
	} else {
		r = write_file(o->output, data, len);
	}
	if (r < 0)
		fprintf(stderr, "gpuxray report: cannot write %s: %s\n", where, strerror(-r));
	return r;
}

/* ---- how it looks */

static bool is_terminal(const struct report_options *o)
{
	return !o->output && isatty(STDOUT_FILENO);
}

static unsigned text_width(const struct report_options *o)
{
	struct winsize size;

	if (o->width > 0)
		return o->width;
	if (!is_terminal(o) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
		return 80;
	return size.ws_col;
}

static bool has_colour(const struct report_options *o)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	if (o->colour != COLOUR_AUTO)
		return o->colour == COLOUR_ALWAYS;
	return is_terminal(o) && (!no || !*no) && term && *term && strcmp(term, "dumb") != 0;
}

static void add_about(const struct report_options *o, struct strbuf *sb)
{
	if (o->pid > 0)
		strbuf_addf(sb, "process %u", o->pid);
	if (*o->unit)
		strbuf_addf(sb, "%s%s", sb->len > 0 ? " of " : "", o->unit);
}

static int render(const struct report_options *o, const struct story *s, struct strbuf *sb)
{
	_cleanup_strbuf_ struct strbuf about = STRBUF_INIT;
	struct text_options text = {
		.width = text_width(o),
		.has_colour = has_colour(o),
		.is_ascii = strcmp(nl_langinfo(CODESET), "UTF-8") != 0,
		.processes = o->processes,
	};

	switch (o->format) {
	case FORMAT_TEXT:
		add_about(o, &about);
		text.about = about.len > 0 ? strbuf_str(&about) : NULL;
		render_text(s, &text, sb);
		break;
	case FORMAT_JSON:
		render_json(s, sb);
		break;
	case FORMAT_FOLDED:
		render_folded(s, sb);
		break;
	case FORMAT_HTML:
		render_html(s, sb);
		break;
	}
	return sb->error ?: about.error;
}

/* ---- what it tells */

static bool has_nothing(const struct report_options *o, const struct story *s)
{
	/* Records of others were read too. Who goes on holding what it held before needs no record within. */
	return s->processes_len + s->incidents_len + s->failures_len == 0 && (s->records == 0 || o->pid > 0 || *o->unit);
}

static void say_nothing(const struct report_options *o)
{
	_cleanup_strbuf_ struct strbuf about = STRBUF_INIT;
	char from[64] = "?", until[64] = "?";
	struct tm tm;

	add_about(o, &about);
	if (when_local(o->from_usec, &tm))
		(void)strftime(from, sizeof(from), "%Y-%m-%d %H:%M:%S", &tm);
	if (when_local(o->until_usec, &tm))
		(void)strftime(until, sizeof(until), "%Y-%m-%d %H:%M:%S %Z", &tm);
	fprintf(stderr, "gpuxray report: nothing was recorded%s%s from %s to %s: ", about.len > 0 ? " about " : "",
		strbuf_str(&about), from, until);
	if (o->directory || o->files_len > 0)
		fputs("give the time that these journal files are about with --since and --until\n", stderr);
	else
		fputs("is the daemon running (`systemctl status gpuxray`), may you read its records (`journalctl -t gpuxray`), "
		      "or was it before that (--since)?\n",
		      stderr);
}

static int read_story(const struct report_options *o, struct story **ret)
{
	const struct story_options what = { .from_usec = o->from_usec, .until_usec = o->until_usec, .pid = o->pid,
					    .unit = *o->unit ? o->unit : NULL };
	const struct journal_options where = { .directory = o->directory, .files = o->files, .files_len = o->files_len,
					       .is_merged = o->is_merged, .from_usec = o->from_usec,
					       .until_usec = o->until_usec };
	_cleanup_(story_builder_freep) struct story_builder *builder = NULL;
	char why[JOURNAL_WHY_MAX] = "";
	int r = story_builder_new(&what, &builder);

	if (r == 0)
		r = journal_read(&where, builder, why, sizeof(why));
	if (*why)
		fprintf(stderr, "gpuxray report: %s%s\n", r < 0 ? "" : "warning: ", why);
	if (r == 0)
		r = story_finish(builder, o->now_usec, ret);
	if (r < 0 && !*why)
		fprintf(stderr, "gpuxray report: %s\n", strerror(-r));
	return r;
}

int cmd_report(int argc, char **argv)
{
	_cleanup_free_ struct report_options *o = calloc(1, sizeof(*o));
	_cleanup_(story_freep) struct story *s = NULL;
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	bool is_empty;
	int r;

	(void)setlocale(LC_CTYPE, "");
	r = o ? report_options_parse(argc, argv, o) : -ENOMEM;
	if (r != 0)
		return r < 0;
	if (o->format == FORMAT_HTML && is_terminal(o)) {
		fprintf(stderr, "gpuxray report: a page is not for a terminal: name a file, `-o report.html`\n");
		return 1;
	}
	r = read_story(o, &s);
	if (r < 0)
		return 1;
	is_empty = has_nothing(o, s);
	if (is_empty)
		say_nothing(o);
	/* A program that reads the answer gets one. */
	if (is_empty && (o->format == FORMAT_TEXT || o->format == FORMAT_FOLDED))
		return EXIT_NOTHING;
	r = render(o, s, &sb);
	if (r < 0) {
		fprintf(stderr, "gpuxray report: %s\n", strerror(-r));
		return 1;
	}
	if (write_out(o, strbuf_str(&sb), sb.len) < 0)
		return 1;
	return is_empty ? EXIT_NOTHING : 0;
}
