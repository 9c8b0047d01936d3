/* The metadata of a session: its metadata.json, or the row of a database (proto/store-format.md). */
#ifndef HOLDFAST_METADATA_H
#define HOLDFAST_METADATA_H

#include "holdfast/buffer.h"
#include "holdfast/limits.h"
#include "holdfast/store.h"
#include "holdfast/store_files.h"

struct session_log;

#define METADATA_MAX   (256 * LIMIT_MIB)
#define METADATA_FRONT "{\"format\":"
struct metadata {
	uint64_t format; /* of the whole folder; format 1 has no such member */
	bool is_guessed; /* unreadable: at best `epoch` is right (repair.h) */
	uint64_t epoch;
	uint64_t first_seq;
	uint64_t first_at;
	int64_t first_ts;
	uint64_t base_seq;
	uint64_t max_seq;
	uint64_t log_size;
	uint64_t keys_size;
	uint64_t input_names;
	int64_t created_at;
	int64_t updated_at;
	const struct store_facts *facts_ops; /* NULL: the facts were not read */
	void *facts; /* as read; owned */
	struct buffer facts_text; /* as to be written */
};
/**
 * Reads a session's metadata.json, with the facts unless `facts` is NULL. Returns -ENOENT if it
 * does not exist, -EBADMSG if it is damaged, -ENOTSUP if this program does not read its format
 * (then only `format` is set), or another negative errno if the file cannot be read. *ret_why
 * (static text) explains the error.
 */
int metadata_read(int sessions_fd, const char *id, const struct store_facts *facts,
	struct metadata *meta, const char **ret_why);
void metadata_finish(struct metadata *meta);
/** Moves what tools need to `ret`, including the facts. metadata_finish() is still required. */
void metadata_give(struct metadata *meta, struct store_metadata *ret);
/** The same as metadata_read(), from the text of the file without its newline. */
int metadata_parse(const char *bytes, size_t len, const char *id, const struct store_facts *facts,
	struct metadata *meta, const char **ret_why);
/**
 * Opens a session's folder; -ENOENT if it belongs to another session with the same id by now. The
 * descriptor, which the caller closes, keeps referring to that folder. Any thread.
 */
int metadata_open_folder(int sessions_fd, const char *id, uint64_t epoch);
/** Gets the metadata of a log as it is now; metadata_finish() frees the copies. */
void metadata_take(const struct session_log *log, struct metadata *ret);
/** Appends the line of metadata.json. */
void metadata_append(const char *id, const struct metadata *meta, struct buffer *out);

#endif
