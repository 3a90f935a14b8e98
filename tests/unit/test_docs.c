/* SPDX-License-Identifier: MIT */
/*
 * The manual pages and the shipped configuration say what the code does: every name there is, no other, and the
 * defaults that count. Their examples: test_docs_examples.c. Run from the top of the source.
 */
#include <errno.h>
#include <sys/wait.h>

#include "docs_page.h"
#include "record/fields.h"
#include "replay/rule_test.h"
#include "replay/trace_form.h"
#include "rule/conf.h"
#include "rule/match.h"
#include "rule/rule_names.h"
#include "rule/rule_parse.h"
#include "rule/settings.h"
#include "rule/template.h"
#include "test.h"

#define CONF "contrib/gpuxray.conf"

/* ---- what the code knows */

struct set_name {
	const char *set, *name;
};

static struct set_name *known;
static size_t known_len;
static struct docs docs;
static char *conf_text; /* the shipped one */

static void add_known(const char *set, const char *name)
{
	known = docs_more(known, known_len, sizeof(*known));
	known[known_len++] = (struct set_name){ docs_copy(set, strlen(set)), name };
}

static void add_table(const char *set, const char *const *names)
{
	for (; *names; names++)
		add_known(set, *names);
}

/* From `unknown WHAT "zzz...": known are a, b, c`: tables that only their parser sees. */
static void add_told(const char *set, const char *what, const struct errors *errors)
{
	_cleanup_free_ char *begin = NULL;

	if (asprintf(&begin, "unknown %s \"zzzzzzzzzzzzzzzz\": known are ", what) < 0)
		abort();
	for (size_t i = 0; i < errors->len; i++) {
		const char *text = errors->list[i].text;

		if (strncmp(text, begin, strlen(begin)) != 0)
			continue;
		for (text += strlen(begin); *text; text += strspn(text, ", ")) {
			add_known(set, docs_copy(text, docs_name_len(text)));
			text += docs_name_len(text);
		}
		return;
	}
	printf("# nothing is told of %s\n", set);
	docs.errors++;
}

#define Z "zzzzzzzzzzzzzzzz"

static void know_conf(void)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	_cleanup_(settings_done) struct settings s = {};

	if (settings_init(&s) < 0)
		abort();
	(void)settings_parse("z",
			     Z " = 1; limits = { " Z " = 1; }; syslog = { " Z " = 1; }; metrics = { " Z " = 1; }; sink = \"" Z "\";\n"
			     "trace_frameworks = \"" Z "\"; omit = \"" Z "\"; calls = ( { " Z " = 1; },\n"
			     "{ op = \"" Z "\"; class = \"" Z "\"; library = \"abc\"; symbol = \"x\"; },\n"
			     "{ op = \"free\"; library = \"abc\"; symbol = \"x\"; address = \"arg0\";\n"
			     "result = \"" Z "\"; } );\n",
			     &errors, &s);
	add_told("conf", "key", &errors);
	add_told("conf.limits", "key of limits", &errors);
	add_told("conf.syslog", "key of syslog", &errors);
	add_told("conf.metrics", "key of metrics", &errors);
	add_told("conf.sink", "sink", &errors);
	add_told("conf.framework", "framework", &errors);
	add_told("conf.omit", "field to omit", &errors);
	add_told("conf.call", "key of a call", &errors);
	add_told("conf.call.op", "op", &errors);
	add_told("conf.call.class", "class", &errors);
	add_told("conf.call.result", "result", &errors);
}

