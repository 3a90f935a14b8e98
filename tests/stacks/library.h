/* SPDX-License-Identifier: MIT */
#pragma once

#include "stack.h"

void library_call(void (*fn)(void));
