/* Shared by the files of `holdfast attach`: attach.c, attach_messages.c and attach_sessions.c. */
#ifndef HOLDFAST_ATTACH_INTERNAL_H
#define HOLDFAST_ATTACH_INTERNAL_H

#include "holdfast/buffer.h"
#include "holdfast/json_text.h"
#include "holdfast/list.h"

#include <jansson.h>
#include <stdbool.h>

/**
 * The state of an editor's conversation with the server, which outlives the connections to the
 * server: requests that wait for an answer, open sessions with the editor's position in each, and
 * questions that the server has asked.
 */
struct attach {
	const char *session; /* opened by session/new; NULL: session/new creates one */
	bool is_read_only;
	char client_id[32];
	bool is_connected;
	bool is_greeted; /* the editor's `initialize` has been answered */
	bool is_coming_back; /* on a new connection, sessions are not resumed yet: the rest waits */
	size_t resuming; /* our session/resume requests without an answer */
	struct json_numbers *numbers; /* of messages that are kept */
	json_t *hello; /* the editor's `initialize`; NULL: not received yet */
	struct list sessions; /* struct open_session */
	struct list waits; /* requests of the editor without an answer */
	size_t wait_count;
	size_t wait_size; /* bytes of the requests in `waits` */
	struct list questions; /* of the server to the editor */
	struct list queue; /* struct attach_message: notifications that wait for a connection */
	size_t queued; /* bytes in `queue` */
	bool has_dropped; /* notifications, and has said so */
	unsigned long prompts; /* how many prompts have been given an id */
	struct buffer to_editor; /* lines */
	struct list to_server; /* struct attach_message */
};

struct attach_message {
	struct list link;
	struct buffer text;
};

/* attach_sessions.c */
struct open_session {
	struct list link;
	char *id;
	char *epoch; /* NULL: no position is known yet */
	json_int_t seq; /* the editor has all events up to this one */
	json_int_t open; /* bytes that it has of the event after `seq`, which is still open */
};
/** Returns NULL if the session is not open. Accepts a NULL `id`. */
struct open_session *attach_find_session(struct attach *attach, const char *id);
/** Returns the session, after adding it if it was not open. */
struct open_session *attach_make_session(struct attach *attach, const char *id);
/** Accepts NULL. */
void attach_drop_session(struct open_session *session);
/** Takes the editor's position from `_meta.holdfast` of an update or an answer. */
void attach_note_place(struct open_session *session, const json_t *place);
/**
 * Returns the `_meta` of a request that continues at the editor's position, as a new reference. The
 * session must have an epoch.
 */
json_t *attach_place_of(const struct open_session *session);

/* attach_messages.c */
void attach_init(struct attach *attach);
void attach_finish(struct attach *attach);
/** Handles a line from the editor; one with nothing but noise (json_lines.h) is nothing. */
void attach_take_line(struct attach *attach, const char *text, size_t len);
/** Handles a message from the server. */
void attach_take_message(struct attach *attach, const char *text, size_t len);
/** To be called after connecting: resumes the editor's sessions, then sends what waits. */
void attach_connected(struct attach *attach);
/** To be called after a disconnect: requests without an answer wait for the next connection. */
void attach_lost(struct attach *attach);

#endif
