#include "../acp/acp_internal.h"

#include "holdfast/agent_files.h"
#include "holdfast/diag.h"
#include "holdfast/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * An agent's file requests are done by a process beside it (agent_files.h), one at a time. One that
 * does not answer in time is killed, and until it is gone no other is started: an agent whose file
 * system hangs has one process that hangs.
 *
 * A frame is its length (8 bytes) and the fields that follow, as pack.h writes them.
 */

/* With nothing to do for so long the process ends. */
#define REST_MS 5000

/* What the two say to each other. */

static void end_frame(struct buffer *out)
{
	struct buffer head = {0};
	pack_le(&head, out->len - ACP_FILE_FRAME_HEAD, ACP_FILE_FRAME_HEAD);
	memcpy(out->data, head.data, ACP_FILE_FRAME_HEAD);
	buffer_finish(&head);
}

size_t acp_file_frame_len(const char head[ACP_FILE_FRAME_HEAD])
{
	struct unpack in = {.bytes = head, .len = ACP_FILE_FRAME_HEAD};
	return (size_t)unpack_le(&in, ACP_FILE_FRAME_HEAD);
}

static void pack_job(const struct acp_file_job *job, struct buffer *out)
{
	pack_le(out, 0, ACP_FILE_FRAME_HEAD);
	pack_le(out, job->write, 1);
	pack_bytes(out, job->root, strlen(job->root));
	pack_bytes(out, job->path, strlen(job->path));
	pack_le(out, (uint64_t)job->line, 8);
	pack_le(out, (uint64_t)job->limit, 8);
	pack_le(out, job->file_max, 8);
	pack_le(out, job->names_max, 8);
	pack_bytes(out, job->write ? json_string_value(job->content) : "",
		json_string_length(job->content));
	end_frame(out);
}

static char *unpack_text(struct unpack *in)
{
	size_t len;
	const char *bytes = unpack_bytes(in, &len);
	return xstrndup(bytes, len);
}

struct acp_file_job *acp_file_job_unpack(const char *bytes, size_t len)
{
	struct unpack in = {.bytes = bytes, .len = len};
	struct acp_file_job *job = xcalloc(1, sizeof(*job));
	job->write = unpack_le(&in, 1);
	job->root = unpack_text(&in);
	job->path = unpack_text(&in);
	job->line = (json_int_t)unpack_le(&in, 8);
	job->limit = (json_int_t)unpack_le(&in, 8);
	job->file_max = (size_t)unpack_le(&in, 8);
	job->names_max = (size_t)unpack_le(&in, 8);
	size_t content_len;
	const char *content = unpack_bytes(&in, &content_len);
	job->content = json_stringn_nocheck(content, content_len);
	if (in.failed) {
		acp_file_job_destroy(job);
		return NULL;
	}
	return job;
}

void acp_file_job_pack_outcome(const struct acp_file_job *job, struct buffer *out)
{
	const char *relative = job->relative ? job->relative : "";
	pack_le(out, 0, ACP_FILE_FRAME_HEAD);
	pack_le(out, (uint64_t)(int64_t)job->code, 8);
	pack_le(out, job->size, 8);
	pack_le(out, job->created, 1);
	pack_le(out, job->has_diff, 1);
	pack_le(out, job->diff_cut, 1);
	pack_bytes(out, relative, strlen(relative));
	pack_bytes(out, job->text.data ? job->text.data : "", job->text.len);
	pack_bytes(out, job->diff.data ? job->diff.data : "", job->diff.len);
	end_frame(out);
}

static void take_text(struct unpack *in, struct buffer *out)
{
	size_t len;
	const char *bytes = unpack_bytes(in, &len);
	buffer_clear(out);
	buffer_append(out, bytes, len);
}

static bool take_outcome(struct acp_file_job *job, const char *bytes, size_t len)
{
	struct unpack in = {.bytes = bytes, .len = len};
	job->code = (int)(int64_t)unpack_le(&in, 8);
	job->size = (size_t)unpack_le(&in, 8);
	job->created = unpack_le(&in, 1);
	job->has_diff = unpack_le(&in, 1);
	job->diff_cut = unpack_le(&in, 1);
	free(job->relative);
	job->relative = unpack_text(&in);
	take_text(&in, &job->text);
	take_text(&in, &job->diff);
	return !in.failed;
}

