// SPDX-License-Identifier: MIT
/* What the bench has found, for eyes. At most 116 columns. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "leakbench.h"

#define NAME_WIDTH 18
#define LEAK_HEAD " hit bad   t50  tmax   b50  bmax dev% 1st%"
#define BENIGN_HEAD "traces      %  incidents   a day"
#define BENIGN_PAD "          "

const char *short_time(char buf[SHORT_MAX], double seconds)
{
	if (isnan(seconds))
		snprintf(buf, SHORT_MAX, "-");
	else if (seconds < 99.5)
		snprintf(buf, SHORT_MAX, "%.0fs", seconds);
	else if (seconds < 5970)
		snprintf(buf, SHORT_MAX, "%.0fm", seconds / 60);
	else
		snprintf(buf, SHORT_MAX, "%.1fh", seconds / 3600);
	return buf;
}

const char *short_bytes(char buf[SHORT_MAX], double bytes)
{
	static const char units[] = "KMGT";
	size_t i = 0;

	if (isnan(bytes)) {
		snprintf(buf, SHORT_MAX, "-");
		return buf;
	}
	for (bytes /= 1024; bytes >= 999.5 && i < 3; bytes /= 1024)
		i++;
	snprintf(buf, SHORT_MAX, "%.*f%c", bytes < 9.95 ? 1 : 0, bytes, units[i]);
	return buf;
}

const char *short_share(char buf[SHORT_MAX], double share)
{
	return short_number(buf, share * 100, share * 100 < 9.95 && share > 0 ? 1 : 0);
}

const char *short_number(char buf[SHORT_MAX], double n, int decimals)
{
	if (isnan(n))
		snprintf(buf, SHORT_MAX, "-");
	else
		snprintf(buf, SHORT_MAX, "%.*f", decimals, n);
	return buf;
}

size_t bench_families(const struct bench *b, const char *set, bool is_leak, const char **ret, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < b->len && n < max; i++) {
		const struct outcome *o = &b->list[i];
		bool is_known = o->error < 0 || o->is_leak != is_leak || strcmp(o->set, set) != 0;

		for (size_t k = 0; k < n && !is_known; k++)
			is_known = strcmp(ret[k], o->family) == 0;
		if (!is_known)
			ret[n++] = o->family;
	}
	return n;
}

/* --- families --- */

static void leak_cells(const struct tally_level *l, FILE *f)
{
	char a[8][SHORT_MAX];

	fprintf(f, " | %4s %3s %5s %5s %5s %5s %4s %4s", short_number(a[0], l->found, 0),
		short_number(a[1], l->false_traces, 0), short_time(a[2], l->time_median),
		short_time(a[3], l->time_worst), short_bytes(a[4], l->bytes_median), short_bytes(a[5], l->bytes_worst),
		short_share(a[6], l->share_median), short_share(a[7], l->rank1));
}

static void benign_cells(const struct tally_level *l, FILE *f)
{
	char a[4][SHORT_MAX];

	fprintf(f, " | %6s %6s %10s %7s", short_number(a[0], l->false_traces, 0), short_share(a[1], l->false_share),
		short_number(a[2], l->false_incidents, 0), short_number(a[3], l->false_per_day, 2));
}

static int family_rows(const struct bench *b, const char *set, bool is_leak, FILE *f)
{
	const char *names[FAMILIES_MAX];
	size_t n = bench_families(b, set, is_leak, names, FAMILIES_MAX);
	char count[SHORT_MAX];

	if (n == 0)
		return 0;
	fprintf(f, "%s%-*s       | %-42s | NOTICE\n", is_leak ? "" : "\n", NAME_WIDTH, is_leak ? "leaking" : "benign",
		"ALARM");
	fprintf(f, "%-*s %5s", NAME_WIDTH, "", is_leak ? "n" : "days");
	for (enum level i = 0; i < LEVEL_MAX; i++)
		fprintf(f, "%s | %s", !is_leak && i > 0 ? BENIGN_PAD : "", is_leak ? LEAK_HEAD : BENIGN_HEAD);
	fprintf(f, "\n");
	for (size_t i = 0; i < n; i++) {
		struct tally t;
		int r = tally_make(b->list, b->len, set, names[i], &t);

		if (r < 0)
			return r;
		fprintf(f, "%-*.*s %5s", NAME_WIDTH, NAME_WIDTH, names[i],
			is_leak ? short_number(count, t.traces, 0) : short_number(count, t.benign_days, 1));
		for (enum level level = 0; level < LEVEL_MAX; level++) {
			fprintf(f, "%s", !is_leak && level > 0 ? BENIGN_PAD : "");
			(is_leak ? leak_cells : benign_cells)(&t.level[level], f);
		}
		fprintf(f, "\n");
	}
	return 0;
}

/* --- totals --- */

static void total_line(FILE *f, const char *what, const char *alarm, const char *notice)
{
	fprintf(f, "  %-58s %22s %22s\n", what, alarm, notice);
}

