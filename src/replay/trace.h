/* SPDX-License-Identifier: MIT */
/*
 * A recorded trace as values, one item a line. The text is a contract (README, "Recorded traces"): people read, cut,
 * diff and write it by hand. Times are seconds since the start with up to 9 decimals.
 *
 *	# gpuxray trace 1
 *	# any other comment
 *	clock monotonic=123456.789012345 real=1764512345.678901
 *	stack 3 frame;frame;frame
 *	0.25 4711 alloc class=device addr=0x7f12 bytes=2097152 device=0 stack=3
 *
 * The first line says what it is and is needed; the clock line is not, but comes before the first event if it is there.
 * A stack line may come before or after its first use. Blank lines are ignored; lines end in LF or CRLF. Numbers are
 * decimal, or hexadecimal after 0x. In a text a blank, %, a control character and whatever is not UTF-8 is %NN.
 *
 * In a frame ";" is \x3b and a "~" at its start \x7e: a plain "~" there marks frames within allocators.
 *
 * Lines of a known form with unknown keys are read, unknown keys are ignored: files of later versions. Lines of an
 * unknown event are errors.
 *
 * TIME PID EVENT key=value...
 *	alloc	class addr bytes [device] [stack] [reason=stack reason name] [kind] [call=function name]. Classes: device
 *		managed host array physical async graph imported framework. Kinds: pointer handle object framework;
 *		without it physical memory has a handle, an array is an object, framework's memory is of that kind, and
 *		all else a pointer. Reasons: ok none fault sampled lost evicted
 *	free	addr [kind]: what it freed is known from the alloc before. Without kind a pointer
 *	fail	class bytes [addr] [device] [error] [stack] [reason] [call]. Bytes 0 with an address: a free that failed
 *	process, exec, exit
 *	site	stack key: from now on the stack belongs to that call site. Without any such line for a stack, its frames
 *		decide, from its first use on
 *	identity [comm exe cmdline user uid cgroup unit user_unit container runtime pod slice slurm_job parent ppid
 *		inner_pid start_ticks tag pod_name pod_namespace container_name]: values percent-encoded where needed
 *	ordinal	[device] uuid: the process calls that device by this number; without one, it is where calls go whose device is
 *		not known
 *	driver	[device=UUID] bytes [older=1]: driver-reported; bytes=? is not known
 *	coverage reason [expected=1]
 *	condition bits
 *	lost	count
 *	rebuild, block (keys of alloc, and birth, a time), rebuilt (counters of struct books, each by its name)
 * TIME 0 EVENT key=value...
 *	tick
 *	gpu	uuid [index] [name] [total] [used]
 *	gpus-end [incomplete=1]
 *	driver-begin, driver-end [incomplete=1]: a pass over all processes. A driver line outside of them is a pass of its
 *		own in which every other process keeps its figure
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../bpf/event.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "rule/input.h"

#define TRACE_LINE_MAX (64u << 10) /* bytes of a line, stacks included */
#define TRACE_STACKS_MAX (1u << 20)
#define TRACE_STACK_BYTES_MAX (UINT64_C(1) << 30) /* of all stacks together */
#define TRACE_SECONDS_MAX UINT64_C(1000000000)	  /* of a trace's times: 31 years; dates are larger */
#define TRACE_REAL_SECONDS_MAX UINT64_C(100000000000) /* of the clock's real time: year 5138 */

enum trace_type {
	TRACE_ALLOC,
	TRACE_FREE,
	TRACE_FAIL,
	TRACE_PROCESS,
	TRACE_EXEC,
	TRACE_EXIT,
	TRACE_SITE,
	TRACE_IDENTITY,
	TRACE_ORDINAL,
	TRACE_DRIVER,
	TRACE_COVERAGE,
	TRACE_CONDITION,
	TRACE_LOST,
	TRACE_REBUILD,
	TRACE_BLOCK,
	TRACE_REBUILT,
	TRACE_TICK,
	TRACE_GPU,
	TRACE_GPUS_END,
	TRACE_DRIVER_BEGIN,
	TRACE_DRIVER_END,
	TRACE_TYPE_MAX,
};

#define TRACE_UNKNOWN UINT64_MAX

/* Numbers that a type does not have are 0, texts NULL. Texts are borrowed: of the reader until its next call, of
 * whoever made the item otherwise. */
