/* SPDX-License-Identifier: MIT */
/*
 * libmicrohttpd, loaded when somebody is to be answered: linked, it and the TLS library that it brings would cost every
 * daemon 2.7 MB.
 */
#pragma once

#include <microhttpd.h>
#include <stddef.h>

#define MHD_FN(name) __typeof__(MHD_##name) *name
struct mhd {
	MHD_FN(start_daemon);
	MHD_FN(stop_daemon);
	MHD_FN(run);
	MHD_FN(get_timeout);
	MHD_FN(get_daemon_info);
	MHD_FN(get_connection_info);
	MHD_FN(lookup_connection_value);
	MHD_FN(create_response_from_buffer);
	MHD_FN(add_response_header);
	MHD_FN(queue_response);
	MHD_FN(destroy_response);
};
#undef MHD_FN

/* Loaded once and kept. NULL, and one line with the cure in reterr (size bytes), when it is not there or too old. */
const struct mhd *mhd_load(char *reterr, size_t size);
