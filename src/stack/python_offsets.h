/* SPDX-License-Identifier: MIT */
/*
 * Where CPython 3.9 to 3.14 keeps its things, in builds for x86-64 and arm64 without special options: each minor version has its own
 * layout. From 3.13 on the interpreter itself publishes most of it. Free-threaded builds are not supported.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "../bpf/event.h"
#include "../bpf/python_event.h"
#include "stack/memory.h"
#include "stack/python_lines.h"

/* What it takes to name a code object. Offsets in bytes; 0 = the version has no such field. */
struct python_layout {
	enum python_lines lines;
	uint16_t code_bytes; /* one read takes all the fields below */
	uint16_t code_filename, code_name, code_qualname, code_table, code_first_line;
	uint16_t code_check, check_words; /* as in struct python_process */
	uint16_t code_instrs; /* where the instructions begin; 0: the frame has an index instead of an address */
	uint16_t code_units;  /* how many there are, caches included, each of 2 bytes */
	uint16_t str_length, str_state, str_ascii, str_wide;
	uint16_t bytes_length, bytes_data;
	uint64_t refcount_zero; /* bits of an object's first word that are 0 as long as it lives; the low half is not */
};

#define PYTHON_CODE_BYTES_MAX 512

struct python_info {
	uint32_t version;  /* PY_VERSION_HEX where the process tells it, else 0x03090000 or 0x030a0000 */
	uint64_t runtime;  /* address of _PyRuntime */
	uint64_t code_type; /* address of PyCode_Type, 0 = not exported; a program may use a copy of its own instead */
	struct python_process probe; /* for the map of the probe, key: host pid */
	struct python_layout layout;
};

/*
 * Finds the interpreter of a process by what its files export, never by their names: anything that loads extension
 * modules (ctypes, PyTorch) exports _PyRuntime. m says which process; serial is put in the result, use none twice:
 * after an exec, which keeps pid and start, the old entry must go from the probe's map and a new search get a new
 * serial.
 * 0; -ENOENT (no Python); -EAGAIN (not set up yet); -EOPNOTSUPP (a version or build we do not know;
 * ret->version is set); -ESRCH; -EPERM; -ENOMEM.
 */
int python_find(const struct memory *m, uint32_t serial, struct python_info *ret);

/* The parts, for tests: the layout of a version, and the check that it fits what lies at runtime. */
int python_layout_of(const struct memory *m, uint64_t runtime, uint32_t version, struct python_info *ret);