struct trace_item {
	enum trace_type type;
	uint32_t pid;
	uint64_t time_ns; /* since the start of the trace */
	uint8_t class;	  /* enum mem_class */
	uint8_t kind;	  /* enum addr_kind */
	uint8_t reason;	  /* enum stack_reason, where stack is 0 */
	int32_t device;	  /* ordinal, EVENT_NO_DEVICE; of GPU the index, -1 = not known */
	int32_t error;
	uint64_t addr, bytes; /* driver: TRACE_UNKNOWN = the driver does not say */
	uint64_t stack;	  /* number within the trace, 0 = none */
	uint64_t key;	  /* site */
	uint64_t birth_ns; /* block: on the trace's clock; may lie before its start, where it is 0 */
	uint64_t total_bytes, used_bytes; /* gpu; TRACE_UNKNOWN */
	uint64_t count;	  /* lost */
	uint32_t condition;
	bool flag;	  /* driver: older; coverage: expected; ends: incomplete */
	const char *call; /* function, or NULL */
	const char *uuid, *name; /* coverage: name is the reason */
	struct identity *identity; /* of the reader: a new one each time, a reference may be taken; pid is the item's,
				      start_ns follows from start_ticks */
	const struct books *books; /* its counters only: nothing by class, no bounds */
};

/* What a file begins with. */
struct trace_clock {
	uint64_t monotonic_ns; /* at time 0; epochs of leak rules are counted from there */
	uint64_t real_usec;
};
#define TRACE_CLOCK_DEFAULT { .monotonic_ns = UINT64_C(1000000000000), .real_usec = UINT64_C(1700000000000000) }

/* Static; NULL for a type that there is not. */
const char *trace_type_name(enum trace_type t);

/* --- reading --- */

struct trace_reader;

/* Text, or gzip of it; "-" is standard input. 0 or -errno with the cause in errors. */
int trace_open(const char *path, struct errors *errors, struct trace_reader **ret);
/* The same from memory, called name in errors; text is borrowed until the reader is closed. 0 or -ENOMEM. */
int trace_open_text(const char *name, const char *text, size_t len, struct trace_reader **ret);
void trace_close(struct trace_reader *r); /* accepts NULL */
DEFINE_CLEANUP(struct trace_reader, trace_close)
/*
 * 1 = *ret is the next item; 0 = the end; -EINVAL and -EIO with file:line in errors; -ENOMEM. Comments, clock and stack
 * lines are taken in between. After a line that is wrong the next call goes on with the line behind it, so that one
 * run reports all errors; where nothing can follow (no header, another version, damaged or cut compressed data, -EIO,
 * -ENOMEM) it says that this was the end.
 */
int trace_read(struct trace_reader *r, struct errors *errors, struct trace_item *ret);
/* As far as it has been read. */
const struct trace_clock *trace_clock(const struct trace_reader *r);
/* Line of the item read last, for errors about it. */
uint64_t trace_line(const struct trace_reader *r);
/* "frame;frame;frame" of a stack as far as it has been read, NULL = not told. Valid until the reader is closed. */
const char *trace_stack(const struct trace_reader *r, uint64_t stack);

/* --- writing --- */

/* Appends the line of an item, newline included, without what is as it is by default. 0, -EINVAL (a value that no line
 * can hold, or too long a line; nothing is appended), -ENOMEM (sb's, sticky). */
int trace_write(struct strbuf *sb, const struct trace_item *item);
/* "# gpuxray trace 1" and the clock. */
void trace_write_head(struct strbuf *sb, const struct trace_clock *clock);
struct stack_text;
/* "stack N a;b;c": frames as in struct stack_text (NULL: none); those within allocators are marked with a leading "~".
 * Of a line that would be too long the outermost frames become one, "[12 more frames]". */
void trace_write_stack(struct strbuf *sb, uint64_t stack, const struct stack_text *st);
/* And back: the lines of a record. id: GPUXRAY_STACK_ID, or 0 for none. There is no info. 0 or -ENOMEM. */
int trace_stack_text(const char *frames, uint64_t id, struct stack_text **ret);
/* What a stack is as a call site when no line says so: over its frames outside of allocators. Never 0. */
uint64_t trace_site_key(const char *frames);
