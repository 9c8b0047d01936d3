#include "prompt_content.h"

#include "holdfast/blobs.h"
#include "holdfast/buffer.h"
#include "holdfast/hide.h"
#include "holdfast/loop.h"
#include "holdfast/utf8.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/** One content block of the prompt. */
struct part {
	struct prompt_content *reading;
	struct blob_opening *opening; /* NULL: not being opened */
	int fd; /* -1: not open */
	uint64_t size;
	char *text; /* the contents: base64, or text if `is_text` */
	size_t len;
	bool is_text; /* a resource in UTF-8 */
};

struct prompt_content {
	uv_work_t work;
	uv_loop_t *loop;
	json_t *message;
	json_t *content;
	prompt_content_read *done; /* NULL: cancelled */
	void *arg;
	struct part *parts; /* one for each block; those of links are empty */
	size_t count;
	size_t opening; /* number of blobs being opened */
	bool is_working;
	int status;
};

static void free_reading(struct prompt_content *reading)
{
	for (size_t i = 0; i < reading->count; i++) {
		if (reading->parts[i].fd >= 0) {
			loop_close_file(reading->loop, reading->parts[i].fd);
		}
		free(reading->parts[i].text);
	}
	free(reading->parts);
	json_decref(reading->message);
	json_decref(reading->content);
	free(reading);
}

/* --- on the thread pool --- */

static int read_file(struct part *part, struct buffer *out)
{
	buffer_reserve(out, part->size + 1);
	while (out->len < part->size) {
		ssize_t n = read(part->fd, out->data + out->len, part->size - out->len);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return n < 0 ? -errno : -EIO;
		}
		out->len += (size_t)n;
	}
	return 0;
}

static int read_part(struct part *part, bool may_be_text)
{
	struct buffer bytes = {0};
	int r = read_file(part, &bytes);
	close(part->fd);
	part->fd = -1;
	part->is_text = r == 0 && may_be_text && !memchr(bytes.data, '\0', bytes.len) &&
			utf8_is_valid(bytes.data, bytes.len);
	if (r == 0 && !part->is_text) {
		part->text = xmalloc(4 * ((bytes.len + 2) / 3) + 1);
		part->len = (size_t)EVP_EncodeBlock((unsigned char *)part->text,
			(const unsigned char *)bytes.data, (int)bytes.len);
	} else if (r == 0) {
		part->text = bytes.data;
		part->len = bytes.len;
		bytes = (struct buffer){0};
	}
	buffer_finish(&bytes);
	return r;
}

static const char *text_of(const json_t *block, const char *name)
{
	return json_string_value(json_object_get(block, name));
}

static void work(uv_work_t *work)
{
	struct prompt_content *reading = work->data;
	for (size_t i = 0; i < reading->count && reading->status == 0; i++) {
		if (reading->parts[i].fd >= 0) {
			const char *type = text_of(json_array_get(reading->content, i), "type");
			reading->status =
				read_part(&reading->parts[i], strcmp(type, "resource") == 0);
		}
	}
}

/* --- on the loop --- */

/** ACP requires a URI for a resource; it is made from the name of the file, or the blob's hash. */
static json_t *make_resource(const json_t *block, const struct part *part)
{
	const char *name = text_of(block, "name");
	char *uri = xprintf("attachment:///%s", name ? name : text_of(block, "blob"));
	json_t *resource = json_pack("{s:s, s:o}", "uri", uri, part->is_text ? "text" : "blob",
		json_stringn(part->text, part->len));
	const char *type = text_of(block, "mime_type");
	if (type) {
		json_object_set_new(resource, "mimeType", json_string(type));
	}
	free(uri);
	return json_pack("{s:s, s:o}", "type", "resource", "resource", resource);
}

static json_t *make_block(const json_t *block, const struct part *part)
{
	const char *type = text_of(block, "type");
	if (strcmp(type, "resource") == 0) {
		return make_resource(block, part);
	}
	if (strcmp(type, "resource_link") == 0) {
		return json_pack("{s:s, s:s, s:s}", "type", type, "uri", text_of(block, "uri"),
			"name", text_of(block, "name"));
	}
	const char *mime_type = text_of(block, "mime_type");
	return json_pack("{s:s, s:s, s:o}", "type", type, "mimeType", mime_type ? mime_type : "",
		"data", json_stringn(part->text, part->len));
}

static void finish(struct prompt_content *reading)
{
	json_t *blocks = NULL;
	if (reading->done && reading->status == 0) {
		blocks = json_pack("[{s:s, s:O}]", "type", "text", "text", reading->message);
		for (size_t i = 0; i < reading->count; i++) {
			json_array_append_new(
				blocks, make_block(json_array_get(reading->content, i),
						&reading->parts[i]));
		}
	}
	if (reading->done) {
		reading->done(reading->arg, blocks,
			blocks ? NULL
			: reading->status == -ENOENT
				? "an image or file of the prompt no longer exists"
			: reading->status == -EBADMSG
				? "an image or file of the prompt is damaged; send it again"
				: "an image or file of the prompt cannot be read");
	}
	free_reading(reading);
}

static void work_done(uv_work_t *work, int status)
{
	finish(work->data);
}

static void go_on(struct prompt_content *reading)
{
	if (reading->opening) {
		return;
	}
	if (!reading->done || reading->status < 0) {
		finish(reading);
		return;
	}
	reading->is_working = true;
	uv_queue_work(reading->loop, &reading->work, work, work_done);
}

static void handle_opened(void *arg, int fd, const struct blob *blob)
{
	struct part *part = arg;
	struct prompt_content *reading = part->reading;
	part->opening = NULL;
	part->fd = fd < 0 ? -1 : fd;
	part->size = fd < 0 ? 0 : blob->size;
	reading->status = fd < 0 ? fd : reading->status;
	reading->opening--;
	go_on(reading);
}

struct prompt_content *prompt_content_begin(uv_loop_t *loop, struct session_log *log,
	const char *message, size_t len, const json_t *content, prompt_content_read *done,
	void *arg)
{
	struct prompt_content *reading = xcalloc(1, sizeof(*reading));
	reading->work.data = reading;
	reading->loop = loop;
	reading->message = json_stringn(message, len);
	reading->content = json_deep_copy(content);
	reading->done = done;
	reading->arg = arg;
	reading->count = json_array_size(content);
	reading->parts = xcalloc(reading->count, sizeof(*reading->parts));
	for (size_t i = 0; i < reading->count; i++) {
		struct part *part = &reading->parts[i];
		const char *name = text_of(json_array_get(content, i), "blob");
		*part = (struct part){.reading = reading, .fd = -1};
		if (name && blob_name_is_valid(name)) {
			part->opening = blob_open(log, name, HIDE_NOTHING, handle_opened, part);
			reading->opening++;
		}
	}
	/* only links: the thread pool has nothing to read, but completes later */
	if (!reading->opening) {
		go_on(reading);
	}
	return reading;
}

void prompt_content_cancel(struct prompt_content *reading)
{
	if (!reading) {
		return;
	}
	reading->done = NULL;
	for (size_t i = 0; i < reading->count; i++) {
		if (reading->parts[i].opening) {
			blob_open_cancel(reading->parts[i].opening);
			reading->opening--;
		}
	}
	if (!reading->is_working) {
		free_reading(reading);
	}
}
