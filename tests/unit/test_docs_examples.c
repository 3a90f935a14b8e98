/* SPDX-License-Identifier: MIT */
/*
 * The examples of the manual pages work, and say what the pages say. Each is read by what would read it: `gpuxray
 * check`, `gpuxray test` and `gpuxray replay` call the same functions. Run from the top of the source.
 */
#include <errno.h>
#include <sys/stat.h>

#include "docs_page.h"
#include "replay/rule_test.h"
#include "replay/trace.h"
#include "rule/rule.h"
#include "rule/settings.h"
#include "test.h"

static struct docs docs;

/* Output, or what it is about. */
static const struct docs_example *find_example(const char *file, bool is_output)
{
	for (size_t i = 0; i < docs.examples_len; i++) {
		const struct docs_example *e = &docs.examples[i];

		if (e->kind && strcmp(e->file, file) == 0 && (strcmp(e->kind, "output") == 0) == is_output)
			return e;
	}
	return NULL;
}

/* The n-th word behind word in what a comment says, or NULL; the caller frees. */
static char *word_behind(const struct docs_example *e, const char *word, int n)
{
	_cleanup_free_ char *copy = docs_copy(e->words, strlen(e->words));
	char *save, *w = strtok_r(copy, " ", &save);

	while (w && strcmp(w, word) != 0)
		w = strtok_r(NULL, " ", &save);
	for (; w && n >= 0; n--)
		w = strtok_r(NULL, " ", &save);
	return w ? docs_copy(w, strlen(w)) : NULL;
}

static bool is_bad(const struct docs_example *e)
{
	return strstr(e->words, " bad") != NULL;
}

static int load_rules(const struct docs_example *e, struct errors *errors, char digest[17])
{
	char *paths[8] = {};
	struct ruleset *rs = NULL;
	size_t len = 0;
	int r;

	while (len + 1 < ARRAY_SIZE(paths) && (paths[len] = word_behind(e, "with", (int)len)))
		len++;
	paths[len++] = e->file;
	r = ruleset_load("", paths, len, errors, &rs);
	if (r == 0)
		memcpy(digest, rs->digest, 17);
	ruleset_free(rs);
	while (len-- > 1)
		free(paths[len - 1]);
	return r;
}

static int run_rules(const struct docs_example *e, struct errors *errors)
{
	_cleanup_free_ char *same = word_behind(e, "same", 0);
	const struct docs_example *other = same ? find_example(same, false) : NULL;
	char digest[17] = "", wanted[17] = "";
	int r = load_rules(e, errors, digest);

	if (same && (!other || load_rules(other, errors, wanted) < 0 || strcmp(digest, wanted) != 0)) {
		printf("# %s is not the same as %s\n", e->file, same);
		return -EINVAL;
	}
	return r;
}

static int run_conf(const struct docs_example *e, struct errors *errors)
{
	_cleanup_(settings_done) struct settings s = {};

	if (settings_init(&s) < 0)
		abort();
	return settings_load("", e->file, errors, &s);
}

static int run_test(const struct docs_example *e, struct errors *errors)
{
	struct rule_test_counts counts = {};
	char *out = NULL;
	size_t len;
	struct rule_test_options o = { .out = open_memstream(&out, &len) };
	int r;

	if (!o.out)
		abort();
	r = rule_test_run(e->file, &o, errors, &counts);
	fclose(o.out);
	if (!is_bad(e) && (counts.failed > 0 || counts.passed == 0)) {
		for (char *p = out; *p; p += strcspn(p, "\n"), p += *p == '\n')
			printf("# %.*s\n", (int)strcspn(p, "\n"), p);
		r = -EINVAL;
	}
	free(out);
	return r;
}

