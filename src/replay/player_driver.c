/* SPDX-License-Identifier: MIT */
/* What the driver says of processes, in passes over all of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "replay/player_private.h"

void player_figures_done(struct player_life *l)
{
	for (size_t i = 0; i < l->figures_len; i++)
		free(l->figures[i].uuid);
	free(l->figures);
	l->figures = NULL;
	l->figures_len = 0;
}

static bool is_same_device(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static struct player_figure *figure_find(struct player_life *l, const char *uuid)
{
	for (size_t i = 0; i < l->figures_len; i++)
		if (is_same_device(l->figures[i].uuid, uuid))
			return &l->figures[i];
	return NULL;
}

static void figure_drop(struct player_life *l, struct player_figure *f)
{
	free(f->uuid);
	*f = l->figures[--l->figures_len];
}

static int figure_get(struct player_life *l, const char *uuid, struct player_figure **ret)
{
	struct player_figure *f = figure_find(l, uuid), *list;
	char *copy;

	if (f) {
		*ret = f;
		return 0;
	}
	copy = uuid ? strdup(uuid) : NULL;
	list = uuid && !copy ? NULL : realloc(l->figures, (l->figures_len + 1) * sizeof(*list));
	if (!list) {
		free(copy);
		return -ENOMEM;
	}
	l->figures = list;
	list[l->figures_len] = (struct player_figure){ .uuid = copy };
	*ret = &list[l->figures_len++];
	return 0;
}

void player_driver_begin(struct player *p)
{
	size_t iter = 0;
	void *value;

	while (map64_next(&p->lives, &iter, NULL, &value))
		((struct player_life *)value)->is_named = false;
	p->is_pass = true;
	engine_driver_begin(p->engine);
}

static int tell(struct player *p, struct player_life *l, const char *uuid, uint64_t bytes, bool is_older)
{
	int r = engine_driver(p->engine, l->pid, l->start_ns, uuid, bytes, is_older);

	return r == -ENOMEM ? r : 0;
}

int player_driver(struct player *p, struct player_life *l, const struct trace_item *item)
{
	struct player_figure *f;
	int r;

	if (!l->is_named)
		player_figures_done(l);
	l->is_named = true;
	r = figure_get(l, item->uuid, &f);
	if (r < 0)
		return r;
	/* One device may be named twice: parts of a card. */
	if (item->bytes == TRACE_UNKNOWN || f->bytes == TRACE_UNKNOWN ||
	    __builtin_add_overflow(f->bytes, item->bytes, &f->bytes))
		f->bytes = TRACE_UNKNOWN;
	f->is_older = item->flag;
	return tell(p, l, item->uuid, item->bytes, item->flag);
}

void player_driver_end(struct player *p, bool is_complete)
{
	size_t iter = 0;
	void *value;

	while (map64_next(&p->lives, &iter, NULL, &value)) {
		struct player_life *l = value;

		if (l->is_named)
			continue;
		if (is_complete)
			player_figures_done(l);
		for (size_t i = 0; i < l->figures_len; i++)
			l->figures[i].bytes = TRACE_UNKNOWN;
	}
	p->is_pass = false;
	p->told_ns = p->now_ns;
	engine_driver_end(p->engine, is_complete, p->now_ns, player_real(p));
}

static int tell_life(struct player *p, struct player_life *l)
{
	int r = 0;

	for (size_t i = 0; i < l->figures_len && r == 0; i++)
		r = tell(p, l, l->figures[i].uuid, l->figures[i].bytes, l->figures[i].is_older);
	l->is_named = l->figures_len > 0;
	return r;
}

int player_driver_alone(struct player *p, struct player_life *l, const struct trace_item *item)
{
	struct player_figure *f;
	size_t iter = 0;
	void *value;
	int r;

	r = figure_get(l, item->uuid, &f);
	if (r < 0)
		return r;
	f->bytes = item->bytes;
	f->is_older = item->flag;
	if (item->bytes == 0)
		figure_drop(l, f); /* as the driver does, it is no longer named */
	player_driver_begin(p);
	while (r == 0 && map64_next(&p->lives, &iter, NULL, &value))
		r = tell_life(p, value);
	player_driver_end(p, true);
	return r;
}
