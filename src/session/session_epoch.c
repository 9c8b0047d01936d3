/* A session's history is not the one its clients know any more: it gets a new epoch. */
#include "session_internal.h"

#include <errno.h>

/**
 * What the journal has of the session is of the old epoch. So its state is put there a second time,
 * for the new one; an idle session has none but its log.
 */
static int journal_state(struct session *session)
{
	struct store *store = session->table->store;
	if (session_state_is_idle(&session->state)) {
		return 0;
	}
	session->segment = 0; /* the segment has one, but not for this epoch */
	int r = session_journal_snapshot(session);
	return r < 0 ? r : store_sync(store);
}

/**
 * The journal first, then metadata.json, which is replaced as a whole: until then the old epoch and
 * what the journal has of it count, from then on the new one does.
 */
int session_change_epoch(struct session *session, uint64_t *ret_old, uint64_t *ret_new)
{
	uint64_t old = session_log_epoch(session->log);
	uint64_t epoch;
	int r = session_random(&epoch);
	if (r < 0) {
		return r;
	}
	session_log_set_epoch(session->log, epoch);
	r = journal_state(session);
	if (r == 0) {
		r = session_log_save_epoch(session->log);
	}
	if (r < 0) {
		session_log_set_epoch(session->log, old);
		return r;
	}
	*ret_old = old;
	*ret_new = epoch;
	return 0;
}
