/*
 * PUT, POST and DELETE of raw streams. The answer is sent when all that it depends on is durable.
 */
#include "raw_internal.h"

#include "holdfast/rfc3339.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Room for a header that is a number or a time. */
#define NUMBER_SIZE 64

/* --- headers --- */

static bool has(const struct conn *conn, const char *name)
{
	return http_head_field(http_head_of(conn), name);
}

static bool says_closed(const struct conn *conn)
{
	char text[8];
	return http_head_copy(http_head_of(conn), "stream-closed", text, sizeof(text)) &&
	       strcasecmp(text, "true") == 0;
}

/**
 * Copies a header's text into *ret, which the caller frees in any case; NULL if the header is
 * absent. Returns false if it has more than `most` bytes or control characters, or is repeated.
 */
static bool take_text(const struct conn *conn, const char *name, size_t most, char **ret)
{
	const struct http_head *head = http_head_of(conn);
	const struct http_field *field = http_head_field(head, name);
	*ret = NULL;
	if (!field) {
		return true;
	}
	if (field->value.len > most || http_count_fields(head, name) > 1) {
		return false;
	}
	*ret = xstrndup(head->text + field->value.at, field->value.len);
	for (const char *at = *ret; *at; at++) {
		if ((unsigned char)*at < 0x20 || *at == 0x7f) {
			return false;
		}
	}
	return true;
}

/** Reads a header's number. Returns false if it is absent, repeated or not a number. */
static bool take_number(const struct conn *conn, const char *name, bool plain, uint64_t *ret)
{
	char text[NUMBER_SIZE];
	return http_head_copy(http_head_of(conn), name, text, sizeof(text)) &&
	       http_count_fields(http_head_of(conn), name) == 1 &&
	       raw_number_read(text, plain, ret);
}

static void refuse_request(struct conn *conn, const char *message)
{
	http_refuse(conn, ERROR_bad_request, message);
}

/* --- the answer --- */

static void append_producer(struct buffer *headers, const struct http_raw *raw)
{
	if (raw->has_producer) {
		buffer_printf(headers,
			"producer-epoch: %" PRIu64 "\r\nproducer-seq: %" PRIu64 "\r\n",
			raw->append.producer_epoch, raw->outcome.seq);
	}
}

static void append_location(struct conn *conn, struct buffer *headers)
{
	const struct http_head *head = http_head_of(conn);
	buffer_printf(headers, "location: %s://%.*s%.*s\r\n",
		conn_is_https(conn) ? "https" : "http", (int)head->host.len,
		head->text + head->host.at, (int)head->path.len, head->text + head->path.at);
}

static void answer_put(struct conn *conn, const struct http_raw *raw, struct buffer *headers)
{
	struct raw_view view;
	bool is_new = raw->outcome.result == RAW_DONE;
	bool is_there = raw_look(raw_store_of(conn), raw->name, false, &view) == RAW_DONE;
	if (is_new) {
		append_location(conn, headers);
	}
	buffer_printf(
		headers, "content-type: %s\r\n", is_there ? view.type : "application/octet-stream");
	http_respond_file(conn, is_new ? 201 : 200, buffer_cstr(headers), NULL, 0, 0);
}

static void answer(struct conn *conn)
{
	struct http_raw *raw = raw_of(conn);
	struct buffer headers = {0};
	raw->is_over = true;
	if (raw_refuse_result(conn, raw->outcome.result, &raw->outcome)) {
		return;
	}
	buffer_append_str(&headers, RAW_HEADERS "cache-control: no-store\r\n");
	if (http_method_of(conn) != HTTP_DELETE) {
		raw_append_offset(&headers, raw->outcome.tail);
	}
	if (raw->outcome.is_closed) {
		buffer_append_str(&headers, "stream-closed: true\r\n");
	}
	append_producer(&headers, raw);
	if (http_method_of(conn) == HTTP_PUT) {
		answer_put(conn, raw, &headers);
	} else {
		bool is_first =
			raw->has_producer && raw->outcome.result == RAW_DONE && raw->append.type;
		http_respond_file(conn, is_first ? 200 : 204, buffer_cstr(&headers), NULL, 0, 0);
	}
	buffer_finish(&headers);
}

static void handle_durable(struct raw_wait *wait, int status)
{
	struct http_raw *raw = list_entry(wait, struct http_raw, wait);
	struct conn *conn = raw->answer.conn;
	if (status < 0) {
		raw->is_over = true;
		http_refuse_storage(conn);
	} else {
		answer(conn);
	}
}

static void answer_later(struct conn *conn)
{
	struct http_raw *raw = raw_of(conn);
	raw->wait.lsn = raw->outcome.lsn;
	raw->wait.done = handle_durable;
	if (raw->outcome.result == RAW_FAILED || raw->outcome.result == RAW_DAMAGED ||
		raw->outcome.result == RAW_LIMIT || !raw_wait(raw_store_of(conn), &raw->wait)) {
		raw->wait.lsn = 0;
		answer(conn);
	}
}

