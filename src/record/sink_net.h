/* SPDX-License-Identifier: MIT */
/*
 * The way to a syslog receiver on the network: UDP (RFC 5426) or TCP (RFC 6587). Connected when something is to be sent,
 * and anew, with the name looked up again, when the connection broke. For the writer thread alone: it may wait.
 */
#pragma once

#include <stddef.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "rule/settings_syslog.h"

struct net;

/* s: what is needed of it is copied. Connects to nothing yet. 0 or -ENOMEM. */
int net_new(const struct syslog_settings *s, struct net **ret);
void net_free(struct net *n); /* accepts NULL */
DEFINE_CLEANUP(struct net, net_free)
/*
 * One message, without an end of its own; TCP gives it one. 0: with the kernel, which says nothing of the receiver. -errno:
 * not sent, or in part over a connection that is closed now; the same message may be sent again. A receiver that is
 * connected and does not read holds it up for as long as that lasts; one that cannot be reached, for some seconds.
 */
int net_send(struct net *n, const char *data, size_t len);
/* Where to, why the last net_send() failed with err, and what to do. */
void net_explain(const struct net *n, int err, struct strbuf *sb);
