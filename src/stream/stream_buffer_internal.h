/* What the files of the stream buffer share. */
#ifndef HOLDFAST_STREAM_BUFFER_INTERNAL_H
#define HOLDFAST_STREAM_BUFFER_INTERNAL_H

#include "holdfast/stream_buffer.h"

/** An event with its seq that waits for a block to close. Thoughts keep their text, not JSON. */
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

/** The text that is still coming in: the open block, or blank lines in front of the next one. */
struct open_text {
	uint64_t seq; /* 0: nothing but blanks so far */
	struct buffer text;
	bool has_ink; /* the text has more than blanks */
	size_t lead; /* bytes of blanks in front of the scanner's block, left over from a cut */
	struct buffer message_id;
	bool has_message_id;
	int64_t ts; /* of the input that opened it */
	int64_t last_ts; /* of the newest chunk */
	int64_t last_at;
	uint64_t turn;
	uint64_t continues; /* seq of the piece before a cut, if the block goes on */
	size_t guard_checked; /* text length at the last look for unmatched markers */
};

/** What decides where blocks are cut, besides the text. */
struct sizes {
	size_t paragraph;
	size_t thought;
	size_t block;
	bool waits; /* a complete block waits for what comes next: so it was in older journals */
};

struct stream_buffer {
	const struct limits *limits; /* its sizes only by way of `sizes` */
	struct sizes sizes;
	const struct stream_buffer_ops *ops;
	void *owner;
	struct block_scanner *scanner;
	uint64_t next_seq;
	uint64_t emitted_seq; /* the last one emitted: the next must be one more */
	struct open_text open;
	struct buffer message_id; /* of the newest text in the turn that came with one */
	bool has_message_id;
	uint64_t
		completed_seq; /* of the block that the newest input completed: blank lines that come
				   next are behind it; 0: none */
	struct list held; /* struct held, in seq order */
	int64_t held_ts; /* when the first of them came */
	int64_t held_at;
	struct held *thought; /* the open thought, when none is held */
	int64_t thought_ts; /* of its newest chunk */
	int64_t thought_at;
	bool thought_is_newest; /* the newest received input was a chunk of the open or last held
				   thought */
};

/* stream_buffer_emit.c */
struct held *held_create(uint64_t seq, const struct stream_input *in);
void held_destroy(struct held *held);
void stream_emit_view(struct stream_buffer *sb, const struct event_view *view);
void stream_emit_all_held(struct stream_buffer *sb);
/** The open thought, if there is one. */
void stream_emit_thought(struct stream_buffer *sb);
/** The first `len` bytes of the open text as an agent_message. */
void stream_emit_message(struct stream_buffer *sb, size_t len);

/** Whether the text is spaces, tabs and line ends only. */
bool text_is_blank(const char *text, size_t len);
/** Whether inputs wait for the end of a block of this kind. */
bool block_kind_holds(enum block_kind kind);
/** Forgets everything that is open or held. */
void stream_buffer_drop_all(struct stream_buffer *sb);

#endif