static int run_trace(const struct docs_example *e, struct errors *errors)
{
	_cleanup_(trace_closep) struct trace_reader *t = NULL;
	struct trace_item item;
	int n = trace_open(e->file, errors, &t), r = MIN(n, 0), items = 0;

	while (t && (n = trace_read(t, errors, &item)) != 0) {
		r = n < 0 ? n : r;
		items += n > 0;
	}
	return r == 0 && items == 0 ? -ENODATA : r;
}

static const struct {
	const char *kind;
	int (*run)(const struct docs_example *e, struct errors *errors);
} runners[] = { { "rules", run_rules }, { "conf", run_conf }, { "test", run_test }, { "trace", run_trace } };

static void write_examples(void)
{
	for (size_t i = 0; i < docs.examples_len; i++) {
		const struct docs_example *e = &docs.examples[i];
		FILE *f;

		if (!e->kind || strcmp(e->kind, "output") == 0)
			continue;
		EXPECT(find_example(e->file, false) == e); /* no other of that name */
		f = fopen(e->file, "we");
		if (!f || fputs(e->text, f) < 0)
			abort();
		fclose(f);
	}
}

static void remove_examples(const char *dir)
{
	for (size_t i = 0; i < docs.examples_len; i++) {
		if (docs.examples[i].kind)
			(void)unlink(docs.examples[i].file);
	}
	if (chdir("/") < 0 || rmdir(dir) < 0)
		printf("# %s stays behind\n", dir);
}

/* Good ones without a warning, bad ones with exactly what the page says. */
static bool is_as_told(const struct docs_example *e, int r, const struct errors *errors)
{
	const struct docs_example *told = find_example(e->file, true);
	_cleanup_free_ char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	bool is_same;

	if (!f)
		abort();
	errors_print(errors, f);
	fclose(f);
	if (!is_bad(e))
		is_same = r == 0 && !told && !*text;
	else
		is_same = r < 0 && told && strcmp(told->text, text) == 0;
	if (!is_same)
		printf("# %s:%d: %s: %d\n", e->page, e->line, e->file, r);
	for (char *p = text; !is_same && *p; p += strcspn(p, "\n"), p += *p == '\n')
		printf("# said: %.*s\n", (int)strcspn(p, "\n"), p);
	return is_same;
}

static void check_example(const struct docs_example *e, size_t runs[ARRAY_SIZE(runners)])
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	const struct docs_example *about;

	for (size_t i = 0; i < ARRAY_SIZE(runners); i++) {
		if (strcmp(runners[i].kind, e->kind) != 0)
			continue;
		runs[i]++;
		test_failures += !is_as_told(e, runners[i].run(e, &errors), &errors);
		return;
	}
	about = find_example(e->file, false);
	if (strcmp(e->kind, "output") == 0 && about && is_bad(about))
		return;
	printf("# %s:%d: what is an example \"%s %s\"?\n", e->page, e->line, e->kind, e->file);
	test_failures++;
}

TEST(examples_do_what_the_pages_say)
{
	char dir[] = "/tmp/gpuxray-test-XXXXXX";
	_cleanup_close_ int back = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t runs[ARRAY_SIZE(runners)] = {};

	docs_read_all(&docs);
	EXPECT_EQ(docs.errors, 0);
	ASSERT(back >= 0 && mkdtemp(dir) && chdir(dir) == 0);
	write_examples();
	for (size_t i = 0; i < docs.examples_len; i++) {
		const struct docs_example *e = &docs.examples[i];

		if (e->kind) {
			check_example(e, runs);
			continue;
		}
		/* Not checked, so it must be what is typed at a shell. */
		for (const char *p = e->text; *p; p += strcspn(p, "\n") + 1) {
			if (strncmp(p, "$ ", 2) == 0 || strncmp(p, "# ", 2) == 0)
				continue;
			printf("# %s:%d: an example without a comment that says what it is\n", e->page, e->line);
			test_failures++;
			break;
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(runners); i++)
		EXPECT(runs[i] > 1);
	remove_examples(dir);
	EXPECT_EQ(fchdir(back), 0);
}

TEST_MAIN()
