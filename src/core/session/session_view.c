/* Accessors: the object that lists show of a session, and its state. */
#include "session_internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct channel *session_channel(struct session *session)
{
	return &session->channel;
}

const char *session_id(const struct session *session)
{
	return session_log_id(session->log);
}

void session_log_labels(const struct session_log *log, struct session_labels *ret)
{
	const struct session_facts *facts = session_facts(log);
	const char *title = facts->name          ? facts->name
			    : facts->agent_title ? facts->agent_title
						 : facts->title;
	*ret = (struct session_labels){
		.title = title ? title : "", .archived = facts->archived, .pinned = facts->pinned};
}

void session_log_object(const struct session_log *log, struct session_object *ret)
{
	const struct session_facts *facts = session_facts(log);
	*ret = (struct session_object){
		.id = session_log_id(log),
		.agent = facts->agent,
		.cwd = facts->cwd,
		.epoch = session_log_epoch(log),
		.first_seq = session_log_first_seq(log),
		.max_seq = session_log_last_seq(log),
		.created_at = session_log_created_at(log),
		.updated_at = session_log_updated_at(log),
		.status = facts->in_turn ? "running" : "idle",
		.is_prompting = facts->in_turn,
		.agent_state = facts->agent_state,
	};
	session_log_labels(log, &ret->labels);
}

void session_get_object(const struct session *session, struct session_object *ret)
{
	session_log_object(session->log, ret);
	ret->max_seq = session->channel.max_seq;
	ret->status = session->channel.status.status;
	ret->questions = session->channel.status.questions;
	ret->waiting_for = session->channel.status.waiting_for;
	ret->is_prompting = session->channel.status.is_prompting;
}

bool session_is_prompting(const struct session *session)
{
	return session->state.facts.in_turn;
}

uint64_t session_turn(const struct session *session)
{
	return session->state.facts.turn;
}

bool session_is_turn_of_prompt(const struct session *session)
{
	return session->state.facts.in_turn && session->state.facts.turn_of_prompt;
}

bool session_is_turn_of(const struct session *session, const char *prompt_id)
{
	const char *newest = session->state.facts.prompt_id;
	return session_is_turn_of_prompt(session) && newest && strcmp(newest, prompt_id) == 0;
}

bool session_agent_is_running(const struct session *session)
{
	return session->state.facts.agent_running;
}

const char *session_run(const struct session *session)
{
	return session->state.facts.run_id;
}

const struct usage_total *session_usage(const struct session *session)
{
	return session->state.usage;
}

size_t session_queue_length(const struct session *session)
{
	return prompt_queue_count(session->state.queue);
}

bool session_is_there(const struct session *session)
{
	return session_is_stored(session, session->created_lsn) && !session->has_ended;
}

bool session_is_deleted(const struct session *session)
{
	return session->is_deleted;
}

struct session_table *session_table_of(struct session *session)
{
	return session->table;
}

void session_set_host(struct session *session, void *host)
{
	session->host = host;
}

void *session_host(const struct session *session)
{
	return session->host;
}
