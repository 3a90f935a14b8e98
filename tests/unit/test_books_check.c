/* SPDX-License-Identifier: MIT */
/*
 * The comparison of books with a program in the kernel that may stand still anywhere, as when a hypervisor takes its
 * processor away: a process loses nothing here, so none may be rebuilt, and its counts are never more than what it did. The
 * kernel is played: a program does one store at a time, in the order of bpf/books.h, between any two reads of the daemon.
 */
#include "cmd/daemon_internal.h"
#include "engine_sim.h"

#define PID 4000000000u /* of no process */
#define BYTES 4096u
#define ROUNDS 20000

struct slot {
	struct event ev;
	bool is_busy;
};

static struct books kernel;
static struct slot ring[ROUNDS * 8];
static size_t ring_len, ring_read;
static uint64_t rng;
static uint32_t step, op; /* of the program; what it does: 0 an allocation, 1 a free, 2 a failure */
static int rest;	  /* it stands still for so many reads */
static bool is_still;	  /* it does nothing more for now */
static size_t rebuilds;
static struct sim sim;
static struct settings settings;
static struct daemon d;

static void take_room(uint8_t type)
{
	ring[ring_len++] = (struct slot){ .is_busy = true, .ev = { .type = type, .pid = PID, .tid = PID, .start_ns = PID,
				.class = CLASS_DEVICE, .call = 1, .bytes = BYTES, .addr = ADDR_POINTER } };
}

/* The next store of the program. */
static void store(void)
{
	static const uint8_t types[] = { EVENT_ALLOC, EVENT_FREE, EVENT_FAIL };
	const uint64_t sign = op == 0 ? 1 : -1ull;

	switch (step++) {
	case 0:
		op = kernel.live_count ? (uint32_t)(hash64(rng++) % 3) : 0;
		take_room(types[op]);
		break;
	case 1:
		(*(op == 0 ? &kernel.alloc_count : op == 1 ? &kernel.free_count : &kernel.fail_count))++;
		break;
	case 2:
		kernel.live_count += op < 2 ? sign : 0;
		break;
	case 3:
		kernel.live_bytes[CLASS_DEVICE] += op < 2 ? sign * BYTES : 0;
		break;
	case 4:
		kernel.device_bytes += op < 2 ? sign * BYTES : 0;
		break;
	default:
		ring[ring_len - 1].is_busy = false;
		step = 0;
	}
}

/* Time passes: the program does a few stores, then stands still for some reads of the daemon, or for a few comparisons. */
static void pass(void)
{
	if (is_still || rest-- > 0)
		return;
	for (uint64_t n = hash64(rng++) % 8; n > 0 && ring_len < ROUNDS * 8; n--)
		store();
	rest = hash64(rng++) % 8 ? 1 : 150;
}

int tracer_books(struct tracer *t, uint32_t pid, struct books *ret)
{
	pass();
	/* Word by word, and the counts, which lie last, first: no order of copying is relied on. */
	for (size_t i = sizeof(*ret) / 8; i-- > 0; pass())
		memcpy((uint64_t *)ret + i, (uint64_t *)&kernel + i, 8);
	return 0;
}

int tracer_drain(struct tracer *t, size_t max, tracer_event_fn fn, void *userdata)
{
	size_t n = 0;

	for (pass(); n < max && ring_read < ring_len && !ring[ring_read].is_busy; n++, pass())
		fn(&ring[ring_read++].ev, sizeof(struct event), userdata);
	return (int)n;
}

uint64_t tracer_ring_end(const struct tracer *t)
{
	pass();
	return ring_len;
}

bool tracer_is_past(const struct tracer *t, uint64_t end)
{
	return ring_read >= end;
}

int tracer_counters(struct tracer *t, uint64_t ret[COUNTER_MAX])
{
	memset(ret, 0, COUNTER_MAX * sizeof(*ret));
	return 0;
}

int tracer_each_books(struct tracer *t, int (*fn)(uint32_t pid, const struct books *b, void *userdata), void *userdata)
{
	return 0;
}

int resync_want(struct resync *r, uint32_t pid, uint64_t start_ns)
{
	rebuilds++;
	return 0;
}

int resync_run(struct resync *r, uint64_t now_ns, uint64_t real_usec)
{
	return 0;
}

bool resync_filter(struct resync *r, const struct event *ev)
{
	return true;
}

void resync_forget(struct resync *r, uint32_t pid, uint64_t start_ns)
{
}

void resync_tick(struct resync *r, uint64_t now_ns)
{
}

