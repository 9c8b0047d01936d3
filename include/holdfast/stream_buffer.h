/*
 * The stream buffer (docs/blocks.md): places each received input, gives it its seq,
 * holds what arrives while a list, table, fence or quote is open or may be beginning, and emits
 * events in seq order.
 *
 * Deterministic: the same inputs, with the same times, emit the same events. It reads no clock; its
 * owner asks stream_buffer_deadline() when a flush is due and journals that flush as an input too.
 * Coalescing happens here and nowhere else.
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
	enum event_type
		type; /* EVENT_MESSAGE_CHUNK, EVENT_THOUGHT_CHUNK or a type to emit as it is */
	const char *type_name; /* for EVENT_CUSTOM */
	size_t type_len;
	const char *message_id; /* NULL: none; of text: that of the text before it in the turn */
	size_t message_id_len;
	const char *data; /* text of a chunk (valid UTF-8), else a JSON object */
	size_t data_len;
	int64_t ts; /* its event's */
	int64_t at; /* when it came, on a clock that nobody sets: what timers count from */
	uint64_t turn;
};

struct stream_buffer_ops {
	/** An event is complete; in seq order without a gap. `view` is borrowed. */
	void (*emit)(void *owner, const struct event_view *view);
	/** An input is held until a block closes; it will be emitted with this seq. */
	void (*held)(void *owner, uint64_t seq, const struct stream_input *input);
};

/** Why a flush that the clock decided takes place. The numbers stand in the journal. */
enum stream_flush {
	STREAM_FLUSH_NONE = 0,
	STREAM_FLUSH_THOUGHT = 1, /* the open thought is emitted */
	STREAM_FLUSH_BLOCK = 2, /* the open block is cut; what is held goes out after it */
};

/** The event that is still open, as far as deltas and previews may show it. */
struct stream_open {
	uint64_t seq; /* 0: none is open */
	enum event_type type; /* EVENT_AGENT_MESSAGE or EVENT_AGENT_THOUGHT */
	const char *text; /* borrowed until the next call that changes the buffer */
	size_t len; /* bytes that are certain to stay in this event, whole characters */
	const char *context; /* markdown to put in front when it is rendered (a cut block) */
	size_t context_len;
};

/** `first_seq` is the seq that the next event gets. `limits`, `ops` and `owner` must outlive it. */
struct stream_buffer *stream_buffer_create(const struct limits *limits, uint64_t first_seq,
	const struct stream_buffer_ops *ops, void *owner);
/**
 * Goes by the sizes that the limits hold now, and by the rules of this version and of the cmark-gfm
 * that is linked. They decide where blocks are cut, so those gone by are part of what
 * stream_buffer_save() writes: a journal is replayed by those it was written with.
 */
void stream_buffer_take_sizes(struct stream_buffer *sb);
/** Accepts NULL. What is open or held is lost: the journal has it. */
void stream_buffer_destroy(struct stream_buffer *sb);

/**
 * Places one input. Returns the seq it got (the first one, when a chunk spans blocks), or, for a
 * chunk that opened nothing yet (blank lines only), 0.
 */
uint64_t stream_buffer_put(struct stream_buffer *sb, const struct stream_input *input);
/**
 * Emits everything open and held, whatever its state. What text comes next is of another message;
 * blanks that belong to no block yet stay for it.
 */
void stream_buffer_end_message(struct stream_buffer *sb);
/** The same at the end of a turn: such blanks belong to no event. */
void stream_buffer_finish_turn(struct stream_buffer *sb);
/** Carries out a flush whose time has come. */
void stream_buffer_flush(struct stream_buffer *sb, enum stream_flush flush);
/** When the next flush is due (ms, as in the inputs' at); INT64_MAX if none is. Cheap. */
int64_t stream_buffer_deadline(const struct stream_buffer *sb);
/**
 * The flush to carry out at `now`. NONE also when its time has come but an inline marker is
 * unmatched: then only more text, the size cap or the end of the turn changes that. Reads the text.
 */
enum stream_flush stream_buffer_due(const struct stream_buffer *sb, int64_t now);

/** The seq that the next new event will get. */
uint64_t stream_buffer_next_seq(const struct stream_buffer *sb);
/** The seq of the last event emitted. */
uint64_t stream_buffer_emitted_seq(const struct stream_buffer *sb);
/** Whether nothing is open and nothing is held. */
bool stream_buffer_is_idle(const struct stream_buffer *sb);
/** Whether it is as one that has just been made for the next seq. */
bool stream_buffer_is_fresh(const struct stream_buffer *sb);
void stream_buffer_get_open(const struct stream_buffer *sb, struct stream_open *ret_open);

/** Appends the whole state for the journal's snapshots (proto/store-format.md). */
void stream_buffer_save(const struct stream_buffer *sb, struct buffer *out);
/**
 * Takes over a saved state; -EBADMSG if the bytes are no such state (the buffer is empty then). Its
 * inputs' ts count as their at. `is_old`: of the version before; its complete blocks wait for what
 * comes next, as they did then.
 */
int stream_buffer_load(struct stream_buffer *sb, struct unpack *in, bool is_old);

#endif
