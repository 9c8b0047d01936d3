/* A session's history is not the one its clients know any more: it gets a new epoch. */
#include "session_internal.h"

int session_change_epoch(struct session *session, uint64_t *ret_old, uint64_t *ret_new)
{
	uint64_t epoch;
	struct buffer state = {0};
	int r = session_random(&epoch);
	if (r < 0) {
		return r;
	}
	*ret_old = session_log_epoch(session->log);
	*ret_new = epoch;
	bool is_idle = session_state_is_idle(&session->state); /* it has no state but its log */
	if (!is_idle) {
		session_save_state(session, &state);
	}
	r = session_log_change_epoch(
		session->log, epoch, session_next_ts(session), is_idle ? NULL : &state);
	buffer_finish(&state);
	return r;
}
