/* New epochs, which tell clients that a session's history is not the one they know; repairs. */
#include "session_internal.h"

#include <stdio.h>
#include <string.h>

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
	bool is_idle = session_state_is_idle(&session->state); /* then the log is its whole state */
	if (!is_idle) {
		session_save_state(session, &state);
	}
	r = session_log_change_epoch(
		session->log, epoch, session_next_ts(session), is_idle ? NULL : &state);
	buffer_finish(&state);
	return r;
}

bool session_table_get_repair(
	const struct session_table *table, const char *id, struct store_repaired *ret)
{
	const struct session_log *log = store_get_session(table->store, id, strlen(id));
	if (log && session_log_get_repair(log, ret)) {
		return true;
	}
	*ret = (struct store_repaired){
		.why = "the journal is damaged, and may have had records of it"};
	return log && store_journal_is_damaged(table->store);
}

int session_repair_names(struct session *session, bool forgets, struct names_repaired *ret)
{
	char data[64];
	uint64_t seq;
	bool is_duplicate;
	session_log_get_names_repair(session->log, ret);
	if (ret->status < 0 || !ret->missing || !forgets) {
		return ret->status;
	}
	int len =
		snprintf(data, sizeof(data), "{\"count\":%llu}", (unsigned long long)ret->missing);
	int r = session_input(session,
		&(struct input_event){.type = EVENT_CUSTOM,
			.type_name = EVENT_FORGOTTEN,
			.type_len = strlen(EVENT_FORGOTTEN),
			.data = data,
			.data_len = (size_t)len},
		&seq, &is_duplicate);
	r = r < 0 ? r : store_sync(session->table->store);
	if (r == 0) {
		session_log_forget_names(session->log);
		session_log_save(session->log);
	}
	return r;
}

size_t session_table_count_damaged(const struct session_table *table)
{
	return store_count_damaged(table->store);
}

uint64_t session_table_synced_lsn(const struct session_table *table)
{
	return store_synced_lsn(table->store);
}
