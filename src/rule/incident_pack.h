/* SPDX-License-Identifier: MIT */
/* Incidents as bytes, for a later daemon. Reading is safe on any bytes. */
#pragma once

#include "base/pack.h"
#include "rule/engine.h"

/* Appends one; what fails is seen in sb->error. */
void incident_pack(struct strbuf *sb, const struct incident_saved *s);
/* The next one in u; what it holds is released by incident_saved_done(), in any case. 0 or -EINVAL. */
int incident_unpack(struct unpack *u, struct incident_saved *ret);
void incident_saved_done(struct incident_saved *s);
