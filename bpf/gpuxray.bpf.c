// SPDX-License-Identifier: MIT
/*
 * One program for the entry and one for the return of every probed call. The attach cookie is the row of the call table
 * that says what the call does and where its arguments lie. No policy here: only books, bounds and news.
 */
#include "kernel.h"
#include "stack_event.h"
#include "maps.h"
#include "books.h"
#include "python.h"
#include "stack.h"
#include "size.h"
#include "context.h"
#include "pool.h"
#include "graph.h"
#include "import.h"
#include "call.h"

SEC("uprobe")
int entry_probe(struct pt_regs *ctx)
{
	return call_entry(ctx);
}

SEC("uprobe")
int return_probe(struct pt_regs *ctx)
{
	return call_return(ctx);
}

static __always_inline void process_gone(struct task_struct *p, __u32 type)
{
	__u32 pid = pid_of(p), gen, has_live;
	__u64 start_ns, device_bytes;
	struct event *ev;
	struct books *b;

	/* It may be there before the first call: the daemon looks for Python when the driver library is mapped. */
	if (bpf_map_lookup_elem(&python_processes, &pid))
		bpf_map_delete_elem(&python_processes, &pid);
	b = bpf_map_lookup_elem(&processes, &pid);
	if (!b)
		return;
	gen = b->gen;
	has_live = b->live_count + b->framework_live_count > 0;
	start_ns = b->start_ns;
	device_bytes = b->device_bytes;
	/* Two last threads may come here together: one of them deletes. */
	if (bpf_map_delete_elem(&processes, &pid))
		return;
	mark_dead(gen, has_live);
	ev = bpf_ringbuf_reserve(&ring, sizeof(*ev), 0);
	if (!ev) { /* there are no books any more to note it in: the global counter has it */
		count(COUNTER_LOST);
		return;
	}
	event_fill(ev, type, pid, start_ns, bpf_ktime_get_ns());
	ev->live_bytes = device_bytes;
	event_submit(ev, may_wake_for_life(ev->time_ns));
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *p)
{
	/* Only the last thread of the process has left nobody alive behind it. */
	if (p->signal->live.counter == 0)
		process_gone(p, EVENT_EXIT);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *p)
{
	process_gone(p, EVENT_EXEC);
	return 0;
}

/* An empty probe: what make bench compares ours with. */
SEC("uprobe")
int bare_probe(struct pt_regs *ctx)
{
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
