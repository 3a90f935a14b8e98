/* SPDX-License-Identifier: MIT */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "record/record.h"
#include "rule/omit.h"

#define REDACTED "[redacted]"

/* Steps of the matcher for one text and pattern: a few milliseconds. */
#define REDACT_MATCH_LIMIT 200000
#define REDACT_HEAP_LIMIT_KIB 4096
#define REDACT_PATTERN_MAX 4096

/* A word ends here. */
#define END "(?![^\\s\"',;&)}\\]])"
/* What follows a name and is no secret: a switch, a digit, a file that holds one. */
#define PLAIN                                                                                                          \
	"(?!(?:true|false|none|null|yes|no|on|off|[0-9])" END "|(?:~|[.]{0,2})/[^\\s\"']*[.](?:pem|key|crt|p12|json|"  \
	"ya?ml|toml|txt|conf|ini|env)" END ")"
/* The secret itself, quoted or up to the next blank or quote. The quotes of text within a string have a backslash. */
#define VALUE PLAIN "(?:\\\\?\"[^\"]*\"?|\\\\?'[^']*'?|[^\\s\"']+)"
/* Of an option, what follows may be the next one. */
#define ARGUMENT "(?!--[a-z])" VALUE
/* Tokens of text, not of access: eos_token, cost-per-token. */
#define NO_TEXT_TOKEN                                                                                                  \
	"(?<!eos[_-]|bos[_-]|pad[_-]|unk[_-]|sep[_-]|cls[_-]|eot[_-]|eom[_-]|eod[_-]|mask[_-]|stop[_-]|start[_-]|"     \
	"begin[_-]|end[_-]|image[_-]|video[_-]|audio[_-]|speech[_-]|vision[_-]|text[_-]|special[_-]|added[_-]|"        \
	"extra[_-]|prefix[_-]|suffix[_-]|middle[_-]|trigger[_-]|placeholder[_-]|decoder[_-]|prompt[_-]|input[_-]|"     \
	"output[_-]|new[_-]|first[_-]|next[_-]|last[_-]|per[_-]|num[_-]|tool[_-]|think[_-]|ignore[_-]|newline[_-])"
/* Not --max-tokens, --tokenizer or --token-file: the word must end here. */
#define NAME                                                                                                           \
	"(?:passwords?|passwd|passphrase|(?<![a-z0-9])pass|(?:db|user|root|admin|smtp|ftp)pass|(?<=[a-z0-9]_)pwd|"     \
	"secrets?|secret[_-]?(?:access[_-]?)?keys?|" NO_TEXT_TOKEN "token|kaggle_key|"                                 \
	"(?:api|access|private|account|auth|encryption|signing|master|storage|license|subscription)[_-]?keys?|"        \
	"credentials?|(?:(?<![a-z0-9])|access)signature|(?<![a-z0-9])sig)(?![a-z0-9_-])"
/* Between name and value; not the colons of "token::next" and "secret://". */
#define IS "\\\\?[\"']?\\s*(?:=|%3D|(?<!:):(?![:/]))\\s*"

/*
 * \K: what stands before it stays readable. No pattern begins with an unbounded repeat, so that a long word costs no
 * more than its length.
 */
