/* SPDX-License-Identifier: MIT */
/* Calls of frameworks' own allocators, out of the daemon's configuration. */
#pragma once

#include <libconfig.h>

#include "rule/settings.h"

/* The list "calls". 0, -EINVAL with errors added, -ENOMEM. */
int settings_calls_read(struct errors *errors, const config_setting_t *s, struct settings *settings);
/* Adds a row; takes row->file in any case, copies library and symbol. 0 or -ENOMEM. */
int settings_add_call(struct settings *s, const struct user_call *row);
/* The list "trace_frameworks", to be read after "calls", whose rows come first and count where both match. Likewise. */
int settings_frameworks_read(struct errors *errors, const config_setting_t *s, struct settings *settings);
void user_calls_free(struct user_call *list, size_t len);
