/* SPDX-License-Identifier: MIT */
/* `gpuxray replay`: what the rules would have said about a recording. Two passes: stacks may be told behind their use. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map64.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "record/record.h"
#include "record/sink.h"
#include "replay/player.h"
#include "replay/recorder.h"
#include "replay/trace.h"
#include "rule/settings.h"
#include "stack/stack_text.h"

#define LIST_MAX 256
#define PROGRESS_ITEMS 65536

struct replay {
	const char *path, *config;
	char *rules[LIST_MAX];
	size_t rules_len;
	uint32_t pids[LIST_MAX];
	size_t pids_len;
	enum sink_kind sink_kind;
	uint64_t from_ns, to_ns; /* of the recording's own time */
	double stretch;

	struct settings settings;
	struct redact *redact;
	struct sink *sink;
	char *input; /* standard input or a pipe, read whole: there are two passes; NULL = a file */
	size_t input_len;
	int input_fd; /* ... where it is compressed */
	struct trace_reader *first; /* the pass before: has all the stacks */
	bool has_sites, has_ticks;
	struct player *player;
	struct map64 incidents; /* id of the player -> that of the record; both hashed down */
	struct map64 subjects;	/* how many incidents there were */
	uint64_t first_items; /* of the first pass: a recording may grow meanwhile */
	uint64_t items, last_ns, records;
	int error; /* of a record */
};

static void usage(FILE *f)
{
	fprintf(f,
		"Usage: gpuxray replay FILE [OPTION]...\n"
		"Tells a recording (`gpuxray record`, or a text written by hand) to the rules and shows what they would have\n"
		"said, on the recording's clock. - is standard input.\n\n"
		"      --rules PATH   rule file or directory, repeatable; replaces the search path\n"
		"      --sink SINK    text (the default) or json, one object a line\n"
		"      --from T       leave out what is said before T, in seconds of the recording (or 5m, 1h30m)\n"
		"      --to T         stop there; beyond the end, let time pass until then\n"
		"  -p, --pid PID      only this process, repeatable\n"
		"      --stretch X    everything takes X times as long\n"
		"      --config FILE  configuration (default /etc/gpuxray/gpuxray.conf, which may be absent)\n"
		"  -h, --help\n\n"
		"The same recording and rules give the same records, their incident ids too. A line at the end, on standard\n"
		"error, tells what was read. Exit status: 0, or 1 if the recording or the rules cannot be read.\n");
}

/* ---- options */

static int bad(const char *option, const char *text, const char *what)
{
	fprintf(stderr, "gpuxray replay: %s %s: %s\n", option, text, what);
	return -EINVAL;
}

static int parse_time(const char *option, const char *text, uint64_t *ret)
{
	char *end;
	double sec = strtod(text, &end);

	if (end != text && !*end && sec >= 0 && sec <= (double)PLAYER_TIME_MAX / (double)NSEC_PER_SEC) {
		*ret = (uint64_t)llround(sec * (double)NSEC_PER_SEC);
		return 0;
	}
	return parse_duration(text, ret) < 0 ? bad(option, text, "not a time: seconds, or 5m, or 1h30m") : 0;
}

static int add_pid(struct replay *p, const char *text)
{
	if (p->pids_len == LIST_MAX)
		return bad("--pid", text, "too many of them");
	if (parse_u32(text, &p->pids[p->pids_len]) < 0 || p->pids[p->pids_len] == 0)
		return bad("--pid", text, "not a process id");
	p->pids_len++;
	return 0;
}

static int set_stretch(struct replay *p, const char *text)
{
	char *end;

	p->stretch = strtod(text, &end);
	if (end == text || *end || !(p->stretch > 0) || !isfinite(p->stretch))
		return bad("--stretch", text, "must be a number above 0");
	return 0;
}

static int set_sink(struct replay *p, const char *text)
{
	if (sink_from_name(text, &p->sink_kind) < 0 || (p->sink_kind != SINK_TEXT && p->sink_kind != SINK_JSON))
		return bad("--sink", text, "must be text or json");
	return 0;
}

static int add_rules(struct replay *p, char *path)
{
	if (p->rules_len == LIST_MAX)
		return bad("--rules", path, "too many of them");
	p->rules[p->rules_len++] = path;
	return 0;
}

