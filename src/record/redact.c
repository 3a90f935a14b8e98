/* SPDX-License-Identifier: MIT */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "record/record.h"

#define REDACTED "[redacted]"

/* Steps of the matcher for one text and pattern: a few milliseconds. */
#define REDACT_MATCH_LIMIT 200000
#define REDACT_HEAP_LIMIT_KIB 4096
#define REDACT_PATTERN_MAX 4096

/* What follows a name: the secret itself, quoted or up to the next blank or quote. */
#define VALUE "(?:\"[^\"]*\"?|'[^']*'?|[^\\s\"']+)"
/* Not --max-tokens, --tokenizer or --token-file: the word must end here. */
#define NAME                                                                                                           \
	"(?:passwords?|passwd|passphrase|(?<![a-z0-9])pass|mysql_pwd|secrets?|secret[_-]?(?:access[_-]?)?keys?|token|" \
	"api[_-]?keys?|access[_-]?keys?|private[_-]?keys?|account[_-]?keys?|auth[_-]?keys?|credentials?|"              \
	"(?<![a-z0-9])signature|(?<![a-z0-9])sig)(?![a-z0-9_-])"

/*
 * \K: what stands before it stays readable. No pattern begins with an unbounded repeat, so that a long word costs no
 * more than its length.
 */
static const char *const default_patterns[] = {
	/* password=..., TOKEN: ..., "api_key": "..." */
	"(?i)" NAME "[\"']?\\s*(?:=|:(?!//))\\s*\\K" VALUE,
	/* --password ... as two arguments */
	"(?i)(?<!\\S)--?(?:[a-z0-9_.-]{0,64}?[_.-])?" NAME "\\s+\\K" VALUE,
	"(?i)(?<!\\S)--?[a-z0-9]{0,32}?(?:password|passwd|secret|token|apikey|accesskey)(?![a-z0-9_-])\\s+\\K" VALUE,
	"(?i)(?<![a-z0-9])sshpass\\s+-p\\s*\\K" VALUE,
	/* curl -u user:password, but not docker run -u 1000:1000 */
	"(?<!\\S)(?:-u|--user|--proxy-user)[ =]?\\K(?!\\d+:\\d+(?!\\S))[^\\s:/]+:(?!//)\\S+",
	/* Authorization: Bearer ..., with a scheme that we do not know too */
	"(?i)(?<![a-z0-9])(?:proxy-)?authorization[\"']?\\s*[=:]\\s*[\"']?\\K[^\\s\"']+(?:\\s+[^\\s\"']+)?",
	"(?i)(?<![a-z0-9])(?:x-api-key|x-auth-token|set-cookie|cookie)[\"']?\\s*[=:]\\s*\\K" VALUE,
	"(?i)(?<![a-z0-9])bearer\\s+\\K[a-z0-9._~+/=-]{8,}",
	/* Keys that show what they are: AWS, Hugging Face, OpenAI and Anthropic, GitHub, GitLab, Slack, Google, npm, NVIDIA,
	 * Replicate, PyPI, Docker, Stripe, JSON web tokens. */
	"(?<![A-Za-z0-9])(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA|ANVA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
	"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{16,}",
	"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{16,}",
	"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,})",
	"(?<![A-Za-z0-9])(?:xox[a-z]-[A-Za-z0-9-]{10,}|AIza[A-Za-z0-9_-]{35}|npm_[A-Za-z0-9]{30,}|nvapi-[A-Za-z0-9_-]{20,}|"
	"r8_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|dckr_pat_[A-Za-z0-9_-]{20,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,})",
	"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,}\\.[A-Za-z0-9_-]{8,}(?:\\.[A-Za-z0-9_-]*)?",
	/* scheme://user:password@host */
	"://\\K[^\\s/:@]*:[^\\s/]+(?=@)",
	"-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----\\K[^-]*(?:-----END[A-Z ]{0,40}-----)?",
};

struct redact {
	pcre2_match_context *match;
	size_t len;
	pcre2_code *code[];
};

