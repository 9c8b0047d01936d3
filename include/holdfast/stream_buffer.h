/*
 * The stream buffer (docs/blocks.md): places each received input, assigns its seq, holds what
 * arrives while a list, table, fence or quote is open or may be beginning, and emits events in seq
 * order.
 *
 * Deterministic: the same inputs with the same times emit the same events. It reads no clock: its
 * owner asks stream_buffer_deadline() when a flush is due, and journals that flush as an input too.
 * Text is coalesced here and nowhere else.
 */
#ifndef HOLDFAST_STREAM_BUFFER_H
#define HOLDFAST_STREAM_BUFFER_H

#include "holdfast/block_scanner.h"
#include "holdfast/buffer.h"
#include "holdfast/event.h"
#include "holdfast/limits.h"
#include "holdfast/list.h"
#include "holdfast/pack.h"

struct stream_buffer;

/** One received input; everything is borrowed during the call. */
struct stream_input {
	/* EVENT_MESSAGE_CHUNK, EVENT_THOUGHT_CHUNK, or a type that is emitted unchanged */
	enum event_type type;
	const char *type_name; /* for EVENT_CUSTOM */
	size_t type_len;
	const char *message_id; /* NULL: none; for text, that of the preceding text in the turn */
	size_t message_id_len;
	const char *data; /* text of a chunk (valid UTF-8), else a JSON object */
	size_t data_len;
	int64_t ts; /* the timestamp of its event */
	int64_t at; /* when it arrived, on a monotonic clock (ms); timers count from it */
	uint64_t turn;
};

struct stream_buffer_ops {
	/** Emits a complete event; in seq order, without a gap. `view` is borrowed. */
	void (*emit)(void *owner, const struct event_view *view);
	/** An input is held until the open block ends or is cut; it will be emitted with this seq. */
	void (*held)(void *owner, uint64_t seq, const struct stream_input *input);
};

/** Which flush a timer decided on. The numbers are part of the journal's format. */
enum stream_flush {
	STREAM_FLUSH_NONE = 0,
	STREAM_FLUSH_THOUGHT = 1, /* the open thought is emitted */
	STREAM_FLUSH_BLOCK = 2, /* the open block is cut, and what is held is emitted after it */
};

/** Which version a saved state is of. The buffer goes on by that version's rules. */
enum stream_format {
	STREAM_FORMAT_WAITS, /* complete blocks wait for what follows them */
	STREAM_FORMAT_ENDS, /* inputs other than text end a list, an HTML block or indented code */
	STREAM_FORMAT_NOW,
};

/** The open event, as far as deltas and previews can show it. */
struct stream_open {
	uint64_t seq; /* 0: no event is open */
	enum event_type type; /* EVENT_AGENT_MESSAGE or EVENT_AGENT_THOUGHT */
	const char *text; /* borrowed until the next call that changes the buffer */
	size_t len; /* bytes that are certain to stay in this event; whole characters */
	const char *context; /* markdown to put in front when rendering a block that was cut */
	size_t context_len;
	uint32_t start; /* the number of its first list item, if another one is written; else 0 */
};

/**
 * `first_seq` is the seq of the next event. `limits`, `ops` and `owner` must outlive the buffer.
 */
struct stream_buffer *stream_buffer_create(const struct limits *limits, uint64_t first_seq,
	const struct stream_buffer_ops *ops, void *owner);
/**
 * Adopts the current size limits, and the rules of this version and of the cmark-gfm that is
 * linked. They decide where blocks are cut, so stream_buffer_save() writes them: a journal is
 * replayed with those it was written with.
 */
void stream_buffer_take_sizes(struct stream_buffer *sb);
/** Frees the buffer; open and held inputs are dropped, since the journal has them. Accepts NULL. */
void stream_buffer_destroy(struct stream_buffer *sb);

/**
 * Places one input. Returns its seq (the first one if a chunk spans several blocks), or 0 for a
 * chunk of blank lines that belongs to no event yet.
 */
uint64_t stream_buffer_put(struct stream_buffer *sb, const struct stream_input *input);
/**
 * Emits everything open and held, whatever its state. Text that follows belongs to another message;
 * blanks that belong to no block yet are kept for it.
 */
void stream_buffer_end_message(struct stream_buffer *sb);
/** Like stream_buffer_end_message(), at the end of a turn: such blanks are dropped. */
void stream_buffer_finish_turn(struct stream_buffer *sb);
/** Carries out a flush that is due. */
void stream_buffer_flush(struct stream_buffer *sb, enum stream_flush flush);
/**
 * When the next flush is due (ms, on the clock of stream_input.at); INT64_MAX if none is. Cheap.
 */
int64_t stream_buffer_deadline(const struct stream_buffer *sb);
/**
 * The flush to carry out at `now`. NONE even after the deadline while an inline marker is
 * unmatched: then only more text, the size limit or the end of the turn leads to a flush. Scans the
 * text.
 */
enum stream_flush stream_buffer_due(const struct stream_buffer *sb, int64_t now);

/** The seq that the next new event will get. */
uint64_t stream_buffer_next_seq(const struct stream_buffer *sb);
/** The seq of the last event emitted. */
uint64_t stream_buffer_emitted_seq(const struct stream_buffer *sb);
/** Whether nothing is open and nothing is held. */
bool stream_buffer_is_idle(const struct stream_buffer *sb);
/** Whether its state is that of a buffer that was just created for the next seq. */
bool stream_buffer_is_fresh(const struct stream_buffer *sb);
/** Sets *ret_open to the open event; its seq is 0 if no event is open. */
void stream_buffer_get_open(const struct stream_buffer *sb, struct stream_open *ret_open);

/** Appends the whole state for the journal's snapshots (proto/store-format.md). */
void stream_buffer_save(const struct stream_buffer *sb, struct buffer *out);
/**
 * Loads a saved state. Returns -EBADMSG if the bytes are not a valid state; the buffer is empty
 * then. The ts of the inputs stands in for their `at`.
 */
int stream_buffer_load(struct stream_buffer *sb, struct unpack *in, enum stream_format format);

#endif
