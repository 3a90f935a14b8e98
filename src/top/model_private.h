/* SPDX-License-Identifier: MIT */
#pragma once

#include "top/model.h"

/* model_history.c: 0 or -ENOMEM */
int top_histories_add(struct top_model *m);
void top_histories_done(struct top_model *m);

/* model_sites.c: of the view that has come; 0 or -ENOMEM */
int top_sites_take(struct top_model *m);
void top_sites_done(struct top_model *m);

/* model_tree.c: puts rows, which are sorted, below their parents; 0 or -ENOMEM */
int top_tree_link(struct top_row *rows, size_t len);
