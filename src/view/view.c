/* SPDX-License-Identifier: MIT */
#include "view/view.h"

#include <string.h>

#include "view/view_fields.h"

/* Room for one more in a list of len: it grows when len is a power of two. */
static void *add(const struct view_kind *k, void *list, size_t *len)
{
	char **at = list;
	char *item;

	if (!(*len & (*len - 1))) {
		char *more = realloc(*at, (*len ? *len * 2 : 1) * k->size);

		if (!more)
			return NULL;
		*at = more;
	}
	item = *at + *len * k->size;
	view_item_init(k, item);
	(*len)++;
	return item;
}

struct view *view_new(void)
{
	struct view *v = calloc(1, sizeof(*v));

	if (v)
		view_item_init(&view_kind_totals, &v->totals);
	return v;
}

static void list_free(const struct view_kind *k, void *list, size_t len)
{
	for (size_t i = 0; i < len; i++)
		view_item_done(k, (char *)list + i * k->size);
	free(list);
}

void view_free(struct view *v)
{
	if (!v)
		return;
	for (size_t i = 0; i < v->processes_len; i++) {
		list_free(&view_kind_process_device, v->processes[i].devices, v->processes[i].devices_len);
		list_free(&view_kind_site, v->processes[i].sites, v->processes[i].sites_len);
	}
	view_item_done(&view_kind_totals, &v->totals);
	list_free(&view_kind_device, v->devices, v->devices_len);
	list_free(&view_kind_process, v->processes, v->processes_len);
	list_free(&view_kind_incident, v->incidents, v->incidents_len);
	list_free(&view_kind_limit, v->limits, v->limits_len);
	list_free(&view_kind_counter, v->counters, v->counters_len);
	list_free(&view_kind_latency, v->latencies, v->latencies_len);
	free(v);
}

struct view_device *view_add_device(struct view *v)
{
	return add(&view_kind_device, &v->devices, &v->devices_len);
}

struct view_process *view_add_process(struct view *v)
{
	return add(&view_kind_process, &v->processes, &v->processes_len);
}

struct view_process_device *view_add_process_device(struct view_process *p)
{
	return add(&view_kind_process_device, &p->devices, &p->devices_len);
}

struct view_site *view_add_site(struct view_process *p)
{
	return add(&view_kind_site, &p->sites, &p->sites_len);
}

struct view_incident *view_add_incident(struct view *v)
{
	return add(&view_kind_incident, &v->incidents, &v->incidents_len);
}

struct view_limit *view_add_limit(struct view *v)
{
	return add(&view_kind_limit, &v->limits, &v->limits_len);
}

struct view_counter *view_add_counter(struct view *v)
{
	return add(&view_kind_counter, &v->counters, &v->counters_len);
}

struct view_latency *view_add_latency(struct view *v)
{
	return add(&view_kind_latency, &v->latencies, &v->latencies_len);
}

int view_set(char **p, const char *s)
{
	char *copy = s ? strdup(s) : NULL;

	if (s && !copy)
		return -ENOMEM;
	free(*p);
	*p = copy;
	return 0;
}
