/* SPDX-License-Identifier: MIT */
/* Processes that come, go, turn into others, and run Python. */
#include <sys/socket.h>

#include "resolver_make.h"
#include "stack/resolve.h"

/* Its own, and "-" when it is not there. */
static const char *comm_of(pid_t pid)
{
	static struct proc_stat st;

	return proc_stat_read("/proc", (uint32_t)pid, &st) == 0 ? st.comm : "-";
}

#define UP "import os, sys, time; os.write(1, b'x'); "
#define IDLE UP "time.sleep(60)"

/* A real interpreter, whose standard input and output are at the other end of ret_fd. */
static pid_t spawn_python(const char *code, int *ret_fd)
{
	int fds[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		(void)dup2(fds[0], STDIN_FILENO);
		(void)dup2(fds[0], STDOUT_FILENO);
		(void)execl("/usr/bin/python3", "python3", "-c", code, IDLE, NULL);
		_exit(127);
	}
	(void)close(fds[0]);
	*ret_fd = fds[1];
	return pid;
}

/* It runs. */
static bool is_up(int fd)
{
	char c;

	return read(fd, &c, 1) == 1;
}

static struct python_note python_note(struct fixture *f, size_t i)
{
	struct python_note n;

	pthread_mutex_lock(&f->lock);
	n = f->python[i];
	pthread_mutex_unlock(&f->lock);
	return n;
}

static void expect_python(struct fixture *f, size_t i, pid_t pid, uint64_t start_ns)
{
	struct python_note n;

	ASSERT(WAIT_FOR(python_len(f) > i));
	n = python_note(f, i);
	EXPECT_EQ(n.pid, pid);
	EXPECT(!n.is_taken_away);
	EXPECT(n.process.heads && n.process.serial);
	EXPECT_EQ(n.process.start_ns, start_ns);
}

static void expect_no_python(struct fixture *f, size_t i, pid_t pid)
{
	ASSERT(WAIT_FOR(python_len(f) > i));
	EXPECT_EQ(python_note(f, i).pid, pid);
	EXPECT(python_note(f, i).is_taken_away);
}

TEST(python_found_and_forgotten)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_new(16, 64);
	_cleanup_close_ int fd = -1;
	_cleanup_(end_child) pid_t child = spawn_python(IDLE, &fd);
	const uint64_t start_ns = child > 0 ? start_of(child) : 0, asked_ns = clock_monotonic_ns();

	ASSERT(f && start_ns);
	/* At once: it is not set up yet, nor has it run exec, perhaps. */
	resolver_process(f->resolver, (uint32_t)child, start_ns);
	EXPECT(is_up(fd));
	resolver_mapped(f->resolver, (uint32_t)child);
	expect_python(f, 0, child, start_ns);
	EXPECT(clock_monotonic_ns() - asked_ns < 3 * NSEC_PER_SEC);
	EXPECT(WAIT_FOR(stats_of(f).python_processes == 1));
	/* Once is enough. */
	resolver_process(f->resolver, (uint32_t)child, start_ns);
	resolver_mapped(f->resolver, (uint32_t)child);
	resolver_forget(f->resolver, (uint32_t)child, start_ns + NSEC_PER_SEC);
	resolver_forget(f->resolver, (uint32_t)child, start_ns);
	expect_no_python(f, 1, child);
	EXPECT(WAIT_FOR(stats_of(f).python_processes == 0));
	EXPECT_EQ(python_len(f), 2);
}

TEST(python_of_a_start_not_known_yet)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_new(16, 64);
	_cleanup_close_ int fd = -1;
	_cleanup_(end_child) pid_t child = spawn_python(IDLE, &fd);
	const uint64_t start_ns = child > 0 ? start_of(child) : 0;

	ASSERT(f && start_ns && is_up(fd));
	resolver_process(f->resolver, (uint32_t)child, 0);
	expect_python(f, 0, child, 0);
	/* The same: kept, and the probe is told again, with the start. An end of an earlier one is not its own. */
	resolver_forget(f->resolver, (uint32_t)child, start_ns + NSEC_PER_SEC);
	resolver_process(f->resolver, (uint32_t)child, start_ns);
	expect_python(f, 1, child, start_ns);
	EXPECT(python_note(f, 1).process.serial != python_note(f, 0).process.serial);
	EXPECT_EQ(stats_of(f).python_processes, 1);
	/* Another: what was found is no longer so, and nothing is found of one that is not there. */
	resolver_process(f->resolver, (uint32_t)child, start_ns + NSEC_PER_SEC);
	expect_no_python(f, 2, child);
	EXPECT(WAIT_FOR(stats_of(f).python_processes == 0));
	(void)usleep(100000);
	EXPECT_EQ(python_len(f), 3);
}

