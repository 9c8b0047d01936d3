/*
 * Translates one turn for an AI SDK chat (npm ai): takes what an observer is sent (encoder.h),
 * produces chunks of a UI message stream. Pure.
 */
#ifndef HOLDFAST_AI_TURN_H
#define HOLDFAST_AI_TURN_H

#include "holdfast/encoder.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ai_turn;

/**
 * Selects the turn: that of a prompt whose user_prompt is still to come, or a turn by its number.
 */
struct ai_turn_config {
	const char *prompt_id; /* copied; NULL: use `turn` */
	uint64_t turn;
	const char *session_id; /* copied; for the URLs of images and files */
};

/** Owned by the caller. */
struct ai_turn *ai_turn_create(const struct ai_turn_config *config);
/** Accepts NULL. */
void ai_turn_destroy(struct ai_turn *turn);
/**
 * Call this before the first output, once for each question (permission request) that the client has
 * already seen and answered: chunks begin after the last of them.
 */
void ai_turn_answered(struct ai_turn *turn, const char *request_id);

/** Returns the number of the turn, 0 if its prompt has not arrived yet. */
uint64_t ai_turn_number(const struct ai_turn *turn);

/**
 * Whether the turn has ended, waits for an answer, or cannot continue. Nothing more comes out of it.
 */
bool ai_turn_is_over(const struct ai_turn *turn);
/** Why it cannot continue; NULL: it can, or is complete. */
const char *ai_turn_why(const struct ai_turn *turn);

/*
 * Take what the observer is sent. Chunks are appended to `out`, each a JSON text followed by a
 * newline.
 */
void ai_turn_connected(struct ai_turn *turn, uint64_t epoch);
void ai_turn_page(struct ai_turn *turn, const struct loaded_frame *in, struct buffer *out);
void ai_turn_events(struct ai_turn *turn, const struct live_events *in, struct buffer *out);
void ai_turn_delta(struct ai_turn *turn, const struct open_part *in, struct buffer *out);
void ai_turn_fail(struct ai_turn *turn, const char *why);

/*
 * Encoders whose reader is a turn. On a stream of server-sent events each chunk is an event; on a
 * WebSocket, a frame has the chunks as above, which its socket sends in messages of its own.
 */
extern const struct encoder ai_stream_encoder;
extern const struct encoder ai_socket_encoder;

/**
 * The position of a turn's output. Turns of the same session whose places are equal byte by byte
 * produce the same chunks from the same output, and have equal places afterwards. No padding.
 */
struct ai_place {
	uint64_t turn; /* 0: its prompt has not arrived */
	uint64_t part_seq; /* id of the current part: the seq of its first event */
	uint64_t open_seq; /* the event still growing … */
	uint64_t open_told;
	uint64_t tools[2]; /* ai_tools_sum() */
	char epoch[20];
	bool has_begun; /* its first chunk has been written */
	bool is_muted; /* the client already has what follows */
	bool is_over;
	unsigned char part;
};
/** Writes the turn's place. Returns false if it cannot share its output. */
bool ai_turn_place(const struct ai_turn *turn, struct ai_place *ret);
/** Returns a snapshot of the turn's place, for ai_turn_follow() and ai_turn_destroy() only. */
struct ai_turn *ai_turn_copy(const struct ai_turn *turn);
/** Moves `turn` to the place of `leader`, as if it had taken the same. */
void ai_turn_follow(struct ai_turn *turn, const struct ai_turn *leader);

#endif