static const char *const default_patterns[] = {
	/* password=..., TOKEN: ..., "api_key": "..." */
	"(?i)" NAME IS "\\K" VALUE,
	/* Password=...;Pwd=...; of connection strings, but not PWD=/home */
	"(?i)(?<=;)pwd\\s*=\\s*\\K[^;\\s\"']+",
	/* --password ... as two arguments */
	"(?i)(?<!\\S)--?(?:[a-z0-9_.-]{0,64}?[_.-])?" NAME "\\s+\\K" ARGUMENT,
	"(?i)(?<!\\S)--?[a-z0-9]{0,32}?(?:password|passwd|secret|token|apikey|accesskey)(?![a-z0-9_-])\\s+\\K" ARGUMENT,
	/* aws configure set aws_secret_access_key ... */
	"(?i)(?<![a-z0-9])aws_(?:secret_access_key|session_token)\\s+\\K(?![=:])" ARGUMENT,
	/* Programs whose short options, or arguments without any, are secrets. */
	"(?i)(?<![a-z0-9])sshpass\\s+-p\\s*\\K" VALUE,
	"(?<![a-z0-9])(?:mysql|mysqldump|mysqladmin|mariadb|mariadb-dump)(?:\\s+[^\\s]{1,256}){0,16}?\\s+-p\\K[^\\s\"']+",
	"(?<![a-z0-9])(?:docker|podman|nerdctl|buildah|skopeo|helm|oras|oc|az)(?:\\s+[a-z]{1,16})?\\s+login"
	"(?:\\s+[^\\s]{1,256}){0,16}?\\s+-p[ =]?\\K" VALUE,
	"(?<![a-z0-9])redis-cli(?:\\s+[^\\s]{1,256}){0,16}?\\s+-a\\s+\\K" VALUE,
	"(?<![a-z0-9])wandb\\s+login(?:\\s+[^\\s]{1,256}){0,8}?\\s+\\K[0-9a-f]{32,}" END,
	/* curl -u user:password, but not docker run -u 1000:1000 */
	"(?<!\\S)(?:-u|--user|--proxy-user)[ =]?\\K(?!\\d+:\\d+(?!\\S))[^\\s:/]+:(?!//)\\S+",
	/* smbclient -U user%password */
	"(?<!\\S)-U[ =]?[^\\s%]{1,128}%\\K\\S+",
	/* Authorization: Bearer ..., with a scheme that we do not know too */
	"(?i)(?<![a-z0-9])(?:proxy-)?authorization\\\\?[\"']?\\s*[=:]\\s*\\\\?[\"']?\\K[^\\s\"']+(?:\\s+[^\\s\"']+)?",
	"(?i)(?<![a-z0-9])(?:x-api-key|x-auth-token|set-cookie|cookie)\\\\?[\"']?\\s*[=:]\\s*\\K" VALUE,
	"(?i)(?<![a-z0-9])bearer\\s+\\K[a-z0-9._~+/=-]{8,}",
	/* Not "basic training": base64 comes in fours, and with capitals. */
	"(?<![A-Za-z0-9])[Bb]asic\\s+\\K(?=.[a-z0-9+/]*[A-Z])(?:[A-Za-z0-9+/]{4}){2,}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
	"(?![A-Za-z0-9+/=])",
	/* Keys that show what they are: AWS; Hugging Face; OpenAI, Anthropic and others of their kind, whose letters are
	 * mixed; code hosts; clouds and services. */
	"(?<![A-Za-z0-9])(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA|ANVA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
	"(?<![A-Za-z0-9])(?:hf|api_org)_(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{16,}",
	"(?<![A-Za-z0-9])sk-(?=[a-z_-]*[A-Z0-9])[A-Za-z0-9_-]{16,}",
	"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|"
	"gl(?:dt|rt|cbt|ptt|ft|soat)-[A-Za-z0-9_-]{20,}|ATBB[A-Za-z0-9]{24,}|npm_[A-Za-z0-9]{30,}|"
	"pypi-[A-Za-z0-9_-]{30,}|dckr_[po]at_[A-Za-z0-9_-]{20,})",
	"(?<![A-Za-z0-9])(?:xox[a-z]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{20,}|AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{20,}|"
	"ya29[.][A-Za-z0-9_-]{20,}|nvapi-[A-Za-z0-9_-]{20,}|r8_[A-Za-z0-9]{30,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|"
	"gsk_[A-Za-z0-9]{30,}|xai-[A-Za-z0-9]{30,}|pplx-[A-Za-z0-9]{30,}|pcsk_[A-Za-z0-9_]{30,}|rpa_[A-Z0-9]{30,}|"
	"lsv2_[a-z]{2}_[a-z0-9_]{30,}|wandb_v[0-9]_[A-Za-z0-9_]{20,}|dapi[0-9a-f]{32}|do[opr]_v1_[0-9a-f]{40,}|"
	"hv[sb][.][A-Za-z0-9_-]{20,}|tskey-[A-Za-z0-9-]{16,}|SG[.][A-Za-z0-9_-]{16,}[.][A-Za-z0-9_-]{16,}|"
	"gl(?:sa|c)_[A-Za-z0-9+/=_]{30,}|sntry[su]_[A-Za-z0-9+/=_.-]{30,}|AGE-SECRET-KEY-1[A-Z0-9]{40,})",
	"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,}\\.[A-Za-z0-9_-]{8,}(?:\\.[A-Za-z0-9_-]*)?",
	/* Addresses that are secret as a whole: web hooks, and a bot's name of digits and token. */
	"(?:hooks[.]slack[.]com/[a-z]{1,16}/|discord(?:app)?[.]com/api/webhooks/)\\K[^\\s\"']+",
	"(?<![0-9])[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}",
	/* scheme://user:password@host, and scheme://token@host */
	"://\\K[^\\s/:@]*:[^\\s/]+(?=@)",
	"://\\K[A-Za-z0-9_~.-]{20,}(?=@)",
	"-----BEGIN [A-Z ]{0,32}PRIVATE KEY(?: BLOCK)?-----\\K(?s:.*?)(?:-----END[A-Z ]{0,40}-----|\\z)",
};

