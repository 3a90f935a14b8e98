/* SPDX-License-Identifier: MIT */
/* What processes are called, and which are alike: the same program of the same service. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "history/render_text_private.h"

/* The records of one end are written one after the other. */
#define SAME_END_USEC (1 * USEC_PER_SEC)

/* ---- one */

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* Units that only say how it came to be started. */
static bool is_telling_unit(const struct story_process *proc)
{
	static const char *const none[] = { "session-", "user@", "run-", "vte-spawn-", "slurm", "cri-", "crio-", "docker-",
					    "libpod-", "init.scope" };

	if (!proc->unit)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		if (begins(proc->unit, none[i]))
			return false;
	}
	return true;
}

static const char *word(const char **rest, size_t *ret_len)
{
	const char *w = *rest + strspn(*rest, " ");

	*ret_len = strcspn(w, " ");
	*rest = w + *ret_len;
	return w;
}

static const char *last_part(const char *path, size_t *len)
{
	const char *slash = memrchr(path, '/', *len);

	if (slash) {
		*len -= (size_t)(slash + 1 - path);
		return slash + 1;
	}
	return path;
}

static bool is_word(const char *w, size_t len, const char *other)
{
	return len == strlen(other) && memcmp(w, other, len) == 0;
}

/* Of "python3 -u /srv/train.py ..." the "train.py", of "python -m vllm.server" the module; NULL = it runs none. */
static const char *script_of(const char *cmdline, size_t *len)
{
	const char *rest = cmdline, *w = word(&rest, len);

	w = last_part(w, len);
	if (*len < 6 || !begins(w, "python"))
		return NULL;
	for (w = word(&rest, len); *len > 0; w = word(&rest, len)) {
		if (is_word(w, *len, "-c"))
			return NULL;
		if (is_word(w, *len, "-m"))
			return w = word(&rest, len), *len > 0 ? w : NULL;
		if (is_word(w, *len, "-W") || is_word(w, *len, "-X"))
			(void)word(&rest, len);
		else if (*w != '-')
			return last_part(w, len);
	}
	return NULL;
}

void text_label(const struct story_process *proc, struct strbuf *sb)
{
	const char *script;
	size_t len;

	if (proc->pod_name && proc->pod_namespace) {
		strbuf_addf(sb, "%s/%s", proc->pod_namespace, proc->pod_name);
	} else if (is_telling_unit(proc)) {
		strbuf_adds(sb, proc->unit);
	} else if (proc->pod) {
		strbuf_addf(sb, "pod %s", proc->pod);
	} else if (proc->slurm_job) {
		strbuf_addf(sb, "Slurm job %s", proc->slurm_job);
	} else if (proc->container_name) {
		strbuf_addf(sb, "container %s", proc->container_name);
	} else if (proc->container) {
		strbuf_addf(sb, "container %.12s", proc->container);
	} else {
		script = proc->cmdline ? script_of(proc->cmdline, &len) : NULL;
		if (script)
			strbuf_add(sb, script, len);
	}
}

void text_who(const struct pen *p, const struct story_process *proc, struct strbuf *sb)
{
	_cleanup_strbuf_ struct strbuf label = STRBUF_INIT;

	pen_process_name(p, proc, sb);
	text_label(proc, &label);
	if (label.len > 0)
		strbuf_addf(sb, " %s", strbuf_str(&label));
	sb->error = sb->error ?: label.error;
}

void text_those(const struct pen *p, const struct story_process *proc, size_t n, struct strbuf *sb)
{
	_cleanup_strbuf_ struct strbuf label = STRBUF_INIT;

	strbuf_addf(sb, "%zu process%s", n, n == 1 ? "" : "es");
	text_label(proc, &label);
	strbuf_addf(sb, " of %s", label.len > 0 ? strbuf_str(&label) : proc->comm ?: "?");
	if (p->s->hosts_len > 1 && proc->host->name)
		strbuf_addf(sb, " on %s", proc->host->name);
	sb->error = sb->error ?: label.error;
}

void text_subject(const struct pen *p, const struct story_incident *i, struct strbuf *sb)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

	if (i->process)
		story_process_name(i->process, &name);
	if (i->process && i->subject && strcmp(i->subject, strbuf_str(&name)) == 0) {
		text_who(p, i->process, sb);
	} else {
		if (p->s->hosts_len > 1 && i->host && i->host->name)
			strbuf_addf(sb, "%s ", i->host->name);
		strbuf_adds(sb, i->subject ?: "?");
	}
	sb->error = sb->error ?: name.error;
}

bool text_is_by_end(const struct story_incident *i)
{
	const uint64_t end = i->process ? i->process->end_usec : 0;

	return i->state == STORY_RESOLVED && end > 0 && i->scope && strcmp(i->scope, "process") == 0 &&
	       i->end_usec + SAME_END_USEC >= end && i->end_usec <= end + SAME_END_USEC;
}

bool text_is_later(const struct story_incident *i)
{
	return i->records > (i->state == STORY_RESOLVED ? 2u : 1u);
}

bool text_is_plain(const struct story_process *proc)
{
	return proc->incidents == 0 && (proc->fail_count == 0 || proc->fail_count == STORY_ABSENT);
}

/* ---- those that are alike */

struct key {
	char *text;
	size_t i;
};

static int compare_keys(const void *a, const void *b)
{
	const struct key *x = a, *y = b;

	return strcmp(x->text, y->text) ?: (x->i > y->i) - (x->i < y->i);
}

/* Lengths first, so that no name can look like two. */
static void add_part(struct strbuf *sb, const char *text)
{
	strbuf_addf(sb, "%zu:%s", strlen(text ?: ""), text ?: "");
}

static int make_key(const struct story_process *proc, char **ret)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT, label = STRBUF_INIT;

	strbuf_addf(&sb, "%p", (const void *)proc->host);
	add_part(&sb, proc->comm);
	add_part(&sb, proc->user);
	add_part(&sb, proc->tag);
	text_label(proc, &label);
	add_part(&sb, strbuf_str(&label));
	return label.error ?: strbuf_steal(&sb, ret);
}

int kinds_find(const struct story *s, struct kinds *ret)
{
	const size_t len = s->processes_len;
	_cleanup_free_ struct key *keys = calloc(len + 1, sizeof(*keys));
	int r = 0;

	*ret = (struct kinds){ .of = calloc(len + 1, sizeof(*ret->of)) };
	if (!keys || !ret->of)
		return -ENOMEM;
	for (size_t i = 0; i < len && r == 0; i++) {
		keys[i].i = i;
		r = make_key(s->processes[i], &keys[i].text);
	}
	if (r == 0)
		qsort(keys, len, sizeof(*keys), compare_keys);
	for (size_t i = 0; i < len && r == 0; i++) {
		ret->len += i == 0 || strcmp(keys[i].text, keys[i - 1].text) != 0;
		ret->of[keys[i].i] = ret->len - 1;
	}
	for (size_t i = 0; i < len; i++)
		free(keys[i].text);
	return r;
}

void kinds_done(struct kinds *k)
{
	free(k->of);
	*k = (struct kinds){};
}
