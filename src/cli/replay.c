/*
 * holdfast replay: plays a recording into a running server as a producer would, at the recorded or
 * another speed.
 */
#include "holdfast/command.h"

#include "http.h"
#include "recording.h"

#include "holdfast/access.h"
#include "holdfast/beneath.h"
#include "holdfast/diag.h"
#include "holdfast/requests.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

/* The largest batch of inputs due at the same time; by default a server accepts larger ones. */
#define BATCH_INPUTS  1000
#define BATCH_SIZE    ((size_t)1 << 20)
#define WAIT_MAX_NS   1e18
#define LINE_MAX_SIZE ((size_t)64 << 20)

enum { URL, SESSION, SPEED, CREATE, TOKEN_FILE, DATA, OPTION_COUNT };

static const struct option options[] = {
	[URL] = {"--url", "URL", NULL, NULL,
		"the server: http://HOST:PORT, https://HOST:PORT or unix:PATH; by default the one that runs with --data"},
	[SESSION] = {"--session", "ID", NULL, NULL, "the session to play into"},
	[SPEED] = {"--speed", "N|max", NULL, "1",
		"1: as recorded (the default), 2: twice as fast, and so on; max: without pauses"},
	[CREATE] = {"--create", NULL, NULL, NULL,
		"create the session first, with the file's name as its title; without --session the server picks the id"},
	[TOKEN_FILE] = {"--token-file", "FILE", NULL, NULL,
		"a file that contains a token for the server; or set HOLDFAST_TOKEN to the token"},
	[DATA] = {"--data", "DIR", NULL, NULL,
		"the server's data directory, if it is on this machine: its access token is used"},
	{0},
};

static const struct command command = {
	.usage = "replay FILE --url URL|--data DIR [--session ID] [--create] [OPTIONS]",
	.help = "Plays a recording into a session of a running server, and prints the session's id. Each line of FILE is an\n"
		"input as a producer sends it, {\"t\": ms since the start, \"type\", \"data\"}, or an event that holdfast export\n"
		"wrote; replay cuts the messages and thoughts of an export into pieces again. It checks the whole file\n"
		"before it sends anything.\n\n"
		"Exit codes: 0 played to the end, 2 failed; events sent before the failure stay in the session.\n",
	.options = options,
	.words_min = 1,
	.words_max = 1,
};

struct player {
	const char *file_name;
	FILE *file;
	struct http_url url;
	char session[136];
	double speed; /* 0: without waiting */
	int64_t began_ns;
	uint64_t line; /* number of the line being read, from 1 */
	uint64_t inputs; /* in the whole file */
	struct buffer batch; /* inputs that are to be sent next */
	size_t batch_count;
	uint64_t batch_first; /* lines of the first and the last input in the batch */
	uint64_t batch_last;
	json_int_t max_seq;
	struct progress progress;
};

static void sleep_until(int64_t ns)
{
	struct timespec at = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {
	}
}

/* --- the server --- */

/** Reports that the server refused something, with its reason if it gave one. */
static void tell_refusal(const char *what, int status, const json_t *answer)
{
	const json_t *error = json_object_get(answer, "error");
	const char *code = json_string_value(json_object_get(error, "code"));
	const char *message = json_string_value(json_object_get(error, "message"));
	diag(DIAG_ERROR, "the server refused %s: %s (%d): %s", what, code ? code : "HTTP", status,
		message ? message : "it does not say why");
}

/**
 * POSTs a body. Returns the answer if its status is `want` (caller frees with json_decref()), or
 * NULL after reporting the error.
 */
static json_t *post(struct player *player, const char *path, const char *content_type,
	const struct buffer *body, int want, const char *what)
{
	int status;
	char *why;
	struct buffer answer = {0};
	int r = http_post(
		&player->url, path, content_type, body->data, body->len, &status, &answer, &why);
	json_t *json = r < 0 ? NULL : json_loadb(answer.data, answer.len, 0, NULL);
	buffer_finish(&answer);
	bool good = r == 0 && status == want && json;
	if (!good) {
		progress_hide(&player->progress);
	}
	if (r < 0) {
		diag(DIAG_ERROR, "%s", why);
		free(why);
	} else if (!good) {
		tell_refusal(what, status, json);
		json_decref(json);
		json = NULL;
	}
	return json;
}