/* 1 = help was asked for and given. */
static int parse(int argc, char **argv, struct replay *p)
{
	enum { RULES = 256, SINK, FROM, TO, STRETCH, CONFIG };
	static const struct option options[] = {
		{ "rules", required_argument, NULL, RULES }, { "sink", required_argument, NULL, SINK },
		{ "from", required_argument, NULL, FROM },   { "to", required_argument, NULL, TO },
		{ "pid", required_argument, NULL, 'p' },     { "stretch", required_argument, NULL, STRETCH },
		{ "config", required_argument, NULL, CONFIG }, { "help", no_argument, NULL, 'h' },
		{},
	};
	int c, r = 0;

	while (r == 0 && (c = getopt_long(argc, argv, "p:h", options, NULL)) >= 0)
		switch (c) {
		case RULES: r = add_rules(p, optarg); break;
		case SINK: r = set_sink(p, optarg); break;
		case FROM: r = parse_time("--from", optarg, &p->from_ns); break;
		case TO: r = parse_time("--to", optarg, &p->to_ns); break;
		case 'p': r = add_pid(p, optarg); break;
		case STRETCH: r = set_stretch(p, optarg); break;
		case CONFIG: p->config = optarg; break;
		case 'h': usage(stdout); return 1;
		default: return -EINVAL; /* getopt has said why */
		}
	if (r < 0)
		return r;
	if (argc - optind != 1) {
		fprintf(stderr, "gpuxray replay: %s; `gpuxray replay --help` tells how to\n",
			argc == optind ? "which recording? Name its file" : "one recording at a time");
		return -EINVAL;
	}
	p->path = argv[optind];
	return 0;
}

/* ---- reading */

static int read_input(struct replay *p, int fd)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	char buf[65536];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		strbuf_add(&sb, buf, (size_t)n);
		if (sb.error)
			return sb.error;
	}
	p->input_len = sb.len;
	return strbuf_steal(&sb, &p->input);
}

