/*
 * The head of an HTTP/1.1 request (RFC 9112): request line and header fields. Strict: what two
 * readers could understand in two ways is refused, so that nobody in front of us can be made to see
 * another request than we do. Pure.
 */
#ifndef HOLDFAST_HTTP_HEAD_H
#define HOLDFAST_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A request has at most so many header fields, and a target of at most so many bytes. */
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
	HTTP_OTHER, /* a method of the standards that nothing here takes */
};

/** Bytes of the head's text. */
struct http_span {
	uint32_t at;
	uint32_t len;
};

struct http_field {
	struct http_span name;
	struct http_span value; /* without the blanks around it */
};

/** A parsed head; spans point into the text that was parsed. */
struct http_head {
	const char *text;
	enum http_method method;
	bool is_http_1_0;
	struct http_span path; /* as sent: not decoded, begins with a slash */
	struct http_span query; /* as sent, without the question mark; empty if there is none */
	struct http_span host; /* of an absolute target, else of the Host field */
	unsigned field_count;
	struct http_field fields[HTTP_FIELDS_MAX];
};

/** How a request's body comes. */
struct http_framing {
	enum { HTTP_NO_BODY, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED } body;
	uint64_t length; /* of HTTP_BODY_LENGTH, more than 0 */
};

/**
 * The length of the head at the front of `text`, with its empty line; 0 if its end has not come.
 * `*scanned` (0 at first) keeps how far it has looked, so that a head that comes a byte at a time
 * is read once.
 */
size_t http_head_find_end(const char *text, size_t len, size_t *scanned);
/**
 * Parses a head of the length that http_head_find_end() gave. Returns 0, or the status to refuse it
 * with (400, 414, 431, 501, 505); *ret_why then says why, in words for people.
 */
unsigned http_head_parse(
	struct http_head *head, const char *text, size_t len, const char **ret_why);
/** The same for how its body comes. */
unsigned http_head_framing(
	const struct http_head *head, struct http_framing *ret, const char **ret_why);
/** The first field of this name, in whatever case; NULL: there is none. */
const struct http_field *http_head_field(const struct http_head *head, const char *name);
/** How many fields there are of this name. */
size_t http_count_fields(const struct http_head *head, const char *name);
/** Whether one of the comma-separated words of all fields of this name is `word`, in any case. */
bool http_head_has_word(const struct http_head *head, const char *name, const char *word);
/** Copies a field's value; false if there is none, or it has no room with its NUL. */
bool http_head_copy(const struct http_head *head, const char *name, char *buf, size_t size);
/** Whether the connection serves another request after this one. */
bool http_head_keeps_alive(const struct http_head *head);
/**
 * Decodes %XX (and, if `is_query`, + as a blank). Returns the length, or -1 if an escape is wrong
 * or stands for NUL, or the text has no room. The text is NUL-terminated.
 */
int http_decode(const char *text, size_t len, bool is_query, char *buf, size_t size);

#endif
