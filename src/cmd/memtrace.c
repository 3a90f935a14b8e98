/* SPDX-License-Identifier: MIT */
/* `gpuxray memtrace`: looks at processes again and again, from the daemon's views or those of a tracer of its own. */
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/memtrace_ask.h"
#include "cmd/memtrace_options.h"
#include "cmd/memtrace_targets.h"
#include "memtrace/json.h"
#include "memtrace/select.h"
#include "memtrace/text.h"
#include "proc/procfs.h"

/* How long an answer may take to tell of an end that the kernel has told, and how often it is asked for. */
#define END_NS (2 * NSEC_PER_SEC)
#define END_ASK_NS (50 * NSEC_PER_MSEC)
/* On a host with so few processes the call sites of all are asked for: of one that comes and goes between two looks they
 * are told too. */
#define FEW_PROCESSES 32
#define FEW_ROWS 5

struct memtrace {
	const struct memtrace_options *o;
	struct asker asker;
	struct selection *selection;
	struct named named[VIEW_PIDS_MAX];
	struct targets targets;
	uint32_t chosen[VIEW_PIDS_MAX]; /* in the last answer: their sites are asked for */
	size_t chosen_len;
	struct past past;
	struct view *last; /* NULL = none yet */
	struct strbuf out;
	struct memtrace_text text;
	bool is_terminal, has_header, is_nobody_told;
	size_t rows; /* written since the header */
	bool is_stopped; /* by a signal, or nobody reads */
	bool is_unread;
};

static void memtrace_done(struct memtrace *m)
{
	targets_done(&m->targets);
	selection_free(m->selection);
	asker_done(&m->asker);
	view_free(m->last);
	past_done(&m->past);
	memtrace_text_done(&m->text);
	strbuf_done(&m->out);
}

/* ---- targets */

