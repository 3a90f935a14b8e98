/* SPDX-License-Identifier: MIT */
/* What a request is answered with. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "http/server_private.h"

/* Answers that are this fresh are given out again: a storm of scrapes costs one rendering a second. */
#define FRESH_NS NSEC_PER_SEC
/* For the client to read the answer. */
#define READ_NS (10 * NSEC_PER_SEC)

#define TEXT "text/plain; charset=utf-8"
#define HTML "text/html; charset=utf-8"

static const char index_page[] = "<!DOCTYPE html>\n<html lang=\"en\"><title>gpuxray</title>\n"
				 "<h1>gpuxray " GPUXRAY_VERSION "</h1>\n<p><a href=\"metrics\">Metrics</a></p></html>\n";

static void add_headers(const struct http_server *s, struct MHD_Response *response, const char *type)
{
	(void)s->mhd->add_response_header(response, "Content-Type", type);
	/* Names in labels are what processes call themselves. */
	(void)s->mhd->add_response_header(response, "X-Content-Type-Options", "nosniff");
	(void)s->mhd->add_response_header(response, "Connection", "close");
}

static enum MHD_Result queue(struct http_connection *c, struct MHD_Connection *mc, unsigned int status,
			     struct MHD_Response *response)
{
	c->is_answered = true;
	c->deadline_ns = clock_monotonic_ns() + READ_NS;
	return c->server->mhd->queue_response(mc, status, response);
}

/* text is static. */
static enum MHD_Result answer_text(struct http_connection *c, struct MHD_Connection *mc, unsigned int status,
				   const char *type, const char *text)
{
	const struct mhd *m = c->server->mhd;
	struct MHD_Response *response = m->create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_PERSISTENT);
	enum MHD_Result r;

	if (!response)
		return MHD_NO;
	add_headers(c->server, response, type);
	if (status == 405)
		(void)m->add_response_header(response, "Allow", "GET, HEAD");
	r = queue(c, mc, status, response);
	m->destroy_response(response);
	return r;
}

/* ---- bodies */

/* Those that nobody reads or will. */
static void drop_unused(struct http_server *s)
{
	for (struct http_body **p = &s->bodies; *p;) {
		struct http_body *b = *p;

		if (b->readers || b->is_latest) {
			p = &b->next;
			continue;
		}
		*p = b->next;
		s->mhd->destroy_response(b->response);
		free(b);
	}
}

void http_body_release(struct http_connection *c)
{
	if (!c->body)
		return;
	c->body->readers--;
	c->body = NULL;
	drop_unused(c->server);
}

void http_bodies_done(struct http_server *s)
{
	for (struct http_body *b = s->bodies; b; b = b->next)
		b->is_latest = false;
	drop_unused(s);
}

/* Who reads slower than answers are made would have all of them kept. */
static void bound_bodies(struct http_server *s)
{
	size_t bytes = 0;

	for (const struct http_body *b = s->bodies; b; b = b->next)
		bytes += b->size;
	for (struct http_body *b = s->bodies; b && b->next && bytes > HTTP_BODIES_BYTES_MAX; b = b->next) {
		if (b->is_latest)
			continue;
		bytes -= b->size;
		for (struct http_connection *c = s->first; c; c = c->next) {
			if (c->body == b)
				http_cut(c);
		}
	}
}

/* Takes the text out of sb. 0 or -ENOMEM. */
static int add_body(struct http_server *s, enum metrics_format format, unsigned int status, struct strbuf *sb)
{
	_cleanup_free_ struct http_body *b = calloc(1, sizeof(*b));
	struct http_body **end = &s->bodies;
	const size_t len = sb->len;
	char *text;

	if (!b || strbuf_steal(sb, &text) < 0)
		return -ENOMEM;
	b->response = s->mhd->create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE);
	if (!b->response) {
		free(text);
		return -ENOMEM;
	}
	add_headers(s, b->response, status == 200 ? metrics_content_type(format) : TEXT);
	(void)s->mhd->add_response_header(b->response, "Vary", "Accept");
	b->status = status;
	b->size = len;
	b->made_ns = clock_monotonic_ns();
	b->is_latest = true;
	if (s->latest[format])
		s->latest[format]->is_latest = false;
	drop_unused(s);
	while (*end)
		end = &(*end)->next;
	s->latest[format] = *end = TAKE_PTR(b);
	bound_bodies(s);
	return 0;
}

/* A refusal is kept as long as an answer: to find that a daemon is away may take time too. */
static struct http_body *get_body(struct http_server *s, enum metrics_format format)
{
	_cleanup_strbuf_ struct strbuf sb = STRBUF_INIT;
	struct http_body *b = s->latest[format];
	char why[512] = "out of memory";
	int r;

	if (b && clock_monotonic_ns() - b->made_ns < FRESH_NS)
		return b;
	r = s->render(format, &sb, why, sizeof(why), s->userdata);
	if (r == 0 && sb.error)
		r = sb.error;
	if (r < 0) {
		strbuf_reset(&sb);
		strbuf_addf(&sb, "no metrics now: %s\n", why);
	}
	return add_body(s, format, r < 0 ? 503 : 200, &sb) < 0 ? NULL : s->latest[format];
}

/* ---- requests */

static const char *header(struct http_connection *c, struct MHD_Connection *mc, const char *name)
{
	return c->server->mhd->lookup_connection_value(mc, MHD_HEADER_KIND, name);
}

static bool has_body(struct http_connection *c, struct MHD_Connection *mc)
{
	const char *length = header(c, mc, "Content-Length");

	return header(c, mc, "Transfer-Encoding") || (length && strspn(length, "0") != strlen(length));
}

static enum MHD_Result answer_metrics(struct http_connection *c, struct MHD_Connection *mc)
{
	struct http_body *b = get_body(c->server, metrics_negotiate(header(c, mc, "Accept")));

	if (!b)
		return answer_text(c, mc, 503, TEXT, "no metrics now: out of memory\n");
	c->body = b;
	b->readers++;
	return queue(c, mc, b->status, b->response);
}

enum MHD_Result http_answer(void *cls, struct MHD_Connection *mc, const char *url, const char *method, const char *version,
			    const char *upload, size_t *upload_len, void **request)
{
	const struct http_listener *l = cls;
	const union MHD_ConnectionInfo *info = l->server->mhd->get_connection_info(mc, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct http_connection *c = info ? info->socket_context : NULL;

	if (!c || c->is_answered || c->is_cut)
		return MHD_NO;
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return answer_text(c, mc, 405, TEXT, "only GET and HEAD\n");
	if (c->server->is_local && !http_host_is_local(header(c, mc, "Host")))
		return answer_text(c, mc, 403, TEXT, "this is for programs of this host: ask for \"localhost\" or an address; a proxy "
						     "must send that as Host, or use a listener at unix:/PATH\n");
	if (has_body(c, mc))
		return answer_text(c, mc, 413, TEXT, "a request has no body here\n");
	if (strcmp(url, "/metrics") == 0)
		return answer_metrics(c, mc);
	if (strcmp(url, "/healthz") == 0)
		return answer_text(c, mc, 200, TEXT, "ok\n");
	if (strcmp(url, "/") == 0)
		return answer_text(c, mc, 200, HTML, index_page);
	return answer_text(c, mc, 404, TEXT, "nothing is here: metrics are at /metrics\n");
}
