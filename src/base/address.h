/* SPDX-License-Identifier: MIT */
/* Where to listen, as people write it. Pure: nothing is looked up. */
#pragma once

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

#define HTTP_LISTEN_DEFAULT "localhost:2112"
#define HTTP_PORT_DEFAULT 2112

enum http_address_kind {
	HTTP_LOCALHOST, /* 127.0.0.1 and ::1, where there is such a thing */
	HTTP_ANY,	/* all addresses of this host, IPv4 and IPv6 */
	HTTP_IP,
	HTTP_UNIX,
};

struct http_address {
	enum http_address_kind kind;
	char host[INET6_ADDRSTRLEN + 1 + IF_NAMESIZE]; /* HTTP_IP: without brackets, with a scope: "fe80::1%eth0" */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* HTTP_UNIX: absolute */
	uint16_t port; /* 0 = one that is free */
};

#define HTTP_ADDRESS_ERROR_MAX 256

/* Only programs of this host can connect. */
bool http_address_is_local(const struct http_address *a);
/*
 * Whether a Host header (NULL: none was sent) can be that of a client that meant this host: an address, a name without a dot,
 * or one that ends in "localhost". A page in a browser of this host can reach a local address under its own site's name, once
 * its name server has been told to say so (DNS rebinding); that name has a dot.
 */
bool http_host_is_local(const char *host);

/*
 * "localhost:2112", "10.0.0.1:2112", "[::1]:2112", ":2112" (all addresses), "unix:/path". Without a port it is 2112. Names
 * of hosts are refused: a socket is bound to addresses. 0, or -EINVAL and what is wrong in reterr.
 */
int http_address_parse(const char *text, struct http_address *ret, char reterr[HTTP_ADDRESS_ERROR_MAX]);
