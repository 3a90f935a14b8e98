/* SPDX-License-Identifier: MIT */
/*
 * walk OBJECT STANDIN OUTPUT COMMAND...: runs the command with the probe attached and writes the Python frames of every
 * call. The command asks by lines on its stdout: "ready" (look for Python in the process that made its first call since
 * the last time), "drain" (take the calls so far and name their frames while the process lives), "follow" (name them as
 * they come, until "drain"); each is answered by a line on its stdin. Pids are not spoken of: the command may have
 * others than we see.
 * Output: "call PROCESS ARG KNOWN FLAGS NS" and "frame RESULT ENTRY LINE FUNCTION FILE", names in hex.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "proc/procfs.h"
#include "stack/python_code.h"
#include "stack/python_offsets.h"
#include "walk.h"

#define TARGETS_MAX 16

struct target {
	struct memory memory;
	struct python_info info;
};

struct walk {
	int map_fd, starts_fd;
	struct ring_buffer *ring;
	struct python_codes *codes;
	FILE *out;
	struct target targets[TARGETS_MAX];
	size_t count;
	bool is_following;
	pthread_t follower;
	atomic_bool end;
};

static void put_hex(FILE *f, const char *s)
{
	fputc(' ', f);
	for (; *s; s++)
		fprintf(f, "%02x", (unsigned char)*s);
}

static void put_frame(struct walk *w, const struct target *t, const struct python_frame *f)
{
	struct python_name n = { .function = "", .file = "" };
	int r = python_codes_resolve(w->codes, &t->memory, &t->info, f, &n);

	fprintf(w->out, "frame %d %u %u", r, f->entry, n.line);
	put_hex(w->out, n.function);
	put_hex(w->out, n.file);
	fputc('\n', w->out);
}

static int on_event(void *userdata, void *data, size_t size)
{
	struct walk *w = userdata;
	const struct walk_event *e = data;
	const struct target *t = NULL;

	for (size_t i = 0; i < w->count; i++)
		if (w->targets[i].memory.pid == e->pid)
			t = &w->targets[i];
	fprintf(w->out, "call %d %llu %u %u %llu\n", t ? (int)(t - w->targets) : -1, (unsigned long long)e->arg,
		e->known, e->known ? e->stack.flags : 0, (unsigned long long)e->ns);
	for (uint32_t i = 0; e->known && t && i < e->stack.count; i++)
		put_frame(w, t, &e->stack.frame[i]);
	return 0;
}

/* The process that is in the map of starts and no target yet. */
static int new_process(struct walk *w, uint32_t *ret_pid, uint64_t *ret_start)
{
	uint32_t pid = 0, *previous = NULL;

	for (; bpf_map_get_next_key(w->starts_fd, previous, &pid) == 0; previous = &pid) {
		bool is_known = false;

		for (size_t i = 0; i < w->count; i++)
			is_known |= w->targets[i].memory.pid == pid;
		if (!is_known) {
			*ret_pid = pid;
			return bpf_map_lookup_elem(w->starts_fd, &pid, ret_start);
		}
	}
	return -ENOENT;
}

static int ready(struct walk *w)
{
	struct target *t = &w->targets[w->count];
	uint64_t start_ns;
	uint32_t pid;
	int r;

	if (w->count == TARGETS_MAX)
		return -E2BIG;
	r = new_process(w, &pid, &start_ns);
	if (r < 0)
		return r;
	t->memory = memory_of("/proc", pid, start_ns);
	r = python_find(&t->memory, 100 + (uint32_t)w->count, &t->info);
	if (r < 0)
		return r;
	w->count++;
	fprintf(w->out, "python %x\n", t->info.version);
	return bpf_map_update_elem(w->map_fd, &pid, &t->info.probe, BPF_ANY);
}

static void *follower_main(void *userdata)
{
	struct walk *w = userdata;

	while (!atomic_load(&w->end))
		(void)ring_buffer__poll(w->ring, 1);
	return NULL;
}

static int follow(struct walk *w)
{
	if (w->is_following)
		return -EALREADY;
	atomic_store(&w->end, false);
	w->is_following = pthread_create(&w->follower, NULL, follower_main, w) == 0;
	return w->is_following ? 0 : -EAGAIN;
}

static int drain(struct walk *w)
{
	if (w->is_following) {
		atomic_store(&w->end, true);
		(void)pthread_join(w->follower, NULL);
		w->is_following = false;
	}
	return ring_buffer__consume(w->ring);
}

static pid_t start_command(char **argv, int *ret_in, FILE **ret_out)
{
	int in[2], out[2];
	pid_t pid;

	if (pipe(in) < 0 || pipe(out) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[0]);
		close(in[1]);
		close(out[0]);
		close(out[1]);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	*ret_in = in[1];
	*ret_out = fdopen(out[0], "r");
	return pid;
}

static int serve(struct walk *w, int in, FILE *out)
{
	char line[256];

	while (fgets(line, sizeof(line), out)) {
		int r = 0;

		if (strcmp(line, "ready\n") == 0)
			r = ready(w);
		else if (strcmp(line, "drain\n") == 0)
			r = drain(w);
		else if (strcmp(line, "follow\n") == 0)
			r = follow(w);
		else
			fputs(line, stderr);
		if (r < 0) {
			fprintf(stderr, "%.*s: %s\n", (int)strcspn(line, "\n"), line, strerror(-r));
			return r;
		}
		if (write(in, "go\n", 3) != 3)
			return -errno;
	}
	return 0;
}

int main(int argc, char **argv)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .func_name = "standin_alloc");
	struct walk w = { 0 };
	struct bpf_program *program;
	struct bpf_object *obj;
	struct bpf_link *link;
	int in = -1, r, status;
	FILE *out;
	pid_t pid;

	if (argc < 5)
		return 2;
	obj = bpf_object__open_file(argv[1], NULL);
	if (!obj || bpf_object__load(obj) < 0)
		return 1;
	program = bpf_object__find_program_by_name(obj, "walk_probe");
	link = bpf_program__attach_uprobe_opts(program, -1, argv[2], 0, &opts);
	w.out = fopen(argv[3], "w");
	if (!link || !w.out || python_codes_new(PYTHON_CODES_BYTES_DEFAULT, &w.codes) < 0)
		return 1;
	w.map_fd = bpf_object__find_map_fd_by_name(obj, "python_processes");
	w.starts_fd = bpf_object__find_map_fd_by_name(obj, "starts");
	w.ring = ring_buffer__new(bpf_object__find_map_fd_by_name(obj, "ring"), on_event, &w, NULL);
	if (!w.ring)
		return 1;
	pid = start_command(argv + 4, &in, &out);
	if (pid < 0 || !out)
		return 1;
	r = serve(&w, in, out);
	close(in);
	fclose(out);
	(void)waitpid(pid, &status, 0);
	(void)drain(&w);
	ring_buffer__free(w.ring);
	python_codes_free(w.codes);
	bpf_link__destroy(link);
	bpf_object__close(obj);
	if (fclose(w.out) != 0)
		return 1;
	return r < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}
