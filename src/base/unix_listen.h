/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A stream socket that listens at path, non-blocking, mode 0660; its folder is made. A socket that a program left behind is
 * replaced, anything else is not. Of several who try at the same moment one gets it. The descriptor; -EADDRINUSE (somebody
 * answers there), -EEXIST (no socket is there), -ENAMETOOLONG, -EBUSY (somebody has been about to for seconds), -errno.
 */
int unix_listen(const char *path, int backlog);
