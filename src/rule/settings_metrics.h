/* SPDX-License-Identifier: MIT */
/* The daemon's own metrics, out of its configuration. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"
#include "view/metrics.h"

struct config_setting_t;

struct metrics_settings {
	char *listen;	      /* an address of base/address.h that can be parsed; NULL = nothing listens */
	char *textfile;	      /* absolute path; NULL = none is written */
	uint64_t interval_ns; /* of the text file */
	uint32_t processes;   /* with series of their own */
	bool args;	      /* a label with command lines */
};

#define METRICS_SETTINGS_DEFAULT { .interval_ns = 15 * NSEC_PER_SEC, .processes = METRICS_PROCESSES_MAX }

/* The group "metrics". 0, -EINVAL with errors added, -ENOMEM. */
int settings_metrics_read(struct errors *errors, const struct config_setting_t *s, struct metrics_settings *ret);
void metrics_settings_done(struct metrics_settings *s);
