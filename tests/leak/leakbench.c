// SPDX-License-Identifier: MIT
/* The evaluation of the leak detector: programs of known truth, generated and recorded, through the shipped rules. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "leakbench.h"
#include "rule/rule.h"

#define LABELS_PATH "tests/traces/leaks/labels.txt"
#define RULES_PATH "rules/10-gpuxray.conf"
#define SETS_MAX 16

struct options {
	uint64_t first, last; /* seeds */
	const char *set, *rules, *family, *json, *chart, *floor, *labels, *evidence;
	uint32_t jobs;
	bool is_verbose, is_self_test, is_again;
};

static void usage(FILE *f)
{
	fprintf(f,
		"Usage: leakbench [OPTION]...\n"
		"Plays traces of known truth through the rules and says what was found, when, and what was false.\n\n"
		"      --set SET      tuning, held-out, real or real-held (recordings, of " LABELS_PATH "),\n"
		"                     all (default)\n"
		"      --seeds A-B    seeds of generated families, default 1-20; held-out ones add 1000\n"
		"      --family NAME  only that family\n"
		"      --rules PATH   rule file or directory (default " RULES_PATH ")\n"
		"      --labels FILE  of the recordings\n"
		"      --again        play each twice, as two runs of one program, and judge the second alone\n"
		"      --jobs N       threads (default: one a processor)\n"
		"      --verbose      a line for each trace\n"
		"      --json FILE    all numbers\n"
		"      --chart FILE   a picture, SVG\n"
		"      --evidence FILE  what the detector weighed, for fit.py\n"
		"      --floor FILE   lines `set[/family] alarm|notice metric >= value` that must hold\n"
		"      --self-test    check the generators and the metrics; plays nothing\n"
		"  -h, --help\n\n"
		"Exit status: 0; 1 below the floor, or a failed self-test, or an error.\n");
}

static int parse_seeds(const char *text, struct options *o)
{
	char rest;
	unsigned long long first, last;

	/* sscanf takes a sign for a number. */
	if (strspn(text, "0123456789-") != strlen(text) || text[0] == '-' || strstr(text, "--") ||
	    sscanf(text, "%llu-%llu%c", &first, &last, &rest) != 2 || first < 1 || last < first ||
	    last >= HELD_OUT_SEEDS) {
		fprintf(stderr, "leakbench: --seeds %s: from-to, at least 1 and below %d\n", text, HELD_OUT_SEEDS);
		return -EINVAL;
	}
	o->first = first;
	o->last = last;
	return 0;
}

