/*
 * Blobs over HTTP (proto/protocol.md#images-and-files). The body of an upload is written to disk
 * in pieces as it arrives: while one piece is written the next one gathers, and once that is full,
 * nothing is read until the write is done.
 */
#include "server/http_internal.h"
#include "routes.h"
#include "server/ws_internal.h"

#include "holdfast/blobs.h"
#include "holdfast/diag.h"
#include "holdfast/loop.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Bytes written at a time. */
#define PIECE_SIZE ((size_t)256 * 1024)

struct http_upload {
	struct answer answer;
	struct blob_upload *blob;
	bool is_writing;
	bool is_whole; /* the whole body has arrived */
	bool is_last; /* the write in progress is that of the last piece */
	bool has_bytes;
	int64_t held_ms; /* when reading was paused, on the loop's clock; 0: it is not paused */
};

/* --- upload --- */

static struct http_upload *upload_of(struct answer *answer)
{
	return list_entry(answer, struct http_upload, answer);
}

/** Discards what is unfinished of it. */
static void upload_drop(struct answer *answer)
{
	struct http_upload *upload = upload_of(answer);
	blob_upload_end(upload->blob);
	conn_keep_nothing(answer->conn);
	free(upload);
}

static void refuse_limit_of(struct conn *conn, enum limit limit)
{
	const struct limits *limits = conn->server->limits;
	struct refusal refusal = {0};
	if (limit == LIMIT_blob_size) {
		refuse_limit(&refusal, limit, "an image or file may have at most %zu bytes",
			limits->blob_size);
	} else if (limit == LIMIT_session_blobs) {
		refuse_limit(&refusal, limit,
			"the images and files of this session may have %zu bytes in all",
			limits->session_blobs);
	} else if (limit == LIMIT_blobs) {
		refuse_limit(&refusal, limit,
			"the images and files of all sessions may have %zu bytes", limits->blobs);
	} else {
		refuse_limit(&refusal, limit,
			"the server's data has reached its size limit; try again when there is room");
	}
	http_refuse_event(conn, &refusal);
}

/** Refuses the upload and discards what has arrived of it. */
static void fail(struct conn *conn, enum limit limit)
{
	http_drop_answer(conn);
	refuse_limit_of(conn, limit);
}

static void answer(struct conn *conn, const struct blob *blob)
{
	char json[200];
	int len = snprintf(json, sizeof(json),
		"{\"blob\":\"%s\",\"size\":%" PRIu64 ",\"mime_type\":\"%s\"}", blob->name,
		blob->size, blob->mime_type);
	http_respond(conn, 201, json, (size_t)len);
}

/**
 * Writes the next piece, if it is there. While the disk is behind, nothing more of the body is read.
 * Returns false if the upload has been refused, and is gone.
 */
static bool write_on(struct http_upload *upload)
{
	struct conn *conn = upload->answer.conn;
	struct buffer bytes = conn->rx;
	upload->answer.is_held = upload->is_writing && bytes.len >= PIECE_SIZE;
	if (upload->is_writing || (bytes.len < PIECE_SIZE && !upload->is_whole)) {
		return true;
	}
	size_t len = bytes.len;
	conn->rx = (struct buffer){0};
	enum limit limit = blob_upload_write(upload->blob, &bytes, upload->is_whole);
	if (limit != LIMIT_NONE) {
		buffer_finish(&bytes);
		fail(conn, limit);
		return false;
	}
	upload->is_writing = true;
	upload->is_last = upload->is_whole;
	upload->answer.in_flight = len;
	return true;
}

/**
 * Resumes reading. The time during which nothing was read does not count as slowness of the peer.
 */
static void go_on(struct http_upload *upload)
{
	struct conn *conn = upload->answer.conn;
	int64_t now = loop_now_ms(conn->server->loop);
	if (upload->held_ms) {
		conn->message_ms += now - upload->held_ms;
		conn->received_ms = now;
		upload->held_ms = 0;
	}
	write_on(upload);
	conn_update_flow(conn);
}