bool resync_is_settling(const struct resync *r, uint32_t pid, uint64_t start_ns)
{
	return false;
}

/* What else the daemon does with events, and none of these needs. */
#define UNUSED_HERE(declaration)                                                                                       \
	declaration                                                                                                    \
	{                                                                                                              \
		abort();                                                                                               \
	}

UNUSED_HERE(void daemon_keep_stack(struct daemon *dm, const struct stack *s))
UNUSED_HERE(void daemon_record_stack(struct daemon *dm, struct stack *s))
UNUSED_HERE(void daemon_uuid(struct daemon *dm, struct known *k, const struct event *ev, size_t size))
UNUSED_HERE(void daemon_recall_uuids(struct daemon *dm, struct known *k, uint32_t gen))
UNUSED_HERE(void resolver_push(struct resolver *r, struct stack *s))
UNUSED_HERE(void resolver_mapped(struct resolver *r, uint32_t pid))
UNUSED_HERE(void resolver_forget(struct resolver *r, uint32_t pid, uint64_t start_ns))
UNUSED_HERE(size_t resolver_take(struct resolver *r, void (*fn)(struct stack *s, void *userdata), void *userdata))
UNUSED_HERE(int libraries_mapped(struct libraries *l, uint32_t pid, const struct mapping *m))
UNUSED_HERE(void libraries_tell(const struct mapping *m, uint32_t pid, int error))

void resolver_process(struct resolver *r, uint32_t pid, uint64_t start_ns)
{
}

void daemon_note_ordinal(struct daemon *dm, struct known *k, int ordinal, uint32_t row)
{
}

static void begin(uint64_t seed)
{
	sim_new(&sim, NULL);
	settings = (struct settings){ .limits = LIMITS_DEFAULT };
	d = (struct daemon){ .settings = &settings, .engine = sim.e };
	kernel = (struct books){ .gen = 1, .start_ns = PID };
	ring_len = ring_read = rebuilds = 0;
	step = op = 0;
	rest = 0;
	is_still = false;
	rng = seed << 32;
}

static void end(void)
{
	size_t iter = 0;
	void *value;

	while (map64_next(&d.known, &iter, NULL, &value))
		free(value);
	map64_done(&d.known);
	sim_done(&sim);
}

static void expect_equal(void)
{
	struct process *p = engine_process(sim.e, PID, PID);

	ASSERT(p);
	EXPECT_EQ(p->alloc_count, kernel.alloc_count);
	EXPECT_EQ(p->free_count, kernel.free_count);
	EXPECT_EQ(p->fail_count, kernel.fail_count);
	EXPECT_EQ(p->live_count, kernel.live_count);
	EXPECT_EQ(p->live_bytes, kernel.device_bytes);
}

TEST(no_rebuild_and_no_excess_wherever_the_program_stands)
{
	for (uint64_t seed = 1; seed <= 4 && !test_failures; seed++) {
		size_t judged = 0; /* comparisons that found nothing under way */

		begin(seed);
		for (int i = 0; i < ROUNDS / 4 && !test_failures; i++) {
			daemon_drain(&d);
			daemon_check_books(&d);
			judged += d.last && !d.last->is_changed;
			if (i % 100 != 99)
				continue;
			/* It comes to the end of its call, and the status is asked for. */
			while (step)
				store();
			is_still = true;
			daemon_drain(&d);
			expect_equal();
			is_still = false;
		}
		EXPECT_EQ(rebuilds, 0);
		EXPECT(kernel.alloc_count > 500 && kernel.fail_count > 500 && judged > 500);
		end();
	}
}

TEST(an_event_that_is_being_written_is_waited_for)
{
	begin(1);
	is_still = true;
	while (!kernel.alloc_count || step)
		store();
	daemon_drain(&d);
	EXPECT(d.is_drained);
	store();
	daemon_drain(&d);
	EXPECT(!d.is_drained);
	while (step)
		store();
	daemon_drain(&d);
	EXPECT(d.is_drained);
	end();
}

TEST(books_that_do_differ_are_rebuilt)
{
	begin(1);
	is_still = true;
	while (!kernel.alloc_count || step)
		store();
	daemon_drain(&d);
	daemon_check_books(&d);
	EXPECT_EQ(rebuilds, 0);
	while (kernel.alloc_count < 2 || step)
		store();
	kernel.live_count++; /* as if an event had gone missing */
	daemon_drain(&d);
	daemon_check_books(&d);
	EXPECT_EQ(rebuilds, 1);
	end();
}

TEST_MAIN()
