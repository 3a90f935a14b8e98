// SPDX-License-Identifier: MIT
/* The walk alone, at one function: every call sends its argument, its stack pointer and the Python frames. */
#include "kernel.h"
#include "event.h"
#include "python.h"
#include "walk.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} ring SEC(".maps");

__u64 lost;

SEC("uprobe")
int walk_probe(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	struct python_stack *s;
	struct walk_event *e;
	__u64 start;

	start = bpf_ktime_get_ns();
	s = python_walk(ctx, pid, task->group_leader->start_boottime);
	e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
	if (!e) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	e->pid = pid;
	e->known = !!s;
	e->arg = PT_REGS_PARM1(ctx);
	e->ns = bpf_ktime_get_ns() - start;
	if (s)
		bpf_probe_read_kernel(&e->stack, sizeof(e->stack), s);
	bpf_ringbuf_submit(e, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
