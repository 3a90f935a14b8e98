/* SPDX-License-Identifier: MIT */
#include "http/mhd.h"

#include <dlfcn.h>
#include <stdio.h>

#include "base/cleanup.h"

#define MHD_LIBRARY "libmicrohttpd.so.12"
#define CURE "install libmicrohttpd12 (Debian, Ubuntu) or libmicrohttpd (Fedora, RHEL, SUSE)"

#define SYMBOL(name) { "MHD_" #name, offsetof(struct mhd, name) }
static const struct {
	const char *name;
	size_t offset;
} symbols[] = {
	SYMBOL(start_daemon), SYMBOL(stop_daemon), SYMBOL(run), SYMBOL(get_timeout), SYMBOL(get_daemon_info),
	SYMBOL(get_connection_info), SYMBOL(lookup_connection_value), SYMBOL(create_response_from_buffer),
	SYMBOL(add_response_header), SYMBOL(queue_response), SYMBOL(destroy_response),
};
#undef SYMBOL
_Static_assert(sizeof(struct mhd) == ARRAY_SIZE(symbols) * sizeof(void *), "all functions");

const struct mhd *mhd_load(char *reterr, size_t size)
{
	static struct mhd loaded;
	struct mhd m = {};
	void *library;

	if (loaded.start_daemon)
		return &loaded;
	library = dlopen(MHD_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!library) {
		(void)snprintf(reterr, size, "metrics by HTTP need %s (%s): " CURE, MHD_LIBRARY, dlerror());
		return NULL;
	}
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
		void **fn = (void **)((char *)&m + symbols[i].offset);

		*fn = dlsym(library, symbols[i].name);
		if (*fn)
			continue;
		(void)snprintf(reterr, size, "%s has no %s: " CURE, MHD_LIBRARY, symbols[i].name);
		(void)dlclose(library);
		return NULL;
	}
	loaded = m;
	return &loaded;
}
