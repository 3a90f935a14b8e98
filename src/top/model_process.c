/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "top/model_private.h"

/* Numbers of processes have 22 bits at most. */
uint64_t top_process_key(const struct view_process *p)
{
	return (p->start_ticks << 22 ^ p->pid) ?: 1;
}

uint64_t top_process_bytes(const struct view_process *p)
{
	return p->is_covered ? p->live_bytes : p->driver_bytes;
}

int64_t top_process_growth(const struct view_process *p)
{
	return p->is_covered ? p->growth_bytes_per_min : VIEW_NONE_INT;
}

uint64_t top_process_rate(const struct view_process *p)
{
	return p->is_covered ? p->allocs_per_min : VIEW_NONE;
}

uint32_t top_process_sm(const struct view_process *p)
{
	uint32_t most = VIEW_NONE_32;

	for (size_t i = 0; i < p->devices_len; i++) {
		const uint32_t percent = p->devices[i].sm_percent;

		if (percent != VIEW_NONE_32 && (most == VIEW_NONE_32 || most < percent))
			most = percent;
	}
	return most;
}

void top_process_where(const struct view_process *p, struct strbuf *sb)
{
	if (p->pod_name && p->pod_namespace)
		strbuf_addf(sb, "%s/%s", p->pod_namespace, p->pod_name);
	else if (p->pod_name || p->pod)
		strbuf_adds(sb, p->pod_name ?: p->pod);
	else if (p->slurm_job)
		strbuf_addf(sb, "job %s", p->slurm_job);
	else if (p->unit)
		strbuf_adds(sb, p->unit);
	else if (p->container_name || p->container)
		strbuf_adds(sb, p->container_name ?: p->container);
}

const char *top_process_command(const struct view_process *p)
{
	const char *text = p->cmdline && *p->cmdline ? p->cmdline : p->comm ?: p->exe ?: "?";

	/* Of the program's path its last part: the rest would take all the room there is. */
	for (const char *s = text; *text == '/' && *s && *s != ' '; s++) {
		if (*s == '/' && s[1] && s[1] != '/' && s[1] != ' ')
			text = s;
	}
	return *text == '/' && text[1] && text[1] != ' ' ? text + 1 : text;
}

static bool has_text(const char *text, const char *part)
{
	return text && strcasestr(text, part);
}

bool top_model_matches(const struct top_model *m, const struct view_process *p)
{
	const char *const texts[] = { p->user, p->unit, p->pod_name, p->pod_namespace, p->pod, p->slurm_job, p->container_name,
				      p->container, p->comm, p->cmdline, p->tag };
	char pid[16];

	if (m->user && (!p->user || strcmp(p->user, m->user) != 0))
		return false;
	(void)snprintf(pid, sizeof(pid), "%u", p->pid);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		if (has_text(texts[i], m->filter))
			return true;
	}
	return has_text(pid, m->filter);
}
