/* SPDX-License-Identifier: MIT */
/*
 * A Unix stream socket, mode 0660, that answers lines. Most are one question and its answer, "text" or "json"; a session
 * asks on, and each answer has its length in bytes, in decimal, on a line before it. A client that does not read loses its
 * answer, never our time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "base/cleanup.h"
#include "base/strbuf.h"

struct status_server;
struct status_client;

enum status_answer {
	STATUS_DONE,  /* it is in sb, and the connection ends */
	STATUS_MORE,  /* it is in sb, and further questions may come: a session */
	STATUS_LATER, /* of a session: status_answer() will be called */
};
/* request: without its line's end. enum status_answer, or -errno: the connection ends. */
typedef int (*status_fn)(struct status_client *c, const char *request, struct strbuf *sb, void *userdata);

/* -EADDRINUSE: another daemon answers there. path NULL: no socket, only clients that are added. */
int status_server_new(sd_event *event, const char *path, status_fn fn, void *userdata, struct status_server **ret);
void status_server_free(struct status_server *s); /* removes the socket; accepts NULL */
DEFINE_CLEANUP(struct status_server, status_server_free)

/* A connection that is there already; takes the fd in any case. When it ends, the event loop does. 0 or -errno. */
int status_server_add(struct status_server *s, int fd);
/* Never used twice. */
uint64_t status_client_id(const struct status_client *c);
/* NULL: it has gone. */
struct status_client *status_server_client(struct status_server *s, uint64_t id);
/* What a session keeps; released when it ends. */
void status_client_set_data(struct status_client *c, void *data, void (*done)(void *data));
void *status_client_data(const struct status_client *c);
/* Walks the data of all sessions that have some; start with *iter = 0. */
void *status_server_next_data(const struct status_server *s, size_t *iter);
/* The answer that was to come later; takes text (NULL: there is none, the connection ends). */
void status_answer(struct status_client *c, char *text);

/* The other end: asks and returns the whole answer, which the caller frees. 0, -ECONNREFUSED or -ENOENT when nobody
 * answers, -errno. */
int status_ask(const char *path, bool json, char **ret);
/* ... of a session: connects (0 or -errno, as above), and asks over the connection, waiting at most timeout_ms. The line
 * is without its end. -ENOTCONN (it has ended), -ETIMEDOUT, -EPROTO, -E2BIG, -ENOMEM, -errno. */
int status_connect(const char *path, int *ret_fd);
int status_ask_on(int fd, const char *line, int timeout_ms, char **ret, size_t *ret_len);

/* $GPUXRAY_SOCKET, else /run/gpuxray/status.sock. */
const char *status_socket_default(void);
