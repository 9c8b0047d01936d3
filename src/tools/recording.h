/*
 * What holdfast replay can read: a producer's recorded stream ({"t", "type", "data"} a line), and
 * an exported log ({"seq", "type", "ts", "data"} a line), whose events are turned back into inputs
 * as far as they can be: a message or thought comes in pieces again.
 */
#ifndef HOLDFAST_RECORDING_H
#define HOLDFAST_RECORDING_H

#include "holdfast/json_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct recording {
	bool has_begun; /* an exported log: `begin` is the time of its first event */
	double begin;
	/**
	 * One input, at `t` ms from the beginning: a JSON text. A negative errno ends the reading.
	 */
	int (*input)(void *owner, double t, const char *json, size_t len);
	void *owner;
	struct json_numbers *numbers; /* of the line that is being read */
};

/**
 * Reads one line and gives its inputs. Returns 0; -EBADMSG with *ret_why (static text) if it is
 * none; or what input() returned.
 */
int recording_read_line(
	struct recording *recording, const char *line, size_t len, const char **ret_why);

#endif
