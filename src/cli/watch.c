/*
 * holdfast sessions, tail, watch, prompt and append: commands that use a server from a terminal or
 * a script.
 */
#include "remote.h"
#include "holdfast/command.h"
#include "view.h"

#include "holdfast/diag.h"
#include "holdfast/requests.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static const char *text_of(const json_t *data, const char *name)
{
	return json_string_value(json_object_get(data, name));
}

/* --- output --- */

/** These return false if stdout cannot be written, which main() reports. */
static bool show_event(void *owner, const json_t *event)
{
	view_event(owner, event);
	return !ferror(stdout);
}

static bool write_line(const json_t *json, const struct json_numbers *numbers)
{
	char *text = json_text(json, numbers);
	diag_print_json(text, strlen(text));
	free(text);
	return diag_flush() == 0;
}

static bool write_event(void *owner, const json_t *event)
{
	const struct follow *follow = owner;
	return write_line(event, follow->numbers);
}

static void tell_reset(const char *reason)
{
	diag(DIAG_WARN, "the session's events start over (%s)", reason);
}

static void handle_reset(void *owner, const char *reason)
{
	tell_reset(reason);
}

static void handle_view_reset(void *owner, const char *reason)
{
	tell_reset(reason);
	view_reset(owner);
}

/* --- sessions --- */

enum { SESSIONS_JSON = REMOTE_OPTION_COUNT, SESSIONS_COUNT };

static const struct option sessions_options[] = {
	REMOTE_OPTIONS,
	[SESSIONS_JSON] = {"--json", NULL, NULL, NULL, "one JSON object per line"},
	{0},
};

static const struct command sessions_command = {
	.usage = "sessions [OPTIONS]",
	.help = "Lists the sessions of a server, the one that changed last first: id, status, number of the newest event,\n"
		"time of the last change (UTC), title.\n\n"
		"Exit codes: 0 done, 2 failed.\n",
	.options = sessions_options,
};

/** Returns the id, or NULL if the server has sent none. */
static const char *id_of(const json_t *session)
{
	const char *id = text_of(session, "id");
	return id && session_id_is_valid(id, strlen(id)) ? id : NULL;
}

static void print_session(const json_t *session, int id_width)
{
	char when[32];
	struct tm tm;
	struct buffer title = {0};
	struct buffer status = {0};
	const char *word = text_of(session, "status");
	time_t updated =
		(time_t)(json_integer_value(json_object_get(session, "updated_at")) / 1000);
	strftime(when, sizeof(when), "%Y-%m-%d %H:%M", gmtime_r(&updated, &tm));
	const char *text = text_of(session, "title");
	diag_clean(&title, text ? text : "", text ? strlen(text) : 0);
	diag_clean(&status, word ? word : "", word ? strlen(word) : 0);
	diag_print("%-*s  %-8s  %8" JSON_INTEGER_FORMAT "  %s%s%s", id_width, id_of(session),
		buffer_cstr(&status), json_integer_value(json_object_get(session, "max_seq")), when,
		title.len ? "  " : "", buffer_cstr(&title));
	buffer_finish(&title);
	buffer_finish(&status);
}

/**
 * Prints a page of sessions; its first column is as wide as the longest id. Returns 0, or a negative
 * errno after reporting that the page is wrong.
 */
static int print_sessions(const json_t *sessions, bool as_json)
{
	size_t i;
	json_t *session;
	int width = 0;
	json_array_foreach(sessions, i, session) {
		int len = id_of(session) ? (int)strlen(id_of(session)) : INT_MAX;
		width = len > width ? len : width;
	}
	if (!json_is_array(sessions) || width == INT_MAX) {
		diag(DIAG_ERROR, "the answer of the server is not a list of sessions");
		return -EPROTO;
	}
	json_array_foreach(sessions, i, session) {
		if (as_json) {
			write_line(session, NULL);
		} else {
			print_session(session, width);
		}
	}
	return 0;
}

static int list_sessions(const struct remote *remote, bool as_json)
{
	char *cursor = NULL;
	int r = 0;
	do {
		json_t *page;
		char *path = xprintf("/api/sessions?limit=1000%s%s", cursor ? "&cursor=" : "",
			cursor ? cursor : "");
		r = remote_request(remote, "GET", path, NULL, NULL, 0, &page);
		free(path);
		free(cursor);
		cursor = NULL;
		if (r == 0) {
			r = print_sessions(json_object_get(page, "sessions"), as_json);
		}
		const char *next = page ? text_of(page, "next") : NULL;
		cursor = next ? xstrdup(next) : NULL;
		json_decref(page);
	} while (r == 0 && cursor && !ferror(stdout));
	free(cursor);
	return r;
}

