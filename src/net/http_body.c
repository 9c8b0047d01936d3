/*
 * What lws tells of a request, and its body: how long it is, or in chunks, which lws 4.1 hands over
 * as they are on the wire. A body that is a stream of lines goes on as it comes (http_stream.c),
 * any other is gathered and routed when it is whole.
 */
#include "net_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A refused body up to this size is read and dropped; beyond it the connection ends. */
#define DISCARD_MAX (64ULL * 1024 * 1024)
/*
 * lws 4.1 takes a body without a length for one of 100 MiB and tells no more of it behind that, so
 * a chunked one has to end before; the room up to there is for reading what we drop.
 */
#define CHUNKED_MAX (96ULL * 1024 * 1024)

static bool method_has_body(int method)
{
	/* Those that lws expects a body of without a content-length. */
	return method == LWSHUMETH_POST || method == LWSHUMETH_PUT || method == LWSHUMETH_PATCH;
}

bool http_body_is_coming(const struct conn *conn)
{
	return conn->body != BODY_NONE && !conn->body_is_whole && !conn->expects_continue;
}

bool http_body_must_close(const struct conn *conn)
{
	if (conn->body == BODY_NONE) {
		/* lws waits for a body even where none is announced: it ends with the answer. */
		return method_has_body(conn->method);
	}
	if (conn->body == BODY_CHUNKED) {
		return true; /* lws does not know where it ends */
	}
	return !conn->body_is_whole &&
	       (conn->expects_continue || conn->body_length - conn->body_taken > DISCARD_MAX);
}

/* --- headers --- */

static int read_length(struct conn *conn)
{
	char length[32] = "";
	if (!lws_hdr_total_length(conn->wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH)) {
		return 0;
	}
	int n = lws_hdr_copy(conn->wsi, length, sizeof(length), WSI_TOKEN_HTTP_CONTENT_LENGTH);
	if (n <= 0 || n > 18 || strspn(length, "0123456789") != (size_t)n) {
		return -1;
	}
	conn->body_length = strtoull(length, NULL, 10);
	conn->body = conn->body_length ? BODY_LENGTH : BODY_NONE;
	return 0;
}

/** NULL, or what is wrong with the headers that tell how the body comes. */
static const char *read_framing(struct conn *conn)
{
	char coding[16] = "";
	bool has_coding = lws_hdr_total_length(conn->wsi, WSI_TOKEN_HTTP_TRANSFER_ENCODING) > 0;
	conn->body = BODY_NONE;
	if (read_length(conn) < 0) {
		return "the content-length is a number of at most 18 digits";
	}
	if (!has_coding) {
		return NULL;
	}
	if (lws_hdr_total_length(conn->wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH)) {
		return "a body has a content-length or comes in chunks, not both";
	}
	if (lws_hdr_copy(conn->wsi, coding, sizeof(coding), WSI_TOKEN_HTTP_TRANSFER_ENCODING) < 0 ||
		strcasecmp(coding, "chunked") != 0) {
		return "the only transfer-encoding that is taken is chunked";
	}
	if (!method_has_body(conn->method)) {
		return "a request with this method takes no body";
	}
	conn->body = BODY_CHUNKED;
	return NULL;
}

static bool read_expect(struct conn *conn)
{
	char expect[24] = "";
	return lws_hdr_copy(conn->wsi, expect, sizeof(expect), WSI_TOKEN_HTTP_EXPECT) > 0 &&
	       strcasecmp(expect, "100-continue") == 0;
}

static void refuse_size(struct conn *conn)
{
	struct refusal refusal = {0};
	refuse(&refusal, "too_large",
		"the body of a request may have at most %zu bytes; events may be more, as lines "
		"with "
		"the content-type application/x-ndjson",
		conn->server->limits->body_size);
	http_refuse(conn, refusal.code, refusal.message);
}

/** What can be refused before the body has come. */
static void refuse_early(struct conn *conn)
{
	const char *code = auth_check(conn->server, conn->wsi);
	const char *framing = read_framing(conn);
	conn->expects_continue = conn->body != BODY_NONE && read_expect(conn);
	if (framing) {
		conn->must_close = true; /* nobody can tell where the next request begins */
		http_refuse(conn, "bad_request", framing);
	} else if (code) {
		http_refuse(conn, code,
			strcmp(code, "forbidden_host") == 0
				? "this server answers to localhost and 127.0.0.1 only"
				: "a page of another site may not use this server");
	} else if (!http_is_stream(conn) && conn->body_length > conn->server->limits->body_size) {
		refuse_size(conn);
	}
}

