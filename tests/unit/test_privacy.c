/* SPDX-License-Identifier: MIT */
/* What is not to be written: "omit" of the configuration, and secrets on other ways than by records. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/log.h"
#include "record_build.h"
#include "replay/recorder.h"
#include "rule/input.h"
#include "rule/omit.h"
#include "rule/settings.h"
#include "rule/watch.h"

#define SECRET "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567"
#define ALL_OMITTED (OMIT_BIT(OMIT_MAX) - 1)

static struct redact *make_redact(uint32_t mask)
{
	struct errors e = ERRORS_INIT;
	struct redact *r = NULL;

	if (redact_new(NULL, 0, &e, &r) < 0)
		abort();
	redact_omit(r, mask);
	errors_done(&e);
	return r;
}

/* ---- which */

static char *read_omit(const char *text, int *ret, uint32_t *ret_mask)
{
	_cleanup_(settings_done) struct settings s = {};
	_cleanup_errors_ struct errors errors = ERRORS_INIT;
	char *said = NULL;
	size_t len;
	FILE *f = open_memstream(&said, &len);

	if (!f || settings_init(&s) < 0)
		abort();
	EXPECT_EQ(s.omit, 0);
	*ret = settings_parse("g.conf", text, &errors, &s);
	*ret_mask = s.omit;
	errors_print(&errors, f);
	fclose(f);
	return said;
}