static void know_rules(void)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	struct ruleset *rs = NULL;

	(void)ruleset_parse("z",
			    "version = 1; " Z " = 1; defaults = { " Z " = 1; };\n"
			    "rules = ( { name = \"a\"; kind = \"leak\"; escalate = { " Z " = 1; }; } );\n",
			    &errors, &rs);
	ruleset_free(rs);
	add_told("rules", "key", &errors);
	add_told("rules.defaults", "key of defaults", &errors);
	add_told("escalate", "key of escalate", &errors);
	add_table("rule", rule_key_names);
	add_table("kind", rule_kind_names);
	add_table("scope", rule_scope_names);
	add_table("severity", severity_names);
	add_table("class", rule_class_names);
	add_table("condition", rule_condition_names);
	add_table("override", rule_override_names);
	add_table("match", match_key_names);
	add_table("template", template_names);
}

static void know_tests(void)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	_cleanup_fclose_ FILE *out = fopen("/dev/null", "we");
	const struct rule_test_options o = { .out = out };
	struct rule_test_counts counts = {};

	if (!out)
		abort();
	(void)rule_test_run_text("z",
				 Z " = 1; rules = ( { name = \"a\"; kind = \"leak\"; } );\n"
				 "devices = ( { " Z " = 1; } );\n"
				 "processes = ( { " Z " = 1; } ); trace = ( { " Z " = 1; } );\n"
				 "expect = ( { " Z " = 1; }, { value = { " Z " = 1; }; } );\n", &o, &errors, &counts);
	add_told("test", "key", &errors);
	add_told("test.device", "key of a device", &errors);
	add_told("test.process", "key of a process", &errors);
	add_told("test.trace", "key of a trace entry", &errors);
	add_told("test.expect", "key of an expectation", &errors);
	add_told("test.value", "key of value", &errors);
}

static void know_traces(void)
{
	for (size_t i = 0; i < TRACE_TYPE_MAX; i++) {
		const struct trace_form *form = &trace_forms[i];
		_cleanup_free_ char *set = NULL;

		add_known("trace", form->name);
		if (asprintf(&set, "trace.%s", form->name) < 0)
			abort();
		for (size_t k = 0; k < form->len; k++)
			add_known(set, form->keys[k].name);
	}
	add_table("trace.class", trace_value_names(VALUE_CLASS));
	add_table("trace.kind", trace_value_names(VALUE_KIND));
	add_table("trace.reason", trace_value_names(VALUE_REASON));
}

__attribute__((constructor)) static void read_all(void)
{
	size_t len;

	know_conf();
	know_rules();
	know_tests();
	know_traces();
	docs_read_all(&docs);
	if (file_read(AT_FDCWD, CONF, 1 << 20, &conf_text, &len) < 0) {
		printf("# %s cannot be read\n", CONF);
		docs.errors++;
		conf_text = docs_copy("", 0);
	}
}

/* set NULL: of any. */
static bool is_known(const char *set, const char *name, size_t len)
{
	for (size_t i = 0; i < known_len; i++) {
		if ((!set || strcmp(known[i].set, set) == 0) && strlen(known[i].name) == len &&
		    memcmp(known[i].name, name, len) == 0)
			return true;
	}
	return false;
}

static const struct docs_name *find_documented(const char *set, const char *name)
{
	for (size_t i = 0; i < docs.names_len; i++) {
		if (strcmp(docs.names[i].set, set) == 0 && strcmp(docs.names[i].name, name) == 0)
			return &docs.names[i];
	}
	return NULL;
}

TEST(pages_can_be_read)
{
	EXPECT_EQ(docs.errors, 0);
	EXPECT(known_len > 200);
	EXPECT(docs.names_len > 200);
}

TEST(every_name_has_its_place)
{
	for (size_t i = 0; i < known_len; i++) {
		if (find_documented(known[i].set, known[i].name))
			continue;
		printf("# %s: \"%s\" is in no page\n", known[i].set, known[i].name);
		test_failures++;
	}
}

TEST(every_documented_name_exists)
{
	for (size_t i = 0; i < docs.names_len; i++) {
		const struct docs_name *n = &docs.names[i];

		if (!is_known(n->set, n->name, strlen(n->name))) {
			printf("# %s:%d: %s: there is no \"%s\"\n", n->page, n->line, n->set, n->name);
			test_failures++;
		}
		if (find_documented(n->set, n->name) != n && !strchr(n->set, '.')) {
			printf("# %s:%d: %s: \"%s\" a second time\n", n->page, n->line, n->set, n->name);
			test_failures++;
		}
	}
}