/* What can be read but once, such as the shell's <(...), is read here. What cannot be opened is the reader's to tell. */
static int read_once(struct replay *p)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (strcmp(p->path, "-") == 0)
		return read_input(p, STDIN_FILENO);
	if (stat(p->path, &st) < 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
		return 0;
	fd = open(p->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	return fd < 0 ? 0 : read_input(p, fd);
}

/* What is compressed has to be a file. */
static int store_input(struct replay *p)
{
	const char *at = p->input;
	size_t left = p->input_len;

	p->input_fd = memfd_create("recording", MFD_CLOEXEC);
	if (p->input_fd < 0)
		return -errno;
	while (left) {
		ssize_t n = write(p->input_fd, at, left);

		if (n < 0)
			return -errno;
		at += n;
		left -= (size_t)n;
	}
	return 0;
}

static int open_trace(struct replay *p, struct errors *errors, struct trace_reader **ret)
{
	char path[64];

	if (!p->input)
		return trace_open(p->path, errors, ret);
	if (p->input_fd < 0)
		return trace_open_text(strcmp(p->path, "-") == 0 ? "standard input" : p->path, p->input, p->input_len, ret);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", p->input_fd);
	return trace_open(path, errors, ret);
}

static bool is_wanted(const struct replay *p, uint32_t pid)
{
	for (size_t i = 0; i < p->pids_len; i++) {
		if (p->pids[i] == pid)
			return true;
	}
	return p->pids_len == 0 || pid == 0;
}

/* A text ends in a newline. Where a recorder was killed the file may end anywhere; of compressed data nobody can tell
 * without what the reader has found. */
static bool ends_well(const struct replay *p)
{
	_cleanup_close_ int fd = -1;
	unsigned char head[2] = {};
	char last = '\0';
	off_t size;

	if (p->input)
		return p->input_fd < 0 && (!p->input_len || p->input[p->input_len - 1] == '\n');
	fd = open(p->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || pread(fd, head, 2, 0) != 2 || (head[0] == 0x1f && head[1] == 0x8b))
		return false;
	size = lseek(fd, 0, SEEK_END);
	return size > 0 && pread(fd, &last, 1, size - 1) == 1 && last == '\n';
}

/* All stacks, and whether the file is sound. */
static int pass_first(struct replay *p, struct errors *errors)
{
	bool is_bad_end = false; /* the last that was read is wrong */
	struct trace_item item;
	int r = open_trace(p, errors, &p->first);

	if (r < 0)
		return r;
	while ((r = trace_read(p->first, errors, &item)) != 0) {
		if (r < 0 && r != -EINVAL)
			return r;
		is_bad_end = r < 0;
		p->has_ticks |= r > 0 && item.type == TRACE_TICK;
		p->first_items += r > 0;
		p->has_sites |= r > 0 && item.type == TRACE_SITE;
	}
	if (is_bad_end && p->first_items && errors->error_count == 1 && !ends_well(p)) {
		errors->list[errors->len - 1].is_warning = true;
		errors->error_count--;
	}
	return errors->error_count ? -EINVAL : 0;
}

/* ---- what is said */

/* Derived from what it is about, so that two replays can be compared; as an incident goes on it keeps its id. */
static int name_incident(struct replay *p, struct report *r)
{
	const uint64_t theirs = hash_bytes(0, r->incident, sizeof(r->incident)) ?: 1;
	uint64_t subject = hash_str(hash64((uint64_t)r->scope + 1), r->rule ?: ""), id;
	uint64_t *halves = (uint64_t[2]){};

	if (r->seq == 0)
		return 0;
	id = (uintptr_t)map64_get(&p->incidents, theirs);
	if (!id) {
		uint64_t n;

		subject = hash64(subject ^ (r->id ? r->id->pid : 0));
		subject = hash_str(subject, r->scope_key ?: "");
		if (r->scope == SCOPE_STACK)
			subject = hash64(subject ^ player_stack_number(p->player, r->stack));
		n = (uintptr_t)map64_get(&p->subjects, subject) + 1;
		if (map64_put(&p->subjects, subject, (void *)(uintptr_t)n) < 0)
			return -ENOMEM;
		id = hash64(subject + n) ?: 1;
		if (r->state != STATE_RESOLVED && map64_put(&p->incidents, theirs, (void *)(uintptr_t)id) < 0)
			return -ENOMEM;
	} else if (r->state == STATE_RESOLVED) {
		(void)map64_remove(&p->incidents, theirs);
	}
	halves[0] = id;
	halves[1] = hash64(id);
	memcpy(r->incident, halves, sizeof(r->incident));
	return 0;
}

static int make_stack(struct replay *p, const struct report *r, struct stack_text **ret)
{
	const uint64_t number = r->stack ? player_stack_number(p->player, r->stack) : 0;
	const char *frames = number ? trace_stack(p->first, number) : NULL;
	uint64_t id;
	int q;

	if (frames) {
		frames = recorder_stack_id(frames, &id);
		return trace_stack_text(frames, id ?: trace_site_key(frames), ret);
	}
	if (!r->stack && (r->stack_reason == STACK_OK || r->stack_reason == STACK_NONE))
		return 0;
	q = stack_text_new(0, ret);
	if (q < 0 || !r->stack)
		return q < 0 ? q : stack_text_explain(*ret, NULL, false, NULL, r->stack_reason, false);
	(*ret)->info = strdup("the recording does not tell its frames");
	return (*ret)->info ? 0 : -ENOMEM;
}

static int say(struct replay *p, struct report *r)
{
	_cleanup_(stack_text_freep) struct stack_text *st = NULL;
	_cleanup_(record_freep) struct record *rec = NULL;
	int q = name_incident(p, r);

	if (q == 0)
		q = make_stack(p, r, &st);
	if (q == 0)
		q = record_build(r, st, false, p->redact, &rec);
	if (q == 0)
		q = p->sink->ops->write(p->sink, rec);
	p->records += q == 0;
	return q;
}

static void report_cb(struct report *r, uint64_t time_ns, void *userdata)
{
	struct replay *p = userdata;

	/* The ids of those left out count too. */
	if ((double)time_ns >= (double)p->from_ns * p->stretch) {
		int q = p->error ? 0 : say(p, r);

		if (q < 0)
			p->error = q;
	} else {
		(void)name_incident(p, r);
	}
	report_free(r);
}

static const char *stack_cb(uint64_t stack, void *userdata)
{
	return trace_stack(((struct replay *)userdata)->first, stack);
}

static void clean_cb(const char *text, struct strbuf *sb, void *userdata)
{
	redact_text(((struct replay *)userdata)->redact, text, sb);
}

/* ---- the replay */

static void show_progress(const struct replay *p, bool is_last)
{
	char span[FORMAT_UNITS_MAX];

	if (!isatty(STDERR_FILENO))
		return;
	if (is_last)
		fputs("\r\x1b[K", stderr);
	else
		fprintf(stderr, "\r%llu items, %s\x1b[K", (unsigned long long)p->items,
			format_duration(span, p->last_ns / NSEC_PER_SEC * NSEC_PER_SEC));
}

static int feed(struct replay *p, const struct trace_reader *reader, const struct trace_item *item, struct errors *errors)
{
	int r;

	p->items++;
	p->last_ns = MAX(p->last_ns, item->time_ns);
	r = player_feed(p->player, item);
	if (r == -EINVAL)
		errors_add(errors, p->path, (int)MIN(trace_line(reader), (uint64_t)INT32_MAX),
			   "%s: not what a daemon can be told, or too late: times end at %llu days", trace_type_name(item->type),
			   (unsigned long long)(PLAYER_TIME_MAX / NSEC_PER_SEC / 86400));
	return r;
}

static int pass_second(struct replay *p, struct errors *errors)
{
	_cleanup_errors_ struct errors again = ERRORS_INIT; /* as in the first pass */
	_cleanup_(trace_closep) struct trace_reader *reader = NULL;
	uint64_t shown_ns = clock_monotonic_ns();
	struct trace_item item;
	uint64_t left = p->first_items;
	int r = open_trace(p, errors, &reader);

	while (r >= 0 && !p->error && left-- > 0 && (r = trace_read(reader, &again, &item)) > 0) {
		if (item.time_ns > p->to_ns)
			break;
		if (is_wanted(p, item.pid))
			r = feed(p, reader, &item, errors);
		if (p->items % PROGRESS_ITEMS == 0 && clock_monotonic_ns() - shown_ns >= NSEC_PER_SEC) {
			shown_ns = clock_monotonic_ns();
			show_progress(p, false);
		}
	}
	show_progress(p, true);
	if (r < 0)
		return r;
	if (p->to_ns != UINT64_MAX) {
		player_pass(p->player, player_stretch(p->player, p->to_ns));
		p->last_ns = MAX(p->last_ns, p->to_ns);
	} else if (!p->has_ticks) {
		player_tick(p->player);
	}
	return 0;
}

static int load_rules(struct replay *p, struct errors *errors, struct ruleset **ret)
{
	bool own = p->rules_len > 0;

	return ruleset_load("", own ? p->rules : p->settings.rules, own ? p->rules_len : p->settings.rules_len, errors, ret);
}

static int prepare(struct replay *p, struct errors *errors, struct ruleset **ret)
{
	int r = settings_init(&p->settings);

	if (r == 0)
		r = settings_load("", p->config, errors, &p->settings);
	if (r == 0)
		r = load_rules(p, errors, ret);
	if (r == 0)
		r = redact_new(p->settings.redact, p->settings.redact_len, errors, &p->redact);
	if (r == 0)
		redact_omit(p->redact, p->settings.omit);
	if (r == 0)
		r = p->sink_kind == SINK_JSON ? sink_json_open(STDOUT_FILENO, &p->sink) :
						sink_text_open(STDOUT_FILENO, &p->sink);
	if (r == 0)
		r = read_once(p);
	if (r == 0 && p->input_len > 1 && memcmp(p->input, "\x1f\x8b", 2) == 0)
		r = store_input(p);
	return r;
}

static void say_end(const struct replay *p)
{
	struct player_stats s;
	char span[FORMAT_UNITS_MAX];

	player_stats(p->player, &s);
	fprintf(stderr, "gpuxray: %llu items over %s: %llu records", (unsigned long long)p->items,
		format_duration(span, p->last_ns / NSEC_PER_MSEC * NSEC_PER_MSEC), (unsigned long long)p->records);
	if (s.unknown_frees)
		fprintf(stderr, "; %llu frees of blocks that the recording does not have", (unsigned long long)s.unknown_frees);
	if (s.replaced)
		fprintf(stderr, "; %llu blocks whose free it does not have", (unsigned long long)s.replaced);
	fputc('\n', stderr);
}

static int replay(struct replay *p, struct errors *errors)
{
	_cleanup_(ruleset_freep) struct ruleset *rules = NULL;
	struct player_options o = { .stretch = p->stretch, .report = report_cb, .stack = stack_cb, .clean = clean_cb,
				    .userdata = p };
	int r = prepare(p, errors, &rules);

	if (r == 0)
		r = pass_first(p, errors);
	if (r < 0)
		return r;
	o.limits = p->settings.limits;
	o.clock = *trace_clock(p->first);
	o.has_sites = p->has_sites;
	o.has_ticks = p->has_ticks;
	o.omit = redact_omitted(p->redact);
	r = player_new(&o, TAKE_PTR(rules), &p->player);
	if (r == 0)
		r = pass_second(p, errors);
	if (r == 0)
		r = p->error;
	return r;
}

static void replay_done(struct replay *p)
{
	player_free(p->player);
	trace_close(p->first);
	map64_done(&p->incidents);
	map64_done(&p->subjects);
	sink_close(p->sink);
	redact_free(p->redact);
	settings_done(&p->settings);
	free(p->input);
	closep(&p->input_fd);
}

int cmd_replay(int argc, char **argv)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	struct replay p = { .sink_kind = SINK_TEXT, .to_ns = UINT64_MAX, .stretch = 1, .input_fd = -1 };
	int r = parse(argc, argv, &p);

	if (r != 0)
		return r > 0 ? 0 : 1;
	r = replay(&p, &errors);
	errors_print(&errors, stderr);
	if (r < 0 && !errors.error_count)
		fprintf(stderr, "gpuxray replay: %s: %s\n", p.error ? "the records cannot be written" : p.path, strerror(-r));
	if (r == 0)
		say_end(&p);
	replay_done(&p);
	return r < 0 ? 1 : 0;
}