int tool_sessions(int argc, char **argv)
{
	const char *values[SESSIONS_COUNT] = {0};
	struct remote remote;
	int r = options_parse(&sessions_command, argc, argv, NULL, values, NULL);
	if (r != 0) {
		return r < 0 ? TOOL_FAILED : 0;
	}
	r = remote_open(&remote, values);
	if (r == 0) {
		r = list_sessions(&remote, values[SESSIONS_JSON] != NULL);
	}
	remote_finish(&remote);
	return r < 0 ? TOOL_FAILED : 0;
}

/* --- tail and watch --- */

enum {
	FOLLOW_AFTER = REMOTE_OPTION_COUNT,
	FOLLOW_LAST,
	FOLLOW_ON,
	FOLLOW_COUNT,
	FOLLOW_PLAIN = FOLLOW_ON
};

static const struct option follow_options[] = {
	REMOTE_OPTIONS,
	[FOLLOW_AFTER] = {"--after", "SEQ", NULL, NULL,
		"begin behind the event with this number; 0: with the first"},
	[FOLLOW_LAST] = {"--last", "N", NULL, "10",
		"otherwise begin with the newest N events. Default: 10"},
	[FOLLOW_ON] = {"--follow", NULL, NULL, NULL,
		"continue with new events as they come, reconnecting if necessary"},
	{0},
};

static const struct option watch_options[] = {
	REMOTE_OPTIONS,
	[FOLLOW_AFTER] = {"--after", "SEQ", NULL, NULL,
		"begin behind the event with this number; 0: with the first"},
	[FOLLOW_LAST] = {"--last", "N", NULL, "50",
		"otherwise begin with the newest N events. Default: 50"},
	[FOLLOW_PLAIN] = {VIEW_PLAIN_OPTION},
	{0},
};

static const struct command tail_command = {
	.usage = "tail SESSION [OPTIONS]",
	.help = "Prints events of a session, one per line, as in the protocol with format=markdown.\n\n"
		"Exit codes: 0 done, 2 failed, or the token or the session has ended.\n",
	.options = follow_options,
	.words_min = 1,
	.words_max = 1,
};

static const struct command watch_command = {
	.usage = "watch SESSION [OPTIONS]",
	.help = "Shows a session live: prompts, messages, thoughts, tools and questions. It reconnects by itself, and continues\n"
		"where it was. Ctrl-C ends it. On a terminal markdown is rendered, in lines of its width, with colours unless\n"
		"NO_COLOR is set.\n\n"
		"Exit codes: 2 failed, or the token or the session has ended.\n",
	.options = watch_options,
	.words_min = 1,
	.words_max = 1,
};

static int parse_count(const struct option *option, const char *text, uint64_t most, uint64_t *ret)
{
	size_t digits = strspn(text, "0123456789");
	*ret = strtoull(text, NULL, 10);
	bool is_good = digits && digits <= 18 && !text[digits] && *ret <= most;
	return is_good ? 0 : options_refuse(option, text, NULL);
}

static int take_start(struct follow *follow, const struct option *options, const char *values[])
{
	uint64_t count;
	int r = parse_count(&options[FOLLOW_LAST], values[FOLLOW_LAST], 5000, &count);
	follow->limit = count ? (unsigned)count : 1;
	if (r == 0 && values[FOLLOW_AFTER]) {
		r = parse_count(
			&options[FOLLOW_AFTER], values[FOLLOW_AFTER], UINT64_MAX, &follow->last);
		follow->has_position = true;
	}
	return r;
}

static int run_follow(const struct command *command, bool is_tail, int argc, char **argv)
{
	const char *words[1] = {0};
	const char *values[FOLLOW_COUNT] = {0};
	struct remote remote;
	int r = options_parse(command, argc, argv, words, values, NULL);
	if (r != 0) {
		return r < 0 ? TOOL_FAILED : 0;
	}
	struct follow start = {0};
	if (!remote_check_id(words[0]) || take_start(&start, command->options, values) < 0) {
		return TOOL_FAILED;
	}
	struct view *view = is_tail ? NULL : view_create(values[FOLLOW_PLAIN] != NULL);
	struct follow follow = {.remote = &remote,
		.id = words[0],
		.last = start.last,
		.has_position = start.has_position,
		.limit = start.limit,
		.is_once = is_tail && !values[FOLLOW_ON],
		.see = is_tail ? write_event : show_event,
		.reset = is_tail ? handle_reset : handle_view_reset};
	follow.owner = is_tail ? (void *)&follow : view;
	r = remote_open(&remote, values);
	r = r < 0 ? r : follow_run(&follow);
	remote_finish(&remote);
	if (view) {
		view_destroy(view);
	}
	return r < 0 ? TOOL_FAILED : 0;
}