static int create_session(struct player *player, const char *id)
{
	struct buffer body = {0};
	const char *slash = strrchr(player->file_name, '/');
	json_t *wanted =
		json_pack("{s:s*, s:s*}", "id", id, "title", slash ? slash + 1 : player->file_name);
	if (!wanted) { /* the file's name is not UTF-8 */
		wanted = json_pack("{s:s*}", "id", id);
	}
	char *text = json_dumps(wanted, JSON_COMPACT);
	buffer_append_str(&body, text);
	json_t *answer =
		post(player, "/api/sessions", "application/json", &body, 201, "the session");
	const char *made = json_string_value(json_object_get(answer, "id"));
	int r = made && session_id_is_valid(made, strlen(made)) ? 0 : -EPROTO;
	if (r == 0) {
		snprintf(player->session, sizeof(player->session), "%s", made);
	}
	if (answer && r < 0) {
		diag(DIAG_ERROR, "the server has created a session, but gives no valid id");
	}
	json_decref(answer);
	json_decref(wanted);
	free(text);
	buffer_finish(&body);
	return r;
}

static int send_batch(struct player *player)
{
	char path[192];
	char what[96];
	if (!player->batch_count) {
		return 0;
	}
	snprintf(path, sizeof(path), "/api/sessions/%s/events", player->session);
	snprintf(what, sizeof(what), "lines %llu to %llu", (unsigned long long)player->batch_first,
		(unsigned long long)player->batch_last);
	buffer_append_char(&player->batch, ']');
	json_t *answer = post(player, path, "application/json", &player->batch, 200, what);
	if (!answer) {
		return -EPROTO;
	}
	player->max_seq = json_integer_value(json_object_get(answer, "max_seq"));
	json_decref(answer);
	progress_add(&player->progress, player->batch_count);
	buffer_clear(&player->batch);
	player->batch_count = 0;
	return 0;
}

/* --- the inputs --- */

static int count_input(void *owner, double t, const char *json, size_t len)
{
	((struct player *)owner)->inputs++;
	return 0;
}

/** Returns when an input is due (uv_hrtime()), at most 30 years after the beginning. */
static int64_t due_ns(const struct player *player, double t)
{
	if (player->speed <= 0) {
		return 0;
	}
	double after = t * 1e6 / player->speed;
	after = after < 0 ? 0 : after > WAIT_MAX_NS ? WAIT_MAX_NS : after;
	return player->began_ns + (int64_t)after;
}

/** Adds an input to the batch once it is due. The batch is sent before waiting, or when full. */
static int play_input(void *owner, double t, const char *json, size_t len)
{
	struct player *player = owner;
	int64_t due = due_ns(player, t);
	bool waits = due > (int64_t)uv_hrtime();
	bool is_full = player->batch_count == BATCH_INPUTS || player->batch.len + len > BATCH_SIZE;
	int r = waits || is_full ? send_batch(player) : 0;
	if (r < 0) {
		return r;
	}
	if (waits) {
		sleep_until(due);
	}
	if (!player->batch_count) {
		player->batch_first = player->line;
	}
	player->batch_last = player->line;
	/* The server takes an array as a whole or not at all. */
	buffer_append_char(&player->batch, player->batch_count ? ',' : '[');
	buffer_append(&player->batch, json, len);
	player->batch_count++;
	return 0;
}

static int read_line(
	struct player *player, struct recording *recording, const char *line, size_t len)
{
	const char *why = "it is longer than any event";
	int r = len > LINE_MAX_SIZE ? -EBADMSG : recording_read_line(recording, line, len, &why);
	if (r == -EBADMSG) {
		diag(DIAG_ERROR, "%s: line %llu cannot be played: %s", player->file_name,
			(unsigned long long)player->line, why);
	}
	return r;
}

