/* SPDX-License-Identifier: MIT */
/* Sockets that listen. */
#pragma once

#include <stddef.h>

#include "base/address.h"

#define HTTP_SOCKETS_MAX 2
#define HTTP_NAME_MAX 128

struct http_sockets {
	int fds[HTTP_SOCKETS_MAX];
	size_t len;
};

/*
 * Non-blocking. A Unix socket has mode 0660 and its folder is made; one that a program left behind is replaced, anything
 * else of that name is not. On failure one line with cause and cure in reterr (size bytes). 0 or -errno: nothing is open
 * then.
 */
int http_listen(const struct http_address *a, struct http_sockets *ret, char *reterr, size_t size);
/* What it is bound to: "127.0.0.1:2112", "[::]:2112", "unix:/path". Returns buf. */
const char *http_socket_name(int fd, char buf[HTTP_NAME_MAX]);
