/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "record_check.h"
#include "record_make.h"
#include "test.h"

static char *redacted(const struct redact *r, const char *text)
{
	struct strbuf sb = STRBUF_INIT;
	char *s = NULL;

	redact_text(r, text, &sb);
	if (strbuf_steal(&sb, &s) < 0)
		abort();
	return s;
}

#define EXPECT_REDACTED(r, in, out)                                                                                    \
	do {                                                                                                           \
		_cleanup_free_ char *s_ = redacted(r, in);                                                             \
		EXPECT_STR(s_, out);                                                                                   \
	} while (0)

TEST(secrets_are_hidden)
{
	_cleanup_(redact_freep) struct redact *r = NULL;
	struct errors e = ERRORS_INIT;

	ASSERT(redact_new(NULL, 0, &e, &r) == 0);
	EXPECT_REDACTED(r, "x --password=hunter2 y", "x --password=[redacted] y");
	EXPECT_REDACTED(r, "x --password hunter2 y", "x --password [redacted] y");
	EXPECT_REDACTED(r, "x --db-password hunter2 y", "x --db-password [redacted] y");
	EXPECT_REDACTED(r, "x --dbpassword hunter2", "x --dbpassword [redacted]");
	EXPECT_REDACTED(r, "sh -c a --password='two words' b", "sh -c a --password=[redacted] b");
	EXPECT_REDACTED(r, "sh -c a --password=\"two words\" b", "sh -c a --password=[redacted] b");
	EXPECT_REDACTED(r, "PGPASSWORD=x psql", "PGPASSWORD=[redacted] psql");
	EXPECT_REDACTED(r, "env MYSQL_PWD=x mysql", "env MYSQL_PWD=[redacted] mysql");
	EXPECT_REDACTED(r, "sshpass -p secret ssh h", "sshpass -p [redacted] ssh h");
	EXPECT_REDACTED(r, "--token=abc", "--token=[redacted]");
	EXPECT_REDACTED(r, "--auth-token abc", "--auth-token [redacted]");
	EXPECT_REDACTED(r, "WANDB_API_KEY=0123 python", "WANDB_API_KEY=[redacted] python");
	EXPECT_REDACTED(r, "--api-key k1 --apiKey=k2 --api_key k3", "--api-key [redacted] --apiKey=[redacted] --api_key [redacted]");
	EXPECT_REDACTED(r, "--client-secret=abc --secret xyz", "--client-secret=[redacted] --secret [redacted]");
	EXPECT_REDACTED(r, "AWS_SECRET_ACCESS_KEY=wJalr/K7+x=", "AWS_SECRET_ACCESS_KEY=[redacted]");
	EXPECT_REDACTED(r, "{\"password\": \"a b\", \"n\": 1}", "{\"password\": [redacted], \"n\": 1}");
	EXPECT_REDACTED(r, "curl -H Authorization: Bearer abc.def http://h/", "curl -H Authorization: [redacted] http://h/");
	EXPECT_REDACTED(r, "curl -H \"Authorization: Custom abc\" http://h/", "curl -H \"Authorization: [redacted]\" http://h/");
	EXPECT_REDACTED(r, "curl -H 'X-Api-Key: abc' h", "curl -H 'X-Api-Key: [redacted]' h");
	EXPECT_REDACTED(r, "tool bearer abcdefghijkl", "tool bearer [redacted]");
	EXPECT_REDACTED(r, "curl -u me:pw h --user me:pw", "curl -u [redacted] h --user [redacted]");
	EXPECT_REDACTED(r, "run AKIAIOSFODNN7EXAMPLE now", "run [redacted] now");
	EXPECT_REDACTED(r, "login hf_AbCdEfGhIjKlMnOpQrStUv", "login [redacted]");
	EXPECT_REDACTED(r, "k=sk-proj-AbCdEfGh_IjKlMnOp q", "k=[redacted] q");
	EXPECT_REDACTED(r, "git ghp_0123456789abcdefghijABCDEFGHIJ012345", "git [redacted]");
	EXPECT_REDACTED(r, "x glpat-0123456789abcdef0123", "x [redacted]");
	EXPECT_REDACTED(r, "x eyJhbGciOiJIUzI1.eyJzdWIiOiIx.abc-_x y", "x [redacted] y");
	EXPECT_REDACTED(r, "postgres://user:p@ss@db:5432/x", "postgres://[redacted]@db:5432/x");
	EXPECT_REDACTED(r, "redis://:pw@h", "redis://[redacted]@h");
	EXPECT_REDACTED(r, "https://b.s3/k?X-Amz-Signature=0123abcd&x=1", "https://b.s3/k?X-Amz-Signature=[redacted]");
	EXPECT_REDACTED(r, "a -----BEGIN RSA PRIVATE KEY----- MIIE -----END RSA PRIVATE KEY----- b",
			"a -----BEGIN RSA PRIVATE KEY-----[redacted] b");
	EXPECT_REDACTED(r, "--password=", "--password=");
	EXPECT_REDACTED(r, "", "");
	errors_done(&e);
}

TEST(what_is_no_secret_stays)
{
	static const char *const same[] = {
		"python train.py --max-tokens 4096 --max_new_tokens=512 --tokenizer=gpt2 --tokenizer-path /a/b",
		"docker run -u 1000:1000 --user 0:0 image",
		"https://host:8080/path@v2 ssh://git@host/repo",
		"/usr/lib/secrets/token/helper.so",
		"--token-file /run/secrets/x --password-file=/etc/pw",
		"sk-learn hf_bert AKIA risk-averse-investment-strategies",
		"reset the password of bob",
		"--keys 3 --key value --monkey",
		"passenger start --bypass",
		"std::vector<int>::push_back(int&&)+0x1c (libtoken.so)",
		"-u file:///etc/x",
	};
	_cleanup_(redact_freep) struct redact *r = NULL;
	struct errors e = ERRORS_INIT;

	ASSERT(redact_new(NULL, 0, &e, &r) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(same); i++)
		EXPECT_REDACTED(r, same[i], same[i]);
	errors_done(&e);
}

