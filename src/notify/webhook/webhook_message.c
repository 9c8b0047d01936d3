/* The messages of webhooks, and their signatures (Standard Webhooks 1.0). */
#include "webhook_internal.h"

#include "holdfast/base64url.h"
#include "holdfast/beneath.h"
#include "holdfast/json_span.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SECRET_PREFIX   "whsec_"
#define SECRET_FILE_MAX 4096

/* --- choosing events --- */

/** Whether the event says that the agent stopped without being asked to. */
static bool is_failure(const struct event *event)
{
	static const char *const reasons[] = {
		"exit", "signal", "spawn_failed", "protocol", "limit"};
	struct event_view view;
	struct json_spans spans = {0};
	bool is_one = false;
	event_get_view(event, &view);
	if (json_spans_read(view.data, view.data_len, &spans) < 0) {
		return false;
	}
	const struct json_span *reason = json_span_get(spans.all, "reason");
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		is_one = is_one || json_span_says(reason, reasons[i]);
	}
	json_spans_finish(&spans);
	return is_one;
}

enum webhook_kind webhook_kind_of(const struct event *event)
{
	const char *name = event_type_name(event->type);
	if (strcmp(name, "permission_request") == 0 || strcmp(name, "elicitation_request") == 0) {
		return WEBHOOK_WAITING;
	}
	if (event->type == EVENT_TURN_END) {
		return WEBHOOK_TURN_ENDED;
	}
	return event->type == EVENT_AGENT_STOPPED && is_failure(event) ? WEBHOOK_AGENT_FAILED
								       : WEBHOOK_NONE;
}

const char *webhook_kind_name(enum webhook_kind kind)
{
	static const char *const names[] = {[WEBHOOK_NONE] = "",
		[WEBHOOK_WAITING] = "session.waiting",
		[WEBHOOK_TURN_ENDED] = "session.turn_ended",
		[WEBHOOK_AGENT_FAILED] = "session.agent_failed"};
	return names[kind];
}

/* --- the message --- */

void webhook_make_id(const char *session, uint64_t epoch, uint64_t seq, char ret[WEBHOOK_ID_SIZE])
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	struct buffer id = {0};
	char *text = xprintf(
		"%s %016llx %llu", session, (unsigned long long)epoch, (unsigned long long)seq);
	EVP_Digest(text, strlen(text), sum, NULL, EVP_sha256(), NULL);
	buffer_append_str(&id, "msg_");
	base64url_append(&id, sum, 24);
	snprintf(ret, WEBHOOK_ID_SIZE, "%s", buffer_cstr(&id));
	buffer_finish(&id);
	free(text);
}

