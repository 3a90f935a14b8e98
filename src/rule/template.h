/* SPDX-License-Identifier: MIT */
/* The names that a rule's message may hold as %{name}. */
#pragma once

extern const char *const template_names[]; /* ends with NULL */
