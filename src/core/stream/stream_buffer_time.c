/* The time rules: stream_buffer_deadline() and stream_buffer_due(). */
#include "stream_buffer_internal.h"

#include "inline_guard.h"

bool block_kind_holds(enum block_kind kind)
{
	return kind == BLOCK_LIST || kind == BLOCK_TABLE || kind == BLOCK_FENCE ||
	       kind == BLOCK_QUOTE;
}

static int64_t block_deadline(const struct stream_buffer *sb)
{
	const struct limits *limits = sb->limits;
	const struct open_text *open = &sb->open;
	enum block_kind kind = block_scanner_kind(sb->scanner);
	if (block_scanner_closable(sb->scanner)) {
		return open->last_at + limits->soft_flush_ms;
	}
	if (!list_empty(&sb->held)) {
		int64_t since = open->last_at > sb->held_at ? open->last_at : sb->held_at;
		return since + (kind == BLOCK_FENCE ? limits->hold_fence_ms : limits->hold_ms);
	}
	if (block_kind_holds(kind)) {
		return open->last_at + limits->idle_block_flush_ms;
	}
	/* A pause after a possible header row must not prevent the table. */
	bool soft = kind == BLOCK_PARAGRAPH && block_scanner_at_line_start(sb->scanner) &&
		    !block_scanner_may_be_table(sb->scanner);
	return open->last_at + (soft ? limits->soft_flush_ms : limits->idle_flush_ms);
}

int64_t stream_buffer_deadline(const struct stream_buffer *sb)
{
	if (sb->thought) {
		return sb->thought_at + sb->limits->thought_flush_ms;
	}
	return sb->open.seq ? block_deadline(sb) : INT64_MAX;
}

/** Whether the open text has an unmatched inline marker. Raw HTML has none. */
static bool has_open_marker(const struct stream_buffer *sb)
{
	const struct open_text *open = &sb->open;
	if (block_scanner_kind(sb->scanner) == BLOCK_HTML) {
		return false;
	}
	size_t context_len = 0;
	const char *context =
		open->continues ? block_scanner_context(sb->scanner, &context_len) : NULL;
	if (!context_len) {
		return inline_guard_is_open(open->text.data, open->text.len);
	}
	struct buffer whole = {0};
	buffer_append(&whole, context, context_len);
	buffer_append(&whole, open->text.data, open->text.len);
	bool is_open = inline_guard_is_open(whole.data, whole.len);
	buffer_finish(&whole);
	return is_open;
}

enum stream_flush stream_buffer_due(const struct stream_buffer *sb, int64_t now)
{
	if (stream_buffer_deadline(sb) > now) {
		return STREAM_FLUSH_NONE;
	}
	if (sb->thought) {
		return STREAM_FLUSH_THOUGHT;
	}
	/*
	 * While a marker is unmatched, only more text, the size limit, the end of the turn, or a
	 * held input leads to a flush.
	 */
	bool waits = list_empty(&sb->held) && !block_scanner_closable(sb->scanner) &&
		     has_open_marker(sb);
	return waits ? STREAM_FLUSH_NONE : STREAM_FLUSH_BLOCK;
}
