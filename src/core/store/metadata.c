/* Reads and writes metadata.json: what is certain about a session without reading its log. */
#include "store_internal.h"

#include "holdfast/beneath.h"
#include "holdfast/json_text.h"
#include "holdfast/sealed_line.h"
#include "holdfast/store_versions.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void append_number(struct buffer *out, const char *name, uint64_t value)
{
	buffer_printf(out, ",\"%s\":%llu", name, (unsigned long long)value);
}

void metadata_take(const struct session_log *log, struct metadata *ret)
{
	*ret = (struct metadata){.format = FOLDER_FORMAT,
		.epoch = log->epoch,
		.first_seq = log->first_seq,
		.first_at = log->first_at,
		.first_ts = log->first_ts,
		.base_seq = log->base_seq,
		.max_seq = log->last_seq,
		.log_size = log->size,
		.keys_size = log->keys.size,
		.input_names = log->keys.input_names,
		.created_at = log->created_at,
		.updated_at = log->updated_at};
	log->store->ops->facts->write(log->facts, &ret->facts_text);
}

void metadata_append(const char *id, const struct metadata *meta, struct buffer *out)
{
	size_t start = out->len;
	buffer_printf(out, METADATA_FRONT "%d,\"id\":", FOLDER_FORMAT);
	buffer_append_json(out, id, strlen(id));
	buffer_printf(out, ",\"epoch\":\"%016llx\"", (unsigned long long)meta->epoch);
	append_number(out, "first_seq", meta->first_seq);
	append_number(out, "first_at", meta->first_at);
	append_number(out, "first_ts", (uint64_t)meta->first_ts);
	append_number(out, "base_seq", meta->base_seq);
	append_number(out, "max_seq", meta->max_seq);
	append_number(out, "log_size", meta->log_size);
	append_number(out, "keys_size", meta->keys_size);
	append_number(out, "input_names", meta->input_names);
	append_number(out, "created_at", (uint64_t)meta->created_at);
	append_number(out, "updated_at", (uint64_t)meta->updated_at);
	buffer_append(out, meta->facts_text.data, meta->facts_text.len);
	sealed_line_end(out, start);
}

/* --- reading --- */

static int read_file(int sessions_fd, const char *id, struct buffer *out)
{
	char path[192];
	snprintf(path, sizeof(path), "%s/metadata.json", id);
	int r = disk_read_file(sessions_fd, path, METADATA_MAX + 1, out);
	/* A file in the place of the folder is not a session. */
	return r == -ENOTDIR ? -ENOENT : r == 0 && out->len > METADATA_MAX ? -EBADMSG : r;
}

static bool take_epoch(const json_t *json, uint64_t *ret)
{
	const char *text = json_string_value(json_object_get(json, "epoch"));
	bool good = text && strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16;
	*ret = good ? strtoull(text, NULL, 16) : 0;
	return good;
}

static bool take_numbers(const json_t *json, struct metadata *meta)
{
	uint64_t created_at;
	uint64_t updated_at;
	uint64_t first_ts;
	bool good = json_take_number(json, "first_seq", &meta->first_seq) &&
		    json_take_number(json, "first_at", &meta->first_at) &&
		    json_take_number(json, "first_ts", &first_ts) &&
		    json_take_number(json, "base_seq", &meta->base_seq) &&
		    json_take_number(json, "max_seq", &meta->max_seq) &&
		    json_take_number(json, "log_size", &meta->log_size) &&
		    json_take_number(json, "keys_size", &meta->keys_size) &&
		    json_take_number(json, "input_names", &meta->input_names) &&
		    json_take_number(json, "created_at", &created_at) &&
		    json_take_number(json, "updated_at", &updated_at);
	if (good) {
		meta->first_ts = (int64_t)first_ts;
		meta->created_at = (int64_t)created_at;
		meta->updated_at = (int64_t)updated_at;
	}
	return good;
}

static bool numbers_fit(const struct metadata *meta)
{
	return meta->base_seq && meta->base_seq <= meta->first_seq &&
	       meta->first_seq <= meta->max_seq + 1 && meta->first_at <= meta->log_size &&
	       (meta->base_seq < meta->first_seq) == (meta->first_at > 0) &&
	       (meta->base_seq <= meta->max_seq) == (meta->log_size > 0);
}

