/* SPDX-License-Identifier: MIT */
#include "rule/input.h"

#include "rule/engine_private.h"

void engine_set_tap(struct engine *e, void (*tap)(const struct engine_input *in, void *userdata), void *userdata)
{
	e->tap = tap;
	e->tap_userdata = userdata;
}