/** The client waits for this before it sends its body. */
static int send_continue(struct conn *conn)
{
	static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
	unsigned char bytes[LWS_PRE + sizeof(text)];
	memcpy(bytes + LWS_PRE, text, sizeof(text) - 1);
	conn->expects_continue = false;
	return lws_write(conn->wsi, bytes + LWS_PRE, sizeof(text) - 1, LWS_WRITE_HTTP) < 0 ? -1 : 0;
}

static void reset(struct conn *conn)
{
	conn->must_close = conn->is_answered = conn->body_is_whole = false;
	conn->body_length = conn->body_taken = 0;
	conn->chunked = (struct chunked){0};
	conn->may_create = false;
	free(conn->title);
	conn->title = NULL;
	buffer_clear(&conn->rx);
}

int http_handle_request(struct conn *conn)
{
	char *uri;
	int len;
	reset(conn);
	conn->method = lws_http_get_uri_and_method(conn->wsi, &uri, &len);
	snprintf(conn->path, sizeof(conn->path), "%.*s", len > 0 ? len : 0, len > 0 ? uri : "");
	refuse_early(conn);
	if (conn->response.len && conn->must_close && conn->body == BODY_NONE) {
		return http_handle_writable(conn); /* lws goes on reading: now, or never */
	}
	if (!conn->response.len && (conn->body == BODY_NONE || http_is_stream(conn))) {
		http_route(conn);
	}
	return conn->expects_continue && !conn->response.len ? send_continue(conn) : 0;
}

/* --- the body --- */

static void take_bytes(struct conn *conn, const char *bytes, size_t len)
{
	if (conn->response.len || conn->is_answered) {
		return; /* refused: the rest is dropped */
	}
	if (conn->stream) {
		http_stream_take(conn, bytes, len);
	} else if (conn->rx.len + len > conn->server->limits->body_size) {
		refuse_size(conn);
	} else {
		buffer_append(&conn->rx, bytes, len);
	}
}

static void end_body(struct conn *conn)
{
	conn->body_is_whole = true;
	if (conn->response.len || conn->is_answered) {
		return;
	}
	if (conn->stream) {
		http_stream_end(conn);
	} else {
		http_route(conn);
	}
}

static void take_chunks(struct conn *conn, const char *at, size_t len)
{
	const char *bytes;
	size_t n;
	while ((n = chunked_take(&conn->chunked, &at, &len, &bytes))) {
		take_bytes(conn, bytes, n);
	}
	if (conn->chunked.state == CHUNKED_DONE) {
		end_body(conn);
		return;
	}
	struct refusal refusal = {0};
	if (conn->chunked.state == CHUNKED_BAD) {
		refuse(&refusal, "bad_request",
			"the body is not in the chunks that were announced");
	} else if (conn->body_taken > CHUNKED_MAX) {
		refuse(&refusal, "too_large",
			"a body in chunks may have at most 96 MiB; send the rest in another "
			"request, or a body with a content-length");
	}
	if (refusal.code && conn->stream) {
		http_stream_fail(conn, &refusal);
	} else if (refusal.code && !conn->response.len && !conn->is_answered) {
		http_refuse(conn, refusal.code, refusal.message);
	}
}

/** After its answer a peer has a while to see it; then the connection ends. */
static bool has_lingered(const struct conn *conn)
{
	return conn->is_answered && conn->must_close &&
	       (conn->body_is_whole || clock_now_ms(conn->server->clock) > conn->linger_end);
}

int http_handle_body(struct conn *conn, const char *bytes, size_t len)
{
	conn->body_taken += len;
	if (conn->body == BODY_CHUNKED && !conn->body_is_whole) {
		take_chunks(conn, bytes, len);
	} else if (conn->body == BODY_LENGTH) {
		take_bytes(conn, bytes, len);
	}
	return has_lingered(conn) ? -1 : 0;
}

int http_handle_body_end(struct conn *conn)
{
	if (conn->body == BODY_CHUNKED) {
		return -1; /* as far as lws goes, see CHUNKED_MAX */
	}
	if (conn->body == BODY_LENGTH) {
		end_body(conn);
	}
	return has_lingered(conn) ? -1 : 0;
}