TEST(names)
{
	static const struct {
		const char *text, *said;
		uint32_t mask;
	} cases[] = {
		{ "omit = [ ];", "", 0 },
		{ "omit = \"comm\";", "", OMIT_BIT(OMIT_COMM) },
		{ "omit = [ \"user\", \"stack\", \"user\" ];", "", OMIT_BIT(OMIT_USER) | OMIT_BIT(OMIT_STACK) },
		{ "omit = [ \"comm\", \"exe\", \"cmdline\", \"user\", \"cgroup\", \"unit\", \"container\", \"pod\", "
		  "\"slurm_job\", \"parent\", \"tag\", \"stack\" ];", "", ALL_OMITTED },
		{ "omit = [ \"cmdlin\",\n \"pid\" ];",
		  "g.conf:1: error: unknown field to omit \"cmdlin\": did you mean \"cmdline\"?\n"
		  "g.conf:2: error: unknown field to omit \"pid\": did you mean \"pod\"?\n", 0 },
		{ "omit = [ \"everything\" ];",
		  "g.conf:1: error: unknown field to omit \"everything\": known are comm, exe, cmdline, user, cgroup, unit, "
		  "container, pod, slurm_job, parent, tag, stack\n", 0 },
		{ "omit = true;", "g.conf:1: error: omit needs a string or a list of strings: [ \"one\", \"two\" ]\n", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *said = NULL;
		uint32_t mask = 0;
		int r;

		said = read_omit(cases[i].text, &r, &mask);
		EXPECT_STR(said, cases[i].said);
		EXPECT_EQ(r, *cases[i].said ? -EINVAL : 0);
		EXPECT_EQ(mask, cases[i].mask);
	}
	for (size_t i = 0; i < OMIT_MAX; i++)
		EXPECT(omit_names[i]);
	EXPECT(!omit_names[OMIT_MAX]);
}

/* ---- records */

static const struct {
	uint8_t omit;
	const char *text;
} marks[] = {
	{ OMIT_COMM, "zzcomm" },	 { OMIT_EXE, "zzexe" },		  { OMIT_CMDLINE, "zzcmdline" },
	{ OMIT_USER, "zzuser" },	 { OMIT_USER, "54321" },	  { OMIT_CGROUP, "zzcgroup" },
	{ OMIT_CGROUP, "zzslice" },	 { OMIT_UNIT, "zzunit" },	  { OMIT_UNIT, "zzmine" },
	{ OMIT_CONTAINER, "zzbox" },	 { OMIT_CONTAINER, "zzruntime" }, { OMIT_POD, "zzpod" },
	{ OMIT_POD, "zznamed" },	 { OMIT_POD, "zzspace" },	  { OMIT_CONTAINER, "zzcalled" },
	{ OMIT_SLURM_JOB, "zzjob" },	 { OMIT_PARENT, "zzparent" },	  { OMIT_PARENT, "65432" },
	{ OMIT_TAG, "zztag" },		 { OMIT_STACK, "zzframe" },
};

static bool is_in_pod = true; /* then messages name the pod in place of the unit */

static struct report *marked(enum report_event event, enum rule_scope scope)
{
	static const char *const keys[SCOPE_MAX] = {
		[SCOPE_CGROUP] = "/zzcgroup", [SCOPE_UNIT] = "zzunit.service", [SCOPE_USER] = "zzuser",
		[SCOPE_CONTAINER] = "zzbox", [SCOPE_DEVICE] = "GPU-1",
	};
	struct report *r = make_report(event);
	struct identity *id = r->id;

	r->scope = scope;
	set(&r->scope_key, keys[scope]);
	r->is_first = true;
	id->uid = 54321;
	id->ppid = 65432;
	set(&id->comm, "zzcomm");
	set(&id->exe, "/bin/zzexe");
	set(&id->cmdline, "run zzcmdline");
	set(&id->user, "zzuser");
	set(&id->cgroup, "/zzcgroup");
	set(&id->slice, "zzslice.slice");
	set(&id->unit, "zzunit.service");
	set(&id->user_unit, "zzmine.service");
	set(&id->container, "zzbox");
	set(&id->runtime, "zzruntime");
	set(&id->pod, "zzpod");
	set(&id->pod_name, is_in_pod ? "zznamed" : NULL);
	set(&id->pod_namespace, is_in_pod ? "zzspace" : NULL);
	set(&id->container_name, "zzcalled");
	set(&id->slurm_job, "zzjob");
	set(&id->parent, "zzparent");
	set(&id->tag, "zztag");
	return r;
}

static struct redact *shared; /* compiled once: it is most of the time */

__attribute__((destructor)) static void free_shared(void)
{
	redact_free(shared);
}

static struct record *build_marked(enum report_event event, enum rule_scope scope, bool object_pid_ok, uint32_t mask)
{
	_cleanup_(report_freep) struct report *r = marked(event, scope);
	_cleanup_(stack_text_freep) struct stack_text *st = make_stack(1);
	struct record *rec = NULL;

	if (!shared)
		shared = make_redact(0);
	redact_omit(shared, mask);
	set(&st->frames[0].text, "zzframe+0x1 (a)");
	if (record_build(r, st, object_pid_ok, shared, &rec) < 0)
		abort();
	return rec;
}

/* Also what stands in for OBJECT_PID later, which is in no field yet. */
static bool has_mark(const struct record *rec, const char *mark)
{
	return memmem(rec->data.buf, rec->data.len, mark, strlen(mark));
}

static void check_marks(enum report_event event, enum rule_scope scope, bool object_pid_ok, uint32_t mask)
{
	_cleanup_(record_freep) struct record *rec = build_marked(event, scope, object_pid_ok, mask);
	_cleanup_(record_freep) struct record *whole = build_marked(event, scope, object_pid_ok, 0);

	EXPECT_SOUND(rec);
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
		bool is_omitted = omit_implied(mask) & OMIT_BIT(marks[i].omit);
		bool want = has_mark(whole, marks[i].text) && !is_omitted;

		/* In place of the pod the message names the unit of the user's manager, as without one. */
		if (is_in_pod && !is_omitted && strcmp(marks[i].text, "zzmine") == 0)
			continue;
		if (has_mark(rec, marks[i].text) != want)
			printf("# %s, scope %d, omit 0x%x: %s is %s\n", report_event_name(event), (int)scope, mask,
			       marks[i].text, want ? "missing" : "there");
		EXPECT_EQ(has_mark(rec, marks[i].text), want);
	}
	EXPECT_STR(record_get(rec, "GPUXRAY_PID"), "4711");
}

