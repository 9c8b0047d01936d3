#include "workspace_internal.h"

#include "holdfast/agent_env.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Commands that the agent has the server run (terminal/…). The agent requests their output when it
 * wants it; observers get it as x-acp-terminal events while it arrives.
 */

#define KEPT_MAX     ((size_t)1024 * 1024)
#define ENTRIES_MAX  1024 /* most arguments, and most variables */
#define WAITERS_MAX  16
#define TELL_BYTES   ((size_t)4096) /* this much output is reported at once */
#define TELL_MS      250 /* less is reported after this; longer if it goes on */
#define TELL_MS_MAX  8000
#define TELLS_A_STEP 32

struct terminal {
	struct list link;
	struct workspace *ws;
	struct child *process; /* NULL: not started, or gone */
	char *id;
	struct output output;
	unsigned tells;
	uint64_t tell_at_ms;
	json_t *waiters; /* ids of requests that wait for its exit */
	bool exited;
	bool released; /* by the agent; freed once the process is closed */
	bool ending; /* released before its command had ended */
	bool closed;
	int64_t exit_status;
	int term_signal;
};

/* --- events --- */

static json_t *about(const struct terminal *t, const char *status)
{
	return json_pack("{s:s, s:s}", "terminal_id", t->id, "status", status);
}

static void tell(struct terminal *t, json_t *data)
{
	t->ws->ops->event(t->ws->owner, "x-acp-terminal", data);
	json_decref(data);
}

static void tell_text(struct terminal *t, json_t *text, uint64_t offset)
{
	json_t *data = about(t, "running");
	json_object_set_new(data, "output", text);
	json_object_set_new(data, "offset", json_integer((json_int_t)offset));
	tell(t, data);
}

static void tell_output(struct terminal *t, bool last)
{
	uint64_t offset;
	json_t *text = output_tell(&t->output, last, &offset);
	if (text) {
		tell_text(t, text, offset);
	}
	text = last ? output_tail(&t->output, &offset) : NULL;
	if (text) {
		tell_text(t, text, offset);
	}
	unsigned steps = ++t->tells / TELLS_A_STEP;
	uint64_t pause = steps < 5 ? (uint64_t)TELL_MS << steps : TELL_MS_MAX;
	t->tell_at_ms = uv_now(t->ws->loop) + pause;
}

static void handle_tell(uv_timer_t *timer)
{
	struct workspace *ws = timer->data;
	uint64_t now = uv_now(ws->loop);
	if (ws->paused) {
		uv_timer_start(timer, handle_tell, TELL_MS, 0);
		return;
	}
	list_for_each_safe(link, next, &ws->terminals) {
		struct terminal *t = list_entry(link, struct terminal, link);
		if (t->output.untold.len > 0 && now >= t->tell_at_ms) {
			tell_output(t, false);
		} else if (t->output.untold.len > 0) {
			uv_timer_start(timer, handle_tell, TELL_MS, 0);
		}
	}
}

/*
 * The exit status of a command, as an object with the given member names; both null while it has
 * not exited.
 */
static json_t *exit_status(const struct terminal *t, const char *code, const char *signal_name)
{
	json_t *out = json_pack("{s:n, s:n}", code, signal_name);
	const char *name = t->term_signal ? sigabbrev_np(t->term_signal) : NULL;
	if (t->exited && t->term_signal == 0) {
		json_object_set_new(out, code, json_integer(t->exit_status));
	} else if (t->exited) {
		struct buffer full = {0};
		buffer_printf(&full, "SIG%s", name ? name : "?");
		json_object_set_new(out, signal_name, json_string(buffer_cstr(&full)));
		buffer_finish(&full);
	}
	return out;
}

static void answer_waiters(struct terminal *t)
{
	for (size_t i = 0; i < json_array_size(t->waiters); i++) {
		workspace_answer(
			t->ws, json_array_get(t->waiters, i), exit_status(t, "exitCode", "signal"));
	}
	json_array_clear(t->waiters);
}

/* --- lifecycle --- */

static void free_if_done(struct terminal *t)
{
	if (!t->released || !t->closed) {
		return;
	}
	struct workspace *ws = t->ws;
	list_remove(&t->link);
	ws->terminal_count--;
	output_finish(&t->output);
	json_decref(t->waiters);
	free(t->id);
	free(t);
	workspace_free_if_done(ws);
}

