/* SPDX-License-Identifier: MIT */
#include "view/source.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "cmd/daemon.h"
#include "cmd/status_server.h"

#define ANSWER_MS 10000
/* Its start reads the maps of all processes and has the kernel check the programs. */
#define START_MS 60000
/* What is kept, and read, of what an own tracer has said: its end. */
#define SAID_MAX 65536

struct view_source {
	char *socket; /* of the daemon; NULL = an own tracer */
	int fd;	      /* the session, -1 = none */
	pid_t child;
	int said;   /* memfd: the child's stderr, -1 = ours */
	int status; /* of the child that has ended, as waitpid() has it */
};

static void _printf_(3, 4) say(char *reterr, size_t size, const char *fmt, ...)
{
	va_list ap;

	if (!size)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(reterr, size, fmt, ap);
	va_end(ap);
}

/* What the command has open is not the tracer's: a socket that listens would be held by both. */
static void close_others(int fd)
{
	(void)close_range(STDERR_FILENO + 1, (unsigned int)fd - 1, 0);
	(void)close_range((unsigned int)fd + 1, ~0u, 0);
}

/* In the child, for good. */
static void _noreturn_ trace(const struct view_source_options *o, int fd, int said, pid_t parent)
{
	_cleanup_(settings_done) struct settings settings = {};
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	struct daemon_options d = { .settings = &settings, .pids = o->pids, .pids_len = o->pids_len, .sink = SINK_JSON,
				    .is_view = true, .view_fd = fd };
	int null, r;

	/* A key pressed at the terminal is for the command, which takes a last look; a terminal that stops who writes in the
	 * background must not stop the tracer. */
	(void)setpgid(0, 0);
	(void)signal(SIGTTOU, SIG_IGN);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		(void)dup2(null, STDIN_FILENO);
		(void)dup2(null, STDOUT_FILENO);
	}
	if (said >= 0) {
		(void)dup2(said, STDERR_FILENO);
		log_set_file_max(SAID_MAX);
	}
	close_others(fd);
	log_set_max(o->is_verbose ? 7 : 4);
	r = settings_init(&settings);
	if (r == 0)
		r = settings_load("", o->config, &errors, &settings);
	if (r == 0)
		r = settings_add_libraries(&settings, o->libraries, o->libraries_len);
	errors_print(&errors, stderr);
	if (r < 0) {
		log_error("cannot start with this configuration%s", r == -ENOMEM ? ": out of memory" : "");
		_exit(1);
	}
	settings.nvml_interval_ns = MIN(settings.nvml_interval_ns, NSEC_PER_SEC);
	r = daemon_run(&d);
	(void)fflush(stderr);
	_exit(r < 0);
}

/* The last line that the child has said, without who says it; NULL: none. The caller frees it. */
static char *last_said(const struct view_source *s)
{
	_cleanup_free_ char *text = NULL;
	off_t end = s->said < 0 ? -1 : lseek(s->said, 0, SEEK_END);
	const char *line;
	size_t len = 0;

	if (end < 0 || lseek(s->said, MAX(end - SAID_MAX, (off_t)0), SEEK_SET) < 0 ||
	    file_read_fd(s->said, SAID_MAX, &text, &len) < 0)
		return NULL;
	while (len && text[len - 1] == '\n')
		text[--len] = '\0';
	line = strrchr(text, '\n');
	line = line ? line + 1 : text;
	if (strncmp(line, "gpuxray: ", 9) == 0)
		line += 9;
	return *line ? strdup(line) : NULL;
}

/* Why the child has ended; before: what stands before its own words. */
static void say_end(const struct view_source *s, const char *before, char *reterr, size_t size)
{
	_cleanup_free_ char *line = last_said(s);

	if (WIFSIGNALED(s->status))
		say(reterr, size, "the tracer was killed by signal %d (%s)", WTERMSIG(s->status), strsignal(WTERMSIG(s->status)));
	else if (line)
		say(reterr, size, "%s%s", before, line);
	else
		say(reterr, size, "the tracer has ended%s", s->said < 0 ? "" : " without saying why");
}

#define ENDED "the tracer has ended; the last that it said: "

static void end_child(struct view_source *s)
{
	if (s->fd >= 0)
		(void)close(s->fd);
	s->fd = -1;
	/* It ends by itself when its connection does; it detaches its probes, which takes a moment. */
	for (int i = 0; s->child > 0 && i < 500; i++) {
		if (waitpid(s->child, &s->status, WNOHANG) != 0)
			s->child = 0;
		else
			(void)usleep(10000);
	}
	if (s->child > 0) {
		(void)kill(s->child, SIGKILL);
		(void)waitpid(s->child, NULL, 0);
		s->child = 0;
	}
}

static int start_child(struct view_source *s, const struct view_source_options *o, char *reterr, size_t size)
{
	pid_t self = getpid();
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	if (!o->is_verbose)
		s->said = memfd_create("gpuxray-tracer", MFD_CLOEXEC);
	(void)fflush(NULL);
	s->child = fork();
	if (s->child == 0) {
		(void)close(pair[0]);
		trace(o, pair[1], s->said, self);
	}
	(void)close(pair[1]);
	s->fd = pair[0];
	if (s->child < 0) {
		say(reterr, size, "cannot start a tracer: %s", strerror(errno));
		return -errno;
	}
	return 0;
}

