/* SPDX-License-Identifier: MIT */
/* Where to listen, the sockets, and text files. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "http/listen.h"
#include "base/textfile.h"
#include "test.h"

static char folder[] = "/tmp/test_http.XXXXXX";

__attribute__((constructor)) static void begin(void)
{
	if (!mkdtemp(folder))
		abort();
}

__attribute__((destructor)) static void end(void)
{
	(void)rmdir(folder);
}

static const char *in_folder(const char *name)
{
	static char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

/* ---- addresses */

TEST(addresses)
{
	static const struct {
		const char *text;
		enum http_address_kind kind;
		const char *host;
		uint16_t port;
	} good[] = {
		{ "localhost:2112", HTTP_LOCALHOST, "localhost", 2112 },
		{ "localhost", HTTP_LOCALHOST, "localhost", 2112 },
		{ "127.0.0.1:0", HTTP_IP, "127.0.0.1", 0 },
		{ "10.1.2.3:65535", HTTP_IP, "10.1.2.3", 65535 },
		{ "0.0.0.0:9", HTTP_IP, "0.0.0.0", 9 },
		{ ":2113", HTTP_ANY, "", 2113 },
		{ "[::]:2113", HTTP_ANY, "::", 2113 },
		{ "[::1]:2113", HTTP_IP, "::1", 2113 },
		{ "[::1]", HTTP_IP, "::1", 2112 },
		{ "[fe80::1%eth0]:1", HTTP_IP, "fe80::1%eth0", 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		char error[HTTP_ADDRESS_ERROR_MAX] = "";
		struct http_address a;

		EXPECT_EQ(http_address_parse(good[i].text, &a, error), 0);
		EXPECT_STR(error, "");
		EXPECT_EQ(a.kind, good[i].kind);
		EXPECT_STR(a.host, good[i].host);
		EXPECT_EQ(a.port, good[i].port);
	}
}

TEST(bad_addresses)
{
	static const struct {
		const char *text, *error;
	} bad[] = {
		{ "", "\"\" is none of \"localhost:2112\", \"ADDRESS:PORT\", \":PORT\" (all addresses) and \"unix:/PATH\"" },
		{ "2112", "\"2112\" is no address: write an IP address of this host, \"localhost\", or \":2112\" for all "
			  "addresses" },
		{ "gpu-17:2112", "\"gpu-17\" is no address: write an IP address of this host, \"localhost\", or \":2112\" for "
				 "all addresses" },
		{ "http://localhost:2112", "\"http://localhost:2112\": an IPv6 address stands in brackets: \"[::1]:2112\"" },
		{ "::1", "\"::1\": an IPv6 address stands in brackets: \"[::1]:2112\"" },
		{ "[::1", "\"[::1\" has no closing bracket" },
		{ "[1.2.3.4]:1", "what is in brackets is no IPv6 address: \"[1.2.3.4]:1\"" },
		{ "[fe80::1%]:1", "what is in brackets is no IPv6 address: \"[fe80::1%]:1\"" },
		{ "[]:1", "what is in brackets is no IPv6 address: \"[]:1\"" },
		{ "[::1]2112", "\"2112\" follows the address: only a port may, \":2112\" say" },
		{ "localhost:", "port \"\" is not a number from 0 to 65535" },
		{ "localhost:65536", "port \"65536\" is not a number from 0 to 65535" },
		{ "localhost:-1", "port \"-1\" is not a number from 0 to 65535" },
		{ "localhost: 1", "port \" 1\" is not a number from 0 to 65535" },
		{ "localhost:http", "port \"http\" is not a number from 0 to 65535" },
		{ "localhost:99999999999999999999", "port \"99999999999999999999\" is not a number from 0 to 65535" },
		{ "unix:x", "\"x\" must be an absolute path" },
	};
	char error[HTTP_ADDRESS_ERROR_MAX], text[400];
	struct http_address a;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(http_address_parse(bad[i].text, &a, error), -EINVAL);
		EXPECT_STR(error, bad[i].error);
	}
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	EXPECT_EQ(http_address_parse(text, &a, error), -EINVAL);
	EXPECT(strlen(error) < sizeof(error));
	text[0] = '[';
	text[sizeof(text) - 2] = ']';
	EXPECT_EQ(http_address_parse(text, &a, error), -EINVAL);
	memcpy(text, "unix:/", 6);
	EXPECT_EQ(http_address_parse(text, &a, error), -EINVAL);
	EXPECT_STR(error, "a socket's path has at most 107 bytes");
	text[5 + 107] = '\0';
	EXPECT_EQ(http_address_parse(text, &a, error), 0);
	EXPECT_EQ(a.kind, HTTP_UNIX);
	EXPECT_STR(a.path, text + 5);
}

