/* SPDX-License-Identifier: MIT */
/*
 * What a file's debug information adds: names from .gnu_debugdata and from separate debug files, and source lines. All
 * files are hostile; everything is read with pread in bounded pieces. One thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "stack/elf_file.h"

struct debug_info;

struct debug_limits {
	uint64_t max_symbols;	  /* per file */
	size_t max_minidebug;	  /* bytes of an unpacked .gnu_debugdata */
	uint64_t max_line_bytes;  /* of a line table, unpacked; a larger one is not read at all */
	uint64_t max_crc_bytes;	  /* size of a file found by .gnu_debuglink whose checksum is still computed */
};
#define DEBUG_LIMITS_DEFAULT                                                                                           \
	{                                                                                                              \
		.max_symbols = 8000000, .max_minidebug = 16u << 20, .max_line_bytes = 64u << 20,                      \
		.max_crc_bytes = 64u << 20,                                                                           \
	}

/*
 * f: borrowed, must outlive the result. path: of the file within root ("/usr/lib/libx.so"); root: "/proc/PID/root",
 * may be NULL when the process is gone. Debug files are looked for, in the process's root and then in ours, by build
 * id (/usr/lib/debug/.build-id/ab/cdef.debug) and by .gnu_debuglink (beside the file, in .debug/ there, and below
 * /usr/lib/debug); what is found must have the file's build id, or, if either has none, the link's checksum. Only
 * regular files are opened, and looked at before that; symbolic links do not lead out of the root. A file with .symtab
 * and .debug_line of its own needs none. Finding nothing is no error. The result holds up to two open files. 0 or
 * -ENOMEM.
 */
int debug_info_open(const struct elf_file *f, const char *root, const char *path, const struct debug_limits *limits,
		    struct debug_info **ret);
void debug_info_free(struct debug_info *d);
DEFINE_CLEANUP(struct debug_info, debug_info_free)

/*
 * Names for the queries that have none yet (name == NULL): from f's .symtab, the separate debug file's .symtab,
 * .gnu_debugdata, and last f's .dynsym, as elf_file_lookup() does. 0, -ENOMEM, or the error of reading f itself; names
 * found before an error stay, the caller's to free in any case.
 */
int debug_info_symbols(struct debug_info *d, struct elf_symbol *query, size_t n);

struct debug_line {
	uint64_t vaddr; /* in */
	char *file;	/* out: last part of its name; the caller frees; NULL = not found, or code without a line */
	uint32_t line;	/* out: 0 only without a file */
};
/* Source lines by .debug_line (DWARF 2 to 5, plain or zlib-compressed), of f or of its debug file. 0 or -ENOMEM: what
 * cannot be read or is too large is not found. */
int debug_info_lines(struct debug_info *d, struct debug_line *query, size_t n);
/* Bytes of memory held, with the unpacked .gnu_debugdata: it is made at the first question that needs it. */
size_t debug_info_bytes(const struct debug_info *d);