static bool is_field(const char *name)
{
	size_t len;
	const struct field_desc *t = fields_table(&len);

	for (size_t i = 0; i < len; i++) {
		if (strcmp(t[i].name, name) == 0)
			return true;
	}
	return false;
}

/* Bold is what one types, so it exists: names, "name = value", fields; other than options and values. */
TEST(bold_words_exist)
{
	static const char *const others[] = { "true", "false", "gpuxray", "journalctl", "gzip", "pcre2pattern",
					       NULL };

	for (size_t i = 0; i < docs.bold_len; i++) {
		const struct docs_name *n = &docs.bold[i];
		const size_t len = docs_name_len(n->name);
		bool is_word = len > 0 && n->name[0] != '-' &&
			       (!n->name[len] || strncmp(n->name + len, " = ", 3) == 0), is_good = true;

		if (strncmp(n->name, "GPUXRAY_", 8) == 0)
			is_good = is_field(n->name);
		else if (is_word)
			is_good = is_known(NULL, n->name, len) || rule_name_find(others, n->name) >= 0 ||
				  strncmp(n->name, "gpuxray-", 8) == 0;
		if (is_good)
			continue;
		printf("# %s:%d: nothing is called \"%s\"\n", n->page, n->line, n->name);
		test_failures++;
	}
	EXPECT(docs.bold_len > docs.names_len);
}

/* ---- defaults of the configuration */

static bool same_limits(const struct settings *a, const struct settings *b)
{
	return memcmp(&a->limits, &b->limits, sizeof(a->limits)) == 0;
}

static bool same_sink(const struct settings *a, const struct settings *b)
{
	return strcmp(a->sink, b->sink) == 0;
}

static bool same_syslog(const struct settings *a, const struct settings *b)
{
	const struct syslog_settings *x = &a->syslog, *y = &b->syslog;

	return x->transport == y->transport && x->is_cee == y->is_cee && x->is_newline_framed == y->is_newline_framed &&
	       x->facility == y->facility && x->max_bytes == y->max_bytes &&
	       strcmp(x->address ? x->address : SYSLOG_SOCKET_DEFAULT, y->address ? y->address : SYSLOG_SOCKET_DEFAULT) == 0 &&
	       !x->hostname == !y->hostname;
}

static bool same_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool same_metrics(const struct settings *a, const struct settings *b)
{
	const struct metrics_settings *x = &a->metrics, *y = &b->metrics;

	return same_text(x->listen, y->listen) && same_text(x->textfile, y->textfile) && x->interval_ns == y->interval_ns &&
	       x->processes == y->processes && x->args == y->args;
}

#define SAME(key, member)                                                                                              \
	static bool same_##key(const struct settings *a, const struct settings *b)                                     \
	{                                                                                                              \
		return a->member == b->member;                                                                         \
	}
#define SAME_LIST(key) SAME(key, key##_len) /* defaults are empty */

SAME(health_interval, health_interval_ns)
SAME(drain_interval, drain_interval_ns)
SAME(nvml_interval, nvml_interval_ns)
SAME(sample_interval, sample_interval_ns)
SAME(omit, omit)
SAME_LIST(rules)
SAME_LIST(libraries)
SAME_LIST(redact)
SAME_LIST(allocators)
SAME_LIST(allocators_also)
SAME_LIST(calls)

