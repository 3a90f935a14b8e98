/* SPDX-License-Identifier: MIT */
/*
 * A Unix stream socket that answers one line, "text" or "json", and closes. Mode 0660. A client that does not read loses
 * its answer, never our time.
 */
#pragma once

#include <stdbool.h>
#include <systemd/sd-event.h>

#include "base/cleanup.h"
#include "base/strbuf.h"

struct status_server;
typedef void (*status_fn)(bool json, struct strbuf *sb, void *userdata);

/* -EADDRINUSE: another daemon answers there. */
int status_server_new(sd_event *event, const char *path, status_fn fn, void *userdata, struct status_server **ret);
void status_server_free(struct status_server *s); /* removes the socket; accepts NULL */
DEFINE_CLEANUP(struct status_server, status_server_free)

/* The other end: asks and returns the whole answer, which the caller frees. 0, -ECONNREFUSED or -ENOENT when nobody
 * answers, -errno. */
int status_ask(const char *path, bool json, char **ret);

/* $GPUXRAY_SOCKET, else /run/gpuxray/status.sock. */
const char *status_socket_default(void);
