/* SPDX-License-Identifier: MIT */
/* Reading and steering the kernel's books. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "trace/skeleton.h"

#define BATCH 4096

static int run_program(struct bpf_program *prog, void *args, uint32_t size, uint32_t *ret)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = args, .ctx_size_in = size);

	if (bpf_prog_test_run_opts(bpf_program__fd(prog), &opts) < 0)
		return -errno;
	*ret = opts.retval;
	return 0;
}

int tracer_arm(struct tracer *t, uint32_t pid, uint64_t start_ns, uint64_t high, uint64_t low, uint64_t single)
{
	struct arm_args args = { .pid = pid, .start_ns = start_ns, .high = high, .low = low, .single = single };
	uint32_t past = 0;
	int r = run_program(t->skel->progs.arm_process, &args, sizeof(args), &past);

	return r < 0 ? r : (int)past;
}

int tracer_books(struct tracer *t, uint32_t pid, struct books *ret)
{
	return bpf_map_lookup_elem(bpf_map__fd(t->skel->maps.processes), &pid, ret) < 0 ? -errno : 0;
}

/* Copies a hash map out in batches; one() gets each entry. */
static int each_entry(int fd, size_t key_size, size_t value_size,
		      int (*one)(const void *key, const void *value, void *userdata), void *userdata)
{
	_cleanup_free_ char *keys = malloc(BATCH * key_size), *values = malloc(BATCH * value_size);
	uint64_t position = 0, next = 0; /* the kernel's own cursor: 32 bits in hash maps */
	bool is_first = true;

	if (!keys || !values)
		return -ENOMEM;
	for (;;) {
		uint32_t n = BATCH;
		int r = bpf_map_lookup_batch(fd, is_first ? NULL : &position, &next, keys, values, &n, NULL) < 0 ? -errno : 0;

		if (r < 0 && r != -ENOENT)
			return r;
		for (uint32_t i = 0; i < n; i++) {
			int stop = one(keys + i * key_size, values + i * value_size, userdata);

			if (stop < 0)
				return stop;
		}
		if (r == -ENOENT)
			return 0;
		position = next;
		is_first = false;
	}
}

struct each {
	int (*books)(uint32_t pid, const struct books *b, void *userdata);
	int (*live)(const struct live_key *k, const struct live_value *v, void *userdata);
	void *userdata;
};

static int one_books(const void *key, const void *value, void *userdata)
{
	struct each *e = userdata;
	uint32_t pid;

	memcpy(&pid, key, sizeof(pid));
	return e->books(pid, value, e->userdata);
}

static int one_live(const void *key, const void *value, void *userdata)
{
	struct each *e = userdata;

	return e->live(key, value, e->userdata);
}

int tracer_each_books(struct tracer *t, int (*fn)(uint32_t pid, const struct books *b, void *userdata), void *userdata)
{
	struct each e = { .books = fn, .userdata = userdata };

	return each_entry(bpf_map__fd(t->skel->maps.processes), sizeof(uint32_t), sizeof(struct books), one_books, &e);
}

int tracer_each_live(struct tracer *t, int (*fn)(const struct live_key *k, const struct live_value *v, void *userdata),
		     void *userdata)
{
	struct each e = { .live = fn, .userdata = userdata };

	return each_entry(bpf_map__fd(t->skel->maps.live), sizeof(struct live_key), sizeof(struct live_value), one_live, &e);
}

int tracer_sweep(struct tracer *t)
{
	int fd = bpf_map__fd(t->skel->maps.dead);
	_cleanup_free_ uint32_t *gens = NULL;
	struct sweep_args args = {};
	uint32_t key, next, value, result;
	size_t n = 0, cap = 0;
	int r;

	/* Only the generations listed before the walk are cleared after it. */
	for (int found = bpf_map_get_next_key(fd, NULL, &next); found == 0; found = bpf_map_get_next_key(fd, &key, &next)) {
		key = next;
		if (bpf_map_lookup_elem(fd, &key, &value) < 0)
			continue;
		if (n == cap) {
			uint32_t *more = realloc(gens, (cap ? cap * 2 : 64) * sizeof(*gens));

			if (!more)
				return -ENOMEM;
			gens = more;
			cap = cap ? cap * 2 : 64;
		}
		gens[n++] = key;
		args.has_live |= value;
	}
	if (!n)
		return 0;
	r = run_program(t->skel->progs.sweep_dead, &args, sizeof(args), &result);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		(void)bpf_map_delete_elem(fd, &gens[i]);
	return (int)n;
}

/* Sums a per-CPU array. */
static int sum_cpus(int fd, uint64_t *ret, uint32_t n)
{
	int cpus = libbpf_num_possible_cpus();
	_cleanup_free_ uint64_t *values = NULL;

	if (cpus < 0)
		return cpus;
	values = calloc((size_t)cpus, sizeof(*values));
	if (!values)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		ret[i] = 0;
		if (bpf_map_lookup_elem(fd, &i, values) < 0)
			return -errno;
		for (int c = 0; c < cpus; c++)
			ret[i] += values[c];
	}
	return 0;
}

int tracer_counters(struct tracer *t, uint64_t ret[COUNTER_MAX])
{
	return sum_cpus(bpf_map__fd(t->skel->maps.counters), ret, COUNTER_MAX);
}

