/* SPDX-License-Identifier: MIT */
#include "rule/settings_syslog.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/un.h>

#include "rule/conf.h"
#include "rule/rule_names.h"

/* The least that every receiver takes, and twice of what a record holds at most: escapes make it longer. */
#define MESSAGE_MIN_BYTES 480
#define MESSAGE_MAX_BYTES (32u << 10)
#define HOST_MAX 253	/* characters of a name in the DNS */
#define HOSTNAME_MAX 64 /* of this host, as the kernel has it */
#define NAME_CHARS "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_"
#define PORT_UDP 514
#define PORT_TCP 601

enum key { KEY_CEE, KEY_SERVER, KEY_FACILITY, KEY_FRAMING, KEY_MAX_BYTES, KEY_HOSTNAME, KEY_MAX };
static const char *const key_names[] = { "cee", "server", "facility", "framing", "max_bytes", "hostname", NULL };
_Static_assert(ARRAY_SIZE(key_names) == KEY_MAX + 1, "a name for each key");

/* Without "kern", which is the kernel's. */
static const char *const facility_names[] = { "user",	"mail",	  "daemon", "auth",   "syslog", "lpr",	  "news",
					      "uucp",	"cron",	  "authpriv", "ftp",  "local0", "local1", "local2",
					      "local3", "local4", "local5", "local6", "local7", NULL };
static const uint8_t facilities[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23 };
_Static_assert(ARRAY_SIZE(facility_names) == ARRAY_SIZE(facilities) + 1, "a code for each name");

static const char *const framing_names[] = { "octet-counting", "newline", NULL };

struct reader {
	struct errors *errors;
	struct syslog_settings s;
	const config_setting_t *framing; /* NULL = not given */
};

static int set_string(char **p, const char *s, size_t len)
{
	char *copy = strndup(s, len);

	if (!copy)
		return -ENOMEM;
	free(*p);
	*p = copy;
	return 0;
}

static int read_socket(struct reader *rd, const config_setting_t *s, const char *path)
{
	if (path[0] != '/')
		return conf_error(rd->errors, s, "server: \"%s\" must be an absolute path", path);
	if (strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return conf_error(rd->errors, s, "server: a socket's path has at most %zu bytes",
				  sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
	rd->s.transport = SYSLOG_UNIX;
	return set_string(&rd->s.address, path, strlen(path));
}

/* ":601" or nothing. */
static int read_port(struct reader *rd, const config_setting_t *s, const char *text)
{
	char *end;
	long port;

	if (!*text)
		return 0;
	if (*text++ != ':')
		return conf_error(rd->errors, s, "server: \"%s\" follows the host: only a port may, \":%d\" say", text - 1,
				  rd->s.port);
	port = strspn(text, "0123456789") <= 5 ? strtol(text, &end, 10) : 0;
	if (*text < '0' || *text > '9' || port < 1 || port > UINT16_MAX || *end)
		return conf_error(rd->errors, s, "server: port \"%s\" is not a number from 1 to 65535", text);
	rd->s.port = (uint16_t)port;
	return 0;
}

/* With the scope of a link-local one, "fe80::1%eth0". */
static bool is_ipv6(const char *text, size_t len)
{
	char address[INET6_ADDRSTRLEN] = "";
	struct in6_addr in6;
	size_t n = 0;

	for (; n < len && text[n] != '%'; n++) {
		if (n + 1 == sizeof(address))
			return false;
		address[n] = text[n];
	}
	if (inet_pton(AF_INET6, address, &in6) != 1)
		return false;
	return n == len || (n + 1 < len && n + 1 + strspn(text + n + 1, NAME_CHARS) >= len);
}

static int read_host(struct reader *rd, const config_setting_t *s, const char *text)
{
	const char *host = text, *rest;
	size_t len;

	if (*host == '[') {
		host++;
		len = strcspn(host, "]");
		if (!host[len])
			return conf_error(rd->errors, s, "server: \"%s\" has no closing bracket", text);
		rest = host + len + 1;
		if (!is_ipv6(host, len))
			return conf_error(rd->errors, s, "server: what is in brackets is no IPv6 address: \"%s\"", text);
	} else {
		len = strcspn(host, ":");
		rest = host + len;
		if (*rest && strchr(rest + 1, ':'))
			return conf_error(rd->errors, s, "server: an IPv6 address stands in brackets: \"[::1]:%d\"", rd->s.port);
		if (strspn(host, NAME_CHARS) < len)
			return conf_error(rd->errors, s, "server: \"%s\" is no name of a host and no address", host);
	}
	if (len == 0)
		return conf_error(rd->errors, s, "server: no host: write \"%s://HOST:%d\"",
				  rd->s.transport == SYSLOG_UDP ? "udp" : "tcp", rd->s.port);
	if (len > HOST_MAX)
		return conf_error(rd->errors, s, "server: a host's name has at most %d characters", HOST_MAX);
	if (set_string(&rd->s.address, host, len) < 0)
		return -ENOMEM;
	return read_port(rd, s, rest);
}

static int read_server(struct reader *rd, const config_setting_t *s, const char *text)
{
	if (strncmp(text, "unix:", 5) == 0)
		return read_socket(rd, s, text + 5);
	if (strncmp(text, "udp://", 6) == 0 || strncmp(text, "tcp://", 6) == 0) {
		rd->s.transport = text[0] == 'u' ? SYSLOG_UDP : SYSLOG_TCP;
		rd->s.port = rd->s.transport == SYSLOG_UDP ? PORT_UDP : PORT_TCP;
		return read_host(rd, s, text + 6);
	}
	return conf_error(rd->errors, s, "server: \"%s\" is none of \"unix:/dev/log\", \"udp://HOST:%d\" and \"tcp://HOST:%d\"",
			  text, PORT_UDP, PORT_TCP);
}

static int read_hostname(struct reader *rd, const config_setting_t *s, const char *text)
{
	size_t len = strlen(text);

	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] > '~' || len > HOSTNAME_MAX)
			return conf_error(rd->errors, s, "hostname: at most %d ASCII characters, none of them a blank",
					  HOSTNAME_MAX);
	if (len > 0)
		return set_string(&rd->s.hostname, text, len);
	free(TAKE_PTR(rd->s.hostname));
	return 0;
}