static void handle_output(void *owner, const char *bytes, size_t len)
{
	struct terminal *t = owner;
	output_push(&t->output, bytes, len);
	if (t->output.untold.len >= TELL_BYTES) {
		tell_output(t, false);
	} else if (t->output.untold.len > 0 && !uv_is_active((uv_handle_t *)&t->ws->tell)) {
		uv_timer_start(&t->ws->tell, handle_tell, TELL_MS, 0);
	}
}

/** stderr is part of stdout, so this is never called. */
static void handle_errors(void *owner, const char *bytes, size_t len)
{
}

static void handle_finished(void *owner, int64_t status, int term_signal)
{
	struct terminal *t = owner;
	t->exited = true;
	t->exit_status = status;
	t->term_signal = term_signal;
	tell_output(t, true);
	json_t *data = about(t, "exited");
	json_t *how = exit_status(t, "exit_code", "signal");
	json_object_update(data, how);
	json_decref(how);
	json_object_set_new(data, "output_bytes", json_integer((json_int_t)t->output.total));
	tell(t, data);
	answer_waiters(t);
	child_end(t->process);
	t->process = NULL;
}

static void handle_closed(void *owner)
{
	struct terminal *t = owner;
	t->closed = true;
	t->process = NULL;
	t->ws->terminals_ending -= t->ending;
	free_if_done(t);
}

/** Releases a terminal; nothing more is reported about it. */
static void release(struct terminal *t)
{
	t->released = true;
	t->ws->terminals_open--;
	if (t->process) {
		t->ending = true;
		t->ws->terminals_ending++;
		child_end(t->process);
		t->process = NULL;
	}
	free_if_done(t);
}

void workspace_release_terminals(struct workspace *ws)
{
	uv_timer_stop(&ws->tell);
	list_for_each_safe(link, next, &ws->terminals) {
		struct terminal *t = list_entry(link, struct terminal, link);
		json_array_clear(t->waiters);
		if (!t->released) {
			release(t);
		}
	}
}

void workspace_pause_terminals(struct workspace *ws, bool paused)
{
	list_for_each(link, &ws->terminals) {
		struct terminal *t = list_entry(link, struct terminal, link);
		if (t->process) {
			child_pause(t->process, paused);
		}
	}
}

/* --- requests of the agent --- */

static bool are_strings(const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		if (!json_is_string(json_array_get(list, i))) {
			return false;
		}
	}
	return !list || json_is_null(list) ||
	       (json_is_array(list) && json_array_size(list) <= ENTRIES_MAX);
}

static bool are_variables(const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *variable = json_array_get(list, i);
		const char *name = json_string_value(json_object_get(variable, "name"));
		if (!name || !*name || strchr(name, '=') ||
			!json_is_string(json_object_get(variable, "value"))) {
			return false;
		}
	}
	return !list || json_is_null(list) ||
	       (json_is_array(list) && json_array_size(list) <= ENTRIES_MAX);
}

/** Returns what is wrong with the parameters of terminal/create, or NULL. */
static const char *find_fault(const json_t *params)
{
	const json_t *cwd = json_object_get(params, "cwd");
	const json_t *limit = json_object_get(params, "outputByteLimit");
	json_int_t bytes;
	if (json_string_length(json_object_get(params, "command")) == 0) {
		return "command must be a string that is not empty";
	}
	if (!are_strings(json_object_get(params, "args"))) {
		return "args must be strings";
	}
	if (!are_variables(json_object_get(params, "env"))) {
		return "env must be variables with a name and a value, strings";
	}
	if (cwd && !json_is_null(cwd) && (!json_is_string(cwd) || *json_string_value(cwd) != '/')) {
		return "cwd must be an absolute path";
	}
	if (limit && !json_is_null(limit) && (!json_whole(limit, &bytes) || bytes < 0)) {
		return "outputByteLimit must be a number from 0";
	}
	return NULL;
}

/**
 * The argument list for execvp(), borrowed strings in an allocated list; NULL if the command has no
 * arguments, so that a shell runs it.
 */
static char **make_args(const json_t *params)
{
	const json_t *args = json_object_get(params, "args");
	size_t count = json_array_size(args);
	if (count == 0) {
		return NULL;
	}
	char **out = xcalloc(count + 2, sizeof(*out));
	out[0] = (char *)json_string_value(json_object_get(params, "command"));
	for (size_t i = 0; i < count; i++) {
		out[i + 1] = (char *)json_string_value(json_array_get(args, i));
	}
	return out;
}

