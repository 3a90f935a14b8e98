/* SPDX-License-Identifier: MIT */
/* What a rule says besides what it decides: name, message, runbook, tags. */
#include <string.h>

#include "base/strbuf.h"
#include "base/text.h"
#include "rule/rule_names.h"
#include "rule/rule_parse.h"
#include "rule/template.h"

#define NAME_MAX_BYTES 128
#define MESSAGE_MAX_BYTES 1024
#define URL_MAX_BYTES 1024
#define TAGS_COUNT_MAX 32

/* Clean as it stands, so that it reads the same in a record, a label and a terminal. */
static int is_clean(const char *text, bool *ret)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;

	text_escape(&sb, text, strlen(text), 0);
	if (sb.error)
		return sb.error;
	*ret = strcmp(strbuf_str(&sb), text) == 0;
	return 0;
}

int rule_check_name(struct errors *errors, const config_setting_t *s, const char **ret)
{
	const char *name;
	bool ok = false;
	int r;

	r = conf_string(errors, s, &name);
	if (r < 0)
		return r;
	if (!name[0])
		return conf_error(errors, s, "%s is empty", conf_name(s));
	if (strlen(name) > NAME_MAX_BYTES)
		return conf_error(errors, s, "%s is longer than %d bytes", conf_name(s), NAME_MAX_BYTES);
	r = is_clean(name, &ok);
	if (r < 0)
		return r;
	if (!ok || strchr(name, '"') || name[0] == ' ' || name[strlen(name) - 1] == ' ')
		return conf_error(errors, s,
				  "%s \"%s\" must be plain text: no control characters, quotes or backslashes, no "
				  "blank "
				  "at either end",
				  conf_name(s), name);
	*ret = name;
	return 0;
}

static int check_template(struct errors *errors, const config_setting_t *s, const char *text)
{
	int r = 0;

	for (const char *p = strstr(text, "%{"); p; p = strstr(p, "%{")) {
		const char *end = strchr(p, '}');
		_cleanup_free_ char *name = NULL;

		if (!end)
			return conf_error(errors, s, "message: the \"%%{\" of \"%.40s\" is never closed", p);
		name = strndup(p + 2, (size_t)(end - p) - 2);
		if (!name)
			return -ENOMEM;
		if (rule_name_find(template_names, name) < 0)
			r = conf_unknown(errors, s, "name in message", name, template_names);
		if (r == -ENOMEM)
			return r;
		p = end;
	}
	return r;
}

int rule_parse_message(struct rule_builder *b, const config_setting_t *s)
{
	const char *text;
	int r;

	r = conf_string(b->errors, s, &text);
	if (r < 0)
		return r;
	if (!text[0])
		return conf_error(b->errors, s, "message is empty: leave it out for the built-in text");
	if (strlen(text) > MESSAGE_MAX_BYTES)
		return conf_error(b->errors, s, "message is longer than %d bytes", MESSAGE_MAX_BYTES);
	r = check_template(b->errors, s, text);
	if (r < 0)
		return r;
	b->rule->message = strdup(text);
	return b->rule->message ? 0 : -ENOMEM;
}

/* A scheme, a colon, and no blanks: https://..., man:..., file:... */
static bool is_url(const char *text)
{
	size_t scheme = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");

	if (scheme == 0 || text[scheme] != ':' || !text[scheme + 1])
		return false;
	for (; *text; text++) {
		if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 0x7f)
			return false;
	}
	return true;
}

int rule_parse_runbook(struct rule_builder *b, const config_setting_t *s)
{
	const char *text;
	int r;

	r = conf_string(b->errors, s, &text);
	if (r < 0)
		return r;
	if (!is_url(text) || strlen(text) > URL_MAX_BYTES)
		return conf_error(b->errors, s, "runbook needs a URL, such as \"https://wiki.example/gpu-full\"");
	b->rule->runbook = strdup(text);
	return b->rule->runbook ? 0 : -ENOMEM;
}

int rule_parse_tags(struct rule_builder *b, const config_setting_t *s)
{
	size_t len = 0;
	int r;

	r = conf_strings(b->errors, s, &len);
	if (r < 0)
		return r;
	if (len > TAGS_COUNT_MAX)
		return conf_error(b->errors, s, "tags: more than %d", TAGS_COUNT_MAX);
	for (size_t i = 0; i < len; i++) {
		const config_setting_t *e;
		const char *tag;
		int q;

		(void)conf_strings_get(s, i, &e);
		q = rule_check_name(b->errors, e, &tag);
		if (q == 0 && strchr(tag, ','))
			conf_warn(b->errors, e,
				  "tag \"%s\" has a comma, which stands between tags in GPUXRAY_TAGS: write two tags",
				  tag);
		r = q < 0 ? q : r;
	}
	if (r < 0)
		return r;
	return conf_strings_copy(b->errors, s, &b->rule->tags, &b->rule->tags_len);
}