TEST(another_start_than_was_seen)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_new(16, 64);
	_cleanup_close_ int fd = -1;
	_cleanup_(end_child) pid_t child = spawn_python(IDLE, &fd);
	const uint64_t start_ns = child > 0 ? start_of(child) : 0;

	ASSERT(f && start_ns && is_up(fd));
	resolver_process(f->resolver, (uint32_t)child, 0);
	expect_python(f, 0, child, 0);
	resolver_process(f->resolver, (uint32_t)child, start_ns + NSEC_PER_SEC);
	expect_no_python(f, 1, child);
	EXPECT(WAIT_FOR(stats_of(f).python_processes == 0));
}

/* Not traced yet, so that the exec is not heard of. */
TEST(python_that_becomes_another_program)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_new(16, 64);
	_cleanup_close_ int fd = -1;
	_cleanup_(end_child) pid_t child =
		spawn_python(UP "os.read(0, 1); os.execvp('sleep', ['sleep', '60'])", &fd);
	const uint64_t start_ns = child > 0 ? start_of(child) : 0;

	ASSERT(f && start_ns && is_up(fd));
	resolver_process(f->resolver, (uint32_t)child, 0);
	expect_python(f, 0, child, 0);
	ASSERT(write(fd, "x", 1) == 1 && WAIT_FOR(strcmp(comm_of(child), "sleep") == 0));
	resolver_process(f->resolver, (uint32_t)child, start_ns);
	expect_no_python(f, 1, child);
	EXPECT(WAIT_FOR(stats_of(f).python_processes == 0));
}

/* The probe has forgotten its Python with the exec. */
TEST(python_that_becomes_python)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_new(16, 64);
	_cleanup_close_ int fd = -1;
	_cleanup_(end_child) pid_t child =
		spawn_python(UP "os.read(0, 1); os.execl(sys.executable, 'again', '-c', sys.argv[1])", &fd);
	const uint64_t start_ns = child > 0 ? start_of(child) : 0;
	size_t n;

	ASSERT(f && start_ns && is_up(fd));
	resolver_process(f->resolver, (uint32_t)child, 0);
	expect_python(f, 0, child, 0);
	ASSERT(write(fd, "x", 1) == 1 && is_up(fd));
	resolver_process(f->resolver, (uint32_t)child, start_ns);
	EXPECT(WAIT_FOR(python_len(f) > 1 && !python_note(f, python_len(f) - 1).is_taken_away));
	n = python_len(f);
	expect_python(f, n - 1, child, start_ns);
	EXPECT(WAIT_FOR(stats_of(f).python_processes == 1));
}

TEST(python_that_ends)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_new(16, 64);
	_cleanup_close_ int fd = -1;
	_cleanup_(end_child) pid_t child = spawn_python("pass", &fd);
	const uint64_t start_ns = child > 0 ? start_of(child) : 0;

	ASSERT(f && start_ns);
	resolver_process(f->resolver, (uint32_t)child, start_ns);
	ASSERT(waitpid(child, NULL, 0) == child);
	resolver_forget(f->resolver, (uint32_t)child, start_ns);
	resolver_process(f->resolver, (uint32_t)child, 0);
	(void)usleep(300000);
	/* Whatever was found meanwhile has been taken away. */
	EXPECT(python_len(f) % 2 == 0);
	EXPECT_EQ(stats_of(f).python_processes, 0);
	child = 0;
}

static void expect_gone(struct fixture *f, const struct event_stack *ev, size_t least)
{
	_cleanup_(stack_unrefp) struct stack *s = push_wait(f, ev);

	ASSERT(s && stack_frames(s));
	EXPECT(stack_frames(s)->count >= least);
	EXPECT_EQ(stack_frames(s)->list[0].pc, ev->regs.ip);
	EXPECT(stack_frames(s)->info);
}

TEST(processes_that_are_gone)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_new(16, 64);
	_cleanup_free_ struct event_stack *ev = take_event(1, false);
	_cleanup_(stack_unrefp) struct stack *s = NULL;
	_cleanup_(end_child) pid_t known = fork_idle(), unknown = fork_idle();
	const uint64_t known_ns = start_of(known), unknown_ns = start_of(unknown);
	const pid_t known_pid = known, unknown_pid = unknown;

	ASSERT(f && ev && known_ns && unknown_ns);
	ev->head.pid = (uint32_t)known;
	ev->head.start_ns = known_ns;
	s = push_wait(f, ev);
	ASSERT(s && stack_frames(s));
	EXPECT(!stack_frames(s)->info);
	EXPECT(WAIT_FOR(stats_of(f).learned == 1));
	end_child(&known);
	end_child(&unknown);

	/* Never seen: the innermost frame, and why. */
	ev->head.pid = (uint32_t)unknown_pid;
	ev->head.start_ns = unknown_ns;
	expect_gone(f, ev, 1);
	/* Seen: its mappings are known, and the files that are open. */
	ev->head.pid = (uint32_t)known_pid;
	ev->head.start_ns = known_ns;
	ev->head.stack = 2;
	ev->path++;
	stack_unref(s);
	s = push_wait(f, ev);
	EXPECT(s && stack_frames(s) && stack_frames(s)->count > CHAIN + 2);
	/* Forgotten: as if it had never been seen. */
	resolver_forget(f->resolver, ev->head.pid, known_ns);
	expect_gone(f, ev, 1);
	/* One that never was. */
	resolver_process(f->resolver, 0x7ffffff0, 0);
	ev->head.pid = 0x7ffffff0;
	expect_gone(f, ev, 1);
	resolver_mapped(f->resolver, 0x7ffffff0);
	EXPECT(WAIT_FOR(stats_of(f).queued == 0));
	EXPECT_EQ(python_len(f), 0);
}