static bool is_set_by(const json_t *variables, const char *entry)
{
	size_t len = strcspn(entry, "=");
	for (size_t i = 0; i < json_array_size(variables); i++) {
		const json_t *name = json_object_get(json_array_get(variables, i), "name");
		if (json_string_length(name) == len &&
			strncmp(json_string_value(name), entry, len) == 0) {
			return true;
		}
	}
	return false;
}

/**
 * The agent's environment, overridden by the variables of the request. Free with agent_env_free().
 */
static char **make_env(char **base, const json_t *variables)
{
	size_t count = 0;
	while (base[count]) {
		count++;
	}
	char **out = xcalloc(count + json_array_size(variables) + 1, sizeof(*out));
	size_t n = 0;
	for (size_t i = 0; i < count; i++) {
		if (!is_set_by(variables, base[i])) {
			out[n++] = xstrdup(base[i]);
		}
	}
	for (size_t i = 0; i < json_array_size(variables); i++) {
		const json_t *variable = json_array_get(variables, i);
		struct buffer entry = {0};
		buffer_printf(&entry, "%s=%s", json_string_value(json_object_get(variable, "name")),
			json_string_value(json_object_get(variable, "value")));
		out[n++] = xstrdup(buffer_cstr(&entry));
		buffer_finish(&entry);
	}
	return out;
}

static int start_command(struct terminal *t, const json_t *params)
{
	static const struct child_ops ops = {
		.output = handle_output,
		.errors = handle_errors,
		.finished = handle_finished,
		.closed = handle_closed,
	};
	const json_t *cwd = json_object_get(params, "cwd");
	char **args = make_args(params);
	char **base = t->ws->config.commands.env ? t->ws->config.commands.env : environ;
	char **env = make_env(base, json_object_get(params, "env"));
	struct child_config config = t->ws->config.commands;
	config.command = json_string_value(json_object_get(params, "command"));
	config.args = args;
	config.env = env;
	config.one_output = true;
	config.cwd = json_is_string(cwd) ? json_string_value(cwd) : t->ws->config.cwd;
	int err = child_spawn(t->ws->loop, &config, &ops, t, &t->process);
	agent_env_free(env);
	free(args);
	return err;
}

static struct terminal *terminal_new(struct workspace *ws, const json_t *limit)
{
	struct terminal *t = xcalloc(1, sizeof(*t));
	struct buffer name = {0};
	/* The name contains a time because the log outlives this process and its counter. */
	buffer_printf(&name, "t%llx-%lu", (unsigned long long)ws->made_ms, ++ws->terminals_made);
	t->id = xstrdup(buffer_cstr(&name));
	buffer_finish(&name);
	t->ws = ws;
	t->waiters = json_array();
	json_int_t wanted;
	bool given = json_whole(limit, &wanted) && (size_t)wanted < KEPT_MAX;
	output_init(&t->output, given ? (size_t)wanted : KEPT_MAX);
	list_append(&ws->terminals, &t->link);
	ws->terminal_count++;
	ws->terminals_open++;
	return t;
}

static void tell_start(struct terminal *t, const json_t *params)
{
	json_t *data = about(t, "running");
	json_object_set(data, "command", json_object_get(params, "command"));
	if (json_array_size(json_object_get(params, "args")) > 0) {
		json_object_set(data, "args", json_object_get(params, "args"));
	}
	if (json_is_string(json_object_get(params, "cwd"))) {
		json_object_set(data, "cwd", json_object_get(params, "cwd"));
	}
	tell(t, data);
}

