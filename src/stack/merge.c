/* SPDX-License-Identifier: MIT */
#include "stack/merge.h"

#include <errno.h>
#include <stdlib.h>

#define NO_PLACE UINT32_MAX

/* The Python frames of one evaluation loop: from first to before end. */
struct group {
	uint32_t first, end;
	uint32_t entry; /* of the last of them; 0: it is not the loop's last, which is missing */
	uint32_t place; /* native frame of the loop. Ascending from group to group, but for NO_PLACE */
};

enum loop_mark {
	LOOP_NO,
	LOOP_YES,
	LOOP_LIKELY, /* not in the known part of the function, but a frame of the same size */
};

struct work {
	const struct unwound *u;
	uint64_t sp;
	const struct merge_python *python;
	const bool *is_interpreter;
	struct group groups[PYTHON_FRAMES_MAX];
	uint32_t group_count;
	bool is_cut;   /* outermost Python frames are missing */
	bool is_vague; /* places are by number only, and the numbers do not agree */
};

static void find_groups(struct work *w, const struct python_stack *stack)
{
	const uint32_t count = MIN(stack->count, PYTHON_FRAMES_MAX);
	uint32_t first = 0;

	w->is_cut = stack->flags & (PYTHON_F_TRUNCATED | PYTHON_F_FAULT);
	for (uint32_t i = 0; i < count; i++) {
		const uint32_t entry = stack->frame[i].entry;

		if (!entry && i + 1 < count)
			continue;
		w->is_cut |= !entry;
		w->groups[w->group_count++] =
			(struct group){ .first = first, .end = i + 1, .entry = entry, .place = NO_PLACE };
		first = i + 1;
	}
}

/* What the frame takes of the stack. False: not known. */
static bool frame_range(const struct work *w, size_t i, uint64_t *ret_start, uint64_t *ret_end)
{
	*ret_start = i == 0 ? w->sp : w->u->frames[i - 1].cfa;
	*ret_end = w->u->frames[i].cfa;
	return *ret_start && *ret_start < *ret_end;
}

static uint64_t frame_size(const struct work *w, size_t i)
{
	uint64_t start, end;

	return frame_range(w, i, &start, &end) ? end - start : 0;
}

static uint32_t frame_at(const struct work *w, size_t from, uint64_t addr)
{
	for (size_t i = from; i < w->u->count; i++) {
		uint64_t start, end;

		if (frame_range(w, i, &start, &end) && start <= addr && addr < end)
			return (uint32_t)i;
	}
	return NO_PLACE;
}

static void place_by_address(struct work *w)
{
	uint32_t from = 0;

	for (uint32_t g = 0; g < w->group_count; g++) {
		struct group *group = &w->groups[g];

		if (!group->entry || group->entry == PYTHON_ENTRY_UNPLACED)
			continue;
		group->place = frame_at(w, from, w->sp + group->entry);
		if (group->place != NO_PLACE)
			from = group->place;
	}
}

static bool is_in_function(const struct work *w, size_t i)
{
	const struct unwound_frame *frame = &w->u->frames[i];
	const uint64_t pc = frame->is_exact ? frame->pc : frame->pc - 1;

	return w->python->eval_start <= pc && pc < w->python->eval_end;
}

/*
 * A loop whose last Python frames are missing does not tell its place. It is the next one outwards from the loop
 * before: known by the function, or by the size of the frame, which is the same function's.
 */
static void place_open_group(struct work *w)
{
	struct group *group = w->group_count ? &w->groups[w->group_count - 1] : NULL;
	uint64_t size = 0;
	size_t from = 0;

	if (!group || group->entry || (w->group_count > 1 && group[-1].place == NO_PLACE))
		return;
	if (w->group_count > 1) {
		from = group[-1].place + 1;
		size = frame_size(w, group[-1].place);
	}
	for (size_t i = from; i < w->u->count; i++) {
		if (is_in_function(w, i) || (size && w->is_interpreter[i] && frame_size(w, i) == size)) {
			group->place = (uint32_t)i;
			return;
		}
	}
}

static size_t mark_known_loops(const struct work *w, uint8_t *marks)
{
	size_t count = 0;

	for (size_t i = 0; i < w->u->count; i++) {
		if (is_in_function(w, i)) {
			marks[i] = LOOP_YES;
			count++;
		}
	}
	return count;
}

