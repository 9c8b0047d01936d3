/* Shared by the commands that use a server: finding it, requests, and following a session. */
#ifndef HOLDFAST_REMOTE_H
#define HOLDFAST_REMOTE_H

#include "http.h"

#include "holdfast/json_text.h"
#include "holdfast/options.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Their common options, which come first in each table. */
enum { REMOTE_URL, REMOTE_DATA, REMOTE_TOKEN_FILE, REMOTE_OPTION_COUNT };
#define REMOTE_OPTIONS                                                                      \
	[REMOTE_URL] = {"--url", "URL", "HOLDFAST_URL", NULL,                               \
		"the server. Default: the one that runs with the data directory"},          \
	[REMOTE_DATA] = {"--data", "DIR", "HOLDFAST_DATA", "./data",                        \
		"the server's data directory, which has its address and its access token"}, \
	[REMOTE_TOKEN_FILE] = {"--token-file", "FILE", NULL, NULL,                          \
		"a file with a token. Default: HOLDFAST_TOKEN, or the data directory's token"}

struct remote {
	struct http_url url;
	char *token;
};

/**
 * Finds the server and the token. Returns 0, or a negative errno after reporting the error. Call
 * remote_finish() in either case.
 */
int remote_open(struct remote *remote, const char *const values[]);
void remote_finish(struct remote *remote);
/**
 * Sends a request. Returns 0 with the answer (caller frees with json_decref()) if its status is 2xx
 * and it is JSON, or a negative errno after reporting the error.
 */
int remote_request(const struct remote *remote, const char *method, const char *path,
	const char *content_type, const char *body, size_t len, json_t **ret_answer);
/** Creates a session unless it exists. Returns 0, or a negative errno after reporting the error. */
int remote_make_session(const struct remote *remote, const char *id);
/** Whether an argument is a valid session id; reports it if not. */
bool remote_check_id(const char *id);

/** Follows a session over reconnects: every event comes once, in order. */
struct follow {
	const struct remote *remote;
	const char *id;
	uint64_t last; /* the last event received; at first the one to begin after */
	bool has_position; /* `last` is set; otherwise the newest `limit` events come first */
	unsigned limit;
	bool is_once; /* end when all existing events have arrived */
	const char *prompt; /* JSON of a frame that is sent at that point; NULL: none */
	/** Called for each event, which is borrowed. Returns false to end. */
	bool (*see)(void *owner, const json_t *event);
	/** Called for each other frame, in the same way. May be NULL. */
	bool (*see_frame)(void *owner, const char *type, const json_t *data);
	/** Called when the session's events start over, or some were skipped. */
	void (*reset)(void *owner, const char *reason);
	void *owner;
	char epoch[32]; /* "" at first */
	struct json_numbers *numbers; /* of the frame that is being handled */
	bool is_over;
};

/** Follows until it is over: returns 0, or a negative errno after reporting the error. */
int follow_run(struct follow *follow);

#endif
