/* Reading metadata.json; checkpoint.c writes it. */
#include "store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ssize_t store_read_more(int fd, struct buffer *bytes)
{
	buffer_reserve(bytes, 1 << 14);
	for (;;) {
		ssize_t n = disk->read(fd, bytes->data + bytes->len, bytes->cap - bytes->len);
		if (n >= 0) {
			bytes->len += (size_t)n;
			return n;
		}
		if (errno != EINTR) {
			return -errno;
		}
	}
}

/** Files of before there was a checksum have none. */
bool metadata_seal_is_good(const struct buffer *bytes, const json_t *json)
{
	char check[METADATA_CHECK_LEN + 1];
	if (!json_object_get(json, "xxh")) {
		return true;
	}
	if (bytes->len < METADATA_CHECK_LEN) {
		return false;
	}
	size_t len = bytes->len - METADATA_CHECK_LEN;
	snprintf(check, sizeof(check), METADATA_CHECK_FORMAT,
		(unsigned long long)journal_checksum(bytes->data, len));
	return memcmp(bytes->data + len, check, METADATA_CHECK_LEN) == 0;
}

/** *ret_json is NULL if the file is there and is not what was written. */
static int read_json(struct store *store, const char *path, json_t **ret_json)
{
	int fd = disk->openat(store->sessions_fd, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	struct buffer bytes = {0};
	ssize_t n;
	do {
		n = store_read_more(fd, &bytes);
	} while (n > 0);
	close(fd);
	*ret_json = n < 0 ? NULL : json_loadb(bytes.data, bytes.len, 0, NULL);
	if (*ret_json && !metadata_seal_is_good(&bytes, *ret_json)) {
		json_decref(*ret_json);
		*ret_json = NULL;
	}
	buffer_finish(&bytes);
	return (int)n;
}

int metadata_read(struct store *store, const char *id, struct metadata *meta)
{
	char path[192];
	json_t *json;
	snprintf(path, sizeof(path), "%s/metadata.json", id);
	int r = read_json(store, path, &json);
	if (r < 0) {
		return r == -ENOTDIR ? -ENOENT : r;
	}
	const char *epoch = json_string_value(json_object_get(json, "epoch"));
	const char *title = json_string_value(json_object_get(json, "title"));
	char *end = NULL;
	*meta = (struct metadata){
		.epoch = epoch ? strtoull(epoch, &end, 16) : 0,
		.first_seq = (uint64_t)json_integer_value(json_object_get(json, "first_seq")),
		.max_seq = (uint64_t)json_integer_value(json_object_get(json, "max_seq")),
		.created_at = json_integer_value(json_object_get(json, "created_at")),
		.title = xstrdup(title ? title : ""),
	};
	bool good = epoch && end == epoch + 16 && !*end && title && meta->first_seq >= 1;
	json_decref(json);
	if (!good) {
		free(meta->title);
		meta->title = NULL;
	}
	return good ? 0 : -EBADMSG;
}
