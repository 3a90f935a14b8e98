/* SPDX-License-Identifier: MIT */
/* What the detector weighed, as rows to learn from: fit.py reads them. */
#include <errno.h>
#include <inttypes.h>

#include "leakbench.h"
#include "rule/leak_confidence.h"

static FILE *out; /* one for all threads: a row is one write */
static _Thread_local const struct evidence_of *current;

int evidence_open(const char *path)
{
	out = fopen(path, "we");
	if (!out)
		return -errno;
	fputs("# x set family number time_sec span_sec confidence", out);
	for (int i = 0; i < LEAK_X_MAX; i++)
		fprintf(out, " %s", leak_feature_name((enum leak_feature)i));
	fputs("\n# t set family number is_leak start_sec end_sec\n", out);
	return 0;
}

int evidence_close(void)
{
	int r = 0;

	if (out && fclose(out) != 0)
		r = -errno;
	out = NULL;
	return r;
}

static void on_case(const struct leak_case *c, const double x[LEAK_X_MAX], double confidence)
{
	const struct evidence_of *of = current;

	flockfile(out);
	fprintf(out, "x %s %s %" PRIu64 " %.0f %.0f %.4f", of->c->set, of->family, of->number,
		(double)player_time(*of->player) / 1e9, (double)c->span_ns / 1e9, confidence);
	for (int i = 0; i < LEAK_X_MAX; i++)
		fprintf(out, " %.4g", x[i]);
	putc('\n', out);
	funlockfile(out);
}

void evidence_begin(const struct evidence_of *of)
{
	current = of;
	leak_case_listener = out ? on_case : NULL;
}

void evidence_end(const struct truth *t)
{
	leak_case_listener = NULL;
	if (out)
		fprintf(out, "t %s %s %" PRIu64 " %d %.0f %.0f\n", current->c->set, current->family, current->number, t->is_leak,
			t->is_leak ? (double)t->start_ns / 1e9 : -1, (double)t->end_ns / 1e9);
}
