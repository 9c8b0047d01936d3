/*
 * Plays a recording to a client: an ACP agent that says what the recorded one said.
 *
 * It goes through the steps in their order. Where the recorded client asked something, it waits
 * until this client asks the same (the method, and the session); from there on the recorded agent's
 * lines come with their own timing, divided by the speed. Where the recorded agent asked something,
 * it waits for this client's answer, whatever it is, but not for ever. Sessions and the agent's own
 * requests keep their ids; answers get the ids of this client's requests.
 *
 * What this client does differently: what it does not ask is passed over, as soon as it asks for
 * something that comes later or waits for an answer; lines of a session it has not opened are left
 * out, and so is what a session/load brought that it did not ask for. An answer that is due before
 * its request has come is kept for it. A request that the recording does not have (any more) is
 * refused, but for session/new: that opens the session of the next recorded prompt. A
 * session/cancel goes to where the recorded one came, or, if none did, ends the turn at once.
 */
#ifndef HOLDFAST_REPLAY_AGENT_PLAYER_H
#define HOLDFAST_REPLAY_AGENT_PLAYER_H

#include "recording.h"

#include "common/agent_io.h"

struct replay_player {
	uv_loop_t *loop;
	struct agent_io io;
	uv_timer_t timer; /* until the next step is due, or the answer waited for is given up */
	struct replay_recording *recording;
	double speed; /* 0: without pauses */
	double wait_ms; /* for an answer of the client */
	size_t next; /* the step to play */
	double base_at_ms; /* this moment of the recording … */
	double base_now_ms; /* … was at this time of ours */
	double waiting_since_ms; /* for the client's answer; 0: not waiting */
	json_t *open_sessions; /* an object; only its keys matter */
	bool in_unasked_load;
	bool is_exiting; /* as the recorded agent did, when what is queued has gone out */
	bool is_closed;
	int exit_code;
	int exit_signal; /* to die of when the loop has ended; 0: none */
};

/**
 * Opens stdin and stdout on the loop; `recording` must outlive it. Returns 0 or a negative errno.
 */
int replay_player_start(struct replay_player *player, uv_loop_t *loop,
	struct replay_recording *recording, double speed, double wait_ms);
/** Frees everything; the loop has ended. */
void replay_player_finish(struct replay_player *player);

#endif