/* As pidfd_open(2), which glibc has from 2.36 on; -1 and errno. */
static int open_pidfd(uint32_t pid)
{
	return (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
}

static bool is_open_ended(const struct memtrace *m)
{
	return m->o->comm || m->o->unit;
}

static bool has_pids_only(const struct memtrace *m)
{
	return !is_open_ended(m) && !m->o->has_descendants;
}

static void drop_target(struct memtrace *m, struct target *t)
{
	past_forget(&m->past, t->pid, t->start_ticks);
	targets_drop(&m->targets, t);
}

/* 0, or -errno after saying why. */
static int name_pid(struct memtrace *m, size_t i)
{
	const uint32_t pid = m->o->pids[i];
	_cleanup_close_ int fd = open_pidfd(pid);
	struct proc_stat st;
	struct target *t;

	if (fd < 0 || proc_stat_read("/proc", pid, &st) < 0) {
		const int r = fd < 0 ? -errno : -ESRCH;

		if (r == -ESRCH)
			memtrace_say("no process has the pid %u", pid);
		else if (r == -EINVAL || r == -ENOENT)
			memtrace_say("%u is a thread: name its process, whose pid is the Tgid of /proc/%u/status", pid, pid);
		else
			memtrace_say("cannot look at process %u: %s", pid, strerror(-r));
		return r;
	}
	m->named[i] = (struct named){ .pid = pid, .start_ticks = st.start_ticks };
	t = targets_add(&m->targets, pid, st.start_ticks, TAKE_FD(fd));
	if (!t)
		return -ENOMEM;
	t->is_named = true;
	(void)snprintf(t->comm, sizeof(t->comm), "%s", st.comm);
	return 0;
}

static struct target *target_of(struct memtrace *m, const struct view_process *p)
{
	struct target *t = targets_find(&m->targets, p->pid, p->start_ticks);
	int fd;

	if (t)
		return t;
	fd = p->is_ended ? -1 : open_pidfd(p->pid);
	/* Now that it is held, another process cannot be meant. */
	if (fd >= 0 && !process_is_same("/proc", p->pid, p->start_ticks))
		closep(&fd);
	return targets_add(&m->targets, p->pid, p->start_ticks, fd);
}

/* ---- lines */

static size_t text_width(const struct memtrace *m, size_t *ret_rows)
{
	struct winsize size;

	*ret_rows = 0;
	if (!m->is_terminal)
		return TEXT_WIDTH_ALL;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
		return 80;
	*ret_rows = size.ws_row;
	return size.ws_col;
}

/* Of the terminal, which wraps what is longer than that. */
static size_t count_rows(const struct strbuf *sb, size_t from, size_t width)
{
	size_t n = 0, column = 0;

	for (size_t i = from; i < sb->len; i++) {
		column = sb->buf[i] == '\n' ? 0 : column + 1;
		n += sb->buf[i] == '\n' || column % width == 0;
	}
	return n;
}

static void add_header(struct memtrace *m)
{
	size_t screen;

	m->text.pen.width = text_width(m, &screen);
	if (m->has_header && (screen < FEW_ROWS || m->rows + 1 < screen))
		return;
	m->rows = 0;
	m->has_header = true;
	memtrace_text_header(&m->text);
}

/* is_late: v is the last answer, the end itself is in none. */
static int show_process(struct memtrace *m, const struct view *v, struct view_process *p, bool is_late)
{
	struct past_process *pp = past_get(&m->past, p);
	const size_t from = m->out.len;

	if (!pp)
		return -ENOMEM;
	if (m->o->is_json) {
		memtrace_json(v, p, pp, &m->out);
	} else {
		add_header(m);
		if (p->is_ended)
			memtrace_text_end(&m->text, v, p, pp, is_late);
		else
			memtrace_text_process(&m->text, v, p, pp);
		m->rows += count_rows(&m->out, from, m->text.pen.width);
	}
	return past_take(pp, p, v->totals.real_usec);
}

/* Nobody who reads is no error. */
static int write_out(struct memtrace *m)
{
	int r = m->out.error;

	if (r == 0 && m->out.len > 0 && (fwrite(m->out.buf, 1, m->out.len, stdout) != m->out.len || fflush(stdout) != 0))
		r = -errno;
	strbuf_reset(&m->out);
	if (r == -EPIPE) {
		m->is_stopped = m->is_unread = true;
		return 0;
	}
	if (r < 0)
		memtrace_say("cannot write: %s", strerror(-r));
	return r;
}

/* Of JSON on standard output it must not be a part. */
static int summarize(struct memtrace *m)
{
	memtrace_text_summaries(&m->text, &m->past);
	if (!m->o->is_json)
		return write_out(m);
	fputs(strbuf_str(&m->out), stderr);
	return m->out.error;
}

/* ---- questions */

static bool is_asked(const struct view_query *q, uint32_t pid)
{
	return (q->site_pids_len > 0 || q->sites_max > 0) && view_pids_have(q->site_pids, q->site_pids_len, pid);
}

static void make_query(struct memtrace *m, uint32_t pids[VIEW_PIDS_MAX], struct view_query *ret)
{
	*ret = (struct view_query){ .sites_max = m->o->sites_max, .ends = true };
	if (has_pids_only(m)) {
		for (size_t i = 0; i < m->targets.len; i++)
			pids[i] = m->targets.list[i].pid;
		ret->pids = pids;
		ret->pids_len = m->targets.len;
	} else if (!m->last || m->last->processes_len > FEW_PROCESSES) {
		ret->site_pids = m->chosen;
		ret->site_pids_len = m->chosen_len;
		if (m->chosen_len == 0)
			ret->sites_max = 0;
	}
}

/* ---- looks */

static int proc_ancestor(uint32_t pid, uint32_t *ret_ppid, uint64_t *ret_start_ticks, void *userdata)
{
	struct proc_stat st;
	int r = proc_stat_read("/proc", pid, &st);

	if (r < 0)
		return r;
	*ret_ppid = st.ppid;
	*ret_start_ticks = st.start_ticks;
	return 0;
}

/* A process that executes another program may be told as one that ends. */
static void note_end(struct memtrace *m, struct target *t)
{
	if (target_has_ended(t))
		drop_target(m, t);
	else
		past_forget(&m->past, t->pid, t->start_ticks);
}

static int show_chosen(struct memtrace *m, const struct view *v, struct view_process **list, size_t len, bool is_tick)
{
	int r = 0;

	for (size_t i = 0; i < len && r == 0; i++) {
		struct view_process *p = list[i];
		struct target *t = target_of(m, p);

		if (!t)
			return -ENOMEM;
		t->is_seen = t->is_in_last = true;
		/* Of one that ended before the tracer could read it we may know more. */
		if (!p->comm && *t->comm && view_set(&p->comm, t->comm) < 0)
			return -ENOMEM;
		/* Of one whose end is known what it was before is no news. */
		if (p->is_ended || (is_tick && !t->ended_ns))
			r = show_process(m, v, p, false);
		if (p->is_ended)
			note_end(m, t);
	}
	return r;
}

/* Who is gone from the answers without a word, and holds nothing open to us. */
static void drop_lost(struct memtrace *m)
{
	for (size_t i = m->targets.len; i-- > 0;) {
		struct target *t = &m->targets.list[i];

		if (!t->is_in_last && t->pidfd < 0 && !t->is_named)
			drop_target(m, t);
	}
}

static void tell_waiting(struct memtrace *m)
{
	bool is_somebody_seen = false;

	for (size_t i = 0; i < m->targets.len; i++)
		is_somebody_seen = is_somebody_seen || m->targets.list[i].is_seen;
	if (is_open_ended(m) && m->targets.len == 0 && !m->is_nobody_told) {
		m->is_nobody_told = true;
		memtrace_say("no process with GPU memory is meant yet: waiting");
	}
	for (size_t i = 0; i < m->targets.len; i++) {
		struct target *t = &m->targets.list[i];
		_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

		if (!t->is_named || t->is_seen || t->is_waiting_told || t->ended_ns ||
		    (m->o->has_descendants && is_somebody_seen))
			continue;
		t->is_waiting_told = true;
		memtrace_text_name(t->pid, t->comm, &name);
		memtrace_say("no call of %s to a GPU library has been seen yet: waiting", strbuf_str(&name));
	}
}

/* Notes who is meant. True where some are whose sites were not asked for. */
static bool note_chosen(struct memtrace *m, const struct view_query *q, struct view_process **list, size_t len)
{
	uint32_t pids[VIEW_PIDS_MAX]; /* q points to the old ones */
	bool is_missing = false;
	size_t n = 0;

	for (size_t i = 0; i < len && n < VIEW_PIDS_MAX; i++) {
		if (list[i]->is_ended)
			continue;
		is_missing = is_missing || !is_asked(q, list[i]->pid);
		pids[n++] = list[i]->pid;
	}
	memcpy(m->chosen, pids, n * sizeof(m->chosen[0]));
	m->chosen_len = n;
	return is_missing;
}

/* One question and its answer: *ret_again where another one is needed, which tells the sites; of this one the ends alone
 * were shown. */
static int look_once(struct memtrace *m, bool is_tick, bool is_last, bool *ret_again)
{
	_cleanup_(view_freep) struct view *v = NULL;
	_cleanup_free_ struct view_process **list = NULL;
	uint32_t pids[VIEW_PIDS_MAX];
	struct view_query q;
	size_t len = 0;
	int r;

	*ret_again = false;
	make_query(m, pids, &q);
	r = asker_ask(&m->asker, &q, &v);
	if (r < 0 || !v)
		return r;
	r = selection_choose(m->selection, v, proc_ancestor, NULL, &list, &len);
	if (r < 0)
		return r;
	*ret_again = note_chosen(m, &q, list, len) && !is_last;
	for (size_t i = 0; i < m->targets.len; i++)
		m->targets.list[i].is_in_last = false;
	r = show_chosen(m, v, list, len, is_tick && !*ret_again);
	if (r < 0)
		return r;
	drop_lost(m);
	view_free(m->last);
	m->last = TAKE_PTR(v);
	return write_out(m);
}

/* is_tick: not for ends alone. */
static int look(struct memtrace *m, bool is_tick)
{
	bool wants_sites;
	int r = look_once(m, is_tick, false, &wants_sites);

	if (r == 0 && wants_sites)
		r = look_once(m, is_tick, true, &wants_sites);
	if (r == 0 && is_tick && m->last)
		tell_waiting(m);
	return r;
}

static struct view_process *find_last(struct memtrace *m, const struct target *t)
{
	for (size_t i = 0; m->last && i < m->last->processes_len; i++) {
		struct view_process *p = &m->last->processes[i];

		if (p->pid == t->pid && p->start_ticks == t->start_ticks)
			return p;
	}
	return NULL;
}

/* Its end is in no answer: what was known last, or that nothing is known. */
static int end_unheard(struct memtrace *m, struct target *t)
{
	struct view_process *p = find_last(m, t);
	int r = 0;

	if (p) {
		p->is_ended = true;
		p->is_exact = false;
		r = show_process(m, m->last, p, true);
	} else if (t->is_named) {
		_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

		memtrace_text_name(t->pid, t->comm, &name);
		memtrace_say("%s has ended%s", strbuf_str(&name), t->is_seen ? "" : ", and no call to a GPU library was seen");
	}
	drop_target(m, t);
	return r ?: write_out(m);
}

static int end_overdue(struct memtrace *m)
{
	const uint64_t now = clock_monotonic_ns();
	int r = 0;

	for (size_t i = m->targets.len; i-- > 0 && r == 0;)
		if (m->targets.list[i].ended_ns && now - m->targets.list[i].ended_ns >= END_NS)
			r = end_unheard(m, &m->targets.list[i]);
	return r;
}

/* ---- the loop */

/* Until then, or until something happens. */
static int wait_until(struct memtrace *m, uint64_t deadline_ns)
{
	struct pollfd others[] = { { .fd = STDOUT_FILENO }, { .fd = m->asker.signal_fd, .events = POLLIN } };
	int r = targets_wait(&m->targets, others, ARRAY_SIZE(others), deadline_ns);

	if (r < 0)
		memtrace_say("cannot wait: %s", strerror(-r));
	m->is_unread = others[0].revents & (POLLERR | POLLHUP | POLLNVAL);
	m->is_stopped = m->is_unread || others[1].revents;
	return r;
}

static bool is_finished(const struct memtrace *m, uint64_t looks)
{
	return m->is_stopped || (m->o->count && looks >= m->o->count) || (!is_open_ended(m) && m->targets.len == 0);
}

static int loop(struct memtrace *m)
{
	uint64_t next_ns = clock_monotonic_ns(), looks = 0;
	int r = 0;

	while (r == 0 && !is_finished(m, looks)) {
		uint64_t now = clock_monotonic_ns();

		if (now >= next_ns) {
			r = look(m, true);
			looks++;
			/* Those that it was too late for are left out, the others stay where they would have been. */
			now = clock_monotonic_ns();
			next_ns += ((now > next_ns ? now - next_ns : 0) / m->o->interval_ns + 1) * m->o->interval_ns;
		} else if (targets_have_ends(&m->targets)) {
			r = look(m, false);
		}
		m->is_stopped = m->is_stopped || m->asker.is_given_up;
		if (r == 0)
			r = end_overdue(m);
		if (r == 0 && !is_finished(m, looks))
			r = wait_until(m, targets_have_ends(&m->targets) ? MIN(next_ns, now + END_ASK_NS) : next_ns);
	}
	if (r < 0 || !m->is_stopped || m->is_unread)
		return r;
	if (!m->asker.is_given_up)
		r = look(m, true);
	return r ?: summarize(m);
}

/* Each process takes one, and a daemon that is restarted must be found again. */
static void allow_files(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
}

static int open_signals(struct memtrace *m)
{
	sigset_t set;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	m->asker.signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
	return m->asker.signal_fd < 0 ? -errno : 0;
}

/* Tenths of seconds where that is how often it looks. */
static unsigned digits_of(uint64_t interval_ns)
{
	if (interval_ns % NSEC_PER_SEC == 0)
		return 0;
	return interval_ns % (100 * NSEC_PER_MSEC) == 0 ? 1 : 3;
}

static int open_source(struct memtrace *m)
{
	const struct memtrace_options *o = m->o;
	const struct view_source_options so = {
		.kind = o->is_own ? VIEW_SOURCE_OWN : VIEW_SOURCE_ANY,
		.socket = o->socket, .config = o->config, .libraries = o->libraries, .libraries_len = o->libraries_len,
		.is_verbose = o->is_verbose, .pids = o->pids, .pids_len = has_pids_only(m) ? o->pids_len : 0,
	};

	return asker_open(&m->asker, &so);
}

static int memtrace_run(struct memtrace *m)
{
	const struct selection_options so = { .named = m->named, .named_len = m->o->pids_len, .comm = m->o->comm,
					      .unit = m->o->unit, .has_descendants = m->o->has_descendants };
	int r = 0;

	for (size_t i = 0; i < m->o->pids_len && r == 0; i++)
		r = name_pid(m, i);
	if (r == 0)
		r = open_source(m);
	if (r == 0)
		r = selection_new(&so, &m->selection);
	if (r == 0)
		r = open_signals(m);
	allow_files();
	return r ?: loop(m);
}

int cmd_memtrace(int argc, char **argv)
{
	_cleanup_(memtrace_options_done) struct memtrace_options o;
	_cleanup_(memtrace_done) struct memtrace m = { .o = &o, .asker = ASKER_INIT };
	int r;

	(void)setlocale(LC_CTYPE, "");
	m.is_terminal = isatty(STDOUT_FILENO);
	memtrace_text_init(&m.text, TEXT_WIDTH_ALL, strcmp(nl_langinfo(CODESET), "UTF-8") != 0, &m.out);
	r = memtrace_options_parse(argc, argv, &o);
	if (r != 0)
		return r > 0 ? 0 : 1;
	m.text.is_wide = o.is_wide;
	m.text.has_stacks = o.has_stacks;
	m.text.digits = digits_of(o.interval_ns);
	r = memtrace_run(&m);
	if (r == -ENOMEM)
		memtrace_say("out of memory");
	return r < 0 ? 1 : 0;
}