/* --- PUT --- */

/** Reads when the stream expires. Returns NULL, or a message. */
static const char *read_expiry(struct conn *conn, struct http_raw *raw)
{
	uint64_t ttl = 0;
	raw->create.has_ttl = has(conn, "stream-ttl");
	if (raw->create.has_ttl && has(conn, "stream-expires-at")) {
		return "give Stream-TTL or Stream-Expires-At, not both";
	}
	if (raw->create.has_ttl &&
		(!take_number(conn, "stream-ttl", true, &ttl) || ttl > INT64_MAX / 2000)) {
		return "Stream-TTL must be a whole number of seconds";
	}
	raw->create.ttl_s = (int64_t)ttl;
	if (!take_text(conn, "stream-expires-at", NUMBER_SIZE, &raw->expires) ||
		(raw->expires && !rfc3339_read(raw->expires, &raw->create.expires_ms))) {
		return "Stream-Expires-At must be a time such as 2026-12-31T23:59:59Z";
	}
	raw->create.expires = raw->expires;
	return NULL;
}

/** Reads which stream is forked, and where. Returns NULL, or a message. */
static const char *read_fork(struct conn *conn, struct http_raw *raw)
{
	char *text = NULL;
	struct raw_offset offset;
	if (!take_text(conn, "stream-forked-from", HTTP_TARGET_MAX, &text)) {
		free(text);
		return "Stream-Forked-From must be the path of a stream";
	}
	if (!text) {
		return has(conn, "stream-fork-sub-offset") || has(conn, "stream-fork-offset")
			       ? "Stream-Fork-Offset needs Stream-Forked-From"
			       : NULL;
	}
	raw->source = xmalloc(strlen(text) + 1);
	int len = http_decode(text, strlen(text), false, raw->source, strlen(text) + 1);
	free(text);
	raw->create.source = len < 0 ? NULL : raw_name(raw->source, RAW_NAME_MAX);
	if (!raw->create.source) {
		return "Stream-Forked-From must be the path of a stream, /v1/stream/NAME";
	}
	raw->create.has_offset = has(conn, "stream-fork-offset");
	if (raw->create.has_offset) {
		if (!take_text(conn, "stream-fork-offset", NUMBER_SIZE, &text) || !text ||
			!raw_offset_read(text, &offset) || offset.kind != RAW_AT) {
			free(text);
			return "Stream-Fork-Offset must be an offset that the source has given";
		}
		free(text);
		raw->create.offset = offset.at;
	}
	if (has(conn, "stream-fork-sub-offset") &&
		!take_number(conn, "stream-fork-sub-offset", true, &raw->create.sub_offset)) {
		return "Stream-Fork-Sub-Offset must be a whole number";
	}
	return NULL;
}

/**
 * Reads the content type. If it is absent or invalid, the stream is of bytes, or a fork has the
 * type of its source. Returns false if it is too long, repeated or has control characters.
 */
static bool read_type(struct conn *conn, struct http_raw *raw)
{
	if (!take_text(conn, "content-type", RAW_TYPE_MAX, &raw->type)) {
		return false;
	}
	if (!raw->type || !raw_type_is_valid(raw->type)) {
		free(raw->type);
		raw->type = raw->create.source ? NULL : xstrdup("application/octet-stream");
	}
	raw->create.type = raw->type;
	raw->create.is_json = raw->type && raw_type_is_json(raw->type);
	return true;
}

/** Converts a JSON body to the form in which it is stored. Returns false if it has been refused. */
static bool store_body(struct conn *conn, struct http_raw *raw, bool is_json, bool may_be_empty)
{
	if (!http_body(conn)->len || !is_json) {
		return true;
	}
	int r = raw_json_store(http_body(conn)->data, http_body(conn)->len, &raw->bytes);
	if (r == -ENODATA && may_be_empty) {
		return true;
	}
	if (r < 0) {
		refuse_request(
			conn, r == -ENODATA ? "the array is empty" : "the body is not valid JSON");
		raw->is_over = true;
	}
	return r == 0;
}

static void create(struct conn *conn)
{
	struct http_raw *raw = raw_of(conn);
	struct raw_view source;
	bool is_json = raw->create.is_json;
	if (raw->create.source &&
		raw_look(raw_store_of(conn), raw->create.source, false, &source) == RAW_DONE) {
		is_json = source.is_json;
	}
	if (!store_body(conn, raw, is_json, true)) {
		return;
	}
	raw->create.bytes = is_json ? raw->bytes.data : http_body(conn)->data;
	raw->create.len = is_json ? raw->bytes.len : http_body(conn)->len;
	raw_create(raw_store_of(conn), &raw->create, &raw->outcome);
	answer_later(conn);
}

static bool has_source(const struct conn *conn)
{
	struct raw_view source;
	return raw_look(raw_store_of(conn), raw_of(conn)->create.source, false, &source) ==
	       RAW_DONE;
}