/** Format 1 has no such member. */
static bool take_format(const json_t *json, struct metadata *meta)
{
	meta->format = 1;
	bool is_told = json_object_get(json, "format") != NULL;
	return (!is_told || json_take_number(json, "format", &meta->format)) &&
	       meta->format >= FOLDER_FORMAT_OLDEST && meta->format <= FOLDER_FORMAT;
}

/** Returns what is wrong with the metadata, or NULL. */
static const char *parse(
	const json_t *json, const char *id, const struct store_facts *facts, struct metadata *meta)
{
	const char *named = json_string_value(json_object_get(json, "id"));
	if (!json) {
		return "it is not JSON";
	}
	if (!named || strcmp(named, id) != 0) {
		return "its id is not the folder's name";
	}
	if (!take_epoch(json, &meta->epoch)) {
		return "the epoch is not 16 hex digits";
	}
	if (!take_numbers(json, meta)) {
		return "one of its numbers is missing or malformed";
	}
	if (!numbers_fit(meta)) {
		return "base_seq, first_seq, first_at, max_seq and log_size do not fit together";
	}
	const char *why = NULL;
	meta->facts = facts ? facts->read(json, meta->max_seq, &why) : NULL;
	return why;
}

int metadata_parse(const char *bytes, size_t len, const char *id, const struct store_facts *facts,
	struct metadata *meta, const char **ret_why)
{
	size_t body;
	*meta = (struct metadata){.facts_ops = facts};
	if (!sealed_line_check(bytes, len, &body)) {
		*ret_why = "its checksum is wrong";
		return -EBADMSG;
	}
	int r = 0;
	json_t *json = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, NULL);
	if (json && !take_format(json, meta)) {
		*ret_why = "this program does not read its format";
		r = -ENOTSUP;
	} else {
		*ret_why = parse(json, id, facts, meta);
	}
	json_decref(json);
	return r == 0 && *ret_why ? -EBADMSG : r;
}

int metadata_read(int sessions_fd, const char *id, const struct store_facts *facts,
	struct metadata *meta, const char **ret_why)
{
	struct buffer bytes = {0};
	*meta = (struct metadata){.facts_ops = facts};
	*ret_why = NULL;
	int r = read_file(sessions_fd, id, &bytes);
	if (r == 0 && (!bytes.len || bytes.data[bytes.len - 1] != '\n')) {
		*ret_why = "its checksum is wrong";
		r = -EBADMSG;
	} else if (r == 0) {
		r = metadata_parse(bytes.data, bytes.len - 1, id, facts, meta, ret_why);
	}
	buffer_finish(&bytes);
	if (r < 0) {
		uint64_t format = meta->format;
		*ret_why = *ret_why ? *ret_why : file_error(-r);
		metadata_finish(meta);
		meta->format = format;
	}
	return r;
}

void metadata_finish(struct metadata *meta)
{
	if (meta->facts) {
		meta->facts_ops->destroy(meta->facts);
	}
	buffer_finish(&meta->facts_text);
	*meta = (struct metadata){0};
}

void metadata_give(struct metadata *meta, struct store_metadata *ret)
{
	*ret = (struct store_metadata){.epoch = meta->epoch,
		.first_seq = meta->first_seq,
		.first_at = meta->first_at,
		.base_seq = meta->base_seq,
		.max_seq = meta->max_seq,
		.log_size = meta->log_size,
		.keys_size = meta->keys_size,
		.input_names = meta->input_names,
		.facts_ops = meta->facts_ops,
		.facts = meta->facts};
	meta->facts = NULL;
}

int metadata_open_folder(int sessions_fd, const char *id, uint64_t epoch)
{
	struct metadata meta;
	const char *why;
	int fd = disk->openat(sessions_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	int r = metadata_read(sessions_fd, id, NULL, &meta, &why);
	if (r == 0 && meta.epoch != epoch) {
		r = -ENOENT;
	}
	metadata_finish(&meta);
	if (r < 0) {
		close(fd);
	}
	return r < 0 ? r : fd;
}
