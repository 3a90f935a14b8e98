/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A stream socket that listens at path, non-blocking, mode 0660; its folder is made. A socket that a program left behind is
 * replaced, anything else is not. The descriptor; -EADDRINUSE (somebody answers there), -EEXIST (no socket is there),
 * -ENAMETOOLONG, -errno.
 */
int unix_listen(const char *path, int backlog);