int tool_tail(int argc, char **argv)
{
	return run_follow(&tail_command, true, argc, argv);
}

int tool_watch(int argc, char **argv)
{
	return run_follow(&watch_command, false, argc, argv);
}

/* --- prompt --- */

enum { PROMPT_ID = REMOTE_OPTION_COUNT, PROMPT_CREATE, PROMPT_PLAIN, PROMPT_COUNT };

static const struct option prompt_options[] = {
	REMOTE_OPTIONS,
	[PROMPT_ID] = {"--id", "ID", NULL, NULL,
		"the prompt's id: a prompt that is sent twice with the same id runs once. Default: a random one"},
	[PROMPT_CREATE] = {"--create", NULL, NULL, NULL, "create the session if it does not exist"},
	[PROMPT_PLAIN] = {VIEW_PLAIN_OPTION},
	{0},
};

static const struct command prompt_command = {
	.usage = "prompt SESSION MESSAGE [OPTIONS]",
	.help = "Sends a prompt and shows its turn until it ends. If MESSAGE is -, it is read from stdin. Questions of the agent\n"
		"are shown, but have to be answered elsewhere.\n\n"
		"Exit codes: 0 the agent ended its turn, 1 the turn was cancelled or failed, 2 failed.\n",
	.options = prompt_options,
	.words_min = 2,
	.words_max = 2,
};

struct asked {
	struct view *view;
	const char *id;
	json_int_t turn; /* the turn that the prompt began; 0: not begun yet */
	bool is_good;
	bool is_refused;
};

static bool see_turn(void *owner, const json_t *event)
{
	struct asked *asked = owner;
	const json_t *data = json_object_get(event, "data");
	const char *type = text_of(event, "type") ? text_of(event, "type") : "";
	const char *id = text_of(data, "prompt_id");
	json_int_t turn = json_integer_value(json_object_get(event, "turn"));
	if (strcmp(type, "user_prompt") == 0 && id && strcmp(id, asked->id) == 0) {
		asked->turn = turn;
	}
	if (!asked->turn || turn != asked->turn) {
		return true;
	}
	view_event(asked->view, event);
	const char *reason = text_of(data, "stop_reason");
	asked->is_good = reason && strcmp(reason, "end_turn") == 0;
	return strcmp(type, "turn_end") != 0;
}

static bool see_refusal(void *owner, const char *type, const json_t *data)
{
	struct asked *asked = owner;
	const char *id = text_of(data, "prompt_id");
	if (strcmp(type, "error") != 0 || (id && strcmp(id, asked->id) != 0)) {
		return true;
	}
	const char *message = text_of(data, "message");
	const char *code = text_of(data, "code");
	diag(DIAG_ERROR, "%s (%s)", message ? message : "the server does not say why",
		code ? code : "no code");
	asked->is_refused = true;
	return false;
}

/** Appends stdin to `out`. Returns 0, or a negative errno. */
static int read_stdin(struct buffer *out)
{
	ssize_t n;
	do {
		buffer_reserve(out, 65536);
		n = read(STDIN_FILENO, out->data + out->len, 65536);
		out->len += n > 0 ? (size_t)n : 0;
	} while (n > 0 || (n < 0 && errno == EINTR));
	return n < 0 ? -errno : 0;
}

/** Returns the prompt's frame (caller frees), or NULL after reporting why there is none. */
static char *make_prompt(const char *id, const char *message)
{
	struct buffer text = {0};
	int r = 0;
	if (strcmp(message, "-") == 0) {
		r = read_stdin(&text);
	} else {
		buffer_append_str(&text, message);
	}
	bool is_text = r == 0 && !memchr(buffer_cstr(&text), '\0', text.len);
	json_t *frame = is_text ? json_pack("{s:s, s:{s:s, s:s}}", "type", "prompt", "data",
					  "message", buffer_cstr(&text), "prompt_id", id)
				: NULL;
	char *json = frame ? json_dumps(frame, JSON_COMPACT) : NULL;
	if (r < 0) {
		diag(DIAG_ERROR, "the message cannot be read: %s", strerror(-r));
	} else if (!json) {
		diag(DIAG_ERROR, "%s",
			is_text ? "the message is not UTF-8"
				: "the message contains a NUL character");
	}
	json_decref(frame);
	buffer_finish(&text);
	return json;
}