TEST(patterns_of_the_user)
{
	char *patterns[] = { (char *)"badge-[0-9]+", (char *)"(?<=id:)\\w+", (char *)"x*" };
	_cleanup_(redact_freep) struct redact *r = NULL;
	struct errors e = ERRORS_INIT;

	ASSERT(redact_new(patterns, 3, &e, &r) == 0);
	EXPECT_REDACTED(r, "badge-12 badge-3 id:abc", "[redacted] [redacted] id:[redacted]");
	EXPECT_REDACTED(r, "axxb", "a[redacted]b");
	EXPECT_REDACTED(NULL, "badge-12 --password=x", "badge-12 --password=x");
	errors_done(&e);
}

TEST(bad_patterns_are_all_named)
{
	char *patterns[] = { (char *)"ok", (char *)"a(b", (char *)"[" };
	struct redact *r = NULL;
	struct errors e = ERRORS_INIT;

	EXPECT_EQ(redact_new(patterns, 3, &e, &r), -EINVAL);
	EXPECT(!r);
	EXPECT_EQ(e.error_count, 2);
	ASSERT(e.len == 2);
	EXPECT(strstr(e.list[0].text, "a(b") && strstr(e.list[1].text, "\"[\""));
	errors_done(&e);
}

/* A pattern that gives up must not let the text through. */
TEST(catastrophic_pattern_hides_all)
{
	char *patterns[] = { (char *)"(a+)+$" };
	_cleanup_(redact_freep) struct redact *r = NULL;
	struct errors e = ERRORS_INIT;
	uint64_t before = clock_monotonic_ns();
	char text[4001];

	ASSERT(redact_new(patterns, 1, &e, &r) == 0);
	memset(text, 'a', sizeof(text) - 2);
	strcpy(text + sizeof(text) - 2, "!");
	EXPECT_REDACTED(r, text, "[redacted]");
	EXPECT(clock_monotonic_ns() - before < 2 * NSEC_PER_SEC);
	errors_done(&e);
}

/* The patterns of our own take time in proportion to the text and never give up on one that a process can make. */
TEST(own_patterns_do_not_give_up)
{
	static const char *const pieces[] = { "a", "-", "--a", " -", "token", "password", "pass-", "://", "://a:", "eyJ",
					      "sk-.", "authorization:", "\"", "api_", "secret_", "-u a:", "_.-", "--x.y_" };
	_cleanup_(redact_freep) struct redact *r = NULL;
	struct errors e = ERRORS_INIT;

	ASSERT(redact_new(NULL, 0, &e, &r) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		uint64_t before = clock_monotonic_ns();
		_cleanup_free_ char *s = NULL;
		char text[IDENTITY_CMDLINE_MAX + 32] = "";
		size_t n = strlen(pieces[i]);

		for (size_t at = 0; at + n < IDENTITY_CMDLINE_MAX; at += n)
			memcpy(text + at, pieces[i], n + 1);
		s = redacted(r, text);
		if (strcmp(s, "[redacted]") == 0)
			printf("# gave up on %s\n", pieces[i]);
		EXPECT(strcmp(s, "[redacted]") != 0);
		EXPECT(clock_monotonic_ns() - before < NSEC_PER_SEC);
	}
	errors_done(&e);
}

/* Redaction comes before escaping and cutting, and covers each field that carries foreign text. */
TEST(no_secret_in_any_field)
{
	static const char secret[] = "hf_AbCdEfGhIjKlMnOpQrStUv";
	_cleanup_(redact_freep) struct redact *redact = NULL;
	struct errors e = ERRORS_INIT;

	ASSERT(redact_new(NULL, 0, &e, &redact) == 0);
	for (int event = 0; event < REPORT_EVENT_MAX; event++) {
		for (int own = 0; own < 2; own++) {
			_cleanup_(report_freep) struct report *r = make_report((enum report_event)event);
			_cleanup_(stack_text_freep) struct stack_text *st = make_stack(1);
			_cleanup_(record_freep) struct record *rec = NULL;
			char **const texts[] = { &r->id->cmdline, &r->id->exe,	  &r->id->comm,	      &r->id->cgroup,
						 &r->id->user,	  &r->id->unit,	  &r->id->container, &r->id->pod,
						 &r->text,	  &st->frames[0].text, &st->info };

			for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
				char s[64];

				(void)snprintf(s, sizeof(s), "/a %s\n", secret);
				free(*texts[i]);
				*texts[i] = make_str(s);
			}
			r->detail = make_str("GPUXRAY_FILE=/x/hf_AbCdEfGhIjKlMnOpQrStUv");
			/* A legal name of a unit, which is not escaped otherwise. */
			if (own) {
				free(r->id->unit);
				r->id->unit = make_str("run-hf_AbCdEfGhIjKlMnOpQrStUv.service");
				r->message = make_str("run hf_AbCdEfGhIjKlMnOpQrStUv");
			}
			ASSERT(record_build(r, st, true, redact, &rec) == 0);
			for (size_t i = 0; i < rec->len; i++)
				EXPECT(!strstr(rec->data.buf + rec->field[i].offset, secret));
			EXPECT(strstr(record_get(rec, "GPUXRAY_FILE"), "[redacted]"));
			if (event < REPORT_START)
				EXPECT_STR(record_get(rec, "GPUXRAY_CMDLINE"), "/a [redacted]\\x0a");
		}
	}
	errors_done(&e);
}

TEST_MAIN()
