/*
 * One turn as a chat of the AI SDK (npm ai) shows it: an observer's frames in, chunks of a UI message
 * stream out. Pure.
 */
#ifndef HOLDFAST_AI_TURN_H
#define HOLDFAST_AI_TURN_H

#include "holdfast/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ai_turn;

/** Which turn it is: that of a prompt, whose user_prompt comes; or the one of this number. */
struct ai_turn_config {
	const char *prompt_id; /* copied; NULL: `turn` */
	uint64_t turn;
	const char *session_id; /* copied; of addresses of images and files */
};

struct ai_turn *ai_turn_create(const struct ai_turn_config *config);
/** Accepts NULL. */
void ai_turn_destroy(struct ai_turn *turn);
/**
 * The client has all up to this question, and has answered it: chunks begin behind it. Before the
 * first frame; several may be answered.
 */
void ai_turn_answered(struct ai_turn *turn, const char *request_id);

/** The number of the turn; 0: its prompt has not come. */
uint64_t ai_turn_number(const struct ai_turn *turn);

enum ai_progress {
	AI_GOES_ON,
	AI_ENDED, /* the turn has ended, or waits for an answer */
	AI_FAILED, /* there is no more of it, and *ret_why says why */
};

/**
 * Takes a frame and appends the chunks that it becomes to `out`, each a JSON text with a newline
 * behind it. Frames that are no affair of a chat become nothing. *ret_why is valid until the next
 * call.
 */
enum ai_progress ai_turn_take(struct ai_turn *turn, const char *frame, size_t len,
	struct buffer *out, const char **ret_why);

/**
 * How far a turn has been told. Two of the same session with the same bytes here make the same chunks of
 * the same frames, and are at the same place again after each. It has no padding.
 */
struct ai_place {
	uint64_t turn; /* 0: its prompt has not come */
	uint64_t part_seq; /* the name of what is being said: the seq of its first event */
	uint64_t open_seq; /* the event that grows, of which so many bytes are told */
	uint64_t open_told;
	uint64_t tools[2]; /* a sum of what its tool calls were told */
	char epoch[20];
	bool has_begun; /* its first chunk is out */
	bool is_muted; /* the client has what comes */
	bool is_over;
	unsigned char part;
};
/** False: nobody is where this one is. */
bool ai_turn_place(const struct ai_turn *turn, struct ai_place *ret);
/** Where it is, for ai_turn_follow() and ai_turn_destroy() only. */
struct ai_turn *ai_turn_copy(const struct ai_turn *turn);
/** Goes to where another one is now, as if it had taken the same frames. What ai_turn_take() would say. */
enum ai_progress ai_turn_follow(struct ai_turn *turn, const struct ai_turn *leader);

#endif