/* What is omitted is in no field and in no word; all else is there. */
TEST(omitted_in_all_records)
{
	unsigned seen = 0;

	for (int i = 0; i < 2 * REPORT_START; i++) {
		const int event = i / 2;

		is_in_pod = i % 2;
		_cleanup_(record_freep) struct record *whole = build_marked((enum report_event)event, SCOPE_PROCESS, true, 0);

		for (size_t m = 0; m < ARRAY_SIZE(marks); m++)
			seen |= (unsigned)has_mark(whole, marks[m].text) << m;
		for (int scope = 0; scope < SCOPE_MAX; scope++) {
			for (int omit = 0; omit < OMIT_MAX; omit++)
				check_marks((enum report_event)event, (enum rule_scope)scope, omit % 2, OMIT_BIT(omit));
			check_marks((enum report_event)event, (enum rule_scope)scope, true, ALL_OMITTED);
			check_marks((enum report_event)event, (enum rule_scope)scope, false, ALL_OMITTED);
		}
	}
	is_in_pod = true;
	/* Else the test shows nothing. */
	EXPECT_EQ(seen, (1u << ARRAY_SIZE(marks)) - 1);
}

TEST(stack_leaves_its_id)
{
	_cleanup_(record_freep) struct record *rec = build_marked(REPORT_LEAK, SCOPE_PROCESS, true, OMIT_BIT(OMIT_STACK));

	EXPECT_STR(record_get(rec, "GPUXRAY_STACK_ID"), "0123456789abcdef");
	EXPECT(!record_get(rec, "GPUXRAY_STACK"));
	EXPECT(!strstr(record_get(rec, "MESSAGE"), "\n\nzz"));
}

/* The uid is in the name of the unit of a user's manager. */
TEST(user_goes_with_the_manager)
{
	_cleanup_(redact_freep) struct redact *redact = make_redact(OMIT_BIT(OMIT_USER));

	for (int has_key = 0; has_key < 2; has_key++) {
		_cleanup_(report_freep) struct report *r = make_report(REPORT_LIVE_BYTES);
		_cleanup_(record_freep) struct record *rec = NULL;

		set(&r->id->unit, "user@1000.service");
		set(&r->id->user_unit, "jupyter.service");
		set(&r->id->slice, "user-1000.slice");
		if (has_key) {
			r->scope = SCOPE_UNIT;
			set(&r->scope_key, "user@1000.service");
		}
		ASSERT(record_build(r, NULL, false, redact, &rec) == 0);
		EXPECT(!has_mark(rec, "1000"));
		EXPECT_STR(record_get(rec, "OBJECT_SYSTEMD_USER_UNIT"), "jupyter.service");
		EXPECT_STR(record_get(rec, "GPUXRAY_UNIT"), "jupyter.service");
	}
}

/* So is the id of a container in the name of the unit that it is. */
TEST(container_goes_with_its_unit)
{
#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	static const struct {
		const char *unit, *user_unit, *container, *mark;
	} cases[] = {
		{ "docker-" ID ".scope", NULL, ID, "0123456789abcdef0" },
		{ "docker-" ID ".scope", NULL, NULL, "0123456789abcdef0" },
		{ "user@7.service", "libpod-" ID ".scope", ID, "0123456789abcdef0" },
		{ "machine-alices\\x2dbox.scope", NULL, "alices-box", "alices" },
		{ "systemd-nspawn@alices.service", NULL, "alices", "alices" },
		{ "system-alices.service", NULL, "alices", "alices" },
	};
#undef ID
	_cleanup_(redact_freep) struct redact *redact = make_redact(OMIT_BIT(OMIT_CONTAINER));

	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
		_cleanup_(report_freep) struct report *r = make_report(REPORT_LIVE_BYTES);
		_cleanup_(record_freep) struct record *rec = NULL;
		const size_t c = i / 2;

		set(&r->id->unit, cases[c].unit);
		set(&r->id->user_unit, cases[c].user_unit);
		set(&r->id->container, cases[c].container);
		if (i % 2) {
			r->scope = SCOPE_UNIT;
			set(&r->scope_key, cases[c].user_unit ?: cases[c].unit);
		}
		ASSERT(record_build(r, NULL, false, redact, &rec) == 0);
		EXPECT(!has_mark(rec, cases[c].mark));
	}
}

