/* SPDX-License-Identifier: MIT */
#include "base/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/units.h"

static int bad(char *reterr, const char *fmt, ...) _printf_(2, 3);
static int bad(char *reterr, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(reterr, HTTP_ADDRESS_ERROR_MAX, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static int parse_path(const char *path, struct http_address *ret, char *reterr)
{
	if (path[0] != '/')
		return bad(reterr, "\"%s\" must be an absolute path", path);
	if (strlen(path) >= sizeof(ret->path))
		return bad(reterr, "a socket's path has at most %zu bytes", sizeof(ret->path) - 1);
	ret->kind = HTTP_UNIX;
	(void)strcpy(ret->path, path);
	return 0;
}

/* ":2112" or nothing. */
static int parse_port(const char *text, struct http_address *ret, char *reterr)
{
	uint32_t port;

	ret->port = HTTP_PORT_DEFAULT;
	if (!text[0])
		return 0;
	if (text[0] != ':')
		return bad(reterr, "\"%s\" follows the address: only a port may, \":%d\" say", text, HTTP_PORT_DEFAULT);
	if (parse_u32(text + 1, &port) < 0 || port > UINT16_MAX)
		return bad(reterr, "port \"%s\" is not a number from 0 to 65535", text + 1);
	ret->port = (uint16_t)port;
	return 0;
}

/* With the scope of a link-local one, "fe80::1%eth0". */
static bool is_ipv6(const char *host)
{
	const size_t len = strcspn(host, "%");
	char address[INET6_ADDRSTRLEN];
	struct in6_addr in6;

	if (len >= sizeof(address) || (host[len] && !host[len + 1]))
		return false;
	memcpy(address, host, len);
	address[len] = '\0';
	return inet_pton(AF_INET6, address, &in6) == 1;
}

static int parse_ipv6(const char *text, struct http_address *ret, char *reterr)
{
	const size_t len = strcspn(text + 1, "]");

	if (!text[1 + len])
		return bad(reterr, "\"%s\" has no closing bracket", text);
	if (len < sizeof(ret->host)) {
		memcpy(ret->host, text + 1, len);
		ret->host[len] = '\0';
	}
	if (len >= sizeof(ret->host) || !is_ipv6(ret->host))
		return bad(reterr, "what is in brackets is no IPv6 address: \"%s\"", text);
	ret->kind = strcmp(ret->host, "::") == 0 ? HTTP_ANY : HTTP_IP;
	return parse_port(text + len + 2, ret, reterr);
}

int http_address_parse(const char *text, struct http_address *ret, char reterr[HTTP_ADDRESS_ERROR_MAX])
{
	const char *colon = strchr(text, ':');
	const size_t len = colon ? (size_t)(colon - text) : strlen(text);
	struct in_addr in;

	*ret = (struct http_address){};
	if (strncmp(text, "unix:", 5) == 0)
		return parse_path(text + 5, ret, reterr);
	if (text[0] == '[')
		return parse_ipv6(text, ret, reterr);
	if (colon && strchr(colon + 1, ':'))
		return bad(reterr, "\"%s\": an IPv6 address stands in brackets: \"[::1]:%d\"", text, HTTP_PORT_DEFAULT);
	if (len >= sizeof(ret->host) || !text[0])
		return bad(reterr, "\"%s\" is none of \"%s\", \"ADDRESS:PORT\", \":PORT\" (all addresses) and \"unix:/PATH\"", text,
			   HTTP_LISTEN_DEFAULT);
	memcpy(ret->host, text, len);
	ret->host[len] = '\0';
	if (len == 0)
		ret->kind = HTTP_ANY;
	else if (strcmp(ret->host, "localhost") == 0)
		ret->kind = HTTP_LOCALHOST;
	else if (inet_pton(AF_INET, ret->host, &in) == 1)
		ret->kind = HTTP_IP;
	else
		return bad(reterr, "\"%s\" is no address: write an IP address of this host, \"localhost\", or \":%d\" for all "
			   "addresses", ret->host, HTTP_PORT_DEFAULT);
	return parse_port(text + len, ret, reterr);
}

bool http_address_is_local(const struct http_address *a)
{
	struct in6_addr in6;
	struct in_addr in;

	if (a->kind != HTTP_IP)
		return a->kind == HTTP_LOCALHOST;
	if (inet_pton(AF_INET, a->host, &in) == 1)
		return ntohl(in.s_addr) >> 24 == IN_LOOPBACKNET;
	return inet_pton(AF_INET6, a->host, &in6) == 1 && IN6_IS_ADDR_LOOPBACK(&in6);
}

bool http_host_is_local(const char *host)
{
	static const char local[] = ".localhost";
	char name[256];
	struct in_addr in;
	size_t len;

	if (!host || host[0] == '[') /* an IPv6 address, or no name at all */
		return true;
	len = strcspn(host, ":");
	if (len >= sizeof(name))
		return false;
	memcpy(name, host, len);
	/* The root of all names, which may be left out. */
	if (len > 0 && name[len - 1] == '.')
		len--;
	name[len] = '\0';
	if (!strchr(name, '.') || inet_pton(AF_INET, name, &in) == 1)
		return true;
	return len >= strlen(local) && strcasecmp(name + len - strlen(local), local) == 0;
}