static int read_max_bytes(struct reader *rd, const config_setting_t *s)
{
	const char *text = config_setting_get_string(s);
	uint64_t bytes = 0;
	int r;

	if (text && strcmp(text, "auto") == 0) {
		rd->s.max_bytes = 0;
		return 0;
	}
	r = conf_size(rd->errors, s, &bytes);
	if (r < 0)
		return r;
	if (bytes < MESSAGE_MIN_BYTES || bytes > MESSAGE_MAX_BYTES)
		return conf_error(rd->errors, s, "max_bytes must be \"auto\" or from %dB to %dKiB", MESSAGE_MIN_BYTES,
				  MESSAGE_MAX_BYTES >> 10);
	rd->s.max_bytes = (uint32_t)bytes;
	return 0;
}

static int read_key(struct reader *rd, const config_setting_t *s)
{
	const char *name = config_setting_name(s), *text;
	int k = rule_name_find(key_names, name), r, i;

	if (k < 0)
		return conf_unknown(rd->errors, s, "key of syslog", name, key_names);
	if (k == KEY_CEE)
		return conf_bool(rd->errors, s, &rd->s.is_cee);
	if (k == KEY_MAX_BYTES)
		return read_max_bytes(rd, s);
	r = conf_string(rd->errors, s, &text);
	if (r < 0)
		return r;
	if (k == KEY_SERVER)
		return read_server(rd, s, text);
	if (k == KEY_HOSTNAME)
		return read_hostname(rd, s, text);
	i = rule_name_find(k == KEY_FACILITY ? facility_names : framing_names, text);
	if (i < 0)
		return conf_unknown(rd->errors, s, name, text, k == KEY_FACILITY ? facility_names : framing_names);
	if (k == KEY_FACILITY) {
		rd->s.facility = facilities[i];
	} else {
		rd->s.is_newline_framed = i == 1;
		rd->framing = s;
	}
	return 0;
}

int settings_syslog_read(struct errors *errors, const struct config_setting_t *s, struct syslog_settings *ret)
{
	struct reader rd = { .errors = errors, .s = SYSLOG_SETTINGS_DEFAULT };
	int r;

	r = conf_group(errors, s);
	if (r < 0)
		return r;
	for (int i = 0; r != -ENOMEM && i < config_setting_length(s); i++) {
		int q = read_key(&rd, config_setting_get_elem(s, (unsigned)i));

		r = q < 0 ? q : r;
	}
	if (r == 0 && rd.s.is_newline_framed && rd.s.transport != SYSLOG_TCP)
		r = conf_error(errors, rd.framing, "framing = \"newline\" goes with a server \"tcp://...\" alone: other messages "
						   "have an end of their own");
	if (r < 0) {
		syslog_settings_done(&rd.s);
		return r;
	}
	syslog_settings_done(ret);
	*ret = rd.s;
	return 0;
}

int syslog_settings_copy(const struct syslog_settings *s, struct syslog_settings *ret)
{
	*ret = *s;
	ret->address = s->address ? strdup(s->address) : NULL;
	ret->hostname = s->hostname ? strdup(s->hostname) : NULL;
	if ((s->address && !ret->address) || (s->hostname && !ret->hostname)) {
		syslog_settings_done(ret);
		return -ENOMEM;
	}
	return 0;
}

void syslog_settings_done(struct syslog_settings *s)
{
	free(s->address);
	free(s->hostname);
	s->address = s->hostname = NULL;
}
