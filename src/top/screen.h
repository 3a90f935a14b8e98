/* SPDX-License-Identifier: MIT */
/* The terminal: grids go to it, keys come from it. One at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "top/grid.h"

/* Takes standard input and output over. On failure one line with cause and cure in reterr. 0, -EINVAL (no terminal that can
 * show it), -ENOMEM. From then on the terminal is given back also where the program crashes. */
int screen_open(char *reterr, size_t size);
/* Gives it back as it was; nothing where it is not taken. */
void screen_close(void);
void screen_size(size_t *ret_width, size_t *ret_height);
/* Asks the terminal for its size again. */
void screen_resize(void);
void screen_draw(const struct grid *g);
/* Gives the terminal back, stops this process as SIGTSTP does, and takes it over again when it goes on. The caller has the
 * signal blocked. */
void screen_suspend(void);
/* Somebody else has written to it or set it otherwise: all is drawn anew. */
void screen_spoilt(void);
/* A character, or enum top_key; false: none is there now. */
bool screen_key(uint32_t *ret);
