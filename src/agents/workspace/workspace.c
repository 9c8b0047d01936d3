#include "workspace_internal.h"

#include "holdfast/clock.h"
#include "holdfast/diag.h"

#include <stdlib.h>
#include <string.h>

void workspace_answer(struct workspace *ws, const json_t *id, json_t *result)
{
	struct buffer out = {0};
	json_rpc_result(&out, id, result);
	ws->ops->send(ws->owner, &out);
}

void workspace_refuse(struct workspace *ws, const json_t *id, int code, const char *why)
{
	struct buffer out = {0};
	json_rpc_error(&out, id, code, why);
	ws->ops->send(ws->owner, &out);
}

/* --- files --- */

static void answer_file(struct workspace *ws, struct file_job *job)
{
	if (job->code != 0) {
		workspace_refuse(ws, job->id, job->code, buffer_cstr(&job->text));
	} else if (job->write) {
		workspace_answer(ws, job->id, json_object());
	} else {
		struct buffer out = {0};
		buffer_append_str(&out, "{\"jsonrpc\":\"2.0\",\"id\":");
		json_rpc_encode(&out, job->id);
		buffer_append_str(&out, ",\"result\":{\"content\":");
		buffer_append(&out, job->text.data, job->text.len);
		buffer_append_str(&out, "}}\n");
		ws->ops->send(ws->owner, &out);
	}
}

static void tell_file(struct workspace *ws, const struct file_job *job)
{
	if (job->code != 0) {
		diag(DIAG_DEBUG, "session %s: a file request of the agent was refused",
			ws->config.session_id);
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
	ws->ops->event(ws->owner, job->write ? "file_write" : "file_read", data);
	json_decref(data);
}

void workspace_file_done(struct workspace *ws)
{
	struct file_job *job = ws->job;
	ws->job = NULL;
	if (!ws->closing) {
		/* The agent may be gone, but what was written is reported nevertheless. */
		if (job->id) {
			answer_file(ws, job);
		}
		tell_file(ws, job);
		ws->ops->file_done(ws->owner);
	}
	file_job_destroy(job);
	workspace_free_if_done(ws);
}

static void handle_file(struct workspace *ws, bool write, const json_t *id, const json_t *params)
{
	const char *why = NULL;
	struct file_job *job = file_job_create(write, params, &why);
	if (!job) {
		workspace_refuse(ws, id, JSON_RPC_INVALID_PARAMS, why);
		return;
	}
	job->root = xstrdup(ws->config.cwd);
	job->root_is_real = ws->config.cwd_is_real;
	job->private_dir = xstrdup(ws->config.private_dir ? ws->config.private_dir : "");
	job->file_max = ws->config.file_max;
	job->names_max = ws->config.file_names_max;
	job->id = json_incref((json_t *)id);
	workspace_do_file(ws, job);
}

bool workspace_handle(
	struct workspace *ws, const char *method, const json_t *id, const json_t *params)
{
	bool write = strcmp(method, "fs/write_text_file") == 0;
	if (write || strcmp(method, "fs/read_text_file") == 0) {
		handle_file(ws, write, id, params);
		return true;
	}
	return workspace_handle_terminal(ws, method, id, params);
}

/* --- lifecycle --- */

struct workspace *workspace_create(uv_loop_t *loop, const struct workspace_config *config,
	const struct workspace_ops *ops, void *owner)
{
	struct workspace *ws = xcalloc(1, sizeof(*ws));
	struct clock clock;
	clock_init(&clock);
	ws->loop = loop;
	ws->config = *config;
	ws->ops = ops;
	ws->owner = owner;
	ws->made_ms = (uint64_t)clock_now_ms(&clock);
	list_init(&ws->terminals);
	uv_timer_init(loop, &ws->tell);
	uv_timer_init(loop, &ws->file_timer);
	ws->tell.data = ws->file_timer.data = ws;
	ws->open_timers = 2;
	return ws;
}

void workspace_free_if_done(struct workspace *ws)
{
	if (!ws->closing || ws->open_timers > 0 || ws->file_process_open ||
		!workspace_is_empty(ws)) {
		return;
	}
	const struct workspace_ops *ops = ws->ops;
	void *owner = ws->owner;
	free(ws);
	ops->freed(owner);
}

static void handle_timer_closed(uv_handle_t *handle)
{
	struct workspace *ws = handle->data;
	ws->open_timers--;
	workspace_free_if_done(ws);
}

void workspace_close(struct workspace *ws)
{
	workspace_abandon(ws);
	ws->closing = true;
	workspace_stop_files(ws);
	uv_close((uv_handle_t *)&ws->tell, handle_timer_closed);
	uv_close((uv_handle_t *)&ws->file_timer, handle_timer_closed);
}

void workspace_abandon(struct workspace *ws)
{
	workspace_release_terminals(ws);
	if (ws->job) {
		json_decref(ws->job->id);
		ws->job->id = NULL;
	}
}

void workspace_pause(struct workspace *ws, bool paused)
{
	ws->paused = paused;
	workspace_pause_terminals(ws, paused);
}

bool workspace_is_at_file(const struct workspace *ws)
{
	return ws->job;
}

bool workspace_has_terminals(const struct workspace *ws)
{
	return ws->terminals_open > 0;
}

bool workspace_is_empty(const struct workspace *ws)
{
	return !ws->job && !ws->terminal_count;
}