/* Those whose end was never heard of do not stay. */
TEST(sweep)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_options(16, 64);
	_cleanup_(end_child) pid_t child = fork_idle(), early = fork_idle(), alive = fork_idle();
	const pid_t pid = child, early_pid = early;
	struct resolve rs = {};

	ASSERT(f && child > 0 && early > 0 && alive > 0 && resolve_init(&rs, &f->options) == 0);
	EXPECT(resolve_process(&rs, (uint32_t)child, start_of(child)));
	EXPECT(resolve_process(&rs, (uint32_t)early, 0));
	EXPECT(resolve_process(&rs, (uint32_t)alive, start_of(alive)));
	/* Another has the pid. */
	EXPECT(resolve_process(&rs, (uint32_t)getpid(), start_of(getpid()) + NSEC_PER_SEC));
	resolve_sweep(&rs);
	EXPECT_EQ(rs.processes.len, 4);
	end_child(&child);
	end_child(&early);
	resolve_sweep(&rs);
	EXPECT(resolve_process_find(&rs, (uint32_t)pid));
	EXPECT(!resolve_process_find(&rs, (uint32_t)early_pid));
	EXPECT(!resolve_process_find(&rs, (uint32_t)getpid()));
	resolve_sweep(&rs);
	EXPECT(!resolve_process_find(&rs, (uint32_t)pid));
	EXPECT(resolve_process_find(&rs, (uint32_t)alive));
	EXPECT_EQ(rs.processes.len, 1);
	resolve_done(&rs);
}

/* Each word of something mapped makes one wait a little, and no more often than that. */
TEST(looking_for_python_no_more_often_than_needed)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_options(16, 64);
	_cleanup_(end_child) pid_t child = fork_idle();
	struct resolve_process *p;
	struct resolve rs = {};
	uint64_t now = clock_monotonic_ns(), due;

	ASSERT(f && child > 0 && resolve_init(&rs, &f->options) == 0);
	p = resolve_process(&rs, (uint32_t)child, start_of(child));
	ASSERT(p);
	EXPECT(p->wants_python);
	EXPECT_EQ(resolve_python_due(&rs, now), UINT64_MAX);
	EXPECT(!p->wants_python && !p->has_python);
	now = clock_monotonic_ns();
	resolve_mapped(p, now);
	EXPECT(p->is_stale && p->wants_python);
	due = p->python_due_ns;
	EXPECT(due >= now + 100 * NSEC_PER_MSEC);
	for (uint64_t i = 1; i < 100; i++)
		resolve_mapped(p, now + i);
	EXPECT_EQ(p->python_due_ns, due);
	/* A stack without Python's frames: soon, but not right after the last look. */
	resolve_python_soon(p, now);
	EXPECT(p->python_due_ns <= due && p->python_due_ns > now);
	resolve_python_soon(p, now + NSEC_PER_SEC);
	EXPECT(p->python_due_ns <= now + NSEC_PER_SEC);
	EXPECT_EQ(resolve_python_due(&rs, p->python_due_ns), UINT64_MAX);
	EXPECT(p->python_next_ns >= clock_monotonic_ns());
	resolve_done(&rs);
}

/* The range of the function is found in the interpreter's own file, and in no other. */
TEST(where_python_runs_its_frames)
{
	_cleanup_(fixture_freep) struct fixture *f = fixture_options(16, 64);
	_cleanup_close_ int fd = -1;
	_cleanup_(end_child) pid_t child = spawn_python(IDLE, &fd);
	const struct mapping *m;
	struct resolve_process *p;
	struct resolve rs = {};

	ASSERT(f && is_up(fd) && resolve_init(&rs, &f->options) == 0);
	p = resolve_process(&rs, (uint32_t)child, start_of(child));
	ASSERT(p);
	resolve_python(&rs, p, clock_monotonic_ns());
	EXPECT(p->has_python && !p->wants_python);
	EXPECT(p->eval_end > p->eval_start && p->eval_end - p->eval_start < 1 << 20);
	m = address_space_find(p->space, p->eval_start);
	ASSERT(m && mapping_is_file(m));
	EXPECT(address_space_find(p->space, p->eval_end - 1) == m);
	EXPECT(strstr(m->path, "python") != NULL);
	resolve_done(&rs);
	EXPECT_EQ(python_len(f), 1);
}

TEST_MAIN()