static void handle_written(void *arg, int status)
{
	struct http_upload *upload = arg;
	struct conn *conn = upload->answer.conn;
	upload->is_writing = false;
	upload->answer.in_flight = 0;
	if (status == 0 && !upload->is_last) {
		go_on(upload);
		return;
	}
	if (status == 0) {
		answer(conn, blob_upload_result(upload->blob));
	} else if (status == -ENOENT) {
		http_refuse_lost(conn);
	} else {
		diag(DIAG_WARN, "session %s: a blob cannot be written: %s", conn->session_id,
			strerror(-status));
		http_refuse_storage(conn);
	}
	http_drop_answer(conn);
	conn_update_flow(conn);
}

static void upload_take_body(struct answer *answer, const char *bytes, size_t len)
{
	struct http_upload *upload = upload_of(answer);
	struct conn *conn = answer->conn;
	if (!conn_keep(conn, bytes, len)) {
		http_drop_answer(conn);
		http_refuse_limit(conn, LIMIT_receive_size,
			"too many large requests are being received; send it again in a moment");
		return;
	}
	upload->has_bytes = true;
	if (write_on(upload) && answer->is_held && !upload->held_ms) {
		upload->held_ms = loop_now_ms(conn->server->loop);
	}
}

/** The token may have ended while the body arrived. */
static void upload_end_body(struct answer *answer)
{
	struct http_upload *upload = upload_of(answer);
	struct conn *conn = answer->conn;
	upload->is_whole = true;
	if (!http_still_may(conn)) {
		http_drop_answer(conn);
	} else if (!upload->has_bytes) {
		http_drop_answer(conn);
		http_refuse(
			conn, ERROR_bad_request, "the body has no bytes; send the image or file");
	} else {
		write_on(upload);
	}
}

static void upload_refuse(struct answer *answer, enum answer_end end, const struct refusal *refusal)
{
	struct conn *conn = answer->conn;
	if (end == ANSWER_BROKEN || end == ANSWER_DRAINED) {
		http_drop_answer(conn);
		http_refuse_event(conn, refusal);
	}
}

static const struct answer_ops upload_ops = {
	.take_body = upload_take_body,
	.end_body = upload_end_body,
	.refuse = upload_refuse,
	.drop = upload_drop,
};

/** Begins an upload, before its body has arrived. Refuses a request that has no body. */
static void post_blob(struct conn *conn, struct session *session)
{
	const struct http_framing *framing = &conn->http->framing;
	size_t most = conn->server->limits->blob_size;
	if (framing->body == HTTP_NO_BODY) {
		http_refuse(
			conn, ERROR_bad_request, "the body has no bytes; send the image or file");
	} else if (framing->body == HTTP_BODY_LENGTH && framing->length > most) {
		refuse_limit_of(conn, LIMIT_blob_size);
	} else {
		struct http_upload *upload = xcalloc(1, sizeof(*upload));
		http_begin_answer(conn, &upload->answer, &upload_ops);
		upload->blob = blob_upload_begin(
			session_channel(session)->log, HIDE_NOTHING, handle_written, upload);
	}
}

/* --- download --- */

/** A single range of bytes, as media players request them (RFC 9110, section 14.2). */
struct range {
	enum { RANGE_NONE, RANGE_GOOD, RANGE_BAD } state;
	uint64_t from;
	uint64_t size;
};

/** A number of any length (section 14.1.1): one that is too large is beyond every file. */
static bool read_number(const char **at, uint64_t *ret)
{
	size_t digits = strspn(*at, "0123456789");
	*ret = digits ? strtoull(*at, NULL, 10) : 0; /* ULLONG_MAX if it is too large */
	*at += digits;
	return digits;
}

/**
 * Parses the Range header of a GET. Anything but one well-formed range of bytes means the whole
 * file, and so does an If-Range, because these files have no validator (section 13.1.5).
 */
