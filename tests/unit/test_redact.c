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

#define HF "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567"
#define HEX32 "0123456789abcdef0123456789abcdef"
#define ALNUM40 "AbCdEfGhIjKlMnOpQrSt0123456789UvWxYz0123"

static const struct {
	const char *in, *out;
} secret[] = {
	/* name=value, however it is written */
	{ "x --password=hunter2 y", "x --password=[redacted] y" },
	{ "x --password hunter2 y", "x --password [redacted] y" },
	{ "x --Password hunter2 y", "x --Password [redacted] y" },
	{ "x --db-password hunter2 y", "x --db-password [redacted] y" },
	{ "x --dbpassword hunter2", "x --dbpassword [redacted]" },
	{ "x -password hunter2", "x -password [redacted]" },
	{ "sh -c a --password='two words' b", "sh -c a --password=[redacted] b" },
	{ "sh -c a --password 'two words' b", "sh -c a --password [redacted] b" },
	{ "sh -c a --password=\"two words\" b", "sh -c a --password=[redacted] b" },
	{ "sh -c a --password=\"never closed", "sh -c a --password=[redacted]" },
	{ "password : hunter2", "password : [redacted]" },
	{ "PASSWORD = hunter2", "PASSWORD = [redacted]" },
	{ "password%3Dhunter2", "password%3D[redacted]" },
	{ "--passphrase hunter2", "--passphrase [redacted]" },
	{ "--passwd=hunter2 --pass hunter3", "--passwd=[redacted] --pass [redacted]" },
	{ "PGPASSWORD=x psql", "PGPASSWORD=[redacted] psql" },
	{ "env MYSQL_PWD=x mysql", "env MYSQL_PWD=[redacted] mysql" },
	{ "DB_PASS=x DB_PWD=y dbpass=z", "DB_PASS=[redacted] DB_PWD=[redacted] dbpass=[redacted]" },
	{ "--token=abc", "--token=[redacted]" },
	{ "--token abc", "--token [redacted]" },
	{ "--auth-token abc", "--auth-token [redacted]" },
	{ "--authtoken abc", "--authtoken [redacted]" },
	{ "HF_TOKEN=abc HUGGING_FACE_HUB_TOKEN=abc", "HF_TOKEN=[redacted] HUGGING_FACE_HUB_TOKEN=[redacted]" },
	{ "docker run -e HF_TOKEN=abc image", "docker run -e HF_TOKEN=[redacted] image" },
	{ "jupyter lab --ServerApp.token=abc --NotebookApp.password='argon2:x y'",
	  "jupyter lab --ServerApp.token=[redacted] --NotebookApp.password=[redacted]" },
	{ "http://localhost:8888/lab?token=abc", "http://localhost:8888/lab?token=[redacted]" },
	{ "python -c login(token=\"abc def\")", "python -c login(token=[redacted])" },
	{ "WANDB_API_KEY=0123 python", "WANDB_API_KEY=[redacted] python" },
	{ "wandb login --relogin " HEX32 "01234567", "wandb login --relogin [redacted]" },
	{ "wandb login --host https://h.example " HEX32 "01234567", "wandb login --host https://h.example [redacted]" },
	{ "KAGGLE_KEY=abc", "KAGGLE_KEY=[redacted]" },
	{ "NEPTUNE_API_TOKEN=abc== COMET_API_KEY=d", "NEPTUNE_API_TOKEN=[redacted] COMET_API_KEY=[redacted]" },
	{ "MLFLOW_TRACKING_PASSWORD=abc", "MLFLOW_TRACKING_PASSWORD=[redacted]" },
	{ "--api-key k1 --apiKey=k2 --api_key k3 --API-KEY k4",
	  "--api-key [redacted] --apiKey=[redacted] --api_key [redacted] --API-KEY [redacted]" },
	{ "--client-secret=abc --secret xyz", "--client-secret=[redacted] --secret [redacted]" },
	{ "--encryption-key abc SIGNING_KEY=abc master_key: abc",
	  "--encryption-key [redacted] SIGNING_KEY=[redacted] master_key: [redacted]" },
	{ "OTEL_EXPORTER_OTLP_HEADERS=api-key=abc", "OTEL_EXPORTER_OTLP_HEADERS=api-key=[redacted]" },
	{ "{\"password\": \"a b\", \"n\": 1}", "{\"password\": [redacted], \"n\": 1}" },
	{ "{'api_key': 'a b', 'n': 1}", "{'api_key': [redacted], 'n': 1}" },
	{ "sh -c \"curl -d {\\\"password\\\":\\\"a b\\\",\\\"n\\\":1}\"",
	  "sh -c \"curl -d {\\\"password\\\":[redacted],\\\"n\\\":1}\"" },
	/* clouds */
	{ "AWS_SECRET_ACCESS_KEY=wJalr/K7+x=", "AWS_SECRET_ACCESS_KEY=[redacted]" },
	{ "aws_secret_access_key = wJalr/K7+x=", "aws_secret_access_key = [redacted]" },
	{ "aws configure set aws_secret_access_key wJalr/K7+x=", "aws configure set aws_secret_access_key [redacted]" },
	{ "aws_session_token=FwoGZ", "aws_session_token=[redacted]" },
	{ "run AKIAIOSFODNN7EXAMPLE now", "run [redacted] now" },
	{ "https://b.s3/k?X-Amz-Signature=0123abcd&x=1", "https://b.s3/k?X-Amz-Signature=[redacted]" },
	{ "https://b.s3/k?X-Amz-Security-Token=abc", "https://b.s3/k?X-Amz-Security-Token=[redacted]" },
	{ "https://storage.example/k?X-Goog-Signature=0123", "https://storage.example/k?X-Goog-Signature=[redacted]" },
	{ "https://a.blob.example/c?sv=2024&sp=r&sig=a%2Fb%3D", "https://a.blob.example/c?sv=2024&sp=r&sig=[redacted]" },
	{ "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=abc==;x=y",
	  "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=[redacted]" },
	{ "Endpoint=sb://h/;SharedAccessKey=abc=", "Endpoint=sb://h/;SharedAccessKey=[redacted]" },
	{ "SharedAccessSignature=sr=h", "SharedAccessSignature=[redacted]" },
	{ "Server=db;Uid=u;Pwd=abc;Database=x", "Server=db;Uid=u;Pwd=[redacted];Database=x" },
	{ "Server=db;User Id=u;Password=a b;", "Server=db;User Id=u;Password=[redacted] b;" },
	{ "host=db user=u password=abc dbname=x", "host=db user=u password=[redacted] dbname=x" },
	/* headers */
	{ "curl -H Authorization: Bearer abc.def http://h/", "curl -H Authorization: [redacted] http://h/" },
	{ "curl -H \"Authorization: Custom abc\" http://h/", "curl -H \"Authorization: [redacted]\" http://h/" },
	{ "curl -H 'authorization: Basic dXNlcjpwYXNz' http://h/", "curl -H 'authorization: [redacted]' http://h/" },
	{ "{\"Authorization\": \"Bearer abc\"}", "{\"Authorization\": \"[redacted]\"}" },
	{ "Proxy-Authorization: Basic abc", "Proxy-Authorization: [redacted]" },
	{ "curl -H 'X-Api-Key: abc' h", "curl -H 'X-Api-Key: [redacted]' h" },
	{ "curl -H 'Cookie: a=b' h", "curl -H 'Cookie: [redacted]' h" },
	{ "tool bearer abcdefghijkl", "tool bearer [redacted]" },
	{ "tool Basic dXNlcjpwYXNzd29yZA==", "tool Basic [redacted]" },
	/* programs */
	{ "curl -u me:pw h --user me:pw", "curl -u [redacted] h --user [redacted]" },
	{ "curl --proxy-user=me:pw h", "curl --proxy-user=[redacted] h" },
	{ "sshpass -p secret ssh h", "sshpass -p [redacted] ssh h" },
	{ "sshpass -phunter2 ssh h", "sshpass -p[redacted] ssh h" },
	{ "mysql -u root -phunter2 db", "mysql -u root -p[redacted] db" },
	{ "/usr/bin/mysqldump -h db -phunter2", "/usr/bin/mysqldump -h db -p[redacted]" },
	{ "docker login -u me -p hunter2 nvcr.io", "docker login -u me -p [redacted] nvcr.io" },
	{ "helm registry login r.example -p hunter2", "helm registry login r.example -p [redacted]" },
	{ "redis-cli -h h -a hunter2 ping", "redis-cli -h h -a [redacted] ping" },
	{ "openssl rsa -passin pass:hunter2", "openssl rsa -passin pass:[redacted]" },
	{ "smbclient -U me%hunter2 //h/s", "smbclient -U me%[redacted] //h/s" },
	/* addresses */
	{ "postgres://user:p@ss@db:5432/x", "postgres://[redacted]@db:5432/x" },
	{ "redis://:pw@h", "redis://[redacted]@h" },
	{ "git clone https://oauth2:abc@git.example/r", "git clone https://[redacted]@git.example/r" },
	{ "https://" HEX32 "@o1.ingest.example/2", "https://[redacted]@o1.ingest.example/2" },
	{ "https://hooks.slack.com/services/T0/B0/abc", "https://hooks.slack.com/services/[redacted]" },
	{ "https://discord.com/api/webhooks/12/abc", "https://discord.com/api/webhooks/[redacted]" },
	/* keys that show what they are */
	{ "login " HF, "login [redacted]" },
	{ "/data/" HF "/model", "/data/[redacted]/model" },
	{ "k=sk-proj-AbCdEfGh_IjKlMnOp q", "k=[redacted] q" },
	{ "sk-ant-api03-AbCdEfGh_IjKlMnOp", "[redacted]" },
	{ "git ghp_0123456789abcdefghijABCDEFGHIJ012345", "git [redacted]" },
	{ "git github_pat_11ABCDEFG0123456789_abcdefgh", "git [redacted]" },
	{ "x glpat-0123456789abcdef0123", "x [redacted]" },
	{ "xoxb-0123456789-abcdef", "[redacted]" },
	{ "nvapi-" ALNUM40, "[redacted]" },
	{ "gsk_" ALNUM40 " xai-" ALNUM40 " pplx-" ALNUM40, "[redacted] [redacted] [redacted]" },
	{ "wandb_v1_" ALNUM40, "[redacted]" },
	{ "dapi" HEX32, "[redacted]" },
	{ "hvs.CAESIAbCdEfGhIjKlMnOp", "[redacted]" },
	{ "12345678:AAAbCdEfGhIjKlMnOpQrSt0123456789UvW", "[redacted]" },
	{ "x eyJhbGciOiJIUzI1.eyJzdWIiOiIx.abc-_x y", "x [redacted] y" },
	{ "a -----BEGIN RSA PRIVATE KEY----- MIIE -----END RSA PRIVATE KEY----- b",
	  "a -----BEGIN RSA PRIVATE KEY-----[redacted] b" },
	{ "-----BEGIN RSA PRIVATE KEY-----\nDEK-Info: x\n\nMIIE\n-----END RSA PRIVATE KEY-----\n",
	  "-----BEGIN RSA PRIVATE KEY-----[redacted]\n" },
	{ "-----BEGIN PRIVATE KEY-----\\nMIIE", "-----BEGIN PRIVATE KEY-----[redacted]" },
};

