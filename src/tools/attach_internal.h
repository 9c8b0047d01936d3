/* What the files of `holdfast attach` share (attach.c, attach_messages.c, attach_sessions.c). */
#ifndef HOLDFAST_ATTACH_INTERNAL_H
#define HOLDFAST_ATTACH_INTERNAL_H

#include "holdfast/buffer.h"
#include "holdfast/list.h"

#include <jansson.h>
#include <stdbool.h>

/**
 * What an editor and the server have to say to each other, over connections that come and go: which requests wait for an answer, which
 * sessions are open and how far the editor is in them, and which questions it is asked.
 */
struct attach {
	const char *session; /* that session/new opens; NULL: it makes one */
	bool is_read_only;
	char client_id[32];
	bool is_connected;
	bool is_greeted; /* the editor's `initialize` has its answer */
	bool is_coming_back; /* the server has been asked for what the editor missed, and has not answered yet */
	size_t resuming; /* sessions that it was asked for */
	json_t *hello; /* the editor's `initialize`; NULL: it has not come */
	struct list sessions;
	struct list waits;
	struct list questions;
	struct list queue; /* messages that wait for a connection */
	size_t queued; /* bytes of those */
	unsigned long prompts;
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
	char *epoch; /* NULL: nothing is known */
	json_int_t seq; /* the editor has the events up to here */
	json_int_t open; /* and so many bytes of the next one */
};
/** NULL: it is not open; `id` may be NULL. */
struct open_session *attach_find_session(struct attach *attach, const char *id);
struct open_session *attach_make_session(struct attach *attach, const char *id);
/** Accepts NULL. */
void attach_drop_session(struct open_session *session);
/** `place` is `_meta.holdfast` of an update, or of an answer. */
void attach_note_place(struct open_session *session, const json_t *place);
/** The `_meta` of a request that goes on there; the session has an epoch. A new reference. */
json_t *attach_place_of(const struct open_session *session);

/* attach_messages.c */
void attach_init(struct attach *attach);
void attach_finish(struct attach *attach);
/** A line of the editor's. */
void attach_take_line(struct attach *attach, const char *text, size_t len);
/** A message of the server's. */
void attach_take_message(struct attach *attach, const char *text, size_t len);
/** There is a connection: the editor's sessions are resumed, and what waits is sent again. */
void attach_connected(struct attach *attach);
/** There is none any more: what was not sent waits for the next one. */
void attach_lost(struct attach *attach);

#endif
