/* SPDX-License-Identifier: MIT */
/*
 * The text of a libconfig file with all that it includes in its place, and where each line of it came from. libconfig
 * would open included files by itself, by name and without a look: one that has become a pipe would hold it for ever.
 */
#pragma once

#include "base/error.h"
#include "base/strbuf.h"

/* A stretch of lines that came from one file. */
struct conf_part {
	int line; /* the first of them in the text, from 1 */
	char *file;
	int file_line; /* the same line in the file */
};

struct conf_text {
	struct strbuf sb;
	struct conf_part *parts; /* ascending; at least one */
	size_t len;
};

/* flags: CONF_F_* of conf.h. dir: what includes are relative to. 0, -EINVAL with errors, -ENOMEM; *ret is to be released in
 * any case. */
int conf_text_load(const char *path, unsigned flags, const char *dir, struct errors *errors, struct conf_text *ret);
/* A text in the place of a file called name; it can include nothing. */
int conf_text_parse(const char *name, const char *text, struct errors *errors, struct conf_text *ret);
/* The part that line came from. */
const struct conf_part *conf_text_part(const struct conf_text *t, int line);
void conf_text_done(struct conf_text *t);