static const struct {
	const char *key;
	bool (*same)(const struct settings *a, const struct settings *b);
} compared[] = {
	{ "limits", same_limits }, { "sink", same_sink },     { "syslog", same_syslog },
	{ "rules", same_rules },   { "libraries", same_libraries }, { "redact", same_redact },
	{ "omit", same_omit },
	{ "allocators", same_allocators }, { "allocators_also", same_allocators_also },
	{ "calls", same_calls },   { "trace_frameworks", same_calls }, /* whose rows are calls */
	{ "health_interval", same_health_interval }, { "drain_interval", same_drain_interval },
	{ "nvml_interval", same_nvml_interval }, { "sample_interval", same_sample_interval },
	{ "metrics", same_metrics },
};

static int parse_settings(const char *text, struct settings *s)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	int r;

	if (settings_init(s) < 0)
		abort();
	r = settings_parse("g.conf", text, &errors, s);
	for (size_t i = 0; i < errors.len; i++)
		printf("# %s: %s\n", text, errors.list[i].text);
	return errors.len > 0 ? -EINVAL : r;
}

/* value is said to be the default of key, which lies in group (NULL: at the top). */
static void check_default(const char *where, const char *group, const char *key, const char *value)
{
	_cleanup_(settings_done) struct settings fresh = {}, s = {};
	_cleanup_free_ char *text = NULL;
	size_t i = 0;
	int r;

	r = group ? asprintf(&text, "%s = { %s = %s; };", group, key, value) : asprintf(&text, "%s = %s;", key, value);
	if (r < 0 || settings_init(&fresh) < 0)
		abort();
	while (i < ARRAY_SIZE(compared) && strcmp(compared[i].key, group ? group : key) != 0)
		i++;
	if (i == ARRAY_SIZE(compared)) {
		printf("# %s: nothing here knows how to compare it: add it to compared[]\n", group ? group : key);
		test_failures++;
		return;
	}
	if (parse_settings(text, &s) == 0 && compared[i].same(&s, &fresh))
		return;
	printf("# %s: %s is not the default\n", where, text);
	test_failures++;
}

TEST(page_shows_the_defaults_of_the_configuration)
{
	size_t shown = 0;

	for (size_t i = 0; i < docs.names_len; i++) {
		const struct docs_name *n = &docs.names[i];
		const char *group = strcmp(n->set, "conf.limits") == 0 ? "limits" :
				    strcmp(n->set, "conf.syslog") == 0 ? "syslog" :
				    strcmp(n->set, "conf.metrics") == 0 ? "metrics" : NULL;

		if (!group && (strcmp(n->set, "conf") != 0 || strcmp(n->name, "limits") == 0 ||
			       strcmp(n->name, "syslog") == 0 || strcmp(n->name, "metrics") == 0))
			continue;
		if (n->value) {
			check_default(n->page, group, n->name, n->value);
			shown++;
			continue;
		}
		printf("# %s:%d: %s without a default\n", n->page, n->line, n->name);
		test_failures++;
	}
	EXPECT(shown > 20);
}

/* The shipped file without the "#" of its settings: "#key = value;", or a group up to "#};". */
static void uncomment(struct strbuf *sb)
{
	bool is_group = false;

	for (const char *line = conf_text, *next; *line; line = next) {
		const size_t len = strcspn(line, "\n"), name = docs_name_len(line + (line[0] == '#'));

		next = line + len + (line[len] == '\n');
		if (line[0] != '#' || (!is_group && (name == 0 || strncmp(line + 1 + name, " = ", 3) != 0))) {
			strbuf_addc(sb, '\n');
			continue;
		}
		is_group = line[len - 1] == '{' || (is_group && line[1] != '}');
		strbuf_add(sb, line + 1, len - 1);
		strbuf_addc(sb, '\n');
	}
}

