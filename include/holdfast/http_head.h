/*
 * Parses the head of an HTTP/1.1 request (RFC 9112): request line and header fields. Strict:
 * ambiguous input is refused, so that a proxy in front of us cannot see another request than we do.
 * Lists are read as RFC 9110, section 5.6.1, has them: empty elements are skipped, and several fields of
 * a name are one list. Pure.
 */
#ifndef HOLDFAST_HTTP_HEAD_H
#define HOLDFAST_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Most header fields of a request, and most bytes of its target. */
#define HTTP_FIELDS_MAX 100
#define HTTP_TARGET_MAX 8192

enum http_method {
	HTTP_GET,
	HTTP_HEAD,
	HTTP_POST,
	HTTP_PUT,
	HTTP_PATCH,
	HTTP_DELETE,
	HTTP_OPTIONS,
	HTTP_OTHER, /* any other method */
};

/** A range of bytes of the head's text. */
struct http_span {
	uint32_t at;
	uint32_t len;
};

struct http_field {
	struct http_span name;
	struct http_span value; /* without surrounding blanks */
};

/** A parsed head; spans point into the text that was parsed. */
struct http_head {
	const char *text;
	enum http_method method;
	bool is_http_1_0;
	struct http_span path; /* as sent: not decoded, begins with a slash */
	struct http_span query; /* as sent, without the question mark; empty if there is none */
	struct http_span host; /* from an absolute target, else the Host field */
	unsigned field_count;
	struct http_field fields[HTTP_FIELDS_MAX];
};

/** How the body of a request is delimited. */
struct http_framing {
	enum { HTTP_NO_BODY, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED } body;
	uint64_t length; /* of HTTP_BODY_LENGTH; greater than 0 */
};

/**
 * Returns the length of the head at the front of `text`, including its empty line; 0 if it is
 * incomplete. `*scanned` (initially 0) remembers the position, so that a head that arrives byte by
 * byte is scanned once.
 */
size_t http_head_find_end(const char *text, size_t len, size_t *scanned);
/**
 * Parses a head whose length is from http_head_find_end(). Returns 0, or the status to refuse it
 * with (400, 414, 431, 501, 505) and a message for people in *ret_why (static text).
 */
unsigned http_head_parse(
	struct http_head *head, const char *text, size_t len, const char **ret_why);
/** Determines the framing of its body; returns as http_head_parse() does. */
unsigned http_head_framing(
	const struct http_head *head, struct http_framing *ret, const char **ret_why);
/** Returns the first field with this name (any case), or NULL. */
const struct http_field *http_head_field(const struct http_head *head, const char *name);
/** Returns the number of fields with this name. */
size_t http_count_fields(const struct http_head *head, const char *name);
/** Whether `word` is one of the comma-separated words of all fields with this name, in any case. */
bool http_head_has_word(const struct http_head *head, const char *name, const char *word);
/**
 * Returns the weight, 0 to 1000, that a list of preferences such as Accept gives to exactly this element
 * (RFC 9110, section 12.4.2), or -1 if it does not have it. Parameters other than `q` are ignored; a
 * weight that cannot be read is 1000, as that of a list without weights.
 */
int http_head_weight(const struct http_head *head, const char *name, const char *element);
/**
 * Whether a field has this media type (RFC 9110, section 8.3.1), in any case and whatever its parameters,
 * however long they are: charset too, as all bodies are UTF-8 or bytes.
 */
bool http_head_is_type(const struct http_head *head, const char *name, const char *type);
/**
 * Copies the value of a field and NUL-terminates it. Returns false if the field is missing or does
 * not fit.
 */
bool http_head_copy(const struct http_head *head, const char *name, char *buf, size_t size);
/** Whether the connection stays open for another request. */
bool http_head_keeps_alive(const struct http_head *head);
struct buffer;
/** Appends the Date field of an answer, with its CRLF (RFC 9110, section 6.6.1). */
void http_append_date(struct buffer *out, int64_t now_ms);
/**
 * Decodes %XX (and, if `is_query`, + as a blank) and NUL-terminates the result. Returns its length,
 * or -1 if an escape is malformed or encodes NUL, or the result does not fit.
 */
int http_decode(const char *text, size_t len, bool is_query, char *buf, size_t size);

#endif
