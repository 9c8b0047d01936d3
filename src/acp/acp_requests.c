#include "acp_internal.h"

#include "holdfast/diag.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void acp_agent_send_error(struct acp_agent *agent, const json_t *id, int code, const char *why)
{
	struct buffer out = {0};
	acp_rpc_error(&out, id, code, why);
	acp_agent_send(agent, &out);
}

static void send_outcome(struct acp_agent *agent, const json_t *id, const char *option_id)
{
	struct buffer out = {0};
	json_t *result = option_id ? json_pack("{s:{s:s, s:s}}", "outcome", "outcome", "selected",
					     "optionId", option_id)
				   : json_pack("{s:{s:s}}", "outcome", "outcome", "cancelled");
	acp_rpc_result(&out, id, result);
	acp_agent_send(agent, &out);
}

static void question_free(struct acp_agent *agent, struct acp_question *q)
{
	list_remove(&q->link);
	agent->question_count--;
	json_decref(q->id);
	free(q->request_id);
	free(q);
}

static struct acp_question *question_add(struct acp_agent *agent, const json_t *id)
{
	struct acp_question *q = xcalloc(1, sizeof(*q));
	struct buffer name = {0};
	/*
	 * The start's time is in it because the log outlives this process, and its numbers do not.
	 */
	buffer_printf(&name, "p%llx-%lu", (unsigned long long)agent->start_ms, ++agent->asked);
	q->request_id = xstrdup(buffer_cstr(&name));
	buffer_finish(&name);
	q->id = json_incref((json_t *)id);
	list_append(&agent->questions, &q->link);
	agent->question_count++;
	return q;
}

static struct acp_question *find_question(struct acp_agent *agent, const char *request_id)
{
	list_for_each(link, &agent->questions) {
		struct acp_question *q = list_entry(link, struct acp_question, link);
		if (!strcmp(q->request_id, request_id)) {
			return q;
		}
	}
	return NULL;
}

static void handle_question(struct acp_agent *agent, const json_t *id, const json_t *params)
{
	if (agent->cancelling) {
		/* It has not read session/cancel yet; some wait for this answer for ever. */
		send_outcome(agent, id, NULL);
		return;
	}
	if (agent->question_count >= agent->questions_max) {
		acp_agent_send_error(agent, id, ACP_ERROR_INTERNAL, "too many open questions");
		return;
	}
	struct acp_question *q = question_add(agent, id);
	const char *why = NULL;
	json_t *data = acp_update_permission(params, q->request_id, &why);
	if (!data) {
		acp_agent_report_noise(
			agent, "a permission request it cannot use", why, strlen(why));
		acp_agent_send_error(agent, id, ACP_ERROR_INVALID_PARAMS, why);
		question_free(agent, q);
		return;
	}
	/* The op may answer at once, and then the question is gone. */
	char *request_id = xstrdup(q->request_id);
	agent->ops->permission_request(agent->owner, request_id, data);
	acp_agent_note_late(agent);
	free(request_id);
	json_decref(data);
}

int acp_agent_answer(struct acp_agent *agent, const char *request_id, const char *option_id)
{
	struct acp_question *q = find_question(agent, request_id);
	if (!q) {
		return -ENOENT;
	}
	send_outcome(agent, q->id, option_id);
	question_free(agent, q);
	return 0;
}

/** Whether the answer is known, and comes when it is on disk: there cannot be a second one. */
static bool has_answer(const struct acp_agent *agent, const struct acp_question *q)
{
	return agent->ops->permission_is_resolved &&
	       agent->ops->permission_is_resolved(agent->owner, q->request_id);
}

void acp_agent_handle_withdrawal(struct acp_agent *agent, const json_t *params)
{
	const json_t *id = json_object_get(params, "requestId");
	list_for_each(link, &agent->questions) {
		struct acp_question *q = list_entry(link, struct acp_question, link);
		if (json_equal(q->id, id)) {
			if (has_answer(agent, q)) {
				return;
			}
			char *request_id = xstrdup(q->request_id);
			send_outcome(agent, q->id, NULL);
			question_free(agent, q);
			agent->ops->permission_withdrawn(agent->owner, request_id);
			free(request_id);
			return;
		}
	}
	if (!acp_agent_withdraw_wait(agent, id)) {
		diag(DIAG_DEBUG, "session %s: the agent cancels a request that is not open",
			agent->session_id);
	}
}

