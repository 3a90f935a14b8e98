/* SPDX-License-Identifier: MIT */
/* Lists in the history's records. Of src/record only. */
#pragma once

#include "record/fields.h"

/* GPUXRAY_TOP_SITES: "ID BYTES BLOCKS" lines, most bytes first; "-" for a stack that is not resolved yet. */
bool field_top_sites(const struct field_input *in, const struct field_desc *d, size_t max, struct strbuf *sb);
/* GPUXRAY_DEVICE_PEAKS: "UUID BYTES USEC" lines. What does not fit is left out. */
bool field_device_peaks(const struct field_input *in, const struct field_desc *d, size_t max, struct strbuf *sb);
