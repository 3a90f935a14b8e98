/* SPDX-License-Identifier: MIT */
#include "test.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "cmd/status_server.h"

/* An answer that came in time counts though it is looked at late: the shell had stopped who asked. */
TEST(an_answer_that_is_looked_at_late)
{
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	int pair[2];

	ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	EXPECT_EQ(send(pair[1], "5\nhello", 7, 0), 7);
	EXPECT_EQ(status_ask_on(pair[0], "view", 0, &text, &len), 0);
	EXPECT_EQ(len, 5);
	EXPECT_STR(text, "hello");
	EXPECT_EQ(status_ask_on(pair[0], "view", 20, &text, &len), -ETIMEDOUT);
	(void)close(pair[1]);
	EXPECT_EQ(status_ask_on(pair[0], "view", 0, &text, &len), -ENOTCONN);
	(void)close(pair[0]);
}

struct served {
	struct status_server *server;
	sd_event *event;
	int client;
	uint64_t id;
	size_t freed;
};

static void count_free(void *data)
{
	((struct served *)data)->freed++;
}

/* "later": when the test says so; else at once. */
static int answer(struct status_client *c, const char *request, struct strbuf *sb, void *userdata)
{
	struct served *s = userdata;

	s->id = status_client_id(c);
	if (!status_client_data(c))
		status_client_set_data(c, s, count_free);
	if (strcmp(request, "later") == 0)
		return STATUS_LATER;
	strbuf_adds(sb, request);
	return strcmp(request, "once") == 0 ? STATUS_DONE : STATUS_MORE;
}

/* A server of one client. */
static void serve(struct served *s)
{
	int pair[2];

	*s = (struct served){};
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 || sd_event_new(&s->event) < 0 ||
	    status_server_new(s->event, NULL, answer, s, &s->server) < 0 || status_server_add(s->server, pair[1]) < 0)
		abort();
	s->client = pair[0];
}

static void say(struct served *s, const char *text)
{
	EXPECT_EQ(send(s->client, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void run(struct served *s)
{
	while (sd_event_run(s->event, 0) > 0)
		;
}

static void expect(struct served *s, const char *text)
{
	char buf[256] = "";

	run(s);
	(void)recv(s->client, buf, sizeof(buf) - 1, MSG_DONTWAIT);
	EXPECT_STR(buf, text);
}

static void done(struct served *s)
{
	if (s->client >= 0)
		(void)close(s->client);
	status_server_free(s->server);
	sd_event_unref(s->event);
}

TEST(a_session)
{
	struct served s;

	serve(&s);
	say(&s, "one\n");
	expect(&s, "3\none");
	say(&s, "la");
	expect(&s, "");
	say(&s, "ter\n");
	expect(&s, "");
	ASSERT(status_server_client(s.server, s.id));
	/* Nobody asks on before he has the answer. */
	say(&s, "two\n");
	expect(&s, "");
	status_answer(status_server_client(s.server, s.id), strdup("late"));
	expect(&s, "4\nlate");
	say(&s, "three\n");
	expect(&s, "5\nthree");
	EXPECT_EQ(s.freed, 0);
	done(&s);
	EXPECT_EQ(s.freed, 1);
}

/* What it kept is released once, and its answer finds nobody. */
TEST(a_client_that_goes_while_it_waits)
{
	struct served s;

	serve(&s);
	say(&s, "later\n");
	expect(&s, "");
	ASSERT(status_server_client(s.server, s.id));
	(void)close(s.client);
	s.client = -1;
	run(&s);
	EXPECT(!status_server_client(s.server, s.id));
	EXPECT_EQ(s.freed, 1);
	EXPECT_EQ(sd_event_get_state(s.event), SD_EVENT_FINISHED);
	done(&s);
	EXPECT_EQ(s.freed, 1);
}

/* ... and where there is no answer for it. */
TEST(no_memory_for_an_answer)
{
	struct served s;
	char c;

	serve(&s);
	say(&s, "later\n");
	expect(&s, "");
	status_answer(status_server_client(s.server, s.id), NULL);
	EXPECT_EQ(s.freed, 1);
	EXPECT_EQ(recv(s.client, &c, 1, MSG_DONTWAIT), 0);
	done(&s);
}

TEST_MAIN()
