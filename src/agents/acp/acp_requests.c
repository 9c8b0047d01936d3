#include "acp_internal.h"

#include "holdfast/diag.h"
#include "holdfast/elicitation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* An open session/request_permission or elicitation/create. */
struct question {
	struct list link; /* acp_agent.questions */
	char *request_id;
	json_t *id;
	bool is_elicitation;
	json_t *content; /* of its answer, which is not durable yet; NULL: none */
};

void acp_agent_send_error(struct acp_agent *agent, const json_t *id, int code, const char *why)
{
	struct buffer out = {0};
	json_rpc_error(&out, id, code, why);
	acp_agent_send(agent, &out);
}

static void send_outcome(struct acp_agent *agent, const json_t *id, const char *option_id)
{
	struct buffer out = {0};
	json_t *result = option_id ? json_pack("{s:{s:s, s:s}}", "outcome", "outcome", "selected",
					     "optionId", option_id)
				   : json_pack("{s:{s:s}}", "outcome", "outcome", "cancelled");
	json_rpc_result(&out, id, result);
	acp_agent_send(agent, &out);
}

/** `answer` is an option or the action of an elicitation; NULL: cancelled. */
static void answer_question(struct acp_agent *agent, const struct question *q, const char *answer)
{
	struct buffer out = {0};
	if (!q->is_elicitation) {
		send_outcome(agent, q->id, answer);
		return;
	}
	json_t *result = json_pack("{s:s}", "action", answer ? answer : "cancel");
	if (q->content && answer && strcmp(answer, "accept") == 0) {
		json_object_set(result, "content", q->content);
	}
	json_rpc_result(&out, q->id, result);
	acp_agent_send(agent, &out);
}

static void question_free(struct acp_agent *agent, struct question *q)
{
	list_remove(&q->link);
	agent->questions.count--;
	json_decref(q->id);
	json_decref(q->content);
	free(q->request_id);
	free(q);
}

static struct question *question_add(struct acp_agent *agent, const json_t *id)
{
	struct question *q = xcalloc(1, sizeof(*q));
	struct buffer name = {0};
	/*
	 * The name contains the start time because the log outlives this process and its counter.
	 */
	buffer_printf(&name, "p%llx-%lu", (unsigned long long)agent->process.start_ms,
		++agent->questions.asked);
	q->request_id = xstrdup(buffer_cstr(&name));
	buffer_finish(&name);
	q->id = json_incref((json_t *)id);
	list_append(&agent->questions.list, &q->link);
	agent->questions.count++;
	return q;
}

static struct question *find_question(struct acp_agent *agent, const char *request_id)
{
	list_for_each(link, &agent->questions.list) {
		struct question *q = list_entry(link, struct question, link);
		if (strcmp(q->request_id, request_id) == 0) {
			return q;
		}
	}
	return NULL;
}

static void handle_question(
	struct acp_agent *agent, const json_t *id, const json_t *params, bool is_elicitation)
{
	if (agent->turn.cancelling) {
		/*
		 * The agent has not read session/cancel yet; some agents wait forever for this
		 * answer.
		 */
		answer_question(agent,
			&(struct question){.id = (json_t *)id, .is_elicitation = is_elicitation},
			NULL);
		return;
	}
	if (agent->questions.count >= agent->config.questions_max) {
		acp_agent_send_error(agent, id, JSON_RPC_INTERNAL_ERROR, "too many open questions");
		return;
	}
	struct question *q = question_add(agent, id);
	const char *why = NULL;
	q->is_elicitation = is_elicitation;
	json_t *data = is_elicitation ? elicitation_read(params, q->request_id, &why)
				      : acp_update_permission(params, q->request_id, &why);
	if (!data) {
		acp_agent_report_noise(agent,
			is_elicitation ? "an elicitation it cannot use"
				       : "a permission request it cannot use",
			why, strlen(why));
		acp_agent_send_error(agent, id, JSON_RPC_INVALID_PARAMS, why);
		question_free(agent, q);
		return;
	}
	/* The op may answer at once, which frees the question. */
	char *request_id = xstrdup(q->request_id);
	agent->ops->question(agent->owner,
		is_elicitation ? "elicitation_request" : "permission_request", request_id, data);
	acp_agent_note_late(agent);
	free(request_id);
	json_decref(data);
}

void acp_agent_record_content(
	struct acp_agent *agent, const char *request_id, const json_t *content)
{
	struct question *q = find_question(agent, request_id);
	if (q) {
		json_decref(q->content);
		q->content = json_incref((json_t *)content);
	}
}

int acp_agent_answer(struct acp_agent *agent, const char *request_id, const char *option_id)
{
	struct question *q = find_question(agent, request_id);
	if (!q) {
		return -ENOENT;
	}
	answer_question(agent, q, option_id);
	question_free(agent, q);
	return 0;
}

/**
 * Whether the answer is known already and will be given once it is durable: there must not be a
 * second one.
 */
static bool has_answer(const struct acp_agent *agent, const struct question *q)
{
	return agent->ops->permission_is_resolved &&
	       agent->ops->permission_is_resolved(agent->owner, q->request_id);
}

/** Withdraws the question with this id; returns false if there is none. */
static bool withdraw_question(
	struct acp_agent *agent, const json_t *id, enum json_rpc_likeness likeness)
{
	list_for_each(link, &agent->questions.list) {
		struct question *q = list_entry(link, struct question, link);
		if (!json_rpc_same_id(q->id, id, likeness)) {
			continue;
		}
		if (!has_answer(agent, q)) {
			char *request_id = xstrdup(q->request_id);
			answer_question(agent, q, NULL);
			question_free(agent, q);
			agent->ops->permission_withdrawn(agent->owner, request_id);
			free(request_id);
		}
		return true;
	}
	return false;
}

void acp_agent_handle_withdrawal(struct acp_agent *agent, const json_t *params)
{
	const json_t *id = json_object_get(params, "requestId");
	if (!withdraw_question(agent, id, JSON_RPC_EQUAL) &&
		!workspace_withdraw(agent->workspace, id, JSON_RPC_EQUAL) &&
		!withdraw_question(agent, id, JSON_RPC_SAME_NUMBER) &&
		!workspace_withdraw(agent->workspace, id, JSON_RPC_SAME_NUMBER)) {
		diag(DIAG_DEBUG, "session %s: the agent cancels a request that is not open",
			agent->config.session_id);
	}
}

void acp_agent_cancel_questions(struct acp_agent *agent)
{
	list_for_each_safe(link, next, &agent->questions.list) {
		struct question *q = list_entry(link, struct question, link);
		if (!has_answer(agent, q)) {
			answer_question(agent, q, NULL);
			question_free(agent, q);
		}
	}
}

void acp_agent_forget_questions(struct acp_agent *agent)
{
	list_for_each_safe(link, next, &agent->questions.list) {
		question_free(agent, list_entry(link, struct question, link));
	}
}

void acp_agent_handle_request(
	struct acp_agent *agent, const char *method, const json_t *id, const json_t *params)
{
	acp_agent_give_half(agent);
	if (strcmp(method, "session/request_permission") == 0) {
		handle_question(agent, id, params, false);
	} else if (strcmp(method, "elicitation/create") == 0) {
		handle_question(agent, id, params, true);
	} else if (!workspace_handle(agent->workspace, method, id, params)) {
		acp_agent_send_error(agent, id, JSON_RPC_METHOD_NOT_FOUND, "Method not found");
	}
}
