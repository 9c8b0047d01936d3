#include "stream_buffer_internal.h"

#include "inline_guard.h"
#include "holdfast/utf8.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- helpers --- */

static void open_reset(struct open_text *open)
{
	open->seq = 0;
	open->text.len = 0;
	open->has_ink = false;
	open->lead = 0;
	open->message_id.len = 0;
	open->has_message_id = false;
	open->continues = 0;
	open->guard_checked = 0;
}

bool text_is_blank(const char *text, size_t len)
{
	size_t at = 0;
	while (at < len &&
		(text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n')) {
		at++;
	}
	return at == len;
}

/**
 * Whether the open block is one that inputs wait for, or may become one, and is not complete yet.
 */
static bool is_holding_block(const struct stream_buffer *sb)
{
	return (block_kind_holds(block_scanner_kind(sb->scanner)) &&
		       !block_scanner_closable(sb->scanner)) ||
	       block_scanner_is_undecided(sb->scanner);
}

/* --- blocks --- */

/** Removes the first `len` bytes of the open text; what is left has no seq yet. */
static void drop_text(struct open_text *open, size_t len)
{
	buffer_consume(&open->text, len);
	open->seq = 0;
	open->lead = 0;
	open->guard_checked = 0;
	open->has_ink = !text_is_blank(open->text.data, open->text.len);
}

/**
 * The scanner has found that its block ends at `end`: emits the block and what was held. What
 * follows `end` is the beginning of the next block. If only blanks precede `end` (after a cut), no
 * event is emitted: they belong to what follows.
 */
static void close_block_at(struct stream_buffer *sb, size_t end)
{
	struct open_text *open = &sb->open;
	end += open->lead;
	if (open->seq && !text_is_blank(open->text.data, end)) {
		stream_emit_message(sb, end);
		stream_emit_all_held(sb);
		drop_text(open, end);
	} else {
		open->lead = end;
	}
	open->continues = 0;
}

/**
 * Gives the scanner the blanks that are left, as its first: the indentation of what follows counts.
 */
static void read_blanks(struct stream_buffer *sb)
{
	struct open_text *open = &sb->open;
	open->lead = 0;
	size_t end = BLOCK_SCANNER_NO_END;
	for (size_t at = 0; at < open->text.len && end == BLOCK_SCANNER_NO_END;) {
		at += block_scanner_feed(
			sb->scanner, open->text.data + at, open->text.len - at, &end);
	}
	assert(end == BLOCK_SCANNER_NO_END);
}

/** How many blanks at the end of the open text begin a line. */
static size_t line_indentation(const struct stream_buffer *sb)
{
	const struct buffer *text = &sb->open.text;
	size_t blanks = 0;
	if (!block_scanner_line_is_blank(sb->scanner)) {
		return 0;
	}
	for (const char *at = text->data + text->len; at > text->data; at--, blanks++) {
		if (at[-1] != ' ' && at[-1] != '\t') {
			break;
		}
	}
	return blanks;
}

/**
 * How many of them are the indentation of what follows: those below a complete block. Below a list
 * or quote they are not counted; there they could only indent its own content.
 */
static size_t next_indentation(const struct stream_buffer *sb)
{
	enum block_kind kind = block_scanner_kind(sb->scanner);
	bool counts = kind != BLOCK_LIST && kind != BLOCK_QUOTE;
	return counts && block_scanner_closable(sb->scanner) ? line_indentation(sb) : 0;
}

/** How many of them stay for what follows if the open block is cut where other inputs can cut it. */
static size_t kept_indentation(const struct stream_buffer *sb)
{
	enum block_kind kind = block_scanner_kind(sb->scanner);
	bool counts = kind == BLOCK_HTML || kind == BLOCK_INDENTED_CODE ||
		      block_scanner_closable(sb->scanner);
	return counts && !sb->sizes.ends ? line_indentation(sb) : 0;
}

/**
 * Ends the open block: the next text begins a new one. If there are only blanks, they are kept for
 * it.
 */
static void end_block(struct stream_buffer *sb)
{
	struct open_text *open = &sb->open;
	if (!open->seq && !open->continues && block_scanner_kind(sb->scanner) == BLOCK_NONE) {
		return; /* nothing to end */
	}
	if (open->seq) {
		size_t len = open->text.len - next_indentation(sb);
		stream_emit_message(sb, len);
		drop_text(open, len);
	}
	stream_emit_all_held(sb);
	open->continues = 0;
	block_scanner_reset(sb->scanner);
	read_blanks(sb);
}

/** Cuts the open block: emits its text so far; text that follows continues it. */
static void cut_block(struct stream_buffer *sb)
{
	struct open_text *open = &sb->open;
	uint64_t seq = open->seq;
	size_t kept = kept_indentation(sb);
	size_t len = open->text.len - kept;
	stream_emit_message(sb, len);
	stream_emit_all_held(sb);
	drop_text(open, len);
	open->continues = seq;
	if (kept) {
		block_scanner_cut_line(sb->scanner);
		read_blanks(sb);
	} else {
		block_scanner_cut(sb->scanner);
	}
}

/**
 * Whether what follows other inputs can go on with the open block, in its context. A paragraph or
 * heading ends with them.
 */
static bool can_be_continued(const struct stream_buffer *sb)
{
	enum block_kind kind = block_scanner_kind(sb->scanner);
	if (sb->sizes.ends) {
		return block_kind_holds(kind);
	}
	return (block_kind_holds(kind) || kind == BLOCK_HTML || kind == BLOCK_INDENTED_CODE) &&
	       block_scanner_can_go_on(sb->scanner);
}

/**
 * Makes way for events that are held or must not wait: cuts the open block, or ends it if that is
 * what other inputs do to it.
 */
static void let_held_out(struct stream_buffer *sb)
{
	if (can_be_continued(sb)) {
		cut_block(sb);
	} else {
		end_block(sb);
	}
}

/**
 * An input that is not text has arrived. Returns true if it must wait for the open block; else makes
 * way for it: cuts or ends that block, which emits it. A block that was cut, and of which nothing has arrived since, stays as it is.
 */
static bool must_hold(struct stream_buffer *sb)
{
	if (is_holding_block(sb)) {
		return sb->open.seq != 0;
	}
	if (sb->sizes.ends || !can_be_continued(sb)) {
		end_block(sb);
	} else if (sb->open.seq) {
		cut_block(sb);
	}
	return false;
}

/* --- text --- */

/**
 * Notes the message id. Text without one belongs to the message of the preceding text in the turn.
 */
static void take_message_id(struct stream_buffer *sb, const struct stream_input *in)
{
	if (in->message_id) {
		sb->has_message_id = true;
		buffer_clear(&sb->message_id);
		buffer_append(&sb->message_id, in->message_id, in->message_id_len);
	}
}

/** Assigns the open text its seq once it contains more than blanks. */
static void open_if_needed(struct stream_buffer *sb, const struct stream_input *in)
{
	struct open_text *open = &sb->open;
	if (open->seq || !open->has_ink) {
		return;
	}
	open->seq = sb->next_seq++;
	open->ts = in->ts;
	open->turn = in->turn;
	open->has_message_id = sb->has_message_id;
	buffer_clear(&open->message_id);
	buffer_append(&open->message_id, sb->message_id.data, sb->message_id.len);
}

/**
 * Applies the size rules, which depend on the text alone: a paragraph longer than
 * paragraph_flush_size is cut at the end of a line (unless that line may be the header row of a
 * table), any block at block_size. Checking for unmatched markers scans the text, so it is repeated
 * only when the text has grown by a quarter: at most five scans in all. Only '\n' counts as the end
 * of a line here: whether a '\r' is one depends on the next chunk.
 */
static void flush_by_size(struct stream_buffer *sb)
{
	struct open_text *open = &sb->open;
	if (open->text.len >= sb->sizes.block) {
		if (open->seq) {
			cut_block(sb);
		} else {
			/* a block of nothing but blanks is dropped */
			drop_text(open, open->text.len);
			block_scanner_cut(sb->scanner);
		}
		return;
	}
	if (!open->seq || open->text.len < sb->sizes.paragraph ||
		block_scanner_kind(sb->scanner) != BLOCK_PARAGRAPH ||
		block_scanner_may_be_table(sb->scanner) ||
		open->text.data[open->text.len - 1] != '\n' ||
		open->text.len < open->guard_checked + open->guard_checked / 4) {
		return;
	}
	open->guard_checked = open->text.len;
	if (!inline_guard_is_open(open->text.data, open->text.len)) {
		cut_block(sb);
	}
}

/** How many bytes can be added until the open text has `size` bytes. */
static size_t room_below(const struct stream_buffer *sb, size_t size)
{
	return size - (sb->open.text.len < size ? sb->open.text.len : size);
}

/**
 * How much of `text` can be given to the scanner at once without missing a size rule: up to the end
 * of the first line at which one may apply, and up to block_size, in whole characters (the last one
 * can exceed it).
 */
static size_t feed_size(const struct stream_buffer *sb, const char *text, size_t len)
{
	size_t room = room_below(sb, sb->sizes.block);
	size_t step = len;
	if (len > room) {
		step = utf8_floor(text, len, room);
		step = step ? step : utf8_ceil(text, len, 1);
	}
	size_t free = room_below(sb, sb->sizes.paragraph);
	free -= free > 0; /* the newline itself counts */
	free = sb->sizes.waits ? free : 0; /* the end of any line can complete the block */
	const char *newline = free < step ? memchr(text + free, '\n', step - free) : NULL;
	return newline ? (size_t)(newline - text) + 1 : step;
}

/**
 * Whether text with this message id belongs to another message than the open block. Text without an
 * id continues any message.
 */
static bool is_other_message(const struct open_text *open, const struct stream_input *in)
{
	if ((!open->seq && !open->continues) || !in->message_id) {
		return false;
	}
	return !open->has_message_id || open->message_id.len != in->message_id_len ||
	       memcmp(open->message_id.data, in->message_id, in->message_id_len) != 0;
}

/** Whether the newest text belonged to the same message. */
static bool is_message_of(const struct stream_buffer *sb, const struct stream_input *in)
{
	return sb->has_message_id && sb->message_id.len == in->message_id_len &&
	       memcmp(sb->message_id.data, in->message_id, in->message_id_len) == 0;
}

/**
 * Places a chunk of text. Returns the seq of the event that contains its first byte; for blank
 * lines after a completed block that are in no event yet, the seq of that block.
 */
static uint64_t put_text(struct stream_buffer *sb, const struct stream_input *in)
{
	struct open_text *open = &sb->open;
	stream_emit_thought(sb);
	if (is_other_message(open, in)) {
		end_block(sb);
	}
	if (in->message_id && !is_message_of(sb, in)) {
		sb->completed_seq = 0;
	}
	take_message_id(sb, in);
	uint64_t first = open->seq; /* seq of the event that contains the chunk's first byte */
	size_t start = open->text.len; /* position of that byte in the open text */
	open->last_ts = in->ts;
	open->last_at = in->at;
	size_t used;
	for (size_t at = 0; at < in->data_len; at += used) {
		size_t step = feed_size(sb, in->data + at, in->data_len - at);
		size_t end;
		used = block_scanner_feed(sb->scanner, in->data + at, step, &end);
		buffer_append(&open->text, in->data + at, used);
		open->has_ink = open->has_ink || !text_is_blank(in->data + at, used);
		if (end != BLOCK_SCANNER_NO_END) {
			if (!text_is_blank(open->text.data, open->lead + end)) {
				open_if_needed(sb, in);
				first = first ? first : open->seq;
			}
			size_t had = open->text.len;
			close_block_at(sb, end);
			size_t gone = had - open->text.len;
			first = gone && gone <= start
					? 0
					: first; /* the block ended before the chunk */
			start -= gone < start ? gone : start;
		}
		open_if_needed(sb, in);
		first = first ? first : open->seq;
		if (open->seq && !sb->sizes.waits && block_scanner_is_complete(sb->scanner)) {
			sb->completed_seq = open->seq;
			end_block(sb);
			start = 0;
		} else if (at + used == in->data_len || utf8_is_start(in->data[at + used])) {
			flush_by_size(sb);
			/* after a cut, the first byte has been emitted */
			start = open->seq ? start : 0;
		}
	}
	return first ? first : sb->completed_seq;
}

/* --- held inputs, and thoughts --- */

/** Assigns an input its seq and appends it to the held inputs. */
static struct held *hold(struct stream_buffer *sb, const struct stream_input *in)
{
	struct held *held = held_create(sb->next_seq++, in);
	if (list_empty(&sb->held)) {
		sb->held_ts = in->ts;
		sb->held_at = in->at;
	}
	list_append(&sb->held, &held->link);
	sb->ops->held(sb->owner, held->seq, in);
	return held;
}

/**
 * The thought that a chunk continues, if the newest input was a thought: the open one, or the last
 * held one.
 */
static struct held *newest_thought(const struct stream_buffer *sb)
{
	if (!sb->thought_is_newest) {
		return NULL;
	}
	return sb->thought ? sb->thought : list_entry(sb->held.prev, struct held, link);
}

/** Adds to the newest thought, or begins one. */
static struct held *add_thought(struct stream_buffer *sb, const struct stream_input *in)
{
	struct held *thought = newest_thought(sb);
	if (thought) {
		buffer_append(&thought->data, in->data, in->data_len);
	} else if (must_hold(sb)) {
		thought = hold(sb, in);
	} else {
		thought = sb->thought = held_create(sb->next_seq++, in);
	}
	sb->thought_ts = in->ts;
	sb->thought_at = in->at;
	sb->thought_is_newest = true;
	return thought;
}

/**
 * Places a chunk of a thought, split so that where a thought ends does not depend on the chunks.
 */
static uint64_t put_thought(struct stream_buffer *sb, const struct stream_input *in)
{
	uint64_t first = 0;
	struct stream_input part = *in;
	size_t left = in->data_len;
	do {
		const struct held *open = newest_thought(sb);
		size_t had = open ? open->data.len : 0;
		size_t room = had < sb->sizes.thought ? sb->sizes.thought - had : 0;
		part.data_len = utf8_ceil(part.data, left, room);
		const struct held *thought = add_thought(sb, &part);
		first = first ? first : thought->seq;
		if (thought->data.len >= sb->sizes.thought) {
			sb->thought_is_newest = false; /* the next byte begins a new thought */
			stream_emit_thought(sb);
		}
		part.data += part.data_len;
		left -= part.data_len;
	} while (left > 0);
	return first;
}

/* --- everything else --- */

uint64_t stream_buffer_put(struct stream_buffer *sb, const struct stream_input *in)
{
	if (in->type == EVENT_MESSAGE_CHUNK) {
		sb->thought_is_newest = false;
		return put_text(sb, in);
	}
	sb->completed_seq = 0;
	if (in->type == EVENT_THOUGHT_CHUNK) {
		return put_thought(sb, in);
	}
	sb->thought_is_newest = false;
	stream_emit_thought(sb);
	if (!must_hold(sb)) {
		return stream_emit_input(sb, in);
	}
	if (in->type == EVENT_PERMISSION_REQUEST || in->type == EVENT_ELICITATION_REQUEST) {
		/*
		 * The agent waits for the answer: everything is emitted; the text can continue
		 * after it.
		 */
		let_held_out(sb);
		return stream_emit_input(sb, in);
	}
	return hold(sb, in)->seq;
}

void stream_buffer_end_message(struct stream_buffer *sb)
{
	stream_emit_thought(sb);
	end_block(sb);
	sb->has_message_id = false;
	buffer_clear(&sb->message_id);
	sb->completed_seq = 0;
	sb->thought_is_newest = false;
}

void stream_buffer_finish_turn(struct stream_buffer *sb)
{
	stream_buffer_end_message(sb);
	/* Blank lines after the last block of a turn belong to no event. */
	open_reset(&sb->open);
	block_scanner_reset(sb->scanner);
}

/* --- time --- */

void stream_buffer_flush(struct stream_buffer *sb, enum stream_flush flush)
{
	if (flush == STREAM_FLUSH_THOUGHT) {
		stream_emit_thought(sb);
		sb->thought_is_newest = false;
	} else if (flush == STREAM_FLUSH_BLOCK && sb->open.seq) {
		if (list_empty(&sb->held)) {
			cut_block(sb);
		} else {
			let_held_out(sb);
		}
		sb->thought_is_newest = false;
	}
}

/* --- queries --- */

uint64_t stream_buffer_next_seq(const struct stream_buffer *sb)
{
	return sb->next_seq;
}

uint64_t stream_buffer_emitted_seq(const struct stream_buffer *sb)
{
	return sb->emitted_seq;
}

bool stream_buffer_is_idle(const struct stream_buffer *sb)
{
	return !sb->open.seq && !sb->open.text.len && !sb->open.continues && !sb->thought &&
	       list_empty(&sb->held);
}

void stream_buffer_get_open(const struct stream_buffer *sb, struct stream_open *ret_open)
{
	*ret_open = (struct stream_open){0};
	if (sb->thought) {
		ret_open->seq = sb->thought->seq;
		ret_open->type = EVENT_AGENT_THOUGHT;
		ret_open->text = sb->thought->data.data;
		ret_open->len = sb->thought->data.len;
	} else if (sb->open.seq) {
		size_t decided = sb->open.lead + block_scanner_decided(sb->scanner);
		size_t blanks = sb->sizes.ends ? next_indentation(sb) : kept_indentation(sb);
		size_t certain = sb->open.text.len - blanks;
		size_t len = decided < certain ? decided : certain;
		ret_open->seq = sb->open.seq;
		ret_open->type = EVENT_AGENT_MESSAGE;
		ret_open->text = sb->open.text.data;
		ret_open->len = utf8_floor(sb->open.text.data, sb->open.text.len, len);
		if (sb->open.continues) {
			ret_open->context =
				block_scanner_context(sb->scanner, &ret_open->context_len);
			ret_open->start = sb->sizes.ends ? 0 : block_scanner_start(sb->scanner);
		}
	}
}

/* --- lifecycle --- */

struct stream_buffer *stream_buffer_create(const struct limits *limits, uint64_t first_seq,
	const struct stream_buffer_ops *ops, void *owner)
{
	struct stream_buffer *sb = xcalloc(1, sizeof(*sb));
	sb->limits = limits;
	sb->scanner = block_scanner_create();
	stream_buffer_take_sizes(sb);
	sb->ops = ops;
	sb->owner = owner;
	sb->next_seq = first_seq;
	sb->emitted_seq = first_seq - 1;
	list_init(&sb->held);
	return sb;
}

void stream_buffer_take_sizes(struct stream_buffer *sb)
{
	const struct limits *limits = sb->limits;
	sb->sizes = (struct sizes){.paragraph = limits->paragraph_flush_size,
		.thought = limits->thought_size,
		.block = limits->block_size};
	block_scanner_set_rules(sb->scanner, block_rules_linked());
}

void stream_buffer_drop_all(struct stream_buffer *sb)
{
	list_for_each_safe(link, tmp, &sb->held) {
		held_destroy(list_entry(link, struct held, link));
	}
	held_destroy(sb->thought);
	sb->thought = NULL;
	sb->thought_is_newest = false;
	sb->has_message_id = false;
	buffer_clear(&sb->message_id);
	sb->completed_seq = 0;
	open_reset(&sb->open);
	block_scanner_reset(sb->scanner);
}

void stream_buffer_destroy(struct stream_buffer *sb)
{
	if (!sb) {
		return;
	}
	stream_buffer_drop_all(sb);
	block_scanner_destroy(sb->scanner);
	buffer_finish(&sb->open.text);
	buffer_finish(&sb->open.message_id);
	buffer_finish(&sb->message_id);
	free(sb);
}
