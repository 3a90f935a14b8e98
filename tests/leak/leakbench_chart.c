// SPDX-License-Identifier: MIT
/* What the bench has found, as a picture: one SVG that needs nothing else, light or dark as its reader is. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "leakbench.h"

#define WIDTH 800
#define ROW 20
#define LABEL_END 170
#define BAR_START 180
#define BAR_WIDTH 190
#define TIME_START 430
#define TIME_WIDTH 340
#define TIME_LOW 30.0	  /* seconds; the axis is logarithmic */
#define TIME_HIGH 86400.0

/* Plain colours and not variables, which some readers of SVG do not know. */
static const char style[] =
	"<style>"
	"text{font:12px system-ui,sans-serif;fill:#1f2328}.h{font-weight:600;font-size:14px}"
	".e{text-anchor:end}.m{text-anchor:middle}.ta,.tn{stroke-width:2}"
	".b{fill:#fff}.d{fill:#656d76}.g{stroke:#d8dee4}"
	".a{fill:#0550ae}.n{fill:#80b3ef}.f{fill:#cf222e}.y{fill:#f0a3a8}.ta{stroke:#0550ae}.tn{stroke:#80b3ef}"
	"@media (prefers-color-scheme:dark){"
	"text{fill:#e6edf3}.b{fill:#0d1117}.d{fill:#8d96a0}.g{stroke:#30363d}"
	".a{fill:#58a6ff}.n{fill:#2f5d96}.f{fill:#ff7b72}.y{fill:#8e3b3b}.ta{stroke:#58a6ff}.tn{stroke:#2f5d96}}"
	"</style>";

static void text(struct strbuf *sb, double x, double y, const char *class, const char *what)
{
	strbuf_addf(sb, "<text x=\"%.0f\" y=\"%.0f\" class=\"%s\">", x, y, class);
	for (; *what; what++) {
		if (*what == '<' || *what == '&')
			strbuf_adds(sb, *what == '<' ? "&lt;" : "&amp;");
		else
			strbuf_addc(sb, *what);
	}
	strbuf_adds(sb, "</text>\n");
}

static void line(struct strbuf *sb, double x1, double y1, double x2, double y2, const char *class)
{
	strbuf_addf(sb, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1, x2, y2,
		    class);
}

static void bar(struct strbuf *sb, double y, double height, double share, const char *class)
{
	if (share > 0)
		strbuf_addf(sb, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\" class=\"%s\"/>\n",
			    BAR_START, y, BAR_WIDTH * share, height, class);
}

static double time_x(double seconds)
{
	double s = seconds < TIME_LOW ? TIME_LOW : seconds > TIME_HIGH ? TIME_HIGH : seconds;

	return TIME_START + TIME_WIDTH * log(s / TIME_LOW) / log(TIME_HIGH / TIME_LOW);
}

/* A dot at the median, a line to the worst. */
static void times(struct strbuf *sb, double y, const struct tally_level *l, const char *dot, const char *range)
{
	if (isnan(l->time_median))
		return;
	line(sb, time_x(l->time_median), y, time_x(l->time_worst), y, range);
	strbuf_addf(sb, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" class=\"%s\"/>\n", time_x(l->time_median), y, dot);
}

static void family_row(struct strbuf *sb, const struct tally *t, const char *name, bool is_leak, double y)
{
	const struct tally_level *a = &t->level[LEVEL_ALARM], *n = &t->level[LEVEL_NOTICE];
	char buf[SHORT_MAX], both[2 * SHORT_MAX + 4];
	double first = is_leak ? a->recall : a->false_share, second = is_leak ? n->recall : n->false_share;

	text(sb, LABEL_END, y + 14, "e", name);
	bar(sb, y + 3, 14, second, is_leak ? "n" : "y");
	bar(sb, y + 6, 8, first, is_leak ? "a" : "f");
	snprintf(both, sizeof(both), "%s", short_share(buf, first));
	snprintf(both + strlen(both), sizeof(both) - strlen(both), " / %s", short_share(buf, second));
	text(sb, BAR_START + BAR_WIDTH + 6, y + 14, "d", both);
	if (is_leak) {
		times(sb, y + 13, n, "n", "tn");
		times(sb, y + 7, a, "a", "ta");
	}
}

static void axes(struct strbuf *sb, double top, double bottom, bool is_leak)
{
	static const struct {
		double seconds;
		const char *label;
	} marks[] = { { 60, "1 min" }, { 600, "10 min" }, { 3600, "1 h" }, { 14400, "4 h" }, { 86400, "1 day" } };

	for (int i = 0; i <= 4; i++)
		line(sb, BAR_START + BAR_WIDTH * i / 4.0, top, BAR_START + BAR_WIDTH * i / 4.0, bottom, "g");
	for (size_t i = 0; is_leak && i < ARRAY_SIZE(marks); i++) {
		line(sb, time_x(marks[i].seconds), top, time_x(marks[i].seconds), bottom, "g");
		text(sb, time_x(marks[i].seconds), top - 4, "m d", marks[i].label);
	}
}

/* Families of one kind below each other; moves *y on. */
static int part(struct strbuf *sb, const struct bench *b, const char *set, bool is_leak, double *y)
{
	const char *names[FAMILIES_MAX];
	size_t n = bench_families(b, set, is_leak, names, FAMILIES_MAX);
	char head[128];

	if (n == 0)
		return 0;
	snprintf(head, sizeof(head), "%.60s: %s", set, is_leak ? "leaks" : "programs that leak nothing");
	text(sb, 12, *y + 16, "h", head);
	*y += 40;
	text(sb, BAR_START, *y - 4, "d", is_leak ? "found, % (alarm / notice)" : "false, % (alarm / notice)");
	axes(sb, *y, *y + (double)n * ROW, is_leak);
	if (is_leak)
		text(sb, TIME_START, *y - 20, "d", "time to detect: median, and to the worst");
	for (size_t i = 0; i < n; i++, *y += ROW) {
		struct tally t;
		int r = tally_make(b->list, b->len, set, names[i], &t);

		if (r < 0)
			return r;
		family_row(sb, &t, names[i], is_leak, *y);
	}
	*y += 16;
	return 0;
}

static int write_chart(const char *path, const struct strbuf *body, double height)
{
	FILE *f;
	bool is_written;

	if (body->error < 0)
		return body->error;
	f = fopen(path, "we");
	if (!f)
		return -errno;
	is_written = fprintf(f,
			     "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" "
			     "height=\"%.0f\" "
			     "role=\"img\">\n<title>Leak detector: what it finds, when, and what is false</title>\n%s\n"
			     "<rect width=\"100%%\" height=\"100%%\" class=\"b\"/>\n%s</svg>\n",
			     WIDTH, height, WIDTH, height, style, strbuf_str(body)) > 0;
	return fclose(f) == 0 && is_written ? 0 : -EIO;
}

int bench_chart(const struct bench *b, const char *path)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	double y = 8;

	for (size_t i = 0; i < b->sets_len; i++) {
		int r = part(&sb, b, b->sets[i], true, &y);

		if (r == 0)
			r = part(&sb, b, b->sets[i], false, &y);
		if (r < 0)
			return r;
	}
	text(&sb, 12, y + 14, "d",
	     "Inner bar and darker dot: alarm (warning or higher). Outer bar and paler dot: any record.");
	return write_chart(path, &sb, y + 26);
}
