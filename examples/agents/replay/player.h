/*
 * Plays a recording to a client: an ACP agent that says what the recorded one said.
 *
 * It goes through the steps in order. Where the recorded client sent a request, it waits until this
 * client sends the same one (same method and session); from there on, the recorded agent's lines
 * follow with their own timing, divided by the speed. Where the recorded agent sent a request, it
 * waits for this client's answer, whatever that is, up to a timeout. Sessions and the agent's own
 * requests keep their ids; answers get the ids of this client's requests.
 *
 * Where this client behaves differently: a recorded request that it does not send is skipped as
 * soon as it sends a later one or waits for an answer. Lines of sessions that it has not opened are
 * left out, and so is what a session/load replayed that it did not request. An answer whose request
 * has not arrived yet is kept for it. A request that the recording does not have, or no longer has,
 * is refused, except session/new: that opens the session of the next recorded prompt. A
 * session/cancel continues at the recorded one, or, if none was recorded, ends the turn at once.
 */
#ifndef HOLDFAST_REPLAY_AGENT_PLAYER_H
#define HOLDFAST_REPLAY_AGENT_PLAYER_H

#include "recording.h"

#include "../common/agent_io.h"

struct replay_player {
	uv_loop_t *loop;
	struct agent_io io;
	uv_timer_t timer; /* until the next step is due, or the wait for an answer times out */
	struct replay_recording *recording;
	double speed; /* 0: no pauses */
	double wait_ms; /* timeout for an answer of the client */
	size_t next; /* index of the next step to play */
	double base_at_ms; /* this moment of the recording … */
	double base_now_ms; /* … was at this time of ours */
	double waiting_since_ms; /* since when the client's answer is awaited; 0: not waiting */
	json_t *open_sessions; /* an object used as a set of ids */
	bool in_unasked_load;
	bool is_exiting; /* exit like the recorded agent once everything queued is written */
	bool is_closed;
	int exit_code;
	int exit_signal; /* signal to raise when the loop has ended; 0: none */
};

/**
 * Opens stdin and stdout on the loop and starts to play. `recording` must outlive the player.
 * Returns 0 or a negative errno.
 */
int replay_player_start(struct replay_player *player, uv_loop_t *loop,
	struct replay_recording *recording, double speed, double wait_ms);
/** Frees everything; call it when the loop has ended. */
void replay_player_finish(struct replay_player *player);

#endif