static void totals(const struct tally *t, FILE *f)
{
	enum { WIDTH = 96 };
	char c[LEVEL_MAX][WIDTH], a[4][SHORT_MAX], what[WIDTH];
	const struct tally_level *l = t->level;

#define LINE(label, fmt, ...)                                                                                          \
	do {                                                                                                           \
		for (enum level i = 0; i < LEVEL_MAX; i++)                                                             \
			snprintf(c[i], WIDTH, fmt, __VA_ARGS__);                                                       \
		total_line(f, label, c[LEVEL_ALARM], c[LEVEL_NOTICE]);                                                 \
	} while (0)

	total_line(f, "", "ALARM", "NOTICE");
	LINE("leaks found / all, recall %", "%.0f / %.0f  %5s", l[i].found, t->leaks, short_share(a[0], l[i].recall));
	LINE("traces with false ones / all, precision %", "%.0f / %.0f  %5s", l[i].false_traces, t->traces,
	     short_share(a[0], l[i].precision));
	snprintf(what, sizeof(what), "false incidents a process-day (of %.1f benign days)", t->benign_days);
	LINE(what, "%s", short_number(a[0], l[i].false_per_day, 3));
	LINE("of a leaking program, about a site that loses nothing", "%.0f", l[i].wrong_incidents);
	LINE("time to detect, median / worst", "%s / %s", short_time(a[0], l[i].time_median),
	     short_time(a[1], l[i].time_worst));
	LINE("leaked by then, median / worst", "%s / %s", short_bytes(a[0], l[i].bytes_median),
	     short_bytes(a[1], l[i].bytes_worst));
	LINE("  in % of the device", "%s / %s", short_share(a[0], l[i].share_median),
	     short_share(a[1], l[i].share_worst));
	LINE("the true site is 1st / 2nd / 3rd / not named, %", "%s / %s / %s / %s", short_share(a[0], l[i].rank1),
	     short_share(a[1], l[i].rank2), short_share(a[2], l[i].rank3), short_share(a[3], l[i].rank_none));
	LINE("median confidence of true / of false ones", "%s / %s", short_number(a[0], l[i].confidence_true, 2),
	     short_number(a[1], l[i].confidence_false, 2));
	LINE("said with confidence >= 0.9: true / all, %", "%.0f / %.0f  %5s", l[i].sure_true, l[i].sure,
	     short_share(a[0], l[i].sure_precision));
	snprintf(what, sizeof(what), "incidents closed where the leak stops (%.0f do), %%", t->stopping);
	LINE(what, "%s", short_share(a[0], l[i].closed));
	snprintf(what, sizeof(what), "fast leaks (%.0f) found within 2 minutes, %%", t->fast);
	LINE(what, "%s", short_share(a[0], l[i].fast_found));
#undef LINE
}

int bench_table(const struct bench *b, FILE *f)
{
	fprintf(f,
		"rules: %s. ALARM: severity warning or higher; NOTICE: any.%s\n"
		"hit: leaks found; bad: traces with a record before the leak began, or about a site that loses "
		"nothing;\n"
		"t: time from its start to the first record, b: bytes lost by then, median and worst; dev%%: the "
		"median of\n"
		"that in %% of the device; 1st%%: the true site is the first that the record names.\n",
		b->rules, b->is_again ? "\nSecond runs: each trace was played once before to the same engine." : "");
	for (size_t i = 0; i < b->sets_len; i++) {
		struct tally t;
		int r = tally_make(b->list, b->len, b->sets[i], NULL, &t);

		if (r < 0)
			return r;
		fprintf(f, "\n=== %s: %.0f traces, %.0f leak\n\n", b->sets[i], t.traces, t.leaks);
		r = family_rows(b, b->sets[i], true, f);
		if (r == 0)
			r = family_rows(b, b->sets[i], false, f);
		if (r < 0)
			return r;
		fprintf(f, "\n%s, all families\n", b->sets[i]);
		totals(&t, f);
	}
	return 0;
}

/* --- one line a trace --- */

static void verdict_text(const struct verdict *v, bool is_leak, FILE *f)
{
	char a[3][SHORT_MAX];

	if (v->false_count > 0)
		fprintf(f, " false=%zu", v->false_count);
	if (v->wrong_count > 0)
		fprintf(f, " wrong-site=%zu", v->wrong_count);
	if (!is_leak)
		return;
	if (!v->is_found)
		fprintf(f, " missed");
	else
		fprintf(f, " after=%s lost=%s rank=%u confidence=%s%s", short_time(a[0], (double)v->after_ns / 1e9),
			short_bytes(a[1], (double)v->lost_bytes), v->rank,
			short_number(a[2], v->confidence < 0 ? NAN : v->confidence, 2), v->is_closed ? " closed" : "");
}

void bench_verbose(const struct bench *b, FILE *f)
{
	char a[3][SHORT_MAX];

	for (size_t i = 0; i < b->len; i++) {
		const struct outcome *o = &b->list[i];

		if (o->error < 0)
			continue;
		fprintf(f, "%s %s %llu: %s, device %s", o->set, o->family, (unsigned long long)o->number,
			short_time(a[0], (double)o->length_ns / 1e9), short_bytes(a[1], (double)o->device_bytes));
		if (o->is_leak)
			fprintf(f, ", loses %s from %.0fs%s%s%s", short_bytes(a[2], (double)o->leaked_bytes),
				(double)o->benign_ns / 1e9, o->is_fast ? ", fast" : "", o->is_stopping ? ", stops" : "",
				o->is_full ? ", fills the device" : "");
		fprintf(f, ", %llu events in %.1f ms", (unsigned long long)o->events, (double)o->wall_ns / 1e6);
		if (o->file)
			fprintf(f, ", %s: %llu unknown frees, %llu replaced, %llu late", o->file,
				(unsigned long long)o->unknown_frees, (unsigned long long)o->replaced,
				(unsigned long long)o->late);
		for (enum level level = 0; level < LEVEL_MAX; level++) {
			fprintf(f, "; %s:", level_names[level]);
			verdict_text(&o->level[level], o->is_leak, f);
		}
		fprintf(f, "\n");
	}
}
