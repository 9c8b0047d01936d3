/* What the commands that use a server share: where it is, and following a session. */
#ifndef HOLDFAST_REMOTE_H
#define HOLDFAST_REMOTE_H

#include "http.h"

#include "holdfast/options.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* The options that each of them begins with. */
enum { REMOTE_URL, REMOTE_DATA, REMOTE_TOKEN_FILE, REMOTE_OPTION_COUNT };
#define REMOTE_OPTIONS                                                                      \
	[REMOTE_URL] = {"--url", "URL", "HOLDFAST_URL", NULL,                               \
		"the server. Default: the one that runs with the data directory"},          \
	[REMOTE_DATA] = {"--data", "DIR", "HOLDFAST_DATA", "./data",                        \
		"the server's data directory, which has its address and its access token"}, \
	[REMOTE_TOKEN_FILE] = {"--token-file", "FILE", NULL, NULL,                          \
		"a file with a token. Otherwise HOLDFAST_TOKEN has one, or the data directory"}

struct remote {
	struct http_url url;
	char *token;
};

/** Finds server and token; says what is wrong. remote_finish() in any case. */
int remote_open(struct remote *remote, const char *const values[]);
void remote_finish(struct remote *remote);
/** A request; 0 with the answer (the caller gives it back) if it is good, else says what is wrong. */
int remote_request(const struct remote *remote, const char *method, const char *path,
	const char *content_type, const char *body, size_t len, json_t **ret_answer);
/** Makes a session unless it is there; a negative errno after saying what is wrong. */
int remote_make_session(const struct remote *remote, const char *id);
/** Whether an argument can be a session's id; says so if not. */
bool remote_check_id(const char *id);

/** Following a session over reconnects: every event comes once, in order. */
struct follow {
	const struct remote *remote;
	const char *id;
	uint64_t last; /* events up to this one are not wanted, and later those that have come */
	bool has_position; /* else the newest `limit` come first */
	unsigned limit;
	bool is_once; /* ends when all that is there has come */
	const char *prompt; /* JSON of a frame that is sent when that is so; NULL: none */
	/** An event; false ends it. `event` is lent. */
	bool (*see)(void *owner, const json_t *event);
	/** Any other frame; the same. May be NULL. */
	bool (*see_frame)(void *owner, const char *type, const json_t *data);
	/** The session's events begin anew, or some have been left out. */
	void (*reset)(void *owner, const char *reason);
	void *owner;
	char epoch[32]; /* "" at first */
	bool is_over;
};

/** Returns 0 when it is over, or a negative errno after saying why it cannot go on. */
int follow_run(struct follow *follow);

#endif
