/* SPDX-License-Identifier: MIT */
/* The syslog receiver, out of the daemon's configuration. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct config_setting_t;

enum syslog_transport {
	SYSLOG_UNIX, /* datagram or stream, whatever listens there */
	SYSLOG_UDP,
	SYSLOG_TCP,
};

struct syslog_settings {
	enum syslog_transport transport;
	bool is_cee;
	bool is_newline_framed; /* TCP: a newline ends a message, rather than that its length stands before it */
	uint8_t facility;	/* code of RFC 5424 */
	uint16_t port;		/* UDP and TCP */
	uint32_t max_bytes;	/* of a message; 0 = what receivers by that transport can be expected to take */
	char *address;		/* path of the socket, or the host: a name or an address; NULL = /dev/log */
	char *hostname;		/* that messages name; NULL = this host's */
};

#define SYSLOG_FACILITY_DAEMON 3
#define SYSLOG_SETTINGS_DEFAULT { .facility = SYSLOG_FACILITY_DAEMON }
#define SYSLOG_SOCKET_DEFAULT "/dev/log"

/* The group "syslog". 0, -EINVAL with errors added, -ENOMEM. */
int settings_syslog_read(struct errors *errors, const struct config_setting_t *s, struct syslog_settings *ret);
/* ret is overwritten; its strings are its own. 0 or -ENOMEM. */
int syslog_settings_copy(const struct syslog_settings *s, struct syslog_settings *ret);
void syslog_settings_done(struct syslog_settings *s);