struct redact {
	pcre2_match_context *match;
	uint32_t omitted;
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

void redact_omit(struct redact *r, uint32_t mask)
{
	r->omitted = omit_implied(mask);
}

uint32_t redact_omitted(const struct redact *r)
{
	return r ? r->omitted : 0;
}

/* 0, -ENOMEM, or -E2BIG when the pattern gave up. */
static int redact_one(const pcre2_code *code, pcre2_match_context *context, pcre2_match_data *md,
		      const struct strbuf *in, struct strbuf *out)
{
	const char *text = strbuf_str(in);
	const PCRE2_SIZE *ov = pcre2_get_ovector_pointer(md);
	size_t at = 0, kept = 0; /* search from, copied up to */
	int n = 0;

	while (at <= in->len) {
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
	if (n < 0 && n != PCRE2_ERROR_NOMATCH)
		return -E2BIG;
	strbuf_add(out, text + kept, in->len - kept);
	return out->error;
}

static int redact_all(const struct redact *r, pcre2_match_data *md, struct strbuf **in, struct strbuf **out)
{
	for (size_t i = 0; i < r->len; i++) {
		struct strbuf *t = *in;
		int err;

		strbuf_reset(*out);
		err = redact_one(r->code[i], r->match, md, *in, *out);
		if (err < 0)
			return err;
		*in = *out;
		*out = t;
	}
	return (*in)->error;
}

void redact_text(const struct redact *r, const char *text, struct strbuf *sb)
{
	_cleanup_strbuf_ struct strbuf a = STRBUF_INIT, b = STRBUF_INIT;
	struct strbuf *in = &a, *out = &b;
	pcre2_match_data *md;
	int err;

	if (!r) {
		strbuf_adds(sb, text);
		return;
	}
	md = pcre2_match_data_create(1, NULL);
	if (!md) {
		sb->error = -ENOMEM;
		return;
	}
	strbuf_adds(in, text);
	err = redact_all(r, md, &in, &out);
	pcre2_match_data_free(md);
	/* What cannot be searched is not shown. */
	if (err == -E2BIG)
		strbuf_adds(sb, REDACTED);
	else if (err < 0)
		sb->error = err;
	else
		strbuf_add(sb, strbuf_str(in), in->len);
}

void redact_cb(const char *text, struct strbuf *sb, void *userdata)
{
	redact_text(userdata, text, sb);
}

bool redact_cmdline(const struct redact *r, const char *cmdline, struct strbuf *sb)
{
	_cleanup_free_ char *whole = NULL;
	char *blank;

	if (strlen(cmdline) < IDENTITY_CMDLINE_MAX - 1) {
		redact_text(r, cmdline, sb);
		return false;
	}
	whole = strdup(cmdline);
	if (!whole) {
		sb->error = -ENOMEM;
		return true;
	}
	blank = strrchr(whole, ' ');
	if (blank && strcspn(blank, "\"'") == strlen(blank))
		blank[1] = '\0';
	redact_text(r, whole, sb);
	return true;
}

static int redact_field(const struct redact *r, const struct identity *id, char **text)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	char *clean;
	int err;

	if (text == &id->cmdline)
		(void)redact_cmdline(r, *text, &sb);
	else
		redact_text(r, *text, &sb);
	err = strbuf_steal(&sb, &clean);
	if (err < 0)
		return err;
	free(*text);
	*text = clean;
	return 0;
}

int redact_identity(const struct redact *r, struct identity *id, struct identity **ret)
{
	_cleanup_(identity_unrefp) struct identity *rest = NULL, *copy = NULL;
	char **text;

	if (!r) {
		*ret = identity_ref(id);
		return 0;
	}
	if (omit_identity(id, r->omitted, &rest) < 0)
		return -ENOMEM;
	copy = identity_copy(rest);
	if (!copy)
		return -ENOMEM;
	for (size_t i = 0; (text = identity_text(copy, i)); i++) {
		int err = *text ? redact_field(r, copy, text) : 0;

		if (err < 0)
			return err;
	}
	*ret = TAKE_PTR(copy);
	return 0;
}
