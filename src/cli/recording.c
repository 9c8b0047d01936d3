#include "recording.h"

#include "holdfast/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A message is played in pieces of this size, PIECE_MS apart but within PIECES_MS in all (ms). */
#define PIECE_SIZE 32
#define PIECE_MS   20.0
#define PIECES_MS  1000.0
/* A recording is no longer than this (ms): about 30 years. */
#define TIME_MAX_MS 1e12

static int give(struct recording *recording, double t, const json_t *input)
{
	char *text = json_text(input, recording->numbers);
	int r = recording->input(recording->owner, t, text, strlen(text));
	free(text);
	return r;
}

/** Returns the length of the next piece, which ends between two characters. */
static size_t piece_length(const char *text, size_t len)
{
	return utf8_ceil(text, len, PIECE_SIZE);
}

/** Makes an input with the event's message_id, if it has one. Takes ownership of `data`. */
static json_t *make_input(const json_t *event, const char *type, json_t *data)
{
	json_t *input = json_pack("{s:s, s:o}", "type", type, "data", data);
	json_t *message_id = json_object_get(event, "message_id");
	if (message_id) {
		json_object_set(input, "message_id", message_id);
	}
	return input;
}

static int give_pieces(struct recording *recording, double t, const json_t *event, const char *type,
	const json_t *text)
{
	const char *at = json_string_value(text);
	size_t left = json_string_length(text);
	size_t pieces = left / PIECE_SIZE + 1;
	double step = PIECES_MS / (double)pieces < PIECE_MS ? PIECES_MS / (double)pieces : PIECE_MS;
	int r = 0;
	for (; left && r == 0; t += step) {
		size_t len = piece_length(at, left);
		json_t *input =
			make_input(event, type, json_pack("{s:o}", "text", json_stringn(at, len)));
		r = give(recording, t, input);
		json_decref(input);
		at += len;
		left -= len;
	}
	return r;
}

static int give_event(struct recording *recording, double t, const json_t *event)
{
	const char *type = json_string_value(json_object_get(event, "type"));
	json_t *data = json_object_get(event, "data");
	const json_t *markdown = json_object_get(data, "markdown");
	const json_t *text = json_object_get(data, "text");
	if (strcmp(type, "agent_message") == 0 && json_is_string(markdown)) {
		return give_pieces(recording, t, event, "agent_message_chunk", markdown);
	}
	if (strcmp(type, "agent_thought") == 0 && json_is_string(text)) {
		return give_pieces(recording, t, event, "agent_thought_chunk", text);
	}
	json_t *input = make_input(event, type, json_incref(data));
	int r = give(recording, t, input);
	json_decref(input);
	return r;
}

/** Gives a recorded input, which has a "t", or an exported event, which has a "ts". */
static int give_line(struct recording *recording, json_t *line, bool is_input, const char **ret_why)
{
	double at = json_number_value(json_object_get(line, is_input ? "t" : "ts"));
	if (!is_input) {
		recording->begin = recording->has_begun ? recording->begin : at;
		recording->has_begun = true;
		at -= recording->begin;
	}
	if (at > TIME_MAX_MS) {
		*ret_why = "its time is more than 30 years after the beginning";
		return -EBADMSG;
	}
	if (is_input) {
		json_object_del(line, "t");
		return give(recording, at, line);
	}
	return give_event(recording, at, line);
}

static int read_event(struct recording *recording, json_t *line, const char **ret_why)
{
	const json_t *t = json_object_get(line, "t");
	const json_t *ts = json_object_get(line, "ts");
	if (!json_is_string(json_object_get(line, "type")) ||
		!json_is_object(json_object_get(line, "data"))) {
		*ret_why = "it has no \"type\" and \"data\"";
		return -EBADMSG;
	}
	bool is_input = json_is_number(t) && json_number_value(t) >= 0;
	if (is_input || (json_is_integer(ts) && json_is_integer(json_object_get(line, "seq")))) {
		return give_line(recording, line, is_input, ret_why);
	}
	*ret_why =
		"it has neither \"t\" as a recorded input has, nor \"seq\" and \"ts\" as an exported event has";
	return -EBADMSG;
}

int recording_read_line(
	struct recording *recording, const char *line, size_t len, const char **ret_why)
{
	recording->numbers = json_numbers_create();
	json_t *json = json_read(line, len, JSON_REJECT_DUPLICATES, recording->numbers, NULL);
	int r = -EBADMSG;
	*ret_why = "it is not a JSON object";
	if (json_is_object(json)) {
		r = read_event(recording, json, ret_why);
	}
	json_decref(json);
	json_numbers_destroy(recording->numbers);
	recording->numbers = NULL;
	return r;
}