/* Its life. */

static void stop(struct acp_agent *agent)
{
	uv_timer_stop(&agent->file_timer);
	buffer_finish(&agent->file_reply);
	if (agent->file_process) {
		acp_process_end(agent->file_process);
		agent->file_process = NULL;
	}
}

static void end_job(struct acp_agent *agent)
{
	struct acp_file_job *job = agent->job;
	job->done(job);
}

/** The job came to nothing: `why` is what its agent is told. */
static void fail_job(struct acp_agent *agent, const char *why)
{
	struct acp_file_job *job = agent->job;
	job->code = ACP_ERROR_INTERNAL;
	buffer_clear(&job->text);
	buffer_printf(&job->text, "%s%s: %s", why,
		job->write ? "; it may have been written or not" : "", job->path);
	end_job(agent);
}

static void handle_timer(uv_timer_t *timer)
{
	struct acp_agent *agent = timer->data;
	if (!agent->job) {
		stop(agent);
		return;
	}
	diag(DIAG_WARN, "session %s: a file of the agent does not answer", agent->session_id);
	acp_process_kill(agent->file_process);
	stop(agent);
	fail_job(agent, "the file does not answer");
}

static void handle_output(void *owner, const char *bytes, size_t len)
{
	struct acp_agent *agent = owner;
	struct buffer *reply = &agent->file_reply;
	buffer_append(reply, bytes, len);
	if (!agent->job || reply->len < ACP_FILE_FRAME_HEAD) {
		return;
	}
	size_t want = acp_file_frame_len(reply->data);
	if (reply->len - ACP_FILE_FRAME_HEAD < want) {
		return;
	}
	bool good = take_outcome(agent->job, reply->data + ACP_FILE_FRAME_HEAD, want);
	buffer_finish(reply);
	uv_timer_start(&agent->file_timer, handle_timer, REST_MS, 0);
	if (good) {
		end_job(agent);
	} else {
		stop(agent);
		fail_job(agent, "the answer cannot be read");
	}
}

static void handle_errors(void *owner, const char *bytes, size_t len)
{
	struct acp_agent *agent = owner;
	diag(DIAG_WARN, "session %s: the process for files: %.*s", agent->session_id, (int)len,
		bytes);
}

static void handle_finished(void *owner, int64_t status, int term_signal)
{
	struct acp_agent *agent = owner;
	stop(agent);
	if (agent->job) {
		fail_job(agent, "the process that does this has ended");
	}
}

static void handle_closed(void *owner)
{
	struct acp_agent *agent = owner;
	agent->file_process_open = false;
	if (agent->job && !agent->file_process && agent->destroying) {
		fail_job(agent, "the server stops");
		return;
	}
	acp_agent_free_if_done(agent);
}

static int start(struct acp_agent *agent)
{
	static const struct acp_process_ops ops = {
		.output = handle_output,
		.errors = handle_errors,
		.finished = handle_finished,
		.closed = handle_closed,
	};
	char *args[] = {agent->files_program, (char *)AGENT_FILES_COMMAND, NULL};
	struct acp_process_config config = {
		.args = args,
		.cwd = "/", /* the agent's own may be what hangs */
		.stop_grace_ms = agent->stop_grace_ms,
		.descriptors_kept = agent->descriptors_kept,
	};
	agent->file_process_open = true;
	return acp_process_spawn(agent->loop, &config, &ops, agent, &agent->file_process);
}

void acp_agent_do_file(struct acp_agent *agent, struct acp_file_job *job)
{
	struct buffer frame = {0};
	agent->job = job;
	if (!agent->file_process && agent->file_process_open) {
		fail_job(agent, "an earlier file still does not answer");
		return;
	}
	int err = agent->file_process ? 0 : start(agent);
	if (err < 0) {
		char why[128];
		snprintf(why, sizeof(why), "no process can be started for it (%s)",
			uv_strerror(err));
		fail_job(agent, why);
		return;
	}
	pack_job(job, &frame);
	acp_process_write(agent->file_process, &frame);
	uv_timer_start(&agent->file_timer, handle_timer, (uint64_t)agent->file_ms, 0);
}

void acp_agent_stop_files(struct acp_agent *agent)
{
	stop(agent);
}
