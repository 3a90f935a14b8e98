/* SPDX-License-Identifier: MIT */
/* The screen of a model. Pure: what does not fit is left out by what matters least. */
#pragma once

#include "top/grid.h"
#include "top/model.h"

/* Fills g, which is blank, for its size; scrolls the model's lists so that what is chosen can be seen. */
void top_layout(struct top_model *m, struct grid *g);
/* The same without what only keys need, and as high as it must be to tell all: initialises *ret of that width. 0 or -ENOMEM;
 * to be freed with grid_done() either way. */
int top_layout_plain(struct top_model *m, size_t width, bool is_ascii, struct grid *ret);
