#include "holdfast/http_head.h"

#include "holdfast/buffer.h"
#include "holdfast/bytes.h"

#include <string.h>
#include <strings.h>
#include <time.h>

/** Whether `c` can be in a method or field name (RFC 9110, section 5.6.2). */
static bool is_token(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

static size_t token_len(const char *text, size_t len)
{
	size_t n = 0;
	while (n < len && is_token(text[n])) {
		n++;
	}
	return n;
}

static bool span_is(const char *text, struct http_span span, const char *word)
{
	return strlen(word) == span.len && strncasecmp(text + span.at, word, span.len) == 0;
}

/* --- end of the head --- */

/** Skips empty lines before a request (RFC 9112, section 2.2). */
static size_t skip_empty_lines(const char *text, size_t len)
{
	size_t at = 0;
	while (len - at >= 2 && text[at] == '\r' && text[at + 1] == '\n') {
		at += 2;
	}
	return at;
}

size_t http_head_find_end(const char *text, size_t len, size_t *scanned)
{
	size_t begin = skip_empty_lines(text, len);
	size_t at = *scanned > begin ? *scanned : begin;
	*scanned = len;
	for (;;) {
		const char *newline = at < len ? memchr(text + at, '\n', len - at) : NULL;
		if (!newline) {
			return 0;
		}
		at = (size_t)(newline - text);
		if (at == begin || text[at - 1] != '\r') {
			return at + 1; /* always an error, so report it without waiting for more */
		}
		if (at >= begin + 3 && text[at - 2] == '\n') {
			return at + 1;
		}
		at++;
	}
}

/* --- the request line --- */

static enum http_method read_method(const char *text, size_t len)
{
	static const struct {
		const char *name;
		enum http_method method;
	} table[] = {
		{"GET", HTTP_GET},
		{"HEAD", HTTP_HEAD},
		{"POST", HTTP_POST},
		{"PUT", HTTP_PUT},
		{"PATCH", HTTP_PATCH},
		{"DELETE", HTTP_DELETE},
		{"OPTIONS", HTTP_OPTIONS},
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (strlen(table[i].name) == len && memcmp(table[i].name, text, len) == 0) {
			return table[i].method;
		}
	}
	return HTTP_OTHER;
}

static unsigned read_version(struct http_head *head, const char *at, size_t len, const char **why)
{
	static const char name[] = "HTTP/";
	if (len != 8 || memcmp(at, name, 5) != 0 || at[5] < '0' || at[5] > '9' || at[6] != '.' ||
		at[7] < '0' || at[7] > '9') {
		*why = "the request line does not end with an HTTP version";
		return 400;
	}
	if (at[5] != '1') {
		*why = "this server speaks HTTP/1.1";
		return 505;
	}
	head->is_http_1_0 = at[7] == '0';
	return 0;
}

/**
 * Reads an absolute target, http://HOST/path, which every server must accept (RFC 9112, section
 * 3.2.2).
 */
static unsigned read_authority(struct http_head *head, struct http_span *target, const char **why)
{
	const char *at = head->text + target->at;
	size_t scheme = target->len > 7 && strncasecmp(at, "http://", 7) == 0    ? 7
			: target->len > 8 && strncasecmp(at, "https://", 8) == 0 ? 8
										 : 0;
	if (!scheme) {
		*why = "the target of a request must be a path";
		return 400;
	}
	size_t len = scheme;
	while (len < target->len && at[len] != '/' && at[len] != '?') {
		len++;
	}
	head->host = (struct http_span){target->at + (uint32_t)scheme, (uint32_t)(len - scheme)};
	target->at += (uint32_t)len;
	target->len -= (uint32_t)len;
	if (!head->host.len || memchr(at + scheme, '@', len - scheme)) {
		*why = "the target of the request names no host";
		return 400;
	}
	return 0;
}

static unsigned read_target(struct http_head *head, struct http_span target, const char **why)
{
	const char *text = head->text;
	for (uint32_t i = 0; i < target.len; i++) {
		char c = text[target.at + i];
		if (c <= 0x20 || c == 0x7f || c == '#') {
			*why = "the target of the request has a character that must be escaped";
			return 400;
		}
	}
	if (target.len && text[target.at] != '/') {
		unsigned status = read_authority(head, &target, why);
		if (status) {
			return status;
		}
	}
	const char *mark = memchr(text + target.at, '?', target.len);
	uint32_t path_len = mark ? (uint32_t)(mark - text) - target.at : target.len;
	head->path = (struct http_span){target.at, path_len};
	if (mark) {
		head->query =
			(struct http_span){target.at + path_len + 1, target.len - path_len - 1};
	}
	if (!path_len) {
		*why = "the target of the request has no path";
		return 400;
	}
	return 0;
}

static unsigned read_request_line(struct http_head *head, size_t at, size_t len, const char **why)
{
	const char *line = head->text + at;
	size_t method = token_len(line, len);
	if (!method || method == len || line[method] != ' ') {
		*why = "this is not an HTTP request";
		return 400;
	}
	const char *target = line + method + 1;
	size_t rest = len - method - 1;
	const char *blank = memchr(target, ' ', rest);
	if (!blank || blank == target) {
		*why = "the request line must be METHOD TARGET HTTP/1.1, separated by single blanks";
		return 400;
	}
	size_t target_len = (size_t)(blank - target);
	unsigned status = read_version(head, blank + 1, rest - target_len - 1, why);
	if (status) {
		return status;
	}
	if (target_len > HTTP_TARGET_MAX) {
		*why = "the address is too long";
		return 414;
	}
	head->method = read_method(line, method);
	return read_target(head,
		(struct http_span){(uint32_t)(target - head->text), (uint32_t)target_len}, why);
}

/* --- fields --- */

static unsigned read_field(struct http_head *head, size_t at, size_t len, const char **why)
{
	const char *line = head->text + at;
	size_t name = token_len(line, len);
	if (!name || name == len || line[name] != ':') {
		*why = "a header field must be NAME: VALUE on a line of its own";
		return 400;
	}
	if (head->field_count == HTTP_FIELDS_MAX) {
		*why = "the request has too many header fields";
		return 431;
	}
	size_t begin = name + 1;
	size_t end = len;
	while (begin < end && (line[begin] == ' ' || line[begin] == '\t')) {
		begin++;
	}
	while (end > begin && (line[end - 1] == ' ' || line[end - 1] == '\t')) {
		end--;
	}
	for (size_t i = begin; i < end; i++) {
		unsigned char c = (unsigned char)line[i];
		if ((c < 0x20 && c != '\t') || c == 0x7f) {
			*why = "a header field has a control character";
			return 400;
		}
	}
	head->fields[head->field_count++] = (struct http_field){
		.name = {(uint32_t)at, (uint32_t)name},
		.value = {(uint32_t)(at + begin), (uint32_t)(end - begin)},
	};
	return 0;
}

/** Refuses repeated fields that determine the recipient, the sender or the end of the request. */
static unsigned check_single(const struct http_head *head, const char **why)
{
	static const char *const names[] = {"host", "origin", "content-length", "transfer-encoding",
		"sec-websocket-key", "sec-websocket-version", "expect", "content-type",
		"authorization"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (http_count_fields(head, names[i]) > 1) {
			*why = "a header field that can occur only once, such as Host, Origin or Content-Length, is repeated";
			return 400;
		}
	}
	return 0;
}

static unsigned read_host(struct http_head *head, const char **why)
{
	const struct http_field *host = http_head_field(head, "host");
	if (!host && !head->is_http_1_0) {
		*why = "the request has no Host";
		return 400;
	}
	if (host && !head->host.len) {
		head->host = host->value;
	}
	return 0;
}

unsigned http_head_parse(struct http_head *head, const char *text, size_t len, const char **ret_why)
{
	size_t at = skip_empty_lines(text, len);
	bool is_first = true;
	head->text = text;
	head->is_http_1_0 = false;
	head->field_count = 0;
	head->path = head->query = head->host = (struct http_span){0};
	while (at < len) {
		const char *end = memmem(text + at, len - at, "\r\n", 2);
		size_t line = end ? (size_t)(end - text) - at : 0;
		if (!end || (is_first && !line)) {
			*ret_why = "the lines of a request must end with CR and LF";
			return 400;
		}
		if (!line) {
			break;
		}
		unsigned status = is_first ? read_request_line(head, at, line, ret_why)
					   : read_field(head, at, line, ret_why);
		if (status) {
			return status;
		}
		is_first = false;
		at += line + 2;
	}
	unsigned status = check_single(head, ret_why);
	return status ? status : read_host(head, ret_why);
}

/* --- lookup --- */

size_t http_count_fields(const struct http_head *head, const char *name)
{
	size_t count = 0;
	for (unsigned i = 0; i < head->field_count; i++) {
		count += span_is(head->text, head->fields[i].name, name);
	}
	return count;
}

const struct http_field *http_head_field(const struct http_head *head, const char *name)
{
	for (unsigned i = 0; i < head->field_count; i++) {
		if (span_is(head->text, head->fields[i].name, name)) {
			return &head->fields[i];
		}
	}
	return NULL;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/** Cuts off the list up to the first `end`, trimmed, and moves *at behind it. Returns its length. */
static size_t cut(const char **at, size_t *len, char end, const char **ret)
{
	const char *found = memchr(*at, end, *len);
	size_t n = found ? (size_t)(found - *at) : *len;
	*ret = *at;
	*at += found ? n + 1 : n;
	*len -= found ? n + 1 : n;
	for (; n && is_blank(**ret); n--) {
		(*ret)++;
	}
	while (n && is_blank((*ret)[n - 1])) {
		n--;
	}
	return n;
}

static bool is_word(const char *text, size_t len, const char *word)
{
	return len == strlen(word) && strncasecmp(text, word, len) == 0;
}

static bool list_has(const char *list, size_t len, const char *word)
{
	while (len) {
		const char *element;
		size_t n = cut(&list, &len, ',', &element);
		if (is_word(element, n, word)) {
			return true;
		}
	}
	return false;
}

/** Reads `q=` with 0 or 1 and at most three decimals, in thousandths; -1 if it is anything else. */
static int read_weight(const char *text, size_t len)
{
	if (len < 3 || (text[0] | 0x20) != 'q' || text[1] != '=' || text[2] < '0' ||
		text[2] > '1' || len > 7 || (len > 3 && text[3] != '.')) {
		return -1;
	}
	int weight = text[2] - '0';
	for (size_t i = 4; i < 7; i++) {
		char c = i < len ? text[i] : '0';
		if (c < '0' || c > '9') {
			return -1;
		}
		weight = weight * 10 + c - '0';
	}
	return weight <= 1000 ? weight : -1;
}

static int list_weight(const char *list, size_t len, const char *wanted)
{
	while (len) {
		const char *element;
		const char *part;
		size_t left = cut(&list, &len, ',', &element);
		size_t n = cut(&element, &left, ';', &part);
		if (!is_word(part, n, wanted)) {
			continue;
		}
		int weight = -1;
		while (left && weight < 0) {
			n = cut(&element, &left, ';', &part);
			weight = read_weight(part, n);
		}
		return weight < 0 ? 1000 : weight;
	}
	return -1;
}

int http_head_weight(const struct http_head *head, const char *name, const char *element)
{
	int weight = -1;
	for (unsigned i = 0; weight < 0 && i < head->field_count; i++) {
		const struct http_field *field = &head->fields[i];
		if (span_is(head->text, field->name, name)) {
			weight = list_weight(
				head->text + field->value.at, field->value.len, element);
		}
	}
	return weight;
}

bool http_head_has_word(const struct http_head *head, const char *name, const char *word)
{
	for (unsigned i = 0; i < head->field_count; i++) {
		const struct http_field *field = &head->fields[i];
		if (span_is(head->text, field->name, name) &&
			list_has(head->text + field->value.at, field->value.len, word)) {
			return true;
		}
	}
	return false;
}

bool http_head_is_type(const struct http_head *head, const char *name, const char *type)
{
	const struct http_field *field = http_head_field(head, name);
	const char *value = field ? head->text + field->value.at : NULL;
	size_t len = field ? field->value.len : 0;
	const char *word;
	size_t n = field ? cut(&value, &len, ';', &word) : 0;
	return field && is_word(word, n, type);
}

bool http_head_copy(const struct http_head *head, const char *name, char *buf, size_t size)
{
	const struct http_field *field = http_head_field(head, name);
	buf[0] = '\0';
	if (!field || field->value.len >= size) {
		return false;
	}
	memcpy(buf, head->text + field->value.at, field->value.len);
	buf[field->value.len] = '\0';
	return true;
}

bool http_head_keeps_alive(const struct http_head *head)
{
	if (http_head_has_word(head, "connection", "close")) {
		return false;
	}
	return !head->is_http_1_0 || http_head_has_word(head, "connection", "keep-alive");
}

/* --- framing of the body --- */

static unsigned read_length(
	const char *text, struct http_span value, struct http_framing *ret, const char **why)
{
	ret->length = 0;
	if (!value.len || value.len > 18) {
		*why = "the content-length must be a number of at most 18 digits";
		return 400;
	}
	for (uint32_t i = 0; i < value.len; i++) {
		char c = text[value.at + i];
		if (c < '0' || c > '9') {
			*why = "the content-length must be a number of at most 18 digits";
			return 400;
		}
		ret->length = ret->length * 10 + (unsigned)(c - '0');
	}
	ret->body = ret->length ? HTTP_BODY_LENGTH : HTTP_NO_BODY;
	return 0;
}

unsigned http_head_framing(
	const struct http_head *head, struct http_framing *ret, const char **ret_why)
{
	const struct http_field *length = http_head_field(head, "content-length");
	const struct http_field *coding = http_head_field(head, "transfer-encoding");
	*ret = (struct http_framing){.body = HTTP_NO_BODY};
	if (length && coding) {
		*ret_why = "a body has a content-length or comes in chunks, not both";
		return 400;
	}
	if (length) {
		return read_length(head->text, length->value, ret, ret_why);
	}
	if (!coding) {
		return 0;
	}
	if (head->is_http_1_0 || !span_is(head->text, coding->value, "chunked")) {
		*ret_why = "the only supported transfer-encoding is chunked";
		return 400;
	}
	if (head->method == HTTP_GET || head->method == HTTP_HEAD) {
		*ret_why = "a request with this method takes no body";
		return 400;
	}
	ret->body = HTTP_BODY_CHUNKED;
	return 0;
}

/* --- answers --- */

void http_append_date(struct buffer *out, int64_t now_ms)
{
	static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
	static const char months[][4] = {
		"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
	time_t now = (time_t)(now_ms / 1000);
	struct tm tm = {0};
	if (gmtime_r(&now, &tm)) {
		buffer_printf(out, "date: %s, %02d %s %04d %02d:%02d:%02d GMT\r\n",
			days[tm.tm_wday], tm.tm_mday, months[tm.tm_mon], tm.tm_year + 1900,
			tm.tm_hour, tm.tm_min, tm.tm_sec);
	}
}

/* --- escapes --- */

int http_decode(const char *text, size_t len, bool is_query, char *buf, size_t size)
{
	size_t n = 0;
	for (size_t i = 0; i < len; i++) {
		char c = text[i];
		if (c == '%') {
			int high = len - i > 2 ? bytes_hex_digit(text[i + 1]) : -1;
			int low = len - i > 2 ? bytes_hex_digit(text[i + 2]) : -1;
			if (high < 0 || low < 0 || (!high && !low)) {
				return -1; /* cut off, not hexadecimal, or NUL */
			}
			c = (char)(high << 4 | low);
			i += 2;
		} else if (c == '+' && is_query) {
			c = ' ';
		}
		if (n + 1 >= size) {
			return -1;
		}
		buf[n++] = c;
	}
	buf[n] = '\0';
	return (int)n;
}
