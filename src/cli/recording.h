/*
 * Reads what holdfast replay can play: a producer's recorded inputs ({"t", "type", "data"} on each
 * line), or an exported log ({"seq", "type", "ts", "data"} on each line). Events of a log are
 * turned back into inputs as far as possible; messages and thoughts are cut into pieces again.
 */
#ifndef HOLDFAST_RECORDING_H
#define HOLDFAST_RECORDING_H

#include "holdfast/json_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct recording {
	bool has_begun; /* `begin` is set */
	double begin; /* of an exported log: the time of its first event (ms) */
	/**
	 * Called for each input, a JSON text that is due `t` ms after the beginning. A negative
	 * errno ends the reading.
	 */
	int (*input)(void *owner, double t, const char *json, size_t len);
	void *owner;
	struct json_numbers *numbers; /* of the current line */
};

/**
 * Reads one line and calls input() for each of its inputs. Returns 0; -EBADMSG with *ret_why
 * (static text) if the line is neither; or the error of input().
 */
int recording_read_line(
	struct recording *recording, const char *line, size_t len, const char **ret_why);

#endif