static void append_time(struct buffer *out, int64_t ms)
{
	char text[32];
	struct tm tm = {0};
	time_t seconds = (time_t)(ms / 1000);
	gmtime_r(&seconds, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	buffer_printf(out, "%s.%03dZ", text, (int)(ms % 1000));
}

void webhook_append_body(struct buffer *out, const struct webhook_facts *facts)
{
	buffer_printf(out, "{\"type\":\"%s\",\"timestamp\":\"", webhook_kind_name(facts->kind));
	append_time(out, facts->ts);
	buffer_append_str(out, "\",\"data\":{\"session_id\":");
	buffer_append_json(out, facts->session, strlen(facts->session));
	buffer_printf(out, ",\"position\":{\"epoch\":\"%016llx\",\"seq\":%llu}}}",
		(unsigned long long)facts->epoch, (unsigned long long)facts->seq);
}

void webhook_append_headers(struct buffer *out, const struct webhook_secrets *secrets,
	const char *id, int64_t now_s, const struct buffer *body)
{
	struct buffer text = {0};
	buffer_printf(&text, "%s.%lld.", id, (long long)now_s);
	buffer_append(&text, body->data, body->len);
	buffer_printf(out,
		"Content-Type: application/json\r\nUser-Agent: holdfast\r\nwebhook-id: %s\r\nwebhook-timestamp: %lld\r\nwebhook-signature:",
		id, (long long)now_s);
	for (size_t i = 0; i < secrets->count; i++) {
		unsigned char sum[EVP_MAX_MD_SIZE];
		char signature[48];
		HMAC(EVP_sha256(), secrets->all[i].bytes, (int)secrets->all[i].len,
			(const unsigned char *)text.data, text.len, sum, NULL);
		EVP_EncodeBlock((unsigned char *)signature, sum, 32);
		buffer_printf(out, " v1,%s", signature);
	}
	buffer_append_str(out, "\r\n");
	buffer_finish(&text);
}

/* --- secrets --- */

/** Decodes base64 with padding. Returns the length, or 0 if it is invalid or too long. */
static size_t read_base64(const char *text, size_t len, unsigned char ret[WEBHOOK_SECRET_MAX])
{
	unsigned char bytes[WEBHOOK_SECRET_MAX * 2];
	size_t padding = len && text[len - 1] == '=' ? 1 + (len > 1 && text[len - 2] == '=') : 0;
	if (!len || len % 4 || len / 4 * 3 > sizeof(bytes)) {
		return 0;
	}
	int n = EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)len);
	size_t size = n > 0 ? (size_t)n - padding : 0;
	if (size > WEBHOOK_SECRET_MAX) {
		return 0;
	}
	memcpy(ret, bytes, size);
	OPENSSL_cleanse(bytes, sizeof(bytes));
	return size;
}

/** Takes a line of the secret file. Returns NULL, or a message. */
static const char *take_line(const char *line, size_t len, struct webhook_secrets *ret)
{
	static const size_t prefix = sizeof(SECRET_PREFIX) - 1;
	if (!len || *line == '#') {
		return NULL;
	}
	if (ret->count == WEBHOOK_SECRETS_MAX) {
		return "it has more than 4 secrets";
	}
	size_t size = len > prefix && memcmp(line, SECRET_PREFIX, prefix) == 0
			      ? read_base64(line + prefix, len - prefix, ret->all[ret->count].bytes)
			      : 0;
	if (size < WEBHOOK_SECRET_MIN) {
		return "a line is not a secret: whsec_ followed by 24 to 64 bytes in base64";
	}
	ret->all[ret->count++].len = size;
	return NULL;
}

static int read_file(const char *path, char text[SECRET_FILE_MAX + 1])
{
	int fd = open_named(path, O_RDONLY, 0);
	if (fd < 0) {
		return -errno;
	}
	size_t len = 0;
	ssize_t n = 0;
	while (len < SECRET_FILE_MAX && (n = read(fd, text + len, SECRET_FILE_MAX - len)) > 0) {
		len += (size_t)n;
	}
	int r = n < 0 ? -errno : len == SECRET_FILE_MAX ? -EFBIG : 0;
	close(fd);
	text[len] = '\0';
	return r;
}

int webhook_secrets_read(const char *path, struct webhook_secrets *ret, char **ret_why)
{
	char text[SECRET_FILE_MAX + 1];
	const char *fault = NULL;
	int r = read_file(path, text);
	*ret = (struct webhook_secrets){0};
	for (char *rest = text, *line; r == 0 && !fault && (line = strsep(&rest, "\n"));) {
		size_t len = strlen(line);
		len -= len && line[len - 1] == '\r';
		fault = take_line(line, len, ret);
	}
	OPENSSL_cleanse(text, sizeof(text));
	if (r == 0 && !fault && !ret->count) {
		fault = "it has no secret: a line of whsec_ followed by 24 to 64 bytes in base64";
	}
	if (r < 0 || fault) {
		*ret_why = xprintf("--webhook-secret: %s: %s", path, fault ? fault : strerror(-r));
		OPENSSL_cleanse(ret, sizeof(*ret));
		return r < 0 ? r : -EINVAL;
	}
	return 0;
}