static void check_shipped(const char *group, const config_setting_t *s)
{
	const char *name = config_setting_name(s);
	_cleanup_strbuf_ struct strbuf value = STRBUF_INIT;

	switch (config_setting_type(s)) {
	case CONFIG_TYPE_GROUP:
		for (int i = 0; i < config_setting_length(s); i++)
			check_shipped(name, config_setting_get_elem(s, (unsigned)i));
		return;
	case CONFIG_TYPE_INT:
		strbuf_addf(&value, "%d", config_setting_get_int(s));
		break;
	case CONFIG_TYPE_BOOL:
		strbuf_adds(&value, config_setting_get_bool(s) ? "true" : "false");
		break;
	case CONFIG_TYPE_STRING:
		strbuf_addf(&value, "\"%s\"", config_setting_get_string(s));
		break;
	default:
		EXPECT_EQ(config_setting_length(s), 0);
		strbuf_adds(&value, config_setting_is_list(s) ? "( )" : "[ ]");
		break;
	}
	check_default(CONF, group, name, strbuf_str(&value));
}

TEST(shipped_configuration_has_every_key_and_its_default)
{
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	_cleanup_(conf_freep) struct conf *c = NULL;
	const config_setting_t *root;

	uncomment(&text);
	ASSERT(conf_parse(CONF, strbuf_str(&text), &errors, &c) == 0);
	root = conf_root(c);
	for (int i = 0; i < config_setting_length(root); i++)
		check_shipped(NULL, config_setting_get_elem(root, (unsigned)i));
	for (size_t i = 0; i < known_len; i++) {
		const config_setting_t *group = strcmp(known[i].set, "conf.limits") == 0 ?
							config_setting_get_member(root, "limits") :
						strcmp(known[i].set, "conf.syslog") == 0 ?
							config_setting_get_member(root, "syslog") :
						strcmp(known[i].set, "conf") == 0 ? root : NULL;
		if (!group || config_setting_get_member(group, known[i].name))
			continue;
		printf("# %s: no %s\n", CONF, known[i].name);
		test_failures++;
	}
}

/* "# - key: what it is" */
TEST(shipped_configuration_explains_the_keys_of_calls)
{
	for (const char *p = conf_text; (p = strstr(p, "\n# - ")); p += 5) {
		if (is_known("conf.call", p + 5, docs_name_len(p + 5)))
			continue;
		printf("# %s: a call has no %.*s\n", CONF, (int)docs_name_len(p + 5), p + 5);
		test_failures++;
	}
	for (size_t i = 0; i < known_len; i++) {
		_cleanup_free_ char *line = NULL;

		if (strcmp(known[i].set, "conf.call") != 0)
			continue;
		if (asprintf(&line, "\n# - %s: ", known[i].name) < 0)
			abort();
		if (strstr(conf_text, line))
			continue;
		printf("# %s: nothing of %s of a call\n", CONF, known[i].name);
		test_failures++;
	}
}

/* What stands in comments behind "For instance:". */
TEST(example_of_the_shipped_configuration)
{
	static const char begin[] = "\n# For instance:\n";
	_cleanup_(settings_done) struct settings s = {};
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const char *p = strstr(conf_text, begin);

	ASSERT(p);
	for (p += strlen(begin); p[0] == '#' && p[1] == ' '; p += strcspn(p, "\n") + 1)
		strbuf_add(&text, p + 2, strcspn(p, "\n") - 1);
	EXPECT_EQ(parse_settings(strbuf_str(&text), &s), 0);
	EXPECT_EQ(s.calls_len, 2);
}

/* ---- the form */

TEST(groff_has_nothing_to_say)
{
	for (size_t i = 0; i < ARRAY_SIZE(docs_pages); i++) {
		_cleanup_free_ char *command = NULL;
		char line[512];
		FILE *f;
		int status;

		if (asprintf(&command, "groff -man -ww -z -Tutf8 %s 2>&1", docs_pages[i]) < 0)
			abort();
		f = popen(command, "re");
		ASSERT(f);
		while (fgets(line, sizeof(line), f)) {
			printf("# %s", line);
			test_failures++;
		}
		status = pclose(f);
		if (status != 0)
			printf("# groff: %d (127: it is not there, see tests/install-packages)\n", WEXITSTATUS(status));
		EXPECT_EQ(status, 0);
	}
}

TEST_MAIN()