static bool is_loop_size(const struct work *w, const uint8_t *marks, uint64_t size)
{
	for (size_t i = 0; size && i < w->u->count; i++) {
		if (marks[i] == LOOP_YES && frame_size(w, i) == size)
			return true;
	}
	return false;
}

/* Compilers move what is rarely executed of a function elsewhere, under no name that a stripped file still has. */
static size_t mark_likely_loops(const struct work *w, uint8_t *marks)
{
	size_t count = 0;

	for (size_t i = 0; i < w->u->count; i++) {
		if (marks[i] || !w->is_interpreter[i] || !is_loop_size(w, marks, frame_size(w, i)))
			continue;
		marks[i] = LOOP_LIKELY;
		count++;
	}
	return count;
}

/* Can so many native loops be all there are? Only a complete native stack tells. */
static bool is_loop_count(const struct work *w, size_t loops)
{
	return w->is_cut ? loops > w->group_count : loops == w->group_count;
}

static int place_by_number(struct work *w)
{
	_cleanup_free_ uint8_t *marks = calloc(w->u->count, sizeof(*marks)); /* enum loop_mark */
	uint8_t most = LOOP_YES;
	size_t loops, at = 0;

	if (!marks)
		return -ENOMEM;
	loops = mark_known_loops(w, marks);
	if (w->u->reason == UNWIND_COMPLETE && !is_loop_count(w, loops)) {
		if (is_loop_count(w, loops + mark_likely_loops(w, marks)))
			most = LOOP_LIKELY;
		else
			w->is_vague = true;
	}
	for (uint32_t g = 0; g < w->group_count; g++) {
		while (at < w->u->count && (marks[at] == LOOP_NO || marks[at] > most))
			at++;
		if (at == w->u->count)
			break;
		w->groups[g].place = (uint32_t)at++;
	}
	return 0;
}

static int place_groups(struct work *w)
{
	for (uint32_t g = 0; g < w->group_count; g++) {
		if (w->groups[g].entry != PYTHON_ENTRY_UNPLACED) {
			place_by_address(w);
			place_open_group(w);
			return 0;
		}
	}
	return w->group_count ? place_by_number(w) : 0;
}

/* The first group at or after g that has a place; group_count if there is none. */
static uint32_t next_placed(const struct work *w, uint32_t g)
{
	while (g < w->group_count && w->groups[g].place == NO_PLACE)
		g++;
	return g;
}

/* May the interpreter's frames be left out between group g - 1 and the next one that has a place? */
static bool may_hide(const struct work *w, uint32_t g)
{
	if (w->group_count == 0 || w->is_vague)
		return false;
	return g < w->group_count ? w->groups[g].place != NO_PLACE : !w->is_cut;
}

static void add(struct merge *m, bool is_python, uint32_t index)
{
	m->list[m->count++] = (struct merge_entry){ .is_python = is_python, .index = index };
}

static void add_group(struct merge *m, const struct group *group)
{
	for (uint32_t i = group->first; i < group->end; i++)
		add(m, true, i);
	if (group->place == NO_PLACE)
		m->unplaced += group->end - group->first;
}

static void merge_groups(const struct work *w, struct merge *m)
{
	uint32_t g = 0, next = next_placed(w, 0);
	bool hide = may_hide(w, 0);

	for (size_t i = 0; i < w->u->count; i++) {
		if (next < w->group_count && w->groups[next].place == i) {
			while (next < w->group_count && w->groups[next].place == i) {
				while (g <= next)
					add_group(m, &w->groups[g++]);
				next = next_placed(w, g);
			}
			hide = may_hide(w, g);
		} else if (hide && w->is_interpreter[i]) {
			m->hidden++;
		} else {
			add(m, false, (uint32_t)i);
		}
	}
	while (g < w->group_count)
		add_group(m, &w->groups[g++]);
}

int merge_frames(const struct unwound *u, uint64_t sp, const struct merge_python *p, const bool *is_interpreter,
		 struct merge *ret)
{
	struct work w = { .u = u, .sp = sp, .python = p, .is_interpreter = is_interpreter };
	struct merge m = {};
	int r;

	if (p->stack)
		find_groups(&w, p->stack);
	r = place_groups(&w);
	if (r < 0)
		return r;
	m.list = calloc(u->count + (p->stack ? MIN(p->stack->count, PYTHON_FRAMES_MAX) : 0) + 1, sizeof(*m.list));
	if (!m.list)
		return -ENOMEM;
	merge_groups(&w, &m);
	*ret = m;
	return 0;
}
