/* Shared by the files of the stream buffer. */
#ifndef HOLDFAST_STREAM_BUFFER_INTERNAL_H
#define HOLDFAST_STREAM_BUFFER_INTERNAL_H

#include "holdfast/stream_buffer.h"

/**
 * An input that has its seq and waits for a block to end; or the open thought, which may wait for
 * nothing. Thoughts keep their text, not JSON.
 */
struct held {
	struct list link;
	uint64_t seq;
	enum event_type type;
	int64_t ts;
	uint64_t turn;
	struct buffer type_name;
	struct buffer message_id;
	bool has_message_id;
	struct buffer data;
};

/** The text that is still coming in: the open block, or blank lines before the next one. */
struct open_text {
	uint64_t seq; /* 0: only blanks so far */
	struct buffer text;
	bool has_ink; /* the text contains more than blanks */
	size_t lead; /* blank bytes before the scanner's block, left over from a cut */
	struct buffer message_id;
	bool has_message_id;
	int64_t ts; /* timestamp of the input that opened the event */
	int64_t last_ts; /* timestamp of the newest chunk */
	int64_t last_at;
	uint64_t turn;
	uint64_t continues; /* seq of the part before a cut, if the block continues; else 0 */
	size_t guard_checked; /* length of the text at the last check for unmatched markers */
};

/** What decides where blocks are cut, apart from the text: sizes, and rules of older journals. */
struct sizes {
	size_t paragraph;
	size_t thought;
	size_t block;
	bool waits; /* as in older journals: a complete block waits for what follows it */
	bool ends; /* as in older journals: other inputs end a list, and no number is told */
};

struct stream_buffer {
	const struct limits *limits; /* use `sizes` in place of its sizes */
	struct sizes sizes;
	const struct stream_buffer_ops *ops;
	void *owner;
	struct block_scanner *scanner;
	uint64_t next_seq;
	uint64_t emitted_seq; /* seq of the last event emitted; the next one is one higher */
	struct open_text open;
	struct buffer message_id; /* of the newest text of the turn that had one */
	bool has_message_id;
	/*
	 * seq of the block that the newest input completed; blank lines that follow get it; 0: none
	 */
	uint64_t completed_seq;
	struct list held; /* struct held, in seq order */
	int64_t held_ts; /* timestamp of the first of them */
	int64_t held_at;
	struct held *thought; /* the open thought, unless it is held */
	int64_t thought_ts; /* timestamp of the newest chunk of a thought */
	int64_t thought_at;
	/* the newest input was a chunk of the open thought or of the last held one */
	bool thought_is_newest;
};

/* stream_buffer_emit.c */
struct held *held_create(uint64_t seq, const struct stream_input *in);
void held_destroy(struct held *held);
void stream_emit_view(struct stream_buffer *sb, const struct event_view *view);
/** Emits an input that waits for nothing; returns its seq. */
uint64_t stream_emit_input(struct stream_buffer *sb, const struct stream_input *in);
void stream_emit_all_held(struct stream_buffer *sb);
/** Emits the open thought, if any. */
void stream_emit_thought(struct stream_buffer *sb);
/** Emits the first `len` bytes of the open text as an agent_message. */
void stream_emit_message(struct stream_buffer *sb, size_t len);

/** Whether the text consists of spaces, tabs and line ends. */
bool text_is_blank(const char *text, size_t len);
/** Whether inputs are held until a block of this kind ends. */
bool block_kind_holds(enum block_kind kind);
/** Drops everything that is open or held. */
void stream_buffer_drop_all(struct stream_buffer *sb);

#endif