/* journald adds name, command line, user and cgroup to a pid: none of that can be left out. */
TEST(no_pid_for_journald_where_it_would_tell)
{
	for (int omit = 0; omit < OMIT_MAX; omit++) {
		_cleanup_(record_freep) struct record *rec =
			build_marked(REPORT_LIVE_BYTES, SCOPE_PROCESS, true, OMIT_BIT(omit));
		bool may = omit == OMIT_PARENT || omit == OMIT_TAG || omit == OMIT_STACK;

		if (may != (record_get(rec, "OBJECT_PID") != NULL))
			printf("# %s\n", omit_names[omit]);
		EXPECT_EQ(record_get(rec, "OBJECT_PID") != NULL, may);
		EXPECT_EQ(rec->object_pid != 0, may);
		if (!may && omit != OMIT_UNIT)
			EXPECT_STR(record_get(rec, "OBJECT_SYSTEMD_UNIT"), "zzunit.service");
		if (omit == OMIT_UNIT)
			EXPECT(!record_get(rec, "OBJECT_SYSTEMD_UNIT") && !record_get(rec, "OBJECT_SYSTEMD_USER_UNIT"));
	}
}

/* Nor where it would add a secret that has been replaced. */
TEST(no_pid_for_journald_with_secrets)
{
	for (int i = 0; i < 5; i++) {
		_cleanup_(redact_freep) struct redact *redact = make_redact(0);
		_cleanup_(report_freep) struct report *r = make_report(REPORT_LIVE_BYTES);
		_cleanup_(record_freep) struct record *rec = NULL;
		struct identity *id = r->id;
		char **const texts[] = { NULL, &id->cmdline, &id->exe, &id->cgroup, &id->comm };

		if (i > 0)
			set(texts[i], "/a/" SECRET);
		ASSERT(record_build(r, NULL, true, redact, &rec) == 0);
		EXPECT_EQ(record_get(rec, "OBJECT_PID") == NULL, i > 0);
	}
}

TEST(sentences_stay_right)
{
	static const struct {
		enum report_event event;
		enum rule_scope scope;
		uint32_t mask;
		const char *line;
	} cases[] = {
		{ REPORT_LIVE_BYTES, SCOPE_PROCESS, OMIT_BIT(OMIT_COMM),
		  "process 4711 zzmine.service holds 41.2 GiB on GPU 0, over 40 GiB (rule process-quota)" },
		{ REPORT_LIVE_BYTES, SCOPE_PROCESS, OMIT_BIT(OMIT_UNIT),
		  "zzcomm[4711] holds 41.2 GiB on GPU 0, over 40 GiB (rule process-quota)" },
		{ REPORT_LIVE_BYTES, SCOPE_PROCESS, ALL_OMITTED,
		  "process 4711 holds 41.2 GiB on GPU 0, over 40 GiB (rule process-quota)" },
		{ REPORT_LIVE_BYTES, SCOPE_USER, OMIT_BIT(OMIT_USER),
		  "a user holds 41.2 GiB on GPU 0, over 40 GiB (rule process-quota)" },
		{ REPORT_LIVE_BYTES, SCOPE_USER, OMIT_BIT(OMIT_COMM),
		  "user zzuser holds 41.2 GiB on GPU 0, over 40 GiB (rule process-quota)" },
		{ REPORT_LIVE_BYTES, SCOPE_UNIT, OMIT_BIT(OMIT_UNIT),
		  "a unit holds 41.2 GiB on GPU 0, over 40 GiB (rule process-quota)" },
		{ REPORT_LIVE_BYTES, SCOPE_CGROUP, OMIT_BIT(OMIT_CGROUP),
		  "a cgroup holds 41.2 GiB on GPU 0, over 40 GiB (rule process-quota)" },
		{ REPORT_LIVE_BYTES, SCOPE_CONTAINER, OMIT_BIT(OMIT_CONTAINER),
		  "a container holds 41.2 GiB on GPU 0, over 40 GiB (rule process-quota)" },
		{ REPORT_LEAK, SCOPE_STACK, OMIT_BIT(OMIT_COMM) | OMIT_BIT(OMIT_UNIT),
		  "process 4711 may be leaking on GPU 0 from one call site (rule process-quota)" },
		{ REPORT_EXIT, SCOPE_PROCESS, ALL_OMITTED,
		  "process 4711 ended with 41.2 GiB never freed on GPU 0, over 40 GiB (rule process-quota)" },
	};

	is_in_pod = false;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(record_freep) struct record *rec =
			build_marked(cases[i].event, cases[i].scope, true, cases[i].mask);
		_cleanup_free_ char *line = make_str(record_get(rec, "MESSAGE"));

		line[strcspn(line, "\n")] = '\0';
		EXPECT_STR(line, cases[i].line);
	}
	is_in_pod = true;
}