static int compile(const char *pattern, pcre2_code **ret, char *reterr, size_t size)
{
	PCRE2_SIZE offset;
	int code;

	if (strlen(pattern) > REDACT_PATTERN_MAX) {
		(void)snprintf(reterr, size, "longer than %d bytes", REDACT_PATTERN_MAX);
		return -EINVAL;
	}
	*ret = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_DOLLAR_ENDONLY, &code, &offset, NULL);
	if (!*ret) {
		PCRE2_UCHAR text[128];

		if (code == PCRE2_ERROR_NOMEMORY)
			return -ENOMEM;
		(void)pcre2_get_error_message(code, text, sizeof(text));
		(void)snprintf(reterr, size, "%s at character %zu", (const char *)text, (size_t)offset + 1);
		return -EINVAL;
	}
	/* Refused under MemoryDenyWriteExecute=: then it is interpreted. */
	(void)pcre2_jit_compile(*ret, PCRE2_JIT_COMPLETE);
	return 0;
}

int redact_new(char *const *patterns, size_t n, struct errors *errors, struct redact **ret)
{
	const size_t total = ARRAY_SIZE(default_patterns) + n;
	_cleanup_(redact_freep) struct redact *r = NULL;
	bool is_bad = false;

	r = calloc(1, sizeof(*r) + total * sizeof(r->code[0]));
	if (!r)
		return -ENOMEM;
	r->match = pcre2_match_context_create(NULL);
	if (!r->match)
		return -ENOMEM;
	(void)pcre2_set_match_limit(r->match, REDACT_MATCH_LIMIT);
	(void)pcre2_set_heap_limit(r->match, REDACT_HEAP_LIMIT_KIB);
	for (size_t i = 0; i < total; i++) {
		const size_t own = ARRAY_SIZE(default_patterns);
		const char *pattern = i < own ? default_patterns[i] : patterns[i - own];
		char text[192] = "";
		int err = compile(pattern, &r->code[r->len], text, sizeof(text));

		if (err == -EINVAL) {
			errors_add(errors, NULL, 0, "redact: pattern \"%s\": %s", pattern, text);
			is_bad = true;
		} else if (err < 0) {
			return err;
		} else {
			r->len++;
		}
	}
	if (is_bad)
		return -EINVAL;
	*ret = TAKE_PTR(r);
	return 0;
}

void redact_free(struct redact *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->len; i++)
		pcre2_code_free(r->code[i]);
	pcre2_match_context_free(r->match);
	free(r);
}

/* 0, -ENOMEM, or -E2BIG when the pattern gave up. */
static int redact_one(const pcre2_code *code, pcre2_match_context *context, const struct strbuf *in, struct strbuf *out)
{
	const char *text = strbuf_str(in);
	pcre2_match_data *md = pcre2_match_data_create(1, NULL);
	size_t at = 0, kept = 0; /* search from, copied up to */
	int n = 0;

	if (!md)
		return -ENOMEM;
	while (at <= in->len) {
		const PCRE2_SIZE *ov = pcre2_get_ovector_pointer(md);

		n = pcre2_match(code, (PCRE2_SPTR)text, in->len, at, 0, md, context);
		if (n == PCRE2_ERROR_JIT_STACKLIMIT)
			n = pcre2_match(code, (PCRE2_SPTR)text, in->len, at, PCRE2_NO_JIT, md, context);
		if (n < 0)
			break;
		/* \K in a look-around can put the start behind the end or before what was copied. */
		if (ov[1] <= ov[0] || ov[0] < kept) {
			at = MAX(at, ov[1]) + 1;
			continue;
		}
		strbuf_add(out, text + kept, ov[0] - kept);
		strbuf_adds(out, REDACTED);
		at = kept = ov[1];
	}
	pcre2_match_data_free(md);
	if (n < 0 && n != PCRE2_ERROR_NOMATCH)
		return -E2BIG;
	strbuf_add(out, text + kept, in->len - kept);
	return out->error;
}

void redact_text(const struct redact *r, const char *text, struct strbuf *sb)
{
	_cleanup_strbuf_ struct strbuf a = STRBUF_INIT, b = STRBUF_INIT;
	struct strbuf *in = &a, *out = &b;

	if (!r) {
		strbuf_adds(sb, text);
		return;
	}
	strbuf_adds(in, text);
	for (size_t i = 0; i < r->len; i++) {
		struct strbuf *t = in;
		int err;

		strbuf_reset(out);
		err = redact_one(r->code[i], r->match, in, out);
		if (err == -E2BIG) {
			/* What cannot be searched is not shown. */
			strbuf_adds(sb, REDACTED);
			return;
		}
		if (err < 0) {
			sb->error = err;
			return;
		}
		in = out;
		out = t;
	}
	if (in->error)
		sb->error = in->error;
	else
		strbuf_add(sb, strbuf_str(in), in->len);
}