TEST(secrets_are_hidden)
{
	_cleanup_(redact_freep) struct redact *r = NULL;
	struct errors e = ERRORS_INIT;

	ASSERT(redact_new(NULL, 0, &e, &r) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(secret); i++)
		EXPECT_REDACTED(r, secret[i].in, secret[i].out);
	errors_done(&e);
}

TEST(what_is_no_secret_stays)
{
	static const char *const same[] = {
		"",
		"--password=",
		/* tokens of text */
		"python train.py --max-tokens 4096 --max_new_tokens=512 --tokenizer=gpt2 --tokenizer-path /a/b",
		"--max-num-batched-tokens=8192 --token-budget 100 token_count=5 num_tokens: 7 812.3 tokens/s",
		"--eos-token </s> --pad_token=<pad> bos_token: \"<s>\" unk_token=<unk> --mask-token [MASK] image_token=<image>",
		"--stop-token <|im_end|> --cost-per-token 0.1 --start_token=1",
		/* switches and numbers */
		"--use-auth-token True use_auth_token=True token=None --token False, --secret no",
		"ffmpeg -i a.mp4 -pass 1 -passlogfile x",
		"--use-token --verbose --password --host h",
		/* files that hold them */
		"--token-file /run/secrets/x --password-file=/etc/pw --password-stdin",
		"GOOGLE_APPLICATION_CREDENTIALS=/etc/gcp/key.json --credentials ~/.config/c.yaml --private-key ./id.pem",
		"/run/secrets/token/helper.so /usr/lib/secrets/x",
		/* other keys */
		"--keys 3 --key value --key-frames 5 --monkey key=value --num-key-value-heads 8 keypoint=3 api_keyboard=1",
		"cache_key=abc sort_key: name primary_key=id",
		/* who, but nothing secret of them */
		"docker run -u 1000:1000 --user 0:0 image",
		"docker run -p 8080:80 -v /a:/b image",
		"ssh -p 22 -i /root/.ssh/id host",
		"mysql -u root -P 3306 db",
		"env PWD=/home/alice OLDPWD=/ python x.py",
		"python -u train.py",
		/* addresses without any */
		"https://host:8080/path@v2 ssh://git@host/repo git@github.com:a/b.git",
		"s3://bucket/key?versionId=3 hf://datasets/a/b",
		"postgres://db:5432/x nccl://10.0.0.1:29500 tcp://[::1]:80/a",
		"-u file:///etc/x",
		/* words */
		"sk-learn hf_bert AKIA risk-averse-investment-strategies sk-learn-contrib-and-more-modules",
		"hf_transformerswithoutdigits basic training basic transformers disk-usage-of-everything",
		"reset the password of bob; the secret is out",
		"passenger start --bypass compass=3 trespass: 4",
		"--signature-def serving --design=x --assign=3 bearer of news",
		"user/job=12:AA0 1.2.3 0.5:AAB",
		HEX32,
		/* frames */
		"std::vector<int>::push_back(int&&)+0x1c (libtoken.so)",
		"lexer::token::next(char const*)+0x3 (libparse.so)",
		"auth::password::check(std::string)+0x10 (a.out) at auth/password.cc:12",
		"Secret.__init__ (secrets.py:12)",
		"next_token (transformers/generation/utils.py:2100)",
		"c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc+0x548 (libc10_cuda.so)",
		/* identities */
		"/system.slice/train.service",
		"/kubepods.slice/kubepods-pod01234567_89ab_cdef_0123_456789abcdef.slice/cri-containerd-" HEX32 HEX32 ".scope",
		"/home/alice/.venv/bin/python3.11",
		"GPU-12345678-1234-1234-1234-123456789abc",
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
	static const char *const pieces[] = {
		"a", "-", "--a", " -", "token", "password", "pass-", "://", "://a:", "eyJ", "sk-.",
		"authorization:", "\"", "api_", "secret_", "-u a:", "_.-", "--x.y_", "mysql ",
		"docker login ", "wandb login a ", "redis-cli\t", "-----BEGIN PRIVATE KEY-----", ";pwd ",
		"eos_token", "Basic AA", "basic aAaa", "12345678:AA", "-U a%", "password\\\"", "SG.",
		"token=no", "secret=/.", "hooks.slack.com/a", "://aaaaaaaaaaaaaaaaaaaa.",
	};
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
	static const char token[] = "hf_AbCdEfGhIjKlMnOpQrStUv";
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

				(void)snprintf(s, sizeof(s), "/a %s\n", token);
				free(*texts[i]);
				*texts[i] = make_str(s);
			}
			r->is_first = true;
			r->detail = make_str("GPUXRAY_FILE=/x/hf_AbCdEfGhIjKlMnOpQrStUv");
			/* A legal name of a unit, which is not escaped otherwise. */
			if (own) {
				free(r->id->unit);
				r->id->unit = make_str("run-hf_AbCdEfGhIjKlMnOpQrStUv.service");
				r->message = make_str("run hf_AbCdEfGhIjKlMnOpQrStUv");
			}
			ASSERT(record_build(r, st, true, redact, &rec) == 0);
			for (size_t i = 0; i < rec->len; i++)
				EXPECT(!strstr(rec->data.buf + rec->field[i].offset, token));
			EXPECT(strstr(record_get(rec, "GPUXRAY_FILE"), "[redacted]"));
			if (event < REPORT_START && event != REPORT_SITE)
				EXPECT_STR(record_get(rec, "GPUXRAY_CMDLINE"), "/a [redacted]\\x0a");
		}
	}
	errors_done(&e);
}

TEST_MAIN()
