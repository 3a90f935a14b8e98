/* SPDX-License-Identifier: MIT */
/* The first lines of the history's records. */
#pragma once

#include "record/message_line.h"

/* "python3[4711] train.service holds 41.2 GiB on GPU 0, had up to 43 GiB" */
void message_say_sample(struct line *l);
/* "python3[4711] train.service ended after 2h 3m, peak 41.2 GiB on GPU 0, holding 40 GiB" */
void message_say_process_exit(struct line *l);
/* "python3[4711] train.service holds 12 GiB from one call site" */
void message_say_site(struct line *l);
