/* SPDX-License-Identifier: MIT */
/* What the main thread keeps once it runs. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/privilege.h"
#include "cmd/daemon_internal.h"

/* Whether files can be made and removed in path's folder by its mode alone; NULL: none are. Access lists are not looked at:
 * then a power is kept that is not needed. */
static bool may_write_beside(const char *path)
{
	_cleanup_free_ char *folder = path ? strdup(path) : NULL;
	char *slash = folder ? strrchr(folder, '/') : NULL;
	struct stat st;

	if (!path)
		return true;
	if (slash)
		slash[slash == folder] = '\0';
	if (!folder || stat(slash ? folder : ".", &st) < 0)
		return false;
	return st.st_mode & (st.st_uid == geteuid() ? S_IWUSR : st.st_gid == getegid() ? S_IWGRP : S_IWOTH);
}

/* Sockets are removed at the end and the state is written anew all along. In the service's folders it takes no power; where
 * one was started by hand with a path in a user's folder it does. */
static bool needs_override(const struct daemon *d)
{
	const char *listen = d->settings->metrics.listen;
	const char *http = listen && strncmp(listen, "unix:", 5) == 0 ? listen + 5 : NULL;

	if (daemon_is_bare(d))
		return false;
	return !may_write_beside(d->options->socket) || !may_write_beside(http) || !may_write_beside(d->kept.bounds.path);
}

void daemon_give_up(struct daemon *d)
{
	int r = privilege_keep(PRIVILEGE_TRACE | (tracer_is_multi(d->tracer) ? 0 : PRIVILEGE(CAP_SYS_ADMIN)) |
			       (needs_override(d) ? PRIVILEGE(CAP_DAC_OVERRIDE) : 0));

	if (r < 0)
		log_warning("capabilities that are not needed could not be given up: %s", strerror(-r));
}
