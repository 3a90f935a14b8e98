/* SPDX-License-Identifier: MIT */
/* Stacks of other processes, of programs linked in every way. */
#include <signal.h>
#include <sys/wait.h>

#include "elf_make.h"
#include "proc/procfs.h"
#include "stack/unwind.h"
#include "test.h"
#include "unwind_probe.h"

#define LIMITS &(struct unwinder_limits)UNWINDER_LIMITS_DEFAULT
#define COPY_MAX (512 * 1024)

static uint8_t stack_copy[COPY_MAX];

/* A program that sends its registers, the addresses of its functions and its stack, and waits to be killed. */
static const char program_source[] =
	"#include <stdint.h>\n#include <unistd.h>\n"
	"extern uint64_t probe_registers[8];\n"
	"void probe_point(void);\n"
	"int alpha(int), beta(int), gamma_(int), main(int, char **);\n"
	"static char *top;\n"
	"__attribute__((used)) void probe_copy(void) {\n"
	" uint64_t of[] = { (uint64_t)gamma_, (uint64_t)beta, (uint64_t)alpha, (uint64_t)main };\n"
	" uint64_t len = (uint64_t)top - probe_registers[1];\n"
	" if (write(1, probe_registers, 64) != 64 || write(1, of, 32) != 32 || write(1, &len, 8) != 8 ||\n"
	"     write(1, (char *)probe_registers[1], len) != (ssize_t)len) _exit(1);\n"
	" for (;;) pause(); }\n"
	"int gamma_(int n) { volatile char pad[100]; pad[0] = n; probe_point(); return pad[0]; }\n"
	"int beta(int n) { volatile char pad[40]; pad[0] = n; return gamma_(n + 1) + pad[0]; }\n"
	"int alpha(int n) { char *p = __builtin_alloca(n * 40); p[0] = n; return beta(p[0]) + *(volatile char *)p; }\n"
	"int main(int argc, char **argv) { top = (char *)(argv + argc + 1); return alpha(argc) + 1; }\n"
	"__asm__(\".bss\\n.globl probe_registers\\n.balign 8\\nprobe_registers: .zero 64\\n.text\\n"
	".globl probe_point\\nprobe_point:\\n.cfi_startproc\\nlea probe_point(%rip), %rax\\n"
	"mov %rax, probe_registers(%rip)\\nmov %rsp, probe_registers+8(%rip)\\nmov %rbp, probe_registers+16(%rip)\\n"
	"mov %rbx, probe_registers+24(%rip)\\nmov %r12, probe_registers+32(%rip)\\nmov %r13, probe_registers+40(%rip)\\n"
	"mov %r14, probe_registers+48(%rip)\\nmov %r15, probe_registers+56(%rip)\\njmp probe_copy\\n.cfi_endproc\\n\");\n";

static bool read_all(int fd, void *buf, size_t len)
{
	for (size_t have = 0; have < len;) {
		ssize_t n = read(fd, (char *)buf + have, len - have);

		if (n <= 0)
			return false;
		have += (size_t)n;
	}
	return true;
}

static pid_t start_program(const char *path, int *ret_fd)
{
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		(void)dup2(fds[1], 1);
		(void)execl(path, path, NULL);
		_exit(127);
	}
	(void)close(fds[1]);
	*ret_fd = fds[0];
	return pid;
}

static void expect_program(int fd, pid_t pid, bool is_gone)
{
	_cleanup_(objects_unrefp) struct objects *objects = NULL;
	_cleanup_(unwinder_freep) struct unwinder *u = NULL;
	_cleanup_(address_space_unrefp) struct address_space *space = NULL;
	struct raw_stack s = { .pid = (uint32_t)pid, .copy = stack_copy };
	struct probe_registers registers;
	struct unwound out;
	uint64_t functions[4], len;

	ASSERT(read_all(fd, &registers, sizeof(registers)) && read_all(fd, functions, sizeof(functions)));
	ASSERT(read_all(fd, &len, sizeof(len)) && len <= COPY_MAX && read_all(fd, stack_copy, len));
	ASSERT(maps_read("/proc", (uint32_t)pid, 0, &space) == 0);
	ASSERT(objects_new("/proc", 512, &objects) == 0 && unwinder_new(objects, LIMITS, &u) == 0);
	probe_fill(&registers, &s);
	s.copy_len = len;
	s.space = space;
	if (is_gone) {
		for (size_t i = 0; i < space->count; i++)
			space->mappings[i].inode += 1;
		ASSERT(unwind(u, &s, &out) == 0);
		EXPECT_EQ(out.reason, UNWIND_UNREADABLE);
		EXPECT_EQ(out.count, 2);
		return;
	}
	ASSERT(unwind(u, &s, &out) == 0);
	EXPECT_EQ(out.reason, UNWIND_COMPLETE);
	EXPECT(out.count >= 6);
	for (size_t i = 0; i < 4; i++)
		EXPECT(out.frames[i + 1].pc > functions[i] && out.frames[i + 1].pc < functions[i] + 256);
	expect_consistent(&s, &out);
	EXPECT(unwinder_bytes(u) < 4 << 20);
	/* The files closed and opened again. */
	objects_trim(objects, UINT64_MAX);
	ASSERT(unwind(u, &s, &out) == 0);
	EXPECT_EQ(out.reason, UNWIND_COMPLETE);
}

static void expect_linked(const char *flags, bool is_gone)
{
	_cleanup_(temp_proc_done) struct temp_proc dir = {};
	const char *cc = getenv("CC");
	char command[1024], path[128];
	_cleanup_close_ int fd = -1;
	FILE *source;
	pid_t pid;

	ASSERT(temp_proc_new(&dir));
	(void)snprintf(path, sizeof(path), "%s/program.c", dir.root);
	source = fopen(path, "we");
	ASSERT(source);
	fputs(program_source, source);
	ASSERT(fclose(source) == 0);
	(void)snprintf(command, sizeof(command),
		       "%s -w -O2 -fno-inline -fomit-frame-pointer -fno-stack-protector -fno-optimize-sibling-calls %s "
		       "'%s' -o '%s/program'",
		       cc && *cc ? cc : "cc", flags, path, dir.root);
	ASSERT(system(command) == 0);
	(void)snprintf(path, sizeof(path), "%s/program", dir.root);
	pid = start_program(path, &fd);
	ASSERT(pid > 0);
	expect_program(fd, pid, is_gone);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

TEST(another_process)
{
	expect_linked("", false);
	expect_linked("-s -no-pie", false);
}

TEST(static_program)
{
	expect_linked("-static", false);
	expect_linked("-static-pie -fPIE -s", false);
	expect_linked("-static -s -Wl,--no-eh-frame-hdr", false);
}

TEST(file_that_is_another_one_by_now)
{
	expect_linked("", true);
}

TEST_MAIN()
