/* SPDX-License-Identifier: MIT */
/* Names of a rule file and back: one table each. The lists end with NULL; parsers return false for an unknown name. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "rule/rule.h"

extern const char *const rule_kind_names[];
extern const char *const rule_scope_names[];
extern const char *const severity_names[];
extern const char *const rule_class_names[]; /* "device" stands for all classes whose bytes lie on the device */
extern const char *const rule_condition_names[]; /* by bit of enum process_condition */
extern const char *const rule_override_names[];

enum rule_override {
	OVERRIDE_REPLACE,
	OVERRIDE_MERGE,
	OVERRIDE_OFF,
	OVERRIDE_NONE, /* the key is absent */
};

/* Place of name in a list, or -1. */
int rule_name_find(const char *const *names, const char *name);
/* Bits of enum mem_class behind rule_class_names[i]. */
uint32_t rule_class_mask(int i);