/** Follows the session before it sends the prompt, so that it sees the turn from its beginning. */
static int send_prompt(const struct remote *remote, const char *session, const char *id,
	const char *message, bool is_plain)
{
	struct asked asked = {.id = id, .view = view_create(is_plain)};
	char *prompt = make_prompt(id, message);
	struct follow follow = {.remote = remote,
		.id = session,
		.limit = 1,
		.prompt = prompt,
		.see = see_turn,
		.see_frame = see_refusal,
		.reset = handle_reset,
		.owner = &asked};
	int r = prompt ? follow_run(&follow) : -EINVAL;
	view_destroy(asked.view);
	free(prompt);
	return r < 0 || asked.is_refused ? TOOL_FAILED : !asked.is_good;
}

int tool_prompt(int argc, char **argv)
{
	const char *words[2] = {0};
	const char *values[PROMPT_COUNT] = {0};
	struct remote remote;
	char random[32];
	uint64_t bits;
	int r = options_parse(&prompt_command, argc, argv, words, values, NULL);
	if (r != 0) {
		return r < 0 ? TOOL_FAILED : 0;
	}
	if (!remote_check_id(words[0]) || getrandom(&bits, sizeof(bits), 0) != sizeof(bits)) {
		return TOOL_FAILED;
	}
	snprintf(random, sizeof(random), "cli-%016" PRIx64, bits);
	r = remote_open(&remote, values);
	if (r == 0 && values[PROMPT_CREATE]) {
		r = remote_make_session(&remote, words[0]);
	}
	int code = r < 0 ? TOOL_FAILED
			 : send_prompt(&remote, words[0],
				   values[PROMPT_ID] ? values[PROMPT_ID] : random, words[1],
				   values[PROMPT_PLAIN] != NULL);
	remote_finish(&remote);
	return code;
}

/* --- append --- */

enum { APPEND_CREATE = REMOTE_OPTION_COUNT, APPEND_COUNT };

static const struct option append_options[] = {
	REMOTE_OPTIONS,
	[APPEND_CREATE] = {"--create", NULL, NULL, NULL, "create the session if it does not exist"},
	{0},
};

static const struct command append_command = {
	.usage = "append SESSION [OPTIONS]",
	.help = "Appends events from stdin, one JSON object per line: {\"type\", \"data\", \"message_id\"?, \"key\"?}. Each line\n"
		"is appended as it comes. For each, append prints the event's seq and whether it was there already. Events with\n"
		"a key can be sent again after a failure.\n\n"
		"Exit codes: 0 done, 2 a line was refused; those before it are appended.\n",
	.options = append_options,
	.words_min = 1,
	.words_max = 1,
};

static int append_lines(const struct remote *remote, const char *path)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t len;
	unsigned long number = 0;
	int r = 0;
	while ((len = getline(&line, &size, stdin)) >= 0) {
		json_t *answer;
		number++;
		if (strspn(line, " \t\r\n") == (size_t)len) {
			continue;
		}
		r = remote_request(
			remote, "POST", path, "application/json", line, (size_t)len, &answer);
		const json_t *ack = json_array_get(json_object_get(answer, "acks"), 0);
		if (r < 0) {
			diag(DIAG_ERROR, "line %lu is not appended; those before it are", number);
		} else if (!ack) {
			diag(DIAG_ERROR, "the server does not say whether line %lu is appended",
				number);
			r = -EPROTO;
		}
		bool is_told = r == 0 && write_line(ack, NULL);
		json_decref(answer);
		if (!is_told) {
			break;
		}
	}
	free(line);
	if (r == 0 && ferror(stdin)) {
		diag(DIAG_ERROR, "stdin cannot be read: %s", strerror(errno));
		r = -EIO;
	}
	return r;
}

int tool_append(int argc, char **argv)
{
	const char *words[1] = {0};
	const char *values[APPEND_COUNT] = {0};
	char path[200];
	struct remote remote;
	int r = options_parse(&append_command, argc, argv, words, values, NULL);
	if (r != 0) {
		return r < 0 ? TOOL_FAILED : 0;
	}
	if (!remote_check_id(words[0])) {
		return TOOL_FAILED;
	}
	snprintf(path, sizeof(path), "/api/sessions/%s/events%s", words[0],
		values[APPEND_CREATE] ? "?create=1" : "");
	r = remote_open(&remote, values);
	r = r < 0 ? r : append_lines(&remote, path);
	remote_finish(&remote);
	return r < 0 ? TOOL_FAILED : 0;
}
