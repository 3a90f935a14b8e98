// SPDX-License-Identifier: MIT
/* The walk alone, at one function: every call sends its argument and the Python frames. */
#include "kernel.h"
#include "event.h"
#include "python.h"
#include "walk.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} ring SEC(".maps");

/* Host pid -> start of each process that made a call. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u64);
} starts SEC(".maps");

SEC("uprobe")
int walk_probe(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	__u64 start_ns = task->group_leader->start_boottime, begin, ns;
	struct python_stack *s;
	struct walk_event *e;

	bpf_map_update_elem(&starts, &pid, &start_ns, BPF_ANY);
	begin = bpf_ktime_get_ns();
	s = python_walk(ctx, pid, start_ns);
	ns = bpf_ktime_get_ns() - begin;
	e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
	if (!e)
		return 0; /* the comparison misses the call */
	e->pid = pid;
	e->known = s != NULL;
	e->arg = PT_REGS_PARM1(ctx);
	e->ns = ns;
	if (s)
		bpf_probe_read_kernel(&e->stack, sizeof(e->stack), s);
	bpf_ringbuf_submit(e, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