static void handle_create(struct workspace *ws, const json_t *id, const json_t *params)
{
	const char *fault = find_fault(params);
	if (fault) {
		workspace_refuse(ws, id, JSON_RPC_INVALID_PARAMS, fault);
		return;
	}
	if (ws->terminals_open >= ws->config.terminals_max) {
		workspace_refuse(ws, id, JSON_RPC_INTERNAL_ERROR,
			"too many terminals are open; release one first");
		return;
	}
	if (ws->terminals_open + ws->terminals_ending >= ws->config.terminals_max) {
		workspace_refuse(ws, id, JSON_RPC_INTERNAL_ERROR,
			"too many commands are running: those that were released have not ended yet; try again later");
		return;
	}
	struct terminal *t = terminal_new(ws, json_object_get(params, "outputByteLimit"));
	int err = start_command(t, params);
	if (err < 0) {
		struct buffer why = {0};
		buffer_printf(&why, "the command cannot be started: %s", uv_strerror(err));
		workspace_refuse(ws, id, JSON_RPC_INTERNAL_ERROR, buffer_cstr(&why));
		buffer_finish(&why);
		release(t);
		return;
	}
	workspace_answer(ws, id, json_pack("{s:s}", "terminalId", t->id));
	tell_start(t, params);
}

static void handle_output_request(struct terminal *t, const json_t *id, const json_t *params)
{
	json_t *text = output_kept(&t->output);
	json_t *result = json_pack("{s:o, s:b}", "output", text, "truncated", t->output.truncated);
	if (t->exited) {
		json_object_set_new(result, "exitStatus", exit_status(t, "exitCode", "signal"));
	}
	workspace_answer(t->ws, id, result);
}

static void handle_wait(struct terminal *t, const json_t *id, const json_t *params)
{
	if (json_array_size(t->waiters) >= WAITERS_MAX) {
		workspace_refuse(
			t->ws, id, JSON_RPC_INTERNAL_ERROR, "too many requests wait for this exit");
		return;
	}
	json_array_append(t->waiters, (json_t *)id);
	if (t->exited) {
		answer_waiters(t);
	}
}

bool workspace_is_waited_for(const struct workspace *ws)
{
	list_for_each(link, &ws->terminals) {
		if (json_array_size(list_entry(link, struct terminal, link)->waiters) > 0) {
			return true;
		}
	}
	return false;
}

bool workspace_withdraw(struct workspace *ws, const json_t *id, enum json_rpc_likeness likeness)
{
	list_for_each(link, &ws->terminals) {
		struct terminal *t = list_entry(link, struct terminal, link);
		for (size_t i = 0; i < json_array_size(t->waiters); i++) {
			json_t *waiter = json_array_get(t->waiters, i);
			if (json_rpc_same_id(waiter, id, likeness)) {
				workspace_refuse(
					ws, waiter, JSON_RPC_REQUEST_CANCELLED, "cancelled");
				json_array_remove(t->waiters, i);
				return true;
			}
		}
	}
	return false;
}

static void handle_kill(struct terminal *t, const json_t *id, const json_t *params)
{
	if (t->process) {
		child_terminate(t->process);
	}
	workspace_answer(t->ws, id, json_object());
}

static void handle_release(struct terminal *t, const json_t *id, const json_t *params)
{
	if (!t->exited) {
		tell_output(t, true);
		tell(t, about(t, "released"));
	}
	answer_waiters(t);
	workspace_answer(t->ws, id, json_object());
	release(t);
}

static struct terminal *find_terminal(struct workspace *ws, const json_t *params)
{
	const char *id = json_string_value(json_object_get(params, "terminalId"));
	list_for_each(link, &ws->terminals) {
		struct terminal *t = list_entry(link, struct terminal, link);
		if (id && !t->released && strcmp(t->id, id) == 0) {
			return t;
		}
	}
	return NULL;
}

bool workspace_handle_terminal(
	struct workspace *ws, const char *method, const json_t *id, const json_t *params)
{
	static const struct {
		const char *method;
		void (*handle)(struct terminal *t, const json_t *id, const json_t *params);
	} methods[] = {
		{"terminal/output", handle_output_request},
		{"terminal/wait_for_exit", handle_wait},
		{"terminal/kill", handle_kill},
		{"terminal/release", handle_release},
	};
	if (ws->config.terminals_max > 0 && strcmp(method, "terminal/create") == 0) {
		handle_create(ws, id, params);
		return true;
	}
	for (size_t i = 0; ws->config.terminals_max > 0 && i < sizeof(methods) / sizeof(*methods);
		i++) {
		if (strcmp(method, methods[i].method) == 0) {
			struct terminal *t = find_terminal(ws, params);
			if (t) {
				methods[i].handle(t, id, params);
			} else {
				workspace_refuse(
					ws, id, JSON_RPC_NOT_FOUND, "there is no such terminal");
			}
			return true;
		}
	}
	return false;
}
