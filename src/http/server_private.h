/* SPDX-License-Identifier: MIT */
/* Shared by the server's own files only. */
#pragma once

#include <stdint.h>

#include "http/listen.h"
#include "http/mhd.h"
#include "http/server.h"

struct http_body {
	struct MHD_Response *response;
	unsigned int status;
	size_t size;
	uint64_t made_ns;
	uint32_t readers;
	bool is_latest; /* of its format */
	struct http_body *next; /* a newer one */
};

struct http_connection {
	struct http_server *server;
	int fd; /* MHD's */
	uint64_t deadline_ns;
	bool is_answered, is_cut;
	struct http_body *body; /* being read; may be NULL */
	struct http_connection *prev, *next;
};

struct http_listener {
	struct http_server *server;
	struct MHD_Daemon *daemon;
	int fd; /* MHD's */
	sd_event_source *io;
};

struct http_server {
	const struct mhd *mhd;
	http_render_fn render;
	void *userdata;
	struct http_listener listeners[HTTP_SOCKETS_MAX];
	size_t listeners_len;
	char *path; /* of a Unix socket, to be removed */
	bool is_local; /* it listens on this host's loopback alone */
	sd_event_source *timer;
	struct http_connection *first, *last; /* the oldest first */
	size_t connections;
	struct http_body *bodies; /* the oldest first */
	struct http_body *latest[METRICS_OPENMETRICS + 1];
};

/* server_answer.c */
/* MHD's handler of requests; cls is the listener. */
enum MHD_Result http_answer(void *cls, struct MHD_Connection *c, const char *url, const char *method, const char *version,
			    const char *upload, size_t *upload_len, void **request);
/* The connection reads no body any more. */
void http_body_release(struct http_connection *c);
/* No connection is left. */
void http_bodies_done(struct http_server *s);

/* server.c */
/* Ends it soon: MHD finds its socket shut. */
void http_cut(struct http_connection *c);