/* ---- messages of rules */

static void clean(const char *text, struct strbuf *sb, void *userdata)
{
	redact_text(userdata, text, sb);
}

static char *expanded(const char *text, const struct report *r, uint32_t mask)
{
	_cleanup_(redact_freep) struct redact *redact = make_redact(mask);
	struct engine e = { .ops = { .omit = redact_omitted(redact), .clean = clean }, .userdata = redact };
	char *ret = NULL;

	if (template_expand(&e, text, r, &ret) < 0)
		abort();
	return ret;
}

TEST(messages_of_rules)
{
	static const char text[] = "%{comm} %{exe} %{user} %{uid} %{unit} %{slice} %{cgroup} %{container} %{pod} %{slurm_job} "
				   "%{tag} %{scope_key} %{pid} %{pod_name} %{pod_namespace} %{container_name}";
	_cleanup_(report_freep) struct report *r = marked(REPORT_LIVE_BYTES, SCOPE_USER);
	_cleanup_free_ char *all = expanded(text, r, 0), *none = expanded(text, r, ALL_OMITTED),
			    *user = expanded(text, r, OMIT_BIT(OMIT_USER));

	EXPECT_STR(all, "zzcomm /bin/zzexe zzuser 54321 zzunit.service zzslice.slice /zzcgroup zzbox zzpod zzjob zztag "
			"zzuser 4711 zznamed zzspace zzcalled");
	EXPECT_STR(none, "[omitted] [omitted] [omitted] [omitted] [omitted] [omitted] [omitted] [omitted] [omitted] [omitted] "
			 "[omitted] [omitted] 4711 [omitted] [omitted] [omitted]");
	EXPECT_STR(user, "zzcomm /bin/zzexe [omitted] [omitted] zzunit.service [omitted] [omitted] zzbox zzpod zzjob zztag "
			 "[omitted] 4711 zznamed zzspace zzcalled");
}

/* A name is cut to 256 bytes: what is left of the secret would not be known for one. */
TEST(messages_of_rules_cut_after_redaction)
{
	_cleanup_(report_freep) struct report *r = make_report(REPORT_LIVE_BYTES);
	_cleanup_free_ char *path = NULL, *message = NULL, *dots = repeat('.', 225);

	ASSERT(asprintf(&path, "%s/" SECRET "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", dots) > 0);
	set(&r->id->exe, path);
	message = expanded("%{exe}", r, 0);
	EXPECT(strstr(message, "cut]") && !strstr(message, "hf_"));
}

/* ---- recordings */

static char *recorded(uint32_t mask, const struct redact *redact, struct identity *id)
{
	char path[] = "/tmp/gpuxray-privacy-XXXXXX";
	_cleanup_close_ int fd = mkstemp(path);
	struct recorder_options o = { .path = path, .identity = true, .redact = redact };
	struct engine_input in = { .type = INPUT_IDENTITY, .pid = 4711, .start_ns = 5, .identity = id,
				   .now_ns = 1000000000000, .real_usec = 1796000000000000 };
	struct recorder *r = NULL;
	char *text = calloc(1, 1 << 16);
	FILE *f;

	if (fd < 0 || !text || recorder_new(&o, &r) < 0)
		abort();
	recorder_tap(&in, r);
	EXPECT_EQ(recorder_close(r, NULL), 0);
	f = fopen(path, "re");
	if (!f)
		abort();
	(void)!fread(text, 1, (1 << 16) - 1, f);
	fclose(f);
	(void)unlink(path);
	return text;
}

TEST(recordings_are_redacted)
{
	_cleanup_(report_freep) struct report *r = marked(REPORT_LIVE_BYTES, SCOPE_PROCESS);
	_cleanup_(redact_freep) struct redact *redact = make_redact(0);
	_cleanup_free_ char *text = NULL;
	char *one;

	set(&r->id->cmdline, "run --token=abc " SECRET " b");
	set(&r->id->exe, "/x/" SECRET "/python3");
	set(&r->id->tag, "password=hunter2");
	text = recorded(0, redact, r->id);
	EXPECT(!strstr(text, SECRET) && !strstr(text, "abc") && !strstr(text, "hunter2"));
	one = strstr(text, "cmdline=");
	EXPECT(one && strncmp(one, "cmdline=run%20--token=[redacted]%20[redacted]%20b", 49) == 0);
	EXPECT(strstr(text, "exe=/x/[redacted]/python3"));
	EXPECT(strstr(text, "user=zzuser"));
	/* The engine's own copy is as it was. */
	EXPECT(strstr(r->id->exe, SECRET));
}

