/* SPDX-License-Identifier: MIT */
/*
 * What `top` knows and how it is to be looked at: views come in, keys change the state, layout.h makes a screen of it.
 * Pure but for memory.
 */
#pragma once

#include "base/map64.h"
#include "view/view.h"

enum top_sort {
	TOP_BY_MEMORY,
	TOP_BY_DRIVER,
	TOP_BY_HOST,
	TOP_BY_PEAK,
	TOP_BY_GROWTH,
	TOP_BY_RATE,
	TOP_BY_SM,
	TOP_BY_FIRING,
	TOP_BY_PID,
	TOP_BY_USER,
	TOP_BY_WHERE,
	TOP_BY_NAME,
	TOP_SORTS,
};

/* "memory", "driver", ...: for -s and the head of the screen. */
const char *top_sort_name(enum top_sort sort);
/* 0 or -EINVAL. */
int top_sort_parse(const char *name, enum top_sort *ret);

/* Live bytes of the last minutes, one value each VIEW_RECENT_NS. */
#define TOP_SLOTS 64
struct top_history {
	uint64_t slot;		  /* the newest */
	uint64_t bytes[TOP_SLOTS]; /* by slot % TOP_SLOTS; VIEW_NONE */
	uint64_t look;		  /* when it was last seen */
};

struct top_row {
	const struct view_process *p;
	struct top_history *history; /* may be NULL */
	/* As a tree: */
	unsigned depth;
	uint64_t rails; /* bit n: a line goes on below at depth n */
	bool is_last;	/* of its parent's children */
};

/* A call site of the process that is looked at. */
struct top_site {
	uint64_t key;
	const struct view_site *s; /* of the view; NULL where it was told of in the look before alone */
	uint64_t bytes;
	int64_t growth; /* since the look before; VIEW_NONE_INT */
	char *frames;	/* what top_site_frames() made; NULL = nothing yet */
};

#define TOP_FILTER_MAX 128
#define TOP_SITES_MAX 100
#define TOP_DEPTH_MAX 24 /* what is deeper stands there too */

enum top_pane { TOP_PANE_NONE, TOP_PANE_SITES, TOP_PANE_STACK, TOP_PANE_INCIDENTS };

struct top_model {
	struct view *view; /* the last that came; NULL = none yet */
	uint64_t view_ns;  /* when that was, monotonic */
	uint64_t now_ns;
	uint64_t look;
	char *trouble; /* why there is none newer; NULL = all is well */
	struct map64 histories; /* by process */

	uint64_t interval_ns;
	enum top_sort sort;
	bool is_reversed, is_tree, is_paused;
	const char *user; /* only these processes; NULL = all */
	bool has_pids;	  /* some processes alone are asked for */
	char filter[TOP_FILTER_MAX];
	bool is_typing; /* the filter */

	struct top_row *rows; /* in the order of the screen */
	size_t rows_len;
	size_t selected;	/* of rows */
	uint64_t selected_key;	/* 0 = not chosen by a key: it is the first, whoever that is */
	size_t scroll, page;	/* set by the layout: first row shown, and how many */

	enum top_pane pane;
	bool is_in_pane; /* keys act there */
	uint64_t sites_of; /* key of the process that sites are of; 0 = none */
	bool are_all_sites; /* there are no more than these */
	struct top_site *sites;
	size_t sites_len;
	size_t site; /* chosen */
	size_t pane_scroll, pane_page, stack_scroll, stack_lines; /* all but stack_scroll are set by the layout */
	struct allocators *allocators; /* NULL = not needed yet */

	bool has_help;
	size_t help_scroll, help_lines; /* the latter by the layout */

	/* What a key asks of the caller, who takes it back. */
	bool wants_end, wants_look;
};

enum top_key {
	TOP_KEY_ENTER = '\n',
	TOP_KEY_ESCAPE = 27,
	TOP_KEY_TAB = '\t',
	TOP_KEY_UP = 0x110000, /* beyond all characters */
	TOP_KEY_DOWN,
	TOP_KEY_LEFT,
	TOP_KEY_RIGHT,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_ERASE,
};

void top_model_init(struct top_model *m);
void top_model_done(struct top_model *m);

/* Takes v, also where it fails. 0 or -ENOMEM. */
int top_model_view(struct top_model *m, struct view *v, uint64_t now_ns);
/* Nothing newer can be had. 0 or -ENOMEM. */
int top_model_trouble(struct top_model *m, const char *why);
/* Sorts, filters and links rows again, after fields above were changed. 0 or -ENOMEM. */
int top_model_arrange(struct top_model *m);
/* key: a character or enum top_key. 0 or -ENOMEM. */
int top_model_key(struct top_model *m, uint32_t key);
/* What to ask for: sites are of the chosen process alone. *site_pid is what the query points to. */
void top_model_query(const struct top_model *m, struct view_query *q, uint32_t *site_pid);

/* Whether the filter leaves it in the table. */
bool top_model_matches(const struct top_model *m, const struct view_process *p);
/* The chosen one; NULL where there is none. */
const struct view_process *top_model_selected(const struct top_model *m);
/* Chooses a row for good. */
void top_model_select(struct top_model *m, size_t row);
uint64_t top_process_key(const struct view_process *p); /* never 0 */
/* Bytes to sort by and to draw: of the books, else what the driver says. VIEW_NONE. */
uint64_t top_process_bytes(const struct view_process *p);
/* As the view has them; not known of one that is not traced. VIEW_NONE_INT, VIEW_NONE. */
int64_t top_process_growth(const struct view_process *p);
uint64_t top_process_rate(const struct view_process *p);
uint32_t top_process_sm(const struct view_process *p); /* the highest of its devices; VIEW_NONE_32 */
/* Pod, Slurm job, unit, container: the one that says most. Appends nothing where there is none. */
void top_process_where(const struct view_process *p, struct strbuf *sb);
/* Its command line, without the folder of the program, else its name. Never NULL. */
const char *top_process_command(const struct view_process *p);

/* The most telling frames of a site, outwards from its innermost, on one line. Owned by the site. */
const char *top_site_frames(struct top_model *m, struct top_site *s);

/* The last values up to that look as a line of blocks; full height is the highest of them. */
void top_history_draw(const struct top_history *h, uint64_t slot, size_t columns, bool is_ascii, struct strbuf *sb);