void acp_agent_cancel_questions(struct acp_agent *agent)
{
	list_for_each_safe(link, next, &agent->questions) {
		struct acp_question *q = list_entry(link, struct acp_question, link);
		if (!has_answer(agent, q)) {
			send_outcome(agent, q->id, NULL);
			question_free(agent, q);
		}
	}
}

void acp_agent_forget_questions(struct acp_agent *agent)
{
	list_for_each_safe(link, next, &agent->questions) {
		question_free(agent, list_entry(link, struct acp_question, link));
	}
}

static void answer_file(struct acp_agent *agent, struct acp_file_job *job)
{
	struct buffer out = {0};
	if (job->code != 0) {
		acp_rpc_error(&out, job->id, job->code, buffer_cstr(&job->text));
	} else if (job->write) {
		acp_rpc_result(&out, job->id, json_object());
	} else {
		buffer_append_str(&out, "{\"jsonrpc\":\"2.0\",\"id\":");
		acp_rpc_encode(&out, job->id);
		buffer_append_str(&out, ",\"result\":{\"content\":");
		buffer_append(&out, job->text.data, job->text.len);
		buffer_append_str(&out, "}}\n");
	}
	acp_agent_send(agent, &out);
}

static void report_file(struct acp_agent *agent, const struct acp_file_job *job)
{
	if (job->code != 0) {
		diag(DIAG_DEBUG, "session %s: refused a file to the agent", agent->session_id);
		return;
	}
	json_t *data =
		json_pack("{s:s, s:I}", "path", job->relative, "size", (json_int_t)job->size);
	if (job->created) {
		json_object_set_new(data, "created", json_true());
	}
	if (job->has_diff) {
		const struct buffer *diff = &job->diff;
		json_object_set_new(
			data, "diff", json_stringn(diff->len ? diff->data : "", diff->len));
	}
	if (job->diff_cut) {
		json_object_set_new(data, "diff_truncated", json_true());
	}
	agent->ops->event(agent->owner, job->write ? "file_write" : "file_read", data);
	json_decref(data);
}

static void handle_file_done(struct acp_file_job *job)
{
	struct acp_agent *agent = job->owner;
	/* The child that asked may be gone; what was written is written all the same. */
	bool asked_by_this = job->start_id == agent->start_id && agent->process;
	agent->job = NULL;
	if (!agent->destroying) {
		if (asked_by_this) {
			answer_file(agent, job);
		}
		report_file(agent, job);
	}
	acp_file_job_destroy(job);
	acp_agent_wake(agent);
	acp_agent_free_if_done(agent);
}

static void handle_file(struct acp_agent *agent, bool write, const json_t *id, const json_t *params)
{
	const char *why = NULL;
	struct acp_file_job *job = acp_file_job_create(write, params, &why);
	if (!job) {
		acp_agent_send_error(agent, id, ACP_ERROR_INVALID_PARAMS, why);
		return;
	}
	job->root = xstrdup(agent->cwd);
	job->file_max = agent->file_max;
	job->names_max = agent->file_names_max;
	job->id = json_incref((json_t *)id);
	job->start_id = agent->start_id;
	job->owner = agent;
	job->done = handle_file_done;
	acp_agent_do_file(agent, job);
}

void acp_agent_handle_request(
	struct acp_agent *agent, const char *method, const json_t *id, const json_t *params)
{
	if (!strcmp(method, "session/request_permission")) {
		handle_question(agent, id, params);
	} else if (!strcmp(method, "fs/read_text_file")) {
		handle_file(agent, false, id, params);
	} else if (!strcmp(method, "fs/write_text_file")) {
		handle_file(agent, true, id, params);
	} else if (!acp_agent_handle_terminal(agent, method, id, params)) {
		acp_agent_send_error(agent, id, ACP_ERROR_METHOD_NOT_FOUND, "Method not found");
	}
}