/* Half a secret at the end of a command line that was cut when it was captured. */
TEST(recordings_without_half_a_secret)
{
	_cleanup_(report_freep) struct report *r = marked(REPORT_LIVE_BYTES, SCOPE_PROCESS);
	_cleanup_(redact_freep) struct redact *redact = make_redact(0);
	_cleanup_free_ char *text = NULL, *line = repeat('x', IDENTITY_CMDLINE_MAX - 1);

	memcpy(line + IDENTITY_CMDLINE_MAX - 12, " hf_AbCdEfG", 11);
	set(&r->id->cmdline, line);
	text = recorded(0, redact, r->id);
	EXPECT(strstr(text, "cmdline=xxxx") && !strstr(text, "hf_"));
}

TEST(recordings_omit)
{
	_cleanup_(report_freep) struct report *r = marked(REPORT_LIVE_BYTES, SCOPE_PROCESS);

	for (int omit = 0; omit <= OMIT_MAX; omit++) {
		const uint32_t mask = omit == OMIT_MAX ? ALL_OMITTED : OMIT_BIT(omit);
		_cleanup_(redact_freep) struct redact *redact = make_redact(mask);
		_cleanup_free_ char *text = recorded(mask, redact, r->id);

		for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
			bool want = !(omit_implied(mask) & OMIT_BIT(marks[i].omit)) && marks[i].omit != OMIT_STACK;

			if ((strstr(text, marks[i].text) != NULL) != want)
				printf("# %s: %s in %s\n", omit < OMIT_MAX ? omit_names[omit] : "all", marks[i].text, text);
			EXPECT_EQ(strstr(text, marks[i].text) != NULL, want);
		}
	}
}

/* ---- the log */

TEST(log_lines_are_cleaned)
{
	_cleanup_(redact_freep) struct redact *redact = make_redact(0);
	char path[] = "/tmp/gpuxray-privacy-XXXXXX", text[8192] = "";
	_cleanup_close_ int fd = mkstemp(path), before = dup(STDERR_FILENO);
	_cleanup_free_ char *filler = repeat('y', 3000);

	ASSERT(fd >= 0 && before >= 0 && dup2(fd, STDERR_FILENO) >= 0);
	log_set_clean(redact_cb, redact);
	log_warning("/x/%s/libcuda.so.1: not probed", SECRET);
	log_warning("%s", filler);
	log_set_clean(NULL, NULL);
	log_warning("/x/%s", SECRET);
	(void)dup2(before, STDERR_FILENO);
	ASSERT(pread(fd, text, sizeof(text) - 1, 0) > 0);
	(void)unlink(path);
	EXPECT(strncmp(text, "/x/[redacted]/libcuda.so.1: not probed\nyyy", 42) == 0);
	EXPECT(strstr(text, "yyy...\n/x/" SECRET "\n"));
}

/* One that the end of the line goes through. */
TEST(log_lines_are_cleaned_before_they_are_cut)
{
	_cleanup_(redact_freep) struct redact *redact = make_redact(0);
	char path[] = "/tmp/gpuxray-privacy-XXXXXX", text[8192] = "";
	_cleanup_close_ int fd = mkstemp(path), before = dup(STDERR_FILENO);
	_cleanup_free_ char *filler = repeat('y', 2047 - strlen(SECRET) / 2);

	ASSERT(fd >= 0 && before >= 0 && dup2(fd, STDERR_FILENO) >= 0);
	filler[strlen(filler) - 1] = '/';
	log_set_clean(redact_cb, redact);
	log_warning("%s%s and so on", filler, SECRET);
	log_set_clean(NULL, NULL);
	(void)dup2(before, STDERR_FILENO);
	ASSERT(pread(fd, text, sizeof(text) - 1, 0) > 0);
	(void)unlink(path);
	EXPECT(strlen(text) <= 2048);
	EXPECT(!strstr(text, "hf_"));
}

TEST_MAIN()
