#include "recording.h"

#include "../common/agent_io.h"

#include "holdfast/json_lines.h"
#include "holdfast/json_rpc.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_MAX ((off_t)1024 * 1024 * 1024)

static char *copy_string(const json_t *json)
{
	const char *text = plain_string(json);
	return text ? xstrdup(text) : NULL;
}

/* Classifies the raw line as JSON-RPC. A line that does not parse is neither request nor answer. */
static void read_message(struct replay_step *step, bool by_client)
{
	const char *text = step->line;
	size_t len = step->len;
	json_unwrap(&text, &len);
	step->json = (size_t)(text - step->line);
	step->json_len = len;
	json_t *message = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
	json_t *id = json_object_get(message, "id");
	bool has_id = json_is_string(id) || json_is_number(id);
	bool is_answer = json_object_get(message, "result") || json_object_get(message, "error");
	step->method = copy_string(json_object_get(message, "method"));
	step->id = has_id ? json_incref(id) : NULL;
	step->kind = by_client ? REPLAY_CLIENT_OTHER : REPLAY_AGENT_OTHER;
	if (has_id && step->method) {
		step->kind = by_client ? REPLAY_CLIENT_REQUEST : REPLAY_AGENT_REQUEST;
	} else if (has_id && is_answer) {
		step->kind = by_client ? REPLAY_CLIENT_ANSWER : REPLAY_AGENT_ANSWER;
	}
	const char *place = step->method ? "params" : "result";
	step->session = copy_string(json_object_get(json_object_get(message, place), "sessionId"));
	json_decref(message);
}

static int signal_number(const char *name)
{
	for (int number = 1; name && number < NSIG; number++) {
		const char *known = sigabbrev_np(number);
		if (known && strncmp(name, "SIG", 3) == 0 && strcmp(name + 3, known) == 0) {
			return number;
		}
	}
	return 0;
}

static struct replay_step *add_step(struct replay_recording *r, const json_t *entry)
{
	if (r->count == r->capacity) {
		r->capacity = r->capacity ? r->capacity * 2 : 256;
		r->steps = xrealloc(r->steps, r->capacity * sizeof(*r->steps));
	}
	struct replay_step *step = &r->steps[r->count++];
	*step = (struct replay_step){
		.at_ms = json_number_value(json_object_get(entry, "t")),
		.proc = json_integer_value(json_object_get(entry, "proc")),
	};
	return step;
}

/* Takes an event of the process; only its end is played. */
static bool take_event(struct replay_recording *r, const json_t *entry)
{
	const char *event = plain_string(json_object_get(entry, "event"));
	if (event && strcmp(event, "exit") == 0) {
		struct replay_step *step = add_step(r, entry);
		json_int_t code = json_integer_value(json_object_get(entry, "code"));
		step->kind = REPLAY_EXIT;
		step->exit_code = (int)(code & 0xff);
		step->exit_signal = signal_number(plain_string(json_object_get(entry, "signal")));
	}
	return event != NULL;
}

/* Adds the step of a line of the file. Returns false if the line is invalid. */
static bool take_entry(struct replay_recording *r, const json_t *entry)
{
	const char *dir = plain_string(json_object_get(entry, "dir"));
	const json_t *line = json_object_get(entry, "line");
	if (!dir || !json_is_number(json_object_get(entry, "t")) ||
		json_integer_value(json_object_get(entry, "proc")) <= 0) {
		return false;
	}
	if (strcmp(dir, "ctl") == 0) {
		return take_event(r, entry);
	}
	bool by_client = strcmp(dir, "c2a") == 0;
	if ((!by_client && strcmp(dir, "a2c") != 0) || !json_is_string(line)) {
		return false;
	}
	struct replay_step *step = add_step(r, entry);
	step->len = json_string_length(line);
	step->line = xmalloc(step->len + 1);
	memcpy(step->line, json_string_value(line), step->len + 1);
	read_message(step, by_client);
	return true;
}