static int each_input(
	struct player *player, int (*input)(void *owner, double t, const char *json, size_t len))
{
	struct recording recording = {.input = input, .owner = player};
	char *line = NULL;
	size_t size = 0;
	ssize_t len;
	int r = 0;
	rewind(player->file);
	player->line = 0;
	while (r == 0 && (len = getline(&line, &size, player->file)) >= 0) {
		player->line++;
		if (strspn(line, " \t\r\n") < (size_t)len) {
			r = read_line(player, &recording, line, (size_t)len);
		}
	}
	free(line);
	if (r == 0 && ferror(player->file)) {
		diag(DIAG_ERROR, "%s cannot be read: %s", player->file_name, strerror(errno));
		r = -EIO;
	}
	return r;
}

/* --- the command --- */

static int play(struct player *player, const char *session, bool create)
{
	int r = each_input(player, count_input);
	if (r == 0 && create) {
		r = create_session(player, session);
	}
	if (r < 0) {
		return r;
	}
	progress_begin(&player->progress, "inputs", player->inputs);
	player->began_ns = (int64_t)uv_hrtime();
	r = each_input(player, play_input);
	if (r == 0) {
		r = send_batch(player);
	}
	progress_end(&player->progress);
	if (r == 0) {
		diag_print("%s", player->session);
		diag(DIAG_INFO, "played %llu inputs; the session's max_seq is %lld",
			(unsigned long long)player->inputs, (long long)player->max_seq);
	}
	return r;
}

static int take_url(struct player *player, const char *values[])
{
	char *noted = values[URL] || !values[DATA] ? NULL : access_read_command_url(values[DATA]);
	const char *url = values[URL] ? values[URL] : noted;
	int r = 0;
	if (!url) {
		diag(DIAG_ERROR, "--url is needed%s; see holdfast replay --help",
			values[DATA] ? ": no server runs with this data directory" : "");
		r = -EINVAL;
	} else if (http_parse_url(url, &player->url) < 0) {
		r = options_refuse(&options[URL], url, NULL);
	}
	player->url.is_own = noted != NULL;
	free(noted);
	return r;
}

static int take_values(struct player *player, const char *values[])
{
	const char *speed = values[SPEED];
	const char *session = values[SESSION];
	char *end;
	if (!session && !values[CREATE]) {
		diag(DIAG_ERROR, "--session or --create is needed; see holdfast replay --help");
		return -EINVAL;
	}
	if (take_url(player, values) < 0) {
		return -EINVAL;
	}
	if (session && !session_id_is_valid(session, strlen(session))) {
		return options_refuse(&options[SESSION], session, NULL);
	}
	player->speed = strtod(speed, &end);
	if (strcmp(speed, "max") == 0) {
		player->speed = 0;
	} else if (*end || speed[strspn(speed, "0123456789.")] ||
		   !(player->speed >= 0.001 && player->speed <= 1e6)) {
		return options_refuse(&options[SPEED], speed, NULL);
	}
	snprintf(player->session, sizeof(player->session), "%s", session ? session : "");
	return 0;
}

int tool_replay(int argc, char **argv)
{
	const char *words[1] = {0};
	const char *values[OPTION_COUNT] = {0};
	int r = options_parse(&command, argc, argv, words, values, NULL);
	if (r != 0) {
		return r < 0 ? TOOL_FAILED : 0;
	}
	struct player player = {.file_name = words[0]};
	char *token = NULL;
	if (take_values(&player, values) < 0 ||
		tool_find_token(values[TOKEN_FILE], values[DATA], &token) < 0) {
		return TOOL_FAILED;
	}
	player.url.token = token;
	int fd = open_named(words[0], O_RDONLY, 0);
	player.file = fd < 0 ? NULL : fdopen(fd, "r");
	if (!player.file) {
		diag(DIAG_ERROR, "%s cannot be opened: %s", words[0], strerror(errno));
		free(token);
		return TOOL_FAILED;
	}
	r = play(&player, values[SESSION], values[CREATE] != NULL);
	fclose(player.file);
	buffer_finish(&player.batch);
	free(token);
	return r < 0 ? TOOL_FAILED : 0;
}