/* 1 = done already. */
static int parse(int argc, char **argv, struct options *o)
{
	enum { SEEDS = 256, SET, RULES, FAMILY, JOBS, VERBOSE, JSON, CHART, FLOOR, LABELS, EVIDENCE, SELF_TEST, AGAIN };
	static const struct option options[] = {
		{ "seeds", required_argument, NULL, SEEDS },	 { "set", required_argument, NULL, SET },
		{ "rules", required_argument, NULL, RULES },	 { "family", required_argument, NULL, FAMILY },
		{ "jobs", required_argument, NULL, JOBS },	 { "verbose", no_argument, NULL, VERBOSE },
		{ "json", required_argument, NULL, JSON },	 { "chart", required_argument, NULL, CHART },
		{ "floor", required_argument, NULL, FLOOR },	 { "labels", required_argument, NULL, LABELS },
		{ "evidence", required_argument, NULL, EVIDENCE },
		{ "self-test", no_argument, NULL, SELF_TEST },	 { "again", no_argument, NULL, AGAIN },
		{ "help", no_argument, NULL, 'h' },
		{},
	};
	int opt, r;

	while ((opt = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
		switch (opt) {
		case SEEDS:
			r = parse_seeds(optarg, o);
			if (r < 0)
				return r;
			break;
		case SET: o->set = optarg; break;
		case RULES: o->rules = optarg; break;
		case FAMILY: o->family = optarg; break;
		case VERBOSE: o->is_verbose = true; break;
		case JSON: o->json = optarg; break;
		case CHART: o->chart = optarg; break;
		case FLOOR: o->floor = optarg; break;
		case LABELS: o->labels = optarg; break;
		case EVIDENCE: o->evidence = optarg; break;
		case SELF_TEST: o->is_self_test = true; break;
		case AGAIN: o->is_again = true; break;
		case JOBS:
			if (parse_u32(optarg, &o->jobs) < 0 || o->jobs < 1) {
				fprintf(stderr, "leakbench: --jobs %s: a number from 1\n", optarg);
				return -EINVAL;
			}
			break;
		case 'h':
			usage(stdout);
			return 1;
		default:
			return -EINVAL;
		}
	}
	if (o->is_again && o->evidence) {
		fprintf(stderr, "leakbench: --again and --evidence: what is weighed would be that of both runs\n");
		return -EINVAL;
	}
	if (optind < argc) {
		fprintf(stderr, "leakbench: %s: takes options only\n", argv[optind]);
		return -EINVAL;
	}
	return 0;
}

/* --- which traces --- */

struct plan {
	struct bench_case *cases;
	size_t len, cap;
};

static int plan_add(struct plan *p, const struct bench_case *c)
{
	if (p->len >= p->cap) {
		size_t cap = p->cap ? p->cap * 2 : 256;
		struct bench_case *cases = realloc(p->cases, cap * sizeof(*cases));

		if (!cases)
			return -ENOMEM;
		p->cases = cases;
		p->cap = cap;
	}
	p->cases[p->len++] = *c;
	return 0;
}

static bool wants_set(const struct options *o, const char *set)
{
	return strcmp(o->set, "all") == 0 || strcmp(o->set, set) == 0;
}

static int plan_families(struct plan *p, const struct options *o, const char *set, const struct family *families,
			 uint64_t base)
{
	if (!wants_set(o, set))
		return 0;
	for (const struct family *f = families; f->name; f++) {
		if (o->family && strcmp(o->family, f->name) != 0)
			continue;
		for (uint64_t seed = o->first; seed <= o->last; seed++) {
			const struct bench_case c = { .set = set, .family = f, .seed = base + seed,
						      .is_again = o->is_again };

			if (plan_add(p, &c) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

static int plan_labels(struct plan *p, const struct options *o, struct labels *labels)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	bool is_asked =
		strcmp(o->set, "all") != 0 && strcmp(o->set, SET_TUNING) != 0 && strcmp(o->set, SET_HELD_OUT) != 0;
	size_t before = p->len;
	int r;

	if (!is_asked && strcmp(o->set, "all") != 0)
		return 0;
	r = labels_read(o->labels, &errors, labels);
	errors_print(&errors, stderr);
	if (r < 0 && r != -ENOENT) {
		if (errors.error_count == 0)
			fprintf(stderr, "leakbench: %s: %s\n", o->labels, strerror(-r));
		return r;
	}
	for (size_t i = 0; i < labels->len; i++) {
		const struct label *l = &labels->list[i];
		const struct bench_case c = { .set = l->set, .label = l, .is_again = o->is_again };

		if (!wants_set(o, l->set) || (o->family && strcmp(o->family, l->family) != 0))
			continue;
		if (plan_add(p, &c) < 0)
			return -ENOMEM;
	}
	if (p->len > before || o->family)
		return 0;
	fprintf(stderr, "leakbench: no recordings%s%s in %s%s\n", is_asked ? " of set " : "", is_asked ? o->set : "",
		o->labels, r == -ENOENT ? ", which is not there" : "");
	return is_asked ? -ENOENT : 0;
}

static int plan_all(struct plan *p, const struct options *o, struct labels *labels)
{
	int r = plan_families(p, o, SET_TUNING, families_tuning, 0);

	if (r == 0)
		r = plan_families(p, o, SET_HELD_OUT, families_held_out, HELD_OUT_SEEDS);
	if (r == 0)
		r = plan_labels(p, o, labels);
	if (r == 0 && p->len == 0) {
		fprintf(stderr, "leakbench: no such family in set %s: %s\n", o->set, o->family ? o->family : "-");
		r = -ENOENT;
	}
	return r;
}

/* --- what they gave --- */

static int check_rules(const char *path)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	_cleanup_(ruleset_freep) struct ruleset *rs = NULL;
	char *paths[] = { (char *)path };
	int r = ruleset_load("", paths, 1, &errors, &rs);

	errors_print(&errors, stderr);
	return r;
}

static size_t list_sets(const struct plan *p, const char **ret)
{
	size_t n = 0;

	for (size_t i = 0; i < p->len; i++) {
		bool is_known = n >= SETS_MAX;

		for (size_t k = 0; k < n && !is_known; k++)
			is_known = strcmp(ret[k], p->cases[i].set) == 0;
		if (!is_known)
			ret[n++] = p->cases[i].set;
	}
	return n;
}

static int write_out(const char *path, int (*write)(const struct bench *b, const char *path), const struct bench *b)
{
	int r = path ? write(b, path) : 0;

	if (r < 0)
		fprintf(stderr, "leakbench: %s: %s\n", path, strerror(-r));
	return r;
}

static int tell(const struct bench *b, const struct options *o)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	int r;

	if (o->is_verbose)
		bench_verbose(b, stdout);
	r = bench_table(b, stdout);
	if (r == 0)
		r = write_out(o->json, bench_json, b);
	if (r == 0)
		r = write_out(o->chart, bench_chart, b);
	if (r == 0 && o->floor) {
		r = bench_floor(b, o->floor, &errors);
		errors_print(&errors, stderr);
	}
	return r;
}

static int bench(const struct options *o)
{
	_cleanup_(labels_done) struct labels labels = { 0 };
	_cleanup_free_ struct outcome *outcomes = NULL;
	_cleanup_free_ struct bench_case *cases = NULL;
	struct plan plan = { 0 };
	const char *sets[SETS_MAX];
	uint64_t began = clock_monotonic_ns(), events = 0;
	struct bench b = { .rules = o->rules, .sets = sets, .is_again = o->is_again };
	int r = check_rules(o->rules), q;

	if (r < 0)
		return r;
	r = plan_all(&plan, o, &labels);
	cases = plan.cases;
	if (r < 0)
		return r;
	outcomes = calloc(plan.len, sizeof(*outcomes));
	if (!outcomes)
		return -ENOMEM;
	if (o->evidence && (r = evidence_open(o->evidence)) < 0) {
		fprintf(stderr, "leakbench: %s: %s\n", o->evidence, strerror(-r));
		return r;
	}
	r = bench_run_all(plan.cases, plan.len, o->rules, o->jobs, outcomes);
	q = evidence_close();
	r = r < 0 ? r : q;
	for (size_t i = 0; i < plan.len; i++)
		events += outcomes[i].events;
	b.list = outcomes;
	b.len = plan.len;
	b.sets_len = list_sets(&plan, sets);
	q = tell(&b, o);
	fprintf(stderr, "%zu traces, %llu events in %.1f s\n", plan.len, (unsigned long long)events,
		(double)(clock_monotonic_ns() - began) / 1e9);
	return r < 0 ? r : q;
}

int main(int argc, char **argv)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	struct options o = { .first = 1, .last = 20, .set = "all", .rules = RULES_PATH, .labels = LABELS_PATH,
			     .jobs = processors > 0 ? (uint32_t)processors : 1 };
	int r = parse(argc, argv, &o);

	if (r != 0)
		return r < 0;
	if (o.is_self_test) {
		bool is_good = metrics_self_test();

		return bench_self_test(o.first, o.last) && is_good ? 0 : 1;
	}
	return bench(&o) == 0 ? 0 : 1;
}