/* Finds the latest request before an answer that has its id and no answer yet. */
static struct replay_step *find_peer(
	struct replay_recording *r, size_t at, enum json_rpc_likeness likeness)
{
	bool by_client = r->steps[at].kind == REPLAY_CLIENT_ANSWER;
	enum replay_step_kind wanted = by_client ? REPLAY_AGENT_REQUEST : REPLAY_CLIENT_REQUEST;
	for (size_t i = at; i-- > 0;) {
		struct replay_step *request = &r->steps[i];
		if (request->kind == wanted && !request->peer &&
			json_rpc_same_id(request->id, r->steps[at].id, likeness)) {
			return request;
		}
	}
	return NULL;
}

/* Links an answer with its request. An answer without one becomes a line like any other. */
static void link_answer(struct replay_recording *r, size_t at)
{
	struct replay_step *answer = &r->steps[at];
	struct replay_step *request = find_peer(r, at, JSON_RPC_EQUAL);
	request = request ? request : find_peer(r, at, JSON_RPC_SAME_NUMBER);
	if (!request) {
		bool by_client = answer->kind == REPLAY_CLIENT_ANSWER;
		answer->kind = by_client ? REPLAY_CLIENT_OTHER : REPLAY_AGENT_OTHER;
		return;
	}
	request->peer = answer;
	answer->peer = request;
	if (!request->session && answer->session) {
		request->session = xstrdup(answer->session);
	}
}

static void link_answers(struct replay_recording *r)
{
	for (size_t i = 0; i < r->count; i++) {
		if (r->steps[i].kind == REPLAY_CLIENT_ANSWER ||
			r->steps[i].kind == REPLAY_AGENT_ANSWER) {
			link_answer(r, i);
		}
	}
}

static void take_lines(struct replay_recording *r, FILE *file)
{
	char *line = NULL;
	size_t capacity = 0;
	ssize_t len;
	while ((len = getline(&line, &capacity, file)) > 0) {
		json_t *entry = json_loadb(line, (size_t)len, JSON_ALLOW_NUL, NULL);
		r->bad_lines += !take_entry(r, entry);
		json_decref(entry);
	}
	free(line);
}

static void finish_step(struct replay_step *step)
{
	free(step->line);
	free(step->method);
	free(step->session);
	json_decref(step->id);
	json_decref(step->client_id);
}

/* Keeps the steps of one process. 0: of the first one with a prompt, or else of the first one. */
static void choose_process(struct replay_recording *r, json_int_t proc)
{
	for (size_t i = 0; i < r->count && !proc; i++) {
		proc = replay_step_is(&r->steps[i], "session/prompt") ? r->steps[i].proc : 0;
	}
	if (!proc && r->count) {
		proc = r->steps[0].proc;
	}
	size_t kept = 0;
	for (size_t i = 0; i < r->count; i++) {
		if (r->steps[i].proc == proc) {
			r->steps[kept++] = r->steps[i];
		} else {
			finish_step(&r->steps[i]);
		}
	}
	r->count = kept;
}

int replay_recording_load(struct replay_recording *r, const char *path, long proc)
{
	*r = (struct replay_recording){0};
	FILE *file = fopen(path, "re");
	if (!file) {
		return -errno;
	}
	int err = 0;
	struct stat stat;
	if (fstat(fileno(file), &stat) < 0) {
		err = -errno;
	} else if (stat.st_size > FILE_MAX) {
		err = -EFBIG;
	} else {
		take_lines(r, file);
		err = ferror(file) ? -EIO : 0;
	}
	fclose(file);
	if (!err) {
		choose_process(r, proc);
		link_answers(r);
		err = r->count ? 0 : -ENODATA;
	}
	return err;
}

void replay_recording_drop_commands(struct replay_recording *r)
{
	for (size_t i = 0; i < r->count; i++) {
		struct replay_step *step = &r->steps[i];
		if (step->kind == REPLAY_AGENT_REQUEST &&
			strncmp(step->method, "terminal/", strlen("terminal/")) == 0) {
			step->is_dropped = true;
		}
	}
}

void replay_recording_finish(struct replay_recording *r)
{
	for (size_t i = 0; i < r->count; i++) {
		finish_step(&r->steps[i]);
	}
	free(r->steps);
	*r = (struct replay_recording){0};
}

bool replay_step_is(const struct replay_step *step, const char *method)
{
	return step->kind == REPLAY_CLIENT_REQUEST && strcmp(step->method, method) == 0;
}

bool replay_step_is_of(const struct replay_step *step, const char *session)
{
	return !step->session || !session || strcmp(step->session, session) == 0;
}