static void handle_place(void *arg, struct raw_page *page, int status)
{
	struct conn *conn = arg;
	struct http_raw *raw = raw_of(conn);
	raw->read = NULL;
	if (page) {
		raw->create.fork_at = page->to;
		raw_page_unref(page);
	}
	if (status == -EINVAL) {
		raw->outcome.result = RAW_BAD_OFFSET;
		answer(conn);
	} else if (status < 0 && (status != -ENOENT || has_source(conn))) {
		/* also if only the source's file is missing */
		raw->outcome.result = status == -EBADMSG ? RAW_DAMAGED : RAW_FAILED;
		answer(conn);
	} else {
		create(conn); /* refuses if the source is gone */
	}
}

/**
 * Finds where the fork begins, and creates it. In a stream of JSON that is the end of a message,
 * which has to be read for; in one of bytes it is any position.
 */
static void place_fork(struct conn *conn)
{
	struct http_raw *raw = raw_of(conn);
	struct raw_view source;
	if (!raw->create.source ||
		raw_look(raw_store_of(conn), raw->create.source, false, &source) != RAW_DONE) {
		create(conn);
		return;
	}
	uint64_t from = raw->create.has_offset ? raw->create.offset : source.tail;
	if (source.is_json && (raw->create.has_offset || raw->create.sub_offset) &&
		from <= source.tail) {
		raw->read = raw_find(raw_store_of(conn), raw->create.source, from,
			raw->create.sub_offset, handle_place, conn);
		return;
	}
	raw->create.fork_at = from + raw->create.sub_offset;
	create(conn);
}

void raw_put(struct conn *conn, const char *name)
{
	struct http_raw *raw = raw_begin(conn, name);
	raw->create.name = raw->name;
	raw->create.closes = says_closed(conn);
	const char *bad = read_expiry(conn, raw);
	bad = bad ? bad : read_fork(conn, raw);
	if (!bad && !read_type(conn, raw)) {
		bad = "the content type is too long";
	}
	if (bad) {
		raw->is_over = true;
		refuse_request(conn, bad);
		return;
	}
	place_fork(conn);
}

/* --- POST --- */

/** Reads the producer of an append. Returns NULL, or a message. */
static const char *read_producer(struct conn *conn, struct http_raw *raw)
{
	int count =
		has(conn, "producer-id") + has(conn, "producer-epoch") + has(conn, "producer-seq");
	raw->has_producer = count > 0;
	if (!count) {
		return NULL;
	}
	if (count < 3) {
		return "Producer-Id, Producer-Epoch and Producer-Seq come together";
	}
	if (!take_text(conn, "producer-id", RAW_ID_MAX, &raw->producer) || !raw->producer[0]) {
		return "Producer-Id has 1 to 200 bytes";
	}
	if (!take_number(conn, "producer-epoch", false, &raw->append.producer_epoch) ||
		!take_number(conn, "producer-seq", false, &raw->append.producer_seq)) {
		return "Producer-Epoch and Producer-Seq are whole numbers";
	}
	raw->append.producer = raw->producer;
	return NULL;
}

static const char *read_append(struct conn *conn, struct http_raw *raw)
{
	const char *bad = read_producer(conn, raw);
	if (bad) {
		return bad;
	}
	raw->append.name = raw->name;
	raw->append.closes = says_closed(conn);
	if (!take_text(conn, "stream-seq", RAW_SEQ_MAX, &raw->seq)) {
		return "Stream-Seq has at most 200 bytes";
	}
	if (!http_body(conn)->len) {
		return raw->append.closes ? NULL
					  : "the body has no bytes; send what is to be appended";
	}
	if (!take_text(conn, "content-type", RAW_TYPE_MAX, &raw->type) || !raw->type ||
		!raw->type[0]) {
		return "the request needs the stream's Content-Type";
	}
	raw->append.seq = raw->seq;
	raw->append.type = raw->type;
	return NULL;
}

void raw_post(struct conn *conn, const char *name)
{
	struct http_raw *raw = raw_begin(conn, name);
	const char *bad = read_append(conn, raw);
	if (bad) {
		raw->is_over = true;
		refuse_request(conn, bad);
		return;
	}
	bool is_json = raw->type && raw_type_is_json(raw->type);
	raw_check_append(raw_store_of(conn), &raw->append, &raw->outcome);
	if (raw->outcome.result == RAW_DONE) {
		if (!store_body(conn, raw, is_json, false)) {
			return;
		}
		raw->append.bytes = is_json ? raw->bytes.data : http_body(conn)->data;
		raw->append.len = is_json ? raw->bytes.len : http_body(conn)->len;
		raw_append(raw_store_of(conn), &raw->append, &raw->outcome);
	}
	answer_later(conn);
}

/* --- DELETE --- */

void raw_remove_stream(struct conn *conn, const char *name)
{
	struct http_raw *raw = raw_begin(conn, name);
	raw_delete(raw_store_of(conn), name, &raw->outcome);
	answer_later(conn);
}