/* ---- sockets */

static void close_all(struct http_sockets *s)
{
	for (size_t i = 0; i < s->len; i++)
		closep(&s->fds[i]);
}

static int listen_at(const char *text, struct http_sockets *ret, char *error, size_t size)
{
	struct http_address a;

	error[0] = '\0';
	if (http_address_parse(text, &a, error) < 0)
		return -EINVAL;
	return http_listen(&a, ret, error, size);
}

TEST(localhost_is_both_protocols_on_one_port)
{
	char error[256], name[HTTP_NAME_MAX], other[HTTP_NAME_MAX];
	struct http_sockets s;

	ASSERT(listen_at("localhost:0", &s, error, sizeof(error)) == 0);
	ASSERT(s.len >= 1);
	EXPECT(strncmp(http_socket_name(s.fds[0], name), s.len == 2 ? "127.0.0.1:" : "", s.len == 2 ? 10 : 0) == 0);
	if (s.len == 2) {
		EXPECT(strncmp(http_socket_name(s.fds[1], other), "[::1]:", 6) == 0);
		EXPECT_STR(strrchr(name, ':'), strrchr(other, ':'));
	}
	for (size_t i = 0; i < s.len; i++)
		EXPECT(fcntl(s.fds[i], F_GETFL) & O_NONBLOCK && fcntl(s.fds[i], F_GETFD) & FD_CLOEXEC);
	close_all(&s);
}

TEST(ports_that_are_taken_are_told)
{
	char error[256], name[HTTP_NAME_MAX], want[256], text[64];
	struct http_sockets s, other;

	ASSERT(listen_at("127.0.0.1:0", &s, error, sizeof(error)) == 0);
	EXPECT_EQ(listen_at(http_socket_name(s.fds[0], name), &other, error, sizeof(error)), -EADDRINUSE);
	(void)snprintf(want, sizeof(want), "cannot listen on %s: Address already in use: another program listens there (ss -ltnp "
		       "shows which): end it, or choose another port", name);
	EXPECT_STR(error, want);
	EXPECT_EQ(other.len, 0);
	/* Half of localhost is none of it. */
	(void)snprintf(text, sizeof(text), "localhost%s", strrchr(name, ':'));
	EXPECT_EQ(listen_at(text, &other, error, sizeof(error)), -EADDRINUSE);
	EXPECT_EQ(listen_at(strrchr(name, ':'), &other, error, sizeof(error)), -EADDRINUSE);
	close_all(&s);
	EXPECT_EQ(listen_at(text, &other, error, sizeof(error)), 0);
	close_all(&other);
}

TEST(addresses_of_others_are_told)
{
	char error[256];
	struct http_sockets s;

	EXPECT_EQ(listen_at("192.0.2.1:2112", &s, error, sizeof(error)), -EADDRNOTAVAIL);
	EXPECT_STR(error, "cannot listen on 192.0.2.1:2112: Cannot assign requested address: no interface has this address: write "
			  "one that `ip address` shows, or \":PORT\" for all");
	EXPECT_EQ(listen_at("[fe80::1%nothing]:2112", &s, error, sizeof(error)), -EADDRNOTAVAIL);
	EXPECT(strncmp(error, "cannot listen on [fe80::1%nothing]:2112: ", 40) == 0);
}