static struct range find_range(const struct conn *conn, uint64_t size)
{
	char text[256];
	struct range all = {.state = RANGE_NONE, .size = size};
	uint64_t first;
	uint64_t last;
	if (conn->http->method != HTTP_GET ||
		!http_head_copy(conn->http->head, "range", text, sizeof(text)) ||
		http_head_field(conn->http->head, "if-range") ||
		strncasecmp(text, "bytes=", 6) != 0) {
		return all;
	}
	const char *at = text + 6;
	bool has_first = read_number(&at, &first);
	if (*at++ != '-') {
		return all;
	}
	bool has_last = read_number(&at, &last);
	if (*at || (!has_first && !has_last)) {
		return all;
	}
	if (!has_first) { /* "-N": the last N bytes */
		first = last < size ? size - last : 0;
		last = last ? size - 1 : 0;
		has_first = first < size;
	}
	last = has_last && last < size - 1 ? last : size - 1;
	if (first >= size || first > last) {
		return (struct range){.state = RANGE_BAD, .size = size};
	}
	return (struct range){.state = RANGE_GOOD, .from = first, .size = last - first + 1};
}

/** A blob that is being opened; then its file is the answer (files.c). */
struct download {
	struct answer answer;
	struct blob_opening *opening;
};

static void handle_opened(void *arg, int fd, const struct blob *blob)
{
	struct download *download = arg;
	struct conn *conn = download->answer.conn;
	struct buffer headers = {0};
	http_detach_answer(&download->answer);
	free(download);
	if (fd == -EBADMSG) {
		http_refuse(conn, ERROR_blob_damaged, BLOB_DAMAGED);
		return;
	}
	if (fd < 0) {
		bool is_there = fd != -ENOENT;
		http_refuse(conn, is_there ? ERROR_storage_failed : ERROR_not_found,
			is_there ? storage_text(conn_storage(conn), STORAGE_BLOB)
				 : "the session has no image or file of this name");
		return;
	}
	struct range range = find_range(conn, blob->size);
	if (range.state == RANGE_BAD) {
		loop_close_file(conn->server->loop, fd);
		buffer_printf(&headers, "content-range: bytes */%" PRIu64 "\r\n", blob->size);
		http_refuse_with(conn, 416, buffer_cstr(&headers), ERROR_bad_request,
			"the range is not in the file");
		buffer_finish(&headers);
		return;
	}
	buffer_printf(&headers,
		"cache-control: no-store\r\n" CONTENT_OF_OTHERS
		"content-type: %s\r\ncontent-disposition: %s\r\naccept-ranges: bytes\r\n",
		blob->mime_type, blob_type_is_safe(blob->mime_type) ? "inline" : "attachment");
	if (range.state == RANGE_GOOD) {
		buffer_printf(&headers,
			"content-range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64 "\r\n", range.from,
			range.from + range.size - 1, blob->size);
	}
	http_send_opened(conn, range.state == RANGE_GOOD ? 206 : 200, buffer_cstr(&headers), fd,
		range.from, range.size);
	buffer_finish(&headers);
}

static void download_drop(struct answer *answer)
{
	struct download *download = list_entry(answer, struct download, answer);
	blob_open_cancel(download->opening);
	free(download);
}

static const struct answer_ops download_ops = {.drop = download_drop};

static void serve_uploads(struct conn *conn, struct session *session)
{
	if (http_may(conn, RIGHT_UPLOAD) && http_has_session(conn, session)) {
		post_blob(conn, session);
	}
}

static void get_blob(struct conn *conn, struct session *session)
{
	const char *name = conn->http->parts[1].at;
	if (!blob_name_is_valid(name)) {
		http_refuse(conn, ERROR_not_found, NOTHING_HERE);
		return;
	}
	if (!http_has_session(conn, session)) {
		return;
	}
	struct download *download = xcalloc(1, sizeof(*download));
	http_begin_answer(conn, &download->answer, &download_ops);
	download->opening = blob_open(
		session_channel(session)->log, name, conn_hides(conn), handle_opened, download);
}

const struct route blob_routes[] = {
	{"/api/sessions/{id}/blobs", "POST", .body = BODY_UPLOAD,
		.flags = ROUTE_SESSION | ROUTE_CHECKED, .serve_session = serve_uploads},
	{"/api/sessions/{id}/blobs/{blob}", "GET", .flags = ROUTE_SESSION | ROUTE_CHECKED,
		.serve_session = get_blob},
	{0},
};
