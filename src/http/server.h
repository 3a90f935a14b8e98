/* SPDX-License-Identifier: MIT */
/*
 * Answers scrapes out of an event loop, without threads. What clients do costs no more than: one rendering a second and
 * format, however many ask; HTTP_CONNECTIONS_MAX connections of 16 KiB each, of which the oldest makes room for a new one;
 * HTTP_BODIES_BYTES_MAX of answers that are still being read; 10 s for a client to ask and 10 s to read. A connection
 * carries one request.
 */
#pragma once

#include <stddef.h>
#include <systemd/sd-event.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "view/metrics.h"

#define HTTP_CONNECTIONS_MAX 32
/* Over it, and while there is more than one answer, who still reads the oldest is cut off. */
#define HTTP_BODIES_BYTES_MAX (32u << 20)

struct http_server;

/* Appends the whole exposition. Or -errno and one line in reterr (size bytes): that goes out with status 503. */
typedef int (*http_render_fn)(enum metrics_format format, struct strbuf *sb, char *reterr, size_t size, void *userdata);

/* listen: an address of base/address.h. On failure one line with cause and cure in reterr (size bytes). 0 or -errno.
 * SIGPIPE must be ignored by the program. */
int http_server_new(sd_event *event, const char *listen, http_render_fn render, void *userdata, struct http_server **ret,
		    char *reterr, size_t size);
void http_server_free(struct http_server *s); /* accepts NULL */
DEFINE_CLEANUP(struct http_server, http_server_free)
/* "http://127.0.0.1:2112/metrics and http://[::1]:2112/metrics", or "unix:/path". */
void http_server_where(const struct http_server *s, struct strbuf *sb);