int tracer_hits(struct tracer *t, uint64_t *ret, size_t n)
{
	return sum_cpus(bpf_map__fd(t->skel->maps.hits), ret, (uint32_t)MIN(n, (size_t)CALL_MAX));
}

int tracer_latency(struct tracer *t, uint32_t row, struct latency *ret)
{
	int cpus = libbpf_num_possible_cpus();
	_cleanup_free_ struct latency *values = NULL;

	if (cpus < 0)
		return cpus;
	values = calloc((size_t)cpus, sizeof(*values));
	if (!values)
		return -ENOMEM;
	if (bpf_map_lookup_elem(bpf_map__fd(t->skel->maps.latencies), &row, values) < 0)
		return -errno;
	*ret = (struct latency){ 0 };
	for (int c = 0; c < cpus; c++) {
		ret->sum_ns += values[c].sum_ns;
		for (size_t i = 0; i < LATENCY_BUCKETS; i++)
			ret->buckets[i] += values[c].buckets[i];
	}
	return 0;
}

const char *counter_name(enum counter c)
{
	static const char *const names[COUNTER_MAX] = {
		[COUNTER_EVENTS] = "events",
		[COUNTER_LOST] = "lost_events",
		[COUNTER_THREAD_FULL] = "thread_state_failures",
		[COUNTER_PROCESS_FULL] = "process_map_full",
		[COUNTER_LIVE_FULL] = "live_map_full",
		[COUNTER_STACK_LOST] = "stacks_lost",
		[COUNTER_STACK_FAULT] = "stack_faults",
		[COUNTER_STACK_KNOWN] = "stacks_known",
		[COUNTER_STACK_COPIED] = "stacks_copied",
		[COUNTER_STACK_SAMPLED] = "stacks_sampled",
		[COUNTER_RETURN_MISSED] = "returns_missed",
		[COUNTER_FAULT] = "read_faults",
		[COUNTER_MAP_FULL] = "object_map_full",
		[COUNTER_LIVE_SHARE] = "live_share_refused",
		[COUNTER_FOREIGN_NS] = "foreign_namespace_calls",
		[COUNTER_FRAMEWORK_UNKNOWN] = "framework_unknown_frees",
		[COUNTER_FORMAT] = "array_formats_unknown",
		[COUNTER_CAPTURE_GUESS] = "captured_by_address",
		[COUNTER_UUID_SKIPPED] = "uuids_skipped",
	};

	return c < COUNTER_MAX ? names[c] : "";
}

uint64_t tracer_copies(const struct tracer *t, uint64_t now_ns)
{
	const uint64_t paid = __atomic_load_n(&t->skel->bss->copies_paid_ns, __ATOMIC_RELAXED);

	return paid > now_ns ? (paid - now_ns) / t->skel->rodata->copy_ns : 0;
}

static int set_entry(int fd, const void *key, const void *value)
{
	if (value)
		return bpf_map_update_elem(fd, key, value, BPF_ANY) < 0 ? -errno : 0;
	return bpf_map_delete_elem(fd, key) < 0 && errno != ENOENT ? -errno : 0;
}

int tracer_learn(struct tracer *t, uint64_t key, const struct stack_path *path)
{
	return set_entry(bpf_map__fd(t->skel->maps.paths), &key, path);
}

int tracer_python(struct tracer *t, uint32_t pid, const struct python_process *p)
{
	return set_entry(bpf_map__fd(t->skel->maps.python_processes), &pid, p);
}

/*
 * The kernel's hash table takes 16 bytes a bucket, buckets being the entries rounded up to a power of two, from the
 * start; an element takes its key and value plus about 48 bytes when it is there (struct htab_elem and the slab's
 * rounding). The bound counts every element.
 */
static uint64_t hash_bytes_max(uint64_t entries, uint64_t element)
{
	uint64_t buckets = 1;

	while (buckets < entries)
		buckets <<= 1;
	return buckets * 16 + entries * (element + 48);
}

/* Arrays of which each possible CPU has its own. */
static uint64_t per_cpu_bytes(const struct tracer *t)
{
	const struct bpf_map *arrays[] = { t->skel->maps.counters, t->skel->maps.hits, t->skel->maps.latencies };
	const int cpus = libbpf_num_possible_cpus();
	uint64_t sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(arrays); i++)
		sum += (uint64_t)bpf_map__max_entries(arrays[i]) * bpf_map__value_size(arrays[i]);
	return sum * (uint64_t)MAX(cpus, 1);
}

uint64_t tracer_memory_bytes(const struct tracer *t)
{
	const struct bpf_map *hashes[] = { t->skel->maps.processes, t->skel->maps.live,     t->skel->maps.dead,
					   t->skel->maps.objects,   t->skel->maps.uuids,    t->skel->maps.mappings,
					   t->skel->maps.captures,  t->skel->maps.graph_blocks, t->skel->maps.exports,
					   t->skel->maps.paths,     t->skel->maps.python_processes };
	uint64_t sum = t->options.limits.ring_bytes + per_cpu_bytes(t);

	for (size_t i = 0; i < ARRAY_SIZE(hashes); i++)
		sum += hash_bytes_max(bpf_map__max_entries(hashes[i]),
				      bpf_map__key_size(hashes[i]) + bpf_map__value_size(hashes[i]));
	return sum;
}