static int ask(struct view_source *s, const struct view_query *q, int timeout_ms, struct view **ret)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	_cleanup_free_ char *answer = NULL;
	size_t len = 0;
	int r;

	view_query_encode(q, &line);
	if (line.error)
		return line.error;
	r = status_ask_on(s->fd, strbuf_str(&line), timeout_ms, &answer, &len);
	if (r == 0)
		r = view_decode(answer, len, ret);
	return r == -EINVAL || r == -E2BIG ? -EPROTO : r;
}

/* An own tracer answers when its probes are there. */
static int wait_for_child(struct view_source *s, char *reterr, size_t size)
{
	static const uint32_t nobody = UINT32_MAX;
	const struct view_query q = { .pids = &nobody, .pids_len = 1 };
	_cleanup_(view_freep) struct view *v = NULL;
	int r = ask(s, &q, START_MS, &v);

	if (r == -ENOTCONN) {
		end_child(s);
		say_end(s, "", reterr, size);
		return -EIO;
	}
	if (r < 0)
		say(reterr, size, "the tracer does not answer: %s", strerror(-r));
	return r;
}

static int open_own(struct view_source *s, const struct view_source_options *o, char *reterr, size_t size)
{
	int r = start_child(s, o, reterr, size);

	return r < 0 ? r : wait_for_child(s, reterr, size);
}

/* Nobody listens there. */
static bool is_absent(int r)
{
	return r == -ENOENT || r == -ECONNREFUSED;
}

int view_source_open(const struct view_source_options *o, struct view_source **ret, char *reterr, size_t size)
{
	const char *path = o->socket ? o->socket : status_socket_default();
	_cleanup_(view_source_freep) struct view_source *s = calloc(1, sizeof(*s));
	int r = -ENOENT;

	say(reterr, size, "out of memory");
	if (!s)
		return -ENOMEM;
	s->fd = s->said = -1;
	if (o->kind != VIEW_SOURCE_OWN)
		r = status_connect(path, &s->fd);
	if (r == 0) {
		s->socket = strdup(path);
		r = s->socket ? 0 : -ENOMEM;
	} else if (o->kind != VIEW_SOURCE_DAEMON && is_absent(r)) {
		r = open_own(s, o, reterr, size);
	} else if (is_absent(r)) {
		r = -ENOTCONN;
		say(reterr, size, "no daemon answers at %s: start one with `systemctl start gpuxray` or `gpuxray run`", path);
	} else {
		say(reterr, size, "cannot ask the daemon at %s: %s%s", path, strerror(-r),
		    r == -EACCES    ? " (run as root)" :
		    r == -ETIMEDOUT ? " (it hangs: `systemctl restart gpuxray`)" :
				      "");
	}
	if (r == 0)
		*ret = TAKE_PTR(s);
	return r;
}

void view_source_free(struct view_source *s)
{
	if (!s)
		return;
	if (s->child > 0)
		end_child(s);
	if (s->fd >= 0)
		(void)close(s->fd);
	if (s->said >= 0)
		(void)close(s->said);
	free(s->socket);
	free(s);
}

static int reconnect(struct view_source *s, char *reterr, size_t size)
{
	int r;

	if (s->fd >= 0)
		return 0;
	if (!s->socket) {
		say_end(s, ENDED, reterr, size);
		return -ENOTCONN;
	}
	r = status_connect(s->socket, &s->fd);
	if (r < 0)
		say(reterr, size, "no daemon answers at %s: %s", s->socket, strerror(-r));
	return is_absent(r) ? -ENOTCONN : r;
}

int view_source_ask(struct view_source *s, const struct view_query *q, struct view **ret, char *reterr, size_t size)
{
	bool is_old = s->fd >= 0 && s->socket;
	int r = reconnect(s, reterr, size);

	if (r < 0)
		return r;
	r = ask(s, q, ANSWER_MS, ret);
	if (r == -ENOTCONN && is_old) { /* it was restarted, and may be there already */
		(void)close(s->fd);
		s->fd = -1;
		r = reconnect(s, reterr, size);
		if (r == 0)
			r = ask(s, q, ANSWER_MS, ret);
		else
			return r;
	}
	if (r == 0)
		return 0;
	/* An answer that comes late must not be taken for that of the next question. */
	if (s->socket) {
		(void)close(s->fd);
		s->fd = -1;
		say(reterr, size, "the daemon at %s %s", s->socket,
		    r == -ENOTCONN  ? "has ended, or has no room for one session more" :
		    r == -ETIMEDOUT ? "does not answer" :
		    r == -EPROTO    ? "is of a version that answers otherwise" :
					strerror(-r));
	} else {
		end_child(s);
		if (r == -ENOTCONN)
			say_end(s, ENDED, reterr, size);
		else
			say(reterr, size, "the tracer does not answer: %s", strerror(-r));
		r = r == -ENOMEM ? r : -ENOTCONN;
	}
	return r;
}

bool view_source_is_daemon(const struct view_source *s)
{
	return s->socket != NULL;
}
