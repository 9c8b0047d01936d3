/* Private to src/server: what the WebSockets of observers, chats and editors share. */
#ifndef HOLDFAST_WS_INTERNAL_H
#define HOLDFAST_WS_INTERNAL_H

#include "server/net_internal.h"

/* ws_observer.c */
/** What its observers have of its query, its token and its name. Borrows from the connection. */
struct observer_config ws_observer_config(const struct conn *conn);
/** The gauge that counts such an observer. */
enum metric ws_observer_metric(const struct conn *conn);
/** The observer's socket is that of its connection. */
extern const struct observer_socket_ops ws_observer_socket_ops;
/** Sends an observer who is present, if it watches that and it has changed. */
void ws_tell_presence(struct conn *conn);
/** Confirms an observer's token, and applies its rights. */
void ws_observer_renewed(struct conn *conn);

/* ws_content.c */
#define BLOB_DAMAGED \
	"the image or file is damaged on the server's disk, and is not given out; send it to the session again, which repairs it"
/**
 * Whether a prompt has to wait until its images and files are checked: then the connection is
 * parked, and handles the message again later.
 */
bool ws_waits_for_content(
	struct conn *conn, const struct request *request, const char *text, size_t len);
/** After the check: adds what was found to the prompt, or refuses it. */
int ws_take_content(struct conn *conn, struct request *request, struct refusal *refusal);
/** Cancels the check. Does nothing if none is running. */
void ws_content_drop(struct conn *conn);

/* ws_prompts.c */
/** Refuses if the session has no agent. Returns 0 or -EINVAL. */
int conn_check_agent(const struct conn *conn, struct refusal *refusal);
/** Passes a setting or a login on to the session's agent. Returns 0 or -EINVAL. */
int conn_apply_setting(struct conn *conn, const struct request *request, struct refusal *refusal);
/** Gives the session a prompt whose images and files have been checked. */
int conn_take_prompt(struct conn *conn, const struct request *request, uint64_t *ret_seq,
	bool *ret_duplicate, struct refusal *refusal);
/** False for a queued prompt of another user, unless the client is an administrator. */
bool conn_may_change(const struct conn *conn, const struct session *session, const char *prompt_id);
/** Handles an observer's requests about prompts. */
void ws_handle_prompts(struct conn *conn, const struct request *request, struct refusal *refusal);

#endif
