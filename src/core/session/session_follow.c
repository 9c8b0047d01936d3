/*
 * Keeps the state machine and the log's facts in agreement: restores the state from the log, and
 * gives the log those facts that no event carries.
 */
#include "session_internal.h"

#include <stdlib.h>

const struct store_facts session_facts_ops = {
	.create = session_facts_create,
	.destroy = session_facts_destroy,
	.fold = session_facts_fold,
	.needs_data = session_facts_needs_data,
	.write = session_facts_write,
	.read = session_facts_read,
	.name_kinds = session_name_kinds,
	.name_kind_count = NAME_KIND_COUNT,
	.names_of = session_names_of,
	.names_need_data = session_names_need_data,
};

struct session_facts *session_facts(const struct session_log *log)
{
	return session_log_facts(log);
}

void session_follow_run(struct session *session, const char *run_id)
{
	session_facts_set(&session_facts(session->log)->run_id, run_id);
	session_log_facts_changed(session->log);
}

bool session_usage_give_log(struct session *session)
{
	bool is_on_disk = (uint64_t)session->last_lsn <= store_synced_lsn(session->table->store);
	if (session->state.usage_is_new && is_on_disk) {
		free(session_facts(session->log)->usage);
		session_facts(session->log)->usage = session_usage_save(&session->state);
		session_log_facts_changed(session->log);
		session->state.usage_is_new = false;
	}
	return !session->state.usage_is_new;
}

bool session_is_in_log(const struct session *session)
{
	const struct session_log *log = session->log;
	const struct session_state *state = &session->state;
	return session_state_is_in_log(state, session_facts(log), session_log_last_seq(log)) &&
	       state->facts.input_names == session_log_input_names(log);
}

void session_follow_log(struct session *session)
{
	const struct session_log *log = session->log;
	session_state_follow_log(&session->state, session_facts(log), session_log_last_seq(log),
		session->has_snapshot);
	session->state.facts.input_names = session_log_input_names(log);
	session_usage_give_log(session);
}