TEST(any_takes_both_protocols)
{
	char error[256], name[HTTP_NAME_MAX];
	struct http_sockets s;
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ASSERT(listen_at(":0", &s, error, sizeof(error)) == 0);
	EXPECT_EQ(s.len, 1);
	in.sin_port = htons((uint16_t)atoi(strrchr(http_socket_name(s.fds[0], name), ':') + 1));
	EXPECT_EQ(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	close_all(&s);
}

TEST(unix_sockets)
{
	char error[256], text[160], name[HTTP_NAME_MAX];
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct http_sockets s, other;
	struct stat st;
	int datagrams;
	FILE *f;

	(void)snprintf(text, sizeof(text), "unix:%s", in_folder("new/socket"));
	ASSERT(listen_at(text, &s, error, sizeof(error)) == 0);
	EXPECT_STR(http_socket_name(s.fds[0], name), text);
	EXPECT(stat(text + 5, &st) == 0 && S_ISSOCK(st.st_mode) && (st.st_mode & 07777) == 0660);
	EXPECT_EQ(listen_at(text, &other, error, sizeof(error)), -EADDRINUSE);
	EXPECT(strstr(error, "another program answers there"));
	close_all(&s);
	/* Left behind by one that was killed. */
	EXPECT_EQ(listen_at(text, &s, error, sizeof(error)), 0);
	close_all(&s);
	unlink(text + 5);
	/* Of another kind, and somebody's: syslog's is one. */
	datagrams = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	(void)snprintf(un.sun_path, sizeof(un.sun_path), "%.100s", text + 5);
	ASSERT(bind(datagrams, (struct sockaddr *)&un, sizeof(un)) == 0);
	EXPECT_EQ(listen_at(text, &s, error, sizeof(error)), -EADDRINUSE);
	EXPECT(stat(text + 5, &st) == 0);
	(void)close(datagrams);
	unlink(text + 5);
	f = fopen(text + 5, "we");
	ASSERT(f);
	fclose(f);
	EXPECT_EQ(listen_at(text, &s, error, sizeof(error)), -EEXIST);
	EXPECT(strstr(error, "something that is no socket is there: remove it"));
	EXPECT_EQ(unlink(text + 5), 0);
	EXPECT_EQ(rmdir(in_folder("new")), 0);
}

/* ---- text files */

TEST(text_files_are_replaced)
{
	_cleanup_free_ char *got = NULL;
	struct stat st;
	size_t len;
	const char *path = in_folder("a.prom");
	mode_t mask = umask(077);

	EXPECT_EQ(textfile_write(path, "one\n", 4), 0);
	EXPECT(stat(path, &st) == 0 && (st.st_mode & 0777) == 0644);
	EXPECT_EQ(textfile_write(path, "two, longer\n", 12), 0);
	(void)umask(mask);
	ASSERT(file_read(AT_FDCWD, path, 100, &got, &len) == 0);
	EXPECT_STR(got, "two, longer\n");
	unlink(path);
	/* Nothing was left beside it. */
	EXPECT(rmdir(folder) == 0 && mkdir(folder, 0700) == 0);
	EXPECT_EQ(textfile_write(in_folder("none/a.prom"), "x", 1), -ENOENT);
	EXPECT(mkdir(in_folder("b.prom"), 0700) == 0);
	EXPECT_EQ(textfile_write(in_folder("b.prom"), "x", 1), -EISDIR);
	EXPECT_EQ(rmdir(in_folder("b.prom")), 0);
	EXPECT(rmdir(folder) == 0 && mkdir(folder, 0700) == 0);
	EXPECT(textfile_is_read("/x/gpuxray.prom") && !textfile_is_read("/x/gpuxray.txt") && !textfile_is_read(".prom"));
}

TEST_MAIN()
