/* SPDX-License-Identifier: MIT */
/*
 * Source lines out of .debug_line, DWARF 2 to 5. A reader of our own: libdw 0.188 maps a plain file, so that one cut
 * short meanwhile would kill us, and unpacks every debug section of a packed one. Measured, one address in a library
 * with 131 MB of debug sections, 19 MB of them .debug_line: libdw takes 41 MB of heap and 12 MB of the mapped file,
 * 0.14 s; packed 170 MB of heap and 45 MB of the file, 0.9 s. This takes 0.2 MB and the file names of one unit (4 MiB
 * at most), 0.04 s, packed 0.08 s, for the whole table. 54 MB of .debug_line are read in 0.3 s, packed in 0.6 s. It
 * agreed with LLVM's reader on 10000 addresses of eight libraries and programs.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "stack/debug_info.h"
#include "stack/elf_file.h"

/*
 * For the queries without a file yet, in one pass over all line programs of f. code: the file whose executable
 * segments the addresses lie in; another one than f when f is a debug file. Of a line table, or a table of its file
 * names, no more than max_bytes are looked at, unpacked: a larger .debug_line is not read at all. 0 or -ENOMEM.
 */
int debug_line_find(const struct elf_file *f, const struct elf_file *code, struct debug_line *query, size_t n,
		    uint64_t max_bytes);
