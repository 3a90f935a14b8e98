/* SPDX-License-Identifier: MIT */
/* Line tables of code objects: which line an instruction belongs to. Pure; tables are hostile. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum python_lines {
	PYTHON_LINES_LNOTAB,	/* 3.9: co_lnotab */
	PYTHON_LINES_RANGES,	/* 3.10: co_linetable */
	PYTHON_LINES_LOCATIONS, /* 3.11 and later: co_linetable with columns */
};

/* at: byte offset of the instruction last begun; negative = none yet. 0 = no line is known. */
uint32_t python_line(enum python_lines how, const uint8_t *table, size_t len, uint32_t first_line, int64_t at);
